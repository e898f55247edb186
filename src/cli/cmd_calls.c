/* SPDX-License-Identifier: MIT */
/* `rutile calls`: see ruby_live.h. */
#include "cli/cmd.h"
#include "cli/ruby_live.h"

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_live_main(cmd, argc, argv, RUT_RUBY_CALLS);
}

const struct rut_cmd cmd_calls = {
	.name = "calls",
	.group = "Ruby, live",
	.summary = "show which methods a Ruby application calls, and how often",
	.usage = "[OPTIONS] [app|all] TARGET... | -- COMMAND [ARGS]",
	.options = rut_cli_calls_options,
	.run = run,
};
