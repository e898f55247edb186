/* SPDX-License-Identifier: MIT */
#include "script/portable_type.h"

#include <stdlib.h>
#include <string.h>

#include "script/hist.h"

enum { DEPTH_MAX = 32, TYPE_BYTES_MAX = 1 << 26 };

void rut_portable_types_fini(struct rut_portable_types *types)
{
	free(types->list);
}

static bool add(struct rut_portable_types *types, const struct rut_type *t)
{
	if (types->n == types->cap) {
		size_t cap = types->cap ? types->cap * 2 : 32;
		const struct rut_type **list = realloc(types->list, cap * sizeof(const void *));

		if (!list)
			return false;
		types->list = list;
		types->cap = cap;
	}
	types->list[types->n++] = t;
	return true;
}

/* ---- What values can be read by ---- */

static bool is_number_size(uint32_t size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

static bool are_fields_within(const struct rut_type *t)
{
	for (uint32_t i = 0; i < t->nfields; i++) {
		const struct rut_type_field *f = &t->fields[i];

		if (!f->type || rut_type_is_agg(f->type) || f->offset > t->size ||
		    f->type->size > t->size - f->offset)
			return false;
		if (t->kind == RUT_T_RECORD && !f->name)
			return false;
		if (f->bits && (f->type->kind < RUT_T_INT || f->type->kind > RUT_T_ENUM ||
				(uint32_t)f->bits + f->bit_shift > 8 * f->type->size))
			return false;
	}
	return true;
}

static bool is_lhist(const struct rut_type *t)
{
	return t->step > 0 && t->min < t->max && t->min > -(1ll << 61) && t->max < 1ll << 61 &&
	       (t->max - t->min) / t->step < TYPE_BYTES_MAX / 8 &&
	       t->size / 8 >= rut_script_lhist_words(t);
}

static bool is_sane_agg(const struct rut_type *t)
{
	switch (t->kind) {
	case RUT_T_COUNT:
	case RUT_T_SUM:
		return t->size >= 8;
	case RUT_T_HIST:
		return t->bits <= 5 && t->size / 8 >= rut_script_hist_words(t->bits);
	case RUT_T_LHIST:
		return is_lhist(t);
	case RUT_T_TSERIES:
		return t->count && t->interval_ns && t->agg < RUT_T_KINDS &&
		       t->count <= t->size / (8 * RUT_SCRIPT_TSERIES_WORDS);
	default: /* MIN, MAX, AVG, STATS */
		return t->size >= 16;
	}
}

/* What the kinds without parts take at least. */
static uint32_t least_size(enum rut_type_kind kind)
{
	switch (kind) {
	case RUT_T_STRING:
		return 1;
	case RUT_T_BUF:
		return 4;
	case RUT_T_MAC:
		return 6;
	case RUT_T_KSTACK:
	case RUT_T_USTACK:
	case RUT_T_RSTACK:
	case RUT_T_USYM:
	case RUT_T_TIMESTAMP:
	case RUT_T_CGROUP_PATH:
		return 16;
	case RUT_T_INET:
		return sizeof(struct rut_script_inet_value);
	default:
		return 8;
	}
}

static bool is_sane(const struct rut_type *t)
{
	if (t->kind < RUT_T_INT || t->kind >= RUT_T_KINDS || t->size > TYPE_BYTES_MAX ||
	    t->stack_mode > RUT_STACK_RAW)
		return false;
	switch (t->kind) {
	case RUT_T_INT:
	case RUT_T_BOOL:
	case RUT_T_ENUM:
		return is_number_size(t->size);
	case RUT_T_FLOAT:
		return t->size == 4 || t->size == 8;
	case RUT_T_ARRAY:
		return t->elem && !rut_type_is_agg(t->elem) && t->elem->size &&
		       t->count <= t->size / t->elem->size;
	case RUT_T_TUPLE:
	case RUT_T_RECORD:
	case RUT_T_STRUCT:
		return are_fields_within(t);
	default:
		return rut_type_is_agg(t) ? is_sane_agg(t) : t->size >= least_size(t->kind);
	}
}

/* ---- The members ---- */

static void code_fields(struct rut_codec *c, struct rut_portable_types *types, struct rut_type *t)
{
	size_t n = t->nfields;

	rut_codec_count(c, &n, 16);
	if (!c->writing) {
		t->fields = rut_arena_alloc(c->arena, (n + 1) * sizeof(*t->fields));
		t->nfields = t->fields ? (uint32_t)n : 0;
		c->failed |= !t->fields;
	}
	for (uint32_t i = 0; i < t->nfields && !c->failed; i++) {
		struct rut_type_field *f = &t->fields[i];

		rut_codec_text(c, &f->name);
		rut_codec_u32(c, &f->offset);
		rut_codec_bytes(c, &f->bit_shift, 1);
		rut_codec_bytes(c, &f->bits, 1);
		rut_portable_type(c, types, &f->type);
	}
}

static void code_enumerators(struct rut_codec *c, struct rut_type *t)
{
	struct rut_type_enumerator *list = (struct rut_type_enumerator *)(uintptr_t)t->enumerators;
	size_t n = t->nenumerators;

	rut_codec_count(c, &n, 12);
	if (!c->writing) {
		list = rut_arena_alloc(c->arena, (n + 1) * sizeof(*list));
		c->failed |= !list;
		t->enumerators = list;
		t->nenumerators = list ? (uint32_t)n : 0;
	}
	for (uint32_t i = 0; i < t->nenumerators && !c->failed; i++) {
		rut_codec_text(c, &list[i].name);
		rut_codec_i64(c, &list[i].value);
		c->failed |= !list[i].name;
	}
}

static void code_members(struct rut_codec *c, struct rut_portable_types *types, struct rut_type *t)
{
	uint32_t kind = t->kind, agg = t->agg, mode = t->stack_mode;

	rut_codec_u32(c, &kind);
	rut_codec_u32(c, &t->size);
	rut_codec_u32(c, &t->align);
	rut_codec_bool(c, &t->is_signed);
	rut_codec_bool(c, &t->is_union);
	rut_codec_bool(c, &t->user);
	rut_codec_text(c, &t->name);
	rut_codec_u32(c, &t->count);
	rut_codec_u32(c, &t->bits);
	rut_codec_i64(c, &t->min);
	rut_codec_i64(c, &t->max);
	rut_codec_i64(c, &t->step);
	rut_codec_u64(c, &t->interval_ns);
	rut_codec_u32(c, &agg);
	rut_codec_u32(c, &mode);
	rut_codec_u32(c, &t->stack_limit);
	t->kind = (enum rut_type_kind)kind;
	t->agg = (enum rut_type_kind)agg;
	t->stack_mode = (enum rut_stack_mode)mode;
	/* Pointers are shown as numbers, and what they point to may point to itself. */
	if (t->kind == RUT_T_ARRAY)
		rut_portable_type(c, types, &t->elem);
	else
		t->elem = NULL;
	code_fields(c, types, t);
	code_enumerators(c, t);
}

static void write_type(struct rut_codec *c, struct rut_portable_types *types,
		       const struct rut_type *t)
{
	struct rut_type copy;
	uint32_t ref = 0;

	while (t && ref < types->n && types->list[ref] != t)
		ref++;
	ref = t ? ref + 1 : 0;
	rut_codec_u32(c, &ref);
	if (ref <= types->n)
		return;
	if (!add(types, t)) {
		c->failed = true;
		return;
	}
	copy = *t;
	code_members(c, types, &copy);
}

static const struct rut_type *read_type(struct rut_codec *c, struct rut_portable_types *types)
{
	struct rut_type *t;
	uint32_t ref;

	rut_codec_u32(c, &ref);
	if (!ref || c->failed)
		return NULL;
	if (ref <= types->n) {
		/* NULL: it is being read, and would be within itself. */
		c->failed |= !types->list[ref - 1];
		return types->list[ref - 1];
	}
	t = rut_arena_alloc(c->arena, sizeof(*t));
	if (!t || ref != types->n + 1 || types->depth == DEPTH_MAX || !add(types, NULL)) {
		c->failed = true;
		return NULL;
	}
	types->depth++;
	code_members(c, types, t);
	types->depth--;
	if (c->failed || !is_sane(t)) {
		c->failed = true;
		return NULL;
	}
	types->list[ref - 1] = t;
	return t;
}

void rut_portable_type(struct rut_codec *c, struct rut_portable_types *types,
		       const struct rut_type **t)
{
	if (c->writing)
		write_type(c, types, *t);
	else
		*t = read_type(c, types);
}
