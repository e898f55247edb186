/* SPDX-License-Identifier: MIT */
/*
 * The parser: recursive descent, from the loosest operator to the tightest.
 *
 *	||   &&   !   == != < <= > >= =* !* =~ !~ in, not in   |   ^   &   << >>   + -   * / %   - ~
 *
 * Unlike in C the bitwise operators bind tighter than comparisons: `$evt.flags & 4 == 4` tests
 * a bit, which is what everybody means. Types are checked as nodes are made.
 */
#include "expr/expr_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define MAX_DEPTH 100
#define MAX_NODES 4000

struct parser {
	struct rut_expr_lex lex;
	struct rut_expr *e;
	unsigned flags;
	int depth;
};

static int parse_or(struct parser *p, uint32_t *ret);

/* ---- Nodes ---- */

static int add_node(struct parser *p, enum rut_expr_kind kind, const char *at, uint32_t *ret)
{
	struct rut_expr *e = p->e;

	if (e->count >= MAX_NODES)
		return rut_expr_lex_error(&p->lex, at, "expression too long");
	if (e->count == e->cap) {
		uint32_t cap = e->cap ? e->cap * 2 : 32;
		void *n = realloc(e->nodes, cap * sizeof(*e->nodes));

		if (!n)
			return rut_expr_lex_error(&p->lex, at, "out of memory");
		e->nodes = n;
		e->cap = cap;
		if (!e->count)
			memset(&e->nodes[e->count++], 0, sizeof(*e->nodes));
	}
	*ret = e->count++;
	e->nodes[*ret] = (struct rut_expr_node){
		.kind = (uint8_t)kind,
		.column = (uint32_t)(at - p->lex.text) + 1,
	};
	return 0;
}

/* Keeps a string for as long as the expression lives; takes `s`. */
static const char *keep_string(struct parser *p, char *s)
{
	char **list = realloc(p->e->strings, (p->e->nstrings + 1) * sizeof(*list));

	if (!list || !s) {
		if (list)
			p->e->strings = list;
		free(s);
		rut_expr_lex_error(&p->lex, p->lex.start, "out of memory");
		return NULL;
	}
	p->e->strings = list;
	list[p->e->nstrings++] = s;
	return s;
}

static bool is_op(const struct parser *p, int op)
{
	return p->lex.tok == TOK_OP && p->lex.op == op;
}

static bool is_word(const struct parser *p, const char *word)
{
	return (p->lex.tok == TOK_ID || p->lex.tok == TOK_VAR) && p->lex.len == strlen(word) &&
	       !memcmp(p->lex.start, word, p->lex.len);
}

static int expect_op(struct parser *p, int op, const char *after)
{
	if (!is_op(p, op))
		return rut_expr_lex_error(&p->lex, p->lex.start, "expected '%c' after %s", op,
					  after);
	rut_expr_lex_next(&p->lex);
	return 0;
}

static const char *at_column(const struct parser *p, uint32_t node)
{
	return p->lex.text + p->e->nodes[node].column - 1;
}

/* ---- References ---- */

static int parse_scope(struct parser *p, uint8_t *ret)
{
	static const char *const names[] = {
		[RUT_EXPR_PAYLOAD] = "$payload",       [RUT_EXPR_CTX] = "$ctx",
		[RUT_EXPR_STREAM_CTX] = "$stream_ctx", [RUT_EXPR_HEADER] = "$header",
		[RUT_EXPR_PKT_CTX] = "$pkt_ctx",       [RUT_EXPR_PKT_HEADER] = "$pkt_header",
	};

	for (size_t i = RUT_EXPR_PAYLOAD; i < sizeof(names) / sizeof(*names); i++) {
		if (!is_word(p, names[i]))
			continue;
		*ret = (uint8_t)i;
		rut_expr_lex_next(&p->lex);
		return expect_op(p, '.', names[i]);
	}
	return rut_expr_lex_error(
		&p->lex, p->lex.start,
		"unknown name '%.*s' (known after $evt: $name $timestamp $payload $ctx $stream_ctx "
		"$header $pkt_ctx $pkt_header)",
		(int)(p->lex.len > 30 ? 30 : p->lex.len), p->lex.start);
}

/* name { .name | [number] }: the source text itself is the path. */
static int parse_path(struct parser *p, struct rut_expr_ref *ref)
{
	const char *start = p->lex.start, *end;

	if (p->lex.tok != TOK_ID)
		return rut_expr_lex_error(&p->lex, p->lex.start, "expected the name of a field");
	for (;;) {
		end = p->lex.start + p->lex.len;
		rut_expr_lex_next(&p->lex);
		if (is_op(p, '.') && p->lex.start == end) {
			rut_expr_lex_next(&p->lex);
			if (p->lex.tok != TOK_ID)
				return rut_expr_lex_error(
					&p->lex, p->lex.start,
					"expected the name of a member after '.'");
			continue;
		}
		if (!is_op(p, '[') || p->lex.start != end)
			break;
		rut_expr_lex_next(&p->lex);
		if (p->lex.tok != TOK_NUM || p->lex.num.type != RUT_EXPR_INT)
			return rut_expr_lex_error(&p->lex, p->lex.start,
						  "expected a number after '['");
		rut_expr_lex_next(&p->lex);
		if (!is_op(p, ']'))
			return rut_expr_lex_error(&p->lex, p->lex.start, "expected ']'");
	}
	if (end - start > 255)
		return rut_expr_lex_error(&p->lex, start, "name of a field too long");
	ref->path = keep_string(p, strndup(start, (size_t)(end - start)));
	return ref->path ? 0 : -EINVAL;
}

/* $parent. $grandparent. ... $begin. : fills ref->depth. */
static int parse_prefixes(struct parser *p, struct rut_expr_ref *ref)
{
	int parents = 0;

	while (is_word(p, "$parent") || is_word(p, "$grandparent")) {
		parents += p->lex.len == strlen("$parent") ? 1 : 2;
		if (p->flags & RUT_EXPR_FILTER)
			return rut_expr_lex_error(&p->lex, p->lex.start,
						  "only a period can refer to its parent");
		if (parents > 64)
			return rut_expr_lex_error(&p->lex, p->lex.start, "too many parents");
		rut_expr_lex_next(&p->lex);
		if (expect_op(p, '.', "$parent"))
			return -EINVAL;
	}
	if (is_word(p, "$begin")) {
		if (p->flags & RUT_EXPR_FILTER)
			return rut_expr_lex_error(&p->lex, p->lex.start,
						  "only a period can refer to its begin event");
		rut_expr_lex_next(&p->lex);
		ref->depth = (int16_t)parents;
		return expect_op(p, '.', "$begin");
	}
	if (parents)
		return rut_expr_lex_error(&p->lex, p->lex.start,
					  "expected '$begin' after '$parent.': only the event that "
					  "began a parent is known");
	return 0;
}

static int parse_ref(struct parser *p, uint32_t *ret)
{
	struct rut_expr_ref ref = {.what = REF_FIELD, .depth = -1};
	const char *start = p->lex.start;
	uint8_t type = RUT_EXPR_NONE;

	if (parse_prefixes(p, &ref))
		return -EINVAL;
	if (is_word(p, "$evt")) {
		rut_expr_lex_next(&p->lex);
		if (expect_op(p, '.', "$evt"))
			return -EINVAL;
	} else if (ref.depth >= 0) {
		return rut_expr_lex_error(&p->lex, p->lex.start, "expected '$evt'");
	}
	if (is_word(p, "$name")) {
		ref.what = REF_NAME;
		type = RUT_EXPR_STR;
		rut_expr_lex_next(&p->lex);
	} else if (is_word(p, "$timestamp")) {
		ref.what = REF_TIME;
		type = RUT_EXPR_INT;
		rut_expr_lex_next(&p->lex);
	} else {
		if (p->lex.tok == TOK_VAR && parse_scope(p, &ref.scope))
			return -EINVAL;
		if (parse_path(p, &ref))
			return -EINVAL;
	}
	if (add_node(p, NODE_REF, start, ret))
		return -EINVAL;
	p->e->nodes[*ret].ref = ref;
	p->e->nodes[*ret].type = type;
	return 0;
}

/* ---- Values ---- */

static int add_const(struct parser *p, const struct rut_expr_val *val, uint32_t *ret)
{
	if (add_node(p, NODE_CONST, p->lex.start, ret))
		return -EINVAL;
	p->e->nodes[*ret].val = *val;
	p->e->nodes[*ret].type = (uint8_t)val->type;
	rut_expr_lex_next(&p->lex);
	return 0;
}

static int take_string(struct parser *p, struct rut_expr_val *ret)
{
	if (p->lex.tok != TOK_STR)
		return rut_expr_lex_error(&p->lex, p->lex.start, "expected a quoted string");
	*ret = (struct rut_expr_val){.type = RUT_EXPR_STR, .len = p->lex.str_len};
	ret->s = keep_string(p, RUT_TAKE(p->lex.str));
	return ret->s ? 0 : -EINVAL;
}

static int parse_primary(struct parser *p, uint32_t *ret)
{
	struct rut_expr_val val;
	int r;

	switch (p->lex.tok) {
	case TOK_NUM:
		return add_const(p, &p->lex.num, ret);
	case TOK_STR:
		return take_string(p, &val) ? -EINVAL : add_const(p, &val, ret);
	case TOK_ID:
	case TOK_VAR:
		return parse_ref(p, ret);
	case TOK_BAD:
		return -EINVAL;
	case TOK_END:
		return rut_expr_lex_error(&p->lex, p->lex.start,
					  "the expression ends where a value is expected");
	default:
		break;
	}
	if (!is_op(p, '('))
		return rut_expr_lex_error(&p->lex, p->lex.start, "expected a value before '%.*s'",
					  (int)p->lex.len, p->lex.start);
	rut_expr_lex_next(&p->lex);
	r = parse_or(p, ret);
	return r ? r : expect_op(p, ')', "the expression in parentheses");
}

/* A value that arithmetic can use. */
static int need_number(struct parser *p, uint32_t node)
{
	if (p->e->nodes[node].type == RUT_EXPR_STR)
		return rut_expr_lex_error(&p->lex, at_column(p, node),
					  "a string where a number is expected");
	return 0;
}

static int parse_unary(struct parser *p, uint32_t *ret)
{
	const char *at = p->lex.start;
	uint32_t sub;
	int op = p->lex.op, r;

	if (!is_op(p, '-') && !is_op(p, '~') && !is_op(p, '+'))
		return parse_primary(p, ret);
	if (++p->depth > MAX_DEPTH)
		return rut_expr_lex_error(&p->lex, at, "nested too deeply");
	rut_expr_lex_next(&p->lex);
	r = parse_unary(p, &sub);
	p->depth--;
	if (r || need_number(p, sub))
		return -EINVAL;
	if (op == '+') {
		*ret = sub;
		return 0;
	}
	if (add_node(p, op == '-' ? NODE_NEG : NODE_BITNOT, at, ret))
		return -EINVAL;
	p->e->nodes[*ret].left = sub;
	p->e->nodes[*ret].type = RUT_EXPR_NONE;
	return 0;
}

/* The binary operators on values, loosest first. */
static const int arith_ops[][3] = {
	{'|'}, {'^'}, {'&'}, {OP2('<', '<'), OP2('>', '>')}, {'+', '-'}, {'*', '/', '%'},
};

#define ARITH_LEVELS ((int)(sizeof(arith_ops) / sizeof(*arith_ops)))

static int parse_arith(struct parser *p, int level, uint32_t *ret)
{
	if (level == ARITH_LEVELS)
		return parse_unary(p, ret);
	if (parse_arith(p, level + 1, ret))
		return -EINVAL;
	while (p->lex.tok == TOK_OP) {
		const int *ops = arith_ops[level];
		const char *at = p->lex.start;
		int op = p->lex.op;
		uint32_t left = *ret, right;

		if (op != ops[0] && (!ops[1] || op != ops[1]) && (!ops[2] || op != ops[2]))
			break;
		rut_expr_lex_next(&p->lex);
		if (parse_arith(p, level + 1, &right) || need_number(p, left) ||
		    need_number(p, right) || add_node(p, NODE_ARITH, at, ret))
			return -EINVAL;
		p->e->nodes[*ret].op = (uint16_t)op;
		p->e->nodes[*ret].left = left;
		p->e->nodes[*ret].right = right;
	}
	return 0;
}

/* ---- Comparisons ---- */

static int check_types(struct parser *p, const char *at, uint32_t left, uint32_t right)
{
	uint8_t a = p->e->nodes[left].type, b = p->e->nodes[right].type;

	if (a == RUT_EXPR_NONE || b == RUT_EXPR_NONE)
		return 0;
	if ((a == RUT_EXPR_STR) != (b == RUT_EXPR_STR))
		return rut_expr_lex_error(&p->lex, at,
					  "a string and a number are compared: this is never true");
	return 0;
}

static int negate(struct parser *p, const char *at, uint32_t *node)
{
	uint32_t sub = *node;

	if (add_node(p, NODE_NOT, at, node))
		return -EINVAL;
	p->e->nodes[*node].left = sub;
	p->e->nodes[*node].cond = true;
	p->e->nodes[*node].type = RUT_EXPR_INT;
	return 0;
}

static int parse_pattern(struct parser *p, int op, const char *at, uint32_t left, uint32_t *ret)
{
	bool glob = op == OP2('=', '*') || op == OP2('!', '*');
	struct rut_expr_node *n;
	struct rut_expr_val val;
	const char *where = p->lex.start, *why = NULL;
	size_t offset = 0;
	int r;

	if (p->e->nodes[left].type != RUT_EXPR_STR && p->e->nodes[left].type != RUT_EXPR_NONE)
		return rut_expr_lex_error(&p->lex, at, "a number is matched against a pattern");
	if (take_string(p, &val) || add_node(p, glob ? NODE_GLOB : NODE_REGEX, at, ret))
		return -EINVAL;
	rut_expr_lex_next(&p->lex);
	n = &p->e->nodes[*ret];
	n->left = left;
	n->cond = true;
	n->type = RUT_EXPR_INT;
	if (glob) {
		n->val = val;
	} else {
		n->regex = NULL;
		r = rut_expr_regex_new(val.s, val.len, &n->regex, &offset, &why);
		if (r)
			return rut_expr_lex_error(&p->lex, where + 1 + offset, "%s",
						  why ? why : "out of memory");
	}
	return 0;
}

static int parse_list(struct parser *p, const char *at, uint32_t left, uint32_t *ret)
{
	uint32_t last, item, value;
	int close = is_op(p, '[') ? ']' : ')';

	if (!is_op(p, '[') && !is_op(p, '('))
		return rut_expr_lex_error(&p->lex, p->lex.start, "expected '[' after 'in'");
	rut_expr_lex_next(&p->lex);
	if (add_node(p, NODE_IN, at, ret))
		return -EINVAL;
	p->e->nodes[*ret].left = left;
	p->e->nodes[*ret].cond = true;
	p->e->nodes[*ret].type = RUT_EXPR_INT;
	last = *ret;
	while (!is_op(p, close)) {
		const char *where = p->lex.start;

		if (parse_arith(p, 0, &value) || check_types(p, where, left, value) ||
		    add_node(p, NODE_ITEM, where, &item))
			return -EINVAL;
		p->e->nodes[item].left = value;
		p->e->nodes[last].right = item;
		last = item;
		if (!is_op(p, ',') && !is_op(p, close))
			return rut_expr_lex_error(&p->lex, p->lex.start,
						  "expected ',' or '%c' in the list", close);
		if (is_op(p, ','))
			rut_expr_lex_next(&p->lex);
	}
	rut_expr_lex_next(&p->lex);
	return 0;
}

static bool is_relation(int op)
{
	return op == '<' || op == '>' || op == OP2('=', '=') || op == OP2('!', '=') ||
	       op == OP2('<', '=') || op == OP2('>', '=');
}

static bool is_match(int op)
{
	return op == OP2('=', '*') || op == OP2('!', '*') || op == OP2('=', '~') ||
	       op == OP2('!', '~');
}

static int parse_relation(struct parser *p, int op, const char *at, uint32_t left, uint32_t *ret)
{
	bool ne = op == OP2('!', '=');
	uint32_t right;

	if (parse_arith(p, 0, &right) || check_types(p, at, left, right) ||
	    add_node(p, NODE_CMP, at, ret))
		return -EINVAL;
	p->e->nodes[*ret].left = left;
	p->e->nodes[*ret].right = right;
	p->e->nodes[*ret].op = (uint16_t)(ne ? OP2('=', '=') : op);
	p->e->nodes[*ret].cond = true;
	p->e->nodes[*ret].type = RUT_EXPR_INT;
	return ne ? negate(p, at, ret) : 0;
}

static int parse_comparison(struct parser *p, uint32_t *ret)
{
	const char *at;
	uint32_t left;
	bool not = false;
	int op, r;

	if (parse_arith(p, 0, &left))
		return -EINVAL;
	*ret = left;
	at = p->lex.start;
	op = p->lex.tok == TOK_OP ? p->lex.op : 0;
	if (is_word(p, "not")) {
		not = true;
		rut_expr_lex_next(&p->lex);
		if (!is_word(p, "in"))
			return rut_expr_lex_error(&p->lex, p->lex.start,
						  "expected 'in' after 'not'");
	}
	if (is_word(p, "in")) {
		rut_expr_lex_next(&p->lex);
		r = parse_list(p, at, left, ret);
		return r || !not ? r : negate(p, at, ret);
	}
	if (is_relation(op)) {
		rut_expr_lex_next(&p->lex);
		r = parse_relation(p, op, at, left, ret);
	} else if (is_match(op)) {
		rut_expr_lex_next(&p->lex);
		r = parse_pattern(p, op, at, left, ret);
		if (!r && (op >> 8) == '!')
			r = negate(p, at, ret);
	} else {
		return 0;
	}
	if (!r && p->lex.tok == TOK_OP && (is_relation(p->lex.op) || is_match(p->lex.op)))
		return rut_expr_lex_error(&p->lex, p->lex.start,
					  "comparisons cannot be chained: use '&&'");
	return r;
}

/* ---- Logic ---- */

/* A number is true when it is not 0; a string is neither. */
static int need_condition(struct parser *p, uint32_t node)
{
	if (p->e->nodes[node].type == RUT_EXPR_STR)
		return rut_expr_lex_error(&p->lex, at_column(p, node),
					  "a string is not a condition: compare it with something");
	return 0;
}

static int parse_not(struct parser *p, uint32_t *ret)
{
	const char *at = p->lex.start;
	int r;

	if (!is_op(p, '!'))
		return parse_comparison(p, ret);
	rut_expr_lex_next(&p->lex);
	if (++p->depth > MAX_DEPTH)
		return rut_expr_lex_error(&p->lex, at, "nested too deeply");
	r = parse_not(p, ret);
	p->depth--;
	if (r || need_condition(p, *ret))
		return -EINVAL;
	return negate(p, at, ret);
}

static int parse_logic(struct parser *p, bool or, uint32_t *ret)
{
	int op = or ? OP2('|', '|') : OP2('&', '&');

	if (or ? parse_logic(p, false, ret) : parse_not(p, ret))
		return -EINVAL;
	while (is_op(p, op)) {
		const char *at = p->lex.start;
		uint32_t left = *ret, right;

		rut_expr_lex_next(&p->lex);
		if ((or ? parse_logic(p, false, &right) : parse_not(p, &right)) ||
		    need_condition(p, left) || need_condition(p, right) ||
		    add_node(p, or ? NODE_OR : NODE_AND, at, ret))
			return -EINVAL;
		p->e->nodes[*ret].left = left;
		p->e->nodes[*ret].right = right;
		p->e->nodes[*ret].cond = true;
		p->e->nodes[*ret].type = RUT_EXPR_INT;
	}
	return 0;
}

static int parse_or(struct parser *p, uint32_t *ret)
{
	int r;

	if (++p->depth > MAX_DEPTH)
		return rut_expr_lex_error(&p->lex, p->lex.start, "nested too deeply");
	r = parse_logic(p, true, ret);
	p->depth--;
	return r;
}

static int parse_all(struct parser *p)
{
	rut_expr_lex_next(&p->lex);
	if (p->lex.tok == TOK_END)
		return rut_expr_lex_error(&p->lex, p->lex.start, "the expression is empty");
	if (parse_or(p, &p->e->root))
		return -EINVAL;
	if (p->lex.tok == TOK_BAD)
		return -EINVAL;
	if (p->lex.tok != TOK_END)
		return rut_expr_lex_error(&p->lex, p->lex.start,
					  "expected an operator or the end before '%.*s'",
					  (int)(p->lex.len > 30 ? 30 : p->lex.len), p->lex.start);
	return p->flags & RUT_EXPR_VALUE ? 0 : need_condition(p, p->e->root);
}

int rut_expr_parse(const char *text, size_t len, unsigned flags, struct rut_expr **ret,
		   size_t *ret_column, struct rut_err *err)
{
	struct parser p = {.flags = flags};
	int r;

	if (ret_column)
		*ret_column = 0;
	if (len > 64 * 1024)
		return rut_err_set(err, EINVAL, "expression too long");
	p.e = calloc(1, sizeof(*p.e));
	if (!p.e)
		return rut_err_set(err, ENOMEM, "out of memory");
	p.e->text = strndup(text, len);
	if (!p.e->text) {
		rut_expr_free(p.e);
		return rut_err_set(err, ENOMEM, "out of memory");
	}
	rut_expr_lex_init(&p.lex, text, len, err);
	if (memchr(text, '\0', len))
		r = rut_expr_lex_error(&p.lex, memchr(text, '\0', len), "a NUL byte");
	else
		r = parse_all(&p);
	rut_expr_lex_fini(&p.lex);
	if (r) {
		if (ret_column)
			*ret_column = p.lex.error_column;
		rut_expr_free(p.e);
		return r;
	}
	*ret = p.e;
	return 0;
}

void rut_expr_free(struct rut_expr *e)
{
	if (!e)
		return;
	for (uint32_t i = 1; i < e->count; i++)
		if (e->nodes[i].kind == NODE_REGEX)
			rut_expr_regex_free(e->nodes[i].regex);
	for (size_t i = 0; i < e->nstrings; i++)
		free(e->strings[i]);
	free(e->strings);
	free(e->nodes);
	free(e->text);
	free(e);
}
