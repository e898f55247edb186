/* SPDX-License-Identifier: MIT */
#include "cli/script_screen.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "output/pager.h"
#include "output/screen.h"
#include "output/text.h"
#include "script/output.h"
#include "script/script.h"

enum { REFRESH_NS = 1000000000, PRINTED_LINES = 5, PRINTED_MAX = 4096 };

struct rut_script_screen {
	const char *title; /* borrowed */
	FILE *printed;	   /* owned: what the script prints */
	struct rut_buf text;
	uint64_t drawn_ns, begin_ns;
	struct rut_pager pager;
	bool by_key, ascending, paused, changed;
};

static const char help_text[] = "\n"
				"  q        quit                     space, p  pause and go on\n"
				"  s        sort by value or by key  i         reverse the order\n"
				"  r        reset: clear all maps\n"
				"  /        show only rows with this text (Enter; Esc shows all)\n"
				"  arrows, Page Up, Page Down, Home, End       scroll\n"
				"  h, ?     this help\n"
				"\n"
				"  Any key returns.\n";

int rut_cli_script_screen_open(struct rut_script_screen **ret, const char *title, FILE **ret_out,
			       struct rut_err *err)
{
	struct rut_script_screen *s = calloc(1, sizeof(*s));
	int fd = memfd_create("rutile-script", MFD_CLOEXEC), rc;

	if (s && fd >= 0)
		s->printed = fdopen(fd, "w+");
	if (!s || !s->printed) {
		rc = rut_err_set(err, ENOMEM, "out of memory");
	} else {
		rc = rut_screen_open(err);
		if (!rc) {
			s->title = title;
			s->begin_ns = rut_now_ns();
			*ret_out = s->printed;
			*ret = s;
			return 0;
		}
	}
	if (s && s->printed)
		fclose(s->printed);
	else if (fd >= 0)
		close(fd);
	free(s);
	return rc;
}

void rut_cli_script_screen_close(struct rut_script_screen *s, FILE *to)
{
	char chunk[4096];
	size_t n;

	if (!s)
		return;
	rut_screen_close();
	rewind(s->printed);
	while ((n = fread(chunk, 1, sizeof(chunk), s->printed)) > 0)
		fwrite(chunk, 1, n, to);
	fclose(s->printed);
	rut_buf_fini(&s->text);
	free(s);
}

/* ---- the picture ---- */

/* Rows as print() shows them: those with the text that is looked for, the largest first. */
static void add_map(struct rut_script_screen *s, const struct rut_script_map *m,
		    const struct rut_script_style *style)
{
	struct rut_script_out_config config = {.style = *style};
	struct rut_script_out *o = NULL;
	struct rut_script_rows rows;
	char *text = NULL;
	size_t len = 0;

	if (rut_script_rows_read(&rows, m, NULL))
		return;
	config.out = open_memstream(&text, &len);
	if (config.out && !rut_script_out_new(&o, &config) &&
	    !rut_script_rows_sort(&rows, m, s->by_key ? RUT_SCRIPT_BY_KEY : RUT_SCRIPT_BY_VALUE,
				  s->by_key == s->ascending))
		rut_script_out_rows(o, m, &rows, 0, 1);
	rut_script_out_free(o);
	if (config.out)
		fclose(config.out);
	rut_script_rows_fini(&rows);
	for (const char *line = text; line && *line;) {
		const char *end = strchrnul(line, '\n');
		_cleanup_free_ char *one = strndup(line, (size_t)(end - line));

		if (one && (!s->pager.filter[0] || strstr(one, s->pager.filter)))
			rut_buf_printf(&s->text, "%s\n", one);
		line = *end ? end + 1 : end;
	}
	free(text);
}

static void read_maps(struct rut_script_screen *s, const struct rut_script_program *p,
		      const struct rut_script_style *style)
{
	rut_buf_clear(&s->text);
	for (size_t i = 0; i < p->nmaps; i++)
		add_map(s, &p->maps[i], style);
	if (!s->text.len)
		rut_buf_puts(&s->text, "\n  The maps are empty.\n");
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; text && *text; text++)
		n += *text == '\n';
	return n;
}

static const char *skip_lines(const char *text, size_t n)
{
	while (text && *text && n--) {
		text = strchrnul(text, '\n');
		text += *text == '\n';
	}
	return text;
}

/* The last lines that the script printed; returns how many. */
static size_t draw_printed(struct rut_script_screen *s, size_t lines, size_t columns)
{
	char text[PRINTED_MAX + 1];
	const char *from = text;
	long size;
	size_t n, count;

	fflush(s->printed);
	size = ftell(s->printed);
	if (size <= 0 || lines < 12)
		return 0;
	n = (size_t)pread(fileno(s->printed), text, PRINTED_MAX,
			  size > PRINTED_MAX ? size - PRINTED_MAX : 0);
	if (n > PRINTED_MAX)
		return 0;
	text[n] = '\0';
	count = count_lines(text);
	if (count > PRINTED_LINES) {
		from = skip_lines(text, count - PRINTED_LINES);
		count = PRINTED_LINES;
	}
	rut_pager_lines(from, lines - 1 - count, lines - 1, columns, false);
	return count;
}

static void draw(struct rut_script_screen *s)
{
	_cleanup_buf_ struct rut_buf bar = RUT_BUF_INIT;
	size_t lines, columns, printed, shown;

	rut_screen_size(&lines, &columns);
	rut_screen_clear();
	rut_buf_printf(&bar, " %s%s  %" PRIu64 "s  by %s%s  ", s->paused ? "PAUSED  " : "",
		       s->title, (rut_now_ns() - s->begin_ns) / 1000000000,
		       s->by_key ? "key" : "value", s->ascending ? " reversed" : "");
	if (bar.data)
		rut_pager_bar(0, bar.data, columns);
	if (s->pager.help) {
		rut_pager_lines(help_text, 1, lines - 1, columns, false);
	} else {
		printed = draw_printed(s, lines, columns);
		shown = lines > 2 + printed ? lines - 2 - printed : 0;
		rut_pager_bound(&s->pager, count_lines(s->text.data), shown);
		rut_pager_lines(skip_lines(s->text.data, s->pager.skip), 1, 1 + shown, columns,
				false);
	}
	rut_buf_clear(&bar);
	if (s->pager.typing)
		rut_buf_printf(&bar, " filter: %s_", s->pager.filter);
	else if (s->pager.filter[0])
		rut_buf_printf(&bar, " rows with '%s'   /filter  q quit  h help", s->pager.filter);
	else
		rut_buf_puts(&bar,
			     " q quit  p pause  s sort  i reverse  r reset  / filter  h help");
	if (bar.data && lines > 1)
		rut_pager_bar(lines - 1, bar.data, columns);
	rut_screen_show();
}

/* ---- keys ---- */

/* True: quit. */
static bool press(struct rut_script_screen *s, int key, const struct rut_script_program *p)
{
	size_t lines, columns;

	s->changed = true;
	if (rut_pager_takes(&s->pager, key))
		return false;
	switch (key) {
	case 'q':
		return true;
	case 'p':
	case ' ':
		s->paused = !s->paused;
		break;
	case 's':
		s->by_key = !s->by_key;
		break;
	case 'i':
		s->ascending = !s->ascending;
		break;
	case 'r':
		for (size_t i = 0; i < p->nmaps; i++)
			rut_script_map_clear(&p->maps[i]);
		s->begin_ns = rut_now_ns();
		break;
	default:
		rut_screen_size(&lines, &columns);
		rut_pager_key(&s->pager, key, lines > 3 ? lines - 3 : 1);
	}
	return false;
}

bool rut_cli_script_screen_round(void *screen, const struct rut_script_program *p,
				 const struct rut_script_style *style)
{
	struct rut_script_screen *s = screen;
	uint64_t now = rut_now_ns();
	int key;

	while ((key = rut_screen_key()) != RUT_KEY_NONE)
		if (press(s, key, p))
			return true;
	if (!s->changed && s->drawn_ns && now - s->drawn_ns < REFRESH_NS)
		return false;
	if (!s->paused || s->changed)
		read_maps(s, p, style);
	s->drawn_ns = now;
	s->changed = false;
	draw(s);
	return false;
}
