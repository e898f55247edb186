/* SPDX-License-Identifier: MIT */
/*
 * rubytop: calls and times by method. rubyslow: the slowest outermost calls, each with the tree of
 * what was called in it. Calls of one method below one parent are one node of a tree, so that a
 * hundred equal queries are one line.
 */
#include "analysis/an_ruby.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fmt.h"
#include "analysis/freq.h"
#include "analysis/ordered.h"

bool rut_an_ruby_wanted(const struct rut_conf *conf, const struct rut_thread *thread, int64_t tid,
			int64_t pid)
{
	bool found = !conf->n_tids && !conf->n_pids;

	if (thread)
		return rut_an_conf_thread(conf, thread);
	if (conf->n_procnames)
		return false;
	for (size_t i = 0; i < conf->n_tids; i++)
		found = found || conf->tids[i] == tid;
	for (size_t i = 0; i < conf->n_pids; i++)
		found = found || conf->pids[i] == pid;
	return found;
}

void rut_an_ruby_place(char *out, size_t size, const struct rut_ruby_method *m)
{
	if (*m->path)
		snprintf(out, size, "%s:%u", m->path, m->line);
	else
		snprintf(out, size, "-");
}

/* Where character `n` of this UTF-8 begins; of less than that the end. */
static const char *character(const char *s, size_t n)
{
	for (; *s && n; n--)
		for (s++; (*s & 0xc0) == 0x80; s++)
			;
	return s;
}

const char *rut_an_ruby_name(char out[RUT_RUBY_NAME_SIZE], const char *name)
{
	size_t count = 0, begin, keep = (RUT_RUBY_NAME_MAX - 3) / 2;
	const char *begin_end, *end_begin;

	if (strlen(name) <= RUT_RUBY_NAME_MAX)
		return name;
	for (const char *s = name; *s; s = character(s, 1))
		count++;
	if (count <= RUT_RUBY_NAME_MAX)
		return name;
	begin_end = character(name, keep);
	end_begin = character(name, count - keep);
	/* Bytes that are not UTF-8 may make one character as long as they like. */
	begin = (size_t)(begin_end - name) < keep * 4 ? (size_t)(begin_end - name) : keep * 4;
	snprintf(out, RUT_RUBY_NAME_SIZE, "%.*s...%.*s", (int)begin, name, (int)keep * 4,
		 end_begin);
	return out;
}

bool rut_an_ruby_begin_text(const struct rut_instance *inst, int64_t end_ns)
{
	struct rut_run *run = inst->run;

	rut_an_run_print_range(run, inst->begin_ns, end_ns);
	if (rut_an_ruby_seen(&run->engine->state))
		return true;
	rut_buf_puts(&run->out,
		     "The trace has no Ruby events: 'rutile record --ruby TARGET' records them\n");
	return false;
}

void rut_an_ruby_duration(char *out, size_t size, int64_t ns)
{
	static const struct {
		double ns;
		const char *name;
	} units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
	double v;
	int i = 0;

	while (i < 3 && (double)ns < units[i].ns)
		i++;
	v = (double)ns / units[i].ns;
	snprintf(out, size, "%.*f %s", i == 3 || v >= 100 ? 0 : v >= 10 ? 1 : 2, v, units[i].name);
}

/* ---- rubytop ---- */

struct method_stats {
	const struct rut_ruby_method *method;
	bool is_init;
	int64_t total_ns, self_ns, cpu_ns, self_cpu_ns;
	struct rut_stat each;
};

struct top {
	struct rut_instance base;
	struct rut_ordered methods;
	bool has_cpu;
};

static const struct rut_lami_column top_columns[] = {
	{"method", "Method", RUT_LAMI_STRING, NULL},
	{"place", "Defined at", RUT_LAMI_PATH, NULL},
	{"calls", "Calls", RUT_LAMI_NUMBER, "calls"},
	{"total", "Total time", RUT_LAMI_DURATION, NULL},
	{"self", "Time without callees", RUT_LAMI_DURATION, NULL},
	{"cpu", "Of the total on a CPU", RUT_LAMI_DURATION, NULL},
	{"self-cpu", "Of the time without callees on a CPU", RUT_LAMI_DURATION, NULL},
	{"avg", "Average time", RUT_LAMI_DURATION, NULL},
	{"max", "Maximum time", RUT_LAMI_DURATION, NULL},
};

static const struct rut_lami_class top_class =
	RUT_LAMI_CLASS("per-method", "Calls by method", top_columns);

/* What of the call is in this report: it may have begun before. */
static struct rut_hook_ruby_call clip(const struct rut_hook_ruby_call *h, int64_t begin_ns)
{
	struct rut_hook_ruby_call c = *h;
	int64_t ns;

	if (c.begin_ns >= begin_ns)
		return c;
	c.begin_ns = begin_ns;
	ns = c.end_ns - begin_ns;
	c.self_ns = c.self_ns > ns ? ns : c.self_ns;
	c.cpu_ns = c.cpu_ns > ns ? ns : c.cpu_ns;
	c.self_cpu_ns = c.self_cpu_ns > ns ? ns : c.self_cpu_ns;
	return c;
}

static void add_call(void *arg, const void *data)
{
	struct top *top = arg;
	const struct rut_hook_ruby_call h = clip(data, top->base.begin_ns);
	const struct rut_conf *conf = top->base.run->conf;
	int64_t ns = h.end_ns - h.begin_ns;
	struct method_stats *m;

	if (!rut_an_ruby_wanted(conf, h.thread, h.tid, h.pid) ||
	    (conf->has_min && (double)ns < conf->min_ns) ||
	    (conf->has_max && (double)ns > conf->max_ns))
		return;
	m = rut_an_ordered_add(&top->methods, (uint64_t)h.method->index + 1, sizeof(*m));
	if (!m)
		return;
	if (!m->is_init) {
		m->is_init = true;
		m->method = h.method;
		(void)rut_an_stat_init(&m->each, rut_an_stat_keep(conf));
	}
	rut_stat_add(&m->each, ns);
	m->self_ns += h.self_ns;
	if (h.outermost)
		m->total_ns += ns;
	if (h.cpu_ns < 0)
		return;
	top->has_cpu = true;
	m->self_cpu_ns += h.self_cpu_ns;
	if (h.outermost)
		m->cpu_ns += h.cpu_ns;
}

static void add_running(void *arg, const struct rut_hook_ruby_call *call)
{
	add_call(arg, call);
}

static const struct rut_analysis_hook top_hooks[] = {{RUT_HOOK_RUBY_CALL, add_call}, {0, NULL}};

static int by_total(const void *a, const void *b)
{
	int64_t x = ((const struct method_stats *)a)->total_ns;
	int64_t y = ((const struct method_stats *)b)->total_ns;

	return x > y ? -1 : x < y;
}

static void add_time(struct rut_result *t, bool known, int64_t ns)
{
	if (known)
		rut_an_result_int(t, RUT_LAMI_DURATION, ns);
	else
		rut_an_result_unknown(t);
}

static struct rut_result *top_table(const struct top *top, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&top_class, top->base.begin_ns, end_ns, NULL);
	struct method_stats **list =
		(struct method_stats **)rut_an_ordered_sorted(&top->methods, by_total);
	int64_t limit = top->base.run->conf->limit;
	char place[1100];

	for (size_t i = 0; t && list && i < top->methods.n; i++) {
		const struct method_stats *m = list[i];

		if (limit > 0 && (int64_t)i >= limit)
			break;
		rut_an_ruby_place(place, sizeof(place), m->method);
		rut_an_result_text(t, RUT_LAMI_STRING, m->method->name);
		rut_an_result_text(t, RUT_LAMI_PATH, place);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)m->each.count);
		rut_an_result_int(t, RUT_LAMI_DURATION, m->total_ns);
		rut_an_result_int(t, RUT_LAMI_DURATION, m->self_ns);
		add_time(t, top->has_cpu, m->cpu_ns);
		add_time(t, top->has_cpu, m->self_cpu_ns);
		rut_an_result_float(t, RUT_LAMI_DURATION, rut_stat_mean(&m->each));
		rut_an_result_int(t, RUT_LAMI_DURATION, m->each.max);
	}
	free(list);
	return t;
}

static void duration_cell(char *out, size_t size, const struct rut_cell *c)
{
	if (c->type == RUT_LAMI_DURATION)
		rut_an_ruby_duration(out, size, (int64_t)rut_an_cell_value(c));
	else
		snprintf(out, size, "?");
}

static void print_top(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<36} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {:<0}\n";
	char calls[24], d[6][32], wait[32], name[RUT_RUBY_NAME_SIZE];

	rut_buf_puts(out, "Calls by method\n");
	rut_an_fmt_line(out, line, "Method", "Calls", "Total", "CPU", "Waiting", "Self", "Average",
			"Max", "Defined at");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(calls, sizeof(calls), "%lld", (long long)row[2].i);
		for (int k = 0; k < 6; k++)
			duration_cell(d[k], sizeof(d[k]), &row[3 + k]);
		if (row[5].type == RUT_LAMI_DURATION)
			rut_an_ruby_duration(wait, sizeof(wait), row[3].i - row[5].i);
		else
			snprintf(wait, sizeof(wait), "?");
		rut_an_fmt_line(out, line, rut_an_ruby_name(name, row[0].str), calls, d[0], d[2],
				wait, d[1], d[4], d[5], row[1].str);
	}
}

static void top_report(struct rut_instance *inst, int64_t end_ns)
{
	struct top *top = (struct top *)inst;
	struct rut_run *run = inst->run;
	struct rut_result *t, *pct = NULL;
	char name[RUT_RUBY_NAME_SIZE];

	rut_an_ruby_running(&run->engine->state, end_ns, add_running, top);
	if (!run->conf->mi && !rut_an_ruby_begin_text(inst, end_ns))
		return;
	t = top_table(top, end_ns);
	if (run->conf->percentiles)
		pct = rut_an_result_new(&rut_an_class_percentiles, inst->begin_ns, end_ns, NULL);
	for (size_t i = 0; pct && i < top->methods.n; i++) {
		const struct method_stats *m = top->methods.items[i];

		rut_an_percentiles_add(pct,
				       run->conf->mi ? m->method->name
						     : rut_an_ruby_name(name, m->method->name),
				       &m->each);
	}
	rut_an_run_take(run, t, print_top);
	rut_an_percentiles_finish(run, pct);
}

static void top_fini(struct rut_instance *inst)
{
	struct top *top = (struct top *)inst;

	for (size_t i = 0; i < top->methods.n; i++)
		rut_an_stat_fini(&((struct method_stats *)top->methods.items[i])->each);
	rut_an_ordered_fini(&top->methods);
}

static const char *const tags[] = {"ruby", "rutile", "stats", "top", NULL};
static const struct rut_lami_class *const top_classes[] = {&top_class, &rut_an_class_percentiles,
							   NULL};

const struct rut_analysis rut_analysis_rubytop = {
	.info = {"Ruby methods", "Calls and times of Ruby methods", tags, top_classes},
	.report_needs = {"ruby:call"},
	.instance_size = sizeof(struct top),
	.hooks = top_hooks,
	.report = top_report,
	.fini = top_fini,
};

/* ---- rubyslow ---- */

#define NODES_MAX 4096 /* of one tree; what comes then is in its parent's own time */
#define NO_NODE	  UINT32_MAX
#define DEPTH_MAX 10 /* that is printed */

struct node {
	const struct rut_ruby_method *method;
	uint32_t first_child, next; /* NO_NODE: none */
	uint64_t calls;
	int64_t total_ns;
};

struct tree {
	struct node *nodes; /* owned; the first is the outermost call */
	uint32_t count, cap;
};

/* The tree that grows in one fiber. */
struct builder {
	struct tree tree;
	uint32_t *path; /* owned; by depth: the node of the call that runs there */
	uint32_t path_cap;
};

struct slow_call {
	struct rut_hook_ruby_call call;
	const char *comm;
	struct tree tree;
};

struct slow {
	struct rut_instance base;
	struct rut_ordered builders; /* by thread and fiber */
	struct slow_call *calls;     /* owned; the slowest first */
	size_t count, most;
};

static const struct rut_lami_column slow_columns[] = {
	{"range", "Time range", RUT_LAMI_TIME_RANGE, NULL},
	{"method", "Method", RUT_LAMI_STRING, NULL},
	{"place", "Defined at", RUT_LAMI_PATH, NULL},
	{"process", "Process", RUT_LAMI_PROCESS, NULL},
	{"duration", "Duration", RUT_LAMI_DURATION, NULL},
	{"cpu", "On a CPU", RUT_LAMI_DURATION, NULL},
	{"running", "Has not returned", RUT_LAMI_BOOL, NULL},
};

static const struct rut_lami_class slow_class =
	RUT_LAMI_CLASS("slow-calls", "Slowest calls", slow_columns);

static uint64_t fiber_key(int64_t tid, uint32_t fiber)
{
	return ((uint64_t)tid << 32 | fiber) + 1;
}

static uint32_t add_node(struct tree *t, uint32_t parent, const struct rut_ruby_method *method)
{
	uint32_t *link = parent == NO_NODE ? NULL : &t->nodes[parent].first_child;

	while (link && *link != NO_NODE && t->nodes[*link].method != method)
		link = &t->nodes[*link].next;
	if (link && *link != NO_NODE)
		return *link;
	if (t->count == NODES_MAX)
		return NO_NODE;
	if (!t->nodes || t->count == t->cap) {
		uint32_t cap = t->cap ? t->cap * 2 : 16;
		size_t at = link ? (size_t)((char *)link - (char *)t->nodes) : 0;
		struct node *to = realloc(t->nodes, cap * sizeof(*to));

		if (!to)
			return NO_NODE;
		t->nodes = to;
		t->cap = cap;
		link = link ? (uint32_t *)(void *)((char *)to + at) : NULL;
	}
	t->nodes[t->count] = (struct node){method, NO_NODE, NO_NODE, 0, 0};
	if (link)
		*link = t->count;
	return t->count++;
}

static void on_begin(void *arg, const void *data)
{
	const struct rut_hook_ruby_begin *h = data;
	struct slow *slow = arg;
	struct builder *b =
		rut_an_ordered_add(&slow->builders, fiber_key(h->tid, h->fiber), sizeof(*b));
	uint32_t parent;

	if (!b)
		return;
	if (h->depth >= b->path_cap) {
		uint32_t cap = h->depth * 2 + 16, *to = realloc(b->path, cap * sizeof(*to));

		if (!to)
			return;
		for (uint32_t i = b->path_cap; i < cap; i++)
			to[i] = NO_NODE;
		b->path = to;
		b->path_cap = cap;
	}
	if (!h->depth)
		b->tree.count = 0;
	parent = h->depth ? b->path[h->depth - 1] : NO_NODE;
	b->path[h->depth] =
		h->depth && parent == NO_NODE ? NO_NODE : add_node(&b->tree, parent, h->method);
}

/* Keeps the call if it is one of the slowest; takes the tree then. */
static void keep(struct slow *slow, const struct rut_hook_ruby_call *h, struct builder *b)
{
	int64_t ns = h->end_ns - h->begin_ns;
	size_t at = slow->count;

	while (at && slow->calls[at - 1].call.end_ns - slow->calls[at - 1].call.begin_ns < ns)
		at--;
	if (at >= slow->most)
		return;
	if (slow->count == slow->most)
		free(slow->calls[--slow->count].tree.nodes);
	memmove(&slow->calls[at + 1], &slow->calls[at], (slow->count - at) * sizeof(*slow->calls));
	slow->calls[at] = (struct slow_call){*h, h->thread ? h->thread->comm : "ruby", b->tree};
	slow->count++;
	b->tree = (struct tree){0};
}

static void on_end(void *arg, const void *data)
{
	const struct rut_hook_ruby_call *h = data;
	struct slow *slow = arg;
	const struct rut_conf *conf = slow->base.run->conf;
	struct builder *b =
		rut_an_ordered_add(&slow->builders, fiber_key(h->tid, h->fiber), sizeof(*b));
	int64_t ns = h->end_ns - h->begin_ns;
	uint32_t node;

	if (!b)
		return;
	/* It may have begun before this report did. */
	node = h->depth < b->path_cap ? b->path[h->depth] : NO_NODE;
	if (node < b->tree.count) {
		b->tree.nodes[node].calls++;
		b->tree.nodes[node].total_ns += ns;
	}
	if (h->depth || !rut_an_ruby_wanted(conf, h->thread, h->tid, h->pid) ||
	    (conf->has_min && (double)ns < conf->min_ns) ||
	    (conf->has_max && (double)ns > conf->max_ns))
		return;
	keep(slow, h, b);
}

static void end_running(void *arg, const struct rut_hook_ruby_call *call)
{
	on_end(arg, call);
}

static const struct rut_analysis_hook slow_hooks[] = {
	{RUT_HOOK_RUBY_BEGIN, on_begin}, {RUT_HOOK_RUBY_CALL, on_end}, {0, NULL}};

static int slow_init(struct rut_instance *inst)
{
	struct slow *slow = (struct slow *)inst;
	int64_t limit = inst->run->conf->limit;

	slow->most = limit > 0 && limit < 10000 ? (size_t)limit : 10000;
	slow->calls = calloc(slow->most + 1, sizeof(*slow->calls));
	return slow->calls ? 0 : -1;
}

static struct rut_result *slow_table(const struct slow *slow, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&slow_class, slow->base.begin_ns, end_ns, NULL);
	char place[1100];

	for (size_t i = 0; t && i < slow->count; i++) {
		const struct slow_call *s = &slow->calls[i];

		rut_an_ruby_place(place, sizeof(place), s->call.method);
		rut_an_result_range(t, s->call.begin_ns, s->call.end_ns);
		rut_an_result_text(t, RUT_LAMI_STRING, s->call.method->name);
		rut_an_result_text(t, RUT_LAMI_PATH, place);
		rut_an_result_process(t, s->comm, s->call.pid, s->call.tid);
		rut_an_result_int(t, RUT_LAMI_DURATION, s->call.end_ns - s->call.begin_ns);
		add_time(t, s->call.cpu_ns >= 0, s->call.cpu_ns);
		rut_an_result_bool(t, s->call.running);
	}
	return t;
}

struct child {
	uint32_t node;
	int64_t ns;
};

static int by_ns(const void *a, const void *b)
{
	int64_t x = ((const struct child *)a)->ns, y = ((const struct child *)b)->ns;

	return x > y ? -1 : x < y;
}

/* The most expensive children first; those below 1 % of the whole call are left out. */
static void print_children(const struct tree *t, uint32_t node, int depth, int64_t whole_ns,
			   struct rut_buf *out)
{
	struct child children[64] = {{0}};
	size_t n = 0;
	char d[32], name[RUT_RUBY_NAME_SIZE];

	for (uint32_t c = t->nodes[node].first_child; c != NO_NODE && n < 64; c = t->nodes[c].next)
		if (t->nodes[c].total_ns * 100 >= whole_ns)
			children[n++] = (struct child){c, t->nodes[c].total_ns};
	qsort(children, n, sizeof(*children), by_ns);
	for (size_t i = 0; i < n; i++) {
		const struct node *c = &t->nodes[children[i].node];

		rut_an_ruby_duration(d, sizeof(d), c->total_ns);
		rut_buf_printf(out, "  %9s  %*s", d, depth * 2, "");
		if (c->calls != 1)
			rut_buf_printf(out, "%llu x ", (unsigned long long)c->calls);
		rut_buf_printf(out, "%s\n", rut_an_ruby_name(name, c->method->name));
		if (depth < DEPTH_MAX)
			print_children(t, children[i].node, depth + 1, whole_ns, out);
	}
}

static void print_slow(const struct slow *slow, struct rut_buf *out)
{
	const struct rut_conf *conf = slow->base.run->conf;
	char d[32], cpu[64], when[64], place[1100], name[RUT_RUBY_NAME_SIZE];

	rut_buf_puts(out, "Slowest calls\n");
	for (size_t i = 0; i < slow->count; i++) {
		const struct slow_call *s = &slow->calls[i];
		int64_t ns = s->call.end_ns - s->call.begin_ns;

		rut_an_ruby_duration(d, sizeof(d), ns);
		rut_an_ruby_place(place, sizeof(place), s->call.method);
		rut_an_fmt_time(when, sizeof(when), s->call.begin_ns, conf->multi_day, conf->gmt);
		rut_buf_printf(out, "\n%s  %s  (%s)\n", d,
			       rut_an_ruby_name(name, s->call.method->name), place);
		cpu[0] = '\0';
		if (s->call.cpu_ns >= 0) {
			rut_an_ruby_duration(d, sizeof(d), s->call.cpu_ns);
			snprintf(cpu, sizeof(cpu), ", %s on a CPU", d);
		}
		rut_buf_printf(out, "  at %s, process %lld, thread %lld%s%s\n", when,
			       (long long)s->call.pid, (long long)s->call.tid, cpu,
			       s->call.running ? ", has not returned" : "");
		if (s->tree.count)
			print_children(&s->tree, 0, 0, ns, out);
	}
}

static void slow_report(struct rut_instance *inst, int64_t end_ns)
{
	struct slow *slow = (struct slow *)inst;
	struct rut_run *run = inst->run;

	rut_an_ruby_running(&run->engine->state, end_ns, end_running, slow);
	if (run->conf->mi)
		rut_an_results_take(&run->results, slow_table(slow, end_ns));
	else if (rut_an_ruby_begin_text(inst, end_ns))
		print_slow(slow, &run->out);
}

static void slow_fini(struct rut_instance *inst)
{
	struct slow *slow = (struct slow *)inst;

	for (size_t i = 0; i < slow->count; i++)
		free(slow->calls[i].tree.nodes);
	for (size_t i = 0; i < slow->builders.n; i++) {
		struct builder *b = slow->builders.items[i];

		free(b->tree.nodes);
		free(b->path);
	}
	free(slow->calls);
	rut_an_ordered_fini(&slow->builders);
}

static const struct rut_lami_class *const slow_classes[] = {&slow_class, NULL};

const struct rut_analysis rut_analysis_rubyslow = {
	.info = {"Slow Ruby calls", "The slowest outermost calls, each with its tree", tags,
		 slow_classes},
	.report_needs = {"ruby:call"},
	.instance_size = sizeof(struct slow),
	.hooks = slow_hooks,
	.init = slow_init,
	.report = slow_report,
	.fini = slow_fini,
};
