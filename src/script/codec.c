/* SPDX-License-Identifier: MIT */
#include "script/codec.h"

#include <string.h>

void rut_codec_bytes(struct rut_codec *c, void *p, size_t size)
{
	if (c->writing) {
		rut_buf_add(&c->out, p, size);
		return;
	}
	if (c->failed || (size_t)(c->end - c->at) < size) {
		c->failed = true;
		memset(p, 0, size);
		return;
	}
	memcpy(p, c->at, size);
	c->at += size;
}

void rut_codec_u64(struct rut_codec *c, uint64_t *v)
{
	rut_codec_bytes(c, v, sizeof(*v));
}

void rut_codec_i64(struct rut_codec *c, int64_t *v)
{
	rut_codec_bytes(c, v, sizeof(*v));
}

void rut_codec_u32(struct rut_codec *c, uint32_t *v)
{
	rut_codec_bytes(c, v, sizeof(*v));
}

void rut_codec_bool(struct rut_codec *c, bool *v)
{
	uint8_t byte = *v;

	rut_codec_bytes(c, &byte, 1);
	*v = byte != 0;
}

void rut_codec_text(struct rut_codec *c, const char **s)
{
	uint32_t len = c->writing && *s ? (uint32_t)strlen(*s) + 1 : 0;

	rut_codec_u32(c, &len);
	if (c->writing) {
		rut_buf_add(&c->out, *s, len);
		return;
	}
	*s = NULL;
	if (!len)
		return;
	if ((size_t)(c->end - c->at) < len || c->at[len - 1]) {
		c->failed = true;
		return;
	}
	*s = rut_arena_strndup(c->arena, (const char *)c->at, len - 1);
	c->failed |= !*s;
	c->at += len;
}

void rut_codec_count(struct rut_codec *c, size_t *n, size_t least)
{
	uint32_t v = (uint32_t)*n;

	rut_codec_u32(c, &v);
	if (!c->writing && v > (size_t)(c->end - c->at) / least) {
		c->failed = true;
		v = 0;
	}
	*n = v;
}

void rut_codec_index(struct rut_codec *c, uint32_t *v, size_t limit)
{
	rut_codec_u32(c, v);
	if (*v < limit)
		return;
	c->failed = true;
	*v = 0;
}
