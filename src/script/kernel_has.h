/* SPDX-License-Identifier: MIT */
/* What of the language this kernel can do. */
#ifndef RUT_SCRIPT_KERNEL_HAS_H
#define RUT_SCRIPT_KERNEL_HAS_H

#include <stdbool.h>
#include <stddef.h>

/* The release of bpftrace that has this language. */
#define RUT_SCRIPT_LANGUAGE "0.27.1"

struct rut_script_feature {
	const char *name;
	bool (*has)(void);
};

/* The table; returns the number of entries. */
size_t rut_script_features(const struct rut_script_feature **ret);

bool rut_script_kernel_has(const char *name);

#endif
