/* SPDX-License-Identifier: MIT */
/*
 * import "file.bt": the text of the file is appended to that of the script, and parsed as part of
 * it, so that a position says which file it is in. A directory stands for its files.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "script/parse_priv.h"

enum { FILES_MAX = 64, FILE_BYTES_MAX = 1 << 20 };

static bool ends(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

static bool was_imported(const struct rut_source *src, const char *path)
{
	for (unsigned i = 0; i < src->nparts; i++)
		if (!strcmp(src->parts[i].name, path))
			return true;
	return false;
}

/* Appends a text to that of the script. */
static int append(struct rut_parser *p, const char *path, const char *text, size_t len)
{
	struct rut_source *src = p->lex.src;
	const char *name = rut_arena_strndup(&p->ast->arena, path, strlen(path));
	size_t begin = src->whole + 1;
	char *all;

	if (!name)
		return -ENOMEM;
	if (src->nparts == FILES_MAX || (len && memchr(text, 0, len))) {
		rut_p_error(p,
			    src->nparts == FILES_MAX ? "more than 64 files are imported"
						     : "'%s' holds a zero byte",
			    path);
		return -EINVAL;
	}
	all = realloc(*src->owner, begin + len + 1);
	if (!all)
		return -ENOMEM;
	all[begin - 1] = '\n';
	if (len)
		memcpy(all + begin, text, len);
	all[begin + len] = 0;
	*src->owner = all;
	src->text = all;
	src->whole = begin + len;
	src->parts[src->nparts++] = (struct rut_source_part){(uint32_t)begin, name};
	return 0;
}

static int append_file(struct rut_parser *p, const char *path)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	int rc = rut_buf_read_file(&text, path, FILE_BYTES_MAX);

	if (rc) {
		rut_p_error(p, "cannot read '%s': %s", path, strerror(-rc));
		return -EINVAL;
	}
	return append(p, path, text.data, text.len);
}

/* The file, or `text` under that name. */
static int parse_part(struct rut_parser *p, const char *path, const char *text)
{
	struct rut_parser outer = *p;
	struct rut_source *src = p->lex.src;
	size_t len = src->len;
	int rc;

	if (!text && was_imported(src, path))
		return 0;
	rc = text ? append(p, path, text, strlen(text)) : append_file(p, path);
	if (rc)
		return rc;
	p->lex.pos = src->parts[src->nparts - 1].begin;
	src->len = src->whole;
	p->depth++;
	p->imported = true;
	rc = rut_p_enter(p) ? rut_p_all(p) : -EINVAL;
	outer.failed = p->failed;
	outer.expansions = p->expansions;
	*p = outer;
	src->len = len;
	return rc;
}

int rut_p_part(struct rut_parser *p, const char *name, const char *text)
{
	return p->lex.src->owner ? parse_part(p, name, text) : 0;
}

static int import_path(struct rut_parser *p, const char *path);

static int import_directory(struct rut_parser *p, const char *path)
{
	struct dirent **list;
	int n = scandir(path, &list, NULL, alphasort), rc = n < 0 ? -EINVAL : 0;
	char file[PATH_MAX];

	if (n < 0)
		rut_p_error(p, "cannot import '%s': %s", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		if (!rc && (ends(list[i]->d_name, ".bt") || ends(list[i]->d_name, ".h"))) {
			snprintf(file, sizeof(file), "%s/%s", path, list[i]->d_name);
			rc = import_path(p, file);
		}
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return rc;
}

/*
 * What everybody may write to, as below /tmp, could be run as root by any user. What its owner and
 * his group may write to is trusted as the script itself is, which may be a user's who runs it with
 * sudo.
 */
static bool is_safe(const char *path, const struct stat *st)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	struct stat d;

	if (!slash)
		return false;
	snprintf(dir, sizeof(dir), "%.*s", slash == path ? 1 : (int)(slash - path), path);
	return !(st->st_mode & S_IWOTH) && !stat(dir, &d) && !(d.st_mode & S_IWOTH);
}

static int import_path(struct rut_parser *p, const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	struct stat st;

	if (!real || stat(real, &st)) {
		rut_p_error(p, "cannot import '%s': %s", path, strerror(errno));
		return -EINVAL;
	}
	if (!is_safe(real, &st)) {
		rut_p_error(p, "'%s' is not imported: everybody may write to it or its directory",
			    path);
		return -EINVAL;
	}
	if (S_ISDIR(st.st_mode))
		return import_directory(p, real);
	if (!ends(real, ".bt") && !ends(real, ".h")) {
		rut_p_error(p,
			    "'%s' is not imported: only .bt and .h files are, since there is no "
			    "compiler of C here",
			    path);
		return -EINVAL;
	}
	return parse_part(p, real, NULL);
}

/* Where the file is that the position is in. */
static void directory_of(const struct rut_source *src, uint32_t pos, char *ret, size_t size)
{
	const char *name = rut_source_name(src, pos), *slash = strrchr(name, '/');

	snprintf(ret, size, "%.*s", slash ? (int)(slash - name + 1) : 0, name);
}

/* import "path"; the path is one of the directory of the script that says so. */
int rut_p_import(struct rut_parser *p)
{
	struct rut_source *src = p->lex.src;
	struct rut_parser at = *p;
	char path[PATH_MAX], name[PATH_MAX / 2];

	rut_p_next(p);
	if (p->tok.kind != RUT_TOK_STRING || !src->owner) {
		rut_p_error(p, "a file is expected: import \"file.bt\";");
		return -EINVAL;
	}
	snprintf(name, sizeof(name), "%.*s", (int)p->tok.span.len - 2,
		 src->text + p->tok.span.pos + 1);
	directory_of(src, at.tok.span.pos, path, sizeof(path) - sizeof(name));
	if (name[0] == '/')
		path[0] = 0;
	strcat(path, name);
	if (import_path(p, path))
		return -EINVAL;
	rut_p_next(p);
	rut_p_take(p, ';');
	return p->failed ? -EINVAL : 1;
}
