/* SPDX-License-Identifier: MIT */
/* Reading the header and context of a packet, and where the next one begins. */
#ifndef RUT_CTF_PACKET_H
#define RUT_CTF_PACKET_H

#include "ctf/meta.h"
#include "ctf/reader.h"

struct rut_packet_info {
	struct rut_ctf_packet pub;
	const struct rut_ctf_stream_class *cls;
	bool has_instance;
	uint64_t instance;
	uint64_t events_pos;	 /* bits: where the first event's header may begin */
	uint64_t discarded_mask; /* of the counter's width */
	uint64_t seq_mask;
	bool other_trace; /* its UUID differs from the metadata's: it is read all the same */
	bool cut;	  /* the file ends before the packet does: content_bits is what there is */
};

/*
 * Decodes the packet at `offset` of a file of `size` bytes. `regs` takes the values that the
 * events may refer to. Returns 0 or -errno with a message without the file's name. When only the
 * end of the packet is missing the result is 0 and `cut` is set.
 */
int rut_packet_read(const struct rut_meta *m, const uint8_t *file, uint64_t size, uint64_t offset,
		    uint64_t *regs, struct rut_packet_info *ret, struct rut_err *err);

/*
 * Packets that are missing between two that follow each other. A number that has not grown, as of a
 * counter that was reset, is no loss.
 */
static inline uint64_t rut_packets_missing(const struct rut_packet_info *before,
					   const struct rut_packet_info *p)
{
	uint64_t n = (p->pub.seq - before->pub.seq - 1) & p->seq_mask;

	return p->pub.has_seq && before->pub.has_seq && n <= p->seq_mask / 2 ? n : 0;
}

/* ns since the epoch of a clock's value; saturates. */
int64_t rut_ctf_clock_ns(const struct rut_ctf_clock *c, uint64_t value);

#endif
