/* SPDX-License-Identifier: MIT */
#include "cli/requests_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/analysis_opts.h"
#include "cli/analysis_run.h"
#include "rut_config.h"

#define SLOWEST_DEFAULT 5 /* with --explain */

static int take(void *arg, int id, const char *value)
{
	struct rut_conf *c = arg;
	uint64_t n;

	switch (id) {
	case OPT_EXPLAIN:
		c->explain = true;
		return -1;
	case OPT_JSON:
		c->json = true;
		return -1;
	case OPT_REQUEST:
		c->request = value;
		return -1;
	case OPT_ROUTE:
		c->route = value;
		return -1;
	case OPT_SLOWEST:
		if (rut_parse_u64(value, &n) || n > 10000)
			return RUT_EXIT_USAGE;
		c->slowest = (int64_t)n;
		return -1;
	case OPT_LIVE:
	case 'o':
		return RUT_EXIT_USAGE;
	default:
		return -ENOENT;
	}
}

static int print_metadata(void)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	rut_an_lami_metadata(&rut_analysis_requests.info, RUT_VERSION, &b);
	fputs(b.data, stdout);
	return RUT_EXIT_OK;
}

int rut_cli_requests_trace(const struct rut_cmd *cmd, int argc, char **argv)
{
	static const struct rut_analysis *const analysis = &rut_analysis_requests;
	struct rut_analysis_args a = {.extra = take, .extra_arg = &a.conf};
	int rc = rut_cli_analysis_args_parse(&a, cmd, argc, argv);

	if (a.conf.explain && !a.conf.slowest)
		a.conf.slowest = SLOWEST_DEFAULT;
	if (a.conf.request && a.conf.periods)
		a.conf.of_periods = rut_period_set_find(a.conf.periods, a.conf.request,
							strlen(a.conf.request)) != NULL;
	if (a.conf.json)
		a.skip_validation = a.no_progress = true;
	if (rc < 0 && a.mi_version) {
		puts("1.0");
		rc = RUT_EXIT_OK;
	}
	if (rc < 0 && a.metadata)
		rc = print_metadata();
	if (rc < 0 && !a.n_paths)
		rc = rut_cli_analysis_usage(&a, "which trace? Give the path of its directory");
	if (rc < 0)
		rc = rut_cli_analysis_run(&a, &analysis, 1);
	rut_cli_analysis_args_fini(&a);
	return rc;
}
