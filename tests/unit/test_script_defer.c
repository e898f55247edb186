/* SPDX-License-Identifier: MIT */
/* Hits and records that are kept until it is their turn: their memory. */
#include <errno.h>
#include <malloc.h>
#include <string.h>

#include "agent/abi.h"
#include "ruby/tracer.h"
#include "script/defer.h"
#include "script/program.h"
#include "script/ruby_probe.h"
#include "unit.h"

/* Of malloc(), mapped or not. */
static size_t used_bytes(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* As many small hits as a full ring of 4 MiB has, of a probe with as many texts as there may be. */
static void test_hits_are_kept_packed(void **state)
{
	enum { HITS = 60000 };
	static char texts[RUT_HIT_TEXTS * 2];
	struct rut_ruby_probe_ctx ctx = {.nwishes = RUT_HIT_TEXTS, .sends_bytes = 64};
	struct rut_script_prog prog = {.replays = 1, .fd = -1};
	struct rut_script_program p = {.progs = &prog, .nprogs = 1, .ruby_probes = {&ctx}};
	struct rut_script_hits *h;
	size_t before;

	for (size_t i = 0; i < RUT_HIT_TEXTS; i++) {
		ctx.wishes[i] = "m";
		texts[i * 2] = 'a';
	}
	assert_int_equal(rut_script_hits_new(&h, &p), 0);
	before = used_bytes();
	for (size_t i = 0; i < HITS; i++) {
		const struct rut_ruby_event ev = {.type = RUT_RUBY_EVENT_HIT,
						  .time_ns = i,
						  .texts = texts,
						  .text_bytes = sizeof(texts)};

		rut_script_hits_event(&ev, h);
	}
	/* Under AddressSanitizer malloc() counts nothing there. */
	if (before)
		assert_true(used_bytes() > before);
	assert_true(used_bytes() - before < (size_t)HITS * 300);
	rut_script_hits_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_hits_are_kept_packed)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
