/* SPDX-License-Identifier: MIT */
/*
 * Sampled allocations: every object is counted, and one of N, or the one that has the N-th byte, is
 * written with the stack of Ruby frames that allocates it. So the totals are exact, and what a
 * sample costs is paid once for N.
 *
 * The distance to the next sample is random, from 1 to 2N - 1: with a fixed one a loop that
 * allocates the same objects again and again would show some of its lines and never the others.
 *
 * Ruby lists the frames (rb_profile_frames) without allocating. Their names are looked up once, and
 * remembered by frame and line for as long as the address holds (life.h).
 */
#include "sample.h"

#include "alloc.h"
#include "names.h"
#include "record.h"
#include "site.h"
#include "write_record.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS 8192u /* a power of two */

/* Of a method entry: words, and the id in its definition, the same since 2.5. */
#define ME_DEF	    2
#define ME_OWNER    4
#define DEF_ID	    4
#define EVERY_MAX   UINT32_MAX
#define BYTES_SHIFT 10

struct sample_frame {
	VALUE frame;
	int line;
	uint32_t row;
	struct rut_life life;
};

/* Not on the stack: a hook may run when little of that is left. */
struct rut_sample_room {
	VALUE frames[RUT_RECORD_FRAMES];
	int lines[RUT_RECORD_FRAMES];
	uint64_t record[(sizeof(struct rut_record_sample) + RUT_RECORD_FRAMES * 4) / 8 + 1];
	struct sample_frame seen[SLOTS];
};

static int64_t next_gap(struct rut_sample_mode *m)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return (int64_t)(1 + m->random % (2 * m->every - 1));
}

/* The row of a method entry, or of code without a method: a class body, a program. NULL: memory is
 * short. */
static const struct rut_agent_row *name_frame(struct rut_session *s, VALUE frame, int line)
{
	struct rut_agent_rows *t = &s->table;
	const char *path, *label = NULL;
	size_t path_len, len = 0;
	bool singleton = false;
	char class[256] = "";

	path = rut_agent_str(rb.rb_profile_frame_path(frame), &path_len);
	if (rut_imemo(frame) == RUT_IMEMO_MENT) {
		const VALUE *me = (const VALUE *)frame;
		const VALUE *def = (const VALUE *)me[ME_DEF];

		rut_agent_class_name(me[ME_OWNER], class, sizeof(class), &singleton);
		label = def ? rb.rb_id2name(def[DEF_ID]) : NULL;
		len = label ? strlen(label) : 0;
	}
	if (!label)
		label = rut_agent_str(rb.rb_profile_frame_label(frame), &len);
	return rut_agent_table_row(t, path_len ? rut_agent_table_str(t, path, path_len) : 0,
				   line > 0 ? (uint32_t)line : 0,
				   *class ? rut_agent_table_str(t, class, strlen(class)) : 0,
				   len ? rut_agent_table_str(t, label, len) : 0,
				   (singleton ? RUT_ROW_SINGLETON : 0) |
					   (path_len ? 0 : RUT_ROW_C));
}

/* False: it has none. */
static bool frame_row(struct rut_session *s, VALUE frame, int line, uint32_t *ret)
{
	uint64_t h = (frame ^ (uint64_t)(unsigned)line << 40) * 0x9e3779b97f4a7c15ull;
	struct sample_frame *f = &s->sample.room->seen[h >> 32 & (SLOTS - 1)];
	const struct rut_agent_row *row;

	if (f->frame != frame || f->line != line || !rut_life_holds(f->life)) {
		row = name_frame(s, frame, line);
		if (!row)
			return false;
		*f = (struct sample_frame){frame, line, (uint32_t)(row - s->table.rows),
					   rut_agent_life_of(frame, 0)};
	}
	*ret = f->row;
	return true;
}

/* The frame that Ruby puts below the outermost one is code without a line. */
static bool is_frame(VALUE frame, int line)
{
	return line > 0 || rb.rb_profile_frame_path(frame) == rb.qnil;
}

static void write_sample(struct rut_session *s, struct rut_trace_arg *ta, uint64_t bytes)
{
	const struct rut_agent_site *site = rut_agent_site(s, ta, rut_klass(ta->data), 0, false);
	struct rut_sample_room *room = s->sample.room;
	struct rut_record_sample *e = (void *)room->record;
	uint32_t row;
	int n;

	if (!site)
		return;
	n = rb.rb_profile_frames(0, RUT_RECORD_FRAMES, room->frames, room->lines);
	e->row = (uint32_t)(site->row - s->table.rows);
	e->bytes = (uint32_t)bytes;
	e->weight = (uint32_t)s->sample.every;
	e->frame_count = 0;
	for (int i = 0; i < n; i++)
		if (is_frame(room->frames[i], room->lines[i]) &&
		    frame_row(s, room->frames[i], room->lines[i], &row))
			e->frames[e->frame_count++] = row;
	rut_agent_record_write(s, ta->ec, RUT_RECORD_ALLOC_SAMPLE, e,
			       (uint32_t)sizeof(*e) + e->frame_count * 4);
}

static void on_newobj(VALUE index, struct rut_trace_arg *ta)
{
	struct rut_session *s = rut_session_of(index);
	struct rut_agent_table *t = s->table.hdr;
	struct rut_sample_mode *m = &s->sample;
	uint64_t bytes, step;

	if (!rut_agent_alloc_visible(s, ta, &bytes)) {
		rut_add(&t->allocs_internal, 1);
		return;
	}
	rut_add(&t->allocs, 1);
	rut_add(&t->alloc_bytes, bytes);
	step = m->by_bytes ? bytes : 1;
	if (RUT_LIKELY(__atomic_sub_fetch(&m->left, step, __ATOMIC_RELAXED) > 0))
		return;
	/* Another ractor takes a sample right now: the next object will be this one's. */
	if (!rut_trylock(&m->lock))
		return;
	write_sample(s, ta, bytes);
	m->left = next_gap(m);
	rut_unlock(&m->lock);
}

/* "1000" objects, or "64k" bytes. */
static void take_interval(struct rut_session *s, const char *text)
{
	uint64_t n = 0;

	for (; *text >= '0' && *text <= '9' && n < EVERY_MAX; text++)
		n = n * 10 + (uint64_t)(*text - '0');
	s->sample.by_bytes = *text == 'k';
	if (s->sample.by_bytes)
		n <<= BYTES_SHIFT;
	s->sample.every = n < 1 ? 1 : n > EVERY_MAX ? EVERY_MAX : n;
}

const char *rut_agent_sample_hook(struct rut_session *s)
{
	if (rut_ractors_crash() && !rut_single_ractor())
		return RUT_REFUSED_RACTORS;
	for (const char *c = s->filter.config; *c; c += strlen(c) + 1)
		if (*c == RUT_FILTER_SAMPLE)
			take_interval(s, c + 1);
	if (!s->sample.every)
		return "no interval between samples was given";
	s->sample.room = rut_agent_map(sizeof(*s->sample.room));
	if (!s->sample.room)
		return "memory is short";
	s->sample.random = (rut_ring_clock() ^ (uintptr_t)s) | 1;
	s->sample.left = next_gap(&s->sample);
	if (rb.abi->slot_sizes)
		rut_agent_alloc_scan_slots(&s->slots);
	rut_agent_session_raw(s, RUT_EVENT_NEWOBJ, on_newobj);
	return NULL;
}

void rut_agent_sample_fini(struct rut_session *s)
{
	rut_agent_unmap(s->sample.room, sizeof(*s->sample.room));
	s->sample.room = NULL;
}
