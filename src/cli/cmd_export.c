/* SPDX-License-Identifier: MIT */
/* `rutile export` and `rutile serve-metrics`: results of an analysis for databases of metrics. */
#include "cli/cmd.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/export.h"
#include "base/log.h"
#include "cli/analysis_opts.h"
#include "cli/analysis_run.h"
#include "cli/trace_open.h"
#include "cli/verbs.h"
#include "script/metrics.h"
#include "stream/publish.h"

#define A(verb, ...) extern const struct rut_cmd cmd_##verb;
RUT_ANALYSES(A)
#undef A
#define A(verb, analysis, ...) extern const struct rut_analysis rut_analysis_##analysis;
RUT_ANALYSES(A)
#undef A

enum { OPT_TO = 256, OPT_URL, OPT_LISTEN, OPT_HOST, TRIES = 6 };

#define PAUSE_MS 200 /* before the second try; doubled for each further one */

#define INTERVAL_NS 10000000000ull

struct export
{
	enum rut_export_format format;
	bool to, serve;
	const char *url;    /* NULL: standard output */
	const char *listen; /* of serve-metrics */
	char host[256];
	const char *analysis;
	struct rut_buf text;
	pthread_mutex_t lock; /* of `served` */
	struct rut_buf served;
	bool failed;
	bool away; /* the server had no answer to the last report, however often it was asked */
};

static const struct verb {
	const struct rut_cmd *cmd;
	const struct rut_analysis *analysis;
	void (*defaults)(struct rut_conf *c);
} verbs[] = {
#define A(verb, analysis, shows, ...) {&cmd_##verb, &rut_analysis_##analysis, rut_cli_want_##shows},
	RUT_ANALYSES(A)
#undef A
};

/* ---- What becomes of a report ---- */

/* What may pass. What is wrong with the report, the address or the right to it stays wrong. */
static bool is_passing(int rc)
{
	return rc == -EBUSY || rc == -ETIMEDOUT || rc == -ECONNRESET || rc == -ECONNREFUSED ||
	       rc == -EPIPE;
}

static void post(struct export *e)
{
	const char *type = e->format == RUT_EXPORT_OPENMETRICS
				   ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
				   : "application/json";
	struct rut_err err = RUT_ERR_INIT;
	const int tries = e->away ? 1 : TRIES;
	int rc = rut_publish(e->url, NULL, type, e->text.data, e->text.len, &err);

	for (int i = 1; i < tries && is_passing(rc); i++) {
		poll(NULL, 0, PAUSE_MS << (i - 1));
		err = (struct rut_err)RUT_ERR_INIT;
		rc = rut_publish(e->url, NULL, type, e->text.data, e->text.len, &err);
	}
	e->away = is_passing(rc);
	e->failed |= rc != 0;
	if (rc)
		rut_warn("a report is lost: %s", err.msg);
}

static void take(void *arg, const struct rut_results *results)
{
	struct export *e = arg;

	if (!results->n)
		return;
	rut_buf_clear(&e->text);
	rut_an_export(e->format, results, e->analysis, e->host, &e->text);
	if (e->format == RUT_EXPORT_OPENMETRICS)
		rut_buf_puts(&e->text, "# EOF\n");
	if (e->text.failed || results->failed) {
		e->failed = true;
		rut_warn("a report is lost: out of memory");
	} else if (e->serve) {
		pthread_mutex_lock(&e->lock);
		rut_buf_clear(&e->served);
		rut_buf_add(&e->served, e->text.data, e->text.len);
		pthread_mutex_unlock(&e->lock);
	} else if (e->url) {
		post(e);
	} else {
		e->failed |= rut_cli_write_out(&e->text) != 0;
	}
}

/* In the server's thread. */
static int serve_text(void *arg, struct rut_buf *out)
{
	struct export *e = arg;

	pthread_mutex_lock(&e->lock);
	if (e->served.len)
		rut_buf_add(out, e->served.data, e->served.len);
	else
		rut_buf_puts(out, "# EOF\n");
	pthread_mutex_unlock(&e->lock);
	return out->failed ? -1 : 0;
}

/* ---- The command line ---- */

static int set_format(const struct rut_cmd *cmd, struct export *e, const char *value)
{
	static const char *const names[] = {"openmetrics", "clickhouse", "otlp"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(value, names[i])) {
			e->format = (enum rut_export_format)i;
			e->to = true;
			return 0;
		}
	return rut_cli_usage_error(cmd, "'%s' is none of: openmetrics, clickhouse, otlp", value);
}

/* Options end with the name of the analysis: what follows is its own. Returns its place. */
static int parse(const struct rut_cmd *cmd, struct export *e, int argc, char **argv, int *ret_at)
{
	struct rut_args a;
	int id, rc = 0;

	rut_cli_args_init(&a, cmd, argc, argv);
	while (!rc && (id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_HELP)
			return -1;
		if (id == RUT_ARGS_BAD)
			return RUT_EXIT_USAGE;
		if (id == RUT_ARGS_POSITIONAL) {
			*ret_at = a.next - 1;
			return e->to || e->serve
				       ? 0
				       : rut_cli_usage_error(
						 cmd, "--to what? openmetrics, clickhouse or otlp");
		}
		if (id == OPT_TO)
			rc = set_format(cmd, e, a.value);
		else if (id == OPT_URL)
			e->url = a.value;
		else if (id == OPT_LISTEN)
			e->listen = a.value;
		else if (id == OPT_HOST)
			snprintf(e->host, sizeof(e->host), "%s", a.value);
	}
	return rc ? rc : rut_cli_usage_error(cmd, "which analysis? For example syscallstats");
}

static int run_analysis(const struct rut_cmd *cmd, struct export *e, const struct verb *v, int argc,
			char **argv)
{
	struct rut_analysis_args a = {.analysis = v->analysis};
	const struct rut_analysis *analysis = v->analysis;
	struct rut_script_metrics *server = NULL;
	struct rut_err err = RUT_ERR_INIT;
	int rc;

	v->defaults(&a.conf);
	rc = rut_cli_analysis_args_parse(&a, v->cmd, argc, argv);
	if (rc < 0 && !a.n_paths)
		rc = rut_cli_analysis_usage(&a, "which trace? Give the path of its directory");
	a.conf.mi = true;
	a.sink = take;
	a.sink_arg = e;
	a.no_progress = true;
	if (rc < 0 && e->serve) {
		a.follow = true;
		if (!a.conf.refresh_ns)
			a.conf.refresh_ns = INTERVAL_NS;
		if (rut_script_metrics_start_text(&server, e->listen, serve_text, e, &err))
			rc = rut_cli_fail(cmd, &err);
	}
	if (rc < 0)
		rc = rut_cli_analysis_run(&a, &analysis, 1);
	rut_script_metrics_stop(server);
	rut_cli_analysis_args_fini(&a);
	return rc;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct export e = {.serve = !strcmp(cmd->name, "serve-metrics"),
			   .listen = "9464",
			   .lock = PTHREAD_MUTEX_INITIALIZER};
	const struct verb *v = NULL;
	int at = 0, rc;

	gethostname(e.host, sizeof(e.host) - 1);
	rc = parse(cmd, &e, argc, argv, &at);
	if (rc)
		return rc < 0 ? RUT_EXIT_OK : rc;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		if (!strcmp(verbs[i].cmd->name, argv[at]))
			v = &verbs[i];
	if (!v || v->analysis == &rut_analysis_diff || v->analysis == &rut_analysis_wakeupchain)
		return rut_cli_usage_error(cmd, "'%s' is not an analysis whose tables are metrics",
					   argv[at]);
	e.analysis = v->cmd->name;
	rc = run_analysis(cmd, &e, v, argc - at, argv + at);
	rut_buf_fini(&e.text);
	rut_buf_fini(&e.served);
	return rc ? rc : e.failed ? RUT_EXIT_FAIL : RUT_EXIT_OK;
}

static const struct rut_opt export_options[] = {
	{"to", "FORMAT", "openmetrics, clickhouse (JSONEachRow) or otlp (JSON)", OPT_TO},
	{"url", "URL", "POST each report there (default: standard output)", OPT_URL},
	{"host", "NAME", "the label host (default: this machine's name)", OPT_HOST},
	{0},
};

static const struct rut_opt serve_options[] = {
	{"listen", "WHERE",
	 "a port of 127.0.0.1, ADDRESS:PORT, or a file to replace (default 9464)", OPT_LISTEN},
	{"host", "NAME", "the label host (default: this machine's name)", OPT_HOST},
	{0},
};

const struct rut_cmd cmd_export = {
	.name = "export",
	.group = "Analyses of kernel traces",
	.summary = "write the results of an analysis for a metrics database",
	.usage = "--to FORMAT [--url URL] ANALYSIS [OPTIONS] TRACE...",
	.options = export_options,
	.run = run,
};

const struct rut_cmd cmd_serve_metrics = {
	.name = "serve-metrics",
	.group = "Analyses of kernel traces",
	.summary = "serve the results of an analysis over HTTP as OpenMetrics",
	.usage = "[--listen WHERE] ANALYSIS [OPTIONS] TRACE...",
	.options = serve_options,
	.run = run,
};
