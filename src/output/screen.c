/* SPDX-License-Identifier: MIT */
#include "output/screen.h"

#include <curses.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <term.h>
#include <unistd.h>

#include "base/err.h"

static SCREEN *screen;
static struct termios before;

/* What endwin() does, with nothing that a crashed program may not call. */
static void on_crash(int sig)
{
	static const char restore[] = "\033[?1049l\033[?12l\033[?25h\033[0m\r\n";
	ssize_t n = write(STDOUT_FILENO, restore, sizeof(restore) - 1);

	(void)n;
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
	raise(sig); /* SA_RESETHAND: now it kills */
}

static void catch_crashes(void (*handler)(int))
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGQUIT};
	struct sigaction sa = {.sa_handler = handler, .sa_flags = SA_RESETHAND | SA_NODEFER};

	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaction(signals[i], &sa, NULL);
}

/* Asked first: newterm() leaves memory behind when it does not know the type. */
static bool knows_terminal(void)
{
	int why;

	if (setupterm(NULL, STDOUT_FILENO, &why) == ERR)
		return false;
	del_curterm(cur_term);
	return true;
}

int rut_screen_open(struct rut_err *err)
{
	const char *term = getenv("TERM");

	if (tcgetattr(STDIN_FILENO, &before) < 0)
		return rut_err_errno(err, errno, "no terminal to read keys from");
	screen = knows_terminal() ? newterm(NULL, stdout, stdin) : NULL;
	if (!screen)
		return rut_err_set(err, ENOTTY, "terminal type '%s' is not known",
				   term ? term : "");
	catch_crashes(on_crash);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(50);
	curs_set(0);
	return 0;
}

void rut_screen_close(void)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen);
	screen = NULL;
	catch_crashes(SIG_DFL);
}

size_t rut_screen_width(int fd)
{
	struct winsize ws;

	if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &ws) < 0)
		return 0;
	return ws.ws_col;
}

void rut_screen_size(size_t *ret_lines, size_t *ret_columns)
{
	*ret_lines = (size_t)LINES;
	*ret_columns = (size_t)COLS;
}

void rut_screen_resize(void)
{
	struct winsize ws;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) && ws.ws_row && ws.ws_col)
		resizeterm(ws.ws_row, ws.ws_col);
	clearok(stdscr, TRUE);
}

void rut_screen_clear(void)
{
	erase();
}

void rut_screen_line(size_t y, enum rut_screen_style style, const char *text, size_t len)
{
	chtype attr = style == RUT_SCREEN_BAR ? A_REVERSE : style == RUT_SCREEN_BOLD ? A_BOLD : 0;

	if (y >= (size_t)LINES)
		return;
	move((int)y, 0);
	clrtoeol();
	attrset((int)attr);
	if (style == RUT_SCREEN_BAR)
		mvhline((int)y, 0, ' ' | attr, COLS);
	/* The last cell of the last line may scroll some terminals; ncurses knows how to fill it.
	 */
	mvaddnstr((int)y, 0, text, (int)len);
	attrset(0);
}

void rut_screen_show(void)
{
	refresh();
}

static int special_key(wint_t c)
{
	switch (c) {
	case KEY_UP:
		return RUT_KEY_UP;
	case KEY_DOWN:
		return RUT_KEY_DOWN;
	case KEY_PPAGE:
		return RUT_KEY_PAGE_UP;
	case KEY_NPAGE:
		return RUT_KEY_PAGE_DOWN;
	case KEY_HOME:
		return RUT_KEY_HOME;
	case KEY_END:
		return RUT_KEY_END;
	case KEY_BACKSPACE:
		return RUT_KEY_BACKSPACE;
	case KEY_ENTER:
		return RUT_KEY_ENTER;
	default:
		return RUT_KEY_OTHER;
	}
}

int rut_screen_key(void)
{
	wint_t c;
	int rc = get_wch(&c);

	if (rc == ERR)
		return RUT_KEY_NONE;
	if (rc == KEY_CODE_YES)
		return special_key(c);
	if (c == '\r' || c == '\n')
		return RUT_KEY_ENTER;
	if (c == 127 || c == 8)
		return RUT_KEY_BACKSPACE;
	return c == 27 ? RUT_KEY_ESCAPE : (int)c;
}
