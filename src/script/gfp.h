/* SPDX-License-Identifier: MIT */
/* Flags of the kernel's page allocator (gfp_t) as text: "GFP_KERNEL|__GFP_ZERO". */
#ifndef RUT_SCRIPT_GFP_H
#define RUT_SCRIPT_GFP_H

#include <stdint.h>

struct rut_buf;

void rut_script_gfp_text(uint64_t flags, struct rut_buf *out);

#endif
