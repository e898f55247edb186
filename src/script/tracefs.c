/* SPDX-License-Identifier: MIT */
/* Tracepoints as tracefs describes them: their names, and the arguments as a structure. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/tracefs.h"
#include "script/check.h"
#include "script/tracefs.h"

#define FORMAT_MAX (256u << 10)

static const char *find_tracefs(void)
{
	static const char *const roots[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

	for (size_t i = 0; i < sizeof(roots) / sizeof(*roots); i++) {
		char path[128];

		snprintf(path, sizeof(path), "%s/events", roots[i]);
		if (!access(path, R_OK))
			return roots[i];
	}
	return NULL;
}

const char *rut_script_tracefs(void)
{
	struct rut_err ignored = RUT_ERR_INIT;
	const char *root = find_tracefs();

	return root || rut_tracefs_need(&ignored) ? root : find_tracefs();
}

/* Directories with matching names, in order. */
static int each_name(const char *dir, const char *pattern, int (*fn)(const char *name, void *arg),
		     void *arg)
{
	struct dirent **list;
	int n = scandir(dir, &list, NULL, alphasort), rc = 0;

	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		if (!rc && list[i]->d_name[0] != '.' && list[i]->d_type == DT_DIR &&
		    !fnmatch(pattern, list[i]->d_name, 0))
			rc = fn(list[i]->d_name, arg);
		free(list[i]);
	}
	free(list);
	return rc;
}

struct walk {
	const char *event, *root;
	char group[128];
	int (*fn)(const char *group, const char *event, void *arg);
	void *arg;
};

static int one_event(const char *name, void *arg)
{
	struct walk *w = arg;

	return w->fn(w->group, name, w->arg);
}

static int one_group(const char *name, void *arg)
{
	struct walk *w = arg;
	char path[512];

	/* Those of ftrace itself cannot be attached to. */
	if (!strcmp(name, "ftrace"))
		return 0;
	snprintf(w->group, sizeof(w->group), "%s", name);
	snprintf(path, sizeof(path), "%s/events/%s", w->root, name);
	return each_name(path, w->event, one_event, w);
}

int rut_tracepoint_match(const char *group, const char *event,
			 int (*fn)(const char *group, const char *event, void *arg), void *arg)
{
	struct walk w = {.event = event, .root = rut_script_tracefs(), .fn = fn, .arg = arg};
	char path[256];

	if (!w.root)
		return -ENOENT;
	/* One name needs no walk. */
	if (!strpbrk(group, "*?[") && !strpbrk(event, "*?[")) {
		snprintf(path, sizeof(path), "%s/events/%s/%s/id", w.root, group, event);
		return access(path, F_OK) ? 0 : fn(group, event, arg);
	}
	snprintf(path, sizeof(path), "%s/events", w.root);
	return each_name(path, group, one_group, &w);
}

/* Formats */

struct parsed {
	struct rut_script_program *p;
	bool user; /* pointers are of user space */
	struct rut_type_field fields[128];
	uint32_t n;
};

static const struct rut_type *type_of(struct parsed *s, char *type, uint32_t size, bool is_signed,
				      bool is_array)
{
	struct rut_arena *a = &s->p->ast.arena;
	char *star = strchr(type, '*'), *bracket = strchr(type, '[');
	bool is_char = !strncmp(type, "char", 4) || !strncmp(type, "const char", 10);
	const struct rut_type *t;
	size_t len;

	if (is_array) {
		if (bracket)
			*bracket = 0;
		len = strlen(type);
		while (len && type[len - 1] == ' ')
			type[--len] = 0;
		if (is_char)
			return rut_type_string(a, size);
		t = rut_type_word(type);
		if (!t || !t->size || size % t->size)
			t = rut_type_int(size % 8 ? 1 : 8, false);
		return rut_type_array(a, t, size / t->size);
	}
	if (star && size == 8) {
		const struct rut_type *to = NULL;

		*star = 0;
		len = strlen(type);
		while (len && type[len - 1] == ' ')
			type[--len] = 0;
		if (!strncmp(type, "const ", 6))
			type += 6;
		to = rut_type_word(type);
		if (!to && !strncmp(type, "struct ", 7))
			to = rut_kernel_type(s->p, type);
		for (const char *more = star + 1; (more = strchr(more, '*')); more++)
			to = rut_type_pointer(a, to, s->user);
		return rut_type_pointer(a, to, s->user);
	}
	if (size == 1 || size == 2 || size == 4 || size == 8)
		return !strcmp(type, "bool") ? rut_type_simple(RUT_T_BOOL)
					     : rut_type_int(size, is_signed);
	return rut_type_array(a, rut_type_int(1, false), size);
}

/* "field:const char * filename;	offset:24;	size:8;	signed:0;" */
static void parse_field(struct parsed *s, char *line)
{
	char *decl = strstr(line, "field:"), *end, *name, *bracket, *offset, *size, *sign;
	struct rut_type_field *f = &s->fields[s->n];
	struct rut_arena *a = &s->p->ast.arena;
	bool is_loc, is_array;
	uint32_t bytes;

	offset = strstr(line, "offset:");
	size = strstr(line, "size:");
	sign = strstr(line, "signed:");
	if (!decl || !offset || !size || !sign || s->n == 128)
		return;
	decl += 6;
	end = strchr(decl, ';');
	if (!end)
		return;
	*end = 0;
	bytes = (uint32_t)strtoul(size + 5, NULL, 10);
	bracket = strrchr(decl, '[');
	is_loc = !strncmp(decl, "__data_loc ", 11);
	/* "char comm[16]" has the bracket behind the name, "__data_loc char[] name" before it. */
	if (bracket && !is_loc)
		*bracket = 0;
	is_array = bracket && !is_loc && bytes;
	name = strrchr(decl, ' ');
	if (!name || !strncmp(decl, "__rel_loc", 9))
		return;
	*name++ = 0;
	while (*name == '*')
		name++;
	f->offset = (uint32_t)strtoul(offset + 7, NULL, 10);
	f->name = rut_arena_strndup(a, name, strlen(name));
	f->bits = 0;
	f->bit_shift = 0;
	if (is_loc) {
		f->type = rut_type_string(a, s->p->set.max_strlen + 1);
		f->bits = RUT_FIELD_DATA_LOC;
	} else {
		if (name[-1] == 0 && strchr(decl, 0) < name && name > decl + 1 && name[-2] == '*')
			name[-2] = '*';
		f->type = type_of(s, decl, bytes, sign[7] == '1', is_array);
	}
	s->n++;
}

static const struct rut_type *parse_format(struct rut_script_program *p, char *text,
					   const char *group, const char *event)
{
	struct parsed *s = rut_arena_alloc(&p->ast.arena, sizeof(*s));
	struct rut_type *t;
	char *save = NULL, name[320];

	if (!s)
		return NULL;
	s->p = p;
	s->user = !strcmp(group, "syscalls");
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (!strncmp(line, "print fmt", 9))
			break;
		parse_field(s, line);
	}
	t = rut_type_new(&p->ast.arena, RUT_T_STRUCT, 0, 8);
	t->fields = s->fields;
	t->nfields = s->n;
	for (uint32_t i = 0; i < s->n; i++)
		if (s->fields[i].offset + s->fields[i].type->size > t->size &&
		    s->fields[i].bits != RUT_FIELD_DATA_LOC)
			t->size = s->fields[i].offset + s->fields[i].type->size;
	snprintf(name, sizeof(name), "struct _tracepoint_%s_%s", group, event);
	t->name = rut_arena_strndup(&p->ast.arena, name, strlen(name));
	return t;
}

const struct rut_type *rut_tracepoint_args(struct rut_script_program *p, const char *group,
					   const char *event, struct rut_err *err)
{
	const char *root = rut_script_tracefs();
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	char path[512];
	int rc;

	snprintf(path, sizeof(path), "%s/events/%s/%s/format", root ? root : "", group, event);
	rc = rut_buf_read_file(&text, path, FORMAT_MAX);
	if (rc || text.failed) {
		rut_err_errno(err, rc ? -rc : ENOMEM, "cannot read '%s'", path);
		return NULL;
	}
	return parse_format(p, text.data, group, event);
}
