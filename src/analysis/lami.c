/* SPDX-License-Identifier: MIT */
/* Result tables and their JSON. */
#include "analysis/lami.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* ---- Strings of a table: chunks, freed together ---- */

struct rut_table_arena {
	struct rut_table_arena *next;
	size_t used, size;
	char data[];
};

static char *arena_alloc(struct rut_result *t, size_t len)
{
	struct rut_table_arena *a = t->arena;
	size_t size;

	if (!a || a->size - a->used < len) {
		size = len > 4096 ? len : 4096;
		a = malloc(sizeof(*a) + size);
		if (!a) {
			t->failed = true;
			return NULL;
		}
		*a = (struct rut_table_arena){.next = t->arena, .size = size};
		t->arena = a;
	}
	a->used += len;
	return a->data + a->used - len;
}

const char *rut_an_result_str(struct rut_result *t, const char *s)
{
	size_t len = s ? strlen(s) + 1 : 0;
	char *copy = s ? arena_alloc(t, len) : NULL;

	return copy ? memcpy(copy, s, len) : NULL;
}

const char *rut_an_result_strf(struct rut_result *t, const char *fmt, ...)
{
	char buf[512], *copy;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n < sizeof(buf))
		return rut_an_result_str(t, n < 0 ? "" : buf);
	copy = arena_alloc(t, (size_t)n + 1);
	if (!copy)
		return NULL;
	va_start(ap, fmt);
	vsnprintf(copy, (size_t)n + 1, fmt, ap);
	va_end(ap);
	return copy;
}

/* ---- Tables ---- */

struct rut_result *rut_an_result_new(const struct rut_lami_class *cls, int64_t begin_ns,
				     int64_t end_ns, const char *subtitle)
{
	struct rut_result *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->cls = cls;
	t->begin_ns = begin_ns;
	t->end_ns = end_ns;
	t->subtitle = subtitle ? strdup(subtitle) : NULL;
	if (subtitle && !t->subtitle) {
		free(t);
		return NULL;
	}
	return t;
}

void rut_an_result_free(struct rut_result *t)
{
	if (!t)
		return;
	for (struct rut_table_arena *a = t->arena, *next; a; a = next) {
		next = a->next;
		free(a);
	}
	free(t->cells);
	free(t->subtitle);
	free(t->owned_cls);
	free(t);
}

void rut_an_result_add(struct rut_result *t, struct rut_cell c)
{
	if (t->n_cells == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 64;
		void *cells = realloc(t->cells, cap * sizeof(*t->cells));

		if (!cells) {
			t->failed = true;
			return;
		}
		t->cells = cells;
		t->cap = cap;
	}
	t->cells[t->n_cells++] = c;
}

void rut_an_result_copy(struct rut_result *t, const struct rut_cell *c)
{
	struct rut_cell copy = *c;

	copy.str = rut_an_result_str(t, c->str);
	rut_an_result_add(t, copy);
}

void rut_an_result_int(struct rut_result *t, enum rut_lami_type type, int64_t v)
{
	rut_an_result_add(t, (struct rut_cell){.type = (uint8_t)type, .i = v});
}

void rut_an_result_float(struct rut_result *t, enum rut_lami_type type, double v)
{
	rut_an_result_add(t, (struct rut_cell){.type = (uint8_t)type, .is_float = true, .f = v});
}

void rut_an_result_text(struct rut_result *t, enum rut_lami_type type, const char *s)
{
	rut_an_result_add(t,
			  (struct rut_cell){.type = (uint8_t)type, .str = rut_an_result_str(t, s)});
}

void rut_an_result_process(struct rut_result *t, const char *name, int64_t pid, int64_t tid)
{
	if (tid < 0) /* of a group of threads */
		tid = RUT_LAMI_NONE;
	rut_an_result_add(t, (struct rut_cell){.type = RUT_LAMI_PROCESS,
					       .i = pid,
					       .j = tid,
					       .str = rut_an_result_str(t, name)});
}

void rut_an_result_range(struct rut_result *t, int64_t begin_ns, int64_t end_ns)
{
	rut_an_result_add(
		t, (struct rut_cell){.type = RUT_LAMI_TIME_RANGE, .i = begin_ns, .j = end_ns});
}

void rut_an_result_irq(struct rut_result *t, bool hard, int64_t nr, const char *name)
{
	rut_an_result_add(t, (struct rut_cell){.type = RUT_LAMI_IRQ,
					       .hard = hard,
					       .i = nr,
					       .str = rut_an_result_str(t, name)});
}

void rut_an_result_bool(struct rut_result *t, bool v)
{
	rut_an_result_add(t, (struct rut_cell){.type = RUT_LAMI_BOOL, .hard = v});
}

void rut_an_result_empty(struct rut_result *t)
{
	rut_an_result_add(t, (struct rut_cell){.type = RUT_LAMI_EMPTY});
}

void rut_an_result_unknown(struct rut_result *t)
{
	rut_an_result_add(t, (struct rut_cell){.type = RUT_LAMI_UNKNOWN});
}

double rut_an_cell_value(const struct rut_cell *c)
{
	return c->is_float ? c->f : (double)c->i;
}

/* ---- JSON ---- */

/* One UTF-8 sequence; returns its length, 0 when it is not one. */
static size_t utf8(const unsigned char *s, uint32_t *ret)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = *s < 0x80		     ? 1
		   : *s >= 0xf0 && *s < 0xf8 ? 4
		   : *s >= 0xe0 && *s < 0xf0 ? 3
		   : *s >= 0xc0 && *s < 0xe0 ? 2
					     : 0;

	if (n < 2) {
		*ret = *s;
		return n;
	}
	*ret = *s & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*ret = *ret << 6 | (s[i] & 0x3f);
	}
	if (*ret < least[n] || *ret > 0x10ffff || (*ret >= 0xd800 && *ret < 0xe000))
		return 0;
	return n;
}

static void json_escape(struct rut_buf *out, uint32_t c)
{
	switch (c) {
	case '"':
		rut_buf_puts(out, "\\\"");
		break;
	case '\\':
		rut_buf_puts(out, "\\\\");
		break;
	case '\n':
		rut_buf_puts(out, "\\n");
		break;
	case '\r':
		rut_buf_puts(out, "\\r");
		break;
	case '\t':
		rut_buf_puts(out, "\\t");
		break;
	case '\b':
		rut_buf_puts(out, "\\b");
		break;
	case '\f':
		rut_buf_puts(out, "\\f");
		break;
	default:
		if (c >= 0x10000)
			rut_buf_printf(out, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10),
				       0xdc00 + (c & 0x3ff));
		else if (c < ' ' || c > '~')
			rut_buf_printf(out, "\\u%04x", c);
		else
			rut_buf_putc(out, (char)c);
	}
}

void rut_an_json_str(struct rut_buf *out, const char *s)
{
	const unsigned char *p = (const unsigned char *)s;

	rut_buf_putc(out, '"');
	while (*p) {
		uint32_t c;
		size_t n = utf8(p, &c);

		if (!n) {
			c = 0xdc00u + *p;
			n = 1;
		}
		json_escape(out, c);
		p += n;
	}
	rut_buf_putc(out, '"');
}

void rut_an_json_float(struct rut_buf *out, double v)
{
	char buf[40];
	int exponent, precision;
	char *e;

	if (!isfinite(v)) {
		rut_buf_puts(out, isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity");
		return;
	}
	for (precision = 1; precision < 17; precision++) {
		snprintf(buf, sizeof(buf), "%.*e", precision - 1, v);
		if (strtod(buf, NULL) == v)
			break;
	}
	snprintf(buf, sizeof(buf), "%.*e", precision - 1, v);
	e = strchr(buf, 'e');
	exponent = atoi(e + 1);
	if (exponent >= -4 && exponent < 16) {
		rut_buf_printf(out, "%.*f", precision - 1 > exponent ? precision - 1 - exponent : 1,
			       v);
		return;
	}
	rut_buf_printf(out, "%.*se%c%02d", (int)(e - buf), buf, exponent < 0 ? '-' : '+',
		       abs(exponent));
}

static const char *const type_names[] = {
	[RUT_LAMI_UNKNOWN] = "unknown",
	[RUT_LAMI_BOOL] = "bool",
	[RUT_LAMI_NUMBER] = "number",
	[RUT_LAMI_STRING] = "string",
	[RUT_LAMI_RATIO] = "ratio",
	[RUT_LAMI_TIMESTAMP] = "timestamp",
	[RUT_LAMI_DURATION] = "duration",
	[RUT_LAMI_SIZE] = "size",
	[RUT_LAMI_TIME_RANGE] = "time-range",
	[RUT_LAMI_SYSCALL] = "syscall",
	[RUT_LAMI_PROCESS] = "process",
	[RUT_LAMI_PATH] = "path",
	[RUT_LAMI_FD] = "fd",
	[RUT_LAMI_IRQ] = "irq",
	[RUT_LAMI_CPU] = "cpu",
	[RUT_LAMI_DISK] = "disk",
	[RUT_LAMI_NETIF] = "netif",
};

static void json_range(struct rut_buf *out, int64_t begin_ns, int64_t end_ns)
{
	rut_buf_printf(out,
		       "{\"class\": \"time-range\", \"begin\": {\"class\": \"timestamp\", "
		       "\"value\": %lld}, \"end\": {\"class\": \"timestamp\", \"value\": %lld}}",
		       (long long)begin_ns, (long long)end_ns);
}

static void json_process(struct rut_buf *out, const struct rut_cell *c)
{
	rut_buf_puts(out, "{\"class\": \"process\"");
	if (c->str) {
		rut_buf_puts(out, ", \"name\": ");
		rut_an_json_str(out, c->str);
	}
	if (c->i != RUT_LAMI_NONE)
		rut_buf_printf(out, ", \"pid\": %lld", (long long)c->i);
	if (c->j != RUT_LAMI_NONE)
		rut_buf_printf(out, ", \"tid\": %lld", (long long)c->j);
	rut_buf_putc(out, '}');
}

static void json_keyed(struct rut_buf *out, const struct rut_cell *c, const char *key)
{
	rut_buf_printf(out, "{\"class\": \"%s\", \"%s\": ", type_names[c->type], key);
	if (c->str)
		rut_an_json_str(out, c->str);
	else if (c->is_float)
		rut_an_json_float(out, c->f);
	else
		rut_buf_printf(out, "%lld", (long long)c->i);
	rut_buf_putc(out, '}');
}

static void json_cell(struct rut_buf *out, const struct rut_cell *c)
{
	switch (c->type) {
	case RUT_LAMI_EMPTY:
		rut_buf_puts(out, "null");
		break;
	case RUT_LAMI_UNKNOWN:
		rut_buf_puts(out, "{\"class\": \"unknown\"}");
		break;
	case RUT_LAMI_BOOL:
		rut_buf_printf(out, "{\"class\": \"bool\", \"value\": %s}",
			       c->j	 ? "null"
			       : c->hard ? "true"
					 : "false");
		break;
	case RUT_LAMI_TIME_RANGE:
		json_range(out, c->i, c->j);
		break;
	case RUT_LAMI_PROCESS:
		json_process(out, c);
		break;
	case RUT_LAMI_IRQ:
		rut_buf_printf(out, "{\"class\": \"irq\", \"hard\": %s, \"nr\": %lld, \"name\": ",
			       c->hard ? "true" : "false", (long long)c->i);
		rut_an_json_str(out, c->str ? c->str : "");
		rut_buf_putc(out, '}');
		break;
	case RUT_LAMI_SYSCALL:
	case RUT_LAMI_DISK:
	case RUT_LAMI_NETIF:
		json_keyed(out, c, "name");
		break;
	case RUT_LAMI_PATH:
		json_keyed(out, c, "path");
		break;
	case RUT_LAMI_FD:
		json_keyed(out, c, "fd");
		break;
	case RUT_LAMI_CPU:
		json_keyed(out, c, "id");
		break;
	default:
		if (!c->is_float && !c->str && c->i == RUT_LAMI_NONE)
			rut_buf_printf(out, "{\"class\": \"%s\"}", type_names[c->type]);
		else
			json_keyed(out, c, "value");
	}
}

static void json_columns(struct rut_buf *out, const struct rut_lami_class *cls)
{
	rut_buf_puts(out, "\"column-descriptions\": [");
	for (size_t i = 0; i < cls->n_columns; i++) {
		const struct rut_lami_column *c = &cls->columns[i];

		rut_buf_printf(out, "%s{\"title\": ", i ? ", " : "");
		rut_an_json_str(out, c->title);
		rut_buf_printf(out, ", \"class\": \"%s\"", type_names[c->type]);
		if (c->unit) {
			rut_buf_puts(out, ", \"unit\": ");
			rut_an_json_str(out, c->unit);
		}
		rut_buf_putc(out, '}');
	}
	rut_buf_putc(out, ']');
}

static void json_class(struct rut_buf *out, const struct rut_result *t)
{
	if (!t->cls->name) {
		rut_buf_puts(out, "{\"title\": ");
		rut_an_json_str(out, t->cls->title);
		rut_buf_puts(out, ", ");
		json_columns(out, t->cls);
		rut_buf_putc(out, '}');
	} else if (t->subtitle) {
		struct rut_buf title = RUT_BUF_INIT;

		rut_buf_printf(&title, "%s [%s]", t->cls->title, t->subtitle);
		rut_buf_printf(out, "{\"inherit\": \"%s\", \"title\": ", t->cls->name);
		rut_an_json_str(out, title.data ? title.data : "");
		rut_buf_putc(out, '}');
		rut_buf_fini(&title);
	} else {
		rut_an_json_str(out, t->cls->name);
	}
}

enum { JSON_CHUNK = 1 << 16 };

static void json_table(struct rut_buf *out, const struct rut_result *t,
		       void (*flush)(struct rut_buf *out, void *arg), void *arg)
{
	size_t rows = rut_result_rows(t);

	rut_buf_puts(out, "{\"class\": ");
	json_class(out, t);
	rut_buf_puts(out, ", \"time-range\": ");
	json_range(out, t->begin_ns, t->end_ns);
	rut_buf_puts(out, ", \"data\": [");
	for (size_t i = 0; i < rows; i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		rut_buf_puts(out, i ? ", [" : "[");
		for (size_t k = 0; k < t->cls->n_columns; k++) {
			if (k)
				rut_buf_puts(out, ", ");
			json_cell(out, &row[k]);
		}
		rut_buf_putc(out, ']');
		if (out->len >= JSON_CHUNK)
			flush(out, arg);
	}
	rut_buf_puts(out, "]}");
}

/* ---- All tables of a run ---- */

void rut_an_results_clear(struct rut_results *r)
{
	for (size_t i = 0; i < r->n; i++)
		rut_an_result_free(r->tables[i]);
	r->n = 0;
}

void rut_an_results_fini(struct rut_results *r)
{
	rut_an_results_clear(r);
	free(r->tables);
	*r = (struct rut_results){0};
}

void rut_an_results_take(struct rut_results *r, struct rut_result *t)
{
	if (!t || !rut_result_rows(t)) {
		rut_an_result_free(t);
		return;
	}
	if (t->failed)
		r->failed = true;
	if (r->n == r->cap) {
		size_t cap = r->cap ? r->cap * 2 : 16;
		void *tables = realloc(r->tables, cap * sizeof(*r->tables));

		if (!tables) {
			r->failed = true;
			rut_an_result_free(t);
			return;
		}
		r->tables = tables;
		r->cap = cap;
	}
	r->tables[r->n++] = t;
}

void rut_an_results_summarise(struct rut_results *r, const struct rut_lami_class *from,
			      const struct rut_lami_class *summary)
{
	struct rut_result *t = NULL;

	for (size_t i = 0; i < r->n; i++) {
		const struct rut_result *table = r->tables[i];

		if (table->cls != from)
			continue;
		if (!t)
			t = rut_an_result_new(summary, table->begin_ns, table->end_ns, NULL);
		if (!t)
			break;
		t->end_ns = table->end_ns;
		for (size_t k = 0; k < table->n_cells; k++) {
			if (k % from->n_columns == 0)
				rut_an_result_range(t, table->begin_ns, table->end_ns);
			rut_an_result_copy(t, &table->cells[k]);
		}
	}
	rut_an_results_clear(r);
	rut_an_results_take(r, t);
}

static bool same_class(const struct rut_result *a, const struct rut_result *b)
{
	if (!a->cls->name || !b->cls->name)
		return !a->cls->name && !b->cls->name;
	return !strcmp(a->cls->name, b->cls->name);
}

void rut_an_results_json(struct rut_results *r, struct rut_buf *out,
			 void (*flush)(struct rut_buf *out, void *arg), void *arg)
{
	const char *between = "";

	rut_buf_puts(out, "{\"results\": [");
	for (size_t i = 0; i < r->n; i++) {
		struct rut_result *first = r->tables[i];

		for (size_t k = i; first && k < r->n; k++) {
			struct rut_result *t = r->tables[k];

			if (!t || !same_class(first, t))
				continue;
			rut_buf_puts(out, between);
			between = ", ";
			json_table(out, t, flush, arg);
			r->tables[k] = NULL;
			if (t != first)
				rut_an_result_free(t);
		}
		rut_an_result_free(first);
	}
	rut_buf_puts(out, "]}\n");
	rut_an_results_clear(r);
}

static void json_version(struct rut_buf *out, const char *version)
{
	int major = 0, minor = 0, patch = 0;

	(void)sscanf(version, "%d.%d.%d", &major, &minor, &patch);
	rut_buf_printf(out,
		       "\"version\": {\"major\": %d, \"minor\": %d, \"patch\": %d, \"extra\": "
		       "\"rutile\"}",
		       major, minor, patch);
}

void rut_an_lami_metadata(const struct rut_lami_info *info, const char *version,
			  struct rut_buf *out)
{
	rut_buf_puts(out, "{\"mi-version\": {\"major\": 1, \"minor\": 0}, ");
	json_version(out, version);
	rut_buf_puts(out, ", \"title\": ");
	rut_an_json_str(out, info->title);
	rut_buf_puts(out, ", \"description\": ");
	rut_an_json_str(out, info->description);
	rut_buf_puts(out, ", \"authors\": [\"rutile\"], \"url\": \"\", \"tags\": [");
	for (size_t i = 0; info->tags[i]; i++)
		rut_buf_printf(out, "%s\"%s\"", i ? ", " : "", info->tags[i]);
	rut_buf_puts(out, "], \"table-classes\": {");
	for (size_t i = 0; info->classes[i]; i++) {
		rut_buf_printf(out, "%s\"%s\": {\"title\": ", i ? ", " : "",
			       info->classes[i]->name);
		rut_an_json_str(out, info->classes[i]->title);
		rut_buf_puts(out, ", ");
		json_columns(out, info->classes[i]);
		rut_buf_putc(out, '}');
	}
	rut_buf_puts(out, "}}\n");
}
