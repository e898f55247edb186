/* SPDX-License-Identifier: MIT */
/* Names of methods or classes that are near to one that is not there. */
#ifndef RUT_CLI_NEAR_H
#define RUT_CLI_NEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rut_buf;

enum { RUT_NEAR_MAX = 3, RUT_NEAR_NAME = 128 };

/* The first ones of all names, in the order of a number. */
struct rut_near_list {
	struct {
		char name[RUT_NEAR_NAME];
		uint64_t order;
	} names[RUT_NEAR_MAX];
	size_t count;
};

struct rut_near {
	char wanted[RUT_NEAR_NAME];  /* empty: nothing is looked for */
	struct rut_near_list best;   /* the nearest first */
	struct rut_near_list called; /* the most called first, near or not */
};

/*
 * `wanted`: "Class#name", "Class.name", "name", "Class", or a glob of these; NULL: nothing. What
 * was added for the same one stays.
 */
void rut_cli_near_init(struct rut_near *n, const char *wanted);

/* One more method that there is, and how often it was called: 0 if that is not to be offered. */
void rut_cli_near_add(struct rut_near *n, const char *class_name, bool singleton,
		      const char *method, uint64_t calls);

/*
 * Appends "; names like 'sav': Order#save, Order.saved", or "; no name is like 'zzz', most called:
 * Order#save", or nothing.
 */
void rut_cli_near_say(const struct rut_near *n, struct rut_buf *out);

#endif
