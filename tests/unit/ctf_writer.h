/* SPDX-License-Identifier: MIT */
/*
 * Writing stream files and metadata of any shape: for tests of the
 * reader.
 *
 * A packet is put together in memory, field by field, in either byte order; sizes and times that
 * are known late are patched. Metadata is text of the caller's.
 */
#ifndef RUT_TESTS_CTF_WRITER_H
#define RUT_TESTS_CTF_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct rut_ctf_writer {
	int fd; /* owned; -1: none, packets can be taken from `packet` */
	bool big_endian;
	struct rut_buf packet; /* the packet so far */
	uint64_t pos;	       /* bits of it */
	int error;	       /* the first one, -errno */
};

/* Makes (or empties) the file; a NULL path keeps packets in memory. Returns 0 or -errno. */
int rut_ctf_writer_open(struct rut_ctf_writer *w, const char *path, bool big_endian,
			struct rut_err *err);
/* Closes the file. Returns the first error of all calls, or 0. */
int rut_ctf_writer_close(struct rut_ctf_writer *w);

/* Pads with zero bits. `align` is a power of two. */
void rut_ctf_writer_align(struct rut_ctf_writer *w, uint32_t align);
/* Aligns, then appends the low `bits` (1 to 64) of v. Returns the bit where they begin. */
uint64_t rut_ctf_writer_put(struct rut_ctf_writer *w, uint64_t v, unsigned int bits,
			    uint32_t align);
void rut_ctf_writer_bytes(struct rut_ctf_writer *w, const void *data, size_t len);
/* With its NUL. */
void rut_ctf_writer_string(struct rut_ctf_writer *w, const char *s);
/* Overwrites what stands at a bit that rut_ctf_writer_put() returned. */
void rut_ctf_writer_patch(struct rut_ctf_writer *w, uint64_t pos, uint64_t v, unsigned int bits);

/* Pads to `bytes` (0: to a whole byte) and writes the packet to the file; the next one begins. */
void rut_ctf_writer_end_packet(struct rut_ctf_writer *w, size_t bytes);

/* Puts metadata into packets, as LTTng does, at most `max` bytes of text in each. */
void rut_ctf_pack_metadata(struct rut_buf *out, const char *text, size_t len, size_t max,
			   const uint8_t uuid[16], bool big_endian);

#endif
