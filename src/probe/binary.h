/* SPDX-License-Identifier: MIT */
/*
 * Where the probes of a binary are: USDT notes (.note.stapsdt) and symbols, as offsets in the file,
 * which is what uprobes want. The file is untrusted.
 */
#ifndef RUT_PROBE_BINARY_H
#define RUT_PROBE_BINARY_H

#include <stddef.h>
#include <stdint.h>

struct rut_err;

#define RUT_PROBE_NAME_MAX 128
#define RUT_PROBE_ARGS_MAX 256

/* One place of a USDT probe; a probe that was inlined has several. */
struct rut_usdt_site {
	char provider[RUT_PROBE_NAME_MAX];
	char name[RUT_PROBE_NAME_MAX];
	char args[RUT_PROBE_ARGS_MAX]; /* "8@%rdi -4@-20(%rbp)" */
	uint64_t offset;	       /* of the nop, in the file */
	uint64_t address;	       /* ... as the file is linked */
	uint64_t semaphore;	       /* in the file; 0: none */
};

/*
 * All USDT sites of a file with a provider and name that match the shell patterns. *ret is
 * allocated (freed by the caller with free()), may be NULL when nothing matches. Returns 0 or
 * -errno.
 */
int rut_elf_usdt(const char *path, const char *provider, const char *name,
		 struct rut_usdt_site **ret, size_t *ret_count, struct rut_err *err);

/* One function of the symbol tables; names that do not fit are left out. */
struct rut_function {
	char name[RUT_PROBE_NAME_MAX];
	uint64_t offset;  /* in the file */
	uint64_t address; /* as the file is linked */
	uint64_t size;	  /* 0: the file does not say */
};

/*
 * All functions with names that match the shell pattern, once for each name and address. *ret is
 * allocated (freed by the caller with free()), may be NULL when nothing matches. Returns 0 or
 * -errno.
 */
int rut_elf_functions(const char *path, const char *pattern, struct rut_function **ret,
		      size_t *ret_count, struct rut_err *err);

/* The address of a symbol of any kind, as the file is linked. -ENOENT: there is none. */
int rut_elf_address(const char *path, const char *symbol, uint64_t *ret_address,
		    struct rut_err *err);

/*
 * The file that `binary` means: a path; the path of a file in /proc/PID/root for a process in a
 * container (`pid` > 0); a program in PATH; a library by its name ("libc.so.6"). 0 or -ENOENT.
 */
int rut_elf_find(const char *binary, int pid, char *ret, size_t size, struct rut_err *err);

#endif
