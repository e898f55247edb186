/* SPDX-License-Identifier: MIT */
#include "stream/nats_complete.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "stream/place.h"
#include "stream/store.h"

#define LIST_MAX (64u << 20)

/* Is the stream of a line "PART/STREAM BYTES" there, with nothing missing, and metadata beside it?
 */
static bool line_is_there(int dir, const char *line, size_t len)
{
	const char *blank = memrchr(line, ' ', len), *slash;
	unsigned long long bytes;
	char path[1024];
	struct stat st;

	/* A list that is none of ours is never complete. */
	if (!blank || len >= 512)
		return false;
	slash = memrchr(line, '/', (size_t)(blank - line));
	if (!slash || memchr(line, '/', (size_t)(slash - line)) || line[0] == '.')
		return false;
	bytes = strtoull(blank + 1, NULL, 10);
	snprintf(path, sizeof(path), "%.*s/metadata", (int)(slash - line), line);
	if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	snprintf(path, sizeof(path), "%.*s/.%.*s.gaps", (int)(slash - line), line,
		 (int)(blank - slash - 1), slash + 1);
	if (!fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW))
		return false;
	snprintf(path, sizeof(path), "%.*s", (int)(blank - line), line);
	/* A file without packets was never made. */
	return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ? !bytes
								: (uint64_t)st.st_size >= bytes;
}

static bool all_is_there(int dir, const char *text, size_t len)
{
	const char *end = text + len;

	while (text < end) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));

		if (!nl || !line_is_there(dir, text, (size_t)(nl - text)))
			return false;
		text = nl + 1;
	}
	return true;
}

int rut_nats_complete(int dir)
{
	_cleanup_buf_ struct rut_buf list = RUT_BUF_INIT;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/.list", dir);
	/* Another receiver may have found it complete. */
	if (rut_buf_read_file(&list, path, LIST_MAX) < 0 || list.failed ||
	    !all_is_there(dir, list.data, list.len))
		return 0;
	return renameat(dir, ".list", dir, ".complete") < 0 || fsync(dir) < 0 ? -errno : 1;
}

int rut_nats_list(int dir, const void *text, size_t len)
{
	/* First the list: who brings the last packet meanwhile must see it. */
	int rc = rut_place_file(dir, ".list", text, len);

	return rc ? rc : rut_nats_complete(dir);
}

int rut_nats_part_completes(int part)
{
	_cleanup_close_ int dir = -1;
	int rc;

	if (faccessat(part, "../.list", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	dir = openat(part, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	rc = rut_store_lock(dir);
	return rc ? rc : rut_nats_complete(dir);
}
