/* SPDX-License-Identifier: MIT */
/*
 * Regular expressions that run in time proportional to pattern times text, without allocating.
 *
 * The C library's regexec() allocates, and backtracking engines can be made to run forever by a
 * pattern that a user pastes; this one compiles to a small non-deterministic automaton whose
 * states are all followed at once. Bytes, not characters. Understood: . [a-z] [^a-z] \d \w \s
 * \D \W \S ^ $ * + ? {m} {m,} {m,n} | ( ); a backslash makes any other byte literal.
 */
#ifndef RUT_EXPR_REGEX_H
#define RUT_EXPR_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rut_expr_regex;

/*
 * Compiles `len` bytes. Returns 0, -EINVAL (*ret_at is the offset of the fault and *ret_why a
 * sentence), -E2BIG or -ENOMEM.
 */
int rut_expr_regex_new(const char *pattern, size_t len, struct rut_expr_regex **ret, size_t *ret_at,
		       const char **ret_why);
void rut_expr_regex_free(struct rut_expr_regex *r);
const char *rut_expr_regex_text(const struct rut_expr_regex *r);

/* Does it match anywhere in the text? */
bool rut_expr_regex_search(const struct rut_expr_regex *r, const char *text, size_t len);

/* States of a table: nothing can match any more; it has matched. */
enum { RUT_EXPR_DFA_NONE, RUT_EXPR_DFA_MATCH, RUT_EXPR_DFA_START, RUT_EXPR_DFA_MAX = 250 };

/*
 * The same as a table: from a state and a byte the next state, from RUT_EXPR_DFA_START on. The byte
 * 0 ends a text: it leads to NONE or MATCH. *ret is the caller's to free(). 0, -ENOMEM, or -E2BIG:
 * more than RUT_EXPR_DFA_MAX states.
 */
int rut_expr_regex_table(const struct rut_expr_regex *r, uint8_t (**ret)[256], size_t *ret_states);

#endif
