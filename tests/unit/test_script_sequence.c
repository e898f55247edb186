/* SPDX-License-Identifier: MIT */
/* What waits for hits of a process: it is bounded, and whole where memory is short. */
#include "script/sequence.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "script/program.h"
#include "script/ruby_attach.h"

static bool refuse;
static uint64_t complete_ns, shown, last_ns;

void *__real_realloc(void *p, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
int __wrap_rut_script_tracer_gather(struct rut_script_tracer *t, uint64_t *until_ns,
				    struct rut_err *err);
int __wrap_rut_script_tracer_run_until(struct rut_script_tracer *t, uint64_t until_ns,
				       uint32_t room_bytes, void (*served)(void *arg), void *arg,
				       struct rut_err *err);

void *__wrap_realloc(void *p, size_t bytes)
{
	return refuse ? NULL : __real_realloc(p, bytes);
}

int __wrap_rut_script_tracer_gather(struct rut_script_tracer *t, uint64_t *until_ns,
				    struct rut_err *err)
{
	*until_ns = complete_ns;
	return 1;
}

int __wrap_rut_script_tracer_run_until(struct rut_script_tracer *t, uint64_t until_ns,
				       uint32_t room_bytes, void (*served)(void *arg), void *arg,
				       struct rut_err *err)
{
	assert_true(until_ns <= complete_ns);
	return 0;
}

static void show(void *arg, const struct rut_script_event *e, size_t size)
{
	assert_int_equal(size, *(const size_t *)arg);
	assert_true(e->time_ns > last_ns);
	last_ns = e->time_ns;
	shown++;
}

static void nothing(void *arg)
{
}

static struct rut_script_sequence sequence(size_t *size)
{
	refuse = false;
	complete_ns = shown = last_ns = 0;
	return (struct rut_script_sequence){.show = show, .read = nothing, .arg = size};
}

static bool keep(struct rut_script_sequence *o, uint64_t ns, size_t size)
{
	_Alignas(8) static unsigned char bytes[1 << 20];
	struct rut_script_event e = {.time_ns = ns};

	memcpy(bytes, &e, sizeof(e));
	return rut_script_sequence_keep(o, (const void *)bytes, size);
}

/* A process whose hits are never complete. */
static void test_bound(void **state)
{
	size_t size = 1 << 20;
	struct rut_script_sequence o = sequence(&size);

	complete_ns = 10;
	for (uint64_t ns = 1; ns <= 200; ns++) {
		assert_true(keep(&o, ns, size));
		assert_int_equal(rut_script_sequence_round(&o, false, NULL), 1);
		assert_int_equal(shown, ns < 10 ? ns : ns - 63 > 10 && ns > 63 ? ns - 63 : 10);
	}
	assert_int_equal(rut_script_sequence_round(&o, true, NULL), 1);
	assert_int_equal(shown, 200);
	rut_script_sequence_fini(&o);
}

/* The record for which there is no memory is not kept in part; that there was none is reported. */
static void test_no_memory(void **state)
{
	size_t size = 37;
	struct rut_script_sequence o = sequence(&size);
	struct rut_err err = RUT_ERR_INIT;

	complete_ns = 100;
	assert_true(keep(&o, 1, size));
	refuse = true;
	assert_false(keep(&o, 2, size));
	refuse = false;
	assert_int_equal(rut_script_sequence_round(&o, false, &err), -ENOMEM);
	assert_int_equal(shown, 1);
	assert_true(keep(&o, 3, size));
	assert_int_equal(rut_script_sequence_round(&o, false, &err), 1);
	assert_int_equal(shown, 2);
	assert_int_equal(last_ns, 3);
	rut_script_sequence_fini(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests_name("script_sequence", tests, NULL, NULL);
}
