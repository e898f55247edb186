/* SPDX-License-Identifier: MIT */
/*
 * Filters in the kernel: an expression (src/expr) becomes eBPF instructions, one body for each
 * class of events that it treats differently. What cannot be had in the kernel is refused with the
 * reason; nothing is evaluated later in silence.
 */
#ifndef RUT_SESSION_FILTER_H
#define RUT_SESSION_FILTER_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/events.h"

struct rut_err;
struct rut_event;
struct rut_selection;

struct rut_filter {
	struct bpf_insn *insns; /* owned: the body of rut_filter() in the programs */
	size_t ninsns;
	/* By event id: RUT_FILTER_DROP, RUT_FILTER_PASS or the number of a body. */
	uint32_t classes[RUT_ID_DYNAMIC];
};

/* The fields that the expression names, and whether any class of events has them. */
struct rut_filter_names {
	struct {
		char name[64];
		bool found;
	} list[32];
	size_t count;
};

enum { RUT_FILTER_DROP = 0, RUT_FILTER_PASS = 1, RUT_FILTER_BODY = 2 };

/*
 * Compiles `text` for the selected events. -EINVAL: it is no expression, or cannot be compiled;
 * the message says why and where. What it names is added to `names`.
 */
int rut_filter_compile(struct rut_filter *ret, const char *text,
		       const struct rut_selection *selection, uint64_t contexts,
		       struct rut_filter_names *names, struct rut_err *err);

/* The same for one event that was added by name: its class is that of id 0. */
int rut_filter_compile_event(struct rut_filter *ret, const char *text,
			     const struct rut_event *event, uint64_t contexts,
			     struct rut_filter_names *names, struct rut_err *err);

/* -EINVAL when no class had a field of that name. */
int rut_filter_check_names(const struct rut_filter_names *names, struct rut_err *err);

void rut_filter_fini(struct rut_filter *f);

/*
 * Puts the instructions into the place that rut_filter() has in an ELF object, before it is loaded.
 */
int rut_filter_patch(const struct rut_filter *f, void *elf, size_t size, struct rut_err *err);

#endif
