/* SPDX-License-Identifier: MIT */
/* The lexer: numbers with units, quoted strings, names, $variables, operators. */
#include "expr/expr_priv.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rut_expr_lex_init(struct rut_expr_lex *l, const char *text, size_t len, struct rut_err *err)
{
	*l = (struct rut_expr_lex){.text = text, .end = text + len, .at = text, .err = err};
}

void rut_expr_lex_fini(struct rut_expr_lex *l)
{
	free(l->str);
	l->str = NULL;
}

int(rut_expr_lex_error)(struct rut_expr_lex *l, const char *where, const char *fmt, ...)
{
	char msg[256];
	va_list ap;

	l->tok = TOK_BAD;
	if (l->error_column)
		return -EINVAL;
	l->error_column = (size_t)(where - l->text) + 1;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	return rut_err_set(l->err, EINVAL, "column %zu: %s", l->error_column, msg);
}

/* A number may carry a unit of time, which makes it a count of nanoseconds. */
static double unit_ns(const char *s, size_t len)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {
		{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 6e10}, {"h", 3.6e12},
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (strlen(units[i].name) == len && !memcmp(units[i].name, s, len))
			return units[i].ns;
	return 0;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Reads 0x1f, 017 as decimal, 12, 1.5, 1e-3: the literal ends where strtod or strtoull ends. */
static const char *scan_number(struct rut_expr_lex *l, const char *copy, double *ret_f,
			       uint64_t *ret_u, bool *ret_float)
{
	char *end_int, *end_float;
	bool hex = copy[0] == '0' && (copy[1] == 'x' || copy[1] == 'X');

	errno = 0;
	*ret_u = strtoull(copy, &end_int, hex ? 16 : 10);
	*ret_float = false;
	if (errno == ERANGE) {
		rut_expr_lex_error(l, l->start, "number out of range");
		return NULL;
	}
	if (hex || (*end_int != '.' && *end_int != 'e' && *end_int != 'E'))
		return end_int;
	*ret_f = strtod(copy, &end_float);
	if (end_float == end_int)
		return end_int; /* "3else": the letter is reported as a bad unit */
	if (isinf(*ret_f)) {
		rut_expr_lex_error(l, l->start, "number out of range");
		return NULL;
	}
	*ret_float = true;
	return end_float;
}

static void lex_number(struct rut_expr_lex *l)
{
	char copy[64];
	size_t n = 0;
	const char *p, *unit;
	bool is_float;
	double f = 0, ns;
	uint64_t u;

	/* strtod() wants a terminator, which the text need not have. */
	while (n < sizeof(copy) - 1 && l->at + n < l->end &&
	       (is_word(l->at[n]) || l->at[n] == '.' ||
		((l->at[n] == '-' || l->at[n] == '+') && n > 1 && tolower(l->at[n - 1]) == 'e' &&
		 copy[1] != 'x')))
		copy[n] = l->at[n], n++;
	copy[n] = '\0';
	p = scan_number(l, copy, &f, &u, &is_float);
	if (!p)
		return;
	l->at += p - copy;
	for (unit = l->at; l->at < l->end && is_word(*l->at);)
		l->at++;
	l->tok = TOK_NUM;
	l->len = (size_t)(l->at - l->start);
	if (l->at > unit) {
		ns = unit_ns(unit, (size_t)(l->at - unit));
		if (ns == 0) {
			rut_expr_lex_error(l, unit, "unknown unit '%.*s' (known: ns us ms s min h)",
					   (int)(l->at - unit > 20 ? 20 : l->at - unit), unit);
			return;
		}
		f = (is_float ? f : (double)u) * ns;
		if (!(f < 9e18)) {
			rut_expr_lex_error(l, l->start, "duration out of range");
			return;
		}
		u = is_float ? (uint64_t)llround(f) : u * (uint64_t)ns;
		is_float = false;
	}
	if (is_float)
		l->num = (struct rut_expr_val){.type = RUT_EXPR_FLOAT, .f = f};
	else if (u <= INT64_MAX)
		l->num = (struct rut_expr_val){.type = RUT_EXPR_INT, .i = (int64_t)u};
	else
		l->num = (struct rut_expr_val){.type = RUT_EXPR_UINT, .u = u};
}

static char unescape(char c)
{
	switch (c) {
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case 'r':
		return '\r';
	case 'f':
		return '\f';
	default:
		return c;
	}
}

/* A regular expression keeps its own backslashes: only \" is ours there. */
static void lex_string(struct rut_expr_lex *l, bool raw)
{
	const char *p = l->start + 1;
	size_t n = 0;

	free(l->str);
	l->str = malloc((size_t)(l->end - l->start) + 1);
	if (!l->str) {
		rut_expr_lex_error(l, l->start, "out of memory");
		return;
	}
	for (; p < l->end && *p != '"'; p++) {
		if (*p == '\0') {
			rut_expr_lex_error(l, p, "no string contains the byte 0");
			return;
		}
		if (*p == '\\' && p + 1 < l->end && p[1]) {
			p++;
			if (raw && *p != '"')
				l->str[n++] = '\\';
			l->str[n++] = raw ? *p : unescape(*p);
		} else {
			l->str[n++] = *p;
		}
	}
	if (p == l->end) {
		rut_expr_lex_error(l, l->start, "this string has no closing '\"'");
		return;
	}
	l->str[n] = '\0';
	l->str_len = (uint32_t)n;
	l->at = p + 1;
	l->tok = TOK_STR;
	l->len = (size_t)(l->at - l->start);
}

static void lex_operator(struct rut_expr_lex *l)
{
	static const char *const twos[] = {"==", "!=", "<=", ">=", "&&", "||",
					   "=*", "=~", "!*", "!~", "<<", ">>"};

	for (size_t i = 0; i < sizeof(twos) / sizeof(*twos); i++) {
		if (l->end - l->at >= 2 && l->at[0] == twos[i][0] && l->at[1] == twos[i][1]) {
			l->op = OP2(twos[i][0], twos[i][1]);
			l->at += 2;
			l->tok = TOK_OP;
			l->len = 2;
			return;
		}
	}
	if (strchr("!<>()[],.+-*/%&|^~", *l->at) && *l->at) {
		l->op = (unsigned char)*l->at++;
		l->tok = TOK_OP;
		l->len = 1;
		return;
	}
	if (*l->at == '=')
		rut_expr_lex_error(l, l->at, "'=' alone means nothing here: '==' compares");
	else if (isprint((unsigned char)*l->at))
		rut_expr_lex_error(l, l->at, "unexpected character '%c'", *l->at);
	else
		rut_expr_lex_error(l, l->at, "unexpected byte 0x%02x", (unsigned char)*l->at);
}

void rut_expr_lex_next(struct rut_expr_lex *l)
{
	bool raw = l->tok == TOK_OP && (l->op == OP2('=', '~') || l->op == OP2('!', '~'));

	if (l->error_column) {
		l->tok = TOK_BAD;
		return;
	}
	while (l->at < l->end && isspace((unsigned char)*l->at))
		l->at++;
	l->start = l->at;
	l->len = 0;
	if (l->at == l->end) {
		l->tok = TOK_END;
	} else if (isdigit((unsigned char)*l->at)) {
		lex_number(l);
	} else if (*l->at == '"') {
		lex_string(l, raw);
	} else if (is_word(*l->at) || *l->at == '$') {
		l->tok = *l->at == '$' ? TOK_VAR : TOK_ID;
		do
			l->at++;
		while (l->at < l->end && is_word(*l->at));
		l->len = (size_t)(l->at - l->start);
	} else {
		lex_operator(l);
	}
}
