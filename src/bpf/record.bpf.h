/* SPDX-License-Identifier: GPL-2.0 */
/* What every program of an event does: reserve, contexts, store, commit. */
#ifndef RUT_BPF_RECORD_BPF_H
#define RUT_BPF_RECORD_BPF_H

#include "bpf/context.bpf.h"
#include "bpf/copy.bpf.h"
#include "bpf/read.bpf.h"

#include <bpf/bpf_tracing.h>

extern int LINUX_KERNEL_VERSION __kconfig;
#define RUT_SINCE(major, minor) (LINUX_KERNEL_VERSION >= ((major) << 16 | (minor) << 8))

/* Reserves and stores header and contexts; `p` is the payload then. */
#define RUT_BEGIN(sym)                                                                             \
	const __u64 _size = 8 + conf.context_size + sizeof(struct rut_ev_##sym);                   \
	struct rut_slot slot;                                                                      \
	unsigned char *p = rut_reserve(&slot, RUT_EV_##sym, _size, _size);                         \
	if (!p)                                                                                    \
		return 0;                                                                          \
	p = rut_store_contexts(ctx, p)
/* The same; without stacks when `lean`. */
#define RUT_BEGIN_LEAN(sym, lean)                                                                  \
	const __u64 _size = 8 + conf.context_size + sizeof(struct rut_ev_##sym);                   \
	struct rut_slot slot;                                                                      \
	unsigned char *p = rut_reserve(&slot, RUT_EV_##sym, _size, _size);                         \
	if (!p)                                                                                    \
		return 0;                                                                          \
	if (lean)                                                                                  \
		p = rut_store_contexts(NULL, p);                                                   \
	else                                                                                       \
		p = rut_store_contexts(ctx, p)
#define RUT_END()                                                                                  \
	rut_commit(&slot, _size);                                                                  \
	return 0

/* The same with a tail of at most `max` bytes, of which `tail` are used. */
#define RUT_BEGIN_TAIL(sym, tail, max)                                                             \
	const __u64 _max = 8 + conf.context_size + sizeof(struct rut_ev_##sym) + (max);            \
	const __u64 _size = 8 + conf.context_size + sizeof(struct rut_ev_##sym) + (tail);          \
	struct rut_slot slot;                                                                      \
	unsigned char *p = rut_reserve(&slot, RUT_EV_##sym, _size, _max);                          \
	if (!p)                                                                                    \
		return 0;                                                                          \
	p = rut_store_contexts(ctx, p)

/* Names: at most 16 bytes are kept, always terminated. */
static __always_inline void name_from_device(struct rut_name *n, struct net_device *dev)
{
	const __u64 *from = (const __u64 *)dev->name;

	n->low = dev ? from[0] : 0;
	n->high = dev ? from[1] : 0;
	rut_measure_name(n);
}

/* A string behind a plain pointer has no BTF bounds. */
static __always_inline void name_from_pointer(struct rut_name *n, const char *from)
{
	__u64 words[2] = {0};

	if (rut_read_kernel(words, sizeof(words), from, true) < 0)
		words[0] = 0;
	n->low = words[0];
	n->high = words[1];
	rut_measure_name(n);
}

#endif
