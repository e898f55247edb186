/* SPDX-License-Identifier: MIT */
/*
 * Traces of CTF 1.8 in directories of their own: streams of one class with a 64-bit clock in
 * nanoseconds that begins at 100 s. What fails, fails the test.
 */
#ifndef RUT_TESTS_CTF_DIR_H
#define RUT_TESTS_CTF_DIR_H

#include "base/log.h"
#include "ctf/reader.h"
#include "ctf_writer.h"

struct dir {
	char path[64];
};

struct packet {
	uint64_t content_at, size_at;
};

void make_dir(struct dir *d);
void remove_dir(struct dir *d);
char *in_dir(const struct dir *d, const char *name);
void put_file(const struct dir *d, const char *name, const void *data, size_t len);
/* The metadata before its events. */
void preamble(char *text, size_t size, bool be);
void put_metadata(const struct dir *d, bool be, const char *events);
void begin_packet(struct rut_ctf_writer *w, struct packet *p, uint64_t begin, uint64_t end,
		  uint64_t lost, uint64_t seq, uint32_t cpu);
void end_packet(struct rut_ctf_writer *w, const struct packet *p, size_t bytes);
void put_header(struct rut_ctf_writer *w, uint32_t id, uint64_t ts);
struct rut_ctf_set *open_dir(const struct dir *d);
struct rut_ctf_reader *open_reader(struct rut_ctf_set *set, const struct rut_ctf_reader_opts *opts);
/* `n` streams of `packets` packets of 10 events; each event has v = its time. */
void write_streams(const struct dir *d, int n, int packets);

/* The last message, where keep_log() is the log's sink. */
extern char last_log[1024];
void keep_log(enum rut_log_level level, const char *msg, void *arg);

#endif
