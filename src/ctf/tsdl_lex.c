/* SPDX-License-Identifier: MIT */
#include "ctf/tsdl_lex.h"

#include <ctype.h>
#include <string.h>

void rut_tsdl_lex_init(struct rut_tsdl_lexer *l, const char *text, size_t len)
{
	*l = (struct rut_tsdl_lexer){.p = text, .end = text + len, .line = 1};
}

bool rut_tsdl_is_word(const struct rut_tsdl_token *t, const char *word)
{
	return t->kind == RUT_TSDL_WORD && strlen(word) == t->len && !memcmp(t->s, word, t->len);
}

static bool word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Passes over white space and comments. Returns false at a comment that never ends. */
static bool skip_space(struct rut_tsdl_lexer *l)
{
	while (l->p < l->end) {
		if (*l->p == '\n')
			l->line++;
		if (isspace((unsigned char)*l->p)) {
			l->p++;
		} else if (l->end - l->p >= 2 && l->p[0] == '/' && l->p[1] == '/') {
			while (l->p < l->end && *l->p != '\n')
				l->p++;
		} else if (l->end - l->p >= 2 && l->p[0] == '/' && l->p[1] == '*') {
			for (l->p += 2; l->end - l->p >= 2; l->p++) {
				if (l->p[0] == '*' && l->p[1] == '/')
					break;
				if (*l->p == '\n')
					l->line++;
			}
			if (l->end - l->p < 2)
				return false;
			l->p += 2;
		} else {
			break;
		}
	}
	return true;
}

static void bad(struct rut_tsdl_lexer *l, struct rut_tsdl_token *t, const char *why)
{
	t->kind = RUT_TSDL_BAD;
	t->why = why;
	l->p = l->end;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static void lex_number(struct rut_tsdl_lexer *l, struct rut_tsdl_token *t)
{
	int base = 10;

	if (*l->p == '0' && l->end - l->p >= 2) {
		char x = (char)tolower((unsigned char)l->p[1]);

		base = x == 'x' ? 16 : x == 'b' ? 2 : 8;
		l->p += x == 'x' || x == 'b' ? 2 : 0;
	}
	t->kind = RUT_TSDL_NUMBER;
	while (l->p < l->end && digit_of(*l->p) < base) {
		if (__builtin_mul_overflow(t->num, (uint64_t)base, &t->num) ||
		    __builtin_add_overflow(t->num, (uint64_t)digit_of(*l->p), &t->num)) {
			bad(l, t, "the number does not fit in 64 bits");
			return;
		}
		l->p++;
	}
	while (l->p < l->end && strchr("uUlL", *l->p) && *l->p)
		l->p++;
	if (l->p < l->end && word_char(*l->p))
		bad(l, t, "a number is followed by letters");
}

static void lex_string(struct rut_tsdl_lexer *l, struct rut_tsdl_token *t)
{
	char quote = *l->p++;

	t->kind = RUT_TSDL_STRING;
	t->s = l->p;
	while (l->p < l->end && *l->p != quote) {
		if (*l->p == '\n')
			l->line++;
		l->p += *l->p == '\\' && l->end - l->p >= 2 ? 2 : 1;
	}
	if (l->p >= l->end) {
		bad(l, t, "a string does not end");
		return;
	}
	t->len = (size_t)(l->p - t->s);
	l->p++;
	if (quote == '\'') { /* a character is a number */
		t->kind = RUT_TSDL_NUMBER;
		t->num = t->len ? (unsigned char)t->s[t->len - 1] : 0;
	}
}

void rut_tsdl_lex_next(struct rut_tsdl_lexer *l, struct rut_tsdl_token *t)
{
	*t = (struct rut_tsdl_token){0};
	if (!skip_space(l)) {
		t->line = l->line;
		bad(l, t, "a comment does not end");
		return;
	}
	t->line = l->line;
	t->s = l->p;
	if (l->p >= l->end)
		return;
	if (isdigit((unsigned char)*l->p)) {
		lex_number(l, t);
		t->len = t->kind == RUT_TSDL_NUMBER ? (size_t)(l->p - t->s) : 0;
	} else if (*l->p == '"' || *l->p == '\'') {
		lex_string(l, t);
	} else if (word_char(*l->p)) {
		while (l->p < l->end && word_char(*l->p))
			l->p++;
		t->kind = RUT_TSDL_WORD;
		t->len = (size_t)(l->p - t->s);
		if (t->len == 1 && t->s[0] == 'L' && l->p < l->end && *l->p == '"')
			lex_string(l, t);
	} else if (l->end - l->p >= 3 && !memcmp(l->p, "...", 3)) {
		t->kind = RUT_TSDL_ELLIPSIS;
		l->p += 3;
	} else if (l->end - l->p >= 2 && !memcmp(l->p, ":=", 2)) {
		t->kind = RUT_TSDL_ASSIGN;
		l->p += 2;
	} else if (l->end - l->p >= 2 && !memcmp(l->p, "->", 2)) {
		t->kind = RUT_TSDL_ARROW;
		l->p += 2;
	} else if (strchr("{}[]()<>;:,.=*+-", *l->p) && *l->p) {
		t->kind = RUT_TSDL_PUNCT;
		t->c = *l->p++;
		t->len = 1;
	} else {
		bad(l, t, "a character that means nothing here");
	}
}
