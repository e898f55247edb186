/* SPDX-License-Identifier: MIT */
/*
 * Rutile::Listeners: a list that has some of its elements only while a tracepoint is traced.
 *
 * ActiveSupport asks the list of a notification's listeners whether it has any, and does all its
 * work if so. Whether a tracepoint is traced can change at any instant without an event in the
 * process, so the list decides when it is asked: one load for each tracepoint. That is as fast as
 * Array#any?, whose place it takes.
 */
#include "rb_ext.h"

struct listeners {
	VALUE idle;  /* Array: the elements that are always there */
	VALUE all;   /* Array: these, and those for tracers */
	VALUE gates; /* Array of Rutile::Tracepoint */
};

static void listeners_mark(void *data)
{
	struct listeners *l = data;

	rb_gc_mark(l->idle);
	rb_gc_mark(l->all);
	rb_gc_mark(l->gates);
}

static size_t listeners_size(const void *data)
{
	(void)data;
	return sizeof(struct listeners);
}

static const rb_data_type_t listeners_type = {
	.wrap_struct_name = "rutile/listeners",
	.function = {.dmark = listeners_mark,
		     .dfree = RUBY_TYPED_DEFAULT_FREE,
		     .dsize = listeners_size},
	.flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE listeners_alloc(VALUE klass)
{
	struct listeners *l;
	VALUE self = TypedData_Make_Struct(klass, struct listeners, &listeners_type, l);

	l->idle = l->all = l->gates = Qnil;
	return self;
}

static VALUE list_of(VALUE array)
{
	Check_Type(array, T_ARRAY);
	return rb_ary_freeze(rb_ary_dup(array));
}

/*
 * @param idle [Array] what the list has while nothing is traced
 * @param all [Array] what it has while one of the tracepoints is
 * @param gates [Array<Tracepoint>]
 */
static VALUE listeners_initialize(VALUE self, VALUE idle, VALUE all, VALUE gates)
{
	struct listeners *l = rb_check_typeddata(self, &listeners_type);

	idle = list_of(idle);
	all = list_of(all);
	gates = list_of(gates);
	for (long i = 0; i < RARRAY_LEN(gates); i++)
		tracepoint_check(RARRAY_AREF(gates, i));
	l->idle = idle;
	l->all = all;
	l->gates = gates;
	return self;
}

static VALUE current(VALUE self)
{
	const struct listeners *l = RTYPEDDATA_DATA(self);

	if (NIL_P(l->gates))
		rb_raise(rb_eArgError, "uninitialized list");
	for (long i = 0; i < RARRAY_LEN(l->gates); i++)
		if (tracepoint_is_traced(RARRAY_AREF(l->gates, i)))
			return l->all;
	return l->idle;
}

/*
 * The list as it is now.
 * @return [Array] frozen
 */
static VALUE listeners_to_a(VALUE self)
{
	return current(self);
}

/*
 * What the list has while nothing is traced.
 * @return [Array] frozen
 */
static VALUE listeners_idle(VALUE self)
{
	return ((struct listeners *)RTYPEDDATA_DATA(self))->idle;
}

/*
 * What it has while one of the tracepoints is traced.
 * @return [Array] frozen
 */
static VALUE listeners_all(VALUE self)
{
	return ((struct listeners *)RTYPEDDATA_DATA(self))->all;
}

/*
 * The tracepoints that decide.
 * @return [Array<Tracepoint>] frozen
 */
static VALUE listeners_gates(VALUE self)
{
	return ((struct listeners *)RTYPEDDATA_DATA(self))->gates;
}

/*
 * As Array#any?.
 * @return [Boolean]
 */
static VALUE listeners_any(int argc, VALUE *argv, VALUE self)
{
	VALUE list = current(self);
	bool block = rb_block_given_p();

	if (argc) /* a pattern */
		return rb_funcall_passing_block(list, rb_intern("any?"), argc, argv);
	for (long i = 0; i < RARRAY_LEN(list); i++)
		if (RTEST(block ? rb_yield(RARRAY_AREF(list, i)) : RARRAY_AREF(list, i)))
			return Qtrue;
	RB_GC_GUARD(list);
	return Qfalse;
}

/*
 * @return [Boolean]
 */
static VALUE listeners_empty(VALUE self)
{
	return RARRAY_LEN(current(self)) ? Qfalse : Qtrue;
}

/*
 * As Array#each, of the list as it is now.
 * @return [Array] that list, frozen
 */
static VALUE listeners_each(VALUE self)
{
	VALUE list = current(self);

	RETURN_ENUMERATOR(self, 0, 0);
	for (long i = 0; i < RARRAY_LEN(list); i++)
		rb_yield(RARRAY_AREF(list, i));
	RB_GC_GUARD(list);
	return list;
}

void init_listeners(VALUE module)
{
	VALUE klass = rb_define_class_under(module, "Listeners", rb_cObject);

	rb_include_module(klass, rb_mEnumerable);
	rb_define_alloc_func(klass, listeners_alloc);
	rb_undef_method(klass, "initialize_copy");
	rb_define_method(klass, "initialize", listeners_initialize, 3);
	rb_define_method(klass, "idle", listeners_idle, 0);
	rb_define_method(klass, "all", listeners_all, 0);
	rb_define_method(klass, "gates", listeners_gates, 0);
	rb_define_method(klass, "to_a", listeners_to_a, 0);
	rb_define_method(klass, "to_ary", listeners_to_a, 0);
	rb_define_method(klass, "any?", listeners_any, -1);
	rb_define_method(klass, "empty?", listeners_empty, 0);
	rb_define_method(klass, "each", listeners_each, 0);
}
