/* SPDX-License-Identifier: MIT */
#include "running.h"

#include "clock.h"
#include "code.h"
#include "core.h"
#include "frames.h"
#include "hooklist.h"
#include "hooks.h"
#include "stack.h"

#include <string.h>

#define THREAD_WORDS 64	  /* of a thread: where its context is looked for */
#define FIBER_BYTES  4096 /* likewise */
#define FRAME_METHOD 0x11110001u
#define FRAME_BLOCK  0x22220001u

static struct {
	size_t thread_word; /* where a thread has its context */
	size_t fiber_byte;  /* where a fiber has it; 0: not known */
} layout;

/* ---- running threads, and where they are ---- */

static void *running_ec;

static const uintptr_t *data_of(VALUE v)
{
	const void *type;

	return rut_typed_data(v, &type);
}

static bool learn(void)
{
	VALUE thread = rb.rb_thread_current();
	void *ec = rut_agent_frames_learn();
	const uintptr_t *data;
	size_t i = 0;

	running_ec = ec;
	if (!ec || !data_of(thread))
		return false;
	data = data_of(thread);
	while (i < THREAD_WORDS && data[i] != (uintptr_t)ec)
		i++;
	layout.thread_word = i < THREAD_WORDS ? i : 0;
	return layout.thread_word != 0;
}

/* Of the fiber that runs; the object of a thread's first fiber is made when it is asked for. */
static bool learn_fiber(void)
{
	VALUE fiber = rb.rb_fiber_current();
	size_t at = data_of(fiber) ? (uintptr_t)running_ec - (uintptr_t)data_of(fiber) : 0;

	layout.fiber_byte = at < FIBER_BYTES ? at : 0;
	return layout.fiber_byte != 0;
}

/* ---- frames ---- */

struct look {
	struct rut_session *s;
	struct rut_list running; /* contexts */
	struct rut_frame *found;
	uint32_t count, cap;
	uint64_t now;
};

/* The method of the call. NULL: it has no hook, or is not wanted. */
static struct rut_variant *variant_at(struct rut_session *s, void *ec, const VALUE *cfp)
{
	VALUE flags = *(const VALUE *)cfp[RUT_FRAME_EP], iseq = cfp[RUT_FRAME_ISEQ];
	bool bmethod = (flags & RUT_FRAME_TYPE) == FRAME_BLOCK && flags & RUT_FRAME_BMETHOD;
	/* Ruby fills in the rest of its structure. */
	union {
		struct rut_trace_arg ta;
		uintptr_t words[32];
	} arg = {.words = {0}};
	struct rut_rec *r;

	if (!iseq || (!bmethod && (flags & RUT_FRAME_TYPE) != FRAME_METHOD) ||
	    rut_imemo(iseq) != RUT_IMEMO_ISEQ)
		return NULL;
	r = s->global || !rut_agent_hooklist_known() ? rut_agent_code_rec(s, iseq, bmethod)
						     : rut_agent_hooklist_rec_on(s, iseq, bmethod);
	arg.ta.event = bmethod ? RUT_EVENT_B_CALL : RUT_EVENT_CALL;
	arg.ta.ec = ec;
	arg.ta.cfp = cfp;
	arg.ta.self = cfp[RUT_FRAME_SELF];
	return r ? rut_agent_hook_variant(r, &arg.ta) : NULL;
}

static void add_found(struct look *l, const VALUE *cfp, struct rut_variant *v)
{
	if (l->count == l->cap) {
		uint32_t cap = l->cap ? l->cap * 2 : 1024;
		struct rut_frame *to = rut_agent_map(cap * sizeof(*to));

		if (!to)
			return;
		if (l->count)
			memcpy(to, l->found, l->count * sizeof(*to));
		rut_agent_unmap(l->found, l->cap * sizeof(*to));
		l->found = to;
		l->cap = cap;
	}
	l->found[l->count++] = (struct rut_frame){.cfp = cfp, .v = v, .begin = l->now};
}

/* `left`: a fiber that does not run. */
static void seed(struct look *l, void *ec, VALUE thread, const void *seen, bool left)
{
	struct rut_frames f;

	l->count = 0;
	if (!rut_agent_frames_of(ec, &f))
		return;
	for (const VALUE *cfp = f.end - f.words; cfp >= f.inner; cfp -= f.words) {
		struct rut_variant *v = (const void *)cfp > seen ? variant_at(l->s, ec, cfp) : NULL;

		if (v)
			add_found(l, cfp, v);
	}
	if (l->count)
		rut_agent_stack_seed(l->s, ec, thread, l->found, l->count, left);
}

static void *ec_of_thread(VALUE thread)
{
	return ((void *const *)data_of(thread))[layout.thread_word];
}

/* The contexts of threads are seeded before those of fibers. */
static bool runs(const struct look *l, const void *ec)
{
	for (size_t i = 0; i < l->running.count; i++)
		if (l->running.items[i] == (VALUE)ec)
			return true;
	return false;
}

/* Thread.list, unless the program redefined it: these threads are known to live. */
static VALUE list_threads(void)
{
	VALUE class = rb.rb_const_get(*rb.rb_cObject, rb.rb_intern("Thread"));
	ID list = rb.rb_intern("list");

	if (!rb.rb_method_basic_definition_p ||
	    !rb.rb_method_basic_definition_p(rut_klass(class), list))
		return rb.qnil;
	return rb.rb_funcallv(class, list, 0, NULL);
}

static VALUE seed_body(VALUE arg)
{
	struct look *l = (struct look *)arg;
	VALUE threads = list_threads(), fiber;

	l->now = rut_ticks();
	for (long i = 0; threads != rb.qnil; i++) {
		VALUE thread = rb.rb_ary_entry(threads, i);
		void *ec;

		if (thread == rb.qnil)
			break;
		ec = data_of(thread) ? ec_of_thread(thread) : NULL;
		if (ec && rut_list_add(&l->running, (VALUE)ec))
			seed(l, ec, thread, NULL, false);
	}
	if (!l->running.count || rb.rb_ary_entry(l->s->fibers, 0) == rb.qnil || !learn_fiber())
		return rb.qnil;
	while ((fiber = rb.rb_ary_pop(l->s->fibers)) != rb.qnil) {
		void *ec = (char *)data_of(fiber) + layout.fiber_byte;

		if (!runs(l, ec))
			seed(l, ec, 0, NULL, true);
	}
	return rb.qnil;
}

static VALUE learn_body(VALUE arg)
{
	*(bool *)arg = learn();
	return rb.qnil;
}

void rut_agent_running_seed(struct rut_session *s)
{
	struct look l = {.s = s};
	VALUE was_disabled;
	bool known = false;
	int failed = 0;

	s->time.seeded = rut_ticks();
	rb.rb_protect(learn_body, (VALUE)&known, &failed);
	if (!failed && known && !rut_single_ractor())
		s->time.seed_own = rut_agent_running_seed_own;
	if (!failed && known && !s->time.seed_own) {
		/* The lists hold addresses that the GC does not see. */
		was_disabled = rb.rb_gc_disable();
		rb.rb_protect(seed_body, (VALUE)&l, &failed);
		if (was_disabled != rb.qtrue)
			rb.rb_gc_enable();
	}
	if (failed)
		rb.rb_set_errinfo(rb.qnil);
	rut_agent_unmap(l.found, l.cap * sizeof(*l.found));
	rut_list_fini(&l.running);
}

void rut_agent_running_seed_own(struct rut_session *s, void *ec, const void *seen)
{
	struct look l = {.s = s, .now = s->time.seeded};

	seed(&l, ec, 0, seen, false);
	rut_agent_unmap(l.found, l.cap * sizeof(*l.found));
}

bool rut_agent_running_frames(VALUE thread, struct rut_running_frames *ret)
{
	struct rut_frames f;

	if (!rut_single_ractor() || (!layout.thread_word && !learn()) || !data_of(thread))
		return false;
	ret->ec = ec_of_thread(thread);
	if (!ret->ec || !rut_agent_frames_of(ret->ec, &f))
		return false;
	ret->inner = f.inner;
	ret->end = f.end;
	ret->words = f.words;
	return true;
}
