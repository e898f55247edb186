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
		at = rut_forget(add_string(s, at, pointer, &failed));
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
		at = rut_forget(at + sizeof(struct rut_polled));
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
	return rut_add_sockaddr(at, size ? name : 0, size);
}

#define RUT_RIGHTS_MAX	60 /* descriptors; 240 bytes, less than RUT_TAIL_SPARE */
#define RUT_CONTROL_MAX 4  /* credentials and the like may come before the descriptors */

/* The descriptors in the control messages of a received struct msghdr. */
static __noinline __u32 add_rights(struct rut_scratch *s, __u32 at, __u64 msg, __u32 compat)
{
	const __u32 word = compat ? 4 : 8, head = word + 8;
	__u64 control = 0, size = 0, bytes = 0;
	__s32 kind[2]; /* level, type */

	if (msg) {
		bpf_probe_read_user(&control, word, (void *)(msg + 4 * word));
		bpf_probe_read_user(&size, word, (void *)(msg + 5 * word));
	}
	for (__u32 i = 0; i < RUT_CONTROL_MAX; i++) {
		__u64 len = 0;

		if (size < head || bpf_probe_read_user(&len, word, (void *)control) ||
		    bpf_probe_read_user(kind, 8, (void *)(control + word)) || len < head ||
		    len > size)
			break;
		if (kind[0] == 1 && kind[1] == 1) { /* SOL_SOCKET, SCM_RIGHTS */
			bytes = len - head;
			break;
		}
		len = (len + word - 1) & ~(__u64)(word - 1);
		size = len < size ? size - len : 0;
		control += len;
	}
	if (bytes > 4 * RUT_RIGHTS_MAX)
		bytes = 4 * RUT_RIGHTS_MAX;
	return add_bytes(s, at, control + head, (__u32)bytes & ~3u, (__u32)bytes / 4);
}

/* struct mmsghdr: a struct msghdr and the bytes that were moved. */
#define RUT_MMSG_SIZE(compat)	((compat) ? 32 : 64)
#define RUT_MMSG_LEN_AT(compat) ((compat) ? 28 : 56)

/* How many bytes of each message were moved; nothing but numbers. */
static __noinline __u32 add_lengths(struct rut_scratch *s, __u32 at, __u64 address, __u32 count,
				    __u32 compat)
{
	__u32 n = count > RUT_PART_MAX ? RUT_PART_MAX : count;

	at &= RUT_AT_MASK;
	s->record[at] = count > RUT_PART_MAX;
	s->record[at + 1] = (__u8)n;
	at += 2;
	address += RUT_MMSG_LEN_AT(compat);
	for (__u32 i = 0; i < RUT_PART_MAX; i++) {
		__u32 len = 0;

		if (i >= n)
			break;
		bpf_probe_read_user(&len, 4, (void *)(address + i * RUT_MMSG_SIZE(compat)));
		*(__u32 *)(s->record + (at & RUT_AT_MASK)) = len;
		at = rut_forget(at + 4);
	}
	return at;
}

/* The socket addresses of messages, each behind the bytes that were moved when `received`. */
static __noinline __u32 add_names(struct rut_scratch *s, __u32 at, __u64 address, __u32 count,
				  __u32 how)
{
	const __u32 compat = how & 1, received = how & 2;
	__u32 n = count > RUT_MMSG_MAX ? RUT_MMSG_MAX : count;

	at &= RUT_AT_MASK;
	s->record[at] = count > RUT_MMSG_MAX;
	s->record[at + 1] = (__u8)n;
	at += 2;
	for (__u32 i = 0; i < RUT_MMSG_MAX; i++) {
		__u64 msg = address + i * RUT_MMSG_SIZE(compat);
		__u32 len = 0;

		if (i >= n)
			break;
		if (received) {
			bpf_probe_read_user(&len, 4, (void *)(msg + RUT_MMSG_LEN_AT(compat)));
			*(__u32 *)(s->record + (at & RUT_AT_MASK)) = len;
			at += 4;
		}
		at = rut_forget(add_msg(s, at, msg, compat));
	}
	return at;
}

/* Calls behind socketcall(), with arguments that are 32-bit numbers in memory. */
enum {
	RUT_SC_BIND = 2,
	RUT_SC_CONNECT = 3,
	RUT_SC_ACCEPT = 5,
	RUT_SC_GETSOCKNAME = 6,
	RUT_SC_GETPEERNAME = 7,
	RUT_SC_SOCKETPAIR = 8,
	RUT_SC_SENDTO = 11,
	RUT_SC_RECVFROM = 12,
	RUT_SC_SENDMSG = 16,
	RUT_SC_RECVMSG = 17,
	RUT_SC_ACCEPT4 = 18,
};

static const volatile __u8 rut_sc_nargs[32] = {0, 3, 3, 3, 2, 3, 3, 3, 4, 4, 4,
					       6, 6, 2, 5, 5, 3, 3, 4, 5, 4};

#define RUT_SC_VALUES 256 /* where in the scratch address they are kept */

static __always_inline __u32 fetch_values(struct rut_scratch *s, __u64 address, __u32 call)
{
	__u32 n = call < 32 ? rut_sc_nargs[call & 31] & 7 : 0;

	__builtin_memset(s->address + RUT_SC_VALUES, 0, 24);
	if (n && bpf_probe_read_user(s->address + RUT_SC_VALUES, n * 4, (void *)address))
		n = 0;
	return n;
}

#define RUT_SC_VALUE(i) (*(const volatile __u32 *)(s->address + RUT_SC_VALUES + 4 * (i)))

static __noinline __u32 add_socketcall(struct rut_scratch *s, __u32 at, __u64 address, __u32 call)
{
	__u32 n = fetch_values(s, address, call), size = 0;
	__u64 name = 0;

	at &= RUT_AT_MASK;
	s->record[at] = (__u8)n;
	__builtin_memcpy(s->record + at + 1, s->address + RUT_SC_VALUES, 24);
	at += 1 + 4 * (n & 7);
	if (call == RUT_SC_SENDMSG)
		return add_msg(s, at, RUT_SC_VALUE(1), 1);
	if (call == RUT_SC_BIND || call == RUT_SC_CONNECT) {
		name = RUT_SC_VALUE(1);
		size = RUT_SC_VALUE(2);
	} else if (call == RUT_SC_SENDTO) {
		name = RUT_SC_VALUE(4);
		size = RUT_SC_VALUE(5);
	}
	return rut_add_sockaddr(at, name, size);
}

static __noinline __u32 exit_socketcall(struct rut_scratch *s, __u32 at, __u64 address, __u32 call,
					__u32 failed)
{
	__u64 name = 0, size_at = 0;
	__u32 size = 0;

	fetch_values(s, address, failed ? 0 : call);
	if (call == RUT_SC_RECVFROM) {
		name = RUT_SC_VALUE(4);
		size_at = RUT_SC_VALUE(5);
	} else if (call == RUT_SC_ACCEPT || call == RUT_SC_GETSOCKNAME ||
		   call == RUT_SC_GETPEERNAME || call == RUT_SC_ACCEPT4) {
		name = RUT_SC_VALUE(1);
		size_at = RUT_SC_VALUE(2);
	}
	if (call == RUT_SC_RECVMSG) {
		at = add_msg(s, at, RUT_SC_VALUE(1), 1);
	} else {
		if (size_at)
			bpf_probe_read_user(&size, 4, (void *)size_at);
		at = rut_add_sockaddr(at, name, size);
	}
	at = rut_forget(at) & RUT_AT_MASK;
	s->record[at] = 0;
	if (call != RUT_SC_SOCKETPAIR || failed)
		return at + 1;
	s->record[at] = 2;
	return add_pair(s, at + 1, RUT_SC_VALUE(3));
}

#define RUT_PART_COMPAT 256 /* beside a kind: of a 32-bit program */

/* Not static: see rut_add_sockaddr(). Returns where the next part begins. */
__noinline int rut_add_part(__u32 at, __u32 kind, __u64 address, __u32 count, __s64 ret)
{
	const __u32 compat = (kind & RUT_PART_COMPAT) != 0;
	__u32 zero = 0;
	struct rut_scratch *s = bpf_map_lookup_elem(&scratch, &zero);

	if (!s)
		return 0;
	switch (kind & (RUT_PART_COMPAT - 1)) {
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
	case RUT_PART_MMSG_TO:
		return add_names(s, at, address, count, compat);
	case RUT_PART_MMSG_FROM:
		return add_names(s, at, address, ret > 0 ? (__u32)ret : 0, 2 + (compat));
	case RUT_PART_MMSG_SENT:
		return add_lengths(s, at, address, ret > 0 ? (__u32)ret : 0, compat);
	case RUT_PART_SOCKETCALL:
		return add_socketcall(s, at, address, count);
	case RUT_PART_SOCKETCALL_EXIT:
		return exit_socketcall(s, at, address, count, ret < 0);
	case RUT_PART_RIGHTS:
		return add_rights(s, at, ret < 0 ? 0 : address, compat);
	default:
		return at;
	}
}

static __always_inline __u32 add_parts(struct rut_scratch *s, __u32 at,
				       const struct rut_part *parts, __u32 compat, __s64 ret)
{
	for (__u32 i = 0; i < RUT_PARTS; i++)
		if (parts[i].kind)
			at = rut_forget(rut_add_part(at,
						     parts[i].kind | (compat ? RUT_PART_COMPAT : 0),
						     argument(s, parts[i].arg),
						     (__u32)argument(s, parts[i].count), ret));
	return at;
}

#endif
