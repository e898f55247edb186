/* SPDX-License-Identifier: MIT */
/* irqstats, irqfreq, irqlog: how long interrupts and softirqs took. */
#include "analysis/engine.h"
#include "analysis/fmt.h"
#include "analysis/freq.h"
#include "analysis/ordered.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct irq_stats {
	int64_t nr;
	const char *names[8]; /* devices that share a line */
	size_t n_names;
	struct rut_stat duration, latency; /* latency: from raise to entry */
	bool is_init;
};

struct log_row {
	bool hard;
	int cpu;
	int64_t nr, raise_ns, begin_ns, end_ns;
};

struct irq {
	struct rut_instance base;
	struct rut_ordered hard, soft;
	struct rut_stat all; /* for uniform distributions */
	struct log_row *log; /* owned */
	size_t n_log, cap_log;
};

static const struct rut_lami_column log_columns[] = {
	{"time_range", "Time range", RUT_LAMI_TIME_RANGE, NULL},
	{"raised_ts", "Raised timestamp", RUT_LAMI_TIMESTAMP, NULL},
	{"cpu", "CPU", RUT_LAMI_CPU, NULL},
	{"irq", "Interrupt", RUT_LAMI_IRQ, NULL},
};

#define STATS_COLUMNS                                                                              \
	{"irq", "Interrupt", RUT_LAMI_IRQ, NULL},                                                  \
		{"count", "Interrupt count", RUT_LAMI_NUMBER, "interrupts"},                       \
		{"min_duration", "Minimum duration", RUT_LAMI_DURATION, NULL},                     \
		{"avg_duration", "Average duration", RUT_LAMI_DURATION, NULL},                     \
		{"max_duration", "Maximum duration", RUT_LAMI_DURATION, NULL},                     \
	{                                                                                          \
		"stdev_duration", "Interrupt duration standard deviation", RUT_LAMI_DURATION, NULL \
	}

static const struct rut_lami_column hard_columns[] = {STATS_COLUMNS};

static const struct rut_lami_column soft_columns[] = {
	STATS_COLUMNS,
	{"raise_count", "Interrupt raise count", RUT_LAMI_NUMBER, "interrupt raises"},
	{"min_latency", "Minimum raise latency", RUT_LAMI_DURATION, NULL},
	{"avg_latency", "Average raise latency", RUT_LAMI_DURATION, NULL},
	{"max_latency", "Maximum raise latency", RUT_LAMI_DURATION, NULL},
	{"stdev_latency", "Interrupt raise latency standard deviation", RUT_LAMI_DURATION, NULL},
};

static const struct rut_lami_column freq_columns[] = {
	{"duration_lower", "Duration (lower bound)", RUT_LAMI_DURATION, NULL},
	{"duration_upper", "Duration (upper bound)", RUT_LAMI_DURATION, NULL},
	{"count", "Interrupt count", RUT_LAMI_NUMBER, "interrupts"},
};

static const struct rut_lami_column summary_columns[] = {
	{"time_range", "Time range", RUT_LAMI_TIME_RANGE, NULL},
	{"count", "Total interrupt count", RUT_LAMI_NUMBER, "interrupts"},
};

static const struct rut_lami_class log_class = RUT_LAMI_CLASS("log", "Interrupt log", log_columns);
static const struct rut_lami_class hard_class =
	RUT_LAMI_CLASS("hard-stats", "Hardware interrupt statistics", hard_columns);
static const struct rut_lami_class soft_class =
	RUT_LAMI_CLASS("soft-stats", "Software interrupt statistics", soft_columns);
static const struct rut_lami_class freq_class =
	RUT_LAMI_CLASS("freq", "Interrupt handler duration frequency distribution", freq_columns);
static const struct rut_lami_class summary =
	RUT_LAMI_CLASS("summary", "Interrupt statistics - summary", summary_columns);

/* ---- What happens ---- */

static struct irq_stats *get_stats(struct irq *i, struct rut_ordered *o, int64_t nr)
{
	struct irq_stats *s = rut_an_ordered_add(o, (uint64_t)nr, sizeof(*s));
	unsigned keep = rut_an_stat_keep(i->base.run->conf);

	if (s && !s->is_init) {
		s->is_init = true;
		s->nr = nr;
		if (rut_an_stat_init(&s->duration, keep) ||
		    rut_an_stat_init(&s->latency, keep & RUT_STAT_HIST))
			i->base.run->engine->state.failed = true;
	}
	return s;
}

static void on_entry(void *arg, const void *data)
{
	const struct rut_hook_irq *h = data;
	struct irq *i = arg;
	struct irq_stats *s = get_stats(i, &i->hard, h->nr);

	for (size_t k = 0; s && k < s->n_names; k++)
		if (s->names[k] == h->name)
			return;
	if (s && s->n_names < 8)
		s->names[s->n_names++] = h->name;
}

static bool passes(const struct irq *i, const struct rut_hook_irq *h)
{
	const struct rut_conf *c = i->base.run->conf;
	const struct rut_state *st = &i->base.run->engine->state;
	double d = (double)(h->end_ns - h->begin_ns);

	/* The thread that was interrupted. */
	if (c->n_tids || c->n_pids || c->n_procnames) {
		const struct rut_thread *t = h->cpu >= 0 && (size_t)h->cpu < st->n_cpus
						     ? st->cpus[h->cpu].current
						     : NULL;

		if (!t || !rut_an_conf_thread(c, t))
			return false;
	}
	return rut_an_conf_cpu(c, h->cpu) && !(c->has_min && d < c->min_ns) &&
	       !(c->has_max && d > c->max_ns);
}

static void log_irq(struct irq *i, const struct rut_hook_irq *h, bool hard)
{
	if (!i->base.run->conf->log)
		return;
	if (i->n_log == i->cap_log) {
		size_t cap = i->cap_log ? i->cap_log * 2 : 256;
		void *log = realloc(i->log, cap * sizeof(*i->log));

		if (!log) {
			i->base.run->engine->state.failed = true;
			return;
		}
		i->log = log;
		i->cap_log = cap;
	}
	i->log[i->n_log++] =
		(struct log_row){hard, h->cpu, h->nr, h->raise_ns, h->begin_ns, h->end_ns};
}

static void count(struct irq *i, const struct rut_hook_irq *h, bool hard)
{
	struct irq_stats *s;

	if (!passes(i, h))
		return;
	log_irq(i, h, hard);
	s = get_stats(i, hard ? &i->hard : &i->soft, h->nr);
	if (!s)
		return;
	rut_stat_add(&s->duration, h->end_ns - h->begin_ns);
	rut_stat_add(&i->all, h->end_ns - h->begin_ns);
	if (!hard && h->raise_ns != RUT_NO_TIME)
		rut_stat_add(&s->latency, h->begin_ns - h->raise_ns);
}

static void on_irq_exit(void *arg, const void *data)
{
	count(arg, data, true);
}

static void on_softirq_exit(void *arg, const void *data)
{
	count(arg, data, false);
}

static const struct rut_analysis_hook hooks[] = {
	{RUT_HOOK_IRQ_ENTRY, on_entry},
	{RUT_HOOK_IRQ_EXIT, on_irq_exit},
	{RUT_HOOK_SOFTIRQ_EXIT, on_softirq_exit},
	{0, NULL},
};

/* ---- Tables ---- */

static void irq_name(const struct irq *i, bool hard, int64_t nr, char *out, size_t size)
{
	const struct irq_stats *s = hard ? rut_ordered_get(&i->hard, (uint64_t)nr) : NULL;
	size_t at = 0;

	if (!hard && rut_an_softirq_name(nr)) {
		snprintf(out, size, "%s", rut_an_softirq_name(nr));
		return;
	}
	snprintf(out, size, "unknown");
	for (size_t k = 0; s && k < s->n_names && at < size; k++)
		at += (size_t)snprintf(out + at, size - at, "%s%s", k ? ", " : "", s->names[k]);
}

enum { OPT_IRQ = RUT_ANALYSIS_OPT, OPT_SOFTIRQ };

static const struct rut_opt options[] = {
	{"irq", "LIST", "only these interrupts", OPT_IRQ},
	{"softirq", "LIST", "only these softirqs", OPT_SOFTIRQ},
	{0},
};

struct own {
	const char *irqs, *softirqs; /* as given; NULL: not given */
};

static int option(void *own, int id, const char *value)
{
	struct own *o = own;

	*(id == OPT_IRQ ? &o->irqs : &o->softirqs) = value;
	return 0;
}

/* With one of the two options, the other kind is left out. */
static bool listed(const struct rut_conf *c, bool hard, int64_t nr)
{
	const struct own *o = c->own;
	const char *list = o ? (hard ? o->irqs : o->softirqs) : NULL;
	char text[24];

	if (!list)
		return !o || !(hard ? o->softirqs : o->irqs);
	snprintf(text, sizeof(text), "%lld", (long long)nr);
	return rut_an_conf_lists(list, text);
}

/* The rows from `from` to before `to`. */
static struct rut_result *log_table(struct irq *i, size_t from, size_t to, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&log_class, i->base.begin_ns, end_ns, NULL);
	char name[256];

	for (size_t k = from; t && k < to; k++) {
		const struct log_row *r = &i->log[k];

		if (!listed(i->base.run->conf, r->hard, r->nr))
			continue;
		irq_name(i, r->hard, r->nr, name, sizeof(name));
		rut_an_result_range(t, r->begin_ns, r->end_ns);
		if (r->hard)
			rut_an_result_empty(t);
		else if (r->raise_ns == RUT_NO_TIME)
			rut_an_result_unknown(t);
		else
			rut_an_result_int(t, RUT_LAMI_TIMESTAMP, r->raise_ns);
		rut_an_result_int(t, RUT_LAMI_CPU, r->cpu);
		rut_an_result_irq(t, r->hard, r->nr, name);
	}
	return t;
}

static void add_stats_row(struct irq *i, bool hard, const struct irq_stats *s, struct rut_result *t)
{
	char name[256];

	irq_name(i, hard, s->nr, name, sizeof(name));
	rut_an_result_irq(t, hard, s->nr, name);
	rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)s->duration.count);
	rut_an_stat_cells(t, &s->duration);
	if (hard)
		return;
	rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)s->latency.count);
	if (s->latency.count)
		rut_an_stat_cells(t, &s->latency);
	for (int k = 0; !s->latency.count && k < 4; k++)
		rut_an_result_unknown(t);
}

static struct rut_result *freq_table(struct irq *i, bool hard, const struct irq_stats *s,
				     int64_t end_ns)
{
	const struct rut_conf *c = i->base.run->conf;
	struct rut_result *t;
	struct rut_freq f;
	char name[256], subtitle[300];

	irq_name(i, hard, s->nr, name, sizeof(name));
	snprintf(subtitle, sizeof(subtitle), "%s (%lld)", name, (long long)s->nr);
	t = rut_an_result_new(&freq_class, i->base.begin_ns, end_ns, subtitle);
	if (c->uniform)
		f = rut_an_freq_uniform(i->base.run, 0, i->all.count, (double)i->all.min,
					(double)i->all.max, 1000);
	else
		f = rut_an_freq_bounds(c, (double)s->duration.min, (double)s->duration.max, 1000);
	if (t)
		rut_an_freq_fill(&f, &s->duration, t);
	return t;
}

static int by_nr(const void *a, const void *b)
{
	int64_t x = ((const struct irq_stats *)a)->nr, y = ((const struct irq_stats *)b)->nr;

	return x < y ? -1 : x > y;
}

struct tables {
	struct rut_result *hard, *soft;
	struct rut_result **freqs; /* owned */
	size_t n_freqs;
};

static void fill_tables(struct irq *i, bool hard, int64_t end_ns, struct tables *t,
			struct rut_result *pct)
{
	const struct rut_ordered *o = hard ? &i->hard : &i->soft;
	struct irq_stats **list = (struct irq_stats **)rut_an_ordered_sorted(o, by_nr);
	const struct rut_conf *c = i->base.run->conf;
	char name[256], what[320];

	for (size_t k = 0; list && k < o->n; k++) {
		if (!listed(c, hard, list[k]->nr) || !list[k]->duration.count)
			continue;
		if (c->stats && t->hard && t->soft)
			add_stats_row(i, hard, list[k], hard ? t->hard : t->soft);
		if (c->freq)
			t->freqs[t->n_freqs++] = freq_table(i, hard, list[k], end_ns);
		irq_name(i, hard, list[k]->nr, name, sizeof(name));
		snprintf(what, sizeof(what), "%s %lld <%s>", hard ? "irq" : "softirq",
			 (long long)list[k]->nr, name);
		rut_an_percentiles_add(pct, what, &list[k]->duration);
		snprintf(what, sizeof(what), "raise latency %lld <%s>", (long long)list[k]->nr,
			 name);
		rut_an_percentiles_add(pct, what, &list[k]->latency);
	}
	free(list);
}

/* ---- Text ---- */

static void dashes(struct rut_buf *out, int n)
{
	for (; n > 0; n--)
		rut_buf_putc(out, '-');
}

static void print_header(struct rut_buf *out, bool hard)
{
	if (hard) {
		rut_an_fmt_line(out, "{:<52} {:<12}\n", "Hard IRQ", "Duration (us)");
		rut_an_fmt_line(out, "{:<22} {:<14} {:<12} {:<12} {:<10} {:<12}\n", "", "count",
				"min", "avg", "max", "stdev");
		dashes(out, 82);
		rut_buf_puts(out, "|\n");
		return;
	}
	rut_an_fmt_line(out, "{:<52} {:<52} {:<12}\n", "Soft IRQ", "Duration (us)",
			"Raise latency (us)");
	rut_an_fmt_line(
		out,
		"{:<22} {:<14} {:<12} {:<12} {:<10} {:<4} {:<3} {:<14} {:<12} {:<12} {:<10} "
		"{:<12}\n",
		"", "count", "min", "avg", "max", "stdev", " |", "count", "min", "avg", "max",
		"stdev");
	dashes(out, 82);
	rut_buf_putc(out, '|');
	dashes(out, 60);
	rut_buf_putc(out, '\n');
}

static void print_stats_row(struct rut_buf *out, const struct rut_cell *row, bool hard)
{
	char nr[24], name[300], number[24], us[4][40];

	snprintf(nr, sizeof(nr), "%lld:", (long long)row[0].i);
	snprintf(name, sizeof(name), "<%s>", row[0].str);
	snprintf(number, sizeof(number), "%lld", (long long)row[1].i);
	for (int k = 0; k < 4; k++)
		rut_an_fmt_us_cell(us[k], sizeof(us[k]), &row[2 + k]);
	rut_an_fmt_line(out, "{:<3} {:<18} {:>5} {:>12} {:>12} {:>12} {:>12} {:<2}", nr, name,
			number, us[0], us[1], us[2], us[3], " |");
	if (!hard && row[6].i) {
		snprintf(number, sizeof(number), "%lld", (long long)row[6].i);
		for (int k = 0; k < 4; k++)
			rut_an_fmt_us_cell(us[k], sizeof(us[k]), &row[7 + k]);
		rut_an_fmt_line(out, " {:>6} {:>12} {:>12} {:>12} {:>12}", number, us[0], us[1],
				us[2], us[3]);
	}
	rut_buf_putc(out, '\n');
}

static void print_freq(const struct rut_result *t, struct rut_buf *out)
{
	char title[400];

	snprintf(title, sizeof(title), "Handler duration frequency distribution %s", t->subtitle);
	rut_an_freq_print(t, out, title, "µs");
}

/* With both, each row of statistics is followed by its distribution. */
static void print_stats(const struct tables *t, struct rut_buf *out)
{
	size_t hard = rut_result_rows(t->hard), rows = hard + rut_result_rows(t->soft);

	for (size_t k = 0; k < rows; k++) {
		bool is_hard = k < hard;
		const struct rut_cell *row =
			is_hard ? rut_result_row(t->hard, k) : rut_result_row(t->soft, k - hard);

		if (k == hard && hard && !t->n_freqs)
			rut_buf_putc(out, '\n');
		if (t->n_freqs || k == 0 || k == hard)
			print_header(out, is_hard);
		print_stats_row(out, row, is_hard);
		if (!t->n_freqs)
			continue;
		if (rut_result_rows(t->freqs[k])) {
			rut_buf_putc(out, '\n');
			print_freq(t->freqs[k], out);
		}
		rut_buf_putc(out, '\n');
	}
	for (size_t k = 0; !rows && k < t->n_freqs; k++) {
		if (!rut_result_rows(t->freqs[k]))
			continue;
		rut_buf_putc(out, '\n');
		print_freq(t->freqs[k], out);
	}
}

static void print_log_rows(const struct rut_result *t, const struct rut_conf *c,
			   struct rut_buf *out)
{
	char begin[64], end[64], us[40], cpu[24], nr[24], raised[64], name[400];

	for (size_t k = 0; k < rut_result_rows(t); k++) {
		const struct rut_cell *row = rut_result_row(t, k);

		rut_an_fmt_time(begin, sizeof(begin), row[0].i, c->multi_day, c->gmt);
		rut_an_fmt_time(end, sizeof(end), row[0].j, c->multi_day, c->gmt);
		rut_an_fmt_us(us, sizeof(us), (double)(row[0].j - row[0].i));
		snprintf(cpu, sizeof(cpu), "%lld", (long long)row[2].i);
		snprintf(nr, sizeof(nr), "%lld", (long long)row[3].i);
		snprintf(name, sizeof(name), "%s", row[3].str);
		if (row[1].type == RUT_LAMI_TIMESTAMP) {
			rut_an_fmt_time(raised, sizeof(raised), row[1].i, c->multi_day, c->gmt);
			snprintf(name, sizeof(name), "%s (raised at %s)", row[3].str, raised);
		}
		rut_an_fmt_line(out, "[{:<18}, {:<18}] {:>15} {:>4}  {:<9} {:>4}  {:<22}\n", begin,
				end, us, cpu, row[3].hard ? "IRQ" : "SoftIRQ", nr, name);
	}
}

static void print_log(struct irq *i, int64_t end_ns)
{
	struct rut_run *run = i->base.run;

	rut_an_fmt_line(&run->out, "{:<20} {:<19} {:>15} {:>4}  {:<9} {:>4}  {:<22}\n", "Begin",
			"End", "Duration (us)", "CPU", "Type", "#", "Name");
	for (size_t k = 0, to; k < i->n_log; k = to) {
		struct rut_result *t;

		to = i->n_log - k > RUT_RUN_ROWS ? k + RUT_RUN_ROWS : i->n_log;
		t = log_table(i, k, to, end_ns);
		print_log_rows(t, run->conf, &run->out);
		rut_an_result_free(t);
		rut_an_run_show(run);
	}
}

/* ---- Report ---- */

static void keep_tables(struct rut_run *run, struct tables *t, struct rut_result *log)
{
	struct rut_result *series = NULL;

	rut_an_results_take(&run->results, log);
	rut_an_results_take(&run->results, t->hard);
	rut_an_results_take(&run->results, t->soft);
	if (run->conf->series)
		series = rut_an_freq_series(t->freqs, t->n_freqs,
					    "Interrupt handlers duration frequency distributions",
					    "interrupts");
	for (size_t k = 0; k < t->n_freqs; k++) {
		if (run->conf->series)
			rut_an_result_free(t->freqs[k]);
		else
			rut_an_results_take(&run->results, t->freqs[k]);
	}
	rut_an_results_take(&run->results, series);
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	struct irq *i = (struct irq *)inst;
	struct rut_run *run = inst->run;
	const struct rut_conf *c = run->conf;
	struct tables t = {0};
	struct rut_result *pct = NULL;

	if (c->percentiles)
		pct = rut_an_result_new(&rut_an_class_percentiles, inst->begin_ns, end_ns, NULL);
	t.hard = rut_an_result_new(&hard_class, inst->begin_ns, end_ns, NULL);
	t.soft = rut_an_result_new(&soft_class, inst->begin_ns, end_ns, NULL);
	t.freqs = calloc(i->hard.n + i->soft.n + 1, sizeof(*t.freqs));
	if ((c->stats || c->freq) && t.freqs) {
		fill_tables(i, true, end_ns, &t, pct);
		fill_tables(i, false, end_ns, &t, pct);
	}
	if (c->mi) {
		keep_tables(run, &t, c->log ? log_table(i, 0, i->n_log, end_ns) : NULL);
	} else {
		rut_an_run_print_range(run, inst->begin_ns, end_ns);
		if (c->stats || c->freq)
			print_stats(&t, &run->out);
		if ((c->stats || c->freq) && c->log)
			rut_buf_putc(&run->out, '\n');
		if (c->log)
			print_log(i, end_ns);
		for (size_t k = 0; k < t.n_freqs; k++)
			rut_an_result_free(t.freqs[k]);
		rut_an_result_free(t.hard);
		rut_an_result_free(t.soft);
	}
	rut_an_percentiles_finish(run, pct);
	free(t.freqs);
}

static void summarise(struct rut_run *run)
{
	struct rut_result *t = NULL;

	if (!run->conf->stats)
		return; /* of logs and distributions there is no summary: they stay */
	/* The tables of one interval follow each other. */
	for (size_t k = 0; k < run->results.n; k++) {
		const struct rut_result *from = run->results.tables[k];

		if (from->cls != &hard_class && from->cls != &soft_class)
			continue;
		if (!t)
			t = rut_an_result_new(&summary, from->begin_ns, from->end_ns, NULL);
		if (!t)
			break;
		t->end_ns = from->end_ns;
		for (size_t row = 0; row < rut_result_rows(from); row++) {
			rut_an_result_range(t, from->begin_ns, from->end_ns);
			rut_an_result_add(t, rut_result_row(from, row)[1]);
		}
	}
	rut_an_results_clear(&run->results);
	rut_an_results_take(&run->results, t);
}

static void fini_stats(struct rut_ordered *o)
{
	for (size_t k = 0; k < o->n; k++) {
		struct irq_stats *s = o->items[k];

		rut_an_stat_fini(&s->duration);
		rut_an_stat_fini(&s->latency);
	}
	rut_an_ordered_fini(o);
}

static void fini(struct rut_instance *inst)
{
	struct irq *i = (struct irq *)inst;

	fini_stats(&i->hard);
	fini_stats(&i->soft);
	free(i->log);
}

static const char *const tags[] = {
	"linux-kernel", "lttng-analyses", "interrupt", "stats", "freq", "log", NULL};
static const struct rut_lami_class *const classes[] = {&rut_an_class_percentiles,
						       &log_class,
						       &hard_class,
						       &soft_class,
						       &freq_class,
						       &summary,
						       NULL};

static const char *const needs[] = {"irq_handler_entry", "*softirq_entry", "*softirq_raise", NULL};

const struct rut_analysis rut_analysis_irq = {
	.info = {"System interrupt analysis",
		 "Interrupt frequency distribution, statistics, and log", tags, classes},
	.options = options,
	.own_size = sizeof(struct own),
	.option = option,
	.needs = needs,
	.report_needs = {"irq_handler_entry", "*softirq_entry"},
	.instance_size = sizeof(struct irq),
	.hooks = hooks,
	.report = report,
	.fini = fini,
	.summarise = summarise,
};
