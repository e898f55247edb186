/* SPDX-License-Identifier: MIT */
/* Rows for people: one process's counters since the last reset, with names and in nanoseconds. */
#include "ruby/rows.h"

#include "agent/clock.h"
#include "ruby/running.h"
#include "ruby/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int reserve_names(struct rut_tracee *p, uint32_t count)
{
	uint32_t cap = p->names_cap ? p->names_cap : 256;
	struct rut_tracee_names *to;

	if (count <= p->names_cap)
		return 0;
	while (cap < count)
		cap *= 2;
	to = realloc(p->names, cap * sizeof(*to));
	if (!to)
		return -ENOMEM;
	memset(to + p->names_cap, 0, (cap - p->names_cap) * sizeof(*to));
	p->names = to;
	p->names_cap = cap;
	return 0;
}

/* Nanoseconds of a tick: both clocks have run since the table was made. */
static double tick_ns(const struct rut_tracee *p)
{
	uint64_t ns = 0, ticks = 0;

	if (!p->table->ticks_are_tsc)
		return 1;
	rut_clock_pair(true, &ticks, &ns);
	ns -= p->table->mono0_ns;
	ticks -= p->table->tick0;
	return ticks ? (double)ns / (double)ticks : 1;
}

/* The rows as they are to be read now; NULL: out of memory. */
static const struct rut_agent_row *rows_now(struct rut_tracer *t, struct rut_tracee *p,
					    uint32_t count)
{
	struct rut_agent_row *to;

	if (t->config.mode != RUT_RUBY_TIME)
		return rut_ruby_table_row(p, 0);
	to = realloc(p->rows, (count + 1) * sizeof(*to));
	if (!to)
		return NULL;
	p->rows = to;
	rut_running_add(p, to, count);
	return to;
}

void rut_tracee_rows_keep(struct rut_tracer *t)
{
	for (size_t i = 0; i < t->count; i++) {
		struct rut_tracee *p = t->tracees[i];

		if (!p->exited && p->table)
			rows_now(t, p, rut_ruby_table_count(p));
	}
}

static uint64_t since(uint64_t now, uint64_t base)
{
	return now > base ? now - base : 0;
}

static uint64_t to_ns(uint64_t ticks, double ns)
{
	double r = (double)ticks * ns;

	return r < 18e18 ? (uint64_t)r : 0; /* not a time that was counted */
}

static void fill_buckets(const struct rut_tracee *p, uint32_t i, double ns, struct rut_ruby_row *to)
{
	const struct rut_agent_buckets *now = rut_ruby_table_beside(p, i, sizeof(*now)),
				       *base = NULL;
	struct rut_ruby_buckets *b = &p->buckets[i];

	if (!now)
		return;
	if (p->bucket_base && i < p->base_count)
		base = &p->bucket_base[i];
	b->tick_ns = ns;
	for (unsigned k = 0; k < RUT_BUCKETS; k++) {
		uint32_t n = __atomic_load_n(&now->calls[k], __ATOMIC_RELAXED);

		b->calls[k] = n - (base ? base->calls[k] : 0u);
	}
	to->buckets = b;
}

/* The message beside row `i`; NULL: none, or it changes all the time. */
static const char *message_of(struct rut_tracer *t, const struct rut_tracee *p, uint32_t i)
{
	const struct rut_agent_message *m = rut_ruby_table_beside(p, i, sizeof(*m));
	char text[sizeof(m->text)];

	for (int tries = 0; m && tries < 100; tries++) {
		uint32_t before = __atomic_load_n(&m->sequence, __ATOMIC_ACQUIRE);
		uint32_t len = __atomic_load_n(&m->len, __ATOMIC_RELAXED);
		int64_t id;

		if (before & 1 || len > sizeof(text))
			continue;
		memcpy(text, m->text, len);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&m->sequence, __ATOMIC_RELAXED) != before)
			continue;
		id = len ? rut_strtab_intern(&t->messages, text, len) : -1;
		return id < 0 ? NULL : t->messages.strs[id].data;
	}
	return NULL;
}

static bool fill(struct rut_tracer *t, struct rut_tracee *p, uint32_t i,
		 const struct rut_agent_row *row, double ns, struct rut_ruby_row *to)
{
	static const struct rut_agent_row zero;
	const struct rut_agent_row *base = i < p->base_count ? &p->base[i] : &zero;
	uint32_t flags = __atomic_load_n(&row->flags, __ATOMIC_ACQUIRE);
	struct rut_tracee_names *names = &p->names[i];

	if (!(flags & RUT_ROW_NAMED) || flags & RUT_ROW_EXCLUDED)
		return false;
	if (!names->class_name && !names->path) {
		names->path = rut_ruby_table_string(t, p, row->path);
		names->class_name = rut_ruby_table_string(t, p, row->class_name);
		names->method = rut_ruby_table_string(t, p, row->method);
	}
	*to = (struct rut_ruby_row){
		.pid = p->pid,
		.path = names->path,
		.line = row->line,
		.class_name = names->class_name,
		.method_name = names->method,
		.singleton = flags & RUT_ROW_SINGLETON,
		.calls = since(row->calls, base->calls),
		.total_ns = to_ns(since(row->total, base->total), ns),
		.self_ns = to_ns(since(row->self, base->self), ns),
		.bytes = since(row->bytes, base->bytes),
	};
	if (t->config.mode == RUT_RUBY_TIME)
		to->running = since(row->count, base->count);
	else
		to->count = since(row->count, base->count);
	if (row->epoch == p->table->reset_epoch)
		to->max_ns = to_ns(row->max, ns);
	if (p->buckets && t->config.percentiles)
		fill_buckets(p, i, ns, to);
	if (t->config.mode == RUT_RUBY_RAISES && to->count)
		to->message = message_of(t, p, i);
	return to->calls || to->running || to->count || to->total_ns;
}

bool rut_tracee_rows_get(struct rut_tracer *t, struct rut_tracee *p, uint32_t number,
			 struct rut_ruby_row *ret)
{
	uint32_t count = rut_ruby_table_count(p);

	if (number >= count || reserve_names(p, count) < 0)
		return false;
	/* Without a name it has nothing. */
	*ret = (struct rut_ruby_row){.pid = p->pid};
	fill(t, p, number, rut_ruby_table_row(p, number), 1, ret);
	return true;
}

bool rut_tracee_rows_fill(struct rut_tracer *t, struct rut_tracee *p, struct rut_ruby_row *ret,
			  uint32_t *ret_count)
{
	uint32_t count = rut_ruby_table_count(p), n = 0;
	const struct rut_agent_row *rows = rows_now(t, p, count);
	double ns = tick_ns(p);

	t->ractors |= (uint32_t)p->table->ractors;
	t->rows_folded |= p->table->rows_lost > 0;
	if (!rows || reserve_names(p, count) < 0)
		return false;
	if (t->config.percentiles) {
		struct rut_ruby_buckets *to = reallocarray(p->buckets, count + 1, sizeof(*to));

		if (!to)
			return false;
		p->buckets = to;
	}
	for (uint32_t i = 0; i < count && n < *ret_count; i++)
		n += fill(t, p, i, &rows[i], ns, &ret[n]);
	*ret_count = n;
	return true;
}

static void reset_buckets(struct rut_tracee *p, uint32_t count)
{
	struct rut_agent_buckets *to = reallocarray(p->bucket_base, count + 1, sizeof(*to));

	if (!to)
		return;
	p->bucket_base = to;
	for (uint32_t i = 0; i < count; i++) {
		const struct rut_agent_buckets *now = rut_ruby_table_beside(p, i, sizeof(*now));

		to[i] = now ? *now : (struct rut_agent_buckets){{0}};
	}
}

void rut_tracee_rows_reset(struct rut_tracer *t, struct rut_tracee *p)
{
	uint32_t count = rut_ruby_table_count(p);
	const struct rut_agent_row *rows = rows_now(t, p, count);
	struct rut_agent_row *base = realloc(p->base, (count + 1) * sizeof(*base));

	if (base)
		p->base = base;
	if (!base || !rows)
		return;
	memcpy(base, rows, count * sizeof(*base));
	if (t->config.percentiles)
		reset_buckets(p, count);
	p->base_count = count;
	__atomic_fetch_add(&p->table->reset_epoch, 1, __ATOMIC_RELAXED);
}
