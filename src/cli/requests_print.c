/* SPDX-License-Identifier: MIT */
#include "cli/requests_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "output/jsonl.h"
#include "output/table.h"
#include "output/text.h"

#define BAR	   20
#define BAR_NARROW 10
#define NARROW	   100 /* columns, below which names of routes would be cut */

static const struct rut_table_column route_columns[] = {
	{.title = "REQ/S"},
	{.title = "COUNT"},
	{.title = "ERRORS"},
	{.title = "P50"},
	{.title = "P95"},
	{.title = "P99"},
	{.title = "MAX"},
	{.title = "TIME"},
	{.title = "SPENT IN", .left = true},
	{.title = "ROUTE", .min_width = 16, .grow = true, .left = true},
};

enum { P99_COLUMN = 5 }; /* left out where the table is narrow */

/* A letter for each layer, of its name, which no other has. */
static void letters(const struct rut_live_requests *r, char *to)
{
	for (size_t i = 0; i < r->nlayers; i++) {
		const char *name = r->layers[i];

		to[i] = '*';
		for (size_t k = 0; name[k] && to[i] == '*'; k++) {
			char c = name[k] >= 'a' && name[k] <= 'z' ? (char)(name[k] - 32) : name[k];

			if (!memchr(to, c, i))
				to[i] = c;
		}
	}
}

/* Of the route's time: a letter for each part of `length` in a layer, '.' for the rest. */
static void bar(const struct rut_live_requests *r, const struct rut_live_route *route,
		size_t length, char *to)
{
	char letter[RUT_LIVE_REQUESTS_LAYERS];
	double sum = (double)route->stat.sum, cells = 0;
	size_t at = 0;

	letters(r, letter);
	for (size_t i = 0; sum > 0 && i < r->nlayers; i++) {
		cells += (double)route->layer_ns[i] / sum * (double)length;
		while (at < length && (double)at + 0.5 <= cells)
			to[at++] = letter[i];
	}
	while (at < length)
		to[at++] = '.';
	to[length] = 0;
}

void rut_cli_live_requests_print_legend(const struct rut_live_requests *r, struct rut_buf *out)
{
	char letter[RUT_LIVE_REQUESTS_LAYERS];

	letters(r, letter);
	for (size_t i = 0; i < r->nlayers; i++)
		rut_buf_printf(out, "%s%c %s", i ? "  " : "", letter[i], r->layers[i]);
	if (r->nlayers)
		rut_buf_puts(out, "  . other");
}

static void add_duration(struct rut_table *t, uint64_t ns)
{
	char text[RUT_TEXT_DURATION_SIZE];

	rut_table_add(t, rut_text_duration(text, ns));
}

static void add_route(struct rut_table *t, const struct rut_live_requests *r,
		      const struct rut_live_route *route, bool narrow)
{
	char text[BAR + 1];

	rut_table_addf(t, "%.1f", route->per_second);
	rut_table_addf(t, "%" PRIu64, route->count);
	rut_table_addf(t, "%" PRIu64, route->errors);
	add_duration(t, rut_cli_live_route_quantile(route, 0.5));
	add_duration(t, rut_cli_live_route_quantile(route, 0.95));
	if (!narrow)
		add_duration(t, rut_cli_live_route_quantile(route, 0.99));
	add_duration(t, (uint64_t)route->stat.max);
	add_duration(t, (uint64_t)route->stat.sum);
	bar(r, route, narrow ? BAR_NARROW : BAR, text);
	rut_table_add(t, text);
	rut_table_add(t, route->name);
}

size_t rut_cli_live_requests_print_routes(const struct rut_live_requests *r,
					  const struct rut_live_requests_table *o,
					  struct rut_buf *out)
{
	size_t n, end;
	_cleanup_free_ struct rut_live_route **list =
		rut_cli_live_requests_routes(r, o->sort, o->reverse, o->filter, &n);
	struct rut_table_column columns[sizeof(route_columns) / sizeof(*route_columns)];
	bool narrow = o->width && o->width < NARROW;
	struct rut_table t;
	size_t used = 0;

	if (!list)
		return 0;
	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
		if (!narrow || i != P99_COLUMN)
			columns[used++] = route_columns[i];
	rut_table_init(&t, columns, used);
	end = o->limit && o->skip + o->limit < n ? o->skip + o->limit : n;
	for (size_t i = o->skip; i < end; i++)
		add_route(&t, r, list[i], narrow);
	rut_table_render(&t, out, o->width);
	rut_table_fini(&t);
	return n;
}

static const struct rut_table_column running_columns[] = {
	{.title = "RUNS FOR"},
	{.title = "PID"},
	{.title = "TID"},
	{.title = "REQUEST", .min_width = 16, .left = true},
	{.title = "DOES", .min_width = 16, .grow = true, .left = true},
};

/* The innermost span that is known. */
static const struct rut_live_span *span_of(const struct rut_live_running *q)
{
	unsigned depth = q->depth < RUT_LIVE_REQUESTS_SPANS ? q->depth : RUT_LIVE_REQUESTS_SPANS;

	return depth ? &q->spans[depth - 1] : NULL;
}

void rut_cli_live_requests_print_running(const struct rut_live_requests *r, uint64_t now_ns,
					 size_t limit, size_t width, struct rut_buf *out)
{
	size_t n;
	_cleanup_free_ struct rut_live_running **list = rut_cli_live_requests_running(r, &n);
	struct rut_table t;

	if (!list || !n || !limit)
		return;
	rut_table_init(&t, running_columns, sizeof(running_columns) / sizeof(*running_columns));
	for (size_t i = 0; i < n && i < limit; i++) {
		const struct rut_live_running *q = list[i];
		const struct rut_live_span *span = span_of(q);

		add_duration(&t, now_ns > q->begin_ns ? now_ns - q->begin_ns : 0);
		rut_table_addf(&t, "%d", (int)q->pid);
		rut_table_addf(&t, "%d", (int)q->tid);
		rut_table_addf(&t, "%s%s%s", q->verb, *q->verb ? " " : "", q->path);
		if (span)
			rut_table_addf(&t, "%s %s", r->layers[span->layer], span->detail);
		else
			rut_table_add(&t, "-");
	}
	rut_table_render(&t, out, width);
	rut_table_fini(&t);
}

/* ---- JSON ---- */

static void json_head(struct rut_buf *out, const char *type, uint64_t interval, bool final)
{
	rut_jsonl_begin(out);
	rut_jsonl_str(out, "type", type);
	rut_jsonl_u64(out, "interval", interval);
	rut_jsonl_bool(out, "final", final);
}

static void json_route(const struct rut_live_requests *r, const struct rut_live_route *route,
		       struct rut_buf *out)
{
	rut_jsonl_str(out, "route", route->name);
	rut_jsonl_str(out, "kind", route->kind);
	rut_jsonl_u64(out, "count", route->count);
	rut_jsonl_u64(out, "errors", route->errors);
	rut_jsonl_u64(out, "p50_ns", rut_cli_live_route_quantile(route, 0.5));
	rut_jsonl_u64(out, "p95_ns", rut_cli_live_route_quantile(route, 0.95));
	rut_jsonl_u64(out, "p99_ns", rut_cli_live_route_quantile(route, 0.99));
	rut_jsonl_u64(out, "max_ns", (uint64_t)route->stat.max);
	rut_jsonl_u64(out, "sum_ns", (uint64_t)route->stat.sum);
	rut_jsonl_array_open(out, "layers");
	for (size_t i = 0; i < r->nlayers; i++) {
		if (!route->layer_ns[i])
			continue;
		rut_jsonl_begin(out);
		rut_jsonl_str(out, "layer", r->layers[i]);
		rut_jsonl_u64(out, "ns", route->layer_ns[i]);
		rut_jsonl_close(out);
	}
	rut_jsonl_array_close(out);
	rut_jsonl_end(out);
}

static void json_running(const struct rut_live_requests *r, const struct rut_live_running *q,
			 uint64_t now_ns, struct rut_buf *out)
{
	const struct rut_live_span *span = span_of(q);

	rut_jsonl_u64(out, "pid", (uint64_t)q->pid);
	rut_jsonl_u64(out, "tid", (uint64_t)q->tid);
	rut_jsonl_u64(out, "fiber", q->fiber);
	rut_jsonl_u64(out, "id", q->id);
	rut_jsonl_str(out, "kind", q->kind);
	rut_jsonl_str(out, "verb", q->verb);
	rut_jsonl_str(out, "path", q->path);
	rut_jsonl_u64(out, "running_ns", now_ns > q->begin_ns ? now_ns - q->begin_ns : 0);
	rut_jsonl_str(out, "layer", span ? r->layers[span->layer] : NULL);
	rut_jsonl_str(out, "detail", span ? span->detail : NULL);
	rut_jsonl_end(out);
}

void rut_cli_live_requests_json(const struct rut_live_requests *r,
				const struct rut_live_requests_table *t, uint64_t now_ns,
				uint64_t interval, bool final, struct rut_buf *out)
{
	size_t n, running;
	_cleanup_free_ struct rut_live_route **routes =
		rut_cli_live_requests_routes(r, t->sort, t->reverse, t->filter, &n);
	_cleanup_free_ struct rut_live_running **list = rut_cli_live_requests_running(r, &running);

	for (size_t i = 0; routes && i < n && (!t->limit || i < t->limit); i++) {
		json_head(out, "route", interval, final);
		json_route(r, routes[i], out);
	}
	for (size_t i = 0; list && i < running; i++) {
		json_head(out, "running", interval, final);
		json_running(r, list[i], now_ns, out);
	}
}
