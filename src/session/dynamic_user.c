/* SPDX-License-Identifier: MIT */
#include "session/dynamic_user.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "bpf/probe.h"
#include "probe/arg.h"
#include "probe/binary.h"
#include "probe/dwarf_args.h"
#include "probe/nop5.h"
#include "session/building.h"
#include "session/sites.h"

/* What the user says of the arguments. `args` is the text behind the parenthesis, or NULL. */
static int name_arguments(struct rut_building *b, const char *args, uint32_t *count,
			  struct rut_err *err)
{
	int n = rut_arg_specs_parse(args, b->specs, err);

	if (n < 0)
		return n;
	for (int i = 0; i < n; i++)
		if (b->specs[i].type == RUT_TYPE_STR)
			b->conf.strings |= 1u << i;
	if ((uint32_t)n > *count)
		*count = (uint32_t)n;
	return 0;
}

/* A number without a type has eight bytes, whatever was read of it. */
static enum rut_field_kind kind_of(const struct rut_arg_spec *spec, const struct rut_probe_arg *a)
{
	static const enum rut_field_kind kinds[] = {
		[RUT_TYPE_U8] = RUT_FK_U8,   [RUT_TYPE_U16] = RUT_FK_U16,
		[RUT_TYPE_U32] = RUT_FK_U32, [RUT_TYPE_U64] = RUT_FK_U64,
		[RUT_TYPE_S8] = RUT_FK_S8,   [RUT_TYPE_S16] = RUT_FK_S16,
		[RUT_TYPE_S32] = RUT_FK_S32, [RUT_TYPE_S64] = RUT_FK_S64,
		[RUT_TYPE_X8] = RUT_FK_X8,   [RUT_TYPE_X16] = RUT_FK_X16,
		[RUT_TYPE_X32] = RUT_FK_X32, [RUT_TYPE_X64] = RUT_FK_X64,
		[RUT_TYPE_F32] = RUT_FK_F32, [RUT_TYPE_F64] = RUT_FK_F64,
	};

	if (spec->type != RUT_TYPE_NONE)
		return kinds[spec->type];
	if (a->form == RUT_ARG_FLOAT)
		return a->bytes == 4 ? RUT_FK_F32 : RUT_FK_F64;
	return a->form == RUT_ARG_SIGNED ? RUT_FK_S64 : RUT_FK_U64;
}

static uint8_t size_of(const struct rut_arg_spec *spec, const struct rut_probe_arg *a)
{
	if (spec->type != RUT_TYPE_NONE)
		return (uint8_t)rut_arg_type_bytes(spec->type);
	return a->form == RUT_ARG_FLOAT ? a->bytes : 8;
}

/* The payload: numbers first, then strings. */
static void describe_arguments(struct rut_building *b, const struct rut_probe_arg *args)
{
	for (uint32_t i = 0; i < b->conf.nargs; i++) {
		if (!b->specs[i].name[0])
			snprintf(b->specs[i].name, sizeof(b->specs[i].name), "arg%u", i);
		b->conf.size[i] = size_of(&b->specs[i], &args[i]);
	}
	for (uint32_t i = 0; i < b->conf.nargs; i++)
		if (!(b->conf.strings >> i & 1))
			rut_building_add_field(b, kind_of(&b->specs[i], &args[i]), 0,
					       b->specs[i].name);
	for (uint32_t i = 0; i < b->conf.nargs; i++)
		if (b->conf.strings >> i & 1)
			rut_building_add_field(b, RUT_FK_STR, 0, b->specs[i].name);
}

static int attach_sites(struct rut_building *b, const struct rut_site *sites,
			const struct rut_probe_site *args, size_t n, int pid, bool ret,
			struct rut_err *err)
{
	struct bpf_program *prog = NULL;
	int rc = rut_building_load(b, "on_probe", &prog, err);
	int fd = rc ? -1 : bpf_object__find_map_fd_by_name(b->obj, "sites");

	for (size_t i = 0; i < n && !rc; i++) {
		LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = i,
			    .ref_ctr_offset = sites[i].semaphore, .retprobe = ret);
		_cleanup_close_ int guard = -1;
		uint32_t key = (uint32_t)i;
		struct bpf_link *link;

		if (bpf_map_update_elem(fd, &key, &args[i], BPF_ANY) < 0)
			rc = rut_err_errno(err, errno, "cannot describe the arguments");
		if (!rc)
			rc = i ? 0 : rut_building_describe(b, err);
		if (rc)
			break;
		if (b->r->load_only)
			continue;
		rc = rut_nop5_guard(sites[i].path, sites[i].offset, sites[i].semaphore, &guard,
				    err);
		if (rc)
			break;
		link = bpf_program__attach_uprobe_opts(prog, pid > 0 ? pid : -1, sites[i].path,
						       sites[i].offset, &opts);
		if (!link)
			rc = rut_err_errno(err, errno, "cannot attach to '%s' at 0x%llx",
					   sites[i].path, (unsigned long long)sites[i].offset);
		else
			rc = rut_building_keep_link(b, link, i, err);
	}
	return rut_building_finish(b, rc);
}

/* "usdt:A:B:C(...)" -> its parts; at most `max`, the last one up to the parenthesis. */
static int split(char *text, char *parts[], int max)
{
	char *paren = strchr(text, '(');
	int n = 0;

	if (paren)
		*paren = '\0';
	while (n < max) {
		char *colon = n < max - 1 ? strchr(text, ':') : NULL;

		parts[n++] = text;
		if (!colon)
			break;
		*colon = '\0';
		text = colon + 1;
	}
	parts[n] = paren ? paren + 1 : NULL;
	return n;
}

/* Symbols in a probe's arguments: how far they are from its instruction. */
struct symbols {
	const char *path;
	uint64_t address;
};

static int resolve(const char *symbol, size_t len, int64_t *ret_distance, void *arg)
{
	const struct symbols *s = arg;
	struct rut_err ignored = RUT_ERR_INIT;
	char name[256];
	uint64_t address;
	int rc;

	if (len >= sizeof(name))
		return -ENAMETOOLONG;
	snprintf(name, sizeof(name), "%.*s", (int)len, symbol);
	rc = rut_elf_address(s->path, name, &address, &ignored);
	*ret_distance = (int64_t)(address - s->address);
	return rc;
}

/* The arguments of each site, and how many there are at most. */
static int parse_arguments(const struct rut_site *sites, size_t n, struct rut_probe_site *ret,
			   uint32_t *ret_count, struct rut_err *err)
{
	*ret_count = 0;
	for (size_t i = 0; i < n; i++) {
		struct symbols at = {sites[i].path, sites[i].address};
		int count = rut_arg_parse_at(sites[i].args, ret[i].args, resolve, &at, err);

		if (count < 0)
			return count;
		if ((uint32_t)count > *ret_count)
			*ret_count = (uint32_t)count;
	}
	return 0;
}

/* What the user wrote: its parts, and whether it is a pattern of several probes. */
struct words {
	char *text; /* owned; the parts point into it */
	char *parts[5];
	const char *arguments; /* behind the parenthesis, or NULL */
	bool glob;
	/* Of functions: */
	struct rut_dwarf *dwarf;  /* of the last file; owned, or NULL */
	char looked_at[512];	  /* that file */
	struct rut_buf described; /* arguments by debug information */
};

#define SPEC_MAX 1024

/* The words that mean one probe alone, up to its arguments: with them it is added again. */
static size_t write_spec(char ret[SPEC_MAX], const struct words *w, const struct rut_site *site)
{
	const char *offset = w->parts[3];

	if (site->provider[0])
		return (size_t)snprintf(ret, SPEC_MAX, "usdt:%s:%s:%s", w->parts[1], site->provider,
					site->name);
	return (size_t)snprintf(ret, SPEC_MAX, "%s:%s:%s%s%s", w->parts[0], w->parts[1], site->name,
				offset ? "+" : "", offset ? offset : "");
}

static void add_arguments(char spec[SPEC_MAX], const struct words *w)
{
	size_t len = strlen(spec);

	if (w->arguments)
		snprintf(spec + len, SPEC_MAX - len, "(%s", w->arguments);
}

/* The note says where an argument is; the user may say how to read it, not what else to read. */
static int type_arguments(const struct rut_building *b, struct rut_probe_site *args, size_t n,
			  struct rut_err *err)
{
	for (uint32_t i = 0; i < b->conf.nargs; i++) {
		const struct rut_arg_spec *s = &b->specs[i];

		if (s->operand[0])
			return rut_err_set(err, EINVAL,
					   "'%s=%s': a static probe says where its arguments are",
					   s->name, s->operand);
		for (size_t k = 0; k < n; k++)
			if (args[k].args[i].kind != RUT_ARG_MISSING)
				rut_arg_set_type(&args[k].args[i], s->type);
	}
	return 0;
}

static int add_usdt_probe(struct rut_recorder *r, struct words *w, const struct rut_site *sites,
			  size_t n, uint32_t id, struct rut_err *err)
{
	_cleanup_free_ struct rut_probe_site *args = calloc(n, sizeof(*args));
	struct rut_building b;
	char spec[SPEC_MAX];
	uint32_t found = 0;
	int rc;

	if (!args)
		return rut_err_set(err, ENOMEM, "out of memory");
	write_spec(spec, w, sites);
	add_arguments(spec, w);
	rut_building_begin(&b, r, spec, id);
	snprintf(b.title, sizeof(b.title), "%s:%s", sites->provider, sites->name);
	rc = parse_arguments(sites, n, args, &found, err);
	if (!rc)
		rc = name_arguments(&b, w->arguments, &b.conf.nargs, err);
	if (rc)
		return rc;
	if (b.conf.nargs > found && !w->glob)
		return rut_err_set(err, EINVAL, "'%s' has only %u arguments", b.title, found);
	b.conf.nargs = found;
	b.conf.strings &= (1u << found) - 1;
	rc = type_arguments(&b, args, n, err);
	if (rc)
		return rc;
	describe_arguments(&b, args->args);
	return attach_sites(&b, sites, args, n, rut_sites_pid(w->parts[1]), false, err);
}

/*
 * Arguments that the user did not name are those of the debug information, if there is any. They
 * become part of the words by which the event is added again: that information may change.
 */
static bool describe_function(struct words *w, const struct rut_site *site, bool ret)
{
	char spec[SPEC_MAX];
	size_t len = write_spec(spec, w, site) + 2;

	/* Not at the entry the registers hold something else. */
	if (w->parts[3] || len >= sizeof(((struct rut_session_meta *)0)->dynamic->spec))
		return false;
	if (strcmp(w->looked_at, site->path) != 0) {
		rut_dwarf_close(w->dwarf);
		w->dwarf = rut_dwarf_open(site->path);
		snprintf(w->looked_at, sizeof(w->looked_at), "%s", site->path);
	}
	rut_buf_clear(&w->described);
	if (!w->dwarf ||
	    rut_dwarf_arguments(w->dwarf, site->address, ret,
				sizeof(((struct rut_session_meta *)0)->dynamic->spec) - len - 1,
				&w->described) < 0)
		return false;
	rut_buf_putc(&w->described, ')');
	return !w->described.failed;
}

static int add_function(struct rut_recorder *r, struct words *w, const struct rut_site *sites,
			size_t n, uint32_t id, struct rut_err *err)
{
	_cleanup_free_ struct rut_probe_site *args = calloc(n, sizeof(*args));
	_cleanup_free_ struct rut_site *moved = calloc(n, sizeof(*moved));
	bool ret = !strcmp(w->parts[0], "uretprobe"), described;
	struct rut_building b;
	char spec[SPEC_MAX];
	int rc;

	if (!args || !moved)
		return rut_err_set(err, ENOMEM, "out of memory");
	described = !w->arguments && describe_function(w, sites, ret);
	if (described)
		w->arguments = w->described.data;
	write_spec(spec, w, sites);
	add_arguments(spec, w);
	rut_building_begin(&b, r, spec, id);
	snprintf(b.title, sizeof(b.title), "%s:%s%s%s", w->parts[0], sites->name,
		 w->parts[3] ? "+" : "", w->parts[3] ? w->parts[3] : "");
	rc = name_arguments(&b, w->arguments, &b.conf.nargs, err);
	if (described)
		w->arguments = NULL;
	if (rc)
		return rc;
	if (ret && !b.conf.nargs && !described) {
		strcpy(b.specs[0].name, "ret");
		b.conf.nargs = 1;
	}
	for (uint32_t i = 0; i < b.conf.nargs; i++) {
		if (ret && i && !b.specs[i].operand[0])
			return rut_err_set(err, EINVAL, "'%s': a function has one result",
					   b.specs[i].name);
		rc = rut_arg_of_spec(&b.specs[i], ret ? -1 : (int)i, &args->args[i], err);
		if (rc)
			return rc;
	}
	for (size_t i = 0; i < n; i++) {
		args[i] = args[0];
		moved[i] = sites[i];
		moved[i].offset += w->parts[3] ? strtoull(w->parts[3], NULL, 0) : 0;
	}
	describe_arguments(&b, args->args);
	return attach_sites(&b, moved, args, n, rut_sites_pid(w->parts[1]), ret, err);
}

typedef int (*add_probe_fn)(struct rut_recorder *r, struct words *w, const struct rut_site *sites,
			    size_t n, uint32_t id, struct rut_err *err);

/* Is this event recorded already? A pattern does not add it again. */
static bool is_recorded(const struct rut_recorder *r, const struct words *w,
			const struct rut_site *site)
{
	const struct rut_session_meta *m = r->meta;
	char spec[SPEC_MAX];
	size_t len = write_spec(spec, w, site);

	for (uint32_t i = 0; i < m->ndynamic; i++)
		if (m->dynamic[i].id && !strncmp(m->dynamic[i].spec, spec, len) &&
		    (!m->dynamic[i].spec[len] || m->dynamic[i].spec[len] == '('))
			return true;
	return false;
}

/*
 * Adds an event for each probe that was found. Of a pattern, a probe that cannot be recorded is
 * named, and the others are.
 */
static int add_each(struct rut_recorder *r, struct words *w, const struct rut_sites *s, uint32_t id,
		    add_probe_fn fn, struct rut_err *err)
{
	size_t probes = rut_sites_probes(s), added = 0;
	int rc = 0;

	if (!id && probes > RUT_META_DYNAMIC_MAX - r->meta->ndynamic)
		return rut_building_too_many(probes, err);
	for (size_t i = 0, end; i < s->count; i = end) {
		struct rut_err why = RUT_ERR_INIT;

		end = rut_sites_end(s, i);
		if (w->glob && is_recorded(r, w, &s->list[i])) {
			added++;
			continue;
		}
		rc = fn(r, w, &s->list[i], end - i, id, &why);
		added += rc == 0;
		if (!rc)
			continue;
		if (!w->glob || r->conf.strict || rc == -ENOMEM || rc == -EPERM)
			return rut_err_set(err, why.code, "%s", why.msg);
		rut_warn("'%s' is not recorded: %s", s->list[i].name, why.msg);
		rut_err_set(err, why.code, "%s", why.msg);
	}
	return added ? 0 : rc;
}

static void words_fini(struct words *w)
{
	rut_dwarf_close(w->dwarf);
	rut_buf_fini(&w->described);
	free(w->text);
}

int rut_dynamic_add_usdt(struct rut_recorder *r, const char *spec, uint32_t id, struct rut_err *err)
{
	_cleanup_(words_fini)
	struct words w = {.text = strdup(spec)};
	_cleanup_(rut_sites_fini)
	struct rut_sites sites = {0};
	int rc;

	if (!w.text)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (split(w.text, w.parts, 4) != 4)
		return rut_err_set(err, EINVAL, "'%s' should be usdt:BINARY:PROVIDER:NAME", spec);
	w.arguments = w.parts[4];
	w.glob = strpbrk(w.parts[2], "*?[") || strpbrk(w.parts[3], "*?[");
	rc = rut_sites_usdt(&sites, w.parts[1], w.parts[2], w.parts[3], err);
	return rc ? rc : add_each(r, &w, &sites, id, add_usdt_probe, err);
}

int rut_dynamic_add_uprobe(struct rut_recorder *r, const char *spec, uint32_t id,
			   struct rut_err *err)
{
	_cleanup_(words_fini)
	struct words w = {.text = strdup(spec)};
	_cleanup_(rut_sites_fini)
	struct rut_sites sites = {0};
	int rc;

	if (!w.text)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (split(w.text, w.parts, 3) != 3)
		return rut_err_set(err, EINVAL, "'%s' should be %s:BINARY:SYMBOL", spec,
				   !strncmp(spec, "uret", 4) ? "uretprobe" : "uprobe");
	w.arguments = w.parts[3];
	w.parts[3] = strchr(w.parts[2], '+');
	if (w.parts[3])
		*w.parts[3]++ = '\0';
	w.glob = strpbrk(w.parts[2], "*?[");
	rc = rut_sites_functions(&sites, w.parts[1], w.parts[2], err);
	return rc ? rc : add_each(r, &w, &sites, id, add_function, err);
}
