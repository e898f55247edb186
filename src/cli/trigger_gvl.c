/* SPDX-License-Identifier: MIT */
/*
 * Triggers on waits for Ruby's lock, the GVL, by a script in the kernel.
 *
 * Since 3.2 Ruby reports that a thread wants the lock and that it has it. Before, a thread that
 * wants it waits for a condition variable of its own with the mutex of the lock. That mutex needs
 * no symbol and no offset of a version:
 *
 *	owner	the thread that has the lock; NULL: it is free
 *	mutex
 *	waiting	a list: next, previous
 *
 * A waiter's node in that list stands before its condition variable, and it is put at the end of
 * the list just before it waits. So a mutex is the one of the lock if, when a thread begins to wait
 * with it, the last node of what follows it is the one before the condition variable. (Ruby 2.6 to
 * 3.1.) A thread that wakes up while the owner is another thread waits again: that is one wait.
 */
#include "cli/trigger_source.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/maps.h"
#include "base/proc.h"
#include "cli/ruby_target.h"
#include "ruby/proc.h"
#include "ruby_abi/ruby_abi.h"

#define AGAIN_NS   1000000000ull
#define OTHERS_NS  10000000000ull
#define WITH_EVENT 302 /* the first Ruby with events of the lock */
#define OLDEST	   206 /* with a lock as described above */
#define PATH_LEN   512

/* A process, or with the events of Ruby a process and those below it. */
struct watched {
	pid_t pid;
	bool below;			   /* found as one below those that were asked for */
	struct rut_trigger_source *script; /* owned */
};

struct gvl {
	struct rut_trigger_source source;
	const struct rut_trigger_when *when;
	struct watched *v; /* owned */
	size_t count;
	uint64_t again_ns;
	bool whole; /* of those asked for none has ended */
};

/* What both have: what is told of waits that are over, and of those that last. */
static const char common[] = "tracepoint:sched:sched_process_exit\n"
			     "{\n"
			     "	delete(@since[(uint64)tid]);\n"
			     "	delete(@told[(uint64)tid]);\n"
			     "}\n" RUT_TRIGGER_LASTING;

static const char with_events[] =
	"config = { max_map_keys = 16384 }\n"
	/* Of a thread that another one wakes up Ruby may not know yet who it is. */
	"ruby:gvl:wait /args.tid != 0/ { @since[(uint64)args.tid] = nsecs; }\n"
	"ruby:gvl:have\n"
	"{\n"
	"	$tid = (uint64)args.tid;\n"
	"	$since = @since[$tid];\n"
	"	if ($since != 0 && nsecs - $since >= %1$" PRIu64 " && @told[$tid] != $since) {\n"
	"		printf(\"%%d %%llu 1\\n\", $tid, nsecs - $since);\n"
	"	}\n"
	"	delete(@since[$tid]);\n"
	"}\n";

/* Behind the probes "uprobe:LIBRARY:pthread_cond_wait, ...". */
static const char waits[] =
	"{\n"
	"	$mutex = (uint64)arg1;\n"
	"	if (@lock[pid, $mutex] == 0 && *(uint64 *)($mutex + %1$zu) == (uint64)arg0 - 16) "
	"{\n"
	"		@lock[pid, $mutex] = 1;\n"
	"	}\n"
	"	if (@lock[pid, $mutex] != 0) {\n"
	"		if (@since[(uint64)tid] == 0) { @since[(uint64)tid] = nsecs; }\n"
	"		@mutex[tid] = $mutex;\n"
	"	}\n"
	"}\n";

static const char waited[] =
	"{\n"
	"	$tid = (uint64)tid;\n"
	"	$since = @since[$tid];\n"
	"	if ($since != 0 && *(uint64 *)(@mutex[tid] - 8) == 0) {\n"
	"		if (nsecs - $since >= %1$" PRIu64 " && @told[$tid] != $since) {\n"
	"			printf(\"%%d %%llu 1\\n\", tid, nsecs - $since);\n"
	"		}\n"
	"		delete(@since[$tid]);\n"
	"	}\n"
	"}\n"
	"tracepoint:sched:sched_process_exit { delete(@mutex[tid]); }\n"
	"END { clear(@lock); clear(@mutex); }\n";

/* ---- Libraries ---- */

/* The file of the C library, or before glibc 2.34 of its threads, as the process sees it. */
static int find_library(pid_t pid, char *ret, size_t size, struct rut_err *err)
{
	_cleanup_maps_ struct rut_maps maps = RUT_MAPS_INIT;
	char path[64], whole[PATH_LEN + 128], root[PATH_LEN];
	struct rut_mapping m;
	size_t skip;
	ssize_t n;
	int rc;

	/* After chroot() the map has the names that we see, and its root is one of them. */
	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	n = readlink(path, root, sizeof(root) - 1);
	root[n > 0 ? n : 0] = '\0';
	skip = n > 1 ? (size_t)n : 0;
	rc = rut_maps_open(&maps, pid);
	if (rc)
		return rut_err_errno(err, -rc, "cannot read '/proc/%d/maps'", pid);
	ret[0] = '\0';
	while (rut_maps_next(&maps, &m)) {
		const char *name = whole, *last = m.path[0] == '/' ? strrchr(m.path, '/') : NULL;

		if (!last)
			continue;
		if (strncmp(last, "/libpthread", 11) != 0 &&
		    (ret[0] ||
		     (strncmp(last, "/libc.so", 8) != 0 && strncmp(last, "/libc-", 6) != 0)))
			continue;
		/* Of a deleted file it has a space: another file may be at its path. */
		rut_mapping_name(&m, whole, sizeof(whole));
		if (skip && !strncmp(name, root, skip) && name[skip] == '/')
			name += skip;
		if (strlen(name) >= size || strpbrk(name, " :,*\"{}"))
			break;
		snprintf(ret, size, "%s", name);
	}
	return ret[0] ? 0
		      : rut_err_set(err, ENOTSUP,
				    "process %d has no dynamically linked glibc: its waits for the "
				    "GVL are not seen before Ruby 3.2",
				    pid);
}

static void put_probes(struct rut_buf *b, const char *kind, const char *path)
{
	rut_buf_printf(b, "%1$s:%2$s:pthread_cond_wait,\n%1$s:%2$s:pthread_cond_timedwait\n", kind,
		       path);
}

/* ---- The script ---- */

/* Does Ruby report waits in this process? 0 or 1; -errno. */
static int has_events(pid_t pid, struct rut_err *err)
{
	struct rut_ruby_proc p = {0};
	int number, rc = rut_ruby_proc_read(&p, pid, err);

	number = rc ? 0 : rut_ruby_abi_number(p.version);
	rut_ruby_proc_fini(&p);
	if (rc)
		return rc;
	if (number < OLDEST)
		return rut_err_set(err, ENOTSUP,
				   "process %d: waits for the GVL are seen from Ruby 2.6 on", pid);
	return number >= WITH_EVENT;
}

/* The formats are ours. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static int write_script(const struct gvl *g, pid_t pid, struct rut_buf *b, struct rut_err *err)
{
	int events = has_events(pid, err);

	if (events < 0)
		return events;
	if (events) {
		rut_buf_printf(b, with_events, g->when->ns);
	} else {
		char library[PATH_LEN];
		int rc = find_library(pid, library, sizeof(library), err);

		if (rc)
			return rc;
		rut_buf_puts(b, "config = { max_map_keys = 16384 }\n");
		put_probes(b, "uprobe", library);
		rut_buf_printf(b, waits, sizeof(pthread_mutex_t) + sizeof(void *));
		put_probes(b, "uretprobe", library);
		rut_buf_printf(b, waited, g->when->ns);
	}
	rut_buf_printf(b, common, g->when->ns);
	rut_buf_putc(b, 0);
	return b->failed ? rut_err_set(err, ENOMEM, "out of memory") : 0;
}
#pragma GCC diagnostic pop

static int watch(struct gvl *g, pid_t pid, bool below, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	struct watched *more, w = {pid, below, NULL};
	char number[16];
	int rc;

	for (size_t i = 0; i < g->count; i++)
		if (g->v[i].pid == pid)
			return 0;
	more = reallocarray(g->v, g->count + 1, sizeof(*more));
	if (!more)
		return rut_err_set(err, ENOMEM, "out of memory");
	g->v = more;
	rc = write_script(g, pid, &text, err);
	snprintf(number, sizeof(number), "%d", pid);
	if (!rc)
		rc = rut_cli_trigger_script_run(&w.script, g->when, text.data, number, err);
	if (!rc)
		g->v[g->count++] = w;
	return rc;
}

/* ---- Processes ---- */

static bool is_below(pid_t pid, const struct rut_targets *t)
{
	int depth = 0;

	for (pid_t p = rut_proc_parent(pid); p > 1 && depth < 64; p = rut_proc_parent(p), depth++)
		for (size_t i = 0; i < t->count; i++)
			if (t->pids[i] == p)
				return true;
	return false;
}

/* Ruby's events come from the processes below as well, the C library's are each process's own. */
static void watch_below(struct gvl *g, const struct rut_targets *t)
{
	struct rut_err ignored = RUT_ERR_INIT;
	struct rut_ruby_procs all = {0};

	if (!rut_ruby_procs_list(&all, &ignored))
		for (size_t i = 0; i < all.count; i++)
			if (is_below(all.procs[i].pid, t) &&
			    !has_events(all.procs[i].pid, &ignored))
				watch(g, all.procs[i].pid, true, &ignored);
	rut_ruby_procs_fini(&all);
}

/* Watches the processes of that name that there are now; one at least must be. */
static int look(struct gvl *g, struct rut_err *err)
{
	struct rut_err first = RUT_ERR_INIT;
	struct rut_targets t = {0};
	int rc = rut_cli_trigger_targets(g->when, &t, err);

	for (size_t i = 0; !rc && i < t.count; i++) {
		struct rut_err why = RUT_ERR_INIT;

		if (watch(g, t.pids[i], false, &why) && !first.code)
			first = why;
	}
	if (!rc)
		watch_below(g, &t);
	rut_cli_targets_fini(&t);
	if (!rc && !g->count) {
		*err = first;
		rc = -first.code;
	}
	return rc;
}

/* A PID may be another program's once its process has ended. */
static bool is_by_pid(const struct gvl *g)
{
	return !g->when->events[strspn(g->when->events, "0123456789 \t")];
}

static int step(struct rut_trigger_source *s, rut_trigger_seen_fn seen, void *arg,
		struct rut_err *err)
{
	struct gvl *g = (struct gvl *)s;
	struct rut_err why = RUT_ERR_INIT;
	size_t kept = 0;
	uint64_t now = rut_now_ns();

	for (size_t i = 0; i < g->count; i++) {
		struct watched w = g->v[i];

		if (!w.script->step(w.script, seen, arg, &why)) {
			g->v[kept++] = w;
			continue;
		}
		w.script->free(w.script);
		g->whole = g->whole && w.below;
		if (g->again_ns > now + AGAIN_NS)
			g->again_ns = now + AGAIN_NS;
	}
	g->count = kept;
	if (!kept && is_by_pid(g))
		return rut_err_set(err, ESRCH, "no process of %s is left to watch (%s)",
				   g->when->events, why.msg);
	/* By PID only workers are looked for, of a process that is still the same. */
	if (now < g->again_ns || (is_by_pid(g) && !g->whole))
		return 0;
	look(g, &why);
	g->again_ns = rut_now_ns() + (g->count ? OTHERS_NS : AGAIN_NS);
	return 0;
}

static void free_gvl(struct rut_trigger_source *s)
{
	struct gvl *g = (struct gvl *)s;

	for (size_t i = 0; i < g->count; i++)
		g->v[i].script->free(g->v[i].script);
	free(g->v);
	free(g);
}

int rut_cli_trigger_gvl_open(struct rut_trigger_source **ret, const struct rut_cmd *cmd,
			     const struct rut_trigger_when *w, struct rut_err *err)
{
	struct gvl *g = calloc(1, sizeof(*g));
	int rc;

	(void)cmd;
	if (!g)
		return rut_err_set(err, ENOMEM, "out of memory");
	g->source = (struct rut_trigger_source){step, free_gvl};
	g->when = w;
	rc = look(g, err);
	if (rc) {
		free_gvl(&g->source);
		return rc;
	}
	g->whole = true;
	g->again_ns = rut_now_ns() + OTHERS_NS;
	*ret = &g->source;
	return 0;
}
