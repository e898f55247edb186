/* SPDX-License-Identifier: MIT */
/* `rutile objects`: see ruby_live.h. */
#include "cli/cmd.h"
#include "cli/ruby_live.h"

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_live_main(cmd, argc, argv, RUT_RUBY_OBJECTS);
}

const struct rut_cmd cmd_objects = {
	.name = "objects",
	.group = "Ruby, live",
	.summary = "show what a Ruby application allocates, by line and class",
	.usage = "[OPTIONS] [app|all] TARGET... | -- COMMAND [ARGS]",
	.options = rut_cli_live_options,
	.run = run,
};
