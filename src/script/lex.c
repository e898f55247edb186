/* SPDX-License-Identifier: MIT */
#include "script/lex.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

static const struct {
	char text[4];
	int op;
} operators[] = {
	/* Longer ones first. */
	{"<<=", RUT_OP_ASSIGN + RUT_OP_SHL},
	{">>=", RUT_OP_ASSIGN + RUT_OP_SHR},
	{"==", RUT_OP_EQ},
	{"!=", RUT_OP_NE},
	{"<=", RUT_OP_LE},
	{">=", RUT_OP_GE},
	{"<<", RUT_OP_SHL},
	{">>", RUT_OP_SHR},
	{"&&", RUT_OP_AND},
	{"||", RUT_OP_OR},
	{"++", RUT_OP_INC},
	{"--", RUT_OP_DEC},
	{"->", RUT_OP_ARROW},
	{"..", RUT_OP_RANGE},
	{"+=", RUT_OP_ASSIGN + '+'},
	{"-=", RUT_OP_ASSIGN + '-'},
	{"*=", RUT_OP_ASSIGN + '*'},
	{"/=", RUT_OP_ASSIGN + '/'},
	{"%=", RUT_OP_ASSIGN + '%'},
	{"&=", RUT_OP_ASSIGN + '&'},
	{"|=", RUT_OP_ASSIGN + '|'},
	{"^=", RUT_OP_ASSIGN + '^'},
};

const char *rut_op_text(int op, char *buf)
{
	for (size_t i = 0; i < sizeof(operators) / sizeof(*operators); i++)
		if (operators[i].op == op)
			return operators[i].text;
	buf[0] = (char)op;
	buf[1] = 0;
	return buf;
}

static char at(const struct rut_lexer *l, uint32_t ahead)
{
	return l->pos + ahead < l->src->len ? l->src->text[l->pos + ahead] : 0;
}

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

void rut_lex_space(struct rut_lexer *l)
{
	while (l->pos < l->src->len) {
		if (isspace((unsigned char)at(l, 0))) {
			l->pos++;
		} else if (at(l, 0) == '/' && at(l, 1) == '/') {
			while (l->pos < l->src->len && at(l, 0) != '\n')
				l->pos++;
		} else if (at(l, 0) == '/' && at(l, 1) == '*') {
			const char *end = l->pos + 2 < l->src->len
						  ? strstr(l->src->text + l->pos + 2, "*/")
						  : NULL;

			l->pos = end ? (uint32_t)(end - l->src->text) + 2 : (uint32_t)l->src->len;
		} else {
			break;
		}
	}
}

static void bad(struct rut_lexer *l, struct rut_token *t, const char *why)
{
	t->kind = RUT_TOK_BAD;
	t->span.len = l->pos > t->span.pos ? l->pos - t->span.pos : 1;
	rut_source_error(l->src, t->span, "%s", why);
}

static void lex_string(struct rut_lexer *l, struct rut_token *t)
{
	l->pos++;
	while (at(l, 0) != '"') {
		if (l->pos >= l->src->len) {
			l->pos = t->span.pos + 1;
			bad(l, t, "the string has no end");
			l->pos = (uint32_t)l->src->len;
			return;
		}
		l->pos += at(l, 0) == '\\' && l->pos + 1 < l->src->len ? 2 : 1;
	}
	l->pos++;
	t->kind = RUT_TOK_STRING;
}

static const struct {
	char suffix[4];
	uint64_t ns;
} units[] = {
	{"ns", 1},
	{"us", 1000},
	{"ms", 1000000},
	{"s", 1000000000},
	{"m", 60000000000ull},
	{"h", 3600000000000ull},
	{"d", 86400000000000ull},
};

/* What stands behind the digits: a unit of time, or u, l and the like, which say nothing here. */
static void lex_suffix(struct rut_lexer *l, struct rut_token *t)
{
	const char *s = l->src->text + l->pos;
	size_t n = 0;

	while (is_name(at(l, (uint32_t)n)))
		n++;
	l->pos += (uint32_t)n;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strlen(units[i].suffix) != n || memcmp(units[i].suffix, s, n) != 0)
			continue;
		if (__builtin_mul_overflow(t->value, units[i].ns, &t->value))
			bad(l, t, "the duration is too long");
		t->is_duration = true;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (s[i] == 'u' || s[i] == 'U') {
			t->is_unsigned = true;
		} else if (s[i] != 'l' && s[i] != 'L') {
			bad(l, t, "this is neither a number nor a duration (ns us ms s m h d)");
			return;
		}
	}
}

static int digit(char c, unsigned base)
{
	int v = isdigit((unsigned char)c)   ? c - '0'
		: isalpha((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
					    : 99;

	return v < (int)base ? v : -1;
}

static void lex_exponent(struct rut_lexer *l, struct rut_token *t)
{
	unsigned n = 0;

	l->pos++;
	while (isdigit((unsigned char)at(l, 0)) && n < 100)
		n = n * 10 + (unsigned)(l->src->text[l->pos++] - '0');
	for (; n && t->value; n--)
		if (__builtin_mul_overflow(t->value, 10ull, &t->value)) {
			bad(l, t, "the number does not fit into 64 bits");
			return;
		}
}

static void lex_number(struct rut_lexer *l, struct rut_token *t)
{
	unsigned base = 10;
	bool any = false, over = false;

	t->kind = RUT_TOK_INT;
	if (at(l, 0) == '0' && (at(l, 1) == 'x' || at(l, 1) == 'X'))
		base = 16;
	else if (at(l, 0) == '0' && (at(l, 1) == 'b' || at(l, 1) == 'B'))
		base = 2;
	else if (at(l, 0) == '0' && isdigit((unsigned char)at(l, 1)))
		base = 8;
	l->pos += base == 16 || base == 2 ? 2 : 0;
	for (;; l->pos++) {
		int d = digit(at(l, 0), base);

		if (any && at(l, 0) == '_' && digit(at(l, 1), base) >= 0)
			continue;
		if (d < 0)
			break;
		any = true;
		over |= __builtin_mul_overflow(t->value, (uint64_t)base, &t->value) ||
			__builtin_add_overflow(t->value, (uint64_t)d, &t->value);
	}
	if (!any || isdigit((unsigned char)at(l, 0)))
		bad(l, t, "this number has no such digit");
	else if (over)
		bad(l, t, "the number does not fit into 64 bits");
	else if (base == 10 && (at(l, 0) == 'e' || at(l, 0) == 'E') &&
		 isdigit((unsigned char)at(l, 1)))
		lex_exponent(l, t);
	if (t->kind == RUT_TOK_INT && is_name(at(l, 0)))
		lex_suffix(l, t);
}

static void lex_dollar(struct rut_lexer *l, struct rut_token *t)
{
	l->pos++;
	if (at(l, 0) == '#') {
		l->pos++;
		t->kind = RUT_TOK_PARAM;
		return;
	}
	if (isdigit((unsigned char)at(l, 0))) {
		t->kind = RUT_TOK_PARAM;
		while (isdigit((unsigned char)at(l, 0)) && t->value < 1000000)
			t->value = t->value * 10 + (uint64_t)(l->src->text[l->pos++] - '0');
		if (!t->value)
			bad(l, t, "parameters are counted from $1");
		return;
	}
	t->kind = RUT_TOK_VAR;
	while (is_name(at(l, 0)))
		l->pos++;
	if (l->pos == t->span.pos + 1)
		bad(l, t, "a variable has a name: $name");
}

static void lex_op(struct rut_lexer *l, struct rut_token *t)
{
	t->kind = RUT_TOK_OP;
	for (size_t i = 0; i < sizeof(operators) / sizeof(*operators); i++) {
		size_t n = strlen(operators[i].text);

		if (l->src->len - l->pos >= n &&
		    !memcmp(l->src->text + l->pos, operators[i].text, n)) {
			t->op = operators[i].op;
			l->pos += (uint32_t)n;
			return;
		}
	}
	t->op = (unsigned char)at(l, 0);
	l->pos++;
	if (!t->op || !strchr("+-*/%&|^~!<>=?:;,.(){}[]#", t->op))
		bad(l, t, "this character has no meaning here");
}

void rut_lex_next(struct rut_lexer *l, struct rut_token *t)
{
	*t = (struct rut_token){.kind = RUT_TOK_END, .before = l->pos};
	rut_lex_space(l);
	t->span.pos = l->pos;
	if (l->pos >= l->src->len)
		return;
	if (at(l, 0) == '"') {
		lex_string(l, t);
	} else if (isdigit((unsigned char)at(l, 0))) {
		lex_number(l, t);
	} else if (at(l, 0) == '$') {
		lex_dollar(l, t);
	} else if (at(l, 0) == '@' || is_name(at(l, 0))) {
		t->kind = at(l, 0) == '@' ? RUT_TOK_MAP : RUT_TOK_NAME;
		l->pos++;
		while (is_name(at(l, 0)))
			l->pos++;
	} else {
		lex_op(l, t);
	}
	t->span.len = l->pos - t->span.pos;
}

/* Kinds of probes with paths in their names. */
static bool has_path(const char *s, size_t n)
{
	static const char *const kinds[] = {"uprobe",	  "uretprobe",	     "usdt", "u", "ur", "U",
					    "watchpoint", "asyncwatchpoint", "ruby"};
	const char *colon = memchr(s, ':', n);

	for (size_t i = 0; colon && i < sizeof(kinds) / sizeof(*kinds); i++)
		if ((size_t)(colon - s) == strlen(kinds[i]) &&
		    !memcmp(s, kinds[i], (size_t)(colon - s)))
			return true;
	return false;
}

struct rut_span rut_lex_probe(struct rut_lexer *l)
{
	struct rut_span span;
	bool quoted = false;

	rut_lex_space(l);
	span = (struct rut_span){l->pos, 0};
	for (; l->pos < l->src->len; l->pos++) {
		char c = at(l, 0);

		if (quoted && c == '\\' && l->pos + 1 < l->src->len) {
			l->pos++;
			continue;
		}
		if (c == '"')
			quoted = !quoted;
		if (quoted)
			continue;
		if (isspace((unsigned char)c) || c == ',' || c == '{' || c == '}' || c == ';')
			break;
		if (c == '/' && !has_path(l->src->text + span.pos, l->pos - span.pos))
			break;
	}
	span.len = l->pos - span.pos;
	return span;
}

bool rut_lex_number(const char *text, uint64_t *ret)
{
	struct rut_source src;
	struct rut_lexer lex;
	struct rut_token t;

	rut_source_init(&src, "", text, strlen(text));
	lex = (struct rut_lexer){&src, 0};
	rut_lex_next(&lex, &t);
	rut_source_fini(&src);
	*ret = t.value;
	return t.kind == RUT_TOK_INT && lex.pos == src.len;
}
