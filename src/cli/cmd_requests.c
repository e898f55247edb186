/* SPDX-License-Identifier: MIT */
/* `rutile requests`: the requests that an application serves and how their time is spent, live or
 * from a trace.
 */
#include <string.h>
#include <unistd.h>

#include "cli/requests_live.h"
#include "cli/requests_trace.h"

/* The option that this word is, when its argument is the next word; NULL: it is not. */
static const struct rut_opt *with_argument(const char *word)
{
	const struct rut_opt *o = rut_cli_opts_requests;

	for (; o->name; o++) {
		bool is = word[1] == '-' ? strcmp(word + 2, o->name) == 0
					 : o->id < 127 && word[1] == o->id && !word[2];

		if (is && o->arg && *o->arg != '[')
			return o;
	}
	return NULL;
}

/* Is it a trace, not a process? A word of digits is a PID, even if there is a file of that name. */
static bool is_trace(const char *word)
{
	if (!word[strspn(word, "0123456789")])
		return false;
	return strchr(word, '/') || access(word, F_OK) == 0;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	bool live = false;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			live = true;
			break;
		}
		if (argv[i][0] == '-' && with_argument(argv[i]))
			i++;
		else if (argv[i][0] != '-' && is_trace(argv[i]))
			return rut_cli_requests_trace(cmd, argc, argv);
		else if (argv[i][0] != '-')
			live = true;
	}
	return live ? rut_cli_requests_live(cmd, argc, argv)
		    : rut_cli_requests_trace(cmd, argc, argv);
}

const struct rut_cmd cmd_requests = {
	.name = "requests",
	.group = "Analyses of Ruby events in traces",
	.summary = "show requests by route, and where their time went",
	.usage = "[OPTIONS] TRACE... | TARGET... | -- COMMAND [ARGS]",
	.options = rut_cli_opts_requests,
	.run = run,
};
