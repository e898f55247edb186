/* SPDX-License-Identifier: MIT */
/*
 * Separate files of debug information, as Debian's -dbg and -dbgsym packages install them. They
 * have the symbols and DWARF of a file that was stripped, but not its contents: their program
 * headers say nothing about offsets in the file itself.
 */
#ifndef RUT_PROBE_DEBUG_H
#define RUT_PROBE_DEBUG_H

#include <stddef.h>
#include <stdint.h>

/*
 * Finds the debug file by build-id: ROOT/usr/lib/debug/.build-id/ab/cdef.debug, then the same
 * without `root`. 0, or -ENOENT: there is none that is readable and has that build-id.
 */
int rut_debug_find_id(const char *root, const uint8_t *id, size_t id_len, char *ret, size_t size);

/*
 * The debug file of the ELF file `path`, which begins with `root`: by its build-id, then by its
 * section .gnu_debuglink, beside it, in .debug/ there, and below ROOT/usr/lib/debug. One found by
 * name must have the same build-id or, without one, the checksum of the section. 0 or -ENOENT.
 */
int rut_debug_find(const char *root, const char *path, char *ret, size_t size);

/*
 * The part of a path in which a container's own files begin: "/proc/PID/root", or "". The target of
 * /proc/PID/exe is there too.
 */
void rut_debug_root(const char *path, char *ret, size_t size);

#endif
