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

#include <stdbool.h>
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

/* How far the metadata of a process is. */
struct rut_record_grown {
	size_t generations;
	size_t text;	 /* bytes of it */
	size_t labels;	 /* bytes of all labels so far */
	size_t labelled; /* of those that are in it */
};

/*
 * Is it time for a generation, `age_ns` after the last one? A later one may repeat all labels, and
 * each one writes the whole text again: they are the rarer the longer that is.
 */
bool rut_record_generation_due(const struct rut_record_grown *g, uint64_t age_ns);

/* No further generation is to follow: numbers, or memory, would not suffice. */
bool rut_record_generations_full(const struct rut_record_grown *g);

/*
 * Gives the records of a packet, without its head, their generations' numbers. What is no record
 * ends it: the memory was another process's.
 */
void rut_record_renumber(unsigned char *records, size_t len,
			 const struct rut_record_generations *g);

#endif
