/* SPDX-License-Identifier: MIT */
#include "session/sites.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/maps.h"
#include "bpf/probe.h"

#define FILES_MAX 128
#define SITES_MAX 16384

int rut_sites_pid(const char *binary)
{
	return *binary && strspn(binary, "0123456789") == strlen(binary) ? atoi(binary) : 0;
}

void rut_sites_fini(struct rut_sites *s)
{
	free(s->list);
	*s = (struct rut_sites){0};
}

static int same_probe(const struct rut_site *a, const struct rut_site *b)
{
	int rc = strcmp(a->provider, b->provider);

	return rc ? rc : strcmp(a->name, b->name);
}

static int by_probe(const void *a, const void *b)
{
	const struct rut_site *x = a, *y = b;
	int rc = same_probe(x, y);

	return rc ? rc : (x->order > y->order) - (x->order < y->order);
}

size_t rut_sites_end(const struct rut_sites *s, size_t from)
{
	size_t end = from;

	while (end < s->count && !same_probe(&s->list[from], &s->list[end]))
		end++;
	return end;
}

size_t rut_sites_probes(const struct rut_sites *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->count; i = rut_sites_end(s, i))
		n++;
	return n;
}

/* A new site at the end of the list, zeroed; NULL: no room. */
static struct rut_site *add(struct rut_sites *s)
{
	if (s->count == SITES_MAX)
		return NULL;
	if (s->count % 64 == 0) {
		void *more = reallocarray(s->list, s->count + 64, sizeof(*s->list));

		if (!more)
			return NULL;
		s->list = more;
	}
	s->list[s->count] = (struct rut_site){.order = s->count};
	return &s->list[s->count++];
}

struct file {
	char path[512];
	dev_t dev;
	ino_t ino;
};

/* The same file has several paths: a program's is also /proc/PID/exe. */
static size_t add_file(struct file *files, size_t n)
{
	struct stat st;

	if (stat(files[n].path, &st) < 0)
		return n;
	for (size_t i = 0; i < n; i++)
		if (files[i].dev == st.st_dev && files[i].ino == st.st_ino)
			return n;
	files[n].dev = st.st_dev;
	files[n].ino = st.st_ino;
	return n + 1;
}

/* The program of a process, then what else it has mapped for execution. */
static size_t mapped_files(int pid, struct file *files, size_t max)
{
	_cleanup_maps_ struct rut_maps maps = RUT_MAPS_INIT;
	struct rut_mapping m;
	size_t n;

	snprintf(files[0].path, sizeof(files[0].path), "/proc/%d/exe", pid);
	n = add_file(files, 0);
	if (rut_maps_open(&maps, pid) < 0)
		return n;
	while (n < max && rut_maps_next(&maps, &m)) {
		bool in_memory = !strncmp(m.path, "/memfd:", 7);

		if (m.path[0] != '/' || !m.exec || (m.deleted && !in_memory))
			continue;
		/* What is in memory only has no path. */
		if (in_memory)
			snprintf(files[n].path, sizeof(files[n].path),
				 "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, m.start, m.end);
		else
			snprintf(files[n].path, sizeof(files[n].path), "/proc/%d/root%s", pid,
				 m.path);
		n = add_file(files, n);
	}
	return n;
}

typedef int (*look_fn)(struct rut_sites *s, const char *path, const char *a, const char *b,
		       struct rut_err *err);

/* In the file that `binary` means, or in each file of the process. */
static int look(struct rut_sites *s, const char *binary, look_fn fn, const char *a, const char *b,
		struct rut_err *err)
{
	_cleanup_free_ struct file *files = calloc(FILES_MAX, sizeof(*files));
	int pid = rut_sites_pid(binary), rc = 0;
	size_t n;

	if (!files)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (!pid) {
		rc = rut_elf_find(binary, 0, files[0].path, sizeof(files[0].path), err);
		/* cppcheck-suppress memleak ; it has a cleanup attribute */
		return rc ? rc : fn(s, files[0].path, a, b, err);
	}
	n = mapped_files(pid, files, FILES_MAX);
	for (size_t i = 0; i < n && rc != -ENOMEM; i++) {
		struct rut_err ignored = RUT_ERR_INIT;

		rc = fn(s, files[i].path, a, b, &ignored);
	}
	return rc == -ENOMEM ? rut_err_set(err, ENOMEM, "out of memory") : 0;
}

/* Sorts, and refuses what cannot be attached as a whole. */
static int finish(struct rut_sites *s, struct rut_err *err)
{
	qsort(s->list, s->count, sizeof(*s->list), by_probe);
	for (size_t i = 0, end; i < s->count; i = end) {
		end = rut_sites_end(s, i);
		if (end - i > RUT_PROBE_SITES)
			return rut_err_set(err, E2BIG, "'%s' is at %zu sites: %d can be recorded",
					   s->list[i].name, end - i, RUT_PROBE_SITES);
	}
	return 0;
}

static int look_usdt(struct rut_sites *s, const char *path, const char *provider, const char *name,
		     struct rut_err *err)
{
	_cleanup_free_ struct rut_usdt_site *found = NULL;
	size_t count = 0;
	int rc = rut_elf_usdt(path, provider, name, &found, &count, err);

	for (size_t i = 0; i < count && !rc; i++) {
		struct rut_site *site = add(s);

		if (!site)
			return rut_err_set(err, ENOMEM, "out of memory");
		snprintf(site->path, sizeof(site->path), "%s", path);
		memcpy(site->provider, found[i].provider, sizeof(site->provider));
		memcpy(site->name, found[i].name, sizeof(site->name));
		memcpy(site->args, found[i].args, sizeof(site->args));
		site->offset = found[i].offset;
		site->address = found[i].address;
		site->semaphore = found[i].semaphore;
	}
	return rc;
}

int rut_sites_usdt(struct rut_sites *ret, const char *binary, const char *provider,
		   const char *name, struct rut_err *err)
{
	struct rut_sites s = {0};
	int rc = look(&s, binary, look_usdt, provider, name, err);

	if (!rc && !s.count)
		rc = rut_err_set(err, ENOENT, "'%s' has no probe '%s:%s'", binary, provider, name);
	if (!rc)
		rc = finish(&s, err);
	if (rc)
		rut_sites_fini(&s);
	else
		*ret = s;
	return rc;
}

/* Of these functions, is that name known from an earlier file, or that address by another name? */
static bool is_known(const struct rut_sites *s, size_t earlier, const struct rut_function *f,
		     bool glob)
{
	for (size_t i = 0; i < s->count; i++) {
		bool same_name = !strcmp(s->list[i].name, f->name);

		if (i < earlier ? same_name : s->list[i].offset == f->offset && (glob || same_name))
			return true;
	}
	return false;
}

static int look_functions(struct rut_sites *s, const char *path, const char *pattern,
			  const char *unused, struct rut_err *err)
{
	_cleanup_free_ struct rut_function *found = NULL;
	bool glob = strpbrk(pattern, "*?[");
	size_t count = 0, earlier = s->count;
	int rc = rut_elf_functions(path, pattern, &found, &count, err);

	for (size_t i = 0; i < count && !rc; i++) {
		struct rut_site *site;

		if (is_known(s, earlier, &found[i], glob))
			continue;
		site = add(s);
		if (!site)
			return rut_err_set(err, ENOMEM, "out of memory");
		snprintf(site->path, sizeof(site->path), "%s", path);
		memcpy(site->name, found[i].name, sizeof(site->name));
		site->offset = found[i].offset;
		site->address = found[i].address;
	}
	return rc;
}

int rut_sites_functions(struct rut_sites *ret, const char *binary, const char *pattern,
			struct rut_err *err)
{
	struct rut_sites s = {0};
	int rc = look(&s, binary, look_functions, pattern, NULL, err);

	if (!rc && !s.count)
		rc = rut_err_set(err, ENOENT,
				 rut_sites_pid(binary) ? "process %s has no function '%s'"
						       : "'%s' has no function '%s'",
				 binary, pattern);
	if (!rc)
		rc = finish(&s, err);
	if (rc)
		rut_sites_fini(&s);
	else
		*ret = s;
	return rc;
}
