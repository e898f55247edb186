/* SPDX-License-Identifier: MIT */
/*
 * Types of the kernel from its BTF, and those that a script defines. The BTF is read when the first
 * type is asked for. Structures get their fields when one of them is first named: the whole of
 * task_struct and of what it points to is never needed.
 */
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "script/btf.h"
#include "script/check.h"
#include "script/tracefs.h"

struct rut_btf {
	struct btf *btf;	       /* owned; NULL: the kernel has none */
	const struct rut_type **types; /* owned; by id */
	uint32_t n;
};

static struct rut_btf *open_btf(struct rut_script_program *p)
{
	libbpf_print_fn_t was;

	if (p->btf)
		return p->btf->btf ? p->btf : NULL;
	p->btf = calloc(1, sizeof(*p->btf));
	if (!p->btf)
		return NULL;
	was = libbpf_set_print(NULL);
	p->btf->btf = btf__load_vmlinux_btf();
	libbpf_set_print(was);
	if (libbpf_get_error(p->btf->btf))
		p->btf->btf = NULL;
	if (!p->btf->btf)
		return NULL;
	p->btf->n = btf__type_cnt(p->btf->btf);
	p->btf->types = calloc(p->btf->n, sizeof(*p->btf->types));
	return p->btf->types ? p->btf : NULL;
}

void rut_btf_close(struct rut_btf *b)
{
	if (!b)
		return;
	btf__free(b->btf);
	free(b->types);
	free(b);
}

static const struct rut_type *convert(struct rut_script_program *p, uint32_t id);

static const struct rut_type *convert_int(const struct btf_type *t)
{
	uint8_t encoding = btf_int_encoding(t);

	if (encoding & BTF_INT_BOOL)
		return rut_type_simple(RUT_T_BOOL);
	if (t->size > 8)
		return NULL;
	return rut_type_int(t->size, encoding & BTF_INT_SIGNED);
}

static const struct rut_type *convert_pointer(struct rut_script_program *p, uint32_t to)
{
	const struct btf_type *t = to ? btf__type_by_id(p->btf->btf, to) : NULL;
	bool user = false;

	while (t && (btf_is_mod(t) || btf_is_type_tag(t))) {
		if (btf_is_type_tag(t))
			user |= !strcmp(btf__name_by_offset(p->btf->btf, t->name_off), "user");
		to = t->type;
		t = to ? btf__type_by_id(p->btf->btf, to) : NULL;
	}
	if (!t || btf_is_func_proto(t))
		return rut_type_pointer(&p->ast.arena, NULL, user);
	return rut_type_pointer(&p->ast.arena, convert(p, to), user);
}

/* char[16] is a string, as users see it. */
static const struct rut_type *convert_array(struct rut_script_program *p, const struct btf_type *t)
{
	const struct btf_array *a = btf_array(t);
	const struct btf_type *elem = btf__type_by_id(p->btf->btf, a->type);
	const struct rut_type *e;

	if (elem && btf_is_int(elem) && elem->size == 1 && a->nelems &&
	    !strcmp(btf__name_by_offset(p->btf->btf, elem->name_off), "char"))
		return rut_type_string(&p->ast.arena, a->nelems);
	e = convert(p, a->type);
	return e ? rut_type_array(&p->ast.arena, e, a->nelems) : NULL;
}

static const struct rut_type *convert_enum(struct rut_script_program *p, const struct btf_type *t)
{
	struct rut_arena *a = &p->ast.arena;
	struct rut_type *e = rut_type_new(a, RUT_T_ENUM, t->size, t->size);
	uint32_t n = btf_vlen(t);
	struct rut_type_enumerator *list = rut_arena_alloc(a, (n ? n : 1) * sizeof(*list));
	const char *name = btf__name_by_offset(p->btf->btf, t->name_off);
	char text[160];

	if (!list)
		return NULL;
	snprintf(text, sizeof(text), "enum %s", name);
	e->name = rut_arena_strndup(a, text, strlen(text));
	e->is_signed = btf_kflag(t);
	for (uint32_t i = 0; i < n; i++) {
		if (btf_is_enum64(t)) {
			list[i].name = btf__name_by_offset(p->btf->btf, btf_enum64(t)[i].name_off);
			list[i].value = (int64_t)btf_enum64_value(&btf_enum64(t)[i]);
		} else {
			list[i].name = btf__name_by_offset(p->btf->btf, btf_enum(t)[i].name_off);
			list[i].value = btf_enum(t)[i].val;
		}
	}
	e->enumerators = list;
	e->nenumerators = n;
	return e;
}

static const struct rut_type *convert_struct(struct rut_script_program *p, const struct btf_type *t,
					     uint32_t id)
{
	struct rut_type *s =
		rut_type_new(&p->ast.arena, RUT_T_STRUCT, btf_is_fwd(t) ? 0 : t->size, 8);
	char text[160];

	s->is_union = btf_is_union(t);
	s->btf_id = btf_is_fwd(t) ? 0 : id;
	snprintf(text, sizeof(text), "%s %s", s->is_union ? "union" : "struct",
		 btf__name_by_offset(p->btf->btf, t->name_off));
	s->name = rut_arena_strndup(&p->ast.arena, text, strlen(text));
	return s;
}

static const struct rut_type *convert(struct rut_script_program *p, uint32_t id)
{
	const struct btf_type *t;
	const struct rut_type *ret;

	if (!id)
		return rut_type_simple(RUT_T_VOID);
	if (id >= p->btf->n)
		return NULL;
	if (p->btf->types[id])
		return p->btf->types[id];
	t = btf__type_by_id(p->btf->btf, id);
	switch (btf_kind(t)) {
	case BTF_KIND_INT:
		ret = convert_int(t);
		break;
	case BTF_KIND_FLOAT:
		ret = t->size == 4 || t->size == 8 ? rut_type_float(t->size) : NULL;
		break;
	case BTF_KIND_PTR:
		ret = convert_pointer(p, t->type);
		break;
	case BTF_KIND_ARRAY:
		ret = convert_array(p, t);
		break;
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
		ret = convert_enum(p, t);
		break;
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_FWD:
		ret = convert_struct(p, t, id);
		break;
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_CONST:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_TYPE_TAG:
		ret = convert(p, t->type);
		break;
	default:
		ret = NULL;
		break;
	}
	p->btf->types[id] = ret;
	return ret;
}

static void set_bits(struct rut_type_field *f, uint32_t bit, uint32_t bits)
{
	uint32_t size = f->type->size ? f->type->size : 1;

	f->offset = bit / 8;
	if (!bits)
		return;
	/* The word of the field's type that holds it; a larger one where it crosses that. */
	f->offset = bit / (8 * size) * size;
	if (bit - 8 * f->offset + bits > 8 * size && size < 8) {
		f->type = rut_type_int(8, f->type->is_signed);
		f->offset = bit / 64 * 8;
	}
	f->bit_shift = (uint8_t)(bit - 8 * f->offset);
	f->bits = (uint8_t)bits;
}

void rut_check_complete(struct rut_script_program *p, const struct rut_type *type)
{
	struct rut_type *s = (struct rut_type *)(uintptr_t)type;
	const struct btf_type *t;
	const struct btf_member *m;

	if (s->kind != RUT_T_STRUCT || !s->btf_id || s->fields)
		return;
	t = btf__type_by_id(p->btf->btf, s->btf_id);
	m = btf_members(t);
	s->fields = rut_arena_alloc(&p->ast.arena, (btf_vlen(t) + 1u) * sizeof(*s->fields));
	if (!s->fields)
		return;
	for (uint32_t i = 0; i < btf_vlen(t); i++) {
		struct rut_type_field *f = &s->fields[s->nfields];

		f->type = convert(p, m[i].type);
		f->name = btf__name_by_offset(p->btf->btf, m[i].name_off);
		if (!f->type)
			continue;
		set_bits(f, btf_member_bit_offset(t, i), btf_member_bitfield_size(t, i));
		s->nfields++;
	}
}

/* By "struct x", "union x", "enum x", or a name alone: a typedef, or a structure. */
const struct rut_type *rut_kernel_type(struct rut_script_program *p, const char *name)
{
	static const struct {
		const char *prefix;
		uint32_t kind;
	} kinds[] = {{"struct ", BTF_KIND_STRUCT}, {"union ", BTF_KIND_UNION},
		     {"enum ", BTF_KIND_ENUM},	   {"", BTF_KIND_TYPEDEF},
		     {"", BTF_KIND_STRUCT},	   {"", BTF_KIND_UNION}};
	struct rut_btf *b = open_btf(p);

	for (size_t i = 0; b && i < sizeof(kinds) / sizeof(*kinds); i++) {
		size_t n = strlen(kinds[i].prefix);
		int id;

		if (strncmp(name, kinds[i].prefix, n) != 0 || strchr(name + n, ' '))
			continue;
		id = btf__find_by_name_kind(b->btf, name + n, kinds[i].kind);
		if (id > 0)
			return convert(p, (uint32_t)id);
	}
	return NULL;
}

/* The prototype of a function of the tracepoint: its parameters have names, the typedef's not. */
static const struct btf_type *rawtp_proto(const struct rut_btf *b, const char *event)
{
	static const char *const functions[] = {"__probestub_%s", "__traceiter_%s",
						"__bpf_trace_%s"};
	const struct btf_type *t;
	char name[160];
	int id;

	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		size_t n = strlen(functions[i]) - 2;

		snprintf(name, sizeof(name), "%.*s%s", (int)n, functions[i], event);
		id = btf__find_by_name_kind(b->btf, name, BTF_KIND_FUNC);
		if (id > 0)
			return btf__type_by_id(b->btf, btf__type_by_id(b->btf, (uint32_t)id)->type);
	}
	snprintf(name, sizeof(name), "btf_trace_%s", event);
	id = btf__find_by_name_kind(b->btf, name, BTF_KIND_TYPEDEF);
	if (id <= 0)
		return NULL;
	t = btf__type_by_id(b->btf, btf__type_by_id(b->btf, (uint32_t)id)->type);
	return t && btf_is_ptr(t) ? btf__type_by_id(b->btf, t->type) : NULL;
}

/* The parameters from `first` on, each in 8 bytes of its own. */
static const struct rut_type *params_of(struct rut_script_program *p, const struct btf_type *t,
					uint32_t first, const char *name)
{
	const struct btf_param *params = btf_params(t);
	struct rut_type *s = rut_type_new(&p->ast.arena, RUT_T_STRUCT, 8u * btf_vlen(t), 8);

	s->name = rut_arena_strndup(&p->ast.arena, name, strlen(name));
	s->fields = rut_arena_alloc(&p->ast.arena, (btf_vlen(t) + 1u) * sizeof(*s->fields));
	for (uint32_t i = first; s->fields && i < btf_vlen(t); i++) {
		struct rut_type_field *f = &s->fields[s->nfields];

		f->type = convert(p, params[i].type);
		f->name = btf__name_by_offset(p->btf->btf, params[i].name_off);
		f->offset = 8 * (i - first);
		if (f->type && f->type->size && f->type->size <= 8)
			s->nfields++;
	}
	return s;
}

const struct rut_type *rut_kernel_rawtp_args(struct rut_script_program *p, const char *event)
{
	struct rut_btf *b = open_btf(p);
	const struct btf_type *t = b ? rawtp_proto(b, event) : NULL;
	char name[160];

	if (!t || !btf_is_func_proto(t))
		return NULL;
	snprintf(name, sizeof(name), "struct _rawtracepoint_%s", event);
	/* The first parameter is the program's own. */
	return params_of(p, t, 1, name);
}

int rut_kernel_functions(struct rut_script_program *p, const char *pattern,
			 int (*fn)(const char *name, uint32_t id, void *arg), void *arg)
{
	struct rut_btf *b = open_btf(p);
	bool one = !strpbrk(pattern, "*?[");
	int rc = 0;

	if (b && one) {
		uint32_t id = rut_kernel_function(p, pattern);

		return id ? fn(pattern, id, arg) : 0;
	}
	for (uint32_t id = 1; b && id < b->n && !rc; id++) {
		const struct btf_type *t = btf__type_by_id(b->btf, id);
		const char *name;

		if (!btf_is_func(t))
			continue;
		name = btf__name_by_offset(b->btf, t->name_off);
		if (!fnmatch(pattern, name, 0))
			rc = fn(name, id, arg);
	}
	return rc;
}

uint32_t rut_kernel_function(struct rut_script_program *p, const char *name)
{
	struct rut_btf *b = open_btf(p);
	int id = b ? btf__find_by_name_kind(b->btf, name, BTF_KIND_FUNC) : 0;

	return id > 0 ? (uint32_t)id : 0;
}

static const struct btf_type *proto_of(struct rut_script_program *p, uint32_t id)
{
	return btf__type_by_id(p->btf->btf, btf__type_by_id(p->btf->btf, id)->type);
}

const struct rut_type *rut_kernel_function_args(struct rut_script_program *p, uint32_t id)
{
	char name[160];

	snprintf(name, sizeof(name), "struct _fentry_%s",
		 btf__name_by_offset(p->btf->btf, btf__type_by_id(p->btf->btf, id)->name_off));
	return params_of(p, proto_of(p, id), 0, name);
}

const struct rut_type *rut_kernel_function_result(struct rut_script_program *p, uint32_t id)
{
	const struct btf_type *t = proto_of(p, id);
	const struct rut_type *result = t->type ? convert(p, t->type) : NULL;

	return result && result->size && result->size <= 8 ? result : NULL;
}

/* Types of the script */

static const struct rut_type *define_enum(struct rut_checker *c, const struct rut_def *d)
{
	struct rut_type *e = rut_type_new(c->arena, RUT_T_ENUM, 4, 4);
	struct rut_type_enumerator *list;
	uint32_t n = 0;
	int64_t value = 0;

	for (const struct rut_node *v = d->values; v; v = v->next)
		n++;
	list = rut_arena_alloc(c->arena, (n + 1) * sizeof(*list));
	if (!list)
		return NULL;
	n = 0;
	for (struct rut_node *v = d->values; v; v = v->next) {
		if (v->a && !rut_check_expr(c, v->a))
			return NULL;
		if (v->a && !rut_literal_int(v->a, &value)) {
			rut_check_error(c, v->a, "a constant is expected here");
			return NULL;
		}
		list[n].name = v->text;
		list[n++].value = value++;
	}
	e->name = d->name;
	e->enumerators = list;
	e->nenumerators = n;
	return e;
}

static bool define_fields(struct rut_checker *c, const struct rut_def *d, struct rut_type *s)
{
	struct rut_node at = {.span = d->span};
	uint32_t n = 0, bit = 0, size = 0;

	for (const struct rut_def_field *f = d->fields; f; f = f->next)
		n++;
	s->fields = rut_arena_alloc(c->arena, (n + 1) * sizeof(*s->fields));
	for (const struct rut_def_field *f = d->fields; f && s->fields; f = f->next) {
		struct rut_type_field *to = &s->fields[s->nfields];
		const struct rut_type *t = rut_check_type(c, f->type, &at);
		uint32_t align;

		if (!t)
			return false;
		if (f->bits && t->kind != RUT_T_INT && t->kind != RUT_T_BOOL &&
		    t->kind != RUT_T_ENUM) {
			rut_check_error(c, &at, "the bit-field '%s' is not an integer", f->name);
			return false;
		}
		if (f->type->nmods == 1 && f->type->mods[0] < RUT_TYPE_UNSIZED &&
		    f->type->mods[0] && !strcmp(f->type->text, "char"))
			t = rut_type_string(c->arena, f->type->mods[0]);
		align = t->align && !d->packed ? t->align : 1;
		to->type = t;
		to->name = f->name;
		if (s->is_union)
			bit = 0;
		if (!f->bits || bit % (8 * t->size) + f->bits > 8 * t->size)
			bit = (bit + 8 * align - 1) / (8 * align) * 8 * align;
		set_bits(to, bit, f->bits);
		bit += f->bits ? f->bits : 8 * t->size;
		if ((bit + 7) / 8 > size)
			size = (bit + 7) / 8;
		if (align > s->align)
			s->align = align;
		s->nfields++;
	}
	s->size = (size + s->align - 1) / s->align * s->align;
	return true;
}

/* *found: the script defines it, but NULL is returned when the definition has an error. */
static const struct rut_type *defined(struct rut_checker *c, const char *name, bool *found)
{
	*found = true;
	for (struct rut_def *d = c->prog->ast.defs; d; d = d->next) {
		const char *bare = strchr(d->name, ' ') + 1;
		struct rut_type *s;

		if (strcmp(d->name, name) != 0 && strcmp(bare, name) != 0)
			continue;
		if (d->type)
			return d->type;
		if (!strncmp(d->name, "enum ", 5)) {
			/* The value of an enumerator may be a name, which is looked for here. */
			if (d->open)
				return NULL;
			d->open = true;
			d->type = define_enum(c, d);
			d->open = false;
			return d->type;
		}
		s = rut_type_new(c->arena, RUT_T_STRUCT, 0, 1);
		s->name = d->name;
		s->is_union = !strncmp(d->name, "union ", 6);
		d->type = s;
		/* The loud pass has to find the error again. */
		if (!define_fields(c, d, s))
			d->type = NULL;
		return d->type;
	}
	*found = false;
	return NULL;
}

const struct rut_type *rut_check_named_type(struct rut_checker *c, const char *name)
{
	bool found;
	const struct rut_type *t = defined(c, name, &found);

	return found ? t : rut_kernel_type(c->prog, name);
}

static bool find_enumerator(const struct rut_type *t, const char *name, int64_t *ret)
{
	for (uint32_t i = 0; t && i < t->nenumerators; i++)
		if (!strcmp(t->enumerators[i].name, name)) {
			*ret = t->enumerators[i].value;
			return true;
		}
	return false;
}

/* The enum of the kernel that has it; NULL: none has. */
static const struct rut_type *kernel_enum(struct rut_script_program *p, const char *name,
					  int64_t *ret)
{
	struct rut_btf *b = open_btf(p);

	for (uint32_t id = 1; b && id < b->n; id++) {
		const struct btf_type *t = btf__type_by_id(b->btf, id);
		bool found = false;

		for (uint32_t i = 0; btf_is_enum(t) && i < btf_vlen(t) && !found; i++)
			found = !strcmp(btf__name_by_offset(b->btf, btf_enum(t)[i].name_off), name);
		for (uint32_t i = 0; btf_is_enum64(t) && i < btf_vlen(t) && !found; i++)
			found = !strcmp(btf__name_by_offset(b->btf, btf_enum64(t)[i].name_off),
					name);
		if (found && find_enumerator(convert(p, id), name, ret))
			return convert(p, id);
	}
	return NULL;
}

bool rut_kernel_enumerator(struct rut_script_program *p, const char *name, int64_t *ret)
{
	return kernel_enum(p, name, ret) != NULL;
}

const struct rut_type *rut_check_enumerator(struct rut_checker *c, const char *name, int64_t *ret)
{
	bool found;

	for (struct rut_def *d = c->prog->ast.defs; d; d = d->next)
		if (d->values && find_enumerator(defined(c, d->name, &found), name, ret))
			return d->type;
	return kernel_enum(c->prog, name, ret);
}

int64_t rut_kernel_offset(struct rut_script_program *p, const char *type, const char *field)
{
	const struct rut_type *t = rut_kernel_type(p, type);

	if (!t)
		return -1;
	rut_check_complete(p, t);
	for (uint32_t i = 0; i < t->nfields; i++)
		if (t->fields[i].name && !strcmp(t->fields[i].name, field))
			return t->fields[i].offset;
	return -1;
}
