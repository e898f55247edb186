/* SPDX-License-Identifier: MIT */
/*
 * The tokens of a script. Names of probes are no tokens: the parser takes them from the text
 * between two tokens (rut_lex_probe()), because '*', '/' and '-' belong to them.
 */
#ifndef RUT_SCRIPT_LEX_H
#define RUT_SCRIPT_LEX_H

#include <stdbool.h>
#include <stdint.h>

#include "script/source.h"

enum rut_token_kind {
	RUT_TOK_END,
	RUT_TOK_BAD,	/* a message was added */
	RUT_TOK_NAME,	/* text */
	RUT_TOK_INT,	/* value; is_duration: in nanoseconds */
	RUT_TOK_STRING, /* span with the quotes */
	RUT_TOK_VAR,	/* text with the $ */
	RUT_TOK_PARAM,	/* $1 ($0: $#) : value */
	RUT_TOK_MAP,	/* text with the @ */
	RUT_TOK_OP,	/* op */
};

/* Operators of several characters; those of one are themselves. */
enum {
	RUT_OP_EQ = 256, /* == */
	RUT_OP_NE,
	RUT_OP_LE,
	RUT_OP_GE,
	RUT_OP_SHL,
	RUT_OP_SHR,
	RUT_OP_AND, /* && */
	RUT_OP_OR,
	RUT_OP_INC, /* ++ */
	RUT_OP_DEC,
	RUT_OP_ARROW,
	RUT_OP_RANGE,  /* .. */
	RUT_OP_ASSIGN, /* RUT_OP_ASSIGN + op: op=, as += */
};

struct rut_token {
	enum rut_token_kind kind;
	int op;
	bool is_duration, is_unsigned;
	uint64_t value;
	struct rut_span span;
	uint32_t before; /* where the white space before it begins */
};

struct rut_lexer {
	struct rut_source *src;
	uint32_t pos;
};

void rut_lex_next(struct rut_lexer *l, struct rut_token *ret);

/*
 * The name of a probe at the position: up to white space, ',', '{', or the '/' of a predicate.
 * A "/" belongs to it where probes of its kind have paths. Empty: there is none.
 */
struct rut_span rut_lex_probe(struct rut_lexer *l);

/* Is the text a number as scripts write it? */
bool rut_lex_number(const char *text, uint64_t *ret);

/* Skips white space and comments. */
void rut_lex_space(struct rut_lexer *l);

/* "==" for RUT_OP_EQ. `buf` has room for 4 bytes. */
const char *rut_op_text(int op, char *buf);

#endif
