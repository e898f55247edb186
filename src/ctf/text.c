/* SPDX-License-Identifier: MIT */
#include "ctf/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ctf/arena.h"
#include "ctf/text_value.h"

enum op_kind {
	OP_END,	   /* the constant text alone, then the line ends */
	OP_DEC,	   /* an integer in base 10 */
	OP_HEX,	   /* and in base 16, of 8, 16, 32 or 64 bits */
	OP_TEXT,   /* a string or an array of characters */
	OP_TREE,   /* anything else */
	OP_PACKET, /* the packet's context, kept from event to event */
};

/* A constant text, then a value. */
struct op {
	enum op_kind kind;
	bool names;
	uint32_t lit_len;
	const char *lit;
	struct rut_ctf_ref ref;
};

struct line {
	struct op *ops;
	size_t n;
};

/* The packet's context of a stream as text. */
struct packet_text {
	const uint8_t *packet; /* where it is mapped; NULL: none yet */
	struct rut_buf text;
};

struct rut_ctf_text {
	struct rut_ctf_text_opts opts;
	const struct rut_ctf_set *set;
	struct rut_arena arena;
	struct line *lines;	     /* by class index */
	struct packet_text *packets; /* by stream index */
	size_t n_streams, n_lines;
	struct rut_buf lit; /* while a line is compiled */
	bool has_last;
	int64_t last_ns;
	uint64_t last_clock;
	int64_t second; /* its text is cached */
	char second_text[48];
	bool is_usual; /* time of day or date, delta, no names */
	size_t second_len;
};

/* ---- Compiling ---- */

static int flush(struct rut_ctf_text *t, struct line *l, enum op_kind kind, bool names,
		 const struct rut_ctf_ref *ref)
{
	struct op *ops = rut_arena_grow(&t->arena, l->ops, l->n, sizeof(*ops));
	char *lit = rut_arena_alloc(&t->arena, t->lit.len + 2 * RUT_TEXT_CHUNK);

	if (!ops || !lit || t->lit.failed)
		return -ENOMEM;
	if (t->lit.len)
		memcpy(lit, t->lit.data, t->lit.len);
	ops[l->n++] = (struct op){.kind = kind,
				  .names = names,
				  .lit = lit,
				  .lit_len = (uint32_t)t->lit.len,
				  .ref = ref ? *ref : (struct rut_ctf_ref){0}};
	l->ops = ops;
	rut_buf_clear(&t->lit);
	return 0;
}

static void put_name(struct rut_ctf_text *t, const char *name, bool names)
{
	if (t->opts.json) {
		char room[1024];
		struct rut_buf b = RUT_BUF_INIT;
		struct rut_text_out o = {.p = room, .end = room + sizeof(room), .buf = &b};

		if (strlen(name) < sizeof(room) / 6 - 8) {
			rut_text_string(&o, &(struct rut_text_style){.json = true}, name,
					strlen(name));
			rut_buf_add(&t->lit, room, (size_t)(o.p - room));
		} else {
			rut_buf_puts(&t->lit, "\"\"");
		}
		rut_buf_putc(&t->lit, ':');
	} else if (names) {
		rut_buf_printf(&t->lit, "%s = ", name);
	}
}

/* What the reader used up is not shown, as in babeltrace2. */
static bool member_shown(const struct rut_ctf_text *t, const struct rut_ctf_field *f,
			 enum rut_ctf_scope scope, bool top)
{
	if (scope == RUT_CTF_SCOPE_PACKET_CONTEXT && f->type->role &&
	    f->type->role != RUT_CTF_ROLE_CPU_ID)
		return false;
	return !top || !t->opts.field_wanted || t->opts.field_wanted(f->name, t->opts.arg);
}

static int compile(struct rut_ctf_text *t, struct line *l, const struct rut_ctf_type *type,
		   enum rut_ctf_scope scope, bool names, bool top);

static int compile_struct(struct rut_ctf_text *t, struct line *l, const struct rut_ctf_type *type,
			  enum rut_ctf_scope scope, bool names, bool top)
{
	uint32_t n = 0;
	int rc;

	rut_buf_puts(&t->lit, t->opts.json ? "{" : "{ ");
	for (uint32_t i = 0; i < type->n_fields; i++) {
		if (!member_shown(t, &type->fields[i], scope, top))
			continue;
		if (n++)
			rut_buf_puts(&t->lit, t->opts.json ? "," : ", ");
		put_name(t, type->fields[i].name, names);
		rc = compile(t, l, type->fields[i].type, scope, names, false);
		if (rc < 0)
			return rc;
	}
	rut_buf_puts(&t->lit, t->opts.json || !n ? "}" : " }");
	return 0;
}

static int compile(struct rut_ctf_text *t, struct line *l, const struct rut_ctf_type *type,
		   enum rut_ctf_scope scope, bool names, bool top)
{
	struct rut_ctf_ref ref = {.scope = (uint8_t)scope,
				  .type = type,
				  .load = RUT_CTF_LOAD_SEARCH,
				  .seg = type->seg,
				  .off = type->off};
	enum op_kind kind = OP_TREE;

	if (type->kind == RUT_CTF_KIND_STRUCT && type->located)
		return compile_struct(t, l, type, scope, names, top);
	if (type->located)
		rut_ctf_ref_of(type, scope, &ref);
	if (type->kind == RUT_CTF_KIND_INT && (type->base == 10 || t->opts.json) &&
	    ref.load >= RUT_CTF_LOAD_U8 && ref.load <= RUT_CTF_LOAD_S64)
		kind = OP_DEC;
	else if (type->kind == RUT_CTF_KIND_INT && type->base == 16 &&
		 ref.load >= RUT_CTF_LOAD_U8 && ref.load <= RUT_CTF_LOAD_S64)
		kind = OP_HEX;
	else if (ref.load == RUT_CTF_LOAD_BYTES && type->char_bytes == 1)
		kind = OP_TEXT;
	return flush(t, l, kind, names, &ref);
}

static bool any_shown(const struct rut_ctf_text *t, const struct rut_ctf_type *root,
		      enum rut_ctf_scope scope)
{
	for (uint32_t i = 0; i < root->n_fields; i++)
		if (member_shown(t, &root->fields[i], scope, true))
			return true;
	/* An empty structure is shown, one of which nothing is wanted is not. */
	return !root->n_fields && !t->opts.field_wanted;
}

static int compile_scopes(struct rut_ctf_text *t, struct line *l,
			  const struct rut_ctf_event_class *cls)
{
	static const struct {
		enum rut_ctf_scope scope;
		const char *plain, *json;
	} scopes[] = {
		{RUT_CTF_SCOPE_PACKET_CONTEXT, "stream.packet.context", "packet_context"},
		{RUT_CTF_SCOPE_STREAM_CONTEXT, "stream.event.context", "stream_context"},
		{RUT_CTF_SCOPE_EVENT_CONTEXT, "event.context", "context"},
		{RUT_CTF_SCOPE_PAYLOAD, "event.fields", "fields"},
	};
	bool first = true;
	int rc;

	for (size_t i = 0; i < sizeof(scopes) / sizeof(*scopes); i++) {
		const struct rut_ctf_type *root = rut_ctf_class_scope(cls, scopes[i].scope);
		bool names = t->opts.names &
			     (scopes[i].scope == RUT_CTF_SCOPE_PAYLOAD ? RUT_CTF_NAME_PAYLOAD
								       : RUT_CTF_NAME_CONTEXT);

		if (!root || !any_shown(t, root, scopes[i].scope))
			continue;
		if (t->opts.json)
			rut_buf_printf(&t->lit, ",\"%s\":", scopes[i].json);
		else if (!first)
			rut_buf_puts(&t->lit, ", ");
		first = false;
		if (!t->opts.json && t->opts.names & RUT_CTF_NAME_SCOPE)
			rut_buf_printf(&t->lit, "%s = ", scopes[i].plain);
		if (scopes[i].scope == RUT_CTF_SCOPE_PACKET_CONTEXT)
			rc = flush(t, l, OP_PACKET, names, NULL);
		else
			rc = compile(t, l, root, scopes[i].scope, names, true);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static const char *loglevel_name(int64_t level)
{
	static const char *const names[] = {
		"TRACE_EMERG",		"TRACE_ALERT",
		"TRACE_CRIT",		"TRACE_ERR",
		"TRACE_WARNING",	"TRACE_NOTICE",
		"TRACE_INFO",		"TRACE_DEBUG_SYSTEM",
		"TRACE_DEBUG_PROGRAM",	"TRACE_DEBUG_PROCESS",
		"TRACE_DEBUG_MODULE",	"TRACE_DEBUG_UNIT",
		"TRACE_DEBUG_FUNCTION", "TRACE_DEBUG_LINE",
		"TRACE_DEBUG",
	};

	return level >= 0 && level < 15 ? names[level] : NULL;
}

/* "host:procname:(vpid) " and the like; returns whether there was anything. */
static bool put_origin(struct rut_ctf_text *t, const struct rut_ctf_event_class *cls)
{
	const struct rut_ctf_trace *trace = cls->stream_class->trace;
	static const struct {
		unsigned int show;
		const char *env, *label;
	} parts[] = {
		{RUT_CTF_SHOW_HOSTNAME, "hostname", "trace:hostname"},
		{RUT_CTF_SHOW_DOMAIN, "domain", "trace:domain"},
		{RUT_CTF_SHOW_PROCNAME, "procname", "trace:procname"},
		{RUT_CTF_SHOW_VPID, "vpid", "trace:vpid"},
	};
	bool names = t->opts.names & RUT_CTF_NAME_HEADER, any = false;
	const char *sep = names ? ", " : ":";

	if (t->opts.show & RUT_CTF_SHOW_TRACE) {
		rut_buf_printf(&t->lit, "%s%s", names ? "trace = " : "", trace->name);
		any = true;
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		const struct rut_ctf_env *e = rut_ctf_trace_env(trace, parts[i].env);

		if (!e || !(t->opts.show & parts[i].show))
			continue;
		rut_buf_puts(&t->lit, any ? sep : "");
		if (names)
			rut_buf_printf(&t->lit, "%s = ", parts[i].label);
		if (!e->str)
			rut_buf_printf(&t->lit, "(%" PRId64 ")", e->num);
		else
			rut_buf_puts(&t->lit, e->str);
		any = true;
	}
	if (t->opts.show & RUT_CTF_SHOW_LOGLEVEL && loglevel_name(cls->loglevel)) {
		rut_buf_printf(&t->lit, "%s%s%s (%" PRId64 ")", any ? sep : "",
			       names ? "loglevel = " : "", loglevel_name(cls->loglevel),
			       cls->loglevel);
		any = true;
	}
	if (t->opts.show & RUT_CTF_SHOW_EMF && cls->emf_uri) {
		rut_buf_printf(&t->lit, "%s%s%s", any ? sep : "", names ? "model.emf.uri = " : "",
			       cls->emf_uri);
		any = true;
	}
	return any;
}

static int compile_line(struct rut_ctf_text *t, struct line *l,
			const struct rut_ctf_event_class *cls)
{
	int rc;

	rut_buf_clear(&t->lit);
	if (t->opts.json) {
		rut_buf_puts(&t->lit, ",\"name\":");
		put_name(t, cls->name, true);
		t->lit.len -= t->lit.len ? 1 : 0; /* without the colon */
	} else if (t->opts.names & RUT_CTF_NAME_HEADER) {
		rut_buf_puts(&t->lit, ", ");
		if (put_origin(t, cls))
			rut_buf_puts(&t->lit, ", ");
		rut_buf_printf(&t->lit, "name = %s, ", cls->name);
	} else {
		rut_buf_puts(&t->lit, " ");
		if (put_origin(t, cls))
			rut_buf_puts(&t->lit, " ");
		rut_buf_printf(&t->lit, "%s: ", cls->name);
	}
	if ((rc = compile_scopes(t, l, cls)) < 0)
		return rc;
	rut_buf_puts(&t->lit, t->opts.json ? "}\n" : "\n");
	return flush(t, l, OP_END, false, NULL);
}

int rut_ctf_text_grow(struct rut_ctf_text *t, struct rut_err *err)
{
	size_t n_lines = rut_ctf_set_n_classes(t->set), n_streams = rut_ctf_set_n_streams(t->set);
	struct line *lines = realloc(t->lines, (n_lines + 1) * sizeof(*lines));
	struct packet_text *packets;

	if (!lines)
		return rut_err_set(err, ENOMEM, "out of memory");
	t->lines = lines;
	packets = realloc(t->packets, (n_streams + 1) * sizeof(*packets));
	if (!packets)
		return rut_err_set(err, ENOMEM, "out of memory");
	t->packets = packets;
	for (; t->n_streams < n_streams; t->n_streams++)
		packets[t->n_streams] = (struct packet_text){0};
	/* Files may be mapped elsewhere now: an address says no more which packet it is. */
	for (size_t i = 0; i < n_streams; i++)
		packets[i].packet = NULL;
	for (; t->n_lines < n_lines; t->n_lines++) {
		lines[t->n_lines] = (struct line){0};
		if (compile_line(t, &lines[t->n_lines], rut_ctf_set_class(t->set, t->n_lines)) < 0)
			return rut_err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

int rut_ctf_text_new(struct rut_ctf_text **ret, const struct rut_ctf_set *set,
		     const struct rut_ctf_text_opts *opts, struct rut_err *err)
{
	struct rut_ctf_text *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return rut_err_set(err, ENOMEM, "out of memory");
	rut_arena_init(&t->arena, SIZE_MAX);
	t->is_usual = !opts->json && !opts->no_delta && opts->clock != RUT_CTF_CLOCK_CYCLES &&
		      !(opts->names & RUT_CTF_NAME_HEADER);
	t->opts = *opts;
	t->set = set;
	t->second = INT64_MIN;
	if ((rc = rut_ctf_text_grow(t, err)) < 0) {
		rut_ctf_text_free(t);
		return rc;
	}
	*ret = t;
	return 0;
}

void rut_ctf_text_free(struct rut_ctf_text *t)
{
	if (!t)
		return;
	for (size_t i = 0; t->packets && i < t->n_streams; i++)
		rut_buf_fini(&t->packets[i].text);
	free(t->packets);
	free(t->lines);
	rut_buf_fini(&t->lit);
	rut_arena_fini(&t->arena);
	free(t);
}

void rut_ctf_text_set_last(struct rut_ctf_text *t, int64_t ts_ns, uint64_t ts_clock)
{
	t->has_last = true;
	t->last_ns = ts_ns;
	t->last_clock = ts_clock;
}

/* ---- Times ---- */

/* Second and nanosecond, the latter never negative. */
static int64_t split(int64_t ns, uint32_t *ret_ns)
{
	int64_t s = ns / 1000000000;
	int64_t rest = ns % 1000000000;

	if (rest < 0) {
		rest += 1000000000;
		s--;
	}
	*ret_ns = (uint32_t)rest;
	return s;
}

static void second_text(struct rut_ctf_text *t, int64_t s)
{
	bool date = t->opts.clock == RUT_CTF_CLOCK_DATE;
	time_t when = (time_t)s;
	struct tm tm;

	t->second = s;
	if (t->opts.clock == RUT_CTF_CLOCK_SECONDS ||
	    !(t->opts.gmt ? gmtime_r(&when, &tm) : localtime_r(&when, &tm)))
		t->second_len =
			(size_t)snprintf(t->second_text, sizeof(t->second_text), "%" PRId64 ".", s);
	else
		t->second_len = strftime(t->second_text, sizeof(t->second_text),
					 date ? "%Y-%m-%d %H:%M:%S." : "%H:%M:%S.", &tm);
}

static char *put_time(struct rut_ctf_text *t, char *p, const struct rut_ctf_text_time *ev)
{
	uint32_t ns;
	int64_t s;

	if (t->opts.clock == RUT_CTF_CLOCK_CYCLES)
		return p + sprintf(p, "%020" PRIu64, ev->ts_clock);
	if (ev->ts_ns < 0) { /* before the epoch: as babeltrace2 does, in seconds */
		uint64_t abs = 0 - (uint64_t)ev->ts_ns;

		return p +
		       sprintf(p, "-%" PRIu64 ".%09" PRIu64, abs / 1000000000, abs % 1000000000);
	}
	s = split(ev->ts_ns, &ns);
	if (s != t->second)
		second_text(t, s);
	memcpy(p, t->second_text, t->second_len);
	p += t->second_len;
	return rut_text_nine(p, ns);
}

static char *put_delta(struct rut_ctf_text *t, char *p, const struct rut_ctf_text_time *ev)
{
	uint64_t delta;

	*p++ = '+';
	if (t->opts.clock == RUT_CTF_CLOCK_CYCLES) {
		if (t->has_last)
			return p + sprintf(p, "%012" PRIu64, ev->ts_clock - t->last_clock);
		memcpy(p, "????????????", 12); /* NOLINT(bugprone-not-null-terminated-result) */
		return p + 12;
	}
	if (!t->has_last) {
		memcpy(p, "?.?????????", 11); /* NOLINT(bugprone-not-null-terminated-result) */
		return p + 11;
	}
	if (ev->ts_ns < t->last_ns) /* time runs backwards */
		p[-1] = '-';
	delta = ev->ts_ns < t->last_ns ? (uint64_t)t->last_ns - (uint64_t)ev->ts_ns
				       : (uint64_t)ev->ts_ns - (uint64_t)t->last_ns;
	p = rut_text_u64(p, delta / 1000000000);
	*p++ = '.';
	return rut_text_nine(p, (uint32_t)(delta % 1000000000));
}

/* Most lines: [12:34:56.123456789] (+0.000001234). False: it is another kind of line. */
static bool put_usual_times(struct rut_ctf_text *t, struct rut_text_out *o,
			    const struct rut_ctf_text_time *ev)
{
	uint64_t delta = (uint64_t)ev->ts_ns - (uint64_t)t->last_ns, at;
	char *p = o->p;

	at = (uint64_t)ev->ts_ns - (uint64_t)t->second * 1000000000u;
	if (!t->is_usual || !t->second_len || !t->has_last || ev->ts_ns < t->last_ns ||
	    delta >= 1000000000 || at >= 1000000000)
		return false;
	*p = '[';
	memcpy(p + 1, t->second_text, sizeof(t->second_text));
	p += 1 + t->second_len;
	p = rut_text_nine(p, (uint32_t)at);
	memcpy(p, "] (+0.", 6); /* NOLINT(bugprone-not-null-terminated-result) */
	p = rut_text_nine(p + 6, (uint32_t)delta);
	*p = ')';
	o->p = p + 1;
	return true;
}

static void put_times(struct rut_ctf_text *t, struct rut_text_out *o,
		      const struct rut_ctf_text_time *ev)
{
	bool names = t->opts.names & RUT_CTF_NAME_HEADER;
	char *p;

	rut_text_need(o, 160);
	if (put_usual_times(t, o, ev))
		return;
	p = o->p;
	if (t->opts.json) {
		p = ev->has_ts ? rut_text_i64(stpcpy(p, "{\"timestamp\":"), ev->ts_ns)
			       : stpcpy(p, "{\"timestamp\":null");
		if (ev->cpu >= 0)
			p = rut_text_i64(stpcpy(p, ",\"cpu\":"), ev->cpu);
		o->p = p;
		return;
	}
	if (names)
		p = stpcpy(p, "timestamp = ");
	else
		*p++ = '[';
	p = put_time(t, p, ev);
	if (!names)
		*p++ = ']';
	if (!t->opts.no_delta) {
		p = stpcpy(p, names ? ", delta = " : " (");
		p = put_delta(t, p, ev);
		if (!names)
			*p++ = ')';
	}
	o->p = p;
}

/* ---- One event ---- */

static void render_packet(struct rut_ctf_text *t, const struct op *op,
			  const struct rut_ctf_event *ev, struct packet_text *pt)
{
	struct rut_text_style style = {t->opts.json, op->names};
	struct rut_text_out o = {.buf = &pt->text};
	const struct rut_ctf_type *root;
	struct rut_ctf_iter it;
	size_t n = 0;

	rut_buf_clear(&pt->text);
	pt->packet = ev->data;
	if (rut_buf_reserve(&pt->text, 1024) < 0)
		return;
	o.p = pt->text.data;
	o.end = pt->text.data + pt->text.cap;
	root = rut_ctf_iter_init(&it, ev, RUT_CTF_SCOPE_PACKET_CONTEXT);
	rut_text_put(&o, "{ ", t->opts.json ? 1 : 2);
	rut_ctf_iter_enter(&it, root);
	for (uint32_t i = 0; i < root->n_fields && !it.failed; i++) {
		const struct rut_ctf_field *f = &root->fields[i];

		if (!member_shown(t, f, RUT_CTF_SCOPE_PACKET_CONTEXT, true)) {
			rut_ctf_iter_skip(&it, f->type);
			continue;
		}
		if (n++)
			rut_text_put(&o, ", ", t->opts.json ? 1 : 2);
		rut_buf_clear(&t->lit);
		put_name(t, f->name, op->names);
		rut_text_put(&o, t->lit.data ? t->lit.data : "", t->lit.len);
		rut_text_tree(&o, &style, &it, f->type);
	}
	rut_text_put(&o, " }", 2);
	if (t->opts.json) { /* no space */
		o.p[-2] = '}';
		o.p--;
	}
	pt->text.len = (size_t)(o.p - pt->text.data);
}

static void put_op(struct rut_ctf_text *t, struct rut_text_out *o, const struct op *op,
		   const struct rut_ctf_event *ev)
{
	struct rut_text_style style = {t->opts.json, op->names};
	struct packet_text *pt;
	struct rut_ctf_iter it;
	const char *s;
	size_t len;

	switch (op->kind) {
	case OP_DEC:
		o->p = op->ref.type->is_signed ? rut_text_i64(o->p, rut_ctf_i64(ev, &op->ref))
					       : rut_text_u64(o->p, rut_ctf_u64(ev, &op->ref));
		break;
	case OP_HEX:
		o->p = rut_text_hex(o->p,
				    rut_ctf_u64(ev, &op->ref) << op->ref.shift >> op->ref.shift);
		break;
	case OP_TEXT:
		s = rut_ctf_str(ev, &op->ref, &len);
		rut_text_string(o, &style, s, len);
		break;
	case OP_PACKET:
		pt = &t->packets[ev->stream->index];
		if (pt->packet != ev->data)
			render_packet(t, op, ev, pt);
		rut_text_put(o, pt->text.data ? pt->text.data : "", pt->text.len);
		break;
	case OP_TREE:
		rut_ctf_iter_init(&it, ev, (enum rut_ctf_scope)op->ref.scope);
		it.pos = ev->seg[op->ref.seg] + op->ref.off;
		rut_text_tree(o, &style, &it, op->ref.type);
		break;
	default:
		break;
	}
}

static bool begin_out(struct rut_text_out *o, struct rut_buf *out)
{
	if (rut_buf_reserve(out, 512) < 0)
		return false;
	*o = (struct rut_text_out){out->data + out->len, out->data + out->cap, out};
	return true;
}

static void time_half(struct rut_ctf_text *t, struct rut_text_out *o,
		      const struct rut_ctf_text_time *when)
{
	if (when->has_ts || t->opts.json)
		put_times(t, o, when);
	if (when->has_ts)
		rut_ctf_text_set_last(t, when->ts_ns, when->ts_clock);
}

static void rest_half(struct rut_ctf_text *t, struct rut_text_out *o,
		      const struct rut_ctf_event *ev)
{
	size_t skip = 0;

	if (!ev->has_ts && !t->opts.json)
		skip = t->opts.names & RUT_CTF_NAME_HEADER ? 2 : 1; /* the separator */
	for (const struct op *op = t->lines[ev->cls->index].ops;; op++, skip = 0) {
		rut_text_need(o, op->lit_len + 3 * RUT_TEXT_CHUNK);
		rut_text_put_padded(o, op->lit + skip, op->lit_len - skip);
		if (op->kind == OP_END)
			break;
		put_op(t, o, op, ev);
	}
}

void rut_ctf_text_time(struct rut_ctf_text *t, const struct rut_ctf_text_time *when,
		       struct rut_buf *out)
{
	struct rut_text_out o;

	if (!begin_out(&o, out))
		return;
	time_half(t, &o, when);
	out->len = (size_t)(o.p - out->data);
}

void rut_ctf_text_rest(struct rut_ctf_text *t, const struct rut_ctf_event *ev, struct rut_buf *out)
{
	struct rut_text_out o;

	if (!begin_out(&o, out))
		return;
	rest_half(t, &o, ev);
	out->len = (size_t)(o.p - out->data);
}

void rut_ctf_text_event(struct rut_ctf_text *t, const struct rut_ctf_event *ev, struct rut_buf *out)
{
	struct rut_ctf_text_time when = {ev->has_ts, ev->cpu, ev->ts_ns, ev->ts_clock};
	struct rut_text_out o;

	if (!begin_out(&o, out))
		return;
	time_half(t, &o, &when);
	rest_half(t, &o, ev);
	out->len = (size_t)(o.p - out->data);
}
