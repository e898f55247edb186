/* SPDX-License-Identifier: MIT */
/*
 * One hook for the methods of a file.
 *
 * A tracepoint of its own for each method costs a kilobyte of Ruby's memory, and an application has
 * ten thousand methods. A tracepoint that is enabled for outer code is enabled for all the code
 * inside. But what was around the methods of a file ran once, when the file was loaded, and is
 * gone. So we make some: code that would define these methods, if anybody ran it. Ruby's loader of
 * compiled code (rb_iseq_load) takes the methods as they are. One tracepoint for that, and each
 * method costs a fifth; the record (code.c) comes at the first call.
 *
 * The price: as long as the hook is set, methods of a file keep each other alive. Those of other
 * files do not.
 *
 * A hook that many have cannot go from one method only. So where methods are chosen by name those
 * that may turn out not to be wanted (named.h) have one each.
 */
#include "session.h"

/*
 * Layouts, from vm_core.h and vm_trace.c of Ruby 2.6 to 3.4. struct rb_iseq_struct: flags, wrapper,
 * body, local hooks. rb_hook_list_t: first hook. rb_event_hook_t: flags and events, function, data,
 * next.
 */
#define ISEQ_HOOKS 3
#define HOOK_WHAT  0
#define HOOK_FUNC  1
#define HOOK_DATA  2
#define HOOK_NEXT  3
#define HOOKS_MAX  256

#define FIXNUM(n) ((VALUE)(n) << 1 | 1)

/* 4.0 keeps them in a table of the ractor; what was their address in the code is a number there. */
bool rut_hooks_listed(void)
{
	return rb.abi->hooks_in_code;
}

bool rut_files_usable(bool by_name)
{
	return rb.target && rut_hooks_listed() && rb.rb_iseq_load && rb.rb_iseqw_to_iseq &&
	       (!by_name || rb.rb_iseq_type);
}

unsigned rut_file_hooks_on(const struct rut_session *s, VALUE iseq, bool method)
{
	const VALUE *list = (const VALUE *)((const VALUE *)iseq)[ISEQ_HOOKS];
	const VALUE *hook = list ? (const VALUE *)list[0] : NULL;
	unsigned n = 0;

	for (int i = 0; hook && i < HOOKS_MAX; i++, hook = (const VALUE *)hook[HOOK_NEXT]) {
		const struct rut_rec *r = rut_target_rec(s, hook[HOOK_DATA]);

		n += r && (r->kind == RUT_REC_FILE ? method : r->iseq == iseq);
	}
	return n;
}

struct rut_rec *rut_file_rec_on(struct rut_session *s, VALUE iseq, bool bmethod)
{
	const VALUE *list = (const VALUE *)((const VALUE *)iseq)[ISEQ_HOOKS];
	const VALUE *hook = list ? (const VALUE *)list[0] : NULL;

	for (int i = 0; hook && i < HOOKS_MAX; i++, hook = (const VALUE *)hook[HOOK_NEXT]) {
		struct rut_rec *r = rut_target_rec(s, hook[HOOK_DATA]);

		if (r && r->kind == RUT_REC_FILE && !bmethod)
			return rut_code_rec(s, iseq, false);
		if (r && r->iseq == iseq)
			return r;
	}
	return NULL;
}

static VALUE sym(const char *name)
{
	return rb.rb_id2sym(rb.rb_intern(name));
}

static VALUE str(const char *text)
{
	return rb.rb_str_new(text, (long)__builtin_strlen(text));
}

static VALUE instruction(VALUE body, VALUE node_ids, VALUE name)
{
	VALUE insn = rb.rb_ary_new();

	rb.rb_ary_push(insn, name);
	rb.rb_ary_push(body, insn);
	rb.rb_ary_push(node_ids, FIXNUM(0));
	return insn;
}

/* In 2.6 methods were defined by a call that got their code. */
static bool has_definemethod(void)
{
	return rb.abi->has_definemethod;
}

struct around {
	const VALUE *iseqs;
	long count;
	VALUE wrapper; /* the result */
};

/*
 * The form of InstructionSequence#to_a: iseq_load() of iseq.c reads it. The same from 2.6 to 3.4,
 * but for the instruction that has the method, and the parser, which 3.4 wants to know.
 */
static VALUE make_around(VALUE arg)
{
	struct around *a = (struct around *)arg;
	VALUE data = rb.rb_ary_new(), body = rb.rb_ary_new(), node_ids = rb.rb_ary_new();
	VALUE misc = rb.rb_hash_new(), place = rb.rb_ary_new();
	VALUE definemethod = sym("definemethod"), name = sym("rutile");
	VALUE putiseq = sym("putiseq"), pop = sym("pop");
	static const char *const zero[] = {"arg_size", "local_size", "node_id"};

	for (long i = 0; i < a->count; i++) {
		VALUE insn =
			instruction(body, node_ids, has_definemethod() ? definemethod : putiseq);

		if (has_definemethod())
			rb.rb_ary_push(insn, name);
		rb.rb_ary_push(insn, rb.rb_iseqw_new(a->iseqs[i]));
		if (!has_definemethod())
			instruction(body, node_ids, pop);
	}
	instruction(body, node_ids, sym("putnil"));
	instruction(body, node_ids, sym("leave"));
	for (int i = 0; i < 4; i++)
		rb.rb_ary_push(place, FIXNUM(i % 2 ? 0 : 1));
	for (unsigned i = 0; i < sizeof(zero) / sizeof(*zero); i++)
		rb.rb_hash_aset(misc, sym(zero[i]), FIXNUM(0));
	rb.rb_hash_aset(misc, sym("stack_max"), FIXNUM(1));
	rb.rb_hash_aset(misc, sym("code_location"), place);
	rb.rb_hash_aset(misc, sym("node_ids"), node_ids);
	rb.rb_hash_aset(misc, sym("parser"), sym("parse.y"));

	rb.rb_ary_push(data, str("YARVInstructionSequence/SimpleDataFormat"));
	rb.rb_ary_push(data, FIXNUM(rb.abi->version / 100));
	rb.rb_ary_push(data, FIXNUM(rb.abi->version % 100));
	rb.rb_ary_push(data, FIXNUM(1));
	rb.rb_ary_push(data, misc);
	rb.rb_ary_push(data, str("<rutile>"));
	rb.rb_ary_push(data, str("<internal:rutile>"));
	rb.rb_ary_push(data, rb.qnil);
	rb.rb_ary_push(data, FIXNUM(1));
	rb.rb_ary_push(data, sym("top"));
	rb.rb_ary_push(data, rb.rb_ary_new());
	rb.rb_ary_push(data, rb.rb_hash_new());
	rb.rb_ary_push(data, rb.rb_ary_new());
	rb.rb_ary_push(data, body);
	a->wrapper = rb.rb_iseq_load(data, rb.qnil, rb.qnil);
	return rb.qnil;
}

/*
 * Until 3.2 Ruby forgets to free the copy of the code that it makes to look for the code inside,
 * when a tracepoint is enabled. In which word of struct rb_iseq_constant_body it is is seen by what
 * the first one changes; it begins with the number of an instruction, its name (from 2.7 on) and
 * its code.
 */
#define BODY_WORDS 36
static unsigned copy_at;

static VALUE *body_of(VALUE iseq)
{
	return ((VALUE **)iseq)[2];
}

static void find_copy(VALUE iseq, const VALUE *before, VALUE first)
{
	const VALUE *now = body_of(iseq);

	for (unsigned i = 0; i < BODY_WORDS; i++) {
		const VALUE *copy = (const VALUE *)now[i];

		if (!before[i] && now[i] > 65536 && now[i] % 8 == 0 && copy[0] < 1024 &&
		    copy[has_definemethod() ? 2 : 1] == first)
			copy_at = i;
	}
}

void rut_file_free_copy(VALUE iseq)
{
	VALUE *body = body_of(iseq);

	if (!copy_at || !rb.abi->keeps_code_copies)
		return;
	rb.ruby_xfree((void *)body[copy_at]);
	body[copy_at] = 0;
}

/* Returns the tracepoint, or 0. */
static VALUE hook(struct rut_session *s, const VALUE *iseqs, long count)
{
	struct around a = {.iseqs = iseqs, .count = count};
	volatile VALUE wrapper, tp;
	VALUE before[BODY_WORDS], iseq;
	int failed = 0;

	rb.rb_protect(make_around, (VALUE)&a, &failed);
	if (failed) {
		rb.rb_set_errinfo(rb.qnil);
		return 0;
	}
	wrapper = a.wrapper;
	iseq = rb.rb_iseqw_to_iseq(wrapper);
	__builtin_memcpy(before, body_of(iseq), sizeof(before));
	tp = rut_target_hook(s, wrapper, iseqs[0], RUT_REC_FILE, (uint32_t)count);
	if (!copy_at && rb.abi->keeps_code_copies)
		find_copy(iseq, before, iseqs[0]);
	return tp;
}

/*
 * A hook of a tracepoint calls a function of Ruby's, which looks at what kind of object that is and
 * calls ours, which asks Ruby for the arguments. Ours can as well be called at once. That it is
 * such a hook says its first word, made of flags and events.
 */
void rut_file_make_direct(const struct rut_session *s, VALUE iseq, VALUE tp, int kind)
{
	rut_raw_fn direct = rut_hook_direct(s, kind);
	VALUE *list, *hook;
	uint32_t events;

	if (!direct || !rut_hooks_listed())
		return;
	rut_hook_for(s, kind, &events);
	list = (VALUE *)((const VALUE *)iseq)[ISEQ_HOOKS];
	hook = list ? (VALUE *)list[0] : NULL;
	for (int i = 0; hook && i < HOOKS_MAX; i++, hook = (VALUE *)hook[HOOK_NEXT])
		if (hook[HOOK_DATA] == tp &&
		    hook[HOOK_WHAT] == ((uint64_t)events << 32 | RUT_HOOK_RAW))
			hook[HOOK_FUNC] = (VALUE)direct;
}

bool rut_file_hook(struct rut_session *s, VALUE *iseqs, long count)
{
	for (;;) {
		volatile VALUE tp = hook(s, iseqs, count);
		bool missed = !tp;
		long n = 0;

		/* A method inside another one has the hook of that, and must not have it twice. */
		for (long i = 0; tp && i < count; i++) {
			unsigned hooks = rut_file_hooks_on(s, iseqs[i], true);

			missed |= hooks == 0;
			if (hooks == 1)
				iseqs[n++] = iseqs[i];
		}
		if (!missed && n == count) {
			for (long i = 0; i < count; i++)
				rut_file_make_direct(s, iseqs[i], tp, RUT_REC_FILE);
			return true;
		}
		if (tp)
			rut_target_unhook(s, tp);
		if (missed || n == 0) {
			s->no_files = true;
			return false;
		}
		count = n;
	}
}
