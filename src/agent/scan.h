/* SPDX-License-Identifier: MIT */
/*
 * The methods that exist: a walk through the heap that ends with a list of code that needs hooks
 * (s->todo.codes, in the order of files), all of it in slices.
 */
#ifndef RUT_AGENT_SCAN_H
#define RUT_AGENT_SCAN_H

#include "core.h"

void rut_agent_scan_begin(struct rut_session *s, bool again);
/* A slice. Returns true while more is left. With the GVL. */
bool rut_agent_scan_work(struct rut_session *s, uint64_t deadline_ns);
/* The part that needs no GVL, in the phase SORT; no fork meanwhile. */
void rut_agent_scan_sort(struct rut_session *s);
void rut_agent_scan_end(struct rut_session *s);

#endif
