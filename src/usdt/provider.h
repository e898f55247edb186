/* SPDX-License-Identifier: MIT */
/* What the files of librutile-usdt know of each other: see the essay in provider.c. */
#ifndef RUT_USDT_PROVIDER_H
#define RUT_USDT_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rutile/usdt.h"
#include "usdt/ctl.h"

struct rut_usdt_probe {
	struct rutile_usdt_probe pub; /* first: the public pointer is this one */
	struct rutile_usdt_provider *provider;
	char *name; /* owned */
	enum rutile_usdt_type types[RUTILE_USDT_MAX_ARGS];
	unsigned n_types;
	bool on, deferred;
	volatile uint32_t *gate; /* in an object; NULL: not loaded */
	void *site;
	int fd;			    /* of the object; -1: not loaded */
	struct rut_usdt_slot *slot; /* in the control page, or own_slot */
	int slot_index;		    /* in the control page; -1: own_slot */
	struct rut_usdt_slot own_slot;
	/* Calls of rutile_usdt_fire() that began and that ended, ever; atomic. */
	uint64_t begun;
	uint64_t ended;
	uint64_t missed; /* of those: the gate closed meanwhile */
};

struct rut_usdt_object {
	int fd;
	uint64_t dev, ino; /* of fd, which the application may have closed behind our back */
	char *base;
	size_t size;
	uint32_t generation; /* of forks: other processes have the object if there were any since */
};

struct rutile_usdt_provider {
	char *name;			/* owned */
	struct rut_usdt_probe **probes; /* owned; in order of addition */
	size_t n_probes;
	struct rut_usdt_object *objects; /* owned */
	size_t n_objects;
	struct rutile_usdt_provider *next;
};

/* Guards everything but the firing; held across fork(). */
void rut_usdt_lock(void);
void rut_usdt_unlock(void);

/* All providers of the process; under the lock. */
struct rutile_usdt_provider *rut_usdt_providers(void);

/* All of these: under the lock. */
void rut_usdt_probe_switch(struct rut_usdt_probe *probe, bool on);
void rut_usdt_ctl_add(struct rut_usdt_probe *probe);
void rut_usdt_ctl_remove(struct rut_usdt_probe *probe);
/* Copies what changed of a probe to its slot. */
void rut_usdt_ctl_update(struct rut_usdt_probe *probe);
void rut_usdt_ctl_child(void);

/* The second path, in ring.c; all but the first under the lock. */
void rut_usdt_ring_write(const struct rut_usdt_probe *probe, const uint64_t *args);
/* Makes the ring if it is wanted and the kernel gives the memory; returns its descriptor or -errno.
 */
int rut_usdt_ring_make(void);
/* Opens or closes the high half of a probe's gate. */
void rut_usdt_ring_gate(struct rut_usdt_probe *probe, bool open);
/* Closes all gates, waits for those that write, and takes the ring away. */
void rut_usdt_ring_drop(void);
/* In the child of a fork: the ring is the parent's. */
void rut_usdt_ring_child(void);
/* Of src/usdt/provider.c. */
void rut_usdt_wait_until_idle(const struct rut_usdt_probe *probe);
/* The number of forks that this process did or came from. */
uint32_t rut_usdt_generation(void);

/* A memfd that may be executed where the kernel wants to be told so, never 0, 1 or 2; or -errno. */
int rut_usdt_memfd(const char *name, bool exec);

#endif
