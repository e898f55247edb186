/* SPDX-License-Identifier: MIT */
/*
 * Record mode: the records of Ruby events, and how they are laid out. The tracer writes the packets
 * into a trace as they are (src/ruby/record_meta.c has the matching metadata), so this is the
 * format on disk.
 *
 * Byte-packed CTF after the header word of ring.h. A record does not name its thread: records of
 * one thread follow each other, and a SWITCH record names the thread when that changes and at
 * the begin of each packet. So the usual record has 12 bytes. A method, a place or a class is the
 * number of a row of the session's table (abi.h), which the tracer writes into the trace as
 * `ruby:method` records.
 */
#ifndef RUT_AGENT_RECORD_H
#define RUT_AGENT_RECORD_H

#include <stdint.h>

#define RUT_RECORD_STREAM 1 /* stream_id of the ring */

enum rut_record_id {
	RUT_RECORD_SWITCH = 1,
	RUT_RECORD_CALL,
	RUT_RECORD_RETURN,
	RUT_RECORD_C_CALL,
	RUT_RECORD_C_RETURN,
	RUT_RECORD_RAISE,
	RUT_RECORD_RESCUE,
	RUT_RECORD_ALLOC,
	RUT_RECORD_GC_START,
	RUT_RECORD_GC_MARK_END,
	RUT_RECORD_GC_SWEEP_END,
	RUT_RECORD_GC_ENTER,
	RUT_RECORD_GC_EXIT,
	RUT_RECORD_THREAD_START,
	RUT_RECORD_THREAD_EXIT,
	RUT_RECORD_GVL_WAIT,
	RUT_RECORD_GVL_HAVE,
	RUT_RECORD_GVL_RELEASE,
	RUT_RECORD_REQUEST_BEGIN,
	RUT_RECORD_REQUEST_END,
	RUT_RECORD_SPAN_BEGIN,
	RUT_RECORD_SPAN_END,
	RUT_RECORD_LINE,
	RUT_RECORD_ALLOC_SAMPLE,
	RUT_RECORD_SLOW_CALL,
};

struct rut_record_switch {
	uint64_t header;
	uint32_t tid;
	uint32_t fiber; /* small number, per process */
} __attribute__((packed));

/* CALL, RETURN, C_CALL, C_RETURN, RAISE (row: class and place), RESCUE */
struct rut_record_row {
	uint64_t header;
	uint32_t row;
} __attribute__((packed));

/*
 * SLOW_CALL: a call that is known to be slow by now. Its RETURN follows, and between them those of
 * the slow calls in it, as for other calls.
 */
struct rut_record_slow {
	uint64_t header;
	uint32_t row;
	uint64_t ago_ns; /* when it began, before this record */
} __attribute__((packed));

/* LINE: a line of a method, or of a block in it, begins. */
struct rut_record_line {
	uint64_t header;
	uint32_t row; /* method, file and line */
	uint32_t line;
} __attribute__((packed));

struct rut_record_alloc {
	uint64_t header;
	uint32_t row; /* class and place */
	uint32_t bytes;
} __attribute__((packed));

#define RUT_RECORD_FRAMES 1000 /* of a sample at most: the innermost */

/* ALLOC_SAMPLE: one allocation that stands for `weight` objects or bytes. */
struct rut_record_sample {
	uint64_t header;
	uint32_t row; /* class */
	uint32_t bytes;
	uint32_t weight;
	uint32_t frame_count;
	uint32_t frames[]; /* rows: method, file and line that runs; innermost first */
} __attribute__((packed));

/* GC_START, GC_SWEEP_END */
struct rut_record_gc {
	uint64_t header;
	uint32_t count;	     /* GCs since the program began */
	uint64_t live_slots; /* of the heap */
	uint8_t major;	     /* why it is a major one (enum rut_record_gc_major); 0: it is minor */
	uint8_t by;	     /* what caused it (enum rut_record_gc_by) */
} __attribute__((packed));

/* GC_MARK_END, GC_ENTER, GC_EXIT */
struct rut_record_plain {
	uint64_t header;
} __attribute__((packed));

/* THREAD_START, THREAD_EXIT, GVL_WAIT, GVL_HAVE, GVL_RELEASE: come without the GVL, so they say
 * which thread they are of, and SWITCH does not hold for them. */
struct rut_record_thread {
	uint64_t header;
	uint32_t tid;
} __attribute__((packed));

/*
 * Requests and spans. Texts follow each other, each with its NUL; empty: not known. `kind` and
 * `layer` are numbers of rows that have such a name as their class.
 */
#define RUT_RECORD_TEXT 512 /* bytes of one of them at most, with its NUL */

/* REQUEST_BEGIN: verb, path, traceparent, x_request_id */
struct rut_record_request {
	uint64_t header;
	uint64_t id; /* unique in the trace */
	uint32_t kind;
	uint32_t method; /* the entry point */
	char texts[];
} __attribute__((packed));

/* verb, path, route, traceparent, x_request_id, error (a class) */
struct rut_record_request_end {
	uint64_t header;
	uint64_t id;
	uint32_t kind;
	uint32_t method;
	uint16_t status; /* 0: not known */
	int64_t bytes;	 /* of the response; -1: not known */
	char texts[];
} __attribute__((packed));

#define RUT_RECORD_NO_CALLER UINT32_MAX

/* detail */
struct rut_record_span {
	uint64_t header;
	uint32_t layer;
	uint32_t method;
	uint32_t caller; /* the method of the application that led to it; or RUT_RECORD_NO_CALLER */
	uint16_t depth;	 /* spans around it in its fiber */
	char texts[];
} __attribute__((packed));

/* detail, error */
struct rut_record_span_end {
	uint64_t header;
	uint32_t layer;
	uint32_t method;
	uint16_t depth;
	char texts[];
} __attribute__((packed));

#define RUT_RECORD_GC_MAJORS(F) F(nofree) F(oldgen) F(shady) F(force) F(oldmalloc)
#define RUT_RECORD_GC_BYS(F)	F(newobj) F(malloc) F(method) F(capi) F(stress)

enum rut_record_gc_major {
	RUT_RECORD_GC_MINOR,
#define F(name) RUT_RECORD_GC_MAJOR_##name,
	RUT_RECORD_GC_MAJORS(F)
#undef F
};

enum rut_record_gc_by {
	RUT_RECORD_GC_BY_UNKNOWN,
#define F(name) RUT_RECORD_GC_BY_##name,
	RUT_RECORD_GC_BYS(F)
#undef F
};

#endif
