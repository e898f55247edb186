/* SPDX-License-Identifier: MIT */
#include "scan.h"

#include "clock.h"
#include "hooklist.h"
#include "iseq.h"
#include "named.h"
#include "target.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS_MAX 6000u /* pieces of code that the filter wants */
#define STEPS	   64	 /* steps between two readings of the clock */

enum key_kind {
	KEY_NAMED, /* a method entry, when methods are chosen by name: by its code */
	KEY_DONE,  /* code that has a hook of this session */
	KEY_CODE,  /* by path (of one file it is one object) and line: what is outside first */
	KEY_BLOCK, /* the code of a define_method */
};

/* ---- the heap ---- */

static bool is_fiber(struct rut_session *s, VALUE v)
{
	const void *type;

	if (s->mode != RUT_AGENT_TIME || s->time.seeded || !rut_typed_data(v, &type))
		return false;
	return strcmp(*(const char *const *)type, "fiber") == 0;
}

static bool is_of_use(VALUE v, void *session)
{
	struct rut_session *s = session;
	unsigned type = rut_type(v);

	if (type == RUT_T_IMEMO) {
		int imemo = rut_imemo(v);
		const uint32_t *def;

		if (imemo != RUT_IMEMO_MENT)
			return imemo == RUT_IMEMO_ISEQ;
		def = ((const uint32_t *const *)v)[2];
		return def && ((*def & 15) == RUT_METHOD_TYPE_BMETHOD ||
			       ((*def & 15) == RUT_METHOD_TYPE_ISEQ &&
				(s->scan.by_name || s->flags & RUT_AGENT_NAMES)));
	}
	return type == RUT_T_DATA &&
	       ((s->scan.again && !s->by_file && rut_agent_hooklist_rec(s, v)) || is_fiber(s, v));
}

/* ---- what is wanted ---- */

static void add_key(struct rut_scan *sc, VALUE kind, VALUE a, VALUE b, long pos)
{
	if (sc->count == sc->cap) {
		size_t cap = sc->cap ? sc->cap * 2 : 8192;
		struct rut_scan_key *to = rut_agent_map(cap * sizeof(*to));

		if (!to)
			return;
		if (sc->count)
			memcpy(to, sc->keys, sc->count * sizeof(*to));
		rut_agent_unmap(sc->keys, sc->cap * sizeof(*to));
		sc->keys = to;
		sc->cap = cap;
	}
	sc->keys[sc->count++] = (struct rut_scan_key){kind, a, b, pos};
}

static void proc_of_ment(VALUE obj, void *data)
{
	VALUE *ret = data;

	if (!rut_special_p(obj) && rut_type(obj) == RUT_T_DATA)
		*ret = obj;
}

/* The code of the block when this method entry is that of a define_method. */
static VALUE bmethod_iseq(VALUE ment)
{
	VALUE proc = 0;
	int is_proc;

	rb.rb_objspace_reachable_objects_from(ment, proc_of_ment, &proc);
	if (!proc || !rb.rb_proc_get_iseq)
		return 0;
	return rb.rb_proc_get_iseq(proc, &is_proc);
}

static bool path_wanted(struct rut_session *s, VALUE iseq, VALUE path)
{
	struct rut_scan *sc = &s->scan;

	if (path != sc->path) {
		sc->path = path;
		sc->wanted = rut_agent_session_wants_file(s, iseq, NULL);
	}
	return sc->wanted;
}

static void add_code(struct rut_session *s, VALUE iseq, long pos)
{
	VALUE path;

	if (!rut_agent_iseq_ready(iseq))
		return;
	path = rb.rb_profile_frame_path(iseq);
	if (!path_wanted(s, iseq, path))
		return;
	s->scan.codes++;
	add_key(&s->scan, KEY_CODE, path, rb.rb_profile_frame_first_lineno(iseq), pos);
}

static void add_found(struct rut_session *s, VALUE v, long pos)
{
	struct rut_scan *sc = &s->scan;
	int imemo = rut_imemo(v);

	if (imemo == RUT_IMEMO_ISEQ) {
		add_code(s, v, pos);
	} else if (imemo == RUT_IMEMO_MENT) {
		const uint32_t *def = ((const uint32_t *const *)v)[2];
		VALUE block = 0;

		if ((*def & 15) == RUT_METHOD_TYPE_BMETHOD)
			block = bmethod_iseq(v);
		else
			add_key(sc, KEY_NAMED, rut_agent_named_code(v), 0, pos);
		/* Every alias, and every Method that was bound (Sinatra binds one a request). */
		if (block && rut_agent_iseq_ready(block) &&
		    path_wanted(s, block, rb.rb_profile_frame_path(block)))
			add_key(sc, KEY_BLOCK, block, 0, pos);
	} else if (is_fiber(s, v)) {
		rb.rb_ary_push(s->fibers, v);
	} else {
		struct rut_list targets = {0};

		rb.rb_objspace_reachable_objects_from(v, rut_agent_hooklist_targets, &targets);
		for (size_t i = 0; i < targets.count; i++)
			add_key(sc, KEY_DONE, targets.items[i], 0, pos);
		rut_list_fini(&targets);
	}
}

static bool make_keys(struct rut_session *s, uint64_t deadline_ns)
{
	struct rut_scan *sc = &s->scan;

	for (unsigned n = 1;; n++) {
		long pos;
		VALUE v = rut_agent_walk_next(&sc->walk, &sc->pos);

		if (!v)
			return false;
		pos = sc->pos - 1;
		add_found(s, v, pos);
		if (n % STEPS == 0 && rut_mono_ns() > deadline_ns)
			return true;
	}
}

/* ---- their order ---- */

static int compare_keys(const void *a, const void *b)
{
	const struct rut_scan_key *x = a, *y = b;

	if (x->kind != y->kind)
		return (x->kind > y->kind) - (x->kind < y->kind);
	if (x->a != y->a)
		return (x->a > y->a) - (x->a < y->a);
	return (x->b > y->b) - (x->b < y->b);
}

void rut_agent_scan_sort(struct rut_session *s)
{
	struct rut_scan *sc = &s->scan;

	if (sc->count)
		qsort(sc->keys, sc->count, sizeof(*sc->keys), compare_keys);
	sc->phase = RUT_SCAN_LIST;
}

/* ---- the list ---- */

static void add(struct rut_session *s, VALUE iseq)
{
	rb.rb_ary_push(s->todo.codes, iseq);
	s->todo.count++;
}

static int compare(const void *a, const void *b)
{
	VALUE x = *(const VALUE *)a, y = *(const VALUE *)b;

	return (x > y) - (x < y);
}

static bool is_done(const struct rut_session *s, VALUE iseq)
{
	const struct rut_list *done = &s->scan.done;

	if (s->by_file)
		return s->scan.again &&
		       rut_agent_hooklist_count(s, iseq,
						rb.rb_iseq_type && rut_agent_iseq_kind(iseq) ==
									   RUT_REC_METHOD);
	return done->count && bsearch(&iseq, done->items, done->count, sizeof(VALUE), compare);
}

/* Where Ruby says it at no cost; otherwise it is asked when it is its turn. */
static bool kind_wanted(const struct rut_session *s, VALUE iseq)
{
	int kind = rb.rb_iseq_type ? rut_agent_iseq_kind(iseq) : RUT_REC_METHOD;

	return rut_agent_session_wants_name(s, iseq, kind) &&
	       (kind == RUT_REC_METHOD || (kind == RUT_REC_BLOCK && s->todo.blocks));
}

static void list_code(struct rut_session *s, VALUE iseq)
{
	struct rut_scan *sc = &s->scan;
	struct rut_named named = {.s = s, .ments = &sc->named};
	enum rut_named_is is = RUT_NAMED_WANTED;

	if (!rut_agent_iseq_ready(iseq) || is_done(s, iseq) || !kind_wanted(s, iseq))
		return;
	if (sc->by_name && rut_agent_iseq_kind(iseq) == RUT_REC_METHOD)
		is = rut_agent_named_is(&named, iseq);
	if (is == RUT_NAMED_WANTED)
		add(s, iseq);
	else if (is == RUT_NAMED_UNKNOWN)
		rut_list_add(&sc->unknown, iseq);
}

/*
 * First what may share a hook or may not need one, in groups; then the methods of which it is not
 * knows yet whether they are wanted, and blocks that are methods.
 */
static void list_unknown(struct rut_session *s)
{
	struct rut_scan *sc = &s->scan;

	if (s->todo.defined >= 0)
		return;
	s->todo.defined = s->todo.count;
	for (size_t i = 0; i < sc->unknown.count; i++)
		add(s, sc->unknown.items[i]);
}

static void list_key(struct rut_session *s, const struct rut_scan_key *key)
{
	struct rut_scan *sc = &s->scan;

	switch ((enum key_kind)key->kind) {
	case KEY_NAMED:
		rut_list_add(&sc->named, rut_agent_walk_get(&sc->walk, key->pos));
		if (s->flags & RUT_AGENT_NAMES && !sc->again)
			rut_agent_named_row(s, rut_agent_walk_get(&sc->walk, key->pos));
		break;
	case KEY_DONE:
		rut_list_add(&sc->done, key->a);
		break;
	case KEY_CODE:
		list_code(s, rut_agent_walk_get(&sc->walk, key->pos));
		break;
	case KEY_BLOCK:
		list_unknown(s);
		if (!s->todo.blocks && (!s->filter.watches || s->filter.has_rules) &&
		    (key == sc->keys || key[-1].a != key->a) && !is_done(s, key->a))
			add(s, key->a);
		break;
	}
}

static bool fill_list(struct rut_session *s, uint64_t deadline_ns)
{
	struct rut_scan *sc = &s->scan;

	if (s->todo.codes == rb.qnil) {
		/* Hidden: the program must not see Ruby's internal objects. */
		s->todo.codes = rb.rb_obj_hide(rb.rb_ary_new());
		s->todo.next = s->todo.count = 0;
		s->todo.defined = -1;
		s->todo.blocks = !sc->again && sc->codes <= BLOCKS_MAX;
	}
	while (sc->next < sc->count) {
		list_key(s, &sc->keys[sc->next++]);
		if (sc->next % STEPS == 0 && rut_mono_ns() > deadline_ns)
			return true;
	}
	list_unknown(s);
	return false;
}

/* ---- all of it ---- */

static void forget(struct rut_scan *sc)
{
	rut_agent_unmap(sc->keys, sc->cap * sizeof(*sc->keys));
	rut_list_fini(&sc->named);
	rut_list_fini(&sc->done);
	rut_list_fini(&sc->unknown);
	rut_agent_walk_end(&sc->walk);
	*sc = (struct rut_scan){.phase = RUT_SCAN_OFF};
}

void rut_agent_scan_begin(struct rut_session *s, bool again)
{
	forget(&s->scan);
	s->todo.codes = rb.qnil;
	s->scan.again = again;
	s->scan.by_name = s->by_file && s->filter.has_names;
	rut_agent_walk_begin(&s->scan.walk);
	s->scan.phase = RUT_SCAN_WALK;
}

void rut_agent_scan_end(struct rut_session *s)
{
	forget(&s->scan);
}

bool rut_agent_scan_work(struct rut_session *s, uint64_t deadline_ns)
{
	struct rut_scan *sc = &s->scan;
	enum rut_walk_state state;

	if (sc->phase > RUT_SCAN_WALK && rut_agent_walk_moved(&sc->walk)) {
		rut_agent_scan_begin(s, sc->again);
		return true;
	}
	switch (sc->phase) {
	case RUT_SCAN_WALK:
		state = rut_agent_walk_step(&sc->walk, is_of_use, s, deadline_ns);
		if (state == RUT_WALK_MOVED)
			rut_agent_scan_begin(s, sc->again);
		if (state == RUT_WALK_DONE)
			sc->phase = RUT_SCAN_KEYS;
		return true;
	case RUT_SCAN_KEYS:
		if (!make_keys(s, deadline_ns))
			sc->phase = RUT_SCAN_SORT;
		return true;
	case RUT_SCAN_SORT:
		return true;
	case RUT_SCAN_LIST:
		if (!fill_list(s, deadline_ns))
			forget(sc);
		return true;
	case RUT_SCAN_OFF:
		break;
	}
	return false;
}
