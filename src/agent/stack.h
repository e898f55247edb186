/* SPDX-License-Identifier: MIT */
/*
 * Shadow stacks: what is running, since when, one for each fiber and session.
 *
 * Ruby tells of calls and returns but not of every return: a SystemStackError, a killed thread or
 * an abandoned fiber leave calls that never end. So a frame is known by the address of Ruby's own
 * frame (which grows down): a call or return at an address says which of the frames below are gone.
 */
#ifndef RUT_AGENT_STACK_H
#define RUT_AGENT_STACK_H

#include "abi.h"
#include "rb.h"

struct rut_session;
struct rut_variant;

struct rut_frame {
	const void *cfp;
	struct rut_variant *v;
	uint64_t begin;
	uint64_t inner; /* ticks of callees, and of other fibers */
	bool outermost; /* of its method on this stack: recursion counts once */
};

struct rut_stack {
	void *ec; /* Ruby's execution context: one for each fiber; NULL: it is nobody's */
	/* Owned when cap > 0. The one before the first is nobody's call, above all others. */
	struct rut_frame *frames;
	uint32_t count, cap;
	uint64_t out; /* when the fiber was left; 0: it runs */
	struct rut_session *s;
	VALUE thread;		/* when its calls were running at attach: whose it was then */
	struct rut_stack *next; /* in its bucket */
	uint32_t number;	/* for people */
	uint32_t inside;	/* trace mode: calls of the method that is asked for */
} __attribute__((aligned(64)));

/*
 * What this native thread ran last, for each session. Checked at each use, by its `ec`: threads may
 * change. A stack that was one session's is only used again by sessions in the same slot.
 */
extern __thread struct rut_stack_cache {
	struct rut_stack *stack[RUT_AGENT_SLOTS];
	uint64_t session[RUT_AGENT_SLOTS]; /* whose stack at attach was looked for: `seeded` */
} rut_stack_cache __attribute__((tls_model("initial-exec"))) RUT_HIDDEN;

/* The stack of the fiber that runs; NULL when memory is short. */
struct rut_stack *rut_stack_of(struct rut_session *s, void *ec);
bool rut_stack_grow(struct rut_stack *st);

#define RUT_FRAME_BYTES_MAX 72 /* of Ruby's control frame */

/* A C call stands this far below the frame of its caller, see ccall.c. */
#define RUT_C_BELOW 8

void rut_stack_push(struct rut_session *s, void *ec, const void *cfp, struct rut_variant *v);
void rut_stack_pop(struct rut_session *s, struct rut_trace_arg *ta);
void rut_stack_pop_c(struct rut_session *s, struct rut_trace_arg *ta);

/*
 * Calls that were running before they had a hook, outermost first, with `begin`. `thread`: the one
 * that runs them, when it is another; `left`: none does, it is a fiber that waits.
 */
void rut_stack_seed(struct rut_session *s, void *ec, VALUE thread, const struct rut_frame *seeds,
		    uint32_t count, bool left);

/* The running fiber of this thread is another one now: the time in between is nobody's own. */
void rut_stack_on_switch(VALUE tp, void *session);

/* A thread ends: so do its calls, if any are left. */
void rut_stack_on_thread_end(VALUE tp, void *session);

/* Where the tracer finds them. */
void rut_stack_describe(const struct rut_session *s, struct rut_agent_stacks *ret);

/* In the child of a fork: other threads are gone, and time begins anew. */
void rut_stack_forked(void);

/* The process ends: so do its calls. Without waiting: whoever holds a lock may be gone. */
void rut_stack_end(struct rut_session *s);

/* Forgets every stack of a session; no hook of it may run any more. */
void rut_stack_fini(struct rut_session *s);

#endif
