/* SPDX-License-Identifier: MIT */
/*
 * series: numbers over time, as CSV or as LAMI tables.
 *
 * For every interval (--refresh, 1 s without it) one line for each number of each key: of all, or
 * of each CPU, process, disk, peer or control group (--by). Rates are by second of the interval,
 * which ends with the first event after it: an interval without events is part of the one before.
 */
#include "analysis/ordered.h"
#include "analysis/sampler.h"
#include "analysis/stats.h"

#include <stdio.h>
#include <string.h>

enum by { BY_ALL, BY_CPU, BY_PROCESS, BY_DISK, BY_PEER, BY_CGROUP };

/* What is counted, and what latencies are measured. */
enum {
	N_SWITCHES,
	N_WAKEUPS,
	N_CALLS,
	N_ERRORS,
	N_READ,
	N_WRITTEN,
	N_IRQS,
	N_PAGES,
	N_DISCARDED,
	N_NUMBERS
};
enum { L_CALL, L_IO, L_DISK, L_SCHED, L_LATENCIES };

static const char *const number_names[N_NUMBERS] = {
	"switches_per_s", "wakeups_per_s",    "syscalls_per_s",
	"errors_per_s",	  "read_bytes_per_s", "written_bytes_per_s",
	"irqs_per_s",	  "pages_per_s",      "discarded_bytes_per_s",
};
static const char *const latency_names[L_LATENCIES] = {"syscall", "io", "disk", "sched"};

struct key {
	bool is_init;
	char name[96];
	bool used_numbers[N_NUMBERS];
	uint64_t numbers[N_NUMBERS];
	struct rut_stat *latencies[L_LATENCIES]; /* owned; NULL: none */
	int64_t busy_ns;
	bool has_busy;
	/* Time-weighted sum of the requests that are pending. */
	int64_t depth_ns;
	bool has_depth;
};

struct series {
	struct rut_sampler base;
	enum by by;
	struct rut_ordered keys;
	struct key *last; /* asked for last, by this id: most often it is so again */
	uint64_t last_id;
};

static const struct rut_lami_column columns[] = {
	{"by", "By", RUT_LAMI_STRING, NULL},
	{"key", "Key", RUT_LAMI_STRING, NULL},
	{"metric", "Metric", RUT_LAMI_STRING, NULL},
	{"value", "Value", RUT_LAMI_NUMBER, NULL},
};
static const struct rut_lami_class series_class =
	RUT_LAMI_CLASS("series", "Numbers of an interval", columns);

static const char *const by_names[] = {"all", "cpu", "process", "disk", "peer", "cgroup"};

static enum by by_of(const char *s)
{
	for (size_t i = 0; s && i < sizeof(by_names) / sizeof(*by_names); i++)
		if (!strcmp(s, by_names[i]))
			return (enum by)i;
	return BY_ALL;
}

/* ---- Keys ---- */

static struct key *get_key(struct series *s, uint64_t id)
{
	struct key *k = s->last;

	if (__builtin_expect(k && s->last_id == id, 1))
		return k;
	k = rut_an_ordered_add(&s->keys, id, sizeof(*k));
	if (!k)
		s->base.base.run->engine->state.failed = true;
	s->last = k;
	s->last_id = id;
	return k;
}

/* "name", or "name (number)" where there is one. */
static void name_key(struct key *k, const char *name, const int64_t *number)
{
	if (!k || k->is_init)
		return;
	k->is_init = true;
	if (number)
		snprintf(k->name, sizeof(k->name), "%.64s%s%lld%s", name, *name ? " (" : "",
			 (long long)*number, *name ? ")" : "");
	else
		snprintf(k->name, sizeof(k->name), "%.90s", name);
}

/* The key of what a thread does on a CPU; NULL: it is not counted by this. */
static struct key *key_of(struct series *s, int cpu, struct rut_thread *t)
{
	struct rut_state *st = &s->base.base.run->engine->state;
	const int64_t number = cpu;
	struct key *k;

	switch (s->by) {
	case BY_ALL:
		k = get_key(s, 0);
		name_key(k, "all", NULL);
		return k;
	case BY_CPU:
		k = get_key(s, (uint64_t)cpu);
		name_key(k, "", &number);
		return k;
	case BY_PROCESS:
		if (!t || !t->tid)
			return NULL;
		t = rut_an_state_leader(st, t);
		k = get_key(s, (uint64_t)t->tid);
		name_key(k, t->comm, &t->tid);
		return k;
	case BY_CGROUP:
		if (!t || !t->tid)
			return NULL;
		k = get_key(s, (uintptr_t)t->cgroup);
		name_key(k, t->cgroup ? t->cgroup : "unknown", NULL);
		return k;
	default:
		return NULL;
	}
}

static void add(struct key *k, int what, uint64_t n)
{
	if (!k)
		return;
	k->used_numbers[what] = true;
	k->numbers[what] += n;
}

static void add_latency(struct series *s, struct key *k, int what, int64_t ns)
{
	if (!k)
		return;
	if (!k->latencies[what]) {
		k->latencies[what] = calloc(1, sizeof(struct rut_stat));
		if (!k->latencies[what] || rut_an_stat_init(k->latencies[what], RUT_STAT_HIST)) {
			s->base.base.run->engine->state.failed = true;
			free(k->latencies[what]);
			k->latencies[what] = NULL;
			return;
		}
	}
	rut_stat_add(k->latencies[what], ns);
}

/* ---- What happens ---- */

/* The key of a sample, where it is counted by this. */
static struct key *key_of_sample(struct series *s, const struct rut_sample *x)
{
	return key_of(s, x->cpu, x->thread);
}

static void count_switch(struct series *s, const struct rut_sample *x)
{
	add(key_of_sample(s, x), N_SWITCHES, 1);
}

static void count_wakeup(struct series *s, const struct rut_sample *x)
{
	struct key *k = key_of_sample(s, x);

	add(k, N_WAKEUPS, 1);
	add_latency(s, k, L_SCHED, x->end_ns - x->begin_ns);
}

static void count_call(struct series *s, const struct rut_sample *x)
{
	struct key *k = key_of_sample(s, x);

	add(k, N_CALLS, 1);
	if (x->error)
		add(k, N_ERRORS, 1);
	add_latency(s, k, L_CALL, x->end_ns - x->begin_ns);
}

static struct key *peer_of(struct series *s, const struct rut_hook_io *h)
{
	const struct rut_fd *f = h->rq->has_fd ? rut_an_state_fd(h->parent, h->rq->fd) : NULL;
	struct key *k;

	if (!f || (f->type != RUT_FD_NET && f->type != RUT_FD_MAYBE_NET))
		return NULL;
	k = get_key(s, (uintptr_t)f->filename);
	name_key(k, f->filename, NULL);
	return k;
}

static void count_io(struct series *s, const struct rut_sample *x)
{
	const struct rut_hook_io *h = x->hook;
	const struct rut_io_rq *rq = h->rq;
	struct key *k = s->by == BY_PEER ? peer_of(s, h) : key_of_sample(s, x);

	if (rq->op == RUT_IO_NONE || rq->op == RUT_IO_OPEN || rq->op == RUT_IO_CLOSE)
		return;
	add_latency(s, k, L_IO, x->end_ns - x->begin_ns);
	if (!rq->has_size || rq->error)
		return;
	if (rq->op != RUT_IO_WRITE)
		add(k, N_READ, (uint64_t)rq->size);
	if (rq->op != RUT_IO_READ)
		add(k, N_WRITTEN, (uint64_t)rq->size);
}

static void count_disk(struct series *s, const struct rut_sample *x)
{
	const struct rut_hook_block *h = x->hook;
	int64_t begin = x->begin_ns > s->base.base.begin_ns ? x->begin_ns : s->base.base.begin_ns;
	struct key *k = NULL;

	if (s->by == BY_DISK) {
		k = get_key(s, (uint64_t)h->disk->dev);
		name_key(k, x->what, NULL);
	} else if (s->by == BY_ALL) {
		k = key_of_sample(s, x);
	}
	if (!k)
		return;
	if (rut_block_moves_data(h->rq->op)) {
		add(k, h->rq->op == RUT_BLOCK_WRITE ? N_WRITTEN : N_READ,
		    s->by == BY_DISK ? h->rq->nr_sector * 512 : 0);
		add_latency(s, k, L_DISK, x->end_ns - x->begin_ns);
	} else if (h->rq->op == RUT_BLOCK_DISCARD || h->rq->op == RUT_BLOCK_ERASE) {
		add(k, N_DISCARDED, h->rq->nr_sector * 512);
	}
	k->has_depth = true;
	k->depth_ns += x->end_ns - begin;
}

static void count_irq(struct series *s, const struct rut_sample *x)
{
	if (s->by == BY_ALL || s->by == BY_CPU)
		add(key_of_sample(s, x), N_IRQS, 1);
}

static void count_page(struct series *s, const struct rut_sample *x)
{
	add(key_of_sample(s, x), N_PAGES, 1);
}

static void count_run(struct series *s, const struct rut_sample *x)
{
	struct key *k = key_of_sample(s, x);

	if (!k)
		return;
	k->has_busy = true;
	k->busy_ns += x->end_ns - x->begin_ns;
}

static void on_sample(struct rut_sampler *base, const struct rut_sample *x)
{
	static void (*const count[])(struct series * s, const struct rut_sample *x) = {
		[RUT_SAMPLE_CPU] = count_run,	   [RUT_SAMPLE_SWITCH] = count_switch,
		[RUT_SAMPLE_SCHED] = count_wakeup, [RUT_SAMPLE_SYSCALL] = count_call,
		[RUT_SAMPLE_IO] = count_io,	   [RUT_SAMPLE_DISK] = count_disk,
		[RUT_SAMPLE_IRQ] = count_irq,	   [RUT_SAMPLE_SOFTIRQ] = count_irq,
		[RUT_SAMPLE_PAGE] = count_page,
	};

	count[x->kind]((struct series *)base, x);
}

/* Peers are the names of descriptors. */
static bool asks_files(const struct rut_conf *conf)
{
	return by_of(conf->by) == BY_PEER;
}

static int init(struct rut_instance *inst)
{
	struct series *s = (struct series *)inst;

	s->by = by_of(inst->run->conf->by);
	s->base.fn = on_sample;
	return rut_an_sampler_init(&s->base);
}

/* ---- Report ---- */

static void add_row(struct rut_result *t, const struct series *s, const struct key *k,
		    const char *metric, double value)
{
	rut_an_result_text(t, RUT_LAMI_STRING, by_names[s->by]);
	rut_an_result_text(t, RUT_LAMI_STRING, k->name);
	rut_an_result_text(t, RUT_LAMI_STRING, metric);
	rut_an_result_float(t, RUT_LAMI_NUMBER, value);
}

static void add_key(struct rut_result *t, const struct series *s, const struct key *k, double span)
{
	static const double quantiles[] = {0.5, 0.9, 0.99};
	char name[64];

	if (k->has_busy)
		add_row(t, s, k, "cpus_used", (double)k->busy_ns / 1e9 / span);
	for (int i = 0; i < N_NUMBERS; i++)
		if (k->used_numbers[i])
			add_row(t, s, k, number_names[i], (double)k->numbers[i] / span);
	for (int i = 0; i < L_LATENCIES; i++) {
		const struct rut_stat *l = k->latencies[i];

		for (int q = 0; l && q < 3; q++) {
			snprintf(name, sizeof(name), "%s_p%d_us", latency_names[i],
				 (int)(quantiles[q] * 100 + 0.5));
			add_row(t, s, k, name, rut_an_hist_quantile(l->hist, quantiles[q]) / 1e3);
		}
		if (l) {
			snprintf(name, sizeof(name), "%s_max_us", latency_names[i]);
			add_row(t, s, k, name, (double)l->max / 1e3);
		}
	}
	if (k->has_depth)
		add_row(t, s, k, "queue_depth", (double)k->depth_ns / 1e9 / span);
}

/* A field of CSV; quoted where it has to be (RFC 4180). */
static void put_field(struct rut_buf *out, const char *s)
{
	if (!strpbrk(s, ",\"\r\n")) {
		rut_buf_puts(out, s);
		return;
	}
	rut_buf_puts(out, "\"");
	for (; *s; s++)
		rut_buf_printf(out, *s == '"' ? "\"\"" : "%c", *s);
	rut_buf_puts(out, "\"");
}

static void print_ns(struct rut_buf *out, int64_t ns)
{
	rut_buf_printf(out, "%lld.%09lld,", (long long)(ns / 1000000000),
		       (long long)(ns % 1000000000));
}

static void print(const struct rut_result *t, struct rut_buf *out)
{
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *c = rut_result_row(t, i);

		print_ns(out, t->begin_ns);
		print_ns(out, t->end_ns);
		for (int k = 0; k < 3; k++) {
			put_field(out, c[k].str ? c[k].str : "");
			rut_buf_puts(out, ",");
		}
		rut_buf_printf(out, "%.9g\n", rut_an_cell_value(&c[3]));
	}
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	struct series *s = (struct series *)inst;
	double span = (double)(end_ns - inst->begin_ns) / 1e9;
	struct rut_result *t = rut_an_result_new(&series_class, inst->begin_ns, end_ns, NULL);

	rut_an_sampler_finish(&s->base, end_ns);
	if (!inst->run->conf->mi && !inst->run->reports)
		rut_buf_puts(&inst->run->out, "begin,end,by,key,metric,value\n");
	for (size_t i = 0; t && span > 0 && i < s->keys.n; i++)
		add_key(t, s, s->keys.items[i], span);
	rut_an_run_take(inst->run, t, print);
}

static void fini(struct rut_instance *inst)
{
	struct series *s = (struct series *)inst;

	for (size_t i = 0; i < s->keys.n; i++) {
		struct key *k = s->keys.items[i];

		for (int l = 0; l < L_LATENCIES; l++) {
			if (k->latencies[l])
				rut_an_stat_fini(k->latencies[l]);
			free(k->latencies[l]);
		}
	}
	rut_an_ordered_fini(&s->keys);
	rut_an_sampler_fini(&s->base);
}

static const char *const tags[] = {"linux-kernel", "rutile", "series", NULL};
static const struct rut_lami_class *const classes[] = {&series_class, NULL};

const struct rut_analysis rut_analysis_series = {
	.info = {"Series", "Rates, latencies and queues over time", tags, classes},
	.needs = rut_an_sampler_needs,
	.instance_size = sizeof(struct series),
	.hooks = rut_an_sampler_hooks,
	.asks_files = asks_files,
	.init = init,
	.report = report,
	.fini = fini,
};
