/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "session/events.h"

static const struct {
	const char *name;
	uint32_t bit, size;
} contexts[] = {
	{"pid", RUT_CTX_PID, 4},       {"tid", RUT_CTX_TID, 4}, {"procname", RUT_CTX_PROCNAME, 16},
	{"cgroup", RUT_CTX_CGROUP, 8}, {"cpu", RUT_CTX_CPU, 4}, {"ustack", RUT_CTX_USTACK, 8},
	{"kstack", RUT_CTX_KSTACK, 8},
};

#define NCONTEXTS (sizeof(contexts) / sizeof(*contexts))

uint32_t rut_context_size(uint32_t bits)
{
	uint32_t size = 0;

	for (size_t i = 0; i < NCONTEXTS; i++)
		if (bits & contexts[i].bit)
			size += contexts[i].size;
	return size;
}

int rut_context_parse(const char *text, uint32_t *bits, struct rut_err *err)
{
	_cleanup_free_ char *copy = strdup(text);
	char *save = NULL;

	if (!copy)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (char *w = strtok_r(copy, ", ", &save); w; w = strtok_r(NULL, ", ", &save)) {
		size_t i = 0;

		while (i < NCONTEXTS && strcmp(w, contexts[i].name) != 0)
			i++;
		if (i == NCONTEXTS)
			return rut_err_set(err, EINVAL,
					   "unknown context '%s': pid, tid, procname, cgroup, cpu, "
					   "ustack or kstack",
					   w);
		*bits |= contexts[i].bit;
		/* Addresses mean something in their process only. */
		if (contexts[i].bit == RUT_CTX_USTACK)
			*bits |= RUT_CTX_PID;
	}
	return 0;
}
