/* SPDX-License-Identifier: MIT */
/*
 * gen_trace SOURCE TARGET TIMES: a long trace made of a short one. Every packet of SOURCE is
 * written TIMES times, each round later than the one before. The rounds are a multiple of 2^32
 * clock ticks apart, so that events with only the low bits of the time in their header stay as they
 * are, and just whole 64-bit times are shifted.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "ctf/reader.h"

struct packet {
	const uint8_t *data;
	size_t bytes;
	struct rut_buf times; /* uint64_t: bytes where a 64-bit time stands */
	uint64_t seq_at;      /* where the sequence number stands; 0: nowhere */
};

struct stream {
	struct packet *packets;
	size_t n;
	uint64_t first_clock, last_clock;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "gen_trace: %s: %s\n", what, why);
	exit(1);
}

/* Notes where 64-bit times (and the sequence number) stand in a scope. */
static void find_times(struct packet *p, struct rut_ctf_iter *it, const struct rut_ctf_type *t)
{
	struct rut_ctf_value v;
	uint64_t n, at;

	switch (t->kind) {
	case RUT_CTF_KIND_STRUCT:
		n = rut_ctf_iter_enter(it, t);
		for (uint64_t i = 0; i < n; i++)
			find_times(p, it, t->fields[i].type);
		return;
	case RUT_CTF_KIND_VARIANT:
		n = rut_ctf_iter_enter(it, t);
		find_times(p, it, t->fields[n].type);
		return;
	default:
		rut_ctf_iter_value(it, t, &v);
		at = v.pos / 8;
		if (t->size == 64 &&
		    (t->role == RUT_CTF_ROLE_TIMESTAMP || t->role == RUT_CTF_ROLE_TIMESTAMP_END))
			rut_buf_add(&p->times, &at, sizeof(at));
		if (t->size == 64 && t->role == RUT_CTF_ROLE_PACKET_SEQ)
			p->seq_at = at;
	}
}

static void take_packet(struct stream *s, const struct rut_ctf_event *ev)
{
	struct rut_ctf_iter it;
	const struct rut_ctf_type *t;
	struct packet *p;

	s->packets = realloc(s->packets, (s->n + 1) * sizeof(*s->packets));
	p = &s->packets[s->n++];
	*p = (struct packet){.data = ev->data, .bytes = ev->packet->packet_bits / 8};
	t = rut_ctf_iter_init(&it, ev, RUT_CTF_SCOPE_PACKET_CONTEXT);
	if (t)
		find_times(p, &it, t);
	if (s->n == 1)
		s->first_clock = ev->packet->begin_clock;
	s->last_clock = ev->packet->end_clock;
}

static void read_stream(struct rut_ctf_set *set, size_t i, struct stream *s)
{
	struct rut_ctf_reader_opts opts = {.only_stream = (uint32_t)i + 1};
	const struct rut_ctf_event *ev;
	struct rut_err err = RUT_ERR_INIT;
	struct rut_ctf_reader *r;
	const uint8_t *last = NULL;

	if (rut_ctf_reader_new(&r, set, &opts, &err) < 0)
		die("reader", err.msg);
	while ((ev = rut_ctf_reader_next(r))) {
		const struct rut_ctf_type *t;
		struct rut_ctf_iter it;

		if (ev->data != last)
			take_packet(s, ev);
		last = ev->data;
		t = rut_ctf_iter_init(&it, ev, RUT_CTF_SCOPE_EVENT_HEADER);
		if (t)
			find_times(&s->packets[s->n - 1], &it, t);
	}
	rut_ctf_reader_free(r);
}

static void write_all(int fd, const void *data, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, (const char *)data + done, len - done);

		if (n < 0)
			die("write", strerror(errno));
		done += (size_t)n;
	}
}

static void write_stream(const struct stream *s, const char *path, uint64_t step,
			 unsigned int times)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	uint64_t seq = 0;

	if (fd < 0)
		die(path, strerror(errno));
	for (unsigned int round = 0; round < times; round++)
		for (size_t i = 0; i < s->n; i++, seq++) {
			const struct packet *p = &s->packets[i];
			uint8_t *copy = malloc(p->bytes);
			const uint64_t *at = (const uint64_t *)(const void *)p->times.data;

			memcpy(copy, p->data, p->bytes);
			for (size_t k = 0; k < p->times.len / 8; k++) {
				uint64_t v;

				memcpy(&v, copy + at[k], 8);
				v += round * step;
				memcpy(copy + at[k], &v, 8);
			}
			if (p->seq_at)
				memcpy(copy + p->seq_at, &seq, 8);
			write_all(fd, copy, p->bytes);
			free(copy);
		}
	close(fd);
}

static void copy_metadata(const char *source, const char *target)
{
	struct rut_buf b = RUT_BUF_INIT;
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/metadata", source);
	if (rut_buf_read_file(&b, path, 64 << 20) < 0)
		die(path, "cannot read");
	snprintf(path, sizeof(path), "%s/metadata", target);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (fd < 0)
		die(path, strerror(errno));
	write_all(fd, b.data, b.len);
	close(fd);
	rut_buf_fini(&b);
}

int main(int argc, char **argv)
{
	struct rut_ctf_set *set;
	struct rut_err err = RUT_ERR_INIT;
	struct stream *streams;
	uint64_t first = UINT64_MAX, last = 0, step;
	size_t n;

	if (argc != 4)
		die("usage", "gen_trace SOURCE TARGET TIMES");
	if (rut_ctf_set_open(&set, (const char *const *)&argv[1], 1, NULL, &err) < 0)
		die(argv[1], err.msg);
	if (rut_ctf_set_n_traces(set) != 1)
		die(argv[1], "more than one trace");
	n = rut_ctf_set_n_streams(set);
	streams = calloc(n, sizeof(*streams));
	for (size_t i = 0; i < n; i++) {
		read_stream(set, i, &streams[i]);
		if (streams[i].n && streams[i].first_clock < first)
			first = streams[i].first_clock;
		if (streams[i].n && streams[i].last_clock > last)
			last = streams[i].last_clock;
	}
	step = ((last - first) >> 32 << 32) + (1ull << 32);
	if (mkdir(argv[2], 0777) < 0 && errno != EEXIST)
		die(argv[2], strerror(errno));
	copy_metadata(rut_ctf_set_trace(set, 0)->path, argv[2]);
	for (size_t i = 0; i < n; i++) {
		const char *source = rut_ctf_set_stream(set, i)->path;
		char path[4096];

		snprintf(path, sizeof(path), "%s/%s", argv[2], strrchr(source, '/') + 1);
		write_stream(&streams[i], path, step, (unsigned int)atoi(argv[3]));
		for (size_t j = 0; j < streams[i].n; j++)
			rut_buf_fini(&streams[i].packets[j].times);
		free(streams[i].packets);
	}
	free(streams);
	rut_ctf_set_free(set);
	return 0;
}
