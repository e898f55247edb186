/* SPDX-License-Identifier: MIT */
/* What the files that write the statedump share. */
#ifndef RUT_SESSION_STATEDUMP_INTERNAL_H
#define RUT_SESSION_STATEDUMP_INTERNAL_H

#include <stdint.h>
#include <sys/types.h>

#include "session/statedump.h"

#define RUT_NS_LEVELS 33 /* the kernel nests PID and user namespaces 32 deep */

/* One record: the fixed part, then strings, each with its NUL. False: no room. */
bool rut_statedump_record(struct rut_statedump *s, uint32_t id, const void *fixed, size_t fixed_len,
			  const char *const *strings, size_t nstrings);

#define RUT_STATEDUMP_EMIT(s, sym, rec, ...)                                                       \
	do {                                                                                       \
		const char *const _strs[] = {__VA_ARGS__};                                         \
		rut_statedump_record(s, RUT_EV_##sym, rec, sizeof(*(rec)), _strs,                  \
				     sizeof(_strs) / sizeof(*_strs));                              \
	} while (0)

/* Reads a file below `dir` as text. Returns the bytes without the final NUL, or -1. */
ssize_t rut_statedump_read(int dir, const char *name, char *buf, size_t size);

/* The text behind "KEY:\t" in /proc/PID/status, or "". */
const char *rut_statedump_status(const char *text, const char *key);

/* The PID namespaces that see a thread: level 0 is the one of the /proc that is read. */
struct rut_statedump_ns {
	int level; /* of the innermost */
	int vtid[RUT_NS_LEVELS], vpid[RUT_NS_LEVELS], vppid[RUT_NS_LEVELS];
	uint32_t pid_inum[RUT_NS_LEVELS];
	uint32_t uid, gid;
};

/* `status` is the text of /proc/PID/task/TID/status. Fills *ret whatever can be read. */
void rut_statedump_ns_read(struct rut_statedump_ns *ret, int task_dir, const char *tid,
			   const char *status);

/* The records of a thread's namespaces and control group. */
void rut_statedump_ns_write(struct rut_statedump *s, const struct rut_statedump_ns *ns,
			    int task_dir, const char *tid);

/* A descriptor of a thread's namespace ("user"), or -1. */
int rut_statedump_open_ns(int task_dir, const char *tid, const char *name);

/*
 * The inode number of the namespace *fd, which is closed; *fd becomes the one around it, or -1
 * where none can be seen.
 */
uint32_t rut_statedump_step_out(int *fd);

/* The records of the user namespaces that a thread is in, the innermost first. */
void rut_statedump_user_ns(struct rut_statedump *s, const struct rut_statedump_ns *ns, int task_dir,
			   const char *tid);

/* Frees what rut_statedump_user_ns() keeps in `s`. */
void rut_statedump_user_ns_fini(struct rut_statedump *s);

/* CPUs, network interfaces, modules of the kernel. */
void rut_statedump_machine(struct rut_statedump *s);

/* The actions of the interrupts, with the threads that run them. */
void rut_statedump_interrupts(struct rut_statedump *s);

#endif
