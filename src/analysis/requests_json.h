/* SPDX-License-Identifier: MIT */
/* Requests as JSON Lines (`rutile requests TRACE --json`). */
#ifndef RUT_ANALYSIS_REQUESTS_JSON_H
#define RUT_ANALYSIS_REQUESTS_JSON_H

#include "analysis/requests.h"

/* "name": {"ruby": 12, ...}: the places where time was spent, in ns. */
void rut_an_requests_json_parts(struct rut_buf *out, const char *name, const int64_t *ns);
/* "layers": [...] */
void rut_an_requests_json_layers(struct rut_buf *out, const struct rut_request_layer *layers,
				 size_t n);
/* One line: a request with its explanation, if there is one. */
void rut_an_requests_json_request(struct rut_buf *out, const struct rut_request *r);

#endif
