/* SPDX-License-Identifier: MIT */
/*
 * Trace mode: a record for each call, return, exception or slow call, into a ring of CTF packets.
 *
 * Conditions are evaluated here: only what is wanted is written. Calls are followed to their ends
 * (on the shadow stack) only when something needs it: returns, --slow, --inside.
 */
#include "trace.h"

#include "args.h"
#include "event.h"
#include "hit.h"
#include "names.h"
#include "self.h"
#include "site.h"
#include "stack.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RING_SUBBUFS   8
#define RING_BYTES     (4u << 20)
#define RING_SHIFT_MIN 14
#define RING_SHIFT_MAX 24
#define ARGS_BYTES     512

/* ---- the ring ---- */

/* A new file; with slots for the children when it belongs to a new file of tables. */
static int rings_make(struct rut_session *s, size_t bytes)
{
	struct rut_agent_family *f = s->table.family;
	bool all = !s->table.member && rut_agent_family_places(0, bytes) >= f->members;

	s->events.fd = rut_agent_memfd(RUT_AGENT_RING_MEMFD, all ? f->members * bytes : bytes,
				       &s->events.ino);
	s->events.member = 0;
	if (!s->table.member)
		f->ring_bytes = all && s->events.fd >= 0 ? bytes : 0;
	return s->events.fd < 0 ? s->events.fd : 0;
}

/* Our place in the file `ring_fd` becomes a ring, mapped at `at` if that is given. */
static int ring_make(struct rut_session *s, uint32_t shift, void *at)
{
	size_t bytes = RUT_RING_CTL_SIZE + ((size_t)RING_SUBBUFS << shift);
	uint64_t table = (uintptr_t)s->table.hdr;
	struct rut_ring_ctl *ctl =
		mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0),
		     s->events.fd, (off_t)(s->events.member * bytes));

	if (ctl == MAP_FAILED) {
		close(s->events.fd);
		s->events.fd = -1;
		return -ENOMEM;
	}
	ctl->version = RUT_RING_VERSION;
	ctl->mode = s->flags & RUT_AGENT_OVERWRITE ? RUT_RING_OVERWRITE : RUT_RING_DISCARD;
	ctl->subbuf_shift = shift;
	ctl->subbuf_count = RING_SUBBUFS;
	ctl->pid = (uint32_t)getpid();
	ctl->stream_id = RUT_EVENT_STREAM;
	/* For readers of a core dump. */
	memcpy(ctl->_user, &table, sizeof(table));
	__atomic_store_n(&ctl->magic, RUT_RING_MAGIC, __ATOMIC_RELEASE);
	s->events.ring = (struct rut_ring){.ctl = ctl,
					   .data = (unsigned char *)ctl + RUT_RING_CTL_SIZE,
					   .subbuf_size = 1ull << shift,
					   .shift = shift,
					   .count = RING_SUBBUFS,
					   .mode = ctl->mode};
	s->record.whose.ec = NULL;
	s->events.bytes = bytes;
	return 0;
}

int rut_agent_trace_init(struct rut_session *s, uint64_t ring_bytes)
{
	uint32_t shift = RING_SHIFT_MIN;
	int r;

	if (!ring_bytes)
		ring_bytes = RING_BYTES;
	while (shift < RING_SHIFT_MAX && (uint64_t)RING_SUBBUFS << shift < ring_bytes)
		shift++;
	for (const char *c = s->filter.config; *c; c += strlen(c) + 1)
		if (*c == RUT_FILTER_INSIDE)
			s->trace.inside = c + 1;
	s->trace.tracks = s->flags & RUT_AGENT_RETURNS || s->trace.slow_ns || s->trace.inside;
	r = rings_make(s, RUT_RING_CTL_SIZE + ((size_t)RING_SUBBUFS << shift));
	return r < 0 ? r : ring_make(s, shift, NULL);
}

void rut_agent_trace_fini(struct rut_session *s)
{
	if (s->events.bytes)
		munmap((char *)s->events.ring.data - RUT_RING_CTL_SIZE, s->events.bytes);
	if (s->events.bytes && rut_agent_fd_is(s->events.fd, s->events.ino))
		close(s->events.fd);
	s->events.bytes = 0;
}

int rut_agent_trace_fork(struct rut_session *s)
{
	int old = rut_agent_fd_is(s->events.fd, s->events.ino) ? s->events.fd : -1, r;

	s->sample.lock = 0; /* its holder is not in this process */
	if (!s->events.bytes)
		return 0;
	/* The places in the parent's two files go together. */
	if (s->table.member && old >= 0 && s->table.family->ring_bytes == s->events.bytes) {
		s->events.member = s->table.member;
		return ring_make(s, s->events.ring.shift, s->events.ring.ctl);
	}
	r = rings_make(s, s->events.bytes);
	if (r == 0)
		r = ring_make(s, s->events.ring.shift, s->events.ring.ctl);
	if (old >= 0)
		close(old);
	return r;
}

/* ---- records ---- */

static uint32_t row_number(const struct rut_session *s, const struct rut_variant *v)
{
	return (uint32_t)(v->row - s->table.rows);
}

static struct rut_event_common *reserve(struct rut_session *s, uint32_t size, uint16_t id,
					uint64_t *ret_pos)
{
	struct rut_event_common *c;
	uint64_t ns;

	if (__builtin_expect(!s->events.ring.ctl, 0))
		return NULL;
	c = rut_ring_reserve(&s->events.ring, size, rut_ring_clock, &ns, ret_pos);
	if (c)
		c->header = RUT_RECORD_HEADER(id, ns);
	return c;
}

static void fill(struct rut_event_common *c, uint32_t row, const struct rut_stack *st)
{
	c->row = row;
	c->tid = rut_agent_self_tid();
	c->fiber = st ? st->number : 0;
	c->depth = st ? st->count : 0;
}

#define FRAMES_MAX 64

struct backtrace {
	struct rut_session *s;
	int skip; /* frames that are reported otherwise */
	uint32_t rows[FRAMES_MAX], count;
};

static uint32_t intern(struct rut_session *s, VALUE str)
{
	size_t len;
	const char *text = rut_agent_str(str, &len);

	return len ? rut_agent_table_str(&s->table, text, len) : 0;
}

/* Ruby 3.1 heeds no start. The frame that it puts below the outermost one has no line. */
static VALUE backtrace_body(VALUE arg)
{
	struct backtrace *b = (struct backtrace *)arg;
	VALUE frames[FRAMES_MAX];
	int lines[FRAMES_MAX], n = rb.rb_profile_frames(0, FRAMES_MAX, frames, lines);

	for (int i = b->skip; i < n; i++) {
		VALUE path = rb.rb_profile_frame_path(frames[i]);
		VALUE label = rb.rb_profile_frame_full_label
				      ? rb.rb_profile_frame_full_label(frames[i])
				      : rb.rb_profile_frame_label(frames[i]);
		const struct rut_agent_row *row;

		if (path != rb.qnil && lines[i] <= 0)
			continue;
		row = rut_agent_table_row(&b->s->table, intern(b->s, path),
					  lines[i] > 0 ? (uint32_t)lines[i] : 0, 0,
					  intern(b->s, label), 0);
		if (row)
			b->rows[b->count++] = (uint32_t)(row - b->s->table.rows);
	}
	return rb.qnil;
}

/* Where the event that comes next comes from. */
static void write_frames(struct rut_session *s, const struct rut_stack *st, int skip)
{
	struct backtrace b = {.s = s, .skip = skip};
	uint32_t size = (uint32_t)sizeof(struct rut_event_slow);
	struct rut_event_slow *e;
	uint64_t pos;

	if (!(s->flags & RUT_AGENT_BACKTRACES))
		return;
	__atomic_fetch_add(&s->busy, 1, __ATOMIC_RELAXED);
	rut_agent_protect(backtrace_body, (VALUE)&b);
	__atomic_fetch_sub(&s->busy, 1, __ATOMIC_RELAXED);
	size += b.count * (uint32_t)sizeof(*b.rows);
	e = (struct rut_event_slow *)reserve(s, size, RUT_EVENT_ID_FRAMES, &pos);
	if (!e)
		return;
	fill(&e->c, 0, st);
	e->duration_ns = 0;
	e->caller_count = b.count;
	memcpy(e->callers, b.rows, b.count * sizeof(*b.rows));
	rut_ring_commit(&s->events.ring, pos, size);
}

/* The call that begins; `st` has not got it yet. */
static void write_call(struct rut_session *s, VALUE tp, struct rut_trace_arg *ta,
		       struct rut_stack *st, struct rut_variant *v, bool is_c)
{
	struct rut_event_common *c;
	uint64_t pos;

	if (s->mode == RUT_AGENT_SCRIPT) {
		rut_agent_hit_call(s, ta, v);
		return;
	}
	write_frames(s, st, !is_c);
	if (s->flags & RUT_AGENT_ARGS && !is_c) {
		char args[ARGS_BYTES];
		uint32_t len, size;

		__atomic_fetch_add(&s->busy, 1, __ATOMIC_RELAXED);
		len = (uint32_t)rut_agent_args_format(tp, ta, args, sizeof(args));
		__atomic_fetch_sub(&s->busy, 1, __ATOMIC_RELAXED);
		size = (uint32_t)sizeof(*c) + len + 1;

		c = reserve(s, size, RUT_EVENT_ID_CALL_ARGS, &pos);
		if (!c)
			return;
		fill(c, row_number(s, v), st);
		memcpy(((struct rut_event_call_args *)c)->args, args, len);
		((struct rut_event_call_args *)c)->args[len] = 0;
		rut_ring_commit(&s->events.ring, pos, size);
		return;
	}
	c = reserve(s, sizeof(*c), RUT_EVENT_ID_CALL, &pos);
	if (!c)
		return;
	fill(c, row_number(s, v), st);
	rut_ring_commit(&s->events.ring, pos, sizeof(*c));
}

static void write_return_value(struct rut_session *s, const struct rut_stack *st,
			       const struct rut_variant *v, uint64_t duration_ns, VALUE value)
{
	struct rut_event_return_value *e;
	char text[ARGS_BYTES];
	uint32_t len, size;
	uint64_t pos;

	__atomic_fetch_add(&s->busy, 1, __ATOMIC_RELAXED);
	len = (uint32_t)rut_agent_args_format_value(value, text, sizeof(text));
	__atomic_fetch_sub(&s->busy, 1, __ATOMIC_RELAXED);
	size = (uint32_t)sizeof(*e) + len + 1;
	e = (struct rut_event_return_value *)reserve(s, size, RUT_EVENT_ID_RETURN_VALUE, &pos);
	if (!e)
		return;
	fill(&e->r.c, row_number(s, v), st);
	e->r.duration_ns = duration_ns;
	memcpy(e->value, text, len + 1);
	rut_ring_commit(&s->events.ring, pos, size);
}

static void write_return(struct rut_session *s, struct rut_stack *st, struct rut_variant *v,
			 uint64_t duration_ns, VALUE value)
{
	struct rut_event_return *e;
	uint64_t pos;

	if (s->flags & RUT_AGENT_VALUES) {
		write_return_value(s, st, v, duration_ns, value);
		return;
	}

	e = (struct rut_event_return *)reserve(s, sizeof(*e), RUT_EVENT_ID_RETURN, &pos);
	if (!e)
		return;
	fill(&e->c, row_number(s, v), st);
	e->duration_ns = duration_ns;
	rut_ring_commit(&s->events.ring, pos, sizeof(*e));
}

static struct rut_event_slow *reserve_slow(struct rut_session *s, uint32_t callers,
					   uint64_t *ret_pos, uint32_t *ret_size)
{
	uint32_t size = (uint32_t)(sizeof(struct rut_event_slow) + callers * sizeof(uint32_t));
	struct rut_event_slow *e;

	e = (struct rut_event_slow *)reserve(s, size, RUT_EVENT_ID_SLOW, ret_pos);
	if (e)
		e->caller_count = callers;
	*ret_size = size;
	return e;
}

static void write_slow(struct rut_session *s, struct rut_stack *st, struct rut_variant *v,
		       uint64_t duration_ns)
{
	uint32_t n = st->count < RUT_EVENT_CALLERS ? st->count : RUT_EVENT_CALLERS, size;
	uint64_t pos;
	struct rut_event_slow *e = reserve_slow(s, n, &pos, &size);

	if (!e)
		return;
	fill(&e->c, row_number(s, v), st);
	e->duration_ns = duration_ns;
	for (uint32_t i = 0; i < n; i++)
		e->callers[i] = row_number(s, st->frames[st->count - 1 - i].v);
	rut_ring_commit(&s->events.ring, pos, size);
}

void rut_agent_trace_stack(struct rut_session *s, uint32_t thread, uint32_t tid,
			   const uint32_t *rows, uint32_t count)
{
	uint64_t pos;
	uint32_t size;
	struct rut_event_slow *e = reserve_slow(s, count, &pos, &size);

	if (!e)
		return;
	fill(&e->c, thread, NULL);
	e->c.tid = tid;
	e->duration_ns = 0;
	memcpy(e->callers, rows, count * sizeof(*rows));
	rut_ring_commit(&s->events.ring, pos, size);
}

/* ---- calls ---- */

/*
 * The innermost call is over. Without `told` nobody said so: it ends without a record. `ta`: of its
 * return, with what it returned, when there is one.
 */
static void end_call(struct rut_session *s, struct rut_stack *st, uint64_t now_ns, bool told,
		     const struct rut_trace_arg *ta)
{
	struct rut_frame *f = &st->frames[--st->count];
	uint64_t ns = now_ns > f->begin ? now_ns - f->begin : 0;

	if (told && s->mode == RUT_AGENT_SCRIPT) {
		rut_agent_hit_return(s, ta, f->v, ns, &ta->data);
	} else if (told && (!s->trace.inside || st->inside)) {
		if (s->trace.slow_ns) {
			if (ns >= s->trace.slow_ns)
				write_slow(s, st, f->v, ns);
		} else if (s->flags & RUT_AGENT_RETURNS) {
			write_return(s, st, f->v, ns, ta->data);
		}
	}
	if (f->v->inside && st->inside)
		st->inside--;
}

void rut_agent_trace_call(struct rut_session *s, VALUE tp, struct rut_trace_arg *ta,
			  const void *cfp, struct rut_variant *v)
{
	bool is_c = cfp != ta->cfp;
	struct rut_stack *st = rut_agent_stack_of(s, ta->ec);
	struct rut_frame *f;

	if (!s->trace.tracks || !st) {
		write_call(s, tp, ta, st, v, is_c);
		return;
	}
	while (st->count && st->frames[st->count - 1].cfp <= cfp)
		end_call(s, st, 0, false, NULL);
	if (v->inside)
		st->inside++;
	if (!s->trace.slow_ns && (!s->trace.inside || st->inside))
		write_call(s, tp, ta, st, v, is_c);
	if (st->count == st->cap && !rut_agent_stack_grow(st))
		return;
	f = &st->frames[st->count++];
	f->cfp = cfp;
	f->v = v;
	f->begin = rut_ring_clock();
}

void rut_agent_trace_return(struct rut_session *s, struct rut_trace_arg *ta, bool is_c)
{
	struct rut_stack *st = rut_agent_stack_of(s, ta->ec);
	const char *cfp = ta->cfp;
	uint64_t now_ns = rut_ring_clock();
	const struct rut_frame *f;

	if (!st)
		return;
	while (st->count && (const char *)st->frames[st->count - 1].cfp < cfp)
		end_call(s, st, now_ns,
			 is_c && (const char *)st->frames[st->count - 1].cfp == cfp - RUT_C_BELOW,
			 ta);
	if (!st->count)
		return;
	f = &st->frames[st->count - 1];
	if (is_c ? f->v->row->flags & RUT_ROW_C &&
			    (size_t)((const char *)f->cfp - cfp) + RUT_C_BELOW <=
				    RUT_FRAME_BYTES_MAX
		 : f->cfp == cfp)
		end_call(s, st, now_ns, true, ta);
}

void rut_agent_trace_on_raise(VALUE tp, void *session)
{
	struct rut_session *s = session;
	struct rut_trace_arg *ta = rb.rb_tracearg_from_tracepoint(tp);
	struct rut_stack *st = rut_agent_stack_of(s, ta->ec);
	struct rut_event_raise *e;
	uint32_t class_str, path_str;
	const char *path;
	const VALUE *cfp;
	char name[1024];
	bool singleton;
	uint64_t pos;
	int line;

	path = rut_source_location(&line);
	cfp = rut_ruby_frame(ta->cfp);
	if (!path || !rut_agent_site_wanted(s, path, cfp ? cfp[RUT_FRAME_ISEQ] : 0))
		return;
	if (s->trace.inside && !(st && st->inside))
		return;
	rut_agent_class_name(rb.rb_obj_class(ta->data), name, sizeof(name), &singleton);
	class_str = rut_agent_table_str(&s->table, name, strlen(name));
	path_str = rut_agent_table_str(&s->table, path, strlen(path));
	write_frames(s, st, 0);
	e = (struct rut_event_raise *)reserve(s, sizeof(*e), RUT_EVENT_ID_RAISE, &pos);
	if (!e)
		return;
	fill(&e->c, class_str, st);
	e->path = path_str;
	e->line = (uint32_t)line;
	rut_ring_commit(&s->events.ring, pos, sizeof(*e));
}
