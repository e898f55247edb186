/* SPDX-License-Identifier: MIT */
#include "session/unwind.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/maps.h"
#include "base/proc.h"
#include "bpf/ruby.h"
#include "bpf/unwind.h"
#include "probe/unwind.h"
#include "ring/write.h"
#include "session/recorder.h"

#define DIRTY_MAX   1024
#define SETTLE_NS   30000000ull	  /* a program that starts maps one library after the other */
#define STEP_NS	    5000000ull	  /* for reading processes, between looks at the rings */
#define GRACE_NS    1000000000ull /* no program reads ranges so long */
#define VDSO_BYTES  8192
#define RANGES_ALL  (RUT_UNWIND_RANGE_PAGES * RUT_UNWIND_RANGES)
#define ROWS_BYTES  (RUT_UNWIND_PAGES * sizeof(struct rut_unwind_page))
#define RANGE_BYTES (RUT_UNWIND_RANGE_PAGES * sizeof(struct rut_unwind_ranges))

struct file {
	struct rut_unwind_segment segments[8];
	struct rut_unwind_function *functions; /* owned; of Ruby's only */
	size_t nsegments, nfunctions;
	uint32_t first, count; /* rows */
};

/*
 * What is taken of the tables, at the end of that of rows: a flight recorder's tables are filled by
 * one process after the other, and those of a session by its own and by one that adds events.
 */
struct taken {
	uint64_t rows, ranges, id;
};

/* Where there are `n` of `all` left that no process has taken; -1: nowhere. */
static int64_t take(uint64_t *taken, uint64_t n, uint64_t all)
{
	uint64_t first = __atomic_load_n(taken, __ATOMIC_RELAXED);

	do {
		if (n > all - first)
			return -1;
	} while (!__atomic_compare_exchange_n(taken, &first, first + n, false, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return (int64_t)first;
}

#define ROWS_ALL (ROWS_BYTES / sizeof(struct rut_unwind_row) - sizeof(struct taken) / 8)

/* The ranges of processes that have the same, by fork. */
struct space {
	uint64_t id, free_ns; /* free_ns: since when no process has them; 0: one has */
	uint32_t first, count;
};

struct rut_unwinds {
	struct rut_map files; /* by device, inode and time: struct file, owned */
	struct file vdso;
	struct rut_unwind_row *rows;	 /* a mapping */
	struct rut_unwind_range *ranges; /* a mapping */
	struct taken *taken;
	struct space *spaces; /* owned */
	size_t nspaces;
	bool full; /* the tables, and it was said */
	struct {
		int32_t pid;
		uint64_t since_ns;
	} dirty[DIRTY_MAX];
	size_t ndirty;
};

/* --- whether it works here ----------------------------------------------------------------- */

static bool is_able(void)
{
#ifdef __x86_64__
	static int able = -1;
	struct btf *btf;

	if (able < 0) {
		btf = btf__load_vmlinux_btf();
		able = btf && libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT,
						      BPF_FUNC_task_pt_regs, NULL) == 1;
		btf__free(btf);
	}
	return able;
#else
	return false;
#endif
}

bool rut_unwind_wanted(const struct rut_recorder *r)
{
	bool stacks = r->conf.contexts & RUT_CTX_USTACK;

	for (size_t i = 0; i < RUT_PROBES_MAX; i++)
		stacks |= !strncmp(r->conf.probes[i], "profile:", 8);
	return stacks && is_able();
}

/* --- files --------------------------------------------------------------------------------- */

static void file_free(struct file *f)
{
	if (f) {
		free(f->functions);
		free(f);
	}
}

/* To one row, the first, by which nothing is known: without rows the code has frame pointers. */
static void take_nothing(struct file *f)
{
	f->first = 0;
	f->count = 1;
}

static void take_table(struct rut_unwinds *u, struct file *f, struct rut_unwind_table *t, bool ruby)
{
	int64_t first = take(&u->taken->rows, t->nrows, ROWS_ALL);

	memcpy(f->segments, t->segments, sizeof(f->segments));
	f->nsegments = t->nsegments;
	if (first < 0) {
		if (!u->full)
			rut_warn("some native stacks will be cut: the tables of all libraries "
				 "are larger than the room for them");
		u->full = true;
		take_nothing(f);
		return;
	}
	if (t->nrows)
		memcpy(&u->rows[first], t->rows, t->nrows * sizeof(*t->rows));
	f->first = (uint32_t)first;
	f->count = (uint32_t)t->nrows;
	if (ruby) {
		f->functions = t->functions;
		f->nfunctions = t->nfunctions;
		t->functions = NULL;
	}
}

static bool is_rubys(const char *path)
{
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	return !strncmp(base, "libruby", 7) || !strncmp(base, "ruby", 4);
}

static struct file *find_file(struct rut_unwinds *u, int fd, const char *path)
{
	_cleanup_(rut_unwind_fini)
	struct rut_unwind_table t = {0};
	struct stat st;
	struct file *f;
	uint64_t key;
	int rc;

	if (fstat(fd, &st) < 0)
		return NULL;
	key = rut_hash_u64(st.st_ino) ^ rut_hash_u64((uint64_t)st.st_dev << 32 ^ 1) ^
	      rut_hash_u64((uint64_t)st.st_mtim.tv_sec << 30 ^ (uint64_t)st.st_mtim.tv_nsec) ^
	      (uint64_t)st.st_size;
	f = rut_map_get(&u->files, key);
	if (f)
		return f;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	rc = rut_unwind_read(&t, fd);
	if (rc < 0)
		t.nrows = 0;
	take_table(u, f, &t, is_rubys(path));
	if (rc == -E2BIG || rc == -ENOMEM)
		take_nothing(f);
	if (rut_map_put(&u->files, key, f) < 0) {
		file_free(f);
		return NULL;
	}
	return f;
}

/* The kernel's own part of every process. */
static void read_vdso(struct rut_unwinds *u)
{
	_cleanup_(rut_unwind_fini)
	struct rut_unwind_table t = {0};
	const void *image = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);

	if (image && !rut_unwind_read_image(&t, image, VDSO_BYTES))
		take_table(u, &u->vdso, &t, false);
}

/* --- processes ----------------------------------------------------------------------------- */

struct building {
	struct rut_unwind_proc proc;
	struct rut_unwind_range range[RUT_UNWIND_RANGES];
	uint64_t loop; /* an address in the interpreter's loop; 0 */
};

static void set_loop(struct building *b, const struct file *f, const struct rut_unwind_range *r)
{
	const struct rut_unwind_table t = {.functions = f->functions, .nfunctions = f->nfunctions};
	const struct rut_unwind_function *fn;

	if (!b->loop || b->loop < r->start || b->loop >= r->end)
		return;
	fn = rut_unwind_function_at(&t, b->loop - r->bias);
	if (!fn)
		return;
	b->proc.ruby_start = r->start;
	b->proc.ruby_end = r->end;
	b->proc.loop_start = fn->start + r->bias;
	b->proc.loop_end = fn->end + r->bias;
}

static void add_range(struct building *b, const struct file *f, uint64_t start, uint64_t end,
		      uint64_t offset)
{
	struct rut_unwind_range *r = &b->range[b->proc.count];

	*r = (struct rut_unwind_range){.start = start, .end = end};
	for (size_t i = 0; f && i < f->nsegments; i++) {
		const struct rut_unwind_segment *s = &f->segments[i];

		if (offset + (end - start) <= s->offset || offset >= s->offset + s->bytes)
			continue;
		r->bias = start - (s->address + (offset - s->offset));
		r->first = f->first;
		r->count = f->count;
		break;
	}
	b->proc.count++;
	if (f && f->functions)
		set_loop(b, f, r);
}

static void read_maps(struct rut_unwinds *u, struct building *b, int32_t pid)
{
	_cleanup_maps_ struct rut_maps maps = RUT_MAPS_INIT;
	struct rut_mapping m;

	if (rut_maps_open(&maps, pid) < 0)
		return;
	while (b->proc.count < RUT_UNWIND_RANGES && rut_maps_next(&maps, &m)) {
		const struct file *f = NULL;

		if (!m.exec || !strcmp(m.path, "[vsyscall]"))
			continue;
		if (m.inode) {
			_cleanup_close_ int fd = rut_mapping_open(pid, &m);

			f = fd < 0 ? NULL : find_file(u, fd, m.path);
		} else if (!strcmp(m.path, "[vdso]")) {
			f = &u->vdso;
		}
		add_range(b, f, m.start, m.end, m.offset);
	}
}

/* Where there is room for so many ranges; -1: nowhere. */
static int64_t take_ranges(struct rut_unwinds *u, uint32_t count)
{
	int64_t first = take(&u->taken->ranges, count, RANGES_ALL);
	uint64_t now = rut_ring_clock();

	for (size_t n = 0; first < 0 && n < u->nspaces; n++) {
		struct space *s = &u->spaces[n];

		if (!s->free_ns || now - s->free_ns < GRACE_NS || s->count < count)
			continue;
		first = s->first;
		s->first += count;
		s->count -= count;
	}
	return first;
}

/* Ranges that no process has any more. */
static void sweep(struct rut_recorder *r)
{
	struct rut_unwinds *u = r->unwinds;
	struct rut_unwind_proc p;
	uint64_t now = rut_ring_clock();
	uint32_t key, *last = NULL;
	struct rut_map used = {0};
	size_t n = 0;
	int rc = 0;

	while (!rc && !bpf_map_get_next_key(r->fds[RUT_MAP_UNWIND_PROCS], last, &key)) {
		last = &key;
		if (!bpf_map_lookup_elem(r->fds[RUT_MAP_UNWIND_PROCS], &key, &p))
			rc = rut_map_put(&used, p.space, u);
	}
	for (size_t i = 0; i < u->nspaces && !rc; i++) {
		struct space *s = &u->spaces[i];

		/* A child that was forked meanwhile may have been missed. */
		if (rut_map_get(&used, s->id))
			s->free_ns = 0;
		else if (!s->free_ns)
			s->free_ns = now;
		if (s->count)
			u->spaces[n++] = *s;
	}
	if (!rc)
		u->nspaces = n;
	rut_map_fini(&used);
}

static int note_space(struct rut_unwinds *u, const struct rut_unwind_proc *p)
{
	if (u->nspaces % 64 == 0) {
		void *more = reallocarray(u->spaces, u->nspaces + 64, sizeof(*u->spaces));

		if (!more)
			return -ENOMEM;
		u->spaces = more;
	}
	u->spaces[u->nspaces++] =
		(struct space){.id = p->space, .first = p->first, .count = p->count};
	return 0;
}

static void publish(struct rut_recorder *r, struct building *b, int32_t pid)
{
	struct rut_unwinds *u = r->unwinds;
	int64_t first = take_ranges(u, b->proc.count);

	if (first < 0) {
		sweep(r);
		first = take_ranges(u, b->proc.count);
	}
	if (first < 0)
		return;
	memcpy(&u->ranges[first], b->range, b->proc.count * sizeof(*b->range));
	b->proc.first = (uint32_t)first;
	b->proc.space = __atomic_add_fetch(&u->taken->id, 1, __ATOMIC_RELAXED);
	if (note_space(u, &b->proc) < 0)
		return;
	bpf_map_update_elem(r->fds[RUT_MAP_UNWIND_PROCS], &pid, &b->proc, BPF_ANY);
	/* The program that forgets a process runs once. */
	if (!rut_proc_start(pid))
		bpf_map_delete_elem(r->fds[RUT_MAP_UNWIND_PROCS], &pid);
}

static void read_process(struct rut_recorder *r, int32_t pid)
{
	_cleanup_free_ struct building *b = calloc(1, sizeof(*b));
	struct rut_ruby_vm vm;

	if (!b)
		return;
	if (!bpf_map_lookup_elem(r->fds[RUT_MAP_RUBIES], &pid, &vm))
		b->loop = vm.loop;
	read_maps(r->unwinds, b, pid);
	if (b->proc.count)
		publish(r, b, pid);
}

/* --- life ---------------------------------------------------------------------------------- */

static struct rut_unwinds *get(struct rut_recorder *r)
{
	struct rut_unwinds *u = r->unwinds;
	void *rows, *ranges;

	if (u || !rut_unwind_wanted(r))
		return u;
	u = calloc(1, sizeof(*u));
	rows = mmap(NULL, ROWS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		    r->fds[RUT_MAP_UNWIND_ROWS], 0);
	ranges = mmap(NULL, RANGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		      r->fds[RUT_MAP_UNWIND_RANGES], 0);
	if (!u || rows == MAP_FAILED || ranges == MAP_FAILED) {
		free(u);
		if (rows != MAP_FAILED)
			munmap(rows, ROWS_BYTES);
		if (ranges != MAP_FAILED)
			munmap(ranges, RANGE_BYTES);
		return NULL;
	}
	u->rows = rows;
	u->ranges = ranges;
	u->taken = (struct taken *)(u->rows + ROWS_ALL);
	/* See take_nothing(): it is zero. */
	__atomic_compare_exchange_n(&u->taken->rows, &(uint64_t){0}, 1, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	read_vdso(u);
	return r->unwinds = u;
}

static bool is_known(const struct rut_recorder *r, int32_t pid)
{
	struct rut_unwind_proc p;

	return !bpf_map_lookup_elem(r->fds[RUT_MAP_UNWIND_PROCS], &pid, &p);
}

static bool is_recorded(const struct rut_recorder *r, int32_t pid)
{
	uint32_t value;

	return !(r->conf.filters & RUT_FILTER_PID) ||
	       !bpf_map_lookup_elem(r->fds[RUT_MAP_TRACED], &pid, &value);
}

void rut_unwind_scan(struct rut_recorder *r)
{
	DIR *d = get(r) ? opendir("/proc") : NULL;

	for (struct dirent *e; d && (e = readdir(d));) {
		int32_t pid = isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;

		if (pid > 0 && pid != getpid() && is_recorded(r, pid) && !is_known(r, pid))
			read_process(r, pid);
	}
	if (d)
		closedir(d);
}

void rut_unwind_mapped(struct rut_recorder *r, int32_t pid)
{
	struct rut_unwinds *u = get(r);

	if (!u || !is_recorded(r, pid))
		return;
	for (size_t i = 0; i < u->ndirty; i++)
		if (u->dirty[i].pid == pid)
			return;
	if (u->ndirty == DIRTY_MAX)
		return;
	u->dirty[u->ndirty].pid = pid;
	u->dirty[u->ndirty++].since_ns = rut_ring_clock();
}

void rut_unwind_add(struct rut_recorder *r, int32_t pid)
{
	if (get(r) && !is_known(r, pid))
		read_process(r, pid);
}

void rut_unwind_found_ruby(struct rut_recorder *r, int32_t pid)
{
	/* What is not known yet will be read with it. */
	if (r->unwinds && is_known(r, pid))
		rut_unwind_mapped(r, pid);
}

void rut_unwind_step(struct rut_recorder *r)
{
	struct rut_unwinds *u = r->unwinds;
	uint64_t now = rut_ring_clock();
	size_t n = 0;

	for (size_t i = 0; u && i < u->ndirty; i++) {
		if (now - u->dirty[i].since_ns < SETTLE_NS || rut_ring_clock() - now > STEP_NS)
			u->dirty[n++] = u->dirty[i];
		else
			read_process(r, u->dirty[i].pid);
	}
	if (u)
		u->ndirty = n;
}

void rut_unwind_free(struct rut_unwinds *u)
{
	if (!u)
		return;
	rut_map_each(&u->files, slot)
		file_free(slot->value);
	rut_map_fini(&u->files);
	munmap(u->rows, ROWS_BYTES);
	munmap(u->ranges, RANGE_BYTES);
	free(u->vdso.functions);
	free(u->spaces);
	free(u);
}
