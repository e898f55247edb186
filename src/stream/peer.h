/* SPDX-License-Identifier: MIT */
/*
 * One connection of a receiver: bytes go in, replies come out, and what they say is done to the
 * store. There is no socket here.
 *
 * A message is buffered until it is complete; what it claims about its size is checked first, and
 * memory is taken as its bytes come.
 */
#ifndef RUT_STREAM_PEER_H
#define RUT_STREAM_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "stream/store.h"

#define RUT_PEER_COMMAND_MAX (16u << 20) /* bytes of a command */
#define RUT_PEER_PACKET_MAX  (64u << 20) /* bytes of a packet, padding included */

struct rut_err;
struct rut_peer;

enum rut_peer_kind { RUT_PEER_CONTROL, RUT_PEER_DATA, RUT_PEER_VIEWER };

/* `client`: an address, copied. NULL: out of memory. */
struct rut_peer *rut_peer_new(struct rut_store *store, const char *client, enum rut_peer_kind kind);

/*
 * From now on only sessions of hosts for which `is_host` is true.
 */
void rut_peer_certify(struct rut_peer *p, bool (*is_host)(void *arg, const char *host), void *arg);

/* Ends its session. */
void rut_peer_free(struct rut_peer *p);

/*
 * The next bytes. Replies are appended to `out`. Returns 0, or -errno: the connection must be
 * closed, after the replies, which say why where the protocol can.
 */
int rut_peer_feed(struct rut_peer *p, const void *data, size_t len, struct rut_buf *out,
		  struct rut_err *err);

/* Has a message begun that is not complete? */
bool rut_peer_inside(const struct rut_peer *p);

/* Bytes of that message that are in memory. */
size_t rut_peer_buffered(const struct rut_peer *p);

/* Of a viewer: rut_live_server_oldest(). 0 for others. */
uint64_t rut_peer_oldest(const struct rut_peer *p);

/* Has it made a session, or sent a packet? Until then it is a stranger. */
bool rut_peer_known(const struct rut_peer *p);

#endif
