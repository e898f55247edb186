/* SPDX-License-Identifier: MIT */
/*
 * The hooks of Ruby methods.
 *
 * Each method has a record of its own. A hook that it has alone gets that as its data; one that it
 * shares with others (files.c) looks it up (code.c). Then to count is to increment. What there is
 * to check is whose method it is, because classes can share code (module_function, dup, clone, one
 * block for several define_methods): as long as the frame has the method entry of the last call,
 * and that is nothing else at the same address by now (life.h), the row of the last call is the
 * right one. For shared hooks the table of code knows
 * that, too, and the usual call needs no more than one look into it (hot.h).
 */
#include "hooks.h"

#include "callers.h"
#include "code.h"
#include "hot.h"
#include "request.h"
#include "stack.h"
#include "trace.h"
#include "variant.h"
#include "within.h"
#include "write_record.h"

#include <string.h>

/*
 * Is it the code of this record that runs? Ruby puts a hook on all the code inside as well: methods
 * defined in methods, blocks in blocks. And a block may run as a block or as a method.
 */
static inline bool frame_is_ours(const struct rut_rec *r, const struct rut_trace_arg *ta)
{
	const VALUE *cfp = ta->cfp;

	return (r->shared || cfp[RUT_FRAME_ISEQ] == r->iseq) &&
	       (r->kind == RUT_REC_METHOD ||
		(*(const VALUE *)cfp[RUT_FRAME_EP] & RUT_FRAME_BMETHOD));
}

static inline struct rut_variant *variant_of(struct rut_rec *r, struct rut_trace_arg *ta)
{
	if (RUT_UNLIKELY(!frame_is_ours(r, ta))) {
		if (r->kind == RUT_REC_BLOCK && !r->seen &&
		    ((const VALUE *)ta->cfp)[RUT_FRAME_ISEQ] == r->iseq)
			rut_agent_code_drop(r);
		return NULL;
	}
	return rut_rec_variant(r, ta);
}

struct rut_variant *rut_agent_hook_variant(struct rut_rec *r, struct rut_trace_arg *ta)
{
	rut_lives_sync();
	return variant_of(r, ta);
}

static void hook_call(VALUE tp, struct rut_rec *r, struct rut_trace_arg *ta);
static void hook_return(struct rut_session *s, struct rut_trace_arg *ta);

/* ---- the hooks of files ---- */

static RUT_COLD void file_count_any(struct rut_session *s, struct rut_trace_arg *ta)
{
	const struct rut_variant *v = rut_agent_code_variant(s, ta);

	if (v)
		rut_add(&v->row->calls, 1);
}

static RUT_INLINE void file_count(struct rut_session *s, struct rut_trace_arg *ta)
{
	const struct rut_agent_code *code;

	if (ta->event != RUT_EVENT_CALL)
		return;
	code = rut_hot_call(s, ta);
	if (RUT_LIKELY(code != NULL))
		code->row->calls++;
	else
		file_count_any(s, ta);
}

static RUT_COLD void file_time_any(struct rut_session *s, struct rut_trace_arg *ta)
{
	struct rut_variant *v;

	if (ta->event == RUT_EVENT_RETURN)
		rut_agent_stack_pop(s, ta);
	if (ta->event != RUT_EVENT_CALL)
		return;
	v = rut_agent_code_variant(s, ta);
	if (!v)
		return;
	rut_add(&v->row->calls, 1);
	rut_agent_stack_push(s, ta->ec, ta->cfp, v);
}

static RUT_INLINE void file_time(struct rut_session *s, struct rut_trace_arg *ta)
{
	bool done = rut_agent_clock_is_tsc ? rut_hot_time(s, ta, true) : rut_hot_time(s, ta, false);

	if (RUT_UNLIKELY(!done))
		file_time_any(s, ta);
}

/* Scripts: is it a method by which requests are known? */
static RUT_COLD void file_watch(struct rut_session *s, struct rut_trace_arg *ta)
{
	struct rut_variant *v = rut_agent_code_variant(s, ta);

	if (v && v->watch)
		rut_agent_request_event(s, ta, v);
}

static void file_trace(struct rut_session *s, VALUE tp, struct rut_trace_arg *ta)
{
	struct rut_variant *v;
	const struct rut_agent_code *code;

	if (RUT_UNLIKELY(s->hits.requests) && ta->event & (RUT_EVENT_CALL | RUT_EVENT_RETURN))
		file_watch(s, ta);
	if (ta->event == RUT_EVENT_RETURN)
		hook_return(s, ta);
	if (ta->event != RUT_EVENT_CALL)
		return;
	code = rut_hot_call(s, ta);
	v = RUT_LIKELY(code != NULL) ? code->v : rut_agent_code_variant(s, ta);
	if (!v)
		return;
	rut_add(&v->row->calls, 1);
	rut_agent_trace_call(s, tp, ta, ta->cfp, v);
}

static inline void record(struct rut_session *s, const struct rut_trace_arg *ta,
			  struct rut_variant *v)
{
	if (v->watch)
		rut_agent_request_event(s, ta, v);
	if (RUT_UNLIKELY(s->trace.slow_ns))
		rut_agent_record_slow(s, ta, v);
	else
		rut_agent_record_method(s, ta->ec, v->row, ta->event);
}

/*
 * A block that runs as a method has a hook of its own beside that of the code around it: one of
 * them records its lines. Those of blocks inside are reported by the outer hook only.
 */
static RUT_COLD void line(struct rut_session *s, const struct rut_rec *r, struct rut_trace_arg *ta)
{
	const VALUE *cfp = ta->cfp;
	bool as_method = *(const VALUE *)cfp[RUT_FRAME_EP] & RUT_FRAME_BMETHOD;

	if (as_method == (r && r->kind == RUT_REC_BLOCK))
		rut_agent_record_line(s, ta);
}

static RUT_INLINE void file_record(struct rut_session *s, struct rut_trace_arg *ta)
{
	const struct rut_agent_code *code;
	struct rut_variant *v;

	if (!(ta->event & (RUT_EVENT_CALL | RUT_EVENT_RETURN))) {
		if (RUT_UNLIKELY(ta->event == RUT_EVENT_LINE))
			line(s, NULL, ta);
		return;
	}
	code = rut_hot_call(s, ta);
	v = RUT_LIKELY(code != NULL) ? code->v : rut_agent_code_variant(s, ta);
	if (v)
		record(s, ta, v);
}

static void file_by_caller(struct rut_session *s, struct rut_trace_arg *ta)
{
	const struct rut_variant *v =
		ta->event == RUT_EVENT_CALL ? rut_agent_code_variant(s, ta) : NULL;

	if (v)
		rut_agent_callers_count(s, v);
}

static void on_file(VALUE tp, void *data)
{
	struct rut_trace_arg *ta = rb.rb_tracearg_from_tracepoint(tp);
	struct rut_session *s = ((struct rut_rec *)data)->s;

	if (rut_session_traces(s))
		file_trace(s, tp, ta);
	else if (s->mode == RUT_AGENT_TIME)
		file_time_any(s, ta);
	else if (s->mode == RUT_AGENT_RECORD)
		file_record(s, ta);
	else if (s->flags & RUT_AGENT_BY_CALLER)
		file_by_caller(s, ta);
	else
		file_count(s, ta);
}

/* Once, for shortcut.c. */
static RUT_INLINE void learn(const struct rut_trace_arg *ta)
{
	if (RUT_UNLIKELY(!rb.ec_trace_arg))
		rut_agent_trace_arg_find(ta);
}

/*
 * For the hooks that fire most, in place of Ruby's own function that finds ours (files.c). It gets
 * the tracepoint and the arguments, but not our data: so there is one for each session.
 */
#define DIRECT(i)                                                                                  \
	static void direct_count_##i(VALUE tp, struct rut_trace_arg *ta)                           \
	{                                                                                          \
		(void)tp;                                                                          \
		learn(ta);                                                                         \
		file_count(&rut_agent_sessions[i], ta);                                            \
	}                                                                                          \
	static void direct_time_##i(VALUE tp, struct rut_trace_arg *ta)                            \
	{                                                                                          \
		(void)tp;                                                                          \
		learn(ta);                                                                         \
		file_time(&rut_agent_sessions[i], ta);                                             \
	}                                                                                          \
	static void direct_trace_##i(VALUE tp, struct rut_trace_arg *ta)                           \
	{                                                                                          \
		file_trace(&rut_agent_sessions[i], tp, ta);                                        \
	}                                                                                          \
	static void direct_record_##i(VALUE tp, struct rut_trace_arg *ta)                          \
	{                                                                                          \
		(void)tp;                                                                          \
		file_record(&rut_agent_sessions[i], ta);                                           \
	}
DIRECT(0)
DIRECT(1)
DIRECT(2)
DIRECT(3)
DIRECT(4)
DIRECT(5)
DIRECT(6)
DIRECT(7)

/* ---- the hooks that one method has alone ---- */

/* The frame of the method is still there when it returns. */
static void lone_record(struct rut_rec *r, struct rut_trace_arg *ta)
{
	struct rut_variant *v;

	if (RUT_UNLIKELY(ta->event == RUT_EVENT_LINE)) {
		line(r->s, r, ta);
		return;
	}
	rut_lives_sync();
	v = variant_of(r, ta);
	if (v)
		record(r->s, ta, v);
}

static RUT_COLD void lone_watch(struct rut_rec *r, struct rut_trace_arg *ta)
{
	struct rut_variant *v;

	rut_lives_sync();
	v = variant_of(r, ta);
	if (v && v->watch)
		rut_agent_request_event(r->s, ta, v);
}

#define BLOCK_EVENTS (RUT_EVENT_B_CALL | RUT_EVENT_B_RETURN)

static inline void lone(VALUE tp, struct rut_rec *r, struct rut_trace_arg *ta)
{
	if (r->s->mode == RUT_AGENT_RECORD) {
		lone_record(r, ta);
		return;
	}
	if (RUT_UNLIKELY(r->s->within.count)) {
		if (r->s->within.on)
			rut_agent_within_event(r->s, ta);
		/* Of the blocks in it. */
		if (r->kind == RUT_REC_METHOD && ta->event & BLOCK_EVENTS)
			return;
	}
	if (RUT_UNLIKELY(r->s->hits.requests))
		lone_watch(r, ta);
	if (ta->event & (RUT_EVENT_CALL | RUT_EVENT_B_CALL)) {
		rut_lives_sync();
		hook_call(tp, r, ta);
	} else {
		hook_return(r->s, ta);
	}
}

static void on_lone(VALUE tp, void *data)
{
	lone(tp, data, rb.rb_tracearg_from_tracepoint(tp));
}

static void direct_lone(VALUE tp, struct rut_trace_arg *ta)
{
	const uintptr_t *data = (const uintptr_t *)tp + 4;

	if (!rb.tp_embedded)
		data = (const uintptr_t *)*data;
	lone(tp, (struct rut_rec *)data[rb.tp_word], ta);
}

rut_raw_fn rut_agent_hook_direct(const struct rut_session *s, int kind)
{
#define DIRECTS(i)                                                                                 \
	{                                                                                          \
		direct_count_##i, direct_time_##i, direct_trace_##i, direct_record_##i             \
	}
	static const rut_raw_fn fns[RUT_AGENT_SLOTS][4] = {DIRECTS(0), DIRECTS(1), DIRECTS(2),
							   DIRECTS(3), DIRECTS(4), DIRECTS(5),
							   DIRECTS(6), DIRECTS(7)};

	if (kind != RUT_REC_FILE)
		return rb.tp_word ? direct_lone : NULL;
	if (s->flags & RUT_AGENT_BY_CALLER)
		return NULL;
	return fns[s->index][s->mode == RUT_AGENT_RECORD ? 3
			     : rut_session_traces(s)	 ? 2
							 : s->mode == RUT_AGENT_TIME];
}

static void called(struct rut_session *s, VALUE tp, struct rut_trace_arg *ta, struct rut_variant *v)
{
	if (s->mode == RUT_AGENT_RECORD) {
		record(s, ta, v);
		return;
	}
	if (RUT_UNLIKELY(s->flags & RUT_AGENT_BY_CALLER)) {
		rut_agent_callers_count(s, v);
		return;
	}
	rut_add(&v->row->calls, 1);
	if (s->mode == RUT_AGENT_TIME)
		rut_agent_stack_push(s, ta->ec, ta->cfp, v);
	else if (rut_session_traces(s))
		rut_agent_trace_call(s, tp, ta, ta->cfp, v);
}

static void hook_call(VALUE tp, struct rut_rec *r, struct rut_trace_arg *ta)
{
	struct rut_variant *v = variant_of(r, ta);

	if (v)
		called(r->s, tp, ta, v);
}

static void hook_return(struct rut_session *s, struct rut_trace_arg *ta)
{
	if (s->mode == RUT_AGENT_TIME)
		rut_agent_stack_pop(s, ta);
	else if (s->trace.tracks)
		rut_agent_trace_return(s, ta, false);
}

/* ---- the hook of all methods ---- */

/*
 * Until 3.0 Ruby reports that a define_method's block has returned after it removed its frame: the
 * frame that is there is the caller's, which continues. An exception that ends it is reported from
 * within. The event names the method, as that of no other return does.
 */
static void bmethod_returns(struct rut_session *s, const struct rut_trace_arg *ta)
{
	/* Ruby fills in the rest of its structure. */
	union {
		struct rut_trace_arg ta;
		uintptr_t words[32];
	} arg = {.ta = *ta};
	const struct rut_stack *st = rut_agent_stack_of(s, ta->ec);
	const VALUE *cfp = ta->cfp;
	const struct rut_frame *f;
	bool same;

	if (!st || !st->count)
		return;
	f = &st->frames[st->count - 1];
	same = rut_agent_variant_is(s, f->v, rb.rb_tracearg_defined_class(&arg.ta),
				    rb.rb_tracearg_method_id(&arg.ta));
	if (same && f->cfp < ta->cfp &&
	    (size_t)((const char *)ta->cfp - (const char *)f->cfp) <= RUT_FRAME_BYTES_MAX)
		arg.ta.cfp = f->cfp;
	else if (!same || f->cfp != ta->cfp ||
		 !(*(const VALUE *)cfp[RUT_FRAME_EP] & RUT_FRAME_BMETHOD))
		arg.ta.cfp = (const char *)ta->cfp - 1; /* only what is below is over */
	hook_return(s, &arg.ta);
}

void rut_agent_hook_on_any_call(VALUE tp, void *session)
{
	struct rut_session *s = session;
	struct rut_trace_arg *ta = rb.rb_tracearg_from_tracepoint(tp);
	const VALUE *cfp = ta->cfp;
	struct rut_variant *v;
	struct rut_rec *r;
	bool bmethod;

	/* The frame of a define_method is removed by now: there is no record of its return. */
	if (s->mode == RUT_AGENT_RECORD && ta->event != RUT_EVENT_CALL && ta->id)
		return;
	if (ta->event != RUT_EVENT_CALL && s->mode != RUT_AGENT_RECORD) {
		if (ta->id)
			bmethod_returns(s, ta);
		else
			hook_return(s, ta);
		return;
	}
	bmethod = *(const VALUE *)cfp[RUT_FRAME_EP] & RUT_FRAME_BMETHOD;
	if (bmethod || s->mode == RUT_AGENT_RECORD) {
		r = rut_agent_code_rec(s, cfp[RUT_FRAME_ISEQ], bmethod);
		v = r ? rut_agent_hook_variant(r, ta) : NULL;
	} else {
		v = rut_agent_code_variant(s, ta);
	}
	if (v)
		called(s, tp, ta, v);
}

rut_tp_fn rut_agent_hook_for(const struct rut_session *s, int kind, uint32_t *ret_events)
{
	bool returns = rut_agent_session_wants_returns(s);
	uint32_t line = s->mode == RUT_AGENT_RECORD && s->flags & RUT_AGENT_KIND(RUT_KIND_LINE)
				? RUT_EVENT_LINE
				: 0;

	/*
	 * Until 3.0 a tracepoint that is enabled switches the other events of its code, and of the
	 * code inside, off. So all of ours ask for the same ones.
	 */
	if (rb.abi->events_must_agree)
		*ret_events =
			RUT_EVENT_CALL | RUT_EVENT_RETURN | RUT_EVENT_B_CALL | RUT_EVENT_B_RETURN;
	else if (kind != RUT_REC_BLOCK)
		*ret_events = RUT_EVENT_CALL | line | (returns ? RUT_EVENT_RETURN : 0) |
			      (s->within.count ? BLOCK_EVENTS : 0);
	else
		*ret_events = RUT_EVENT_B_CALL | line | (returns ? RUT_EVENT_B_RETURN : 0);
	return kind == RUT_REC_FILE ? on_file : on_lone;
}

bool rut_agent_hook_is_ours(rut_tp_fn fn)
{
	return fn == on_lone || fn == on_file;
}
