/* SPDX-License-Identifier: MIT */
#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int rut_parse_u64_prefix(const char *s, uint64_t *ret, const char **ret_end)
{
	unsigned long long v;
	char *end;

	/* strtoull() would take a sign and blanks. */
	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno)
		return -ERANGE;
	*ret = v;
	*ret_end = end;
	return 0;
}

int rut_parse_u64(const char *s, uint64_t *ret)
{
	const char *end = NULL;
	uint64_t v = 0;
	int rc = rut_parse_u64_prefix(s, &v, &end);

	if (rc)
		return rc;
	if (*end)
		return -EINVAL;
	*ret = v;
	return 0;
}

int rut_parse_duration(const char *s, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {
		{"", 1e9},  {"ns", 1},	 {"us", 1e3},	{"ms", 1e6},
		{"s", 1e9}, {"m", 6e10}, {"h", 3.6e12}, {"d", 8.64e13},
	};
	char *end;
	double v;

	if (!isdigit((unsigned char)*s) && *s != '.')
		return -EINVAL;
	v = strtod(s, &end);
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strcmp(end, units[i].name) != 0)
			continue;
		v *= units[i].ns;
		if (!isfinite(v) || v < 0 || v > 9e18)
			return -EINVAL;
		*ret_ns = (uint64_t)(v + 0.5);
		return 0;
	}
	return -EINVAL;
}

int rut_parse_size(const char *s, uint64_t *ret_bytes)
{
	static const char units[] = "kmgt";
	const char *end = NULL;
	uint64_t v = 0;
	int shift = 0;

	if (rut_parse_u64_prefix(s, &v, &end))
		return -EINVAL;
	if (*end) {
		const char *u = strchr(units, tolower((unsigned char)*end));

		if (!u || (end[1] && strcmp(end + 1, "B") != 0 && strcmp(end + 1, "iB") != 0))
			return -EINVAL;
		shift = 10 * (int)(u - units + 1);
	}
	if (v > UINT64_MAX >> shift)
		return -EINVAL;
	*ret_bytes = v << shift;
	return 0;
}

int rut_parse_seconds(const char *s, int64_t *ret_ns)
{
	bool neg = *s == '-';
	int64_t v = 0, ns = 0, unit = 100000000;

	s += neg || *s == '+';
	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	for (; isdigit((unsigned char)*s); s++) {
		v = v * 10 + (*s - '0');
		if (v > 9000000000)
			return -EINVAL;
	}
	if (*s == '.')
		for (s++; isdigit((unsigned char)*s); s++, unit /= 10)
			ns += unit * (*s - '0');
	if (*s)
		return -EINVAL;
	*ret_ns = v * 1000000000 + ns;
	if (neg)
		*ret_ns = -*ret_ns;
	return 0;
}
