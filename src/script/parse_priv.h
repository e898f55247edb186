/* SPDX-License-Identifier: MIT */
/* Inside the parser: recursive descent, one token ahead. */
#ifndef RUT_SCRIPT_PARSE_PRIV_H
#define RUT_SCRIPT_PARSE_PRIV_H

#include "script/ast.h"
#include "script/lex.h"

enum { RUT_PARSE_DEPTH_MAX = 200, RUT_PARSE_EXPANSIONS_MAX = 10000 };

struct rut_parser {
	struct rut_ast *ast;
	struct rut_lexer lex;
	struct rut_token tok;
	uint32_t end; /* of the token before */
	unsigned depth;
	unsigned expansions; /* uses of #define */
	bool predicate;	     /* a '/' before '{' ends the expression */
	bool failed;
	bool imported; /* the text is that of an imported file */
};

void rut_p_next(struct rut_parser *p);
bool rut_p_is(const struct rut_parser *p, int op);
bool rut_p_is_name(const struct rut_parser *p, const char *name);
bool rut_p_take(struct rut_parser *p, int op);
bool rut_p_want(struct rut_parser *p, int op, const char *where);
/* The text of the token. */
char *rut_p_text(struct rut_parser *p, struct rut_span span);
void *rut_p_alloc(struct rut_parser *p, size_t size);
struct rut_node *rut_p_node(struct rut_parser *p, enum rut_node_kind kind, uint32_t pos);
/* Sets the end of the node's span to what was read. */
struct rut_node *rut_p_close(struct rut_parser *p, struct rut_node *n);
/* A message at the token; returns NULL. */
void *rut_p_error(struct rut_parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool rut_p_enter(struct rut_parser *p);

/* NULL: failed. */
struct rut_node *rut_p_expr(struct rut_parser *p);
struct rut_node *rut_p_block(struct rut_parser *p);
struct rut_node *rut_p_if(struct rut_parser *p);
/* parse_foreach.c: at the word. */
struct rut_node *rut_p_foreach(struct rut_parser *p);
/* Is a type at the token? */
bool rut_p_at_type(struct rut_parser *p);
struct rut_type_name *rut_p_type(struct rut_parser *p);
/* The stars and numbers of elements behind it; false: failed. */
bool rut_p_type_mods(struct rut_parser *p, struct rut_type_name *t);
/* The whole text from the position on. 0 or -EINVAL. */
int rut_p_all(struct rut_parser *p);
/* import.c */
int rut_p_import(struct rut_parser *p);
/* Parses a text of our own, as an imported file of that name. */
int rut_p_part(struct rut_parser *p, const char *name, const char *text);
/* Top-level definitions. */
int rut_p_def(struct rut_parser *p);

#endif
