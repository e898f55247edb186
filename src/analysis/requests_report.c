/* SPDX-License-Identifier: MIT */
/* The tables of `requests`, and their text and JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/an_requests.h"
#include "analysis/an_ruby.h"
#include "analysis/explain.h"
#include "analysis/fmt.h"
#include "analysis/requests_json.h"

/* ---- Tables ---- */

#define FIXED 9 /* columns before those of the places */

static const struct rut_lami_column route_columns[] = {
	{"route", "Route", RUT_LAMI_STRING, NULL},
	{"count", "Requests", RUT_LAMI_NUMBER, "requests"},
	{"errors", "Errors", RUT_LAMI_NUMBER, "requests"},
	{"running", "Have not ended", RUT_LAMI_NUMBER, "requests"},
	{"p50", "Median", RUT_LAMI_DURATION, NULL},
	{"p95", "95th percentile", RUT_LAMI_DURATION, NULL},
	{"p99", "99th percentile", RUT_LAMI_DURATION, NULL},
	{"max", "Maximum", RUT_LAMI_DURATION, NULL},
	{"total", "Total", RUT_LAMI_DURATION, NULL},
#define PLACES                                                                                     \
	{"ruby", "Running Ruby", RUT_LAMI_DURATION, NULL},                                         \
		{"system", "Running in the kernel", RUT_LAMI_DURATION, NULL},                      \
		{"gc", "Collecting garbage", RUT_LAMI_DURATION, NULL},                             \
		{"interrupts", "Interrupts", RUT_LAMI_DURATION, NULL},                             \
		{"gvl", "GVL wait", RUT_LAMI_DURATION, NULL},                                      \
		{"run-queue", "Run-queue wait", RUT_LAMI_DURATION, NULL},                          \
		{"throttled", "Kept from running", RUT_LAMI_DURATION, NULL},                       \
		{"disk", "Disk wait", RUT_LAMI_DURATION, NULL},                                    \
		{"network", "Network wait", RUT_LAMI_DURATION, NULL},                              \
		{"pipe", "Pipe wait", RUT_LAMI_DURATION, NULL},                                    \
		{"lock", "Lock wait", RUT_LAMI_DURATION, NULL},                                    \
		{"sleep", "Sleep", RUT_LAMI_DURATION, NULL},                                       \
		{"child", "Wait for a child", RUT_LAMI_DURATION, NULL},                            \
		{"page-fault", "Page fault", RUT_LAMI_DURATION, NULL},                             \
		{"stopped", "Stopped", RUT_LAMI_DURATION, NULL},                                   \
		{"fiber", "Other fibers", RUT_LAMI_DURATION, NULL},                                \
		{"other", "Other waits", RUT_LAMI_DURATION, NULL},                                 \
	{                                                                                          \
		"unknown", "Unknown", RUT_LAMI_DURATION, NULL                                      \
	}
	PLACES,
};
static const struct rut_lami_class route_class =
	RUT_LAMI_CLASS("requests", "Requests by route", route_columns);
_Static_assert(sizeof(route_columns) / sizeof(*route_columns) == FIXED + RUT_PLACES,
	       "a column for each place");

static const struct rut_lami_column layer_columns[] = {
	{"route", "Route", RUT_LAMI_STRING, NULL},
	{"layer", "Layer", RUT_LAMI_STRING, NULL},
	{"spans", "Spans", RUT_LAMI_NUMBER, "spans"},
	{"ruby", "Running Ruby", RUT_LAMI_DURATION, NULL},
	{"total", "All time in it", RUT_LAMI_DURATION, NULL},
};
static const struct rut_lami_class layer_class =
	RUT_LAMI_CLASS("request-layers", "Time of requests by layer", layer_columns);

static const struct rut_lami_column slow_columns[] = {
	{"range", "Time range", RUT_LAMI_TIME_RANGE, NULL},
	{"route", "Route", RUT_LAMI_STRING, NULL},
	{"path", "Path", RUT_LAMI_STRING, NULL},
	{"process", "Process", RUT_LAMI_PROCESS, NULL},
	{"duration", "Duration", RUT_LAMI_DURATION, NULL},
	{"status", "Status", RUT_LAMI_NUMBER, NULL},
	{"error", "Error", RUT_LAMI_STRING, NULL},
	{"running", "Has not ended", RUT_LAMI_BOOL, NULL},
	{"trace", "traceparent", RUT_LAMI_STRING, NULL},
	{"request-id", "X-Request-Id", RUT_LAMI_STRING, NULL},
	{"cause", "Cause", RUT_LAMI_STRING, NULL},
	{"explanation", "Explanation", RUT_LAMI_STRING, NULL},
	PLACES,
};
static const struct rut_lami_class slow_class =
	RUT_LAMI_CLASS("slow-requests", "Slowest requests", slow_columns);

static int by_total(const void *a, const void *b)
{
	int64_t x = ((const struct rut_requests_route *)a)->each.sum,
		y = ((const struct rut_requests_route *)b)->each.sum;

	return x > y ? -1 : x < y;
}

static int64_t quantile_ns(const struct rut_stat *s, double q)
{
	double ns = s->hist && s->count ? rut_an_hist_quantile(s->hist, q) : 0;

	/* A bucket may end above the largest value in it. */
	return ns > (double)s->max ? s->max : (int64_t)ns;
}

static struct rut_result *route_table(const struct rut_requests_instance *rq, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&route_class, rq->base.begin_ns, end_ns, NULL);
	struct rut_requests_route **list =
		(struct rut_requests_route **)rut_an_ordered_sorted(&rq->routes, by_total);
	static const double quantiles[] = {0.5, 0.95, 0.99};

	for (size_t i = 0; t && list && i < rq->routes.n; i++) {
		const struct rut_requests_route *r = list[i];

		rut_an_result_text(t, RUT_LAMI_STRING, r->name);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)r->each.count);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)r->errors);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)r->running);
		for (int k = 0; k < 3; k++)
			rut_an_result_int(t, RUT_LAMI_DURATION,
					  quantile_ns(&r->each, quantiles[k]));
		rut_an_result_int(t, RUT_LAMI_DURATION, r->each.max);
		rut_an_result_int(t, RUT_LAMI_DURATION, r->each.sum);
		for (int p = 0; p < RUT_PLACES; p++)
			rut_an_result_int(t, RUT_LAMI_DURATION, r->ns[p]);
	}
	free(list);
	return t;
}

/* A layer whose name came after the request is the one of that name. */
static void name_layers(struct rut_requests_instance *rq)
{
	for (size_t i = 0; i < rq->routes.n; i++) {
		struct rut_requests_route *r = rq->routes.items[i];

		for (uint8_t k = 1; k < r->n_layers; k++) {
			struct rut_request_layer *l = &r->layers[k];

			if (l->named_by)
				l->name = l->named_by->name;
			for (uint8_t j = 1; j < k; j++) {
				if (r->layers[j].name != l->name)
					continue;
				r->layers[j].ruby_ns += l->ruby_ns;
				r->layers[j].total_ns += l->total_ns;
				r->layers[j].spans += l->spans;
				*l = r->layers[--r->n_layers];
				k--;
				break;
			}
		}
	}
}

static struct rut_result *layer_table(const struct rut_requests_instance *rq, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&layer_class, rq->base.begin_ns, end_ns, NULL);
	struct rut_requests_route **list =
		(struct rut_requests_route **)rut_an_ordered_sorted(&rq->routes, by_total);

	for (size_t i = 0; t && list && i < rq->routes.n; i++) {
		const struct rut_requests_route *r = list[i];

		for (uint8_t k = 0; k < r->n_layers; k++) {
			const struct rut_request_layer *l = &r->layers[k];

			rut_an_result_text(t, RUT_LAMI_STRING, r->name);
			rut_an_result_text(t, RUT_LAMI_STRING, *l->name ? l->name : "application");
			rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)l->spans);
			rut_an_result_int(t, RUT_LAMI_DURATION, l->ruby_ns);
			rut_an_result_int(t, RUT_LAMI_DURATION, l->total_ns);
		}
	}
	free(list);
	return t;
}

static struct rut_result *slow_table(const struct rut_requests_instance *rq, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&slow_class, rq->base.begin_ns, end_ns, NULL);
	char name[320];

	for (size_t i = 0; t && i < rq->n; i++) {
		const struct rut_request *r = &rq->slowest[i];

		rut_an_request_name(r, name, sizeof(name));
		rut_an_result_range(t, r->begin_ns, r->end_ns);
		rut_an_result_text(t, RUT_LAMI_STRING, name);
		rut_an_result_text(t, RUT_LAMI_STRING, r->path);
		rut_an_result_process(t, r->comm, r->pid, r->tid);
		rut_an_result_int(t, RUT_LAMI_DURATION, r->end_ns - r->begin_ns);
		rut_an_result_int(t, RUT_LAMI_NUMBER, r->status);
		rut_an_result_text(t, RUT_LAMI_STRING, r->error);
		rut_an_result_bool(t, r->running);
		rut_an_result_text(t, RUT_LAMI_STRING, r->trace);
		rut_an_result_text(t, RUT_LAMI_STRING, r->request_id);
		rut_an_result_text(t, RUT_LAMI_STRING, r->explained ? r->explained->cause : "");
		rut_an_result_text(t, RUT_LAMI_STRING, r->explained ? r->explained->sentence : "");
		for (int p = 0; p < RUT_PLACES; p++)
			rut_an_result_int(t, RUT_LAMI_DURATION, r->ns[p]);
	}
	return t;
}

/* ---- Text ---- */

/* What runs in a trace without Ruby's events need not be Ruby. */
static const char *place_name(bool ruby, enum rut_place p)
{
	return p == RUT_PLACE_RUBY && !ruby ? "running" : rut_an_place_name(p);
}

/* "network 61.2 %, ruby 30.1 %": the largest first; parts below 0.1 % are left out. */
static void print_shares(bool ruby, struct rut_buf *out, const int64_t *ns)
{
	int64_t sum = 0;
	bool done[RUT_PLACES] = {false};
	const char *comma = "";

	for (int p = 0; p < RUT_PLACES; p++)
		sum += ns[p];
	for (;;) {
		int best = -1;

		for (int p = 0; p < RUT_PLACES; p++)
			if (!done[p] && ns[p] * 1000 >= sum && ns[p] &&
			    (best < 0 || ns[p] > ns[best]))
				best = p;
		if (best < 0)
			return;
		done[best] = true;
		rut_buf_printf(out, "%s%s %.1f %%", comma, place_name(ruby, (enum rut_place)best),
			       100.0 * (double)ns[best] / (double)sum);
		comma = ", ";
	}
}

static void row_places(const struct rut_cell *cells, int64_t *ns)
{
	for (int p = 0; p < RUT_PLACES; p++)
		ns[p] = cells[p].i;
}

static void print_each(bool ruby, const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<36} {:>8} {:>6} {:>9} {:>9} {:>9} {:>9}  ";
	char count[24], errors[24], d[4][32];
	int64_t ns[RUT_PLACES];

	rut_buf_puts(out, "Requests by route\n");
	rut_an_fmt_line(out, line, "Route", "Count", "Errors", "p50", "p95", "p99", "Max");
	rut_buf_puts(out, "Where the time went\n");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(count, sizeof(count), "%lld", (long long)row[1].i);
		snprintf(errors, sizeof(errors), "%lld", (long long)row[2].i);
		for (int k = 0; k < 4; k++)
			rut_an_ruby_duration(d[k], sizeof(d[k]), row[4 + k].i);
		rut_an_fmt_line(out, line, row[0].str, count, errors, d[0], d[1], d[2], d[3]);
		row_places(row + FIXED, ns);
		print_shares(ruby, out, ns);
		if (row[3].i)
			rut_buf_printf(out, "; %lld running", (long long)row[3].i);
		rut_buf_puts(out, "\n");
	}
}

static void print_routes(const struct rut_result *t, struct rut_buf *out)
{
	print_each(true, t, out);
}

static void print_plain_routes(const struct rut_result *t, struct rut_buf *out)
{
	print_each(false, t, out);
}

static void print_layers(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<36} {:<12} {:>9} {:>12} {:>12}\n";
	char spans[24], d[2][32];

	rut_buf_puts(out, "\nTime by layer\n");
	rut_an_fmt_line(out, line, "Route", "Layer", "Spans", "In Ruby", "In all");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(spans, sizeof(spans), "%lld", (long long)row[2].i);
		for (int k = 0; k < 2; k++)
			rut_an_ruby_duration(d[k], sizeof(d[k]), row[3 + k].i);
		rut_an_fmt_line(out, line, row[0].str, row[1].str, spans, d[0], d[1]);
	}
}

static void print_slowest(const struct rut_requests_instance *rq, struct rut_buf *out)
{
	const struct rut_conf *conf = rq->base.run->conf;
	char name[320], d[32], when[64];

	rut_buf_puts(out, "\nSlowest requests\n");
	for (size_t i = 0; i < rq->n; i++) {
		const struct rut_request *r = &rq->slowest[i];

		rut_an_request_name(r, name, sizeof(name));
		rut_an_ruby_duration(d, sizeof(d), r->end_ns - r->begin_ns);
		rut_an_fmt_time(when, sizeof(when), r->begin_ns, conf->multi_day, conf->gmt);
		rut_buf_printf(out, "\n%s  %s", d, name);
		if (*r->path && *r->route)
			rut_buf_printf(out, "  (%s%s%s)", r->verb, *r->verb ? " " : "", r->path);
		rut_buf_printf(out, "\n  at %s, process %lld, thread %lld", when, (long long)r->pid,
			       (long long)r->tid);
		if (r->status)
			rut_buf_printf(out, ", status %lld", (long long)r->status);
		if (*r->error)
			rut_buf_printf(out, ", %s", r->error);
		rut_buf_printf(out, "%s\n  ", r->running ? ", has not ended" : "");
		if (r->explained)
			rut_buf_printf(out, "%s\n  ", r->explained->sentence);
		print_shares(rut_an_ruby_seen(&rq->base.run->engine->state), out, r->ns);
		rut_buf_puts(out, "\n");
		if (r->explained)
			rut_an_explain_print(r->explained, out);
	}
}

static bool begin_text(const struct rut_instance *inst, int64_t end_ns)
{
	const struct rut_requests *q = inst->run->priv;
	struct rut_run *run = inst->run;

	rut_an_run_print_range(run, inst->begin_ns, end_ns);
	if (q->seen)
		return true;
	if (run->conf->of_periods)
		rut_buf_printf(&run->out, "No period '%s' begins in the trace\n",
			       run->conf->request);
	else if (!rut_an_ruby_seen(&run->engine->state))
		rut_buf_puts(&run->out, "The trace has no Ruby events: 'rutile record --ruby "
					"TARGET:requests' records requests\n");
	else if (run->conf->request)
		rut_buf_printf(&run->out, "No call of '%s' is in the trace\n", run->conf->request);
	else
		rut_buf_puts(&run->out,
			     "The trace has no requests: record them with '--ruby "
			     "TARGET:requests', or name a recorded method with --request\n");
	return false;
}

static void print_json(const struct rut_requests_instance *rq, int64_t end_ns, struct rut_buf *out)
{
	struct rut_requests_route **list =
		(struct rut_requests_route **)rut_an_ordered_sorted(&rq->routes, by_total);

	for (size_t i = 0; list && i < rq->routes.n; i++) {
		const struct rut_requests_route *r = list[i];

		rut_buf_printf(out, "{\"type\": \"route\", \"begin_ns\": %lld, \"end_ns\": %lld, ",
			       (long long)rq->base.begin_ns, (long long)end_ns);
		rut_buf_puts(out, "\"route\": ");
		rut_an_json_str(out, r->name);
		rut_buf_printf(out,
			       ", \"count\": %llu, \"errors\": %llu, \"running\": %llu, "
			       "\"p50_ns\": %lld, \"p95_ns\": %lld, \"p99_ns\": %lld, "
			       "\"max_ns\": %lld, \"sum_ns\": %lld",
			       (unsigned long long)r->each.count, (unsigned long long)r->errors,
			       (unsigned long long)r->running,
			       (long long)quantile_ns(&r->each, 0.5),
			       (long long)quantile_ns(&r->each, 0.95),
			       (long long)quantile_ns(&r->each, 0.99), (long long)r->each.max,
			       (long long)r->each.sum);
		rut_an_requests_json_parts(out, "parts", r->ns);
		rut_an_requests_json_layers(out, r->layers, r->n_layers);
		rut_buf_puts(out, "}\n");
	}
	free(list);
	for (size_t i = 0; i < rq->n; i++)
		rut_an_requests_json_request(out, &rq->slowest[i]);
}

const struct rut_lami_class *const rut_an_requests_classes[] = {&route_class, &layer_class,
								&slow_class, NULL};

void rut_an_requests_report(struct rut_requests_instance *rq, int64_t end_ns)
{
	struct rut_run *run = rq->base.run;
	struct rut_requests *q = run->priv;
	bool text = !run->conf->mi;

	name_layers(rq);
	if (text && run->conf->json) {
		print_json(rq, end_ns, &run->out);
		return;
	}
	if (text && !begin_text(&rq->base, end_ns))
		return;
	rut_an_run_take(run, route_table(rq, end_ns),
			rut_an_ruby_seen(&run->engine->state) ? print_routes : print_plain_routes);
	if (q->has_spans)
		rut_an_run_take(run, layer_table(rq, end_ns), print_layers);
	if (!rq->most)
		return;
	if (text)
		print_slowest(rq, &run->out);
	else
		rut_an_results_take(&run->results, slow_table(rq, end_ns));
}
