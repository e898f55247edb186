/* SPDX-License-Identifier: MIT */
/* A provider in the DTrace Object Format, for systems whose kernel has DTrace: see dof.c. */
#ifndef RUT_USDT_DOF_H
#define RUT_USDT_DOF_H

#include <stddef.h>
#include <stdint.h>

#include "usdt/object.h"

struct rut_buf;

enum { RUT_USDT_DOF_VERSION_1 = 1, RUT_USDT_DOF_VERSION_APPLE = 3 };

/* A probe and where its code is in the process. */
struct rut_usdt_dof_probe {
	struct rut_usdt_desc desc;
	const char *function;	 /* what probefunc shows; borrowed */
	uint64_t address;	 /* the base of the two offsets */
	uint32_t site_offset;	 /* of the instruction that DTrace replaces */
	uint32_t enabled_offset; /* of the one that tells whether the probe is enabled */
};

/*
 * Appends the object (`out` is empty before), little-endian, 64-bit. Returns 0, -ENOMEM, or -EINVAL
 * for no probes, too many arguments or an unknown type.
 */
int rut_usdt_dof_build(unsigned version, const char *provider,
		       const struct rut_usdt_dof_probe *probes, size_t n, struct rut_buf *out);

#endif
