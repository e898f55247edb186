/* SPDX-License-Identifier: MIT */
#include "watch.h"

#include "abi.h"
#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SQL_MAX = 65536 };

/*
 * One entry of the configuration:
 *
 *	WHAT LAYER (US NAME)... (RS FIELD WHEN (US OP OPERAND)...)...
 *
 * with the bytes US and RS between, each part without them.
 */
#define US RUT_WATCH_US
#define RS RUT_WATCH_RS

struct counts {
	size_t watches, names, reads, ops, text;
};

static void count_entry(struct counts *c, const char *s)
{
	bool names = true;

	c->watches++;
	c->text += strlen(s) + 1;
	for (; *s; s++) {
		c->reads += *s == RS;
		names &= *s != RS;
		c->names += names && *s == US;
		c->ops += !names && *s == US;
	}
}

/* Where the parts go; each array is as long as count_entry() says. */
struct parser {
	struct rut_watches *w;
	struct rut_watch_read *reads;
	struct rut_watch_op *ops;
	size_t nreads, nops;
};

/* Ends the part at *p and returns the byte that ended it; *p is behind that. */
static char part(char **p)
{
	char *end = *p + strcspn(*p, "\x1e\x1f"), c = *end;

	*end = 0;
	*p = end + (c != 0);
	return c;
}

static int parse_op(struct parser *ps, char *text)
{
	struct rut_watch_op *op = &ps->ops[ps->nops++];

	if (!*text || !strchr("ansrl@kyic+|QHPU", *text))
		return -EINVAL;
	op->kind = *text;
	op->text = text + 1;
	if (op->kind == RUT_OP_POSITION || op->kind == RUT_OP_INDEX)
		op->n = (uint16_t)atoi(op->text);
	if (op->kind == RUT_OP_KEY)
		op->n = (uint16_t)ps->w->nkeys++;
	return 0;
}

static int parse_reads(struct parser *ps, struct rut_watch *watch, char *s, char c)
{
	size_t first_op = ps->nops;

	watch->reads = &ps->reads[ps->nreads];
	watch->ops = &ps->ops[ps->nops];
	while (c == RS) {
		struct rut_watch_read *r = &ps->reads[ps->nreads++];
		char *field = s;

		c = part(&s);
		if (!field[0] || !field[1] || field[2])
			return -EINVAL;
		r->field = field[0];
		r->when = field[1];
		r->first = (uint16_t)(ps->nops - first_op);
		watch->returns |= r->when == RUT_WATCH_RETURN;
		watch->nreads++;
		while (c == US) {
			char *op = s;

			c = part(&s);
			if (parse_op(ps, op))
				return -EINVAL;
			r->count++;
		}
	}
	watch->nops = (uint16_t)(ps->nops - first_op);
	return c || watch->nops > RUT_WATCH_OPS_MAX ? -EINVAL : 0;
}

static int parse_entry(struct parser *ps, char *s)
{
	struct rut_watches *w = ps->w;
	struct rut_watch *watch = &w->watches[w->count++];
	char c;

	if (!*s || !strchr("risn", *s))
		return -EINVAL;
	watch->what = *s++;
	watch->layer = s;
	c = part(&s);
	while (c == US) {
		struct rut_watch_name *n = &w->names[w->nnames++];
		char *dot;

		n->name = s;
		c = part(&s);
		dot = strpbrk((char *)(uintptr_t)n->name, "#.");
		if (!dot)
			return -EINVAL;
		n->method = dot + 1;
		n->watch = watch;
	}
	return parse_reads(ps, watch, s, c);
}

static int compare_names(const void *a, const void *b)
{
	const struct rut_watch_name *x = a, *y = b;
	int d = strcmp(x->method, y->method);

	return d ? d : strcmp(x->name, y->name);
}

int rut_agent_watches_init(struct rut_watches *ret, const char *config)
{
	struct counts n = {0};
	struct parser ps = {.w = ret};
	char *text;
	int rc = 0;

	*ret = (struct rut_watches){0};
	for (const char *c = config; *c; c += strlen(c) + 1)
		if (*c == RUT_FILTER_WATCH)
			count_entry(&n, c + 1);
	if (!n.watches)
		return 0;
	ret->bytes = n.watches * sizeof(*ret->watches) + n.names * sizeof(*ret->names) +
		     n.reads * sizeof(*ps.reads) + n.ops * sizeof(*ps.ops) + n.text + 64;
	ret->memory = rut_agent_map(ret->bytes);
	if (!ret->memory)
		return -ENOMEM;
	ret->watches = ret->memory;
	ret->names = (void *)(ret->watches + n.watches);
	ps.ops = (void *)(ret->names + n.names);
	ps.reads = (void *)(ps.ops + n.ops);
	text = (char *)(ps.reads + n.reads);
	for (const char *c = config; *c && !rc; c += strlen(c) + 1) {
		size_t room = strlen(c + 1) + 1;

		if (*c != RUT_FILTER_WATCH)
			continue;
		memcpy(text, c + 1, room);
		rc = parse_entry(&ps, text);
		text += room;
	}
	if (rc)
		rut_agent_watches_fini(ret);
	else
		qsort(ret->names, ret->nnames, sizeof(*ret->names), compare_names);
	return rc;
}

void rut_agent_watches_fini(struct rut_watches *w)
{
	if (w->memory)
		rut_agent_unmap(w->memory, w->bytes);
	*w = (struct rut_watches){0};
}

static int compare_method(const struct rut_watch_name *n, const char *method, size_t len)
{
	int d = strncmp(n->method, method, len);

	return d ? d : n->method[len] != 0;
}

/* The first one with this method; NULL: there is none. */
static const struct rut_watch_name *first_of(const struct rut_watches *w, const char *method,
					     size_t len)
{
	size_t low = 0, high = w->nnames;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (compare_method(&w->names[mid], method, len) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low < w->nnames && compare_method(&w->names[low], method, len) == 0 ? &w->names[low]
										   : NULL;
}

bool rut_agent_watches_has(const struct rut_watches *w, const char *method, size_t len)
{
	return first_of(w, method, len) != NULL;
}

struct rut_watch *rut_agent_watches_find(const struct rut_watches *w, const char *class_name,
					 bool singleton, const char *method)
{
	const struct rut_watch_name *n = method ? first_of(w, method, strlen(method)) : NULL;
	size_t len = strlen(class_name);

	for (; n && n < w->names + w->nnames && strcmp(n->method, method) == 0; n++)
		if (strncmp(n->name, class_name, len) == 0 && n->name + len + 1 == n->method &&
		    n->name[len] == (singleton ? '.' : '#'))
			return n->watch;
	return NULL;
}

/* ---- SQL ---- */

struct mask {
	char *to;
	size_t cap, len;
	bool space; /* white space is due */
	bool mysql; /* "text" is a value */
	/* Within the parentheses of IN or VALUES; behind them. */
	bool values, listed;
};

static void put(struct mask *m, char c)
{
	if (m->space && m->len && m->len < m->cap)
		m->to[m->len++] = ' ';
	m->space = false;
	if (m->len < m->cap)
		m->to[m->len++] = c;
}

static void put_text(struct mask *m, const char *s, size_t n)
{
	if (!n)
		return;
	put(m, *s++);
	n--;
	if (n > m->cap - m->len)
		n = m->cap - m->len;
	memcpy(m->to + m->len, s, n);
	m->len += n;
}

/* Does the '-' at the end belong to a number? */
static bool is_sign(const struct mask *m)
{
	size_t n = m->len - 1;

	while (n && m->to[n - 1] == ' ')
		n--;
	return !n || strchr("=(,<>+*/", m->to[n - 1]);
}

/* A value; one that follows another and a comma is left out, with the comma. */
static void put_value(struct mask *m)
{
	size_t n = m->len;

	if (n && m->to[n - 1] == ',') {
		n--;
		while (n && m->to[n - 1] == ' ')
			n--;
		if (n && m->to[n - 1] == '?') {
			m->len = n;
			m->space = false;
			return;
		}
	}
	if (!m->space && m->len && m->to[m->len - 1] == '-' && is_sign(m))
		m->len--;
	put(m, '?');
}

static bool is_word(char c)
{
	static const bool words[256] = {['a' ... 'z'] = true,
					['A' ... 'Z'] = true,
					['0' ... '9'] = true,
					['_'] = true,
					[128 ... 255] = true};

	return words[(unsigned char)c];
}

/*
 * Behind the quoted text that begins at `i`. A quote that is doubled or escaped does not end it.
 * Without `escapes` it depends on the server's settings what a backslash before a quote means: then
 * the rest may be a value, and is left out.
 */
static size_t quoted(const char *s, size_t i, size_t n, bool escapes)
{
	char quote = s[i++];

	for (; i < n; i++) {
		bool before_quote = i + 1 < n && s[i + 1] == quote;

		if ((s[i] == '\\' && escapes) || (s[i] == quote && before_quote))
			i++;
		else if (s[i] == '\\' && before_quote)
			return n;
		else if (s[i] == quote)
			return i + 1;
	}
	return n;
}

/* Behind PostgreSQL's $tag$text$tag$ at `i`, or `i`. */
static size_t dollar(const char *s, size_t i, size_t n)
{
	size_t tag = i + 1;

	while (tag < n && is_word(s[tag]) && !(s[i + 1] >= '0' && s[i + 1] <= '9'))
		tag++;
	if (tag >= n || s[tag] != '$')
		return i;
	tag = tag + 1 - i;
	for (size_t at = i + tag; at + tag <= n; at++)
		if (memcmp(s + at, s + i, tag) == 0)
			return at + tag;
	return n;
}

static size_t comment(const char *s, size_t i, size_t n)
{
	/* MySQL's; PostgreSQL has operators that begin so. */
	bool is_hash = s[i] == '#' && (i + 1 == n || !strchr(">-#", s[i + 1]));

	if ((i + 1 < n && s[i] == '-' && s[i + 1] == '-') || is_hash) {
		while (i < n && s[i] != '\n')
			i++;
	} else if (i + 1 < n && s[i] == '/' && s[i + 1] == '*') {
		for (i += 2; i < n && !(s[i - 1] == '*' && s[i] == '/' && i > 2); i++)
			;
		i += i < n;
	}
	return i;
}

/* A number, or a word that is no value. */
static size_t word(struct mask *m, const char *s, size_t i, size_t n)
{
	bool number = s[i] >= '0' && s[i] <= '9';
	size_t begin = i;

	while (i < n &&
	       (is_word(s[i]) || (number && s[i] == '.') ||
		(number && (s[i] == '-' || s[i] == '+') && i > begin && (s[i - 1] | 32) == 'e' &&
		 i + 1 < n && s[i + 1] >= '0' && s[i + 1] <= '9')))
		i++;
	if (number) {
		put_value(m);
		return i;
	}
	/* E'...', X'...', N'...', B'...', U&'...' are values. */
	if (i < n && s[i] == '\'' && i - begin == 1 && strchr("eExXnNbB", s[begin])) {
		put_value(m);
		return quoted(s, i, n, m->mysql || (s[begin] | 32) == 'e');
	}
	put_text(m, s + begin, i - begin);
	return i;
}

/* Does the masked text end with this word, in capitals or not? */
static bool ends_with(const struct mask *m, const char *name)
{
	size_t len = strlen(name), n = m->len;

	while (n && m->to[n - 1] == ' ')
		n--;
	return n >= len && !strncasecmp(m->to + n - len, name, len) &&
	       (n == len || !is_word(m->to[n - len - 1]));
}

/*
 * Double quotes hold a name in SQL, and a value in MySQL's: what can be no name, is compared with
 * something, or stands in a list of values, is taken for a value.
 */
static bool is_value(const struct mask *m, const char *s, size_t i, size_t end, size_t n)
{
	size_t last = m->len;

	for (size_t k = i + 1; k + 1 < end; k++)
		if (!is_word(s[k]) && s[k] != '$')
			return true;
	if (end < n && s[end] == '.')
		return false;
	while (last && m->to[last - 1] == ' ')
		last--;
	return m->values || (last && strchr("=<>!~+*/|", m->to[last - 1])) || ends_with(m, "like");
}

size_t rut_agent_sql_mask(char *to, size_t cap, const char *sql, size_t n)
{
	struct mask m = {.to = to, .cap = cap};
	size_t i = 0, end;

	/* The application waits meanwhile. */
	if (n > SQL_MAX)
		n = SQL_MAX;
	m.mysql = memchr(sql, '`', n) != NULL;
	while (i < n && m.len < cap) {
		char c = sql[i];

		if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
			m.space = true;
			i++;
		} else if (is_word(c)) {
			i = word(&m, sql, i, n);
		} else if (c == '\'' || (c == '"' && m.mysql)) {
			put_value(&m);
			i = quoted(sql, i, n, m.mysql);
		} else if (c == '"' || c == '`') {
			end = quoted(sql, i, n, false);
			if (c == '"' && is_value(&m, sql, i, end, n)) {
				put_value(&m);
				i = end;
			}
			put_text(&m, sql + i, end - i);
			i = end;
		} else if (c == '$' && (end = dollar(sql, i, n)) != i) {
			put_value(&m);
			i = end;
		} else if (c == '$' || c == ':' || c == '@') {
			/* $1, :name, @variable: a name */
			for (end = i + 1; end < n && is_word(sql[end]); end++)
				;
			put_text(&m, sql + i, end - i);
			i = end;
		} else if ((end = comment(sql, i, n)) != i) {
			m.space = true;
			i = end;
		} else if (c == '?') {
			put_value(&m);
			i++;
		} else {
			if (c == '(')
				m.values = ends_with(&m, "in") || ends_with(&m, "values") ||
					   (m.listed && m.len && m.to[m.len - 1] == ',');
			if (c == ')') {
				m.listed = m.values;
				m.values = false;
			}
			put(&m, c);
			i++;
		}
	}
	return m.len;
}
