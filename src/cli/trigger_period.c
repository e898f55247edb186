/* SPDX-License-Identifier: MIT */
#include "cli/trigger_period.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/periods.h"
#include "cli/period_file.h"
#include "output/jsonl.h"
#include "session/events.h"
#include "trigger/window.h"

enum { OPEN_MAX_PERIODS = 65536 };

/* What is kept of a period that is open. */
struct open {
	bool told;
	char begin[]; /* its first event, as JSON */
};

struct rut_trigger_period {
	const struct rut_trigger_when *when; /* borrowed */
	struct rut_period_set set;
	struct rut_periods periods;
	const struct rut_period_def *def; /* borrowed from `set` */
	struct rut_trigger_window window; /* with a percentile */
	struct rut_buf line, cause;
	size_t n_open;
	/* While an event is taken: */
	const struct rut_ctf_event *ev;
	struct rut_ctf_text *text;
	rut_trigger_seen_fn seen;
	void *arg;
};

/* ---- Which events ---- */

/* A class of events of which nothing but the name is known. */
static int any_field(const void *cls, enum rut_expr_scope scope, const char *path,
		     struct rut_expr_field *ret)
{
	*ret = (struct rut_expr_field){0};
	return 0;
}

static bool no_value(const void *event, const struct rut_expr_field *field,
		     struct rut_expr_val *ret)
{
	return false;
}

static bool no_labels(const struct rut_expr_field *field,
		      void (*fn)(void *arg, const char *label, uint64_t lo, uint64_t hi), void *arg)
{
	return false;
}

static const char *name_itself(const void *cls)
{
	return cls;
}

static uint64_t no_time(const void *event)
{
	return 0;
}

static const struct rut_expr_ops name_ops = {.find = any_field,
					     .load = no_value,
					     .labels = no_labels,
					     .class_name = name_itself,
					     .timestamp_ns = no_time};

static bool can_be(const struct rut_expr *e, const char *name)
{
	struct rut_expr_prog *prog = NULL;
	bool can = !rut_expr_bind(e, &name_ops, name, &prog) && rut_expr_prog_constant(prog) != 0;

	rut_expr_prog_free(prog);
	return can;
}

static size_t add_if_wanted(const struct rut_trigger_period *p, const char *name,
			    struct rut_buf *names)
{
	for (size_t i = 0; i < p->set.n; i++)
		if (can_be(p->set.defs[i]->begin, name) || can_be(p->set.defs[i]->end, name)) {
			rut_buf_printf(names, "%s%s", names->len ? "," : "", name);
			return 1;
		}
	return 0;
}

int rut_cli_trigger_period_events(const struct rut_trigger_period *p, struct rut_buf *names,
				  struct rut_err *err)
{
	size_t all = 0, wanted = 0;

	for (uint32_t id = 0; id < RUT_EV_COUNT; id++) {
		struct rut_event ev;

		rut_event_static(&ev, id);
		wanted += ev.tracepoint && add_if_wanted(p, ev.name, names);
		all++;
	}
	for (uint32_t nr = 0; nr < RUT_SYSCALLS_MAX; nr++)
		for (int exit = 0; exit < 2; exit++) {
			struct rut_syscall_event ev;

			if (!rut_event_syscall(&ev, nr, exit != 0))
				continue;
			wanted += add_if_wanted(p, ev.event.name, names);
			all++;
		}
	if (names->failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (!wanted)
		return rut_err_set(err, EINVAL,
				   "no event of the kernel can begin or end period '%s'",
				   p->def->text);
	if (wanted == all)
		return rut_err_set(err, EINVAL,
				   "period '%s' does not say which events: compare $evt.$name",
				   p->def->text);
	return 0;
}

/* ---- As they come ---- */

static void tell(struct rut_trigger_period *p, const struct rut_period *period, int64_t ns,
		 bool over)
{
	struct open *o = period->user;
	struct rut_buf *b = &p->cause;

	rut_buf_clear(b);
	rut_jsonl_begin(b);
	rut_jsonl_i64(b, over ? "lasted_ns" : "lasts_ns", ns);
	rut_jsonl_str(b, "period", period->def->path);
	rut_jsonl_close(b);
	/* The event is JSON already. */
	if (b->len && b->data[b->len - 1] == '\n')
		b->len--;
	if (o && b->len)
		b->len--;
	if (o)
		rut_buf_printf(b, ",\"begin\":%s}", o->begin);
	rut_buf_putc(b, 0);
	if (o)
		o->told = true;
	p->seen(p->arg, b->failed ? "{}" : b->data);
}

static void on_begin(struct rut_period *period, void *arg)
{
	struct rut_trigger_period *p = arg;
	struct open *o;

	p->n_open++;
	if (period->def != p->def)
		return;
	rut_buf_clear(&p->line);
	rut_ctf_text_event(p->text, p->ev, &p->line);
	while (p->line.len && p->line.data[p->line.len - 1] == '\n')
		p->line.len--;
	rut_buf_putc(&p->line, 0);
	o = p->line.failed ? NULL : malloc(sizeof(*o) + p->line.len);
	if (!o)
		return;
	o->told = false;
	memcpy(o->begin, p->line.data, p->line.len);
	period->user = o;
}

static void on_end(struct rut_period *period, void *arg)
{
	struct rut_trigger_period *p = arg;
	const struct rut_trigger_when *w = p->when;
	struct open *o = period->user;
	int64_t ns = period->end_ns - period->begin_ns;
	bool slow = ns >= (int64_t)w->ns;

	p->n_open--;
	if (period->def == p->def && period->complete && p->seen &&
	    (w->percent > 0 ? rut_trigger_window_add(&p->window, (uint64_t)period->end_ns, slow,
						     w->percent, w->window_ns)
			    : slow && !(o && o->told)))
		tell(p, period, ns, true);
	free(o);
	period->user = NULL;
}

int rut_cli_trigger_period_bind(struct rut_trigger_period *p, const struct rut_ctf_set *set,
				struct rut_err *err)
{
	int rc = rut_an_periods_bind(&p->periods, set);

	return rc ? rut_err_errno(err, -rc, "cannot use the period") : 0;
}

void rut_cli_trigger_period_event(struct rut_trigger_period *p, const struct rut_ctf_event *ev,
				  struct rut_ctf_text *text, rut_trigger_seen_fn seen, void *arg)
{
	p->ev = ev;
	p->text = text;
	p->seen = seen;
	p->arg = arg;
	rut_an_periods_event(&p->periods, ev);
	/* Ends that never come: of threads that were killed, or lost. */
	if (p->n_open > OPEN_MAX_PERIODS)
		rut_an_periods_abandon(&p->periods, ev->ts_ns);
}

void rut_cli_trigger_period_look(struct rut_trigger_period *p, int64_t now_ns,
				 rut_trigger_seen_fn seen, void *arg)
{
	p->seen = seen;
	p->arg = arg;
	if (p->when->percent > 0)
		return;
	for (const struct rut_period *o = p->periods.first[p->def->index]; o; o = o->next) {
		const struct open *open = o->user;

		/* They are in the order of their begin. */
		if (now_ns - o->begin_ns < (int64_t)p->when->ns)
			break;
		if (open && !open->told)
			tell(p, o, now_ns - o->begin_ns, false);
	}
}

/* ---- Begin and end ---- */

/* The one that is named, or the first. */
static int choose(struct rut_trigger_period *p, struct rut_err *err)
{
	const char *name = p->when->filter;

	p->def = name[0]    ? rut_period_set_find(&p->set, name, strlen(name))
		 : p->set.n ? p->set.defs[0]
			    : NULL;
	if (p->def)
		return 0;
	return rut_err_set(err, EINVAL, name[0] ? "no period '%s' in '%s'" : "%s'%s' has no period",
			   name, p->when->events);
}

static int read_definitions(struct rut_trigger_period *p, struct rut_err *err)
{
	const char *what = p->when->events;
	int rc;

	if (strpbrk(what, ":"))
		rc = rut_period_set_add(&p->set, what, NULL, err);
	else
		rc = rut_cli_period_file_read(&p->set, what, err);
	if (!rc)
		rc = rut_period_set_link(&p->set, err);
	return rc ? rc : choose(p, err);
}

int rut_cli_trigger_period_new(struct rut_trigger_period **ret, const struct rut_trigger_when *w,
			       struct rut_err *err)
{
	struct rut_trigger_period *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return rut_err_set(err, ENOMEM, "out of memory");
	p->when = w;
	rc = read_definitions(p, err);
	if (!rc && (rut_an_periods_init(&p->periods, &p->set) ||
		    (w->percent > 0 && rut_trigger_window_init(&p->window))))
		rc = rut_err_set(err, ENOMEM, "out of memory");
	if (rc) {
		rut_cli_trigger_period_free(p);
		return rc;
	}
	p->periods.begin = on_begin;
	p->periods.end = on_end;
	p->periods.arg = p;
	*ret = p;
	return 0;
}

void rut_cli_trigger_period_free(struct rut_trigger_period *p)
{
	if (!p)
		return;
	p->seen = NULL;
	if (p->periods.first && p->periods.end)
		rut_an_periods_abandon(&p->periods, 0);
	rut_an_periods_fini(&p->periods);
	rut_period_set_fini(&p->set);
	rut_trigger_window_fini(&p->window);
	rut_buf_fini(&p->line);
	rut_buf_fini(&p->cause);
	free(p);
}
