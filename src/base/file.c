/* SPDX-License-Identifier: MIT */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define TRIES 1000 /* names */

int rut_file_write(int fd, const void *data, size_t len)
{
	for (const char *p = data; len;) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int rut_file_open_regular(const char *path)
{
	_cleanup_close_ int place = open(path, O_PATH | O_CLOEXEC);
	char name[40];
	struct stat st;
	int fd;

	if (place < 0 || fstat(place, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", place);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int rut_file_new_dir(char *path, size_t size, const char *dir, const char *name)
{
	for (int i = 0; i <= TRIES; i++) {
		int n = i ? snprintf(path, size, "%s/%s-%d", dir, name, i)
			  : snprintf(path, size, "%s/%s", dir, name);

		if (n < 0 || (size_t)n >= size)
			return -ENAMETOOLONG;
		if (!mkdir(path, 0750))
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}
