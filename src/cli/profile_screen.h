/* SPDX-License-Identifier: MIT */
/*
 * `rutile profile` as a screen: the table with a cursor, and a page for what was opened. The caller
 * counts, and answers `ask`.
 */
#ifndef RUT_CLI_PROFILE_SCREEN_H
#define RUT_CLI_PROFILE_SCREEN_H

#include "cli/profile_table.h"
#include "output/pager.h"

struct rut_profile_screen {
	struct rut_pager pager;
	struct rut_buf page;	     /* what was opened; empty: the table is shown */
	size_t opened_skip;	     /* of the table meanwhile */
	size_t rows_shown;	     /* for Page Up and Page Down */
	char chosen[512];	     /* the name under the cursor, as drawn last; "": none */
	char ask;		     /* 't': trace it, 'x': explain it; 0: nothing */
	bool open_tree, quit, dirty; /* dirty: a key changed what is shown */
};

/* Draws it. `title`: of the bar above. */
void rut_cli_profile_screen_draw(struct rut_profile_screen *s, const struct rut_profile *p,
				 const struct rut_profile_show *show, const char *title);

/* Takes the keys that wait. */
void rut_cli_profile_screen_keys(struct rut_profile_screen *s);

/* A line of the bar below while something takes seconds. */
void rut_cli_profile_screen_wait(const char *text);

void rut_cli_profile_screen_fini(struct rut_profile_screen *s);

#endif
