/* SPDX-License-Identifier: MIT */
/*
 * Files mapped into memory that others may cut short meanwhile.
 *
 * Touching a page behind the new end raises SIGBUS. A handler, installed with the mapping,
 * puts pages of zeros there instead and marks the mapping, so that the reader can report it and go
 * on elsewhere. A SIGBUS at any other address takes its usual course.
 */
#ifndef RUT_CTF_FILE_H
#define RUT_CTF_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct rut_ctf_file {
	const uint8_t *data;	 /* the mapping, or NULL when empty */
	size_t size;		 /* bytes */
	int slot;		 /* in the handler's table; -1: none */
	const _Atomic bool *cut; /* a page was missing: what is read may be zeros; or NULL */
	bool consume;		 /* see rut_ctf_file_consume() */
};

/* Maps the whole file for reading, or to consume it. The caller unmaps it. Returns 0 or -errno. */
int rut_ctf_file_map(struct rut_ctf_file *f, const char *path, bool consume, struct rut_err *err);
void rut_ctf_file_unmap(struct rut_ctf_file *f);

static inline bool rut_ctf_file_was_cut(const struct rut_ctf_file *f)
{
	return f->cut && atomic_load_explicit(f->cut, memory_order_relaxed);
}

/* Advises the kernel that these bytes are read soon. */
void rut_ctf_file_expect(const struct rut_ctf_file *f, uint64_t from, uint64_t bytes);

/* Gives back the memory of these bytes (whole pages within); they can still be read. */
void rut_ctf_file_forget(const struct rut_ctf_file *f, uint64_t from, uint64_t to);

/* The same of what will not be read again: a file that is mapped to be consumed loses it. */
void rut_ctf_file_consume(const struct rut_ctf_file *f, uint64_t from, uint64_t to);

#endif
