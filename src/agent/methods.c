/* SPDX-License-Identifier: MIT */
/*
 * Finding the methods, and putting hooks on those that the filter wants.
 *
 * A look through the heap finds the code that exists: every method is an InstructionSequence of
 * type `method`, every define_method a method entry that refers to a Proc. They wait in a hidden
 * Array until it is their turn, a few milliseconds at a time; methods of one file get a hook
 * together (files.c). Code that comes later announces itself (script_compiled) before it runs. Of
 * blocks nobody can tell which will be methods: each gets a hook that goes away at its first call
 * as a plain block. When there are very many (BLOCKS_MAX), only those that are methods already get
 * one; methods that are defined later from the others are found by looking through the heap again.
 *
 * Little is kept alive here: a hook belongs to its InstructionSequences (Ruby marks it from there),
 * and to take the hooks away they are looked up in the heap. So code that the application drops
 * goes, hook and all; methods of a file that share a hook go together.
 */
#include "session.h"

#include "clock.h"
#include "iseq.h"
#include "list.h"
#include "named.h"

#include <stdlib.h>
#include <string.h>

#define MAIN_FRAMES	 64
#define FRAME_BLOCK_CODE 5 /* of a control frame of 2.6 */

#define BLOCKS_MAX 6000u /* pieces of code that the filter wants */

#define HOOKS_TRIED  4u
#define HOOKS_NS_MAX 1000000000ull
/* While code is loaded: both too much in all and too much for each. */
#define COMPILED_NS_MAX 300000000ull
#define HOOK_NS_MAX	100000u

bool rut_methods_path_wanted(struct rut_session *s, VALUE iseq, uint32_t *ret_path)
{
	struct rut_path path = {.len = {0}};

	/* The second is the first one without links, and whatever the program's folder was. */
	path.s[0] = rut_str(rb.rb_profile_frame_path(iseq), &path.len[0]);
	path.s[1] = rut_str(rb.rb_profile_frame_absolute_path(iseq), &path.len[1]);
	if (!rut_filter_path(&s->filter, &path))
		return false;
	if (ret_path)
		*ret_path = rut_table_str(&s->table, path.s[0], path.len[0]);
	return true;
}

/*
 * Counters need atomic operations once a second ractor runs. Where Ruby does not let us see that, a
 * hook on Ractor.new does.
 */
static void on_ractor_new(VALUE tp, void *session)
{
	rut_ractors_many();
	rut_session_ractors(session);
	if (rut_ractors_crash() && !rut_session_counts_calls(session)) {
		rut_session_raw_off(session);
		((struct rut_session *)session)->table.hdr->ractors = RUT_RACTORS_ENDED_IT;
	}
}

static VALUE watch_ractors_body(VALUE arg)
{
	struct rut_session *s = (struct rut_session *)arg;
	VALUE ractor = rb.rb_const_get(*rb.rb_cObject, rb.rb_intern("Ractor"));
	VALUE name = rb.rb_id2sym(rb.rb_intern("new")), count, method;

	count = rb.rb_funcallv(ractor, rb.rb_intern("count"), 0, NULL);
	if (rut_fix2long(count) > 1) {
		rut_ractors_many();
		return rb.qnil;
	}
	/* Hooks on allocations run in the main ractor only, and this one would cost YJIT its code.
	 */
	if (!rut_session_counts_calls(s) && !rut_ractors_crash())
		return rb.qnil;
	method = rb.rb_funcallv(ractor, rb.rb_intern("method"), 1, &name);
	s->tps[s->tp_count] = rb.rb_tracepoint_new(0, RUT_EVENT_CALL, on_ractor_new, s);
	rb.rb_gc_register_address(&s->tps[s->tp_count]);
	if (rut_target_enable(s->tps[s->tp_count], method))
		s->tp_count++;
	else
		rb.rb_gc_unregister_address(&s->tps[s->tp_count]);
	return rb.qnil;
}

void rut_watch_ractors(struct rut_session *s)
{
	int failed = 0;

	bool visible = rb.ruby_single_main_ractor;

	if (rut_ractors_crash() && !rut_session_counts_calls(s))
		visible = false;
	if (rb.version < 300 || visible || !rut_single_ractor())
		return;
	rb.rb_protect(watch_ractors_body, (VALUE)s, &failed);
	if (failed) {
		rb.rb_set_errinfo(rb.qnil);
		rut_ractors_many();
	}
}

/* ---- new code ---- */

static bool give_up_targets(struct rut_session *s);

/* The look through the heap may have come first. Where it cannot be seen: no. */
static bool has_hook(const struct rut_session *s, VALUE iseq, int kind)
{
	return rut_hooks_listed() && rut_file_hooks_on(s, iseq, kind == RUT_REC_METHOD) > 0;
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

	rut_iseq_children(wrapper, &l);
	for (size_t i = 0; i < l.count; i++) {
		VALUE iseq = rut_iseq_of(l.items[i]);
		int kind = rut_iseq_kind(iseq);
		bool hooked = kind >= 0 && has_hook(s, iseq, kind);

		if (kind == RUT_REC_METHOD && s->by_file && !s->filter.has_names) {
			c->methods++;
			c->some_have_hooks |= hooked;
		} else if (kind >= 0 && !hooked) {
			rut_target_hook(s, l.items[i], iseq, kind, 1);
		}
		if (depth < 100)
			instrument_children(c, l.items[i], depth + 1);
	}
	rut_list_fini(&l);
}

static void make_children_direct(const struct rut_session *s, VALUE wrapper, VALUE tp, int depth)
{
	struct rut_list l = {0};

	rut_iseq_children(wrapper, &l);
	for (size_t i = 0; i < l.count; i++) {
		VALUE iseq = rut_iseq_of(l.items[i]);

		if (rut_iseq_kind(iseq) == RUT_REC_METHOD)
			rut_file_make_direct(s, iseq, tp, RUT_REC_FILE);
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

	rut_iseq_children(wrapper, &l);
	for (size_t i = 0; i < l.count; i++) {
		VALUE iseq = rut_iseq_of(l.items[i]);

		if (rut_iseq_kind(iseq) == RUT_REC_METHOD && !has_hook(s, iseq, RUT_REC_METHOD))
			iseqs[n++] = iseq;
		if (n == RUT_FILE_METHODS || (n && i + 1 == l.count)) {
			rut_file_hook(s, iseqs, n);
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
		tp = rut_target_hook(c->s, c->wrapper, rut_iseq_of(c->wrapper), RUT_REC_FILE,
				     c->methods);
	if (tp)
		make_children_direct(c->s, c->wrapper, tp, 0);
	return rb.qnil;
}

static void code_came(struct rut_session *s, VALUE iseq)
{
	struct compiled c = {.s = s};
	uint64_t begin;
	uint32_t hooks;
	int failed = 0;

	if (rut_special_p(iseq) || !rut_iseq_ready(iseq) || !rut_methods_path_wanted(s, iseq, NULL))
		return;
	c.wrapper = rut_iseq_wrapper(iseq);
	begin = rut_mono_ns();
	hooks = s->table.hdr->instrumented;
	__atomic_fetch_add(&s->busy, 1, __ATOMIC_RELAXED);
	rb.rb_protect(compiled_body, (VALUE)&c, &failed);
	__atomic_fetch_sub(&s->busy, 1, __ATOMIC_RELAXED);
	if (failed)
		rb.rb_set_errinfo(rb.qnil);
	s->compiled_ns += rut_mono_ns() - begin;
	s->compiled_hooks += s->table.hdr->instrumented - hooks;
	if (s->compiled_ns > COMPILED_NS_MAX && s->compiled_ns / HOOK_NS_MAX > s->compiled_hooks) {
		give_up_targets(s);
		return;
	}
	if (!s->rescan) {
		s->rescan = true;
		s->rescan_round = 0;
		s->rescan_at_ns = rut_mono_ns() + 100000000u;
	}
}

void rut_methods_on_compiled(VALUE tp, void *session)
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
 * does not, or not here. *ret_deep: there are more frames than were looked at.
 */
static VALUE main_code(bool *ret_deep)
{
	static VALUE frames[MAIN_FRAMES]; /* with the GVL */
	int lines[MAIN_FRAMES], n = rb.rb_profile_frames(0, MAIN_FRAMES, frames, lines);

	*ret_deep = n == MAIN_FRAMES;
	for (n -= 2; n >= 0; n--) {
		size_t len;
		const char *path = rut_str(rb.rb_profile_frame_path(frames[n]), &len);
		VALUE label = rb.rb_profile_frame_base_label(frames[n]);

		if (rut_imemo(frames[n]) == RUT_IMEMO_ISEQ && len && path[0] != '<' &&
		    strcmp(rut_str(label, &len), "<main>") == 0)
			return frames[n];
	}
	return 0;
}

bool rut_methods_main_comes(void)
{
	bool deep;

	return rb.version == 206 && rb.target && rb.rb_thread_main &&
	       rb.rb_thread_current() == rb.rb_thread_main() && !main_code(&deep) && !deep;
}

void rut_methods_on_main(VALUE tp, void *session)
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

struct scan {
	struct rut_session *s;
	struct rut_list found;	/* code that the filter wants */
	struct rut_list ments;	/* method entries of define_methods */
	struct rut_list named;	/* and of methods, when they are chosen by name; sorted */
	struct rut_list blocks; /* their code; sorted */
	struct rut_list tps;	/* tracepoints of this session */
	struct rut_list done;	/* what they are enabled for; sorted */
	bool again;		/* hooks may be set already */
	bool by_name;
	VALUE path; /* the last one asked for, and the answer */
	bool wanted;
};

static void proc_of_ment(VALUE obj, void *data)
{
	VALUE *ret = data;

	if (!rut_special_p(obj) && rut_type(obj) == RUT_T_DATA)
		*ret = obj;
}

/* The code of the block when this method entry is that of a define_method. */
static VALUE bmethod_iseq(VALUE ment)
{
	VALUE proc = 0;
	int is_proc;

	rb.rb_objspace_reachable_objects_from(ment, proc_of_ment, &proc);
	if (!proc || !rb.rb_proc_get_iseq)
		return 0;
	return rb.rb_proc_get_iseq(proc, &is_proc);
}

static bool scan_wanted(struct scan *sc, VALUE iseq)
{
	VALUE path = rb.rb_profile_frame_path(iseq);

	if (path != sc->path) {
		sc->path = path;
		sc->wanted = rut_methods_path_wanted(sc->s, iseq, NULL);
	}
	return sc->wanted;
}

static int scan_page(void *start, void *end, size_t stride, void *data)
{
	struct scan *sc = data;

	for (VALUE v = (VALUE)start; v != (VALUE)end; v += stride) {
		int imemo = rut_imemo(v);

		if (imemo == RUT_IMEMO_ISEQ) {
			if (rut_iseq_ready(v) && scan_wanted(sc, v))
				rut_list_add(&sc->found, v);
		} else if (imemo == RUT_IMEMO_MENT) {
			const uint32_t *def = ((const uint32_t *const *)v)[2];

			if (def && (*def & 15) == RUT_METHOD_TYPE_BMETHOD)
				rut_list_add(&sc->ments, v);
			else if (def && (*def & 15) == RUT_METHOD_TYPE_ISEQ &&
				 (sc->by_name || sc->s->flags & RUT_AGENT_NAMES))
				rut_list_add(&sc->named, v);
		} else if (sc->again && !sc->s->by_file) {
			if (rut_target_rec(sc->s, v))
				rut_list_add(&sc->tps, v);
		}
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	VALUE x = *(const VALUE *)a, y = *(const VALUE *)b;

	return (x > y) - (x < y);
}

static bool is_done(const struct scan *sc, VALUE iseq)
{
	if (sc->s->by_file)
		return sc->again &&
		       rut_file_hooks_on(sc->s, iseq,
					 rb.rb_iseq_type && rut_iseq_kind(iseq) == RUT_REC_METHOD);
	return sc->done.count &&
	       bsearch(&iseq, sc->done.items, sc->done.count, sizeof(VALUE), compare);
}

static void add(struct rut_session *s, VALUE iseq)
{
	rb.rb_ary_push(s->todo, iseq);
	s->todo_count++;
}

/* Every alias, and every Method that was bound (Sinatra binds one a request), is an entry. */
static void add_defined_methods(struct scan *sc)
{
	struct rut_session *s = sc->s;

	for (size_t i = 0; i < sc->ments.count; i++) {
		VALUE iseq = bmethod_iseq(sc->ments.items[i]);

		if (iseq && rut_iseq_ready(iseq) && scan_wanted(sc, iseq) && !is_done(sc, iseq))
			rut_list_add(&sc->blocks, iseq);
	}
	if (sc->blocks.count)
		qsort(sc->blocks.items, sc->blocks.count, sizeof(VALUE), compare);
	for (size_t i = 0; i < sc->blocks.count; i++)
		if (!i || sc->blocks.items[i] != sc->blocks.items[i - 1])
			add(s, sc->blocks.items[i]);
}

/* Where Ruby says it at no cost; otherwise it is asked when it is its turn. */
static bool kind_wanted(const struct rut_session *s, VALUE iseq)
{
	int kind = rb.rb_iseq_type ? rut_iseq_kind(iseq) : RUT_REC_METHOD;

	return kind == RUT_REC_METHOD || (kind == RUT_REC_BLOCK && s->todo_blocks);
}

/* Code of one file side by side (the paths of one file are one object), what is outside first. */
static int compare_places(const void *a, const void *b)
{
	VALUE m = *(const VALUE *)a, n = *(const VALUE *)b;
	VALUE x = rb.rb_profile_frame_path(m), y = rb.rb_profile_frame_path(n);

	if (x == y) {
		x = rb.rb_profile_frame_first_lineno(m);
		y = rb.rb_profile_frame_first_lineno(n);
	}
	return (x > y) - (x < y);
}

/*
 * First what may share a hook or may not need one, in groups; then the methods of which nobody
 * knows yet whether they are wanted, and blocks that are methods.
 */
static void add_found(struct scan *sc)
{
	struct rut_session *s = sc->s;
	struct rut_list unknown = {0};
	struct rut_named named = {.s = s, .ments = &sc->named};

	for (size_t i = 0; i < sc->found.count; i++) {
		VALUE iseq = sc->found.items[i];
		enum rut_named_is is = RUT_NAMED_WANTED;

		if (is_done(sc, iseq) || !kind_wanted(s, iseq))
			continue;
		if (sc->by_name && rut_iseq_kind(iseq) == RUT_REC_METHOD)
			is = rut_named_is(&named, iseq);
		if (is == RUT_NAMED_WANTED)
			add(s, iseq);
		else if (is == RUT_NAMED_UNKNOWN)
			rut_list_add(&unknown, iseq);
	}
	s->todo_defined = s->todo_count;
	for (size_t i = 0; i < unknown.count; i++)
		add(s, unknown.items[i]);
	rut_list_fini(&unknown);
}

static VALUE scan_body(VALUE arg)
{
	struct scan *sc = (struct scan *)arg;
	struct rut_session *s = sc->s;

	rb.rb_objspace_each_objects(scan_page, sc);
	for (size_t i = 0; i < sc->tps.count; i++)
		rb.rb_objspace_reachable_objects_from(sc->tps.items[i], rut_target_sets, &sc->done);
	if (sc->done.count)
		qsort(sc->done.items, sc->done.count, sizeof(VALUE), compare);
	if (s->by_file && sc->found.count)
		qsort(sc->found.items, sc->found.count, sizeof(VALUE), compare_places);
	rut_named_sort(&sc->named);
	if (s->flags & RUT_AGENT_NAMES && !sc->again)
		rut_named_rows(s, &sc->named);
	/* Hidden: nothing of Ruby's inside must be seen by the program. */
	s->todo = rb.rb_obj_hide(rb.rb_ary_new());
	s->todo_next = s->todo_count = 0;
	s->todo_blocks = !sc->again && sc->found.count <= BLOCKS_MAX;
	add_found(sc);
	if (!s->todo_blocks)
		add_defined_methods(sc);
	return rb.qnil;
}

/* The GC must not run meanwhile: the lists hold addresses that it does not see. */
void rut_methods_scan(struct rut_session *s, bool again)
{
	struct scan sc = {.s = s, .again = again, .by_name = s->by_file && s->filter.has_names};
	VALUE was_disabled = rb.rb_gc_disable();
	int failed = 0;

	rb.rb_protect(scan_body, (VALUE)&sc, &failed);
	if (failed)
		rb.rb_set_errinfo(rb.qnil);
	if (was_disabled != rb.qtrue)
		rb.rb_gc_enable();
	rut_list_fini(&sc.found);
	rut_list_fini(&sc.ments);
	rut_list_fini(&sc.named);
	rut_list_fini(&sc.blocks);
	rut_list_fini(&sc.tps);
	rut_list_fini(&sc.done);
}

/*
 * With YJIT each hook costs a look through the heap. What all of them would cost is known after a
 * few: if it is more than a program should bear, there will be one hook for all.
 */
static bool too_expensive(struct rut_session *s, uint64_t ns)
{
	uint64_t left = (uint64_t)(s->todo_count - s->todo_next);

	if (s->tried == 0 || ns < s->hook_ns)
		s->hook_ns = ns;
	if (++s->tried < HOOKS_TRIED || s->todo_next >= s->todo_count)
		return false;
	/* A hook may be that of many. */
	return s->hook_ns * left * s->tried / (uint64_t)s->todo_next > HOOKS_NS_MAX;
}

static bool give_up_targets(struct rut_session *s)
{
	s->todo = rb.qnil;
	rut_methods_unhook(s, false, UINT64_MAX);
	s->drops = 0;
	s->rescan = false;
	rut_session_go_global(s);
	return false;
}

/*
 * The methods of one file that are next, side by side; *ret_n of them need a hook. Returns how many
 * places of the list that is.
 */
static long next_of_file(const struct rut_session *s, VALUE *iseqs, long *ret_n)
{
	VALUE path = 0, line = 0;
	long i = s->todo_next, n = 0;

	for (; i < s->todo_defined; i++) {
		VALUE iseq = rb.rb_ary_entry(s->todo, i);

		if (rut_iseq_kind(iseq) != RUT_REC_METHOD)
			break;
		if (path && rb.rb_profile_frame_path(iseq) != path)
			break;
		/* One inside another, both in one line, are not told apart by their order. */
		if (n == RUT_FILE_METHODS ||
		    (n > RUT_FILE_METHODS / 2 && rb.rb_profile_frame_first_lineno(iseq) != line))
			break;
		path = rb.rb_profile_frame_path(iseq);
		line = rb.rb_profile_frame_first_lineno(iseq);
		if (!rut_file_hooks_on(s, iseq, true))
			iseqs[n++] = iseq;
	}
	*ret_n = n;
	return i - s->todo_next;
}

/* Sets the next hook, or passes over what needs none: then false. */
static bool hook_next(struct rut_session *s)
{
	VALUE iseqs[RUT_FILE_METHODS], iseq;
	int kind;

	if (s->by_file && !s->no_files) {
		long n, places = next_of_file(s, iseqs, &n);

		if (places && (n == 0 || (n > 1 && rut_file_hook(s, iseqs, n)))) {
			s->todo_next += places;
			return n > 0;
		}
	}
	iseq = rb.rb_ary_entry(s->todo, s->todo_next++);
	kind = rut_iseq_kind(iseq);
	if (kind == RUT_REC_METHOD && s->by_file && rut_file_hooks_on(s, iseq, true))
		return false;
	if (kind == RUT_REC_BLOCK && s->by_file && has_hook(s, iseq, kind))
		return false;
	if (kind != RUT_REC_METHOD &&
	    (kind != RUT_REC_BLOCK || (!s->todo_blocks && s->todo_next <= s->todo_defined)))
		return false;
	rut_target_hook(s, rut_iseq_wrapper(iseq), iseq, kind, 1);
	return true;
}

bool rut_methods_work(struct rut_session *s, uint64_t deadline_ns)
{
	uint64_t begin = rut_mono_ns(), now;

	if (s->todo == rb.qnil || s->todo == 0)
		return false;
	while (rb.rb_ary_entry(s->todo, s->todo_next) != rb.qnil) {
		bool hooked = hook_next(s);

		now = rut_mono_ns();
		if (hooked && s->tried < HOOKS_TRIED && too_expensive(s, now - begin))
			return give_up_targets(s);
		begin = now;
		if (now > deadline_ns)
			return true;
	}
	s->todo = rb.qnil;
	s->table.hdr->scans++;
	return false;
}

/* ---- taking hooks away ---- */

struct unhook {
	struct rut_session *s;
	bool only_drops;
	struct rut_list tps;
};

static int unhook_page(void *start, void *end, size_t stride, void *data)
{
	struct unhook *u = data;

	for (VALUE v = (VALUE)start; v != (VALUE)end; v += stride) {
		struct rut_rec *r = rut_target_rec(u->s, v);

		if (r && (!u->only_drops || r->drop))
			rut_list_add(&u->tps, v);
	}
	return 0;
}

static VALUE unhook_list_body(VALUE arg)
{
	struct unhook *u = (struct unhook *)arg;

	rb.rb_objspace_each_objects(unhook_page, u);
	u->s->unhook = rb.rb_ary_new();
	u->s->unhook_next = 0;
	for (size_t i = 0; i < u->tps.count; i++)
		rb.rb_ary_push(u->s->unhook, u->tps.items[i]);
	return rb.qnil;
}

/* A look through the heap takes longer than a slice: once, and the list is worked off. */
static void unhook_list(struct rut_session *s, bool only_drops)
{
	struct unhook u = {.s = s, .only_drops = only_drops};
	VALUE was_disabled = rb.rb_gc_disable();
	int failed = 0;

	rb.rb_protect(unhook_list_body, (VALUE)&u, &failed);
	if (failed)
		rb.rb_set_errinfo(rb.qnil);
	if (was_disabled != rb.qtrue)
		rb.rb_gc_enable();
	rut_list_fini(&u.tps);
	s->unhook_only_drops = only_drops;
}

bool rut_methods_unhook(struct rut_session *s, bool only_drops, uint64_t deadline_ns)
{
	if (s->unhook == rb.qnil || (s->unhook_only_drops && !only_drops)) {
		unhook_list(s, only_drops);
		if (s->unhook == rb.qnil)
			return false;
	}
	for (;;) {
		VALUE tp = rb.rb_ary_entry(s->unhook, s->unhook_next++);

		if (tp == rb.qnil)
			break;
		rut_target_unhook(s, tp);
		if (s->unhook_next % 16 == 0 && rut_mono_ns() > deadline_ns)
			return true;
	}
	s->unhook = rb.qnil;
	return false;
}
