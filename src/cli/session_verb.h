/* SPDX-License-Identifier: MIT */
/* What the verbs on one existing session share. */
#ifndef RUT_CLI_SESSION_VERB_H
#define RUT_CLI_SESSION_VERB_H

#include "cli/cmd.h"
#include "session/session.h"

enum {
	RUT_SESSION_OPT_TO = 256,
	RUT_SESSION_OPT_TLS,
	RUT_SESSION_OPT_RUBY,
	RUT_SESSION_OPT_TRIGGER
};

struct rut_session_verb {
	const char *name;    /* of the session */
	const char *events;  /* of all -e, joined; "" without */
	const char *ruby[8]; /* of all --ruby */
	size_t nruby;
	const char *output;  /* -o; NULL without */
	const char *tls;     /* --tls; NULL without */
	const char *to;	     /* --to; NULL without */
	const char *trigger; /* --trigger; NULL without */
};

/*
 * Parses "NAME [-e EVENTS]... [-o DIR]", opens the session and calls fn. The result is the exit
 * code; fn returns 0 or -errno with *err set.
 */
int rut_cli_session_verb(const struct rut_cmd *cmd, int argc, char **argv,
			 int (*fn)(struct rut_recorder *r, const struct rut_session_verb *v,
				   struct rut_err *err));

#endif
