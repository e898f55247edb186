/* SPDX-License-Identifier: MIT */
/* Makes and compares types. */
#ifndef RUT_SCRIPT_TYPES_H
#define RUT_SCRIPT_TYPES_H

#include "ctf/arena.h"
#include "script/type.h"

struct rut_buf;

const struct rut_type *rut_type_int(unsigned bytes, bool is_signed);
const struct rut_type *rut_type_simple(enum rut_type_kind kind); /* of fixed size */
struct rut_type *rut_type_new(struct rut_arena *a, enum rut_type_kind kind, uint32_t size,
			      uint32_t align);
/* float (4 bytes) or double (8). */
const struct rut_type *rut_type_float(unsigned bytes);
const struct rut_type *rut_type_string(struct rut_arena *a, uint32_t size);
const struct rut_type *rut_type_pointer(struct rut_arena *a, const struct rut_type *to, bool user);
const struct rut_type *rut_type_array(struct rut_arena *a, const struct rut_type *elem,
				      uint32_t count);
/* fields[i].type and .name are set; offsets are computed. */
const struct rut_type *rut_type_tuple(struct rut_arena *a, enum rut_type_kind kind,
				      const struct rut_type_field *fields, uint32_t n);

bool rut_type_is_int(const struct rut_type *t); /* INT, BOOL, ENUM, DURATION */
/* Fits into a register. */
bool rut_type_is_scalar(const struct rut_type *t);

/*
 * The type that holds values of both, as of a map that is assigned to twice: strings get the
 * longer size. NULL: there is none.
 */
/* Are the parts of equal values of both at the same places? */
bool rut_type_same_layout(const struct rut_type *x, const struct rut_type *y);
const struct rut_type *rut_type_join(struct rut_arena *a, const struct rut_type *x,
				     const struct rut_type *y);

/* As a user writes it: "uint64", "struct task_struct *", "(uint64,string[16])". */
const char *rut_type_text(const struct rut_type *t, struct rut_buf *out);

#endif
