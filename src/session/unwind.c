/* SPDX-License-Identifier: MIT */
#include "session/unwind.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
#include "session/rubies.h"
#include "session/unwind_table.h"

#define WAITS_MAX  16384
#define SETTLE_NS  1000000ull	 /* a program that starts maps one library after the other */
#define PERIOD_NS  4000000ull	 /* a process is read so often at most ... */
#define PERIOD_MAX 2000000000ull /* ... up to this where it never stops mapping code */
#define QUIET_NS   60000000ull	 /* it has stopped for now */
#define ANONYMOUS_NS                                                                               \
	1000000000ull		/* code made at run time has no tables: it hides what was there */
#define FORGET_NS 100000000ull	/* processes that map nothing are forgotten so often */
#define REST_NS	  50000000ull	/* after a long step */
#define STEP_NS	  5000000ull	/* for reading processes, between looks at the rings */
#define SCAN_NS	  1000000000ull /* all processes are read so often at most */

/* A process that has mapped code, or had a moment ago. */
struct wait {
	int32_t pid;
	uint64_t due_ns; /* 0: it was read, and has mapped nothing since */
	uint64_t read_ns, period_ns;
	bool scanned; /* what it mapped was not noticed: it may be a Ruby, too */
};

struct rut_unwinds {
	struct rut_unwind_tables tables;
	struct rut_map waits; /* by PID: struct wait, owned */
	uint64_t vdso_bytes;
	uint64_t given_up; /* reads, since the tables are locked for too long */
	/* Some process has mapped code, and it is not known which one. */
	bool all;
	uint64_t due_ns;  /* of the process that is due first */
	uint64_t rest_ns; /* nothing is read before */
	DIR *scan;	  /* owned; NULL: none is under way */
	uint64_t scan_ns;
	bool said_rows, said_ranges, said_share, said_procs;
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

static void warn_once(bool *said, const char *what)
{
	if (!*said)
		rut_warn("some native stacks will be cut or by frame pointers only: %s", what);
	*said = true;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The address spaces that processes have; owned by the caller, NULL: unknown. */
static uint64_t *list_spaces(const struct rut_recorder *r, size_t *ret_n)
{
	uint64_t *list = calloc(RUT_UNWIND_PROCS, sizeof(*list));
	struct rut_unwind_proc p;
	uint32_t key, next;
	size_t n = 0;
	int rc = bpf_map_get_next_key(r->fds[RUT_MAP_UNWIND_PROCS], NULL, &next);

	/* It ends, even if others change the map so that it begins again. */
	for (size_t i = 0; list && !rc && i < 4 * RUT_UNWIND_PROCS && n < RUT_UNWIND_PROCS; i++) {
		key = next;
		if (!bpf_map_lookup_elem(r->fds[RUT_MAP_UNWIND_PROCS], &key, &p))
			list[n++] = p.space;
		rc = bpf_map_get_next_key(r->fds[RUT_MAP_UNWIND_PROCS], &key, &next);
	}
	if (list && n)
		qsort(list, n, sizeof(*list), by_number);
	*ret_n = n;
	return list;
}

/* Frees what processes had that have ended. Returns how many blocks will be free in a moment. */
static size_t sweep(struct rut_recorder *r, bool files)
{
	size_t n = 0, waiting = 0;
	_cleanup_free_ uint64_t *spaces = list_spaces(r, &n);

	if (spaces)
		rut_unwind_tables_sweep(&r->unwinds->tables, spaces, n, files, rut_ring_clock(),
					&waiting);
	return waiting;
}

static bool is_rubys(const char *path)
{
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	return !strncmp(base, "libruby", 7) || !strncmp(base, "ruby", 4);
}

/*
 * Adds what was read. Where there is no room this is said, and the file is remembered as one of
 * which nothing is known (see add_range()), so that it is not read again and again. NULL: nor for
 * that.
 */
static struct rut_unwind_file *add_file(struct rut_recorder *r, const struct stat *st,
					struct rut_unwind_table *t)
{
	struct rut_unwinds *u = r->unwinds;
	struct rut_unwind_file *f = NULL;
	uint64_t now = rut_ring_clock();
	int rc = rut_unwind_tables_add(&u->tables, st, t, now, &f);

	/* Not for each file: a user can make any number of them. */
	if ((rc == -ENOSPC || rc == -EDQUOT) && rut_unwind_tables_may_sweep(&u->tables, now)) {
		sweep(r, true);
		rc = rut_unwind_tables_add(&u->tables, st, t, now, &f);
	}
	if (rc == -ENOSPC)
		warn_once(&u->said_rows, "the tables of all programs and libraries are larger than "
					 "the room for them");
	else if (rc == -EDQUOT)
		warn_once(&u->said_share, "the programs and libraries of one user have the share "
					  "of one user");
	return rc == -ENOSPC || rc == -EDQUOT ? rut_unwind_tables_refuse(&u->tables, st, t, now)
					      : f;
}

/* Of Ruby's files *t has the functions, if it was read now. */
static struct rut_unwind_file *find_file(struct rut_recorder *r, int fd, struct rut_unwind_table *t)
{
	struct rut_unwind_file *f;
	struct stat st;
	int rc;

	if (fstat(fd, &st) < 0)
		return NULL;
	f = rut_unwind_tables_find(&r->unwinds->tables, &st, rut_ring_clock());
	if (f || r->unwinds->tables.stuck)
		return f;
	rc = rut_unwind_read(t, fd);
	if (rc < 0)
		t->nrows = 0; /* of those that were read some may be missing */
	f = add_file(r, &st, t);
	if (f && (rc == -E2BIG || rc == -ENOMEM))
		f->count = 1;
	return f;
}

/* The kernel's own part of every process, which is no file. */
static struct rut_unwind_file *find_vdso(struct rut_recorder *r, const struct rut_mapping *m)
{
	_cleanup_(rut_unwind_fini)
	struct rut_unwind_table t = {0};
	const void *image = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	const struct stat st = {.st_size = (off_t)(m->end - m->start)};
	struct rut_unwind_file *f =
		rut_unwind_tables_find(&r->unwinds->tables, &st, rut_ring_clock());

	if (f || !image || m->end - m->start != r->unwinds->vdso_bytes)
		return f;
	return rut_unwind_read_image(&t, image, r->unwinds->vdso_bytes) ? NULL
									: add_file(r, &st, &t);
}

static uint64_t find_vdso_bytes(void)
{
	_cleanup_maps_ struct rut_maps maps = RUT_MAPS_INIT;
	struct rut_mapping m;

	if (rut_maps_open(&maps, getpid()) < 0)
		return 0;
	while (rut_maps_next(&maps, &m))
		if (!strcmp(m.path, "[vdso]"))
			return m.end - m.start;
	return 0;
}

/* --- processes ----------------------------------------------------------------------------- */

struct building {
	struct rut_unwind_proc proc;
	struct rut_unwind_range range[RUT_UNWIND_RANGES];
	uint64_t loop; /* an address in the interpreter's loop; 0 */
};

/* The file keeps where its loop is: it is looked for once. */
static void set_loop(struct building *b, struct rut_unwind_file *f,
		     const struct rut_unwind_range *r, int fd, struct rut_unwind_table *t)
{
	uint64_t at = b->loop - r->bias;
	const struct rut_unwind_function *fn;

	if (!b->loop || b->loop < r->start || b->loop >= r->end)
		return;
	if (at < f->loop_start || at >= f->loop_end) {
		if (!t->nfunctions) {
			rut_unwind_fini(t);
			if (rut_unwind_read(t, fd) < 0)
				return;
		}
		fn = rut_unwind_function_at(t, at);
		if (!fn)
			return;
		f->loop_start = fn->start;
		f->loop_end = fn->end;
	}
	b->proc.ruby_start = r->start;
	b->proc.ruby_end = r->end;
	b->proc.loop_start = f->loop_start + r->bias;
	b->proc.loop_end = f->loop_end + r->bias;
}

/*
 * Code of a file that has tables. Any other code is left out: it has frame pointers, or is walked
 * as if it had. Of a file whose tables had no room it has one row, the first, which says that
 * nothing is known.
 */
static struct rut_unwind_range *add_range(struct building *b, const struct rut_unwind_file *f,
					  const struct rut_mapping *m)
{
	struct rut_unwind_range *r = &b->range[b->proc.count];

	for (size_t i = 0; f && f->count && i < f->nsegments; i++) {
		const struct rut_unwind_segment *s = &f->segments[i];

		if (m->offset + (m->end - m->start) <= s->offset ||
		    m->offset >= s->offset + s->bytes)
			continue;
		*r = (struct rut_unwind_range){
			.start = m->start,
			.end = m->end,
			.bias = m->start - (s->address + (m->offset - s->offset)),
			.first = f->first,
			.count = f->count,
		};
		b->proc.count++;
		return r;
	}
	return NULL;
}

static void read_file(struct rut_recorder *r, struct building *b, int32_t pid,
		      const struct rut_mapping *m)
{
	_cleanup_(rut_unwind_fini)
	struct rut_unwind_table t = {0};
	_cleanup_close_ int fd = rut_mapping_open(pid, m);
	struct rut_unwind_file *f = fd < 0 ? NULL : find_file(r, fd, &t);
	struct rut_unwind_range *range = fd < 0 ? NULL : add_range(b, f, m);

	if (f && range && is_rubys(m->path))
		set_loop(b, f, range, fd, &t);
}

static void read_maps(struct rut_recorder *r, struct building *b, int32_t pid)
{
	_cleanup_maps_ struct rut_maps maps = RUT_MAPS_INIT;
	struct rut_mapping m;

	if (rut_maps_open(&maps, pid) < 0)
		return;
	while (!r->unwinds->tables.stuck && b->proc.count < RUT_UNWIND_RANGES &&
	       rut_maps_next(&maps, &m)) {
		if (!m.exec || !strcmp(m.path, "[vsyscall]"))
			continue;
		if (m.inode)
			read_file(r, b, pid, &m);
		else if (!strcmp(m.path, "[vdso]"))
			add_range(b, find_vdso(r, &m), &m);
	}
}

static bool is_unchanged(const struct rut_recorder *r, const struct building *b, int32_t pid)
{
	struct rut_unwind_proc p;

	return !bpf_map_lookup_elem(r->fds[RUT_MAP_UNWIND_PROCS], &pid, &p) &&
	       p.count == b->proc.count && p.loop_end == b->proc.loop_end &&
	       p.ruby_end == b->proc.ruby_end &&
	       !memcmp(&r->unwinds->tables.ranges[p.first], b->range, p.count * sizeof(*b->range));
}

static uint32_t owner_of(int32_t pid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return stat(path, &st) < 0 ? 0 : st.st_uid;
}

/* 0; -EAGAIN: there will be room in a moment; -errno: there is none. */
static int take_ranges(struct rut_recorder *r, struct building *b, int32_t pid)
{
	struct rut_unwinds *u = r->unwinds;
	uint32_t uid = owner_of(pid), first = 0;
	uint64_t space = 0;
	size_t waiting = 0;
	int rc = -ENOSPC;

	for (int i = 0; i < 2 && (rc == -ENOSPC || rc == -EDQUOT); i++) {
		if (i)
			waiting = sweep(r, false);
		rc = rut_unwind_tables_take(&u->tables, uid, b->range, b->proc.count, &first,
					    &space);
	}
	b->proc.first = first;
	b->proc.space = space;
	if ((rc == -ENOSPC || rc == -EDQUOT) && waiting)
		return -EAGAIN;
	if (rc == -ENOSPC)
		warn_once(&u->said_ranges, "all processes together have mapped more code than "
					   "there is room for");
	else if (rc == -EDQUOT)
		warn_once(&u->said_share, "the processes of one user have the share of one user");
	return rc;
}

static int publish(struct rut_recorder *r, struct building *b, int32_t pid)
{
	int rc = take_ranges(r, b, pid);

	if (rc)
		return rc;
	if (bpf_map_update_elem(r->fds[RUT_MAP_UNWIND_PROCS], &pid, &b->proc, BPF_ANY) < 0) {
		if (errno == E2BIG)
			warn_once(&r->unwinds->said_procs, "more processes live than can be known");
		return -E2BIG;
	}
	/* The program that forgets a process runs once. */
	if (!rut_proc_start(pid))
		bpf_map_delete_elem(r->fds[RUT_MAP_UNWIND_PROCS], &pid);
	return 0;
}

/* Says when another process begins to keep the lock, and for how many reads it did. */
static bool is_stuck(struct rut_unwinds *u)
{
	if (u->tables.stuck && !u->given_up++)
		rut_warn("no native stacks of new code: another process of this session is "
			 "stopped while it changes their tables");
	if (!u->tables.stuck && u->given_up) {
		rut_info("the tables of native stacks can be changed again, after %" PRIu64
			 " reads that were given up",
			 u->given_up);
		u->given_up = 0;
	}
	return u->tables.stuck;
}

static int read_process(struct rut_recorder *r, int32_t pid)
{
	_cleanup_free_ struct building *b = calloc(1, sizeof(*b));
	struct rut_ruby_vm vm;

	if (!b)
		return -ENOMEM;
	if (!bpf_map_lookup_elem(r->fds[RUT_MAP_RUBIES], &pid, &vm))
		b->loop = vm.loop;
	if (!rut_unwind_tables_stuck(&r->unwinds->tables))
		read_maps(r, b, pid);
	if (is_stuck(r->unwinds))
		return -EAGAIN;
	return !b->proc.count || is_unchanged(r, b, pid) ? 0 : publish(r, b, pid);
}

/* --- life ---------------------------------------------------------------------------------- */

static struct rut_unwinds *get(struct rut_recorder *r)
{
	struct rut_unwinds *u = r->unwinds;
	void *rows, *ranges;

	if (u || !rut_unwind_wanted(r))
		return u;
	u = calloc(1, sizeof(*u));
	rows = mmap(NULL, RUT_UNWIND_ROWS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		    r->fds[RUT_MAP_UNWIND_ROWS], 0);
	ranges = mmap(NULL, RUT_UNWIND_RANGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		      r->fds[RUT_MAP_UNWIND_RANGES], 0);
	if (!u || rows == MAP_FAILED || ranges == MAP_FAILED) {
		free(u);
		if (rows != MAP_FAILED)
			munmap(rows, RUT_UNWIND_ROWS_BYTES);
		if (ranges != MAP_FAILED)
			munmap(ranges, RUT_UNWIND_RANGE_BYTES);
		return NULL;
	}
	rut_unwind_tables_init(&u->tables, rows, ranges);
	u->vdso_bytes = find_vdso_bytes();
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

static struct wait *find_wait(struct rut_unwinds *u, int32_t pid)
{
	struct wait *w = rut_map_get(&u->waits, (uint32_t)pid);

	if (w || u->waits.count >= WAITS_MAX)
		return w;
	w = calloc(1, sizeof(*w));
	if (w && rut_map_put(&u->waits, (uint32_t)pid, w) < 0) {
		free(w);
		return NULL;
	}
	if (w) {
		w->pid = pid;
		w->period_ns = PERIOD_NS;
	}
	return w;
}

void rut_unwind_mapped(struct rut_recorder *r, int32_t pid, bool is_file)
{
	struct rut_unwinds *u = get(r);
	uint64_t now = rut_ring_clock(), due;
	struct wait *w;

	if (!u || !is_recorded(r, pid))
		return;
	w = find_wait(u, pid);
	if (!w) {
		u->all = true;
		return;
	}
	due = now + (is_file ? SETTLE_NS : ANONYMOUS_NS);
	if (w->read_ns && due < w->read_ns + w->period_ns)
		due = w->read_ns + w->period_ns;
	if (!w->due_ns || due < w->due_ns)
		w->due_ns = due;
	if (due < u->due_ns)
		u->due_ns = due;
}

void rut_unwind_lost(struct rut_recorder *r)
{
	if (get(r))
		r->unwinds->all = true;
}

int rut_unwind_add(struct rut_recorder *r, int32_t pid)
{
	return get(r) && !is_known(r, pid) ? read_process(r, pid) : 0;
}

int rut_unwind_find(struct rut_recorder *r, int32_t pid)
{
	return get(r) && is_recorded(r, pid) ? rut_unwind_add(r, pid) : 0;
}

void rut_unwind_found_ruby(struct rut_recorder *r, int32_t pid)
{
	/* What is not known yet will be read with it. */
	if (r->unwinds && is_known(r, pid))
		rut_unwind_mapped(r, pid, true);
}

static int by_due(const void *a, const void *b)
{
	const struct wait *x = *(struct wait *const *)a, *y = *(struct wait *const *)b;

	return (x->due_ns > y->due_ns) - (x->due_ns < y->due_ns);
}

/* Forgets those that have mapped nothing for a while. */
static void forget_quiet(struct rut_unwinds *u, uint64_t now)
{
	_cleanup_free_ struct wait **list = calloc(u->waits.count + 1, sizeof(struct wait *));
	size_t n = 0;

	if (!list)
		return;
	rut_map_each(&u->waits, slot) {
		struct wait *w = slot->value;

		if (!w->due_ns && now - w->read_ns > 2 * w->period_ns + QUIET_NS)
			list[n++] = w;
	}
	while (n) {
		struct wait *w = list[--n];

		rut_map_remove(&u->waits, (uint32_t)w->pid);
		free(w);
	}
}

static void read_due(struct rut_recorder *r, struct wait *w)
{
	uint64_t now = rut_ring_clock();
	bool again = w->read_ns && now - w->read_ns < 2 * w->period_ns + QUIET_NS;

	/* Its code is read with its interpreter's loop. */
	if (w->scanned)
		rut_rubies_add(r, w->pid);
	w->scanned = false;
	w->due_ns = 0;
	if (read_process(r, w->pid) == -EAGAIN)
		w->due_ns = now + RUT_UNWIND_GRACE_NS;
	/* What maps code all the time is read less often. */
	w->period_ns = again ? 2 * w->period_ns : w->period_ns / 2;
	if (w->period_ns < PERIOD_NS)
		w->period_ns = PERIOD_NS;
	if (w->period_ns > PERIOD_MAX)
		w->period_ns = PERIOD_MAX;
	w->read_ns = now;
}

/* Lets all processes be read that are recorded, in steps, as nothing drains the rings meanwhile. */
static void scan_all(struct rut_recorder *r, uint64_t now)
{
	struct rut_unwinds *u = r->unwinds;

	if (u->all && !u->scan && now - u->scan_ns >= SCAN_NS) {
		u->scan = opendir("/proc");
		u->all = !u->scan;
		u->scan_ns = now;
	}
	while (u->scan && rut_ring_clock() - now <= STEP_NS) {
		const struct dirent *e = readdir(u->scan);
		int32_t pid = e && isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;
		struct wait *w;

		if (!e) {
			closedir(u->scan);
			u->scan = NULL;
			continue;
		}
		if (pid <= 0 || pid == getpid() || !is_recorded(r, pid))
			continue;
		rut_unwind_mapped(r, pid, true);
		w = rut_map_get(&u->waits, (uint32_t)pid);
		if (w)
			w->scanned = true;
	}
}

/* When the next process is due. A third of the time is spent on reading at most. */
static void find_due(struct rut_unwinds *u, uint64_t begun_ns)
{
	uint64_t now = rut_ring_clock(), rest = 2 * (now - begun_ns);

	u->due_ns = now + FORGET_NS;
	rut_map_each(&u->waits, slot) {
		const struct wait *w = slot->value;

		if (w->due_ns && w->due_ns < u->due_ns)
			u->due_ns = w->due_ns;
	}
	u->rest_ns = now + (rest < REST_NS ? rest : REST_NS);
}

void rut_unwind_step(struct rut_recorder *r)
{
	struct rut_unwinds *u = r->unwinds;
	uint64_t now = rut_ring_clock();
	_cleanup_free_ struct wait **list = NULL;
	size_t n = 0;

	if (!u)
		return;
	scan_all(r, now);
	if (rut_unwind_tables_crowded(&u->tables, now))
		sweep(r, false);
	if (now < rut_unwind_due_ns(r))
		return;
	forget_quiet(u, now);
	list = calloc(u->waits.count + 1, sizeof(struct wait *));
	if (!list)
		return;
	rut_map_each(&u->waits, slot) {
		struct wait *w = slot->value;

		if (w->due_ns && now >= w->due_ns)
			list[n++] = w;
	}
	/* Those that wait longest first. */
	qsort(list, n, sizeof(struct wait *), by_due);
	for (size_t i = 0; i < n && rut_ring_clock() - now <= STEP_NS; i++)
		read_due(r, list[i]);
	find_due(u, now);
}

uint64_t rut_unwind_due_ns(const struct rut_recorder *r)
{
	const struct rut_unwinds *u = r->unwinds;

	if (!u || !u->waits.count)
		return UINT64_MAX;
	return u->due_ns > u->rest_ns ? u->due_ns : u->rest_ns;
}

void rut_unwind_free(struct rut_unwinds *u)
{
	if (!u)
		return;
	rut_map_each(&u->waits, slot)
		free(slot->value);
	rut_map_fini(&u->waits);
	if (u->scan)
		closedir(u->scan);
	rut_unwind_tables_fini(&u->tables);
	munmap(u->tables.rows, RUT_UNWIND_ROWS_BYTES);
	munmap(u->tables.ranges, RUT_UNWIND_RANGE_BYTES);
	free(u);
}
