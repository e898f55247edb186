/* SPDX-License-Identifier: MIT */
/*
 * Filters in the kernel: an expression (src/expr) becomes eBPF instructions, one body for each
 * class of events that it treats differently. What cannot be had in the kernel is refused with the
 * reason; nothing is evaluated later in silence.
 */
#ifndef RUT_SESSION_FILTER_H
#define RUT_SESSION_FILTER_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/events.h"

struct rut_err;
struct rut_selection;

struct rut_filter {
	struct bpf_insn *insns; /* owned: the body of rut_filter() in the programs */
	size_t ninsns;
	/* By event id: RUT_FILTER_DROP, RUT_FILTER_PASS or the number of a body. */
	uint32_t classes[RUT_ID_DYNAMIC];
};

enum { RUT_FILTER_DROP = 0, RUT_FILTER_PASS = 1, RUT_FILTER_BODY = 2 };

/*
 * Compiles `text` for the selected events. -EINVAL: it is no expression, or cannot be compiled;
 * the message says why and where.
 */
int rut_filter_compile(struct rut_filter *ret, const char *text,
		       const struct rut_selection *selection, uint32_t contexts,
		       struct rut_err *err);

void rut_filter_fini(struct rut_filter *f);

/*
 * Puts the instructions into the place that rut_filter() has in an ELF object, before it is loaded.
 */
int rut_filter_patch(const struct rut_filter *f, void *elf, size_t size, struct rut_err *err);

#endif
