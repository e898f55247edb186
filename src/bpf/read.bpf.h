/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads kernel memory behind pointers that BTF gives no type, so that a direct load is not allowed.
 * The helper for that is forbidden under lockdown 'confidentiality'. Since Linux 6.2 such a pointer
 * can be cast to a type instead: here to one that is nothing but two 64-bit numbers.
 */
#ifndef RUT_BPF_READ_BPF_H
#define RUT_BPF_READ_BPF_H

#include <bpf/bpf_core_read.h>

#include "bpf/ring.bpf.h"

#ifndef RUT_NO_BTF
struct timespec64 {
	__s64 tv_sec;
	long tv_nsec;
} __attribute__((preserve_access_index));

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;
#endif

/*
 * Copies `size` bytes, a constant of at most 16. Returns less than 0 where the kernel has no means
 * for it; with `needed` such a kernel refuses the program instead, because of the call of a
 * function that it lacks, and user space leaves the program's event out.
 */
static __always_inline long rut_read_kernel(void *to, const __u32 size, const void *from,
					    const bool needed)
{
#ifndef RUT_NO_BTF
	if (conf.read_kernel == RUT_READ_CAST || (conf.read_kernel == RUT_READ_NONE && needed)) {
		struct timespec64 *t =
			bpf_rdonly_cast(from, bpf_core_type_id_kernel(struct timespec64));
		__u64 words[2] = {(__u64)t->tv_sec, size > 8 ? (__u64)t->tv_nsec : 0};

		__builtin_memcpy(to, words, size);
		return 0;
	}
#endif
	if (conf.read_kernel == RUT_READ_HELPER)
		return bpf_probe_read_kernel(to, size, from);
	__builtin_memset(to, 0, size);
	return -1;
}

#endif
