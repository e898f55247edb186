/* SPDX-License-Identifier: MIT */
#include "session/recorder.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "kernel.skel.h"
#include "session/kernel.h"

#define SUBBUF_MIN (16u << 10)
#define SUBBUF_MAX (4u << 20)

static int quiet_print(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char line[512];

	if (level == LIBBPF_DEBUG)
		return 0;
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = '\0';
	rut_debug("%s", line);
	return 0;
}

/* Chooses 2^n sub-buffers of 2^k bytes a CPU that fit the memory asked for. */
static int choose_sizes(const struct rut_record_conf *conf, int ncpus, uint32_t *ret_shift,
			uint32_t *ret_count, struct rut_err *err)
{
	uint64_t total = conf->buffer_bytes ? conf->buffer_bytes : (uint64_t)ncpus << 23;
	uint64_t each = total / (uint64_t)ncpus, sub = conf->subbuf_bytes;
	uint32_t shift = 14, count = 2;

	if (!sub) {
		sub = each / 16;
		if (sub > 256 << 10)
			sub = each / 64 > 256 << 10 ? each / 64 : 256 << 10;
		if (sub > 1 << 20)
			sub = 1 << 20;
		if (sub < SUBBUF_MIN)
			sub = SUBBUF_MIN;
	}
	if (sub < SUBBUF_MIN || sub > SUBBUF_MAX)
		return rut_err_set(err, EINVAL, "sub-buffers must have 16K to 4M bytes each");
	while ((2ull << shift) <= sub)
		shift++;
	while (((uint64_t)count * 2) << shift <= each && count < RUT_RING_MAX_SUBBUFS)
		count *= 2;
	if ((uint64_t)count << shift > each && conf->buffer_bytes)
		return rut_err_set(err, EINVAL,
				   "a buffer of %llu bytes is too small for %d CPUs: at least %llu",
				   (unsigned long long)total, ncpus,
				   (unsigned long long)ncpus * 2 << shift);
	*ret_shift = shift;
	*ret_count = count;
	return 0;
}

static int load_error(int rc, struct rut_err *err)
{
	if (rc == -EPERM || rc == -EACCES)
		return rut_err_set(err, EPERM,
				   "the kernel refuses the programs: run as root, or with the "
				   "capabilities CAP_BPF and CAP_PERFMON");
	return rut_err_errno(err, -rc, "the kernel refuses the programs");
}

static int map_fd(enum bpf_map_type type, const char *name, uint32_t key, uint32_t value,
		  uint32_t entries, uint32_t flags, struct rut_err *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = flags);
	int fd = bpf_map_create(type, name, key, value, entries, &opts);

	if (fd == -EPERM)
		return load_error(fd, err);
	if (fd < 0)
		return rut_err_errno(err, -fd, "cannot make the map '%s' of %u x %u bytes", name,
				     entries, value);
	return fd;
}

/* The maps that all objects of a session share; names are those in the objects. */
static int make_maps(struct rut_recorder *r, uint32_t shift, uint32_t count, struct rut_err *err)
{
	uint32_t n = (uint32_t)r->ncpus;
	bool stacks = r->conf.contexts & (RUT_CTX_USTACK | RUT_CTX_KSTACK);
	const struct {
		int *fd;
		enum bpf_map_type type;
		const char *name;
		uint32_t key, value, entries, flags;
	} maps[] = {
		{&r->fd_ctls, BPF_MAP_TYPE_ARRAY, "ctls", 4, RUT_RING_CTL_SIZE, n, BPF_F_MMAPABLE},
		{&r->fd_ring, BPF_MAP_TYPE_ARRAY, "ring", 4, 1u << shift, n * count,
		 BPF_F_MMAPABLE},
		{&r->fd_traced, BPF_MAP_TYPE_HASH, "traced", 4, 4, 16384, BPF_F_NO_PREALLOC},
		{&r->fd_comms, BPF_MAP_TYPE_HASH, "comms", 16, 4, 64, 0},
		{&r->fd_cgroups, BPF_MAP_TYPE_CGROUP_ARRAY, "cgroups", 4, 4, 16, 0},
		{&r->fd_stacks, BPF_MAP_TYPE_STACK_TRACE, "stacks", 4, 127 * 8, stacks ? 16384 : 1,
		 0},
		{&r->fd_syscalls, BPF_MAP_TYPE_ARRAY, "syscalls", 4,
		 sizeof(struct rut_syscall_desc), RUT_SYSCALLS_MAX, 0},
	};

	for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++) {
		*maps[i].fd = map_fd(maps[i].type, maps[i].name, maps[i].key, maps[i].value,
				     maps[i].entries, maps[i].flags, err);
		if (*maps[i].fd < 0)
			return *maps[i].fd;
	}
	return 0;
}

static int map_rings(struct rut_recorder *r, struct rut_err *err)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);

	if (bpf_obj_get_info_by_fd(r->fd_ring, &info, &len) < 0)
		return rut_err_errno(err, errno, "cannot read the ring's size");
	r->data_bytes = (size_t)info.max_entries * info.value_size;
	r->ctls_bytes = (size_t)r->ncpus * RUT_RING_CTL_SIZE;
	r->ctls = mmap(NULL, r->ctls_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd_ctls, 0);
	if (r->ctls == MAP_FAILED) {
		r->ctls = NULL;
		return rut_err_errno(err, errno, "cannot map the rings' control pages");
	}
	r->data = mmap(NULL, r->data_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd_ring, 0);
	if (r->data == MAP_FAILED) {
		r->data = NULL;
		return rut_err_errno(err, errno, "cannot map %zu bytes of rings", r->data_bytes);
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

/* Puts the session's maps into an object, and its constants into the read-only data. */
static int prepare_object(struct rut_recorder *r, struct bpf_object *obj, struct rut_bpf_conf *conf,
			  struct rut_err *err)
{
	const struct {
		const char *name;
		int fd;
	} maps[] = {
		{"ctls", r->fd_ctls},	      {"ring", r->fd_ring},	  {"traced", r->fd_traced},
		{"comms", r->fd_comms},	      {"cgroups", r->fd_cgroups}, {"stacks", r->fd_stacks},
		{"syscalls", r->fd_syscalls},
	};

	for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(obj, maps[i].name);
		int rc = map ? bpf_map__reuse_fd(map, maps[i].fd) : 0;

		if (rc < 0)
			return rut_err_errno(err, -rc, "cannot share the map '%s'", maps[i].name);
	}
	*conf = (struct rut_bpf_conf){
		.mask = r->rings[0].subbuf_size - 1,
		.shift = r->rings[0].shift,
		.count_mask = r->rings[0].count - 1,
		.overwrite = r->conf.mode == RUT_RING_OVERWRITE,
		.contexts = r->conf.contexts,
		.context_size = rut_context_size(r->conf.contexts),
		.filters = r->conf.filters,
		.no_fork = !r->conf.selection.events[RUT_EV_SCHED_FORK],
	};
	memcpy(conf->uuid, r->uuid, sizeof(conf->uuid));
	return 0;
}

/* An event without a tracepoint in this kernel goes, or ends the attempt. */
static int drop_missing(struct rut_recorder *r, const struct rut_strtab *tps, struct rut_err *err)
{
	struct rut_event e;

	for (uint32_t id = 0; id < RUT_EV_SYSCALL_UNKNOWN; id++) {
		rut_event_static(&e, id);
		if (!r->conf.selection.events[id] ||
		    rut_strtab_find(tps, e.tracepoint, strlen(e.tracepoint)) >= 0)
			continue;
		if (r->conf.strict)
			return rut_err_set(err, ENOENT,
					   "this kernel has no tracepoint '%s' for '%s'",
					   e.tracepoint, e.name);
		rut_warn("'%s' is not recorded: this kernel has no tracepoint '%s'", e.name,
			 e.tracepoint);
		r->conf.selection.events[id] = false;
	}
	return 0;
}

static bool wanted(const struct rut_recorder *r, const char *program)
{
	struct rut_event e;

	if (!strcmp(program, "sys_enter") || !strcmp(program, "sys_exit"))
		return rut_selection_any_syscall(&r->conf.selection);
	if (!strcmp(program, "sched_process_fork") && r->conf.filters & RUT_FILTER_FOLLOW)
		return true;
	for (uint32_t id = 0; id < RUT_EV_SYSCALL_UNKNOWN; id++) {
		rut_event_static(&e, id);
		if (r->conf.selection.events[id] && !strcmp(e.tracepoint, program))
			return true;
	}
	return false;
}

static int fill_syscalls(struct rut_recorder *r, struct rut_err *err)
{
	for (uint32_t nr = 0; nr < RUT_SYSCALLS_MAX; nr++) {
		struct rut_syscall_desc d;
		int rc;

		rut_syscall_describe(&d, nr);
		d.flags |= r->conf.selection.syscalls[nr];
		rc = bpf_map_update_elem(r->fd_syscalls, &nr, &d, BPF_ANY);
		if (rc < 0)
			return rut_err_errno(err, -rc, "cannot fill the table of system calls");
	}
	return 0;
}

static int load_programs(struct rut_recorder *r, struct rut_err *err)
{
	struct rut_kernel_bpf *skel = rut_kernel_bpf__open();
	struct bpf_program *prog;
	int rc;

	if (!skel)
		return rut_err_errno(err, errno, "cannot open the programs");
	r->skeleton = skel;
	r->kernel = skel->obj;
	rc = prepare_object(r, skel->obj, (struct rut_bpf_conf *)&skel->rodata->conf, err);
	if (rc < 0)
		return rc;
	bpf_object__for_each_program(prog, skel->obj)
		bpf_program__set_autoload(prog, wanted(r, bpf_program__name(prog)));
	rc = rut_kernel_bpf__load(skel);
	return rc < 0 ? load_error(rc, err) : fill_syscalls(r, err);
}

static int make_uuid(uint8_t uuid[16], struct rut_err *err)
{
	if (getrandom(uuid, 16, 0) != 16)
		return rut_err_errno(err, errno, "cannot make an identifier");
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40);
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
	return 0;
}

static int build(struct rut_recorder *r, struct rut_err *err)
{
	struct rut_strtab tps = {0};
	uint32_t shift = 0, count = 0;
	int rc;

	rc = rut_kernel_tracepoints(&tps, err);
	if (!rc)
		rc = drop_missing(r, &tps, err);
	rut_strtab_fini(&tps);
	if (!rc)
		rc = choose_sizes(&r->conf, r->ncpus, &shift, &count, err);
	if (!rc)
		rc = make_uuid(r->uuid, err);
	if (!rc)
		rc = make_maps(r, shift, count, err);
	if (!rc)
		rc = map_rings(r, err);
	if (rc)
		return rc;
	init_rings(r, shift, count);
	return load_programs(r, err);
}

int rut_recorder_new(struct rut_recorder **ret, const struct rut_record_conf *conf,
		     struct rut_err *err)
{
	struct rut_recorder *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return rut_err_set(err, ENOMEM, "out of memory");
	r->conf = *conf;
	r->fd_ctls = r->fd_ring = r->fd_traced = r->fd_comms = -1;
	r->fd_cgroups = r->fd_stacks = r->fd_syscalls = -1;
	libbpf_set_print(quiet_print);
	r->ncpus = libbpf_num_possible_cpus();
	rc = r->ncpus > 0 ? build(r, err) : rut_err_errno(err, -r->ncpus, "cannot count the CPUs");
	if (rc < 0) {
		rut_recorder_free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

int rut_recorder_start(struct rut_recorder *r, struct rut_err *err)
{
	struct bpf_program *prog;
	size_t n = 0;

	bpf_object__for_each_program(prog, r->kernel) n++;
	r->links = calloc(n, sizeof(*r->links));
	if (!r->links)
		return rut_err_set(err, ENOMEM, "out of memory");
	bpf_object__for_each_program(prog, r->kernel)
	{
		struct bpf_link *link;

		if (!bpf_program__autoload(prog))
			continue;
		link = bpf_program__attach(prog);
		if (!link) {
			int e = errno;

			rut_recorder_stop(r);
			return rut_err_errno(err, e, "cannot attach to '%s'",
					     bpf_program__name(prog));
		}
		r->links[r->nlinks++] = link;
	}
	return 0;
}

void rut_recorder_stop(struct rut_recorder *r)
{
	for (size_t i = 0; i < r->nlinks; i++)
		bpf_link__destroy(r->links[i]);
	free(r->links);
	r->links = NULL;
	r->nlinks = 0;
}

int rut_recorder_trace_pid(struct rut_recorder *r, pid_t pid, enum rut_traced when)
{
	uint32_t key = (uint32_t)pid, value = when;

	return bpf_map_update_elem(r->fd_traced, &key, &value, BPF_ANY);
}

uint64_t rut_recorder_lost(const struct rut_recorder *r, uint64_t *ret_missed)
{
	struct bpf_program *prog;
	uint64_t lost = 0;

	for (int cpu = 0; cpu < r->ncpus; cpu++)
		lost += __atomic_load_n(&r->rings[cpu].ctl->lost, __ATOMIC_RELAXED);
	*ret_missed = 0;
	if (!r->kernel)
		return lost;
	bpf_object__for_each_program(prog, r->kernel)
	{
		struct bpf_prog_info info = {0};
		uint32_t len = sizeof(info);

		if (bpf_program__fd(prog) >= 0 &&
		    !bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &len))
			*ret_missed += info.recursion_misses;
	}
	return lost;
}

void rut_recorder_metadata(const struct rut_recorder *r, struct rut_buf *out)
{
	struct rut_metadata m = {
		.contexts = r->conf.contexts,
		.selection = &r->conf.selection,
		.clock_offset_ns = rut_clock_offset_ns(),
		.session = r->conf.name,
	};

	memcpy(m.uuid, r->uuid, sizeof(m.uuid));
	rut_metadata_write(out, &m);
}

void rut_recorder_free(struct rut_recorder *r)
{
	if (!r)
		return;
	rut_recorder_stop(r);
	rut_kernel_bpf__destroy(r->skeleton);
	if (r->data)
		munmap(r->data, r->data_bytes);
	if (r->ctls)
		munmap(r->ctls, r->ctls_bytes);
	rut_closep(&r->fd_ctls);
	rut_closep(&r->fd_ring);
	rut_closep(&r->fd_traced);
	rut_closep(&r->fd_comms);
	rut_closep(&r->fd_cgroups);
	rut_closep(&r->fd_stacks);
	rut_closep(&r->fd_syscalls);
	free(r->rings);
	free(r);
}
