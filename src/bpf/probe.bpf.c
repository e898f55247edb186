// SPDX-License-Identifier: GPL-2.0
/*
 * Events that a session adds by name: one object is loaded for each. `on_probe` serves USDT probes
 * and functions, `on_tracepoint` any tracepoint of the kernel by its tracefs format, `on_sample` a
 * clock. They use none of the kernel's types, so that they load where it has none; the object
 * that is compiled with RUT_TYPED does, for the contexts that are read by them.
 */
#ifndef RUT_TYPED
#define RUT_NO_BTF
#endif
#include "bpf/probe.h"
#define RUT_TURNS RUT_PROBE_TURNS
#include "bpf/scratch.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct rut_probe_conf probe_conf;

/* By the cookie of the site. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RUT_PROBE_SITES);
	__type(key, __u32);
	__type(value, struct rut_probe_site);
} sites SEC(".maps");

#define REGISTERS 21 /* of struct pt_regs */

/*
 * The kernel allows loads from the context at constant distances only, and lockdown may forbid the
 * helper that reads at others.
 */
static __always_inline void copy_registers(struct rut_scratch *s, const void *ctx)
{
#pragma unroll
	for (__u32 i = 0; i < REGISTERS; i++)
		s->regs[i] = ((const volatile __u64 *)ctx)[i];
}

static __always_inline __u64 read_register(const struct rut_scratch *s, __s16 offset)
{
	if (offset < 0)
		return 0;
	/* "%ah" is the second byte. */
	return *(const volatile __u64 *)&s->regs[(__u16)offset / 8 & 31] >> (offset & 7) * 8;
}

/* No more than the operand has: behind it there may be nothing. */
static __noinline __u64 read_memory(__u64 address, __u32 bytes)
{
	__u64 value = 0;

	if (bytes == 1)
		bpf_probe_read_user(&value, 1, (void *)address);
	else if (bytes == 2)
		bpf_probe_read_user(&value, 2, (void *)address);
	else if (bytes == 4)
		bpf_probe_read_user(&value, 4, (void *)address);
	else
		bpf_probe_read_user(&value, 8, (void *)address);
	return value;
}

static __always_inline __u64 read_arg(const struct rut_scratch *s, const struct rut_probe_arg *a)
{
	__u32 shift = 64 - 8 * (a->bytes & 15);
	__u64 value = 0, address;

	switch (a->kind) {
	case RUT_ARG_CONST:
	case RUT_ARG_MISSING:
		return a->value;
	case RUT_ARG_REG:
		value = read_register(s, a->reg);
		break;
	case RUT_ARG_PLACE:
		return read_register(s, a->reg) + a->value;
	case RUT_ARG_MEM:
		address = read_register(s, a->reg) + a->value;
		if (a->index >= 0)
			address += read_register(s, a->index) << (a->scale & 3);
		value = read_memory(address, a->bytes);
		break;
	default:
		return 0;
	}
	value <<= shift & 63;
	return a->form == RUT_ARG_SIGNED ? (__u64)((__s64)value >> (shift & 63))
					 : value >> (shift & 63);
}

static __always_inline int store_probe(void *ctx, const struct rut_probe_site *site,
				       struct rut_scratch *s)
{
	bool unread = false;
	__u32 at = 0;

	if (probe_conf.nargs)
		copy_registers(s, ctx);
	for (__u32 i = 0; i < RUT_PROBE_ARGS; i++) {
		if (i >= probe_conf.nargs)
			break;
		if (probe_conf.strings >> i & 1)
			continue;
		/* Eight bytes, of which the next field overwrites what this one has not. */
		*(__u64 *)(s->record + (at & 127)) = read_arg(s, &site->args[i]);
		at += probe_conf.size[i] & 15;
	}
	for (__u32 i = 0; i < RUT_PROBE_ARGS; i++)
		if (i < probe_conf.nargs && probe_conf.strings >> i & 1)
			at = rut_forget(add_string(s, at, read_arg(s, &site->args[i]), &unread));
	return store_scratch(ctx, s, probe_conf.id, at);
}

SEC("uprobe")
int on_probe(void *ctx)
{
	__u32 key = (__u32)bpf_get_attach_cookie(ctx);
	struct rut_probe_site *site = bpf_map_lookup_elem(&sites, &key);
	struct rut_scratch *s;

	if (!site || rut_is_own() || !rut_allowed())
		return 0;
	s = take_scratch();
	if (!s)
		return 0;
	store_probe(ctx, site, s);
	give_scratch(s);
	return 0;
}

/* Runs of fields as they stand in the tracepoint's record; then its strings. */
static __always_inline int store_tracepoint(void *ctx, struct rut_scratch *s)
{
	bool unread = false;
	__u32 at = 0;

	for (__u32 i = 0; i < RUT_PROBE_RUNS; i++) {
		__u32 len = probe_conf.run_len[i];

		if (i >= probe_conf.nruns)
			break;
		if (len > 1024)
			return 0;
		bpf_probe_read_kernel(s->record + (at & 1023), len,
				      (char *)ctx + probe_conf.run_from[i]);
		at += len;
	}
	for (__u32 i = 0; i < RUT_PROBE_STRS; i++) {
		__u32 loc = 0;

		if (i >= probe_conf.nstrs)
			break;
		bpf_probe_read_kernel(&loc, sizeof(loc), (char *)ctx + probe_conf.str_at[i]);
		at = rut_forget(add_string_of(s, at, (__u64)ctx + (loc & 0xffff), true, &unread));
	}
	return store_scratch(ctx, s, probe_conf.id, at);
}

SEC("tp")
int on_tracepoint(void *ctx)
{
	struct rut_scratch *s;

	if (rut_is_own() || !rut_allowed())
		return 0;
	s = take_scratch();
	if (!s)
		return 0;
	store_tracepoint(ctx, s);
	give_scratch(s);
	return 0;
}

/* The thread that runs on this CPU now, and where. */
SEC("perf_event")
int on_sample(void *ctx)
{
	const __u64 size = 8 + conf.context_size + 40;
	__u64 id = bpf_get_current_pid_tgid();
	struct rut_slot slot;
	unsigned char *p;

	/* Not the idle task. */
	if (!(__u32)id || rut_is_own() || !rut_allowed())
		return 0;
	slot.turn = 0;
	p = rut_reserve(&slot, probe_conf.id, size, size);
	if (!p)
		return 0;
	p = rut_store_contexts(ctx, p);
	*(__u32 *)p = id >> 32;
	*(__u32 *)(p + 4) = (__u32)id;
	rut_current_comm((char *)p + 8);
	*(__u64 *)(p + 24) = rut_user_stack(ctx);
	*(__u64 *)(p + 32) = rut_stack_id(ctx, 0);
	rut_commit(&slot, size);
	return 0;
}
