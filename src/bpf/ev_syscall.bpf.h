/* SPDX-License-Identifier: GPL-2.0 */
/*
 * System calls: one pair of programs for all of them, driven by a table of argument layouts that
 * user space fills from the generated one (src/bpf/syscalls.h).
 *
 * A record holds every argument as 64 bits, then the strings, then a decoded socket address. A
 * call without variable parts, the usual case, is stored straight into the ring; the others
 * are put together in a scratch buffer first, because their size must be known to reserve.
 */
#ifndef RUT_BPF_EV_SYSCALL_BPF_H
#define RUT_BPF_EV_SYSCALL_BPF_H

#include "bpf/scratch.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RUT_SYSCALL_ROWS);
	__type(key, __u32);
	__type(value, struct rut_syscall_desc);
} syscalls SEC(".maps");

#define TS_COMPAT 2
#define ARGS_MAX  6

static __always_inline __u64 narrowed(const struct rut_syscall_desc *d, int i, __u64 value)
{
	if (d->narrow >> i & 1)
		return d->negative >> i & 1 ? (__u64)(__s64)(__s32)value : (__u32)value;
	return value;
}

/* The row of the table. Numbers beyond its end share one. */
static __always_inline __u32 syscall_row(const struct task_struct *task, long id)
{
	__u32 nr = (__u32)id;

#ifdef __TARGET_ARCH_x86
	/* A 32-bit program, or "int 0x80" from a 64-bit one: other numbers, other registers. */
	if (task->thread_info.status & TS_COMPAT)
		return nr < RUT_SYSCALLS_COMPAT ? nr + RUT_SYSCALLS_COMPAT
						: RUT_SYSCALL_ROW_OTHER_COMPAT;
#endif
	return nr < RUT_SYSCALLS_COMPAT ? nr : RUT_SYSCALL_ROW_OTHER;
}

static __always_inline bool is_compat(__u32 row)
{
	return row >= RUT_SYSCALLS_COMPAT && row != RUT_SYSCALL_ROW_OTHER;
}

/* A directory's metadata describes 32-bit calls from the first one on. */
static __always_inline void note_compat(__u32 nr)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct rut_ring_ctl *ctl;

	if (!is_compat(nr))
		return;
	ctl = bpf_map_lookup_elem(&ctls, &cpu);
	if (ctl)
		RUT_CTL_USER(ctl)->compat_seen = 1;
}

/*
 * A call that the metadata does not describe: its number and registers. Without stacks, as below.
 */
static __noinline int store_unknown(struct pt_regs *regs, long id, __u32 row)
{
	const __u64 size = 8 + conf.context_size + sizeof(struct rut_ev_SYSCALL_UNKNOWN);
	const bool compat = is_compat(row);
	struct rut_slot slot;
	unsigned char *p = rut_reserve(
		&slot, compat ? RUT_EV_COMPAT_SYSCALL_UNKNOWN : RUT_EV_SYSCALL_UNKNOWN, size, size);

	if (!p)
		return 0;
	note_compat(row);
	p = rut_store_contexts(NULL, p);
	/* The kernel's number has 32 bits with a sign. */
	PUT(SYSCALL_UNKNOWN, id, (__s32)id);
	PUT(SYSCALL_UNKNOWN, arg0, compat ? (__u32)regs->bx : regs->di);
	PUT(SYSCALL_UNKNOWN, arg1, compat ? (__u32)regs->cx : regs->si);
	PUT(SYSCALL_UNKNOWN, arg2, compat ? (__u32)regs->dx : regs->dx);
	PUT(SYSCALL_UNKNOWN, arg3, compat ? (__u32)regs->si : regs->r10);
	PUT(SYSCALL_UNKNOWN, arg4, compat ? (__u32)regs->di : regs->r8);
	PUT(SYSCALL_UNKNOWN, arg5, compat ? (__u32)regs->bp : regs->r9);
	rut_commit(&slot, size);
	return 0;
}

static __noinline int exit_unknown(struct pt_regs *regs, long ret, __u32 row)
{
	const __u64 size = 8 + conf.context_size + sizeof(struct rut_ev_SYSCALL_EXIT_UNKNOWN);
	struct rut_slot slot;
	unsigned char *p = rut_reserve(&slot,
				       is_compat(row) ? RUT_EV_COMPAT_SYSCALL_EXIT_UNKNOWN
						      : RUT_EV_SYSCALL_EXIT_UNKNOWN,
				       size, size);

	if (!p)
		return 0;
	note_compat(row);
	p = rut_store_contexts(NULL, p);
	PUT(SYSCALL_EXIT_UNKNOWN, id, (__s32)regs->orig_ax);
	PUT(SYSCALL_EXIT_UNKNOWN, ret, ret);
	rut_commit(&slot, size);
	return 0;
}

static __always_inline bool syscall_allowed(void)
{
	return !rut_is_own() && rut_allowed();
}

/* A command is recorded from its execve on. */
static __always_inline void note_exec(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u32 *state = bpf_map_lookup_elem(&traced, &tgid);

	if (state && *state == RUT_TRACED_AT_EXEC)
		*state = RUT_TRACED_YES;
}

/*
 * The arguments in a row: chosen by a number from there, they cost one load, and the verifier one
 * path instead of twelve.
 */
static __always_inline void fetch_arguments(struct rut_scratch *s, const struct pt_regs *regs,
					    bool compat)
{
	s->args[0] = compat ? (__u32)regs->bx : regs->di;
	s->args[1] = compat ? (__u32)regs->cx : regs->si;
	s->args[2] = compat ? (__u32)regs->dx : regs->dx;
	s->args[3] = compat ? (__u32)regs->si : regs->r10;
	s->args[4] = compat ? (__u32)regs->di : regs->r8;
	s->args[5] = compat ? (__u32)regs->bp : regs->r9;
}

static __always_inline __u64 argument(const struct rut_scratch *s, __u32 i)
{
	return *(const volatile __u64 *)&s->args[i & 7];
}

/* The old select of 32-bit programs: the five arguments are in memory. */
static __noinline void fetch_indirect(struct rut_scratch *s)
{
	__u32 values[5] = {0};

	bpf_probe_read_user(values, sizeof(values), (void *)argument(s, 0));
#pragma unroll
	for (__u32 i = 0; i < 5; i++)
		s->args[i] = values[i];
}

#define RUT_AF_UNIX  1
#define RUT_AF_INET  2
#define RUT_AF_INET6 10

/* An abstract name begins with a NUL and has no end; NULs are shown as @, as in /proc/net/unix. */
static __noinline __u32 add_abstract(struct rut_scratch *s, __u32 at, __u64 address, __u32 len)
{
	at &= RUT_AT_MASK;
	len = len > 108 ? 108 : len;
	if (bpf_probe_read_user(s->record + at, len, (void *)address))
		len = 0;
	for (__u32 i = 0; i < 108; i++) {
		if (i >= len)
			break;
		if (!s->record[at + i])
			s->record[at + i] = '@';
	}
	s->record[at + (len & 127)] = 0;
	return at + (len & 127) + 1;
}

/*
 * Appends struct rut_sockaddr, the address's bytes and the name of a local socket. Not static: the
 * verifier then walks through it once a program, not at every call.
 */
__noinline int rut_add_sockaddr(__u32 at, __u64 address, __u32 size)
{
	__u32 zero = 0;
	struct rut_scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	__u16 family = 0;
	__u8 first = 0;

	if (!s)
		return 0;
	at &= RUT_AT_MASK;
	__builtin_memset(s->address, 0, 32);
	if (address)
		bpf_probe_read_user(&family, 2, (void *)address);
	RUT_PUT(s->record + at, struct rut_sockaddr, family, family);
	RUT_PUT(s->record + at, struct rut_sockaddr, port, 0);
	s->record[at + 4] = 0;
	s->record[at + 5] = 0;
	if (family == RUT_AF_INET && !bpf_probe_read_user(s->address, 16, (void *)address)) {
		RUT_PUT(s->record + at, struct rut_sockaddr, port, *(__u16 *)(s->address + 2));
		s->record[at + 4] = 4;
		*(__u32 *)(s->record + at + 6) = *(__u32 *)(s->address + 4);
		at += 4;
	} else if (family == RUT_AF_INET6 &&
		   !bpf_probe_read_user(s->address, 28, (void *)address)) {
		RUT_PUT(s->record + at, struct rut_sockaddr, port, *(__u16 *)(s->address + 2));
		s->record[at + 5] = 8;
		*(__u64 *)(s->record + at + 6) = *(__u64 *)(s->address + 8);
		*(__u64 *)(s->record + at + 14) = *(__u64 *)(s->address + 16);
		at += 16;
	}
	at = (at + sizeof(struct rut_sockaddr)) & RUT_AT_MASK;
	if (family == RUT_AF_UNIX && size > 2) {
		long len;

		bpf_probe_read_user(&first, 1, (void *)(address + 2));
		if (!first)
			return add_abstract(s, at, address + 2, size - 2);
		len = bpf_probe_read_user_str(s->record + at, 109, (void *)(address + 2));
		if (len > 0 && len <= 109)
			return at + (__u32)len;
	}
	s->record[at] = 0;
	return at + 1;
}

#include "bpf/syscall_parts.bpf.h"

/* Remembers what could not be read, for the exit. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);   /* thread */
	__type(value, __u32); /* bit i: string i */
} unread SEC(".maps");

/* How many may be in `unread`: nothing is looked for while there are none. */
volatile __u32 unread_count;

static __noinline void note_unread(__u32 strings)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();

	bpf_map_update_elem(&unread, &tid, &strings, BPF_ANY);
	__sync_fetch_and_add(&unread_count, 1);
}

/* The call has used its strings by now, so that their pages are there. */
static __noinline int store_unread(struct pt_regs *regs, __u32 nr, const struct rut_syscall_desc *d)
{
	__u32 zero = 0, tid = (__u32)bpf_get_current_pid_tgid(), strings;
	__u32 *noted = bpf_map_lookup_elem(&unread, &tid);
	struct rut_scratch *s = bpf_map_lookup_elem(&scratch, &zero);

	if (!noted || !s)
		return 0;
	strings = *noted;
	bpf_map_delete_elem(&unread, &tid);
	__sync_fetch_and_add(&unread_count, -1);
	fetch_arguments(s, regs, nr >= RUT_SYSCALLS_COMPAT);
	for (__u32 i = 0; i < 3; i++) {
		bool again = false;
		__u32 at;

		if (!(strings >> i & 1) || !d->str[i])
			continue;
		*(__u32 *)s->record = d->str[i] - 1;
		at = rut_forget(add_string(s, 4, argument(s, d->str[i] - 1), &again));
		/* Without stacks, which the exit has: the calls would nest too deep for Linux 6.1.
		 */
		if (!again)
			store_scratch(NULL, s, RUT_EV_SYSCALL_STRING, at);
	}
	return 0;
}

/*
 * Stores what was put together; called by the program itself, because Linux 6.1 bounds the stacks
 * of nested calls to 512 bytes together, and those that read a Ruby stack nest deep.
 */
static __always_inline int store_slow(void *ctx, __u32 id, __u32 len)
{
	__u32 zero = 0;
	struct rut_scratch *s = bpf_map_lookup_elem(&scratch, &zero);

	/* A 32-bit call without arguments has a record of no bytes. */
	return s ? store_scratch(ctx, s, id, len) : 0;
}

/* Puts the record of an entry together; returns its length. */
static __noinline __u32 enter_slow(struct pt_regs *regs, __u32 nr, const struct rut_syscall_desc *d)
{
	__u32 zero = 0, at = 0;
	struct rut_scratch *s = bpf_map_lookup_elem(&scratch, &zero);

	if (!s)
		return 0;
	note_compat(nr);
	fetch_arguments(s, regs, nr >= RUT_SYSCALLS_COMPAT);
	for (__u32 i = 0; i < ARGS_MAX; i++) {
		if (i >= d->nargs)
			break;
		if (d->skip >> i & 1)
			continue;
		*(__u64 *)(s->record + (at & 63)) = narrowed(d, i, argument(s, i));
		at += 8;
	}
	at = rut_forget(at);
	s->unread = 0;
	for (__u32 i = 0; i < 3; i++) {
		bool failed = false;

		if (d->str[i])
			at = rut_forget(add_string(s, at, argument(s, d->str[i] - 1), &failed));
		if (failed)
			s->unread |= 1u << i;
	}
	if (d->sock)
		at = rut_forget(rut_add_sockaddr(at, argument(s, d->sock - 1),
						 (__u32)argument(s, d->sock)));
	if (d->flags & RUT_SYSCALL_INDIRECT)
		fetch_indirect(s);
	at = add_parts(s, at, d->entry, nr >= RUT_SYSCALLS_COMPAT, 0);
	if (s->unread && d->flags & RUT_SYSCALL_EXIT)
		note_unread(s->unread);
	return at;
}

static __noinline __u32 exit_slow(struct pt_regs *regs, __u32 nr, long ret,
				  const struct rut_syscall_desc *d)
{
	__u32 zero = 0, at = 8;
	struct rut_scratch *s = bpf_map_lookup_elem(&scratch, &zero);

	if (!s)
		return 0;
	note_compat(nr);
	*(__s64 *)s->record = ret;
	fetch_arguments(s, regs, nr >= RUT_SYSCALLS_COMPAT);
	if (d->peer) {
		__u32 size = 0;

		if (ret >= 0)
			bpf_probe_read_user(&size, 4, (void *)argument(s, d->peer));
		at = rut_forget(rut_add_sockaddr(at, ret < 0 ? 0 : argument(s, d->peer - 1), size));
	}
	if (d->flags & RUT_SYSCALL_INDIRECT)
		fetch_indirect(s);
	at = add_parts(s, at, d->exit, nr >= RUT_SYSCALLS_COMPAT, ret);
	return at;
}

/* Threads in a call that exits without its number: the row of the call. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} numberless SEC(".maps");

static __noinline int note_number(__u32 row)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();

	bpf_map_update_elem(&numberless, &tid, &row, BPF_ANY);
	return 0;
}

/* The row of an exit with the number -1. */
static __noinline __u32 noted_row(void)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	__u32 *row = bpf_map_lookup_elem(&numberless, &tid);

	return row ? *row : RUT_SYSCALL_ROW_OTHER;
}

static __noinline int forget_number(void)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();

	bpf_map_delete_elem(&numberless, &tid);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long id)
{
	const __u64 fixed = 8 + conf.context_size;
	const struct rut_syscall_desc *d;
	struct rut_slot slot;
	unsigned char *p;
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 nr = syscall_row(task, id);
	__u64 size;

	d = bpf_map_lookup_elem(&syscalls, &nr);
	if (!d)
		return 0;
	if (conf.filters & RUT_FILTER_PID && d->flags & RUT_SYSCALL_EXEC)
		note_exec();
	if (d->flags & RUT_SYSCALL_NUMBERLESS)
		note_number(nr);
	if (!(d->flags & RUT_SYSCALL_ENTRY) || !syscall_allowed())
		return 0;
	if (!d->entry_id)
		return store_unknown(regs, id, nr);
	if (d->slow)
		return store_slow(ctx, d->entry_id, enter_slow(regs, nr, d));
	size = fixed + 8 * d->nargs;
	p = rut_reserve(&slot, d->entry_id, size, fixed + 8 * ARGS_MAX);
	if (!p)
		return 0;
	p = rut_store_contexts(ctx, p);
	if (d->nargs > 0)
		((__u64 *)p)[0] = narrowed(d, 0, regs->di);
	if (d->nargs > 1)
		((__u64 *)p)[1] = narrowed(d, 1, regs->si);
	if (d->nargs > 2)
		((__u64 *)p)[2] = narrowed(d, 2, regs->dx);
	if (d->nargs > 3)
		((__u64 *)p)[3] = narrowed(d, 3, regs->r10);
	if (d->nargs > 4)
		((__u64 *)p)[4] = narrowed(d, 4, regs->r8);
	if (d->nargs > 5)
		((__u64 *)p)[5] = narrowed(d, 5, regs->r9);
	rut_commit(&slot, size);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	const __u64 size = 8 + conf.context_size + 8;
	const struct rut_syscall_desc *d;
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 nr = syscall_row(task, (long)regs->orig_ax);
	struct rut_slot slot;
	unsigned char *p;

	if (nr == RUT_SYSCALL_ROW_OTHER && (__s32)regs->orig_ax == -1)
		nr = noted_row();
	d = bpf_map_lookup_elem(&syscalls, &nr);
	if (d && d->flags & RUT_SYSCALL_NUMBERLESS)
		forget_number();
	if (!d || !(d->flags & RUT_SYSCALL_EXIT) || !syscall_allowed())
		return 0;
	if (unread_count && d->str[0])
		store_unread(regs, nr, d);
	if (!d->exit_id)
		return exit_unknown(regs, ret, nr);
	if (d->slow_exit)
		return store_slow(ctx, d->exit_id, exit_slow(regs, nr, ret, d));
	p = rut_reserve(&slot, d->exit_id, size, size);
	if (!p)
		return 0;
	p = rut_store_contexts(ctx, p);
	*(__s64 *)p = ret;
	rut_commit(&slot, size);
	return 0;
}

#endif
