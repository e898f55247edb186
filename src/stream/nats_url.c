/* SPDX-License-Identifier: MIT */
#include "stream/nats_url.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static const char *const schemes[] = {"nats://", "natss://", "tls://"};

/* The length of the scheme; 0: it is none of these. */
static size_t scheme(const char *text)
{
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (!strncmp(text, schemes[i], strlen(schemes[i])))
			return strlen(schemes[i]);
	return 0;
}

bool rut_nats_url_is(const char *text)
{
	return scheme(text) > 0;
}

/* One HOST[:PORT] or [ADDRESS][:PORT] of `len` bytes. */
static bool add_server(struct rut_nats_url *u, const char *text, size_t len)
{
	const char *end = text + len, *p = memchr(text, *text == '[' ? ']' : ':', len);
	unsigned long port = RUT_NATS_PORT;
	size_t host;

	if (!p && *text == '[')
		return false;
	p = !p ? end : *text == '[' ? p + 1 : p;
	host = (size_t)(p - text);
	if (!host || host > 255 || u->n_servers == RUT_NATS_SERVERS || (*text == '[' && host < 4))
		return false;
	if (p < end) {
		char *after;

		if (*p != ':' || p + 1 == end || !isdigit((unsigned char)p[1]))
			return false;
		port = strtoul(p + 1, &after, 10);
		if (after != end || !port || port > 65535)
			return false;
	}
	for (p = text; p < text + host; p++)
		if (!isalnum((unsigned char)*p) && !strchr(".-_:[]%", *p))
			return false;
	snprintf(u->servers[u->n_servers++], sizeof(u->servers[0]), "%s%.*s:%lu",
		 u->tls ? "tls://" : "nats://", (int)host, text, port);
	return true;
}

/* Names of streams have no dots, blanks or wildcards. */
static bool set_stream(struct rut_nats_url *u, const char *text)
{
	for (const char *p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_')
			return false;
	return (size_t)snprintf(u->stream, sizeof(u->stream), "%s", text) < sizeof(u->stream);
}

int rut_nats_url_parse(const char *text, struct rut_nats_url *ret, struct rut_err *err)
{
	const char *p = text + scheme(text);

	*ret = (struct rut_nats_url){.tls = scheme(text) && strncmp(text, "nats:", 5) != 0};
	if (p == text)
		return rut_err_set(err, EINVAL, "invalid address '%s': nats://HOST[:PORT]/STREAM",
				   text);
	for (;;) {
		size_t len = strcspn(p, ",/");

		if (!add_server(ret, p, len))
			return rut_err_set(err, EINVAL, "invalid server '%.*s' in '%s'", (int)len,
					   p, text);
		p += len;
		if (*p != ',')
			break;
		p++;
	}
	p += *p == '/';
	return set_stream(ret, p)
		       ? 0
		       : rut_err_set(err, EINVAL, "invalid stream name '%s' in '%s'", p, text);
}
