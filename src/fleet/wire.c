/* SPDX-License-Identifier: MIT */
#include "fleet/wire.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "stream/nats_wire.h"
#include "stream/wire.h"

#define REQUEST "rutile-fleet 1" /* with its NUL */
#define ANSWER	0x52464c32u	 /* RFL2 */
#define COUNTS	8		 /* bytes of n_out and n_err */
#define INBOX	"_INBOX."

int rut_fleet_request_put(struct rut_buf *b, const char *hosts, char *const *words, size_t n)
{
	const size_t before = b->len;

	rut_buf_add(b, REQUEST, sizeof(REQUEST));
	rut_buf_add(b, hosts, strlen(hosts) + 1);
	for (size_t i = 0; i < n; i++)
		rut_buf_add(b, words[i], strlen(words[i]) + 1);
	if (b->failed)
		return -ENOMEM;
	return n > RUT_FLEET_WORDS || b->len - before > RUT_FLEET_BYTES ? -E2BIG : 0;
}

int rut_fleet_request_get(const void *data, size_t len, struct rut_fleet_request *ret)
{
	char *p = ret->text, *end = ret->text + len;

	if (len <= sizeof(REQUEST) || len > sizeof(ret->text) ||
	    memcmp(data, REQUEST, sizeof(REQUEST)) != 0 || ((const char *)data)[len - 1])
		return -EBADMSG;
	memcpy(ret->text, data, len);
	p += sizeof(REQUEST);
	ret->hosts = p;
	ret->n_words = 0;
	for (p += strlen(p) + 1; p < end; p += strlen(p) + 1) {
		if (ret->n_words == RUT_FLEET_WORDS)
			return -EBADMSG;
		ret->words[ret->n_words++] = p;
	}
	ret->words[ret->n_words] = NULL;
	return ret->n_words ? 0 : -EBADMSG;
}

size_t rut_fleet_answer_head(const char *host)
{
	return 12 + strlen(host) + 1;
}

void rut_fleet_answer_put(struct rut_buf *b, const struct rut_fleet_answer *a)
{
	rut_be32_put(b, ANSWER);
	rut_be32_put(b, a->kind);
	rut_be32_put(b, a->number);
	rut_buf_add(b, a->host, strlen(a->host) + 1);
	if (a->kind == RUT_FLEET_EXIT) {
		rut_be32_put(b, a->n_out);
		rut_be32_put(b, a->n_err);
	} else if (a->len)
		rut_buf_add(b, a->data, a->len);
}

int rut_fleet_answer_get(const void *data, size_t len, struct rut_fleet_answer *ret)
{
	const char *host = (const char *)data + 12, *end = (const char *)data + len;
	const char *nul = len > 12 ? memchr(host, '\0', len - 12) : NULL;
	uint32_t kind;

	if (!nul || rut_be32_at(data, 0) != ANSWER || nul == host ||
	    (size_t)(nul - host) >= sizeof(ret->host))
		return -EBADMSG;
	kind = rut_be32_at(data, 4);
	if (kind < RUT_FLEET_ACCEPTED || kind > RUT_FLEET_EXIT ||
	    (kind == RUT_FLEET_EXIT && end - nul - 1 != COUNTS))
		return -EBADMSG;
	/* It is printed. */
	for (const char *p = host; p < nul; p++)
		if (!isgraph((unsigned char)*p))
			return -EBADMSG;
	*ret = (struct rut_fleet_answer){.kind = (uint8_t)kind,
					 .number = rut_be32_at(data, 8),
					 .data = nul + 1,
					 .len = (size_t)(end - nul - 1)};
	memcpy(ret->host, host, (size_t)(nul - host));
	if (kind == RUT_FLEET_EXIT) {
		ret->n_out = rut_be32_at(ret->data, 0);
		ret->n_err = rut_be32_at(ret->data, 4);
	}
	return 0;
}

bool rut_fleet_is_reply(const char *subject)
{
	size_t id;

	if (strncmp(subject, INBOX, strlen(INBOX)) != 0)
		return false;
	subject += strlen(INBOX);
	id = strcspn(subject, ".*>");
	return id && !strcmp(subject + id, RUT_FLEET_REPLY);
}

void rut_fleet_subject_put(struct rut_buf *b, const char *reply, const char *host)
{
	rut_buf_puts(b, reply);
	rut_nats_token_put(b, host);
}

void rut_fleet_each_host(const char *hosts, void (*fn)(void *arg, const char *host, bool glob),
			 void *arg)
{
	while (*hosts) {
		size_t len = strcspn(hosts, ",");
		char name[RUT_FLEET_NAME];

		if (len && len < sizeof(name)) {
			memcpy(name, hosts, len);
			name[len] = '\0';
			fn(arg, name, strpbrk(name, "*?[") != NULL);
		}
		hosts += len + (hosts[len] == ',');
	}
}

struct search {
	const char *host;
	bool found;
};

static void compare(void *arg, const char *pattern, bool glob)
{
	struct search *s = arg;

	s->found |= glob ? !fnmatch(pattern, s->host, 0) : !strcmp(pattern, s->host);
}

bool rut_fleet_is_among(const char *hosts, const char *host)
{
	struct search s = {.host = host};

	rut_fleet_each_host(hosts, compare, &s);
	return s.found;
}

void rut_fleet_key_put(struct rut_buf *b, const char *host)
{
	for (const unsigned char *p = (const void *)host; *p; p++)
		if (isalnum(*p) || *p == '_' || *p == '-')
			rut_buf_putc(b, (char)*p);
		else
			rut_buf_printf(b, "=%02X", *p);
}

bool rut_fleet_key_get(const char *key, char *ret, size_t size)
{
	size_t n = 0;

	for (; *key; key++) {
		unsigned int c = (unsigned char)*key;

		if (c == '=') {
			if (!isxdigit((unsigned char)key[1]) || sscanf(key + 1, "%2x", &c) != 1 ||
			    !isxdigit((unsigned char)key[2]))
				return false;
			key += 2;
		}
		if (!isgraph((int)c) || n + 1 >= size)
			return false;
		ret[n++] = (char)c;
	}
	ret[n] = '\0';
	return n > 0;
}
