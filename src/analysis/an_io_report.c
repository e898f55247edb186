/* SPDX-License-Identifier: MIT */
/* Latencies of input and output: statistics, distributions, the longest, the log. */
#include "analysis/an_io.h"

#include <stdio.h>
#include <string.h>

#include "analysis/fmt.h"

const char *const rut_an_io_cat_names[RUT_IO_CATS] = {"open", "read", "write", "sync"};

#define STATS_COLUMNS(what)                                                                        \
	{"min_latency", "Minimum " what " latency", RUT_LAMI_DURATION, NULL},                      \
		{"avg_latency", "Average " what " latency", RUT_LAMI_DURATION, NULL},              \
	{                                                                                          \
		"max_latency", "Maximum " what " latency", RUT_LAMI_DURATION, NULL                 \
	}

static const struct rut_lami_column stats_columns[] = {
	{"obj", "System call category", RUT_LAMI_STRING, NULL},
	{"count", "Call count", RUT_LAMI_NUMBER, "calls"},
	STATS_COLUMNS("call"),
	{"stdev_latency", "System call latency standard deviation", RUT_LAMI_DURATION, NULL},
};

static const struct rut_lami_column disk_columns[] = {
	{"obj", "Partition", RUT_LAMI_DISK, NULL},
	{"count", "Access count", RUT_LAMI_NUMBER, "accesses"},
	STATS_COLUMNS("access"),
	{"stdev_latency", "System access latency standard deviation", RUT_LAMI_DURATION, NULL},
};

static const struct rut_lami_column freq_columns[] = {
	{"latency_lower", "Latency (lower bound)", RUT_LAMI_DURATION, NULL},
	{"latency_upper", "Latency (upper bound)", RUT_LAMI_DURATION, NULL},
	{"count", "Request count", RUT_LAMI_NUMBER, "requests"},
};

static const struct rut_lami_column row_columns[] = {
	{"time_range", "Call time range", RUT_LAMI_TIME_RANGE, NULL},
	{"out_of_range", "System call out of range?", RUT_LAMI_BOOL, NULL},
	{"duration", "Call duration", RUT_LAMI_DURATION, NULL},
	{"syscall", "System call", RUT_LAMI_SYSCALL, NULL},
	{"size", "Read/write size", RUT_LAMI_SIZE, NULL},
	{"process", "Process", RUT_LAMI_PROCESS, NULL},
	{"path", "File path", RUT_LAMI_PATH, NULL},
	{"fd", "File descriptor", RUT_LAMI_FD, NULL},
};

const struct rut_lami_class rut_an_io_stats_class =
	RUT_LAMI_CLASS("syscall-latency-stats", "System call latency statistics", stats_columns);
const struct rut_lami_class rut_an_io_disk_class =
	RUT_LAMI_CLASS("disk-latency-stats", "Partition latency statistics", disk_columns);
const struct rut_lami_class rut_an_io_freq_class =
	RUT_LAMI_CLASS("freq", "I/O request latency distribution", freq_columns);
const struct rut_lami_class rut_an_io_top_class =
	RUT_LAMI_CLASS("top-syscall", "Top system call latencies", row_columns);
const struct rut_lami_class rut_an_io_log_class =
	RUT_LAMI_CLASS("log", "I/O operations log", row_columns);

const char *rut_an_io_disk_name(const char *known, int64_t dev, char buf[RUT_IO_DISK_NAME])
{
	if (known)
		return known;
	snprintf(buf, RUT_IO_DISK_NAME, "(%lld,%lld)", (long long)(dev >> 20),
		 (long long)(dev & 0xfffff));
	return buf;
}

/* ---- Statistics ---- */

static void add_stat(struct rut_result *t, const struct rut_stat *s)
{
	rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)s->count);
	rut_an_stat_cells(t, s);
}

static struct rut_result *stats_table(struct rut_io *io, int64_t end_ns)
{
	static const char *const names[] = {"Open", "Read", "Write", "Sync"};
	struct rut_result *t =
		rut_an_result_new(&rut_an_io_stats_class, io->base.begin_ns, end_ns, NULL);

	for (int i = 0; t && i < RUT_IO_CATS; i++) {
		rut_an_result_text(t, RUT_LAMI_STRING, names[i]);
		add_stat(t, &io->latency[i]);
	}
	return t;
}

static struct rut_result *disk_table(struct rut_io *io, int64_t end_ns)
{
	struct rut_result *t =
		rut_an_result_new(&rut_an_io_disk_class, io->base.begin_ns, end_ns, NULL);
	char buf[RUT_IO_DISK_NAME];

	for (size_t i = 0; t && i < io->disks.n; i++) {
		const struct rut_io_disk *d = io->disks.items[i];

		if (!d->requests)
			continue;
		rut_an_result_text(t, RUT_LAMI_DISK, rut_an_io_disk_name(d->name, d->dev, buf));
		add_stat(t, &d->latency);
	}
	return t;
}

static void print_stats(const struct rut_result *t, struct rut_buf *out, const char *title,
			const char *first)
{
	static const char line[] = "{:<14} {:>14} {:>14} {:>14} {:>14} {:>14}\n";
	char count[24], us[4][40];

	rut_buf_printf(out, "\n%s\n", title);
	rut_an_fmt_line(out, line, first, "Count", "Min", "Average", "Max", "Stdev");
	for (int i = 0; i < 89; i++)
		rut_buf_putc(out, '-');
	rut_buf_putc(out, '\n');
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(count, sizeof(count), "%lld", (long long)row[1].i);
		for (int k = 0; k < 4; k++)
			rut_an_fmt_us_cell(us[k], sizeof(us[k]), &row[2 + k]);
		rut_an_fmt_line(out, line, row[0].str, count, us[0], us[1], us[2], us[3]);
	}
}

/* ---- Distributions ---- */

static struct rut_result *freq_table(struct rut_io *io, const struct rut_stat *s,
				     const char *subtitle, int64_t end_ns)
{
	struct rut_result *t =
		rut_an_result_new(&rut_an_io_freq_class, io->base.begin_ns, end_ns, subtitle);
	struct rut_conf bounds = *io->base.run->conf;
	struct rut_freq f;

	if (!t || !s->count)
		return t;
	/* What --min and --max leave decides the bounds, not the options themselves. */
	bounds.has_min = bounds.has_max = false;
	if (bounds.uniform) {
		struct rut_stat all = io->latency[0];

		for (int i = 1; i < RUT_IO_CATS; i++) {
			const struct rut_stat *l = &io->latency[i];

			if (!l->count)
				continue;
			all.min = all.count && all.min < l->min ? all.min : l->min;
			all.max = all.count && all.max > l->max ? all.max : l->max;
			all.count += l->count;
		}
		f = rut_an_freq_uniform(io->base.run, 0, all.count, (double)all.min,
					(double)all.max, 1000);
	} else {
		f = rut_an_freq_bounds(&bounds, (double)s->min, (double)s->max, 1000);
	}
	f.clamp = true;
	rut_an_freq_fill(&f, s, t);
	return t;
}

static void print_freq(const struct rut_result *t, struct rut_buf *out)
{
	char title[256];

	snprintf(title, sizeof(title), "%s %s", t->cls->title, t->subtitle);
	rut_an_freq_print(t, out, title, "µs");
}

static void report_freqs(struct rut_io *io, int64_t end_ns)
{
	char subtitle[128], buf[RUT_IO_DISK_NAME];

	for (int i = 0; i < RUT_IO_CATS; i++)
		rut_an_run_take(io->base.run,
				freq_table(io, &io->latency[i], rut_an_io_cat_names[i], end_ns),
				print_freq);
	for (size_t i = 0; i < io->disks.n; i++) {
		const struct rut_io_disk *d = io->disks.items[i];

		snprintf(subtitle, sizeof(subtitle), "disk: %s",
			 rut_an_io_disk_name(d->name, d->dev, buf));
		rut_an_run_take(io->base.run, freq_table(io, &d->latency, subtitle, end_ns),
				print_freq);
	}
}

/* ---- Requests ---- */

/* Not known without --end: then a request is neither in nor out of the range. */
static struct rut_cell out_of_range(const struct rut_conf *c, const struct rut_io_row *r)
{
	struct rut_cell cell = {.type = RUT_LAMI_BOOL};

	if (c->has_begin && r->begin_ns < c->begin_ns)
		cell.hard = true;
	else if (!c->has_end)
		cell.j = 1;
	else
		cell.hard = r->end_ns > c->end_ns;
	return cell;
}

static void add_file(struct rut_io *io, const struct rut_io_row *r, struct rut_result *t)
{
	const struct rut_io_proc *p = r->proc;
	const struct rut_io_fd *f;

	if (!r->has_fd) {
		rut_an_result_empty(t);
		rut_an_result_empty(t);
		return;
	}
	if (p->pid >= 0 && p->pid != p->tid) {
		const struct rut_io_proc *leader = rut_ordered_get(&io->procs, (uint64_t)p->pid);

		p = leader ? leader : p;
	}
	f = rut_an_io_proc_fd(p, r->fd, r->end_ns);
	if (f)
		rut_an_result_text(t, RUT_LAMI_PATH, f->filename);
	else
		rut_an_result_unknown(t);
	rut_an_result_int(t, RUT_LAMI_FD, r->fd);
}

/* Which rows a table or a text is of. */
struct rows {
	const struct rut_lami_class *cls;
	const struct rut_io_rows *rows;
	const char *subtitle; /* NULL: none */
	int64_t end_ns;
};

/* The rows from `from` to before `to`. */
static struct rut_result *rows_table(struct rut_io *io, const struct rows *list, size_t from,
				     size_t to)
{
	struct rut_result *t =
		rut_an_result_new(list->cls, io->base.begin_ns, list->end_ns, list->subtitle);

	for (size_t i = from; t && i < to; i++) {
		const struct rut_io_row *r = &list->rows->rows[i];

		rut_an_result_range(t, r->begin_ns, r->end_ns);
		rut_an_result_add(t, out_of_range(io->base.run->conf, r));
		rut_an_result_int(t, RUT_LAMI_DURATION, r->end_ns - r->begin_ns);
		rut_an_result_text(t, RUT_LAMI_SYSCALL, r->name);
		if (r->has_size)
			rut_an_result_int(t, RUT_LAMI_SIZE, r->size);
		else
			rut_an_result_empty(t);
		rut_an_result_process(t, r->proc->comm, RUT_LAMI_NONE, r->proc->tid);
		add_file(io, r, t);
	}
	return t;
}

static void mark(char *s, size_t size, bool outside)
{
	size_t len = strlen(s);

	snprintf(s + len, size - len, "%c", outside ? '*' : ' ');
}

static void print_row(const struct rut_cell *row, const struct rut_conf *c, struct rut_buf *out)
{
	char range[160], us[48], size[40] = "N/A", tid[24];
	struct rut_buf file = RUT_BUF_INIT;
	bool outside = row[1].hard;

	rut_an_fmt_range(range, sizeof(range), row[0].i, row[0].j, c->multi_day, c->gmt);
	rut_an_fmt_us(us, sizeof(us), rut_an_cell_value(&row[2]));
	mark(range, sizeof(range), outside);
	mark(us, sizeof(us), outside);
	if (row[4].type != RUT_LAMI_EMPTY)
		rut_an_fmt_size(size, sizeof(size), (double)row[4].i);
	snprintf(tid, sizeof(tid), "%lld", (long long)row[5].j);
	if (row[7].type == RUT_LAMI_EMPTY)
		rut_buf_puts(&file, "N/A");
	else
		rut_buf_printf(&file, "%s (fd=%lld)",
			       row[6].type == RUT_LAMI_UNKNOWN ? "unknown" : row[6].str,
			       (long long)row[7].i);
	rut_an_fmt_line(out, "{:<40} {:<16} {:>16} {:>11}  {:<24} {:<8} {:<14}\n", range,
			row[3].str, us, size, row[5].str, tid, file.data);
	rut_buf_fini(&file);
}

static void print_rows(struct rut_io *io, const struct rows *list)
{
	struct rut_run *run = io->base.run;
	bool outside = false;
	size_t n = list->rows->n;

	if (!n)
		return;
	rut_buf_printf(&run->out, "\n%s %s (usec)\n", list->cls->title,
		       list->subtitle ? list->subtitle : "None");
	rut_an_fmt_line(&run->out, "{:<20} {:<20} {:<16} {:<23} {:<5} {:<24} {:<8} {:<14}\n",
			"Begin", "End", "Name", "Duration (usec)", "Size", "Proc", "PID",
			"Filename");
	for (size_t i = 0, to; i < n; i = to) {
		struct rut_result *t;

		to = n - i > RUT_RUN_ROWS ? i + RUT_RUN_ROWS : n;
		t = rows_table(io, list, i, to);
		for (size_t k = 0; k < rut_result_rows(t); k++) {
			const struct rut_cell *row = rut_result_row(t, k);

			print_row(row, run->conf, &run->out);
			outside = outside || row[1].hard;
		}
		rut_an_result_free(t);
		rut_an_run_show(run);
	}
	if (outside)
		rut_buf_puts(&run->out, "*: Syscalls started and/or completed outside of the range "
					"specified\n");
}

static void finish_rows(struct rut_io *io, const struct rows *list)
{
	struct rut_run *run = io->base.run;

	if (run->conf->mi)
		rut_an_results_take(&run->results, rows_table(io, list, 0, list->rows->n));
	else
		print_rows(io, list);
}

static void report_top(struct rut_io *io, int64_t end_ns)
{
	int64_t limit = io->base.run->conf->limit;

	for (int i = 0; i < RUT_IO_CATS; i++) {
		struct rows list = {&rut_an_io_top_class, &io->top[i], rut_an_io_cat_names[i],
				    end_ns};

		rut_an_io_sort(io, &io->top[i], true, limit < 0 ? 0 : limit);
		finish_rows(io, &list);
	}
}

static void report_log(struct rut_io *io, int64_t end_ns)
{
	struct rows list = {&rut_an_io_log_class, &io->log, NULL, end_ns};

	rut_an_io_sort(io, &io->log, false, -1);
	finish_rows(io, &list);
}

/* ---- All together ---- */

static void report_stats(struct rut_io *io, int64_t end_ns)
{
	struct rut_run *run = io->base.run;
	struct rut_result *calls = stats_table(io, end_ns), *disks = disk_table(io, end_ns);

	if (run->conf->mi) {
		rut_an_results_take(&run->results, calls);
		rut_an_results_take(&run->results, disks);
		return;
	}
	print_stats(calls, &run->out, "Syscalls latency statistics (usec):", "Type");
	if (rut_result_rows(disks))
		print_stats(disks, &run->out, "Disk latency statistics (usec):", "Name");
	rut_an_result_free(calls);
	rut_an_result_free(disks);
}

static void report_percentiles(struct rut_io *io, int64_t end_ns)
{
	struct rut_result *t =
		rut_an_result_new(&rut_an_class_percentiles, io->base.begin_ns, end_ns, NULL);
	char buf[RUT_IO_DISK_NAME];

	for (int i = 0; t && i < RUT_IO_CATS; i++)
		rut_an_percentiles_add(t, rut_an_io_cat_names[i], &io->latency[i]);
	for (size_t i = 0; t && i < io->disks.n; i++) {
		const struct rut_io_disk *d = io->disks.items[i];

		rut_an_percentiles_add(t, rut_an_io_disk_name(d->name, d->dev, buf), &d->latency);
	}
	rut_an_percentiles_finish(io->base.run, t);
}

void rut_an_io_report(struct rut_instance *inst, int64_t end_ns)
{
	struct rut_io *io = (struct rut_io *)inst;
	const struct rut_conf *c = inst->run->conf;

	/* The order of JSON's tables is not that of the text. */
	if (!c->mi)
		rut_an_run_print_range(inst->run, inst->begin_ns, end_ns);
	if (c->mi && c->log)
		report_log(io, end_ns);
	if (!c->mi && c->usage)
		rut_an_io_report_usage(io, end_ns);
	if (c->stats)
		report_stats(io, end_ns);
	if (c->top)
		report_top(io, end_ns);
	if (c->mi && c->usage)
		rut_an_io_report_usage(io, end_ns);
	if (c->freq)
		report_freqs(io, end_ns);
	if (!c->mi && c->log)
		report_log(io, end_ns);
	if (c->percentiles)
		report_percentiles(io, end_ns);
}
