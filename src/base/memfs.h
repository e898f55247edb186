/* SPDX-License-Identifier: MIT */
#ifndef RUT_BASE_MEMFS_H
#define RUT_BASE_MEMFS_H

#include <stdbool.h>

struct rut_err;

/*
 * Makes a file system in memory that has no place in the tree of files: it is freed with its last
 * user, however that ends. Its files are reached through /proc/self/fd/N/. Returns a descriptor of
 * its root, or -errno.
 *
 * Only the superuser may mount. With `unshare` a process that may not gets user and mount
 * namespaces of its own first, in which it keeps its user and group; it must have one thread.
 */
int rut_memfs_mount(bool unshare, struct rut_err *err);

#endif
