/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Appends ": TEXT". */
static void append(struct rut_err *err, const char *text)
{
	size_t len = strlen(err->msg);

	snprintf(err->msg + len, sizeof(err->msg) - len, ": %s", text);
}

int(rut_err_set)(struct rut_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return -code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return -code;
}

int(rut_err_errno)(struct rut_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return -code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	append(err, strerror(code));
	return -code;
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
