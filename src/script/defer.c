/* SPDX-License-Identifier: MIT */
#include "script/defer.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ruby/tracer.h"
#include "script/gen.h"
#include "script/ruby_probe.h"

enum { BATCH_BYTES = 256 << 10 };

/* ---- which probes ---- */

static bool is_one_of(const char *const *names, const char *name)
{
	while (*names && strcmp(*names, name) != 0)
		names++;
	return *names != NULL;
}

/* Additions: their order does not matter. */
static bool is_addition(const struct rut_node *n)
{
	static const char *const names[] = {"count", "sum",  "avg",   "min", "max",
					    "stats", "hist", "lhist", NULL};

	return n->kind == RUT_N_CALL && is_one_of(names, n->text);
}

/* What depends on its arguments alone. */
static bool is_pure_call(const struct rut_node *n)
{
	static const char *const names[] = {"strlen", "strncmp", "strcontains", "strstr",
					    "glob",   "matches", NULL};

	return is_one_of(names, n->text);
}

static bool is_of_hit(const struct rut_node *n)
{
	static const char *const names[] = {"method", "class",	 "path", "line",
					    "retval", "elapsed", NULL};

	return is_one_of(names, n->text);
}

static bool is_pure(const struct rut_node *n);

static bool all_pure(const struct rut_node *list)
{
	for (; list; list = list->next)
		if (!is_pure(list))
			return false;
	return true;
}

static bool is_record(const struct rut_node *n)
{
	return n->kind == RUT_N_NAME && (!strcmp(n->text, "args") || !strcmp(n->text, "self"));
}

/* Does the value depend on nothing but the hit? */
static bool is_pure(const struct rut_node *n)
{
	switch (n->kind) {
	case RUT_N_INT:
	case RUT_N_STRING:
	case RUT_N_PARAM:
	case RUT_N_VAR:
		return true;
	case RUT_N_NAME:
		return is_of_hit(n);
	case RUT_N_FIELD:
		return is_record(n->a) || (!n->text && is_pure(n->a));
	case RUT_N_CALL:
		return is_pure_call(n) && all_pure(n->list);
	case RUT_N_UNARY:
		return n->op != '&' && n->op != '*' && is_pure(n->a);
	case RUT_N_BINARY:
		return is_pure(n->a) && is_pure(n->b);
	case RUT_N_TERNARY:
		return is_pure(n->a) && is_pure(n->b) && is_pure(n->c);
	case RUT_N_TUPLE:
		return all_pure(n->list);
	default:
		return false;
	}
}

/* A map that is added to. */
static bool is_pure_map(const struct rut_node *n)
{
	return n->kind == RUT_N_MAP && (!n->a || is_pure(n->a));
}

static bool is_deferrable(const struct rut_node *n)
{
	switch (n->kind) {
	case RUT_N_BLOCK:
		for (const struct rut_node *s = n->list; s; s = s->next)
			if (!is_deferrable(s))
				return false;
		return true;
	case RUT_N_IF:
		return is_pure(n->a) && is_deferrable(n->b) && (!n->c || is_deferrable(n->c));
	case RUT_N_LET:
		return !n->b || is_pure(n->b);
	case RUT_N_ASSIGN:
		if (n->a->kind == RUT_N_VAR)
			return is_pure(n->b);
		if (n->op)
			return (n->op == '+' || n->op == '-') && is_pure_map(n->a) && is_pure(n->b);
		return is_pure_map(n->a) && is_addition(n->b) && all_pure(n->b->list);
	case RUT_N_EXPR:
		return is_deferrable(n->a);
	case RUT_N_INCDEC:
		return n->a->kind == RUT_N_VAR || is_pure_map(n->a);
	default:
		return is_pure(n);
	}
}

/* ---- which maps ---- */

/* Does it name a map that `other` names, too? */
static bool shares_with(const struct rut_node *n, const struct rut_node *other);

static bool names_map(const struct rut_node *n, int index)
{
	for (; n; n = n->next) {
		const struct rut_node *parts[] = {n->a, n->b, n->c, n->d, n->list};

		if (n->kind == RUT_N_MAP && n->index == index)
			return true;
		for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
			if (names_map(parts[i], index))
				return true;
	}
	return false;
}

static bool shares_with(const struct rut_node *n, const struct rut_node *other)
{
	for (; n; n = n->next) {
		const struct rut_node *parts[] = {n->a, n->b, n->c, n->d, n->list};

		if (n->kind == RUT_N_MAP && names_map(other, n->index))
			return true;
		for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
			if (shares_with(parts[i], other))
				return true;
	}
	return false;
}

static bool is_body_deferrable(const struct rut_probe *p)
{
	return (!p->predicate || is_pure(p->predicate)) && is_deferrable(p->body);
}

/* This process runs it, after what was deferred. */
static bool runs_here(enum rut_probe_kind kind)
{
	return kind == RUT_PROBE_BEGIN || kind == RUT_PROBE_END || kind == RUT_PROBE_INTERVAL ||
	       kind == RUT_PROBE_SIGNAL;
}

static bool calls_exit(const struct rut_node *n)
{
	for (; n; n = n->next) {
		const struct rut_node *parts[] = {n->a, n->b, n->c, n->d, n->list};

		if (n->kind == RUT_N_CALL && !strcmp(n->text, "exit"))
			return true;
		for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
			if (calls_exit(parts[i]))
				return true;
	}
	return false;
}

/*
 * A probe that traps and calls exit() would end the script before the hits that were deferred
 * earlier: programs do nothing after exit().
 */
bool rut_script_may_defer(const struct rut_resolved *list, size_t n, size_t i)
{
	const struct rut_probe *probe = list[i].probe;

	if (list[i].ctx->kind != RUT_PROBE_RUBY || !is_body_deferrable(probe))
		return false;
	for (size_t k = 0; k < n; k++) {
		const struct rut_probe *other = list[k].probe;

		if (runs_here(list[k].ctx->kind) || is_body_deferrable(other))
			continue;
		if (calls_exit(other->body) || calls_exit(other->predicate))
			return false;
		if (shares_with(probe->body, other->body) ||
		    (other->predicate && shares_with(probe->body, other->predicate)))
			return false;
	}
	return true;
}

/* ---- running them ---- */

/* Hits of one probe. */
struct batch {
	const struct rut_script_prog *prog; /* NULL: the probe is not deferred */
	const struct rut_ruby_probe_ctx *ctx;
	unsigned char *hits; /* owned */
	size_t stride, n, cap;
};

struct rut_script_hits {
	struct batch batches[RUT_HIT_PROBES];
	uint64_t lost;
	int rc;
};

int rut_script_hits_new(struct rut_script_hits **ret, const struct rut_script_program *p)
{
	struct rut_script_hits *h = calloc(1, sizeof(*h));

	*ret = h;
	if (!h)
		return -ENOMEM;
	for (size_t i = 0; i < p->nprogs; i++) {
		const struct rut_script_prog *prog = &p->progs[i];
		struct batch *b;

		if (!prog->replays)
			continue;
		b = &h->batches[prog->replays - 1];
		b->prog = prog;
		b->ctx = p->ruby_probes[prog->replays - 1];
		b->stride =
			sizeof(struct rut_ruby_hit) + (size_t)b->ctx->nwishes * RUT_HIT_TEXT_BYTES;
		b->cap = BATCH_BYTES / b->stride;
		b->hits = calloc(b->cap, b->stride);
		if (!b->hits)
			return -ENOMEM;
	}
	return 0;
}

void rut_script_hits_free(struct rut_script_hits *h)
{
	for (size_t i = 0; h && i < RUT_HIT_PROBES; i++)
		free(h->batches[i].hits);
	free(h);
}

static void run(struct rut_script_hits *h, struct batch *b)
{
	uint64_t ctx[] = {(uintptr_t)b->hits, b->n};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = ctx, .ctx_size_in = sizeof(ctx));
	int rc = b->n ? bpf_prog_test_run_opts(b->prog->fd, &opts) : 0;

	if (rc && !h->rc)
		h->rc = rc;
	b->n = 0;
}

/* The texts as the program reads them. False: the process wrote something else. */
static bool unpack(const struct batch *b, const struct rut_ruby_event *ev, unsigned char *to)
{
	const struct rut_ruby_hit hit = {ev->duration_ns, ev->line};
	const char *from = ev->texts;
	size_t left = ev->text_bytes;

	memcpy(to, &hit, sizeof(hit));
	to += sizeof(hit);
	for (uint32_t i = 0; i < b->ctx->nwishes; i++, to += RUT_HIT_TEXT_BYTES) {
		size_t len = strchr(RUT_HIT_NUMBERS, b->ctx->wishes[i][0])
				     ? sizeof(uint64_t)
				     : strnlen(from, left) + 1;

		if (len > left || len > RUT_HIT_TEXT_BYTES)
			return false;
		memcpy(to, from, len);
		from += len;
		left -= len;
	}
	return true;
}

void rut_script_hits_event(const struct rut_ruby_event *ev, void *hits)
{
	struct rut_script_hits *h = hits;
	struct batch *b;

	if (ev->type == RUT_RUBY_EVENT_LOST)
		h->lost += ev->lost;
	if (ev->type != RUT_RUBY_EVENT_HIT || ev->probe >= RUT_HIT_PROBES)
		return;
	b = &h->batches[ev->probe];
	if (!b->prog || !unpack(b, ev, b->hits + b->n * b->stride))
		return;
	if (++b->n == b->cap)
		run(h, b);
}

int rut_script_hits_run(struct rut_script_hits *h, struct rut_err *err)
{
	for (size_t i = 0; i < RUT_HIT_PROBES; i++)
		if (h->batches[i].prog)
			run(h, &h->batches[i]);
	return h->rc ? rut_err_errno(err, -h->rc, "cannot run a probe of Ruby") : 0;
}

uint64_t rut_script_hits_lost(const struct rut_script_hits *h)
{
	return h ? h->lost : 0;
}
