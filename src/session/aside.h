/* SPDX-License-Identifier: MIT */
/*
 * What is known at the end only, but wanted at the begin: it is written through a ring of its own,
 * in the caller's memory; its packets become a stream beside those of the CPUs.
 */
#ifndef RUT_SESSION_ASIDE_H
#define RUT_SESSION_ASIDE_H

#include <stddef.h>
#include <stdint.h>

struct rut_statedump;

struct rut_aside {
	const uint8_t *uuid;
	uint64_t contexts; /* enum rut_context */
	uint32_t ncpus;	   /* the stream's number */
	uint64_t at_ns;	   /* the time of all records */
	/* Takes one packet; what it returns below 0 ends it all. */
	int (*write)(const unsigned char *packet, uint64_t records, void *arg);
	void *arg;
};

/* Writes what `fn` emits. Returns 0, -ENOMEM or what `write` returned. From one thread at a time.
 */
int rut_aside_write(const struct rut_aside *aside, void (*fn)(struct rut_statedump *s, void *arg),
		    void *arg);

#endif
