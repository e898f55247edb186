/* SPDX-License-Identifier: MIT */
/*
 *	request http  Puma::Request#handle_request
 *		verb    client.@env["REQUEST_METHOD"]
 *		after status  status
 *
 * A line at the margin names what the methods are; indented lines below it are fields. An entry is
 * compiled line by line into the form that the agent reads, so nothing needs to be kept of it but
 * that text and the names.
 */
#include "ruby/layers.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/abi.h"
#include "agent/watch.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "rut_config.h"

#define FILE_MAX   (1u << 20)
#define WORD_MAX_  200
#define ETC_LAYERS "/etc/rutile/layers"

struct rut_layers_entry {
	char what;
	char *layer;	       /* owned */
	char **names;	       /* owned */
	size_t count;	       /* of names */
	struct rut_buf fields; /* encoded */
	unsigned ops;
};

struct parser {
	struct rut_layers *l;
	const char *name;
	unsigned line;
	const char *p, *end; /* of the line */
	struct rut_err *err;
	struct rut_layers_entry *entry; /* that fields belong to; NULL: none */
};

static const struct {
	const char *name;
	char what;
} kinds[] = {
	{"request", RUT_WATCH_REQUEST},
	{"info", RUT_WATCH_INFO},
	{"span", RUT_WATCH_SPAN},
	{"nested", RUT_WATCH_NESTED},
};

static const struct {
	const char *name;
	char field;
	const char *of; /* kinds that have it */
} fields[] = {
	{"verb", RUT_FIELD_VERB, "ri"},
	{"path", RUT_FIELD_PATH, "ri"},
	{"route", RUT_FIELD_ROUTE, "ri"},
	{"status", RUT_FIELD_STATUS, "ri"},
	{"bytes", RUT_FIELD_BYTES, "ri"},
	{"traceparent", RUT_FIELD_TRACEPARENT, "ri"},
	{"x_request_id", RUT_FIELD_REQUEST_ID, "ri"},
	{"error", RUT_FIELD_ERROR, "ri"},
	{"detail", RUT_FIELD_DETAIL, "sn"},
};

static const struct {
	const char *name;
	char op;
} functions[] = {
	{"sql", RUT_OP_SQL},
	{"host", RUT_OP_HOST},
	{"prefix", RUT_OP_PREFIX},
	{"path", RUT_OP_PATH},
};

static int fail(struct parser *ps, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int fail(struct parser *ps, const char *fmt, ...)
{
	char what[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return rut_err_set(ps->err, EINVAL, "%s:%u: %s", ps->name, ps->line, what);
}

/* ---- words ---- */

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c < 0;
}

static void skip_space(struct parser *ps)
{
	while (ps->p < ps->end && is_space(*ps->p))
		ps->p++;
}

static bool at_end(const struct parser *ps)
{
	return ps->p == ps->end || *ps->p == '#';
}

static bool take(struct parser *ps, char c)
{
	if (ps->p == ps->end || *ps->p != c)
		return false;
	ps->p++;
	return true;
}

/* The word up to white space; at most WORD_MAX_ bytes of it. */
static size_t word(struct parser *ps, char *to)
{
	const char *begin;
	size_t n;

	skip_space(ps);
	begin = ps->p;
	while (ps->p < ps->end && !is_space(*ps->p))
		ps->p++;
	n = (size_t)(ps->p - begin);
	n = n < WORD_MAX_ ? n : WORD_MAX_;
	memcpy(to, begin, n);
	to[n] = 0;
	return n;
}

static size_t name(struct parser *ps, char *to)
{
	const char *begin = ps->p;
	size_t n;

	while (ps->p < ps->end && is_name(*ps->p))
		ps->p++;
	n = (size_t)(ps->p - begin);
	n = n < WORD_MAX_ ? n : WORD_MAX_;
	memcpy(to, begin, n);
	to[n] = 0;
	return n;
}

/* ---- fields ---- */

static int op(struct parser *ps, char kind, const char *operand)
{
	if (ps->entry->ops++ == RUT_WATCH_OPS_MAX)
		return fail(ps, "more than %d steps in the fields of one entry", RUT_WATCH_OPS_MAX);
	rut_buf_putc(&ps->entry->fields, RUT_WATCH_US);
	rut_buf_putc(&ps->entry->fields, kind);
	rut_buf_puts(&ps->entry->fields, operand);
	return 0;
}

/* "text"; no escapes. */
static int quoted(struct parser *ps, char *to)
{
	const char *begin = ps->p, *close = memchr(begin, '"', (size_t)(ps->end - begin));
	size_t n;

	if (!close)
		return fail(ps, "a '\"' is missing");
	n = (size_t)(close - begin);
	if (n > WORD_MAX_)
		return fail(ps, "a text of more than %d bytes", WORD_MAX_);
	for (const char *c = begin; c < close; c++)
		if ((unsigned char)*c < ' ')
			return fail(ps, "a control character in a text");
	memcpy(to, begin, n);
	to[n] = 0;
	ps->p = close + 1;
	return 0;
}

/* ["key"], [:key] or [0], behind the '['. */
static int element(struct parser *ps)
{
	char text[WORD_MAX_ + 1];
	char kind = RUT_OP_INDEX;
	int rc;

	if (take(ps, '"')) {
		kind = RUT_OP_KEY;
		rc = quoted(ps, text);
		if (rc)
			return rc;
	} else {
		if (take(ps, ':'))
			kind = RUT_OP_SYMBOL;
		if (!name(ps, text))
			return fail(ps, "expected [\"key\"], [:key] or [0]");
		if (kind == RUT_OP_INDEX &&
		    (strspn(text, "0123456789") != strlen(text) || strlen(text) > 4))
			return fail(ps, "expected [\"key\"], [:key] or [0], not [%s]", text);
	}
	if (!take(ps, ']'))
		return fail(ps, "a ']' is missing");
	return op(ps, kind, text);
}

/* .@ivar or .class, behind the dot. */
static int member(struct parser *ps)
{
	char text[WORD_MAX_ + 2] = "@";
	bool ivar = take(ps, '@');

	if (!name(ps, text + ivar) || (!ivar && strcmp(text, "class") != 0))
		return fail(ps, "expected .@name or .class: no method is ever called");
	return ivar ? op(ps, RUT_OP_IVAR, text) : op(ps, RUT_OP_CLASS, "");
}

static int value(struct parser *ps, const char *source)
{
	char position[WORD_MAX_ + 1];
	int rc;

	if (strcmp(source, "self") == 0) {
		rc = op(ps, RUT_OP_SELF, "");
	} else if (strcmp(source, "return") == 0) {
		rc = op(ps, RUT_OP_RETURN, "");
	} else if (*source) {
		rc = op(ps, RUT_OP_LOCAL, source);
	} else if (take(ps, '$')) {
		if (!name(ps, position) || strspn(position, "123456789") != 1 || position[1])
			return fail(ps, "expected $1 to $9, the number of an argument");
		rc = op(ps, RUT_OP_POSITION, position);
	} else {
		return fail(ps,
			    "expected the name of an argument or variable, $1, self, return "
			    "or a text at '%.*s'",
			    (int)(ps->end - ps->p > 20 ? 20 : ps->end - ps->p), ps->p);
	}
	while (!rc) {
		if (take(ps, '.'))
			rc = member(ps);
		else if (take(ps, '['))
			rc = element(ps);
		else
			break;
	}
	return rc;
}

/* A text, a value, or FUNCTION(value). */
static int item(struct parser *ps)
{
	char text[WORD_MAX_ + 1];
	int rc;

	if (take(ps, '"')) {
		rc = quoted(ps, text);
		return rc ? rc : op(ps, RUT_OP_LITERAL, text);
	}
	name(ps, text);
	if (!take(ps, '('))
		return value(ps, text);
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		if (strcmp(functions[i].name, text) != 0)
			continue;
		skip_space(ps);
		name(ps, text);
		rc = value(ps, text);
		skip_space(ps);
		if (!rc && !take(ps, ')'))
			return fail(ps, "a ')' is missing");
		return rc ? rc : op(ps, functions[i].op, "");
	}
	return fail(ps, "unknown function '%s'; there are sql, host, prefix and path", text);
}

static int expression(struct parser *ps)
{
	bool first = true;
	int rc;

	for (skip_space(ps); !at_end(ps); skip_space(ps)) {
		if (!first && take(ps, '|')) {
			skip_space(ps);
			rc = op(ps, RUT_OP_OR, "");
			if (!rc && at_end(ps))
				rc = fail(ps, "nothing behind '|'");
			if (rc)
				return rc;
		}
		rc = item(ps);
		if (rc)
			return rc;
		first = false;
	}
	return first ? fail(ps, "the field has no value") : 0;
}

static int field(struct parser *ps)
{
	char text[WORD_MAX_ + 1], when = RUT_WATCH_CALL;

	if (!ps->entry)
		return fail(ps, "a field without a method: this line must not be indented");
	word(ps, text);
	if (strcmp(text, "after") == 0) {
		when = RUT_WATCH_RETURN;
		word(ps, text);
	}
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		if (strcmp(fields[i].name, text) != 0)
			continue;
		if (!strchr(fields[i].of, ps->entry->what))
			return fail(ps, "'%s' is no field of a %s", text,
				    *fields[i].of == 's' ? "request" : "span");
		rut_buf_putc(&ps->entry->fields, RUT_WATCH_RS);
		rut_buf_putc(&ps->entry->fields, fields[i].field);
		rut_buf_putc(&ps->entry->fields, when);
		return expression(ps);
	}
	return fail(ps,
		    "unknown field '%s'; there are verb, path, route, status, bytes, traceparent, "
		    "x_request_id, error and detail",
		    text);
}

/* ---- entries ---- */

static void entry_fini(struct rut_layers_entry *e)
{
	for (size_t i = 0; i < e->count; i++)
		free(e->names[i]);
	free(e->names);
	free(e->layer);
	rut_buf_fini(&e->fields);
}

/* No entry so far has this method any more. */
static void forget(struct rut_layers *l, const char *name)
{
	for (size_t i = 0; i < l->count; i++) {
		struct rut_layers_entry *e = &l->entries[i];

		for (size_t k = 0; k < e->count; k++) {
			if (strcmp(e->names[k], name) != 0)
				continue;
			free(e->names[k]);
			e->names[k--] = e->names[--e->count];
		}
	}
}

static int add_name(struct parser *ps, const char *name)
{
	struct rut_layers_entry *e = ps->entry;
	const char *sep = strpbrk(name, "#.");
	char **to;

	/* "?", "!" and "=" may end the name of a method; operators like [] are none that matter
	 * here. */
	if (!sep || sep == name || !sep[1] || *name < 'A' || *name > 'Z' || strpbrk(name, "*[]") ||
	    strcspn(name, "?!=") + 1 < strlen(name))
		return fail(ps, "expected Class#method or Class.method, not '%s'", name);
	forget(ps->l, name);
	to = e ? realloc(e->names, (e->count + 1) * sizeof(*to)) : NULL;
	if (e && !to)
		return rut_err_set(ps->err, ENOMEM, "out of memory");
	if (!e)
		return 0;
	e->names = to;
	to[e->count] = strdup(name);
	if (!to[e->count])
		return rut_err_set(ps->err, ENOMEM, "out of memory");
	e->count++;
	return 0;
}

static int new_entry(struct parser *ps, char what, const char *layer)
{
	struct rut_layers *l = ps->l;

	if (l->count == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		struct rut_layers_entry *to = realloc(l->entries, cap * sizeof(*to));

		if (!to)
			return rut_err_set(ps->err, ENOMEM, "out of memory");
		l->entries = to;
		l->cap = cap;
	}
	ps->entry = &l->entries[l->count++];
	*ps->entry = (struct rut_layers_entry){.what = what, .layer = strdup(layer)};
	return ps->entry->layer ? 0 : rut_err_set(ps->err, ENOMEM, "out of memory");
}

static int names(struct parser *ps)
{
	char text[WORD_MAX_ + 1];
	int rc = 0;

	for (skip_space(ps); !rc && !at_end(ps); skip_space(ps)) {
		word(ps, text);
		rc = add_name(ps, text);
	}
	return rc;
}

/* "request http NAME...", "info NAME...", "span sql NAME...", "nested template NAME...", "off
 * NAME..."
 */
static int head(struct parser *ps)
{
	char text[WORD_MAX_ + 1], layer[WORD_MAX_ + 1] = "";
	size_t i = 0;
	int rc;

	ps->entry = NULL;
	word(ps, text);
	if (strcmp(text, "off") == 0)
		return names(ps);
	while (i < sizeof(kinds) / sizeof(*kinds) && strcmp(kinds[i].name, text) != 0)
		i++;
	if (i == sizeof(kinds) / sizeof(*kinds))
		return fail(ps, "expected request, info, span, nested or off, not '%s'", text);
	if (kinds[i].what != RUT_WATCH_INFO) {
		word(ps, layer);
		if (!*layer ||
		    strspn(layer, "abcdefghijklmnopqrstuvwxyz0123456789_-") != strlen(layer))
			return fail(ps, "expected the name of a layer behind '%s', not '%s'", text,
				    layer);
	}
	rc = new_entry(ps, kinds[i].what, layer);
	if (!rc)
		rc = names(ps);
	if (!rc && !ps->entry->count)
		return fail(ps, "expected the names of methods behind '%s'", text);
	return rc;
}

static bool has_control(const struct parser *ps)
{
	for (const char *c = ps->p; c < ps->end; c++)
		if ((unsigned char)*c < ' ' && !is_space(*c))
			return true;
	return false;
}

int rut_layers_parse(struct rut_layers *l, const char *name, const char *text, size_t len,
		     struct rut_err *err)
{
	struct parser ps = {.l = l, .name = name, .err = err};
	const char *end = text + len;
	int rc = 0;

	while (text < end && !rc) {
		const char *eol = memchr(text, '\n', (size_t)(end - text));
		bool indented = is_space(*text);

		ps.p = text;
		ps.end = eol ? eol : end;
		ps.line++;
		text = ps.end + (eol != NULL);
		if (has_control(&ps))
			return fail(&ps, "a control character");
		skip_space(&ps);
		if (!at_end(&ps))
			rc = indented ? field(&ps) : head(&ps);
	}
	return rc;
}

static int is_layers(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return n > 7 && *e->d_name != '.' && strcmp(e->d_name + n - 7, ".layers") == 0;
}

/* Returns how many files there are, or -errno. */
static int load_dir(struct rut_layers *l, const char *dir, struct rut_err *err)
{
	struct dirent **list;
	int n = scandir(dir, &list, is_layers, alphasort), rc = 0;

	if (n < 0)
		return errno == ENOENT ? 0 : rut_err_errno(err, errno, "cannot read '%s'", dir);
	for (int i = 0; i < n; i++) {
		_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
		if (!rc)
			rc = rut_buf_read_file(&b, path, FILE_MAX);
		if (rc < 0 && !err->code)
			rut_err_errno(err, -rc, "cannot read '%s'", path);
		if (!rc)
			rc = rut_layers_parse(l, path, b.data ? b.data : "", b.len, err);
		free(list[i]);
	}
	free(list);
	return rc ? rc : n;
}

/* Beside the program: in the build directory, and where it is installed. */
static void installed(char *ret, size_t size)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	snprintf(ret, size, "%s", RUT_LAYERS_DIR);
	if (n < 0)
		return;
	exe[n] = 0;
	slash = strrchr(exe, '/');
	if (!slash)
		return;
	*slash = 0;
	if ((size_t)snprintf(ret, size, "%s/../share/rutile/layers", exe) >= size ||
	    access(ret, R_OK) < 0)
		snprintf(ret, size, "%s", RUT_LAYERS_DIR);
}

int rut_layers_load(struct rut_layers *l, struct rut_err *err)
{
	const char *dir = getenv("RUTILE_LAYERS");
	char path[PATH_MAX];
	int n, more;

	if (!dir) {
		installed(path, sizeof(path));
		dir = path;
	}
	n = load_dir(l, dir, err);
	if (n < 0)
		return n;
	more = load_dir(l, ETC_LAYERS, err);
	if (more < 0)
		return more;
	if (!n && !more)
		return rut_err_set(err, ENOENT,
				   "no layer files in '%s' (RUTILE_LAYERS names another directory)",
				   dir);
	return 0;
}

void rut_layers_encode(const struct rut_layers *l, struct rut_buf *config)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct rut_layers_entry *e = &l->entries[i];

		if (!e->count)
			continue;
		rut_buf_putc(config, RUT_FILTER_WATCH);
		rut_buf_putc(config, e->what);
		rut_buf_puts(config, e->layer);
		for (size_t k = 0; k < e->count; k++) {
			rut_buf_putc(config, RUT_WATCH_US);
			rut_buf_puts(config, e->names[k]);
		}
		rut_buf_add(config, e->fields.data, e->fields.len);
		rut_buf_putc(config, 0);
	}
}

bool rut_layers_is_request(const struct rut_layers *l, const char *method)
{
	for (size_t i = 0; i < l->count; i++)
		for (size_t k = 0;
		     l->entries[i].what == RUT_WATCH_REQUEST && k < l->entries[i].count; k++)
			if (strcmp(l->entries[i].names[k], method) == 0)
				return true;
	return false;
}

void rut_layers_fini(struct rut_layers *l)
{
	for (size_t i = 0; i < l->count; i++)
		entry_fini(&l->entries[i]);
	free(l->entries);
	*l = (struct rut_layers)RUT_LAYERS_INIT;
}

int rut_layers_config(struct rut_buf *config, struct rut_err *err)
{
	struct rut_layers l = RUT_LAYERS_INIT;
	int rc = rut_layers_load(&l, err);

	if (!rc)
		rut_layers_encode(&l, config);
	rut_layers_fini(&l);
	if (!rc && config->failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	return rc;
}
