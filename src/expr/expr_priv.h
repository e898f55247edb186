/* SPDX-License-Identifier: MIT */
/* What the files of the expression module share. */
#ifndef RUT_EXPR_EXPR_PRIV_H
#define RUT_EXPR_EXPR_PRIV_H

#include "expr/expr.h"
#include "expr/regex.h"

enum rut_expr_tok {
	TOK_END,
	TOK_NUM,
	TOK_STR,
	TOK_ID,	 /* identifier */
	TOK_VAR, /* $identifier */
	TOK_OP,	 /* one of the operators: lex.op */
	TOK_BAD,
};

/* Operators; the two-character ones are ('=' << 8 | '*'). */
#define OP2(a, b) ((a) << 8 | (b))

struct rut_expr_lex {
	const char *text, *end, *at;
	enum rut_expr_tok tok;
	const char *start;	 /* of the token */
	size_t len;		 /* of the token's source text */
	int op;			 /* TOK_OP */
	struct rut_expr_val num; /* TOK_NUM */
	char *str;		 /* TOK_STR: owned, taken by the parser */
	uint32_t str_len;
	struct rut_err *err;
	size_t error_column; /* 0: none yet */
};

void rut_expr_lex_init(struct rut_expr_lex *l, const char *text, size_t len, struct rut_err *err);
void rut_expr_lex_fini(struct rut_expr_lex *l);
void rut_expr_lex_next(struct rut_expr_lex *l);
/* Reports an error at `where` (the first one wins); returns -EINVAL. */
int rut_expr_lex_error(struct rut_expr_lex *l, const char *where, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#ifdef __clang_analyzer__ /* see base/err.h */
#define rut_expr_lex_error(...) rut_err_negative(rut_expr_lex_error(__VA_ARGS__))
#endif

enum rut_expr_kind {
	NODE_CONST,
	NODE_REF,
	NODE_AND,
	NODE_OR,
	NODE_NOT,
	NODE_CMP,   /* op */
	NODE_GLOB,  /* left, val: the pattern */
	NODE_REGEX, /* left, regex */
	NODE_IN,    /* left, and a chain of items through right: NODE_ITEM */
	NODE_ITEM,  /* left: a value; right: the next item */
	NODE_ARITH, /* op */
	NODE_NEG,
	NODE_BITNOT,
};

/* What a reference names within its event. */
enum rut_expr_what { REF_FIELD, REF_NAME, REF_TIME };

struct rut_expr_ref {
	uint8_t what;
	uint8_t scope;	  /* enum rut_expr_scope */
	int16_t depth;	  /* -1: the current event; 0: its period's begin; 1: the parent's... */
	uint16_t slot;	  /* set by rut_expr_link() */
	const char *path; /* owned by the expression */
};

struct rut_expr_node {
	uint8_t kind;
	uint8_t type; /* as known when checking; RUT_EXPR_NONE: any */
	bool cond;    /* gives true or false */
	uint16_t op;
	uint32_t column;
	uint32_t left, right; /* indices of nodes; 0: none */
	union {
		struct rut_expr_val val; /* string owned by the expression */
		struct rut_expr_ref ref;
		struct rut_expr_regex *regex; /* owned */
	};
};

struct rut_expr {
	struct rut_expr_node *nodes; /* owned; [0] is not used */
	uint32_t count, cap;
	uint32_t root;
	char **strings; /* owned, as are its elements */
	size_t nstrings;
	char *text; /* owned: a copy of the source */
};

struct rut_expr_slot {
	struct rut_expr_ref ref; /* path owned by the slot */
	char *path;
};

/* Comparison of two values: -1, 0, 1, or 2 when they cannot be compared. */
int rut_expr_compare(const struct rut_expr_val *a, const struct rut_expr_val *b);
bool rut_expr_relation(int op, const struct rut_expr_val *a, const struct rut_expr_val *b);
struct rut_expr_val rut_expr_arith(int op, const struct rut_expr_val *a,
				   const struct rut_expr_val *b);
bool rut_expr_truth(const struct rut_expr_val *v);

#endif
