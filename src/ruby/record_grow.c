/* SPDX-License-Identifier: MIT */
#include "ruby/record_grow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/record.h"

#define WAIT_NS	    1000000000ull /* for others that come with it */
#define WAIT_MAX_NS (10 * WAIT_NS)
#define TEXT_BYTES  (1u << 20) /* for each that the text has, the wait is longer by WAIT_NS */
#define TEXT_MAX    (64u << 20)
#define MANY	    512 /* generations, from which on they are made rarely */

int rut_record_generations_add(struct rut_record_generations *g, uint32_t end)
{
	uint32_t *more = reallocarray(g->ends, g->n + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	g->ends = more;
	more[g->n++] = end;
	return 0;
}

bool rut_record_generation_due(const struct rut_record_grown *g, uint64_t age_ns)
{
	uint64_t wait_ns = g->generations < MANY ? WAIT_NS : 4 * WAIT_NS, longer_ns;

	if (g->generations <= 1)
		return true;
	/* What adds a quarter to all labels is soon worth the whole text. */
	longer_ns = wait_ns + g->text / TEXT_BYTES * WAIT_NS;
	if (g->labels - g->labelled < g->labelled / 4)
		wait_ns = longer_ns < WAIT_MAX_NS ? longer_ns : WAIT_MAX_NS;
	return age_ns >= wait_ns;
}

bool rut_record_generations_full(const struct rut_record_grown *g)
{
	return g->generations > RUT_RECORD_GENERATIONS || g->text >= TEXT_MAX;
}

/* Whose enumeration has the row; the last one for a row that has no name. */
static uint32_t generation_of(const struct rut_record_generations *g, uint32_t row)
{
	size_t from = 0, to = g->n - 1;

	if (row == UINT32_MAX)
		return 0;
	while (from < to) {
		size_t mid = (from + to) / 2;

		if (row < g->ends[mid])
			to = mid;
		else
			from = mid + 1;
	}
	return (uint32_t)from;
}

/* How a record is laid out: its size, without texts; where its rows are; its texts. */
static const struct layout {
	uint8_t size, row_at, rows, texts;
} layouts[RUT_RECORD_IDS] = {
	[RUT_RECORD_SWITCH] = {sizeof(struct rut_record_switch), 0, 0, 0},
	[RUT_RECORD_CALL] = {sizeof(struct rut_record_row), 8, 1, 0},
	[RUT_RECORD_RETURN] = {sizeof(struct rut_record_row), 8, 1, 0},
	[RUT_RECORD_C_CALL] = {sizeof(struct rut_record_row), 8, 1, 0},
	[RUT_RECORD_C_RETURN] = {sizeof(struct rut_record_row), 8, 1, 0},
	[RUT_RECORD_RAISE] = {sizeof(struct rut_record_row), 8, 1, 0},
	[RUT_RECORD_RESCUE] = {sizeof(struct rut_record_row), 8, 1, 0},
	[RUT_RECORD_ALLOC] = {sizeof(struct rut_record_alloc), 8, 1, 0},
	[RUT_RECORD_GC_START] = {sizeof(struct rut_record_gc), 0, 0, 0},
	[RUT_RECORD_GC_MARK_END] = {sizeof(struct rut_record_plain), 0, 0, 0},
	[RUT_RECORD_GC_SWEEP_END] = {sizeof(struct rut_record_gc), 0, 0, 0},
	[RUT_RECORD_GC_ENTER] = {sizeof(struct rut_record_plain), 0, 0, 0},
	[RUT_RECORD_GC_EXIT] = {sizeof(struct rut_record_plain), 0, 0, 0},
	[RUT_RECORD_THREAD_START] = {sizeof(struct rut_record_thread), 0, 0, 0},
	[RUT_RECORD_THREAD_EXIT] = {sizeof(struct rut_record_thread), 0, 0, 0},
	[RUT_RECORD_GVL_WAIT] = {sizeof(struct rut_record_thread), 0, 0, 0},
	[RUT_RECORD_GVL_HAVE] = {sizeof(struct rut_record_thread), 0, 0, 0},
	[RUT_RECORD_GVL_RELEASE] = {sizeof(struct rut_record_thread), 0, 0, 0},
	[RUT_RECORD_REQUEST_BEGIN] = {sizeof(struct rut_record_request), 16, 2, 4},
	[RUT_RECORD_REQUEST_END] = {sizeof(struct rut_record_request_end), 16, 2, 6},
	[RUT_RECORD_SPAN_BEGIN] = {sizeof(struct rut_record_span), 8, 3, 1},
	[RUT_RECORD_SPAN_END] = {sizeof(struct rut_record_span_end), 8, 2, 2},
	[RUT_RECORD_LINE] = {sizeof(struct rut_record_line), 8, 1, 0},
	[RUT_RECORD_ALLOC_SAMPLE] = {sizeof(struct rut_record_sample), 8, 1, 0},
	[RUT_RECORD_SLOW_CALL] = {sizeof(struct rut_record_slow), 8, 1, 0},
};

/* The bytes of a record of `left` at most; 0: it is none. */
static size_t size_of(const unsigned char *record, size_t left, const struct layout *l)
{
	size_t size = l->size;

	if (l == &layouts[RUT_RECORD_ALLOC_SAMPLE] && size <= left) {
		uint32_t frames;

		memcpy(&frames, record + offsetof(struct rut_record_sample, frame_count),
		       sizeof(frames));
		size += (size_t)frames * sizeof(uint32_t);
	}
	for (unsigned int i = 0; i < l->texts; i++) {
		const unsigned char *nul =
			size < left ? memchr(record + size, 0, left - size) : NULL;

		if (!nul)
			return 0;
		size = (size_t)(nul + 1 - record);
	}
	return size <= left ? size : 0;
}

static uint32_t latest(const struct rut_record_generations *g, const unsigned char *rows, size_t n)
{
	uint32_t last = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t row, its;

		memcpy(&row, rows + i * sizeof(row), sizeof(row));
		its = generation_of(g, row);
		last = its > last ? its : last;
	}
	return last;
}

void rut_record_renumber(unsigned char *records, size_t len, const struct rut_record_generations *g)
{
	for (size_t at = 0, size; at + sizeof(uint64_t) <= len; at += size) {
		const struct layout *l;
		uint32_t generation;
		uint16_t id;

		memcpy(&id, records + at, sizeof(id));
		if (id >= RUT_RECORD_IDS || !layouts[id].size)
			return;
		l = &layouts[id];
		size = size_of(records + at, len - at, l);
		if (!size)
			return;
		generation = latest(g, records + at + l->row_at, l->rows);
		if (id == RUT_RECORD_ALLOC_SAMPLE) {
			uint32_t of_frames = latest(g, records + at + l->size,
						    (size - l->size) / sizeof(uint32_t));

			generation = of_frames > generation ? of_frames : generation;
		}
		id = (uint16_t)(id + generation * RUT_RECORD_IDS);
		memcpy(records + at, &id, sizeof(id));
	}
}
