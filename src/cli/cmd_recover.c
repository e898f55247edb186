/* SPDX-License-Identifier: MIT */
/* `rutile recover`: the sessions in the memory dump of a crashed kernel, as traces. */
#include <stdio.h>

#include "cli/cmd.h"
#include "session/recover.h"

static const struct rut_opt options[] = {
	{"output", "DIR", "write the traces below DIR (default: the current folder)", 'o'},
	{0},
};

static void on_found(const struct rut_recovered *f, void *arg)
{
	printf("%s: %.1f MiB in %llu packets", f->path, (double)f->bytes / 1048576,
	       (unsigned long long)f->packets);
	if (f->damaged)
		printf(", %llu incomplete or not in the dump", (unsigned long long)f->damaged);
	printf("\n");
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct rut_err err = RUT_ERR_INIT;
	const char *dump = NULL, *dir = ".";
	struct rut_args a;
	int id;

	rut_args_init(&a, cmd, argc, argv);
	while ((id = rut_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_HELP)
			return RUT_EXIT_OK;
		if (id == RUT_ARGS_POSITIONAL && !dump)
			dump = a.value;
		else if (id == 'o')
			dir = a.value;
		else if (id == RUT_ARGS_POSITIONAL)
			return rut_usage_error(cmd, "one dump only, not '%s' too", a.value);
		else if (id != RUT_ARGS_DASHES)
			return RUT_EXIT_USAGE;
	}
	if (!dump)
		return rut_usage_error(cmd, "the memory dump is missing");
	return rut_recover(dump, dir, on_found, NULL, &err) < 0 ? rut_fail(cmd, &err) : RUT_EXIT_OK;
}

const struct rut_cmd cmd_recover = {
	.name = "recover",
	.group = "Record",
	.summary = "read the flight recorders out of a crashed kernel's memory dump",
	.usage = "VMCORE [-o DIR]",
	.options = options,
	.run = run,
};
