/* SPDX-License-Identifier: MIT */
/*
 * Stacks are stored once each, in a table (bpf/stack.h); records hold their numbers. They are
 * written as events into the directory whose records refer to them: now and then while it is
 * written, because the table evicts, and all that is left at its end, when it is known which there
 * are. Kernel functions get their names here, because the running kernel is the one that knows
 * them; user addresses are left to the reader.
 */
#ifndef RUT_SESSION_STACKS_H
#define RUT_SESSION_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/stack.h"

struct rut_recorder;
struct rut_statedump;

/* Places of the tables of stacks and of Ruby code: what `written` has below. */
size_t rut_stacks_places(const struct rut_recorder *r);

/*
 * A directory begins: it has the records from `since_ns` on, and none of their stacks yet.
 * `written` remembers which it gets: a number for each place of the table, the caller's.
 */
void rut_stacks_begin(struct rut_recorder *r, uint64_t since_ns, uint64_t *written);

/* Stacks that ever came into the table: when it has not grown there are no new ones to write. */
uint64_t rut_stacks_new(const struct rut_recorder *r);

/*
 * Writes the stacks that were used since then as rutile_stack events: all of them, or (`written`,
 * NULL-able) those that the directory has not got yet. Those for which there was no room come with
 * the next call.
 */
void rut_stacks_write(struct rut_statedump *s, struct rut_recorder *r, uint64_t since_ns,
		      uint64_t *written);

/*
 * The same with the table of another machine's session: its kernel's names are not known here.
 * Nothing in it is trusted. Returns how many there were.
 */
size_t rut_stacks_write_table(struct rut_statedump *s, const struct rut_stack_set *sets,
			      size_t nsets, const uint8_t uuid[16], uint64_t since_ns);

#endif
