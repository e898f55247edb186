/* SPDX-License-Identifier: MIT */
/*
 * The arguments of a call, as text. Only values with directly readable bytes become text
 * (numbers, strings, symbols, the first of what arrays and hashes hold); of everything else the
 * class and the address: no method of the application is called.
 */
#include "args.h"

#include "names.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRING_BYTES 64
#define PARAMS_MAX   32
#define ELEMENTS_MAX 8
#define DEPTH_MAX    3

/* RARRAY_EMBED_FLAG */
#define ARY_EMBEDDED	  (1ul << 13)
#define ARY_EMBED_LEN	  ((VALUE)rb.abi->array_embed_mask)
#define ARY_EMBED_SHIFT	  15
#define ARY_HEAP_LEN	  2
#define ST_CONTINUE	  0
#define ST_STOP		  1
#define UTF8_CONTINUED(c) (((unsigned char)(c)&0xc0) == 0x80)

struct out {
	char *buf;
	size_t size, len;
	bool full; /* something did not fit: what comes is left out */
	int depth;
};

static void put(struct out *o, const char *s, size_t n)
{
	if (o->full || n > o->size - 1 - o->len) {
		o->full = true;
		return;
	}
	memcpy(o->buf + o->len, s, n);
	o->len += n;
	o->buf[o->len] = 0;
}

/* Says that something is missing at the end. */
static void end(struct out *o)
{
	if (!o->full)
		return;
	if (o->len > o->size - 4)
		o->len = o->size - 4;
	while (o->len && UTF8_CONTINUED(o->buf[o->len]))
		o->len--;
	memcpy(o->buf + o->len, "...", 4);
	o->len += 3;
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
	while (n && UTF8_CONTINUED(s[n]))
		n--;
	return n;
}

static void put_string(struct out *o, VALUE str)
{
	size_t len, n;
	const char *s = rut_agent_str(str, &len);

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

	rut_agent_class_name(rb.rb_class_real(rut_klass(v)), name, sizeof(name), &singleton);
	puts_(o, "#<");
	puts_(o, name);
	snprintf(text, sizeof(text), ":0x%016lx>", (unsigned long)v);
	puts_(o, text);
}

static void put_value(struct out *o, VALUE v);

static long array_length(VALUE v)
{
	VALUE flags = rut_flags(v);

	if (flags & ARY_EMBEDDED)
		return (long)(flags >> ARY_EMBED_SHIFT & ARY_EMBED_LEN);
	return ((const long *)v)[ARY_HEAP_LEN];
}

static void put_array(struct out *o, VALUE v)
{
	long n = array_length(v);

	puts_(o, "[");
	for (long i = 0; i < n && !o->full; i++) {
		puts_(o, i ? ", " : "");
		if (i == ELEMENTS_MAX) {
			puts_(o, "...");
			break;
		}
		put_value(o, rb.rb_ary_entry(v, i));
	}
	puts_(o, "]");
}

struct pairs {
	struct out *o;
	int count;
};

static int put_pair(VALUE key, VALUE value, VALUE arg)
{
	struct pairs *p = (struct pairs *)arg;

	puts_(p->o, p->count ? ", " : "");
	if (p->count++ == ELEMENTS_MAX || p->o->full) {
		puts_(p->o, "...");
		return ST_STOP;
	}
	put_value(p->o, key);
	puts_(p->o, " => ");
	put_value(p->o, value);
	return ST_CONTINUE;
}

static void put_hash(struct out *o, VALUE v)
{
	struct pairs p = {.o = o};

	puts_(o, "{");
	rb.rb_hash_foreach(v, put_pair, (VALUE)&p);
	puts_(o, "}");
}

#define BIG_BYTES 128 /* of the largest integer that is printed: the time grows with the square */

static void put_big(struct out *o, VALUE v)
{
	char text[64];
	size_t bytes = rb.rb_absint_size(v, NULL), len;
	const char *digits;

	if (bytes > BIG_BYTES) {
		snprintf(text, sizeof(text), "#<Integer of %zu bytes>", bytes);
		puts_(o, text);
		return;
	}
	digits = rut_agent_str(rb.rb_big2str(v, 10), &len);
	put(o, digits, len);
}

static bool is_a(VALUE v, const char *class)
{
	char name[16];
	bool singleton;

	rut_agent_class_name(rb.rb_class_real(rut_klass(v)), name, sizeof(name), &singleton);
	return strcmp(name, class) == 0;
}

static void put_range(struct out *o, VALUE v)
{
	VALUE begin, end;
	int exclusive;

	if (!rb.rb_range_values(v, &begin, &end, &exclusive))
		return;
	if (begin != rb.qnil)
		put_value(o, begin);
	puts_(o, exclusive ? "..." : "..");
	if (end != rb.qnil)
		put_value(o, end);
}

static void put_struct(struct out *o, VALUE v)
{
	VALUE members = rb.rb_struct_members(v);
	char name[256];
	bool singleton;

	rut_agent_class_name(rb.rb_class_real(rut_klass(v)), name, sizeof(name), &singleton);
	puts_(o, "#<");
	puts_(o, name);
	for (long i = 0; !o->full; i++) {
		VALUE member = rb.rb_ary_entry(members, i);
		const char *text = member == rb.qnil ? NULL : rb.rb_id2name(rb.rb_sym2id(member));

		if (!text)
			break;
		puts_(o, i ? ", " : " ");
		if (i == ELEMENTS_MAX) {
			puts_(o, "...");
			break;
		}
		puts_(o, text);
		puts_(o, "=");
		put_value(o, rb.rb_struct_aref(v, (VALUE)i << 1 | 1));
	}
	puts_(o, ">");
}

static int put_key(VALUE key, VALUE value, VALUE arg)
{
	struct pairs *p = (struct pairs *)arg;

	(void)value;
	puts_(p->o, p->count ? ", " : "");
	if (p->count++ == ELEMENTS_MAX || p->o->full) {
		puts_(p->o, "...");
		return ST_STOP;
	}
	put_value(p->o, key);
	return ST_CONTINUE;
}

/* A Set keeps its elements as the keys of a Hash, until it became Ruby's own in 4.0. */
static VALUE set_hash(VALUE v)
{
	VALUE hash = rut_type(v) == RUT_T_OBJECT && rb.rb_hash_foreach && is_a(v, "Set")
			     ? rb.rb_attr_get(v, rb.rb_intern("@hash"))
			     : rb.qnil;

	return !rut_special_p(hash) && rut_type(hash) == RUT_T_HASH ? hash : 0;
}

static void put_set(struct out *o, VALUE hash)
{
	struct pairs p = {.o = o};

	puts_(o, "#<Set: {");
	rb.rb_hash_foreach(hash, put_key, (VALUE)&p);
	puts_(o, "}>");
}

/* What has others inside, when that is known; false: it is shown as an object. */
static bool put_nested(struct out *o, VALUE v)
{
	bool is_struct = rut_type(v) == RUT_T_STRUCT;
	bool range = is_struct && rb.rb_range_values && is_a(v, "Range");
	VALUE hash = is_struct ? 0 : set_hash(v);

	if (o->depth >= DEPTH_MAX || (is_struct && (!rb.rb_struct_members || !rb.rb_struct_aref)) ||
	    (!is_struct && !hash))
		return false;
	o->depth++;
	if (range)
		put_range(o, v);
	else if (is_struct)
		put_struct(o, v);
	else
		put_set(o, hash);
	o->depth--;
	return true;
}

/*
 * The digits of a finite number that is not 0, as few as give the same number when they are read,
 * and where its point is: 0.DIGITS times 10 to the power that is returned. Any fifteen digits
 * survive in a normal number, so that what is shorter only ends in zeros.
 */
static int shortest_digits(double d, char digits[24])
{
	char text[40];
	int n = 0;
	char *c;

	for (int precision = fabs(d) < DBL_MIN ? 0 : DBL_DIG - 1; precision < 17; precision++) {
		snprintf(text, sizeof(text), "%.*e", precision, fabs(d));
		if (strtod(text, NULL) == fabs(d))
			break;
	}
	/* What stands between the first digit and the others depends on the locale. */
	for (c = text; *c != 'e'; c++)
		if (*c >= '0' && *c <= '9')
			digits[n++] = *c;
	while (n > 1 && digits[n - 1] == '0')
		n--;
	digits[n] = 0;
	return (int)strtol(c + 1, NULL, 10) + 1;
}

/* As Float#to_s writes it. */
static void put_float(struct out *o, double d)
{
	char digits[24] = "0", text[64];
	int point = 1, n;

	if (isnan(d)) {
		puts_(o, "NaN");
		return;
	}
	if (signbit(d))
		puts_(o, "-");
	if (isinf(d)) {
		puts_(o, "Infinity");
		return;
	}
	if (d != 0)
		point = shortest_digits(d, digits);
	n = (int)strlen(digits);
	if ((point > DBL_DIG && point >= n) || point <= -4)
		snprintf(text, sizeof(text), "%c.%se%+03d", digits[0], n > 1 ? digits + 1 : "0",
			 point - 1);
	else if (point <= 0)
		snprintf(text, sizeof(text), "0.%.*s%s", -point, "0000", digits);
	else if (point < n)
		snprintf(text, sizeof(text), "%.*s.%s", point, digits, digits + point);
	else
		snprintf(text, sizeof(text), "%s%.*s.0", digits, point - n, "0000000000000000");
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
		put_float(o, rb.rb_float_value(v));
	} else if (rut_special_p(v)) {
		puts_(o, "?");
	} else if (rut_type(v) == RUT_T_STRING) {
		put_string(o, v);
	} else if (rut_type(v) == RUT_T_ARRAY && o->depth < DEPTH_MAX) {
		o->depth++;
		put_array(o, v);
		o->depth--;
	} else if (rut_type(v) == RUT_T_HASH && o->depth < DEPTH_MAX && rb.rb_hash_foreach) {
		o->depth++;
		put_hash(o, v);
		o->depth--;
	} else if (rut_type(v) == RUT_T_BIGNUM && rb.rb_absint_size && rb.rb_big2str) {
		put_big(o, v);
	} else if (!put_nested(o, v)) {
		put_object(o, v);
	}
}

struct format {
	VALUE tp;
	struct rut_trace_arg *ta;
	struct out *o;
};

/* [[:req, :name], ...] of the method that begins; where TracePoint has no such method, by Ruby's
 * function. */
static VALUE parameters(const struct format *f)
{
	if (!rb.abi->has_parameters && rb.rb_iseq_parameters)
		return rb.rb_iseq_parameters(((const VALUE *)f->ta->cfp)[RUT_FRAME_ISEQ], 0);
	return rb.rb_funcallv(f->tp, rb.id_parameters, 0, NULL);
}

static VALUE format_body(VALUE arg)
{
	struct format *f = (struct format *)arg;
	VALUE params = parameters(f), binding = 0;
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

size_t rut_agent_args_format(VALUE tp, struct rut_trace_arg *ta, char *buf, size_t size)
{
	struct out o = {.buf = buf, .size = size};
	struct format f = {tp, ta, &o};

	buf[0] = 0;
	if (!rb.rb_tracearg_binding)
		return 0;
	rut_agent_protect(format_body, (VALUE)&f);
	end(&o);
	return o.len;
}

struct one {
	struct out *o;
	VALUE value;
};

static VALUE value_body(VALUE arg)
{
	const struct one *one = (const struct one *)arg;

	put_value(one->o, one->value);
	return rb.qnil;
}

size_t rut_agent_args_format_value(VALUE value, char *buf, size_t size)
{
	struct out o = {.buf = buf, .size = size};
	struct one one = {&o, value};

	buf[0] = 0;
	rut_agent_protect(value_body, (VALUE)&one);
	end(&o);
	return o.len;
}
