/* SPDX-License-Identifier: MIT */
/* Names of methods or classes that are near to one that is not there. */
#ifndef RUT_CLI_NEAR_H
#define RUT_CLI_NEAR_H

#include <stdbool.h>
#include <stddef.h>

struct rut_buf;

enum { RUT_NEAR_MAX = 3, RUT_NEAR_NAME = 128 };

struct rut_near {
	char wanted[RUT_NEAR_NAME]; /* empty: nothing is looked for */
	struct {
		char name[RUT_NEAR_NAME];
		size_t distance;
	} best[RUT_NEAR_MAX]; /* the nearest first */
	size_t count;
};

/* `wanted`: "Class#name", "Class.name", "name", "Class", or a glob of these; NULL: nothing. */
void rut_near_init(struct rut_near *n, const char *wanted);

/* One more method that there is. */
void rut_near_add(struct rut_near *n, const char *class_name, bool singleton, const char *method);

/* Appends "; names like 'sav': Order#save, Order.saved", or nothing. */
void rut_near_say(const struct rut_near *n, struct rut_buf *out);

#endif
