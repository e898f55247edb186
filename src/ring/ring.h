/* SPDX-License-Identifier: MIT */
/*
 * The ring: what every producer of rutile writes and every consumer reads.
 *
 * A ring is a power of two of sub-buffers, and a sub-buffer *is* a CTF packet: the producer writes
 * the packet's header and context when it enters a sub-buffer, records one after another, and the
 * remaining fields of the context when it leaves. So nothing is ever converted: recording is
 * write(2) of sub-buffers, a snapshot is a copy of them, a crash dump contains them as they are.
 *
 * One position, `pos`, counts the bytes that were ever reserved: its low bits are the offset in the
 * sub-buffer, the next ones the sub-buffer, the rest the lap. It only grows, so a compare-and-swap
 * cannot be fooled. A producer takes the time, then moves `pos` by compare-and-swap: it can be
 * interrupted between the two by another producer (an interrupt inside a system call), then the
 * swap fails and it starts over with a new time. Hence, in a packet, times never decrease. After
 * storing the record it adds its size to the sub-buffer's `commit`; a sub-buffer is finished when
 * `commit` has reached the end of its lap. A consumer moves `consumed` (discard mode only).
 *
 * Records are counted by the same addition: above the bytes, which are counted modulo 2^40,
 * `commit` holds the number of records of its lap (RUT_RING_RECORD each). A producer that enters
 * the sub-buffer again moves that number into `events`. So the count is exact and costs a producer
 * nothing.
 *
 * What must stay true:
 *  - the producer that moves `pos` into the next sub-buffer closes the old packet and commits its
 * rest;
 *  - a record never straddles sub-buffers, and never fills one to the last byte: offset 0 always
 *    means "this packet is not opened yet";
 *  - the consumer may close a packet (flush) by moving `pos` to the start of the next sub-buffer;
 *  - discard mode never enters a sub-buffer that is not consumed: the record is counted in `lost`.
 *
 * This header is compiled for the kernel's eBPF machine, for rutile and for the agent.
 */
#ifndef RUT_RING_RING_H
#define RUT_RING_RING_H

#include <linux/types.h>

#define RUT_RING_MAGIC	     0x52494e4752555449ull /* "ITURGNIR" in memory */
#define RUT_RING_VERSION     2
#define RUT_RING_MAX_SUBBUFS 256
#define RUT_RING_CTL_SIZE    4096

/* `commit`: bytes below, records above. `base` is what it had when its lap began. */
#define RUT_RING_RECORD_SHIFT	       40
#define RUT_RING_RECORD		       (1ull << RUT_RING_RECORD_SHIFT)
#define RUT_RING_BYTES(commit, base)   (((commit) - (base)) & (RUT_RING_RECORD - 1))
#define RUT_RING_RECORDS(commit, base) (((commit) - (base)) >> RUT_RING_RECORD_SHIFT)

#define RUT_CTF_PACKET_MAGIC 0xC1FC1FC1u

enum rut_ring_mode {
	RUT_RING_DISCARD = 0,	/* full: the new record is lost and counted */
	RUT_RING_OVERWRITE = 1, /* full: the oldest sub-buffer is reused */
};

/* Packet header and packet context, in the order of the metadata; all fields byte-packed. */
struct rut_packet {
	__u32 magic;
	__u8 uuid[16];
	__u32 stream_id;
	__u64 stream_instance_id; /* the CPU, or the process of an agent */
	/* context */
	__u64 timestamp_begin;
	__u64 timestamp_end;
	__u64 content_size; /* bits */
	__u64 packet_size;  /* bits */
	__u64 packet_seq_num;
	__u64 events_discarded; /* since the ring was made */
	__u32 cpu_id;
	__u32 pid; /* of an agent's process; 0: the kernel */
} __attribute__((packed));

/*
 * Every record starts with one 64-bit little-endian word: the event's id in the low 16 bits, and
 * the low 48 bits of the clock in nanoseconds above them. CTF lets a reader recover the full clock
 * from the packet's timestamp_begin; a producer opens a new packet before 2^47 ns have passed.
 */
#define RUT_RECORD_HEADER(id, ns) ((__u64)(id) | (__u64)(ns) << 16)
/* opened_ns of a ring that is frozen: further than RUT_PACKET_MAX_NS from any time. */
#define RUT_RING_FROZEN_NS (1ull << 62)
#define RUT_PACKET_MAX_NS  (1ull << 47)

/* The control page of a ring. Shared by producers and consumers: 64-byte lines by writer. */
struct rut_ring_ctl {
	/* Set once, before the first record. */
	__u64 magic;
	__u32 version;
	__u32 mode;
	__u32 subbuf_shift; /* log2 of a sub-buffer's bytes, 12..26 */
	__u32 subbuf_count; /* a power of two, 2..RUT_RING_MAX_SUBBUFS */
	__u32 cpu_id;
	__u32 pid;
	__u32 stream_id;
	__u8 uuid[16];
	__u8 _pad0[12];
	/* Producers. */
	__u64 pos __attribute__((aligned(64)));
	__u64 lost;
	__u64 opened_ns; /* timestamp_begin of the packet being written */
	__u64 last_ns;	 /* about the time of the last record; kernel rings only */
	__u64 events;	 /* records of packets that were overwritten */
	__u64 frozen;	 /* not 0: no packet is opened any more; kernel rings only */
	__u8 _pad1[16];
	/* The consumer. */
	__u64 consumed; /* bytes, a multiple of the sub-buffer's size */
	__u8 _pad2[56];
	__u8 _user[1856]; /* whatever else the ring's owner keeps beside it */
	__u64 commit[RUT_RING_MAX_SUBBUFS];
};

_Static_assert(sizeof(struct rut_packet) == 88, "packet header and context");
_Static_assert(__builtin_offsetof(struct rut_packet, timestamp_begin) == 32, "context at 32");
_Static_assert(__builtin_offsetof(struct rut_ring_ctl, pos) == 64, "producers' line");
_Static_assert(__builtin_offsetof(struct rut_ring_ctl, consumed) == 128, "consumer's line");
_Static_assert(__builtin_offsetof(struct rut_ring_ctl, commit) == 2048, "commit counts");
_Static_assert(sizeof(struct rut_ring_ctl) == RUT_RING_CTL_SIZE, "one page");

#endif
