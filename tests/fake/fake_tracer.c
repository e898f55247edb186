/* SPDX-License-Identifier: MIT */
/*
 * A tracer without a process, for tests of everything that shows what a tracer found. It implements
 * src/ruby/tracer.h and the listing of src/ruby/proc.h from the file $RUTILE_FAKE, whose lines have
 * fields between '|', "-" for none:
 *
 *	proc|PID|PPID|ROLE NUMBER|ROOT|NAME|WHY IT CANNOT BE TRACED
 *	refuse|PID|MESSAGE
 *	row|PID|PATH|LINE|CLASS|METHOD|# or .|CALLS|TOTAL|SELF|MAX|COUNT|BYTES
 *	event|TYPE|PID|TID|TIME|DURATION|DEPTH|FIBER|CLASS|METHOD|# or .|PATH|LINE|ARGS|LOST
 *	caller|CLASS|METHOD|# or .|PATH|LINE	of the event before
 *	repeat|N	the events come N times
 *	grow		counters are multiplied by the number of readings
 *	ends		the processes end after the events, or after the first table
 *	unsettled	hooks are still being set
 *	log|FILE	what the tracer was asked to do is appended there
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "ruby/proc.h"
#include "ruby/tracer.h"

enum { MAX = 4096, FIELDS = 16 };

static struct {
	struct rut_ruby_proc procs[64];
	size_t proc_count;
	struct rut_ruby_row rows[MAX];
	size_t row_count;
	struct rut_ruby_event events[MAX];
	size_t event_count;
	struct rut_ruby_event callers[MAX];
	size_t caller_count;
	struct {
		pid_t pid;
		char *message;
	} refused[16];
	size_t refused_count;
	unsigned long repeat;
	bool grow, ends, unsettled, loaded;
	char *log;
} fake;

struct rut_tracer {
	rut_ruby_event_fn fn;
	void *arg;
	int watch, attached;
	pid_t child;
	unsigned long readings, polls;
	bool zero;
	struct rut_ruby_row rows[MAX];
};

static char *field(char *s)
{
	return s && strcmp(s, "-") != 0 ? s : NULL;
}

static unsigned long number(const char *s)
{
	return s ? strtoul(s, NULL, 10) : 0;
}

static void add_row(char **f)
{
	fake.rows[fake.row_count++] = (struct rut_ruby_row){
		.pid = (pid_t)number(f[1]),
		.path = field(f[2]),
		.line = (uint32_t)number(f[3]),
		.class_name = field(f[4]),
		.method_name = field(f[5]),
		.singleton = f[6] && *f[6] == '.',
		.calls = number(f[7]),
		.total_ns = number(f[8]),
		.self_ns = number(f[9]),
		.max_ns = number(f[10]),
		.count = number(f[11]),
		.bytes = number(f[12]),
	};
}

static enum rut_ruby_event_type type_of(const char *s)
{
	static const char *const names[] = {
		[RUT_RUBY_EVENT_CALL] = "call",	  [RUT_RUBY_EVENT_RETURN] = "return",
		[RUT_RUBY_EVENT_RAISE] = "raise", [RUT_RUBY_EVENT_SLOW] = "slow",
		[RUT_RUBY_EVENT_HIT] = "hit",	  [RUT_RUBY_EVENT_LOST] = "lost",
		[RUT_RUBY_EVENT_START] = "start", [RUT_RUBY_EVENT_EXIT] = "exit",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(names[i], s))
			return (enum rut_ruby_event_type)i;
	abort();
}

static void add_event(char **f)
{
	fake.events[fake.event_count++] = (struct rut_ruby_event){
		.type = type_of(f[1]),
		.pid = (pid_t)number(f[2]),
		.tid = (pid_t)number(f[3]),
		.time_ns = number(f[4]),
		.duration_ns = number(f[5]),
		.depth = (uint32_t)number(f[6]),
		.fiber = (uint32_t)number(f[7]),
		.class_name = field(f[8]),
		.method_name = field(f[9]),
		.singleton = f[10] && *f[10] == '.',
		.path = field(f[11]),
		.line = (uint32_t)number(f[12]),
		.args = field(f[13]),
		.lost = number(f[14]),
	};
}

static void add_caller(char **f)
{
	struct rut_ruby_event *ev = &fake.events[fake.event_count - 1];
	struct rut_ruby_event *c = &fake.callers[fake.caller_count++];

	*c = (struct rut_ruby_event){.class_name = field(f[1]),
				     .method_name = field(f[2]),
				     .singleton = f[3] && *f[3] == '.',
				     .path = field(f[4]),
				     .line = (uint32_t)number(f[5])};
	if (!ev->caller_count++)
		ev->callers = c;
}

static void take_line(char *line)
{
	char *f[FIELDS] = {0};
	size_t n = 0;

	while (n < FIELDS && line)
		f[n++] = strsep(&line, "|");
	if (!strcmp(f[0], "proc"))
		fake.procs[fake.proc_count++] =
			(struct rut_ruby_proc){.pid = (pid_t)number(f[1]),
					       .ppid = (pid_t)number(f[2]),
					       .role = (enum rut_ruby_role)number(f[3]),
					       .app_root = field(f[4]),
					       .name = f[5],
					       .why_not = f[6]};
	else if (!strcmp(f[0], "refuse")) {
		fake.refused[fake.refused_count].pid = (pid_t)number(f[1]);
		fake.refused[fake.refused_count++].message = f[2];
	} else if (!strcmp(f[0], "row"))
		add_row(f);
	else if (!strcmp(f[0], "event"))
		add_event(f);
	else if (!strcmp(f[0], "caller"))
		add_caller(f);
	else if (!strcmp(f[0], "repeat"))
		fake.repeat = number(f[1]);
	else if (!strcmp(f[0], "grow"))
		fake.grow = true;
	else if (!strcmp(f[0], "unsettled"))
		fake.unsettled = true;
	else if (!strcmp(f[0], "ends"))
		fake.ends = true;
	else if (!strcmp(f[0], "log"))
		fake.log = f[1];
}

static void load(void)
{
	const char *path = getenv("RUTILE_FAKE");
	_cleanup_file_ FILE *f = path ? fopen(path, "re") : NULL;
	static char *lines[MAX]; /* what was found points into them */
	char *line = NULL;
	size_t cap = 0, count = 0;

	if (fake.loaded)
		return;
	fake.loaded = true;
	fake.repeat = 1;
	while (f && getline(&line, &cap, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (!*line || *line == '#' || count == MAX)
			continue;
		lines[count] = strdup(line);
		take_line(lines[count++]);
	}
	free(line);
}

static void log_list(FILE *f, const char *name, const char *const *list)
{
	fprintf(f, "%s:", name);
	for (; list && *list; list++)
		fprintf(f, " %s", *list);
	fputc('\n', f);
}

static void log_config(const struct rut_tracer_config *c)
{
	_cleanup_file_ FILE *f = fake.log ? fopen(fake.log, "ae") : NULL;

	if (!f)
		return;
	fprintf(f, "mode: %d\n", c->mode);
	log_list(f, "app_paths", c->filter.app_paths);
	log_list(f, "not_paths", c->filter.not_paths);
	log_list(f, "paths", c->filter.paths);
	log_list(f, "classes", c->filter.classes);
	log_list(f, "methods", c->filter.methods);
	fprintf(f, "c_calls: %d\n", c->filter.c_calls);
	if (c->mode == RUT_RUBY_TRACE)
		fprintf(f, "returns: %d args: %d exceptions: %d slow: %lu inside: %s ring: %lu\n",
			c->returns, c->args, c->exceptions, (unsigned long)c->slow_ns,
			c->inside ? c->inside : "-", (unsigned long)c->ring_bytes);
}

int rut_tracer_new(struct rut_tracer **ret, const struct rut_tracer_config *config,
		   struct rut_err *err)
{
	load();
	log_config(config);
	*ret = calloc(1, sizeof(**ret));
	(*ret)->watch = -1;
	return 0;
}

void rut_tracer_free(struct rut_tracer *t)
{
	free(t);
}

int rut_tracer_attach(struct rut_tracer *t, pid_t pid, bool tree, struct rut_err *err)
{
	for (size_t i = 0; i < fake.refused_count; i++)
		if (fake.refused[i].pid == pid)
			return rut_err_set(err, EPERM, "%s", fake.refused[i].message);
	t->attached++;
	return 0;
}

pid_t rut_tracer_spawn(struct rut_tracer *t, char *const argv[], struct rut_err *err)
{
	t->child = fork();
	if (!t->child) {
		execvp(argv[0], argv);
		_exit(127);
	}
	return t->child;
}

void rut_tracer_take_command(struct rut_tracer *t)
{
	t->attached++;
}

bool rut_tracer_settled(const struct rut_tracer *t)
{
	return !fake.unsettled;
}

void rut_tracer_watch(struct rut_tracer *t, int fd)
{
	t->watch = fd;
}

void rut_tracer_on_event(struct rut_tracer *t, rut_ruby_event_fn fn, void *arg)
{
	t->fn = fn;
	t->arg = arg;
}

int rut_tracer_poll(struct rut_tracer *t, int timeout_ms, struct rut_err *err)
{
	struct pollfd p = {.fd = t->watch, .events = POLLIN};
	bool first = !t->polls++;

	if (first && t->fn)
		for (unsigned long n = 0; n < fake.repeat; n++)
			for (size_t i = 0; i < fake.event_count; i++)
				t->fn(&fake.events[i], t->arg);
	if (fake.ends && (fake.row_count ? t->readings > 0 : first))
		return 0;
	if (!first)
		poll(&p, 1, timeout_ms);
	return t->attached;
}

int rut_tracer_rows(struct rut_tracer *t, const struct rut_ruby_row **ret_rows, size_t *ret_count,
		    struct rut_err *err)
{
	t->readings++;
	memcpy(t->rows, fake.rows, sizeof(fake.rows));
	for (size_t i = 0; i < fake.row_count; i++) {
		t->rows[i].calls *= fake.grow ? t->readings : 1;
		t->rows[i].count *= fake.grow ? t->readings : 1;
	}
	*ret_rows = t->rows;
	*ret_count = t->zero ? 0 : fake.row_count;
	return 0;
}

bool rut_tracer_rows_folded(const struct rut_tracer *t)
{
	return false;
}

enum rut_ruby_ractors rut_tracer_ractors(const struct rut_tracer *t)
{
	(void)t;
	return RUT_RUBY_RACTORS_NONE;
}

void rut_tracer_reset(struct rut_tracer *t)
{
	t->zero = !fake.grow;
	t->readings = 0;
}

const char *rut_ruby_role_name(enum rut_ruby_role role)
{
	return role == RUT_ROLE_PUMA_MASTER ? "puma-master" : "script";
}

void rut_ruby_proc_fini(struct rut_ruby_proc *p)
{
}

int rut_ruby_proc_read(struct rut_ruby_proc *ret, pid_t pid, struct rut_err *err)
{
	load();
	for (size_t i = 0; i < fake.proc_count; i++) {
		if (fake.procs[i].pid != pid)
			continue;
		*ret = fake.procs[i];
		return 0;
	}
	return rut_err_set(err, ESRCH, "no process %d", pid);
}

int rut_ruby_procs_list(struct rut_ruby_procs *ret, struct rut_err *err)
{
	load();
	*ret = (struct rut_ruby_procs){.procs = fake.procs, .count = fake.proc_count};
	return 0;
}

void rut_ruby_procs_fini(struct rut_ruby_procs *ps)
{
}

int rut_ruby_procs_match(const struct rut_ruby_procs *ps, const char *target, pid_t **ret_pids,
			 size_t *ret_count, struct rut_err *err)
{
	*ret_pids = calloc(ps->count + 1, sizeof(pid_t));
	*ret_count = 0;
	for (size_t i = 0; i < ps->count; i++) {
		const struct rut_ruby_proc *p = &ps->procs[i];

		if (!strcmp(target, "rails") ? p->role == RUT_ROLE_FOREMAN_RAILS
					     : strstr(p->name, target) != NULL)
			(*ret_pids)[(*ret_count)++] = p->pid;
	}
	if (!*ret_count)
		return rut_err_set(err, ESRCH, "no Ruby process is called '%s'", target);
	return 0;
}

const char *rut_tracer_root(const struct rut_tracer *t)
{
	(void)t;
	return NULL;
}

const char *rut_tracer_untraced(const struct rut_tracer *t, char *ret, size_t cap)
{
	(void)t, (void)ret, (void)cap;
	return NULL;
}

void rut_tracer_names(struct rut_tracer *t, void (*fn)(const struct rut_ruby_row *row, void *arg),
		      void *arg)
{
	(void)t;
	for (size_t i = 0; i < fake.row_count; i++)
		fn(&fake.rows[i], arg);
}
