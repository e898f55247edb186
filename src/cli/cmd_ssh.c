/* SPDX-License-Identifier: MIT */
/*
 * `rutile ssh`: a verb on another machine.
 *
 * One ssh runs a small script there. Verbs that write a trace write it to a temporary directory,
 * which comes back as a tar on the script's standard output when the verb has ended, also when it
 * was interrupted: it stops the verb at the end of its standard input.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/signals.h"
#include "cli/cmd.h"

enum { OPT_COPY = 256, OPT_PROGRAM, OPT_SSH, MAX_WORDS = 64, PROGRAM_MAX = 256 << 20 };

static const struct rut_opt options[] = {
	{"copy", NULL, "copy this program there when it has none, to ~/.cache/rutile", OPT_COPY},
	{"program", "PATH", "the program there (default rutile)", OPT_PROGRAM},
	{"ssh", "COMMAND", "instead of ssh, for example 'ssh -p 2222 -i key'", OPT_SSH},
	{0},
};

struct ssh {
	const struct rut_cmd *cmd;
	const char *host, *program;
	char *words[MAX_WORDS + 1]; /* of the command ssh */
	size_t n_words;
	bool copy;
	char **verb; /* the verb and its arguments */
	int n_verb;
	const char *output; /* the directory of the trace here; NULL: the verb writes none */
	char name[64];	    /* the default for it */
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
	interrupted = sig;
}

/* ---- the command line ---- */

static int set_ssh(struct ssh *s, char *value)
{
	char *state;

	s->n_words = 0;
	for (char *w = strtok_r(value, " ", &state); w; w = strtok_r(NULL, " ", &state)) {
		if (s->n_words == MAX_WORDS - 8)
			return rut_cli_usage_error(s->cmd, "the command of --ssh is too long");
		s->words[s->n_words++] = w;
	}
	return s->n_words ? 0 : rut_cli_usage_error(s->cmd, "the command of --ssh is empty");
}

/* Options end with the host: what follows is the verb's. */
static int parse(struct ssh *s, int argc, char **argv)
{
	struct rut_args a;
	int id, rc = 0;

	rut_cli_args_init(&a, s->cmd, argc, argv);
	while (!rc && (id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		switch (id) {
		case RUT_ARGS_HELP:
			return -1;
		case RUT_ARGS_BAD:
			return RUT_EXIT_USAGE;
		case OPT_COPY:
			s->copy = true;
			break;
		case OPT_PROGRAM:
			s->program = a.value;
			break;
		case OPT_SSH:
			rc = set_ssh(s, (char *)(uintptr_t)a.value);
			break;
		case RUT_ARGS_POSITIONAL:
			s->host = a.value;
			s->verb = argv + a.next;
			s->n_verb = argc - a.next;
			goto end;
		default:
			break;
		}
	}
end:
	if (rc)
		return rc;
	if (!s->host || !s->n_verb)
		return rut_cli_usage_error(s->cmd, "give a host and a verb");
	/* ssh would take it for an option. */
	if (s->host[0] == '-')
		return rut_cli_usage_error(s->cmd, "invalid host '%s'", s->host);
	return 0;
}

/* Is it the option for the output? Takes its value; *skip: words that it has. */
static bool is_output(const struct ssh *s, int i, const char **value, int *skip)
{
	const char *w = s->verb[i];

	*skip = 1;
	if ((!strcmp(w, "-o") || !strcmp(w, "--output")) && i + 1 < s->n_verb) {
		*value = s->verb[i + 1];
		*skip = 2;
		return true;
	}
	if (!strncmp(w, "--output=", 9))
		*value = w + 9;
	else if (w[0] == '-' && w[1] == 'o' && w[2])
		*value = w + 2;
	else
		return false;
	return true;
}

/* ---- the script ---- */

static void quote(struct rut_buf *b, const char *word)
{
	rut_buf_putc(b, '\'');
	for (; *word; word++)
		if (*word == '\'')
			rut_buf_puts(b, "'\\''");
		else
			rut_buf_putc(b, *word);
	rut_buf_puts(b, "' ");
}

/* The verb as words of a shell; its trace is "$d/trace". */
static void add_verb(struct ssh *s, struct rut_buf *b)
{
	bool command = false;

	for (int i = 0; i < s->n_verb; i++) {
		const char *value = NULL;
		int skip;

		command |= !strcmp(s->verb[i], "--");
		if (s->output && i && !command && is_output(s, i, &value, &skip)) {
			s->output = value;
			i += skip - 1;
			continue;
		}
		quote(b, s->verb[i]);
		if (s->output && !i)
			rut_buf_puts(b, "-o \"$d/trace\" ");
	}
}

/*
 * The verb runs in the background, and ends when the standard input does: that is how an interrupt
 * gets there. Its standard output is the script's, or for a trace its standard error, because the
 * tar comes on the other. When the tar cannot be written the directory is the only copy, so it
 * stays. The verb must not inherit the ignored signals.
 */
static void make_script(struct ssh *s, const char *program, struct rut_buf *b)
{
	if (s->output)
		rut_buf_puts(b, "d=$(mktemp -d \"${TMPDIR:-/tmp}/rutile-ssh.XXXXXX\") || exit 1; ");
	rut_buf_puts(b, "exec 3<&0; ");
	quote(b, program);
	add_verb(s, b);
	rut_buf_puts(b, s->output ? "</dev/null >&2 & " : "</dev/null & ");
	rut_buf_puts(b, "p=$!; { cat <&3 >/dev/null; kill -TERM $p; } 2>/dev/null >&2 & c=$!; "
			"exec 3<&-; wait $p; s=$?; kill $c 2>/dev/null; ");
	if (s->output)
		rut_buf_puts(b, "trap '' PIPE HUP; "
				"if [ ! -d \"$d/trace\" ] || tar -C \"$d/trace\" -cf - .; then "
				"rm -rf \"$d\"; else "
				"echo \"rutile ssh: the trace stays on $(uname -n) in "
				"'$d/trace'\" >&2; [ $s != 0 ] || s=1; fi; ");
	rut_buf_puts(b, "exit $s");
}

/* ---- running ---- */

/* Starts ssh with a script; its standard input and output become *in and *out where asked for. */
static pid_t start(const struct ssh *s, const char *script, int *in, int *out)
{
	int to[2] = {-1, -1}, from[2] = {-1, -1};
	char *argv[MAX_WORDS + 8];
	size_t n = 0;
	pid_t pid;

	for (size_t i = 0; i < s->n_words; i++)
		argv[n++] = s->words[i];
	argv[n++] = (char *)(uintptr_t)s->host;
	argv[n++] = (char *)(uintptr_t)script;
	argv[n] = NULL;
	if ((in && pipe2(to, O_CLOEXEC) < 0) || (out && pipe2(from, O_CLOEXEC) < 0))
		return -1;
	pid = fork();
	if (!pid) {
		rut_signals_inherit();
		/* The interrupt is ours to pass on: ssh must live until the trace is here. */
		if (in) {
			signal(SIGINT, SIG_IGN);
			signal(SIGTERM, SIG_IGN);
			dup2(to[0], STDIN_FILENO);
		}
		if (out)
			dup2(from[1], STDOUT_FILENO);
		execvp(argv[0], argv);
		fprintf(stderr, "rutile ssh: cannot run '%s': %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	rut_closep(&to[0]);
	rut_closep(&from[1]);
	if (in)
		*in = to[1];
	if (out)
		*out = from[0];
	return pid;
}

static int status_of(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return RUT_EXIT_FAIL;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Unpacks what comes on `from` into the directory. */
static pid_t unpack(const struct ssh *s, int from)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	rut_signals_inherit();
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	dup2(from, STDIN_FILENO);
	/* For root tar would restore setuid bits. */
	execlp("tar", "tar", "--no-same-owner", "--no-same-permissions", "-C", s->output, "-xf",
	       "-", NULL);
	fprintf(stderr, "rutile ssh: cannot run 'tar': %s\n", strerror(errno));
	_exit(127);
}

/* Waits for the end of ssh, and closes its standard input at an interrupt. */
static int wait_for(pid_t pid, int in)
{
	struct sigaction sa = {.sa_handler = on_interrupt};
	int status;
	pid_t done;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	while (!(done = waitpid(pid, &status, WNOHANG))) {
		if (interrupted)
			rut_closep(&in), in = -1;
		poll(NULL, 0, 20);
	}
	rut_closep(&in);
	if (done < 0)
		return RUT_EXIT_FAIL;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The trace comes back into a new directory. */
static int run_for_trace(const struct ssh *s, const char *script)
{
	int in, out, rc;
	pid_t ssh, tar;
	bool cut;

	if (mkdir(s->output, 0750) < 0) {
		fprintf(stderr, "rutile ssh: cannot make '%s': %s\n", s->output, strerror(errno));
		return RUT_EXIT_FAIL;
	}
	ssh = start(s, script, &in, &out);
	if (ssh < 0)
		return RUT_EXIT_FAIL;
	tar = unpack(s, out);
	close(out);
	rc = wait_for(ssh, in);
	cut = status_of(tar) != 0;
	if (cut && !rc)
		rc = RUT_EXIT_FAIL;
	if (cut)
		fprintf(stderr,
			"rutile ssh: the trace did not arrive completely; on '%s' see "
			"/tmp/rutile-ssh.*\n",
			s->host);
	/* Nothing came: no empty trace is left. */
	if (!rmdir(s->output))
		return rc ? rc : RUT_EXIT_FAIL;
	if (!cut)
		fprintf(stderr, "rutile ssh: the trace is in '%s'\n", s->output);
	return rc;
}

static int run_verb(struct ssh *s, const char *program)
{
	_cleanup_buf_ struct rut_buf script = RUT_BUF_INIT;
	const bool screen = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !s->output;
	int in, rc;
	pid_t pid;

	if (screen) {
		quote(&script, program);
		add_verb(s, &script);
		s->words[s->n_words++] = (char *)(uintptr_t) "-t";
	} else {
		make_script(s, program, &script);
	}
	if (script.failed)
		return rut_cli_usage_error(s->cmd, "out of memory");
	if (s->output)
		return run_for_trace(s, script.data);
	pid = start(s, script.data, screen ? NULL : &in, NULL);
	rc = pid < 0 ? RUT_EXIT_FAIL : screen ? status_of(pid) : wait_for(pid, in);
	return rc;
}

/* ---- the copy ---- */

/* Sends the program where it is missing; `path` gets its name there. */
static int send_copy(struct ssh *s, char *path, size_t size)
{
	_cleanup_buf_ struct rut_buf self = RUT_BUF_INIT, script = RUT_BUF_INIT;
	size_t sent = 0;
	int in = -1, rc;
	pid_t pid;

	rc = rut_buf_read_file(&self, "/proc/self/exe", PROGRAM_MAX);
	if (rc || self.failed) {
		fprintf(stderr, "rutile ssh: cannot read this program\n");
		return RUT_EXIT_FAIL;
	}
	snprintf(path, size, ".cache/rutile/%016llx/rutile",
		 (unsigned long long)rut_hash_bytes(self.data, self.len));
	rut_buf_printf(&script,
		       "p=$HOME/%s; if [ -x $p ]; then cat >/dev/null; else mkdir -p ${p%%/*} && "
		       "cat >$p.$$ && chmod 755 $p.$$ && mv $p.$$ $p; fi && $p help >/dev/null",
		       path);
	if (script.failed)
		return RUT_EXIT_FAIL;
	signal(SIGPIPE, SIG_IGN);
	pid = start(s, script.data, &in, NULL);
	while (pid > 0 && sent < self.len) {
		ssize_t n = write(in, self.data + sent, self.len - sent);

		if (n < 0 && errno != EINTR)
			break;
		sent += n > 0 ? (size_t)n : 0;
	}
	rut_closep(&in);
	rc = pid > 0 ? status_of(pid) : RUT_EXIT_FAIL;
	if (!rut_signals_ignored(SIGPIPE))
		signal(SIGPIPE, SIG_DFL);
	if (rc)
		fprintf(stderr, "rutile ssh: the copy does not run on '%s'\n", s->host);
	return rc;
}

/* Is the program there? */
static bool is_there(struct ssh *s)
{
	_cleanup_buf_ struct rut_buf script = RUT_BUF_INIT;
	pid_t pid;

	rut_buf_puts(&script, "command -v ");
	quote(&script, s->program);
	rut_buf_puts(&script, ">/dev/null");
	pid = script.failed ? -1 : start(s, script.data, NULL, NULL);
	return pid > 0 && !status_of(pid);
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	static char standard[] = "ssh";
	struct ssh s = {.cmd = cmd, .program = "rutile", .words = {standard}, .n_words = 1};
	char path[128];
	time_t now = time(NULL);
	struct tm tm;
	int rc = parse(&s, argc, argv);

	if (rc)
		return rc < 0 ? RUT_EXIT_OK : rc;
	if (!strcmp(s.verb[0], "record") || !strcmp(s.verb[0], "snapshot")) {
		localtime_r(&now, &tm);
		strftime(s.name, sizeof(s.name), "rutile-%Y%m%d-%H%M%S", &tm);
		s.output = s.name;
	}
	if (s.copy && !is_there(&s)) {
		rc = send_copy(&s, path, sizeof(path));
		if (rc)
			return rc;
		/* ssh begins in the home directory. */
		s.program = path;
	}
	return run_verb(&s, s.program);
}

const struct rut_cmd cmd_ssh = {
	.name = "ssh",
	.group = "Record",
	.summary = "run a verb on another machine and fetch its trace",
	.usage = "[OPTIONS] HOST VERB [ARGUMENT]...",
	.options = options,
	.run = run,
};
