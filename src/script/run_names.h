/* SPDX-License-Identifier: MIT */
#ifndef RUT_SCRIPT_RUN_NAMES_H
#define RUT_SCRIPT_RUN_NAMES_H

#include "script/script.h"
#include "script/symbolize.h"
#include "script/value.h"

/* Fills the table; both must live as long. */
void rut_run_names_init(struct rut_script_names *names, struct rut_script_program *p,
			struct rut_script_symbols *symbols);

#endif
