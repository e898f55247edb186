/* SPDX-License-Identifier: MIT */
/* The eBPF programs of a session: loading them over its maps, attaching, pinning the links. */
#ifndef RUT_SESSION_PROGRAMS_H
#define RUT_SESSION_PROGRAMS_H

#include "session/recorder.h"

/*
 * Loads the programs that `wanted` needs; nothing is attached yet. May be called again for more.
 * The events of a program that this kernel refuses are left out of `wanted` and of the session,
 * with a warning that has the reason; with conf.strict that is an error.
 */
int rut_programs_load(struct rut_recorder *r, struct rut_selection *wanted, struct rut_err *err);

/* The constants of the session, for an object's read-only data; and its maps into the object. */
int rut_programs_prepare(const struct rut_recorder *r, struct bpf_object *obj,
			 struct rut_bpf_conf *conf, struct rut_err *err);

/* Where an object that is not loaded yet keeps the constant of that name, or NULL. */
void *rut_programs_constant(struct bpf_object *obj, const char *name);

/* What the filter says of each class, into an object's own table. */
int rut_programs_fill_classes(struct bpf_object *obj, const struct rut_filter *f,
			      struct rut_err *err);

/* Takes over an object, which is freed with the recorder. */
int rut_programs_keep(struct rut_recorder *r, struct bpf_object *obj);

/* Takes over a link; `name` is unique in the session, and its name when pinned. */
int rut_programs_keep_link(struct rut_recorder *r, struct bpf_link *link, const char *name);

/* Detaches the links with names that begin so, which are not pinned yet. */
void rut_programs_drop_links(struct rut_recorder *r, const char *prefix);

/* Sends the messages of libbpf to the log. */
void rut_programs_quiet(void);

/* Attaches what was loaded and is not attached. */
int rut_programs_attach(struct rut_recorder *r, struct rut_err *err);

/* Detaches what records nothing of `sel`. */
void rut_programs_detach_unwanted(struct rut_recorder *r, const struct rut_selection *sel);

/* Detaches all. Links that are pinned go on by themselves: unpin them first. */
void rut_programs_detach(struct rut_recorder *r);

/* Whether a program that records event `id` also records something of `sel`, or follows forks. */
bool rut_programs_shared(const struct rut_recorder *r, const struct rut_selection *sel,
			 uint32_t id);

/* Enables in the table what `sel` selects of the system calls. */
int rut_programs_set_syscalls(const struct rut_recorder *r, const struct rut_selection *sel,
			      struct rut_err *err);

/* Does this selection need the program of that name? */
bool rut_programs_wanted(const struct rut_recorder *r, const struct rut_selection *sel,
			 const char *program);

/* Events that were nested in themselves and so not recorded, of the programs loaded here. */
uint64_t rut_programs_missed(const struct rut_recorder *r);

void rut_programs_free(struct rut_recorder *r);

#endif
