/* SPDX-License-Identifier: MIT */
/* A position in one stream: the next event of it, decoded as far as everyone needs. */
#ifndef RUT_CTF_CURSOR_H
#define RUT_CTF_CURSOR_H

#include "ctf/set.h"

/* An event whose class is passed by its size, found ahead. */
struct rut_cursor_found {
	int64_t ts_ns;
	uint64_t start, body, end; /* bits */
	uint64_t id;
};

enum { RUT_CURSOR_FOUND = 16 };

struct rut_cursor {
	struct rut_ctf_event ev;
	/* Events of the current packet that come next: the cursor stands behind the last of them.
	 */
	struct rut_cursor_found found[RUT_CURSOR_FOUND];
	uint32_t n_found, found_at;
	/* The current packet: */
	uint64_t pos; /* bits: where the next record may begin */
	struct rut_packet_info info;
	const struct rut_ctf_header_plan *plan;
	const struct rut_ctf_clock *clock;
	bool clock_is_ns; /* 1 GHz: no division */
	bool quick;	  /* headers with a plan, a clock in ns */
	bool in_packet;
	uint64_t clk;	  /* the clock as last seen */
	int64_t last_ns;  /* of the last event: time must not run backwards */
	bool warned_back; /* in this packet */
	/* The stream: */
	const struct rut_set_stream *s;
	uint32_t file;
	uint64_t next_offset;  /* of the next packet in the file */
	uint64_t forgotten_to; /* the memory of the file up to here was given back */
	uint64_t *regs, *seg;  /* owned */
	size_t n_regs, n_segs; /* of them */
	bool has_prev;	       /* a packet before this one was seen */
	bool other_trace;      /* a packet of another UUID was reported */
	struct rut_packet_info prev;
	bool done;
	bool unfinished;      /* follow: ... because the next packet is still being written */
	uint64_t expected_to; /* the kernel was advised up to here */
	/* The reader's: */
	const uint8_t *wanted; /* by class index; NULL: all */
	int64_t mark_ns;       /* wanted or not, the first event from here on is given */
	const struct rut_ctf_reader_opts *opts;
	struct rut_ctf_counts *counts;
	uint64_t forget_bytes; /* after so many bytes memory is given back */
};

int rut_cursor_init(struct rut_cursor *c, const struct rut_set_stream *s,
		    const struct rut_ctf_reader_opts *opts, struct rut_ctf_counts *counts);
void rut_cursor_fini(struct rut_cursor *c);

/* Moves to the first packet that may hold events at or after this time. */
void rut_cursor_seek(struct rut_cursor *c, int64_t ts_ns);
void rut_cursor_rewind(struct rut_cursor *c);

/* With opts->follow: the packet that was being written is there now. */
bool rut_cursor_is_ready(struct rut_cursor *c);

/* With opts->follow: the file grew or a further one came; continues after the end. */
void rut_cursor_resume(struct rut_cursor *c);

/* The trace's metadata grew. Returns 0 or -ENOMEM. */
int rut_cursor_grow(struct rut_cursor *c);

/* Decodes the next wanted event into c->ev. Returns false at the end of the stream. */
bool rut_cursor_next(struct rut_cursor *c);

#endif
