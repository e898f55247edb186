/* SPDX-License-Identifier: MIT */
/* Between the files that resolve the names of probes. */
#ifndef RUT_SCRIPT_PROBES_H
#define RUT_SCRIPT_PROBES_H

#include <stdarg.h>

#include "script/check.h"

enum { RUT_PROBE_PARTS = 5 };

struct rut_resolve;

struct rut_probe_kind_desc {
	const char *name, *other;
	enum rut_probe_kind kind;
	uint32_t prog_type;
	int (*resolve)(struct rut_resolve *r);
};

struct rut_resolve {
	struct rut_script_program *prog;
	const struct rut_probe_spec *spec;
	const struct rut_probe_kind_desc *kind;
	bool split;			    /* each match is a program of its own */
	const char *parts[RUT_PROBE_PARTS]; /* of the name, between ':' */
	unsigned nparts;
	struct rut_probe_ctx *ctxs; /* what was found */
	size_t n;
};

int rut_probe_error(struct rut_resolve *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * Nothing matches the name: an error, or, as missing_probes says, a warning or nothing. Returns
 * -EINVAL or 0.
 */
int rut_probe_missing(struct rut_resolve *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* One more match; attach.name is set. */
int rut_probe_add(struct rut_resolve *r, struct rut_script_attach attach,
		  const struct rut_type *args, bool in_ctx);
/* kernel_probe.c */
bool rut_probe_has_kprobes(void);
int rut_resolve_kprobe(struct rut_resolve *r);
int rut_resolve_fentry(struct rut_resolve *r);
int rut_resolve_iter(struct rut_resolve *r);
int rut_resolve_watchpoint(struct rut_resolve *r);
int rut_resolve_named(struct rut_resolve *r);
int rut_resolve_self(struct rut_resolve *r);
/* Lists software and hardware events; 1: the kind is one of them. */
int rut_probe_list_perf(const char *kind, const char *pattern, struct rut_buf *out);
uint32_t rut_probe_name(struct rut_script_program *p, const char *name);

#endif
