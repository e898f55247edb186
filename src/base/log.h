/* SPDX-License-Identifier: MIT */
/*
 * Notices from library code that are not errors: something was skipped, lost or degraded.
 *
 * Libraries do not print: the message goes to the sink that the program set (src/cli prints it on
 * standard error; tests collect it). Without a sink it is dropped.
 */
#ifndef RUT_BASE_LOG_H
#define RUT_BASE_LOG_H

enum rut_log_level {
	RUT_LOG_DEBUG,
	RUT_LOG_INFO,
	RUT_LOG_WARN,
};

typedef void (*rut_log_fn)(enum rut_log_level level, const char *msg, void *arg);

/* Sets the sink of the whole process. Not thread-safe: call it first in main(). */
void rut_log_set_sink(rut_log_fn fn, void *arg);

void rut_log(enum rut_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define rut_debug(...) rut_log(RUT_LOG_DEBUG, __VA_ARGS__)
#define rut_info(...)  rut_log(RUT_LOG_INFO, __VA_ARGS__)
#define rut_warn(...)  rut_log(RUT_LOG_WARN, __VA_ARGS__)

#endif
