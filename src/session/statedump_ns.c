/* SPDX-License-Identifier: MIT */
/*
 * The statedump of namespaces and control groups. A namespace is identified by its inode number.
 * PID and user namespaces nest: there is a record for each that a thread is in, the innermost
 * first.
 */
#include <ctype.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/events.h"
#include "session/statedump_internal.h"

/* "12\t3": the number in each namespace, the outermost first. Returns how many. */
static int numbers(const char *text, int ret[RUT_NS_LEVELS])
{
	char *end;
	int n = 0;

	for (; n < RUT_NS_LEVELS && isdigit((unsigned char)*text); text = end + strspn(end, "\t "))
		ret[n++] = (int)strtol(text, &end, 10);
	return n;
}

/* A parent is in the same namespace or in one around it: what it lacks is 0. */
static void read_parent(struct rut_statedump_ns *ns, int ppid)
{
	char path[64], text[4096];

	snprintf(path, sizeof(path), "/proc/%d/status", ppid);
	if (ppid > 0 && rut_statedump_read(AT_FDCWD, path, text, sizeof(text)) > 0)
		numbers(rut_statedump_status(text, "NStgid"), ns->vppid);
}

int rut_statedump_open_ns(int task_dir, const char *tid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "%.20s/ns/%s", tid, name);
	return openat(task_dir, path, O_RDONLY | O_CLOEXEC);
}

static uint32_t inum_of(int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) ? (uint32_t)st.st_ino : 0;
}

uint32_t rut_statedump_step_out(int *fd)
{
	_cleanup_close_ int inner = *fd;

	*fd = inner >= 0 ? ioctl(inner, NS_GET_PARENT) : -1;
	return inum_of(inner);
}

void rut_statedump_ns_read(struct rut_statedump_ns *ret, int task_dir, const char *tid,
			   const char *status)
{
	int fd, n;

	*ret = (struct rut_statedump_ns){0};
	n = numbers(rut_statedump_status(status, "NSpid"), ret->vtid);
	numbers(rut_statedump_status(status, "NStgid"), ret->vpid);
	ret->level = n ? n - 1 : 0;
	read_parent(ret, atoi(rut_statedump_status(status, "PPid")));
	ret->uid = (uint32_t)strtoul(rut_statedump_status(status, "Uid"), NULL, 10);
	ret->gid = (uint32_t)strtoul(rut_statedump_status(status, "Gid"), NULL, 10);
	fd = rut_statedump_open_ns(task_dir, tid, "pid");
	for (int i = ret->level; i >= 0; i--)
		ret->pid_inum[i] = rut_statedump_step_out(&fd);
	rut_closep(&fd);
}

/* "0::/path": the group in the hierarchy of cgroup v2, of which the context is. */
static void write_cgroup(struct rut_statedump *s, int task_dir, const char *tid)
{
	static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	struct rut_ev_SD_CGROUP rec = {.tid = atoi(tid)};
	char path[64], text[8192], full[4400], *line = text;
	struct stat st;

	snprintf(path, sizeof(path), "%.20s/cgroup", tid);
	if (rut_statedump_read(task_dir, path, text, sizeof(text)) <= 0)
		return;
	while (line && strncmp(line, "0::", 3) != 0) {
		line = strchr(line, '\n');
		line += line != NULL;
	}
	if (!line)
		return;
	line += 3;
	line[strcspn(line, "\n")] = '\0';
	if (strlen(line) > 4096)
		return;
	for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++) {
		snprintf(full, sizeof(full), "%s/cgroup.procs", mounts[i]);
		if (access(full, F_OK) < 0)
			continue;
		snprintf(full, sizeof(full), "%s%s", mounts[i], line);
		if (!stat(full, &st))
			rec.cgroup_id = st.st_ino;
		break;
	}
	RUT_STATEDUMP_EMIT(s, SD_CGROUP, &rec, line);
}

void rut_statedump_ns_write(struct rut_statedump *s, const struct rut_statedump_ns *ns,
			    int task_dir, const char *tid)
{
	static const struct {
		const char *name;
		uint32_t id;
	} kinds[] = {
		{"cgroup", RUT_EV_SD_CGROUP_NS}, {"ipc", RUT_EV_SD_IPC_NS},
		{"mnt", RUT_EV_SD_MNT_NS},	 {"net", RUT_EV_SD_NET_NS},
		{"uts", RUT_EV_SD_UTS_NS},	 {"time", RUT_EV_SD_TIME_NS},
	};

	for (int i = ns->level; i >= 0; i--) {
		struct rut_ev_SD_PID_NS rec = {
			.tid = atoi(tid),
			.vtid = ns->vtid[i],
			.vpid = ns->vpid[i],
			.vppid = ns->vppid[i],
			.ns_level = i,
			.ns_inum = ns->pid_inum[i],
		};

		rut_statedump_emit(s, RUT_EV_SD_PID_NS, &rec, sizeof(rec));
	}
	rut_statedump_user_ns(s, ns, task_dir, tid);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		_cleanup_close_ int fd = rut_statedump_open_ns(task_dir, tid, kinds[i].name);
		struct rut_ev_SD_NET_NS rec = {atoi(tid), inum_of(fd)};

		if (fd >= 0)
			rut_statedump_emit(s, kinds[i].id, &rec, sizeof(rec));
	}
	write_cgroup(s, task_dir, tid);
}
