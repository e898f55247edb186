/* SPDX-License-Identifier: MIT */
/* The two sides that `diff` compares; conf.h points to it. Zero it. */
#ifndef RUT_ANALYSIS_DIFF_H
#define RUT_ANALYSIS_DIFF_H

#include "analysis/tracks.h"

struct rut_diff {
	struct rut_tracks sides[2]; /* owned; A, B */
	size_t n;		    /* that are complete: the report of the second compares them */
};

void rut_an_diff_fini(struct rut_diff *d);

#endif
