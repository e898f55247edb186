/* SPDX-License-Identifier: MIT */
/* What a collector makes of messages: limits, attempts that differ, a disk that fails. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "ring/ring.h"
#include "stream/nats_store.h"
#include "stream/nats_wire.h"

#define SESSION "s-20231114-221320-00000000"

static struct rut_nats_store *store;
static char dir[64];
static int syncs, fail_sync;

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	syncs++;
	if (fail_sync && syncs == fail_sync) {
		errno = EIO;
		return -1;
	}
	return __real_fdatasync(fd);
}

static void set_up(uint64_t bytes)
{
	const struct rut_store_limits limits = {.bytes = bytes};

	strcpy(dir, access("/dev/shm", W_OK) ? "/tmp/rutile-nats.XXXXXX"
					     : "/dev/shm/rutile-nats.XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(rut_nats_store_new(&store, dir, &limits, NULL), 0);
	syncs = fail_sync = 0;
}

static void tear_down(void)
{
	char command[128];

	rut_nats_store_free(store);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

/* A packet of `whole` bytes, of which `content` are not the zeros behind it. */
static unsigned char *new_packet(size_t content, size_t whole)
{
	const struct rut_packet p = {.magic = RUT_CTF_PACKET_MAGIC,
				     .content_size = content * 8,
				     .packet_size = whole * 8};
	unsigned char *all = calloc(1, whole);

	assert_non_null(all);
	memset(all, 7, content);
	memcpy(all, &p, sizeof(p));
	return all;
}

/* Stores the piece of `data` that the head says. */
static int put(const char *subject, struct rut_nats_head h, const unsigned char *data)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	const size_t left = h.content - h.at;

	h.created_s = 1700000000;
	rut_nats_head_put(&b, &h);
	if (h.content)
		rut_buf_add(&b, data + h.at, left < h.part ? left : h.part);
	return rut_nats_store_put(store, subject, b.data, b.len);
}

static bool exists(const char *path)
{
	char all[256];

	snprintf(all, sizeof(all), "%s/%s", dir, path);
	return !access(all, F_OK);
}

static void rename_in(const char *from, const char *to)
{
	char a[256], b[256];

	snprintf(a, sizeof(a), "%s/%s", dir, from);
	snprintf(b, sizeof(b), "%s/%s", dir, to);
	assert_int_equal(rename(a, b), 0);
}

/* The end of a packet that is not there makes nothing. */
static void test_absent(void **state)
{
	const struct rut_nats_head end = {
		.kind = RUT_NATS_END, .whole = 4096, .part = 4096, .seq = 5};
	struct rut_nats_head h = {
		.kind = RUT_NATS_PACKET, .content = 4096, .whole = 4096, .part = 4096};
	unsigned char *p = new_packet(4096, 4096);

	set_up(0);
	assert_int_equal(put("rutile.h.s.p.f", end, NULL), -EAGAIN);
	assert_false(exists("h"));
	assert_int_equal(put("rutile.h.s.p.f", h, p), 0);
	assert_int_equal(put("rutile.h.s.p.g", end, NULL), -EAGAIN);
	assert_false(exists("h/" SESSION "/p/g"));
	assert_int_equal(put("rutile.h.s.p.f", end, NULL), 0);
	tear_down();
	free(p);
}

/*
 * A directory is complete when its list and all that the list names are there, in whichever order
 * they come; also when the last message comes for the second time, as after a receiver that was
 * killed.
 */
static void test_complete(void **state)
{
	const unsigned char list[] = "p/f 12288\np/none 0\n", text[] = "metadata";
	struct rut_nats_head end = {.kind = RUT_NATS_CHUNK,
				    .last = true,
				    .content = sizeof(list) - 1,
				    .whole = sizeof(list) - 1,
				    .part = 4096};
	struct rut_nats_head meta = {
		.kind = RUT_NATS_METADATA, .seq = 1, .content = 8, .whole = 8, .part = 4096};
	struct rut_nats_head h = {
		.kind = RUT_NATS_PACKET, .content = 4096, .whole = 4096, .part = 4096};
	static const int orders[][5] = {{0, 1, 2, 3, 4},
					{4, 3, 2, 1, 0},
					{3, 0, 4, 2, 1},
					{1, 4, 3, 0, 2},
					{2, 0, 4, 1, 3}};
	unsigned char *p = new_packet(4096, 4096);

	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		set_up(0);
		for (int k = 0; k < 5; k++) {
			const int what = orders[i][k];

			assert_false(exists("h/" SESSION "/.complete"));
			h.offset = (uint64_t)what * 4096;
			h.seq = (uint64_t)what;
			assert_true((what == 3	 ? put("rutile.h.s.chunk", end, list)
				     : what == 4 ? put("rutile.h.s.p.metadata", meta, text)
						 : put("rutile.h.s.p.f", h, p)) == 0);
		}
		assert_true(exists("h/" SESSION "/.complete"));
		assert_false(exists("h/" SESSION "/.list"));
		assert_int_equal(put("rutile.h.s.chunk", end, list), 1);
		/* As if killed between the last packet and the mark. */
		rename_in("h/" SESSION "/.complete", "h/" SESSION "/.list");
		h.offset = h.seq = 0;
		assert_int_equal(put("rutile.h.s.p.f", h, p), 1);
		assert_true(exists("h/" SESSION "/.complete"));
		tear_down();
	}
	free(p);
}

/* What is written counts, zeros too, and once; what has no room leaves the limit as it is. */
static void test_limit(void **state)
{
	struct rut_nats_head h = {.kind = RUT_NATS_PACKET,
				  .content = sizeof(struct rut_packet),
				  .whole = 1 << 20,
				  .part = 4096};
	unsigned char *p = new_packet(h.content, h.whole);

	/* Two such packets, the directory and the file. */
	set_up((2 << 20) + 8192);
	assert_int_equal(put("rutile.h.s.p.f", h, p), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(put("rutile.h.s.p.f", h, p), 1);
	/* Over another packet. */
	h.offset = 4096;
	assert_int_equal(put("rutile.h.s.p.f", h, p), -EBADMSG);
	h.offset = 1 << 20;
	assert_int_equal(put("rutile.h.s.p.f", h, p), 0);
	assert_int_equal(put("rutile.h.s.p.f", h, p), 1);
	h.offset = 2 << 20;
	assert_int_equal(put("rutile.h.s.p.f", h, p), RUT_NATS_OVER_LIMIT);
	assert_int_equal(put("rutile.h.s.p.g", h, p), RUT_NATS_OVER_LIMIT);
	assert_false(exists("h/" SESSION "/p/g"));
	assert_int_equal(put("rutile.other.s.p.f", h, p), 0);
	tear_down();
	free(p);
}

/* Pieces of two attempts, of which the second one's are smaller, do not make one packet. */
static void test_attempts(void **state)
{
	struct rut_nats_head h = {
		.kind = RUT_NATS_PACKET, .content = 16384, .whole = 16384, .part = 8192};
	/* The last one has the number of the piece that came first. */
	static const uint64_t last[] = {0, 8192, 12288, 4096};
	unsigned char *p = new_packet(h.content, h.whole), got[16384];
	struct stat st;
	char path[256];
	int fd;

	/* Pieces count once, although they are sent again, and each attempt's. */
	set_up(16384 + 8192 + 8192);
	snprintf(path, sizeof(path), "%s/h/" SESSION "/p/f", dir);
	h.at = 8192;
	assert_int_equal(put("rutile.h.s.p.f", h, p), 0);
	assert_int_equal(put("rutile.h.s.p.f", h, p), 0);
	h.part = 4096;
	for (size_t i = 0; i < 4; i++) {
		h.at = last[i];
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_size, 0);
		assert_int_equal(put("rutile.h.s.p.f", h, p), 0);
	}
	h.at = 0;
	assert_int_equal(put("rutile.h.s.p.f", h, p), 1);
	fd = open(path, O_RDONLY);
	assert_int_equal(read(fd, got, sizeof(got)), sizeof(got));
	close(fd);
	assert_memory_equal(got, p, sizeof(got));
	/* Nothing but the file is left. */
	assert_int_equal(unlink(path), 0);
	*strrchr(path, '/') = '\0';
	assert_int_equal(rmdir(path), 0);
	tear_down();
	free(p);
}

/* The packet may be from a collector that was killed before it was on the disk. */
static void test_sync(void **state)
{
	struct rut_nats_head h = {
		.kind = RUT_NATS_PACKET, .content = 4096, .whole = 4096, .part = 4096};
	unsigned char *p = new_packet(4096, 4096);
	char subject[64];
	int before;

	set_up(0);
	assert_int_equal(put("rutile.h.s.p.f", h, p), 0);
	assert_int_equal(rut_nats_store_sync(store), 0);
	before = syncs;
	assert_int_equal(put("rutile.h.s.p.f", h, p), 1);
	assert_int_equal(rut_nats_store_sync(store), 0);
	assert_int_equal(syncs, before + 1);
	/* A file that is closed to open another one, and does not get to the disk, is the batch's.
	 */
	fail_sync = syncs + 1;
	for (int i = 0; i < 257; i++) {
		snprintf(subject, sizeof(subject), "rutile.h.s.p.f%d", i);
		assert_int_equal(put(subject, h, p), 0);
	}
	assert_true(syncs >= fail_sync);
	assert_int_equal(rut_nats_store_sync(store), -EIO);
	assert_int_equal(rut_nats_store_sync(store), 0);
	tear_down();
	free(p);
}

/* Names as long as senders have them. */
static void test_names(void **state)
{
	struct rut_nats_head h = {
		.kind = RUT_NATS_PACKET, .content = 4096, .whole = 4096, .part = 4096};
	unsigned char *p = new_packet(4096, 4096);
	char name[256], subject[1024];

	set_up(0);
	memset(name, 'x', sizeof(name));
	snprintf(subject, sizeof(subject), "rutile.%.64s.s.p.f", name);
	assert_int_equal(put(subject, h, p), 0);
	snprintf(subject, sizeof(subject), "rutile.%.65s.s.p.f", name);
	assert_int_equal(put(subject, h, p), -EBADMSG);
	/* Hidden files that belong to it have longer names. */
	snprintf(subject, sizeof(subject), "rutile.h.s.p.%.200s", name);
	h.offset = 4096;
	assert_int_equal(put(subject, h, p), 0);
	snprintf(subject, sizeof(subject), "rutile.h.s.p.%.255s", name);
	assert_int_equal(put(subject, h, p), -EBADMSG);
	tear_down();
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_absent), cmocka_unit_test(test_complete),
		cmocka_unit_test(test_limit),  cmocka_unit_test(test_attempts),
		cmocka_unit_test(test_sync),   cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests_name("nats_store", tests, NULL, NULL);
}
