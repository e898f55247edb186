/* SPDX-License-Identifier: MIT */
#include "shortcut.h"

#include "ccall.h"
#include "got.h"
#include "hooks.h"
#include "hot.h"
#include "site.h"

/* rb_event_hook_t, as in hooklist.c. */
#define HOOK_WHAT 0
#define HOOK_FUNC 1
#define HOOK_DATA 2
#define HOOK_NEXT 3

typedef void (*exec_fn)(struct rut_trace_arg *ta, const VALUE *list, int pop);

static struct {
	struct rut_got_slot slot;
	exec_fn ruby;
	struct rut_session *s; /* the one whose hooks of methods are called without Ruby's help */
	rut_raw_fn on_file;    /* they have this function */
	uint32_t users;	       /* sessions, a bit for each */
} shortcut;

/* The only hook of this event; NULL: there are several. */
static RUT_INLINE const VALUE *only_hook(const VALUE *list, uint32_t event)
{
	const VALUE *only = NULL;

	for (const VALUE *hook = (const VALUE *)list[0]; hook;
	     hook = (const VALUE *)hook[HOOK_NEXT]) {
		if (!(hook[HOOK_WHAT] >> 32 & event))
			continue;
		if (RUT_UNLIKELY(only || (uint32_t)hook[HOOK_WHAT] != RUT_HOOK_RAW))
			return NULL;
		only = hook;
	}
	return only;
}

static RUT_INLINE bool time_c(const struct rut_session *s, const struct rut_trace_arg *ta, bool tsc)
{
	const void *below = (const char *)ta->cfp - RUT_C_BELOW;
	const struct rut_agent_site *site;

	if (ta->event == RUT_EVENT_C_RETURN)
		return rut_hot_pop(s, ta->ec, below, tsc);
	site = rut_hot_site(s, ta);
	return site && (!site->row || rut_hot_push(s, ta->ec, below, site->v, site->row, tsc));
}

/*
 * Counting needs few registers, timing all, and to ask the kernel for the time is a call: each has
 * a function of its own, so that a counted call saves none. All end by calling the next function in
 * their place.
 */
#define TIME(name, fn, tsc)                                                                        \
	static __attribute__((noinline)) void name(struct rut_trace_arg *ta, const VALUE *list,    \
						   int pop, const struct rut_session *s)           \
	{                                                                                          \
		if (RUT_UNLIKELY(!fn(s, ta, tsc)))                                                 \
			shortcut.ruby(ta, list, pop);                                              \
	}
TIME(time_file_tsc, rut_hot_time, true)
TIME(time_file_ns, rut_hot_time, false)
TIME(time_c_tsc, time_c, true)
TIME(time_c_ns, time_c, false)

static RUT_INLINE bool count_file(const struct rut_session *s, const struct rut_trace_arg *ta)
{
	const struct rut_agent_code *code;

	if (RUT_UNLIKELY(ta->event != RUT_EVENT_CALL))
		return true;
	code = rut_hot_call(s, ta);
	if (RUT_UNLIKELY(!code))
		return false;
	code->row->calls++;
	return true;
}

static RUT_INLINE bool count_c(const struct rut_session *s, const struct rut_trace_arg *ta)
{
	const struct rut_agent_site *site;

	if (RUT_UNLIKELY(ta->event == RUT_EVENT_C_RETURN))
		return false;
	site = rut_hot_site(s, ta);
	if (RUT_UNLIKELY(!site))
		return false;
	if (RUT_LIKELY(site->row != NULL))
		site->row->calls++;
	return true;
}

/*
 * Is it the hook of a file, or that of all methods? The events of blocks that are methods come to
 * the latter with a name. Most sessions have no such hook, and hooks of others may have no data.
 */
static RUT_INLINE bool is_of_methods(const struct rut_session *s, const struct rut_trace_arg *ta,
				     const VALUE *hook)
{
	return RUT_LIKELY(hook[HOOK_FUNC] == (VALUE)shortcut.on_file) ||
	       (s->global_tp && hook[HOOK_DATA] == s->global_tp && shortcut.on_file && !ta->id);
}

static void exec_hooks(struct rut_trace_arg *ta, const VALUE *list, int pop)
{
	const struct rut_session *s = shortcut.s;
	unsigned word = rb.ec_trace_arg;
	const VALUE *hook;

	if (RUT_UNLIKELY(!word || ((const VALUE *)ta->ec)[word]))
		goto ruby;
	hook = only_hook(list, ta->event);
	if (RUT_UNLIKELY(!hook))
		goto ruby;
	if (s && is_of_methods(s, ta, hook)) {
		if (s->mode == RUT_AGENT_TIME) {
			(rut_agent_clock_is_tsc ? time_file_tsc : time_file_ns)(ta, list, pop, s);
			return;
		}
		if (RUT_LIKELY(count_file(s, ta)))
			return;
	} else if (hook[HOOK_FUNC] == (VALUE)rut_agent_ccall_on_event && !rut_agent_own_work) {
		s = rut_session_of(hook[HOOK_DATA]);
		if (s->mode == RUT_AGENT_TIME) {
			(rut_agent_clock_is_tsc ? time_c_tsc : time_c_ns)(ta, list, pop, s);
			return;
		}
		if (s->mode == RUT_AGENT_CALLS && RUT_LIKELY(count_c(s, ta)))
			return;
	}
ruby:
	shortcut.ruby(ta, list, pop);
}

void rut_agent_shortcut_begin(struct rut_session *s)
{
	if ((s->mode != RUT_AGENT_CALLS && s->mode != RUT_AGENT_TIME) || !rb.rb_exec_event_hooks ||
	    !rb.abi->hooks_in_code)
		return;
	if (!shortcut.slot.at)
		shortcut.slot = rut_agent_got_find((const void *)(uintptr_t)rb.rb_exec_event_hooks,
						   "rb_exec_event_hooks");
	if (!shortcut.slot.at)
		return;
	shortcut.ruby = rb.rb_exec_event_hooks;
	if (!shortcut.s) {
		shortcut.on_file = rut_agent_hook_direct(s, RUT_REC_FILE);
		shortcut.s = s;
	}
	if (shortcut.users || rut_agent_got_set(shortcut.slot, (uintptr_t)exec_hooks))
		shortcut.users |= 1u << s->index;
}

void rut_agent_shortcut_end(struct rut_session *s)
{
	bool used = shortcut.users & 1u << s->index;

	shortcut.users &= ~(1u << s->index);
	if (shortcut.s == s) {
		shortcut.on_file = NULL;
		shortcut.s = NULL;
	}
	if (used && !shortcut.users)
		rut_agent_got_set(shortcut.slot, (uintptr_t)shortcut.ruby);
}
