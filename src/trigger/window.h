/* SPDX-License-Identifier: MIT */
/*
 * Is a percentile above a limit, within a sliding window? It is when more of the values are above
 * the limit than the percentile leaves: of 99 more than one in a hundred. So values need not be
 * sorted, nor kept: one bit each.
 */
#ifndef RUT_TRIGGER_WINDOW_H
#define RUT_TRIGGER_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RUT_TRIGGER_WINDOW_MAX = 65536 }; /* of more values within the window, the newest count */

struct rut_trigger_window {
	uint64_t *values; /* owned; a circle: the time times two, plus one when above the limit */
	size_t first, count, above;
};

/* Returns 0 or -ENOMEM. */
int rut_trigger_window_init(struct rut_trigger_window *w);
void rut_trigger_window_fini(struct rut_trigger_window *w);

/*
 * A value at `now_ns`. True: the percentile (of 100, below 100) of the last `window_ns` is above
 * the limit, with at least so many values that one alone cannot be it; the window is empty again
 * then. Times may go back a little, as those of different CPUs do.
 */
bool rut_trigger_window_add(struct rut_trigger_window *w, uint64_t now_ns, bool above,
			    double percent, uint64_t window_ns);

#endif
