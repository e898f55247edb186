/* SPDX-License-Identifier: MIT */
/* The number of the thread, without a system call each time; namespaces of the process. */
#ifndef RUT_AGENT_SELF_H
#define RUT_AGENT_SELF_H

#include <stdbool.h>
#include <stdint.h>

/* As gettid(). */
uint32_t rut_agent_self_tid(void);
/* In the child of a fork. */
void rut_agent_self_forked(void);

/*
 * Is this process in these namespaces of PIDs and of time (inodes; 0: the kernel has none)? False
 * too where system calls are filtered. That is asked with prctl(), which is among the calls that
 * the tracer checks with the filter before the agent is loaded; nothing else is asked then. A
 * filter that comes later is seen in children only.
 */
bool rut_agent_self_is_in(uint64_t pid_ns, uint64_t time_ns);

#endif
