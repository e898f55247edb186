// SPDX-License-Identifier: GPL-2.0
/*
 * The functions by which scripts read the Ruby frames of the current thread. User space takes them
 * out of this object and links them into the programs that it compiles; `functions` is never run,
 * it names them so that libbpf relocates them. The other programs keep the table of processes.
 */
#include "base/within.h"
#include "bpf/ruby.bpf.h"
#include "bpf/script_ruby.h"

#include <bpf/bpf_tracing.h>

/* As in ruby.bpf.h: the same in all versions that ruby_abi knows. */
#define METHOD_TYPE_MASK 15
#define METHOD_ISEQ	 0
#define DEF_ISEQ	 8
#define THREAD_SELF	 16
#define T_DATA		 0x0c

/* Where the thread is in a context, which differs. */
#define EC_THREAD_FIRST 5
#define EC_THREAD_LAST	9

#define INNERMOST_MAX  32 /* C methods above the innermost Ruby code */
#define INNERMOST_READ 4  /* frames that are read at once */

/* Added to a key of the cache, which then holds something else than the frame's word. */
#define KEY_METHOD 1 /* the method's word */
#define KEY_IN	   2 /* which of `methods` it is: a bit each */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RUT_SCRIPT_ASKED);
	__type(key, __u32);
	__type(value, __u32);
} asked SEC(".maps");

static __always_inline struct rut_ruby_vm *ruby_process(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, fresh = RUT_ASKED_NEW;
	struct rut_ruby_vm *proc = bpf_map_lookup_elem(&rubies, &tgid);

	if (!proc && tgid && !bpf_map_lookup_elem(&asked, &tgid))
		bpf_map_update_elem(&asked, &tgid, &fresh, BPF_NOEXIST);
	return proc;
}

static __always_inline bool ruby_take_frame(struct rut_ruby_walk *w, const __u64 *f)
{
	if (!f[CFP_PC] || !f[CFP_ISEQ])
		return false;
	w->pc = f[CFP_PC];
	w->iseq = f[CFP_ISEQ];
	w->self = f[CFP_SELF];
	w->ep = f[CFP_EP];
	return true;
}

/* The innermost frame of Ruby code into w->pc and so on, behind C methods that it calls. */
static __always_inline bool ruby_innermost(struct rut_ruby_walk *w)
{
	__u64 at = w->words[2], end = w->words[0] + w->words[1] * 8, *f = (__u64 *)w->raw;
	__u32 bytes = w->proc.frame_bytes & 255, i = 0;

	/* A read of several frames takes as long as one of a word. */
	if (at + INNERMOST_READ * bytes <= end &&
	    !bpf_probe_read_user(f, (INNERMOST_READ * bytes) & 1023, (void *)at)) {
		for (; i < INNERMOST_READ; i++) {
			if (ruby_take_frame(w, (const __u64 *)(w->raw + i * bytes)))
				return true;
		}
		at += INNERMOST_READ * bytes;
	}
	for (i = 0; i < INNERMOST_MAX; i++) {
		if (at >= end || bpf_probe_read_user(f, 40, (void *)at))
			return false;
		if (ruby_take_frame(w, f))
			return true;
		at += bytes;
	}
	return false;
}

/* As ruby_frame_method(), and blocks that are the body of a method (define_method) are found. */
static __always_inline __u64 ruby_enclosing_method(__u64 ep)
{
	__u64 env[3], me;

	for (__u32 i = 0; i < 8; i++) {
		if (bpf_probe_read_user(env, sizeof(env), (void *)(ep + EP_ME * 8)))
			return 0;
		me = ruby_method_entry(env[0]);
		if (me || env[2] & ENV_LOCAL)
			return me;
		ep = env[1] & ~3ull;
	}
	return 0;
}

/*
 * The method that the code at w->pc belongs to, also when that is a block of it; what belongs to no
 * method (a program's top level, a class body) is shown as itself.
 */
__noinline __u64 rut_ruby_resolve_method(__u32 place)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	__u64 me, def, name = 0;

	if (!w)
		return 0;
	me = ruby_enclosing_method(w->ep);
	if (!me)
		return rut_ruby_resolve_iseq(place) & ~(__u64)RUT_FRAME_LINE_MAX;
	def = ruby_word(me + ME_DEF);
	if ((ruby_word(def) & METHOD_TYPE_MASK) == METHOD_ISEQ)
		w->iseq = ruby_word(def + DEF_ISEQ);
	else /* define_method: the label of its block is that of where it was written */
		name = rut_ruby_symbol(place, ruby_word(def + DEF_ID));
	ruby_clear(w);
	if (!ruby_read_code(place, w, w->iseq))
		return 0;
	if (name) {
		for (__u32 i = 0; i < RUT_CODE_LABEL / 8; i++)
			((volatile __u64 *)w->code.label)[i] = 0;
		rut_ruby_text(place, name, RUBY_LABEL);
	}
	ruby_owner(place, w, me);
	return rut_ruby_code(place, 0);
}

static __always_inline __u64 ruby_here(struct rut_ruby_walk *w, __u32 place, __u32 what)
{
	__u64 mixed, frame;
	struct rut_frame_cache *c;

	if (!ruby_innermost(w))
		return 0;
	c = ruby_cache_slot(w, w->pc + (what == RUT_HERE_METHOD ? KEY_METHOD : 0), &mixed);
	if (!c)
		return 0;
	if (ruby_cache_holds(c, w, mixed, &frame))
		return frame;
	frame = what == RUT_HERE_METHOD ? rut_ruby_resolve_method(place)
					: rut_ruby_resolve_iseq(place);
	if (frame)
		ruby_cache_put(c, w, mixed, frame);
	return frame;
}

/* Is this the Thread object of that thread? Its data is the thread. */
static __always_inline bool ruby_is_thread(__u64 object, __u64 thread)
{
	__u64 head[6];

	if (!ruby_is_heap(object) || bpf_probe_read_user(head, sizeof(head), (void *)object) ||
	    (head[0] & T_MASK) != T_DATA)
		return false;
	return head[2] == thread || head[3] == thread || head[4] == thread || head[5] == thread;
}

/* A fiber has its object at the same offset; the thread follows it. */
static __always_inline __u64 ruby_thread(const struct rut_ruby_walk *w)
{
	__u64 ret = 0;

	for (__u32 i = EC_THREAD_FIRST; i <= EC_THREAD_LAST; i++) {
		__u64 thread = ruby_word(w->words[WALK_EC] + i * 8), object;

		if (!ruby_is_heap(thread))
			continue;
		object = ruby_word(thread + THREAD_SELF);
		if (ruby_is_thread(object, thread))
			ret = object;
	}
	return ret;
}

/* Changes when an entry of `rubies` does: w->proc of another version is not used. */
__u32 ruby_version = 1;

static __always_inline void ruby_leave(__u32 place)
{
	struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &place);

	if (!s)
		return;
	/* Whoever takes it next is on this CPU, so that only the compiler could reorder. */
	asm volatile("" ::: "memory");
	*(volatile __u32 *)&s->taken = 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RUT_SCRIPT_REQUESTS);
	__type(key, struct rut_script_fiber);
	__type(value, struct rut_script_request);
} requests SEC(".maps");

struct request_name {
	__u64 words[RUT_SCRIPT_REQUEST_NAME / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RUT_SCRIPT_REQUEST_NAMES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct request_name);
} request_names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct request_name);
} request_scratch SEC(".maps");

/* In the fiber that runs: its own request. */
static __always_inline __u64 ruby_request(const struct rut_ruby_walk *w)
{
	struct rut_script_fiber key = {w->proc.generation, w->words[WALK_EC]};
	const struct rut_script_request *r = bpf_map_lookup_elem(&requests, &key);

	return r && r->vm_stack == w->words[0] ? r->name : 0;
}

/*
 * A place of `ruby_walks` for the current thread, with what is known of its process and where its
 * frames are; to be left by ruby_leave(). NULL: it runs no Ruby, or all places are taken.
 */
static __always_inline struct rut_ruby_walk *ruby_enter(__u32 *place)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	for (__u32 i = 0; i < RUT_STACK_NESTED; i++) {
		__u32 key = i, version = *(volatile __u32 *)&ruby_version;
		struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &key);
		struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &key);
		struct rut_ruby_vm *proc;

		if (!w || !s || __sync_val_compare_and_swap(&s->taken, 0, 1))
			continue;
		if (w->tgid != tgid || w->version != version) {
			proc = ruby_process();
			w->tgid = 0;
			if (proc) {
				w->proc = *proc;
				w->tgid = tgid;
				w->version = version;
			}
		}
		if (w->tgid && ruby_find_frames(w, &w->proc)) {
			*place = key;
			return w;
		}
		ruby_leave(key);
		return NULL;
	}
	return NULL;
}

/* enum rut_script_here; 0: the current thread runs no Ruby. */
__noinline __u64 rut_script_here(__u32 what)
{
	__u32 place = 0;
	struct rut_ruby_walk *w = ruby_enter(&place);
	__u64 ret;

	if (!w)
		return 0;
	ret = what == RUT_HERE_THREAD	 ? ruby_thread(w)
	      : what == RUT_HERE_REQUEST ? ruby_request(w)
					 : ruby_here(w, place, what);
	ruby_leave(place);
	return ret;
}

/* The number of the stack of the innermost `max` frames; RUT_STACK_NONE: there is none. */
__noinline __u64 rut_script_rstack(__u32 max)
{
	struct rut_ruby_vm *proc = ruby_process();

	return proc ? ruby_stack_of(proc, max < RUT_RUBY_DEPTH ? max : RUT_RUBY_DEPTH)
		    : RUT_STACK_NONE;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RUT_SCRIPT_METHODS);
	__type(key, __u32);
	__type(value, struct rut_script_method);
} methods SEC(".maps");

/* Are the names of the code in w->code those of this method? */
__noinline __u64 rut_script_is_method(__u32 place, __u32 number)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	struct rut_script_method *m = bpf_map_lookup_elem(&methods, &number);
	__u64 differ = 0;

	if (!w || !m || !m->used)
		return 0;
	for (__u32 i = 0; i < RUT_CODE_LABEL / 8; i++)
		differ |= ((__u64 *)w->code.label)[i] ^ ((__u64 *)m->label)[i];
	if (m->any_class)
		return !differ;
	for (__u32 i = 0; i < RUT_CODE_CLASS / 8; i++)
		differ |= ((__u64 *)w->code.class_name)[i] ^ ((__u64 *)m->class_name)[i];
	return !differ && m->singleton == w->code.singleton;
}

/* Which of `methods` the code at w->pc is, or the C method `entry`. False: it cannot be read. */
static __always_inline bool ruby_methods_of(__u32 place, __u64 entry, __u64 *bits)
{
	*bits = 0;
	if (!(entry ? rut_ruby_resolve_c(place, entry) : rut_ruby_resolve_method(place)))
		return false;
	for (__u32 i = 0; i < RUT_SCRIPT_METHODS; i++)
		*bits |= rut_script_is_method(place, i) << i;
	return true;
}

#define IN_UNKNOWN (1ull << 63) /* beside the bits of `methods`: a frame could not be read */

/* The same for one frame of those in w->raw, from the cache if it is there. */
__noinline __u64 rut_script_frame(__u32 place, __u32 at)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	__u64 entry = 0, mixed, bits;
	struct rut_frame_cache *c;

	at &= 8191;
	if (!w)
		return IN_UNKNOWN;
	if (!ruby_take_frame(w, (const __u64 *)(w->raw + at))) {
		if (!ruby_c_entry(w, ((const __u64 *)(w->raw + at))[CFP_EP], &entry))
			return IN_UNKNOWN;
		if (!entry)
			return 0;
	}
	c = ruby_cache_slot(w, (entry ? entry : w->pc) + KEY_IN, &mixed);
	if (!c)
		return IN_UNKNOWN;
	if (ruby_cache_holds(c, w, mixed, &bits))
		return bits;
	if (!ruby_methods_of(place, entry, &bits))
		return IN_UNKNOWN;
	ruby_cache_put(c, w, mixed, bits);
	return bits;
}

/* Which of `methods` are among the `n` frames from this address on. */
__noinline __u64 rut_script_frames(__u32 place, __u64 at, __u32 n)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	__u64 len, bits = 0;
	__u32 bytes, offset = 0;

	if (!w)
		return IN_UNKNOWN;
	bytes = w->proc.frame_bytes;
	/* In 64 bits: Linux 6.1 forgets the bounds of a product of 32. */
	len = (__u64)n * bytes;
	if (len > 8192 || bpf_probe_read_user(w->raw, len, (void *)at))
		return IN_UNKNOWN;
	w->near_at = 0;
	for (__u32 i = 0; i < 64; i++) {
		if (i >= n)
			break;
		bits |= rut_script_frame(place, offset);
		offset += bytes;
	}
	return bits;
}

static __always_inline __u64 ruby_all_methods(struct rut_ruby_walk *w, __u32 place, __u64 n)
{
	__u64 at = w->words[2], bits = 0;

	for (__u32 i = 0; i < RUT_RUBY_DEPTH / 64; i++) {
		__u32 k = n < 64 ? (__u32)n : 64;

		if (!k)
			break;
		bits |= rut_script_frames(place, at, k);
		n -= k;
		at += (__u64)k * w->proc.frame_bytes;
	}
	return bits;
}

/* The sum of all frames, by which the stack is known until the next collection of garbage. */
static __always_inline bool ruby_sum_all(struct rut_ruby_walk *w, __u32 place, __u64 n)
{
	__u64 at = w->words[2];

	w->sum = n + 1;
	for (__u32 i = 0; i < RUT_RUBY_DEPTH / 64; i++) {
		__u32 k = n < 64 ? (__u32)n : 64;

		if (!k)
			break;
		if (!rut_ruby_sum(place, at, k))
			return false;
		n -= k;
		at += (__u64)k * w->proc.frame_bytes;
	}
	return true;
}

static __always_inline __u64 ruby_depth(const struct rut_ruby_walk *w)
{
	return (w->words[0] + w->words[1] * 8 - w->words[2]) / w->proc.frame_bytes;
}

/* Which of `methods` the thread runs, in any of its frames. */
static __always_inline __u64 ruby_methods_in(struct rut_ruby_walk *w, __u32 place)
{
	__u64 n = ruby_depth(w), mixed, bits;
	struct rut_frame_cache *c;

	/* A frame that cannot be read: those that can be are compared. */
	if (!ruby_sum_all(w, place, n))
		return ruby_all_methods(w, place, n);
	c = ruby_cache_slot(w, w->sum + KEY_IN, &mixed);
	if (!c)
		return 0;
	if (ruby_cache_holds(c, w, mixed, &bits))
		return bits;
	bits = ruby_all_methods(w, place, n);
	if (!(bits & IN_UNKNOWN))
		ruby_cache_put(c, w, mixed, bits);
	return bits;
}

/* Agents follow the threads of processes (base/within.h). */
const volatile __u32 within_on = 0;

/* Written by the processes; see base/within.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RUT_WITHIN_SLOTS);
	__type(key, __u32);
	__type(value, struct rut_within_slot);
} within_slots SEC(".maps");

/* By thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RUT_SCRIPT_THREADS);
	__type(key, __u32);
	__type(value, struct rut_script_thread);
} within_threads SEC(".maps");

/* Processes with all of their hooks: of which methods, a bit each. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RUT_RUBY_PROCS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u64);
} within_ready SEC(".maps");

/* Does the agent follow that method in this thread? Then the answer: a bit for each method. */
static __always_inline bool within_known(__u32 number, __u64 *bits)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid(), zero = 0;
	const struct rut_script_thread *t = bpf_map_lookup_elem(&within_threads, &tid);
	const struct rut_within_slot *all, *slot;

	if (!t || !(t->known >> (number & 63) & 1))
		return false;
	all = bpf_map_lookup_elem(&within_slots, &zero);
	if (!all || *(const volatile __u64 *)&all->refused)
		return false;
	*bits = t->bits;
	if (!t->slot)
		return true;
	slot = bpf_map_lookup_elem(&within_slots, &t->slot);
	if (!slot)
		return false;
	*bits = *(const volatile __u64 *)&slot->bits;
	return true;
}

#define TASK_EXITING 4 /* PF_EXITING: its entry may have been forgotten already */

/*
 * No hook of this thread's has run yet. Whatever changes its answer is a hook, with which it gets a
 * slot: until then this holds. It does not of a stack of which only the innermost frames were read.
 */
static __always_inline void within_keep(__u64 bits)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = (__u32)id, tgid = id >> 32;
	const struct rut_script_thread *was = bpf_map_lookup_elem(&within_threads, &tid);
	const __u64 *known = bpf_map_lookup_elem(&within_ready, &tgid);
	struct rut_script_thread t = {.bits = bits};

	if (!known || bits & IN_UNKNOWN || bpf_get_current_task_btf()->flags & TASK_EXITING)
		return;
	t.known = *known;
	if (!was || (!was->slot && was->known != t.known))
		bpf_map_update_elem(&within_threads, &tid, &t, BPF_ANY);
}

/* Does the current thread run the method of this number, in any of its frames? */
__noinline __u64 rut_script_in(__u32 number)
{
	struct rut_ruby_walk *w;
	__u32 place = 0;
	__u64 bits = 0;
	bool whole;

	if (within_on && within_known(number, &bits))
		return bits >> (number & 63) & 1;
	w = ruby_enter(&place);
	if (!w)
		return 0;
	bits = ruby_methods_in(w, place);
	whole = ruby_depth(w) <= RUT_RUBY_DEPTH;
	ruby_leave(place);
	if (within_on && whole)
		within_keep(bits);
	return bits >> (number & 63) & 1;
}

SEC("rut.functions")
int functions(void *ctx)
{
	__u32 any = bpf_get_prandom_u32();

	return (int)(rut_script_here(any) + rut_script_rstack(any) + rut_script_in(any));
}

/* Which session's hits are ours (agent/hit.h). */
const volatile __u64 request_session = 0;

#if defined(__TARGET_ARCH_x86)
#define ARG(ctx, i) ((const __u64 *)(ctx))[(i) < 4 ? 14 - (i) : 13 - (i)]
#else
#define ARG(ctx, i) ((const __u64 *)(ctx))[i]
#endif

/* The number of a name, which is kept; RUT_SCRIPT_REQUEST_OTHER: there is no room. */
static __always_inline __u64 keep_request_name(struct request_name *name)
{
	__u64 hash = 0;

	for (__u32 i = 0; i < RUT_SCRIPT_REQUEST_NAME / 8; i++)
		hash = rut_stack_hash_step(hash, name->words[i]);
	hash = rut_stack_hash_end(hash);
	if (!bpf_map_lookup_elem(&request_names, &hash) &&
	    bpf_map_update_elem(&request_names, &hash, name, BPF_NOEXIST) &&
	    !bpf_map_lookup_elem(&request_names, &hash))
		return RUT_SCRIPT_REQUEST_OTHER;
	return hash;
}

/* RUT_HIT_REQUEST_NAME: a fiber's request has this name now, or has ended. */
SEC("uprobe")
int requested(struct pt_regs *ctx)
{
	struct rut_ruby_vm *proc = ARG(ctx, 0) == request_session ? ruby_process() : NULL;
	struct rut_script_fiber key = {0, ARG(ctx, 4)};
	struct rut_script_request r = {.vm_stack = ARG(ctx, 5)};
	struct request_name *name;
	__u32 zero = 0;

	if (!proc)
		return 0;
	key.generation = proc->generation;
	name = bpf_map_lookup_elem(&request_scratch, &zero);
	if (!ARG(ctx, 2) || !name) {
		bpf_map_delete_elem(&requests, &key);
		return 0;
	}
	for (__u32 i = 0; i < RUT_SCRIPT_REQUEST_NAME / 8; i++)
		((volatile __u64 *)name->words)[i] = 0;
	bpf_probe_read_user_str(name, sizeof(*name), (void *)ARG(ctx, 1));
	r.name = keep_request_name(name);
	bpf_map_update_elem(&requests, &key, &r, BPF_ANY);
	return 0;
}

/* What the agent says of its threads (base/within.h). */
SEC("uprobe")
int placed(struct pt_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = (__u32)id, tgid = id >> 32;
	struct rut_script_thread t = {.slot = (__u32)ARG(ctx, 3)};
	__u64 known = ARG(ctx, 3), *ready;
	struct rut_within_slot *slot;

	if (ARG(ctx, 0) != request_session)
		return 0;
	if (ARG(ctx, 2) == RUT_WITHIN_READY) {
		bpf_map_update_elem(&within_ready, &tgid, &known, BPF_ANY);
		return 0;
	}
	ready = bpf_map_lookup_elem(&within_ready, &tgid);
	t.known = ready ? *ready : 0;
	slot = bpf_map_lookup_elem(&within_slots, &t.slot);
	if (!bpf_map_update_elem(&within_threads, &tid, &t, BPF_ANY) && slot)
		slot->registered = 1;
	return 0;
}

static __always_inline void within_forget(__u32 tid)
{
	const struct rut_script_thread *t = bpf_map_lookup_elem(&within_threads, &tid);
	struct rut_within_slot *slot;
	__u32 i;

	if (!t)
		return;
	i = t->slot;
	bpf_map_delete_elem(&within_threads, &tid);
	slot = i ? bpf_map_lookup_elem(&within_slots, &i) : NULL;
	if (slot)
		*(volatile __u32 *)&slot->owner = 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(exited, struct task_struct *task)
{
	within_forget(task->pid);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(forked, struct task_struct *parent, struct task_struct *child)
{
	/* Of an earlier thread of that number. */
	if (within_on)
		within_forget(child->pid);
	if (parent->tgid != child->tgid)
		rut_ruby_forked(parent->tgid, child->tgid);
	return 0;
}

static __always_inline int forget(__u32 tgid)
{
	if (!bpf_map_delete_elem(&rubies, &tgid))
		__sync_fetch_and_add(&ruby_version, 1);
	bpf_map_delete_elem(&asked, &tgid);
	if (within_on)
		bpf_map_delete_elem(&within_ready, &tgid);
	return 0;
}

/* Another program's memory. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(executed, struct task_struct *task, __s32 old_pid)
{
	/* A thread that executes a program takes the number of the first one, which is no more. */
	if (within_on) {
		within_forget(task->pid);
		within_forget(old_pid);
	}
	return forget(task->tgid);
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(freed, struct task_struct *task)
{
	return task->pid == task->tgid ? forget(task->tgid) : 0;
}

char LICENSE[] SEC("license") = "GPL";
