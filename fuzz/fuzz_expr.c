/* SPDX-License-Identifier: MIT */
/*
 * Expressions, definitions of periods, captures and files of them. What parses is bound to a class,
 * run on an event, printed, and parses again.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "expr/period.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int find(const void *cls, enum rut_expr_scope scope, const char *path,
		struct rut_expr_field *ret)
{
	(void)cls;
	ret->bytes[0] = (unsigned char)path[0];
	return scope == RUT_EXPR_PKT_HEADER || path[0] == 'z' ? -ENOENT : 0;
}

static bool load(const void *event, const struct rut_expr_field *field, struct rut_expr_val *ret)
{
	(void)event;
	switch (field->bytes[0] % 5) {
	case 0:
		*ret = (struct rut_expr_val){RUT_EXPR_INT, 0, {.i = -7}};
		return true;
	case 1:
		*ret = (struct rut_expr_val){RUT_EXPR_UINT, 0, {.u = UINT64_MAX}};
		return true;
	case 2:
		*ret = (struct rut_expr_val){RUT_EXPR_FLOAT, 0, {.f = 0.5}};
		return true;
	case 3:
		*ret = (struct rut_expr_val){RUT_EXPR_STR, 5, {.s = "hello"}};
		return true;
	default:
		return false;
	}
}

static const char *class_name(const void *cls)
{
	return cls;
}

static uint64_t timestamp_ns(const void *event)
{
	(void)event;
	return 12345;
}

static const struct rut_expr_ops ops = {find, load, class_name, timestamp_ns};

/* Gives a copy of the result in words: strings are the event's or the expression's. */
static bool run(const struct rut_expr *e, const struct rut_expr_frame *frame, struct rut_buf *ret)
{
	struct rut_expr_prog *p;
	struct rut_expr_val v = {0};

	if (rut_expr_bind(e, &ops, "syscall_entry_read", &p))
		return false;
	(void)rut_expr_match(p, &v, frame);
	rut_expr_value(p, &v, frame, &v);
	rut_buf_printf(ret, "%d ", v.type);
	if (v.type == RUT_EXPR_STR)
		rut_buf_add(ret, v.s, v.len);
	else if (v.type == RUT_EXPR_FLOAT)
		rut_buf_printf(ret, "%.17g", v.f);
	else
		rut_buf_printf(ret, "%llx", (unsigned long long)v.u);
	rut_expr_prog_free(p);
	return true;
}

static void one_expression(const char *text, size_t size)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_buf b = RUT_BUF_INIT, first = RUT_BUF_INIT, second = RUT_BUF_INIT;
	struct rut_expr *e, *again;
	size_t column;

	if (rut_expr_parse(text, size, RUT_EXPR_FILTER | RUT_EXPR_VALUE, &e, &column, &err)) {
		if (column > size + 1)
			abort();
		return;
	}
	run(e, NULL, &first);
	rut_expr_print(e, &b);
	/* Full parentheses nest deeper than the text did: only that may stand in the way. */
	if (rut_expr_parse(b.data, b.len, RUT_EXPR_FILTER | RUT_EXPR_VALUE, &again, &column,
			   &err)) {
		if (!strstr(err.msg, "deep") && !strstr(err.msg, "long"))
			abort();
	} else {
		/* Only a program that grew too big may differ, and parentheses add no code. */
		run(again, NULL, &second);
		if (first.len != second.len ||
		    (first.len && memcmp(first.data, second.data, first.len) != 0))
			abort();
		rut_expr_free(again);
	}
	rut_buf_fini(&b);
	rut_buf_fini(&first);
	rut_buf_fini(&second);
	rut_expr_free(e);
}

static void periods(const char *text)
{
	struct rut_period_set s = {0};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_expr_val none[64] = {{0}};
	struct rut_expr_frame frames[40];
	struct rut_buf b = RUT_BUF_INIT;

	(void)rut_period_set_parse(&s, text, "fuzz", &err);
	(void)rut_period_set_add(&s, text, NULL, &err);
	(void)rut_period_set_capture(&s, text, NULL, &err);
	for (int i = 0; i < 40; i++)
		frames[i] = (struct rut_expr_frame){none, i < 39 ? &frames[i + 1] : NULL};
	if (!rut_period_set_link(&s, &err)) {
		for (size_t i = 0; i < s.n; i++) {
			bool small = true;

			for (const struct rut_period_def *d = s.defs[i]; d; d = d->parent)
				small = small && d->layout.count <= 64;
			if (small) {
				run(s.defs[i]->begin, &frames[0], &b);
				run(s.defs[i]->end, &frames[0], &b);
			}
		}
	}
	rut_buf_fini(&b);
	rut_period_set_fini(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	one_expression((const char *)data, size);
	text = malloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	periods(text);
	free(text);
	return 0;
}
