/* SPDX-License-Identifier: MIT */
/*
 * Names of the kernel's functions. To read /proc/kallsyms takes tens of milliseconds of CPU time,
 * and stacks are written every few seconds: what was read is kept for a minute. Modules and
 * eBPF programs come and go meanwhile: for addresses beyond the kernel's own code it is read again
 * when there are others, once a second at most. Until then such addresses have no name, rather than
 * that of the function before them.
 */
#ifndef RUT_SESSION_KERNEL_NAMES_H
#define RUT_SESSION_KERNEL_NAMES_H

#include <stdbool.h>
#include <stdint.h>

struct rut_kallsyms;

/* A zeroed struct is empty. For one thread. */
struct rut_kernel_names {
	struct rut_kallsyms *syms;    /* NULL: not read; owned */
	uint64_t tried_ns;	      /* when it was read, or could not be; 0: never */
	uint64_t begin, end;	      /* of the kernel's own code */
	uint64_t modules, modules_ns; /* a sum of them as of then; the last look */
	uint32_t newest;	      /* number of an eBPF program */
	bool outdated;
};

/* The name of the function at this address; "?": not known. Borrowed until the next call of
 * rut_kernel_names_age(). `now_ns` is not 0. */
const char *rut_kernel_names_find(struct rut_kernel_names *n, uint64_t address, uint64_t now_ns);

/* Frees names that are too old. */
void rut_kernel_names_age(struct rut_kernel_names *n, uint64_t now_ns);

void rut_kernel_names_fini(struct rut_kernel_names *n);

#endif
