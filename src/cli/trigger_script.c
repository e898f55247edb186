/* SPDX-License-Identifier: MIT */
/*
 * Triggers on what a script prints, a firing for each line. `rutile run` is a process of its own
 * below the trigger's; waits for a CPU and deaths by signals are scripts that stand here.
 */
#include "cli/trigger_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/glob.h"
#include "base/signals.h"
#include "expr/expr.h"
#include "output/jsonl.h"

enum { START_MS = 30000, END_TRIES = 100, TEXT_MAX = 65536 };

/*
 * "killed-process: PID SIGNAL CORE OOM NAME". The leader of a group has the status of the whole.
 * The name is what the process likes, line ends included, but it has at most 15 bytes: less than
 * such a line begins with.
 */
#define KILLED "killed-process: "
static const char killed[] =
	"tracepoint:oom:mark_victim { @oom[args.pid] = 1; }\n"
	"tracepoint:sched:sched_process_exit\n"
	"/curtask->pid == curtask->tgid && (curtask->exit_code & 0x7f) != 0/\n"
	"{\n"
	"	printf(\"" KILLED "%d %d %d %d %s\\n\", pid, curtask->exit_code & 0x7f,\n"
	"	       (curtask->exit_code & 0x80) != 0, @oom[pid], comm);\n"
	"	delete(@oom[pid]);\n"
	"}\n"
	"END { clear(@oom); }\n";

/*
 * "TID NANOSECONDS OVER". A thread that was preempted has the state 0 or 256; one that is woken
 * while it is still on a CPU does not wait.
 */
static const char runqueue[] =
	"config = { max_map_keys = 65536 }\n"
	"rawtracepoint:sched_wakeup,rawtracepoint:sched_wakeup_new\n"
	"{\n"
	"	$woken = (struct task_struct *)arg0;\n"
	"	if ($woken->on_cpu == 0) { @since[$woken->pid] = nsecs; }\n"
	"}\n"
	"tracepoint:sched:sched_switch\n"
	"{\n"
	"	if (args.prev_pid != 0 && (args.prev_state & 0xff) == 0) {\n"
	"		@since[args.prev_pid] = nsecs;\n"
	"	}\n"
	"	$since = @since[args.next_pid];\n"
	"	if ($since != 0) {\n"
	"		if (nsecs - $since >= %1$" PRIu64 " && @told[args.next_pid] != $since) {\n"
	"			printf(\"%%d %%llu 1\\n\", args.next_pid, nsecs - $since);\n"
	"		}\n"
	"		delete(@since[args.next_pid]);\n"
	"	}\n"
	"}\n"
	"tracepoint:sched:sched_process_exit { delete(@since[tid]); delete(@told[tid]); "
	"}\n" RUT_TRIGGER_LASTING;

struct script {
	struct rut_trigger_source source;
	const struct rut_trigger_when *when;
	pid_t pid;
	int out, err;	     /* what it prints, and its messages */
	struct rut_buf line; /* the begin of a line */
	struct rut_buf said; /* its last messages */
	struct rut_buf cause;
};

/* ---- Lines ---- */

static void add_name(struct rut_buf *b, int tid)
{
	char path[40], name[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", tid);
	f = fopen(path, "re");
	if (f && fgets(name, sizeof(name), f))
		name[strcspn(name, "\n")] = 0;
	if (f)
		fclose(f);
	if (name[0])
		rut_jsonl_str(b, "comm", name);
}

/* The process of a thread; false: it is not there. */
static bool add_process(struct rut_buf *b, int tid)
{
	char path[40], line[128];
	int pid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	f = fopen(path, "re");
	while (f && !pid && fgets(line, sizeof(line), f))
		pid = strncmp(line, "Tgid:", 5) == 0 ? atoi(line + 5) : 0;
	if (f)
		fclose(f);
	if (pid > 0)
		rut_jsonl_i64(b, "pid", pid);
	return pid > 0;
}

/* Fills `cause`; false: it does not count. */
static bool killed_cause(struct script *s, const char *line)
{
	int pid, sig, core, oom, at = 0;

	if (sscanf(line, KILLED "%d %d %d %d %n", &pid, &sig, &core, &oom, &at) != 4 || !at ||
	    !rut_glob_string(s->when->events, line + at))
		return false;
	rut_jsonl_i64(&s->cause, "pid", pid);
	rut_jsonl_str(&s->cause, "comm", line + at);
	rut_jsonl_str(&s->cause, "signal", sigabbrev_np(sig) ? sigabbrev_np(sig) : "real-time");
	rut_jsonl_bool(&s->cause, "core", core);
	rut_jsonl_bool(&s->cause, "out_of_memory", oom);
	return true;
}

static bool wait_cause(struct script *s, const char *line)
{
	uint64_t ns;
	int tid, over;

	if (sscanf(line, "%d %" SCNu64 " %d", &tid, &ns, &over) != 3)
		return false;
	rut_jsonl_u64(&s->cause, over ? "waited_ns" : "waits_ns", ns);
	if (s->when->kind == RUT_TRIGGER_GVL && !add_process(&s->cause, tid) && !over)
		return false;
	rut_jsonl_i64(&s->cause, "tid", tid);
	add_name(&s->cause, tid);
	return true;
}

static void take_line(struct script *s, const char *line, rut_trigger_seen_fn seen, void *arg)
{
	bool counts;

	if (s->when->kind == RUT_TRIGGER_SCRIPT) {
		if (*line)
			seen(arg, line);
		return;
	}
	rut_buf_clear(&s->cause);
	rut_jsonl_begin(&s->cause);
	counts = s->when->kind == RUT_TRIGGER_KILLED ? killed_cause(s, line) : wait_cause(s, line);
	rut_jsonl_close(&s->cause);
	if (counts)
		seen(arg, s->cause.failed ? "{}" : s->cause.data);
}

static void take_bytes(struct script *s, const char *p, size_t len, rut_trigger_seen_fn seen,
		       void *arg)
{
	while (len) {
		const char *nl = memchr(p, '\n', len);
		size_t n = nl ? (size_t)(nl - p) : len;

		if (s->line.len < TEXT_MAX)
			rut_buf_add(&s->line, p, n);
		if (nl) {
			rut_buf_putc(&s->line, 0);
			if (!s->line.failed)
				take_line(s, s->line.data, seen, arg);
			rut_buf_clear(&s->line);
		}
		n += nl != NULL;
		p += n;
		len -= n;
	}
}

/* ---- The process ---- */

/* Appends what can be read now. Returns false at the end of the pipe. */
static bool read_messages(struct script *s)
{
	char bytes[4096];
	ssize_t n;

	while ((n = read(s->err, bytes, sizeof(bytes))) > 0) {
		if (s->said.len > TEXT_MAX)
			rut_buf_clear(&s->said);
		rut_buf_add(&s->said, bytes, (size_t)n);
	}
	return n < 0;
}

/* What it said, without the name of the command and the line's end. */
static const char *last_words(struct script *s)
{
	static const char name[] = "rutile run: ";
	char *text = s->said.len && !s->said.failed ? s->said.data : NULL;

	if (!text)
		return "no message";
	while (s->said.len && text[s->said.len - 1] == '\n')
		text[--s->said.len] = 0;
	return strncmp(text, name, strlen(name)) == 0 ? text + strlen(name) : text;
}

static int step(struct rut_trigger_source *source, rut_trigger_seen_fn seen, void *arg,
		struct rut_err *err)
{
	struct script *s = (struct script *)source;
	char bytes[16384];
	ssize_t n;

	read_messages(s);
	while ((n = read(s->out, bytes, sizeof(bytes))) > 0)
		take_bytes(s, bytes, (size_t)n, seen, arg);
	if (n == 0)
		return rut_err_set(err, ESRCH, "the script has ended: %s", last_words(s));
	return s->line.failed ? rut_err_set(err, ENOMEM, "out of memory") : 0;
}

static void end_process(struct script *s)
{
	if (s->pid <= 0)
		return;
	kill(s->pid, SIGTERM);
	for (int i = 0; i < END_TRIES; i++) {
		if (waitpid(s->pid, NULL, WNOHANG) != 0)
			return;
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	}
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
}

static void free_script(struct rut_trigger_source *source)
{
	struct script *s = (struct script *)source;

	end_process(s);
	if (s->out >= 0)
		close(s->out);
	if (s->err >= 0)
		close(s->err);
	rut_buf_fini(&s->line);
	rut_buf_fini(&s->said);
	rut_buf_fini(&s->cause);
	free(s);
}

static void child(const char *const *argv, int out, int err, pid_t parent)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	rut_signals_inherit();
	execv("/proc/self/exe", (char *const *)argv);
	_exit(127);
}

static int start(struct script *s, const char *const *argv, struct rut_err *err)
{
	int out[2], messages[2];
	pid_t parent = getpid();

	if (pipe2(out, O_CLOEXEC) < 0)
		return rut_err_errno(err, errno, "cannot make a pipe");
	if (pipe2(messages, O_CLOEXEC) < 0) {
		close(out[0]);
		close(out[1]);
		return rut_err_errno(err, errno, "cannot make a pipe");
	}
	s->pid = fork();
	if (s->pid == 0)
		child(argv, out[1], messages[1], parent);
	close(out[1]);
	close(messages[1]);
	s->out = out[0];
	s->err = messages[0];
	if (s->pid < 0)
		return rut_err_errno(err, errno, "cannot start a process");
	fcntl(s->out, F_SETFL, O_NONBLOCK);
	fcntl(s->err, F_SETFL, O_NONBLOCK);
	return 0;
}

/* "Attached 3 probes" is what it says when it runs. */
static int wait_until_attached(struct script *s, struct rut_err *err)
{
	uint64_t until = rut_now_ns() + START_MS * 1000000ull;

	while (rut_now_ns() < until) {
		struct pollfd p = {.fd = s->err, .events = POLLIN};

		if (poll(&p, 1, 100) <= 0)
			continue;
		if (!read_messages(s))
			return rut_err_set(err, EINVAL, "%s", last_words(s));
		if (s->said.len && strstr(s->said.data, "Attached ")) {
			rut_buf_clear(&s->said);
			return 0;
		}
	}
	return rut_err_set(err, ETIMEDOUT, "the script did not start: %s", last_words(s));
}

/* A name of a file or of an installed script is one word; all else is a program. */
static int run_script(struct script *s, const char *given, const char *target, struct rut_err *err)
{
	const char *text = given ? given : s->when->events;
	const char *argv[] = {"rutile", "run", text, NULL, NULL, NULL, NULL};
	char program[sizeof(runqueue) + 64];
	size_t n = 3;
	int rc;

	if (s->when->kind == RUT_TRIGGER_KILLED) {
		text = killed;
	} else if (s->when->kind == RUT_TRIGGER_RUNQUEUE) {
		snprintf(program, sizeof(program), runqueue, s->when->ns);
		text = program;
	}
	if (strpbrk(text, " \t\n{")) {
		argv[2] = "-e";
		argv[n++] = text;
	}
	if (target) {
		argv[n++] = "-p";
		argv[n] = target;
	}
	rc = start(s, argv, err);
	return rc ? rc : wait_until_attached(s, err);
}

int rut_cli_trigger_script_run(struct rut_trigger_source **ret, const struct rut_trigger_when *w,
			       const char *program, const char *target, struct rut_err *err)
{
	struct script *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return rut_err_set(err, ENOMEM, "out of memory");
	s->source = (struct rut_trigger_source){step, free_script};
	s->when = w;
	s->out = s->err = -1;
	rc = run_script(s, program, target, err);
	if (rc) {
		free_script(&s->source);
		return rc;
	}
	*ret = &s->source;
	return 0;
}

int rut_cli_trigger_script_open(struct rut_trigger_source **ret, const struct rut_cmd *cmd,
				const struct rut_trigger_when *w, struct rut_err *err)
{
	return rut_cli_trigger_script_run(ret, w, NULL, NULL, err);
}
