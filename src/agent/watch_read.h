/* SPDX-License-Identifier: MIT */
/*
 * Reading the fields of requests and spans: local variables, instance variables and elements of
 * arrays and hashes, by their addresses and by C functions of Ruby's that run no code of the
 * application. With the GVL, in the hook of the method.
 */
#ifndef RUT_AGENT_WATCH_READ_H
#define RUT_AGENT_WATCH_READ_H

#include "core.h"

/*
 * Where the local variables of a watched method are. As long as the code is the same: to look costs
 * more than a span. So the code of methods that layer files name, which are few, is kept alive.
 */
struct rut_watch_code {
	VALUE iseq;
	struct rut_life life;
	long kept; /* place in rut_request_mode.codes, from 1; 0: none */
	uint16_t locals;
	int16_t slot[RUT_WATCH_OPS_MAX]; /* of each operation that has one; -1: it is not there */
};

/* With the GVL, once: names and keys become Ruby's. May raise. */
void rut_agent_watches_intern(struct rut_session *s);

/* Frees what is kept beside that. */
void rut_agent_watch_fini(struct rut_session *s);
/* In the child of a fork: threads that are not in it had some of the queries that are kept. */
void rut_agent_watch_forked(struct rut_session *s);

/*
 * Reads the field into `buf`, which is NUL-terminated then, with control characters and what is no
 * UTF-8 replaced. Returns the length; 0: there is nothing. `code`: of the method that runs, NULL
 * when it is not known.
 */
size_t rut_agent_watch_read(struct rut_session *s, const struct rut_watch *w,
			    const struct rut_watch_read *r, const struct rut_watch_code *code,
			    const struct rut_trace_arg *ta, char *buf, size_t size);

/* The code of the frame that runs; looked up when `*code` is not that. NULL: no memory. */
const struct rut_watch_code *rut_agent_watch_code(struct rut_session *s, const struct rut_watch *w,
						  struct rut_watch_code **code,
						  const struct rut_trace_arg *ta);

/* The local variable of that operation; false: there is none. */
bool rut_agent_watch_local(const struct rut_watch_code *code, unsigned op,
			   const struct rut_trace_arg *ta, VALUE *ret);

/*
 * A String, Symbol or small Integer as text, as rut_agent_watch_read() has it; false: it is
 * something else, and `buf` is empty.
 */
bool rut_agent_watch_text(char *buf, size_t size, VALUE v);

#endif
