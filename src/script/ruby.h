/* SPDX-License-Identifier: MIT */
/*
 * Ruby in scripts: the functions that read a thread's Ruby frames (bpf/script_ruby.bpf.c), which
 * are linked into programs, and the names of what they found.
 *
 * The frames are read when the event happens, as those of sessions with Ruby stacks are
 * (bpf/ruby.h); so are the names, once for each garbage collection, so that they are right when the
 * process has ended. Processes are inspected from outside: they need no preparation.
 */
#ifndef RUT_SCRIPT_RUBY_H
#define RUT_SCRIPT_RUBY_H

#include "script/link.h"
#include "script/script.h"

struct btf;
struct rut_buf;
struct rut_err;

/* The functions, by their number in calls of generated code. */
enum rut_ruby_function {
	RUT_RUBY_HERE,	/* (enum rut_script_here) -> word */
	RUT_RUBY_STACK, /* (frames) -> number of a stack */
	RUT_RUBY_IN,	/* (number of one of p->methods) -> is it running? */
	RUT_RUBY_FUNCTIONS
};

struct rut_script_ruby;

/*
 * Do agents follow in which of p's methods threads are? Then in() costs a tenth: but an agent is
 * only in the processes that the user has named, and follows methods of one class.
 */
bool rut_script_follows(const struct rut_script_program *p);

/*
 * Loads what finds the frames, for the processes of p's options: that of -p, or all. -ENOEXEC: the
 * process of -p is not a Ruby. 0 or -errno, with *err.
 */
int rut_script_ruby_new(struct rut_script_ruby **ret, const struct rut_script_program *p,
			struct rut_err *err);
void rut_script_ruby_free(struct rut_script_ruby *r);

/* Pins what names are read from in the directory of a session, and opens it again, for names alone.
 */
int rut_script_ruby_pin(const struct rut_script_ruby *r, const char *dir, struct rut_err *err);
int rut_script_ruby_open(struct rut_script_ruby **ret, const char *dir, struct rut_err *err);

/* Inspects this process now. */
void rut_script_ruby_meet(struct rut_script_ruby *r, int32_t pid);

/* Inspects processes that the programs have found; to be called often. */
void rut_script_ruby_round(struct rut_script_ruby *r);

/* rut_link() with these functions. */
int rut_script_ruby_link(struct rut_linked *ret, const struct rut_script_ruby *r,
			 const struct rut_script_prog *prog, struct rut_err *err);

/*
 * Requests are reported at this place of the agent's file from now on, until it is freed. 0 or
 * -errno, with *err.
 */
int rut_script_ruby_attach_requests(struct rut_script_ruby *r, const char *path, uint64_t offset,
				    struct rut_err *err);

/* The same for what the agent says of its threads (base/within.h). */
int rut_script_ruby_attach_within(struct rut_script_ruby *r, const char *path, uint64_t offset,
				  struct rut_err *err);
/* The map in which agents keep where threads are. */
int rut_script_ruby_within(const struct rut_script_ruby *r);

/* The types that `functions` refer to; borrowed. */
const struct btf *rut_script_ruby_types(const struct rut_script_ruby *r);

/* Names of what the functions return; members of struct rut_script_names. */
void rut_script_ruby_frame(const struct rut_script_ruby *r, uint64_t word, bool line,
			   struct rut_buf *out);
/* The name of a request. */
void rut_script_ruby_request(const struct rut_script_ruby *r, uint64_t number, struct rut_buf *out);
/* Lines, each ended; at most `limit` of them. */
void rut_script_ruby_stack(const struct rut_script_ruby *r, uint64_t id, uint32_t limit,
			   unsigned indent, struct rut_buf *out);

#endif
