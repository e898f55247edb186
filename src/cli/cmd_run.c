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
#include "cli/ruby_target.h"
#include "cli/script_screen.h"
#include "script/library.h"
#include "script/list.h"
#include "script/load.h"
#include "script/ruby_attach.h"
#include "script/run.h"

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
};

static const struct rut_opt options[] = {
	{"expression", "PROGRAM", "run this program instead of a file", 'e'},
	{"quiet", NULL, "print only what the script prints", 'q'},
	{"format", "FORMAT", "output format: text (default), json, or ctf (with -o)", 'f'},
	{"output", "FILE|DIR/", "write the output to FILE, or a trace of it to DIR", 'o'},
	{"pid", "PID|NAME",
	 "probes of programs and of Ruby in this process only, of Ruby also in what it "
	 "starts; ends when it ends. NAME: of 'rutile ps'",
	 'p'},
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
	{"mode", "bench|test", "run the bench or the test probes, and no others", OPT_MODE},
	{"bench", NULL, NULL, OPT_BENCH},
	{"test", NULL, NULL, OPT_TEST},
	{"cmd", "COMMAND", NULL, 'c'},
	/* Of bpftrace, where they say what is always so here, or what BTF says. */
	{"include", "FILE", NULL, OPT_IGNORED},
	{"include-dir", "DIR", NULL, 'I'},
	{"warn-helper-errors", NULL, NULL, 'k'},
	{"buffering", "MODE", NULL, 'B'},
	{"usdt-file-activation", NULL, NULL, OPT_IGNORED},
	{"compat", "VERSION", "output as bpftrace 0.17 or 0.23 has it", OPT_COMPAT},
	{0},
};

struct run_data {
	const char *program, *file, *output;
	struct rut_script_opts script;
	struct rut_script_run_opts run;
	bool dump, list, verbose, scripts, monitor, ctf;
	const char *command;
	struct rut_words words; /* of -p, that are not a number */
	struct rut_targets targets;
	struct rut_run_session session;
	char *path;		      /* owned; of a script that was found by name */
	const char **params, **named; /* owned */
};

static int set_compat(const struct rut_cmd *cmd, const char *version, struct run_data *d)
{
	if (!strncmp(version, "0.17", 4))
		d->script.compat = 17;
	else if (!strncmp(version, "0.23", 4))
		d->script.compat = 23;
	else
		return rut_cli_usage_error(cmd, "invalid version '%s': 0.17 or 0.23", version);
	return RUT_EXIT_OK;
}

static int set_format(const struct rut_cmd *cmd, const char *format, struct run_data *d)
{
	d->run.json = !strcmp(format, "json");
	d->ctf = !strcmp(format, "ctf");
	if (!d->run.json && !d->ctf && strcmp(format, "text") != 0)
		return rut_cli_usage_error(cmd, "invalid format '%s': text, json or ctf", format);
	return RUT_EXIT_OK;
}

static int set_mode(const struct rut_cmd *cmd, const char *mode, struct run_data *d)
{
	if (!strcmp(mode, "bench"))
		d->script.mode = RUT_SCRIPT_BENCH;
	else if (!strcmp(mode, "test"))
		d->script.mode = RUT_SCRIPT_TEST;
	else
		return rut_cli_usage_error(cmd, "invalid mode '%s': bench or test", mode);
	return RUT_EXIT_OK;
}

static void set_session(struct run_data *d, const char *name)
{
	d->session.name = name;
	d->script.beside = true;
	d->run.act = rut_cli_run_session_act;
	d->run.act_arg = &d->session;
}

static int set_process(const struct rut_cmd *cmd, const char *word, struct run_data *d)
{
	uint64_t pid;
	bool number = !rut_parse_u64(word, &pid);

	if (!word[0] || (number && (!pid || pid > INT32_MAX)))
		return rut_cli_usage_error(cmd, "invalid process '%s'", word);
	if (number)
		d->script.pid = d->run.watch = (int32_t)pid;
	return rut_cli_words_add(&d->words, word) ? RUT_EXIT_FAIL : RUT_EXIT_OK;
}

static int set_option(const struct rut_cmd *cmd, struct rut_args *a, int opt, struct run_data *d)
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
		d->verbose = true;
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
static void take_word(struct run_data *d, const char *word, bool behind_dashes)
{
	if (behind_dashes && !strncmp(word, "--", 2) && word[2])
		d->named[d->script.nnamed++] = word + 2;
	else if (!d->program && !d->file)
		d->file = word;
	else
		d->params[d->script.nparams++] = word;
}

/* Options may stand behind the script, too; "--" comes before options of the script itself. */
static int parse(const struct rut_cmd *cmd, int argc, char **argv, struct run_data *d)
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
		return rut_cli_fail(cmd, &err);
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
		return rut_cli_fail(cmd, &err);
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
	int rc = rut_cli_script_screen_open(&screen, d->script.name, &opts.out, err);

	if (rc)
		return rc;
	opts.err = opts.out;
	opts.round = rut_cli_script_screen_round;
	opts.round_arg = screen;
	rc = rut_script_run(p, &opts, ret_code, err);
	rut_cli_script_screen_close(screen, d->run.out);
	return rc;
}

static int find_targets(struct run_data *d, struct rut_err *err)
{
	struct rut_ruby_opts opts = {.targets = d->words};
	int rc = d->targets.count ? 0 : rut_cli_targets_find(&d->targets, &opts, err);

	d->script.targets = d->targets.pids;
	d->script.ntargets = d->targets.count;
	return rc;
}

/* A name is looked for before the script is compiled: its functions may be that process's. */
static int find_named(struct run_data *d, struct rut_err *err)
{
	int rc;

	if (!d->words.count || (d->words.count == 1 && d->script.pid))
		return 0;
	rc = find_targets(d, err);
	d->script.pid = d->run.watch = rc || d->targets.count != 1 ? 0 : d->targets.pids[0];
	return rc;
}

/* A perf event is of one process or of all: with several, no probe may be of "the" process. */
static int check_several(struct rut_script_program *p, size_t count)
{
	for (size_t i = 0; i < p->nprogs; i++) {
		const struct rut_script_prog *prog = &p->progs[i];

		switch (prog->nattach ? prog->attach[0].kind : RUT_PROBE_BEGIN) {
		case RUT_PROBE_UPROBE:
		case RUT_PROBE_URETPROBE:
		case RUT_PROBE_USDT:
		case RUT_PROBE_SOFTWARE:
		case RUT_PROBE_HARDWARE:
		case RUT_PROBE_WATCHPOINT:
			return rut_source_error(&p->src, prog->span,
						"a probe of one process, and -p names %zu: only "
						"probes of Ruby and of the kernel take several",
						count);
		default:
			break;
		}
	}
	return 0;
}

/* The processes of Ruby probes. */
static int find_rubies(struct run_data *d, struct rut_script_program *p, struct rut_err *err)
{
	int rc;

	if (!p->nruby_probes && d->targets.count > 1)
		return rut_err_set(err, EINVAL,
				   "-p '%s' are %zu processes, and a script without probes of Ruby "
				   "takes one: use its PID",
				   d->words.v[0], d->targets.count);
	if (!p->nruby_probes)
		return 0;
	rc = find_targets(d, err);
	p->opts.targets = d->targets.pids;
	p->opts.ntargets = d->targets.count;
	if (!rc)
		return d->targets.count > 1 ? check_several(p, d->targets.count) : 0;
	rut_script_ruby_error(p, err->msg);
	*err = (struct rut_err)RUT_ERR_INIT;
	return rc;
}

static int run_script(const struct rut_cmd *cmd, struct run_data *d)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	struct rut_script_program *p = NULL;
	struct rut_err err = RUT_ERR_INIT;
	int code = 0, rc = read_script(d, &text, &err);

	if (!rc)
		rc = rut_cli_run_session_check(&d->session, &err);
	if (!rc)
		rc = find_named(d, &err);
	if (!rc && d->command)
		rc = start_command(d, &err);
	if (!rc)
		rc = rut_script_compile(&p, text.data ? text.data : "", text.len, &d->script, &err);
	if (!rc && !d->dump)
		rc = find_rubies(d, p, &err);
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
		rut_cli_fail(cmd, &err);
	rut_script_free(p);
	rut_cli_run_session_end(&d->session);
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
		return rut_cli_usage_error(cmd, "the name of the output is empty");
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
	return rut_cli_fail(cmd, &err);
}

static int run_parsed(const struct rut_cmd *cmd, struct run_data *d)
{
	int rc;

	if (d->ctf && !d->output)
		return rut_cli_usage_error(cmd, "-f ctf writes a directory: name it with -o DIR");
	rc = d->output ? open_output(cmd, d) : 0;
	if (rc)
		return rc;
	rc = d->scripts ? list_scripts(cmd, d) : d->list ? list(cmd, d) : run_script(cmd, d);
	if (d->run.out != stdout && fclose(d->run.out) && !rc) {
		fprintf(stderr, "rutile run: cannot write '%s'\n", d->output);
		rc = RUT_EXIT_FAIL;
	}
	return rc;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct run_data d = {.run = {.out = stdout, .err = stderr, .child_go = -1}};
	int rc = parse(cmd, argc, argv, &d);

	rc = rc == RUT_ARGS_HELP ? RUT_EXIT_OK : rc ? rc : run_parsed(cmd, &d);
	free(d.path);
	free(d.params);
	free(d.named);
	rut_cli_words_fini(&d.words);
	rut_cli_targets_fini(&d.targets);
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
