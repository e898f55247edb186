/* SPDX-License-Identifier: MIT */
#include "cli/requests_stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OTHERS "(other)"

void rut_cli_live_requests_init(struct rut_live_requests *r, uint64_t now_ns)
{
	*r = (struct rut_live_requests){.begin_ns = now_ns, .rated_ns = now_ns};
}

static void forget_routes(struct rut_live_requests *r)
{
	for (size_t i = 0; i < r->nroutes; i++) {
		rut_an_stat_fini(&r->routes[i]->stat);
		free(r->routes[i]->details.items);
		free(r->routes[i]->name);
		free(r->routes[i]);
	}
	r->nroutes = 0;
	rut_strtab_fini(&r->names);
	r->names = (struct rut_strtab){0};
}

static void forget_running(struct rut_live_running *q)
{
	free(q->details.items);
	free(q);
}

void rut_cli_live_requests_fini(struct rut_live_requests *r)
{
	forget_routes(r);
	rut_map_each(&r->running, slot)
		forget_running(slot->value);
	rut_map_fini(&r->running);
}

void rut_cli_live_requests_reset(struct rut_live_requests *r, uint64_t now_ns)
{
	forget_routes(r);
	r->count = r->errors = r->rated = r->lost = 0;
	r->per_second = 0;
	r->begin_ns = r->rated_ns = now_ns;
}

/* ---- routes ---- */

static bool is_identifier(const char *s, size_t n)
{
	size_t digits = 0, hex = 0;

	for (size_t i = 0; i < n; i++) {
		digits += s[i] >= '0' && s[i] <= '9';
		hex += (s[i] >= 'a' && s[i] <= 'f') || (s[i] >= 'A' && s[i] <= 'F') || s[i] == '-';
	}
	return digits && (digits == n || (digits + hex == n && n >= 8));
}

void rut_cli_live_requests_plain_route(char *to, size_t size, const char *verb, const char *path)
{
	size_t at = (size_t)snprintf(to, size, "%s%s", verb, *verb ? " " : "");

	while (*path && at + 1 < size) {
		size_t n = strcspn(path, "/");

		if (n && is_identifier(path, n))
			at += (size_t)snprintf(to + at, size - at, ":id");
		else
			at += (size_t)snprintf(to + at, size - at, "%.*s", (int)n, path);
		path += n;
		if (*path && at + 1 < size) {
			to[at++] = *path++;
			to[at] = 0;
		}
	}
}

static struct rut_live_route *route_of(struct rut_live_requests *r, const char *name,
				       const char *kind)
{
	int64_t id = rut_strtab_find(&r->names, name, strlen(name));
	struct rut_live_route *route;

	if (id < 0 && r->nroutes >= RUT_LIVE_REQUESTS_ROUTES - 1) {
		name = OTHERS;
		id = rut_strtab_find(&r->names, name, strlen(name));
	}
	if (id < 0)
		id = rut_strtab_intern(&r->names, name, strlen(name));
	if (id >= 0 && (size_t)id < r->nroutes)
		return r->routes[id];
	route = id == (int64_t)r->nroutes ? calloc(1, sizeof(*route)) : NULL;
	if (route)
		route->name = strdup(name);
	if (!route || !route->name || rut_an_stat_init(&route->stat, RUT_STAT_HIST)) {
		if (route)
			free(route->name);
		free(route);
		r->failed = true;
		return NULL;
	}
	route->kind = kind;
	r->routes[r->nroutes++] = route;
	return route;
}

/* ---- what runs ---- */

static uint64_t key_of(const struct rut_ruby_request *ev)
{
	return ((uint64_t)ev->pid << 32 | ev->fiber) + 1;
}

const char *rut_cli_live_requests_layer(const struct rut_live_requests *r,
					const struct rut_live_detail *d)
{
	return d->layer < r->nlayers ? r->layers[d->layer] : "-";
}

static unsigned layer_of(struct rut_live_requests *r, const char *name)
{
	size_t i = 0;

	while (i < r->nlayers && strcmp(r->layers[i], name) != 0)
		i++;
	if (i < r->nlayers)
		return (unsigned)i;
	if (r->nlayers == RUT_LIVE_REQUESTS_LAYERS)
		return RUT_LIVE_REQUESTS_LAYERS - 1;
	i = r->nlayers++;
	r->layers[i] = i == RUT_LIVE_REQUESTS_LAYERS - 1 ? "other" : name;
	return (unsigned)i;
}

static void copy(char *to, size_t size, const char *from)
{
	size_t n = strlen(from);

	n = n < size - 1 ? n : size - 1;
	while (n && from[n] && ((unsigned char)from[n] & 0xc0) == 0x80)
		n--;
	memcpy(to, from, n);
	to[n] = 0;
}

/* ---- what it does ---- */

static struct rut_live_detail *find_detail(struct rut_live_details *d, unsigned layer,
					   const char *text)
{
	for (size_t i = 0; i < d->count; i++)
		if (d->items[i].layer == layer && strcmp(d->items[i].text, text) == 0)
			return &d->items[i];
	return NULL;
}

static struct rut_live_detail *detail_of(struct rut_live_details *d, unsigned layer,
					 const char *text)
{
	struct rut_live_detail *found = find_detail(d, layer, text);

	if (!found && d->count >= RUT_LIVE_REQUESTS_DETAILS - 1) {
		layer = RUT_LIVE_REQUESTS_LAYERS;
		text = "(others)";
		found = find_detail(d, layer, text);
	}
	if (found)
		return found;
	/* Doubles at each power of two. */
	if (!(d->count & (d->count - 1))) {
		size_t cap = d->count ? d->count * 2 : 1;
		struct rut_live_detail *more = reallocarray(d->items, cap, sizeof(*more));

		if (!more)
			return NULL;
		d->items = more;
	}
	d->items[d->count] = (struct rut_live_detail){.layer = layer};
	copy(d->items[d->count].text, sizeof(d->items[0].text), text);
	return &d->items[d->count++];
}

static void add_detail(struct rut_live_requests *r, struct rut_live_details *to,
		       const struct rut_live_detail *from)
{
	struct rut_live_detail *d = detail_of(to, from->layer, from->text);

	if (!d) {
		r->failed = true;
		return;
	}
	d->count += from->count;
	d->ns += from->ns;
	if (from->max_ns > d->max_ns)
		d->max_ns = from->max_ns;
}

static void add_slow(struct rut_live_route *route, const struct rut_live_running *q, uint64_t ns)
{
	struct rut_live_slow *s = route->slowest, slow = {.ns = ns};
	size_t at = RUT_LIVE_REQUESTS_SLOWEST;

	while (at && s[at - 1].ns < ns)
		at--;
	if (at == RUT_LIVE_REQUESTS_SLOWEST)
		return;
	memmove(&s[at + 1], &s[at], (RUT_LIVE_REQUESTS_SLOWEST - 1 - at) * sizeof(*s));
	copy(slow.verb, sizeof(slow.verb), q->verb);
	copy(slow.path, sizeof(slow.path), q->path);
	for (size_t i = 0; i < q->details.count; i++)
		if (q->details.items[i].ns > slow.most.ns)
			slow.most = q->details.items[i];
	s[at] = slow;
}

static void span_end(struct rut_live_requests *r, struct rut_live_running *q,
		     const struct rut_ruby_request *ev)
{
	if (q->depth > ev->depth && ev->depth < RUT_LIVE_REQUESTS_SPANS) {
		const struct rut_live_span *span = &q->spans[ev->depth];
		uint64_t ns = ev->time_ns > span->begin_ns ? ev->time_ns - span->begin_ns : 0;
		struct rut_live_detail d = {
			.layer = span->layer, .count = 1, .ns = ns, .max_ns = ns};

		copy(d.text, sizeof(d.text), span->detail);
		add_detail(r, &q->details, &d);
	}
	if (q->depth > ev->depth)
		q->depth = ev->depth;
}

/* The time since the last event is that of the innermost span. */
static void charge(struct rut_live_running *q, uint64_t now_ns)
{
	unsigned depth = q->depth < RUT_LIVE_REQUESTS_SPANS ? q->depth : RUT_LIVE_REQUESTS_SPANS;

	if (depth && now_ns > q->since_ns)
		q->layer_ns[q->spans[depth - 1].layer] += now_ns - q->since_ns;
	if (now_ns > q->since_ns)
		q->since_ns = now_ns;
}

static void begin(struct rut_live_requests *r, const struct rut_ruby_request *ev)
{
	struct rut_live_running *q = rut_map_get(&r->running, key_of(ev));

	if (!q) {
		q = calloc(1, sizeof(*q));
		if (!q || rut_map_put(&r->running, key_of(ev), q)) {
			free(q);
			r->failed = true;
			return;
		}
		r->nrunning++;
	}
	free(q->details.items); /* its end was lost */
	*q = (struct rut_live_running){.pid = ev->pid,
				       .tid = ev->tid,
				       .fiber = ev->fiber,
				       .id = ev->id,
				       .kind = ev->kind,
				       .begin_ns = ev->time_ns,
				       .since_ns = ev->time_ns};
	copy(q->verb, sizeof(q->verb), ev->verb);
	copy(q->path, sizeof(q->path), ev->path);
}

static void end(struct rut_live_requests *r, const struct rut_ruby_request *ev)
{
	struct rut_live_running *q = rut_map_get(&r->running, key_of(ev));
	char plain[256];
	struct rut_live_route *route;
	bool error = ev->status >= 500 || *ev->error;

	/* Its begin was lost, or the end of another one. */
	if (!q || q->id != ev->id)
		return;
	charge(q, ev->time_ns);
	rut_cli_live_requests_plain_route(plain, sizeof(plain), ev->verb, ev->path);
	route = route_of(r, *ev->route ? ev->route : plain, ev->kind);
	r->count++;
	r->errors += error;
	if (route) {
		route->count++;
		route->errors += error;
		rut_stat_add(&route->stat, (int64_t)(ev->time_ns - q->begin_ns));
		for (size_t i = 0; i < RUT_LIVE_REQUESTS_LAYERS; i++)
			route->layer_ns[i] += q->layer_ns[i];
		for (size_t i = 0; i < q->details.count; i++)
			add_detail(r, &route->details, &q->details.items[i]);
		add_slow(route, q, ev->time_ns - q->begin_ns);
	}
	forget_running(rut_map_remove(&r->running, key_of(ev)));
	r->nrunning--;
}

static void span_begin(struct rut_live_requests *r, const struct rut_ruby_request *ev)
{
	struct rut_live_running *q = rut_map_get(&r->running, key_of(ev));

	if (!q)
		return;
	charge(q, ev->time_ns);
	if (ev->depth < RUT_LIVE_REQUESTS_SPANS) {
		q->spans[ev->depth].layer = layer_of(r, ev->kind);
		q->spans[ev->depth].begin_ns = ev->time_ns;
		copy(q->spans[ev->depth].detail, sizeof(q->spans[0].detail), ev->detail);
	}
	q->depth = ev->depth + 1u;
}

static void over(struct rut_live_requests *r, pid_t pid)
{
	struct rut_live_running **gone;
	size_t n = 0;

	gone = calloc(r->nrunning + 1, sizeof(*gone));
	if (!gone)
		return;
	rut_map_each(&r->running, slot) {
		struct rut_live_running *q = slot->value;

		if (q->pid == pid)
			gone[n++] = q;
	}
	for (size_t i = 0; i < n; i++) {
		const struct rut_ruby_request ev = {.pid = pid, .fiber = gone[i]->fiber};

		forget_running(rut_map_remove(&r->running, key_of(&ev)));
		r->nrunning--;
	}
	free(gone);
}

void rut_cli_live_requests_add(struct rut_live_requests *r, const struct rut_ruby_request *ev)
{
	struct rut_live_running *q;

	switch (ev->what) {
	case RUT_RUBY_REQUEST_BEGIN:
		begin(r, ev);
		break;
	case RUT_RUBY_REQUEST_END:
		end(r, ev);
		break;
	case RUT_RUBY_SPAN_BEGIN:
		span_begin(r, ev);
		break;
	case RUT_RUBY_SPAN_END:
		q = rut_map_get(&r->running, key_of(ev));
		if (q)
			charge(q, ev->time_ns);
		if (q)
			span_end(r, q, ev);
		break;
	case RUT_RUBY_REQUESTS_LOST:
		r->lost += ev->lost;
		break;
	case RUT_RUBY_REQUESTS_OVER:
		over(r, ev->pid);
		break;
	}
}

void rut_cli_live_requests_rate(struct rut_live_requests *r, uint64_t now_ns, bool all)
{
	double seconds = (double)(now_ns - (all ? r->begin_ns : r->rated_ns)) / 1e9;

	if (seconds < 0.05)
		return;
	for (size_t i = 0; i < r->nroutes; i++) {
		struct rut_live_route *route = r->routes[i];

		route->per_second = (double)(route->count - (all ? 0 : route->rated)) / seconds;
		route->rated = route->count;
	}
	r->per_second = (double)(r->count - (all ? 0 : r->rated)) / seconds;
	r->rated = r->count;
	r->rated_ns = now_ns;
}

/* ---- lists ---- */

uint64_t rut_cli_live_route_quantile(const struct rut_live_route *route, double q)
{
	double v = route->stat.hist ? rut_an_hist_quantile(route->stat.hist, q) : 0;

	/* The histogram's bucket may end above the largest value. */
	return v > (double)route->stat.max ? (uint64_t)route->stat.max : (uint64_t)v;
}

static const struct {
	const char *name;
	double quantile;
} sorts[RUT_LIVE_REQUESTS_SORTS] = {
	[RUT_LIVE_REQUESTS_BY_TIME] = {"time", 0},     [RUT_LIVE_REQUESTS_BY_COUNT] = {"count", 0},
	[RUT_LIVE_REQUESTS_BY_ERRORS] = {"errors", 0}, [RUT_LIVE_REQUESTS_BY_P50] = {"p50", 0.5},
	[RUT_LIVE_REQUESTS_BY_P95] = {"p95", 0.95},    [RUT_LIVE_REQUESTS_BY_P99] = {"p99", 0.99},
	[RUT_LIVE_REQUESTS_BY_MAX] = {"max", 0},       [RUT_LIVE_REQUESTS_BY_RATE] = {"rate", 0},
	[RUT_LIVE_REQUESTS_BY_ROUTE] = {"route", 0},
};

const char *rut_cli_live_requests_sort_name(enum rut_live_requests_sort sort)
{
	return sorts[sort].name;
}

static double sort_value(const struct rut_live_route *route, enum rut_live_requests_sort sort)
{
	if (sorts[sort].quantile > 0)
		return (double)rut_cli_live_route_quantile(route, sorts[sort].quantile);
	switch (sort) {
	case RUT_LIVE_REQUESTS_BY_COUNT:
		return (double)route->count;
	case RUT_LIVE_REQUESTS_BY_ERRORS:
		return (double)route->errors;
	case RUT_LIVE_REQUESTS_BY_MAX:
		return (double)route->stat.max;
	case RUT_LIVE_REQUESTS_BY_RATE:
		return route->per_second;
	default:
		return (double)route->stat.sum;
	}
}

struct order {
	enum rut_live_requests_sort sort;
	bool reverse;
};

static int compare(const void *a, const void *b, void *arg)
{
	const struct rut_live_route *x = *(struct rut_live_route *const *)a;
	const struct rut_live_route *y = *(struct rut_live_route *const *)b;
	const struct order *o = arg;
	double d = o->sort == RUT_LIVE_REQUESTS_BY_ROUTE
			   ? 0
			   : sort_value(y, o->sort) - sort_value(x, o->sort);
	int rc = d > 0 ? 1 : d < 0 ? -1 : strcmp(x->name, y->name);

	return o->reverse ? -rc : rc;
}

struct rut_live_route **rut_cli_live_requests_routes(const struct rut_live_requests *r,
						     enum rut_live_requests_sort sort, bool reverse,
						     const char *filter, size_t *ret_count)
{
	struct rut_live_route **list = calloc(r->nroutes + 1, sizeof(struct rut_live_route *));
	struct order order = {sort, reverse};

	*ret_count = 0;
	for (size_t i = 0; list && i < r->nroutes; i++)
		if (!filter || !*filter || strstr(r->routes[i]->name, filter))
			list[(*ret_count)++] = r->routes[i];
	if (list && *ret_count)
		qsort_r(list, *ret_count, sizeof(*list), compare, &order);
	return list;
}

static int compare_running(const void *a, const void *b)
{
	const struct rut_live_running *x = *(struct rut_live_running *const *)a;
	const struct rut_live_running *y = *(struct rut_live_running *const *)b;

	return x->begin_ns != y->begin_ns ? (x->begin_ns > y->begin_ns ? 1 : -1)
					  : (x->id > y->id) - (x->id < y->id);
}

struct rut_live_running **rut_cli_live_requests_running(const struct rut_live_requests *r,
							size_t *ret_count)
{
	struct rut_live_running **list = calloc(r->nrunning + 1, sizeof(struct rut_live_running *));

	*ret_count = 0;
	if (!list)
		return NULL;
	rut_map_each(&r->running, slot) {
		list[(*ret_count)++] = slot->value;
	}
	qsort(list, *ret_count, sizeof(*list), compare_running);
	return list;
}
