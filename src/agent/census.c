/* SPDX-License-Identifier: MIT */
#include "census.h"

#include "clock.h"
#include "graph.h"
#include "origin.h"
#include "site.h"

#include <string.h>

#define CLEAR_STEP 1024u /* rows between two readings of the clock */

bool rut_agent_census_due(const struct rut_session *s)
{
	const struct rut_agent_table *hdr = s->table.hdr;

	return s->mode == RUT_AGENT_HEAP && s->hooked &&
	       (__atomic_load_n(&hdr->look_wanted, __ATOMIC_ACQUIRE) != hdr->look_done ||
		rut_agent_graph_names_due(s));
}

void rut_agent_census_end(struct rut_session *s)
{
	rut_agent_walk_end(&s->census.walk);
	if (s->mode == RUT_AGENT_HEAP)
		rut_agent_graph_end(s);
	s->census = (struct rut_census){0};
}

void rut_agent_census_forked(struct rut_session *s)
{
	if (s->mode != RUT_AGENT_HEAP)
		return;
	rut_agent_census_end(s);
	s->table.hdr->look_done = s->table.hdr->look_wanted = 0;
	rut_agent_graph_describe(s);
}

/* What Ruby made for itself, by its type: a program never sees it. */
static struct rut_agent_row *internal_row(struct rut_session *s, unsigned type)
{
	static const char *const names[RUT_T_MASK + 1] = {
		[RUT_T_CLASS] = "(hidden class)", [RUT_T_STRING] = "(hidden string)",
		[RUT_T_ARRAY] = "(hidden array)", [RUT_T_HASH] = "(hidden hash)",
		[RUT_T_DATA] = "(hidden data)",	  [RUT_T_IMEMO] = "(imemo)",
		[RUT_T_NODE] = "(node)",	  [RUT_T_ICLASS] = "(iclass)",
	};
	const char *name = names[type] ? names[type] : "(hidden)";
	struct rut_agent_row **row = &s->census.internal[type];

	if (!*row)
		*row = rut_agent_table_row(
			&s->table, 0, 0, rut_agent_table_str(&s->table, name, strlen(name)), 0, 0);
	return *row;
}

static bool is_internal(VALUE v, unsigned type, VALUE klass)
{
	if (type >= RUT_T_IMEMO || !klass)
		return true;
	return rb.rb_objspace_internal_object_p && rb.rb_objspace_internal_object_p(v);
}

static bool is_old(VALUE v)
{
	VALUE promoted = rb.abi->promoted_mask;

	return (rut_flags(v) & promoted) == promoted;
}

static unsigned age_bucket(uint32_t age)
{
	unsigned i = age ? 32u - (unsigned)__builtin_clz(age) : 0;

	return i < RUT_HEAP_AGES ? i : RUT_HEAP_AGES - 1;
}

static bool is_class(VALUE v)
{
	return !rut_special_p(v) && (rut_type(v) == RUT_T_CLASS || rut_type(v) == RUT_T_ICLASS);
}

/* Survived a collection: one that has begun after it was made, and has marked. */
static bool add_age(const struct rut_census *c, struct rut_agent_heap *h, uint32_t gcs)
{
	uint32_t age = (uint32_t)c->gcs - gcs;

	h->ages[age_bucket(age)]++;
	h->generations |= 1ull << (age < 63 ? age : 63);
	if (age > h->oldest)
		h->oldest = age;
	return age >= (c->marking ? 2 : 1);
}

static void count(VALUE v, size_t slot_bytes, void *data)
{
	struct rut_session *s = data;
	unsigned type = rut_type(v);
	VALUE klass = __atomic_load_n((const VALUE *)v + 1, __ATOMIC_RELAXED);
	struct rut_origin origin = {0};
	struct rut_agent_row *row;
	struct rut_agent_heap *h;
	size_t bytes = slot_bytes;
	bool old;

	if (type == 0 || type == RUT_T_ZOMBIE || type == RUT_T_MOVED)
		return;
	/* Not an object, or not yet: a free slot has the address of the next one there. */
	if (type < RUT_T_IMEMO && klass && !is_class(klass))
		return;
	if (is_internal(v, type, klass)) {
		row = internal_row(s, type);
		if (type != RUT_T_NODE && rb.rb_obj_memsize_of)
			bytes = rb.rb_obj_memsize_of(v);
	} else {
		const struct rut_agent_site *site;

		if (rb.rb_obj_memsize_of)
			bytes = rb.rb_obj_memsize_of(v);
		origin = rut_agent_origin_of(s, v);
		site = origin.row ? NULL : rut_agent_site(s, NULL, rb.rb_obj_class(v), 0, false);
		row = origin.row ? &s->table.rows[origin.row - 1] : site ? site->row : NULL;
	}
	if (!row)
		return;
	h = rut_table_extra(&s->table, row);
	old = origin.row ? add_age(&s->census, h, origin.gcs) : is_old(v);
	row->count++;
	row->bytes += bytes;
	h->old += old;
	h->old_bytes += old ? bytes : 0;
	if (rut_graph_wanted(s))
		rut_agent_graph_add(s, v, row, bytes);
}

/* False: not all rows yet. */
static bool clear(struct rut_session *s, uint64_t deadline_ns)
{
	struct rut_census *c = &s->census;

	while (c->cleared < c->to_clear) {
		struct rut_agent_row *row = &s->table.rows[c->cleared++];
		struct rut_agent_heap *h = rut_table_extra(&s->table, row);

		row->count = row->bytes = 0;
		*h = (struct rut_agent_heap){.born = h->born};
		if (c->cleared % CLEAR_STEP == 0 && rut_mono_ns() > deadline_ns)
			return false;
	}
	return true;
}

/* In a process that has switched it off, too. */
static void collect(void)
{
	bool disabled = rb.rb_gc_enable() == rb.qtrue;

	if (rb.rb_gc_start)
		rb.rb_gc_start();
	if (disabled)
		rb.rb_gc_disable();
}

/* It is the answer to what was asked up to that number. */
static void finish(struct rut_session *s, uint32_t number, uint32_t flags)
{
	struct rut_agent_table *hdr = s->table.hdr;

	hdr->look_gcs = rut_gcs();
	hdr->look_flags = s->origins.flags | flags;
	rut_agent_census_end(s);
	__atomic_store_n(&hdr->look_done, number, __ATOMIC_RELEASE);
}

/* False: it is answered already, without what was asked for. */
static bool begin(struct rut_session *s)
{
	struct rut_census *c = &s->census;

	rut_agent_census_end(s);
	c->number = __atomic_load_n(&s->table.hdr->look_wanted, __ATOMIC_ACQUIRE);
	if (s->flags & RUT_AGENT_FULL_GC)
		collect();
	if (rut_graph_wanted(s) && !rut_agent_graph_begin(s)) {
		finish(s, c->number, RUT_LOOK_NO_GRAPH);
		return false;
	}
	rut_agent_walk_begin_each(&c->walk);
	c->walk.by_page = rut_graph_wanted(s);
	c->to_clear = s->table.hdr->row_count; /* those that come are zero */
	c->running = true;
	return true;
}

/* Until all of the heap is read, or the time is over. */
static enum rut_walk_state read_heap(struct rut_session *s, uint64_t deadline_ns)
{
	struct rut_census *c = &s->census;
	enum rut_walk_state state = RUT_WALK_DONE;

	if (!rut_graph_wanted(s))
		return rut_agent_walk_step_each(&c->walk, count, s, deadline_ns);
	while (!c->walked) {
		if (!rut_agent_graph_ready(s, deadline_ns))
			return RUT_WALK_MORE;
		state = rut_agent_walk_step_each(&c->walk, count, s, deadline_ns);
		if (state == RUT_WALK_MOVED)
			return state;
		c->walked = state == RUT_WALK_DONE;
		if (!c->walked && rut_mono_ns() > deadline_ns)
			return RUT_WALK_MORE;
	}
	if (rut_agent_walk_moved(&c->walk))
		return RUT_WALK_MOVED;
	return rut_agent_graph_finish(s, deadline_ns) ? RUT_WALK_DONE : RUT_WALK_MORE;
}

bool rut_agent_census_work(struct rut_session *s, uint64_t deadline_ns)
{
	const struct rut_agent_table *hdr = s->table.hdr;
	struct rut_census *c = &s->census;

	if (!rut_agent_census_due(s))
		return false;
	/* They make and free objects while we look, and do not wait for the GVL. */
	if (rut_agent_ractors_run()) {
		finish(s, __atomic_load_n(&hdr->look_wanted, __ATOMIC_ACQUIRE), RUT_LOOK_RACTORS);
		return false;
	}
	if (__atomic_load_n(&hdr->look_wanted, __ATOMIC_ACQUIRE) == hdr->look_done)
		return rut_agent_graph_name(s, deadline_ns);
	if (!c->running && !begin(s))
		return false;
	if (!clear(s, deadline_ns))
		return true;
	rut_lives_sync();
	rut_agent_origins_sync(s, true);
	c->gcs = rut_gcs();
	c->marking = rut_agent_life_marking();
	switch (read_heap(s, deadline_ns)) {
	case RUT_WALK_MORE:
		return true;
	case RUT_WALK_MOVED:
		rut_agent_census_end(s);
		return true;
	default:
		finish(s, c->number, 0);
		return false;
	}
}
