/* SPDX-License-Identifier: MIT */
/*
 * futexstats: which threads wait for which locks.
 *
 * A futex is a word of memory, identified by process and address. A wait is a call with FUTEX_WAIT,
 * FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI or FUTEX_LOCK_PI; it is contended when the thread slept:
 * when it did not return at once because the word had changed (EAGAIN). A wake is one of the
 * calls that wake others; its return value is how many it woke.
 */
#include "analysis/engine.h"
#include "analysis/fmt.h"
#include "analysis/freq.h"
#include "analysis/ordered.h"

#include <stdio.h>
#include <string.h>

struct futex_stats {
	int64_t pid;
	uint64_t address;
	const char *comm;
	bool is_init;
	uint64_t waits, changed, timeouts, wakes, woken;
	struct rut_stat slept;
};

struct tid_stats {
	int64_t tid;
	const char *comm;
	bool is_init;
	uint64_t waits;
	struct rut_stat slept;
	/* The current call. */
	uint64_t address;
	int op;
	bool inside;
};

struct futexes {
	struct rut_instance base;
	struct rut_ordered futexes, tids;
};

static const struct rut_lami_column futex_columns[] = {
	{"process", "Process", RUT_LAMI_PROCESS, NULL},
	{"address", "Address", RUT_LAMI_STRING, NULL},
	{"waits", "Waits", RUT_LAMI_NUMBER, "waits"},
	{"contended", "Contended waits", RUT_LAMI_NUMBER, "waits"},
	{"timeouts", "Timeouts", RUT_LAMI_NUMBER, "waits"},
	{"total", "Total time slept", RUT_LAMI_DURATION, NULL},
	{"avg", "Average time slept", RUT_LAMI_DURATION, NULL},
	{"max", "Maximum time slept", RUT_LAMI_DURATION, NULL},
	{"wakes", "Wakes", RUT_LAMI_NUMBER, "wakes"},
	{"woken", "Threads woken", RUT_LAMI_NUMBER, "threads"},
};

static const struct rut_lami_column tid_columns[] = {
	{"process", "Thread", RUT_LAMI_PROCESS, NULL},
	{"waits", "Waits", RUT_LAMI_NUMBER, "waits"},
	{"contended", "Contended waits", RUT_LAMI_NUMBER, "waits"},
	{"total", "Total time slept", RUT_LAMI_DURATION, NULL},
	{"avg", "Average time slept", RUT_LAMI_DURATION, NULL},
	{"max", "Maximum time slept", RUT_LAMI_DURATION, NULL},
};

static const struct rut_lami_class futex_class =
	RUT_LAMI_CLASS("per-futex", "Waits by futex", futex_columns);
static const struct rut_lami_class tid_class =
	RUT_LAMI_CLASS("per-tid", "Waits by thread", tid_columns);

/* Of linux/futex.h. */
enum {
	OP_WAIT,
	OP_WAKE,
	OP_REQUEUE = 3,
	OP_CMP_REQUEUE,
	OP_WAKE_OP,
	OP_LOCK_PI,
	OP_UNLOCK_PI,
	OP_WAIT_BITSET = 9,
	OP_WAKE_BITSET,
	OP_WAIT_REQUEUE_PI,
	OP_CMP_REQUEUE_PI,
	OP_LOCK_PI2
};

static bool is_wait(int op)
{
	return op == OP_WAIT || op == OP_WAIT_BITSET || op == OP_WAIT_REQUEUE_PI ||
	       op == OP_LOCK_PI || op == OP_LOCK_PI2;
}

static bool is_wake(int op)
{
	return op == OP_WAKE || op == OP_WAKE_OP || op == OP_WAKE_BITSET || op == OP_REQUEUE ||
	       op == OP_CMP_REQUEUE || op == OP_CMP_REQUEUE_PI || op == OP_UNLOCK_PI;
}

static struct tid_stats *get_tid(struct futexes *f, const struct rut_thread *t)
{
	struct tid_stats *s = rut_an_ordered_add(&f->tids, (uint64_t)t->tid, sizeof(*s));

	if (s && !s->is_init) {
		s->is_init = true;
		s->tid = t->tid;
		s->comm = t->comm;
		(void)rut_an_stat_init(&s->slept, rut_an_stat_keep(f->base.run->conf));
	}
	return s;
}

static struct futex_stats *get_futex(struct futexes *f, const struct rut_thread *t,
				     uint64_t address)
{
	int64_t pid = t->pid >= 0 ? t->pid : t->tid;
	struct futex_stats *s =
		rut_an_ordered_add(&f->futexes, rut_hash_u64((uint64_t)pid) ^ address, sizeof(*s));

	if (s && !s->is_init) {
		s->is_init = true;
		s->pid = pid;
		s->address = address;
		(void)rut_an_stat_init(&s->slept, rut_an_stat_keep(f->base.run->conf));
	}
	return s;
}

static void on_entry(struct rut_instance *inst, const struct rut_ctf_event *ev,
		     const struct rut_state_class *c, const struct rut_ctf_ref *fields)
{
	struct futexes *f = (struct futexes *)inst;
	struct rut_thread *t = rut_an_state_current(&inst->run->engine->state, ev, c);
	struct tid_stats *s = t ? get_tid(f, t) : NULL;

	if (!s)
		return;
	s->address = rut_ctf_u64(ev, &fields[0]);
	s->op = (int)(rut_ctf_u64(ev, &fields[1]) & 0x7f);
	s->inside = true;
}

static void on_return(void *arg, const void *data)
{
	const struct rut_hook_syscall *h = data;
	struct futexes *f = arg;
	struct tid_stats *s;
	struct futex_stats *fs;

	if (h->info->wait != RUT_WAIT_FUTEX)
		return;
	s = rut_ordered_get(&f->tids, (uint64_t)h->thread->tid);
	if (!s || !s->inside)
		return;
	s->inside = false;
	if (!rut_an_conf_thread(f->base.run->conf, h->thread) ||
	    !rut_an_conf_cpu(f->base.run->conf, h->cpu))
		return;
	fs = get_futex(f, h->thread, s->address);
	if (!fs)
		return;
	fs->comm = rut_an_state_leader(&f->base.run->engine->state, h->thread)->comm;
	if (is_wake(s->op)) {
		fs->wakes++;
		fs->woken += h->ret > 0 ? (uint64_t)h->ret : 0;
	}
	if (!is_wait(s->op))
		return;
	if (f->base.run->conf->by)
		s = get_tid(f, rut_an_run_row(f->base.run, h->thread));
	if (!s)
		return;
	s->waits++;
	fs->waits++;
	fs->changed += h->ret == -EAGAIN;
	fs->timeouts += h->ret == -ETIMEDOUT;
	if (h->ret == -EAGAIN)
		return;
	rut_stat_add(&s->slept, h->duration_ns);
	rut_stat_add(&fs->slept, h->duration_ns);
}

/* A row has the last name of its thread. */
RUT_DEFINE_NAME_HOOK(on_name, struct futexes, tids, struct tid_stats, tid);

static const struct rut_analysis_hook hooks[] = {
	{RUT_HOOK_SYSCALL_EXIT, on_return},
	{RUT_HOOK_NAME, on_name},
	{0, NULL},
};
static const struct rut_analysis_event events[] = {
	{"syscall_entry_futex", {"uaddr", "op"}, on_entry},
	{"sys_futex", {"uaddr", "op"}, on_entry},
	{"compat_syscall_entry_futex", {"uaddr", "op"}, on_entry},
	{NULL, {NULL}, NULL},
};

/* ---- Report ---- */

static int by_futex(const void *a, const void *b)
{
	int64_t x = ((const struct futex_stats *)a)->slept.sum;
	int64_t y = ((const struct futex_stats *)b)->slept.sum;

	return x > y ? -1 : x < y;
}

static int by_tid(const void *a, const void *b)
{
	int64_t x = ((const struct tid_stats *)a)->slept.sum;
	int64_t y = ((const struct tid_stats *)b)->slept.sum;

	return x > y ? -1 : x < y;
}

static void add_slept(struct rut_result *t, const struct rut_stat *s)
{
	rut_an_result_int(t, RUT_LAMI_DURATION, s->sum);
	rut_an_result_float(t, RUT_LAMI_DURATION, rut_stat_mean(s));
	rut_an_result_int(t, RUT_LAMI_DURATION, s->max);
}

static struct rut_result *futex_table(struct futexes *f, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&futex_class, f->base.begin_ns, end_ns, NULL);
	struct futex_stats **list =
		(struct futex_stats **)rut_an_ordered_sorted(&f->futexes, by_futex);
	int64_t limit = f->base.run->conf->limit;

	for (size_t i = 0; t && list && i < f->futexes.n; i++) {
		const struct futex_stats *s = list[i];
		const struct rut_thread *p;

		if (limit > 0 && (int64_t)i >= limit)
			break;
		p = rut_an_state_thread(&f->base.run->engine->state, s->pid);
		rut_an_result_process(t, p && *p->comm ? p->comm : s->comm, s->pid, RUT_LAMI_NONE);
		rut_an_result_add(
			t, (struct rut_cell){.type = RUT_LAMI_STRING,
					     .str = rut_an_result_strf(
						     t, "0x%llx", (unsigned long long)s->address)});
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)s->waits);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)(s->waits - s->changed));
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)s->timeouts);
		add_slept(t, &s->slept);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)s->wakes);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)s->woken);
	}
	free(list);
	return t;
}

static struct rut_result *tid_table(struct futexes *f, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&tid_class, f->base.begin_ns, end_ns, NULL);
	struct tid_stats **list = (struct tid_stats **)rut_an_ordered_sorted(&f->tids, by_tid);
	int64_t limit = f->base.run->conf->limit;

	for (size_t i = 0; t && list && i < f->tids.n; i++) {
		const struct tid_stats *s = list[i];

		if (!s->waits)
			continue;
		if (limit > 0 && (int64_t)rut_result_rows(t) >= limit)
			break;
		rut_an_result_process(t, s->comm, RUT_LAMI_NONE, s->tid);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)s->waits);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)s->slept.count);
		add_slept(t, &s->slept);
	}
	free(list);
	return t;
}

static void print_futexes(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<24} {:<18} {:>8} {:>9} {:>8} {:>14} {:>12} {:>12} {:>8} "
				   "{:>8}\n";
	char who[64], num[5][24], us[3][40];

	rut_buf_puts(out, "Waits by futex (us)\n");
	rut_an_fmt_line(out, line, "Process", "Address", "Waits", "Contended", "Timeouts", "Total",
			"Average", "Max", "Wakes", "Woken");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);
		static const int numbers[] = {2, 3, 4, 8, 9};

		snprintf(who, sizeof(who), "%.40s (%lld)", row[0].str, (long long)row[0].i);
		for (int k = 0; k < 5; k++)
			snprintf(num[k], sizeof(num[k]), "%lld", (long long)row[numbers[k]].i);
		for (int k = 0; k < 3; k++)
			rut_an_fmt_us(us[k], sizeof(us[k]), rut_an_cell_value(&row[5 + k]));
		rut_an_fmt_line(out, line, who, row[1].str, num[0], num[1], num[2], us[0], us[1],
				us[2], num[3], num[4]);
	}
}

static void print_tids(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<30} {:>8} {:>9} {:>14} {:>12} {:>12}\n";
	char who[64], waits[24], contended[24], us[3][40];

	rut_buf_puts(out, "\nWaits by thread (us)\n");
	rut_an_fmt_line(out, line, "Thread", "Waits", "Contended", "Total", "Average", "Max");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		rut_an_fmt_process(who, sizeof(who), &row[0]);
		snprintf(waits, sizeof(waits), "%lld", (long long)row[1].i);
		snprintf(contended, sizeof(contended), "%lld", (long long)row[2].i);
		for (int k = 0; k < 3; k++)
			rut_an_fmt_us(us[k], sizeof(us[k]), rut_an_cell_value(&row[3 + k]));
		rut_an_fmt_line(out, line, who, waits, contended, us[0], us[1], us[2]);
	}
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	struct futexes *f = (struct futexes *)inst;
	struct rut_run *run = inst->run;
	struct rut_result *a = futex_table(f, end_ns), *b = tid_table(f, end_ns), *pct = NULL;
	char what[96];

	if (run->conf->percentiles)
		pct = rut_an_result_new(&rut_an_class_percentiles, inst->begin_ns, end_ns, NULL);
	for (size_t i = 0; pct && i < f->tids.n; i++) {
		const struct tid_stats *s = f->tids.items[i];

		rut_an_fmt_thread(what, sizeof(what), s->comm, s->tid);
		rut_an_percentiles_add(pct, what, &s->slept);
	}
	if (run->conf->mi) {
		rut_an_results_take(&run->results, a);
		rut_an_results_take(&run->results, b);
	} else {
		rut_an_run_print_range(run, inst->begin_ns, end_ns);
		print_futexes(a, &run->out);
		print_tids(b, &run->out);
		rut_an_result_free(a);
		rut_an_result_free(b);
	}
	rut_an_percentiles_finish(run, pct);
}

static void fini(struct rut_instance *inst)
{
	struct futexes *f = (struct futexes *)inst;

	for (size_t i = 0; i < f->futexes.n; i++)
		rut_an_stat_fini(&((struct futex_stats *)f->futexes.items[i])->slept);
	for (size_t i = 0; i < f->tids.n; i++)
		rut_an_stat_fini(&((struct tid_stats *)f->tids.items[i])->slept);
	rut_an_ordered_fini(&f->futexes);
	rut_an_ordered_fini(&f->tids);
}

static const char *const tags[] = {"linux-kernel", "rutile", "futex", "stats", NULL};
static const struct rut_lami_class *const classes[] = {&futex_class, &tid_class,
						       &rut_an_class_percentiles, NULL};

static const char *const needs[] = {"*syscall_entry_futex*", "*sys_futex", NULL};

const struct rut_analysis rut_analysis_futex = {
	.info = {"Futex waits", "Waits and contention per futex and per thread", tags, classes},
	.needs = needs,
	.needs_threads = true,
	.report_needs = {"syscall_entry_futex", "sys_futex"},
	.instance_size = sizeof(struct futexes),
	.hooks = hooks,
	.asks_files = rut_an_asks_no_files,
	.events = events,
	.report = report,
	.fini = fini,
};
