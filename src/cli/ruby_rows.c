/* SPDX-License-Identifier: MIT */
#include "cli/ruby_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/abi.h"
#include "base/cleanup.h"
#include "output/jsonl.h"
#include "output/text.h"

static bool counts_calls(enum rut_ruby_mode mode)
{
	return mode == RUT_RUBY_CALLS || mode == RUT_RUBY_TIME;
}

void rut_cli_rows_init(struct rut_rows *rows, enum rut_ruby_mode mode, unsigned what)
{
	*rows = (struct rut_rows){
		.mode = mode, .what = what, .sort = rut_cli_rows_default_sort(mode)};
}

void rut_cli_rows_fini(struct rut_rows *rows)
{
	for (size_t i = 0; i < rows->keys.count && rows->rows; i++)
		free(rows->rows[i].sum);
	rut_strtab_fini(&rows->keys);
	free(rows->rows);
	free(rows->order);
}

static void add_key(struct rut_buf *key, const char *s)
{
	if (s)
		rut_buf_puts(key, s);
	rut_buf_putc(key, '\0');
}

/* What rows must have in common to be added up. */
static int64_t intern_key(struct rut_rows *rows, struct rut_buf *key, const struct rut_ruby_row *r)
{
	rut_buf_clear(key);
	if (rows->what & RUT_ROWS_PER_PROCESS)
		rut_buf_add(key, &r->pid, sizeof(r->pid));
	add_key(key, r->class_name);
	if (rows->mode != RUT_RUBY_OBJECTS_TOTAL) {
		rut_buf_add(key, &r->line, sizeof(r->line));
		add_key(key, r->path);
	}
	if (counts_calls(rows->mode)) {
		rut_buf_putc(key, r->singleton ? '.' : '#');
		add_key(key, r->method_name);
	}
	return key->failed ? -ENOMEM : rut_strtab_intern(&rows->keys, key->data, key->len);
}

static int make_room(struct rut_rows *rows, size_t id)
{
	size_t cap = rows->cap ? rows->cap * 2 : 256;
	struct rut_row *more;
	struct rut_row **order;

	if (id < rows->cap)
		return 0;
	more = reallocarray(rows->rows, cap, sizeof(*more));
	if (!more)
		return -ENOMEM;
	rows->rows = more;
	memset(more + rows->cap, 0, (cap - rows->cap) * sizeof(*more));
	order = reallocarray(rows->order, cap, sizeof(*order));
	if (!order)
		return -ENOMEM;
	rows->order = order;
	rows->cap = cap;
	return 0;
}

static void add_buckets(struct rut_row *to, const struct rut_ruby_row *r, bool first)
{
	if (first)
		to->r.buckets = NULL;
	if (!r->buckets)
		return;
	if (!to->sum)
		to->sum = calloc(1, sizeof(*to->sum));
	if (!to->sum)
		return;
	if (!to->r.buckets)
		*to->sum = (struct rut_ruby_buckets){.tick_ns = r->buckets->tick_ns};
	for (size_t i = 0; i < RUT_BUCKETS; i++)
		to->sum->calls[i] += r->buckets->calls[i];
	to->r.buckets = to->sum;
}

static void add_row(struct rut_rows *rows, struct rut_row *to, const struct rut_ruby_row *r)
{
	if (to->stamp != rows->stamp) {
		to->stamp = rows->stamp;
		to->r = *r;
		add_buckets(to, r, true);
		return;
	}
	if (to->r.pid != r->pid)
		to->r.pid = 0;
	to->r.calls += r->calls;
	to->r.running += r->running;
	to->r.total_ns += r->total_ns;
	to->r.self_ns += r->self_ns;
	if (r->max_ns > to->r.max_ns)
		to->r.max_ns = r->max_ns;
	to->r.count += r->count;
	to->r.bytes += r->bytes;
	if (r->message)
		to->r.message = r->message;
	add_buckets(to, r, false);
}

static uint64_t amount(const struct rut_rows *rows, const struct rut_ruby_row *r)
{
	return counts_calls(rows->mode) ? r->calls : r->count;
}

static void finish_update(struct rut_rows *rows, double seconds)
{
	rows->count = 0;
	rows->sum_calls = rows->sum_count = 0;
	for (size_t i = 0; i < rows->keys.count; i++) {
		struct rut_row *row = &rows->rows[i];
		uint64_t now = row->stamp == rows->stamp ? amount(rows, &row->r) : 0;
		uint64_t grown = now >= row->before ? now - row->before : now;

		if (seconds > 0) {
			row->rate = (double)grown / seconds;
			row->before = now;
		}
		if (row->stamp != rows->stamp || (!now && !row->r.running && !row->r.total_ns))
			continue;
		rows->order[rows->count++] = row;
		rows->sum_calls += row->r.calls;
		rows->sum_count += row->r.count;
	}
	rut_cli_rows_sort(rows);
}

int rut_cli_rows_update(struct rut_rows *rows, const struct rut_ruby_row *in, size_t count,
			double seconds)
{
	_cleanup_buf_ struct rut_buf key = RUT_BUF_INIT;

	rows->count = 0; /* pointers into an array that may move */
	rows->stamp++;
	for (size_t i = 0; i < count; i++) {
		int64_t id = intern_key(rows, &key, &in[i]);

		if (id < 0 || make_room(rows, (size_t)id) < 0)
			return -ENOMEM;
		add_row(rows, &rows->rows[id], &in[i]);
	}
	finish_update(rows, seconds);
	return 0;
}

void rut_cli_rows_reset(struct rut_rows *rows)
{
	for (size_t i = 0; i < rows->keys.count; i++)
		rows->rows[i].before = 0;
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return (a < b) - (a > b); /* descending */
}

static int compare_str(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

uint64_t rut_cli_row_percentile(const struct rut_ruby_row *r, double part)
{
	const struct rut_ruby_buckets *b = r->buckets;
	double sum = 0, want, ns, end;
	size_t i;

	for (i = 0; b && i < RUT_BUCKETS; i++)
		sum += (double)b->calls[i];
	if (sum == 0)
		return 0;
	want = sum * part;
	sum = 0;
	for (i = 0; i < RUT_BUCKETS - 1 && sum + (double)b->calls[i] < want; i++)
		sum += (double)b->calls[i];
	/* Evenly from one end of the bucket to the other; nothing is longer than the longest call.
	 */
	ns = b->tick_ns * (double)rut_bucket_ticks((unsigned)i);
	end = b->tick_ns * (double)rut_bucket_ticks((unsigned)i + 1);
	if (r->max_ns && end > (double)r->max_ns)
		end = (double)r->max_ns;
	if (b->calls[i] && end > ns)
		ns += (end - ns) * (want - sum) / (double)b->calls[i];
	return (uint64_t)ns;
}

static uint64_t mean_ns(const struct rut_ruby_row *r)
{
	uint64_t n = r->calls + r->running;

	return n ? r->total_ns / n : r->total_ns;
}

static int compare_names(const struct rut_ruby_row *a, const struct rut_ruby_row *b)
{
	int c = compare_str(a->class_name, b->class_name);

	return c ? c : compare_str(a->method_name, b->method_name);
}

static int compare_column(const struct rut_row *ra, const struct rut_row *rb, enum rut_row_column c)
{
	const struct rut_ruby_row *a = &ra->r, *b = &rb->r;

	switch (c) {
	case RUT_COL_PID:
		return -compare_u64((uint64_t)a->pid, (uint64_t)b->pid);
	case RUT_COL_FILE:
		return compare_str(a->path, b->path);
	case RUT_COL_LINE:
		return -compare_u64(a->line, b->line);
	case RUT_COL_METHOD:
	case RUT_COL_OBJECT:
		return compare_names(a, b);
	case RUT_COL_CALLS:
		return compare_u64(a->calls, b->calls);
	case RUT_COL_RATE:
		return (ra->rate < rb->rate) - (ra->rate > rb->rate);
	case RUT_COL_TOTAL:
		return compare_u64(a->total_ns, b->total_ns);
	case RUT_COL_SELF:
		return compare_u64(a->self_ns, b->self_ns);
	case RUT_COL_MEAN:
		return compare_u64(mean_ns(a), mean_ns(b));
	case RUT_COL_MAX:
		return compare_u64(a->max_ns, b->max_ns);
	case RUT_COL_P50:
		return compare_u64(rut_cli_row_percentile(a, 0.5), rut_cli_row_percentile(b, 0.5));
	case RUT_COL_P90:
		return compare_u64(rut_cli_row_percentile(a, 0.9), rut_cli_row_percentile(b, 0.9));
	case RUT_COL_P99:
	case RUT_COL_SPREAD:
		return compare_u64(rut_cli_row_percentile(a, 0.99),
				   rut_cli_row_percentile(b, 0.99));
	case RUT_COL_COUNT:
		return compare_u64(a->count, b->count);
	case RUT_COL_BYTES:
		return compare_u64(a->bytes, b->bytes);
	case RUT_COL_MESSAGE:
		return compare_str(a->message, b->message);
	case RUT_COL_NONE:
		break;
	}
	return 0;
}

/* What is alike in the column that sorts has an order too: rows must not jump about. */
static int compare_rows(const void *pa, const void *pb, void *arg)
{
	static const enum rut_row_column ties[] = {RUT_COL_FILE, RUT_COL_LINE, RUT_COL_METHOD,
						   RUT_COL_PID};
	const struct rut_row *a = *(struct rut_row *const *)pa, *b = *(struct rut_row *const *)pb;
	const struct rut_rows *rows = arg;
	int c = compare_column(a, b, rows->sort);

	if (c)
		return rows->reverse ? -c : c;
	for (size_t i = 0; i < sizeof(ties) / sizeof(*ties) && !c; i++)
		c = compare_column(a, b, ties[i]);
	return c;
}

void rut_cli_rows_sort(struct rut_rows *rows)
{
	if (rows->count)
		qsort_r(rows->order, rows->count, sizeof(struct rut_row *), compare_rows, rows);
}

/* Each list with the PID first, which is left out by starting one further. */
static const enum rut_row_column calls_columns[] = {RUT_COL_PID,    RUT_COL_FILE,  RUT_COL_LINE,
						    RUT_COL_METHOD, RUT_COL_CALLS, RUT_COL_RATE,
						    RUT_COL_NONE};
static const enum rut_row_column time_columns[] = {
	RUT_COL_PID,   RUT_COL_FILE, RUT_COL_LINE, RUT_COL_METHOD, RUT_COL_CALLS,
	RUT_COL_TOTAL, RUT_COL_SELF, RUT_COL_MEAN, RUT_COL_MAX,	   RUT_COL_NONE};
static const enum rut_row_column percentile_columns[] = {
	RUT_COL_PID,   RUT_COL_FILE, RUT_COL_LINE,   RUT_COL_METHOD, RUT_COL_CALLS,
	RUT_COL_TOTAL, RUT_COL_SELF, RUT_COL_MEAN,   RUT_COL_P50,    RUT_COL_P90,
	RUT_COL_P99,   RUT_COL_MAX,  RUT_COL_SPREAD, RUT_COL_NONE};
static const enum rut_row_column total_columns[] = {RUT_COL_PID,  RUT_COL_OBJECT, RUT_COL_COUNT,
						    RUT_COL_RATE, RUT_COL_BYTES,  RUT_COL_NONE};
static const enum rut_row_column objects_columns[] = {RUT_COL_PID,    RUT_COL_FILE,  RUT_COL_LINE,
						      RUT_COL_OBJECT, RUT_COL_COUNT, RUT_COL_RATE,
						      RUT_COL_BYTES,  RUT_COL_NONE};

static const enum rut_row_column raises_columns[] = {RUT_COL_PID,     RUT_COL_FILE,  RUT_COL_LINE,
						     RUT_COL_OBJECT,  RUT_COL_COUNT, RUT_COL_RATE,
						     RUT_COL_MESSAGE, RUT_COL_NONE};

const enum rut_row_column *rut_cli_rows_columns(enum rut_ruby_mode mode, unsigned what)
{
	const enum rut_row_column *c = objects_columns;

	if (mode == RUT_RUBY_CALLS)
		c = calls_columns;
	else if (mode == RUT_RUBY_TIME)
		c = what & RUT_ROWS_PERCENTILES ? percentile_columns : time_columns;
	else if (mode == RUT_RUBY_OBJECTS_TOTAL)
		c = total_columns;
	else if (mode == RUT_RUBY_RAISES)
		c = raises_columns;
	return what & RUT_ROWS_PER_PROCESS ? c : c + 1;
}

static const struct {
	const char *name;
	struct rut_table_column column;
} columns[] = {
	[RUT_COL_PID] = {"pid", {.title = "PID"}},
	[RUT_COL_FILE] = {"file",
			  {.title = "FILENAME", .min_width = 8, .grow = true, .keep_right = true}},
	[RUT_COL_LINE] = {"line", {.title = "LINE"}},
	[RUT_COL_METHOD] = {"method", {.title = "METHOD", .min_width = 8, .keep_right = true}},
	[RUT_COL_OBJECT] = {"class",
			    {.title = "OBJECT", .min_width = 8, .grow = true, .keep_right = true}},
	[RUT_COL_CALLS] = {"calls", {.title = "CALLS"}},
	[RUT_COL_RATE] = {"rate", {.title = "PER SEC"}},
	[RUT_COL_TOTAL] = {"total", {.title = "TOTAL"}},
	[RUT_COL_SELF] = {"self", {.title = "SELF"}},
	[RUT_COL_MEAN] = {"mean", {.title = "MEAN"}},
	[RUT_COL_MAX] = {"max", {.title = "MAX"}},
	[RUT_COL_P50] = {"p50", {.title = "P50"}},
	[RUT_COL_P90] = {"p90", {.title = "P90"}},
	[RUT_COL_P99] = {"p99", {.title = "P99"}},
	[RUT_COL_SPREAD] = {"spread", {.title = "100ns   1ms   1s  ", .left = true}},
	[RUT_COL_COUNT] = {"count", {.title = "COUNT"}},
	[RUT_COL_BYTES] = {"bytes", {.title = "BYTES"}},
	[RUT_COL_MESSAGE] =
		{"message", {.title = "LAST MESSAGE", .left = true, .min_width = 12, .grow = true}},
};

const char *rut_cli_rows_column_name(enum rut_row_column c)
{
	return c < RUT_COL_NONE ? columns[c].name : "";
}

enum rut_row_column rut_cli_rows_find_column(enum rut_ruby_mode mode, unsigned what,
					     const char *name)
{
	const enum rut_row_column *c = rut_cli_rows_columns(mode, what);

	while (*c != RUT_COL_NONE && strcmp(columns[*c].name, name) != 0)
		c++;
	return *c;
}

enum rut_row_column rut_cli_rows_default_sort(enum rut_ruby_mode mode)
{
	return mode == RUT_RUBY_CALLS  ? RUT_COL_CALLS
	       : mode == RUT_RUBY_TIME ? RUT_COL_TOTAL
				       : RUT_COL_COUNT;
}

void rut_cli_row_method(struct rut_buf *b, const struct rut_ruby_row *r)
{
	if (r->class_name) {
		rut_buf_puts(b, r->class_name);
		rut_buf_putc(b, r->singleton ? '.' : '#');
	}
	rut_buf_puts(b, r->method_name ? r->method_name : "?");
}

bool rut_cli_row_matches(const struct rut_ruby_row *r, const char *text)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	if (!text || !*text)
		return true;
	if (r->path && strstr(r->path, text))
		return true;
	if (!r->method_name)
		return r->class_name && strstr(r->class_name, text);
	rut_cli_row_method(&b, r);
	return b.data && strstr(b.data, text);
}

static void add_time(struct rut_table *t, uint64_t ns)
{
	char buf[RUT_TEXT_DURATION_SIZE];

	rut_table_add(t, rut_text_duration(buf, ns));
}

/*
 * How calls spread over their durations, two characters a decade from 100 ns on: '.' for none, '9'
 * for the most.
 */
enum { SPREAD_WIDTH = 18 };

static void add_spread(struct rut_table *t, const struct rut_ruby_row *r)
{
	static const double half_decade = 3.1622776601683795;
	uint64_t cells[SPREAD_WIDTH] = {0}, most = 0;
	char text[SPREAD_WIDTH + 1];

	for (unsigned i = 0; r->buckets && i < RUT_BUCKETS; i++) {
		double ns = (double)rut_bucket_ticks(i) * r->buckets->tick_ns, end = 100;
		size_t cell = 0;

		for (end *= half_decade; ns >= end && cell < SPREAD_WIDTH - 1; end *= half_decade)
			cell++;
		cells[cell] += r->buckets->calls[i];
	}
	for (size_t i = 0; i < SPREAD_WIDTH; i++)
		most = cells[i] > most ? cells[i] : most;
	for (size_t i = 0; i < SPREAD_WIDTH; i++)
		text[i] = cells[i] ? (char)('1' + 8 * cells[i] / most) : '.';
	text[SPREAD_WIDTH] = 0;
	rut_table_add(t, text);
}

static void json_buckets(struct rut_buf *out, const struct rut_ruby_row *r)
{
	rut_jsonl_u64(out, "p50_ns", rut_cli_row_percentile(r, 0.5));
	rut_jsonl_u64(out, "p90_ns", rut_cli_row_percentile(r, 0.9));
	rut_jsonl_u64(out, "p99_ns", rut_cli_row_percentile(r, 0.99));
	rut_jsonl_u64(out, "p999_ns", rut_cli_row_percentile(r, 0.999));
	rut_jsonl_array_open(out, "histogram");
	for (unsigned i = 0; i < RUT_BUCKETS; i++) {
		if (!r->buckets->calls[i])
			continue;
		rut_jsonl_begin(out);
		rut_jsonl_u64(out, "from_ns",
			      (uint64_t)((double)rut_bucket_ticks(i) * r->buckets->tick_ns));
		rut_jsonl_u64(out, "calls", r->buckets->calls[i]);
		rut_jsonl_close(out);
	}
	rut_jsonl_array_close(out);
}

/* None of a row without a call that returned: garbage collection, and calls that still run. */
static void add_percentile(struct rut_table *t, const struct rut_ruby_row *r, double part)
{
	uint64_t ns = rut_cli_row_percentile(r, part);

	if (ns)
		add_time(t, ns);
	else
		rut_table_add(t, "-");
}

static void add_cell(struct rut_table *t, const struct rut_row *row, enum rut_row_column c)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	const struct rut_ruby_row *r = &row->r;

	switch (c) {
	case RUT_COL_PID:
		return rut_table_addf(t, "%d", r->pid);
	case RUT_COL_FILE:
		return rut_table_add(t, r->path ? r->path : "-");
	case RUT_COL_LINE:
		return rut_table_addf(t, "%" PRIu32, r->line);
	case RUT_COL_METHOD:
		rut_cli_row_method(&b, r);
		return rut_table_add(t, b.data ? b.data : "?");
	case RUT_COL_OBJECT:
		return rut_table_add(t, r->class_name ? r->class_name : "?");
	case RUT_COL_CALLS:
		return rut_table_addf(t, "%" PRIu64, r->calls);
	case RUT_COL_RATE:
		return rut_table_addf(t, "%.*f", row->rate > 0 && row->rate < 9.95 ? 1 : 0,
				      row->rate);
	case RUT_COL_TOTAL:
		return add_time(t, r->total_ns);
	case RUT_COL_SELF:
		return add_time(t, r->self_ns);
	case RUT_COL_MEAN:
		return add_time(t, mean_ns(r));
	case RUT_COL_MAX:
		return add_time(t, r->max_ns);
	case RUT_COL_P50:
		return add_percentile(t, r, 0.5);
	case RUT_COL_P90:
		return add_percentile(t, r, 0.9);
	case RUT_COL_P99:
		return add_percentile(t, r, 0.99);
	case RUT_COL_SPREAD:
		return add_spread(t, r);
	case RUT_COL_COUNT:
		return rut_table_addf(t, "%" PRIu64, r->count);
	case RUT_COL_MESSAGE:
		return rut_table_add(t, r->message ? r->message : "");
	case RUT_COL_BYTES:
		return rut_table_addf(t, "%" PRIu64, r->bytes);
	case RUT_COL_NONE:
		break;
	}
}

void rut_cli_rows_print(const struct rut_rows *rows, struct rut_buf *out, size_t width, size_t skip,
			size_t limit, const char *filter)
{
	const enum rut_row_column *list = rut_cli_rows_columns(rows->mode, rows->what);
	struct rut_table_column shown[RUT_COL_NONE];
	struct rut_table t;
	size_t n = 0;

	for (; list[n] != RUT_COL_NONE; n++)
		shown[n] = columns[list[n]].column;
	rut_table_init(&t, shown, n);
	for (size_t i = 0, added = 0; i < rows->count && (!limit || added < limit); i++) {
		if (!rut_cli_row_matches(&rows->order[i]->r, filter))
			continue;
		if (skip) {
			skip--;
			continue;
		}
		for (size_t c = 0; c < n; c++)
			add_cell(&t, rows->order[i], list[c]);
		added++;
	}
	rut_table_render(&t, out, width);
	rut_table_fini(&t);
}

void rut_cli_rows_json(const struct rut_rows *rows, struct rut_buf *out, size_t limit,
		       uint64_t interval, bool final)
{
	_cleanup_buf_ struct rut_buf name = RUT_BUF_INIT;

	for (size_t i = 0; i < rows->count && (!limit || i < limit); i++) {
		const struct rut_ruby_row *r = &rows->order[i]->r;

		rut_jsonl_begin(out);
		if (rows->mode != RUT_RUBY_OBJECTS_TOTAL) {
			rut_jsonl_str(out, "file", r->path);
			rut_jsonl_u64(out, "line", r->line);
		}
		rut_jsonl_str(out, "class", r->class_name);
		if (counts_calls(rows->mode)) {
			rut_buf_clear(&name);
			rut_cli_row_method(&name, r);
			rut_jsonl_str(out, "method", name.data);
			rut_jsonl_u64(out, "calls", r->calls);
		}
		if (rows->mode == RUT_RUBY_TIME) {
			rut_jsonl_u64(out, "total_ns", r->total_ns);
			rut_jsonl_u64(out, "self_ns", r->self_ns);
			rut_jsonl_u64(out, "max_ns", r->max_ns);
			if (r->buckets)
				json_buckets(out, r);
		}
		if (!counts_calls(rows->mode)) {
			rut_jsonl_u64(out, "count", r->count);
			if (rows->mode == RUT_RUBY_RAISES)
				rut_jsonl_str(out, "message", r->message);
			else
				rut_jsonl_u64(out, "bytes", r->bytes);
		}
		if (r->pid)
			rut_jsonl_u64(out, "pid", (uint64_t)r->pid);
		else
			rut_jsonl_str(out, "pid", NULL);
		rut_jsonl_u64(out, "interval", interval);
		if (final)
			rut_jsonl_bool(out, "final", true);
		rut_jsonl_end(out);
	}
}
