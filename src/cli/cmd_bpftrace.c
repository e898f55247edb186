/* SPDX-License-Identifier: MIT */
/*
 * The name bpftrace, which a build can install in that program's place: the same as `rutile run`,
 * with bpftrace's own help, and its form of messages, by which other programs know it.
 */
#include <stdio.h>
#include <string.h>

#include "cli/run_options.h"
#include "rut_config.h"
#include "script/kernel_has.h"

enum { COLUMNS = 30 };

static void usage(FILE *out)
{
	fputs("USAGE:\n"
	      "    bpftrace [options] filename [-- <program options>]\n"
	      "    bpftrace [options] - <stdin input>\n"
	      "    bpftrace [options] -e 'program'\n\n"
	      "OPTIONS:\n",
	      out);
	for (const struct rut_opt *o = rut_cli_run_opts; o->name; o++) {
		char text[80];

		if (!o->help)
			continue;
		snprintf(text, sizeof(text), "%c%c %s--%s%s%s", o->id < 128 ? '-' : ' ',
			 o->id < 128 ? o->id : ' ', o->id < 128 ? "" : " ", o->name,
			 o->arg ? " " : "", o->arg ? o->arg : "");
		fprintf(out, "    %-*s %s\n", COLUMNS, text, o->help);
	}
	fputs("    -h --help                      show this help\n"
	      "    -V --version                   show the version\n"
	      "    --info                         show what the kernel has\n",
	      out);
}

static int info(void)
{
	const struct rut_script_feature *features;
	size_t n = rut_script_features(&features);

	puts("Kernel features");
	for (size_t i = 0; i < n; i++)
		printf("  %s: %s\n", features[i].name, features[i].has() ? "yes" : "no");
	return RUT_EXIT_OK;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	int rc;

	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
			usage(stdout);
			return RUT_EXIT_OK;
		}
		if (!strcmp(argv[i], "-V") || !strcmp(argv[i], "--version")) {
			printf("bpftrace v%s (rutile %s)\n", RUT_SCRIPT_LANGUAGE, RUT_VERSION);
			return RUT_EXIT_OK;
		}
		if (!strcmp(argv[i], "--info"))
			return info();
		/* The word behind these is theirs. */
		if (!strcmp(argv[i], "-e") || !strcmp(argv[i], "-c") || !strcmp(argv[i], "-f"))
			i++;
	}
	rc = argc > 1 ? rut_cli_run(cmd, argc, argv) : RUT_EXIT_USAGE;
	if (rc == RUT_EXIT_USAGE) {
		usage(stderr);
		return RUT_EXIT_FAIL;
	}
	return rc;
}

const struct rut_cmd cmd_bpftrace = {
	.name = "bpftrace",
	.summary = "run a script in bpftrace's language",
	.usage = "[OPTIONS] FILE [ARGUMENT...] | -e PROGRAM [ARGUMENT...]",
	.options = rut_cli_run_opts,
	.run = run,
};
