/* SPDX-License-Identifier: MIT */
/*
 * The maps of a script. A map has the key and value of its uses in all probes; passes go on until
 * nothing new is learnt of any.
 */
#include <stdlib.h>
#include <string.h>

#include "script/check.h"

static struct rut_script_map *find_map(struct rut_checker *c, const struct rut_node *n, int *ret)
{
	struct rut_script_program *p = c->prog;
	struct rut_script_map *maps;

	for (size_t i = 0; i < p->nmaps; i++) {
		if (!strcmp(p->maps[i].name, n->text)) {
			*ret = (int)i;
			return &p->maps[i];
		}
	}
	maps = realloc(p->maps, (p->nmaps + 1) * sizeof(*maps));
	if (!maps)
		return NULL;
	p->maps = maps;
	maps[p->nmaps] = (struct rut_script_map){.name = n->text, .fd = -1};
	rut_source_where(c->src, n->span.pos, &maps[p->nmaps].line, &maps[p->nmaps].column);
	*ret = (int)p->nmaps;
	c->learnt++;
	return &maps[p->nmaps++];
}

void rut_check_map_name(struct rut_checker *c, struct rut_node *n)
{
	n->index = -1;
	for (size_t i = 0; i < c->prog->nmaps; i++)
		if (!strcmp(c->prog->maps[i].name, n->text))
			n->index = (int)i;
}

static const struct rut_type *kept_key(const struct rut_type *t)
{
	return rut_type_is_int(t) && t->kind != RUT_T_ENUM && t->kind != RUT_T_BOOL
		       ? rut_type_int(8, t->is_signed)
		       : t;
}

struct rut_script_map *rut_check_map(struct rut_checker *c, struct rut_node *n)
{
	_cleanup_buf_ struct rut_buf a = RUT_BUF_INIT, b = RUT_BUF_INIT;
	const struct rut_type *key = NULL, *join;
	struct rut_script_map *m;

	if (n->a) {
		key = rut_check_expr(c, n->a);
		if (!key)
			return NULL;
		if (key->kind == RUT_T_VOID || rut_type_is_agg(key)) {
			rut_check_error(c, n->a, "%s cannot be a key", rut_type_text(key, &a));
			return NULL;
		}
		key = kept_key(key);
	}
	m = find_map(c, n, &n->index);
	if (!m)
		return NULL;
	if (!m->uses) {
		m->uses = 1;
		m->key = key;
		c->learnt++;
		return m;
	}
	if (!m->key != !key) {
		rut_check_error(c, n,
				key ? "%s is used without a key elsewhere"
				    : "%s has a key elsewhere: %s[...]",
				n->text, n->text);
		return NULL;
	}
	if (!key)
		return m;
	join = rut_type_join(c->arena, m->key, key);
	if (!join) {
		rut_check_error(c, n, "the key of %s is %s, not %s", n->text,
				rut_type_text(m->key, &a), rut_type_text(key, &b));
		return NULL;
	}
	c->learnt += join != m->key;
	m->key = join;
	return m;
}

const struct rut_type *rut_check_map_value(struct rut_checker *c, struct rut_node *map,
					   const struct rut_type *t, const struct rut_node *at)
{
	_cleanup_buf_ struct rut_buf a = RUT_BUF_INIT, b = RUT_BUF_INIT;
	struct rut_script_map *m = map->index >= 0 ? &c->prog->maps[map->index] : NULL;
	const struct rut_type *join;

	if (!m)
		return NULL;
	join = m->value ? rut_type_join(c->arena, m->value, t) : t;
	if (!join)
		return rut_check_error(c, at, "%s holds %s, not %s", m->name,
				       rut_type_text(m->value, &a), rut_type_text(t, &b));
	c->learnt += join != m->value;
	m->value = join;
	map->type = join;
	return join;
}

bool rut_check_map_pointer(struct rut_checker *c, struct rut_node *map)
{
	const struct rut_script_map *m = map->index >= 0 ? &c->prog->maps[map->index] : NULL;

	if (!m || !m->value || m->value->kind != RUT_T_POINTER)
		return false;
	map->type = m->value;
	return true;
}

/* for ($kv : @m): a tuple of the key and the value; of the key alone where that is no number. */
void rut_check_for_map(struct rut_checker *c, struct rut_node *n)
{
	struct rut_type_field fields[2] = {0};
	const struct rut_sym *outer = c->syms;
	const struct rut_script_map *m;
	struct rut_sym *s;

	if (n->b->kind != RUT_N_MAP || n->b->a) {
		rut_check_error(c, n->b, "for goes over a range (0..10) or a map (@x)");
		return;
	}
	rut_check_map_name(c, n->b);
	m = n->b->index >= 0 ? &c->prog->maps[n->b->index] : NULL;
	if (!m || !m->value) {
		rut_check_error(c, n->b, "nothing is ever assigned to %s", n->b->text);
		return;
	}
	if (!m->key) {
		rut_check_error(c, n->b, "%s has no keys to go over", n->b->text);
		return;
	}
	s = rut_check_new_var(c, n->a);
	if (!s)
		return;
	fields[0].type = m->key;
	fields[1].type =
		rut_type_is_agg(m->value) ? rut_type_int(8, m->value->is_signed) : m->value;
	s->keys_of = rut_type_has_number(m->value) ? NULL : m->name;
	s->type = rut_type_tuple(c->arena, RUT_T_TUPLE, fields, s->keys_of ? 1 : 2);
	n->a->type = s->type;
	c->loops++;
	rut_check_block(c, n->d);
	c->loops--;
	rut_check_close(c, outer);
}
