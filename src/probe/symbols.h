/* SPDX-License-Identifier: MIT */
/*
 * From an offset in an ELF file to the name of the function there, and the file's build-id, which
 * decides whether it is the very file that ran. Any user may have written the file: it is not
 * trusted.
 */
#ifndef RUT_PROBE_SYMBOLS_H
#define RUT_PROBE_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

struct rut_symbols;

#define RUT_BUILD_ID_MAX 20

/* The build-id; returns its length, 0 when there is none or no ELF file is there. */
size_t rut_elf_build_id(const char *path, uint8_t ret[RUT_BUILD_ID_MAX]);

/*
 * Reads the functions of .symtab and .dynsym, and of the separate debug file (probe/debug.h), which
 * is looked for below `root`, with which `path` begins, or "". 0, or -errno: -ENOEXEC when it is no
 * 64-bit ELF file.
 */
int rut_symbols_open(struct rut_symbols **ret, const char *root, const char *path);

/*
 * The same of a file that is not there, by its build-id: of the debug file alone. -ENOENT: there is
 * none, or it does not say where in the file its functions are, as most do not.
 */
int rut_symbols_open_id(struct rut_symbols **ret, const char *root, const uint8_t *id,
			size_t id_len);
void rut_symbols_free(struct rut_symbols *s);

/* The function at this offset of the file (borrowed) and how far behind its begin; or NULL. */
const char *rut_symbols_find(const struct rut_symbols *s, uint64_t offset, uint64_t *ret_distance);

#endif
