/* SPDX-License-Identifier: MIT */
/*
 * Attaches the Ruby probes of a script: a tracer (ruby/tracer.h) brings the agent into the
 * processes and follows those that they start; the programs are attached to the places of the
 * agent's file by uprobes. Processes of one file, as children of a fork are, need that once.
 *
 * When this process ends, however it ends, the uprobes go with their descriptors and the agents
 * take their hooks away.
 */
#ifndef RUT_SCRIPT_RUBY_ATTACH_H
#define RUT_SCRIPT_RUBY_ATTACH_H

#include <stdio.h>

#include "script/load.h"

struct rut_buf;
struct rut_err;
struct rut_script_tracer;

struct rut_script_tracer_opts {
	int stop_fd;	/* readable when the script is to end (a signalfd); it is not read */
	FILE *warnings; /* NULL: none */
	/* Appends which names are near to one that no method has; NULL: that is not looked at. */
	rut_script_near_fn *near;
};

/*
 * Attaches to the processes of p's options; those that cannot be attached to are warned of as long
 * as another one can. `links` keep the programs; borrowed. *ret is to be freed in any case, before
 * `links`. Returns 0 or -errno with *err; -EINTR: it was to end before all was attached.
 */
int rut_script_tracer_new(struct rut_script_tracer **ret, struct rut_script_program *p,
			  struct rut_script_links *links, const struct rut_script_tracer_opts *opts,
			  struct rut_err *err);
void rut_script_tracer_free(struct rut_script_tracer *t);

/* Attaches to one more process and what it starts; to one that is attached to already: nothing. */
int rut_script_tracer_attach(struct rut_script_tracer *t, pid_t pid, struct rut_err *err);
bool rut_script_tracer_has(const struct rut_script_tracer *t, pid_t pid);

/* Have all processes all of their hooks? */
bool rut_script_tracer_settled(const struct rut_script_tracer *t);

/* Runs the programs of deferred probes for what was hit up to now. Returns 0 or -errno. */
int rut_script_tracer_take(struct rut_script_tracer *t, struct rut_err *err);
/*
 * Do some of them print? They are run by rut_script_tracer_run_until(), up to `until_ns` at most
 * (CLOCK_MONOTONIC), in order of time; rut_script_hits_run_until() says how. *until_ns of
 * rut_script_tracer_gather(): no hit comes any more that was before.
 */
bool rut_script_tracer_prints(const struct rut_script_tracer *t);
int rut_script_tracer_run_until(struct rut_script_tracer *t, uint64_t until_ns, uint32_t room_bytes,
				void (*served)(void *arg), void *arg, struct rut_err *err);
/* Takes what was hit up to now, of children that were just forked, too. */
int rut_script_tracer_gather(struct rut_script_tracer *t, uint64_t *until_ns, struct rut_err *err);
/* Are there any? */
bool rut_script_tracer_defers(const struct rut_script_tracer *t);

/* The environment of the command of -c: "NAME=VALUE", each with its NUL. 0 or -ENOMEM. */
int rut_script_tracer_vars(const struct rut_script_tracer *t, struct rut_buf *out);

/* Puts the message at the first Ruby probe of the script. */
void rut_script_ruby_error(struct rut_script_program *p, const char *message);

/* Follows forks and exits; to be called often. Returns how many processes there are, or -errno. */
int rut_script_tracer_round(struct rut_script_tracer *t, struct rut_err *err);

#endif
