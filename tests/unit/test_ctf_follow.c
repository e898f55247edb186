/* SPDX-License-Identifier: MIT */
/* Traces that change while they are read. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "ctf_dir.h"

static void test_a_file_cut_while_it_is_read(void **state)
{
	struct rut_ctf_counts counts;
	struct rut_ctf_reader *r;
	struct rut_ctf_set *set;
	struct dir d;
	int n = 0;

	make_dir(&d);
	write_streams(&d, 2, 2000);
	set = open_dir(&d);
	r = open_reader(set, NULL);
	for (; n < 100; n++)
		assert_non_null(rut_ctf_reader_next(r));
	assert_int_equal(truncate(in_dir(&d, "s_0"), 100 * 4096), 0);
	rut_log_set_sink(keep_log, NULL);
	while (rut_ctf_reader_next(r))
		n++;
	rut_log_set_sink(NULL, NULL);
	rut_ctf_reader_counts(r, &counts);
	assert_int_equal(counts.errors, 1);
	assert_non_null(strstr(last_log, "s_0', byte 409600: the file was cut short"));
	/* All of the other stream, and what was left of this one: 800 packets. */
	assert_int_equal(n, 20000 + 8000);
	rut_ctf_reader_free(r);
	rut_ctf_set_free(set);
	remove_dir(&d);
}

/* The next event, and whether it has its own field: one of write_streams(). */
static const struct rut_ctf_event *next_whole(struct rut_ctf_reader *r, int64_t *last)
{
	const struct rut_ctf_event *ev = rut_ctf_reader_next(r);
	struct rut_ctf_ref ref;

	if (!ev)
		return NULL;
	assert_true(ev->ts_ns >= *last);
	*last = ev->ts_ns;
	assert_true(rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, "v", &ref));
	assert_int_equal(rut_ctf_u64(ev, &ref), ev->ts_clock);
	return ev;
}

/*
 * A growing trace: whole packets only, in order although streams grow one after the other. What
 * waits for a stream that is behind keeps its fields meanwhile.
 */
static void test_a_growing_trace_is_followed(void **state)
{
	struct rut_ctf_reader_opts opts = {.follow = true};
	struct rut_ctf_reader *r;
	struct rut_ctf_set *set;
	struct rut_buf whole[3] = {0};
	struct dir d;
	int64_t last = 0;
	size_t n = 0;

	make_dir(&d);
	write_streams(&d, 3, 50);
	for (int s = 0; s < 3; s++) {
		char name[16];

		snprintf(name, sizeof(name), "s_%d", s);
		assert_int_equal(rut_buf_read_file(&whole[s], in_dir(&d, name), 1 << 20), 0);
		/* The third one comes later. */
		if (s == 2)
			assert_int_equal(unlink(in_dir(&d, name)), 0);
		else
			put_file(&d, name, whole[s].data, 512);
	}
	set = open_dir(&d);
	r = open_reader(set, &opts);
	for (size_t len = 700; len < 50 * 512 + 1400; len += 700) {
		for (int s = 0; s < 3; s++) {
			size_t want = len + 300 * (size_t)s;
			char name[16];

			snprintf(name, sizeof(name), "s_%d", s);
			if (want > whole[s].len)
				want = whole[s].len;
			put_file(&d, name, whole[s].data, want);
		}
		rut_ctf_reader_poll(r, NULL);
		while (next_whole(r, &last))
			n++;
	}
	rut_ctf_reader_drain(r);
	while (next_whole(r, &last))
		n++;
	assert_int_equal(n, 1500);
	rut_ctf_reader_free(r);
	rut_ctf_set_free(set);
	for (int s = 0; s < 3; s++)
		rut_buf_fini(&whole[s]);
	remove_dir(&d);
}

/* A packet of the recorder while it is written: see src/session/writer.c. */
static void put_padding(unsigned char *to, const unsigned char *packet, uint64_t seq)
{
	const uint64_t content = 60 * 8, size = 512 * 8;

	memset(to, 0, 512);
	memcpy(to, packet, 60);
	memcpy(to + 16, to + 8, 8); /* ends when it begins */
	memcpy(to + 24, &content, 8);
	memcpy(to + 32, &size, 8);
	memcpy(to + 48, &seq, 8);
}

static size_t read_more(struct rut_ctf_reader *r)
{
	size_t n = 0;

	rut_ctf_reader_poll(r, NULL);
	while (rut_ctf_reader_next(r))
		n++;
	return n;
}

/* A follower sees nothing of a packet that is being written, and all of it then. */
static void test_a_packet_is_followed_while_it_is_written(void **state)
{
	struct rut_ctf_reader_opts opts = {.follow = true};
	struct rut_ctf_counts counts;
	struct rut_ctf_reader *r;
	struct rut_ctf_set *set;
	struct rut_buf whole = RUT_BUF_INIT;
	const uint64_t size = 3 * 512 * 8;
	size_t n, len = 512;
	unsigned char *file;
	struct dir d;

	make_dir(&d);
	write_streams(&d, 1, 8);
	assert_int_equal(rut_buf_read_file(&whole, in_dir(&d, "s_0"), 1 << 20), 0);
	file = test_malloc(512 * (1 + 7 * 3));
	memcpy(file, whole.data, 512);
	put_file(&d, "s_0", file, len);
	set = open_dir(&d);
	r = open_reader(set, &opts);
	n = read_more(r);
	assert_int_equal(n, 10);
	for (uint64_t i = 1; i < 8; i++) {
		unsigned char *packet = (unsigned char *)whole.data + 512 * i, *at = file + len;

		for (uint64_t k = 0; k < 3; k++, len += 512) {
			put_padding(file + len, packet, i + k);
			put_file(&d, "s_0", file, len + 512);
			assert_int_equal(read_more(r), 0);
		}
		memcpy(at + 32, &size, 8);
		put_file(&d, "s_0", file, len);
		assert_int_equal(read_more(r), 0);
		memcpy(at + 60, packet + 60, 512 - 60);
		memset(at + 512, 0xff, 1024);
		put_file(&d, "s_0", file, len);
		assert_int_equal(read_more(r), 0);
		memcpy(packet + 32, &size, 8);
		memcpy(at, packet, 60);
		put_file(&d, "s_0", file, len);
		n += read_more(r);
		assert_int_equal(n, 10 * (i + 1));
	}
	rut_ctf_reader_counts(r, &counts);
	assert_int_equal(n, 80);
	assert_int_equal(counts.errors + counts.discarded + counts.lost_packets, 0);
	rut_ctf_reader_free(r);
	rut_ctf_set_free(set);
	rut_buf_fini(&whole);
	test_free(file);
	remove_dir(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_file_cut_while_it_is_read),
		cmocka_unit_test(test_a_growing_trace_is_followed),
		cmocka_unit_test(test_a_packet_is_followed_while_it_is_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
