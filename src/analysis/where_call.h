/* SPDX-License-Identifier: MIT */
/* What a system call waits for when it blocks: by its name, descriptors and other arguments. */
#ifndef RUT_ANALYSIS_WHERE_CALL_H
#define RUT_ANALYSIS_WHERE_CALL_H

#include "analysis/where.h"

struct rut_ctf_event;
struct rut_ctf_ref;
struct rut_hook_syscall;
struct rut_state;

/* Before the address of a peer that has not taken the connection yet. */
#define RUT_CONNECTING "a connection to "

/* "10.0.0.1:5432", "[0:0:...:1]:80": interned; NULL: the field is not an address, or no memory. */
const char *rut_an_peer_name(struct rut_state *st, const struct rut_ctf_event *ev,
			     const struct rut_ctf_ref *addr, bool v6, uint64_t port);

/* The descriptors of a poll() or ppoll() that begins. */
void rut_an_poll_each(const struct rut_ctf_event *ev, void (*fn)(void *arg, int64_t fd), void *arg);

/* Sets t->call_place, t->call_what and t->timed. */
void rut_an_where_call_entry(struct rut_where *w, struct rut_where_thread *t,
			     const struct rut_hook_syscall *h);
/* Learns the descriptors that the call has made. */
void rut_an_where_call_exit(struct rut_where *w, struct rut_where_thread *t,
			    const struct rut_hook_syscall *h);

#endif
