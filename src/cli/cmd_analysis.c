/* SPDX-License-Identifier: MIT */
/*
 * The analyses of kernel traces: one verb each, all of one kind.
 *
 * They are those of lttng-analyses, with its options and output; links called lttng-NAME and
 * lttng-NAME-mi (the latter: JSON) behave as its commands.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/diff.h"
#include "analysis/fmt.h"
#include "base/log.h"
#include "cli/analysis_opts.h"
#include "cli/analysis_run.h"
#include "cli/nats_source.h"
#include "cli/report.h"
#include "cli/trace_open.h"
#include "cli/verbs.h"
#include "rut_config.h"
#include "stream/nats_url.h"

struct verb {
	const char *name;
	const struct rut_analysis *analysis;
	void (*defaults)(struct rut_conf *c);
};

void rut_cli_want_stats(struct rut_conf *c)
{
	c->stats = true;
}

void rut_cli_want_log(struct rut_conf *c)
{
	c->log = true;
}

void rut_cli_want_top(struct rut_conf *c)
{
	c->top = true;
}

void rut_cli_want_freq(struct rut_conf *c)
{
	c->freq = true;
}

void rut_cli_want_usage(struct rut_conf *c)
{
	c->usage = true;
}

void rut_cli_want_series(struct rut_conf *c)
{
	c->refresh_ns = 1000000000;
}

void rut_cli_want_nothing(struct rut_conf *c)
{
	(void)c;
}

static const struct verb verbs[] = {
#define A(verb, analysis, shows, ...) {#verb, &rut_analysis_##analysis, rut_cli_want_##shows},
	RUT_ANALYSES(A)
#undef A
};

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		if (!strcmp(verbs[i].name, name))
			return &verbs[i];
	return NULL;
}

/* Was it called as lttng-NAME-mi? */
static bool called_mi(const char *argv0)
{
	size_t len = strlen(argv0);

	return len > 3 && !strcmp(argv0 + len - 3, "-mi");
}

static int print_metadata(const struct rut_cmd *cmd, const struct verb *v)
{
	struct rut_err err = RUT_ERR_INIT;
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	rut_an_lami_metadata(&v->analysis->info, RUT_VERSION, &b);
	/* Longer than the buffer: a failure is that of fputs() then. */
	if ((fputs(b.data, stdout) < 0 || fflush(stdout)) && errno != EPIPE) {
		rut_err_errno(&err, errno, "cannot write");
		return rut_cli_fail(cmd, &err);
	}
	return RUT_EXIT_OK;
}

/* What the analysis wants before the traces. */
static int take_argument(struct rut_analysis_args *a)
{
	if (!a->n_paths || a->analysis->option(a->own, RUT_ANALYSIS_ARGUMENT, a->paths[0]))
		return rut_cli_analysis_usage(a, "%s", a->analysis->argument);
	memmove(a->paths, a->paths + 1, --a->n_paths * sizeof(*a->paths));
	return -1;
}

/* Which processes are put together: those of one name, or of one control group. */
static int check_by(const struct rut_analysis_args *a)
{
	const char *by = a->conf.by;

	if (by && strcmp(by, "process") != 0 && strcmp(by, "cgroup") != 0)
		return rut_cli_analysis_usage(a, "--by %s: this verb knows process and cgroup", by);
	return -1;
}

static int check_options(const struct rut_analysis_args *a)
{
	struct rut_err err = RUT_ERR_INIT;

	if (a->analysis->check && a->analysis->check(&a->conf, &err))
		return rut_cli_analysis_usage(a, "%s", err.msg);
	return -1;
}

static int check_diff(const struct rut_analysis_args *a, const struct rut_diff *d)
{
	if (a->n_paths > 2)
		return rut_cli_analysis_usage(a, "diff compares only two traces");
	if (a->n_paths == 1 && (!d->ranges[0] || !d->ranges[1]))
		return rut_cli_analysis_usage(
			a, "which is B? Give another trace, or two intervals: --a and --b");
	if (a->conf.refresh_ns || a->set.n || a->follow || a->hosts)
		return rut_cli_analysis_usage(
			a,
			"diff compares two intervals: no --refresh, --period, --follow or --hosts");
	for (size_t i = 0; i < a->n_paths; i++)
		if (rut_nats_url_is(a->paths[i]) && !rut_cli_nats_source_is_one(a->paths[i]))
			return rut_cli_analysis_usage(
				a, "diff reads one host a side: nats://SERVER/STREAM/HOST");
	return -1;
}

/* A pass over each side; the report of the second compares them. */
static int run_diff(struct rut_analysis_args *a, const struct rut_analysis *analysis)
{
	struct rut_diff *diff = a->own;
	int rc = check_diff(a, diff);

	for (size_t i = 0; rc < 0 && i < 2; i++) {
		struct rut_analysis_args side = *a;
		const char *path = a->paths[i < a->n_paths ? i : 0];

		side.paths = &path;
		side.n_paths = 1;
		side.quiet = !i;
		if (diff->ranges[i])
			side.timerange = diff->ranges[i];
		rc = rut_cli_analysis_run(&side, &analysis, 1);
		if (!rc && diff->n <= i && !a->test_compatibility)
			rc = RUT_EXIT_FAIL; /* no event: that was reported */
		else if (!i && !rc)
			rc = -1;
	}
	return rc;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	const struct verb *v = find_verb(cmd->name);
	struct rut_analysis_args a = {.conf.mi = called_mi(argv[0]), .analysis = v->analysis};
	int rc;

	v->defaults(&a.conf);
	a.skip_validation = v->analysis == &rut_analysis_series; /* CSV from the first line on */
	rc = rut_cli_analysis_args_parse(&a, cmd, argc, argv);
	if (rc < 0 && a.mi_version) {
		puts("1.0");
		rc = RUT_EXIT_OK;
	}
	if (rc < 0 && a.metadata)
		rc = print_metadata(cmd, v);
	if (rc < 0 && v->analysis->argument)
		rc = take_argument(&a);
	if (rc < 0 && !a.n_paths)
		rc = rut_cli_analysis_usage(&a, "which trace? Give the path of its directory");
	if (rc < 0 && v->analysis != &rut_analysis_series)
		rc = check_by(&a);
	if (rc < 0)
		rc = check_options(&a);
	if (rc < 0 && v->analysis == &rut_analysis_diff)
		rc = run_diff(&a, v->analysis);
	if (rc < 0)
		rc = rut_cli_analysis_run(&a, &v->analysis, 1);
	rut_cli_analysis_args_fini(&a);
	return rc;
}

#define GROUP_KERNEL "Analyses of kernel traces"
#define GROUP_RUBY   "Analyses of Ruby events in traces"
#define USAGE_TRACES "[OPTIONS] TRACE..."
#define USAGE_TID    "[OPTIONS] TID TRACE..."
#define USAGE_PAIR   "[OPTIONS] A [B]"
#define A(verb, analysis, shows, opts, arguments, title, text)                                     \
	const struct rut_cmd cmd_##verb = {                                                        \
		.name = #verb,                                                                     \
		.group = GROUP_##title,                                                            \
		.summary = text,                                                                   \
		.usage = USAGE_##arguments,                                                        \
		.options = rut_cli_opts_##opts,                                                    \
		.more = &rut_analysis_##analysis.options,                                          \
		.run = run,                                                                        \
	};
RUT_ANALYSES(A)
#undef A
