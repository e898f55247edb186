/* SPDX-License-Identifier: MIT */
/*
 * series: numbers over time, as CSV or as LAMI tables.
 *
 * For every interval (--refresh, 1 s without it) one line for each number of each key: of all, or
 * of each CPU, process, disk, peer or control group (--by). Rates are by second of the interval,
 * which ends with the first event after it: an interval without events is part of the one before.
 */
#include "analysis/engine.h"
#include "analysis/ordered.h"
#include "analysis/stats.h"

#include <stdio.h>
#include <string.h>

enum by { BY_ALL, BY_CPU, BY_PROCESS, BY_DISK, BY_PEER, BY_CGROUP };

/* What is counted, and what latencies are measured. */
enum { N_SWITCHES, N_WAKEUPS, N_CALLS, N_ERRORS, N_READ, N_WRITTEN, N_IRQS, N_PAGES, N_NUMBERS };
enum { L_CALL, L_IO, L_DISK, L_SCHED, L_LATENCIES };

static const char *const number_names[N_NUMBERS] = {
	"switches_per_s",   "wakeups_per_s",	   "syscalls_per_s", "errors_per_s",
	"read_bytes_per_s", "written_bytes_per_s", "irqs_per_s",     "pages_per_s",
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
	struct rut_instance base;
	enum by by;
	struct rut_ordered keys;
	int64_t *since_ns; /* owned, by CPU: when its thread began to run; RUT_NO_TIME: idle */
	size_t n_cpus;
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
	struct key *k = rut_ordered_add(&s->keys, id, sizeof(*k));

	if (!k)
		s->base.run->engine->state.failed = true;
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

/* The key of what a thread does on a CPU; NULL: it is not counted, or not by this. */
static struct key *key_of(struct series *s, int cpu, struct rut_thread *t)
{
	const struct rut_conf *c = s->base.run->conf;
	struct rut_state *st = &s->base.run->engine->state;
	const int64_t number = cpu;
	struct key *k;

	if (!rut_conf_cpu(c, cpu) || (t && !rut_conf_thread(c, t)))
		return NULL;
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
		t = rut_state_leader(st, t);
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
		if (!k->latencies[what] || rut_stat_init(k->latencies[what], RUT_STAT_HIST)) {
			s->base.run->engine->state.failed = true;
			free(k->latencies[what]);
			k->latencies[what] = NULL;
			return;
		}
	}
	rut_stat_add(k->latencies[what], ns);
}

/* ---- What happens ---- */

static void add_busy(struct series *s, int cpu, struct rut_thread *t, int64_t end_ns)
{
	struct key *k;

	if (cpu < 0 || (size_t)cpu >= s->n_cpus || s->since_ns[cpu] == RUT_NO_TIME)
		return;
	k = key_of(s, cpu, t);
	if (k) {
		k->has_busy = true;
		k->busy_ns += end_ns - s->since_ns[cpu];
	}
	s->since_ns[cpu] = RUT_NO_TIME;
}

static bool reserve_cpu(struct series *s, int cpu)
{
	size_t n = ((size_t)cpu + 16) & ~(size_t)15;
	int64_t *to;

	if (cpu < 0 || cpu > 65535)
		return false;
	if ((size_t)cpu < s->n_cpus)
		return true;
	to = realloc(s->since_ns, n * sizeof(*to));
	if (!to) {
		s->base.run->engine->state.failed = true;
		return false;
	}
	s->since_ns = to;
	for (; s->n_cpus < n; s->n_cpus++)
		to[s->n_cpus] = RUT_NO_TIME;
	return true;
}

static void on_switch(void *arg, const void *data)
{
	const struct rut_hook_switch *h = data;
	struct series *s = arg;

	if (h->prev_tid && h->gap_tid < 0)
		add_busy(s, h->cpu, h->prev, h->ts_ns);
	if (reserve_cpu(s, h->cpu))
		s->since_ns[h->cpu] = h->next_tid ? h->ts_ns : RUT_NO_TIME;
	add(key_of(s, h->cpu, h->next), N_SWITCHES, 1);
	if (h->wakeup_ns != RUT_NO_TIME && h->next_tid) {
		struct key *k = key_of(s, h->cpu, h->next);

		add(k, N_WAKEUPS, 1);
		add_latency(s, k, L_SCHED, h->ts_ns - h->wakeup_ns);
	}
}

static void on_syscall_exit(void *arg, const void *data)
{
	const struct rut_hook_syscall *h = data;
	struct series *s = arg;
	struct key *k = key_of(s, h->cpu, h->thread);

	add(k, N_CALLS, 1);
	if (h->has_ret && h->ret < 0 && h->ret >= -4095)
		add(k, N_ERRORS, 1);
	add_latency(s, k, L_CALL, h->duration_ns);
}

static void on_io(void *arg, const void *data)
{
	const struct rut_hook_io *h = data;
	const struct rut_io_rq *rq = h->rq;
	struct series *s = arg;
	struct key *k = key_of(s, h->cpu, h->thread);

	if (s->by == BY_PEER && rq->has_fd && rut_conf_thread(s->base.run->conf, h->thread)) {
		const struct rut_fd *f = rut_state_fd(h->parent, rq->fd);

		if (f && (f->type == RUT_FD_NET || f->type == RUT_FD_MAYBE_NET)) {
			k = get_key(s, (uintptr_t)f->filename);
			name_key(k, f->filename, NULL);
		}
	}
	if (rq->op == RUT_IO_NONE || rq->op == RUT_IO_OPEN || rq->op == RUT_IO_CLOSE)
		return;
	add_latency(s, k, L_IO, rq->end_ns - rq->begin_ns);
	if (!rq->has_size || rq->error)
		return;
	if (rq->op != RUT_IO_WRITE)
		add(k, N_READ, (uint64_t)rq->size);
	if (rq->op != RUT_IO_READ)
		add(k, N_WRITTEN, (uint64_t)rq->size);
}

static void on_block(void *arg, const void *data)
{
	const struct rut_hook_block *h = data;
	struct series *s = arg;
	struct key *k = NULL;
	int64_t begin = h->rq->begin_ns > s->base.begin_ns ? h->rq->begin_ns : s->base.begin_ns;

	if (s->by == BY_DISK) {
		k = get_key(s, (uint64_t)h->disk->dev);
		name_key(k, h->disk->name ? h->disk->name : "",
			 h->disk->name ? NULL : &h->disk->dev);
	} else if (s->by == BY_ALL) {
		k = key_of(s, h->cpu, h->thread);
	}
	if (!k)
		return;
	add(k, h->rq->write ? N_WRITTEN : N_READ, s->by == BY_DISK ? h->rq->nr_sector * 512 : 0);
	add_latency(s, k, L_DISK, h->rq->end_ns - h->rq->begin_ns);
	k->has_depth = true;
	k->depth_ns += h->rq->end_ns - begin;
}

static void on_irq(void *arg, const void *data)
{
	const struct rut_hook_irq *h = data;
	struct series *s = arg;

	if (s->by == BY_ALL || s->by == BY_CPU)
		add(key_of(s, h->cpu, NULL), N_IRQS, 1);
}

static void on_page(void *arg, const void *data)
{
	const struct rut_hook_thread *h = data;

	add(key_of(arg, h->cpu, h->thread), N_PAGES, 1);
}

static const struct rut_analysis_hook hooks[] = {
	{RUT_HOOK_SWITCH, on_switch},	{RUT_HOOK_SYSCALL_EXIT, on_syscall_exit},
	{RUT_HOOK_IO_EXIT, on_io},	{RUT_HOOK_BLOCK_DONE, on_block},
	{RUT_HOOK_IRQ_EXIT, on_irq},	{RUT_HOOK_SOFTIRQ_EXIT, on_irq},
	{RUT_HOOK_PAGE_ALLOC, on_page}, {0, NULL},
};

static int init(struct rut_instance *inst)
{
	struct series *s = (struct series *)inst;
	const struct rut_state *st = &inst->run->engine->state;

	s->by = by_of(inst->run->conf->by);
	for (size_t i = 0; i < st->n_cpus; i++)
		if (st->cpus[i].current && st->cpus[i].switched && reserve_cpu(s, (int)i))
			s->since_ns[i] = inst->begin_ns;
	return 0;
}

/* ---- Report ---- */

static void add_row(struct rut_result *t, const struct series *s, const struct key *k,
		    const char *metric, double value)
{
	rut_result_text(t, RUT_LAMI_STRING, by_names[s->by]);
	rut_result_text(t, RUT_LAMI_STRING, k->name);
	rut_result_text(t, RUT_LAMI_STRING, metric);
	rut_result_float(t, RUT_LAMI_NUMBER, value);
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
			add_row(t, s, k, name, rut_hist_quantile(l->hist, quantiles[q]) / 1e3);
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
		rut_buf_printf(out, "%.9g\n", rut_cell_value(&c[3]));
	}
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	struct series *s = (struct series *)inst;
	struct rut_state *st = &inst->run->engine->state;
	double span = (double)(end_ns - inst->begin_ns) / 1e9;
	struct rut_result *t = rut_result_new(&series_class, inst->begin_ns, end_ns, NULL);

	for (size_t i = 0; i < st->n_cpus; i++)
		if (st->cpus[i].current)
			add_busy(s, (int)i, st->cpus[i].current, end_ns);
	if (!inst->run->conf->mi && !inst->run->reports)
		rut_buf_puts(&inst->run->out, "begin,end,by,key,metric,value\n");
	for (size_t i = 0; t && span > 0 && i < s->keys.n; i++)
		add_key(t, s, s->keys.items[i], span);
	rut_run_take(inst->run, t, print);
}

static void fini(struct rut_instance *inst)
{
	struct series *s = (struct series *)inst;

	for (size_t i = 0; i < s->keys.n; i++) {
		struct key *k = s->keys.items[i];

		for (int l = 0; l < L_LATENCIES; l++) {
			if (k->latencies[l])
				rut_stat_fini(k->latencies[l]);
			free(k->latencies[l]);
		}
	}
	rut_ordered_fini(&s->keys);
	free(s->since_ns);
}

static const char *const tags[] = {"linux-kernel", "rutile", "series", NULL};
static const struct rut_lami_class *const classes[] = {&series_class, NULL};

const struct rut_analysis rut_analysis_series = {
	.info = {"Series", "Rates, latencies and queues over time", tags, classes},
	.instance_size = sizeof(struct series),
	.hooks = hooks,
	.init = init,
	.report = report,
	.fini = fini,
};
