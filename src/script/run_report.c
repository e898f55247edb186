/* SPDX-License-Identifier: MIT */
#include "script/run_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "script/run.h"

/* Of a part of the script: its first line, if it is short. */
static int shown_length(const struct rut_script_program *p, struct rut_span span)
{
	size_t line = strcspn(p->src.text + span.pos, "\n");

	line = line < span.len ? line : span.len;
	return line < 60 ? (int)line : 60;
}

void rut_run_report(const struct rut_script_program *p, const struct rut_script_run_opts *opts,
		    const uint64_t *words, uint64_t discarded)
{
	static const char *const what[] = {
		[RUT_SITE_LOST] = "records were lost because the buffer was full",
		[RUT_SITE_MAP] = "updates were lost because the map was full",
		[RUT_SITE_READ] = "reads of memory failed and gave 0",
		[RUT_SITE_SCRATCH] = "probes did not run: too many interrupted each other",
		[RUT_SITE_LOOP] = "loops were left at the kernel's bound",
		[RUT_SITE_STACK] = "stacks could not be read or kept",
		[RUT_SITE_DELETE] = "keys could not be deleted",
	};

	if (discarded && !opts->no_warnings)
		fprintf(opts->err,
			"%s: warning: %" PRIu64
			" records were not printed: the output is too slow\n",
			p->src.name, discarded);
	for (size_t i = 0; words && i < p->nsites; i++) {
		const struct rut_script_site *s = &p->sites[i];
		uint32_t line, column;

		if (!words[RUT_COUNTER_SITES + i] || opts->no_warnings)
			continue;
		rut_source_where(&p->src, s->span.pos, &line, &column);
		if (p->opts.as_bpftrace)
			fprintf(opts->err, "%s:%u:%u-%u: WARNING: %s", p->src.name, line, column,
				column + s->span.len,
				s->kind == RUT_SITE_MAP ? "Map full; can't update element: " : "");
		else
			fprintf(opts->err, "%s:%u:%u: warning: ", p->src.name, line, column);
		fprintf(opts->err, "%" PRIu64 " %s: %.*s\n", words[RUT_COUNTER_SITES + i],
			what[s->kind], shown_length(p, s->span), p->src.text + s->span.pos);
	}
}

uint64_t rut_run_lost(const struct rut_script_program *p, const uint64_t *words, uint64_t discarded)
{
	uint64_t lost = discarded;

	for (size_t i = 0; i < p->nsites; i++)
		if (p->sites[i].kind == RUT_SITE_LOST)
			lost += words[RUT_COUNTER_SITES + i];
	return lost;
}
