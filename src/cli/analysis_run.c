/* SPDX-License-Identifier: MIT */
/* Opening, time ranges, progress, following, printing: what all analyses share on the outside. */
#include "cli/analysis_run.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/fmt.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/proc.h"
#include "cli/hosts.h"
#include "cli/nats_source.h"
#include "cli/trace_open.h"
#include "ctf/when.h"
#include "output/screen.h"
#include "output/text.h"
#include "stream/conn.h"
#include "stream/nats_url.h"
#include "stream/viewer.h"

struct pass {
	struct rut_analysis_args *args;
	struct rut_ctf_set *set;       /* owned */
	struct rut_ctf_reader *reader; /* owned */
	struct rut_viewer *viewer;     /* owned; of a session at a relay daemon */
	struct rut_engine engine;
	int64_t begin_ns, end_ns; /* of the set */
	bool has_range;
	bool bar;     /* a progress bar on the terminal */
	bool cut;     /* the connection to the viewer was lost */
	int write_rc; /* of writing: -EPIPE when the reader has closed */
	uint64_t start_ns, shown_ns;
};

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

/* ---- Output ---- */

static void put(struct pass *p, struct rut_buf *b)
{
	if (!p->write_rc)
		p->write_rc = rut_cli_write_out(b);
	rut_buf_clear(b);
}

/* Names in it are untrusted bytes. */
static void put_text(struct pass *p, struct rut_buf *b)
{
	_cleanup_buf_ struct rut_buf clean = RUT_BUF_INIT;

	if (b->data)
		rut_text_add_lines(&clean, b->data);
	clean.failed = clean.failed || b->failed;
	rut_buf_clear(b);
	put(p, &clean);
}

static void put_part(struct rut_buf *b, void *arg)
{
	put(arg, b);
}

static void hide_bar(struct pass *p)
{
	if (p->bar && p->shown_ns)
		fprintf(stderr, "\r\033[K");
}

/* The tables of all analyses, one below the other. */
static void show_tables(struct pass *p)
{
	struct rut_buf text = RUT_BUF_INIT;

	for (size_t i = 0; i < p->engine.n_runs; i++) {
		struct rut_run *run = &p->engine.runs[i];

		if (p->engine.n_runs > 1)
			rut_buf_printf(&text, "%s== %s ==\n", i ? "\n" : "",
				       run->analysis->info.title);
		if (run->out.data)
			rut_text_add_lines(&text, run->out.data);
		text.failed |= run->out.failed;
		rut_buf_clear(&run->out);
	}
	p->args->live->tables(&text, p->args->live->arg);
	rut_buf_fini(&text);
}

/* Text is printed report by report; with several analyses, one after the other. */
static void flush(struct rut_run *run, void *arg)
{
	struct pass *p = arg;

	if (p->args->sink) {
		p->args->sink(p->args->sink_arg, &run->results);
		rut_an_results_clear(&run->results);
		return;
	}
	if (p->args->live) {
		if (run == &p->engine.runs[p->engine.n_runs - 1] && run->out.len)
			show_tables(p);
		return;
	}
	if (p->args->conf.mi || p->engine.n_runs > 1 || !run->out.len)
		return;
	hide_bar(p);
	put_text(p, &run->out);
}

static void print_text(struct pass *p)
{
	struct rut_buf b = RUT_BUF_INIT;

	for (size_t i = 0; i < p->engine.n_runs; i++) {
		struct rut_run *run = &p->engine.runs[i];

		if (p->engine.n_runs > 1) {
			rut_buf_printf(&b, "%s== %s ==\n", i ? "\n" : "",
				       run->analysis->info.title);
			put(p, &b);
		}
		put_text(p, &run->out);
	}
	rut_buf_fini(&b);
}

/* One analysis: LAMI. Several: an object of them by title. */
static void print_json(struct pass *p)
{
	struct rut_buf b = RUT_BUF_INIT;

	if (p->engine.n_runs > 1)
		rut_buf_puts(&b, "{\"reports\": {\n");
	for (size_t i = 0; i < p->engine.n_runs; i++) {
		struct rut_run *run = &p->engine.runs[i];

		if (p->engine.n_runs > 1) {
			rut_buf_puts(&b, i ? ", " : "");
			rut_an_json_str(&b, run->analysis->info.title);
			rut_buf_puts(&b, ": ");
		}
		rut_an_results_json(&run->results, &b, put_part, p);
	}
	if (p->engine.n_runs > 1)
		rut_buf_puts(&b, "}}\n");
	put(p, &b);
	rut_buf_fini(&b);
}

static void print_all(struct pass *p)
{
	hide_bar(p);
	if (p->args->sink)
		return;
	if (p->args->conf.mi)
		print_json(p);
	else
		print_text(p);
}

/* ---- Progress ---- */

static double fraction_done(const struct pass *p, int64_t ts_ns)
{
	struct rut_ctf_counts counts;
	uint64_t bytes = rut_ctf_set_bytes(p->set);
	double at;

	if (!p->args->progress_use_size && p->has_range && p->end_ns > p->begin_ns)
		at = (double)(ts_ns - p->begin_ns) / (double)(p->end_ns - p->begin_ns);
	else {
		rut_ctf_reader_counts(p->reader, &counts);
		at = bytes ? (double)counts.bytes_done / (double)bytes : 0;
	}
	return at < 0 ? 0 : at > 1 ? 1 : at;
}

static void print_progress(const struct pass *p, double at, int64_t ts_ns, uint64_t events)
{
	char from[64], to[64];

	rut_an_fmt_time(from, sizeof(from), ts_ns, false, false);
	rut_an_fmt_time(to, sizeof(to), p->end_ns, false, false);
	printf("%.4g %s/%s; %llu events processed\n", at, from, to, (unsigned long long)events);
	fflush(stdout);
}

/* Those that were passed over count too. */
static uint64_t events_read(const struct pass *p)
{
	struct rut_ctf_counts counts;

	rut_ctf_reader_counts(p->reader, &counts);
	return counts.events;
}

static void print_bar(struct pass *p, double at, uint64_t events, uint64_t now)
{
	double elapsed = (double)(now - p->start_ns) / 1e9;
	double left = at > 0.001 ? elapsed / at * (1 - at) : 0;
	char bar[31];
	int n = (int)(at * 30);

	memset(bar, ' ', 30);
	memset(bar, '#', (size_t)n);
	bar[30] = '\0';
	fprintf(stderr, "\r\033[K[%s] %3.0f%%  %.1f M events/s  %d:%02d left", bar, at * 100,
		elapsed > 0 ? (double)events / elapsed / 1e6 : 0, (int)left / 60, (int)left % 60);
}

static bool progress(const struct rut_engine *e, int64_t ts_ns, void *arg)
{
	struct pass *p = arg;
	uint64_t now;

	if (stop || p->write_rc)
		return false;
	if (!p->bar && !p->args->output_progress)
		return true;
	now = rut_now_ns();
	if (now - p->shown_ns < 100000000)
		return true;
	p->shown_ns = now;
	if (p->bar)
		print_bar(p, fraction_done(p, ts_ns), events_read(p), now);
	else
		print_progress(p, fraction_done(p, ts_ns), ts_ns, events_read(p));
	return true;
}

static void start_progress(struct pass *p)
{
	char from[64], to[64];

	p->start_ns = rut_now_ns();
	p->bar = !p->args->conf.mi && !p->args->no_progress && isatty(STDERR_FILENO);
	if (!p->args->conf.mi || !p->args->output_progress)
		return;
	if (!p->args->skip_validation)
		puts("0 Checking the trace for lost events...");
	rut_an_fmt_time(from, sizeof(from), p->begin_ns, false, false);
	rut_an_fmt_time(to, sizeof(to), p->end_ns, false, false);
	printf("0 Starting analysis from %s to %s\n", from, to);
	fflush(stdout);
}

/* ---- Time ---- */

static bool other_day(int64_t a_ns, int64_t b_ns, bool gmt)
{
	time_t a = (time_t)(a_ns / 1000000000), b = (time_t)(b_ns / 1000000000);
	struct tm x, y;

	if (!(gmt ? gmtime_r(&a, &x) && gmtime_r(&b, &y)
		  : localtime_r(&a, &x) && localtime_r(&b, &y)))
		return false;
	return x.tm_year != y.tm_year || x.tm_yday != y.tm_yday;
}

static int parse_time(const struct pass *p, const char *s, int64_t *ret, struct rut_err *err)
{
	uint64_t ns;

	if (!rut_parse_u64(s, &ns) && ns <= INT64_MAX) {
		*ret = (int64_t)ns;
		return 0;
	}
	if (rut_ctf_when_needs_day(s) && p->args->conf.multi_day)
		return rut_err_set(err, EINVAL, "the trace spans several days: '%s' needs its date",
				   s);
	return rut_ctf_parse_when(s, p->args->conf.gmt, p->begin_ns, ret, err);
}

static int parse_timerange(struct pass *p, const char *s, struct rut_err *err)
{
	struct rut_commas w = {0};
	struct rut_conf *c = &p->args->conf;
	size_t len = strlen(s);
	char copy[256];
	int r;

	if (len < 3 || len >= sizeof(copy) || s[0] != '[' || s[len - 1] != ']')
		return rut_err_set(err, EINVAL,
				   "cannot understand the time range '%s': [BEGIN,END]", s);
	snprintf(copy, sizeof(copy), "%.*s", (int)len - 2, s + 1);
	r = rut_commas_split(&w, copy, false);
	if (!r && w.n != 2)
		r = rut_err_set(err, EINVAL, "cannot understand the time range '%s': [BEGIN,END]",
				s);
	if (!r)
		r = parse_time(p, w.words[0], &c->begin_ns, err);
	if (!r)
		r = parse_time(p, w.words[1], &c->end_ns, err);
	c->has_begin = c->has_end = !r;
	rut_commas_fini(&w);
	return r;
}

static int parse_times(struct pass *p, struct rut_err *err)
{
	struct rut_conf *c = &p->args->conf;
	int r = 0;

	if (p->args->timerange)
		r = parse_timerange(p, p->args->timerange, err);
	if (!r && p->args->begin) {
		r = parse_time(p, p->args->begin, &c->begin_ns, err);
		c->has_begin = true;
	}
	if (!r && p->args->end) {
		r = parse_time(p, p->args->end, &c->end_ns, err);
		c->has_end = true;
		if (!r && p->has_range && c->end_ns < p->begin_ns)
			r = rut_err_set(err, EINVAL, "--end timestamp before beginning of trace");
	}
	if (!r && c->has_begin && c->has_end && c->end_ns < c->begin_ns)
		r = rut_err_set(err, EINVAL, "the end of the time range is before its beginning");
	return r;
}

/* ---- The pass ---- */

static int open_reader(struct pass *p, struct rut_err *err)
{
	struct rut_ctf_reader_opts opts = {
		.prefault = true, .follow = p->args->follow, .ahead = rut_proc_cpus() > 1};
	const struct rut_conf *c = &p->args->conf;
	int r;

	if (!p->args->no_intersection && !p->args->follow) {
		r = rut_ctf_set_intersection(p->set, &opts.begin_ns, &opts.end_ns);
		if (r == -ERANGE)
			return rut_err_set(err, ERANGE,
					   "Trace has no intersection. Use --no-intersection to "
					   "override");
		opts.has_begin = opts.has_end = !r;
	}
	if (c->has_end && !p->args->follow) {
		opts.end_ns = opts.has_end && opts.end_ns < c->end_ns ? opts.end_ns : c->end_ns;
		opts.has_end = true;
	}
	return rut_ctf_reader_new(&p->reader, p->set, &opts, err);
}

/* What has come is reported also when no more will: 1. */
static int step_viewer(struct pass *p)
{
	struct rut_err err = RUT_ERR_INIT;
	int rc = rut_viewer_step(p->viewer, &err);

	if (rc >= 0 || rc == -EINTR)
		return rc > 0 || rc == -EINTR;
	rut_warn("%s", err.msg);
	p->cut = true;
	return 1;
}

/* Waits for more of the trace. Returns 1: there is some, 0: not yet, -ENODATA: nothing will come.
 */
static int wait_for_more(struct pass *p, struct rut_err *err)
{
	const struct rut_analysis_live *live = p->args->live;
	const struct timespec pause = {.tv_nsec = 200000000};
	int r, fed = 0;

	if (live)
		fed = live->feed(live->arg, err);
	else if (p->viewer)
		fed = step_viewer(p);
	if (fed < 0)
		return fed;
	if (live && !live->idle(live->arg))
		return -ENODATA;
	r = rut_ctf_reader_poll(p->reader, err);
	if (!r && !live)
		nanosleep(&pause, NULL);
	return !r && fed ? -ENODATA : r;
}

static int follow(struct pass *p, struct rut_err *err)
{
	int r;

	while (!stop && !p->write_rc && !p->engine.ended) {
		r = wait_for_more(p, err);
		if (r == -ENODATA)
			break;
		if (r < 0)
			return r;
		if (!r)
			continue;
		r = rut_an_engine_rebind(&p->engine, err);
		if (!r)
			r = rut_an_engine_walk(&p->engine, p->reader);
		if (r)
			return r;
	}
	/* What waited for streams that lag behind. */
	rut_ctf_reader_drain(p->reader);
	return rut_an_engine_walk(&p->engine, p->reader);
}

static bool incomplete(const struct rut_engine *e)
{
	bool failed = e->state.failed;

	for (size_t i = 0; i < e->n_runs; i++)
		failed = failed || e->runs[i].results.failed;
	return failed;
}

/* Without a word an empty report looks like an idle machine. */
static void warn_empty(const struct pass *p)
{
	const struct rut_conf *c = &p->args->conf;

	if (c->has_begin || c->has_end)
		rut_warn("the trace has no event in this time range");
	else
		rut_warn("the trace has no events");
}

/* Zeros would look like an idle machine. */
static void warn_unfit(const struct rut_analysis *a)
{
	_cleanup_buf_ struct rut_buf names = RUT_BUF_INIT;

	for (const char *const *n = a->needs; *n; n++)
		rut_buf_printf(&names, "%s%s", n == a->needs ? "" : ", ", *n);
	rut_warn("the trace has none of the events that this analysis needs: %s",
		 names.data ? names.data : "");
}

static void warn_threads(const struct rut_engine *e)
{
	bool unknown = false, rows = false;

	for (size_t i = 0; i < e->n_runs; i++) {
		unknown = unknown || e->runs[i].analysis->needs_threads;
		rows = rows || e->runs[i].analysis->needs_switches;
	}
	if (unknown && rut_an_engine_lacks_threads(e))
		rut_warn("the trace has neither sched_switch nor the context tid: which thread did "
			 "something is unknown, and what threads do is not counted");
	else if (rows && !rut_an_engine_has_switches(e))
		rut_warn("the trace has no sched_switch: when a woken thread ran is unknown");
}

/* What was asked for, and is not in the trace. */
static void warn_unmatched(const struct pass *p)
{
	const struct rut_analysis *first = p->engine.runs[0].analysis;
	const struct rut_conf *c = &p->args->conf;
	const struct rut_capture *capture = NULL;
	const struct rut_period_def *def;

	if (p->engine.n_runs == 1 && !rut_analysis_fits(first, p->set))
		warn_unfit(first);
	else
		warn_threads(&p->engine);
	if (rut_an_engine_filters_all(&p->engine))
		rut_warn(
			"--filter holds for no event of this trace: it has no such event or field");
	if (c->periods && c->periods->n && !p->engine.n_periods)
		rut_warn("no event of this trace begins a period");
	while ((capture = rut_an_periods_empty_capture(&p->engine.periods, capture, &def)))
		rut_warn("capture '%s' of period '%s' is always None: no event that begins or "
			 "ends it has such a field",
			 capture->name, def->name ? def->name : "");
}

static int run_pass(struct pass *p, const struct rut_analysis *const *analyses, size_t n,
		    struct rut_err *err)
{
	const struct rut_analysis *chosen[16];
	struct rut_ctf_counts counts;
	int r = open_reader(p, err);

	if (p->args->choose) {
		n = p->args->choose(p->set, chosen, 16);
		analyses = chosen;
		if (!n && !r)
			return rut_err_set(err, ENODATA,
					   "the trace has no event that any analysis uses");
	}
	if (!r)
		r = rut_an_engine_init(&p->engine, &p->args->conf, p->set, analyses, n, err);
	if (r)
		return r;
	if (!p->args->follow)
		rut_an_engine_want(&p->engine, p->reader);
	p->engine.progress = progress;
	p->engine.flush = flush;
	p->engine.arg = p;
	start_progress(p);
	if (!p->args->skip_validation && !p->args->conf.mi && !p->args->quiet)
		puts("Checking the trace for lost events...");
	fflush(stdout);
	r = rut_an_engine_walk(&p->engine, p->reader);
	if (!r && p->args->follow)
		r = follow(p, err);
	if (r == -ENOMEM)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (r && r != -ECANCELED)
		return r;
	rut_an_engine_finish(&p->engine);
	if (p->args->conf.mi && p->args->output_progress) {
		puts("1 Done!");
		fflush(stdout);
	}
	if (incomplete(&p->engine))
		return rut_err_set(err, ENOMEM, "out of memory");
	if (!p->args->live && !p->args->quiet)
		print_all(p);
	rut_ctf_reader_counts(p->reader, &counts);
	rut_cli_trace_warn_skipped(&counts);
	if (p->write_rc && p->write_rc != -EPIPE)
		return rut_err_errno(err, -p->write_rc, "cannot write the report");
	if (!p->engine.started)
		warn_empty(p);
	else
		warn_unmatched(p);
	return 0;
}

/* A session at a relay daemon is read as it arrives there, to its end. */
static int open_viewer(struct pass *p, struct rut_err *err)
{
	struct rut_live_url url;
	int r;

	if (p->args->n_paths != 1)
		return rut_err_set(
			err, EINVAL,
			"a session at a relay daemon cannot be combined with other traces");
	r = rut_live_url_parse(p->args->paths[0], &url, err);
	if (!r)
		r = rut_viewer_open(&p->viewer, &url, &stop, err);
	if (!r)
		p->args->paths[0] = rut_viewer_path(p->viewer);
	return r;
}

static int open_set(struct pass *p, struct rut_err *err)
{
	struct rut_conf *c = &p->args->conf;
	const struct rut_ctf_set_opts opts = {.consume = p->args->live || p->viewer};
	int r = rut_ctf_set_open(&p->set, p->args->paths, p->args->n_paths, &opts, err);

	if (r)
		return r;
	p->has_range = !rut_ctf_set_range(p->set, &p->begin_ns, &p->end_ns);
	c->multi_day = p->has_range && other_day(p->begin_ns, p->end_ns, c->gmt);
	return parse_times(p, err);
}

static int fail(const struct pass *p, const struct rut_err *err)
{
	if (p->write_rc || p->args->sink) /* standard output is where JSON would say it */
		return rut_cli_fail(p->args->cmd, err);
	/* Word for word as lttng-analyses says it: its tests look for that. */
	if (err->code == ERANGE && !strncmp(err->msg, "Trace has no", 12) && !p->args->conf.mi) {
		fprintf(stderr, "Error: %s\n", err->msg);
		return RUT_EXIT_FAIL;
	}
	return rut_cli_analysis_fail(p->args, err);
}

/* Not those that compare by themselves, or whose report is not printed. */
static bool can_compare_hosts(const struct rut_analysis_args *a)
{
	const struct rut_opt *o;

	for (size_t i = 0; (o = rut_cli_cmd_opt(a->cmd, i)); i++)
		if (o->id == OPT_HOSTS)
			return !a->sink;
	return false;
}

/* Traces that are stored on NATS: those of several hosts are compared, as with --hosts. */
static int run_stored(struct rut_analysis_args *a, const struct rut_analysis *const *analyses,
		      size_t n)
{
	struct rut_nats_source source = {.alive = -1};
	struct rut_err err = RUT_ERR_INIT;
	const char *given = a->paths[0];
	int rc;

	if (a->n_paths != 1 || a->follow)
		return rut_cli_analysis_usage(a, "a source on NATS stands alone, without --follow");
	if (!can_compare_hosts(a) && !rut_cli_nats_source_is_one(given))
		return rut_cli_analysis_usage(
			a, "this verb reads one host: nats://SERVER/STREAM/HOST");
	if (rut_cli_nats_source_open(&source, given, &err)) {
		rc = rut_cli_analysis_fail(a, &err);
	} else {
		a->hosts |= !source.path[0];
		a->paths[0] = a->hosts ? source.dir : source.path;
		rc = rut_cli_analysis_run(a, analyses, n);
		a->paths[0] = given;
	}
	rut_cli_nats_source_fini(&source);
	return rc;
}

int rut_cli_analysis_run(struct rut_analysis_args *a, const struct rut_analysis *const *analyses,
			 size_t n)
{
	struct pass p = {.args = a};
	struct rut_err err = RUT_ERR_INIT;
	int rc = RUT_EXIT_OK;

	if (a->hosts && !can_compare_hosts(a))
		return rut_cli_analysis_usage(
			a, "--hosts prints a comparison, which cannot be exported: "
			   "export one host after the other");
	if (a->n_paths && rut_nats_url_is(a->paths[0]))
		return run_stored(a, analyses, n);
	if (a->merge && !a->hosts)
		return rut_cli_analysis_usage(a, "--merge is for --hosts");
	if (a->hosts_json && !a->hosts)
		return rut_cli_analysis_usage(a, "--json is for --hosts: --mi is of one trace");
	if (a->hosts)
		return rut_cli_hosts_run(a, analyses, n);
	signal(SIGPIPE, SIG_IGN);
	rut_an_graph_set_columns(rut_screen_width(STDOUT_FILENO));
	a->follow |= rut_live_url_is(a->paths[0]);
	if (a->follow) {
		signal(SIGINT, on_signal);
		signal(SIGTERM, on_signal);
	}
	if ((rut_live_url_is(a->paths[0]) && open_viewer(&p, &err)) || open_set(&p, &err) ||
	    (!a->test_compatibility && run_pass(&p, analyses, n, &err)))
		rc = fail(&p, &err);
	if (p.engine.runs)
		rut_an_engine_fini(&p.engine);
	rut_ctf_reader_free(p.reader);
	rut_ctf_set_free(p.set);
	rut_viewer_free(p.viewer);
	return rc || !p.cut ? rc : RUT_EXIT_FAIL;
}
