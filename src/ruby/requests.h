/* SPDX-License-Identifier: MIT */
/*
 * Requests and spans as they happen, for live screens: of a tracer in the mode RUT_RUBY_RECORD with
 * the kind RUT_KIND_REQUEST that writes no trace.
 */
#ifndef RUT_RUBY_REQUESTS_H
#define RUT_RUBY_REQUESTS_H

#include <stdint.h>
#include <sys/types.h>

struct rut_tracer;

enum rut_ruby_request_what {
	RUT_RUBY_REQUEST_BEGIN,
	RUT_RUBY_REQUEST_END,
	RUT_RUBY_SPAN_BEGIN,
	RUT_RUBY_SPAN_END,
	RUT_RUBY_REQUESTS_LOST, /* `lost` events of the process did not fit */
	RUT_RUBY_REQUESTS_OVER, /* the process has ended */
};

/* What an event does not have is 0 or "". See docs/requests.md. */
struct rut_ruby_request {
	enum rut_ruby_request_what what;
	pid_t pid, tid;
	uint32_t fiber;	  /* of the thread; unique in the process */
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t id, lost;
	const char *kind; /* of a request: "http", "job", ...; of a span its layer */
	uint16_t status, depth;
	int64_t bytes; /* -1: not known */
	const char *verb, *path, *route, *traceparent, *request_id, *error, *detail;
};

/*
 * The events of each process are in order of time, those of different processes need not be. Called
 * from rut_tracer_poll(), on the caller's thread. Event and strings are valid during the call only;
 * `kind` lives as long as the tracer.
 */
typedef void (*rut_ruby_request_fn)(const struct rut_ruby_request *ev, void *arg);

void rut_tracer_on_request(struct rut_tracer *t, rut_ruby_request_fn fn, void *arg);

#endif
