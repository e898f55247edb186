/* SPDX-License-Identifier: MIT */
/*
 * Where the programs of a script in a session leave what they print: an array of slots that are
 * used in a circle, so that it holds the latest records and needs no reader. A program takes a
 * number, and with it a slot, which it marks while it writes; a slot that is taken by a program
 * which was preempted for a whole lap is left alone, and the record is lost and counted. Any
 * process reads without changing anything: a slot holds record n when its number is n + 1, before
 * and after it was copied.
 */
#ifndef RUT_SCRIPT_JOURNAL_H
#define RUT_SCRIPT_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "script/program.h"

struct rut_err;
struct rut_script_program;

struct rut_script_slot {
	uint64_t taken;	 /* not 0: being written */
	uint64_t number; /* of the record, from 1; 0: none */
	uint64_t next;	 /* the number that it gets */
	struct rut_script_event event;
};

struct rut_script_journal {
	const unsigned char *slots; /* mapped; NULL: the script prints nothing */
	const uint64_t *counters;   /* mapped */
	size_t slots_bytes, counters_bytes, slot_bytes;
	uint64_t count;	     /* of slots, a power of two */
	uint64_t pos;	     /* the next number to read, from 0 */
	uint64_t hole_ns;    /* since when record `pos` is missing */
	uint64_t lapped;     /* records overwritten before they were read, or unfinished then */
	unsigned char *copy; /* of a slot; owned */
};

/* How many slots there are for records of that size, header included. */
uint32_t rut_script_journal_slots(uint32_t record_bytes);
uint32_t rut_script_journal_slot_bytes(uint32_t record_bytes);

/* Maps the journal and the counters of a loaded or adopted program. 0 or -errno. */
int rut_script_journal_open(struct rut_script_journal *j, const struct rut_script_program *p,
			    struct rut_err *err);
void rut_script_journal_close(struct rut_script_journal *j);

/* Records printed since the script was loaded, and which is the oldest that may still be there. */
uint64_t rut_script_journal_head(const struct rut_script_journal *j);
uint64_t rut_script_journal_oldest(const struct rut_script_journal *j);

/*
 * Calls `fn` for each record from `pos` on, in order. With `wait` it ends at one that is being
 * written: a later call continues there. Otherwise it is skipped, and counted as lapped.
 */
void rut_script_journal_read(struct rut_script_journal *j, bool wait,
			     void (*fn)(void *arg, const struct rut_script_event *e, size_t size),
			     void *arg);

#endif
