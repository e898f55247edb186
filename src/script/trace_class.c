/* SPDX-License-Identifier: MIT */
#include "script/trace_class.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ring/tsdl.h"
#include "script/format.h"
#include "script/hist.h"
#include "script/script.h"

enum { FIELDS_MAX = 64, IDS_MAX = 65535 };

struct class
{
	char *title, *fields; /* owned; fields: TSDL */
};

struct rut_script_classes {
	const struct rut_script_program *p; /* borrowed */
	struct class *list;		    /* owned */
	size_t count;
	uint32_t *of_action; /* by action; owned */
	uint32_t *of_map;    /* by map; owned */
};

void rut_script_classes_free(struct rut_script_classes *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->count; i++) {
		free(c->list[i].title);
		free(c->list[i].fields);
	}
	free(c->list);
	free(c->of_action);
	free(c->of_map);
	free(c);
}

/* ---- Fields ---- */

/* All that is no number is written as its text. */
static bool is_integer(const struct rut_type *t)
{
	return t->kind == RUT_T_INT || t->kind == RUT_T_BOOL || t->kind == RUT_T_POINTER;
}

/* Names have an underscore before them, so that none is a word of TSDL; readers drop it. */
static void describe_field(const struct rut_type *t, const char *name, size_t len,
			   struct rut_buf *out)
{
	if (is_integer(t))
		rut_buf_printf(out, "\t\t%s%u_t _%.*s;\n",
			       t->kind == RUT_T_POINTER ? "xint"
			       : t->is_signed		? "int"
							: "uint",
			       t->size * 8, (int)len, name);
	else
		rut_buf_printf(out, "\t\tstring _%.*s;\n", (int)len, name);
}

static void put_text(const char *text, size_t len, struct rut_buf *out)
{
	/* A zero would end it. */
	for (size_t i = 0; i < len; i++)
		rut_buf_putc(out, text[i] ? text[i] : ' ');
	rut_buf_putc(out, '\0');
}

static void put_value(const struct rut_script_style *s, const struct rut_type *t, const void *value,
		      enum rut_script_place place, struct rut_buf *out)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	if (is_integer(t)) {
		rut_buf_add(out, value, t->size);
		return;
	}
	rut_script_value_text(s, t, value, place, &text);
	put_text(text.data ? text.data : "", text.len, out);
	out->failed |= text.failed;
}

void rut_script_class_put_text(const char *text, size_t len, struct rut_buf *out)
{
	put_text(text, len, out);
}

/* ---- Actions ---- */

static bool has_class(const struct rut_script_action *a)
{
	return (a->kind == RUT_ACTION_PRINTF || a->kind == RUT_ACTION_RECORD) && a->parsed &&
	       a->args;
}

/* "open pid=%d": the words before the first name, without what separates them from it. */
static char *title_of(const char *format, size_t len)
{
	_cleanup_buf_ struct rut_buf title = RUT_BUF_INIT;

	while (len && strchr(" \t\n:,;-(", format[len - 1]))
		len--;
	while (len && strchr(" \t\n", *format)) {
		format++;
		len--;
	}
	rut_buf_puts(&title, "script:");
	for (size_t i = 0; i < len; i++)
		rut_buf_putc(&title, (unsigned char)format[i] < ' ' || strchr("\"\\%", format[i])
					     ? '_'
					     : format[i]);
	if (!len)
		rut_buf_puts(&title, "printf");
	return title.failed ? NULL : rut_buf_take(&title);
}

static bool is_taken(const struct rut_script_format_name *names, const char *format, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (names[k].len == names[i].len &&
		    !memcmp(format + names[k].at, format + names[i].at, names[i].len))
			return true;
	return false;
}

static bool is_name(const struct rut_script_action *a, const struct rut_script_format_name *names,
		    const char *name)
{
	size_t len = strlen(name);

	for (uint32_t i = 0; i < a->args->nfields; i++)
		if (names[i].len == len && !memcmp(a->format + names[i].at, name, len))
			return true;
	return false;
}

/*
 * Values without a name, and second ones of a name, are known by their number; where another value
 * has that name, by one behind all of them.
 */
static void describe_action(const struct rut_script_action *a,
			    const struct rut_script_format_name *names, struct rut_buf *out)
{
	uint32_t free_number = a->args->nfields;

	for (uint32_t i = 0; i < a->args->nfields; i++) {
		char number[16];

		snprintf(number, sizeof(number), "arg%u", i);
		while (is_name(a, names, number))
			snprintf(number, sizeof(number), "arg%u", free_number++);
		if (names[i].len && !is_taken(names, a->format, i))
			describe_field(a->args->fields[i].type, a->format + names[i].at,
				       names[i].len, out);
		else
			describe_field(a->args->fields[i].type, number, strlen(number), out);
	}
}

void rut_script_class_put(const struct rut_script_style *s, const struct rut_script_action *a,
			  const void *data, struct rut_buf *out)
{
	for (uint32_t i = 0; i < a->args->nfields; i++) {
		const struct rut_type_field *f = &a->args->fields[i];

		put_value(s, f->type, (const char *)data + f->offset, RUT_SCRIPT_IN_PRINTF, out);
	}
}

/* ---- Maps ---- */

static bool is_histogram(const struct rut_type *t)
{
	return t->kind == RUT_T_HIST || t->kind == RUT_T_LHIST;
}

static bool is_average(const struct rut_type *t)
{
	return t->kind == RUT_T_AVG || t->kind == RUT_T_STATS;
}

static bool is_number(const struct rut_type *t)
{
	return is_integer(t) || t->kind == RUT_T_COUNT || t->kind == RUT_T_SUM ||
	       t->kind == RUT_T_MIN || t->kind == RUT_T_MAX;
}

static void describe_map(const struct rut_script_map *m, struct rut_buf *out)
{
	const struct rut_type *k = m->key, *v = m->value;
	const char *number = v->is_signed ? "int64_t" : "uint64_t";

	for (uint32_t i = 0; k && k->kind == RUT_T_TUPLE && i < k->nfields; i++) {
		char name[16];

		snprintf(name, sizeof(name), "key%u", i);
		describe_field(k->fields[i].type, name, strlen(name), out);
	}
	if (k && k->kind != RUT_T_TUPLE)
		describe_field(k, "key", 3, out);
	if (is_histogram(v))
		rut_buf_puts(out, "\t\tint64_t _low;\n\t\tint64_t _high;\n\t\tuint64_t _count;\n");
	else if (is_average(v))
		rut_buf_printf(out, "\t\t%s _average;\n\t\tuint64_t _count;\n\t\t%s _total;\n",
			       number, number);
	else if (is_number(v))
		rut_buf_printf(out, "\t\t%s _value;\n", number);
	else
		rut_buf_puts(out, "\t\tstring _value;\n");
}

static void put_key(const struct rut_script_style *s, const struct rut_type *k, const uint8_t *key,
		    struct rut_buf *out)
{
	for (uint32_t i = 0; k && k->kind == RUT_T_TUPLE && i < k->nfields; i++)
		put_value(s, k->fields[i].type, key + k->fields[i].offset, RUT_SCRIPT_IN_KEY, out);
	if (k && k->kind != RUT_T_TUPLE)
		put_value(s, k, key, RUT_SCRIPT_IN_KEY, out);
}

struct slots {
	const struct rut_script_style *style;
	const struct rut_script_map *map;
	const struct rut_script_row *row;
	struct rut_buf *out;
	void (*fn)(void *arg);
	void *arg;
};

/* The last slot has no end: as far as numbers go. */
static void put_slot(void *arg, int64_t low, int64_t high, bool above, uint64_t count)
{
	const struct slots *x = arg;

	if (!count)
		return;
	high = above ? INT64_MAX : high;
	put_key(x->style, x->map->key, x->row->key, x->out);
	rut_buf_add(x->out, &low, sizeof(low));
	rut_buf_add(x->out, &high, sizeof(high));
	rut_buf_add(x->out, &count, sizeof(count));
	x->fn(x->arg);
}

void rut_script_class_put_row(const struct rut_script_style *s, const struct rut_script_map *m,
			      const struct rut_script_row *row, struct rut_buf *out,
			      void (*fn)(void *arg), void *arg)
{
	const uint64_t *words = (const uint64_t *)(const void *)row->value;
	const struct rut_type *t = m->value;
	int64_t number = 0;

	if (is_histogram(t)) {
		rut_script_hist_each(t, words, put_slot, &(struct slots){s, m, row, out, fn, arg});
		return;
	}
	put_key(s, m->key, row->key, out);
	if (is_average(t)) {
		number = rut_script_average(t, words);
		rut_buf_add(out, &number, sizeof(number));
		rut_buf_add(out, &words[1], sizeof(words[1]));
		rut_buf_add(out, &words[0], sizeof(words[0]));
	} else if (is_number(t)) {
		rut_script_value_number(t, row->value, &number);
		rut_buf_add(out, &number, sizeof(number));
	} else if (t->kind == RUT_T_TSERIES) {
		_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

		rut_script_tseries_text(s, t, words, rut_script_tseries_last(t, words), &text);
		put_text(text.data ? text.data : "", text.len, out);
	} else {
		put_value(s, t, row->value, RUT_SCRIPT_IN_VALUE, out);
	}
	fn(arg);
}

/* ---- Classes ---- */

/*
 * The class of that title and these fields, which are taken; a second class of a title has a number
 * behind it. -ENOMEM, or its number; without number when there is no room for more.
 */
static int64_t add_class(struct rut_script_classes *c, char *title, char *fields)
{
	_cleanup_free_ char *plain = title, *own_fields = fields;
	_cleanup_buf_ struct rut_buf name = RUT_BUF_INIT;
	struct class *list;

	if (!plain || !own_fields)
		return -ENOMEM;
	rut_buf_puts(&name, plain);
	for (unsigned n = 2, i = 0; !name.failed && i < c->count; i++) {
		if (strcmp(c->list[i].title, name.data) != 0)
			continue;
		if (!strcmp(c->list[i].fields, own_fields))
			return i;
		rut_buf_clear(&name);
		rut_buf_printf(&name, "%s#%u", plain, n++);
		i = 0;
	}
	if (c->count == IDS_MAX)
		return RUT_SCRIPT_CLASS_PRINT;
	list = reallocarray(c->list, c->count + 1, sizeof(*list));
	if (!list || name.failed)
		return -ENOMEM;
	c->list = list;
	list[c->count] = (struct class){rut_buf_take(&name), RUT_TAKE(own_fields)};
	return (int64_t)c->count++;
}

static int add_action(struct rut_script_classes *c, size_t i)
{
	const struct rut_script_action *a = &c->p->actions[i];
	struct rut_script_format_name names[FIELDS_MAX];
	struct rut_buf fields = RUT_BUF_INIT;
	size_t title = 0;
	int64_t id;

	if (!has_class(a) || a->args->nfields > FIELDS_MAX ||
	    !rut_script_format_names(a->parsed, names, FIELDS_MAX, &title))
		return 0;
	describe_action(a, names, &fields);
	id = add_class(c, title_of(a->format, title), rut_buf_take(&fields));
	if (id < 0)
		return (int)id;
	c->of_action[i] = (uint32_t)id;
	return 0;
}

static int add_map(struct rut_script_classes *c, size_t i)
{
	const struct rut_script_map *m = &c->p->maps[i];
	struct rut_buf title = RUT_BUF_INIT, fields = RUT_BUF_INIT;
	int64_t id;

	if (!m->value)
		return 0;
	rut_buf_printf(&title, "script:%s", m->name);
	describe_map(m, &fields);
	id = add_class(c, rut_buf_take(&title), rut_buf_take(&fields));
	if (id < 0)
		return (int)id;
	c->of_map[i] = (uint32_t)id;
	return 0;
}

int rut_script_classes_new(struct rut_script_classes **ret, const struct rut_script_program *p)
{
	struct rut_script_classes *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	c->p = p;
	c->of_action = calloc(p->nactions + 1, sizeof(*c->of_action));
	c->of_map = calloc(p->nmaps + 1, sizeof(*c->of_map));
	rc = c->of_action && c->of_map ? 0 : -ENOMEM;
	if (!rc && add_class(c, strdup("script:print"), strdup("\t\tstring _text;\n")) < 0)
		rc = -ENOMEM;
	for (size_t i = 0; i < p->nmaps && !rc; i++)
		rc = add_map(c, i);
	for (size_t i = 0; i < p->nactions && !rc; i++)
		rc = add_action(c, i);
	if (rc) {
		rut_script_classes_free(c);
		return rc;
	}
	*ret = c;
	return 0;
}

uint32_t rut_script_class_of(const struct rut_script_classes *c, const struct rut_script_action *a)
{
	return c->of_action[a - c->p->actions];
}

uint32_t rut_script_class_of_map(const struct rut_script_classes *c, const struct rut_script_map *m)
{
	return c->of_map[m - c->p->maps];
}

void rut_script_classes_describe(const struct rut_script_classes *c, const uint8_t uuid[16],
				 int64_t clock_offset_ns, struct rut_buf *out)
{
	rut_buf_puts(out, "/* CTF 1.8 */\n\n" RUT_TSDL_INTEGERS
			  "typealias integer { size = 64; align = 8; signed = false; base = 16; } "
			  ":= xint64_t;\n\n");
	rut_tsdl_trace(out, uuid);
	rut_buf_printf(out,
		       "env {\n\tdomain = \"script\";\n\ttracer_name = \"rutile\";\n};\n\n"
		       "clock {\n\tname = \"monotonic\";\n\tfreq = 1000000000;\n\tabsolute = "
		       "TRUE;\n\toffset = %" PRId64 ";\n};\n\n",
		       clock_offset_ns);
	rut_buf_puts(out, RUT_TSDL_PACKETS("_pid", "0") "};\n\n");
	for (size_t i = 0; i < c->count; i++)
		rut_buf_printf(out,
			       "event {\n\tname = \"%s\";\n\tid = %zu;\n\tstream_id = 0;\n"
			       "\tfields := struct {\n%s\t};\n};\n\n",
			       c->list[i].title, i, c->list[i].fields);
}
