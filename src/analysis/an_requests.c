/* SPDX-License-Identifier: MIT */
/*
 * requests: by route how many there were, how long they took, and where their time went; and the
 * slowest ones, one by one.
 */
#include "analysis/an_requests.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "analysis/an_ruby.h"
#include "analysis/explain.h"
#include "analysis/where_call.h"
#include "base/glob.h"

#define ROUTES_MAX  2000 /* what comes then is one row */
#define SLOWEST_MAX 10000

/* ---- Counting ---- */

/* A route can have the characters of a glob itself. */
static bool is_of_route(const char *route, const struct rut_request *r)
{
	char name[320];

	rut_an_request_name(r, name, sizeof(name));
	return !strcmp(name, route) || rut_glob_string(route, name);
}

static bool wanted(const struct rut_requests_instance *rq, const struct rut_request *r)
{
	const struct rut_conf *c = rq->base.run->conf;
	double ns = (double)(r->end_ns - r->begin_ns);

	return rut_an_ruby_wanted(c, r->thread, r->tid, r->pid) &&
	       !(c->has_min && ns < c->min_ns) && !(c->has_max && ns > c->max_ns) &&
	       (!c->route || is_of_route(c->route, r));
}

static void add_layers(struct rut_requests_route *to, const struct rut_request *r)
{
	for (uint8_t i = 0; i < r->n_layers; i++) {
		const struct rut_request_layer *l = &r->layers[i];
		uint8_t k = 0;

		while (k < to->n_layers && to->layers[k].name != l->name)
			k++;
		if (k == RUT_REQUEST_LAYERS)
			k--;
		else if (k == to->n_layers)
			to->layers[to->n_layers++] = (struct rut_request_layer){
				.name = l->name, .named_by = l->named_by};
		to->layers[k].ruby_ns += l->ruby_ns;
		to->layers[k].total_ns += l->total_ns;
		to->layers[k].spans += l->spans;
	}
}

static struct rut_requests_route *route_of(struct rut_requests_instance *rq,
					   const struct rut_request *r)
{
	char name[320];
	struct rut_requests_route *route;
	int64_t id;

	rut_an_request_name(r, name, sizeof(name));
	id = rut_strtab_find(&rq->names, name, strlen(name));
	if (id < 0 && rq->names.count >= ROUTES_MAX)
		snprintf(name, sizeof(name), "(other routes)");
	if (id < 0)
		id = rut_strtab_intern(&rq->names, name, strlen(name));
	route = id < 0 ? NULL : rut_an_ordered_add(&rq->routes, (uint64_t)id + 1, sizeof(*route));
	if (!route)
		return NULL;
	route->name = rq->names.strs[id].data;
	if (!route->is_init) {
		route->is_init = true;
		(void)rut_an_stat_init(&route->each, RUT_STAT_HIST);
	}
	return route;
}

/* Keeps a copy if it is one of the slowest; takes its explanation. */
static void keep(struct rut_requests_instance *rq, struct rut_request *r)
{
	int64_t ns = r->end_ns - r->begin_ns;
	size_t at = rq->n;

	while (at && rq->slowest[at - 1].end_ns - rq->slowest[at - 1].begin_ns < ns)
		at--;
	if (at >= rq->most)
		return;
	if (rq->n == rq->most)
		rut_an_explanation_free(rq->slowest[--rq->n].explained);
	memmove(&rq->slowest[at + 1], &rq->slowest[at], (rq->n - at) * sizeof(*rq->slowest));
	rq->slowest[at] = *r;
	rq->slowest[at].next = NULL;
	rq->slowest[at].log = NULL;
	rq->slowest[at].thread = NULL;
	r->explained = NULL;
	rq->n++;
}

static void add_request(struct rut_instance *inst, struct rut_request *r)
{
	struct rut_requests_instance *rq = (struct rut_requests_instance *)inst;
	struct rut_requests_route *route;

	if (!wanted(rq, r))
		return;
	route = route_of(rq, r);
	if (!route) {
		inst->run->engine->state.failed = true;
		return;
	}
	if (r->running) {
		route->running++;
	} else {
		rut_stat_add(&route->each, r->end_ns - r->begin_ns);
		route->errors += rut_an_request_failed(r);
		for (int p = 0; p < RUT_PLACES; p++)
			route->ns[p] += r->ns[p];
		add_layers(route, r);
	}
	keep(rq, r);
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	rut_an_requests_running(inst->run->priv, end_ns, add_request, inst);
	rut_an_requests_report((struct rut_requests_instance *)inst, end_ns);
}

/* ---- Life ---- */

static int init(struct rut_instance *inst)
{
	struct rut_requests_instance *rq = (struct rut_requests_instance *)inst;
	struct rut_requests *q = inst->run->priv;
	int64_t slowest = inst->run->conf->slowest;
	struct rut_instance **to;

	rq->most = slowest < 0 ? 0 : slowest < SLOWEST_MAX ? (size_t)slowest : SLOWEST_MAX;
	rq->slowest = calloc(rq->most + 1, sizeof(*rq->slowest));
	to = realloc(q->listeners, (q->n_listeners + 1) * sizeof(*to));
	if (to)
		q->listeners = to;
	if (!rq->slowest || !to)
		return -ENOMEM;
	q->listeners[q->n_listeners++] = inst;
	return 0;
}

static void fini(struct rut_instance *inst)
{
	struct rut_requests_instance *rq = (struct rut_requests_instance *)inst;
	struct rut_requests *q = inst->run->priv;
	size_t kept = 0;

	for (size_t i = 0; q && i < q->n_listeners; i++)
		if (q->listeners[i] != inst)
			q->listeners[kept++] = q->listeners[i];
	if (q)
		q->n_listeners = kept;
	for (size_t i = 0; i < rq->routes.n; i++)
		rut_an_stat_fini(&((struct rut_requests_route *)rq->routes.items[i])->each);
	rut_an_ordered_fini(&rq->routes);
	rut_strtab_fini(&rq->names);
	for (size_t i = 0; i < rq->n; i++)
		rut_an_explanation_free(rq->slowest[i].explained);
	free(rq->slowest);
}

/* What a request must have taken to be among the slowest of any report. */
static int64_t slowest_ns(const struct rut_requests *q)
{
	int64_t least = INT64_MAX;

	for (size_t i = 0; i < q->n_listeners; i++) {
		const struct rut_requests_instance *rq =
			(const struct rut_requests_instance *)q->listeners[i];
		int64_t ns = rq->n < rq->most || !rq->n ? -1
							: rq->slowest[rq->n - 1].end_ns -
								  rq->slowest[rq->n - 1].begin_ns;

		least = ns < least ? ns : least;
	}
	return least;
}

/* Every instance is called; one is enough. */
static bool is_first(const struct rut_instance *inst)
{
	const struct rut_requests *q = inst->run->priv;

	return q->n_listeners && q->listeners[0] == inst;
}

enum { SIG_NR, SIG_TID };

static void on_signal(struct rut_instance *inst, const struct rut_ctf_event *ev,
		      const struct rut_state_class *c, const struct rut_ctf_ref *f)
{
	struct rut_requests *q = inst->run->priv;
	struct rut_state *st = &inst->run->engine->state;
	const struct rut_thread *by = rut_an_state_current(st, ev, c);
	int64_t nr = rut_ctf_i64(ev, &f[SIG_NR]);

	if (!q->history || !by || !is_first(inst))
		return;
	if (nr == SIGSTOP || nr == SIGTSTP || nr == SIGTTIN || nr == SIGTTOU)
		rut_an_history_stop(q->history, ev->ts_ns, rut_ctf_i64(ev, &f[SIG_TID]), by->tid);
}

enum { RESEND_FAMILY, RESEND_SPORT, RESEND_DPORT, RESEND_V4, RESEND_V6 = RESEND_V4 + 2 };

static void on_resend(struct rut_instance *inst, const struct rut_ctf_event *ev,
		      const struct rut_state_class *c, const struct rut_ctf_ref *f)
{
	struct rut_requests *q = inst->run->priv;
	struct rut_state *st = &inst->run->engine->state;
	bool v6 = rut_ctf_u64(ev, &f[RESEND_FAMILY]) == AF_INET6;
	const struct rut_ctf_ref *addr = &f[v6 ? RESEND_V6 : RESEND_V4];
	struct rut_resend r = {.ts_ns = ev->ts_ns};

	(void)c;
	if (!q->history || !is_first(inst))
		return;
	r.from = rut_an_peer_name(st, ev, &addr[0], v6, rut_ctf_u64(ev, &f[RESEND_SPORT]));
	r.to = rut_an_peer_name(st, ev, &addr[1], v6, rut_ctf_u64(ev, &f[RESEND_DPORT]));
	if (r.from && r.to)
		rut_an_history_resend(q->history, &r);
}

static const struct rut_analysis_event events[] = {
	{"tcp_retransmit_skb",
	 {"family", "sport", "dport", "saddr", "daddr", "saddr_v6", "daddr_v6"},
	 on_resend},
	{"signal_generate", {"sig", "pid"}, on_signal},
	{NULL, {NULL}, NULL},
};

static int run_init(struct rut_run *run)
{
	struct rut_requests *q = calloc(1, sizeof(*q));

	run->priv = q;
	if (!q)
		return -ENOMEM;
	q->ended = add_request;
	q->slowest_ns = slowest_ns;
	return rut_an_requests_init(q, run);
}

static void run_fini(struct rut_run *run)
{
	if (run->priv)
		rut_an_requests_fini(run->priv);
	free(run->priv);
	run->priv = NULL;
}

static void period_begin(struct rut_run *run, struct rut_period *p)
{
	rut_an_requests_period_begin(run->priv, p);
}

static void period_end(struct rut_run *run, struct rut_period *p)
{
	rut_an_requests_period_end(run->priv, p);
}

static const char *const tags[] = {"ruby", "rutile", "stats", "top", NULL};

const struct rut_analysis rut_analysis_requests = {
	.info = {"Requests", "Requests by route, and where their time went", tags,
		 rut_an_requests_classes},
	.instance_size = sizeof(struct rut_requests_instance),
	.wants = RUT_REQUESTS_HOOKS,
	.events = events,
	.run_init = run_init,
	.init = init,
	.report = report,
	.fini = fini,
	.period_begin = period_begin,
	.period_end = period_end,
	.run_fini = run_fini,
};
