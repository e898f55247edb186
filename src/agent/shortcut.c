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
	struct rut_session *s; /* the one whose hooks of files are called without Ruby's help */
	rut_raw_fn on_file;    /* they have this function */
	uint32_t users;	       /* sessions, a bit for each */
} shortcut;

/* The hook that this event goes to; NULL: there are several. */
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

static RUT_INLINE bool file_event(const struct rut_session *s, const struct rut_trace_arg *ta)
{
	const struct rut_agent_code *code;

	if (s->mode == RUT_AGENT_TIME)
		return ta->event == RUT_EVENT_CALL ? rut_hot_begin(s, ta) : rut_hot_end(s, ta);
	if (RUT_UNLIKELY(ta->event != RUT_EVENT_CALL))
		return true;
	code = rut_hot_call(s, ta);
	if (RUT_UNLIKELY(!code))
		return false;
	code->row->calls++;
	return true;
}

static RUT_INLINE bool c_event(const struct rut_session *s, const struct rut_trace_arg *ta)
{
	const void *below = (const char *)ta->cfp - RUT_C_BELOW;
	bool timed = s->mode == RUT_AGENT_TIME && rut_clock_is_tsc;
	const struct rut_agent_site *site;

	if (RUT_UNLIKELY(rut_own_work))
		return false;
	if (ta->event == RUT_EVENT_C_RETURN)
		return timed && rut_hot_pop(s, ta->ec, below);
	site = rut_hot_site(s, ta);
	if (RUT_UNLIKELY(!site))
		return false;
	if (RUT_UNLIKELY(!site->row))
		return true;
	if (timed)
		return rut_hot_push(s, ta->ec, below, site->v, site->row);
	if (RUT_UNLIKELY(s->mode != RUT_AGENT_CALLS))
		return false;
	site->row->calls++;
	return true;
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
	if (s && hook[HOOK_FUNC] == (VALUE)shortcut.on_file) {
		if (RUT_LIKELY(file_event(s, ta)))
			return;
	} else if (hook[HOOK_FUNC] == (VALUE)rut_ccall_on_event) {
		if (RUT_LIKELY(c_event(rut_session_of(hook[HOOK_DATA]), ta)))
			return;
	}
ruby:
	shortcut.ruby(ta, list, pop);
}

void rut_shortcut_begin(struct rut_session *s)
{
	if ((s->mode != RUT_AGENT_CALLS && s->mode != RUT_AGENT_TIME) || !rb.rb_exec_event_hooks ||
	    !rb.abi->hooks_in_code)
		return;
	if (!shortcut.slot.at)
		shortcut.slot = rut_got_find((const void *)(uintptr_t)rb.rb_exec_event_hooks,
					     "rb_exec_event_hooks");
	if (!shortcut.slot.at)
		return;
	shortcut.ruby = rb.rb_exec_event_hooks;
	if (!shortcut.s) {
		shortcut.on_file = rut_hook_direct(s, RUT_REC_FILE);
		shortcut.s = s;
	}
	if (shortcut.users || rut_got_set(shortcut.slot, (uintptr_t)exec_hooks))
		shortcut.users |= 1u << s->index;
}

void rut_shortcut_end(struct rut_session *s)
{
	bool used = shortcut.users & 1u << s->index;

	shortcut.users &= ~(1u << s->index);
	if (shortcut.s == s) {
		shortcut.on_file = NULL;
		shortcut.s = NULL;
	}
	if (used && !shortcut.users)
		rut_got_set(shortcut.slot, (uintptr_t)shortcut.ruby);
}
