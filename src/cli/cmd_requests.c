/* SPDX-License-Identifier: MIT */
/* `rutile requests`: what an application serves, and where the time of it goes. */
#include "cli/requests_trace.h"

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_requests_trace(cmd, argc, argv);
}

const struct rut_cmd cmd_requests = {
	.name = "requests",
	.group = "Analyses of Ruby events in traces",
	.summary = "requests by route, and where their time went",
	.usage = "[OPTIONS] TRACE...",
	.options = rut_opts_requests,
	.run = run,
};
