/* SPDX-License-Identifier: MIT */
/* Parts of the text of a description. */
#ifndef RUT_TRIGGER_TEXT_H
#define RUT_TRIGGER_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The length without the blanks at its end. */
size_t rut_trigger_trimmed(const char *s, size_t len);

/* A duration that may end before its string does, and is not zero. Returns 0 or -EINVAL. */
int rut_trigger_duration(const char *s, size_t len, uint64_t *ret_ns);

/* Into an array of `size` bytes, with a NUL. Returns 0 or -EINVAL: it is too long. */
int rut_trigger_copy(char *to, size_t size, const char *from, size_t len, struct rut_err *err);

#endif
