/* SPDX-License-Identifier: MIT */
/* Links functions of a compiled object into a program, those that it calls. */
#ifndef RUT_SCRIPT_LINK_H
#define RUT_SCRIPT_LINK_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rut_err;

/* The functions of an object, relocated. */
struct rut_link_text {
	struct bpf_insn *insns; /* owned */
	size_t ninsns;
	struct bpf_func_info *functions; /* owned; in the order of the text, the first at 0 */
	size_t nfunctions;
};

void rut_link_text_fini(struct rut_link_text *t);

/* A program with the functions that it calls. */
struct rut_linked {
	struct bpf_insn *insns; /* owned */
	size_t ninsns;
	struct bpf_func_info *functions; /* owned: those that were added */
	size_t nfunctions;
};

/* Does the program call any? Its calls of functions hold their number. */
bool rut_link_wanted(const struct bpf_insn *insns, size_t ninsns);

/*
 * Copies each function that is called behind the program's own code, and sets the distances.
 * `entries`: the index in t->functions of each number. *ret is to be freed in any case. 0 or
 * -ENOMEM with *err.
 */
int rut_link(struct rut_linked *ret, const struct rut_link_text *t, const size_t *entries,
	     const struct bpf_insn *insns, size_t ninsns, struct rut_err *err);
void rut_linked_fini(struct rut_linked *l);

#endif
