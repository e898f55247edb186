/* SPDX-License-Identifier: MIT */
/* Live requests as a screen: what is drawn, and what keys do. */
#ifndef RUT_CLI_REQUESTS_SCREEN_H
#define RUT_CLI_REQUESTS_SCREEN_H

#include "cli/requests_print.h"
#include "output/pager.h"

struct rut_requests_screen {
	struct rut_live_requests_table table;
	struct rut_pager pager;
	/* Of the routes that match the filter; moved by the arrows. */
	char chosen[256];    /* the route under it, as drawn last */
	char open[256];	     /* the route that is shown alone; "": none */
	struct rut_buf page; /* what the keys below have asked for, while that is shown */
	char ask;	     /* 't' or 'x': the user wants such a page: the caller fills it */
	bool paused, quit, reset;
	bool dirty; /* a key changed what is shown */
};

/* `status`: the first line; borrowed. */
void rut_cli_requests_screen_draw(struct rut_requests_screen *s, const struct rut_live_requests *r,
				  const char *status, uint64_t now_ns);

/* Says what it is busy with, in the last line. */
void rut_cli_requests_screen_wait(const char *text);

void rut_cli_requests_screen_fini(struct rut_requests_screen *s);

/* Takes the keys that wait. */
void rut_cli_requests_screen_keys(struct rut_requests_screen *s);

#endif
