/* SPDX-License-Identifier: MIT */
/* Addresses of NATS servers: nats://HOST[:PORT][,HOST[:PORT]...][/STREAM]. */
#ifndef RUT_STREAM_NATS_URL_H
#define RUT_STREAM_NATS_URL_H

#include <stdbool.h>
#include <stddef.h>

#define RUT_NATS_SERVERS 16
#define RUT_NATS_PORT	 4222

struct rut_err;

struct rut_nats_url {
	bool tls;
	size_t n_servers;
	char servers[RUT_NATS_SERVERS][280]; /* nats://HOST:PORT or tls://HOST:PORT */
	char stream[64];		     /* "": not given */
};

/* Is it meant as one? nats://, natss:// or tls://; the latter two with TLS. */
bool rut_nats_url_is(const char *text);

/* Returns 0, or -EINVAL with the reason. */
int rut_nats_url_parse(const char *text, struct rut_nats_url *ret, struct rut_err *err);

#endif
