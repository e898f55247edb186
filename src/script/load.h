/* SPDX-License-Identifier: MIT */
/* Compiled scripts in the kernel. */
#ifndef RUT_SCRIPT_LOAD_H
#define RUT_SCRIPT_LOAD_H

#include "script/script.h"

struct rut_err;

/* CPUs that are possible: maps have a value for each. rut_script_load() checks that it is known. */
uint64_t rut_script_cpus(void);
bool rut_script_kernel_at_least(unsigned major, unsigned minor);

/*
 * Makes the maps and loads the programs; rut_script_free() closes them. -EINVAL: the verifier
 * refuses one, src.messages says which line; otherwise -errno with *err.
 */
int rut_script_load(struct rut_script_program *p, struct rut_err *err);

/* Bytes of the counters. */
size_t rut_script_counter_bytes(const struct rut_script_program *p);

/* Runs a program of begin, end or interval once, in this process. 0 or -errno. */
int rut_script_run_prog(const struct rut_script_prog *prog);

/* Everything that attaches programs to the kernel; freed, nothing is attached any more. */
struct rut_script_links;

/* Links of nothing yet; NULL: no memory. */
struct rut_script_links *rut_script_links_new(void);

/*
 * Attaches all programs but those of begin, end, interval and signals. *ret is to be freed in any
 * case. `pins`: a directory of the BPF file system in which the links are kept, as link_script:0
 * and so on; they outlive *ret then. NULL: they do not. 0 or -errno, with *err.
 */
int rut_script_attach(struct rut_script_links **ret, struct rut_script_program *p, const char *pins,
		      struct rut_err *err);
void rut_script_links_free(struct rut_script_links *l);
/*
 * The same by a process of its own, which outlives the call when there are many: to detach one from
 * a tracepoint takes the kernel 70 ms, one after the other. The programs must do nothing any more.
 */
void rut_script_links_leave(struct rut_script_links *l);

/* Attaches a program to a place of a file, in all processes. 0 or -errno, with *err. */
int rut_script_attach_place(struct rut_script_links *l, const struct rut_script_prog *prog,
			    const char *path, uint64_t offset, struct rut_err *err);

/* How many are attached. */
size_t rut_script_links_count(const struct rut_script_links *l);

#endif
