/* SPDX-License-Identifier: MIT */
/*
 * Why a command that was started was not traced. When the agent gets so far, it says so itself;
 * what keeps it from being loaded at all is most often a limit of the process.
 */
#include "ruby/rlimits.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Below these the agent or its tables may not find room beside a Ruby. */
static const struct {
	const char *line; /* of /proc/PID/limits */
	const char *text;
	uint64_t enough, unit;
	const char *unit_text;
} limits[] = {
	{"Max address space", "ulimit -v", UINT64_C(512) << 20, 1024, " KiB"},
	{"Max file size", "ulimit -f", UINT64_C(64) << 20, 1024, " KiB"},
	{"Max open files", "ulimit -n", 24, 1, ""},
};

void rut_limits_read(struct rut_tracer *t, pid_t pid)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT, found = RUT_BUF_INIT;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/limits", (int)pid);
	if (rut_buf_read_file(&text, path, 1 << 16) < 0 || !text.data)
		return;
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		const char *line = strstr(text.data, limits[i].line);
		uint64_t soft;

		if (!line || sscanf(line + strlen(limits[i].line), "%" SCNu64, &soft) != 1 ||
		    soft >= limits[i].enough)
			continue;
		rut_buf_printf(&found, "%s%s allows %" PRIu64 "%s", found.len ? ", " : "",
			       limits[i].text, soft / limits[i].unit, limits[i].unit_text);
	}
	if (found.failed)
		return;
	free(t->limits);
	t->limits = found.len ? rut_buf_take(&found) : NULL;
}

const char *rut_tracer_untraced(const struct rut_tracer *t, char *ret, size_t cap)
{
	if (t->any || !t->command)
		return NULL;
	if (t->refusal)
		snprintf(ret, cap, "%s", t->refusal);
	else if (t->limits)
		snprintf(ret, cap, "the agent could not be loaded: %s", t->limits);
	else
		snprintf(ret, cap, "it runs no Ruby that loads the agent (by RUBYOPT)");
	return ret;
}
