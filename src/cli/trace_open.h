/* SPDX-License-Identifier: MIT */
/* What the verbs that read traces have in common: their arguments, losses, the end. */
#ifndef RUT_CLI_TRACE_OPEN_H
#define RUT_CLI_TRACE_OPEN_H

#include "base/buf.h"
#include "cli/cmd.h"
#include "ctf/reader.h"

/* The options that rut_cli_trace_args_parse() takes, for the table of a verb. */
enum { RUT_TRACE_OPT_BEGIN = 512, RUT_TRACE_OPT_END, RUT_TRACE_OPT_GMT };

#define RUT_TRACE_OPT_RANGE                                                                        \
	{"begin", "TIME", "begin at TIME: [YYYY-MM-DD ]HH:MM:SS[.NS] or seconds",                  \
	 RUT_TRACE_OPT_BEGIN},                                                                     \
	{                                                                                          \
		"end", "TIME", "up to this time", RUT_TRACE_OPT_END                                \
	}
#define RUT_TRACE_OPT_ZONE                                                                         \
	{                                                                                          \
		"clock-gmt", NULL, "times in UTC, not in the local zone", RUT_TRACE_OPT_GMT        \
	}

struct rut_trace_args {
	const char **paths; /* owned array, borrowed elements */
	size_t n_paths;
	struct rut_ctf_set_opts set;
	const char *begin, *end; /* as written, or NULL */
	bool gmt;
};

void rut_cli_trace_args_fini(struct rut_trace_args *a);
/*
 * Reads the command line: the options above, the paths (one at least), help; every other option
 * is passed to take(arg, id, value), which returns 0 or an exit code. Returns -1 when the run may
 * go on, else the exit code (the help or an error was printed).
 */
int rut_cli_trace_args_parse(struct rut_trace_args *a, const struct rut_cmd *cmd, int argc,
			     char **argv, int (*take)(void *arg, int id, const char *value),
			     void *arg);

/* Fills in begin and end of the reader's options. The day of a bare time is the trace's first. */
int rut_cli_trace_range(const struct rut_trace_args *a, struct rut_ctf_set *set,
			struct rut_ctf_reader_opts *ret, struct rut_err *err);

/* Warns of what could not be read of the traces, if anything. */
void rut_cli_trace_warn_skipped(const struct rut_ctf_counts *counts);

/* Writes all of it to standard output and empties it. Returns 0 or -errno; -EPIPE: the reader has
 * closed. */
int rut_cli_write_out(struct rut_buf *b);

#endif
