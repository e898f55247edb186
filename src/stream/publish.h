/* SPDX-License-Identifier: MIT */
/* One message to others: nats://HOST[:PORT][,...]/SUBJECT, or a POST to http(s)://HOST[:PORT]/PATH.
 */
#ifndef RUT_STREAM_PUBLISH_H
#define RUT_STREAM_PUBLISH_H

#include <stddef.h>

struct rut_err;

/*
 * Returns when the server has it, within some ten seconds: 0 or -errno. A status of HTTP other than
 * 2xx is -EREMOTEIO, or -EBUSY for those that may pass: 408, 429, 500, 502 to 504. `tls`: the
 * directory of certificates; NULL: the usual one. `type`: the content type of what is sent by HTTP.
 */
int rut_publish(const char *url, const char *tls, const char *type, const char *data, size_t len,
		struct rut_err *err);

/*
 * One message to nats://HOST[:PORT][,...]/SUBJECT over a connection of its own. Returns 0 when the
 * server has it, or -errno. Also in a program that was built without NATS.
 */
int rut_nats_publish(const char *url, const char *dir, const char *data, size_t len,
		     struct rut_err *err);

#endif
