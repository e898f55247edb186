/* SPDX-License-Identifier: MIT */
/*
 * TLS of connections to and of a collector. The files are in one directory: ca.pem (trusted
 * authorities), cert.pem with key.pem (our own) and crl.pem (revoked certificates). Nothing but
 * TLS 1.2 and later is spoken.
 */
#ifndef RUT_STREAM_TLS_H
#define RUT_STREAM_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RUT_TLS_DIR "/etc/rutile/tls"

struct rut_err;
struct rut_tls_conf;
struct rut_tls;

/*
 * Reads the files. A client without ca.pem trusts the system's authorities, and without cert.pem
 * shows none. A server must have cert.pem; with ca.pem it asks each client for a certificate.
 * Returns 0 or -errno.
 */
int rut_tls_conf_new(struct rut_tls_conf **ret, const char *dir, bool server, struct rut_err *err);
void rut_tls_conf_free(struct rut_tls_conf *c);

/*
 * A connection over a connected socket, which stays the caller's. `host` is the server that a
 * client wants to reach: the certificate must be for that name or address. NULL: out of memory.
 */
struct rut_tls *rut_tls_new(struct rut_tls_conf *c, int fd, const char *host);
void rut_tls_free(struct rut_tls *t);

/*
 * Continues the handshake. Returns 0 when it is done, -EAGAIN when the socket must become
 * readable or, with *ret_write, writable (or a blocking one has timed out), -EACCES with the
 * reason.
 */
int rut_tls_handshake(struct rut_tls *t, bool *ret_write, struct rut_err *err);

/* As recv() and send(): the number of bytes, 0 at the end, or -errno; -EAGAIN. */
ssize_t rut_tls_read(struct rut_tls *t, void *data, size_t len);
ssize_t rut_tls_write(struct rut_tls *t, const void *data, size_t len);

/* Has bytes that rut_tls_read() returns without the socket becoming readable. */
bool rut_tls_pending(const struct rut_tls *t);

/* Is the peer's certificate for this host? False without one. */
bool rut_tls_is_host(const struct rut_tls *t, const char *host);

/* Did the peer show a certificate? */
bool rut_tls_certified(const struct rut_tls *t);

#endif
