/* SPDX-License-Identifier: MIT */
#include "base/file.h"

#include <errno.h>
#include <unistd.h>

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
