/* SPDX-License-Identifier: MIT */
/* Packets in memory, compared with a plain array of the same bytes. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stream/held.h"

#define PAGE 4096
#define MOST 64 /* pages of a packet */

static unsigned char *model; /* what a file would hold, from position `gone` on */
static off_t gone, end;

static void append(struct rut_held *h, struct rut_held_pool *pool, size_t pages)
{
	struct rut_held_block *b = rut_held_new(pool, pages * PAGE);

	assert_non_null(b);
	for (size_t i = 0; i < pages * PAGE; i++)
		rut_held_data(b)[i] = model[end + (off_t)i] = (unsigned char)rand();
	rut_held_append(h, b);
	end += (off_t)(pages * PAGE);
	assert_int_equal(h->end, end);
}

/* Reads all that is held, packet by packet. */
static void check(const struct rut_held *h)
{
	off_t at = gone;
	size_t len;

	while (at < end) {
		const unsigned char *data = rut_held_find(h, at, &len);

		assert_non_null(data);
		assert_memory_equal(data, model + at, len);
		at += (off_t)len;
	}
	assert_int_equal(at, end);
	assert_null(rut_held_find(h, end, &len));
	if (gone)
		assert_null(rut_held_find(h, gone - 1, &len));
}

/* The end of the n-th packet from the first one that is held. */
static off_t end_of(const struct rut_held *h, int n)
{
	off_t at = gone;

	while (n-- && at < end) {
		size_t len;

		assert_non_null(rut_held_find(h, at, &len));
		at += (off_t)len;
	}
	return at;
}

static void test_random(void **state)
{
	struct rut_held_pool pool = {0};
	struct rut_held h = {0};

	(void)state;
	srand(1);
	gone = end = 0;
	model = malloc((size_t)4000 * MOST * PAGE / 8);
	assert_non_null(model);
	for (int i = 0; i < 400; i++) {
		int what = rand() % 8;

		if (what < 5)
			append(&h, &pool, 1 + (size_t)rand() % MOST);
		else if (what < 7) {
			gone = end_of(&h, rand() % 4);
			rut_held_release(&h, &pool, gone);
		} else {
			end = end_of(&h, 1 + rand() % 8);
			rut_held_cut(&h, &pool, end);
			assert_int_equal(h.end, end);
		}
		check(&h);
	}
	rut_held_release(&h, &pool, end);
	assert_null(h.first);
	rut_held_pool_free(&pool);
	free(model);
}

/* Pages of this process, by the kernel's count. */
static long resident(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long size, pages = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld %ld", &size, &pages), 2);
	fclose(f);
	return pages;
}

/* What was released is used again, and only a little of it is kept. */
static void test_pool(void **state)
{
	struct rut_held_pool pool = {0};
	struct rut_held h = {0};
	struct rut_held_block *b, *small;
	long before, filled;

	(void)state;
	b = rut_held_new(&pool, MOST * PAGE);
	rut_held_append(&h, b);
	rut_held_release(&h, &pool, h.end);
	assert_ptr_equal(rut_held_new(&pool, MOST * PAGE), b);
	rut_held_append(&h, b);
	rut_held_release(&h, &pool, h.end);
	/* A small packet does not take a large block. */
	small = rut_held_new(&pool, PAGE);
	assert_ptr_not_equal(small, b);
	rut_held_append(&h, small);
	rut_held_release(&h, &pool, h.end);
	before = resident();
	for (int i = 0; i < 128; i++) {
		b = rut_held_new(&pool, MOST * PAGE);
		assert_non_null(b);
		memset(rut_held_data(b), 1, MOST * PAGE);
		rut_held_append(&h, b);
	}
	filled = resident();
	assert_true(filled - before > 100 * MOST);
	rut_held_release(&h, &pool, h.end);
	assert_true(resident() - before < 10 * MOST);
	rut_held_pool_free(&pool);
	assert_true(resident() - before < 3 * MOST);
}

/* What is held takes little more memory than its packets have, also where they are small. */
static void test_small(void **state)
{
	struct rut_held_pool pool = {0};
	struct rut_held h = {0};
	long before = resident();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct rut_held_block *b = rut_held_new(&pool, PAGE);

		assert_non_null(b);
		memset(rut_held_data(b), 1, PAGE);
		rut_held_append(&h, b);
	}
	assert_true(resident() - before < 1200);
	rut_held_release(&h, &pool, h.end);
	rut_held_pool_free(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_small),
	};

	return cmocka_run_group_tests_name("held", tests, NULL, NULL);
}
