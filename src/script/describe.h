/* SPDX-License-Identifier: MIT */
/*
 * What the kernel is told of a script's programs, as BTF: their functions, and the line of the
 * script that each instruction is of. The verifier cites the lines in its log, and what shows
 * programs of the kernel (bpftool, perf) shows them.
 */
#ifndef RUT_SCRIPT_DESCRIBE_H
#define RUT_SCRIPT_DESCRIBE_H

#include <bpf/bpf.h>
#include <stdbool.h>

#include "script/link.h"
#include "script/script.h"

struct rut_err;
struct rut_script_description; /* of all programs of a script */

/*
 * Describes the programs. NULL in *ret: this kernel takes no description, and none of the programs
 * needs one. p->ruby is as the programs will be linked with. 0 or -errno, with *err.
 */
int rut_script_describe(struct rut_script_description **ret, const struct rut_script_program *p,
			struct rut_err *err);
void rut_script_description_free(struct rut_script_description *d);

/*
 * Sets the options of one program, which is loaded as linked->insns when there are any. The options
 * borrow from the description until the next call. 0 or -ENOMEM.
 */
int rut_script_description_apply(struct rut_script_description *d,
				 const struct rut_script_prog *prog,
				 const struct rut_linked *linked, struct bpf_prog_load_opts *opts);

#endif
