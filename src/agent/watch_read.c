/* SPDX-License-Identifier: MIT */
#include "watch_read.h"

#include "iseq.h"
#include "names.h"
#include "record.h"

#include <stdio.h>
#include <string.h>

/* Words of a frame's environment behind its local variables (vm_core.h). */
#define ENV_WORDS 3

#define SQLS	  64
#define SQL_BYTES 512 /* of a query that is kept */

/* Of InstructionSequence#to_a: a Hash of sizes, the names of local variables. */
#define TO_A_SIZES  4
#define TO_A_LOCALS 10

/*
 * An application makes the same queries again and again, with their values apart: what was made of
 * one is kept beside it. Two threads at a place (ractors): the second one does without.
 */
struct rut_sql {
	uint32_t taken;
	uint16_t len, shown_len;
	char text[SQL_BYTES], shown[RUT_RECORD_TEXT];
};

static bool is_object(VALUE v, unsigned type)
{
	return !rut_special_p(v) && rut_type(v) == type;
}

void rut_agent_watches_intern(struct rut_session *s)
{
	struct rut_watches *w = &s->requests.watches;

	rut_keep(&s->requests.keys, rb.rb_obj_hide(rb.rb_ary_new()));
	rut_keep(&s->requests.codes, rb.rb_obj_hide(rb.rb_ary_new()));
	if (!s->requests.sqls)
		s->requests.sqls = rut_agent_map(SQLS * sizeof(*s->requests.sqls));
	for (size_t i = 0; i < w->count; i++) {
		struct rut_watch *watch = &w->watches[i];
		const struct rut_agent_row *row = rut_agent_table_row(
			&s->table, 0, 0,
			rut_agent_table_str(&s->table, watch->layer, strlen(watch->layer)), 0, 0);

		watch->row = row ? (uint32_t)(row - s->table.rows) : UINT32_MAX;
		for (uint16_t k = 0; k < watch->nops; k++) {
			struct rut_watch_op *op = &watch->ops[k];

			if (op->kind == RUT_OP_IVAR || op->kind == RUT_OP_SYMBOL)
				op->id = rb.rb_intern(op->text);
			if (op->kind == RUT_OP_KEY)
				rb.rb_ary_push(s->requests.keys,
					       rb.rb_str_new(op->text, (long)strlen(op->text)));
		}
	}
}

/* ---- local variables ---- */

struct look {
	struct rut_session *s;
	const struct rut_watch *w;
	struct rut_watch_code *code;
	VALUE iseq;
};

static int16_t slot_of(VALUE locals, long n, const struct rut_watch_op *op)
{
	if (op->kind == RUT_OP_POSITION)
		return op->n <= n ? (int16_t)(op->n - 1) : -1;
	for (long i = 0; i < n; i++) {
		VALUE name = rb.rb_ary_entry(locals, i);
		bool symbol = (name & 0xff) == 0x0c ||
			      (!rut_special_p(name) && rut_type(name) == RUT_T_SYMBOL);
		const char *text = symbol ? rb.rb_id2name(rb.rb_sym2id(name)) : NULL;

		if (text && strcmp(text, op->text) == 0)
			return (int16_t)i;
	}
	return -1;
}

/* How many of the local variables are parameters, which come first. */
static long parameters(VALUE data)
{
	VALUE sizes = rb.rb_ary_entry(data, TO_A_SIZES), n = rb.qnil;

	if (rb.rb_hash_lookup && is_object(sizes, RUT_T_HASH))
		n = rb.rb_hash_lookup(sizes, rb.rb_id2sym(rb.rb_intern("arg_size")));
	return n & 1 ? rut_fix2long(n) : 0;
}

/* That of a script's probes (hit.c) is the application's, and goes when that drops it. */
static bool is_kept(const struct rut_session *s, const struct rut_watch *w)
{
	return s->requests.codes && w->what && rut_single_ractor();
}

static void keep(struct rut_session *s, struct rut_watch_code *code, VALUE iseq)
{
	if (!code->kept)
		code->kept = ++s->requests.code_count;
	rb.rb_ary_store(s->requests.codes, code->kept - 1, iseq);
}

/* Is it the code that was looked at, after a GC that may have moved it? */
static bool is_still(const struct rut_session *s, const struct rut_watch *w,
		     const struct rut_watch_code *code, VALUE iseq)
{
	return code && code->iseq && code->kept && is_kept(s, w) &&
	       rb.rb_ary_entry(s->requests.codes, code->kept - 1) == iseq;
}

static VALUE look_body(VALUE arg)
{
	struct look *l = (struct look *)arg;
	VALUE data = rut_agent_ask(rut_agent_iseq_wrapper(l->iseq), "to_a"), locals = rb.qnil;
	const struct rut_watch_op forwards = {.kind = RUT_OP_LOCAL, .text = "..."};
	long n = 0;

	if (data != rb.qnil)
		locals = rb.rb_ary_entry(data, TO_A_LOCALS);
	while (locals != rb.qnil && rb.rb_ary_entry(locals, n) != rb.qnil)
		n++;
	/* Since 3.4 the arguments of a method (...) lie between its variables. */
	if (n > INT16_MAX || slot_of(locals, n, &forwards) >= 0)
		n = 0;
	l->code->locals = (uint16_t)n;
	if (n && l->w->parameters && parameters(data) < n)
		n = parameters(data);
	for (uint16_t i = 0; i < l->w->nops; i++)
		l->code->slot[i] =
			l->w->ops[i].kind == RUT_OP_LOCAL || l->w->ops[i].kind == RUT_OP_POSITION
				? slot_of(locals, n, &l->w->ops[i])
				: -1;
	if (is_kept(l->s, l->w))
		keep(l->s, l->code, l->iseq);
	return rb.qnil;
}

const struct rut_watch_code *rut_agent_watch_code(struct rut_session *s, const struct rut_watch *w,
						  struct rut_watch_code **code,
						  const struct rut_trace_arg *ta)
{
	struct look l = {.s = s, .w = w, .iseq = ((const VALUE *)ta->cfp)[RUT_FRAME_ISEQ]};
	bool failed;

	rut_lives_sync();
	if (RUT_LIKELY(*code && (*code)->iseq == l.iseq && rut_life_holds((*code)->life)))
		return *code;
	if (is_still(s, w, *code, l.iseq)) {
		(*code)->iseq = l.iseq;
		(*code)->life = rut_agent_life_of(l.iseq, 0);
		return *code;
	}
	if (!*code)
		*code = rut_agent_session_alloc(s, sizeof(**code));
	l.code = *code;
	if (!l.code)
		return NULL;
	l.code->iseq = 0;
	__atomic_fetch_add(&s->busy, 1, __ATOMIC_RELAXED);
	failed = rut_agent_protect(look_body, (VALUE)&l);
	__atomic_fetch_sub(&s->busy, 1, __ATOMIC_RELAXED);
	if (failed)
		return NULL;
	rut_lives_sync();
	l.code->iseq = ((const VALUE *)ta->cfp)[RUT_FRAME_ISEQ];
	l.code->life = rut_agent_life_of(l.code->iseq, 0);
	return l.code;
}

/* ---- steps ---- */

#define NOTHING 0x24 /* as good as undef: no object */

bool rut_agent_watch_local(const struct rut_watch_code *code, unsigned op,
			   const struct rut_trace_arg *ta, VALUE *ret)
{
	const VALUE *ep = (const VALUE *)((const VALUE *)ta->cfp)[RUT_FRAME_EP];

	if (!code || code->slot[op] < 0)
		return false;
	*ret = ep[code->slot[op] - code->locals - (ENV_WORDS - 1)];
	return true;
}

static VALUE local(const struct rut_watch_code *code, unsigned op, const struct rut_trace_arg *ta)
{
	VALUE v;

	return rut_agent_watch_local(code, op, ta, &v) ? v : NOTHING;
}

static VALUE step(const struct rut_session *s, const struct rut_watch_op *op, VALUE v)
{
	if (rut_special_p(v))
		return NOTHING;
	switch (op->kind) {
	case RUT_OP_IVAR:
		return rb.rb_attr_get(v, op->id);
	case RUT_OP_KEY:
		return rut_type(v) == RUT_T_HASH && rb.rb_hash_lookup
			       ? rb.rb_hash_lookup(v, rb.rb_ary_entry(s->requests.keys, op->n))
			       : NOTHING;
	case RUT_OP_SYMBOL:
		return rut_type(v) == RUT_T_HASH && rb.rb_hash_lookup
			       ? rb.rb_hash_lookup(v, rb.rb_id2sym(op->id))
			       : NOTHING;
	case RUT_OP_INDEX:
		return rut_type(v) == RUT_T_ARRAY ? rb.rb_ary_entry(v, op->n) : NOTHING;
	default:
		return NOTHING;
	}
}

/* ---- text ---- */

/* Bytes of a character of UTF-8 at `s`, of which there are `n`; 0: it is none. */
static size_t utf8(const char *s, size_t n)
{
	unsigned char c = (unsigned char)*s;
	size_t len = c < 0x80		     ? 1
		     : c >= 0xc2 && c < 0xe0 ? 2
		     : c >= 0xe0 && c < 0xf0 ? 3
		     : c >= 0xf0 && c < 0xf5 ? 4
					     : 0;

	if (len > n)
		return 0;
	for (size_t i = 1; i < len; i++)
		if (((unsigned char)s[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

/* How many of the bytes in front are plain ASCII. */
static size_t printable(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n && s[i] >= 0x20 && s[i] < 0x7f)
		i++;
	return i;
}

/* Appends what fits, of whole characters. */
static size_t append(char *buf, size_t at, size_t size, const char *s, size_t n)
{
	while (n) {
		size_t plain = printable(s, n), len;

		if (plain) {
			plain = plain < size - 1 - at ? plain : size - 1 - at;
			if (!plain)
				break;
			memcpy(buf + at, s, plain);
			at += plain;
			s += plain;
			n -= plain;
			continue;
		}
		len = utf8(s, n);
		bool bad = !len || (unsigned char)*s < 0x20 || *s == 0x7f;

		if (at + (bad ? 1 : len) >= size)
			break;
		if (bad)
			buf[at++] = *s == '\n' || *s == '\t' ? ' ' : '?';
		else
			memcpy(buf + at, s, len);
		at += bad ? 0 : len;
		s += bad ? 1 : len;
		n -= bad ? 1 : len;
	}
	buf[at] = 0;
	return at;
}

static size_t append_value(char *buf, size_t at, size_t size, VALUE v)
{
	const char *text;
	char number[32];
	size_t len;

	if (v & 1) {
		len = (size_t)snprintf(number, sizeof(number), "%ld", rut_fix2long(v));
		return append(buf, at, size, number, len);
	}
	if ((v & 0xff) == 0x0c || is_object(v, RUT_T_SYMBOL)) {
		text = rb.rb_id2name(rb.rb_sym2id(v));
		return text ? append(buf, at, size, text, strlen(text)) : at;
	}
	if (!is_object(v, RUT_T_STRING))
		return at;
	text = rut_agent_str(v, &len);
	return append(buf, at, size, text, len);
}

bool rut_agent_watch_text(char *buf, size_t size, VALUE v)
{
	buf[0] = 0;
	append_value(buf, 0, size, v);
	return v & 1 || (v & 0xff) == 0x0c || is_object(v, RUT_T_SYMBOL) ||
	       is_object(v, RUT_T_STRING);
}

static size_t append_class(char *buf, size_t at, size_t size, VALUE v)
{
	char name[256];
	bool singleton;

	if (rut_special_p(v))
		return at;
	rut_agent_class_name(rut_type(v) == RUT_T_CLASS ? v : rb.rb_class_real(rut_klass(v)), name,
			     sizeof(name), &singleton);
	return append(buf, at, size, name, strlen(name));
}

/* "https://api.example.com:8443/v1?key=1" -> "https://api.example.com:8443", without a user. */
static size_t host(char *buf, size_t at)
{
	char *s = buf + at, *scheme = strstr(s, "://"), *begin = scheme ? scheme + 3 : s;
	size_t len = strcspn(begin, "/?#");
	char *user = memchr(begin, '@', len);

	if (user) {
		size_t skip = (size_t)(user + 1 - begin);

		memmove(begin, user + 1, strlen(user + 1) + 1);
		len -= skip;
	}
	begin[len] = 0;
	return at + strlen(s);
}

/* "views/items/17-2026" -> "views/items": up to the last separator before the first digit. */
static size_t prefix(char *buf, size_t at)
{
	char *s = buf + at;
	size_t n = strcspn(s, "0123456789"), end = n;

	if (!s[n])
		return at + n;
	while (end && !strchr(":/.-_ ", s[end - 1]))
		end--;
	while (end && strchr(":/.-_ ", s[end - 1]))
		end--;
	if (!end)
		end = n;
	s[end] = 0;
	return at + end;
}

static size_t finish(char *buf, size_t at, char kind)
{
	if (kind == RUT_OP_HOST)
		return host(buf, at);
	if (kind == RUT_OP_PREFIX)
		return prefix(buf, at);
	if (kind == RUT_OP_PATH)
		buf[at + strcspn(buf + at, "?#")] = 0;
	return at + strlen(buf + at);
}

/* ---- SQL ---- */

void rut_agent_watch_fini(struct rut_session *s)
{
	if (s->requests.sqls)
		rut_agent_unmap(s->requests.sqls, SQLS * sizeof(*s->requests.sqls));
	s->requests.sqls = NULL;
}

void rut_agent_watch_forked(struct rut_session *s)
{
	/* What was being written may be half of it. */
	for (size_t i = 0; s->requests.sqls && i < SQLS; i++)
		if (s->requests.sqls[i].taken)
			s->requests.sqls[i].len = s->requests.sqls[i].taken = 0;
}

static uint64_t hash_of(const char *text, size_t len)
{
	uint64_t h = len, word;

	for (; len >= sizeof(word); text += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, text, sizeof(word));
		h = (h ^ word) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 32;
	}
	word = 0;
	memcpy(&word, text, len);
	h = (h ^ word) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 32;
}

static size_t show_sql(char *buf, size_t at, size_t size, const char *text, size_t len)
{
	char masked[1024];

	len = rut_agent_sql_mask(masked, sizeof(masked), text, len);
	return append(buf, at, size, masked, len);
}

static size_t show_known_sql(struct rut_sql *q, char *buf, size_t size, const char *text,
			     size_t len)
{
	size_t n;

	if (q->len == len && q->shown_len < size && memcmp(q->text, text, len) == 0) {
		memcpy(buf, q->shown, q->shown_len + 1u);
		return q->shown_len;
	}
	n = show_sql(buf, 0, size, text, len);
	if (n < sizeof(q->shown)) {
		memcpy(q->text, text, len);
		memcpy(q->shown, buf, n + 1);
		q->len = (uint16_t)len;
		q->shown_len = (uint16_t)n;
	}
	return n;
}

/* The text of a value, which is the SQL of a query. */
static size_t append_sql(const struct rut_session *s, char *buf, size_t at, size_t size, VALUE v)
{
	const char *text;
	struct rut_sql *q;
	size_t len;

	if (!is_object(v, RUT_T_STRING))
		return at;
	text = rut_agent_str(v, &len);
	if (s->flags & RUT_AGENT_SQL_VALUES)
		return append(buf, at, size, text, len);
	q = s->requests.sqls && !at && len && len <= SQL_BYTES && size == RUT_RECORD_TEXT
		    ? &s->requests.sqls[hash_of(text, len) % SQLS]
		    : NULL;
	if (!q || __atomic_exchange_n(&q->taken, 1, __ATOMIC_ACQUIRE))
		return show_sql(buf, at, size, text, len);
	at = show_known_sql(q, buf, size, text, len);
	__atomic_store_n(&q->taken, 0, __ATOMIC_RELEASE);
	return at;
}

struct reader {
	const struct rut_session *s;
	char *buf;
	size_t size, len;
	size_t part; /* where what was appended last begins */
	VALUE v;
	bool pending; /* `v` is to be appended */
	bool missing; /* there was nothing to append: this alternative is none */
};

static void flush(struct reader *r, char kind)
{
	size_t before = r->len;

	if (!r->pending)
		return;
	r->pending = false;
	r->part = r->len;
	r->len = kind == RUT_OP_CLASS ? append_class(r->buf, r->len, r->size, r->v)
		 : kind == RUT_OP_SQL ? append_sql(r->s, r->buf, r->len, r->size, r->v)
				      : append_value(r->buf, r->len, r->size, r->v);
	r->missing |= r->len == before;
}

/* Is what was read so far the field? If not, it is removed. */
static bool complete(struct reader *r)
{
	flush(r, 0);
	if (r->missing)
		r->buf[r->len = 0] = 0;
	r->missing = false;
	return r->len > 0;
}

static void source(struct reader *r, VALUE v)
{
	flush(r, 0);
	r->v = v;
	r->pending = true;
}

size_t rut_agent_watch_read(struct rut_session *s, const struct rut_watch *w,
			    const struct rut_watch_read *read, const struct rut_watch_code *code,
			    const struct rut_trace_arg *ta, char *buf, size_t size)
{
	struct reader r = {.s = s, .buf = buf, .size = size, .v = NOTHING};

	buf[0] = 0;
	for (unsigned i = read->first; i < read->first + read->count; i++) {
		const struct rut_watch_op *op = &w->ops[i];

		switch (op->kind) {
		case RUT_OP_LOCAL:
		case RUT_OP_POSITION:
			source(&r, local(code, i, ta));
			break;
		case RUT_OP_SELF:
			source(&r, ta->self);
			break;
		case RUT_OP_RETURN:
			source(&r, ta->event == RUT_EVENT_RETURN ? ta->data : NOTHING);
			break;
		case RUT_OP_LITERAL:
			flush(&r, 0);
			r.part = r.len;
			r.len = append(buf, r.len, size, op->text, strlen(op->text));
			break;
		case RUT_OP_CLASS:
		case RUT_OP_SQL:
			flush(&r, op->kind);
			break;
		case RUT_OP_HOST:
		case RUT_OP_PREFIX:
		case RUT_OP_PATH:
			flush(&r, 0);
			r.len = finish(buf, r.part, op->kind);
			break;
		case RUT_OP_NEXT:
			flush(&r, 0);
			break;
		case RUT_OP_OR:
			if (complete(&r))
				return r.len;
			break;
		default:
			r.v = step(s, op, r.v);
			break;
		}
	}
	complete(&r);
	return r.len;
}
