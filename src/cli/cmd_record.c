/* SPDX-License-Identifier: MIT */
/* `rutile record`: records in the foreground until the command ends, a time is over, or Ctrl+C. */
#include "cli/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/recorder.h"
#include "session/writer.h"

enum { OPT_DURATION = 256, OPT_BUFFER, OPT_SUBBUF, OPT_STRICT, OPT_CONTEXT };

static const struct rut_opt options[] = {
	{"output", "DIR", "write the trace into DIR (default: rutile-DATE-TIME)", 'o'},
	{"event", "EVENTS", "what to record: names, globs, groups, !not; may be repeated", 'e'},
	{"all", NULL, "with a command: record the whole system, not only the command", 'a'},
	{"pid", "PID", "record this process and its children; may be repeated", 'p'},
	{"context", "NAMES", "add to each event: pid tid procname cgroup cpu ustack kstack",
	 OPT_CONTEXT},
	{"duration", "TIME", "stop after this time", OPT_DURATION},
	{"buffer", "SIZE", "memory for events that wait to be written (default 8M a CPU)",
	 OPT_BUFFER},
	{"subbuf", "SIZE", "size of a packet", OPT_SUBBUF},
	{"strict", NULL, "fail when an event cannot be recorded, instead of going on without it",
	 OPT_STRICT},
	{0},
};

struct record {
	struct rut_record_conf conf;
	const char *dir;
	char default_dir[64];
	uint64_t duration_ns;
	bool all, events_given;
	pid_t pids[64];
	size_t npids;
	char **command; /* NULL: none */
	pid_t child;
	int go_fd; /* writing here lets the command start */
};

static volatile sig_atomic_t stop_signal;

static void on_stop(int sig)
{
	stop_signal = sig;
}

static int bad_value(const struct rut_cmd *cmd, const char *what, const char *value)
{
	return rut_usage_error(cmd, "bad %s '%s'", what, value);
}

static int parse_option(const struct rut_cmd *cmd, struct record *rec, int id, const char *value)
{
	struct rut_err err = RUT_ERR_INIT;
	uint64_t n;

	switch (id) {
	case 'o':
		rec->dir = value;
		return 0;
	case 'e':
		rec->events_given = true;
		if (rut_selection_add(&rec->conf.selection, value, &err) < 0)
			return rut_usage_error(cmd, "%s", err.msg);
		return 0;
	case 'a':
		rec->all = true;
		return 0;
	case 'p':
		if (rut_parse_u64(value, &n) < 0 || !n || n > INT32_MAX || rec->npids == 64)
			return bad_value(cmd, "process", value);
		rec->pids[rec->npids++] = (pid_t)n;
		return 0;
	case OPT_CONTEXT:
		if (rut_context_parse(value, &rec->conf.contexts, &err) < 0)
			return rut_usage_error(cmd, "%s", err.msg);
		return 0;
	case OPT_DURATION:
		return rut_parse_duration(value, &rec->duration_ns) < 0
			       ? bad_value(cmd, "time", value)
			       : 0;
	case OPT_BUFFER:
		return rut_parse_size(value, &rec->conf.buffer_bytes) < 0
			       ? bad_value(cmd, "size", value)
			       : 0;
	case OPT_SUBBUF:
		return rut_parse_size(value, &rec->conf.subbuf_bytes) < 0
			       ? bad_value(cmd, "size", value)
			       : 0;
	case OPT_STRICT:
		rec->conf.strict = true;
		return 0;
	default:
		return RUT_EXIT_USAGE;
	}
}

static int parse(const struct rut_cmd *cmd, struct record *rec, int argc, char **argv)
{
	struct rut_args a;
	int id, rc;

	rut_args_init(&a, cmd, argc, argv);
	while ((id = rut_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_HELP)
			return -1;
		if (id == RUT_ARGS_DASHES || id == RUT_ARGS_POSITIONAL) {
			rec->command = argv + (id == RUT_ARGS_DASHES ? a.next : a.next - 1);
			break;
		}
		rc = parse_option(cmd, rec, id, a.value);
		if (rc)
			return rc;
	}
	if (rec->command && !rec->command[0])
		return rut_usage_error(cmd, "'--' without a command behind it");
	if (rec->all && rec->npids)
		return rut_usage_error(cmd, "--all and --pid exclude each other");
	return 0;
}

/* Forks the command; it waits until go_fd is written to. */
static int prepare_command(struct record *rec, struct rut_err *err)
{
	const char *slash = strrchr(rec->command[0], '/');
	int fds[2];
	char c;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return rut_err_errno(err, errno, "cannot make a pipe");
	rec->child = fork();
	if (rec->child < 0)
		return rut_err_errno(err, errno, "cannot start '%s'", rec->command[0]);
	if (!rec->child) {
		close(fds[1]);
		/* No longer one of rutile's own processes, whose calls are not recorded. */
		prctl(PR_SET_NAME, slash ? slash + 1 : rec->command[0]);
		if (read(fds[0], &c, 1) == 1)
			execvp(rec->command[0], rec->command);
		fprintf(stderr, "rutile record: cannot run '%s': %s\n", rec->command[0],
			strerror(errno));
		_exit(127);
	}
	close(fds[0]);
	rec->go_fd = fds[1];
	return 0;
}

static int set_filters(struct record *rec, struct rut_recorder *r, struct rut_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < rec->npids && !rc; i++)
		rc = rut_recorder_trace_pid(r, rec->pids[i], RUT_TRACED_YES);
	if (!rc && rec->child > 0 && r->conf.filters)
		rc = rut_recorder_trace_pid(r, rec->child, RUT_TRACED_AT_EXEC);
	return rc ? rut_err_errno(err, -rc, "cannot set the filter") : 0;
}

/* Sleeps long enough that a fast producer fills a fraction of the ring, at most 200 ms. */
static int next_sleep_ms(int last_ms, int64_t packets, const struct rut_recorder *r)
{
	int64_t quarter = r->rings[0].count / 4;

	if (packets > quarter)
		return last_ms > 2 ? last_ms / 2 : 1;
	if (packets * 4 < quarter && last_ms < 200)
		return last_ms + 5;
	return last_ms;
}

struct progress {
	uint64_t started_ns;
	uint64_t flushed_ns;
	int write_errno;
};

/* Says once that writing fails, and once that it works again. */
static void report_writing(struct progress *p, struct rut_writer *w, const struct rut_err *err)
{
	if (w->write_errno && !p->write_errno)
		fprintf(stderr, "rutile record: %s; recording goes on in memory\n", err->msg);
	if (!w->write_errno && p->write_errno)
		fprintf(stderr, "rutile record: writing to '%s' again\n", w->path);
	p->write_errno = w->write_errno;
}

static int consume(struct record *rec, struct rut_recorder *r, struct rut_writer *w,
		   int *ret_status)
{
	struct progress p = {.started_ns = rut_ring_clock()};
	int ms = 10;

	while (!stop_signal) {
		struct rut_err err = RUT_ERR_INIT;
		uint64_t now = rut_ring_clock();
		int64_t n = rut_writer_drain(w, &err);

		report_writing(&p, w, &err);
		if (rec->duration_ns && now - p.started_ns >= rec->duration_ns)
			break;
		if (rec->child > 0 && waitpid(rec->child, ret_status, WNOHANG) == rec->child) {
			rec->child = 0;
			break;
		}
		if (now - p.flushed_ns > 1000000000) {
			for (int cpu = 0; cpu < r->ncpus; cpu++)
				rut_ring_flush(&r->rings[cpu]);
			p.flushed_ns = now;
		}
		ms = next_sleep_ms(ms, n < 0 ? 0 : n, r);
		poll(NULL, 0, rec->child > 0 && ms > 20 ? 20 : ms);
	}
	return 0;
}

static void finish(struct rut_recorder *r, struct rut_writer *w)
{
	struct rut_err err = RUT_ERR_INIT;
	uint64_t lost, missed;

	rut_recorder_stop(r);
	for (int cpu = 0; cpu < r->ncpus; cpu++)
		rut_ring_flush(&r->rings[cpu]);
	if (rut_writer_drain(w, &err) < 0)
		fprintf(stderr, "rutile record: %s\n", err.msg);
	lost = rut_recorder_lost(r, &missed);
	fprintf(stderr, "rutile record: %s: %.1f MiB in %llu packets, %llu events lost", w->path,
		(double)w->bytes / 1048576, (unsigned long long)w->packets,
		(unsigned long long)(lost + missed));
	if (lost)
		fprintf(stderr, " (a larger --buffer helps)");
	fprintf(stderr, "\n");
}

static int record(const struct rut_cmd *cmd, struct record *rec)
{
	struct sigaction sa = {.sa_handler = on_stop};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_recorder *r = NULL;
	struct rut_writer w = {.dir_fd = -1};
	int status = 0, rc = 0;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	if (rec->command)
		rc = prepare_command(rec, &err);
	if (!rc)
		rc = rut_recorder_new(&r, &rec->conf, &err);
	if (!rc)
		rc = set_filters(rec, r, &err);
	if (!rc)
		rc = rut_writer_open(&w, r, rec->dir, &err);
	if (!rc)
		rc = rut_recorder_start(r, &err);
	if (!rc) {
		rut_writer_statedump(&w, 0);
		if (rec->command && write(rec->go_fd, "", 1) != 1)
			fprintf(stderr, "rutile record: the command is gone\n");
		consume(rec, r, &w, &status);
		finish(r, &w);
	}
	if (rec->go_fd >= 0)
		close(rec->go_fd);
	if (rec->child > 0 && waitpid(rec->child, &status, rc ? 0 : WNOHANG) < 0)
		status = 0;
	if (w.path)
		rut_writer_close(&w);
	rut_recorder_free(r);
	if (rc)
		return rut_fail(cmd, &err);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct record rec = {.go_fd = -1};
	time_t now = time(NULL);
	struct tm tm;
	int rc = parse(cmd, &rec, argc, argv);

	if (rc)
		return rc < 0 ? RUT_EXIT_OK : rc;
	if (!rec.events_given)
		rut_selection_add(&rec.conf.selection, rut_selection_default, NULL);
	if (!rec.dir) {
		strftime(rec.default_dir, sizeof(rec.default_dir), "rutile-%Y%m%d-%H%M%S",
			 localtime_r(&now, &tm));
		rec.dir = rec.default_dir;
	}
	if (rec.npids || (rec.command && !rec.all))
		rec.conf.filters |= RUT_FILTER_PID | RUT_FILTER_FOLLOW;
	snprintf(rec.conf.name, sizeof(rec.conf.name), "record");
	return record(cmd, &rec);
}

const struct rut_cmd cmd_record = {
	.name = "record",
	.group = "Record",
	.summary = "record kernel events and system calls into a trace folder",
	.usage = "[OPTIONS] [-- COMMAND [ARGUMENT]...]",
	.options = options,
	.run = run,
};
