/* SPDX-License-Identifier: MIT */
/*
 * The methods that requests are known by: entry points of servers and job runners, methods that
 * know more about the request (its route, its status), and the layers below (sql, template, cache
 * ...).
 *
 * The tracer sends them with the filter, compiled from the files of share/rutile/layers
 * (ruby/layers.h). A field is read by a short program of steps from a given value (an
 * argument, a local variable, self, what is returned) to the one that is written. watch_read.c runs
 * these.
 */
#ifndef RUT_AGENT_WATCH_H
#define RUT_AGENT_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rut_watch_what {
	RUT_WATCH_REQUEST = 'r',
	RUT_WATCH_INFO = 'i',
	RUT_WATCH_SPAN = 's',
	RUT_WATCH_NESTED = 'n', /* a span that may be inside one of its own layer */
};

enum rut_watch_field {
	RUT_FIELD_VERB = 'v',
	RUT_FIELD_PATH = 'p',
	RUT_FIELD_ROUTE = 'r',
	RUT_FIELD_STATUS = 's',
	RUT_FIELD_BYTES = 'b',
	RUT_FIELD_TRACEPARENT = 't',
	RUT_FIELD_REQUEST_ID = 'x',
	RUT_FIELD_DETAIL = 'd',
	RUT_FIELD_ERROR = 'e',
};

enum rut_watch_when {
	RUT_WATCH_CALL = '<',
	RUT_WATCH_RETURN = '>',
};

/* Operations; the operand is `text` or `n`. */
enum rut_watch_op_kind {
	RUT_OP_LOCAL = 'a',    /* argument or local variable `text` */
	RUT_OP_POSITION = 'n', /* argument number `n`, from 1 */
	RUT_OP_SELF = 's',
	RUT_OP_RETURN = 'r',  /* what the method returns */
	RUT_OP_LITERAL = 'l', /* the bytes of `text` */
	RUT_OP_IVAR = '@',    /* instance variable `text` of the value */
	RUT_OP_KEY = 'k',     /* the value is a Hash: of the String `text` */
	RUT_OP_SYMBOL = 'y',  /* the value is a Hash: of the Symbol `text` */
	RUT_OP_INDEX = 'i',   /* the value is an Array: element `n` */
	RUT_OP_CLASS = 'c',   /* the name of the value's class, or its own if it is one */
	RUT_OP_NEXT = '+',    /* what follows is appended */
	RUT_OP_OR = '|',      /* what follows is read if there is nothing so far */
	RUT_OP_SQL = 'Q',     /* of what was appended last: values are masked */
	RUT_OP_HOST = 'H',    /* ... scheme, host and port of a URL */
	RUT_OP_PREFIX = 'P',  /* ... up to the last ':' or '/', without digits */
	RUT_OP_PATH = 'U',    /* ... without a query string */
};

struct rut_watch_op {
	char kind;
	uint16_t n;	  /* of KEY: the number of the key (rut_request_mode.keys) */
	const char *text; /* borrowed from rut_watches.text; NULL: none */
	uint64_t id;	  /* of IVAR and SYMBOL: Ruby's */
};

struct rut_watch_read {
	char field, when;
	uint16_t first, count; /* operations */
};

#define RUT_WATCH_OPS_MAX 64

struct rut_watch {
	char what;
	bool returns;	   /* has fields that are read at the return */
	bool parameters;   /* of the local variables only the parameters are read */
	const char *layer; /* "http" or "job" of a request */
	uint32_t row;	   /* that has its name */
	const struct rut_watch_read *reads;
	uint16_t nreads;
	struct rut_watch_op *ops;
	uint16_t nops;
};

/* "Class#method" or "Class.method", and what it is watched for. */
struct rut_watch_name {
	const char *name;   /* borrowed from the text */
	const char *method; /* its last part */
	struct rut_watch *watch;
};

struct rut_watches {
	struct rut_watch *watches;
	struct rut_watch_name *names; /* sorted by method, then name */
	size_t count, nnames, nkeys;
	void *memory; /* owned */
	size_t bytes;
};

/*
 * Parses what is of the kind RUT_FILTER_WATCH in a configuration (abi.h). Returns 0, -EINVAL, or
 * -ENOMEM; *ret is empty then, and when there is nothing of that kind. The configuration is copied.
 */
int rut_agent_watches_init(struct rut_watches *ret, const char *config);
void rut_agent_watches_fini(struct rut_watches *w);

/* What is this method watched for? NULL: nothing. */
struct rut_watch *rut_agent_watches_find(const struct rut_watches *w, const char *class_name,
					 bool singleton, const char *method);

/* Is any method of this name watched? Not NUL-terminated. */
bool rut_agent_watches_has(const struct rut_watches *w, const char *method, size_t len);

/*
 * Copies `n` bytes of SQL with every literal value replaced by `?`, lists of them by one, comments
 * removed and white space folded. Returns the bytes written, at most `cap`.
 */
size_t rut_agent_sql_mask(char *to, size_t cap, const char *sql, size_t n);

#endif
