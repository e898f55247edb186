/* SPDX-License-Identifier: MIT */
/* Finds the verb and runs it. Names of links (foreman-tracer, lttng-*) choose a verb too. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/signals.h"
#include "cli/cmd.h"
#include "output/text.h"
#include "rut_config.h"
#include "session/own.h"

static int run_verb(const char *name, int argc, char **argv)
{
	const struct rut_cmd *cmd = rut_cli_cmd_find(name), *like;

	if (cmd)
		return cmd->run(cmd, argc, argv);
	like = rut_cli_cmd_like(name);
	if (name[0] == '-')
		fprintf(stderr, "rutile: unknown option '%s' (see 'rutile help')\n", name);
	else if (like)
		fprintf(stderr,
			"rutile: unknown verb '%s': did you mean '%s'? (see 'rutile help')\n", name,
			like->name);
	else
		fprintf(stderr, "rutile: unknown verb '%s' (see 'rutile help')\n", name);
	return RUT_EXIT_USAGE;
}

/* lttng-NAME and lttng-NAME-mi: the names under which Trace Compass looks for analyses. */
static const struct rut_cmd *find_lttng(const char *name)
{
	size_t len = strlen(name);

	if (strncmp(name, "lttng-", 6) != 0)
		return NULL;
	if (len > 9 && !strcmp(name + len - 3, "-mi"))
		len -= 3;
	for (const struct rut_cmd *const *c = rut_cli_cmds; *c; c++)
		if (strlen((*c)->name) == len - 6 && !strncmp((*c)->name, name + 6, len - 6))
			return *c;
	return NULL;
}

static const struct rut_cmd *find_link(const char *path)
{
	const char *slash = strrchr(path, '/');

	for (const struct rut_cmd *const *c = rut_cli_links; *c; c++)
		if (!strcmp((*c)->name, slash ? slash + 1 : path))
			return *c;
	return find_lttng(slash ? slash + 1 : path);
}

static int choose(int argc, char **argv)
{
	const struct rut_cmd *link;

	link = find_link(argv[0]);
	if (link)
		return link->run(link, argc, argv);
	if (argc < 2) {
		run_verb("help", 1, argv);
		return RUT_EXIT_USAGE;
	}
	link = find_link(argv[1]);
	if (link)
		return link->run(link, argc - 1, argv + 1);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("rutile %s\n", RUT_VERSION);
		return RUT_EXIT_OK;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return run_verb("help", argc - 1, argv + 1);
	return run_verb(argv[1], argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int rc;

	rut_signals_note();
	rut_log_set_sink(rut_cli_log, NULL);
	rut_text_init();
	rut_own_join();
	rc = choose(argc, argv);
	/* What is still in the buffer may not fit on the disk either. */
	if (fflush(stdout) && errno != EPIPE && rc == RUT_EXIT_OK) {
		fprintf(stderr, "rutile: cannot write: %s\n", strerror(errno));
		rc = RUT_EXIT_FAIL;
	}
	return rc;
}
