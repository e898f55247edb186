/* SPDX-License-Identifier: MIT */
#include "session/recorder.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "bpf/known.h"
#include "bpf/probe.h"
#include "session/budget.h"
#include "session/dynamic.h"
#include "session/kernel.h"
#include "session/own.h"
#include "session/pin.h"
#include "session/perf.h"
#include "session/processes.h"
#include "session/programs.h"
#include "session/sizes.h"
#include "session/rubies.h"
#include "session/unwind.h"

const char *const rut_map_names[RUT_MAP_COUNT] = {
	[RUT_MAP_CTLS] = "ctls",
	[RUT_MAP_RING] = "ring",
	[RUT_MAP_TRACED] = "traced",
	[RUT_MAP_GONE] = "gone",
	[RUT_MAP_OWN] = "own",
	[RUT_MAP_COMMS] = "comms",
	[RUT_MAP_CGROUPS] = "cgroups",
	[RUT_MAP_STACKS] = "stacks",
	[RUT_MAP_SYSCALLS] = "syscalls",
	[RUT_MAP_META] = "meta",
	[RUT_MAP_BUDGET] = "budget",
	[RUT_MAP_SPENDING] = "spending",
	[RUT_MAP_RUBIES] = "rubies",
	[RUT_MAP_CODES] = "codes",
	[RUT_MAP_FRAME_CACHE] = "frame_cache",
	[RUT_MAP_UNWIND_PROCS] = "unwind_procs",
	[RUT_MAP_UNWIND_RANGES] = "unwind_ranges",
	[RUT_MAP_UNWIND_ROWS] = "unwind_rows",
	[RUT_MAP_UNWIND_CACHE] = "unwind_cache",
	[RUT_MAP_KNOWN_STACKS] = "known_stacks",
	[RUT_MAP_PROBE_SCRATCH] = "probe_scratch",
	[RUT_MAP_PERF_COUNTERS] = "perf_counters",
};

/* More than the notices of forks that wait to be read: a few thousand a CPU (mappings.c). */
#define GONE_MAX 16384

static int map_error(int rc, const char *name, uint32_t value, uint32_t entries,
		     struct rut_err *err)
{
	if (rc == -EPERM)
		return rut_kernel_no_privilege(err);
	return rut_err_errno(err, -rc, "cannot make the map '%s' of %u x %u bytes", name, entries,
			     value);
}

static int map_fd(enum bpf_map_type type, const char *name, uint32_t key, uint32_t value,
		  uint32_t entries, uint32_t flags, struct rut_err *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = flags);
	int fd = bpf_map_create(type, name, key, value, entries, &opts);

	if (fd < 0)
		return map_error(fd, name, value, entries, err);
	return fd;
}

/* Since Linux 6.10 or so an array's elements may be larger than 4 MiB. */
static bool has_big_elements(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	_cleanup_close_ int fd =
		bpf_map_create(BPF_MAP_TYPE_ARRAY, "rutile_probe", 4, 2 * RUT_SUBBUF_MAX, 1, &opts);

	return fd >= 0;
}

static int choose_sizes(const struct rut_recorder *r, uint32_t *ret_shift, uint32_t *ret_count,
			struct rut_err *err)
{
	const uint64_t most = (uint64_t)r->ncpus * RUT_RING_MAX_SUBBUFS * RUT_SUBBUF_MAX;
	struct rut_sizes_limits limits = {
		.ncpus = r->ncpus,
		.memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE),
		.subbuf_bytes = RUT_SUBBUF_MAX,
	};
	struct rut_sizes sizes;
	int rc;

	if (r->conf.buffer_bytes > most && has_big_elements())
		limits.subbuf_bytes = RUT_SUBBUF_BIG;
	rc = rut_sizes_choose(&sizes, &r->conf, &limits, err);
	if (rc)
		return rc;
	if (sizes.note[0])
		rut_warn("%s", sizes.note);
	*ret_shift = sizes.shift;
	*ret_count = sizes.count;
	return 0;
}

/* Room for the page lists too. */
static uint32_t meta_bytes(uint32_t ncpus, uint32_t shift, uint32_t count, uint32_t nsets)
{
	uint64_t pages =
		ncpus + ((uint64_t)ncpus * count << shift) / RUT_PAGE + rut_meta_stack_pages(nsets);
	uint64_t bytes = RUT_META_PAGES_OFFSET + pages * sizeof(uint32_t);

	return (uint32_t)((bytes + RUT_PAGE - 1) & ~(uint64_t)(RUT_PAGE - 1));
}

static bool may_have_stacks(const struct rut_record_conf *conf)
{
	for (size_t i = 0; i < RUT_PROBES_MAX; i++)
		if (!strncmp(conf->probes[i], "profile:", 8))
			return true;
	return conf->contexts & (RUT_CTX_USTACK | RUT_CTX_KSTACK | RUT_CTX_RSTACK);
}

/* The maps that all objects of a session share; names are those in the objects. */
static int make_maps(struct rut_recorder *r, uint32_t shift, uint32_t count, struct rut_err *err)
{
	uint32_t n = (uint32_t)r->ncpus, nsets = may_have_stacks(&r->conf) ? RUT_STACK_SETS : 1;
	bool ruby = r->conf.contexts & RUT_CTX_RSTACK;
	bool follows = r->conf.filters & RUT_FILTER_FOLLOW, unwinds = rut_unwind_wanted(r);
	struct {
		enum bpf_map_type type;
		uint32_t key, value, entries, flags;
	} maps[RUT_MAP_COUNT] = {
		[RUT_MAP_CTLS] = {BPF_MAP_TYPE_ARRAY, 4, RUT_RING_CTL_SIZE, n, BPF_F_MMAPABLE},
		[RUT_MAP_RING] = {BPF_MAP_TYPE_ARRAY, 4, 1u << shift, n * count, BPF_F_MMAPABLE},
		[RUT_MAP_TRACED] = {BPF_MAP_TYPE_HASH, 4, 4, 16384, BPF_F_NO_PREALLOC},
		[RUT_MAP_GONE] = {BPF_MAP_TYPE_LRU_HASH, 4, 4, follows && nsets > 1 ? GONE_MAX : 1,
				  0},
		[RUT_MAP_COMMS] = {BPF_MAP_TYPE_HASH, 16, 4, 64, 0},
		[RUT_MAP_CGROUPS] = {BPF_MAP_TYPE_CGROUP_ARRAY, 4, 4, 16, 0},
		[RUT_MAP_STACKS] = {BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rut_stack_set), nsets,
				    BPF_F_MMAPABLE},
		[RUT_MAP_SYSCALLS] = {BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rut_syscall_desc),
				      RUT_SYSCALL_ROWS, 0},
		[RUT_MAP_META] = {BPF_MAP_TYPE_ARRAY, 4, meta_bytes(n, shift, count, nsets), 1,
				  BPF_F_MMAPABLE},
		[RUT_MAP_BUDGET] = {BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rut_budget), 1,
				    BPF_F_MMAPABLE},
		[RUT_MAP_SPENDING] = {BPF_MAP_TYPE_PERCPU_ARRAY, 4,
				      r->conf.budget_ppm ? sizeof(struct rut_spending) : 8, 1, 0},
		[RUT_MAP_RUBIES] = {BPF_MAP_TYPE_HASH, 4, sizeof(struct rut_ruby_vm),
				    ruby ? RUT_RUBY_PROCS : 1, 0},
		[RUT_MAP_CODES] = {BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rut_code_set),
				   ruby ? RUT_CODE_SETS : 1, BPF_F_MMAPABLE},
		[RUT_MAP_FRAME_CACHE] = {BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rut_frame_cache),
					 ruby ? RUT_CACHE_ENTRIES : 1, 0},
		[RUT_MAP_UNWIND_PROCS] = {BPF_MAP_TYPE_HASH, 4, sizeof(struct rut_unwind_proc),
					  unwinds ? RUT_UNWIND_PROCS : 1, BPF_F_NO_PREALLOC},
		[RUT_MAP_UNWIND_RANGES] = {BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rut_unwind_ranges),
					   unwinds ? RUT_UNWIND_RANGE_PAGES : 1, BPF_F_MMAPABLE},
		[RUT_MAP_UNWIND_ROWS] = {BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rut_unwind_page),
					 unwinds ? RUT_UNWIND_PAGES : 1, BPF_F_MMAPABLE},
		[RUT_MAP_UNWIND_CACHE] = {BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rut_unwind_cache),
					  unwinds ? RUT_UNWIND_CACHE : 1, 0},
		[RUT_MAP_KNOWN_STACKS] = {BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rut_known),
					  nsets > 1 ? RUT_KNOWN_ENTRIES : 1, 0},
		[RUT_MAP_PROBE_SCRATCH] = {BPF_MAP_TYPE_PERCPU_ARRAY, 4, RUT_PROBE_SCRATCH_BYTES,
					   RUT_PROBE_TURNS, 0},
		/* A flight recorder's counters go on when the process that opened them has ended.
		 */
		[RUT_MAP_PERF_COUNTERS] = {BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4,
					   r->conf.contexts & RUT_CTX_PERF ? RUT_PERF_MAX * n : 1,
					   BPF_F_PRESERVE_ELEMS},
	};

	for (size_t i = 0; i < RUT_MAP_COUNT; i++) {
		if (i == RUT_MAP_OWN)
			r->fds[i] = rut_own_open(err);
		else
			r->fds[i] = map_fd(maps[i].type, rut_map_names[i], maps[i].key,
					   maps[i].value, maps[i].entries, maps[i].flags, err);
		if (r->fds[i] < 0)
			return r->fds[i];
	}
	return 0;
}

bool rut_recorder_keeps_gone(const struct rut_recorder *r)
{
	return r->conf.filters & RUT_FILTER_FOLLOW && r->nsets == RUT_STACK_SETS;
}

int rut_recorder_map(struct rut_recorder *r, struct rut_err *err)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);

	if (bpf_obj_get_info_by_fd(r->fds[RUT_MAP_RING], &info, &len) < 0)
		return rut_err_errno(err, errno, "cannot read the ring's size");
	r->data_bytes = (size_t)info.max_entries * info.value_size;
	r->ctls_bytes = (size_t)r->ncpus * RUT_RING_CTL_SIZE;
	r->ctls = mmap(NULL, r->ctls_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		       r->fds[RUT_MAP_CTLS], 0);
	if (r->ctls == MAP_FAILED) {
		r->ctls = NULL;
		return rut_err_errno(err, errno, "cannot map the rings' control pages");
	}
	r->data = mmap(NULL, r->data_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		       r->fds[RUT_MAP_RING], 0);
	if (r->data == MAP_FAILED) {
		r->data = NULL;
		return rut_err_errno(err, errno, "cannot map %zu bytes of rings", r->data_bytes);
	}
	memset(&info, 0, sizeof(info));
	if (bpf_obj_get_info_by_fd(r->fds[RUT_MAP_META], &info, &len) < 0)
		return rut_err_errno(err, errno, "cannot read the description's size");
	r->meta_bytes = info.value_size;
	r->meta = mmap(NULL, r->meta_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		       r->fds[RUT_MAP_META], 0);
	if (r->meta == MAP_FAILED) {
		r->meta = NULL;
		return rut_err_errno(err, errno, "cannot map the session's description");
	}
	memset(&info, 0, sizeof(info));
	if (bpf_obj_get_info_by_fd(r->fds[RUT_MAP_STACKS], &info, &len) < 0)
		return rut_err_errno(err, errno, "cannot read the size of the table of stacks");
	r->nsets = info.max_entries;
	r->stacks = mmap(NULL, r->nsets * sizeof(*r->stacks), PROT_READ | PROT_WRITE, MAP_SHARED,
			 r->fds[RUT_MAP_STACKS], 0);
	if (r->stacks == MAP_FAILED) {
		r->stacks = NULL;
		return rut_err_errno(err, errno, "cannot map the table of stacks");
	}
	memset(&info, 0, sizeof(info));
	if (bpf_obj_get_info_by_fd(r->fds[RUT_MAP_CODES], &info, &len) < 0)
		return rut_err_errno(err, errno, "cannot read the size of the table of codes");
	r->ncodes = info.max_entries;
	r->codes = mmap(NULL, r->ncodes * sizeof(*r->codes), PROT_READ | PROT_WRITE, MAP_SHARED,
			r->fds[RUT_MAP_CODES], 0);
	if (r->codes == MAP_FAILED) {
		r->codes = NULL;
		return rut_err_errno(err, errno, "cannot map the table of codes");
	}
	r->budget = mmap(NULL, sizeof(*r->budget), PROT_READ | PROT_WRITE, MAP_SHARED,
			 r->fds[RUT_MAP_BUDGET], 0);
	if (r->budget == MAP_FAILED) {
		r->budget = NULL;
		return rut_err_errno(err, errno, "cannot map the session's budget");
	}
	r->rings = calloc((size_t)r->ncpus, sizeof(*r->rings));
	return r->rings ? 0 : rut_err_set(err, ENOMEM, "out of memory");
}

static void init_rings(struct rut_recorder *r, uint32_t shift, uint32_t count)
{
	for (int cpu = 0; cpu < r->ncpus; cpu++) {
		struct rut_ring_ctl *ctl = (void *)((char *)r->ctls + cpu * RUT_RING_CTL_SIZE);

		ctl->cpu_id = (uint32_t)cpu;
		memcpy(ctl->uuid, r->uuid, sizeof(ctl->uuid));
		rut_ring_init(&r->rings[cpu], ctl, r->data + ((size_t)cpu * count << shift),
			      r->conf.mode, shift, count);
	}
}

static int make_uuid(uint8_t uuid[16], struct rut_err *err)
{
	if (getrandom(uuid, 16, 0) != 16)
		return rut_err_errno(err, errno, "cannot make an identifier");
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40);
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
	return 0;
}

/* Removes an event without a tracepoint in this kernel, or ends the attempt. */
static int drop_missing(struct rut_recorder *r, struct rut_err *err)
{
	struct rut_err why = RUT_ERR_INIT;
	struct rut_strtab tps = {0};
	int rc = rut_kernel_tracepoints(&tps, &why);

	if (!rc) {
		rc = rut_selection_drop_missing(&r->conf.selection, &tps, r->conf.strict, err);
	} else if (rc == -ENOENT) {
		/* Probes need no types of the kernel; the program that follows forks does. */
		if (r->conf.filters & RUT_FILTER_FOLLOW)
			rut_warn("%s: children of what is recorded are not recorded", why.msg);
		r->conf.filters &= ~(uint32_t)RUT_FILTER_FOLLOW;
		rc = rut_selection_drop_all(&r->conf.selection, why.msg, r->conf.strict, err);
	} else {
		rut_err_set(err, why.code, "%s", why.msg);
	}
	rut_strtab_fini(&tps);
	return rc;
}

/* Process names and cgroup of the filter go into their maps. */
static int fill_filters(struct rut_recorder *r, struct rut_err *err)
{
	_cleanup_close_ int fd = -1;
	uint32_t key = 0, one = 1, cgroup;

	for (size_t i = 0; i < 8 && r->conf.comms[i][0]; i++)
		if (bpf_map_update_elem(r->fds[RUT_MAP_COMMS], r->conf.comms[i], &one, BPF_ANY))
			return rut_err_errno(err, errno, "cannot filter by '%.16s'",
					     r->conf.comms[i]);
	if (!r->conf.cgroup[0])
		return 0;
	fd = open(r->conf.cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cgroup = (uint32_t)fd;
	if (fd < 0 || bpf_map_update_elem(r->fds[RUT_MAP_CGROUPS], &key, &cgroup, BPF_ANY) < 0)
		return rut_err_errno(err, errno, "cannot filter by the cgroup '%s'",
				     r->conf.cgroup);
	return 0;
}

/* Page frame numbers of a mapping; false where we may not know them, or they have too many bits. */
static bool page_frames(int pagemap, const void *data, size_t pages, uint32_t *to)
{
	const uint64_t known = (1ull << 55) - 1;
	uint64_t entries[512];

	for (size_t i = 0; i < pages; i += 512) {
		size_t n = pages - i < 512 ? pages - i : 512;
		uint64_t at = (uintptr_t)data / RUT_PAGE + i;

		if (pread(pagemap, entries, n * 8, (off_t)(at * 8)) != (ssize_t)(n * 8))
			return false;
		for (size_t j = 0; j < n; j++) {
			uint64_t pfn = entries[j] & known;

			if (!(entries[j] >> 63) || !pfn || pfn > UINT32_MAX)
				return false;
			to[i + j] = (uint32_t)pfn;
		}
	}
	return true;
}

/* Notes where the session is in physical memory, in case the kernel crashes. */
static void list_pages(struct rut_recorder *r)
{
	_cleanup_close_ int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	struct rut_session_meta *m = r->meta;
	uint32_t *list = (uint32_t *)((char *)m + RUT_META_PAGES_OFFSET);
	size_t n = r->meta_bytes / RUT_PAGE, nctl = r->ctls_bytes / RUT_PAGE,
	       nring = r->data_bytes / RUT_PAGE, nstacks = rut_meta_stack_pages((uint32_t)r->nsets);

	if (n > RUT_META_ANCHOR_PAGES)
		rut_warn(
			"the buffer is too large to be found in a memory dump by 'rutile recover'");
	if (fd < 0 || n > RUT_META_ANCHOR_PAGES || !page_frames(fd, r->ctls, nctl, list) ||
	    !page_frames(fd, r->data, nring, list + nctl) ||
	    !page_frames(fd, r->stacks, nstacks, list + nctl + nring) ||
	    !page_frames(fd, m, n, m->anchor.pfn)) {
		rut_debug("the session's physical pages are not known: no recovery from a dump");
		return;
	}
	m->npages_ctl = (uint32_t)nctl;
	m->npages_ring = (uint32_t)nring;
	m->npages_stacks = (uint32_t)nstacks;
	m->anchor.npages = (uint32_t)n;
}

static void describe(struct rut_recorder *r, uint32_t shift, uint32_t count)
{
	struct rut_session_meta *m = r->meta;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	m->anchor.version = RUT_META_VERSION;
	m->anchor.bytes = (uint32_t)r->meta_bytes;
	memcpy(m->anchor.uuid, r->uuid, sizeof(m->anchor.uuid));
	m->ncpus = (uint32_t)r->ncpus;
	m->shift = shift;
	m->count = count;
	m->nsets = (uint32_t)r->nsets;
	m->created_ns = now.tv_sec * 1000000000ll + now.tv_nsec;
	m->next_dynamic = RUT_ID_DYNAMIC;
	m->conf = r->conf;
	list_pages(r);
	__atomic_store_n(&m->anchor.magic, RUT_META_MAGIC, __ATOMIC_RELEASE);
}

/* A program that only follows forks records nothing. */
static bool records_anything(const struct rut_recorder *r)
{
	for (uint32_t i = 0; i < r->meta->ndynamic; i++)
		if (r->meta->dynamic[i].id)
			return true;
	return rut_selection_any(&r->conf.selection);
}

static int build(struct rut_recorder *r, struct rut_err *err)
{
	bool was_any = rut_selection_any(&r->conf.selection);
	uint32_t shift = 0, count = 0;
	int rc = drop_missing(r, err);

	if (!rc)
		rc = choose_sizes(r, &shift, &count, err);
	if (!rc)
		rc = make_uuid(r->uuid, err);
	if (!rc)
		rc = make_maps(r, shift, count, err);
	if (!rc)
		rc = rut_perf_open(r, err);
	if (!rc)
		rc = rut_recorder_map(r, err);
	if (rc)
		return rc;
	init_rings(r, shift, count);
	describe(r, shift, count);
	r->meta->active = r->conf.selection;
	rut_budget_init(r);
	rc = fill_filters(r, err);
	if (!rc)
		rc = rut_programs_load(r, &r->conf.selection, err);
	/* Samples begin when their clock is opened. */
	rut_processes_scan(r);
	for (size_t i = 0; i < RUT_PROBES_MAX && r->conf.probes[i][0] && !rc; i++)
		rc = rut_dynamic_try(r, r->conf.probes[i], err);
	if (!rc && !records_anything(r) && (was_any || r->conf.probes[0][0]))
		rc = rut_err_set(err, ENOENT,
				 "nothing is left to record: none of the events can be recorded "
				 "here");
	if (!rc)
		rc = rut_filter_check_names(&r->filter_names, err);
	if (!rc)
		rc = rut_recorder_publish(r, err);
	return rc;
}

struct rut_recorder *rut_recorder_alloc(void)
{
	struct rut_recorder *r = calloc(1, sizeof(*r));

	rut_programs_quiet();
	for (size_t i = 0; r && i < RUT_MAP_COUNT; i++)
		r->fds[i] = -1;
	return r;
}

static int make(struct rut_recorder **ret, const struct rut_record_conf *conf, bool load_only,
		struct rut_err *err)
{
	struct rut_recorder *r = rut_recorder_alloc();
	int rc;

	if (!r)
		return rut_err_set(err, ENOMEM, "out of memory");
	r->conf = *conf;
	r->load_only = load_only;
	r->ncpus = libbpf_num_possible_cpus();
	rc = r->ncpus > 0 ? build(r, err) : rut_err_errno(err, -r->ncpus, "cannot count the CPUs");
	if (rc < 0) {
		rut_recorder_free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

int rut_recorder_new(struct rut_recorder **ret, const struct rut_record_conf *conf,
		     struct rut_err *err)
{
	return make(ret, conf, false, err);
}

int rut_recorder_check(const struct rut_record_conf *conf, struct rut_err *err)
{
	struct rut_recorder *r = NULL;
	int rc = make(&r, conf, true, err);

	rut_recorder_free(r);
	return rc;
}

int rut_recorder_trace_pid(struct rut_recorder *r, pid_t pid, enum rut_traced when)
{
	uint32_t key = (uint32_t)pid, value = when;

	/* Its first event may have a stack. */
	if (when == RUT_TRACED_YES)
		rut_unwind_add(r, pid);
	return bpf_map_update_elem(r->fds[RUT_MAP_TRACED], &key, &value, BPF_ANY);
}

uint64_t rut_recorder_records(const struct rut_recorder *r)
{
	uint64_t records = 0;

	for (int cpu = 0; cpu < r->ncpus; cpu++)
		records += rut_ring_records(&r->rings[cpu]);
	return records;
}

uint64_t rut_recorder_lost(const struct rut_recorder *r)
{
	uint64_t lost = 0;

	for (int cpu = 0; cpu < r->ncpus; cpu++)
		lost += __atomic_load_n(&r->rings[cpu].ctl->lost, __ATOMIC_RELAXED);
	return lost - __atomic_load_n(&r->meta->missed_counted, __ATOMIC_RELAXED) +
	       __atomic_load_n(&r->meta->dropped, __ATOMIC_RELAXED);
}

uint64_t rut_recorder_missed(const struct rut_recorder *r)
{
	/* Programs of this process, or pinned ones. */
	return r->nobjects ? rut_programs_missed(r) : rut_session_missed(r);
}

/* The ring with a packet that will be closed at once, if there is one. */
static struct rut_ring *open_ring(const struct rut_recorder *r)
{
	for (int cpu = 0; cpu < r->ncpus; cpu++)
		if (r->rings[cpu].ctl->pos & (r->rings[cpu].subbuf_size - 1))
			return &r->rings[cpu];
	return &r->rings[0];
}

static void count_missed(const struct rut_recorder *r)
{
	uint64_t missed = rut_recorder_missed(r);
	uint64_t had = __atomic_load_n(&r->meta->missed_counted, __ATOMIC_RELAXED);

	/* Another process may do the same. */
	if (missed > had && __atomic_compare_exchange_n(&r->meta->missed_counted, &had, missed,
							false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		__atomic_fetch_add(&open_ring(r)->ctl->lost, missed - had, __ATOMIC_RELAXED);
}

uint64_t rut_recorder_stacks_lost(const struct rut_recorder *r)
{
	uint64_t lost = 0;

	for (int cpu = 0; cpu < r->ncpus; cpu++)
		lost += __atomic_load_n(&RUT_CTL_USER(r->rings[cpu].ctl)->stacks_lost,
					__ATOMIC_RELAXED);
	return lost;
}

void rut_recorder_flush(const struct rut_recorder *r)
{
	count_missed(r);
	for (int cpu = 0; cpu < r->ncpus; cpu++)
		rut_ring_flush(&r->rings[cpu]);
}

void rut_recorder_metadata(const struct rut_recorder *r, bool compat, int64_t clock_offset_ns,
			   struct rut_buf *out)
{
	struct rut_metadata m = {
		.contexts = r->conf.contexts,
		.perf = (const char(*)[RUT_PERF_NAME])r->conf.perf,
		.selection = &r->meta->conf.selection,
		.compat = compat,
		.clock_offset_ns = clock_offset_ns,
		.session = r->conf.name,
	};

	memcpy(m.uuid, r->uuid, sizeof(m.uuid));
	rut_metadata_write(out, &m);
	rut_buf_add(out, (const char *)r->meta + RUT_META_DYNAMIC_OFFSET, r->meta->dynamic_len);
}

int rut_recorder_publish(struct rut_recorder *r, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	struct rut_session_meta *m = r->meta;

	m->clock_offset_ns = rut_clock_offset_near_ns(m->clock_offset_ns);
	/* All of it: without a process nothing would be added later. */
	rut_recorder_metadata(r, true, m->clock_offset_ns, &text);
	if (text.failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (text.len - m->dynamic_len > RUT_META_DYNAMIC_OFFSET - RUT_META_TEXT_OFFSET)
		return rut_err_set(err, E2BIG, "the metadata has %zu bytes, too many", text.len);
	m->text_len = (uint32_t)(text.len - m->dynamic_len);
	memcpy((char *)m + RUT_META_TEXT_OFFSET, text.data, m->text_len);
	return 0;
}

void rut_recorder_free(struct rut_recorder *r)
{
	if (!r)
		return;
	rut_programs_free(r);
	rut_rubies_free(r->rubies);
	rut_unwind_free(r->unwinds);
	rut_kernel_names_fini(&r->kernel_names);
	if (r->data)
		munmap(r->data, r->data_bytes);
	if (r->meta)
		munmap(r->meta, r->meta_bytes);
	if (r->budget)
		munmap(r->budget, sizeof(*r->budget));
	if (r->stacks)
		munmap(r->stacks, r->nsets * sizeof(*r->stacks));
	if (r->codes)
		munmap(r->codes, r->ncodes * sizeof(*r->codes));
	if (r->ctls)
		munmap(r->ctls, r->ctls_bytes);
	for (size_t i = 0; i < RUT_MAP_COUNT; i++)
		rut_closep(&r->fds[i]);
	free(r->rings);
	free(r);
}
