/* SPDX-License-Identifier: MIT */
/*
 * Macros: a call of one becomes a copy of its block. Parameters are replaced by what was given;
 * other variables of the block get names of their own, so that they are not the caller's.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "script/macro.h"

enum { DEPTH_MAX = 64, NODES_MAX = 1000000 };

struct expansion {
	struct rut_ast *ast;
	const struct rut_macro *macro;
	const struct rut_node *args;
	unsigned number; /* of the expansion */
	unsigned *nodes;
};

static int expand_list(struct expansion *x, struct rut_node *n, unsigned depth);

static const struct rut_node *argument(const struct expansion *x, const struct rut_node *n)
{
	const struct rut_node *a = x->args;

	for (const struct rut_node *p = x->macro->params; p && a; p = p->next, a = a->next)
		if (p->kind == n->kind && !strcmp(p->text, n->text))
			return a;
	return NULL;
}

static struct rut_node *copy_list(struct expansion *x, const struct rut_node *n, bool replace);

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
	if (given)
		c->text = given->text;
	else if (replace && n->kind == RUT_N_VAR) {
		snprintf(name, sizeof(name), "%s#%u", n->text, x->number);
		c->text = rut_arena_strndup(a, name, strlen(name));
	}
	c->next = NULL;
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

static const struct rut_macro *find(const struct rut_ast *ast, const char *name)
{
	for (const struct rut_macro *m = ast->macros; m; m = m->next)
		if (!strcmp(m->name, name))
			return m;
	return NULL;
}

static int check_args(struct expansion *x, const struct rut_node *call)
{
	const struct rut_node *p = x->macro->params, *a = call->list;

	for (; p && a; p = p->next, a = a->next)
		if (p->kind != RUT_N_NAME && p->kind != a->kind)
			return rut_source_error(
				x->ast->src, a->span, "%s() wants a %s here", x->macro->name,
				p->kind == RUT_N_MAP ? "map (@x)" : "variable ($x)");
	if (p || a)
		return rut_source_error(x->ast->src, call->span, "%s() is given too %s arguments",
					x->macro->name, p ? "few" : "many");
	return 0;
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
	inner.macro = n->kind == RUT_N_CALL ? find(x->ast, n->text) : NULL;
	if (inner.macro) {
		inner.args = n->list;
		inner.number = ++*x->nodes;
		rc = check_args(&inner, n);
		if (rc)
			return rc;
		block = copy(&inner, inner.macro->body, true);
		if (!block)
			return rut_source_error(x->ast->src, n->span,
						"the macros make too much code");
		block->span = n->span;
		block->next = next;
		block->label = label;
		*n = *block;
		depth++;
	}
	rc = n->a ? expand(x, n->a, depth) : 0;
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
