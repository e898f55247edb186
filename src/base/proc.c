/* SPDX-License-Identifier: MIT */
#include "base/proc.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

/* What follows the name, which may hold anything. */
static const char *read_stat(pid_t pid, struct rut_buf *b)
{
	char path[64];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (rut_buf_read_file(b, path, 4096) < 0 || !b->data)
		return NULL;
	p = strrchr(b->data, ')');
	return p ? p + 1 : NULL;
}

pid_t rut_proc_parent(pid_t pid)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	const char *p = read_stat(pid, &b);
	int parent;

	return p && sscanf(p, " %*c %d", &parent) == 1 ? parent : 0;
}

uint64_t rut_proc_start(pid_t pid)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	const char *p = read_stat(pid, &b);
	uint64_t start;

	return p && sscanf(p,
			   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			   "%*d %*d %" SCNu64,
			   &start) == 1
		       ? start
		       : 0;
}

bool rut_proc_is_zombie(pid_t pid)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	const char *p = read_stat(pid, &b);
	char state;
	long threads;

	/* One whose first thread has ended is a zombie, too, but has others. */
	return p &&
	       sscanf(p, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld",
		      &state, &threads) == 2 &&
	       state == 'Z' && threads <= 1;
}

/* Has this file of a group that word? */
static bool group_says(const char *root, const char *group, int len, const char *file,
		       const char *word)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char path[4200];

	snprintf(path, sizeof(path), "%s%.*s/%s", root, len, group, file);
	return !rut_buf_read_file(&b, path, 4096) && b.data && strstr(b.data, word);
}

static bool is_frozen(pid_t pid)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	if (rut_buf_read_file(&b, path, 65536) < 0 || !b.data)
		return false;
	for (const char *l = b.data; *l; l += strcspn(l, "\n"), l += *l == '\n') {
		const char *group = memchr(l, '/', strcspn(l, "\n"));
		int len = group ? (int)strcspn(group, "\n") : 0;

		if (!group)
			continue;
		if (!strncmp(l, "0::", 3) &&
		    (group_says("/sys/fs/cgroup", group, len, "cgroup.events", "frozen 1") ||
		     group_says("/sys/fs/cgroup/unified", group, len, "cgroup.events", "frozen 1")))
			return true;
		l += strcspn(l, ":");
		if (!strncmp(l, ":freezer:", 9) &&
		    group_says("/sys/fs/cgroup/freezer", group, len, "freezer.state", "FROZEN"))
			return true;
	}
	return false;
}

bool rut_proc_is_halted(pid_t pid)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	const char *p = read_stat(pid, &b);
	char state;

	return p && sscanf(p, " %c", &state) == 1 &&
	       (state == 'T' || state == 't' || is_frozen(pid));
}

pid_t rut_proc_own_pid(pid_t pid)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char path[64], *line, *last;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (rut_buf_read_file(&b, path, 8192) < 0 || !b.data)
		return 0;
	line = strstr(b.data, "\nNSpid:");
	if (!line)
		return pid; /* a kernel without PID namespaces */
	line[1 + strcspn(line + 1, "\n")] = 0;
	last = strrchr(line, '\t');
	return last ? (pid_t)strtol(last + 1, NULL, 10) : 0;
}

unsigned int rut_proc_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : (unsigned int)CPU_COUNT(&set);
}
