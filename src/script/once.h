/* SPDX-License-Identifier: MIT */
/* Programs that are not attached to events, but run: iterators and benchmarks. */
#ifndef RUT_SCRIPT_ONCE_H
#define RUT_SCRIPT_ONCE_H

#include <stdint.h>

#include "script/script.h"

struct rut_err;

/*
 * Lets the program see all objects of its iterator. `served` is called now and then, so that the
 * records of the program find room. 0 or -errno with *err.
 */
int rut_script_iterate(const struct rut_script_prog *prog, void (*served)(void *arg), void *arg,
		       struct rut_err *err);

struct rut_script_bench {
	uint64_t runs;
	double ns; /* of one, as the kernel measures it */
};

/* Runs the program for about `ms`, or until it stops the script. 0 or -errno with *err. */
int rut_script_bench(const struct rut_script_prog *prog, unsigned ms, const uint64_t *stopped,
		     void (*served)(void *arg), void *arg, struct rut_script_bench *ret,
		     struct rut_err *err);

#endif
