/* SPDX-License-Identifier: GPL-2.0 */
/* Network devices, signals, pages. */
#ifndef RUT_BPF_EV_NET_BPF_H
#define RUT_BPF_EV_NET_BPF_H

#include "bpf/packet.bpf.h"
#include "bpf/record.bpf.h"

#define NET(tp, sym, slot)                                                                         \
	SEC("tp_btf/" #tp)                                                                         \
	int BPF_PROG(tp, struct sk_buff *skb)                                                      \
	{                                                                                          \
		struct net_device *dev = skb->dev;                                                 \
		struct rut_headers *h;                                                             \
		struct rut_name name;                                                              \
                                                                                                   \
		if (!rut_allowed())                                                                \
			return 0;                                                                  \
		name_from_device(&name, dev);                                                      \
		h = rut_read_headers(skb, slot);                                                   \
		if (!h)                                                                            \
			return 0;                                                                  \
		RUT_BEGIN_TAIL(sym, name.len + h->len, 2 * RUT_NAME_MAX + RUT_HEADERS_MAX);        \
		PUT(sym, skbaddr, (__u64)skb);                                                     \
		PUT(sym, len, skb->len);                                                           \
		PUT(sym, network_header_type, h->type);                                            \
		p += sizeof(struct rut_ev_##sym);                                                  \
		rut_store_name(p, &name);                                                          \
		p += name.len & 31;                                                                \
		rut_copy(p, h->bytes, h->len, h->len, RUT_HEADERS_MAX);                            \
		RUT_END();                                                                         \
	}

NET(net_dev_queue, NET_QUEUE, 0)
NET(netif_receive_skb, NET_RECEIVE, 1)

SEC("tp_btf/net_dev_xmit")
int BPF_PROG(net_dev_xmit, struct sk_buff *skb, int rc, struct net_device *dev, unsigned int len)
{
	struct rut_name name;

	if (!rut_allowed())
		return 0;
	name_from_device(&name, dev);
	RUT_BEGIN_TAIL(NET_XMIT, name.len, RUT_NAME_MAX);
	PUT(NET_XMIT, skbaddr, (__u64)skb);
	PUT(NET_XMIT, rc, rc);
	PUT(NET_XMIT, len, len);
	rut_store_name(p + sizeof(struct rut_ev_NET_XMIT), &name);
	RUT_END();
}

#define RUT_SOCKET_V6	10
#define RUT_IPPROTO_TCP 6

/* The port of a socket that closes is given back before the event, and stays in another field. */
static __always_inline __u16 own_port(const struct sock *sk)
{
	const struct tcp_sock *tcp = NULL;

	if (sk->sk_protocol == RUT_IPPROTO_TCP)
		tcp = bpf_skc_to_tcp_sock((void *)sk);
	return tcp ? __builtin_bswap16(tcp->inet_conn.icsk_inet.inet_sport)
		   : sk->__sk_common.skc_num;
}

/* The addresses that a socket has, in both families' fields; an IPv4 socket has none of IPv6. */
#define PUT_SOCKET(sym, sk)                                                                        \
	do {                                                                                       \
		const struct sock_common *c = &(sk)->__sk_common;                                  \
                                                                                                   \
		PUT(sym, sport, own_port(sk));                                                     \
		PUT(sym, dport, __builtin_bswap16(c->skc_dport));                                  \
		PUT(sym, family, c->skc_family);                                                   \
		*(__u32 *)FIELD(sym, saddr) = c->skc_rcv_saddr;                                    \
		*(__u32 *)FIELD(sym, daddr) = c->skc_daddr;                                        \
		put_address(FIELD(sym, saddr_v6), &c->skc_v6_rcv_saddr,                            \
			    c->skc_family == RUT_SOCKET_V6);                                       \
		put_address(FIELD(sym, daddr_v6), &c->skc_v6_daddr,                                \
			    c->skc_family == RUT_SOCKET_V6);                                       \
	} while (0)

static __always_inline void put_address(void *to, const struct in6_addr *from, const bool there)
{
	const __u64 *words = (const __u64 *)from->in6_u.u6_addr8;

	((__u64 *)to)[0] = there ? words[0] : 0;
	((__u64 *)to)[1] = there ? words[1] : 0;
}

/* Connects under way, by socket: the thread that called, which their ends have not. */
struct rut_connecting {
	__u64 begin_ns;
	__s32 tid, pid;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct rut_connecting);
} connecting SEC(".maps");

#define RUT_TCP_SYN_SENT 2
#define RUT_TCP_CLOSE	 7

/* connect() itself sends the first packet, or sendto() does with TCP Fast Open. */
static __noinline void begin_connect(__u64 sk)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct rut_connecting c = {bpf_ktime_get_ns(), task->pid, task->tgid, ""};

	rut_copy_comm(c.comm, task);
	bpf_map_update_elem(&connecting, &sk, &c, BPF_ANY);
}

static __always_inline int end_connect(void *ctx, const struct sock *sk, int state)
{
	__u64 key = (__u64)sk;
	const struct rut_connecting *c = bpf_map_lookup_elem(&connecting, &key);

	if (!c)
		return 0;
	RUT_BEGIN(TCP_CONNECT);
	PUT(TCP_CONNECT, skaddr, (__u64)sk);
	PUT(TCP_CONNECT, state, state);
	PUT(TCP_CONNECT, err, state == RUT_TCP_CLOSE ? sk->sk_err : 0);
	PUT(TCP_CONNECT, duration_ns, bpf_ktime_get_ns() - c->begin_ns);
	PUT(TCP_CONNECT, tid, c->tid);
	PUT(TCP_CONNECT, pid, c->pid);
	((__u64 *)FIELD(TCP_CONNECT, comm))[0] = *(const __u64 *)c->comm;
	((__u64 *)FIELD(TCP_CONNECT, comm))[1] = *(const __u64 *)(c->comm + 8);
	PUT_SOCKET(TCP_CONNECT, sk);
	bpf_map_delete_elem(&connecting, &key);
	RUT_END();
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(inet_sock_set_state, const struct sock *sk, const int oldstate, const int newstate)
{
	if (!conf.no_connect && sk->sk_protocol == RUT_IPPROTO_TCP) {
		/* Whether it is recorded is decided by the caller, not by what the end interrupts.
		 */
		if (newstate == RUT_TCP_SYN_SENT && rut_allowed())
			begin_connect((__u64)sk);
		else if (oldstate == RUT_TCP_SYN_SENT)
			end_connect(ctx, sk, newstate);
	}
	if (conf.no_state || !rut_allowed())
		return 0;
	RUT_BEGIN(SOCK_STATE);
	PUT(SOCK_STATE, skaddr, (__u64)sk);
	PUT(SOCK_STATE, oldstate, oldstate);
	PUT(SOCK_STATE, newstate, newstate);
	PUT(SOCK_STATE, protocol, sk->sk_protocol);
	PUT_SOCKET(SOCK_STATE, sk);
	RUT_END();
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_skb, const struct sock *sk, const struct sk_buff *skb)
{
	if (!rut_allowed())
		return 0;
	RUT_BEGIN(TCP_RETRANSMIT);
	PUT(TCP_RETRANSMIT, skbaddr, (__u64)skb);
	PUT(TCP_RETRANSMIT, skaddr, (__u64)sk);
	PUT(TCP_RETRANSMIT, state, sk->__sk_common.skc_state);
	PUT_SOCKET(TCP_RETRANSMIT, sk);
	RUT_END();
}

/* `info` can be 0, 1 or 2 instead of a pointer: the kind of sender, and nothing more. */
#define SI_USER	  0
#define SI_KERNEL 0x80

SEC("tp_btf/signal_generate")
int BPF_PROG(signal_generate, int sig, struct kernel_siginfo *info, struct task_struct *task,
	     int group, int result)
{
	__u64 special = (__u64)info;

	if (!rut_allowed_task(task))
		return 0;
	RUT_BEGIN(SIGNAL_GENERATE);
	PUT(SIGNAL_GENERATE, sig, sig);
	PUT(SIGNAL_GENERATE, err, special > 2 ? info->si_errno : 0);
	PUT(SIGNAL_GENERATE, code,
	    special > 2	   ? info->si_code
	    : special == 1 ? SI_KERNEL
			   : SI_USER);
	rut_copy_comm(FIELD(SIGNAL_GENERATE, comm), task);
	PUT(SIGNAL_GENERATE, pid, task->pid);
	PUT(SIGNAL_GENERATE, group, group);
	PUT(SIGNAL_GENERATE, result, result);
	RUT_END();
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(signal_deliver, int sig, struct kernel_siginfo *info, struct k_sigaction *ka)
{
	__u64 special = (__u64)info;

	if (!rut_allowed())
		return 0;
	RUT_BEGIN(SIGNAL_DELIVER);
	PUT(SIGNAL_DELIVER, sig, sig);
	PUT(SIGNAL_DELIVER, err, special > 2 ? info->si_errno : 0);
	PUT(SIGNAL_DELIVER, code, special > 2 ? info->si_code : special == 1 ? SI_KERNEL : SI_USER);
	PUT(SIGNAL_DELIVER, handler, (__u64)ka->sa.sa_handler);
	PUT(SIGNAL_DELIVER, sa_flags, ka->sa.sa_flags);
	RUT_END();
}

/*
 * Where the array of struct page begins; its elements have 64 bytes. The address of the kernel's
 * variable comes from user space: libbpf would read all of kallsyms for it at every start.
 */
const volatile __u64 vmemmap_base_at = 0;
/* Where that is unknown: the bits of a page's address that are its distance from there; or 0. */
const volatile __u64 vmemmap_mask = 0;
static __u64 vmemmap;

/* `page` was stored and loaded again: the verifier allows no arithmetic with kernel pointers. */
static __always_inline __u64 page_number(__u64 page)
{
	__u64 base = 0;

	if (!vmemmap && vmemmap_base_at) {
		rut_read_kernel(&base, sizeof(base), (const void *)vmemmap_base_at, false);
		vmemmap = base;
	}
	if (vmemmap && page)
		return (page - vmemmap) / 64;
	return (page & vmemmap_mask) / 64;
}

#define STORED(sym, field) (*(volatile __u64 *)FIELD(sym, field))

SEC("tp_btf/mm_page_alloc")
int BPF_PROG(mm_page_alloc, struct page *page, unsigned int order, unsigned int gfp,
	     int migratetype)
{
	if (!rut_allowed())
		return 0;
	RUT_BEGIN(PAGE_ALLOC);
	PUT(PAGE_ALLOC, page, (__u64)page);
	PUT(PAGE_ALLOC, pfn, page_number(STORED(PAGE_ALLOC, page)));
	PUT(PAGE_ALLOC, order, order);
	PUT(PAGE_ALLOC, gfp_flags, gfp);
	PUT(PAGE_ALLOC, migratetype, migratetype);
	RUT_END();
}

SEC("tp_btf/mm_page_free")
int BPF_PROG(mm_page_free, struct page *page, unsigned int order)
{
	if (!rut_allowed())
		return 0;
	RUT_BEGIN(PAGE_FREE);
	PUT(PAGE_FREE, page, (__u64)page);
	PUT(PAGE_FREE, pfn, page_number(STORED(PAGE_FREE, page)));
	PUT(PAGE_FREE, order, order);
	RUT_END();
}

#endif
