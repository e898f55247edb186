/* SPDX-License-Identifier: MIT */
/*
 * Layer files: which methods are entry points of requests and which belong to a layer, and what
 * their fields are read from. docs/requests.md has the language, share/rutile/layers the files.
 */
#ifndef RUT_RUBY_LAYERS_H
#define RUT_RUBY_LAYERS_H

#include <stdbool.h>
#include <stddef.h>

struct rut_buf;
struct rut_err;

struct rut_layers_entry;

/* A later entry for a method replaces an earlier one. */
struct rut_layers {
	struct rut_layers_entry *entries; /* owned */
	size_t count, cap;
};

#define RUT_LAYERS_INIT                                                                            \
	{                                                                                          \
		0                                                                                  \
	}

/*
 * Adds the entries of one file. `name` is for messages. Returns 0, or -EINVAL with "NAME:LINE: what
 * is wrong"; entries before that line have been added.
 */
int rut_layers_parse(struct rut_layers *l, const char *name, const char *text, size_t len,
		     struct rut_err *err);

/*
 * Adds every *.layers of the installed directory, or of RUTILE_LAYERS if that is set, and then of
 * /etc/rutile/layers, each in the order of names. Returns 0 or -errno with the reason.
 */
int rut_layers_load(struct rut_layers *l, struct rut_err *err);

/* Appends the entries as the agent reads them (agent/watch.h, RUT_FILTER_WATCH). */
void rut_layers_encode(const struct rut_layers *l, struct rut_buf *config);

/* Is "Class#method" an entry point of requests? */
bool rut_layers_is_request(const struct rut_layers *l, const char *method);

void rut_layers_fini(struct rut_layers *l);

/* Loads all files and encodes them. Returns 0 or -errno with the reason. */
int rut_layers_config(struct rut_buf *config, struct rut_err *err);

#endif
