/* SPDX-License-Identifier: MIT */
/*
 * Connections to NATS servers. What identifies us is in the directory of certificates: ca.pem,
 * cert.pem with key.pem for TLS; nats.creds (a user's JWT and seed), nats.nk with nats.pub (a seed
 * and its public key) or nats.user (a line USER:PASSWORD) for the server's rights.
 */
#ifndef RUT_STREAM_NATS_CONN_H
#define RUT_STREAM_NATS_CONN_H

#include <stdbool.h>

#include "stream/nats_lib.h"
#include "stream/nats_url.h"

struct rut_err;

struct rut_nats_conn_conf {
	const struct rut_nats_url *url; /* borrowed during the call */
	const char *dir;		/* NULL: RUT_TLS_DIR, where files may be missing */
	int timeout_ms;			/* for each server */
	bool reconnect;			/* the library connects again by itself */
};

/* Loads the library and connects to the first server that answers. Returns 0 or -errno. */
int rut_nats_connect(natsConnection **ret, const struct rut_nats_conn_conf *conf,
		     struct rut_err *err);

/*
 * Sets a reason from a status of libnats: "WHAT: text". Returns -ECONNREFUSED
 * where no server answers, -ECONNRESET, -ETIMEDOUT, -EACCES, -ENOENT or -EIO.
 */
int rut_nats_error(struct rut_err *err, natsStatus st, const char *what);

/* The names of hosts as we and NATS use them. */
void rut_nats_host(char *ret, size_t size);

#endif
