/* SPDX-License-Identifier: MIT */
/*
 * Rutile::Tracepoint: firing.
 *
 * The path that every application pays for, traced or not, is fire() up to its first `return`:
 * three loads, no check of the receiver's type (the method exists on this class only), no
 * allocation, no evaluation of the arguments. Everything else happens only while it is traced, and
 * still allocates no Ruby object: numbers are converted in place, strings passed where they lie,
 * copied to the stack only when Ruby did not end them with a NUL.
 *
 * Nothing here raises into the application unless the tracepoint was declared strict: what does not
 * fit the declaration is counted.
 */
#include "rb_ext.h"

#include <errno.h>
#include <string.h>

enum { ROOM_BYTES = 4096 }; /* of the stack, for strings without a NUL */

struct tracepoint {
	struct rutile_usdt_probe *probe; /* of holder; never NULL */
	uint32_t strict;		 /* check and raise, traced or not */
	uint32_t n_types;
	uint8_t types[RUTILE_USDT_MAX_ARGS];
	struct holder *holder;
	VALUE provider_name, name, args;
};

/* What an allocated, not initialized tracepoint fires: nothing. */
static const volatile uint32_t no_gate;
static struct rutile_usdt_probe no_probe = {.gate = &no_gate};

static VALUE rutile_module, arg_type_error, argument_error;

static void tracepoint_mark(void *data)
{
	struct tracepoint *tp = data;

	rb_gc_mark(tp->provider_name);
	rb_gc_mark(tp->name);
	rb_gc_mark(tp->args);
}

static void tracepoint_free(void *data)
{
	struct tracepoint *tp = data;

	holder_unref(tp->holder);
	xfree(tp);
}

static size_t tracepoint_size(const void *data)
{
	(void)data;
	return sizeof(struct tracepoint);
}

static const rb_data_type_t tracepoint_type = {
	.wrap_struct_name = "rutile/tracepoint",
	.function = {.dmark = tracepoint_mark, .dfree = tracepoint_free, .dsize = tracepoint_size},
#ifdef RUBY_TYPED_FROZEN_SHAREABLE
	.flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_FROZEN_SHAREABLE,
#else
	.flags = RUBY_TYPED_FREE_IMMEDIATELY,
#endif
};

static VALUE tracepoint_alloc(VALUE klass)
{
	struct tracepoint *tp;
	VALUE self = TypedData_Make_Struct(klass, struct tracepoint, &tracepoint_type, tp);

	tp->probe = &no_probe;
	tp->provider_name = tp->name = tp->args = Qnil;
	return self;
}

/* The receiver is of our type wherever these methods are bound: unbound methods check that. */
static inline struct tracepoint *get(VALUE self)
{
	return DATA_PTR(self);
}

static enum rutile_usdt_type type_of_class(VALUE klass)
{
	if (klass == rb_cInteger)
		return RUTILE_USDT_S64;
	if (klass == rb_cFloat)
		return RUTILE_USDT_F64;
	if (klass == rb_cString || klass == rb_cSymbol)
		return RUTILE_USDT_STR;
	if (klass == rb_cTrueClass || klass == rb_cFalseClass)
		return RUTILE_USDT_BOOL;
	if (klass == rb_cNilClass)
		return RUTILE_USDT_U64;
	return 0;
}

static void read_types(VALUE args, struct tracepoint *tp, enum rutile_usdt_type *types)
{
	long n;

	Check_Type(args, T_ARRAY);
	n = RARRAY_LEN(args);
	if (n > RUTILE_USDT_MAX_ARGS)
		rb_raise(arg_type_error, "%ld arguments, at most %d are possible", n,
			 RUTILE_USDT_MAX_ARGS);
	for (long i = 0; i < n; i++) {
		types[i] = type_of_class(RARRAY_AREF(args, i));
		if (!types[i])
			rb_raise(arg_type_error,
				 "%+" PRIsVALUE " is no type of a tracepoint's argument: Integer, "
				 "Float, String, Symbol, TrueClass, FalseClass or NilClass",
				 RARRAY_AREF(args, i));
		tp->types[i] = (uint8_t)types[i];
	}
	tp->n_types = (uint32_t)n;
}

static VALUE tracepoint_create(VALUE self, VALUE provider, VALUE provider_name, VALUE name,
			       VALUE args, VALUE strict)
{
	struct tracepoint *tp = rb_check_typeddata(self, &tracepoint_type);
	enum rutile_usdt_type types[RUTILE_USDT_MAX_ARGS] = {0};
	struct holder *h = provider_holder(provider);
	struct rutile_usdt_probe *probe;
	int rc;

	if (tp->holder)
		rb_raise(rb_eArgError, "tracepoint initialized twice");
	StringValueCStr(name);
	read_types(args, tp, types);
	rc = rutile_usdt_probe_declare(h->provider, RSTRING_PTR(name), types, tp->n_types, &probe);
	if (rc == -EINVAL)
		rb_raise(rb_eArgError,
			 "invalid tracepoint name %+" PRIsVALUE
			 ": 1 to %d printable characters without blanks and colons",
			 name, RUTILE_USDT_NAME_MAX);
	if (rc)
		raise_errno(rc, "tracepoint");
	tp->holder = holder_ref(h);
	tp->probe = probe;
	tp->strict = RTEST(strict);
	RB_OBJ_WRITE(self, &tp->provider_name, provider_name);
	RB_OBJ_WRITE(self, &tp->name, name);
	RB_OBJ_WRITE(self, &tp->args, args);
	return self;
}

/* What recordings call the arguments. */
static VALUE tracepoint_name_args(VALUE self, VALUE names)
{
	struct tracepoint *tp = rb_check_typeddata(self, &tracepoint_type);
	const char *list[RUTILE_USDT_MAX_ARGS];
	VALUE name;
	int rc;

	Check_Type(names, T_ARRAY);
	rc = tp->holder && RARRAY_LEN(names) == (long)tp->n_types ? 0 : -EINVAL;
	for (uint32_t i = 0; i < tp->n_types && !rc; i++) {
		name = RARRAY_AREF(names, i);
		list[i] = StringValueCStr(name);
	}
	if (!rc)
		rc = rutile_usdt_probe_name_args(tp->probe, list);
	if (rc)
		rb_raise(rb_eArgError,
			 "invalid names of arguments %+" PRIsVALUE
			 ": one identifier for each, all different",
			 names);
	RB_GC_GUARD(names);
	return self;
}

/* One Integer as a signed 64-bit word, the nearest there is. Never raises. */
static uint64_t integer_word(struct tracepoint *tp, VALUE v)
{
	uint64_t word = 0;
	int sign;

	if (FIXNUM_P(v))
		return (uint64_t)FIX2LONG(v);
	sign = rb_integer_pack(v, &word, 1, sizeof(word), 0,
			       INTEGER_PACK_NATIVE_BYTE_ORDER | INTEGER_PACK_2COMP |
				       INTEGER_PACK_LSWORD_FIRST);
	if ((sign > 0 && (sign > 1 || (int64_t)word < 0)) ||
	    (sign < 0 && (sign < -1 || (int64_t)word >= 0))) {
		rutile_usdt_probe_note(tp->probe, RUTILE_USDT_SATURATED);
		return sign > 0 ? (uint64_t)INT64_MAX : (uint64_t)INT64_MIN;
	}
	return word;
}

struct room {
	char bytes[ROOM_BYTES];
	size_t used;
};

/*
 * The address of a NUL-terminated string. Ruby ends strings of its own by a NUL, but not those that
 * share a part of another; reading one byte behind is within the other.
 */
static uint64_t string_word(struct tracepoint *tp, VALUE v, struct room *room)
{
	const char *s = RSTRING_PTR(v);
	size_t len = (size_t)RSTRING_LEN(v), left = ROOM_BYTES - room->used;
	char *copy = room->bytes + room->used;

	if (!s[len])
		return (uintptr_t)s;
	if (len >= left) {
		len = left ? left - 1 : 0;
		rutile_usdt_probe_note(tp->probe, RUTILE_USDT_TRUNCATED);
		if (!left)
			return (uintptr_t) "";
	}
	memcpy(copy, s, len);
	copy[len] = 0;
	room->used += len + 1;
	return (uintptr_t)copy;
}

/* Whether a value is of the declared type. nil fits any type: 0, no string. */
static bool fits(enum rutile_usdt_type type, VALUE v)
{
	if (NIL_P(v))
		return true;
	switch (type) {
	case RUTILE_USDT_S64:
		return RB_INTEGER_TYPE_P(v);
	case RUTILE_USDT_F64:
		return RB_FLOAT_TYPE_P(v) || RB_INTEGER_TYPE_P(v);
	case RUTILE_USDT_STR:
		return SYMBOL_P(v) || RB_TYPE_P(v, T_STRING);
	case RUTILE_USDT_BOOL:
		return v == Qtrue || v == Qfalse;
	default:
		return false;
	}
}

static bool all_fit(const struct tracepoint *tp, int argc, const VALUE *argv)
{
	if ((unsigned)argc != tp->n_types)
		return false;
	for (int i = 0; i < argc; i++)
		if (!fits(tp->types[i], argv[i]))
			return false;
	return true;
}

/* One value that fits, as a tracer reads it. */
static uint64_t word_of(struct tracepoint *tp, unsigned i, VALUE v, struct room *room)
{
	if (NIL_P(v))
		return 0;
	switch (tp->types[i]) {
	case RUTILE_USDT_S64:
		return integer_word(tp, v);
	case RUTILE_USDT_F64:
		if (FIXNUM_P(v))
			return rutile_usdt_f64((double)FIX2LONG(v));
		return rutile_usdt_f64(RB_FLOAT_TYPE_P(v) ? RFLOAT_VALUE(v) : rb_big2dbl(v));
	case RUTILE_USDT_STR:
		return string_word(tp, SYMBOL_P(v) ? rb_sym2str(v) : v, room);
	default:
		return v == Qtrue;
	}
}

/* As the old gem raised it: with the first value that does not fit. */
static void raise_mismatch(struct tracepoint *tp, int argc, const VALUE *argv)
{
	for (int i = 0; i < argc && (unsigned)i < tp->n_types; i++)
		if (!fits(tp->types[i], argv[i]))
			rb_exc_raise(rb_funcall(argument_error, rb_intern("new"), 2, argv[i],
						RARRAY_AREF(tp->args, i)));
	rb_raise(rb_eArgError,
		 "wrong number of arguments for tracepoint %" PRIsVALUE " (given %d, expected %u)",
		 tp->name, argc, tp->n_types);
}

static bool is_traced(const struct tracepoint *tp)
{
	return rutile_usdt_enabled(tp->probe);
}

void tracepoint_check(VALUE tracepoint)
{
	rb_check_typeddata(tracepoint, &tracepoint_type);
}

bool tracepoint_is_traced(VALUE tracepoint)
{
	return is_traced(get(tracepoint));
}

struct rutile_usdt_probe *tracepoint_probe(VALUE tracepoint)
{
	return get(tracepoint)->probe;
}

static VALUE fire_values(struct tracepoint *tp, int argc, const VALUE *argv)
{
	uint64_t words[RUTILE_USDT_MAX_ARGS];
	struct room room;

	if (!all_fit(tp, argc, argv)) {
		rutile_usdt_probe_note(tp->probe, RUTILE_USDT_MISMATCH);
		if (tp->strict)
			raise_mismatch(tp, argc, argv);
		return Qfalse;
	}
	if (!is_traced(tp))
		return Qfalse;
	room.used = 0;
	for (int i = 0; i < argc; i++)
		words[i] = word_of(tp, (unsigned)i, argv[i], &room);
	rutile_usdt_fire(tp->probe, words);
	return Qtrue;
}

static VALUE call_block(VALUE tp)
{
	(void)tp;
	return rb_yield_values(0);
}

/*
 * A block that runs only while traced must not break the application by being traced. What ends the
 * program, and what another thread raised to end a wait, is not the block's: see
 * Rutile.for_application?.
 */
static VALUE block_failed(VALUE data, VALUE error)
{
	struct tracepoint *tp = (struct tracepoint *)data;

	if (tp->strict || RTEST(rb_funcall(rutile_module, rb_intern("for_application?"), 1, error)))
		rb_exc_raise(error);
	rutile_usdt_probe_note(tp->probe, RUTILE_USDT_MISMATCH);
	return Qundef;
}

static VALUE fire_block(struct tracepoint *tp)
{
	VALUE v, fired;

	if (!is_traced(tp))
		return Qfalse;
	v = rb_rescue2(call_block, (VALUE)tp, block_failed, (VALUE)tp, rb_eException, (VALUE)0);
	if (v == Qundef)
		return Qfalse;
	if (!tp->n_types)
		return fire_values(tp, 0, NULL);
	if (!RB_TYPE_P(v, T_ARRAY))
		return fire_values(tp, 1, &v);
	fired = fire_values(tp, (int)RARRAY_LEN(v), RARRAY_CONST_PTR(v));
	RB_GC_GUARD(v);
	return fired;
}

/* Not inlined, so that the path of the untraced has no stack frame. */
__attribute__((noinline)) static VALUE fire_slowly(int argc, VALUE *argv, struct tracepoint *tp)
{
	if (!argc && rb_block_given_p())
		return fire_block(tp);
	return fire_values(tp, argc, argv);
}

/*
 * Fires, if traced.
 *
 * @overload fire(*values)
 *   @param values one value for each declared type; nil fits every type
 * @overload fire
 *   @yieldreturn [Array, Object] the values (one alone needs no Array). The block runs only while
 *     traced. An exception in it is counted, not raised (unless the tracepoint is strict, or it
 *     ends the program, as SystemExit).
 * @return [Boolean] whether it was traced
 * @raise [InvalidArgumentError, ArgumentError] if the tracepoint is strict and the values do not
 * fit
 */
static VALUE tracepoint_fire(int argc, VALUE *argv, VALUE self)
{
	struct tracepoint *tp = get(self);

	if (__builtin_expect(!(*__atomic_load_n(&tp->probe->gate, __ATOMIC_RELAXED) | tp->strict),
			     1))
		return Qfalse;
	return fire_slowly(argc, argv, tp);
}

/*
 * Whether this tracepoint is traced now: one load.
 * @return [Boolean]
 */
static VALUE tracepoint_enabled(VALUE self)
{
	return is_traced(get(self)) ? Qtrue : Qfalse;
}

/*
 * Lets tracers see it again after {#disable}. They stay attached meanwhile.
 * @return [self]
 */
static VALUE tracepoint_enable(VALUE self)
{
	if (get(self)->holder)
		rutile_usdt_probe_set(get(self)->probe, true);
	return self;
}

/*
 * Hides it from tracers, also from those that are attached.
 * @return [self]
 */
static VALUE tracepoint_disable(VALUE self)
{
	if (get(self)->holder)
		rutile_usdt_probe_set(get(self)->probe, false);
	return self;
}

/*
 * Whether a tracer could see it: its provider is loaded and it was not disabled.
 * @return [Boolean]
 */
static VALUE tracepoint_on(VALUE self)
{
	return get(self)->holder && rutile_usdt_probe_is_on(get(self)->probe) ? Qtrue : Qfalse;
}

static VALUE tracepoint_provider_name(VALUE self)
{
	return get(self)->provider_name;
}

static VALUE tracepoint_name(VALUE self)
{
	return get(self)->name;
}

static VALUE tracepoint_args(VALUE self)
{
	return get(self)->args;
}

static VALUE count(VALUE self, enum rutile_usdt_count what)
{
	return get(self)->holder ? ULL2NUM(rutile_usdt_probe_count(get(self)->probe, what))
				 : INT2FIX(0);
}

/*
 * How often it fired while traced.
 * @return [Integer]
 */
static VALUE tracepoint_fired(VALUE self)
{
	return count(self, RUTILE_USDT_FIRED);
}

/*
 * How often it did not fire, because number or type of the values was wrong or the block failed.
 * @return [Integer]
 */
static VALUE tracepoint_mismatched(VALUE self)
{
	return count(self, RUTILE_USDT_MISMATCH);
}

/*
 * How many Integers did not fit 64 bits and were passed as the largest or smallest that do.
 * @return [Integer]
 */
static VALUE tracepoint_saturated(VALUE self)
{
	return count(self, RUTILE_USDT_SATURATED);
}

/*
 * How many Strings had to be cut.
 * @return [Integer]
 */
static VALUE tracepoint_truncated(VALUE self)
{
	return count(self, RUTILE_USDT_TRUNCATED);
}

/*
 * Leaves switching from outside to {Control.sync}.
 * @api private
 */
static VALUE tracepoint_defer(VALUE self)
{
	if (get(self)->holder)
		rutile_usdt_probe_defer(get(self)->probe, true);
	return self;
}

/*
 * What was asked from outside: true, false, or nil for nothing.
 * @api private
 */
static VALUE tracepoint_wanted(VALUE self)
{
	int wanted = get(self)->holder ? rutile_usdt_probe_wanted(get(self)->probe) : -1;

	return wanted < 0 ? Qnil : wanted ? Qtrue : Qfalse;
}

void init_tracepoint(VALUE module)
{
	VALUE klass = rb_define_class_under(module, "Tracepoint", rb_cObject);

	rutile_module = module;
	arg_type_error = rb_define_class_under(klass, "InvalidArgType", rb_eStandardError);
	argument_error = rb_define_class_under(klass, "InvalidArgumentError", rb_eStandardError);
	rb_gc_register_mark_object(arg_type_error);
	rb_gc_register_mark_object(argument_error);
	rb_define_alloc_func(klass, tracepoint_alloc);
	rb_undef_method(klass, "initialize_copy");
	rb_define_private_method(klass, "native_create", tracepoint_create, 5);
	rb_define_private_method(klass, "native_name_args", tracepoint_name_args, 1);
	rb_define_method(klass, "fire", tracepoint_fire, -1);
	rb_define_method(klass, "enabled?", tracepoint_enabled, 0);
	rb_define_method(klass, "enable", tracepoint_enable, 0);
	rb_define_method(klass, "disable", tracepoint_disable, 0);
	rb_define_method(klass, "on?", tracepoint_on, 0);
	rb_define_method(klass, "provider_name", tracepoint_provider_name, 0);
	rb_define_method(klass, "name", tracepoint_name, 0);
	rb_define_method(klass, "args", tracepoint_args, 0);
	rb_define_method(klass, "fired", tracepoint_fired, 0);
	rb_define_method(klass, "mismatched", tracepoint_mismatched, 0);
	rb_define_method(klass, "saturated", tracepoint_saturated, 0);
	rb_define_method(klass, "truncated", tracepoint_truncated, 0);
	rb_define_method(klass, "native_defer", tracepoint_defer, 0);
	rb_define_method(klass, "native_wanted", tracepoint_wanted, 0);
}
