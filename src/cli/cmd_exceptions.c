/* SPDX-License-Identifier: MIT */
/* `rutile exceptions`: see ruby_live.h. */
#include "cli/cmd.h"
#include "cli/ruby_live.h"

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_live_main(cmd, argc, argv, RUT_RUBY_RAISES);
}

const struct rut_cmd cmd_exceptions = {
	.name = "exceptions",
	.group = "Ruby, live",
	.summary = "show which exceptions a Ruby application raises, where and how often",
	.usage = "[OPTIONS] [app|all] TARGET... | -- COMMAND [ARGS]",
	.options = rut_cli_live_options,
	.run = run,
};
