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
	RUT_HOSTS_AVERAGE, /* weighted by the number of cases, which another column has */
	RUT_HOSTS_MIN,
	RUT_HOSTS_MAX,
	RUT_HOSTS_APART, /* nothing is known of several: deviations, percentiles */
};

/* What a column of an analysis is for. */
enum rut_hosts_role {
	RUT_HOSTS_SKIP,
	RUT_HOSTS_KEY,	  /* names the row */
	RUT_HOSTS_NUMBER, /* is compared */
};

struct rut_hosts_value {
	bool has, unknown, outlier;
	double v, weight;
};

struct rut_hosts_row {
	char *key;			/* owned: what names it on all hosts */
	struct rut_hosts_value *values; /* owned: by host and column */
};

struct rut_hosts_column {
	char *key, *title, *unit; /* owned; unit may be NULL */
	enum rut_lami_type type;
	enum rut_hosts_how how;
	size_t count; /* AVERAGE: the column with the number of cases; else n_columns */
};

struct rut_hosts_table {
	char *title, *key;    /* owned; key: the titles of the columns that name a row */
	const char *left_out; /* why it is not compared; NULL: it is */
	uint8_t *roles;	      /* owned: enum rut_hosts_role of each column of its class */
	size_t n_roles;
	struct rut_hosts_column *columns; /* owned; numbers only */
	size_t n_columns, main;		  /* main: what hosts are compared by in text */
	struct rut_hosts_row *rows;	  /* owned */
	size_t n_rows;
	struct rut_map by_key; /* hash of a key -> number of the row + 1 */
};

struct rut_hosts_host {
	char *name, *path; /* owned; the name is harmless text */
	bool has_trace, failed, has_clock;
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

/* hosts_table.c: takes the tables of the host `now`; arg is the struct rut_hosts. */
void rut_cli_hosts_take(void *arg, const struct rut_results *results);
void rut_cli_hosts_tables_fini(struct rut_hosts *h);

/* hosts_report.c; 0 or -ENOMEM */
void rut_cli_hosts_text(struct rut_hosts *h, const struct rut_analysis_args *a);
int rut_cli_hosts_lines(const struct rut_hosts *h, const struct rut_analysis_args *a);
int rut_cli_hosts_json(const struct rut_hosts *h, const struct rut_analysis_args *a);

#endif
