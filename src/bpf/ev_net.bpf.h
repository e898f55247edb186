/* SPDX-License-Identifier: GPL-2.0 */
/* Network devices, signals, pages. */
#ifndef RUT_BPF_EV_NET_BPF_H
#define RUT_BPF_EV_NET_BPF_H

#include "bpf/record.bpf.h"

#define NET(tp, sym)                                                                               \
	SEC("tp_btf/" #tp)                                                                         \
	int BPF_PROG(tp, struct sk_buff *skb)                                                      \
	{                                                                                          \
		struct net_device *dev = skb->dev;                                                 \
		struct rut_name name;                                                              \
                                                                                                   \
		if (!rut_allowed())                                                                \
			return 0;                                                                  \
		name_from_device(&name, dev);                                                      \
		RUT_BEGIN_TAIL(sym, name.len, RUT_NAME_MAX);                                       \
		PUT(sym, skbaddr, (__u64)skb);                                                     \
		PUT(sym, len, skb->len);                                                           \
		rut_store_name(p + sizeof(struct rut_ev_##sym), &name);                            \
		RUT_END();                                                                         \
	}

NET(net_dev_queue, NET_QUEUE)
NET(netif_receive_skb, NET_RECEIVE)

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

/* `info` can be 0, 1 or 2 instead of a pointer: who sent it, and nothing more. */
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
