/* SPDX-License-Identifier: MIT */
/*
 * What a recorder does after a long absence of the collector: its spool is full, and the sender
 * catches up. Prints the bytes, the seconds and CPU seconds from the start until the collector has
 * confirmed all of it, and the peak memory in MiB. As the floor, the same bytes are published as
 * plain messages.
 *
 *	catchup make DIR MIB PACKET-KIB   a spool: two streams whose packets span 24 hours
 *	catchup send DIR URL              the sender; removes DIR
 *	catchup raw DIR URL               libnats alone
 */
#include <fcntl.h>
#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "ring/ring.h"
#include "stream/nats_url.h"
#include "stream/sender.h"

#define CPUS	2
#define DAY_NS	86400000000000ull
#define PIECE	(512u << 10)
#define PENDING 64

static int die(const char *what)
{
	perror(what);
	return 1;
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void report(uint64_t bytes, uint64_t began_ns, double cpu)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	printf("%llu %.3f %.3f %.1f\n", (unsigned long long)bytes,
	       (double)(rut_now_ns() - began_ns) / 1e9, cpu_seconds() - cpu,
	       (double)u.ru_maxrss / 1024);
}

/* ---- a spool ---- */

static const uint8_t uuid[16] = {0x5c, 0x1f, 0x6b, 0x2a, 0x10, 0x4e, 0x4d, 0x37,
				 0x9b, 0x21, 0x8d, 0x3f, 0x7e, 0x55, 0x0c, 0x99};
static const char metadata[] =
	"/* CTF 1.8 */\n"
	"typealias integer { size = 8; align = 8; signed = false; } := u8;\n"
	"typealias integer { size = 32; align = 8; signed = false; } := u32;\n"
	"typealias integer { size = 64; align = 8; signed = false; } := u64;\n"
	"trace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"5c1f6b2a-104e-4d37-9b21-8d3f7e550c99\";\n"
	"\tbyte_order = le;\n\tpacket.header := struct { u32 magic; u8 uuid[16]; u32 stream_id; "
	"u64 stream_instance_id; };\n};\n"
	"stream {\n\tid = 0;\n\tpacket.context := struct { u64 timestamp_begin; u64 timestamp_end; "
	"u64 content_size; u64 packet_size; u64 packet_seq_num; u64 events_discarded; u32 cpu_id; "
	"u32 "
	"pid; };\n\tevent.header := struct { u64 word; };\n};\n"
	"event {\n\tname = \"word\";\n\tid = 0;\n\tstream_id = 0;\n};\n";

static int write_metadata(const char *dir)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/kernel/metadata", dir);
	f = fopen(path, "w");
	if (!f || fputs(metadata, f) < 0 || fclose(f))
		return die(path);
	return 0;
}

/* Packets with content that does not compress, and no events that a reader could decode. */
static int make_stream(const char *dir, int cpu, uint64_t bytes, size_t packet)
{
	const uint64_t count = bytes / packet, each = DAY_NS / count;
	unsigned char *data = malloc(packet);
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/kernel/kernel_%d", dir, cpu);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (!data || fd < 0)
		return die(path);
	for (size_t i = 0; i < packet; i++)
		data[i] = (unsigned char)(i * 2654435761u >> 24);
	for (uint64_t i = 0; i < count; i++) {
		struct rut_packet p = {.magic = RUT_CTF_PACKET_MAGIC,
				       .stream_instance_id = (uint64_t)cpu,
				       .timestamp_begin = i * each + 1,
				       .timestamp_end = (i + 1) * each,
				       .content_size = packet * 8,
				       .packet_size = packet * 8,
				       .packet_seq_num = i,
				       .cpu_id = (uint32_t)cpu};

		memcpy(p.uuid, uuid, sizeof(p.uuid));
		memcpy(data, &p, sizeof(p));
		if (write(fd, data, packet) != (ssize_t)packet)
			return die(path);
	}
	free(data);
	return close(fd);
}

static int make(const char *dir, uint64_t mib, size_t packet_kib)
{
	char path[4096];
	int rc;

	snprintf(path, sizeof(path), "%s/kernel", dir);
	mkdir(dir, 0700);
	if (mkdir(path, 0700) < 0)
		return die(path);
	rc = write_metadata(dir);
	for (int cpu = 0; cpu < CPUS && !rc; cpu++)
		rc = make_stream(dir, cpu, (mib << 20) / CPUS, packet_kib << 10);
	return rc;
}

/* ---- the sender ---- */

static int send_spool(const char *dir, const char *to)
{
	const struct rut_sender_conf conf = {
		.to = to, .session = "absent", .spool = dir, .limit = UINT64_MAX, .ncpus = CPUS};
	struct rut_sender_stats stats;
	struct rut_err err = RUT_ERR_INIT;
	struct rut_sender *s = NULL;
	uint64_t began;
	double cpu;
	int rc = rut_sender_new(&s, &conf, &err);

	if (!rc)
		rc = rut_sender_step(s, dir, 1, 0, &err);
	began = rut_now_ns();
	cpu = cpu_seconds();
	if (!rc)
		rc = rut_sender_start(s, &err);
	if (!rc)
		rc = rut_sender_finish(s, DAY_NS, &err);
	if (rc) {
		fprintf(stderr, "catchup: %s\n", err.msg);
		return 1;
	}
	rut_sender_stats(s, &stats);
	report(stats.bytes, began, cpu);
	rut_sender_free(s);
	return 0;
}

/* ---- libnats alone ---- */

static int publish_raw(jsCtx *js, const char *dir, uint64_t *ret_bytes)
{
	static char data[PIECE];

	for (int cpu = 0; cpu < CPUS; cpu++) {
		char path[4096];
		ssize_t n;
		int fd;

		snprintf(path, sizeof(path), "%s/kernel/kernel_%d", dir, cpu);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			return die(path);
		while ((n = read(fd, data, sizeof(data))) > 0) {
			natsMsg *msg = NULL;

			if (natsMsg_Create(&msg, "rutile.raw.s.kernel.k", NULL, data, (int)n) !=
				    NATS_OK ||
			    js_PublishMsgAsync(js, &msg, NULL) != NATS_OK)
				return die("publish");
			*ret_bytes += (uint64_t)n;
		}
		close(fd);
	}
	return 0;
}

static int send_raw(const char *dir, const char *to)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_nats_url url;
	natsConnection *nc = NULL;
	jsPubOptions wait = {0};
	uint64_t began, bytes = 0;
	jsOptions opts;
	jsCtx *js = NULL;
	double cpu;

	if (rut_nats_url_parse(to, &url, &err)) {
		fprintf(stderr, "catchup: %s\n", err.msg);
		return 1;
	}
	jsOptions_Init(&opts);
	opts.PublishAsync.MaxPending = PENDING;
	began = rut_now_ns();
	cpu = cpu_seconds();
	if (natsConnection_ConnectTo(&nc, url.servers[0]) != NATS_OK ||
	    natsConnection_JetStream(&js, nc, &opts) != NATS_OK)
		return die("connect");
	if (publish_raw(js, dir, &bytes))
		return 1;
	jsPubOptions_Init(&wait);
	wait.MaxWait = 60000;
	if (js_PublishAsyncComplete(js, &wait) != NATS_OK)
		return die("acknowledgements");
	report(bytes, began, cpu);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "make"))
		return make(argv[2], strtoull(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
	if (argc == 4 && !strcmp(argv[1], "send"))
		return send_spool(argv[2], argv[3]);
	if (argc == 4 && !strcmp(argv[1], "raw"))
		return send_raw(argv[2], argv[3]);
	fprintf(stderr, "catchup: see the comment at the top of bench/catchup.c\n");
	return 2;
}
