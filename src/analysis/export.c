/* SPDX-License-Identifier: MIT */
#include "analysis/export.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"

enum { LABELS = 24, TEXT = 512 };

struct label {
	char key[64], value[TEXT];
};

/* What a row says besides its numbers. */
struct labels {
	struct label list[LABELS];
	size_t n;
};

static void add_label(struct labels *l, const char *key, const char *more, const char *value)
{
	struct label *to = &l->list[l->n];

	if (l->n == LABELS || !value)
		return;
	snprintf(to->key, sizeof(to->key), "%s%s%s", key, *more ? "_" : "", more);
	/* What metrics take as the name of a label. */
	for (char *p = to->key; *p; p++)
		if (!isalnum((unsigned char)*p))
			*p = '_';
	snprintf(to->value, sizeof(to->value), "%s", value);
	l->n++;
}

static void add_number(struct labels *l, const char *key, const char *more, int64_t v)
{
	char text[32];

	if (v == RUT_LAMI_NONE)
		return;
	snprintf(text, sizeof(text), "%" PRId64, v);
	add_label(l, key, more, text);
}

/* Numbers of these types are values; what they count is in the unit. */
static bool is_value(const struct rut_cell *c)
{
	switch (c->type) {
	case RUT_LAMI_NUMBER:
	case RUT_LAMI_RATIO:
	case RUT_LAMI_DURATION:
	case RUT_LAMI_SIZE:
		return c->is_float ? isfinite(c->f) : c->i != RUT_LAMI_NONE;
	case RUT_LAMI_TIMESTAMP:
		return true;
	default:
		return false;
	}
}

static const char *key_of(const struct rut_lami_column *c)
{
	return c->key ? c->key : c->title;
}

static void label_cell(struct labels *l, const struct rut_lami_column *column,
		       const struct rut_cell *c)
{
	const char *key = key_of(column);

	switch (c->type) {
	case RUT_LAMI_PROCESS:
		add_label(l, "comm", "", c->str);
		add_number(l, "pid", "", c->i);
		add_number(l, "tid", "", c->j);
		break;
	case RUT_LAMI_IRQ:
		add_label(l, key, "", c->str);
		add_number(l, key, "number", c->i);
		add_label(l, key, "kind", c->hard ? "hard" : "soft");
		break;
	case RUT_LAMI_CPU:
	case RUT_LAMI_FD:
		add_number(l, key, "", c->i);
		break;
	case RUT_LAMI_BOOL:
		add_label(l, key, "", c->hard ? "true" : "false");
		break;
	case RUT_LAMI_STRING:
	case RUT_LAMI_SYSCALL:
	case RUT_LAMI_PATH:
	case RUT_LAMI_DISK:
	case RUT_LAMI_NETIF:
		add_label(l, key, "", c->str);
		break;
	default:
		break;
	}
}

static const char *class_of(const struct rut_result *t)
{
	return t->cls->name ? t->cls->name : t->cls->title;
}

static void label_row(struct labels *l, const struct rut_result *t, size_t row)
{
	const struct rut_cell *cells = rut_result_row(t, row);

	l->n = 0;
	if (t->subtitle)
		add_label(l, "table", "", t->subtitle);
	for (size_t i = 0; i < t->cls->n_columns; i++)
		label_cell(l, &t->cls->columns[i], &cells[i]);
}

/* "per-tid-usage", "CPU usage" -> "per_tid_usage", "cpu_usage" */
static void put_name(struct rut_buf *b, const char *s)
{
	for (bool word = false; *s; s++) {
		if (isalnum((unsigned char)*s)) {
			rut_buf_putc(b, (char)tolower((unsigned char)*s));
			word = true;
		} else if (word && s[1]) {
			rut_buf_putc(b, '_');
			word = false;
		}
	}
}

/* Without surrogates of LAMI: databases take UTF-8. Bytes that are none become '?'. */
static void put_json(struct rut_buf *b, const char *s)
{
	rut_buf_putc(b, '"');
	for (const unsigned char *p = (const void *)s; *p; p++) {
		if (*p == '"' || *p == '\\')
			rut_buf_printf(b, "\\%c", *p);
		else if (*p < ' ' || *p == 0x7f)
			rut_buf_printf(b, "\\u%04x", *p);
		else
			rut_buf_putc(b, *p < 0x80 ? (char)*p : '?');
	}
	rut_buf_putc(b, '"');
}

/* ---- OpenMetrics ---- */

static void put_labels(struct rut_buf *b, const struct labels *l, const char *analysis,
		       const char *host)
{
	rut_buf_puts(b, "{analysis=");
	put_json(b, analysis);
	rut_buf_puts(b, ",host=");
	put_json(b, host);
	for (size_t i = 0; i < l->n; i++) {
		bool twice = false;

		for (size_t k = 0; k < i; k++)
			twice |= !strcmp(l->list[k].key, l->list[i].key);
		if (twice)
			continue;
		rut_buf_printf(b, ",%s=", l->list[i].key);
		put_json(b, l->list[i].value);
	}
}

struct family {
	struct rut_buf name, labels;
	struct rut_strtab seen;
	bool any;
};

static void begin_family(struct rut_buf *out, struct family *f, const struct rut_lami_class *cls,
			 const struct rut_lami_column *c)
{
	if (f->any)
		return;
	f->any = true;
	rut_buf_printf(out, "# TYPE %s gauge\n# HELP %s ", f->name.data, f->name.data);
	rut_buf_printf(out, "%s: %s%s%s\n", cls->title ? cls->title : "", c->title,
		       c->unit ? ", " : "", c->unit ? c->unit : "");
}

/* The rows of one column. Rows with the same labels differ by "row". */
static void put_column(struct rut_buf *out, struct family *f, const struct rut_result *t,
		       size_t column, const char *analysis, const char *host)
{
	struct labels l;

	for (size_t row = 0; row < rut_result_rows(t) && !f->name.failed; row++) {
		const struct rut_cell *cell = rut_result_row(t, row) + column;
		size_t before = f->seen.count;

		if (!is_value(cell))
			continue;
		begin_family(out, f, t->cls, &t->cls->columns[column]);
		label_row(&l, t, row);
		rut_buf_clear(&f->labels);
		put_labels(&f->labels, &l, analysis, host);
		if (f->labels.failed ||
		    rut_strtab_intern(&f->seen, f->labels.data, f->labels.len) < 0)
			return;
		if (f->seen.count == before)
			rut_buf_printf(&f->labels, ",row=\"%zu\"", row);
		rut_buf_add(out, f->name.data, f->name.len - 1);
		rut_buf_add(out, f->labels.data, f->labels.len);
		rut_buf_printf(out, "} %.17g %" PRId64 ".%09" PRId64 "\n", rut_an_cell_value(cell),
			       t->end_ns / 1000000000, t->end_ns % 1000000000);
	}
}

static bool same_class(const struct rut_result *a, const struct rut_result *b)
{
	return !strcmp(class_of(a), class_of(b)) && a->cls->n_columns == b->cls->n_columns;
}

/* A name stands once in an exposition: all tables of a class go there, of the newest interval. */
static void put_family(struct rut_buf *out, const struct rut_results *r, size_t first,
		       size_t column, const char *analysis, const char *host)
{
	struct family f = {.name = RUT_BUF_INIT, .labels = RUT_BUF_INIT};
	int64_t end_ns = INT64_MIN;

	rut_buf_puts(&f.name, "rutile_");
	put_name(&f.name, class_of(r->tables[first]));
	rut_buf_putc(&f.name, '_');
	put_name(&f.name, key_of(&r->tables[first]->cls->columns[column]));
	rut_buf_putc(&f.name, 0);
	for (size_t i = first; i < r->n; i++)
		if (same_class(r->tables[i], r->tables[first]) && r->tables[i]->end_ns > end_ns)
			end_ns = r->tables[i]->end_ns;
	for (size_t i = first; i < r->n; i++)
		if (same_class(r->tables[i], r->tables[first]) && r->tables[i]->end_ns == end_ns)
			put_column(out, &f, r->tables[i], column, analysis, host);
	rut_strtab_fini(&f.seen);
	rut_buf_fini(&f.name);
	rut_buf_fini(&f.labels);
}

static bool is_first(const struct rut_results *r, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (same_class(r->tables[k], r->tables[i]))
			return false;
	return true;
}

static void put_openmetrics(const struct rut_results *r, const char *analysis, const char *host,
			    struct rut_buf *out)
{
	for (size_t i = 0; i < r->n; i++)
		for (size_t c = 0; is_first(r, i) && c < r->tables[i]->cls->n_columns; c++)
			put_family(out, r, i, c, analysis, host);
}

/* ---- ClickHouse ---- */

static void put_row(struct rut_buf *out, const struct rut_result *t, size_t row,
		    const char *analysis, const char *host)
{
	const struct rut_cell *cells = rut_result_row(t, row);
	struct labels l;
	bool any = false;

	rut_buf_printf(out,
		       "{\"begin_ns\":%" PRId64 ",\"end_ns\":%" PRId64 ",\"host\":", t->begin_ns,
		       t->end_ns);
	put_json(out, host);
	rut_buf_puts(out, ",\"analysis\":");
	put_json(out, analysis);
	rut_buf_puts(out, ",\"table\":");
	put_json(out, class_of(t));
	rut_buf_puts(out, ",\"labels\":{");
	label_row(&l, t, row);
	for (size_t i = 0; i < l.n; i++) {
		rut_buf_puts(out, i ? "," : "");
		put_json(out, l.list[i].key);
		rut_buf_putc(out, ':');
		put_json(out, l.list[i].value);
	}
	rut_buf_puts(out, "},\"values\":{");
	for (size_t i = 0; i < t->cls->n_columns; i++) {
		if (!is_value(&cells[i]))
			continue;
		rut_buf_puts(out, any ? ",\"" : "\"");
		put_name(out, key_of(&t->cls->columns[i]));
		rut_buf_printf(out, "\":%.17g", rut_an_cell_value(&cells[i]));
		any = true;
	}
	rut_buf_puts(out, "}}\n");
}

/* ---- OTLP ---- */

static void put_attribute(struct rut_buf *out, const char *key, const char *value, bool first)
{
	rut_buf_puts(out, first ? "{\"key\":" : ",{\"key\":");
	put_json(out, key);
	rut_buf_puts(out, ",\"value\":{\"stringValue\":");
	put_json(out, value);
	rut_buf_puts(out, "}}");
}

static void put_points(struct rut_buf *out, const struct rut_result *t, size_t column)
{
	bool any = false;

	for (size_t row = 0; row < rut_result_rows(t); row++) {
		const struct rut_cell *cell = rut_result_row(t, row) + column;
		struct labels l;

		if (!is_value(cell))
			continue;
		label_row(&l, t, row);
		rut_buf_printf(out,
			       "%s{\"startTimeUnixNano\":\"%" PRId64
			       "\",\"timeUnixNano\":\"%" PRId64
			       "\",\"asDouble\":%.17g,\"attributes\":[",
			       any ? "," : "", t->begin_ns, t->end_ns, rut_an_cell_value(cell));
		for (size_t i = 0; i < l.n; i++)
			put_attribute(out, l.list[i].key, l.list[i].value, !i);
		rut_buf_puts(out, "]}");
		any = true;
	}
}

static bool has_values(const struct rut_result *t, size_t column)
{
	for (size_t row = 0; row < rut_result_rows(t); row++)
		if (is_value(rut_result_row(t, row) + column))
			return true;
	return false;
}

static void put_otlp(const struct rut_results *r, const char *analysis, const char *host,
		     struct rut_buf *out)
{
	bool any = false;

	rut_buf_puts(out, "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[");
	put_attribute(out, "host.name", host, true);
	rut_buf_puts(out, "]},\"scopeMetrics\":[{\"scope\":{\"name\":\"rutile\"},\"metrics\":[");
	for (size_t i = 0; i < r->n; i++)
		for (size_t c = 0; c < r->tables[i]->cls->n_columns; c++) {
			const struct rut_lami_column *column = &r->tables[i]->cls->columns[c];

			if (!has_values(r->tables[i], c))
				continue;
			rut_buf_printf(out, "%s{\"name\":\"rutile.", any ? "," : "");
			put_name(out, analysis);
			rut_buf_putc(out, '.');
			put_name(out, class_of(r->tables[i]));
			rut_buf_putc(out, '.');
			put_name(out, key_of(column));
			rut_buf_puts(out, "\",\"unit\":");
			put_json(out, column->unit ? column->unit : "");
			rut_buf_puts(out, ",\"gauge\":{\"dataPoints\":[");
			put_points(out, r->tables[i], c);
			rut_buf_puts(out, "]}}");
			any = true;
		}
	rut_buf_puts(out, "]}]}]}\n");
}

void rut_an_export(enum rut_export_format format, const struct rut_results *r, const char *analysis,
		   const char *host, struct rut_buf *out)
{
	switch (format) {
	case RUT_EXPORT_OPENMETRICS:
		put_openmetrics(r, analysis, host, out);
		break;
	case RUT_EXPORT_CLICKHOUSE:
		for (size_t i = 0; i < r->n; i++)
			for (size_t row = 0; row < rut_result_rows(r->tables[i]); row++)
				put_row(out, r->tables[i], row, analysis, host);
		break;
	case RUT_EXPORT_OTLP:
		put_otlp(r, analysis, host, out);
		break;
	}
}
