/* SPDX-License-Identifier: MIT */
/* What the readers of profiles share: the table of rows and that of stacks. */
#ifndef RUT_ANALYSIS_PROFILE_PRIV_H
#define RUT_ANALYSIS_PROFILE_PRIV_H

#include "analysis/profile.h"

/* The number of a row or of a folded stack; made when it is new. -ENOMEM. */
int64_t rut_an_profile_row(struct rut_profile *p, const char *text, size_t len);
int64_t rut_an_profile_stack(struct rut_profile *p, const char *line, size_t len);

/* `rows` of the stack, innermost first, have `ns` more. 0 or -ENOMEM. */
int rut_an_profile_count(struct rut_profile *p, int64_t stack, const uint32_t *rows, size_t n,
			 enum rut_off wait, uint64_t ns);

#endif
