/* SPDX-License-Identifier: MIT */
/* Which methods a session wants: globs over paths, classes and methods. */
#ifndef RUT_AGENT_FILTER_H
#define RUT_AGENT_FILTER_H

#include "watch.h"

#include <stdbool.h>
#include <stddef.h>

struct rut_agent_filter {
	const char *config; /* borrowed: the encoded strings of abi.h */
	bool has_names;	    /* methods are chosen by name: watched ones, or by rules */
	bool has_rules;	    /* ... by rules for classes or methods, beside those that are watched */
	bool has_paths;
	const struct rut_watches *watches; /* borrowed: only these methods; NULL: no such list */
};

/* `watches` may be NULL. */
void rut_agent_filter_init(struct rut_agent_filter *f, const char *config,
			   const struct rut_watches *watches);

#define RUT_PATHS 3

/* A file's path as Ruby shows it, and the real one. All but the first may be empty. */
struct rut_agent_path {
	const char *s[RUT_PATHS];
	size_t len[RUT_PATHS];
};

/* A glob hits a file when it hits one of its paths. */
bool rut_agent_filter_path(const struct rut_agent_filter *f, const struct rut_agent_path *path);

/* The same of the application alone, also where methods are watched in all files. */
bool rut_agent_filter_app(const struct rut_agent_filter *f, const struct rut_agent_path *path);

/* `class_name` and `method` may be NULL (allocations have no method). */
bool rut_agent_filter_name(const struct rut_agent_filter *f, const char *class_name, bool singleton,
			   const char *method);

/* Is this the method of --inside: "Class#name", "Class.name", globs? */
bool rut_agent_filter_inside(const char *glob, const char *class_name, bool singleton,
			     const char *method);

#endif
