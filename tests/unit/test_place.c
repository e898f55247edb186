/* SPDX-License-Identifier: MIT */
/* Packets that come in any order, more than once, in pieces, to files of which writers were killed.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "ring/ring.h"
#include "stream/nats_url.h"
#include "stream/nats_wire.h"
#include "stream/place.h"

#define PACKETS 40

struct set {
	char path[64];
	int dir, fd;
	unsigned char *all; /* the file as it is to be */
	size_t at[PACKETS + 1];
};

/* Packets of pages, or, as those of Ruby processes, of any size. */
static void set_up(struct set *s, size_t odd)
{
	strcpy(s->path, access("/dev/shm", W_OK) ? "/tmp/rutile-place.XXXXXX"
						 : "/dev/shm/rutile-place.XXXXXX");
	assert_non_null(mkdtemp(s->path));
	s->dir = open(s->path, O_RDONLY | O_DIRECTORY);
	s->fd = openat(s->dir, "f", O_RDWR | O_CREAT, 0600);
	assert_true(s->dir >= 0 && s->fd >= 0);
	for (size_t i = 0; i < PACKETS; i++)
		s->at[i + 1] = s->at[i] + 4096 * (1 + i % 3) + odd * (i % 7);
	s->all = calloc(1, s->at[PACKETS]);
	for (size_t i = 0; i < PACKETS; i++) {
		const size_t whole = s->at[i + 1] - s->at[i], content = whole - 500 * (i % 5);
		struct rut_packet p = {.magic = RUT_CTF_PACKET_MAGIC,
				       .content_size = content * 8,
				       .packet_size = whole * 8,
				       .timestamp_begin = 1000 * i,
				       .timestamp_end = 1000 * i + 999,
				       .packet_seq_num = i};

		memset(s->all + s->at[i], (int)(i + 1), content);
		memcpy(s->all + s->at[i], &p, sizeof(p));
	}
}

static void tear_down(struct set *s)
{
	unlinkat(s->dir, "f", 0);
	assert_int_equal(rmdir(s->path), 0); /* nothing else is left */
	close(s->fd);
	close(s->dir);
	free(s->all);
}

static int put(const struct set *s, size_t i)
{
	return rut_place_packet(s->dir, "f", s->fd, s->at[i], s->all + s->at[i],
				s->at[i + 1] - s->at[i]);
}

/* From the begin each packet follows the one before, up to the end of the file. */
static void assert_row(const struct set *s)
{
	struct stat st;
	off_t at = 0;

	assert_int_equal(fstat(s->fd, &st), 0);
	while (at < st.st_size) {
		struct rut_packet p;

		assert_int_equal(pread(s->fd, &p, sizeof(p), at), sizeof(p));
		assert_int_equal(p.magic, RUT_CTF_PACKET_MAGIC);
		assert_true(p.packet_size >= p.content_size && p.content_size >= sizeof(p) * 8);
		at += (off_t)(p.packet_size / 8);
	}
	assert_int_equal(at, st.st_size);
}

static void assert_whole(const struct set *s)
{
	unsigned char *got = calloc(1, s->at[PACKETS]);
	struct stat st;

	assert_int_equal(fstat(s->fd, &st), 0);
	assert_int_equal(st.st_size, s->at[PACKETS]);
	assert_int_equal(pread(s->fd, got, s->at[PACKETS], 0), s->at[PACKETS]);
	assert_memory_equal(got, s->all, s->at[PACKETS]);
	free(got);
}

/*
 * A receiver was killed when it had noted what is missing before its packet, and nothing else.
 * Another one brings the missing packets in order: they are no gap then.
 */
static void test_stale_gap(void **state)
{
	for (size_t odd = 0; odd <= 16; odd += 16) {
		struct set s = {0};
		uint64_t gap[2];
		int fd;

		set_up(&s, odd);
		assert_int_equal(put(&s, 0), 0);
		assert_int_equal(put(&s, 1), 0);
		gap[0] = s.at[2];
		gap[1] = s.at[4] - s.at[2];
		fd = openat(s.dir, ".f.gaps", O_WRONLY | O_CREAT, 0600);
		assert_int_equal(write(fd, gap, sizeof(gap)), sizeof(gap));
		close(fd);
		for (size_t i = 2; i < PACKETS; i++)
			assert_int_equal(put(&s, i), 0);
		assert_whole(&s);
		assert_int_equal(faccessat(s.dir, ".f.gaps", F_OK, 0), -1);
		tear_down(&s);
	}
	(void)state;
}

/* In each of many orders the file is a sequence of packets after each step, and complete at the
 * end. */
static void test_order(void **state)
{
	srandom(1);
	for (int run = 0; run < 6; run++) {
		size_t order[2 * PACKETS], n = 2 * PACKETS;
		struct set s = {0};
		int stored = 0;

		set_up(&s, run % 2 * 8);
		for (size_t i = 0; i < n; i++)
			order[i] = i % PACKETS;
		for (size_t i = n - 1; i > 0; i--) {
			size_t j = (size_t)random() % (i + 1), v = order[i];

			order[i] = order[j];
			order[j] = v;
		}
		for (size_t i = 0; i < n; i++) {
			int rc = put(&s, order[i]);

			assert_true(rc == 0 || rc == 1);
			stored += !rc;
			assert_row(&s);
		}
		assert_int_equal(stored, PACKETS);
		assert_whole(&s);
		tear_down(&s);
	}
}

/* Packets of any size, in order. */
static void test_odd(void **state)
{
	struct set s = {0};

	set_up(&s, 1);
	for (size_t i = 0; i < PACKETS; i++) {
		assert_int_equal(put(&s, i), 0);
		assert_int_equal(put(&s, i), 1);
		assert_row(&s);
	}
	assert_whole(&s);
	tear_down(&s);
}

/* A writer that made room and was killed: its packet comes again, before and after the next one. */
static void test_killed(void **state)
{
	for (int later = 0; later < 2; later++) {
		struct set s = {0};

		set_up(&s, 0);
		assert_int_equal(put(&s, 0), 0);
		for (size_t i = 1; i < PACKETS; i++) {
			struct rut_packet p;

			/* The first step of appending (session/writer.c): pages that are packets.
			 */
			memcpy(&p, s.all + s.at[i], sizeof(p));
			p.content_size = sizeof(p) * 8;
			p.packet_size = 4096 * 8;
			assert_int_equal(ftruncate(s.fd, (off_t)s.at[i] + 4096), 0);
			assert_int_equal(pwrite(s.fd, &p, sizeof(p), (off_t)s.at[i]), sizeof(p));
			if (later && i + 1 < PACKETS) {
				assert_int_equal(put(&s, i + 1), 0);
				assert_int_equal(put(&s, i++), 0);
			} else {
				assert_int_equal(put(&s, i), 0);
			}
			assert_row(&s);
		}
		assert_whole(&s);
		tear_down(&s);
	}
}

/* A packet's end that was set is not taken back when it comes again. */
static void test_end(void **state)
{
	struct set s = {0};
	struct rut_packet p;

	set_up(&s, 0);
	assert_int_equal(rut_place_end(s.dir, "f", s.fd, 0, s.at[1], 5000), -EAGAIN);
	assert_int_equal(put(&s, 0), 0);
	assert_int_equal(rut_place_end(s.dir, "f", s.fd, 0, s.at[1], 5000), 0);
	assert_int_equal(put(&s, 0), 1);
	assert_int_equal(rut_place_end(s.dir, "f", s.fd, 0, s.at[1], 4000), 1);
	assert_int_equal(rut_place_end(s.dir, "f", s.fd, 0, s.at[1] + 4096, 6000), -EAGAIN);
	assert_int_equal(pread(s.fd, &p, sizeof(p), 0), sizeof(p));
	assert_int_equal(p.timestamp_end, 5000);
	/* In a gap nothing is there yet. */
	assert_int_equal(put(&s, 2), 0);
	assert_int_equal(rut_place_end(s.dir, "f", s.fd, s.at[1], s.at[2] - s.at[1], 7), -EAGAIN);
	assert_int_equal(put(&s, 1), 0);
	tear_down(&s);
}

static void test_overlap(void **state)
{
	struct set s = {0};

	set_up(&s, 0);
	for (size_t i = 0; i < PACKETS; i++)
		assert_int_equal(put(&s, i), 0);
	/* Where another packet is, or in the middle of one. */
	assert_int_equal(rut_place_packet(s.dir, "f", s.fd, s.at[3], s.all + s.at[4], 8192),
			 -EBADMSG);
	assert_int_equal(rut_place_packet(s.dir, "f", s.fd, s.at[2] + 4096, s.all, 4096), -EBADMSG);
	assert_whole(&s);
	tear_down(&s);
}

static void test_pieces(void **state)
{
	static const size_t order[] = {2, 0, 2, 1};
	unsigned char content[10000], *got = NULL;
	struct set s = {0};

	set_up(&s, 0);
	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (unsigned char)(i * 7);
	for (size_t i = 0; i < 4; i++) {
		const size_t at = order[i] * 4096;
		const struct rut_place_piece p = {
			.content = sizeof(content),
			.at = at,
			.part = 4096,
			.data = content + at,
			.len = sizeof(content) - at < 4096 ? sizeof(content) - at : 4096};

		bool new;

		assert_int_equal(rut_place_piece(s.dir, ".f.0", &p, &new, &got), i == 3);
		assert_int_equal(new, i != 2);
	}
	assert_memory_equal(got, content, sizeof(content));
	free(got);
	assert_int_equal(unlinkat(s.dir, ".f.0", 0), 0);
	tear_down(&s);
}

static void test_head(void **state)
{
	struct rut_nats_head want = {.kind = RUT_NATS_PACKET,
				     .uuid = {1, 2, 3},
				     .created_s = 1700000000,
				     .chunk = 7,
				     .seq = 9,
				     .offset = 1 << 20,
				     .whole = 20480,
				     .content = 20000,
				     .at = 16384,
				     .part = 8192},
			     got;
	struct rut_buf b = RUT_BUF_INIT;
	char piece[20000 - 16384] = {0};

	rut_nats_head_put(&b, &want);
	assert_int_equal(b.len, RUT_NATS_HEAD);
	rut_buf_add(&b, piece, sizeof(piece));
	assert_int_equal(rut_nats_head_get(b.data, b.len, &got), 0);
	assert_int_equal(got.offset, want.offset);
	assert_int_equal(got.chunk, want.chunk);
	assert_int_equal(got.part, want.part);
	assert_memory_equal(got.uuid, want.uuid, 16);
	/* One byte less or more. */
	assert_int_equal(rut_nats_head_get(b.data, b.len - 1, &got), -EBADMSG);
	rut_buf_putc(&b, 'x');
	assert_int_equal(rut_nats_head_get(b.data, b.len, &got), -EBADMSG);
	for (size_t i = 0; i < RUT_NATS_HEAD; i++)
		assert_int_equal(rut_nats_head_get(b.data, i, &got), -EBADMSG);
	rut_buf_fini(&b);
}

static void test_subject(void **state)
{
	static const char *const bad[] = {"",
					  "rutile",
					  "rutile.a.b",
					  "rutile.a..c",
					  "other.a.b.c",
					  "rutile.a.b.c.d.e",
					  "rutile.a.b.%4",
					  "rutile.a.b.%00",
					  "rutile.a.b.%zz",
					  "rutile.a.b.c."};
	static const char *const names[] = {"web1.example.org", "a b>*.%", "\xc3\xa4", "kernel_0"};
	struct rut_nats_subject got;
	struct rut_buf b = RUT_BUF_INIT;

	rut_buf_puts(&b, RUT_NATS_PREFIX);
	for (size_t i = 0; i < 4; i++)
		rut_nats_token_put(&b, names[i]);
	assert_string_equal(b.data,
			    "rutile.web1%2Eexample%2Eorg.a%20b%3E%2A%2E%25.%C3%A4.kernel_0");
	assert_int_equal(rut_nats_subject_get(b.data, &got), 0);
	assert_string_equal(got.host, names[0]);
	assert_string_equal(got.session, names[1]);
	assert_string_equal(got.part, names[2]);
	assert_string_equal(got.stream, names[3]);
	assert_int_equal(rut_nats_subject_get("rutile.h.s.begin", &got), 0);
	assert_string_equal(got.stream, "");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(rut_nats_subject_get(bad[i], &got), -EBADMSG);
	rut_buf_fini(&b);
}

static void test_nats_urls(void **state)
{
	static const char *const bad[] = {"nats://",
					  "nats:///S",
					  "nats://h:0/S",
					  "nats://h:70000/S",
					  "nats://h:x/S",
					  "nats://h,/S",
					  "nats://h/S/T",
					  "nats://h/S.T",
					  "nats://u@h/S",
					  "nats://[::1/S",
					  "nats://h:1:2/S",
					  "nats://h/S*",
					  "",
					  "t",
					  "nats"};
	struct rut_nats_url u;

	assert_int_equal(rut_nats_url_parse("nats://a,b:1,[::1]:2/ST_1", &u, NULL), 0);
	assert_int_equal(u.n_servers, 3);
	assert_string_equal(u.servers[0], "nats://a:4222");
	assert_string_equal(u.servers[1], "nats://b:1");
	assert_string_equal(u.servers[2], "nats://[::1]:2");
	assert_string_equal(u.stream, "ST_1");
	assert_false(u.tls);
	assert_int_equal(rut_nats_url_parse("natss://a", &u, NULL), 0);
	assert_true(u.tls);
	assert_string_equal(u.servers[0], "tls://a:4222");
	assert_string_equal(u.stream, "");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(rut_nats_url_parse(bad[i], &u, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stale_gap), cmocka_unit_test(test_order),
		cmocka_unit_test(test_killed),	  cmocka_unit_test(test_odd),
		cmocka_unit_test(test_overlap),	  cmocka_unit_test(test_end),
		cmocka_unit_test(test_pieces),	  cmocka_unit_test(test_head),
		cmocka_unit_test(test_subject),	  cmocka_unit_test(test_nats_urls),
	};

	return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
