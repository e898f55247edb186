/* SPDX-License-Identifier: MIT */
/* The relay protocol's messages and the URLs of collectors. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "stream/added.h"
#include "stream/conn.h"
#include "stream/proto.h"

/* The payload behind a command's header, which must fit it. */
static const void *payload(const struct rut_buf *b, enum rut_relay_command command, size_t *ret_len)
{
	struct rut_relay_header h;

	assert_false(b->failed);
	assert_true(b->len >= RUT_RELAY_HEADER);
	rut_relay_get_header(b->data, &h);
	assert_int_equal(h.command, command);
	assert_int_equal(h.size, b->len - RUT_RELAY_HEADER);
	*ret_len = h.size;
	return b->data + RUT_RELAY_HEADER;
}

static void test_header(void **state)
{
	static const uint8_t want[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8,
				       0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 13};
	struct rut_buf b = RUT_BUF_INIT;

	rut_relay_put_version(&b, 2, 13);
	assert_int_equal(b.len, sizeof(want));
	assert_memory_equal(b.data, want, sizeof(want));
	rut_buf_fini(&b);
}

static void test_data_header(void **state)
{
	const struct rut_relay_data want = {0x1122334455667788, 42, 4096, 100};
	struct rut_relay_data got;
	struct rut_buf b = RUT_BUF_INIT;

	rut_relay_put_data(&b, &want);
	assert_int_equal(b.len, RUT_RELAY_DATA);
	rut_relay_get_data(b.data, &got);
	assert_memory_equal(&got, &want, sizeof(want));
	rut_buf_fini(&b);
}

static void test_session(void **state)
{
	for (uint32_t minor = 11; minor <= 15; minor++) {
		struct rut_relay_session want = {.name = "web",
						 .host = "h1",
						 .base_path = "",
						 .live_us = 1000000,
						 .snapshot = true,
						 .uuid = {1, 2, 3},
						 .id = 7,
						 .created_s = 1700000000,
						 .has_chunk = true,
						 .chunk = 3,
						 .format = minor >= 15};
		struct rut_relay_session got;
		struct rut_buf b = RUT_BUF_INIT;
		const void *p;
		size_t len;

		rut_relay_put_session(&b, minor, &want);
		p = payload(&b, RUT_RELAY_CREATE_SESSION, &len);
		assert_int_equal(len, 59 + (minor >= 15 ? 4 : 0) + 4 + 3 + 1);
		assert_int_equal(rut_relay_get_session(p, len, minor, &got), 0);
		assert_string_equal(got.name, "web");
		assert_string_equal(got.host, "h1");
		assert_string_equal(got.base_path, "");
		assert_int_equal(got.live_us, want.live_us);
		assert_true(got.snapshot && got.has_chunk && !got.name_has_time);
		assert_memory_equal(got.uuid, want.uuid, 16);
		assert_int_equal(got.id, 7);
		assert_int_equal(got.created_s, want.created_s);
		assert_int_equal(got.chunk, 3);
		assert_int_equal(got.format, want.format);
		/* No shorter payload is taken for one. */
		for (size_t n = 0; n < len; n++)
			assert_int_equal(rut_relay_get_session(p, n, minor, &got), -EPROTO);
		rut_buf_fini(&b);
	}
}

static void test_stream(void **state)
{
	const struct rut_relay_stream want = {"kernel_0", "kernel", 1, 2, 3};
	struct rut_relay_stream got;
	struct rut_buf b = RUT_BUF_INIT;
	const void *p;
	size_t len;

	rut_relay_put_stream(&b, &want);
	p = payload(&b, RUT_RELAY_ADD_STREAM, &len);
	assert_int_equal(rut_relay_get_stream(p, len, &got), 0);
	assert_string_equal(got.channel, "kernel_0");
	assert_string_equal(got.path, "kernel");
	assert_int_equal(got.chunk, 3);
	for (size_t n = 0; n < len; n++)
		assert_int_equal(rut_relay_get_stream(p, n, &got), -EPROTO);
	/* A NUL inside a text would make two names of one. */
	b.data[RUT_RELAY_HEADER + 32 + 2] = '\0';
	assert_int_equal(rut_relay_get_stream(p, len, &got), -EPROTO);
	rut_buf_fini(&b);
}

static void test_index(void **state)
{
	const struct rut_relay_index want = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
	struct rut_relay_index got;
	struct rut_buf b = RUT_BUF_INIT;
	const void *p;
	size_t len;

	rut_relay_put_index(&b, &want);
	p = payload(&b, RUT_RELAY_SEND_INDEX, &len);
	assert_int_equal(len, 80);
	assert_int_equal(rut_relay_get_index(p, len, &got), 0);
	assert_memory_equal(&got, &want, sizeof(want));
	assert_int_equal(rut_relay_get_index(p, len - 1, &got), -EPROTO);
	rut_buf_fini(&b);
}

/* Peers pad the optional chunk number in three ways. */
static void test_rotation(void **state)
{
	const struct rut_relay_position at[2] = {{5, 100}, {6, 200}};
	struct rut_relay_rotation got;
	struct rut_relay_position pos;
	struct rut_buf b = RUT_BUF_INIT;
	const uint8_t *p;
	size_t len;

	rut_relay_put_rotation(&b, 9, at, 2);
	p = payload(&b, RUT_RELAY_ROTATE_STREAMS, &len);
	assert_int_equal(len, 20 + 32);
	for (size_t padding = 0; padding <= 7; padding++) {
		uint8_t other[64];
		size_t n = len - 7 + padding;
		int want = padding == 0 || padding == 3 || padding == 7 ? 0 : -EPROTO;

		memcpy(other, p, 5 + padding);
		memcpy(other + 5 + padding, p + 12, len - 12);
		assert_int_equal(rut_relay_get_rotation(other, n, &got), want);
		if (want)
			continue;
		assert_int_equal(got.count, 2);
		assert_true(got.has_chunk);
		assert_int_equal(got.chunk, 9);
		rut_relay_get_position(&got, 1, &pos);
		assert_int_equal(pos.stream, 6);
		assert_int_equal(pos.seq, 200);
	}
	/* A count that is not there. */
	b.data[RUT_RELAY_HEADER] = 0x7f;
	assert_int_equal(rut_relay_get_rotation(p, len, &got), -EPROTO);
	rut_buf_fini(&b);
}

static void test_chunks(void **state)
{
	struct rut_relay_chunk chunk;
	struct rut_relay_chunk_end end;
	struct rut_buf b = RUT_BUF_INIT;
	const void *p;
	size_t len;

	rut_relay_put_chunk(&b, &(struct rut_relay_chunk){4, 1700000000, ""});
	p = payload(&b, RUT_RELAY_CREATE_CHUNK, &len);
	assert_int_equal(len, 20);
	assert_int_equal(rut_relay_get_chunk(p, len, &chunk), 0);
	assert_int_equal(chunk.id, 4);
	assert_string_equal(chunk.name, "");
	rut_buf_clear(&b);
	rut_relay_put_chunk_end(&b, &(struct rut_relay_chunk_end){4, 5, RUT_RELAY_CLOSE_MOVE});
	p = payload(&b, RUT_RELAY_CLOSE_CHUNK, &len);
	assert_int_equal(len, 21);
	assert_int_equal(rut_relay_get_chunk_end(p, len, &end), 0);
	assert_int_equal(end.how, RUT_RELAY_CLOSE_MOVE);
	b.data[b.len - 1] = 3; /* no such command */
	assert_int_equal(rut_relay_get_chunk_end(p, len, &end), -EPROTO);
	rut_buf_clear(&b);
	rut_relay_put_chunk_end(&b, &(struct rut_relay_chunk_end){4, 5, RUT_RELAY_CLOSE_UNSET});
	p = payload(&b, RUT_RELAY_CLOSE_CHUNK, &len);
	assert_int_equal(rut_relay_get_chunk_end(p, len, &end), 0);
	assert_int_equal(end.how, RUT_RELAY_CLOSE_UNSET);
	rut_buf_fini(&b);
}

static void test_metadata(void **state)
{
	struct rut_relay_metadata got;
	struct rut_buf b = RUT_BUF_INIT;
	const void *p;
	size_t len;

	rut_relay_put_metadata(&b, &(struct rut_relay_metadata){8, 0, "/* CTF 1.8 */", 13});
	p = payload(&b, RUT_RELAY_SEND_METADATA, &len);
	assert_int_equal(rut_relay_get_metadata(p, len, &got), 0);
	assert_int_equal(got.stream, 8);
	assert_int_equal(got.len, 13);
	assert_memory_equal(got.text, "/* CTF 1.8 */", 13);
	assert_int_equal(rut_relay_get_metadata(p, 11, &got), -EPROTO);
	rut_buf_fini(&b);
}

static void test_replies(void **state)
{
	struct rut_buf b = RUT_BUF_INIT;
	uint32_t status, len;

	rut_relay_put_session_reply(&b, 3, RUT_RELAY_OK, "/a/b");
	assert_int_equal(b.len, RUT_RELAY_REPLY_SESSION + 5);
	assert_int_equal(rut_relay_get_session_reply(b.data, &status, &len), 3);
	assert_int_equal(status, RUT_RELAY_OK);
	assert_int_equal(len, 5);
	rut_buf_clear(&b);
	rut_relay_put_stream_reply(&b, 77, 1);
	assert_int_equal(b.len, RUT_RELAY_REPLY_STREAM);
	assert_int_equal(rut_relay_get_stream_reply(b.data, &status), 77);
	assert_int_equal(status, 1);
	rut_buf_clear(&b);
	rut_relay_put_chunk_reply(&b, RUT_RELAY_OK, "x");
	assert_int_equal(rut_relay_get_chunk_reply(b.data, &len), RUT_RELAY_OK);
	assert_int_equal(len, 2);
	rut_buf_fini(&b);
}

static void test_added(void **state)
{
	static const char old[] = "/* CTF */\n\nA\n\nC\n\n",
			  text[] = "/* CTF */\n\nA\n\nB\n\nC\n\nD\n\n";
	struct rut_buf b = RUT_BUF_INIT;

	assert_int_equal(rut_metadata_added(NULL, 0, old, strlen(old), &b), 0);
	assert_string_equal(b.data, old);
	rut_buf_clear(&b);
	assert_int_equal(rut_metadata_added(old, strlen(old), text, strlen(text), &b), 0);
	assert_string_equal(b.data, "B\n\nD\n\n");
	rut_buf_clear(&b);
	assert_int_equal(rut_metadata_added(text, strlen(text), text, strlen(text), &b), 0);
	assert_int_equal(b.len, 0);
	/* Taken away, or changed. */
	assert_int_equal(rut_metadata_added(text, strlen(text), old, strlen(old), &b), -EINVAL);
	assert_int_equal(rut_metadata_added(old, strlen(old), "x", 1, &b), -EINVAL);
	assert_int_equal(b.len, 0);
	rut_buf_fini(&b);
}

/* Two packets of at most 4 KiB, with the text as contents. */
static void test_metadata_packets(void **state)
{
	static const char whole[] = "trace {\n\tuuid = \"00112233-4455-6677-8899-aabbccddeeff\";\n";
	static const uint8_t uuid[] = {0x57, 0x1d, 0xd1, 0x75, 0,    0x11, 0x22, 0x33, 0x44, 0x55,
				       0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
	struct rut_buf b = RUT_BUF_INIT;
	char text[4096];
	uint32_t bits;

	memset(text, 'x', sizeof(text));
	rut_metadata_packets(whole, strlen(whole), text, sizeof(text), &b);
	assert_int_equal(b.len, sizeof(text) + 2 * 37);
	assert_memory_equal(b.data, uuid, sizeof(uuid));
	memcpy(&bits, b.data + 24, 4);
	assert_int_equal(bits, 4096 * 8);
	assert_memory_equal(b.data + 4096, uuid, sizeof(uuid));
	memcpy(&bits, b.data + 4096 + 28, 4);
	assert_int_equal(bits, 74 * 8);
	assert_int_equal(b.data[4096 + 35], 1);
	assert_int_equal(b.data[4096 + 36], 8);
	rut_buf_clear(&b);
	/* Without a uuid, or with a broken one, nothing is read that is not there. */
	rut_metadata_packets("uuid = \"12", 10, "x", 1, &b);
	assert_int_equal(b.len, 38);
	rut_buf_fini(&b);
}

static void test_urls(void **state)
{
	static const char *const bad[] = {"",
					  "host",
					  "http://host",
					  "relay://",
					  "relay://:5342",
					  "relay://h:",
					  "relay://h:0",
					  "relay://h:65536",
					  "relay://h:65535",
					  "relay://h:1x",
					  "relay://[::1",
					  "relay://h/../x",
					  "relay://h/a/b",
					  "relay://h:1:2:3"};
	struct rut_url u;

	assert_int_equal(rut_url_parse("relay://collector", &u, NULL), 0);
	assert_string_equal(u.host, "collector");
	assert_int_equal(u.port, 5342);
	assert_int_equal(u.data_port, 5343);
	assert_string_equal(u.session, "");
	assert_int_equal(rut_url_parse("relay://[::1]:99/web", &u, NULL), 0);
	assert_string_equal(u.host, "::1");
	assert_int_equal(u.port, 99);
	assert_int_equal(u.data_port, 100);
	assert_string_equal(u.session, "web");
	assert_int_equal(rut_url_parse("relay://10.0.0.1:99:7/", &u, NULL), 0);
	assert_int_equal(u.data_port, 7);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct rut_err err = RUT_ERR_INIT;

		assert_int_equal(rut_url_parse(bad[i], &u, &err), -EINVAL);
		assert_true(err.msg[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header),	cmocka_unit_test(test_data_header),
		cmocka_unit_test(test_session), cmocka_unit_test(test_stream),
		cmocka_unit_test(test_index),	cmocka_unit_test(test_rotation),
		cmocka_unit_test(test_chunks),	cmocka_unit_test(test_metadata),
		cmocka_unit_test(test_replies), cmocka_unit_test(test_urls),
		cmocka_unit_test(test_added),	cmocka_unit_test(test_metadata_packets),
	};

	return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
