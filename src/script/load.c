/* SPDX-License-Identifier: MIT */
/* Maps and programs into the kernel. */
#include "script/load.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "ebpf/asm.h"
#include "script/describe.h"
#include "script/journal.h"
#include "script/refusal.h"
#include "script/ruby.h"

enum { RING_MIN = 256 << 10, RING_MAX = 16 << 20, STACKS_MAX = 16384 };
enum { LOG_REASON = 4 }; /* of log_level: neither instructions nor states */

bool rut_script_kernel_at_least(unsigned major, unsigned minor)
{
	struct utsname u;
	unsigned a = 0, b = 0;

	if (uname(&u) || sscanf(u.release, "%u.%u", &a, &b) != 2)
		return false;
	return a > major || (a == major && b >= minor);
}

static int create(const char *name, enum bpf_map_type type, uint32_t key, uint32_t value,
		  uint32_t entries, uint32_t flags, int *ret, struct rut_err *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = flags);
	int fd = bpf_map_create(type, name, key, value, entries, &opts);

	if (fd == -EPERM) {
		/* Before Linux 5.11 maps count against this limit. */
		struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};

		if (!setrlimit(RLIMIT_MEMLOCK, &all))
			fd = bpf_map_create(type, name, key, value, entries, &opts);
	}
	if (fd == -EPERM)
		return rut_err_set(err, EPERM,
				   "the kernel permits no eBPF to this process: run it "
				   "as root, or with CAP_BPF and CAP_PERFMON");
	if (fd < 0)
		return rut_err_errno(err, -fd,
				     "cannot make the map %s (%u entries of %u and %u bytes)", name,
				     entries, key, value);
	*ret = fd;
	return 0;
}

static uint32_t ring_bytes(const struct rut_script_program *p)
{
	uint64_t want = (uint64_t)p->record_max * 1024, bytes = RING_MIN;

	/* The kernel goes through up to a million objects before anything can be read. */
	for (size_t i = 0; i < p->nprogs; i++)
		if (p->progs[i].nattach && p->progs[i].attach[0].kind == RUT_PROBE_ITER)
			want = RING_MAX;
	while (bytes < want && bytes < RING_MAX)
		bytes *= 2;
	return (uint32_t)bytes;
}

size_t rut_script_counter_bytes(const struct rut_script_program *p)
{
	return 8 * (RUT_COUNTER_SITES + p->nsites);
}

static int create_tables(struct rut_script_program *p, struct rut_err *err)
{
	uint32_t zero = 0;
	int rc = create("rut_tables", BPF_MAP_TYPE_ARRAY, 4, (uint32_t)p->tables_bytes, 1, 0,
			&p->fds[RUT_MAP_TABLES], err);

	if (rc || !bpf_map_update_elem(p->fds[RUT_MAP_TABLES], &zero, p->tables, BPF_ANY))
		return rc;
	return rut_err_errno(err, errno, "cannot fill the tables of patterns");
}

static int create_own(struct rut_script_program *p, struct rut_err *err)
{
	int rc =
		create("rut_counters", BPF_MAP_TYPE_ARRAY, 4, (uint32_t)rut_script_counter_bytes(p),
		       1, BPF_F_MMAPABLE, &p->fds[RUT_MAP_COUNTERS], err);

	if (!rc && p->record_max && p->opts.session)
		rc = create("rut_journal", BPF_MAP_TYPE_ARRAY, 4,
			    rut_script_journal_slot_bytes(p->record_max),
			    rut_script_journal_slots(p->record_max), BPF_F_MMAPABLE,
			    &p->fds[RUT_MAP_JOURNAL], err);
	else if (!rc && p->record_max)
		rc = create("rut_ring", BPF_MAP_TYPE_RINGBUF, 0, 0, ring_bytes(p), 0,
			    &p->fds[RUT_MAP_RING], err);
	if (!rc && p->scratch_bytes)
		rc = create("rut_scratch", BPF_MAP_TYPE_ARRAY, 4, 8 + p->scratch_bytes,
			    (uint32_t)rut_script_cpus() * RUT_SCRATCH_NESTED, 0,
			    &p->fds[RUT_MAP_SCRATCH], err);
	if (!rc && p->zeros_bytes)
		rc = create("rut_zeros", BPF_MAP_TYPE_ARRAY, 4, p->zeros_bytes, 1, 0,
			    &p->fds[RUT_MAP_ZEROS], err);
	if (!rc && p->tables_bytes)
		rc = create_tables(p, err);
	if (!rc && p->needs_stacks)
		rc = create("rut_stacks", BPF_MAP_TYPE_HASH, 8, 8 * RUT_STACK_WORDS, STACKS_MAX,
			    rut_script_kernel_at_least(6, 1) ? BPF_F_NO_PREALLOC : 0,
			    &p->fds[RUT_MAP_STACKS], err);
	return rc;
}

uint64_t rut_script_cpus(void)
{
	return (uint64_t)libbpf_num_possible_cpus();
}

/* Large values are allocated when they are needed, where the kernel can do that in any context. */
static uint32_t hash_flags(const struct rut_script_map *m)
{
	uint64_t bytes = (uint64_t)m->max_entries *
			 (m->key_bytes + m->value_bytes * (m->per_cpu ? rut_script_cpus() : 1));

	return bytes > 4u << 20 && rut_script_kernel_at_least(6, 1) ? BPF_F_NO_PREALLOC : 0;
}

static int create_map(struct rut_script_map *m, struct rut_err *err)
{
	static const enum bpf_map_type types[2][3] = {
		{BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_LRU_HASH, BPF_MAP_TYPE_ARRAY},
		{BPF_MAP_TYPE_PERCPU_HASH, BPF_MAP_TYPE_LRU_PERCPU_HASH, BPF_MAP_TYPE_PERCPU_ARRAY},
	};
	enum bpf_map_type type = types[m->per_cpu][m->is_array ? 2 : m->is_lru];
	char name[16];

	snprintf(name, sizeof(name), "AT_%.11s", m->name + 1);
	return create(name, type, m->key_bytes, m->value_bytes, m->max_entries,
		      m->is_array || m->is_lru ? 0 : hash_flags(m), &m->fd, err);
}

static int fd_of(const struct rut_script_program *p, uint32_t map)
{
	return map < RUT_MAP_USER ? p->fds[map] : p->maps[map - RUT_MAP_USER].fd;
}

/*
 * The log of a program that was refused. Kernels before 6.4 stop when it is full, instead of
 * keeping its end: then once more with as much as they take, and at last for the reason alone.
 */
static int load_logged(struct rut_script_prog *prog, const struct bpf_insn *insns, size_t ninsns,
		       struct bpf_prog_load_opts *opts, char **ret_log)
{
	static const struct {
		uint32_t bytes, level;
	} tries[] = {{1 << 20, 1}, {16 << 20, 1}, {1 << 16, LOG_REASON}};

	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		free(*ret_log);
		*ret_log = calloc(1, tries[i].bytes);
		if (!*ret_log)
			return -ENOMEM;
		opts->log_buf = *ret_log;
		opts->log_size = tries[i].bytes;
		opts->log_level = tries[i].level;
		prog->fd = bpf_prog_load((enum bpf_prog_type)prog->type, "script", "GPL", insns,
					 ninsns, opts);
		if (prog->fd != -ENOSPC)
			break;
	}
	return prog->fd;
}

static int load_described(struct rut_script_program *p, struct rut_script_prog *prog,
			  const struct bpf_insn *insns, size_t ninsns,
			  struct bpf_prog_load_opts *opts, struct rut_err *err)
{
	_cleanup_free_ char *log = NULL;
	int rc;

	prog->fd =
		bpf_prog_load((enum bpf_prog_type)prog->type, "script", "GPL", insns, ninsns, opts);
	if (prog->fd >= 0)
		return 0;
	rc = load_logged(prog, insns, ninsns, opts, &log);
	if (rc >= 0)
		return 0;
	return log ? rut_script_refuse(p, prog, rc, log, err)
		   : rut_err_set(err, ENOMEM, "out of memory");
}

static int load_prog(struct rut_script_program *p, struct rut_script_prog *prog,
		     struct rut_script_description *description, struct rut_err *err)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = prog->expected,
		    .attach_btf_id = prog->btf_id);
	struct rut_linked linked = {0};
	int rc = 0;

	if (prog->nfunctions && !rut_script_kernel_at_least(5, 13))
		return rut_source_error(&p->src, prog->span,
					"this kernel has no loops: they need Linux 5.17, those "
					"over maps 5.13; unroll() needs none");
	for (size_t i = 0; i < prog->nmap_refs; i++)
		prog->insns[prog->map_refs[i].insn].imm = fd_of(p, prog->map_refs[i].target);
	if (rut_link_wanted(prog->insns, prog->ninsns))
		rc = rut_script_ruby_link(&linked, p->ruby, prog, err);
	if (!rc && description && rut_script_description_apply(description, prog, &linked, &opts))
		rc = rut_err_set(err, ENOMEM, "out of memory");
	if (!rc && linked.nfunctions)
		rc = load_described(p, prog, linked.insns, linked.ninsns, &opts, err);
	else if (!rc)
		rc = load_described(p, prog, prog->insns, prog->ninsns, &opts, err);
	rut_linked_fini(&linked);
	return rc;
}

int rut_script_load(struct rut_script_program *p, struct rut_err *err)
{
	struct rut_script_description *description = NULL;
	int rc = libbpf_num_possible_cpus();

	if (rc < 0)
		return rut_err_errno(err, -rc, "cannot count the possible CPUs");
	if (p->needs_ruby && !rut_script_kernel_at_least(5, 12))
		return rut_source_error(&p->src, p->progs[0].span,
					"names and stacks of Ruby need Linux 5.12");
	rc = create_own(p, err);
	if (!rc && p->needs_ruby)
		rc = rut_script_ruby_new(&p->ruby, p, err);
	for (size_t i = 0; i < p->nmaps && !rc; i++)
		rc = create_map(&p->maps[i], err);
	if (!rc)
		rc = rut_script_describe(&description, p, err);
	for (size_t i = 0; i < p->nprogs && !rc; i++)
		rc = load_prog(p, &p->progs[i], description, err);
	rut_script_description_free(description);
	return rc;
}

int rut_script_run_prog(const struct rut_script_prog *prog)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);

	return bpf_prog_test_run_opts(prog->fd, &opts);
}
