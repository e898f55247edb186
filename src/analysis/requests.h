/* SPDX-License-Identifier: MIT */
/*
 * Requests of a trace: what the application served, and where the time of each went.
 *
 * A request is what ruby:request_begin and ruby:request_end enclose, or, when the user names a
 * method, an outermost call of it; or each period of a name: then it belongs to the thread in which
 * the period begins, otherwise to a fiber. Every slice of the time of its thread
 * (where.h) is added to the request, so the parts of a request sum up to its duration exactly; what
 * passes while another fiber has the thread is a part of its own.
 */
#ifndef RUT_ANALYSIS_REQUESTS_H
#define RUT_ANALYSIS_REQUESTS_H

#include "analysis/engine.h"
#include "analysis/history.h"
#include "analysis/ruby.h"
#include "analysis/where.h"

#define RUT_REQUEST_LAYERS 16
#define RUT_REQUEST_DEPTH  64

struct rut_request_layer {
	const char *name; /* interned by the state; the first is "": no layer */
	const struct rut_ruby_method *named_by; /* its name may come later; NULL: it does not */
	int64_t ruby_ns;			/* running Ruby while it was the innermost */
	int64_t total_ns;			/* all time while it was the innermost */
	uint64_t spans;
};

struct rut_explanation;

struct rut_request {
	uint64_t id;
	int64_t pid, tid;
	uint32_t fiber;
	/* Borrowed from the state while it is open; NULL: unknown to the kernel's events. */
	struct rut_thread *thread;
	char comm[16]; /* when it ended */
	int64_t begin_ns, end_ns;
	bool running;  /* it has not ended */
	bool outlived; /* of a period: one that began within it has ended since */
	char kind[16], verb[16], path[256], route[256], error[96], trace[64], request_id[64];
	int64_t status; /* 0: not known */
	int64_t ns[RUT_PLACES];
	struct rut_request_layer layers[RUT_REQUEST_LAYERS];
	uint8_t n_layers;
	/* Open spans: the layer of each. */
	uint8_t open[RUT_REQUEST_DEPTH];
	uint32_t depth;
	const struct rut_ruby_method *method; /* of a call that is taken as a request */
	uint32_t method_depth;
	struct rut_log *log;		   /* owned; NULL: it is not explained */
	struct rut_explanation *explained; /* owned; NULL: it is not */
	/* Exceptions that were raised in it, and the site of the first ones. */
	uint64_t raised;
	const struct rut_ruby_method *raise_site;
	uint64_t raised_there;
	struct rut_request *next; /* of its thread */
};

/* Follows all requests of a run; the instances of the analysis hear of each that ends. */
struct rut_requests {
	struct rut_run *run;
	struct rut_where where;
	struct rut_map methods;		 /* index + 1 of a method -> whether it makes requests */
	struct rut_map foreign;		 /* threads that the kernel's events do not know; owned */
	struct rut_instance **listeners; /* owned array */
	size_t n_listeners;
	int64_t now_ns;
	bool seen, has_spans;
	struct rut_history *history; /* owned; NULL: nothing is explained */
	/* A request has ended; it may take r->explained and then sets it NULL. */
	void (*ended)(struct rut_instance *inst, struct rut_request *r);
	/* A request that took no longer than this need not be explained. */
	int64_t (*slowest_ns)(const struct rut_requests *q);
};

/* The hooks that it subscribes to, for rut_analysis.wants. */
#define RUT_REQUESTS_HOOKS                                                                         \
	(RUT_WHERE_HOOKS | RUT_HOOK_BIT(RUT_HOOK_RUBY_BEGIN) | RUT_HOOK_BIT(RUT_HOOK_RUBY_CALL) |  \
	 RUT_HOOK_BIT(RUT_HOOK_RUBY_FIBER) | RUT_HOOK_BIT(RUT_HOOK_RUBY_REQUEST) |                 \
	 RUT_HOOK_BIT(RUT_HOOK_RUBY_SPAN) | RUT_HOOK_BIT(RUT_HOOK_BLOCK_DONE))

/* A period of the run begins or ends; with conf->of_periods it may be a request. */
void rut_an_requests_period_begin(struct rut_requests *q, struct rut_period *p);
void rut_an_requests_period_end(struct rut_requests *q, const struct rut_period *p);

/* Returns 0 or -ENOMEM. */
int rut_an_requests_init(struct rut_requests *q, struct rut_run *run);
void rut_an_requests_fini(struct rut_requests *q);

/* Calls `fn` for each request that has not ended, as if it ended at `now_ns`. */
void rut_an_requests_running(struct rut_requests *q, int64_t now_ns,
			     void (*fn)(struct rut_instance *inst, struct rut_request *r),
			     struct rut_instance *inst);

/* What a thread serves: its request, or "" when it serves none. */
void rut_an_requests_serving(struct rut_requests *q, struct rut_thread *t, char *out, size_t size);

/* The name that it is listed under: its route, or its verb and path with numbers as ":id". */
void rut_an_request_name(const struct rut_request *r, char *out, size_t size);
bool rut_an_request_failed(const struct rut_request *r);

#endif
