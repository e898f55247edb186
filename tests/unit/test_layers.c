/* SPDX-License-Identifier: MIT */
/* Layer files: what they mean, what is wrong with them; the masking of SQL. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/abi.h"
#include "agent/watch.h"
#include "base/buf.h"
#include "base/err.h"
#include "ruby/layers.h"

/* The agent's memory. */
void *rut_agent_map(size_t bytes);
void rut_agent_unmap(void *p, size_t bytes);

void *rut_agent_map(size_t bytes)
{
	return calloc(1, bytes);
}

void rut_agent_unmap(void *p, size_t bytes)
{
	(void)bytes;
	free(p);
}

static void parse(struct rut_layers *l, const char *text)
{
	struct rut_err err = RUT_ERR_INIT;
	int rc = rut_layers_parse(l, "test.layers", text, strlen(text), &err);

	if (rc)
		print_message("# %s\n", err.msg);
	assert_int_equal(rc, 0);
}

static void load(struct rut_watches *w, const struct rut_layers *l)
{
	struct rut_buf b = RUT_BUF_INIT;

	rut_layers_encode(l, &b);
	rut_buf_putc(&b, 0);
	assert_int_equal(rut_agent_watches_init(w, b.data), 0);
	rut_buf_fini(&b);
}

static const char example[] =
	"# a comment\n"
	"request http  Puma::Request#handle_request  Puma::Server#handle_request\n"
	"\tverb  $1.@env[\"REQUEST_METHOD\"]   # another\n"
	"\tafter status  status | headers[:x][2].class \" - \" self\n"
	"\n"
	"nested template Tilt::Template#render\n"
	"  detail  prefix(self.@file)\n"
	"info Foo.bar?\n";

static void what_a_file_says_is_what_the_agent_reads(void **state)
{
	struct rut_layers l = RUT_LAYERS_INIT;
	struct rut_watches w;
	struct rut_watch *watch;

	(void)state;
	parse(&l, example);
	load(&w, &l);
	assert_int_equal(w.count, 3);
	assert_int_equal(w.nnames, 4);
	assert_int_equal(w.nkeys, 1);
	watch = rut_agent_watches_find(&w, "Puma::Server", false, "handle_request");
	assert_non_null(watch);
	assert_ptr_equal(watch,
			 rut_agent_watches_find(&w, "Puma::Request", false, "handle_request"));
	assert_int_equal(watch->what, RUT_WATCH_REQUEST);
	assert_string_equal(watch->layer, "http");
	assert_true(watch->returns);
	assert_int_equal(watch->nreads, 2);
	assert_int_equal(watch->reads[0].field, RUT_FIELD_VERB);
	assert_int_equal(watch->reads[0].when, RUT_WATCH_CALL);
	assert_int_equal(watch->reads[0].count, 3);
	assert_int_equal(watch->ops[0].kind, RUT_OP_POSITION);
	assert_int_equal(watch->ops[0].n, 1);
	assert_string_equal(watch->ops[1].text, "@env");
	assert_int_equal(watch->ops[2].kind, RUT_OP_KEY);
	assert_string_equal(watch->ops[2].text, "REQUEST_METHOD");
	assert_int_equal(watch->reads[1].when, RUT_WATCH_RETURN);
	assert_int_equal(watch->reads[1].first, 3);
	assert_int_equal(watch->reads[1].count, 8);
	assert_int_equal(watch->ops[4].kind, RUT_OP_OR);
	assert_int_equal(watch->ops[6].kind, RUT_OP_SYMBOL);
	assert_int_equal(watch->ops[7].kind, RUT_OP_INDEX);
	assert_int_equal(watch->ops[7].n, 2);
	assert_int_equal(watch->ops[8].kind, RUT_OP_CLASS);
	assert_string_equal(watch->ops[9].text, " - ");
	assert_int_equal(watch->ops[10].kind, RUT_OP_SELF);
	watch = rut_agent_watches_find(&w, "Tilt::Template", false, "render");
	assert_int_equal(watch->what, RUT_WATCH_NESTED);
	assert_int_equal(watch->ops[watch->nops - 1].kind, RUT_OP_PREFIX);
	assert_int_equal(rut_agent_watches_find(&w, "Foo", true, "bar?")->what, RUT_WATCH_INFO);
	assert_null(rut_agent_watches_find(&w, "Foo", false, "bar?"));
	assert_null(rut_agent_watches_find(&w, "Tilt", false, "render"));
	assert_null(rut_agent_watches_find(&w, "Puma::Request", false, "handle"));
	assert_true(rut_agent_watches_has(&w, "render", 6));
	assert_true(rut_agent_watches_has(&w, "rendering", 6));
	assert_false(rut_agent_watches_has(&w, "rende", 5));
	rut_agent_watches_fini(&w);
	rut_layers_fini(&l);
}

static void a_later_entry_replaces_an_earlier_one(void **state)
{
	struct rut_layers l = RUT_LAYERS_INIT;
	struct rut_watches w;

	(void)state;
	parse(&l, "span sql A#b C#d\n\tdetail sql(x)\nspan http E#f\n");
	parse(&l, "span cache A#b\noff E#f\n");
	load(&w, &l);
	assert_int_equal(w.nnames, 2);
	assert_string_equal(rut_agent_watches_find(&w, "A", false, "b")->layer, "cache");
	assert_string_equal(rut_agent_watches_find(&w, "C", false, "d")->layer, "sql");
	assert_null(rut_agent_watches_find(&w, "E", false, "f"));
	rut_agent_watches_fini(&w);
	rut_layers_fini(&l);
}

static void mistakes_are_reported_with_their_line(void **state)
{
	static const char *const bad[][2] = {
		{"spam sql A#b", "1: expected request, info, span, nested or off, not 'spam'"},
		{"\n\nspan sql\n", "3: expected the names of methods behind 'span'"},
		{"span A#b\n", "1: expected the name of a layer behind 'span', not 'A#b'"},
		{"span sql b\n", "1: expected Class#method or Class.method, not 'b'"},
		{"span sql a#b\n", "1: expected Class#method or Class.method, not 'a#b'"},
		{"span sql A#*\n", "1: expected Class#method or Class.method, not 'A#*'"},
		{"span sql A#\n", "1: expected Class#method or Class.method, not 'A#'"},
		{"  detail x\n", "1: a field without a method: this line must not be indented"},
		{"span sql A#b\n\tdetails x\n",
		 "2: unknown field 'details'; there are verb, path, route, status, bytes, "
		 "traceparent, x_request_id, error and detail"},
		{"span sql A#b\n\tstatus x\n", "2: 'status' is no field of a span"},
		{"info A#b\n\tdetail x\n", "2: 'detail' is no field of a request"},
		{"span sql A#b\n\tdetail\n", "2: the field has no value"},
		{"span sql A#b\n\tdetail x |\n", "2: nothing behind '|'"},
		{"span sql A#b\n\tdetail \"x\n", "2: a '\"' is missing"},
		{"span sql A#b\n\tdetail x[\"y\"\n", "2: a ']' is missing"},
		{"span sql A#b\n\tdetail x[y]\n", "2: expected [\"key\"], [:key] or [0], not [y]"},
		{"span sql A#b\n\tdetail x.to_s\n",
		 "2: expected .@name or .class: no method is ever called"},
		{"span sql A#b\n\tdetail $x\n", "2: expected $1 to $9, the number of an argument"},
		{"span sql A#b\n\tdetail upcase(x)\n",
		 "2: unknown function 'upcase'; there are sql, host, prefix and path"},
		{"span sql A#b\n\tdetail sql(x\n", "2: a ')' is missing"},
		{"span sql A#b\n\tdetail %\n",
		 "2: expected the name of an argument or variable, $1, self, return or a text at "
		 "'%'"},
		{"span sql A#b\x01\n", "1: a control character"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct rut_layers l = RUT_LAYERS_INIT;
		struct rut_err err = RUT_ERR_INIT;

		assert_int_equal(rut_layers_parse(&l, "f", bad[i][0], strlen(bad[i][0]), &err),
				 -EINVAL);
		assert_memory_equal(err.msg, "f:", 2);
		assert_string_equal(err.msg + 2, bad[i][1]);
		rut_layers_fini(&l);
	}
}

/* They must fit into the control page, too, with room for a filter. */
static void the_installed_files_are_right(void **state)
{
	struct rut_buf b = RUT_BUF_INIT;
	struct rut_err err = RUT_ERR_INIT;
	struct rut_watches w;
	char dir[4096];
	int rc;

	(void)state;
	snprintf(dir, sizeof(dir), "%s/share/rutile/layers", getenv("SRC"));
	setenv("RUTILE_LAYERS", dir, 1);
	rc = rut_layers_config(&b, &err);
	if (rc)
		print_message("# %s\n", err.msg);
	assert_int_equal(rc, 0);
	assert_in_range(b.len, 1, RUT_AGENT_CONFIG * 3 / 4);
	rut_buf_putc(&b, 0);
	assert_int_equal(rut_agent_watches_init(&w, b.data), 0);
	assert_non_null(rut_agent_watches_find(&w, "Puma::Request", false, "handle_request"));
	assert_non_null(rut_agent_watches_find(
		&w, "ActiveRecord::ConnectionAdapters::AbstractAdapter", false, "log"));
	rut_agent_watches_fini(&w);
	rut_buf_fini(&b);
}

static void what_is_no_entry_is_refused(void **state)
{
	static const char *const bad[] = {
		"Wxhttp\x1f"
		"A#b",
		"W",
		"Wrhttp\x1f"
		"Ab",
		"Wrhttp\x1f"
		"A#b\x1ev",
		"Wrhttp\x1f"
		"A#b\x1ev<\x1fZ",
		"Wrhttp\x1f"
		"A#b\x1ev<\x1f",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char config[64] = "";
		struct rut_watches w;

		memcpy(config, bad[i], strlen(bad[i]));
		assert_int_equal(rut_agent_watches_init(&w, config), -EINVAL);
	}
}

static void literal_values_of_sql_are_masked(void **state)
{
	static const char *const cases[][2] = {
		{"SELECT * FROM items WHERE id = 17", "SELECT * FROM items WHERE id = ?"},
		{"SELECT  \"a\".* FROM\n\t\"a\" WHERE \"a\".\"n\" = 'it''s secret' LIMIT 1",
		 "SELECT \"a\".* FROM \"a\" WHERE \"a\".\"n\" = ? LIMIT ?"},
		{"WHERE id IN (1, 2,3 , 'x') AND y=-1.5e-3", "WHERE id IN (?) AND y=?"},
		{"VALUES (1, 'a'), (2, 'b')", "VALUES (?), (?)"},
		{"a - 1", "a - ?"},
		{"SELECT $1, :name, @v, t1.c2 FROM t1", "SELECT $1, :name, @v, t1.c2 FROM t1"},
		{"SELECT `a` FROM `b` WHERE c = \"secret\" AND d = 'a\\'secret'",
		 "SELECT `a` FROM `b` WHERE c = ? AND d = ?"},
		{"SELECT E'a\\'secret' || X'00ff' || $$secret$$ || $t$secret$t$ || n",
		 "SELECT ? || ? || ? || ? || n"},
		{"SELECT 1 -- secret\nFROM t /* secret */ WHERE x", "SELECT ? FROM t WHERE x"},
		/* What a backslash means is not known: the rest is not shown. */
		{"SELECT 'a\\', 'secret'", "SELECT ?"},
		{"SELECT * FROM u WHERE mail = \"bob@secret.org\"",
		 "SELECT * FROM u WHERE mail = ?"},
		{"SELECT * FROM u WHERE name = \"secret\" # secret",
		 "SELECT * FROM u WHERE name = ?"},
		{"SELECT `a` FROM u # secret\nWHERE b", "SELECT `a` FROM u WHERE b"},
		{"SELECT * FROM u WHERE name IN (\"secret\", \"b\") OR n LIKE \"secret\"",
		 "SELECT * FROM u WHERE name IN (?) OR n LIKE ?"},
		{"INSERT INTO \"u\" (\"name\", \"n\") VALUES (\"secret\", 1), (\"secret\", 2)",
		 "INSERT INTO \"u\" (\"name\", \"n\") VALUES (?), (?)"},
		{"SELECT \"a\".\"x\" FROM \"a\" JOIN \"b\" ON \"a\".\"x\" = \"b\".\"y\"",
		 "SELECT \"a\".\"x\" FROM \"a\" JOIN \"b\" ON \"a\".\"x\" = \"b\".\"y\""},
		{"SELECT 'never ends", "SELECT ?"},
		{"SELECT $$never ends", "SELECT ?"},
		{"/* never ends", ""},
		{"", ""},
		{"WHERE a = ? AND b IN (?, ?, ?)", "WHERE a = ? AND b IN (?)"},
		{"0x41", "?"},
	};
	char out[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t n =
			rut_agent_sql_mask(out, sizeof(out) - 1, cases[i][0], strlen(cases[i][0]));

		out[n] = 0;
		assert_string_equal(out, cases[i][1]);
		/* And what fits of it, when that is less. */
		for (size_t cap = 0; cap < n; cap++)
			assert_true(rut_agent_sql_mask(out, cap, cases[i][0],
						       strlen(cases[i][0])) <= cap);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_file_says_is_what_the_agent_reads),
		cmocka_unit_test(a_later_entry_replaces_an_earlier_one),
		cmocka_unit_test(mistakes_are_reported_with_their_line),
		cmocka_unit_test(the_installed_files_are_right),
		cmocka_unit_test(what_is_no_entry_is_refused),
		cmocka_unit_test(literal_values_of_sql_are_masked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
