/* SPDX-License-Identifier: MIT */
/*
 * Names for the numbers that scripts print: functions of the kernel and of processes, users,
 * cgroups, system calls; and the time of day for the kernel's clocks. All is looked up when it is
 * first needed.
 */
#ifndef RUT_SCRIPT_SYMBOLIZE_H
#define RUT_SCRIPT_SYMBOLIZE_H

#include <stdbool.h>
#include <sys/types.h>

struct rut_script_names;
struct rut_script_symbols;

/* 0 or -ENOMEM. */
int rut_script_symbols_new(struct rut_script_symbols **ret);
/* Shows names of C++ and Rust as symbols are. At first: as they are written. */
void rut_script_symbols_mangled(struct rut_script_symbols *s, bool mangled);
void rut_script_symbols_free(struct rut_script_symbols *s);

/* Puts the functions of this module into the table; `s` must live as long. */
void rut_script_symbols_fill(struct rut_script_symbols *s, struct rut_script_names *names);

/* 35 of "nanosleep"; -1: there is no such system call. */
int rut_script_syscall_number(const char *name);

#endif
