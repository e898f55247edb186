/* SPDX-License-Identifier: MIT */
/*
 * Probes of Ruby methods: `ruby:Order#total`, `ruby:Order.find:return`. The agent in the process
 * has the hooks and calls a place of its own for each probe, with what the probe wants to know
 * (agent/hit.h); the program is attached to that place (ruby_attach.h).
 *
 * What is known of a call is text that the agent makes: the compiler collects which texts a body
 * mentions, and the agent makes these.
 */
#ifndef RUT_SCRIPT_RUBY_PROBE_H
#define RUT_SCRIPT_RUBY_PROBE_H

#include "agent/abi.h"
#include "script/gen.h"
#include "script/ruby.h"

struct rut_resolve;

struct rut_ruby_probe_ctx {
	const struct rut_probe_spec *spec;
	char event;	     /* RUT_HIT_* */
	const char *pattern; /* of methods */
	const char *wishes[RUT_HIT_TEXTS];
	uint32_t nwishes;
	struct rut_type *record; /* STRUCT of the texts: fields are added as they are mentioned */
	bool deferred;		 /* hits go into a ring: see defer.h */
	uint32_t sends_bytes; /* deferred: what a hit sends at most; 0: nothing, and hits may be in
				 any order */
	bool local; /* deferred, and uses the thread or the time: not in other namespaces */
};

/* Does the agent have to be in the processes? */
static inline bool rut_script_needs_agent(const struct rut_script_program *p)
{
	return p->nruby_probes || p->needs_requests;
}

/* Is it to be there? */
static inline bool rut_script_has_agent(const struct rut_script_program *p)
{
	return rut_script_needs_agent(p) || rut_script_follows(p);
}

bool rut_ruby_is_method(char event);

/* Is it the end or beginning of a request, or of a layer? */
bool rut_ruby_is_request(char event);

/* rrequest is used. 0, or -EINVAL: it cannot be had, which is reported. */
int rut_ruby_wants_requests(struct rut_checker *c, const struct rut_node *n);

/* The number by which what agents report is known to be of this script. 0 or -errno. */
int rut_ruby_choose_session(struct rut_script_program *p);

int rut_resolve_ruby(struct rut_resolve *r);

/* Whether it is `args` or `self` in a Ruby probe: their fields are texts. */
bool rut_is_ruby_record(const struct rut_probe_ctx *ctx, const struct rut_node *n);
/* args.NAME, args[0], self.class; `n` becomes a FIELD. */
const struct rut_type *rut_check_ruby_field(struct rut_checker *c, struct rut_node *n);
/* Where the texts are. */
struct rut_mem rut_gen_ruby_record(struct rut_gen *g);

/* Builtins of such probes. */
const struct rut_type *rut_check_ruby_text(struct rut_checker *c, struct rut_node *n);
void rut_gen_ruby_text(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
const struct rut_type *rut_check_ruby_line(struct rut_checker *c, struct rut_node *n);
rut_vreg rut_gen_ruby_line(struct rut_gen *g, struct rut_node *n);
const struct rut_type *rut_check_ruby_self(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_ruby_elapsed(struct rut_checker *c, struct rut_node *n);
rut_vreg rut_gen_ruby_elapsed(struct rut_gen *g);

/* A hit that a replaying program reads; RUT_HIT_TEXT_BYTES for each wish follow. */
struct rut_ruby_hit {
	uint64_t duration_ns, line;
	uint64_t mono_ns, boot_ns; /* when */
	uint64_t pid, tid;
};

/* The bytes of one in the program's array. */
static inline uint32_t rut_ruby_hit_bytes(const struct rut_ruby_probe_ctx *x)
{
	return (uint32_t)sizeof(struct rut_ruby_hit) + x->nwishes * RUT_HIT_TEXT_BYTES;
}

/* Of the hit that a replaying program is at, instead of what the kernel says of now. */
rut_vreg rut_gen_ruby_time(struct rut_gen *g, bool boot);
rut_vreg rut_gen_ruby_id(struct rut_gen *g, bool pid);
/* comm: in a replaying program a text of the hit. False: there is no room for one more. */
bool rut_check_ruby_comm(struct rut_checker *c, struct rut_node *n);
void rut_gen_ruby_comm(struct rut_gen *g, struct rut_node *n, struct rut_mem to);

/* Ends the program when the hit is another session's. */
void rut_gen_ruby_filter(struct rut_gen *g);

#endif
