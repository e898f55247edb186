/* SPDX-License-Identifier: MIT */
#ifndef RUT_CLI_SELF_H
#define RUT_CLI_SELF_H

#include <sys/types.h>

/*
 * Starts this program with the words `argv`, of which the first is "rutile", in a process that
 * blocks no signals: its parent may block those that end it. Its standard output and its
 * messages go to these descriptors; there is nothing to read. Returns 0 or -errno; the caller waits
 * for *ret.
 */
int rut_cli_self_start(const char *const *argv, int out, int err, pid_t *ret);

#endif
