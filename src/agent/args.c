/* SPDX-License-Identifier: MIT */
/*
 * The arguments of a call, as text. Only values whose bytes can be read as they are become text
 * (numbers, strings, symbols); of everything else the class and the address: no method of the
 * application is called.
 */
#include "session.h"

#include <stdio.h>
#include <string.h>

#define STRING_BYTES 64
#define PARAMS_MAX   32

struct out {
	char *buf;
	size_t size, len;
};

static void put(struct out *o, const char *s, size_t n)
{
	if (n > o->size - 1 - o->len)
		n = o->size - 1 - o->len;
	memcpy(o->buf + o->len, s, n);
	o->len += n;
	o->buf[o->len] = 0;
}

static void puts_(struct out *o, const char *s)
{
	put(o, s, strlen(s));
}

/* Cut between characters of UTF-8, never within one. */
static size_t cut(const char *s, size_t len)
{
	size_t n = STRING_BYTES;

	if (len <= n)
		return len;
	while (n && ((unsigned char)s[n] & 0xc0) == 0x80)
		n--;
	return n;
}

static void put_string(struct out *o, VALUE str)
{
	size_t len, n;
	const char *s = rut_str(str, &len);

	n = cut(s, len);
	put(o, "\"", 1);
	for (size_t i = 0; i < n; i++) {
		char hex[8];

		if (s[i] == '"' || s[i] == '\\') {
			put(o, "\\", 1);
			put(o, &s[i], 1);
		} else if (s[i] == '\n') {
			put(o, "\\n", 2);
		} else if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f) {
			snprintf(hex, sizeof(hex), "\\x%02x", (unsigned)(unsigned char)s[i]);
			puts_(o, hex);
		} else {
			put(o, &s[i], 1);
		}
	}
	puts_(o, n < len ? "...\"" : "\"");
}

static void put_object(struct out *o, VALUE v)
{
	char name[256], text[32];
	bool singleton;

	rut_class_name(rb.rb_class_real(rut_klass(v)), name, sizeof(name), &singleton);
	puts_(o, "#<");
	puts_(o, name);
	snprintf(text, sizeof(text), ":0x%016lx>", (unsigned long)v);
	puts_(o, text);
}

static void put_value(struct out *o, VALUE v)
{
	char text[64];

	if (v & 1) {
		snprintf(text, sizeof(text), "%ld", rut_fix2long(v));
		puts_(o, text);
	} else if (v == rb.qnil) {
		puts_(o, "nil");
	} else if (v == RUT_QFALSE) {
		puts_(o, "false");
	} else if (v == rb.qtrue) {
		puts_(o, "true");
	} else if ((v & 0xff) == 0x0c || (!rut_special_p(v) && rut_type(v) == RUT_T_SYMBOL)) {
		const char *name = rb.rb_id2name(rb.rb_sym2id(v));

		puts_(o, ":");
		puts_(o, name ? name : "");
	} else if ((v & 3) == 2 || (!rut_special_p(v) && rut_type(v) == RUT_T_FLOAT)) {
		snprintf(text, sizeof(text), "%.17g", rb.rb_float_value(v));
		puts_(o, text);
	} else if (rut_special_p(v)) {
		puts_(o, "?");
	} else if (rut_type(v) == RUT_T_STRING) {
		put_string(o, v);
	} else {
		put_object(o, v);
	}
}

struct format {
	VALUE tp;
	struct rut_trace_arg *ta;
	struct out *o;
};

static VALUE format_body(VALUE arg)
{
	struct format *f = (struct format *)arg;
	VALUE params = rb.rb_funcallv(f->tp, rb.id_parameters, 0, NULL), binding = 0;
	bool first = true;

	for (long i = 0; params != rb.qnil && i < PARAMS_MAX; i++) {
		VALUE param = rb.rb_ary_entry(params, i), name;
		const char *text;

		if (param == rb.qnil)
			break;
		name = rb.rb_ary_entry(param, 1);
		text = name == rb.qnil ? NULL : rb.rb_id2name(rb.rb_sym2id(name));
		/* Those without a name: *, **, &, ... and patterns */
		if (!text || !((*text >= 'a' && *text <= 'z') || *text == '_' || *text < 0))
			continue;
		if (!binding)
			binding = rb.rb_tracearg_binding(f->ta);
		if (!first)
			puts_(f->o, ", ");
		first = false;
		puts_(f->o, text);
		puts_(f->o, "=");
		put_value(f->o, rb.rb_funcallv(binding, rb.id_local_get, 1, &name));
	}
	return rb.qnil;
}

size_t rut_args_format(VALUE tp, struct rut_trace_arg *ta, char *buf, size_t size)
{
	struct out o = {buf, size, 0};
	struct format f = {tp, ta, &o};
	int failed = 0;

	buf[0] = 0;
	if (!rb.rb_tracearg_binding)
		return 0;
	rb.rb_protect(format_body, (VALUE)&f, &failed);
	if (failed)
		rb.rb_set_errinfo(rb.qnil);
	return o.len;
}
