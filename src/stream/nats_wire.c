/* SPDX-License-Identifier: MIT */
#include "stream/nats_wire.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "stream/wire.h"

#define MAGIC 0x52555431u /* RUT1 */

void rut_nats_head_put(struct rut_buf *b, const struct rut_nats_head *h)
{
	rut_be32_put(b, MAGIC);
	rut_be32_put(b, (uint32_t)h->kind | (h->last ? 0x100u : 0));
	rut_buf_add(b, h->uuid, sizeof(h->uuid));
	rut_be64_put(b, h->created_s);
	rut_be64_put(b, h->seq);
	rut_be64_put(b, h->offset);
	rut_be64_put(b, h->whole);
	rut_be64_put(b, h->content);
	rut_be64_put(b, h->at);
	rut_be32_put(b, h->chunk);
	rut_be32_put(b, h->part);
	rut_be32_put(b, 0);
}

static bool valid(const struct rut_nats_head *h, size_t piece)
{
	const uint64_t left = h->content - h->at;

	if (h->kind < RUT_NATS_BEGIN || h->kind > RUT_NATS_CHUNK ||
	    h->chunk >= RUT_NATS_CHUNKS_MAX || h->content > RUT_NATS_CONTENT_MAX)
		return false;
	if (h->whole < h->content || h->whole > RUT_NATS_OFFSET_MAX ||
	    h->offset > RUT_NATS_OFFSET_MAX - h->whole)
		return false;
	if (!h->content)
		return !h->at && !piece && h->kind != RUT_NATS_PACKET;
	if (h->part < RUT_NATS_PART_MIN && h->part < h->content)
		return false;
	return h->at < h->content && h->at % h->part == 0 &&
	       piece == (left < h->part ? left : h->part);
}

int rut_nats_head_get(const void *data, size_t len, struct rut_nats_head *ret)
{
	uint32_t kind;

	if (len < RUT_NATS_HEAD || rut_be32_at(data, 0) != MAGIC)
		return -EBADMSG;
	kind = rut_be32_at(data, 4);
	*ret = (struct rut_nats_head){
		.kind = (uint8_t)kind,
		.last = kind & 0x100,
		.created_s = rut_be64_at(data, 24),
		.seq = rut_be64_at(data, 32),
		.offset = rut_be64_at(data, 40),
		.whole = rut_be64_at(data, 48),
		.content = rut_be64_at(data, 56),
		.at = rut_be64_at(data, 64),
		.chunk = rut_be32_at(data, 72),
		.part = rut_be32_at(data, 76),
	};
	memcpy(ret->uuid, (const char *)data + 8, sizeof(ret->uuid));
	return valid(ret, len - RUT_NATS_HEAD) ? 0 : -EBADMSG;
}

void rut_nats_token_put(struct rut_buf *b, const char *name)
{
	rut_buf_putc(b, '.');
	for (const unsigned char *p = (const void *)name; *p; p++)
		if (isalnum(*p) || *p == '_' || *p == '-')
			rut_buf_putc(b, (char)*p);
		else
			rut_buf_printf(b, "%%%02X", *p);
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Reads ".TOKEN". Returns what follows it, or NULL. */
static const char *get_token(const char *p, char *ret)
{
	size_t n = 0;

	if (*p++ != '.')
		return NULL;
	for (; *p && *p != '.'; p++) {
		int c = (unsigned char)*p;

		if (c == '%') {
			int high = hex(p[1]), low = high < 0 ? -1 : hex(p[2]);

			c = low < 0 ? 0 : high * 16 + low;
			p += 2;
		}
		if (!c || n == RUT_NATS_NAME_MAX)
			return NULL;
		ret[n++] = (char)c;
	}
	ret[n] = '\0';
	return n ? p : NULL;
}

int rut_nats_subject_get(const char *subject, struct rut_nats_subject *ret)
{
	const char *p = subject;

	if (strncmp(p, RUT_NATS_PREFIX ".", strlen(RUT_NATS_PREFIX) + 1) != 0)
		return -EBADMSG;
	p = get_token(p + strlen(RUT_NATS_PREFIX), ret->host);
	p = p ? get_token(p, ret->session) : NULL;
	p = p ? get_token(p, ret->part) : NULL;
	ret->stream[0] = '\0';
	if (p && *p)
		p = get_token(p, ret->stream);
	return p && !*p ? 0 : -EBADMSG;
}
