/* SPDX-License-Identifier: MIT */
/*
 * A recorder without a kernel: writes packets into a trace directory and calls the sender after
 *each, as the consumer does, so that tests of what is sent need neither rights nor the machine for
 *themselves. Content is 64-bit numbers that count up from FIRST over both streams.
 *
 *	feed TO DIR keep|spool PACKETS PAUSE-US FIRST [LIMIT]
 *
 * With `keep` DIR is the trace, which stays; with `spool` it is DIR/record, and what is confirmed
 *is removed. Ends in order after so many packets, or at SIGINT. Status 1, with the reason: not all
 *could be sent. Beyond LIMIT bytes that wait the oldest packets are dropped. Prints the number
 *behind the last one, and how many were dropped.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "ring/append.h"
#include "stream/sender.h"

#define CPUS	  2
#define PAGE	  4096u
#define MAX_PAGES 16u

static const char metadata[] =
	"/* CTF 1.8 */\n"
	"typealias integer { size = 8; align = 8; signed = false; } := u8;\n"
	"typealias integer { size = 32; align = 8; signed = false; } := u32;\n"
	"typealias integer { size = 64; align = 8; signed = false; } := u64;\n"
	"trace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"%s\";\n\tbyte_order = le;\n"
	"\tpacket.header := struct { u32 magic; u8 uuid[16]; u32 stream_id; u64 "
	"stream_instance_id; };\n"
	"};\n"
	"env {\n\tdomain = \"kernel\";\n\ttracer_name = \"rutile\";\n};\n"
	"stream {\n\tid = 0;\n\tpacket.context := struct { u64 timestamp_begin; u64 "
	"timestamp_end; "
	"u64 content_size; u64 packet_size; u64 packet_seq_num; u64 events_discarded; u32 cpu_id; "
	"u32 "
	"pid; };\n};\n"
	"event {\n\tname = \"number\";\n\tid = 0;\n\tstream_id = 0;\n\tfields := struct { u64 n; "
	"};\n"
	"};\n";

struct feed {
	char dir[4096];
	uint8_t uuid[16];
	int fd[CPUS];
	uint64_t seq[CPUS], last_ns[CPUS];
	uint64_t next; /* number */
	bool counts;   /* packets say how many numbers they have */
};

static volatile sig_atomic_t stop;

static void on_stop(int sig)
{
	(void)sig;
	stop = 1;
}

static int die(const char *what)
{
	perror(what);
	exit(2);
}

static void say(enum rut_log_level level, const char *msg, void *arg)
{
	(void)arg;
	if (level > RUT_LOG_DEBUG)
		fprintf(stderr, "feed: %s\n", msg);
}

static void make_trace(struct feed *f)
{
	char path[5000], uuid[40];
	FILE *out;

	if (getrandom(f->uuid, sizeof(f->uuid), 0) != sizeof(f->uuid))
		die("getrandom");
	for (int i = 0, n = 0; i < 16; i++)
		n += snprintf(uuid + n, sizeof(uuid) - (size_t)n, "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", f->uuid[i]);
	mkdir(f->dir, 0700);
	snprintf(path, sizeof(path), "%s/kernel", f->dir);
	if (mkdir(path, 0700) < 0)
		die(path);
	for (int cpu = 0; cpu < CPUS; cpu++) {
		snprintf(path, sizeof(path), "%s/kernel/kernel_%d", f->dir, cpu);
		f->fd[cpu] = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0600);
		if (f->fd[cpu] < 0)
			die(path);
	}
	snprintf(path, sizeof(path), "%s/kernel/metadata", f->dir);
	out = fopen(path, "w");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	if (!out || fprintf(out, metadata, uuid) < 0 || fclose(out))
		die(path);
#pragma GCC diagnostic pop
}

static void write_packet(struct feed *f)
{
	static union {
		struct rut_packet head;
		uint64_t words[MAX_PAGES * PAGE / 8];
	} packet;
	const int cpu = (int)(random() % CPUS);
	const size_t whole = (1 + (size_t)random() % MAX_PAGES) * PAGE;
	const size_t content = whole - 16 - (size_t)random() % 256 * 8,
		     head = sizeof(packet.head) / 8;

	memset(&packet, 0, sizeof(packet));
	packet.head = (struct rut_packet){.magic = RUT_CTF_PACKET_MAGIC,
					  .stream_instance_id = (uint64_t)cpu,
					  .timestamp_begin = f->last_ns[cpu],
					  .timestamp_end = rut_now_ns(),
					  .content_size = content * 8,
					  .packet_size = whole * 8,
					  .packet_seq_num = f->seq[cpu]++,
					  .cpu_id = (uint32_t)cpu};
	f->last_ns[cpu] = packet.head.timestamp_end;
	memcpy(packet.head.uuid, f->uuid, sizeof(f->uuid));
	for (size_t i = head; i < content / 8; i++)
		packet.words[i] = f->next++;
	if (f->counts) {
		packet.words[whole / 8 - 2] = RUT_PACKET_COUNTED;
		packet.words[whole / 8 - 1] = content / 8 - head;
	}
	if (write(f->fd[cpu], &packet, whole) != (ssize_t)whole)
		die("write");
}

int main(int argc, char **argv)
{
	struct rut_sender_conf conf = {.ncpus = CPUS, .session = "record", .limit = UINT64_MAX};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_sender_stats stats = {0};
	struct rut_sender *s = NULL;
	struct feed f = {0};
	uint64_t began;
	int rc;

	if (argc != 7 && argc != 8) {
		fprintf(stderr, "usage: feed TO DIR keep|spool PACKETS PAUSE-US FIRST [LIMIT]\n");
		return 2;
	}
	conf.to = argv[1];
	conf.keep = !strcmp(argv[3], "keep");
	conf.spool = conf.keep ? NULL : argv[2];
	snprintf(f.dir, sizeof(f.dir), "%.4000s%s", argv[2], conf.keep ? "" : "/record");
	f.next = strtoull(argv[6], NULL, 10);
	f.counts = conf.drop_oldest = argc == 8;
	if (f.counts)
		conf.limit = strtoull(argv[7], NULL, 10);
	signal(SIGINT, on_stop);
	srandom((unsigned int)getpid());
	_Static_assert(sizeof(struct rut_packet) % 8 == 0, "numbers are aligned");
	rut_log_set_sink(say, NULL);
	rc = rut_sender_new(&s, &conf, &err);
	if (!rc) {
		make_trace(&f);
		rc = rut_sender_start(s, &err);
	}
	began = rut_now_ns();
	f.last_ns[0] = f.last_ns[1] = began;
	for (long n = strtol(argv[4], NULL, 10); n > 0 && !rc && !stop; n--) {
		write_packet(&f);
		rc = rut_sender_step(s, f.dir, began, rut_now_ns(), &err);
		usleep((useconds_t)strtoul(argv[5], NULL, 10));
	}
	if (!rc)
		rc = rut_sender_finish(s, rut_now_ns(), &err);
	if (rc)
		fprintf(stderr, "feed: %s\n", err.msg);
	if (s)
		rut_sender_stats(s, &stats);
	rut_sender_free(s);
	printf("%llu %llu\n", (unsigned long long)f.next, (unsigned long long)stats.dropped_events);
	return rc ? 1 : 0;
}
