/* SPDX-License-Identifier: MIT */
/* What a Ruby process is: from its command line, its title and the directory that it runs in. */
#ifndef RUT_RUBY_ROLE_H
#define RUT_RUBY_ROLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "ruby/proc.h"

struct rut_role_input {
	pid_t pid; /* files are looked for below /proc/PID/root; 0: below / */
	const char *user;
	const char *cmdline; /* words that end with NUL, or a title */
	size_t cmdline_bytes;
	const char *cwd; /* in the target's own view */
	const char *comm;
};

/* Sets role, name and app_root of `ret`. Returns 0 or -ENOMEM. */
int rut_role_find(const struct rut_role_input *in, struct rut_ruby_proc *ret);

/* Whether a program is another implementation of Ruby, and which; `exe`: its path. */
bool rut_role_other_ruby(const char *exe, const char *cmdline, size_t cmdline_bytes,
			 enum rut_ruby_role *ret);

/* Whether this directory, in the target's own view, looks like that of an application. */
bool rut_role_is_app_root(const struct rut_role_input *in, const char *dir);

/*
 * The directory of the script, or the nearest above it that looks like an application's. False: it
 * is where programs and gems are, not the application.
 */
bool rut_role_root_of_script(const struct rut_role_input *in, const char *script, char *ret,
			     size_t cap);

/* Of a title like "Passenger RubyApp: /path (production)": the path. */
bool rut_role_root_of_passenger(const char *title, char *ret, size_t cap);

/*
 * Whether a name on the command line means a process of this name: all of it, its script with or
 * without directories and ".rb", its first word, or the tag in brackets at the end of Puma's
 * titles.
 */
bool rut_role_name_matches(const char *name, const char *target);

#endif
