/* SPDX-License-Identifier: MIT */
/*
 * Finding the methods, and putting hooks on those that the filter wants.
 *
 * A walk through the heap (scan.c) finds the existing code: every method is an
 * InstructionSequence of type `method`, every define_method a method entry that refers to a Proc.
 * They wait in a hidden Array until it is their turn, a millisecond or two at a time; methods of
 * one file get a hook together (files.c). Code that comes later announces itself (script_compiled)
 * before it runs. It is not known which blocks will become methods: each gets a hook that is
 * removed at its first call as a plain block. When there are very many (BLOCKS_MAX), only those
 * that are methods already get one; methods that are defined later from the others are found by
 * looking through the heap again.
 *
 * Little is kept alive here: a hook belongs to its InstructionSequences (Ruby marks it from there),
 * and to take the hooks away they are looked up in the heap. So code that the application drops
 * is freed with its hook; methods of a file that share a hook are freed together.
 */
#include "methods.h"

#include "clock.h"
#include "files.h"
#include "hooklist.h"
#include "hooks.h"
#include "iseq.h"
#include "scan.h"
#include "target.h"
#include "within.h"

#include <string.h>

#define MAIN_FRAMES	 64
#define FRAME_BLOCK_CODE 5 /* of a control frame of 2.6 */

#define HOOKS_TRIED  4u
#define HOOKS_NS_MAX 1000000000ull
/* While code is loaded: both too much in all and too much for each. */
#define COMPILED_NS_MAX 300000000ull
#define HOOK_NS_MAX	100000u

/*
 * Counters need atomic operations once a second ractor runs. Where Ruby does not let us see that, a
 * hook on Ractor.new does.
 */
static void on_ractor_new(VALUE tp, void *session)
{
	struct rut_session *s = session;

	rut_agent_ractors_many();
	rut_agent_session_ractors(s);
	if (s->within.on)
		rut_agent_within_refuse(s);
	if (!rut_ractors_crash() || !rut_agent_session_sees_allocations(s))
		return;
	/* Calls go on, where they are recorded beside allocations. */
	if (rut_agent_session_counts_calls(s)) {
		rut_agent_session_newobj_off(s);
		s->table.hdr->ractors |= RUT_RACTORS_UNSEEN;
		return;
	}
	rut_agent_session_raw_off(s);
	s->table.hdr->ractors = RUT_RACTORS_ENDED_IT;
}

static VALUE watch_ractors_body(VALUE arg)
{
	struct rut_session *s = (struct rut_session *)arg;
	VALUE ractor = rb.rb_const_get(*rb.rb_cObject, rb.rb_intern("Ractor"));
	VALUE name = rb.rb_id2sym(rb.rb_intern("new")), method;

	if (rut_agent_ractors_run()) {
		rut_agent_ractors_many();
		return rb.qnil;
	}
	/* Hooks on allocations run in the main ractor only, and this one would cost YJIT its code.
	 */
	if (!rut_agent_session_counts_calls(s) && !rut_ractors_crash())
		return rb.qnil;
	method = rb.rb_funcallv(ractor, rb.rb_intern("method"), 1, &name);
	rut_keep(&s->tps[s->tp_count], rb.rb_tracepoint_new(0, RUT_EVENT_CALL, on_ractor_new, s));
	if (rut_agent_target_enable(s->tps[s->tp_count], method))
		s->tp_count++;
	else
		rb.rb_gc_unregister_address(&s->tps[s->tp_count]);
	return rb.qnil;
}

void rut_agent_methods_watch_ractors(struct rut_session *s)
{
	int failed = 0;

	bool visible = rb.ruby_single_main_ractor;

	if (rut_ractors_crash() && rut_agent_session_sees_allocations(s))
		visible = false;
	if (!rb.abi->has_ractors || visible || !rut_single_ractor())
		return;
	rb.rb_protect(watch_ractors_body, (VALUE)s, &failed);
	if (failed) {
		rb.rb_set_errinfo(rb.qnil);
		rut_agent_ractors_many();
	}
}

static void hook_all(struct rut_session *s)
{
	bool follow = rut_agent_session_wants_returns(s);

	s->global_tp = rut_agent_session_tp(s, RUT_EVENT_CALL | (follow ? RUT_EVENT_RETURN : 0),
					    rut_agent_hook_on_any_call);
}

void rut_agent_methods_go_global(struct rut_session *s)
{
	struct rut_list half_made = {0};
	VALUE was_disabled;

	s->global = true;
	if (s->within.on)
		rut_agent_within_refuse(s);
	if (!rb.abi->trips_over_half_made) {
		hook_all(s);
		return;
	}
	was_disabled = rb.rb_gc_disable();
	rut_agent_iseq_spare_half_made(&half_made, true);
	hook_all(s);
	rut_agent_iseq_spare_half_made(&half_made, false);
	if (was_disabled != rb.qtrue)
		rb.rb_gc_enable();
}

/* ---- new code ---- */

static bool give_up_targets(struct rut_session *s);

/* The look through the heap may have come first. Where it cannot be seen: no. */
static bool has_hook(const struct rut_session *s, VALUE iseq, int kind)
{
	return rut_agent_hooklist_known() &&
	       rut_agent_hooklist_count(s, iseq, kind == RUT_REC_METHOD) > 0;
}

struct compiled {
	struct rut_session *s;
	VALUE wrapper;
	uint32_t methods;     /* that are left to a hook of the file */
	bool some_have_hooks; /* of these */
};

static void instrument_children(struct compiled *c, VALUE wrapper, int depth)
{
	struct rut_session *s = c->s;
	struct rut_list l = {0};

	rut_agent_iseq_children(wrapper, &l);
	for (size_t i = 0; i < l.count; i++) {
		VALUE iseq = rut_agent_iseq_of(l.items[i]);
		int kind = rut_agent_iseq_kind(iseq);
		bool hooked;

		if (!rut_agent_session_wants_name(s, iseq, kind))
			kind = -1;
		hooked = kind >= 0 && has_hook(s, iseq, kind);

		if (kind == RUT_REC_METHOD && s->by_file && !s->filter.has_names) {
			c->methods++;
			c->some_have_hooks |= hooked;
		} else if (kind >= 0 && !hooked) {
			rut_agent_target_hook(s, l.items[i], iseq, kind, 1);
		}
		if (depth < 100)
			instrument_children(c, l.items[i], depth + 1);
	}
	rut_list_fini(&l);
}

static void make_children_direct(const struct rut_session *s, VALUE wrapper, VALUE tp, int depth)
{
	struct rut_list l = {0};

	rut_agent_iseq_children(wrapper, &l);
	for (size_t i = 0; i < l.count; i++) {
		VALUE iseq = rut_agent_iseq_of(l.items[i]);

		if (rut_agent_iseq_kind(iseq) == RUT_REC_METHOD)
			rut_agent_hooklist_make_direct(s, iseq, tp, RUT_REC_FILE);
		if (depth < 100)
			make_children_direct(s, l.items[i], tp, depth + 1);
	}
	rut_list_fini(&l);
}

/* One hook for those that have none, as for code that was found in the heap. */
static void instrument_rest(struct rut_session *s, VALUE wrapper, int depth)
{
	VALUE iseqs[RUT_FILE_METHODS];
	struct rut_list l = {0};
	long n = 0;

	rut_agent_iseq_children(wrapper, &l);
	for (size_t i = 0; i < l.count; i++) {
		VALUE iseq = rut_agent_iseq_of(l.items[i]);

		if (rut_agent_iseq_kind(iseq) == RUT_REC_METHOD &&
		    !has_hook(s, iseq, RUT_REC_METHOD))
			iseqs[n++] = iseq;
		if (n == RUT_FILE_METHODS || (n && i + 1 == l.count)) {
			rut_agent_file_hook(s, iseqs, n);
			n = 0;
		}
	}
	for (size_t i = 0; i < l.count && depth < 100; i++)
		instrument_rest(s, l.items[i], depth + 1);
	rut_list_fini(&l);
}

static VALUE compiled_body(VALUE arg)
{
	struct compiled *c = (struct compiled *)arg;
	volatile VALUE tp = 0;

	instrument_children(c, c->wrapper, 0);
	if (c->some_have_hooks)
		instrument_rest(c->s, c->wrapper, 0);
	else if (c->methods)
		tp = rut_agent_target_hook(c->s, c->wrapper, rut_agent_iseq_of(c->wrapper),
					   RUT_REC_FILE, c->methods);
	if (tp)
		make_children_direct(c->s, c->wrapper, tp, 0);
	return rb.qnil;
}

static void code_came(struct rut_session *s, VALUE iseq)
{
	struct compiled c = {.s = s};
	uint64_t begin;
	uint32_t hooks;

	if (rut_special_p(iseq) || !rut_agent_iseq_ready(iseq) ||
	    !rut_agent_session_wants_file(s, iseq, NULL))
		return;
	c.wrapper = rut_agent_iseq_wrapper(iseq);
	begin = rut_cpu_ns();
	hooks = s->table.hdr->instrumented;
	__atomic_fetch_add(&s->busy, 1, __ATOMIC_RELAXED);
	rut_agent_protect(compiled_body, (VALUE)&c);
	__atomic_fetch_sub(&s->busy, 1, __ATOMIC_RELAXED);
	s->effort.compiled_ns += rut_cpu_ns() - begin;
	s->effort.compiled_hooks += s->table.hdr->instrumented - hooks;
	if (!s->filter.watches && s->effort.compiled_ns > COMPILED_NS_MAX &&
	    s->effort.compiled_ns / HOOK_NS_MAX > s->effort.compiled_hooks) {
		give_up_targets(s);
		return;
	}
	if (!s->rescan.due) {
		s->rescan.due = true;
		s->rescan.round = 0;
		s->rescan.at_ns = rut_mono_ns() + 100000000u;
	}
}

void rut_agent_methods_on_compiled(VALUE tp, void *session)
{
	struct rut_session *s = session;
	VALUE iseq = rb.rb_tracearg_from_tracepoint(tp)->data; /* the code, or [source, code] */

	if (rut_special_p(iseq) || s->global)
		return;
	if (rut_type(iseq) == RUT_T_ARRAY)
		iseq = rb.rb_ary_entry(iseq, 1);
	code_came(s, iseq);
}

/*
 * The code of the program itself, when it runs: below the outermost frame, which Ruby makes. 0: it
 * does not, or not here. *ret_deep: there are more frames than were walked.
 */
static VALUE main_code(bool *ret_deep)
{
	static VALUE frames[MAIN_FRAMES]; /* with the GVL */
	int lines[MAIN_FRAMES], n = rb.rb_profile_frames(0, MAIN_FRAMES, frames, lines);

	*ret_deep = n == MAIN_FRAMES;
	for (n -= 2; n >= 0; n--) {
		size_t len;
		const char *path = rut_agent_str(rb.rb_profile_frame_path(frames[n]), &len);
		VALUE label = rb.rb_profile_frame_base_label(frames[n]);

		if (rut_imemo(frames[n]) == RUT_IMEMO_ISEQ && len && path[0] != '<' &&
		    strcmp(rut_agent_str(label, &len), "<main>") == 0)
			return frames[n];
	}
	return 0;
}

bool rut_agent_methods_main_comes(void)
{
	bool deep;

	return rb.abi->main_is_silent && rb.target && rb.rb_thread_main &&
	       rb.rb_thread_current() == rb.rb_thread_main() && !main_code(&deep) && !deep;
}

void rut_agent_methods_on_main(VALUE tp, void *session)
{
	struct rut_session *s = session;
	bool deep;
	VALUE iseq = s->main_comes ? main_code(&deep) : 0;
	/* Of the frame that calls: the block that it gives. Blocks of ours would take its place. */
	VALUE *block = (VALUE *)rb.rb_tracearg_from_tracepoint(tp)->cfp + FRAME_BLOCK_CODE, code;

	if (!iseq)
		return;
	code = *block;
	s->main_comes = false;
	rb.rb_tracepoint_disable(tp);
	if (!s->global)
		code_came(s, iseq);
	*block = code;
}

/* ---- code that exists ---- */

/*
 * With YJIT each hook costs a walk through the heap. What all of them would cost is known after a
 * few: if it is more than a program should bear, there will be one hook for all.
 */
static bool too_expensive(struct rut_session *s, uint64_t ns)
{
	uint64_t left = (uint64_t)(s->todo.count - s->todo.next);

	if (s->filter.watches)
		return false; /* these are few, and a hook for all methods costs far more */
	if (s->effort.tried == 0 || ns < s->effort.hook_ns)
		s->effort.hook_ns = ns;
	if (++s->effort.tried < HOOKS_TRIED || s->todo.next >= s->todo.count)
		return false;
	/* A hook may be that of many. */
	return s->effort.hook_ns * left * s->effort.tried / (uint64_t)s->todo.next > HOOKS_NS_MAX;
}

static bool give_up_targets(struct rut_session *s)
{
	s->todo.codes = rb.qnil;
	rut_agent_scan_end(s);
	rut_agent_methods_unhook(s, false, UINT64_MAX);
	s->dropper.count = 0;
	s->rescan.due = false;
	rut_agent_methods_go_global(s);
	return false;
}

/*
 * The methods of one file that are next, side by side; *ret_n of them need a hook. Returns how many
 * places of the list that is.
 */
static long next_of_file(const struct rut_session *s, VALUE *iseqs, long *ret_n)
{
	VALUE path = 0, line = 0;
	long i = s->todo.next, n = 0;

	for (; i < s->todo.defined; i++) {
		VALUE iseq = rb.rb_ary_entry(s->todo.codes, i);

		if (rut_agent_iseq_kind(iseq) != RUT_REC_METHOD)
			break;
		if (path && rb.rb_profile_frame_path(iseq) != path)
			break;
		/* Nested ones in one line cannot be distinguished by their order. */
		if (n == RUT_FILE_METHODS ||
		    (n > RUT_FILE_METHODS / 2 && rb.rb_profile_frame_first_lineno(iseq) != line))
			break;
		path = rb.rb_profile_frame_path(iseq);
		line = rb.rb_profile_frame_first_lineno(iseq);
		if (!rut_agent_hooklist_count(s, iseq, true))
			iseqs[n++] = iseq;
	}
	*ret_n = n;
	return i - s->todo.next;
}

/* Sets the next hook, or passes over what needs none: then false. */
static bool hook_next(struct rut_session *s)
{
	VALUE iseqs[RUT_FILE_METHODS], iseq;
	int kind;

	if (s->by_file && !s->no_files) {
		long n, places = next_of_file(s, iseqs, &n);

		if (places && (n == 0 || (n > 1 && rut_agent_file_hook(s, iseqs, n)))) {
			s->todo.next += places;
			return n > 0;
		}
	}
	iseq = rb.rb_ary_entry(s->todo.codes, s->todo.next++);
	kind = rut_agent_iseq_kind(iseq);
	if (kind == RUT_REC_METHOD && s->by_file && rut_agent_hooklist_count(s, iseq, true))
		return false;
	if (kind == RUT_REC_BLOCK && s->by_file && has_hook(s, iseq, kind))
		return false;
	if (kind != RUT_REC_METHOD &&
	    (kind != RUT_REC_BLOCK || (!s->todo.blocks && s->todo.next <= s->todo.defined)))
		return false;
	rut_agent_target_hook(s, rut_agent_iseq_wrapper(iseq), iseq, kind, 1);
	return true;
}

bool rut_agent_methods_work(struct rut_session *s, uint64_t deadline_ns)
{
	uint64_t begin;

	if (rut_agent_scan_work(s, deadline_ns))
		return true;
	if (s->todo.codes == rb.qnil || s->todo.codes == 0)
		return false;
	while (rb.rb_ary_entry(s->todo.codes, s->todo.next) != rb.qnil) {
		bool measured = s->effort.tried < HOOKS_TRIED;

		begin = measured ? rut_cpu_ns() : 0;
		if (hook_next(s) && measured && too_expensive(s, rut_cpu_ns() - begin))
			return give_up_targets(s);
		if (rut_mono_ns() > deadline_ns)
			return true;
	}
	s->todo.codes = rb.qnil;
	s->table.hdr->scans++;
	return false;
}

/* ---- taking hooks away ---- */

static bool is_to_unhook(VALUE v, void *session)
{
	const struct rut_session *s = session;
	const struct rut_rec *r = rut_type(v) == RUT_T_DATA ? rut_agent_hooklist_rec(s, v) : NULL;

	return r && (!s->dropper.only_drops || r->drop);
}

struct unhook {
	struct rut_session *s;
	uint64_t deadline_ns;
	bool more;
};

static VALUE unhook_body(VALUE arg)
{
	struct unhook *u = (struct unhook *)arg;
	struct rut_walk *w = &u->s->dropper.walk;
	enum rut_walk_state state = RUT_WALK_MOVED;

	if (w->found && !u->s->dropper.found)
		state = rut_agent_walk_step(w, is_to_unhook, u->s, u->deadline_ns);
	else if (w->found && !rut_agent_walk_moved(w))
		state = RUT_WALK_DONE;
	if (state == RUT_WALK_MOVED) {
		rut_agent_walk_end(w);
		rut_agent_walk_begin(w);
		u->s->dropper.found = false;
		u->s->dropper.pos = 0;
	}
	u->more = state != RUT_WALK_DONE;
	return rb.qnil;
}

/* The hooks are looked for, in slices, and then taken away. */
bool rut_agent_methods_unhook(struct rut_session *s, bool only_drops, uint64_t deadline_ns)
{
	struct unhook u = {.s = s, .deadline_ns = deadline_ns};
	int failed = 0;
	VALUE tp;

	if (s->dropper.walk.found && s->dropper.only_drops && !only_drops)
		rut_agent_walk_end(&s->dropper.walk);
	if (!s->dropper.walk.found)
		s->dropper.only_drops = only_drops;
	do {
		rb.rb_protect(unhook_body, (VALUE)&u, &failed);
		if (failed)
			rb.rb_set_errinfo(rb.qnil);
	} while (deadline_ns == UINT64_MAX && (u.more || failed));
	if (u.more || failed)
		return true;
	s->dropper.found = true;
	while ((tp = rut_agent_walk_next(&s->dropper.walk, &s->dropper.pos))) {
		rut_agent_target_unhook(s, tp);
		if (rut_mono_ns() > deadline_ns)
			return true;
	}
	rut_agent_walk_end(&s->dropper.walk);
	s->dropper.found = false;
	s->dropper.pos = 0;
	return false;
}
