/* SPDX-License-Identifier: MIT */
/*
 * A firing on many machines: their snapshots are asked for at once, over a connection that is open
 * already. Between firings the hosts are asked for the time, so that it is known which of them are
 * there and how far their clocks are from ours; each request carries that.
 */
#ifndef RUT_FLEET_FIRE_H
#define RUT_FLEET_FIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "stream/nats_url.h"

struct rut_err;
struct rut_fleet_fire;

struct rut_fleet_fire_conf {
	struct rut_nats_url url;
	const char *tls;   /* NULL: the usual directory */
	const char *hosts; /* names and globs, separated by commas; borrowed */
};

/*
 * Connects, and asks for the time for a moment, so that the first firing knows the hosts. The
 * library has threads: not before a fork without exec. Returns 0 or -errno.
 */
int rut_fleet_fire_new(struct rut_fleet_fire **ret, const struct rut_fleet_fire_conf *conf,
		       struct rut_err *err);
void rut_fleet_fire_free(struct rut_fleet_fire *f);

/* Asks for the time when that is due. */
void rut_fleet_fire_step(struct rut_fleet_fire *f);

/*
 * Sends the words to each host, and behind them --trigger ID,NAME,HOST,OFFSET,ERROR,TIME: `about`
 * is "ID,NAME", HOST is this machine; OFFSET is the host's clock less ours, both in nanoseconds,
 * and TIME is `fired_ns` of our time of day. Does not wait. Returns how many hosts were asked, or
 * -errno.
 */
int rut_fleet_fire_send(struct rut_fleet_fire *f, char *const *words, size_t n, const char *about,
			int64_t fired_ns, struct rut_err *err);

/*
 * Have all answered, or is their time over? Then appends a line that says so to `ret`; *ret_failed:
 * not all have taken their snapshot.
 */
bool rut_fleet_fire_done(struct rut_fleet_fire *f, struct rut_buf *ret, bool *ret_failed);

#endif
