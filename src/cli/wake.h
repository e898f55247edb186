/* SPDX-License-Identifier: MIT */
/*
 * What wakes a verb that waits: SIGINT, SIGTERM and SIGHUP ask it to end properly, SIGWINCH tells
 * of a new size, SIGCHLD of the end of a command, and the keyboard. Handlers write into a pipe;
 * nothing is blocked or ignored, so that a command that we start inherits signals as they were.
 */
#ifndef RUT_CLI_WAKE_H
#define RUT_CLI_WAKE_H

#include <stdbool.h>

struct rut_err;

/*
 * Installs the handlers, those of the whole process; `keyboard`: standard input wakes as well. A
 * write to a closed pipe then fails with EPIPE. Returns a descriptor that is readable while there
 * is something to see to, or -errno. Never closed.
 */
int rut_cli_wake_init(bool keyboard, struct rut_err *err);

/* Takes what is waiting, except keys. Call it after every sleep. */
void rut_cli_wake_drain(void);

/* A signal asked us to end. */
bool rut_cli_wake_stopped(void);

/* The window changed its size since the last call. */
bool rut_cli_wake_resized(void);

#endif
