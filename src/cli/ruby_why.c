/* SPDX-License-Identifier: MIT */
#include "cli/ruby_why.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "cli/ruby_live.h"
#include "cli/ruby_opts.h"
#include "cli/ruby_target.h"
#include "output/text.h"
#include "ruby/tracer.h"

static const uint64_t measure_ns = 300 * UINT64_C(1000000);

/* Every measurement hooks all methods: for an idle program, stop measuring after a while. */
enum { MEASURED_MAX = 3 };

static uint64_t sum_calls(struct rut_tracer *t)
{
	const struct rut_ruby_row *rows = NULL;
	uint64_t sum = 0;
	size_t count = 0;

	if (rut_tracer_rows(t, &rows, &count, NULL) < 0)
		return 0;
	for (size_t i = 0; i < count; i++)
		sum += rows[i].calls;
	return sum;
}

static void add_name(const struct rut_ruby_row *row, void *arg)
{
	struct rut_near *near = arg;

	/* Ruby's own methods are no proposal. */
	bool inside = row->path && row->path[0] == '<';

	rut_cli_near_add(near, row->class_name, row->singleton, row->method_name,
			 inside ? 0 : row->calls);
}

void rut_cli_why_look_for(struct rut_why *w, const char *name, struct rut_tracer *tracer)
{
	rut_cli_near_init(&w->near, name);
	if (name)
		rut_tracer_names(tracer, add_name, &w->near);
}

void rut_cli_why_near(struct rut_tracer *tracer, const char *name, struct rut_buf *out)
{
	struct rut_near near = {.wanted = ""};

	rut_cli_near_init(&near, name);
	rut_tracer_names(tracer, add_name, &near);
	rut_cli_near_say(&near, out);
}

const char *rut_cli_why_name(const struct rut_ruby_opts *o, const char *inside)
{
	const struct rut_words *lists[] = {&o->methods, &o->classes};

	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; k < lists[i]->count; k++)
			if (lists[i]->v[k][0] != '!')
				return lists[i]->v[k];
	return inside;
}

void rut_cli_why_measure(struct rut_why *w, const struct rut_targets *t, pid_t child,
			 const char *name)
{
	struct rut_tracer_config config = {
		.mode = RUT_RUBY_CALLS, .names = name, .filter.try_newer = t->try_newer};
	struct rut_tracer *tracer = NULL;
	uint64_t begin;

	if (w->measured >= MEASURED_MAX || w->calls || rut_tracer_new(&tracer, &config, NULL) < 0)
		return;
	w->measured++;
	if (child)
		rut_tracer_attach(tracer, child, true, NULL);
	else
		rut_cli_targets_attach(t, tracer, NULL, &(struct rut_err){0});
	begin = rut_now_ns();
	while (rut_now_ns() - begin < measure_ns && rut_tracer_poll(tracer, 50, NULL) > 0)
		;
	w->calls += sum_calls(tracer);
	w->ns += rut_now_ns() - begin;
	rut_cli_why_look_for(w, name, tracer);
	rut_tracer_free(tracer);
}

/* "/srv/shop (Rails.root)", or what was guessed from outside. */
static void add_root(struct rut_buf *out, const struct rut_targets *t,
		     const struct rut_tracer *tracer)
{
	const char *root = rut_tracer_root(tracer);

	if (root) {
		rut_text_add(out, root);
		return;
	}
	for (size_t i = 0, n = 0; i < t->app_paths.count; i++) {
		const char *glob = t->app_paths.v[i];
		size_t len = strlen(glob);

		if (glob[0] != '/' || len < 3 || strcmp(glob + len - 2, "/*") != 0)
			continue;
		rut_buf_puts(out, n++ ? ", " : "");
		rut_buf_add(out, glob, len - 2);
	}
	if (!t->app_paths.count)
		rut_buf_puts(out, "all files but gems and Ruby's own");
}

static void add_quiet(const struct rut_ruby_opts *o, struct rut_buf *out)
{
	if (o->quiet_classes)
		rut_buf_puts(out, "; '--all-classes' shows those of String, Array and the like");
}

void rut_cli_why_say(const struct rut_why *w, const struct rut_targets *t,
		     const struct rut_ruby_opts *o, bool all, const struct rut_tracer *tracer,
		     struct rut_buf *out)
{
	char time[RUT_TEXT_DURATION_SIZE];
	bool names = o->classes.count > o->quiet_classes || o->methods.count || o->paths.count;

	if (all) {
		rut_buf_puts(out, names ? "no call passes the filter" : "no call of a Ruby method");
		add_quiet(o, out);
		rut_cli_near_say(&w->near, out);
		rut_buf_putc(out, '\n');
		return;
	}
	rut_buf_puts(out, names ? "no call that passes the filter in the application: "
				: "no call in the application: ");
	add_root(out, t, tracer);
	if (w->measured)
		rut_buf_printf(out, "; %" PRIu64 " call%s of any method in %s", w->calls,
			       w->calls == 1 ? "" : "s", rut_text_duration(time, w->ns));
	rut_buf_puts(out, ": 'all' counts those outside of it, too");
	if (w->calls)
		add_quiet(o, out);
	rut_cli_near_say(&w->near, out);
	rut_buf_putc(out, '\n');
}
