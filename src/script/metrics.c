/* SPDX-License-Identifier: MIT */
#include "script/metrics.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "output/text.h"
#include "script/hist.h"
#include "script/program.h"
#include "script/rows.h"
#include "script/value.h"

/* Letters, digits and '_' of a name; what else may stand in one becomes '_'. */
static void add_word(struct rut_buf *out, const char *s)
{
	for (; *s; s++)
		rut_buf_putc(out, isalnum((unsigned char)*s) ? *s : '_');
}

static void add_family(const struct rut_script_map *m, struct rut_buf *out)
{
	const char *name = m->name[0] == '@' ? m->name + 1 : m->name;

	rut_buf_puts(out, "rutile_script_");
	add_word(out, name[0] ? name : "map");
}

/* The text of a label: UTF-8 with backslashes before what would end it. */
static void add_label_text(const char *s, size_t len, struct rut_buf *out)
{
	for (size_t i = 0; i < len;) {
		uint32_t cp;
		size_t n = rut_text_decode(s + i, len - i, &cp);

		if (cp == UINT32_MAX)
			rut_buf_puts(out, "\xef\xbf\xbd");
		else if (cp == '\n')
			rut_buf_puts(out, "\\n");
		else if (cp == '"' || cp == '\\')
			rut_buf_printf(out, "\\%c", (char)cp);
		else
			rut_buf_add(out, s + i, n);
		i += n;
	}
}

static void add_label(const struct rut_script_style *s, const char *name, int number,
		      const struct rut_type *t, const void *v, struct rut_buf *out)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	if (out->len && out->data[out->len - 1] != '{')
		rut_buf_putc(out, ',');
	if (name)
		add_word(out, name);
	else
		rut_buf_puts(out, "key");
	if (number >= 0)
		rut_buf_printf(out, "%d", number);
	rut_buf_puts(out, "=\"");
	rut_script_value_text(s, t, v, RUT_SCRIPT_IN_KEY, &text);
	add_label_text(text.data ? text.data : "", text.len, out);
	rut_buf_putc(out, '"');
}

/* The labels of a key, without braces. */
static void add_labels(const struct rut_script_style *s, const struct rut_script_map *m,
		       const uint8_t *key, struct rut_buf *out)
{
	const struct rut_type *t = m->key;

	if (!key)
		return;
	if (t->kind != RUT_T_TUPLE && t->kind != RUT_T_RECORD) {
		add_label(s, NULL, -1, t, key, out);
		return;
	}
	for (uint32_t i = 0; i < t->nfields; i++)
		add_label(s, t->kind == RUT_T_RECORD ? t->fields[i].name : NULL,
			  t->kind == RUT_T_RECORD ? -1 : (int)i, t->fields[i].type,
			  key + t->fields[i].offset, out);
}

enum family { COUNTER, SUMMARY, HISTOGRAM, GAUGE, INFO };

static enum family family_of(const struct rut_type *t)
{
	switch (t->kind) {
	case RUT_T_COUNT:
		return COUNTER;
	case RUT_T_SUM:
		return t->is_signed ? GAUGE : COUNTER;
	case RUT_T_AVG:
	case RUT_T_STATS:
		return SUMMARY;
	case RUT_T_HIST:
	case RUT_T_LHIST:
		return HISTOGRAM;
	case RUT_T_INT:
	case RUT_T_BOOL:
	case RUT_T_ENUM:
	case RUT_T_POINTER:
	case RUT_T_MIN:
	case RUT_T_MAX:
	case RUT_T_TSERIES:
	case RUT_T_DURATION:
		return GAUGE;
	default:
		return INFO;
	}
}

static void begin_sample(const struct rut_script_map *m, const char *suffix,
			 const struct rut_buf *labels, struct rut_buf *out)
{
	add_family(m, out);
	rut_buf_puts(out, suffix);
	if (labels->len)
		rut_buf_printf(out, "{%s}", labels->data);
	rut_buf_putc(out, ' ');
}

static void add_number(struct rut_buf *out, bool is_signed, uint64_t n)
{
	rut_buf_printf(out, is_signed ? "%" PRId64 "\n" : "%" PRIu64 "\n", n);
}

struct buckets {
	const struct rut_script_map *map;
	const struct rut_buf *labels;
	struct rut_buf *out;
	uint64_t total;
};

static void add_bucket(void *arg, int64_t low, int64_t high, bool above, uint64_t count)
{
	struct buckets *b = arg;

	b->total += count;
	if (above)
		return;
	add_family(b->map, b->out);
	rut_buf_printf(b->out, "_bucket{%s%sle=\"%" PRId64 "\"} %" PRIu64 "\n",
		       b->labels->data ? b->labels->data : "", b->labels->len ? "," : "", high,
		       b->total);
}

static void add_histogram(const struct rut_script_map *m, const uint64_t *words,
			  const struct rut_buf *labels, struct rut_buf *out)
{
	struct buckets b = {m, labels, out, 0};

	rut_script_hist_each(m->value, words, add_bucket, &b);
	add_family(m, out);
	rut_buf_printf(out, "_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n",
		       labels->data ? labels->data : "", labels->len ? "," : "", b.total);
	begin_sample(m, "_count", labels, out);
	add_number(out, false, b.total);
}

static void add_info(const struct rut_script_style *s, const struct rut_script_map *m,
		     const void *value, struct rut_buf *labels, struct rut_buf *out)
{
	add_label(s, "value", -1, m->value, value, labels);
	begin_sample(m, "_info", labels, out);
	rut_buf_puts(out, "1\n");
}

static uint64_t gauge_of(const struct rut_type *t, const uint8_t *value)
{
	int64_t n = 0;

	if (t->kind == RUT_T_TSERIES)
		return (uint64_t)rut_script_tseries_latest(t, (const uint64_t *)value);
	rut_script_value_number(t, value, &n);
	return (uint64_t)n;
}

static void add_row(const struct rut_script_style *s, const struct rut_script_map *m,
		    const struct rut_script_row *row, struct rut_buf *out)
{
	const uint64_t *words = (const uint64_t *)row->value;
	_cleanup_buf_ struct rut_buf labels = RUT_BUF_INIT;
	const struct rut_type *t = m->value;

	add_labels(s, m, row->key, &labels);
	switch (family_of(t)) {
	case COUNTER:
		begin_sample(m, "_total", &labels, out);
		add_number(out, false, words[0]);
		break;
	case SUMMARY:
		begin_sample(m, "_count", &labels, out);
		add_number(out, false, words[1]);
		begin_sample(m, "_sum", &labels, out);
		add_number(out, t->is_signed, words[0]);
		break;
	case HISTOGRAM:
		add_histogram(m, words, &labels, out);
		break;
	case GAUGE:
		begin_sample(m, "", &labels, out);
		add_number(out, t->is_signed || t->kind == RUT_T_DURATION, gauge_of(t, row->value));
		break;
	case INFO:
		add_info(s, m, row->value, &labels, out);
		break;
	}
}

void rut_script_metrics_map(const struct rut_script_style *s, const struct rut_script_map *m,
			    const struct rut_script_rows *rows, struct rut_buf *out)
{
	static const char *const types[] = {
		[COUNTER] = "counter", [SUMMARY] = "summary", [HISTOGRAM] = "histogram",
		[GAUGE] = "gauge",     [INFO] = "info",
	};

	rut_buf_puts(out, "# TYPE ");
	add_family(m, out);
	rut_buf_printf(out, " %s\n", types[family_of(m->value)]);
	for (size_t i = 0; i < rows->count; i++)
		add_row(s, m, &rows->rows[i], out);
}

int rut_script_metrics_text(const struct rut_script_style *s, const struct rut_script_map *maps,
			    size_t nmaps, struct rut_buf *out)
{
	for (size_t i = 0; i < nmaps; i++) {
		struct rut_script_rows rows;

		if (rut_script_rows_read(&rows, &maps[i], NULL))
			continue;
		rut_script_metrics_map(s, &maps[i], &rows, out);
		rut_script_rows_fini(&rows);
	}
	rut_buf_puts(out, "# EOF\n");
	return out->failed ? -ENOMEM : 0;
}
