/* SPDX-License-Identifier: MIT */
/* The root of an application, and the globs of its files. */
#ifndef RUT_RUBY_ROOT_H
#define RUT_RUBY_ROOT_H

struct rut_buf;
struct rut_role_input;
struct rut_ruby_proc;
struct rut_tracee;
struct rut_tracer;

/* What the process itself has said; NULL: it does not know. Borrowed. */
struct rut_facts {
	const char *main;    /* real path of the main script */
	const char *program; /* its name as it was given, when that is all there is */
	const char *rails;   /* Rails.root */
	const char *bundler; /* Bundler's root, or a Gemfile */
};

/*
 * Decides what the application is. Appends the globs, encoded for the agent, to `globs`, and the
 * roots with how they are known to `text`: "/srv/shop (Rails.root)". `in`: pid and cwd. Returns 0,
 * or -ENOENT when there is no root.
 */
int rut_root_find(const struct rut_facts *f, const struct rut_ruby_proc *p,
		  const struct rut_role_input *in, struct rut_buf *globs, struct rut_buf *text);

/* Completes the filter of a process that has said what its application is. */
void rut_root_apply(struct rut_tracer *t, struct rut_tracee *p);

#endif
