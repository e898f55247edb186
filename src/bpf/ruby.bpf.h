/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads the Ruby frames of the current thread (bpf/ruby.h says how it works). Functions that are
 * not static are verified once a program instead of once a call; what they share is in a place of
 * `ruby_walks`, because programs nest.
 */
#ifndef RUT_BPF_RUBY_BPF_H
#define RUT_BPF_RUBY_BPF_H

#include "bpf/kernel.h"
#include "bpf/ring.bpf.h"
#include "bpf/ruby.h"
#include "bpf/stack.bpf.h"

/* Words of Ruby's structures, the same in all versions that ruby_abi knows. */
#define CFP_PC	 0
#define CFP_ISEQ 2
#define CFP_SELF 3
#define CFP_EP	 4

#define EP_ME	    (-2)
#define FRAME_TYPE  0x7fff0001u
#define FRAME_CFUNC 0x55550001u
#define ENV_LOCAL   2u
/* VM_FRAME_FLAG_FINISH, without VM_FRAME_FLAG_CFRAME */
#define FRAME_BEGUN 0x20u
#define FRAME_FLAGS 0xa0u

#define ISEQ_BODY    16
#define BODY_SIZE    4
#define BODY_ENCODED 8
#define BODY_PATHOBJ 64
#define BODY_LABEL   80
#define BODY_LINE    88
#define BODY_BYTES   160

#define ME_DEF	 16
#define ME_OWNER 32
#define DEF_ID	 32 /* original_id */

#define T_MASK	 0x1f
#define T_CLASS	 0x02
#define T_MODULE 0x03
#define T_STRING 0x05
#define T_ARRAY	 0x07
#define T_IMEMO	 0x1a
#define T_ICLASS 0x1c

#define IMEMO_SVAR 2
#define IMEMO_MENT 6

#define ID_LAST_OP 1024 /* above it the serial is shifted */
#define ID_UNIT	   512

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RUT_RUBY_PROCS);
	__type(key, __u32);
	__type(value, struct rut_ruby_vm);
} rubies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rut_code_set);
} codes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rut_frame_cache);
} frame_cache SEC(".maps");

/*
 * Bytes of the VM stack that are read at once for the environments of C methods: a read takes as
 * long as all else that is done for a frame, and environments of neighbours are near each other.
 */
#define RUBY_NEAR 2048

#define WALK_EC 3 /* words of a walk: the first three of the context, and its address */

struct rut_ruby_walk {
	struct rut_ruby_vm proc;
	__u64 epoch, link;
	__u64 sum;		  /* of all frames (rut_ruby_known()) */
	__u64 pc, iseq, self, ep; /* of the current frame */
	__u32 count, stack_place; /* words in the place of stack_walks */
	__u32 taken, unknown;	  /* unknown: a frame could not be read, which may work next time */
	__u32 tgid, version;	  /* that `proc` is of (script_ruby.bpf.c) */
	__u64 words[8];
	__u64 near_at; /* where `near` is from; 0: it is not read */
	struct rut_code code;
	__u8 body[256];
	__u8 raw[8192 + 256]; /* 64 frames; the rest lets the verifier add offsets */
	__u8 near[RUBY_NEAR + 64];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RUT_STACK_NESTED);
	__type(key, __u32);
	__type(value, struct rut_ruby_walk);
} ruby_walks SEC(".maps");

static __always_inline __u64 ruby_word(__u64 address)
{
	__u64 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)address);
	return value;
}

static __always_inline bool ruby_is_heap(__u64 value)
{
	return value > 4096 && !(value & 7);
}

enum ruby_text { RUBY_PATH, RUBY_LABEL, RUBY_CLASS };

/* Copies the text of a String into the code's names; its length, 0 when it is none. */
__noinline __u64 rut_ruby_text(__u32 place, __u64 value, __u32 which)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	__u64 head[4], from, len, max = which == RUBY_PATH ? RUT_CODE_PATH - 1 : RUT_CODE_LABEL - 1;

	if (!w || !ruby_is_heap(value) || bpf_probe_read_user(head, sizeof(head), (void *)value) ||
	    (head[0] & T_MASK) != T_STRING)
		return 0;
	if (head[0] >> 13 & 1) {
		len = head[2];
		from = head[3];
	} else if (w->proc.string_len) {
		len = head[2];
		from = value + 24;
	} else {
		len = head[0] >> 14 & 31;
		from = value + 16;
	}
	if (len > max) {
		/* The end of a path says more than its beginning. */
		if (which == RUBY_PATH)
			from += len - max;
		len = max;
	}
	if (which == RUBY_PATH) {
		if (bpf_probe_read_user(w->code.path, len & 255, (void *)from))
			return 0;
	} else if (which == RUBY_LABEL) {
		if (bpf_probe_read_user(w->code.label, len & 127, (void *)from))
			return 0;
	} else if (bpf_probe_read_user(w->code.class_name, len & 127, (void *)from)) {
		return 0;
	}
	return len;
}

/* The String of a symbol's id. */
__noinline __u64 rut_ruby_symbol(__u32 place, __u64 id)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	__u64 ids, serial = id < ID_LAST_OP ? id : id >> 4, head[5];

	if (!w || !w->proc.ids)
		return 0;
	ids = ruby_word(w->proc.ids);
	if (!ruby_is_heap(ids) || bpf_probe_read_user(head, sizeof(head), (void *)ids))
		return 0;
	/* Arrays of their size are never embedded, but the outer one may be: 2 bits of length. */
	if (head[0] >> 13 & 1)
		ids = ruby_word(ids + 16 + serial / ID_UNIT * 8);
	else if (serial / ID_UNIT < head[2])
		ids = ruby_word(head[4] + serial / ID_UNIT * 8);
	else
		return 0;
	if (!ruby_is_heap(ids) || bpf_probe_read_user(head, sizeof(head), (void *)ids) ||
	    (head[0] & T_MASK) != T_ARRAY || serial % ID_UNIT * 2 >= head[2])
		return 0;
	return ruby_word(head[4] + serial % ID_UNIT * 16);
}

/* The name of a class that has one. */
__noinline __u64 rut_ruby_class_path(__u32 place, __u64 class)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	__u64 table, entry[3], head[3], at;

	if (!w || !ruby_is_heap(class))
		return 0;
	if (w->proc.class_kind == RUT_RUBY_CLASS_WORD)
		return rut_ruby_text(place, ruby_word(class + w->proc.class_at), RUBY_CLASS);
	if (w->proc.class_kind != RUT_RUBY_CLASS_TABLE)
		return 0;
	/* RClass.ptr, its iv_tbl; st_table: entries_start, entries_bound, entries. */
	table = ruby_word(ruby_word(class + 24) + 8);
	if (!ruby_is_heap(table) || bpf_probe_read_user(head, sizeof(head), (void *)(table + 32)))
		return 0;
	at = head[2] + head[0] * 24;
	for (__u32 i = 0; i < 24; i++) {
		if (head[0] + i >= head[1])
			break;
		if (bpf_probe_read_user(entry, sizeof(entry), (void *)(at + i * 24)))
			break;
		if (entry[1] == w->proc.class_id)
			return rut_ruby_text(place, entry[2], RUBY_CLASS);
	}
	return 0;
}

/*
 * The class or module that this singleton class belongs to: `self` or one of its ancestors. Both
 * chains of superclasses run side by side, but for the modules that are included in them.
 */
__noinline __u64 rut_ruby_attached(__u32 place, __u64 singleton)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	__u64 meta, class, head[3];

	if (!w || !ruby_is_heap(w->self))
		return 0;
	class = w->self;
	if (bpf_probe_read_user(head, sizeof(head), (void *)class) ||
	    ((head[0] & T_MASK) != T_CLASS && (head[0] & T_MASK) != T_MODULE))
		return 0;
	meta = head[1];
	for (__u32 i = 0; i < 16; i++) {
		if (meta == singleton)
			return class;
		for (__u32 k = 0; k < 4; k++) {
			meta = ruby_word(meta + 16);
			if ((ruby_word(meta) & T_MASK) != T_ICLASS)
				break;
		}
		for (__u32 k = 0; k < 8; k++) {
			class = ruby_word(class + 16);
			if ((ruby_word(class) & T_MASK) != T_ICLASS)
				break;
		}
		if (!ruby_is_heap(meta) || !ruby_is_heap(class))
			break;
	}
	return 0;
}

/* The method entry of an environment; 0: it is not a method's. */
static __always_inline __u64 ruby_method_entry(__u64 value)
{
	__u64 head[2];

	if (!ruby_is_heap(value) || bpf_probe_read_user(head, sizeof(head), (void *)value) ||
	    (head[0] & T_MASK) != T_IMEMO)
		return 0;
	/* Special variables stand in its place, and have it. */
	if ((head[0] >> 12 & 15) == IMEMO_SVAR) {
		value = head[1];
		head[0] = ruby_word(value);
	}
	return (head[0] & T_MASK) == T_IMEMO && (head[0] >> 12 & 15) == IMEMO_MENT ? value : 0;
}

/* The class of the method, into the names. */
static __always_inline void ruby_owner(__u32 place, struct rut_ruby_walk *w, __u64 me)
{
	__u64 owner = ruby_word(me + ME_OWNER), flags = ruby_word(owner);

	if ((flags & T_MASK) == T_CLASS && flags & w->proc.singleton) {
		owner = rut_ruby_attached(place, owner);
		w->code.singleton = owner != 0;
	}
	if (owner)
		rut_ruby_class_path(place, owner);
}

/* The method that a block is in: environments are linked outwards. */
static __always_inline __u64 ruby_frame_method(__u64 ep)
{
	__u64 env[3];

	for (__u32 i = 0; i < 8; i++) {
		if (bpf_probe_read_user(env, sizeof(env), (void *)(ep + EP_ME * 8)))
			return 0;
		if (env[2] & ENV_LOCAL)
			return ruby_method_entry(env[0]);
		ep = env[1] & ~3ull;
	}
	return 0;
}

static __always_inline __u32 ruby_bits(__u64 x)
{
	x -= x >> 1 & 0x5555555555555555ull;
	x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return x * 0x0101010101010101ull >> 56;
}

/* The number of the entry of insns_info for a position: Ruby's succinct bit vector (iseq.c). */
static __always_inline __u32 ruby_rank(__u64 table, __u32 pos)
{
	__u64 word, block, ranks;
	__u32 small;

	if (pos < 54)
		return ruby_word(table + pos / 9 * 8) >> 7 * (pos % 9) & 0x7f;
	pos -= 54;
	block = table + 48 + (__u64)(pos / 512) * 80;
	pos %= 512;
	small = pos / 64;
	ranks = small ? ruby_word(block + 8) >> 9 * (small - 1) & 0x1ff : 0;
	word = ruby_word(block + 16 + small * 8) << (63 - pos % 64);
	return (__u32)ruby_word(block) + ranks + ruby_bits(word);
}

/* The line of w->pc in the instruction sequence that was read. */
static __always_inline __u32 ruby_line(struct rut_ruby_walk *w, __u32 pos)
{
	__u32 at = w->proc.insns_info & 127, size, index = 1, line = 0;
	__u64 entries = *(__u64 *)(w->body + at);

	size = *(__u32 *)(w->body + at + 16);
	if (!size || !entries)
		return 0;
	if (size > 1)
		index = ruby_rank(*(__u64 *)(w->body + at + 24), pos);
	if (!index || index > size)
		return 0;
	bpf_probe_read_user(&line, sizeof(line),
			    (void *)(entries + (__u64)(index - 1) * w->proc.insn_bytes));
	return line;
}

/* Puts the names into the table; the frame's word. */
__noinline __u64 rut_ruby_code(__u32 place, __u64 line)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	struct rut_ctl_user *u = rut_ctl_user();
	__u64 hash = *(const volatile __u64 *)conf.uuid, now = bpf_ktime_get_ns(), id, old;
	struct rut_code_set *s;
	__u32 set, way = 0;

	if (!w || !u)
		return 0;
	for (__u32 i = 0; i < RUT_CODE_WORDS; i++)
		hash = rut_stack_hash_step(hash, ((__u64 *)&w->code)[i]);
	hash = rut_stack_hash_end(hash);
	id = RUT_FRAME_ID(hash);
	set = (__u32)id & conf.code_mask;
	s = bpf_map_lookup_elem(&codes, &set);
	if (!s)
		return 0;
	if (line > RUT_FRAME_LINE_MAX)
		line = 0;
	for (__u32 i = 0; i < RUT_CODE_WAYS; i++) {
		if (*(const volatile __u64 *)&s->id[i] == hash) {
			s->used_ns[i] = now;
			return RUT_FRAME(id, line);
		}
		if (s->used_ns[i] < s->used_ns[way & (RUT_CODE_WAYS - 1)])
			way = i;
	}
	way &= RUT_CODE_WAYS - 1;
	old = *(volatile __u64 *)&s->id[way];
	if (old == RUT_STACK_LOST ||
	    __sync_val_compare_and_swap(&s->id[way], old, RUT_STACK_LOST) != old) {
		__sync_fetch_and_add(&u->stacks_lost, 1);
		return 0;
	}
	if (old && s->written[way] != old && !conf.overwrite &&
	    s->used_ns[way] + RUT_CODE_TOUCH_NS >= u->stacks_since)
		__sync_fetch_and_add(&u->stacks_lost, 1);
	s->used_ns[way] = now;
	for (__u32 i = 0; i < RUT_CODE_WORDS; i++)
		((volatile __u64 *)&s->code[way])[i] = ((__u64 *)&w->code)[i];
	__sync_lock_test_and_set(&s->id[way], hash);
	return RUT_FRAME(id, line);
}

static __always_inline void ruby_clear(struct rut_ruby_walk *w)
{
	for (__u32 i = 0; i < RUT_CODE_WORDS; i++)
		((volatile __u64 *)&w->code)[i] = 0;
}

/* The names of a piece of Ruby code, and its body. False: it cannot be read. */
static __always_inline bool ruby_read_code(__u32 place, struct rut_ruby_walk *w, __u64 iseq)
{
	__u64 body = ruby_word(iseq + ISEQ_BODY), path, first;

	if (!ruby_is_heap(body) || bpf_probe_read_user(w->body, BODY_BYTES, (void *)body))
		return false;
	path = *(__u64 *)(w->body + BODY_PATHOBJ);
	if (ruby_is_heap(path) && (ruby_word(path) & T_MASK) == T_ARRAY)
		path = ruby_word(path + 16);
	if (!rut_ruby_text(place, path, RUBY_PATH) ||
	    !rut_ruby_text(place, *(__u64 *)(w->body + BODY_LABEL), RUBY_LABEL))
		return false;
	first = *(__u64 *)(w->body + BODY_LINE);
	w->code.kind = RUT_CODE_RUBY;
	w->code.line = w->proc.line_value ? (__u32)(first >> 1) : (__u32)first;
	return true;
}

/* Reads what runs at w->pc. 0: it cannot be read. */
__noinline __u64 rut_ruby_resolve_iseq(__u32 place)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	__u64 pos, me;

	if (!w)
		return 0;
	ruby_clear(w);
	if (!ruby_read_code(place, w, w->iseq))
		return 0;
	pos = (w->pc - *(__u64 *)(w->body + BODY_ENCODED)) / 8;
	if (pos > *(__u32 *)(w->body + BODY_SIZE))
		return 0;
	me = ruby_frame_method(w->ep);
	if (me)
		ruby_owner(place, w, me);
	/* The program counter is behind the instruction that runs. */
	return rut_ruby_code(place, ruby_line(w, pos ? (__u32)pos - 1 : 0));
}

__noinline __u64 rut_ruby_resolve_c(__u32 place, __u64 value)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	__u64 me = ruby_method_entry(value), name;

	if (!w || !me)
		return 0;
	ruby_clear(w);
	name = rut_ruby_symbol(place, ruby_word(ruby_word(me + ME_DEF) + DEF_ID));
	if (!rut_ruby_text(place, name, RUBY_LABEL))
		return 0;
	w->code.kind = RUT_CODE_C;
	ruby_owner(place, w, me);
	return rut_ruby_code(place, 0);
}

static __always_inline void ruby_end_part(struct rut_ruby_walk *w)
{
	__u32 key = w->stack_place;
	struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &key);

	if (!s)
		return;
	s->address[0] = w->link;
	w->link = rut_stack_number(key, (__u64)w->count * 8);
	w->count = 1;
}

/*
 * The outermost frame of a program is one that Ruby makes for itself, for the binding of its top
 * level, without lines; its own backtraces leave it out, too.
 */
static __always_inline bool ruby_is_top(const struct rut_ruby_walk *w, __u64 frame, bool is_c)
{
	return !is_c && frame && !rut_frame_line(frame) && w->count == 1 && !w->link;
}

static __always_inline void ruby_append(struct rut_ruby_walk *w, __u64 frame)
{
	__u32 key = w->stack_place;
	struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &key);

	if (!s)
		return;
	s->address[w->count & 127] = frame;
	if (++w->count >= RUT_RUBY_CHUNK)
		ruby_end_part(w);
}

/* The entry of the cache that has this key, if any has; *mixed: the key as the cache knows it. */
static __always_inline struct rut_frame_cache *ruby_cache_slot(const struct rut_ruby_walk *w,
							       __u64 key, __u64 *mixed)
{
	__u32 slot;

	*mixed = rut_stack_hash_step(w->proc.generation, key);
	slot = (__u32)(*mixed >> 8) & conf.cache_mask;
	return bpf_map_lookup_elem(&frame_cache, &slot);
}

static __always_inline bool ruby_cache_holds(const struct rut_frame_cache *c,
					     const struct rut_ruby_walk *w, __u64 mixed,
					     __u64 *frame)
{
	*frame = c->frame;
	return c->key == mixed && c->epoch == w->epoch && c->check == (mixed ^ w->epoch ^ ~*frame);
}

static __always_inline void ruby_cache_put(struct rut_frame_cache *c, const struct rut_ruby_walk *w,
					   __u64 mixed, __u64 frame)
{
	c->key = mixed;
	c->epoch = w->epoch;
	c->frame = frame;
	c->check = mixed ^ w->epoch ^ ~frame;
}

/* Was the interpreter's loop entered for this frame of Ruby code? Its flags say so. */
static __always_inline __u64 ruby_begun(const struct rut_ruby_walk *w, bool is_c)
{
	if (is_c || !conf.unwind_mask)
		return 0;
	return (ruby_word(w->ep) & FRAME_FLAGS) == FRAME_BEGUN ? RUT_FRAME_BEGUN : 0;
}

/*
 * The method entry of the C method whose frame has this environment; 0: it is not a C method's.
 * False: it cannot be read. From the innermost frame on each environment is below the one before.
 */
static __always_inline bool ruby_c_entry(struct rut_ruby_walk *w, __u64 ep, __u64 *entry)
{
	__u64 at = ep + EP_ME * 8, offset = at - w->near_at;
	const __u64 *env;

	if (!w->near_at || at < w->near_at || offset > RUBY_NEAR - 24) {
		w->near_at = at + 24 - RUBY_NEAR;
		if (at < w->words[0] + RUBY_NEAR ||
		    bpf_probe_read_user(w->near, RUBY_NEAR, (void *)w->near_at)) {
			/* The begin of the VM stack, or an environment that is on the heap. */
			w->near_at = 0;
			if (bpf_probe_read_user(w->near, 24, (void *)at))
				return false;
			offset = 0;
		} else {
			offset = RUBY_NEAR - 24;
		}
	}
	env = (const __u64 *)(w->near + (offset & (RUBY_NEAR - 1)));
	*entry = (env[2] & FRAME_TYPE) == FRAME_CFUNC ? env[0] : 0;
	return true;
}

/* One frame of those in w->raw. */
__noinline __u64 rut_ruby_frame(__u32 place, __u32 at)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	struct rut_frame_cache *c;
	__u64 *f, key, frame, mixed;
	bool is_c = false;

	at &= 8191;
	if (!w)
		return 0;
	f = (__u64 *)(w->raw + at);
	w->pc = key = f[CFP_PC];
	w->iseq = f[CFP_ISEQ];
	w->self = f[CFP_SELF];
	w->ep = f[CFP_EP];
	if (!w->pc || !w->iseq) {
		/* C methods have no program counter; what else has none is not shown. */
		if (!ruby_c_entry(w, w->ep, &key) || !key)
			return 0;
		is_c = true;
	}
	c = ruby_cache_slot(w, key, &mixed);
	if (!c)
		return 0;
	if (ruby_cache_holds(c, w, mixed, &frame)) {
		if (!ruby_is_top(w, frame, is_c))
			ruby_append(w, frame | ruby_begun(w, is_c));
		return frame;
	}
	frame = is_c ? rut_ruby_resolve_c(place, key) : rut_ruby_resolve_iseq(place);
	if (frame)
		ruby_cache_put(c, w, mixed, frame);
	else
		w->unknown = 1;
	if (!ruby_is_top(w, frame, is_c))
		ruby_append(w, (frame ? frame : RUT_FRAME_MARK) | ruby_begun(w, is_c));
	return frame;
}

/* `n` frames, the innermost at this address. */
__noinline __u64 rut_ruby_frames(__u32 place, __u64 at, __u32 n)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	__u32 bytes;
	__u64 len;

	if (!w)
		return 0;
	bytes = w->proc.frame_bytes;
	/* In 64 bits: Linux 6.1 forgets the bounds of a product of 32. */
	len = (__u64)n * bytes;
	if (len > 8192 || bpf_probe_read_user(w->raw, len, (void *)at)) {
		w->unknown = 1;
		ruby_append(w, RUT_FRAME_MARK);
		return 0;
	}
	for (__u32 i = 0; i < 64; i++) {
		if (i >= n)
			break;
		len -= bytes;
		rut_ruby_frame(place, len);
	}
	return n;
}

/*
 * Adds `n` frames, the innermost at this address, to the sum: what rut_ruby_frame() knows them by.
 * 0: they cannot be read.
 */
__noinline __u64 rut_ruby_sum(__u32 place, __u64 at, __u32 n)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	__u64 len, sum;
	__u32 bytes, from = 0;

	if (!w)
		return 0;
	sum = w->sum;
	bytes = w->proc.frame_bytes;
	len = (__u64)n * bytes;
	if (len > 8192 || bpf_probe_read_user(w->raw, len, (void *)at))
		return 0;
	for (__u32 i = 0; i < 64; i++) {
		const __u64 *f = (const __u64 *)(w->raw + (from & 8191));
		__u64 key = f[CFP_PC];

		if (i >= n)
			break;
		from += bytes;
		if (!key || !f[CFP_ISEQ]) {
			if (!ruby_c_entry(w, f[CFP_EP], &key))
				return 0;
			if (!key)
				continue;
		}
		sum = rut_stack_hash_step(sum, key);
	}
	w->sum = sum;
	return 1;
}

/* Are all parts of the stack in the table? Then they are in use. */
__noinline __u64 rut_ruby_touch(__u64 id)
{
	__u64 now = bpf_ktime_get_ns();

	for (__u32 part = 0; part < RUT_RUBY_DEPTH / (RUT_RUBY_CHUNK - 1) + 2; part++) {
		__u32 set = (__u32)(id >> 32) & conf.stack_mask, way = 0;
		struct rut_stack_set *s = bpf_map_lookup_elem(&stacks, &set);

		if (id < RUT_STACK_MIN)
			return id == RUT_STACK_NONE;
		if (!s)
			return 0;
		while (way < RUT_STACK_WAYS && *(const volatile __u64 *)&s->id[way] != id)
			way++;
		if (way >= RUT_STACK_WAYS)
			return 0;
		way &= RUT_STACK_WAYS - 1;
		if (now - s->used_ns[way] > RUT_STACK_TOUCH_NS)
			s->used_ns[way] = now;
		id = s->address[way][0];
	}
	return 0;
}

/*
 * The number of this stack of `n` frames, if it was seen since the last collection of garbage: a
 * thread that waits has most of the time the stack that it had the last time, and to compare takes
 * a fraction of looking each frame up. RUT_STACK_NONE: it was not; w->sum is its sum, or 0.
 */
__noinline __u64 rut_ruby_known(__u32 place, __u64 n)
{
	struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &place);
	struct rut_frame_cache *c;
	__u64 at, mixed, link;

	if (!w)
		return RUT_STACK_NONE;
	at = w->words[2];
	w->sum = n + 1;
	for (__u32 i = 0; i < RUT_RUBY_DEPTH / 64; i++) {
		__u32 k = n < 64 ? (__u32)n : 64;

		if (!k)
			break;
		if (!rut_ruby_sum(place, at, k)) {
			w->sum = 0;
			return RUT_STACK_NONE;
		}
		n -= k;
		at += (__u64)k * w->proc.frame_bytes;
	}
	c = ruby_cache_slot(w, w->sum, &mixed);
	if (!c || !ruby_cache_holds(c, w, mixed, &link) || !rut_ruby_touch(link))
		return RUT_STACK_NONE;
	return link;
}

static __always_inline void ruby_remember(const struct rut_ruby_walk *w)
{
	struct rut_frame_cache *c;
	__u64 mixed;

	if (!w->sum || w->unknown || w->link < RUT_STACK_MIN)
		return;
	c = ruby_cache_slot(w, w->sum, &mixed);
	if (c)
		ruby_cache_put(c, w, mixed, w->link);
}

#ifdef RUT_NO_BTF
static __always_inline __u64 ruby_thread_pointer(void)
{
	__u64 pointer = 0;

	if (conf.fsbase_at)
		bpf_probe_read_kernel(&pointer, sizeof(pointer),
				      (char *)bpf_get_current_task() + conf.fsbase_at);
	return pointer;
}
#else
static __always_inline __u64 ruby_thread_pointer(void)
{
#ifdef __TARGET_ARCH_x86
	return bpf_get_current_task_btf()->thread.fsbase;
#else
	return 0;
#endif
}
#endif

/* Is this an execution context? Its stack, the stack's size in words, the innermost frame. */
static __always_inline bool ruby_read_ec(struct rut_ruby_walk *w, __u64 ec)
{
	__u64 used, end;

	if (!ruby_is_heap(ec) || bpf_probe_read_user(w->words, 24, (void *)ec))
		return false;
	w->words[WALK_EC] = ec;
	end = w->words[0] + w->words[1] * 8;
	used = end - w->words[2];
	return ruby_is_heap(w->words[0]) && w->words[1] < 1u << 27 && w->words[2] > w->words[0] &&
	       w->words[2] < end && !(w->words[2] & 7) && w->proc.frame_bytes &&
	       used % w->proc.frame_bytes == 0;
}

/*
 * glibc puts the variables of what a program starts with in a block that ends at the thread
 * pointer: below that are the thread's stack or nothing that malloc() returns.
 */
#define RUBY_STATIC_TLS 8192

static __always_inline bool ruby_find_variable(struct rut_ruby_walk *w, struct rut_ruby_vm *proc,
					       __u64 tp, __u64 address)
{
	if (!ruby_read_ec(w, ruby_word(address)))
		return false;
	if (address < tp && tp - address <= RUBY_STATIC_TLS)
		proc->tls_static = (__s32)(address - tp);
	return true;
}

static __always_inline bool ruby_find_ec(struct rut_ruby_walk *w, struct rut_ruby_vm *proc)
{
	__u64 tp = ruby_thread_pointer(), block;

	if (!tp)
		return false;
	/* Two reads less than by the DTV, each of which takes longer than all else here. */
	if (w->proc.tls_static && ruby_read_ec(w, ruby_word(tp + (__s64)w->proc.tls_static)))
		return true;
	if (w->proc.tls == RUT_RUBY_TLS_THREAD) {
		block = ruby_word(tp + w->proc.tls_offset);
		return ruby_is_heap(block) && ruby_read_ec(w, ruby_word(block + w->proc.thread_ec));
	}
	block = ruby_word(ruby_word(tp + 8) + (__u64)w->proc.tls_module * w->proc.tls_entry);
	if (!ruby_is_heap(block))
		return false;
	if (w->proc.tls_offset != RUT_RUBY_UNKNOWN)
		return ruby_find_variable(w, proc, tp, block + w->proc.tls_offset);
	/* A libruby that does not export the variable: the word that is a context. */
	for (__u32 i = 0; i < 16; i++) {
		if (i >= w->proc.tls_words)
			break;
		if (ruby_find_variable(w, proc, tp, block + i * 8)) {
			proc->tls_offset = i * 8;
			return true;
		}
	}
	return false;
}

/* Finds the current thread's frames: w->words, w->epoch. False: it runs no Ruby. w->proc is known.
 */
static __always_inline bool ruby_find_frames(struct rut_ruby_walk *w, struct rut_ruby_vm *proc)
{
	w->near_at = 0;
	if (!ruby_find_ec(w, proc) || w->proc.frame_bytes < 40 || w->proc.frame_bytes > 128)
		return false;
	/* The count of collections; and codes are used now and then, or they are evicted. */
	w->epoch = w->proc.gc_count ? (ruby_word(w->proc.gc_count) << 16 ^
				       bpf_jiffies64() >> RUT_CODE_TOUCH_SHIFT)
				    : bpf_ktime_get_ns();
	w->link = 0;
	w->count = 1;
	return true;
}

static __always_inline bool ruby_find(struct rut_ruby_walk *w, struct rut_ruby_vm *proc)
{
	/* What ruby_enter() keeps here is of another process now. */
	w->tgid = 0;
	w->proc = *proc;
	return ruby_find_frames(w, proc);
}

static __always_inline __u64 ruby_walk(struct rut_ruby_walk *w, __u32 place,
				       struct rut_ruby_vm *proc, __u32 max)
{
	__u32 bytes;
	__u64 at, n, known;

	if (!ruby_find(w, proc))
		return RUT_STACK_NONE;
	bytes = w->proc.frame_bytes;
	n = (w->words[0] + w->words[1] * 8 - w->words[2]) / bytes;
	/* Of a deeper stack the innermost frames. */
	if (n > max)
		n = max;
	known = rut_ruby_known(place, n);
	if (known != RUT_STACK_NONE)
		return known;
	w->unknown = 0;
	at = w->words[2] + n * bytes;
	for (__u32 i = 0; i < RUT_RUBY_DEPTH / 64; i++) {
		__u32 k = n < 64 ? (__u32)n : 64, len = k * bytes;

		if (!k)
			break;
		n -= k;
		at -= len;
		rut_ruby_frames(place, at, k);
	}
	if (w->count > 1)
		ruby_end_part(w);
	ruby_remember(w);
	return w->link;
}

/* The number of the stack of the innermost `max` frames. */
static __always_inline __u64 ruby_stack_of(struct rut_ruby_vm *proc, __u32 max)
{
	struct rut_ctl_user *u;

	for (__u32 i = 0; i < RUT_STACK_NESTED; i++) {
		__u32 key = i;
		struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &key);
		struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &key);
		__u64 id;

		if (!w || !s || __sync_val_compare_and_swap(&s->taken, 0, 1))
			continue;
		w->stack_place = key;
		id = ruby_walk(w, key, proc, max);
		__sync_val_compare_and_swap(&s->taken, 1, 0);
		return id;
	}
	u = rut_ctl_user();
	if (u)
		__sync_fetch_and_add(&u->stacks_lost, 1);
	return RUT_STACK_LOST;
}

/* The number of the current thread's Ruby stack; RUT_STACK_NONE: it has none. */
__noinline __u64 rut_ruby_stack(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct rut_ruby_vm *proc;

	if (!(conf.contexts & RUT_CTX_RSTACK))
		return RUT_STACK_NONE;
	proc = bpf_map_lookup_elem(&rubies, &tgid);
	return proc ? ruby_stack_of(proc, RUT_RUBY_DEPTH) : RUT_STACK_NONE;
}

/* Does the current thread run Ruby code? */
__noinline __u64 rut_ruby_runs(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct rut_ruby_vm *proc = bpf_map_lookup_elem(&rubies, &tgid);
	__u64 runs = 0;

	for (__u32 i = 0; proc && i < RUT_STACK_NESTED; i++) {
		__u32 key = i;
		struct rut_ruby_walk *w = bpf_map_lookup_elem(&ruby_walks, &key);
		struct rut_stack_walk *s = bpf_map_lookup_elem(&stack_walks, &key);

		if (!w || !s || __sync_val_compare_and_swap(&s->taken, 0, 1))
			continue;
		w->proc = *proc;
		runs = ruby_find_ec(w, proc);
		__sync_val_compare_and_swap(&s->taken, 1, 0);
		break;
	}
	return runs;
}

/*
 * A child has its parent's memory, so the same facts. Not inline: the copy would be on the stack
 * below all that reads a Ruby stack, and Linux 6.1 has 512 bytes for them together.
 */
static __noinline __attribute__((unused)) int rut_ruby_forked(__u32 parent, __u32 child)
{
	struct rut_ruby_vm *proc = bpf_map_lookup_elem(&rubies, &parent), copy;

	if (!proc)
		return 0;
	copy = *proc;
	copy.generation = rut_stack_hash_step(bpf_ktime_get_ns(), child);
	bpf_map_update_elem(&rubies, &child, &copy, BPF_ANY);
	return 0;
}

#endif
