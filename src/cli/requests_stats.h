/* SPDX-License-Identifier: MIT */
/*
 * What live requests add up to: routes with their durations and layers, and what runs now. Fed with
 * the events of ruby/requests.h.
 */
#ifndef RUT_CLI_REQUESTS_STATS_H
#define RUT_CLI_REQUESTS_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/stats.h"
#include "base/hash.h"
#include "ruby/requests.h"

#define RUT_LIVE_REQUESTS_LAYERS  16   /* the last one is all others */
#define RUT_LIVE_REQUESTS_ROUTES  1000 /* the last one is all others */
#define RUT_LIVE_REQUESTS_SPANS	  24
#define RUT_LIVE_REQUESTS_DETAILS 64
#define RUT_LIVE_REQUESTS_SLOWEST 5

/* The time of spans of one layer and text: a query, a template, a host. */
struct rut_live_detail {
	unsigned layer; /* RUT_LIVE_REQUESTS_LAYERS: several ("(others)") */
	char text[120];
	uint64_t count, ns, max_ns;
};

/* At most RUT_LIVE_REQUESTS_DETAILS; the last one is then "(others)". */
struct rut_live_details {
	struct rut_live_detail *items; /* owned */
	size_t count;
};

/* A slow request of a route, and what most of it was spent with (count 0: no span). */
struct rut_live_slow {
	uint64_t ns; /* 0: none */
	char verb[16], path[200];
	struct rut_live_detail most;
};

struct rut_live_route {
	char *name; /* owned */
	const char *kind;
	uint64_t count, errors;
	uint64_t rated; /* count at the last rate */
	double per_second;
	struct rut_stat stat; /* durations */
	uint64_t layer_ns[RUT_LIVE_REQUESTS_LAYERS];
	struct rut_live_details details;
	struct rut_live_slow slowest[RUT_LIVE_REQUESTS_SLOWEST]; /* the slowest first */
};

struct rut_live_span {
	unsigned layer;
	uint64_t begin_ns;
	char detail[120];
};

/* A request that has not ended. */
struct rut_live_running {
	pid_t pid, tid;
	uint32_t fiber;
	uint64_t id, begin_ns;
	const char *kind;
	char verb[16], path[200];
	uint64_t since_ns; /* the time up to then is in layer_ns */
	uint64_t layer_ns[RUT_LIVE_REQUESTS_LAYERS];
	unsigned depth; /* may be more than there is room for */
	struct rut_live_span spans[RUT_LIVE_REQUESTS_SPANS];
	struct rut_live_details details;
};

struct rut_live_requests {
	struct rut_strtab names;				 /* of routes -> index */
	struct rut_live_route *routes[RUT_LIVE_REQUESTS_ROUTES]; /* owned */
	size_t nroutes;
	const char *layers[RUT_LIVE_REQUESTS_LAYERS]; /* borrowed from the tracer */
	size_t nlayers;
	struct rut_map running; /* by process and fiber -> struct rut_live_running, owned */
	uint64_t nrunning;
	uint64_t count, errors, rated, lost;
	double per_second;
	uint64_t begin_ns, rated_ns;
	bool failed; /* out of memory: something is missing */
};

void rut_cli_live_requests_init(struct rut_live_requests *r, uint64_t now_ns);
void rut_cli_live_requests_fini(struct rut_live_requests *r);
/* Counts from zero; what runs stays. */
void rut_cli_live_requests_reset(struct rut_live_requests *r, uint64_t now_ns);
void rut_cli_live_requests_add(struct rut_live_requests *r, const struct rut_ruby_request *ev);
/* Rates since the last call; `all`: since the begin. */
void rut_cli_live_requests_rate(struct rut_live_requests *r, uint64_t now_ns, bool all);

/* All routes that match, the owner of the array is the caller; NULL: no memory, or none. */
enum rut_live_requests_sort {
	RUT_LIVE_REQUESTS_BY_TIME,
	RUT_LIVE_REQUESTS_BY_COUNT,
	RUT_LIVE_REQUESTS_BY_ERRORS,
	RUT_LIVE_REQUESTS_BY_P50,
	RUT_LIVE_REQUESTS_BY_P95,
	RUT_LIVE_REQUESTS_BY_P99,
	RUT_LIVE_REQUESTS_BY_MAX,
	RUT_LIVE_REQUESTS_BY_RATE,
	RUT_LIVE_REQUESTS_BY_ROUTE,
	RUT_LIVE_REQUESTS_SORTS,
};
const char *rut_cli_live_requests_sort_name(enum rut_live_requests_sort sort);
struct rut_live_route **rut_cli_live_requests_routes(const struct rut_live_requests *r,
						     enum rut_live_requests_sort sort, bool reverse,
						     const char *filter, size_t *ret_count);
/* What runs, the longest first; likewise. */
struct rut_live_running **rut_cli_live_requests_running(const struct rut_live_requests *r,
							size_t *ret_count);

/* The name of its layer; "-": it is of several. */
const char *rut_cli_live_requests_layer(const struct rut_live_requests *r,
					const struct rut_live_detail *d);

/* The quantile `q` of the durations of the route's requests, in nanoseconds. */
uint64_t rut_cli_live_route_quantile(const struct rut_live_route *route, double q);

/*
 * The name of a request that has no route: its verb and path, with what looks like an identifier
 * (digits, a UUID, a long hexadecimal number) replaced by ":id".
 */
void rut_cli_live_requests_plain_route(char *to, size_t size, const char *verb, const char *path);

#endif
