/* SPDX-License-Identifier: MIT */
/*
 * TSDL's types: a parser by recursive descent that builds trees at once.
 *
 * The grammar is C's declarations with blocks of attributes. A name stands for a tree that is
 * copied at each use, because a length or a tag elsewhere may refer to that very use.
 */
#include "ctf/tsdl.h"

#include <stdio.h>
#include <string.h>

static int parse_spec(struct rut_tsdl *p, struct rut_ctf_type **ret);

/* ---- Names ---- */

static struct rut_tsdl_symbol **bucket_of(struct rut_tsdl *p, const char *name)
{
	return &p->buckets[rut_hash_bytes(name, strlen(name)) % RUT_TSDL_BUCKETS];
}

static const struct rut_ctf_type *lookup(struct rut_tsdl *p, enum rut_tsdl_space space,
					 const char *name, bool innermost)
{
	for (unsigned int i = p->n_scopes; i-- > 0;) {
		for (struct rut_tsdl_symbol *s = *bucket_of(p, name); s; s = s->next)
			if (s->scope == p->scopes[i] && s->space == space && !strcmp(s->name, name))
				return s->type;
		if (innermost)
			break;
	}
	return NULL;
}

static int define(struct rut_tsdl *p, enum rut_tsdl_space space, const char *name,
		  const struct rut_ctf_type *type)
{
	struct rut_tsdl_symbol **bucket = bucket_of(p, name);
	struct rut_tsdl_symbol *s;

	if (lookup(p, space, name, true))
		return rut_tsdl_error(p, "'%s' is defined twice", name);
	s = rut_arena_alloc(&p->m->arena, sizeof(*s));
	if (!s)
		return rut_tsdl_nomem(p);
	*s = (struct rut_tsdl_symbol){.next = *bucket,
				      .space = space,
				      .scope = p->scopes[p->n_scopes - 1],
				      .name = name,
				      .type = type};
	*bucket = s;
	return 0;
}

void rut_tsdl_push_scope(struct rut_tsdl *p)
{
	p->scopes[p->n_scopes++] = ++p->last_scope;
}

void rut_tsdl_pop_scope(struct rut_tsdl *p)
{
	p->n_scopes--;
}

static int take_copy(struct rut_tsdl *p, const struct rut_ctf_type *t, struct rut_ctf_type **ret)
{
	*ret = rut_meta_clone(p->m, t);
	return *ret ? 0 : rut_tsdl_nomem(p);
}

static int word_name(struct rut_tsdl *p, const char **ret)
{
	if (p->t.kind != RUT_TSDL_WORD)
		return rut_tsdl_error(p, "a name is missing");
	*ret = rut_meta_name(p->m, p->t.s, p->t.len);
	rut_tsdl_next(p);
	return *ret ? 0 : rut_tsdl_nomem(p);
}

/* LTTng and the specification put an underscore before names that could be keywords. */
static const char *shown(const char *raw)
{
	return raw[0] == '_' ? raw + 1 : raw;
}

/* ---- Scalars ---- */

struct attr {
	char key[24];
	struct rut_tsdl_token value; /* a word, a number or a string */
	uint64_t num;
	bool negative;
	char word[256]; /* words and strings, cut */
};

/* Reads "key = value;". */
static int parse_attr(struct rut_tsdl *p, struct attr *a)
{
	const char *s;
	size_t len;
	int rc;

	memset(a, 0, sizeof(*a));
	if (p->t.kind != RUT_TSDL_WORD || p->t.len >= sizeof(a->key))
		return rut_tsdl_error(p, "an attribute's name is missing");
	memcpy(a->key, p->t.s, p->t.len);
	rut_tsdl_next(p);
	if ((rc = rut_tsdl_expect(p, '=')) < 0)
		return rc;
	a->value = p->t;
	if (p->t.kind == RUT_TSDL_NUMBER || rut_tsdl_at(p, '-') || rut_tsdl_at(p, '+')) {
		a->value.kind = RUT_TSDL_NUMBER;
		if ((rc = rut_tsdl_number(p, &a->num, &a->negative)) < 0)
			return rc;
		return rut_tsdl_expect(p, ';');
	}
	if (p->t.kind == RUT_TSDL_STRING) {
		s = rut_tsdl_unquote(p, &p->t);
		if (!s)
			return rut_tsdl_nomem(p);
		len = strlen(s);
		if (len < sizeof(a->word))
			memcpy(a->word, s, len);
		rut_tsdl_next(p);
		return rut_tsdl_expect(p, ';');
	}
	for (len = 0; p->t.kind == RUT_TSDL_WORD || rut_tsdl_at(p, '.'); rut_tsdl_next(p)) {
		if (len + p->t.len >= sizeof(a->word))
			return rut_tsdl_error(p, "the value of '%s' is too long", a->key);
		memcpy(a->word + len, p->t.s, p->t.len);
		len += p->t.len;
	}
	if (!len)
		return rut_tsdl_error(p, "'%s' has no value", a->key);
	return rut_tsdl_expect(p, ';');
}

static int attr_align(struct rut_tsdl *p, uint64_t n, uint32_t *ret)
{
	if (!n || n & (n - 1) || n > 1 << 20)
		return rut_tsdl_error(p, "an alignment must be a power of two, not %llu",
				      (unsigned long long)n);
	*ret = (uint32_t)n;
	return 0;
}

static int attr_bool(struct rut_tsdl *p, const struct attr *a, bool *ret)
{
	if (a->value.kind == RUT_TSDL_NUMBER && a->num <= 1)
		*ret = a->num == 1;
	else if (!strcmp(a->word, "true") || !strcmp(a->word, "TRUE"))
		*ret = true;
	else if (!strcmp(a->word, "false") || !strcmp(a->word, "FALSE"))
		*ret = false;
	else
		return rut_tsdl_error(p, "'%s' must be true or false", a->key);
	return 0;
}

static int attr_byte_order(struct rut_tsdl *p, const struct attr *a, bool *ret_be)
{
	if (!strcmp(a->word, "be") || !strcmp(a->word, "network"))
		*ret_be = true;
	else if (!strcmp(a->word, "le"))
		*ret_be = false;
	else if (!strcmp(a->word, "native"))
		*ret_be = p->native_be;
	else
		return rut_tsdl_error(p, "invalid byte order '%s' (le, be, network, native)",
				      a->word);
	return 0;
}

static int attr_base(struct rut_tsdl *p, const struct attr *a, uint8_t *ret)
{
	static const struct {
		const char *words;
		uint8_t base;
	} bases[] = {
		{" decimal dec d i u ", 10},
		{" hexadecimal hex x X p ", 16},
		{" octal oct o ", 8},
		{" binary b ", 2},
	};
	char word[32];

	if (a->value.kind == RUT_TSDL_NUMBER) {
		if (a->num != 2 && a->num != 8 && a->num != 10 && a->num != 16)
			return rut_tsdl_error(p, "invalid base %llu (2, 8, 10, 16)",
					      (unsigned long long)a->num);
		*ret = (uint8_t)a->num;
		return 0;
	}
	snprintf(word, sizeof(word), " %.20s ", a->word);
	for (size_t i = 0; i < sizeof(bases) / sizeof(*bases); i++)
		if (strstr(bases[i].words, word)) {
			*ret = bases[i].base;
			return 0;
		}
	return rut_tsdl_error(p, "invalid base '%s'", a->word);
}

static int attr_encoding(struct rut_tsdl *p, const struct attr *a, bool *ret_text)
{
	if (!strcasecmp(a->word, "utf8") || !strcasecmp(a->word, "utf-8") ||
	    !strcasecmp(a->word, "ascii"))
		*ret_text = true;
	else if (!strcasecmp(a->word, "none"))
		*ret_text = false;
	else
		return rut_tsdl_error(p, "invalid encoding '%s' (none, UTF8, ASCII)", a->word);
	return 0;
}

/* "clock.NAME.value" */
static int attr_map(struct rut_tsdl *p, const struct attr *a, struct rut_ctf_type *t)
{
	size_t len = strlen(a->word);
	struct rut_meta_clock *c;
	const char *name;

	if (strncmp(a->word, "clock.", 6) != 0 || len < 13 ||
	    strcmp(a->word + len - 6, ".value") != 0)
		return rut_tsdl_error(p, "'%s' is not of the form clock.NAME.value", a->word);
	name = rut_meta_name(p->m, a->word + 6, len - 12);
	c = name ? rut_meta_clock(p->m, name) : NULL;
	if (!c)
		return rut_tsdl_nomem(p);
	t->clock = &c->pub;
	return 0;
}

static int int_attr(struct rut_tsdl *p, struct rut_ctf_type *t, const struct attr *a)
{
	bool text = false;
	int rc;

	if (!strcmp(a->key, "size")) {
		if (a->negative || a->num < 1 || a->num > 64)
			return rut_tsdl_error(p,
					      "an integer of %s%llu bits: only 1 to 64 are "
					      "possible",
					      a->negative ? "-" : "", (unsigned long long)a->num);
		t->size = a->num;
		return 0;
	}
	if (!strcmp(a->key, "align"))
		return attr_align(p, a->negative ? 0 : a->num, &t->align);
	if (!strcmp(a->key, "signed"))
		return attr_bool(p, a, &t->is_signed);
	if (!strcmp(a->key, "byte_order"))
		return attr_byte_order(p, a, &t->big_endian);
	if (!strcmp(a->key, "base"))
		return attr_base(p, a, &t->base);
	if (!strcmp(a->key, "encoding")) {
		rc = attr_encoding(p, a, &text);
		t->char_bytes = text;
		return rc;
	}
	if (!strcmp(a->key, "map"))
		return attr_map(p, a, t);
	return 0; /* unknown attributes are allowed */
}

static int parse_integer(struct rut_tsdl *p, struct rut_ctf_type **ret)
{
	struct rut_ctf_type *t = rut_meta_type(p->m, RUT_CTF_KIND_INT);
	struct attr a;
	int rc;

	if (!t)
		return rut_tsdl_nomem(p);
	t->big_endian = p->native_be;
	t->base = 10;
	t->align = 0;
	if ((rc = rut_tsdl_expect(p, '{')) < 0)
		return rc;
	while (!rut_tsdl_at(p, '}')) {
		if ((rc = parse_attr(p, &a)) < 0 || (rc = int_attr(p, t, &a)) < 0)
			return rc;
	}
	rut_tsdl_next(p);
	if (!t->size)
		return rut_tsdl_error(p, "an integer has no size");
	if (!t->align)
		t->align = t->size % 8 ? 1 : 8;
	*ret = t;
	return 0;
}

static int parse_float(struct rut_tsdl *p, struct rut_ctf_type **ret)
{
	struct rut_ctf_type *t = rut_meta_type(p->m, RUT_CTF_KIND_FLOAT);
	uint64_t exp = 0, mant = 0;
	struct attr a;
	int rc;

	if (!t)
		return rut_tsdl_nomem(p);
	t->big_endian = p->native_be;
	t->align = 0;
	if ((rc = rut_tsdl_expect(p, '{')) < 0)
		return rc;
	while (!rut_tsdl_at(p, '}')) {
		if ((rc = parse_attr(p, &a)) < 0)
			return rc;
		if (!strcmp(a.key, "exp_dig"))
			exp = a.num;
		else if (!strcmp(a.key, "mant_dig"))
			mant = a.num;
		else if (!strcmp(a.key, "align"))
			rc = attr_align(p, a.negative ? 0 : a.num, &t->align);
		else if (!strcmp(a.key, "byte_order"))
			rc = attr_byte_order(p, &a, &t->big_endian);
		if (rc < 0)
			return rc;
	}
	rut_tsdl_next(p);
	if (!(exp == 5 && mant == 11) && !(exp == 8 && mant == 24) && !(exp == 11 && mant == 53))
		return rut_tsdl_error(p,
				      "a floating point number of %llu + %llu bits: only 5 + "
				      "11, 8 + 24 and 11 + 53 are possible",
				      (unsigned long long)exp, (unsigned long long)mant);
	t->size = exp + mant;
	t->exp_bits = (uint8_t)exp;
	if (!t->align)
		t->align = 8;
	*ret = t;
	return 0;
}

static int parse_string(struct rut_tsdl *p, struct rut_ctf_type **ret)
{
	struct rut_ctf_type *t = rut_meta_type(p->m, RUT_CTF_KIND_STRING);
	bool text;
	struct attr a;
	int rc;

	if (!t)
		return rut_tsdl_nomem(p);
	t->align = 8;
	t->char_bytes = 1;
	if (rut_tsdl_at(p, '{')) {
		rut_tsdl_next(p);
		while (!rut_tsdl_at(p, '}')) {
			if ((rc = parse_attr(p, &a)) < 0)
				return rc;
			if (!strcmp(a.key, "encoding") && (rc = attr_encoding(p, &a, &text)) < 0)
				return rc;
		}
		rut_tsdl_next(p);
	}
	*ret = t;
	return 0;
}

/* ---- Enumerations ---- */

static int parse_enumerator(struct rut_tsdl *p, struct rut_ctf_type *t, uint64_t *next_value)
{
	uint64_t lo = *next_value, hi;
	const char *label;
	bool neg_lo = t->is_signed && (int64_t)lo < 0, neg_hi;
	int rc;

	if (p->t.kind == RUT_TSDL_STRING) {
		label = rut_tsdl_unquote(p, &p->t);
		rut_tsdl_next(p);
	} else if ((rc = word_name(p, &label)) < 0) {
		return rc;
	}
	if (!label)
		return rut_tsdl_nomem(p);
	neg_hi = neg_lo;
	hi = lo;
	if (rut_tsdl_at(p, '=')) {
		rut_tsdl_next(p);
		if ((rc = rut_tsdl_number(p, &lo, &neg_lo)) < 0)
			return rc;
		hi = lo;
		neg_hi = neg_lo;
		if (p->t.kind == RUT_TSDL_ELLIPSIS) {
			rut_tsdl_next(p);
			if ((rc = rut_tsdl_number(p, &hi, &neg_hi)) < 0)
				return rc;
		}
	}
	if ((neg_lo || neg_hi) && !t->is_signed)
		return rut_tsdl_error(p, "'%s' is negative, its integer is unsigned", label);
	if (t->is_signed ? (int64_t)lo > (int64_t)hi : lo > hi)
		return rut_tsdl_error(p, "the range of '%s' ends before it begins", label);
	*next_value = hi + 1;
	for (uint32_t i = t->n_labels; i-- > 0 && t->n_labels < 4096;)
		if (!strcmp(t->labels[i], label)) /* one label may have several ranges */
			return rut_meta_add_range(p->m, t, lo, hi, i) ? rut_tsdl_nomem(p) : 0;
	if (rut_meta_add_label(p->m, t, label) ||
	    rut_meta_add_range(p->m, t, lo, hi, t->n_labels - 1))
		return rut_tsdl_nomem(p);
	return 0;
}

/* Named structures, variants and enumerations without a body: what was defined before. */
static int use_named(struct rut_tsdl *p, enum rut_tsdl_space space, const char *name,
		     struct rut_ctf_type **ret)
{
	const struct rut_ctf_type *t = name ? lookup(p, space, name, false) : NULL;

	if (!name)
		return rut_tsdl_error(p, "neither a name nor a body follows");
	if (!t)
		return rut_tsdl_error(p, "'%s' is not defined", name);
	return take_copy(p, t, ret);
}

static int parse_enum(struct rut_tsdl *p, struct rut_ctf_type **ret)
{
	const struct rut_ctf_type *int_type;
	struct rut_ctf_type *t = NULL;
	const char *name = NULL;
	uint64_t next_value = 0;
	int rc;

	if (p->t.kind == RUT_TSDL_WORD && (rc = word_name(p, &name)) < 0)
		return rc;
	if (rut_tsdl_at(p, ':')) {
		rut_tsdl_next(p);
		if ((rc = parse_spec(p, &t)) < 0)
			return rc;
	} else if (rut_tsdl_at(p, '{')) {
		int_type = lookup(p, RUT_TSDL_TYPE, "int", false);
		if (!int_type)
			return rut_tsdl_error(p, "an enumeration without an integer type needs "
						 "the type 'int'");
		if ((rc = take_copy(p, int_type, &t)) < 0)
			return rc;
	}
	if (!t)
		return use_named(p, RUT_TSDL_ENUM, name, ret);
	if (t->kind != RUT_CTF_KIND_INT)
		return rut_tsdl_error(p, "an enumeration must be based on an integer");
	t->kind = RUT_CTF_KIND_ENUM;
	if ((rc = rut_tsdl_expect(p, '{')) < 0)
		return rc;
	while (!rut_tsdl_at(p, '}')) {
		if ((rc = parse_enumerator(p, t, &next_value)) < 0)
			return rc;
		if (rut_tsdl_at(p, '}'))
			break;
		if ((rc = rut_tsdl_expect(p, ',')) < 0)
			return rc;
	}
	rut_tsdl_next(p);
	if (!t->n_labels)
		return rut_tsdl_error(p, "an enumeration is empty");
	if (name && (rc = define(p, RUT_TSDL_ENUM, name, t)) < 0)
		return rc;
	*ret = t;
	return 0;
}

/* ---- Compounds ---- */

/* Wraps `t` into an array or sequence for each "[...]", the leftmost outermost. */
static int parse_dimensions(struct rut_tsdl *p, struct rut_ctf_type **t)
{
	struct rut_ctf_type *outer = NULL, **hole = &outer, *dim = NULL;
	struct rut_ctf_type *inner = *t;
	unsigned int n = 0;
	char path[512];
	int rc;

	while (rut_tsdl_at(p, '[')) {
		size_t len = 0;

		if (++n > 8)
			return rut_tsdl_error(p, "an array has too many dimensions");
		rut_tsdl_next(p);
		if (p->t.kind == RUT_TSDL_NUMBER) {
			dim = rut_meta_type(p->m, RUT_CTF_KIND_ARRAY);
			if (!dim)
				return rut_tsdl_nomem(p);
			dim->count = p->t.num;
			rut_tsdl_next(p);
		} else {
			while (p->t.kind == RUT_TSDL_WORD || rut_tsdl_at(p, '.') ||
			       p->t.kind == RUT_TSDL_ARROW) {
				bool arrow = p->t.kind == RUT_TSDL_ARROW;

				if (len + p->t.len + 2 >= sizeof(path))
					return rut_tsdl_error(p, "a length's name is too long");
				memcpy(path + len, arrow ? "." : p->t.s, arrow ? 1 : p->t.len);
				len += arrow ? 1 : p->t.len;
				rut_tsdl_next(p);
			}
			if (!len)
				return rut_tsdl_error(p, "a length is missing");
			dim = rut_meta_type(p->m, RUT_CTF_KIND_SEQUENCE);
			if (!dim || !(dim->len_path = rut_meta_name(p->m, path, len)))
				return rut_tsdl_nomem(p);
		}
		if ((rc = rut_tsdl_expect(p, ']')) < 0)
			return rc;
		*hole = dim;
		hole = &dim->elem;
	}
	if (!outer)
		return 0;
	*hole = inner;
	/* An array of characters is text. */
	if (inner->kind == RUT_CTF_KIND_INT && inner->char_bytes && inner->size == 8) {
		dim->text = true;
		dim->char_bytes = 1;
	}
	*t = outer;
	return 0;
}

/* One declarator: pointers (meaningless here), the name, dimensions. */
static int parse_declarator(struct rut_tsdl *p, struct rut_ctf_type **t, const char **ret_name)
{
	int rc;

	while (rut_tsdl_at(p, '*'))
		rut_tsdl_next(p);
	if ((rc = word_name(p, ret_name)) < 0)
		return rc;
	return parse_dimensions(p, t);
}

/* The members of a structure, the options of a variant: '{' was read. */
static int parse_members(struct rut_tsdl *p, struct rut_ctf_type *t)
{
	struct rut_ctf_type *spec, *type;
	const char *name;
	int rc;

	while (!rut_tsdl_at(p, '}')) {
		bool first = true;

		if (rut_tsdl_is_word(&p->t, "typedef") || rut_tsdl_is_word(&p->t, "typealias")) {
			if ((rc = rut_tsdl_declaration(p)) < 0)
				return rc;
			continue;
		}
		if ((rc = parse_spec(p, &spec)) < 0)
			return rc;
		for (; !rut_tsdl_at(p, ';'); first = false) {
			if (!first && (rc = rut_tsdl_expect(p, ',')) < 0)
				return rc;
			type = spec;
			if (!first && (rc = take_copy(p, spec, &type)) < 0)
				return rc;
			if ((rc = parse_declarator(p, &type, &name)) < 0)
				return rc;
			for (uint32_t i = 0; i < t->n_fields && t->n_fields < 512; i++)
				if (!strcmp(t->fields[i].raw_name, name))
					return rut_tsdl_error(p, "there are two members '%s'",
							      name);
			if (rut_meta_add_field(p->m, t, name, shown(name), type))
				return rut_tsdl_nomem(p);
		}
		rut_tsdl_next(p);
	}
	rut_tsdl_next(p);
	return 0;
}

static int parse_body(struct rut_tsdl *p, enum rut_ctf_kind kind, struct rut_ctf_type **ret)
{
	int rc;

	*ret = rut_meta_type(p->m, kind);
	if (!*ret)
		return rut_tsdl_nomem(p);
	rut_tsdl_next(p);
	rut_tsdl_push_scope(p);
	rc = parse_members(p, *ret);
	rut_tsdl_pop_scope(p);
	return rc;
}

static int parse_struct(struct rut_tsdl *p, struct rut_ctf_type **ret)
{
	const char *name = NULL;
	bool body;
	uint32_t align = 1;
	int rc;

	if (p->t.kind == RUT_TSDL_WORD && !rut_tsdl_is_word(&p->t, "align") &&
	    (rc = word_name(p, &name)) < 0)
		return rc;
	body = rut_tsdl_at(p, '{');
	rc = body ? parse_body(p, RUT_CTF_KIND_STRUCT, ret)
		  : use_named(p, RUT_TSDL_STRUCT, name, ret);
	if (rc < 0)
		return rc;
	if (rut_tsdl_is_word(&p->t, "align")) {
		rut_tsdl_next(p);
		if ((rc = rut_tsdl_expect(p, '(')) < 0)
			return rc;
		if (p->t.kind != RUT_TSDL_NUMBER)
			return rut_tsdl_error(p, "an alignment must be a number");
		if ((rc = attr_align(p, p->t.num, &align)) < 0)
			return rc;
		if (align > (*ret)->align)
			(*ret)->align = align;
		rut_tsdl_next(p);
		if ((rc = rut_tsdl_expect(p, ')')) < 0)
			return rc;
	}
	return body && name ? define(p, RUT_TSDL_STRUCT, name, *ret) : 0;
}

static int parse_variant(struct rut_tsdl *p, struct rut_ctf_type **ret)
{
	const char *name = NULL, *tag = NULL;
	char path[512];
	size_t len = 0;
	bool body;
	int rc;

	if (p->t.kind == RUT_TSDL_WORD && (rc = word_name(p, &name)) < 0)
		return rc;
	if (rut_tsdl_at(p, '<')) {
		for (rut_tsdl_next(p); p->t.kind == RUT_TSDL_WORD || rut_tsdl_at(p, '.');
		     rut_tsdl_next(p)) {
			if (len + p->t.len >= sizeof(path))
				return rut_tsdl_error(p, "a tag's name is too long");
			memcpy(path + len, p->t.s, p->t.len);
			len += p->t.len;
		}
		if ((rc = rut_tsdl_expect(p, '>')) < 0)
			return rc;
		if (!len)
			return rut_tsdl_error(p, "a tag is missing");
		tag = rut_meta_name(p->m, path, len);
		if (!tag)
			return rut_tsdl_nomem(p);
	}
	body = rut_tsdl_at(p, '{');
	rc = body ? parse_body(p, RUT_CTF_KIND_VARIANT, ret)
		  : use_named(p, RUT_TSDL_VARIANT, name, ret);
	if (rc < 0)
		return rc;
	if (!(*ret)->n_fields)
		return rut_tsdl_error(p, "a variant is empty");
	if (body && name && (rc = define(p, RUT_TSDL_VARIANT, name, *ret)) < 0)
		return rc;
	if (body && name && tag && (rc = take_copy(p, *ret, ret)) < 0)
		return rc; /* the tag is this use's, not the name's */
	if (tag)
		(*ret)->len_path = tag;
	return 0;
}

/* ---- Specifiers ---- */

static bool is_c_word(const struct rut_tsdl_token *t)
{
	static const char *const words[] = {"unsigned", "signed", "int",     "long",
					    "short",	"char",	  "float",   "double",
					    "void",	"_Bool",  "_Complex"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (rut_tsdl_is_word(t, words[i]))
			return true;
	return false;
}

/* The name of an alias: words joined by spaces, '*' for pointers, const left out. */
static int parse_alias_name(struct rut_tsdl *p, bool whole, const char **ret)
{
	bool c_words = is_c_word(&p->t);
	char name[256];
	size_t len = 0;

	while (p->t.kind == RUT_TSDL_WORD || (whole && rut_tsdl_at(p, '*'))) {
		if (!rut_tsdl_is_word(&p->t, "const")) {
			if (!whole && len && (!c_words || !is_c_word(&p->t)))
				break;
			if (len + p->t.len + 2 >= sizeof(name))
				return rut_tsdl_error(p, "a type's name is too long");
			if (len)
				name[len++] = ' ';
			memcpy(name + len, p->t.s, p->t.len);
			len += p->t.len;
		}
		rut_tsdl_next(p);
	}
	if (!len)
		return rut_tsdl_error(p, "a type is missing");
	*ret = rut_meta_name(p->m, name, len);
	return *ret ? 0 : rut_tsdl_nomem(p);
}

static int parse_named(struct rut_tsdl *p, struct rut_ctf_type **ret)
{
	const struct rut_ctf_type *t;
	const char *name;
	int rc;

	if ((rc = parse_alias_name(p, false, &name)) < 0)
		return rc;
	t = lookup(p, RUT_TSDL_TYPE, name, false);
	if (!t)
		return rut_tsdl_error(p, "the type '%s' is not defined", name);
	return take_copy(p, t, ret);
}

static int parse_spec(struct rut_tsdl *p, struct rut_ctf_type **ret)
{
	static const struct {
		const char *word;
		int (*parse)(struct rut_tsdl *p, struct rut_ctf_type **ret);
	} kinds[] = {
		{"integer", parse_integer}, {"floating_point", parse_float},
		{"string", parse_string},   {"enum", parse_enum},
		{"struct", parse_struct},   {"variant", parse_variant},
	};
	int (*parse)(struct rut_tsdl * p, struct rut_ctf_type * *ret) = parse_named;
	int rc;

	if (p->depth >= RUT_META_MAX_DEPTH)
		return rut_tsdl_error(p, "types are nested more than %d deep", RUT_META_MAX_DEPTH);
	while (rut_tsdl_is_word(&p->t, "const"))
		rut_tsdl_next(p);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (rut_tsdl_is_word(&p->t, kinds[i].word)) {
			rut_tsdl_next(p);
			parse = kinds[i].parse;
			break;
		}
	p->depth++;
	rc = parse(p, ret);
	p->depth--;
	return rc;
}

int rut_tsdl_type(struct rut_tsdl *p, struct rut_ctf_type **ret)
{
	return parse_spec(p, ret);
}

/* ---- Declarations ---- */

bool rut_tsdl_at_declaration(const struct rut_tsdl *p)
{
	return rut_tsdl_is_word(&p->t, "typedef") || rut_tsdl_is_word(&p->t, "typealias") ||
	       rut_tsdl_is_word(&p->t, "struct") || rut_tsdl_is_word(&p->t, "variant") ||
	       rut_tsdl_is_word(&p->t, "enum");
}

static int parse_typealias(struct rut_tsdl *p)
{
	struct rut_ctf_type *t;
	const char *name;
	int rc;

	if ((rc = parse_spec(p, &t)) < 0)
		return rc;
	while (rut_tsdl_at(p, '*'))
		rut_tsdl_next(p);
	if ((rc = parse_dimensions(p, &t)) < 0)
		return rc;
	if (p->t.kind != RUT_TSDL_ASSIGN)
		return rut_tsdl_error(p, "':=' is missing");
	rut_tsdl_next(p);
	if ((rc = parse_alias_name(p, true, &name)) < 0)
		return rc;
	if ((rc = define(p, RUT_TSDL_TYPE, name, t)) < 0)
		return rc;
	return rut_tsdl_expect(p, ';');
}

static int parse_typedef(struct rut_tsdl *p)
{
	struct rut_ctf_type *spec, *t;
	bool first = true;
	const char *name;
	int rc;

	if ((rc = parse_spec(p, &spec)) < 0)
		return rc;
	for (; !rut_tsdl_at(p, ';'); first = false) {
		if (!first && (rc = rut_tsdl_expect(p, ',')) < 0)
			return rc;
		if ((rc = take_copy(p, spec, &t)) < 0 ||
		    (rc = parse_declarator(p, &t, &name)) < 0 ||
		    (rc = define(p, RUT_TSDL_TYPE, name, t)) < 0)
			return rc;
	}
	return rut_tsdl_expect(p, ';');
}

int rut_tsdl_declaration(struct rut_tsdl *p)
{
	struct rut_ctf_type *t;
	int rc;

	if (rut_tsdl_is_word(&p->t, "typealias")) {
		rut_tsdl_next(p);
		return parse_typealias(p);
	}
	if (rut_tsdl_is_word(&p->t, "typedef")) {
		rut_tsdl_next(p);
		return parse_typedef(p);
	}
	if ((rc = parse_spec(p, &t)) < 0)
		return rc;
	return rut_tsdl_expect(p, ';');
}
