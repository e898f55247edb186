/* SPDX-License-Identifier: MIT */
/*
 * rubyexceptions, rubyalloc: what is raised and allocated, by class and place. rubygc: pauses of
 * the garbage collector, and in which method they came. gvl: which threads wait for Ruby's lock,
 * which hold it meanwhile.
 *
 * A pause is the time from gc_enter to gc_exit: a collection has several, when it marks and sweeps
 * step by step. A wait for the GVL is charged to the methods that held it while it lasted.
 */
#include "analysis/an_ruby.h"

#include <stdio.h>
#include <string.h>

#include "agent/record.h"
#include "analysis/fmt.h"
#include "analysis/ordered.h"
#include "analysis/stats.h"

static bool event_wanted(const struct rut_instance *inst, const struct rut_hook_ruby_event *h)
{
	return rut_an_ruby_wanted(inst->run->conf, h->thread, h->tid, h->pid);
}

static bool below_limit(const struct rut_instance *inst, size_t i)
{
	return inst->run->conf->limit <= 0 || (int64_t)i < inst->run->conf->limit;
}

static double seconds(const struct rut_instance *inst, int64_t end_ns)
{
	return end_ns > inst->begin_ns ? (double)(end_ns - inst->begin_ns) / 1e9 : 0;
}

/* ---- rubyexceptions, rubyalloc ---- */

struct site_stats {
	const struct rut_ruby_method *site;
	uint64_t count;
	int64_t bytes;
};

struct sites {
	struct rut_instance base;
	struct rut_ordered sites;
	uint64_t count;
	int64_t bytes;
};

static void add_site(struct sites *s, const struct rut_hook_ruby_event *h)
{
	struct site_stats *one =
		h->site && event_wanted(&s->base, h)
			? rut_an_ordered_add(&s->sites, (uint64_t)h->site->index + 1, sizeof(*one))
			: NULL;

	if (!one)
		return;
	one->site = h->site;
	one->count++;
	one->bytes += h->bytes;
	s->count++;
	s->bytes += h->bytes;
}

static void on_raise(void *arg, const void *data)
{
	const struct rut_hook_ruby_event *h = data;

	if (h->what == RUT_RUBY_RAISED)
		add_site(arg, h);
}

static void on_alloc(void *arg, const void *data)
{
	const struct rut_hook_ruby_event *h = data;

	if (h->what == RUT_RUBY_ALLOCATED)
		add_site(arg, h);
}

static const struct rut_analysis_hook raise_hooks[] = {{RUT_HOOK_RUBY_EVENT, on_raise}, {0, NULL}};
static const struct rut_analysis_hook alloc_hooks[] = {{RUT_HOOK_RUBY_EVENT, on_alloc}, {0, NULL}};

static int by_count(const void *a, const void *b)
{
	uint64_t x = ((const struct site_stats *)a)->count,
		 y = ((const struct site_stats *)b)->count;

	return x > y ? -1 : x < y;
}

static const struct rut_lami_column raise_columns[] = {
	{"class", "Class", RUT_LAMI_STRING, NULL},
	{"place", "Raised at", RUT_LAMI_PATH, NULL},
	{"count", "Count", RUT_LAMI_NUMBER, "exceptions"},
	{"rate", "Exceptions a second", RUT_LAMI_NUMBER, NULL},
};
static const struct rut_lami_class raise_class =
	RUT_LAMI_CLASS("exceptions", "Exceptions by class and place", raise_columns);

static const struct rut_lami_column alloc_columns[] = {
	{"class", "Class", RUT_LAMI_STRING, NULL},
	{"place", "Allocated at", RUT_LAMI_PATH, NULL},
	{"count", "Count", RUT_LAMI_NUMBER, "objects"},
	{"rate", "Objects a second", RUT_LAMI_NUMBER, NULL},
	{"bytes", "Size of their slots", RUT_LAMI_SIZE, NULL},
};
static const struct rut_lami_class alloc_class =
	RUT_LAMI_CLASS("allocations", "Allocations by class and place", alloc_columns);

static struct rut_result *site_table(const struct sites *s, int64_t end_ns, bool alloc)
{
	struct rut_result *t = rut_an_result_new(alloc ? &alloc_class : &raise_class,
						 s->base.begin_ns, end_ns, NULL);
	struct site_stats **list = (struct site_stats **)rut_an_ordered_sorted(&s->sites, by_count);
	double time = seconds(&s->base, end_ns);
	char place[1100];

	for (size_t i = 0; t && list && i < s->sites.n && below_limit(&s->base, i); i++) {
		rut_an_ruby_place(place, sizeof(place), list[i]->site);
		rut_an_result_text(t, RUT_LAMI_STRING, list[i]->site->name);
		rut_an_result_text(t, RUT_LAMI_PATH, place);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)list[i]->count);
		rut_an_result_float(t, RUT_LAMI_NUMBER,
				    time > 0 ? (double)list[i]->count / time : 0);
		if (alloc)
			rut_an_result_int(t, RUT_LAMI_SIZE, list[i]->bytes);
	}
	free(list);
	return t;
}

static void print_sites(const struct rut_result *t, struct rut_buf *out, const char *title,
			bool alloc)
{
	static const char line[] = "{:<40} {:>10} {:>12} {:>12}  {:<0}\n";
	char count[24], rate[32], size[32] = "", name[RUT_RUBY_NAME_SIZE];

	rut_buf_printf(out, "%s\n", title);
	rut_an_fmt_line(out, line, "Class", "Count", "A second", alloc ? "Size" : "",
			alloc ? "Allocated at" : "Raised at");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(count, sizeof(count), "%lld", (long long)row[2].i);
		snprintf(rate, sizeof(rate), "%.1f", row[3].f);
		if (alloc)
			rut_an_fmt_size(size, sizeof(size), rut_an_cell_value(&row[4]));
		rut_an_fmt_line(out, line, rut_an_ruby_name(name, row[0].str), count, rate, size,
				row[1].str);
	}
}

static void print_raises(const struct rut_result *t, struct rut_buf *out)
{
	print_sites(t, out, "Exceptions by class and place", false);
}

static void print_allocs(const struct rut_result *t, struct rut_buf *out)
{
	print_sites(t, out, "Allocations by class and place", true);
}

static void raise_report(struct rut_instance *inst, int64_t end_ns)
{
	if (inst->run->conf->mi || rut_an_ruby_begin_text(inst, end_ns))
		rut_an_run_take(inst->run, site_table((struct sites *)inst, end_ns, false),
				print_raises);
}

static void alloc_report(struct rut_instance *inst, int64_t end_ns)
{
	if (inst->run->conf->mi || rut_an_ruby_begin_text(inst, end_ns))
		rut_an_run_take(inst->run, site_table((struct sites *)inst, end_ns, true),
				print_allocs);
}

static void sites_fini(struct rut_instance *inst)
{
	rut_an_ordered_fini(&((struct sites *)inst)->sites);
}

static const char *const tags[] = {"ruby", "rutile", "stats", NULL};
static const struct rut_lami_class *const raise_classes[] = {&raise_class, NULL};
static const struct rut_lami_class *const alloc_classes[] = {&alloc_class, NULL};

const struct rut_analysis rut_analysis_rubyexceptions = {
	.info = {"Ruby exceptions", "Exceptions by class and place", tags, raise_classes},
	.report_needs = {"ruby:raise"},
	.instance_size = sizeof(struct sites),
	.hooks = raise_hooks,
	.report = raise_report,
	.fini = sites_fini,
};

const struct rut_analysis rut_analysis_rubyalloc = {
	.info = {"Ruby allocations", "Allocations by class and place", tags, alloc_classes},
	.instance_size = sizeof(struct sites),
	.hooks = alloc_hooks,
	.report = alloc_report,
	.fini = sites_fini,
};

/* ---- rubygc ---- */

#define BYS 6 /* enum rut_record_gc_by */

struct gc_process {
	int64_t pid;
	const char *comm;
	bool is_init;
	uint64_t minor, major, by[BYS];
	struct rut_stat pauses;
	int64_t enter_ns; /* RUT_NO_TIME: it does not pause */
	int64_t live_least, live_most;
};

struct gc_method {
	const struct rut_ruby_method *method;
	uint64_t collections;
	int64_t paused_ns;
};

struct gcs {
	struct rut_instance base;
	struct rut_ordered processes, methods;
};

static struct gc_process *gc_process(struct gcs *g, const struct rut_hook_ruby_event *h)
{
	struct gc_process *p = rut_an_ordered_add(&g->processes, (uint64_t)h->pid + 1, sizeof(*p));

	if (p && !p->is_init) {
		p->is_init = true;
		p->pid = h->pid;
		p->enter_ns = RUT_NO_TIME;
		p->live_least = INT64_MAX;
		(void)rut_an_stat_init(&p->pauses, 0);
	}
	if (p && h->thread)
		p->comm = h->thread->comm;
	return p;
}

static struct gc_method *gc_method(struct gcs *g, const struct rut_hook_ruby_event *h)
{
	struct gc_method *m = rut_an_ordered_add(
		&g->methods, h->method ? (uint64_t)h->method->index + 2 : 1, sizeof(*m));

	if (m)
		m->method = h->method;
	return m;
}

static void gc_started(struct gc_process *p, struct gc_method *m,
		       const struct rut_hook_ruby_event *h)
{
	p->minor += !h->major;
	p->major += h->major != 0;
	p->by[h->by < BYS ? h->by : 0]++;
	if (h->live_slots > p->live_most)
		p->live_most = h->live_slots;
	if (m)
		m->collections++;
}

static void on_gc(void *arg, const void *data)
{
	const struct rut_hook_ruby_event *h = data;
	struct gcs *g = arg;
	struct gc_process *p;
	struct gc_method *m;

	if (h->what < RUT_RUBY_GC_ENTER || h->what > RUT_RUBY_GC_SWEEP_END ||
	    !event_wanted(&g->base, h))
		return;
	p = gc_process(g, h);
	if (!p)
		return;
	switch (h->what) {
	case RUT_RUBY_GC_ENTER:
		p->enter_ns = h->ts_ns;
		break;
	case RUT_RUBY_GC_START:
		gc_started(p, gc_method(g, h), h);
		break;
	case RUT_RUBY_GC_SWEEP_END:
		if (h->live_slots < p->live_least)
			p->live_least = h->live_slots;
		break;
	case RUT_RUBY_GC_EXIT:
		if (p->enter_ns == RUT_NO_TIME)
			break;
		rut_stat_add(&p->pauses, h->ts_ns - p->enter_ns);
		m = gc_method(g, h);
		if (m)
			m->paused_ns += h->ts_ns - p->enter_ns;
		p->enter_ns = RUT_NO_TIME;
		break;
	default:
		break;
	}
}

static const struct rut_analysis_hook gc_hooks[] = {{RUT_HOOK_RUBY_EVENT, on_gc}, {0, NULL}};

static const struct rut_lami_column gc_columns[] = {
	{"process", "Process", RUT_LAMI_PROCESS, NULL},
	{"minor", "Minor collections", RUT_LAMI_NUMBER, NULL},
	{"major", "Major collections", RUT_LAMI_NUMBER, NULL},
	{"paused", "Time paused", RUT_LAMI_DURATION, NULL},
	{"share", "Of the time", RUT_LAMI_RATIO, NULL},
	{"pauses", "Pauses", RUT_LAMI_NUMBER, NULL},
	{"avg", "Average pause", RUT_LAMI_DURATION, NULL},
	{"max", "Longest pause", RUT_LAMI_DURATION, NULL},
	{"before", "Most live slots before one", RUT_LAMI_NUMBER, "slots"},
	{"after", "Fewest live slots after one", RUT_LAMI_NUMBER, "slots"},
	{"causes", "Causes", RUT_LAMI_STRING, NULL},
};
static const struct rut_lami_class gc_class =
	RUT_LAMI_CLASS("gc", "Garbage collection by process", gc_columns);

static const struct rut_lami_column gc_method_columns[] = {
	{"method", "Method", RUT_LAMI_STRING, NULL},
	{"place", "Defined at", RUT_LAMI_PATH, NULL},
	{"collections", "Collections begun in it", RUT_LAMI_NUMBER, NULL},
	{"paused", "Time paused in it", RUT_LAMI_DURATION, NULL},
};
static const struct rut_lami_class gc_method_class =
	RUT_LAMI_CLASS("gc-methods", "Garbage collection by method", gc_method_columns);

static void causes(const struct gc_process *p, char *out, size_t size)
{
	static const char *const names[BYS] = {"unknown",
#define F(name) #name,
					       RUT_RECORD_GC_BYS(F)
#undef F
	};
	size_t len = 0;

	out[0] = '\0';
	for (int i = 0; i < BYS; i++)
		if (p->by[i] && len < size)
			len += (size_t)snprintf(out + len, size - len, "%s%s %llu", len ? ", " : "",
						names[i], (unsigned long long)p->by[i]);
}

static int by_paused(const void *a, const void *b)
{
	int64_t x = ((const struct gc_process *)a)->pauses.sum;
	int64_t y = ((const struct gc_process *)b)->pauses.sum;

	return x > y ? -1 : x < y;
}

static struct rut_result *gc_table(const struct gcs *g, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&gc_class, g->base.begin_ns, end_ns, NULL);
	struct gc_process **list =
		(struct gc_process **)rut_an_ordered_sorted(&g->processes, by_paused);
	double time = seconds(&g->base, end_ns);
	char text[160];

	for (size_t i = 0; t && list && i < g->processes.n && below_limit(&g->base, i); i++) {
		const struct gc_process *p = list[i];

		causes(p, text, sizeof(text));
		rut_an_result_process(t, p->comm ? p->comm : "ruby", p->pid, RUT_LAMI_NONE);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)p->minor);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)p->major);
		rut_an_result_int(t, RUT_LAMI_DURATION, p->pauses.sum);
		rut_an_result_float(t, RUT_LAMI_RATIO,
				    time > 0 ? (double)p->pauses.sum / 1e9 / time : 0);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)p->pauses.count);
		rut_an_result_float(t, RUT_LAMI_DURATION, rut_stat_mean(&p->pauses));
		rut_an_result_int(t, RUT_LAMI_DURATION, p->pauses.max);
		rut_an_result_int(t, RUT_LAMI_NUMBER, p->live_most);
		rut_an_result_int(t, RUT_LAMI_NUMBER,
				  p->live_least == INT64_MAX ? 0 : p->live_least);
		rut_an_result_text(t, RUT_LAMI_STRING, text);
	}
	free(list);
	return t;
}

static int by_method_paused(const void *a, const void *b)
{
	int64_t x = ((const struct gc_method *)a)->paused_ns;
	int64_t y = ((const struct gc_method *)b)->paused_ns;

	return x > y ? -1 : x < y;
}

static struct rut_result *gc_method_table(const struct gcs *g, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&gc_method_class, g->base.begin_ns, end_ns, NULL);
	struct gc_method **list =
		(struct gc_method **)rut_an_ordered_sorted(&g->methods, by_method_paused);
	char place[1100] = "-";

	for (size_t i = 0; t && list && i < g->methods.n && below_limit(&g->base, i); i++) {
		const struct gc_method *m = list[i];

		if (m->method)
			rut_an_ruby_place(place, sizeof(place), m->method);
		rut_an_result_text(t, RUT_LAMI_STRING,
				   m->method ? m->method->name : "(outside of recorded methods)");
		rut_an_result_text(t, RUT_LAMI_PATH, m->method ? place : "-");
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)m->collections);
		rut_an_result_int(t, RUT_LAMI_DURATION, m->paused_ns);
	}
	free(list);
	return t;
}

static void print_gc(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] =
		"{:<22} {:>6} {:>6} {:>10} {:>8} {:>9} {:>9} {:>12} {:>12}  {:<0}\n";
	char who[64], n[4][24], share[24], d[3][32];

	rut_buf_puts(out, "Garbage collection by process\n");
	rut_an_fmt_line(out, line, "Process", "Minor", "Major", "Paused", "Of time", "Average",
			"Longest", "Live before", "Live after", "Causes");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);
		static const int numbers[] = {1, 2, 8, 9}, times[] = {3, 6, 7};

		snprintf(who, sizeof(who), "%.40s (%lld)", row[0].str, (long long)row[0].i);
		for (int k = 0; k < 4; k++)
			snprintf(n[k], sizeof(n[k]), "%lld", (long long)row[numbers[k]].i);
		for (int k = 0; k < 3; k++)
			rut_an_ruby_duration(d[k], sizeof(d[k]),
					     (int64_t)rut_an_cell_value(&row[times[k]]));
		snprintf(share, sizeof(share), "%.2f %%", 100 * row[4].f);
		rut_an_fmt_line(out, line, who, n[0], n[1], d[0], share, d[1], d[2], n[2], n[3],
				row[10].str);
	}
}

static void print_gc_methods(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<40} {:>12} {:>10}  {:<0}\n";
	char n[24], d[32], name[RUT_RUBY_NAME_SIZE];

	rut_buf_puts(out, "\nGarbage collection by method\n");
	rut_an_fmt_line(out, line, "Method", "Collections", "Paused", "Defined at");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(n, sizeof(n), "%lld", (long long)row[2].i);
		rut_an_ruby_duration(d, sizeof(d), row[3].i);
		rut_an_fmt_line(out, line, rut_an_ruby_name(name, row[0].str), n, d, row[1].str);
	}
}

static void gc_report(struct rut_instance *inst, int64_t end_ns)
{
	struct gcs *g = (struct gcs *)inst;

	if (!inst->run->conf->mi && !rut_an_ruby_begin_text(inst, end_ns))
		return;
	rut_an_run_take(inst->run, gc_table(g, end_ns), print_gc);
	rut_an_run_take(inst->run, gc_method_table(g, end_ns), print_gc_methods);
}

static void gc_fini(struct rut_instance *inst)
{
	struct gcs *g = (struct gcs *)inst;

	for (size_t i = 0; i < g->processes.n; i++)
		rut_an_stat_fini(&((struct gc_process *)g->processes.items[i])->pauses);
	rut_an_ordered_fini(&g->processes);
	rut_an_ordered_fini(&g->methods);
}

static const struct rut_lami_class *const gc_classes[] = {&gc_class, &gc_method_class, NULL};

const struct rut_analysis rut_analysis_rubygc = {
	.info = {"Ruby's garbage collector", "Pauses by process and method", tags, gc_classes},
	.report_needs = {"ruby:gc_start"},
	.instance_size = sizeof(struct gcs),
	.hooks = gc_hooks,
	.report = gc_report,
	.fini = gc_fini,
};

/* ---- gvl ---- */

struct gvl_thread {
	int64_t tid, pid;
	const char *comm;
	bool is_init;
	struct rut_stat waits, holds;
	int64_t wait_ns; /* since when it waits; RUT_NO_TIME: it does not */
};

struct gvl_process {
	int64_t holder, since_ns; /* tid; RUT_NO_TIME: no known holder */
	int64_t waiting;	  /* threads that wait for it */
	int64_t blocked_ns;	  /* what they have waited since it was taken, added up, */
	int64_t counted_ns;	  /* up to this time */
	bool is_init;
};

struct gvl_method {
	const struct rut_ruby_method *method;
	uint64_t holds;
	int64_t held_ns, blocked_ns; /* the time others waited meanwhile, added up */
};

struct gvls {
	struct rut_instance base;
	struct rut_ordered threads, processes, methods;
	bool seen;
};

static struct gvl_thread *gvl_thread(struct gvls *g, const struct rut_hook_ruby_event *h)
{
	struct gvl_thread *t = rut_an_ordered_add(&g->threads, (uint64_t)h->tid + 1, sizeof(*t));

	if (t && !t->is_init) {
		t->is_init = true;
		t->tid = h->tid;
		t->pid = h->pid;
		t->wait_ns = RUT_NO_TIME;
		(void)rut_an_stat_init(&t->waits, 0);
		(void)rut_an_stat_init(&t->holds, 0);
	}
	if (t && h->thread)
		t->comm = h->thread->comm;
	return t;
}

/* Every waiting thread has waited so much longer. */
static void count_waits(struct gvl_process *p, int64_t now)
{
	p->blocked_ns += p->waiting * (now - p->counted_ns);
	p->counted_ns = now;
}

/* The holder lets go, in `method`: the threads that waited meanwhile waited for that. */
static void charge(struct gvls *g, const struct gvl_process *p, const struct rut_hook_ruby_event *h)
{
	struct gvl_method *m = rut_an_ordered_add(
		&g->methods, h->method ? (uint64_t)h->method->index + 2 : 1, sizeof(*m));

	if (!m)
		return;
	m->method = h->method;
	m->holds++;
	m->held_ns += h->ts_ns - p->since_ns;
	m->blocked_ns += p->blocked_ns;
}

static void on_gvl(void *arg, const void *data)
{
	const struct rut_hook_ruby_event *h = data;
	struct gvls *g = arg;
	struct gvl_process *p;
	struct gvl_thread *t;

	if (h->what < RUT_RUBY_GVL_WAIT || !event_wanted(&g->base, h))
		return;
	g->seen = true;
	t = gvl_thread(g, h);
	p = rut_an_ordered_add(&g->processes, (uint64_t)h->pid + 1, sizeof(*p));
	if (!t || !p)
		return;
	if (!p->is_init)
		p->since_ns = RUT_NO_TIME;
	p->is_init = true;
	count_waits(p, h->ts_ns);
	switch (h->what) {
	case RUT_RUBY_GVL_WAIT:
		p->waiting += t->wait_ns == RUT_NO_TIME;
		t->wait_ns = h->ts_ns;
		break;
	case RUT_RUBY_GVL_HAVE:
		if (t->wait_ns != RUT_NO_TIME) {
			rut_stat_add(&t->waits, h->ts_ns - t->wait_ns);
			p->waiting--;
		}
		t->wait_ns = RUT_NO_TIME;
		p->blocked_ns = 0;
		p->holder = h->tid;
		p->since_ns = h->ts_ns;
		break;
	default:
		if (p->since_ns == RUT_NO_TIME || p->holder != h->tid)
			break;
		rut_stat_add(&t->holds, h->ts_ns - p->since_ns);
		charge(g, p, h);
		p->since_ns = RUT_NO_TIME;
		break;
	}
}

static const struct rut_analysis_hook gvl_hooks[] = {{RUT_HOOK_RUBY_EVENT, on_gvl}, {0, NULL}};

static const struct rut_lami_column gvl_columns[] = {
	{"process", "Thread", RUT_LAMI_PROCESS, NULL},
	{"waits", "Waits", RUT_LAMI_NUMBER, NULL},
	{"waited", "Time waited", RUT_LAMI_DURATION, NULL},
	{"avg-wait", "Average wait", RUT_LAMI_DURATION, NULL},
	{"max-wait", "Longest wait", RUT_LAMI_DURATION, NULL},
	{"holds", "Times held", RUT_LAMI_NUMBER, NULL},
	{"held", "Time held", RUT_LAMI_DURATION, NULL},
	{"max-hold", "Longest held", RUT_LAMI_DURATION, NULL},
};
static const struct rut_lami_class gvl_class =
	RUT_LAMI_CLASS("gvl-threads", "Ruby's lock by thread", gvl_columns);

static const struct rut_lami_column gvl_method_columns[] = {
	{"method", "Method that let go of it", RUT_LAMI_STRING, NULL},
	{"place", "Defined at", RUT_LAMI_PATH, NULL},
	{"holds", "Times held", RUT_LAMI_NUMBER, NULL},
	{"held", "Time held", RUT_LAMI_DURATION, NULL},
	{"blocked", "Time that others waited meanwhile", RUT_LAMI_DURATION, NULL},
};
static const struct rut_lami_class gvl_method_class =
	RUT_LAMI_CLASS("gvl-methods", "Ruby's lock by method", gvl_method_columns);

static int by_waited(const void *a, const void *b)
{
	int64_t x = ((const struct gvl_thread *)a)->waits.sum;
	int64_t y = ((const struct gvl_thread *)b)->waits.sum;

	return x > y ? -1 : x < y;
}

static int by_blocked(const void *a, const void *b)
{
	int64_t x = ((const struct gvl_method *)a)->blocked_ns;
	int64_t y = ((const struct gvl_method *)b)->blocked_ns;

	return x > y ? -1 : x < y;
}

static struct rut_result *gvl_table(const struct gvls *g, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&gvl_class, g->base.begin_ns, end_ns, NULL);
	struct gvl_thread **list =
		(struct gvl_thread **)rut_an_ordered_sorted(&g->threads, by_waited);

	for (size_t i = 0; t && list && i < g->threads.n && below_limit(&g->base, i); i++) {
		const struct gvl_thread *th = list[i];

		rut_an_result_process(t, th->comm ? th->comm : "ruby", th->pid, th->tid);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)th->waits.count);
		rut_an_result_int(t, RUT_LAMI_DURATION, th->waits.sum);
		rut_an_result_float(t, RUT_LAMI_DURATION, rut_stat_mean(&th->waits));
		rut_an_result_int(t, RUT_LAMI_DURATION, th->waits.max);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)th->holds.count);
		rut_an_result_int(t, RUT_LAMI_DURATION, th->holds.sum);
		rut_an_result_int(t, RUT_LAMI_DURATION, th->holds.max);
	}
	free(list);
	return t;
}

static struct rut_result *gvl_method_table(const struct gvls *g, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&gvl_method_class, g->base.begin_ns, end_ns, NULL);
	struct gvl_method **list =
		(struct gvl_method **)rut_an_ordered_sorted(&g->methods, by_blocked);
	char place[1100];

	for (size_t i = 0; t && list && i < g->methods.n && below_limit(&g->base, i); i++) {
		const struct gvl_method *m = list[i];

		if (m->method)
			rut_an_ruby_place(place, sizeof(place), m->method);
		rut_an_result_text(t, RUT_LAMI_STRING,
				   m->method ? m->method->name : "(outside of recorded methods)");
		rut_an_result_text(t, RUT_LAMI_PATH, m->method ? place : "-");
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)m->holds);
		rut_an_result_int(t, RUT_LAMI_DURATION, m->held_ns);
		rut_an_result_int(t, RUT_LAMI_DURATION, m->blocked_ns);
	}
	free(list);
	return t;
}

static void print_gvl(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<28} {:>8} {:>10} {:>10} {:>10} {:>8} {:>10} {:>10}\n";
	static const int times[] = {2, 3, 4, 6, 7};
	char who[64], n[2][24], d[5][32];

	rut_buf_puts(out, "Ruby's lock by thread\n");
	rut_an_fmt_line(out, line, "Thread", "Waits", "Waited", "Average", "Longest", "Holds",
			"Held", "Longest");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(who, sizeof(who), "%.40s (%lld)", row[0].str, (long long)row[0].j);
		snprintf(n[0], sizeof(n[0]), "%lld", (long long)row[1].i);
		snprintf(n[1], sizeof(n[1]), "%lld", (long long)row[5].i);
		for (int k = 0; k < 5; k++)
			rut_an_ruby_duration(d[k], sizeof(d[k]),
					     (int64_t)rut_an_cell_value(&row[times[k]]));
		rut_an_fmt_line(out, line, who, n[0], d[0], d[1], d[2], n[1], d[3], d[4]);
	}
}

static void print_gvl_methods(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<40} {:>8} {:>10} {:>10}  {:<0}\n";
	char n[24], d[2][32], name[RUT_RUBY_NAME_SIZE];

	rut_buf_puts(out, "\nRuby's lock by the method that let go of it\n");
	rut_an_fmt_line(out, line, "Method", "Holds", "Held", "Blocked", "Defined at");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(n, sizeof(n), "%lld", (long long)row[2].i);
		rut_an_ruby_duration(d[0], sizeof(d[0]), row[3].i);
		rut_an_ruby_duration(d[1], sizeof(d[1]), row[4].i);
		rut_an_fmt_line(out, line, rut_an_ruby_name(name, row[0].str), n, d[0], d[1],
				row[1].str);
	}
}

static void gvl_report(struct rut_instance *inst, int64_t end_ns)
{
	struct gvls *g = (struct gvls *)inst;

	if (!inst->run->conf->mi && !rut_an_ruby_begin_text(inst, end_ns))
		return;
	if (!g->seen && !inst->run->conf->mi) {
		rut_buf_puts(
			&inst->run->out,
			"The trace has no events of Ruby's lock: they need Ruby 3.2 or later, and "
			"'--ruby TARGET:gvl'\n");
		return;
	}
	rut_an_run_take(inst->run, gvl_table(g, end_ns), print_gvl);
	rut_an_run_take(inst->run, gvl_method_table(g, end_ns), print_gvl_methods);
}

static void gvl_fini(struct rut_instance *inst)
{
	struct gvls *g = (struct gvls *)inst;

	for (size_t i = 0; i < g->threads.n; i++) {
		rut_an_stat_fini(&((struct gvl_thread *)g->threads.items[i])->waits);
		rut_an_stat_fini(&((struct gvl_thread *)g->threads.items[i])->holds);
	}
	rut_an_ordered_fini(&g->threads);
	rut_an_ordered_fini(&g->processes);
	rut_an_ordered_fini(&g->methods);
}

static const struct rut_lami_class *const gvl_classes[] = {&gvl_class, &gvl_method_class, NULL};

const struct rut_analysis rut_analysis_gvl = {
	.info = {"Ruby's lock", "Waits for the GVL by thread and by the method that held it", tags,
		 gvl_classes},
	.report_needs = {"ruby:gvl_wait"},
	.instance_size = sizeof(struct gvls),
	.hooks = gvl_hooks,
	.report = gvl_report,
	.fini = gvl_fini,
};
