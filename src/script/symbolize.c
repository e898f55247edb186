/* SPDX-License-Identifier: MIT */
#include "script/symbolize.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <mntent.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/maps.h"
#include "base/proc.h"
#include "probe/demangle.h"
#include "probe/kallsyms.h"
#include "probe/symbols.h"
#include "script/value.h"

/* Processes whose mappings are kept; all are dropped when there are more. */
#define PROCESSES_MAX 1024
#define CGROUP_DEPTH  32
#define REREAD_NS     1000000000

struct mapping {
	uint64_t begin, end, offset;
	char *path; /* owned */
};

struct process {
	struct mapping *maps; /* owned; by address */
	size_t count;
	uint64_t start;	  /* rut_proc_start() */
	uint64_t read_ns; /* when the mappings were read */
	pid_t pid;
};

struct file {
	struct rut_symbols *symbols; /* owned; NULL: it has none */
};

struct rut_script_symbols {
	struct rut_kallsyms *kernel; /* owned */
	bool kernel_tried, mangled;
	struct rut_map processes; /* struct process by pid; owned */
	struct rut_strtab paths;
	struct rut_map files;	 /* struct file by the number of its path + 1; owned */
	uint64_t wall_offset[3]; /* by clock: 1970 to its zero */
};

int rut_script_symbols_new(struct rut_script_symbols **ret)
{
	static const clockid_t clocks[] = {
		[RUT_SCRIPT_CLOCK_BOOT] = CLOCK_BOOTTIME,
		[RUT_SCRIPT_CLOCK_MONOTONIC] = CLOCK_MONOTONIC,
		[RUT_SCRIPT_CLOCK_TAI] = CLOCK_TAI,
	};
	struct rut_script_symbols *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++)
		s->wall_offset[i] = rut_clock_ns(CLOCK_REALTIME) - rut_clock_ns(clocks[i]);
	*ret = s;
	return 0;
}

void rut_script_symbols_mangled(struct rut_script_symbols *s, bool mangled)
{
	s->mangled = mangled;
}

static void process_free(struct process *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->maps[i].path);
	free(p->maps);
	free(p);
}

static void drop_processes(struct rut_script_symbols *s)
{
	rut_map_each(&s->processes, slot)
		process_free(slot->value);
	rut_map_fini(&s->processes);
	s->processes = (struct rut_map){0};
}

void rut_script_symbols_free(struct rut_script_symbols *s)
{
	if (!s)
		return;
	rut_kallsyms_free(s->kernel);
	drop_processes(s);
	rut_map_each(&s->files, slot) {
		struct file *f = slot->value;

		rut_symbols_free(f->symbols);
		free(f);
	}
	rut_map_fini(&s->files);
	rut_strtab_fini(&s->paths);
	free(s);
}

/* ---- kernel ---- */

static void ksym(void *arg, uint64_t address, bool with_offset, struct rut_buf *out)
{
	struct rut_script_symbols *s = arg;
	const char *name = NULL;
	uint64_t distance;

	if (!s->kernel_tried)
		rut_kallsyms_open(&s->kernel, false);
	s->kernel_tried = true;
	if (s->kernel)
		name = rut_kallsyms_find(s->kernel, address, &distance);
	if (!name)
		rut_buf_printf(out, "0x%" PRIx64, address);
	else if (with_offset)
		rut_buf_printf(out, "%s+%" PRIu64, name, distance);
	else
		rut_buf_puts(out, name);
}

/* ---- processes ---- */

static int add_mapping(struct process *p, const struct mapping *m, const char *path)
{
	if (p->count % 64 == 0) {
		void *more = reallocarray(p->maps, p->count + 64, sizeof(*p->maps));

		if (!more)
			return -ENOMEM;
		p->maps = more;
	}
	p->maps[p->count] = *m;
	p->maps[p->count].path = strdup(path);
	return p->maps[p->count++].path ? 0 : -ENOMEM;
}

/* What can be executed. */
static void read_mappings(struct process *p)
{
	_cleanup_maps_ struct rut_maps maps = RUT_MAPS_INIT;
	struct rut_mapping found;
	char path[1024];

	p->read_ns = rut_clock_ns(CLOCK_MONOTONIC);
	if (rut_maps_open(&maps, p->pid) < 0)
		return;
	while (rut_maps_next(&maps, &found)) {
		const struct mapping m = {
			.begin = found.start,
			.end = found.end,
			.offset = found.offset,
		};

		rut_mapping_name(&found, path, sizeof(path));
		if (found.exec && add_mapping(p, &m, path))
			return;
	}
}

static struct process *find_process(struct rut_script_symbols *s, pid_t pid)
{
	struct process *p = rut_map_get(&s->processes, (uint64_t)pid);
	uint64_t start = rut_proc_start(pid);

	if (p && (!start || start == p->start))
		return p;
	if (!start)
		return NULL;
	if (p)
		process_free(rut_map_remove(&s->processes, (uint64_t)pid));
	if (s->processes.count >= PROCESSES_MAX)
		drop_processes(s);
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->start = start;
	read_mappings(p);
	if (rut_map_put(&s->processes, (uint64_t)pid, p)) {
		process_free(p);
		return NULL;
	}
	return p;
}

static const struct mapping *search(const struct process *p, uint64_t address)
{
	size_t low = 0, high = p->count;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (p->maps[mid].begin <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low && address < p->maps[low - 1].end ? &p->maps[low - 1] : NULL;
}

/* Libraries are loaded and code is executed (exec) after the mappings were first read. */
static const struct mapping *find_mapping(struct rut_script_symbols *s, pid_t pid, uint64_t address)
{
	struct process *p = find_process(s, pid);
	const struct mapping *m = p ? search(p, address) : NULL;

	/* An address that is none would have them read for each of its frames. */
	if (m || !p || rut_clock_ns(CLOCK_MONOTONIC) - p->read_ns < REREAD_NS ||
	    !rut_proc_start(pid))
		return m;
	for (size_t i = 0; i < p->count; i++)
		free(p->maps[i].path);
	p->count = 0;
	free(p->maps);
	p->maps = NULL;
	read_mappings(p);
	return search(p, address);
}

/* The file as the process sees it; one that has exited leaves only our own view. */
static const struct rut_symbols *file_symbols(struct rut_script_symbols *s, pid_t pid,
					      const char *path)
{
	char root[32], full[4200];
	int64_t id = rut_strtab_intern(&s->paths, path, strlen(path));
	struct file *f;

	if (id < 0 || path[0] != '/')
		return NULL;
	f = rut_map_get(&s->files, (uint64_t)id + 1);
	if (f)
		return f->symbols;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	snprintf(full, sizeof(full), "%s%s", root, path);
	if (rut_symbols_open(&f->symbols, root, full) && rut_symbols_open(&f->symbols, "", path))
		f->symbols = NULL;
	if (rut_map_put(&s->files, (uint64_t)id + 1, f)) {
		rut_symbols_free(f->symbols);
		free(f);
		return NULL;
	}
	return f->symbols;
}

static void usym(void *arg, const struct rut_script_usym_value *v, bool with_offset,
		 struct rut_buf *out)
{
	struct rut_script_symbols *s = arg;
	const struct mapping *m = find_mapping(s, (pid_t)v->tgid, v->address);
	const struct rut_symbols *symbols = m ? file_symbols(s, (pid_t)v->tgid, m->path) : NULL;
	_cleanup_free_ char *written = NULL;
	const char *name = NULL;
	uint64_t distance;

	if (symbols)
		name = rut_symbols_find(symbols, v->address - m->begin + m->offset, &distance);
	if (name && !s->mangled)
		written = rut_demangle(name);
	if (written)
		name = written;
	if (!name)
		rut_buf_printf(out, "0x%" PRIx64, v->address);
	else if (with_offset)
		rut_buf_printf(out, "%s+%" PRIu64, name, distance);
	else
		rut_buf_puts(out, name);
}

static void module(void *arg, const struct rut_script_usym_value *v, struct rut_buf *out)
{
	const struct mapping *m = find_mapping(arg, (pid_t)v->tgid, v->address);

	rut_buf_puts(out, m && m->path[0] ? m->path : "[unknown]");
}

/* ---- the rest ---- */

static void username(void *arg, uint64_t uid, struct rut_buf *out)
{
	struct passwd pw, *found = NULL;
	char room[4096];

	if (!getpwuid_r((uid_t)uid, &pw, room, sizeof(room), &found) && found)
		rut_buf_puts(out, found->pw_name);
	else
		rut_buf_printf(out, "%" PRIu64, uid);
}

/* The directory below `path` (of `room` bytes) with the cgroup's id as inode, into `path`. */
static bool find_cgroup(char *path, size_t room, uint64_t id, unsigned depth)
{
	size_t len = strlen(path);
	struct dirent *e;
	struct stat st;
	bool found = false;
	DIR *d;

	if (!stat(path, &st) && st.st_ino == id)
		return true;
	d = depth ? opendir(path) : NULL;
	while (d && !found && (e = readdir(d))) {
		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		if ((size_t)snprintf(path + len, room - len, "/%s", e->d_name) < room - len)
			found = find_cgroup(path, room, id, depth - 1);
	}
	if (d)
		closedir(d);
	if (!found)
		path[len] = '\0';
	return found;
}

static void cgroup_path(void *arg, uint64_t id, const char *filter, struct rut_buf *out)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	const char *between = "";
	_cleanup_buf_ struct rut_buf others = RUT_BUF_INIT;
	struct mntent *m;

	while (f && (m = getmntent(f))) {
		bool unified = !strcmp(m->mnt_type, "cgroup2");
		const char *name = strrchr(m->mnt_dir, '/');
		char path[4096];

		if ((!unified && strcmp(m->mnt_type, "cgroup") != 0) || !name ||
		    strncmp(m->mnt_dir, "/sys/fs/cgroup", 14) != 0)
			continue;
		name = unified ? "unified" : name + 1;
		snprintf(path, sizeof(path), "%s", m->mnt_dir);
		if ((filter && fnmatch(filter, name, 0)) ||
		    !find_cgroup(path, sizeof(path), id, CGROUP_DEPTH))
			continue;
		if (others.len)
			between = ",";
		rut_buf_printf(&others, "%s%s:%s", between, name,
			       path[strlen(m->mnt_dir)] ? path + strlen(m->mnt_dir) : "/");
	}
	if (f)
		endmntent(f);
	if (others.data)
		rut_buf_add(out, others.data, others.len);
}

/* The table's names are those of the kernel's events, a few of which are not the calls'. */
static const struct syscall_entry {
	uint32_t number;
	const char *name;
} own_names[] = {{4, "stat"},	{5, "fstat"},	  {6, "lstat"},	   {40, "sendfile"},
		 {63, "uname"}, {156, "_sysctl"}, {166, "umount2"}},
  event_names[] = {
#define RUT_SYSCALL(n, name, args) {n, #name},
#include "session/syscalls_x86_64.h"
#undef RUT_SYSCALL
};

static void syscall_name(void *arg, uint64_t number, struct rut_buf *out)
{
	const char *name = NULL;

	for (size_t i = 0; i < sizeof(own_names) / sizeof(own_names[0]) && !name; i++)
		if (own_names[i].number == number)
			name = own_names[i].name;
	for (size_t i = 0; i < sizeof(event_names) / sizeof(event_names[0]) && !name; i++)
		if (event_names[i].number == number)
			name = event_names[i].name;
	if (name)
		rut_buf_puts(out, name);
	else
		rut_buf_printf(out, "%" PRIu64, number);
}

int rut_script_syscall_number(const char *name)
{
	for (size_t i = 0; i < sizeof(own_names) / sizeof(own_names[0]); i++)
		if (!strcmp(own_names[i].name, name))
			return (int)own_names[i].number;
	for (size_t i = 0; i < sizeof(event_names) / sizeof(event_names[0]); i++)
		if (!strcmp(event_names[i].name, name))
			return (int)event_names[i].number;
	return -1;
}

static uint64_t wall_ns(void *arg, uint32_t clock, uint64_t ns)
{
	const struct rut_script_symbols *s = arg;

	return ns + s->wall_offset[clock < 3 ? clock : 0];
}

void rut_script_symbols_fill(struct rut_script_symbols *s, struct rut_script_names *names)
{
	names->symbols = s;
	names->ksym = ksym;
	names->usym = usym;
	names->module = module;
	names->username = username;
	names->cgroup_path = cgroup_path;
	names->syscall_name = syscall_name;
	names->wall_ns = wall_ns;
}
