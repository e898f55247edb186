/* SPDX-License-Identifier: MIT */
/* `rutile report`: what a person wants to know first of a trace, from one pass. */
#include "cli/cmd.h"

#include <stdio.h>
#include <string.h>

#include "cli/analysis_opts.h"
#include "cli/analysis_run.h"
#include "cli/report.h"

/* An analysis makes sense when the trace can have one of these events (globs). */
static const struct {
	const char *name;
	const struct rut_analysis *analysis;
	const char *needs[3];
} parts[] = {
	{"rubyslow", &rut_analysis_rubyslow, {"ruby:call"}},
	{"rubytop", &rut_analysis_rubytop, {"ruby:call"}},
	{"rubygc", &rut_analysis_rubygc, {"ruby:gc_start"}},
	{"gvl", &rut_analysis_gvl, {"ruby:gvl_wait"}},
	{"rubyexceptions", &rut_analysis_rubyexceptions, {"ruby:raise"}},
	{"cputop", &rut_analysis_cputop, {"sched_switch"}},
	{"sched", &rut_analysis_sched, {"sched_wak*"}},
	{"syscalls", &rut_analysis_syscallstats, {"*syscall_entry_*", "sys_*"}},
	{"io", &rut_analysis_io, {"*syscall_entry_*", "sys_*", "block_rq_*"}},
	{"irq", &rut_analysis_irq, {"irq_handler_entry", "*softirq_entry"}},
	{"futex", &rut_analysis_futex, {"syscall_entry_futex", "sys_futex"}},
	{"memtop", &rut_analysis_memtop, {"*mm_page_alloc"}},
	{"fdtop", &rut_analysis_fdtop, {"syscall_entry_open*", "sys_open*"}},
};

#define PARTS (sizeof(parts) / sizeof(*parts))

const char rut_report_names[] = "cputop sched syscalls io irq futex memtop fdtop";

const struct rut_analysis *rut_report_find(const char *name)
{
	for (size_t i = 0; i < PARTS; i++)
		if (!strcmp(parts[i].name, name))
			return parts[i].analysis;
	return NULL;
}

static bool has_class(const struct rut_ctf_set *set, const char *glob)
{
	for (size_t i = 0; i < rut_ctf_set_n_classes(set); i++) {
		const char *name = rut_ctf_set_class(set, i)->name;

		if (rut_expr_glob(glob, strlen(glob), name, strlen(name)))
			return true;
	}
	return false;
}

size_t rut_report_choose(const struct rut_ctf_set *set, const struct rut_analysis **ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < PARTS && n < max; i++) {
		bool ok = false;

		for (int k = 0; k < 3 && parts[i].needs[k] && !ok; k++)
			ok = has_class(set, parts[i].needs[k]);
		if (ok)
			ret[n++] = parts[i].analysis;
	}
	return n;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct rut_analysis_args a = {.choose = rut_report_choose};
	int rc;

	a.conf.stats = a.conf.usage = a.conf.total = a.conf.brief = true;
	a.skip_validation = true;
	rc = rut_analysis_args_parse(&a, cmd, argc, argv);
	if (rc < 0 && !a.n_paths)
		rc = rut_analysis_usage(&a, "which trace? Give the path of its directory");
	if (rc < 0)
		rc = rut_analysis_run(&a, NULL, 0);
	rut_analysis_args_fini(&a);
	return rc;
}

const struct rut_cmd cmd_report = {
	.name = "report",
	.group = "Analyses of kernel traces",
	.summary = "overview of a trace: what to look at first",
	.usage = "[OPTIONS] TRACE...",
	.options = rut_opts_plain,
	.run = run,
};
