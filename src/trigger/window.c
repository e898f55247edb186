/* SPDX-License-Identifier: MIT */
#include "trigger/window.h"

#include <errno.h>
#include <stdlib.h>

int rut_trigger_window_init(struct rut_trigger_window *w)
{
	*w = (struct rut_trigger_window){
		.values = calloc(RUT_TRIGGER_WINDOW_MAX, sizeof(*w->values))};
	return w->values ? 0 : -ENOMEM;
}

void rut_trigger_window_fini(struct rut_trigger_window *w)
{
	free(w->values);
	w->values = NULL;
}

static void drop_first(struct rut_trigger_window *w)
{
	w->above -= w->values[w->first] & 1;
	w->first = (w->first + 1) % RUT_TRIGGER_WINDOW_MAX;
	w->count--;
}

bool rut_trigger_window_add(struct rut_trigger_window *w, uint64_t now_ns, bool above,
			    double percent, uint64_t window_ns)
{
	double left;

	if (w->count == RUT_TRIGGER_WINDOW_MAX)
		drop_first(w);
	w->values[(w->first + w->count) % RUT_TRIGGER_WINDOW_MAX] = now_ns << 1 | above;
	w->count++;
	w->above += above;
	while (w->count && (w->values[w->first] >> 1) + window_ns < now_ns)
		drop_first(w);
	/* In hundredths, so that whole percents are exact. */
	left = (double)w->count * (100 - percent);
	if (left < 100 || (double)w->above * 100 <= left)
		return false;
	w->first = w->count = w->above = 0;
	return true;
}
