/* SPDX-License-Identifier: MIT */
/*
 * The analyses of kernel traces: one verb each, all of one kind.
 *
 * They are those of lttng-analyses, with its options and output; links called lttng-NAME and
 * lttng-NAME-mi (the latter: JSON) behave as its commands.
 */
#include "cli/cmd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/fmt.h"
#include "base/log.h"
#include "cli/analysis_opts.h"
#include "cli/analysis_run.h"
#include "cli/trace_open.h"
#include "rut_config.h"

struct verb {
	const char *name;
	const struct rut_analysis *analysis;
	void (*defaults)(struct rut_conf *c);
};

static void want_stats(struct rut_conf *c)
{
	c->stats = true;
}

static void want_log(struct rut_conf *c)
{
	c->log = true;
}

static void want_top(struct rut_conf *c)
{
	c->top = true;
}

static void want_freq(struct rut_conf *c)
{
	c->freq = true;
}

static void want_usage(struct rut_conf *c)
{
	c->usage = true;
}

static void want_nothing(struct rut_conf *c)
{
	(void)c;
}

static const struct verb verbs[] = {
	{"cputop", &rut_analysis_cputop, want_nothing},
	{"memtop", &rut_analysis_memtop, want_nothing},
	{"syscallstats", &rut_analysis_syscallstats, want_nothing},
	{"iolatencystats", &rut_analysis_io, want_stats},
	{"iolatencyfreq", &rut_analysis_io, want_freq},
	{"iolatencytop", &rut_analysis_io, want_top},
	{"iolog", &rut_analysis_io, want_log},
	{"iousagetop", &rut_analysis_io, want_usage},
	{"irqstats", &rut_analysis_irq, want_stats},
	{"irqlog", &rut_analysis_irq, want_log},
	{"irqfreq", &rut_analysis_irq, want_freq},
	{"schedstats", &rut_analysis_sched, want_stats},
	{"schedtop", &rut_analysis_sched, want_top},
	{"schedlog", &rut_analysis_sched, want_log},
	{"schedfreq", &rut_analysis_sched, want_freq},
	{"periodstats", &rut_analysis_period, want_stats},
	{"periodlog", &rut_analysis_period, want_log},
	{"periodtop", &rut_analysis_period, want_top},
	{"periodfreq", &rut_analysis_period, want_freq},
	{"futexstats", &rut_analysis_futex, want_nothing},
	{"wakeupchain", &rut_analysis_wakeupchain, want_nothing},
	{"fdtop", &rut_analysis_fdtop, want_nothing},
	{"rubytop", &rut_analysis_rubytop, want_nothing},
	{"rubyslow", &rut_analysis_rubyslow, want_nothing},
	{"rubyexceptions", &rut_analysis_rubyexceptions, want_nothing},
	{"rubyalloc", &rut_analysis_rubyalloc, want_nothing},
	{"rubygc", &rut_analysis_rubygc, want_nothing},
	{"gvl", &rut_analysis_gvl, want_nothing},
};

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		if (!strcmp(verbs[i].name, name))
			return &verbs[i];
	return NULL;
}

/* Was it called as lttng-NAME-mi? */
static bool called_mi(const char *argv0)
{
	size_t len = strlen(argv0);

	return len > 3 && !strcmp(argv0 + len - 3, "-mi");
}

static int print_metadata(const struct verb *v)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	rut_lami_metadata(&v->analysis->info, RUT_VERSION, &b);
	fputs(b.data, stdout);
	return RUT_EXIT_OK;
}

/* wakeupchain names its thread before the trace. */
static int take_target(struct rut_analysis_args *a)
{
	uint64_t tid;

	if (a->n_paths && !rut_parse_u64(a->paths[0], &tid)) {
		a->conf.target_tid = (int64_t)tid;
		memmove(a->paths, a->paths + 1, --a->n_paths * sizeof(*a->paths));
		return -1;
	}
	return rut_analysis_usage(a, "which thread? Give its TID before the trace");
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	const struct verb *v = find_verb(cmd->name);
	struct rut_analysis_args a = {.conf.mi = called_mi(argv[0])};
	int rc;

	v->defaults(&a.conf);
	rc = rut_analysis_args_parse(&a, cmd, argc, argv);
	if (rc < 0 && a.mi_version) {
		puts("1.0");
		rc = RUT_EXIT_OK;
	}
	if (rc < 0 && a.metadata)
		rc = print_metadata(v);
	if (rc < 0 && v->analysis == &rut_analysis_wakeupchain)
		rc = take_target(&a);
	if (rc < 0 && !a.n_paths)
		rc = rut_analysis_usage(&a, "which trace? Give the path of its folder");
	if (rc < 0)
		rc = rut_analysis_run(&a, &v->analysis, 1);
	rut_analysis_args_fini(&a);
	return rc;
}

#define VERB_OF(id, opts, text, title)                                                             \
	const struct rut_cmd cmd_##id = {                                                          \
		.name = #id,                                                                       \
		.group = title,                                                                    \
		.summary = text,                                                                   \
		.usage = "[OPTIONS] TRACE...",                                                     \
		.options = opts,                                                                   \
		.run = run,                                                                        \
	}
#define VERB(id, opts, text)	  VERB_OF(id, opts, text, "Analyses of kernel traces")
#define RUBY_VERB(id, opts, text) VERB_OF(id, opts, text, "Analyses of Ruby events in traces")

VERB(cputop, rut_opts_cputop, "which threads used the CPUs");
VERB(memtop, rut_opts_memtop, "which threads allocated and freed pages");
VERB(syscallstats, rut_opts_syscalls, "system calls by thread: counts, durations, errors");
VERB(iolatencystats, rut_opts_io, "latency of opens, reads, writes, syncs and disks");
VERB(iolatencyfreq, rut_opts_io, "distribution of the latencies of input and output");
VERB(iolatencytop, rut_opts_io, "the slowest opens, reads, writes and syncs");
VERB(iolog, rut_opts_io, "all input and output in order of time");
VERB(iousagetop, rut_opts_io, "bytes by process, file, disk and network interface");
VERB(irqstats, rut_opts_irq, "durations of interrupts and softirqs");
VERB(irqlog, rut_opts_irq, "all interrupts and softirqs in order of time");
VERB(irqfreq, rut_opts_irq, "distribution of the durations of interrupts");
VERB(schedstats, rut_opts_sched, "time from wakeup to running");
VERB(schedtop, rut_opts_sched, "the longest waits from wakeup to running");
VERB(schedlog, rut_opts_sched, "all waits from wakeup to running in order of time");
VERB(schedfreq, rut_opts_sched, "distribution of the waits from wakeup to running");
VERB(periodstats, rut_opts_period, "durations of periods that you define");
VERB(periodlog, rut_opts_period, "all periods in order of time");
VERB(periodtop, rut_opts_period, "the longest periods");
VERB(periodfreq, rut_opts_period, "distribution of the durations of periods");
VERB(futexstats, rut_opts_plain, "waits and contention by futex and thread");
RUBY_VERB(rubytop, rut_opts_calls, "calls and times of Ruby methods, on a CPU and waiting");
RUBY_VERB(rubyslow, rut_opts_calls, "the slowest Ruby calls, each with its tree");
RUBY_VERB(rubyexceptions, rut_opts_plain, "Ruby exceptions by class and place");
RUBY_VERB(rubyalloc, rut_opts_plain, "Ruby allocations by class and place");
RUBY_VERB(rubygc, rut_opts_plain, "pauses of Ruby's garbage collector by process and method");
RUBY_VERB(gvl, rut_opts_plain, "waits for Ruby's lock, and the methods that held it");
VERB(fdtop, rut_opts_plain, "open descriptors over time by process: leaks");

const struct rut_cmd cmd_wakeupchain = {
	.name = "wakeupchain",
	.group = "Analyses of kernel traces",
	.summary = "who woke whom, back from a thread: the critical path",
	.usage = "[OPTIONS] TID TRACE...",
	.options = rut_opts_plain,
	.run = run,
};
