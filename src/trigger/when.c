/* SPDX-License-Identifier: MIT */
#include "trigger/when.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "trigger/text.h"

/* The last " > " of the text, behind which the limit stands; a filter may hold others. */
static const char *find_limit(const char *text)
{
	const char *last = NULL;

	for (const char *p = text; (p = strstr(p, " > ")); p += 3)
		last = p;
	return last;
}

/* "WHAT > TIME": the length of WHAT, or -EINVAL. */
static int parse_limit(struct rut_trigger_when *w, const char *s, size_t *ret_len)
{
	const char *limit = find_limit(s);

	if (!limit || rut_trigger_duration(
			      limit + 3, rut_trigger_trimmed(limit + 3, strlen(limit + 3)), &w->ns))
		return -EINVAL;
	*ret_len = rut_trigger_trimmed(s, (size_t)(limit - s));
	return 0;
}

/* "NAMES [if FILTER]" */
static int parse_events(struct rut_trigger_when *w, const char *s, size_t len, struct rut_err *err)
{
	size_t names = 0;
	int rc;

	while (names + 4 <= len && memcmp(s + names, " if ", 4) != 0)
		names++;
	if (names + 4 > len)
		names = len;
	if (!rut_trigger_trimmed(s, names) || !strncmp(s, "if ", 3))
		return rut_err_set(err, EINVAL,
				   "which events? For example "
				   "'event sched_process_exit if comm == \"ruby\"'");
	rc = rut_trigger_copy(w->events, sizeof(w->events), s, rut_trigger_trimmed(s, names), err);
	if (rc || names == len)
		return rc;
	s += names + 4;
	len = rut_trigger_trimmed(s, len - names - 4);
	if (!len)
		return rut_err_set(err, EINVAL, "no filter follows 'if'");
	return rut_trigger_copy(w->filter, sizeof(w->filter), s, len, err);
}

static int parse_fired(struct rut_trigger_when *w, const char *s, struct rut_err *err)
{
	return *s ? rut_err_set(err, EINVAL, "'fired' stands alone, not before '%s'", s) : 0;
}

static int parse_event(struct rut_trigger_when *w, const char *s, struct rut_err *err)
{
	return parse_events(w, s, strlen(s), err);
}

static int parse_rate(struct rut_trigger_when *w, const char *s, struct rut_err *err)
{
	const char *limit = find_limit(s), *per;

	if (!limit)
		return rut_err_set(err, EINVAL,
				   "a rate needs its limit: "
				   "'rate EVENTS [if FILTER] > N per TIME'");
	if (rut_parse_u64_prefix(limit + 3, &w->count, &per) || strncmp(per, " per ", 5) != 0 ||
	    rut_trigger_duration(per + 5, rut_trigger_trimmed(per + 5, strlen(per + 5)), &w->ns))
		return rut_err_set(err, EINVAL, "invalid rate '%s': write '> 100 per 1s'",
				   limit + 1);
	return parse_events(w, s, (size_t)(limit - s), err);
}

/* "WHAT > TIME [pN per TIME]" */
static int parse_percentile(struct rut_trigger_when *w, const char *s, size_t *ret_len)
{
	const char *limit = find_limit(s), *p = limit ? strstr(limit + 3, " p") : NULL;
	_cleanup_free_ char *before = p ? strndup(s, (size_t)(p - s)) : NULL;
	char *per;

	if (!p)
		return parse_limit(w, s, ret_len);
	w->percent = strtod(p + 2, &per);
	if (!isdigit((unsigned char)p[2]) || !(w->percent >= 1 && w->percent < 100) ||
	    strncmp(per, " per ", 5) != 0 ||
	    rut_trigger_duration(per + 5, rut_trigger_trimmed(per + 5, strlen(per + 5)),
				 &w->window_ns))
		return -EINVAL;
	return before ? parse_limit(w, before, ret_len) : -ENOMEM;
}

static int parse_slow(struct rut_trigger_when *w, const char *s, struct rut_err *err)
{
	size_t len;

	if (parse_percentile(w, s, &len) || !len)
		return rut_err_set(
			err, EINVAL,
			"a slow system call needs its limit: "
			"'slow openat,fsync > 100ms', or 'slow fsync > 20ms p99 per 1m'");
	return rut_trigger_copy(w->events, sizeof(w->events), s, len, err);
}

static int parse_request(struct rut_trigger_when *w, const char *s, struct rut_err *err)
{
	size_t len;

	if (parse_percentile(w, s, &len) || !len)
		return rut_err_set(err, EINVAL,
				   "which processes, and what limit? For example "
				   "'request puma > 2s', or 'request puma > 500ms p95 per 1m'");
	return rut_trigger_copy(w->events, sizeof(w->events), s, len, err);
}

/* "FILE [NAME]" or a definition, which has colons */
static int parse_period(struct rut_trigger_when *w, const char *s, struct rut_err *err)
{
	size_t len, file = strcspn(s, " \t"), name;
	int rc;

	if (parse_percentile(w, s, &len) || !len)
		return rut_err_set(err, EINVAL,
				   "which period, and what limit? For example "
				   "'period apache request > 1s'");
	if (memchr(s, ':', len) || file >= len)
		return rut_trigger_copy(w->events, sizeof(w->events), s, len, err);
	name = file + strspn(s + file, " \t");
	rc = rut_trigger_copy(w->events, sizeof(w->events), s, file, err);
	return rc ? rc : rut_trigger_copy(w->filter, sizeof(w->filter), s + name, len - name, err);
}

static int parse_method(struct rut_trigger_when *w, const char *s, struct rut_err *err)
{
	size_t len, target = strcspn(s, " \t");
	size_t name = target + strspn(s + target, " \t");
	int rc = parse_limit(w, s, &len);

	if (rc || !target || name >= len)
		return rut_err_set(err, EINVAL,
				   "a method of which process, and what limit? For example "
				   "'method puma Order#total > 500ms'");
	rc = rut_trigger_copy(w->events, sizeof(w->events), s, target, err);
	return rc ? rc : rut_trigger_copy(w->filter, sizeof(w->filter), s + name, len - name, err);
}

static int parse_gvl(struct rut_trigger_when *w, const char *s, struct rut_err *err)
{
	size_t len;

	if (parse_limit(w, s, &len) || !len)
		return rut_err_set(err, EINVAL,
				   "the lock of which processes, and what limit? For example "
				   "'gvl puma > 50ms'");
	return rut_trigger_copy(w->events, sizeof(w->events), s, len, err);
}

static int parse_runqueue(struct rut_trigger_when *w, const char *s, struct rut_err *err)
{
	if (s[0] != '>' ||
	    rut_trigger_duration(s + 1 + strspn(s + 1, " \t"),
				 rut_trigger_trimmed(s + 1, strlen(s + 1)) - strspn(s + 1, " \t"),
				 &w->ns))
		return rut_err_set(err, EINVAL, "invalid limit '%s': write 'runqueue > 50ms'", s);
	return 0;
}

static int parse_every(struct rut_trigger_when *w, const char *s, struct rut_err *err)
{
	if (rut_trigger_duration(s, rut_trigger_trimmed(s, strlen(s)), &w->ns) || w->ns < 1000000)
		return rut_err_set(err, EINVAL,
				   "invalid interval '%s': write 'every 10m', 1ms at least", s);
	return 0;
}

/* "HH:MM": the minute of the day, or -1. */
static int minute_of(const char *s, const char **ret_end)
{
	int h, m, n = 0;

	if (!isdigit((unsigned char)s[0]) || sscanf(s, "%2d:%2d%n", &h, &m, &n) != 2 || n < 4 ||
	    s[n - 3] != ':' || h > 23 || m < 0 || m > 59)
		return -1;
	*ret_end = s + n;
	return h * 60 + m;
}

static int parse_at(struct rut_trigger_when *w, const char *s, struct rut_err *err)
{
	size_t len = rut_trigger_trimmed(s, strlen(s));
	int rc = rut_trigger_copy(w->events, sizeof(w->events), s, len, err);
	const char *p = w->events;

	while (!rc && minute_of(p, &p) >= 0 && *p == ',')
		p++;
	if (!rc && (p == w->events || *p || p[-1] == ','))
		rc = rut_err_set(err, EINVAL, "invalid time '%s': write 'at 03:00,15:30'", s);
	return rc;
}

int64_t rut_trigger_next_at(const struct rut_trigger_when *w, int64_t now)
{
	const char *p = w->events;
	int64_t best = 0;

	for (int minute; (minute = minute_of(p, &p)) >= 0; p += *p == ',')
		for (int day = 0; day < 2; day++) {
			time_t t = (time_t)now;
			struct tm tm;

			localtime_r(&t, &tm);
			tm.tm_mday += day;
			tm.tm_hour = minute / 60;
			tm.tm_min = minute % 60;
			tm.tm_sec = 0;
			tm.tm_isdst = -1;
			t = mktime(&tm);
			if ((int64_t)t > now && (!best || (int64_t)t < best))
				best = (int64_t)t;
		}
	return best;
}

/* A glob that stands between quotation marks in a script. */
static int parse_killed(struct rut_trigger_when *w, const char *s, struct rut_err *err)
{
	size_t len = rut_trigger_trimmed(s, strlen(s));

	if (strcspn(s, " \t\"\\") < len)
		return rut_err_set(err, EINVAL,
				   "invalid name '%s': one name of a process or a glob, without "
				   "blanks, '\"' and '\\'",
				   s);
	return rut_trigger_copy(w->events, sizeof(w->events), len ? s : "*", len ? len : 1, err);
}

static int parse_script(struct rut_trigger_when *w, const char *s, struct rut_err *err)
{
	if (!*s)
		return rut_err_set(err, EINVAL,
				   "which script? A file, the name of one that is installed, or "
				   "a program");
	return rut_trigger_copy(w->events, sizeof(w->events), s, rut_trigger_trimmed(s, strlen(s)),
				err);
}

/* "FILE matches REGEX [> NUMBER]" */
static int parse_log(struct rut_trigger_when *w, const char *s, struct rut_err *err)
{
	const char *matches = strstr(s, " matches "), *regex, *limit;
	size_t len;
	char *end;
	int rc;

	if (!matches || matches == s || !matches[strlen(" matches ")])
		return rut_err_set(err, EINVAL,
				   "which lines of which file? For example "
				   "'log /var/log/nginx/access.log matches rt=([0-9.]+) > 0.5'");
	regex = matches + strlen(" matches ");
	limit = find_limit(regex);
	len = rut_trigger_trimmed(regex, strlen(regex));
	if (limit) {
		w->limit = strtod(limit + 3, &end);
		w->has_limit = end > limit + 3 && !end[strspn(end, " \t")] && isfinite(w->limit);
		len = w->has_limit ? rut_trigger_trimmed(regex, (size_t)(limit - regex)) : len;
	}
	rc = rut_trigger_copy(w->events, sizeof(w->events), s,
			      rut_trigger_trimmed(s, (size_t)(matches - s)), err);
	return rc ? rc : rut_trigger_copy(w->filter, sizeof(w->filter), regex, len, err);
}

int rut_trigger_parse_when(struct rut_trigger_when *w, const char *text, struct rut_err *err)
{
	static const struct {
		const char *word;
		enum rut_trigger_kind kind;
		int (*parse)(struct rut_trigger_when *w, const char *s, struct rut_err *err);
	} known[] = {
		{"fired", RUT_TRIGGER_FIRED, parse_fired},
		{"event", RUT_TRIGGER_EVENT, parse_event},
		{"rate", RUT_TRIGGER_RATE, parse_rate},
		{"slow", RUT_TRIGGER_SLOW, parse_slow},
		{"request", RUT_TRIGGER_REQUEST, parse_request},
		{"method", RUT_TRIGGER_METHOD, parse_method},
		{"runqueue", RUT_TRIGGER_RUNQUEUE, parse_runqueue},
		{"killed", RUT_TRIGGER_KILLED, parse_killed},
		{"script", RUT_TRIGGER_SCRIPT, parse_script},
		{"log", RUT_TRIGGER_LOG, parse_log},
		{"every", RUT_TRIGGER_EVERY, parse_every},
		{"period", RUT_TRIGGER_PERIOD, parse_period},
		{"at", RUT_TRIGGER_AT, parse_at},
		{"gvl", RUT_TRIGGER_GVL, parse_gvl},
	};
	size_t word = strcspn(text, " \t");
	const char *rest = text + word + strspn(text + word, " \t");

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (strlen(known[i].word) != word || memcmp(text, known[i].word, word) != 0)
			continue;
		*w = (struct rut_trigger_when){.kind = known[i].kind};
		return known[i].parse(w, rest, err);
	}
	return rut_err_set(err, EINVAL,
			   "'%.40s' does not begin with fired, event, rate, slow, period, request, "
			   "method, gvl, runqueue, killed, script, log, every or at",
			   text);
}
