/* SPDX-License-Identifier: MIT */
/* Between ctf2.c (fragments), ctf2_class.c (field classes) and ctf2_property.c. */
#ifndef RUT_CTF_CTF2_PRIV_H
#define RUT_CTF_CTF2_PRIV_H

#include <json-c/json.h>

#include "ctf/meta.h"

struct rut_ctf2_alias {
	struct rut_ctf2_alias *next;
	const char *name;
	const struct rut_ctf_type *type;
};

struct rut_ctf2_parser {
	struct rut_meta *m;
	struct rut_err *err;
	struct rut_ctf2_alias *aliases;
	unsigned int depth;
	bool has_preamble, has_trace;
};

/* ---- Properties: 0, or an error that was set ---- */

enum rut_ctf2_sign { RUT_CTF2_UNSIGNED, RUT_CTF2_SIGNED, RUT_CTF2_EITHER };

/* Sets the error. */
int rut_ctf2_nomem(struct rut_ctf2_parser *p);
/* Owned by the metadata. */
const char *rut_ctf2_copy(struct rut_ctf2_parser *p, const char *s);
/* The property, which must be of this type; NULL when it is not there. */
int rut_ctf2_get(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
		 enum json_type type, struct json_object **ret);
int rut_ctf2_get_string(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
			const char **ret);
/* An integer of 0 or more; *ret keeps its default when there is none. */
int rut_ctf2_get_uint(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
		      uint64_t *ret);
int rut_ctf2_need_uint(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
		       uint64_t max, uint64_t *ret);
int rut_ctf2_get_align(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
		       uint32_t *ret);
/*
 * [[lo, hi], ...]. RUT_CTF2_EITHER: what selects is not known yet, resolve.c cuts off what is
 * negative.
 */
int rut_ctf2_add_ranges(struct rut_ctf2_parser *p, struct rut_ctf_type *t, struct json_object *set,
			enum rut_ctf2_sign sign, uint32_t label);
/* {"label": ranges, ...} of integers, {"flag": ranges} of bit maps. */
int rut_ctf2_add_labels(struct rut_ctf2_parser *p, struct rut_ctf_type *t, struct json_object *o);
int rut_ctf2_get_roles(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t);

/* ---- Field classes ---- */

/* A property that is a field class or the name of an alias; *ret is NULL when it is not there. */
int rut_ctf2_class_property(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
			    struct rut_ctf_type **ret);
/* One that must be there. */
int rut_ctf2_need_class(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
			struct rut_ctf_type **ret);

#endif
