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

/* The command line. */
struct options {
	struct rut_tracer_config config;
	const char *paths[9], *classes[9], *methods[9];
	double seconds;
	bool verbose, quiet;
	const char *until;
	int ready_fd;
};

static bool read_options(struct options *o, int argc, char **argv)
{
	int np = 0, nk = 0, nm = 0, c;

	while ((c = getopt(argc, argv, "m:s:p:k:M:cvqraeS:I:w:u:")) != -1) {
		switch (c) {
		case 'm':
			for (unsigned i = 0; i < sizeof(modes) / sizeof(*modes); i++)
				if (strcmp(modes[i], optarg) == 0)
					o->config.mode = (enum rut_ruby_mode)i;
			break;
		case 's':
			o->seconds = strtod(optarg, NULL);
			break;
		case 'p':
			o->paths[np++ & 7] = optarg;
			break;
		case 'k':
			o->classes[nk++ & 7] = optarg;
			break;
		case 'M':
			o->methods[nm++ & 7] = optarg;
			break;
		case 'c':
			o->config.filter.c_calls = true;
			break;
		case 'v':
			o->verbose = true;
			break;
		case 'q':
			o->quiet = true;
			break;
		case 'r':
			o->config.returns = true;
			break;
		case 'a':
			o->config.args = true;
			break;
		case 'e':
			o->config.exceptions = true;
			break;
		case 'S':
			o->config.slow_ns = strtoull(optarg, NULL, 10);
			break;
		case 'w': /* write to this descriptor when everything is counted */
			o->ready_fd = atoi(optarg);
			break;
		case 'u':
			o->until = optarg;
			break;
		case 'I':
			o->config.inside = optarg;
			break;
		default:
			return false;
		}
	}
	o->config.filter.paths = np ? o->paths : NULL;
	o->config.filter.classes = nk ? o->classes : NULL;
	o->config.filter.methods = nm ? o->methods : NULL;
	return true;
}

int main(int argc, char **argv)
{
	struct options o = {.ready_fd = -1};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_tracer *t;
	double begin = now_s();
	pid_t child = 0;
	int r = 0;

	if (!read_options(&o, argc, argv))
		return 2;
	if (rut_tracer_new(&t, &o.config, &err) < 0)
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
	if (o.verbose)
		fprintf(stderr, "attached after %.1f ms\n", (now_s() - begin) * 1e3);
	while (o.ready_fd >= 0 && !rut_tracer_settled(t) && now_s() - begin < 60)
		if (rut_tracer_poll(t, 10, &err) <= 0)
			break;
	if (o.ready_fd >= 0 && (write(o.ready_fd, "\n", 1) != 1 || close(o.ready_fd) < 0))
		goto fail;
	begin = now_s();
	while (!o.seconds || now_s() - begin < o.seconds) {
		double left = o.seconds ? o.seconds - (now_s() - begin) : 0.2;

		if (o.until && !access(o.until, F_OK))
			break;

		r = rut_tracer_poll(t, left < 0.05 ? (int)(left * 1e3) : 50, &err);
		if (r <= 0)
			break;
	}
	if (r < 0 || (!o.quiet && print_rows(t, &err) < 0))
		goto fail;
	rut_tracer_free(t);
	if (child)
		waitpid(child, NULL, 0);
	return 0;
fail:
	fprintf(stderr, "trace_tool: %s\n", err.msg);
	return 1;
}
