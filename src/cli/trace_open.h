/* SPDX-License-Identifier: MIT */
/* What the verbs that read traces have in common: their arguments, losses, the end. */
#ifndef RUT_CLI_TRACE_OPEN_H
#define RUT_CLI_TRACE_OPEN_H

#include "base/buf.h"
#include "ctf/reader.h"

struct rut_cmd;

struct rut_trace_args {
	const char **paths; /* owned array, borrowed elements */
	size_t n_paths;
	struct rut_ctf_set_opts set;
	const char *begin, *end; /* as written, or NULL */
	bool gmt;
};

void rut_trace_args_fini(struct rut_trace_args *a);
/* Adds a path of the command line. Returns 0 or -ENOMEM. */
int rut_trace_args_add(struct rut_trace_args *a, const char *path);

/* Fills in begin and end of the reader's options. The day of a bare time is the trace's first. */
int rut_trace_range(const struct rut_trace_args *a, struct rut_ctf_set *set,
		    struct rut_ctf_reader_opts *ret, struct rut_err *err);

/* "1.5", "-3" seconds as ns. Returns 0 or -EINVAL. */
int rut_parse_seconds(const char *s, int64_t *ret_ns);

/* Writes all of it to standard output and empties it. Returns 0 or -errno; -EPIPE: nobody reads. */
int rut_write_out(struct rut_buf *b);

#endif
