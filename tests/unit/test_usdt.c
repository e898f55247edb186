/* SPDX-License-Identifier: MIT */
/* librutile-usdt: the life of providers and probes. */
#include "usdt_unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "usdt/arena.h"
#include "usdt/object.h"

static void test_bad_declarations(void **state)
{
	struct rutile_usdt_provider *p = NULL;
	struct rutile_usdt_probe *probe = NULL;
	enum rutile_usdt_type bad = (enum rutile_usdt_type)99, types[13] = {0};
	char longest[RUTILE_USDT_NAME_MAX + 2];

	(void)state;
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = 0;
	assert_int_equal(rutile_usdt_provider_new("", &p), -EINVAL);
	assert_int_equal(rutile_usdt_provider_new("a b", &p), -EINVAL);
	assert_int_equal(rutile_usdt_provider_new("a:b", &p), -EINVAL);
	assert_int_equal(rutile_usdt_provider_new(longest, &p), -EINVAL);
	longest[RUTILE_USDT_NAME_MAX] = 0;
	assert_int_equal(rutile_usdt_provider_new(longest, &p), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "x", &bad, 1, &probe), -EINVAL);
	assert_int_equal(rutile_usdt_probe_add(p, "x", types, 13, &probe), -E2BIG);
	assert_int_equal(rutile_usdt_probe_add(p, "x\n", NULL, 0, &probe), -EINVAL);
	assert_null(probe);
	assert_int_equal(rutile_usdt_probe_add(p, "x", NULL, 0, &probe), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "x", NULL, 0, &probe), -EEXIST);
	rutile_usdt_provider_free(p);
	rutile_usdt_provider_free(NULL);
}

/* What the kernel does when a tracer comes: it adds to the semaphore in the private page. */
static void trace(struct rutile_usdt_probe *probe, int by)
{
	*(volatile uint16_t *)(volatile void *)private(probe)->gate += (uint16_t)by;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Times are those of the clock, traced or not. */
static void test_fire_timed(void **state)
{
	static const enum rutile_usdt_type types[] = {RUTILE_USDT_STR, RUTILE_USDT_S64};
	struct rutile_usdt_provider *p;
	struct rutile_usdt_probe *probe;
	uint64_t args[] = {0, 0}, before, begin, end;

	(void)state;
	assert_int_equal(rutile_usdt_provider_new("timed", &p), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "a", types, 2, &probe), 0);
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	for (int traced = 0; traced < 2; traced++) {
		before = now_ns();
		begin = rutile_usdt_fire_timed(probe, args, 0, NULL);
		assert_int_equal(args[1], 0);
		end = rutile_usdt_fire_timed(probe, args, begin, &args[1]);
		assert_true(before <= begin && begin <= end && end <= now_ns());
		assert_int_equal(args[1], end - begin);
		assert_int_equal(rutile_usdt_probe_count(probe, RUTILE_USDT_FIRED), 2 * traced);
		if (!traced)
			trace(probe, 1);
		args[1] = 0;
	}
	rutile_usdt_provider_free(p);
}

static void test_life(void **state)
{
	struct rutile_usdt_provider *p;
	struct rutile_usdt_probe *a, *b;
	const uint64_t args[12] = {1, 2, 3};
	char path[64], again[64];

	(void)state;
	assert_int_equal(rutile_usdt_provider_new("life", &p), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "a", all_types, 12, &a), 0);
	assert_false(rutile_usdt_enabled(a));
	rutile_usdt_fire(a, args);
	assert_int_equal(rutile_usdt_provider_path(p, 0, path, sizeof(path)), -ENOENT);
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	assert_true(rutile_usdt_provider_loaded(p));
	assert_false(rutile_usdt_enabled(a));
	trace(a, 1);
	assert_true(rutile_usdt_enabled(a));
	rutile_usdt_fire(a, args);
	assert_int_equal(rutile_usdt_probe_count(a, RUTILE_USDT_FIRED), 1);
	/* Added later: the first stays where it is, its tracer too. */
	assert_int_equal(rutile_usdt_provider_path(p, 0, path, sizeof(path)), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "b", NULL, 0, &b), 0);
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	assert_int_equal(rutile_usdt_provider_path(p, 0, again, sizeof(again)), 0);
	assert_string_equal(path, again);
	assert_int_equal(rutile_usdt_provider_path(p, 1, again, sizeof(again)), -ENOENT);
	assert_true(rutile_usdt_enabled(a));
	assert_false(rutile_usdt_enabled(b));
	rutile_usdt_probe_set(a, false);
	assert_false(rutile_usdt_enabled(a));
	rutile_usdt_fire(a, args);
	assert_int_equal(rutile_usdt_probe_count(a, RUTILE_USDT_FIRED), 1);
	rutile_usdt_probe_set(a, true);
	assert_true(rutile_usdt_enabled(a));
	rutile_usdt_provider_unload(p);
	assert_false(rutile_usdt_enabled(a));
	assert_false(rutile_usdt_provider_loaded(p));
	rutile_usdt_provider_free(p);
}

/* Loading and unloading, creating and freeing: neither descriptors nor mappings grow. */
static void test_no_growth(void **state)
{
	struct rutile_usdt_provider *p;
	struct rutile_usdt_probe *probe;
	unsigned maps = 0, fds = 0;

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		if (i == 10) {
			maps = count_maps();
			fds = count_fds();
		}
		assert_int_equal(rutile_usdt_provider_new("grow", &p), 0);
		assert_int_equal(rutile_usdt_probe_add(p, "x", all_types, 3, &probe), 0);
		for (unsigned k = 0; k < 3; k++) {
			assert_int_equal(rutile_usdt_provider_load(p), 0);
			rutile_usdt_provider_unload(p);
		}
		rutile_usdt_provider_free(p);
	}
	assert_int_equal(count_maps(), maps);
	assert_int_equal(count_fds(), fds);
}

struct hammer {
	struct rutile_usdt_probe *probe;
	bool stop;
	uint64_t seen;
};

static void *fire_all_the_time(void *arg)
{
	struct hammer *h = arg;
	const uint64_t args[12] = {0};

	while (!__atomic_load_n(&h->stop, __ATOMIC_RELAXED)) {
		if (rutile_usdt_enabled(h->probe)) {
			rutile_usdt_fire(h->probe, args);
			__atomic_fetch_add(&h->seen, 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

/* The gate and the site vanish under two threads that fire: that must never be noticed. */
static void test_unload_while_firing(void **state)
{
	struct rutile_usdt_provider *p;
	struct hammer h = {0};
	pthread_t threads[2];

	(void)state;
	assert_int_equal(rutile_usdt_provider_new("race", &p), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "x", all_types, 12, &h.probe), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, fire_all_the_time, &h), 0);
	for (unsigned i = 0; i < 200; i++) {
		uint64_t before = __atomic_load_n(&h.seen, __ATOMIC_RELAXED);

		assert_int_equal(rutile_usdt_provider_load(p), 0);
		trace(h.probe, 1);
		while (__atomic_load_n(&h.seen, __ATOMIC_RELAXED) == before)
			sched_yield();
		rutile_usdt_provider_unload(p);
	}
	__atomic_store_n(&h.stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	rutile_usdt_provider_free(p);
}

/* The same declaration is the same probe, another one replaces it. */
static void test_declared_again(void **state)
{
	const enum rutile_usdt_type other[] = {RUTILE_USDT_STR};
	struct rutile_usdt_probe *a, *b, *c, *named;
	struct rutile_usdt_provider *p;

	(void)state;
	assert_int_equal(rutile_usdt_provider_new("again", &p), 0);
	assert_int_equal(rutile_usdt_probe_declare(p, "x", all_types, 2, &a), 0);
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	trace(a, 1);
	assert_int_equal(rutile_usdt_probe_declare(p, "x", all_types, 2, &b), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(rutile_usdt_probe_declare(p, "x", other, 1, &c), 0);
	assert_ptr_not_equal(a, c);
	assert_false(rutile_usdt_enabled(a));
	assert_false(rutile_usdt_probe_is_on(a));
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	assert_true(rutile_usdt_probe_is_on(c));
	assert_ptr_equal(rutile_usdt_probe_find(p, "x", NULL, NULL), c);

	assert_int_equal(rutile_usdt_probe_declare(p, "named", all_types, 2, &named), 0);
	assert_int_equal(rutile_usdt_probe_name_args(named, (const char *[]){"order_id", "to"}), 0);
	assert_int_equal(rutile_usdt_probe_name_args(named, (const char *[]){"to", "to"}), -EINVAL);
	assert_int_equal(rutile_usdt_probe_name_args(named, (const char *[]){"to", "1"}), -EINVAL);
	assert_string_equal(private(named)->arg_names, "order_id,to");
	assert_int_equal(rutile_usdt_probe_name_args(named, NULL), 0);
	assert_null(private(named)->arg_names);
	rutile_usdt_provider_free(p);
}

/* Above the limit of file sizes the kernel would kill the process. */
static void test_limit_of_file_sizes(void **state)
{
	pid_t pid = fork_child();

	(void)state;
	if (!pid) {
		const struct rlimit limit = {4096, 4096};
		struct rutile_usdt_provider *p;
		struct rutile_usdt_probe *probe;

		setrlimit(RLIMIT_FSIZE, &limit);
		_exit(rutile_usdt_provider_new("small", &p) ||
		      rutile_usdt_probe_add(p, "x", NULL, 0, &probe) ||
		      rutile_usdt_provider_load(p) != -EFBIG || rutile_usdt_enabled(probe));
	}
	expect_good_end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_declarations),
		cmocka_unit_test(test_fire_timed),
		cmocka_unit_test(test_life),
		cmocka_unit_test(test_no_growth),
		cmocka_unit_test(test_unload_while_firing),
		cmocka_unit_test(test_declared_again),
		cmocka_unit_test(test_limit_of_file_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
