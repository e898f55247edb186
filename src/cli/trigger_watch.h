/* SPDX-License-Identifier: MIT */
/*
 * The process of one trigger: it watches events, listens on the trigger's socket and acts.
 *
 * The socket, /run/rutile/trigger/NAME, takes datagrams, so that firing never waits:
 *
 *	fire [KEY=VALUE]...     from any program
 *	test                    acts without regard to the limits
 *	status                  answered with one line of JSON
 *	end                     ends the process
 */
#ifndef RUT_CLI_TRIGGER_WATCH_H
#define RUT_CLI_TRIGGER_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cmd.h"
#include "trigger/spec.h"

#define RUT_TRIGGER_DIR "/run/rutile/trigger"

/* In the description of a trigger that could not go on; its reason follows. */
#define RUT_TRIGGER_ENDED "# ended: "

/* What `trigger publish`, which the action publish runs, sends. */
#define RUT_TRIGGER_MESSAGE_ENV "RUTILE_TRIGGER_MESSAGE"

enum { RUT_TRIGGER_MESSAGE_MAX = 4096 };

/* What a trigger says of itself. */
struct rut_trigger_status {
	uint64_t fired, suppressed; /* firings that acted, and those that the limits kept back */
	uint64_t failed;	    /* firings with an action that failed */
	bool busy;
};

/*
 * Starts the process of the trigger, which stays when we end; returns when it watches: 0, -EEXIST,
 * -EINVAL after a message of its own (err->code stays 0), or -errno.
 */
int rut_cli_trigger_start(const struct rut_trigger *t, const struct rut_cmd *cmd,
			  struct rut_err *err);

/*
 * Sends a message; while the queue is full it is dropped, or, to `wait`, for 2 s at most. Returns
 * 0, -ENOENT: there is no such trigger, -EAGAIN: it is flooded, -errno.
 */
int rut_cli_trigger_send(const char *name, const char *message, bool wait, struct rut_err *err);

/* Asks for its status. Returns 0 or as rut_cli_trigger_send(); -ETIMEDOUT. */
int rut_cli_trigger_ask(const char *name, struct rut_trigger_status *ret, struct rut_err *err);

/* Ends the process, and waits for that. Returns 0, -ENOENT: there is none, or -errno. */
int rut_cli_trigger_end(const char *name, struct rut_err *err);

/* The path of its description or, with suffix "", of its socket. */
void rut_cli_trigger_path(char *ret, size_t size, const char *name, const char *suffix);

#endif
