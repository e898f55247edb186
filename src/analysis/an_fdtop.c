/* SPDX-License-Identifier: MIT */
/*
 * fdtop: open descriptors by process, over time.
 *
 * A descriptor counts from the call that made it to the call that ended it. One that a statedump
 * lists, that is inherited at a fork, or that is used or closed without anything before it, counts
 * from the beginning; the last kind is reported as "unknown before" as well, because a call that
 * the trace does not explain (ioctl, io_uring) may have made it later. The beginning and the end
 * are those of the interval or of the process, so that begin + opened - closed = end. A process
 * that ends with more than it began with, and grows all the time, leaks. A control group (--by) has
 * the sums of its processes, each with what it began with until it begins, and with what it ended
 * with after its end.
 */
#include "analysis/engine.h"
#include "analysis/fmt.h"
#include "analysis/ordered.h"

#include <stdio.h>
#include <string.h>

#define SAMPLES 32

struct proc_stats {
	int64_t tid;
	const char *comm;
	bool is_init;
	int64_t begin, now, most;
	uint64_t opened, closed;
	uint64_t found; /* unknown before they were used or closed */
	/* The number at the end of each interval; when there are too many, two become one. */
	int64_t interval_ns;
	size_t n_samples;
	int64_t samples[SAMPLES];
	struct proc_stats *group; /* of a process, with --by cgroup; or NULL */
};

struct fdtop {
	struct rut_instance base;
	struct rut_ordered procs;
};

static const struct rut_lami_column columns[] = {
	{"process", "Process", RUT_LAMI_PROCESS, NULL},
	{"begin", "Open at the begin", RUT_LAMI_NUMBER, "descriptors"},
	{"end", "Open at the end", RUT_LAMI_NUMBER, "descriptors"},
	{"max", "Most open at once", RUT_LAMI_NUMBER, "descriptors"},
	{"opened", "Opened", RUT_LAMI_NUMBER, "descriptors"},
	{"closed", "Closed", RUT_LAMI_NUMBER, "descriptors"},
	{"growth", "Growth", RUT_LAMI_NUMBER, "descriptors"},
	{"unknown", "Unknown before", RUT_LAMI_NUMBER, "descriptors"},
};

static const struct rut_lami_class top_class =
	RUT_LAMI_CLASS("per-process", "Open descriptors by process", columns);

/* Extends the last known value up to the interval `end`. */
static void go_on(struct proc_stats *p, size_t end)
{
	int64_t last = p->n_samples ? p->samples[p->n_samples - 1] : p->begin;

	while (p->n_samples < end)
		p->samples[p->n_samples++] = last;
}

static void sample(struct proc_stats *p, int64_t since_ns, int64_t value)
{
	size_t at;

	if (since_ns < 0)
		since_ns = 0;
	while ((at = (size_t)(since_ns / p->interval_ns)) >= SAMPLES) {
		go_on(p, SAMPLES);
		for (size_t i = 0; i < SAMPLES / 2; i++)
			p->samples[i] = p->samples[2 * i + 1];
		p->n_samples = SAMPLES / 2;
		p->interval_ns *= 2;
	}
	go_on(p, at + 1);
	p->samples[at] = value;
}

/* A descriptor that is seen for the first time has been there all the time. */
static void add_found(struct proc_stats *p)
{
	p->begin++;
	p->now++;
	p->most++;
	for (size_t i = 0; i < p->n_samples; i++)
		p->samples[i]++;
}

/* The row of a control group; NULL without --by cgroup. */
static struct proc_stats *get_group(struct fdtop *f, struct rut_thread *leader)
{
	const struct rut_thread *g = rut_an_run_row(f->base.run, leader);
	struct proc_stats *p;

	if (g->tid >= 0)
		return NULL;
	p = rut_an_ordered_add(&f->procs, (uint64_t)g->tid, sizeof(*p));
	if (p && !p->is_init) {
		p->is_init = true;
		p->tid = g->tid;
		p->comm = g->comm;
		p->interval_ns = 1000000;
	}
	return p;
}

/* `event`: how many descriptors of the process are there only because of this event. */
static struct proc_stats *get_proc(struct fdtop *f, const struct rut_hook_fd *h, int64_t event)
{
	/* A PID that is used again is another process. */
	struct proc_stats *p = rut_an_ordered_add(&f->procs, h->parent->serial, sizeof(*p));

	if (p && !p->is_init) {
		p->is_init = true;
		p->tid = h->parent->tid;
		p->interval_ns = 1000000;
		p->now = p->begin = p->most = (int64_t)h->parent->fds.count - event;
		p->group = get_group(f, h->parent);
		for (int64_t i = 0; p->group && i < p->begin; i++)
			add_found(p->group);
	}
	if (p)
		p->comm = h->parent->comm;
	return p;
}

static bool wanted(const struct fdtop *f, const struct rut_hook_fd *h)
{
	return rut_an_conf_thread(f->base.run->conf, h->parent) &&
	       rut_an_conf_cpu(f->base.run->conf, h->cpu);
}

static void on_create(void *arg, const void *data)
{
	const struct rut_hook_fd *h = data;
	struct fdtop *f = arg;
	struct proc_stats *p = wanted(f, h) ? get_proc(f, h, 1) : NULL;

	for (; p; p = p->group) {
		if (h->origin == RUT_FD_OPENED) {
			p->opened++;
			p->now++;
		} else {
			add_found(p);
		}
		if (h->origin == RUT_FD_FOUND)
			p->found++;
		if (p->now > p->most)
			p->most = p->now;
		sample(p, h->ts_ns - f->base.begin_ns, p->now);
	}
}

static void on_close(void *arg, const void *data)
{
	const struct rut_hook_fd *h = data;
	struct fdtop *f = arg;
	struct proc_stats *p = wanted(f, h) ? get_proc(f, h, 0) : NULL;

	for (; p; p = p->group) {
		p->closed++;
		p->now--;
		sample(p, h->ts_ns - f->base.begin_ns, p->now);
	}
}

/* A row has the last name of its thread. */
RUT_DEFINE_NAME_HOOK(on_name, struct fdtop, procs, struct proc_stats, serial);

static const struct rut_analysis_hook hooks[] = {
	{RUT_HOOK_FD_CREATE, on_create},
	{RUT_HOOK_FD_CLOSE, on_close},
	{RUT_HOOK_NAME, on_name},
	{0, NULL},
};

static int by_growth(const void *a, const void *b)
{
	const struct proc_stats *x = a, *y = b;
	int64_t gx = x->now - x->begin, gy = y->now - y->begin;

	if (gx != gy)
		return gx > gy ? -1 : 1;
	return x->most > y->most ? -1 : x->most < y->most;
}

static void spark(const struct proc_stats *p, char *out, size_t size)
{
	static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	size_t at = 0;

	out[0] = '\0';
	for (size_t i = 0; i < p->n_samples && at + 4 < size; i++) {
		int64_t v = p->samples[i] < 0 ? 0 : p->samples[i];
		int64_t level = p->most > 0 ? v * 7 / p->most : 0;

		at += (size_t)snprintf(out + at, size - at, "%s", bars[level > 7 ? 7 : level]);
	}
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	static const char line[] = "{:<28} {:>7} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8}  {:<0}\n";
	struct fdtop *f = (struct fdtop *)inst;
	struct rut_run *run = inst->run;
	struct proc_stats **list =
		(struct proc_stats **)rut_an_ordered_sorted(&f->procs, by_growth);
	struct rut_result *t = rut_an_result_new(&top_class, inst->begin_ns, end_ns, NULL);
	char who[64], num[7][24], graph[SAMPLES * 3 + 4];

	if (!run->conf->mi) {
		rut_an_run_print_range(run, inst->begin_ns, end_ns);
		rut_buf_puts(&run->out, "Open descriptors by process\n");
		rut_an_fmt_line(&run->out, line, "Process", "Begin", "End", "Most", "Opened",
				"Closed", "Growth", "Unknown", "Over time");
	}
	for (size_t i = 0, rows = 0; t && list && i < f->procs.n; i++) {
		const struct proc_stats *p = list[i];
		const int64_t v[] = {p->begin,
				     p->now,
				     p->most,
				     (int64_t)p->opened,
				     (int64_t)p->closed,
				     p->now - p->begin,
				     (int64_t)p->found};

		if (p->group)
			continue;
		if (run->conf->limit > 0 && (int64_t)rows++ >= run->conf->limit)
			break;
		rut_an_result_process(t, p->comm, p->tid < 0 ? RUT_LAMI_NONE : p->tid,
				      RUT_LAMI_NONE);
		for (int k = 0; k < 7; k++) {
			rut_an_result_int(t, RUT_LAMI_NUMBER, v[k]);
			snprintf(num[k], sizeof(num[k]), "%lld", (long long)v[k]);
		}
		if (run->conf->mi)
			continue;
		sample(list[i], end_ns - inst->begin_ns, p->now);
		spark(p, graph, sizeof(graph));
		rut_an_fmt_thread(who, sizeof(who), p->comm, p->tid);
		rut_an_fmt_line(&run->out, line, who, num[0], num[1], num[2], num[3], num[4],
				num[5], num[6], graph);
	}
	if (run->conf->mi)
		rut_an_results_take(&run->results, t);
	else
		rut_an_result_free(t);
	free(list);
}

static void fini(struct rut_instance *inst)
{
	rut_an_ordered_fini(&((struct fdtop *)inst)->procs);
}

static const char *const tags[] = {"linux-kernel", "rutile", "io", "top", NULL};
static const struct rut_lami_class *const classes[] = {&top_class, NULL};

static const char *const needs[] = {"*syscall_entry_*", "*sys_*", "lttng_statedump_file_descriptor",
				    NULL};

const struct rut_analysis rut_analysis_fdtop = {
	.info = {"Open descriptors", "Open descriptors over time per process", tags, classes},
	.needs = needs,
	.needs_threads = true,
	.report_needs = {"syscall_entry_open*", "sys_open*"},
	.instance_size = sizeof(struct fdtop),
	.hooks = hooks,
	.report = report,
	.fini = fini,
};
