/* SPDX-License-Identifier: MIT */
/* A target that writes into the shared tables and rings while the tracer reads them. */
#include "ruby/drain.h"
#include "ruby/events.h"
#include "ruby/rows.h"
#include "ruby/table.h"
#include "ruby/tracee.h"
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/event.h"
#include "base/clock.h"
#include "ring/read.h"
#include "ring/ring.h"
#include "ring/write.h"
#include "ruby/core.h"

enum { PAGE = 4096, SUBBUFS = 4, RING_BYTES = (1 + SUBBUFS) * PAGE, TABLE_BYTES = 4 * PAGE };

static unsigned char *ring, *table;
static _Atomic bool stop;
static size_t sum;

static void fill(void)
{
	struct rut_ring_ctl *c = (void *)ring;
	struct rut_agent_table *t = (void *)table;

	c->version = RUT_RING_VERSION;
	c->mode = RUT_RING_DISCARD;
	c->subbuf_shift = 12;
	c->subbuf_count = SUBBUFS;
	c->magic = RUT_RING_MAGIC;
	c->pos = SUBBUFS * PAGE;
	c->consumed = 0;
	for (int i = 0; i < SUBBUFS; i++) {
		struct rut_packet *p = (void *)(ring + PAGE + i * PAGE);
		unsigned char *at = (void *)(p + 1);

		c->commit[i] = PAGE;
		p->magic = RUT_CTF_PACKET_MAGIC;
		p->content_size = PAGE * 8;
		for (int n = 0; n < 100; n++, at += sizeof(struct rut_event_common)) {
			struct rut_event_common *e = (void *)at;

			e->header = RUT_RECORD_HEADER(1 + n % 5, n);
			e->row = (uint32_t)n % 32;
		}
	}
	*t = (struct rut_agent_table){
		.magic = RUT_TABLE_MAGIC, .row_count = 32, .strs_off = 3 * PAGE};
	for (int i = 0; i < 32; i++)
		((struct rut_agent_row *)(table + PAGE))[i] =
			(struct rut_agent_row){.calls = 1,
					       .class_name = 8 + 8 * (uint32_t)(i % 4),
					       .method = 8,
					       .path = 16,
					       .flags = RUT_ROW_NAMED};
	for (uint32_t i = 0; i < 8; i++)
		memcpy(table + 3 * PAGE + 8 + i * 8, "\3\0\0\0App", 8);
}

/* Figures of the control page, of packets, of rows and of strings, large, small and odd. */
static void *scribble(void *arg)
{
	uint64_t x = 88172645463325252ull;

	while (!stop) {
		static const uint64_t odd[] = {0,    1,		 7,	     4095,
					       4096, 1ull << 31, UINT64_MAX, 1ull << 63};
		unsigned char *at;
		uint64_t value;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		value = x & 1 ? odd[x >> 1 & 7] : x;
		at = x & 8 ? ring + (x >> 8) % (RING_BYTES - 8)
			   : table + (x >> 8) % (TABLE_BYTES - 8);
		/* Not the sizes, which are read once; but often the positions. */
		if (at >= ring && at < ring + 64)
			at = ring + 64 + (x >> 20 & 7) * 8;
		memcpy(at, &value, x & 16 ? 8 : 4);
		if (!(x >> 40 & 0xff))
			fill();
	}
	return NULL;
}

static void on_event(const struct rut_ruby_event *ev, void *arg)
{
	sum += ev->class_name ? strlen(ev->class_name) : 1;
	sum += ev->path ? strlen(ev->path) : 0;
	sum += ev->args ? strlen(ev->args) : 0;
	for (size_t i = 0; i < ev->caller_count; i++)
		sum += ev->callers[i].class_name ? strlen(ev->callers[i].class_name) : 0;
}

static void test_scribbler(void **state)
{
	int fd = memfd_create("shared", MFD_CLOEXEC);
	struct rut_tracee p = {.ctl_fd = -1, .pidfd = -1, .table_bytes = TABLE_BYTES};
	struct rut_tracee *tracees[1] = {&p};
	struct rut_tracer t = {.tracees = tracees, .count = 1, .on_event = on_event};
	pthread_t thread;

	assert_int_equal(ftruncate(fd, RING_BYTES), 0);
	ring = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	table = aligned_alloc(PAGE, TABLE_BYTES);
	assert_true(ring != MAP_FAILED && table);
	memset(table, 0, TABLE_BYTES);
	fill();
	p.table = (void *)table;
	assert_int_equal(rut_events_open_at(&p, fd, 0, RING_BYTES, NULL), 0);
	/* Undisturbed it is read: 4 packets of at least the 20 calls among the first records. */
	assert_int_equal(rut_events_round(&t, NULL), 0);
	assert_true(sum >= 4 * 3);
	assert_int_equal(pthread_create(&thread, NULL, scribble, NULL), 0);
	for (int i = 0; i < 3000; i++) {
		const struct rut_ruby_row *rows;
		size_t n;

		rut_events_round(&t, NULL);
		assert_int_equal(rut_tracer_rows(&t, &rows, &n, NULL), 0);
		for (size_t k = 0; k < n; k++)
			sum += rows[k].path ? strlen(rows[k].path) : 0;
		if (i % 16 == 0)
			rut_tracer_reset(&t);
	}
	stop = true;
	pthread_join(thread, NULL);
	rut_events_close(&p);
	free(p.names);
	free(p.base);
	free(t.rows);
	rut_strtab_fini(&t.strings);
	munmap(ring, RING_BYTES);
	free(table);
	close(fd);
}

static size_t calls;
static uint64_t lost, last_ns;

static void count_event(const struct rut_ruby_event *ev, void *arg)
{
	if (ev->type == RUT_RUBY_EVENT_LOST) {
		lost += ev->lost;
		return;
	}
	calls++;
	assert_true(ev->time_ns >= last_ns);
	last_ns = ev->time_ns;
}

/* An hour from now: its clock is ahead, or it says so. Its packets are not kept until then. */
static void test_times_ahead(void **state)
{
	int fd = memfd_create("ahead", MFD_CLOEXEC);
	struct rut_tracee p = {.ctl_fd = -1, .pidfd = -1, .table_bytes = TABLE_BYTES};
	struct rut_tracee *tracees[1] = {&p};
	struct rut_tracer t = {.tracees = tracees, .count = 1, .on_event = count_event};

	assert_int_equal(ftruncate(fd, RING_BYTES), 0);
	ring = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	table = aligned_alloc(PAGE, TABLE_BYTES);
	assert_true(ring != MAP_FAILED && table);
	memset(table, 0, TABLE_BYTES);
	fill();
	p.table = (void *)table;
	assert_int_equal(rut_events_open_at(&p, fd, 0, RING_BYTES, NULL), 0);
	calls = 0;
	for (int round = 1; round <= 100; round++) {
		uint64_t ns = rut_now_ns() + 3600000000000ull;

		fill();
		for (int i = 0; i < SUBBUFS; i++) {
			struct rut_packet *packet = (void *)(ring + PAGE + i * PAGE);
			struct rut_event_common *e = (void *)(packet + 1);

			packet->timestamp_begin = ns;
			e->header = RUT_RECORD_HEADER(RUT_EVENT_ID_CALL, ns);
			packet->content_size = (sizeof(*packet) + sizeof(*e)) * 8;
		}
		assert_int_equal(rut_events_round(&t, NULL), 0);
		assert_int_equal(calls, round * SUBBUFS);
	}
	rut_events_close(&p);
	free(p.names);
	rut_strtab_fini(&t.strings);
	munmap(ring, RING_BYTES);
	free(table);
	close(fd);
}

/* The ring of a script's process, which has no table. Returns the file's descriptor. */
static int open_ring(struct rut_tracee *p, struct rut_ring *r)
{
	int fd = memfd_create("ring", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, RING_BYTES), 0);
	ring = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(ring != MAP_FAILED);
	assert_int_equal(rut_ring_init(r, (void *)ring, ring + PAGE, RUT_RING_DISCARD, 12, SUBBUFS),
			 0);
	assert_int_equal(rut_events_open_at(p, fd, 0, RING_BYTES, NULL), 0);
	return fd;
}

static void close_ring(struct rut_tracee *p, int fd)
{
	rut_events_close(p);
	munmap(ring, RING_BYTES);
	close(fd);
}

/* Writes a hit, to be committed; `at_ns` 0: of now. Returns its position. */
static uint64_t put_hit(struct rut_ring *r, uint64_t at_ns)
{
	uint64_t ns = 0, pos = 0;
	struct rut_event_hit *e = rut_ring_reserve(r, sizeof(*e), rut_ring_clock, &ns, &pos);

	assert_non_null(e);
	*e = (struct rut_event_hit){
		.c.header = RUT_RECORD_HEADER(RUT_EVENT_ID_HIT, at_ns ? at_ns : ns)};
	return pos;
}

/* Killed while it wrote the last of 11 records. */
static void test_unfinished_record(void **state)
{
	struct rut_tracee p = {.ctl_fd = -1, .pidfd = -1};
	struct rut_tracee *tracees[1] = {&p};
	struct rut_tracer t = {.tracees = tracees,
			       .count = 1,
			       .on_event = count_event,
			       .config.mode = RUT_RUBY_SCRIPT};
	struct rut_ring r;
	int fd = open_ring(&p, &r);
	uint64_t pos = 0;

	last_ns = 0;
	for (int i = 0; i <= 10; i++) {
		pos = put_hit(&r, 0);
		if (i < 10)
			rut_ring_commit(&r, pos, sizeof(struct rut_event_hit));
	}
	calls = lost = 0;
	assert_int_equal(rut_events_round(&t, NULL), 0);
	rut_events_left(&t, &p);
	assert_int_equal(calls, 0);
	assert_int_equal(lost, 11);
	rut_ring_commit(&r, pos, sizeof(struct rut_event_hit));
	lost = 0;
	assert_int_equal(rut_events_round(&t, NULL), 0);
	rut_events_left(&t, &p);
	assert_int_equal(calls, 11);
	assert_int_equal(lost, 0);
	close_ring(&p, fd);
}

/* It has told of an hour ago, and lets a record wait that it never ends. */
static void test_never_finished(void **state)
{
	struct rut_tracee p = {.ctl_fd = -1, .pidfd = -1};
	struct rut_tracee *tracees[1] = {&p};
	struct rut_tracer t = {.tracees = tracees,
			       .count = 1,
			       .on_event = count_event,
			       .config.mode = RUT_RUBY_SCRIPT};
	const uint64_t old = rut_now_ns() - 3600000000000ull, second = 1000000000;
	struct rut_ring r;
	int fd = open_ring(&p, &r);

	last_ns = calls = 0;
	for (int i = 0; i < 2; i++) {
		uint64_t pos = put_hit(&r, old);

		((struct rut_packet *)rut_ring_subbuf(&r, pos))->timestamp_begin = old;
		if (!i)
			rut_ring_commit(&r, pos, sizeof(struct rut_event_hit));
		assert_int_equal(rut_events_round(&t, NULL), 0);
	}
	assert_int_equal(calls, 1);
	assert_int_equal(last_ns, old);
	for (int i = 0; i < 10; i++) {
		uint64_t pos = r.ctl->pos, now;

		/* Nothing seems to wait each other time. */
		r.ctl->pos = i % 2 ? pos : r.ctl->consumed;
		now = rut_now_ns();
		assert_int_equal(rut_events_round(&t, NULL), 0);
		r.ctl->pos = pos;
		assert_in_range(rut_tracer_complete_ns(&t), now - 2 * second, now + second);
	}
	close_ring(&p, fd);
}

static volatile sig_atomic_t disturbed;

static void on_signal(int sig)
{
	disturbed = sig;
}

static void *disturb(void *arg)
{
	while (!stop)
		pthread_kill(*(pthread_t *)arg, SIGURG);
	return NULL;
}

/* We are there, whatever disturbs us while we look. */
static void test_signals(void **state)
{
	struct rut_tracee p = {
		.ctl_fd = -1, .pid = getpid(), .exec_check_ms = UINT64_MAX, .target_fd = -1};
	struct sigaction sa = {.sa_handler = on_signal}, old;
	pthread_t self = pthread_self(), thread;
	size_t ended = 0;

	p.pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	assert_true(p.pidfd >= 0);
	stop = false;
	sigaction(SIGURG, &sa, &old);
	assert_int_equal(pthread_create(&thread, NULL, disturb, &self), 0);
	for (int i = 0; i < 10000 && !disturbed; i++)
		usleep(100);
	assert_int_equal(disturbed, SIGURG);
	for (int i = 0; i < 300000; i++)
		ended += rut_tracee_ended(&p);
	stop = true;
	pthread_join(thread, NULL);
	sigaction(SIGURG, &old, NULL);
	close(p.pidfd);
	assert_int_equal(ended, 0);
}

static int on_ring(const struct rut_ruby_core *found, void *arg, struct rut_err *err)
{
	return 0;
}

static void on_core_event(const struct rut_ruby_event *ev, void *arg)
{
}

/* A damaged core: the page with a ring's magic number is in two segments, in neither as a whole. */
static void test_overlapping_core(void **state)
{
	_Alignas(8) static unsigned char memory[2 * PAGE];
	struct rut_core_segment segments[] = {
		{0x10000, memory, PAGE + 8},
		{0x10000 + PAGE, memory + PAGE, PAGE},
	};
	const struct rut_core core = {.segments = segments, .count = 2};
	const uint64_t magic = RUT_RING_MAGIC;

	memcpy(memory + PAGE, &magic, sizeof(magic));
	assert_int_equal(rut_ruby_core_read(&core, on_ring, on_core_event, NULL, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scribbler),	  cmocka_unit_test(test_times_ahead),
		cmocka_unit_test(test_unfinished_record), cmocka_unit_test(test_never_finished),
		cmocka_unit_test(test_signals),		  cmocka_unit_test(test_overlapping_core),
	};

	return cmocka_run_group_tests_name("shared", tests, NULL, NULL);
}
