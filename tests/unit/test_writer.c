/* SPDX-License-Identifier: MIT */
/*
 * A writer that is cut off anywhere leaves whole packets: pwrite(2) and pwritev(2) are replaced by
 * ones that work page by page, as kernels do, check the file after each, and can fail or end short.
 */
#include "session/writer.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "ring/append.h"
#include "session/snapshot.h"

#define PAGE	4096
#define SUBBUFS 4
#define SHIFT	16

static struct {
	int fd;		/* of the stream; -1: not looking */
	long left;	/* pages until the disk is full; -1: never */
	size_t in_page; /* the disk is full after so many bytes of a page */
	int states;
} watch = {.fd = -1, .left = -1};

/* The file is a sequence of whole packets; returns the bytes of their events, the first of each
 * known.
 */
static uint64_t check_file(int fd)
{
	struct stat st;
	unsigned char *data;
	uint64_t bytes = 0, seq = 0;
	off_t at = 0;

	assert_int_equal(fstat(fd, &st), 0);
	if (!st.st_size)
		return 0;
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(data, MAP_FAILED);
	while (at < st.st_size) {
		const struct rut_packet *p = (const void *)(data + at);
		uint64_t used = p->content_size / 8 - sizeof(*p);

		assert_int_equal(p->magic, RUT_CTF_PACKET_MAGIC);
		assert_true(p->packet_size && p->packet_size % (PAGE * 8) == 0);
		assert_true(at + (off_t)(p->packet_size / 8) <= st.st_size);
		assert_true(p->content_size <= p->packet_size);
		assert_true(p->timestamp_begin <= p->timestamp_end);
		/* Numbers in a row, or readers complain of lost packets. */
		assert_true(!at || p->packet_seq_num == seq + 1);
		seq = p->packet_seq_num;
		for (uint64_t i = 0; i < used; i++)
			assert_int_equal(data[at + (off_t)sizeof(*p) + (off_t)i],
					 (unsigned char)(p->packet_seq_num + i / 7));
		bytes += used;
		at += (off_t)(p->packet_size / 8);
	}
	munmap(data, (size_t)st.st_size);
	return bytes;
}

ssize_t __real_pwrite64(int fd, const void *data, size_t len, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t len, off_t at);
ssize_t __wrap_pwritev64(int fd, const struct iovec *iov, int n, off_t at);

ssize_t __wrap_pwrite64(int fd, const void *data, size_t len, off_t at)
{
	size_t done = 0;
	struct stat st;
	bool full = false;

	if (fd != watch.fd)
		return __real_pwrite64(fd, data, len, at);
	while (done < len) {
		size_t part = PAGE - (size_t)(at + (off_t)done) % PAGE;

		part = part < len - done ? part : len - done;
		assert_int_equal(fstat(fd, &st), 0);
		/* Room is needed for what is new only. */
		if (at + (off_t)(done + part) > st.st_size && watch.left >= 0 &&
		    watch.left-- == 0) {
			watch.left = 0;
			part = (at + (off_t)done) % PAGE ? 0 : watch.in_page;
			watch.in_page = 0;
			full = true;
		}
		if (!part || __real_pwrite64(fd, (const char *)data + done, part,
					     at + (off_t)done) != (ssize_t)part)
			break;
		done += part;
		if (full)
			break;
		check_file(fd);
		watch.states++;
	}
	if (!done)
		errno = ENOSPC;
	return done ? (ssize_t)done : -1;
}

ssize_t __wrap_pwritev64(int fd, const struct iovec *iov, int n, off_t at)
{
	ssize_t done = 0;

	/* Kernels copy a page at once, from however many pieces. */
	for (int i = 0; i < n;) {
		unsigned char page[PAGE];
		size_t len = 0;
		ssize_t rc;

		for (; i < n && len < PAGE; len += iov[i++].iov_len) {
			assert_true(iov[i].iov_len <= PAGE - len);
			memcpy(page + len, iov[i].iov_base, iov[i].iov_len);
		}
		rc = __wrap_pwrite64(fd, page, len, at + done);
		done += rc > 0 ? rc : 0;
		if (rc < (ssize_t)len)
			return done ? done : rc;
	}
	return done;
}

static void make_packet(unsigned char *to, uint64_t seq, size_t used)
{
	struct rut_packet p = {
		.magic = RUT_CTF_PACKET_MAGIC,
		.timestamp_begin = 1000 + seq * 10,
		.timestamp_end = 1005 + seq * 10,
		.content_size = (sizeof(p) + used) * 8,
		.packet_size = 8ull << SHIFT,
		.packet_seq_num = seq,
	};

	memset(to, 0xee, 1 << SHIFT);
	memcpy(to, &p, sizeof(p));
	for (size_t i = 0; i < used; i++)
		to[sizeof(p) + i] = (unsigned char)(seq + i / 7);
}

/* A writer of one CPU, with a nameless file. */
static void open_writer(struct rut_writer *w, struct rut_recorder *r)
{
	char path[] = "/tmp/rutile-writer.XXXXXX";

	*r = (struct rut_recorder){.ncpus = 1};
	*w = (struct rut_writer){.recorder = r, .dir_fd = -1, .parent_fd = -1, .published = true};
	w->streams = calloc(2, sizeof(*w->streams));
	assert_non_null(w->streams);
	w->streams[0].fd = mkstemp(path);
	w->streams[1].fd = -1;
	assert_true(w->streams[0].fd >= 0);
	unlink(path);
	watch.fd = w->streams[0].fd;
	watch.left = -1;
	watch.in_page = 0;
	watch.states = 0;
}

static void close_writer(struct rut_writer *w)
{
	watch.fd = -1;
	rut_writer_close(w);
}

static const size_t sizes[] = {
	1, 100, PAGE - sizeof(struct rut_packet), PAGE, 20000, (1 << SHIFT) - 88, 0,
};

static void test_whole_at_every_page(void **state)
{
	unsigned char *packet = malloc(1 << SHIFT);
	struct rut_recorder r;
	struct rut_writer w;
	uint64_t total = 0;

	assert_non_null(packet);
	open_writer(&w, &r);
	for (uint64_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		make_packet(packet, i, sizes[i]);
		assert_int_equal(rut_writer_append(&w, 0, packet, NULL), 0);
		total += sizes[i];
		assert_int_equal(check_file(w.streams[0].fd), total);
	}
	assert_true(watch.states > 40);
	close_writer(&w);
	free(packet);
}

/* The same where a sender may drop packets: each says how many records it has. */
static void test_counts(void **state)
{
	unsigned char *packet = malloc(1 << SHIFT);
	struct rut_session_meta *meta = calloc(1, sizeof(*meta));
	struct rut_recorder r;
	struct rut_writer w;
	off_t at = 0;

	assert_non_null(packet);
	assert_non_null(meta);
	open_writer(&w, &r);
	meta->output.drop_oldest = true;
	r.meta = meta;
	for (uint64_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const uint64_t records = 1000 + i;

		make_packet(packet, i, sizes[i]);
		assert_int_equal(rut_writer_append(&w, 0, packet, &records), 0);
	}
	check_file(w.streams[0].fd);
	for (uint64_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct rut_packet head;
		uint64_t records = 0;

		assert_int_equal(pread(w.streams[0].fd, &head, sizeof(head), at), sizeof(head));
		assert_int_equal(head.content_size / 8, sizes[i] + sizeof(head));
		assert_true(rut_packet_read_foot(w.streams[0].fd, &head, at, RUT_PACKET_COUNTED,
						 &records));
		assert_int_equal(records, 1000 + i);
		at += (off_t)(head.packet_size / 8);
	}
	assert_int_equal(at, w.streams[0].end);
	close_writer(&w);
	free(meta);
	free(packet);
}

/* A full disk at every page, and inside of each: nothing of the packet stays, and writing
 * continues. */
static void test_full_at_every_page(void **state)
{
	unsigned char *packet = malloc(1 << SHIFT);

	assert_non_null(packet);
	for (long left = 0; left < 17 * 2; left++) {
		struct rut_recorder r;
		struct rut_writer w;
		int rc;

		open_writer(&w, &r);
		make_packet(packet, 0, 20000);
		assert_int_equal(rut_writer_append(&w, 0, packet, NULL), 0);
		watch.left = left / 2;
		watch.in_page = left % 2 ? 512 : 0;
		make_packet(packet, 1, (1 << SHIFT) - sizeof(struct rut_packet));
		rc = rut_writer_append(&w, 0, packet, NULL);
		assert_int_equal(rc, left / 2 < 16 ? -ENOSPC : 0);
		assert_int_equal(((struct rut_packet *)packet)->packet_size, 8 << SHIFT);
		watch.left = -1;
		assert_int_equal(check_file(w.streams[0].fd),
				 rc ? 20000 : 20000 + (1 << SHIFT) - 88);
		if (rc)
			assert_int_equal(rut_writer_append(&w, 0, packet, NULL), 0);
		assert_int_equal(check_file(w.streams[0].fd), 20000 + (1 << SHIFT) - 88);
		close_writer(&w);
	}
	free(packet);
}

static uint64_t tick(void)
{
	static uint64_t ns = 1000000;

	return ns += 100;
}

/* Each record fills its packet. Returns its position. */
static uint64_t reserve(const struct rut_ring *ring)
{
	uint64_t ns = 0, pos = 0, head;
	void *p = rut_ring_reserve(ring, 3000, tick, &ns, &pos);

	assert_non_null(p);
	head = RUT_RECORD_HEADER(1, ns);
	memcpy(p, &head, sizeof(head));
	return pos;
}

/* The numbers of the packets in DIR/kernel/kernel_0 that have records, as digits. */
static void packets_of(const char *dir, char *ret)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char path[200];
	struct rut_packet p;

	snprintf(path, sizeof(path), "%s/kernel/kernel_0", dir);
	assert_int_equal(rut_buf_read_file(&b, path, 1 << 20), 0);
	for (size_t at = 0; at + sizeof(p) <= b.len; at += p.packet_size / 8) {
		memcpy(&p, b.data + at, sizeof(p));
		if (p.content_size > sizeof(p) * 8)
			*ret++ = (char)('0' + p.packet_seq_num);
	}
	*ret = '\0';
}

/* A record that is not finished costs a snapshot its packet, not those behind it. */
static void test_snapshot_beside_an_unfinished_record(void **state)
{
	static unsigned char data[8 << 12];
	static struct rut_ring_ctl ctl __attribute__((aligned(64)));
	char root[] = "/tmp/rutile-snapshot.XXXXXX", dir[64], found[16];
	struct rut_err err = RUT_ERR_INIT;
	struct rut_snapshot snap;
	struct rut_ring ring;
	struct rut_recorder r = {.ncpus = 1, .rings = &ring};
	uint64_t second;

	assert_non_null(mkdtemp(root));
	r.meta = calloc(1, RUT_META_PAGES_OFFSET);
	assert_non_null(r.meta);
	r.conf.mode = RUT_RING_OVERWRITE;
	snprintf(r.conf.name, sizeof(r.conf.name), "unit");
	assert_int_equal(rut_ring_init(&ring, &ctl, data, RUT_RING_OVERWRITE, 12, 8), 0);
	rut_ring_commit(&ring, reserve(&ring), 3000);
	second = reserve(&ring);
	rut_ring_commit(&ring, reserve(&ring), 3000);
	rut_ring_commit(&ring, reserve(&ring), 3000);

	snprintf(dir, sizeof(dir), "%s/a", root);
	assert_int_equal(rut_snapshot_write(&r, dir, NULL, &snap, &err), 0);
	packets_of(dir, found);
	assert_string_equal(found, "023");
	assert_int_equal(snap.lapped, 1);
	assert_int_equal(rut_trace_remove(dir), 0);

	rut_ring_commit(&ring, second, 3000);
	snprintf(dir, sizeof(dir), "%s/b", root);
	assert_int_equal(rut_snapshot_write(&r, dir, NULL, &snap, &err), 0);
	packets_of(dir, found);
	assert_string_equal(found, "0123");
	assert_int_equal(snap.lapped, 0);
	assert_int_equal(rut_trace_remove(dir), 0);
	assert_int_equal(rmdir(root), 0);
	free(r.meta);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_at_every_page),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_full_at_every_page),
		cmocka_unit_test(test_snapshot_beside_an_unfinished_record),
	};

	return cmocka_run_group_tests_name("writer", tests, NULL, NULL);
}
