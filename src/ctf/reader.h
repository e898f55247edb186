/* SPDX-License-Identifier: MIT */
/*
 * Reading traces: a set of traces is opened, a reader walks their events in the order of time.
 *
 * The metadata is compiled once. Every event class gets a program of a few steps that finds the end
 * of a record; what stands at a constant distance from the last place of unknown size forms one
 * segment, and most classes have one segment only. The walk notes where each segment begins, and
 * nothing else is decoded until someone asks.
 *
 * A caller resolves a field once for each class of events (rut_ctf_ref_find) and reads it
 * through the inline functions below: a load at a known distance, no search, no allocation.
 *
 *	rut_ctf_set_open(&set, paths, n, &opts, &err);
 *	for each class of rut_ctf_set_class(set, i): choose, resolve refs by name;
 *	rut_ctf_reader_new(&reader, set, &ropts, &err);
 *	while ((ev = rut_ctf_reader_next(reader)))
 *		handlers[ev->cls->index](ev);
 *
 * Unwanted classes (rut_ctf_reader_want) are skipped within their stream, before
 * streams are merged.
 *
 * Bad input never ends a walk with a crash: what is wrong is reported (rut_log, with file and
 * offset), counted in rut_ctf_counts.errors, and the rest is read. Lost events and packets are
 * reported the same way, with stream and time, unless on_loss takes them.
 *
 * A set may be shared by several readers in several threads; a reader belongs to one thread.
 */
#ifndef RUT_CTF_READER_H
#define RUT_CTF_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "ctf/type.h"

/* ---- The set of traces ------------------------------------------------------------------- */

struct rut_ctf_set;
struct rut_ctf_reader;

struct rut_ctf_set_opts {
	int64_t clock_offset_ns; /* added to every time */
	bool no_clock_offset;	 /* ignore the offsets of the metadata: times count from 0 */
	bool ignore_index;	 /* never use index/ *.idx */
	/* The files are in memory and used by this reader only: what was read is freed, and reads
	 * as zeros. */
	bool consume;
};

/* One data stream: a file, or several files of one stream instance. */
struct rut_ctf_stream {
	const struct rut_ctf_trace *trace;
	const struct rut_ctf_stream_class *cls;
	const char *path; /* the file */
	uint32_t index;	  /* from 0 in the set */
	uint64_t size_bytes;
	/* From the packets' contexts; valid after rut_ctf_set_scan(). has_times: are there any? */
	bool has_times;
	int64_t begin_ns, end_ns;
	uint64_t packets, discarded, lost_packets;
	bool disordered; /* a packet begins before the one in front of it: nothing to seek by */
};

/*
 * Opens every trace found in the given files and directories (searched to any depth for files named
 * `metadata`). A trace that cannot be opened is an error unless others can (then it is reported
 * and counted). `opts` may be NULL. Returns 0 or -errno; the caller frees the set.
 */
int rut_ctf_set_open(struct rut_ctf_set **ret, const char *const *paths, size_t n,
		     const struct rut_ctf_set_opts *opts, struct rut_err *err);
void rut_ctf_set_free(struct rut_ctf_set *set);

size_t rut_ctf_set_n_traces(const struct rut_ctf_set *set);
const struct rut_ctf_trace *rut_ctf_set_trace(const struct rut_ctf_set *set, size_t i);
size_t rut_ctf_set_n_classes(const struct rut_ctf_set *set);
const struct rut_ctf_event_class *rut_ctf_set_class(const struct rut_ctf_set *set, size_t i);
size_t rut_ctf_set_n_streams(const struct rut_ctf_set *set);
const struct rut_ctf_stream *rut_ctf_set_stream(const struct rut_ctf_set *set, size_t i);

/* Bytes of all stream files, and problems found while opening. */
uint64_t rut_ctf_set_bytes(const struct rut_ctf_set *set);
uint64_t rut_ctf_set_errors(const struct rut_ctf_set *set);

/*
 * Reads the headers of all packets (or LTTng's index files) and fills in what rut_ctf_stream says
 * of times, packets and losses. Done at most once; the readers do it by themselves when they seek.
 */
int rut_ctf_set_scan(struct rut_ctf_set *set, struct rut_err *err);

/* From the first packet's begin to the last one's end. Scans. -ENODATA when nothing has a time. */
int rut_ctf_set_range(struct rut_ctf_set *set, int64_t *ret_begin_ns, int64_t *ret_end_ns);

/*
 * The time during which every stream records: the largest begin, the smallest end over all
 * streams of all traces; those of rutile's that hold one moment only do not count
 * while others do. Scans. -ENODATA when nothing has a time;
 * -ERANGE when they do not overlap.
 */
int rut_ctf_set_intersection(struct rut_ctf_set *set, int64_t *ret_begin_ns, int64_t *ret_end_ns);

/*
 * Cuts the time from begin_ns to end_ns into slices of about so many bytes of trace, for readers in
 * several threads: slice i is from bounds[i] to bounds[i + 1] - 1. The caller frees *ret_bounds,
 * which has *ret_n + 1 elements. Scans. A trace without times is one slice.
 */
int rut_ctf_set_slices(struct rut_ctf_set *set, int64_t begin_ns, int64_t end_ns, uint64_t bytes,
		       int64_t **ret_bounds, size_t *ret_n);

/* ---- The walk ---------------------------------------------------------------------------- */

struct rut_ctf_loss {
	const struct rut_ctf_stream *stream;
	bool packets; /* whole packets, else events */
	uint64_t count;
	bool has_times;
	int64_t begin_ns, end_ns; /* it happened between the two */
};

/* The sentence that rut_log() would get. */
void rut_ctf_loss_text(const struct rut_ctf_loss *loss, char *buf, size_t size);

struct rut_ctf_reader_opts {
	/* Events with begin_ns <= time <= end_ns; both 0: all. */
	int64_t begin_ns, end_ns;
	bool has_begin, has_end;
	/* Losses and errors are given to these instead of rut_log(). */
	void (*on_loss)(const struct rut_ctf_loss *loss, void *arg);
	void (*on_error)(const char *msg, void *arg);
	void *arg;
	bool general; /* never take the short paths (tests) */
	/* Another reader reads what is before begin_ns, and counts what cannot be read from there
	 * on. */
	bool continues;
	bool prefault; /* asks the kernel to read ahead of each stream */
	/*
	 * Another thread walks and merges the streams ahead of the caller, where there is nothing
	 * to wait for (`follow`). Callbacks stay in the caller's thread, and so do the events'
	 * order and number. Classes are chosen before the first event (rut_ctf_reader_want()).
	 */
	bool ahead;
	/*
	 * The trace is still being written: an unfinished packet at the end of a file is left alone
	 * until it is whole, and events are held back until every stream has got that far, or lags
	 * behind the others by more than follow_lag_ns (0: one second), or the trace has not grown
	 * for that long. See rut_ctf_reader_poll().
	 */
	bool follow;
	int64_t follow_lag_ns;
	/* Only this stream (index + 1), 0: all, merged. For folds in parallel. */
	uint32_t only_stream;
};

/* What the walk did so far. */
struct rut_ctf_counts {
	uint64_t events; /* records walked over, wanted or not */
	uint64_t packets;
	uint64_t discarded; /* events that the tracer lost */
	uint64_t lost_packets;
	uint64_t errors; /* places where the input was bad */
	/* What could not be read: from a bad or unknown event to its packet's end, from a bad
	 * packet to the file's. */
	uint64_t skipped_bytes;
	uint64_t bytes_done; /* of rut_ctf_set_bytes(): for a progress bar */
};

struct rut_ctf_packet {
	uint64_t offset_bytes; /* in the file */
	uint64_t content_bits, packet_bits;
	bool has_begin, has_end, has_discarded, has_seq;
	uint64_t begin_clock, end_clock;
	int64_t begin_ns, end_ns;
	uint64_t discarded; /* as written: since the stream began */
	uint64_t seq;
	int32_t cpu;	      /* -1: the packet's context has no cpu_id */
	uint64_t context_pos; /* bits: where the packet's context begins */
};

struct rut_ctf_event {
	const struct rut_ctf_event_class *cls;
	const struct rut_ctf_stream *stream;
	int64_t ts_ns;	   /* since the epoch; 0 without a clock */
	uint64_t ts_clock; /* as the tracer's clock showed it, made whole to 64 bits */
	int32_t cpu;	   /* of the packet; -1: unknown */
	uint32_t index;	   /* of the class: cls->index */
	bool has_ts;
	const struct rut_ctf_packet *packet;
	/* For the functions below: */
	const uint8_t *data;  /* the packet's first byte */
	const uint64_t *seg;  /* bit where each segment begins */
	const uint64_t *regs; /* values of the fields that others refer to */
	uint64_t header_pos;  /* bits */
};

/*
 * One sentence on what could not be read, with an estimate of the number of events (from the size
 * of those that could). Empty when there is nothing to report.
 */
void rut_ctf_skipped_text(const struct rut_ctf_counts *counts, char *buf, size_t size);

/* The set must outlive the reader. `opts` may be NULL. */
int rut_ctf_reader_new(struct rut_ctf_reader **ret, struct rut_ctf_set *set,
		       const struct rut_ctf_reader_opts *opts, struct rut_err *err);
void rut_ctf_reader_free(struct rut_ctf_reader *r);

/* Every class is wanted until the first call; from then on those named by such calls. NULL: none.
 */
void rut_ctf_reader_want(struct rut_ctf_reader *r, const struct rut_ctf_event_class *cls);

/*
 * The first event at or after this time is given whether its class is wanted or not, and others of
 * its time or later may be, one for each stream. A later mark may be set when an event was given
 * that is not before the old one: nothing that it asks for has been passed over by then.
 */
void rut_ctf_reader_mark(struct rut_ctf_reader *r, int64_t ts_ns);

/* The latest time that was read, of wanted events or others. INT64_MIN: none. */
int64_t rut_ctf_reader_last_ns(const struct rut_ctf_reader *r);

/* An event that was found. Positions are bits in its packet. */
struct rut_found {
	int64_t ts_ns;
	uint64_t body; /* where the fields begin, when seg is RUT_FOUND_BODY */
	uint32_t start;
	uint32_t index; /* of the class */
	uint16_t seg;	/* where its segments are in the words beside, or: */
	uint16_t src;	/* of ahead.c */
};

enum {
	RUT_FOUND_BODY = UINT16_MAX,	/* one segment, or none */
	RUT_FOUND_OWN = UINT16_MAX - 1, /* it is the last, and its segments are the cursor's seg */
};

/*
 * Events of one packet that were found and come next: `next` up to `end`, before until_ns, as long
 * as seg and src are these. To give one out takes nothing but to describe it in `ev`.
 */
struct rut_ctf_run {
	struct rut_ctf_event *ev;
	const struct rut_found *next, *end;
	int64_t until_ns;
	uint64_t base_ns; /* of the clock */
	const struct rut_ctf_event_class *const *classes;
	uint16_t seg, src;
};

/* Describes an event of the run, of which these are the segments. */
static inline const struct rut_ctf_event *rut_ctf_run_show(const struct rut_ctf_run *run,
							   const struct rut_found *f,
							   const uint64_t *seg)
{
	struct rut_ctf_event *ev = run->ev;

	ev->seg = seg;
	ev->cls = run->classes[f->index];
	ev->index = f->index;
	ev->ts_ns = f->ts_ns;
	ev->ts_clock = (uint64_t)f->ts_ns - run->base_ns;
	ev->header_pos = f->start;
	return ev;
}

/* At the end of a run. */
const struct rut_ctf_event *rut_ctf_reader_more(struct rut_ctf_reader *r);

/* The next event, valid until the next call; NULL at the end. */
static inline const struct rut_ctf_event *rut_ctf_reader_next(struct rut_ctf_reader *r)
{
	struct rut_ctf_run *run = *(struct rut_ctf_run **)r; /* its first member */
	const struct rut_found *f = run->next;

	if (f == run->end || f->ts_ns >= run->until_ns || f->seg != run->seg || f->src != run->src)
		return rut_ctf_reader_more(r);
	run->next = f + 1;
	return rut_ctf_run_show(run, f, &f->body);
}

/* Starts again, at the first event at or after this time. */
int rut_ctf_reader_seek(struct rut_ctf_reader *r, int64_t ts_ns, struct rut_err *err);

void rut_ctf_reader_counts(const struct rut_ctf_reader *r, struct rut_ctf_counts *ret);

/*
 * With opts.follow, after rut_ctf_reader_next() returned NULL: looks whether files grew or new ones
 * came. Returns 1 when there is more to read by rut_ctf_reader_next(), 0 when not, or
 * -errno. No other reader may use the set meanwhile, and what was borrowed from events is invalid.
 */
int rut_ctf_reader_poll(struct rut_ctf_reader *r, struct rut_err *err);

/* The recording ended: nothing is held back any more; rut_ctf_reader_next() gives the rest. */
void rut_ctf_reader_drain(struct rut_ctf_reader *r);

/* ---- Fields ------------------------------------------------------------------------------ */

enum rut_ctf_load {
	RUT_CTF_LOAD_NONE, /* there is no such field in this class */
	RUT_CTF_LOAD_U8,
	RUT_CTF_LOAD_U16,
	RUT_CTF_LOAD_U32,
	RUT_CTF_LOAD_U64,
	RUT_CTF_LOAD_S8,
	RUT_CTF_LOAD_S16,
	RUT_CTF_LOAD_S32,
	RUT_CTF_LOAD_S64,
	RUT_CTF_LOAD_BYTES,  /* a string or text at a known place */
	RUT_CTF_LOAD_AT,     /* anything else at a known place */
	RUT_CTF_LOAD_SEARCH, /* inside a variant, an optional or the like: walks */
};

/* One field of one class of events, or nothing (all zero). Copy it freely. */
struct rut_ctf_ref {
	uint8_t load;  /* enum rut_ctf_load */
	uint8_t scope; /* enum rut_ctf_scope */
	uint16_t seg;
	uint32_t off;			 /* bits from the segment's begin */
	uint8_t shift;			 /* integers: 64 - size */
	const struct rut_ctf_type *type; /* borrowed from the class; NULL for LOAD_NONE */
	const char *path;		 /* LOAD_SEARCH: borrowed from the class */
};

/*
 * Finds a field by name in one scope, or in SCOPE_ANY's order. Members of members are separated by
 * dots ("addr.port"). Returns whether it is there; *ret is LOAD_NONE when not.
 */
bool rut_ctf_ref_find(const struct rut_ctf_event_class *cls, enum rut_ctf_scope scope,
		      const char *name, struct rut_ctf_ref *ret);

/* The reference to this very node of a class's tree, which stands in that scope. */
void rut_ctf_ref_of(const struct rut_ctf_type *t, enum rut_ctf_scope scope,
		    struct rut_ctf_ref *ret);

static inline bool rut_ctf_ref_ok(const struct rut_ctf_ref *ref)
{
	return ref->load != RUT_CTF_LOAD_NONE;
}

/* A decoded value. */
enum rut_ctf_value_kind {
	RUT_CTF_VALUE_NONE, /* not there: a variant's other option, no such field */
	RUT_CTF_VALUE_UINT,
	RUT_CTF_VALUE_INT,
	RUT_CTF_VALUE_FLOAT,
	RUT_CTF_VALUE_STR,    /* strings and text, without the NUL */
	RUT_CTF_VALUE_BYTES,  /* BLOB */
	RUT_CTF_VALUE_NESTED, /* a compound: use the iterator below */
};

struct rut_ctf_value {
	enum rut_ctf_value_kind kind;
	const struct rut_ctf_type *type; /* of the scalar (an ENUM has its labels there) */
	union {
		uint64_t u;
		int64_t i;
		double d;
		const char *str; /* borrowed from the file: not NUL-terminated, not checked */
	};
	size_t len;   /* bytes of STR and BYTES; elements of a NESTED array or sequence */
	uint64_t pos; /* bits: where it begins in the packet */
};

/* Any field; the short functions below are for fields of a known type. */
void rut_ctf_get(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref,
		 struct rut_ctf_value *ret);

/* The slow half of rut_ctf_u64(): what is not read by one load. */
uint64_t rut_ctf_u64_any(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref);

static inline const uint8_t *rut_ctf_ref_ptr(const struct rut_ctf_event *ev,
					     const struct rut_ctf_ref *ref)
{
	return ev->data + ((ev->seg[ref->seg] + ref->off) >> 3);
}

#define RUT_CTF_LOAD_AS(type, p)                                                                   \
	({                                                                                         \
		type _v;                                                                           \
		memcpy(&_v, p, sizeof(_v));                                                        \
		(uint64_t)(int64_t) _v;                                                            \
	})

/* The slow half of rut_ctf_u64(), at the end of a packet. */
uint64_t rut_ctf_u64_last(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref);

/*
 * An integer, boolean or enumeration, sign-extended to 64 bits when signed (cast it to int64_t);
 * a float is truncated; 0 when there is no such field.
 *
 * All sizes are read the same way, by eight bytes and two shifts, so that no branch depends on the
 * class of the event.
 */
static inline uint64_t rut_ctf_u64(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref)
{
	uint64_t pos, v;

	if (__builtin_expect((unsigned int)(ref->load - RUT_CTF_LOAD_U8) >
				     RUT_CTF_LOAD_S64 - RUT_CTF_LOAD_U8,
			     0))
		return ref->load == RUT_CTF_LOAD_NONE ? 0 : rut_ctf_u64_any(ev, ref);
	pos = ev->seg[ref->seg] + ref->off;
	if (__builtin_expect(pos + 64 > ev->packet->content_bits, 0))
		return rut_ctf_u64_last(ev, ref);
	memcpy(&v, ev->data + (pos >> 3), sizeof(v));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v <<= ref->shift;
#endif
	return ref->load >= RUT_CTF_LOAD_S8 ? (uint64_t)((int64_t)v >> ref->shift)
					    : v >> ref->shift;
}

static inline int64_t rut_ctf_i64(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref)
{
	return (int64_t)rut_ctf_u64(ev, ref);
}

/* The same, quicker for what is most often a signed integer of 32 or 64 bits. */
static inline int64_t rut_ctf_i32(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref)
{
	if (__builtin_expect(ref->load == RUT_CTF_LOAD_S32, 1))
		return (int64_t)RUT_CTF_LOAD_AS(int32_t, rut_ctf_ref_ptr(ev, ref));
	return rut_ctf_i64(ev, ref);
}

static inline int64_t rut_ctf_long(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref)
{
	if (__builtin_expect(ref->load == RUT_CTF_LOAD_S64, 1))
		return (int64_t)RUT_CTF_LOAD_AS(int64_t, rut_ctf_ref_ptr(ev, ref));
	return rut_ctf_i64(ev, ref);
}

/*
 * A string, or an array or sequence of characters, or bytes: where it begins and, without the NUL,
 * how long it is. Borrowed from the file: not NUL-terminated. "" (length 0) when there is none.
 */
const char *rut_ctf_str(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref,
			size_t *ret_len);

/* Elements of an array or sequence of integers (0: none), and one of them. */
uint64_t rut_ctf_seq_len(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref);
uint64_t rut_ctf_seq_u64(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref, uint64_t i);

/* ---- Everything in order ----------------------------------------------------------------- */

/*
 * A walk over one scope of one event, for printers. The caller recurses over the tree of types:
 *
 *	scalar (INT ENUM BOOL BITMAP FLOAT STRING BLOB), text:  rut_ctf_iter_value()
 *	STRUCT: rut_ctf_iter_enter(), then each member
 *	ARRAY, SEQUENCE: n = rut_ctf_iter_enter(), then n times t->elem
 *	VARIANT: the option number n = rut_ctf_iter_enter(), then t->fields[n].type
 *	OPTIONAL: rut_ctf_iter_enter() says 1 or 0, then t->elem
 *
 * The extent of the record was checked by the reader, so none of these fail on an event's scopes.
 */
struct rut_ctf_iter {
	const uint8_t *data;
	uint64_t pos; /* bits */
	uint64_t end; /* bits */
	uint64_t *regs;
	bool failed; /* something ran past `end`, or a tag selects nothing */
};

/* The type of that scope to begin with, or NULL when this event has none. */
const struct rut_ctf_type *rut_ctf_iter_init(struct rut_ctf_iter *it,
					     const struct rut_ctf_event *ev,
					     enum rut_ctf_scope scope);
void rut_ctf_iter_value(struct rut_ctf_iter *it, const struct rut_ctf_type *t,
			struct rut_ctf_value *ret);
uint64_t rut_ctf_iter_enter(struct rut_ctf_iter *it, const struct rut_ctf_type *t);
/* Passes over it. */
void rut_ctf_iter_skip(struct rut_ctf_iter *it, const struct rut_ctf_type *t);

#endif
