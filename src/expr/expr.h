/* SPDX-License-Identifier: MIT */
/*
 * The expression language: period definitions, event filters and triggers are written in it.
 *
 *	$evt.$name == "syscall_exit_read" && $evt.fd == $begin.$evt.fd && $evt.ret & 0xff > 10
 *
 * An expression passes four steps; only the last one is hot:
 *
 *	rut_expr_parse()   text -> syntax tree, types checked, errors with their column
 *	rut_expr_link()    references to $begin and $parent -> slots of frames (periods only)
 *	rut_expr_bind()    for one class of events: its name becomes a constant, fields become
 *handles, what is then constant is folded away, the rest becomes a short program rut_expr_match()
 *runs the program on an event; allocates nothing
 *
 * Because the name of an event is known when its class is bound, a test such as $evt.$name == "x"
 * costs nothing per event: for all other classes the program is the constant false.
 *
 * The module does not depend on CTF: it reads fields through the functions of struct rut_expr_ops.
 *
 * Values are signed or unsigned 64-bit integers, floats and strings. A field that the event lacks
 * has no value: a comparison with it is false (and its negation, which != is, true). Comparing a
 * string with a number is false too, an error where it can be seen beforehand. Integers and
 * floats compare by value. An enumeration compares with a string by its labels, with all else as
 * the integer that it is. Integer arithmetic wraps; what divides by zero has no value.
 */
#ifndef RUT_EXPR_EXPR_H
#define RUT_EXPR_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct rut_buf;

enum rut_expr_type {
	RUT_EXPR_NONE, /* no value */
	RUT_EXPR_INT,
	RUT_EXPR_UINT,
	RUT_EXPR_FLOAT,
	RUT_EXPR_STR,
};

struct rut_expr_val {
	uint32_t type; /* enum rut_expr_type */
	uint32_t len;  /* of a string, bytes */
	union {
		int64_t i;
		uint64_t u;
		double f;
		const char *s; /* borrowed; not necessarily NUL-terminated */
	};
};

/* Where a field is looked for. AUTO tries the others in this order. */
enum rut_expr_scope {
	RUT_EXPR_AUTO,
	RUT_EXPR_PAYLOAD,
	RUT_EXPR_CTX,	     /* $ctx: event context */
	RUT_EXPR_STREAM_CTX, /* $stream_ctx: context common to the stream's events */
	RUT_EXPR_HEADER,     /* $header: event header */
	RUT_EXPR_PKT_CTX,
	RUT_EXPR_PKT_HEADER,
};

/* A field of one class of events, as the user of the module found it. */
struct rut_expr_field {
	_Alignas(8) unsigned char bytes[32]; /* for the user */
};

/* How fields are found (once per class of events) and read (once per event). */
struct rut_expr_ops {
	/*
	 * Finds the field at `path` ("fd", "hdr.flags", "args[2].name") in `scope` of the class.
	 * Returns 0 or -ENOENT.
	 */
	int (*find)(const void *cls, enum rut_expr_scope scope, const char *path,
		    struct rut_expr_field *ret);
	/* Reads it. False when this event does not have it (a variant's other option). */
	bool (*load)(const void *event, const struct rut_expr_field *field,
		     struct rut_expr_val *ret);
	const char *(*class_name)(const void *cls);
	uint64_t (*timestamp_ns)(const void *event);
	/*
	 * Calls `fn` with each label of an enumeration and the integers that it stands for; of a
	 * signed one they are int64_t. False: the field is no enumeration. NULL: none is.
	 */
	bool (*labels)(const struct rut_expr_field *field,
		       void (*fn)(void *arg, const char *label, uint64_t lo, uint64_t hi),
		       void *arg);
};

struct rut_expr;
struct rut_expr_prog;

/* Flags of rut_expr_parse(). */
enum {
	RUT_EXPR_FILTER = 1, /* $begin and $parent are errors: there is no period */
	RUT_EXPR_VALUE = 2,  /* a value is wanted (captures), not a condition */
};

/*
 * Parses and checks `len` bytes of text. On an error the message begins with "column N: " and
 * *ret_column (may be NULL) is N, counted from 1. The caller frees with rut_expr_free().
 */
int rut_expr_parse(const char *text, size_t len, unsigned flags, struct rut_expr **ret,
		   size_t *ret_column, struct rut_err *err);
void rut_expr_free(struct rut_expr *e);

/* Appends the expression in its canonical form: full parentheses, one space around operators. */
void rut_expr_print(const struct rut_expr *e, struct rut_buf *out);

/*
 * What the begin event of a period must remember: the fields that its own end expression and its
 * children's expressions refer to. A zeroed struct is empty.
 */
struct rut_expr_layout {
	struct rut_expr_slot *slots; /* owned */
	size_t count;
};

void rut_expr_layout_fini(struct rut_expr_layout *l);

/*
 * Turns references to other events into slots. layouts[0] is the period's own begin event,
 * layouts[1] its parent's, and so on, `depth` of them; slots are added to them. With `at_begin`
 * the expression is evaluated on the begin event itself: $begin.$evt is $evt. A reference beyond
 * `depth` is an error that names the column. Every expression with $begin or $parent must be
 * linked before it is bound.
 */
int rut_expr_link(struct rut_expr *e, struct rut_expr_layout *const *layouts, size_t depth,
		  bool at_begin, size_t *ret_column, struct rut_err *err);

/* The remembered values of a begin event; frames[i] belongs to layouts[i]. */
struct rut_expr_frame {
	const struct rut_expr_val *slots;
	const struct rut_expr_frame *parent;
};

/* Binds the expression to a class of events. Returns 0, -ENOMEM or -E2BIG. */
int rut_expr_bind(const struct rut_expr *e, const struct rut_expr_ops *ops, const void *cls,
		  struct rut_expr_prog **ret);
void rut_expr_prog_free(struct rut_expr_prog *p);

/* 0: never true for this class; 1: always; -1: it depends on the event. */
int rut_expr_prog_constant(const struct rut_expr_prog *p);
/* A value that no event of this class has. */
bool rut_expr_prog_nothing(const struct rut_expr_prog *p);

/* Runs a condition. `frame` may be NULL when nothing refers to $begin or $parent. */
bool rut_expr_match(const struct rut_expr_prog *p, const void *event,
		    const struct rut_expr_frame *frame);

/* Runs any expression for its value; a condition gives 0 or 1. Strings are borrowed. */
void rut_expr_value(const struct rut_expr_prog *p, const void *event,
		    const struct rut_expr_frame *frame, struct rut_expr_val *ret);

/* Reads what a period that begins with an event of this class must remember. */
int rut_expr_layout_bind(const struct rut_expr_layout *l, const struct rut_expr_ops *ops,
			 const void *cls, struct rut_expr_prog **ret);
/* Fills l->count values; strings are borrowed from the event. */
void rut_expr_layout_load(const struct rut_expr_prog *p, const void *event,
			  struct rut_expr_val *values);

#endif
