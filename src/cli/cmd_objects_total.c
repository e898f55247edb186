/* SPDX-License-Identifier: MIT */
/* `rutile objects-total`: see ruby_live.h. */
#include "cli/cmd.h"
#include "cli/ruby_live.h"

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_live_main(cmd, argc, argv, RUT_RUBY_OBJECTS_TOTAL);
}

const struct rut_cmd cmd_objects_total = {
	.name = "objects-total",
	.group = "Ruby, live",
	.summary = "show what a Ruby application allocates, by class",
	.usage = "[OPTIONS] [app|all] TARGET... | -- COMMAND [ARGS]",
	.options = rut_cli_live_options,
	.run = run,
};
