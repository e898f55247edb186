/* SPDX-License-Identifier: MIT */
/* `rutile heap --retained`: what would be freed with an object, a class or a line. */
#ifndef RUT_CLI_HEAP_RETAINED_H
#define RUT_CLI_HEAP_RETAINED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rut_cmd;
struct rut_err;
struct rut_tracer;

enum rut_heap_by {
	RUT_HEAP_BY_DEFAULT,
	RUT_HEAP_BY_OBJECT,
	RUT_HEAP_BY_CLASS,
	RUT_HEAP_BY_LINE,
};

struct rut_heap_retained {
	const struct rut_cmd *cmd;
	struct rut_tracer *tracer; /* borrowed */
	enum rut_heap_by by;
	bool json;
	bool lines; /* some are known */
	uint64_t limit;
	int fd;
};

/*
 * Every process of the tracer, one after the other, with its table. 0, -EINTR when stopped, or
 * -errno with the reason when no process could be read.
 */
int rut_cli_heap_retained(const struct rut_heap_retained *h, struct rut_err *err);

#endif
