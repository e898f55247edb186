/* SPDX-License-Identifier: MIT */
/*
 * What the hosts have, side by side, and who stands out: a host whose value is three times the
 * median of the others, or a third of it, and further from it than chance would have it: five times
 * the usual (median absolute) deviation. Fewer than three hosts have no outliers.
 */
#include "cli/hosts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fmt.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "output/jsonl.h"

#define SIDE_BY_SIDE 6 /* hosts; of more the extremes are shown */
#define FACTOR	     3.0
#define DEVIATIONS   5.0
#define KEY_WIDTH    32

struct rank {
	const struct rut_hosts_table *table;
	size_t row, host;
	double v; /* the value that ranks it */
	double median;
};

static int by_value(const void *a, const void *b)
{
	double x = ((const struct rank *)a)->v, y = ((const struct rank *)b)->v;

	return x > y ? -1 : x < y;
}

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_number);
	return n % 2 ? v[n / 2] : n ? (v[n / 2 - 1] + v[n / 2]) / 2 : 0;
}

static double value(const struct rut_hosts_table *t, const struct rut_hosts_row *r, size_t host,
		    size_t column)
{
	const struct rut_hosts_value *v = &r->values[host * t->n_columns + column];

	return v->has && !v->unknown ? v->v : 0;
}

static void put(char *out, size_t size, const struct rut_hosts_column *c, double v)
{
	switch (c->type) {
	case RUT_LAMI_RATIO:
		snprintf(out, size, "%.2f %%", v * 100);
		break;
	case RUT_LAMI_DURATION:
		rut_an_fmt_us(out, size, v);
		break;
	case RUT_LAMI_SIZE:
		rut_an_fmt_size(out, size, v);
		break;
	default:
		snprintf(out, size, v == floor(v) ? "%.0f" : "%.3f", v);
		break;
	}
}

static const char *title_of(const struct rut_hosts_column *c, char *out, size_t size)
{
	snprintf(out, size, "%s%s", c->title, c->type == RUT_LAMI_DURATION ? " (us)" : "");
	return out;
}

static bool is_known(const struct rut_hosts *h, const struct rut_hosts_table *t,
		     const struct rut_hosts_row *r, size_t host)
{
	return !h->list[host].failed && !r->values[host * t->n_columns + t->main].unknown;
}

/* ---- Outliers ---- */

/* The values of a row, and how far they are from a median. */
struct spread {
	double *v, *far; /* owned; both sorted */
	size_t n;
};

/* The median of sorted values without the one at `at`. */
static double median_without(const double *v, size_t n, size_t at)
{
	const size_t rest = n - 1, low = (rest - 1) / 2, high = rest / 2;

	return (v[low + (low >= at)] + v[high + (high >= at)]) / 2;
}

/* Where the value is among the sorted ones, which have it. */
static size_t find_value(const double *v, size_t n, double value)
{
	const double *at = bsearch(&value, v, n, sizeof(*v), by_number);

	return at ? (size_t)(at - v) : 0;
}

static void sort_row(const struct rut_hosts *h, const struct rut_hosts_table *t,
		     const struct rut_hosts_row *r, struct spread *s)
{
	s->n = 0;
	for (size_t i = 0; i < h->n; i++)
		if (is_known(h, t, r, i))
			s->v[s->n++] = value(t, r, i, t->main);
	qsort(s->v, s->n, sizeof(*s->v), by_number);
}

static void sort_distances(struct spread *s, double from)
{
	for (size_t i = 0; i < s->n; i++)
		s->far[i] = fabs(s->v[i] - from);
	qsort(s->far, s->n, sizeof(*s->far), by_number);
}

/* Marks the hosts of one row. What is small beside the largest of its table does not count. */
static int find_in_row(const struct rut_hosts *h, const struct rut_hosts_table *t, size_t row,
		       double most, struct spread *s, struct rank **list, size_t *n)
{
	const struct rut_hosts_row *r = &t->rows[row];
	double from =
		NAN; /* of the distances; without one of all hosts a median has three values */

	sort_row(h, t, r, s);
	for (size_t i = 0; s->n >= 3 && i < h->n; i++) {
		const double own = value(t, r, i, t->main);
		double m, deviation;
		struct rank *more;

		if (!is_known(h, t, r, i))
			continue;
		m = median_without(s->v, s->n, find_value(s->v, s->n, own));
		if ((own <= FACTOR * m && own >= m / FACTOR) || fabs(own - m) < most / 20)
			continue;
		if (from != m)
			sort_distances(s, from = m);
		deviation = median_without(s->far, s->n, find_value(s->far, s->n, fabs(own - m)));
		if (fabs(own - m) <= DEVIATIONS * 1.4826 * deviation)
			continue;
		more = reallocarray(*list, *n + 1, sizeof(*more));
		if (!more)
			return -ENOMEM;
		*list = more;
		more[(*n)++] = (struct rank){t, row, i, most > 0 ? fabs(own - m) / most : 0, m};
		r->values[i * t->n_columns + t->main].outlier = true;
	}
	return 0;
}

/* Those of all tables. */
static struct rank *find_outliers(const struct rut_hosts *h, size_t *ret_n)
{
	struct spread s = {.v = calloc(h->n + 1, sizeof(*s.v)),
			   .far = calloc(h->n + 1, sizeof(*s.far))};
	struct rank *list = NULL;
	int r = s.v && s.far ? 0 : -ENOMEM;

	*ret_n = 0;
	for (size_t i = 0; i < h->n_tables; i++) {
		const struct rut_hosts_table *t = &h->tables[i];
		double most = 0;

		for (size_t k = 0; t->n_columns && k < t->n_rows * h->n; k++)
			most = fmax(most, value(t, &t->rows[k / h->n], k % h->n, t->main));
		for (size_t k = 0; !r && t->n_columns && k < t->n_rows; k++)
			r = find_in_row(h, t, k, most, &s, &list, ret_n);
	}
	free(s.v);
	free(s.far);
	if (list)
		qsort(list, *ret_n, sizeof(*list), by_value);
	return list;
}

/* ---- Text ---- */

static void print_hosts(const struct rut_hosts *h, const struct rut_analysis_args *a)
{
	char begin[64], end[64];

	printf("%-20s %-20s %-20s %s\n", "Host", "From", "To", "Clock");
	for (size_t i = 0; i < h->n; i++) {
		const struct rut_hosts_host *host = &h->list[i];

		if (host->failed) {
			printf("%-20s not analysed\n", host->name);
			continue;
		}
		if (!host->end_ns) {
			printf("%-20s nothing to report\n", host->name);
			continue;
		}
		rut_an_fmt_time(begin, sizeof(begin), host->begin_ns, false, a->conf.gmt);
		rut_an_fmt_time(end, sizeof(end), host->end_ns, false, a->conf.gmt);
		printf("%-20s %-20s %-20s ", host->name, begin, end);
		if (host->has_clock)
			printf("corrected by %.3f ms, known to %.3f ms\n",
			       (double)host->offset_ns / 1e6, (double)host->error_ns / 1e6);
		else
			puts("its own");
	}
}

/* The rows by the value that ranks them, the largest first. */
static struct rank *rank_rows(const struct rut_hosts *h, const struct rut_hosts_table *t,
			      bool merged)
{
	struct rank *list = calloc(t->n_rows + 1, sizeof(*list));

	for (size_t i = 0; list && i < t->n_rows; i++) {
		list[i].row = i;
		if (merged)
			list[i].v = rut_cli_hosts_merged(h, t, &t->rows[i], t->main).v;
		else
			for (size_t k = 0; k < h->n; k++)
				list[i].v = fmax(list[i].v, value(t, &t->rows[i], k, t->main));
	}
	if (list)
		qsort(list, t->n_rows, sizeof(*list), by_value);
	return list;
}

static size_t limit_of(const struct rut_analysis_args *a, size_t n)
{
	return a->conf.limit > 0 && (uint64_t)a->conf.limit < n ? (size_t)a->conf.limit : n;
}

static void print_side_by_side(const struct rut_hosts *h, const struct rut_hosts_table *t,
			       const struct rut_hosts_row *r)
{
	for (size_t i = 0; i < h->n; i++) {
		char text[64] = "-";

		if (r->values[i * t->n_columns + t->main].has && is_known(h, t, r, i))
			put(text, sizeof(text), &t->columns[t->main], value(t, r, i, t->main));
		printf(" %14s", text);
	}
}

static void print_extremes(const struct rut_hosts *h, const struct rut_hosts_table *t,
			   const struct rut_hosts_row *r)
{
	double *v = calloc(h->n + 1, sizeof(*v));
	size_t n = 0, least = h->n, most = h->n;
	char text[64];

	for (size_t i = 0; v && i < h->n; i++) {
		if (!is_known(h, t, r, i))
			continue;
		v[n++] = value(t, r, i, t->main);
		if (least == h->n || v[n - 1] < value(t, r, least, t->main))
			least = i;
		if (most == h->n || v[n - 1] > value(t, r, most, t->main))
			most = i;
	}
	if (n) {
		put(text, sizeof(text), &t->columns[t->main], median(v, n));
		printf(" %14s", text);
		put(text, sizeof(text), &t->columns[t->main], value(t, r, least, t->main));
		printf(" %14s %-16.16s", text, h->list[least].name);
		put(text, sizeof(text), &t->columns[t->main], value(t, r, most, t->main));
		printf(" %14s %-16.16s", text, h->list[most].name);
	}
	free(v);
}

static void print_table(const struct rut_hosts *h, const struct rut_analysis_args *a,
			const struct rut_hosts_table *t)
{
	struct rank *list = rank_rows(h, t, false);
	bool few = h->n <= SIDE_BY_SIDE;
	char title[160];

	printf("\n%s: %s\n%-*s", t->title, title_of(&t->columns[t->main], title, sizeof(title)),
	       KEY_WIDTH, t->key);
	for (size_t i = 0; few && i < h->n; i++)
		printf(" %14.14s", h->list[i].name);
	if (!few)
		printf(" %14s %14s %-16s %14s %-16s", "Median", "Lowest", "of", "Highest", "of");
	puts("");
	for (size_t i = 0; list && i < limit_of(a, t->n_rows); i++) {
		const struct rut_hosts_row *r = &t->rows[list[i].row];

		printf("%-*s", KEY_WIDTH, r->key);
		if (few)
			print_side_by_side(h, t, r);
		else
			print_extremes(h, t, r);
		for (size_t k = 0; k < h->n; k++)
			if (r->values[k * t->n_columns + t->main].outlier)
				printf("  <- %s", h->list[k].name);
		puts("");
	}
	free(list);
}

static void print_merged(const struct rut_hosts *h, const struct rut_analysis_args *a,
			 const struct rut_hosts_table *t)
{
	struct rank *list = rank_rows(h, t, true);
	char title[160];

	printf("\n%s, all hosts\n%-*s", t->title, KEY_WIDTH, t->key);
	for (size_t i = 0; i < t->n_columns; i++)
		printf(" %18.18s", title_of(&t->columns[i], title, sizeof(title)));
	puts("");
	for (size_t i = 0; list && i < limit_of(a, t->n_rows); i++) {
		const struct rut_hosts_row *r = &t->rows[list[i].row];

		printf("%-*s", KEY_WIDTH, r->key);
		for (size_t k = 0; k < t->n_columns; k++) {
			const struct rut_hosts_value v = rut_cli_hosts_merged(h, t, r, k);
			char text[64] = "-";

			if (v.has && !v.unknown)
				put(text, sizeof(text), &t->columns[k], v.v);
			printf(" %18s", text);
		}
		puts("");
	}
	free(list);
}

static void print_outliers(const struct rut_hosts *h, const struct rut_analysis_args *a,
			   const struct rank *list, size_t n)
{
	size_t hosts = 0;

	for (size_t i = 0; i < h->n; i++)
		hosts += !h->list[i].failed;
	puts("\nOutliers");
	if (hosts < 3)
		puts("fewer than three hosts have none");
	else if (!n)
		puts("none");
	for (size_t i = 0; i < limit_of(a, n); i++) {
		const struct rut_hosts_table *t = list[i].table;
		const struct rut_hosts_row *r = &t->rows[list[i].row];
		char own[64], others[64];

		put(own, sizeof(own), &t->columns[t->main], value(t, r, list[i].host, t->main));
		put(others, sizeof(others), &t->columns[t->main], list[i].median);
		printf("%s: %s%s%s %s, the median of the others is %s (%s)\n",
		       h->list[list[i].host].name, r->key, *r->key ? ": " : "",
		       t->columns[t->main].title, own, others, t->title);
	}
}

void rut_cli_hosts_text(struct rut_hosts *h, const struct rut_analysis_args *a)
{
	size_t n;
	struct rank *outliers = find_outliers(h, &n);

	print_hosts(h, a);
	for (size_t i = 0; i < h->n_tables; i++) {
		const struct rut_hosts_table *t = &h->tables[i];

		if (t->left_out)
			printf("\n%s: not compared, %s\n", t->title, t->left_out);
		else if (t->n_columns && a->merge)
			print_merged(h, a, t);
		else if (t->n_columns)
			print_table(h, a, t);
	}
	if (!a->merge)
		print_outliers(h, a, outliers, n);
	free(outliers);
}

/* ---- LAMI ---- */

static void add_cells(struct rut_result *to, const struct rut_hosts_table *t,
		      const struct rut_hosts_value *v)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		if (!v[i].has)
			rut_an_result_empty(to);
		else if (v[i].unknown)
			rut_an_result_unknown(to);
		else if (t->columns[i].type == RUT_LAMI_RATIO || v[i].v != floor(v[i].v))
			rut_an_result_float(to, t->columns[i].type, v[i].v);
		else
			rut_an_result_int(to, t->columns[i].type, (int64_t)v[i].v);
	}
}

static void add_rows(const struct rut_hosts *h, const struct rut_hosts_table *t,
		     struct rut_result *to, bool merge)
{
	struct rut_hosts_value *all = calloc(t->n_columns + 1, sizeof(*all));

	to->failed |= !all;
	for (size_t i = 0; all && i < t->n_rows; i++) {
		const struct rut_hosts_row *r = &t->rows[i];

		for (size_t k = 0; k < t->n_columns; k++)
			all[k] = rut_cli_hosts_merged(h, t, r, k);
		for (size_t k = 0; k < (merge ? 1 : h->n); k++) {
			const struct rut_hosts_value *v =
				merge ? all : &r->values[k * t->n_columns];
			bool any = false;

			for (size_t c = 0; c < t->n_columns; c++)
				any |= v[c].has;
			if (!any)
				continue;
			rut_an_result_text(to, RUT_LAMI_STRING, merge ? "*" : h->list[k].name);
			rut_an_result_text(to, RUT_LAMI_STRING, r->key);
			add_cells(to, t, v);
		}
	}
	free(all);
}

/* The class of a table; its columns and title are owned. */
static int make_class(struct rut_lami_class *ret, const struct rut_hosts_table *t, bool merge)
{
	struct rut_lami_column *columns = calloc(t->n_columns + 2, sizeof(*columns));
	char *title;

	if (!columns || asprintf(&title, "%s, %s", t->title, merge ? "all hosts" : "by host") < 0) {
		free(columns);
		return -ENOMEM;
	}
	columns[0] = (struct rut_lami_column){"host", "Host", RUT_LAMI_STRING, NULL};
	columns[1] =
		(struct rut_lami_column){"row", *t->key ? t->key : "Row", RUT_LAMI_STRING, NULL};
	for (size_t k = 0; k < t->n_columns; k++)
		columns[2 + k] = (struct rut_lami_column){NULL, t->columns[k].title,
							  t->columns[k].type, t->columns[k].unit};
	*ret = (struct rut_lami_class){NULL, title, columns, t->n_columns + 2};
	return 0;
}

int rut_cli_hosts_json(const struct rut_hosts *h, const struct rut_analysis_args *a)
{
	struct rut_lami_class *classes = calloc(h->n_tables + 1, sizeof(*classes));
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	int64_t begin_ns = INT64_MAX, end_ns = 0;
	struct rut_results results = {.failed = !classes};
	int r;

	for (size_t i = 0; i < h->n; i++) {
		if (h->list[i].end_ns && h->list[i].begin_ns < begin_ns)
			begin_ns = h->list[i].begin_ns;
		if (h->list[i].end_ns > end_ns)
			end_ns = h->list[i].end_ns;
	}
	for (size_t i = 0; classes && i < h->n_tables; i++) {
		struct rut_result *to = NULL;

		if (h->tables[i].left_out) {
			rut_warn("%s: not compared, %s", h->tables[i].title, h->tables[i].left_out);
			continue;
		}
		if (!make_class(&classes[i], &h->tables[i], a->merge))
			to = rut_an_result_new(&classes[i], begin_ns, end_ns, NULL);
		if (!to) {
			results.failed = true;
			break;
		}
		add_rows(h, &h->tables[i], to, a->merge);
		rut_an_results_take(&results, to);
	}
	rut_an_results_json(&results, &out, NULL, NULL);
	results.failed |= out.failed;
	if (!results.failed)
		fwrite(out.data, 1, out.len, stdout);
	for (size_t i = 0; classes && i < h->n_tables; i++) {
		free((void *)(uintptr_t)classes[i].columns);
		free((void *)(uintptr_t)classes[i].title);
	}
	free(classes);
	r = results.failed ? -ENOMEM : 0;
	rut_an_results_fini(&results);
	return r;
}

/* ---- JSON Lines ---- */

static void add_line(struct rut_buf *b, const struct rut_hosts_table *t, const char *host,
		     const struct rut_hosts_row *r, const struct rut_hosts_value *v)
{
	bool any = false, outlier = false;

	for (size_t c = 0; c < t->n_columns; c++) {
		any |= v[c].has;
		outlier |= v[c].has && v[c].outlier;
	}
	if (!any)
		return;
	rut_jsonl_begin(b);
	rut_jsonl_str(b, "table", t->title);
	if (host)
		rut_jsonl_str(b, "host", host);
	rut_jsonl_str(b, "row", r->key);
	for (size_t c = 0; c < t->n_columns; c++) {
		if (!v[c].has || v[c].unknown)
			continue;
		rut_buf_putc(b, ',');
		rut_jsonl_text(b, t->columns[c].key ? t->columns[c].key : t->columns[c].title);
		rut_buf_printf(b, ":%.15g", v[c].v);
	}
	if (outlier)
		rut_jsonl_bool(b, "outlier", true);
	rut_jsonl_end(b);
}

/* An object for each host, then one for each host and row. */
int rut_cli_hosts_lines(const struct rut_hosts *h, const struct rut_analysis_args *a)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	size_t outliers;

	free(find_outliers(h, &outliers)); /* they are marked in the table */
	for (size_t i = 0; i < h->n; i++) {
		const struct rut_hosts_host *host = &h->list[i];

		rut_jsonl_begin(&b);
		rut_jsonl_str(&b, "host", host->name);
		rut_jsonl_bool(&b, "complete", !host->failed);
		rut_jsonl_i64(&b, "begin_ns", host->begin_ns);
		rut_jsonl_i64(&b, "end_ns", host->end_ns);
		if (host->has_clock) {
			rut_jsonl_i64(&b, "clock_offset_ns", host->offset_ns);
			rut_jsonl_i64(&b, "clock_error_ns", host->error_ns);
		}
		rut_jsonl_end(&b);
	}
	for (size_t i = 0; i < h->n_tables; i++) {
		const struct rut_hosts_table *t = &h->tables[i];
		struct rut_hosts_value *all = calloc(t->n_columns + 1, sizeof(*all));

		if (t->left_out)
			rut_warn("%s: not compared, %s", t->title, t->left_out);
		for (size_t k = 0; all && !t->left_out && k < t->n_rows; k++) {
			for (size_t c = 0; c < t->n_columns; c++)
				all[c] = rut_cli_hosts_merged(h, t, &t->rows[k], c);
			for (size_t n = 0; n < (a->merge ? 1 : h->n); n++)
				add_line(&b, t, a->merge ? NULL : h->list[n].name, &t->rows[k],
					 a->merge ? all : &t->rows[k].values[n * t->n_columns]);
		}
		b.failed |= !all;
		free(all);
	}
	if (!b.failed)
		fwrite(b.data, 1, b.len, stdout);
	return b.failed ? -ENOMEM : 0;
}
