/* SPDX-License-Identifier: MIT */
/* Between tsdl.c (blocks) and tsdl_type.c (types). */
#ifndef RUT_CTF_TSDL_H
#define RUT_CTF_TSDL_H

#include "ctf/meta.h"
#include "ctf/tsdl_lex.h"

enum rut_tsdl_space {
	RUT_TSDL_TYPE, /* typedef and typealias */
	RUT_TSDL_STRUCT,
	RUT_TSDL_VARIANT,
	RUT_TSDL_ENUM,
};

struct rut_tsdl_symbol {
	struct rut_tsdl_symbol *next; /* in the bucket; newest first */
	enum rut_tsdl_space space;
	unsigned int scope;
	const char *name;
	const struct rut_ctf_type *type;
};

enum { RUT_TSDL_BUCKETS = 1024 };

struct rut_tsdl {
	struct rut_meta *m;
	struct rut_err *err;
	struct rut_tsdl_lexer lex;
	struct rut_tsdl_token t; /* the next one */
	bool native_be;
	unsigned int depth; /* of types within types */
	/* Scopes: the number of each open one; names of closed ones are never found again. */
	unsigned int scopes[2 * RUT_META_MAX_DEPTH + 4];
	unsigned int n_scopes, last_scope;
	struct rut_tsdl_symbol *buckets[RUT_TSDL_BUCKETS];
};

/* All return 0 or -errno with the message set. */
int rut_tsdl_error(struct rut_tsdl *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int rut_tsdl_nomem(struct rut_tsdl *p);
#ifdef __clang_analyzer__ /* see base/err.h */
#define rut_tsdl_error(...) rut_err_negative(rut_tsdl_error(__VA_ARGS__))
#define rut_tsdl_nomem(p)   rut_err_negative(rut_tsdl_nomem(p))
#endif
void rut_tsdl_next(struct rut_tsdl *p);
bool rut_tsdl_at(const struct rut_tsdl *p, char c);
int rut_tsdl_expect(struct rut_tsdl *p, char c);
/* A string's text with its escapes replaced, in the arena. */
const char *rut_tsdl_unquote(struct rut_tsdl *p, const struct rut_tsdl_token *t);
/* A number with an optional sign, as 64 bits; *ret_negative says which. */
int rut_tsdl_number(struct rut_tsdl *p, uint64_t *ret, bool *ret_negative);

void rut_tsdl_push_scope(struct rut_tsdl *p);
void rut_tsdl_pop_scope(struct rut_tsdl *p);

/* Whether a declaration of names starts here (typedef, typealias, or struct/variant/enum). */
bool rut_tsdl_at_declaration(const struct rut_tsdl *p);
/* Reads such a declaration up to and with its ';'. */
int rut_tsdl_declaration(struct rut_tsdl *p);
/* Reads a type without a name, as after ':='. */
int rut_tsdl_type(struct rut_tsdl *p, struct rut_ctf_type **ret);

#endif
