/* SPDX-License-Identifier: MIT */
/* The ELF file that tracers read: see the essay in object.c. */
#ifndef RUT_USDT_OBJECT_H
#define RUT_USDT_OBJECT_H

#include <stdbool.h>
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

/* Bytes between two sites, and between two gates (the first two bytes are the semaphore). */
enum { RUT_USDT_SITE_BYTES = 16, RUT_USDT_GATE_BYTES = 4 };

struct rut_usdt_desc {
	const char *name; /* borrowed */
	const enum rutile_usdt_type *types;
	unsigned n_types;
};

/* Offsets in the file; in the mapped part, addresses are file offsets. */
struct rut_usdt_layout {
	size_t text;   /* first site */
	size_t gates;  /* first gate, at the start of a page: mapped private and writable */
	size_t rx_len; /* bytes to map readable and executable from offset 0; whole pages */
	size_t rw_len; /* bytes to map readable and writable from `gates`; whole pages */
	size_t size;   /* of everything that is mapped: rx_len + rw_len */
	/* Read by tracers only, never mapped for execution. */
	size_t sections, symtab, strtab, notes;
	size_t strtab_cap, notes_cap;
	size_t file_bytes; /* of the whole file, most of which is a hole */
};

/* The file under construction: the only writer's view of it. */
struct rut_usdt_image {
	enum rut_usdt_arch arch;
	unsigned char *mem; /* borrowed: at.file_bytes bytes, zero at first */
	uint32_t sites;	    /* how many there is room for */
	uint32_t filled;    /* sites with their code written */
	uint32_t n_symbols;
	size_t strtab_len, notes_len;
	uint64_t build[2];
	struct rut_usdt_layout at;
	struct rut_usdt_strings *strings; /* owned; one a site */
};

/* The largest page size of the architecture: segments are aligned to it. */
size_t rut_usdt_page_bytes(enum rut_usdt_arch arch);

/* Where everything is in a file for this many sites. */
void rut_usdt_layout_of(enum rut_usdt_arch arch, uint32_t sites, struct rut_usdt_layout *ret);

/*
 * Starts a file in `mem` (borrowed; zeros; as many bytes as the layout says). `unique` becomes the
 * start of the build ID. Returns 0 or -ENOMEM; the caller calls fini.
 */
int rut_usdt_image_init(struct rut_usdt_image *img, enum rut_usdt_arch arch, uint32_t sites,
			void *mem, uint64_t unique);
void rut_usdt_image_fini(struct rut_usdt_image *img);

/*
 * Describes a probe at a site that has no description. Readers see the probe at once. Returns 0,
 * -ENOMEM, -ENOSPC when the file is full, or -EINVAL for too many arguments or an unknown type.
 */
int rut_usdt_image_add(struct rut_usdt_image *img, uint32_t site, const char *provider,
		       const struct rut_usdt_desc *desc);

/*
 * Removes the descriptions of all sites for which `gone` returns true. The cost is linear in the
 * number of descriptions, so remove many at once. The code at the sites stays.
 */
void rut_usdt_image_remove(struct rut_usdt_image *img, bool (*gone)(uint32_t site, void *arg),
			   void *arg);

/*
 * The argument part of a probe's note: "-8@%rdi 8@%rsi". Appended to `out`; returns 0 or -EINVAL.
 */
int rut_usdt_object_args(enum rut_usdt_arch arch, const enum rutile_usdt_type *types, unsigned n,
			 struct rut_buf *out);

#endif
