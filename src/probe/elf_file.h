/* SPDX-License-Identifier: MIT */
/* Inside src/probe: an ELF file that is open. */
#ifndef RUT_PROBE_ELF_FILE_H
#define RUT_PROBE_ELF_FILE_H

#include <gelf.h>
#include <libelf.h>
#include <stddef.h>

struct rut_err;

struct rut_elf_file {
	int fd;
	Elf *elf;
	size_t phnum;
};

/* -ENOEXEC: no 64-bit ELF file. Call fini in every case. */
int rut_elf_file_init(struct rut_elf_file *e, const char *path, struct rut_err *err);
void rut_elf_file_fini(struct rut_elf_file *e);

/* The section of that name, or NULL. */
Elf_Scn *rut_elf_file_section(const struct rut_elf_file *e, const char *name, GElf_Shdr *ret);

#endif
