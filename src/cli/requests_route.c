/* SPDX-License-Identifier: MIT */
#include "cli/requests_route.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "output/table.h"
#include "output/text.h"

const struct rut_live_route *rut_cli_live_route_find(const struct rut_live_requests *r,
						     const char *name)
{
	for (size_t i = 0; i < r->nroutes; i++)
		if (strcmp(r->routes[i]->name, name) == 0)
			return r->routes[i];
	return NULL;
}

static void add_duration(struct rut_table *t, uint64_t ns)
{
	char text[RUT_TEXT_DURATION_SIZE];

	rut_table_add(t, rut_text_duration(text, ns));
}

static void print_head(const struct rut_live_route *route, struct rut_buf *out)
{
	static const struct {
		const char *title;
		double quantile;
	} shown[] = {{"P50", 0.5}, {"P95", 0.95}, {"P99", 0.99}, {"MAX", 1}};
	char text[RUT_TEXT_DURATION_SIZE];

	rut_text_add(out, route->name);
	rut_buf_printf(out, "\n%" PRIu64 " requests, %" PRIu64 " errors, %.1f/s", route->count,
		       route->errors, route->per_second);
	for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++)
		rut_buf_printf(out, "  %s %s", shown[i].title,
			       rut_text_duration(text, shown[i].quantile < 1
							       ? rut_cli_live_route_quantile(
									 route, shown[i].quantile)
							       : (uint64_t)route->stat.max));
	rut_buf_putc(out, '\n');
}

static void add_layer(struct rut_table *t, const struct rut_live_route *route, const char *name,
		      uint64_t ns)
{
	rut_table_add(t, name);
	add_duration(t, ns);
	rut_table_addf(t, "%.1f %%", 100 * (double)ns / (double)route->stat.sum);
	add_duration(t, ns / route->count);
}

/* The parts add up to the time of all its requests. */
static void print_layers(const struct rut_live_requests *r, const struct rut_live_route *route,
			 size_t width, struct rut_buf *out)
{
	static const struct rut_table_column columns[] = {
		{"LAYER", .left = true}, {"TIME"}, {"SHARE"}, {"EACH"}};
	uint64_t rest = (uint64_t)route->stat.sum;
	struct rut_table t;

	if (!route->count || !rest)
		return;
	rut_table_init(&t, columns, sizeof(columns) / sizeof(*columns));
	for (size_t i = 0; i < r->nlayers; i++) {
		if (!route->layer_ns[i])
			continue;
		add_layer(&t, route, r->layers[i], route->layer_ns[i]);
		rest -= route->layer_ns[i] < rest ? route->layer_ns[i] : rest;
	}
	add_layer(&t, route, "(other)", rest);
	rut_buf_putc(out, '\n');
	rut_table_render(&t, out, width);
	rut_table_fini(&t);
}

static int compare(const void *a, const void *b)
{
	const struct rut_live_detail *x = a, *y = b;

	return x->ns != y->ns ? (x->ns < y->ns ? 1 : -1) : strcmp(x->text, y->text);
}

static void print_details(const struct rut_live_requests *r, const struct rut_live_route *route,
			  size_t width, struct rut_buf *out)
{
	static const struct rut_table_column columns[] = {
		{"COUNT"},
		{"EACH REQ"},
		{"TIME"},
		{"MEAN"},
		{"MAX"},
		{"LAYER", .left = true},
		{"DETAIL", .min_width = 16, .grow = true, .left = true}};
	struct rut_live_detail *sorted;
	size_t n = route->details.count;
	struct rut_table t;

	sorted = n ? malloc(n * sizeof(*sorted)) : NULL;
	if (!sorted)
		return;
	memcpy(sorted, route->details.items, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare);
	rut_table_init(&t, columns, sizeof(columns) / sizeof(*columns));
	for (size_t i = 0; i < n; i++) {
		const struct rut_live_detail *d = &sorted[i];

		rut_table_addf(&t, "%" PRIu64, d->count);
		rut_table_addf(&t, "%.1f", (double)d->count / (double)route->count);
		add_duration(&t, d->ns);
		add_duration(&t, d->ns / d->count);
		add_duration(&t, d->max_ns);
		rut_table_add(&t, rut_cli_live_requests_layer(r, d));
		rut_table_add(&t, d->text);
	}
	free(sorted);
	rut_buf_putc(out, '\n');
	rut_table_render(&t, out, width);
	rut_table_fini(&t);
}

static void print_slowest(const struct rut_live_requests *r, const struct rut_live_route *route,
			  size_t width, struct rut_buf *out)
{
	static const struct rut_table_column columns[] = {
		{"SLOWEST"},
		{"REQUEST", .min_width = 16, .left = true},
		{"MOST OF IT", .min_width = 16, .grow = true, .left = true}};
	struct rut_table t;

	rut_table_init(&t, columns, sizeof(columns) / sizeof(*columns));
	for (size_t i = 0; i < RUT_LIVE_REQUESTS_SLOWEST && route->slowest[i].ns; i++) {
		const struct rut_live_slow *s = &route->slowest[i];
		char text[RUT_TEXT_DURATION_SIZE];

		add_duration(&t, s->ns);
		rut_table_addf(&t, "%s%s%s", s->verb, *s->verb ? " " : "", s->path);
		if (s->most.count)
			rut_table_addf(&t, "%s in %" PRIu64 " x %s %s",
				       rut_text_duration(text, s->most.ns), s->most.count,
				       rut_cli_live_requests_layer(r, &s->most), s->most.text);
		else
			rut_table_add(&t, "-");
	}
	rut_buf_putc(out, '\n');
	rut_table_render(&t, out, width);
	rut_table_fini(&t);
}

void rut_cli_live_route_print(const struct rut_live_requests *r, const struct rut_live_route *route,
			      size_t width, struct rut_buf *out)
{
	print_head(route, out);
	print_layers(r, route, width, out);
	print_details(r, route, width, out);
	print_slowest(r, route, width, out);
}
