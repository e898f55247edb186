/* SPDX-License-Identifier: MIT */
/* Live requests as tables and as JSON Lines. */
#ifndef RUT_CLI_REQUESTS_PRINT_H
#define RUT_CLI_REQUESTS_PRINT_H

#include "base/buf.h"
#include "cli/requests_stats.h"

/*
 * The table of routes, its first line the titles: rows from `skip` on, `limit` of them at most (0:
 * all), as wide as `width` (0: as they are). Returns how many rows match the filter in all.
 */
struct rut_live_requests_table {
	enum rut_live_requests_sort sort;
	bool reverse;
	const char *filter; /* part of a route's name; NULL: all */
	size_t skip, limit, width;
};
size_t rut_cli_live_requests_print_routes(const struct rut_live_requests *r,
					  const struct rut_live_requests_table *t,
					  struct rut_buf *out);

/* What runs now; nothing when nothing does. */
void rut_cli_live_requests_print_running(const struct rut_live_requests *r, uint64_t now_ns,
					 size_t limit, size_t width, struct rut_buf *out);

/* "S sql  T template": what the letters of the bars mean; nothing when there are none. */
void rut_cli_live_requests_print_legend(const struct rut_live_requests *r, struct rut_buf *out);

/* An object for each route and for each request that runs. `limit` 0: all routes. */
void rut_cli_live_requests_json(const struct rut_live_requests *r,
				const struct rut_live_requests_table *t, uint64_t now_ns,
				uint64_t interval, bool final, struct rut_buf *out);

#endif
