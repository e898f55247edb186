/* SPDX-License-Identifier: MIT */
/* How many sub-buffers of which size the rings of a session have. */
#ifndef RUT_SESSION_SIZES_H
#define RUT_SESSION_SIZES_H

#include <stdint.h>

#include "session/conf.h"

struct rut_err;

#define RUT_SUBBUF_MIN (16u << 10)
#define RUT_SUBBUF_MAX (4u << 20)  /* of every kernel */
#define RUT_SUBBUF_BIG (64u << 20) /* where maps may have such elements */

/* What a machine has. */
struct rut_sizes_limits {
	int ncpus;
	uint64_t memory_bytes; /* at most half of it is taken */
	uint64_t subbuf_bytes; /* RUT_SUBBUF_MAX or RUT_SUBBUF_BIG */
};

struct rut_sizes {
	uint32_t shift; /* log2 of a sub-buffer's bytes */
	uint32_t count; /* sub-buffers of a CPU, a power of two */
	char note[200]; /* why less is taken than was asked for; "": it is not */
};

/*
 * Chooses 2^n sub-buffers of 2^k bytes a CPU, as many as fit into conf->buffer_bytes (0: 16 MiB a
 * CPU). -EINVAL: not even two sub-buffers a CPU fit.
 */
int rut_sizes_choose(struct rut_sizes *ret, const struct rut_record_conf *conf,
		     const struct rut_sizes_limits *limits, struct rut_err *err);

#endif
