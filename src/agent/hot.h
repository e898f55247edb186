/* SPDX-License-Identifier: MIT */
/*
 * The usual call, straight through.
 *
 * A call is usual when there is one ractor, no GC has begun since the last look, this code was
 * last called by the same method entry, and the fiber is the one that ran here before.
 * Then what has to be known is in few lines of the cache, and nothing is called. Everything else is
 * answered with NULL or false before anything was changed, and takes the long path (code.c,
 * stack.c), which is right for every call.
 */
#ifndef RUT_AGENT_HOT_H
#define RUT_AGENT_HOT_H

#include "clock.h"
#include "code.h"
#include "stack.h"

/*
 * A call of this method begins: counted, and put on the stack. `tsc`: ticks are those of the
 * processor; a constant, so that where they are nothing is called.
 */
static RUT_INLINE bool rut_hot_push(const struct rut_session *s, const void *ec, const void *cfp,
				    struct rut_variant *v, struct rut_agent_row *row, bool tsc)
{
	struct rut_stack *st = rut_hot_stack((unsigned)(s - rut_agent_sessions), ec);
	struct rut_frame *f;
	uint32_t count;

	if (RUT_UNLIKELY(!st || rut_gc_time_ns() != s->time.gc_ns_seen))
		return false;
	count = st->count;
	f = &st->frames[count];
	/* Whether calls have ended without an event, or the method is running already. */
	if (RUT_UNLIKELY(count == st->cap || f[-1].cfp <= cfp || v->active))
		return false;
	row->calls++;
	v->stack = st;
	v->depth = 1;
	/* Together they would be a constant of eight bytes, loaded from somewhere else. */
	__atomic_store_n(&v->active, 1, __ATOMIC_RELAXED);
	f->cfp = cfp;
	f->v = v;
	f->inner = 0;
	f->outermost = true;
	f->begin = rut_ticks_of(tsc);
	/* The tracer may read it from here on (abi.h). */
	__atomic_store_n(&st->count, count + 1, __ATOMIC_RELEASE);
	return true;
}

/* The call at the frame `cfp` ends, which is the innermost one that is known. */
static RUT_INLINE bool rut_hot_pop(const struct rut_session *s, const void *ec, const void *cfp,
				   bool tsc)
{
	struct rut_stack *st = rut_hot_stack((unsigned)(s - rut_agent_sessions), ec);
	struct rut_frame *f;

	if (RUT_UNLIKELY(!rut_single_ractor() || !st || rut_gc_time_ns() != s->time.gc_ns_seen))
		return false;
	f = &st->frames[st->count] - 1;
	if (RUT_UNLIKELY(f->cfp != cfp))
		return false;
	rut_hot_end_call(s, st, f, rut_ticks_of(tsc), true);
	return true;
}

/* The usual call or return of a method with a hook of its file. */
static RUT_INLINE bool rut_hot_time(const struct rut_session *s, const struct rut_trace_arg *ta,
				    bool tsc)
{
	const struct rut_agent_code *code;

	if (ta->event == RUT_EVENT_RETURN)
		return rut_hot_pop(s, ta->ec, ta->cfp, tsc);
	if (RUT_UNLIKELY(ta->event != RUT_EVENT_CALL))
		return false;
	code = rut_hot_call(s, ta);
	return RUT_LIKELY(code != NULL) &&
	       rut_hot_push(s, ta->ec, ta->cfp, code->v, code->row, tsc);
}

#endif
