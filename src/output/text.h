/* SPDX-License-Identifier: MIT */
/*
 * Text for people: names of classes, methods and files come from a program that we do not trust,
 * so they never reach a terminal unchanged. Control characters, characters that turn the
 * direction of writing and bytes that are not UTF-8 are shown escaped ("\x1b", "\u202e"); widths
 * are columns of a terminal, not bytes.
 */
#ifndef RUT_OUTPUT_TEXT_H
#define RUT_OUTPUT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rut_buf;

/*
 * The code point at `s`, of `len` > 0 bytes. Returns the bytes it takes; for a byte that is not
 * UTF-8 it returns 1 and *ret is UINT32_MAX.
 */
size_t rut_text_decode(const char *s, size_t len, uint32_t *ret);

/* Chooses a UTF-8 locale for characters; call it once, before anything is measured or shown. */
void rut_text_init(void);

/* Appends `s` made harmless. */
void rut_text_add(struct rut_buf *b, const char *s);

/* Appends lines made harmless: their ends stay. */
void rut_text_add_lines(struct rut_buf *b, const char *s);

/* Columns that rut_text_add() would take. */
size_t rut_text_width(const char *s);

/*
 * Appends lines as they are, but those that take more than `width` columns broken at spaces, or in
 * a word that is wider. What follows is indented by two columns more than the line is.
 */
void rut_text_wrap(struct rut_buf *b, const char *s, size_t width);

enum {
	RUT_TEXT_RIGHT = 1,	 /* pad on the left */
	RUT_TEXT_KEEP_RIGHT = 2, /* what is too long loses its left end, not its right one */
	RUT_TEXT_KEEP_BOTH = 4,	 /* ... its middle, replaced by dots */
};

/* Appends `s` made harmless, cut and padded to exactly `width` columns. */
void rut_text_fit(struct rut_buf *b, const char *s, size_t width, int flags);

/* Appends a number, with zeros before it up to `digits`; a trace has several in each line. */
void rut_text_number(struct rut_buf *b, uint64_t v, unsigned digits);

/* "950ns", "1.23us", "45.6ms", "7.89s", "3m20s". */
#define RUT_TEXT_DURATION_SIZE 24
const char *rut_text_duration(char buf[RUT_TEXT_DURATION_SIZE], uint64_t ns);

#endif
