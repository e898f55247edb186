/* SPDX-License-Identifier: MIT */
/*
 * What compiled code takes for granted about the machine: where a field of a kernel structure or of
 * a tracepoint is, how large a structure is, how many CPUs there are. A script that is compiled for
 * other machines (portable.h) keeps these facts; where it is loaded they are looked up again, and
 * the instructions that contain their numbers are changed.
 */
#ifndef RUT_SCRIPT_FACT_H
#define RUT_SCRIPT_FACT_H

#include <stdint.h>

#include "script/source.h"

struct rut_script_prog;
struct rut_script_program;

enum rut_fact_kind {
	RUT_FACT_FIELD,	     /* of: "struct task_struct", name: "pid", "a.b" */
	RUT_FACT_TRACEPOINT, /* group, of: the event; name: its field */
	RUT_FACT_RAW,	     /* of: a raw tracepoint; name: its parameter */
	RUT_FACT_FUNCTION,   /* of: a function of the kernel; name: its parameter */
	RUT_FACT_SIZE,	     /* of: a structure */
	RUT_FACT_ENUM,	     /* name: an enumerator */
	RUT_FACT_CPUS,
	RUT_FACT_KINDS
};

struct rut_script_fact {
	enum rut_fact_kind kind;
	const char *group, *of, *name; /* in the arena; NULL: not of this kind */
	int64_t value;		       /* offset, size, number */
	uint32_t size;		       /* of the field */
	uint32_t bits, shift;	       /* of a bit field; RUT_FIELD_DATA_LOC */
	struct rut_span span;
};

/* A number of an instruction that is `value` of a fact, or contains it. */
struct rut_script_relo {
	uint32_t insn, fact;
};

/* Its number, from 1; 0: the script is not compiled for other machines. */
uint32_t rut_fact_add(struct rut_script_program *p, const struct rut_script_fact *f);

/* Of this machine. 0 or -EINVAL: reported at the fact's position. */
int rut_fact_find(struct rut_script_program *p, const struct rut_script_fact *f, int64_t *ret);

/* Changes the instructions of all programs to the facts of this machine. 0, -EINVAL or -ENOMEM. */
int rut_fact_relocate(struct rut_script_program *p);

#endif
