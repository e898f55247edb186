/* SPDX-License-Identifier: MIT */
#include "probe/debug.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "probe/elf_file.h"
#include "probe/symbols.h"

static const char store[] = "/usr/lib/debug";

static bool has_id(const char *path, const uint8_t *id, size_t id_len)
{
	uint8_t found[RUT_BUILD_ID_MAX];

	return !access(path, R_OK) && rut_elf_build_id(path, found) == id_len &&
	       !memcmp(found, id, id_len);
}

static bool id_path(const char *root, const uint8_t *id, size_t id_len, char *ret, size_t size)
{
	int n = snprintf(ret, size, "%s%s/.build-id/%02x/", root, store, id[0]);

	for (size_t i = 1; i < id_len && n > 0 && (size_t)n < size; i++)
		n += snprintf(ret + n, size - (size_t)n, "%02x", id[i]);
	if (n > 0 && (size_t)n < size)
		n += snprintf(ret + n, size - (size_t)n, ".debug");
	return n > 0 && (size_t)n < size;
}

int rut_debug_find_id(const char *root, const uint8_t *id, size_t id_len, char *ret, size_t size)
{
	if (id_len < 2)
		return -ENOENT;
	if (id_path(root, id, id_len, ret, size) && has_id(ret, id, id_len))
		return 0;
	if (*root && id_path("", id, id_len, ret, size) && has_id(ret, id, id_len))
		return 0;
	return -ENOENT;
}

/* The CRC-32 of IEEE 802.3. */
static uint32_t crc_step(uint32_t crc, const uint8_t *p, size_t n)
{
	static uint32_t table[256];

	if (!__atomic_load_n(&table[1], __ATOMIC_ACQUIRE)) {
		/* The first entry that is read is written last: threads may come here at once. */
		for (uint32_t i = 255; i; i--) {
			uint32_t c = i;

			for (int k = 0; k < 8; k++)
				c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
			__atomic_store_n(&table[i], c, __ATOMIC_RELEASE);
		}
	}
	while (n--)
		crc = table[(crc ^ *p++) & 255] ^ (crc >> 8);
	return crc;
}

static bool has_crc(const char *path, uint32_t wanted)
{
	_cleanup_close_ int fd = rut_file_open_regular(path);
	_cleanup_free_ uint8_t *buf = malloc(1 << 16);
	uint32_t crc = ~0u;
	ssize_t n;

	if (fd < 0 || !buf)
		return false;
	while ((n = read(fd, buf, 1 << 16)) > 0)
		crc = crc_step(crc, buf, (size_t)n);
	return !n && ~crc == wanted;
}

/* What a file says about its debug file: a name, and its checksum. */
struct link {
	char name[NAME_MAX + 1];
	uint32_t crc;
	uint8_t id[RUT_BUILD_ID_MAX];
	size_t id_len;
};

static bool read_link(const char *path, struct link *ret)
{
	_cleanup_(rut_elf_file_fini)
	struct rut_elf_file e;
	struct rut_err ignored = RUT_ERR_INIT;
	Elf_Data *data;
	GElf_Shdr sh;
	Elf_Scn *scn;
	size_t len, at;

	if (rut_elf_file_init(&e, path, &ignored))
		return false;
	scn = rut_elf_file_section(&e, ".gnu_debuglink", &sh);
	data = scn && sh.sh_type == SHT_PROGBITS ? elf_rawdata(scn, NULL) : NULL;
	len = data && data->d_buf ? strnlen(data->d_buf, data->d_size) : 0;
	at = (len + 4) & ~(size_t)3;
	/* A name, not a path. */
	if (!len || len > NAME_MAX || data->d_size < at + 4 || memchr(data->d_buf, '/', len))
		return false;
	memcpy(ret->name, data->d_buf, len + 1);
	memcpy(&ret->crc, (char *)data->d_buf + at, sizeof(ret->crc));
	return true;
}

static bool is_linked(const struct link *l, const char *path, const char *self)
{
	uint8_t id[RUT_BUILD_ID_MAX];
	size_t len;

	if (!strcmp(path, self) || access(path, R_OK) < 0)
		return false;
	len = rut_elf_build_id(path, id);
	if (len && l->id_len)
		return len == l->id_len && !memcmp(id, l->id, len);
	return has_crc(path, l->crc);
}

/* Beside a file with that path: `dir` is a path inside `root`. */
static bool try_dir(const struct link *l, const char *root, const char *dir, const char *self,
		    char *ret, size_t size)
{
	static const char *const places[] = {"", "/.debug", NULL};
	int n;

	for (size_t i = 0; i < 3; i++) {
		if (places[i])
			n = snprintf(ret, size, "%s%s%s/%s", root, dir, places[i], l->name);
		else
			n = snprintf(ret, size, "%s%s%s/%s", root, store, dir, l->name);
		if (n > 0 && (size_t)n < size && is_linked(l, ret, self))
			return true;
	}
	return false;
}

static void cut_name(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		*slash = '\0';
}

int rut_debug_find(const char *root, const char *path, char *ret, size_t size)
{
	struct link l = {.id_len = rut_elf_build_id(path, l.id)};
	char dir[PATH_MAX];
	ssize_t n;

	if (!rut_debug_find_id(root, l.id, l.id_len, ret, size))
		return 0;
	if (!read_link(path, &l))
		return -ENOENT;
	/* The file may be a link itself, as /proc/PID/exe is. */
	n = readlink(path, dir, sizeof(dir) - 1);
	if (n > 0) {
		dir[n] = '\0';
		cut_name(dir);
		if (*dir == '/' && try_dir(&l, root, dir, path, ret, size))
			return 0;
	}
	snprintf(dir, sizeof(dir), "%s", path + strlen(root));
	cut_name(dir);
	return try_dir(&l, root, dir, path, ret, size) ? 0 : -ENOENT;
}

void rut_debug_root(const char *path, char *ret, size_t size)
{
	int end = 0;

	*ret = '\0';
	if (sscanf(path, "/proc/%*[0-9]/root%n", &end) != EOF && end && path[end] == '/')
		snprintf(ret, size, "%.*s", end, path);
	end = 0;
	if (sscanf(path, "/proc/%*[0-9]/exe%n", &end) != EOF && end && !path[end])
		snprintf(ret, size, "%.*sroot", end - 3, path);
}
