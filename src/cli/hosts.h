/* SPDX-License-Identifier: MIT */
/*
 * One analysis over a folder of hosts: each directory in it is a host, and is analysed by itself,
 * because the processes and disks of one have nothing to do with those of another. Rows of one name
 * stand side by side, or (--merge) are one.
 */
#ifndef RUT_CLI_HOSTS_H
#define RUT_CLI_HOSTS_H

#include "cli/analysis_opts.h"

/* How the values of rows that become one are put together. */
enum rut_hosts_how {
	RUT_HOSTS_SUM,
	RUT_HOSTS_MEAN,	   /* of hosts; within one a sum: shares */
	RUT_HOSTS_AVERAGE, /* by the number in the column of counts */
	RUT_HOSTS_MIN,
	RUT_HOSTS_MAX,
	RUT_HOSTS_APART, /* nothing is known of several: deviations, percentiles */
};

struct rut_hosts_value {
	bool has, unknown;
	double v, weight;
};

struct rut_hosts_row {
	char *key;			/* owned: the columns before the first number */
	struct rut_hosts_value *values; /* owned: by host and column */
};

struct rut_hosts_column {
	char *title, *unit; /* owned; unit may be NULL */
	enum rut_lami_type type;
	enum rut_hosts_how how;
};

struct rut_hosts_table {
	char *title, *key; /* owned; key: the titles of the columns before the first number */
	struct rut_hosts_column *columns; /* owned; numbers only */
	size_t n_columns, main, count;	  /* count: n_columns when there is none */
	struct rut_hosts_row *rows;	  /* owned */
	size_t n_rows;
	struct rut_map by_key; /* hash of a key -> number of the row + 1 */
};

struct rut_hosts_host {
	char *name, *path; /* owned */
	bool failed, has_clock;
	int64_t begin_ns, end_ns;
	int64_t offset_ns,
		error_ns; /* its clock was corrected by offset, and may be off by error */
};

struct rut_hosts {
	struct rut_hosts_host *list; /* owned */
	size_t n, now;		     /* now: the one whose tables come */
	struct rut_hosts_table *tables;
	size_t n_tables;
	bool no_memory;
};

/* Runs the analyses over each host of the folder a->paths[0], and prints. Returns the exit code. */
int rut_cli_hosts_run(const struct rut_analysis_args *a, const struct rut_analysis *const *analyses,
		      size_t n);

/* Of all hosts; `all` is the number of those that have a value. */
struct rut_hosts_value rut_cli_hosts_merged(const struct rut_hosts *h,
					    const struct rut_hosts_table *t,
					    const struct rut_hosts_row *r, size_t column);

/* hosts_report.c */
void rut_cli_hosts_text(const struct rut_hosts *h, const struct rut_analysis_args *a);
void rut_cli_hosts_json(const struct rut_hosts *h, const struct rut_analysis_args *a);

#endif
