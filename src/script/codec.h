/* SPDX-License-Identifier: MIT */
/*
 * Writes values into a buffer, or reads them from one: the same calls describe both, so that what
 * is written is what is read. What is read is untrusted: a failure is kept, and gives zeros.
 */
#ifndef RUT_SCRIPT_CODEC_H
#define RUT_SCRIPT_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ctf/arena.h"

struct rut_codec {
	bool writing;
	bool failed;
	struct rut_buf out;	 /* writing; owned by the caller */
	const uint8_t *at, *end; /* reading; borrowed */
	struct rut_arena *arena; /* reading: where texts and arrays are */
};

void rut_codec_bytes(struct rut_codec *c, void *p, size_t size);
void rut_codec_u64(struct rut_codec *c, uint64_t *v);
void rut_codec_i64(struct rut_codec *c, int64_t *v);
void rut_codec_u32(struct rut_codec *c, uint32_t *v);
void rut_codec_bool(struct rut_codec *c, bool *v);
/* NULL is kept. */
void rut_codec_text(struct rut_codec *c, const char **s);
/* A number of things that take at least `least` bytes each: as many as there can be. */
void rut_codec_count(struct rut_codec *c, size_t *n, size_t least);
/* A number below `limit`. */
void rut_codec_index(struct rut_codec *c, uint32_t *v, size_t limit);

#endif
