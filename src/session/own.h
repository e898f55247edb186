/* SPDX-License-Identifier: MIT */
/* The table of rutile's own processes (bpf/own.h): pinned once a machine, shared by all sessions.
 */
#ifndef RUT_SESSION_OWN_H
#define RUT_SESSION_OWN_H

struct rut_err;

/*
 * Opens the table, makes it where there is none, and enters this process. Without a BPF file system
 * the table is the caller's alone. Returns a descriptor, which the caller owns, or -errno.
 */
int rut_own_open(struct rut_err *err);

/* Enters this process into the table `fd`; processes that have ended leave it. */
void rut_own_enter(int fd);

/* Enters this process into the machine's table, if there is one: at the start of every verb. */
void rut_own_join(void);

#endif
