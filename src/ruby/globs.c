/* SPDX-License-Identifier: MIT */
#include "ruby/globs.h"

#include <string.h>

#include "agent/abi.h"
#include "base/buf.h"

/* Where gems are found below an application's root. */
static const char *const gem_places[] = {
	"/vendor/bundle/*", "/vendor/ruby/*",	"/vendor/cache/*",   "/.bundle/*",
	"/.gem/*",	    "/.rbenv/*",	"/.rvm/*",	     "/.asdf/*",
	"/.local/*",	    "/*/ruby/*/gems/*", "/*gems/*-[0-9]*/*",
};

/*
 * Code without a file of its own that was given a relative path, and -e. Gems never go by one.
 */
static const char relative[] = "[!/<(]*";

static void add_glob(struct rut_buf *b, char kind, const char *root, const char *rest)
{
	rut_buf_putc(b, kind);
	for (; *root; root++) {
		if (strchr("*?[\\", *root))
			rut_buf_putc(b, '\\');
		rut_buf_putc(b, *root);
	}
	rut_buf_add(b, rest, strlen(rest) + 1);
}

void rut_root_globs(struct rut_buf *b, const char *root)
{
	add_glob(b, RUT_FILTER_APP, root, "/*");
	add_glob(b, RUT_FILTER_APP, "", relative);
	for (size_t i = 0; i < sizeof(gem_places) / sizeof(*gem_places); i++)
		add_glob(b, RUT_FILTER_NOT, root, gem_places[i]);
}
