/* SPDX-License-Identifier: MIT */
/* What is taken off the time limit of a wait that an injection has disturbed: never too much. */
#include <errno.h>
#include <sys/syscall.h>

#include "ruby/place.h"
#include "unit.h"

#define MS 1000000ull

static const char sched_text[] =
	"epoll (11330, #threads: 1)\n"
	"-------------------------------------------------------------------\n"
	"se.exec_start                                :      37601055.002263\n"
	"se.vruntime                                  :         13484.132197\n"
	"se.nr_migrations                             :                    3\n"
	"nr_switches                                  :                   12\n"
	"nr_voluntary_switches                        :                    9\n"
	"nr_involuntary_switches                      :                    3\n";

static void test_sched_is_read(void **state)
{
	struct rut_sched s;

	(void)state;
	assert_true(rut_sched_parse(sched_text, &s));
	assert_true(s.exec_start_ms > 37601055.0 && s.exec_start_ms < 37601055.1);
	assert_int_equal(s.switches, 9);
	assert_false(rut_sched_parse("", &s));
	assert_false(rut_sched_parse("se.exec_start : 1.5\n", &s));
}

/* Once taken for a sleep since the machine was started: the wait was cut to nothing. */
static void test_a_thread_that_was_moved_has_no_start(void **state)
{
	struct rut_sched s;

	(void)state;
	assert_false(rut_sched_parse("se.exec_start                 :             0.000000\n"
				     "nr_voluntary_switches         :                    9\n",
				     &s));
}

static void test_only_sleep_of_the_same_wait_counts(void **state)
{
	const struct rut_sleep sleep = {
		.limit_ns = 1000 * MS, .slept_ns = 300 * MS, .at_ns = 5000 * MS, .switches = 9};
	struct rut_sleep unknown = sleep;

	(void)state;
	assert_int_equal(rut_sleep_until(&sleep, 5002 * MS, 10), 302 * MS);
	/* It sleeps again. */
	assert_int_equal(rut_sleep_until(&sleep, 5002 * MS, 11), 0);
	/* It may have ended by itself meanwhile, and another begun. */
	assert_int_equal(rut_sleep_until(&sleep, 5695 * MS, 10), 0);
	assert_int_equal(rut_sleep_until(&sleep, 5900 * MS, 10), 0);
	unknown.slept_ns = 0;
	assert_int_equal(rut_sleep_until(&unknown, 5002 * MS, 10), 0);
	assert_int_equal(rut_sleep_until(&(struct rut_sleep){0}, 5002 * MS, 10), 0);
}

static void test_waits_that_end_soon_are_left_alone(void **state)
{
	struct rut_sleep sleep = {.limit_ns = 1000 * MS, .slept_ns = 985 * MS};

	(void)state;
	assert_true(rut_sleep_ends_soon(&sleep));
	sleep.slept_ns = 900 * MS;
	assert_false(rut_sleep_ends_soon(&sleep));
	sleep.slept_ns = 0;
	assert_false(rut_sleep_ends_soon(&sleep));
	/* Restarted it is late by no more than this. */
	sleep = (struct rut_sleep){.limit_ns = 10 * MS, .slept_ns = 5 * MS};
	assert_false(rut_sleep_ends_soon(&sleep));
}

static struct user_regs_struct epoll_regs(int timeout_ms, int64_t result)
{
	return (struct user_regs_struct){.orig_rax = SYS_epoll_wait,
					 .rax = (unsigned long long)result,
					 .r10 = (unsigned long long)timeout_ms};
}

static int shortened(struct user_regs_struct regs, uint64_t slept_ns)
{
	rut_place_shorten_wait(&regs, slept_ns);
	return (int)regs.r10;
}

static void test_only_an_interrupted_limit_is_shortened(void **state)
{
	struct user_regs_struct other = epoll_regs(1000, -EINTR);

	(void)state;
	assert_int_equal(shortened(epoll_regs(1000, -EINTR), 300 * MS + 999999), 700);
	assert_int_equal(shortened(epoll_regs(1000, -EINTR), 0), 1000);
	assert_int_equal(shortened(epoll_regs(1000, -EINTR), 5000 * MS), 0);
	assert_int_equal(shortened(epoll_regs(-1, -EINTR), 300 * MS), -1);
	assert_int_equal(shortened(epoll_regs(0, -EINTR), 300 * MS), 0);
	assert_int_equal(shortened(epoll_regs(1000, 0), 300 * MS), 1000);
	other.orig_rax = SYS_rt_sigtimedwait;
	assert_int_equal(shortened(other, 300 * MS), 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sched_is_read),
		cmocka_unit_test(test_a_thread_that_was_moved_has_no_start),
		cmocka_unit_test(test_only_sleep_of_the_same_wait_counts),
		cmocka_unit_test(test_waits_that_end_soon_are_left_alone),
		cmocka_unit_test(test_only_an_interrupted_limit_is_shortened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
