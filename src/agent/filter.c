/* SPDX-License-Identifier: MIT */
#include "filter.h"

#include "abi.h"
#include "base/glob.h"

#include <string.h>

#define NAME_BYTES 1024

void rut_agent_filter_init(struct rut_agent_filter *f, const char *config,
			   const struct rut_watches *watches)
{
	f->config = config;
	f->watches = watches;
	f->has_rules = f->has_paths = false;
	for (const char *c = config; *c; c += strlen(c) + 1) {
		f->has_rules |= *c == RUT_FILTER_CLASS || *c == RUT_FILTER_METHOD;
		f->has_paths |=
			*c == RUT_FILTER_APP || *c == RUT_FILTER_NOT || *c == RUT_FILTER_PATH;
	}
	f->has_names = watches || f->has_rules;
}

static bool glob_path(const char *glob, const struct rut_agent_path *path, int i)
{
	return rut_glob(glob, strlen(glob), path->s[i], path->len[i], RUT_GLOB_SHELL);
}

static bool hits(const char *glob, const struct rut_agent_path *path)
{
	if (glob_path(glob, path, 0))
		return true;
	for (int i = 1; i < RUT_PATHS; i++)
		if (path->len[i] && glob_path(glob, path, i))
			return true;
	return false;
}

/* No rule of this kind: yes. Only '!' rules: yes unless one hits. Otherwise one must hit. */
static bool rules(const char *config, char kind, const struct rut_agent_path *path)
{
	bool any = false, hit = false;

	for (const char *c = config; *c; c += strlen(c) + 1) {
		if (*c != kind)
			continue;
		if (c[1] == '!') {
			if (hits(c + 2, path))
				return false;
		} else {
			any = true;
			hit = hit || hits(c + 1, path);
		}
	}
	return !any || hit;
}

/* Ruby's own code for tracing would trace the agent. */
static bool own_path(const struct rut_agent_path *path)
{
	static const char own[] = "<internal:trace_point>";

	return path->len[0] == sizeof(own) - 1 && memcmp(path->s[0], own, sizeof(own) - 1) == 0;
}

static bool any_hits(const char *config, char kind, const struct rut_agent_path *path)
{
	for (const char *c = config; *c; c += strlen(c) + 1)
		if (*c == kind && hits(c + 1, path))
			return true;
	return false;
}

bool rut_agent_filter_path(const struct rut_agent_filter *f, const struct rut_agent_path *path)
{
	if (own_path(path))
		return false;
	/* What is watched is watched wherever it is. */
	return f->watches ? true : rut_agent_filter_app(f, path);
}

bool rut_agent_filter_app(const struct rut_agent_filter *f, const struct rut_agent_path *path)
{
	if (!any_hits(f->config, RUT_FILTER_OWN, path) &&
	    (any_hits(f->config, RUT_FILTER_NOT, path) || !rules(f->config, RUT_FILTER_APP, path)))
		return false;
	return rules(f->config, RUT_FILTER_PATH, path);
}

/* "Class#method"; the length, cut to what fits. */
static size_t full_name(char *buf, size_t size, const char *class_name, bool singleton,
			const char *method)
{
	size_t c = strlen(class_name), m = strlen(method);

	if (c > size / 2)
		c = size / 2;
	if (m > size / 2 - 2)
		m = size / 2 - 2;
	memcpy(buf, class_name, c); /* NOLINT(bugprone-not-null-terminated-result): a length */
	buf[c] = singleton ? '.' : '#';
	memcpy(buf + c + 1, method, m); /* NOLINT(bugprone-not-null-terminated-result) */
	return c + 1 + m;
}

/*
 * The ways to write a method: "Class#name" or "Class.name"; of a method of objects also
 * "Class.name", as a plain trace prints it; the bare name.
 */
static void spell(struct rut_agent_path *ret, char full[NAME_BYTES], char dotted[NAME_BYTES],
		  const char *class_name, bool singleton, const char *method)
{
	*ret = (struct rut_agent_path){.s = {full, dotted, method}};
	ret->len[0] = full_name(full, NAME_BYTES, class_name, singleton, method);
	if (!singleton)
		ret->len[1] = full_name(dotted, NAME_BYTES, class_name, true, method);
	ret->len[2] = strlen(method);
}

bool rut_agent_filter_name(const struct rut_agent_filter *f, const char *class_name, bool singleton,
			   const char *method)
{
	char full[NAME_BYTES], dotted[NAME_BYTES];
	struct rut_agent_path name;

	if (f->watches &&
	    (!method ||
	     rut_agent_watches_find(f->watches, class_name ? class_name : "", singleton, method)))
		return true;
	if (!f->has_rules)
		return !f->watches;
	name = (struct rut_agent_path){.s = {class_name ? class_name : ""}};
	name.len[0] = strlen(name.s[0]);
	if (!rules(f->config, RUT_FILTER_CLASS, &name))
		return false;
	if (!method)
		return true;
	spell(&name, full, dotted, name.s[0], singleton, method);
	return rules(f->config, RUT_FILTER_METHOD, &name);
}

bool rut_agent_filter_inside(const char *glob, const char *class_name, bool singleton,
			     const char *method)
{
	char full[NAME_BYTES], dotted[NAME_BYTES];
	struct rut_agent_path name;

	if (!method)
		return false;
	spell(&name, full, dotted, class_name, singleton, method);
	return hits(glob, &name);
}
