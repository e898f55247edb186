/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "session/events.h"
#include "session/perf.h"

#define CONTEXT(sym, option, field, kind)                                                          \
	[RUT_CTX_AT_##sym] = {                                                                     \
		#option,                                                                           \
		{RUT_FK_##kind, 0, #field},                                                        \
		sizeof(((struct rut_context_all *)0)->field),                                      \
		RUT_CTX_##sym,                                                                     \
	},
const struct rut_context_desc rut_contexts[RUT_CTX_COUNT] = {RUT_CONTEXTS(CONTEXT)};

uint32_t rut_context_size(uint64_t bits)
{
	uint32_t size = 0;

	for (size_t i = 0; i < RUT_CTX_COUNT; i++)
		if (bits & rut_contexts[i].bit)
			size += rut_contexts[i].bytes;
	return size;
}

int rut_context_perf(size_t index)
{
	return rut_contexts[index].bit & RUT_CTX_PERF ? (int)(index - RUT_CTX_AT_PERF0) : -1;
}

static int unknown(const char *name, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf names = RUT_BUF_INIT;

	for (size_t i = 0; i < RUT_CTX_COUNT; i++)
		if (rut_context_perf(i) < 0)
			rut_buf_printf(&names, "%s, ", rut_contexts[i].name);
	rut_buf_puts(&names, "or perf:cpu:NAME");
	return rut_err_set(err, EINVAL, "unknown context '%s': %s", name,
			   names.data ? names.data : "");
}

/* "ruby-stack" is "ruby_stack", too. */
static bool is_name(const char *word, const char *name)
{
	while (*word && (*word == *name || (*word == '-' && *name == '_')))
		word++, name++;
	return !*word && !*name;
}

static int add_counter(const char *word, uint64_t *bits, char perf[RUT_PERF_MAX][RUT_PERF_NAME],
		       struct rut_err *err)
{
	const char *name = word + strlen("perf:");
	size_t i = 0;
	int rc = rut_perf_check(name, err);

	if (rc)
		return rc;
	while (i < RUT_PERF_MAX && *bits & rut_contexts[RUT_CTX_AT_PERF0 + i].bit) {
		if (!strcmp(perf[i], name))
			return 0;
		i++;
	}
	if (i == RUT_PERF_MAX)
		return rut_err_set(err, E2BIG, "'%s': a session has at most %d counters", word,
				   RUT_PERF_MAX);
	snprintf(perf[i], RUT_PERF_NAME, "%s", name);
	*bits |= rut_contexts[RUT_CTX_AT_PERF0 + i].bit;
	return 0;
}

static int add_context(const char *word, uint64_t *bits, struct rut_err *err)
{
	size_t i = 0;

	while (i < RUT_CTX_COUNT &&
	       (rut_context_perf(i) >= 0 || !is_name(word, rut_contexts[i].name)))
		i++;
	if (i == RUT_CTX_COUNT)
		return unknown(word, err);
	*bits |= rut_contexts[i].bit;
	/* Addresses mean something in their process only. */
	if (rut_contexts[i].bit == RUT_CTX_USTACK)
		*bits |= RUT_CTX_PID;
	return 0;
}

int rut_context_parse(const char *text, uint64_t *bits, char perf[RUT_PERF_MAX][RUT_PERF_NAME],
		      struct rut_err *err)
{
	_cleanup_free_ char *copy = strdup(text);
	char *save = NULL;
	int rc = 0;

	if (!copy)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (char *w = strtok_r(copy, ", ", &save); w && !rc; w = strtok_r(NULL, ", ", &save))
		rc = !strncmp(w, "perf:", 5) ? add_counter(w, bits, perf, err)
					     : add_context(w, bits, err);
	return rc;
}
