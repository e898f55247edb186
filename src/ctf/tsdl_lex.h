/* SPDX-License-Identifier: MIT */
/* The words of TSDL, the language of CTF 1.8's metadata. */
#ifndef RUT_CTF_TSDL_LEX_H
#define RUT_CTF_TSDL_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rut_tsdl_kind {
	RUT_TSDL_END,
	RUT_TSDL_BAD, /* cannot be a token: `why` says it */
	RUT_TSDL_WORD,
	RUT_TSDL_NUMBER,
	RUT_TSDL_STRING,   /* between quotes, escapes not yet replaced */
	RUT_TSDL_ASSIGN,   /* := */
	RUT_TSDL_ELLIPSIS, /* ... */
	RUT_TSDL_ARROW,	   /* -> */
	RUT_TSDL_PUNCT,	   /* one character: c */
};

struct rut_tsdl_token {
	enum rut_tsdl_kind kind;
	char c;
	const char *s; /* borrowed from the text */
	size_t len;
	uint64_t num;
	unsigned int line;
	const char *why;
};

struct rut_tsdl_lexer {
	const char *p, *end;
	unsigned int line;
};

void rut_tsdl_lex_init(struct rut_tsdl_lexer *l, const char *text, size_t len);
void rut_tsdl_lex_next(struct rut_tsdl_lexer *l, struct rut_tsdl_token *ret);

bool rut_tsdl_is_word(const struct rut_tsdl_token *t, const char *word);

#endif
