/* SPDX-License-Identifier: MIT */
#include "cli/cmd.h"

#include <stddef.h>

extern const struct rut_cmd cmd_trace;
extern const struct rut_cmd cmd_calls;
extern const struct rut_cmd cmd_time;
extern const struct rut_cmd cmd_objects_total;
extern const struct rut_cmd cmd_objects;
extern const struct rut_cmd cmd_arrays;
extern const struct rut_cmd cmd_strings;
extern const struct rut_cmd cmd_ps;
extern const struct rut_cmd cmd_record;
extern const struct rut_cmd cmd_doctor;
extern const struct rut_cmd cmd_view;
extern const struct rut_cmd cmd_stat;
extern const struct rut_cmd cmd_tracepoints;
extern const struct rut_cmd cmd_start;
extern const struct rut_cmd cmd_stop;
extern const struct rut_cmd cmd_status;
extern const struct rut_cmd cmd_list;
extern const struct rut_cmd cmd_add;
extern const struct rut_cmd cmd_remove;
extern const struct rut_cmd cmd_attach;
extern const struct rut_cmd cmd_snapshot;
extern const struct rut_cmd cmd_rotate;
extern const struct rut_cmd cmd_clear;
extern const struct rut_cmd cmd_destroy;
extern const struct rut_cmd cmd_help;
extern const struct rut_cmd cmd_foreman_tracer;

/* In the order in which the help lists them; verbs of one group stand together. */
/* clang-format off */
const struct rut_cmd *const rut_cmds[] = {
	&cmd_trace,
	&cmd_calls,
	&cmd_time,
	&cmd_objects_total,
	&cmd_objects,
	&cmd_arrays,
	&cmd_strings,
	&cmd_ps,
	&cmd_tracepoints,
	&cmd_record,
	&cmd_doctor,
	&cmd_view,
	&cmd_stat,
	&cmd_start, &cmd_stop, &cmd_status, &cmd_list, &cmd_add, &cmd_remove, &cmd_attach, &cmd_snapshot, &cmd_rotate, &cmd_clear, &cmd_destroy, &cmd_help,
	NULL,
};
/* clang-format on */

const struct rut_cmd *const rut_links[] = {
	&cmd_foreman_tracer,
	NULL,
};
