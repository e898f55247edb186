/* SPDX-License-Identifier: MIT */
/* Runs a script: attaches it, serves what it sends, and prints its maps at the end. */
#ifndef RUT_SCRIPT_RUN_H
#define RUT_SCRIPT_RUN_H

#include <stdbool.h>
#include <stdio.h>

#include "script/script.h"

struct rut_err;
struct rut_script_style;

struct rut_script_run_opts {
	FILE *out, *err; /* borrowed */
	bool json, quiet, no_warnings, unsafe, verbose;
	int32_t child; /* the script ends when this process does, and begins with it; 0: none */
	int child_go;  /* descriptor that lets it go on; -1 */
	/* Called every 100 ms or more often; true: the script ends. NULL: not called. */
	bool (*round)(void *arg, const struct rut_script_program *p,
		      const struct rut_script_style *style);
	void *round_arg;
	const char *metrics; /* where maps are exported to (metrics.h); NULL: nowhere */
	int32_t watch;	     /* -p: the script ends when this process does; 0: none */
	/* snapshot(name), or stop() (NULL): of the session beside; NULL: there is none. */
	void (*act)(void *arg, const char *snapshot);
	void *act_arg;
	rut_script_near_fn *near; /* of names of Ruby methods; NULL: none */
	const char *trace; /* directory of a CTF trace of what is printed (trace.h); NULL: none */
};

/*
 * Until exit(), SIGINT, SIGTERM, or the end of the watched process. *ret_code: of exit(code).
 * 0 or -errno with *err.
 */
int rut_script_run(struct rut_script_program *p, const struct rut_script_run_opts *opts,
		   int *ret_code, struct rut_err *err);

#endif
