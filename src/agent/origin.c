/* SPDX-License-Identifier: MIT */
#include "origin.h"

#include "alloc.h"

#define CHUNK_BYTES 16384ul /* the smallest heap page (until 3.0) */
#define SLOT_MIN    32ul    /* no two objects begin within that */
#define CHUNK_SLOTS (CHUNK_BYTES / SLOT_MIN)
#define CHUNKS_MAX  16384u /* 4 KiB each */
#define MASK_MIN    1023u

struct rut_origin_page {
	VALUE address; /* of the heap, a multiple of CHUNK_BYTES; 0: free */
	struct rut_origin *notes;
};

static uint32_t hash(VALUE address, uint32_t mask)
{
	return (uint32_t)((uint64_t)address * 0x9e3779b97f4a7c15ull >> 40) & mask;
}

static struct rut_origin_page *find(struct rut_origin_page *pages, uint32_t mask, VALUE address)
{
	uint32_t i = hash(address, mask);

	while (pages[i].address && pages[i].address != address)
		i = (i + 1) & mask;
	return &pages[i];
}

static bool grow(struct rut_origins *o)
{
	uint32_t mask = o->pages ? o->mask * 2 + 1 : MASK_MIN;
	struct rut_origin_page *to = rut_agent_map((mask + 1ul) * sizeof(*to));

	if (!to)
		return false;
	for (uint32_t i = 0; o->pages && i <= o->mask; i++)
		if (o->pages[i].address)
			*find(to, mask, o->pages[i].address) = o->pages[i];
	rut_agent_unmap(o->pages, (o->mask + 1ul) * sizeof(*to));
	o->pages = to;
	o->mask = mask;
	o->last = NULL;
	return true;
}

/* The notes of this part of the heap; NULL: there are none, and there is no room for any. */
static struct rut_origin *add_notes(struct rut_session *s, VALUE address)
{
	struct rut_origins *o = &s->origins;
	struct rut_origin_page *page;

	if (o->count >= CHUNKS_MAX || (o->count >= o->mask / 4 * 3 && !grow(o))) {
		o->flags |= RUT_LOOK_ORIGINS_LOST;
		return NULL;
	}
	page = find(o->pages, o->mask, address);
	page->notes = rut_agent_session_alloc(s, CHUNK_SLOTS * sizeof(struct rut_origin));
	if (!page->notes) {
		o->flags |= RUT_LOOK_ORIGINS_LOST;
		return NULL;
	}
	page->address = address;
	o->count++;
	o->last = page;
	return page->notes;
}

static struct rut_origin *notes_of(struct rut_origins *o, VALUE address)
{
	const struct rut_origin_page *page = o->last;

	if (RUT_LIKELY(page && page->address == address))
		return page->notes;
	page = find(o->pages, o->mask, address);
	if (!page->address)
		return NULL;
	o->last = page;
	return page->notes;
}

struct rut_origin rut_agent_origin_of(const struct rut_session *s, VALUE obj)
{
	const struct rut_origins *o = &s->origins;
	const struct rut_origin_page *page;
	struct rut_origin note;

	if (!o->on)
		return (struct rut_origin){0};
	page = find(o->pages, o->mask, obj & ~(CHUNK_BYTES - 1));
	if (!page->address)
		return (struct rut_origin){0};
	note = page->notes[obj % CHUNK_BYTES / SLOT_MIN];
	if ((int32_t)(note.gcs - o->valid_from) < 0)
		note.row = 0;
	return note;
}

/* What was noted up to now, also during the collection that has moved the objects. */
static void forget(struct rut_origins *o)
{
	o->valid_from = (uint32_t)o->gcs + 1;
	o->flags |= RUT_LOOK_NO_ORIGINS;
}

void rut_agent_origins_sync(struct rut_session *s, bool exact)
{
	struct rut_origins *o = &s->origins;
	size_t compactions;

	if (!o->on)
		return;
	if (RUT_UNLIKELY(!rut_single_ractor())) {
		forget(o);
		o->on = false;
		return;
	}
	if (RUT_LIKELY(o->gcs == rut_gcs() && !exact))
		return;
	o->gcs = rut_gcs();
	compactions = rut_agent_compactions();
	if (compactions != o->compactions)
		forget(o);
	o->compactions = compactions;
}

static void on_newobj(VALUE index, struct rut_trace_arg *ta)
{
	struct rut_session *s = rut_session_of(index);
	struct rut_origins *o = &s->origins;
	VALUE address = ta->data & ~(CHUNK_BYTES - 1);
	const struct rut_agent_site *site;
	struct rut_origin *notes;
	uint64_t bytes;

	rut_agent_origins_sync(s, false);
	if (!o->on)
		return;
	notes = notes_of(o, address);
	site = rut_agent_alloc_site(s, ta, &bytes);
	if (site) {
		struct rut_agent_heap *h = rut_table_extra(&s->table, site->row);

		h->born++;
		if (!notes)
			notes = add_notes(s, address);
	}
	if (notes)
		notes[ta->data % CHUNK_BYTES / SLOT_MIN] = (struct rut_origin){
			.row = site ? (uint32_t)(site->row - s->table.rows) + 1 : 0,
			.gcs = (uint32_t)o->gcs,
		};
}

void rut_agent_origins_begin(struct rut_session *s)
{
	struct rut_origins *o = &s->origins;

	if (!rut_single_ractor() || !grow(o)) {
		o->flags |= RUT_LOOK_NO_ORIGINS;
		return;
	}
	o->gcs = rut_gcs();
	o->valid_from = (uint32_t)o->gcs;
	o->compactions = rut_agent_compactions();
	o->on = true;
	rut_agent_session_raw(s, RUT_EVENT_NEWOBJ, on_newobj);
}

void rut_agent_origins_fini(struct rut_session *s)
{
	struct rut_origins *o = &s->origins;

	rut_agent_unmap(o->pages, o->pages ? (o->mask + 1ul) * sizeof(*o->pages) : 0);
	*o = (struct rut_origins){0};
}
