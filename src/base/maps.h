/* SPDX-License-Identifier: MIT */
/* The mappings of a process, from /proc/PID/maps. */
#ifndef RUT_BASE_MAPS_H
#define RUT_BASE_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct rut_mapping {
	uint64_t start, end, offset; /* bytes */
	uint64_t inode;		     /* 0: of no file */
	uint32_t dev_major, dev_minor;
	bool read, write, exec, shared;
	bool deleted;	  /* " (deleted)" was behind the path, and is not in it */
	const char *path; /* borrowed from the line; "" when anonymous; may have spaces */
};

/* One line without its end, which it changes. Returns false for what is none. */
bool rut_mapping_parse(char *line, struct rut_mapping *ret);

/* The path as the kernel shows it: with " (deleted)", which keeps anybody from opening another
 * file. */
void rut_mapping_name(const struct rut_mapping *m, char *ret, size_t size);

/* Opens the file itself, in containers and when its path is another file's by now, too; regular
 * files only. Returns a descriptor, which the caller owns, or -1. */
int rut_mapping_open(pid_t pid, const struct rut_mapping *m);

/* The mappings one after another. */
struct rut_maps {
	FILE *file; /* owned; NULL: the process has exited, or is not ours to read */
	char *line; /* owned */
	size_t room;
};

#define RUT_MAPS_INIT                                                                              \
	{                                                                                          \
	}

/* Returns 0 or -errno. */
int rut_maps_open(struct rut_maps *maps, pid_t pid);

/* Returns false at the end. ret->path holds until the next call. */
bool rut_maps_next(struct rut_maps *maps, struct rut_mapping *ret);

void rut_maps_fini(struct rut_maps *maps);

#define _cleanup_maps_ __attribute__((cleanup(rut_maps_fini)))

#endif
