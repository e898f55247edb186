/* SPDX-License-Identifier: MIT */
/*
 * Code: Ruby's InstructionSequences, the internal objects (here: iseq) and the ones that a program
 * can see (their wrappers). With the GVL.
 */
#ifndef RUT_AGENT_ISEQ_H
#define RUT_AGENT_ISEQ_H

#include "list.h"

/* Is this object code, and not being loaded or compiled? */
bool rut_agent_iseq_ready(VALUE v);

/* What code is to us; what hooks are set on. */
enum rut_rec_kind {
	RUT_REC_METHOD,
	RUT_REC_BLOCK, /* the block of a define_method, or perhaps one */
	RUT_REC_FILE,  /* methods of one file: their hook */
};

/* RUT_REC_METHOD, RUT_REC_BLOCK, or -1. Until 3.0 this takes microseconds. */
int rut_agent_iseq_kind(VALUE iseq);

VALUE rut_agent_iseq_wrapper(VALUE iseq);
VALUE rut_agent_iseq_of(VALUE wrapper);

/* Wrappers of the code directly inside; they stay alive: each is referred to by its code. */
void rut_agent_iseq_children(VALUE wrapper, struct rut_list *l);

/*
 * When a global hook is set, Ruby 2.5 visits all code, also what an exception left incomplete,
 * and crashes there. `spare`: such code is put into the list and marked as being compiled, which
 * Ruby passes over; not `spare`: the marks go again. No GC may run in between.
 */
void rut_agent_iseq_spare_half_made(struct rut_list *l, bool spare);

/*
 * Ruby until 3.2 leaks a copy of the code that is made to look for code inside. How it is found:
 * the words of the body of `iseq` before its hook was set, and its first method.
 */
#define RUT_ISEQ_BODY_WORDS 36
VALUE *rut_agent_iseq_body(VALUE iseq);
void rut_agent_iseq_find_copy(VALUE iseq, const VALUE *before, VALUE first);
void rut_agent_iseq_free_copy(VALUE iseq);

#endif
