/* SPDX-License-Identifier: MIT */
/*
 * One hook: a tracepoint that is enabled for some code. Setting it, and taking it away (disable.c).
 */
#include "target.h"

#include "code.h"
#include "disable.h"
#include "hooklist.h"
#include "hooks.h"
#include "iseq.h"

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

bool rut_agent_target_enable(VALUE tp, VALUE wrapper)
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
 * that are over are used again. Layout: rut_agent_hooklist_rec().
 */
static VALUE spare; /* Array; registered with the GC */

static void spare_tracepoint(VALUE tp)
{
	if (!rb.abi->keeps_tracepoints)
		return;
	if (!spare)
		rut_keep(&spare, rb.rb_obj_hide(rb.rb_ary_new()));
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
		if (rut_agent_hook_is_ours((rut_tp_fn)w[i])) {
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
		return rut_agent_session_alloc(s, sizeof(**r));
	r = &s->file_recs[methods];
	if (!*r)
		*r = rut_agent_session_alloc(s, sizeof(**r));
	return *r;
}

VALUE rut_agent_target_hook(struct rut_session *s, VALUE wrapper, VALUE iseq, int kind,
			    uint32_t methods)
{
	struct rut_rec *r;
	uint32_t path, events;
	rut_tp_fn fn;
	volatile VALUE tp;

	if (!rut_agent_session_wants_file(s, iseq, &path))
		return 0;
	r = kind == RUT_REC_FILE ? file_rec(s, methods) : rut_agent_session_alloc(s, sizeof(*r));
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
	fn = rut_agent_hook_for(s, kind, &events);
	tp = new_tracepoint(events, fn, r);
	if (!rut_agent_target_enable(tp, wrapper))
		return 0;
	s->table.hdr->instrumented += methods;
	/* Calls that run already will be looked for (running.h). */
	if (s->mode == RUT_AGENT_TIME && !rut_agent_hooklist_known())
		rut_agent_code_adopt(s, r);
	if (kind != RUT_REC_FILE)
		rut_agent_hooklist_make_direct(s, iseq, tp, kind);
	return tp;
}

void rut_agent_target_unhook(struct rut_session *s, VALUE tp)
{
	struct rut_rec *r = rut_agent_hooklist_rec(s, tp);
	bool file = r && r->kind == RUT_REC_FILE;
	volatile VALUE code; /* for the GC */

	if (!r)
		return;
	r->drop = false;
	s->table.hdr->instrumented -= r->methods;
	code = rut_agent_disable(tp, file);
	if (code && file)
		rut_agent_iseq_free_copy(code);
	spare_tracepoint(tp);
}
