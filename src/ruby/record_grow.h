/* SPDX-License-Identifier: MIT */
/*
 * Names in metadata that can only be continued, as that of a trace that is sent by LTTng's relay
 * protocol.
 *
 * An enumeration cannot get labels later. So the names that came since the last time are a
 * generation: an enumeration of its own, and the event classes once more, with other numbers and
 * this enumeration. A record gets the number of the generation that has the name of its method.
 */
#ifndef RUT_RUBY_RECORD_GROW_H
#define RUT_RUBY_RECORD_GROW_H

#include <stddef.h>
#include <stdint.h>

/* Event classes of a generation; a record's number has 16 bits. */
#define RUT_RECORD_IDS	       32
#define RUT_RECORD_GENERATIONS 2047

struct rut_record_generations {
	uint32_t *ends; /* of each: the number behind its last row; owned */
	size_t n;
};

/* Adds one. Returns 0 or -ENOMEM. */
int rut_record_generations_add(struct rut_record_generations *g, uint32_t end);

/*
 * Gives the records of a packet, without its head, their generations' numbers. What is no record
 * ends it: the memory was another process's.
 */
void rut_record_renumber(unsigned char *records, size_t len,
			 const struct rut_record_generations *g);

#endif
