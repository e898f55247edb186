/* SPDX-License-Identifier: MIT */
/*
 * foreach ($k in @x- limit 10) { ... }: the keys of a map in the order of their values ("@x-", from
 * the largest; "@x+") or of themselves ("$k-", "$k+"), as SystemTap spells it; the name may stand
 * without "$". It becomes a call of a macro of prelude.c, which looks for the next one each time.
 */
#include <stdio.h>
#include <string.h>

#include "script/parse_priv.h"
#include "script/prelude.h"

enum { NO_LIMIT = 1 << 20 };

/* The sign behind a key or a map: '+', '-' or 0. */
static int take_sign(struct rut_parser *p)
{
	int sign = rut_p_is(p, '-') ? '-' : rut_p_is(p, '+') ? '+' : 0;

	if (sign)
		rut_p_next(p);
	return sign;
}

/* A name without "$" is the variable in the body. */
static void replace(struct rut_node *n, const char *name, const char *var)
{
	for (; n; n = n->next) {
		if (n->kind == RUT_N_NAME && n->text && !strcmp(n->text, name)) {
			n->kind = RUT_N_VAR;
			n->text = var;
		}
		replace(n->a, name, var);
		replace(n->b, name, var);
		replace(n->c, name, var);
		replace(n->d, name, var);
		replace(n->list, name, var);
	}
}

static struct rut_node *parse_variable(struct rut_parser *p, const char **ret_name)
{
	struct rut_node *v = rut_p_node(p, RUT_N_VAR, p->tok.span.pos);
	char text[128];

	*ret_name = NULL;
	if (!v)
		return NULL;
	if (p->tok.kind != RUT_TOK_VAR && p->tok.kind != RUT_TOK_NAME)
		return rut_p_error(p, "a variable is expected: foreach ($k in @map- limit 10)");
	v->text = rut_p_text(p, p->tok.span);
	if (p->tok.kind == RUT_TOK_NAME && v->text) {
		*ret_name = v->text;
		snprintf(text, sizeof(text), "$%s", v->text);
		v->text = rut_arena_strndup(&p->ast->arena, text, strlen(text));
	}
	rut_p_next(p);
	return rut_p_close(p, v);
}

static struct rut_node *parse_map_name(struct rut_parser *p)
{
	struct rut_node *m = rut_p_node(p, RUT_N_MAP, p->tok.span.pos);

	if (!m)
		return NULL;
	if (p->tok.kind != RUT_TOK_MAP)
		return rut_p_error(p, "a map is expected: foreach ($k in @map- limit 10)");
	m->text = rut_p_text(p, p->tok.span);
	rut_p_next(p);
	return rut_p_close(p, m);
}

static struct rut_node *parse_limit(struct rut_parser *p)
{
	struct rut_node *n;

	if (rut_p_is_name(p, "limit")) {
		rut_p_next(p);
		return rut_p_expr(p);
	}
	n = rut_p_node(p, RUT_N_INT, p->tok.span.pos);
	if (n)
		n->value = NO_LIMIT;
	return n;
}

/* The call: (map, map of the keys that were seen, variable, limit, body). */
static struct rut_node *make_call(struct rut_parser *p, uint32_t pos, const char *macro,
				  struct rut_node *args)
{
	struct rut_node *block = rut_p_node(p, RUT_N_BLOCK, pos), *let, *call, *seen;
	struct rut_node *map = args;
	char name[32];

	let = rut_p_node(p, RUT_N_LET, pos);
	call = rut_p_node(p, RUT_N_EXPR, pos);
	seen = rut_p_node(p, RUT_N_MAP, pos);
	if (!block || !let || !call || !seen)
		return NULL;
	call->a = rut_p_node(p, RUT_N_CALL, pos);
	let->a = rut_p_node(p, RUT_N_VAR, pos);
	if (!call->a || !let->a)
		return NULL;
	snprintf(name, sizeof(name), "@__seen%u", p->ast->nforeach++);
	seen->text = rut_arena_strndup(&p->ast->arena, name, strlen(name));
	seen->next = map->next;
	map->next = seen;
	call->a->text = macro;
	call->a->list = map;
	let->a->text = seen->next->text;
	let->next = call;
	block->list = let;
	rut_prelude_call(p->ast, call->a);
	rut_p_close(p, call->a);
	return rut_p_close(p, block);
}

struct rut_node *rut_p_foreach(struct rut_parser *p)
{
	static const char *const macros[2][2] = {{"__foreach_value_up", "__foreach_value_down"},
						 {"__foreach_key_up", "__foreach_key_down"}};
	uint32_t pos = p->tok.span.pos;
	struct rut_node *v, *m, *limit, *body;
	int by_key, by_value;
	const char *name;

	rut_p_next(p);
	if (!rut_p_want(p, '(', "foreach"))
		return NULL;
	v = parse_variable(p, &name);
	by_key = v ? take_sign(p) : 0;
	if (!v || !rut_p_is_name(p, "in"))
		return v ? rut_p_error(p, "'in' is expected: foreach ($k in @map- limit 10)")
			 : NULL;
	rut_p_next(p);
	m = parse_map_name(p);
	by_value = m ? take_sign(p) : 0;
	limit = m ? parse_limit(p) : NULL;
	if (!limit || !rut_p_want(p, ')', "the map"))
		return NULL;
	body = rut_p_block(p);
	if (!body)
		return NULL;
	if (name)
		replace(body->list, name, v->text);
	m->next = v;
	v->next = limit;
	limit->next = body;
	return make_call(p, pos, macros[by_key != 0][(by_key ? by_key : by_value) == '-'], m);
}
