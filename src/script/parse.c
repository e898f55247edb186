/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "script/parse_priv.h"
#include "script/prelude.h"

void rut_p_next(struct rut_parser *p)
{
	p->end = p->tok.span.pos + p->tok.span.len;
	rut_lex_next(&p->lex, &p->tok);
	if (p->tok.kind == RUT_TOK_BAD)
		p->failed = true;
}

bool rut_p_is(const struct rut_parser *p, int op)
{
	return p->tok.kind == RUT_TOK_OP && p->tok.op == op;
}

bool rut_p_is_name(const struct rut_parser *p, const char *name)
{
	return p->tok.kind == RUT_TOK_NAME && p->tok.span.len == strlen(name) &&
	       !memcmp(p->lex.src->text + p->tok.span.pos, name, p->tok.span.len);
}

bool rut_p_take(struct rut_parser *p, int op)
{
	if (!rut_p_is(p, op))
		return false;
	rut_p_next(p);
	return true;
}

void *rut_p_error(struct rut_parser *p, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	/* One message: what follows is only its consequence. */
	if (p->failed)
		return NULL;
	p->failed = true;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	rut_source_error(p->lex.src, p->tok.span, "%s", text);
	return NULL;
}

bool rut_p_want(struct rut_parser *p, int op, const char *where)
{
	char buf[4];

	if (rut_p_take(p, op))
		return !p->failed;
	rut_p_error(p, "'%s' is missing after %s", rut_op_text(op, buf), where);
	return false;
}

void *rut_p_alloc(struct rut_parser *p, size_t size)
{
	void *m = rut_arena_alloc(&p->ast->arena, size);

	return m ? m : rut_p_error(p, "the script is too large");
}

char *rut_p_text(struct rut_parser *p, struct rut_span span)
{
	char *s = rut_arena_strndup(&p->ast->arena, p->lex.src->text + span.pos, span.len);

	return s ? s : rut_p_error(p, "the script is too large");
}

struct rut_node *rut_p_node(struct rut_parser *p, enum rut_node_kind kind, uint32_t pos)
{
	struct rut_node *n = rut_p_alloc(p, sizeof(*n));

	if (!n)
		return NULL;
	n->kind = kind;
	n->span.pos = pos;
	n->index = -1;
	return n;
}

struct rut_node *rut_p_close(struct rut_parser *p, struct rut_node *n)
{
	if (p->failed)
		return NULL;
	n->span.len = p->end - n->span.pos;
	return n;
}

bool rut_p_enter(struct rut_parser *p)
{
	if (++p->depth <= RUT_PARSE_DEPTH_MAX)
		return true;
	rut_p_error(p, "this is nested too deeply (%d levels are possible)", RUT_PARSE_DEPTH_MAX);
	return false;
}

/* Statements */

struct rut_node *rut_p_if(struct rut_parser *p)
{
	struct rut_node *n = rut_p_node(p, RUT_N_IF, p->tok.span.pos);

	if (!n || !rut_p_enter(p))
		return NULL;
	rut_p_next(p);
	n->a = rut_p_expr(p);
	n->b = n->a ? rut_p_block(p) : NULL;
	if (!n->b)
		return NULL;
	if (rut_p_is_name(p, "else")) {
		rut_p_next(p);
		n->c = rut_p_is_name(p, "if") ? rut_p_if(p) : rut_p_block(p);
		if (!n->c)
			return NULL;
	}
	p->depth--;
	return rut_p_close(p, n);
}

static struct rut_node *parse_while(struct rut_parser *p, enum rut_node_kind kind)
{
	struct rut_node *n = rut_p_node(p, kind, p->tok.span.pos);

	if (!n)
		return NULL;
	rut_p_next(p);
	if (!rut_p_is(p, '('))
		return rut_p_error(p, "'(' is missing");
	n->a = rut_p_expr(p);
	n->b = n->a ? rut_p_block(p) : NULL;
	return n->b ? rut_p_close(p, n) : NULL;
}

/* for ($i : 0..10) { }, for ($kv : @map) { }, with or without parentheses */
static struct rut_node *parse_for(struct rut_parser *p)
{
	struct rut_node *n = rut_p_node(p, RUT_N_FOR, p->tok.span.pos);
	bool paren;

	if (!n)
		return NULL;
	rut_p_next(p);
	paren = rut_p_take(p, '(');
	if (p->tok.kind != RUT_TOK_VAR)
		return rut_p_error(p,
				   "a variable is expected: for ($i : 0..10) or for ($kv : @map)");
	n->a = rut_p_node(p, RUT_N_VAR, p->tok.span.pos);
	if (!n->a)
		return NULL;
	n->a->text = rut_p_text(p, p->tok.span);
	rut_p_next(p);
	rut_p_close(p, n->a);
	if (!rut_p_want(p, ':', "the variable"))
		return NULL;
	n->b = rut_p_expr(p);
	if (!n->b)
		return NULL;
	if (rut_p_take(p, RUT_OP_RANGE)) {
		n->c = rut_p_expr(p);
		if (!n->c)
			return NULL;
	}
	if (paren && !rut_p_want(p, ')', "the range"))
		return NULL;
	n->d = rut_p_block(p);
	return n->d ? rut_p_close(p, n) : NULL;
}

static struct rut_node *parse_let(struct rut_parser *p)
{
	struct rut_node *n = rut_p_node(p, RUT_N_LET, p->tok.span.pos);

	if (!n)
		return NULL;
	rut_p_next(p);
	if (p->tok.kind != RUT_TOK_VAR)
		return rut_p_error(p, "a variable is expected: let $name");
	n->a = rut_p_node(p, RUT_N_VAR, p->tok.span.pos);
	if (!n->a)
		return NULL;
	n->a->text = rut_p_text(p, p->tok.span);
	rut_p_next(p);
	rut_p_close(p, n->a);
	if (rut_p_take(p, ':')) {
		n->type_name = rut_p_type(p);
		if (!n->type_name)
			return NULL;
	}
	if (rut_p_take(p, '=')) {
		n->b = rut_p_expr(p);
		if (!n->b)
			return NULL;
	}
	return rut_p_close(p, n);
}

static struct rut_node *parse_simple(struct rut_parser *p)
{
	uint32_t pos = p->tok.span.pos;
	struct rut_node *e = rut_p_expr(p), *n;

	if (!e)
		return NULL;
	if (!rut_p_is(p, '=') && !(p->tok.kind == RUT_TOK_OP && p->tok.op > RUT_OP_ASSIGN)) {
		n = rut_p_node(p, RUT_N_EXPR, pos);
		if (!n)
			return NULL;
		n->a = e;
		return rut_p_close(p, n);
	}
	if (e->kind == RUT_N_NAME && !strcmp(e->text, "_") && rut_p_take(p, '=')) {
		n = rut_p_node(p, RUT_N_EXPR, pos);
		if (!n)
			return NULL;
		n->op = RUT_EXPR_DISCARD;
		n->a = rut_p_expr(p);
		return n->a ? rut_p_close(p, n) : NULL;
	}
	if (e->kind != RUT_N_MAP && e->kind != RUT_N_VAR)
		return rut_p_error(p, "only maps (@x) and variables ($x) can be assigned to");
	n = rut_p_node(p, RUT_N_ASSIGN, pos);
	if (!n)
		return NULL;
	n->op = p->tok.op == '=' ? 0 : p->tok.op - RUT_OP_ASSIGN;
	n->a = e;
	rut_p_next(p);
	n->b = rut_p_expr(p);
	return n->b ? rut_p_close(p, n) : NULL;
}

static struct rut_node *parse_jump(struct rut_parser *p, enum rut_node_kind kind)
{
	struct rut_node *n = rut_p_node(p, kind, p->tok.span.pos);

	if (!n)
		return NULL;
	rut_p_next(p);
	if (kind == RUT_N_RETURN && !rut_p_is(p, ';') && !rut_p_is(p, '}')) {
		n->a = rut_p_expr(p);
		if (!n->a)
			return NULL;
	}
	return rut_p_close(p, n);
}

/* Is '{' the next token? */
static bool block_follows(struct rut_parser *p)
{
	struct rut_lexer ahead = p->lex;

	rut_lex_space(&ahead);
	return ahead.pos < ahead.src->len && ahead.src->text[ahead.pos] == '{';
}

/* *ret_braced: it ends with a block, so that no ';' need follow. */
static struct rut_node *parse_statement(struct rut_parser *p, bool *ret_braced)
{
	static const struct {
		const char *name;
		enum rut_node_kind kind;
	} jumps[] = {
		{"break", RUT_N_BREAK}, {"continue", RUT_N_CONTINUE}, {"return", RUT_N_RETURN}};

	*ret_braced = true;
	if (rut_p_is_name(p, "try") && block_follows(p))
		return rut_p_error(
			p, "try and catch are not needed: reads of bad pointers give 0, and "
			   "are counted and reported");
	if (rut_p_is_name(p, "if"))
		return rut_p_if(p);
	if (rut_p_is_name(p, "while"))
		return parse_while(p, RUT_N_WHILE);
	if (rut_p_is_name(p, "unroll"))
		return parse_while(p, RUT_N_UNROLL);
	if (rut_p_is_name(p, "foreach"))
		return rut_p_foreach(p);
	if (rut_p_is_name(p, "for"))
		return parse_for(p);
	if (rut_p_is(p, '{'))
		return rut_p_block(p);
	*ret_braced = false;
	if (rut_p_is_name(p, "let"))
		return parse_let(p);
	for (size_t i = 0; i < sizeof(jumps) / sizeof(*jumps); i++)
		if (rut_p_is_name(p, jumps[i].name))
			return parse_jump(p, jumps[i].kind);
	return parse_simple(p);
}

struct rut_node *rut_p_block(struct rut_parser *p)
{
	struct rut_node *n = rut_p_node(p, RUT_N_BLOCK, p->tok.span.pos), **tail;
	bool predicate = p->predicate;

	if (!n || !rut_p_enter(p))
		return NULL;
	if (!rut_p_is(p, '{'))
		return rut_p_error(p, "'{' is missing");
	p->predicate = false;
	rut_p_next(p);
	tail = &n->list;
	for (;;) {
		bool braced;

		while (rut_p_take(p, ';'))
			;
		if (rut_p_is(p, '}'))
			break;
		if (p->tok.kind == RUT_TOK_END)
			return rut_p_error(p, "'}' is missing: the block is not closed");
		*tail = parse_statement(p, &braced);
		if (!*tail)
			return NULL;
		tail = &(*tail)->next;
		if (!rut_p_is(p, ';') && !rut_p_is(p, '}') && !braced) {
			if (p->tok.kind == RUT_TOK_END)
				return rut_p_error(p, "'}' is missing: the block is not closed");
			return rut_p_error(p, "';' is missing before this");
		}
	}
	rut_p_next(p);
	p->predicate = predicate;
	p->depth--;
	return rut_p_close(p, n);
}

/* Probes */

/* The text of a name with $1 and its like replaced, without quotes but those that are escaped. */
static const char *spec_text(struct rut_parser *p, struct rut_span span)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	const char *s = p->lex.src->text + span.pos, *end = s + span.len;
	const char *ret;
	bool quoted = false;

	while (s < end) {
		quoted ^= *s == '"';
		if (quoted && *s == '\\' && s + 1 < end && (s[1] == '"' || s[1] == '\\')) {
			rut_buf_putc(&out, s[1]);
			s += 2;
		} else if (*s == '$' && s + 1 < end && isdigit((unsigned char)s[1])) {
			size_t i = 0;

			for (s++; s < end && isdigit((unsigned char)*s) && i < 100000; s++)
				i = i * 10 + (size_t)(*s - '0');
			if (i && i <= p->ast->nparams)
				rut_buf_puts(&out, p->ast->params[i - 1]);
		} else {
			if (*s != '"')
				rut_buf_putc(&out, *s);
			s++;
		}
	}
	ret = out.failed ? NULL
			 : rut_arena_strndup(&p->ast->arena, out.data ? out.data : "", out.len);
	return ret ? ret : rut_p_error(p, "the script is too large");
}

/* The names, behind each other with commas; the first one begins at the token. */
static struct rut_probe_spec *parse_specs(struct rut_parser *p)
{
	struct rut_probe_spec *first = NULL, **tail = &first;

	p->lex.pos = p->tok.span.pos;
	for (;;) {
		struct rut_span span = rut_lex_probe(&p->lex);

		if (!span.len) {
			rut_p_next(p);
			return rut_p_error(
				p, "a probe is expected here, as tracepoint:sched:sched_switch");
		}
		*tail = rut_p_alloc(p, sizeof(**tail));
		if (!*tail)
			return NULL;
		(*tail)->span = span;
		(*tail)->text = spec_text(p, span);
		if (!(*tail)->text)
			return NULL;
		tail = &(*tail)->next;
		rut_p_next(p);
		if (!rut_p_is(p, ','))
			return first;
		/* A comma may be the last: `a, { ... }`. */
		rut_lex_space(&p->lex);
		if (p->lex.pos < p->lex.src->len && p->lex.src->text[p->lex.pos] == '{') {
			rut_p_next(p);
			return first;
		}
	}
}

static struct rut_probe *parse_probe(struct rut_parser *p)
{
	struct rut_probe *probe = rut_p_alloc(p, sizeof(*probe));

	if (!probe)
		return NULL;
	probe->specs = parse_specs(p);
	if (!probe->specs)
		return NULL;
	if (rut_p_is(p, '/')) {
		rut_p_next(p);
		p->predicate = true;
		probe->predicate = rut_p_expr(p);
		p->predicate = false;
		if (!probe->predicate || !rut_p_want(p, '/', "the predicate"))
			return NULL;
	}
	probe->body = rut_p_block(p);
	return probe->body ? probe : NULL;
}

int rut_p_all(struct rut_parser *p)
{
	struct rut_probe **tail;
	const char *text = p->lex.src->text + p->lex.pos;

	/* "#!/usr/bin/..." */
	if (p->lex.src->len - p->lex.pos > 2 && !memcmp(text, "#!", 2)) {
		const char *end = strchr(text, '\n');

		p->lex.pos = end ? (uint32_t)(end - p->lex.src->text) : (uint32_t)p->lex.src->len;
	}
	rut_p_next(p);
	while (!p->failed && p->tok.kind != RUT_TOK_END) {
		int rc = rut_p_def(p);

		if (rc < 0)
			break;
		if (rc > 0)
			continue;
		for (tail = &p->ast->probes; *tail;)
			tail = &(*tail)->next;
		*tail = parse_probe(p);
		if (!*tail)
			break;
	}
	return p->failed ? -EINVAL : 0;
}

int rut_parse(struct rut_ast *ret, struct rut_source *src, const char *const *params,
	      size_t nparams)
{
	struct rut_parser p = {.ast = ret, .lex = {src, 0}};

	*ret = (struct rut_ast){.src = src, .params = params, .nparams = nparams};
	rut_arena_init(&ret->arena, 256u << 20);
	if (!rut_p_all(&p) && rut_prelude_add(&p))
		p.failed = true;
	if (!p.failed && !ret->probes)
		rut_p_error(&p, "the script has no probe");
	/* All positions of messages from here on are in the text with all files. */
	src->len = src->whole;
	return p.failed ? -EINVAL : 0;
}

void rut_ast_fini(struct rut_ast *ast)
{
	rut_arena_fini(&ast->arena);
}
