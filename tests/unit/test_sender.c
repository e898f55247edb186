/* SPDX-License-Identifier: MIT */
/* What the sender's thread does when its connection breaks, with a link that breaks when it is to.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "stream/sender_internal.h"

#define PACKET 4096

static struct rut_sender *sender;
static char dir[64];
/* Of the link; atomic. */
static int down, sent, clears, ends, opens;

static int get(const int *n)
{
	return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static void count(int *n)
{
	__atomic_add_fetch(n, 1, __ATOMIC_ACQ_REL);
}

static int check(struct rut_err *err)
{
	return get(&down) ? rut_err_set(err, ECONNRESET, "the link is down") : 0;
}

static int link_open(struct rut_sender *s, struct rut_chunk *c, struct rut_err *err)
{
	count(&opens);
	return check(err);
}

static int link_update(struct rut_sender *s, struct rut_chunk *c, struct rut_err *err)
{
	return check(err);
}

static uint64_t numbers[64]; /* of packets in memory, as they were sent */
static int n_numbers;
static bool fail_next; /* the first confirmation of packets in memory, or logged; atomic */
static bool logs;      /* the numbers of packets in files, too */
static int streams[4], n_streams; /* in the order in which they were sent, if it logs */
static int claimed;		  /* files with packets that were claimed and not sent */

/* Its first word behind the head is its number, too. */
static void take_held(struct rut_sender *s, const struct rut_stream_file *f,
		      const struct rut_packet *p)
{
	const unsigned char *data = rut_sender_held(s, f, p->content_size / 8);
	uint64_t number;

	assert_non_null(data);
	memcpy(&number, data + sizeof(*p), sizeof(number));
	assert_int_equal(number, p->packet_seq_num);
	assert_true(n_numbers < 64);
	numbers[n_numbers++] = number;
}

static int link_packet(struct rut_sender *s, struct rut_stream_file *f, struct rut_packet *p)
{
	if (f->fd < 0)
		take_held(s, f, p);
	else if (logs && n_numbers < 64)
		numbers[n_numbers++] = p->packet_seq_num;
	if (logs && n_streams < 4 &&
	    (!n_streams || streams[n_streams - 1] != (int)p->stream_instance_id))
		streams[n_streams++] = (int)p->stream_instance_id;
	return 0;
}

static int link_confirm(struct rut_sender *s, struct rut_err *err)
{
	int rc = check(err), n = 0;

	if (n_numbers && __atomic_exchange_n(&fail_next, false, __ATOMIC_ACQ_REL))
		return rut_err_set(err, ECONNRESET, "the link breaks before it confirms");
	pthread_mutex_lock(&s->lock);
	for (struct rut_stream_part *p = s->chunks->parts; p; p = p->next)
		for (struct rut_stream_file *f = p->files; f; f = f->next) {
			n += (int)((f->sent - f->confirmed) / PACKET);
			claimed += f->claimed > f->sent;
		}
	pthread_mutex_unlock(&s->lock);
	if (!rc)
		__atomic_add_fetch(&sent, n, __ATOMIC_ACQ_REL);
	return rc;
}

static int link_end(struct rut_sender *s, struct rut_chunk *c, const struct rut_chunk *next,
		    struct rut_err *err)
{
	int rc = check(err);

	if (!rc)
		count(&ends);
	return rc;
}

static int link_clear(struct rut_sender *s, struct rut_chunk *c, struct rut_err *err)
{
	int rc = check(err);

	if (!rc)
		count(&clears);
	return rc;
}

static void link_close(struct rut_sender *s)
{
}

static uint64_t link_queued(const struct rut_sender *s)
{
	return 0;
}

static void link_abort(const struct rut_sender *s)
{
}

static const struct rut_sender_link fake = {
	.open = link_open,
	.update = link_update,
	.packet = link_packet,
	.confirm = link_confirm,
	.end = link_end,
	.clear = link_clear,
	.close = link_close,
	.queued = link_queued,
	.abort = link_abort,
};

static void set_up(void)
{
	strcpy(dir, "/tmp/test_sender.XXXXXX");
	assert_non_null(mkdtemp(dir));
	down = sent = clears = ends = opens = n_numbers = n_streams = claimed = 0;
	logs = false;
	sender = calloc(1, sizeof(*sender));
	assert_non_null(sender);
	sender->link = &fake;
	sender->mount_fd = -1;
	sender->batch = 1 << 20;
	pthread_mutex_init(&sender->lock, NULL);
	pthread_cond_init(&sender->wake, NULL);
	strcpy(sender->to, "relay://test");
	assert_int_equal(rut_sender_start(sender, NULL), 0);
}

static void tear_down(void)
{
	char command[96];

	rut_sender_free(sender);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

/* Makes the trace directory. `path` has room for more; returns where that begins. */
static char *make_chunk(const char *chunk, char *path, size_t size)
{
	char *name;
	int fd;

	snprintf(path, size, "%s/%s", dir, chunk);
	mkdir(path, 0700);
	name = path + strlen(path);
	strcpy(name, "/kernel");
	mkdir(path, 0700);
	strcpy(name, "/kernel/metadata");
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "text", 4), 4);
	close(fd);
	*name = '\0';
	return name;
}

/* Adds a packet to the trace directory, which becomes the present one, and publishes it. */
static void record(const char *chunk)
{
	const struct rut_packet head = {.magic = RUT_CTF_PACKET_MAGIC,
					.content_size = sizeof(head) * 8,
					.packet_size = PACKET * 8};
	static const char zeros[PACKET];
	char path[160], *name = make_chunk(chunk, path, sizeof(path));
	int fd;

	strcpy(name, "/kernel/kernel_0");
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, &head, sizeof(head)), sizeof(head));
	assert_int_equal(write(fd, zeros, PACKET - sizeof(head)), PACKET - sizeof(head));
	close(fd);
	*name = '\0';
	assert_int_equal(rut_sender_step(sender, path, 1, 1, NULL), 0);
}

static void wait_until(const int *n, int least)
{
	for (int i = 0; i < 20000 && get(n) < least; i++)
		poll(NULL, 0, 1);
	assert_true(get(n) >= least);
}

/* Clears the present chunk, and begins the next. Returns what is reported, or -EAGAIN. */
static int clear(const char *next, int ms)
{
	struct rut_err err = RUT_ERR_INIT;
	int rc = rut_sender_clear(sender, &err);

	assert_int_equal(rc, 0);
	record(next);
	for (int i = 0; i < ms && (rc = rut_sender_cleared(sender, &err)) == -EAGAIN; i++)
		poll(NULL, 0, 1);
	if (rc == -EIO)
		assert_non_null(strstr(err.msg, "stays there"));
	return rc;
}

static void break_link(void)
{
	int before = get(&opens);

	__atomic_store_n(&down, 1, __ATOMIC_RELEASE);
	wait_until(&opens, before + 1);
}

static void mend_link(void)
{
	__atomic_store_n(&down, 0, __ATOMIC_RELEASE);
}

static void test_cleared(void **state)
{
	(void)state;
	set_up();
	record("a");
	wait_until(&sent, 1);
	assert_int_equal(clear("b", 20000), 0);
	assert_int_equal(get(&clears), 1);
	wait_until(&sent, 2);
	tear_down();
}

/* What a connection that broke has stored stays: also when there is another one now. */
static void test_cleared_after_break(void **state)
{
	(void)state;
	set_up();
	record("a");
	wait_until(&sent, 1);
	break_link();
	mend_link();
	record("a");
	wait_until(&sent, 2);
	assert_int_equal(clear("b", 20000), -EIO);
	assert_int_equal(get(&clears), 1);
	/* The next one is in this connection only. */
	wait_until(&sent, 3);
	assert_int_equal(clear("c", 20000), 0);
	tear_down();
}

/* The same without another connection; and nothing stays of what none has had. */
static void test_cleared_without_connection(void **state)
{
	(void)state;
	set_up();
	record("a");
	wait_until(&sent, 1);
	break_link();
	assert_int_equal(clear("b", 20000), -EIO);
	assert_int_equal(clear("c", 20000), 0);
	assert_int_equal(get(&clears), 0);
	mend_link();
	wait_until(&sent, 2);
	tear_down();
}

/* Behind a directory that waits to be sent: it is dropped at once, and the other one is sent. */
static void test_cleared_behind(void **state)
{
	struct rut_stream_out out = {.now.in_seq = 5, .safe.in_seq = 5};

	(void)state;
	set_up();
	__atomic_store_n(&down, 1, __ATOMIC_RELEASE);
	record("a");
	wait_until(&opens, 1);
	record("b");
	assert_int_equal(clear("c", 20000), 0);
	assert_int_equal(get(&clears), 0);
	pthread_mutex_lock(&sender->lock);
	assert_int_equal(sender->waiting, 2 * PACKET);
	sender->streams = &out;
	pthread_mutex_unlock(&sender->lock);
	mend_link();
	wait_until(&sent, 2);
	assert_int_equal(get(&ends), 1);
	assert_int_equal(get(&clears), 0);
	/* Packets that were dropped are not counted as missing. */
	assert_int_equal(out.now.in_seq, 0);
	sender->streams = NULL;
	tear_down();
}

/* The present directory gets packets FIRST ... from memory; they are published with a later step.
 */
static void record_held(uint64_t first, int n)
{
	for (int i = 0; i < n; i++) {
		unsigned char packet[PACKET] = {0};
		struct rut_packet head = {.magic = RUT_CTF_PACKET_MAGIC,
					  .content_size = (sizeof(head) + 8) * 8,
					  .packet_size = PACKET * 8,
					  .packet_seq_num = first + (uint64_t)i};

		memcpy(packet + sizeof(head), &head.packet_seq_num, 8);
		assert_int_equal(rut_sender_packet(sender, 0, &head, packet, PACKET), 0);
	}
}

static void expect_numbers(const uint64_t *want, int n)
{
	pthread_mutex_lock(&sender->lock);
	assert_int_equal(n_numbers, n);
	assert_memory_equal(numbers, want, sizeof(*want) * (size_t)n);
	n_numbers = 0;
	pthread_mutex_unlock(&sender->lock);
}

/* Packets in memory: in order, again when they were not confirmed, and freed when they were. */
static void test_held(void **state)
{
	static const uint64_t first[] = {1, 2, 3}, all[] = {4, 5, 4, 5, 6};
	char path[160];

	(void)state;
	set_up();
	make_chunk("a", path, sizeof(path));
	assert_int_equal(rut_sender_step(sender, path, 1, 1, NULL), 0);
	record_held(1, 3);
	/* What was not published is not sent, and can be taken back. */
	poll(NULL, 0, 300);
	assert_int_equal(get(&sent), 0);
	record_held(9, 2);
	rut_sender_cut(sender, 0, (off_t)3 * PACKET);
	assert_int_equal(rut_sender_step(sender, path, 1, 1, NULL), 0);
	wait_until(&sent, 3);
	expect_numbers(first, 3);
	__atomic_store_n(&fail_next, true, __ATOMIC_RELEASE);
	record_held(4, 2);
	assert_int_equal(rut_sender_step(sender, path, 1, 1, NULL), 0);
	wait_until(&opens, 2);
	wait_until(&sent, 5);
	record_held(6, 1);
	assert_int_equal(rut_sender_step(sender, path, 1, 1, NULL), 0);
	wait_until(&sent, 6);
	expect_numbers(all, 5);
	for (int i = 0; i < 20000 && sender->waiting; i++)
		poll(NULL, 0, 1);
	pthread_mutex_lock(&sender->lock);
	assert_int_equal(sender->waiting, 0);
	assert_null(sender->last->parts->files->held.first);
	assert_int_equal(sender->last->parts->files->held.end, (off_t)6 * PACKET);
	pthread_mutex_unlock(&sender->lock);
	tear_down();
}

/* Adds packets FIRST ... of a stream to the present directory, and garbage behind them. */
static void write_packets(const char *path, int stream, uint64_t first, int n, size_t garbage)
{
	char name[200];
	int fd;

	snprintf(name, sizeof(name), "%s/kernel/kernel_%d", path, stream);
	fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	for (int i = 0; i < n; i++) {
		char packet[PACKET] = {0};
		const struct rut_packet head = {.magic = RUT_CTF_PACKET_MAGIC,
						.stream_instance_id = (uint64_t)stream,
						.content_size = sizeof(head) * 8,
						.packet_size = PACKET * 8,
						.packet_seq_num = first + (uint64_t)i};

		memcpy(packet, &head, sizeof(head));
		assert_int_equal(write(fd, packet, PACKET), PACKET);
	}
	for (size_t i = 0; i < garbage; i++)
		assert_int_equal(write(fd, "?", 1), 1);
	close(fd);
}

/* What is no packet is not sent, and does not wait; what is before it is sent again after a break.
 */
static void test_bad_file(void **state)
{
	static const uint64_t all[] = {1, 2, 1, 2};
	char path[160];

	(void)state;
	set_up();
	logs = true;
	__atomic_store_n(&fail_next, true, __ATOMIC_RELEASE);
	make_chunk("a", path, sizeof(path));
	write_packets(path, 0, 1, 2, 5000);
	assert_int_equal(rut_sender_step(sender, path, 1, 1, NULL), 0);
	wait_until(&sent, 2);
	write_packets(path, 0, 9, 3, 0);
	assert_int_equal(rut_sender_step(sender, path, 1, 1, NULL), 0);
	for (int i = 0; i < 20000 && __atomic_load_n(&sender->waiting, __ATOMIC_RELAXED); i++)
		poll(NULL, 0, 1);
	expect_numbers(all, 4);
	pthread_mutex_lock(&sender->lock);
	assert_int_equal(sender->waiting, 0);
	pthread_mutex_unlock(&sender->lock);
	tear_down();
}

/*
 * Of streams that have more than can be sent each has its turn; and no packet is kept from being
 * dropped that is not sent.
 */
static void test_turns(void **state)
{
	char path[160];

	(void)state;
	set_up();
	pthread_mutex_lock(&sender->lock);
	sender->drop_oldest = logs = true;
	sender->limit = 64 << 20;
	pthread_mutex_unlock(&sender->lock);
	make_chunk("a", path, sizeof(path));
	for (int stream = 0; stream < 3; stream++)
		write_packets(path, stream, 0, 100, 0);
	assert_int_equal(rut_sender_step(sender, path, 1, 1, NULL), 0);
	wait_until(&sent, 300);
	pthread_mutex_lock(&sender->lock);
	assert_int_equal(n_streams, 4);
	assert_int_equal(streams[0] + streams[1] + streams[2], 0 + 1 + 2);
	assert_int_equal(streams[3], streams[0]);
	assert_int_equal(claimed, 0);
	pthread_mutex_unlock(&sender->lock);
	tear_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cleared),
		cmocka_unit_test(test_cleared_after_break),
		cmocka_unit_test(test_cleared_without_connection),
		cmocka_unit_test(test_cleared_behind),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_bad_file),
		cmocka_unit_test(test_turns),
	};

	return cmocka_run_group_tests_name("sender", tests, NULL, NULL);
}
