/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

static struct {
	rut_log_fn fn;
	void *arg;
} sink;

void rut_log_set_sink(rut_log_fn fn, void *arg)
{
	sink.fn = fn;
	sink.arg = arg;
}

void rut_log(enum rut_log_level level, const char *fmt, ...)
{
	char msg[1024];
	va_list ap;

	if (!sink.fn)
		return;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	sink.fn(level, msg, sink.arg);
}
