/* SPDX-License-Identifier: MIT */
/* The receiver over loopback, with a producer and viewers that misbehave. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ring/ring.h"
#include "stream/collect.h"
#include "stream/live.h"
#include "stream/live_wire.h"
#include "stream/proto.h"
#include "stream/wire.h"

#define PACKET (24u << 20) /* more than the sockets of loopback take */
#define STREAM (20 + RUT_LIVE_PATH + RUT_LIVE_NAME)

struct receiver {
	struct rut_collect *c;
	uint16_t ports[3]; /* control, data, viewers */
	char dir[64];
	int control;
};

static int bind_any(struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	assert_int_equal(bind(fd, (void *)at, sizeof(*at)), 0);
	assert_int_equal(getsockname(fd, (void *)at, &len), 0);
	return fd;
}

/* Ports that were free a moment ago: another process may be faster. */
static void receive(struct receiver *r, int message_ms)
{
	int rc = -1;

	strcpy(r->dir, "/tmp/test_collect.XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	for (int tries = 0; tries < 10 && rc; tries++) {
		struct rut_collect_conf conf = {
			.dir = r->dir,
			.address = "127.0.0.1",
			.live_address = "127.0.0.1",
			.live = true,
			.message_ms = message_ms,
			.limits = {.streams = 16, .sessions = 4, .connections = 16}};
		struct rut_err err = RUT_ERR_INIT;
		int fds[3];

		for (int i = 0; i < 3; i++) {
			struct sockaddr_in at;

			fds[i] = bind_any(&at);
			r->ports[i] = ntohs(at.sin_port);
		}
		for (int i = 0; i < 3; i++)
			close(fds[i]);
		conf.port = r->ports[0];
		conf.data_port = r->ports[1];
		conf.live_port = r->ports[2];
		rc = rut_collect_new(&r->c, &conf, &err);
	}
	assert_int_equal(rc, 0);
}

static void end(struct receiver *r)
{
	char command[96];

	close(r->control);
	rut_collect_free(r->c);
	snprintf(command, sizeof(command), "rm -rf %s", r->dir);
	assert_int_equal(system(command), 0);
}

static void step(struct receiver *r, int ms)
{
	struct rut_err err = RUT_ERR_INIT;

	assert_int_equal(rut_collect_step(r->c, ms, &err), 0);
}

/* `buffer`: of what is received, in bytes; 0: the kernel chooses. */
static int dial(struct receiver *r, int port, int buffer)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons(r->ports[port]),
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (buffer)
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)), 0);
	assert_int_equal(connect(fd, (void *)&at, sizeof(at)), 0);
	step(r, 1000);
	return fd;
}

/* Bytes of the answer that came until there are `len` of them, or the connection ended. */
static size_t take(struct receiver *r, int fd, uint8_t *reply, size_t len)
{
	const uint64_t until = rut_now_ns() + 30000000000ull;
	size_t got = 0;

	while (got < len) {
		ssize_t n = recv(fd, reply + got, len - got, MSG_DONTWAIT);

		assert_true(rut_now_ns() < until);
		if (n < 0 && errno == EAGAIN)
			step(r, 10);
		else if (n <= 0)
			break;
		else
			got += (size_t)n;
	}
	return got;
}

/* Sends what is in `b`, which is empty then, and returns how much of `len` bytes came back. */
static size_t ask(struct receiver *r, int fd, struct rut_buf *b, uint8_t *reply, size_t len)
{
	assert_false(b->failed);
	assert_int_equal(send(fd, b->data, b->len, MSG_NOSIGNAL), b->len);
	rut_buf_fini(b);
	*b = (struct rut_buf)RUT_BUF_INIT;
	return take(r, fd, reply, len);
}

/* Begins a session with one chunk. */
static void produce(struct receiver *r)
{
	const struct rut_relay_session session = {
		.name = "s", .host = "h", .base_path = "", .live_us = 1000, .uuid = {1}, .id = 1};
	struct rut_buf b = RUT_BUF_INIT;
	uint8_t reply[RUT_RELAY_PATH_MAX];
	uint32_t status, path;

	r->control = dial(r, 0, 0);
	rut_relay_put_version(&b, RUT_RELAY_MAJOR, RUT_RELAY_MINOR_MAX);
	assert_int_equal(ask(r, r->control, &b, reply, RUT_RELAY_REPLY_VERSION),
			 RUT_RELAY_REPLY_VERSION);
	rut_relay_put_session(&b, RUT_RELAY_MINOR_MAX, &session);
	assert_int_equal(ask(r, r->control, &b, reply, RUT_RELAY_REPLY_SESSION),
			 RUT_RELAY_REPLY_SESSION);
	rut_relay_get_session_reply(reply, &status, &path);
	assert_int_equal(status, RUT_RELAY_OK);
	assert_int_equal(take(r, r->control, reply, path), path);
}

static void chunk(struct receiver *r, uint64_t id)
{
	const struct rut_relay_chunk c = {.id = id, .name = ""};
	struct rut_buf b = RUT_BUF_INIT;
	uint8_t reply[RUT_RELAY_REPLY_STATUS];

	rut_relay_put_chunk(&b, &c);
	assert_int_equal(ask(r, r->control, &b, reply, sizeof(reply)), sizeof(reply));
	assert_int_equal(rut_relay_get_status(reply), RUT_RELAY_OK);
}

static uint64_t stream(struct receiver *r, const char *channel)
{
	const struct rut_relay_stream s = {.channel = channel, .path = "kernel"};
	struct rut_buf b = RUT_BUF_INIT;
	uint8_t reply[RUT_RELAY_REPLY_STREAM];
	uint64_t handle;
	uint32_t status;

	rut_relay_put_stream(&b, &s);
	assert_int_equal(ask(r, r->control, &b, reply, sizeof(reply)), sizeof(reply));
	handle = rut_relay_get_stream_reply(reply, &status);
	assert_int_equal(status, RUT_RELAY_OK);
	return handle;
}

/* Metadata has no answer: that of the next command says that it was taken. */
static void metadata(struct receiver *r, uint64_t handle)
{
	const struct rut_relay_metadata m = {.stream = handle, .text = "text", .len = 4};
	struct rut_buf b = RUT_BUF_INIT;
	uint8_t reply[RUT_RELAY_REPLY_STATUS];

	rut_relay_put_metadata(&b, &m);
	rut_relay_put_pair(&b, RUT_RELAY_CLOSE_STREAM, handle, 0);
	assert_int_equal(ask(r, r->control, &b, reply, sizeof(reply)), sizeof(reply));
	assert_int_equal(rut_relay_get_status(reply), RUT_RELAY_OK);
}

static void rotate(struct receiver *r, uint64_t id, uint64_t handle)
{
	const struct rut_relay_position at = {.stream = handle};
	struct rut_buf b = RUT_BUF_INIT;
	uint8_t reply[RUT_RELAY_REPLY_STATUS];

	chunk(r, id);
	rut_relay_put_rotation(&b, id, &at, 1);
	assert_int_equal(ask(r, r->control, &b, reply, sizeof(reply)), sizeof(reply));
	assert_int_equal(rut_relay_get_status(reply), RUT_RELAY_OK);
	metadata(r, handle);
}

static void command(struct rut_buf *b, enum rut_live_command what, uint64_t size)
{
	rut_be64_put(b, size);
	rut_be32_put(b, what);
	rut_be32_put(b, 0);
}

/* A viewer of the first session, which has one stream. Returns that stream's number. */
static uint64_t attach(struct receiver *r, int fd)
{
	struct rut_buf b = RUT_BUF_INIT;
	uint8_t reply[4 + 20 + RUT_LIVE_HOST + RUT_LIVE_NAME + STREAM];
	const size_t listed = 4 + 20 + RUT_LIVE_HOST + RUT_LIVE_NAME;
	uint64_t session;

	command(&b, RUT_LIVE_CONNECT, 20);
	rut_be64_put(&b, 0);
	rut_be32_put(&b, RUT_LIVE_MAJOR);
	rut_be32_put(&b, RUT_LIVE_MINOR);
	rut_be32_put(&b, RUT_LIVE_CLIENT);
	assert_int_equal(ask(r, fd, &b, reply, 20), 20);
	command(&b, RUT_LIVE_LIST, 0);
	assert_int_equal(ask(r, fd, &b, reply, listed), listed);
	session = rut_be64_at(reply, 4);
	command(&b, RUT_LIVE_ATTACH, 20);
	rut_be64_put(&b, session);
	rut_be64_put(&b, 0);
	rut_be32_put(&b, RUT_LIVE_SEEK_BEGIN);
	assert_int_equal(ask(r, fd, &b, reply, 8 + STREAM), 8 + STREAM);
	assert_int_equal(rut_be32_at(reply, 4), 1);
	return rut_be64_at(reply, 8);
}

static void ask_metadata(struct receiver *r, int fd, uint64_t number, uint64_t want)
{
	struct rut_buf b = RUT_BUF_INIT;
	uint8_t reply[16];

	command(&b, RUT_LIVE_METADATA, 8);
	rut_be64_put(&b, number);
	assert_int_equal(ask(r, fd, &b, reply, 12), 12);
	assert_int_equal(rut_be64_at(reply, 0), want);
	assert_int_equal(take(r, fd, reply, want), want);
}

/* One that is silent would keep a file of each rotation open, until the producer cannot go on. */
static void test_silent_viewer(void **state)
{
	struct receiver r = {0};
	struct rlimit had, few;
	uint64_t handle, number;
	uint8_t byte;
	int silent, reader;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
	few = had;
	few.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	receive(&r, 0);
	produce(&r);
	chunk(&r, 1);
	handle = stream(&r, "metadata");
	metadata(&r, handle);
	silent = dial(&r, 2, 0);
	attach(&r, silent);
	reader = dial(&r, 2, 0);
	number = attach(&r, reader);
	ask_metadata(&r, reader, number, 4);
	for (uint64_t id = 2; id < 100; id++) {
		rotate(&r, id, handle);
		ask_metadata(&r, reader, number, 0);
	}
	assert_int_equal(take(&r, silent, &byte, 1), 0);
	close(silent);
	close(reader);
	end(&r);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
}

/* A packet of which only the header is sent: the receiver adds the rest. */
static void send_packet(struct receiver *r, int fd, uint64_t handle)
{
	const struct rut_relay_data d = {.stream = handle,
					 .size = sizeof(struct rut_packet),
					 .padding = PACKET - sizeof(struct rut_packet)};
	const struct rut_packet head = {.magic = RUT_CTF_PACKET_MAGIC,
					.content_size = sizeof(head) * 8ull,
					.packet_size = PACKET * 8ull};
	struct rut_buf b = RUT_BUF_INIT;
	struct rut_store_stats st = {0};

	rut_relay_put_data(&b, &d);
	rut_buf_add(&b, &head, sizeof(head));
	ask(r, fd, &b, NULL, 0);
	for (int i = 0; i < 1000 && !st.packets; i++) {
		step(r, 10);
		rut_collect_stats(r->c, &st);
	}
	assert_int_equal(st.packets, 1);
}

static void ask_packet(struct receiver *r, int fd, uint64_t number, size_t reply_bytes)
{
	struct rut_buf b = RUT_BUF_INIT;
	uint8_t index[64];

	command(&b, RUT_LIVE_INDEX, 8);
	rut_be64_put(&b, number);
	assert_int_equal(ask(r, fd, &b, index, sizeof(index)), sizeof(index));
	assert_int_equal(rut_be32_at(index, 56), RUT_LIVE_OK);
	assert_int_equal(rut_be64_at(index, 8), PACKET * 8ull);
	command(&b, RUT_LIVE_PACKET, 20);
	rut_be64_put(&b, number);
	rut_be64_put(&b, rut_be64_at(index, 0));
	rut_be32_put(&b, PACKET);
	ask(r, fd, &b, index, reply_bytes);
}

/* One that asks for a packet and does not take it is dropped; one that takes it gets all of it. */
static void test_stuck_viewer(void **state)
{
	struct receiver r = {0};
	const size_t all = 12 + (size_t)PACKET;
	uint8_t *reply = malloc(all);
	int data, stuck, reader;

	(void)state;
	assert_non_null(reply);
	receive(&r, 300);
	produce(&r);
	chunk(&r, 1);
	data = dial(&r, 1, 0);
	send_packet(&r, data, stream(&r, "c_0"));
	stuck = dial(&r, 2, 4096);
	ask_packet(&r, stuck, attach(&r, stuck), 0);
	for (const uint64_t until = rut_now_ns() + 2000000000ull; rut_now_ns() < until;)
		step(&r, 50);
	reader = dial(&r, 2, 0);
	ask_packet(&r, reader, attach(&r, reader), 0);
	assert_int_equal(take(&r, reader, reply, all), all);
	assert_true(take(&r, stuck, reply, all) < all);
	close(data);
	close(stuck);
	close(reader);
	end(&r);
	free(reply);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stuck_viewer),
		cmocka_unit_test(test_silent_viewer),
	};

	return cmocka_run_group_tests_name("collect", tests, NULL, NULL);
}
