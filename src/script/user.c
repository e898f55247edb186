/* SPDX-License-Identifier: MIT */
/*
 * Probes of programs. Functions are found in symbol tables, static tracepoints in ELF notes; their
 * arguments can be elsewhere at each site: sites that have them at the same place share a program.
 */
#include "script/user.h"

#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/maps.h"
#include "probe/arg.h"
#include "probe/binary.h"
#include "probe/demangle.h"
#include "script/probes.h"

struct rut_usdt_args {
	struct rut_probe_arg args[RUT_PROBE_ARGS];
	int n;
};

static const char *keep(struct rut_resolve *r, const char *s)
{
	const char *copy = rut_arena_strndup(&r->prog->ast.arena, s, strlen(s));

	return copy ? copy : "";
}

/* "libc" is libc.so.6: a library is found by the beginning of its name. */
static int find_binary(struct rut_resolve *r, const char *name, char *path, size_t size)
{
	static const char *const ends[] = {"", ".so.6", ".so.1", ".so.2", ".so.3", ".so"};
	struct rut_err err = RUT_ERR_INIT;
	char text[256];

	/* A relative path is one of ours, not of the process. */
	if (strchr(name, '/') && name[0] != '/') {
		_cleanup_free_ char *real = realpath(name, NULL);

		if (!real || strlen(real) >= size)
			return rut_probe_error(r, "cannot open '%s': %s", name,
					       strerror(real ? ENAMETOOLONG : errno));
		strcpy(path, real);
		return 0;
	}
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		snprintf(text, sizeof(text), "%s%s", name, ends[i]);
		if (!rut_elf_find(text, r->prog->opts.pid, path, size, i ? NULL : &err))
			return 0;
	}
	return rut_probe_error(r, "%s", err.msg[0] ? err.msg : "the file is not found");
}

/* One file that the name of a probe means. */
struct binary {
	const char *path;  /* to open */
	const char *shown; /* in the name of the probe */
	bool quiet;	   /* one of several: it may have no such probe, or be of another kind */
};

typedef int (*binary_fn)(struct rut_resolve *r, const struct binary *b, size_t *found);

/* Each file that is mapped with code in the process, once. */
static int each_mapped(struct rut_resolve *r, const char *pattern, binary_fn fn, size_t *found)
{
	_cleanup_maps_ struct rut_maps maps = RUT_MAPS_INIT;
	char path[600], last[512] = "";
	struct rut_mapping m;
	int rc = rut_maps_open(&maps, r->prog->opts.pid);

	if (rc < 0)
		return rut_probe_error(r, "cannot read '/proc/%d/maps': %s", r->prog->opts.pid,
				       strerror(-rc));
	while (!rc && rut_maps_next(&maps, &m)) {
		if (m.path[0] != '/' || !m.exec || m.deleted || !strcmp(m.path, last) ||
		    strlen(m.path) >= sizeof(last))
			continue;
		strcpy(last, m.path);
		if (*pattern && fnmatch(pattern, m.path, 0) != 0 &&
		    fnmatch(pattern, strrchr(m.path, '/') + 1, 0) != 0)
			continue;
		if (rut_elf_find(m.path, r->prog->opts.pid, path, sizeof(path), NULL))
			continue;
		rc = fn(r, &(struct binary){keep(r, path), keep(r, path), true}, found);
	}
	return rc;
}

/* Files by a pattern: "./prog*", "libc*" of the directories of libraries. */
static int each_glob(struct rut_resolve *r, const char *pattern, binary_fn fn, size_t *found)
{
	glob_t g = {0};
	char text[600];
	int rc = 0;

	if (strchr(pattern, '/'))
		snprintf(text, sizeof(text), "%s", pattern);
	else
		snprintf(text, sizeof(text), "/usr/lib/{x86_64-linux-gnu,aarch64-linux-gnu,}/%s",
			 pattern);
	if (glob(text, GLOB_BRACE, NULL, &g))
		return rut_probe_error(r, "no file matches '%s'", pattern);
	for (size_t i = 0; i < g.gl_pathc && !rc; i++) {
		_cleanup_free_ char *real = realpath(g.gl_pathv[i], NULL);

		if (real)
			rc = fn(r, &(struct binary){keep(r, real), keep(r, g.gl_pathv[i]), true},
				found);
	}
	globfree(&g);
	return rc;
}

/* All files that the name means. */
static int each_binary(struct rut_resolve *r, const char *name, binary_fn fn, size_t *found)
{
	char path[512];
	int rc;

	/* The process of -c has not begun: it has no files of its own yet. */
	if (r->prog->opts.child && strchr(name, '/') && strpbrk(name, "*?["))
		return each_glob(r, name, fn, found);
	if (!*name || (r->prog->opts.pid && strpbrk(name, "*?["))) {
		if (!r->prog->opts.pid)
			return rut_probe_error(r,
					       "the file is missing: it may be left out with -p");
		return each_mapped(r, name, fn, found);
	}
	if (strpbrk(name, "*?["))
		return each_glob(r, name, fn, found);
	rc = find_binary(r, name, path, sizeof(path));
	if (rc)
		return rc;
	return fn(r,
		  &(struct binary){keep(r, path), strchr(name, '/') ? keep(r, name) : keep(r, path),
				   false},
		  found);
}

struct function_list {
	struct rut_function *list;
	size_t n;
};

static int add_function(struct rut_resolve *r, const struct binary *b, const struct rut_function *f,
			uint64_t plus)
{
	struct rut_script_attach a = {
		.path = b->path,
		.offset = f->offset + plus,
		.address = f->address + plus,
		.symbol = keep(r, f->name),
		.plus = plus,
		.one_of = strpbrk(r->parts[r->nparts - 1], "*?[") != NULL,
	};
	char name[600];
	int rc;

	snprintf(name, sizeof(name), "%s:%s:%s", r->kind->name, b->shown, f->name);
	a.name = keep(r, name);
	rc = rut_probe_add(r, a, NULL, false);
	if (!rc && !r->ctxs[r->n - 1].function) {
		_cleanup_free_ char *written =
			r->prog->set.cpp_demangle ? rut_demangle(f->name) : NULL;

		r->ctxs[r->n - 1].function = keep(r, written ? written : f->name);
	}
	return rc;
}

/* Is it the function that the program has under that name? Without '(': whatever it takes. */
static bool is_written(const char *symbol, const char *pattern, bool rust)
{
	_cleanup_free_ char *of_rust = rut_demangle_rust(symbol);
	_cleanup_free_ char *name = rust ? RUT_TAKE(of_rust) : rut_demangle(symbol);

	/* It is in one language. */
	if (of_rust)
		return false;
	if (name && !strchr(pattern, '('))
		name[strcspn(name, "(")] = 0;
	return name && !fnmatch(pattern, name, 0);
}

/* uprobe:FILE:cpp:"shop::total(int)" */
static int add_written(struct rut_resolve *r, const struct binary *b, size_t *found)
{
	struct rut_err err = RUT_ERR_INIT;
	struct function_list l = {0};
	int rc = rut_elf_functions(b->path, "_[ZR]*", &l.list, &l.n, &err);

	if (rc)
		return b->quiet ? 0 : rut_probe_error(r, "%s", err.msg);
	for (size_t i = 0; i < l.n && !rc; i++) {
		if (!is_written(l.list[i].name, r->parts[3], !strcmp(r->parts[2], "rust")))
			continue;
		rc = add_function(r, b, &l.list[i], 0);
		++*found;
	}
	free(l.list);
	return rc;
}

/* The nearest name of a function that is not there. */
static void suggest(struct rut_resolve *r, const char *path, const char *wanted)
{
	struct rut_nearest near = {wanted, strlen(wanted), "", 0};
	struct function_list l = {0};

	if (rut_elf_functions(path, "*", &l.list, &l.n, NULL))
		return;
	for (size_t i = 0; i < l.n; i++)
		rut_nearest_add(&near, l.list[i].name);
	free(l.list);
	if (near.name[0])
		rut_source_hint(&r->prog->src, "did you mean '%s'?", near.name);
}

/* A place in a file that has no functions. */
static int add_offset(struct rut_resolve *r, const struct binary *b, const char *text,
		      uint64_t offset)
{
	struct rut_script_attach a = {
		.path = b->path, .offset = offset, .address = offset, .symbol = keep(r, text)};
	char name[600];

	snprintf(name, sizeof(name), "%s:%s:%s", r->kind->name, b->shown, text);
	a.name = keep(r, name);
	return rut_probe_add(r, a, NULL, false);
}

/* An address, as the file is linked: of the function that it is in. */
static int resolve_address(struct rut_resolve *r, const struct binary *b, const char *text)
{
	struct rut_err err = RUT_ERR_INIT;
	struct function_list l = {0};
	const struct rut_function *best = NULL;
	uint64_t address = strtoull(text, NULL, 0);
	int rc = rut_elf_functions(b->path, "*", &l.list, &l.n, &err);

	/* Other files are as their bytes are. */
	if (rc == -ENOEXEC && r->prog->opts.unsafe)
		return add_offset(r, b, text, address);
	if (rc)
		return rut_probe_error(r, "%s", err.msg);
	for (size_t i = 0; i < l.n; i++)
		if (l.list[i].address <= address && (!best || l.list[i].address > best->address))
			best = &l.list[i];
	rc = best ? add_function(r, b, best, address - best->address)
	     : r->prog->src.as_bpftrace
		     ? rut_source_plain(&r->prog->src, "Could not resolve address: %s:0x%llx",
					b->shown, (unsigned long long)address)
		     : rut_probe_error(r, "no function of '%s' is at %s", b->path, text);
	free(l.list);
	return rc;
}

/* Probes between two instructions break the process: they are where functions say they are. */
static int check_size(struct rut_resolve *r, const struct rut_function *f, uint64_t offset)
{
	unsigned long long size = f->size, plus = offset;

	if (r->prog->opts.unsafe || strpbrk(r->parts[r->nparts - 1], "*?["))
		return 0;
	if (!size && r->prog->src.as_bpftrace)
		return rut_source_plain(
			&r->prog->src,
			"Could not determine boundary for %s (symbol has size 0).\n"
			"Use --unsafe to force attachment. WARNING: This option could "
			"lead to data corruption in the target process.",
			f->name);
	if (!size || plus < size)
		return 0;
	return rut_probe_error(r,
			       r->prog->src.as_bpftrace
				       ? "Offset outside the function bounds ('%s' size is %llu)"
				       : "'%s' has only %llu bytes",
			       f->name, size);
}

/* "name", "name+12", an address: parts[2], or parts[3] behind a language. */
static int add_functions(struct rut_resolve *r, const struct binary *b, size_t *found)
{
	const char *text = r->parts[r->nparts - 1];
	struct rut_err err = RUT_ERR_INIT;
	struct function_list l = {0};
	char name[256], *plus;
	uint64_t offset = 0;
	int rc;

	snprintf(name, sizeof(name), "%s", text);
	plus = r->nparts == 3 ? strchr(name, '+') : NULL;
	if (plus) {
		*plus = 0;
		offset = strtoull(plus + 1, NULL, 0);
		if (r->kind->kind == RUT_PROBE_URETPROBE)
			return rut_probe_error(r, "returns have no offset");
	}
	if (name[0] >= '0' && name[0] <= '9' && !b->quiet) {
		++*found;
		return resolve_address(r, b, name);
	}
	rc = rut_elf_functions(b->path, name, &l.list, &l.n, &err);
	if (rc)
		return b->quiet ? 0 : rut_probe_error(r, "%s", err.msg);
	for (size_t i = 0; i < l.n && !rc; i++) {
		rc = check_size(r, &l.list[i], offset);
		if (!rc)
			rc = add_function(r, b, &l.list[i], offset);
	}
	*found += l.n;
	free(l.list);
	return rc;
}

/* The name behind a language, which may have colons: into parts[3]. False: there is none. */
static bool take_written(struct rut_resolve *r)
{
	static const char *const languages[] = {"cpp", "cxx", "rust"};
	const char *at = r->spec->text;
	bool any = false;

	for (size_t i = 0; i < sizeof(languages) / sizeof(*languages) && r->nparts > 3; i++)
		any |= !strcmp(r->parts[2], languages[i]);
	for (unsigned i = 0; any && i < 3; i++)
		at = strchr(at, ':') + 1;
	if (any) {
		size_t quoted = *at == '"', len = strlen(at);

		r->parts[3] = rut_arena_strndup(&r->prog->ast.arena, at + quoted,
						len > 1 ? len - 2 * quoted : 0);
		r->nparts = 4;
	}
	return any && r->parts[3];
}

int rut_resolve_uprobe(struct rut_resolve *r)
{
	char path[512];
	size_t found = 0;
	int rc;

	/* uprobe:FUNCTION with -p: in whatever file the process has it. */
	if (r->nparts == 2 && r->prog->opts.pid) {
		r->parts[2] = r->parts[1];
		r->parts[1] = "";
		r->nparts = 3;
	}
	if (take_written(r)) {
		rc = each_binary(r, r->parts[1], add_written, &found);
		return rc || found ? rc
				   : rut_probe_missing(r, "'%s' has no function '%s'", r->parts[1],
						       r->parts[3]);
	}
	if (r->nparts != 3)
		return rut_probe_error(r, "a function is %s:FILE:FUNCTION", r->parts[0]);
	rc = each_binary(r, r->parts[1], add_functions, &found);
	if (rc || found)
		return rc;
	rc = rut_probe_missing(r, "'%s' has no function '%s'", r->parts[1], r->parts[2]);
	if (rc && r->parts[1][0] && !strpbrk(r->parts[1], "*?[") &&
	    !find_binary(r, r->parts[1], path, sizeof(path)))
		suggest(r, path, r->parts[2]);
	return rc;
}

/* Adds the site to the program with its arguments at the same place. */
static int add_site(struct rut_resolve *r, const struct binary *b, const struct rut_usdt_site *s)
{
	struct rut_script_attach a = {.path = b->path,
				      .offset = s->offset,
				      .semaphore = s->semaphore,
				      .group = keep(r, s->provider),
				      .event = keep(r, s->args),
				      .symbol = keep(r, s->name)};
	struct rut_probe_ctx *ctx;
	struct rut_usdt_args *args;
	char name[700];
	int rc;

	snprintf(name, sizeof(name), "usdt:%s:%s:%s", b->shown, s->provider, s->name);
	a.name = keep(r, name);
	a.kind = r->kind->kind;
	for (size_t i = 0; i < r->n; i++) {
		ctx = &r->ctxs[i];
		if (!strcmp(ctx->attach[0].event, s->args) &&
		    !strcmp(ctx->attach[0].name, a.name)) {
			ctx->attach = rut_arena_grow(&r->prog->ast.arena, ctx->attach, ctx->nattach,
						     sizeof(*ctx->attach));
			if (!ctx->attach)
				return -ENOMEM;
			ctx->attach[ctx->nattach++] = a;
			return 0;
		}
	}
	r->split = true;
	rc = rut_probe_add(r, a, NULL, false);
	args = rut_arena_alloc(&r->prog->ast.arena, sizeof(*args));
	if (rc || !args)
		return rc ? rc : -ENOMEM;
	args->n = rut_arg_parse(s->args, args->args, NULL);
	r->ctxs[r->n - 1].usdt = args;
	return 0;
}

static const char *or_all(const char *pattern)
{
	return *pattern ? pattern : "*";
}

static int add_sites(struct rut_resolve *r, const struct binary *b, size_t *found)
{
	const char *provider = r->nparts == 4 ? or_all(r->parts[2]) : "*";
	const char *name = or_all(r->parts[r->nparts - 1]);
	struct rut_usdt_site *sites = NULL;
	struct rut_err err = RUT_ERR_INIT;
	size_t n = 0;
	int rc = rut_elf_usdt(b->path, provider, name, &sites, &n, &err);

	if (rc)
		return b->quiet ? 0 : rut_probe_error(r, "%s", err.msg);
	for (size_t i = 0; i < n && !rc; i++)
		rc = add_site(r, b, &sites[i]);
	*found += n;
	free(sites);
	return rc;
}

int rut_resolve_usdt(struct rut_resolve *r)
{
	size_t found = 0;
	int rc;

	if (r->nparts == 2 && r->prog->opts.pid) {
		r->parts[2] = r->parts[1];
		r->parts[1] = "";
		r->nparts = 3;
	}
	if (r->nparts < 3 || r->nparts > 4)
		return rut_probe_error(r, "a static tracepoint is usdt:FILE:PROVIDER:NAME");
	rc = each_binary(r, r->parts[1], add_sites, &found);
	return rc || found ? rc
			   : rut_probe_missing(r, "'%s' has no static tracepoint '%s:%s'",
					       r->parts[1], r->nparts == 4 ? r->parts[2] : "*",
					       r->parts[r->nparts - 1]);
}

/* Arguments */

static rut_vreg load_register(struct rut_gen *g, int off)
{
	return rut_ir_load(&g->ir, 8, g->ctx_reg, off);
}

rut_vreg rut_gen_call_arg(struct rut_gen *g, int i)
{
	struct rut_probe_arg a;

	if (rut_arg_of_call(i, &a))
		return rut_ir_const(&g->ir, 0);
	return load_register(g, a.reg);
}

const struct rut_type *rut_check_usdt_arg(struct rut_checker *c, struct rut_node *n, int i)
{
	const struct rut_usdt_args *u = c->ctx->usdt;

	if (!u || u->n < 0)
		return rut_check_error(c, n, "the arguments of '%s' are not understood",
				       c->ctx->spec->text);
	if (i >= u->n)
		return rut_check_error(c, n, "'%s' has %d arguments", c->ctx->spec->text, u->n);
	if (u->args[i].form == RUT_ARG_FLOAT && u->args[i].kind != RUT_ARG_MISSING)
		return rut_type_float(u->args[i].bytes);
	if (u->args[i].form == RUT_ARG_FLOAT)
		return rut_check_error(c, n,
				       "%s is a number with decimals in a register (%%xmm), which "
				       "the kernel does not show to programs: only those in memory "
				       "can be read",
				       n->text);
	if (u->args[i].kind == RUT_ARG_MISSING)
		return rut_check_error(c, n, "where %s is cannot be known", n->text);
	return rut_type_int(8, u->args[i].form == RUT_ARG_SIGNED);
}

/* Where an argument in memory is. */
static rut_vreg gen_place(struct rut_gen *g, const struct rut_probe_arg *a)
{
	rut_vreg at = a->reg >= 0
			      ? rut_ir_alu_imm(&g->ir, BPF_ADD, load_register(g, a->reg), a->value)
			      : rut_ir_const(&g->ir, a->value);

	if (a->index < 0)
		return at;
	return rut_ir_alu(&g->ir, BPF_ADD, at,
			  rut_ir_alu_imm(&g->ir, BPF_LSH, load_register(g, a->index), a->scale));
}

/* A number with decimals, as it is. */
void rut_gen_usdt_float(struct rut_gen *g, struct rut_node *n, int i, struct rut_mem to)
{
	const struct rut_probe_arg *a = &g->ctx->usdt->args[i];

	if (a->kind == RUT_ARG_MEM)
		rut_gen_read(g, n, to, (struct rut_mem){gen_place(g, a), 0, RUT_SPACE_USER},
			     a->bytes);
	else
		rut_gen_store(g, to, a->bytes,
			      a->kind == RUT_ARG_REG ? load_register(g, a->reg)
						     : rut_ir_const(&g->ir, a->value));
}

rut_vreg rut_gen_usdt_arg(struct rut_gen *g, struct rut_node *n, int i)
{
	const struct rut_probe_arg *a = &g->ctx->usdt->args[i];
	struct rut_mem room;
	rut_vreg v, at;

	switch (a->kind) {
	case RUT_ARG_CONST:
		v = rut_ir_const(&g->ir, a->value);
		break;
	case RUT_ARG_PLACE:
		return rut_ir_alu_imm(&g->ir, BPF_ADD, load_register(g, a->reg), a->value);
	case RUT_ARG_REG:
		v = load_register(g, a->reg);
		break;
	default: /* RUT_ARG_MEM */
		at = gen_place(g, a);
		room = rut_gen_room(g, n, 8);
		rut_gen_read(g, n, room, (struct rut_mem){at, 0, RUT_SPACE_USER}, a->bytes);
		v = rut_ir_load(&g->ir, a->bytes, room.base, room.off);
		break;
	}
	return rut_ir_ext(&g->ir, v, a->bytes, a->form == RUT_ARG_SIGNED);
}
