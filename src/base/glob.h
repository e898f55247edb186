/* SPDX-License-Identifier: MIT */
/* Patterns as of the shell, for texts that fnmatch() cannot take: with a length, in the agent, in
 * hooks. */
#ifndef RUT_BASE_GLOB_H
#define RUT_BASE_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum rut_glob_dialect {
	RUT_GLOB_SHELL, /* as fnmatch() without flags: '*', '?', [a-z], [!a-z], [^a-z], '\\x' for x
			 */
	RUT_GLOB_EXPR,	/* as Python's fnmatchcase(), for lttng-analyses: no '\\', no [^ */
};

/* Does the pattern match all of the text? Takes at most pattern_len * len steps; no memory. */
bool rut_glob(const char *pattern, size_t pattern_len, const char *text, size_t len,
	      enum rut_glob_dialect dialect);

/* The shell's, of two strings. */
static inline bool rut_glob_string(const char *pattern, const char *text)
{
	return rut_glob(pattern, strlen(pattern), text, strlen(text), RUT_GLOB_SHELL);
}

#endif
