/* SPDX-License-Identifier: MIT */
/*
 * The statedump of user namespaces: the number of a thread's user and group in each that it is in.
 * /proc shows the ranges of a namespace through a process in it. A namespace between the thread's
 * and ours may have none: a child process enters it for a moment. Its ranges are read once a
 * statedump.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/events.h"
#include "session/statedump_internal.h"

#define OVERFLOW_ID 65534
#define MAP_MAX	    16384 /* bytes; 340 ranges of three numbers */

struct maps {
	uint32_t inum;
	char *uids, *gids; /* owned; NULL: cannot be read */
};

struct rut_user_maps {
	struct maps *list; /* owned */
	size_t count;
};

/* The number in a namespace of one of ours, by the text of its uid_map or gid_map. */
static uint32_t map_id(const char *map, uint32_t id)
{
	unsigned int first, lower, count;

	for (; map && sscanf(map, "%u %u %u", &first, &lower, &count) == 3;
	     map = strchr(map, '\n'), map += map != NULL)
		if (id >= lower && id - lower < count)
			return first + (id - lower);
	return OVERFLOW_ID;
}

static char *read_map(int dir, const char *pid, const char *name)
{
	_cleanup_free_ char *text = malloc(MAP_MAX);
	char path[64];

	snprintf(path, sizeof(path), "%.20s/%s", pid, name);
	return text && rut_statedump_read(dir, path, text, MAP_MAX) >= 0 ? strdup(text) : NULL;
}

static void read_maps(struct maps *m, int dir, const char *pid)
{
	m->uids = read_map(dir, pid, "uid_map");
	m->gids = read_map(dir, pid, "gid_map");
}

/* In the child: says whether it is in the namespace, and waits until it was read. */
__attribute__((noreturn)) static void stay_in(int ns, int ready, int go_on)
{
	char word;

	/* It has the recorder's memory, which root of that namespace must not read. */
	prctl(PR_SET_DUMPABLE, 0);
	word = setns(ns, CLONE_NEWUSER) == 0;
	if (write(ready, &word, 1) == 1)
		while (read(go_on, &word, 1) > 0)
			;
	_exit(0);
}

static void enter_and_read(struct maps *m, int ns)
{
	_cleanup_close_ int ready = -1, go_on = -1;
	int up[2], down[2];
	char word = 0, child[24];
	pid_t pid;

	if (pipe2(up, O_CLOEXEC) < 0)
		return;
	ready = up[0];
	if (pipe2(down, O_CLOEXEC) < 0) {
		close(up[1]);
		return;
	}
	go_on = down[1];
	pid = fork();
	if (!pid) {
		close(go_on);
		stay_in(ns, up[1], down[0]);
	}
	close(up[1]);
	close(down[0]);
	if (pid < 0)
		return;
	if (read(ready, &word, 1) == 1 && word) {
		_cleanup_close_ int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		snprintf(child, sizeof(child), "%d", pid);
		read_maps(m, proc, child);
	}
	rut_closep(&go_on);
	waitpid(pid, NULL, 0);
}

/* The ranges of a namespace, read through a thread in it where `tid` is one; or NULL. */
static const struct maps *find(struct rut_statedump *s, uint32_t inum, int ns, int task_dir,
			       const char *tid)
{
	struct rut_user_maps *all = s->user_maps;
	struct maps *more;

	if (!all)
		all = s->user_maps = calloc(1, sizeof(*all));
	for (size_t i = 0; all && i < all->count; i++)
		if (all->list[i].inum == inum)
			return &all->list[i];
	more = all ? reallocarray(all->list, all->count + 1, sizeof(*more)) : NULL;
	if (!more)
		return NULL;
	all->list = more;
	more += all->count++;
	*more = (struct maps){.inum = inum};
	if (tid)
		read_maps(more, task_dir, tid);
	else
		enter_and_read(more, ns);
	return more;
}

static bool number_in(struct rut_ev_SD_USER_NS *rec, const struct rut_statedump_ns *ns,
		      const struct maps *m)
{
	if (!m || !m->uids || !m->gids)
		return false;
	rec->vuid = map_id(m->uids, ns->uid);
	rec->vgid = map_id(m->gids, ns->gid);
	return true;
}

void rut_statedump_user_ns(struct rut_statedump *s, const struct rut_statedump_ns *ns, int task_dir,
			   const char *tid)
{
	int fds[RUT_NS_LEVELS], fd = rut_statedump_open_ns(task_dir, tid, "user"), n = 0;
	uint32_t inums[RUT_NS_LEVELS];

	while (fd >= 0 && n < RUT_NS_LEVELS) {
		fds[n] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		inums[n++] = rut_statedump_step_out(&fd);
	}
	rut_closep(&fd);
	for (int i = 0; i < n; i++) {
		struct rut_ev_SD_USER_NS rec = {
			.tid = atoi(tid),
			.vuid = ns->uid, /* the outermost is ours: numbers are what they are */
			.vgid = ns->gid,
			.ns_level = n - 1 - i,
			.ns_inum = inums[i],
		};

		if (i == n - 1 ||
		    number_in(&rec, ns, find(s, inums[i], fds[i], task_dir, i ? NULL : tid)))
			rut_statedump_emit(s, RUT_EV_SD_USER_NS, &rec, sizeof(rec));
		rut_closep(&fds[i]);
	}
}

void rut_statedump_user_ns_fini(struct rut_statedump *s)
{
	struct rut_user_maps *all = s->user_maps;

	for (size_t i = 0; all && i < all->count; i++) {
		free(all->list[i].uids);
		free(all->list[i].gids);
	}
	if (all)
		free(all->list);
	free(all);
	s->user_maps = NULL;
}
