/* SPDX-License-Identifier: MIT */
/*
 * Another process as /proc shows it: its mappings, its memory, the symbols of its libraries.
 *
 * Symbols are read from the memory of the process, not from files: the dynamic symbol table is
 * always mapped, so containers, chroots and files replaced by an upgrade make no difference.
 */
#ifndef RUT_RUBY_TARGET_H
#define RUT_RUBY_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/maps.h"

struct rut_err;

struct rut_target {
	pid_t pid;
	int mem_fd;		  /* owned; /proc/PID/mem, or -1 while it was not opened */
	char *maps_text;	  /* owned */
	struct rut_mapping *maps; /* owned; by address */
	size_t map_count;
};

#define RUT_TARGET_INIT                                                                            \
	{                                                                                          \
		.mem_fd = -1                                                                       \
	}

void rut_target_fini(struct rut_target *t);

/* Reads /proc/PID/maps (again). Returns 0 or -errno (-ESRCH: exited, -EACCES: not permitted). */
int rut_target_read_maps(struct rut_target *t, pid_t pid);

/* The same from text that the target takes over, NULL for "out of memory". Returns 0 or -ENOMEM. */
int rut_target_parse_maps(struct rut_target *t, char *text);

/*
 * Opens the memory. The kernel permits it exactly when it permits attaching with ptrace, so this
 * is also the question "may I trace it?". Returns 0 or -errno.
 */
int rut_target_open_memory(struct rut_target *t);

/* Returns 0 or -errno; all of it or nothing. */
int rut_target_read(const struct rut_target *t, uint64_t addr, void *ret, size_t len);
/* At most cap - 1 bytes and a NUL. */
int rut_target_read_string(const struct rut_target *t, uint64_t addr, char *ret, size_t cap);
/* Also into read-only private mappings, when attached. */
int rut_target_write(const struct rut_target *t, uint64_t addr, const void *data, size_t len);

/*
 * Opens a descriptor of a thread of the process, for reading and writing, when it is a memfd of
 * this name. Whatever else has taken its number meanwhile is not touched. Returns the descriptor or
 * -errno; -ENOENT: there is no such thing.
 */
int rut_target_open_memfd(pid_t pid, pid_t tid, int number, const char *name);

/*
 * The same for memory that will be mapped: it is sealed, so that no process can truncate it under
 * our hands. -EPROTO: it cannot be.
 */
int rut_target_open_shared(pid_t pid, int number, const char *name);

/* The error of a process that has closed such a descriptor (`what`). Returns -EPROTO. */
int rut_target_closed(pid_t pid, const char *what, struct rut_err *err);

const struct rut_mapping *rut_target_mapping_at(const struct rut_target *t, uint64_t addr);

/* The first mapping of the file that `m` maps (where its ELF header is), or NULL. */
const struct rut_mapping *rut_target_module_of(const struct rut_target *t,
					       const struct rut_mapping *m);

/* File name of the mapping, without directories and " (deleted)". Borrowed. */
const char *rut_mapping_basename(const struct rut_mapping *m);

/* The next first mapping of an ELF file after `prev` (NULL: the first), or NULL. */
const struct rut_mapping *rut_target_next_module(const struct rut_target *t,
						 const struct rut_mapping *prev);

enum rut_libc {
	RUT_LIBC_NONE, /* statically linked */
	RUT_LIBC_GLIBC,
	RUT_LIBC_MUSL,
};

/* Which C library the process uses, and its first mapping. */
enum rut_libc rut_target_libc(const struct rut_target *t, const struct rut_mapping **ret_module);

struct rut_target_symbol {
	uint64_t addr;
	uint64_t size;
};

/*
 * Finds a defined dynamic symbol of the module that begins at `module`. Needs open memory. Returns
 * 0, -ENOENT, or -ENOEXEC when it is no ELF file that can be read.
 */
int rut_target_find_symbol(const struct rut_target *t, const struct rut_mapping *module,
			   const char *name, struct rut_target_symbol *ret);

/* What /proc/PID/status says. */
struct rut_proc_status {
	char name[64];
	char state; /* R S D T t Z X I */
	pid_t tgid, ppid, tracer, ns_pid;
	uid_t uid;			   /* effective */
	uint64_t sig_pending, sig_blocked; /* of the thread and the process */
	unsigned int threads;
	int seccomp; /* 0, 1 strict, 2 filter; -1 unknown */
};

/* `tid` 0: the process. Returns 0 or -errno. */
int rut_proc_status_read(struct rut_proc_status *ret, pid_t pid, pid_t tid);

/*
 * The same of a process and its tracer, which is read while ret->tracer is not 0. While a tracer
 * detaches, the kernel names the process's parent instead for a moment: that is waited for.
 */
int rut_proc_status_settled(struct rut_proc_status *ret, struct rut_proc_status *ret_tracer,
			    pid_t pid);

/* Name of a user, or the number. */
void rut_user_name(uid_t uid, char *ret, size_t cap);

/* What injecting threads call themselves: they trace for a moment only, and are waited for. */
#define RUT_INJECT_THREAD_NAME "rutile-inject"

/*
 * Whether a process can be traced: 0, or -errno and the reason in one line, with what to do about
 * it: exited, zombie, stopped, traced by another, not permitted, 32 bits. Reads the mappings and
 * opens the memory of `t`.
 */
int rut_target_check(struct rut_target *t, pid_t pid, struct rut_err *err);

bool rut_have_cap_sys_ptrace(void);

/* kernel.yama.ptrace_scope, or -1 when the kernel has no Yama. */
int rut_yama_scope(void);

/* The reason for EPERM on attaching to `pid`. Returns -EPERM. */
int rut_target_explain_eperm(pid_t pid, struct rut_err *err);

#endif
