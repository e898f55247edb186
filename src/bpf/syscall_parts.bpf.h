/* SPDX-License-Identifier: GPL-2.0 */
/* What arguments of system calls point to: lists, sets, pairs (enum rut_part_kind). */
#ifndef RUT_BPF_SYSCALL_PARTS_BPF_H
#define RUT_BPF_SYSCALL_PARTS_BPF_H

#include "bpf/scratch.bpf.h"

static __noinline __u32 add_argv(struct rut_scratch *s, __u32 at, __u64 address, __u32 compat)
{
	__u32 count_at = at & RUT_AT_MASK, n = 0;

	at = count_at + 1;
	for (__u32 i = 0; i < RUT_PART_MAX; i++) {
		bool failed = false;
		__u64 pointer = 0;

		if (bpf_probe_read_user(&pointer, compat ? 4 : 8,
					(void *)(address + i * (compat ? 4 : 8))) ||
		    !pointer || at + RUT_TAIL_SPARE + RUT_STR_MIN > rut_tail_max())
			break;
		at = forget(add_string(s, at, pointer, &failed));
		n++;
	}
	s->record[count_at] = (__u8)n;
	return at;
}

struct rut_pollfd {
	__s32 fd;
	__u16 events, revents;
};

static __noinline __u32 add_poll(struct rut_scratch *s, __u32 at, __u64 address, __u32 count,
				 __u32 returned)
{
	__u32 n = count > RUT_PART_MAX ? RUT_PART_MAX : count, kept = 0;
	__u32 count_at = at & RUT_AT_MASK;

	if (bpf_probe_read_user(s->address, n * 8, (void *)address))
		n = 0;
	s->record[count_at] = count > RUT_PART_MAX;
	at = count_at + 2;
	for (__u32 i = 0; i < RUT_PART_MAX; i++) {
		const struct rut_pollfd *p = (const void *)(s->address + 8 * i);
		unsigned char *to = s->record + (at & RUT_AT_MASK);

		if (i >= n)
			break;
		if (returned && !p->revents)
			continue;
		RUT_PUT(to, struct rut_polled, fd, p->fd);
		RUT_PUT(to, struct rut_polled, events, returned ? p->revents : p->events);
		at = forget(at + sizeof(struct rut_polled));
		kept++;
	}
	s->record[count_at + 1] = (__u8)kept;
	return at;
}

/* `bytes` as they stand in the process, behind a count of elements. */
static __always_inline __u32 add_bytes(struct rut_scratch *s, __u32 at, __u64 address, __u32 bytes,
				       __u32 count)
{
	at &= RUT_AT_MASK;
	bytes = bytes > 512 ? 512 : bytes;
	s->record[at] = (__u8)count;
	if (bytes &&
	    (!address || bpf_probe_read_user(s->record + at + 1, bytes, (void *)address))) {
		s->record[at] = 0;
		bytes = 0;
	}
	return at + 1 + bytes;
}

static __always_inline __u32 add_fdset(struct rut_scratch *s, __u32 at, __u64 address, __u32 nfds)
{
	__u32 bytes = nfds > 1024 ? 128 : (nfds + 7) / 8;

	return add_bytes(s, at, address, bytes, bytes);
}

#define RUT_EPOLL_EVENT 12 /* bytes; packed on x86 */

static __always_inline __u32 add_epoll(struct rut_scratch *s, __u32 at, __u64 address, __u32 count)
{
	__u32 n = count > RUT_PART_MAX ? RUT_PART_MAX : count;

	at &= RUT_AT_MASK;
	s->record[at] = count > RUT_PART_MAX;
	return add_bytes(s, at + 1, address, n * RUT_EPOLL_EVENT, n);
}

static __always_inline __u32 add_pair(struct rut_scratch *s, __u32 at, __u64 address)
{
	at &= RUT_AT_MASK;
	if (!address || bpf_probe_read_user(s->record + at, 8, (void *)address))
		*(__u64 *)(s->record + at) = ~0ull;
	return at + 8;
}

/* msg_name and msg_namelen of a struct msghdr. */
static __always_inline __u32 add_msg(struct rut_scratch *s, __u32 at, __u64 address, __u32 compat)
{
	__u64 name = 0;
	__u32 size = 0;

	if (address) {
		bpf_probe_read_user(&name, compat ? 4 : 8, (void *)address);
		bpf_probe_read_user(&size, 4, (void *)(address + (compat ? 4 : 8)));
	}
	return add_sockaddr(s, at, size ? name : 0, size);
}

static __noinline __u32 add_part(struct rut_scratch *s, __u32 at, const struct rut_part *part,
				 __u32 compat, __s64 ret)
{
	__u64 address = argument(s, part->arg);
	__u32 count = (__u32)argument(s, part->count);

	switch (part->kind) {
	case RUT_PART_ARGV:
		return add_argv(s, at, address, compat);
	case RUT_PART_POLL:
		return add_poll(s, at, address, count, 0);
	case RUT_PART_POLLED:
		return add_poll(s, at, address, ret > 0 ? count : 0, 1);
	case RUT_PART_FDSET:
		return add_fdset(s, at, ret < 0 ? 0 : address, count);
	case RUT_PART_EPOLL:
		return add_epoll(s, at, address, ret > 0 ? (__u32)ret : 0);
	case RUT_PART_PAIR:
		return add_pair(s, at, ret < 0 ? 0 : address);
	case RUT_PART_MSG:
		return add_msg(s, at, ret < 0 ? 0 : address, compat);
	default:
		return at;
	}
}

static __always_inline __u32 add_parts(struct rut_scratch *s, __u32 at,
				       const struct rut_part *parts, __u32 compat, __s64 ret)
{
	for (__u32 i = 0; i < RUT_PARTS; i++)
		if (parts[i].kind)
			at = forget(add_part(s, at, &parts[i], compat, ret));
	return at;
}

#endif
