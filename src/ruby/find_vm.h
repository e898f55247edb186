/* SPDX-License-Identifier: MIT */
/*
 * Where the Ruby VM of a process keeps what the readers of its frames need. Read from outside, from
 * memory only: the process is not stopped. What no symbol names (libraries are stripped) is found
 * by its structure, and taken only when everything that it points to is what it should be.
 */
#ifndef RUT_RUBY_FIND_VM_H
#define RUT_RUBY_FIND_VM_H

#include <stdint.h>
#include <sys/types.h>

#include "bpf/ruby.h"

struct rut_err;

/*
 * Fills *ret (but for `generation`). Returns 0; -ENOEXEC: not Ruby; -EAGAIN: the VM is being made;
 * -ENOTSUP: a Ruby with unknown layouts; or another -errno.
 */
int rut_ruby_vm_find(struct rut_ruby_vm *ret, pid_t pid, struct rut_err *err);

#endif
