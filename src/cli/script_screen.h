/* SPDX-License-Identifier: MIT */
/* `rutile run --monitor`: the maps of a script as a screen that sorts, filters and resets. */
#ifndef RUT_CLI_SCRIPT_SCREEN_H
#define RUT_CLI_SCRIPT_SCREEN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct rut_err;
struct rut_script_program;
struct rut_script_screen;
struct rut_script_style;

/*
 * Opens the screen. The caller writes what the script prints to *ret_out; its last lines are shown
 * below the maps. 0 or -errno: there is no terminal.
 */
int rut_cli_script_screen_open(struct rut_script_screen **ret, const char *title, FILE **ret_out,
			       struct rut_err *err);

/* Keys and, once a second, a new picture. True: the user quits. */
bool rut_cli_script_screen_round(void *screen, const struct rut_script_program *p,
				 const struct rut_script_style *style);

/* Closes the screen, and writes all that the script printed to `to`. */
void rut_cli_script_screen_close(struct rut_script_screen *s, FILE *to);

#endif
