/* SPDX-License-Identifier: MIT */
/* `rutile record`: records in the foreground until the command ends, a time is over, or Ctrl+C. */
#include "cli/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/signals.h"
#include "cli/record_opts.h"
#include "cli/record_ruby.h"
#include "cli/record_static.h"
#include "session/budget.h"
#include "session/programs.h"
#include "session/words.h"

enum { OPT_DURATION = 256, OPT_WAIT };

static const struct rut_opt options[] = {
	{"output", "DIR", "write the trace into DIR (default: rutile-DATE-TIME)", 'o'},
	{"all", NULL, "with a command: record the whole system, not only the command", 'a'},
	{"duration", "TIME", "stop after TIME (for example 10s, 2m)", OPT_DURATION},
	{"profile", "HZ", "sample the stacks of running threads, HZ times a second on each CPU",
	 RUT_OPT_PROFILE},
	{"wait", NULL, "wait for Ruby targets that do not run yet", OPT_WAIT},
	RUT_RECORD_OPTIONS,
	{0},
};

struct record {
	struct rut_record_opts opts;
	struct rut_record_static statics;
	uint64_t duration_ns;
	bool all;
	char **command; /* NULL: none */
	pid_t child;
	int go_fd; /* writing here lets the command start */
};

static volatile sig_atomic_t stop_signal, rotate_signal;

static void on_stop(int sig)
{
	stop_signal = sig;
}

static void on_rotate(int sig)
{
	rotate_signal = 1;
}

static int parse_option(const struct rut_cmd *cmd, struct record *rec, int id, const char *value)
{
	int rc;

	switch (id) {
	case 'o':
		if (!*value || strlen(value) >= sizeof(rec->opts.output.pattern))
			return rut_cli_usage_error(cmd, "bad directory '%s'", value);
		snprintf(rec->opts.output.pattern, sizeof(rec->opts.output.pattern), "%s", value);
		return 0;
	case 'a':
		rec->all = true;
		return 0;
	case OPT_DURATION:
		return rut_parse_duration(value, &rec->duration_ns) < 0
			       ? rut_cli_usage_error(cmd, "bad time '%s'", value)
			       : 0;
	case OPT_WAIT:
		rec->opts.ruby.wait = true;
		return 0;
	case 'e':
		rc = rut_cli_record_static_event(cmd, &rec->statics, value);
		if (rc != -ENOENT)
			return rc;
		__attribute__((fallthrough));
	default:
		rc = rut_cli_record_option(cmd, &rec->opts, id, value);
		return rc == -ENOENT ? RUT_EXIT_USAGE : rc;
	}
}

static int parse(const struct rut_cmd *cmd, struct record *rec, int argc, char **argv)
{
	struct rut_args a;
	int id, rc;

	rut_cli_args_init(&a, cmd, argc, argv);
	while ((id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_HELP)
			return -1;
		if (id == RUT_ARGS_DASHES || id == RUT_ARGS_POSITIONAL) {
			rec->command = argv + (id == RUT_ARGS_DASHES ? a.next : a.next - 1);
			break;
		}
		rc = parse_option(cmd, rec, id, a.value);
		if (rc)
			return rc;
		if (id == RUT_OPT_RUBY && !strcmp(a.value, "--")) {
			rec->command = argv + a.next;
			break;
		}
	}
	if (rec->command && !rec->command[0])
		return rut_cli_usage_error(cmd, "'--' without a command after it");
	if (rec->all && rec->opts.npids)
		return rut_cli_usage_error(cmd, "--all and --pid exclude each other");
	rc = rut_cli_record_check_loss(cmd, &rec->opts);
	if (rc)
		return rc;
	return rut_cli_record_ruby_check(cmd, &rec->opts.ruby, rec->command);
}

/*
 * The file that execvp() would run. It is looked for before recording begins: a command is recorded
 * from its first execve on, and the failed ones of a search are none of its own. The name itself
 * when there is no such file: execvp() knows the reason.
 */
static const char *find_program(const char *name, char *ret, size_t size)
{
	const char *dir = getenv("PATH");
	char standard[256];

	if (!dir && confstr(_CS_PATH, standard, sizeof(standard)) <= sizeof(standard))
		dir = standard;
	if (!*name || strchr(name, '/'))
		return name;
	while (dir) {
		size_t len = strcspn(dir, ":");
		struct stat st;
		/* An empty one is the current directory. */
		int n = snprintf(ret, size, "%.*s%s%s", (int)len, dir, len ? "/" : "./", name);

		if (n > 0 && (size_t)n < size && !stat(ret, &st) && S_ISREG(st.st_mode) &&
		    !faccessat(AT_FDCWD, ret, X_OK, AT_EACCESS))
			return ret;
		dir = dir[len] ? dir + len + 1 : NULL;
	}
	return name;
}

/* In the child: runs the command once something can be read from `go`. */
static _Noreturn void run_command(struct record *rec, int go, pid_t parent)
{
	const char *slash = strrchr(rec->command[0], '/'), *program;
	char path[PATH_MAX], c;

	program = find_program(rec->command[0], path, sizeof(path));
	/* From here on not one of rutile's own processes: their calls are not recorded. */
	prctl(PR_SET_NAME, slash ? slash + 1 : rec->command[0]);
	if (read(go, &c, 1) != 1)
		_exit(127);
	rut_cli_record_static_command(&rec->statics);
	if (rut_cli_record_ruby_env(&rec->opts.ruby, parent))
		_exit(126);
	execvp(program, rec->command);
	fprintf(stderr, "rutile record: cannot run '%s': %s\n", rec->command[0], strerror(errno));
	_exit(127);
}

/* Forks the command; it waits until go_fd is written to. */
static int prepare_command(struct record *rec, struct rut_err *err)
{
	pid_t parent = getpid();
	int fds[2], rc = rut_cli_record_ruby_prepare(&rec->opts.ruby, err);

	if (rc)
		return rc;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return rut_err_errno(err, errno, "cannot make a pipe");
	rec->child = fork();
	if (rec->child < 0)
		return rut_err_errno(err, errno, "cannot start '%s'", rec->command[0]);
	if (!rec->child) {
		close(fds[1]);
		rut_signals_inherit();
		run_command(rec, fds[0], parent);
	}
	rut_cli_record_ruby_started(&rec->opts.ruby, rec->child);
	close(fds[0]);
	rec->go_fd = fds[1];
	return 0;
}

static int set_filters(struct record *rec, struct rut_recorder *r, struct rut_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < rec->opts.npids && !rc; i++)
		rc = rut_recorder_trace_family(r, rec->opts.pids[i]);
	if (!rc && rec->child > 0 && r->conf.filters)
		rc = rut_recorder_trace_pid(r, rec->child,
					    rut_selection_any_syscall(&r->conf.selection)
						    ? RUT_TRACED_AT_EXEC
						    : RUT_TRACED_YES);
	return rc ? rut_err_errno(err, -rc, "cannot set the filter") : 0;
}

/* Says once that writing fails, and once that it works again. */
static void report(const struct rut_consumer *c, int rc, const struct rut_err *err, int *last)
{
	if (rc < 0 && *last >= 0)
		fprintf(stderr, "rutile record: %s; recording continues in memory\n", err->msg);
	if (rc >= 0 && *last < 0)
		fprintf(stderr, "rutile record: writing to '%s' again\n", c->writer.path);
	*last = rc;
}

/* The static tracepoints follow the kernel's events into the next directory. */
static void step_statics(struct record *rec, const char *dir)
{
	struct rut_err err = RUT_ERR_INIT;

	if (!rec->statics.nglobs)
		return;
	if (strcmp(rec->statics.dir, dir) != 0 &&
	    rut_cli_record_static_open(&rec->statics, dir, &err) < 0)
		fprintf(stderr, "rutile record: %s\n", err.msg);
	rut_cli_record_static_step(&rec->statics);
}

/* Nothing can come any more: all processes of --pid have ended, and nothing else is recorded. */
static bool are_over(const struct record *rec, struct rut_recorder *r, struct rut_family_left *left)
{
	return rec->opts.npids && !rec->command && !rec->opts.ruby.count &&
	       !rut_recorder_family_left(r, left);
}

static void consume(struct record *rec, struct rut_consumer *c, int *ret_status)
{
	static struct rut_budget_follower budget = {.foreground = true};
	struct rut_family_left left = {0};
	uint64_t started = rut_ring_clock();
	int last = 0;

	step_statics(rec, c->recorder->meta->current);
	while (!stop_signal) {
		struct rut_err err = RUT_ERR_INIT;
		int rc = rut_consumer_step(c, &err);

		report(c, rc, &err, &last);
		if (rc >= 0 && rotate_signal) {
			rotate_signal = 0;
			if (rut_consumer_rotate(c, &err) < 0)
				fprintf(stderr, "rutile record: %s; recording continues in '%s'\n",
					err.msg, c->writer.path);
		}
		rut_budget_follow(&budget, c->recorder);
		if (rec->duration_ns && rut_ring_clock() - started >= rec->duration_ns)
			break;
		if (rec->child > 0 && waitpid(rec->child, ret_status, WNOHANG) == rec->child) {
			rec->child = 0;
			break;
		}
		if (rut_cli_record_ruby_over(&rec->opts.ruby) || are_over(rec, c->recorder, &left))
			break;
		step_statics(rec, c->recorder->meta->current);
		rut_consumer_wait(c, rec->child > 0 ? 20 : c->sleep_ms);
	}
}

/* Returns whether all that was recorded has been written, and sent. */
static bool finish(struct rut_recorder *r, struct rut_consumer *c)
{
	struct rut_err err = RUT_ERR_INIT;
	uint64_t missed, lost;
	char path[RUT_PATH_MAX];
	bool whole;

	rut_programs_detach(r);
	snprintf(path, sizeof(path), "%s",
		 c->conf.to[0] && !r->meta->output.pattern[0] ? c->conf.to : r->meta->current);
	whole = rut_consumer_close(c, &err) >= 0;
	if (!whole)
		fprintf(stderr, "rutile record: %s%s\n", err.msg,
			c->conf.to[0] ? "" : "; what was in memory is lost");
	lost = rut_recorder_lost(r);
	missed = rut_recorder_missed(r);
	fprintf(stderr,
		"rutile record: %s: %llu events, %.1f MiB in %llu packets, %llu events lost", path,
		(unsigned long long)c->total_records, (double)c->total_bytes / 1048576,
		(unsigned long long)c->total_packets, (unsigned long long)(lost + missed));
	if (lost)
		fprintf(stderr, " (a larger --buffer helps)");
	if (rut_recorder_stacks_lost(r))
		fprintf(stderr, ", %llu stacks lost",
			(unsigned long long)rut_recorder_stacks_lost(r));
	fprintf(stderr, "\n");
	return whole;
}

static void catch_signals(void)
{
	rut_signals_catch(SIGINT, on_stop, 0);
	rut_signals_catch(SIGTERM, on_stop, 0);
	rut_signals_catch(SIGHUP, on_stop, 0);
	rut_signals_catch(SIGUSR2, on_rotate, 0);
	/* A reader of our messages that exits is no reason to lose what is in memory. */
	signal(SIGPIPE, SIG_IGN);
}

static void set_static_pids(struct record *rec)
{
	struct rut_record_static *s = &rec->statics;

	for (size_t i = 0; i < rec->opts.npids; i++)
		s->pids[s->npids++] = rec->opts.pids[i];
	if (rec->child > 0 && !rec->all)
		s->pids[s->npids++] = rec->child;
}

/* Static tracepoints and Ruby events alone: no kernel feature and no privilege is needed. */
static int record_beside(const struct rut_cmd *cmd, struct record *rec)
{
	struct rut_companion ruby = rut_cli_record_ruby_companion(&rec->opts.ruby);
	struct rut_err err = RUT_ERR_INIT;
	uint64_t started = rut_ring_clock();
	const struct rut_trace_clock clock = {started, rut_clock_offset_ns()};
	char dir[RUT_PATH_MAX];
	bool said = false;
	int status = 0, rc;

	catch_signals();
	rc = rut_cli_record_static_prepare(&rec->statics, &err);
	if (!rc)
		rc = rut_output_path(&rec->opts.output, dir, sizeof(dir), &err);
	if (!rc)
		rc = rut_cli_record_ruby_start(&rec->opts.ruby, &err);
	if (!rc && mkdir(dir, 0777) < 0 && errno != EEXIST)
		rc = rut_err_errno(&err, errno, "cannot make the directory '%s'", dir);
	if (!rc && rec->command)
		rc = prepare_command(rec, &err);
	set_static_pids(rec);
	if (!rc)
		rc = ruby.open(ruby.arg, dir, &clock, &err);
	if (!rc)
		rc = rut_cli_record_static_open(&rec->statics, dir, &err);
	if (!rc && rec->command && write(rec->go_fd, "", 1) != 1)
		fprintf(stderr, "rutile record: the command has exited\n");
	while (!rc && !stop_signal) {
		rut_cli_record_static_step(&rec->statics);
		if (ruby.step(ruby.arg, &err) < 0 && !said)
			fprintf(stderr, "rutile record: %s; recording continues in memory\n",
				err.msg);
		said = said || err.code;
		if (rut_cli_record_ruby_over(&rec->opts.ruby))
			break;
		if (rec->duration_ns && rut_ring_clock() - started >= rec->duration_ns)
			break;
		if (rec->child > 0 && waitpid(rec->child, &status, WNOHANG) == rec->child)
			break;
		poll(NULL, 0, 20);
	}
	rut_cli_record_static_close(&rec->statics);
	if (!rc) {
		rc = ruby.close(ruby.arg, rut_ring_clock(), &err);
		rut_cli_record_ruby_report(&rec->opts.ruby);
	}
	rut_cli_record_ruby_fini(&rec->opts.ruby);
	if (rc)
		return rut_cli_fail(cmd, &err);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int record(const struct rut_cmd *cmd, struct record *rec)
{
	struct rut_companion ruby = rut_cli_record_ruby_companion(&rec->opts.ruby);
	struct rut_consumer c = {.writer = {.dir_fd = -1}};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_recorder *r = NULL;
	bool whole = true;
	int status = 0, rc = 0;

	catch_signals();
	rc = rut_cli_record_static_prepare(&rec->statics, &err);
	if (!rc && rec->command)
		rc = prepare_command(rec, &err);
	if (!rc)
		rc = rut_recorder_new(&r, &rec->opts.conf, &err);
	if (!rc)
		rc = set_filters(rec, r, &err);
	set_static_pids(rec);
	if (!rc)
		rc = rut_consumer_open(&c, r, &rec->opts.output, &err);
	if (!rc)
		rc = rut_programs_attach(r, &err);
	if (!rc)
		rc = rut_cli_record_ruby_start(&rec->opts.ruby, &err);
	if (!rc)
		rc = rut_consumer_send(&c, &err);
	if (!rc && rec->opts.ruby.count)
		rc = rut_consumer_accompany(&c, &ruby, &err);
	if (!rc) {
		/* The rings must be emptied in time. It is no error where that is not allowed. */
		setpriority(PRIO_PROCESS, 0, -10);
		for (size_t i = 0; i < rec->opts.npids; i++)
			rut_recorder_trace_family(r, rec->opts.pids[i]);
		rut_consumer_statedump(&c);
		rut_budget_calibrate(r);
		if (rec->command && write(rec->go_fd, "", 1) != 1)
			fprintf(stderr, "rutile record: the command has exited\n");
		rut_words_arm(r);
		consume(rec, &c, &status);
		rut_cli_record_static_close(&rec->statics);
		whole = finish(r, &c);
		rut_cli_record_ruby_report(&rec->opts.ruby);
		rut_words_disarm();
	}
	if (rec->go_fd >= 0)
		close(rec->go_fd);
	if (rec->child > 0 && waitpid(rec->child, &status, rc ? 0 : WNOHANG) < 0)
		status = 0;
	rut_consumer_discard(&c);
	rut_recorder_free(r);
	rut_cli_record_ruby_fini(&rec->opts.ruby);
	if (rc)
		return rut_cli_fail(cmd, &err);
	if (!status && !whole)
		return RUT_EXIT_FAIL;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct record rec = {.go_fd = -1};
	int rc = parse(cmd, &rec, argc, argv);

	if (rc)
		return rc < 0 ? RUT_EXIT_OK : rc;
	rut_cli_record_defaults(&rec.opts);
	rec.opts.output.exact = rec.opts.output.pattern[0];
	if (!rut_output_drains(&rec.opts.output))
		strcpy(rec.opts.output.pattern, "rutile-%Y%m%d-%H%M%S");
	if (rec.command && !rec.all)
		rec.opts.conf.filters |= RUT_FILTER_PID | RUT_FILTER_FOLLOW;
	snprintf(rec.opts.conf.name, sizeof(rec.opts.conf.name), "record");
	if ((rec.statics.nglobs || rec.opts.ruby.count) && !rec.opts.events_given)
		return record_beside(cmd, &rec);
	return record(cmd, &rec);
}

const struct rut_cmd cmd_record = {
	.name = "record",
	.group = "Record",
	.summary = "record kernel events and system calls into a trace directory",
	.usage = "[OPTIONS] [-- COMMAND [ARGUMENT]...]",
	.options = options,
	.run = run,
};
