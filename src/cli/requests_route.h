/* SPDX-License-Identifier: MIT */
/* One route of live requests, opened: how its time is spent, its queries, its slowest requests. */
#ifndef RUT_CLI_REQUESTS_ROUTE_H
#define RUT_CLI_REQUESTS_ROUTE_H

#include "base/buf.h"
#include "cli/requests_stats.h"

/* Appends lines of text, `width` columns wide (0: as wide as they are). */
void rut_cli_live_route_print(const struct rut_live_requests *r, const struct rut_live_route *route,
			      size_t width, struct rut_buf *out);

/* The route of that name; NULL: there is none any more. */
const struct rut_live_route *rut_cli_live_route_find(const struct rut_live_requests *r,
						     const char *name);

#endif
