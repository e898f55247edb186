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

/* LTTng's values of lttng_statedump_process_state's enumerations. */
enum { TYPE_USER_THREAD = 0, TYPE_KERNEL_THREAD = 1 };
enum { MODE_USER = 1, MODE_SYSCALL = 2 };
enum { SUBMODE_NONE = 0 };
enum { STATUS_WAIT_CPU = 3, STATUS_EXIT = 4, STATUS_ZOMBIE = 5, STATUS_WAIT = 6, STATUS_RUN = 7 };

/* One record: the fixed part, then strings, each with its NUL. */
static bool emit(struct rut_statedump *s, uint32_t id, const void *fixed, size_t fixed_len,
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

#define EMIT(s, sym, rec, ...)                                                                     \
	do {                                                                                       \
		const char *const _strs[] = {__VA_ARGS__};                                         \
		emit(s, RUT_EV_##sym, rec, sizeof(*(rec)), _strs, sizeof(_strs) / sizeof(*_strs)); \
	} while (0)

bool rut_statedump_emit(struct rut_statedump *s, uint32_t id, const void *data, size_t len)
{
	return emit(s, id, data, len, NULL, 0);
}

static ssize_t read_at(int dir, const char *name, char *buf, size_t size)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	if (n >= 0)
		buf[n] = '\0';
	return n;
}

/* The text behind "KEY:\t" in /proc/PID/status, or "". */
static const char *status_field(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, len) && line[len] == ':')
			return line + len + 1 + strspn(line + len + 1, "\t ");
	}
	return "";
}

/* "12\t3": the last number is the one in the innermost namespace; the count is the level. */
static int innermost(const char *ids, int *ret_level)
{
	long last = 0;
	int n = 0;
	char *end;

	for (; isdigit((unsigned char)*ids); ids = end + strspn(end, "\t "), n++)
		last = strtol(ids, &end, 10);
	if (ret_level)
		*ret_level = n ? n - 1 : 0;
	return (int)last;
}

static int status_of(char letter)
{
	switch (letter) {
	case 'R':
		return STATUS_WAIT_CPU;
	case 'Z':
		return STATUS_ZOMBIE;
	case 'X':
		return STATUS_EXIT;
	default:
		return STATUS_WAIT;
	}
}

static void dump_thread(struct rut_statedump *s, int task_dir, const char *tid, uint32_t ns_inum)
{
	struct rut_ev_SD_PROCESS rec = {0};
	char path[64], text[4096];
	const char *name;
	int level;

	snprintf(path, sizeof(path), "%.20s/status", tid);
	if (read_at(task_dir, path, text, sizeof(text)) <= 0)
		return;
	name = status_field(text, "Name");
	memcpy(rec.name, name,
	       strcspn(name, "\n") < sizeof(rec.name) ? strcspn(name, "\n") : sizeof(rec.name) - 1);
	rec.tid = atoi(tid);
	rec.pid = atoi(status_field(text, "Tgid"));
	rec.ppid = atoi(status_field(text, "PPid"));
	rec.vtid = innermost(status_field(text, "NSpid"), &level);
	rec.vpid = innermost(status_field(text, "NStgid"), NULL);
	rec.vppid = level ? 0 : rec.ppid;
	rec.ns_level = level;
	rec.ns_inum = ns_inum;
	rec.type = *status_field(text, "VmSize") ? TYPE_USER_THREAD : TYPE_KERNEL_THREAD;
	rec.mode = rec.type == TYPE_KERNEL_THREAD ? MODE_SYSCALL : MODE_USER;
	rec.status = status_of(*status_field(text, "State"));
	rec.file_table_address = (uint64_t)rec.pid;
	emit(s, RUT_EV_SD_PROCESS, &rec, sizeof(rec), NULL, 0);
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
	if (read_at(proc_dir, path, info, sizeof(info)) > 0)
		rec.flags = (uint32_t)strtoul(status_field(info, "flags"), NULL, 8);
	rec.fd = atoi(fd);
	/* FMODE_READ and FMODE_WRITE, as the access mode says. */
	rec.fmode = ((rec.flags & O_ACCMODE) + 1) & 3;
	EMIT(s, SD_FD, &rec, target);
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

static void on_thread(struct rut_statedump *s, int dir, const char *name, long ns_inum)
{
	dump_thread(s, dir, name, (uint32_t)ns_inum);
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
	unsigned int inum = 0;
	char link[64];
	ssize_t n;

	if (proc < 0 || (s->only && s->only != at.pid))
		return;
	n = readlinkat(proc, "ns/pid", link, sizeof(link) - 1);
	if (n > 0) {
		link[n] = '\0';
		if (sscanf(link, "pid:[%u]", &inum) != 1)
			inum = 0;
	}
	each_numbered(s, proc, "task", on_thread, (long)inum);
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
		if (e->d_name[0] == '.' || read_at(dirfd(d), path, text, sizeof(text)) <= 0 ||
		    sscanf(text, "%u:%u", &major, &minor) != 2)
			continue;
		rec.dev = major << 20 | minor;
		EMIT(s, SD_BLOCK, &rec, e->d_name);
	}
	closedir(d);
}

static void on_irq(struct rut_statedump *s, int dir, const char *name, long arg)
{
	struct rut_ev_SD_INTERRUPT rec = {.irq = (uint32_t)atoi(name)};
	char path[64], chip[64], actions[256];
	char *save = NULL;

	snprintf(path, sizeof(path), "%.20s/actions", name);
	if (read_at(dir, path, actions, sizeof(actions)) <= 0 || actions[0] == '\n')
		return;
	snprintf(path, sizeof(path), "%.20s/chip_name", name);
	if (read_at(dir, path, chip, sizeof(chip)) < 0)
		chip[0] = '\0';
	chip[strcspn(chip, "\n")] = '\0';
	for (char *a = strtok_r(actions, ",\n", &save); a; a = strtok_r(NULL, ",\n", &save))
		EMIT(s, SD_INTERRUPT, &rec, chip, a);
}

static void dump_cpus(struct rut_statedump *s)
{
	_cleanup_file_ FILE *f = fopen("/proc/cpuinfo", "re");
	struct rut_ev_SD_CPU rec = {0};
	char line[4096], model[128] = "";

	while (f && fgets(line, sizeof(line), f)) {
		const char *value = strchr(line, ':');

		value = value ? value + 1 + strspn(value + 1, " ") : "";
		if (!strncmp(line, "processor\t", 10))
			rec.cpu_id = (uint32_t)atoi(value);
		else if (!strncmp(line, "physical id\t", 12))
			rec.package_id = (uint32_t)atoi(value);
		else if (!strncmp(line, "core id\t", 8))
			rec.core_id = (uint32_t)atoi(value);
		else if (!strncmp(line, "model name\t", 11))
			snprintf(model, sizeof(model), "%.*s", (int)strcspn(value, "\n"), value);
		else if (line[0] == '\n')
			EMIT(s, SD_CPU, &rec, model);
	}
}

void rut_statedump_write(struct rut_statedump *s)
{
	struct rut_ev_SD_START mark = {0};

	emit(s, RUT_EV_SD_START, &mark, sizeof(mark), NULL, 0);
	dump_cpus(s);
	dump_block_devices(s);
	each_numbered(s, AT_FDCWD, "/sys/kernel/irq", on_irq, 0);
	each_numbered(s, AT_FDCWD, "/proc", on_process, 0);
	emit(s, RUT_EV_SD_END, &mark, sizeof(mark), NULL, 0);
}
