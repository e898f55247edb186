/* SPDX-License-Identifier: MIT */
/* What the files of the extension know of each other. */
#ifndef RUT_GEM_RB_EXT_H
#define RUT_GEM_RB_EXT_H

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>

#include "rutile/usdt.h"

/*
 * A provider of the library, kept alive by the Ruby objects of the provider and by those of its
 * tracepoints: the collector frees these in any order. The Ruby objects of one provider, one for
 * each ractor that declares in it, share the holder, which they find by the provider's name.
 */
struct holder {
	struct rutile_usdt_provider *provider; /* owned */
	int32_t enabled;		       /* atomic; by the main ractor; -1: not yet set */
	/* Under the lock of rb_provider.c. */
	uint32_t refs;
	bool listed;
	struct holder *next, *prev;
};

struct holder *holder_ref(struct holder *h);
void holder_unref(struct holder *h);

/* The holder of a Rutile::Provider; raises when it was not initialized. */
struct holder *provider_holder(VALUE provider);

/* Raises SystemCallError for -errno `rc`, naming what failed. */
NORETURN(void raise_errno(int rc, const char *what));

/* Raises TypeError when `tracepoint` is no Rutile::Tracepoint. */
void tracepoint_check(VALUE tracepoint);

/* Whether a tracer wants it now: one load. `tracepoint` was checked. */
bool tracepoint_is_traced(VALUE tracepoint);

/* The probe of a checked tracepoint, always the same one; borrowed from the tracepoint. */
struct rutile_usdt_probe *tracepoint_probe(VALUE tracepoint);

void init_listeners(VALUE module);
void init_span(VALUE module);
void init_provider(VALUE module);
void init_tracepoint(VALUE module);
void init_control(VALUE module);

#endif
