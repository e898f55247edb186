/* SPDX-License-Identifier: MIT */
#include "cli/cmd.h"

#include <stddef.h>
#include <string.h>

#include "cli/verbs.h"

enum { MAX_NAME = 32 }; /* of a verb */

#define V(verb)	     extern const struct rut_cmd cmd_##verb;
#define A(verb, ...) extern const struct rut_cmd cmd_##verb;
RUT_VERBS_FIRST(V)
RUT_ANALYSES(A)
RUT_VERBS_BETWEEN(V)
RUT_VERBS_LAST(V)
V(foreman_tracer)
V(bpftrace)
#undef V
#undef A

#define V(verb)	     &cmd_##verb,
#define A(verb, ...) &cmd_##verb,
const struct rut_cmd *const rut_cli_cmds[] = {
	/* One line each, in the order of the help. */
	RUT_VERBS_FIRST(V) RUT_KERNEL_ANALYSES(A) RUT_VERBS_BETWEEN(V) RUT_RUBY_ANALYSES(A)
		RUT_VERBS_LAST(V) NULL,
};
#undef V
#undef A

const struct rut_cmd *rut_cli_cmd_find(const char *name)
{
	for (const struct rut_cmd *const *c = rut_cli_cmds; *c; c++)
		if (!strcmp((*c)->name, name))
			return *c;
	return NULL;
}

/*
 * How many letters must be put in, left out, changed or swapped with the next one to make `b` of
 * `a` (Damerau-Levenshtein).
 */
static size_t distance(const char *a, const char *b)
{
	size_t rows[3][MAX_NAME + 1], m = strlen(a), n = strlen(b);

	for (size_t k = 0; k <= n; k++)
		rows[0][k] = k;
	for (size_t i = 1; i <= m; i++) {
		size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t k = 1; k <= n; k++) {
			size_t least = above[k - 1] + (a[i - 1] != b[k - 1]);

			if (above[k] + 1 < least)
				least = above[k] + 1;
			if (row[k - 1] + 1 < least)
				least = row[k - 1] + 1;
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
			    second[k - 2] + 1 < least)
				least = second[k - 2] + 1;
			row[k] = least;
		}
	}
	return rows[m % 3][n];
}

const struct rut_cmd *rut_cli_cmd_like(const char *name)
{
	const struct rut_cmd *best = NULL;
	size_t least = 3, len = strlen(name);

	if (len < 3 || len > MAX_NAME)
		return NULL;
	for (const struct rut_cmd *const *c = rut_cli_cmds; *c; c++) {
		size_t d = distance(name, (*c)->name);

		if (d < least) {
			least = d;
			best = *c;
		}
	}
	return best;
}

const struct rut_cmd *const rut_cli_links[] = {
	&cmd_foreman_tracer,
	&cmd_bpftrace,
	NULL,
};
