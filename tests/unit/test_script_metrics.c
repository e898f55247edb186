/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "script/library.h"
#include "script/metrics.h"
#include "script/program.h"
#include "script/rows.h"
#include "script/value.h"

static const struct rut_type int64_type = {
	.kind = RUT_T_INT, .size = 8, .align = 8, .is_signed = true};
static const struct rut_type str_type = {.kind = RUT_T_STRING, .size = 16, .align = 1};
static const struct rut_type hist_type = {.kind = RUT_T_HIST, .is_signed = true};
static const struct rut_type avg_type = {.kind = RUT_T_AVG, .is_signed = true, .size = 16};
static const struct rut_type_field pair_fields[] = {{.type = &int64_type, .offset = 0},
						    {.type = &str_type, .offset = 8}};
static const struct rut_type pair_type = {.kind = RUT_T_TUPLE,
					  .size = 24,
					  .align = 8,
					  .nfields = 2,
					  .fields = (struct rut_type_field *)pair_fields};
static const struct rut_script_style plain;

static void add_row(struct rut_script_rows *r, const struct rut_script_map *m, const void *key,
		    const void *value, size_t bytes)
{
	assert_int_equal(rut_script_rows_add(r, m, key, value, 1, bytes), 0);
}

static void add_hist(uint64_t *words, const struct rut_type *t, int64_t v)
{
	words[rut_script_hist_slot(v, t->bits)]++;
}

static void assert_metrics(const struct rut_script_map *m, struct rut_script_rows *r,
			   const char *want)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;

	assert_int_equal(rut_script_rows_sort(r, m, RUT_SCRIPT_BY_VALUE, false), 0);
	rut_script_metrics_map(&plain, m, r, &out);
	assert_string_equal(out.data, want);
	rut_script_rows_fini(r);
}

static void test_metrics_have_labels(void **state)
{
	const struct rut_type count = {.kind = RUT_T_COUNT};
	struct rut_script_map m = {.name = "@calls", .key = &pair_type, .value = &count};
	struct rut_script_map text = {.name = "@", .value = &str_type};
	struct rut_script_map avg = {.name = "@v", .key = &int64_type, .value = &avg_type};
	struct rut_script_rows r;
	struct {
		int64_t n;
		char text[16];
	} key = {3, "a\"b\\\n\xff"};
	char value[16] = "x y";

	rut_script_rows_init(&r, &m);
	add_row(&r, &m, &key, &(uint64_t){7}, 8);
	assert_metrics(
		&m, &r,
		"# TYPE rutile_script_calls counter\n"
		"rutile_script_calls_total{key0=\"3\",key1=\"a\\\"b\\\\\\n\xef\xbf\xbd\"} 7\n");
	rut_script_rows_init(&r, &text);
	add_row(&r, &text, NULL, value, 16);
	assert_metrics(&text, &r,
		       "# TYPE rutile_script_map info\n"
		       "rutile_script_map_info{value=\"x y\"} 1\n");
	rut_script_rows_init(&r, &avg);
	add_row(&r, &avg, &(int64_t){-1}, (int64_t[]){-7, 2}, 16);
	assert_metrics(&avg, &r,
		       "# TYPE rutile_script_v summary\n"
		       "rutile_script_v_count{key=\"-1\"} 2\n"
		       "rutile_script_v_sum{key=\"-1\"} -7\n");
}

/* Numbers are in order also where some are none, which come last: by value, and as keys. */
static void test_rows_with_nan_are_in_order(void **state)
{
	static const double values[] = {3, NAN, 1, NAN, 2, NAN, 0.5, -1, NAN, 2.5};
	static const double sorted[] = {-1, 0.5, 1, 2, 2.5, 3};
	enum {
		COUNT = sizeof(values) / sizeof(*values),
		NUMBERS = sizeof(sorted) / sizeof(*sorted)
	};
	const struct rut_type real = {.kind = RUT_T_FLOAT, .size = 8, .align = 8};
	struct rut_script_map m = {.name = "@", .key = &int64_type, .value = &real};
	struct rut_script_map keys = {.name = "@", .key = &real, .value = &int64_type};
	struct rut_script_rows r, by_key;

	rut_script_rows_init(&r, &m);
	rut_script_rows_init(&by_key, &keys);
	for (int64_t i = 0; i < COUNT; i++) {
		add_row(&r, &m, &i, &values[i], 8);
		add_row(&by_key, &keys, &values[i], &i, 8);
	}
	assert_int_equal(rut_script_rows_sort(&r, &m, RUT_SCRIPT_BY_VALUE, false), 0);
	assert_int_equal(rut_script_rows_sort(&by_key, &keys, RUT_SCRIPT_BY_KEY, false), 0);
	for (size_t i = 0; i < COUNT; i++) {
		double v = rut_script_value_real(&real, r.rows[i].value),
		       k = rut_script_value_real(&real, by_key.rows[i].key);

		assert_true(i < NUMBERS ? v == sorted[i] : isnan(v));
		assert_true(i < NUMBERS ? k == sorted[i] : isnan(k));
	}
	rut_script_rows_fini(&r);
	rut_script_rows_fini(&by_key);
}

static void test_histograms_as_metrics_are_cumulative(void **state)
{
	const struct rut_type ten = {.kind = RUT_T_LHIST, .min = 0, .max = 20, .step = 10};
	struct rut_script_map m = {.name = "@h", .key = &int64_type, .value = &hist_type};
	struct rut_script_map lin = {.name = "@l", .value = &ten};
	uint64_t words[66] = {0}, slots[4] = {1, 2, 3, 4};
	struct rut_script_rows r;

	add_hist(words, &hist_type, -5);
	add_hist(words, &hist_type, 1);
	add_hist(words, &hist_type, 1);
	add_hist(words, &hist_type, 3);
	rut_script_rows_init(&r, &m);
	add_row(&r, &m, &(int64_t){9}, words, sizeof(words));
	assert_metrics(&m, &r,
		       "# TYPE rutile_script_h histogram\n"
		       "rutile_script_h_bucket{key=\"9\",le=\"-1\"} 1\n"
		       "rutile_script_h_bucket{key=\"9\",le=\"0\"} 1\n"
		       "rutile_script_h_bucket{key=\"9\",le=\"1\"} 3\n"
		       "rutile_script_h_bucket{key=\"9\",le=\"3\"} 4\n"
		       "rutile_script_h_bucket{key=\"9\",le=\"+Inf\"} 4\n"
		       "rutile_script_h_count{key=\"9\"} 4\n");
	rut_script_rows_init(&r, &lin);
	add_row(&r, &lin, NULL, slots, sizeof(slots));
	assert_metrics(&lin, &r,
		       "# TYPE rutile_script_l histogram\n"
		       "rutile_script_l_bucket{le=\"-1\"} 1\n"
		       "rutile_script_l_bucket{le=\"9\"} 3\n"
		       "rutile_script_l_bucket{le=\"19\"} 6\n"
		       "rutile_script_l_bucket{le=\"+Inf\"} 10\n"
		       "rutile_script_l_count 10\n");
}

static int connect_to(unsigned port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return connect(fd, (struct sockaddr *)&to, sizeof(to)) ? -1 : fd;
}

static void ask(unsigned port, const char *request, char *answer, size_t room)
{
	int fd = connect_to(port);
	size_t len = 0;
	ssize_t n;

	assert_true(fd >= 0);
	assert_int_equal(send(fd, request, strlen(request), 0), (ssize_t)strlen(request));
	while ((n = recv(fd, answer + len, room - 1 - len, 0)) > 0)
		len += (size_t)n;
	answer[len] = '\0';
	close(fd);
}

/*
 * A client that sends a byte now and then. Exits with 0 when the server has closed. It connects
 * only after the fork: a child that had the server's end of the connection, too, would keep it
 * open.
 */
static pid_t start_slow_client(unsigned port)
{
	int connected[2], fd;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(connected), 0);
	pid = fork();
	if (!pid) {
		fd = connect_to(port);
		if (fd < 0 || write(connected[1], "", 1) != 1)
			_exit(1);
		for (int i = 0; i < 600; i++) {
			if (send(fd, "G", 1, MSG_NOSIGNAL) < 0)
				_exit(0);
			usleep(100000);
		}
		_exit(1);
	}
	close(connected[1]);
	assert_int_equal(read(connected[0], &byte, 1), 1);
	close(connected[0]);
	return pid;
}

static void test_slow_clients_are_left(void **state)
{
	struct rut_script_metrics *m;
	char answer[4096];
	unsigned port;
	int status;
	pid_t pid;

	assert_int_equal(rut_script_metrics_start(&m, "0", &plain, NULL, 0, NULL), 0);
	port = rut_script_metrics_port(m);
	pid = start_slow_client(port);
	/* On a busy machine we, too, may be taken for slow. */
	for (int tries = 0; tries < 5; tries++) {
		ask(port, "GET /metrics HTTP/1.1\r\n\r\n", answer, sizeof(answer));
		if (*answer)
			break;
	}
	assert_non_null(strstr(answer, "200 OK"));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	rut_script_metrics_stop(m);
}

static void test_metrics_are_served(void **state)
{
	struct rut_script_metrics *m;
	struct rut_err err = RUT_ERR_INIT;
	char answer[4096];
	unsigned port;

	assert_int_equal(rut_script_metrics_start(&m, "0", &plain, NULL, 0, &err), 0);
	port = rut_script_metrics_port(m);
	ask(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", answer, sizeof(answer));
	assert_non_null(strstr(answer, "200 OK"));
	assert_non_null(strstr(answer, "\r\n\r\n# EOF\n"));
	ask(port, "GET /other HTTP/1.1\r\n\r\n", answer, sizeof(answer));
	assert_non_null(strstr(answer, "404"));
	ask(port, "POST /metrics HTTP/1.1\r\n\r\n", answer, sizeof(answer));
	assert_non_null(strstr(answer, "405"));
	rut_script_metrics_stop(m);
	assert_int_equal(rut_script_metrics_start(&m, "127.0.0.1:99999", &plain, NULL, 0, &err),
			 -EINVAL);
	assert_int_equal(rut_script_metrics_start(&m, "/no/such/dir/x", &plain, NULL, 0, &err),
			 -ENOENT);
}

static void test_metrics_go_to_a_file(void **state)
{
	char dir[] = "/tmp/rutile-metrics.XXXXXX", path[64], link[80], other[64];
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	struct rut_script_metrics *m;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/m.prom", dir);
	/* Another user has guessed the name of the temporary file. */
	snprintf(link, sizeof(link), "%s.%d", path, getpid());
	snprintf(other, sizeof(other), "%s/other", dir);
	assert_int_equal(symlink(other, link), 0);
	assert_int_equal(rut_script_metrics_start(&m, path, &plain, NULL, 0, NULL), 0);
	rut_script_metrics_stop(m);
	assert_int_equal(rut_buf_read_file(&text, path, 4096), 0);
	assert_string_equal(text.data, "# EOF\n");
	assert_int_equal(access(other, F_OK), -1);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* ---- scripts by name ---- */

static void write_text(const char *dir, const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void test_scripts_are_found_by_name(void **state)
{
	char dir[] = "/tmp/rutile-scripts.XXXXXX", path[128];
	struct rut_script_entry *list;
	struct rut_err err = RUT_ERR_INIT;
	size_t count, found = 0;
	char *where;

	assert_non_null(mkdtemp(dir));
	write_text(dir, "zz_first.bt", "// zz_first: what it does\nbegin {}\n");
	write_text(dir, "zz_second.bt", "begin {}\n");
	write_text(dir, "other.txt", "// other: not a script\n");
	setenv("RUTILE_SCRIPTS", dir, 1);
	assert_int_equal(rut_script_library_list(&list, &count), 0);
	for (size_t i = 0; i < count; i++) {
		assert_string_not_equal(list[i].name, "other");
		if (!strcmp(list[i].name, "zz_first")) {
			assert_string_equal(list[i].summary, "what it does");
			found++;
		} else if (!strcmp(list[i].name, "zz_second")) {
			assert_string_equal(list[i].summary, "");
			found++;
		}
	}
	assert_int_equal(found, 2);
	rut_script_library_free(list, count);

	assert_int_equal(rut_script_library_find(&where, "zz_second", &err), 0);
	snprintf(path, sizeof(path), "%s/zz_second.bt", dir);
	assert_string_equal(where, path);
	free(where);
	assert_int_equal(rut_script_library_find(&where, "zz_frist", &err), -ENOENT);
	assert_non_null(strstr(err.msg, "did you mean 'zz_first'?"));
	assert_int_equal(rut_script_library_find(&where, "../zz_first", &err), -ENOENT);
	unlink(path);
	snprintf(path, sizeof(path), "%s/zz_first.bt", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/other.txt", dir);
	unlink(path);
	assert_int_equal(rmdir(dir), 0);
	unsetenv("RUTILE_SCRIPTS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_metrics_have_labels),
		cmocka_unit_test(test_rows_with_nan_are_in_order),
		cmocka_unit_test(test_histograms_as_metrics_are_cumulative),
		cmocka_unit_test(test_metrics_are_served),
		cmocka_unit_test(test_slow_clients_are_left),
		cmocka_unit_test(test_metrics_go_to_a_file),
		cmocka_unit_test(test_scripts_are_found_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
