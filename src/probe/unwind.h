/* SPDX-License-Identifier: MIT */
/*
 * The unwind tables of an ELF file (.eh_frame) as rows that a program in the kernel can search
 * (bpf/unwind.h). x86-64 only. The file can be anybody's: nothing in it is trusted.
 */
#ifndef RUT_PROBE_UNWIND_H
#define RUT_PROBE_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/unwind.h"

struct rut_unwind_segment {
	uint64_t offset, bytes, address; /* of code: in the file, and as the file has it */
};

struct rut_unwind_function {
	uint32_t start, end;
};

struct rut_unwind_table {
	struct rut_unwind_row *rows; /* by address; owned */
	size_t nrows;
	struct rut_unwind_function *functions; /* by address; owned */
	size_t nfunctions;
	struct rut_unwind_segment segments[8];
	size_t nsegments;
};

/* Reads the file. 0; -ENOEXEC: it is no 64-bit ELF file; -ENODATA: it has no such tables, only
 * segments are read; -errno. Call fini in every case. */
int rut_unwind_read(struct rut_unwind_table *t, int fd);

/* The same of a file in memory, all of it. */
int rut_unwind_read_image(struct rut_unwind_table *t, const void *image, size_t bytes);
void rut_unwind_fini(struct rut_unwind_table *t);

/* The function that an address lies in, or NULL. */
const struct rut_unwind_function *rut_unwind_function_at(const struct rut_unwind_table *t,
							 uint64_t address);

#endif
