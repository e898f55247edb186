/* SPDX-License-Identifier: MIT */
/*
 * A process and what descends from it now, for the filter: later children the programs follow. And
 * whether any of them still runs.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/proc.h"
#include "session/recorder.h"

struct process {
	pid_t pid, parent;
	bool member;
};

static int by_pid(const void *a, const void *b)
{
	pid_t x = ((const struct process *)a)->pid, y = ((const struct process *)b)->pid;

	return (x > y) - (x < y);
}

static size_t list_processes(struct process **ret)
{
	struct process *list = NULL;
	size_t n = 0;
	DIR *d = opendir("/proc");

	for (struct dirent *e; d && (e = readdir(d));) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		if (n % 256 == 0) {
			void *more = reallocarray(list, n + 256, sizeof(*list));

			if (!more)
				break;
			list = more;
		}
		list[n].pid = atoi(e->d_name);
		list[n].parent = rut_proc_parent(list[n].pid);
		list[n++].member = false;
	}
	if (d)
		closedir(d);
	if (n)
		qsort(list, n, sizeof(*list), by_pid);
	*ret = list;
	return n;
}

static bool is_member(const struct process *list, size_t n, pid_t pid)
{
	const struct process key = {.pid = pid}, *p = bsearch(&key, list, n, sizeof(key), by_pid);

	return p && p->member;
}

int rut_recorder_trace_family(struct rut_recorder *r, pid_t pid)
{
	_cleanup_free_ struct process *list = NULL;
	size_t n = list_processes(&list);
	bool again = true;
	int rc = rut_recorder_trace_pid(r, pid, RUT_TRACED_YES);

	/* A parent can have a higher number than its child: until nothing changes. */
	while (again && !rc) {
		again = false;
		for (size_t i = 0; i < n && !rc; i++) {
			if (list[i].member || list[i].pid == pid ||
			    (list[i].parent != pid && !is_member(list, n, list[i].parent)))
				continue;
			list[i].member = again = true;
			rc = rut_recorder_trace_pid(r, list[i].pid, RUT_TRACED_YES);
		}
	}
	return rc;
}

static bool is_running(pid_t pid)
{
	return pid > 0 && (!kill(pid, 0) || errno != ESRCH) && !rut_proc_is_zombie(pid);
}

/* The kernel adds children and removes what has been waited for. */
static bool runs_any(struct rut_recorder *r, pid_t *last)
{
	const int most = 1 << 16; /* a key that is removed meanwhile begins it anew */
	uint32_t key, *before = NULL;

	if (is_running(*last))
		return true;
	for (int i = 0; i < most; i++) {
		if (bpf_map_get_next_key(r->fds[RUT_MAP_TRACED], before, &key) < 0)
			return false;
		if (is_running((pid_t)key)) {
			*last = (pid_t)key;
			return true;
		}
		before = &key;
	}
	return true;
}

bool rut_recorder_family_left(struct rut_recorder *r, struct rut_family_left *left)
{
	left->misses = runs_any(r, &left->last) ? 0 : left->misses + 1;
	return left->misses < 2;
}
