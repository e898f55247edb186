/* SPDX-License-Identifier: MIT */
/* What /proc tells of a process. */
#ifndef RUT_BASE_PROC_H
#define RUT_BASE_PROC_H

#include <sys/types.h>

/* The fourth field of /proc/PID/stat; 0: gone. */
pid_t rut_proc_parent(pid_t pid);

#endif
