/* SPDX-License-Identifier: MIT */
/*
 * The engine: one pass over a trace, any number of analyses.
 *
 * An analysis is a table: which hooks of the state model it listens to, and how it reports. For
 * every reported interval (the whole trace, each --refresh step, each instance
 * of a period) it gets an instance of its own, which listens during that interval and reports
 * when it ends.
 */
#ifndef RUT_ANALYSIS_ENGINE_H
#define RUT_ANALYSIS_ENGINE_H

#include "analysis/conf.h"
#include "analysis/lami.h"
#include "analysis/ordered.h"
#include "analysis/periods.h"
#include "analysis/state.h"
#include "base/buf.h"
#include "base/opt.h"

struct rut_engine;
struct rut_run;

/* The first member of every analysis's own instance. */
struct rut_instance {
	struct rut_run *run;
	int64_t begin_ns;
	const struct rut_period *period; /* NULL: not of a period */
};

struct rut_analysis_hook {
	enum rut_hook hook;
	rut_hook_fn fn; /* arg: the instance */
};

/*
 * Defines FN(), for RUT_HOOK_NAME: keeps the name of a thread in its row, if it has one. `rows` is
 * the instance's, and has rows of ROW_TYPE with a `comm`, by `key` of the thread.
 */
#define RUT_DEFINE_NAME_HOOK(fn, instance_type, rows, row_type, key)                               \
	static void fn(void *arg, const void *data)                                                \
	{                                                                                          \
		const struct rut_hook_thread *h = data;                                            \
		instance_type *inst = arg;                                                         \
		row_type *row = rut_ordered_get(&inst->rows, (uint64_t)h->thread->key);            \
                                                                                                   \
		if (row)                                                                           \
			row->comm = h->thread->comm;                                               \
	}                                                                                          \
	struct rut_swallow_semicolon

/* Events that no hook covers. Fields are resolved once. */
struct rut_analysis_event {
	const char *name;
	const char *fields[RUT_STATE_FIELDS];
	void (*fn)(struct rut_instance *inst, const struct rut_ctf_event *ev,
		   const struct rut_state_class *c, const struct rut_ctf_ref *f);
};

/* The ids of an analysis's own options are RUT_ANALYSIS_OPT and above. */
enum { RUT_ANALYSIS_ARGUMENT = 0xfff, RUT_ANALYSIS_OPT };

struct rut_analysis {
	struct rut_lami_info info;
	/*
	 * Options of this analysis alone; its verbs have them besides those in cli/verbs.h.
	 * option() keeps the value, which outlives the analysis, in `own`: own_size zeroed bytes,
	 * conf->own later. Returns 0, -EINVAL for a bad value, or -ENOMEM. own_fini() frees what
	 * it has allocated; or NULL.
	 */
	const struct rut_opt *options; /* ends with a NULL name */
	size_t own_size;
	int (*option)(void *own, int id, const char *value);
	void (*own_fini)(void *own);
	/*
	 * A word before the traces, given to option() as RUT_ANALYSIS_ARGUMENT: the question when
	 * it is missing or bad. NULL: there is none.
	 */
	const char *argument;
	/* Refuses options that do not go together: -EINVAL, with the reason. Or NULL. */
	int (*check)(const struct rut_conf *conf, struct rut_err *err);
	const char *const
		*needs; /* globs of events, one of which the trace must have; ends with NULL */
	/* What it counts is a thread's: without sched_switch, and the context tid, it is nobody's.
	 */
	bool needs_threads;
	bool needs_switches; /* besides `needs` */
	/* `report` and `top` show it of a trace that has one of these events (globs); none: they
	 * never do */
	const char *report_needs[4];
	size_t instance_size;
	const struct rut_analysis_hook *hooks; /* ends with fn NULL; or NULL */
	uint32_t wants; /* hooks (RUT_HOOK_BIT) that it subscribes to by itself */
	/*
	 * Whether it asks for the descriptors of processes. NULL: as one does that listens to
	 * system calls.
	 */
	bool (*asks_files)(const struct rut_conf *conf);
	/* Before the first event: what outlives the intervals, in run->priv. 0 or -ENOMEM. Or NULL.
	 */
	int (*run_init)(struct rut_run *run);
	const struct rut_analysis_event *events; /* ends with name NULL; or NULL */
	int (*init)(struct rut_instance *inst);	 /* the memory is zeroed; or NULL */
	/* Reports on [inst->begin_ns, end_ns]: text to run->out, or tables to run->results. */
	void (*report)(struct rut_instance *inst, int64_t end_ns);
	void (*fini)(struct rut_instance *inst);
	/* After the last event; for analyses that report only then. Or NULL. */
	void (*finish)(struct rut_run *run, int64_t first_ns, int64_t last_ns);
	/* JSON only: from many reports' tables to one. NULL: the tables stay. */
	void (*summarise)(struct rut_run *run);
	/* Periods begin and end; for the analysis of the periods themselves. Or NULL. */
	void (*period_begin)(struct rut_run *run, struct rut_period *p);
	void (*period_end)(struct rut_run *run, struct rut_period *p);
	void (*run_fini)(struct rut_run *run);
};

/* For asks_files. */
bool rut_an_asks_no_files(const struct rut_conf *conf);

/* Bounds that uniform frequency distributions share, kept from report to report. */
struct rut_uniform {
	bool set;
	double min, max, step;
};

#define RUT_UNIFORMS 8

/* One analysis in an engine. */
struct rut_run {
	const struct rut_analysis *analysis;
	const struct rut_conf *conf;
	struct rut_engine *engine;
	struct rut_results results;
	struct rut_buf out;
	struct rut_uniform uniform[RUT_UNIFORMS];
	size_t reports; /* how many intervals were reported */
	void *priv;	/* of the analysis; freed by run_fini */
};

/* How far the pass is; called now and then. Returns false to stop. */
typedef bool (*rut_progress_fn)(const struct rut_engine *e, int64_t ts_ns, void *arg);

struct rut_engine {
	const struct rut_conf *conf;
	struct rut_ctf_set *set; /* borrowed */
	struct rut_state state;
	struct rut_run *runs; /* owned */
	size_t n_runs;
	struct rut_periods periods;
	bool has_events;
	uint64_t n_periods;		   /* that have begun */
	const struct rut_ctf_event *event; /* borrowed: what begins or ends a period now */
	int64_t first_ns, last_ns;
	uint64_t events;
	rut_progress_fn progress;
	/* Called after each report, so that its text can be shown at once. */
	void (*flush)(struct rut_run *run, void *arg);
	void *arg;
	/* Of the walk alone. */
	bool started, ended;
	bool whole;  /* an instance that belongs to no period is there */
	bool choosy; /* the reader passes over what no one can use */
	int64_t next_check_ns, interval_ns;
	struct rut_engine_list *instances;
	struct rut_engine_class *classes;
	size_t n_classes;
};

/* `conf` and `set` must outlive the engine. Returns 0 or -errno. */
int rut_an_engine_init(struct rut_engine *e, const struct rut_conf *conf, struct rut_ctf_set *set,
		       const struct rut_analysis *const *analyses, size_t n, struct rut_err *err);
void rut_an_engine_fini(struct rut_engine *e);

/* The thread itself, or with --by what it is put together with (rut_an_state_group()). */
struct rut_thread *rut_an_run_group(struct rut_run *run, struct rut_thread *t);
static inline struct rut_thread *rut_an_run_row(struct rut_run *run, struct rut_thread *t)
{
	return __builtin_expect(!run->conf->by, 1) ? t : rut_an_run_group(run, t);
}

/* Whether the trace has one of the events that the analysis needs. */
bool rut_analysis_fits(const struct rut_analysis *a, const struct rut_ctf_set *set);
/* It has system calls or pages, and neither sched_switch nor a context says whose they are. */
bool rut_an_engine_lacks_threads(const struct rut_engine *e);
bool rut_an_engine_has_switches(const struct rut_engine *e);
/* The filter is false for every class of events of the trace. */
bool rut_an_engine_filters_all(const struct rut_engine *e);

/* Looks for classes that came with a growing trace. Returns 0 or -errno. */
int rut_an_engine_rebind(struct rut_engine *e, struct rut_err *err);

/*
 * Asks the reader for what the analyses can use, so that it passes over the rest. Before the first
 * walk, and only where the trace does not grow and the reader ends where the analyses do: the last
 * time of all is then the reader's.
 */
void rut_an_engine_want(struct rut_engine *e, struct rut_ctf_reader *reader);

/* Reads until the reader has no more. May be called again after rut_ctf_reader_poll(). */
int rut_an_engine_walk(struct rut_engine *e, struct rut_ctf_reader *reader);
/* Ends what is open and reports it. */
void rut_an_engine_finish(struct rut_engine *e);

/* Keeps the table for the JSON, or prints it; takes it. NULL (out of memory) is passed over. */
void rut_an_run_take(struct rut_run *run, struct rut_result *t,
		     void (*print)(const struct rut_result *t, struct rut_buf *out));

/*
 * Shows the text so far where nothing else has to come first. A long list is made, printed and
 * shown in parts of so many rows, so that only what it is made from is in memory as a whole.
 */
enum { RUT_RUN_ROWS = 4096 };
void rut_an_run_show(struct rut_run *run);

/* "Timerange: [...]" before each report. */
void rut_an_run_print_range(struct rut_run *run, int64_t begin_ns, int64_t end_ns);

/* That of `rutile requests`; those with a verb of their own are in cli/verbs.h. */
extern const struct rut_analysis rut_analysis_requests;

#endif
