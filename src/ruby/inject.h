/* SPDX-License-Identifier: MIT */
/* Putting the agent into a running process: see the essay in inject.c. */
#ifndef RUT_RUBY_INJECT_H
#define RUT_RUBY_INJECT_H

#include <stddef.h>
#include <sys/types.h>

struct rut_err;

/*
 * Loads a shared object into a process as dlopen() would, from `image` (the bytes of the ELF file).
 * The constructor of the object has run when this returns 0. On an error nothing of the target has
 * changed; the message says why: gone, not permitted (and what permits it), stopped, zombie, musl,
 * 32 bits, no dlopen, no thread in a safe place within the time limit.
 */
int rut_inject(pid_t pid, const void *image, size_t image_bytes, struct rut_err *err);

#endif
