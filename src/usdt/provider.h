/* SPDX-License-Identifier: MIT */
/* What the files of librutile-usdt know of each other: see the essay in provider.c. */
#ifndef RUT_USDT_PROVIDER_H
#define RUT_USDT_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rutile/usdt.h"
#include "usdt/ctl.h"

struct rut_usdt_arena;

struct rut_usdt_probe {
	struct rutile_usdt_probe pub; /* first: the public pointer is this one */
	struct rutile_usdt_provider *provider;
	char *name;	 /* owned */
	char *arg_names; /* owned; NULL: none; separated by commas */
	enum rutile_usdt_type types[RUTILE_USDT_MAX_ARGS];
	unsigned n_types;
	bool on, deferred;
	struct rut_usdt_arena *arena; /* where its site is reserved; NULL: nowhere yet */
	uint32_t site_index;
	volatile uint32_t *gate; /* in the arena; NULL: not loaded */
	void *site;
	uint64_t *counts; /* atomic; in the slot, or own_counts */
	uint64_t own_counts[RUTILE_USDT_COUNTS];
	struct rut_usdt_slot *slot;	 /* in the control page; NULL: none */
	int slot_index;			 /* in the control page; -1: none */
	struct rut_usdt_probe *replaced; /* in the provider's list */
	/* Calls of rutile_usdt_fire() that began and that ended, ever; atomic. */
	uint64_t begun;
	uint64_t ended;
	uint64_t missed; /* of those: the gate closed meanwhile */
};

struct rutile_usdt_provider {
	char *name;			/* owned */
	struct rut_usdt_probe **probes; /* owned; in order of addition */
	size_t n_probes;
	size_t n_loaded; /* the first ones, which need not be considered by the next load */
	bool loaded;
	uint32_t *names; /* owned; a hash table of indices + 1 into probes; 0: free */
	size_t names_mask;
	struct rut_usdt_probe *replaced; /* owned; declared again with other types */
	struct rutile_usdt_provider *next;
};

/* The name of the memfd that an arena is in. */
#define RUT_USDT_OBJECT_NAME "rutile-usdt"

/* Guards everything but the firing; held across fork(). */
void rut_usdt_lock(void);
void rut_usdt_unlock(void);

/* All providers of the process; under the lock. */
struct rutile_usdt_provider *rut_usdt_providers(void);

/* 1 to RUTILE_USDT_NAME_MAX printable characters, no blank, no colon. */
bool rut_usdt_name_is_valid(const char *name);
/* A probe that is in no list, unloaded. */
void rut_usdt_probe_free(struct rut_usdt_probe *probe);
/* What `pub.gate` points to while a probe cannot be fired. */
extern const volatile uint32_t rut_usdt_closed_gate;

/* All of these: under the lock. */
/* Unloads a probe for good, and gives its site back. */
void rut_usdt_probe_retire(struct rut_usdt_probe *probe);
void rut_usdt_probe_switch(struct rut_usdt_probe *probe, bool on);
void rut_usdt_ctl_add(struct rut_usdt_probe *probe);
void rut_usdt_ctl_remove(struct rut_usdt_probe *probe);
/* Copies what changed of a probe to its slot. */
void rut_usdt_ctl_update(struct rut_usdt_probe *probe);
/* The same for the names of the arguments. */
void rut_usdt_ctl_rename(struct rut_usdt_probe *probe);
void rut_usdt_ctl_child(void);
/* The descriptor of the file that has a loaded probe; -1: none. */
int rut_usdt_probe_fd(const struct rut_usdt_probe *probe);

/* The time of an event and what depends on it. */
struct rut_usdt_timing {
	uint64_t start_ns;
	uint64_t *duration; /* borrowed, one of the arguments, or NULL: receives now - start_ns */
	uint64_t ns;	    /* of the event; 0: not yet known */
};

/*
 * The second path, in ring.c; all but the first two under the lock. `seats`: a bit each. `timing`,
 * where not NULL, receives the time that was recorded.
 */
void rut_usdt_ring_write(struct rut_usdt_probe *probe, const uint64_t *args, uint32_t seats,
			 struct rut_usdt_timing *timing);
/* The seats that have a ring. */
uint32_t rut_usdt_ring_mask(void);
/* Makes a seat's ring if the kernel gives the memory; returns its descriptor or -errno. */
int rut_usdt_ring_make(unsigned seat);
/* Sets the high half of a probe's gate to the rings that are there and want it. */
void rut_usdt_ring_gate(struct rut_usdt_probe *probe);
/* Closes the gates, waits for threads that write, and takes the rings away. */
void rut_usdt_rings_drop(uint32_t seats);
/* In the child of a fork: the rings are the parent's. */
void rut_usdt_rings_child(void);
/* Of src/usdt/provider.c. */
void rut_usdt_wait_until_idle(const struct rut_usdt_probe *probe);
/* The number of forks that this process did or came from. */
uint32_t rut_usdt_generation(void);

/* rutile_usdt_probe_note() by the library itself. */
void rut_usdt_probe_note(struct rut_usdt_probe *probe, enum rutile_usdt_count what);

/*
 * A memfd of this size, which may be executed where the kernel requires that to be declared. Its
 * number is never 0, 1 or 2. Returns -errno; -EFBIG when the limit of file sizes is lower.
 */
int rut_usdt_memfd(const char *name, bool exec, size_t bytes);

#endif
