/* SPDX-License-Identifier: MIT */
/* What the process knows about its application. */
#ifndef RUT_AGENT_FACTS_H
#define RUT_AGENT_FACTS_H

#include "core.h"

/* Writes it into the table: see facts.c. */
void rut_agent_facts_write(struct rut_session *s);

#endif
