/* SPDX-License-Identifier: MIT */
/* Types in files of compiled scripts. */
#ifndef RUT_SCRIPT_PORTABLE_TYPE_H
#define RUT_SCRIPT_PORTABLE_TYPE_H

#include "script/codec.h"
#include "script/type.h"

/* Each type is written once: what was before is referred to by its number. */
struct rut_portable_types {
	const struct rut_type **list; /* owned */
	size_t n, cap;
	unsigned depth;
};

void rut_portable_types_fini(struct rut_portable_types *types);
/* NULL is kept; what pointers point to is not. Types that are read can be read values by. */
void rut_portable_type(struct rut_codec *c, struct rut_portable_types *types,
		       const struct rut_type **t);

#endif
