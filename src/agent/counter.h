/* SPDX-License-Identifier: MIT */
/* Where a short C function of Ruby's keeps the number that it returns. */
#ifndef RUT_AGENT_COUNTER_H
#define RUT_AGENT_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL: not known. */
const size_t *rut_agent_counter_of(size_t (*function)(void));

#endif
