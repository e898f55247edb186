/* SPDX-License-Identifier: MIT */
/* How the trace chunks of a receiver's store end: what is deleted, and what stays. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stream/store.h"

static struct rut_store *store;
static struct rut_store_session *session;
static char dir[64];

static void set_up(void)
{
	const struct rut_store_limits limits = {.streams = 16, .sessions = 4};
	const struct rut_relay_session what = {.name = "s", .host = "h", .base_path = ""};

	strcpy(dir, "/tmp/test_store.XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(rut_store_new(&store, dir, &limits, NULL), 0);
	assert_int_equal(rut_store_session(store, "client", &what, &session), 0);
}

static void tear_down(void)
{
	char command[96];

	rut_store_free(store);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

/* Begins a chunk; the stream's metadata begins again in it. */
static void begin(uint64_t id, uint64_t stream)
{
	const struct rut_relay_chunk c = {.id = id, .name = ""};
	struct rut_buf b = RUT_BUF_INIT;
	struct rut_relay_rotation r;

	assert_int_equal(rut_store_chunk(session, &c), 0);
	if (!stream)
		return;
	rut_relay_put_rotation(&b, id, &(struct rut_relay_position){.stream = stream}, 1);
	assert_int_equal(
		rut_relay_get_rotation(b.data + RUT_RELAY_HEADER, b.len - RUT_RELAY_HEADER, &r), 0);
	assert_int_equal(rut_store_rotate(session, &r), 0);
	rut_buf_fini(&b);
}

static int end(uint64_t id, enum rut_relay_close how)
{
	return rut_store_close_chunk(session,
				     &(struct rut_relay_chunk_end){.id = id, .how = (int)how});
}

static uint64_t add_stream(void)
{
	const struct rut_relay_stream s = {.channel = "metadata", .path = "kernel"};
	uint64_t handle;

	assert_int_equal(rut_store_add(session, &s, &handle), 0);
	return handle;
}

static void write_text(uint64_t stream)
{
	const struct rut_relay_metadata m = {.stream = stream, .text = "text", .len = 4};

	assert_int_equal(rut_store_metadata(session, &m), 0);
}

static bool exists(const char *below)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s%s/kernel/metadata", dir,
		 rut_store_session_path(session), below);
	return !access(path, F_OK);
}

/* LTTng's stop and rotate: the present chunk is closed to stay before the next one begins. */
static void test_closed_before_next(void **state)
{
	uint64_t stream;

	(void)state;
	set_up();
	begin(1, 0);
	stream = add_stream();
	write_text(stream);
	assert_int_equal(end(1, RUT_RELAY_CLOSE_MOVE), 0);
	begin(2, stream);
	write_text(stream);
	begin(3, stream);
	write_text(stream);
	assert_int_equal(end(2, RUT_RELAY_CLOSE_DELETE), 0);
	assert_true(exists("/archives/1"));
	assert_false(exists("/archives/2"));
	assert_true(exists("/archives/3"));
	assert_false(exists(""));
	assert_int_equal(end(3, RUT_RELAY_CLOSE_DELETE), 0);
	assert_true(exists("/archives/1"));
	assert_false(exists("/archives/3"));
	tear_down();
}

/* A session without a chunk that stays is in its own directory again when it is cleared. */
static void test_cleared(void **state)
{
	uint64_t stream;

	(void)state;
	set_up();
	begin(1, 0);
	stream = add_stream();
	for (uint64_t id = 1; id < 4; id++) {
		write_text(stream);
		begin(id + 1, stream);
		assert_int_equal(end(id, RUT_RELAY_CLOSE_DELETE), 0);
		assert_false(exists(""));
	}
	write_text(stream);
	assert_true(exists(""));
	assert_false(exists("/archives/4"));
	tear_down();
}

/* Only the chunk before the present one can be deleted: one that was closed before is not it. */
static void test_other_chunk(void **state)
{
	uint64_t stream;

	(void)state;
	set_up();
	begin(1, 0);
	stream = add_stream();
	write_text(stream);
	begin(2, stream);
	write_text(stream);
	assert_int_equal(end(1, RUT_RELAY_CLOSE_MOVE), 0);
	begin(3, stream);
	assert_int_equal(end(1, RUT_RELAY_CLOSE_DELETE), -ENOENT);
	assert_int_equal(end(7, RUT_RELAY_CLOSE_DELETE), -ENOENT);
	assert_true(exists("/archives/1"));
	assert_true(exists("/archives/2"));
	assert_int_equal(end(2, RUT_RELAY_CLOSE_DELETE), 0);
	assert_int_equal(end(2, RUT_RELAY_CLOSE_DELETE), 0);
	assert_true(exists("/archives/1"));
	assert_false(exists("/archives/2"));
	tear_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_closed_before_next),
		cmocka_unit_test(test_cleared),
		cmocka_unit_test(test_other_chunk),
	};

	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
