/* SPDX-License-Identifier: MIT */
/*
 * Drives the tracer for the tests: trace_tool [-m MODE] [-s SECONDS] [-p GLOB] [-k GLOB] [-M GLOB]
 * [-c] [-w FD] [-u FILE] PID... | -- COMMAND. Prints the rows at the end, tab-separated, sorted by
 * nothing. The end is that of the target, or comes after so many seconds, or with FILE.
 */
#include "base/cleanup.h"
#include "base/err.h"
#include "ruby/tracer.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const modes[] = {"calls",  "time",	 "objects-total", "objects",
				    "arrays", "strings", "trace"};

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void print_event(const struct rut_ruby_event *ev, void *arg)
{
	static const char *const types[] = {"call", "return", "raise", "slow",
					    "lost", "start",  "exit"};

	printf("%s\t%d\t%u\t%u\t%s%s%s\t%s:%u\t%s\t%llu\n", types[ev->type], (int)ev->pid,
	       ev->depth, ev->fiber, ev->class_name ? ev->class_name : "",
	       ev->singleton ? "." : "#", ev->method_name ? ev->method_name : "",
	       ev->path ? ev->path : "", ev->line, ev->args ? ev->args : "",
	       (unsigned long long)(ev->type == RUT_RUBY_EVENT_LOST ? ev->lost : ev->duration_ns));
	for (size_t i = 0; i < ev->caller_count; i++)
		printf("\tfrom\t%s#%s\t%s:%u\n", ev->callers[i].class_name,
		       ev->callers[i].method_name, ev->callers[i].path, ev->callers[i].line);
}

static int print_rows(struct rut_tracer *t, struct rut_err *err)
{
	const struct rut_ruby_row *rows;
	size_t n;
	int r = rut_tracer_rows(t, &rows, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		printf("%s\t%u\t%s%s%s\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\n",
		       rows[i].path ? rows[i].path : "", rows[i].line,
		       rows[i].class_name ? rows[i].class_name : "",
		       rows[i].method_name ? (rows[i].singleton ? "." : "#") : "",
		       rows[i].method_name ? rows[i].method_name : "",
		       (unsigned long long)rows[i].calls, (unsigned long long)rows[i].total_ns,
		       (unsigned long long)rows[i].self_ns, (unsigned long long)rows[i].max_ns,
		       (unsigned long long)(rows[i].count + rows[i].running),
		       (unsigned long long)rows[i].bytes);
	return r;
}

int main(int argc, char **argv)
{
	struct rut_tracer_config config = {0};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_tracer *t;
	const char *paths[9] = {0}, *classes[9] = {0}, *methods[9] = {0};
	int np = 0, nk = 0, nm = 0, c, r = 0;
	double seconds = 0, begin = now_s();
	bool verbose = false, quiet = false;
	pid_t child = 0;
	const char *until = NULL;
	int ready_fd = -1;

	while ((c = getopt(argc, argv, "m:s:p:k:M:cvqraeS:I:w:u:")) != -1) {
		switch (c) {
		case 'm':
			for (unsigned i = 0; i < sizeof(modes) / sizeof(*modes); i++)
				if (strcmp(modes[i], optarg) == 0)
					config.mode = (enum rut_ruby_mode)i;
			break;
		case 's':
			seconds = strtod(optarg, NULL);
			break;
		case 'p':
			paths[np++ & 7] = optarg;
			break;
		case 'k':
			classes[nk++ & 7] = optarg;
			break;
		case 'M':
			methods[nm++ & 7] = optarg;
			break;
		case 'c':
			config.filter.c_calls = true;
			break;
		case 'v':
			verbose = true;
			break;
		case 'q':
			quiet = true;
			break;
		case 'r':
			config.returns = true;
			break;
		case 'a':
			config.args = true;
			break;
		case 'e':
			config.exceptions = true;
			break;
		case 'S':
			config.slow_ns = strtoull(optarg, NULL, 10);
			break;
		case 'w': /* tell this descriptor when everything is counted */
			ready_fd = atoi(optarg);
			break;
		case 'u':
			until = optarg;
			break;
		case 'I':
			config.inside = optarg;
			break;
		default:
			return 2;
		}
	}
	config.filter.paths = np ? paths : NULL;
	config.filter.classes = nk ? classes : NULL;
	config.filter.methods = nm ? methods : NULL;
	if (rut_tracer_new(&t, &config, &err) < 0)
		goto fail;
	rut_tracer_on_event(t, print_event, NULL);
	if (argc > optind && strcmp(argv[optind - 1], "--") == 0) {
		child = rut_tracer_spawn(t, &argv[optind], &err);
		if (child < 0)
			goto fail;
	} else {
		for (; optind < argc; optind++)
			if (rut_tracer_attach(t, (pid_t)atoi(argv[optind]), true, &err) < 0)
				goto fail;
	}
	if (verbose)
		fprintf(stderr, "attached after %.1f ms\n", (now_s() - begin) * 1e3);
	while (ready_fd >= 0 && !rut_tracer_settled(t) && now_s() - begin < 60)
		if (rut_tracer_poll(t, 10, &err) <= 0)
			break;
	if (ready_fd >= 0 && (write(ready_fd, "\n", 1) != 1 || close(ready_fd) < 0))
		goto fail;
	begin = now_s();
	while (!seconds || now_s() - begin < seconds) {
		double left = seconds ? seconds - (now_s() - begin) : 0.2;

		if (until && !access(until, F_OK))
			break;

		r = rut_tracer_poll(t, left < 0.05 ? (int)(left * 1e3) : 50, &err);
		if (r <= 0)
			break;
	}
	if (r < 0 || (!quiet && print_rows(t, &err) < 0))
		goto fail;
	rut_tracer_free(t);
	if (child)
		waitpid(child, NULL, 0);
	return 0;
fail:
	fprintf(stderr, "trace_tool: %s\n", err.msg);
	return 1;
}
