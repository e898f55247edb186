/* SPDX-License-Identifier: MIT */
/*
 * The program of an event class: how to get from the end of a record's header to its end.
 *
 * A segment is a part of the record with its fields at constant distances from its start.
 * It begins where alignment or a field of unknown size makes the distance unknown.
 */
#ifndef RUT_CTF_PROGRAM_H
#define RUT_CTF_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

struct rut_ctf_type;

enum rut_ctf_op {
	RUT_CTF_OP_END,
	RUT_CTF_OP_FIXED,    /* align, note the segment, pass `bits` */
	RUT_CTF_OP_SAVE,     /* regs[type->reg] = the integer at (seg, off) */
	RUT_CTF_OP_STRING,   /* align to a byte, note the segment, pass up to and with the NUL */
	RUT_CTF_OP_SEQUENCE, /* align, note, pass regs[type->len_reg] elements, `bits` each */
	RUT_CTF_OP_ANY,	     /* align, note, walk over the type */
};

struct rut_ctf_step {
	uint8_t op;
	uint16_t seg;
	uint32_t align; /* bits */
	uint32_t off;	/* SAVE */
	uint64_t bits;
	const struct rut_ctf_type *type;
};

struct rut_ctf_program {
	uint32_t n_steps, n_segs;
	struct rut_ctf_step *steps; /* the last one is OP_END */
};

#endif
