/* SPDX-License-Identifier: MIT */
/* What `requests` has counted, as an_requests.c fills it and requests_report.c shows it. */
#ifndef RUT_ANALYSIS_AN_REQUESTS_H
#define RUT_ANALYSIS_AN_REQUESTS_H

#include "analysis/ordered.h"
#include "analysis/requests.h"
#include "analysis/stats.h"

struct rut_requests_route {
	const char *name; /* interned by the instance */
	bool is_init;
	uint64_t errors, running;
	struct rut_stat each;
	int64_t ns[RUT_PLACES];
	struct rut_request_layer layers[RUT_REQUEST_LAYERS];
	uint8_t n_layers;
};

struct rut_requests_instance {
	struct rut_instance base;
	struct rut_strtab names;
	struct rut_ordered routes;   /* by number of the name */
	struct rut_request *slowest; /* owned array, the slowest first */
	size_t n, most;
};

/* The classes of its tables, NULL at the end. */
extern const struct rut_lami_class *const rut_an_requests_classes[];

/* Tables, text or JSON Lines of all that was counted, into the run. */
void rut_an_requests_report(struct rut_requests_instance *rq, int64_t end_ns);

#endif
