/* SPDX-License-Identifier: MIT */
#include "ctf/when.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

/* Reads 1 to `max` digits. Returns false when there is none. */
static bool number(const char **s, unsigned int max, int64_t *ret, unsigned int *ret_digits)
{
	unsigned int n = 0;

	*ret = 0;
	for (; n < max && isdigit((unsigned char)**s); n++)
		*ret = *ret * 10 + (*(*s)++ - '0');
	if (ret_digits)
		*ret_digits = n;
	return n > 0;
}

/* ".123" as nanoseconds. Nothing at all is 0. */
static bool fraction(const char **s, int64_t *ret_ns)
{
	unsigned int digits;

	*ret_ns = 0;
	if (**s != '.')
		return true;
	(*s)++;
	if (!number(s, 9, ret_ns, &digits))
		return false;
	for (; digits < 9; digits++)
		*ret_ns *= 10;
	return true;
}

static bool clock_time(const char **s, struct tm *tm)
{
	int64_t h, m, sec;

	if (!number(s, 2, &h, NULL) || *(*s)++ != ':' || !number(s, 2, &m, NULL) ||
	    *(*s)++ != ':' || !number(s, 2, &sec, NULL) || h > 23 || m > 59 || sec > 60)
		return false;
	tm->tm_hour = (int)h;
	tm->tm_min = (int)m;
	tm->tm_sec = (int)sec;
	return true;
}

static bool date(const char **s, struct tm *tm)
{
	int64_t y, m, d;

	if (!number(s, 4, &y, NULL) || *(*s)++ != '-' || !number(s, 2, &m, NULL) ||
	    *(*s)++ != '-' || !number(s, 2, &d, NULL) || m < 1 || m > 12 || d < 1 || d > 31)
		return false;
	tm->tm_year = (int)y - 1900;
	tm->tm_mon = (int)m - 1;
	tm->tm_mday = (int)d;
	return true;
}

bool rut_ctf_when_needs_day(const char *s)
{
	return strchr(s, ':') && !strchr(s + (*s != '\0'), '-');
}

static bool plain(const char *s, int64_t *ret_ns)
{
	bool neg = *s == '-';
	unsigned int digits;
	int64_t v, ns;

	s += neg;
	if (!number(&s, 18 + (*s == '1'), &v, &digits))
		return false;
	if (digits >= 16 && !*s) {
		*ret_ns = neg ? -v : v;
		return true;
	}
	if (!fraction(&s, &ns) || *s || v > 9000000000)
		return false;
	*ret_ns = v * 1000000000 + ns;
	if (neg)
		*ret_ns = -*ret_ns;
	return true;
}

int rut_ctf_parse_when(const char *text, bool gmt, int64_t day_ns, int64_t *ret_ns,
		       struct rut_err *err)
{
	time_t day = (time_t)(day_ns / 1000000000), when;
	const char *s = text;
	struct tm tm = {0};
	int64_t ns;

	if (!strchr(s, ':')) {
		if (plain(s, ret_ns))
			return 0;
		goto bad;
	}
	if (rut_ctf_when_needs_day(s)) {
		if (!(gmt ? gmtime_r(&day, &tm) : localtime_r(&day, &tm)))
			goto bad;
	} else if (!date(&s, &tm) || (*s != ' ' && *s != 'T') || !s++) {
		goto bad;
	}
	if (!clock_time(&s, &tm) || !fraction(&s, &ns) || *s)
		goto bad;
	tm.tm_isdst = -1;
	when = gmt ? timegm(&tm) : mktime(&tm);
	*ret_ns = (int64_t)when * 1000000000 + ns;
	return 0;
bad:
	return rut_err_set(
		err, EINVAL,
		"invalid time '%s': [YYYY-MM-DD ]HH:MM:SS[.NS], seconds since the epoch, "
		"or nanoseconds of 16 digits or more",
		text);
}
