/* SPDX-License-Identifier: MIT */
/*
 * Errors.
 *
 * One convention everywhere: a function returns 0 or -errno. Where a user will need the reason it
 * has a last parameter `struct rut_err *err`, which may be NULL, and returns what rut_err_set()
 * returns:
 *
 *	return rut_err_set(err, ENOENT, "cannot open '%s'", path);
 *
 * A message starts in lower case, has no full stop, names the cause first, quotes its subject, and
 * says what to do where that is known. Only src/cli prints it.
 */
#ifndef RUT_BASE_ERR_H
#define RUT_BASE_ERR_H

#include <errno.h>

struct rut_err {
	int code; /* a positive errno value; 0: no error */
	char msg[512];
};

#define RUT_ERR_INIT                                                                               \
	{                                                                                          \
		0                                                                                  \
	}

/* Sets the message, replacing an earlier one. `code` is a positive errno; returns -code. */
int rut_err_set(struct rut_err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* As rut_err_set(), with ": " and strerror(code) appended. */
int rut_err_errno(struct rut_err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Puts "PREFIX: " before the message that is there: context on the way up. Returns -err->code. */
int rut_err_prefix(struct rut_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__
/* The analyzer reads one file at a time and cannot see that the result is negative. */
#define rut_err_negative(expr)                                                                     \
	({                                                                                         \
		int negative_ = (expr);                                                            \
		if (negative_ >= 0)                                                                \
			__builtin_unreachable();                                                   \
		negative_;                                                                         \
	})
#define rut_err_set(...)    rut_err_negative(rut_err_set(__VA_ARGS__))
#define rut_err_errno(...)  rut_err_negative(rut_err_errno(__VA_ARGS__))
#define rut_err_prefix(...) rut_err_negative(rut_err_prefix(__VA_ARGS__))
#endif

#endif
