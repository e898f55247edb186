/* SPDX-License-Identifier: MIT */
/*
 * The usual call, straight through.
 *
 * A call is usual when there is one ractor, no GC has begun since the last look, the receiver has
 * the class that this code was called with last, and the fiber is the one that ran here before.
 * Then what has to be known is in few lines of the cache, and nothing is called. Everything else is
 * answered with NULL or false before anything was changed, and goes the long way (code.c, stack.c),
 * which is right for every call.
 */
#ifndef RUT_AGENT_HOT_H
#define RUT_AGENT_HOT_H

#include "clock.h"
#include "session.h"
#include "stack.h"

#define RUT_INLINE inline __attribute__((always_inline))

/* What is no object of the heap has a number in its place: odd, one for each class. */
static inline VALUE rut_receiver_class(VALUE self)
{
	if (RUT_LIKELY(!rut_special_p(self)))
		return rut_klass(self);
	if (self & 1)
		return 0x101; /* Integer */
	return (self & 3) == 2 ? 0x201 /* Float */ : (self & 0xff) | 1;
}

/* The row that a call of this record's code belongs to; NULL: none. After rut_lives_sync(). */
static inline struct rut_variant *rut_rec_variant(struct rut_rec *r, struct rut_trace_arg *ta)
{
	const VALUE *ep = (const VALUE *)((const VALUE *)ta->cfp)[RUT_FRAME_EP];
	VALUE key = RUT_LIKELY(r->kind == RUT_REC_METHOD) ? rut_receiver_class(ta->self)
							  : ep[RUT_ENV_MENT];

	if (RUT_LIKELY(r->key == key && ((const VALUE *)ta->cfp)[RUT_FRAME_ISEQ] == r->iseq &&
		       rut_life_holds(r->life)))
		return r->last;
	return rut_rec_resolve(r, ta, key);
}

/* The code that is called, when the call is usual: `row` and `v` are its method's. */
static RUT_INLINE const struct rut_code *rut_hot_call(const struct rut_session *s,
						      const struct rut_trace_arg *ta)
{
	VALUE iseq = ((const VALUE *)ta->cfp)[RUT_FRAME_ISEQ];
	const struct rut_code *code = rut_code_slot(&s->codes, iseq);

	if (RUT_UNLIKELY(!rut_single_ractor() || !rut_lives_synced()))
		return NULL;
	if (RUT_UNLIKELY(code->iseq != iseq || code->klass != rut_receiver_class(ta->self) ||
			 !rut_life_holds_plainly(code->call_life)))
		return NULL;
	return code;
}

/* The stack of this fiber, when it was the last one that this native thread asked for. */
static RUT_INLINE struct rut_stack *rut_hot_stack(unsigned index, const void *ec)
{
	struct rut_stack *st = rut_stack_cache.stack[index];

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
	uint32_t *n = &((struct rut_agent_buckets *)(s->buckets + at))->calls[rut_bucket(ticks)];

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
	f[-1].inner += ticks; /* of its caller, or of nobody */
	if (RUT_UNLIKELY(s->buckets != NULL))
		rut_hot_bucket(s, row, ticks);
}

/* A call begins: counted, and put on the stack. Where ticks are those of the processor. */
static RUT_INLINE bool rut_hot_begin(const struct rut_session *s, const struct rut_trace_arg *ta)
{
	const struct rut_code *code = rut_hot_call(s, ta);
	struct rut_stack *st = rut_hot_stack((unsigned)(s - rut_sessions), ta->ec);
	const void *cfp = ta->cfp;
	struct rut_variant *v;
	struct rut_frame *f;
	uint32_t count;

	if (RUT_UNLIKELY(!code || !st || *rut_hot.gc_ns != s->gc_ns_seen))
		return false;
	count = st->count;
	f = &st->frames[count];
	v = code->v;
	/* Are calls over, though nobody said so? Is the method running already? */
	if (RUT_UNLIKELY(count == st->cap || f[-1].cfp <= cfp || v->active))
		return false;
	code->row->calls++;
	v->stack = st;
	v->depth = 1;
	/* Together they would be a constant of eight bytes, loaded from somewhere else. */
	__atomic_store_n(&v->active, 1, __ATOMIC_RELAXED);
	f->cfp = cfp;
	f->v = v;
	f->inner = 0;
	f->outermost = true;
	f->begin = rut_ticks_of(true);
	/* The tracer may look at it from here on (abi.h). */
	__atomic_store_n(&st->count, count + 1, __ATOMIC_RELEASE);
	return true;
}

/* The innermost call that is known ends. */
static RUT_INLINE bool rut_hot_end(const struct rut_session *s, const struct rut_trace_arg *ta)
{
	struct rut_stack *st = rut_hot_stack((unsigned)(s - rut_sessions), ta->ec);
	struct rut_frame *f;

	if (RUT_UNLIKELY(ta->event != RUT_EVENT_RETURN || !rut_single_ractor() || !st ||
			 *rut_hot.gc_ns != s->gc_ns_seen))
		return false;
	f = &st->frames[st->count] - 1;
	if (RUT_UNLIKELY(f->cfp != ta->cfp))
		return false;
	rut_hot_end_call(s, st, f, rut_ticks_of(true), true);
	return true;
}

#endif
