/* SPDX-License-Identifier: MIT */
#include "cli/profile_alloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/abi.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "cli/ruby_target.h"
#include "ruby/record.h"
#include "ruby/tracer.h"

#define POLL_MS	    50
#define OBJECTS_MAX 1000000000u
#define BYTES_MIN   1024u
#define BYTES_MAX   (1ull << 31)

int rut_cli_profile_every(const char *value, char *ret, size_t size, bool *ret_bytes)
{
	uint64_t n;
	char *end;

	errno = 0;
	n = strtoull(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' || errno)
		return -EINVAL;
	*ret_bytes = *end;
	if (!*end) {
		if (!n || n > OBJECTS_MAX)
			return -EINVAL;
		snprintf(ret, size, "%llu", (unsigned long long)n);
		return 0;
	}
	if (rut_parse_size(value, &n) < 0 || n < BYTES_MIN || n > BYTES_MAX)
		return -EINVAL;
	snprintf(ret, size, "%lluk", (unsigned long long)(n / 1024));
	return 0;
}

/* Directories of the parts: the first is named as asked, later ones have a number. */
static int begin_part(const struct rut_profile_alloc *a, struct rut_tracer *t, unsigned n,
		      char *dir, size_t size, struct rut_err *err)
{
	struct rut_trace_clock clock = {rut_now_ns(), rut_clock_offset_ns()};
	int len = n ? snprintf(dir, size, "%s-%u", a->dir, n) : snprintf(dir, size, "%s", a->dir);

	if (len < 0 || (size_t)len >= size)
		return rut_err_set(err, ENAMETOOLONG, "the name '%s' is too long", a->dir);
	if (mkdir(dir, 0750) < 0)
		return rut_err_errno(err, errno, "cannot make the directory '%s'", dir);
	return rut_tracer_record_to(t, dir, &clock, err);
}

static int end_part(struct rut_profile_alloc *a, struct rut_tracer *t, const char *dir, bool last,
		    struct rut_err *err)
{
	int rc = rut_tracer_record_end(t, rut_now_ns(), err);

	return rc ? rc : a->part(a->arg, dir, last, err);
}

static int record(struct rut_profile_alloc *a, struct rut_tracer *t, struct rut_err *err)
{
	uint64_t begun = rut_now_ns(), part = begun, now = begun;
	char dir[4096];
	unsigned parts = 0;
	int rc = begin_part(a, t, parts++, dir, sizeof(dir), err);

	while (!rc && !*a->stop && (!a->duration_ns || now - begun < a->duration_ns)) {
		rc = rut_tracer_poll(t, POLL_MS, err);
		now = rut_now_ns();
		if (!rc) /* all have ended */
			break;
		rc = rc < 0 ? rc : 0;
		if (!rc && a->idle)
			a->idle(a->arg);
		if (rc || !a->interval_ns || now - part < a->interval_ns)
			continue;
		part = now;
		rc = end_part(a, t, dir, false, err);
		if (!rc)
			rc = begin_part(a, t, parts++, dir, sizeof(dir), err);
	}
	return rc ? rc : end_part(a, t, dir, true, err);
}

int rut_cli_profile_allocs(struct rut_profile_alloc *a, const struct rut_cmd *cmd,
			   struct rut_err *err)
{
	struct rut_tracer_config config = {
		.mode = RUT_RUBY_RECORD, .kinds = 1u << RUT_KIND_ALLOC_SAMPLE, .sample = a->every};
	struct rut_ruby_opts opts = {0};
	struct rut_targets targets = {0};
	struct rut_tracer *t = NULL;
	struct rut_record_totals totals = {0};
	int rc = 0;

	for (size_t i = 0; i < a->ntargets && !rc; i++)
		rc = rut_cli_words_add(&opts.targets, a->targets[i]);
	if (rc)
		rc = rut_err_set(err, ENOMEM, "out of memory");
	else
		rc = rut_cli_targets_find(&targets, &opts, err);
	if (!rc)
		rc = rut_tracer_new(&t, &config, err);
	if (!rc)
		rc = rut_cli_targets_attach(&targets, t, cmd, err);
	if (!rc)
		rc = record(a, t, err);
	if (t)
		rut_tracer_record_totals(t, &totals);
	a->lost = totals.lost;
	rut_tracer_free(t);
	rut_cli_targets_fini(&targets);
	rut_cli_words_fini(&opts.targets);
	return rc;
}
