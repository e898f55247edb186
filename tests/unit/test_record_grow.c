/* SPDX-License-Identifier: MIT */
/* Records of Ruby events get the number of the generation of names that has all of theirs. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "agent/record.h"
#include "base/buf.h"
#include "ruby/record_grow.h"

/* Rows 0 to 9 are of generation 1, 10 to 19 of 2, 20 to 29 of 3. */
static struct rut_record_generations generations(void)
{
	struct rut_record_generations g = {0};

	for (uint32_t end = 0; end <= 30; end += 10)
		assert_int_equal(rut_record_generations_add(&g, end), 0);
	return g;
}

#define TIME (0x123456789abull << 16)

static void put(struct rut_buf *b, const void *record, size_t size, const char *texts,
		size_t text_bytes)
{
	rut_buf_add(b, record, size);
	rut_buf_add(b, texts, text_bytes);
}

static void test_all(void **state)
{
	struct rut_record_generations g = generations();
	struct rut_buf b = RUT_BUF_INIT;
	size_t at[16], n = 0;
	static const unsigned int want[] = {1, 3, 0, 2, 3, 3, 2, 3, 1, 3};

#define PUT(type, texts, ...)                                                                      \
	(at[n++] = b.len,                                                                          \
	 put(&b, &(struct type)__VA_ARGS__, sizeof(struct type), texts, sizeof(texts) - 1))
	PUT(rut_record_row, "", {TIME | RUT_RECORD_CALL, 9});
	PUT(rut_record_slow, "", {TIME | RUT_RECORD_SLOW_CALL, 29, 5});
	PUT(rut_record_switch, "", {TIME | RUT_RECORD_SWITCH, 25, 25});
	PUT(rut_record_request, "GET\0/\0\0\0", {TIME | RUT_RECORD_REQUEST_BEGIN, 25, 5, 15});
	PUT(rut_record_request_end, "GET\0/x\0\0\0\0E\0",
	    {TIME | RUT_RECORD_REQUEST_END, 25, 21, 3, 200, 7});
	PUT(rut_record_span, "SELECT\0", {TIME | RUT_RECORD_SPAN_BEGIN, 1, 2, 22, 3});
	PUT(rut_record_span, "\0", {TIME | RUT_RECORD_SPAN_BEGIN, 11, 2, RUT_RECORD_NO_CALLER, 3});
	at[n++] = b.len;
	put(&b, &(struct rut_record_sample){TIME | RUT_RECORD_ALLOC_SAMPLE, 3, 40, 1, 2},
	    sizeof(struct rut_record_sample), (const char *)(uint32_t[]){12, 20}, 8);
	PUT(rut_record_line, "", {TIME | RUT_RECORD_LINE, 0, 25});
	/* A row that has no name yet. */
	PUT(rut_record_alloc, "", {TIME | RUT_RECORD_ALLOC, 99, 25});
	assert_false(b.failed);
	rut_record_renumber((unsigned char *)b.data, b.len, &g);
	for (size_t i = 0; i < n; i++) {
		uint64_t header;

		memcpy(&header, b.data + at[i], sizeof(header));
		assert_int_equal((header & 0xffff) / RUT_RECORD_IDS, want[i]);
		assert_int_equal(header >> 16, TIME >> 16);
	}
	rut_buf_fini(&b);
	free(g.ends);
}

/* Cut anywhere, or no record at all: nothing beyond is touched. */
static void test_bad(void **state)
{
	struct rut_record_generations g = generations();
	const struct rut_record_request r = {TIME | RUT_RECORD_REQUEST_BEGIN, 25, 5, 15};
	unsigned char bytes[64], was[64];

	for (size_t len = 0; len < 40; len++) {
		memset(bytes, 0xff, sizeof(bytes));
		memcpy(bytes, &r, sizeof(r));
		memset(bytes + sizeof(r), 'x', 12);
		memcpy(was, bytes, sizeof(was));
		/* Its texts have no end. */
		rut_record_renumber(bytes, len, &g);
		assert_memory_equal(bytes, was, sizeof(was));
	}
	memset(bytes, 0, sizeof(bytes));
	rut_record_renumber(bytes, sizeof(bytes), &g);
	for (size_t i = 0; i < sizeof(bytes); i++)
		assert_int_equal(bytes[i], 0);
	free(g.ends);
}

#define SECOND 1000000000ull

/*
 * `rows` labels of 70 bytes come evenly within `seconds`, in rounds of 50 ms; each generation
 * repeats them all. Returns how often the text was written.
 */
static unsigned int warm_up(size_t rows, unsigned int seconds, struct rut_record_grown *g)
{
	const unsigned int rounds = seconds * 20;
	unsigned int written = 0;
	uint64_t last_ns = 0;

	for (unsigned int i = 1; i <= rounds && !rut_record_generations_full(g); i++) {
		uint64_t ns = i * SECOND / 20;

		g->labels = rows * i / rounds * 70;
		if (g->labels == g->labelled || !rut_record_generation_due(g, ns - last_ns))
			continue;
		g->text += 2 * g->labels - g->labelled;
		g->labelled = g->labels;
		g->generations++;
		written++;
		last_ns = ns;
	}
	return written;
}

/* Names that come for long do not make of the metadata a multiple of them, without end. */
static void test_due(void **state)
{
	struct rut_record_grown few = {.generations = 1}, warm = few, all = few;

	/* A small text: each second. */
	assert_in_range(warm_up(100, 100, &few), 90, 100);
	assert_in_range(warm_up(10000, 300, &warm), 40, 100);
	assert_in_range(warm.text, 0, 32u << 20);
	assert_false(rut_record_generations_full(&warm));
	assert_true(rut_record_generation_due(&warm, 10 * SECOND));
	warm_up(262144, 3600, &all);
	assert_true(rut_record_generations_full(&all));
	assert_in_range(all.text, 64u << 20, (64u << 20) + 2 * 262144 * 70);
	few.generations = RUT_RECORD_GENERATIONS;
	assert_false(rut_record_generations_full(&few));
	few.generations++;
	assert_true(rut_record_generations_full(&few));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_due),
	};

	return cmocka_run_group_tests_name("record_grow", tests, NULL, NULL);
}
