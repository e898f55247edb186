/* SPDX-License-Identifier: MIT */
/*
 * Building the description of a trace, in whichever language its metadata is written.
 *
 * tsdl.c and ctf2.c fill a rut_meta; rut_meta_finish() then checks it as a whole: it finds the
 * fields that lengths and tags refer to, gives them registers, computes sizes, and compiles a
 * program for every class of events.
 */
#ifndef RUT_CTF_META_H
#define RUT_CTF_META_H

#include <sys/types.h>
#include <time.h>

#include "base/err.h"
#include "base/hash.h"
#include "ctf/arena.h"
#include "ctf/program.h"
#include "ctf/type.h"

enum {
	RUT_META_MAX_DEPTH = 64,	 /* types within types */
	RUT_META_MAX_TYPES = 4 << 20,	 /* nodes of all trees: named types are copied */
	RUT_META_MAX_REGS = 1 << 20,	 /* fields that others refer to */
	RUT_META_MAX_SEGS = 60000,	 /* places of unknown distance in one record */
	RUT_META_MAX_BYTES = 64 << 20,	 /* of a metadata file */
	RUT_META_MAX_MEMORY = 512 << 20, /* of a description */
};

/* How the header of an event is read; see header.c. */
enum rut_ctf_header_kind {
	RUT_CTF_HEADER_NONE,	/* there is none */
	RUT_CTF_HEADER_GENERAL, /* by walking its type */
	RUT_CTF_HEADER_FLAT,	/* id and time at constant places */
	RUT_CTF_HEADER_WORD,	/* rutile's own: 16 bits of id, 48 of time */
	RUT_CTF_HEADER_COMPACT, /* LTTng: 5 bits of id, 27 of time, or extended */
	RUT_CTF_HEADER_LARGE,	/* LTTng: 16 bits of id, 32 of time, or extended */
};

struct rut_ctf_header_plan {
	enum rut_ctf_header_kind kind;
	uint32_t align;	    /* bits */
	uint32_t max_bytes; /* of the longest form */
	/* FLAT: the whole; otherwise the extended form. Bytes; id_size 0: there is none. */
	uint16_t id_off, id_size, ts_off, ts_size, len;
	uint16_t short_ts_off; /* LARGE */
	uint16_t short_len;    /* COMPACT, LARGE */
};

struct rut_meta_stream_class {
	struct rut_ctf_stream_class pub;
	struct rut_ctf_header_plan header;
	struct rut_map other;	/* event classes by id, where by_id would be too sparse */
	bool header_referred;	/* a payload's length or tag stands in the header */
	const char *clock_name; /* CTF 2 */
	unsigned int line;
};

struct rut_meta_event_class {
	struct rut_ctf_event_class pub;
	struct rut_meta_event_class *next; /* until linked to its stream class */
	bool has_stream_id, has_id;
	uint64_t stream_id;
	unsigned int line;
};

struct rut_meta_clock {
	struct rut_ctf_clock pub;
	bool defined;
};

/* The whole description. Everything in it lives in the arena. */
struct rut_meta {
	struct rut_ctf_trace pub; /* first: a rut_ctf_trace of this module is one of these */
	struct rut_arena arena;
	struct rut_strtab names; /* identical strings are stored once */
	size_t n_types;
	uint32_t n_regs;
	uint32_t max_segs; /* of the largest program */
	struct rut_meta_event_class *events, **events_tail;
	bool cut; /* the file ends within a packet or a declaration */
	bool metadata_has_packets;
	/* Of rut_meta_grow(): the file as it was read, and what grew since (owned list). */
	off_t file_bytes;
	struct timespec file_time;
	struct rut_meta *older;
};

static inline struct rut_meta_stream_class *rut_meta_stream_class(
	const struct rut_ctf_stream_class *c)
{
	return (struct rut_meta_stream_class *)c;
}

void rut_meta_init(struct rut_meta *m);
void rut_meta_fini(struct rut_meta *m);

/* Reads the file `metadata` (plain or in packets; TSDL or JSON) and finishes the description. */
int rut_meta_load(struct rut_meta *m, const char *path, struct rut_err *err);
/* The same without finishing it. */
int rut_meta_read(struct rut_meta *m, const char *path, struct rut_err *err);
/*
 * Reads a metadata file again that has grown, and adds the classes that are new; nothing that was
 * there changes or moves. Returns 1 when there are some, else 0 (also when the file is not whole
 * yet), or -errno.
 */
int rut_meta_grow(struct rut_meta *m, const char *path, struct rut_err *err);
/* As rut_meta_load(), from memory; `name` is for messages. For the tests. */
int rut_meta_parse(struct rut_meta *m, const char *data, size_t len, const char *name,
		   struct rut_err *err);

/* The two languages. `text` need not end with a NUL. */
int rut_tsdl_parse(struct rut_meta *m, const char *text, size_t len, struct rut_err *err);
int rut_ctf2_parse(struct rut_meta *m, const char *text, size_t len, struct rut_err *err);

/* Pieces; all NULL when out of memory or over the limits. */
struct rut_ctf_type *rut_meta_type(struct rut_meta *m, enum rut_ctf_kind kind);
struct rut_ctf_type *rut_meta_clone(struct rut_meta *m, const struct rut_ctf_type *t);
const char *rut_meta_name(struct rut_meta *m, const char *s, size_t len);
/* Appends a member or option; sets the shown name. 0 or -ENOMEM. */
int rut_meta_add_field(struct rut_meta *m, struct rut_ctf_type *t, const char *raw_name,
		       const char *shown_name, struct rut_ctf_type *type);
int rut_meta_add_range(struct rut_meta *m, struct rut_ctf_type *t, uint64_t lo, uint64_t hi,
		       uint32_t label);
int rut_meta_add_label(struct rut_meta *m, struct rut_ctf_type *t, const char *label);
struct rut_meta_stream_class *rut_meta_add_stream_class(struct rut_meta *m);
struct rut_meta_event_class *rut_meta_add_event_class(struct rut_meta *m);
/* The clock of that name; made (not yet defined) when it is new. */
struct rut_meta_clock *rut_meta_clock(struct rut_meta *m, const char *name);
int rut_meta_add_env(struct rut_meta *m, const char *name, const char *str, int64_t num);

int rut_meta_finish(struct rut_meta *m, struct rut_err *err);
/* Its parts. The table by id may be rebuilt. */
int rut_meta_finish_stream_class(struct rut_meta *m, struct rut_meta_stream_class *sc,
				 struct rut_err *err);
int rut_meta_index_events(struct rut_meta *m, struct rut_meta_stream_class *sc,
			  struct rut_err *err);
/* NULL when there is none of this id. */
struct rut_meta_stream_class *rut_meta_find_stream_class(const struct rut_meta *m, uint64_t id);

/* resolve.c: finds what lengths and tags refer to. `cls` NULL: only the packets' scopes. */
int rut_meta_resolve(struct rut_meta *m, struct rut_meta_stream_class *sc, struct rut_err *err);
/* The same for one class that came later to a stream class that is resolved. */
int rut_meta_resolve_event(struct rut_meta *m, struct rut_meta_stream_class *sc,
			   struct rut_ctf_event_class *e, struct rut_err *err);
/* resolve.c: alignments, sizes, what is fixed. */
int rut_meta_layout(struct rut_ctf_type *t, unsigned int depth, struct rut_err *err);
/* program.c */
int rut_meta_compile(struct rut_meta *m, struct rut_ctf_event_class *c, struct rut_err *err);
/* To the events of its stream class. */
int rut_meta_add_event(struct rut_meta *m, struct rut_meta_stream_class *sc,
		       struct rut_meta_event_class *e, struct rut_err *err);
/* header.c */
void rut_meta_plan_header(struct rut_meta_stream_class *sc);

/* "6a2f..." with or without dashes. Returns false when it is not a UUID. */
bool rut_parse_uuid(const char *s, size_t len, uint8_t ret[16]);

#endif
