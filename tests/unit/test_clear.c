/* SPDX-License-Identifier: MIT */
/* Clearing a session whose process answers, or ends meanwhile. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "session/pin.h"
#include "session/recorder.h"
#include "session/session.h"

static struct rut_session_meta *meta; /* shared with the process */

/* The session's process: waits until it is asked, answers if it is to, and ends. */
static void serve(bool answers)
{
	alarm(60);
	while (!__atomic_load_n(&meta->clear_wanted, __ATOMIC_ACQUIRE))
		poll(NULL, 0, 1);
	if (answers)
		__atomic_store_n(&meta->clear_done, meta->clear_wanted, __ATOMIC_RELEASE);
	_exit(0);
}

static int clear(bool answers, struct rut_err *err)
{
	struct rut_recorder r = {.conf = {.name = "web"}};
	int rc, status;
	pid_t pid;

	meta = mmap(NULL, sizeof(*meta), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(meta != MAP_FAILED);
	r.meta = meta;
	r.conf.mode = RUT_RING_DISCARD;
	strcpy(meta->output.to, "relay://h");
	/* Nobody waits for a process that ended: the kernel does. */
	signal(SIGCHLD, SIG_IGN);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		serve(answers);
	meta->consumer = pid;
	meta->consumer_start = rut_process_start_time(pid);
	rc = rut_session_clear(&r, err);
	assert_int_equal(waitpid(pid, &status, 0), -1);
	munmap(meta, sizeof(*meta));
	return rc;
}

static void test_answer(void **state)
{
	struct rut_err err = RUT_ERR_INIT;

	(void)state;
	assert_int_equal(clear(true, &err), 0);
}

static void test_ended(void **state)
{
	struct rut_err err = RUT_ERR_INIT;

	(void)state;
	assert_int_equal(clear(false, &err), -ESRCH);
	assert_string_equal(err.msg, "the process of session 'web' has ended");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_ended),
	};

	return cmocka_run_group_tests_name("clear", tests, NULL, NULL);
}
