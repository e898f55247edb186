/* SPDX-License-Identifier: MIT */
#include "session/statedump.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/events.h"
#include "session/statedump_files.h"
#include "session/statedump_internal.h"

/* LTTng's values of lttng_statedump_process_state's enumerations. */
enum { TYPE_USER_THREAD = 0, TYPE_KERNEL_THREAD = 1 };
enum { MODE_UNKNOWN = 5 };
enum { SUBMODE_NONE = 0 };
enum {
	STATUS_UNNAMED = 0,
	STATUS_WAIT_CPU = 2,
	STATUS_ZOMBIE = 4,
	STATUS_WAIT = 5,
	STATUS_DEAD = 7
};

bool rut_statedump_record(struct rut_statedump *s, uint32_t id, const void *fixed, size_t fixed_len,
			  const char *const *strings, size_t nstrings)
{
	uint32_t ctx = rut_context_size(s->contexts), size = 8 + ctx + (uint32_t)fixed_len;
	uint64_t ns, pos, used, head;
	unsigned char *p;

	for (size_t i = 0; i < nstrings; i++)
		size += (uint32_t)strlen(strings[i]) + 1;
	used = s->ring->ctl->pos - s->ring->ctl->consumed;
	if (s->make_room && used + 2 * s->ring->subbuf_size >= (uint64_t)s->ring->count
								       << s->ring->shift)
		s->make_room(s->arg);
	p = rut_ring_reserve(s->ring, size, s->clock, &ns, &pos);
	if (!p)
		return false;
	head = RUT_RECORD_HEADER(id, ns);
	memcpy(p, &head, sizeof(head)); /* at any byte */
	p += sizeof(head);
	memset(p, 0, ctx);
	p += ctx;
	memcpy(p, fixed, fixed_len);
	p += fixed_len;
	for (size_t i = 0; i < nstrings; i++) {
		size_t len = strlen(strings[i]) + 1;

		memcpy(p, strings[i], len);
		p += len;
	}
	rut_ring_commit(s->ring, pos, size);
	s->records++;
	return true;
}

bool rut_statedump_emit(struct rut_statedump *s, uint32_t id, const void *data, size_t len)
{
	return rut_statedump_record(s, id, data, len, NULL, 0);
}

ssize_t rut_statedump_read(int dir, const char *name, char *buf, size_t size)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	if (n >= 0)
		buf[n] = '\0';
	return n;
}

/* The text behind "KEY:\t" in /proc/PID/status, or "". */
const char *rut_statedump_status(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, len) && line[len] == ':')
			return line + len + 1 + strspn(line + len + 1, "\t ");
	}
	return "";
}

static int status_of(char letter)
{
	switch (letter) {
	case 'R':
		return STATUS_WAIT_CPU;
	case 'Z':
		return STATUS_ZOMBIE;
	case 'X':
		return STATUS_DEAD;
	case 'S':
	case 'D':
	case 'I':
		return STATUS_WAIT;
	default: /* stopped, traced, parked */
		return STATUS_UNNAMED;
	}
}

/* The 39th field of /proc/PID/stat. The second is a name, in which anything may stand. */
static uint32_t cpu_of(int task_dir, const char *tid)
{
	char path[64], text[1024], *p;

	snprintf(path, sizeof(path), "%.20s/stat", tid);
	if (rut_statedump_read(task_dir, path, text, sizeof(text)) <= 0)
		return 0;
	p = strrchr(text, ')');
	for (int field = 2; p && field < 39; field++)
		p = strchr(p + 1, ' ');
	return p ? (uint32_t)atoi(p) : 0;
}

static void dump_thread(struct rut_statedump *s, int task_dir, const char *tid)
{
	struct rut_statedump_ns ns;
	struct rut_ev_SD_PROCESS rec = {0};
	char path[64], text[4096];
	const char *name;

	snprintf(path, sizeof(path), "%.20s/status", tid);
	if (rut_statedump_read(task_dir, path, text, sizeof(text)) <= 0)
		return;
	name = rut_statedump_status(text, "Name");
	memcpy(rec.name, name,
	       strcspn(name, "\n") < sizeof(rec.name) ? strcspn(name, "\n") : sizeof(rec.name) - 1);
	rut_statedump_ns_read(&ns, task_dir, tid, text);
	rec.tid = atoi(tid);
	rec.pid = atoi(rut_statedump_status(text, "Tgid"));
	rec.ppid = atoi(rut_statedump_status(text, "PPid"));
	rec.vtid = ns.vtid[ns.level];
	rec.vpid = ns.vpid[ns.level];
	rec.vppid = ns.vppid[ns.level];
	rec.ns_level = ns.level;
	rec.ns_inum = ns.pid_inum[ns.level];
	rec.type = *rut_statedump_status(text, "VmSize") ? TYPE_USER_THREAD : TYPE_KERNEL_THREAD;
	rec.mode = MODE_UNKNOWN;
	rec.submode = SUBMODE_NONE;
	rec.status = status_of(*rut_statedump_status(text, "State"));
	rec.cpu = cpu_of(task_dir, tid);
	rec.file_table_address = (uint64_t)rec.pid;
	rut_statedump_emit(s, RUT_EV_SD_PROCESS, &rec, sizeof(rec));
	rut_statedump_ns_write(s, &ns, task_dir, tid);
}

static void dump_descriptor(struct rut_statedump *s, int proc_dir, pid_t pid, const char *fd)
{
	struct rut_ev_SD_FD rec = {.pid = pid, .file_table_address = (uint64_t)pid};
	char path[64], target[1024], info[512];
	ssize_t n;

	snprintf(path, sizeof(path), "fd/%.20s", fd);
	n = readlinkat(proc_dir, path, target, sizeof(target) - 1);
	if (n <= 0)
		return;
	target[n] = '\0';
	snprintf(path, sizeof(path), "fdinfo/%.20s", fd);
	if (rut_statedump_read(proc_dir, path, info, sizeof(info)) > 0)
		rec.flags = (uint32_t)strtoul(rut_statedump_status(info, "flags"), NULL, 8);
	rec.fd = atoi(fd);
	rec.fmode = rut_open_files_mode(s->files, pid, (uint32_t)rec.fd);
	/* Opened since, or unknown: FMODE_READ and FMODE_WRITE, as the access mode says. */
	if (!rec.fmode)
		rec.fmode = ((rec.flags & O_ACCMODE) + 1) & 3;
	RUT_STATEDUMP_EMIT(s, SD_FD, &rec, target);
}

typedef void (*entry_fn)(struct rut_statedump *s, int dir, const char *name, long arg);

static void each_numbered(struct rut_statedump *s, int at, const char *name, entry_fn fn, long arg)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (!d) {
		rut_closep(&fd);
		return;
	}
	for (struct dirent *e; (e = readdir(d));)
		if (isdigit((unsigned char)e->d_name[0]))
			fn(s, dirfd(d), e->d_name, arg);
	closedir(d);
}

static void on_thread(struct rut_statedump *s, int dir, const char *name, long arg)
{
	dump_thread(s, dir, name);
}

struct at_process {
	int dir;
	pid_t pid;
};

static void on_descriptor(struct rut_statedump *s, int dir, const char *name, long arg)
{
	const struct at_process *p = (const void *)arg;

	dump_descriptor(s, p->dir, p->pid, name);
}

static void on_process(struct rut_statedump *s, int dir, const char *name, long arg)
{
	_cleanup_close_ int proc = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct at_process at = {proc, atoi(name)};

	if (proc < 0 || (s->only && s->only != at.pid))
		return;
	each_numbered(s, proc, "task", on_thread, 0);
	each_numbered(s, proc, "fd", on_descriptor, (long)&at);
}

static void dump_block_devices(struct rut_statedump *s)
{
	int fd = open("/sys/class/block", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (!d) {
		rut_closep(&fd);
		return;
	}
	for (struct dirent *e; (e = readdir(d));) {
		struct rut_ev_SD_BLOCK rec;
		unsigned int major, minor;
		char path[300], text[32];

		snprintf(path, sizeof(path), "%s/dev", e->d_name);
		if (e->d_name[0] == '.' ||
		    rut_statedump_read(dirfd(d), path, text, sizeof(text)) <= 0 ||
		    sscanf(text, "%u:%u", &major, &minor) != 2)
			continue;
		rec.dev = major << 20 | minor;
		RUT_STATEDUMP_EMIT(s, SD_BLOCK, &rec, e->d_name);
	}
	closedir(d);
}

void rut_statedump_write(struct rut_statedump *s)
{
	struct rut_ev_SD_START mark = {0};

	rut_statedump_emit(s, RUT_EV_SD_START, &mark, sizeof(mark));
	rut_statedump_machine(s);
	dump_block_devices(s);
	rut_statedump_interrupts(s);
	s->files = rut_open_files_new();
	each_numbered(s, AT_FDCWD, "/proc", on_process, 0);
	rut_open_files_free(s->files);
	s->files = NULL;
	rut_statedump_user_ns_fini(s);
	rut_statedump_emit(s, RUT_EV_SD_END, &mark, sizeof(mark));
}
