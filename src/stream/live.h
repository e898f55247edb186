/* SPDX-License-Identifier: MIT */
/*
 * A viewer of what a receiver gets: LTTng's protocol of live viewers (version 2.4), as its relay
 * daemon speaks it. Commands go in, replies come out. There is no socket here.
 */
#ifndef RUT_STREAM_LIVE_H
#define RUT_STREAM_LIVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "stream/store.h"

#define RUT_LIVE_HEADER	     16	   /* bytes before a command's numbers */
#define RUT_LIVE_COMMAND_MAX 4096  /* bytes of the numbers */
#define RUT_LIVE_UNREAD_MAX  65536 /* bytes of replies, behind which no command is taken */

struct rut_live_server;

/* NULL: out of memory. */
struct rut_live_server *rut_live_server_new(struct rut_store *store);
void rut_live_server_free(struct rut_live_server *v);

/*
 * Which of the finished files that it holds was opened first: that one and all later ones of its
 * stream stay open for it. 0: it holds none.
 */
uint64_t rut_live_server_oldest(const struct rut_live_server *v);

/* Bytes behind that header. */
uint64_t rut_live_server_size(const void *header);

/* A command with its header. Returns 0, or -EPROTO, -ENOMEM: the connection must be closed. */
int rut_live_server_command(struct rut_live_server *v, const void *data, size_t len,
			    struct rut_buf *out);

#endif
