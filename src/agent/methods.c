/* SPDX-License-Identifier: MIT */
/*
 * Finding the methods, and putting hooks on those that the filter wants.
 *
 * A look through the heap finds the code that exists: every method is an InstructionSequence of
 * type `method`, every define_method a method entry that refers to a Proc. Ruby's own wrappers of
 * them wait in an Array until it is their turn, a few milliseconds at a time. Code that comes later
 * announces itself (script_compiled) before it runs. Of blocks nobody can tell which will be
 * methods: each gets a hook that goes away at its first call as a plain block. When there are very
 * many (BLOCKS_MAX), only those that are methods already get one; methods that are defined later
 * from the others are found by looking through the heap again.
 *
 * Nothing here keeps code alive: a hook belongs to its InstructionSequence (Ruby marks it from
 * there), and to take the hooks away they are looked up in the heap. So code that the application
 * drops goes, hook and all.
 */
#include "session.h"

#include "clock.h"
#include "list.h"
#include "named.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS_MAX 6000u /* pieces of code that the filter wants */

#define HOOKS_TRIED  4u
#define HOOKS_NS_MAX 1000000000ull
/* While code is loaded: both too much in all and too much for each. */
#define COMPILED_NS_MAX 300000000ull
#define HOOK_NS_MAX	100000u

#define HOOK_DELETED 2u /* RUBY_EVENT_HOOK_FLAG_DELETED */

#define NOT_READY (3ul << 17) /* an InstructionSequence that is being loaded or compiled */

static bool ready_iseq(VALUE v)
{
	return rut_imemo(v) == RUT_IMEMO_ISEQ && !(rut_flags(v) & NOT_READY);
}

bool rut_methods_path_wanted(struct rut_session *s, VALUE iseq, uint32_t *ret_path)
{
	size_t len, abs_len;
	VALUE path = rb.rb_profile_frame_path(iseq);
	const char *p = rut_str(path, &len), *abs = p;

	abs_len = len;
	if (len && p[0] != '/' && p[0] != '<' && p[0] != '(') {
		const char *a = rut_str(rb.rb_profile_frame_absolute_path(iseq), &abs_len);

		if (abs_len)
			abs = a;
		else
			abs_len = len;
	}
	if (!rut_filter_path(&s->filter, abs, abs_len))
		return false;
	if (ret_path)
		*ret_path = rut_table_str(&s->table, p, len);
	return true;
}

/* ---- what kind of code ---- */

static VALUE wrapper_of(VALUE iseq)
{
	return rb.rb_iseqw_new(iseq);
}

static void first_iseq(VALUE obj, void *data)
{
	VALUE *ret = data;

	if (!*ret && !rut_special_p(obj) && rut_imemo(obj) == RUT_IMEMO_ISEQ)
		*ret = obj;
}

static VALUE iseq_of_wrapper(VALUE wrapper)
{
	VALUE iseq = 0;

	if (rb.rb_iseqw_to_iseq)
		return rb.rb_iseqw_to_iseq(wrapper);
	rb.rb_objspace_reachable_objects_from(wrapper, first_iseq, &iseq);
	return iseq;
}

/* -1: neither a method nor a block */
static int kind_of(VALUE iseq)
{
	if (rb.rb_iseq_type) {
		VALUE type = rb.rb_iseq_type(iseq);

		return type == rb.sym_method  ? RUT_REC_METHOD
		       : type == rb.sym_block ? RUT_REC_BLOCK
					      : -1;
	} else {
		/* [[1, :call], [2, :line], ...] */
		VALUE points = rb.rb_funcallv(wrapper_of(iseq), rb.id_trace_points, 0, NULL);

		for (long i = 0; i < 2; i++) {
			VALUE point = rb.rb_ary_entry(points, i), event;

			if (point == rb.qnil)
				break;
			event = rb.rb_ary_entry(point, 1);
			if (event == rb.sym_call)
				return RUT_REC_METHOD;
			if (event == rb.sym_b_call)
				return RUT_REC_BLOCK;
		}
		return -1;
	}
}

static VALUE child_i(VALUE child, VALUE data, int argc, const VALUE *argv, VALUE block)
{
	struct rut_list *l = (struct rut_list *)data;

	rut_list_add(l, child);
	return rb.qnil;
}

/* Wrappers of the code directly inside; they stay alive: each is referred to by its code. */
static void children_of(VALUE wrapper, struct rut_list *l)
{
	rb.rb_block_call(wrapper, rb.id_each_child, 0, NULL, child_i, (VALUE)l);
}

/* ---- setting one hook ---- */

struct enable {
	VALUE tp, wrapper;
};

static VALUE enable_body(VALUE arg)
{
	struct enable *e = (struct enable *)arg;

	rb.rb_hash_aset(rb.enable_args, rb.sym_target, e->wrapper);
	if (rb.rb_funcallv_kw)
		rb.rb_funcallv_kw(e->tp, rb.id_enable, 1, &rb.enable_args, 1);
	else
		rb.rb_funcallv(e->tp, rb.id_enable, 1, &rb.enable_args);
	return rb.qnil;
}

static bool enable_for(VALUE tp, VALUE wrapper)
{
	struct enable e = {tp, wrapper};
	int failed = 0;

	rb.rb_protect(enable_body, (VALUE)&e, &failed);
	if (failed)
		rb.rb_set_errinfo(rb.qnil);
	rb.rb_hash_aset(rb.enable_args, rb.sym_target, rb.qnil);
	return !failed;
}

/*
 * Until 3.0 Ruby never frees what belongs to a tracepoint (its bug 18264). So those of sessions
 * that are over are used again. Layout: rut_methods_rec().
 */
static VALUE spare; /* Array; registered with the GC */

static void spare_tracepoint(VALUE tp)
{
	if (rb.version > 300)
		return;
	if (!spare) {
		spare = rb.rb_obj_hide(rb.rb_ary_new());
		rb.rb_gc_register_address(&spare);
	}
	rb.rb_ary_push(spare, tp);
}

static VALUE new_tracepoint(uint32_t events, rut_tp_fn fn, struct rut_rec *r)
{
	VALUE tp = spare ? rb.rb_ary_pop(spare) : rb.qnil;
	uintptr_t *w;

	if (tp == rb.qnil)
		return rb.rb_tracepoint_new(0, events, fn, r);
	w = (uintptr_t *)((uintptr_t *)tp)[4];
	*(uint32_t *)w = events;
	for (int i = 2; i < 5; i++)
		if (rut_hook_is_ours((rut_tp_fn)w[i])) {
			w[i] = (uintptr_t)fn;
			w[i + 1] = (uintptr_t)r;
			break;
		}
	return tp;
}

VALUE rut_methods_hook(struct rut_session *s, VALUE wrapper, VALUE iseq, int kind, uint32_t methods)
{
	struct rut_rec *r;
	uint32_t path, events;
	rut_tp_fn fn;
	volatile VALUE tp;

	if (!rut_methods_path_wanted(s, iseq, &path))
		return 0;
	r = rut_session_alloc(s, sizeof(*r));
	if (!r)
		return 0;
	r->s = s;
	r->kind = (uint8_t)kind;
	r->path = path;
	r->line = (uint32_t)rut_fix2long(rb.rb_profile_frame_first_lineno(iseq));
	r->iseq = iseq;
	r->methods = methods;
	fn = rut_hook_for(s, kind, &events);
	tp = new_tracepoint(events, fn, r);
	if (!enable_for(tp, wrapper))
		return 0;
	s->table.hdr->instrumented += methods;
	return tp;
}

/*
 * Counters need atomic operations once a second ractor runs. Where Ruby does not let us see that, a
 * hook on Ractor.new does.
 */
static void on_ractor_new(VALUE tp, void *session)
{
	rut_many_ractors = true;
}

static VALUE watch_ractors_body(VALUE arg)
{
	struct rut_session *s = (struct rut_session *)arg;
	VALUE ractor = rb.rb_const_get(*rb.rb_cObject, rb.rb_intern("Ractor"));
	VALUE name = rb.rb_id2sym(rb.rb_intern("new")), count, method;

	count = rb.rb_funcallv(ractor, rb.rb_intern("count"), 0, NULL);
	if (rut_fix2long(count) > 1) {
		rut_many_ractors = true;
		return rb.qnil;
	}
	method = rb.rb_funcallv(ractor, rb.rb_intern("method"), 1, &name);
	s->tps[s->tp_count] = rb.rb_tracepoint_new(0, RUT_EVENT_CALL, on_ractor_new, s);
	rb.rb_gc_register_address(&s->tps[s->tp_count]);
	if (enable_for(s->tps[s->tp_count], method))
		s->tp_count++;
	else
		rb.rb_gc_unregister_address(&s->tps[s->tp_count]);
	return rb.qnil;
}

void rut_watch_ractors(struct rut_session *s)
{
	int failed = 0;

	if (rb.version < 300 || rb.ruby_single_main_ractor || rut_many_ractors)
		return;
	rb.rb_protect(watch_ractors_body, (VALUE)s, &failed);
	if (failed) {
		rb.rb_set_errinfo(rb.qnil);
		rut_many_ractors = true;
	}
}

/* ---- new code ---- */

static bool give_up_targets(struct rut_session *s);

/* Returns the number of methods that are left to a hook of the file. */
static uint32_t instrument_children(struct rut_session *s, VALUE wrapper, int depth)
{
	struct rut_list l = {0};
	uint32_t left = 0;

	children_of(wrapper, &l);
	for (size_t i = 0; i < l.count; i++) {
		VALUE iseq = iseq_of_wrapper(l.items[i]);
		int kind = kind_of(iseq);

		if (kind == RUT_REC_METHOD && s->by_file && !s->filter.has_names)
			left++;
		else if (kind >= 0)
			rut_methods_hook(s, l.items[i], iseq, kind, 1);
		if (depth < 100)
			left += instrument_children(s, l.items[i], depth + 1);
	}
	rut_list_fini(&l);
	return left;
}

struct compiled {
	struct rut_session *s;
	VALUE wrapper;
};

static VALUE compiled_body(VALUE arg)
{
	struct compiled *c = (struct compiled *)arg;
	uint32_t methods = instrument_children(c->s, c->wrapper, 0);

	if (methods)
		rut_methods_hook(c->s, c->wrapper, iseq_of_wrapper(c->wrapper), RUT_REC_FILE,
				 methods);
	return rb.qnil;
}

void rut_methods_on_compiled(VALUE tp, void *session)
{
	struct rut_session *s = session;
	VALUE iseq = rb.rb_tracearg_from_tracepoint(tp)->data; /* the code, or [source, code] */
	struct compiled c = {.s = s};
	uint64_t begin;
	uint32_t hooks;
	int failed = 0;

	if (rut_special_p(iseq) || s->global)
		return;
	if (rut_type(iseq) == RUT_T_ARRAY)
		iseq = rb.rb_ary_entry(iseq, 1);
	if (rut_special_p(iseq) || !ready_iseq(iseq) || !rut_methods_path_wanted(s, iseq, NULL))
		return;
	c.wrapper = wrapper_of(iseq);
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

/*
 * The record of a tracepoint of this session, or NULL. Tracepoints of sessions that are over are
 * still in the heap until the next GC, disabled, and their records are gone. Layout of struct
 * rb_tp_t: events and tracing, thread, targets, func, data.
 */
struct rut_rec *rut_methods_rec(const struct rut_session *s, VALUE v)
{
	const uintptr_t *w = (const uintptr_t *)v, *tp;

	if ((w[0] & RUT_T_MASK) != RUT_T_DATA || w[1] != rb.c_tracepoint || w[3] & ~3ul)
		return NULL;
	tp = w[3] & 2 ? &w[4] : (const uintptr_t *)w[4]; /* embedded or not */
	if (!tp || !((const int *)tp)[1])
		return NULL;
	for (int i = 2; i < 5; i++)
		if (rut_hook_is_ours((rut_tp_fn)tp[i]) &&
		    rut_session_owns(s, (const void *)tp[i + 1]))
			return (struct rut_rec *)tp[i + 1];
	return NULL;
}

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
			if (!(rut_flags(v) & NOT_READY) && scan_wanted(sc, v))
				rut_list_add(&sc->found, v);
		} else if (imemo == RUT_IMEMO_MENT) {
			const uint32_t *def = ((const uint32_t *const *)v)[2];

			if (def && (*def & 15) == RUT_METHOD_TYPE_BMETHOD)
				rut_list_add(&sc->ments, v);
			else if (def && (*def & 15) == RUT_METHOD_TYPE_ISEQ && sc->by_name)
				rut_list_add(&sc->named, v);
		} else if (sc->again && !sc->s->by_file) {
			if (rut_methods_rec(sc->s, v))
				rut_list_add(&sc->tps, v);
		}
	}
	return 0;
}

static void collect_targets(VALUE obj, void *data)
{
	if (rut_special_p(obj))
		return;
	if (rut_imemo(obj) == RUT_IMEMO_ISEQ)
		rut_list_add(data, obj);
}

static void collect_target_sets(VALUE obj, void *data)
{
	if (!rut_special_p(obj) && rut_type(obj) == RUT_T_HASH)
		rb.rb_objspace_reachable_objects_from(obj, collect_targets, data);
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
					 rb.rb_iseq_type && kind_of(iseq) == RUT_REC_METHOD);
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

		if (iseq && ready_iseq(iseq) && scan_wanted(sc, iseq) && !is_done(sc, iseq))
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
	int kind = rb.rb_iseq_type ? kind_of(iseq) : RUT_REC_METHOD;

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
		if (sc->by_name && kind_of(iseq) == RUT_REC_METHOD)
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
		rb.rb_objspace_reachable_objects_from(sc->tps.items[i], collect_target_sets,
						      &sc->done);
	if (sc->done.count)
		qsort(sc->done.items, sc->done.count, sizeof(VALUE), compare);
	if (s->by_file && sc->found.count)
		qsort(sc->found.items, sc->found.count, sizeof(VALUE), compare_places);
	rut_named_sort(&sc->named);
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

		if (kind_of(iseq) != RUT_REC_METHOD)
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
	kind = kind_of(iseq);
	if (kind == RUT_REC_METHOD && s->by_file && rut_file_hooks_on(s, iseq, true))
		return false;
	if (kind != RUT_REC_METHOD &&
	    (kind != RUT_REC_BLOCK || (!s->todo_blocks && s->todo_next <= s->todo_defined)))
		return false;
	rut_methods_hook(s, wrapper_of(iseq), iseq, kind, 1);
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
		struct rut_rec *r = rut_methods_rec(u->s, v);

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

/*
 * Ruby 2.7 keeps what it should free. A hook that is taken away stays in the list of its code, with
 * its tracepoint, as long as there is another one; and counts as one that is left, so that the list
 * and the slow instructions stay for ever. A list that is empty is forgotten, not freed. So we take
 * the hooks out ourselves before the next one goes, and have Ruby think that a list is in use: what
 * it forgets then is ours. Layout as in files.c; the words of the list are: first hook (two words),
 * events, whether there is something to clean, how many are running it.
 */
struct disable {
	VALUE tp;
	struct rut_list targets;      /* what it is enabled for: one */
	struct rut_list codes, lists; /* the code in these that has hooks, and its lists before */
};

static bool keeps_hooks(void)
{
	return rb.version == 207;
}

static void free_hooks(uint32_t *list, bool all)
{
	uintptr_t **next = (uintptr_t **)list, *hook;
	uint32_t events = 0;

	while ((hook = *next)) {
		const uint32_t *flags = (const uint32_t *)hook;

		if (all || flags[0] & HOOK_DELETED) {
			*next = (uintptr_t *)hook[3];
			rb.ruby_xfree(hook);
		} else {
			events |= flags[1];
			next = (uintptr_t **)&hook[3];
		}
	}
	list[2] = events;
	list[3] = 0;
}

static uint32_t *hook_list(VALUE iseq)
{
	return (uint32_t *)((uintptr_t *)iseq)[3];
}

static void hold_lists(struct disable *d, VALUE wrapper, int depth)
{
	VALUE iseq = iseq_of_wrapper(wrapper);
	struct rut_list l = {0};

	if (!ready_iseq(iseq) || depth > 32)
		return;
	/* One that is being run is left to Ruby. */
	if (hook_list(iseq) && hook_list(iseq)[4] == 0 &&
	    rut_list_add(&d->lists, (VALUE)hook_list(iseq))) {
		if (rut_list_add(&d->codes, iseq))
			hook_list(iseq)[4] = 1;
		else
			d->lists.count--;
	}
	children_of(wrapper, &l);
	for (size_t i = 0; i < l.count; i++)
		hold_lists(d, l.items[i], depth + 1);
	rut_list_fini(&l);
}

static void release_lists(struct disable *d)
{
	for (size_t i = 0; i < d->lists.count; i++) {
		uint32_t *list = (uint32_t *)d->lists.items[i];
		bool forgotten = hook_list(d->codes.items[i]) != list;

		list[4] = 0;
		if (forgotten || list[3])
			free_hooks(list, forgotten);
		if (forgotten)
			rb.ruby_xfree(list);
	}
	rut_list_fini(&d->targets);
	rut_list_fini(&d->lists);
	rut_list_fini(&d->codes);
}

static VALUE hold_body(VALUE arg)
{
	struct disable *d = (struct disable *)arg;

	rb.rb_objspace_reachable_objects_from(d->tp, collect_target_sets, &d->targets);
	if (keeps_hooks() && d->targets.count && ready_iseq(d->targets.items[0]))
		hold_lists(d, wrapper_of(d->targets.items[0]), 0);
	return rb.qnil;
}

static VALUE disable_body(VALUE arg)
{
	struct disable *d = (struct disable *)arg;

	rb.rb_tracepoint_disable(d->tp);
	return rb.qnil;
}

static void protect(VALUE (*fn)(VALUE), VALUE arg)
{
	int failed = 0;

	rb.rb_protect(fn, arg, &failed);
	if (failed)
		rb.rb_set_errinfo(rb.qnil);
}

void rut_methods_drop_hook(struct rut_session *s, VALUE tp)
{
	struct rut_rec *r = rut_methods_rec(s, tp);
	struct disable d = {.tp = tp};
	bool file = r && r->kind == RUT_REC_FILE;
	volatile VALUE keep = 0; /* for the GC: a tracepoint of ours has one target */

	if (!r)
		return;
	r->drop = false;
	s->table.hdr->instrumented -= r->methods;
	if (keeps_hooks() || file)
		protect(hold_body, (VALUE)&d);
	if (d.targets.count)
		keep = d.targets.items[0];
	protect(disable_body, (VALUE)&d);
	if (keep && file)
		rut_file_free_copy(keep);
	release_lists(&d);
	spare_tracepoint(tp);
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
		rut_methods_drop_hook(s, tp);
		if (s->unhook_next % 16 == 0 && rut_mono_ns() > deadline_ns)
			return true;
	}
	s->unhook = rb.qnil;
	return false;
}
