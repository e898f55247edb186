/* SPDX-License-Identifier: MIT */
/* Names of functions of C++ and Rust, as they are written in the program. */
#ifndef RUT_PROBE_DEMANGLE_H
#define RUT_PROBE_DEMANGLE_H

/* "shop::total(int)" of "_ZN4shop5totalEi"; the caller frees it. NULL: it is no such name, or
 * stands for more than 16 KB. */
char *rut_demangle(const char *name);
/* Of Rust alone. */
char *rut_demangle_rust(const char *name);

#endif
