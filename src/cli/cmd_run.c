/* SPDX-License-Identifier: MIT */
/* `rutile run`: scripts in bpftrace's language. */
#include "cli/run_options.h"

#include <fcntl.h>
#include <signal.h>
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
#include "cli/ruby_why.h"
#include "cli/script_screen.h"
#include "script/library.h"
#include "script/list.h"
#include "script/load.h"
#include "script/portable.h"
#include "script/ruby_attach.h"
#include "script/ruby_probe.h"
#include "script/run.h"

static int fail(const struct rut_cmd *cmd, const struct rut_err *err)
{
	if (cmd != &cmd_bpftrace)
		return rut_cli_fail(cmd, err);
	fprintf(stderr, "ERROR: %s\n", err->msg);
	return RUT_EXIT_FAIL;
}

static int read_script(struct rut_run_data *d, struct rut_buf *text, struct rut_err *err)
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
		if (rc && d->as_bpftrace)
			return rut_err_set(err, ENOENT, "failed to open file '%s': %s", d->file,
					   strerror(ENOENT));
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

static int list_scripts(const struct rut_cmd *cmd, const struct rut_run_data *d)
{
	struct rut_script_entry *scripts;
	struct rut_err err = RUT_ERR_INIT;
	size_t count;

	if (rut_script_library_list(&scripts, &count)) {
		rut_err_set(&err, ENOMEM, "out of memory");
		return fail(cmd, &err);
	}
	for (size_t i = 0; i < count; i++)
		fprintf(d->run.out, "%-14s %s\n", scripts[i].name, scripts[i].summary);
	rut_script_library_free(scripts, count);
	return RUT_EXIT_OK;
}

/* A file of probes, or a pattern that looks like the name of one. */
static bool is_script_file(const struct rut_run_data *d)
{
	size_t len = d->file ? strlen(d->file) : 0;

	if (!len || strchr(d->file, ':'))
		return false;
	if (!access(d->file, F_OK))
		return true;
	if (len > 3 && !strcmp(d->file + len - 3, ".bt"))
		fprintf(stderr,
			"WARNING: It appears that '%s' is a filename but the file does not exist. "
			"Treating '%s' as a search pattern.\n",
			d->file, d->file);
	return false;
}

static int list(const struct rut_cmd *cmd, struct rut_run_data *d)
{
	struct rut_script_list_opts opts = {.args = d->verbose, .pid = d->script.pid};
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT, script = RUT_BUF_INIT;
	struct rut_err err = RUT_ERR_INIT;

	if (d->program || is_script_file(d)) {
		if (read_script(d, &script, &err))
			return fail(cmd, &err);
		opts.text = script.data ? script.data : "";
		opts.name = d->script.name;
	} else {
		opts.pattern = d->file;
	}
	if (rut_script_list(&opts, &text, &err) && !(d->as_bpftrace && err.code == ENOENT))
		return fail(cmd, &err);
	if (text.data)
		fputs(text.data, d->run.out);
	return RUT_EXIT_OK;
}

static bool read_whole(int fd, void *to, size_t len)
{
	for (char *at = to; len;) {
		ssize_t n = read(fd, at, len);

		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

/* In the child: waits until the script is attached, and for what it adds to the environment. */
static bool take_environment(int fd)
{
	uint32_t len;
	char *vars;

	if (!read_whole(fd, &len, sizeof(len)))
		return false;
	/* It becomes the environment's. */
	vars = malloc(len + 1);
	if (!vars || !read_whole(fd, vars, len))
		return false;
	vars[len] = '\0';
	for (char *at = vars; at < vars + len; at += strlen(at) + 1)
		if (putenv(at))
			return false;
	return true;
}

/* The command waits until the script is attached. */
static int start_command(struct rut_run_data *d, struct rut_err *err)
{
	wordexp_t words;
	int go[2];
	pid_t pid;

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
		if (take_environment(go[0]))
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
static void end_command(struct rut_run_data *d)
{
	if (d->run.child_go >= 0)
		close(d->run.child_go);
	/* bpftrace ends what it has started; under our own name nothing that is traced is harmed.
	 * It is not waited for before, so the number is still its own. */
	if (d->run.child && !waitpid(d->run.child, NULL, WNOHANG) && d->as_bpftrace)
		kill(d->run.child, SIGTERM);
}

/* What the script prints is kept while the screen is shown. */
static int run_monitored(struct rut_run_data *d, struct rut_script_program *p, int *ret_code,
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

static int find_targets(struct rut_run_data *d, struct rut_err *err)
{
	struct rut_ruby_opts opts = {.targets = d->words};
	int rc = d->targets.count ? 0 : rut_cli_targets_find(&d->targets, &opts, err);

	d->script.targets = d->targets.pids;
	d->script.ntargets = d->targets.count;
	return rc;
}

/* A name is looked for before the script is compiled: its functions may be that process's. */
static int find_named(struct rut_run_data *d, struct rut_err *err)
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
static int find_rubies(struct rut_run_data *d, struct rut_script_program *p, struct rut_err *err)
{
	bool needed = rut_script_needs_agent(p);
	int rc;

	if (!needed && d->targets.count > 1)
		return rut_err_set(err, EINVAL,
				   "-p '%s' are %zu processes, and a script without probes of Ruby "
				   "takes one: use its PID",
				   d->words.v[0], d->targets.count);
	if ((!needed && (!p->nmethods || !d->words.count)) || d->script.child)
		return 0;
	rc = find_targets(d, err);
	p->opts.targets = d->targets.pids;
	p->opts.ntargets = d->targets.count;
	/* Without an agent in() reads stacks. */
	if (rc && !needed) {
		p->opts.ntargets = 0;
		*err = (struct rut_err)RUT_ERR_INIT;
		return 0;
	}
	if (!rc)
		return d->targets.count > 1 ? check_several(p, d->targets.count) : 0;
	rut_script_ruby_error(p, err->msg);
	*err = (struct rut_err)RUT_ERR_INIT;
	return rc;
}

/* A file of `rutile service compile`. */
static int read_compiled(struct rut_run_data *d, const struct rut_buf *file,
			 struct rut_script_program **ret, struct rut_err *err)
{
	int rc = rut_portable_read(ret, d->script.name, file->data, file->len, RUT_PORTABLE_RUN,
				   d->script.unsafe, err);

	if (rc)
		return rc;
	if (d->script.nparams || d->script.nnamed)
		return rut_err_set(err, EINVAL,
				   "the script '%s' is compiled: its parameters are in it",
				   d->script.name);
	(*ret)->opts.pid = d->script.pid;
	(*ret)->opts.child = d->script.child;
	(*ret)->opts.trace = d->script.trace;
	(*ret)->opts.verbose = d->script.verbose;
	(*ret)->opts.as_bpftrace = (*ret)->src.as_bpftrace = d->as_bpftrace;
	for (size_t i = 0; i < (*ret)->nactions && !d->script.trace; i++)
		if ((*ret)->actions[i].kind == RUT_ACTION_RECORD)
			return rut_err_set(
				err, EINVAL,
				"record() of the script '%s' needs a trace: -o DIR.trace",
				d->script.name);
	return rut_portable_settle(*ret, err);
}

static int make_program(struct rut_run_data *d, const struct rut_buf *text,
			struct rut_script_program **ret, struct rut_err *err)
{
	if (rut_portable_is(text->data, text->len))
		return read_compiled(d, text, ret, err);
	return rut_script_compile(ret, text->data ? text->data : "", text->len, &d->script, err);
}

static int run_script(const struct rut_cmd *cmd, struct rut_run_data *d)
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
		rc = make_program(d, &text, &p, &err);
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
		fail(cmd, &err);
	rut_script_free(p);
	rut_cli_run_session_end(&d->session);
	end_command(d);
	return rc ? RUT_EXIT_FAIL : code & 255;
}

/*
 * A trace is a directory: one that exists, or a name that ends as one of a trace. All else is a
 * file of text, as bpftrace has it.
 */
static bool is_trace(const struct rut_run_data *d)
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

static int open_output(const struct rut_cmd *cmd, struct rut_run_data *d)
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
	return fail(cmd, &err);
}

static int run_parsed(const struct rut_cmd *cmd, struct rut_run_data *d)
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

int rut_cli_run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct rut_run_data d = {
		.run = {.out = stdout, .err = stderr, .child_go = -1, .near = rut_cli_why_near}};
	int rc;

	d.as_bpftrace = d.script.as_bpftrace = cmd == &cmd_bpftrace;
	rc = rut_cli_run_parse(cmd, argc, argv, &d);
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
	.options = rut_cli_run_opts,
	.run = rut_cli_run,
	.group = "Scripts",
};
