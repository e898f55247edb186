/* SPDX-License-Identifier: MIT */
#include "cli/analysis_opts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/period_file.h"
#include "rut_config.h"

void rut_cli_analysis_args_fini(struct rut_analysis_args *a)
{
	free(a->paths);
	free(a->periods);
	free(a->captures);
	rut_period_set_fini(&a->set);
	rut_commas_fini(&a->cpus);
	rut_commas_fini(&a->tids);
	rut_commas_fini(&a->pids);
	rut_commas_fini(&a->procnames);
	rut_expr_free(a->filter);
	if (a->own && a->analysis->own_fini)
		a->analysis->own_fini(a->own);
	free(a->own);
}

/* ---- Values ---- */

static int append(const char ***list, size_t *n, const char *s)
{
	const char **grown = realloc(*list, (*n + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	*list = grown;
	grown[(*n)++] = s;
	return 0;
}

static int parse_float(const char *s, bool *ret_has, double *ret, double factor)
{
	char *end;
	double v = strtod(s, &end);

	if (end == s || *end)
		return -EINVAL;
	*ret_has = true;
	*ret = v * factor;
	return 0;
}

static int parse_int(const char *s, int64_t min, int64_t *ret)
{
	char *end;
	long long v = strtoll(s, &end, 10);

	if (end == s || *end || v < min || v > 1000000000)
		return -EINVAL;
	*ret = v;
	return 0;
}

/* "1", "1.5s", "10ms", "3us", "7ns". */
static int parse_refresh(const char *s, int64_t *ret)
{
	char copy[64];
	const char *micro = strstr(s, "\xc2\xb5s");
	uint64_t ns;

	snprintf(copy, sizeof(copy), "%.*s%s", micro ? (int)(micro - s) : (int)strlen(s), s,
		 micro ? "us" : "");
	if (rut_parse_duration(copy, &ns) || !ns)
		return -EINVAL;
	*ret = (int64_t)ns;
	return 0;
}

static int parse_filter(struct rut_analysis_args *a, const char *s)
{
	struct rut_err err = RUT_ERR_INIT;
	size_t column;

	rut_expr_free(RUT_TAKE(a->filter));
	if (!rut_expr_parse(s, strlen(s), RUT_EXPR_FILTER, &a->filter, &column, &err))
		return 0;
	return rut_cli_analysis_usage(a, "--filter: %s", err.msg);
}

static int set_words(struct rut_commas *w, const char *s, bool numbers, size_t *ret_n)
{
	int r = rut_commas_split(w, s, numbers);

	*ret_n = w->n;
	return r;
}

/* Options that set a flag. Returns 1 when it is none of these. */
static int take_flag(struct rut_analysis_args *a, int id)
{
	struct rut_conf *c = &a->conf;
	const struct {
		int id;
		bool *flag;
	} flags[] = {
		{OPT_GMT, &c->gmt},
		{OPT_SKIP_VALIDATION, &a->skip_validation},
		{OPT_NO_INTERSECTION, &a->no_intersection},
		{OPT_NO_PROGRESS, &a->no_progress},
		{OPT_PROGRESS_USE_SIZE, &a->progress_use_size},
		{OPT_DEBUG, &a->debug},
		{OPT_NO_COLOR, &a->debug},
		{OPT_FOLLOW, &a->follow},
		{OPT_HOSTS, &a->hosts},
		{OPT_MERGE, &a->merge},
		{OPT_HOSTS_JSON, &a->hosts_json},
		{OPT_PERCENTILES, &c->percentiles},
		{OPT_MI, &c->mi},
		{OPT_MI_VERSION, &a->mi_version},
		{OPT_METADATA, &a->metadata},
		{OPT_TEST_COMPATIBILITY, &a->test_compatibility},
		{OPT_OUTPUT_PROGRESS, &a->output_progress},
		{OPT_TOP, &c->top},
		{OPT_STATS, &c->stats},
		{OPT_LOG, &c->log},
		{OPT_FREQ, &c->freq},
		{OPT_USAGE, &c->usage},
		{OPT_UNIFORM, &c->uniform},
		{OPT_SERIES, &c->series},
		{OPT_LOG_SCALE, &c->log_scale},
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		if (flags[i].id == id) {
			*flags[i].flag = true;
			return 0;
		}
	}
	return 1;
}

/* Options that keep a word. Returns 1 when it is none of these. */
static int take_word(struct rut_analysis_args *a, int id, const char *value)
{
	const struct {
		int id;
		const char **word;
	} words[] = {
		{OPT_BEGIN, &a->begin},
		{OPT_END, &a->end},
		{OPT_TIMERANGE, &a->timerange},
		{OPT_PERIOD_BEGIN, &a->old_begin},
		{OPT_PERIOD_END, &a->old_end},
		{OPT_PERIOD_BEGIN_KEY, &a->old_begin_key},
		{OPT_PERIOD_END_KEY, &a->old_end_key},
		{OPT_PERIOD_KEY_VALUE, &a->old_value},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (words[i].id == id) {
			*words[i].word = value;
			return 0;
		}
	}
	return 1;
}

static int take_list(struct rut_analysis_args *a, int id, const char *v)
{
	struct rut_conf *c = &a->conf;

	switch (id) {
	case OPT_CPU:
		return set_words(&a->cpus, v, true, &c->n_cpus);
	case OPT_TID:
		return set_words(&a->tids, v, true, &c->n_tids);
	case OPT_PID:
		return set_words(&a->pids, v, true, &c->n_pids);
	case OPT_PROCNAME:
		return set_words(&a->procnames, v, false, &c->n_procnames);
	default:
		return 1;
	}
}

static const char *const bys[] = {"all", "cpu", "process", "disk", "peer", "cgroup", NULL};

static int take_value(struct rut_analysis_args *a, int id, const char *v)
{
	struct rut_conf *c = &a->conf;

	switch (id) {
	case 'r':
		return parse_refresh(v, &c->refresh_ns);
	case OPT_LIMIT:
		if (!strcmp(v, "unlimited")) {
			c->limit = INT64_MAX / 4;
			return 0;
		}
		return parse_int(v, -1000000000, &c->limit);
	case OPT_BY:
		c->by = v;
		for (const char *const *name = bys; *name; name++)
			if (!strcmp(*name, v))
				return 0;
		return -EINVAL;
	case OPT_RESOLUTION:
		return parse_int(v, 1, &c->resolution);
	case OPT_MIN:
		return parse_float(v, &c->has_min, &c->min_ns, 1000);
	case OPT_MAX:
		return parse_float(v, &c->has_max, &c->max_ns, 1000);
	case OPT_PERIOD:
		return append(&a->periods, &a->n_periods, v);
	case OPT_PERIOD_CAPTURES:
		return append(&a->captures, &a->n_captures, v);
	case RUT_ARGS_POSITIONAL:
		return append(&a->paths, &a->n_paths, v);
	default:
		return 1;
	}
}

/* ---- Periods ---- */

/* The definition, and below it a caret at the fault. */
static int period_error(const struct rut_analysis_args *a, struct rut_err *err, const char *text,
			size_t column)
{
	int rc;

	rut_err_prefix(err, "cannot use the period '%s'", text);
	rc = rut_cli_analysis_fail(a, err);
	if (column && !a->conf.mi && !strchr(text, '\n'))
		fprintf(stderr, "  %s\n  %*s\n", text, (int)column, "^");
	return rc;
}

/* The options before --period: equal fields of a begin and an end event. */
static int add_old_period(struct rut_analysis_args *a)
{
	const char *begin_key = a->old_begin_key ? a->old_begin_key : "cpu_id";
	const char *end_key = a->old_end_key ? a->old_end_key : begin_key;
	struct rut_commas keys = {0}, end_keys = {0}, values = {0};
	struct rut_buf b = RUT_BUF_INIT;
	struct rut_err err = RUT_ERR_INIT;
	int r = rut_commas_split(&keys, begin_key, false);

	fprintf(stderr, "Warning: The following period options are deprecated:\n\n"
			"  --period-begin\n  --period-end\n  --period-begin-key\n"
			"  --period-end-key\n  --period-key-value\n\n"
			"Please consider using the --period option.\n");
	if (!r)
		r = rut_commas_split(&end_keys, end_key, false);
	if (!r)
		r = rut_commas_split(&values, a->old_value ? a->old_value : "", false);
	rut_buf_printf(&b, ": $evt.$name == \"%s\"", a->old_begin);
	for (size_t i = 0; !r && i < keys.n && i < values.n; i++) {
		char *end;

		(void)strtod(values.words[i], &end);
		rut_buf_printf(&b, *end ? " && $evt.%s == \"%s\"" : " && $evt.%s == %s",
			       keys.words[i], values.words[i]);
	}
	rut_buf_printf(&b, " : $evt.$name == \"%s\"", a->old_end ? a->old_end : a->old_begin);
	for (size_t i = 0; !r && i < keys.n && i < end_keys.n; i++)
		rut_buf_printf(&b, " && $evt.%s == $begin.$evt.%s", end_keys.words[i],
			       keys.words[i]);
	if (!r && b.data)
		r = rut_period_set_add(&a->set, b.data, NULL, &err);
	rut_commas_fini(&keys);
	rut_commas_fini(&end_keys);
	rut_commas_fini(&values);
	if (r)
		r = period_error(a, &err, b.data ? b.data : "", 0);
	rut_buf_fini(&b);
	return r;
}

static int add_periods(struct rut_analysis_args *a)
{
	struct rut_err err = RUT_ERR_INIT;
	size_t column = 0;
	bool old = a->old_begin || a->old_end || a->old_begin_key || a->old_end_key || a->old_value;
	int r = 0;

	if (old && (a->n_periods || a->n_captures || a->set.n)) {
		rut_err_set(&err, EINVAL,
			    "the old period options cannot be used together with --period");
		return rut_cli_analysis_fail(a, &err);
	}
	for (size_t i = 0; i < a->n_periods; i++)
		if (rut_period_set_add(&a->set, a->periods[i], &column, &err))
			return period_error(a, &err, a->periods[i], column);
	for (size_t i = 0; i < a->n_captures; i++)
		if (rut_period_set_capture(&a->set, a->captures[i], &column, &err))
			return period_error(a, &err, a->captures[i], column);
	if (a->old_begin)
		r = add_old_period(a);
	if (r)
		return r;
	if (rut_period_set_link(&a->set, &err))
		return rut_cli_analysis_fail(a, &err);
	if (a->set.n && a->conf.refresh_ns) {
		rut_err_set(&err, EINVAL, "periods and --refresh cannot be used together");
		return rut_cli_analysis_fail(a, &err);
	}
	a->conf.periods = &a->set;
	return -1;
}

/* ---- The command line ---- */

int rut_cli_analysis_fail(const struct rut_analysis_args *a, const struct rut_err *err)
{
	struct rut_buf b = RUT_BUF_INIT;

	if (!a->conf.mi || a->sink)
		return rut_cli_fail(a->cmd, err);
	rut_an_json_str(&b, err->msg);
	printf("{\"error-message\": %s}\n", b.data ? b.data : "\"\"");
	rut_buf_fini(&b);
	return RUT_EXIT_FAIL;
}

int rut_cli_analysis_usage(const struct rut_analysis_args *a, const char *fmt, ...)
{
	struct rut_err err = RUT_ERR_INIT;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err.msg, sizeof(err.msg), fmt, ap);
	va_end(ap);
	if (!a->conf.mi || a->sink)
		return rut_cli_usage_error(a->cmd, "%s", err.msg);
	rut_cli_analysis_fail(a, &err);
	return RUT_EXIT_USAGE;
}

static void publish(struct rut_analysis_args *a)
{
	struct rut_conf *c = &a->conf;

	c->cpus = a->cpus.numbers;
	c->tids = a->tids.numbers;
	c->pids = a->pids.numbers;
	c->procnames = a->procnames.words;
	c->own = a->own;
	c->filter = a->filter;
	if (c->series)
		c->uniform = true;
}

static int bad_option(const struct rut_analysis_args *a, int id, const char *value)
{
	const struct rut_opt *o;

	for (size_t i = 0; (o = rut_cli_cmd_opt(a->cmd, i)); i++)
		if (o->id == id)
			return rut_cli_usage_error(a->cmd,
						   "cannot understand '%s' (option '--%s %s')",
						   value, o->name, o->arg);
	return rut_cli_usage_error(a->cmd, "out of memory");
}

static int take_option(struct rut_analysis_args *a, int id, const char *value)
{
	struct rut_err err = RUT_ERR_INIT;
	int r = a->extra ? a->extra(a->extra_arg, id, value) : -ENOENT;

	if (r == RUT_EXIT_USAGE)
		return bad_option(a, id, value);
	if (r != -ENOENT)
		return r;
	if (id >= RUT_ANALYSIS_OPT)
		return a->analysis->option(a->own, id, value) ? bad_option(a, id, value) : -1;
	if (id == OPT_FILTER)
		return parse_filter(a, value) ? RUT_EXIT_USAGE : -1;
	if (id == OPT_PERIOD_FILE)
		return rut_cli_period_file_read(&a->set, value, &err)
			       ? rut_cli_analysis_fail(a, &err)
			       : -1;
	r = take_flag(a, id);
	if (r == 1)
		r = take_word(a, id, value);
	if (r == 1)
		r = take_list(a, id, value);
	if (r == 1)
		r = take_value(a, id, value);
	return r ? bad_option(a, id, value) : -1;
}

int rut_cli_analysis_args_parse(struct rut_analysis_args *a, const struct rut_cmd *cmd, int argc,
				char **argv)
{
	struct rut_args args;
	int id, rc;

	a->cmd = cmd;
	a->conf.limit = a->conf.brief ? 5 : 10;
	a->conf.resolution = 20;
	if (a->analysis && a->analysis->own_size) {
		a->own = calloc(1, a->analysis->own_size);
		if (!a->own)
			return rut_cli_usage_error(cmd, "out of memory");
	}
	rut_cli_args_init(&args, cmd, argc, argv);
	while ((id = rut_cli_args_next(&args)) != RUT_ARGS_END) {
		switch (id) {
		case RUT_ARGS_HELP:
			return RUT_EXIT_OK;
		case RUT_ARGS_BAD:
			return RUT_EXIT_USAGE;
		case RUT_ARGS_DASHES:
			break;
		case 'V':
			printf("rutile %s\n", RUT_VERSION);
			return RUT_EXIT_OK;
		default:
			rc = take_option(a, id, args.value);
			if (rc >= 0)
				return rc;
		}
	}
	publish(a);
	return add_periods(a);
}
