/* SPDX-License-Identifier: MIT */
/* `rutile report`: what a person wants to know first of a trace, from one pass. */
#include "cli/cmd.h"

#include <stdio.h>
#include <string.h>

#include "base/glob.h"
#include "cli/analysis_opts.h"
#include "cli/analysis_run.h"
#include "cli/report.h"
#include "cli/verbs.h"

/* Both in the order of the report: what Ruby did first. Several verbs may share an analysis. */
static const struct rut_analysis *const ruby_analyses[] = {
#define A(verb, analysis, ...) &rut_analysis_##analysis,
	RUT_RUBY_ANALYSES(A)
#undef A
};

static const struct {
	const char *name;
	const struct rut_analysis *analysis;
} kernel_analyses[] = {
#define A(verb, name, ...) {#name, &rut_analysis_##name},
	RUT_KERNEL_ANALYSES(A)
#undef A
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Shown by `report`, and its first row. */
static bool is_part(size_t i)
{
	return kernel_analyses[i].analysis->report_needs[0] &&
	       (!i || kernel_analyses[i].analysis != kernel_analyses[i - 1].analysis);
}

void rut_cli_report_names(struct rut_buf *ret)
{
	for (size_t i = 0; i < COUNT(kernel_analyses); i++)
		if (is_part(i))
			rut_buf_printf(ret, "%s%s", ret->len ? " " : "", kernel_analyses[i].name);
}

const struct rut_analysis *rut_cli_report_find(const char *name)
{
	for (size_t i = 0; i < COUNT(kernel_analyses); i++)
		if (is_part(i) && !strcmp(kernel_analyses[i].name, name))
			return kernel_analyses[i].analysis;
	return NULL;
}

static bool has_class(const struct rut_ctf_set *set, const char *glob)
{
	for (size_t i = 0; i < rut_ctf_set_n_classes(set); i++) {
		const char *name = rut_ctf_set_class(set, i)->name;

		if (rut_glob_string(glob, name))
			return true;
	}
	return false;
}

static bool has_events(const struct rut_ctf_set *set, const struct rut_analysis *analysis)
{
	for (size_t i = 0; i < COUNT(analysis->report_needs) && analysis->report_needs[i]; i++)
		if (has_class(set, analysis->report_needs[i]))
			return true;
	return false;
}

size_t rut_cli_report_choose(const struct rut_ctf_set *set, const struct rut_analysis **ret,
			     size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < COUNT(ruby_analyses) && n < max; i++)
		if (has_events(set, ruby_analyses[i]))
			ret[n++] = ruby_analyses[i];
	for (size_t i = 0; i < COUNT(kernel_analyses) && n < max; i++)
		if (is_part(i) && has_events(set, kernel_analyses[i].analysis))
			ret[n++] = kernel_analyses[i].analysis;
	return n;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct rut_analysis_args a = {.choose = rut_cli_report_choose};
	int rc;

	a.conf.stats = a.conf.usage = a.conf.brief = true;
	a.skip_validation = true;
	rc = rut_cli_analysis_args_parse(&a, cmd, argc, argv);
	if (rc < 0 && !a.n_paths)
		rc = rut_cli_analysis_usage(&a, "which trace? Give the path of its directory");
	if (rc < 0)
		rc = rut_cli_analysis_run(&a, NULL, 0);
	rut_cli_analysis_args_fini(&a);
	return rc;
}

const struct rut_cmd cmd_report = {
	.name = "report",
	.group = "Analyses of kernel traces",
	.summary = "print an overview of a trace",
	.usage = "[OPTIONS] TRACE...",
	.options = rut_cli_opts_plain,
	.run = run,
};
