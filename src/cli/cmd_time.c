/* SPDX-License-Identifier: MIT */
/* `rutile time`: see ruby_live.h. */
#include "cli/cmd.h"
#include "cli/ruby_live.h"

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_live_main(cmd, argc, argv, RUT_RUBY_TIME);
}

const struct rut_cmd cmd_time = {
	.name = "time",
	.group = "Ruby, live",
	.summary = "show where a Ruby application spends its time, by method",
	.usage = "[OPTIONS] [app|all] TARGET... | -- COMMAND [ARGS]",
	.options = rut_cli_time_options,
	.run = run,
};
