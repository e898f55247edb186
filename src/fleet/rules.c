/* SPDX-License-Identifier: MIT */
#include "fleet/rules.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "fleet/wire.h"

#define FILE_MAX   65536
#define TIMEOUT_NS 60000000000ull

static const char *const verbs[] = {"ps",   "status",	"list",	  "start",
				    "stop", "snapshot", "report", "requests"};

bool rut_fleet_is_verb(const char *verb)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i], verb))
			return true;
	return false;
}

/* ---- the file ---- */

/* Cuts white space off both ends. */
static char *trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r");
	for (n = strlen(s); n && strchr(" \t\r", s[n - 1]); n--)
		;
	s[n] = '\0';
	return s;
}

/* The words of a line with one blank between them, each at most once its own copy. */
static char *join_words(char *value, size_t *ret_n)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char *state;

	*ret_n = 0;
	for (char *w = strtok_r(value, " \t", &state); w; w = strtok_r(NULL, " \t", &state)) {
		rut_buf_printf(&b, "%s%s", b.len ? " " : "", w);
		++*ret_n;
	}
	return b.failed || !b.len ? NULL : rut_buf_take(&b);
}

static int add_allow(struct rut_fleet_rules *r, char *value, struct rut_err *err)
{
	char verb[32];
	size_t n;

	if (r->n_allow == RUT_FLEET_RULES)
		return rut_err_set(err, EINVAL, "more than %d lines 'allow'", RUT_FLEET_RULES);
	snprintf(verb, sizeof(verb), "%.*s", (int)strcspn(value, " \t"), value);
	if (!rut_fleet_is_verb(verb))
		return rut_err_set(err, EINVAL,
				   "'%s' cannot be allowed: ps, status, list, start, stop, "
				   "snapshot, report or requests",
				   verb);
	r->allow[r->n_allow] = join_words(value, &n);
	if (!r->allow[r->n_allow])
		return rut_err_set(err, ENOMEM, "out of memory");
	r->n_allow++;
	if (n > RUT_FLEET_WORDS)
		return rut_err_set(err, EINVAL, "more than %d words", RUT_FLEET_WORDS);
	return 0;
}

static int set(struct rut_fleet_rules *r, const char *key, char *value, struct rut_err *err)
{
	struct rut_nats_url url;

	if (!*value)
		return rut_err_set(err, EINVAL, "'%s' has no value", key);
	if (!strcmp(key, "allow"))
		return add_allow(r, value, err);
	if (!strcmp(key, "server")) {
		int rc = rut_nats_url_parse(value, &url, err);

		if (!rc && (size_t)snprintf(r->server, sizeof(r->server), "%s", value) >=
				   sizeof(r->server))
			rc = rut_err_set(err, EINVAL, "the address is too long");
		return rc;
	}
	if (!strcmp(key, "tls"))
		return (size_t)snprintf(r->tls, sizeof(r->tls), "%s", value) < sizeof(r->tls)
			       ? 0
			       : rut_err_set(err, EINVAL, "the directory's name is too long");
	if (!strcmp(key, "timeout"))
		return rut_parse_duration(value, &r->timeout_ns) < 0 || !r->timeout_ns
			       ? rut_err_set(err, EINVAL, "invalid time '%s'", value)
			       : 0;
	return rut_err_set(err, EINVAL, "unknown key '%s': server, tls, timeout or allow", key);
}

int rut_fleet_rules_parse(struct rut_fleet_rules *r, const char *name, const char *text,
			  struct rut_err *err)
{
	_cleanup_free_ char *copy = strdup(text);
	unsigned int line = 0;
	char *next = copy;

	*r = (struct rut_fleet_rules){.timeout_ns = TIMEOUT_NS};
	if (!copy)
		return rut_err_set(err, ENOMEM, "out of memory");
	while (next) {
		char *p = trim(strsep(&next, "\n")), *equals = strchr(p, '=');
		int rc;

		line++;
		if (!*p || *p == '#')
			continue;
		if (!equals)
			rc = rut_err_set(err, EINVAL, "expected KEY = VALUE");
		else
			*equals = '\0';
		if (equals)
			rc = set(r, trim(p), trim(equals + 1), err);
		if (rc) {
			rut_fleet_rules_fini(r);
			return rut_err_prefix(err, "%s, line %u", name, line);
		}
	}
	return 0;
}

int rut_fleet_rules_read(struct rut_fleet_rules *r, const char *path, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	struct stat st;
	int rc;

	*r = (struct rut_fleet_rules){0};
	if (stat(path, &st) < 0)
		return rut_err_errno(err, errno, "cannot read '%s'", path);
	if (st.st_uid && st.st_uid != geteuid())
		return rut_err_set(err, EPERM, "'%s' belongs to another user: chown root it", path);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return rut_err_set(err, EPERM, "others may write to '%s': chmod 644 it", path);
	rc = rut_buf_read_file(&b, path, FILE_MAX);
	if (rc || b.failed)
		return rut_err_errno(err, rc ? -rc : ENOMEM, "cannot read '%s'", path);
	if (b.len && memchr(b.data, '\0', b.len))
		return rut_err_set(err, EINVAL, "'%s' is no text", path);
	return rut_fleet_rules_parse(r, path, b.len ? b.data : "", err);
}

void rut_fleet_rules_fini(struct rut_fleet_rules *r)
{
	for (size_t i = 0; i < r->n_allow; i++)
		free(r->allow[i]);
	r->n_allow = 0;
}

/* ---- matching ---- */

static bool match_word(const char *pattern, const char *word)
{
	if (*word == '-' && *pattern != '-')
		return false;
	return !fnmatch(pattern, word, FNM_PATHNAME | FNM_PERIOD | FNM_NOESCAPE);
}

static bool match(const char *rule, char *const *words, size_t n)
{
	size_t i = 0;

	while (*rule) {
		size_t len = strcspn(rule, " ");
		char pattern[RUT_FLEET_BYTES];

		if (!strcmp(rule, "**")) {
			while (i < n && match_word("*", words[i]))
				i++;
			return i == n;
		}
		if (i == n || len >= sizeof(pattern))
			return false;
		memcpy(pattern, rule, len);
		pattern[len] = '\0';
		if (!match_word(pattern, words[i++]))
			return false;
		rule += len + (rule[len] == ' ');
	}
	return i == n;
}

bool rut_fleet_rules_allow(const struct rut_fleet_rules *r, char *const *words, size_t n)
{
	if (!n || !rut_fleet_is_verb(words[0]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(words[i], "--"))
			return false; /* what follows could be a program */
	for (size_t i = 0; i < r->n_allow; i++)
		if (match(r->allow[i], words, n))
			return true;
	return false;
}
