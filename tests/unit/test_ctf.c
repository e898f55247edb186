/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"
#include "ctf/file.h"
#include "ctf/text.h"
#include "ctf/text_value.h"
#include "ctf/when.h"
#include "ctf_dir.h"

/* Everything of a set as text. */
static char *print_all(struct rut_ctf_set *set, const struct rut_ctf_reader_opts *opts)
{
	struct rut_ctf_text_opts topts = {
		.names = 3, .clock = RUT_CTF_CLOCK_SECONDS, .no_delta = true};
	struct rut_buf out = RUT_BUF_INIT;
	struct rut_ctf_reader *r = open_reader(set, opts);
	const struct rut_ctf_event *ev;
	struct rut_ctf_text *text;

	assert_int_equal(rut_ctf_text_new(&text, set, &topts, NULL), 0);
	while ((ev = rut_ctf_reader_next(r)))
		rut_ctf_text_event(text, ev, &out);
	rut_ctf_text_free(text);
	rut_ctf_reader_free(r);
	assert_false(out.failed);
	return rut_buf_take(&out);
}

/* ---- Tests ---- */

struct column {
	unsigned int bits, align;
	bool is_signed, be, string;
};

enum { N_COLUMNS = 12, N_RECORDS = 50 };

struct records {
	bool be;
	unsigned int seed;
	struct column cols[N_COLUMNS];
	unsigned int align; /* of the structure */
	uint64_t values[N_RECORDS][N_COLUMNS];
};

/* Chooses types at random. A byte order of its own is whole bytes after a string, before one. */
static void choose_columns(struct records *r)
{
	r->align = 8;
	for (int c = 0; c < N_COLUMNS; c++) {
		struct column *k = &r->cols[c];

		*k = (struct column){.bits = 1 + (unsigned int)rand_r(&r->seed) % 64,
				     .align = 1u << rand_r(&r->seed) % 7,
				     .is_signed = rand_r(&r->seed) & 1,
				     .string = c % 3 == 2 && rand_r(&r->seed) & 1,
				     .be = r->be};
		if (rand_r(&r->seed) & 1)
			k->bits = 8u << rand_r(&r->seed) % 4;
		if (k->string)
			k->align = 8;
		r->align = k->align > r->align ? k->align : r->align;
	}
	for (int c = 1; c + 1 < N_COLUMNS; c++) {
		struct column *k = &r->cols[c];

		if (r->cols[c - 1].string && r->cols[c + 1].align >= 8 && k->bits % 8 == 0 &&
		    !k->string && k->align >= 8)
			k->be = rand_r(&r->seed) & 1;
	}
}

static void describe_columns(const struct records *r, const struct dir *d)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	rut_buf_puts(&text, "event { id = 0; name = e; fields := struct {\n");
	for (int c = 0; c < N_COLUMNS; c++) {
		const struct column *k = &r->cols[c];

		if (k->string)
			rut_buf_printf(&text, "string f%d;\n", c);
		else
			rut_buf_printf(&text,
				       "integer { size = %u; align = %u; signed = %d; byte_order = "
				       "%s; } f%d;\n",
				       k->bits, k->align, k->is_signed, k->be ? "be" : "le", c);
	}
	rut_buf_puts(&text, "}; };\n");
	put_metadata(d, r->be, text.data);
}

static uint64_t write_column(struct records *r, struct rut_ctf_writer *w, const struct column *k)
{
	uint64_t v = (uint64_t)rand_r(&r->seed) << 40 ^ (uint64_t)rand_r(&r->seed) << 20 ^
		     (uint64_t)rand_r(&r->seed);
	char s[16];

	if (k->string) {
		v %= 1000000;
		snprintf(s, sizeof(s), "%" PRIu64, v);
		rut_ctf_writer_string(w, s);
		return v;
	}
	w->big_endian = k->be;
	rut_ctf_writer_put(w, v, k->bits, k->align);
	w->big_endian = r->be;
	if (k->bits < 64) {
		v &= ((uint64_t)1 << k->bits) - 1;
		if (k->is_signed && v >> (k->bits - 1))
			v |= ~(uint64_t)0 << k->bits;
	}
	return v;
}

static void write_records(struct records *r, const struct dir *d)
{
	struct rut_ctf_writer w;
	struct packet p;

	assert_int_equal(rut_ctf_writer_open(&w, in_dir(d, "s"), r->be, NULL), 0);
	begin_packet(&w, &p, 1000, 2000, 0, 0, 3);
	for (int i = 0; i < N_RECORDS; i++) {
		put_header(&w, 0, 1000 + (uint64_t)i);
		rut_ctf_writer_align(&w, r->align);
		for (int c = 0; c < N_COLUMNS; c++)
			r->values[i][c] = write_column(r, &w, &r->cols[c]);
	}
	end_packet(&w, &p, 0);
	assert_int_equal(rut_ctf_writer_close(&w), 0);
}

/* By reference, and by a walk in order. */
static void check_record(const struct records *r, int i, const struct rut_ctf_event *ev,
			 const struct rut_ctf_ref *refs)
{
	const struct rut_ctf_type *t;
	struct rut_ctf_iter it;

	assert_non_null(ev);
	assert_int_equal(ev->ts_ns, 100000001000 + i);
	assert_int_equal(ev->cpu, 3);
	t = rut_ctf_iter_init(&it, ev, RUT_CTF_SCOPE_PAYLOAD);
	assert_int_equal(rut_ctf_iter_enter(&it, t), N_COLUMNS);
	for (int c = 0; c < N_COLUMNS; c++) {
		struct rut_ctf_value v;
		const char *s;
		size_t len;

		rut_ctf_iter_value(&it, t->fields[c].type, &v);
		if (!r->cols[c].string) {
			assert_int_equal(rut_ctf_u64(ev, &refs[c]), r->values[i][c]);
			assert_int_equal(v.u, r->values[i][c]);
			continue;
		}
		s = rut_ctf_str(ev, &refs[c], &len);
		assert_int_equal(strtoull(s, NULL, 10), r->values[i][c]);
		assert_ptr_equal(s, v.str);
		assert_int_equal(len, v.len);
	}
}

static void random_records(unsigned int seed, bool be)
{
	static struct records rec;
	struct rut_ctf_ref refs[N_COLUMNS];
	struct rut_ctf_reader *r;
	struct rut_ctf_set *set;
	struct dir d;

	rec = (struct records){.be = be, .seed = seed};
	make_dir(&d);
	choose_columns(&rec);
	describe_columns(&rec, &d);
	write_records(&rec, &d);
	set = open_dir(&d);
	assert_int_equal(rut_ctf_set_n_classes(set), 1);
	for (int c = 0; c < N_COLUMNS; c++) {
		char name[8];

		snprintf(name, sizeof(name), "f%d", c);
		assert_true(rut_ctf_ref_find(rut_ctf_set_class(set, 0), RUT_CTF_SCOPE_ANY, name,
					     &refs[c]));
	}
	r = open_reader(set, NULL);
	for (int i = 0; i < N_RECORDS; i++)
		check_record(&rec, i, rut_ctf_reader_next(r), refs);
	assert_null(rut_ctf_reader_next(r));
	rut_ctf_reader_free(r);
	rut_ctf_set_free(set);
	remove_dir(&d);
}

static void test_random_records_come_back(void **state)
{
	for (unsigned int i = 0; i < 40; i++) {
		random_records(i, false);
		random_records(i, true);
	}
}

/* Against the corpora and, where they are, the real traces. */
static void test_short_paths_agree_with_the_general_decoder(void **state)
{
	static const char *const traces[] = {
		"tests/data/ctf/succeed/lttng-compact-le", "tests/data/ctf/succeed/lttng-large-le",
		"tests/data/ctf/succeed/lttng-compact-be", "tests/data/ctf/succeed/types-le",
		"tests/data/ctf/succeed/ctf2-compact",	   "tests/data/ctf/succeed/ctf2",
		"tests/data/ctf/succeed/word-le",	   "tests/data/ctf/succeed/word-be",
		"tests/data/ctf/succeed/streams",	   "tests/data/ctf/succeed/slow-clock",
	};
	const char *src = getenv("SRC");

	assert_non_null(src);
	for (size_t i = 0; i < sizeof(traces) / sizeof(*traces); i++) {
		struct rut_ctf_reader_opts general = {.general = true};
		_cleanup_free_ char *path = NULL, *a = NULL, *b = NULL;
		struct rut_ctf_set *set;

		assert_true(asprintf(&path, "%s/%s", src, traces[i]) > 0);
		assert_int_equal(rut_ctf_set_open(&set, (const char *const *)&path, 1, NULL, NULL),
				 0);
		a = print_all(set, NULL);
		b = print_all(set, &general);
		assert_string_equal(a, b);
		assert_true(strlen(a) > 500);
		rut_ctf_set_free(set);
	}
}

static void test_metadata_in_packets_says_the_same(void **state)
{
	static const uint8_t uuid[16] = {1, 2, 3};
	char text[4096];
	struct dir d;

	make_dir(&d);
	for (int be = 0; be < 2; be++)
		for (size_t max = 1; max < 3000; max = max * 7 + 3) {
			_cleanup_buf_ struct rut_buf packed = RUT_BUF_INIT;
			struct rut_ctf_set *set;

			preamble(text, sizeof(text), be);
			strcat(text, "event { id = 7; name = \"seven\"; };");
			rut_ctf_pack_metadata(&packed, text, strlen(text), max, uuid, be);
			put_file(&d, "metadata", packed.data, packed.len);
			set = open_dir(&d);
			assert_int_equal(rut_ctf_set_n_classes(set), 1);
			assert_string_equal(rut_ctf_set_class(set, 0)->name, "seven");
			assert_int_equal(rut_ctf_set_trace(set, 0)->big_endian, be);
			rut_ctf_set_free(set);
		}
	remove_dir(&d);
}

static void test_streams_merge_seek_and_choose(void **state)
{
	struct rut_ctf_reader_opts range = {.has_begin = true,
					    .has_end = true,
					    .begin_ns = 100000050505,
					    .end_ns = 100000060612};
	int64_t begin, end, last = 0;
	const struct rut_ctf_event *ev;
	struct rut_ctf_counts counts;
	struct rut_ctf_reader *r;
	struct rut_ctf_set *set;
	struct rut_ctf_ref ref;
	struct dir d;
	int n = 0;

	make_dir(&d);
	write_streams(&d, 3, 5000); /* more packets than marks */
	set = open_dir(&d);
	assert_int_equal(rut_ctf_set_n_streams(set), 3);
	assert_int_equal(rut_ctf_set_range(set, &begin, &end), 0);
	assert_int_equal(begin, 100000001000);
	assert_int_equal(end, 100000500999);
	assert_int_equal(rut_ctf_set_intersection(set, &begin, &end), 0);
	assert_int_equal(rut_ctf_set_stream(set, 1)->packets, 5000);

	r = open_reader(set, NULL);
	while ((ev = rut_ctf_reader_next(r))) {
		assert_true(ev->ts_ns >= last);
		last = ev->ts_ns;
		n++;
	}
	assert_int_equal(n, 150000);
	rut_ctf_reader_counts(r, &counts);
	assert_int_equal(counts.events, 150000);
	assert_int_equal(counts.packets, 15000);
	assert_int_equal(counts.errors + counts.discarded + counts.lost_packets, 0);
	assert_int_equal(counts.bytes_done, rut_ctf_set_bytes(set));
	rut_ctf_reader_free(r);

	/* Every event of the range, and few packets more than it has. */
	r = open_reader(set, &range);
	for (n = 0; (ev = rut_ctf_reader_next(r)); n++) {
		assert_true(ev->ts_ns >= range.begin_ns && ev->ts_ns <= range.end_ns);
		if (!n)
			assert_int_equal(ev->ts_ns, 100000050510);
	}
	assert_int_equal(n, 3033); /* 1010 of each stream, and 610, 611, 612 */
	rut_ctf_reader_counts(r, &counts);
	assert_true(counts.packets < 320);
	assert_int_equal(counts.discarded + counts.lost_packets, 0);
	assert_int_equal(rut_ctf_reader_seek(r, 100000500990, NULL), 0);
	rut_ctf_reader_free(r);

	r = open_reader(set, NULL);
	rut_ctf_reader_want(r, rut_ctf_set_class(set, 1));
	assert_true(rut_ctf_ref_find(rut_ctf_set_class(set, 1), RUT_CTF_SCOPE_ANY, "v", &ref));
	assert_false(rut_ctf_ref_find(rut_ctf_set_class(set, 0), RUT_CTF_SCOPE_ANY, "s", &ref));
	for (n = 0; (ev = rut_ctf_reader_next(r)); n++)
		assert_string_equal(ev->cls->name, "odd");
	assert_int_equal(n, 75000);
	rut_ctf_reader_free(r);
	rut_ctf_set_free(set);
	remove_dir(&d);
}

/* Packets that all begin at the time that is looked for: none may be passed by. */
static void test_seek_to_packets_of_one_time(void **state)
{
	struct rut_ctf_reader_opts from = {.has_begin = true, .begin_ns = 100000001000};
	struct rut_ctf_reader *r;
	struct rut_ctf_set *set;
	struct rut_ctf_writer w;
	struct dir d;
	int n = 0;

	make_dir(&d);
	put_metadata(&d, false, "event { id = 0; name = one; fields := struct { u64 v; }; };\n");
	assert_int_equal(rut_ctf_writer_open(&w, in_dir(&d, "s"), false, NULL), 0);
	for (uint64_t i = 0; i < 4; i++) {
		struct packet p;

		begin_packet(&w, &p, 1000, i == 3 ? 2000 : 1000, 0, i, 0);
		if (i == 1 || i == 2) {
			put_header(&w, 0, 1000);
			rut_ctf_writer_put(&w, i, 64, 8);
		}
		end_packet(&w, &p, 512);
	}
	assert_int_equal(rut_ctf_writer_close(&w), 0);
	set = open_dir(&d);
	r = open_reader(set, &from);
	while (rut_ctf_reader_next(r))
		n++;
	assert_int_equal(n, 2);
	rut_ctf_reader_free(r);
	rut_ctf_set_free(set);
	remove_dir(&d);
}

/* ---- Reading ahead ---- */

static void note_loss(const struct rut_ctf_loss *loss, void *arg)
{
	char text[600];

	rut_ctf_loss_text(loss, text, sizeof(text));
	rut_buf_printf(arg, "%s\n", text);
}

static void note_error(const char *msg, void *arg)
{
	rut_buf_printf(arg, "%s\n", msg);
}

/* Everything that a reader gives, in the order it comes: events, losses, errors, counts. */
static char *read_all(struct rut_ctf_set *set, bool ahead, bool choosy)
{
	struct rut_ctf_text_opts topts = {
		.names = 3, .clock = RUT_CTF_CLOCK_SECONDS, .no_delta = true};
	struct rut_buf out = RUT_BUF_INIT;
	struct rut_ctf_reader_opts opts = {
		.ahead = ahead, .on_loss = note_loss, .on_error = note_error, .arg = &out};
	struct rut_ctf_reader *r = open_reader(set, &opts);
	const struct rut_ctf_event *ev;
	struct rut_ctf_counts counts;
	struct rut_ctf_text *text;
	int64_t mark_ns = INT64_MIN;

	assert_int_equal(rut_ctf_text_new(&text, set, &topts, NULL), 0);
	if (choosy) {
		rut_ctf_reader_want(r, rut_ctf_set_class(set, 0));
		rut_ctf_reader_mark(r, mark_ns);
	}
	while ((ev = rut_ctf_reader_next(r))) {
		rut_ctf_text_event(text, ev, &out);
		if (choosy && ev->ts_ns >= mark_ns) {
			mark_ns = ev->ts_ns + 1000;
			rut_ctf_reader_mark(r, mark_ns);
		}
	}
	assert_null(rut_ctf_reader_next(r));
	rut_ctf_reader_counts(r, &counts);
	rut_buf_printf(&out, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 "\n",
		       counts.events, counts.packets, counts.errors, counts.bytes_done,
		       rut_ctf_reader_last_ns(r));
	rut_ctf_text_free(text);
	rut_ctf_reader_free(r);
	assert_false(out.failed);
	return rut_buf_take(&out);
}

static void check_ahead(struct rut_ctf_set *set, size_t least)
{
	for (int choosy = 0; choosy < 2; choosy++) {
		_cleanup_free_ char *a = read_all(set, false, choosy);
		_cleanup_free_ char *b = read_all(set, true, choosy);

		assert_true(strlen(a) >= least);
		assert_string_equal(a, b);
	}
}

static void test_reading_ahead_changes_nothing(void **state)
{
	static const char *const traces[] = {
		"lttng-compact-le", "lttng-large-le", "types-le",   "ctf2-compact", "ctf2",
		"word-be",	    "streams",	      "slow-clock",
	};

	for (size_t i = 0; i < sizeof(traces) / sizeof(*traces); i++) {
		_cleanup_free_ char *path = NULL;
		struct rut_ctf_set *set;

		assert_true(asprintf(&path, "%s/tests/data/ctf/succeed/%s", getenv("SRC"),
				     traces[i]) > 0);
		assert_int_equal(rut_ctf_set_open(&set, (const char *const *)&path, 1, NULL, NULL),
				 0);
		check_ahead(set, 100);
		rut_ctf_set_free(set);
	}
}

/* More losses between two events than a batch has room for, and an end in the middle. */
static void test_reading_ahead_tells_losses_and_errors_in_their_place(void **state)
{
	static const uint8_t zeros[100];
	struct rut_ctf_set *set;
	struct dir d;
	FILE *f;

	make_dir(&d);
	write_streams(&d, 3, 400);
	for (int s = 0; s < 3; s++) { /* no sequence number follows the one before */
		f = fopen(in_dir(&d, s == 0 ? "s_0" : s == 1 ? "s_1" : "s_2"), "r+");
		assert_non_null(f);
		for (uint64_t i = 0; i < 400; i++) {
			uint64_t seq = i * 3;
			uint32_t content = i % 300 < 150 ? 0x44 * 8 : 0;

			assert_int_equal(fseek(f, (long)(i * 512) + 48, SEEK_SET), 0);
			assert_int_equal(fwrite(&seq, 8, 1, f), 1);
			assert_int_equal(fseek(f, (long)(i * 512) + 24, SEEK_SET), 0);
			if (content) /* no events */
				assert_int_equal(fwrite(&content, 4, 1, f), 1);
		}
		assert_int_equal(fseek(f, 0, SEEK_END), 0);
		assert_int_equal(fwrite(zeros, 1, sizeof(zeros), f), sizeof(zeros));
		assert_int_equal(fclose(f), 0);
	}
	set = open_dir(&d);
	check_ahead(set, 40000);
	rut_ctf_set_free(set);
	remove_dir(&d);
}

static void test_reading_ahead_ends_and_seeks_at_any_time(void **state)
{
	struct rut_ctf_reader_opts opts = {.ahead = true};
	struct rut_ctf_reader *r;
	struct rut_ctf_set *set;
	struct dir d;

	make_dir(&d);
	write_streams(&d, 3, 2000);
	set = open_dir(&d);
	for (int n = 0; n < 5000; n = n * 3 + 1) {
		r = open_reader(set, &opts);
		for (int i = 0; i < n; i++)
			assert_non_null(rut_ctf_reader_next(r));
		assert_int_equal(rut_ctf_reader_seek(r, 100000050505, NULL), 0);
		for (int i = 0; i < n; i++)
			assert_int_equal(rut_ctf_reader_next(r)->ts_ns,
					 100000050510 + i / 3 * 10 + i % 3);
		rut_ctf_reader_free(r);
	}
	rut_ctf_set_free(set);
	remove_dir(&d);
}

static void put_be64(struct rut_buf *b, uint64_t v)
{
	v = htobe64(v);
	rut_buf_add(b, &v, 8);
}

/* LTTng's index is used when it is right, and not when it is wrong. */
static void test_index_files_are_used_and_checked(void **state)
{
	for (int lie = 0; lie < 3; lie++) {
		_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
		uint32_t head[4] = {htobe32(0xc1f1dcc1), htobe32(1), htobe32(1), htobe32(72)};
		struct rut_ctf_set *set;
		struct dir d;
		int64_t begin, end;

		make_dir(&d);
		write_streams(&d, 1, 20);
		rut_buf_add(&b, head, sizeof(head));
		for (uint64_t i = 0; i < 20; i++) {
			put_be64(&b, 512 * i);
			put_be64(&b, 512 * 8);
			/* 60 bytes before the events, then five of 20 and five of 24 bytes */
			put_be64(&b, 8 * (60 + 5 * 20 + 5 * 24));
			put_be64(&b, 1000 + i * 100);
			/* Only the index has this loss: that shows which was used. */
			put_be64(&b, 1099 + i * 100);
			put_be64(&b, i >= 10 && lie != 2 ? 77 : 0);
			put_be64(&b, 0);
			put_be64(&b, 0);
			put_be64(&b, i);
		}
		if (lie == 1) /* the last packet is missing */
			b.len -= 72;
		assert_int_equal(mkdir(in_dir(&d, "index"), 0777), 0);
		put_file(&d, "index/s_0.idx", b.data, b.len);
		set = open_dir(&d);
		assert_int_equal(rut_ctf_set_range(set, &begin, &end), 0);
		assert_int_equal(begin, 100000001000);
		assert_int_equal(end, 100000002999);
		assert_int_equal(rut_ctf_set_stream(set, 0)->packets, 20);
		assert_int_equal(rut_ctf_set_stream(set, 0)->discarded, lie ? 0 : 77);
		rut_ctf_set_free(set);
		remove_dir(&d);
	}
}

/* Numbers of packets that do not grow are no loss; those that jump are. */
static void test_numbers_of_packets(void **state)
{
	static const struct {
		uint64_t seq[4], lost;
	} cases[] = {
		{{0, 1, 2, 3}, 0}, {{5, 5, 5, 6}, 0},  {{7, 8, 0, 1}, 0},
		{{0, 1, 3, 4}, 1}, {{9, 9, 12, 9}, 2}, {{UINT64_MAX, 0, 1, 3}, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rut_ctf_counts counts;
		struct rut_ctf_reader *r;
		struct rut_ctf_set *set;
		struct rut_buf file = RUT_BUF_INIT;
		int64_t begin, end;
		struct dir d;
		int n = 0;

		make_dir(&d);
		write_streams(&d, 1, 4);
		assert_int_equal(rut_buf_read_file(&file, in_dir(&d, "s_0"), 1 << 20), 0);
		for (size_t k = 0; k < 4; k++)
			memcpy(file.data + 512 * k + 48, &cases[i].seq[k], 8);
		put_file(&d, "s_0", file.data, file.len);
		set = open_dir(&d);
		assert_int_equal(rut_ctf_set_range(set, &begin, &end), 0);
		assert_int_equal(rut_ctf_set_stream(set, 0)->lost_packets, cases[i].lost);
		rut_log_set_sink(keep_log, NULL);
		r = open_reader(set, NULL);
		while (rut_ctf_reader_next(r))
			n++;
		rut_log_set_sink(NULL, NULL);
		rut_ctf_reader_counts(r, &counts);
		assert_int_equal(n, 40);
		assert_int_equal(counts.lost_packets, cases[i].lost);
		rut_ctf_reader_free(r);
		rut_ctf_set_free(set);
		rut_buf_fini(&file);
		remove_dir(&d);
	}
}

static void test_times_are_understood(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = {
		{"2018-03-19 18:39:19.831423009", 1521484759831423009},
		{"2018-03-19T18:39:19", 1521484759000000000},
		{"18:39:19.5", 1521484759500000000},
		{"1521484759.25", 1521484759250000000},
		{"1521484759831423009", 1521484759831423009},
		{"0", 0},
		{"-1.5", -1500000000},
	};
	static const char *const bad[] = {
		"",	     "x", "18:39",	"18:61:00", "1.", "1.2.3", "2018-13-01 00:00:00",
		"12:00:00 ", "-", "99999999999"};
	int64_t ns;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(
			rut_ctf_parse_when(good[i].text, true, 1521484700000000000, &ns, NULL), 0);
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(rut_ctf_parse_when(bad[i], true, 0, &ns, NULL), -EINVAL);
}

static void check_number(uint64_t v)
{
	char expected[40], got[40];

	snprintf(expected, sizeof(expected), "%" PRIu64, v);
	*rut_text_u64(got, v) = '\0';
	assert_string_equal(got, expected);
	snprintf(expected, sizeof(expected), "%" PRId64, (int64_t)v);
	*rut_text_i64(got, (int64_t)v) = '\0';
	assert_string_equal(got, expected);
	snprintf(expected, sizeof(expected), "0x%" PRIX64, v);
	*rut_text_hex(got, v) = '\0';
	assert_string_equal(got, expected);
	snprintf(expected, sizeof(expected), "%09" PRIu64, v % 1000000000);
	*rut_text_nine(got, (uint32_t)(v % 1000000000)) = '\0';
	assert_string_equal(got, expected);
}

static void test_numbers_are_written_as_printf_does(void **state)
{
	uint64_t power = 1;

	(void)state;
	for (uint64_t v = 0; v < 1100; v++)
		check_number(v);
	for (int i = 0; i < 64; i++) {
		check_number((uint64_t)1 << i);
		check_number(((uint64_t)1 << i) - 1);
		check_number(0 - ((uint64_t)1 << i));
	}
	for (int i = 0; i < 20; i++, power *= 10) {
		check_number(power);
		check_number(power - 1);
		check_number(power + 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_records_come_back),
		cmocka_unit_test(test_short_paths_agree_with_the_general_decoder),
		cmocka_unit_test(test_metadata_in_packets_says_the_same),
		cmocka_unit_test(test_streams_merge_seek_and_choose),
		cmocka_unit_test(test_seek_to_packets_of_one_time),
		cmocka_unit_test(test_reading_ahead_changes_nothing),
		cmocka_unit_test(test_reading_ahead_tells_losses_and_errors_in_their_place),
		cmocka_unit_test(test_reading_ahead_ends_and_seeks_at_any_time),
		cmocka_unit_test(test_index_files_are_used_and_checked),
		cmocka_unit_test(test_numbers_of_packets),
		cmocka_unit_test(test_times_are_understood),
		cmocka_unit_test(test_numbers_are_written_as_printf_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
