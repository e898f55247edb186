/* SPDX-License-Identifier: MIT */
/* The kernel's own description of its tracepoints: /sys/kernel/tracing/events. */
#ifndef RUT_SESSION_TRACEFS_H
#define RUT_SESSION_TRACEFS_H

#include "base/hash.h"
#include "bpf/probe.h"
#include "session/events.h"

struct rut_err;

/* A format: what to copy out of the tracepoint's record, and the fields that this gives. */
struct rut_tracefs_format {
	struct rut_probe_conf conf;
	struct rut_field fields[RUT_FIELDS_MAX];
	size_t nfields;
	char names[RUT_FIELDS_MAX][48];
};

/* Collects the names in a category that match a shell pattern. -ENOENT: none does. */
int rut_tracefs_find(const char *category, const char *pattern, struct rut_strtab *ret,
		     struct rut_err *err);

int rut_tracefs_read(const char *category, const char *name, struct rut_tracefs_format *ret,
		     struct rut_err *err);

/* The same from text, for tests. `ret` must stay where it is: fields point into it. */
int rut_tracefs_parse(const char *text, struct rut_tracefs_format *ret, struct rut_err *err);

#endif
