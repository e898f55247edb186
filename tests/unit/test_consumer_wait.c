/* SPDX-License-Identifier: MIT */
/* A round that cannot write is not repeated at once because of code that has to be read. */
#include "session/consumer.h"
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/err.h"
#include "session/meta.h"
#include "session/recorder.h"
#include "stream/sender.h"

static int slept_ms;

bool __wrap_rut_sender_full(struct rut_sender *s);
uint64_t __wrap_rut_unwind_due_ns(const struct rut_recorder *r);
uint64_t __wrap_rut_rubies_due_ns(const struct rut_recorder *r);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);

bool __wrap_rut_sender_full(struct rut_sender *s)
{
	return true;
}

/* Since long ago. */
uint64_t __wrap_rut_unwind_due_ns(const struct rut_recorder *r)
{
	return 1;
}

uint64_t __wrap_rut_rubies_due_ns(const struct rut_recorder *r)
{
	return UINT64_MAX;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	slept_ms += timeout;
	return 0;
}

static void test_full(void **state)
{
	struct rut_session_meta *meta = calloc(1, sizeof(*meta));
	struct rut_recorder r = {.meta = meta};
	struct rut_consumer c = {.recorder = &r, .sender = (struct rut_sender *)meta};
	struct rut_err err = RUT_ERR_INIT;

	assert_int_equal(rut_consumer_step(&c, &err), -ENOBUFS);
	rut_consumer_wait(&c, 1000);
	assert_int_equal(slept_ms, 50);
	/* Where the last round went through, what is due is not put off. */
	c.followed = true;
	slept_ms = 0;
	rut_consumer_wait(&c, 1000);
	assert_int_equal(slept_ms, 1);
	free(meta);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests_name("consumer_wait", tests, NULL, NULL);
}
