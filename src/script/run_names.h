/* SPDX-License-Identifier: MIT */
#ifndef RUT_SCRIPT_RUN_NAMES_H
#define RUT_SCRIPT_RUN_NAMES_H

#include "script/script.h"
#include "script/symbolize.h"
#include "script/value.h"

struct rut_run_names {
	struct rut_script_program *program; /* borrowed */
	struct rut_script_names system;	    /* of symbolize.h */
	struct rut_script_names names;	    /* what the output gets */
};

/* `n` must stay where it is. */
void rut_run_names_init(struct rut_run_names *n, struct rut_script_program *p,
			struct rut_script_symbols *symbols);

#endif
