/* SPDX-License-Identifier: GPL-2.0 */
/* What every program of an event does: reserve, contexts, store, commit. */
#ifndef RUT_BPF_RECORD_BPF_H
#define RUT_BPF_RECORD_BPF_H

#include "bpf/filter.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* Reserves and stores header and contexts; `p` is the payload then. */
#define RUT_BEGIN(sym)                                                                             \
	const __u64 _size = 8 + conf.context_size + sizeof(struct rut_ev_##sym);                   \
	struct rut_slot slot;                                                                      \
	unsigned char *p = rut_reserve(&slot, RUT_EV_##sym, _size, _size);                         \
	if (!p)                                                                                    \
		return 0;                                                                          \
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

/* A device's or interrupt's name: at most 16 bytes are kept, always terminated. */
struct rut_name {
	char text[16];
	__u32 len; /* with the NUL */
};

static __always_inline void name_from_bytes(struct rut_name *n, const char *from)
{
	n->len = 16;
	for (unsigned int i = 0; i < 15; i++) {
		char c = from ? from[i] : 0;

		n->text[i] = c;
		if (!c) {
			n->len = i + 1;
			break;
		}
	}
	n->text[15] = 0;
}

static __always_inline void store_name(unsigned char *to, const struct rut_name *n)
{
	for (unsigned int i = 0; i < 16; i++) {
		if (i >= n->len)
			break;
		to[i] = n->text[i];
	}
}

#endif
