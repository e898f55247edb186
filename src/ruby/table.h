/* SPDX-License-Identifier: MIT */
/* A process's table as it stands: see table.c. */
#ifndef RUT_RUBY_TABLE_H
#define RUT_RUBY_TABLE_H

#include "ruby/internal.h"

/* The layout is the ABI's, not what the target's memory says. */
uint32_t rut_ruby_table_count(const struct rut_tracee *p);
const struct rut_agent_row *rut_ruby_table_row(const struct rut_tracee *p, uint32_t i);
/*
 * What row `i` has beside it, of `size` bytes as in all rows; NULL: there is nothing, or the table
 * is not what it should be.
 */
const void *rut_ruby_table_beside(const struct rut_tracee *p, uint32_t i, size_t size);
/* Interned: lives as long as the tracer. NULL: there is none at this offset. */
const char *rut_ruby_table_string(struct rut_tracer *t, const struct rut_tracee *p, uint32_t off);
/* Now, by the clock of its rows. */
uint64_t rut_ruby_table_ticks(const struct rut_tracee *p);
bool rut_ruby_table_is_c(const struct rut_tracee *p, uint32_t number);

#endif
