/* SPDX-License-Identifier: MIT */
#include "stack.h"

#include "clock.h"

#include <stddef.h>
#include <string.h>

#define BUCKETS	   1024u
#define FRAMES	   64u
#define POOL_BYTES (16u << 10)
#define DEEPEST	   (1u << 20)

static struct {
	uint32_t lock;
	struct rut_stack *buckets[BUCKETS];
	struct rut_stack *free[RUT_AGENT_SLOTS];
	uint32_t numbers;
} all;

__thread struct rut_stack_cache rut_agent_stack_cache;

/* Of stacks that have no frames yet. */
static const struct rut_frame no_frames[1] = {{.cfp = (const void *)UINTPTR_MAX}};

static unsigned bucket_of(const void *ec, const struct rut_session *s)
{
	return (unsigned)(((uintptr_t)ec >> 4 ^ (uintptr_t)ec >> 14) + s->index) % BUCKETS;
}

/* Never unmapped: the caches of other threads may refer to any of them. */
static struct rut_stack *stack_new(const struct rut_session *s)
{
	struct rut_stack *st = all.free[s->index];

	if (!st) {
		size_t n = POOL_BYTES / sizeof(*st);

		st = rut_agent_map(POOL_BYTES);
		if (!st)
			return NULL;
		for (size_t i = 0; i < n; i++) {
			st[i].frames = (struct rut_frame *)no_frames + 1;
			st[i].next = i + 1 < n ? &st[i + 1] : NULL;
		}
	}
	all.free[s->index] = st->next;
	return st;
}

/* It is in no bucket any more. */
static void stack_free(struct rut_stack *st)
{
	unsigned index = st->s->index;

	st->ec = NULL;
	st->s = NULL;
	st->next = all.free[index];
	all.free[index] = st;
}

static void frames_unmap(struct rut_stack *st)
{
	if (st->cap)
		rut_agent_unmap(st->frames - 1, (st->cap + 1) * sizeof(*st->frames));
}

static void frames_free(struct rut_stack *st)
{
	frames_unmap(st);
	st->frames = (struct rut_frame *)no_frames + 1;
	st->cap = st->count = 0;
}

/* Of a new stack: the number that the same fiber has in another session. With the lock. */
static uint32_t number_of(const void *ec, const struct rut_session *s)
{
	for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++) {
		const struct rut_session *other = &rut_agent_sessions[i];

		if (other == s || !other->used)
			continue;
		for (const struct rut_stack *st = all.buckets[bucket_of(ec, other)]; st;
		     st = st->next)
			if (st->ec == ec && st->s == other)
				return st->number;
	}
	return ++all.numbers;
}

static struct rut_stack *stack_find(struct rut_session *s, void *ec, bool make)
{
	unsigned b = bucket_of(ec, s);
	struct rut_stack *st;

	rut_lock(&all.lock);
	for (st = all.buckets[b]; st; st = st->next)
		if (st->ec == ec && st->s == s)
			break;
	if (!st && make) {
		st = stack_new(s);
		if (st) {
			st->s = s;
			st->ec = ec;
			st->thread = 0;
			st->out = 0;
			st->inside = 0;
			st->number = number_of(ec, s);
			st->next = all.buckets[b];
			all.buckets[b] = st;
		}
	}
	rut_unlock(&all.lock);
	return st;
}

/* A fiber or thread without calls may never come back. Its frames stay for the next one. */
static void stack_release(struct rut_stack *st)
{
	struct rut_stack **link;

	rut_lock(&all.lock);
	for (link = &all.buckets[bucket_of(st->ec, st->s)]; *link; link = &(*link)->next) {
		if (*link != st)
			continue;
		*link = st->next;
		if (st->cap > FRAMES)
			frames_free(st);
		stack_free(st);
		break;
	}
	rut_unlock(&all.lock);
}

/*
 * From 3.3 on threads of Ruby's may move from one native thread to another: those of ractors, and
 * with RUBY_MN_THREADS=1 all. What this native thread ran last may then be another thread's.
 */
static bool threads_move(void)
{
	return rb.abi->threads_move && (rb.threads_move || !rut_single_ractor());
}

/* `seen`: calls with frames at this address or below are known. */
static RUT_COLD struct rut_stack *stack_look(struct rut_session *s, void *ec, const void *seen)
{
	struct rut_stack *st;

	if (s->time.seed_own && !stack_find(s, ec, false))
		s->time.seed_own(s, ec, seen);
	st = stack_find(s, ec, true);
	if (st && threads_move())
		st->thread = rb.rb_thread_current();
	rut_agent_stack_cache.stack[s->index] = st;
	return st;
}

struct rut_stack *rut_agent_stack_of(struct rut_session *s, void *ec)
{
	struct rut_stack *st = rut_hot_stack(s->index, ec);

	return st ? st : stack_look(s, ec, NULL);
}

bool rut_agent_stack_grow(struct rut_stack *st)
{
	uint32_t cap = st->cap ? st->cap * 2 : FRAMES;
	struct rut_frame *frames;

	if (cap > DEEPEST)
		return false;
	frames = rut_agent_map((cap + 1) * sizeof(*frames));
	if (!frames)
		return false;
	memcpy(frames, st->frames - 1, (st->count + 1) * sizeof(*frames));
	frames_unmap(st);
	st->frames = frames + 1;
	st->cap = cap;
	return true;
}

static void forget_calls(struct rut_stack *st)
{
	while (st->count) {
		rut_variant_leave(st->frames[--st->count].v, st);
	}
}

static void end_call(const struct rut_session *s, struct rut_stack *st, uint64_t now)
{
	rut_hot_end_call(s, st, &st->frames[st->count - 1], now, rut_single_ractor());
}

/*
 * Is the method not yet on this stack? A variant knows one stack that it runs on, and how often;
 * when it runs on several, look.
 */
static bool is_outermost(struct rut_stack *st, struct rut_variant *v)
{
	if (rut_single_ractor()) {
		if (v->active++ == 0) {
			v->stack = st;
			v->depth = 1;
			return true;
		}
		if (v->stack == st)
			return v->depth++ == 0;
	}
	for (uint32_t i = st->count; i-- > 0;)
		if (st->frames[i].v == v)
			return false;
	return true;
}

/*
 * There was a GC since the last call or return. Its time is that of the call in which it was
 * noticed, the innermost one: as if that had called it.
 */
static RUT_COLD void note_gc(struct rut_session *s, struct rut_stack *st)
{
	const struct rut_agent_table *t = s->table.hdr;
	uint64_t ns = rut_gc_time_ns() - s->time.gc_ns_seen, mono = rut_mono_ns() - t->mono0_ns;
	uint64_t ticks = ns, gcs = rb.rb_gc_count();

	if (rut_agent_clock_is_tsc && mono)
		ticks = (uint64_t)((double)ns * (double)(rut_ticks() - t->tick0) / (double)mono);
	if (st->count)
		st->frames[st->count - 1].inner += ticks;
	if (s->time.gc_row) {
		rut_add(&s->time.gc_row->count, gcs - s->time.gcs_seen);
		rut_add(&s->time.gc_row->total, ticks);
		rut_add(&s->time.gc_row->self, ticks);
		if (s->time.gc_row->epoch != t->reset_epoch)
			s->time.gc_row->max = 0;
		s->time.gc_row->epoch = t->reset_epoch;
		if (ticks > s->time.gc_row->max)
			s->time.gc_row->max = ticks;
	}
	s->time.gc_ns_seen += ns;
	s->time.gcs_seen = gcs;
}

/* Ruby's number is found after its first GC. */
static RUT_COLD void find_gc_time(struct rut_session *s)
{
	const uint64_t *old = rut_agent_hot.gc_ns;

	s->time.gcs_seen = *rut_agent_hot.gcs;
	__atomic_fetch_add(&s->busy, 1, __ATOMIC_RELAXED);
	rut_agent_gc_time_find();
	__atomic_fetch_sub(&s->busy, 1, __ATOMIC_RELAXED);
	if (rut_agent_hot.gc_ns != old)
		s->time.gc_ns_seen = rut_gc_time_ns();
}

static inline void look_for_gc(struct rut_session *s, struct rut_stack *st)
{
	if (RUT_UNLIKELY(!*rut_agent_hot.gc_ns && *rut_agent_hot.gcs != s->time.gcs_seen))
		find_gc_time(s);
	if (RUT_UNLIKELY(rut_gc_time_ns() != s->time.gc_ns_seen) && rut_single_ractor())
		note_gc(s, st);
}

void rut_agent_stack_push(struct rut_session *s, void *ec, const void *cfp, struct rut_variant *v)
{
	struct rut_stack *st = rut_hot_stack(s->index, ec);
	uint64_t now;
	struct rut_frame *f;

	if (!st)
		st = stack_look(s, ec, cfp);
	if (!st)
		return;
	look_for_gc(s, st);
	now = rut_ticks();
	/* Calls at or below this address have ended without an event. */
	while (st->count && st->frames[st->count - 1].cfp <= cfp)
		end_call(s, st, now);
	if (st->count == st->cap && !rut_agent_stack_grow(st))
		return;
	f = &st->frames[st->count];
	f->cfp = cfp;
	f->v = v;
	f->inner = 0;
	f->outermost = is_outermost(st, v);
	f->begin = now;
	/* The tracer may read it from here on (abi.h). */
	__atomic_store_n(&st->count, st->count + 1, __ATOMIC_RELEASE);
}

void rut_agent_stack_pop(struct rut_session *s, struct rut_trace_arg *ta)
{
	struct rut_stack *st = rut_agent_stack_of(s, ta->ec);
	uint64_t now = rut_ticks();

	if (!st)
		return;
	look_for_gc(s, st);
	while (st->count && st->frames[st->count - 1].cfp < ta->cfp)
		end_call(s, st, now);
	if (st->count && st->frames[st->count - 1].cfp == ta->cfp)
		end_call(s, st, now);
}

static void append(struct rut_stack *st, const struct rut_frame *f)
{
	if (st->count == st->cap && !rut_agent_stack_grow(st))
		return;
	st->frames[st->count] = *f;
	st->frames[st->count].outermost = is_outermost(st, f->v);
	st->count++;
}

void rut_agent_stack_seed(struct rut_session *s, void *ec, VALUE thread,
			  const struct rut_frame *seeds, uint32_t count, bool left)
{
	struct rut_stack *st = stack_find(s, ec, true);
	uint32_t known = st ? st->count : 0, i = 0, j = 0;
	struct rut_frame *old = known ? rut_agent_map(known * sizeof(*old)) : NULL;

	if (!st || (known && !old))
		return;
	/* Calls of methods that had a hook earlier are there already; which of them are outermost?
	 */
	if (known)
		memcpy(old, st->frames, known * sizeof(*old));
	forget_calls(st);
	while (i < count || j < known) {
		struct rut_frame f;

		if (j < known && (i == count || seeds[i].cfp <= old[j].cfp)) {
			i += i < count && seeds[i].cfp == old[j].cfp;
			append(st, &old[j++]);
			continue;
		}
		f = seeds[i++];
		/* It called what is in it: it began before that. */
		if (j < known && old[j].begin < f.begin)
			f.begin = old[j].begin;
		rut_add(&f.v->row->count, 1);
		append(st, &f);
	}
	st->thread = thread;
	if (left && st->count && !st->out)
		st->out = seeds[0].begin;
	rut_agent_unmap(old, known * sizeof(*old));
}

/* The stack that a thread was on at attach, when no hook has run on it since. */
static struct rut_stack *stack_at_attach(const struct rut_session *s)
{
	VALUE thread = rb.rb_thread_current();
	struct rut_stack *found = NULL;

	rut_lock(&all.lock);
	for (unsigned b = 0; !found && b < BUCKETS; b++)
		for (struct rut_stack *st = all.buckets[b]; st; st = st->next)
			if (st->s == s && st->thread == thread && !st->out)
				found = st;
	rut_unlock(&all.lock);
	return found;
}

/* The stack that this thread was on until now, when it is another one than that of `ec`. */
static struct rut_stack *stack_of_thread(const struct rut_session *s, const void *ec)
{
	VALUE thread = rb.rb_thread_current();
	struct rut_stack *found = NULL;

	rut_lock(&all.lock);
	for (unsigned b = 0; b < BUCKETS; b++)
		for (struct rut_stack *st = all.buckets[b]; st; st = st->next)
			if (st->s == s && st->thread == thread && !st->out && st->ec != ec &&
			    (!found || st->count))
				found = st;
	rut_unlock(&all.lock);
	return found;
}

void rut_agent_stack_pop_c(struct rut_session *s, struct rut_trace_arg *ta)
{
	struct rut_stack *st = rut_agent_stack_of(s, ta->ec);
	uint64_t now = rut_ticks();
	const char *cfp = ta->cfp;

	if (!st)
		return;
	look_for_gc(s, st);
	while (st->count && (const char *)st->frames[st->count - 1].cfp < cfp)
		end_call(s, st, now);
	/* An exception: the frame is the C method's own; its caller is the next one above. */
	if (st->count) {
		const struct rut_frame *f = &st->frames[st->count - 1];
		size_t above = (size_t)((const char *)f->cfp - cfp);

		if (f->v->row->flags & RUT_ROW_C && above + RUT_C_BELOW <= RUT_FRAME_BYTES_MAX)
			end_call(s, st, now);
	}
}

void rut_agent_stack_on_switch(VALUE tp, void *session)
{
	struct rut_session *s = session;
	struct rut_trace_arg *ta = rb.rb_tracearg_from_tracepoint(tp);
	struct rut_stack *left = rut_agent_stack_cache.stack[s->index], *st;
	uint64_t now = rut_ticks();

	if (threads_move()) {
		left = stack_of_thread(s, ta->ec);
	} else if (s->time.seeded && rut_agent_stack_cache.session[s->index] != s->time.seeded) {
		rut_agent_stack_cache.session[s->index] = s->time.seeded;
		if (!left || left->s != s)
			left = stack_at_attach(s);
	}
	if (left && left->s == s && left->ec != ta->ec) {
		if (left->count)
			left->out = now;
		else
			stack_release(left);
	}
	st = stack_find(s, ta->ec, false);
	if (st && st->out && st->count)
		st->frames[st->count - 1].inner += now - st->out;
	if (st) {
		st->out = 0;
		st->thread = rb.rb_thread_current();
	}
	rut_agent_stack_cache.stack[s->index] = st;
}

void rut_agent_stack_on_thread_end(VALUE tp, void *session)
{
	struct rut_session *s = session;
	struct rut_trace_arg *ta = rb.rb_tracearg_from_tracepoint(tp);
	struct rut_stack *st = stack_find(s, ta->ec, false);
	uint64_t now = rut_ticks();

	while (st && st->count)
		end_call(s, st, now);
	if (st)
		stack_release(st);
	rut_agent_stack_cache.stack[s->index] = NULL;
	/* Another thread may get both addresses: its records are not this one's. */
	if (s->record.whose.ec == ta->ec)
		s->record.whose.ec = NULL;
}

void rut_agent_stack_describe(const struct rut_session *s, struct rut_agent_stacks *ret)
{
	*ret = (struct rut_agent_stacks){
		.buckets = (uintptr_t)all.buckets,
		.rows = (uintptr_t)s->table.rows,
		.bucket_count = BUCKETS,
		.stack_bytes = sizeof(struct rut_stack),
		.stack_session = offsetof(struct rut_stack, s),
		.stack_next = offsetof(struct rut_stack, next),
		.stack_out = offsetof(struct rut_stack, out),
		.stack_count = offsetof(struct rut_stack, count),
		.stack_frames = offsetof(struct rut_stack, frames),
		.frame_bytes = sizeof(struct rut_frame),
		.frame_variant = offsetof(struct rut_frame, v),
		.frame_begin = offsetof(struct rut_frame, begin),
		.frame_inner = offsetof(struct rut_frame, inner),
		.frame_outermost = offsetof(struct rut_frame, outermost),
		.variant_row = offsetof(struct rut_variant, row),
		.session = (uintptr_t)s,
	};
}

void rut_agent_stack_end(struct rut_session *s)
{
	uint64_t now = rut_ticks();

	if (!rut_trylock(&all.lock))
		return;
	for (unsigned b = 0; b < BUCKETS; b++)
		for (struct rut_stack *st = all.buckets[b]; st; st = st->next)
			while (st->s == s && st->count)
				end_call(s, st, st->out ? st->out : now);
	rut_unlock(&all.lock);
}

void rut_agent_stack_forked(void)
{
	uint64_t now = rut_ticks();
	VALUE thread = rb.ruby_thread_has_gvl_p() ? rb.rb_thread_current() : 0;

	all.lock = 0;
	for (unsigned b = 0; b < BUCKETS; b++) {
		struct rut_stack **link = &all.buckets[b];

		while (*link) {
			struct rut_stack *st = *link;

			if (rut_agent_stack_cache.stack[st->s->index] == st ||
			    (thread && st->thread == thread)) {
				for (uint32_t i = 0; i < st->count; i++) {
					st->frames[i].begin = now;
					st->frames[i].inner = 0;
				}
				link = &st->next;
				continue;
			}
			forget_calls(st);
			*link = st->next;
			stack_free(st);
		}
	}
}

void rut_agent_stack_fini(struct rut_session *s)
{
	rut_lock(&all.lock);
	for (unsigned b = 0; b < BUCKETS; b++) {
		struct rut_stack **link = &all.buckets[b];

		while (*link) {
			struct rut_stack *st = *link;

			if (st->s != s) {
				link = &st->next;
				continue;
			}
			*link = st->next;
			frames_free(st);
			stack_free(st);
		}
	}
	rut_unlock(&all.lock);
}
