/* SPDX-License-Identifier: MIT */
/*
 * A host of a fleet: receives requests, runs the verbs that its rules allow, and answers. One
 * thread runs them; the library's threads only hand requests over.
 */
#ifndef RUT_FLEET_SERVE_H
#define RUT_FLEET_SERVE_H

#include "fleet/rules.h"

struct rut_err;
struct rut_fleet_host;

struct rut_fleet_host_conf {
	struct rut_nats_url url;
	const struct rut_fleet_rules *rules; /* borrowed */
	const char *host;		     /* NULL: this machine's name */
	const char *tls;		     /* NULL: the usual directory */
	const char *program;		     /* to run for a request; borrowed */
};

/* Connects, subscribes, and says that it is there. Returns 0 or -errno. */
int rut_fleet_host_new(struct rut_fleet_host **ret, const struct rut_fleet_host_conf *conf,
		       struct rut_err *err);

/* Serves for up to `ms`. */
void rut_fleet_host_step(struct rut_fleet_host *h, int ms);

const char *rut_fleet_host_name(const struct rut_fleet_host *h);

/* Ends what runs. */
void rut_fleet_host_free(struct rut_fleet_host *h);

#endif
