/* SPDX-License-Identifier: MIT */
/* Names of types, fields of structures, enumerators. */
#include <string.h>

#include "script/check.h"
#include "script/config.h"
#include "script/ruby_probe.h"

static const struct {
	const char *name;
	uint8_t bytes;
	bool is_signed;
} words[] = {
	{"int8", 1, true},
	{"int16", 2, true},
	{"int32", 4, true},
	{"int64", 8, true},
	{"uint8", 1, false},
	{"uint16", 2, false},
	{"uint32", 4, false},
	{"uint64", 8, false},
	{"char", 1, true},
	{"signed char", 1, true},
	{"unsigned char", 1, false},
	{"short", 2, true},
	{"short int", 2, true},
	{"unsigned short", 2, false},
	{"short unsigned int", 2, false},
	{"int", 4, true},
	{"signed", 4, true},
	{"signed int", 4, true},
	{"unsigned", 4, false},
	{"unsigned int", 4, false},
	{"long", 8, true},
	{"long int", 8, true},
	{"unsigned long", 8, false},
	{"unsigned long int", 8, false},
	{"long unsigned int", 8, false},
	{"long long", 8, true},
	{"long long int", 8, true},
	{"unsigned long long", 8, false},
	{"long long unsigned int", 8, false},
	{"size_t", 8, false},
	{"ssize_t", 8, true},
	{"s8", 1, true},
	{"s16", 2, true},
	{"s32", 4, true},
	{"s64", 8, true},
	{"u8", 1, false},
	{"u16", 2, false},
	{"u32", 4, false},
	{"u64", 8, false},
	{"__s8", 1, true},
	{"__s16", 2, true},
	{"__s32", 4, true},
	{"__s64", 8, true},
	{"__u8", 1, false},
	{"__u16", 2, false},
	{"__u32", 4, false},
	{"__u64", 8, false},
	{"int8_t", 1, true},
	{"int16_t", 2, true},
	{"int32_t", 4, true},
	{"int64_t", 8, true},
	{"uint8_t", 1, false},
	{"uint16_t", 2, false},
	{"uint32_t", 4, false},
	{"uint64_t", 8, false},
	{"pid_t", 4, true},
	{"uid_t", 4, false},
	{"gid_t", 4, false},
	{"uintptr_t", 8, false},
	{"intptr_t", 8, true},
};

const struct rut_type *rut_type_word(const char *name)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(words[i].name, name))
			return rut_type_int(words[i].bytes, words[i].is_signed);
	return NULL;
}

static const struct rut_type *find_base(struct rut_checker *c, const char *name)
{
	const struct rut_type *t = rut_type_word(name);

	if (t)
		return t;
	if (!strcmp(name, "double") || !strcmp(name, "float"))
		return rut_type_float(*name == 'd' ? 8 : 4);
	if (!strcmp(name, "bool"))
		return rut_type_simple(RUT_T_BOOL);
	if (!strcmp(name, "void"))
		return rut_type_simple(RUT_T_VOID);
	return rut_check_named_type(c, name);
}

/* The arrays and pointers behind the name; those from `i` on. */
static const struct rut_type *modified(struct rut_checker *c, const struct rut_type *t,
				       const struct rut_type_name *name, unsigned i)
{
	while (i < name->nmods && t) {
		unsigned end = i;

		if (name->mods[i] == RUT_TYPE_POINTER) {
			t = rut_type_pointer(c->arena, t, false);
			i++;
			continue;
		}
		while (end < name->nmods && name->mods[end] != RUT_TYPE_POINTER)
			end++;
		for (unsigned k = end; k-- > i;)
			t = rut_type_array(c->arena, t,
					   name->mods[k] == RUT_TYPE_UNSIZED ? 0 : name->mods[k]);
		i = end;
	}
	return t;
}

/* string[16], buffer[16]: the number is a size. */
static const struct rut_type *sized_type(struct rut_checker *c, const struct rut_type_name *name,
					 bool is_text)
{
	bool sized = name->nmods && name->mods[0] < RUT_TYPE_UNSIZED && name->mods[0];
	uint32_t size = sized ? name->mods[0] : c->prog->set.max_strlen;

	return modified(c,
			is_text ? rut_type_string(c->arena, size)
				: rut_type_new(c->arena, RUT_T_BUF, size + 4, 4),
			name, sized);
}

const struct rut_type *rut_check_type(struct rut_checker *c, const struct rut_type_name *name,
				      const struct rut_node *n)
{
	const struct rut_type *t;
	bool is_text, is_buf;

	if (name->of) {
		t = rut_check_expr(c, name->of);
		return t ? modified(c, t, name, 0) : NULL;
	}
	is_text = !strcmp(name->text, "string");
	is_buf = !strcmp(name->text, "buffer");
	if (is_text || is_buf)
		return sized_type(c, name, is_text);
	t = find_base(c, name->text);
	if (!t) {
		struct rut_node at = *n;

		at.span = name->span;
		return rut_check_error(c, &at, "the type '%s' is not known", name->text);
	}
	return modified(c, t, name, 0);
}

/* In unnamed structures and unions within, too; `base`: where those begin. */
const struct rut_type_field *rut_check_find_field(struct rut_script_program *p,
						  const struct rut_type *t, const char *name,
						  struct rut_nearest *near, uint32_t *base)
{
	for (uint32_t i = 0; i < t->nfields; i++) {
		const struct rut_type_field *f = &t->fields[i];

		if (f->name && *f->name) {
			if (!strcmp(f->name, name))
				return f;
			rut_nearest_add(near, f->name);
		} else if (f->type->kind == RUT_T_STRUCT) {
			const struct rut_type_field *in;

			rut_check_complete(p, f->type);
			in = rut_check_find_field(p, f->type, name, near, base);
			if (in) {
				*base += f->offset;
				return in;
			}
		}
	}
	return NULL;
}

const struct rut_type_field *rut_check_field(struct rut_checker *c, const struct rut_node *n,
					     const struct rut_type *t, const char *name)
{
	struct rut_nearest near = {name, strlen(name), "", 0};
	const struct rut_type_field *f;
	struct rut_type_field *copy;
	_cleanup_buf_ struct rut_buf buf = RUT_BUF_INIT;
	uint32_t base = 0;

	if (t->kind != RUT_T_STRUCT && t->kind != RUT_T_RECORD) {
		rut_check_error(c, n, "%s has no fields", rut_type_text(t, &buf));
		return NULL;
	}
	rut_check_complete(c->prog, t);
	f = rut_check_find_field(c->prog, t, name, &near, &base);
	if (!f) {
		rut_check_error(c, n, "%s has no field '%s'", rut_type_text(t, &buf), name);
		if (c->loud && near.name[0])
			rut_source_hint(c->src, "did you mean '%s'?", near.name);
		return NULL;
	}
	if (!base)
		return f;
	copy = rut_arena_alloc(c->arena, sizeof(*copy));
	if (!copy)
		return NULL;
	*copy = *f;
	copy->offset += base;
	return copy;
}

/* Is what the node names in user space? A copy of it is taken to be of what the probe is in. */
static bool in_user_space(const struct rut_checker *c, const struct rut_node *n)
{
	while (n->kind == RUT_N_FIELD || n->kind == RUT_N_INDEX ||
	       (n->kind == RUT_N_UNARY && n->op == '*')) {
		const struct rut_type *t = n->a->type;

		if (t && t->kind == RUT_T_POINTER)
			return t->user;
		if (n->kind == RUT_N_UNARY)
			return false;
		n = n->a;
	}
	return n->kind == RUT_N_VAR && rut_probe_is_user(c->ctx->kind);
}

const struct rut_type *rut_check_part(struct rut_checker *c, const struct rut_node *n,
				      const struct rut_type *t)
{
	if (t->kind == RUT_T_POINTER && !t->user && in_user_space(c, n))
		return rut_type_pointer(c->arena, t->elem, true);
	return t;
}

/* config.NAME, config().NAME: the setting is known when the script is compiled. */
static bool is_config(const struct rut_node *n)
{
	return (n->kind == RUT_N_NAME || (n->kind == RUT_N_CALL && !n->list)) && n->text &&
	       (!strcmp(n->text, "config") || !strcmp(n->text, "__builtin_config"));
}

static const struct rut_type *check_config(struct rut_checker *c, struct rut_node *n)
{
	const char *text;
	uint64_t value;

	if (!n->text || !rut_config_value(c->prog, n->text, &value, &text))
		return rut_check_error(c, n, "there is no option '%s'", n->text ? n->text : "");
	if (text) {
		n->kind = RUT_N_STRING;
		n->text = text;
		n->len = (uint32_t)strlen(text);
		return rut_type_string(c->arena, n->len + 1);
	}
	n->kind = RUT_N_INT;
	n->op = 0;
	n->value = value;
	return rut_type_int(8, true);
}

const struct rut_type *rut_check_field_of(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t;
	const struct rut_type_field *f;
	_cleanup_buf_ struct rut_buf buf = RUT_BUF_INIT;

	if (rut_is_ruby_record(c->ctx, n->a))
		return rut_check_ruby_field(c, n);
	if (is_config(n->a))
		return check_config(c, n);
	t = rut_check_expr(c, n->a);
	if (!t)
		return NULL;
	if (!n->text) {
		if (t->kind != RUT_T_TUPLE)
			return rut_check_error(c, n, "%s is no tuple", rut_type_text(t, &buf));
		if (n->value == 1 && n->a->kind == RUT_N_VAR && n->a->sym && n->a->sym->keys_of)
			return rut_check_error(c, n,
					       "the values of %s are not numbers: print(%s[%s.0]), "
					       "of a hist() also p99(%s[%s.0])",
					       n->a->sym->keys_of, n->a->sym->keys_of, n->a->text,
					       n->a->sym->keys_of, n->a->text);
		if (n->value >= t->nfields)
			return rut_check_error(c, n, "the tuple has %u values, from 0", t->nfields);
		n->what = &t->fields[n->value];
		return t->fields[n->value].type;
	}
	/* '.' on a pointer is '->', as in the newer versions of the language. */
	if (t->kind == RUT_T_POINTER && t->elem)
		t = t->elem;
	f = rut_check_field(c, n, t, n->text);
	n->what = f;
	return f ? rut_check_part(c, n, f->type) : NULL;
}
