/* SPDX-License-Identifier: MIT */
#include "script/ruby_probe.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "script/probes.h"
#include "script/user.h"

/* Arguments of a hit (agent/hit.h). */
enum { HIT_SESSION, HIT_TEXTS, HIT_DURATION, HIT_LINE };

/* The texts by the names that they have in scripts, and how many bytes are kept of them. */
static const struct text {
	const char *name;
	char kind;
	uint32_t size;
	bool returns; /* at returns only */
} texts[] = {
	{"method", RUT_HIT_METHOD, 64, false},
	{"class", RUT_HIT_CLASS, 128, false},
	{"path", RUT_HIT_PATH, RUT_HIT_TEXT_BYTES, false},
	{"retval", RUT_HIT_VALUE, 128, true},
};

enum { ARG_BYTES = 128, CLASS_BYTES = 128 };

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

static int method_name(struct rut_resolve *r, struct rut_ruby_probe_ctx *x, const char *name)
{
	size_t len = strlen(name);
	bool returns = ends_in(name, len, ":return");
	char *copy = rut_arena_strndup(&r->prog->ast.arena, name,
				       returns ? len - strlen(":return") : len);

	if (!copy)
		return -ENOMEM;
	x->event = returns ? RUT_HIT_RETURN : RUT_HIT_CALL;
	x->pattern = copy;
	if (!copy[0] || has_lone_colon(copy) || strchr(copy, RUT_WATCH_US) || copy[0] == '!') {
		rut_probe_error(r, "'%s' is not a Ruby method", copy);
		rut_source_hint(&r->prog->src,
				"ruby:Order#total, ruby:Order.find, ruby:Order#*, ruby:total, each "
				"also with :return behind it");
		return -EINVAL;
	}
	return 0;
}

static int add_probe(struct rut_resolve *r, struct rut_ruby_probe_ctx *x)
{
	struct rut_script_program *p = r->prog;
	struct rut_script_attach a = {.name = r->spec->text, .config = p->nruby_probes};
	int rc;

	if (p->nruby_probes == RUT_HIT_PROBES)
		return rut_probe_error(r, "a script has at most %d probes of Ruby", RUT_HIT_PROBES);
	if (!p->ruby_session &&
	    getrandom(&p->ruby_session, sizeof(p->ruby_session), GRND_NONBLOCK) < 0)
		return -errno;
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
	if (r->prog->opts.session) {
		rut_probe_error(r, "a session has no probes of Ruby methods");
		rut_source_hint(&r->prog->src, "use 'rutile run' for this script; 'rutile record "
					       "--ruby' has calls in a session");
		return -EINVAL;
	}
	if (r->prog->opts.child)
		return rut_probe_error(r, "a probe of Ruby is not there with -c: start the command "
					  "first, and name it with -p");
	if (!r->prog->opts.pid && !r->prog->opts.ntargets)
		return rut_probe_error(r, "a probe of Ruby needs processes: -p PID, or -p with a "
					  "name that 'rutile ps' shows");
	rc = method_name(r, x, colon ? colon + 1 : "");
	return rc ? rc : add_probe(r, x);
}

/* ---- texts ---- */

/* The field of the record that has this text. */
static const struct rut_type_field *field_of(struct rut_checker *c, const struct rut_node *n,
					     char kind, const char *name, uint32_t size)
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
	*f = (struct rut_type_field){.name = name,
				     .type = rut_type_string(c->arena, size),
				     .offset = i * RUT_HIT_TEXT_BYTES};
	return f;
}

bool rut_is_ruby_record(const struct rut_probe_ctx *ctx, const struct rut_node *n)
{
	return ctx->ruby && n->kind == RUT_N_NAME &&
	       (!strcmp(n->text, "args") || !strcmp(n->text, "self"));
}

const struct rut_type *rut_check_ruby_field(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type_field *f;
	bool self = !strcmp(n->a->text, "self");
	char number[24];

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
	f = field_of(c, n,
		     self	? RUT_HIT_SELF_CLASS
		     : n->label ? RUT_HIT_POSITION
				: RUT_HIT_ARG,
		     self ? "" : n->text, self ? CLASS_BYTES : ARG_BYTES);
	n->a->type = c->ctx->ruby->record;
	n->what = f;
	return f ? f->type : NULL;
}

struct rut_mem rut_gen_ruby_record(struct rut_gen *g)
{
	return (struct rut_mem){rut_gen_call_arg(g, HIT_TEXTS), 0, RUT_SPACE_USER};
}

static const struct text *find_text(const char *name)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (!strcmp(texts[i].name, name))
			return &texts[i];
	return NULL;
}

static bool is_return(const struct rut_checker *c)
{
	return c->ctx->ruby->event == RUT_HIT_RETURN;
}

const struct rut_type *rut_check_ruby_text(struct rut_checker *c, struct rut_node *n)
{
	const struct text *t = find_text(n->text);
	const struct rut_type_field *f;

	if (!c->ctx->ruby)
		return rut_check_error(c, n, "only probes of Ruby have '%s'", n->text);
	if (t->returns && !is_return(c))
		return rut_check_error(c, n, "only probes of returns have %s", n->text);
	f = field_of(c, n, t->kind, "", t->size);
	return f ? f->type : NULL;
}

void rut_gen_ruby_text(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	const struct rut_ruby_probe_ctx *x = g->ctx->ruby;
	struct rut_mem from = rut_gen_ruby_record(g);
	const char kind = find_text(n->text)->kind;

	for (uint32_t i = 0; i < x->nwishes; i++)
		if (x->wishes[i][0] == kind && !x->wishes[i][1])
			from.off = (int32_t)(i * RUT_HIT_TEXT_BYTES);
	rut_gen_read_text(g, n, to, n->type->size, rut_gen_pointer(g, from), RUT_SPACE_USER);
}

/* ---- numbers ---- */

const struct rut_type *rut_check_ruby_line(struct rut_checker *c, struct rut_node *n)
{
	if (!c->ctx->ruby)
		return rut_check_error(c, n, "only probes of Ruby have 'line'");
	return rut_type_int(8, false);
}

rut_vreg rut_gen_ruby_line(struct rut_gen *g, struct rut_node *n)
{
	(void)n;
	return rut_gen_call_arg(g, HIT_LINE);
}

const struct rut_type *rut_check_ruby_self(struct rut_checker *c, struct rut_node *n)
{
	return rut_check_error(c, n,
			       c->ctx->ruby ? "self is not a value: self.class is"
					    : "only probes of Ruby have 'self'");
}

const struct rut_type *rut_check_ruby_elapsed(struct rut_checker *c, struct rut_node *n)
{
	if (!is_return(c))
		return rut_check_error(
			c, n,
			"only probes of returns have elapsed: ruby:...:return; the time is "
			"nsecs");
	return rut_type_int(8, false);
}

rut_vreg rut_gen_ruby_elapsed(struct rut_gen *g)
{
	return rut_gen_call_arg(g, HIT_DURATION);
}

void rut_gen_ruby_filter(struct rut_gen *g)
{
	uint32_t go = rut_ir_label(&g->ir);
	rut_vreg ours = rut_ir_const(&g->ir, (int64_t)g->prog->ruby_session);

	rut_ir_branch(&g->ir, BPF_JEQ, rut_gen_call_arg(g, HIT_SESSION), ours, go);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_EXIT});
	rut_ir_place(&g->ir, go);
}
