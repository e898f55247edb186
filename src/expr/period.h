/* SPDX-License-Identifier: MIT */
/*
 * Definitions of periods: something that begins with one event and ends with another.
 *
 *	[NAME[(PARENT)]] : BEGIN [: END]
 *
 * Without END the begin expression ends it too. Captures keep values of both events:
 *
 *	NAME : [x =] EXPR, ... [: [y =] EXPR, ...]
 *
 * A file holds any number of definitions. A line that begins at its first column begins a
 * definition; indented lines go on with it; "captures" there introduces the captures:
 *
 *	# comment
 *	request : $evt.$name == "syscall_exit_accept4"
 *		: $evt.$name == "syscall_entry_close" && $evt.fd == $begin.$evt.ret
 *		captures worker = $evt.pid
 */
#ifndef RUT_EXPR_PERIOD_H
#define RUT_EXPR_PERIOD_H

#include "expr/expr.h"

struct rut_capture {
	char *name;	       /* owned */
	struct rut_expr *expr; /* owned */
};

struct rut_captures {
	struct rut_capture *list; /* owned */
	size_t n;
};

struct rut_period_def {
	char *name;	   /* owned; NULL: none */
	char *parent_name; /* owned; NULL: none */
	char *path;	   /* owned: names from the root, with slashes; "" without a name */
	struct rut_period_def *parent; /* borrowed */
	size_t index;		       /* in the set */
	size_t depth;		       /* 0: a root */
	char *text;		       /* owned: the definition as given */
	struct rut_expr *begin, *end;  /* owned */
	struct rut_captures begin_captures, end_captures;
	struct rut_expr_layout layout; /* what its begin event must remember */
};

/* A zeroed set is empty. */
struct rut_period_set {
	struct rut_period_def **defs; /* owned; parents before their children */
	size_t n;
};

void rut_period_set_fini(struct rut_period_set *s);
struct rut_period_def *rut_period_set_find(const struct rut_period_set *s, const char *name,
					   size_t len);

/*
 * Adds the definition in `text`; its parent must be there already. *ret_column (may be NULL) is
 * where an error is, 0 when it has no place. Returns 0 or -errno.
 */
int rut_period_set_add(struct rut_period_set *s, const char *text, size_t *ret_column,
		       struct rut_err *err);
/* Adds captures to a definition that is there already. */
int rut_period_set_capture(struct rut_period_set *s, const char *text, size_t *ret_column,
			   struct rut_err *err);
/* Adds what a file holds. Errors name file and line. */
int rut_period_set_read(struct rut_period_set *s, const char *path, struct rut_err *err);
/* The same of text in memory; `path` is for errors only. */
int rut_period_set_parse(struct rut_period_set *s, const char *text, const char *path,
			 struct rut_err *err);

/* Resolves the references to begin events and parents. Call it once, when all are added. */
int rut_period_set_link(struct rut_period_set *s, struct rut_err *err);

#endif
