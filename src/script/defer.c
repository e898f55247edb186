/* SPDX-License-Identifier: MIT */
#include "script/defer.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "ruby/tracer.h"
#include "script/gen.h"
#include "script/ruby_probe.h"

enum { BATCH_BYTES = 256 << 10, SLEEP_MIN_NS = 1000000 };

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
					    "glob",   "matches", "strftime",	NULL};

	return is_one_of(names, n->text);
}

/* What the kernel says of the thread and the time of a trap, the agent says of a hit, too. */
static bool is_of_thread(const struct rut_node *n)
{
	static const char *const names[] = {"pid", "tid", "comm", "nsecs", NULL};

	return n->kind == RUT_N_NAME && is_one_of(names, n->text);
}

/* nsecs(boot), nsecs(monotonic) */
static bool is_time(const struct rut_node *n)
{
	static const char *const clocks[] = {"boot", "monotonic", NULL};

	return n->kind == RUT_N_CALL && !strcmp(n->text, "nsecs") &&
	       (!n->list || (n->list->kind == RUT_N_NAME && is_one_of(clocks, n->list->text)));
}

/* What prints its arguments. */
static bool is_printing(const struct rut_node *n)
{
	static const char *const names[] = {"printf", "errorf", "warnf", "print", NULL};

	return n->kind == RUT_N_CALL && is_one_of(names, n->text);
}

static bool is_of_hit(const struct rut_node *n)
{
	static const char *const names[] = {"method", "class",	 "path", "line",
					    "retval", "elapsed", NULL};

	return is_one_of(names, n->text) || is_of_thread(n);
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
		return is_time(n) || (is_pure_call(n) && all_pure(n->list));
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
	case RUT_N_CALL:
		return is_printing(n) ? all_pure(n->list) : is_pure(n);
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

/* Is there such a node in it? */
static bool has(const struct rut_node *n, bool (*is)(const struct rut_node *n))
{
	for (; n; n = n->next) {
		const struct rut_node *parts[] = {n->a, n->b, n->c, n->d, n->list};

		if (is(n))
			return true;
		for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
			if (has(parts[i], is))
				return true;
	}
	return false;
}

static bool is_exit(const struct rut_node *n)
{
	return n->kind == RUT_N_CALL && !strcmp(n->text, "exit");
}

static bool is_comm(const struct rut_node *n)
{
	return n->kind == RUT_N_NAME && !strcmp(n->text, "comm");
}

static bool is_local(const struct rut_node *n)
{
	return is_of_thread(n) || is_time(n);
}

static bool probe_has(const struct rut_probe *p, bool (*is)(const struct rut_node *n))
{
	return has(p->body, is) || (p->predicate && has(p->predicate, is));
}

bool rut_script_is_local(const struct rut_probe *probe)
{
	return probe_has(probe, is_local) || probe_has(probe, is_printing);
}

/*
 * A probe that traps and calls exit() would end the script before the hits that were deferred
 * earlier: programs do nothing after exit().
 */
bool rut_script_may_defer(const struct rut_script_program *p, const struct rut_resolved *list,
			  size_t n, size_t i)
{
	const struct rut_probe *probe = list[i].probe;

	if (list[i].ctx->kind != RUT_PROBE_RUBY || !is_body_deferrable(probe))
		return false;
	/* Records of a session are in the order in which they are written, those of a trace by the
	 * CPU of the program. */
	if (probe_has(probe, is_printing) && (p->opts.session || p->opts.trace))
		return false;
	/* The agent writes the name as one text more. */
	if (probe_has(probe, is_comm) && list[i].ctx->ruby->nwishes == RUT_HIT_TEXTS)
		return false;
	for (size_t k = 0; k < n; k++) {
		const struct rut_probe *other = list[k].probe;

		if (runs_here(list[k].ctx->kind) || is_body_deferrable(other))
			continue;
		if (probe_has(other, is_exit))
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

/* A hit that prints, until it is its turn. */
struct turn {
	uint64_t time_ns;
	size_t at; /* where its bytes are: of two of one time it is less for the first */
	uint32_t probe, bytes;
};

struct rut_script_hits {
	struct batch batches[RUT_HIT_PROBES];
	bool ordered; /* one of them prints */
	struct rut_buf
		turns; /* struct turn; from `next` on to be run, the first `sorted` in order */
	struct rut_buf bytes; /* of these hits: each a struct rut_ruby_hit and its texts, packed */
	size_t next, sorted;
	uint64_t lost;
	/* CLOCK_BOOTTIME less CLOCK_MONOTONIC; before that time, and after it: the machine slept.
	 */
	uint64_t slept_ns[2], slept_at_ns;
	uint64_t begun_ns; /* when hits were taken last */
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
		b->stride = rut_ruby_hit_bytes(b->ctx);
		b->cap = BATCH_BYTES / b->stride;
		h->ordered |= b->ctx->sends_bytes != 0;
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
	if (h) {
		rut_buf_fini(&h->turns);
		rut_buf_fini(&h->bytes);
	}
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

static struct rut_ruby_hit hit_of(const struct rut_script_hits *h, const struct rut_ruby_event *ev)
{
	return (struct rut_ruby_hit){
		.duration_ns = ev->duration_ns,
		.line = ev->line,
		.mono_ns = ev->time_ns,
		.boot_ns = ev->time_ns + h->slept_ns[ev->time_ns > h->slept_at_ns],
		.pid = (uint32_t)ev->pid,
		.tid = (uint32_t)ev->tid,
	};
}

/*
 * The texts of a hit as the program reads them, at `to`; NULL: nowhere. Returns how many bytes they
 * have packed; SIZE_MAX: the process wrote something else.
 */
static size_t unpack(const struct batch *b, const char *from, size_t left, unsigned char *to)
{
	const char *begin = from;

	for (uint32_t i = 0; i < b->ctx->nwishes; i++) {
		size_t len = strchr(RUT_HIT_NUMBERS, b->ctx->wishes[i][0])
				     ? sizeof(uint64_t)
				     : strnlen(from, left) + 1;

		if (len > left || len > RUT_HIT_TEXT_BYTES)
			return SIZE_MAX;
		if (to)
			memcpy(to + (size_t)i * RUT_HIT_TEXT_BYTES, from, len);
		from += len;
		left -= len;
	}
	return from - begin;
}

/* Kept packed: a text has a few bytes of its 256, and rings may hold many. */
static void add_turn(struct rut_script_hits *h, const struct batch *b,
		     const struct rut_ruby_event *ev)
{
	const struct rut_ruby_hit hit = hit_of(h, ev);
	size_t texts = unpack(b, ev->texts, ev->text_bytes, NULL);
	struct turn turn = {.time_ns = ev->time_ns, .at = h->bytes.len, .probe = ev->probe};

	if (texts == SIZE_MAX)
		return;
	turn.bytes = (uint32_t)(sizeof(hit) + texts);
	if (rut_buf_reserve(&h->bytes, turn.bytes) || rut_buf_reserve(&h->turns, sizeof(turn))) {
		h->rc = -ENOMEM;
		return;
	}
	rut_buf_add(&h->bytes, &hit, sizeof(hit));
	rut_buf_add(&h->bytes, ev->texts, texts);
	rut_buf_add(&h->turns, &turn, sizeof(turn));
}

/* Gives back the room of those that were run, when that is most of it. */
static void forget_turns(struct rut_script_hits *h)
{
	struct turn *turns = (void *)h->turns.data;
	size_t n = h->turns.len / sizeof(*turns);
	struct rut_buf bytes = RUT_BUF_INIT;

	if (h->next < n - h->next)
		return;
	for (size_t i = h->next; i < n; i++) {
		size_t at = bytes.len;

		rut_buf_add(&bytes, h->bytes.data + turns[i].at, turns[i].bytes);
		turns[i].at = at;
	}
	if (bytes.failed)
		h->rc = -ENOMEM;
	memmove(turns, turns + h->next, (n - h->next) * sizeof(*turns));
	h->turns.len = (n - h->next) * sizeof(*turns);
	h->sorted = n - h->next;
	h->next = 0;
	rut_buf_fini(&h->bytes);
	h->bytes = bytes;
}

static int compare_turns(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* As many hits of one probe as come next, at most `max`. */
static void fill_batch(struct rut_script_hits *h, struct batch *b, uint64_t until_ns, size_t max)
{
	const struct turn *turns = (const void *)h->turns.data;
	size_t n = h->turns.len / sizeof(*turns), first = h->next;

	while (h->next < n && h->next - first < max && turns[h->next].time_ns <= until_ns &&
	       &h->batches[turns[h->next].probe] == b) {
		const char *from = h->bytes.data + turns[h->next].at;
		unsigned char *to = b->hits + b->n++ * b->stride;
		size_t head = sizeof(struct rut_ruby_hit);

		memcpy(to, from, head);
		unpack(b, from + head, turns[h->next++].bytes - head, to + head);
	}
}

static int result(const struct rut_script_hits *h, struct rut_err *err)
{
	return h->rc ? rut_err_errno(err, -h->rc, "cannot run a probe of Ruby") : 0;
}

bool rut_script_hits_print(const struct rut_script_hits *h)
{
	return h && h->ordered;
}

int rut_script_hits_run_until(struct rut_script_hits *h, uint64_t until_ns, uint32_t room_bytes,
			      void (*served)(void *arg), void *arg, struct rut_err *err)
{
	struct turn *turns = (void *)h->turns.data;
	size_t n = h->turns.len / sizeof(*turns);

	if (!n)
		return result(h, err);
	if (h->sorted < n)
		qsort(turns + h->next, n - h->next, sizeof(*turns), compare_turns);
	h->sorted = n;
	while (h->next < n && turns[h->next].time_ns <= until_ns && !h->rc) {
		struct batch *b = &h->batches[turns[h->next].probe];
		size_t max = room_bytes / b->ctx->sends_bytes;

		max = max < b->cap ? max : b->cap;
		fill_batch(h, b, until_ns, max ? max : 1);
		run(h, b);
		served(arg);
	}
	forget_turns(h);
	return result(h, err);
}

static uint64_t slept_ns(void)
{
	uint64_t best = UINT64_MAX, ret = 0;

	for (int i = 0; i < 4; i++) {
		uint64_t before = rut_now_ns(), boot = rut_clock_ns(CLOCK_BOOTTIME),
			 after = rut_now_ns();

		if (after - before >= best)
			continue;
		best = after - before;
		ret = boot - before - best / 2;
	}
	/* It is read a little late or early. */
	return ret < SLEEP_MIN_NS || ret > UINT64_MAX - SLEEP_MIN_NS ? 0 : ret;
}

void rut_script_hits_begin(struct rut_script_hits *h)
{
	uint64_t ns = slept_ns(), now = rut_now_ns();

	/* Of hits since the last time it is not known whether they were before the sleep. */
	if (ns - h->slept_ns[1] + SLEEP_MIN_NS > 2 * SLEEP_MIN_NS) {
		h->slept_ns[0] = h->slept_ns[1];
		h->slept_ns[1] = ns;
		h->slept_at_ns = h->begun_ns;
	}
	h->begun_ns = now;
}

void rut_script_hits_event(const struct rut_ruby_event *ev, void *hits)
{
	struct rut_script_hits *h = hits;
	struct rut_ruby_hit hit;
	unsigned char *to;
	struct batch *b;

	if (ev->type == RUT_RUBY_EVENT_LOST)
		h->lost += ev->lost;
	if (ev->type != RUT_RUBY_EVENT_HIT || ev->probe >= RUT_HIT_PROBES)
		return;
	b = &h->batches[ev->probe];
	if (b->prog && b->ctx->sends_bytes) {
		add_turn(h, b, ev);
		return;
	}
	if (!b->prog)
		return;
	to = b->hits + b->n * b->stride;
	if (unpack(b, ev->texts, ev->text_bytes, to + sizeof(hit)) == SIZE_MAX)
		return;
	hit = hit_of(h, ev);
	memcpy(to, &hit, sizeof(hit));
	if (++b->n == b->cap)
		run(h, b);
}

int rut_script_hits_run(struct rut_script_hits *h, struct rut_err *err)
{
	for (size_t i = 0; i < RUT_HIT_PROBES; i++)
		if (h->batches[i].prog)
			run(h, &h->batches[i]);
	return result(h, err);
}

uint64_t rut_script_hits_lost(const struct rut_script_hits *h)
{
	return h ? h->lost : 0;
}
