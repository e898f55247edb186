/* SPDX-License-Identifier: MIT */
/*
 * Values of scripts as text and as JSON, in bpftrace's formats. What only user space knows (names
 * of addresses, users, probes) comes from a table of functions, so that tests and readers of a dump
 * can have their own.
 */
#ifndef RUT_SCRIPT_VALUE_H
#define RUT_SCRIPT_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "script/type.h"

struct rut_buf;

/*
 * Appends text; every member may be NULL: the number is shown instead. Two owners fill the table:
 * symbolize.h has what any program of the machine can find out, called with `symbols`; the consumer
 * knows the script and its maps, called with `arg`.
 */
struct rut_script_names {
	void *symbols;
	void (*ksym)(void *symbols, uint64_t address, bool with_offset, struct rut_buf *out);
	void (*usym)(void *symbols, const struct rut_script_usym_value *v, bool with_offset,
		     struct rut_buf *out);
	/* The file that has this address of the process, in stacks of the mode "perf". */
	void (*module)(void *symbols, const struct rut_script_usym_value *v, struct rut_buf *out);
	void (*username)(void *symbols, uint64_t uid, struct rut_buf *out);
	void (*cgroup_path)(void *symbols, uint64_t id, const char *filter, struct rut_buf *out);
	void (*syscall_name)(void *symbols, uint64_t number, struct rut_buf *out);
	/* Nanoseconds since 1970 of a clock's time. */
	uint64_t (*wall_ns)(void *symbols, uint32_t clock, uint64_t ns);

	void *arg;
	/* Addresses of a stack, innermost first; returns how many. */
	size_t (*stack)(void *arg, const struct rut_type *t, const struct rut_script_stack_value *v,
			uint64_t *ips, size_t max);
	/* Frames of a Ruby stack: lines, each ended. */
	void (*ruby_stack)(void *arg, const struct rut_type *t,
			   const struct rut_script_stack_value *v, unsigned indent,
			   struct rut_buf *out);
	/* The method of a Ruby frame's word, or its file and line. */
	void (*ruby_frame)(void *arg, uint64_t word, bool line, struct rut_buf *out);
	/* The name of a request, by its number. */
	void (*ruby_request)(void *arg, uint64_t number, struct rut_buf *out);
	const char *(*probe)(void *arg, uint64_t index);
	const char *(*string)(void *arg, uint32_t index); /* of the program's strings */
};

struct rut_script_style {
	unsigned compat;     /* 0: bpftrace 0.26 and later; 17, 23: as 0.17, 0.23 */
	uint32_t max_strlen; /* strings of this length were cut; 0: none */
	const char *trailer; /* shown after them; NULL: "" */
	const struct rut_script_names *names;
};

/* As 0.17 to 0.25. */
static inline bool rut_script_style_old(const struct rut_script_style *s)
{
	return s->compat && s->compat < 26;
}

/* Where a value is shown: stacks and pointers look different. */
enum rut_script_place {
	RUT_SCRIPT_IN_VALUE,
	RUT_SCRIPT_IN_KEY,
	RUT_SCRIPT_IN_PRINTF,
};

/* Appends the value. `v` may be unaligned. No aggregations. */
void rut_script_value_text(const struct rut_script_style *s, const struct rut_type *t,
			   const void *v, enum rut_script_place place, struct rut_buf *out);
void rut_script_value_json(const struct rut_script_style *s, const struct rut_type *t,
			   const void *v, struct rut_buf *out);

/* The key of a map: the values of several keys without parentheses. */
void rut_script_key_text(const struct rut_script_style *s, const struct rut_type *t, const void *v,
			 struct rut_buf *out);
/* ... as a JSON string: "curl,2". */
void rut_script_key_json(const struct rut_script_style *s, const struct rut_type *t, const void *v,
			 struct rut_buf *out);

/* INT, BOOL, ENUM, POINTER: the number, sign-extended if it is signed. */
int64_t rut_script_value_int(const struct rut_type *t, const void *v);
/* Of FLOAT. */
double rut_script_value_real(const struct rut_type *t, const void *v);

/* The text as a quoted JSON string. */
void rut_script_json_string(struct rut_buf *out, const char *text, size_t len);

/* A time in the format of strftime(3), with %f: microseconds, six digits. */
void rut_script_time_text(const char *format, uint64_t wall_ns, struct rut_buf *out);

/* %r of a buffer: printable characters as they are; %rx: all as \x00; %rh: "00 01". */
void rut_script_bytes_text(const uint8_t *data, size_t len, char variant, struct rut_buf *out);

#endif
