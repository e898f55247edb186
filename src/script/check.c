/* SPDX-License-Identifier: MIT */
/* The checker of statements. */
#include "script/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct rut_type *rut_check_error(struct rut_checker *c, const struct rut_node *n,
				       const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (!c->loud)
		return NULL;
	c->failed = true;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	rut_source_error(c->src, n->span, "%s", text);
	for (const struct rut_expanded *e = n->from; e; e = e->outer)
		rut_source_note(c->src, e->span, "expanded from");
	return NULL;
}

const struct rut_type *rut_check_int(struct rut_checker *c, struct rut_node *n, const char *what)
{
	const struct rut_type *t = rut_check_expr(c, n);
	_cleanup_buf_ struct rut_buf buf = RUT_BUF_INIT;

	if (!t || rut_type_is_int(t))
		return t;
	return rut_check_error(c, n, "%s must be an integer, not %s", what, rut_type_text(t, &buf));
}

/* Something that is true or false. */
static void check_condition(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t = rut_check_expr(c, n);
	_cleanup_buf_ struct rut_buf buf = RUT_BUF_INIT;

	if (t && !rut_type_is_scalar(t))
		rut_check_error(c, n, "a condition must be an integer or a pointer, not %s",
				rut_type_text(t, &buf));
}

/* What a variable or the value of a map keeps of it: integers as 64 bits. */
static const struct rut_type *kept(const struct rut_type *t)
{
	return t->kind == RUT_T_INT ? rut_type_int(8, t->is_signed) : t;
}

static struct rut_sym *find_sym(struct rut_checker *c, const char *name, bool closed)
{
	for (struct rut_sym *s = c->syms; s; s = s->next)
		if ((closed || !s->closed) && !strcmp(s->name, name))
			return s;
	return NULL;
}

static struct rut_sym *new_sym(struct rut_checker *c, struct rut_node *n)
{
	struct rut_sym *s = n->sym;

	/* The same variable in each pass, so that what was learnt of it stays. */
	if (!s || strcmp(s->name, n->text) != 0 || s->epoch != c->epoch) {
		s = rut_arena_alloc(c->arena, sizeof(*s));
		if (!s)
			return NULL;
		s->name = n->text;
		s->epoch = c->epoch;
	}
	s->closed = false;
	s->placed = false;
	s->reg = 0;
	s->next = c->syms;
	c->syms = s;
	n->sym = s;
	return s;
}

static void assign_var(struct rut_checker *c, struct rut_node *n, const struct rut_type *t)
{
	struct rut_sym *s = find_sym(c, n->text, false);
	const struct rut_type *join;
	_cleanup_buf_ struct rut_buf a = RUT_BUF_INIT, b = RUT_BUF_INIT;

	if (!s) {
		s = find_sym(c, n->text, true);
		/* One of a block that has ended is reused if possible. */
		if (s && t && s->type && s->type->kind != t->kind)
			s = NULL;
	}
	if (!s || (s->closed && !s->type))
		s = new_sym(c, n);
	if (!s || !t)
		return;
	s->closed = false;
	n->sym = s;
	if (t->kind == RUT_T_VOID || rut_type_is_agg(t)) {
		rut_check_error(c, n, "%s cannot be kept in a variable", rut_type_text(t, &a));
		return;
	}
	if (s->declared && s->type && rut_type_is_int(s->type) && rut_type_is_int(t))
		return;
	join = s->type ? rut_type_join(c->arena, s->type, t) : t;
	if (!join) {
		rut_check_error(c, n, "%s holds %s and cannot be given %s", n->text,
				rut_type_text(s->type, &a), rut_type_text(t, &b));
		return;
	}
	/* The declaration does not say where a pointer points to: its first value does. */
	if (s->declared && !s->aimed && join->kind == RUT_T_POINTER && t->kind == RUT_T_POINTER) {
		s->aimed = true;
		s->type = n->type = join->user == t->user
					    ? join
					    : rut_type_pointer(c->arena, join->elem, t->user);
		return;
	}
	c->learnt += s->type != join;
	s->type = join;
	n->type = join;
}

static bool is_agg_call(const struct rut_node *n)
{
	const struct rut_call *call = n->kind == RUT_N_CALL ? rut_call_find(n->text) : NULL;

	return call && call->use & RUT_CALL_ASSIGN;
}

static void check_compound(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t, *v;

	/* @x += 1 gives a new map its type; a variable must be there. */
	if (n->a->kind == RUT_N_MAP) {
		rut_check_map(c, n->a);
		v = rut_check_int(c, n->b, "the value");
		if (v && (n->op == '+' || n->op == '-') && rut_check_map_pointer(c, n->a))
			return;
		if (v)
			rut_check_map_value(c, n->a, rut_type_int(8, v->is_signed), n->a);
		return;
	}
	t = rut_check_expr(c, n->a);
	v = rut_check_int(c, n->b, "the value");
	if (t && v && !rut_type_is_int(t) && t->kind != RUT_T_POINTER)
		rut_check_error(c, n->a, "only integers can be calculated with");
}

/* @ = { ...; avg($x) }: the assignment becomes the last statement of the block. */
static bool moved_into_block(struct rut_node *n)
{
	struct rut_node *last = n->b->kind == RUT_N_BLOCK ? n->b->list : NULL;

	while (last && last->next)
		last = last->next;
	if (!last || last->kind != RUT_N_EXPR || !is_agg_call(last->a))
		return false;
	last->kind = RUT_N_ASSIGN;
	last->op = 0;
	last->b = last->a;
	last->a = n->a;
	n->kind = RUT_N_BLOCK;
	n->list = n->b->list;
	return true;
}

static void check_assign(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t;

	if (!n->op && n->a->kind == RUT_N_MAP && moved_into_block(n)) {
		rut_check_block(c, n);
		return;
	}

	if (n->op) {
		check_compound(c, n);
		return;
	}
	if (is_agg_call(n->b)) {
		if (n->a->kind != RUT_N_MAP) {
			rut_check_error(c, n->b, "%s() can only be assigned to a map (@x)",
					n->b->text);
			return;
		}
		c->assigned_map = n->a;
		rut_check_map(c, n->a);
		t = rut_check_expr(c, n->b);
		c->assigned_map = NULL;
		if (t)
			rut_check_map_value(c, n->a, t, n->b);
		return;
	}
	t = rut_check_expr(c, n->b);
	if (n->a->kind == RUT_N_VAR) {
		assign_var(c, n->a, t);
		return;
	}
	rut_check_map(c, n->a);
	if (t && t->kind == RUT_T_VOID)
		rut_check_error(c, n->b, "this has no value");
	else if (t)
		rut_check_map_value(c, n->a, kept(t), n->b);
}

static void check_let(struct rut_checker *c, struct rut_node *n)
{
	struct rut_sym *s;
	const struct rut_type *t = n->b ? rut_check_expr(c, n->b) : NULL;

	s = new_sym(c, n->a);
	if (!s)
		return;
	if (n->type_name) {
		s->type = rut_check_type(c, n->type_name, n);
		s->declared = true;
		s->aimed = false;
	}
	if (t)
		assign_var(c, n->a, t);
}

static void close_scope(struct rut_checker *c, const struct rut_sym *outer)
{
	for (struct rut_sym *s = c->syms; s && s != outer; s = s->next)
		s->closed = true;
}

static void check_for(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *a, *b;
	struct rut_sym *outer = c->syms, *s;

	if (!n->c) {
		rut_check_for_map(c, n);
		return;
	}
	a = rut_check_int(c, n->b, "the begin of the range");
	b = rut_check_int(c, n->c, "the end of the range");
	s = new_sym(c, n->a);
	if (!s)
		return;
	if (a && b)
		s->type = rut_type_int(8, true);
	n->a->type = s->type;
	c->loops++;
	rut_check_block(c, n->d);
	c->loops--;
	close_scope(c, outer);
}

static bool calls_fail(const struct rut_node *n)
{
	for (; n; n = n->next)
		if ((n->kind == RUT_N_CALL && !strcmp(n->text, "fail")) || calls_fail(n->a) ||
		    calls_fail(n->b) || calls_fail(n->c) || calls_fail(n->d) || calls_fail(n->list))
			return true;
	return false;
}

/* A fail() that a constant condition excludes says nothing; all else has types there, too. */
static void drop_dead(struct rut_node *n)
{
	if (n->a->kind != RUT_N_INT)
		return;
	if (n->a->value && calls_fail(n->c))
		n->c = NULL;
	else if (!n->a->value && calls_fail(n->b->list))
		n->b->list = NULL;
}

static void check_if(struct rut_checker *c, struct rut_node *n)
{
	check_condition(c, n->a);
	drop_dead(n);
	rut_check_block(c, n->b);
	if (n->c && n->c->kind == RUT_N_IF)
		check_if(c, n->c);
	else if (n->c)
		rut_check_block(c, n->c);
}

static void check_loop(struct rut_checker *c, struct rut_node *n)
{
	int64_t count;

	if (n->kind == RUT_N_WHILE) {
		check_condition(c, n->a);
	} else {
		rut_check_int(c, n->a, "the number of iterations");
		if (c->loud && (!rut_literal_int(n->a, &count) || count < 1 || count > 100))
			rut_check_error(c, n->a,
					count > 100 ? "unroll maximum value is 100"
					: !count    ? "unroll minimum value is 1"
						    : "unroll takes a constant from 1 to 100");
	}
	c->loops++;
	rut_check_block(c, n->b);
	c->loops--;
}

/* A value that is only calculated for what it does, as a statement. */
static struct rut_node *as_block(struct rut_checker *c, struct rut_node *value)
{
	struct rut_node *list = rut_arena_alloc(c->arena, 2 * sizeof(*list));

	if (!list)
		return NULL;
	list[0].kind = RUT_N_BLOCK;
	list[1].kind = RUT_N_EXPR;
	list[0].span = list[1].span = value->span;
	list[1].a = value;
	list[0].list = &list[1];
	return list;
}

static void check_expr_statement(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_call *call;

	if (n->op == RUT_EXPR_DISCARD) {
		rut_check_expr(c, n->a);
		return;
	}
	if (n->a->kind == RUT_N_TERNARY) {
		n->kind = RUT_N_IF;
		n->b = as_block(c, n->a->b);
		n->c = as_block(c, n->a->c);
		n->a = n->a->a;
		check_if(c, n);
		return;
	}
	if (n->a->kind == RUT_N_BLOCK) {
		rut_check_block(c, n->a);
		n->a->type = rut_type_simple(RUT_T_VOID);
		return;
	}
	if (n->a->kind == RUT_N_CALL) {
		call = rut_call_find(n->a->text);
		if (call && !(call->use & RUT_CALL_STATEMENT)) {
			rut_check_error(
				c, n->a,
				call->use & RUT_CALL_ASSIGN
					? "the result of %s() must be assigned to a map: @ = "
					  "%s(...)"
					: "the value of %s() is not used; %s() does nothing else",
				n->a->text, n->a->text);
			return;
		}
		c->is_statement = true;
	}
	rut_check_expr(c, n->a);
	c->is_statement = false;
}

static void check_statement(struct rut_checker *c, struct rut_node *n)
{
	switch (n->kind) {
	case RUT_N_ASSIGN:
		check_assign(c, n);
		break;
	case RUT_N_LET:
		check_let(c, n);
		break;
	case RUT_N_IF:
		check_if(c, n);
		break;
	case RUT_N_WHILE:
	case RUT_N_UNROLL:
		check_loop(c, n);
		break;
	case RUT_N_FOR:
		check_for(c, n);
		break;
	case RUT_N_BREAK:
	case RUT_N_CONTINUE:
		if (!c->loops)
			rut_check_error(c, n, "there is no loop here to leave");
		break;
	case RUT_N_RETURN:
		if (n->a)
			rut_check_int(c, n->a, "the returned value");
		break;
	case RUT_N_BLOCK:
		rut_check_block(c, n);
		break;
	default:
		check_expr_statement(c, n);
		break;
	}
}

/* Nothing behind it is executed. */
static bool leaves(const struct rut_node *n)
{
	if (n->kind == RUT_N_EXPR && n->a->kind == RUT_N_CALL && !strcmp(n->a->text, "exit"))
		return true;
	return n->kind == RUT_N_RETURN || n->kind == RUT_N_BREAK || n->kind == RUT_N_CONTINUE;
}

/* Once, however many programs are made of the probe. */
static void warn_unreachable(struct rut_checker *c, struct rut_node *n)
{
	if (!c->loud || !n->next || n->next->warned || !leaves(n))
		return;
	n->next->warned = true;
	rut_source_warn(c->src, n->next->span,
			c->src->as_bpftrace ? "Unreachable statement."
					    : "this is never reached: the statement before leaves");
}

void rut_check_block(struct rut_checker *c, struct rut_node *block)
{
	struct rut_sym *outer = c->syms;

	for (struct rut_node *n = block->list; n; n = n->next) {
		check_statement(c, n);
		warn_unreachable(c, n);
	}
	close_scope(c, outer);
}

/* An `if` at the end of a block that has a value is that value. */
static void become_value(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *value = rut_arena_alloc(c->arena, sizeof(*value));

	if (!value)
		return;
	*value = *n;
	value->next = NULL;
	n->kind = RUT_N_EXPR;
	n->a = value;
	n->b = n->c = NULL;
}

const struct rut_type *rut_check_block_value(struct rut_checker *c, struct rut_node *block)
{
	struct rut_sym *outer = c->syms;
	const struct rut_type *t = NULL;
	struct rut_node *n = block->list;

	for (; n && n->next; n = n->next)
		check_statement(c, n);
	if (n && n->kind == RUT_N_IF && n->c)
		become_value(c, n);
	if (!n || n->kind != RUT_N_EXPR)
		rut_check_error(c, block, "the last statement of the block must be a value");
	else
		t = rut_check_expr(c, n->a);
	close_scope(c, outer);
	return t;
}

struct rut_sym *rut_check_find_var(struct rut_checker *c, const char *name)
{
	struct rut_sym *s = find_sym(c, name, false);

	return s ? s : find_sym(c, name, true);
}

struct rut_sym *rut_check_new_var(struct rut_checker *c, struct rut_node *n)
{
	return new_sym(c, n);
}

void rut_check_close(struct rut_checker *c, const struct rut_sym *outer)
{
	close_scope(c, outer);
}

void rut_check_probe(struct rut_checker *c, struct rut_probe *p)
{
	c->syms = NULL;
	c->loops = 0;
	if (p->predicate)
		check_condition(c, p->predicate);
	rut_check_block(c, p->body);
}
