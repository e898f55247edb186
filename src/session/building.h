/* SPDX-License-Identifier: MIT */
/*
 * An event that is added by name, in the making: begin, fill in its fields, load its program,
 * describe it in the metadata, attach the program and keep the links, finish. finish() undoes all
 * of it after an error.
 */
#ifndef RUT_SESSION_BUILDING_H
#define RUT_SESSION_BUILDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/probe.h"
#include "probe/arg.h"
#include "session/recorder.h"

struct bpf_link;
struct bpf_object;
struct bpf_program;

struct rut_building {
	struct rut_recorder *r;
	struct rut_probe_conf conf;
	struct rut_event event;
	char title[256];
	struct rut_arg_spec specs[RUT_PROBE_ARGS];
	const char *spec;	/* as the user wrote it */
	bool again;		/* described already: only attach */
	bool known;		/* the metadata has this very class already */
	struct bpf_object *obj; /* owned until it is kept */
};

/* `id` is 0, or that of an event which the metadata describes already. */
void rut_building_begin(struct rut_building *b, struct rut_recorder *r, const char *spec,
			uint32_t id);

/* One more field of the event; beyond RUT_FIELDS_MAX it is dropped. `name` is borrowed. */
void rut_building_add_field(struct rut_building *b, enum rut_field_kind kind, uint32_t count,
			    const char *name);

/* Loads the object with one of its programs, which *ret borrows. Returns 0 or -errno. */
int rut_building_load(struct rut_building *b, const char *program, struct bpf_program **ret,
		      struct rut_err *err);

/* Describes the event in the shared metadata, with the words that attach it again. 0 or -errno. */
int rut_building_describe(struct rut_building *b, struct rut_err *err);

/* Hands link `i` of the event to the recorder; destroys it on failure. */
int rut_building_keep_link(struct rut_building *b, struct bpf_link *link, size_t i,
			   struct rut_err *err);

/* Hands the object to the recorder when `rc` is 0, else undoes what was done. Returns `rc`. */
int rut_building_finish(struct rut_building *b, int rc);

/* The name by which the object of an event is found again. */
void rut_building_object_name(char ret[24], uint32_t id);

/* Fails with -E2BIG: there is no room for `n` more events. */
int rut_building_too_many(size_t n, struct rut_err *err);

#endif
