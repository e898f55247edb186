/* SPDX-License-Identifier: MIT */
#include "script/library.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#define SUFFIX ".bt"

struct list {
	struct rut_script_entry *entries;
	size_t count;
};

void rut_script_library_free(struct rut_script_entry *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(list[i].name);
		free(list[i].summary);
		free(list[i].path);
	}
	free(list);
}

/* What stands behind the first ": " of a first line that is a comment. */
static char *read_summary(const char *path)
{
	_cleanup_file_ FILE *f = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	size_t room = 0;
	const char *text;

	if (!f || getline(&line, &room, f) < 0 || strncmp(line, "//", 2) != 0)
		return strdup("");
	line[strcspn(line, "\n")] = '\0';
	text = strstr(line, ": ");
	return strdup(text ? text + 2 : "");
}

static int add(struct list *l, const char *dir, const char *file)
{
	size_t len = strlen(file) - strlen(SUFFIX);
	struct rut_script_entry e = {0}, *more;

	for (size_t i = 0; i < l->count; i++)
		if (!strncmp(l->entries[i].name, file, len) && !l->entries[i].name[len])
			return 0;
	more = reallocarray(l->entries, l->count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	l->entries = more;
	e.name = strndup(file, len);
	if (asprintf(&e.path, "%s/%s", dir, file) < 0)
		e.path = NULL;
	e.summary = e.path ? read_summary(e.path) : NULL;
	l->entries[l->count++] = e;
	return e.name && e.summary ? 0 : -ENOMEM;
}

static int add_directory(struct list *l, const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int rc = 0;

	while (d && !rc && (e = readdir(d))) {
		size_t len = strlen(e->d_name);

		if (len > strlen(SUFFIX) && e->d_name[0] != '.' &&
		    !strcmp(e->d_name + len - strlen(SUFFIX), SUFFIX))
			rc = add(l, path, e->d_name);
	}
	if (d)
		closedir(d);
	return rc;
}

static int by_name(const void *a, const void *b)
{
	const struct rut_script_entry *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* "/usr/bin/rutile" -> "/usr/share/rutile/scripts"; the same in the tree of the source. */
static int add_shared(struct list *l)
{
	char exe[PATH_MAX], path[PATH_MAX + 40];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n <= 0)
		return 0;
	exe[n] = '\0';
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(exe, '/');

		if (!slash)
			return 0;
		*slash = '\0';
	}
	snprintf(path, sizeof(path), "%s/share/rutile/scripts", exe);
	return add_directory(l, path);
}

int rut_script_library_list(struct rut_script_entry **ret, size_t *ret_count)
{
	const char *own = getenv("RUTILE_SCRIPTS");
	_cleanup_free_ char *dirs = own ? strdup(own) : NULL;
	struct list l = {0};
	char *save = NULL;
	int rc = own && !dirs ? -ENOMEM : 0;

	for (char *dir = dirs ? strtok_r(dirs, ":", &save) : NULL; dir && !rc;
	     dir = strtok_r(NULL, ":", &save))
		rc = add_directory(&l, dir);
	if (!rc)
		rc = add_shared(&l);
	if (rc) {
		rut_script_library_free(l.entries, l.count);
		return rc;
	}
	if (l.count)
		qsort(l.entries, l.count, sizeof(*l.entries), by_name);
	*ret = l.entries;
	*ret_count = l.count;
	return 0;
}

/* Edits between two words, each at most 31 bytes of them. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[32], m = (unsigned)strnlen(b, 31);

	for (unsigned j = 0; j <= m; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1] && i < 32; i++) {
		unsigned corner = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= m; j++) {
			unsigned best = corner + (a[i - 1] != b[j - 1]);

			corner = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[m];
}

int rut_script_library_find(char **ret_path, const char *name, struct rut_err *err)
{
	struct rut_script_entry *list;
	const char *nearest = NULL;
	unsigned least = 4;
	size_t count;
	int rc = rut_script_library_list(&list, &count);

	if (rc)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = -ENOENT;
	for (size_t i = 0; i < count && rc; i++) {
		unsigned d = distance(name, list[i].name);

		if (!strcmp(name, list[i].name)) {
			*ret_path = RUT_TAKE(list[i].path);
			rc = 0;
		} else if (d < least) {
			least = d;
			nearest = list[i].name;
		}
	}
	if (rc && nearest)
		rut_err_set(err, ENOENT, "no script '%s'; did you mean '%s'?", name, nearest);
	else if (rc)
		rut_err_set(err, ENOENT, "no script '%s'; 'rutile run --list' shows them", name);
	rut_script_library_free(list, count);
	return rc;
}
