/* SPDX-License-Identifier: MIT */
/* Shell patterns. Linear: only the last '*' is ever returned to. */
#include "expr/expr.h"

/*
 * One bracket at *p ("[" already seen at p[0]). Returns its length when it is well formed and says
 * whether it holds c; 0 when it is not closed, and then the bracket is an ordinary character.
 */
static size_t bracket(const char *p, size_t len, unsigned char c, bool *ret_in)
{
	size_t i = 1;
	bool not = false, in = false;

	if (i < len && p[i] == '!') {
		not = true;
		i++;
	}
	for (size_t first = i; i < len && (p[i] != ']' || i == first); i++) {
		unsigned char lo = (unsigned char)p[i], hi = lo;

		if (i + 2 < len && p[i + 1] == '-' && p[i + 2] != ']') {
			hi = (unsigned char)p[i + 2];
			i += 2;
		}
		if (c >= lo && c <= hi)
			in = true;
	}
	if (i >= len)
		return 0;
	*ret_in = in != not ;
	return i + 1;
}

bool rut_expr_glob(const char *p, size_t plen, const char *s, size_t len)
{
	size_t pi = 0, si = 0, star = SIZE_MAX, star_s = 0;

	while (si < len) {
		bool in = false;
		size_t step = 0;

		if (pi < plen && p[pi] == '*') {
			star = ++pi;
			star_s = si;
			continue;
		}
		if (pi < plen) {
			if (p[pi] == '[')
				step = bracket(p + pi, plen - pi, (unsigned char)s[si], &in);
			if (!step) {
				in = p[pi] == '?' || p[pi] == s[si];
				step = 1;
			}
		}
		if (in) {
			pi += step;
			si++;
		} else if (star != SIZE_MAX) {
			pi = star;
			si = ++star_s;
		} else {
			return false;
		}
	}
	while (pi < plen && p[pi] == '*')
		pi++;
	return pi == plen;
}
