/* SPDX-License-Identifier: MIT */
/* The options of the analyses, and their tables. */
#ifndef RUT_CLI_ANALYSIS_OPTS_H
#define RUT_CLI_ANALYSIS_OPTS_H

#include "analysis/conf.h"
#include "analysis/engine.h"
#include "base/commas.h"
#include "cli/cmd.h"

enum rut_analysis_opt {
	OPT_BEGIN = 256,
	OPT_END,
	OPT_TIMERANGE,
	OPT_GMT,
	OPT_SKIP_VALIDATION,
	OPT_NO_INTERSECTION,
	OPT_NO_PROGRESS,
	OPT_PROGRESS_USE_SIZE,
	OPT_NO_COLOR,
	OPT_DEBUG,
	OPT_CPU,
	OPT_TID,
	OPT_PID,
	OPT_PROCNAME,
	OPT_FILTER,
	OPT_PERIOD,
	OPT_PERIOD_CAPTURES,
	OPT_PERIOD_FILE,
	OPT_PERIOD_BEGIN,
	OPT_PERIOD_END,
	OPT_PERIOD_BEGIN_KEY,
	OPT_PERIOD_END_KEY,
	OPT_PERIOD_KEY_VALUE,
	OPT_FOLLOW,
	OPT_HOSTS,
	OPT_MERGE,
	OPT_HOSTS_JSON,
	OPT_PERCENTILES,
	OPT_MI,
	OPT_MI_VERSION,
	OPT_METADATA,
	OPT_TEST_COMPATIBILITY,
	OPT_OUTPUT_PROGRESS,
	OPT_LIMIT,
	OPT_TOP,
	OPT_STATS,
	OPT_LOG,
	OPT_FREQ,
	OPT_USAGE,
	OPT_MIN,
	OPT_MAX,
	OPT_RESOLUTION,
	OPT_UNIFORM,
	OPT_SERIES,
	OPT_LOG_SCALE,
	OPT_BY,
	OPT_REQUEST,
	OPT_ROUTE,
	OPT_SLOWEST,
	OPT_EXPLAIN,
	OPT_LIVE, /* of a live view, not of a trace */
	OPT_JSON,
};

/* Of a trace that grows while it is analysed, by our own doing: --refresh says how often. */
struct rut_analysis_live {
	/* Lets it grow, or waits a while. 1: it is complete; below 0: -errno. */
	int (*feed)(void *arg, struct rut_err *err);
	/* The tables of one interval, harmless text; takes what is in it. */
	void (*tables)(struct rut_buf *text, void *arg);
	/* Called several times a second; false ends it. */
	bool (*idle)(void *arg);
	void *arg;
};

struct rut_analysis_args {
	struct rut_conf conf;
	const struct rut_cmd *cmd;
	const char **paths; /* owned array */
	size_t n_paths;
	const char *begin, *end, *timerange;
	bool quiet; /* the analysis only collects: print nothing */
	bool skip_validation, no_intersection, no_progress, progress_use_size, debug;
	/* The verb's analysis, whose own options are taken; NULL: these keep their defaults. */
	const struct rut_analysis *analysis;
	void *own; /* owned; what these options have set */
	/* Which analyses, when that depends on the trace; else NULL. */
	size_t (*choose)(const struct rut_ctf_set *set, const struct rut_analysis **ret,
			 size_t max);
	bool hosts, merge; /* the path is a folder of hosts; one table of all of them */
	bool hosts_json;   /* JSON Lines of them */
	bool follow, mi_version, metadata, test_compatibility, output_progress;
	const char **periods, **captures; /* owned arrays */
	size_t n_periods, n_captures;
	struct rut_period_set set;
	const char *old_begin, *old_end, *old_begin_key, *old_end_key, *old_value;
	struct rut_commas cpus, tids, pids, procnames;
	struct rut_expr *filter; /* owned */
	/*
	 * Takes the tables of each report, instead of printing; with conf.mi. They are freed
	 * afterwards.
	 */
	void (*sink)(void *arg, const struct rut_results *results);
	void *sink_arg;
	const struct rut_analysis_live *live; /* borrowed; NULL: the trace is as others write it */
	/* Options that are the verb's own: as take_option() returns, or -ENOENT: it is none. */
	int (*extra)(void *arg, int id, const char *value);
	void *extra_arg;
};

/* Which options a family of analyses has: all have the common ones. */
extern const struct rut_opt rut_cli_opts_cputop[], rut_cli_opts_memtop[], rut_cli_opts_syscalls[],
	rut_cli_opts_io[], rut_cli_opts_irq[], rut_cli_opts_sched[], rut_cli_opts_period[],
	rut_cli_opts_plain[], rut_cli_opts_fdtop[], rut_cli_opts_calls[];
extern const struct rut_opt rut_cli_opts_series[], rut_cli_opts_changes[], rut_cli_opts_diff[],
	rut_cli_opts_offcpu[];

/* What a verb shows by default: the third word of its line in verbs.h. */
void rut_cli_want_nothing(struct rut_conf *c);
void rut_cli_want_stats(struct rut_conf *c);
void rut_cli_want_log(struct rut_conf *c);
void rut_cli_want_top(struct rut_conf *c);
void rut_cli_want_freq(struct rut_conf *c);
void rut_cli_want_usage(struct rut_conf *c);
void rut_cli_want_series(struct rut_conf *c);

void rut_cli_analysis_args_fini(struct rut_analysis_args *a);
/*
 * Reads the command line. Returns -1 when the run may go on, else the exit code (the help or an
 * error was printed).
 */
int rut_cli_analysis_args_parse(struct rut_analysis_args *a, const struct rut_cmd *cmd, int argc,
				char **argv);

/* Prints the error as the mode asks and returns the exit code. */
int rut_cli_analysis_fail(const struct rut_analysis_args *a, const struct rut_err *err);
/* The same of a command line that cannot be understood. */
int rut_cli_analysis_usage(const struct rut_analysis_args *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
