/* SPDX-License-Identifier: MIT */
/*
 * What a host does when it is asked: the administrator's file, /etc/rutile/fleet.conf.
 *
 *	server = nats://hub1,hub2
 *	allow = ps
 *	allow = snapshot web -o /srv/traces/[a-z]*
 *
 * A request is answered when its words are those of an `allow` line, one by one. A word of the line
 * may be a glob, which matches no '/' and no leading '.'; ** at the end stands for any number of
 * words that * matches. Options are matched by options only: neither * nor ** stands for a word
 * that begins with '-'. Verbs that could start programs are never answered, whatever the file says.
 */
#ifndef RUT_FLEET_RULES_H
#define RUT_FLEET_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/nats_url.h"

#define RUT_FLEET_CONF	"/etc/rutile/fleet.conf"
#define RUT_FLEET_RULES 256

struct rut_err;

struct rut_fleet_rules {
	char server[512];    /* "": not given */
	char tls[256];	     /* directory of certificates and credentials; "": the usual one */
	uint64_t timeout_ns; /* of a verb */
	char *allow[RUT_FLEET_RULES]; /* owned: words, separated by one blank */
	size_t n_allow;
};

/* Reads the text of the file; `name` is for messages. Returns 0, or -EINVAL with the line. */
int rut_fleet_rules_parse(struct rut_fleet_rules *r, const char *name, const char *text,
			  struct rut_err *err);

/* Reads the file. Others than its owner must not be able to write to it. Returns 0 or -errno. */
int rut_fleet_rules_read(struct rut_fleet_rules *r, const char *path, struct rut_err *err);

void rut_fleet_rules_fini(struct rut_fleet_rules *r);

/* May these words be a command line here? */
bool rut_fleet_rules_allow(const struct rut_fleet_rules *r, char *const *words, size_t n);

/* Is it a verb that a host can be asked for at all? */
bool rut_fleet_is_verb(const char *verb);

#endif
