/* SPDX-License-Identifier: MIT */
/* Record mode (record.h): setting its hooks and writing its records. */
#ifndef RUT_AGENT_WRITE_RECORD_H
#define RUT_AGENT_WRITE_RECORD_H

#include "core.h"

/*
 * Sets the hooks of the kinds that are global: GC, threads, the GVL, exceptions, allocations. With
 * the GVL. Returns NULL or why not.
 */
const char *rut_agent_record_hook(struct rut_session *s);
void rut_agent_record_unhook(struct rut_session *s);

/* A method begins or returns (`event`: RUT_EVENT_CALL, RUT_EVENT_RETURN, of blocks likewise). */
void rut_agent_record_method(struct rut_session *s, void *ec, const struct rut_agent_row *row,
			     uint32_t event);
/* The same when only slow calls are wanted. */
void rut_agent_record_slow(struct rut_session *s, const struct rut_trace_arg *ta,
			   struct rut_variant *v);
/*
 * Writes a record with this header's id: the bytes behind its header word are those of `record`.
 */
void rut_agent_record_write(struct rut_session *s, void *ec, uint16_t id, const void *record,
			    uint32_t bytes);
/* A line of a method begins. */
void rut_agent_record_line(struct rut_session *s, struct rut_trace_arg *ta);
/* A C method begins or returns. */
void rut_agent_record_c_method(struct rut_session *s, const struct rut_trace_arg *ta);

#endif
