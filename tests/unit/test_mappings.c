/* SPDX-License-Identifier: MIT */
/* Who sleeps until its next round is woken when a program is started. */
#include "session/mappings.h"
#include "unit.h"

#include <errno.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool no_epoll;

int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);

int __wrap_epoll_create1(int flags)
{
	if (!no_epoll)
		return __real_epoll_create1(flags);
	errno = EMFILE;
	return -1;
}

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

/* Without a file descriptor for the notices it sleeps until the next round. */
static void test_no_file(void **state)
{
	struct rut_recorder r = {.ncpus = (int)sysconf(_SC_NPROCESSORS_CONF)};
	struct rut_mappings *m = NULL;
	double begun;

	no_epoll = true;
	rut_mappings_follow(&m, &r);
	no_epoll = false;
	if (!m)
		skip(); /* not allowed here */
	begun = seconds();
	rut_mappings_wait(m, 100);
	assert_true(seconds() - begun >= 0.1);
	rut_mappings_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wakes),
		cmocka_unit_test(test_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
