/* SPDX-License-Identifier: MIT */
/* The expression language: triplets from a file, and what a file cannot say. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "expr/expr.h"

/* An event as the triplets write it: its own class, with fields in scopes. */
struct field {
	char scope[16], path[32];
	struct rut_expr_val val;
	char str[128];
};

struct event {
	char name[64];
	uint64_t ts;
	struct field fields[8];
	size_t n;
};

static int find(const void *cls, enum rut_expr_scope scope, const char *path,
		struct rut_expr_field *ret)
{
	static const char *const names[] = {"",	      "payload", "ctx",	      "stream_ctx",
					    "header", "pkt_ctx", "pkt_header"};
	const struct event *ev = cls;

	for (int s = 1; s < 7; s++) {
		if (scope != RUT_EXPR_AUTO && (int)scope != s)
			continue;
		for (size_t i = 0; i < ev->n; i++) {
			if (strcmp(ev->fields[i].scope, names[s]) == 0 &&
			    strcmp(ev->fields[i].path, path) == 0) {
				ret->bytes[0] = (unsigned char)i;
				return 0;
			}
		}
	}
	return -ENOENT;
}

static bool load(const void *event, const struct rut_expr_field *f, struct rut_expr_val *ret)
{
	*ret = ((const struct event *)event)->fields[f->bytes[0]].val;
	return true;
}

static const char *class_name(const void *cls)
{
	return ((const struct event *)cls)->name;
}

static uint64_t timestamp_ns(const void *event)
{
	return ((const struct event *)event)->ts;
}

static const struct rut_expr_ops ops = {find, load, class_name, timestamp_ns};

static void parse_value(const char *s, struct field *f)
{
	size_t n = 0;
	char *end;

	if (*s == '"') {
		for (s++; *s && *s != '"'; s++) {
			if (*s == '\\')
				s++;
			f->str[n++] = *s == 'n' && s[-1] == '\\' ? '\n' : *s;
		}
		f->val = (struct rut_expr_val){RUT_EXPR_STR, (uint32_t)n, {.s = f->str}};
		return;
	}
	if (strchr(s, '.')) {
		f->val = (struct rut_expr_val){RUT_EXPR_FLOAT, 0, {.f = strtod(s, NULL)}};
		return;
	}
	f->val = (struct rut_expr_val){RUT_EXPR_INT, 0, {.i = strtoll(s, &end, 10)}};
	if (*end == 'u')
		f->val = (struct rut_expr_val){RUT_EXPR_UINT, 0, {.u = strtoull(s, &end, 10)}};
}

/* "name @time scope:path=value ..."; values hold no spaces unless quoted. */
static void parse_event(char *text, struct event *ev)
{
	char *p = text;

	memset(ev, 0, sizeof(*ev));
	while (*p) {
		char *word = p, *eq, *colon;
		bool quoted = false;
		struct field *f;

		for (; *p && (*p != ' ' || quoted); p++) {
			if (*p == '\\')
				p++;
			else if (*p == '"')
				quoted = !quoted;
		}
		if (*p)
			*p++ = '\0';
		eq = strchr(word, '=');
		if (word == text) {
			snprintf(ev->name, sizeof(ev->name), "%s", word);
		} else if (*word == '@') {
			ev->ts = strtoull(word + 1, NULL, 10);
		} else if (eq) {
			f = &ev->fields[ev->n++];
			*eq = '\0';
			colon = strchr(word, ':');
			if (colon)
				*colon = '\0';
			snprintf(f->scope, sizeof(f->scope), "%s", colon ? word : "payload");
			snprintf(f->path, sizeof(f->path), "%s", colon ? colon + 1 : word);
			parse_value(eq + 1, f);
		}
	}
}

static void format_value(const struct rut_expr_val *v, char *out, size_t size)
{
	switch (v->type) {
	case RUT_EXPR_INT:
		snprintf(out, size, "%lld", (long long)v->i);
		break;
	case RUT_EXPR_UINT:
		snprintf(out, size, "%llu", (unsigned long long)v->u);
		break;
	case RUT_EXPR_FLOAT:
		snprintf(out, size, "%g", v->f);
		break;
	case RUT_EXPR_STR:
		snprintf(out, size, "\"%.*s\"", (int)v->len, v->s);
		break;
	default:
		snprintf(out, size, "none");
	}
}

/* Evaluates; the result is a value as text, or "error COLUMN: message". */
static void evaluate(const char *text, char *events, char *out, size_t size)
{
	struct event ev[6];
	struct rut_expr_val slots[6][16], v;
	struct rut_expr_frame frames[6];
	struct rut_expr_layout layouts[6] = {0}, *pl[6];
	struct rut_err err = RUT_ERR_INIT;
	struct rut_expr *e = NULL;
	struct rut_expr_prog *p = NULL;
	size_t n = 0, column = 0;

	for (char *at = events; at && n < 6; n++) {
		char *next = strstr(at, " <- ");

		if (next)
			*next = '\0';
		parse_event(at, &ev[n]);
		at = next ? next + 4 : NULL;
	}
	for (size_t i = 0; i < 6; i++)
		pl[i] = &layouts[i];
	if (rut_expr_parse(text, strlen(text), RUT_EXPR_VALUE, &e, &column, &err) ||
	    rut_expr_link(e, pl, n - 1, false, &column, &err)) {
		snprintf(out, size, "error %zu: %s", column, err.msg);
		rut_expr_free(e);
		return;
	}
	for (size_t i = 0; i + 1 < n; i++) {
		struct rut_expr_prog *lp;

		assert_int_equal(rut_expr_layout_bind(&layouts[i], &ops, &ev[i + 1], &lp), 0);
		rut_expr_layout_load(lp, &ev[i + 1], slots[i]);
		rut_expr_prog_free(lp);
		frames[i] = (struct rut_expr_frame){slots[i], i + 2 < n ? &frames[i + 1] : NULL};
	}
	assert_int_equal(rut_expr_bind(e, &ops, &ev[0], &p), 0);
	rut_expr_value(p, &ev[0], n > 1 ? &frames[0] : NULL, &v);
	format_value(&v, out, size);
	rut_expr_prog_free(p);
	rut_expr_free(e);
	for (size_t i = 0; i < 6; i++)
		rut_expr_layout_fini(&layouts[i]);
}

static bool as_expected(const char *got, const char *want)
{
	unsigned col_got, col_want;
	int at;

	if (sscanf(want, "error %u: %n", &col_want, &at) != 1)
		return !strcmp(got, want);
	return sscanf(got, "error %u:", &col_got) == 1 && col_got == col_want &&
	       strstr(got, want + at);
}

/* The canonical form of an expression means the same as the expression. */
static void check_printed(const char *text, const char *events, const char *want)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char copy[512], out[1024];
	struct rut_expr *e;

	assert_int_equal(rut_expr_parse(text, strlen(text), RUT_EXPR_VALUE, &e, NULL, NULL), 0);
	rut_expr_print(e, &b);
	rut_expr_free(e);
	snprintf(copy, sizeof(copy), "%s", events);
	evaluate(b.data, copy, out, sizeof(out));
	if (!as_expected(out, want))
		fail_msg("%s\n  printed as %s\n  gives %s, not %s", text, b.data, out, want);
}

static void test_triplets(void **state)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	const char *src = getenv("SRC");
	char path[512], out[1024], copy[512], *lines[3], *save = NULL;
	size_t n = 0, done = 0, failures = 0;

	assert_non_null(src);
	snprintf(path, sizeof(path), "%s/tests/data/expr/triplets.txt", src);
	assert_int_equal(rut_buf_read_file(&b, path, 1 << 20), 0);
	for (char *l = strtok_r(b.data, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		if (l[0] == '#' && l[1])
			continue;
		lines[n++] = l;
		if (n < 3)
			continue;
		n = 0;
		done++;
		snprintf(copy, sizeof(copy), "%s", lines[1]);
		evaluate(lines[0], copy, out, sizeof(out));
		if (!as_expected(out, lines[2])) {
			print_error("%s\n  on %s\n  gives %s\n  not %s\n", lines[0], lines[1], out,
				    lines[2]);
			failures++;
		} else if (strncmp(out, "error", 5) != 0) {
			check_printed(lines[0], lines[1], lines[2]);
		}
	}
	assert_int_equal(n, 0);
	assert_true(done > 100);
	assert_int_equal(failures, 0);
}

static int bind_const(const char *text, const char *name)
{
	struct event ev = {0};
	struct rut_expr *e;
	struct rut_expr_prog *p;
	int c;

	snprintf(ev.name, sizeof(ev.name), "%s", name);
	parse_value("1", &ev.fields[0]);
	strcpy(ev.fields[0].scope, "payload");
	strcpy(ev.fields[0].path, "fd");
	ev.n = 1;
	assert_int_equal(rut_expr_parse(text, strlen(text), RUT_EXPR_FILTER, &e, NULL, NULL), 0);
	assert_int_equal(rut_expr_bind(e, &ops, &ev, &p), 0);
	c = rut_expr_prog_constant(p);
	rut_expr_prog_free(p);
	rut_expr_free(e);
	return c;
}

static void test_binding_folds_what_the_class_decides(void **state)
{
	assert_int_equal(bind_const("$evt.$name == \"a\" && $evt.fd == 3", "b"), 0);
	assert_int_equal(bind_const("$evt.$name == \"a\" && $evt.fd == 3", "a"), -1);
	assert_int_equal(bind_const("$evt.fd == 3 && $evt.$name == \"a\"", "b"), 0);
	assert_int_equal(bind_const("$evt.$name == \"a\" || $evt.fd == 3", "a"), 1);
	assert_int_equal(bind_const("$evt.fd == 3 || $evt.$name =* \"a*\"", "abc"), 1);
	assert_int_equal(bind_const("$evt.nothing == 3 && $evt.fd == 1", "a"), 0);
	assert_int_equal(bind_const("$evt.nothing != 3", "a"), 1);
	assert_int_equal(bind_const("$evt.$name in [\"x\", \"y\"]", "y"), 1);
	assert_int_equal(bind_const("$evt.fd in [3] || $evt.$name =~ \"^s\"", "sys"), 1);
	assert_int_equal(bind_const("1 + 1 == 2", "a"), 1);
}

static void test_filters_know_no_periods(void **state)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_expr *e;
	size_t column;

	assert_int_equal(
		rut_expr_parse("1 && $begin.$evt.fd == 2", 24, RUT_EXPR_FILTER, &e, &column, &err),
		-EINVAL);
	assert_int_equal(column, 6);
	assert_non_null(strstr(err.msg, "column 6: only a period"));
	assert_int_equal(rut_expr_parse("$evt.$name", 10, RUT_EXPR_FILTER, &e, &column, &err),
			 -EINVAL);
	assert_int_equal(column, 1);
}

static void test_at_begin_the_begin_event_is_the_event(void **state)
{
	const char *text = "$begin.$evt.fd == 3 && $parent.$begin.$evt.ret == $evt.fd";
	struct rut_expr_layout own = {0}, parent = {0}, *layouts[] = {&own, &parent};
	struct event ev, pev;
	struct rut_expr_val slots[4];
	struct rut_expr_frame frame = {slots, NULL};
	struct rut_expr_prog *p, *lp;
	struct rut_expr *e;
	char text_ev[] = "x fd=3", text_pev[] = "y ret=3";

	parse_event(text_ev, &ev);
	parse_event(text_pev, &pev);
	assert_int_equal(rut_expr_parse(text, strlen(text), 0, &e, NULL, NULL), 0);
	assert_int_equal(rut_expr_link(e, layouts, 2, true, NULL, NULL), 0);
	assert_int_equal(own.count, 0);
	assert_int_equal(parent.count, 1);
	assert_int_equal(rut_expr_layout_bind(&parent, &ops, &pev, &lp), 0);
	rut_expr_layout_load(lp, &pev, slots);
	assert_int_equal(rut_expr_bind(e, &ops, &ev, &p), 0);
	assert_true(rut_expr_match(p, &ev, &frame));
	slots[0].i = 4;
	assert_false(rut_expr_match(p, &ev, &frame));
	rut_expr_prog_free(p);
	rut_expr_prog_free(lp);
	rut_expr_free(e);
	rut_expr_layout_fini(&own);
	rut_expr_layout_fini(&parent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_triplets),
		cmocka_unit_test(test_binding_folds_what_the_class_decides),
		cmocka_unit_test(test_filters_know_no_periods),
		cmocka_unit_test(test_at_begin_the_begin_event_is_the_event),
	};

	return cmocka_run_group_tests_name("expr", tests, NULL, NULL);
}
