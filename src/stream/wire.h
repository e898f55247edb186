/* SPDX-License-Identifier: MIT */
/* The integers of LTTng's protocols: big-endian, unaligned. */
#ifndef RUT_STREAM_WIRE_H
#define RUT_STREAM_WIRE_H

#include <stdint.h>
#include <string.h>

#include "base/buf.h"

static inline void rut_be32_put(struct rut_buf *b, uint32_t v)
{
	v = __builtin_bswap32(v);
	rut_buf_add(b, &v, sizeof(v));
}

static inline void rut_be64_put(struct rut_buf *b, uint64_t v)
{
	v = __builtin_bswap64(v);
	rut_buf_add(b, &v, sizeof(v));
}

/* `at`: bytes from the begin of `data`, which must be long enough. */
static inline uint32_t rut_be32_at(const void *data, size_t at)
{
	uint32_t v;

	memcpy(&v, (const char *)data + at, sizeof(v));
	return __builtin_bswap32(v);
}

static inline uint64_t rut_be64_at(const void *data, size_t at)
{
	uint64_t v;

	memcpy(&v, (const char *)data + at, sizeof(v));
	return __builtin_bswap64(v);
}

#endif
