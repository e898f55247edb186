/* SPDX-License-Identifier: MIT */
/* What the iterators of statedump.bpf.c write. */
#ifndef RUT_BPF_STATEDUMP_H
#define RUT_BPF_STATEDUMP_H

#include <linux/types.h>

/* An open file of a process: the kernel's f_mode, of which /proc shows nothing. */
struct rut_open_file {
	__s32 pid;
	__u32 fd;
	__u32 mode;
};

#endif
