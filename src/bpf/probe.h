/* SPDX-License-Identifier: MIT */
/* Shared by probe.bpf.c and user space: what a probe's program does at a site. */
#ifndef RUT_BPF_PROBE_H
#define RUT_BPF_PROBE_H

#include <linux/types.h>

#define RUT_PROBE_ARGS	12
#define RUT_PROBE_SITES 512
#define RUT_PROBE_RUNS	12
#define RUT_PROBE_STRS	4

/* Where records of probes are put together: so many slots a CPU, shared by all of a session. */
#define RUT_PROBE_TURNS		6
#define RUT_PROBE_SCRATCH_BYTES 21456

enum rut_arg_kind {
	RUT_ARG_CONST,	/* value */
	RUT_ARG_REG,	/* the register at `reg` of pt_regs */
	RUT_ARG_MEM,	/* memory at base + index * scale + value */
	RUT_ARG_PLACE,	/* a register + value */
	RUT_ARG_MISSING /* cannot be known: value is recorded instead */
};

enum rut_arg_form {
	RUT_ARG_UNSIGNED,
	RUT_ARG_SIGNED,
	RUT_ARG_FLOAT, /* the bits are recorded as they are */
};

struct rut_probe_arg {
	__s64 value;
	__s16 reg;   /* offset in pt_regs; -1: none */
	__s16 index; /* the same */
	__u8 kind;
	__u8 scale; /* as a shift */
	__u8 bytes; /* 1, 2, 4, 8 */
	__u8 form;  /* enum rut_arg_form */
};

_Static_assert(sizeof(struct rut_probe_arg) == 16, "argument");

/* One site: the arguments can lie elsewhere at each place where a probe was inlined. */
struct rut_probe_site {
	struct rut_probe_arg args[RUT_PROBE_ARGS];
};

/* Constants of one probe or tracepoint. */
struct rut_probe_conf {
	__u32 id;      /* of the event */
	__u32 nargs;   /* of a probe */
	__u32 strings; /* bit i: argument i is the address of a string */
	__u32 nruns;   /* of a tracepoint: runs of bytes to copy */
	__u32 nstrs;   /* of a tracepoint: __data_loc strings */
	__u16 run_from[RUT_PROBE_RUNS];
	__u16 run_len[RUT_PROBE_RUNS];
	__u16 str_at[RUT_PROBE_STRS];
	__u8 size[RUT_PROBE_ARGS]; /* of the field of a number: 1, 2, 4, 8 bytes */
};

#endif
