/* SPDX-License-Identifier: MIT */
#include "rb.h"

#include "counter.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct rut_rb rb;

static const size_t no_count = SIZE_MAX;
static const uint64_t no_time;
static void *one = &rb;

struct rut_hot rut_agent_hot __attribute__((aligned(64))) = {.gcs = &no_count,
							     .young = RUT_LIFE_YOUNG,
							     .old = RUT_LIFE_OLD,
							     .one_ractor = &one,
							     .gc_ns = &no_time,
							     .gc_sweep_ns = &no_time};

/* Where a String keeps its length and bytes: decided by looking at strings of known content. */
static int str_layout;

const char *rut_agent_rb_load(void)
{
#define F(type, name) *(void **)&rb.name = dlsym(RTLD_DEFAULT, #name);
	RUT_RB_VARS(F)
#undef F
	if (!rb.rb_cObject || !rb.ruby_version)
		return "rb_cObject";
	rb.abi = rut_ruby_abi_get(rut_ruby_abi_number(rb.ruby_version));
	if (!rb.abi)
		return "a Ruby from 2.5 to 4.0";
	rb.wakes_disturb =
		rb.abi->wakes_disturb_in && !strcmp(rb.ruby_version, rb.abi->wakes_disturb_in);
#define F(required, ret, name, args)                                                               \
	*(void **)&rb.name = dlsym(RTLD_DEFAULT, #name);                                           \
	if (required && !rb.name)                                                                  \
		return #name;
	RUT_RB_FUNCS(F)
#undef F
	if (rb.ruby_single_main_ractor)
		rut_agent_hot.one_ractor = rb.ruby_single_main_ractor;
	if (!rb.rb_postponed_job_register_one && !rb.rb_postponed_job_preregister)
		return "rb_postponed_job_register_one";
	return NULL;
}

void rut_agent_ractors_many(void)
{
	one = NULL;
}

bool rut_agent_ractors_run(void)
{
	VALUE ractor;

	/* That reports that the first one begins, not that it has ended. */
	if (!rb.abi->has_ractors || (rb.ruby_single_main_ractor && rut_single_ractor()))
		return false;
	ractor = rb.rb_const_get(*rb.rb_cObject, rb.rb_intern("Ractor"));
	return rut_fix2long(rb.rb_funcallv(ractor, rb.rb_intern("count"), 0, NULL)) > 1;
}

/* Layout 0: until 3.2; embedded strings have their length in the flags. Layout 1: since then. */
static const char *str_bytes(int layout, VALUE str, size_t *ret_len)
{
	const uintptr_t *w = (const uintptr_t *)str;

	if (w[0] >> 13 & 1) {
		*ret_len = w[2];
		return (const char *)w[3];
	}
	if (layout) {
		*ret_len = w[2];
		return (const char *)&w[3];
	}
	*ret_len = w[0] >> 14 & 31;
	return (const char *)&w[2];
}

const char *rut_agent_str(VALUE str, size_t *ret_len)
{
	*ret_len = 0;
	if (rut_special_p(str) || rut_type(str) != RUT_T_STRING)
		return "";
	return str_bytes(str_layout, str, ret_len);
}

static bool str_layout_works(int layout)
{
	static const char text[] =
		"how long are these bytes, and where are they? long enough for the heap"
		"of every Ruby: longer than the largest slot of 640 bytes ..............."
		"......................................................................."
		"......................................................................."
		"......................................................................."
		"......................................................................."
		"......................................................................."
		"......................................................................."
		"......................................................................."
		".......................................................................";

	for (size_t n = 3; n < sizeof(text); n += n < 24 ? 9 : 330) {
		VALUE str = rb.rb_str_new(text, (long)n);
		size_t len;
		const char *p;

		/* Lengths first: a wrong layout has no pointer that could be followed. */
		p = str_bytes(layout, str, &len);
		if (len != n || memcmp(p, text, n) != 0)
			return false;
	}
	return true;
}

/* An ArgumentError where objects do not move, or are not said to. */
static VALUE ask_compactions(VALUE arg)
{
	rb.rb_gc_stat(rb.sym_compact_count);
	return arg;
}

const char *rut_agent_rb_init(void)
{
	const size_t *gcs;
	VALUE tracepoint, enable = rb.rb_id2sym(rb.rb_intern("enable"));
	const char *many;
	int failed = 0;

	rb.qnil = rb.rb_attr_get(*rb.rb_cObject, rb.rb_intern("__rutile_nothing__"));
	rb.qtrue = 0x14;
	for (str_layout = 0; !str_layout_works(str_layout); str_layout++)
		if (str_layout == 1)
			return "the layout of this Ruby's strings is not known";
	rb.id_enable = rb.rb_intern("enable");
	rb.id_each_child = rb.rb_intern("each_child");
	rb.id_local_get = rb.rb_intern("local_variable_get");
	rb.id_parameters = rb.rb_intern("parameters");
	rb.id_trace_points = rb.rb_intern("trace_points");
	rb.id_attached = rb.rb_intern("__attached__");
	rb.sym_target = rb.rb_id2sym(rb.rb_intern("target"));
	rb.sym_method = rb.rb_id2sym(rb.rb_intern("method"));
	rb.sym_block = rb.rb_id2sym(rb.rb_intern("block"));
	rb.sym_call = rb.rb_id2sym(rb.rb_intern("call"));
	rb.sym_b_call = rb.rb_id2sym(rb.rb_intern("b_call"));
	rb.sym_major_gc_count = rb.rb_id2sym(rb.rb_intern("major_gc_count"));
	rb.sym_state = rb.rb_id2sym(rb.rb_intern("state"));
	rb.sym_marking = rb.rb_id2sym(rb.rb_intern("marking"));
	rb.sym_sweeping = rb.rb_id2sym(rb.rb_intern("sweeping"));
	rb.sym_compact_count = rb.rb_id2sym(rb.rb_intern("compact_count"));
	rb.rb_protect(ask_compactions, 0, &failed);
	if (failed)
		rb.rb_set_errinfo(rb.qnil);
	rb.counts_compactions = !failed;
	/* The first calls make symbols, which is forbidden in some hooks. */
	rb.rb_gc_stat(rb.sym_major_gc_count);
	rb.rb_gc_latest_gc_info(rb.sym_state);
	many = getenv("RUBY_MN_THREADS");
	rb.threads_move = many && atoi(many) > 0;
	tracepoint = rb.rb_const_get(*rb.rb_cObject, rb.rb_intern("TracePoint"));
	if (rb.rb_funcallv(tracepoint, rb.rb_intern("method_defined?"), 1, &enable) != rb.qtrue)
		return NULL; /* Ruby is still starting; again later */
	rb.c_tracepoint = tracepoint;
	if (rb.abi->has_ractors)
		rb.c_ractor = rb.rb_const_get(*rb.rb_cObject, rb.rb_intern("Ractor"));
	rut_keep(&rb.enable_args, rb.rb_hash_new());
	rb.rb_gc_register_address(&rb.c_tracepoint);
	rb.target = rb.abi->target_hooks && rb.rb_iseqw_new;
	gcs = rut_agent_counter_of(rb.rb_gc_count);
	if (gcs)
		rut_agent_hot.gcs = gcs;
	return NULL;
}

static uint64_t stat_of(const char *name)
{
	return rb.rb_gc_stat(rb.rb_id2sym(rb.rb_intern(name)));
}

#define GC_WORDS 48 /* on both sides of the count: they are statistics, too (rb_objspace_t) */

/*
 * What GC.stat(:time) returns in milliseconds, in 3.1 and 3.2, is a number of nanoseconds near that
 * of rb_gc_count(). It is looked for there, by its value.
 */
static VALUE find_body(VALUE arg)
{
	const uint64_t *count = (const uint64_t *)rut_agent_hot.gcs, *found = NULL;
	uint64_t ms = stat_of("time");

	for (int i = -GC_WORDS; ms && i <= GC_WORDS; i++) {
		if (count[i] / 1000000 != ms)
			continue;
		if (found)
			return rb.qnil;
		found = &count[i];
	}
	if (found)
		rut_agent_hot.gc_ns = found;
	return rb.qnil;
}

/* Words from the count of GCs, as in struct rb_objspace. */
#define GC_MARKING  1 /* nanoseconds, and when the last began (struct timespec) */
#define GC_SWEEPING 4 /* likewise */

/*
 * Since 3.3 there are two sums, behind the count. They are taken for that when they are what
 * GC.stat says of each.
 */
static VALUE find_split_body(VALUE arg)
{
	const uint64_t *count = (const uint64_t *)rut_agent_hot.gcs;
	uint64_t mark_ms = stat_of("marking_time"), sweep_ms = stat_of("sweeping_time");

	if (mark_ms && count[GC_MARKING] / 1000000 == mark_ms &&
	    count[GC_SWEEPING] / 1000000 == sweep_ms &&
	    (count[GC_MARKING] + count[GC_SWEEPING]) / 1000000 == stat_of("time")) {
		rut_agent_hot.gc_ns = &count[GC_MARKING];
		rut_agent_hot.gc_sweep_ns = &count[GC_SWEEPING];
	}
	return rb.qnil;
}

void rut_agent_gc_time_find(void)
{
	int failed = 0;

	if (rb.abi->gc_time == RUT_GC_TIME_UNKNOWN || rut_agent_hot.gcs == &no_count ||
	    rut_agent_hot.gc_ns != &no_time)
		return;
	rb.rb_protect(rb.abi->gc_time == RUT_GC_TIME_SPLIT ? find_split_body : find_body, 0,
		      &failed);
	if (failed)
		rb.rb_set_errinfo(rb.qnil);
}

#define EC_WORDS_FIRST 3  /* the VM stack, its size and the frame come before */
#define EC_WORDS       32 /* all have more */

RUT_COLD void rut_agent_trace_arg_find(const struct rut_trace_arg *ta)
{
	const uintptr_t *ec = ta->ec;
	unsigned found = 0;

	for (unsigned i = EC_WORDS_FIRST; i < EC_WORDS; i++) {
		if (ec[i] != (uintptr_t)ta)
			continue;
		if (found)
			return;
		found = i;
	}
	rb.ec_trace_arg = found;
}

bool rut_agent_protect(VALUE (*fn)(VALUE), VALUE arg)
{
	volatile VALUE saved = rb.rb_errinfo();
	int failed = 0;

	rb.rb_protect(fn, arg, &failed);
	if (!failed)
		return false;
	/*
	 * rb_set_errinfo() raises for what is no exception: what is thrown (kept in the frame that
	 * threw it, too), and the number that is there while a thread is killed.
	 */
	if (rut_special_p(saved) || rut_type(saved) == RUT_T_IMEMO || rut_type(saved) == RUT_T_NODE)
		saved = rb.qnil;
	rb.rb_set_errinfo(saved);
	return true;
}

VALUE rut_agent_ask(VALUE obj, const char *name)
{
	ID id = rb.rb_intern(name);

	if (!rb.rb_method_basic_definition_p ||
	    !rb.rb_method_basic_definition_p(rut_klass(obj), id))
		return rb.qnil;
	return rb.rb_funcallv(obj, id, 0, NULL);
}

bool rut_agent_frame_owner(void *ec, const VALUE *cfp, VALUE *ret_owner, VALUE *ret_mid)
{
	/* Ruby fills in the rest of its structure. */
	union {
		struct rut_trace_arg ta;
		uintptr_t words[32];
	} arg = {.words = {0}};

	arg.ta.event = RUT_EVENT_CALL;
	arg.ta.ec = ec;
	arg.ta.cfp = cfp;
	arg.ta.self = cfp[RUT_FRAME_SELF];
	*ret_mid = rb.rb_tracearg_method_id(&arg.ta);
	*ret_owner = rb.rb_tracearg_defined_class(&arg.ta);
	return *ret_mid != rb.qnil && !rut_special_p(*ret_owner);
}
