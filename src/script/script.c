/* SPDX-License-Identifier: MIT */
/* All passes of the compiler. */
#include "script/script.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "script/btf.h"
#include "script/config.h"
#include "script/defer.h"
#include "script/format.h"
#include "script/gen.h"
#include "script/kernel_has.h"
#include "script/macro.h"
#include "script/ruby.h"
#include "script/ruby_probe.h"

enum { PASSES_MAX = 12, PROGS_MAX = 20000 };

/* Of a record, beside its values: the ring's header, its own, and what aligns it. */
enum { RECORD_BYTES = 8 + sizeof(struct rut_script_event) + 8 };

int64_t rut_program_ncpus(void)
{
	return libbpf_num_possible_cpus();
}

/* The calls of macros that errorf() or warnf() is in, as its message shows them. */
static const char *calls_of_macros(struct rut_script_program *p, const struct rut_script_action *a,
				   const struct rut_node *n)
{
	struct rut_source s = p->src;
	const char *text = NULL;

	if (!n->from || (a->kind != RUT_ACTION_ERRORF && a->kind != RUT_ACTION_WARNF))
		return NULL;
	s.messages = (struct rut_buf)RUT_BUF_INIT;
	s.as_bpftrace = true; /* as the message itself */
	for (const struct rut_expanded *e = n->from; e; e = e->outer)
		if (a->kind == RUT_ACTION_WARNF)
			rut_source_warn(&s, e->span, "expanded from");
		else
			rut_source_note(&s, e->span, "expanded from");
	if (s.messages.len)
		text = rut_arena_strndup(&p->ast.arena, s.messages.data, s.messages.len);
	rut_buf_fini(&s.messages);
	return text;
}

int rut_program_action(struct rut_script_program *p, const struct rut_script_action *a,
		       const struct rut_node *n)
{
	struct rut_script_action *actions =
		realloc(p->actions, (p->nactions + 1) * sizeof(*actions));
	struct rut_script_action *x;

	if (!actions)
		return 0;
	p->actions = actions;
	x = &actions[p->nactions];
	*x = *a;
	rut_source_where(&p->src, n->span.pos, &x->line, &x->column);
	x->source = rut_source_name(&p->src, n->span.pos);
	x->end_column = x->column + n->span.len;
	x->pos = n->span.pos;
	x->expanded = calls_of_macros(p, a, n);
	return (int)p->nactions++;
}

uint32_t rut_program_site(struct rut_script_program *p, enum rut_site_kind kind,
			  struct rut_span span)
{
	struct rut_script_site *sites;

	for (size_t i = 0; i < p->nsites; i++)
		if (p->sites[i].kind == kind && p->sites[i].span.pos == span.pos)
			return (uint32_t)i;
	sites = realloc(p->sites, (p->nsites + 1) * sizeof(*sites));
	if (!sites)
		return 0;
	p->sites = sites;
	sites[p->nsites] = (struct rut_script_site){kind, span};
	return (uint32_t)p->nsites++;
}

uint32_t rut_program_string(struct rut_script_program *p, const char *s)
{
	const char **strings = realloc(p->strings, (p->nstrings + 1) * sizeof(*strings));

	if (!strings)
		return 0;
	p->strings = strings;
	strings[p->nstrings] = s;
	return (uint32_t)p->nstrings++;
}

void rut_program_option(struct rut_script_program *p, const char *name, const char *about)
{
	struct rut_script_option *o;

	for (o = p->options; o; o = o->next)
		if (!strcmp(o->name, name))
			return;
	o = rut_arena_alloc(&p->ast.arena, sizeof(*o));
	if (!o)
		return;
	o->name = name;
	o->about = about;
	o->next = p->options;
	p->options = o;
}

/* Those that there are, in a line; with what the script says of them, each in one. */
static void hint_options(struct rut_script_program *p)
{
	_cleanup_buf_ struct rut_buf list = RUT_BUF_INIT;
	bool any = false;

	for (const struct rut_script_option *o = p->options; o; o = o->next)
		any |= o->about != NULL;
	for (const struct rut_script_option *o = p->options; o; o = o->next)
		rut_buf_printf(&list, "%s--%s%s%s", any ? "\n" : " ", o->name, o->about ? ": " : "",
			       o->about ? o->about : "");
	if (list.len)
		rut_source_hint(&p->src,
				p->src.as_bpftrace ? "expected program options:%s"
						   : "its options are:%s",
				list.data);
}

/* An option that no getopt() asks for is a mistake. */
static int check_options(struct rut_script_program *p)
{
	for (size_t i = 0; i < p->opts.nnamed; i++) {
		const char *given = p->opts.named[i];
		struct rut_nearest near = {given, strcspn(given, "="), "", 0};
		const struct rut_script_option *o;

		for (o = p->options; o; o = o->next) {
			if (strlen(o->name) == near.wanted_len &&
			    !strncmp(o->name, given, near.wanted_len))
				break;
			rut_nearest_add(&near, o->name);
		}
		if (o)
			continue;
		rut_buf_printf(&p->src.messages,
			       p->src.as_bpftrace
				       ? "%.0sERROR: unexpected program command line options: "
					 "--%.*s\n"
				       : "%s: error: the script has no option '--%.*s'\n",
			       p->src.name, (int)near.wanted_len, given);
		if (near.name[0])
			rut_source_hint(&p->src, "did you mean '--%s'?", near.name);
		else
			hint_options(p);
		p->src.errors++;
		return -EINVAL;
	}
	return 0;
}

struct compilation {
	struct rut_script_program *p;
	struct rut_checker c;
	struct rut_resolved *list; /* owned: what each name of each probe resolves to */
	size_t n;
	regex_t *filter; /* borrowed; NULL: there is none */
};

/* Leaves out the probes that --probe-filter does not want. */
static size_t filter_probes(struct compilation *x, struct rut_probe_ctx *ctxs, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; x->filter && i < n; i++) {
		struct rut_probe_ctx *c = &ctxs[i];
		size_t attached = 0;

		for (size_t k = 0; k < c->nattach; k++)
			if (c->kind == RUT_PROBE_BEGIN || c->kind == RUT_PROBE_END ||
			    !regexec(x->filter, c->attach[k].name, 0, NULL, 0))
				c->attach[attached++] = c->attach[k];
		c->nattach = attached;
		if (attached)
			ctxs[kept++] = *c;
	}
	return x->filter ? kept : n;
}

/* Without probes of the machine there would be nothing to wait for. */
static bool only_begins(const struct compilation *x)
{
	for (size_t i = 0; i < x->n; i++)
		if (x->list[i].ctx->kind != RUT_PROBE_BEGIN &&
		    x->list[i].ctx->kind != RUT_PROBE_END)
			return false;
	return true;
}

static int open_filter(struct compilation *x, regex_t *filter, struct rut_err *err)
{
	const char *text = x->p->opts.probe_filter;

	if (!text)
		return 0;
	if (regcomp(filter, text, REG_EXTENDED | REG_NOSUB))
		return rut_err_set(err, EINVAL, "Invalid --probe-filter regex: '%s'", text);
	x->filter = filter;
	return 0;
}

static int resolve_all(struct compilation *x)
{
	int rc = 0;

	for (struct rut_probe *probe = x->p->ast.probes; probe; probe = probe->next) {
		bool split = rut_probe_needs_event(probe);

		for (struct rut_probe_spec *s = probe->specs; s; s = s->next) {
			struct rut_probe_ctx *ctxs = NULL;
			struct rut_resolved *list;
			size_t n = 0;
			int failed = rut_probe_resolve(x->p, s, split, &ctxs, &n);

			rc = rc ? rc : failed;
			if (x->n + n > PROGS_MAX)
				return rut_source_error(&x->p->src, s->span,
							"the script has more than %d programs",
							PROGS_MAX);
			n = filter_probes(x, ctxs, n);
			list = realloc(x->list, (x->n + n + 1) * sizeof(*list));
			if (!list)
				return -ENOMEM;
			x->list = list;
			for (size_t i = 0; i < n; i++)
				list[x->n++] = (struct rut_resolved){probe, &ctxs[i]};
		}
	}
	return rc;
}

/* A script has something to run. */
static int check_probes(struct compilation *x, struct rut_err *err)
{
	if (x->filter && only_begins(x))
		return rut_err_set(err, ENOENT, "No probes to attach: none matches the filter '%s'",
				   x->p->opts.probe_filter);
	if (!x->n && x->p->ast.probes && x->p->opts.mode == RUT_SCRIPT_TRACE)
		return rut_err_set(err, ENOENT,
				   "No probes to attach: the script names none that "
				   "exists");
	return 0;
}

static void check_one(struct compilation *x, size_t i)
{
	x->c.ctx = x->list[i].ctx;
	/* Variables have types of their own for each event that a name matches. */
	x->c.epoch = (unsigned)i + 1;
	rut_check_probe(&x->c, x->list[i].probe);
}

/* let @x = hash(10); without a use. */
static void warn_unused(struct rut_script_program *p)
{
	for (const struct rut_map_decl *d = p->ast.map_decls; d; d = d->next) {
		bool used = false;

		for (size_t i = 0; i < p->nmaps; i++)
			used |= !strcmp(p->maps[i].name, d->name);
		if (!used)
			rut_source_warn(&p->src, d->span,
					p->src.as_bpftrace ? "Unused map: %s"
							   : "the map %s is not used",
					d->name);
	}
}

static void check_all(struct compilation *x)
{
	for (int pass = 0; pass < PASSES_MAX; pass++) {
		x->c.learnt = 0;
		for (size_t i = 0; i < x->n; i++)
			check_one(x, i);
		if (!x->c.learnt)
			break;
	}
}

/* let @x = lruhash(100); */
static void declared_size(const struct rut_script_program *p, struct rut_script_map *m)
{
	for (const struct rut_map_decl *d = p->ast.map_decls; d; d = d->next) {
		if (strcmp(d->name, m->name) != 0 || !m->key)
			continue;
		m->max_entries = (uint32_t)d->count;
		m->is_lru = strstr(d->type, "lru") != NULL;
	}
}

static void finish_maps(struct rut_script_program *p)
{
	for (size_t i = 0; i < p->nmaps; i++) {
		struct rut_script_map *m = &p->maps[i];

		m->is_array = !m->key;
		m->per_cpu = m->value && rut_type_is_agg(m->value);
		m->max_entries = m->key ? p->set.max_map_keys : 1;
		declared_size(p, m);
		m->key_bytes = m->key ? m->key->size : 4;
		m->value_bytes = m->value ? (m->value->size + 7) & ~7u : 8;
		if (m->is_array) {
			m->set_at = m->value_bytes;
			m->value_bytes += 8;
		}
	}
}

/* Programs that are run for hits that the agent has written down. */
static int generate_replay(struct compilation *x, size_t i, struct rut_err *err)
{
	struct rut_probe_ctx ctx = *x->list[i].ctx;

	struct rut_probe_ctx *own = x->list[i].ctx;
	size_t first = x->p->nactions;

	if (!rut_script_kernel_has("bpf_loop"))
		return 0;
	ctx.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT;
	ctx.replay = true;
	ctx.ruby->deferred = true;
	ctx.ruby->local = rut_script_is_local(x->list[i].probe);
	/* Its variables have no places yet in this program. */
	x->list[i].ctx = &ctx;
	check_one(x, i);
	x->list[i].ctx = own;
	for (size_t a = first; a < x->p->nactions; a++) {
		const struct rut_type *args = x->p->actions[a].args;

		x->p->actions[a].replay = true;
		ctx.ruby->sends_bytes += RECORD_BYTES + (args ? args->size : 0);
	}
	return rut_gen_probe(x->p, &ctx, x->list[i].probe, x->c.syms, err);
}

static int generate_all(struct compilation *x, struct rut_err *err)
{
	int rc = 0;

	x->c.loud = true;
	for (size_t i = 0; i < x->n && x->p->src.errors < RUT_SOURCE_ERRORS_MAX; i++) {
		int one;

		x->c.failed = false;
		check_one(x, i);
		/* Names that match many events would say the same of each. */
		if (x->c.failed) {
			rc = -EINVAL;
			break;
		}
		one = rut_gen_probe(x->p, x->list[i].ctx, x->list[i].probe, x->c.syms, err);
		if (!one && rut_script_may_defer(x->p, x->list, x->n, i))
			one = generate_replay(x, i, err);
		if (one)
			return one;
	}
	return rc;
}

static int compile(struct rut_script_program *p, struct rut_err *err)
{
	struct compilation x = {.p = p};
	regex_t filter;
	int rc = rut_parse(&p->ast, &p->src, p->opts.params, p->opts.nparams);

	if (!rc)
		rc = rut_macro_expand(&p->ast);
	if (!rc)
		rc = rut_config_apply(p);
	if (!rc)
		rc = open_filter(&x, &filter, err);
	if (rc)
		return rc;
	x.c = (struct rut_checker){.prog = p, .arena = &p->ast.arena, .src = &p->src};
	rc = resolve_all(&x);
	if (!rc)
		rc = check_probes(&x, err);
	if (!rc) {
		check_all(&x);
		warn_unused(p);
		finish_maps(p);
		rc = generate_all(&x, err);
	}
	if (!rc) {
		rc = check_options(p);
	}
	if (x.filter)
		regfree(x.filter);
	free(x.list);
	return rc;
}

int rut_script_compile(struct rut_script_program **ret, const char *text, size_t len,
		       const struct rut_script_opts *opts, struct rut_err *err)
{
	struct rut_script_program *p = calloc(1, sizeof(*p));
	int rc;

	*ret = p;
	if (!p)
		return rut_err_set(err, ENOMEM, "out of memory");
	p->opts = *opts;
	rut_config_init(&p->set, opts->max_strlen);
	for (int i = 0; i < RUT_MAP_USER; i++)
		p->fds[i] = -1;
	p->text = strndup(text, len);
	if (!p->text) {
		free(p);
		*ret = NULL;
		return rut_err_set(err, ENOMEM, "out of memory");
	}
	rut_source_init(&p->src, opts->name, p->text, strlen(p->text));
	p->src.owner = &p->text;
	p->src.as_bpftrace = opts->as_bpftrace;
	if (p->src.len != len)
		return rut_source_error(&p->src, (struct rut_span){(uint32_t)p->src.len, 1},
					"the script holds a zero byte");
	rc = compile(p, err);
	if (rc == -ENOMEM)
		rut_err_set(err, ENOMEM, "out of memory");
	return rc;
}

void rut_script_free(struct rut_script_program *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->nmaps; i++)
		if (p->maps[i].fd >= 0)
			close(p->maps[i].fd);
	for (int i = 0; i < RUT_MAP_USER; i++)
		if (p->fds[i] >= 0)
			close(p->fds[i]);
	for (size_t i = 0; i < p->nprogs; i++) {
		if (p->progs[i].fd >= 0)
			close(p->progs[i].fd);
		free(p->progs[i].insns);
		free(p->progs[i].places);
		free(p->progs[i].map_refs);
		free(p->progs[i].functions);
		free(p->progs[i].relos);
	}
	rut_script_ruby_free(p->ruby);
	for (size_t i = 0; i < p->nactions; i++)
		rut_script_format_free(p->actions[i].parsed);
	free(p->tables);
	free(p->maps);
	free(p->actions);
	free(p->progs);
	free(p->sites);
	free(p->strings);
	free(p->facts);
	free(p->probes);
	rut_btf_close(p->btf);
	rut_ast_fini(&p->ast);
	rut_source_fini(&p->src);
	free(p->text);
	free(p);
}
