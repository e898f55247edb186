/* SPDX-License-Identifier: MIT */
#include "iseq.h"

#define BEING_COMPILED (1ul << 18)
#define NOT_READY      (3ul << 17) /* an InstructionSequence that is being loaded or compiled */

/*
 * What an exception left half made (rb_iseq_load() of bad data, say) is in the heap without a mark
 * until the next GC. It has no instructions yet: their address is the second word of struct
 * rb_iseq_constant_body, which is the third of the code's.
 */
static bool is_whole(VALUE iseq)
{
	const VALUE *body = ((VALUE *const *)iseq)[2];

	return body && body[1];
}

bool rut_agent_iseq_ready(VALUE v)
{
	return rut_imemo(v) == RUT_IMEMO_ISEQ && !(rut_flags(v) & NOT_READY) && is_whole(v);
}

VALUE rut_agent_iseq_wrapper(VALUE iseq)
{
	return rb.rb_iseqw_new(iseq);
}

static void first_iseq(VALUE obj, void *data)
{
	VALUE *ret = data;

	if (!*ret && !rut_special_p(obj) && rut_imemo(obj) == RUT_IMEMO_ISEQ)
		*ret = obj;
}

VALUE rut_agent_iseq_of(VALUE wrapper)
{
	VALUE iseq = 0;

	if (rb.rb_iseqw_to_iseq)
		return rb.rb_iseqw_to_iseq(wrapper);
	rb.rb_objspace_reachable_objects_from(wrapper, first_iseq, &iseq);
	return iseq;
}

int rut_agent_iseq_kind(VALUE iseq)
{
	if (rb.rb_iseq_type) {
		VALUE type = rb.rb_iseq_type(iseq);

		return type == rb.sym_method  ? RUT_REC_METHOD
		       : type == rb.sym_block ? RUT_REC_BLOCK
					      : -1;
	} else {
		/* [[1, :call], [2, :line], ...] */
		VALUE points =
			rb.rb_funcallv(rut_agent_iseq_wrapper(iseq), rb.id_trace_points, 0, NULL);

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

void rut_agent_iseq_children(VALUE wrapper, struct rut_list *l)
{
	rb.rb_block_call(wrapper, rb.id_each_child, 0, NULL, child_i, (VALUE)l);
}

static int half_made_page(void *start, void *end, size_t stride, void *data)
{
	for (VALUE v = (VALUE)start; v != (VALUE)end; v += stride)
		if (rut_imemo(v) == RUT_IMEMO_ISEQ && !(rut_flags(v) & NOT_READY) && !is_whole(v))
			rut_list_add(data, v);
	return 0;
}

void rut_agent_iseq_spare_half_made(struct rut_list *l, bool spare)
{
	if (spare)
		rb.rb_objspace_each_objects(half_made_page, l);
	for (size_t i = 0; i < l->count; i++)
		*(VALUE *)l->items[i] ^= BEING_COMPILED;
	if (!spare)
		rut_list_fini(l);
}

/*
 * Until 3.2 Ruby forgets to free the copy of the code that it makes to look for the code inside,
 * when a tracepoint is enabled. In which word of struct rb_iseq_constant_body it is is seen by what
 * the first one changes; it begins with the number of an instruction, its name (from 2.7 on) and
 * its code.
 */
static unsigned copy_at;

VALUE *rut_agent_iseq_body(VALUE iseq)
{
	return ((VALUE **)iseq)[2];
}

void rut_agent_iseq_find_copy(VALUE iseq, const VALUE *before, VALUE first)
{
	const VALUE *now = rut_agent_iseq_body(iseq);

	if (copy_at || !rb.abi->keeps_code_copies)
		return;
	for (unsigned i = 0; i < RUT_ISEQ_BODY_WORDS; i++) {
		const VALUE *copy = (const VALUE *)now[i];

		if (!before[i] && now[i] > 65536 && now[i] % 8 == 0 && copy[0] < 1024 &&
		    copy[rb.abi->has_definemethod ? 2 : 1] == first)
			copy_at = i;
	}
}

void rut_agent_iseq_free_copy(VALUE iseq)
{
	VALUE *body = rut_agent_iseq_body(iseq);

	if (!copy_at || !rb.abi->keeps_code_copies)
		return;
	rb.ruby_xfree((void *)body[copy_at]);
	body[copy_at] = 0;
}
