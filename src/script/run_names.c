/* SPDX-License-Identifier: MIT */
/*
 * What the output asks of the program that runs: names of probes, strings and stacks are the
 * program's; names of addresses and the like come from symbolize.c.
 */
#include "script/run_names.h"

#include <bpf/bpf.h>
#include <string.h>

static const char *probe_name(void *arg, uint64_t index)
{
	const struct rut_run_names *n = arg;

	return index < n->program->nprobes ? n->program->probes[index] : "";
}

static const char *string(void *arg, uint32_t index)
{
	const struct rut_run_names *n = arg;

	return index < n->program->nstrings ? n->program->strings[index] : "";
}

static void ksym(void *arg, uint64_t address, bool with_offset, struct rut_buf *out)
{
	const struct rut_run_names *n = arg;

	n->system.ksym(n->system.arg, address, with_offset, out);
}

static void usym(void *arg, const struct rut_script_usym_value *v, bool with_offset,
		 struct rut_buf *out)
{
	const struct rut_run_names *n = arg;

	n->system.usym(n->system.arg, v, with_offset, out);
}

static void module(void *arg, const struct rut_script_usym_value *v, struct rut_buf *out)
{
	const struct rut_run_names *n = arg;

	n->system.module(n->system.arg, v, out);
}

static void username(void *arg, uint64_t uid, struct rut_buf *out)
{
	const struct rut_run_names *n = arg;

	n->system.username(n->system.arg, uid, out);
}

static void cgroup_path(void *arg, uint64_t id, const char *filter, struct rut_buf *out)
{
	const struct rut_run_names *n = arg;

	n->system.cgroup_path(n->system.arg, id, filter, out);
}

static void syscall_name(void *arg, uint64_t number, struct rut_buf *out)
{
	const struct rut_run_names *n = arg;

	n->system.syscall_name(n->system.arg, number, out);
}

static uint64_t wall_ns(void *arg, uint32_t clock, uint64_t ns)
{
	const struct rut_run_names *n = arg;

	return n->system.wall_ns(n->system.arg, clock, ns);
}

/* The table of stacks: a count, then the addresses. */
static size_t stack(void *arg, const struct rut_type *t, const struct rut_script_stack_value *v,
		    uint64_t *ips, size_t max)
{
	const struct rut_run_names *n = arg;
	uint64_t words[RUT_STACK_WORDS];
	size_t count = v->frames;

	if (n->program->fds[RUT_MAP_STACKS] < 0 ||
	    bpf_map_lookup_elem(n->program->fds[RUT_MAP_STACKS], &v->id, words))
		return 0;
	if (count > RUT_STACK_WORDS)
		count = RUT_STACK_WORDS;
	if (count > max)
		count = max;
	memcpy(ips, words, count * sizeof(*ips));
	return count;
}

void rut_run_names_init(struct rut_run_names *n, struct rut_script_program *p,
			struct rut_script_symbols *symbols)
{
	n->program = p;
	rut_script_symbols_fill(symbols, &n->system);
	n->names = (struct rut_script_names){
		.ksym = ksym,
		.usym = usym,
		.module = module,
		.stack = stack,
		.username = username,
		.cgroup_path = cgroup_path,
		.syscall_name = syscall_name,
		.probe = probe_name,
		.string = string,
		.wall_ns = wall_ns,
		.arg = n,
	};
}
