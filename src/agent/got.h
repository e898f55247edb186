/* SPDX-License-Identifier: MIT */
/*
 * Where Ruby's library keeps the address of one of its own functions.
 *
 * A library that is linked in the usual way calls its exported functions through the global offset
 * table (GOT), so that a program can replace them. Libraries linked with -Bsymbolic-functions, and
 * Ruby linked into its program, call them directly: then there is no slot.
 */
#ifndef RUT_AGENT_GOT_H
#define RUT_AGENT_GOT_H

#include <stdbool.h>
#include <stdint.h>

struct rut_got_slot {
	uintptr_t *at;	/* NULL: there is none */
	bool read_only; /* the loader has write-protected it (RELRO) */
};

/* The slot of this function in the library that defines it. */
struct rut_got_slot rut_agent_got_find(const void *function, const char *name);

/* Stores an address in one step; threads that run call the old function or the new one. False: the
 * page cannot be made writable. */
bool rut_agent_got_set(struct rut_got_slot slot, uintptr_t function);

#endif
