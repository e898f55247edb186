/* SPDX-License-Identifier: MIT */
/*
 * Triggers on requests and methods of Ruby applications. A request is seen while it lasts, a call
 * at its end. An application that ends is looked for again by its name: servers are restarted. A
 * PID is not, it may be another program's then.
 */
#include "cli/trigger_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/abi.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "cli/ruby_opts.h"
#include "cli/ruby_target.h"
#include "output/jsonl.h"
#include "ruby/layers.h"
#include "ruby/requests.h"
#include "ruby/tracer.h"
#include "trigger/window.h"

/* So often a target is looked for that has ended, and others of its name beside it. */
#define AGAIN_NS  1000000000ull
#define OTHERS_NS 10000000000ull

/* A request that runs. */
struct request {
	pid_t pid, tid;
	uint64_t id, begin_ns;
	bool told;
	char kind[16], verb[16], path[256], request_id[128];
};

struct ruby {
	struct rut_trigger_source source;
	const struct rut_trigger_when *when;
	const struct rut_cmd *cmd;
	struct rut_tracer *tracer; /* owned; NULL: no process is there */
	struct rut_buf layers;
	struct rut_map requests;	  /* by process and number -> struct request, owned */
	struct rut_trigger_window window; /* with a percentile */
	struct rut_buf cause;
	uint64_t again_ns;
	rut_trigger_seen_fn seen;
	void *arg;
};

/* ---- Requests ---- */

static uint64_t key_of(pid_t pid, uint64_t id)
{
	return (uint64_t)(uint32_t)pid << 32 | (uint32_t)id;
}

/* `end` NULL: it still runs. */
static void tell_request(struct ruby *r, struct request *q, uint64_t ns,
			 const struct rut_ruby_request *end)
{
	struct rut_buf *b = &r->cause;

	rut_buf_clear(b);
	rut_jsonl_begin(b);
	rut_jsonl_u64(b, end ? "lasted_ns" : "lasts_ns", ns);
	rut_jsonl_i64(b, "pid", q->pid);
	rut_jsonl_i64(b, "tid", q->tid);
	rut_jsonl_u64(b, "request", q->id);
	rut_jsonl_str(b, "kind", q->kind);
	rut_jsonl_str(b, "verb", q->verb);
	rut_jsonl_str(b, "path", q->path);
	if (q->request_id[0])
		rut_jsonl_str(b, "request_id", q->request_id);
	if (end && end->route[0])
		rut_jsonl_str(b, "route", end->route);
	if (end && end->status)
		rut_jsonl_u64(b, "status", end->status);
	rut_jsonl_close(b);
	q->told = true;
	r->seen(r->arg, b->failed ? "{}" : b->data);
}

static void begin_request(struct ruby *r, const struct rut_ruby_request *ev)
{
	struct request *q = calloc(1, sizeof(*q));

	if (!q)
		return;
	q->pid = ev->pid;
	q->tid = ev->tid;
	q->id = ev->id;
	q->begin_ns = ev->time_ns;
	snprintf(q->kind, sizeof(q->kind), "%s", ev->kind);
	snprintf(q->verb, sizeof(q->verb), "%s", ev->verb);
	snprintf(q->path, sizeof(q->path), "%s", ev->path);
	snprintf(q->request_id, sizeof(q->request_id), "%s", ev->request_id);
	free(rut_map_remove(&r->requests, key_of(ev->pid, ev->id)));
	if (rut_map_put(&r->requests, key_of(ev->pid, ev->id), q))
		free(q);
}

static void end_request(struct ruby *r, const struct rut_ruby_request *ev)
{
	struct request *q = rut_map_remove(&r->requests, key_of(ev->pid, ev->id));
	bool slow = q && ev->time_ns - q->begin_ns >= r->when->ns;

	if (q &&
	    (r->when->percent > 0 ? rut_trigger_window_add(&r->window, ev->time_ns, slow,
							   r->when->percent, r->when->window_ns)
				  : slow && !q->told))
		tell_request(r, q, ev->time_ns - q->begin_ns, ev);
	free(q);
}

/* Those of a process that has ended, or that may have lost ends of calls; 0: all. */
static void forget_requests(struct ruby *r, pid_t pid)
{
	struct rut_map kept = {0};

	rut_map_each(&r->requests, slot) {
		struct request *q = slot->value;

		if (pid == 0 || q->pid == pid || rut_map_put(&kept, slot->key, q))
			free(q);
	}
	rut_map_fini(&r->requests);
	r->requests = kept;
}

static void on_request(const struct rut_ruby_request *ev, void *arg)
{
	struct ruby *r = arg;

	if (ev->what == RUT_RUBY_REQUEST_BEGIN)
		begin_request(r, ev);
	else if (ev->what == RUT_RUBY_REQUEST_END)
		end_request(r, ev);
	else if (ev->what == RUT_RUBY_REQUESTS_LOST || ev->what == RUT_RUBY_REQUESTS_OVER)
		forget_requests(r, ev->pid);
}

static void look_at_requests(struct ruby *r)
{
	uint64_t now = rut_now_ns();

	if (r->when->percent > 0)
		return;
	rut_map_each(&r->requests, slot) {
		struct request *q = slot->value;

		if (!q->told && now > q->begin_ns && now - q->begin_ns >= r->when->ns)
			tell_request(r, q, now - q->begin_ns, NULL);
	}
}

/* ---- Methods ---- */

static void on_event(const struct rut_ruby_event *ev, void *arg)
{
	struct ruby *r = arg;
	struct rut_buf *b = &r->cause;

	if (ev->type != RUT_RUBY_EVENT_SLOW)
		return;
	rut_buf_clear(b);
	rut_jsonl_begin(b);
	rut_jsonl_u64(b, "lasted_ns", ev->duration_ns);
	rut_jsonl_i64(b, "pid", ev->pid);
	rut_jsonl_i64(b, "tid", ev->tid);
	rut_jsonl_join(b, "method", ev->class_name, ev->singleton ? '.' : '#', ev->method_name);
	rut_jsonl_str(b, "path", ev->path);
	rut_jsonl_u64(b, "line", ev->line);
	rut_jsonl_close(b);
	r->seen(r->arg, b->failed ? "{}" : b->data);
}

/* ---- The tracer ---- */

static int attach(struct ruby *r, struct rut_targets *t, struct rut_err *err)
{
	static const struct rut_ruby_opts none;
	const char *const methods[] = {r->when->filter, NULL};
	bool request = r->when->kind == RUT_TRIGGER_REQUEST;
	struct rut_tracer_config config = {.mode = request ? RUT_RUBY_RECORD : RUT_RUBY_TRACE,
					   .kinds = request ? 1u << RUT_KIND_REQUEST : 0,
					   .slow_ns = request ? 0 : r->when->ns,
					   .layers = r->layers.data,
					   .layers_len = r->layers.len};
	int rc;

	rut_cli_targets_filter(t, &none, !request, &config.filter);
	if (!request)
		config.filter.methods = methods;
	rc = rut_tracer_new(&r->tracer, &config, err);
	if (rc)
		return rc;
	if (request)
		rut_tracer_on_request(r->tracer, on_request, r);
	else
		rut_tracer_on_event(r->tracer, on_event, r);
	return rut_cli_targets_attach(t, r->tracer, NULL, err);
}

static int find_and_attach(struct ruby *r, struct rut_err *err)
{
	struct rut_targets t = {0};
	int rc = rut_cli_trigger_targets(r->when, &t, err);

	if (!rc)
		rc = attach(r, &t, err);
	if (rc && !err->code)
		rut_err_errno(err, -rc, "cannot look for '%s'", r->when->events);
	if (rc) {
		rut_tracer_free(r->tracer);
		r->tracer = NULL;
	}
	rut_cli_targets_fini(&t);
	return rc;
}

/* A server that was restarted beside others of its name. */
static void attach_others(struct ruby *r)
{
	struct rut_err ignored = RUT_ERR_INIT;
	struct rut_targets t = {0};

	if (!rut_cli_trigger_targets(r->when, &t, &ignored))
		for (size_t i = 0; i < t.count; i++)
			rut_tracer_attach(r->tracer, t.pids[i], true, &ignored);
	rut_cli_targets_fini(&t);
}

/* A PID may be another program's once its process has ended. */
static bool is_by_pid(const struct ruby *r)
{
	return !r->when->events[strspn(r->when->events, "0123456789 \t")];
}

static int step(struct rut_trigger_source *s, rut_trigger_seen_fn seen, void *arg,
		struct rut_err *err)
{
	struct ruby *r = (struct ruby *)s;
	struct rut_err ignored = RUT_ERR_INIT;
	int n;

	r->seen = seen;
	r->arg = arg;
	if (rut_now_ns() >= r->again_ns && !is_by_pid(r)) {
		if (!r->tracer)
			find_and_attach(r, &ignored);
		else
			attach_others(r);
		r->again_ns = rut_now_ns() + (r->tracer ? OTHERS_NS : AGAIN_NS);
	}
	if (!r->tracer)
		return 0;
	n = rut_tracer_poll(r->tracer, 0, err);
	if (n < 0)
		return n;
	look_at_requests(r);
	if (n == 0 && is_by_pid(r))
		return rut_err_set(err, ESRCH, "no process of %s is left", r->when->events);
	if (n == 0) {
		rut_tracer_free(r->tracer);
		r->tracer = NULL;
		forget_requests(r, 0);
		r->again_ns = rut_now_ns() + AGAIN_NS;
	}
	return 0;
}

static void free_ruby(struct rut_trigger_source *s)
{
	struct ruby *r = (struct ruby *)s;

	rut_tracer_free(r->tracer);
	forget_requests(r, 0);
	rut_trigger_window_fini(&r->window);
	rut_buf_fini(&r->layers);
	rut_buf_fini(&r->cause);
	free(r);
}

static void see_nothing(void *arg, const char *cause)
{
}

int rut_cli_trigger_ruby_open(struct rut_trigger_source **ret, const struct rut_cmd *cmd,
			      const struct rut_trigger_when *w, struct rut_err *err)
{
	struct ruby *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return rut_err_set(err, ENOMEM, "out of memory");
	r->source = (struct rut_trigger_source){step, free_ruby};
	r->when = w;
	r->cmd = cmd;
	r->seen = see_nothing;
	r->again_ns = rut_now_ns() + OTHERS_NS;
	rc = w->kind == RUT_TRIGGER_REQUEST ? rut_layers_config(&r->layers, err) : 0;
	if (!rc && w->percent > 0 && rut_trigger_window_init(&r->window))
		rc = rut_err_set(err, ENOMEM, "out of memory");
	if (!rc)
		rc = find_and_attach(r, err);
	if (rc) {
		free_ruby(&r->source);
		return rc;
	}
	*ret = &r->source;
	return 0;
}
