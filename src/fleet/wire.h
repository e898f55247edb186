/* SPDX-License-Identifier: MIT */
/*
 * What the machines of a fleet say to each other over NATS. No sockets here.
 *
 * A request is a verb with its arguments, sent to all (rutile-fleet.ask) or to one host
 * (rutile-fleet.host.HOST). Its reply subject is _INBOX.ID.ask, to which each host adds its name,
 * so that a server's rights can keep hosts from answering as others. It answers with messages: that
 * it has accepted or refused the request, what the verb prints, and its exit code.
 *
 * "clock NUMBER" is answered by one message, "NUMBER NANOSECONDS" of the host's time of day,
 * whatever its rules say: it runs nothing.
 */
#ifndef RUT_FLEET_WIRE_H
#define RUT_FLEET_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define RUT_FLEET_ALL	    "rutile-fleet.ask"
#define RUT_FLEET_HOST	    "rutile-fleet.host"
#define RUT_FLEET_REPLY	    ".ask" /* after the inbox of the one who asks */
#define RUT_FLEET_BUCKET    "rutile-fleet"
#define RUT_FLEET_CLOCK	    "clock" /* a request for the time: "clock NUMBER" */
#define RUT_FLEET_WORDS	    64
#define RUT_FLEET_BYTES	    8192	 /* of a request */
#define RUT_FLEET_NAME	    256		 /* bytes of a host's name, the NUL included */
#define RUT_FLEET_OUT_BYTES (128u << 10) /* of output in one message */

struct rut_fleet_request {
	char text[RUT_FLEET_BYTES];	  /* what the pointers point into */
	const char *hosts;		  /* names and globs, separated by commas */
	char *words[RUT_FLEET_WORDS + 1]; /* the verb and its arguments; NULL ends them */
	size_t n_words;
};

/* Appends a request. Returns 0, -E2BIG, or -ENOMEM. */
int rut_fleet_request_put(struct rut_buf *b, const char *hosts, char *const *words, size_t n);

/* Returns 0, or -EBADMSG. */
int rut_fleet_request_get(const void *data, size_t len, struct rut_fleet_request *ret);

enum rut_fleet_answer_kind {
	RUT_FLEET_ACCEPTED = 1,
	RUT_FLEET_REFUSED, /* with the reason */
	RUT_FLEET_OUT,	   /* with output; number: of the message, from 0 on */
	RUT_FLEET_ERR,	   /* the same of standard error */
	RUT_FLEET_EXIT,	   /* number: the exit code; 128 and a signal. With n_out and n_err */
};

struct rut_fleet_answer {
	uint8_t kind;
	uint32_t number;
	uint32_t n_out, n_err; /* with the exit code alone: messages of output that were sent */
	char host[RUT_FLEET_NAME];
	const char *data; /* borrowed from the message */
	size_t len;
};

/* Bytes of a host's answer that are not output. */
size_t rut_fleet_answer_head(const char *host);
void rut_fleet_answer_put(struct rut_buf *b, const struct rut_fleet_answer *a);
int rut_fleet_answer_get(const void *data, size_t len, struct rut_fleet_answer *ret);

/*
 * Is it the reply subject of a request? Hosts answer to no other: they publish with rights that
 * the asking side need not have.
 */
bool rut_fleet_is_reply(const char *subject);

/* Appends the subject of a host's answers to a request with that reply subject. */
void rut_fleet_subject_put(struct rut_buf *b, const char *reply, const char *host);

/* Is the host one of these names and globs? */
bool rut_fleet_is_among(const char *hosts, const char *host);

/* Calls fn for each of them; `glob`: it has wildcards. */
void rut_fleet_each_host(const char *hosts, void (*fn)(void *arg, const char *host, bool glob),
			 void *arg);

/* Appends a name as a key of the hosts' bucket, and reads one; false: it is none. */
void rut_fleet_key_put(struct rut_buf *b, const char *host);
bool rut_fleet_key_get(const char *key, char *ret, size_t size);

#endif
