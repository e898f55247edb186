/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Walks the native stack of the current thread by tables (bpf/unwind.h), from the registers that it
 * entered the kernel with. Functions that are not static are verified once a program; what they
 * share is in a place of `unwind_walks`, the one of the same number as that of stack_walks.
 */
#ifndef RUT_BPF_UNWIND_BPF_H
#define RUT_BPF_UNWIND_BPF_H

#include "bpf/kernel.h"
#include "bpf/known.bpf.h"
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

#define UNWIND_WINDOW 256 /* words of the stack that are read at once */

struct rut_unwind_walk {
	struct rut_unwind_proc proc;
	__u64 pc, sp, bp;
	__u64 at; /* the instruction: of a return address the one before it */
	__u32 count, elide;
	__u32 exact; /* pc is where the frame was interrupted, not a return address */
	/* What the next walk needs to recognise this stack (bpf/known.h). */
	__u32 lost; /* it cannot be recognised: a word is too far away, or was not readable */
	__u64 from; /* distances are from here on: the stack pointer */
	__u64 key, sum;
	__u64 base, have; /* words: where `words` is from, and how many */
	__u64 bp_entry;	  /* %rbp on entry */
	__u64 bp_from;	  /* where `bp` was read; UNWIND_BP_* */
	struct rut_known known;
	__u64 words[UNWIND_WINDOW + 8];
};

#define UNWIND_BP_ENTRY 0 /* nowhere: the register on entry */
#define UNWIND_BP_NOTED 1 /* it was used since, and is among the words */

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

/* A word that the walk depends on. */
static __always_inline void unwind_note(struct rut_unwind_walk *w, __u64 address, __u64 value)
{
	__u64 at = (address - w->from) / 8;
	__u32 n = w->known.count;

	if (address < w->from || address & 7 || at >= 0xffff || n >= RUT_KNOWN_WORDS) {
		w->lost = 1;
		return;
	}
	w->known.at[n & (RUT_KNOWN_WORDS - 1)] = at;
	w->known.count = n + 1;
	if (at >= w->known.span)
		w->known.span = (__u32)at + 1;
	w->sum = known_add(w->sum, at, value);
}

/* Most functions save %rbp only because another one uses it: it counts once a frame is found by it.
 */
static __always_inline __u64 unwind_use_bp(struct rut_unwind_walk *w)
{
	if (w->bp_from == UNWIND_BP_ENTRY)
		w->known.uses_bp = 1;
	else if (w->bp_from != UNWIND_BP_NOTED)
		unwind_note(w, w->bp_from, w->bp);
	w->bp_from = UNWIND_BP_NOTED;
	return w->bp;
}

static __always_inline __u64 unwind_read(struct rut_unwind_walk *w, __u64 address)
{
	__u64 value = 0;

	if (bpf_probe_read_user(&value, sizeof(value), (void *)address))
		w->lost = 1;
	return value;
}

static __always_inline __u64 unwind_word(struct rut_unwind_walk *w, __u64 address)
{
	__u64 value = unwind_read(w, address);

	unwind_note(w, address, value);
	return value;
}

static __always_inline void unwind_bp(struct rut_unwind_walk *w, __u64 address, __u64 value)
{
	w->bp = value;
	w->bp_from = address;
}

/* The caller of a function with this CFA. 0: it is the outermost. */
static __always_inline bool unwind_to(struct rut_unwind_walk *w, __u64 cfa, __u32 bp_at)
{
	__u64 words[2];

	/* Stacks grow downwards; but a signal's may be another one. */
	if (cfa <= w->sp || cfa & 7)
		return false;
	if (bpf_probe_read_user(words, sizeof(words), (void *)(cfa - 16))) {
		w->lost = 1;
		return false;
	}
	if (bp_at == 2)
		unwind_bp(w, cfa - 16, words[0]);
	else if (bp_at)
		unwind_bp(w, cfa - 8 * (__u64)bp_at, unwind_read(w, cfa - 8 * (__u64)bp_at));
	unwind_note(w, cfa - 8, words[1]);
	w->pc = words[1];
	w->sp = cfa;
	w->exact = 0;
	return true;
}

enum unwind_step { UNWIND_END, UNWIND_MORE, UNWIND_CUT };

static __always_inline enum unwind_step unwind_signal(struct rut_unwind_walk *w)
{
	__u64 saved[2], sp = w->sp;

	if (bpf_probe_read_user(saved, sizeof(saved), (void *)(sp + UNWIND_SIGNAL_SP))) {
		w->lost = 1;
		return UNWIND_CUT;
	}
	unwind_note(w, sp + UNWIND_SIGNAL_SP, saved[0]);
	unwind_note(w, sp + UNWIND_SIGNAL_SP + 8, saved[1]);
	unwind_bp(w, sp + UNWIND_SIGNAL_BP, unwind_read(w, sp + UNWIND_SIGNAL_BP));
	w->sp = saved[0];
	w->pc = saved[1];
	w->exact = 1;
	return UNWIND_MORE;
}

/* From a frame to its caller's. */
static __always_inline enum unwind_step unwind_caller(struct rut_unwind_walk *w, __u32 rule)
{
	__u64 cfa, off = 8 * (__u64)RUT_UNWIND_CFA(rule), old, at;
	__u32 bp_at = RUT_UNWIND_BP_AT(rule);

	switch (RUT_UNWIND_KIND(rule)) {
	case RUT_UNWIND_SP:
		cfa = w->sp + off;
		break;
	case RUT_UNWIND_BP:
		cfa = unwind_use_bp(w) + off;
		break;
	case RUT_UNWIND_BP_WORD:
		at = unwind_use_bp(w);
		cfa = unwind_word(w, at - off);
		old = unwind_read(w, at);
		if (!unwind_to(w, cfa, 0))
			return UNWIND_CUT;
		unwind_bp(w, at, old);
		return w->pc ? UNWIND_MORE : UNWIND_END;
	case RUT_UNWIND_SP_WORD:
		cfa = unwind_word(w, w->sp + off) + 8;
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
		if (!off)
			return UNWIND_CUT;
		at = unwind_use_bp(w);
		if (at < w->sp || at - w->sp > UNWIND_FRAME_MAX)
			return UNWIND_CUT;
		cfa = at + 16;
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

/* Adds words of the entry in this slot, as they are now, to w->sum. 0: they cannot be read. */
__noinline __u64 rut_unwind_add(__u32 place, __u32 slot, __u32 from)
{
	struct rut_unwind_walk *w = bpf_map_lookup_elem(&unwind_walks, &place);
	const struct rut_known *k = bpf_map_lookup_elem(&known_stacks, &slot);
	__u64 sum, base, have, at;
	__u32 count, span;

	if (!w || !k)
		return 0;
	sum = w->sum;
	base = w->base;
	have = w->have;
	count = k->count;
	span = k->span;
	for (__u32 i = 0; i < RUT_KNOWN_STEP; i++) {
		if (from + i >= count)
			break;
		at = k->at[(from + i) & (RUT_KNOWN_WORDS - 1)];
		if (at - base >= have) {
			base = at;
			have = span - at;
			if (have > UNWIND_WINDOW)
				have = UNWIND_WINDOW;
			if (at >= span ||
			    bpf_probe_read_user(w->words, have * 8, (void *)(w->from + at * 8)))
				return 0;
		}
		sum = known_add(sum, at, w->words[(at - base) & (UNWIND_WINDOW - 1)]);
	}
	w->sum = sum;
	w->base = base;
	w->have = have;
	return 1;
}

/* The sum of an entry; 0: its words cannot be read. */
static __always_inline __u64 unwind_sum(struct rut_unwind_walk *w, const struct rut_known *k,
					__u32 place, __u32 slot)
{
	__u32 count = k->count;

	w->sum = w->key;
	w->base = w->have = 0;
	for (__u32 i = 0; i < RUT_KNOWN_WORDS; i += RUT_KNOWN_STEP) {
		if (i >= count)
			break;
		if (!rut_unwind_add(place, slot, i))
			return 0;
	}
	return known_end(k, w->sum, w->bp_entry);
}

/* Where the walk begins. */
static __always_inline void unwind_begin(struct rut_unwind_walk *w)
{
	const unsigned char *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	__u64 key;

	/* Of struct pt_regs, by numbers: this has to load without the kernel's types, too. */
	w->bp = w->bp_entry = *(const __u64 *)(regs + 32);
	w->pc = *(const __u64 *)(regs + 128);
	w->sp = *(const __u64 *)(regs + 152);
	w->from = w->sp & ~7ull;
	key = rut_stack_hash_step(w->proc.space * 0x9e3779b97f4a7c15ull + w->elide, w->pc);
	w->sum = w->key = rut_stack_hash_step(key, w->sp);
	w->bp_from = UNWIND_BP_ENTRY;
	w->lost = w->known.count = w->known.span = w->known.uses_bp = 0;
}

/* The number of the stack, if it is one that was seen; *ret_slot: where it may be noted. */
static __always_inline __u64 unwind_known(struct rut_unwind_walk *w, __u32 place, __u32 *ret_slot)
{
	__u64 id, sum;

	for (__u32 way = 0; way < 2; way++) {
		__u32 slot = known_slot(w->key, way);
		const struct rut_known *k = bpf_map_lookup_elem(&known_stacks, &slot);

		if (!k || *(const volatile __u64 *)&k->key != w->key)
			continue;
		sum = unwind_sum(w, k, place, slot);
		id = sum ? known_id(k, sum) : RUT_STACK_NONE;
		if (id != RUT_STACK_NONE)
			return id;
		/* The other way keeps what is there. */
		*ret_slot = known_slot(w->key, !way);
	}
	w->sum = w->key;
	return RUT_STACK_NONE;
}

/* All of it, into the place's address list; the number of words. */
static __always_inline __u32 unwind_walk(struct rut_unwind_walk *w, __u32 place)
{
	struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &place);
	__u64 step = UNWIND_MORE;

	if (!s)
		return 0;
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
		__u32 key = i, count, slot;
		struct rut_unwind_walk *w = bpf_map_lookup_elem(&unwind_walks, &key);
		struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &key);
		__u64 id;

		if (!w || !s || __sync_val_compare_and_swap(&s->taken, 0, 1))
			continue;
		w->proc = *proc;
		w->elide = ruby && proc->loop_end;
		unwind_begin(w);
		slot = known_slot(w->key, 0);
		id = unwind_known(w, key, &slot);
		if (id == RUT_STACK_NONE) {
			count = unwind_walk(w, key);
			id = rut_stack_number(key, (__u64)count * 8);
			if (!w->lost && id >= RUT_STACK_MIN)
				known_keep(&w->known, w->key,
					   known_end(&w->known, w->sum, w->bp_entry), id, slot);
		}
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
