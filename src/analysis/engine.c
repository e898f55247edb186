/* SPDX-License-Identifier: MIT */
/* The engine: the pass over the events, and the intervals that are reported. */
#include "analysis/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fmt.h"
#include "base/cleanup.h"
#include "base/glob.h"
#include "base/hash.h"

/* What the engine does with one class of events, besides the state model. */
struct engine_extra {
	size_t run;
	const struct rut_analysis_event *def;
	struct rut_ctf_ref f[RUT_STATE_FIELDS];
	struct engine_extra *next;
};

struct rut_engine_class {
	bool plain;		      /* has none of: */
	bool periods;		      /* begins or ends some */
	struct rut_expr_prog *filter; /* owned; NULL: everything passes */
	struct engine_extra *extras;  /* owned list */
};

/* The instances of one interval, one for each run. */
struct rut_engine_list {
	struct rut_engine_list *prev, *next;
	struct rut_instance *instances[];
};

/* ---- Filters ---- */

static bool holds(const int64_t *list, size_t n, int64_t v)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == v)
			return true;
	return !n;
}

bool rut_an_conf_has_cpu(const struct rut_conf *c, int cpu)
{
	return holds(c->cpus, c->n_cpus, cpu);
}

bool rut_an_conf_has_thread(const struct rut_conf *c, const struct rut_thread *t)
{
	bool named = !c->n_procnames;

	if (!t)
		return true;
	for (size_t i = 0; i < c->n_procnames && !named; i++)
		named = !strcmp(c->procnames[i], t->comm);
	return named && holds(c->tids, c->n_tids, t->tid) &&
	       (!c->n_pids || holds(c->pids, c->n_pids, t->pid >= 0 ? t->pid : t->tid));
}

bool rut_an_conf_lists(const char *list, const char *word)
{
	size_t len = strlen(word), n = 0;

	for (const char *p = list; *p; n++) {
		size_t end;

		p += strspn(p, ", \t\n");
		end = strcspn(p, ", \t\n");
		if (!end)
			break;
		if (end == len && !memcmp(p, word, len))
			return true;
		p += end;
	}
	return !n;
}

struct rut_thread *rut_an_run_group(struct rut_run *run, struct rut_thread *t)
{
	return rut_an_state_group(&run->engine->state, t, !strcmp(run->conf->by, "cgroup"));
}

/* ---- Intervals ---- */

static void free_instance(struct rut_instance *inst)
{
	if (!inst)
		return;
	rut_an_state_unsubscribe(&inst->run->engine->state, inst);
	if (inst->run->analysis->fini)
		inst->run->analysis->fini(inst);
	free(inst);
}

static struct rut_instance *new_instance(struct rut_run *run, int64_t begin_ns,
					 const struct rut_period *period)
{
	const struct rut_analysis *a = run->analysis;
	struct rut_instance *inst = calloc(1, a->instance_size);
	int r = 0;

	if (!inst)
		return NULL;
	inst->run = run;
	inst->begin_ns = begin_ns;
	inst->period = period;
	if (a->init)
		r = a->init(inst);
	for (const struct rut_analysis_hook *h = a->hooks; h && h->fn && !r; h++)
		r = rut_an_state_subscribe(&run->engine->state, h->hook, h->fn, inst);
	if (!r)
		return inst;
	free_instance(inst);
	return NULL;
}

static struct rut_engine_list *begin_stretch(struct rut_engine *e, int64_t begin_ns,
					     const struct rut_period *period)
{
	struct rut_engine_list *l = calloc(1, sizeof(*l) + e->n_runs * sizeof(l->instances[0]));

	if (!l) {
		e->state.failed = true;
		return NULL;
	}
	for (size_t i = 0; i < e->n_runs; i++) {
		if (!e->runs[i].analysis->instance_size)
			continue;
		l->instances[i] = new_instance(&e->runs[i], begin_ns, period);
		if (!l->instances[i])
			e->state.failed = true;
	}
	l->next = e->instances;
	if (l->next)
		l->next->prev = l;
	e->instances = l;
	return l;
}

static void end_stretch(struct rut_engine *e, struct rut_engine_list *l, int64_t end_ns)
{
	if (!l)
		return;
	for (size_t i = 0; i < e->n_runs; i++) {
		if (!l->instances[i])
			continue;
		e->runs[i].analysis->report(l->instances[i], end_ns);
		e->runs[i].reports++;
		rut_an_run_show(&e->runs[i]);
		free_instance(l->instances[i]);
	}
	if (l->prev)
		l->prev->next = l->next;
	else
		e->instances = l->next;
	if (l->next)
		l->next->prev = l->prev;
	free(l);
}

static void on_period_begin(struct rut_period *p, void *arg)
{
	struct rut_engine *e = arg;

	e->n_periods++;
	if (!e->conf->of_periods)
		p->instances = (void **)begin_stretch(e, p->begin_ns, p);
	for (size_t i = 0; i < e->n_runs; i++)
		if (e->runs[i].analysis->period_begin)
			e->runs[i].analysis->period_begin(&e->runs[i], p);
}

static void on_period_end(struct rut_period *p, void *arg)
{
	struct rut_engine *e = arg;

	for (size_t i = 0; i < e->n_runs; i++)
		if (e->runs[i].analysis->period_end)
			e->runs[i].analysis->period_end(&e->runs[i], p);
	end_stretch(e, (struct rut_engine_list *)p->instances, e->last_ns);
	p->instances = NULL;
}

/* ---- Life ---- */

static int bind_extras(struct rut_engine *e, const struct rut_ctf_event_class *cls,
		       struct rut_engine_class *c)
{
	for (size_t i = 0; i < e->n_runs; i++) {
		const struct rut_analysis_event *d = e->runs[i].analysis->events;

		for (; d && d->name; d++) {
			struct engine_extra *x;

			if (strcmp(d->name, cls->name) != 0)
				continue;
			x = calloc(1, sizeof(*x));
			if (!x)
				return -ENOMEM;
			x->run = i;
			x->def = d;
			for (int k = 0; k < RUT_STATE_FIELDS && d->fields[k]; k++)
				rut_ctf_ref_find(cls, RUT_CTF_SCOPE_ANY, d->fields[k], &x->f[k]);
			x->next = c->extras;
			c->extras = x;
		}
	}
	return 0;
}

/* Do two classes have the same fields? */
static bool is_same_layout(const struct rut_ctf_event_class *a, const struct rut_ctf_event_class *b)
{
	const struct rut_ctf_type *x = a->payload, *y = b->payload;

	if (!x || !y || x->n_fields != y->n_fields)
		return x == y;
	for (uint32_t i = 0; i < x->n_fields; i++)
		if (strcmp(x->fields[i].name, y->fields[i].name) != 0 ||
		    x->fields[i].type->kind != y->fields[i].type->kind ||
		    x->fields[i].type->size != y->fields[i].type->size)
			return false;
	return true;
}

/*
 * Two classes of one name in one stream, with different fields: one of them is not what its name
 * says, and what an analysis reads of it would be nonsense.
 */
static int check_ambiguous(const struct rut_engine *e, struct rut_err *err)
{
	_cleanup_(rut_strtab_fini)
	struct rut_strtab names = {0};
	_cleanup_free_ uint32_t *first = calloc(e->n_classes + 1, sizeof(*first));

	if (!first)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < e->n_classes; i++) {
		const struct rut_ctf_event_class *cls = rut_ctf_set_class(e->set, i);
		char key[320];
		int64_t at;
		size_t before = names.count;

		if (!e->classes[i].extras && !e->state.classes[i].fn)
			continue;
		snprintf(key, sizeof(key), "%p %.280s", (const void *)cls->stream_class, cls->name);
		at = rut_strtab_intern(&names, key, strlen(key));
		if (at < 0)
			return rut_err_set(err, ENOMEM, "out of memory");
		if ((size_t)at == before)
			first[at] = i;
		else if (!is_same_layout(rut_ctf_set_class(e->set, first[at]), cls))
			return rut_err_set(err, EPROTO,
					   "the trace has two events '%s' with different fields: "
					   "the name is ambiguous",
					   cls->name);
	}
	return 0;
}

bool rut_analysis_fits(const struct rut_analysis *a, const struct rut_ctf_set *set)
{
	for (const char *const *n = a->needs; n && *n; n++) {
		for (size_t i = 0; i < rut_ctf_set_n_classes(set); i++) {
			const char *name = rut_ctf_set_class(set, i)->name;

			if (rut_glob_string(*n, name))
				return true;
		}
	}
	return !a->needs;
}

bool rut_an_engine_has_switches(const struct rut_engine *e)
{
	for (size_t i = 0; i < e->n_classes; i++)
		if (!strcmp(rut_ctf_set_class(e->set, i)->name, "sched_switch"))
			return true;
	return false;
}

bool rut_an_engine_lacks_threads(const struct rut_engine *e)
{
	static const char *const of_threads[] = {"*syscall_entry_*", "sys_*", "*mm_page_*"};
	bool some = false;

	for (size_t i = 0; i < e->n_classes; i++) {
		if (rut_ctf_ref_ok(&e->state.classes[i].ctx_tid))
			return false;
		for (size_t k = 0; k < sizeof(of_threads) / sizeof(*of_threads); k++)
			some = some ||
			       rut_glob_string(of_threads[k], rut_ctf_set_class(e->set, i)->name);
	}
	return some && !rut_an_engine_has_switches(e);
}

bool rut_an_engine_filters_all(const struct rut_engine *e)
{
	for (size_t i = 0; i < e->n_classes; i++)
		if (!e->classes[i].filter || rut_expr_prog_constant(e->classes[i].filter))
			return false;
	return e->conf->filter && e->n_classes;
}

int rut_an_engine_rebind(struct rut_engine *e, struct rut_err *err)
{
	size_t n = rut_ctf_set_n_classes(e->set);
	void *classes;
	int r;

	if (e->classes && n == e->n_classes)
		return 0;
	r = rut_an_state_bind(&e->state, e->set);
	if (!r)
		r = rut_an_periods_bind(&e->periods, e->set);
	classes = realloc(e->classes, (n + 1) * sizeof(*e->classes));
	if (!classes)
		return rut_err_set(err, ENOMEM, "out of memory");
	e->classes = classes;
	for (; e->n_classes < n && !r; e->n_classes++) {
		const struct rut_ctf_event_class *cls = rut_ctf_set_class(e->set, e->n_classes);
		struct rut_engine_class *c = &e->classes[e->n_classes];

		*c = (struct rut_engine_class){.periods = rut_an_periods_wants(&e->periods, cls)};
		r = bind_extras(e, cls, c);
		if (!r && e->conf->filter)
			r = rut_expr_bind(e->conf->filter, &rut_an_periods_expr_ops, cls,
					  &c->filter);
		c->plain = !c->periods && !c->extras && !c->filter;
	}
	if (r == -E2BIG)
		return rut_err_set(err, E2BIG, "expression too large");
	return r ? rut_err_set(err, ENOMEM, "out of memory") : check_ambiguous(e, err);
}

/* All that it listens to. */
static uint32_t hooks_of(const struct rut_analysis *a)
{
	uint32_t hooks = a->wants;

	for (const struct rut_analysis_hook *h = a->hooks; h && h->fn; h++)
		hooks |= RUT_HOOK_BIT(h->hook);
	return hooks;
}

bool rut_an_asks_no_files(const struct rut_conf *conf)
{
	(void)conf;
	return false;
}

/* Descriptors matter to system calls, and to what wakes a thread. */
static bool asks_files(const struct rut_analysis *a, const struct rut_conf *conf)
{
	const uint32_t files = RUT_HOOK_BIT(RUT_HOOK_IO_EXIT) | RUT_HOOK_BIT(RUT_HOOK_FD_CREATE) |
			       RUT_HOOK_BIT(RUT_HOOK_FD_CLOSE) | RUT_HOOK_BIT(RUT_HOOK_FD_UPDATE) |
			       RUT_HOOK_BIT(RUT_HOOK_PARENT) | RUT_HOOK_BIT(RUT_HOOK_NET) |
			       RUT_HOOK_BIT(RUT_HOOK_SYSCALL_ENTRY) | RUT_HOOK_BIT(RUT_HOOK_POLL) |
			       RUT_HOOK_BIT(RUT_HOOK_SYSCALL_EXIT) | RUT_HOOK_BIT(RUT_HOOK_WAKEUP);

	return hooks_of(a) & files && (!a->asks_files || a->asks_files(conf));
}

int rut_an_engine_init(struct rut_engine *e, const struct rut_conf *conf, struct rut_ctf_set *set,
		       const struct rut_analysis *const *analyses, size_t n, struct rut_err *err)
{
	*e = (struct rut_engine){.conf = conf, .set = set, .n_runs = n, .next_check_ns = INT64_MIN};
	e->runs = calloc(n + 1, sizeof(*e->runs));
	if (!e->runs || rut_an_state_init(&e->state) ||
	    rut_an_periods_init(&e->periods, conf->periods))
		return rut_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		e->runs[i].analysis = analyses[i];
		e->runs[i].conf = conf;
		e->runs[i].engine = e;
	}
	for (size_t i = 0; i < n; i++)
		if (analyses[i]->run_init && analyses[i]->run_init(&e->runs[i]))
			return rut_err_set(err, ENOMEM, "out of memory");
	e->state.listens = 0;
	for (size_t i = 0; i < n; i++)
		e->state.listens |= hooks_of(analyses[i]);
	e->state.no_files = n > 0;
	for (size_t i = 0; i < n; i++)
		e->state.no_files &= !asks_files(analyses[i], conf);
	e->periods.begin = on_period_begin;
	e->periods.end = on_period_end;
	e->periods.arg = e;
	return rut_an_engine_rebind(e, err);
}

static void free_class(struct rut_engine_class *c)
{
	for (struct engine_extra *x = c->extras, *next; x; x = next) {
		next = x->next;
		free(x);
	}
	rut_expr_prog_free(c->filter);
}

void rut_an_engine_fini(struct rut_engine *e)
{
	for (struct rut_engine_list *l = e->instances, *next; l; l = next) {
		next = l->next;
		for (size_t i = 0; i < e->n_runs; i++)
			free_instance(l->instances[i]);
		free(l);
	}
	rut_an_periods_fini(&e->periods);
	for (size_t i = 0; e->runs && i < e->n_runs; i++) {
		if (e->runs[i].analysis->run_fini)
			e->runs[i].analysis->run_fini(&e->runs[i]);
		rut_an_results_fini(&e->runs[i].results);
		rut_buf_fini(&e->runs[i].out);
	}
	for (size_t i = 0; e->classes && i < e->n_classes; i++)
		free_class(&e->classes[i]);
	free(e->classes);
	free(e->runs);
	rut_an_state_fini(&e->state);
	*e = (struct rut_engine){0};
}

/* ---- The walk ---- */

static bool has_periods(const struct rut_engine *e)
{
	return e->conf->periods && e->conf->periods->n && !e->conf->of_periods;
}

/* The rare things: begin, end, refresh. Returns false at the end of the range. */
static bool check_time(struct rut_engine *e, int64_t ts_ns)
{
	const struct rut_conf *c = e->conf;
	int64_t next = INT64_MAX;

	if (c->has_end && ts_ns > c->end_ns) {
		e->ended = true;
		return false;
	}
	if (!e->has_events) {
		e->has_events = true;
		e->first_ns = ts_ns;
	}
	e->last_ns = ts_ns;
	if (!e->started && (!c->has_begin || ts_ns >= c->begin_ns)) {
		e->started = true;
		if (!has_periods(e)) {
			begin_stretch(e, ts_ns, NULL);
			e->whole = true;
			e->interval_ns = ts_ns;
		}
	}
	if (c->refresh_ns && e->whole && ts_ns >= e->interval_ns + c->refresh_ns) {
		end_stretch(e, e->instances, ts_ns);
		begin_stretch(e, ts_ns, NULL);
		e->interval_ns = ts_ns;
	}
	if (!e->started)
		next = c->begin_ns;
	else if (c->refresh_ns && e->whole)
		next = e->interval_ns + c->refresh_ns;
	if (c->has_end && next > c->end_ns)
		next = c->end_ns + 1;
	e->next_check_ns = next;
	return true;
}

static void run_extras(struct rut_engine *e, const struct rut_engine_class *c,
		       const struct rut_ctf_event *ev)
{
	const struct rut_state_class *sc = &e->state.classes[ev->index];

	for (const struct engine_extra *x = c->extras; x; x = x->next)
		for (struct rut_engine_list *l = e->instances; l; l = l->next)
			if (l->instances[x->run])
				x->def->fn(l->instances[x->run], ev, sc, x->f);
}

/* An event of a class that is more than the state model's. */
static void walk_class(struct rut_engine *e, const struct rut_engine_class *c,
		       const struct rut_ctf_event *ev)
{
	if (c->periods && e->started) {
		e->event = ev;
		rut_an_periods_event(&e->periods, ev);
	}
	if (c->filter)
		e->state.muted = !rut_expr_match(c->filter, ev, NULL);
	rut_state_event(&e->state, ev);
	if (c->extras && !e->state.muted)
		run_extras(e, c, ev);
}

void rut_an_engine_want(struct rut_engine *e, struct rut_ctf_reader *reader)
{
	rut_ctf_reader_want(reader, NULL);
	for (size_t i = 0; i < e->n_classes; i++)
		if (e->classes[i].periods || e->classes[i].extras ||
		    rut_an_state_needs(&e->state, i, e->state.listens))
			rut_ctf_reader_want(reader, rut_ctf_set_class(e->set, i));
	rut_ctf_reader_mark(reader, e->next_check_ns);
	e->choosy = true;
}

int rut_an_engine_walk(struct rut_engine *e, struct rut_ctf_reader *reader)
{
	const struct rut_ctf_event *ev;

	while (!e->ended && (ev = rut_ctf_reader_next(reader))) {
		const struct rut_engine_class *c = &e->classes[ev->index];

		if (__builtin_expect(ev->ts_ns >= e->next_check_ns, 0)) {
			if (!check_time(e, ev->ts_ns))
				break;
			if (e->choosy)
				rut_ctf_reader_mark(reader, e->next_check_ns);
		}
		e->last_ns = ev->ts_ns;
		if (__builtin_expect(c->plain, 1))
			rut_state_event(&e->state, ev);
		else
			walk_class(e, c, ev);
		if (__builtin_expect(!(++e->events & 0xffff), 0) && e->progress &&
		    !e->progress(e, ev->ts_ns, e->arg))
			return -ECANCELED;
	}
	if (e->choosy && e->has_events && !e->ended)
		e->last_ns = rut_ctf_reader_last_ns(reader);
	return e->state.failed || e->periods.failed ? -ENOMEM : 0;
}

void rut_an_engine_finish(struct rut_engine *e)
{
	e->ended = true;
	if (e->whole)
		end_stretch(e, e->instances, e->last_ns);
	e->whole = false;
	rut_an_periods_abandon(&e->periods, e->last_ns);
	for (size_t i = 0; i < e->n_runs; i++) {
		struct rut_run *run = &e->runs[i];

		if (e->has_events && run->analysis->finish)
			run->analysis->finish(run, e->first_ns, e->last_ns);
		if (e->conf->mi && run->reports > 1 && run->analysis->summarise)
			run->analysis->summarise(run);
		rut_an_run_show(run);
	}
}

void rut_an_run_show(struct rut_run *run)
{
	if (run->engine->flush)
		run->engine->flush(run, run->engine->arg);
}

void rut_an_run_take(struct rut_run *run, struct rut_result *t,
		     void (*print)(const struct rut_result *t, struct rut_buf *out))
{
	if (!t)
		return;
	if (run->conf->mi) {
		rut_an_results_take(&run->results, t);
		return;
	}
	print(t, &run->out);
	rut_an_result_free(t);
}

void rut_an_run_print_range(struct rut_run *run, int64_t begin_ns, int64_t end_ns)
{
	char range[160];

	rut_an_fmt_range(range, sizeof(range), begin_ns, end_ns, true, run->conf->gmt);
	rut_buf_printf(&run->out, "Timerange: %s\n", range);
}
