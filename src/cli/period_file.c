/* SPDX-License-Identifier: MIT */
#include "cli/period_file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ETC_PERIODS "/etc/rutile/periods"

/* "/usr/bin/rutile" -> "/usr/share/rutile/periods"; the same in the tree of the source. */
static void shared(char *ret, size_t size, const char *name)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	ret[0] = 0;
	if (n <= 0)
		return;
	exe[n] = 0;
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(exe, '/');

		if (!slash)
			return;
		*slash = 0;
	}
	if ((size_t)snprintf(ret, size, "%s/share/rutile/periods/%s.periods", exe, name) >= size)
		ret[0] = 0;
}

int rut_cli_period_file_read(struct rut_period_set *set, const char *name, struct rut_err *err)
{
	char path[PATH_MAX + 512];

	if (strpbrk(name, "/.") || strlen(name) > 200)
		return rut_period_set_read(set, name, err);
	snprintf(path, sizeof(path), ETC_PERIODS "/%s.periods", name);
	if (access(path, F_OK))
		shared(path, sizeof(path), name);
	return rut_period_set_read(set, path[0] && !access(path, F_OK) ? path : name, err);
}
