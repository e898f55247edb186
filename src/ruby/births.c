/* SPDX-License-Identifier: MIT */
/*
 * Children of traced processes that nobody has seen yet, and processes of a family that have ended.
 *
 * A child that is forked takes a slot in its family's file (family.c), and counts there whether we
 * know of it or not. Here such slots are found, and those of processes that have ended are freed,
 * after their rows were kept.
 */
#include "ruby/births.h"

#include "base/clock.h"
#include "base/proc.h"
#include "ruby/drain.h"
#include "ruby/events.h"
#include "ruby/family.h"
#include "ruby/gone.h"
#include "ruby/requests_out.h"
#include "ruby/target.h"
#include "ruby/tracee.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define CROWD	  100 /* children of whom only the place is known: look for the dead at once */
#define SEARCH_MS 500 /* how often processes of other PID namespaces are looked for */

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
	p->met_ms = rut_now_ms();
	if (rut_family_map(p, f, member) < 0 || rut_tracee_add(t, p, &ignored) < 0) {
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
		rut_family_pid_ns(pid, ns, sizeof(ns));
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
	if (!search && rut_now_ms() > p->met_ms + 1000)
		return false;
	return is_dead(f, p->pid, l);
}

/* It has ended: what it leaves, and its place to the next one. */
static bool bury(struct rut_tracer *t, struct rut_family *f, uint32_t member)
{
	struct rut_tracee *p = f->known[member];

	if (p->events && !rut_events_told(p))
		return false;
	rut_requests_last(t, p);
	/* What it recorded cannot be written now (a full disk). */
	if (p->out)
		return false;
	if (!rut_gone_keep(t, p))
		return false;
	if (p->unseen)
		rut_tracee_announce(t, p, RUT_RUBY_EVENT_EXIT);
	rut_tracee_remove(t, p);
	fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  (off_t)rut_family_table_offset(f, member), (off_t)f->table_bytes);
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
				rut_tracee_announce(t, f->known[m], RUT_RUBY_EVENT_START);
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

void rut_births_look(struct rut_tracer *t)
{
	bool search = rut_now_ms() >= t->search_ms, ended = false;

	if (search)
		t->search_ms = rut_now_ms() + SEARCH_MS;
	for (size_t i = 0; i < t->family_count; i++)
		if (t->families[i]->follow)
			ended |= look_at(t, t->families[i], search);
	if (!ended)
		return;
	/* What they told, all of it: nothing is added any more. */
	rut_drain(t, NULL);
	for (size_t i = 0; i < t->family_count; i++)
		for (uint32_t m = 1; m < t->families[i]->members; m++)
			if (t->families[i]->known[m] && t->families[i]->known[m]->over)
				bury(t, t->families[i], m);
}

bool rut_births_grow(struct rut_tracer *t)
{
	bool grows = false;

	for (size_t i = 0; i < t->family_count; i++) {
		uint32_t births = __atomic_load_n(&t->families[i]->map->births, __ATOMIC_RELAXED);

		grows |= births != t->families[i]->births;
		t->families[i]->births = births;
	}
	return grows;
}
