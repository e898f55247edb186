/* SPDX-License-Identifier: MIT */
/* `rutile stat`: what a trace holds: events by name, rates, streams, losses, duration, size. */
#include "cli/cmd.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "cli/nats_source.h"
#include "cli/trace_open.h"
#include "output/jsonl.h"
#include "output/table.h"
#include "output/text.h"

enum { OPT_JSON = 256 };

static const struct rut_opt options[] = {
	RUT_TRACE_OPT_RANGE,
	RUT_TRACE_OPT_ZONE,
	{"json", NULL, "one JSON object", OPT_JSON},
	{0},
};

struct count {
	const char *name;
	uint64_t n;
};

struct stat_data {
	struct rut_ctf_set *set;
	bool gmt, json;
	uint64_t *by_class;  /* owned; by class index */
	uint64_t *by_stream; /* owned; by stream index */
	struct count *names; /* owned; most first */
	size_t n_names;
	uint64_t events;
	bool has_times;
	int64_t first_ns, last_ns;
	struct rut_ctf_counts counts;
};

static void stat_fini(struct stat_data *d)
{
	free(d->by_class);
	free(d->by_stream);
	free(d->names);
	rut_ctf_set_free(d->set);
}

static int by_count(const void *a, const void *b)
{
	const struct count *x = a, *y = b;

	if (x->n != y->n)
		return x->n < y->n ? 1 : -1;
	return strcmp(x->name, y->name);
}

/* The same name in several streams or traces is one line. */
static int collect_names(struct stat_data *d)
{
	struct rut_strtab ids = {0};
	size_t n = rut_ctf_set_n_classes(d->set);

	d->names = calloc(n + 1, sizeof(*d->names));
	if (!d->names)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const char *name = rut_ctf_set_class(d->set, i)->name;
		int64_t id;

		if (!d->by_class[i])
			continue;
		id = rut_strtab_intern(&ids, name, strlen(name));
		if (id < 0) {
			rut_strtab_fini(&ids);
			return -ENOMEM;
		}
		d->names[id].name = name;
		d->names[id].n += d->by_class[i];
	}
	d->n_names = ids.count;
	rut_strtab_fini(&ids);
	qsort(d->names, d->n_names, sizeof(*d->names), by_count);
	return 0;
}

static int count_events(struct stat_data *d, const struct rut_ctf_reader_opts *opts,
			struct rut_err *err)
{
	const struct rut_ctf_event *ev;
	struct rut_ctf_reader *r;
	int rc = rut_ctf_reader_new(&r, d->set, opts, err);

	if (rc < 0)
		return rc;
	while ((ev = rut_ctf_reader_next(r))) {
		d->by_class[ev->cls->index]++;
		d->by_stream[ev->stream->index]++;
		if (ev->has_ts && !d->has_times)
			d->first_ns = ev->ts_ns;
		if (ev->has_ts)
			d->last_ns = ev->ts_ns;
		d->has_times |= ev->has_ts;
		d->events++;
	}
	rut_ctf_reader_counts(r, &d->counts);
	rut_ctf_reader_free(r);
	return 0;
}

/* ---- Printing ---- */

static void put_when(const struct stat_data *d, struct rut_buf *out, int64_t ns)
{
	time_t s = (time_t)(ns / 1000000000);
	char text[64];
	struct tm tm;

	if (ns < 0 || !(d->gmt ? gmtime_r(&s, &tm) : localtime_r(&s, &tm)) ||
	    !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm)) {
		rut_buf_printf(out, "%" PRId64 " ns", ns);
		return;
	}
	rut_buf_printf(out, "%s.%09d", text, (int)(ns % 1000000000));
}

static void put_size(struct rut_buf *out, uint64_t bytes)
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	double v = (double)bytes;
	int u = 0;

	for (; v >= 1024 && u < 4; u++)
		v /= 1024;
	rut_buf_printf(out, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

static double seconds(const struct stat_data *d)
{
	return (double)(d->last_ns - d->first_ns) / 1e9;
}

static double rate(const struct stat_data *d, uint64_t n)
{
	return d->has_times && d->last_ns > d->first_ns ? (double)n / seconds(d) : 0;
}

static void put_traces(const struct stat_data *d, struct rut_buf *out)
{
	for (size_t i = 0; i < rut_ctf_set_n_traces(d->set); i++) {
		const struct rut_ctf_trace *t = rut_ctf_set_trace(d->set, i);
		const struct rut_ctf_env *tracer = rut_ctf_trace_env(t, "tracer_name");
		const struct rut_ctf_env *host = rut_ctf_trace_env(t, "hostname");

		rut_buf_puts(out, "trace:    ");
		rut_text_add(out, t->path);
		rut_buf_printf(out, " (CTF %u", t->major);
		if (t->major == 1)
			rut_buf_printf(out, ".%u", t->minor);
		if (tracer && tracer->str) {
			rut_buf_puts(out, ", ");
			rut_text_add(out, tracer->str);
		}
		if (host && host->str) {
			rut_buf_puts(out, ", of ");
			rut_text_add(out, host->str);
		}
		rut_buf_puts(out, ")\n");
	}
}

static void put_summary(const struct stat_data *d, struct rut_buf *out)
{
	char skipped[160];

	if (d->has_times) {
		rut_buf_puts(out, "first:    ");
		put_when(d, out, d->first_ns);
		rut_buf_puts(out, "\nlast:     ");
		put_when(d, out, d->last_ns);
		rut_buf_printf(out, "\nduration: %.9f s\n", seconds(d));
	}
	rut_buf_puts(out, "size:     ");
	put_size(out, rut_ctf_set_bytes(d->set));
	rut_buf_printf(out, " in %zu streams, %" PRIu64 " packets\n", rut_ctf_set_n_streams(d->set),
		       d->counts.packets);
	rut_buf_printf(out, "events:   %" PRIu64, d->events);
	if (rate(d, d->events) > 0)
		rut_buf_printf(out, " (%.1f a second)", rate(d, d->events));
	rut_buf_printf(out, "\nlost:     %" PRIu64 " events, %" PRIu64 " packets\n",
		       d->counts.discarded, d->counts.lost_packets);
	rut_ctf_skipped_text(&d->counts, skipped, sizeof(skipped));
	if (skipped[0])
		rut_buf_printf(out, "skipped:  %s\n", skipped);
	if (d->counts.errors || rut_ctf_set_errors(d->set))
		rut_buf_printf(out, "errors:   %" PRIu64 " damaged places in the files\n",
			       d->counts.errors + rut_ctf_set_errors(d->set));
}

/* The path of a single trace is printed above: here its name within that is enough. */
static const char *stream_name(const struct stat_data *d, const struct rut_ctf_stream *s)
{
	const char *slash = strrchr(s->path, '/');

	return slash && rut_ctf_set_n_traces(d->set) == 1 ? slash + 1 : s->path;
}

static void put_streams(const struct stat_data *d, struct rut_buf *out)
{
	static const struct rut_table_column columns[] = {
		{"STREAM", .left = true}, {"EVENTS"}, {"PACKETS"}, {"SIZE"}, {"LOST"},
	};
	struct rut_table t;

	rut_table_init(&t, columns, 5);
	for (size_t i = 0; i < rut_ctf_set_n_streams(d->set); i++) {
		const struct rut_ctf_stream *s = rut_ctf_set_stream(d->set, i);
		_cleanup_buf_ struct rut_buf size = RUT_BUF_INIT;

		put_size(&size, s->size_bytes);
		rut_table_add(&t, stream_name(d, s));
		rut_table_addf(&t, "%" PRIu64, d->by_stream[i]);
		rut_table_addf(&t, "%" PRIu64, s->packets);
		rut_table_add(&t, size.data ? size.data : "");
		if (s->lost_packets)
			rut_table_addf(&t, "%" PRIu64 " + %" PRIu64 " packets", s->discarded,
				       s->lost_packets);
		else
			rut_table_addf(&t, "%" PRIu64, s->discarded);
	}
	rut_buf_putc(out, '\n');
	rut_table_render(&t, out, 0);
	rut_table_fini(&t);
}

static void put_events(const struct stat_data *d, struct rut_buf *out)
{
	static const struct rut_table_column columns[] = {
		{"EVENT", .left = true},
		{"COUNT"},
		{"SHARE"},
		{"A SECOND"},
	};
	struct rut_table t;

	rut_table_init(&t, columns, 4);
	for (size_t i = 0; i < d->n_names; i++) {
		rut_table_add(&t, d->names[i].name);
		rut_table_addf(&t, "%" PRIu64, d->names[i].n);
		rut_table_addf(&t, "%.1f %%", 100.0 * (double)d->names[i].n / (double)d->events);
		rut_table_addf(&t, "%.1f", rate(d, d->names[i].n));
	}
	rut_buf_putc(out, '\n');
	rut_table_render(&t, out, 0);
	rut_table_fini(&t);
}

static void put_json(const struct stat_data *d, struct rut_buf *out)
{
	rut_buf_printf(out, "{\"events\":%" PRIu64 ",\"first_ns\":%" PRId64 ",\"last_ns\":%" PRId64,
		       d->events, d->first_ns, d->last_ns);
	rut_buf_printf(out, ",\"bytes\":%" PRIu64 ",\"packets\":%" PRIu64 ",\"discarded\":%" PRIu64,
		       rut_ctf_set_bytes(d->set), d->counts.packets, d->counts.discarded);
	rut_buf_printf(out,
		       ",\"lost_packets\":%" PRIu64 ",\"errors\":%" PRIu64
		       ",\"skipped_bytes\":%" PRIu64 ",\"streams\":[",
		       d->counts.lost_packets, d->counts.errors + rut_ctf_set_errors(d->set),
		       d->counts.skipped_bytes);
	for (size_t i = 0; i < rut_ctf_set_n_streams(d->set); i++) {
		const struct rut_ctf_stream *s = rut_ctf_set_stream(d->set, i);

		rut_buf_puts(out, i ? ",{\"path\":" : "{\"path\":");
		rut_jsonl_text(out, s->path);
		rut_buf_printf(out,
			       ",\"events\":%" PRIu64 ",\"packets\":%" PRIu64 ",\"bytes\":%" PRIu64
			       ",\"discarded\":%" PRIu64 ",\"lost_packets\":%" PRIu64 "}",
			       d->by_stream[i], s->packets, s->size_bytes, s->discarded,
			       s->lost_packets);
	}
	rut_buf_puts(out, "],\"by_name\":{");
	for (size_t i = 0; i < d->n_names; i++) {
		if (i)
			rut_buf_putc(out, ',');
		rut_jsonl_text(out, d->names[i].name);
		rut_buf_printf(out, ":%" PRIu64, d->names[i].n);
	}
	rut_buf_puts(out, "}}\n");
}

static int print_stat(struct stat_data *d, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	int rc;

	if (d->json) {
		put_json(d, &out);
	} else {
		put_traces(d, &out);
		put_summary(d, &out);
		if (rut_ctf_set_n_streams(d->set))
			put_streams(d, &out);
		if (d->events)
			put_events(d, &out);
	}
	rc = rut_cli_write_out(&out);
	return rc < 0 && rc != -EPIPE ? rut_err_errno(err, -rc, "cannot write") : 0;
}

static int stat_set(struct stat_data *d, const struct rut_trace_args *args, struct rut_err *err)
{
	struct rut_ctf_reader_opts opts = {.prefault = true};
	int rc;

	d->by_class = calloc(rut_ctf_set_n_classes(d->set) + 1, sizeof(*d->by_class));
	d->by_stream = calloc(rut_ctf_set_n_streams(d->set) + 1, sizeof(*d->by_stream));
	if (!d->by_class || !d->by_stream)
		return rut_err_set(err, ENOMEM, "out of memory");
	if ((rc = rut_cli_trace_range(args, d->set, &opts, err)) < 0 ||
	    (rc = rut_ctf_set_scan(d->set, err)) < 0 || (rc = count_events(d, &opts, err)) < 0)
		return rc;
	if (collect_names(d) < 0)
		return rut_err_set(err, ENOMEM, "out of memory");
	return print_stat(d, err);
}

static int take_option(void *arg, int id, const char *value)
{
	struct stat_data *d = arg;

	d->json = true; /* there is no other */
	return 0;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct rut_trace_args args = {0};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_nats_source stored = {.alive = -1, .janitor = -1};
	struct stat_data d = {0};
	int rc = rut_cli_trace_args_parse(&args, cmd, argc, argv, take_option, &d);
	bool bad = false;

	if (rc >= 0) {
		rut_cli_trace_args_fini(&args);
		return rc;
	}
	d.gmt = args.gmt;
	signal(SIGPIPE, SIG_IGN);
	rc = rut_cli_nats_source_take(&stored, args.paths, args.n_paths, &err);
	if (!rc)
		rc = rut_ctf_set_open(&d.set, args.paths, args.n_paths, &args.set, &err);
	if (!rc) {
		rc = stat_set(&d, &args, &err);
		bad = d.counts.errors || rut_ctf_set_errors(d.set);
	}
	stat_fini(&d);
	rut_cli_nats_source_fini(&stored);
	rut_cli_trace_args_fini(&args);
	if (rc < 0)
		return rut_cli_fail(cmd, &err);
	return bad ? RUT_EXIT_FAIL : RUT_EXIT_OK;
}

const struct rut_cmd cmd_stat = {
	.name = "stat",
	.group = "Reading traces",
	.summary = "show what traces hold: events by name, rates, streams, losses, size",
	.usage = "[OPTIONS] TRACE...",
	.options = options,
	.run = run,
};
