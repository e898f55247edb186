/* SPDX-License-Identifier: MIT */
/* config = { name = value; ... }, and the sizes of maps that are declared. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "script/check.h"
#include "script/config.h"

static const struct option {
	const char *name;
	uint64_t min, max;
	size_t offset; /* of a uint32_t in the program; 0: accepted, and means nothing here */
} options[] = {
	{"max_strlen", 1, 16384, offsetof(struct rut_script_program, max_strlen)},
	{"max_map_keys", 1, 16u << 20, offsetof(struct rut_script_program, max_map_keys)},
	{"print_maps_on_exit", 0, 1, offsetof(struct rut_script_program, print_maps_on_exit)},
	/* Of how bpftrace itself works: */
	{"cache_user_symbols", 0, UINT64_MAX, 0},
	{"lazy_symbolication", 0, 1, 0},
	{"log_size", 0, UINT64_MAX, 0},
	{"max_ast_nodes", 0, UINT64_MAX, 0},
	{"max_bpf_progs", 0, UINT64_MAX, 0},
	{"max_cat_bytes", 0, UINT64_MAX, 0},
	{"max_probes", 0, UINT64_MAX, 0},
	{"missing_probes", 0, UINT64_MAX, 0},
	{"on_stack_limit", 0, UINT64_MAX, 0},
	{"perf_rb_pages", 0, UINT64_MAX, 0},
	{"stack_mode", 0, UINT64_MAX, 0},
	{"str_trunc_trailer", 0, UINT64_MAX, 0},
	{"unstable_import", 0, UINT64_MAX, 0},
	{"unstable_map_decl", 0, UINT64_MAX, 0},
	{"unstable_tseries", 0, UINT64_MAX, 0},
	{"use_blazesym", 0, 1, 0},
};

enum { NOPTIONS = sizeof(options) / sizeof(*options) };

static const struct option *find(const char *name)
{
	/* The name of the environment variable is accepted too. */
	if (!strncasecmp(name, "BPFTRACE_", 9))
		name += 9;
	for (size_t i = 0; i < NOPTIONS; i++)
		if (!strcasecmp(options[i].name, name))
			return &options[i];
	return NULL;
}

static int unknown(struct rut_script_program *p, const struct rut_config_entry *e)
{
	struct rut_nearest near = {e->name, strlen(e->name), "", 0};

	rut_source_error(&p->src, e->span, "there is no option '%s'", e->name);
	for (size_t i = 0; i < NOPTIONS; i++)
		rut_nearest_add(&near, options[i].name);
	if (near.name[0])
		rut_source_hint(&p->src, "did you mean '%s'?", near.name);
	return -EINVAL;
}

int rut_config_apply(struct rut_script_program *p)
{
	for (const struct rut_config_entry *e = p->ast.config; e; e = e->next) {
		const struct option *o = find(e->name);
		uint64_t v = e->value->value;

		if (!o)
			return unknown(p, e);
		if (!o->offset)
			continue;
		if (e->value->kind != RUT_N_INT)
			return rut_source_error(&p->src, e->value->span,
						"a number is expected here");
		if (v < o->min || v > o->max)
			return rut_source_error(&p->src, e->value->span, "%s is %llu to %llu",
						o->name, (unsigned long long)o->min,
						(unsigned long long)o->max);
		*(uint32_t *)(void *)((char *)p + o->offset) = (uint32_t)v;
	}
	return 0;
}
