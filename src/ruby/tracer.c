/* SPDX-License-Identifier: MIT */
#include "ruby/tracer.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "ruby/births.h"
#include "ruby/drain.h"
#include "ruby/events.h"
#include "ruby/family.h"
#include "ruby/gone.h"
#include "ruby/record_out.h"
#include "ruby/spawn.h"
#include "ruby/tracee.h"
#include "ruby/tree.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static void encode(struct rut_buf *b, char kind, const char *const *strs)
{
	for (; strs && *strs; strs++) {
		rut_buf_putc(b, kind);
		rut_buf_add(b, *strs, strlen(*strs) + 1);
	}
}

/* A probe, and its method for the filter. */
static void encode_probe(struct rut_buf *b, const struct rut_ruby_probe *p)
{
	const char *const method[] = {p->pattern, NULL};

	rut_buf_printf(b, "%c%c%s", RUT_FILTER_PROBE, p->event, p->pattern);
	for (size_t i = 0; i < p->nwishes; i++)
		rut_buf_printf(b, "%c%s", RUT_WATCH_US, p->wishes[i]);
	if (p->deferred)
		rut_buf_printf(b, "%c%c%" PRIu64 "/%" PRIu64, RUT_WATCH_US, RUT_HIT_DEFER,
			       p->pid_ns, p->time_ns);
	rut_buf_putc(b, 0);
	if (p->event == RUT_HIT_CALL || p->event == RUT_HIT_RETURN || p->event == RUT_HIT_C_CALL ||
	    p->event == RUT_HIT_C_RETURN)
		encode(b, RUT_FILTER_METHOD, method);
}

static void encode_within(struct rut_buf *b, const struct rut_tracer_config *c)
{
	for (size_t i = 0; i < c->nwithin; i++) {
		const char *const method[] = {c->within[i], NULL};

		if (!c->within[i])
			continue;
		rut_buf_printf(b, "%c%c%s", RUT_FILTER_WITHIN, (char)(RUT_WITHIN_FIRST + i),
			       c->within[i]);
		rut_buf_putc(b, 0);
		encode(b, RUT_FILTER_METHOD, method);
	}
}

/* What is encoded by now, and may be the caller's stack. */
static void forget_texts(struct rut_tracer_config *c)
{
	struct rut_ruby_filter *f = &c->filter;

	f->app_paths = f->not_paths = f->paths = f->classes = f->methods = NULL;
	c->inside = c->sample = c->layers = NULL;
	c->probes = NULL;
	c->within = NULL;
}

int rut_tracer_new(struct rut_tracer **ret, const struct rut_tracer_config *config,
		   struct rut_err *err)
{
	const struct rut_ruby_filter *f = &config->filter;
	const char *inside[2] = {config->inside, NULL}, *sample[2] = {config->sample, NULL};
	struct rut_buf b = RUT_BUF_INIT;
	struct rut_tracer *t;
	size_t fixed;

	encode(&b, RUT_FILTER_PATH, f->paths);
	encode(&b, RUT_FILTER_CLASS, f->classes);
	encode(&b, RUT_FILTER_METHOD, f->methods);
	encode(&b, RUT_FILTER_INSIDE, inside);
	encode(&b, RUT_FILTER_SAMPLE, sample);
	rut_buf_add(&b, config->layers, config->layers_len);
	for (size_t i = 0; i < config->nprobes; i++)
		encode_probe(&b, &config->probes[i]);
	encode_within(&b, config);
	fixed = b.len;
	encode(&b, RUT_FILTER_APP, f->app_paths);
	encode(&b, RUT_FILTER_NOT, f->app_paths ? f->not_paths : NULL);
	rut_buf_putc(&b, 0);
	if (!b.failed && b.len > RUT_AGENT_CONFIG - 2) {
		rut_buf_fini(&b);
		return rut_err_set(err, E2BIG, "the filter is longer than %d bytes",
				   RUT_AGENT_CONFIG - 2);
	}
	t = calloc(1, sizeof(*t));
	if (b.failed || !t) {
		rut_buf_fini(&b);
		free(t);
		return rut_err_set(err, ENOMEM, "out of memory");
	}
	t->config = *config;
	forget_texts(&t->config);
	t->watch_fd = -1;
	t->filter_len = b.len;
	t->filter_fixed = fixed;
	t->filter = rut_buf_take(&b);
	t->session_id = config->session_id;
	if (!t->session_id && getrandom(&t->session_id, sizeof(t->session_id), 0) < 0)
		t->session_id = (uint64_t)getpid();
	*ret = t;
	return 0;
}

void rut_tracer_free(struct rut_tracer *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->count; i++)
		rut_tracee_detach(t->tracees[i], false);
	for (size_t i = 0; i < t->count; i++)
		rut_tracee_detach(t->tracees[i], true);
	rut_spawn_fini(t);
	rut_births_look(t);
	t->ending = true;
	rut_drain(t, NULL);
	for (size_t i = 0; i < t->count; i++) {
		/* Unseen ones may live. */
		if (t->tracees[i]->exited && !t->tracees[i]->unseen)
			rut_events_left(t, t->tracees[i]);
		rut_tracee_free(t->tracees[i]);
	}
	rut_family_free_all(t);
	rut_gone_fini(&t->gone);
	free(t->tracees);
	free(t->filter);
	free(t->root);
	free(t->refusal);
	free(t->limits);
	free(t->rows);
	rut_strtab_fini(&t->strings);
	rut_strtab_fini(&t->messages);
	free(t);
}

pid_t rut_tracer_unsettled(const struct rut_tracer *t)
{
	for (size_t i = 0; i < t->count; i++)
		if (!rut_tracee_settled(t->tracees[i]))
			return t->tracees[i]->pid;
	return 0;
}

bool rut_tracer_settled(const struct rut_tracer *t)
{
	return !rut_tracer_unsettled(t);
}

bool rut_tracer_has(const struct rut_tracer *t, pid_t pid)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->tracees[i]->pid == pid && !t->tracees[i]->exited)
			return true;
	return false;
}

int rut_tracer_attach(struct rut_tracer *t, pid_t pid, bool tree, struct rut_err *err)
{
	struct rut_tracee *p;
	int r;

	if (rut_tracer_has(t, pid))
		return 0;
	r = rut_tracee_open(&p, t, pid, true, err);
	if (r < 0)
		return r;
	p->tree = tree;
	r = rut_tracee_add(t, p, err);
	if (r < 0) {
		rut_tracee_detach(p, true);
		rut_tracee_free(p);
	}
	return r;
}

const char *rut_tracer_root(const struct rut_tracer *t)
{
	return t->root;
}

/* ---- following ---- */

void rut_tracer_watch(struct rut_tracer *t, int fd)
{
	t->watch_fd = fd;
}

int rut_tracer_poll(struct rut_tracer *t, int timeout_ms, struct rut_err *err)
{
	struct pollfd pfd = {.fd = t->watch_fd, .events = POLLIN};
	int n = 0;

	rut_tree_follow(t);
	do {
		/*
		 * Children are looked for ten times a second, busy rings a hundred times, and so
		 * is a process that forks again and again: room for the next ones is needed.
		 */
		int slice = rut_events_busy(t) || rut_births_grow(t) ? 5 : 50, r;

		if (slice > timeout_ms)
			slice = timeout_ms;
		if (slice > 0 && poll(&pfd, 1, slice) != 0)
			timeout_ms = 0;
		timeout_ms -= slice;
		rut_tree_follow(t);
		r = rut_drain(t, err);
		if (r < 0)
			return r;
	} while (timeout_ms > 0);
	for (size_t i = 0; i < t->count; i++)
		n += !t->tracees[i]->exited;
	return n;
}

int rut_tracer_take(struct rut_tracer *t, struct rut_err *err)
{
	return rut_drain(t, err);
}

uint64_t rut_tracer_complete_ns(const struct rut_tracer *t)
{
	return t->complete_ns;
}

void rut_tracer_on_event(struct rut_tracer *t, rut_ruby_event_fn fn, void *arg)
{
	t->on_event = fn;
	t->on_event_arg = arg;
}
