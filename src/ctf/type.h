/* SPDX-License-Identifier: MIT */
/*
 * What a trace's metadata describes: types, event classes, stream classes, clocks.
 *
 * The tree of types of a class is private to that class (named types are copied where they are
 * used), so a node is one place in a record: "the length of this sequence" is a node, and a node
 * that others refer to has a register of its own.
 *
 * All of it belongs to the trace and may be read by any thread. It never changes after the trace
 * was opened, but that a trace that is followed (rut_ctf_reader_poll) may get further classes.
 */
#ifndef RUT_CTF_TYPE_H
#define RUT_CTF_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rut_ctf_kind {
	RUT_CTF_KIND_INT,
	RUT_CTF_KIND_ENUM, /* an integer with labels */
	RUT_CTF_KIND_BOOL,
	RUT_CTF_KIND_BITMAP, /* a bit array with or without named bits */
	RUT_CTF_KIND_FLOAT,
	RUT_CTF_KIND_STRING, /* ends with a NUL */
	RUT_CTF_KIND_STRUCT,
	RUT_CTF_KIND_VARIANT,
	RUT_CTF_KIND_OPTIONAL,
	RUT_CTF_KIND_ARRAY,    /* of a length known from the metadata */
	RUT_CTF_KIND_SEQUENCE, /* its length is a field before it */
	RUT_CTF_KIND_BLOB,     /* bytes; of a fixed length, or a field's when len_reg >= 0 */
};

/* What a field means to the reader (CTF 2 calls it a role; CTF 1.8 has reserved names). */
enum rut_ctf_role {
	RUT_CTF_ROLE_NONE,
	RUT_CTF_ROLE_MAGIC,
	RUT_CTF_ROLE_UUID,
	RUT_CTF_ROLE_STREAM_ID,
	RUT_CTF_ROLE_STREAM_INSTANCE_ID,
	RUT_CTF_ROLE_PACKET_SIZE,
	RUT_CTF_ROLE_CONTENT_SIZE,
	RUT_CTF_ROLE_TIMESTAMP, /* begin of the packet, or the event's time */
	RUT_CTF_ROLE_TIMESTAMP_END,
	RUT_CTF_ROLE_EVENTS_DISCARDED,
	RUT_CTF_ROLE_PACKET_SEQ,
	RUT_CTF_ROLE_EVENT_ID,
	RUT_CTF_ROLE_CPU_ID,
};

/* Where a field stands. ANY: payload, event context, stream context, header, packet's two. */
enum rut_ctf_scope {
	RUT_CTF_SCOPE_PACKET_HEADER,
	RUT_CTF_SCOPE_PACKET_CONTEXT,
	RUT_CTF_SCOPE_EVENT_HEADER,
	RUT_CTF_SCOPE_STREAM_CONTEXT, /* stream.event.context: every event of the stream has it */
	RUT_CTF_SCOPE_EVENT_CONTEXT,
	RUT_CTF_SCOPE_PAYLOAD,
	RUT_CTF_SCOPE_COUNT,
	RUT_CTF_SCOPE_ANY = RUT_CTF_SCOPE_COUNT,
};

/* From lo to hi inclusive, both of the signedness of the integer that selects. */
struct rut_ctf_range {
	uint64_t lo, hi;
	uint32_t label; /* index: of an enum's label, a variant's option */
};

struct rut_ctf_type;
struct rut_ctf_clock;

struct rut_ctf_field {
	const char *name;     /* as shown: without the leading underscore of TSDL */
	const char *raw_name; /* as written */
	struct rut_ctf_type *type;
};

struct rut_ctf_type {
	uint8_t kind; /* enum rut_ctf_kind */
	uint8_t role; /* enum rut_ctf_role */
	uint8_t base; /* 2, 8, 10 or 16: how an integer is shown */
	bool is_signed;
	bool big_endian;
	bool vlen;	    /* INT, ENUM: LEB128 (CTF 2's variable-length integers) */
	bool text;	    /* ARRAY, SEQUENCE: an array of characters, shown as a string */
	uint8_t char_bytes; /* STRING and text: 1, 2 or 4 (UTF-8, UTF-16, UTF-32) */
	bool fixed;	    /* its size never depends on the data nor on where it stands */
	bool tag_signed;    /* VARIANT, OPTIONAL: ranges compare signed */
	bool len_bytes;	    /* the length counts bytes, not elements (CTF 2's strings and BLOBs) */
	uint8_t exp_bits;   /* FLOAT: bits of the exponent */
	int32_t reg;	    /* register that keeps this integer's value, or -1 */
	int32_t len_reg; /* SEQUENCE, BLOB, VARIANT, OPTIONAL: register of length or tag; -1 none */
	uint32_t align;	 /* bits, a power of two, at least 1 */
	uint64_t size;	 /* bits: of a scalar, or of a whole `fixed` compound */
	uint64_t count;	 /* elements of an ARRAY, bytes of a BLOB, without len_reg */
	uint32_t n_fields, n_ranges, n_labels;
	struct rut_ctf_field *fields; /* STRUCT: members; VARIANT: options */
	struct rut_ctf_type *elem;    /* ARRAY, SEQUENCE, OPTIONAL */
	struct rut_ctf_range *ranges; /* ENUM, BITMAP, VARIANT, OPTIONAL */
	const char **labels;	      /* ENUM, BITMAP */
	const struct rut_ctf_clock *clock;
	/* Of the reader: */
	bool reversed;	      /* bits stand against the byte order's direction (CTF 2) */
	bool saves;	      /* it or something in it has a register */
	bool ordered;	      /* ENUM: ranges ascend and do not overlap */
	bool located;	      /* seg and off say where it stands in the record of its class */
	uint16_t seg;	      /* segment of the program, or */
	uint32_t off;	      /* bits from the segment's begin */
	const char *len_path; /* what the metadata said of the length or tag */
};

struct rut_ctf_clock {
	const char *name;
	const char *description; /* or NULL */
	uint64_t freq;		 /* Hz */
	int64_t offset_s;
	int64_t offset_cycles;
	uint64_t precision;
	bool absolute; /* counts from the Unix epoch */
	bool has_uuid;
	uint8_t uuid[16];
	/*
	 * Since the epoch, of a clock that shows 0, with the options' shift: whole nanoseconds, and
	 * what is left in parts of 1/freq of one. Both together are exact.
	 */
	int64_t base_ns;
	uint64_t base_rest;
};

struct rut_ctf_env {
	const char *name;
	const char *str; /* NULL: an integer */
	int64_t num;
};

struct rut_ctf_trace;
struct rut_ctf_program;

struct rut_ctf_stream_class {
	const struct rut_ctf_trace *trace;
	uint64_t id;
	const char *name;
	const struct rut_ctf_clock *clock;   /* or NULL */
	struct rut_ctf_type *packet_context; /* or NULL */
	struct rut_ctf_type *event_header;   /* or NULL */
	struct rut_ctf_type *event_context;  /* or NULL */
	struct rut_ctf_event_class **events; /* in the order of the metadata */
	size_t n_events;
	struct rut_ctf_event_class **by_id; /* ids below n_by_id; others in `other` */
	size_t n_by_id;
	void *priv; /* of the reader */
};

struct rut_ctf_event_class {
	const struct rut_ctf_stream_class *stream_class;
	const char *name;
	uint64_t id;
	int64_t loglevel;	      /* -1: none */
	const char *emf_uri;	      /* or NULL */
	struct rut_ctf_type *context; /* or NULL */
	struct rut_ctf_type *payload; /* or NULL */
	/*
	 * A number from 0 to rut_ctf_set_n_classes() - 1, unique in the set of traces: the index
	 * for the tables of code that handles events.
	 */
	uint32_t index;
	const struct rut_ctf_program *program; /* how the reader walks it */
};

struct rut_ctf_trace {
	const char *path; /* the directory that holds `metadata` */
	const char *name; /* directory's name as the user sees it */
	uint32_t index;	  /* in the set */
	uint8_t major;	  /* 1 or 2 */
	uint8_t minor;
	bool big_endian;
	bool has_uuid;
	uint8_t uuid[16];
	struct rut_ctf_type *packet_header; /* or NULL */
	struct rut_ctf_clock **clocks;
	size_t n_clocks;
	struct rut_ctf_env *env;
	size_t n_env;
	struct rut_ctf_stream_class **stream_classes;
	size_t n_stream_classes;
	void *priv; /* of the reader */
};

/* The entry of the environment ("tracer_name", "hostname" ...), or NULL. */
const struct rut_ctf_env *rut_ctf_trace_env(const struct rut_ctf_trace *t, const char *name);

/* The type that stands in a scope of this class, or NULL. Not for SCOPE_ANY. */
struct rut_ctf_type *rut_ctf_class_scope(const struct rut_ctf_event_class *c,
					 enum rut_ctf_scope scope);

/* A member of a structure (shown or written name), or NULL. */
struct rut_ctf_type *rut_ctf_type_member(const struct rut_ctf_type *t, const char *name);

#endif
