/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Walks the native stack of the current thread by tables (bpf/unwind.h), from the registers that it
 * entered the kernel with. Functions that are not static are verified once a program; what they
 * share is in a place of `unwind_walks`, the one of the same number as that of stack_walks.
 */
#ifndef RUT_BPF_UNWIND_BPF_H
#define RUT_BPF_UNWIND_BPF_H

#include "bpf/kernel.h"
#include "bpf/ring.bpf.h"
#include "bpf/stack.bpf.h"
#include "bpf/unwind.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rut_unwind_proc);
} unwind_procs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rut_unwind_ranges);
} unwind_ranges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rut_unwind_page);
} unwind_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rut_unwind_cache);
} unwind_cache SEC(".maps");

struct rut_unwind_walk {
	struct rut_unwind_proc proc;
	__u64 pc, sp, bp;
	__u64 at; /* the instruction: of a return address the one before it */
	__u32 count, elide;
	__u32 exact, _pad; /* pc is where the frame was interrupted, not a return address */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RUT_STACK_NESTED);
	__type(key, __u32);
	__type(value, struct rut_unwind_walk);
} unwind_walks SEC(".maps");

#define UNWIND_SIGNAL_BP 120 /* of what the kernel saves, from the stack pointer on */
#define UNWIND_SIGNAL_SP 160
#define UNWIND_FRAME_MAX (1ull << 20) /* of code whose frame pointer is believed */

static __always_inline const struct rut_unwind_range *unwind_range(__u32 i)
{
	__u32 key = i / RUT_UNWIND_RANGES;
	struct rut_unwind_ranges *page = bpf_map_lookup_elem(&unwind_ranges, &key);

	return page ? &page->range[i & (RUT_UNWIND_RANGES - 1)] : NULL;
}

static __always_inline const struct rut_unwind_row *unwind_row(__u32 i)
{
	__u32 key = i / RUT_UNWIND_PAGE;
	struct rut_unwind_page *page = bpf_map_lookup_elem(&unwind_rows, &key);

	return page ? &page->row[i & (RUT_UNWIND_PAGE - 1)] : NULL;
}

/*
 * Steps of binary searches: is there a range or row of this number, and does it begin at `at` or
 * before? Functions of their own, because the verifier would walk through each way of a search.
 */
__noinline __u64 rut_unwind_range_is(__u32 place, __u32 i)
{
	struct rut_unwind_walk *w = bpf_map_lookup_elem(&unwind_walks, &place);
	const struct rut_unwind_range *r;

	if (!w || i >= w->proc.count)
		return 0;
	r = unwind_range(w->proc.first + i);
	return r && r->start <= w->at;
}

__noinline __u64 rut_unwind_row_is(__u32 i, __u32 end, __u64 at)
{
	const struct rut_unwind_row *row = i < end ? unwind_row(i) : NULL;

	return row && row->pc <= at;
}

/* The rule of w->at. */
__noinline __u64 rut_unwind_search(__u32 place)
{
	struct rut_unwind_walk *w = bpf_map_lookup_elem(&unwind_walks, &place);
	const struct rut_unwind_range *r;
	const struct rut_unwind_row *row;
	__u32 first, count, lo = 0;
	__u64 at;

	if (!w)
		return RUT_UNWIND_NONE;
	for (__u32 half = RUT_UNWIND_RANGES / 2; half; half /= 2)
		lo += half * (__u32)rut_unwind_range_is(place, lo + half);
	r = unwind_range(w->proc.first + lo);
	at = w->at;
	/* Code that has no tables, or is not known yet, may have frame pointers. */
	if (!r || !w->proc.count || at < r->start || at >= r->end)
		return RUT_UNWIND_RULE(RUT_UNWIND_NONE, 1, 0);
	first = r->first;
	count = r->count;
	at -= r->bias;
	lo = first;
	for (__u32 half = 1u << (RUT_UNWIND_BITS - 1); half; half /= 2)
		lo += half * (__u32)rut_unwind_row_is(lo + half, first + count, at);
	row = unwind_row(lo);
	return row && row->pc <= at ? row->rule : RUT_UNWIND_NONE;
}

static __always_inline __u32 unwind_rule(struct rut_unwind_walk *w, __u32 place)
{
	__u64 key = rut_stack_hash_step(w->proc.space * 0x9e3779b97f4a7c15ull, w->at), rule;
	__u32 slot = (__u32)(key >> 8) & conf.unwind_mask;
	struct rut_unwind_cache *c = bpf_map_lookup_elem(&unwind_cache, &slot);

	if (!c)
		return RUT_UNWIND_NONE;
	rule = *(const volatile __u64 *)&c->rule;
	/* Half of the key is beside the rule: of two CPUs that write at once none is believed. */
	if (*(const volatile __u64 *)&c->key == key && rule >> 32 == (key >> 32 ^ (__u32)key))
		return (__u32)rule;
	rule = rut_unwind_search(place);
	*(volatile __u64 *)&c->key = key;
	*(volatile __u64 *)&c->rule = (__u32)rule | (key >> 32 ^ (__u32)key) << 32;
	return (__u32)rule;
}

static __always_inline __u64 unwind_word(__u64 address)
{
	__u64 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)address);
	return value;
}

/* The caller of a function with this CFA. 0: it is the outermost. */
static __always_inline bool unwind_to(struct rut_unwind_walk *w, __u64 cfa, __u32 bp_at)
{
	__u64 words[2];

	/* Stacks grow downwards; but a signal's may be another one. */
	if (cfa <= w->sp || cfa & 7 ||
	    bpf_probe_read_user(words, sizeof(words), (void *)(cfa - 16)))
		return false;
	if (bp_at == 2)
		w->bp = words[0];
	else if (bp_at)
		w->bp = unwind_word(cfa - 8 * (__u64)bp_at);
	w->pc = words[1];
	w->sp = cfa;
	w->exact = 0;
	return true;
}

enum unwind_step { UNWIND_END, UNWIND_MORE, UNWIND_CUT };

static __always_inline enum unwind_step unwind_signal(struct rut_unwind_walk *w)
{
	__u64 saved[2], sp = w->sp;

	if (bpf_probe_read_user(saved, sizeof(saved), (void *)(sp + UNWIND_SIGNAL_SP)))
		return UNWIND_CUT;
	w->bp = unwind_word(sp + UNWIND_SIGNAL_BP);
	w->sp = saved[0];
	w->pc = saved[1];
	w->exact = 1;
	return UNWIND_MORE;
}

/* From a frame to its caller's. */
static __always_inline enum unwind_step unwind_caller(struct rut_unwind_walk *w, __u32 rule)
{
	__u64 cfa, off = 8 * (__u64)RUT_UNWIND_CFA(rule), old;
	__u32 bp_at = RUT_UNWIND_BP_AT(rule);

	switch (RUT_UNWIND_KIND(rule)) {
	case RUT_UNWIND_SP:
		cfa = w->sp + off;
		break;
	case RUT_UNWIND_BP:
		cfa = w->bp + off;
		break;
	case RUT_UNWIND_BP_WORD:
		cfa = unwind_word(w->bp - off);
		old = unwind_word(w->bp);
		if (!unwind_to(w, cfa, 0))
			return UNWIND_CUT;
		w->bp = old;
		return w->pc ? UNWIND_MORE : UNWIND_END;
	case RUT_UNWIND_SP_WORD:
		cfa = unwind_word(w->sp + off) + 8;
		break;
	case RUT_UNWIND_PLT:
		cfa = w->sp + ((w->pc & 15) >= 11 ? 16 : 8);
		break;
	case RUT_UNWIND_SIGNAL:
		return unwind_signal(w);
	case RUT_UNWIND_END:
		return UNWIND_END;
	default:
		/* Code that has no tables at all: what is compiled at run time, Go. */
		if (!off || w->bp < w->sp || w->bp - w->sp > UNWIND_FRAME_MAX)
			return UNWIND_CUT;
		cfa = w->bp + 16;
		bp_at = 2;
	}
	if (!unwind_to(w, cfa, bp_at))
		return UNWIND_CUT;
	return w->pc ? UNWIND_MORE : UNWIND_END;
}

/* Notes a frame and goes to its caller's; enum unwind_step. */
__noinline __u64 rut_unwind_step(__u32 place)
{
	struct rut_unwind_walk *w = bpf_map_lookup_elem(&unwind_walks, &place);
	struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &place);
	__u64 pc, word, count;

	if (!w || !s)
		return UNWIND_CUT;
	pc = w->pc;
	count = w->count;
	w->at = pc - !w->exact;
	word = pc;
	if (w->elide && w->at >= w->proc.loop_start && w->at < w->proc.loop_end)
		word |= RUT_STACK_LOOP;
	if (word != pc || count < RUT_UNWIND_ALL || !w->elide || pc < w->proc.ruby_start ||
	    pc >= w->proc.ruby_end) {
		if (count >= RUT_STACK_DEPTH)
			return UNWIND_CUT;
		s->address[count & 127] = word;
		w->count = (__u32)count + 1;
	}
	return unwind_caller(w, unwind_rule(w, place));
}

/* All of it, into the place's address list; the number of words. */
static __always_inline __u32 unwind_walk(struct rut_unwind_walk *w, __u32 place)
{
	const unsigned char *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &place);
	__u64 step = UNWIND_MORE;

	if (!s)
		return 0;
	/* Of struct pt_regs, by numbers: this has to load without the kernel's types, too. */
	w->bp = *(const __u64 *)(regs + 32);
	w->pc = *(const __u64 *)(regs + 128);
	w->sp = *(const __u64 *)(regs + 152);
	w->count = 0;
	w->exact = 1;
	for (__u32 i = 0; i < RUT_UNWIND_STEPS && step == UNWIND_MORE; i++)
		step = rut_unwind_step(place);
	if (step != UNWIND_END) {
		/* In a stack that is full the mark takes the place of the last frame. */
		if (w->count >= RUT_STACK_DEPTH)
			w->count = RUT_STACK_DEPTH - 1;
		s->address[w->count & 127] = RUT_STACK_CUT;
		w->count++;
	}
	return w->count;
}

/*
 * The number of the current thread's native stack. RUT_STACK_NONE: nothing is known of this
 * process. `ruby`: it runs Ruby code, whose stack is recorded beside this one.
 */
__noinline __u64 rut_unwind_stack(__u32 ruby)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct rut_unwind_proc *proc;
	struct rut_ctl_user *u;

	if (!conf.unwind_mask)
		return RUT_STACK_NONE;
	proc = bpf_map_lookup_elem(&unwind_procs, &tgid);
	if (!proc || !proc->space)
		return RUT_STACK_NONE;
	for (__u32 i = 0; i < RUT_STACK_NESTED; i++) {
		__u32 key = i, count;
		struct rut_unwind_walk *w = bpf_map_lookup_elem(&unwind_walks, &key);
		struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &key);
		__u64 id;

		if (!w || !s || __sync_val_compare_and_swap(&s->taken, 0, 1))
			continue;
		w->proc = *proc;
		w->elide = ruby && proc->loop_end;
		count = unwind_walk(w, key);
		id = rut_stack_number(key, (__u64)count * 8);
		__sync_val_compare_and_swap(&s->taken, 1, 0);
		return id;
	}
	u = rut_ctl_user();
	if (u)
		__sync_fetch_and_add(&u->stacks_lost, 1);
	return RUT_STACK_LOST;
}

/* A child has its parent's memory. */
static __noinline __attribute__((unused)) int rut_unwind_forked(__u32 parent, __u32 child)
{
	struct rut_unwind_proc *proc = bpf_map_lookup_elem(&unwind_procs, &parent), copy;

	if (!proc)
		return 0;
	copy = *proc;
	bpf_map_update_elem(&unwind_procs, &child, &copy, BPF_ANY);
	return 0;
}

static __always_inline void rut_unwind_forget(__u32 tgid)
{
	bpf_map_delete_elem(&unwind_procs, &tgid);
}

#endif
