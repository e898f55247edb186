/* SPDX-License-Identifier: MIT */
/* Who sleeps until its next round is woken when a program is started. */
#include "session/mappings.h"
#include "unit.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void test_wakes(void **state)
{
	struct rut_recorder r = {.ncpus = (int)sysconf(_SC_NPROCESSORS_CONF)};
	struct rut_mappings *m = NULL;
	double begun = seconds();
	pid_t child;

	rut_mappings_follow(&m, &r);
	if (!m)
		skip(); /* not allowed here */
	child = fork();
	if (!child) {
		usleep(50000);
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	/* Without the notice it would take 120 s. */
	rut_mappings_wait(m, 60000);
	rut_mappings_wait(m, 60000);
	assert_true(seconds() - begun < 50);
	waitpid(child, NULL, 0);
	/* Shorter than the time between two wake-ups. */
	begun = seconds();
	rut_mappings_wait(m, 1);
	assert_true(seconds() - begun >= 0.001);
	rut_mappings_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wakes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
