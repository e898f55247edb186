/* SPDX-License-Identifier: MIT */
/* The two sides that `diff` compares: the analysis's own options and state (engine.h). Zero it. */
#ifndef RUT_ANALYSIS_DIFF_H
#define RUT_ANALYSIS_DIFF_H

#include "analysis/tracks.h"

struct rut_diff {
	const char *ranges[2];	    /* --a and --b, borrowed; NULL: all of it */
	struct rut_tracks sides[2]; /* owned; A, B */
	size_t n;		    /* that are complete: the report of the second compares them */
};

#endif
