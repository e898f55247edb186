/* SPDX-License-Identifier: MIT */
/*
 * Requests as probes of scripts see them (hit.h): beginnings, ends, and which request a fiber is
 * in, which the kernel is told whenever that changes.
 */
#ifndef RUT_AGENT_REQUEST_HIT_H
#define RUT_AGENT_REQUEST_HIT_H

#include "core.h"
#include "record.h"

#define RUT_OPEN_MAX	48
#define RUT_OPEN_DETAIL 192

/* A watched call under way. */
struct rut_open {
	const void *cfp;
	const struct rut_variant *v;
	uint32_t raises; /* of the task when it began */
	uint16_t depth;	 /* of a span */
	bool request, span;
	uint64_t begin_ns; /* of a script's probes */
	uint32_t caller;   /* ... of a span: the row of the application's method */
};

struct rut_task {
	struct rut_task *next;
	void *ec;
	const void *vm_stack; /* of `ec`: another one is another fiber's */
	uint64_t number;      /* of all tasks so far */
	bool active;	      /* a request runs */
	uint64_t id;
	const struct rut_variant *entry;
	uint16_t status;
	int64_t bytes;
	uint32_t raises; /* exceptions so far, of which `raised` is the last; 0: none */
	uint32_t raised; /* its class: a string of the table */
	/* The class of the last one that was not raised in the server's own files; 0: none. */
	uint32_t raised_outside;
	uint32_t count; /* of open[] */
	uint16_t spans; /* of these */
	char verb[16], path[RUT_RECORD_TEXT], route[RUT_RECORD_TEXT];
	char traceparent[64], request_id[128], error[RUT_RECORD_TEXT];
	uint64_t begin_ns;		  /* of a script's probes */
	char (*details)[RUT_OPEN_DETAIL]; /* of open[], of such spans; NULL: none so far */
	struct rut_open open[RUT_OPEN_MAX];
};

/* Reports the name of this fiber's request, or that it has none. */
void rut_agent_request_hit_name(struct rut_session *s, const struct rut_task *t);
/* RUT_HIT_REQUEST_BEGIN, RUT_HIT_REQUEST_END; `error`: a class, or "". */
void rut_agent_request_hit(struct rut_session *s, const struct rut_task *t, char event,
			   const char *error);
/* RUT_HIT_SPAN_BEGIN, RUT_HIT_SPAN_END */
void rut_agent_request_hit_span(struct rut_session *s, const struct rut_open *o, char event,
				const char *detail, const char *error);

#endif
