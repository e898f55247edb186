/* SPDX-License-Identifier: MIT */
/* The running kernel's symbols, as /proc/kallsyms has them: modules' and eBPF programs' too. */
#ifndef RUT_PROBE_KALLSYMS_H
#define RUT_PROBE_KALLSYMS_H

#include <stdbool.h>
#include <stdint.h>

struct rut_kallsyms;

/*
 * Reads the functions, or with `data` all symbols. 0 or -errno; where addresses are hidden
 * (kptr_restrict) there are no symbols, which is no error.
 */
int rut_kallsyms_open(struct rut_kallsyms **ret, bool data);
void rut_kallsyms_free(struct rut_kallsyms *k);

/* The symbol at or below the address (borrowed), and how far below; NULL: there is none. */
const char *rut_kallsyms_find(const struct rut_kallsyms *k, uint64_t address,
			      uint64_t *ret_distance);

/* The address of the symbol; 0: there is none. */
uint64_t rut_kallsyms_address(const struct rut_kallsyms *k, const char *name);

#endif
