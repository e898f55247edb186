/* SPDX-License-Identifier: MIT */
#include "session.h"

#include "alloc.h"
#include "ccall.h"
#include "census.h"
#include "clock.h"
#include "code.h"
#include "disable.h"
#include "files.h"
#include "graph.h"
#include "hit.h"
#include "hit_event.h"
#include "methods.h"
#include "origin.h"
#include "raises.h"
#include "request.h"
#include "request_caller.h"
#include "running.h"
#include "sample.h"
#include "scan.h"
#include "shortcut.h"
#include "site.h"
#include "stack.h"
#include "stacks.h"
#include "trace.h"
#include "variant.h"
#include "watch_read.h"
#include "within.h"
#include "write_record.h"

#include <errno.h>
#include <string.h>

static size_t extra_bytes(const struct rut_session *s)
{
	if (s->mode == RUT_AGENT_TIME && s->flags & RUT_AGENT_BUCKETS)
		return sizeof(struct rut_agent_buckets);
	if (s->mode == RUT_AGENT_HEAP)
		return sizeof(struct rut_agent_heap);
	return s->mode == RUT_AGENT_RAISES ? sizeof(struct rut_agent_message) : 0;
}

static size_t more_bytes(const struct rut_session *s)
{
	return s->mode == RUT_AGENT_HEAP && s->flags & RUT_AGENT_GRAPH
		       ? RUT_GRAPH_WORDS * sizeof(uint64_t)
		       : 0;
}

static bool wants_requests(const struct rut_session *s)
{
	return s->mode == RUT_AGENT_SCRIPT ||
	       (s->mode == RUT_AGENT_RECORD && s->flags & RUT_AGENT_KIND(RUT_KIND_REQUEST));
}

static void filter_init(struct rut_session *s)
{
	const struct rut_watches *w = &s->requests.watches;

	rut_agent_filter_init(&s->filter, s->slot->config, w->count ? w : NULL);
	/* Of a recording they are for calls, which have a session of their own. */
	if (s->filter.watches && s->mode == RUT_AGENT_RECORD)
		s->filter.has_rules = false;
}

static int mode_init(struct rut_session *s)
{
	bool script = s->mode == RUT_AGENT_SCRIPT;
	int r = 0;

	if (s->mode == RUT_AGENT_TRACE || s->mode == RUT_AGENT_RECORD ||
	    (script && s->slot->ring_bytes))
		r = rut_agent_trace_init(s, s->slot->ring_bytes);
	if (!r && script)
		r = rut_agent_hits_init(s);
	return r < 0 || !script ? r : rut_agent_within_init(s);
}

/* A process in a chroot may see no /sys; its tracer does. Sessions that run keep their ticks. */
static void choose_clock(const struct rut_agent_slot *slot)
{
	for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++)
		if (rut_agent_sessions[i].used)
			return;
	if (slot->flags & RUT_AGENT_TSC)
		rut_agent_clock_learn();
}

int rut_agent_session_init(struct rut_session *s, struct rut_agent_slot *slot)
{
	unsigned index = s->index;
	int r;

	memset(s, 0, sizeof(*s));
	s->index = index;
	s->slot = slot;
	s->mode = slot->mode;
	s->flags = slot->flags;
	s->trace.slow_ns = slot->slow_ns;
	choose_clock(slot);
	slot->config[RUT_AGENT_CONFIG - 1] = slot->config[RUT_AGENT_CONFIG - 2] = 0;
	if (wants_requests(s)) {
		r = rut_agent_watches_init(&s->requests.watches, slot->config);
		if (r < 0)
			return r;
	}
	filter_init(s);
	r = rut_agent_table_init(&s->table, extra_bytes(s), more_bytes(s));
	if (r < 0) {
		rut_agent_watches_fini(&s->requests.watches);
		return r;
	}
	if (s->mode == RUT_AGENT_TIME && s->table.hdr->extra_bytes)
		s->time.buckets = s->table.extra;
	s->used = true;
	rut_agent_codes_init(&s->codes);
	s->events.fd = -1;
	r = rut_agent_variants_init(s);
	if (r < 0) {
		rut_agent_session_fini(s);
		return r;
	}
	r = mode_init(s);
	if (r < 0) {
		rut_agent_session_fini(s);
		return r;
	}
	if (s->mode == RUT_AGENT_TIME)
		rut_agent_stack_describe(s, &s->table.hdr->stacks);
	if (s->mode == RUT_AGENT_HEAP)
		rut_agent_graph_describe(s);
	slot->ring_ino = s->events.ino;
	slot->ring_fd = s->events.fd;
	slot->table_fd = s->table.fd;
	slot->table_ino = s->table.ino;
	slot->member = s->table.member;
	slot->ring_member = s->events.member;
	return 0;
}

void rut_agent_session_fini(struct rut_session *s)
{
	unsigned index = s->index;

	rut_agent_stack_fini(s);
	rut_agent_codes_fini(&s->codes);
	rut_agent_recs_fini(&s->recs);
	rut_agent_sites_fini(s);
	rut_agent_origins_fini(s);
	if (s->used)
		rut_agent_variants_fini(s);
	while (s->arena) {
		struct rut_agent_arena *a = s->arena;

		s->arena = a->next;
		rut_agent_unmap(a, RUT_ARENA);
	}
	rut_agent_trace_fini(s);
	if (s->used)
		rut_agent_hits_fini(s);
	if (s->used)
		rut_agent_within_fini(s);
	rut_agent_watches_fini(&s->requests.watches);
	rut_agent_request_caller_fini(s);
	rut_agent_watch_fini(s);
	rut_agent_sample_fini(s);
	if (s->used)
		rut_agent_table_fini(&s->table);
	memset(s, 0, sizeof(*s));
	s->index = index;
}

#define DROP_WAIT_NS	 300000000ull
#define DROP_WAIT_MAX_NS 20000000000ull

static bool counts_objects(const struct rut_session *s)
{
	return !rut_agent_session_counts_calls(s) && s->mode != RUT_AGENT_RECORD &&
	       s->mode != RUT_AGENT_RAISES && s->mode != RUT_AGENT_HEAP &&
	       s->mode != RUT_AGENT_SCRIPT;
}

static void hook_calls(struct rut_session *s)
{
	bool follow = rut_agent_session_wants_returns(s);

	if (rb.target)
		rut_agent_session_tp(s, RUT_EVENT_SCRIPT_COMPILED, rut_agent_methods_on_compiled);
	s->main_comes = rut_agent_methods_main_comes();
	if (s->main_comes)
		rut_agent_session_tp(s, RUT_EVENT_C_CALL, rut_agent_methods_on_main);
	if (s->flags & RUT_AGENT_EXCEPTIONS && s->mode == RUT_AGENT_TRACE)
		rut_agent_session_tp(s, RUT_EVENT_RAISE, rut_agent_trace_on_raise);
	if ((follow && s->mode != RUT_AGENT_RECORD) || rut_session_traces(s)) {
		rut_agent_session_tp(s, RUT_EVENT_FIBER_SWITCH, rut_agent_stack_on_switch);
		rut_agent_session_tp(s, RUT_EVENT_THREAD_END, rut_agent_stack_on_thread_end);
	}
	s->by_file = rut_agent_files_usable(s->filter.has_names);
	if (s->filter.watches && !rb.target)
		s->refused = "requests need Ruby 2.6 or later";
	else if (rb.target)
		rut_agent_scan_begin(s, false);
	else
		rut_agent_methods_go_global(s);
	if (s->flags & RUT_AGENT_C_CALLS && s->mode != RUT_AGENT_RECORD)
		rut_agent_session_raw(s, RUT_EVENT_C_CALL | (follow ? RUT_EVENT_C_RETURN : 0),
				      rut_agent_ccall_on_event);
}

static VALUE hook_body(VALUE arg)
{
	struct rut_session *s = (struct rut_session *)arg;

	s->hooked = true;
	rut_agent_shortcut_begin(s);
	s->todo.codes = rb.qnil;
	rb.rb_gc_register_address(&s->todo.codes);
	rut_keep(&s->fibers, rb.rb_obj_hide(rb.rb_ary_new()));
	s->dropper.wait_ns = DROP_WAIT_NS;
	s->dropper.at_ns = rut_mono_ns() + DROP_WAIT_NS;
	if (s->mode == RUT_AGENT_HEAP && !(s->flags & RUT_AGENT_ORIGINS))
		return rb.qnil;
	rut_agent_methods_watch_ractors(s);
	if (s->mode == RUT_AGENT_HEAP) {
		rut_agent_origins_begin(s);
		return rb.qnil;
	}
	if (s->flags & RUT_AGENT_STACKS) {
		rut_agent_stacks_write(s);
		return rb.qnil;
	}
	if (counts_objects(s) && rut_ractors_crash() && !rut_single_ractor()) {
		s->refused = RUT_REFUSED_RACTORS;
		return rb.qnil;
	}
	if (counts_objects(s)) {
		if (rb.abi->slot_sizes)
			rut_agent_alloc_scan_slots(&s->slots);
		rut_agent_session_raw(s, RUT_EVENT_NEWOBJ, rut_agent_alloc_on_newobj);
		return rb.qnil;
	}
	if (s->mode == RUT_AGENT_RAISES)
		rut_agent_session_tp(s, RUT_EVENT_RAISE, rut_agent_raises_on_raise);
	if (s->filter.watches)
		rut_agent_request_hook(s);
	if (s->mode == RUT_AGENT_RECORD)
		s->refused = rut_agent_record_hook(s);
	if (s->mode == RUT_AGENT_SCRIPT)
		s->refused = rut_agent_hit_events_hook(s);
	if (s->within.count) {
		rut_agent_session_tp(s, RUT_EVENT_FIBER_SWITCH, rut_agent_within_on_switch);
		rut_agent_session_tp(s, RUT_EVENT_THREAD_END, rut_agent_within_on_thread_end);
	}
	if (!s->refused && s->mode == RUT_AGENT_RECORD &&
	    s->flags & RUT_AGENT_KIND(RUT_KIND_ALLOC_SAMPLE))
		s->refused = rut_agent_sample_hook(s);
	if (s->refused)
		return rb.qnil;
	/* Stacks only number the fibers here: nothing needs to be known of switches. */
	if (s->mode == RUT_AGENT_RECORD)
		rut_agent_session_tp(s, RUT_EVENT_THREAD_END, rut_agent_stack_on_thread_end);
	if (s->flags & RUT_AGENT_C_CALLS && s->mode == RUT_AGENT_RECORD)
		rut_agent_session_raw(s, RUT_EVENT_C_CALL | RUT_EVENT_C_RETURN,
				      rut_agent_ccall_on_event);
	if (rut_agent_session_counts_calls(s))
		hook_calls(s);
	return rb.qnil;
}

const char *rut_agent_session_hook(struct rut_session *s)
{
	int failed = 0;

	/* Its flags and its filter may have been completed since (RUT_SLOT_ASKED). */
	s->flags = s->slot->flags;
	filter_init(s);
	rb.rb_protect(hook_body, (VALUE)s, &failed);
	if (!failed)
		return s->refused;
	rb.rb_set_errinfo(rb.qnil);
	return "Ruby raised an exception while the hooks were set";
}

/* Takes hooks away that turned out to be of no use. Returns true while some of them are left. */
static bool drop(struct rut_session *s, uint64_t deadline_ns)
{
	if (!s->dropper.walk.found) {
		if (!rut_agent_session_drops_due(s))
			return false;
		__atomic_store_n(&s->dropper.count, 0, __ATOMIC_RELAXED);
	}
	if (rut_agent_methods_unhook(s, true, deadline_ns))
		return true;
	s->dropper.at_ns = rut_mono_ns() + s->dropper.wait_ns;
	if (s->dropper.wait_ns < DROP_WAIT_MAX_NS)
		s->dropper.wait_ns *= 2;
	return false;
}

bool rut_agent_session_drops_due(const struct rut_session *s)
{
	return s->dropper.count && rut_mono_ns() >= s->dropper.at_ns;
}

static bool work(struct rut_session *s, uint64_t deadline_ns)
{
	static const uint32_t again_ms[] = {400, 1500, 5000};
	bool more, dropping;

	/*
	 * A thread is setting hooks on code that it has compiled, and Ruby has interrupted it: that
	 * code is not to be found half done.
	 */
	if (s->busy)
		return true;
	if (s->slots.stale)
		rut_agent_alloc_scan_slots(&s->slots);
	if (s->mode == RUT_AGENT_HEAP)
		return rut_agent_census_work(s, deadline_ns);
	if (!rut_agent_session_counts_calls(s) || s->global)
		return false;
	dropping = s->scan.phase == RUT_SCAN_OFF && drop(s, deadline_ns);
	more = rut_agent_methods_work(s, deadline_ns);
	if (!more && s->rescan.due && rut_mono_ns() >= s->rescan.at_ns) {
		rut_agent_scan_begin(s, true);
		more = true;
		if (s->rescan.round < 3)
			s->rescan.at_ns = rut_mono_ns() + again_ms[s->rescan.round++] * 1000000ull;
		else
			s->rescan.due = false;
	}
	return more || dropping;
}

/* From now on what GCs take is theirs. */
static void watch_gc(struct rut_session *s)
{
	const uint64_t *old = rut_agent_hot.gc_ns;

	rut_agent_gc_time_find();
	if (s->time.gc_row && rut_agent_hot.gc_ns == old)
		return;
	s->time.gc_ns_seen = rut_gc_time_ns();
	s->time.gcs_seen = rb.rb_gc_count();
	if (!s->time.gc_row && !s->filter.has_names)
		s->time.gc_row = rut_agent_table_row(
			&s->table, 0, 0, 0,
			rut_agent_table_str(&s->table, RUT_GC_ROW, sizeof(RUT_GC_ROW) - 1), 0);
}

struct work {
	struct rut_session *s;
	uint64_t deadline_ns;
	bool more;
};

static VALUE work_body(VALUE arg)
{
	struct work *w = (struct work *)arg;

	w->more = work(w->s, w->deadline_ns);
	return rb.qnil;
}

bool rut_agent_session_work(struct rut_session *s, uint64_t deadline_ns)
{
	struct work w = {.s = s, .deadline_ns = deadline_ns};
	int failed = 0;
	bool more;

	if (s->mode == RUT_AGENT_TIME)
		watch_gc(s);
	rb.rb_protect(work_body, (VALUE)&w, &failed);
	if (failed) { /* no memory: what is not hooked by now stays so */
		rb.rb_set_errinfo(rb.qnil);
		rut_agent_scan_end(s);
		rut_agent_census_end(s);
		s->todo.codes = rb.qnil;
		/* The map may come later: methods without hooks are not followed then, either. */
		rut_agent_within_refuse(s);
	}
	more = w.more && !failed;
	if (!more && s->mode == RUT_AGENT_TIME && !s->time.seeded)
		rut_agent_running_seed(s);
	if (!more)
		rut_agent_within_begin(s);
	return more;
}

static VALUE unhook_globals(VALUE arg)
{
	struct rut_session *s = (struct rut_session *)arg;

	s->global_tp = 0;
	rut_agent_session_raw_off(s);
	rut_agent_record_unhook(s);
	while (s->tp_count) {
		VALUE *tp = &s->tps[--s->tp_count];

		rut_agent_disable(*tp, false);
		rb.rb_gc_unregister_address(tp);
		*tp = 0;
	}
	return rb.qnil;
}

bool rut_agent_session_unhook(struct rut_session *s, uint64_t deadline_ns)
{
	int failed = 0;

	if (!s->hooked)
		return false;
	if (s->busy)
		return true;
	rut_agent_scan_end(s);
	rut_agent_census_end(s);
	rb.rb_protect(unhook_globals, (VALUE)s, &failed);
	if (failed)
		rb.rb_set_errinfo(rb.qnil);
	if (!(s->flags & RUT_AGENT_STACKS) && rut_agent_methods_unhook(s, false, deadline_ns))
		return true;
	rut_agent_scan_end(s);
	rb.rb_gc_unregister_address(&s->todo.codes);
	rb.rb_gc_unregister_address(&s->fibers);
	rut_agent_request_unhook(s);
	rut_agent_shortcut_end(s);
	s->hooked = false;
	return false;
}
