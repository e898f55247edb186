/* SPDX-License-Identifier: MIT */
/*
 * One hook: a tracepoint that is enabled for some code. Setting it, finding its record again, and
 * taking it away without a trace.
 */
#include "target.h"

#include "code.h"
#include "hooklist.h"
#include "hooks.h"
#include "iseq.h"

#define HOOK_DELETED 2u /* RUBY_EVENT_HOOK_FLAG_DELETED */

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

bool rut_target_enable(VALUE tp, VALUE wrapper)
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
 * that are over are used again. Layout: rut_hooklist_rec().
 */
static VALUE spare; /* Array; registered with the GC */

static void spare_tracepoint(VALUE tp)
{
	if (!rb.abi->keeps_tracepoints)
		return;
	if (!spare) {
		spare = rb.rb_obj_hide(rb.rb_ary_new());
		rb.rb_gc_register_address(&spare);
	}
	rb.rb_ary_push(spare, tp);
}

static void learn_layout(VALUE tp, rut_tp_fn fn)
{
	const void *type;
	const uintptr_t *w = rut_typed_data(tp, &type);

	for (unsigned i = 2; w && i < 5; i++)
		if (w[i] == (uintptr_t)fn)
			rb.tp_word = i + 1;
	rb.tp_embedded = w == (const uintptr_t *)tp + 4;
}

static VALUE new_tracepoint(uint32_t events, rut_tp_fn fn, struct rut_rec *r)
{
	VALUE tp = spare ? rb.rb_ary_pop(spare) : rb.qnil;
	uintptr_t *w;

	if (tp == rb.qnil) {
		tp = rb.rb_tracepoint_new(0, events, fn, r);
		if (!rb.tp_word)
			learn_layout(tp, fn);
		return tp;
	}
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

/*
 * The hook of a file needs to know no more than how many methods it serves. Those for the same
 * number share a record: programs that compile code all the time get such hooks all the time.
 */
static struct rut_rec *file_rec(struct rut_session *s, uint32_t methods)
{
	struct rut_rec **r;

	if (methods > RUT_FILE_METHODS)
		return rut_session_alloc(s, sizeof(**r));
	r = &s->file_recs[methods];
	if (!*r)
		*r = rut_session_alloc(s, sizeof(**r));
	return *r;
}

VALUE rut_target_hook(struct rut_session *s, VALUE wrapper, VALUE iseq, int kind, uint32_t methods)
{
	struct rut_rec *r;
	uint32_t path, events;
	rut_tp_fn fn;
	volatile VALUE tp;

	if (!rut_session_wants_file(s, iseq, &path))
		return 0;
	r = kind == RUT_REC_FILE ? file_rec(s, methods) : rut_session_alloc(s, sizeof(*r));
	if (!r)
		return 0;
	r->s = s;
	r->kind = (uint8_t)kind;
	r->methods = methods;
	if (kind != RUT_REC_FILE) {
		r->path = path;
		r->line = (uint32_t)rut_fix2long(rb.rb_profile_frame_first_lineno(iseq));
		r->iseq = iseq;
	}
	fn = rut_hook_for(s, kind, &events);
	tp = new_tracepoint(events, fn, r);
	if (!rut_target_enable(tp, wrapper))
		return 0;
	s->table.hdr->instrumented += methods;
	/* Calls that run already will be looked for (running.h). */
	if (s->mode == RUT_AGENT_TIME && !rut_hooklist_known())
		rut_code_adopt(s, r);
	if (kind != RUT_REC_FILE)
		rut_hooklist_make_direct(s, iseq, tp, kind);
	return tp;
}

static void collect_targets(VALUE obj, void *data)
{
	if (rut_special_p(obj))
		return;
	if (rut_imemo(obj) == RUT_IMEMO_ISEQ)
		rut_list_add(data, obj);
}

void rut_target_sets(VALUE obj, void *data)
{
	if (!rut_special_p(obj) && rut_type(obj) == RUT_T_HASH)
		rb.rb_objspace_reachable_objects_from(obj, collect_targets, data);
}

/*
 * Ruby 2.6 and 2.7 keep what they should free. A hook that is taken away stays in the list of its
 * code, with its tracepoint, as long as there is another one; and counts as one that is left, so
 * that the list and the slow instructions stay for ever. A list that is empty is forgotten, not
 * freed (by 3.0 too). So we take the hooks out ourselves before the next one goes, and have Ruby
 * think that a list is in use: what it forgets then is ours. Layout as in files.c; the words of the
 * list are: first hook (two words), events, whether there is something to clean, how many are
 * running it.
 */
struct disable {
	VALUE tp;
	struct rut_list targets;      /* what it is enabled for: one */
	struct rut_list codes, lists; /* the code in these that has hooks, and its lists before */
};

static bool keeps_hooks(void)
{
	return rb.abi->keeps_hooks == RUT_KEEPS_HOOKS ||
	       (rb.abi->keeps_hooks == RUT_KEEPS_HOOKS_SINGLE && rut_single_ractor());
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
	VALUE iseq = rut_iseq_of(wrapper);
	struct rut_list l = {0};

	if (!rut_iseq_ready(iseq) || depth > 32)
		return;
	/* One that is being run is left to Ruby. */
	if (hook_list(iseq) && hook_list(iseq)[4] == 0 &&
	    rut_list_add(&d->lists, (VALUE)hook_list(iseq))) {
		if (rut_list_add(&d->codes, iseq))
			hook_list(iseq)[4] = 1;
		else
			d->lists.count--;
	}
	rut_iseq_children(wrapper, &l);
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

	rb.rb_objspace_reachable_objects_from(d->tp, rut_target_sets, &d->targets);
	if (keeps_hooks() && d->targets.count && rut_iseq_ready(d->targets.items[0]))
		hold_lists(d, rut_iseq_wrapper(d->targets.items[0]), 0);
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

void rut_target_unhook(struct rut_session *s, VALUE tp)
{
	struct rut_rec *r = rut_hooklist_rec(s, tp);
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
		rut_iseq_free_copy(keep);
	release_lists(&d);
	spare_tracepoint(tp);
}
