/* SPDX-License-Identifier: MIT */
/*
 * Record mode: a record for each event that is asked for, into a ring of CTF packets which the
 * tracer writes to a trace, or leaves in memory (flight recorder), without parsing them.
 *
 * A SWITCH record names the thread of the records; it is written together with the record that
 * needs it in one reservation. It is needed when another fiber or another native thread runs than
 * the last time, and first in each packet. What is remembered of that is right because one thread
 * at a time holds the GVL; while several ractors run nothing is remembered, and each record has its
 * own.
 */
#include "write_record.h"

#include "alloc.h"
#include "record.h"
#include "site.h"
#include "stack.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RECORD_NS(header) ((header) >> 16) /* 48 bits of the time */

static bool wants(const struct rut_session *s, enum rut_agent_kind kind)
{
	return s->flags & RUT_AGENT_KIND(kind);
}

/* Its address is that of the native thread. */
static __thread uint32_t here __attribute__((tls_model("initial-exec")));

static uint32_t tid_here(void)
{
	/* Not kept: in the child of a fork it would be the parent's. */
	return (uint32_t)syscall(SYS_gettid);
}

/* Room for one record, its header written, with a SWITCH record before it if it needs one. */
static inline void *reserve(struct rut_session *s, void *ec, uint32_t size, uint16_t id,
			    struct rut_record_at *ret)
{
	struct rut_record_whose *w = &s->record.whose;
	const struct rut_ring *r = &s->events.ring;
	uint64_t ns, mask = r->subbuf_size - 1, pos;
	struct rut_record_switch *sw;
	const struct rut_stack *st;
	bool single = rut_single_ractor();

	if (RUT_UNLIKELY(!r->ctl))
		return NULL;
	pos = __atomic_load_n(&r->ctl->pos, __ATOMIC_RELAXED);
	ret->bytes = size;
	ret->records = RUT_RING_RECORD;
	if (RUT_LIKELY(w->ec == ec && w->native == &here && w->packet == pos >> r->shift &&
		       (pos & mask) + size <= mask && single)) {
		uint64_t *head = rut_ring_reserve(r, size, rut_ring_clock, &ns, &ret->pos);

		if (RUT_UNLIKELY(!head))
			return NULL;
		*head = RUT_RECORD_HEADER(id, ns);
		/* A thread without the GVL may have filled the packet meanwhile. */
		if (RUT_UNLIKELY(ret->pos >> r->shift != w->packet))
			w->ec = NULL;
		return head;
	}
	st = rut_agent_stack_of(s, ec);
	ret->bytes += sizeof(*sw);
	ret->records += RUT_RING_RECORD;
	sw = rut_ring_reserve(r, (uint32_t)ret->bytes, rut_ring_clock, &ns, &ret->pos);
	if (!sw)
		return NULL;
	sw->header = RUT_RECORD_HEADER(RUT_RECORD_SWITCH, ns);
	sw->tid = tid_here();
	sw->fiber = st ? st->number : 0;
	if (single)
		*w = (struct rut_record_whose){ec, &here, ret->pos >> r->shift};
	else
		w->ec = NULL;
	*(uint64_t *)(sw + 1) = RUT_RECORD_HEADER(id, ns);
	return sw + 1;
}

static inline void commit(const struct rut_session *s, const struct rut_record_at *at)
{
	__atomic_fetch_add(rut_ring_commit_of(&s->events.ring, at->pos), at->bytes + at->records,
			   __ATOMIC_RELEASE);
}

void rut_agent_record_write(struct rut_session *s, void *ec, uint16_t id, const void *record,
			    uint32_t bytes)
{
	struct rut_record_at at;
	void *to = reserve(s, ec, bytes, id, &at);

	if (!to)
		return;
	memcpy((uint64_t *)to + 1, (const uint64_t *)record + 1, bytes - sizeof(uint64_t));
	commit(s, &at);
}

static uint32_t row_number(const struct rut_session *s, const struct rut_agent_row *row)
{
	return (uint32_t)(row - s->table.rows);
}

static inline void write_row(struct rut_session *s, void *ec, uint16_t id,
			     const struct rut_agent_row *row)
{
	struct rut_record_at at;
	struct rut_record_row *e = reserve(s, ec, sizeof(*e), id, &at);

	if (RUT_UNLIKELY(!e))
		return;
	e->row = row_number(s, row);
	commit(s, &at);
}

void rut_agent_record_method(struct rut_session *s, void *ec, const struct rut_agent_row *row,
			     uint32_t event)
{
	bool call = event & (RUT_EVENT_CALL | RUT_EVENT_B_CALL);

	if (wants(s, call ? RUT_KIND_CALL : RUT_KIND_RETURN))
		write_row(s, ec, call ? RUT_RECORD_CALL : RUT_RECORD_RETURN, row);
}

/*
 * Only slow calls. Those around a slow call are slow, too, so they are written before it if they
 * have not been yet: calls and returns nest as they do when all are written.
 */
static void write_slow(struct rut_session *s, void *ec, struct rut_stack *st)
{
	for (uint32_t i = 0; i < st->count; i++) {
		struct rut_frame *f = &st->frames[i];
		struct rut_record_slow *e;
		struct rut_record_at at;

		if (f->inner == RUT_WRITTEN)
			continue;
		f->inner = RUT_WRITTEN;
		e = reserve(s, ec, sizeof(*e), RUT_RECORD_SLOW_CALL, &at);
		if (!e)
			continue;
		e->row = row_number(s, f->v->row);
		e->ago_ns = (RECORD_NS(e->header) - f->begin) & RECORD_NS(~0ull);
		commit(s, &at);
	}
}

static void slow_begins(struct rut_stack *st, const void *cfp, struct rut_variant *v)
{
	/* Calls at or below this address have ended without an event. */
	while (st->count && st->frames[st->count - 1].cfp <= cfp)
		st->count--;
	if (st->count == st->cap && !rut_agent_stack_grow(st))
		return;
	st->frames[st->count++] = (struct rut_frame){.cfp = cfp, .v = v, .begin = rut_ring_clock()};
}

void rut_agent_record_slow(struct rut_session *s, const struct rut_trace_arg *ta,
			   struct rut_variant *v)
{
	struct rut_stack *st = rut_agent_stack_of(s, ta->ec);

	if (!st)
		return;
	if (ta->event & (RUT_EVENT_CALL | RUT_EVENT_B_CALL)) {
		slow_begins(st, ta->cfp, v);
		return;
	}
	while (st->count && st->frames[st->count - 1].cfp < ta->cfp)
		st->count--;
	if (!st->count || st->frames[st->count - 1].cfp != ta->cfp)
		return;
	if (rut_ring_clock() - st->frames[st->count - 1].begin >= s->trace.slow_ns) {
		write_slow(s, ta->ec, st);
		write_row(s, ta->ec, RUT_RECORD_RETURN, st->frames[st->count - 1].v->row);
	}
	st->count--;
}

void rut_agent_record_c_method(struct rut_session *s, const struct rut_trace_arg *ta)
{
	bool call = ta->event == RUT_EVENT_C_CALL;
	const struct rut_agent_site *site;

	if (!wants(s, call ? RUT_KIND_C_CALL : RUT_KIND_C_RETURN))
		return;
	site = rut_agent_site(s, ta, ta->klass, ta->id, true);
	if (site)
		write_row(s, ta->ec, call ? RUT_RECORD_C_CALL : RUT_RECORD_C_RETURN, site->row);
}

void rut_agent_record_line(struct rut_session *s, struct rut_trace_arg *ta)
{
	const struct rut_agent_site *site;
	struct rut_record_line *e;
	struct rut_record_at at;
	VALUE owner, method;
	int line;

	if (!wants(s, RUT_KIND_LINE) || !rut_source_location(&line))
		return;
	method = rb.rb_tracearg_method_id(ta);
	owner = rb.rb_tracearg_defined_class(ta);
	/* Code that defines methods is hooked with them, when it is new. */
	if (method == rb.qnil || rut_special_p(owner))
		return;
	site = rut_agent_site_line(s, ta, owner, rb.rb_sym2id(method));
	if (!site)
		return;
	e = reserve(s, ta->ec, sizeof(*e), RUT_RECORD_LINE, &at);
	if (!e)
		return;
	e->row = row_number(s, site->row);
	e->line = (uint32_t)line;
	commit(s, &at);
}

/* ---- exceptions and allocations ---- */

static void on_raise(VALUE tp, void *session)
{
	struct rut_session *s = session;
	struct rut_trace_arg *ta = rb.rb_tracearg_from_tracepoint(tp);
	const struct rut_agent_site *site =
		rut_agent_site(s, ta, rb.rb_obj_class(ta->data), 0, true);

	if (site)
		write_row(s, ta->ec,
			  ta->event == RUT_EVENT_RAISE ? RUT_RECORD_RAISE : RUT_RECORD_RESCUE,
			  site->row);
}

static void on_newobj(VALUE index, struct rut_trace_arg *ta)
{
	struct rut_session *s = rut_session_of(index);
	uint64_t bytes;
	const struct rut_agent_site *site = rut_agent_alloc_site(s, ta, &bytes);
	struct rut_record_alloc *e;
	struct rut_record_at at;

	if (!site)
		return;
	e = reserve(s, ta->ec, sizeof(*e), RUT_RECORD_ALLOC, &at);
	if (!e)
		return;
	e->row = row_number(s, site->row);
	e->bytes = (uint32_t)bytes;
	commit(s, &at);
}

/* ---- GC ---- */

static struct {
	VALUE live, major_by, gc_by;
#define F(name) VALUE major_##name;
	RUT_RECORD_GC_MAJORS(F)
#undef F
#define F(name) VALUE by_##name;
	RUT_RECORD_GC_BYS(F)
#undef F
} sym;

static VALUE symbol(const char *name)
{
	return rb.rb_id2sym(rb.rb_intern(name));
}

static void make_symbols(void)
{
	sym.live = symbol("heap_live_slots");
	sym.major_by = symbol("major_by");
	sym.gc_by = symbol("gc_by");
#define F(name) sym.major_##name = symbol(#name);
	RUT_RECORD_GC_MAJORS(F)
#undef F
#define F(name) sym.by_##name = symbol(#name);
	RUT_RECORD_GC_BYS(F)
#undef F
}

static uint8_t major_of(VALUE v)
{
#define F(name)                                                                                    \
	if (v == sym.major_##name)                                                                 \
		return RUT_RECORD_GC_MAJOR_##name;
	RUT_RECORD_GC_MAJORS(F)
#undef F
	return RUT_RECORD_GC_MINOR;
}

static uint8_t by_of(VALUE v)
{
#define F(name)                                                                                    \
	if (v == sym.by_##name)                                                                    \
		return RUT_RECORD_GC_BY_##name;
	RUT_RECORD_GC_BYS(F)
#undef F
	return RUT_RECORD_GC_BY_UNKNOWN;
}

/* Nothing may be allocated. The two functions that are called answer a symbol with a number. */
static void on_gc(VALUE index, struct rut_trace_arg *ta)
{
	struct rut_session *s = rut_session_of(index);
	bool detail = ta->event == RUT_EVENT_GC_START || ta->event == RUT_EVENT_GC_END_SWEEP;
	uint16_t id = ta->event == RUT_EVENT_GC_START	    ? RUT_RECORD_GC_START
		      : ta->event == RUT_EVENT_GC_END_MARK  ? RUT_RECORD_GC_MARK_END
		      : ta->event == RUT_EVENT_GC_END_SWEEP ? RUT_RECORD_GC_SWEEP_END
		      : ta->event == RUT_EVENT_GC_ENTER	    ? RUT_RECORD_GC_ENTER
							    : RUT_RECORD_GC_EXIT;
	struct rut_record_at at;
	struct rut_record_gc *e =
		reserve(s, ta->ec, detail ? sizeof(*e) : sizeof(struct rut_record_plain), id, &at);

	if (!e)
		return;
	if (detail) {
		e->count = (uint32_t)rb.rb_gc_count();
		e->live_slots = rb.rb_gc_stat(sym.live);
		e->major = major_of(rb.rb_gc_latest_gc_info(sym.major_by));
		e->by = by_of(rb.rb_gc_latest_gc_info(sym.gc_by));
	}
	commit(s, &at);
}

/* ---- threads and the GVL ---- */

static void write_thread(struct rut_session *s, uint16_t id, uint32_t tid)
{
	struct rut_record_thread *e;
	uint64_t pos, ns;

	if (!s->events.ring.ctl)
		return;
	e = rut_ring_reserve(&s->events.ring, sizeof(*e), rut_ring_clock, &ns, &pos);
	if (!e)
		return;
	e->header = RUT_RECORD_HEADER(id, ns);
	e->tid = tid;
	rut_ring_commit(&s->events.ring, pos, sizeof(*e));
}

static void on_thread(VALUE tp, void *session)
{
	const struct rut_trace_arg *ta = rb.rb_tracearg_from_tracepoint(tp);

	write_thread(session,
		     ta->event == RUT_EVENT_THREAD_BEGIN ? RUT_RECORD_THREAD_START
							 : RUT_RECORD_THREAD_EXIT,
		     tid_here());
}

/*
 * Which native thread runs a thread of Ruby's. From 3.3 on READY may be reported by the thread that
 * wakes another one, which the event's data names; the other two events are the thread's own. A
 * slot that two threads want is the later one's: the earlier one's next wait has no record.
 */
#define THREADS 4096

static struct {
	uintptr_t thread;
	uint32_t tid;
} threads[THREADS];

static uint32_t tid_of(uint32_t event, const void *data)
{
	uintptr_t thread = data && rb.abi->gvl_event_has_thread ? *(const uintptr_t *)data : 0;
	unsigned i = (unsigned)(thread * 0x9e3779b97f4a7c15ull >> 40) % THREADS;
	uint32_t tid;

	if (!thread)
		return tid_here();
	if (event == RUT_THREAD_READY) {
		tid = __atomic_load_n(&threads[i].tid, __ATOMIC_RELAXED);
		return __atomic_load_n(&threads[i].thread, __ATOMIC_ACQUIRE) == thread ? tid : 0;
	}
	tid = tid_here();
	__atomic_store_n(&threads[i].thread, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&threads[i].tid, tid, __ATOMIC_RELEASE);
	__atomic_store_n(&threads[i].thread, thread, __ATOMIC_RELEASE);
	return tid;
}

/* Without the GVL. The hook is taken away under a lock that waits for those that run. */
static void on_gvl(uint32_t event, const void *data, void *session)
{
	uint32_t tid = tid_of(event, data);

	if (tid)
		write_thread(session,
			     event == RUT_THREAD_READY	   ? RUT_RECORD_GVL_WAIT
			     : event == RUT_THREAD_RESUMED ? RUT_RECORD_GVL_HAVE
							   : RUT_RECORD_GVL_RELEASE,
			     tid);
}

const char *rut_agent_record_hook(struct rut_session *s)
{
	uint32_t raise =
		(wants(s, RUT_KIND_RAISE) ? RUT_EVENT_RAISE : 0) |
		(wants(s, RUT_KIND_RESCUE) && rb.abi->has_rescue_event ? RUT_EVENT_RESCUE : 0);

	/* Before, a method has one list of hooks for all events (events_must_agree). */
	if (wants(s, RUT_KIND_LINE) && (!rb.target || rb.abi->events_must_agree))
		return "events of lines need Ruby 3.1 or later";
	if (raise)
		rut_agent_session_tp(s, raise, on_raise);
	if (wants(s, RUT_KIND_THREAD))
		rut_agent_session_tp(s, RUT_EVENT_THREAD_BEGIN | RUT_EVENT_THREAD_END, on_thread);
	if (wants(s, RUT_KIND_GVL) && rb.rb_internal_thread_add_event_hook)
		s->record.gvl_hook = rb.rb_internal_thread_add_event_hook(
			on_gvl, RUT_THREAD_READY | RUT_THREAD_RESUMED | RUT_THREAD_SUSPENDED, s);
	if (wants(s, RUT_KIND_GC)) {
		make_symbols();
		rut_agent_session_raw(s,
				      RUT_EVENT_GC_START | RUT_EVENT_GC_END_MARK |
					      RUT_EVENT_GC_END_SWEEP | RUT_EVENT_GC_ENTER |
					      RUT_EVENT_GC_EXIT,
				      on_gc);
	}
	if (wants(s, RUT_KIND_ALLOC)) {
		if (rut_ractors_crash() && !rut_single_ractor())
			return RUT_REFUSED_RACTORS;
		if (rb.abi->slot_sizes)
			rut_agent_alloc_scan_slots(&s->slots);
		rut_agent_session_raw(s, RUT_EVENT_NEWOBJ, on_newobj);
	}
	return NULL;
}

void rut_agent_record_unhook(struct rut_session *s)
{
	if (s->record.gvl_hook)
		rb.rb_internal_thread_remove_event_hook(s->record.gvl_hook);
	s->record.gvl_hook = NULL;
}
