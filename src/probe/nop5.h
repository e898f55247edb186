/* SPDX-License-Identifier: MIT */
/*
 * Probes on 5-byte nops, which some kernels make deadly for children of the traced process: see the
 * essay in nop5.c.
 */
#ifndef RUT_PROBE_NOP5_H
#define RUT_PROBE_NOP5_H

#include <stdbool.h>
#include <stdint.h>

struct rut_err;

enum rut_nop5 {
	RUT_NOP5_SAFE,	  /* children live */
	RUT_NOP5_GUARDED, /* they would die, but a guard prevents that */
	RUT_NOP5_FATAL,	  /* they would die */
	RUT_NOP5_UNKNOWN, /* it cannot be tried: the kernel permits no probes to this process */
};

/* What this kernel does, found by trying it in children of this process; once. */
enum rut_nop5 rut_nop5_kernel(void);

/* Whether an x86-64 instruction of this many bytes can be a nop of exactly five. */
bool rut_nop5_is(const uint8_t *code, unsigned bytes);

/*
 * Before a probe is attached at an offset of a file: makes sure that children of the processes that
 * it hits will live. *ret_fd is a descriptor to close after the probe was attached; -1: none is
 * needed. `semaphore` as it will be given to the kernel. Returns 0, or -ENOTSUP when the probe must
 * not be attached.
 */
int rut_nop5_guard(const char *path, uint64_t offset, uint64_t semaphore, int *ret_fd,
		   struct rut_err *err);

#endif
