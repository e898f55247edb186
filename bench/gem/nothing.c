/* SPDX-License-Identifier: MIT */
/* Empty C methods: what bench/gem.rb measures fire() against. */
#include <ruby.h>

static VALUE any_arguments(int argc, VALUE *argv, VALUE self)
{
	(void)argc, (void)argv, (void)self;
	return Qfalse;
}

static VALUE no_arguments(VALUE self)
{
	(void)self;
	return Qfalse;
}

void Init_nothing(void)
{
	VALUE klass = rb_define_class("Nothing", rb_cObject);

	rb_define_method(klass, "fire", any_arguments, -1);
	rb_define_method(klass, "enabled?", no_arguments, 0);
}
