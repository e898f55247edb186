/* SPDX-License-Identifier: MIT */
/*
 * A receiver of traces: listens on two ports, for control and data connections, and gives what
 * comes to the store; on a third one for viewers. One thread serves all connections; none of them
 * can make it wait.
 */
#ifndef RUT_STREAM_COLLECT_H
#define RUT_STREAM_COLLECT_H

#include <stdbool.h>
#include <stdint.h>

#include "stream/store.h"

struct rut_collect;
struct rut_err;

struct rut_collect_conf {
	const char *dir;
	const char *address; /* to listen on; NULL: all */
	uint16_t port, data_port;
	bool live;		  /* viewers are served */
	const char *live_address; /* to listen on for them; NULL: all */
	uint16_t live_port;
	const char *tls; /* directory of certificates; NULL: no TLS */
	struct rut_store_limits limits;
	int message_ms; /* for a message, besides what 64 KiB a second allow; 0: 30 s */
};

/* Listens. Returns 0 or -errno. */
int rut_collect_new(struct rut_collect **ret, const struct rut_collect_conf *conf,
		    struct rut_err *err);

/* Serves for up to `ms`. Returns 0 or -errno. */
int rut_collect_step(struct rut_collect *c, int ms, struct rut_err *err);

void rut_collect_stats(const struct rut_collect *c, struct rut_store_stats *ret);

/* Closes all connections. What was received is complete. */
void rut_collect_free(struct rut_collect *c);

#endif
