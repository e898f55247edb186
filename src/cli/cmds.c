/* SPDX-License-Identifier: MIT */
#include "cli/cmd.h"

#include <stddef.h>
#include <string.h>

enum { MAX_NAME = 32 }; /* of a verb */

extern const struct rut_cmd cmd_stacks;
extern const struct rut_cmd cmd_trace;
extern const struct rut_cmd cmd_calls;
extern const struct rut_cmd cmd_time;
extern const struct rut_cmd cmd_objects_total;
extern const struct rut_cmd cmd_objects;
extern const struct rut_cmd cmd_arrays;
extern const struct rut_cmd cmd_strings;
extern const struct rut_cmd cmd_exceptions;
extern const struct rut_cmd cmd_profile;
extern const struct rut_cmd cmd_ps;
extern const struct rut_cmd cmd_record;
extern const struct rut_cmd cmd_requests;
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
extern const struct rut_cmd cmd_collect;
extern const struct rut_cmd cmd_destroy;
extern const struct rut_cmd cmd_report;
extern const struct rut_cmd cmd_trigger;
extern const struct rut_cmd cmd_top;
extern const struct rut_cmd cmd_cputop;
extern const struct rut_cmd cmd_memtop;
extern const struct rut_cmd cmd_syscallstats;
extern const struct rut_cmd cmd_iolatencystats;
extern const struct rut_cmd cmd_iolatencyfreq;
extern const struct rut_cmd cmd_iolatencytop;
extern const struct rut_cmd cmd_iolog;
extern const struct rut_cmd cmd_iousagetop;
extern const struct rut_cmd cmd_irqstats;
extern const struct rut_cmd cmd_irqlog;
extern const struct rut_cmd cmd_irqfreq;
extern const struct rut_cmd cmd_schedstats;
extern const struct rut_cmd cmd_schedtop;
extern const struct rut_cmd cmd_schedlog;
extern const struct rut_cmd cmd_schedfreq;
extern const struct rut_cmd cmd_periodstats;
extern const struct rut_cmd cmd_periodlog;
extern const struct rut_cmd cmd_periodtop;
extern const struct rut_cmd cmd_periodfreq;
extern const struct rut_cmd cmd_futexstats;
extern const struct rut_cmd cmd_gvl;
extern const struct rut_cmd cmd_rubyalloc;
extern const struct rut_cmd cmd_rubyexceptions;
extern const struct rut_cmd cmd_rubygc;
extern const struct rut_cmd cmd_rubyslow;
extern const struct rut_cmd cmd_rubytop;
extern const struct rut_cmd cmd_wakeupchain;
extern const struct rut_cmd cmd_fdtop;
extern const struct rut_cmd cmd_run;
extern const struct rut_cmd cmd_save;
extern const struct rut_cmd cmd_service;
extern const struct rut_cmd cmd_recover;
extern const struct rut_cmd cmd_probes;
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
	&cmd_exceptions,
	&cmd_stacks,
	&cmd_profile,
	&cmd_ps,
	&cmd_tracepoints,
	&cmd_record,
	&cmd_doctor,
	&cmd_view,
	&cmd_stat,
	&cmd_top,
	&cmd_run,
	&cmd_start, &cmd_stop, &cmd_status, &cmd_list, &cmd_add, &cmd_remove, &cmd_attach, &cmd_snapshot, &cmd_rotate, &cmd_clear, &cmd_destroy, &cmd_collect,
	&cmd_report,
	&cmd_cputop,
	&cmd_memtop,
	&cmd_syscallstats,
	&cmd_iolatencystats,
	&cmd_iolatencyfreq,
	&cmd_iolatencytop,
	&cmd_iolog,
	&cmd_iousagetop,
	&cmd_irqstats,
	&cmd_irqlog,
	&cmd_irqfreq,
	&cmd_schedstats,
	&cmd_schedtop,
	&cmd_schedlog,
	&cmd_schedfreq,
	&cmd_periodstats,
	&cmd_periodlog,
	&cmd_periodtop,
	&cmd_periodfreq,
	&cmd_futexstats,
	&cmd_wakeupchain,
	&cmd_fdtop,
	&cmd_requests,
	&cmd_rubytop,
	&cmd_rubyslow,
	&cmd_rubyexceptions,
	&cmd_rubyalloc,
	&cmd_rubygc,
	&cmd_gvl,
	&cmd_save, &cmd_service, &cmd_trigger, &cmd_recover, &cmd_probes, &cmd_help,
	NULL,
};
/* clang-format on */

const struct rut_cmd *rut_cmd_find(const char *name)
{
	for (const struct rut_cmd *const *c = rut_cmds; *c; c++)
		if (!strcmp((*c)->name, name))
			return *c;
	return NULL;
}

/* How many letters must be put in, left out or changed to make `b` of `a` (Levenshtein). */
static size_t distance(const char *a, const char *b)
{
	size_t row[MAX_NAME + 1], n = strlen(b);

	for (size_t k = 0; k <= n; k++)
		row[k] = k;
	for (size_t i = 1; *a; i++, a++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t k = 1; k <= n; k++) {
			size_t changed = diagonal + (*a != b[k - 1]);
			size_t other = 1 + (row[k] < row[k - 1] ? row[k] : row[k - 1]);

			diagonal = row[k];
			row[k] = changed < other ? changed : other;
		}
	}
	return row[n];
}

const struct rut_cmd *rut_cmd_like(const char *name)
{
	const struct rut_cmd *best = NULL;
	size_t least = 3, len = strlen(name);

	if (len < 3 || len > MAX_NAME)
		return NULL;
	for (const struct rut_cmd *const *c = rut_cmds; *c; c++) {
		size_t d = distance(name, (*c)->name);

		if (d < least) {
			least = d;
			best = *c;
		}
	}
	return best;
}

const struct rut_cmd *const rut_links[] = {
	&cmd_foreman_tracer,
	NULL,
};
