/* SPDX-License-Identifier: MIT */
/*
 * Macros: a call of one becomes a copy of its block. Parameters are replaced by what was given;
 * other variables of the block get names of their own, so that they are not the caller's.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "script/check.h"
#include "script/macro.h"

enum { DEPTH_MAX = 64, NODES_MAX = 1000000 };

struct expansion {
	struct rut_ast *ast;
	const struct rut_macro *macro;
	const struct rut_node *args;
	unsigned number; /* of the expansion */
	const struct rut_expanded *from;
	unsigned *nodes;
};

static int expand_list(struct expansion *x, struct rut_node *n, unsigned depth);

static const struct rut_node *argument(const struct expansion *x, const struct rut_node *n)
{
	const struct rut_node *a = x->macro->is_fn ? NULL : x->args;

	for (const struct rut_node *p = x->macro->params; p && a; p = p->next, a = a->next)
		if (p->kind == n->kind && !strcmp(p->text, n->text))
			return a;
	return NULL;
}

static struct rut_node *copy_list(struct expansion *x, const struct rut_node *n, bool replace);
static struct rut_node *copy(struct expansion *x, const struct rut_node *n, bool replace);

/* A type that is named by a parameter is the one that was given, with what stands behind it. */
static struct rut_type_name *copy_type(struct expansion *x, const struct rut_type_name *t,
				       bool replace)
{
	struct rut_node name = {.kind = RUT_N_NAME, .text = t ? t->text : NULL};
	const struct rut_node *given = NULL;
	struct rut_type_name *c = t ? rut_arena_alloc(&x->ast->arena, sizeof(*c)) : NULL;

	if (!c)
		return NULL;
	*c = *t;
	if (replace && !t->of)
		given = argument(x, &name);
	if (given && given->kind == RUT_N_TYPE) {
		*c = *given->type_name;
		for (unsigned i = 0; i < t->nmods && c->nmods < RUT_TYPE_MODS; i++)
			c->mods[c->nmods++] = t->mods[i];
		return c;
	}
	if (t->of && replace && t->of->kind == RUT_N_NAME) {
		given = argument(x, t->of);
		if (given && given->kind == RUT_N_TYPE) {
			*c = *given->type_name;
			return c;
		}
	}
	c->of = copy(x, t->of, replace);
	return c;
}

/* A copy of one node; what is given for parameters is copied as it is. */
static struct rut_node *copy(struct expansion *x, const struct rut_node *n, bool replace)
{
	struct rut_arena *a = &x->ast->arena;
	const struct rut_node *given = NULL;
	struct rut_node *c;
	char name[160];

	if (!n || ++*x->nodes > NODES_MAX)
		return NULL;
	if (replace && (n->kind == RUT_N_VAR || n->kind == RUT_N_MAP || n->kind == RUT_N_NAME))
		given = argument(x, n);
	if (given && !(n->kind == RUT_N_MAP && n->a))
		return copy(x, given, false);
	c = rut_arena_alloc(a, sizeof(*c));
	if (!c)
		return NULL;
	*c = *n;
	if (replace)
		c->from = x->from;
	if (given)
		c->text = given->text;
	else if (replace && n->kind == RUT_N_VAR) {
		snprintf(name, sizeof(name), "%s#%u", n->text, x->number);
		c->text = rut_arena_strndup(a, name, strlen(name));
	}
	c->next = NULL;
	c->type_name = copy_type(x, n->type_name, replace);
	c->a = copy(x, n->a, replace);
	c->b = copy(x, n->b, replace);
	c->c = copy(x, n->c, replace);
	c->d = copy(x, n->d, replace);
	c->list = copy_list(x, n->list, replace);
	return c;
}

static struct rut_node *copy_list(struct expansion *x, const struct rut_node *n, bool replace)
{
	struct rut_node *first = NULL, **tail = &first;

	for (; n; n = n->next) {
		*tail = copy(x, n, replace);
		if (!*tail)
			break;
		tail = &(*tail)->next;
	}
	return first;
}

/*
 * Functions. A call becomes
 *
 *	{ let $a : int64 = A; let $result : int64; let $done; unroll(1) { BODY } $result }
 *
 * where `return V` of the body is { $result = V; $done = 1; break; }, and is looked for behind
 * each loop of the body, which that `break` would only leave.
 */

static struct rut_node *make(struct expansion *x, enum rut_node_kind kind)
{
	static struct rut_node none;
	struct rut_node *n = rut_arena_alloc(&x->ast->arena, sizeof(*n));

	if (!n) {
		*x->nodes = NODES_MAX + 1;
		return &none;
	}
	n->kind = kind;
	n->span = x->macro->span;
	n->from = x->from;
	n->index = -1;
	++*x->nodes;
	return n;
}

static struct rut_node *make_var(struct expansion *x, const char *name)
{
	struct rut_node *n = make(x, RUT_N_VAR);
	char text[160];

	snprintf(text, sizeof(text), "%s#%u", name, x->number);
	n->text = rut_arena_strndup(&x->ast->arena, text, strlen(text));
	return n;
}

static struct rut_node *make_int(struct expansion *x, uint64_t value)
{
	struct rut_node *n = make(x, RUT_N_INT);

	n->value = value;
	return n;
}

static struct rut_node *make_let(struct expansion *x, const char *name, struct rut_type_name *type,
				 struct rut_node *value)
{
	struct rut_node *n = make(x, RUT_N_LET);

	n->a = make_var(x, name);
	n->type_name = type;
	n->b = value;
	return n;
}

static struct rut_node *make_assign(struct expansion *x, const char *name, struct rut_node *value)
{
	struct rut_node *n = make(x, RUT_N_ASSIGN);

	n->a = make_var(x, name);
	n->b = value;
	return n;
}

static bool is_loop(const struct rut_node *n)
{
	return n->kind == RUT_N_WHILE || n->kind == RUT_N_FOR || n->kind == RUT_N_UNROLL;
}

/* Replaces the returns of a list of statements; true: there were some. */
static bool replace_returns(struct expansion *x, struct rut_node *n)
{
	bool any = false, here;

	for (; n; n = n->next) {
		if (n->kind == RUT_N_RETURN) {
			struct rut_node *value = n->a, *done, *next = n->next;

			n->kind = RUT_N_BLOCK;
			n->a = NULL;
			done = make_assign(x, "$(done)", make_int(x, 1));
			done->next = make(x, RUT_N_BREAK);
			n->list = done;
			if (value) {
				n->list = make_assign(x, "$(result)", value);
				n->list->next = done;
			}
			n->next = next;
			any = true;
			continue;
		}
		here = n->list && n->kind == RUT_N_BLOCK && replace_returns(x, n->list);
		if (n->kind == RUT_N_IF || is_loop(n)) {
			here |= n->b && replace_returns(x, n->b);
			here |= n->c && replace_returns(x, n->c);
			here |= n->d && replace_returns(x, n->d);
		}
		any |= here;
		if (here && is_loop(n)) {
			struct rut_node *test = make(x, RUT_N_IF);

			test->a = make_var(x, "$(done)");
			test->b = make(x, RUT_N_BLOCK);
			test->b->list = make(x, RUT_N_BREAK);
			test->next = n->next;
			n->next = test;
			n = test;
		}
	}
	return any;
}

/* The value of a body without `return` is that of its last statement, if that has one. */
static void return_last(struct expansion *x, struct rut_node *body)
{
	struct rut_node *last = body->list;

	while (last && last->next)
		last = last->next;
	if (!last || last->kind != RUT_N_EXPR || last->op || !x->macro->result)
		return;
	last->kind = RUT_N_RETURN;
}

static bool has_value(const struct rut_node *n)
{
	for (; n; n = n->next)
		if ((n->kind == RUT_N_RETURN && n->a) ||
		    (n->kind == RUT_N_BLOCK && has_value(n->list)) ||
		    ((n->kind == RUT_N_IF || is_loop(n)) &&
		     (has_value(n->b) || has_value(n->c) || has_value(n->d))))
			return true;
	return false;
}

static struct rut_node *call_function(struct expansion *x)
{
	struct rut_node *block = make(x, RUT_N_BLOCK), **tail = &block->list, *body, *once;
	const struct rut_node *arg = x->args;
	bool value;

	for (const struct rut_node *p = x->macro->params; p; p = p->next, arg = arg->next) {
		*tail = make_let(x, p->text, p->type_name, copy(x, arg, false));
		tail = &(*tail)->next;
	}
	body = copy(x, x->macro->body, true);
	if (!body)
		return NULL;
	return_last(x, body);
	value = has_value(body->list);
	if (value) {
		*tail = make_let(x, "$(result)", x->macro->result, NULL);
		tail = &(*tail)->next;
	}
	if (replace_returns(x, body->list)) {
		*tail = make_let(x, "$(done)", NULL, make_int(x, 0));
		tail = &(*tail)->next;
	}
	once = make(x, RUT_N_UNROLL);
	once->a = make_int(x, 1);
	once->b = body;
	*tail = once;
	if (value) {
		once->next = make(x, RUT_N_EXPR);
		once->next->a = make_var(x, "$(result)");
	}
	return *x->nodes > NODES_MAX ? NULL : block;
}

static bool fits(const struct rut_macro *m, const struct rut_node *args)
{
	const struct rut_node *p = m->params, *a = args;

	for (; p && a; p = p->next, a = a->next)
		if (p->kind != RUT_N_NAME && p->kind != a->kind && !m->is_fn)
			return false;
	return !p && !a;
}

/* Of several macros of a name the one with parameters that fit; else any, for the message. */
static const struct rut_macro *find(const struct rut_ast *ast, const char *name,
				    const struct rut_node *args)
{
	const struct rut_macro *any = NULL;

	for (const struct rut_macro *m = ast->macros; m; m = m->next) {
		if (strcmp(m->name, name) != 0)
			continue;
		if (fits(m, args))
			return m;
		any = m;
	}
	/* cpu(x) of the script leaves cpu() as it is. */
	return rut_call_find(name) || rut_builtin_find(name) ? NULL : any;
}

static int check_args(struct expansion *x, const struct rut_node *call)
{
	const struct rut_node *p = x->macro->params, *a = call->list;

	for (; p && a; p = p->next, a = a->next)
		if (p->kind != RUT_N_NAME && p->kind != a->kind && !x->macro->is_fn)
			return rut_source_error(
				x->ast->src, a->span, "%s() wants a %s here", x->macro->name,
				p->kind == RUT_N_MAP ? "map (@x)" : "variable ($x)");
	if (p || a)
		return rut_source_error(x->ast->src, call->span, "%s() is given too %s arguments",
					x->macro->name, p ? "few" : "many");
	return 0;
}

/* A macro without parameters may be named alone. */
static const struct rut_macro *called(const struct rut_ast *ast, const struct rut_node *n)
{
	const struct rut_macro *m;

	if (n->kind == RUT_N_CALL)
		return find(ast, n->text, n->list);
	if (n->kind != RUT_N_NAME || !n->text)
		return NULL;
	m = find(ast, n->text, NULL);
	return m && !m->params ? m : NULL;
}

static const struct rut_expanded *call_of(struct expansion *x, const struct rut_node *n)
{
	struct rut_expanded *e = rut_arena_alloc(&x->ast->arena, sizeof(*e));

	if (e)
		*e = (struct rut_expanded){n->span, n->from};
	return e;
}

static int expand(struct expansion *x, struct rut_node *n, unsigned depth)
{
	struct expansion inner = *x;
	struct rut_node *next = n->next, *block;
	const char *label = n->label;
	int rc;

	if (depth > DEPTH_MAX)
		return rut_source_error(x->ast->src, n->span,
					"macros are nested too deeply, or call "
					"themselves");
	inner.macro = called(x->ast, n);
	if (inner.macro) {
		inner.args = n->kind == RUT_N_CALL ? n->list : NULL;
		inner.number = ++*x->nodes;
		inner.from = call_of(x, n);
		rc = check_args(&inner, n);
		if (rc)
			return rc;
		block = inner.macro->is_fn ? call_function(&inner)
					   : copy(&inner, inner.macro->body, true);
		if (!block || *x->nodes > NODES_MAX)
			return rut_source_error(x->ast->src, n->span,
						"the macros make too much code");
		block->span = n->span;
		block->from = n->from;
		block->next = next;
		block->label = label;
		*n = *block;
		depth++;
	}
	rc = n->type_name && n->type_name->of ? expand(x, n->type_name->of, depth) : 0;
	if (!rc && n->a)
		rc = expand(x, n->a, depth);
	if (!rc && n->b)
		rc = expand(x, n->b, depth);
	if (!rc && n->c)
		rc = expand(x, n->c, depth);
	if (!rc && n->d)
		rc = expand(x, n->d, depth);
	return rc ? rc : expand_list(x, n->list, depth);
}

static int expand_list(struct expansion *x, struct rut_node *n, unsigned depth)
{
	int rc = 0;

	for (; n && !rc; n = n->next)
		rc = expand(x, n, depth);
	return rc;
}

int rut_macro_expand(struct rut_ast *ast)
{
	unsigned nodes = 0;
	struct expansion x = {.ast = ast, .nodes = &nodes};
	int rc = 0;

	if (!ast->macros)
		return 0;
	for (struct rut_probe *p = ast->probes; p && !rc; p = p->next) {
		if (p->predicate)
			rc = expand(&x, p->predicate, 0);
		if (!rc)
			rc = expand(&x, p->body, 0);
	}
	return rc;
}
