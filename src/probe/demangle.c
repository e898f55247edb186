/* SPDX-License-Identifier: MIT */
/*
 * The names come from files of traced users, and a name of 230 bytes can stand for one of 142 MB:
 * a substitution may name a type that repeats the one before. So what the demangler prints goes
 * into a buffer of fixed size, and the demangler is left when that is full. The functions that call
 * back keep what they need on the stack (libiberty is built for that), but for the characters of an
 * identifier of Rust in Punycode, which are lost when it is left among them.
 */
#include "probe/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

/* Of a symbol that a file names; longer ones take the demangler too long, and nobody reads them. */
enum { NAME_MAX_BYTES = 4096, TEXT_MAX_BYTES = 4 * NAME_MAX_BYTES };

struct text {
	jmp_buf full;
	size_t len;
	char bytes[TEXT_MAX_BYTES];
};

typedef int (*demangler)(const char *name, int options, demangle_callbackref add, void *text);

static bool is_mangled(const char *name)
{
	return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R') &&
	       strnlen(name, NAME_MAX_BYTES) < NAME_MAX_BYTES;
}

static void add(const char *part, size_t len, void *arg)
{
	struct text *text = arg;

	if (len >= sizeof(text->bytes) - text->len)
		longjmp(text->full, 1);
	memcpy(text->bytes + text->len, part, len);
	text->len += len;
}

static char *demangle(demangler with, const char *name, int options)
{
	struct text text;

	text.len = 0;
	if (setjmp(text.full) || !with(name, options, add, &text))
		return NULL;
	return strndup(text.bytes, text.len);
}

char *rut_demangle_rust(const char *name)
{
	return is_mangled(name) ? demangle(rust_demangle_callback, name, DMGL_NO_OPTS) : NULL;
}

char *rut_demangle(const char *name)
{
	/* Older names of Rust look like those of C++. */
	char *ret = rut_demangle_rust(name);

	if (ret || !is_mangled(name))
		return ret;
	return demangle(cplus_demangle_v3_callback, name, DMGL_PARAMS | DMGL_ANSI);
}
