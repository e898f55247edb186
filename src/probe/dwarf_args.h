/* SPDX-License-Identifier: MIT */
/*
 * The arguments of functions by debug information: their names and types, and where they are when
 * the function is entered.
 */
#ifndef RUT_PROBE_DWARF_ARGS_H
#define RUT_PROBE_DWARF_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rut_buf;
struct rut_dwarf;

/*
 * Opens the debug information of an ELF file: its own, or that of its separate file (debug.h).
 * NULL: there is none. Free with rut_dwarf_close().
 */
struct rut_dwarf *rut_dwarf_open(const char *path);
void rut_dwarf_close(struct rut_dwarf *d);

/*
 * Appends the arguments of the function at `address`, as the file is linked, in the form of
 * probe/arg.h: "fd=%rdi:s32,path=%rsi:str"; with `ret` the result: "ret:s32". What programs in the
 * kernel cannot see (floats in registers, structures by value) is left out, as is what does not
 * fit into `room` bytes. Returns how many there are, or -ENOENT: the function is not described.
 */
int rut_dwarf_arguments(struct rut_dwarf *d, uint64_t address, bool ret, size_t room,
			struct rut_buf *out);

#endif
