/* SPDX-License-Identifier: MIT */
/* Definitions at the top of a script: config, structures, enums, macros; and #include lines. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "script/parse_priv.h"

/* Is the token this name, and a '{' or '=' behind it (not a probe of that name)? */
static bool at_word(struct rut_parser *p, const char *name, const char *behind)
{
	struct rut_lexer ahead = p->lex;

	if (!rut_p_is_name(p, name))
		return false;
	rut_lex_space(&ahead);
	return ahead.pos < ahead.src->len && strchr(behind, ahead.src->text[ahead.pos]);
}

static int parse_config(struct rut_parser *p)
{
	struct rut_config_entry **tail = &p->ast->config;

	while (*tail)
		tail = &(*tail)->next;
	rut_p_next(p);
	if (!rut_p_want(p, '=', "config") || !rut_p_want(p, '{', "config ="))
		return -EINVAL;
	while (!rut_p_is(p, '}')) {
		struct rut_config_entry *e = rut_p_alloc(p, sizeof(*e));

		if (!e)
			return -EINVAL;
		if (p->tok.kind != RUT_TOK_NAME) {
			rut_p_error(p, "the name of an option is expected");
			return -EINVAL;
		}
		e->span = p->tok.span;
		e->name = rut_p_text(p, p->tok.span);
		rut_p_next(p);
		if (!rut_p_want(p, '=', "the option"))
			return -EINVAL;
		e->value = rut_p_expr(p);
		if (!e->value)
			return -EINVAL;
		*tail = e;
		tail = &e->next;
		if (!rut_p_is(p, '}') && !rut_p_want(p, ';', "the value"))
			return -EINVAL;
	}
	rut_p_next(p);
	return 1;
}

static struct rut_def *parse_body(struct rut_parser *p);

/* Is a definition at the token, rather than only its name? "struct {", "struct NAME {" */
static bool at_definition(const struct rut_parser *p)
{
	struct rut_parser ahead = *p;

	if (!rut_p_is_name(p, "struct") && !rut_p_is_name(p, "union") && !rut_p_is_name(p, "enum"))
		return false;
	rut_p_next(&ahead);
	if (ahead.tok.kind == RUT_TOK_NAME)
		rut_p_next(&ahead);
	return rut_p_is(&ahead, '{');
}

static struct rut_type_name *field_type(struct rut_parser *p)
{
	struct rut_type_name *t;
	struct rut_def *d;

	if (!at_definition(p))
		return rut_p_type(p);
	t = rut_p_alloc(p, sizeof(*t));
	if (!t || !rut_p_enter(p))
		return NULL;
	t->span = p->tok.span;
	d = parse_body(p);
	if (!d)
		return NULL;
	p->depth--;
	t->text = d->name;
	return rut_p_type_mods(p, t) ? t : NULL;
}

/* name[count] : bits; a structure may stand without a name. */
static struct rut_def_field *parse_declarator(struct rut_parser *p,
					      const struct rut_type_name *type, bool unnamed)
{
	struct rut_def_field *f = rut_p_alloc(p, sizeof(*f));
	struct rut_type_name *t = rut_p_alloc(p, sizeof(*t));

	if (!f || !t)
		return NULL;
	*t = *type;
	f->type = t;
	f->name = "";
	if (unnamed && rut_p_is(p, ';'))
		return f;
	if (!rut_p_type_mods(p, t))
		return NULL;
	if (p->tok.kind != RUT_TOK_NAME)
		return rut_p_error(p, "the name of a field is expected");
	f->name = rut_p_text(p, p->tok.span);
	rut_p_next(p);
	if (!rut_p_type_mods(p, t))
		return NULL;
	if (rut_p_take(p, ':')) {
		if (p->tok.kind != RUT_TOK_INT || !p->tok.value || p->tok.value > 64)
			return rut_p_error(p, "the number of bits is expected");
		f->bits = (uint32_t)p->tok.value;
		rut_p_next(p);
	}
	return p->failed ? NULL : f;
}

/* type name[count] : bits, name; */
static int parse_fields(struct rut_parser *p, struct rut_def *d)
{
	struct rut_def_field **tail = &d->fields;

	while (!rut_p_is(p, '}')) {
		bool unnamed = at_definition(p);
		struct rut_type_name *type = field_type(p), bare;

		if (!type)
			return -EINVAL;
		/* A star belongs to the name behind it: int *a, b; */
		bare = *type;
		bare.nmods = 0;
		do {
			*tail = parse_declarator(p, type ? type : &bare, unnamed);
			if (!*tail)
				return -EINVAL;
			tail = &(*tail)->next;
			type = NULL;
		} while (rut_p_take(p, ','));
		if (!rut_p_is(p, '}') && !rut_p_want(p, ';', "the field"))
			return -EINVAL;
	}
	return 0;
}

static int parse_enumerators(struct rut_parser *p, struct rut_def *d)
{
	struct rut_node **tail = &d->values;

	while (!rut_p_is(p, '}')) {
		struct rut_node *n = rut_p_node(p, RUT_N_NAME, p->tok.span.pos);

		if (!n)
			return -EINVAL;
		if (p->tok.kind != RUT_TOK_NAME) {
			rut_p_error(p, "the name of an enumerator is expected");
			return -EINVAL;
		}
		n->text = rut_p_text(p, p->tok.span);
		rut_p_next(p);
		if (rut_p_take(p, '=')) {
			n->a = rut_p_expr(p);
			if (!n->a)
				return -EINVAL;
		}
		*tail = n;
		tail = &n->next;
		if (!rut_p_is(p, '}') && !rut_p_want(p, ',', "the enumerator"))
			return -EINVAL;
	}
	return 0;
}

/* __attribute__((packed)); others are skipped. */
static void parse_attributes(struct rut_parser *p, struct rut_def *d)
{
	while (rut_p_is_name(p, "__attribute__")) {
		int depth = 0;

		do {
			rut_p_next(p);
			depth += rut_p_is(p, '(') - rut_p_is(p, ')');
			d->packed |= rut_p_is_name(p, "packed") || rut_p_is_name(p, "__packed__");
		} while (depth && p->tok.kind != RUT_TOK_END && !p->failed);
		rut_p_want(p, ')', "the attribute");
	}
}

/* struct NAME { ... }; the definition is added to the others. */
static struct rut_def *parse_body(struct rut_parser *p)
{
	struct rut_def *d = rut_p_alloc(p, sizeof(*d)), **tail = &p->ast->defs;
	bool is_enum = rut_p_is_name(p, "enum");
	char name[160];

	if (!d)
		return NULL;
	d->span = p->tok.span;
	snprintf(name, sizeof(name), "%.*s ", (int)p->tok.span.len,
		 p->lex.src->text + p->tok.span.pos);
	rut_p_next(p);
	if (p->tok.kind == RUT_TOK_NAME && p->tok.span.len < 128) {
		strncat(name, p->lex.src->text + p->tok.span.pos, p->tok.span.len);
		rut_p_next(p);
	} else if (!is_enum) {
		snprintf(name + strlen(name), 32, "(unnamed %u)", ++p->ast->nunnamed);
	}
	d->name = rut_arena_strndup(&p->ast->arena, name, strlen(name));
	if (!d->name || !rut_p_want(p, '{', "the name of the type"))
		return NULL;
	if ((is_enum ? parse_enumerators(p, d) : parse_fields(p, d)) ||
	    !rut_p_want(p, '}', "the last field"))
		return NULL;
	parse_attributes(p, d);
	while (*tail)
		tail = &(*tail)->next;
	*tail = d;
	return p->failed ? NULL : d;
}

/* struct NAME { ... };  union  enum */
static int parse_struct(struct rut_parser *p)
{
	if (!parse_body(p))
		return -EINVAL;
	rut_p_take(p, ';');
	return p->failed ? -EINVAL : 1;
}

/* The names between parentheses; of functions with their types. */
static int parse_params(struct rut_parser *p, struct rut_macro *m)
{
	struct rut_node **tail = &m->params;

	if (!rut_p_is(p, '{') && !rut_p_want(p, '(', "the name of the macro"))
		return -EINVAL;
	while (!rut_p_is(p, ')') && !rut_p_is(p, '{')) {
		struct rut_node *n = rut_p_node(p,
						p->tok.kind == RUT_TOK_VAR   ? RUT_N_VAR
						: p->tok.kind == RUT_TOK_MAP ? RUT_N_MAP
									     : RUT_N_NAME,
						p->tok.span.pos);

		if (!n)
			return -EINVAL;
		if (p->tok.kind != RUT_TOK_VAR && p->tok.kind != RUT_TOK_MAP &&
		    p->tok.kind != RUT_TOK_NAME) {
			rut_p_error(p, "a parameter is expected: name, $name or @name");
			return -EINVAL;
		}
		if (m->is_fn && n->kind != RUT_N_VAR) {
			rut_p_error(p, "the parameters of a function are variables: $name");
			return -EINVAL;
		}
		n->text = rut_p_text(p, p->tok.span);
		*tail = n;
		tail = &n->next;
		rut_p_next(p);
		if (m->is_fn && rut_p_take(p, ':')) {
			n->type_name = rut_p_type(p);
			if (!n->type_name)
				return -EINVAL;
		}
		if (!rut_p_is(p, ')') && !rut_p_want(p, ',', "the parameter"))
			return -EINVAL;
	}
	if (rut_p_is(p, ')'))
		rut_p_next(p);
	return p->failed ? -EINVAL : 0;
}

static int parse_macro(struct rut_parser *p)
{
	struct rut_macro *m = rut_p_alloc(p, sizeof(*m));

	if (!m)
		return -EINVAL;
	m->is_fn = rut_p_is_name(p, "fn");
	rut_p_next(p);
	m->span = p->tok.span;
	if (p->tok.kind != RUT_TOK_NAME) {
		rut_p_error(p, "a name is expected");
		return -EINVAL;
	}
	m->name = rut_p_text(p, p->tok.span);
	rut_p_next(p);
	if (parse_params(p, m))
		return -EINVAL;
	if (m->is_fn && rut_p_take(p, ':')) {
		m->result = rut_p_type(p);
		if (!m->result)
			return -EINVAL;
	}
	m->body = rut_p_block(p);
	if (!m->body)
		return -EINVAL;
	m->next = p->ast->macros;
	p->ast->macros = m;
	return 1;
}

/* let @x = hash(100); */
static int parse_map_decl(struct rut_parser *p)
{
	static const char *const types[] = {"hash", "lruhash", "percpuhash", "percpulruhash",
					    "percpuarray"};
	struct rut_map_decl *d = rut_p_alloc(p, sizeof(*d));
	bool known = false;

	if (!d)
		return -EINVAL;
	rut_p_next(p);
	if (p->tok.kind != RUT_TOK_MAP) {
		rut_p_error(p, "a map is expected: let @x = hash(100);");
		return -EINVAL;
	}
	d->span = p->tok.span;
	d->name = rut_p_text(p, p->tok.span);
	rut_p_next(p);
	if (!rut_p_want(p, '=', "the map"))
		return -EINVAL;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		known |= rut_p_is_name(p, types[i]);
	if (!known) {
		rut_p_error(p, "maps are hash, lruhash, percpuhash, percpulruhash or percpuarray");
		return -EINVAL;
	}
	d->type = rut_p_text(p, p->tok.span);
	rut_p_next(p);
	if (!rut_p_want(p, '(', "the kind of the map"))
		return -EINVAL;
	if (p->tok.kind != RUT_TOK_INT || !p->tok.value || p->tok.value > 16u << 20) {
		rut_p_error(p, "the number of keys is expected");
		return -EINVAL;
	}
	d->count = p->tok.value;
	rut_p_next(p);
	if (!rut_p_want(p, ')', "the number of keys") || !rut_p_want(p, ';', "the map"))
		return -EINVAL;
	d->next = p->ast->map_decls;
	p->ast->map_decls = d;
	return 1;
}

/* #define NAME EXPRESSION: read where the name is used (parse_expr.c). */
static int parse_define(struct rut_parser *p, const char *s)
{
	const char *text = p->lex.src->text, *end = strchrnul(s, '\n');
	struct rut_define *d = rut_p_alloc(p, sizeof(*d));
	size_t n;

	if (!d)
		return -EINVAL;
	p->lex.pos = (uint32_t)(s - text);
	rut_p_next(p);
	if (p->tok.kind != RUT_TOK_NAME || p->tok.span.pos >= (size_t)(end - text)) {
		rut_p_error(p, "#define NAME VALUE is expected");
		return -EINVAL;
	}
	d->name = rut_p_text(p, p->tok.span);
	d->pos = p->tok.span.pos + p->tok.span.len;
	d->end = (uint32_t)(end - text);
	n = strspn(text + d->pos, " \t");
	if (text[d->pos] == '(' || d->pos + n >= d->end) {
		rut_p_error(p, text[d->pos] == '('
				       ? "#define with arguments is not there: 'macro' is"
				       : "#define NAME VALUE is expected");
		return -EINVAL;
	}
	d->next = p->ast->defines;
	p->ast->defines = d;
	p->lex.pos = d->end;
	rut_p_next(p);
	return 1;
}

/* Lines of the preprocessor: types come from BTF, so #include has nothing to add. */
static int parse_directive(struct rut_parser *p)
{
	const char *s = p->lex.src->text + p->tok.span.pos + 1, *end;

	while (*s == ' ' || *s == '\t')
		s++;
	end = strchr(s, '\n');
	if (!strncmp(s, "define ", 7) || !strncmp(s, "define\t", 7))
		return parse_define(p, s + 7);
	if (strncmp(s, "include", 7) != 0 && strncmp(s, "ifndef BPFTRACE_HAVE_BTF", 24) != 0 &&
	    strncmp(s, "endif", 5) != 0) {
		rut_p_error(p, "of the preprocessor only #include, #define and #ifndef "
			       "BPFTRACE_HAVE_BTF are accepted");
		return -EINVAL;
	}
	/* What stands between #ifndef BPFTRACE_HAVE_BTF and #endif is for kernels without BTF. */
	if (!strncmp(s, "ifndef", 6)) {
		end = strstr(s, "#endif");
		end = end ? strchr(end, '\n') : NULL;
	}
	p->lex.pos = end ? (uint32_t)(end - p->lex.src->text) : (uint32_t)p->lex.src->len;
	rut_p_next(p);
	return 1;
}

int rut_p_def(struct rut_parser *p)
{
	if (rut_p_is(p, '#'))
		return parse_directive(p);
	if (at_word(p, "config", "=")) {
		if (!p->imported)
			return parse_config(p);
		rut_p_error(p, "an imported file has no config block");
		return -EINVAL;
	}
	if (rut_p_is_name(p, "struct") || rut_p_is_name(p, "union") || rut_p_is_name(p, "enum"))
		return parse_struct(p);
	if (rut_p_is_name(p, "let"))
		return parse_map_decl(p);
	if (rut_p_is_name(p, "macro") || rut_p_is_name(p, "fn"))
		return parse_macro(p);
	if (rut_p_is_name(p, "import"))
		return rut_p_import(p);
	return 0;
}
