/* SPDX-License-Identifier: MIT */
/*
 * The part of Ruby's C API that the agent uses, declared without Ruby's headers.
 *
 * One agent serves every Ruby from 2.5 on: the functions are looked up in the process that it finds
 * itself in. Those marked 0 may be missing; what needs them is then switched off.
 *
 * Layouts that the agent reads itself are few: the first words of an object (flags, class), which
 * are Ruby's public ABI, and the first fields of the argument of trace functions (see rb.c, which
 * checks them before use).
 */
#ifndef RUT_AGENT_RB_H
#define RUT_AGENT_RB_H

#include "ruby_abi/ruby_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uintptr_t VALUE;
typedef uintptr_t ID;

/* For variables: then the compiler knows that they are in here, and takes no detour to them. */
#define RUT_HIDDEN __attribute__((visibility("hidden")))

#define RUT_INLINE	inline __attribute__((always_inline))
#define RUT_LIKELY(x)	__builtin_expect(!!(x), 1)
#define RUT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RUT_COLD	__attribute__((noinline, cold))

#define RUT_QFALSE		  ((VALUE)0)
#define RUT_EVENT_LINE		  0x0001u
#define RUT_EVENT_CLASS		  0x0002u
#define RUT_EVENT_END		  0x0004u
#define RUT_EVENT_CALL		  0x0008u
#define RUT_EVENT_RETURN	  0x0010u
#define RUT_EVENT_C_CALL	  0x0020u
#define RUT_EVENT_C_RETURN	  0x0040u
#define RUT_EVENT_RAISE		  0x0080u
#define RUT_EVENT_B_CALL	  0x0100u
#define RUT_EVENT_B_RETURN	  0x0200u
#define RUT_EVENT_THREAD_BEGIN	  0x0400u
#define RUT_EVENT_THREAD_END	  0x0800u
#define RUT_EVENT_FIBER_SWITCH	  0x1000u
#define RUT_EVENT_SCRIPT_COMPILED 0x2000u
#define RUT_EVENT_RESCUE	  0x4000u
#define RUT_EVENT_NEWOBJ	  0x100000u
#define RUT_EVENT_GC_START	  0x400000u
#define RUT_EVENT_GC_END_MARK	  0x800000u
#define RUT_EVENT_GC_END_SWEEP	  0x1000000u
#define RUT_EVENT_GC_ENTER	  0x2000000u
#define RUT_EVENT_GC_EXIT	  0x4000000u

/* rb_internal_thread_add_event_hook(), Ruby 3.2 */
#define RUT_THREAD_READY     0x02u
#define RUT_THREAD_RESUMED   0x04u
#define RUT_THREAD_SUSPENDED 0x08u

/* Flags of rb_add_event_hook2(): as TracePoint uses it; the function gets the struct below. */
#define RUT_HOOK_RAW 5 /* RUBY_EVENT_HOOK_FLAG_SAFE | RUBY_EVENT_HOOK_FLAG_RAW_ARG */

enum {
	RUT_T_OBJECT = 0x01,
	RUT_T_CLASS = 0x02,
	RUT_T_MODULE = 0x03,
	RUT_T_FLOAT = 0x04,
	RUT_T_STRING = 0x05,
	RUT_T_ARRAY = 0x07,
	RUT_T_HASH = 0x08,
	RUT_T_STRUCT = 0x09,
	RUT_T_BIGNUM = 0x0a,
	RUT_T_DATA = 0x0c,
	RUT_T_SYMBOL = 0x14,
	RUT_T_IMEMO = 0x1a,
	RUT_T_NODE = 0x1b,
	RUT_T_ICLASS = 0x1c,
	RUT_T_ZOMBIE = 0x1d,
	RUT_T_MOVED = 0x1e,
	RUT_T_MASK = 0x1f,
};

#define RUT_IMEMO_SVAR 2
#define RUT_IMEMO_MENT 6
#define RUT_IMEMO_ISEQ 7

struct rut_trace_arg;

typedef void (*rut_tp_fn)(VALUE tp, void *data);
typedef void (*rut_raw_fn)(VALUE data, struct rut_trace_arg *ta);
typedef int (*rut_heap_fn)(void *start, void *end, size_t stride, void *data);
typedef void (*rut_reach_fn)(VALUE obj, void *data);
typedef void (*rut_root_fn)(const char *category, VALUE obj, void *data);
typedef int (*rut_ivar_fn)(ID id, VALUE value, uintptr_t data);
typedef void (*rut_job_fn)(void *data);

/* F(required, return type, name, arguments) */
#define RUT_RB_FUNCS(F)                                                                            \
	F(1, VALUE, rb_tracepoint_new, (VALUE, uint32_t, rut_tp_fn, void *))                       \
	F(1, VALUE, rb_tracepoint_enable, (VALUE))                                                 \
	F(1, VALUE, rb_tracepoint_disable, (VALUE))                                                \
	F(1, struct rut_trace_arg *, rb_tracearg_from_tracepoint, (VALUE))                         \
	F(1, VALUE, rb_tracearg_method_id, (struct rut_trace_arg *))                               \
	F(1, VALUE, rb_tracearg_defined_class, (struct rut_trace_arg *))                           \
	F(0, VALUE, rb_tracearg_binding, (struct rut_trace_arg *))                                 \
	F(1, VALUE, rb_tracearg_raised_exception, (struct rut_trace_arg *))                        \
	F(1, int, rb_profile_frames, (int, int, VALUE *, int *))                                   \
	F(1, VALUE, rb_profile_frame_path, (VALUE))                                                \
	F(1, VALUE, rb_profile_frame_absolute_path, (VALUE))                                       \
	F(1, VALUE, rb_profile_frame_first_lineno, (VALUE))                                        \
	F(0, VALUE, rb_profile_frame_full_label, (VALUE))                                          \
	F(1, VALUE, rb_profile_frame_label, (VALUE))                                               \
	F(1, VALUE, rb_profile_frame_base_label, (VALUE))                                          \
	F(1, VALUE, rb_profile_frame_classpath, (VALUE))                                           \
	F(1, VALUE, rb_profile_frame_method_name, (VALUE))                                         \
	F(1, VALUE, rb_profile_frame_singleton_method_p, (VALUE))                                  \
	F(0, const char *, rb_source_location_cstr, (int *))                                       \
	F(1, const char *, rb_sourcefile, (void))                                                  \
	F(1, int, rb_sourceline, (void))                                                           \
	F(1, void, rb_objspace_each_objects, (rut_heap_fn, void *))                                \
	F(0, void, rb_objspace_each_objects_without_setup, (rut_heap_fn, void *))                  \
	F(0, int, rb_objspace_garbage_object_p, (VALUE))                                           \
	F(0, int, rb_objspace_marked_object_p, (VALUE))                                            \
	F(1, void, rb_objspace_reachable_objects_from, (VALUE, rut_reach_fn, void *))              \
	F(0, void, rb_objspace_reachable_objects_from_root, (rut_root_fn, void *))                 \
	F(0, void, rb_ivar_foreach, (VALUE, rut_ivar_fn, uintptr_t))                               \
	F(0, void *, rb_mod_const_at, (VALUE, void *))                                             \
	F(0, int, rb_st_foreach, (void *, int (*)(uintptr_t, uintptr_t, uintptr_t), uintptr_t))    \
	F(0, void, rb_st_free_table, (void *))                                                     \
	F(0, VALUE, rb_hash_size, (VALUE))                                                         \
	F(0, VALUE, rb_iseqw_new, (VALUE))                                                         \
	F(0, VALUE, rb_iseqw_to_iseq, (VALUE))                                                     \
	F(0, VALUE, rb_iseq_type, (VALUE))                                                         \
	F(0, VALUE, rb_iseq_parameters, (VALUE, int))                                              \
	F(0, VALUE, rb_proc_get_iseq, (VALUE, int *))                                              \
	F(0, int, rb_postponed_job_register_one, (unsigned, rut_job_fn, void *))                   \
	F(0, unsigned, rb_postponed_job_preregister, (unsigned, rut_job_fn, void *))               \
	F(0, void, rb_postponed_job_trigger, (unsigned))                                           \
	F(1, VALUE, rb_protect, (VALUE(*)(VALUE), VALUE, int *))                                   \
	F(1, VALUE, rb_errinfo, (void))                                                            \
	F(1, void, rb_set_errinfo, (VALUE))                                                        \
	F(1, ID, rb_intern, (const char *))                                                        \
	F(1, const char *, rb_id2name, (ID))                                                       \
	F(1, ID, rb_sym2id, (VALUE))                                                               \
	F(1, VALUE, rb_id2sym, (ID))                                                               \
	F(1, VALUE, rb_const_get, (VALUE, ID))                                                     \
	F(0, VALUE, rb_gv_get, (const char *))                                                     \
	F(0, int, rb_const_defined, (VALUE, ID))                                                   \
	F(0, VALUE, rb_autoload_p, (VALUE, ID))                                                    \
	F(1, VALUE, rb_attr_get, (VALUE, ID))                                                      \
	F(0, VALUE, rb_class_attached_object, (VALUE))                                             \
	F(1, VALUE, rb_mod_name, (VALUE))                                                          \
	F(1, VALUE, rb_class_real, (VALUE))                                                        \
	F(1, VALUE, rb_obj_class, (VALUE))                                                         \
	F(1, VALUE, rb_funcallv, (VALUE, ID, int, const VALUE *))                                  \
	F(0, VALUE, rb_funcallv_kw, (VALUE, ID, int, const VALUE *, int))                          \
	F(1, VALUE, rb_block_call,                                                                 \
	  (VALUE, ID, int, const VALUE *, VALUE (*)(VALUE, VALUE, int, const VALUE *, VALUE),      \
	   VALUE))                                                                                 \
	F(0, VALUE, rb_data_object_wrap, (VALUE, void *, void (*)(void *), void (*)(void *)))      \
	F(1, VALUE, rb_hash_new, (void))                                                           \
	F(1, VALUE, rb_hash_aset, (VALUE, VALUE, VALUE))                                           \
	F(0, VALUE, rb_hash_lookup, (VALUE, VALUE))                                                \
	F(0, void, rb_hash_foreach, (VALUE, int (*)(VALUE, VALUE, VALUE), VALUE))                  \
	F(0, VALUE, rb_iseq_load, (VALUE, VALUE, VALUE))                                           \
	F(1, VALUE, rb_obj_hide, (VALUE))                                                          \
	F(1, VALUE, rb_ary_new, (void))                                                            \
	F(1, VALUE, rb_ary_new_capa, (long))                                                       \
	F(1, VALUE, rb_ary_push, (VALUE, VALUE))                                                   \
	F(1, VALUE, rb_ary_pop, (VALUE))                                                           \
	F(1, void, rb_ary_store, (VALUE, long, VALUE))                                             \
	F(0, int, rb_method_basic_definition_p, (VALUE, ID))                                       \
	F(1, VALUE, rb_ary_entry, (VALUE, long))                                                   \
	F(1, VALUE, rb_str_new, (const char *, long))                                              \
	F(1, VALUE, rb_thread_current, (void))                                                     \
	F(0, VALUE, rb_thread_main, (void))                                                        \
	F(0, void, rb_thread_check_ints, (void))                                                   \
	F(1, VALUE, rb_fiber_current, (void))                                                      \
	F(1, VALUE, rb_gc_disable, (void))                                                         \
	F(1, VALUE, rb_gc_enable, (void))                                                          \
	F(1, int, rb_during_gc, (void))                                                            \
	F(1, size_t, rb_gc_count, (void))                                                          \
	F(1, size_t, rb_gc_stat, (VALUE))                                                          \
	F(1, VALUE, rb_gc_latest_gc_info, (VALUE))                                                 \
	F(1, void, rb_add_event_hook2, (rut_raw_fn, uint32_t, VALUE, int))                         \
	F(1, int, rb_remove_event_hook_with_data, (rut_raw_fn, VALUE))                             \
	F(0, void, rb_exec_event_hooks, (struct rut_trace_arg *, const VALUE *, int))              \
	F(1, void, rb_gc_register_address, (VALUE *))                                              \
	F(1, void, rb_gc_unregister_address, (VALUE *))                                            \
	F(1, void, ruby_xfree, (void *))                                                           \
	F(0, size_t, rb_absint_size, (VALUE, int *))                                               \
	F(0, VALUE, rb_big2str, (VALUE, int))                                                      \
	F(0, int, rb_range_values, (VALUE, VALUE *, VALUE *, int *))                               \
	F(0, VALUE, rb_struct_members, (VALUE))                                                    \
	F(0, VALUE, rb_struct_aref, (VALUE, VALUE))                                                \
	F(1, double, rb_float_value, (VALUE))                                                      \
	F(0, void *, rb_internal_thread_add_event_hook,                                            \
	  (void (*)(uint32_t, const void *, void *), uint32_t, void *))                            \
	F(0, bool, rb_internal_thread_remove_event_hook, (void *))                                 \
	F(0, size_t, rb_obj_memsize_of, (VALUE))                                                   \
	F(0, int, rb_objspace_internal_object_p, (VALUE))                                          \
	F(0, VALUE, rb_gc_start, (void))                                                           \
	F(1, int, ruby_thread_has_gvl_p, (void))

/* F(name): variables */
#define RUT_RB_VARS(F)                                                                             \
	F(VALUE, rb_cObject)                                                                       \
	F(VALUE, rb_cComplex)                                                                      \
	F(VALUE, rb_argv0)                                                                         \
	F(void *, ruby_single_main_ractor)                                                         \
	F(uint32_t, ruby_vm_event_flags)                                                           \
	F(const char, ruby_version)

struct rut_rb {
#define F(required, ret, name, args) ret(*name) args;
	RUT_RB_FUNCS(F)
#undef F
#define F(type, name) type *name;
	RUT_RB_VARS(F)
#undef F
	const struct rut_ruby_abi *abi; /* what is so in this Ruby */
	unsigned tp_word;		/* of a tracepoint's data: where our own is; 0: not known */
	bool tp_embedded;		/* a tracepoint's data is in the object */
	unsigned ec_trace_arg;		/* of an execution context: its event; 0: not known */
	bool threads_move;		/* all may, from one native thread to another (M:N) */
	bool wakes_disturb;		/* a thread that Ruby wakes does not sleep on, see gvl.h */
	bool target;			/* tracepoints can be enabled for one method */
	VALUE qnil, qtrue;
	ID id_enable, id_each_child, id_local_get, id_parameters, id_trace_points, id_attached;
	VALUE sym_target, sym_method, sym_block, sym_call, sym_b_call;
	VALUE sym_major_gc_count, sym_state, sym_marking, sym_sweeping, sym_compact_count;
	bool counts_compactions;
	VALUE c_tracepoint;
	VALUE c_ractor;	   /* 0: none */
	VALUE enable_args; /* { target: ... }, reused */
};

extern struct rut_rb rb RUT_HIDDEN;

/* Epochs of life.h: a number that increases, times four, and which of the three it is. */
enum rut_life_kind {
	RUT_LIFE_OLD = 1,
	RUT_LIFE_YOUNG = 2,
	RUT_LIFE_MARKING = 3, /* `young` with another kind */
};

/* What every hook reads, in one cache line. */
extern struct rut_hot {
	/* Ruby's count of GCs; when that is not to be found, a number that it never is. */
	const size_t *gcs;
	size_t gcs_seen;	 /* what `young` and `old` were made for */
	uint64_t young, old;	 /* life.h */
	void *const *one_ractor; /* NULL there: there are several */
	/* Ruby's sum of the time of its GCs, in one word or two; always 0: not found. */
	const uint64_t *gc_ns, *gc_sweep_ns;
} rut_agent_hot RUT_HIDDEN;

/* Finds the functions. From any thread. Returns NULL or what is missing (static). */
const char *rut_agent_rb_load(void);

/*
 * With the GVL, once: symbols and classes, and the check of layouts. Returns NULL or the reason.
 * While Ruby is still starting rb.c_tracepoint stays 0: then again, later.
 */
const char *rut_agent_rb_init(void);

/* Ruby's struct rb_trace_arg_struct: the same from 2.5 to 3.4. */
struct rut_trace_arg {
	uint32_t event;
	void *ec;
	const void *cfp;
	VALUE self;
	ID id, called_id; /* of C calls; of Ruby's own only when asked for */
	VALUE klass;
	VALUE data; /* the object, the code, the exception, the value returned */
};

/*
 * From within a hook: finds the word of the execution context that says which event is reported. It
 * is rb.ec_trace_arg then, for good.
 */
void rut_agent_trace_arg_find(const struct rut_trace_arg *ta);

/*
 * Keeps an object alive at an address that is not Ruby's, until rb_gc_unregister_address(). To
 * register an address allocates, and a GC that it starts knows the object only from the stack.
 */
static inline void rut_keep(VALUE *at, VALUE v)
{
	volatile VALUE on_stack = v;

	*at = RUT_QFALSE;
	rb.rb_gc_register_address(at);
	*at = on_stack;
}

/* nil is 4 or, until 3.1, 8. */
static inline bool rut_special_p(VALUE v)
{
	return RUT_UNLIKELY(v & 7) || RUT_UNLIKELY(v <= 8);
}

static inline VALUE rut_flags(VALUE v)
{
	return *(const VALUE *)v;
}

static inline VALUE rut_klass(VALUE v)
{
	return ((const VALUE *)v)[1];
}

static inline unsigned rut_type(VALUE v)
{
	return rut_flags(v) & RUT_T_MASK;
}

/* The kind of an internal object, or -1. */
static inline int rut_imemo(VALUE v)
{
	VALUE flags = rut_flags(v);

	return (flags & RUT_T_MASK) == RUT_T_IMEMO ? (int)(flags >> 12 & 15) : -1;
}

/* The bytes of a String; *ret_len in bytes. Never runs Ruby code or raises. */
const char *rut_agent_str(VALUE str, size_t *ret_len);

/* Of a control frame: pc, sp, iseq, self, ep, the same since 2.5; ep[0] has type and flags. */
#define RUT_FRAME_PC	  0
#define RUT_FRAME_SP	  1
#define RUT_FRAME_ISEQ	  2
#define RUT_FRAME_SELF	  3
#define RUT_FRAME_EP	  4
#define RUT_ENV_MENT	  (-2) /* of ep: the method entry, in the frame of a method */
#define RUT_FRAME_BMETHOD 0x40
#define RUT_FRAME_C	  0x80
#define RUT_FRAME_TYPE	  0x7fff0001u
#define RUT_FRAME_CFUNC	  0x55550001u
#define RUT_FRAMES_UP	  16

/* The frame of Ruby code that runs this C method, or is this one; NULL: ask Ruby for its line. */
static inline const VALUE *rut_ruby_frame(const VALUE *cfp)
{
	for (int i = 0; i < RUT_FRAMES_UP; i++, cfp += rb.abi->frame_words) {
		VALUE flags = *(const VALUE *)cfp[RUT_FRAME_EP];

		if (!(flags & RUT_FRAME_C))
			return cfp;
		if ((flags & RUT_FRAME_TYPE) != RUT_FRAME_CFUNC || !rb.abi->walks_frames)
			return NULL;
	}
	return NULL;
}

/*
 * The data of an object that has data of a C type, and the type; NULL: it is no such object. Its
 * words: flags, class, and until 3.4 the type, how (typed, since 3.3 embedded), the data or their
 * address. Since 4.0 instance variables stand in for the type, which follows with "embedded" in its
 * lowest bit; "typed" is a flag.
 */
static inline const uintptr_t *rut_typed_data(VALUE v, const void **ret_type)
{
	const uintptr_t *w = (const uintptr_t *)v;
	bool old = rb.abi->data_type_first, typed = old ? w[3] & 1 && !(w[3] & ~3ul) : w[0] & 0x40;

	if ((w[0] & RUT_T_MASK) != RUT_T_DATA || !typed)
		return NULL;
	*ret_type = (const void *)(old ? w[2] : w[3] & ~1ul);
	return w[3] & (old ? 2 : 1) ? &w[4] : (const uintptr_t *)w[4];
}

static inline long rut_fix2long(VALUE v)
{
	return (long)(intptr_t)v >> 1;
}

/* True while no second ractor runs: counters then need no atomic operations. */
static inline bool rut_single_ractor(void)
{
	return *rut_agent_hot.one_ractor != NULL;
}

/* Where Ruby does not let us see it (rb.ruby_single_main_ractor). */
void rut_agent_ractors_many(void);

/* Do others than the main one run now? With the GVL; may raise. */
bool rut_agent_ractors_run(void);

/* What the GCs of this process have taken so far, by Ruby's count. */
static inline uint64_t rut_gc_time_ns(void)
{
	return *rut_agent_hot.gc_ns + *rut_agent_hot.gc_sweep_ns;
}

/* With the GVL: looks for rut_agent_hot.gc_ns, unless it is known. Only when there was a GC it is
 * found.
 */
void rut_agent_gc_time_find(void);

/*
 * Runs something that may raise, in a hook: true: it did. `$!` of the application, whose rescue
 * clause may have called the method, is what it was.
 */
bool rut_agent_protect(VALUE (*fn)(VALUE), VALUE arg);

/* `name` of `obj` by the method that Ruby itself defined, or nil. May raise. */
VALUE rut_agent_ask(VALUE obj, const char *name);

/* The line of Ruby code that runs, also from within a C method. NULL: none. */
static inline const char *rut_source_location(int *ret_line)
{
	const char *path;

	if (rb.rb_source_location_cstr) {
		path = rb.rb_source_location_cstr(ret_line);
	} else {
		path = rb.rb_sourcefile();
		*ret_line = path ? rb.rb_sourceline() : 0;
	}
	if (!path)
		*ret_line = 0;
	return path;
}

/* The class of the method of this frame, and its name; false: there is none. */
bool rut_agent_frame_owner(void *ec, const VALUE *cfp, VALUE *ret_owner, VALUE *ret_mid);

#endif
