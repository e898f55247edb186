/* SPDX-License-Identifier: MIT */
/* The ring: what went in comes out, in order, or is counted; from threads and signal handlers. */
#include "ring/read.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>

#include "base/err.h"

struct record {
	uint64_t header;
	uint64_t producer;
	uint64_t seq;
	uint8_t fill[13];
} __attribute__((packed));

struct fixture {
	struct rut_ring ring;
	struct rut_ring_ctl *ctl;
	void *data;
};

static void setup_ring(struct fixture *f, enum rut_ring_mode mode, uint32_t count)
{
	assert_int_equal(posix_memalign((void **)&f->ctl, 4096, sizeof(*f->ctl)), 0);
	memset(f->ctl, 0, sizeof(*f->ctl));
	f->data = calloc(count, 4096);
	assert_non_null(f->data);
	assert_int_equal(rut_ring_init(&f->ring, f->ctl, f->data, mode, 12, count), 0);
}

static void teardown_ring(struct fixture *f)
{
	free(f->ctl);
	free(f->data);
}

static bool put(const struct rut_ring *r, uint64_t producer, uint64_t seq)
{
	uint64_t ns, pos;
	struct record *p = rut_ring_reserve(r, sizeof(*p), rut_ring_clock, &ns, &pos);

	if (!p)
		return false;
	p->header = RUT_RECORD_HEADER(7, ns);
	p->producer = producer;
	p->seq = seq;
	memset(p->fill, (int)seq, sizeof(p->fill));
	rut_ring_commit(r, pos, sizeof(*p));
	return true;
}

/* Checks one packet; every record is handed to `next` (the expected sequence of each producer). */
static int check_packet(const unsigned char *data, uint64_t *next, int producers, bool gaps)
{
	const struct rut_packet *p = (const struct rut_packet *)data;
	uint64_t last = p->timestamp_begin & ((1ull << 48) - 1);
	int n = 0;

	assert_int_equal(p->magic, RUT_CTF_PACKET_MAGIC);
	assert_int_equal(p->packet_size, 4096 * 8);
	assert_true(p->content_size <= p->packet_size);
	assert_true(p->timestamp_end >= p->timestamp_begin);
	for (size_t off = sizeof(*p); off < p->content_size / 8; off += sizeof(struct record)) {
		struct record rec;

		memcpy(&rec, data + off, sizeof(rec));
		assert_int_equal(rec.header & 0xffff, 7);
		assert_true(rec.header >> 16 >= last);
		last = rec.header >> 16;
		assert_true(rec.producer < (uint64_t)producers);
		if (gaps)
			assert_true(rec.seq >= next[rec.producer]);
		else
			assert_int_equal(rec.seq, next[rec.producer]);
		next[rec.producer] = rec.seq + 1;
		for (size_t i = 0; i < sizeof(rec.fill); i++)
			assert_int_equal(rec.fill[i], (uint8_t)rec.seq);
		n++;
	}
	assert_true(last <= (p->timestamp_end & ((1ull << 48) - 1)));
	return n;
}

static void test_in_order(void **state)
{
	struct fixture f;
	uint64_t next[1] = {0}, pos = 0;
	int n = 0;

	setup_ring(&f, RUT_RING_DISCARD, 4);
	for (uint64_t i = 0; i < 300; i++)
		assert_true(put(&f.ring, 0, i));
	assert_true(rut_ring_flush(&f.ring));
	assert_false(rut_ring_flush(&f.ring));
	for (const unsigned char *p; (p = rut_ring_next(&f.ring, &pos)); pos += 4096)
		n += check_packet(p, next, 1, false);
	assert_int_equal(n, 300);
	assert_int_equal(f.ctl->lost, 0);
	assert_int_equal(rut_ring_records(&f.ring), 300);
	teardown_ring(&f);
}

static void test_discard_counts(void **state)
{
	struct fixture f;
	uint64_t next[1] = {0}, pos = 0, kept = 0, seen = 0, discarded = 0;

	setup_ring(&f, RUT_RING_DISCARD, 2);
	for (uint64_t i = 0; i < 1000; i++)
		kept += put(&f.ring, 0, i);
	assert_int_equal(kept + f.ctl->lost, 1000);
	assert_true(f.ctl->lost > 0);
	/* Room again: recording continues, and the next packet that closes reports the loss. */
	for (const unsigned char *p; (p = rut_ring_next(&f.ring, &pos)); pos += 4096) {
		seen += (uint64_t)check_packet(p, next, 1, false);
		rut_ring_release(&f.ring, pos + 4096);
	}
	for (uint64_t i = 1000; i < 1100; i++)
		kept += put(&f.ring, 0, i);
	rut_ring_flush(&f.ring);
	for (const unsigned char *p; (p = rut_ring_next(&f.ring, &pos)); pos += 4096) {
		uint64_t n = (uint64_t)check_packet(p, next, 1, true);

		assert_int_equal(rut_ring_packet_records(&f.ring, pos), n);
		seen += n;
		discarded = ((const struct rut_packet *)p)->events_discarded;
		rut_ring_release(&f.ring, pos + 4096);
	}
	assert_int_equal(seen, kept);
	assert_int_equal(discarded, f.ctl->lost);
	assert_int_equal(seen + discarded, 1100);
	assert_int_equal(rut_ring_records(&f.ring), kept);
	teardown_ring(&f);
}

static struct rut_ring *g_nest; /* the next clock is interrupted by a producer of this ring */

static uint64_t interrupted_clock(void)
{
	struct rut_ring *r = g_nest;

	g_nest = NULL;
	if (r)
		assert_true(put(r, 1, 0));
	return rut_ring_clock();
}

/* A producer that is interrupted by one that enters the next sub-buffer has room there, too. */
static void test_interrupted_at_the_end(void **state)
{
	struct fixture f;
	uint64_t ns, pos, n = 0;

	setup_ring(&f, RUT_RING_DISCARD, 4);
	while (!f.ctl->pos || (f.ctl->pos & 4095) + sizeof(struct record) <= 4095)
		assert_true(put(&f.ring, 0, n++));
	g_nest = &f.ring;
	assert_non_null(
		rut_ring_reserve(&f.ring, sizeof(struct record), interrupted_clock, &ns, &pos));
	rut_ring_commit(&f.ring, pos, sizeof(struct record));
	assert_null(g_nest);
	assert_int_equal(f.ctl->lost, 0);
	teardown_ring(&f);
}

static void test_overwrite_keeps_newest(void **state)
{
	struct fixture f;
	uint64_t next[1] = {0}, seen = 0;
	unsigned char copy[4096];

	setup_ring(&f, RUT_RING_OVERWRITE, 4);
	for (uint64_t i = 0; i < 10000; i++)
		assert_true(put(&f.ring, 0, i));
	rut_ring_flush(&f.ring);
	for (uint64_t pos = rut_ring_oldest(&f.ring); !rut_ring_copy(&f.ring, pos, copy);
	     pos += 4096)
		seen += (uint64_t)check_packet(copy, next, 1, true);
	assert_int_equal(next[0], 10000);
	/* Four full sub-buffers but for the one that was flushed early. */
	assert_true(seen > 3 * (4096 - 88) / sizeof(struct record) - 3);
	assert_int_equal(rut_ring_copy(&f.ring, 0, copy), -ESTALE);
	assert_int_equal(rut_ring_copy(&f.ring, f.ctl->pos, copy), -EAGAIN);
	assert_int_equal(f.ctl->lost, 0);
	teardown_ring(&f);
}

static struct rut_ring *g_ring;
static _Atomic uint64_t g_signals, g_kept;

static void on_signal(int sig)
{
	if (put(g_ring, 2, g_signals))
		g_kept++;
	g_signals++;
}

struct worker {
	pthread_t thread;
	uint64_t id, kept;
	uint64_t count;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	for (uint64_t i = 0; i < w->count; i++)
		w->kept += put(g_ring, w->id, i);
	return NULL;
}

/* Two threads, a signal handler and a consumer at once: nothing lost that is not counted. */
static void test_concurrent(void **state)
{
	struct fixture f;
	struct worker w[2] = {{.id = 0, .count = 200000}, {.id = 1, .count = 200000}};
	struct itimerval it = {{0, 500}, {0, 500}}, off = {0};
	uint64_t next[3] = {0}, pos = 0, seen = 0, total;
	bool done = false;

	setup_ring(&f, RUT_RING_DISCARD, 8);
	g_ring = &f.ring;
	signal(SIGALRM, on_signal);
	setitimer(ITIMER_REAL, &it, NULL);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	for (int joined = 0;;) {
		const unsigned char *p = rut_ring_next(&f.ring, &pos);

		if (p) {
			seen += (uint64_t)check_packet(p, next, 3, true);
			pos += 4096;
			rut_ring_release(&f.ring, pos);
		} else if (done) {
			break;
		} else if (joined < 2 && !pthread_tryjoin_np(w[joined].thread, NULL)) {
			joined++;
		} else if (joined == 2) {
			setitimer(ITIMER_REAL, &off, NULL);
			rut_ring_flush(&f.ring);
			done = true;
		}
	}
	total = w[0].count + w[1].count + g_signals;
	assert_int_equal(seen, w[0].kept + w[1].kept + g_kept);
	assert_int_equal(seen + f.ctl->lost, total);
	assert_true(g_signals > 0);
	teardown_ring(&f);
}

static void test_refuses_damage(void **state)
{
	struct fixture f;
	struct rut_ring r;
	struct rut_err err = RUT_ERR_INIT;

	setup_ring(&f, RUT_RING_DISCARD, 4);
	assert_int_equal(rut_ring_open_ctl(&r, f.ctl, f.data, 4 * 4096, &err), 0);
	assert_int_equal(rut_ring_open_ctl(&r, f.ctl, f.data, 3 * 4096, &err), -EINVAL);
	f.ctl->subbuf_count = 3;
	assert_int_equal(rut_ring_open_ctl(&r, f.ctl, f.data, 4 * 4096, &err), -EINVAL);
	f.ctl->subbuf_count = 4;
	f.ctl->subbuf_shift = 63;
	assert_int_equal(rut_ring_open_ctl(&r, f.ctl, f.data, 4 * 4096, &err), -EINVAL);
	f.ctl->magic++;
	assert_int_equal(rut_ring_open_ctl(&r, f.ctl, f.data, 4 * 4096, &err), -EPROTO);
	teardown_ring(&f);
}

/* A watcher sees every record once, also of packets that are being written; or how many laps are
 * missing. */
static void test_tail(void **state)
{
	struct fixture f;
	_Alignas(8) unsigned char buf[4096];
	const struct rut_packet *p = (const void *)buf;
	uint64_t pos = 0, next = 0, seq = 0, last = 0;
	bool lapped = false;

	setup_ring(&f, RUT_RING_OVERWRITE, 4);
	for (int round = 0; round < 2000; round++) {
		/* Now and then more than the ring holds. */
		int n = round % 400 == 399 ? 1000 : round % 7, rc;
		uint64_t before;

		for (int i = 0; i < n; i++)
			assert_true(put(&f.ring, 0, seq++));
		if (round % 50 == 0)
			rut_ring_flush(&f.ring);
		do {
			before = pos;
			rc = rut_ring_tail(&f.ring, &pos, (struct rut_packet *)buf);
			lapped |= rc == -ESTALE;
			assert_true(rc >= 0 || rc == -ESTALE);
			for (size_t off = sizeof(*p); rc > 0 && off < (size_t)rc;
			     off += sizeof(struct record)) {
				struct record rec;

				memcpy(&rec, buf + off, sizeof(rec));
				assert_true(lapped ? rec.seq > next : rec.seq == next);
				if (off == sizeof(*p)) {
					assert_true(p->timestamp_begin >= last);
					last = p->timestamp_begin;
					assert_int_equal(rec.header >> 16,
							 last & ((1ull << 48) - 1));
				}
				lapped = false;
				next = rec.seq + 1;
			}
			assert_int_equal(rc > 0 ? p->content_size : 0, rc > 0 ? rc * 8 : 0);
		} while (pos != before);
		assert_int_equal(next, seq);
	}
	teardown_ring(&f);
}

/* A record that is reserved and not stored yet is waited for. */
static void test_tail_waits(void **state)
{
	struct fixture f;
	_Alignas(8) unsigned char buf[4096];
	uint64_t pos = 0, ns, at;
	struct record *rec;

	setup_ring(&f, RUT_RING_DISCARD, 4);
	assert_true(put(&f.ring, 0, 0));
	rec = rut_ring_reserve(&f.ring, sizeof(*rec), rut_ring_clock, &ns, &at);
	assert_true(put(&f.ring, 0, 2));
	assert_int_equal(rut_ring_tail(&f.ring, &pos, (struct rut_packet *)buf), -EAGAIN);
	assert_int_equal(pos, 0);
	rec->header = RUT_RECORD_HEADER(7, ns);
	rut_ring_commit(&f.ring, at, sizeof(*rec));
	assert_int_equal(rut_ring_tail(&f.ring, &pos, (struct rut_packet *)buf),
			 sizeof(struct rut_packet) + 3 * sizeof(*rec));
	assert_int_equal(rut_ring_tail(&f.ring, &pos, (struct rut_packet *)buf), 0);
	teardown_ring(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order),
		cmocka_unit_test(test_discard_counts),
		cmocka_unit_test(test_interrupted_at_the_end),
		cmocka_unit_test(test_overwrite_keeps_newest),
		cmocka_unit_test(test_concurrent),
		cmocka_unit_test(test_refuses_damage),
		cmocka_unit_test(test_tail),
		cmocka_unit_test(test_tail_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
