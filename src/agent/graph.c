/* SPDX-License-Identifier: MIT */
#include "graph.h"

#include "clock.h"
#include "site.h"

#include <string.h>

#define MASK	   (RUT_GRAPH_WORDS - 1ull)
#define PAGE_WORDS (RUT_GRAPH_WORDS / 2) /* room for a page of objects, usually */
#define LATE_MAX   4096			 /* more than the slots of a page */
#define LARGE	   2048ull		 /* elements of an array or hash that is written in parts */
#define PART	   1024ull		 /* elements between two readings of the clock */

#define FL_EXIVAR     (1ull << 10)
#define ARRAY_EMBED   (1ull << 13) /* the length, if not embedded, is word 2, in all versions */
#define ARRAY_SHARED  (1ull << 14)
#define HASH_ST	      (1ull << 15)
#define ST_ENTRIES    2 /* words of Ruby's st_table, since 2.4 */
#define ST_BOUND      5
#define ST_ARRAY      6
#define ENTRY_WORDS   3 /* hash, key, value */
#define ENTRY_DELETED (~(VALUE)0)

/* ---- the ring ---- */

struct writer {
	uint64_t *ring;
	uint64_t at, end; /* from here, at most to there */
	VALUE from;	  /* references to itself are left out */
	bool full;
};

static uint64_t *ring_of(const struct rut_session *s)
{
	return (uint64_t *)s->table.more;
}

static struct writer writer_begin(const struct rut_session *s, VALUE from)
{
	const struct rut_agent_graph *g = &s->table.hdr->graph;

	return (struct writer){
		.ring = ring_of(s),
		.at = g->head,
		.end = __atomic_load_n(&g->tail, __ATOMIC_ACQUIRE) + RUT_GRAPH_WORDS,
		.from = from,
	};
}

static void writer_end(struct rut_session *s, const struct writer *w)
{
	__atomic_store_n(&s->table.hdr->graph.head, w->at, __ATOMIC_RELEASE);
}

static uint64_t room(const struct writer *w)
{
	return w->end - w->at;
}

static void put(struct writer *w, uint64_t word)
{
	if (w->at < w->end)
		w->ring[w->at++ & MASK] = word;
	else
		w->full = true;
}

static void put_ref(VALUE to, void *data)
{
	struct writer *w = data;

	if (!rut_special_p(to) && to != w->from)
		put(w, to | RUT_GRAPH_TO);
}

static void put_head(struct writer *w, const uint64_t *head)
{
	for (int i = 0; i < 3; i++)
		put(w, head[i]);
}

void rut_agent_graph_describe(struct rut_session *s)
{
	struct rut_agent_graph *g = &s->table.hdr->graph;

	if (!rut_graph_wanted(s))
		return;
	*g = (struct rut_agent_graph){
		.off = (uint64_t)(s->table.more - (char *)s->table.hdr),
		.words = RUT_GRAPH_WORDS,
	};
}

/* ---- objects of many elements ---- */

/* Elements of an array that has them in memory of its own; 0: it is small, or shares them. */
static uint64_t array_length(VALUE v)
{
	return rut_flags(v) & (ARRAY_EMBED | ARRAY_SHARED) ? 0 : ((const VALUE *)v)[2];
}

/* The table of a hash that has one, of known layout; NULL: there is none, or it is not known. */
static const VALUE *hash_table(VALUE v)
{
	const VALUE *word = (const VALUE *)v, *st;

	if (!rb.abi->hash_table || !rb.rb_hash_size || !(rut_flags(v) & HASH_ST))
		return NULL;
	st = rb.abi->hash_table_inside ? word + rb.abi->hash_table
				       : (const VALUE *)word[rb.abi->hash_table];
	return st && st[ST_ENTRIES] == rb.rb_hash_size(v) >> 1 && st[ST_BOUND] >= st[ST_ENTRIES]
		       ? st
		       : NULL;
}

static uint64_t large_elements(VALUE v)
{
	const VALUE *st;
	uint64_t n = 0;

	if (rut_type(v) == RUT_T_ARRAY) {
		n = array_length(v);
	} else if (rut_type(v) == RUT_T_HASH && (st = hash_table(v))) {
		n = st[ST_BOUND];
	}
	return n >= LARGE ? n : 0;
}

static int put_ivar(ID id, VALUE value, uintptr_t data)
{
	(void)id;
	put_ref(value, (void *)data);
	return 0;
}

/* What it refers to beside its elements. */
static void put_others(struct writer *w, VALUE v)
{
	put_ref(rut_klass(v), w);
	if (rut_type(v) == RUT_T_HASH)
		put_ref(((const VALUE *)v)[rb.abi->hash_ifnone], w);
	if (rut_flags(v) & FL_EXIVAR && rb.rb_ivar_foreach)
		rb.rb_ivar_foreach(v, put_ivar, (uintptr_t)w);
}

static void put_element(struct writer *w, VALUE v, const VALUE *st, uint64_t i)
{
	const VALUE *entry;

	if (!st) {
		put_ref(rb.rb_ary_entry(v, (long)i), w);
		return;
	}
	entry = (const VALUE *)st[ST_ARRAY] + i * ENTRY_WORDS;
	if (entry[0] == ENTRY_DELETED)
		return;
	put_ref(entry[1], w);
	put_ref(entry[2], w);
}

/* True: all of it is written. What changes it between two parts may shift some elements. */
static bool put_large(struct rut_session *s, VALUE v, const uint64_t *head, uint64_t deadline_ns)
{
	struct rut_graph_mode *g = &s->graph;
	struct writer w = writer_begin(s, v);
	uint64_t count = large_elements(v), end;
	const VALUE *st = rut_type(v) == RUT_T_HASH ? hash_table(v) : NULL;

	while (room(&w) > 4 * PART) {
		if (!g->at) {
			put_head(&w, head);
			put_others(&w, v);
		}
		end = g->at + PART < count ? g->at + PART : count;
		while (g->at < end)
			put_element(&w, v, st, g->at++);
		if (g->at >= count) {
			writer_end(s, &w);
			return true;
		}
		if (rut_mono_ns() > deadline_ns)
			break;
	}
	writer_end(s, &w);
	return false;
}

/* ---- objects ---- */

static bool put_object(struct rut_session *s, VALUE v, const uint64_t *head)
{
	struct writer w = writer_begin(s, v);

	put_head(&w, head);
	rb.rb_objspace_reachable_objects_from(v, put_ref, &w);
	if (w.full)
		return false;
	writer_end(s, &w);
	return true;
}

/* It does not fit, though the ring is empty: as much as does. */
static void put_cut(struct rut_session *s, VALUE v, const uint64_t *head)
{
	struct writer w = writer_begin(s, v);

	put_head(&w, head);
	rb.rb_objspace_reachable_objects_from(v, put_ref, &w);
	s->table.hdr->graph.flags |= RUT_GRAPH_LOST;
	writer_end(s, &w);
}

/* The row of a class's own name, plus 1. */
static uint32_t label_of(struct rut_session *s, VALUE v)
{
	const struct rut_agent_site *site;

	if (rut_type(v) != RUT_T_CLASS && rut_type(v) != RUT_T_MODULE)
		return 0;
	if (!rut_klass(v) ||
	    (rb.rb_objspace_internal_object_p && rb.rb_objspace_internal_object_p(v)))
		return 0;
	site = rut_agent_site(s, NULL, v, 0, false);
	if (!site || !site->row)
		return 0;
	return ((uint32_t)(site->row - s->table.rows) + 1) |
	       (rut_flags(v) & rb.abi->singleton_flag && rut_type(v) == RUT_T_CLASS
			? RUT_GRAPH_SINGLETON
			: 0);
}

void rut_agent_graph_add(struct rut_session *s, VALUE v, const struct rut_agent_row *row,
			 uint64_t bytes)
{
	struct rut_graph_mode *g = &s->graph;
	int imemo = rut_imemo(v);
	uint64_t kind = imemo < 0 ? 0 : RUT_GRAPH_IMEMO | (unsigned)imemo;
	uint64_t head[3] = {
		v | RUT_GRAPH_OBJECT,
		(uint64_t)(row - s->table.rows) | (uint64_t)label_of(s, v) << 32,
		bytes | kind << RUT_GRAPH_BYTES_BITS,
	};

	if (!large_elements(v) && put_object(s, v, head))
		return;
	if (g->count == LATE_MAX) { /* not seen: no page has so many slots */
		s->table.hdr->graph.flags |= RUT_GRAPH_LOST;
		return;
	}
	/* The array has room for all. */
	rb.rb_ary_push(g->objects, v);
	memcpy(g->late[g->count++].head, head, sizeof(head));
}

static bool write_late(struct rut_session *s, uint64_t deadline_ns)
{
	struct rut_graph_mode *g = &s->graph;

	while (g->next < g->count) {
		VALUE v = rb.rb_ary_entry(g->objects, g->next);
		const uint64_t *head = g->late[g->next].head;
		struct writer w = writer_begin(s, v);

		if (large_elements(v) || g->at) {
			if (!put_large(s, v, head, deadline_ns))
				return false;
		} else if (!put_object(s, v, head)) {
			if (room(&w) < RUT_GRAPH_WORDS)
				return false;
			put_cut(s, v, head);
		}
		g->at = 0;
		g->next++;
		if (rut_mono_ns() > deadline_ns)
			return false;
	}
	while (g->count) {
		rb.rb_ary_pop(g->objects);
		g->count--;
	}
	g->next = 0;
	return true;
}

bool rut_agent_graph_ready(struct rut_session *s, uint64_t deadline_ns)
{
	struct writer w = writer_begin(s, 0);

	if (s->graph.reset && room(&w)) {
		put(&w, RUT_GRAPH_RESET);
		writer_end(s, &w);
		s->graph.reset = false;
	}
	if (!write_late(s, deadline_ns))
		return false;
	w = writer_begin(s, 0);
	return room(&w) >= PAGE_WORDS;
}

struct roots {
	struct rut_session *s;
	struct writer w;
	const char *category;
	uint32_t str;
};

static void put_root(const char *category, VALUE v, void *data)
{
	struct roots *r = data;

	if (rut_special_p(v))
		return;
	if (category != r->category) {
		r->category = category;
		r->str = rut_agent_table_str(&r->s->table, category, strlen(category));
	}
	put(&r->w, v | RUT_GRAPH_ROOT);
	put(&r->w, r->str);
}

bool rut_agent_graph_finish(struct rut_session *s, uint64_t deadline_ns)
{
	struct roots r = {.s = s};

	if (s->graph.rooted)
		return true;
	if (!rut_agent_graph_ready(s, deadline_ns))
		return false;
	r.w = writer_begin(s, 0);
	rb.rb_objspace_reachable_objects_from_root(put_root, &r);
	if (r.w.full && room(&(struct writer){.at = s->table.hdr->graph.head, .end = r.w.end}) <
				RUT_GRAPH_WORDS)
		return false; /* again when the ring is empty */
	if (r.w.full)
		s->table.hdr->graph.flags |= RUT_GRAPH_LOST;
	writer_end(s, &r.w);
	s->graph.rooted = true;
	return true;
}

/* ---- begin and end ---- */

static bool begin(struct rut_session *s)
{
	struct rut_graph_mode *g = &s->graph;

	rut_agent_graph_end(s);
	g->late = rut_agent_map(LATE_MAX * sizeof(*g->late));
	if (!g->late)
		return false;
	rut_keep(&g->objects, rb.rb_obj_hide(rb.rb_ary_new_capa(LATE_MAX)));
	return true;
}

bool rut_agent_graph_begin(struct rut_session *s)
{
	if (!rb.rb_objspace_reachable_objects_from_root || !begin(s))
		return false;
	s->graph.reset = true;
	s->table.hdr->graph.flags = 0;
	return true;
}

void rut_agent_graph_end(struct rut_session *s)
{
	struct rut_graph_mode *g = &s->graph;

	if (g->objects)
		rb.rb_gc_unregister_address(&g->objects);
	rut_agent_walk_end(&g->walk);
	rut_agent_unmap(g->late, g->late ? LATE_MAX * sizeof(*g->late) : 0);
	*g = (struct rut_graph_mode){0};
}

/* ---- names of references ---- */

static struct rut_agent_ref *refs_of(const struct rut_session *s)
{
	return (struct rut_agent_ref *)s->table.more;
}

static uint32_t ref_count(const struct rut_session *s)
{
	uint32_t n = s->table.hdr->graph.refs;

	return n < RUT_GRAPH_REFS ? n : RUT_GRAPH_REFS;
}

/* The first reference of this holder; they are in the order of holders. */
static uint32_t first_ref(const struct rut_session *s, VALUE holder)
{
	const struct rut_agent_ref *refs = refs_of(s);
	uint32_t low = 0, high = ref_count(s);

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (refs[mid].holder < holder)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct naming {
	struct rut_session *s;
	VALUE holder;
	uint32_t first;
};

static void set_name(const struct naming *n, ID id, VALUE value)
{
	struct rut_agent_ref *refs = refs_of(n->s);

	for (uint32_t i = n->first; i < ref_count(n->s) && refs[i].holder == n->holder; i++) {
		const char *name;

		if (refs[i].object != value || refs[i].name)
			continue;
		name = rb.rb_id2name(id);
		if (name)
			refs[i].name = rut_agent_table_str(&n->s->table, name, strlen(name));
	}
}

static int name_ivar(ID id, VALUE value, uintptr_t data)
{
	set_name((const struct naming *)data, id, value);
	return 0;
}

/* Of a constant Ruby gives its entry: flag and line in the first word, then the value. */
static int name_constant(uintptr_t id, uintptr_t entry, uintptr_t data)
{
	set_name((const struct naming *)data, (ID)id, ((const VALUE *)entry)[1]);
	return 0;
}

static void name_refs(struct rut_session *s, VALUE holder)
{
	struct naming n = {.s = s, .holder = holder, .first = first_ref(s, holder)};
	unsigned type = rut_type(holder);

	if (rb.rb_ivar_foreach)
		rb.rb_ivar_foreach(holder, name_ivar, (uintptr_t)&n);
	if ((type == RUT_T_CLASS || type == RUT_T_MODULE) && rb.rb_mod_const_at &&
	    rb.rb_st_foreach && rb.rb_st_free_table) {
		void *constants = rb.rb_mod_const_at(holder, NULL);

		if (constants) {
			rb.rb_st_foreach(constants, name_constant, (uintptr_t)&n);
			rb.rb_st_free_table(constants);
		}
	}
}

/* Holders are named after their page was read: that allocates memory. */
static void find_holder(VALUE v, size_t slot_bytes, void *data)
{
	struct rut_session *s = data;
	uint32_t at = first_ref(s, v);
	unsigned type = rut_type(v);

	(void)slot_bytes;
	if (at < ref_count(s) && refs_of(s)[at].holder == v && s->graph.count < LATE_MAX &&
	    type != 0 && type < RUT_T_IMEMO && rut_klass(v)) {
		rb.rb_ary_push(s->graph.objects, v);
		s->graph.count++;
	}
}

bool rut_agent_graph_names_due(const struct rut_session *s)
{
	const struct rut_agent_graph *g = &s->table.hdr->graph;

	return rut_graph_wanted(s) && s->hooked &&
	       __atomic_load_n(&g->names_wanted, __ATOMIC_ACQUIRE) != g->names_done;
}

bool rut_agent_graph_name(struct rut_session *s, uint64_t deadline_ns)
{
	struct rut_graph_mode *g = &s->graph;
	struct rut_agent_graph *hdr = &s->table.hdr->graph;
	uint32_t wanted = __atomic_load_n(&hdr->names_wanted, __ATOMIC_ACQUIRE);
	enum rut_walk_state state = RUT_WALK_MOVED;

	if (!g->naming && begin(s)) {
		rut_agent_walk_begin_each(&g->walk);
		g->walk.by_page = true;
		g->naming = true;
	}
	while (g->naming) {
		state = rut_agent_walk_step_each(&g->walk, find_holder, s, deadline_ns);
		while (g->count) {
			name_refs(s, rb.rb_ary_pop(g->objects));
			g->count--;
		}
		if (state != RUT_WALK_MORE)
			break;
		if (rut_mono_ns() > deadline_ns)
			return true;
	}
	/* After a compaction the addresses are void: what has no name yet has none. */
	rut_agent_graph_end(s);
	__atomic_store_n(&hdr->names_done, wanted, __ATOMIC_RELEASE);
	return false;
}
