/* SPDX-License-Identifier: MIT */
/* Reading all processes while the tables of native stacks have no room yet. */
#include "session/processes.h"
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

#include "session/recorder.h"
#include "session/rubies.h"
#include "session/unwind.h"

static int waits, later, reads_of_1;

bool __wrap_rut_rubies_wanted(const struct rut_recorder *r);
bool __wrap_rut_unwind_wanted(const struct rut_recorder *r);
void __wrap_rut_rubies_add(struct rut_recorder *r, int32_t pid);
int __wrap_rut_unwind_find(struct rut_recorder *r, int32_t pid);
void __wrap_rut_unwind_lost(struct rut_recorder *r);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);

bool __wrap_rut_rubies_wanted(const struct rut_recorder *r)
{
	return false;
}

bool __wrap_rut_unwind_wanted(const struct rut_recorder *r)
{
	return true;
}

void __wrap_rut_rubies_add(struct rut_recorder *r, int32_t pid)
{
}

/* There is room once somebody has waited. */
int __wrap_rut_unwind_find(struct rut_recorder *r, int32_t pid)
{
	reads_of_1 += pid == 1;
	return waits ? 0 : -EAGAIN;
}

void __wrap_rut_unwind_lost(struct rut_recorder *r)
{
	later++;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
	waits++;
	return 0;
}

static void test_waits(void **state)
{
	struct rut_recorder r = {.drains = false};

	waits = later = reads_of_1 = 0;
	rut_processes_scan(&r);
	assert_int_equal(waits, 1);
	assert_int_equal(reads_of_1, 2);
	assert_int_equal(later, 0);
}

/* What comes back after it was shed is attached by the thread that drains the rings. */
static void test_drains(void **state)
{
	struct rut_recorder r = {.drains = true};

	waits = later = reads_of_1 = 0;
	rut_processes_scan(&r);
	assert_int_equal(waits, 0);
	assert_int_equal(reads_of_1, 1);
	assert_int_equal(later, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_drains),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
