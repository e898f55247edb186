/* SPDX-License-Identifier: MIT */
/* syscallstats: each thread's system calls: how many, how long, and what they returned. */
#include "analysis/engine.h"
#include "analysis/fmt.h"
#include "analysis/freq.h"
#include "analysis/ordered.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct ret_count {
	int64_t ret; /* 0: success, else as returned */
	uint64_t count;
};

struct call_stats {
	struct rut_stat duration;
	struct ret_count first; /* of the return values: most often there is no other */
	struct ret_count *rets; /* owned; the others in order of first sight */
	size_t n_rets;
	const char *name;
};

enum { FIRST_IDS = 8 };

/* A thread makes few different calls: their numbers stand where one look finds them. */
struct tid_stats {
	int64_t tid, pid;
	const char *comm;
	uint64_t total;
	uint32_t n_calls;
	uint32_t ids[FIRST_IDS];  /* of the first calls */
	uint32_t *more_ids;	  /* owned; of the others */
	struct call_stats *calls; /* owned; in order of first sight */
};

enum { CACHED = 64 }; /* CPUs; a power of two */

struct syscalls {
	struct rut_instance base;
	struct rut_ordered tids;
	/* The thread of the last call on a CPU: most often also of the next. By number. */
	struct tid_stats *last[CACHED];
};

static const struct rut_lami_column per_tid_columns[] = {
	{"syscall", "System call", RUT_LAMI_SYSCALL, NULL},
	{"count", "Call count", RUT_LAMI_NUMBER, "calls"},
	{"min_duration", "Minimum call duration", RUT_LAMI_DURATION, NULL},
	{"avg_duration", "Average call duration", RUT_LAMI_DURATION, NULL},
	{"max_duration", "Maximum call duration", RUT_LAMI_DURATION, NULL},
	{"stdev_duration", "Call duration standard deviation", RUT_LAMI_DURATION, NULL},
	{"return_values", "Return values count", RUT_LAMI_STRING, NULL},
};

static const struct rut_lami_column total_columns[] = {
	{"process", "Process", RUT_LAMI_PROCESS, NULL},
	{"count", "Total system call count", RUT_LAMI_NUMBER, "calls"},
};

static const struct rut_lami_column summary_columns[] = {
	{"time_range", "Time range", RUT_LAMI_TIME_RANGE, NULL},
	{"process", "Process", RUT_LAMI_PROCESS, NULL},
	{"count", "Total system call count", RUT_LAMI_NUMBER, "calls"},
};

static const struct rut_lami_class per_tid =
	RUT_LAMI_CLASS("per-tid", "System call statistics", per_tid_columns);
static const struct rut_lami_class total =
	RUT_LAMI_CLASS("total", "Per-TID system call statistics", total_columns);
static const struct rut_lami_class summary =
	RUT_LAMI_CLASS("summary", "System call statistics - summary", summary_columns);

/* ---- What happens ---- */

enum { MAX_ERRNO = 4095 }; /* of the kernel */

static void count_return(struct call_stats *c, int64_t ret)
{
	struct ret_count *rets;

	if (ret > 0 || ret < -MAX_ERRNO) /* addresses and the like have all bits */
		ret = 0;
	if (c->first.ret == ret || !c->first.count) {
		c->first.ret = ret;
		c->first.count++;
		return;
	}
	for (size_t i = 0; i < c->n_rets; i++) {
		if (c->rets[i].ret == ret) {
			c->rets[i].count++;
			return;
		}
	}
	rets = realloc(c->rets, (c->n_rets + 1) * sizeof(*rets));
	if (!rets)
		return;
	c->rets = rets;
	rets[c->n_rets++] = (struct ret_count){ret, 1};
}

static struct tid_stats *get_tid(struct syscalls *s, const struct rut_thread *t)
{
	struct tid_stats *p = rut_an_ordered_add(&s->tids, (uint64_t)t->tid, sizeof(*p));

	if (p && !p->comm) {
		p->tid = t->tid;
		p->pid = t->pid;
		p->comm = t->comm;
	}
	return p;
}

/* As many as are there have room for one more when they are a power of two. */
static void *grown(void *array, size_t n, size_t size)
{
	return n & (n - 1) ? array : realloc(array, (n ? 2 * n : 1) * size);
}

static struct call_stats *add_call(struct syscalls *s, struct tid_stats *p,
				   const struct rut_syscall_info *info)
{
	struct call_stats *calls = grown(p->calls, p->n_calls, sizeof(*calls)), *c;
	uint32_t more = p->n_calls < FIRST_IDS ? 0 : p->n_calls - FIRST_IDS, *ids;

	if (!calls)
		return NULL;
	p->calls = calls;
	c = &calls[p->n_calls];
	if (p->n_calls < FIRST_IDS) {
		p->ids[p->n_calls] = info->id;
	} else {
		ids = grown(p->more_ids, more, sizeof(*ids));
		if (!ids)
			return NULL;
		p->more_ids = ids;
		ids[more] = info->id;
	}
	*c = (struct call_stats){.name = info->name};
	if (rut_an_stat_init(&c->duration, rut_an_stat_keep(s->base.run->conf)))
		return NULL;
	p->n_calls++;
	return c;
}

static struct call_stats *get_call(struct syscalls *s, struct tid_stats *p,
				   const struct rut_syscall_info *info)
{
	uint32_t n = p->n_calls < FIRST_IDS ? p->n_calls : FIRST_IDS;
	struct call_stats *c;

	for (uint32_t i = 0; i < n; i++)
		if (p->ids[i] == info->id)
			return &p->calls[i];
	for (uint32_t i = n; i < p->n_calls; i++)
		if (p->more_ids[i - FIRST_IDS] == info->id)
			return &p->calls[i];
	c = add_call(s, p, info);
	if (!c)
		s->base.run->engine->state.failed = true;
	return c;
}

static void on_syscall(void *arg, const void *data)
{
	const struct rut_hook_syscall *h = data;
	struct syscalls *s = arg;
	struct tid_stats **last = &s->last[h->cpu & (CACHED - 1)], *p;
	const struct rut_thread *row;
	struct call_stats *c;

	if (!rut_an_conf_thread(s->base.run->conf, h->thread) ||
	    !rut_an_conf_cpu(s->base.run->conf, h->cpu))
		return;
	row = rut_an_run_row(s->base.run, h->thread);
	p = *last;
	if (!p || p->tid != row->tid)
		*last = p = get_tid(s, row);
	c = p ? get_call(s, p, h->info) : NULL;
	if (!c)
		return;
	rut_stat_add(&c->duration, h->duration_ns);
	if (h->has_ret)
		count_return(c, h->ret);
	p->total++;
}

/* A row has the last name of its thread. */
RUT_DEFINE_NAME_HOOK(on_name, struct syscalls, tids, struct tid_stats, tid);

static const struct rut_analysis_hook hooks[] = {
	{RUT_HOOK_SYSCALL_EXIT, on_syscall},
	{RUT_HOOK_NAME, on_name},
	{0, NULL},
};

static int init(struct rut_instance *inst)
{
	((struct syscalls *)inst)->tids.by_tid = !inst->period;
	return 0;
}

/* ---- Report ---- */

static int by_total(const void *a, const void *b)
{
	uint64_t x = ((const struct tid_stats *)a)->total, y = ((const struct tid_stats *)b)->total;

	return x > y ? -1 : x < y;
}

static int by_count(const void *a, const void *b)
{
	uint64_t x = ((const struct call_stats *)a)->duration.count;
	uint64_t y = ((const struct call_stats *)b)->duration.count;

	return x > y ? -1 : x < y;
}

/* Where two names share a number, the reference's. NULL: it has none. */
static const char *error_name(int64_t ret)
{
	switch (ret) {
	case -35:
		return "EDEADLOCK";
	case -95:
		return "ENOTSUP";
	case -133:
		return NULL;
	default:
		return ret < 0 ? strerrorname_np((int)-ret) : NULL;
	}
}

static void add_return(struct rut_buf *b, const struct ret_count *r)
{
	const char *name = r->ret ? error_name(r->ret) : "success";
	char count[24];

	rut_buf_puts(b, b->len > 1 ? ", '" : "'");
	if (name)
		rut_buf_puts(b, name);
	else
		rut_buf_printf(b, "%lld", (long long)r->ret);
	rut_buf_puts(b, "': ");
	rut_an_fmt_u64(count, r->count);
	rut_buf_puts(b, count);
}

/* {'success': 3, 'EAGAIN': 1} */
static void add_returns(struct rut_result *t, const struct call_stats *c)
{
	struct rut_buf b = RUT_BUF_INIT;

	rut_buf_putc(&b, '{');
	if (c->first.count)
		add_return(&b, &c->first);
	for (size_t i = 0; i < c->n_rets; i++)
		add_return(&b, &c->rets[i]);
	rut_buf_putc(&b, '}');
	rut_an_result_text(t, RUT_LAMI_STRING, b.data);
	rut_buf_fini(&b);
}

/* The most frequent first. NULL: no memory. */
static struct call_stats **sorted_calls(const struct tid_stats *p)
{
	struct call_stats **list = malloc((p->n_calls + 1) * sizeof(*list));

	for (uint32_t i = 0; list && i < p->n_calls; i++)
		list[i] = &p->calls[i];
	if (list && rut_an_sort_stable((void **)list, p->n_calls, by_count)) {
		free(list);
		return NULL;
	}
	return list;
}

static struct rut_result *calls_table(const struct syscalls *s, const struct tid_stats *p,
				      int64_t end_ns)
{
	struct call_stats **list = sorted_calls(p);
	struct rut_result *t;
	char subtitle[128], pid[24] = "?";

	if (p->pid >= 0)
		snprintf(pid, sizeof(pid), "%lld", (long long)p->pid);
	if (p->tid < 0)
		snprintf(subtitle, sizeof(subtitle), "%s", p->comm);
	else
		snprintf(subtitle, sizeof(subtitle), "%s (%s, TID: %lld)", p->comm, pid,
			 (long long)p->tid);
	t = rut_an_result_new(&per_tid, s->base.begin_ns, end_ns, subtitle);
	for (size_t i = 0; t && list && i < p->n_calls; i++) {
		const struct rut_stat *d = &list[i]->duration;

		rut_an_result_text(t, RUT_LAMI_SYSCALL, list[i]->name);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)d->count);
		rut_an_result_int(t, RUT_LAMI_DURATION, d->min);
		rut_an_result_float(t, RUT_LAMI_DURATION, rut_stat_mean(d));
		rut_an_result_int(t, RUT_LAMI_DURATION, d->max);
		if (d->count > 2)
			rut_an_result_float(t, RUT_LAMI_DURATION, rut_an_stat_stdev(d));
		else
			rut_an_result_unknown(t);
		add_returns(t, list[i]);
	}
	free(list);
	return t;
}

/* Microseconds as Python prints round(x, 3). */
static void round_us(char *out, size_t size, const struct rut_cell *c)
{
	struct rut_buf b = RUT_BUF_INIT;
	char text[64];
	size_t len;

	if (c->type == RUT_LAMI_UNKNOWN) {
		snprintf(out, size, "?");
		return;
	}
	rut_an_fmt_us(text, sizeof(text), rut_an_cell_value(c));
	len = strlen(text);
	/* So many digits are the shortest that mean this number, but for zeros at the end. */
	if (len <= DBL_DIG && isdigit(text[len - 1])) {
		while (text[len - 1] == '0' && text[len - 2] != '.')
			text[--len] = '\0';
		memcpy(out, text, len + 1);
		return;
	}
	rut_an_json_float(&b, strtod(text, NULL));
	snprintf(out, size, "%s", b.data);
	rut_buf_fini(&b);
}

static const char line[] = "{:<38} {:>14} {:>14} {:>14} {:>12} {:>10}  {:<14}\n";

static void print_calls(const struct rut_result *t, uint64_t calls, struct rut_buf *out)
{
	char count[24], min[64], avg[64], max[64], stdev[64];
	_cleanup_buf_ struct rut_buf name = RUT_BUF_INIT;

	rut_an_fmt_line(out, line, t->subtitle, "Count", "Min", "Average", "Max", "Stdev",
			"Return values");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		rut_buf_clear(&name);
		rut_buf_puts(&name, " - ");
		rut_buf_puts(&name, row[0].str);
		rut_an_fmt_u64(count, (uint64_t)row[1].i);
		round_us(min, sizeof(min), &row[2]);
		round_us(avg, sizeof(avg), &row[3]);
		round_us(max, sizeof(max), &row[4]);
		round_us(stdev, sizeof(stdev), &row[5]);
		rut_an_fmt_line(out, line, name.data ? name.data : "", count, min, avg, max, stdev,
				row[6].str);
	}
	snprintf(count, sizeof(count), "%llu", (unsigned long long)calls);
	rut_an_fmt_line(out, line, "Total:", count, "", "", "", "", "");
	rut_buf_fill(out, '-', 113);
	rut_buf_putc(out, '\n');
}

static void add_percentiles(struct rut_result *pct, const struct tid_stats *p)
{
	char thread[96], what[160];

	for (size_t i = 0; pct && i < p->n_calls; i++) {
		const struct call_stats *c = &p->calls[i];

		rut_an_fmt_thread(thread, sizeof(thread), p->comm, p->tid);
		snprintf(what, sizeof(what), "%s %s", thread, c->name);
		rut_an_percentiles_add(pct, what, &c->duration);
	}
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	struct syscalls *s = (struct syscalls *)inst;
	struct rut_run *run = inst->run;
	struct tid_stats **list = (struct tid_stats **)rut_an_ordered_sorted(&s->tids, by_total);
	struct rut_result *all = rut_an_result_new(&total, inst->begin_ns, end_ns, NULL), *t;
	struct rut_result *pct =
		run->conf->percentiles
			? rut_an_result_new(&rut_an_class_percentiles, inst->begin_ns, end_ns, NULL)
			: NULL;
	uint64_t calls = 0;

	if (!run->conf->mi) {
		rut_an_run_print_range(run, inst->begin_ns, end_ns);
		rut_buf_puts(&run->out, "Per-TID syscalls statistics (usec)\n");
	}
	for (size_t i = 0; list && all && i < s->tids.n; i++) {
		list[i]->pid = rut_an_state_pid(&run->engine->state, list[i]->tid, list[i]->pid);
		rut_an_result_process(all, list[i]->comm,
				      list[i]->pid >= 0 ? list[i]->pid : RUT_LAMI_NONE,
				      list[i]->tid);
		rut_an_result_int(all, RUT_LAMI_NUMBER, (int64_t)list[i]->total);
		calls += list[i]->total;
		if (run->conf->brief && (int64_t)i >= run->conf->limit)
			continue;
		t = calls_table(s, list[i], end_ns);
		add_percentiles(pct, list[i]);
		if (t && run->conf->mi) {
			rut_an_results_take(&run->results, t);
			continue;
		}
		if (t)
			print_calls(t, list[i]->total, &run->out);
		rut_an_result_free(t);
	}
	if (run->conf->mi) {
		rut_an_results_take(&run->results, all);
	} else {
		rut_buf_printf(&run->out, "\nTotal syscalls: %llu\n", (unsigned long long)calls);
		rut_an_result_free(all);
	}
	rut_an_percentiles_finish(run, pct);
	free(list);
}

static void summarise(struct rut_run *run)
{
	size_t totals = 0;

	for (size_t i = 0; i < run->results.n; i++)
		totals += run->results.tables[i]->cls == &total;
	if (totals > 1)
		rut_an_results_summarise(&run->results, &total, &summary);
}

static void fini(struct rut_instance *inst)
{
	struct syscalls *s = (struct syscalls *)inst;

	for (size_t i = 0; i < s->tids.n; i++) {
		struct tid_stats *p = s->tids.items[i];

		for (uint32_t k = 0; k < p->n_calls; k++) {
			rut_an_stat_fini(&p->calls[k].duration);
			free(p->calls[k].rets);
		}
		free(p->more_ids);
		free(p->calls);
	}
	rut_an_ordered_fini(&s->tids);
}

static const char *const tags[] = {"linux-kernel", "lttng-analyses", "syscall", "stats", NULL};
static const struct rut_lami_class *const classes[] = {&per_tid, &total, &summary,
						       &rut_an_class_percentiles, NULL};

static const char *const needs[] = {"*syscall_entry_*", "*sys_*", NULL};

const struct rut_analysis rut_analysis_syscalls = {
	.info = {"System call statistics", "Per-TID and global system call statistics", tags,
		 classes},
	.needs = needs,
	.needs_threads = true,
	.report_needs = {"*syscall_entry_*", "sys_*"},
	.instance_size = sizeof(struct syscalls),
	.hooks = hooks,
	.asks_files = rut_an_asks_no_files,
	.init = init,
	.report = report,
	.fini = fini,
	.summarise = summarise,
};
