/* SPDX-License-Identifier: MIT */
/* Descriptions of triggers, and their limits. */
#include "trigger/cause.h"
#include "trigger/limit.h"
#include "trigger/spec.h"
#include "trigger/window.h"
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct rut_trigger t;

static int set(const char *key, const char *value)
{
	struct rut_err err = RUT_ERR_INIT;
	int rc = rut_trigger_set(&t, key, value, &err);

	assert_int_equal(rc != 0, err.msg[0] != 0);
	return rc;
}

static void test_when(void **state)
{
	rut_trigger_init(&t);
	assert_int_equal(set("when", "event sched_process_exit"), 0);
	assert_int_equal(t.when.kind, RUT_TRIGGER_EVENT);
	assert_string_equal(t.when.events, "sched_process_exit");
	assert_string_equal(t.when.filter, "");
	assert_int_equal(set("when", "event a,b*  if comm == \"x if y\" && ret > 5"), 0);
	assert_string_equal(t.when.events, "a,b*");
	assert_string_equal(t.when.filter, "comm == \"x if y\" && ret > 5");
	assert_int_equal(set("when", "rate syscall_exit_* if ret > 0 > 100 per 2s"), 0);
	assert_int_equal(t.when.kind, RUT_TRIGGER_RATE);
	assert_string_equal(t.when.filter, "ret > 0");
	assert_int_equal(t.when.count, 100);
	assert_int_equal(t.when.ns, 2000000000);
	assert_int_equal(set("when", "slow openat,fsync > 1.5ms"), 0);
	assert_string_equal(t.when.events, "openat,fsync");
	assert_int_equal(t.when.ns, 1500000);
	assert_int_equal(set("when", "every 10m"), 0);
	assert_int_equal(t.when.ns, 600000000000);
}

static void test_when_sources(void **state)
{
	rut_trigger_init(&t);
	assert_int_equal(set("when", "request puma shop > 2s"), 0);
	assert_int_equal(t.when.kind, RUT_TRIGGER_REQUEST);
	assert_string_equal(t.when.events, "puma shop");
	assert_int_equal(t.when.ns, 2000000000);
	assert_true(t.when.percent == 0);
	assert_int_equal(set("when", "request puma > 1s p99.5 per 1m"), 0);
	assert_true(t.when.percent == 99.5);
	assert_int_equal(t.when.ns, 1000000000);
	assert_int_equal(t.when.window_ns, 60000000000);
	assert_int_equal(set("when", "slow a p b > 2s p50 per 5s"), 0);
	assert_string_equal(t.when.events, "a p b");
	assert_int_equal(set("when", "method 17  Order#> > 5ms"), 0);
	assert_string_equal(t.when.events, "17");
	assert_string_equal(t.when.filter, "Order#>");
	assert_int_equal(t.when.ns, 5000000);
	assert_int_equal(set("when", "gvl puma worker > 50ms"), 0);
	assert_int_equal(t.when.kind, RUT_TRIGGER_GVL);
	assert_string_equal(t.when.events, "puma worker");
	assert_true(t.when.ns == 50000000);
	assert_int_equal(set("when", "runqueue >  20ms "), 0);
	assert_int_equal(t.when.kind, RUT_TRIGGER_RUNQUEUE);
	assert_int_equal(t.when.ns, 20000000);
	assert_int_equal(set("when", "killed"), 0);
	assert_string_equal(t.when.events, "*");
	assert_int_equal(set("when", "killed post* "), 0);
	assert_string_equal(t.when.events, "post*");
	assert_int_equal(set("when", "script BEGIN { exit() }"), 0);
	assert_string_equal(t.when.events, "BEGIN { exit() }");
	assert_int_equal(set("when", "log /a b matches x > y=([0-9]+) > -1.5"), 0);
	assert_string_equal(t.when.events, "/a b");
	assert_string_equal(t.when.filter, "x > y=([0-9]+)");
	assert_true(t.when.has_limit);
	assert_true(t.when.limit == -1.5);
	assert_int_equal(set("when", "log /a matches x > y"), 0);
	assert_string_equal(t.when.filter, "x > y");
	assert_false(t.when.has_limit);
}

static void test_bad_when(void **state)
{
	static const char *const bad[] = {"",
					  "event",
					  "event  if x",
					  "event a if ",
					  "events a",
					  "rate a > 5",
					  "rate a per 1s",
					  "rate a > x per 1s",
					  "rate a > -5 per 1s",
					  "rate a > 1 per",
					  "slow a",
					  "slow a > x",
					  "every",
					  "every x",
					  "every 1us",
					  "every -1s",
					  "request puma",
					  "request > 1s",
					  "request puma > 1s p100 per 1s",
					  "request puma > 1s p0 per 1s",
					  "request puma > 1s px per 1s",
					  "request puma > 1s p95",
					  "slow a > 1s p95 per",
					  "slow a > p95 per 1s",
					  "method puma > 1s",
					  "method puma A#b",
					  "runqueue 5ms",
					  "gvl > 5ms",
					  "gvl puma",
					  "runqueue > ",
					  "killed a b",
					  "killed a\"b",
					  "script",
					  "script ",
					  "log /a",
					  "log  matches x",
					  "log /a matches ",
					  "fired now"};

	rut_trigger_init(&t);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(set("when", bad[i]), -EINVAL);
}

static void test_do(void **state)
{
	rut_trigger_init(&t);
	assert_int_equal(set("do", "exec /bin/sh -c 'a \"b\" c' \"d'e\" f\\ g"), 0);
	assert_int_equal(t.actions[0].nwords, 6);
	assert_string_equal(t.actions[0].words[3], "a \"b\" c");
	assert_string_equal(t.actions[0].words[4], "d'e");
	assert_string_equal(t.actions[0].words[5], "f g");
	assert_null(t.actions[0].words[6]);
	assert_int_equal(set("do", "add web syscall:* for 5s"), 0);
	assert_int_equal(t.actions[1].ns, 5000000000);
	assert_int_equal(set("do", "snapshot web"), 0);
	assert_int_equal(t.nactions, 3);
	assert_int_equal(set("do", "snapshot"), -EINVAL);
	assert_int_equal(set("do", "snapshot a b"), -EINVAL);
	assert_int_equal(set("do", "exec"), -EINVAL);
	assert_int_equal(set("do", "exec 'a"), -EINVAL);
	assert_int_equal(set("do", "add web x"), -EINVAL);
	assert_int_equal(set("do", "reboot now"), -EINVAL);
	assert_int_equal(set("do", ""), -EINVAL);
	assert_int_equal(t.nactions, 3);
}

static void test_others(void **state)
{
	rut_trigger_init(&t);
	assert_int_equal(set("burst", "3/1m"), 0);
	assert_int_equal(t.burst, 3);
	assert_int_equal(t.interval_ns, 60000000000);
	assert_int_equal(set("burst", "5"), 0);
	assert_int_equal(set("burst", "0"), -EINVAL);
	assert_int_equal(set("burst", "-1"), -EINVAL);
	assert_int_equal(set("burst", "1/x"), -EINVAL);
	assert_int_equal(set("disk", "3G"), 0);
	assert_int_equal(t.disk_bytes, 3ull << 30);
	assert_int_equal(set("disk", "99999999999T"), -EINVAL);
	assert_int_equal(set("disk", "1x"), -EINVAL);
	assert_int_equal(set("disk-full", "refuse"), 0);
	assert_true(t.refuse);
	assert_int_equal(set("disk-full", "both"), -EINVAL);
	assert_int_equal(set("color", "red"), -EINVAL);
	assert_int_equal(set("when", "every 1s\ndo = exec x"), -EINVAL);
	assert_true(rut_trigger_name_ok("a-1_b.c"));
	assert_false(rut_trigger_name_ok(""));
	assert_false(rut_trigger_name_ok("../a"));
	assert_false(rut_trigger_name_ok(".a"));
}

/* What is written is read as the same. */
static void test_file(void **state)
{
	static struct rut_trigger again;
	static char bad[] = "# a comment\n\nwhen = every 1s\nnonsense\n";
	struct rut_err err = RUT_ERR_INIT;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	rut_trigger_init(&t);
	set("when", "rate a if b == \"c\" > 7 per 3s");
	set("do", "snapshot web");
	set("do", "exec x 'y z'");
	set("burst", "2/1h");
	set("cooldown", "5s");
	set("output", "/somewhere");
	set("disk", "1G");
	set("group", "adm");
	rut_trigger_write(&t, f);
	fclose(f);
	f = fmemopen(text, len, "r");
	rut_trigger_init(&again);
	assert_int_equal(rut_trigger_read(&again, f, &err), 0);
	fclose(f);
	free(text);
	assert_string_equal(again.when_text, t.when_text);
	assert_int_equal(again.when.ns, t.when.ns);
	assert_int_equal(again.nactions, 2);
	assert_string_equal(again.actions[1].words[2], "y z");
	assert_int_equal(again.burst, 2);
	assert_int_equal(again.interval_ns, t.interval_ns);
	assert_int_equal(again.cooldown_ns, 5000000000);
	assert_string_equal(again.dir, "/somewhere");
	assert_int_equal(again.disk_bytes, t.disk_bytes);
	assert_string_equal(again.group, "adm");
	f = fmemopen(bad, strlen(bad), "r");
	assert_int_equal(rut_trigger_read(&again, f, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "line 4"));
	fclose(f);
}

static void test_limit(void **state)
{
	struct rut_trigger_limit l = {.burst = 2, .interval_ns = 100, .cooldown_ns = 30};
	unsigned taken = 0;

	assert_true(rut_trigger_limit_take(&l, 1000));
	assert_true(rut_trigger_limit_take(&l, 1001));
	assert_false(rut_trigger_limit_take(&l, 1099));
	assert_true(rut_trigger_limit_take(&l, 1100));
	rut_trigger_limit_ended(&l, 1110);
	assert_false(rut_trigger_limit_take(&l, 1139));
	assert_true(rut_trigger_limit_take(&l, 1140));
	l = (struct rut_trigger_limit){.burst = 3, .interval_ns = 1000};
	for (uint64_t now = 1; now <= 10000; now++)
		taken += rut_trigger_limit_take(&l, now);
	assert_int_equal(taken, 30);
}

/* Beside percentiles of the values themselves. */
static void test_window(void **state)
{
	struct rut_trigger_window w;
	static uint64_t times[3000];
	static bool above[3000];
	unsigned fired = 0, seed = 1;
	size_t since = 0;

	assert_int_equal(rut_trigger_window_init(&w), 0);
	for (size_t i = 0; i < 3000; i++) {
		size_t n = 0, high = 0;
		bool expected;

		seed = seed * 1103515245 + 12345;
		times[i] = 1000 * i;
		above[i] = (seed >> 16) % 100 < 6;
		for (size_t k = since; k <= i; k++) {
			bool in = times[k] + 200000 >= times[i];

			n += in;
			high += in && above[k];
		}
		expected = n >= 20 && high * 20 > n;
		assert_int_equal(rut_trigger_window_add(&w, times[i], above[i], 95, 200000),
				 expected);
		since = expected ? i + 1 : since;
		fired += expected;
	}
	assert_true(fired > 5 && fired < 2000);
	/* One alone is no percentile. */
	for (size_t i = 0; i < 19; i++)
		assert_false(rut_trigger_window_add(&w, 1000000000, true, 95, 1000));
	assert_true(rut_trigger_window_add(&w, 1000000000, true, 95, 1000));
	/* More than there is room for. */
	for (size_t i = 0; i < 2 * RUT_TRIGGER_WINDOW_MAX; i++)
		assert_false(rut_trigger_window_add(&w, 2000000000, i % 200 == 199, 99, 1000));
	rut_trigger_window_fini(&w);
}

/* The next of several times of the day, also over midnight, and in the night of a change. */
static void test_at(void **state)
{
	char was[64] = "";
	const struct {
		const char *at, *now;
		int64_t after_s;
	} cases[] = {
		{"at 03:00,15:30", "2026-11-25 02:59:59", 1},
		{"at 03:00,15:30", "2026-11-25 03:00:00", 12 * 3600 + 1800},
		{"at 15:30,03:00", "2026-11-25 20:00:00", 7 * 3600},
		{"at 0:00", "2026-12-31 23:59:00", 60},
		/* From 2 to 3 o'clock there is no time in this night. */
		{"at 04:00", "2026-03-29 01:00:00", 2 * 3600},
	};

	if (getenv("TZ"))
		snprintf(was, sizeof(was), "%s", getenv("TZ"));
	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct tm tm = {.tm_isdst = -1};
		int64_t now;

		assert_non_null(strptime(cases[i].now, "%Y-%m-%d %H:%M:%S", &tm));
		now = (int64_t)mktime(&tm);
		assert_int_equal(set("when", cases[i].at), 0);
		assert_int_equal(rut_trigger_next_at(&t.when, now), now + cases[i].after_s);
	}
	if (was[0])
		setenv("TZ", was, 1);
	else
		unsetenv("TZ");
	tzset();
	assert_int_equal(set("when", "at 24:00"), -EINVAL);
	assert_int_equal(set("when", "at 3:0"), -EINVAL);
	assert_int_equal(set("when", "at 03:00,"), -EINVAL);
	assert_int_equal(set("when", "at"), -EINVAL);
}

/* A definition has colons; a file may be followed by the name of one of its periods. */
static void test_period(void **state)
{
	assert_int_equal(set("when", "period apache request > 1s"), 0);
	assert_string_equal(t.when.events, "apache");
	assert_string_equal(t.when.filter, "request");
	assert_int_equal(t.when.ns, 1000000000);
	assert_int_equal(set("when", "period /etc/x.periods > 2ms p99 per 1m"), 0);
	assert_string_equal(t.when.events, "/etc/x.periods");
	assert_string_equal(t.when.filter, "");
	assert_true(t.when.percent == 99);
	assert_int_equal(
		set("when", "period a : $evt.x > 3 : $evt.$name == \"b\" && $evt.y > 4 > 5us"), 0);
	assert_string_equal(t.when.events, "a : $evt.x > 3 : $evt.$name == \"b\" && $evt.y > 4");
	assert_int_equal(t.when.ns, 5000);
	assert_int_equal(set("when", "period > 1s"), -EINVAL);
	assert_int_equal(set("when", "period apache"), -EINVAL);
}

static void test_more_actions(void **state)
{
	rut_trigger_init(&t);
	assert_int_equal(set("do", "add web --ruby puma:call for 10s"), 0);
	assert_string_equal(t.actions[0].words[2], "--ruby");
	assert_string_equal(t.actions[0].words[3], "puma:call");
	assert_int_equal(t.actions[0].ns, 10000000000ull);
	assert_int_equal(set("do", "stacks"), 0);
	assert_int_equal(set("do", "stacks puma"), 0);
	assert_int_equal(set("do", "stacks puma rails"), -EINVAL);
	assert_int_equal(set("do", "publish nats://hub/alerts.web"), 0);
	assert_int_equal(set("do", "publish ftp://hub"), -EINVAL);
	assert_int_equal(set("do", "fleet web*,db snapshot web -o /srv/%i"), 0);
	assert_int_equal(set("do", "fleet web* stop web"), -EINVAL);
	assert_int_equal(set("do", "fleet web*"), -EINVAL);
}

/* What another machine says: numbers that are none, or that would overflow, are refused. */
static void test_foreign_cause(void **state)
{
	const char *const bad[] = {"",
				   "a",
				   "a,b,c,1,2",
				   "a,b,c,1,2,3,4",
				   ",b,c,1,2,3",
				   "a,b,c,x,2,3",
				   "a,b,c,1,2,-3",
				   "a,b,c,1,2,",
				   "a,b,c,9223372036854775807,2,3",
				   "a,b,c,1,2,9223372036854775807",
				   "a,b,c,99999999999999999999,2,3"};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_trigger_cause c;
	char text[128];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(rut_trigger_cause_parse(&c, bad[i], text, sizeof(text), &err),
				 -EINVAL);
	assert_int_equal(rut_trigger_cause_parse(&c, "id,name,host,-5,7,1795624637126875994", text,
						 sizeof(text), &err),
			 0);
	assert_string_equal(c.id, "id");
	assert_string_equal(c.name, "name");
	assert_string_equal(c.host, "host");
	assert_int_equal(c.clock_offset_ns, -5);
	assert_int_equal(c.clock_error_ns, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_when),	     cmocka_unit_test(test_when_sources),
		cmocka_unit_test(test_bad_when),     cmocka_unit_test(test_do),
		cmocka_unit_test(test_others),	     cmocka_unit_test(test_file),
		cmocka_unit_test(test_limit),	     cmocka_unit_test(test_window),
		cmocka_unit_test(test_at),	     cmocka_unit_test(test_period),
		cmocka_unit_test(test_more_actions), cmocka_unit_test(test_foreign_cause),
	};

	return cmocka_run_group_tests_name("trigger", tests, NULL, NULL);
}
