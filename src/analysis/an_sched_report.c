/* SPDX-License-Identifier: MIT */
/* The reports of the scheduling analysis. */
#include "analysis/an_sched.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "analysis/fmt.h"

/* ---- Tables ---- */

static void add_process(struct rut_result *t, const struct rut_thread *p)
{
	if (p)
		rut_an_result_process(t, p->comm, p->pid >= 0 ? p->pid : RUT_LAMI_NONE, p->tid);
	else
		rut_an_result_empty(t);
}

/* The rows from `from` to before `to`. */
static struct rut_result *rows_table(struct rut_an_sched *s, const struct rut_lami_class *cls,
				     size_t from, size_t to, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(cls, s->base.begin_ns, end_ns, NULL);

	for (size_t i = from; t && i < to; i++) {
		const struct rut_sched_row *r = &s->rows[i];

		rut_an_result_int(t, RUT_LAMI_TIMESTAMP, r->wakeup_ns);
		rut_an_result_int(t, RUT_LAMI_TIMESTAMP, r->switch_ns);
		rut_an_result_int(t, RUT_LAMI_DURATION, r->switch_ns - r->wakeup_ns);
		rut_an_result_int(t, RUT_LAMI_NUMBER, r->has_prio ? r->prio : RUT_LAMI_NONE);
		rut_an_result_int(t, RUT_LAMI_CPU, r->cpu);
		add_process(t, r->wakee);
		add_process(t, r->waker);
	}
	return t;
}

static void add_stat(struct rut_result *t, const struct rut_stat *s)
{
	rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)s->count);
	rut_an_stat_cells(t, s);
}

static int by_name(const void *a, const void *b)
{
	return strcasecmp(((const struct rut_sched_tid *)a)->comm,
			  ((const struct rut_sched_tid *)b)->comm);
}

static int by_tid(const void *a, const void *b)
{
	int64_t x = ((const struct rut_sched_tid *)a)->tid,
		y = ((const struct rut_sched_tid *)b)->tid;

	return x < y ? -1 : x > y;
}

static int by_prio(const void *a, const void *b)
{
	const struct rut_sched_prio *x = a, *y = b;

	return x->prio < y->prio ? -1 : x->prio > y->prio;
}

static struct rut_result *tid_table(struct rut_an_sched *s, int64_t end_ns)
{
	struct rut_result *t =
		rut_an_result_new(&rut_an_sched_tid_class, s->base.begin_ns, end_ns, NULL);
	struct rut_sched_tid **list =
		(struct rut_sched_tid **)rut_an_ordered_sorted(&s->tids, by_name);

	for (size_t i = 0; t && list && i < s->tids.n; i++) {
		if (!list[i]->latency.count)
			continue;
		rut_an_result_process(t, list[i]->comm, RUT_LAMI_NONE, list[i]->tid);
		add_stat(t, &list[i]->latency);
		rut_an_result_add(t,
				  (struct rut_cell){.type = RUT_LAMI_STRING,
						    .str = rut_an_prios_str(&list[i]->prios, t)});
	}
	free(list);
	return t;
}

static struct rut_result *prio_table(struct rut_an_sched *s, int64_t end_ns)
{
	struct rut_result *t =
		rut_an_result_new(&rut_an_sched_prio_class, s->base.begin_ns, end_ns, NULL);
	struct rut_sched_prio **list =
		(struct rut_sched_prio **)rut_an_ordered_sorted(&s->prios, by_prio);

	for (size_t i = 0; t && list && i < s->prios.n; i++) {
		rut_an_result_int(t, RUT_LAMI_NUMBER,
				  list[i]->has_prio ? list[i]->prio : RUT_LAMI_NONE);
		add_stat(t, &list[i]->latency);
	}
	free(list);
	return t;
}

static struct rut_result *total_table(struct rut_an_sched *s, int64_t end_ns)
{
	struct rut_result *t =
		rut_an_result_new(&rut_an_sched_total_class, s->base.begin_ns, end_ns, NULL);

	if (t)
		add_stat(t, &s->total);
	return t;
}

static struct rut_result *freq_table(struct rut_an_sched *s, const struct rut_stat *stat,
				     const char *subtitle, int64_t end_ns)
{
	struct rut_result *t =
		rut_an_result_new(&rut_an_sched_freq_class, s->base.begin_ns, end_ns, subtitle);
	struct rut_freq f;

	if (!t)
		return NULL;
	/* The uniform bounds are those of all latencies, however they are grouped. */
	if (s->base.run->conf->uniform)
		f = rut_an_freq_uniform(s->base.run, 0, s->total.count, (double)s->total.min,
					(double)s->total.max, 1000);
	else
		f = rut_an_freq_bounds(s->base.run->conf, (double)stat->min, (double)stat->max,
				       1000);
	rut_an_freq_fill(&f, stat, t);
	return t;
}

/* ---- Text ---- */

static void number(char *out, size_t size, const struct rut_cell *c)
{
	if (c->i == RUT_LAMI_NONE)
		snprintf(out, size, "?");
	else
		snprintf(out, size, "%lld", (long long)c->i);
}

static void print_rows(const struct rut_result *t, const struct rut_conf *c, struct rut_buf *out)
{
	char wakeup[64], sw[64], latency[40], prio[24], cpu[24], wakee[80], waker[80];

	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		rut_an_fmt_time(wakeup, sizeof(wakeup), row[0].i, c->multi_day, c->gmt);
		rut_an_fmt_time(sw, sizeof(sw), row[1].i, c->multi_day, c->gmt);
		rut_an_fmt_us_cell(latency, sizeof(latency), &row[2]);
		number(prio, sizeof(prio), &row[3]);
		number(cpu, sizeof(cpu), &row[4]);
		rut_an_fmt_process(wakee, sizeof(wakee), &row[5]);
		rut_an_fmt_process(waker, sizeof(waker), &row[6]);
		rut_an_fmt_line(out, "[{:<18}, {:<18}] {:>15} {:>10}  {:>3}   {:<25}  {:<25}\n",
				wakeup, sw, latency, prio, cpu, wakee, waker);
	}
}

struct stat_text {
	char count[24], min[40], avg[40], max[40], stdev[40];
};

static void stat_text(struct stat_text *s, const struct rut_cell *row)
{
	number(s->count, sizeof(s->count), &row[0]);
	rut_an_fmt_us_cell(s->min, sizeof(s->min), &row[1]);
	rut_an_fmt_us_cell(s->avg, sizeof(s->avg), &row[2]);
	rut_an_fmt_us_cell(s->max, sizeof(s->max), &row[3]);
	rut_an_fmt_us_cell(s->stdev, sizeof(s->stdev), &row[4]);
}

static void print_total(const struct rut_result *t, struct rut_buf *out)
{
	struct stat_text s;

	rut_buf_printf(out, "\n%s (us)\n", t->cls->title);
	rut_an_fmt_line(out, "{:<12} {:<12} {:<12} {:<12} {:<12}\n", "Count", "Min", "Avg", "Max",
			"Stdev");
	stat_text(&s, t->cells);
	rut_an_fmt_line(out, "{:<12} {:<12} {:<12} {:<12} {:<12}\n", s.count, s.min, s.avg, s.max,
			s.stdev);
}

static void print_tids(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<25} {:>8}  {:>12}  {:>12}  {:>12}  {:>12}   {:<0}\n";
	struct stat_text s;
	char proc[80];

	if (!rut_result_rows(t))
		return;
	rut_buf_printf(out, "\n%s (us)\n", t->cls->title);
	rut_an_fmt_line(out, line, "Process", "Count", "Min", "Avg", "Max", "Stdev", "Priorities");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		rut_an_fmt_process(proc, sizeof(proc), &row[0]);
		stat_text(&s, row + 1);
		rut_an_fmt_line(out, line, proc, s.count, s.min, s.avg, s.max, s.stdev, row[6].str);
	}
}

static void print_prios(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:>4} {:>8}  {:>12}  {:>12}  {:>12}  {:>12}\n";
	struct stat_text s;
	char prio[24];

	if (!rut_result_rows(t))
		return;
	rut_buf_printf(out, "\n%s (us)\n", t->cls->title);
	rut_an_fmt_line(out, line, "Prio", "Count", "Min", "Avg", "Max", "Stdev");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		number(prio, sizeof(prio), &row[0]);
		stat_text(&s, row + 1);
		rut_an_fmt_line(out, line, prio, s.count, s.min, s.avg, s.max, s.stdev);
	}
}

static void print_freq(const struct rut_result *t, struct rut_buf *out)
{
	char title[160];

	snprintf(title, sizeof(title), "Scheduling latency frequency distribution - %s",
		 t->subtitle ? t->subtitle : "None");
	rut_an_freq_print(t, out, title, "µs");
}

static void finish_freqs(struct rut_run *run, struct rut_result **tables, size_t n, bool series)
{
	struct rut_result *t = NULL;

	if (run->conf->mi && series && run->conf->series)
		t = rut_an_freq_series(tables, n, "Scheduling latencies frequency distributions",
				       "schedulings");
	for (size_t i = 0; i < n; i++) {
		if (t)
			rut_an_result_free(tables[i]);
		else
			rut_an_run_take(run, tables[i], print_freq);
	}
	rut_an_results_take(&run->results, t);
}

/* ---- Report ---- */

static void report_tid_freqs(struct rut_an_sched *s, int64_t end_ns)
{
	struct rut_sched_tid **list =
		(struct rut_sched_tid **)rut_an_ordered_sorted(&s->tids, by_tid);
	struct rut_result **tables = calloc(s->tids.n + 1, sizeof(*tables));
	char subtitle[64];
	size_t n = 0;

	for (size_t i = 0; list && tables && i < s->tids.n; i++) {
		if (!list[i]->latency.count)
			continue;
		if (list[i]->tid < 0)
			snprintf(subtitle, sizeof(subtitle), "%s", list[i]->comm);
		else
			snprintf(subtitle, sizeof(subtitle), "TID: %lld", (long long)list[i]->tid);
		tables[n] = freq_table(s, &list[i]->latency, subtitle, end_ns);
		n += tables[n] != NULL;
	}
	if (tables)
		finish_freqs(s->base.run, tables, n, true);
	free(tables);
	free(list);
}

static void report_prio_freqs(struct rut_an_sched *s, int64_t end_ns)
{
	struct rut_sched_prio **list =
		(struct rut_sched_prio **)rut_an_ordered_sorted(&s->prios, by_prio);
	struct rut_result **tables = calloc(s->prios.n + 1, sizeof(*tables));
	char subtitle[64];
	size_t n = 0;

	for (size_t i = 0; list && tables && i < s->prios.n; i++) {
		snprintf(subtitle, sizeof(subtitle), "Priority: %d", list[i]->prio);
		tables[n] = freq_table(s, &list[i]->latency, subtitle, end_ns);
		n += tables[n] != NULL;
	}
	if (tables)
		finish_freqs(s->base.run, tables, n, true);
	free(tables);
	free(list);
}

static void report_freqs(struct rut_an_sched *s, int64_t end_ns)
{
	struct rut_sched_own shows = rut_an_sched_shows(s->base.run->conf);
	struct rut_result *t;

	if (shows.total) {
		t = freq_table(s, &s->total, NULL, end_ns);
		if (t)
			finish_freqs(s->base.run, &t, 1, false);
	}
	if (shows.per_tid)
		report_tid_freqs(s, end_ns);
	if (shows.per_prio)
		report_prio_freqs(s, end_ns);
}

static void report_percentiles(struct rut_an_sched *s, int64_t end_ns)
{
	struct rut_result *pct =
		rut_an_result_new(&rut_an_class_percentiles, s->base.begin_ns, end_ns, NULL);
	struct rut_sched_own shows = rut_an_sched_shows(s->base.run->conf);
	char what[96];

	if (!pct)
		return;
	rut_an_percentiles_add(pct, "all", &s->total);
	for (size_t i = 0; shows.per_tid && i < s->tids.n; i++) {
		const struct rut_sched_tid *p = s->tids.items[i];

		rut_an_fmt_thread(what, sizeof(what), p->comm, p->tid);
		rut_an_percentiles_add(pct, what, &p->latency);
	}
	for (size_t i = 0; shows.per_prio && i < s->prios.n; i++) {
		const struct rut_sched_prio *p = s->prios.items[i];

		snprintf(what, sizeof(what), "priority %d", p->prio);
		rut_an_percentiles_add(pct, what, &p->latency);
	}
	rut_an_percentiles_finish(s->base.run, pct);
}

static void report_rows(struct rut_an_sched *s, int64_t end_ns, bool top)
{
	const struct rut_lami_class *cls = top ? &rut_an_sched_top_class : &rut_an_sched_log_class;
	struct rut_run *run = s->base.run;
	struct rut_result *t;

	if (top)
		rut_an_sched_sort_rows(s, run->conf->limit);
	if (run->conf->mi) {
		rut_an_results_take(&run->results, rows_table(s, cls, 0, s->n_rows, end_ns));
		return;
	}
	rut_buf_printf(&run->out, "\n%s\n", cls->title);
	rut_an_fmt_line(&run->out, "{:<20} {:<19} {:>15} {:>10}  {:>3}   {:<25}  {:<25}\n",
			"Wakeup", "Switch", "Latency (us)", "Priority", "CPU", "Wakee", "Waker");
	for (size_t i = 0, to; i < s->n_rows; i = to) {
		to = s->n_rows - i > RUT_RUN_ROWS ? i + RUT_RUN_ROWS : s->n_rows;
		t = rows_table(s, cls, i, to, end_ns);
		if (t)
			print_rows(t, run->conf, &run->out);
		rut_an_result_free(t);
		rut_an_run_show(run);
	}
}

void rut_an_sched_report(struct rut_instance *inst, int64_t end_ns)
{
	struct rut_an_sched *s = (struct rut_an_sched *)inst;
	struct rut_run *run = inst->run;
	const struct rut_conf *c = run->conf;
	struct rut_sched_own shows = rut_an_sched_shows(c);

	if (!c->mi)
		rut_an_run_print_range(run, inst->begin_ns, end_ns);
	/* JSON has the lists first. */
	if (c->mi && c->log)
		report_rows(s, end_ns, false);
	if (c->mi && c->top)
		report_rows(s, end_ns, true);
	if (c->stats && shows.total)
		rut_an_run_take(run, total_table(s, end_ns), print_total);
	if (c->stats && shows.per_tid)
		rut_an_run_take(run, tid_table(s, end_ns), print_tids);
	if (c->stats && shows.per_prio)
		rut_an_run_take(run, prio_table(s, end_ns), print_prios);
	if (c->freq)
		report_freqs(s, end_ns);
	if (!c->mi && c->log)
		report_rows(s, end_ns, false);
	if (!c->mi && c->top)
		report_rows(s, end_ns, true);
	if (c->percentiles)
		report_percentiles(s, end_ns);
}
