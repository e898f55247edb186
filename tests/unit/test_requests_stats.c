/* SPDX-License-Identifier: MIT */
/* What events of live requests add up to. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "cli/requests_print.h"
#include "cli/requests_route.h"
#include "cli/requests_stats.h"

#define MS 1000000ull

static struct rut_ruby_request event(enum rut_ruby_request_what what, pid_t pid, uint32_t fiber,
				     uint64_t ms)
{
	return (struct rut_ruby_request){.what = what,
					 .pid = pid,
					 .tid = pid + 1,
					 .fiber = fiber,
					 .id = (uint64_t)pid << 32 | fiber,
					 .time_ns = ms * MS,
					 .bytes = -1,
					 .kind = "http",
					 .verb = "GET",
					 .path = "/items/17",
					 .route = "",
					 .traceparent = "",
					 .request_id = "",
					 .error = "",
					 .detail = ""};
}

static void add(struct rut_live_requests *r, struct rut_ruby_request ev)
{
	rut_cli_live_requests_add(r, &ev);
}

static void span(struct rut_live_requests *r, bool begin, uint64_t ms, const char *layer,
		 uint16_t depth)
{
	struct rut_ruby_request ev =
		event(begin ? RUT_RUBY_SPAN_BEGIN : RUT_RUBY_SPAN_END, 1, 1, ms);

	ev.kind = layer;
	ev.depth = depth;
	ev.detail = begin ? "select ?" : "";
	rut_cli_live_requests_add(r, &ev);
}

static void span_of(struct rut_live_requests *r, uint32_t fiber, bool begin, uint64_t ms,
		    const char *layer)
{
	struct rut_ruby_request ev =
		event(begin ? RUT_RUBY_SPAN_BEGIN : RUT_RUBY_SPAN_END, 1, fiber, ms);

	ev.kind = layer;
	ev.detail = begin ? "select ?" : "";
	rut_cli_live_requests_add(r, &ev);
}

static void time_belongs_to_the_innermost_layer(void **state)
{
	struct rut_live_requests r;
	struct rut_live_running **list;
	struct rut_live_route **routes;
	size_t n;

	(void)state;
	rut_cli_live_requests_init(&r, 0);
	add(&r, event(RUT_RUBY_REQUEST_BEGIN, 1, 1, 100));
	span(&r, true, 110, "template", 0);
	span(&r, true, 120, "sql", 1);
	list = rut_cli_live_requests_running(&r, &n);
	assert_int_equal(n, 1);
	assert_int_equal(list[0]->depth, 2);
	assert_string_equal(list[0]->spans[1].detail, "select ?");
	free(list);
	span(&r, false, 150, "sql", 1);
	/* The end of this one is lost: the next begin is as deep. */
	span(&r, true, 155, "sql", 1);
	span(&r, true, 160, "cache", 1);
	span(&r, false, 161, "cache", 1);
	span(&r, false, 170, "template", 0);
	add(&r, event(RUT_RUBY_REQUEST_END, 1, 1, 200));
	assert_int_equal(r.count, 1);
	assert_int_equal(r.nrunning, 0);
	routes = rut_cli_live_requests_routes(&r, RUT_LIVE_REQUESTS_BY_TIME, false, NULL, &n);
	assert_int_equal(n, 1);
	assert_string_equal(routes[0]->name, "GET /items/:id");
	assert_int_equal(routes[0]->stat.max, 100 * MS);
	assert_string_equal(r.layers[0], "template");
	/* 110-120, 150-155, 161-170; 120-150, 155-160; 160-161 */
	assert_int_equal(routes[0]->layer_ns[0], 24 * MS);
	assert_int_equal(routes[0]->layer_ns[1], 35 * MS);
	assert_int_equal(routes[0]->layer_ns[2], 1 * MS);
	free(routes);
	rut_cli_live_requests_fini(&r);
}

/* What is on the page of a route. */
static void a_route_knows_its_queries_and_slowest_requests(void **state)
{
	struct rut_live_requests r;
	const struct rut_live_route *route;
	struct rut_buf b = RUT_BUF_INIT;

	(void)state;
	rut_cli_live_requests_init(&r, 0);
	for (uint32_t i = 0; i < 7; i++) {
		uint64_t at = 1000 * i;

		add(&r, event(RUT_RUBY_REQUEST_BEGIN, 1, i, at));
		for (uint32_t k = 0; k <= i; k++) {
			span_of(&r, i, true, at + 10 * k, "sql");
			span_of(&r, i, false, at + 10 * k + 2 + k, "sql");
		}
		add(&r, event(RUT_RUBY_REQUEST_END, 1, i, at + 100 + i));
	}
	assert_null(rut_cli_live_route_find(&r, "GET /"));
	route = rut_cli_live_route_find(&r, "GET /items/:id");
	assert_non_null(route);
	assert_int_equal(route->details.count, 1);
	assert_int_equal(route->details.items[0].count, 28);
	assert_int_equal(route->details.items[0].max_ns, 8 * MS);
	/* 28 times 2 ms, and 0 + ... + i of each request */
	assert_int_equal(route->details.items[0].ns, (56 + 0 + 1 + 3 + 6 + 10 + 15 + 21) * MS);
	assert_int_equal(route->slowest[0].ns, 106 * MS);
	assert_int_equal(route->slowest[4].ns, 102 * MS);
	assert_int_equal(route->slowest[0].most.count, 7);
	rut_cli_live_route_print(&r, route, 0, &b);
	assert_non_null(strstr(b.data, "7 requests, 0 errors"));
	assert_non_null(strstr(b.data, "\n   28      4.0 112ms 4.00ms 8.00ms sql   select ?\n"));
	assert_non_null(strstr(b.data, "\n  106ms GET /items/17 35.0ms in 7 x sql select ?\n"));
	rut_buf_fini(&b);
	rut_cli_live_requests_fini(&r);
}

/* A process may do ever new things: memory is bounded, and sums stay right. */
static void details_are_bounded(void **state)
{
	struct rut_live_requests r;
	const struct rut_live_route *route;
	uint64_t sum = 0;

	(void)state;
	rut_cli_live_requests_init(&r, 0);
	add(&r, event(RUT_RUBY_REQUEST_BEGIN, 1, 1, 0));
	for (uint32_t i = 0; i < 500; i++) {
		struct rut_ruby_request ev = event(RUT_RUBY_SPAN_BEGIN, 1, 1, i);
		char text[32];

		snprintf(text, sizeof(text), "select %u", i);
		ev.kind = "sql";
		ev.detail = text;
		rut_cli_live_requests_add(&r, &ev);
		span_of(&r, 1, false, i + 1, "sql");
	}
	add(&r, event(RUT_RUBY_REQUEST_END, 1, 1, 1000));
	route = rut_cli_live_route_find(&r, "GET /items/:id");
	assert_int_equal(route->details.count, RUT_LIVE_REQUESTS_DETAILS);
	assert_string_equal(route->details.items[RUT_LIVE_REQUESTS_DETAILS - 1].text, "(others)");
	assert_string_equal(rut_cli_live_requests_layer(
				    &r, &route->details.items[RUT_LIVE_REQUESTS_DETAILS - 1]),
			    "-");
	for (size_t i = 0; i < route->details.count; i++)
		sum += route->details.items[i].count;
	assert_int_equal(sum, 500);
	rut_cli_live_requests_fini(&r);
}

static void errors_and_routes_are_counted(void **state)
{
	struct rut_live_requests r;
	struct rut_ruby_request ev;
	struct rut_live_route **routes;
	size_t n;

	(void)state;
	rut_cli_live_requests_init(&r, 0);
	for (uint32_t i = 0; i < 100; i++) {
		add(&r, event(RUT_RUBY_REQUEST_BEGIN, 7, i, i));
		ev = event(RUT_RUBY_REQUEST_END, 7, i, i + 1 + i);
		ev.route = i % 2 ? "ItemsController#show" : "";
		ev.status = i % 10 ? 404 : 500;
		ev.error = i == 55 ? "ArgumentError" : "";
		rut_cli_live_requests_add(&r, &ev);
	}
	assert_int_equal(r.count, 100);
	assert_int_equal(r.errors, 11);
	routes = rut_cli_live_requests_routes(&r, RUT_LIVE_REQUESTS_BY_ERRORS, false, NULL, &n);
	assert_int_equal(n, 2);
	assert_string_equal(routes[0]->name, "GET /items/:id");
	assert_int_equal(routes[0]->errors, 10);
	assert_int_equal(routes[1]->errors, 1);
	/* Durations are 2, 4 ... 100 ms: percentiles are at most 1.6 % off. */
	assert_in_range(rut_cli_live_route_quantile(routes[1], 0.5), 49 * MS, 53 * MS);
	assert_int_equal(routes[1]->stat.max, 100 * MS);
	free(routes);
	routes = rut_cli_live_requests_routes(&r, RUT_LIVE_REQUESTS_BY_ROUTE, true, "Items", &n);
	assert_int_equal(n, 1);
	free(routes);
	rut_cli_live_requests_rate(&r, 2000 * MS, false);
	assert_true(r.per_second == 50.0);
	rut_cli_live_requests_rate(&r, 4000 * MS, false);
	assert_true(r.per_second == 0.0);
	rut_cli_live_requests_rate(&r, 4000 * MS, true);
	assert_true(r.per_second == 25.0);
	rut_cli_live_requests_reset(&r, 3000 * MS);
	assert_int_equal(r.count + r.nroutes, 0);
	rut_cli_live_requests_fini(&r);
}

static void what_has_no_begin_or_whose_process_ends_is_dropped(void **state)
{
	struct rut_live_requests r;

	(void)state;
	rut_cli_live_requests_init(&r, 0);
	add(&r, event(RUT_RUBY_REQUEST_END, 1, 1, 5));
	span(&r, true, 6, "sql", 0);
	assert_int_equal(r.count + r.nrunning, 0);
	for (uint32_t i = 0; i < 50; i++) {
		add(&r, event(RUT_RUBY_REQUEST_BEGIN, 1, i, 10));
		add(&r, event(RUT_RUBY_REQUEST_BEGIN, 2, i, 10));
	}
	add(&r, event(RUT_RUBY_REQUESTS_OVER, 1, 0, 0));
	assert_int_equal(r.nrunning, 50);
	/* Of the same fiber: the end before it was lost. */
	add(&r, event(RUT_RUBY_REQUEST_BEGIN, 2, 7, 11));
	assert_int_equal(r.nrunning, 50);
	rut_cli_live_requests_fini(&r);
}

static void paths_without_a_route_lose_their_identifiers(void **state)
{
	static const char *const cases[][3] = {
		{"GET", "/items/17", "GET /items/:id"},
		{"GET", "/", "GET /"},
		{"", "HardJob", "HardJob"},
		{"PUT", "/u/0c9d8a52-5f0e-4b6e-9a53-2f0a1c7b4d11/x/", "PUT /u/:id/x/"},
		{"GET", "/v2/deadbeef01/face", "GET /v2/:id/face"},
		{"GET", "/feed/abc", "GET /feed/abc"},
		{"GET", "", "GET "},
	};
	char name[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		rut_cli_live_requests_plain_route(name, sizeof(name), cases[i][0], cases[i][1]);
		assert_string_equal(name, cases[i][2]);
	}
	rut_cli_live_requests_plain_route(name, 8, "GET", "/a/very/long/1/path");
	assert_true(strlen(name) < 8);
}

static void many_routes_are_one_row(void **state)
{
	struct rut_live_requests r;
	char path[32];

	(void)state;
	rut_cli_live_requests_init(&r, 0);
	for (uint32_t i = 0; i < 3000; i++) {
		struct rut_ruby_request ev = event(RUT_RUBY_REQUEST_BEGIN, 1, 1, i);

		snprintf(path, sizeof(path), "/page-%uz", i);
		ev.path = path;
		rut_cli_live_requests_add(&r, &ev);
		ev.what = RUT_RUBY_REQUEST_END;
		rut_cli_live_requests_add(&r, &ev);
	}
	assert_int_equal(r.count, 3000);
	assert_int_equal(r.nroutes, RUT_LIVE_REQUESTS_ROUTES);
	assert_string_equal(r.routes[r.nroutes - 1]->name, "(other)");
	assert_int_equal(r.routes[r.nroutes - 1]->count, 3000 - (RUT_LIVE_REQUESTS_ROUTES - 1));
	rut_cli_live_requests_fini(&r);
}

static void bars_have_a_letter_for_each_twentieth(void **state)
{
	struct rut_live_requests_table t = {.sort = RUT_LIVE_REQUESTS_BY_TIME};
	struct rut_live_requests r;
	struct rut_buf out = RUT_BUF_INIT;

	(void)state;
	rut_cli_live_requests_init(&r, 0);
	add(&r, event(RUT_RUBY_REQUEST_BEGIN, 1, 1, 0));
	span(&r, true, 0, "sql", 0);
	span(&r, false, 50, "sql", 0);
	span(&r, true, 60, "search", 0);
	span(&r, false, 85, "search", 0);
	add(&r, event(RUT_RUBY_REQUEST_END, 1, 1, 100));
	assert_int_equal(rut_cli_live_requests_print_routes(&r, &t, &out), 1);
	assert_non_null(strstr(out.data, " SSSSSSSSSSEEEEE..... "));
	rut_buf_clear(&out);
	rut_cli_live_requests_print_legend(&r, &out);
	assert_string_equal(out.data, "S sql  E search  . other");
	rut_buf_fini(&out);
	rut_cli_live_requests_fini(&r);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_belongs_to_the_innermost_layer),
		cmocka_unit_test(a_route_knows_its_queries_and_slowest_requests),
		cmocka_unit_test(details_are_bounded),
		cmocka_unit_test(errors_and_routes_are_counted),
		cmocka_unit_test(what_has_no_begin_or_whose_process_ends_is_dropped),
		cmocka_unit_test(paths_without_a_route_lose_their_identifiers),
		cmocka_unit_test(many_routes_are_one_row),
		cmocka_unit_test(bars_have_a_letter_for_each_twentieth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
