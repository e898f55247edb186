/* SPDX-License-Identifier: MIT */
/*
 * Rutile.span: intervals of work that know which others they are part of.
 *
 * A span has the identifiers of W3C Trace Context: those of its trace and of itself, and that of
 * the span it is part of. They are kept in one object per fiber, as text, and saved on the C stack
 * while an inner span has it; so a span allocates nothing. While neither tracepoint is traced a
 * span is a call of its block.
 */
#include "rb_ext.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <sys/random.h>
#endif
#include <unistd.h>

enum {
	TRACE_HEX = 32,
	SPAN_HEX = 16,
	TRACEPARENT_LEN = 55, /* 00-TRACE-SPAN-01 */
	TEXT_BYTES = 256,     /* of a name that Ruby did not end with a NUL */
	TAG_OF_RAISE = 6,     /* rb_protect(): it was an exception */
	DURATION = 4,	      /* of the END_WORDS arguments of span:end */
	END_WORDS = 7,
};

struct ids {
	char trace[TRACE_HEX + 1]; /* "": there is no span */
	char span[SPAN_HEX + 1];
	char parent[SPAN_HEX + 1];
};

struct frame {
	VALUE self, name, attributes;
	struct ids outer;
	struct frame *outer_frame;
	uint64_t start_ns;
};

/* The spans of one fiber. */
struct context {
	struct ids ids;
	struct frame *frame; /* of the innermost span; NULL: none */
	uint64_t random;
	uint32_t generation;
};

static VALUE span_class, none, begin_point, end_point, helpers;
static struct rutile_usdt_probe *begin_probe, *end_probe; /* of begin_point, end_point */
static ID id_context;
static uint32_t generation = 1; /* another one in each forked child */

static void context_mark(void *data)
{
	(void)data; /* the values of frames are on the stack */
}

static const rb_data_type_t context_type = {
	.wrap_struct_name = "rutile/span",
	.function = {.dmark = context_mark, .dfree = RUBY_TYPED_DEFAULT_FREE},
#ifdef RUBY_TYPED_FROZEN_SHAREABLE
	.flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_FROZEN_SHAREABLE,
#else
	.flags = RUBY_TYPED_FREE_IMMEDIATELY,
#endif
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void in_child(void)
{
	generation++;
}

static void seed(struct context *c)
{
	uint64_t random = 0;

#ifdef __linux__
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = 0;
#endif
	c->random = random ^ now_ns() ^ (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)c;
	c->generation = generation;
}

/* splitmix64, without its zero, which no identifier may be. */
static uint64_t next_random(struct context *c)
{
	uint64_t z;

	if (c->generation != generation)
		seed(c);
	do {
		z = c->random += 0x9e3779b97f4a7c15;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
		z = (z ^ z >> 27) * 0x94d049bb133111eb;
		z ^= z >> 31;
	} while (!z);
	return z;
}

/* The 8 digits of 32 bits, one in each byte, the first digit in the lowest. */
static uint64_t hex_digits(uint32_t v)
{
	uint64_t x = __builtin_bswap32(v), above_9;

	x = (x | x << 16) & 0x0000ffff0000ffff;
	x = (x | x << 8) & 0x00ff00ff00ff00ff;
	x = (x >> 4 | x << 8) & 0x0f0f0f0f0f0f0f0f;
	above_9 = (x + 0x0606060606060606) >> 4 & 0x0101010101010101;
	return x + 0x3030303030303030 + above_9 * ('a' - '0' - 10);
}

/* Little-endian, as all systems of the gem. */
static void put_hex(char *out, uint64_t v)
{
	const uint64_t digits[] = {hex_digits((uint32_t)(v >> 32)), hex_digits((uint32_t)v)};

	memcpy(out, digits, sizeof(digits));
	out[SPAN_HEX] = 0;
}

static struct context *current(VALUE *ret_self)
{
	VALUE thread = rb_thread_current(), self = rb_thread_local_aref(thread, id_context);
	struct context *c;

	if (NIL_P(self)) {
		self = TypedData_Make_Struct(span_class, struct context, &context_type, c);
		rb_thread_local_aset(thread, id_context, self);
	}
	*ret_self = self;
	return RTYPEDDATA_DATA(self);
}

/* Whether `s` has n digits as the standard writes them, one of them not 0. */
static bool is_id(const char *s, unsigned n)
{
	bool nonzero = false;

	for (unsigned i = 0; i < n; i++) {
		if (!strchr("0123456789abcdef", s[i]) || !s[i])
			return false;
		nonzero |= s[i] != '0';
	}
	return nonzero;
}

/* Takes trace and parent from a header "00-TRACE-SPAN-FLAGS". Later versions may be longer. */
static bool parse_traceparent(VALUE header, struct ids *ids)
{
	const char *s;
	long len;

	if (!RB_TYPE_P(header, T_STRING) || RSTRING_LEN(header) < TRACEPARENT_LEN)
		return false;
	s = RSTRING_PTR(header);
	len = RSTRING_LEN(header);
	if ((len > TRACEPARENT_LEN && (!memcmp(s, "00", 2) || s[TRACEPARENT_LEN] != '-')) ||
	    !memcmp(s, "ff", 2) || s[2] != '-' || s[35] != '-' || s[52] != '-' ||
	    !is_id(s + 3, TRACE_HEX) || !is_id(s + 36, SPAN_HEX))
		return false;
	memcpy(ids->trace, s + 3, TRACE_HEX);
	ids->trace[TRACE_HEX] = 0;
	memcpy(ids->parent, s + 36, SPAN_HEX);
	ids->parent[SPAN_HEX] = 0;
	return true;
}

static void enter(struct context *c, VALUE traceparent)
{
	if (parse_traceparent(traceparent, &c->ids)) {
		;
	} else if (c->ids.trace[0]) {
		memcpy(c->ids.parent, c->ids.span, sizeof(c->ids.parent));
	} else {
		put_hex(c->ids.trace, next_random(c));
		put_hex(c->ids.trace + SPAN_HEX, next_random(c));
		c->ids.parent[0] = 0;
	}
	put_hex(c->ids.span, next_random(c));
}

/* A NUL-terminated text of a String or Symbol; others have none. */
static uint64_t text_of(VALUE v, char copy[TEXT_BYTES])
{
	const char *s;
	size_t len;

	if (SYMBOL_P(v))
		v = rb_sym2str(v);
	if (!RB_TYPE_P(v, T_STRING))
		return 0;
	s = RSTRING_PTR(v);
	len = (size_t)RSTRING_LEN(v);
	if (!s[len])
		return (uintptr_t)s;
	len = len < TEXT_BYTES ? len : TEXT_BYTES - 1;
	memcpy(copy, s, len);
	copy[len] = 0;
	return (uintptr_t)copy;
}

static VALUE describe(VALUE attributes)
{
	return rb_funcall(helpers, rb_intern("describe_pairs"), 1, attributes);
}

static void fire_end(const struct ids *ids, struct frame *f, VALUE error)
{
	VALUE text = Qnil, class_name = NIL_P(error) ? Qnil : rb_class_name(CLASS_OF(error));
	char name[TEXT_BYTES], copy[TEXT_BYTES];
	uint64_t words[END_WORDS], *duration = &words[DURATION];
	int state = 0;

	if (RB_TYPE_P(f->attributes, T_HASH)) {
		/* A second reading of the clock: to describe them takes longer than that. */
		words[DURATION] = now_ns() - f->start_ns;
		duration = NULL;
		text = rb_protect(describe, f->attributes, &state);
		if (state)
			rb_set_errinfo(Qnil);
	}
	words[0] = (uintptr_t)ids->trace;
	words[1] = (uintptr_t)ids->span;
	words[2] = (uintptr_t)ids->parent;
	words[3] = text_of(f->name, name);
	words[5] = NIL_P(class_name) ? 0 : (uintptr_t)RSTRING_PTR(class_name);
	words[6] = state ? 0 : text_of(text, copy);
	rutile_usdt_fire_timed(end_probe, words, f->start_ns, duration);
	RB_GC_GUARD(text);
	RB_GC_GUARD(class_name);
	RB_GC_GUARD(f->name);
}

static VALUE run_block(VALUE self)
{
	return rb_yield(self);
}

static VALUE run_span(VALUE name, VALUE attributes, VALUE traceparent)
{
	struct frame f = {.name = name, .attributes = attributes};
	struct context *c = current(&f.self);
	char copy[TEXT_BYTES];
	VALUE result;
	int state;

	f.outer = c->ids;
	f.outer_frame = c->frame;
	c->frame = &f;
	enter(c, traceparent);
	if (rutile_usdt_enabled(begin_probe))
		f.start_ns = rutile_usdt_fire_timed(begin_probe,
						    (const uint64_t[]){
							    (uintptr_t)c->ids.trace,
							    (uintptr_t)c->ids.span,
							    (uintptr_t)c->ids.parent,
							    text_of(name, copy),
						    },
						    0, NULL);
	else
		f.start_ns = now_ns();
	result = rb_protect(run_block, f.self, &state);
	if (rutile_usdt_enabled(end_probe))
		fire_end(&c->ids, &f, state == TAG_OF_RAISE ? rb_errinfo() : Qnil);
	c->ids = f.outer;
	c->frame = f.outer_frame;
	RB_GC_GUARD(f.self);
	if (state)
		rb_jump_tag(state);
	return result;
}

static VALUE require_points(VALUE arg)
{
	return rb_require("rutile/span");
}

/*
 * Declares the tracepoints at the first use: a program without spans has none of them. Where that
 * fails (a ractor other than the main one) there are no spans yet.
 */
static bool has_points(void)
{
	static bool asked;
	int state = 0;

	if (NIL_P(begin_point) && !asked) {
		asked = true;
		rb_protect(require_points, Qnil, &state);
		asked = !state;
		if (state)
			rb_set_errinfo(Qnil);
	}
	return !NIL_P(__atomic_load_n(&begin_point, __ATOMIC_ACQUIRE));
}

/*
 * Runs a block as a span: part of the span around it, or a trace of its own. While it is not traced
 * "span:begin" or "span:end" the block is called and nothing else is done.
 *
 * @overload span(name, attributes = nil, traceparent = nil)
 *   @param name [String, Symbol]
 *   @param attributes [Hash, nil] become text while traced
 *   @param traceparent [String, nil] the W3C header of the caller; one that is not valid is ignored
 *   @yieldparam span [Span]
 * @return the block's value
 */
static VALUE rutile_span(int argc, VALUE *argv, VALUE self)
{
	(void)self;
	if (argc < 1 || argc > 3)
		rb_error_arity(argc, 1, 3);
	rb_need_block();
	if (!has_points() || (!rutile_usdt_enabled(begin_probe) && !rutile_usdt_enabled(end_probe)))
		return rb_yield(none);
	return run_span(argv[0], argc > 1 ? argv[1] : Qnil, argc > 2 ? argv[2] : Qnil);
}

/*
 * Whether spans are traced now.
 * @return [Boolean]
 */
static VALUE span_enabled(VALUE klass)
{
	(void)klass;
	return has_points() && (rutile_usdt_enabled(begin_probe) || rutile_usdt_enabled(end_probe))
		       ? Qtrue
		       : Qfalse;
}

static VALUE traceparent_of(const struct context *c)
{
	return c->ids.trace[0] ? rb_sprintf("00-%s-%s-01", c->ids.trace, c->ids.span) : Qnil;
}

/*
 * The W3C header for what this fiber calls now: of its innermost span.
 * @return [String, nil] nil outside of a span, and while spans are not traced
 */
static VALUE span_current_traceparent(VALUE klass)
{
	VALUE self;

	(void)klass;
	return traceparent_of(current(&self));
}

static struct context *get(VALUE self)
{
	return rb_check_typeddata(self, &context_type);
}

/* @return [String, nil] the W3C header for what is called in this span */
static VALUE span_traceparent(VALUE self)
{
	return traceparent_of(get(self));
}

static VALUE id_of(const char *id)
{
	return id[0] ? rb_str_new_cstr(id) : Qnil;
}

/* @return [String, nil] 32 hexadecimal digits */
static VALUE span_trace_id(VALUE self)
{
	return id_of(get(self)->ids.trace);
}

/* @return [String, nil] 16 hexadecimal digits */
static VALUE span_id(VALUE self)
{
	return get(self)->ids.trace[0] ? id_of(get(self)->ids.span) : Qnil;
}

/* @return [String, nil] nil for the first span of a trace */
static VALUE span_parent_id(VALUE self)
{
	return get(self)->ids.trace[0] ? id_of(get(self)->ids.parent) : Qnil;
}

/* Renames the span, as when its route is known. */
static VALUE span_set_name(VALUE self, VALUE name)
{
	if (get(self)->frame)
		get(self)->frame->name = name;
	return name;
}

/* Adds an attribute; nothing while spans are not traced. */
static VALUE span_set(VALUE self, VALUE key, VALUE value)
{
	struct frame *f = get(self)->frame;

	if (!f)
		return value;
	f->attributes =
		RB_TYPE_P(f->attributes, T_HASH) ? rb_hash_dup(f->attributes) : rb_hash_new();
	rb_hash_aset(f->attributes, key, value);
	return value;
}

static VALUE span_points(VALUE klass, VALUE begin, VALUE end)
{
	(void)klass;
	tracepoint_check(begin);
	tracepoint_check(end);
	helpers = rb_path2class("Rutile::Tracer::Helpers");
	end_point = end;
	end_probe = tracepoint_probe(end);
	begin_probe = tracepoint_probe(begin);
	__atomic_store_n(&begin_point, begin, __ATOMIC_RELEASE);
	return Qnil;
}

void init_span(VALUE module)
{
	struct context *c;

	begin_point = end_point = helpers = Qnil;
	rb_gc_register_address(&begin_point);
	rb_gc_register_address(&end_point);
	rb_gc_register_address(&helpers);
	id_context = rb_intern("__rutile_span");
	pthread_atfork(NULL, NULL, in_child);
	span_class = rb_define_class_under(module, "Span", rb_cObject);
	rb_gc_register_mark_object(span_class);
	rb_undef_alloc_func(span_class);
	none = TypedData_Make_Struct(span_class, struct context, &context_type, c);
	rb_obj_freeze(none);
	rb_gc_register_mark_object(none);
	rb_define_const(span_class, "NONE", none);
	rb_define_module_function(module, "span", rutile_span, -1);
	rb_define_singleton_method(span_class, "enabled?", span_enabled, 0);
	rb_define_singleton_method(span_class, "traceparent", span_current_traceparent, 0);
	rb_define_private_method(rb_singleton_class(span_class), "native_points", span_points, 2);
	rb_define_method(span_class, "traceparent", span_traceparent, 0);
	rb_define_method(span_class, "trace_id", span_trace_id, 0);
	rb_define_method(span_class, "id", span_id, 0);
	rb_define_method(span_class, "parent_id", span_parent_id, 0);
	rb_define_method(span_class, "name=", span_set_name, 1);
	rb_define_method(span_class, "[]=", span_set, 2);
}
