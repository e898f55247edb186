/* SPDX-License-Identifier: MIT */
/* The command line of `rutile run`, and of the name bpftrace. */
#include "cli/run_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

/* The kernel's own limit of PIDs. */
#define RUT_PID_MAX (4u << 20)

enum {
	OPT_UNSAFE = 256,
	OPT_NO_WARNINGS,
	OPT_COMPAT,
	OPT_LIST,
	OPT_METRICS,
	OPT_MONITOR,
	OPT_SESSION,
	OPT_MODE,
	OPT_BENCH,
	OPT_TEST,
	OPT_IGNORED,
	OPT_PROBE_FILTER,
	OPT_AOT,
};

const struct rut_opt rut_cli_run_opts[] = {
	{"expression", "PROGRAM", "run this program instead of a file", 'e'},
	{"quiet", NULL, "print only what the script prints", 'q'},
	{"format", "FORMAT", "output format: text (default), json, or ctf (with -o)", 'f'},
	{"output", "FILE|DIR/", "write the output to FILE, or a trace of it to DIR", 'o'},
	{"pid", "PID|NAME",
	 "attach probes of programs and of Ruby only to this process (Ruby: and its children), "
	 "and end with it; NAME as in 'rutile ps'",
	 'p'},
	{"command", "COMMAND", "run COMMAND, and end when it ends", 'c'},
	{"probes", NULL, "list the probes that match, instead of running", 'l'},
	{"list", NULL, "list the installed scripts", OPT_LIST},
	{"verbose", NULL,
	 "with -l: print the probes' arguments; otherwise say why in() reads stacks, and show the "
	 "kernel's log of a program that it refuses",
	 'v'},
	{"dry-run", NULL, "compile and show the eBPF, run nothing", 'd'},
	{"metrics", "PORT|FILE", "export the maps as OpenMetrics at PORT (of 127.0.0.1) or to FILE",
	 OPT_METRICS},
	{"monitor", NULL, "show the maps on a live screen", OPT_MONITOR},
	{"session", "NAME", "the session that snapshot() and stop() of the script act on",
	 OPT_SESSION},
	{"unsafe", NULL, "permit system() and signal()", OPT_UNSAFE},
	{"no-warnings", NULL, "no warnings and no report of losses", OPT_NO_WARNINGS},
	{"mode", "bench|test", "run only the bench or test probes", OPT_MODE},
	{"bench", NULL, NULL, OPT_BENCH},
	{"test", NULL, NULL, OPT_TEST},
	{"cmd", "COMMAND", NULL, 'c'},
	/* Of bpftrace, where they say what is always so here, or what BTF says. */
	{"include", "FILE", NULL, OPT_IGNORED},
	{"include-dir", "DIR", NULL, 'I'},
	{"warn-helper-errors", NULL, NULL, 'k'},
	{"buffering", "MODE", NULL, 'B'},
	{"usdt-file-activation", NULL, NULL, OPT_IGNORED},
	{"verify-llvm-ir", NULL, NULL, OPT_IGNORED},
	{"debuginfo", "DIR", NULL, OPT_IGNORED},
	{"dwarf-pid", "PID", NULL, OPT_IGNORED},
	{"no-feature", "LIST", NULL, OPT_IGNORED},
	{"aot", "FILE", NULL, OPT_AOT},
	{"emit-elf", "FILE", NULL, OPT_AOT},
	{"probe-filter", "REGEX", "attach only the probes whose names match, and begin and end",
	 OPT_PROBE_FILTER},
	{"compat", "VERSION", "output in the format of bpftrace 0.17 or 0.23", OPT_COMPAT},
	{0},
};

static int set_compat(const struct rut_cmd *cmd, const char *version, struct rut_run_data *d)
{
	if (!strncmp(version, "0.17", 4))
		d->script.compat = 17;
	else if (!strncmp(version, "0.23", 4))
		d->script.compat = 23;
	else
		return rut_cli_usage_error(cmd, "invalid version '%s': 0.17 or 0.23", version);
	return RUT_EXIT_OK;
}

static int set_format(const struct rut_cmd *cmd, const char *format, struct rut_run_data *d)
{
	d->run.json = !strcmp(format, "json");
	d->ctf = !strcmp(format, "ctf");
	if (d->as_bpftrace && !d->run.json && strcmp(format, "text") != 0) {
		fprintf(stderr, "ERROR: Invalid output format \"%s\"\n", format);
		return RUT_EXIT_FAIL;
	}
	if (!d->run.json && !d->ctf && strcmp(format, "text") != 0)
		return rut_cli_usage_error(cmd, "invalid format '%s': text, json or ctf", format);
	return RUT_EXIT_OK;
}

static int set_mode(const struct rut_cmd *cmd, const char *mode, struct rut_run_data *d)
{
	if (!strcmp(mode, "bench"))
		d->script.mode = RUT_SCRIPT_BENCH;
	else if (!strcmp(mode, "test"))
		d->script.mode = RUT_SCRIPT_TEST;
	else
		return rut_cli_usage_error(cmd, "invalid mode '%s': bench or test", mode);
	return RUT_EXIT_OK;
}

static void set_session(struct rut_run_data *d, const char *name)
{
	d->session.name = name;
	d->script.beside = true;
	d->run.act = rut_cli_run_session_act;
	d->run.act_arg = &d->session;
}

/* The messages are bpftrace's, too. */
static int set_bpftrace_process(const char *word, struct rut_run_data *d)
{
	uint64_t pid = 0;
	char *end;

	(void)strtoull(word, &end, 0);
	if (end == word || *end) {
		fprintf(stderr, "ERROR: Failed to parse pid: invalid %s: %s\n",
			end == word ? "integer" : "trailing bytes", word);
		return RUT_EXIT_FAIL;
	}
	if (rut_parse_u64(word, &pid) || !pid || pid > RUT_PID_MAX) {
		fprintf(stderr, "ERROR: Pid out of range: %s\n", word);
		return RUT_EXIT_FAIL;
	}
	d->script.pid = d->run.watch = (int32_t)pid;
	return RUT_EXIT_OK;
}

static int set_process(const struct rut_cmd *cmd, const char *word, struct rut_run_data *d)
{
	uint64_t pid;
	bool number = !rut_parse_u64(word, &pid);

	if (d->as_bpftrace)
		return set_bpftrace_process(word, d);
	if (!word[0] || (number && (!pid || pid > INT32_MAX)))
		return rut_cli_usage_error(cmd, "invalid process '%s'", word);
	if (number)
		d->script.pid = d->run.watch = (int32_t)pid;
	return rut_cli_words_add(&d->words, word) ? RUT_EXIT_FAIL : RUT_EXIT_OK;
}

static int set_option(const struct rut_cmd *cmd, struct rut_args *a, int opt,
		      struct rut_run_data *d)
{
	switch (opt) {
	case 'e':
		d->program = a->value;
		break;
	case 'q':
		d->run.quiet = true;
		break;
	case 'f':
		return set_format(cmd, a->value, d);
	case 'p':
		return set_process(cmd, a->value, d);
	case 'c':
		d->command = a->value;
		break;
	case 'l':
		d->list = true;
		break;
	case OPT_LIST:
		d->scripts = true;
		break;
	case OPT_METRICS:
		d->run.metrics = a->value;
		break;
	case OPT_MONITOR:
		d->monitor = true;
		break;
	case 'v':
		d->verbose = d->run.verbose = d->script.verbose = true;
		break;
	case 'd':
		d->dump = true;
		break;
	case 'o':
		d->output = a->value;
		break;
	case OPT_SESSION:
		set_session(d, a->value);
		break;
	case OPT_UNSAFE:
		d->script.unsafe = d->run.unsafe = true;
		break;
	case OPT_NO_WARNINGS:
		d->run.no_warnings = true;
		break;
	case OPT_MODE:
		return set_mode(cmd, a->value, d);
	case OPT_BENCH:
	case OPT_TEST:
		return set_mode(cmd, opt == OPT_BENCH ? "bench" : "test", d);
	case OPT_COMPAT:
		return set_compat(cmd, a->value, d);
	case OPT_PROBE_FILTER:
		d->script.probe_filter = a->value;
		break;
	case OPT_AOT:
		return rut_cli_usage_error(cmd, "there are no programs ahead of time: 'rutile "
						"service compile' stores a script as bytecode");
	}
	return RUT_EXIT_OK;
}

/* A number below zero is no option. */
static bool is_number(const struct rut_args *a)
{
	const char *word = a->next < a->argc ? a->argv[a->next] : "";

	return (!a->rest || !*a->rest) && word[0] == '-' && word[1] >= '0' && word[1] <= '9';
}

/* A word of the script's own: its file, when there is no -e, or an argument. */
static void take_word(struct rut_run_data *d, const char *word, bool behind_dashes)
{
	if (behind_dashes && !strncmp(word, "--", 2) && word[2])
		d->named[d->script.nnamed++] = word + 2;
	else if (!d->program && !d->file)
		d->file = word;
	else
		d->params[d->script.nparams++] = word;
}

int rut_cli_run_parse(const struct rut_cmd *cmd, int argc, char **argv, struct rut_run_data *d)
{
	struct rut_args a;
	int opt, rc = RUT_EXIT_OK;

	d->params = calloc((size_t)argc + 1, sizeof(*d->params));
	d->named = calloc((size_t)argc + 1, sizeof(*d->named));
	if (!d->params || !d->named)
		return rut_cli_usage_error(cmd, "out of memory");
	rut_cli_args_init(&a, cmd, argc, argv);
	for (;;) {
		if (!a.only_positional && is_number(&a)) {
			take_word(d, argv[a.next++], false);
			continue;
		}
		opt = rut_cli_args_next(&a);
		if (opt == RUT_ARGS_END)
			break;
		if (opt == RUT_ARGS_BAD)
			return RUT_EXIT_USAGE;
		if (opt == RUT_ARGS_HELP)
			return RUT_ARGS_HELP;
		if (opt == RUT_ARGS_POSITIONAL)
			take_word(d, a.value, a.only_positional);
		else if (opt != RUT_ARGS_DASHES)
			rc = set_option(cmd, &a, opt, d);
		if (rc)
			return rc;
	}
	/* The file may have come before -e. */
	if (d->program && d->file && !d->list) {
		memmove(d->params + 1, d->params, d->script.nparams * sizeof(*d->params));
		d->params[0] = d->file;
		d->script.nparams++;
		d->file = NULL;
	}
	if (!d->program && !d->file && !d->list && !d->scripts)
		return rut_cli_usage_error(
			cmd, "a script is missing: a FILE, a NAME of --list, or -e PROGRAM");
	d->script.params = d->params;
	d->script.named = d->named;
	return RUT_EXIT_OK;
}
