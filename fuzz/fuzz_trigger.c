/* SPDX-License-Identifier: MIT */
/* Descriptions of triggers: what is read and written is read again as the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trigger/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_text(struct rut_trigger *t, void *text, size_t len)
{
	struct rut_err err = RUT_ERR_INIT;
	FILE *f = len ? fmemopen(text, len, "r") : NULL;
	int rc;

	rut_trigger_init(t);
	if (!f)
		return -1;
	rc = rut_trigger_read(t, f, &err);
	fclose(f);
	if (!rc != !err.msg[0])
		abort();
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rut_trigger t, again;
	char *copy = malloc(size + 1), *text = NULL;
	size_t len = 0;
	FILE *f;

	if (size)
		memcpy(copy, data, size);
	copy[size] = 0;
	if (!read_text(&t, copy, strlen(copy))) {
		f = open_memstream(&text, &len);
		rut_trigger_write(&t, f);
		fclose(f);
		if (read_text(&again, text, len) || again.nactions != t.nactions ||
		    again.burst != t.burst || again.interval_ns != t.interval_ns ||
		    again.disk_bytes != t.disk_bytes || strcmp(again.when_text, t.when_text) != 0 ||
		    again.when.kind != t.when.kind || again.when.ns != t.when.ns ||
		    again.when.percent != t.when.percent ||
		    strcmp(again.when.events, t.when.events) != 0 ||
		    strcmp(again.when.filter, t.when.filter) != 0)
			abort();
		for (size_t i = 0; i < t.nactions; i++)
			if (again.actions[i].nwords != t.actions[i].nwords)
				abort();
		free(text);
	}
	free(copy);
	return 0;
}
