/* SPDX-License-Identifier: MIT */
/*
 * Families: the processes that count into one file (agent/abi.h), because they were forked with our
 * session in them. Whoever has taken a place there is known at once and for good, also when it has
 * ended before anybody looked: its counts and its records are in memory that we have mapped. A
 * child that lives longer is found by tree.c as well, which takes its agent over; its place is the
 * same.
 *
 * When a process has ended, what it counted is added to the rows of those that are gone, its memory
 * is returned, and its place is free for another child. A place is given back only when the process
 * is known to have ended: what else it may have become, it must not count into another's rows.
 */
#include "ruby/internal.h"

#include "base/cleanup.h"
#include "ruby/target.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CROWD	  100  /* children of whom only the place is known: look for the dead at once */
#define SEARCH_MS 500  /* how often processes of other PID namespaces are looked for */
#define GONE_MAX  8192 /* rows of processes that have ended, before they are added up */

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void read_pid_ns(pid_t pid, char *ret, size_t cap)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	n = readlink(path, ret, cap - 1);
	ret[n < 0 ? 0 : n] = 0;
}

/* ---- places ---- */

static size_t table_offset(const struct rut_family *f, uint32_t member)
{
	return RUT_FAMILY_BYTES + member * f->table_bytes;
}

/* The family of this file; `fd` is taken when it is a new one. */
static struct rut_family *find_family(struct rut_tracer *t, pid_t pid, int *fd, struct rut_err *err)
{
	struct rut_agent_family *map;
	struct rut_family *f, **to;
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	char self[64];
	struct stat st;

	if (fstat(*fd, &st) < 0 || st.st_size < RUT_FAMILY_BYTES)
		goto foreign;
	for (size_t i = 0; i < t->family_count; i++)
		if (t->families[i]->ino == st.st_ino)
			return t->families[i];
	to = realloc(t->families, (t->family_count + 1) * sizeof(struct rut_family *));
	f = to ? calloc(1, sizeof(*f)) : NULL;
	if (to)
		t->families = to;
	map = f ? mmap(NULL, RUT_FAMILY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0)
		: MAP_FAILED;
	if (map == MAP_FAILED) {
		free(f);
		rut_err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	f->map = map;
	f->ino = st.st_ino;
	f->ring_fd = -1;
	f->table_bytes = map->table_bytes;
	f->members = map->members;
	if (map->magic != RUT_FAMILY_MAGIC || map->abi != RUT_AGENT_ABI || !f->members ||
	    f->members > RUT_FAMILY_MEMBERS || f->table_bytes < sizeof(struct rut_agent_table) ||
	    f->table_bytes % 4096 || f->table_bytes > 1ull << 32 ||
	    table_offset(f, f->members) > (uint64_t)st.st_size) {
		munmap(map, RUT_FAMILY_BYTES);
		free(f);
		goto foreign;
	}
	f->fd = *fd;
	*fd = -1;
	/* For children that we come too late to: they count as long as it is held (agent/abi.h). */
	fcntl(f->fd, F_OFD_SETLK, &lock);
	read_pid_ns(pid, f->pid_ns, sizeof(f->pid_ns));
	read_pid_ns(getpid(), self, sizeof(self));
	f->same_ns = strcmp(self, f->pid_ns) == 0;
	t->families[t->family_count++] = f;
	return f;
foreign:
	rut_err_set(err, EPROTO, "the tables of process %d are not ours", (int)pid);
	return NULL;
}

static int map_place(struct rut_tracee *p, struct rut_family *f, uint32_t member)
{
	void *m = mmap(NULL, f->table_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd,
		       (off_t)table_offset(f, member));

	if (m == MAP_FAILED)
		return -errno;
	p->table = m;
	p->table_bytes = f->table_bytes;
	p->family = f;
	p->member = member;
	f->known[member] = p;
	return 0;
}

static void remove_tracee(struct rut_tracer *t, struct rut_tracee *p)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->tracees[i] == p) {
			memmove(&t->tracees[i], &t->tracees[i + 1],
				(--t->count - i) * sizeof(struct rut_tracee *));
			break;
		}
	rut_tracee_free(p);
}

int rut_family_join(struct rut_tracer *t, struct rut_tracee *p, struct rut_err *err)
{
	struct rut_agent_slot *slot = &p->ctl->slots[p->slot];
	_cleanup_close_ int fd =
		rut_target_open_shared(p->pid, slot->table_fd, RUT_AGENT_TABLE_MEMFD);
	uint32_t member = slot->member;
	struct rut_tracee *seen;
	struct rut_family *f;
	struct stat st;
	int r;

	if (fd < 0 && fd != -ENOENT)
		return rut_err_errno(err, -fd, "cannot open the tables of process %d", (int)p->pid);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_ino != slot->table_ino)
		return rut_err_set(err, EPROTO, "process %d closed the agent's tables",
				   (int)p->pid);
	f = find_family(t, p->pid, &fd, err);
	if (!f)
		return -EPROTO;
	if (member >= f->members)
		return rut_err_set(err, EPROTO, "the tables of process %d are not ours",
				   (int)p->pid);
	seen = f->known[member];
	r = map_place(p, f, member);
	if (r < 0)
		return rut_err_errno(err, -r, "cannot map the tables of process %d", (int)p->pid);
	if (!seen)
		return 0;
	/* We know it from its place: here is the process to it. */
	p->announced = seen->announced;
	p->names = RUT_TAKE(seen->names);
	p->names_cap = seen->names_cap;
	p->base = RUT_TAKE(seen->base);
	p->base_count = seen->base_count;
	p->events = RUT_TAKE(seen->events);
	p->out = RUT_TAKE(seen->out);
	p->recorded = seen->recorded;
	seen->family = NULL;
	remove_tracee(t, seen);
	return 0;
}

void rut_family_leave(struct rut_tracee *p)
{
	if (p->family && p->family->known[p->member] == p)
		p->family->known[p->member] = NULL;
}

/* ---- children that nobody has seen ---- */

/* A process that has just been found in its place. */
static void meet(struct rut_tracer *t, struct rut_family *f, uint32_t member)
{
	struct rut_tracee *p = calloc(1, sizeof(*p));
	struct rut_err ignored = RUT_ERR_INIT;

	if (!p)
		return;
	p->pid = (pid_t)__atomic_load_n(&f->map->member[member].pid, __ATOMIC_RELAXED);
	p->ctl_fd = p->pidfd = -1;
	p->exited = true; /* for all who would like to talk to it */
	p->unseen = true;
	p->met_ms = now_ms();
	if (map_place(p, f, member) < 0 || rut_tracer_add(t, p, &ignored) < 0) {
		rut_tracee_free(p);
		return;
	}
	if (f->ring_fd >= 0)
		rut_events_open_at(p, f->ring_fd, member * f->ring_bytes, f->ring_bytes, &ignored);
}

static bool is_over(pid_t pid)
{
	struct rut_proc_status s;

	return rut_proc_status_read(&s, pid, 0) < 0 || s.state == 'Z' || s.state == 'X';
}

/* The processes of another PID namespace, as they see themselves. */
struct living {
	pid_t *pids; /* owned */
	size_t count;
	bool known; /* somebody has looked */
};

static void add_living(struct living *l, pid_t pid)
{
	pid_t *to = l->count % 64 ? l->pids : realloc(l->pids, (l->count + 64) * sizeof(*l->pids));

	if (!to) {
		l->known = false;
		return;
	}
	l->pids = to;
	l->pids[l->count++] = pid;
}

static void look_for_living(const struct rut_family *f, struct living *l)
{
	struct dirent *de;
	DIR *dir = opendir("/proc");

	if (!dir)
		return;
	l->known = true;
	while (l->known && (de = readdir(dir))) {
		pid_t pid = (pid_t)strtol(de->d_name, NULL, 10);
		struct rut_proc_status s;
		char ns[64];

		if (pid <= 0 || rut_proc_status_read(&s, pid, 0) < 0 || s.state == 'Z' ||
		    s.state == 'X')
			continue;
		read_pid_ns(pid, ns, sizeof(ns));
		if (!ns[0] || strcmp(ns, f->pid_ns) == 0)
			add_living(l, s.ns_pid);
	}
	closedir(dir);
}

static bool is_dead(const struct rut_family *f, pid_t pid, const struct living *l)
{
	if (f->same_ns)
		return is_over(pid);
	for (size_t i = 0; l->known && i < l->count; i++)
		if (l->pids[i] == pid)
			return false;
	return l->known;
}

static bool has_ended(const struct rut_family *f, const struct rut_tracee *p, bool search,
		      const struct living *l)
{
	if (!p->unseen)
		return p->exited; /* or has executed another program: it has no tables any more */
	/* Most are taken over, or end, at once. What is still there does something else. */
	if (!search && now_ms() > p->met_ms + 1000)
		return false;
	return is_dead(f, p->pid, l);
}

/* ---- those that are gone ---- */

/* By all but the process: the names are interned, so their addresses will do. */
static int compare_rows(const void *a, const void *b)
{
	const struct rut_ruby_row *x = a, *y = b;
#define BY(field)                                                                                  \
	if (x->field != y->field)                                                                  \
		return (uintptr_t)x->field < (uintptr_t)y->field ? -1 : 1;
	BY(path)
	BY(line)
	BY(class_name)
	BY(method_name)
	BY(singleton)
#undef BY
	return 0;
}

static void add_row(struct rut_ruby_row *to, const struct rut_ruby_row *row)
{
	to->calls += row->calls;
	to->total_ns += row->total_ns;
	to->self_ns += row->self_ns;
	to->max_ns = row->max_ns > to->max_ns ? row->max_ns : to->max_ns;
	to->running += row->running;
	to->count += row->count;
	to->bytes += row->bytes;
	for (unsigned i = 0; to->buckets && row->buckets && i < RUT_BUCKETS; i++)
		((struct rut_ruby_buckets *)to->buckets)->calls[i] += row->buckets->calls[i];
	free((void *)row->buckets);
}

/* There are too many to keep each process's apart: they become rows of the first one. */
static void merge_gone(struct rut_gone *g, pid_t pid)
{
	size_t n = 0;

	qsort(g->rows, g->count, sizeof(*g->rows), compare_rows);
	for (size_t i = 0; i < g->count; i++) {
		if (n && compare_rows(&g->rows[n - 1], &g->rows[i]) == 0) {
			add_row(&g->rows[n - 1], &g->rows[i]);
			continue;
		}
		g->rows[n] = g->rows[i];
		g->rows[n++].pid = pid;
	}
	g->count = n;
	g->limit = n * 2 > GONE_MAX ? n * 2 : GONE_MAX;
}

/* What rows refer to goes with the process: they get their own. */
static bool keep_buckets(struct rut_ruby_row *rows, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		struct rut_ruby_buckets *own = rows[i].buckets ? malloc(sizeof(*own)) : NULL;

		if (own)
			*own = *rows[i].buckets;
		else if (rows[i].buckets)
			break;
		rows[i].buckets = own;
	}
	for (uint32_t k = 0; i < count && k < i; k++)
		free((void *)rows[k].buckets);
	return i == count;
}

void rut_gone_forget(struct rut_gone *g)
{
	for (size_t i = 0; i < g->count; i++) {
		free((void *)g->rows[i].buckets);
		g->rows[i].buckets = NULL;
	}
}

/* Returns whether it worked out: else the process's tables are kept as they are. */
static bool keep_rows(struct rut_tracer *t, struct rut_tracee *p)
{
	struct rut_gone *g = &t->gone;
	uint32_t count = rut_rows_count(p);
	size_t need = g->count + count;

	if (need > g->cap) {
		struct rut_ruby_row *to = realloc(g->rows, need * 2 * sizeof(*to));

		if (!to)
			return false;
		g->rows = to;
		g->cap = need * 2;
	}
	if (!rut_rows_fill(t, p, g->rows + g->count, &count))
		return false;
	if (!keep_buckets(g->rows + g->count, count))
		return false;
	g->count += count;
	if (g->count > (g->limit ? g->limit : GONE_MAX))
		merge_gone(g, t->tracees[0]->pid);
	return true;
}

/* It has ended: what it leaves, and its place to the next one. */
static bool bury(struct rut_tracer *t, struct rut_family *f, uint32_t member)
{
	struct rut_tracee *p = f->known[member];

	if (p->events && !rut_events_told(p))
		return false;
	/* What it recorded cannot be written now (a full disk). */
	if (p->out)
		return false;
	if (!keep_rows(t, p))
		return false;
	if (p->unseen)
		rut_tree_announce(t, p, RUT_RUBY_EVENT_EXIT);
	remove_tracee(t, p);
	fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)table_offset(f, member),
		  (off_t)f->table_bytes);
	if (f->ring_fd >= 0)
		fallocate(f->ring_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)(member * f->ring_bytes), (off_t)f->ring_bytes);
	f->map->member[member].pid = 0;
	__atomic_store_n(&f->map->member[member].state, RUT_MEMBER_FREE, __ATOMIC_RELEASE);
	return true;
}

/* Ended before it was ready: killed while it was being forked. */
static void free_stillborn(struct rut_family *f, uint32_t member, const struct living *l)
{
	struct rut_agent_member *m = &f->map->member[member];
	pid_t pid = __atomic_load_n(&m->pid, __ATOMIC_RELAXED);

	if (pid <= 0 || !is_dead(f, pid, l) ||
	    __atomic_load_n(&m->state, __ATOMIC_ACQUIRE) != RUT_MEMBER_TAKEN)
		return;
	m->pid = 0;
	__atomic_store_n(&m->state, RUT_MEMBER_FREE, __ATOMIC_RELEASE);
}

/* Returns whether somebody has ended. */
static bool look_at(struct rut_tracer *t, struct rut_family *f, bool search)
{
	struct living l = {0};
	bool ended = false;
	uint32_t unseen = 0;

	for (uint32_t m = 1; m < f->members; m++) {
		uint32_t state = __atomic_load_n(&f->map->member[m].state, __ATOMIC_ACQUIRE);

		if (state == RUT_MEMBER_READY && !f->known[m]) {
			meet(t, f, m);
			if (f->known[m])
				rut_tree_announce(t, f->known[m], RUT_RUBY_EVENT_START);
		}
		unseen += f->known[m] ? f->known[m]->unseen : state != RUT_MEMBER_FREE;
	}
	/* Where they have other PIDs all of them must be looked at. */
	if (unseen && !f->same_ns && (search || unseen > CROWD))
		look_for_living(f, &l);
	for (uint32_t m = 1; m < f->members; m++) {
		struct rut_tracee *p = f->known[m];

		if (p && has_ended(f, p, search, &l))
			ended = p->over = true;
		else if (!p && search && f->map->member[m].state == RUT_MEMBER_TAKEN)
			free_stillborn(f, m, &l);
	}
	free(l.pids);
	return ended;
}

void rut_family_look(struct rut_tracer *t)
{
	bool search = now_ms() >= t->search_ms, ended = false;

	if (search)
		t->search_ms = now_ms() + SEARCH_MS;
	for (size_t i = 0; i < t->family_count; i++)
		if (t->families[i]->follow)
			ended |= look_at(t, t->families[i], search);
	if (!ended)
		return;
	/* What they told, all of it: nothing is added any more. */
	rut_events_round(t, NULL);
	for (size_t i = 0; i < t->family_count; i++)
		for (uint32_t m = 1; m < t->families[i]->members; m++)
			if (t->families[i]->known[m] && t->families[i]->known[m]->over)
				bury(t, t->families[i], m);
}

bool rut_family_grows(struct rut_tracer *t)
{
	bool grows = false;

	for (size_t i = 0; i < t->family_count; i++) {
		uint32_t births = __atomic_load_n(&t->families[i]->map->births, __ATOMIC_RELAXED);

		grows |= births != t->families[i]->births;
		t->families[i]->births = births;
	}
	return grows;
}

void rut_family_free_all(struct rut_tracer *t)
{
	for (size_t i = 0; i < t->family_count; i++) {
		struct rut_family *f = t->families[i];

		munmap(f->map, RUT_FAMILY_BYTES);
		close(f->fd);
		if (f->ring_fd >= 0)
			close(f->ring_fd);
		free(f);
	}
	free(t->families);
	rut_gone_forget(&t->gone);
	free(t->gone.rows);
}
