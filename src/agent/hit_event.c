/* SPDX-License-Identifier: MIT */
#include "hit_event.h"

#include "alloc.h"
#include "hit.h"
#include "names.h"
#include "site.h"
#include "watch_read.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- exceptions ---- */

static void on_raise(VALUE tp, void *session)
{
	struct rut_session *s = session;
	const struct rut_trace_arg *ta = rb.rb_tracearg_from_tracepoint(tp);
	struct rut_hit_facts f = {0};
	char class_name[RUT_HIT_TEXT_BYTES], message[RUT_HIT_TEXT_BYTES];
	bool singleton;
	uint64_t probes;
	int line;

	if (RUT_UNLIKELY(rut_agent_own_work) || rut_special_p(ta->data))
		return;
	rut_agent_class_name(rb.rb_obj_class(ta->data), class_name, sizeof(class_name), &singleton);
	probes = rut_agent_hits_of(s, RUT_HIT_RAISE, class_name);
	if (!probes)
		return;
	f.path = rut_source_location(&line);
	f.line = (uint64_t)line;
	f.class_name = class_name;
	/* Without a message of its own an exception has the name of its class. */
	rut_hit_fact(&f, RUT_HIT_MESSAGE)->text =
		rut_agent_watch_text(message, sizeof(message),
				     rb.rb_attr_get(ta->data, rb.rb_intern("mesg")))
			? message
			: class_name;
	rut_agent_hit_event(s, probes, &f);
}

/* ---- allocations ---- */

static void on_newobj(VALUE index, struct rut_trace_arg *ta)
{
	struct rut_session *s = rut_session_of(index);
	struct rut_hit_facts f = {0};
	const struct rut_agent_site *site;
	struct rut_hit_row *hits;
	const char *class_name;
	uint64_t bytes;

	if (RUT_UNLIKELY(rut_agent_own_work))
		return;
	site = rut_agent_alloc_site(s, ta, &bytes);
	if (!site)
		return;
	hits = &s->hits.rows[site->row - s->table.rows];
	if (RUT_UNLIKELY(!hits->known)) {
		class_name = rut_agent_table_get(&s->table, site->row->class_name);
		hits->calls = rut_agent_hits_of(s, RUT_HIT_ALLOC, class_name ? class_name : "");
		hits->known = true;
	}
	if (!hits->calls)
		return;
	f.row = site->row;
	rut_hit_fact(&f, RUT_HIT_BYTES)->number = bytes;
	rut_agent_hit_event(s, hits->calls, &f);
}

/* ---- garbage collection ---- */

static VALUE live_slots, major_by, gc_by;

#define SYMBOL	    0x0cu /* the low byte of one that is no object */
#define SYMBOL_MASK 0xffu

static const char *symbol_text(VALUE v)
{
	return (v & SYMBOL_MASK) == SYMBOL ? rb.rb_id2name(rb.rb_sym2id(v)) : NULL;
}

/* Nothing may be allocated. The functions that are called answer a symbol with a value. */
static void gc_event(struct rut_session *s, char event, uint64_t *begin_ns, bool ends)
{
	uint64_t probes = rut_agent_hits_of(s, event, NULL), now = rut_ring_clock();
	struct rut_hit_facts f = {.duration_ns = ends && *begin_ns ? now - *begin_ns : 0};

	*begin_ns = ends ? 0 : now;
	if (!probes)
		return;
	rut_hit_fact(&f, RUT_HIT_COUNT)->number = rb.rb_gc_count();
	rut_hit_fact(&f, RUT_HIT_LIVE)->number = rb.rb_gc_stat(live_slots);
	rut_hit_fact(&f, RUT_HIT_REASON)->text = symbol_text(rb.rb_gc_latest_gc_info(gc_by));
	rut_hit_fact(&f, RUT_HIT_MAJOR)->text = symbol_text(rb.rb_gc_latest_gc_info(major_by));
	rut_agent_hit_event(s, probes, &f);
}

static void on_gc(VALUE index, struct rut_trace_arg *ta)
{
	struct rut_session *s = rut_session_of(index);

	switch (ta->event) {
	case RUT_EVENT_GC_START:
		gc_event(s, RUT_HIT_GC_START, &s->hits.gc_start_ns, false);
		break;
	case RUT_EVENT_GC_END_SWEEP:
		gc_event(s, RUT_HIT_GC_END, &s->hits.gc_start_ns, true);
		break;
	case RUT_EVENT_GC_ENTER:
		gc_event(s, RUT_HIT_GC_ENTER, &s->hits.gc_enter_ns, false);
		break;
	default:
		gc_event(s, RUT_HIT_GC_EXIT, &s->hits.gc_enter_ns, true);
		break;
	}
}

/* ---- the GVL ---- */

/*
 * When each thread began to wait, or got the lock, as each session saw it. From 3.3 on READY may be
 * reported by the thread that wakes another one, which the event's data names. A slot that two
 * threads want is the later one's: of the earlier one a time is not known.
 */
#define THREADS 4096

static struct rut_gvl_thread {
	uintptr_t thread;
	uint32_t tid;
	uint64_t since_ns;
} threads[RUT_AGENT_SLOTS][THREADS];

static uintptr_t thread_of(const void *data)
{
	uintptr_t thread = data && rb.abi->gvl_event_has_thread ? *(const uintptr_t *)data : 0;

	return thread ? thread : (uintptr_t)&rut_agent_own_work;
}

/* Without the GVL. The hook is taken away under a lock that waits for those that run. */
static void on_gvl(uint32_t event, const void *data, void *session)
{
	const struct rut_session *s = session;
	uintptr_t thread = thread_of(data);
	struct rut_gvl_thread *t =
		&threads[s->index][(unsigned)(thread * 0x9e3779b97f4a7c15ull >> 40) % THREADS];
	char kind = event == RUT_THREAD_READY	  ? RUT_HIT_GVL_WAIT
		    : event == RUT_THREAD_RESUMED ? RUT_HIT_GVL_HAVE
						  : RUT_HIT_GVL_RELEASE;
	uint64_t now = rut_ring_clock(), since;
	struct rut_hit_facts f = {0};
	uintptr_t known = __atomic_load_n(&t->thread, __ATOMIC_ACQUIRE);
	uint32_t tid = known == thread ? __atomic_load_n(&t->tid, __ATOMIC_RELAXED) : 0;
	bool other = event == RUT_THREAD_READY && data && rb.abi->gvl_event_has_thread;

	if (!other)
		tid = (uint32_t)syscall(SYS_gettid);
	since = known == thread ? __atomic_load_n(&t->since_ns, __ATOMIC_RELAXED) : 0;
	__atomic_store_n(&t->tid, tid, __ATOMIC_RELAXED);
	__atomic_store_n(&t->since_ns, event == RUT_THREAD_SUSPENDED ? 0 : now, __ATOMIC_RELAXED);
	__atomic_store_n(&t->thread, thread, __ATOMIC_RELEASE);
	f.duration_ns = event != RUT_THREAD_READY && since && now > since ? now - since : 0;
	rut_hit_fact(&f, RUT_HIT_THREAD)->number = tid;
	rut_agent_hit_event(session, rut_agent_hits_of(session, kind, NULL), &f);
}

/* ---- hooks ---- */

static bool wants_gc(const struct rut_session *s)
{
	return rut_agent_hits_want(s, RUT_HIT_GC_START) || rut_agent_hits_want(s, RUT_HIT_GC_END) ||
	       rut_agent_hits_want(s, RUT_HIT_GC_ENTER) || rut_agent_hits_want(s, RUT_HIT_GC_EXIT);
}

static bool wants_gvl(const struct rut_session *s)
{
	return rut_agent_hits_want(s, RUT_HIT_GVL_WAIT) ||
	       rut_agent_hits_want(s, RUT_HIT_GVL_HAVE) ||
	       rut_agent_hits_want(s, RUT_HIT_GVL_RELEASE);
}

static VALUE symbol(const char *name)
{
	return rb.rb_id2sym(rb.rb_intern(name));
}

static void hook_gc(struct rut_session *s)
{
	live_slots = symbol("heap_live_slots");
	major_by = symbol("major_by");
	gc_by = symbol("gc_by");
	rut_agent_session_raw(s,
			      RUT_EVENT_GC_START | RUT_EVENT_GC_END_SWEEP | RUT_EVENT_GC_ENTER |
				      RUT_EVENT_GC_EXIT,
			      on_gc);
}

const char *rut_agent_hit_events_hook(struct rut_session *s)
{
	if (wants_gvl(s) && !rb.rb_internal_thread_add_event_hook)
		return "probes of the GVL need Ruby 3.2 or later";
	if (rut_agent_hits_want(s, RUT_HIT_ALLOC)) {
		if (rut_ractors_crash() && !rut_single_ractor())
			return RUT_REFUSED_RACTORS;
		if (rb.abi->slot_sizes)
			rut_agent_alloc_scan_slots(&s->slots);
		rut_agent_session_raw(s, RUT_EVENT_NEWOBJ, on_newobj);
	}
	if (rut_agent_hits_want(s, RUT_HIT_RAISE))
		rut_agent_session_tp(s, RUT_EVENT_RAISE, on_raise);
	if (wants_gc(s))
		hook_gc(s);
	if (wants_gvl(s)) {
		/* Those of a session before it are of no wait that this one sees. */
		memset(threads[s->index], 0, sizeof(threads[s->index]));
		s->record.gvl_hook = rb.rb_internal_thread_add_event_hook(
			on_gvl, RUT_THREAD_READY | RUT_THREAD_RESUMED | RUT_THREAD_SUSPENDED, s);
	}
	return NULL;
}
