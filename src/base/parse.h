/* SPDX-License-Identifier: MIT */
/* Numbers, durations and sizes as people write them. Each function takes the whole string. */
#ifndef RUT_BASE_PARSE_H
#define RUT_BASE_PARSE_H

#include <stdint.h>

/* A decimal number without a sign. Returns 0, -EINVAL or -ERANGE. */
int rut_parse_u64(const char *s, uint64_t *ret);

/* The same at the beginning of a string; *ret_end points to what follows. */
int rut_parse_u64_prefix(const char *s, uint64_t *ret, const char **ret_end);

/*
 * "10ms", "5m", "1.5s", "2h", "250us", "7ns", "1d"; without a unit: seconds. Rounded to
 * nanoseconds; at most 9e18. Returns 0 or -EINVAL.
 */
int rut_parse_duration(const char *s, uint64_t *ret_ns);

/* "10M", "4k", "1G", "1GiB", "2tB" (powers of 1024) or bytes. Returns 0 or -EINVAL. */
int rut_parse_size(const char *s, uint64_t *ret_bytes);

/* Seconds with a sign and decimals: "-3600", "0.25". Exact. Returns 0 or -EINVAL. */
int rut_parse_seconds(const char *s, int64_t *ret_ns);

#endif
