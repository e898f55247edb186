/* SPDX-License-Identifier: MIT */
/* One connection to a collector: blocking, each call bounded in time. */
#ifndef RUT_STREAM_CONN_H
#define RUT_STREAM_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stream/nats_url.h"

struct rut_err;

/*
 * The address of a trace: relay://HOST[:PORT[:DATAPORT]][/SESSION], or relays:// for TLS;
 * nats://HOST[:PORT][,...]/STREAM, or natss://.
 */
struct rut_url {
	bool nats;
	struct rut_nats_url nats_url; /* if it is one; else what follows */
	bool tls;
	char host[256];
	uint16_t port, data_port;
	char session[256]; /* "": not given */
};

/* Returns 0, or -EINVAL with the reason. Without ports LTTng's are meant, 5342 and 5343. */
int rut_url_parse(const char *text, struct rut_url *ret, struct rut_err *err);

/* A session to read: relay://HOST[:PORT][/[ORIGIN/]SESSION], or relays:// for TLS. */
struct rut_live_url {
	bool tls;
	char host[256];
	uint16_t port;
	char origin[65];   /* the machine that records it; "": any */
	char session[256]; /* "": not given */
};

/* Is it meant as one? */
bool rut_live_url_is(const char *text);

/* Returns 0, or -EINVAL with the reason. Without a port LTTng's is meant, 5344. */
int rut_live_url_parse(const char *text, struct rut_live_url *ret, struct rut_err *err);

struct rut_tls;
struct rut_tls_conf;

struct rut_conn {
	int fd;		     /* -1: not connected */
	struct rut_tls *tls; /* owned; NULL: none */
};

/* Connects. `timeout_ms` also bounds each later call. Returns 0 or -errno. */
int rut_conn_connect(struct rut_conn *l, const char *host, uint16_t port, int timeout_ms,
		     struct rut_err *err);

/* From now on with TLS, to `host`. Returns 0 or -errno. */
int rut_conn_secure(struct rut_conn *l, struct rut_tls_conf *conf, const char *host,
		    struct rut_err *err);

/* All of it, or -errno; -ETIMEDOUT when the peer takes nothing for the whole time. */
int rut_conn_send(struct rut_conn *l, const void *data, size_t len);
int rut_conn_send_part(struct rut_conn *l, const void *data, size_t len); /* more follows */
int rut_conn_send_file(struct rut_conn *l, int fd, off_t at, size_t len);

/* Exactly `len` bytes, or -errno; -ECONNRESET when the peer has closed. */
int rut_conn_recv(struct rut_conn *l, void *data, size_t len);

/* Makes calls of other threads fail. From any thread, while the link is open. */
void rut_conn_abort(const struct rut_conn *l);

void rut_conn_close(struct rut_conn *l);

#endif
