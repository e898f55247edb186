/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's stack of the current thread, recognised as a whole (bpf/known.h).
 *
 * Unlike those of user space, the slots that the kernel's unwinder reads are not known. So all
 * words that could be one are taken: those that lie in the kernel's code or data, and those that
 * point into this stack. A word that is none of them, left behind by an earlier call, may differ
 * the next time although the stack is the same; then it is taken out. What the unwinder does depend
 * on never differs while the result is the same, so it stays.
 *
 * Linux moves the stack of each system call by a random distance: the frames below do_syscall_64()
 * are at constant distances from where the program runs, its own frame and all above it from the
 * top. Words that point into the stack count by the same distances. Where the program runs is known
 * by its context, which lies on the stack.
 */
#ifndef RUT_BPF_KSTACK_BPF_H
#define RUT_BPF_KSTACK_BPF_H

#include "bpf/kernel.h"
#include "bpf/known.bpf.h"
#include "bpf/stack.bpf.h"

#ifdef __TARGET_ARCH_x86

#define KSTACK_WORDS 512
#define KSTACK_UPPER 0x8000u		   /* a distance from the top */
#define KSTACK_REGS  168		   /* bytes of struct pt_regs */
#define KSTACK_TEXT  0xffffffff80000000ull /* of the kernel and its modules */
#define KSTACK_TRIES 64 /* stacks noted although none is recognised; then one in so many */
#define KSTACK_SKIP  1	/* frames: the program itself, which may ask at several places */

struct rut_kernel_walk {
	struct rut_known known;
	__u64 low, top; /* of the stack: the program's context, the registers of user space */
	__u64 key, leak, sum, list;
	__u32 next, _pad;   /* the return address that is looked for */
	__u32 span, missed; /* words; stacks since one was recognised */
	__u64 words[KSTACK_WORDS + 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RUT_STACK_NESTED);
	__type(key, __u32);
	__type(value, struct rut_kernel_walk);
} kernel_walks SEC(".maps");

/* The verifier gives no number of a pointer away but by way of memory. */
static __always_inline __u64 kstack_address(volatile __u64 *to, const void *pointer)
{
	*to = (__u64)pointer;
	return *to;
}

/*
 * All of the following is without jumps, because the verifier would walk through each outcome: a
 * condition is a mask, of which the compiler does not know that it is one.
 */
static __always_inline __u64 kstack_mask(__s64 negative)
{
	__u64 mask = (__u64)(negative >> 63);

	asm volatile("" : "+r"(mask));
	return mask;
}

static __always_inline __u64 kstack_differs(__u64 a, __u64 b)
{
	__s64 d = (__s64)(a ^ b);

	asm volatile("" : "+r"(d));
	return kstack_mask(d | -d);
}

/* A word as it counts; 0: the unwinder does not depend on it. */
static __always_inline __u64 kstack_word(const struct rut_kernel_walk *w, __u64 word, __u32 upper)
{
	__u64 other = kstack_differs((__u64)((__s64)word >> 31), ~0ull), up = w->top - word;
	__u64 at = word - w->low, limit = w->top + KSTACK_REGS - w->low;
	__u64 inside = kstack_mask((__s64)(at - limit)) & ~kstack_mask((__s64)at);
	__u64 lower = kstack_mask((__s64)((__u64)upper * 8 - up));

	return (word & ~other) | (other & inside & ((lower & (at + 2)) | (~lower & (1 - up))));
}

#define KSTACK_TAG(word) ((__u32)((word)*0x9e3779b97f4a7c15ull >> 48))

static __always_inline __u64 kstack_at(const struct rut_kernel_walk *w, __u32 at, __u32 upper)
{
	__u64 from_top = kstack_mask((__s64)((__u64)at << 48)), i = at & (KSTACK_UPPER - 1);

	i = ((i ^ from_top) - from_top) + (w->span & from_top);
	return kstack_word(w, w->words[i & (KSTACK_WORDS - 1)], upper);
}

/* Adds words of the entry in this slot, as they are now, to w->sum. */
__noinline __u64 rut_kernel_add(__u32 place, __u32 slot, __u32 from)
{
	struct rut_kernel_walk *w = bpf_map_lookup_elem(&kernel_walks, &place);
	const struct rut_known *k = bpf_map_lookup_elem(&known_stacks, &slot);
	__u32 count, upper, at;
	__u64 sum;

	if (!w || !k)
		return 0;
	sum = w->sum;
	count = k->count;
	upper = k->upper;
	for (__u32 i = 0; i < RUT_KNOWN_STEP; i++) {
		if (from + i >= count)
			break;
		at = k->at[(from + i) & (RUT_KNOWN_WORDS - 1)] & 0xffff;
		sum = known_add(sum, at, kstack_at(w, at, upper));
	}
	w->sum = sum;
	return 1;
}

/* The sum of an entry. */
static __always_inline __u64 kstack_sum(struct rut_kernel_walk *w, const struct rut_known *k,
					__u32 place, __u32 slot)
{
	__u32 count = k->count;

	w->sum = w->key;
	for (__u32 i = 0; i < RUT_KNOWN_WORDS; i += RUT_KNOWN_STEP) {
		if (i >= count)
			break;
		rut_kernel_add(place, slot, i);
	}
	return known_end(k, w->sum, 0);
}

/*
 * Where the return address of the outermost frame lies, in words from the top; 0: not near it. That
 * function's saved %rbp lies below: both are above the random distance.
 */
__noinline __u64 rut_kernel_upper(__u32 place, __u64 address)
{
	const struct rut_kernel_walk *w = bpf_map_lookup_elem(&kernel_walks, &place);

	for (__u32 i = 1; w && i < 64; i++)
		if (i <= w->span && w->words[(w->span - i) & (KSTACK_WORDS - 1)] == address)
			return i;
	return 0;
}

/* Notes a word if `keep` says so. */
static __always_inline void kstack_note(struct rut_kernel_walk *w, const struct rut_stack_walk *s,
					__u32 at, __u64 word, __u64 keep)
{
	__u32 entry = at | KSTACK_TAG(word) << 16, next = w->next;
	__u64 list = w->known.list, sum = w->known.sum;

	w->known.at[w->known.count & (RUT_KNOWN_WORDS - 1)] = entry;
	w->known.count += keep & 1;
	w->known.list = (rut_stack_hash_step(list, entry) & keep) | (list & ~keep);
	w->known.sum = (known_add(sum, at, word) & keep) | (sum & ~keep);
	w->next = next + (keep & ~kstack_differs(word, s->address[next & 127]) & 1);
}

/* Takes the words that may count, from this one on. */
__noinline __u64 rut_kernel_gather(__u32 place, __u32 from)
{
	struct rut_kernel_walk *w = bpf_map_lookup_elem(&kernel_walks, &place);
	const struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &place);
	__u64 word, lower, at, span;
	__u32 upper;

	if (!w || !s)
		return 0;
	upper = w->known.upper;
	span = w->span;
	for (__u32 n = 0; n < RUT_KNOWN_STEP; n++) {
		__u64 i = from + n;

		if (i >= span)
			break;
		word = kstack_word(w, w->words[i & (KSTACK_WORDS - 1)], upper);
		lower = kstack_mask((__s64)(i + upper - span));
		at = (i & lower) | ((KSTACK_UPPER | (span - i)) & ~lower);
		kstack_note(w, s, (__u32)at, word, kstack_differs(word, 0));
	}
	return 1;
}

/* Takes those of the entry in this slot, whose stack is the same, that are as they were. */
__noinline __u64 rut_kernel_refine(__u32 place, __u32 slot, __u32 from)
{
	struct rut_kernel_walk *w = bpf_map_lookup_elem(&kernel_walks, &place);
	const struct rut_known *k = bpf_map_lookup_elem(&known_stacks, &slot);
	const struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &place);
	__u32 count, entry, upper;
	__u64 word;

	if (!w || !k || !s)
		return 0;
	count = k->count;
	upper = w->known.upper;
	for (__u32 i = 0; i < RUT_KNOWN_STEP; i++) {
		if (from + i >= count)
			break;
		entry = k->at[(from + i) & (RUT_KNOWN_WORDS - 1)];
		w->list = rut_stack_hash_step(w->list, entry);
		word = kstack_at(w, entry & 0xffff, upper);
		kstack_note(w, s, entry & 0xffff, word,
			    ~kstack_differs(KSTACK_TAG(word), entry >> 16));
	}
	return 1;
}

/* The words of this stack, of an entry of the same one if there is one. False: it has too many. */
static __always_inline bool kstack_take(struct rut_kernel_walk *w, __u32 place, __u32 slot,
					bool same)
{
	const struct rut_known *k = bpf_map_lookup_elem(&known_stacks, &slot);

	w->known.count = w->known.span = 0;
	w->known.list = w->list = 0;
	w->known.sum = w->key;
	w->next = 1;
	if (!k)
		return false;
	for (__u32 i = 0; i < KSTACK_WORDS; i += RUT_KNOWN_STEP) {
		if (i >= (same ? k->count : w->span))
			break;
		if (same)
			rut_kernel_refine(place, slot, i);
		else
			rut_kernel_gather(place, i);
	}
	/* Another CPU may have written it meanwhile. */
	return same ? w->list == k->list : w->known.count <= RUT_KNOWN_WORDS;
}

/*
 * Copies the stack, from the program's context on, and returns its number, if it is known.
 * RUT_STACK_NONE: it is not, or none that can be recognised (w->span is 0).
 */
__noinline __u64 rut_kernel_known(__u32 place, __u32 event)
{
	struct rut_kernel_walk *w = bpf_map_lookup_elem(&kernel_walks, &place);
	const struct pt_regs *regs =
		(const struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	__u64 bytes, key, id;

	/* Where the helper below is forbidden the verifier must not come to it. */
	if (!conf.known_kernel || !w)
		return RUT_STACK_NONE;
	w->span = 0;
	w->top = kstack_address(&w->leak, regs);
	bytes = w->top - w->low;
	/* An interrupt has a stack of its own. */
	if (!bytes || bytes > KSTACK_WORDS * 8 || bytes & 7 ||
	    bpf_probe_read_kernel(w->words, bytes, (void *)w->low))
		return RUT_STACK_NONE;
	w->span = (__u32)(bytes / 8);
	key = rut_stack_hash_step(conf.load ^ event, bpf_get_current_pid_tgid());
	w->key = rut_stack_hash_step(key, regs->orig_ax);
	/* As a loop it is entered in its middle, which Linux 6.1 refuses ("back-edge"). */
#pragma unroll
	for (__u32 way = 0; way < 2; way++) {
		__u32 slot = known_slot(w->key, way);
		const struct rut_known *k = bpf_map_lookup_elem(&known_stacks, &slot);

		if (!k || *(const volatile __u64 *)&k->key != w->key)
			continue;
		id = known_id(k, kstack_sum(w, k, place, slot));
		if (id != RUT_STACK_NONE) {
			w->missed = 0;
			return id;
		}
	}
	return RUT_STACK_NONE;
}

/* Notes the stack that was walked now, of so many return addresses. */
__noinline __u64 rut_kernel_keep(__u32 place, __u64 id, __u32 count)
{
	struct rut_kernel_walk *w = bpf_map_lookup_elem(&kernel_walks, &place);
	const struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &place);
	__u32 slot;
	bool same = false;
	__u64 upper;

	if (!w || !s || !w->span || count < 2 || count >= RUT_STACK_DEPTH || id < RUT_STACK_MIN)
		return 0;
	/* Where none comes again, noting them is in vain. */
	if (++w->missed > KSTACK_TRIES && w->missed % KSTACK_TRIES)
		return 0;
	upper = rut_kernel_upper(place, s->address[(count - 1) & 127]);
	if (!upper)
		return 0;
	w->known.upper = (__u32)upper + 1;
	slot = known_slot(w->key, w->missed & 1);
	for (__u32 way = 0; way < 2; way++) {
		__u32 of = known_slot(w->key, way);
		const struct rut_known *k = bpf_map_lookup_elem(&known_stacks, &of);

		if (k && k->key == w->key && k->id == id && k->upper == w->known.upper) {
			slot = of;
			same = true;
			break;
		}
	}
	/* A return address that is not there was replaced by a tracer's (of returns). */
	if (kstack_take(w, place, slot, same) && w->next == count)
		known_keep(&w->known, w->key, known_end(&w->known, w->known.sum, 0), id, slot);
	else if (same) /* what was taken out of it did matter */
		known_keep(&w->known, 0, 0, 0, slot);
	return 0;
}

static __always_inline __u64 rut_kernel_stack(void *ctx, __u32 event)
{
	struct rut_ctl_user *u;

	if (!conf.known_kernel)
		return rut_stack_id(ctx, 0);
	for (__u32 i = 0; i < RUT_STACK_NESTED; i++) {
		__u32 key = i;
		struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &key);
		struct rut_kernel_walk *w = bpf_map_lookup_elem(&kernel_walks, &key);
		__u64 id;
		long bytes;

		if (!s || !w || __sync_val_compare_and_swap(&s->taken, 0, 1))
			continue;
		w->low = kstack_address(&w->leak, ctx);
		id = rut_kernel_known(key, event);
		if (id == RUT_STACK_NONE) {
			bytes = bpf_get_stack(ctx, s->address, RUT_STACK_DEPTH * 8, KSTACK_SKIP);
			if (bytes > 0) {
				id = rut_stack_number(key, (__u64)bytes);
				rut_kernel_keep(key, id, (__u32)bytes / 8);
			}
		}
		__sync_val_compare_and_swap(&s->taken, 1, 0);
		return id;
	}
	u = rut_ctl_user();
	if (u)
		__sync_fetch_and_add(&u->stacks_lost, 1);
	return RUT_STACK_LOST;
}

#else

static __always_inline __u64 rut_kernel_stack(void *ctx, __u32 event)
{
	return rut_stack_id(ctx, 0);
}

#endif

#endif
