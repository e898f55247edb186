/* SPDX-License-Identifier: MIT */
/* The globs of an application's files. */
#ifndef RUT_RUBY_GLOBS_H
#define RUT_RUBY_GLOBS_H

struct rut_buf;

/* Appends the globs of an application's files, encoded for the agent (RUT_FILTER_*). */
void rut_root_globs(struct rut_buf *b, const char *root);

#endif
