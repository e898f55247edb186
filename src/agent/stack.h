/* SPDX-License-Identifier: MIT */
/*
 * Shadow stacks: what is running, since when, one for each fiber and session.
 *
 * Ruby reports calls and returns but not every return: a SystemStackError, a killed thread or
 * an abandoned fiber leave calls that never end. So a frame is known by the address of Ruby's own
 * frame (which grows down): a call or return at an address shows which of the frames below have
 * ended.
 */
#ifndef RUT_AGENT_STACK_H
#define RUT_AGENT_STACK_H

#include "core.h"

struct rut_frame {
	const void *cfp;
	struct rut_variant *v;
	uint64_t begin;
	uint64_t inner; /* ticks of callees, and of other fibers; record mode: RUT_WRITTEN or 0 */
	bool outermost; /* of its method on this stack: recursion counts once */
};

#define RUT_WRITTEN 1u /* the call has a record */

struct rut_stack {
	void *ec; /* Ruby's execution context: one for each fiber; NULL: unused */
	/* Owned when cap > 0. frames[-1] is a sentinel with the highest address. */
	struct rut_frame *frames;
	uint32_t count, cap;
	uint64_t out; /* when the fiber was left; 0: it runs */
	struct rut_session *s;
	VALUE thread;		/* when its calls were running at attach: its thread then */
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
	uint64_t session[RUT_AGENT_SLOTS]; /* sessions that have read the stack at attach: `seeded`
					    */
} rut_agent_stack_cache __attribute__((tls_model("initial-exec"))) RUT_HIDDEN;

/* The stack of the fiber that runs; NULL when memory is short. */
struct rut_stack *rut_agent_stack_of(struct rut_session *s, void *ec);
bool rut_agent_stack_grow(struct rut_stack *st);

#define RUT_FRAME_BYTES_MAX 72 /* of Ruby's control frame */

/* A C call stands this far below the frame of its caller, see ccall.c. */
#define RUT_C_BELOW 8

void rut_agent_stack_push(struct rut_session *s, void *ec, const void *cfp, struct rut_variant *v);
void rut_agent_stack_pop(struct rut_session *s, struct rut_trace_arg *ta);
void rut_agent_stack_pop_c(struct rut_session *s, struct rut_trace_arg *ta);

/*
 * Calls that were running before they had a hook, outermost first, with `begin`. `thread`: the one
 * that runs them, when it is another; `left`: none does, it is a fiber that waits.
 */
void rut_agent_stack_seed(struct rut_session *s, void *ec, VALUE thread,
			  const struct rut_frame *seeds, uint32_t count, bool left);

/* The running fiber of this thread is another one now: the time in between belongs to no call. */
void rut_agent_stack_on_switch(VALUE tp, void *session);

/* A thread ends: so do its calls, if any are left. */
void rut_agent_stack_on_thread_end(VALUE tp, void *session);

/* Where the tracer finds them. */
void rut_agent_stack_describe(const struct rut_session *s, struct rut_agent_stacks *ret);

/* In the child of a fork: there are no other threads, and times are reset. */
void rut_agent_stack_forked(void);

/* The process ends: so do its calls. Without waiting: the holder of a lock may have ended. */
void rut_agent_stack_end(struct rut_session *s);

/* Forgets every stack of a session; no hook of it may run any more. */
void rut_agent_stack_fini(struct rut_session *s);

/* The stack of this fiber, when it was the last one that this native thread asked for. */
static RUT_INLINE struct rut_stack *rut_hot_stack(unsigned index, const void *ec)
{
	struct rut_stack *st = rut_agent_stack_cache.stack[index];

	return RUT_LIKELY(st && st->ec == ec) ? st : NULL;
}

/* A call of this method, which is not the only one under way, ends on this stack. */
static inline void rut_variant_leave(struct rut_variant *v, const struct rut_stack *st)
{
	if (v->active)
		v->active--;
	if (v->stack == st && v->depth)
		v->depth--;
}

/* Ten times as far as the row's. */
static RUT_INLINE void rut_hot_bucket(const struct rut_session *s, const struct rut_agent_row *row,
				      uint64_t ticks)
{
	size_t at = (size_t)((const char *)row - (const char *)s->table.rows) * 10;
	uint32_t *n =
		&((struct rut_agent_buckets *)(s->time.buckets + at))->calls[rut_bucket(ticks)];

	if (RUT_LIKELY(rut_single_ractor()))
		(*n)++;
	else
		__atomic_fetch_add(n, 1, __ATOMIC_RELAXED);
}

/* The call of the innermost frame ends. `single`: one ractor runs. */
static RUT_INLINE void rut_hot_end_call(const struct rut_session *s, struct rut_stack *st,
					struct rut_frame *f, uint64_t now, bool single)
{
	struct rut_variant *v = f->v;
	struct rut_agent_row *row = v->row;
	uint64_t ticks = RUT_LIKELY(now > f->begin) ? now - f->begin : 0;
	uint64_t self = ticks > f->inner ? ticks - f->inner : 0;
	uint32_t epoch = s->table.hdr->reset_epoch;

	/* It is on the stack or in the row, never both. */
	__atomic_store_n(&st->count, st->count - 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (RUT_LIKELY(v->active == 1))
		v->active = 0;
	else
		rut_variant_leave(v, st);
	if (RUT_LIKELY(f->outermost))
		rut_add_in(&row->total, ticks, single);
	rut_add_in(&row->self, self, single);
	if (RUT_UNLIKELY(row->epoch != epoch)) {
		row->epoch = epoch;
		row->max = 0;
	}
	if (RUT_UNLIKELY(ticks > row->max))
		row->max = ticks;
	f[-1].inner += ticks; /* of its caller, or of the sentinel */
	if (RUT_UNLIKELY(s->time.buckets != NULL))
		rut_hot_bucket(s, row, ticks);
}

#endif
