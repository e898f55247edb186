/* SPDX-License-Identifier: MIT */
/*
 * What the output asks of the program that runs: names of probes, strings and stacks are the
 * program's; names of addresses and the like come from symbolize.c.
 */
#include "script/run_names.h"

#include <bpf/bpf.h>
#include <string.h>

#include "bpf/ruby.h"
#include "script/ruby.h"

static const char *probe_name(void *arg, uint64_t index)
{
	const struct rut_script_program *p = arg;

	return index < p->nprobes ? p->probes[index] : "";
}

static const char *string(void *arg, uint32_t index)
{
	const struct rut_script_program *p = arg;

	return index < p->nstrings ? p->strings[index] : "";
}

/* The table of stacks: a count, then the addresses. */
static size_t stack(void *arg, const struct rut_type *t, const struct rut_script_stack_value *v,
		    uint64_t *ips, size_t max)
{
	const struct rut_script_program *p = arg;
	uint64_t words[RUT_STACK_WORDS];
	size_t count = v->frames;

	if (p->fds[RUT_MAP_STACKS] < 0 ||
	    bpf_map_lookup_elem(p->fds[RUT_MAP_STACKS], &v->id, words))
		return 0;
	if (count > RUT_STACK_WORDS)
		count = RUT_STACK_WORDS;
	if (count > max)
		count = max;
	memcpy(ips, words, count * sizeof(*ips));
	return count;
}

static void ruby_frame(void *arg, uint64_t word, bool line, struct rut_buf *out)
{
	const struct rut_script_program *p = arg;

	if (p->ruby)
		rut_script_ruby_frame(p->ruby, word, line, out);
}

static void ruby_request(void *arg, uint64_t number, struct rut_buf *out)
{
	const struct rut_script_program *p = arg;

	if (p->ruby)
		rut_script_ruby_request(p->ruby, number, out);
}

static void ruby_stack(void *arg, const struct rut_type *t, const struct rut_script_stack_value *v,
		       unsigned indent, struct rut_buf *out)
{
	const struct rut_script_program *p = arg;

	if (p->ruby)
		rut_script_ruby_stack(p->ruby, v->id,
				      t->stack_limit ? t->stack_limit : RUT_RUBY_DEPTH, indent,
				      out);
}

void rut_run_names_init(struct rut_script_names *names, struct rut_script_program *p,
			struct rut_script_symbols *symbols)
{
	rut_script_symbols_mangled(symbols, !p->set.cpp_demangle);
	rut_script_symbols_fill(symbols, names);
	names->stack = stack;
	names->ruby_frame = ruby_frame;
	names->ruby_stack = ruby_stack;
	names->ruby_request = ruby_request;
	names->probe = probe_name;
	names->string = string;
	names->arg = p;
}
