/* SPDX-License-Identifier: MIT */
#include "ruby/native.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

/* A loader that was started as a program has no other loader below it. */
static bool is_loader(const struct rut_mapping *m)
{
	const char *name = rut_mapping_basename(m);

	return !strncmp(name, "ld-linux", 8) || !strncmp(name, "ld-2.", 5) ||
	       !strncmp(name, "ld.so", 5);
}

bool rut_target_is_native(const struct rut_target *t)
{
	_cleanup_buf_ struct rut_buf auxv = RUT_BUF_INIT;
	const struct rut_mapping *libc;
	uint64_t base = 0, entry = 0;
	char path[64];
	Elf64_auxv_t a;

	if (rut_target_libc(t, &libc) != RUT_LIBC_GLIBC)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/auxv", t->pid);
	if (rut_buf_read_file(&auxv, path, 1 << 16) < 0)
		return true;
	for (size_t at = 0; at + sizeof(a) <= auxv.len; at += sizeof(a)) {
		memcpy(&a, auxv.data + at, sizeof(a));
		if (a.a_type == AT_BASE)
			base = a.a_un.a_val;
		else if (a.a_type == AT_ENTRY)
			entry = a.a_un.a_val;
	}
	if (base || !entry)
		return true;
	for (size_t i = 0; i < t->map_count; i++)
		if (entry >= t->maps[i].start && entry < t->maps[i].end)
			return is_loader(&t->maps[i]);
	return true;
}
