/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The values of the contexts that bpf/events.h lists: one function each, of the current task. The
 * values are those of LTTng's contexts of the same names.
 */
#ifndef RUT_BPF_CONTEXT_BPF_H
#define RUT_BPF_CONTEXT_BPF_H

#include "bpf/filter.bpf.h"
#ifndef RUT_NO_BTF
#include "bpf/kstack.bpf.h"
#endif
#include "bpf/ruby.bpf.h"
#include "bpf/stack.bpf.h"
#include "bpf/unwind.bpf.h"

#define RUT_CONTEXT(sym)                                                                           \
	static __always_inline __u64 rut_context_##sym(void *ctx, __u64 id, __u32 event)

RUT_CONTEXT(PID)
{
	return id >> 32;
}
RUT_CONTEXT(TID)
{
	return (__u32)id;
}
RUT_CONTEXT(CGROUP)
{
	return bpf_get_current_cgroup_id();
}
RUT_CONTEXT(CPU)
{
	return bpf_get_smp_processor_id();
}
/* By tables where they are known, otherwise by frame pointers. */
static __always_inline __u64 rut_user_stack(void *ctx)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	bool ruby = conf.contexts & RUT_CTX_RSTACK && bpf_map_lookup_elem(&rubies, &tgid);
	__u64 id = rut_unwind_stack(ruby && rut_ruby_runs());

	if (id != RUT_STACK_NONE)
		return id;
	/*
	 * Beside a Ruby stack the native functions that its innermost method runs are wanted. What
	 * is outside of them is the interpreter, mostly without frame pointers: long and expensive.
	 */
	if (ruby)
		return rut_stack_id_max(ctx, BPF_F_USER_STACK, RUT_RUBY_NATIVE * 8);
	return rut_stack_id(ctx, BPF_F_USER_STACK);
}
RUT_CONTEXT(USTACK)
{
	return ctx ? rut_user_stack(ctx) : RUT_STACK_NONE;
}
RUT_CONTEXT(KSTACK)
{
#ifdef RUT_NO_BTF
	return ctx ? rut_stack_id(ctx, 0) : RUT_STACK_NONE;
#else
	return ctx ? rut_kernel_stack(ctx, event) : RUT_STACK_NONE;
#endif
}

RUT_CONTEXT(RSTACK)
{
	/* Only with the events that were said, if some were. */
	if (conf.rstack_some &&
	    !(conf.rstack_events[event >> 6 & (RUT_EVENT_WORDS - 1)] >> (event & 63) & 1))
		return RUT_STACK_NONE;
	return ctx ? rut_ruby_stack() : RUT_STACK_NONE;
}

/* Counter * conf.perf_cpus + CPU -> a perf event of that CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 4);
} perf_counters SEC(".maps");

#define RUT_CONTEXT_PERF(n)                                                                        \
	RUT_CONTEXT(PERF##n)                                                                       \
	{                                                                                          \
		return bpf_perf_event_read(&perf_counters,                                         \
					   (n)*conf.perf_cpus + bpf_get_smp_processor_id());       \
	}
RUT_CONTEXT_PERF(0)
RUT_CONTEXT_PERF(1)
RUT_CONTEXT_PERF(2)
RUT_CONTEXT_PERF(3)

static __always_inline void rut_context_PROCNAME(char *to)
{
	rut_current_comm(to);
}

#define RUT_STORE_NUMBER(type, sym)                                                                \
	do {                                                                                       \
		*(type *)p = (type)rut_context_##sym(ctx, id, event);                              \
		p += sizeof(type);                                                                 \
	} while (0)
#define RUT_STORE_S8(sym)  RUT_STORE_NUMBER(__s8, sym)
#define RUT_STORE_S32(sym) RUT_STORE_NUMBER(__s32, sym)
#define RUT_STORE_U32(sym) RUT_STORE_NUMBER(__u32, sym)
#define RUT_STORE_U64(sym) RUT_STORE_NUMBER(__u64, sym)
#define RUT_STORE_X64(sym) RUT_STORE_NUMBER(__u64, sym)
#define RUT_STORE_TEXT16(sym)                                                                      \
	do {                                                                                       \
		rut_context_##sym((char *)p);                                                      \
		p += 16;                                                                           \
	} while (0)
#define RUT_STORE_CONTEXT(sym, name, field, kind)                                                  \
	if (conf.contexts & RUT_CTX_##sym)                                                         \
		RUT_STORE_##kind(sym);

#ifndef RUT_NO_BTF
#include "bpf/context_typed.bpf.h"

/* Rare, so that their code is in each object once. */
static __noinline unsigned char *rut_store_typed(void *ctx, unsigned char *p, __u32 event)
{
	const __u64 id = 0;

	RUT_CONTEXTS_TYPED(RUT_STORE_CONTEXT)
	return p;
}
#endif

/*
 * Stores the contexts behind the header word, without stacks when `ctx` is NULL; returns where the
 * payload starts.
 */
static __always_inline unsigned char *rut_store_contexts(void *ctx, unsigned char *p)
{
	__u64 id = 0;
	const __u32 event = *(const __u16 *)p;

	if (conf.contexts & (RUT_CTX_PID | RUT_CTX_TID))
		id = bpf_get_current_pid_tgid();
	p += 8;
	RUT_CONTEXTS_PLAIN(RUT_STORE_CONTEXT)
#ifndef RUT_NO_BTF
	if (conf.contexts & RUT_CTX_TYPED)
		p = rut_store_typed(ctx, p, event);
#endif
	return p;
}

#endif
