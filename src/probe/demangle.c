/* SPDX-License-Identifier: MIT */
#include "probe/demangle.h"

#include <libiberty/demangle.h>
#include <stdbool.h>
#include <string.h>

/* Of a symbol that a file names; longer ones take the demangler too long, and nobody reads them. */
enum { NAME_MAX_BYTES = 4096 };

static bool is_mangled(const char *name)
{
	return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R') &&
	       strnlen(name, NAME_MAX_BYTES) < NAME_MAX_BYTES;
}

char *rut_demangle_rust(const char *name)
{
	return is_mangled(name) ? rust_demangle(name, DMGL_NO_OPTS) : NULL;
}

char *rut_demangle(const char *name)
{
	/* Older names of Rust look like those of C++. */
	char *ret = rut_demangle_rust(name);

	return ret || !is_mangled(name) ? ret : cplus_demangle_v3(name, DMGL_PARAMS | DMGL_ANSI);
}
