/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* Appends ": TEXT". */
static void append(struct rut_err *err, const char *text)
{
	size_t len = strlen(err->msg);

	snprintf(err->msg + len, sizeof(err->msg) - len, ": %s", text);
}

/* The limit that was reached, with its name and value. */
static void append_errno(struct rut_err *err, int code)
{
	struct rlimit files;
	size_t len;

	append(err, strerror(code));
	len = strlen(err->msg);
	if (code == EMFILE && getrlimit(RLIMIT_NOFILE, &files) == 0)
		snprintf(err->msg + len, sizeof(err->msg) - len, " (ulimit -n allows %llu)",
			 (unsigned long long)files.rlim_cur);
}

__attribute__((format(printf, 4, 0))) static int vset(struct rut_err *err, int code,
						      bool with_errno, const char *fmt, va_list ap)
{
	if (!err)
		return -code;
	err->code = code;
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	if (with_errno)
		append_errno(err, code);
	return -code;
}

int(rut_err_set)(struct rut_err *err, int code, const char *fmt, ...)
{
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = vset(err, code, false, fmt, ap);
	va_end(ap);
	return rc;
}

int(rut_err_errno)(struct rut_err *err, int code, const char *fmt, ...)
{
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = vset(err, code, true, fmt, ap);
	va_end(ap);
	return rc;
}

int(rut_err_prefix)(struct rut_err *err, const char *fmt, ...)
{
	char old[sizeof(err->msg)];
	va_list ap;

	if (!err)
		return -EIO;
	memcpy(old, err->msg, sizeof(old));
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	append(err, old);
	return -err->code;
}
