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

struct rut_source {
	const char *name; /* of the file, for messages; borrowed */
	const char *text; /* NUL-terminated; borrowed */
	size_t len;
	struct rut_buf messages;
	unsigned errors;
};

enum { RUT_SOURCE_ERRORS_MAX = 10 }; /* further ones are counted, but not kept */

/* A part of the text. */
struct rut_span {
	uint32_t pos, len;
};

void rut_source_init(struct rut_source *s, const char *name, const char *text, size_t len);
void rut_source_fini(struct rut_source *s);

/* Line and column of a position, from 1. */
void rut_source_where(const struct rut_source *s, uint32_t pos, uint32_t *ret_line,
		      uint32_t *ret_column);

/* Adds a message; returns -EINVAL. */
int rut_source_error(struct rut_source *s, struct rut_span at, const char *fmt, ...)
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
