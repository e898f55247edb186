/* SPDX-License-Identifier: MIT */
/*
 * The records of a trace: CTF, byte-packed, after the header word of ring.h. Names are numbers of
 * rows and offsets of strings in the session's table, which is there before the record.
 */
#ifndef RUT_AGENT_EVENT_H
#define RUT_AGENT_EVENT_H

#include <stdint.h>

#define RUT_EVENT_STREAM 1 /* stream_id of the ring */

enum rut_agent_event_id {
	RUT_EVENT_ID_CALL = 1,
	RUT_EVENT_ID_RETURN,
	RUT_EVENT_ID_RAISE,
	RUT_EVENT_ID_SLOW,
	RUT_EVENT_ID_CALL_ARGS,
	RUT_EVENT_ID_RETURN_VALUE,
	RUT_EVENT_ID_FRAMES, /* struct rut_event_slow: of the thread's next event */
	RUT_EVENT_ID_HIT,
};

struct rut_event_common {
	uint64_t header;
	uint32_t row; /* RAISE: the class's name */
	uint32_t tid;
	uint32_t fiber;
	uint32_t depth;
} __attribute__((packed));

struct rut_event_call_args {
	struct rut_event_common c;
	char args[]; /* NUL-terminated */
} __attribute__((packed));

struct rut_event_return {
	struct rut_event_common c;
	uint64_t duration_ns;
} __attribute__((packed));

struct rut_event_return_value {
	struct rut_event_return r;
	char value[]; /* NUL-terminated */
} __attribute__((packed));

struct rut_event_raise {
	struct rut_event_common c;
	uint32_t path, line;
} __attribute__((packed));

#define RUT_EVENT_CALLERS 256

/* A slow call and its callers; or, with RUT_AGENT_STACKS, a thread and its frames. */
struct rut_event_slow {
	struct rut_event_common c;
	uint64_t duration_ns;
	uint32_t caller_count;
	uint32_t callers[]; /* rows, innermost first */
} __attribute__((packed));

/* A hit of a probe of a script (hit.h), which is not reported to the kernel: `row` is its number.
 * The tracer knows whose ring it is, and so the PID. */
struct rut_event_hit {
	struct rut_event_common c;
	uint64_t duration_ns, line;
	uint32_t text_bytes;
	char texts[]; /* in the order of the wishes: NUL-terminated; of numbers 8 bytes */
} __attribute__((packed));

#endif
