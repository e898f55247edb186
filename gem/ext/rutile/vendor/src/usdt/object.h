/* SPDX-License-Identifier: MIT */
/* The ELF object of a provider: see the essay in object.c. */
#ifndef RUT_USDT_OBJECT_H
#define RUT_USDT_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "rutile/usdt.h"

struct rut_buf;

enum rut_usdt_arch { RUT_USDT_X86_64, RUT_USDT_AARCH64 };

#if defined(__x86_64__)
#define RUT_USDT_ARCH RUT_USDT_X86_64
#elif defined(__aarch64__)
#define RUT_USDT_ARCH RUT_USDT_AARCH64
#endif

/* Bytes between two sites, and between two gates (of which the first two are the semaphore). */
enum { RUT_USDT_SITE_BYTES = 16, RUT_USDT_GATE_BYTES = 4 };

struct rut_usdt_desc {
	const char *name; /* borrowed */
	const enum rutile_usdt_type *types;
	unsigned n_types;
};

/* Offsets in the image; as file offsets and addresses are the same, this is all a loader needs. */
struct rut_usdt_layout {
	size_t text;   /* first site */
	size_t gates;  /* first gate, at the start of a page: mapped private and writable */
	size_t rx_len; /* bytes to map readable and executable from offset 0; whole pages */
	size_t rw_len; /* bytes to map readable and writable from `gates`; whole pages */
	size_t size;   /* of everything that is mapped: rx_len + rw_len */
};

/* The largest page size of the architecture: segments are aligned to it. */
size_t rut_usdt_page_bytes(enum rut_usdt_arch arch);

/*
 * Appends the object to `out` (empty before). Returns 0, -ENOMEM, or -EINVAL for no probes, a
 * probe with too many arguments or an unknown type.
 */
int rut_usdt_object_build(enum rut_usdt_arch arch, const char *provider,
			  const struct rut_usdt_desc *probes, size_t n, struct rut_buf *out,
			  struct rut_usdt_layout *ret_layout);

/*
 * The argument part of a probe's note: "-8@%rdi 8@%rsi". Appended to `out`; returns 0 or -EINVAL.
 */
int rut_usdt_object_args(enum rut_usdt_arch arch, const enum rutile_usdt_type *types, unsigned n,
			 struct rut_buf *out);

#endif
