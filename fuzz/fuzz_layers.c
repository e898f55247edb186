/* SPDX-License-Identifier: MIT */
/*
 * Layer files: what the parser takes, the agent takes. And SQL: what is masked stays as it is when
 * it is masked again, however little room there is.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/watch.h"
#include "base/buf.h"
#include "base/err.h"
#include "ruby/layers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void *rut_agent_map(size_t bytes);
void rut_agent_unmap(void *p, size_t bytes);

void *rut_agent_map(size_t bytes)
{
	return calloc(1, bytes);
}

void rut_agent_unmap(void *p, size_t bytes)
{
	(void)bytes;
	free(p);
}

static void layers(const char *text, size_t size)
{
	struct rut_layers l = RUT_LAYERS_INIT;
	struct rut_err err = RUT_ERR_INIT;
	struct rut_buf b = RUT_BUF_INIT;
	int rc = rut_layers_parse(&l, "fuzz", text, size, &err);
	struct rut_watches w;

	rut_layers_encode(&l, &b);
	rut_buf_putc(&b, 0);
	/* The line of a mistake is half there. */
	if (!rc && rut_agent_watches_init(&w, b.data))
		abort();
	if (!rc)
		rut_agent_watches_fini(&w);
	rut_buf_fini(&b);
	rut_layers_fini(&l);
}

static void sql(const char *text, size_t size)
{
	char once[512], twice[512];
	size_t cap = size % sizeof(once), n = rut_agent_sql_mask(once, cap, text, size);

	if (n > cap || rut_agent_sql_mask(twice, n, once, n) > n)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of its own length, so that a read behind it is seen. */
	char *text = malloc(size ? size : 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	layers(text, size);
	sql(text, size);
	free(text);
	return 0;
}
