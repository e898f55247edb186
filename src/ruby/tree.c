/* SPDX-License-Identifier: MIT */
/*
 * Following a tree of processes: children as they are forked, programs as they are executed, and
 * the children of those that ended before we saw them.
 *
 * A forked child has an agent with our session in it already: it is only taken over. An executed
 * Ruby gets the agent again, when it has had time to start.
 */
#include "ruby/births.h"
#include "ruby/drain.h"
#include "ruby/rows.h"
#include "ruby/tracee.h"
#include "ruby/tree.h"
#include "ruby/proc.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/maps.h"
#include "base/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEP_MS 100 /* how often running calls are read, whether they are shown or not */

static struct rut_tracee *find(struct rut_tracer *t, pid_t pid)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->tracees[i]->pid == pid && !t->tracees[i]->exited)
			return t->tracees[i];
	return NULL;
}

/* A process that runs Ruby: shared or static libruby. */
static bool looks_like_ruby(pid_t pid)
{
	_cleanup_maps_ struct rut_maps maps = RUT_MAPS_INIT;
	struct rut_mapping m;
	char path[64], exe[256];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	if (n < 0)
		return false;
	exe[n] = 0;
	if (strstr(exe, "/ruby"))
		return true;
	if (rut_maps_open(&maps, pid) < 0)
		return false;
	while (rut_maps_next(&maps, &m))
		if (strstr(m.path, "/libruby"))
			return true;
	return false;
}

static struct rut_candidate *candidate(struct rut_tracer *t, pid_t pid)
{
	struct rut_candidate *free_one = NULL;

	for (size_t i = 0; i < RUT_CANDIDATES; i++) {
		if (t->candidates[i].pid == pid)
			return &t->candidates[i];
		if (!t->candidates[i].pid ||
		    (!free_one && t->candidates[i].seen_ms + 60000 < rut_now_ms()))
			free_one = free_one ? free_one : &t->candidates[i];
	}
	if (free_one)
		*free_one = (struct rut_candidate){.pid = pid, .seen_ms = rut_now_ms()};
	return free_one;
}

static bool take_over(struct rut_tracer *t, pid_t pid, bool inject)
{
	struct rut_err why = RUT_ERR_INIT;
	struct rut_tracee *p;

	if (rut_tracee_open(&p, t, pid, inject, &why) < 0) {
		/* The agent is there and cannot do it. */
		if (why.code == ENOTSUP && !t->any) {
			free(t->refusal);
			t->refusal = strdup(why.msg);
		}
		return false;
	}
	p->tree = true;
	if (rut_tracee_add(t, p, &why) < 0) {
		rut_tracee_detach(p, true);
		rut_tracee_free(p);
		return false;
	}
	rut_tracee_announce(t, p, RUT_RUBY_EVENT_START);
	return true;
}

/* Tries now, and again later if it cannot be yet. */
static void adopt(struct rut_tracer *t, pid_t pid)
{
	static const uint32_t pause_ms[] = {50, 100, 200, 400, 800, 2000, 5000, 60000};
	struct rut_candidate *c = candidate(t, pid);
	bool inject;

	/* What is started waits for us when it is Ruby: it is inspected each time. */
	if (c && t->spawned && take_over(t, pid, false)) {
		c->pid = 0;
		return;
	}
	if (!c || rut_now_ms() < c->next_ms)
		return;
	c->next_ms = rut_now_ms() + pause_ms[c->tries < 7 ? c->tries : 7];
	c->tries++;
	/* A child that has just been forked has an agent, or will have executed something soon. */
	inject = (c->tries > 4 || rut_ruby_uptime_s(pid) >= 2) && looks_like_ruby(pid);
	if (take_over(t, pid, inject))
		c->pid = 0;
}

static void walk(struct rut_tracer *t, pid_t pid, int depth);

static void walk_children_file(struct rut_tracer *t, const char *path, int depth)
{
	_cleanup_file_ FILE *f = fopen(path, "re");
	int pid;

	while (f && fscanf(f, "%d", &pid) == 1) {
		if (!find(t, (pid_t)pid))
			adopt(t, (pid_t)pid);
		walk(t, (pid_t)pid, depth + 1);
	}
}

static void walk(struct rut_tracer *t, pid_t pid, int depth)
{
	char path[64];
	struct dirent *de;
	DIR *dir;

	if (depth > 16)
		return;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && (de = readdir(dir))) {
		if (!isdigit((unsigned char)de->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/children", (int)pid, de->d_name);
		walk_children_file(t, path, depth);
	}
	if (dir)
		closedir(dir);
}

bool rut_tree_command_ended(pid_t pid)
{
	siginfo_t si = {0};

	return waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) < 0 || si.si_pid == pid;
}

/* Whatever the command that we started has become, and what it has started. */
void rut_tree_adopt_spawned(struct rut_tracer *t)
{
	if (!t->spawned)
		return;
	if (rut_tree_command_ended(t->spawned)) {
		t->spawned = 0;
		return;
	}
	if (!find(t, t->spawned))
		adopt(t, t->spawned);
	walk(t, t->spawned, 0);
}

/* A parent may have ended before its children were seen (daemons): they carry our session. */
static void find_orphans(struct rut_tracer *t)
{
	struct dirent *de;
	DIR *dir = opendir("/proc");

	while (dir && (de = readdir(dir))) {
		pid_t pid = (pid_t)strtol(de->d_name, NULL, 10);

		if (pid > 0 && !find(t, pid) && rut_tracee_has_session(pid, t->session_id))
			take_over(t, pid, false);
	}
	if (dir)
		closedir(dir);
}

/* It may have executed another program: then it is still there. */
static void remember_start(struct rut_tracer *t, const struct rut_tracee *p)
{
	uint64_t start = rut_proc_start(p->pid);
	struct rut_candidate *c = rut_tracee_is_gone(p) ? NULL : candidate(t, p->pid);

	if (c)
		c->start = start;
}

void rut_tree_follow(struct rut_tracer *t)
{
	uint64_t now = rut_now_ms();
	bool ended = false;

	for (size_t i = 0; i < t->count; i++) {
		struct rut_tracee *p = t->tracees[i];

		rut_tracee_go_on(t, p);
		if (p->exited || !rut_tracee_ended(p))
			continue;
		rut_drain(t, NULL); /* what it reported before it ended */
		p->exited = true;
		ended |= p->tree;
		rut_tracee_announce(t, p, RUT_RUBY_EVENT_EXIT);
		if (p->tree)
			remember_start(t, p);
	}
	rut_births_look(t);
	if (t->config.mode == RUT_RUBY_TIME && now >= t->keep_ms) {
		t->keep_ms = now + KEEP_MS;
		rut_tracee_rows_keep(t);
	}
	if (now < t->follow_ms && !ended)
		return;
	t->follow_ms = now + 100;
	/* Taking one over may take another out of the list. */
	for (size_t i = 0; i < t->count; i++)
		if (t->tracees[i]->tree && !t->tracees[i]->exited)
			walk(t, t->tracees[i]->pid, 0);
	rut_tree_adopt_spawned(t);
	for (size_t i = 0; i < RUT_CANDIDATES; i++)
		if (t->candidates[i].pid && t->candidates[i].start) {
			if (rut_proc_start(t->candidates[i].pid) == t->candidates[i].start)
				adopt(t, t->candidates[i].pid);
			else
				t->candidates[i].pid = 0;
		}
	if (ended)
		find_orphans(t);
}
