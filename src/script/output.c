/* SPDX-License-Identifier: MIT */
#include "script/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/signals.h"
#include "script/format.h"
#include "script/hist.h"

#define CAT_CHUNK (64 << 10)

struct rut_script_out {
	struct rut_script_out_config c;
	struct rut_buf line; /* reused */
	struct rut_buf text; /* reused */
	size_t benches;	     /* that were printed */
};

int rut_script_out_new(struct rut_script_out **ret, const struct rut_script_out_config *config)
{
	struct rut_script_out *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	o->c = *config;
	*ret = o;
	return 0;
}

void rut_script_out_free(struct rut_script_out *o)
{
	if (!o)
		return;
	rut_buf_fini(&o->line);
	rut_buf_fini(&o->text);
	free(o);
}

static const char *text_of(const struct rut_script_out *o)
{
	return o->text.data ? o->text.data : "";
}

static int flush_line(struct rut_script_out *o)
{
	bool failed = o->line.failed || o->text.failed;

	if (o->line.len)
		fwrite(o->line.data, 1, o->line.len, o->c.out);
	rut_buf_clear(&o->line);
	rut_buf_clear(&o->text);
	return failed ? -ENOMEM : 0;
}

static void tap_text(const struct rut_script_out *o, const char *text, size_t len)
{
	if (o->c.tap.text)
		o->c.tap.text(o->c.tap.arg, text, len);
}

/* Text of a printf(), time() and their like: as it is, or as an object. */
static void add_text(struct rut_script_out *o, const char *type, const char *text, size_t len)
{
	tap_text(o, text, len);
	if (!o->c.json) {
		rut_buf_add(&o->line, text, len);
		return;
	}
	rut_buf_printf(&o->line, "{\"type\": \"%s\", \"data\": ", type);
	rut_script_json_string(&o->line, text, len);
	rut_buf_puts(&o->line, "}\n");
}

/* ---- maps ---- */

static void add_name(struct rut_script_out *o, const struct rut_script_map *m,
		     const struct rut_script_row *row)
{
	rut_buf_puts(&o->line, m->name);
	if (!row->key)
		return;
	rut_buf_putc(&o->line, '[');
	rut_script_key_text(&o->c.style, m->key, row->key, &o->line);
	rut_buf_putc(&o->line, ']');
}

/* The latest interval of all keys: their series end at the same time. */
static uint64_t last_interval(const struct rut_script_map *m, const struct rut_script_rows *rows)
{
	uint64_t last = 0;

	for (size_t i = 0; m->value->kind == RUT_T_TSERIES && i < rows->count; i++) {
		uint64_t n =
			rut_script_tseries_last(m->value, (const uint64_t *)rows->rows[i].value);

		if (n > last)
			last = n;
	}
	return last;
}

static void add_integer(struct rut_buf *out, bool is_signed, uint64_t v, int64_t div)
{
	if (is_signed)
		rut_buf_printf(out, "%" PRId64, (int64_t)v / div);
	else
		rut_buf_printf(out, "%" PRIu64, v / (uint64_t)div);
}

static bool is_plain_number(const struct rut_type *t)
{
	return t->kind == RUT_T_INT || t->kind == RUT_T_COUNT || t->kind == RUT_T_SUM ||
	       t->kind == RUT_T_MIN || t->kind == RUT_T_MAX || t->kind == RUT_T_AVG;
}

static void add_number(struct rut_buf *out, const struct rut_type *t, const void *value,
		       int64_t div)
{
	int64_t n = 0;

	rut_script_value_number(t, value, &n);
	add_integer(out, t->is_signed, (uint64_t)n, div);
}

static void add_stats(struct rut_script_out *o, const struct rut_type *t, const uint64_t *words,
		      int64_t div)
{
	bool old = rut_script_style_old(&o->c.style);
	struct rut_buf *out = &o->line;

	rut_buf_printf(out,
		       o->c.json ? "{\"count\": %" PRIu64 ", \"average\": "
		       : old	 ? "count %" PRIu64 ", average "
				 : "{ .count = %" PRIu64 ", .average = ",
		       words[1]);
	add_integer(out, t->is_signed, (uint64_t)rut_script_average(t, words), div);
	rut_buf_puts(out, o->c.json ? ", \"total\": " : old ? ", total " : ", .total = ");
	add_integer(out, t->is_signed, words[0], 1);
	rut_buf_puts(out, o->c.json ? "}" : old ? "" : " }");
}

static void add_row(struct rut_script_out *o, const struct rut_script_map *m,
		    const struct rut_script_row *row, uint64_t last, int64_t div)
{
	const uint64_t *words = (const uint64_t *)row->value;
	const struct rut_type *t = m->value;
	struct rut_buf *out = &o->line;

	add_name(o, m, row);
	rut_buf_putc(out, ':');
	switch (t->kind) {
	case RUT_T_HIST:
	case RUT_T_LHIST:
		rut_buf_puts(out, o->c.style.compat == 17 ? " \n" : "\n");
		rut_script_hist_text(&o->c.style, t, words, (uint64_t)div, out);
		break;
	case RUT_T_TSERIES:
		rut_buf_putc(out, '\n');
		rut_script_tseries_text(&o->c.style, t, words, last, out);
		break;
	case RUT_T_STATS:
		rut_buf_putc(out, ' ');
		add_stats(o, t, words, div);
		break;
	default:
		rut_buf_putc(out, ' ');
		if (is_plain_number(t))
			add_number(out, t, row->value, div);
		else
			rut_script_value_text(&o->c.style, t, row->value, RUT_SCRIPT_IN_VALUE, out);
	}
	rut_buf_putc(out, '\n');
}

static void add_row_json(struct rut_script_out *o, const struct rut_type *t,
			 const struct rut_script_row *row, uint64_t last, int64_t div)
{
	const uint64_t *words = (const uint64_t *)row->value;

	switch (t->kind) {
	case RUT_T_HIST:
	case RUT_T_LHIST:
		rut_script_hist_json(t, words, (uint64_t)div, &o->line);
		break;
	case RUT_T_TSERIES:
		rut_script_tseries_json(&o->c.style, t, words, last, &o->line);
		break;
	case RUT_T_STATS:
		add_stats(o, t, words, div);
		break;
	default:
		if (is_plain_number(t))
			add_number(&o->line, t, row->value, div);
		else
			rut_script_value_json(&o->c.style, t, row->value, &o->line);
	}
}

static const char *json_type(const struct rut_type *t)
{
	switch (t->kind) {
	case RUT_T_HIST:
	case RUT_T_LHIST:
		return "hist";
	case RUT_T_AVG:
	case RUT_T_STATS:
		return "stats";
	case RUT_T_TSERIES:
		return "tseries";
	default:
		return "map";
	}
}

void rut_script_out_rows(struct rut_script_out *o, const struct rut_script_map *m,
			 const struct rut_script_rows *rows, int64_t top, int64_t div)
{
	uint64_t last = last_interval(m, rows);
	size_t first = top > 0 && (uint64_t)top < rows->count ? rows->count - (size_t)top : 0;

	for (size_t i = first; o->c.tap.row && i < rows->count; i++)
		o->c.tap.row(o->c.tap.arg, m, &rows->rows[i]);
	if (div <= 0)
		div = 1;
	if (!o->c.json) {
		for (size_t i = first; i < rows->count; i++)
			add_row(o, m, &rows->rows[i], last, div);
		/* Old releases end these maps with an empty line. */
		if (rows->count && rut_script_style_old(&o->c.style) &&
		    (m->value->kind == RUT_T_AVG || m->value->kind == RUT_T_STATS))
			rut_buf_putc(&o->line, '\n');
		flush_line(o);
		return;
	}
	rut_buf_printf(&o->line, "{\"type\": \"%s\", \"data\": {\"%s\": ", json_type(m->value),
		       m->name);
	if (m->key)
		rut_buf_putc(&o->line, '{');
	for (size_t i = first; i < rows->count; i++) {
		if (i > first)
			rut_buf_puts(&o->line, ", ");
		if (m->key) {
			rut_script_key_json(&o->c.style, m->key, rows->rows[i].key, &o->line);
			rut_buf_puts(&o->line, ": ");
		}
		add_row_json(o, m->value, &rows->rows[i], last, div);
	}
	rut_buf_puts(&o->line, m->key ? "}}}\n" : rows->count ? "}}\n" : "null}}\n");
	flush_line(o);
}

int rut_script_out_map(struct rut_script_out *o, const struct rut_script_map *m, int64_t top,
		       int64_t div, struct rut_err *err)
{
	struct rut_script_rows rows;
	int rc = rut_script_rows_read(&rows, m, err);

	if (rc)
		return rc;
	rut_script_out_rows(o, m, &rows, top, div);
	rut_script_rows_fini(&rows);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct rut_script_map *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

int rut_script_out_end(struct rut_script_out *o, const struct rut_script_map *maps, size_t nmaps,
		       struct rut_err *err)
{
	_cleanup_free_ const struct rut_script_map **sorted = calloc(nmaps + 1, sizeof(*sorted));
	int rc = 0;

	if (!sorted)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (!o->c.json || o->c.style.compat == 17)
		fputs("\n\n", o->c.out);
	for (size_t i = 0; i < nmaps; i++)
		sorted[i] = &maps[i];
	qsort(sorted, nmaps, sizeof(*sorted), by_name);
	for (size_t i = 0; i < nmaps; i++) {
		struct rut_script_rows rows;
		int one;

		/* Our own are not shown. */
		if (!strncmp(sorted[i]->name, "@__", 3) || !rut_script_map_is_set(sorted[i]))
			continue;
		one = rut_script_rows_read(&rows, sorted[i], err);

		if (one) {
			rc = one;
			continue;
		}
		if (rows.count)
			rut_script_out_rows(o, sorted[i], &rows, 0, 1);
		rut_script_rows_fini(&rows);
	}
	return rc;
}

/* ---- events ---- */

static void print_value(struct rut_script_out *o, const struct rut_type *args, const void *data)
{
	const struct rut_type_field *f = &args->fields[args->nfields - 1];
	const char *value = (const char *)data + f->offset;

	if (o->c.tap.text) {
		rut_script_value_text(&o->c.style, f->type, value, RUT_SCRIPT_IN_VALUE, &o->text);
		tap_text(o, text_of(o), o->text.len);
	}
	if (o->c.json) {
		rut_buf_puts(&o->line, "{\"type\": \"value\", \"data\": ");
		rut_script_value_json(&o->c.style, f->type, value, &o->line);
		rut_buf_puts(&o->line, "}\n");
		return;
	}
	rut_script_value_text(&o->c.style, f->type, value, RUT_SCRIPT_IN_VALUE, &o->line);
	rut_buf_putc(&o->line, '\n');
}

static void format_text(struct rut_script_out *o, const struct rut_script_action *a,
			const void *data)
{
	if (a->parsed)
		rut_script_format_text(a->parsed, &o->c.style, data, &o->text);
	else if (a->format)
		rut_buf_puts(&o->text, a->format);
}

/* errorf() and warnf(): with their place in the script. */
static void print_diagnostic(struct rut_script_out *o, const struct rut_script_action *a)
{
	bool warning = a->kind == RUT_ACTION_WARNF;
	const char *source = a->source ? a->source : o->c.source ? o->c.source : "stdin";

	if (warning && o->c.no_warnings)
		return;
	tap_text(o, text_of(o), o->text.len);
	if (!o->c.json) {
		fflush(o->c.out);
		fprintf(o->c.err, "%s:%u:%u-%u: %s: %s\n", source, a->line, a->column,
			a->end_column, warning ? "WARNING" : "ERROR", text_of(o));
		if (a->expanded)
			fputs(a->expanded, o->c.err);
		return;
	}
	rut_buf_printf(&o->line, "{\"type\": \"%s\", \"msg\": ", warning ? "warnf" : "errorf");
	rut_script_json_string(&o->line, text_of(o), o->text.len);
	rut_buf_puts(&o->line, ", \"filename\": ");
	rut_script_json_string(&o->line, source, strlen(source));
	rut_buf_printf(&o->line, ", \"line\": %u, \"col\": %u}\n", a->line, a->column);
}

static void print_time(struct rut_script_out *o, const struct rut_script_action *a)
{
	rut_script_time_text(a->format ? a->format : "%H:%M:%S\n", rut_clock_ns(CLOCK_REALTIME),
			     &o->text);
	add_text(o, "time", text_of(o), o->text.len);
}

/* A file or the output of a command: text is printed as it comes, JSON needs it whole. */
static void print_stream(struct rut_script_out *o, const char *type, FILE *f, size_t left)
{
	_cleanup_free_ char *chunk = malloc(CAT_CHUNK);
	struct rut_buf whole = RUT_BUF_INIT;
	size_t n;

	while (chunk && left && (n = fread(chunk, 1, left < CAT_CHUNK ? left : CAT_CHUNK, f)) > 0) {
		left -= n;
		if (o->c.json) {
			rut_buf_add(&whole, chunk, n);
			continue;
		}
		fwrite(chunk, 1, n, o->c.out);
		tap_text(o, chunk, n);
	}
	if (o->c.json)
		add_text(o, type, whole.data ? whole.data : "", whole.len);
	rut_buf_fini(&whole);
}

/* Some files of /proc and /sys wait for something to read: what is there now is enough. */
static FILE *open_file(const char *path)
{
	int fd = rut_file_open_regular(path);
	FILE *f;

	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	f = fdopen(fd, "r");
	if (!f)
		close(fd);
	return f;
}

static void print_file(struct rut_script_out *o)
{
	_cleanup_file_ FILE *f = open_file(text_of(o));

	if (f) {
		print_stream(o, "cat", f, o->c.cat_bytes ? o->c.cat_bytes : SIZE_MAX);
		return;
	}
	fflush(o->c.out);
	fprintf(o->c.err, "ERROR: failed to open file '%s' (%s)\n", text_of(o),
		errno == EINVAL ? "not a regular file" : strerror(errno));
}

/* Starts a shell that writes into the pipe; with the signals that rutile was started with. */
static int spawn_shell(const char *command, int out, pid_t *ret)
{
	const char *const argv[] = {"sh", "-c", command, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t defaults;
	int rc;

	rc = posix_spawnattr_init(&attr);
	if (rc)
		return rc;
	rut_signals_defaults(&defaults);
	posix_spawnattr_setsigmask(&attr, rut_signals_mask());
	posix_spawnattr_setsigdefault(&attr, &defaults);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	rc = posix_spawn_file_actions_init(&actions);
	if (!rc) {
		rc = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
		if (!rc)
			rc = posix_spawn(ret, "/bin/sh", &actions, &attr,
					 (char *const *)(uintptr_t)argv, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	posix_spawnattr_destroy(&attr);
	return rc;
}

static void run_command(struct rut_script_out *o)
{
	FILE *f = NULL;
	pid_t pid = 0;
	int ends[2], rc;

	if (!o->c.unsafe)
		return;
	fflush(o->c.out);
	rc = pipe2(ends, O_CLOEXEC) ? errno : 0;
	if (!rc) {
		f = fdopen(ends[0], "r");
		rc = f ? spawn_shell(text_of(o), ends[1], &pid) : errno;
		close(ends[1]);
		if (!f)
			close(ends[0]);
	}
	if (rc) {
		fprintf(o->c.err, "ERROR: cannot run '%s': %s\n", text_of(o), strerror(rc));
		if (f)
			fclose(f);
		return;
	}
	print_stream(o, "syscall", f, SIZE_MAX);
	fclose(f);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void print_joined(struct rut_script_out *o, const struct rut_script_action *a,
			 const char *data)
{
	const struct rut_type *array = a->args;
	const char *between = "";

	if (array->kind == RUT_T_TUPLE && array->nfields == 1) {
		data += array->fields[0].offset;
		array = array->fields[0].type;
	}
	for (uint32_t i = 0; array->elem && i < array->count; i++) {
		const char *s = data + (size_t)i * array->elem->size;
		size_t len = strnlen(s, array->elem->size);

		if (!len)
			continue;
		rut_buf_puts(&o->text, between);
		rut_buf_add(&o->text, s, len);
		between = a->format ? a->format : " ";
	}
	if (!o->c.json)
		rut_buf_putc(&o->text, '\n');
	add_text(o, "join", text_of(o), o->text.len);
}

static void print_event(struct rut_script_out *o, const struct rut_script_action *a,
			const void *data)
{
	switch (a->kind) {
	case RUT_ACTION_PRINTF:
		format_text(o, a, data);
		add_text(o, "printf", text_of(o), o->text.len);
		break;
	case RUT_ACTION_ERRORF:
	case RUT_ACTION_WARNF:
		format_text(o, a, data);
		print_diagnostic(o, a);
		break;
	case RUT_ACTION_PRINT_VALUE:
		if (a->args && a->args->nfields)
			print_value(o, a->args, data);
		break;
	case RUT_ACTION_TIME:
		print_time(o, a);
		break;
	case RUT_ACTION_CAT:
		format_text(o, a, data);
		print_file(o);
		break;
	case RUT_ACTION_SYSTEM:
		format_text(o, a, data);
		run_command(o);
		break;
	case RUT_ACTION_JOIN:
		if (a->args)
			print_joined(o, a, data);
		break;
	default:
		break;
	}
}

/* print(@m, top, div, "-key"): the `top` first rows of that order. */
static int print_ordered(struct rut_script_out *o, const struct rut_script_map *m,
			 const struct rut_script_action *a, struct rut_err *err)
{
	bool by_key = a->order >= RUT_SCRIPT_PRINT_KEY_UP;
	bool down =
		a->order == RUT_SCRIPT_PRINT_KEY_DOWN || a->order == RUT_SCRIPT_PRINT_VALUE_DOWN;
	struct rut_script_rows rows;
	int rc = rut_script_rows_read(&rows, m, err);

	if (rc)
		return rc;
	rc = rut_script_rows_sort(&rows, m, by_key ? RUT_SCRIPT_BY_KEY : RUT_SCRIPT_BY_VALUE, down);
	if (a->top > 0 && (size_t)a->top < rows.count)
		rows.count = (size_t)a->top;
	if (!rc)
		rut_script_out_rows(o, m, &rows, 0, a->div);
	rut_script_rows_fini(&rows);
	return rc ? rut_err_set(err, ENOMEM, "out of memory") : 0;
}

int rut_script_out_event(struct rut_script_out *o, const struct rut_script_action *a,
			 const struct rut_script_map *maps, size_t nmaps, const void *data,
			 size_t size, struct rut_err *err)
{
	const struct rut_script_map *m =
		a->map >= 0 && (size_t)a->map < nmaps ? &maps[a->map] : NULL;
	int rc;

	if (a->args && a->kind != RUT_ACTION_PRINT_MAP && size < a->args->size)
		return rut_err_set(err, EBADMSG, "an event of %zu bytes has arguments of %u", size,
				   a->args->size);
	switch (a->kind) {
	case RUT_ACTION_PRINT_MAP:
		if (!m)
			return -EINVAL;
		return a->order ? print_ordered(o, m, a, err)
				: rut_script_out_map(o, m, a->top, a->div, err);
	case RUT_ACTION_CLEAR:
	case RUT_ACTION_ZERO:
		if (!m)
			return -EINVAL;
		rc = a->kind == RUT_ACTION_CLEAR ? rut_script_map_clear(m) : rut_script_map_zero(m);
		return rc ? rut_err_errno(err, -rc, "cannot clear the map '%s'", m->name) : 0;
	default:
		print_event(o, a, data);
		rc = flush_line(o);
		return rc ? rut_err_set(err, ENOMEM, "out of memory") : 0;
	}
}

void rut_script_out_attached(struct rut_script_out *o, size_t probes)
{
	const char *s = probes == 1 ? "" : "s";

	if (o->c.json)
		fprintf(o->c.out,
			"{\"type\": \"attached_probes\", \"count\": %zu, \"data\": {\"probes\": "
			"%zu}}\n",
			probes, probes);
	else if (rut_script_style_old(&o->c.style))
		fprintf(o->c.out, "Attaching %zu probe%s...\n", probes, s);
	else
		fprintf(o->c.err, "Attached %zu probe%s\n", probes, s);
}

void rut_script_out_bench(struct rut_script_out *o, const char *name, double ns, uint64_t runs)
{
	if (o->c.json) {
		rut_buf_puts(&o->line, "{\"type\": \"benchmark_result\", \"data\": {");
		rut_script_json_string(&o->line, name, strlen(name));
		rut_buf_printf(&o->line, ": {\"average\": %.0f, \"iters\": %llu}}}\n", ns,
			       (unsigned long long)runs);
	} else {
		if (!o->benches++)
			rut_buf_printf(
				&o->line, "%-40s %-14s %s\n%.66s\n", "Benchmark", "Time(ns)",
				"Iterations",
				"------------------------------------------------------------"
				"------");
		rut_buf_printf(&o->line, "%-40s %-16.0f %llu\n", name, ns,
			       (unsigned long long)runs);
	}
	flush_line(o);
}

void rut_script_out_test(struct rut_script_out *o, const char *name, int64_t result)
{
	if (o->c.json) {
		rut_buf_puts(&o->line, "{\"type\": \"test_result\", \"data\": {");
		rut_script_json_string(&o->line, name, strlen(name));
		rut_buf_printf(&o->line, ": %lld}}\n", (long long)result);
	} else {
		rut_buf_printf(&o->line, "%s %s\n", result ? "FAILED" : "OK", name);
	}
	flush_line(o);
}
