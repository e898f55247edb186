/* SPDX-License-Identifier: MIT */
/* Requests, answers and rules of a fleet; a job, without a network. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/err.h"
#include "fleet/job.h"
#include "fleet/rules.h"
#include "fleet/wire.h"

/* A word of an argument list, which is not const. */
#define W(text) ((char[]){text})

static void test_request(void **state)
{
	char *words[] = {W("status"), W(""), W("a b"), W("x\ny")}, *one[] = {W("ps")};
	struct rut_fleet_request got;
	struct rut_buf b = RUT_BUF_INIT;

	assert_int_equal(rut_fleet_request_put(&b, "web*,db1", words, 4), 0);
	assert_int_equal(rut_fleet_request_get(b.data, b.len, &got), 0);
	assert_string_equal(got.hosts, "web*,db1");
	assert_int_equal(got.n_words, 4);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(got.words[i], words[i]);
	assert_null(got.words[4]);
	for (size_t i = 0; i < b.len; i++)
		if (b.data[b.len - 1 - i])
			assert_int_equal(rut_fleet_request_get(b.data, b.len - i, &got),
					 i ? -EBADMSG : 0);
	rut_buf_clear(&b);
	assert_int_equal(rut_fleet_request_put(&b, "*", one, 0), 0);
	assert_int_equal(rut_fleet_request_get(b.data, b.len, &got), -EBADMSG);
	rut_buf_fini(&b);
}

static void test_answer(void **state)
{
	struct rut_fleet_answer want = {
		.kind = RUT_FLEET_OUT, .number = 7, .host = "web1", .data = "a\nb", .len = 3};
	struct rut_fleet_answer got;
	struct rut_buf b = RUT_BUF_INIT;

	rut_fleet_answer_put(&b, &want);
	assert_int_equal(rut_fleet_answer_get(b.data, b.len, &got), 0);
	assert_string_equal(got.host, "web1");
	assert_int_equal(got.number, 7);
	assert_int_equal(got.len, 3);
	assert_memory_equal(got.data, "a\nb", 3);
	for (size_t i = 0; i < 17; i++)
		assert_int_equal(rut_fleet_answer_get(b.data, i, &got), i == 17 ? 0 : -EBADMSG);
	/* The last message: with counts, without output. */
	want = (struct rut_fleet_answer){
		.kind = RUT_FLEET_EXIT, .number = 1, .n_out = 70000, .n_err = 3, .host = "web1"};
	rut_buf_clear(&b);
	rut_fleet_answer_put(&b, &want);
	assert_int_equal(rut_fleet_answer_get(b.data, b.len - 1, &got), -EBADMSG);
	assert_int_equal(rut_fleet_answer_get(b.data, b.len, &got), 0);
	assert_int_equal(got.n_out, 70000);
	assert_int_equal(got.n_err, 3);
	/* A name that would change the terminal. */
	b.data[13] = '\x1b';
	assert_int_equal(rut_fleet_answer_get(b.data, b.len, &got), -EBADMSG);
	rut_buf_fini(&b);
}

/* Answers go to an inbox of the asking side, by a subject with the host's name, and nowhere else.
 */
static void test_reply(void **state)
{
	static const char *const bad[] = {"",
					  "_INBOX.ask",
					  "_INBOX..ask",
					  "_INBOX.a",
					  "_INBOX.a.b.ask",
					  "_INBOX.*.ask",
					  "_INBOX.>",
					  "_INBOX.a.ask.b",
					  "rutile-fleet.ask",
					  "$KV.rutile-fleet.ask"};
	struct rut_buf b = RUT_BUF_INIT;

	assert_true(rut_fleet_is_reply("_INBOX.x9.ask"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(rut_fleet_is_reply(bad[i]));
	rut_fleet_subject_put(&b, "_INBOX.x9.ask", "db.example");
	assert_string_equal(b.data, "_INBOX.x9.ask.db%2Eexample");
	rut_buf_fini(&b);
}

static void test_hosts(void **state)
{
	char name[16];
	struct rut_buf b = RUT_BUF_INIT;

	assert_true(rut_fleet_is_among("*", "web1"));
	assert_true(rut_fleet_is_among("db,web?", "web1"));
	assert_true(rut_fleet_is_among(",web1,", "web1"));
	assert_false(rut_fleet_is_among("web", "web1"));
	assert_false(rut_fleet_is_among("", "web1"));
	rut_fleet_key_put(&b, "a.b=c");
	assert_string_equal(b.data, "a=2Eb=3Dc");
	assert_true(rut_fleet_key_get(b.data, name, sizeof(name)));
	assert_string_equal(name, "a.b=c");
	assert_false(rut_fleet_key_get("a=2", name, sizeof(name)));
	assert_false(rut_fleet_key_get("a=0A", name, sizeof(name)));
	assert_false(rut_fleet_key_get("", name, sizeof(name)));
	assert_false(rut_fleet_key_get("0123456789abcdef", name, sizeof(name)));
	rut_buf_fini(&b);
}

/* The words of a line of text. */
static bool allows(const struct rut_fleet_rules *r, const char *line)
{
	char copy[256], *words[32], *state;
	size_t n = 0;

	strcpy(copy, line);
	for (char *w = strtok_r(copy, " ", &state); w; w = strtok_r(NULL, " ", &state))
		words[n++] = w;
	return rut_fleet_rules_allow(r, words, n);
}

static void test_rules(void **state)
{
	static const char text[] = "# comment\n"
				   "server = nats://a,b:1\n"
				   "\ttimeout=5s \r\n"
				   "allow = ps\n"
				   "allow =  status   **\n"
				   "allow = snapshot web -o /srv/*\n"
				   "allow = report --top=? **\n"
				   "allow = start [a-c]*";
	static const char *const yes[] = {"ps",
					  "status",
					  "status a b",
					  "snapshot web -o /srv/x",
					  "report --top=3",
					  "report --top=3 a b",
					  "start b1"};
	static const char *const no[] = {"ps x",
					 "status --json",
					 "status a -x",
					 "status --",
					 "status /etc/shadow",
					 "status a b/c",
					 "status .x",
					 "report --top=3 relay://127.0.0.1:1/x",
					 "snapshot web -o /srv/x/y",
					 "snapshot web -o /srv/.x",
					 "snapshot web",
					 "report",
					 "report --top=33",
					 "report a",
					 "start d",
					 "start -b",
					 "start a --",
					 "record",
					 "stop a"};
	struct rut_fleet_rules r;

	assert_int_equal(rut_fleet_rules_parse(&r, "f", text, NULL), 0);
	assert_string_equal(r.server, "nats://a,b:1");
	assert_int_equal(r.timeout_ns, 5000000000ll);
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(allows(&r, yes[i]));
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(allows(&r, no[i]));
	assert_false(rut_fleet_rules_allow(&r, NULL, 0));
	rut_fleet_rules_fini(&r);
}

static void test_bad_rules(void **state)
{
	static const char *const bad[] = {"\nallow", "\nallow = run", "\nallow = ",
					  "\nx = y", "\ntimeout = 0", "\nserver = a"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct rut_err err = RUT_ERR_INIT;
		struct rut_fleet_rules r;

		assert_int_equal(rut_fleet_rules_parse(&r, "f", bad[i], &err), -EINVAL);
		assert_memory_equal(err.msg, "f, line 2: ", 11);
	}
}

/* Runs until it has ended. Returns its code. */
static int finish(struct rut_fleet_job *j, struct rut_buf *out)
{
	int code;

	for (;;) {
		struct pollfd fds[] = {{.fd = j->pid_fd, .events = POLLIN},
				       {.fd = j->out_fd, .events = POLLIN}};
		bool ended;

		poll(fds, 2, 100);
		rut_fleet_job_check(j, UINT64_MAX);
		ended = rut_fleet_job_ended(j, &code);
		rut_fleet_job_read(&j->out_fd, out, 1 << 20);
		if (ended)
			return code;
	}
}

static void test_job(void **state)
{
	char *hello[] = {W("-c"), W("echo $0 $1; exit 3"), W("x"), W("a b"), NULL},
	     *slow[] = {W("-c"), W("exec sleep 1000"), NULL};
	struct rut_fleet_job j = {0};
	struct rut_buf out = RUT_BUF_INIT;
	int code;

	assert_int_equal(rut_fleet_job_start(&j, "/bin/sh", hello, 60000000000ull, NULL), 0);
	while (!rut_fleet_job_ended(&j, &code))
		poll(&(struct pollfd){.fd = j.pid_fd, .events = POLLIN}, 1, 1000);
	rut_fleet_job_read(&j.out_fd, &out, 1 << 20);
	assert_int_equal(code, 3);
	assert_string_equal(out.data, "x a b\n");
	rut_fleet_job_fini(&j);
	/* Its time is over. */
	rut_buf_clear(&out);
	assert_int_equal(rut_fleet_job_start(&j, "/bin/sh", slow, 1, NULL), 0);
	j.killed = false;
	assert_int_equal(finish(&j, &out), 124);
	rut_fleet_job_fini(&j);
	rut_buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request), cmocka_unit_test(test_answer),
		cmocka_unit_test(test_reply),	cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_rules),	cmocka_unit_test(test_bad_rules),
		cmocka_unit_test(test_job),
	};

	return cmocka_run_group_tests_name("fleet", tests, NULL, NULL);
}
