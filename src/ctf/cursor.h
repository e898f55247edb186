/* SPDX-License-Identifier: MIT */
/*
 * A position in one stream. The cursor finds the wanted events of a packet some ahead (`found`),
 * with what is needed to read their fields; rut_cursor_show() makes one of them the cursor's event.
 * Of a run of them the reader's caller does so itself (rut_ctf_reader_next()).
 */
#ifndef RUT_CTF_CURSOR_H
#define RUT_CTF_CURSOR_H

#include "ctf/flat.h"
#include "ctf/reader.h"
#include "ctf/set.h"

enum { RUT_CURSOR_FOUND = 64, RUT_CURSOR_WORDS = 4 * RUT_CURSOR_FOUND };

struct rut_cursor {
	struct rut_ctf_event ev;
	/* The events of the current packet that come next: the cursor stands behind the last. */
	struct rut_ctf_run run; /* in `found`; until_ns is the reader's */
	uint32_t n_words;
	const struct rut_ctf_event_class *const *classes; /* borrowed from the set; by index */
	/* The current packet: */
	uint64_t pos; /* bits: where the next record may begin */
	struct rut_packet_info info;
	const struct rut_ctf_header_plan *plan;
	const struct rut_ctf_clock *clock;
	bool clock_is_ns; /* 1 GHz: no division */
	bool quick;	  /* headers with a plan, a clock in ns, a packet of less than 512 MiB */
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
	const uint8_t *wanted;	     /* by class index; NULL: all */
	const struct rut_flat *flat; /* borrowed; NULL: nothing is found ahead */
	int64_t mark_ns;	     /* wanted or not, the first event from here on is given */
	const struct rut_ctf_reader_opts *opts;
	struct rut_ctf_counts *counts;
	uint64_t forget_bytes; /* after so many bytes memory is given back */
	struct rut_found found[RUT_CURSOR_FOUND];
	uint64_t words[RUT_CURSOR_WORDS]; /* segments of those found */
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

/*
 * Goes on when all that was found is used up: finds more, or leaves one event in c->ev (then
 * there is no run). Returns false at the end of the stream.
 */
bool rut_cursor_more(struct rut_cursor *c);

static inline const uint64_t *rut_cursor_segments(const struct rut_cursor *c,
						  const struct rut_found *f)
{
	return f->seg == RUT_FOUND_BODY	 ? &f->body
	       : f->seg == RUT_FOUND_OWN ? c->seg
					 : &c->words[f->seg];
}

/* Makes the next of the events that were found c->ev. There is one. */
static inline void rut_cursor_show(struct rut_cursor *c)
{
	const struct rut_found *f = c->run.next++;

	rut_ctf_run_show(&c->run, f, rut_cursor_segments(c, f));
}

/* Decodes the next wanted event into c->ev. Returns false at the end of the stream. */
static inline bool rut_cursor_next(struct rut_cursor *c)
{
	if (c->run.next == c->run.end) {
		if (!rut_cursor_more(c))
			return false;
		if (c->run.next == c->run.end)
			return true;
	}
	rut_cursor_show(c);
	return true;
}

#endif
