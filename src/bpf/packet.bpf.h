/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Headers of packets, as LTTng records them: the bytes of the IPv4 or IPv6 header, one byte that
 * says what is behind it (enum rut_transport_type), and the bytes of that header.
 */
#ifndef RUT_BPF_PACKET_BPF_H
#define RUT_BPF_PACKET_BPF_H

#include "bpf/copy.bpf.h"
#include "bpf/read.bpf.h"

#define RUT_ETH_IPV4 0x0008 /* 0x0800, big endian */
#define RUT_ETH_IPV6 0xdd86

#define RUT_IPV4_BYTES 20
#define RUT_IPV6_BYTES 40
#define RUT_TCP_BYTES  20
#define RUT_UDP_BYTES  8 /* and ICMP */

#define RUT_HEADERS_MAX 64 /* IPv6, the byte between, TCP */

struct rut_headers {
	__u8 bytes[RUT_HEADERS_MAX + 8]; /* rut_copy() reads eight more */
	__u32 len;
	__u32 type; /* enum rut_net_type */
};

/* One for each program that records packets, which does not nest in itself. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct rut_headers);
} headers SEC(".maps");

/* Where the next header is, or 0: not in the packet's contiguous part. */
static __always_inline __u32 rut_transport_at(const struct sk_buff *skb, __u32 network,
					      __u32 network_len, __u32 bytes)
{
	__u32 at = skb->transport_header;

	/* Of a packet that was just received it may not be known yet. */
	if (at <= network || at == 0xffff)
		at = network + network_len;
	return at + bytes <= skb->tail ? at : 0;
}

static __always_inline void rut_read_transport(struct rut_headers *h, const struct sk_buff *skb,
					       __u32 at, __u8 protocol, __u32 network,
					       __u32 network_len)
{
	const char *head = (const char *)skb->head;
	const bool tcp = protocol == 6;
	__u32 from;

	h->bytes[at] = RUT_TRANSPORT_UNKNOWN;
	h->len = at + 1;
	if (!tcp && protocol != 17 && protocol != 1)
		return;
	from = rut_transport_at(skb, network, network_len, tcp ? RUT_TCP_BYTES : RUT_UDP_BYTES);
	if (!from)
		return;
	h->bytes[at] = tcp		? RUT_TRANSPORT_TCP
		       : protocol == 17 ? RUT_TRANSPORT_UDP
					: RUT_TRANSPORT_ICMP;
	rut_read_kernel(h->bytes + at + 1, 8, head + from, false);
	h->len = at + 1 + RUT_UDP_BYTES;
	if (!tcp)
		return;
	rut_read_kernel(h->bytes + at + 9, 8, head + from + 8, false);
	rut_read_kernel(h->bytes + at + 17, 4, head + from + 16, false);
	h->len = at + 1 + RUT_TCP_BYTES;
}

static __always_inline struct rut_headers *rut_read_headers(const struct sk_buff *skb, __u32 slot)
{
	struct rut_headers *h = bpf_map_lookup_elem(&headers, &slot);
	const char *head = (const char *)skb->head;
	__u32 network = skb->network_header, protocol = skb->protocol;
	const bool v4 = protocol == RUT_ETH_IPV4;
	__u32 bytes = v4 ? RUT_IPV4_BYTES : RUT_IPV6_BYTES;

	if (!h)
		return NULL;
	h->type = RUT_NET_UNKNOWN;
	h->len = 0;
	if (!network || (!v4 && protocol != RUT_ETH_IPV6) || network + bytes > skb->tail ||
	    rut_read_kernel(h->bytes, 16, head + network, false) < 0)
		return h;
	if (v4) {
		rut_read_kernel(h->bytes + 16, 4, head + network + 16, false);
		h->type = RUT_NET_IPV4;
		rut_read_transport(h, skb, RUT_IPV4_BYTES, h->bytes[9], network,
				   (h->bytes[0] & 15) * 4);
	} else {
		rut_read_kernel(h->bytes + 16, 16, head + network + 16, false);
		rut_read_kernel(h->bytes + 32, 8, head + network + 32, false);
		h->type = RUT_NET_IPV6;
		rut_read_transport(h, skb, RUT_IPV6_BYTES, h->bytes[6], network, RUT_IPV6_BYTES);
	}
	return h;
}

#endif
