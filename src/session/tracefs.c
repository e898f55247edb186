/* SPDX-License-Identifier: MIT */
#include "session/tracefs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/tracefs.h"

#define TRACEFS "/sys/kernel/tracing"

int rut_tracefs_find(const char *category, const char *pattern, struct rut_strtab *ret,
		     struct rut_err *err)
{
	char path[256];
	DIR *d;
	int rc = rut_tracefs_need(err);

	if (rc)
		return rc;
	snprintf(path, sizeof(path), TRACEFS "/events/%s", category);
	d = strchr(category, '/') || category[0] == '.' ? NULL : opendir(path);
	if (!d)
		return rut_err_set(err, ENOENT, "the kernel has no tracepoints '%s:...'", category);
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_type == DT_DIR && e->d_name[0] != '.' && !fnmatch(pattern, e->d_name, 0) &&
		    rut_strtab_intern(ret, e->d_name, strlen(e->d_name)) < 0)
			rc = -ENOMEM;
	closedir(d);
	if (rc)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (!ret->count)
		return rut_err_set(err, ENOENT, "the kernel has no tracepoint '%s:%s'", category,
				   pattern);
	return 0;
}

/* One "field:TYPE NAME[N];\toffset:O;\tsize:S;\tsigned:X;" */
struct line {
	char type[128];
	char name[48];
	unsigned int offset, size, is_signed;
	bool array;
	unsigned int count; /* elements of an array; 0: said by a name */
};

static bool parse_line(const char *text, size_t len, struct line *ret)
{
	const char *semi = memchr(text, ';', len), *p, *start;
	char declaration[192];
	size_t n;

	*ret = (struct line){0};
	if (!semi || (size_t)(semi - text) >= sizeof(declaration) ||
	    sscanf(semi, "; offset:%u; size:%u; signed:%u", &ret->offset, &ret->size,
		   &ret->is_signed) != 3)
		return false;
	n = (size_t)(semi - text);
	memcpy(declaration, text, n);
	declaration[n] = '\0';
	p = declaration + n;
	/* The name is the last word; an array's length stands behind it. */
	if (p > declaration && p[-1] == ']' && (start = strrchr(declaration, '[')) &&
	    start > declaration && start[-1] != ' ') {
		ret->array = true;
		ret->count = (unsigned int)strtoul(start + 1, NULL, 10);
		p = start;
	}
	start = p;
	while (start > declaration && (isalnum((unsigned char)start[-1]) || start[-1] == '_'))
		start--;
	if (start == p || (size_t)(p - start) >= sizeof(ret->name))
		return false;
	memcpy(ret->name, start, (size_t)(p - start));
	snprintf(ret->type, sizeof(ret->type), "%.*s", (int)(start - declaration), declaration);
	return true;
}

static int log2_of(unsigned int size)
{
	return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : -1;
}

/* Integers in a row; bytes where the elements are something else. */
static enum rut_field_kind array_of(const struct line *l, uint32_t *ret_count)
{
	int log2 = l->count && l->size % l->count == 0 ? log2_of(l->size / l->count) : -1;

	if (!strncmp(l->type, "char", 4))
		return RUT_FK_TEXT;
	if (log2 <= 0 || strstr(l->type, "struct"))
		return RUT_FK_ARRAY_X8;
	*ret_count = l->count;
	return RUT_FK_ARRAY_X8 + (enum rut_field_kind)log2;
}

static enum rut_field_kind kind_of(const struct line *l, uint32_t *ret_count)
{
	static const enum rut_field_kind kinds[2][4] = {
		{RUT_FK_U8, RUT_FK_U16, RUT_FK_U32, RUT_FK_U64},
		{RUT_FK_S8, RUT_FK_S16, RUT_FK_S32, RUT_FK_S64},
	};
	int log2 = log2_of(l->size);

	*ret_count = l->size;
	if (l->array)
		return array_of(l, ret_count);
	if (log2 < 0)
		return RUT_FK_ARRAY_X8;
	if (strchr(l->type, '*'))
		return RUT_FK_X64;
	return kinds[l->is_signed != 0][log2];
}

static void add_field(struct rut_tracefs_format *f, enum rut_field_kind kind, uint32_t count,
		      const struct line *l)
{
	if (f->nfields == RUT_FIELDS_MAX)
		return;
	snprintf(f->names[f->nfields], sizeof(f->names[f->nfields]), "%s", l->name);
	f->fields[f->nfields] = (struct rut_field){kind, count, f->names[f->nfields]};
	f->nfields++;
}

/* Appends the field's bytes to the last run when they follow it directly. */
static bool add_run(struct rut_probe_conf *c, const struct line *l)
{
	uint32_t n = c->nruns;

	if (n && (unsigned int)c->run_from[n - 1] + c->run_len[n - 1] == l->offset) {
		c->run_len[n - 1] = (uint16_t)(c->run_len[n - 1] + l->size);
		return true;
	}
	if (n == RUT_PROBE_RUNS)
		return false;
	c->run_from[n] = (uint16_t)l->offset;
	c->run_len[n] = (uint16_t)l->size;
	c->nruns++;
	return true;
}

int rut_tracefs_parse(const char *text, struct rut_tracefs_format *ret, struct rut_err *err)
{
	struct line strings[RUT_PROBE_STRS], l;
	unsigned int total = 0;
	enum rut_field_kind kind;
	uint32_t count;

	*ret = (struct rut_tracefs_format){0};
	for (const char *p = text; (p = strstr(p, "\tfield:"));) {
		p += 7;
		if (!parse_line(p, strcspn(p, "\n"), &l))
			return rut_err_set(err, EPROTO, "field '%.40s' is not understood", p);
		if (l.offset < 8 && !strncmp(l.name, "common_", 7))
			continue;
		if (strstr(l.type, "__data_loc")) {
			/* Strings go behind; other arrays of variable length are left out. */
			if (strstr(l.type, "char[]") && ret->conf.nstrs < RUT_PROBE_STRS) {
				ret->conf.str_at[ret->conf.nstrs] = (uint16_t)l.offset;
				strings[ret->conf.nstrs++] = l;
			}
			continue;
		}
		if (strstr(l.type, "__rel_loc") || !l.size)
			continue;
		if (l.offset > 4096 || (total += l.size) > 1024 || !add_run(&ret->conf, &l))
			return rut_err_set(err, E2BIG, "the tracepoint's record is too large");
		kind = kind_of(&l, &count);
		add_field(ret, kind, count, &l);
	}
	for (uint32_t i = 0; i < ret->conf.nstrs; i++)
		add_field(ret, RUT_FK_STR, 0, &strings[i]);
	return 0;
}

int rut_tracefs_read(const char *category, const char *name, struct rut_tracefs_format *ret,
		     struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char path[256];
	int rc;

	snprintf(path, sizeof(path), TRACEFS "/events/%s/%s/format", category, name);
	rc = rut_buf_read_file(&b, path, 1 << 20);
	if (rc < 0)
		return rut_err_errno(err, -rc, "cannot read '%s'", path);
	rc = rut_tracefs_parse(b.data, ret, err);
	return rc ? rut_err_prefix(err, "%s:%s", category, name) : 0;
}
