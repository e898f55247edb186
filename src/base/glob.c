/* SPDX-License-Identifier: MIT */
/* Only the last '*' is ever returned to. */
#include "base/glob.h"

#include <stdint.h>

struct pattern {
	const char *p;
	size_t len;
	bool shell;
};

/* The character at *at, which a backslash may quote; moves past it. */
static unsigned char take(const struct pattern *g, size_t *at)
{
	if (g->shell && g->p[*at] == '\\' && *at + 1 < g->len)
		++*at;
	return (unsigned char)g->p[(*at)++];
}

/*
 * The bracket that begins at `at`. Returns its length when it is well formed and says whether it
 * holds c; 0 when it is not closed, and then the bracket is an ordinary character.
 */
static size_t bracket(const struct pattern *g, size_t at, unsigned char c, bool *ret_in)
{
	size_t i = at + 1, first;
	bool not = false, in = false;

	if (i < g->len && (g->p[i] == '!' || (g->shell && g->p[i] == '^'))) {
		not = true;
		i++;
	}
	first = i;
	while (i < g->len && (g->p[i] != ']' || i == first)) {
		unsigned char lo = take(g, &i), hi = lo;

		if (i + 1 < g->len && g->p[i] == '-' && g->p[i + 1] != ']') {
			i++;
			hi = take(g, &i);
		}
		in |= c >= lo && c <= hi;
	}
	if (i >= g->len)
		return 0;
	*ret_in = in != not ;
	return i + 1 - at;
}

/* Does the part of the pattern at `at`, which is no '*', match this character? Its length; 0: no.
 */
static size_t match_one(const struct pattern *g, size_t at, unsigned char c)
{
	size_t next = at, step;
	bool in;

	if (at == g->len)
		return 0;
	if (g->p[at] == '?')
		return 1;
	if (g->p[at] == '[') {
		step = bracket(g, at, c, &in);
		if (step)
			return in ? step : 0;
	}
	return take(g, &next) == c ? next - at : 0;
}

bool rut_glob(const char *pattern, size_t pattern_len, const char *text, size_t len,
	      enum rut_glob_dialect dialect)
{
	const struct pattern g = {pattern, pattern_len, dialect == RUT_GLOB_SHELL};
	size_t at = 0, i = 0, star = SIZE_MAX, star_i = 0;

	while (i < len) {
		size_t step;

		if (at < g.len && g.p[at] == '*') {
			star = ++at;
			star_i = i;
			continue;
		}
		step = match_one(&g, at, (unsigned char)text[i]);
		if (step) {
			at += step;
			i++;
		} else if (star != SIZE_MAX) {
			at = star;
			i = ++star_i;
		} else {
			return false;
		}
	}
	while (at < g.len && g.p[at] == '*')
		at++;
	return at == g.len;
}
