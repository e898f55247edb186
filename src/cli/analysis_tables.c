/* SPDX-License-Identifier: MIT */
/* The options of each family of analyses, as the help lists them; analysis_opts.c reads them. */
#include "cli/analysis_opts.h"

#include <stddef.h>

#include "cli/requests_trace.h"

#define TIMES                                                                                      \
	{"begin", "TIME", "report from TIME on: [YYYY-MM-DD ]HH:MM:SS[.NS] or ns", OPT_BEGIN},     \
		{"end", "TIME", "report up to this time", OPT_END},                                \
		{"timerange", "RANGE", "--begin and --end in one: [BEGIN,END]", OPT_TIMERANGE},    \
		{"gmt", NULL, "times in UTC, not in the local zone", OPT_GMT},                     \
		{"refresh", "TIME", "report every TIME: N[s|ms|us|ns]", 'r'},                      \
	{                                                                                          \
		"follow", NULL, "wait for more events at the end of the trace", OPT_FOLLOW         \
	}
/* Not of verbs that compare by themselves, or print lines of time. */
#define HOSTS                                                                                      \
	{"hosts", NULL, "compare the hosts in a directory of traces by host", OPT_HOSTS},          \
	{                                                                                          \
		"merge", NULL, "with --hosts: one table of all hosts", OPT_MERGE                   \
	}
#define HOSTS_JSON                                                                                 \
	{                                                                                          \
		"json", NULL, "with --hosts: JSON Lines, an object for each host and row",         \
			OPT_HOSTS_JSON                                                             \
	}
#define OTHERS                                                                                     \
	{"cpu", "LIST", "only these CPUs", OPT_CPU},                                               \
		{"tid", "LIST", "only these threads", OPT_TID},                                    \
		{"pid", "LIST", "only these processes", OPT_PID},                                  \
		{"procname", "LIST", "only processes with these names", OPT_PROCNAME},             \
		{"filter", "EXPR", "count only events for which EXPR holds", OPT_FILTER},          \
		{"period", "DEF", "report each period: [NAME[(PARENT)]] : BEGIN [: END]",          \
		 OPT_PERIOD},                                                                      \
		{"period-captures", "DEF", "NAME : [x =] EXPR, ... [: [y =] EXPR, ...]",           \
		 OPT_PERIOD_CAPTURES},                                                             \
		{"period-file", "FILE",                                                            \
		 "read definitions of periods: a file, or apache, nginx ...", OPT_PERIOD_FILE},    \
		{"period-begin", "EVENT", NULL, OPT_PERIOD_BEGIN},                                 \
		{"period-end", "EVENT", NULL, OPT_PERIOD_END},                                     \
		{"period-begin-key", "FIELDS", NULL, OPT_PERIOD_BEGIN_KEY},                        \
		{"period-end-key", "FIELDS", NULL, OPT_PERIOD_END_KEY},                            \
		{"period-key-value", "VALUES", NULL, OPT_PERIOD_KEY_VALUE},                        \
		{"no-intersection", NULL, "include times at which not all streams record",         \
		 OPT_NO_INTERSECTION},                                                             \
		{"skip-validation", NULL, "do not announce the check for lost events",             \
		 OPT_SKIP_VALIDATION},                                                             \
		{"percentiles", NULL, "p50, p90, p99 and p99.9 of durations", OPT_PERCENTILES},    \
		{"no-progress", NULL, "no progress bar", OPT_NO_PROGRESS},                         \
		{"progress-use-size", NULL, "progress by bytes instead of time",                   \
		 OPT_PROGRESS_USE_SIZE},                                                           \
		{"no-color", NULL, NULL, OPT_NO_COLOR}, {"debug", NULL, NULL, OPT_DEBUG},          \
		{"version", NULL, NULL, 'V'},                                                      \
		{"mi", NULL, "LAMI 1.0 JSON instead of text", OPT_MI},                             \
		{"mi-version", NULL, "print the version of LAMI", OPT_MI_VERSION},                 \
		{"metadata", NULL, "print the possible tables as JSON", OPT_METADATA},             \
		{"test-compatibility", NULL,                                                       \
		 "check whether the trace can be analysed: exit status 0 or 1",                    \
		 OPT_TEST_COMPATIBILITY},                                                          \
	{                                                                                          \
		"output-progress", NULL, "print progress lines on standard output (--mi)",         \
			OPT_OUTPUT_PROGRESS                                                        \
	}
#define COMMON	    TIMES, HOSTS, OTHERS
#define COMMON_JSON TIMES, HOSTS, HOSTS_JSON, OTHERS

#define TOP                                                                                        \
	{                                                                                          \
		"limit", "N", "rows in a list of the largest, or unlimited (default 10)",          \
			OPT_LIMIT                                                                  \
	}
#define BY_GROUP                                                                                   \
	{                                                                                          \
		"by", "WHAT", "a row for each process or cgroup (default: thread)", OPT_BY         \
	}
#define TOP_FLAG                                                                                   \
	{                                                                                          \
		"top", NULL, "the largest", OPT_TOP                                                \
	}
#define MIN_MAX                                                                                    \
	{"min", "US", "leave out shorter durations (microseconds)", OPT_MIN},                      \
	{                                                                                          \
		"max", "US", "leave out longer durations (microseconds)", OPT_MAX                  \
	}
#define FREQ                                                                                       \
	{"freq", NULL, "distribution of durations", OPT_FREQ},                                     \
		{"freq-resolution", "N", "buckets of a distribution (default 20)",                 \
		 OPT_RESOLUTION},                                                                  \
		{"freq-uniform", NULL, "the same buckets for all distributions", OPT_UNIFORM},     \
		{"freq-series", NULL, "all distributions in one table", OPT_SERIES},               \
	{                                                                                          \
		"freq-log", NULL, "buckets that grow by a constant factor", OPT_LOG_SCALE          \
	}
#define STATS                                                                                      \
	{                                                                                          \
		"stats", NULL, "statistics", OPT_STATS                                             \
	}
#define LOG                                                                                        \
	{                                                                                          \
		"log", NULL, "list everything in time order", OPT_LOG                              \
	}

const struct rut_opt rut_cli_opts_plain[] = {COMMON_JSON, TOP, {0}};
const struct rut_opt rut_cli_opts_series[] = {
	TIMES,
	OTHERS,
	{"by", "WHAT", "values by cpu, process, disk, peer or cgroup (default: all together)",
	 OPT_BY},
	{0},
};
const struct rut_opt rut_cli_opts_changes[] = {
	COMMON_JSON,
	{"by", "WHAT", "by process or cgroup (default: process)", OPT_BY},
	{"limit", "N", "rows of each change, or unlimited (default 10)", OPT_LIMIT},
	{0},
};
const struct rut_opt rut_cli_opts_diff[] = {
	TIMES, OTHERS, {"by", "WHAT", "by process or cgroup (default: process)", OPT_BY}, TOP, {0},
};
const struct rut_opt rut_cli_opts_calls[] = {COMMON_JSON, MIN_MAX, TOP, {0}};
const struct rut_opt rut_cli_opts_cputop[] = {COMMON_JSON, BY_GROUP, TOP, TOP_FLAG, {0}};
const struct rut_opt rut_cli_opts_memtop[] = {COMMON_JSON, BY_GROUP, TOP, TOP_FLAG, {0}};
const struct rut_opt rut_cli_opts_fdtop[] = {
	COMMON_JSON,
	{"by", "WHAT", "a row for each process or cgroup (default: process)", OPT_BY},
	TOP,
	{0},
};
const struct rut_opt rut_cli_opts_offcpu[] = {COMMON_JSON, BY_GROUP, TOP, {0}};
const struct rut_opt rut_cli_opts_syscalls[] = {COMMON_JSON, BY_GROUP, {0}};
const struct rut_opt rut_cli_opts_io[] = {
	COMMON_JSON,
	{"by", "WHAT", "with --usage: a row for each process or cgroup (default: thread)", OPT_BY},
	MIN_MAX,
	LOG,
	TOP,
	TOP_FLAG,
	STATS,
	FREQ,
	{"usage", NULL, "bytes by process, file and device", OPT_USAGE},
	{0},
};
const struct rut_opt rut_cli_opts_irq[] = {
	COMMON_JSON, MIN_MAX, FREQ, LOG, STATS, {0},
};
const struct rut_opt rut_cli_opts_sched[] = {
	COMMON_JSON,
	{"by", "WHAT", "with --stats, --freq: a row for each process or cgroup (default: thread)",
	 OPT_BY},
	MIN_MAX,
	FREQ,
	TOP,
	TOP_FLAG,
	LOG,
	STATS,
	{0},
};
const struct rut_opt rut_cli_opts_period[] = {
	COMMON_JSON, MIN_MAX, FREQ, TOP, TOP_FLAG, LOG, STATS, {0},
};

const struct rut_opt rut_cli_opts_requests[] = {
	COMMON,
	MIN_MAX,
	TOP,
	{"request", "METHOD", "take calls of 'Class#method' (a glob) as requests", OPT_REQUEST},
	{"route", "GLOB", "only requests with matching routes", OPT_ROUTE},
	{"slowest", "N", "list the N slowest requests (default with --explain: 5)", OPT_SLOWEST},
	{"explain", NULL,
	 "explain why each of the slowest took so long; with --running: what it waits for",
	 OPT_EXPLAIN},
	{"running", NULL, "for a process: print the running requests, and exit", OPT_LIVE},
	{"interval", "TIME", "live: refresh interval (default 1s)", OPT_LIVE},
	{"duration", "TIME", "live: stop after TIME (for example 10s, 2m)", OPT_LIVE},
	{"sort", "COLUMN", "live: by time, count, errors, p50, p95, p99, max, rate or route",
	 OPT_LIVE},
	{"last", NULL, "live: print only the last table, at the end", OPT_LIVE},
	{"sql-values", NULL, "live: show SQL with its values", OPT_LIVE},
	{"json", NULL, "JSON Lines: an object for each route and each running or slow request",
	 OPT_JSON},
	{"output", "FILE", "live: write to a file", 'o'},
	{0},
};
