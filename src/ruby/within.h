/* SPDX-License-Identifier: MIT */
/* Gives a process the map in which its agent keeps where threads are (base/within.h). */
#ifndef RUT_RUBY_WITHIN_H
#define RUT_RUBY_WITHIN_H

struct rut_tracee;

/*
 * The agent waits for it at a socket, of which this process takes a copy. Where that cannot be,
 * nothing happens: without the map, stacks are read.
 */
void rut_within_send(struct rut_tracee *p, int map_fd);

#endif
