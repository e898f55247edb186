/* SPDX-License-Identifier: MIT */
#include "cli/ruby_method.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/method_explain.h"
#include "cli/method_tree.h"
#include "cli/trace_print.h"
#include "cli/wake.h"
#include "output/table.h"
#include "output/text.h"

static const uint64_t look_ns = UINT64_C(1000000000);

enum { LINES_MAX = 64 << 10, CALLERS_MAX = 8 };

struct look {
	const struct rut_live *l;
	struct rut_tracer *calls, *callers; /* owned; callers: NULL unless asked for */
};

static int attach(const struct rut_live *l, struct rut_tracer *t, struct rut_err *err)
{
	if (l->child)
		return rut_tracer_attach(t, l->child, true, err);
	return rut_cli_targets_attach(&l->targets, t, NULL, err);
}

static int begin(struct look *k, const char *method, bool lines, rut_ruby_event_fn fn, void *arg,
		 struct rut_err *err)
{
	const char *const methods[] = {method, NULL};
	struct rut_tracer_config trace = {
		.mode = RUT_RUBY_TRACE, .returns = true, .args = lines, .inside = method};
	struct rut_tracer_config count = {.mode = RUT_RUBY_CALLS, .by_caller = true};
	int rc;

	rut_cli_targets_filter(&k->l->targets, &k->l->opts, k->l->all, &trace.filter);
	count.filter.methods = methods;
	count.filter.try_newer = trace.filter.try_newer;
	rc = rut_tracer_new(&k->calls, &trace, err);
	if (rc >= 0)
		rut_tracer_on_event(k->calls, fn, arg);
	if (rc >= 0)
		rc = attach(k->l, k->calls, err);
	if (rc >= 0 && !lines)
		rc = rut_tracer_new(&k->callers, &count, err);
	if (rc >= 0 && !lines)
		rc = attach(k->l, k->callers, err);
	if (rc < 0 && k->calls)
		rut_tracer_on_event(k->calls, NULL, NULL);
	return rc;
}

/* For a second, or until the user wants to stop. */
static int follow(struct look *k, struct rut_err *err)
{
	uint64_t end = rut_now_ns() + look_ns;
	int rc = 1;

	while (rc > 0 && rut_now_ns() < end && !rut_cli_wake_stopped()) {
		rc = rut_tracer_poll(k->calls, 20, err);
		if (rc > 0 && k->callers)
			rc = rut_tracer_poll(k->callers, 0, err);
		rut_cli_wake_drain();
	}
	/* What is still in the rings is reported when the tracer is freed. */
	rut_tracer_on_event(k->calls, NULL, NULL);
	return rc;
}

static void print_head(const struct rut_ruby_row *row, const char *method, struct rut_buf *out)
{
	char total[RUT_TEXT_DURATION_SIZE], mean[RUT_TEXT_DURATION_SIZE],
		max[RUT_TEXT_DURATION_SIZE];

	rut_text_add(out, method);
	if (row->path) {
		rut_buf_puts(out, "  ");
		rut_text_add(out, row->path);
		rut_buf_printf(out, ":%" PRIu32, row->line);
	}
	rut_buf_printf(out, "\n%" PRIu64 " calls so far", row->calls);
	if (row->total_ns && row->calls)
		rut_buf_printf(out, ", %s in all, %s each, the slowest %s",
			       rut_text_duration(total, row->total_ns),
			       rut_text_duration(mean, row->total_ns / row->calls),
			       rut_text_duration(max, row->max_ns));
	rut_buf_putc(out, '\n');
}

/* Where it is called, in all processes. */
static void print_sites(const struct rut_rows *rows, size_t width, struct rut_buf *out)
{
	static const struct rut_table_column columns[] = {
		{"CALLS"},
		{"FROM", .min_width = 16, .grow = true, .left = true, .keep_right = true}};
	struct rut_table table;

	rut_table_init(&table, columns, sizeof(columns) / sizeof(*columns));
	for (size_t i = 0; i < rows->count && i < CALLERS_MAX; i++) {
		const struct rut_ruby_row *r = &rows->order[i]->r;

		if (!r->calls)
			continue;
		rut_table_addf(&table, "%" PRIu64, r->calls);
		if (r->path)
			rut_table_addf(&table, "%s:%" PRIu32, r->path, r->line);
		else
			rut_table_add(&table, "(not known)");
	}
	rut_table_render(&table, out, width);
	rut_table_fini(&table);
}

static int print_callers(const struct look *k, size_t width, struct rut_buf *out,
			 struct rut_err *err)
{
	struct rut_rows rows;
	const struct rut_ruby_row *in;
	size_t n;
	int rc;

	rut_cli_rows_init(&rows, RUT_RUBY_CALLS, 0);
	rc = rut_tracer_rows(k->callers, &in, &n, err);
	if (rc >= 0 && rut_cli_rows_update(&rows, in, n, 0))
		rc = rut_err_set(err, ENOMEM, "out of memory");
	if (rc >= 0) {
		rut_buf_puts(out, "\nCalled from (one second)\n");
		print_sites(&rows, width, out);
	}
	rut_cli_rows_fini(&rows);
	return rc;
}

static int show_tree(struct look *k, const char *method, size_t width, struct rut_buf *out,
		     struct rut_err *err)
{
	struct rut_method_tree tree;
	int rc = rut_cli_method_tree_init(&tree);

	if (rc < 0)
		rc = rut_err_set(err, ENOMEM, "out of memory");
	if (rc >= 0)
		rc = begin(k, method, false, rut_cli_method_tree_event, &tree, err);
	if (rc >= 0)
		rc = follow(k, err);
	if (rc >= 0)
		rc = print_callers(k, width, out, err);
	if (rc >= 0) {
		rut_buf_puts(out, "\nCalls and what they call (one second)\n");
		rut_cli_method_tree_print(&tree, width, out);
	}
	rut_cli_method_tree_fini(&tree);
	return rc;
}

static void print_line(const struct rut_ruby_event *ev, void *arg)
{
	struct rut_trace_print *p = arg;

	if (p->out.len < LINES_MAX)
		rut_cli_trace_print_event(ev, p);
}

static int show_lines(struct look *k, const char *method, struct rut_buf *out, struct rut_err *err)
{
	const struct rut_trace_style style = {.tree = true, .args = true, .inside = true};
	struct rut_trace_print print;
	int rc;

	rut_cli_trace_print_init(&print, &style);
	rc = begin(k, method, true, print_line, &print, err);
	if (rc >= 0)
		rc = follow(k, err);
	rut_cli_trace_print_flush(&print);
	if (rc >= 0) {
		rut_buf_puts(out, "\nCalls as they came (one second)\n");
		rut_buf_add(out, print.out.data, print.out.len);
		if (!print.events)
			rut_buf_puts(out, "It was not called.\n");
	}
	rut_cli_trace_print_fini(&print);
	return rc;
}

static int explain(const struct rut_live *l, const char *method, struct rut_buf *out,
		   struct rut_err *err)
{
	pid_t pid = l->child ? l->child : l->targets.count ? l->targets.pids[0] : 0;

	if (!pid)
		return rut_err_set(err, ESRCH, "the process has ended");
	rut_buf_putc(out, '\n');
	return rut_cli_method_explain(pid, method, NULL, out, err);
}

int rut_cli_ruby_method(const struct rut_live *l, const struct rut_ruby_row *row,
			enum rut_method_look look, size_t width, struct rut_buf *out,
			struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf method = RUT_BUF_INIT;
	struct look k = {.l = l};
	int rc;

	rut_cli_row_method(&method, row);
	if (method.failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	print_head(row, method.data, out);
	if (look == RUT_METHOD_EXPLAIN)
		rc = explain(l, method.data, out, err);
	else if (look == RUT_METHOD_LINES)
		rc = show_lines(&k, method.data, out, err);
	else
		rc = show_tree(&k, method.data, width, out, err);
	rut_tracer_free(k.calls);
	rut_tracer_free(k.callers);
	return rc < 0 ? rc : 0;
}
