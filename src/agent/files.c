/* SPDX-License-Identifier: MIT */
/*
 * One hook for the methods of a file.
 *
 * A tracepoint of its own for each method costs a kilobyte of Ruby's memory, and an application has
 * ten thousand methods. A tracepoint that is enabled for outer code is enabled for all the code
 * inside. But what was around the methods of a file ran once, when the file was loaded, and is
 * gone. So we make some: code that would define these methods if it were run. Ruby's loader of
 * compiled code (rb_iseq_load) takes the methods as they are. One tracepoint for that, and each
 * method costs a fifth; the record (code.c) comes at the first call.
 *
 * The price: as long as the hook is set, methods of a file keep each other alive. Those of other
 * files do not.
 *
 * A hook that many have cannot go from one method only. So where methods are chosen by name those
 * that may turn out not to be wanted (named.h) have one each.
 */
#include "files.h"

#include "hooklist.h"
#include "iseq.h"
#include "target.h"

#define FIXNUM(n) ((VALUE)(n) << 1 | 1)

bool rut_agent_files_usable(bool by_name)
{
	return rb.target && rut_agent_hooklist_known() && rb.rb_iseq_load && rb.rb_iseqw_to_iseq &&
	       (!by_name || rb.rb_iseq_type);
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

/* Returns the tracepoint, or 0. */
static VALUE hook(struct rut_session *s, const VALUE *iseqs, long count)
{
	struct around a = {.iseqs = iseqs, .count = count};
	volatile VALUE wrapper, tp;
	VALUE before[RUT_ISEQ_BODY_WORDS], iseq;
	int failed = 0;

	rb.rb_protect(make_around, (VALUE)&a, &failed);
	if (failed) {
		rb.rb_set_errinfo(rb.qnil);
		return 0;
	}
	wrapper = a.wrapper;
	iseq = rb.rb_iseqw_to_iseq(wrapper);
	__builtin_memcpy(before, rut_agent_iseq_body(iseq), sizeof(before));
	tp = rut_agent_target_hook(s, wrapper, iseqs[0], RUT_REC_FILE, (uint32_t)count);
	rut_agent_iseq_find_copy(iseq, before, iseqs[0]);
	return tp;
}

bool rut_agent_file_hook(struct rut_session *s, VALUE *iseqs, long count)
{
	for (;;) {
		volatile VALUE tp = hook(s, iseqs, count);
		bool missed = !tp;
		long n = 0;

		/* A method inside another one has the hook of that, and must not have it twice. */
		for (long i = 0; tp && i < count; i++) {
			unsigned hooks = rut_agent_hooklist_count(s, iseqs[i], true);

			missed |= hooks == 0;
			if (hooks == 1)
				iseqs[n++] = iseqs[i];
		}
		if (!missed && n == count) {
			for (long i = 0; i < count; i++)
				rut_agent_hooklist_make_direct(s, iseqs[i], tp, RUT_REC_FILE);
			return true;
		}
		if (tp)
			rut_agent_target_unhook(s, tp);
		if (missed || n == 0) {
			s->no_files = true;
			return false;
		}
		count = n;
	}
}
