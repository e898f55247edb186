/* SPDX-License-Identifier: MIT */
/*
 * How the records of one stream class are passed, for one reader: a short entry for each event ID,
 * so that a record of an unwanted class of fixed size costs its header, one look and one addition.
 */
#ifndef RUT_CTF_FLAT_H
#define RUT_CTF_FLAT_H

#include "ctf/meta.h"

enum rut_flat_how {
	RUT_FLAT_SKIP,	    /* of fixed size, not wanted */
	RUT_FLAT_TAKE,	    /* of fixed size, wanted */
	RUT_FLAT_WALK,	    /* its program must run; not wanted */
	RUT_FLAT_WALK_TAKE, /* ... wanted; the program saves no values */
	RUT_FLAT_WALK_LAST, /* ... wanted; saves values, which the next record may overwrite */
	RUT_FLAT_UNKNOWN,   /* there is no such class */
};

struct rut_flat_class {
	uint32_t bytes; /* of the record's body, where the size is fixed */
	uint32_t index; /* of the class in the set */
	uint16_t mask;	/* the body's alignment in bytes - 1 */
	uint16_t how;	/* enum rut_flat_how */
};

/*
 * The two headers that LTTng writes on machines that read words anywhere, where also no field of
 * any event is aligned: all that is not constant in such a record is the class.
 */
enum rut_flat_packed {
	RUT_FLAT_NOT_PACKED,
	RUT_FLAT_PACKED_COMPACT,
	RUT_FLAT_PACKED_LARGE,
};

static const struct rut_ctf_header_plan rut_flat_compact = {.kind = RUT_CTF_HEADER_COMPACT,
							    .align = 8,
							    .max_bytes = 13,
							    .id_off = 1,
							    .id_size = 4,
							    .ts_off = 5,
							    .ts_size = 8,
							    .len = 13,
							    .short_len = 4};
static const struct rut_ctf_header_plan rut_flat_large = {.kind = RUT_CTF_HEADER_LARGE,
							  .align = 8,
							  .max_bytes = 14,
							  .id_off = 2,
							  .id_size = 4,
							  .ts_off = 6,
							  .ts_size = 8,
							  .len = 14,
							  .short_ts_off = 2,
							  .short_len = 6};

struct rut_flat {
	const struct rut_ctf_stream_class *sc; /* borrowed */
	enum rut_flat_packed packed;
	size_t n; /* as many as have an entry in by_id */
	struct rut_flat_class classes[];
};

/* `wanted` is by index of the class; NULL: all are. The caller frees it. NULL: out of memory. */
struct rut_flat *rut_flat_new(const struct rut_ctf_stream_class *sc, const uint8_t *wanted);

#endif
