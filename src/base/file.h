/* SPDX-License-Identifier: MIT */
#ifndef RUT_BASE_FILE_H
#define RUT_BASE_FILE_H

#include <stddef.h>

/* Writes all of it, by as many calls as that takes. Returns 0, or -errno with a part written. */
int rut_file_write(int fd, const void *data, size_t len);

/*
 * Opens a regular file for reading. What the path names is not ours to choose, so what is something
 * else is not opened: a pipe would wait for a writer, and some devices act when they are opened.
 * Returns a descriptor, -EINVAL for what is not a regular file, or -errno.
 */
int rut_file_open_regular(const char *path);

/*
 * Makes the directory DIR/NAME, or NAME-1 and so on when that exists; `path` gets which. Returns 0,
 * or -errno for that path.
 */
int rut_file_new_dir(char *path, size_t size, const char *dir, const char *name);

#endif
