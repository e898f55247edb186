/* SPDX-License-Identifier: MIT */
/*
 * The packets of ring.h in TSDL, CTF 1.8's language of metadata: what every trace has in common
 * that is written from rings. Strings, from which descriptions are put together.
 */
#ifndef RUT_RING_TSDL_H
#define RUT_RING_TSDL_H

#include <stdint.h>

#include "base/buf.h"

#define RUT_TSDL_INTEGERS                                                                          \
	"typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"                 \
	"typealias integer { size = 16; align = 8; signed = false; } := uint16_t;\n"               \
	"typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"               \
	"typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"               \
	"typealias integer { size = 8; align = 8; signed = true; } := int8_t;\n"                   \
	"typealias integer { size = 16; align = 8; signed = true; } := int16_t;\n"                 \
	"typealias integer { size = 32; align = 8; signed = true; } := int32_t;\n"                 \
	"typealias integer { size = 64; align = 8; signed = true; } := int64_t;\n"

/*
 * After a clock "monotonic". `last` is the name of struct rut_packet's last field, `id` the
 * stream_id of its first stream; the stream's block is left open.
 */
#define RUT_TSDL_PACKETS(last, id)                                                                 \
	"typealias integer { size = 48; align = 1; signed = false; map = "                         \
	"clock.monotonic.value; } := uint48_clock_t;\n"                                            \
	"typealias integer { size = 64; align = 8; signed = false; map = "                         \
	"clock.monotonic.value; } := uint64_clock_t;\n\n"                                          \
	"struct packet_context {\n"                                                                \
	"\tuint64_clock_t timestamp_begin;\n"                                                      \
	"\tuint64_clock_t timestamp_end;\n"                                                        \
	"\tuint64_t content_size;\n"                                                               \
	"\tuint64_t packet_size;\n"                                                                \
	"\tuint64_t packet_seq_num;\n"                                                             \
	"\tuint64_t events_discarded;\n"                                                           \
	"\tuint32_t cpu_id;\n"                                                                     \
	"\tuint32_t " last ";\n"                                                                   \
	"};\n\n"                                                                                   \
	"struct event_header {\n"                                                                  \
	"\tuint16_t id;\n"                                                                         \
	"\tuint48_clock_t timestamp;\n"                                                            \
	"} align(8);\n\n"                                                                          \
	"stream {\n"                                                                               \
	"\tid = " id ";\n"                                                                         \
	"\tevent.header := struct event_header;\n"                                                 \
	"\tpacket.context := struct packet_context;\n"

/* The block "trace", with the packets' header. */
static inline void rut_tsdl_trace(struct rut_buf *b, const uint8_t uuid[16])
{
	rut_buf_puts(b, "trace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"");
	for (int i = 0; i < 16; i++)
		rut_buf_printf(b, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			       uuid[i]);
	rut_buf_puts(b, "\";\n\tbyte_order = le;\n\tpacket.header := struct {\n"
			"\t\tuint32_t magic;\n\t\tuint8_t uuid[16];\n\t\tuint32_t stream_id;\n"
			"\t\tuint64_t stream_instance_id;\n\t};\n};\n\n");
}

#endif
