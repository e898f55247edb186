/* SPDX-License-Identifier: MIT */
#include "expr/period.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define MAX_PARENTS 32

struct slice {
	const char *at;
	size_t len;
};

static struct slice trim(const char *at, const char *end)
{
	while (at < end && isspace((unsigned char)*at))
		at++;
	while (end > at && isspace((unsigned char)end[-1]))
		end--;
	return (struct slice){at, (size_t)(end - at)};
}

/* The next `c` that is not inside a string, parentheses or brackets; `end` when there is none. */
static const char *find(const char *at, const char *end, char c)
{
	int depth = 0;
	bool quoted = false;

	for (; at < end; at++) {
		if (quoted) {
			if (*at == '\\' && at + 1 < end)
				at++;
			else if (*at == '"')
				quoted = false;
		} else if (*at == '"') {
			quoted = true;
		} else if (*at == c && depth <= 0) {
			return at;
		} else if (*at == '(' || *at == '[') {
			depth++;
		} else if (*at == ')' || *at == ']') {
			depth--;
		}
	}
	return end;
}

static int fail(const char *text, const char *at, size_t *ret_column, struct rut_err *err,
		const char *why)
{
	size_t column = (size_t)(at - text) + 1;

	if (ret_column)
		*ret_column = column;
	return rut_err_set(err, EINVAL, "column %zu: %s", column, why);
}

/*
 * Parses one part of the text. All that stands before it is blanked, so that columns count from
 * the beginning of the whole.
 */
static int parse_part(const char *text, struct slice part, unsigned flags, struct rut_expr **ret,
		      size_t *ret_column, struct rut_err *err)
{
	size_t before = (size_t)(part.at - text);
	_cleanup_free_ char *copy = malloc(before + part.len + 1);

	if (!copy)
		return rut_err_set(err, ENOMEM, "out of memory");
	memset(copy, ' ', before);
	memcpy(copy + before, part.at, part.len);
	return rut_expr_parse(copy, before + part.len, flags, ret, ret_column, err);
}

/* NAME or, with a path before it, a/b/NAME: names are unique, the path is decoration. */
static int parse_name(const char *text, struct slice s, char **ret, size_t *ret_column,
		      struct rut_err *err)
{
	const char *start = s.at, *end = s.at + s.len;

	for (const char *p = s.at; p < end; p++) {
		if (*p == '/')
			start = p + 1;
		else if (!isalnum((unsigned char)*p) && *p != '_')
			return fail(text, p, ret_column, err,
				    "the name of a period is made of letters, digits and '_'");
	}
	if (start == end || isdigit((unsigned char)*start))
		return fail(text, start, ret_column, err, "expected the name of a period");
	*ret = strndup(start, (size_t)(end - start));
	return *ret ? 0 : rut_err_set(err, ENOMEM, "out of memory");
}

static int parse_head(struct rut_period_def *d, const char *text, struct slice head,
		      size_t *ret_column, struct rut_err *err)
{
	const char *end = head.at + head.len, *open = memchr(head.at, '(', head.len), *close;
	int r;

	if (!head.len)
		return 0;
	r = parse_name(text, trim(head.at, open ? open : end), &d->name, ret_column, err);
	if (r || !open)
		return r;
	close = memchr(open, ')', (size_t)(end - open));
	if (!close || close + 1 != end)
		return fail(text, close ? close + 1 : end, ret_column, err,
			    close ? "expected ':' after ')'" : "expected ')' after the parent");
	return parse_name(text, trim(open + 1, close), &d->parent_name, ret_column, err);
}

static void free_captures(struct rut_captures *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->list[i].name);
		rut_expr_free(c->list[i].expr);
	}
	free(c->list);
	*c = (struct rut_captures){0};
}

static void free_def(struct rut_period_def *d)
{
	if (!d)
		return;
	free(d->name);
	free(d->parent_name);
	free(d->path);
	free(d->text);
	rut_expr_free(d->begin);
	rut_expr_free(d->end);
	free_captures(&d->begin_captures);
	free_captures(&d->end_captures);
	rut_expr_layout_fini(&d->layout);
	free(d);
}

RUT_DEFINE_CLEANUP(struct rut_period_def *, free_def);

void rut_period_set_fini(struct rut_period_set *s)
{
	for (size_t i = 0; i < s->n; i++)
		free_def(s->defs[i]);
	free(s->defs);
	*s = (struct rut_period_set){0};
}

struct rut_period_def *rut_period_set_find(const struct rut_period_set *s, const char *name,
					   size_t len)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->defs[i]->name && strlen(s->defs[i]->name) == len &&
		    !memcmp(s->defs[i]->name, name, len))
			return s->defs[i];
	return NULL;
}

/* Names, parents and paths, when the definition is about to join the set. */
static int join(struct rut_period_set *s, struct rut_period_def *d, struct rut_err *err)
{
	struct rut_buf path = RUT_BUF_INIT;
	void *defs;

	if (d->name && rut_period_set_find(s, d->name, strlen(d->name)))
		return rut_err_set(err, EEXIST, "period '%s' is defined twice", d->name);
	if (d->parent_name) {
		d->parent = rut_period_set_find(s, d->parent_name, strlen(d->parent_name));
		if (!d->parent)
			return rut_err_set(err, ENOENT,
					   "period '%s' has the parent '%s', which is not defined "
					   "before it",
					   d->name, d->parent_name);
		d->depth = d->parent->depth + 1;
		if (d->depth >= MAX_PARENTS)
			return rut_err_set(err, E2BIG, "period '%s' has too many parents", d->name);
		rut_buf_printf(&path, "%s/", d->parent->path);
	}
	rut_buf_puts(&path, d->name ? d->name : "");
	d->path = rut_buf_take(&path);
	defs = realloc(s->defs, (s->n + 1) * sizeof(*s->defs));
	if (!d->path || !defs) {
		s->defs = defs ? defs : s->defs;
		return rut_err_set(err, ENOMEM, "out of memory");
	}
	s->defs = defs;
	d->index = s->n;
	s->defs[s->n++] = d;
	return 0;
}

int rut_period_set_add(struct rut_period_set *s, const char *text, size_t *ret_column,
		       struct rut_err *err)
{
	_cleanup_(free_defp)
	struct rut_period_def *d = calloc(1, sizeof(*d));
	const char *end = text + strlen(text), *colon, *colon2;
	struct slice begin, close;
	int r;

	if (ret_column)
		*ret_column = 0;
	if (!d || !(d->text = strdup(text)))
		/* cppcheck-suppress memleak ; it has a cleanup attribute */
		return rut_err_set(err, ENOMEM, "out of memory");
	colon = find(text, end, ':');
	if (colon == end)
		/* cppcheck-suppress memleak ; the same */
		return fail(text, end, ret_column, err, "expected ':' before the begin expression");
	colon2 = find(colon + 1, end, ':');
	begin = trim(colon + 1, colon2);
	close = colon2 < end ? trim(colon2 + 1, end) : begin;
	r = parse_head(d, text, trim(text, colon), ret_column, err);
	if (!r)
		r = parse_part(text, begin, 0, &d->begin, ret_column, err);
	if (!r)
		r = parse_part(text, close, 0, &d->end, ret_column, err);
	if (!r)
		r = join(s, d, err);
	if (!r)
		d = NULL; /* the set's now */
	return r;
}

/* One of "x = EXPR" and "EXPR"; the latter is called what it says. */
static int parse_capture(struct rut_captures *c, const char *text, struct slice part,
			 size_t *ret_column, struct rut_err *err)
{
	const char *end = part.at + part.len, *p = part.at;
	struct slice name = {0}, expr = part;
	struct rut_capture *list, *cap;
	struct rut_buf canonical = RUT_BUF_INIT;
	int r;

	while (p < end && (isalnum((unsigned char)*p) || *p == '_'))
		p++;
	if (p > part.at) {
		const char *q = p;

		while (q < end && isspace((unsigned char)*q))
			q++;
		if (q < end && *q == '=' && (q + 1 == end || !strchr("=*~", q[1]))) {
			name = (struct slice){part.at, (size_t)(p - part.at)};
			expr = trim(q + 1, end);
		}
	}
	list = realloc(c->list, (c->n + 1) * sizeof(*list));
	if (!list)
		return rut_err_set(err, ENOMEM, "out of memory");
	c->list = list;
	cap = &list[c->n];
	*cap = (struct rut_capture){0};
	r = parse_part(text, expr, RUT_EXPR_VALUE, &cap->expr, ret_column, err);
	if (r)
		return r;
	c->n++;
	if (name.len) {
		cap->name = strndup(name.at, name.len);
	} else {
		rut_expr_print(cap->expr, &canonical);
		cap->name = rut_buf_take(&canonical);
	}
	if (!cap->name)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i + 1 < c->n; i++)
		if (!strcmp(c->list[i].name, cap->name))
			return fail(text, part.at, ret_column, err,
				    "another capture has this name");
	return 0;
}

static int parse_captures(struct rut_captures *c, const char *text, struct slice part,
			  size_t *ret_column, struct rut_err *err)
{
	const char *at = part.at, *end = part.at + part.len;

	while (at < end) {
		const char *comma = find(at, end, ',');
		int r = parse_capture(c, text, trim(at, comma), ret_column, err);

		if (r)
			return r;
		at = comma + 1;
	}
	return 0;
}

static int add_captures(struct rut_period_def *d, const char *text, const char *at,
			size_t *ret_column, struct rut_err *err)
{
	const char *end = text + strlen(text), *colon = find(at, end, ':');
	int r;

	if (d->begin_captures.n || d->end_captures.n)
		return rut_err_set(err, EEXIST, "captures of period '%s' are given twice", d->name);
	r = parse_captures(&d->begin_captures, text, trim(at, colon), ret_column, err);
	if (!r && colon < end)
		r = parse_captures(&d->end_captures, text, trim(colon + 1, end), ret_column, err);
	return r;
}

int rut_period_set_capture(struct rut_period_set *s, const char *text, size_t *ret_column,
			   struct rut_err *err)
{
	const char *end = text + strlen(text), *colon = find(text, end, ':');
	_cleanup_free_ char *name = NULL;
	struct rut_period_def *d;
	int r;

	if (ret_column)
		*ret_column = 0;
	if (colon == end)
		return fail(text, end, ret_column, err, "expected ':' after the period's name");
	r = parse_name(text, trim(text, colon), &name, ret_column, err);
	if (r)
		return r;
	d = rut_period_set_find(s, name, strlen(name));
	if (!d)
		return rut_err_set(err, ENOENT,
				   "captures are given for '%s', which is not a period", name);
	return add_captures(d, text, colon + 1, ret_column, err);
}

/* ---- Linking ---- */

static int link_captures(const struct rut_captures *c, struct rut_expr_layout *const *layouts,
			 size_t depth, bool at_begin, struct rut_err *err)
{
	for (size_t i = 0; i < c->n; i++) {
		int r = rut_expr_link(c->list[i].expr, layouts, depth, at_begin, NULL, err);

		if (r)
			return r;
	}
	return 0;
}

int rut_period_set_link(struct rut_period_set *s, struct rut_err *err)
{
	for (size_t i = 0; i < s->n; i++) {
		struct rut_expr_layout *layouts[MAX_PARENTS + 1];
		struct rut_period_def *d = s->defs[i], *p = d;
		size_t depth = 0;
		int r;

		do
			layouts[depth++] = &p->layout;
		while ((p = p->parent));
		r = rut_expr_link(d->begin, layouts, depth, true, NULL, err);
		if (!r)
			r = rut_expr_link(d->end, layouts, depth, false, NULL, err);
		if (!r)
			r = link_captures(&d->begin_captures, layouts, depth, true, err);
		if (!r)
			r = link_captures(&d->end_captures, layouts, depth, false, err);
		if (r)
			return rut_err_prefix(err, "period '%s'", d->name ? d->name : d->text);
	}
	return 0;
}

/* ---- Files ---- */

/* One definition: its lines are joined by newlines, so that columns can be reported. */
static int add_block(struct rut_period_set *s, char *block, const char *path, size_t line,
		     struct rut_err *err)
{
	char *captures = NULL, *p = block;
	size_t column = 0, before;
	int r;

	if (!*block)
		return 0;
	/* The captures begin at the line with that first word. */
	while ((p = strchr(p, '\n'))) {
		char *word = p + 1 + strspn(p + 1, " \t");

		if (!strncmp(word, "captures", 8) && isspace((unsigned char)word[8])) {
			*p = '\0';
			captures = word + 8;
			break;
		}
		p++;
	}
	before = captures ? (size_t)(captures - block) : 0;
	r = rut_period_set_add(s, block, &column, err);
	if (!r && captures) {
		column = 0;
		r = add_captures(s->defs[s->n - 1], captures, captures, &column, err);
		if (column)
			column += before;
		block[strlen(block)] = '\n';
	}
	if (!r)
		return 0;
	for (size_t i = 0; column && i + 1 < column && block[i]; i++) {
		if (block[i] == '\n') {
			line++;
			column -= i + 1;
			block += i + 1;
			i = (size_t)-1;
		}
	}
	if (!column)
		return rut_err_prefix(err, "%s:%zu", path, line);
	{
		const char *why = strstr(err ? err->msg : "", ": ");
		char copy[400];

		snprintf(copy, sizeof(copy), "%s", why ? why + 2 : "");
		return rut_err_set(err, -r, "%s:%zu:%zu: %s", path, line, column, copy);
	}
}

int rut_period_set_parse(struct rut_period_set *s, const char *text, const char *path,
			 struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf block = RUT_BUF_INIT;
	size_t line = 0, start = 0;
	int r = 0;

	for (const char *p = text; *p && !r;) {
		size_t len = strcspn(p, "\n");
		struct slice s_line = trim(p, p + len);

		line++;
		if (s_line.len && *s_line.at != '#') {
			if (s_line.at == p) {
				r = block.len ? add_block(s, block.data, path, start, err) : 0;
				rut_buf_clear(&block);
				start = line;
			} else if (!block.len) {
				return rut_err_set(err, EINVAL,
						   "%s:%zu: an indented line continues a "
						   "definition, but there is none yet",
						   path, line);
			}
		} else if (!s_line.len && !block.len) {
			p += len + (p[len] == '\n');
			continue;
		}
		/* Comments and empty lines stay as lines, so that numbers are right. */
		if (block.len || s_line.at == p) {
			if (block.len)
				rut_buf_putc(&block, '\n');
			if (s_line.len && *s_line.at != '#')
				rut_buf_add(&block, p, len);
		}
		p += len + (p[len] == '\n');
	}
	if (block.failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	return r || !block.len ? r : add_block(s, block.data, path, start, err);
}

int rut_period_set_read(struct rut_period_set *s, const char *path, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	int r = rut_buf_read_file(&b, path, 1 << 20);

	if (r)
		return rut_err_errno(err, -r, "cannot read period file '%s'", path);
	return rut_period_set_parse(s, b.data ? b.data : "", path, err);
}
