/* SPDX-License-Identifier: MIT */
/*
 * Reads the traces that a stream of NATS JetStream has, and leaves them there: message by message,
 * by number, which needs no consumer and disturbs none. What comes meanwhile is not read.
 */
#ifndef RUT_STREAM_NATS_READ_H
#define RUT_STREAM_NATS_READ_H

#include <stdint.h>

#include "stream/nats_url.h"

struct rut_err;

struct rut_nats_read_conf {
	struct rut_nats_url url;
	const char *tls;      /* directory of certificates and credentials; NULL: the usual one */
	const char *hosts;    /* a glob; of their names */
	const char *sessions; /* likewise */
	const char *dir;      /* gets DIR/HOST/SESSION..., as of a collector */
	uint64_t free_bytes;  /* of its disk, below which nothing is taken */
};

struct rut_nats_read_stats {
	uint64_t hosts, messages, bytes;
	uint64_t
		bad; /* messages that are no part of a trace, or about a packet that is not there */
};

/* Returns 0, -ENOENT: no such host, or -errno with the reason. */
int rut_nats_read(const struct rut_nats_read_conf *conf, struct rut_nats_read_stats *ret,
		  struct rut_err *err);

#endif
