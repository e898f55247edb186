/* SPDX-License-Identifier: MIT */
/*
 * Allocations: Ruby reports every object that it makes (RUBY_INTERNAL_EVENT_NEWOBJ), also of those
 * that C methods and literals make. The line is that of the Ruby method that runs. Counted are
 * objects that a program can see: what Ruby makes for itself (method entries, code, hidden arrays)
 * is not. The hook must not allocate from Ruby.
 */
#include "alloc.h"

#include <string.h>

#define PAGE_BYTES 65536ul /* the heap's pages, since 3.1; aligned */
#define PAGES_MIN  1024u

static uint32_t page_hash(VALUE page, uint32_t mask)
{
	return (uint32_t)((uint64_t)page * 0x9e3779b97f4a7c15ull >> 40) & mask;
}

static int slots_page(void *start, void *end, size_t stride, void *data)
{
	struct rut_slots *slots = data;
	VALUE page = (VALUE)start & ~(PAGE_BYTES - 1);
	uint32_t i;

	if (slots->count >= slots->mask / 4 * 3)
		return 1;
	for (i = page_hash(page, slots->mask); slots->pages[i]; i = (i + 1) & slots->mask)
		if ((slots->pages[i] & ~(PAGE_BYTES - 1)) == page)
			break;
	if (!slots->pages[i])
		slots->count++;
	slots->pages[i] = page | (stride & (PAGE_BYTES - 1));
	return 0;
}

void rut_agent_alloc_scan_slots(struct rut_slots *slots)
{
	uint32_t mask = slots->pages ? slots->mask : PAGES_MIN - 1;

	for (;; mask = mask * 2 + 1) {
		struct rut_slots fresh = {.pages = rut_agent_map((mask + 1ul) * sizeof(uint64_t)),
					  .mask = mask};

		if (!fresh.pages)
			return;
		if (rb.rb_objspace_each_objects_without_setup)
			rb.rb_objspace_each_objects_without_setup(slots_page, &fresh);
		else
			rb.rb_objspace_each_objects(slots_page, &fresh);
		if (fresh.count < mask / 4 * 3) {
			if (slots->pages)
				rut_agent_unmap(slots->pages,
						(slots->mask + 1ul) * sizeof(*slots->pages));
			*slots = fresh;
			return;
		}
		rut_agent_unmap(fresh.pages, (mask + 1ul) * sizeof(uint64_t));
	}
}

/* The size of the slot. Until a new page is known: the smallest. */
static uint64_t slot_bytes(struct rut_slots *slots, VALUE obj)
{
	VALUE page = obj & ~(PAGE_BYTES - 1);

	if (!slots->pages)
		return 40;
	for (uint32_t i = page_hash(page, slots->mask); slots->pages[i]; i = (i + 1) & slots->mask)
		if ((slots->pages[i] & ~(PAGE_BYTES - 1)) == page)
			return slots->pages[i] & (PAGE_BYTES - 1);
	slots->stale = true;
	return 40;
}

static bool type_wanted(uint32_t mode, unsigned type)
{
	/* none, internal, zombie, moved: T_IMEMO, T_NODE, T_ICLASS ... are from 0x1a on */
	if (type == 0 || type >= RUT_T_IMEMO)
		return false;
	if (mode == RUT_AGENT_STRINGS)
		return type == RUT_T_STRING;
	if (mode == RUT_AGENT_ARRAYS)
		return type == RUT_T_ARRAY || type == RUT_T_HASH;
	return true;
}

static bool visible(struct rut_session *s, const struct rut_trace_arg *ta)
{
	VALUE obj = ta->data, klass = rut_klass(obj);

	/* A call cache has the class in this place, too: it is not a ractor. */
	if (RUT_UNLIKELY(klass == rb.c_ractor && klass && rut_type(obj) == RUT_T_DATA))
		rut_agent_session_ractors(s);
	return klass && type_wanted(s->mode, rut_type(obj));
}

bool rut_agent_alloc_visible(struct rut_session *s, const struct rut_trace_arg *ta,
			     uint64_t *ret_bytes)
{
	if (!visible(s, ta))
		return false;
	*ret_bytes = slot_bytes(&s->slots, ta->data);
	return true;
}

const struct rut_agent_site *rut_agent_alloc_site(struct rut_session *s,
						  const struct rut_trace_arg *ta,
						  uint64_t *ret_bytes)
{
	const struct rut_agent_site *site;

	if (!visible(s, ta))
		return NULL;
	site = rut_agent_site(s, ta, rut_klass(ta->data), 0,
			      s->mode != RUT_AGENT_OBJECTS_TOTAL || s->filter.has_paths);
	if (site)
		*ret_bytes = slot_bytes(&s->slots, ta->data);
	return site;
}

void rut_agent_alloc_on_newobj(VALUE index, struct rut_trace_arg *ta)
{
	struct rut_session *s = rut_session_of(index);
	uint64_t bytes;
	const struct rut_agent_site *site = rut_agent_alloc_site(s, ta, &bytes);

	if (!site)
		return;
	rut_add(&site->row->count, 1);
	rut_add(&site->row->bytes, bytes);
}
