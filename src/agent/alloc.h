/* SPDX-License-Identifier: MIT */
/* Allocations: see alloc.c. */
#ifndef RUT_AGENT_ALLOC_H
#define RUT_AGENT_ALLOC_H

#include "site.h"

void rut_agent_alloc_on_newobj(VALUE index, struct rut_trace_arg *ta);
/*
 * Is this an object that a program can see? Then *ret_bytes are those of its slot. Ends the
 * counting where a ractor begins and Ruby would crash (core.h).
 */
bool rut_agent_alloc_visible(struct rut_session *s, const struct rut_trace_arg *ta,
			     uint64_t *ret_bytes);
/* The site of an allocation, and the bytes of its slot; NULL: it is not wanted. */
const struct rut_agent_site *rut_agent_alloc_site(struct rut_session *s,
						  const struct rut_trace_arg *ta,
						  uint64_t *ret_bytes);
/* Learns the sizes of the slots of the heap's pages. */
void rut_agent_alloc_scan_slots(struct rut_slots *slots);

#endif
