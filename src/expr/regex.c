/* SPDX-License-Identifier: MIT */
/* Regular expressions: a recursive-descent compiler to an automaton, and its simulation. */
#include "expr/regex.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STATES 1000
#define MAX_REPEAT 200
#define MAX_DEPTH  50

enum { OP_CHAR, OP_ANY, OP_SET, OP_SPLIT, OP_JUMP, OP_BOL, OP_EOL, OP_MATCH };

struct state {
	uint8_t op;
	uint8_t c;
	uint16_t x, y; /* SPLIT: both ways; JUMP: x; SET: x is the set's number */
};

struct rut_expr_regex {
	char *text; /* owned */
	struct state states[MAX_STATES];
	size_t n;
	uint8_t (*sets)[32]; /* owned: 256 bits each */
	size_t nsets;
};

struct compiler {
	struct rut_expr_regex *r;
	const char *start, *at, *end;
	const char *why;
	int depth;
	int rc;
};

static int fail(struct compiler *c, int rc, const char *why)
{
	if (!c->rc) {
		c->rc = rc;
		c->why = why;
	}
	return c->rc;
}

static size_t emit(struct compiler *c, uint8_t op, uint8_t ch, size_t x, size_t y)
{
	struct rut_expr_regex *r = c->r;

	if (r->n >= MAX_STATES - 1) {
		fail(c, -E2BIG, "regular expression too large");
		return 0;
	}
	r->states[r->n] = (struct state){op, ch, (uint16_t)x, (uint16_t)y};
	return r->n++;
}

static uint8_t *new_set(struct compiler *c)
{
	void *sets = realloc(c->r->sets, (c->r->nsets + 1) * sizeof(*c->r->sets));

	if (!sets) {
		fail(c, -ENOMEM, "out of memory");
		return NULL;
	}
	c->r->sets = sets;
	memset(c->r->sets[c->r->nsets], 0, 32);
	return c->r->sets[c->r->nsets++];
}

static void set_add(uint8_t *set, unsigned c)
{
	set[c >> 3] |= (uint8_t)(1u << (c & 7));
}

/* \d \w \s and their opposites. Returns false when `e` is none of these. */
static bool add_class(uint8_t *set, char e)
{
	for (unsigned c = 0; c < 256; c++) {
		bool in;

		switch (tolower((unsigned char)e)) {
		case 'd':
			in = c >= '0' && c <= '9';
			break;
		case 'w':
			in = c < 128 && (isalnum((int)c) || c == '_');
			break;
		case 's':
			in = c == ' ' || (c >= '\t' && c <= '\r');
			break;
		default:
			return false;
		}
		if (in != (isupper((unsigned char)e) != 0))
			set_add(set, c);
	}
	return true;
}

static unsigned char escaped(char e)
{
	return e == 'n' ? '\n' : e == 't' ? '\t' : e == 'r' ? '\r' : (unsigned char)e;
}

static void parse_set(struct compiler *c)
{
	uint8_t *set = new_set(c);
	size_t index = c->r->nsets - 1;
	bool not = false, first = true;

	if (!set)
		return;
	if (c->at < c->end && *c->at == '^') {
		not = true;
		c->at++;
	}
	for (; c->at < c->end && (*c->at != ']' || first); first = false) {
		unsigned lo = (unsigned char)*c->at++, hi;

		if (lo == '\\' && c->at < c->end) {
			if (add_class(set, *c->at)) {
				c->at++;
				continue;
			}
			lo = escaped(*c->at++);
		}
		hi = lo;
		if (c->end - c->at >= 2 && *c->at == '-' && c->at[1] != ']') {
			hi = (unsigned char)c->at[1];
			c->at += 2;
			if (hi == '\\' && c->at < c->end)
				hi = escaped(*c->at++);
		}
		if (hi < lo) {
			fail(c, -EINVAL, "the range in [...] runs backwards");
			return;
		}
		for (unsigned ch = lo; ch <= hi; ch++)
			set_add(set, ch);
	}
	if (c->at >= c->end) {
		fail(c, -EINVAL, "this '[' has no ']'");
		return;
	}
	c->at++;
	for (int i = 0; not &&i < 32; i++)
		set[i] = (uint8_t)~set[i];
	emit(c, OP_SET, 0, index, 0);
}

static void parse_alternatives(struct compiler *c);

static void parse_escape(struct compiler *c)
{
	uint8_t *set;

	if (c->at >= c->end) {
		fail(c, -EINVAL, "the regular expression ends with a backslash");
		return;
	}
	if (strchr("dDwWsS", *c->at)) {
		set = new_set(c);
		if (set) {
			add_class(set, *c->at++);
			emit(c, OP_SET, 0, c->r->nsets - 1, 0);
		}
		return;
	}
	emit(c, OP_CHAR, escaped(*c->at++), 0, 0);
}

static void parse_atom(struct compiler *c)
{
	char ch = *c->at++;

	switch (ch) {
	case '(':
		if (++c->depth > MAX_DEPTH) {
			fail(c, -E2BIG, "regular expression nested too deeply");
			return;
		}
		parse_alternatives(c);
		c->depth--;
		if (c->at >= c->end || *c->at != ')')
			fail(c, -EINVAL, "this '(' has no ')'");
		else
			c->at++;
		break;
	case '[':
		parse_set(c);
		break;
	case '.':
		emit(c, OP_ANY, 0, 0, 0);
		break;
	case '^':
		emit(c, OP_BOL, 0, 0, 0);
		break;
	case '$':
		emit(c, OP_EOL, 0, 0, 0);
		break;
	case '\\':
		parse_escape(c);
		break;
	case '*':
	case '+':
	case '?':
		c->at--;
		fail(c, -EINVAL, "nothing to repeat");
		break;
	default:
		emit(c, OP_CHAR, (uint8_t)ch, 0, 0);
	}
}

/* Moves the states from `from` on by one place, which becomes free. */
static void open_gap(struct compiler *c, size_t from)
{
	struct rut_expr_regex *r = c->r;

	if (!emit(c, OP_MATCH, 0, 0, 0) && c->rc)
		return;
	memmove(&r->states[from + 1], &r->states[from], (r->n - 1 - from) * sizeof(*r->states));
	for (size_t i = from + 1; i < r->n; i++) {
		struct state *s = &r->states[i];

		if (s->op != OP_SPLIT && s->op != OP_JUMP)
			continue;
		if (s->x >= from)
			s->x++;
		if (s->op == OP_SPLIT && s->y >= from)
			s->y++;
	}
}

static void make_optional(struct compiler *c, size_t from)
{
	open_gap(c, from);
	if (!c->rc)
		c->r->states[from] =
			(struct state){OP_SPLIT, 0, (uint16_t)(from + 1), (uint16_t)c->r->n};
}

static void make_loop(struct compiler *c, size_t from)
{
	emit(c, OP_SPLIT, 0, from, c->r->n + 1);
}

static bool parse_count(struct compiler *c, unsigned *min, unsigned *max)
{
	const char *p = c->at + 1;
	unsigned v[2] = {0, 0};
	bool comma = false, digits = false;

	for (; p < c->end && *p != '}'; p++) {
		if (*p == ',' && !comma && digits) {
			comma = true;
			digits = false;
		} else if (isdigit((unsigned char)*p)) {
			v[comma] = v[comma] * 10 + (unsigned)(*p - '0');
			digits = true;
			if (v[comma] > MAX_REPEAT) {
				fail(c, -E2BIG, "repeated too often");
				return false;
			}
		} else {
			return false; /* a literal brace */
		}
	}
	if (p >= c->end || (!digits && !comma))
		return false;
	*min = v[0];
	*max = !comma ? v[0] : digits ? v[1] : UINT32_MAX;
	if (*max < *min) {
		fail(c, -EINVAL, "the counts in {m,n} run backwards");
		return false;
	}
	c->at = p + 1;
	return true;
}

/* {m,n}: the atom's source is compiled again for every copy. */
static void repeat(struct compiler *c, const char *atom, size_t from, unsigned min, unsigned max)
{
	const char *after = c->at;
	unsigned copies = max == UINT32_MAX ? (min ? min : 1) : max;

	c->r->n = from;
	for (unsigned i = 0; i < copies && !c->rc; i++) {
		size_t at = c->r->n;

		c->at = atom;
		parse_atom(c);
		if (c->rc)
			return;
		if (max == UINT32_MAX && i == copies - 1) {
			make_loop(c, at);
			if (!min)
				make_optional(c, at);
		} else if (i >= min) {
			make_optional(c, at);
		}
	}
	c->at = after;
}

static void parse_repeats(struct compiler *c)
{
	const char *atom = c->at;
	size_t from = c->r->n;
	unsigned min, max;

	parse_atom(c);
	if (c->rc || c->at >= c->end)
		return;
	switch (*c->at) {
	case '*':
		make_loop(c, from);
		make_optional(c, from);
		c->at++;
		break;
	case '+':
		make_loop(c, from);
		c->at++;
		break;
	case '?':
		make_optional(c, from);
		c->at++;
		break;
	case '{':
		if (parse_count(c, &min, &max))
			repeat(c, atom, from, min, max);
		break;
	default:
		return;
	}
	if (c->at < c->end && strchr("*+?", *c->at) && *c->at)
		fail(c, -EINVAL, "nothing to repeat");
}

static void parse_alternatives(struct compiler *c)
{
	size_t from = c->r->n;

	while (c->at < c->end && *c->at != ')' && *c->at != '|' && !c->rc)
		parse_repeats(c);
	if (c->rc || c->at >= c->end || *c->at != '|')
		return;
	/* SPLIT left, right; left; JUMP end; right. */
	c->at++;
	open_gap(c, from);
	if (c->rc)
		return;
	{
		size_t jump = emit(c, OP_JUMP, 0, 0, 0);

		c->r->states[from] =
			(struct state){OP_SPLIT, 0, (uint16_t)(from + 1), (uint16_t)c->r->n};
		parse_alternatives(c);
		c->r->states[jump].x = (uint16_t)c->r->n;
	}
}

int rut_expr_regex_new(const char *pattern, size_t len, struct rut_expr_regex **ret, size_t *ret_at,
		       const char **ret_why)
{
	struct rut_expr_regex *r = calloc(1, sizeof(*r));
	struct compiler c = {.r = r, .start = pattern, .at = pattern, .end = pattern + len};

	if (!r)
		return -ENOMEM;
	r->text = strndup(pattern, len);
	if (!r->text) {
		rut_expr_regex_free(r);
		return -ENOMEM;
	}
	parse_alternatives(&c);
	if (!c.rc && c.at < c.end)
		fail(&c, -EINVAL, "this ')' has no '('");
	if (c.rc) {
		*ret_at = (size_t)(c.at - c.start);
		*ret_why = c.why;
		rut_expr_regex_free(r);
		return c.rc;
	}
	r->states[r->n++] = (struct state){.op = OP_MATCH};
	*ret = r;
	return 0;
}

void rut_expr_regex_free(struct rut_expr_regex *r)
{
	if (!r)
		return;
	free(r->text);
	free(r->sets);
	free(r);
}

const char *rut_expr_regex_text(const struct rut_expr_regex *r)
{
	return r->text;
}

/* ---- Simulation ---- */

struct list {
	uint16_t n;
	uint16_t states[MAX_STATES];
	uint16_t where[MAX_STATES]; /* sparse set: never initialised, always checked */
};

static bool has(const struct list *l, uint16_t s)
{
	return l->where[s] < l->n && l->states[l->where[s]] == s;
}

/* Adds a state and what can be reached from it without reading; true when that is a match. */
static bool add_state(const struct rut_expr_regex *r, struct list *l, uint16_t first, bool bol,
		      bool eol)
{
	uint16_t stack[MAX_STATES];
	size_t depth = 0;

	stack[depth++] = first;
	while (depth) {
		uint16_t s = stack[--depth];
		const struct state *st = &r->states[s];

		if (has(l, s))
			continue;
		l->where[s] = l->n;
		l->states[l->n++] = s;
		switch (st->op) {
		case OP_MATCH:
			return true;
		case OP_JUMP:
			stack[depth++] = st->x;
			break;
		case OP_SPLIT:
			/* Each state is pushed at most twice, and popped before more come. */
			if (!has(l, st->y))
				stack[depth++] = st->y;
			if (!has(l, st->x) && depth < MAX_STATES)
				stack[depth++] = st->x;
			break;
		case OP_BOL:
			if (bol)
				stack[depth++] = (uint16_t)(s + 1);
			break;
		case OP_EOL:
			if (eol)
				stack[depth++] = (uint16_t)(s + 1);
			break;
		}
	}
	return false;
}

static bool reads(const struct rut_expr_regex *r, const struct state *s, unsigned char c)
{
	switch (s->op) {
	case OP_CHAR:
		return s->c == c;
	case OP_ANY:
		return true;
	case OP_SET:
		return r->sets[s->x][c >> 3] >> (c & 7) & 1;
	default:
		return false;
	}
}

bool rut_expr_regex_search(const struct rut_expr_regex *r, const char *text, size_t len)
{
	struct list a, b, *now = &a, *next = &b;

	memset(a.where, 0, r->n * sizeof(*a.where));
	memset(b.where, 0, r->n * sizeof(*b.where));
	now->n = 0;
	for (size_t i = 0;; i++) {
		struct list *swap;

		if (add_state(r, now, 0, i == 0, i == len))
			return true;
		if (i == len)
			return false;
		next->n = 0;
		for (uint16_t k = 0; k < now->n; k++) {
			uint16_t s = now->states[k];

			if (reads(r, &r->states[s], (unsigned char)text[i]) &&
			    add_state(r, next, (uint16_t)(s + 1), false, i + 1 == len))
				return true;
		}
		swap = now;
		now = next;
		next = swap;
	}
}

/* ---- The table ---- */

struct subset {
	uint8_t bits[(MAX_STATES + 7) / 8];
};

struct table {
	const struct rut_expr_regex *r;
	uint8_t (*next)[256];	/* owned */
	struct subset *subsets; /* owned */
	size_t n;
	struct list list; /* scratch */
};

/* The number of the subset in t->list, a new one if it must be; 0: there is no room. */
static size_t subset_number(struct table *t)
{
	struct subset s = {0};

	for (uint16_t i = 0; i < t->list.n; i++)
		set_add(s.bits, t->list.states[i]);
	/* The start is at the begin of the text: the same states are not the same there. */
	for (size_t i = RUT_EXPR_DFA_START + 1; i < t->n; i++)
		if (!memcmp(&s, &t->subsets[i], sizeof(s)))
			return i;
	if (t->n == RUT_EXPR_DFA_MAX)
		return 0;
	t->subsets[t->n] = s;
	return t->n++;
}

static void restart(struct table *t)
{
	memset(t->list.where, 0, sizeof(t->list.where));
	t->list.n = 0;
}

/* Where a byte leads from a subset; 0 in *ret_rc, or -E2BIG. */
static uint8_t follow(struct table *t, size_t from, unsigned char c, int *ret_rc)
{
	const struct subset s = t->subsets[from];
	bool bol = from == RUT_EXPR_DFA_START, matched = false;
	size_t number;

	restart(t);
	for (uint16_t k = 0; k < t->r->n && !matched; k++) {
		const struct state *st = &t->r->states[k];

		if (!(s.bits[k >> 3] >> (k & 7) & 1))
			continue;
		if (!c)
			matched = st->op == OP_EOL &&
				  add_state(t->r, &t->list, (uint16_t)(k + 1), bol, true);
		else if (reads(t->r, st, c))
			matched = add_state(t->r, &t->list, (uint16_t)(k + 1), false, false);
	}
	if (matched || (c && add_state(t->r, &t->list, 0, false, false)))
		return RUT_EXPR_DFA_MATCH;
	if (!c)
		return RUT_EXPR_DFA_NONE;
	number = subset_number(t);
	if (!number)
		*ret_rc = -E2BIG;
	return (uint8_t)number;
}

static int build(struct table *t)
{
	int rc = 0;

	memset(t->next[RUT_EXPR_DFA_NONE], RUT_EXPR_DFA_NONE, 256);
	memset(t->next[RUT_EXPR_DFA_MATCH], RUT_EXPR_DFA_MATCH, 256);
	t->n = RUT_EXPR_DFA_START;
	restart(t);
	if (add_state(t->r, &t->list, 0, true, false)) {
		memset(t->next[t->n++], RUT_EXPR_DFA_MATCH, 256);
		return 0;
	}
	subset_number(t);
	for (size_t i = RUT_EXPR_DFA_START; i < t->n && !rc; i++)
		for (unsigned c = 0; c < 256 && !rc; c++)
			t->next[i][c] = follow(t, i, (unsigned char)c, &rc);
	return rc;
}

int rut_expr_regex_table(const struct rut_expr_regex *r, uint8_t (**ret)[256], size_t *ret_states)
{
	struct table *t = calloc(1, sizeof(*t));
	int rc = -ENOMEM;

	if (!t)
		return rc;
	t->r = r;
	t->next = calloc(RUT_EXPR_DFA_MAX + 1, sizeof(*t->next));
	t->subsets = calloc(RUT_EXPR_DFA_MAX + 1, sizeof(*t->subsets));
	if (t->next && t->subsets)
		rc = build(t);
	if (!rc) {
		*ret = t->next;
		*ret_states = t->n;
		t->next = NULL;
	}
	free(t->next);
	free(t->subsets);
	free(t);
	return rc;
}
