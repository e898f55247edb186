/* SPDX-License-Identifier: MIT */
/*
 * The text of a script and the messages about it: "NAME:LINE:COLUMN: error: MESSAGE", the line
 * itself, and a caret below what is meant. Positions are byte offsets into the text.
 */
#ifndef RUT_SCRIPT_SOURCE_H
#define RUT_SCRIPT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* A file that was imported: its text begins there. */
struct rut_source_part {
	uint32_t begin;
	const char *name; /* borrowed */
};

struct rut_source {
	const char *name; /* of the file, for messages; borrowed */
	const char *text; /* NUL-terminated; borrowed */
	size_t len;	  /* of what is read now */
	size_t whole;	  /* with all imported files */
	char **owner;	  /* borrowed: where the text is allocated; NULL: nothing is imported */
	struct rut_source_part parts[64];
	unsigned nparts;
	struct rut_buf messages;
	unsigned errors;
	bool as_bpftrace; /* messages in its form: "NAME:LINE:FROM-TO: ERROR: MESSAGE" */
};

enum { RUT_SOURCE_ERRORS_MAX = 10 }; /* further ones are counted, but not kept */

/* A part of the text. */
struct rut_span {
	uint32_t pos, len;
};

void rut_source_init(struct rut_source *s, const char *name, const char *text, size_t len);
void rut_source_fini(struct rut_source *s);

/* The name of the file that the position is in. */
const char *rut_source_name(const struct rut_source *s, uint32_t pos);
/* Line and column of a position in its file, from 1. */
void rut_source_where(const struct rut_source *s, uint32_t pos, uint32_t *ret_line,
		      uint32_t *ret_column);

/* Adds a message; returns -EINVAL. */
int rut_source_error(struct rut_source *s, struct rut_span at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Below an error, where the macro that it is in was called. */
void rut_source_note(struct rut_source *s, struct rut_span at, const char *text);
/* One without a place, as bpftrace has some; returns -EINVAL. */
int rut_source_plain(struct rut_source *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* A message that lets the script run. */
void rut_source_warn(struct rut_source *s, struct rut_span at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A line below the last message: what to do instead. */
void rut_source_hint(struct rut_source *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Of many names the one that was perhaps meant: zero it, set `wanted`, add all names. */
struct rut_nearest {
	const char *wanted;
	size_t wanted_len;
	char name[64]; /* empty: none is near */
	size_t distance;
};
void rut_nearest_add(struct rut_nearest *n, const char *name);

#endif
