/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <string.h>

#include "script/parse_priv.h"
#include "script/prelude.h"

static const char *const type_words[] = {
	"bool",	    "typeof", "int8",	 "int16",     "int32",	  "int64",   "uint8",	 "uint16",
	"uint32",   "uint64", "string",	 "buffer",    "struct",	  "union",   "enum",	 "void",
	"char",	    "short",  "int",	 "long",      "unsigned", "signed",  "size_t",	 "ssize_t",
	"s8",	    "s16",    "s32",	 "s64",	      "u8",	  "u16",     "u32",	 "u64",
	"pid_t",    "uid_t",  "gid_t",	 "uintptr_t", "intptr_t", "__u8",    "__u16",	 "__u32",
	"__u64",    "__s8",   "__s16",	 "__s32",     "__s64",	  "uint8_t", "uint16_t", "uint32_t",
	"uint64_t", "int8_t", "int16_t", "int32_t",   "int64_t",  "const",   "volatile",
};

static bool is_type_word(const char *s, uint32_t n)
{
	for (size_t i = 0; i < sizeof(type_words) / sizeof(*type_words); i++)
		if (strlen(type_words[i]) == n && !memcmp(type_words[i], s, n))
			return true;
	return false;
}

/* A name, then '*' up to ')': a cast to a pointer to a typedef. */
static bool is_pointer_cast(struct rut_parser *p)
{
	struct rut_lexer ahead = p->lex;
	const char *s;

	rut_lex_space(&ahead);
	s = p->lex.src->text + ahead.pos;
	if (*s != '*')
		return false;
	while (*s == '*' || *s == ' ')
		s++;
	return *s == ')';
}

bool rut_p_at_type(struct rut_parser *p)
{
	if (p->tok.kind != RUT_TOK_NAME)
		return false;
	return is_type_word(p->lex.src->text + p->tok.span.pos, p->tok.span.len) ||
	       is_pointer_cast(p);
}

bool rut_p_type_mods(struct rut_parser *p, struct rut_type_name *t)
{
	while (rut_p_is(p, '*') || rut_p_is(p, '[')) {
		uint32_t mod = RUT_TYPE_POINTER;

		if (t->nmods == RUT_TYPE_MODS)
			return rut_p_error(p, "the type has more than %d parts", RUT_TYPE_MODS);
		if (rut_p_take(p, '[')) {
			mod = RUT_TYPE_UNSIZED;
			if (p->tok.kind == RUT_TOK_INT && p->tok.value <= RUT_TYPE_ELEMENTS_MAX) {
				mod = (uint32_t)p->tok.value;
				rut_p_next(p);
			} else if (!rut_p_is(p, ']')) {
				return rut_p_error(p, "the number of elements must stand here");
			}
			if (!rut_p_want(p, ']', "the number of elements"))
				return false;
		} else {
			rut_p_next(p);
		}
		t->mods[t->nmods++] = mod;
		while (mod == RUT_TYPE_POINTER && rut_p_is_name(p, "const"))
			rut_p_next(p);
	}
	return !p->failed;
}

/* "struct foo", "unsigned long", "uint8", and what stands behind it. */
struct rut_type_name *rut_p_type(struct rut_parser *p)
{
	struct rut_type_name *t = rut_p_alloc(p, sizeof(*t));
	char text[128];
	size_t len = 0;
	bool tagged;

	if (!t || p->tok.kind != RUT_TOK_NAME)
		return rut_p_error(p, "a type must stand here");
	t->span = p->tok.span;
	if (rut_p_is_name(p, "typeof")) {
		t->text = "typeof";
		rut_p_next(p);
		if (!rut_p_want(p, '(', "typeof"))
			return NULL;
		if (rut_p_at_type(p)) {
			t = rut_p_type(p);
			if (!t)
				return NULL;
		} else {
			t->of = rut_p_expr(p);
			if (!t->of)
				return NULL;
		}
		return rut_p_want(p, ')', "the value") && rut_p_type_mods(p, t) ? t : NULL;
	}
	while (rut_p_is_name(p, "const") || rut_p_is_name(p, "volatile"))
		rut_p_next(p);
	tagged =
		rut_p_is_name(p, "struct") || rut_p_is_name(p, "union") || rut_p_is_name(p, "enum");
	for (unsigned words = 0; p->tok.kind == RUT_TOK_NAME; words++) {
		const char *s = p->lex.src->text + p->tok.span.pos;

		if (words && !tagged && !is_type_word(s, p->tok.span.len))
			break;
		if (tagged && words == 2)
			break;
		if (len + p->tok.span.len + 2 > sizeof(text))
			return rut_p_error(p, "the name of the type is too long");
		if (len)
			text[len++] = ' ';
		memcpy(text + len, s, p->tok.span.len);
		len += p->tok.span.len;
		rut_p_next(p);
	}
	t->text = rut_arena_strndup(&p->ast->arena, text, len);
	if (!rut_p_type_mods(p, t))
		return NULL;
	t->span.len = p->end - t->span.pos;
	return p->failed ? NULL : t;
}

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* The character of the escape behind a backslash; *s is moved behind it. -1: there is none such. */
static int unescape(const char **s)
{
	char c = *(*s)++;
	int v;

	switch (c) {
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case 'r':
		return '\r';
	case 'a':
		return '\a';
	case 'b':
		return '\b';
	case 'e':
		return 27;
	case 'f':
		return '\f';
	case 'v':
		return '\v';
	case '\\':
	case '"':
	case '\'':
		return c;
	case 'x':
		v = hex(**s);
		if (v < 0)
			return -1;
		(*s)++;
		if (hex(**s) >= 0)
			v = v * 16 + hex(*(*s)++);
		return v;
	default:
		if (c < '0' || c > '7')
			return -1;
		v = c - '0';
		for (int i = 0; i < 2 && **s >= '0' && **s <= '7'; i++)
			v = v * 8 + *(*s)++ - '0';
		return v & 255;
	}
}

static struct rut_node *parse_string(struct rut_parser *p)
{
	struct rut_node *n = rut_p_node(p, RUT_N_STRING, p->tok.span.pos);
	const char *s = p->lex.src->text + p->tok.span.pos + 1;
	const char *end = s + p->tok.span.len - 2;
	char *to = rut_p_alloc(p, p->tok.span.len);

	if (!n || !to)
		return NULL;
	n->text = to;
	while (s < end) {
		int c = (unsigned char)*s++;

		if (c == '\\') {
			c = unescape(&s);
			if (c < 0) {
				p->tok.span.pos = (uint32_t)(s - p->lex.src->text) - 2;
				p->tok.span.len = 2;
				return rut_p_error(p,
						   "there is no such escape (\\n \\t \\r \\\" \\\\ "
						   "\\xHH \\NNN are)");
			}
		}
		*to++ = (char)c;
	}
	n->len = (uint32_t)(to - n->text);
	rut_p_next(p);
	return rut_p_close(p, n);
}

/* Expressions up to `close`, commas between. */
static struct rut_node *parse_list(struct rut_parser *p, int close)
{
	struct rut_node *first = NULL, **tail = &first;

	while (!rut_p_is(p, close)) {
		struct rut_node *e;

		if (first && !rut_p_want(p, ',', "an argument"))
			return NULL;
		if (first && rut_p_is(p, close))
			break;
		e = rut_p_expr(p);
		if (!e)
			return NULL;
		*tail = e;
		tail = &e->next;
	}
	rut_p_next(p);
	return first;
}

static struct rut_node *parse_sizeof(struct rut_parser *p, struct rut_node *n)
{
	rut_p_next(p);
	n->kind = !strcmp(n->text, "sizeof") ? RUT_N_SIZEOF : RUT_N_OFFSETOF;
	if (rut_p_at_type(p)) {
		n->type_name = rut_p_type(p);
		if (!n->type_name)
			return NULL;
	} else {
		n->a = rut_p_expr(p);
		if (!n->a)
			return NULL;
	}
	if (n->kind == RUT_N_OFFSETOF) {
		struct rut_node **tail = &n->list;

		if (!rut_p_want(p, ',', "the type"))
			return NULL;
		do {
			if (p->tok.kind != RUT_TOK_NAME)
				return rut_p_error(p, "the name of a field must stand here");
			*tail = rut_p_node(p, RUT_N_NAME, p->tok.span.pos);
			if (!*tail)
				return NULL;
			(*tail)->text = rut_p_text(p, p->tok.span);
			tail = &(*tail)->next;
			rut_p_next(p);
		} while (rut_p_take(p, '.'));
	}
	return rut_p_want(p, ')', "it") ? rut_p_close(p, n) : NULL;
}

static struct rut_node *parse_name(struct rut_parser *p)
{
	struct rut_node *n;

	if (rut_p_is_name(p, "if"))
		return rut_p_if(p);
	n = rut_p_node(p, RUT_N_NAME, p->tok.span.pos);
	if (!n)
		return NULL;
	if (rut_p_is_name(p, "typeof")) {
		n->kind = RUT_N_TYPE;
		n->type_name = rut_p_type(p);
		return n->type_name ? rut_p_close(p, n) : NULL;
	}
	n->text = rut_p_text(p, p->tok.span);
	if (!n->text)
		return NULL;
	rut_p_next(p);
	if (!strcmp(n->text, "true") || !strcmp(n->text, "false")) {
		n->kind = RUT_N_INT;
		n->op = RUT_INT_BOOL;
		n->value = n->text[0] == 't';
		return rut_p_close(p, n);
	}
	if (!rut_p_is(p, '('))
		return rut_p_close(p, n);
	if (!strcmp(n->text, "sizeof") || !strcmp(n->text, "offsetof"))
		return parse_sizeof(p, n);
	n->kind = RUT_N_CALL;
	rut_p_next(p);
	n->list = parse_list(p, ')');
	if (p->failed)
		return NULL;
	rut_prelude_call(p->ast, n);
	return rut_p_close(p, n);
}

static struct rut_node *parse_map(struct rut_parser *p)
{
	struct rut_node *n = rut_p_node(p, RUT_N_MAP, p->tok.span.pos);

	if (!n)
		return NULL;
	n->text = rut_p_text(p, p->tok.span);
	rut_p_next(p);
	if (rut_p_is(p, '[')) {
		uint32_t pos = p->tok.span.pos;

		rut_p_next(p);
		if (rut_p_is(p, ']'))
			return rut_p_error(p, "a key must stand here");
		n->a = parse_list(p, ']');
		if (n->a && n->a->next) {
			struct rut_node *tuple = rut_p_node(p, RUT_N_TUPLE, pos);

			if (!tuple)
				return NULL;
			tuple->list = n->a;
			n->a = rut_p_close(p, tuple);
		}
	}
	return p->failed ? NULL : rut_p_close(p, n);
}

/* name = value, ... of a record; the first name was seen. */
static struct rut_node *parse_record(struct rut_parser *p, struct rut_node *n)
{
	struct rut_node **tail = &n->list;

	n->kind = RUT_N_RECORD;
	do {
		const char *label = NULL;

		if (rut_p_is(p, ')'))
			break;
		if (p->tok.kind == RUT_TOK_NAME)
			label = rut_p_text(p, p->tok.span);
		rut_p_next(p);
		if (!label || !rut_p_want(p, '=', "the name of a field"))
			return rut_p_error(p, "in a record each value has a name: (a = 1, b = 2)");
		*tail = rut_p_expr(p);
		if (!*tail)
			return NULL;
		(*tail)->label = label;
		tail = &(*tail)->next;
	} while (rut_p_take(p, ','));
	return rut_p_want(p, ')', "the record") ? rut_p_close(p, n) : NULL;
}

static bool at_record(struct rut_parser *p)
{
	struct rut_lexer ahead = p->lex;
	struct rut_token t;

	if (p->tok.kind != RUT_TOK_NAME)
		return false;
	rut_lex_space(&ahead);
	if (ahead.pos >= ahead.src->len || ahead.src->text[ahead.pos] != '=')
		return false;
	rut_lex_next(&ahead, &t);
	return t.op == '=';
}

/* ( expr ), ( a, b ), (type)expr */
static struct rut_node *parse_paren(struct rut_parser *p)
{
	struct rut_node *n = rut_p_node(p, RUT_N_TUPLE, p->tok.span.pos), *e;
	bool predicate = p->predicate;

	if (!n)
		return NULL;
	p->predicate = false;
	rut_p_next(p);
	if (at_record(p)) {
		e = parse_record(p, n);
		p->predicate = predicate;
		return e;
	}
	e = rut_p_expr(p);
	p->predicate = predicate;
	if (!e)
		return NULL;
	if (rut_p_take(p, ')'))
		return e;
	if (!rut_p_want(p, ',', "an expression"))
		return NULL;
	n->list = e;
	e->next = parse_list(p, ')');
	return p->failed ? NULL : rut_p_close(p, n);
}

static struct rut_define *find_define(const struct rut_parser *p)
{
	const char *text = p->lex.src->text + p->tok.span.pos;

	for (struct rut_define *d = p->ast->defines; d; d = d->next)
		if (strlen(d->name) == p->tok.span.len && !memcmp(d->name, text, p->tok.span.len))
			return d;
	return NULL;
}

/* The expression of a #define, as if it stood here in parentheses. */
static struct rut_node *parse_defined(struct rut_parser *p, struct rut_define *d)
{
	struct rut_source *src = p->lex.src;
	uint32_t pos = p->lex.pos;
	size_t len = src->len;
	bool predicate = p->predicate;
	struct rut_node *n;

	if (d->open)
		return rut_p_error(p, "'%s' is defined by itself", d->name);
	/* Each of n definitions may use the next one twice. */
	if (++p->expansions > RUT_PARSE_EXPANSIONS_MAX)
		return rut_p_error(p, "the script uses #define more than %d times",
				   RUT_PARSE_EXPANSIONS_MAX);
	d->open = true;
	p->predicate = false;
	p->lex.pos = d->pos;
	/* It ends with its line. */
	src->len = d->end;
	rut_p_next(p);
	n = rut_p_expr(p);
	if (n && p->tok.kind != RUT_TOK_END)
		n = rut_p_error(p, "the value of '%s' ends here", d->name);
	src->len = len;
	p->lex.pos = pos;
	p->predicate = predicate;
	d->open = false;
	rut_p_next(p);
	return n;
}

static struct rut_node *parse_primary(struct rut_parser *p)
{
	struct rut_define *define;
	struct rut_node *n;

	switch (p->tok.kind) {
	case RUT_TOK_INT:
		n = rut_p_node(p, RUT_N_INT, p->tok.span.pos);
		if (!n)
			return NULL;
		n->value = p->tok.value;
		n->op = p->tok.is_duration   ? RUT_INT_DURATION
			: p->tok.is_unsigned ? RUT_INT_UNSIGNED
					     : 0;
		rut_p_next(p);
		return rut_p_close(p, n);
	case RUT_TOK_STRING:
		return parse_string(p);
	case RUT_TOK_NAME:
		define = find_define(p);
		return define ? parse_defined(p, define) : parse_name(p);
	case RUT_TOK_MAP:
		return parse_map(p);
	case RUT_TOK_VAR:
	case RUT_TOK_PARAM:
		n = rut_p_node(p, p->tok.kind == RUT_TOK_VAR ? RUT_N_VAR : RUT_N_PARAM,
			       p->tok.span.pos);
		if (!n)
			return NULL;
		n->text = rut_p_text(p, p->tok.span);
		n->value = p->tok.value;
		rut_p_next(p);
		return rut_p_close(p, n);
	default:
		if (rut_p_is(p, '('))
			return parse_paren(p);
		if (rut_p_is(p, '{'))
			return rut_p_block(p);
		return rut_p_error(p, p->tok.kind == RUT_TOK_END
					      ? "the script ends where a value is expected"
					      : "a value is expected here");
	}
}

static struct rut_node *parse_field(struct rut_parser *p, struct rut_node *a)
{
	struct rut_node *n = rut_p_node(p, RUT_N_FIELD, a->span.pos);

	if (!n)
		return NULL;
	n->a = a;
	n->op = p->tok.op;
	rut_p_next(p);
	if (p->tok.kind == RUT_TOK_NAME)
		n->text = rut_p_text(p, p->tok.span);
	else if (p->tok.kind == RUT_TOK_INT)
		n->value = p->tok.value;
	else
		return rut_p_error(p, "the name of a field must stand here");
	rut_p_next(p);
	return rut_p_close(p, n);
}

static struct rut_node *parse_postfix(struct rut_parser *p)
{
	struct rut_node *e = parse_primary(p), *n;

	while (e && !p->failed) {
		if (rut_p_is(p, '.') || rut_p_is(p, RUT_OP_ARROW)) {
			e = parse_field(p, e);
		} else if (rut_p_is(p, '[')) {
			n = rut_p_node(p, RUT_N_INDEX, e->span.pos);
			if (!n)
				return NULL;
			n->a = e;
			rut_p_next(p);
			n->b = rut_p_expr(p);
			if (!n->b || !rut_p_want(p, ']', "the index"))
				return NULL;
			e = rut_p_close(p, n);
		} else if ((rut_p_is(p, RUT_OP_INC) || rut_p_is(p, RUT_OP_DEC)) &&
			   (e->kind == RUT_N_MAP || e->kind == RUT_N_VAR)) {
			n = rut_p_node(p, RUT_N_INCDEC, e->span.pos);
			if (!n)
				return NULL;
			n->a = e;
			n->op = p->tok.op;
			rut_p_next(p);
			e = rut_p_close(p, n);
		} else {
			break;
		}
	}
	return p->failed ? NULL : e;
}

static struct rut_node *parse_unary(struct rut_parser *p);

/* (type)expr: the parenthesis is the token. */
static struct rut_node *parse_cast(struct rut_parser *p)
{
	struct rut_node *n = rut_p_node(p, RUT_N_CAST, p->tok.span.pos);

	if (!n)
		return NULL;
	rut_p_next(p);
	n->type_name = rut_p_type(p);
	if (!n->type_name || !rut_p_want(p, ')', "the type"))
		return NULL;
	n->a = parse_unary(p);
	return n->a ? rut_p_close(p, n) : NULL;
}

static bool at_cast(struct rut_parser *p)
{
	struct rut_parser ahead = *p;
	const char *s;

	if (!rut_p_is(p, '('))
		return false;
	rut_lex_space(&ahead.lex);
	s = ahead.lex.src->text + ahead.lex.pos;
	if (!isalpha((unsigned char)*s) && *s != '_')
		return false;
	rut_lex_next(&ahead.lex, &ahead.tok);
	return rut_p_at_type(&ahead);
}

static struct rut_node *parse_unary(struct rut_parser *p)
{
	struct rut_node *n;
	int op = p->tok.kind == RUT_TOK_OP ? p->tok.op : 0;

	if (!rut_p_enter(p))
		return NULL;
	if (at_cast(p)) {
		n = parse_cast(p);
	} else if (op &&
		   ((op < 256 && strchr("!-~*&+", op)) || op == RUT_OP_INC || op == RUT_OP_DEC)) {
		n = rut_p_node(p, RUT_N_UNARY, p->tok.span.pos);
		if (!n)
			return NULL;
		n->op = op;
		rut_p_next(p);
		n->a = parse_unary(p);
		if (!n->a)
			return NULL;
		if (op == RUT_OP_INC || op == RUT_OP_DEC) {
			n->kind = RUT_N_INCDEC;
			n->value = 1;
		}
		n = op == '+' ? n->a : rut_p_close(p, n);
	} else {
		n = parse_postfix(p);
	}
	p->depth--;
	return n;
}

static const struct {
	int op, level;
} levels[] = {
	{RUT_OP_OR, 1},	 {RUT_OP_AND, 2}, {'|', 3}, {'^', 4},	    {'&', 5},	    {RUT_OP_EQ, 6},
	{RUT_OP_NE, 6},	 {'<', 7},	  {'>', 7}, {RUT_OP_LE, 7}, {RUT_OP_GE, 7}, {RUT_OP_SHL, 8},
	{RUT_OP_SHR, 8}, {'+', 9},	  {'-', 9}, {'*', 10},	    {'/', 10},	    {'%', 10},
};

/* The level of the binary operator at the token; 0: there is none. */
static int level_of(struct rut_parser *p)
{
	if (p->tok.kind != RUT_TOK_OP)
		return 0;
	if (p->tok.op == '/' && p->predicate) {
		struct rut_lexer ahead = p->lex;

		rut_lex_space(&ahead);
		if (ahead.pos < ahead.src->len && ahead.src->text[ahead.pos] == '{')
			return 0;
	}
	for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++)
		if (levels[i].op == p->tok.op)
			return levels[i].level;
	return 0;
}

static struct rut_node *parse_binary(struct rut_parser *p, int least)
{
	struct rut_node *e = parse_unary(p), *n;

	for (;;) {
		int level = e ? level_of(p) : 0;

		if (level < least || !level)
			return e;
		n = rut_p_node(p, RUT_N_BINARY, e->span.pos);
		if (!n)
			return NULL;
		n->op = p->tok.op;
		n->a = e;
		rut_p_next(p);
		n->b = parse_binary(p, level + 1);
		if (!n->b)
			return NULL;
		e = rut_p_close(p, n);
	}
}

/* a ?: c: as { let $x = a; $x ? $x : c }, so that `a` is calculated once. */
static struct rut_node *first_or(struct rut_parser *p, struct rut_node *ternary)
{
	struct rut_node *let = rut_p_node(p, RUT_N_LET, ternary->span.pos);
	struct rut_node *last = rut_p_node(p, RUT_N_EXPR, ternary->span.pos);
	struct rut_node *block = rut_p_node(p, RUT_N_BLOCK, ternary->span.pos), *vars[3];

	for (int i = 0; i < 3; i++) {
		vars[i] = rut_p_node(p, RUT_N_VAR, ternary->span.pos);
		if (!vars[i])
			return NULL;
		vars[i]->text = "$(first)";
	}
	if (!let || !last || !block)
		return NULL;
	let->a = vars[0];
	let->b = ternary->a;
	let->next = last;
	ternary->a = vars[1];
	ternary->b = vars[2];
	last->a = ternary;
	block->list = let;
	return rut_p_close(p, block);
}

struct rut_node *rut_p_expr(struct rut_parser *p)
{
	struct rut_node *e, *n;

	if (!rut_p_enter(p))
		return NULL;
	e = parse_binary(p, 1);
	if (e && rut_p_is(p, '?')) {
		n = rut_p_node(p, RUT_N_TERNARY, e->span.pos);
		if (!n)
			return NULL;
		n->a = e;
		rut_p_next(p);
		n->b = rut_p_is(p, ':') ? NULL : rut_p_expr(p);
		if ((!n->b && p->failed) || !rut_p_want(p, ':', "the value after '?'"))
			return NULL;
		n->c = rut_p_expr(p);
		e = !n->c ? NULL : n->b ? rut_p_close(p, n) : first_or(p, rut_p_close(p, n));
	}
	p->depth--;
	return e;
}
