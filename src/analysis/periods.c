/* SPDX-License-Identifier: MIT */
#include "analysis/periods.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Fields of CTF events, for expressions ---- */

static int find_field(const void *cls, enum rut_expr_scope scope, const char *path,
		      struct rut_expr_field *ret)
{
	static const uint8_t scopes[] = {
		[RUT_EXPR_AUTO] = RUT_CTF_SCOPE_ANY,
		[RUT_EXPR_PAYLOAD] = RUT_CTF_SCOPE_PAYLOAD,
		[RUT_EXPR_CTX] = RUT_CTF_SCOPE_EVENT_CONTEXT,
		[RUT_EXPR_STREAM_CTX] = RUT_CTF_SCOPE_STREAM_CONTEXT,
		[RUT_EXPR_HEADER] = RUT_CTF_SCOPE_EVENT_HEADER,
		[RUT_EXPR_PKT_CTX] = RUT_CTF_SCOPE_PACKET_CONTEXT,
		[RUT_EXPR_PKT_HEADER] = RUT_CTF_SCOPE_PACKET_HEADER,
	};
	struct rut_ctf_ref ref;

	if (!rut_ctf_ref_find(cls, (enum rut_ctf_scope)scopes[scope], path, &ref))
		return -ENOENT;
	_Static_assert(sizeof(ref) <= sizeof(ret->bytes), "a reference fits");
	memcpy(ret->bytes, &ref, sizeof(ref));
	return 0;
}

static bool load_field(const void *event, const struct rut_expr_field *field,
		       struct rut_expr_val *ret)
{
	struct rut_ctf_ref ref;
	struct rut_ctf_value v;

	memcpy(&ref, field->bytes, sizeof(ref));
	switch (ref.load) {
	case RUT_CTF_LOAD_U8:
	case RUT_CTF_LOAD_U16:
	case RUT_CTF_LOAD_U32:
	case RUT_CTF_LOAD_S8:
	case RUT_CTF_LOAD_S16:
	case RUT_CTF_LOAD_S32:
	case RUT_CTF_LOAD_S64:
		ret->type = RUT_EXPR_INT;
		ret->u = rut_ctf_u64(event, &ref);
		return true;
	case RUT_CTF_LOAD_U64:
		ret->type = RUT_EXPR_UINT;
		ret->u = rut_ctf_u64(event, &ref);
		return true;
	}
	rut_ctf_get(event, &ref, &v);
	switch (v.kind) {
	case RUT_CTF_VALUE_UINT:
		ret->type = RUT_EXPR_UINT;
		ret->u = v.u;
		return true;
	case RUT_CTF_VALUE_INT:
		ret->type = RUT_EXPR_INT;
		ret->i = v.i;
		return true;
	case RUT_CTF_VALUE_FLOAT:
		ret->type = RUT_EXPR_FLOAT;
		ret->f = v.d;
		return true;
	case RUT_CTF_VALUE_STR:
		ret->type = RUT_EXPR_STR;
		ret->s = v.str;
		ret->len = (uint32_t)strnlen(v.str, v.len);
		return true;
	default:
		return false;
	}
}

static bool labels(const struct rut_expr_field *field,
		   void (*fn)(void *arg, const char *label, uint64_t lo, uint64_t hi), void *arg)
{
	struct rut_ctf_ref ref;

	memcpy(&ref, field->bytes, sizeof(ref));
	if (!ref.type || ref.type->kind != RUT_CTF_KIND_ENUM)
		return false;
	for (uint32_t i = 0; i < ref.type->n_ranges; i++)
		fn(arg, ref.type->labels[ref.type->ranges[i].label], ref.type->ranges[i].lo,
		   ref.type->ranges[i].hi);
	return true;
}

static const char *class_name(const void *cls)
{
	return ((const struct rut_ctf_event_class *)cls)->name;
}

static uint64_t timestamp_ns(const void *event)
{
	return (uint64_t)((const struct rut_ctf_event *)event)->ts_ns;
}

const struct rut_expr_ops rut_an_periods_expr_ops = {
	.find = find_field,
	.load = load_field,
	.labels = labels,
	.class_name = class_name,
	.timestamp_ns = timestamp_ns,
};

/* ---- Programs ---- */

/* What one definition makes of one class. NULL: never true. */
struct def_programs {
	struct rut_expr_prog *begin, *end;
	struct rut_expr_prog *layout;
	struct rut_expr_prog **captures; /* begin captures, then end captures */
};

struct rut_periods_class {
	bool begins, ends;
	struct def_programs *defs;
};

static int bind_unless_never(const struct rut_expr *e, const void *cls, struct rut_expr_prog **ret)
{
	int r = rut_expr_bind(e, &rut_an_periods_expr_ops, cls, ret);

	if (!r && rut_expr_prog_constant(*ret) == 0) {
		rut_expr_prog_free(*ret);
		*ret = NULL;
	}
	return r;
}

static int bind_captures(const struct rut_captures *c, const void *cls, struct rut_expr_prog **ret)
{
	int r = 0;

	for (size_t i = 0; i < c->n && !r; i++)
		r = rut_expr_bind(c->list[i].expr, &rut_an_periods_expr_ops, cls, &ret[i]);
	return r;
}

static int bind_def(const struct rut_period_def *d, const void *cls, struct def_programs *p)
{
	int r = bind_unless_never(d->begin, cls, &p->begin);

	if (!r)
		r = bind_unless_never(d->end, cls, &p->end);
	if (r || (!p->begin && !p->end))
		return r;
	p->captures = calloc(d->begin_captures.n + d->end_captures.n + 1, sizeof(*p->captures));
	if (!p->captures)
		return -ENOMEM;
	if (p->begin)
		r = rut_expr_layout_bind(&d->layout, &rut_an_periods_expr_ops, cls, &p->layout);
	if (!r && p->begin)
		r = bind_captures(&d->begin_captures, cls, p->captures);
	if (!r && p->end)
		r = bind_captures(&d->end_captures, cls, p->captures + d->begin_captures.n);
	return r;
}

static void free_class(struct rut_periods_class *c, const struct rut_period_set *set)
{
	for (size_t i = 0; c->defs && i < set->n; i++) {
		struct def_programs *p = &c->defs[i];
		const struct rut_period_def *d = set->defs[i];

		rut_expr_prog_free(p->begin);
		rut_expr_prog_free(p->end);
		rut_expr_prog_free(p->layout);
		for (size_t k = 0; p->captures && k < d->begin_captures.n + d->end_captures.n; k++)
			rut_expr_prog_free(p->captures[k]);
		free(p->captures);
	}
	free(c->defs);
}

int rut_an_periods_bind(struct rut_periods *p, const struct rut_ctf_set *ctf)
{
	size_t n = rut_ctf_set_n_classes(ctf);
	void *classes;

	if (!p->set || !p->set->n)
		return 0;
	classes = realloc(p->classes, (n + 1) * sizeof(*p->classes));
	if (!classes)
		return -ENOMEM;
	p->classes = classes;
	for (size_t i = p->n_classes; i < n; i++) {
		const struct rut_ctf_event_class *cls = rut_ctf_set_class(ctf, i);
		struct rut_periods_class *c = &p->classes[i];

		*c = (struct rut_periods_class){0};
		p->n_classes = i + 1;
		c->defs = calloc(p->set->n, sizeof(*c->defs));
		if (!c->defs)
			return -ENOMEM;
		for (size_t k = 0; k < p->set->n; k++) {
			int r = bind_def(p->set->defs[k], cls, &c->defs[k]);

			if (r)
				return r;
			c->begins = c->begins || c->defs[k].begin;
			c->ends = c->ends || c->defs[k].end;
		}
	}
	return 0;
}

/* The capture number k of the definition number i; its begin captures come first. */
static bool is_empty_capture(const struct rut_periods *p, size_t i, size_t k)
{
	bool of_begin = k < p->set->defs[i]->begin_captures.n, happens = false;

	for (size_t c = 0; c < p->n_classes; c++) {
		const struct def_programs *d = &p->classes[c].defs[i];

		if (!(of_begin ? d->begin : d->end))
			continue;
		happens = true;
		if (!rut_expr_prog_nothing(d->captures[k]))
			return false;
	}
	return happens;
}

const struct rut_capture *rut_an_periods_empty_capture(const struct rut_periods *p,
						       const struct rut_capture *last,
						       const struct rut_period_def **ret_def)
{
	bool found = !last;

	for (size_t i = 0; p->set && i < p->set->n; i++) {
		const struct rut_period_def *d = p->set->defs[i];
		size_t n = d->begin_captures.n;

		for (size_t k = 0; k < n + d->end_captures.n; k++) {
			const struct rut_capture *c =
				k < n ? &d->begin_captures.list[k] : &d->end_captures.list[k - n];

			if (found && is_empty_capture(p, i, k)) {
				*ret_def = d;
				return c;
			}
			found = found || c == last;
		}
	}
	return NULL;
}

/* ---- Life ---- */

int rut_an_periods_init(struct rut_periods *p, const struct rut_period_set *set)
{
	size_t n = set ? set->n : 0, at = 0;

	p->set = set;
	if (!n)
		return 0;
	p->first = calloc(n, sizeof(*p->first));
	p->last = calloc(n, sizeof(*p->last));
	p->free = calloc(n, sizeof(*p->free));
	p->order = calloc(n, sizeof(*p->order));
	if (!p->first || !p->last || !p->free || !p->order)
		return -ENOMEM;
	for (size_t depth = 64; depth-- > 0;)
		for (size_t i = 0; i < n; i++)
			if (set->defs[i]->depth == depth)
				p->order[at++] = i;
	return 0;
}

static void free_list(struct rut_period *p)
{
	for (struct rut_period *next; p; p = next) {
		next = p->next;
		free(p->slots);
		free(p->captures);
		free(p->instances);
		free(p);
	}
}

void rut_an_periods_fini(struct rut_periods *p)
{
	for (size_t i = 0; p->set && i < p->set->n; i++) {
		if (p->first)
			free_list(p->first[i]);
		if (p->free)
			free_list(p->free[i]);
	}
	for (size_t i = 0; p->set && i < p->n_classes; i++)
		free_class(&p->classes[i], p->set);
	free(p->classes);
	free(p->first);
	free(p->last);
	free(p->free);
	free(p->order);
	rut_strtab_fini(&p->strings);
	*p = (struct rut_periods){0};
}

/* ---- Events ---- */

/* Strings are borrowed from the event: what is to last is interned. */
static void keep(struct rut_periods *p, struct rut_expr_val *v)
{
	int64_t id;

	if (v->type != RUT_EXPR_STR)
		return;
	id = rut_strtab_intern(&p->strings, v->s, v->len);
	if (id < 0) {
		p->failed = true;
		v->type = RUT_EXPR_NONE;
		return;
	}
	v->s = p->strings.strs[id].data;
}

static void load_captures(struct rut_periods *ps, struct rut_period *p,
			  struct rut_expr_prog **progs, size_t from, size_t n, const void *ev,
			  const struct rut_expr_frame *frame)
{
	for (size_t i = from; i < from + n; i++) {
		if (progs[i])
			rut_expr_value(progs[i], ev, frame, &p->captures[i]);
		else
			p->captures[i].type = RUT_EXPR_NONE;
		keep(ps, &p->captures[i]);
	}
}

static struct rut_period *take_period(struct rut_periods *ps, const struct rut_period_def *d)
{
	struct rut_period *p = ps->free[d->index];
	size_t captures = d->begin_captures.n + d->end_captures.n;

	if (p) {
		ps->free[d->index] = p->next;
		return p;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->slots = calloc(d->layout.count + 1, sizeof(*p->slots));
	p->captures = calloc(captures + 1, sizeof(*p->captures));
	if (!p->slots || !p->captures) {
		p->next = NULL;
		free_list(p);
		return NULL;
	}
	return p;
}

static void open_period(struct rut_periods *ps, const struct rut_period_def *d,
			struct def_programs *progs, struct rut_period *parent,
			const struct rut_ctf_event *ev)
{
	struct rut_period *p = take_period(ps, d);

	if (!p) {
		ps->failed = true;
		return;
	}
	p->def = d;
	p->parent = parent;
	p->begin_ns = p->end_ns = ev->ts_ns;
	p->complete = false;
	p->user = NULL;
	p->children = 0;
	p->serial = ps->serial++;
	rut_expr_layout_load(progs->layout, ev, p->slots);
	for (size_t i = 0; i < d->layout.count; i++)
		keep(ps, &p->slots[i]);
	p->frame = (struct rut_expr_frame){p->slots, parent ? &parent->frame : NULL};
	load_captures(ps, p, progs->captures, 0, d->begin_captures.n, ev,
		      parent ? &parent->frame : NULL);
	for (size_t i = 0; i < d->end_captures.n; i++)
		p->captures[d->begin_captures.n + i].type = RUT_EXPR_NONE;
	p->prev = ps->last[d->index];
	p->next = NULL;
	if (p->prev)
		p->prev->next = p;
	else
		ps->first[d->index] = p;
	ps->last[d->index] = p;
	if (parent)
		parent->children++;
	ps->begin(p, ps->arg);
}

static void close_period(struct rut_periods *ps, struct rut_period *p, int64_t ts_ns,
			 bool complete);

/* Children, and theirs, in the order of the definitions. */
static void close_children(struct rut_periods *ps, struct rut_period *parent, int64_t ts_ns)
{
	for (size_t i = 0; i < ps->set->n && parent->children; i++) {
		if (ps->set->defs[i]->parent != parent->def)
			continue;
		for (struct rut_period *p = ps->first[i], *next; p; p = next) {
			next = p->next;
			if (p->parent == parent)
				close_period(ps, p, ts_ns, false);
		}
	}
}

static void close_period(struct rut_periods *ps, struct rut_period *p, int64_t ts_ns, bool complete)
{
	size_t i = p->def->index;

	p->end_ns = ts_ns;
	p->complete = complete;
	if (p->children)
		close_children(ps, p, ts_ns);
	ps->end(p, ps->arg);
	if (p->parent)
		p->parent->children--;
	if (p->prev)
		p->prev->next = p->next;
	else
		ps->first[i] = p->next;
	if (p->next)
		p->next->prev = p->prev;
	else
		ps->last[i] = p->prev;
	p->next = ps->free[i];
	ps->free[i] = p;
}

static void end_periods(struct rut_periods *ps, const struct rut_periods_class *c,
			const struct rut_ctf_event *ev)
{
	for (size_t k = 0; k < ps->set->n; k++) {
		size_t i = ps->order[k];
		const struct rut_period_def *d = ps->set->defs[i];
		struct def_programs *progs = &c->defs[i];

		if (!progs->end)
			continue;
		for (struct rut_period *p = ps->first[i], *next; p; p = next) {
			next = p->next;
			if (!rut_expr_match(progs->end, ev, &p->frame))
				continue;
			load_captures(ps, p, progs->captures, d->begin_captures.n,
				      d->end_captures.n, ev, &p->frame);
			close_period(ps, p, ev->ts_ns, true);
		}
	}
}

static void begin_periods(struct rut_periods *ps, const struct rut_periods_class *c,
			  const struct rut_ctf_event *ev)
{
	/* Parents stand before their children. */
	for (size_t i = 0; i < ps->set->n; i++) {
		const struct rut_period_def *d = ps->set->defs[i];
		struct def_programs *progs = &c->defs[i];

		if (!progs->begin)
			continue;
		if (!d->parent) {
			if (rut_expr_match(progs->begin, ev, NULL))
				open_period(ps, d, progs, NULL, ev);
			continue;
		}
		for (struct rut_period *p = ps->first[d->parent->index]; p; p = p->next)
			if (rut_expr_match(progs->begin, ev, &p->frame))
				open_period(ps, d, progs, p, ev);
	}
}

bool rut_an_periods_wants(const struct rut_periods *p, const struct rut_ctf_event_class *cls)
{
	return cls->index < p->n_classes &&
	       (p->classes[cls->index].begins || p->classes[cls->index].ends);
}

void rut_an_periods_event(struct rut_periods *p, const struct rut_ctf_event *ev)
{
	const struct rut_periods_class *c = &p->classes[ev->cls->index];

	if (c->ends)
		end_periods(p, c, ev);
	if (c->begins)
		begin_periods(p, c, ev);
}

void rut_an_periods_abandon(struct rut_periods *ps, int64_t ts_ns)
{
	for (size_t i = 0; ps->set && i < ps->set->n; i++)
		if (!ps->set->defs[i]->parent)
			while (ps->first[i])
				close_period(ps, ps->first[i], ts_ns, false);
}
