/* SPDX-License-Identifier: MIT */
/*
 * librutile-ctf: reads CTF traces, versions 1.8 and 2, as rutile, LTTng, barectf and others write
 * them: all streams of one or more traces, merged by time.
 *
 *	struct rutile_ctf *t;
 *	const struct rutile_ctf_event *ev;
 *
 *	rutile_ctf_open(&t, paths, 1, error, sizeof(error));
 *	while ((ev = rutile_ctf_next(t)))
 *		printf("%lld %s\n", (long long)rutile_ctf_event_ns(ev), rutile_ctf_event_name(ev));
 *	rutile_ctf_free(t);
 *
 * An event belongs to a class: its name and the layout of its fields, found in the metadata. Look a
 * field up once for each class (rutile_ctf_field_find), then read it of each event of the class: a
 * load at a known distance. Classes are numbered from 0, for tables of the caller's.
 *
 * Functions return 0 or -errno unless noted. Bad input never ends a walk with a
 * crash: it is counted (rutile_ctf_counts), given to the handler of messages, and the rest is read.
 * A trace belongs to one thread at a time; the handler of messages to the whole process.
 *
 * Structs may grow at their ends: each that the library fills has its size as an argument of a
 * macro, so that programs compiled with a shorter one still work. Nothing else changes within
 * one soname.
 */
#ifndef RUTILE_CTF_H
#define RUTILE_CTF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUTILE_CTF_API __attribute__((visibility("default")))

struct rutile_ctf;
struct rutile_ctf_class;
struct rutile_ctf_event;
struct rutile_ctf_field;

/*
 * Opens every trace found in these files and directories, which are searched to any depth for files
 * named `metadata`. The reason of a failure is written to `error` (NUL-terminated; may be NULL).
 * The caller frees *ret with rutile_ctf_free().
 */
RUTILE_CTF_API int rutile_ctf_open(struct rutile_ctf **ret, const char *const *paths, size_t n,
				   char *error, size_t error_size);
/* Also what was borrowed from it: events, classes, fields. NULL: does nothing. */
RUTILE_CTF_API void rutile_ctf_free(struct rutile_ctf *t);

/* Receives notices ("2 events were discarded ..."); NULL, the default: none. */
RUTILE_CTF_API void rutile_ctf_on_message(void (*fn)(const char *message, void *arg), void *arg);

/* Nanoseconds since 1970 of the first packet's begin and the last one's end. -ENODATA: no times. */
RUTILE_CTF_API int rutile_ctf_range(struct rutile_ctf *t, int64_t *ret_begin_ns,
				    int64_t *ret_end_ns);

/* Event classes. NULL: there is no such number. */
RUTILE_CTF_API size_t rutile_ctf_class_count(const struct rutile_ctf *t);
RUTILE_CTF_API const struct rutile_ctf_class *rutile_ctf_class(const struct rutile_ctf *t,
							       size_t number);
RUTILE_CTF_API const char *rutile_ctf_class_name(const struct rutile_ctf_class *c);
RUTILE_CTF_API size_t rutile_ctf_class_number(const struct rutile_ctf_class *c);

/*
 * Only classes that were named here are returned from now on; others are skipped at little
 * cost. Before the first rutile_ctf_next(), or followed by rutile_ctf_seek().
 */
RUTILE_CTF_API void rutile_ctf_want(struct rutile_ctf *t, const struct rutile_ctf_class *c);

/* The next event is the first one at or after this time. */
RUTILE_CTF_API int rutile_ctf_seek(struct rutile_ctf *t, int64_t ns);

/* The next event in the order of time; NULL: the end. Valid until the next call. */
RUTILE_CTF_API const struct rutile_ctf_event *rutile_ctf_next(struct rutile_ctf *t);

RUTILE_CTF_API const struct rutile_ctf_class *rutile_ctf_event_class(
	const struct rutile_ctf_event *ev);
RUTILE_CTF_API const char *rutile_ctf_event_name(const struct rutile_ctf_event *ev);
/* Nanoseconds since 1970; 0 without a clock. */
RUTILE_CTF_API int64_t rutile_ctf_event_ns(const struct rutile_ctf_event *ev);
/* -1: the stream does not say. */
RUTILE_CTF_API int rutile_ctf_event_cpu(const struct rutile_ctf_event *ev);

/*
 * The field of this name of a class: of the payload, the contexts or the headers, in this order.
 * Members of structures are separated by dots ("addr.port"). NULL: there is none. Borrowed from the
 * trace.
 */
RUTILE_CTF_API const struct rutile_ctf_field *rutile_ctf_field_find(
	struct rutile_ctf *t, const struct rutile_ctf_class *c, const char *name);

enum rutile_ctf_kind {
	RUTILE_CTF_NONE, /* not there: another option of a variant, or `field` is NULL */
	RUTILE_CTF_UINT,
	RUTILE_CTF_INT,
	RUTILE_CTF_FLOAT,
	RUTILE_CTF_STRING, /* and arrays of characters */
	RUTILE_CTF_BYTES,
	RUTILE_CTF_COMPOUND, /* a structure or array: only its length is reported */
};

struct rutile_ctf_value {
	enum rutile_ctf_kind kind;
	union {
		uint64_t u;
		int64_t i;
		double d;
		const char *str; /* borrowed from the file: not NUL-terminated */
	};
	uint64_t len; /* bytes of STRING and BYTES; elements of COMPOUND */
};

RUTILE_CTF_API void rutile_ctf_get_sized(const struct rutile_ctf_event *ev,
					 const struct rutile_ctf_field *field,
					 struct rutile_ctf_value *ret, size_t size);
#define rutile_ctf_get(ev, field, ret) rutile_ctf_get_sized(ev, field, ret, sizeof(*(ret)))

/* An integer, sign-extended when it is signed; 0 when there is no such field. */
RUTILE_CTF_API uint64_t rutile_ctf_u64(const struct rutile_ctf_event *ev,
				       const struct rutile_ctf_field *field);

/* What the walk did so far. */
struct rutile_ctf_counts {
	uint64_t events; /* wanted or not */
	uint64_t packets;
	uint64_t discarded; /* events that the tracer lost */
	uint64_t lost_packets;
	uint64_t errors;	/* places where the input was bad */
	uint64_t skipped_bytes; /* that could not be read */
};

RUTILE_CTF_API void rutile_ctf_counts_sized(const struct rutile_ctf *t,
					    struct rutile_ctf_counts *ret, size_t size);
#define rutile_ctf_counts(t, ret) rutile_ctf_counts_sized(t, ret, sizeof(*(ret)))

#ifdef __cplusplus
}
#endif

#endif
