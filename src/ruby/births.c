/* SPDX-License-Identifier: MIT */
/*
 * Adopts new children of traced processes, and reaps the members of a family that have exited.
 *
 * A forked child takes a slot in its family's file (family.c) and counts there, whether the tracer
 * knows it or not. This file finds such slots, and frees those of processes that have exited after
 * keeping their rows.
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

#define KEPT	   16  /* rings of exited processes that a flight recorder keeps */
#define UNSEEN_MAX 100 /* more children known by their slots only: search for exited ones now */
#define SEARCH_MS  500 /* interval of the search in other PID namespaces */

/* Adds the process that has taken this slot. */
static void adopt(struct rut_tracer *t, struct rut_family *f, uint32_t member)
{
	struct rut_tracee *p = calloc(1, sizeof(*p));
	struct rut_err ignored = RUT_ERR_INIT;

	if (!p)
		return;
	p->pid = (pid_t)__atomic_load_n(&f->map->member[member].pid, __ATOMIC_RELAXED);
	p->ctl_fd = p->pidfd = -1;
	p->exited = true; /* it has no control page that we know: nothing may talk to it */
	p->unseen = true;
	p->met_ms = rut_now_ms();
	if (rut_family_map(p, f, member) < 0 || rut_tracee_add(t, p, &ignored) < 0) {
		rut_tracee_free(p);
		return;
	}
	if (f->ring_fd >= 0 &&
	    rut_events_open_at(p, f->ring_fd, member * f->ring_bytes, f->ring_bytes, &ignored) < 0)
		rut_events_lost(t, p, 1, rut_now_ns());
}

static bool has_exited(pid_t pid)
{
	struct rut_proc_status s;

	return rut_proc_status_read(&s, pid, 0) < 0 || s.state == 'Z' || s.state == 'X';
}

/* The live processes of another PID namespace, by their PIDs in it. */
struct live {
	pid_t *pids; /* owned */
	size_t count;
	bool complete; /* all of /proc was read */
};

static void live_add(struct live *l, pid_t pid)
{
	pid_t *to = l->count % 64 ? l->pids : realloc(l->pids, (l->count + 64) * sizeof(*l->pids));

	if (!to) {
		l->complete = false;
		return;
	}
	l->pids = to;
	l->pids[l->count++] = pid;
}

static void live_read(const struct rut_family *f, struct live *l)
{
	struct dirent *de;
	DIR *dir = opendir("/proc");

	if (!dir)
		return;
	l->complete = true;
	while (l->complete && (de = readdir(dir))) {
		pid_t pid = (pid_t)strtol(de->d_name, NULL, 10);
		struct rut_proc_status s;
		char ns[64];

		if (pid <= 0 || rut_proc_status_read(&s, pid, 0) < 0 || s.state == 'Z' ||
		    s.state == 'X')
			continue;
		rut_family_pid_ns(pid, ns, sizeof(ns));
		if (!ns[0] || strcmp(ns, f->pid_ns) == 0)
			live_add(l, s.ns_pid);
	}
	closedir(dir);
}

static bool member_exited(const struct rut_family *f, pid_t pid, const struct live *l)
{
	if (f->same_ns)
		return has_exited(pid);
	for (size_t i = 0; l->complete && i < l->count; i++)
		if (l->pids[i] == pid)
			return false;
	return l->complete;
}

static bool should_reap(const struct rut_family *f, const struct rut_tracee *p, bool search,
			const struct live *l)
{
	if (!p->unseen)
		return p->exited; /* or executed another program, which dropped its tables */
	/* Most are adopted, or exit, within a second; later only the search asks for them. */
	if (!search && rut_now_ms() > p->met_ms + 1000)
		return false;
	return member_exited(f, p->pid, l);
}

/* Keeps what an exited process has counted, and frees its slot. */
static bool reap(struct rut_tracer *t, struct rut_family *f, uint32_t member)
{
	struct rut_tracee *p = f->known[member];

	if (p->events && !rut_events_told(p))
		return false;
	rut_requests_last(t, p);
	/* Its records could not be written yet (a full disk): try again later. */
	if (p->out)
		return false;
	if (!rut_gone_keep(t, p))
		return false;
	rut_events_left(t, p);
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

/* Frees the slot of a child that was killed before its table was ready. */
static void free_unready(struct rut_family *f, uint32_t member, const struct live *l)
{
	struct rut_agent_member *m = &f->map->member[member];
	pid_t pid = __atomic_load_n(&m->pid, __ATOMIC_RELAXED);

	if (pid <= 0 || !member_exited(f, pid, l) ||
	    __atomic_load_n(&m->state, __ATOMIC_ACQUIRE) != RUT_MEMBER_TAKEN)
		return;
	m->pid = 0;
	__atomic_store_n(&m->state, RUT_MEMBER_FREE, __ATOMIC_RELEASE);
}

/* Returns true when a member has exited. */
static bool check_family(struct rut_tracer *t, struct rut_family *f, bool search)
{
	struct live l = {0};
	bool ended = false;
	uint32_t unseen = 0;

	for (uint32_t m = 1; m < f->members; m++) {
		uint32_t state = __atomic_load_n(&f->map->member[m].state, __ATOMIC_ACQUIRE);

		if (state == RUT_MEMBER_READY && !f->known[m]) {
			adopt(t, f, m);
			if (f->known[m])
				rut_tracee_announce(t, f->known[m], RUT_RUBY_EVENT_START);
		}
		unseen += f->known[m] ? f->known[m]->unseen : state != RUT_MEMBER_FREE;
	}
	/* In another PID namespace a slot's PID says nothing here: read all of /proc. */
	if (unseen && !f->same_ns && (search || unseen > UNSEEN_MAX))
		live_read(f, &l);
	for (uint32_t m = 1; m < f->members; m++) {
		struct rut_tracee *p = f->known[m];

		if (p && should_reap(f, p, search, &l)) {
			if (!p->over)
				p->over_number = ++t->ended;
			ended = p->over = true;
		} else if (!p && search && f->map->member[m].state == RUT_MEMBER_TAKEN) {
			free_unready(f, m, &l);
		}
	}
	free(l.pids);
	return ended;
}

/* The rings of the newest exited processes are kept for the next snapshot of a flight recorder. */
static bool is_kept(const struct rut_tracer *t, const struct rut_family *f,
		    const struct rut_tracee *p)
{
	unsigned newer = 0;

	if (t->config.mode != RUT_RUBY_RECORD || !t->config.overwrite || t->ending || !p->events)
		return false;
	for (uint32_t m = 1; m < f->members; m++)
		newer += f->known[m] && f->known[m]->over &&
			 f->known[m]->over_number > p->over_number;
	return newer < KEPT;
}

static void reap_all(struct rut_tracer *t, struct rut_family *f)
{
	for (uint32_t m = 1; m < f->members; m++)
		if (f->known[m] && f->known[m]->over && !is_kept(t, f, f->known[m]))
			reap(t, f, m);
}

void rut_births_look(struct rut_tracer *t)
{
	bool search = rut_now_ms() >= t->search_ms, ended = false;

	if (search)
		t->search_ms = rut_now_ms() + SEARCH_MS;
	for (size_t i = 0; i < t->family_count; i++)
		if (t->families[i]->follow)
			ended |= check_family(t, t->families[i], search);
	if (!ended)
		return;
	/* Drain their rings: exited processes add nothing more. */
	rut_drain(t, NULL);
	for (size_t i = 0; i < t->family_count; i++)
		reap_all(t, t->families[i]);
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
