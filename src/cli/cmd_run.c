/* SPDX-License-Identifier: MIT */
/* `rutile run`: scripts in bpftrace's language. */
#include "cli/cmd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/signals.h"
#include "ebpf/disasm.h"
#include "cli/run_session.h"
#include "cli/script_screen.h"
#include "script/library.h"
#include "script/list.h"
#include "script/load.h"
#include "script/run.h"

enum {
	OPT_UNSAFE = 256,
	OPT_NO_WARNINGS,
	OPT_COMPAT,
	OPT_LIST,
	OPT_METRICS,
	OPT_MONITOR,
	OPT_SESSION
};

static const struct rut_opt options[] = {
	{"expression", "PROGRAM", "run this program instead of a file", 'e'},
	{"quiet", NULL, "print only what the script prints", 'q'},
	{"format", "FORMAT", "output format: text (default), json, or ctf (with -o)", 'f'},
	{"output", "FILE|DIR/", "write the output to FILE, or a trace of it to DIR", 'o'},
	{"pid", "PID", "probes of programs in this process only; ends when it ends", 'p'},
	{"command", "COMMAND", "run COMMAND, and end when it ends", 'c'},
	{"probes", NULL, "list the probes that match, instead of running", 'l'},
	{"list", NULL, "list the scripts that are installed", OPT_LIST},
	{"verbose", NULL, "with -l: their arguments", 'v'},
	{"dry-run", NULL, "compile and show the eBPF, run nothing", 'd'},
	{"metrics", "PORT|FILE", "export the maps as OpenMetrics at PORT (of 127.0.0.1) or to FILE",
	 OPT_METRICS},
	{"monitor", NULL, "show the maps on a live screen", OPT_MONITOR},
	{"session", "NAME", "the session that snapshot() and stop() of the script act on",
	 OPT_SESSION},
	{"unsafe", NULL, "permit system() and signal()", OPT_UNSAFE},
	{"no-warnings", NULL, "no warnings, no counts of lost events", OPT_NO_WARNINGS},
	{"compat", "VERSION", "output as bpftrace 0.17 or 0.23 has it", OPT_COMPAT},
	{0},
};

struct run_data {
	const char *program, *file, *output;
	struct rut_script_opts script;
	struct rut_script_run_opts run;
	bool dump, list, verbose, scripts, monitor, ctf;
	const char *command;
	struct rut_run_session session;
	char *path; /* owned; of a script that was found by name */
};

static int set_compat(const struct rut_cmd *cmd, const char *version, struct run_data *d)
{
	if (!strncmp(version, "0.17", 4))
		d->script.compat = 17;
	else if (!strncmp(version, "0.23", 4))
		d->script.compat = 23;
	else
		return rut_usage_error(cmd, "invalid version '%s': 0.17 or 0.23", version);
	return RUT_EXIT_OK;
}

static int set_format(const struct rut_cmd *cmd, const char *format, struct run_data *d)
{
	d->run.json = !strcmp(format, "json");
	d->ctf = !strcmp(format, "ctf");
	if (!d->run.json && !d->ctf && strcmp(format, "text") != 0)
		return rut_usage_error(cmd, "invalid format '%s': text, json or ctf", format);
	return RUT_EXIT_OK;
}

static int set_option(const struct rut_cmd *cmd, struct rut_args *a, int opt, struct run_data *d)
{
	uint64_t pid;

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
		if (rut_parse_u64(a->value, &pid) || !pid || pid > INT32_MAX)
			return rut_usage_error(cmd, "invalid process '%s'", a->value);
		d->script.pid = d->run.watch = (int32_t)pid;
		break;
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
		d->verbose = true;
		break;
	case 'd':
		d->dump = true;
		break;
	case 'o':
		d->output = a->value;
		break;
	case OPT_SESSION:
		d->session.name = a->value;
		d->script.beside = true;
		d->run.act = rut_run_session_act;
		d->run.act_arg = &d->session;
		break;
	case OPT_UNSAFE:
		d->script.unsafe = d->run.unsafe = true;
		break;
	case OPT_NO_WARNINGS:
		d->run.no_warnings = true;
		break;
	case OPT_COMPAT:
		return set_compat(cmd, a->value, d);
	}
	return RUT_EXIT_OK;
}

/* The script's own arguments begin behind its name. */
static int parse(const struct rut_cmd *cmd, int argc, char **argv, struct run_data *d)
{
	struct rut_args a;
	int opt, rc = RUT_EXIT_OK;

	rut_args_init(&a, cmd, argc, argv);
	while (!rc && (opt = rut_args_next(&a)) != RUT_ARGS_END) {
		if (opt == RUT_ARGS_BAD)
			return RUT_EXIT_USAGE;
		if (opt == RUT_ARGS_HELP)
			return RUT_ARGS_HELP;
		if (opt == RUT_ARGS_DASHES) {
			break;
		}
		if (opt == RUT_ARGS_POSITIONAL) {
			if (d->program) {
				a.next--;
				break;
			}
			d->file = a.value;
			break;
		}
		rc = set_option(cmd, &a, opt, d);
	}
	if (rc)
		return rc;
	if (!d->program && !d->file && a.next < argc)
		d->file = argv[a.next++];
	if (!d->program && !d->file && !d->list && !d->scripts)
		return rut_usage_error(
			cmd, "a script is missing: a FILE, a NAME of --list, or -e PROGRAM");
	d->script.params = (const char *const *)argv + a.next;
	d->script.nparams = (size_t)(argc - a.next);
	return RUT_EXIT_OK;
}

static int read_script(struct run_data *d, struct rut_buf *text, struct rut_err *err)
{
	int rc;

	if (d->program) {
		rut_buf_puts(text, d->program);
		d->script.name = "stdin";
		return 0;
	}
	d->script.name = d->file;
	if (!strcmp(d->file, "-")) {
		d->script.name = "stdin";
		d->file = "/dev/stdin";
	}
	/* A word that is no file is the name of a script that is installed. */
	if (!strchr(d->file, '/') && access(d->file, F_OK)) {
		rc = rut_script_library_find(&d->path, d->file, err);
		if (rc)
			return rc;
		d->file = d->script.name = d->path;
	}
	rc = rut_buf_read_file(text, d->file, 16u << 20);
	return rc ? rut_err_errno(err, -rc, "cannot open '%s'", d->file) : 0;
}

static void dump(const struct rut_script_program *p, FILE *out)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	for (size_t i = 0; i < p->nprogs; i++) {
		const struct rut_script_prog *prog = &p->progs[i];

		rut_buf_printf(&text, "%s: %zu instructions, %zu probes\n",
			       prog->nattach ? prog->attach[0].name : "", prog->ninsns,
			       prog->nattach);
		for (size_t at = 0; at < prog->ninsns;)
			at += rut_disasm(prog->insns, at, &text);
	}
	if (text.data)
		fputs(text.data, out);
}

static int list_scripts(const struct rut_cmd *cmd, const struct run_data *d)
{
	struct rut_script_entry *scripts;
	struct rut_err err = RUT_ERR_INIT;
	size_t count;

	if (rut_script_library_list(&scripts, &count)) {
		rut_err_set(&err, ENOMEM, "out of memory");
		return rut_fail(cmd, &err);
	}
	for (size_t i = 0; i < count; i++)
		fprintf(d->run.out, "%-14s %s\n", scripts[i].name, scripts[i].summary);
	rut_script_library_free(scripts, count);
	return RUT_EXIT_OK;
}

static int list(const struct rut_cmd *cmd, const struct run_data *d)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	struct rut_err err = RUT_ERR_INIT;

	if (rut_script_list(d->file, d->verbose, &text, &err))
		return rut_fail(cmd, &err);
	if (text.data)
		fputs(text.data, d->run.out);
	return RUT_EXIT_OK;
}

/* The command waits until the script is attached. */
static int start_command(struct run_data *d, struct rut_err *err)
{
	wordexp_t words;
	int go[2];
	pid_t pid;
	char byte;

	/* Not by a shell, which would be the traced process in its place. */
	if (wordexp(d->command, &words, WRDE_NOCMD) || !words.we_wordc)
		return rut_err_set(err, EINVAL, "cannot split the command '%s' into words",
				   d->command);
	if (pipe2(go, O_CLOEXEC))
		return rut_err_errno(err, errno, "cannot make a pipe");
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return rut_err_errno(err, errno, "cannot start the command");
	if (!pid) {
		close(go[1]);
		rut_signals_inherit();
		if (read(go[0], &byte, 1) == 1)
			execvp(words.we_wordv[0], words.we_wordv);
		_exit(127);
	}
	wordfree(&words);

	close(go[0]);
	d->run.child = d->script.pid = pid;
	d->script.child = true;
	d->run.child_go = go[1];
	return 0;
}

/* Without its byte it ends by itself. */
static void end_command(struct run_data *d)
{
	if (d->run.child_go >= 0)
		close(d->run.child_go);
	if (d->run.child)
		waitpid(d->run.child, NULL, WNOHANG);
}

/* What the script prints is kept while the screen is shown. */
static int run_monitored(struct run_data *d, struct rut_script_program *p, int *ret_code,
			 struct rut_err *err)
{
	struct rut_script_run_opts opts = d->run;
	struct rut_script_screen *screen;
	int rc = rut_script_screen_open(&screen, d->script.name, &opts.out, err);

	if (rc)
		return rc;
	opts.err = opts.out;
	opts.round = rut_script_screen_round;
	opts.round_arg = screen;
	rc = rut_script_run(p, &opts, ret_code, err);
	rut_script_screen_close(screen, d->run.out);
	return rc;
}

static int run_script(const struct rut_cmd *cmd, struct run_data *d)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	struct rut_script_program *p = NULL;
	struct rut_err err = RUT_ERR_INIT;
	int code = 0, rc = read_script(d, &text, &err);

	if (!rc)
		rc = rut_run_session_check(&d->session, &err);
	if (!rc && d->command)
		rc = start_command(d, &err);
	if (!rc)
		rc = rut_script_compile(&p, text.data ? text.data : "", text.len, &d->script, &err);
	if (!rc && d->dump)
		dump(p, d->run.out);
	else if (!rc)
		rc = rut_script_load(p, &err);
	if (p && p->src.messages.len && !(d->run.no_warnings && !p->src.errors))
		fputs(p->src.messages.data, stderr);
	if (!rc && !d->dump && d->monitor)
		rc = run_monitored(d, p, &code, &err);
	else if (!rc && !d->dump)
		rc = rut_script_run(p, &d->run, &code, &err);
	if (rc && (err.code || !p))
		rut_fail(cmd, &err);
	rut_script_free(p);
	rut_run_session_end(&d->session);
	end_command(d);
	return rc ? RUT_EXIT_FAIL : code & 255;
}

/*
 * A trace is a directory: one that exists, or a name that ends as one of a trace. All else is a
 * file of text, as bpftrace has it.
 */
static bool is_trace(const struct run_data *d)
{
	const char *path = d->output, *dot;
	struct stat st;

	if (d->ctf)
		return true;
	if (!stat(path, &st))
		return S_ISDIR(st.st_mode);
	dot = strrchr(path, '.');
	return path[strlen(path) - 1] == '/' ||
	       (dot && (!strcmp(dot, ".trace") || !strcmp(dot, ".ctf")));
}

static int open_output(const struct rut_cmd *cmd, struct run_data *d)
{
	struct rut_err err = RUT_ERR_INIT;

	if (!d->output[0])
		return rut_usage_error(cmd, "the name of the output is empty");
	if (is_trace(d)) {
		d->run.trace = d->output;
		d->script.trace = true;
		return 0;
	}
	d->run.out = fopen(d->output, "we");
	if (d->run.out)
		return 0;
	d->run.out = stdout;
	rut_err_errno(&err, errno, "cannot open '%s'", d->output);
	return rut_fail(cmd, &err);
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct run_data d = {.run = {.out = stdout, .err = stderr, .child_go = -1}};
	int rc = parse(cmd, argc, argv, &d);

	if (rc)
		return rc == RUT_ARGS_HELP ? RUT_EXIT_OK : rc;
	if (d.ctf && !d.output)
		return rut_usage_error(cmd, "-f ctf writes a directory: name it with -o DIR");
	rc = d.output ? open_output(cmd, &d) : 0;
	if (rc)
		return rc;
	rc = d.scripts ? list_scripts(cmd, &d) : d.list ? list(cmd, &d) : run_script(cmd, &d);
	free(d.path);
	if (d.run.out != stdout && fclose(d.run.out) && !rc) {
		fprintf(stderr, "rutile run: cannot write '%s'\n", d.output);
		rc = RUT_EXIT_FAIL;
	}
	return rc;
}

const struct rut_cmd cmd_run = {
	.name = "run",
	.summary = "run a script in bpftrace's language",
	.usage = "[OPTIONS] FILE|NAME [ARGUMENT...] | -e PROGRAM [ARGUMENT...]",
	.options = options,
	.run = run,
	.group = "Scripts",
};
