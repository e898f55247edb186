/* SPDX-License-Identifier: MIT */
/*
 * A receiver of traces from a stream of NATS JetStream. Any number of them share the work of one
 * durable consumer. A message is acknowledged when what it says is on the disk; what a receiver
 * that is killed did not acknowledge is delivered to another one, which finds what is there
 * already.
 */
#ifndef RUT_STREAM_NATS_COLLECT_H
#define RUT_STREAM_NATS_COLLECT_H

#include "stream/nats_store.h"
#include "stream/nats_url.h"

struct rut_err;
struct rut_nats_collect;

struct rut_nats_collect_conf {
	struct rut_nats_url url;
	const char *dir;
	const char *tls;       /* directory of certificates and credentials; NULL: the usual one */
	const char *group;     /* name of the consumer that receivers share; NULL: "collect" */
	uint64_t stream_bytes; /* of a stream that is made; 0: any */
	uint32_t replicas;     /* likewise */
	uint64_t ack_wait_ns;  /* after which another receiver gets a message */
	struct rut_store_limits limits;
};

/* Connects; makes the stream and the consumer where they are missing. Returns 0 or -errno. */
int rut_nats_collect_new(struct rut_nats_collect **ret, const struct rut_nats_collect_conf *conf,
			 struct rut_err *err);

/* Receives for up to `ms`. Returns 0; what fails is reported, and tried again. */
int rut_nats_collect_step(struct rut_nats_collect *c, int ms, struct rut_err *err);

void rut_nats_collect_stats(const struct rut_nats_collect *c, struct rut_nats_store_stats *ret);
void rut_nats_collect_free(struct rut_nats_collect *c);

#endif
