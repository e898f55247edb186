/* SPDX-License-Identifier: MIT */
#include "script/types.h"

#include <string.h>

#include "base/buf.h"

#define INT(bytes, sign)                                                                           \
	{                                                                                          \
		.kind = RUT_T_INT, .size = (bytes), .align = (bytes), .is_signed = (sign)          \
	}

static const struct rut_type ints[2][4] = {
	{INT(1, false), INT(2, false), INT(4, false), INT(8, false)},
	{INT(1, true), INT(2, true), INT(4, true), INT(8, true)},
};

const struct rut_type *rut_type_int(unsigned bytes, bool is_signed)
{
	return &ints[is_signed][bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3];
}

const struct rut_type *rut_type_float(unsigned bytes)
{
	static const struct rut_type floats[2] = {
		{.kind = RUT_T_FLOAT, .size = 4, .align = 4, .is_signed = true},
		{.kind = RUT_T_FLOAT, .size = 8, .align = 8, .is_signed = true},
	};

	return &floats[bytes == 8];
}

static const struct rut_type simple[RUT_T_KINDS] = {
	[RUT_T_VOID] = {.kind = RUT_T_VOID, .align = 1},
	[RUT_T_BOOL] = {.kind = RUT_T_BOOL, .size = 1, .align = 1},
	[RUT_T_KSYM] = {.kind = RUT_T_KSYM, .size = 8, .align = 8},
	[RUT_T_USYM] = {.kind = RUT_T_USYM, .size = 16, .align = 8},
	[RUT_T_TIMESTAMP] = {.kind = RUT_T_TIMESTAMP, .size = 16, .align = 8},
	[RUT_T_INET] = {.kind = RUT_T_INET, .size = 20, .align = 4},
	[RUT_T_MAC] = {.kind = RUT_T_MAC, .size = 6, .align = 1},
	[RUT_T_USERNAME] = {.kind = RUT_T_USERNAME, .size = 8, .align = 8},
	[RUT_T_CGROUP_PATH] = {.kind = RUT_T_CGROUP_PATH, .size = 16, .align = 8},
	[RUT_T_STRERROR] = {.kind = RUT_T_STRERROR, .size = 8, .align = 8},
	[RUT_T_SIGNAL_NAME] = {.kind = RUT_T_SIGNAL_NAME, .size = 8, .align = 8},
	[RUT_T_SYSCALL_NAME] = {.kind = RUT_T_SYSCALL_NAME, .size = 8, .align = 8},
	[RUT_T_PROBE] = {.kind = RUT_T_PROBE, .size = 8, .align = 8},
	[RUT_T_RMETHOD] = {.kind = RUT_T_RMETHOD, .size = 8, .align = 8},
	[RUT_T_RLINE] = {.kind = RUT_T_RLINE, .size = 8, .align = 8},
	[RUT_T_RTHREAD] = {.kind = RUT_T_RTHREAD, .size = 8, .align = 8},
	[RUT_T_RREQUEST] = {.kind = RUT_T_RREQUEST, .size = 8, .align = 8},
	[RUT_T_DURATION] = {.kind = RUT_T_DURATION, .size = 8, .align = 8, .is_signed = true},
	[RUT_T_COUNT] = {.kind = RUT_T_COUNT, .size = 8, .align = 8},
};

const struct rut_type *rut_type_simple(enum rut_type_kind kind)
{
	return &simple[kind];
}

struct rut_type *rut_type_new(struct rut_arena *a, enum rut_type_kind kind, uint32_t size,
			      uint32_t align)
{
	static struct rut_type none;
	struct rut_type *t = rut_arena_alloc(a, sizeof(*t));

	if (!t)
		return &none; /* the arena is full: the parser's limit was reached before */
	t->kind = kind;
	t->size = size;
	t->align = align;
	return t;
}

const struct rut_type *rut_type_string(struct rut_arena *a, uint32_t size)
{
	return rut_type_new(a, RUT_T_STRING, size, 1);
}

const struct rut_type *rut_type_pointer(struct rut_arena *a, const struct rut_type *to, bool user)
{
	struct rut_type *t = rut_type_new(a, RUT_T_POINTER, 8, 8);

	t->elem = to;
	t->user = user;
	return t;
}

const struct rut_type *rut_type_array(struct rut_arena *a, const struct rut_type *elem,
				      uint32_t count)
{
	struct rut_type *t = rut_type_new(a, RUT_T_ARRAY, elem->size * count, elem->align);

	t->elem = elem;
	t->count = count;
	return t;
}

const struct rut_type *rut_type_tuple(struct rut_arena *a, enum rut_type_kind kind,
				      const struct rut_type_field *fields, uint32_t n)
{
	struct rut_type *t = rut_type_new(a, kind, 0, 1);

	t->fields = rut_arena_alloc(a, (n ? n : 1) * sizeof(*t->fields));
	if (!t->fields)
		return t;
	t->nfields = n;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t align = fields[i].type->align ? fields[i].type->align : 1;

		t->fields[i] = fields[i];
		t->size = (t->size + align - 1) / align * align;
		t->fields[i].offset = t->size;
		t->size += fields[i].type->size;
		if (align > t->align)
			t->align = align;
	}
	t->size = (t->size + t->align - 1) / t->align * t->align;
	return t;
}

bool rut_type_is_int(const struct rut_type *t)
{
	return t->kind == RUT_T_INT || t->kind == RUT_T_BOOL || t->kind == RUT_T_ENUM ||
	       t->kind == RUT_T_DURATION;
}

bool rut_type_is_scalar(const struct rut_type *t)
{
	switch (t->kind) {
	case RUT_T_POINTER:
	case RUT_T_KSYM:
	case RUT_T_USERNAME:
	case RUT_T_STRERROR:
	case RUT_T_SIGNAL_NAME:
	case RUT_T_SYSCALL_NAME:
	case RUT_T_PROBE:
	case RUT_T_RMETHOD:
	case RUT_T_RLINE:
	case RUT_T_RTHREAD:
	case RUT_T_RREQUEST:
		return true;
	default:
		return rut_type_is_int(t);
	}
}

static bool same_agg(const struct rut_type *x, const struct rut_type *y)
{
	return x->bits == y->bits && x->min == y->min && x->max == y->max && x->step == y->step &&
	       x->interval_ns == y->interval_ns && x->count == y->count && x->agg == y->agg;
}

static const struct rut_type *join_tuples(struct rut_arena *a, const struct rut_type *x,
					  const struct rut_type *y)
{
	struct rut_type_field fields[64];
	bool same = true;

	if (x->nfields != y->nfields || x->nfields > 64)
		return NULL;
	for (uint32_t i = 0; i < x->nfields; i++) {
		fields[i] = x->fields[i];
		fields[i].type = rut_type_join(a, x->fields[i].type, y->fields[i].type);
		if (!fields[i].type)
			return NULL;
		same &= fields[i].type == x->fields[i].type;
	}
	return same ? x : rut_type_tuple(a, x->kind, fields, x->nfields);
}

bool rut_type_same_layout(const struct rut_type *x, const struct rut_type *y)
{
	if (x == y)
		return true;
	if (x->size != y->size)
		return false;
	if ((x->kind != RUT_T_TUPLE && x->kind != RUT_T_RECORD) || x->kind != y->kind)
		return true;
	for (uint32_t i = 0; i < x->nfields; i++) {
		const struct rut_type_field *a = &x->fields[i], *b = &y->fields[i];

		if (i >= y->nfields || a->offset != b->offset ||
		    !rut_type_same_layout(a->type, b->type) ||
		    (a->name && b->name && strcmp(a->name, b->name) != 0))
			return false;
	}
	return x->nfields == y->nfields;
}

const struct rut_type *rut_type_join(struct rut_arena *a, const struct rut_type *x,
				     const struct rut_type *y)
{
	if (x == y)
		return x;
	if (x->kind == RUT_T_INT && y->kind == RUT_T_INT)
		return x->size >= y->size ? x : rut_type_int(y->size, x->is_signed);
	if (x->kind != y->kind)
		return rut_type_is_int(x) && rut_type_is_int(y) ? rut_type_int(8, x->is_signed)
								: NULL;
	switch (x->kind) {
	case RUT_T_STRING:
	case RUT_T_BUF:
		return x->size >= y->size ? x : y;
	case RUT_T_ARRAY:
		return x->count == y->count && x->elem->kind == y->elem->kind &&
				       x->elem->size == y->elem->size
			       ? x
			       : NULL;
	case RUT_T_TUPLE:
	case RUT_T_RECORD:
		return join_tuples(a, x, y);
	case RUT_T_FLOAT:
		return x->size == y->size ? x : NULL;
	case RUT_T_STRUCT:
		return x->name && y->name && !strcmp(x->name, y->name) ? x : NULL;
	default:
		return same_agg(x, y) ? x : NULL;
	}
}

static const char *const words[RUT_T_KINDS] = {
	[RUT_T_NONE] = "unknown",
	[RUT_T_VOID] = "void",
	[RUT_T_BOOL] = "bool",
	[RUT_T_KSTACK] = "kstack",
	[RUT_T_USTACK] = "ustack",
	[RUT_T_RSTACK] = "rstack",
	[RUT_T_KSYM] = "ksym",
	[RUT_T_USYM] = "usym",
	[RUT_T_TIMESTAMP] = "timestamp",
	[RUT_T_INET] = "inet",
	[RUT_T_MAC] = "mac_address",
	[RUT_T_USERNAME] = "username",
	[RUT_T_CGROUP_PATH] = "cgroup_path",
	[RUT_T_STRERROR] = "strerror",
	[RUT_T_SIGNAL_NAME] = "signal_name",
	[RUT_T_SYSCALL_NAME] = "syscall_name",
	[RUT_T_PROBE] = "probe",
	[RUT_T_RMETHOD] = "rmethod",
	[RUT_T_RREQUEST] = "rrequest",
	[RUT_T_RLINE] = "rline",
	[RUT_T_RTHREAD] = "rthread",
	[RUT_T_DURATION] = "duration",
	[RUT_T_COUNT] = "count",
	[RUT_T_SUM] = "sum",
	[RUT_T_MIN] = "min",
	[RUT_T_MAX] = "max",
	[RUT_T_AVG] = "avg",
	[RUT_T_STATS] = "stats",
	[RUT_T_HIST] = "hist",
	[RUT_T_LHIST] = "lhist",
	[RUT_T_TSERIES] = "tseries",
	[RUT_T_ENUM] = "enum",
	[RUT_T_STRUCT] = "struct",
};

static void put_text(const struct rut_type *t, struct rut_buf *out)
{
	switch (t->kind) {
	case RUT_T_INT:
		rut_buf_printf(out, "%sint%u", t->is_signed ? "" : "u", t->size * 8);
		break;
	case RUT_T_FLOAT:
		rut_buf_puts(out, t->size == 4 ? "float" : "double");
		break;
	case RUT_T_POINTER:
		if (t->elem)
			put_text(t->elem, out);
		else
			rut_buf_puts(out, "void");
		rut_buf_puts(out, " *");
		break;
	case RUT_T_STRING:
	case RUT_T_BUF:
		rut_buf_printf(out, "%s[%u]", t->kind == RUT_T_BUF ? "buffer" : "string", t->size);
		break;
	case RUT_T_ARRAY:
		put_text(t->elem, out);
		rut_buf_printf(out, "[%u]", t->count);
		break;
	case RUT_T_TUPLE:
	case RUT_T_RECORD:
		rut_buf_putc(out, '(');
		for (uint32_t i = 0; i < t->nfields; i++) {
			if (i)
				rut_buf_putc(out, ',');
			put_text(t->fields[i].type, out);
		}
		rut_buf_putc(out, ')');
		break;
	default:
		rut_buf_puts(out, t->name ? t->name : words[t->kind]);
	}
}

const char *rut_type_text(const struct rut_type *t, struct rut_buf *out)
{
	rut_buf_clear(out);
	put_text(t, out);
	return out->data ? out->data : "";
}
