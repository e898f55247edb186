/* SPDX-License-Identifier: MIT */
#include "session/kernel_names.h"

#include <stddef.h>

#include "probe/kallsyms.h"

#define KEPT_NS 60000000000ull

const char *rut_kernel_names_find(struct rut_kernel_names *n, uint64_t address, uint64_t now_ns)
{
	const char *name = NULL;
	uint64_t distance;

	if (!n->tried_ns) {
		n->tried_ns = now_ns;
		if (rut_kallsyms_open(&n->syms, false) < 0)
			n->syms = NULL;
	}
	if (n->syms)
		name = rut_kallsyms_find(n->syms, address, &distance);
	return name ? name : "?";
}

void rut_kernel_names_age(struct rut_kernel_names *n, uint64_t now_ns)
{
	if (n->tried_ns && now_ns - n->tried_ns >= KEPT_NS)
		rut_kernel_names_fini(n);
}

void rut_kernel_names_fini(struct rut_kernel_names *n)
{
	rut_kallsyms_free(n->syms);
	*n = (struct rut_kernel_names){0};
}
