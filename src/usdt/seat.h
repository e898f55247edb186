/* SPDX-License-Identifier: MIT */
/* The seats of the control page, each for one tool that records: see ctl.h and seat.c. */
#ifndef RUT_USDT_SEAT_H
#define RUT_USDT_SEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "usdt/ctl.h"

/* All of these: under the lock of provider.c, with the page of this process. */

void rut_usdt_seats_init(struct rut_usdt_ctl *page);

/* Takes seat 0 for the tool that RUT_USDT_RECORD_ENV names; `fd` is the page's descriptor. */
void rut_usdt_seats_from_env(struct rut_usdt_ctl *page, int fd);

/* Makes the rings that are wanted and takes away those that are not. */
void rut_usdt_seats_serve(struct rut_usdt_ctl *page);

/* Clears the seats of tools that died. Returns whether there were any. */
bool rut_usdt_seats_end_leases(struct rut_usdt_ctl *page);

/* The seats, a bit each, that have a ring and want this probe. */
uint32_t rut_usdt_seats_match(const struct rut_usdt_ctl *page, const char *provider,
			      const char *name);

/*
 * In the child of a fork: takes over what was recorded in the parent (`recorded`: a bit a seat) if
 * its tool can be notified; `fd` is the new page's descriptor, -1: there is none.
 */
void rut_usdt_seats_child(struct rut_usdt_ctl *page, int fd, uint32_t recorded);

#endif
