/* SPDX-License-Identifier: MIT */
/* The tables of `rutile profile`. Nothing here needs a process. */
#ifndef RUT_CLI_PROFILE_TABLE_H
#define RUT_CLI_PROFILE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "analysis/profile.h"
#include "base/buf.h"

struct rut_profile_show {
	bool alloc, by_bytes; /* what is counted: objects, bytes; otherwise time */
	size_t skip, limit;   /* of the rows that match */
	const char *filter;   /* only names with this text; NULL: all */
};

/* The line above the table: what was counted in all. */
void rut_cli_profile_summary(const struct rut_profile *p, const struct rut_profile_show *show,
			     struct rut_buf *out);

/*
 * The names that match, what costs most itself first. The array is the caller's; NULL: no memory,
 * or none.
 */
const char **rut_cli_profile_names(const struct rut_profile *p, const char *filter,
				   size_t *ret_count);

void rut_cli_profile_table(const struct rut_profile *p, const struct rut_profile_show *show,
			   size_t width, struct rut_buf *out);

/*
 * One row opened: what calls it, and the tree of what it calls, from the stacks that have it. What
 * is below a hundredth of it is left out.
 */
void rut_cli_profile_tree(const struct rut_profile *p, const struct rut_profile_show *show,
			  const char *name, size_t width, struct rut_buf *out);

#endif
