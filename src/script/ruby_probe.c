/* SPDX-License-Identifier: MIT */
#include "script/ruby_probe.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "script/probes.h"
#include "script/source.h"
#include "script/user.h"

/* Arguments of a hit (agent/hit.h). */
enum { HIT_SESSION, HIT_TEXTS, HIT_DURATION, HIT_LINE };

/* The texts by the names that they have in scripts, how many bytes are kept, which events have
 * them. */
static const struct text {
	const char *name;
	char kind;
	uint32_t size;
	const char *events; /* RUT_HIT_* */
	const char *whose;  /* for a message */
} texts[] = {
	{"method", RUT_HIT_METHOD, 64, "crkKbesS", "methods, requests and spans"},
	{"class", RUT_HIT_CLASS, 128, "crkKbesSxo",
	 "methods, exceptions, allocations, requests and spans"},
	{"path", RUT_HIT_PATH, RUT_HIT_TEXT_BYTES, "crkKbesSxo",
	 "methods, exceptions, allocations, requests and spans"},
	{"retval", RUT_HIT_VALUE, 128, "rK", "returns"},
};

/* args.NAME of other events than calls. */
static const struct fact {
	const char *name;
	char kind;
	const char *events;
} facts[] = {
	{"message", RUT_HIT_MESSAGE, "x"},
	{"bytes", RUT_HIT_BYTES, "oe"},
	{"count", RUT_HIT_COUNT, "gGpP"},
	{"live", RUT_HIT_LIVE, "gGpP"},
	{"reason", RUT_HIT_REASON, "gGpP"},
	{"major", RUT_HIT_MAJOR, "gGpP"},
	{"tid", RUT_HIT_THREAD, "whl"},
	{"id", RUT_HIT_ID, "be"},
	{"name", RUT_HIT_NAME, "be"},
	{"kind", RUT_HIT_KIND, "be"},
	{"verb", RUT_HIT_VERB, "be"},
	{"path", RUT_HIT_URL, "be"},
	{"route", RUT_HIT_ROUTE, "be"},
	{"status", RUT_HIT_STATUS, "e"},
	{"error", RUT_HIT_ERROR, "eS"},
	{"traceparent", RUT_HIT_TRACEPARENT, "be"},
	{"request_id", RUT_HIT_REQUEST_ID, "be"},
	{"layer", RUT_HIT_KIND, "sS"},
	{"detail", RUT_HIT_DETAIL, "sS"},
	{"caller", RUT_HIT_CALLER, "sS"},
};

/* The events by their names; those of the first ones a class may follow. */
static const struct event {
	const char *name;
	char event;
	bool has_class;
} events[] = {
	{"raise", RUT_HIT_RAISE, true},
	{"alloc", RUT_HIT_ALLOC, true},
	{"gc:start", RUT_HIT_GC_START, false},
	{"gc:end", RUT_HIT_GC_END, false},
	{"gc:enter", RUT_HIT_GC_ENTER, false},
	{"gc:exit", RUT_HIT_GC_EXIT, false},
	{"gvl:wait", RUT_HIT_GVL_WAIT, false},
	{"gvl:have", RUT_HIT_GVL_HAVE, false},
	{"gvl:release", RUT_HIT_GVL_RELEASE, false},
	{"request:begin", RUT_HIT_REQUEST_BEGIN, false},
	{"request:end", RUT_HIT_REQUEST_END, false},
	{"span:begin", RUT_HIT_SPAN_BEGIN, false},
	{"span:end", RUT_HIT_SPAN_END, false},
};

/* Ends of something that took time. */
static const char TIMED[] = {RUT_HIT_RETURN,	  RUT_HIT_C_RETURN, RUT_HIT_GC_END,
			     RUT_HIT_GC_EXIT,	  RUT_HIT_GVL_HAVE, RUT_HIT_GVL_RELEASE,
			     RUT_HIT_REQUEST_END, RUT_HIT_SPAN_END, 0};

enum { ARG_BYTES = 128, CLASS_BYTES = 128 };

static bool is_c(char event)
{
	return event == RUT_HIT_C_CALL || event == RUT_HIT_C_RETURN;
}

bool rut_ruby_is_method(char event)
{
	return event == RUT_HIT_CALL || event == RUT_HIT_RETURN;
}

/* ---- names ---- */

static bool ends_in(const char *s, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len > n && !memcmp(s + len - n, end, n);
}

/* A single ':' belongs to no name of a method or class. */
static bool has_lone_colon(const char *s)
{
	for (; (s = strchr(s, ':')); s += 2)
		if (s[1] != ':')
			return true;
	return false;
}

/* raise, alloc:Order*, gc:start ...; false: it is no name of these. */
static bool event_name(struct rut_ruby_probe_ctx *x, const char *name)
{
	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
		const struct event *e = &events[i];
		size_t len = strlen(e->name);

		if (strncmp(name, e->name, len) != 0 ||
		    (name[len] &&
		     !(e->has_class && name[len] == ':' && name[len + 1] && name[len + 1] != ':')))
			continue;
		x->event = e->event;
		x->pattern = name[len] ? name + len + 1 : "";
		return true;
	}
	return false;
}

static void hint_events(struct rut_resolve *r, const char *name)
{
	struct rut_nearest near = {name, strlen(name), "", 0};

	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++)
		rut_nearest_add(&near, events[i].name);
	if (near.name[0])
		rut_source_hint(&r->prog->src, "did you mean ruby:%s?", near.name);
	else
		rut_source_hint(&r->prog->src,
				"ruby:Order#total, ruby:Order.find, ruby:Order#*, ruby:total, each "
				"also with :return behind it; ruby:raise, ruby:alloc:Order, "
				"ruby:gc:start, ruby:gvl:wait, ruby:request:end, ruby:span:end");
}

static int method_name(struct rut_resolve *r, struct rut_ruby_probe_ctx *x, const char *name)
{
	size_t len = strlen(name);
	bool returns = ends_in(name, len, ":return"), c = !strncmp(name, "c:", 2) && name[2] != ':';
	char *copy = rut_arena_strndup(&r->prog->ast.arena, name + (c ? 2 : 0),
				       len - (returns ? strlen(":return") : 0) - (c ? 2 : 0));

	if (!copy)
		return -ENOMEM;
	x->event = returns ? RUT_HIT_RETURN : RUT_HIT_CALL;
	if (c)
		x->event = returns ? RUT_HIT_C_RETURN : RUT_HIT_C_CALL;
	x->pattern = copy;
	if (!copy[0] || has_lone_colon(copy) || strchr(copy, RUT_WATCH_US) || copy[0] == '!') {
		rut_probe_error(r, "'%s' is not a Ruby method", copy);
		hint_events(r, copy);
		return -EINVAL;
	}
	return 0;
}

int rut_ruby_choose_session(struct rut_script_program *p)
{
	return !p->ruby_session && getrandom(&p->ruby_session, sizeof(p->ruby_session),
					     GRND_NONBLOCK) < 0
		       ? -errno
		       : 0;
}

static int add_probe(struct rut_resolve *r, struct rut_ruby_probe_ctx *x)
{
	struct rut_script_program *p = r->prog;
	struct rut_script_attach a = {.name = r->spec->text, .config = p->nruby_probes};
	int rc;

	if (p->nruby_probes == RUT_HIT_PROBES)
		return rut_probe_error(r, "a script has at most %d probes of Ruby", RUT_HIT_PROBES);
	rc = rut_ruby_choose_session(p);
	if (!rc)
		rc = rut_probe_add(r, a, NULL, false);
	if (rc)
		return rc;
	r->ctxs[r->n - 1].ruby = x;
	p->ruby_probes[p->nruby_probes++] = x;
	return 0;
}

int rut_resolve_ruby(struct rut_resolve *r)
{
	struct rut_arena *a = &r->prog->ast.arena;
	struct rut_ruby_probe_ctx *x = rut_arena_alloc(a, sizeof(*x));
	const char *colon = strchr(r->spec->text, ':');
	int rc;

	if (!x)
		return -ENOMEM;
	*x = (struct rut_ruby_probe_ctx){.spec = r->spec,
					 .record = rut_type_new(a, RUT_T_STRUCT, 0, 8)};
	if (!x->record)
		return -ENOMEM;
	x->record->name = "args";
	if (!r->prog->opts.pid && !r->prog->opts.ntargets && !r->prog->opts.session)
		return rut_probe_error(r, "a probe of Ruby needs processes: -p PID, -p with a name "
					  "that 'rutile ps' shows, or -c COMMAND");
	rc = event_name(x, colon ? colon + 1 : "") ? 0 : method_name(r, x, colon ? colon + 1 : "");
	return rc ? rc : add_probe(r, x);
}

bool rut_ruby_is_request(char event)
{
	return event == RUT_HIT_REQUEST_BEGIN || event == RUT_HIT_REQUEST_END ||
	       event == RUT_HIT_SPAN_BEGIN || event == RUT_HIT_SPAN_END;
}

int rut_ruby_wants_requests(struct rut_checker *c, const struct rut_node *n)
{
	struct rut_script_program *p = c->prog;
	const char *why = NULL;

	/* A session is told when it is started. */
	if (!p->opts.pid && !p->opts.ntargets && !p->opts.child && !p->opts.session)
		why = "requests are known of processes: -p PID, -p with a name that 'rutile ps' "
		      "shows, or -c COMMAND";
	else if (p->nruby_probes == RUT_HIT_PROBES)
		why = "requests are one probe more, and a script has at most 64 of Ruby";
	else if (rut_ruby_choose_session(p))
		why = "no random numbers";
	if (why) {
		rut_check_error(c, n, "%s", why);
		return -EINVAL;
	}
	p->needs_requests = true;
	p->requests_span = n->span;
	return 0;
}

/* ---- texts ---- */

/* The field of the record that has this text. */
static const struct rut_type_field *field_of(struct rut_checker *c, const struct rut_node *n,
					     char kind, const char *name,
					     const struct rut_type *type)
{
	struct rut_ruby_probe_ctx *x = c->ctx->ruby;
	struct rut_type_field *f;
	char wish[160];
	uint32_t i = 0;

	snprintf(wish, sizeof(wish), "%c%s", kind, name);
	while (i < x->nwishes && strcmp(x->wishes[i], wish) != 0)
		i++;
	f = rut_arena_alloc(c->arena, sizeof(*f));
	if (!f)
		return NULL;
	if (i == RUT_HIT_TEXTS) {
		rut_check_error(c, n, "a probe can ask for %d texts of a call", RUT_HIT_TEXTS);
		return NULL;
	}
	if (i == x->nwishes) {
		x->wishes[i] = rut_arena_strndup(c->arena, wish, strlen(wish));
		if (!x->wishes[i])
			return NULL;
		x->nwishes++;
	}
	*f = (struct rut_type_field){.name = name, .type = type, .offset = i * RUT_HIT_TEXT_BYTES};
	return f;
}

bool rut_is_ruby_record(const struct rut_probe_ctx *ctx, const struct rut_node *n)
{
	return ctx->ruby && n->kind == RUT_N_NAME &&
	       (!strcmp(n->text, "args") || !strcmp(n->text, "self"));
}

/* args.NAME of an event that is no call. */
static const struct rut_type_field *fact_of(struct rut_checker *c, struct rut_node *n)
{
	char event = c->ctx->ruby->event;
	struct rut_nearest near = {n->text, strlen(n->text), "", 0};
	bool any = false;

	for (size_t i = 0; i < sizeof(facts) / sizeof(*facts); i++) {
		const struct fact *f = &facts[i];

		if (!strchr(f->events, event))
			continue;
		any = true;
		rut_nearest_add(&near, f->name);
		if (!strcmp(f->name, n->text))
			return field_of(c, n, f->kind, "",
					strchr(RUT_HIT_NUMBERS, f->kind)
						? rut_type_int(8, false)
						: rut_type_string(c->arena, RUT_HIT_TEXT_BYTES));
	}
	rut_check_error(c, n, any ? "this probe has no args.%s" : "this probe has no arguments",
			n->text);
	if (c->loud && near.name[0])
		rut_source_hint(c->src, "did you mean args.%s?", near.name);
	return NULL;
}

const struct rut_type *rut_check_ruby_field(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type_field *f;
	bool self = !strcmp(n->a->text, "self"), method = rut_ruby_is_method(c->ctx->ruby->event);
	char number[24];

	if (!method && n->kind == RUT_N_INDEX)
		return rut_check_error(c, n,
				       "only probes of methods written in Ruby have numbered "
				       "arguments");
	if (!method && self && !is_c(c->ctx->ruby->event))
		return rut_check_error(c, n, "only probes of methods have self");

	if (n->kind == RUT_N_INDEX && (self || n->b->kind != RUT_N_INT || n->b->value >= 100))
		return rut_check_error(c, n->b,
				       "an argument has a number, from 0, or a name: "
				       "args[0], args.id");
	if (n->kind == RUT_N_INDEX) {
		snprintf(number, sizeof(number), "%u", (unsigned)n->b->value + 1);
		n->kind = RUT_N_FIELD;
		n->text = rut_arena_strndup(c->arena, number, strlen(number));
		n->label = "number";
	}
	if (!n->text)
		return rut_check_error(c, n, "a name is expected: args.id");
	if (self && strcmp(n->text, "class") != 0) {
		rut_check_error(c, n, "of self only its class is known, not '%s'", n->text);
		return NULL;
	}
	f = !method && !self ? fact_of(c, n)
			     : field_of(c, n,
					self	   ? RUT_HIT_SELF_CLASS
					: n->label ? RUT_HIT_POSITION
						   : RUT_HIT_ARG,
					self ? "" : n->text,
					rut_type_string(c->arena, self ? CLASS_BYTES : ARG_BYTES));
	n->a->type = c->ctx->ruby->record;
	n->what = f;
	return f ? f->type : NULL;
}

/* A number of the hit: of the record that a replaying program is at, or an argument of the site. */
static rut_vreg hit_number(struct rut_gen *g, int arg, size_t offset)
{
	const struct rut_node here = {.span = g->ctx->spec->span};
	struct rut_gen_mark mark = rut_gen_mark(g);
	struct rut_mem room;
	rut_vreg ret;

	if (!g->hit)
		return rut_gen_call_arg(g, arg);
	room = rut_gen_room(g, &here, 8);
	rut_gen_read(g, &here, room, (struct rut_mem){g->hit, (int32_t)offset, RUT_SPACE_USER}, 8);
	ret = rut_ir_load(&g->ir, 8, room.base, room.off);
	rut_gen_release(g, mark);
	return ret;
}

struct rut_mem rut_gen_ruby_record(struct rut_gen *g)
{
	if (g->hit)
		return (struct rut_mem){g->hit, sizeof(struct rut_ruby_hit), RUT_SPACE_USER};
	return (struct rut_mem){rut_gen_call_arg(g, HIT_TEXTS), 0, RUT_SPACE_USER};
}

rut_vreg rut_gen_ruby_time(struct rut_gen *g, bool boot)
{
	return hit_number(g, 0,
			  boot ? offsetof(struct rut_ruby_hit, boot_ns)
			       : offsetof(struct rut_ruby_hit, mono_ns));
}

rut_vreg rut_gen_ruby_id(struct rut_gen *g, bool pid)
{
	return hit_number(g, 0,
			  pid ? offsetof(struct rut_ruby_hit, pid)
			      : offsetof(struct rut_ruby_hit, tid));
}

bool rut_check_ruby_comm(struct rut_checker *c, struct rut_node *n)
{
	return field_of(c, n, RUT_HIT_COMM, "", NULL) != NULL;
}

/* Where the text of this kind without a name is. */
static struct rut_mem text_of(struct rut_gen *g, char kind)
{
	const struct rut_ruby_probe_ctx *x = g->ctx->ruby;
	struct rut_mem from = rut_gen_ruby_record(g);

	for (uint32_t i = 0; i < x->nwishes; i++)
		if (x->wishes[i][0] == kind && !x->wishes[i][1])
			from.off += (int32_t)(i * RUT_HIT_TEXT_BYTES);
	return from;
}

void rut_gen_ruby_comm(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	rut_gen_read_text(g, n, to, RUT_HIT_COMM_BYTES,
			  rut_gen_pointer(g, text_of(g, RUT_HIT_COMM)), RUT_SPACE_USER);
}

static const struct text *find_text(const char *name)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (!strcmp(texts[i].name, name))
			return &texts[i];
	return NULL;
}

const struct rut_type *rut_check_ruby_text(struct rut_checker *c, struct rut_node *n)
{
	const struct text *t = find_text(n->text);
	const struct rut_type_field *f;

	if (!c->ctx->ruby)
		return rut_check_error(c, n, "only probes of Ruby have '%s'", n->text);
	if (!strchr(t->events, c->ctx->ruby->event))
		return rut_check_error(c, n, "only probes of %s have %s", t->whose, n->text);
	f = field_of(c, n, t->kind, "", rut_type_string(c->arena, t->size));
	return f ? f->type : NULL;
}

void rut_gen_ruby_text(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	struct rut_mem from = text_of(g, find_text(n->text)->kind);

	rut_gen_read_text(g, n, to, n->type->size, rut_gen_pointer(g, from), RUT_SPACE_USER);
}

/* ---- numbers ---- */

const struct rut_type *rut_check_ruby_line(struct rut_checker *c, struct rut_node *n)
{
	if (!c->ctx->ruby)
		return rut_check_error(c, n, "only probes of Ruby have 'line'");
	if (!strchr("crkKbesSxo", c->ctx->ruby->event))
		return rut_check_error(c, n, "this probe has no line: rline is the thread's");
	return rut_type_int(8, false);
}

rut_vreg rut_gen_ruby_line(struct rut_gen *g, struct rut_node *n)
{
	(void)n;
	return hit_number(g, HIT_LINE, offsetof(struct rut_ruby_hit, line));
}

const struct rut_type *rut_check_ruby_self(struct rut_checker *c, struct rut_node *n)
{
	return rut_check_error(c, n,
			       c->ctx->ruby ? "self is not a value: self.class is"
					    : "only probes of Ruby have 'self'");
}

const struct rut_type *rut_check_ruby_elapsed(struct rut_checker *c, struct rut_node *n)
{
	if (!strchr(TIMED, c->ctx->ruby->event))
		return rut_check_error(
			c, n,
			"only probes of returns and ends have elapsed: ruby:...:return, "
			"ruby:request:end; the time is nsecs");
	return rut_type_int(8, false);
}

rut_vreg rut_gen_ruby_elapsed(struct rut_gen *g)
{
	return hit_number(g, HIT_DURATION, offsetof(struct rut_ruby_hit, duration_ns));
}

void rut_gen_ruby_filter(struct rut_gen *g)
{
	uint32_t go = rut_ir_label(&g->ir);
	rut_vreg ours = rut_ir_const(&g->ir, (int64_t)g->prog->ruby_session);

	rut_ir_branch(&g->ir, BPF_JEQ, rut_gen_call_arg(g, HIT_SESSION), ours, go);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_EXIT});
	rut_ir_place(&g->ir, go);
}
