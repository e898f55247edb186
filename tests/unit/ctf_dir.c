/* SPDX-License-Identifier: MIT */
#include "ctf_dir.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char format[] =
	"/* CTF 1.8 */\n"
	"typealias integer { size = 8; } := u8; typealias integer { size = 32; } := u32;\n"
	"typealias integer { size = 64; } := u64;\n"
	"trace { major = 1; minor = 8; byte_order = %s; packet.header := struct { u32 magic; u32 "
	"stream_id; }; };\n"
	"clock { name = c; freq = 1000000000; offset_s = 100; };\n"
	"typealias integer { size = 64; map = clock.c.value; } := t64;\n"
	"stream { id = 0; event.header := struct { u32 id; t64 timestamp; };\n"
	"	packet.context := struct { t64 timestamp_begin; t64 timestamp_end; u64 "
	"content_size;\n"
	"		u64 packet_size; u64 events_discarded; u64 packet_seq_num; u32 cpu_id; }; "
	"};\n";

void make_dir(struct dir *d)
{
	strcpy(d->path, "/tmp/rutile-test-ctf-XXXXXX");
	assert_non_null(mkdtemp(d->path));
}

void remove_dir(struct dir *d)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", d->path);
	assert_int_equal(system(cmd), 0);
}

char *in_dir(const struct dir *d, const char *name)
{
	static char paths[4][160];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, 160, "%s/%s", d->path, name);
	return path;
}

void put_file(const struct dir *d, const char *name, const void *data, size_t len)
{
	FILE *f = fopen(in_dir(d, name), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

void preamble(char *text, size_t size, bool be)
{
	snprintf(text, size, format, be ? "be" : "le");
}

void put_metadata(const struct dir *d, bool be, const char *events)
{
	char text[16384];

	preamble(text, sizeof(text), be);
	strcat(text, events);
	put_file(d, "metadata", text, strlen(text));
}

void begin_packet(struct rut_ctf_writer *w, struct packet *p, uint64_t begin, uint64_t end,
		  uint64_t lost, uint64_t seq, uint32_t cpu)
{
	rut_ctf_writer_put(w, 0xc1fc1fc1, 32, 8);
	rut_ctf_writer_put(w, 0, 32, 8);
	rut_ctf_writer_put(w, begin, 64, 8);
	rut_ctf_writer_put(w, end, 64, 8);
	p->content_at = rut_ctf_writer_put(w, 0, 64, 8);
	p->size_at = rut_ctf_writer_put(w, 0, 64, 8);
	rut_ctf_writer_put(w, lost, 64, 8);
	rut_ctf_writer_put(w, seq, 64, 8);
	rut_ctf_writer_put(w, cpu, 32, 8);
}

void end_packet(struct rut_ctf_writer *w, const struct packet *p, size_t bytes)
{
	rut_ctf_writer_patch(w, p->content_at, w->pos, 64);
	rut_ctf_writer_patch(w, p->size_at, 8 * (bytes ? bytes : (w->pos + 7) / 8), 64);
	rut_ctf_writer_end_packet(w, bytes);
}

void put_header(struct rut_ctf_writer *w, uint32_t id, uint64_t ts)
{
	rut_ctf_writer_put(w, id, 32, 8);
	rut_ctf_writer_put(w, ts, 64, 8);
}

struct rut_ctf_set *open_dir(const struct dir *d)
{
	const char *path = d->path;
	struct rut_err err = RUT_ERR_INIT;
	struct rut_ctf_set *set = NULL;

	if (rut_ctf_set_open(&set, &path, 1, NULL, &err) < 0)
		fail_msg("%s", err.msg);
	return set;
}

struct rut_ctf_reader *open_reader(struct rut_ctf_set *set, const struct rut_ctf_reader_opts *opts)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_ctf_reader *r = NULL;

	if (rut_ctf_reader_new(&r, set, opts, &err) < 0)
		fail_msg("%s", err.msg);
	return r;
}

/* `n` streams of `packets` packets of 10 events; event k of packet p of stream s has v = its time.
 */
void write_streams(const struct dir *d, int n, int packets)
{
	put_metadata(d, false,
		     "event { id = 0; name = even; fields := struct { u64 v; }; };\n"
		     "event { id = 1; name = odd; fields := struct { u64 v; string s; }; };\n");
	for (int s = 0; s < n; s++) {
		struct rut_ctf_writer w;
		char name[16];

		snprintf(name, sizeof(name), "s_%d", s);
		assert_int_equal(rut_ctf_writer_open(&w, in_dir(d, name), false, NULL), 0);
		for (int i = 0; i < packets; i++) {
			uint64_t begin = 1000 + (uint64_t)i * 100;
			struct packet p;

			begin_packet(&w, &p, begin, begin + 99, 0, (uint64_t)i, (uint32_t)s);
			for (int k = 0; k < 10; k++) {
				uint64_t ts = begin + (uint64_t)k * 10 + (uint64_t)s;

				put_header(&w, k & 1, ts);
				rut_ctf_writer_put(&w, ts, 64, 8);
				if (k & 1)
					rut_ctf_writer_string(&w, "odd");
			}
			end_packet(&w, &p, 512);
		}
		assert_int_equal(rut_ctf_writer_close(&w), 0);
	}
}

char last_log[1024];

void keep_log(enum rut_log_level level, const char *msg, void *arg)
{
	snprintf(last_log, sizeof(last_log), "%s", msg);
}
