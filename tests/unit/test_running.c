/* SPDX-License-Identifier: MIT */
/* Calls that run, read from the memory of a process: here from our own. */
#include "ruby/running.h"
#include "ruby/table.h"
#include "unit.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, ROWS = 4, BUCKETS = 3, TABLE_BYTES = 4 * PAGE };

struct variant {
	char other[24];
	struct rut_agent_row *row;
};

struct frame {
	uint64_t begin, inner;
	char other[8];
	bool outermost;
	struct variant *v;
};

struct stack {
	struct stack *next;
	const void *session;
	struct frame *frames;
	uint64_t out;
	uint32_t count, cap;
};

struct process {
	struct rut_agent_table *table; /* owned */
	struct rut_agent_row *rows;
	struct variant variants[ROWS];
	struct frame a[4], b[2], c[1];
	struct stack stacks[3];
	struct stack *buckets[BUCKETS];
	struct rut_tracee p;
	uint64_t now;
};

static const char session;

static int setup(void **state)
{
	struct process *x = calloc(1, sizeof(*x));

	x->table = aligned_alloc(PAGE, TABLE_BYTES);
	memset(x->table, 0, TABLE_BYTES);
	x->rows = (struct rut_agent_row *)((char *)x->table + PAGE);
	for (int i = 0; i < ROWS; i++)
		x->variants[i].row = &x->rows[i];
	x->table->row_count = ROWS;
	x->table->strs_off = 2 * PAGE;
	x->table->stacks = (struct rut_agent_stacks){
		.session = (uintptr_t)&session,
		.buckets = (uintptr_t)x->buckets,
		.rows = (uintptr_t)x->rows,
		.bucket_count = BUCKETS,
		.stack_bytes = sizeof(struct stack),
		.stack_session = offsetof(struct stack, session),
		.stack_next = offsetof(struct stack, next),
		.stack_out = offsetof(struct stack, out),
		.stack_count = offsetof(struct stack, count),
		.stack_frames = offsetof(struct stack, frames),
		.frame_bytes = sizeof(struct frame),
		.frame_variant = offsetof(struct frame, v),
		.frame_begin = offsetof(struct frame, begin),
		.frame_inner = offsetof(struct frame, inner),
		.frame_outermost = offsetof(struct frame, outermost),
		.variant_row = offsetof(struct variant, row),
	};
	x->p = (struct rut_tracee){.pid = getpid(), .table = x->table, .table_bytes = TABLE_BYTES};
	/* One stack that runs: 0 calls 1 calls 0 again calls 2; one that waits; one of another. */
	x->now = rut_ruby_table_ticks(&x->p);
	for (int i = 0; i < 4; i++)
		x->a[i] = (struct frame){.begin = x->now - (uint64_t)(4 - i) * 1000000000,
					 .inner = 100000000,
					 .outermost = i != 2,
					 .v = &x->variants[i == 3 ? 2 : i % 2]};
	x->b[0] = (struct frame){.begin = 1000, .outermost = true, .v = &x->variants[3]};
	x->b[1] = (struct frame){.begin = 4000, .outermost = true, .v = &x->variants[2]};
	x->c[0] = (struct frame){.begin = 1, .outermost = true, .v = &x->variants[3]};
	x->stacks[0] = (struct stack){.session = &session, .frames = x->a, .count = 4};
	x->stacks[1] = (struct stack){.session = &session,
				      .frames = x->b,
				      .count = 2,
				      .out = 6000,
				      .next = &x->stacks[2]};
	x->stacks[2] = (struct stack){.session = state, .frames = x->c, .count = 1};
	x->buckets[0] = &x->stacks[0];
	x->buckets[2] = &x->stacks[1];
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct process *x = *state;

	free(x->p.last);
	free(x->table);
	free(x);
	return 0;
}

/* Everything since setup() comes on top. */
static void assert_about(uint64_t ticks, uint64_t seconds_10)
{
	assert_true(ticks >= seconds_10 * 100000000);
	assert_true(ticks < seconds_10 * 100000000 + 90000000);
}

static void test_times(void **state)
{
	struct process *x = *state;
	struct rut_agent_row rows[ROWS];

	x->rows[3] = (struct rut_agent_row){.calls = 7, .total = 50, .self = 40, .max = 30};
	x->rows[1].max = UINT64_MAX;
	rut_running_add(&x->p, rows, ROWS);
	assert_about(rows[0].total, 40);
	assert_int_equal(rows[0].self, 2 * 900000000ull);
	assert_about(rows[0].max, 40);
	assert_about(rows[1].total, 30);
	assert_int_equal(rows[1].self, 900000000);
	assert_true(rows[1].max == UINT64_MAX);
	assert_about(rows[2].total - 2000, 10);
	assert_about(rows[2].self - 2000, 9);
	/* The fiber that waits: as far as it came. */
	assert_int_equal(rows[3].calls, 7);
	assert_int_equal(rows[3].total, 50 + 5000);
	assert_int_equal(rows[3].self, 40 + 3000);
	assert_int_equal(rows[3].max, 5000);
	/* What is there does not change. */
	assert_int_equal(x->rows[3].total, 50);
	assert_int_equal(x->rows[0].total, 0);
}

/* The longest since the last reset; what runs is as long as it is. */
static void test_reset(void **state)
{
	struct process *x = *state;
	struct rut_agent_row rows[ROWS];

	x->rows[1].max = UINT64_MAX;
	x->table->reset_epoch = 1;
	rut_running_add(&x->p, rows, ROWS);
	assert_about(rows[1].max, 30);
	assert_int_equal(rows[1].epoch, 1);
}

static void test_nobody(void **state)
{
	struct process *x = *state;
	struct rut_agent_row rows[ROWS];

	x->p.exited = true;
	rut_running_add(&x->p, rows, ROWS);
	assert_memory_equal(rows, x->rows, sizeof(rows));
	x->p.exited = false;
	x->table->stacks.session = 0;
	rut_running_add(&x->p, rows, ROWS);
	assert_memory_equal(rows, x->rows, sizeof(rows));
}

/* Whatever stands there: it ends, and only rows that are there change. */
static void test_nonsense(void **state)
{
	struct process *x = *state;
	struct rut_agent_row rows[ROWS];
	static const uint64_t odd[] = {0,	   1,	       7,	   4096,
				       1ull << 31, 1ull << 47, UINT64_MAX, 1ull << 63};
	const struct process good = *x; /* nothing was read yet: `last` is NULL */
	const struct rut_agent_stacks described = x->table->stacks;
	uint64_t seed = 88172645463325252ull;

	/* A ring of stacks. */
	x->stacks[1].next = &x->stacks[1];
	rut_running_add(&x->p, rows, ROWS);
	for (int i = 0; i < 3000; i++) {
		uint64_t value;

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		value = seed & 8 ? odd[seed & 7] : seed;
		if (i % 4 == 0) {
			unsigned char *to = (unsigned char *)&x->table->stacks;

			memcpy(to + (seed >> 16) % (sizeof(described) - 8), &value, 8);
		} else {
			unsigned char *to = (unsigned char *)x->variants;
			size_t room =
				offsetof(struct process, p) - offsetof(struct process, variants);

			memcpy(to + (seed >> 16) % (room - 8), &value, 8);
		}
		rut_running_add(&x->p, rows, ROWS);
		if (i % 3 == 2) {
			free(x->p.last);
			*x = good;
			x->table->stacks = described;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_times, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reset, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nonsense, setup, teardown),
	};

	return cmocka_run_group_tests_name("running", tests, NULL, NULL);
}
