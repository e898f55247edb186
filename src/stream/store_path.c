/* SPDX-License-Identifier: MIT */
/* Names and directories of the store: every one is opened relative to the one above it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "stream/store_internal.h"

#define DEPTH 8

bool rut_store_safe_name(const char *name)
{
	size_t len = strlen(name);

	if (!len || len > RUT_RELAY_NAME_MAX || name[0] == '.')
		return false;
	for (const unsigned char *p = (const void *)name; *p; p++)
		if (*p < ' ' || *p == 0x7f || *p == '/')
			return false;
	return true;
}

int rut_store_dir(int at, const char *name)
{
	int fd;

	if (mkdirat(at, name, 0750) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int rut_store_path(int at, const char *path)
{
	_cleanup_close_ int fd = fcntl(at, F_DUPFD_CLOEXEC, 3);
	int depth = 0;

	while (fd >= 0 && *path) {
		size_t len = strcspn(path, "/");
		char name[RUT_RELAY_NAME_MAX + 1];
		int next;

		if (len > RUT_RELAY_NAME_MAX || ++depth > DEPTH)
			return -EINVAL;
		memcpy(name, path, len);
		name[len] = '\0';
		if (!rut_store_safe_name(name))
			return -EINVAL;
		next = rut_store_dir(fd, name);
		close(fd);
		fd = next;
		path += len + (path[len] == '/');
	}
	return fd < 0 ? fd : RUT_TAKE_FD(fd);
}

int rut_store_open(const struct rut_store *s, const char *path)
{
	return rut_store_path(s->fd, path);
}

bool rut_store_safe_path(const char *path)
{
	int depth = 0;

	while (*path) {
		size_t len = strcspn(path, "/");
		char name[RUT_RELAY_NAME_MAX + 1];

		if (len > RUT_RELAY_NAME_MAX || ++depth > DEPTH)
			return false;
		memcpy(name, path, len);
		name[len] = '\0';
		if (!rut_store_safe_name(name))
			return false;
		path += len + (path[len] == '/');
	}
	return depth > 0;
}

int rut_store_find(const struct rut_store *s, const char *path)
{
	struct stat st;

	/* Only checked here: rut_store_path() follows no links, and what it needs not make it
	 * opens.
	 */
	if (!rut_store_safe_path(path))
		return -EINVAL;
	if (fstatat(s->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return rut_store_path(s->fd, path);
}

int rut_store_lock(int fd)
{
	return flock(fd, LOCK_EX) < 0 ? -errno : 0;
}
