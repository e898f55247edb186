/* SPDX-License-Identifier: MIT */
/*
 * Asks the hosts of a fleet, and gathers what they answer. The hosts that are expected to are those
 * that were named, and those that have said that they are there.
 */
#ifndef RUT_FLEET_ASK_H
#define RUT_FLEET_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "fleet/wire.h"
#include "stream/nats_url.h"

struct rut_err;

struct rut_fleet_ask_conf {
	struct rut_nats_url url;
	const char *tls;   /* NULL: the usual directory */
	const char *hosts; /* names and globs, separated by commas */
	char *const *words;
	size_t n_words;
	uint64_t timeout_ns; /* for the first answer of a host */
	uint64_t wait_ns;    /* for its last one */
};

enum rut_fleet_state {
	RUT_FLEET_SILENT,  /* it did not answer */
	RUT_FLEET_RUNNING, /* it did not end */
	RUT_FLEET_DENIED,  /* refused; the reason is in `err` */
	RUT_FLEET_DONE,
};

struct rut_fleet_result {
	struct rut_fleet_result *next; /* owned; in the order of names */
	char host[RUT_FLEET_NAME];
	enum rut_fleet_state state;
	uint32_t code; /* exit code, when done */
	bool asked;    /* by its own subject */
	bool gap;      /* output is missing */
	uint32_t n_out, n_err;
	struct rut_buf out, err;
};

struct rut_fleet_results {
	struct rut_fleet_result *first; /* owned; NULL: no host answered and none was expected */
	bool unknown; /* there is no list of the hosts that globs match: maybe some are missing */
	const char
		*broke; /* why receiving ended early or lost messages; NULL: it did not. Static */
};

/* Returns 0 with the results, for rut_fleet_results_fini(), or -errno without. */
int rut_fleet_ask(const struct rut_fleet_ask_conf *conf, struct rut_fleet_results *ret,
		  struct rut_err *err);
void rut_fleet_results_fini(struct rut_fleet_results *r);

/* Stops expecting that host. Returns 0, -ENOENT when it was not expected, or -errno. */
int rut_fleet_forget(const struct rut_fleet_ask_conf *conf, const char *host, struct rut_err *err);

#endif
