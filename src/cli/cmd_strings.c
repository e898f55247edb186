/* SPDX-License-Identifier: MIT */
/* `rutile strings`: see ruby_live.h. */
#include "cli/cmd.h"
#include "cli/ruby_live.h"

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_live_main(cmd, argc, argv, RUT_RUBY_STRINGS);
}

const struct rut_cmd cmd_strings = {
	.name = "strings",
	.group = "Ruby, live",
	.summary = "show where a Ruby application allocates strings",
	.usage = "[OPTIONS] [app|all] TARGET... | -- COMMAND [ARGS]",
	.options = rut_cli_live_options,
	.run = run,
};
