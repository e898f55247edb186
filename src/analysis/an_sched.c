/* SPDX-License-Identifier: MIT */
/* schedstats, schedtop, schedlog, schedfreq: from the first wakeup to running. */
#include "analysis/an_sched.h"

#include <stdlib.h>

#define LOG_COLUMNS                                                                                \
	{"wakeup_ts", "Wakeup timestamp", RUT_LAMI_TIMESTAMP, NULL},                               \
		{"switch_ts", "Switch timestamp", RUT_LAMI_TIMESTAMP, NULL},                       \
		{"latency", "Scheduling latency", RUT_LAMI_DURATION, NULL},                        \
		{"prio", "Priority", RUT_LAMI_NUMBER, NULL},                                       \
		{"target_cpu", "Target CPU", RUT_LAMI_CPU, NULL},                                  \
		{"wakee_proc", "Wakee process", RUT_LAMI_PROCESS, NULL},                           \
	{                                                                                          \
		"waker_proc", "Waker process", RUT_LAMI_PROCESS, NULL                              \
	}

#define STATS_COLUMNS                                                                              \
	{"count", "Scheduling count", RUT_LAMI_NUMBER, "schedulings"},                             \
		{"min_latency", "Minimum latency", RUT_LAMI_DURATION, NULL},                       \
		{"avg_latency", "Average latency", RUT_LAMI_DURATION, NULL},                       \
		{"max_latency", "Maximum latency", RUT_LAMI_DURATION, NULL},                       \
	{                                                                                          \
		"stdev_latency", "Scheduling latency standard deviation", RUT_LAMI_DURATION, NULL  \
	}

static const struct rut_lami_column log_columns[] = {LOG_COLUMNS};
static const struct rut_lami_column total_columns[] = {STATS_COLUMNS};
static const struct rut_lami_column tid_columns[] = {
	{"process", "Wakee process", RUT_LAMI_PROCESS, NULL},
	STATS_COLUMNS,
	{"prio_list", "Chronological priorities", RUT_LAMI_STRING, NULL},
};
static const struct rut_lami_column prio_columns[] = {
	{"prio", "Priority", RUT_LAMI_NUMBER, NULL},
	STATS_COLUMNS,
};
static const struct rut_lami_column freq_columns[] = {
	{"duration_lower", "Duration (lower bound)", RUT_LAMI_DURATION, NULL},
	{"duration_upper", "Duration (upper bound)", RUT_LAMI_DURATION, NULL},
	{"count", "Scheduling count", RUT_LAMI_NUMBER, "schedulings"},
};

const struct rut_lami_class rut_an_sched_log_class =
	RUT_LAMI_CLASS("log", "Scheduling log", log_columns);
const struct rut_lami_class rut_an_sched_top_class =
	RUT_LAMI_CLASS("top", "Scheduling top", log_columns);
const struct rut_lami_class rut_an_sched_total_class =
	RUT_LAMI_CLASS("total_stats", "Scheduling latency stats (total)", total_columns);
const struct rut_lami_class rut_an_sched_tid_class =
	RUT_LAMI_CLASS("per_tid_stats", "Scheduling latency stats (per-TID)", tid_columns);
const struct rut_lami_class rut_an_sched_prio_class =
	RUT_LAMI_CLASS("per_prio_stats", "Scheduling latency stats (per-prio)", prio_columns);
const struct rut_lami_class rut_an_sched_freq_class =
	RUT_LAMI_CLASS("freq", "Scheduling latency frequency distribution", freq_columns);

static int by_latency(const void *a, const void *b)
{
	const struct rut_sched_row *x = *(struct rut_sched_row *const *)&a;
	const struct rut_sched_row *y = *(struct rut_sched_row *const *)&b;
	int64_t dx = x->switch_ns - x->wakeup_ns, dy = y->switch_ns - y->wakeup_ns;

	return dx > dy ? -1 : dx < dy;
}

void rut_an_sched_sort_rows(struct rut_an_sched *s, int64_t limit)
{
	void **order = malloc((s->n_rows + 1) * sizeof(*order));
	struct rut_sched_row *rows = malloc((s->cap_rows + 1) * sizeof(*rows));
	size_t n = s->n_rows;

	if (limit < 0) /* as a slice [:-n] */
		n = (size_t)-limit < n ? n - (size_t)-limit : 0;
	else if ((size_t)limit < n)
		n = (size_t)limit;
	for (size_t i = 0; order && i < s->n_rows; i++)
		order[i] = &s->rows[i];
	if (!order || !rows || rut_an_sort_stable(order, s->n_rows, by_latency)) {
		s->base.run->engine->state.failed = true;
		free(rows);
		free(order);
		return;
	}
	for (size_t i = 0; i < n; i++)
		rows[i] = *(struct rut_sched_row *)order[i];
	free(order);
	free(s->rows);
	s->rows = rows;
	s->n_rows = n;
}

/* The log keeps all; a top without a log keeps few more than are asked for. */
static void keep_row(struct rut_an_sched *s, const struct rut_hook_switch *h)
{
	const struct rut_conf *c = s->base.run->conf;
	bool few = !c->log && c->limit >= 0;

	if (!c->log && !c->top)
		return;
	if (few && s->least_ns && h->ts_ns - h->wakeup_ns <= s->least_ns)
		return;
	if (s->n_rows == s->cap_rows) {
		size_t cap = s->cap_rows ? s->cap_rows * 2 : 256;
		void *rows;

		if (few && s->n_rows >= 2 * (size_t)c->limit + 128) {
			rut_an_sched_sort_rows(s, c->limit);
			if (s->n_rows)
				s->least_ns = s->rows[s->n_rows - 1].switch_ns -
					      s->rows[s->n_rows - 1].wakeup_ns;
			cap = s->cap_rows;
		}
		rows = realloc(s->rows, cap * sizeof(*s->rows));
		if (!rows) {
			s->base.run->engine->state.failed = true;
			return;
		}
		s->rows = rows;
		s->cap_rows = cap;
	}
	h->next->kept = true;
	if (h->waker)
		h->waker->kept = true;
	s->rows[s->n_rows++] = (struct rut_sched_row){
		.wakeup_ns = h->wakeup_ns,
		.switch_ns = h->ts_ns,
		.wakee = h->next,
		.waker = h->waker,
		.has_prio = h->next->has_prio,
		.prio = h->next->prio,
		.cpu = h->cpu,
	};
}

static struct rut_sched_tid *get_tid(struct rut_an_sched *s, const struct rut_thread *t)
{
	struct rut_sched_tid *p = rut_an_ordered_add(&s->tids, (uint64_t)t->tid, sizeof(*p));

	if (!p || p->is_init)
		return p;
	p->is_init = true;
	p->tid = t->tid;
	p->comm = t->comm;
	rut_an_prios_add(&p->prios, t->has_prio, t->prio);
	if (rut_an_stat_init(&p->latency, rut_an_stat_keep(s->base.run->conf)))
		s->base.run->engine->state.failed = true;
	return p;
}

static struct rut_sched_prio *get_prio(struct rut_an_sched *s, const struct rut_thread *t)
{
	uint64_t key = t->has_prio ? (uint64_t)(uint32_t)t->prio + 1 : 0;
	struct rut_sched_prio *p = rut_an_ordered_add(&s->prios, key, sizeof(*p));

	if (!p || p->is_init)
		return p;
	p->is_init = true;
	p->has_prio = t->has_prio;
	p->prio = t->prio;
	if (rut_an_stat_init(&p->latency, rut_an_stat_keep(s->base.run->conf)))
		s->base.run->engine->state.failed = true;
	return p;
}

static void on_switch(void *arg, const void *data)
{
	const struct rut_hook_switch *h = data;
	struct rut_an_sched *s = arg;
	const struct rut_conf *c = s->base.run->conf;
	struct rut_sched_tid *tid;
	struct rut_sched_prio *prio;
	int64_t latency = h->ts_ns - h->wakeup_ns;

	if (h->wakeup_ns == RUT_NO_TIME || !rut_an_conf_thread(c, h->next) ||
	    !rut_an_conf_cpu(c, h->cpu))
		return;
	if ((c->has_min && (double)latency < c->min_ns) ||
	    (c->has_max && (double)latency > c->max_ns))
		return;
	if (h->waker)
		get_tid(s, h->waker);
	tid = get_tid(s, rut_an_run_row(s->base.run, h->next));
	prio = get_prio(s, h->next);
	if (tid)
		rut_stat_add(&tid->latency, latency);
	if (prio)
		rut_stat_add(&prio->latency, latency);
	rut_stat_add(&s->total, latency);
	keep_row(s, h);
}

static void on_prio(void *arg, const void *data)
{
	const struct rut_hook_thread *h = data;
	struct rut_an_sched *s = arg;
	struct rut_sched_tid *p = rut_ordered_get(&s->tids, (uint64_t)h->thread->tid);

	if (p)
		rut_an_prios_add(&p->prios, true, h->thread->prio);
}

/* A row has the last name of its thread. */
RUT_DEFINE_NAME_HOOK(on_name, struct rut_an_sched, tids, struct rut_sched_tid, tid);

static const struct rut_analysis_hook hooks[] = {
	{RUT_HOOK_SWITCH, on_switch},
	{RUT_HOOK_PRIO, on_prio},
	{RUT_HOOK_NAME, on_name},
	{0, NULL},
};

static int init(struct rut_instance *inst)
{
	struct rut_an_sched *s = (struct rut_an_sched *)inst;

	s->tids.by_tid = !inst->period;
	return rut_an_stat_init(&s->total, rut_an_stat_keep(inst->run->conf));
}

static void fini(struct rut_instance *inst)
{
	struct rut_an_sched *s = (struct rut_an_sched *)inst;

	for (size_t i = 0; i < s->tids.n; i++) {
		struct rut_sched_tid *p = s->tids.items[i];

		rut_an_prios_fini(&p->prios);
		rut_an_stat_fini(&p->latency);
	}
	for (size_t i = 0; i < s->prios.n; i++)
		rut_an_stat_fini(&((struct rut_sched_prio *)s->prios.items[i])->latency);
	rut_an_ordered_fini(&s->tids);
	rut_an_ordered_fini(&s->prios);
	rut_an_stat_fini(&s->total);
	free(s->rows);
}

/* ---- Options ---- */

enum { OPT_TOTAL = RUT_ANALYSIS_OPT, OPT_PER_TID, OPT_PER_PRIO };

static const struct rut_opt options[] = {
	{"total", NULL, "all threads together", OPT_TOTAL},
	{"per-tid", NULL, "by thread (default)", OPT_PER_TID},
	{"per-prio", NULL, "by priority", OPT_PER_PRIO},
	{0},
};

static int option(void *own, int id, const char *value)
{
	struct rut_sched_own *o = own;

	(void)value;
	*(id == OPT_TOTAL ? &o->total : id == OPT_PER_TID ? &o->per_tid : &o->per_prio) = true;
	return 0;
}

struct rut_sched_own rut_an_sched_shows(const struct rut_conf *c)
{
	struct rut_sched_own shows = {.total = c->brief};

	if (c->own)
		shows = *(const struct rut_sched_own *)c->own;
	if (!shows.total && !shows.per_prio)
		shows.per_tid = true;
	return shows;
}

/* Of its tables these have rows of threads; a wait is that of one thread. */
static int check(const struct rut_conf *c, struct rut_err *err)
{
	bool per_tid = rut_an_sched_shows(c).per_tid;

	if (!c->by || (per_tid && (c->stats || c->freq || c->percentiles)))
		return 0;
	return rut_err_set(err, EINVAL,
			   "--by %s puts rows of threads together: add --stats or --freq%s", c->by,
			   per_tid ? "" : " and --per-tid");
}

static const char *const tags[] = {
	"linux-kernel", "lttng-analyses", "sched", "stats", "freq", "top", "log", NULL};
static const struct rut_lami_class *const classes[] = {
	&rut_an_class_percentiles, &rut_an_sched_log_class,
	&rut_an_sched_top_class,   &rut_an_sched_total_class,
	&rut_an_sched_tid_class,   &rut_an_sched_prio_class,
	&rut_an_sched_freq_class,  NULL};

static const char *const needs[] = {"sched_wak*", NULL};

const struct rut_analysis rut_analysis_sched = {
	.info = {"Scheduling latencies analysis",
		 "Scheduling latencies frequency distribution, statistics, top, and log", tags,
		 classes},
	.options = options,
	.own_size = sizeof(struct rut_sched_own),
	.option = option,
	.check = check,
	.needs = needs,
	.needs_switches = true,
	.report_needs = {"sched_wak*"},
	.instance_size = sizeof(struct rut_an_sched),
	.hooks = hooks,
	.init = init,
	.report = rut_an_sched_report,
	.fini = fini,
};
