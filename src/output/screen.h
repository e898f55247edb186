/* SPDX-License-Identifier: MIT */
/*
 * The terminal as a screen of lines, by ncurses. However the program ends - return, signal, crash -
 * the terminal is as it was before. One screen a process.
 */
#ifndef RUT_OUTPUT_SCREEN_H
#define RUT_OUTPUT_SCREEN_H

#include <stddef.h>

struct rut_err;

enum rut_screen_style {
	RUT_SCREEN_PLAIN,
	RUT_SCREEN_BOLD,
	RUT_SCREEN_BAR, /* reversed, across the whole line */
};

/* Keys that are no character. */
enum {
	RUT_KEY_NONE = -1,
	RUT_KEY_UP = 0x110000, /* above every code point */
	RUT_KEY_DOWN,
	RUT_KEY_PAGE_UP,
	RUT_KEY_PAGE_DOWN,
	RUT_KEY_HOME,
	RUT_KEY_END,
	RUT_KEY_BACKSPACE,
	RUT_KEY_ENTER,
	RUT_KEY_ESCAPE,
	RUT_KEY_OTHER,
};

/* Returns 0, or -errno with the reason (no terminal, its type is not known). */
int rut_screen_open(struct rut_err *err);
void rut_screen_close(void);

/* Columns of the terminal that `fd` is, also without a screen; 0: it is none. */
size_t rut_screen_width(int fd);

void rut_screen_size(size_t *ret_lines, size_t *ret_columns);
/* The window has another size now. */
void rut_screen_resize(void);

void rut_screen_clear(void);
/* Text that is already harmless; what does not fit is cut. `len` bytes. */
void rut_screen_line(size_t y, enum rut_screen_style style, const char *text, size_t len);
/* Shows what was drawn. */
void rut_screen_show(void);

/* The next key: a code point, RUT_KEY_*, or RUT_KEY_NONE when none waits. */
int rut_screen_key(void);

#endif
