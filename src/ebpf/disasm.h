/* SPDX-License-Identifier: MIT */
/* eBPF instructions as text, in the verifier's notation. */
#ifndef RUT_EBPF_DISASM_H
#define RUT_EBPF_DISASM_H

#include <linux/bpf.h>
#include <stddef.h>

struct rut_buf;

/* Appends the instruction; returns how many words it has: 1, or 2 for 64-bit constants. */
size_t rut_disasm(const struct bpf_insn *insns, size_t at, struct rut_buf *out);

#endif
