/* SPDX-License-Identifier: MIT */
#include "core.h"

#include <string.h>

int rut_agent_pid;
struct rut_session rut_agent_sessions[RUT_AGENT_SLOTS];
__thread bool rut_agent_own_work;

void *rut_agent_session_alloc(struct rut_session *s, size_t bytes)
{
	struct rut_agent_arena *a;
	void *p = NULL;

	bytes = (bytes + 63) & ~63ul; /* lines of the cache */
	rut_lock(&s->arena_lock);
	a = s->arena;
	if (!a || a->used + bytes > RUT_ARENA) {
		a = rut_agent_map(RUT_ARENA);
		if (a) {
			a->next = s->arena;
			a->used = (sizeof(*a) + 63) & ~63ul;
			s->arena = a;
		}
	}
	if (a) {
		p = (char *)a + a->used;
		a->used += bytes;
	}
	rut_unlock(&s->arena_lock);
	return p;
}

bool rut_agent_session_owns(const struct rut_session *s, const void *p)
{
	for (const struct rut_agent_arena *a = s->arena; a; a = a->next)
		if ((uintptr_t)p - (uintptr_t)a < RUT_ARENA)
			return true;
	return false;
}

VALUE rut_agent_session_tp(struct rut_session *s, uint32_t events, rut_tp_fn fn)
{
	VALUE *tp = &s->tps[s->tp_count++];

	rut_keep(tp, rb.rb_tracepoint_new(0, events, fn, s));
	rb.rb_tracepoint_enable(*tp);
	return *tp;
}

void rut_agent_session_raw(struct rut_session *s, uint32_t events, rut_raw_fn fn)
{
	s->raw_events[s->raw_count] = events;
	s->raws[s->raw_count++] = fn;
	rb.rb_add_event_hook2(fn, events, (VALUE)s->index << 1 | 1, RUT_HOOK_RAW);
}

void rut_agent_session_raw_off(struct rut_session *s)
{
	while (s->raw_count)
		rb.rb_remove_event_hook_with_data(s->raws[--s->raw_count],
						  (VALUE)s->index << 1 | 1);
}

bool rut_agent_session_counts_calls(const struct rut_session *s)
{
	return s->mode == RUT_AGENT_CALLS || s->mode == RUT_AGENT_TIME ||
	       s->mode == RUT_AGENT_TRACE || s->hits.methods || s->hits.requests ||
	       s->within.count ||
	       (s->mode == RUT_AGENT_RECORD &&
		s->flags & (RUT_AGENT_KIND(RUT_KIND_CALL) | RUT_AGENT_KIND(RUT_KIND_RETURN) |
			    RUT_AGENT_KIND(RUT_KIND_REQUEST) | RUT_AGENT_KIND(RUT_KIND_LINE)));
}

void rut_agent_session_newobj_off(struct rut_session *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->raw_count; i++) {
		if (s->raw_events[i] & RUT_EVENT_NEWOBJ) {
			rb.rb_remove_event_hook_with_data(s->raws[i], (VALUE)s->index << 1 | 1);
			continue;
		}
		s->raw_events[n] = s->raw_events[i];
		s->raws[n++] = s->raws[i];
	}
	s->raw_count = n;
}

bool rut_agent_session_sees_allocations(const struct rut_session *s)
{
	return !rut_agent_session_counts_calls(s) ||
	       s->hits.events & 1ull << (RUT_HIT_ALLOC & 63) ||
	       (s->mode == RUT_AGENT_RECORD && s->flags & (RUT_AGENT_KIND(RUT_KIND_ALLOC) |
							   RUT_AGENT_KIND(RUT_KIND_ALLOC_SAMPLE)));
}

bool rut_agent_session_wants_returns(const struct rut_session *s)
{
	return s->mode == RUT_AGENT_TIME || s->trace.tracks || s->hits.requests ||
	       s->within.count ||
	       (s->mode == RUT_AGENT_RECORD &&
		s->flags & (RUT_AGENT_KIND(RUT_KIND_RETURN) | RUT_AGENT_KIND(RUT_KIND_REQUEST)));
}

/* Ruby keeps global hooks for each ractor: ours are the main one's (docs/ruby.md). */
void rut_agent_session_ractors(struct rut_session *s)
{
	if (s->used && (s->global || s->flags & RUT_AGENT_C_CALLS || rb.abi->hooks_by_ractor ||
			!rut_agent_session_counts_calls(s)))
		s->table.hdr->ractors |= RUT_RACTORS_UNSEEN;
}

bool rut_agent_session_wants_file(struct rut_session *s, VALUE iseq, uint32_t *ret_path)
{
	struct rut_agent_path path = {.len = {0}};

	/* The second is the first one without links, and whatever the program's directory was. */
	path.s[0] = rut_agent_str(rb.rb_profile_frame_path(iseq), &path.len[0]);
	path.s[1] = rut_agent_str(rb.rb_profile_frame_absolute_path(iseq), &path.len[1]);
	if (!rut_agent_filter_path(&s->filter, &path))
		return false;
	if (ret_path)
		*ret_path = rut_agent_table_str(&s->table, path.s[0], path.len[0]);
	return true;
}

bool rut_agent_session_wants_name(const struct rut_session *s, VALUE iseq, int kind)
{
	const char *name;
	size_t len;

	/* Probes of methods beside those of requests: any name. */
	if (!s->filter.watches || s->filter.has_rules)
		return true;
	if (kind != RUT_REC_METHOD)
		return false;
	name = rut_agent_str(rb.rb_profile_frame_base_label(iseq), &len);
	return rut_agent_watches_has(s->filter.watches, name, len);
}
