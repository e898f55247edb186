/* SPDX-License-Identifier: MIT */
/*
 * Core dumps of processes (64-bit ELF), by gcore or the kernel: what memory is in them, by address.
 * The file is mapped, nothing in it is trusted, and one that is cut off gives what it has.
 */
#ifndef RUT_BASE_CORE_H
#define RUT_BASE_CORE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rut_err;

struct rut_core_segment {
	uint64_t address;
	const unsigned char *data; /* borrowed from the map */
	size_t bytes;
};

struct rut_core {
	pid_t pid;	    /* 0: not known */
	char name[17];	    /* of the process */
	unsigned char *map; /* owned */
	size_t map_bytes;
	struct rut_core_segment *segments; /* owned; by address, never overlapping */
	size_t count;
};

/* Returns 0 or -errno; -ENOEXEC: it is no core of a process (perhaps a dump of a whole kernel). */
int rut_core_open(struct rut_core **ret, const char *path, struct rut_err *err);

/* `len` bytes of memory at an address, or NULL when they are not all there. Any alignment. */
const unsigned char *rut_core_at(const struct rut_core *c, uint64_t address, size_t len);

/* Copies memory at an address, as much as is there; the rest of `to` is left as it is. */
void rut_core_copy(const struct rut_core *c, uint64_t address, void *to, size_t len);

void rut_core_free(struct rut_core *c);

#endif
