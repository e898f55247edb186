/* SPDX-License-Identifier: MIT */
/*
 * TSDL's blocks: trace, clock, env, stream, event, callsite.
 *
 * Blocks may refer to what comes later: the types of a trace need its byte order, which stands in
 * the trace block, so that one is looked up first; clocks are made when they are first named and
 * filled in when their block comes; streams and events are put together in rut_meta_finish().
 */
#include "ctf/tsdl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Shared with tsdl_type.c ---- */

int(rut_tsdl_error)(struct rut_tsdl *p, const char *fmt, ...)
{
	char msg[400];
	va_list ap;

	if (p->t.kind == RUT_TSDL_BAD)
		return rut_err_set(p->err, EINVAL, "line %u: %s", p->t.line, p->t.why);
	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	if (p->t.kind == RUT_TSDL_END)
		return rut_err_set(p->err, EINVAL, "line %u: %s (the metadata ends here)",
				   p->t.line, msg);
	return rut_err_set(p->err, EINVAL, "line %u: %s (at '%.*s')", p->t.line, msg,
			   p->t.len < 40 ? (int)p->t.len : 40, p->t.s);
}

int(rut_tsdl_nomem)(struct rut_tsdl *p)
{
	return rut_err_set(p->err, ENOMEM, "line %u: the description grows too large", p->t.line);
}

void rut_tsdl_next(struct rut_tsdl *p)
{
	rut_tsdl_lex_next(&p->lex, &p->t);
}

bool rut_tsdl_at(const struct rut_tsdl *p, char c)
{
	return p->t.kind == RUT_TSDL_PUNCT && p->t.c == c;
}

int rut_tsdl_expect(struct rut_tsdl *p, char c)
{
	if (!rut_tsdl_at(p, c))
		return rut_tsdl_error(p, "'%c' is missing", c);
	rut_tsdl_next(p);
	return 0;
}

static unsigned int octal(const char **s, const char *end)
{
	unsigned int v = 0;

	for (int i = 0; i < 3 && *s < end && **s >= '0' && **s <= '7'; i++)
		v = v * 8 + (unsigned int)(*(*s)++ - '0');
	return v;
}

static unsigned int hex(const char **s, const char *end)
{
	unsigned int v = 0;

	for (int i = 0; i < 2 && *s < end; i++, (*s)++) {
		const char *digits = "0123456789abcdef0123456789ABCDEF";
		const char *d = **s ? strchr(digits, **s) : NULL;

		if (!d)
			break;
		v = v * 16 + (unsigned int)((d - digits) % 16);
	}
	return v;
}

const char *rut_tsdl_unquote(struct rut_tsdl *p, const struct rut_tsdl_token *t)
{
	static const char from[] = "abfnrtv", to[] = "\a\b\f\n\r\t\v";
	char *out = rut_arena_alloc(&p->m->arena, t->len + 1);
	const char *s = t->s, *end = t->s + t->len;
	char *o = out;

	if (!out)
		return NULL;
	while (s < end) {
		const char *e;

		if (*s != '\\' || end - s < 2) {
			*o++ = *s++;
			continue;
		}
		s++;
		if (*s >= '0' && *s <= '7') {
			*o++ = (char)octal(&s, end);
		} else if (*s == 'x') {
			s++;
			*o++ = (char)hex(&s, end);
		} else {
			e = *s ? strchr(from, *s) : NULL;
			*o++ = e ? to[e - from] : *s;
			s++;
		}
	}
	*o = '\0';
	return out;
}

int rut_tsdl_number(struct rut_tsdl *p, uint64_t *ret, bool *ret_negative)
{
	bool neg = false;

	while (rut_tsdl_at(p, '-') || rut_tsdl_at(p, '+')) {
		neg ^= rut_tsdl_at(p, '-');
		rut_tsdl_next(p);
	}
	if (p->t.kind != RUT_TSDL_NUMBER)
		return rut_tsdl_error(p, "a number is missing");
	if (neg && p->t.num > (uint64_t)1 << 63)
		return rut_tsdl_error(p, "the number does not fit in 64 bits");
	*ret = neg ? 0 - p->t.num : p->t.num;
	*ret_negative = neg && p->t.num;
	rut_tsdl_next(p);
	return 0;
}

/* ---- Blocks ---- */

/* One statement of a block: "key.with.dots = value;" or ":= type;". */
struct entry {
	char key[64];
	bool is_type;
	bool is_string, is_number, negative;
	uint64_t num;
	const char *str; /* of a string or word */
	struct rut_ctf_type *type;
};

static int parse_value(struct rut_tsdl *p, struct entry *e)
{
	char word[128];
	size_t len = 0;

	if (p->t.kind == RUT_TSDL_NUMBER || rut_tsdl_at(p, '-') || rut_tsdl_at(p, '+')) {
		e->is_number = true;
		return rut_tsdl_number(p, &e->num, &e->negative);
	}
	if (p->t.kind == RUT_TSDL_STRING) {
		e->is_string = true;
		e->str = rut_tsdl_unquote(p, &p->t);
		rut_tsdl_next(p);
		return e->str ? 0 : rut_tsdl_nomem(p);
	}
	for (; p->t.kind == RUT_TSDL_WORD || rut_tsdl_at(p, '.'); rut_tsdl_next(p)) {
		if (len + p->t.len >= sizeof(word))
			return rut_tsdl_error(p, "the value of '%s' is too long", e->key);
		memcpy(word + len, p->t.s, p->t.len);
		len += p->t.len;
	}
	if (!len)
		return rut_tsdl_error(p, "'%s' has no value", e->key);
	e->str = rut_meta_name(p->m, word, len);
	return e->str ? 0 : rut_tsdl_nomem(p);
}

/* Returns 1 with an entry, 0 after a declaration of types, or -errno. */
static int parse_entry(struct rut_tsdl *p, struct entry *e)
{
	size_t len = 0;
	int rc;

	memset(e, 0, sizeof(*e));
	if (rut_tsdl_at_declaration(p))
		return rut_tsdl_declaration(p);
	for (; p->t.kind == RUT_TSDL_WORD || rut_tsdl_at(p, '.'); rut_tsdl_next(p)) {
		if (len + p->t.len >= sizeof(e->key))
			return rut_tsdl_error(p, "a key is too long");
		memcpy(e->key + len, p->t.s, p->t.len);
		len += p->t.len;
	}
	if (!len)
		return rut_tsdl_error(p, "a key is missing");
	if (p->t.kind == RUT_TSDL_ASSIGN) {
		rut_tsdl_next(p);
		e->is_type = true;
		rc = rut_tsdl_type(p, &e->type);
	} else if (rut_tsdl_at(p, '=')) {
		rut_tsdl_next(p);
		rc = parse_value(p, e);
	} else {
		return rut_tsdl_error(p, "'=' or ':=' is missing");
	}
	if (rc < 0 || (rc = rut_tsdl_expect(p, ';')) < 0)
		return rc;
	return 1;
}

static int need_number(struct rut_tsdl *p, const struct entry *e)
{
	if (!e->is_number || e->negative)
		return rut_tsdl_error(p, "'%s' must be a number of 0 or more", e->key);
	return 0;
}

/* Stores the scope of a block; it must be a structure, and there may be only one. */
static int take_scope(struct rut_tsdl *p, const struct entry *e, struct rut_ctf_type **slot)
{
	if (!e->is_type || e->type->kind != RUT_CTF_KIND_STRUCT)
		return rut_tsdl_error(p, "'%s' must be a structure (:=)", e->key);
	if (*slot)
		return rut_tsdl_error(p, "'%s' is given twice", e->key);
	*slot = e->type;
	return 0;
}

static int trace_entry(struct rut_tsdl *p, const struct entry *e, void *arg)
{
	struct rut_ctf_trace *t = &p->m->pub;
	int rc;

	if (!strcmp(e->key, "packet.header"))
		return take_scope(p, e, &t->packet_header);
	if (!strcmp(e->key, "major") || !strcmp(e->key, "minor")) {
		if ((rc = need_number(p, e)) < 0)
			return rc;
		if (!strcmp(e->key, "major") ? e->num != 1 : e->num != 8)
			return rut_tsdl_error(p, "only CTF 1.8 is written in this language");
	} else if (!strcmp(e->key, "uuid")) {
		if (!e->is_string || !rut_parse_uuid(e->str, strlen(e->str), t->uuid))
			return rut_tsdl_error(p, "the trace's uuid is not one");
		t->has_uuid = true;
	}
	return 0; /* byte_order was looked up before */
}

static int clock_entry(struct rut_tsdl *p, const struct entry *e, void *arg)
{
	struct rut_ctf_clock *c = arg;

	if (!strcmp(e->key, "name") || !strcmp(e->key, "description")) {
		if (!e->str)
			return rut_tsdl_error(p, "a clock's %s must be a string", e->key);
		*(e->key[0] == 'n' ? &c->name : &c->description) = e->str;
	} else if (!strcmp(e->key, "freq")) {
		if (need_number(p, e) < 0 || !e->num)
			return rut_tsdl_error(p, "a clock's frequency must be more than 0");
		c->freq = e->num;
	} else if (!strcmp(e->key, "offset_s") || !strcmp(e->key, "offset")) {
		if (!e->is_number || (!e->negative && e->num > INT64_MAX))
			return rut_tsdl_error(p, "a clock's %s must be a number", e->key);
		*(e->key[6] ? &c->offset_s : &c->offset_cycles) = (int64_t)e->num;
	} else if (!strcmp(e->key, "precision")) {
		if (need_number(p, e) < 0)
			return -EINVAL;
		c->precision = e->num;
	} else if (!strcmp(e->key, "absolute")) {
		c->absolute = e->is_number ? e->num != 0 : e->str && !strcasecmp(e->str, "true");
	} else if (!strcmp(e->key, "uuid")) {
		if (!e->str || !rut_parse_uuid(e->str, strlen(e->str), c->uuid))
			return rut_tsdl_error(p, "a clock's uuid is not one");
		c->has_uuid = true;
	}
	return 0;
}

static int env_entry(struct rut_tsdl *p, const struct entry *e, void *arg)
{
	const char *name = rut_meta_name(p->m, e->key, strlen(e->key));

	if (e->is_type)
		return rut_tsdl_error(p, "'%s' of the environment must be a string or a number",
				      e->key);
	if (!name ||
	    rut_meta_add_env(p->m, name, e->is_number ? NULL : e->str, (int64_t)e->num) < 0)
		return rut_tsdl_nomem(p);
	return 0;
}

static int stream_entry(struct rut_tsdl *p, const struct entry *e, void *arg)
{
	struct rut_ctf_stream_class *sc = arg;
	int rc;

	if (!strcmp(e->key, "id")) {
		if ((rc = need_number(p, e)) < 0)
			return rc;
		sc->id = e->num;
	} else if (!strcmp(e->key, "packet.context")) {
		return take_scope(p, e, &sc->packet_context);
	} else if (!strcmp(e->key, "event.header")) {
		return take_scope(p, e, &sc->event_header);
	} else if (!strcmp(e->key, "event.context")) {
		return take_scope(p, e, &sc->event_context);
	} else if (!strcmp(e->key, "name") && e->str) {
		sc->name = e->str;
	}
	return 0;
}

static int event_entry(struct rut_tsdl *p, const struct entry *e, void *arg)
{
	struct rut_meta_event_class *ec = arg;
	int rc;

	if (!strcmp(e->key, "name")) {
		if (!e->str)
			return rut_tsdl_error(p, "an event's name must be a string");
		ec->pub.name = e->str;
	} else if (!strcmp(e->key, "id")) {
		if ((rc = need_number(p, e)) < 0)
			return rc;
		ec->pub.id = e->num;
		ec->has_id = true;
	} else if (!strcmp(e->key, "stream_id")) {
		if ((rc = need_number(p, e)) < 0)
			return rc;
		ec->stream_id = e->num;
		ec->has_stream_id = true;
	} else if (!strcmp(e->key, "loglevel") && e->is_number) {
		ec->pub.loglevel = (int64_t)e->num;
	} else if (!strcmp(e->key, "model.emf.uri") && e->str) {
		ec->pub.emf_uri = e->str;
	} else if (!strcmp(e->key, "context")) {
		return take_scope(p, e, &ec->pub.context);
	} else if (!strcmp(e->key, "fields")) {
		return take_scope(p, e, &ec->pub.payload);
	}
	return 0;
}

static int ignore_entry(struct rut_tsdl *p, const struct entry *e, void *arg)
{
	return 0;
}

/* "WORD { entries };" */
static int parse_block(struct rut_tsdl *p,
		       int (*take)(struct rut_tsdl *p, const struct entry *e, void *arg), void *arg)
{
	struct entry e;
	int rc = rut_tsdl_expect(p, '{');

	if (rc < 0)
		return rc;
	rut_tsdl_push_scope(p);
	while (!rut_tsdl_at(p, '}')) {
		if ((rc = parse_entry(p, &e)) < 0)
			return rc;
		if (rc && (rc = take(p, &e, arg)) < 0)
			return rc;
	}
	rut_tsdl_pop_scope(p);
	rut_tsdl_next(p);
	return rut_tsdl_expect(p, ';');
}

static int parse_clock(struct rut_tsdl *p)
{
	struct rut_ctf_clock c = {.freq = 1000000000, .precision = 1};
	struct rut_meta_clock *mc;
	int rc = parse_block(p, clock_entry, &c);

	if (rc < 0)
		return rc;
	if (!c.name)
		return rut_tsdl_error(p, "a clock has no name");
	mc = rut_meta_clock(p->m, c.name);
	if (!mc)
		return rut_tsdl_nomem(p);
	if (mc->defined)
		return rut_tsdl_error(p, "the clock '%s' is defined twice", c.name);
	mc->pub = c;
	mc->defined = true;
	return 0;
}

static int parse_top(struct rut_tsdl *p)
{
	unsigned int line = p->t.line;
	struct rut_meta_stream_class *sc;
	struct rut_meta_event_class *ec;

	if (rut_tsdl_at_declaration(p))
		return rut_tsdl_declaration(p);
	if (rut_tsdl_is_word(&p->t, "trace")) {
		rut_tsdl_next(p);
		if (p->m->pub.major)
			return rut_tsdl_error(p, "there are two trace blocks");
		p->m->pub.major = 1;
		p->m->pub.minor = 8;
		return parse_block(p, trace_entry, NULL);
	}
	if (rut_tsdl_is_word(&p->t, "clock")) {
		rut_tsdl_next(p);
		return parse_clock(p);
	}
	if (rut_tsdl_is_word(&p->t, "env")) {
		rut_tsdl_next(p);
		return parse_block(p, env_entry, NULL);
	}
	if (rut_tsdl_is_word(&p->t, "callsite")) {
		rut_tsdl_next(p);
		return parse_block(p, ignore_entry, NULL);
	}
	if (rut_tsdl_is_word(&p->t, "stream")) {
		rut_tsdl_next(p);
		sc = rut_meta_add_stream_class(p->m);
		if (!sc)
			return rut_tsdl_nomem(p);
		sc->line = line;
		return parse_block(p, stream_entry, &sc->pub);
	}
	if (rut_tsdl_is_word(&p->t, "event")) {
		rut_tsdl_next(p);
		ec = rut_meta_add_event_class(p->m);
		if (!ec)
			return rut_tsdl_nomem(p);
		ec->line = line;
		return parse_block(p, event_entry, ec);
	}
	return rut_tsdl_error(p, "neither a block (trace, clock, env, stream, event, callsite) nor "
				 "a type begins here");
}

/* Looks for "byte_order = X" in the trace block, before anything is built. */
static int find_byte_order(struct rut_tsdl *p)
{
	bool in_trace = false;
	int depth = 0;

	for (; p->t.kind != RUT_TSDL_END && p->t.kind != RUT_TSDL_BAD; rut_tsdl_next(p)) {
		if (rut_tsdl_at(p, '{')) {
			depth++;
		} else if (rut_tsdl_at(p, '}')) {
			depth--;
		} else if (!depth && p->t.kind == RUT_TSDL_WORD) {
			in_trace = rut_tsdl_is_word(&p->t, "trace");
		} else if (depth == 1 && in_trace && rut_tsdl_is_word(&p->t, "byte_order")) {
			rut_tsdl_next(p);
			if (!rut_tsdl_at(p, '='))
				continue;
			rut_tsdl_next(p);
			if (rut_tsdl_is_word(&p->t, "be") || rut_tsdl_is_word(&p->t, "network"))
				p->native_be = true;
			else if (!rut_tsdl_is_word(&p->t, "le"))
				return rut_tsdl_error(p, "the trace's byte order must be le or be");
			return 0;
		}
	}
	return rut_tsdl_error(p, "no trace block says the byte order");
}

int rut_tsdl_parse(struct rut_meta *m, const char *text, size_t len, struct rut_err *err)
{
	struct rut_tsdl p = {.m = m, .err = err};
	int rc;

	rut_tsdl_lex_init(&p.lex, text, len);
	rut_tsdl_next(&p);
	if ((rc = find_byte_order(&p)) < 0)
		return rc;
	m->pub.big_endian = p.native_be;
	rut_tsdl_lex_init(&p.lex, text, len);
	rut_tsdl_next(&p);
	rut_tsdl_push_scope(&p);
	while (p.t.kind != RUT_TSDL_END) {
		if (rut_tsdl_at(&p, ';')) {
			rut_tsdl_next(&p);
			continue;
		}
		if ((rc = parse_top(&p)) < 0)
			return rc;
	}
	if (!m->pub.major)
		return rut_tsdl_error(&p, "there is no trace block");
	return 0;
}
