/* SPDX-License-Identifier: MIT */
#include "heap.h"

#include "clock.h"

#define CHUNK	    4096 /* more than the slots of a page */
#define READ_MIN    1024u
#define FRESH_MIN   64	/* pages to list in a slice at least, however long the others take */
#define PAGES_SMALL 800 /* the GC sweeps that many in 2 ms */
#define PATIENCE_NS 500000000ull

size_t rut_agent_compactions(void)
{
	return rb.counts_compactions ? rb.rb_gc_stat(rb.sym_compact_count) : 0;
}

static VALUE hidden_array(long capa)
{
	return rb.rb_obj_hide(rb.rb_ary_new_capa(capa));
}

static void add_chunk(struct rut_walk *w)
{
	volatile VALUE chunk = hidden_array(CHUNK);

	rb.rb_ary_push(w->found, chunk);
	w->chunk = chunk;
	w->in_chunk = 0;
}

void rut_agent_walk_begin(struct rut_walk *w)
{
	*w = (struct rut_walk){0};
	rut_keep(&w->found, hidden_array(16));
	w->compactions = rut_agent_compactions();
	add_chunk(w);
}

void rut_agent_walk_begin_each(struct rut_walk *w)
{
	*w = (struct rut_walk){.compactions = rut_agent_compactions()};
}

void rut_agent_walk_end(struct rut_walk *w)
{
	if (w->found)
		rb.rb_gc_unregister_address(&w->found);
	rut_list_fini(&w->pages);
	if (w->read)
		rut_agent_unmap(w->read, (w->read_mask + 1ul) * sizeof(VALUE));
	*w = (struct rut_walk){0};
}

VALUE rut_agent_walk_get(const struct rut_walk *w, long pos)
{
	return rb.rb_ary_entry(rb.rb_ary_entry(w->found, pos / CHUNK), pos % CHUNK);
}

VALUE rut_agent_walk_next(const struct rut_walk *w, long *pos)
{
	/* A chunk ends early when a page did not fit into it any more. */
	for (;; *pos = (*pos / CHUNK + 1) * CHUNK) {
		VALUE chunk = rb.rb_ary_entry(w->found, *pos / CHUNK), v;

		if (chunk == rb.qnil)
			return 0;
		v = rb.rb_ary_entry(chunk, *pos % CHUNK);
		if (v != rb.qnil) {
			++*pos;
			return v;
		}
	}
}

bool rut_agent_walk_moved(const struct rut_walk *w)
{
	return rut_agent_compactions() != w->compactions;
}

/* ---- pages that were read ---- */

static VALUE *read_slot(VALUE *slots, uint32_t mask, VALUE page)
{
	uint32_t i = (uint32_t)(page * 0x9e3779b97f4a7c15ull >> 32) & mask;

	while (slots[i] && slots[i] != page)
		i = (i + 1) & mask;
	return &slots[i];
}

static bool was_read(const struct rut_walk *w, VALUE page)
{
	return w->read && *read_slot(w->read, w->read_mask, page);
}

/* False: memory is short. Then a page may be read twice; what is found twice does no harm. */
static bool remember(struct rut_walk *w, VALUE page)
{
	if (!w->read || w->read_count > w->read_mask / 2) {
		uint32_t mask = w->read ? w->read_mask * 2 + 1 : READ_MIN - 1;
		VALUE *to = rut_agent_map((mask + 1ul) * sizeof(*to));

		if (!to)
			return false;
		for (uint32_t i = 0; w->read && i <= w->read_mask; i++)
			if (w->read[i])
				*read_slot(to, mask, w->read[i]) = w->read[i];
		if (w->read)
			rut_agent_unmap(w->read, (w->read_mask + 1ul) * sizeof(*to));
		w->read = to;
		w->read_mask = mask;
	}
	*read_slot(w->read, w->read_mask, page) = page;
	w->read_count++;
	return true;
}

/* ---- the list of pages ---- */

struct listing {
	struct rut_walk *w;
	size_t index, fresh;
	uint64_t deadline_ns;
	bool stopped;
};

static int list_page(void *start, void *end, size_t stride, void *data)
{
	struct listing *l = data;
	struct rut_walk *w = l->w;

	/* A page that came since the last slice may put others off by one: they are listed twice.
	 */
	if (l->index++ < w->passed)
		return 0;
	w->passed++;
	if (!was_read(w, (VALUE)start)) {
		size_t count = w->pages.count;

		/* Without memory the page is left out. */
		if (!rut_list_add(&w->pages, (VALUE)start) ||
		    !rut_list_add(&w->pages, (VALUE)end) || !rut_list_add(&w->pages, stride))
			w->pages.count = count;
	}
	if (++l->fresh % FRESH_MIN == 0 && rut_mono_ns() > l->deadline_ns) {
		l->stopped = true;
		return 1;
	}
	return 0;
}

static void list_pages(struct rut_walk *w, uint64_t deadline_ns)
{
	struct listing l = {.w = w, .deadline_ns = deadline_ns};

	if (rb.rb_objspace_each_objects_without_setup)
		rb.rb_objspace_each_objects_without_setup(list_page, &l);
	else
		rb.rb_objspace_each_objects(list_page, &l);
	w->listed = !l.stopped;
}

/* ---- reading ---- */

/* 1: alive, 0: dead, -1: dead or new. */
static int alive(const struct rut_walk *w, VALUE v)
{
	if (w->state != rb.sym_sweeping)
		return 1;
	if (rb.rb_objspace_garbage_object_p)
		return !rb.rb_objspace_garbage_object_p(v);
	return rb.rb_objspace_marked_object_p && rb.rb_objspace_marked_object_p(v) ? 1 : -1;
}

/* False: no room in the chunk. */
static bool read_page(struct rut_walk *w, const VALUE *page, rut_walk_fn wants, void *data)
{
	/* cppcheck-suppress objectIndex ; three words a page */
	VALUE start = page[0], end = page[1], stride = page[2];
	long n = 0;

	for (VALUE v = start; v != end; v += stride) {
		if (!rut_flags(v) || !wants(v, data))
			continue;
		if (alive(w, v) < 0) {
			w->unsure = true;
			return true;
		}
		n++;
	}
	if (n > CHUNK - w->in_chunk)
		return false;
	for (VALUE v = start; n && v != end; v += stride)
		if (rut_flags(v) && wants(v, data) && alive(w, v) > 0) {
			rb.rb_ary_push(w->chunk, v);
			w->in_chunk++;
		}
	remember(w, start);
	return true;
}

/* Every object of the page, or none when only the GC knows about one of them. */
static void report_page(struct rut_walk *w, const VALUE *page, rut_walk_each_fn each, void *data)
{
	/* cppcheck-suppress objectIndex ; three words a page */
	VALUE start = page[0], end = page[1], stride = page[2];
	bool sweeping = w->state == rb.sym_sweeping;

	for (VALUE v = start; sweeping && v != end; v += stride)
		if (rut_flags(v) && alive(w, v) < 0) {
			w->unsure = true;
			return;
		}
	/* Listed twice; or without memory for it, so that it could be counted twice. */
	if (was_read(w, start) || !remember(w, start))
		return;
	for (VALUE v = start; v != end; v += stride)
		if (rut_flags(v) && (!sweeping || alive(w, v) > 0))
			each(v, stride, data);
}

/* The GC may have run since the last slice. */
static void sync(struct rut_walk *w)
{
	size_t gcs = rb.rb_gc_count();
	VALUE state = rb.rb_gc_latest_gc_info(rb.sym_state);

	if (w->passed && gcs == w->gcs && state == w->state)
		return;
	w->gcs = gcs;
	w->state = state;
	w->pages.count = w->next = w->passed = 0;
	w->listed = w->unsure = false;
}

static void finish_gc(void)
{
	if (rb.rb_gc_disable() != rb.qtrue)
		rb.rb_gc_enable();
}

/* Pages are left that the GC has to sweep first. */
static void wait_for_gc(struct rut_walk *w, uint64_t deadline_ns)
{
	uint64_t now = rut_mono_ns();

	if (!w->waiting_ns)
		w->waiting_ns = now;
	if (deadline_ns == UINT64_MAX || w->passed <= PAGES_SMALL ||
	    now - w->waiting_ns > PATIENCE_NS)
		finish_gc();
}

struct reader {
	rut_walk_fn wants;
	rut_walk_each_fn each; /* or this one */
	void *data;
};

static enum rut_walk_state step(struct rut_walk *w, const struct reader *r, uint64_t deadline_ns)
{
	if (rut_agent_walk_moved(w))
		return RUT_WALK_MOVED;
	sync(w);
	if (!w->listed)
		list_pages(w, deadline_ns);
	while (w->listed && w->next < w->pages.count) {
		const VALUE *page = &w->pages.items[w->next];

		if (r->each) {
			report_page(w, page, r->each, r->data);
		} else if (!read_page(w, page, r->wants, r->data)) {
			add_chunk(w);
			return RUT_WALK_MORE;
		}
		w->next += 3;
		if (w->by_page || rut_mono_ns() > deadline_ns)
			return RUT_WALK_MORE;
	}
	if (!w->listed)
		return RUT_WALK_MORE;
	if (!w->unsure)
		return RUT_WALK_DONE;
	wait_for_gc(w, deadline_ns);
	return RUT_WALK_MORE;
}

static enum rut_walk_state steps(struct rut_walk *w, const struct reader *r, uint64_t deadline_ns)
{
	enum rut_walk_state state;

	do
		state = step(w, r, deadline_ns);
	while (state == RUT_WALK_MORE && deadline_ns == UINT64_MAX);
	return state;
}

enum rut_walk_state rut_agent_walk_step(struct rut_walk *w, rut_walk_fn wants, void *data,
					uint64_t deadline_ns)
{
	return steps(w, &(struct reader){.wants = wants, .data = data}, deadline_ns);
}

enum rut_walk_state rut_agent_walk_step_each(struct rut_walk *w, rut_walk_each_fn each, void *data,
					     uint64_t deadline_ns)
{
	return steps(w, &(struct reader){.each = each, .data = data}, deadline_ns);
}
