/* SPDX-License-Identifier: MIT */
/*
 * The formats of printf(), cat(), system() and their like. A format is parsed once, when the script
 * is compiled, and checked against the types of its arguments; rendering cannot fail. The C
 * library's printf never sees a format of a script.
 *
 *	%[-+ #0][width][.precision][hh|h|l|ll|j|z|t]conversion
 *
 *	d i u x X o   numbers; without l only their low 32 bits, as in C; hh: 8, h: 16 bits
 *	c             one character
 *	p             0x and hexadecimal digits
 *	s             any value, as print() shows it
 *	r rx rh       bytes: as text, "\x61\x62", "61 62"
 *	gr            flags of the kernel's page allocator
 *	f e g         numbers with decimals; of avg() and stats() the exact average
 *
 * What follows a '%' otherwise is text, as bpftrace has it for "%%" and "100%".
 */
#ifndef RUT_SCRIPT_FORMAT_H
#define RUT_SCRIPT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rut_buf;
struct rut_err;
struct rut_script_format;
struct rut_script_style;
struct rut_type;

/*
 * Parses `text` (copied) for the fields of the tuple `args` (borrowed, kept; NULL: none). 0, or
 * -EINVAL with a message that begins with "printf: " only if the caller puts it there; *ret_at
 * (NULL-able) is the offset of the conversion that it is about.
 */
int rut_script_format_parse(struct rut_script_format **ret, const char *text,
			    const struct rut_type *args, size_t *ret_at, struct rut_err *err);
/* Is the conversion of this argument, from 0, one of numbers with decimals? */
bool rut_script_format_wants_real(const char *format, size_t arg);
void rut_script_format_free(struct rut_script_format *f);

/* A conversion, and the name that stands before it: "pid" of "pid=%d". */
struct rut_script_format_name {
	size_t len; /* 0: it has no name */
	size_t at;  /* in the format's text */
};

/*
 * Finds the names of the first `max` conversions, one for each argument. Returns how many
 * conversions have one. *ret_title (NULL-able): how much of the format stands before the first
 * name.
 */
size_t rut_script_format_names(const struct rut_script_format *f,
			       struct rut_script_format_name *ret, size_t max, size_t *ret_title);

/* Appends the text; `data` is laid out as `args`. */
void rut_script_format_text(const struct rut_script_format *f, const struct rut_script_style *s,
			    const void *data, struct rut_buf *out);

#endif
