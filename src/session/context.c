/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "session/events.h"

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

static int unknown(const char *name, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf names = RUT_BUF_INIT;

	for (size_t i = 0; i < RUT_CTX_COUNT; i++)
		rut_buf_printf(&names, "%s%s",
			       !i			? ""
			       : i + 1 == RUT_CTX_COUNT ? " or "
							: ", ",
			       rut_contexts[i].name);
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

int rut_context_parse(const char *text, uint64_t *bits, struct rut_err *err)
{
	_cleanup_free_ char *copy = strdup(text);
	char *save = NULL;

	if (!copy)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (char *w = strtok_r(copy, ", ", &save); w; w = strtok_r(NULL, ", ", &save)) {
		size_t i = 0;

		while (i < RUT_CTX_COUNT && !is_name(w, rut_contexts[i].name))
			i++;
		if (i == RUT_CTX_COUNT)
			return unknown(w, err);
		*bits |= rut_contexts[i].bit;
		/* Addresses mean something in their process only. */
		if (rut_contexts[i].bit == RUT_CTX_USTACK)
			*bits |= RUT_CTX_PID;
	}
	return 0;
}
