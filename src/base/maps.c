/* SPDX-License-Identifier: MIT */
#include "base/maps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static bool cut_end(char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);

	if (len <= n || strcmp(text + len - n, end) != 0)
		return false;
	text[len - n] = '\0';
	return true;
}

bool rut_mapping_parse(char *line, struct rut_mapping *ret)
{
	struct rut_mapping m = {0};
	char perms[5];
	int at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &m.start,
		   &m.end, perms, &m.offset, &m.dev_major, &m.dev_minor, &m.inode, &at) < 7 ||
	    !at)
		return false;
	m.read = perms[0] == 'r';
	m.write = perms[1] == 'w';
	m.exec = perms[2] == 'x';
	m.shared = perms[3] == 's';
	m.deleted = cut_end(line + at, " (deleted)");
	m.path = line + at;
	*ret = m;
	return true;
}

void rut_mapping_name(const struct rut_mapping *m, char *ret, size_t size)
{
	snprintf(ret, size, "%s%s", m->path, m->deleted ? " (deleted)" : "");
}

int rut_mapping_open(pid_t pid, const struct rut_mapping *m)
{
	char name[1200];
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, m->start,
		 m->end);
	fd = rut_file_open_regular(name);
	if (fd >= 0 || m->deleted)
		return fd;
	snprintf(name, sizeof(name), "/proc/%d/root%s", pid, m->path);
	return rut_file_open_regular(name);
}

int rut_maps_open(struct rut_maps *maps, pid_t pid)
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	maps->file = fopen(name, "re");
	return maps->file ? 0 : -errno;
}

bool rut_maps_next(struct rut_maps *maps, struct rut_mapping *ret)
{
	while (maps->file && getline(&maps->line, &maps->room, maps->file) > 0) {
		maps->line[strcspn(maps->line, "\n")] = '\0';
		if (rut_mapping_parse(maps->line, ret))
			return true;
	}
	return false;
}

void rut_maps_fini(struct rut_maps *maps)
{
	if (maps->file)
		fclose(maps->file);
	free(maps->line);
	*maps = (struct rut_maps)RUT_MAPS_INIT;
}
