/* SPDX-License-Identifier: MIT */
/* A producer, and a collector that refuses what it sends. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "stream/relay.h"

#define MINOR 11 /* it has no command for the configuration */

static int listen_any(uint16_t *ret_port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (void *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (void *)&at, &len), 0);
	*ret_port = ntohs(at.sin_port);
	return fd;
}

/* Takes one command, and replies. */
static bool serve(int fd, const struct rut_buf *reply)
{
	struct rut_relay_header h;
	char buf[4096];

	if (recv(fd, buf, RUT_RELAY_HEADER, MSG_WAITALL) != RUT_RELAY_HEADER)
		return false;
	rut_relay_get_header(buf, &h);
	return h.size <= sizeof(buf) && recv(fd, buf, h.size, MSG_WAITALL) == (ssize_t)h.size &&
	       send(fd, reply->data, reply->len, MSG_NOSIGNAL) == (ssize_t)reply->len;
}

/* The collector: `session` is the status of the session, `chunk` that of the chunk. */
static void collect(int control, int data, uint32_t session, uint32_t chunk)
{
	struct rut_buf b = RUT_BUF_INIT;
	int fd = accept(control, NULL, NULL), other = accept(data, NULL, NULL);
	char end;

	rut_relay_put_version_reply(&b, RUT_RELAY_MAJOR, MINOR);
	if (!serve(fd, &b))
		_exit(1);
	rut_buf_clear(&b);
	rut_relay_put_session_reply(&b, 1, session, "");
	if (!serve(fd, &b))
		_exit(1);
	rut_buf_clear(&b);
	rut_relay_put_status(&b, chunk);
	if (session == RUT_RELAY_OK && !serve(fd, &b))
		_exit(1);
	_exit(recv(fd, &end, 1, 0) != 0 || recv(other, &end, 1, 0) != 0);
}

/* What opening a session returns, with the reason in *err. */
static int open_session(uint32_t session, uint32_t chunk, struct rut_err *err)
{
	struct rut_url url = {.host = "127.0.0.1"};
	const struct rut_relay_conf conf = {
		.url = &url, .session = "s", .host = "h", .uuid = {1}, .timeout_ms = 10000};
	int control = listen_any(&url.port), data = listen_any(&url.data_port), rc, status;
	struct rut_relay *r = NULL;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		alarm(60);
		collect(control, data, session, chunk);
	}
	rc = rut_relay_open(&r, &conf, err);
	assert_true(rc ? !r : r != NULL);
	rut_relay_free(r);
	close(control);
	close(data);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return rc;
}

static void test_accepted(void **state)
{
	struct rut_err err = RUT_ERR_INIT;

	(void)state;
	assert_int_equal(open_session(RUT_RELAY_OK, RUT_RELAY_OK, &err), 0);
}

/* Whatever number a collector refuses with, it is an error, and none of the sender's own. */
static void test_refused(void **state)
{
	static const struct {
		uint32_t status;
		const char *reason;
	} cases[] = {
		{0, "(status 0)"},
		{11, "(status 11)"},
		{UINT32_MAX, "(status 4294967295)"},
		{RUT_RELAY_ERRNO, "(status 1381302272)"},
		{RUT_RELAY_ERRNO + ENOSPC, "No space left on device"},
		{RUT_RELAY_ERRNO + ESHUTDOWN, "Cannot send after transport endpoint shutdown"},
		{RUT_RELAY_ERRNO + 0xffff, "Unknown error 65535"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rut_err err = RUT_ERR_INIT;

		assert_int_equal(open_session(cases[i].status, 0, &err), -EPROTO);
		assert_non_null(strstr(err.msg, "the collector refused the session"));
		assert_non_null(strstr(err.msg, cases[i].reason));
		assert_int_equal(open_session(RUT_RELAY_OK, cases[i].status, &err), -EPROTO);
		assert_non_null(strstr(err.msg, "the collector refused the trace chunk"));
		assert_non_null(strstr(err.msg, cases[i].reason));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accepted),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests_name("relay", tests, NULL, NULL);
}
