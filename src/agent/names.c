/* SPDX-License-Identifier: MIT */
/*
 * Names of classes, by C functions that read instance variables and constants only: a class
 * that overrides name, to_s or inspect is never asked. Nothing is allocated, so that this may be
 * called while Ruby makes an object.
 */
#include "names.h"

#include <string.h>

static void append(char *buf, size_t size, size_t *len, const char *s, size_t n)
{
	if (n > size - 1 - *len)
		n = size - 1 - *len;
	memcpy(buf + *len, s, n);
	*len += n;
	buf[*len] = 0;
}

static void append_hex(char *buf, size_t size, size_t *len, VALUE v)
{
	char hex[18] = "0x";

	for (int i = 0; i < 16; i++)
		hex[2 + i] = "0123456789abcdef"[v >> (60 - 4 * i) & 15];
	append(buf, size, len, hex, sizeof(hex));
}

/* As Ruby's: the constant that it was assigned to first, "#<Class:0x000...>" before that. */
static void append_path(char *buf, size_t size, size_t *len, VALUE klass)
{
	size_t n;
	const char *s = rut_agent_str(rb.rb_mod_name(klass), &n);

	if (n) {
		append(buf, size, len, s, n);
		return;
	}
	append(buf, size, len, "#<", 2);
	if (rut_type(klass) == RUT_T_MODULE)
		s = rut_agent_str(rb.rb_mod_name(rb.rb_class_real(rut_klass(klass))), &n);
	if (n)
		append(buf, size, len, s, n);
	else
		append(buf, size, len, "Class", 5);
	append(buf, size, len, ":", 1);
	append_hex(buf, size, len, klass);
	append(buf, size, len, ">", 1);
}

/* "#<refinement:String@Foo>", as Ruby writes it. */
static bool refinement(VALUE mod, char *buf, size_t size, size_t *len)
{
	VALUE refined, at;

	if (rut_type(mod) != RUT_T_MODULE)
		return false;
	refined = rb.rb_attr_get(mod, rb.rb_intern("__refined_class__"));
	if (refined == rb.qnil || rut_special_p(refined))
		return false;
	at = rb.rb_attr_get(mod, rb.rb_intern("__defined_at__"));
	append(buf, size, len, "#<refinement:", 13);
	append_path(buf, size, len, refined);
	if (at != rb.qnil && !rut_special_p(at)) {
		append(buf, size, len, "@", 1);
		append_path(buf, size, len, at);
	}
	append(buf, size, len, ">", 1);
	return true;
}

static VALUE attached_object(VALUE klass)
{
	if (rb.rb_class_attached_object)
		return rb.rb_class_attached_object(klass);
	return rb.rb_attr_get(klass, rb.id_attached);
}

void rut_agent_class_name(VALUE klass, char *buf, size_t size, bool *ret_singleton)
{
	size_t len = 0;
	VALUE real, obj;

	buf[0] = 0;
	*ret_singleton = false;
	if (klass == 0 || rut_special_p(klass))
		return;
	if (rut_type(klass) == RUT_T_ICLASS)
		klass = rut_klass(klass);
	if (refinement(klass, buf, size, &len))
		return;
	real = rut_type(klass) == RUT_T_CLASS ? rb.rb_class_real(klass) : klass;
	if (real == klass) {
		append_path(buf, size, &len, klass);
		return;
	}
	*ret_singleton = true;
	obj = attached_object(klass);
	if (!rut_special_p(obj) &&
	    (rut_type(obj) == RUT_T_CLASS || rut_type(obj) == RUT_T_MODULE)) {
		bool inner = false;

		/* The singleton class of a singleton class: Foo.bar of a class << self; self; end
		 */
		if (rut_type(obj) == RUT_T_CLASS && rb.rb_class_real(obj) != obj) {
			append(buf, size, &len, "#<Class:", 8);
			rut_agent_class_name(obj, buf + len, size - len, &inner);
			len += strlen(buf + len);
			append(buf, size, &len, ">", 1);
		} else {
			append_path(buf, size, &len, obj);
		}
		return;
	}
	/* Of all objects of this class together: their number has no bound. */
	append(buf, size, &len, "#<", 2);
	append_path(buf, size, &len, real);
	append(buf, size, &len, ">", 1);
}
