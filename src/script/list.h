/* SPDX-License-Identifier: MIT */
/* Lists probes. */
#ifndef RUT_SCRIPT_LIST_H
#define RUT_SCRIPT_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct rut_buf;
struct rut_err;

struct rut_script_list_opts {
	/* "tracepoint:sched:*,struct file"; NULL: all but those of programs. */
	const char *pattern;
	const char *text, *name; /* of a script; its probes are listed instead; NULL */
	bool args;		 /* with their arguments */
	int32_t pid;		 /* of the files of this process; 0: none */
};

/* Appends the names of the probes. 0 or -errno; -ENOENT: there is no such kind. */
int rut_script_list(const struct rut_script_list_opts *opts, struct rut_buf *out,
		    struct rut_err *err);

#endif
