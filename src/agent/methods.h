/* SPDX-License-Identifier: MIT */
/* Finding the methods that the filter wants, setting their hooks and removing them: see methods.c.
 */
#ifndef RUT_AGENT_METHODS_H
#define RUT_AGENT_METHODS_H

#include "core.h"

bool rut_agent_methods_work(struct rut_session *s, uint64_t deadline_ns);
bool rut_agent_methods_unhook(struct rut_session *s, bool only_drops, uint64_t deadline_ns);
/* Instead of a hook for each method. */
void rut_agent_methods_go_global(struct rut_session *s);
/* Sees to it that counters become atomic when a second ractor begins. */
void rut_agent_methods_watch_ractors(struct rut_session *s);
void rut_agent_methods_on_compiled(VALUE tp, void *session);
/*
 * Ruby 2.6 does not report the program's own code; its first call of a C method does. Does that
 * run later, as far as this thread knows?
 */
bool rut_agent_methods_main_comes(void);
void rut_agent_methods_on_main(VALUE tp, void *session);

#endif
