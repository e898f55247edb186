/* SPDX-License-Identifier: MIT */
/* The probes of a compiled script, in the files and the kernel of the machine that loads it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "probe/binary.h"
#include "script/btf.h"
#include "script/fact.h"
#include "script/portable.h"
#include "script/check.h"

static int found(const char *group, const char *event, void *arg)
{
	*(bool *)arg = true;
	return 0;
}

/* -ENOENT: reported unless it is one of several. */
static int missing(struct rut_script_program *p, const struct rut_script_prog *prog,
		   const struct rut_script_attach *a)
{
	if (a->one_of)
		rut_source_warn(&p->src, prog->span, "this machine has no %s: it is left out",
				a->name);
	else
		rut_source_error(&p->src, prog->span, "this machine has no %s", a->name);
	return -ENOENT;
}

static int settle_tracepoint(struct rut_script_program *p, struct rut_script_prog *prog,
			     const struct rut_script_attach *a)
{
	bool is_there = false;

	rut_tracepoint_match(a->group, a->event, found, &is_there);
	return is_there ? 0 : missing(p, prog, a);
}

/* The function is found by its name: the file may be another build. */
static int settle_function(struct rut_script_program *p, struct rut_script_prog *prog,
			   struct rut_script_attach *a, struct rut_err *err)
{
	_cleanup_free_ struct rut_function *list = NULL;
	size_t n = 0;
	int rc = rut_elf_functions(a->path, a->symbol, &list, &n, err);

	if (rc)
		return rc;
	if (!n)
		return missing(p, prog, a);
	a->offset = list[0].offset + a->plus;
	a->address = list[0].address + a->plus;
	return 0;
}

/*
 * All sites of a static tracepoint whose arguments are at the places that the program reads. Sites
 * that have them elsewhere would need a program of their own.
 */
static int settle_sites(struct rut_script_program *p, struct rut_script_prog *prog,
			struct rut_err *err)
{
	const struct rut_script_attach first = prog->attach[0];
	_cleanup_free_ struct rut_usdt_site *list = NULL;
	struct rut_script_attach *attach;
	size_t n = 0, kept = 0;
	int rc = rut_elf_usdt(first.path, first.group, first.symbol, &list, &n, err);

	if (rc)
		return rc;
	attach = rut_arena_alloc(&p->ast.arena, (n + 1) * sizeof(*attach));
	if (!attach)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(list[i].args, first.event) != 0)
			continue;
		attach[kept] = first;
		attach[kept].offset = list[i].offset;
		attach[kept++].semaphore = list[i].semaphore;
	}
	if (n && !kept)
		return rut_source_error(&p->src, prog->span,
					"this build of '%s' has the arguments of %s elsewhere: "
					"compile the script for it",
					first.path, first.name);
	prog->attach = attach;
	prog->nattach = kept;
	return kept ? 0 : missing(p, prog, &first);
}

/* Programs of functions of the kernel name them by the number of their type. */
static int settle_type(struct rut_script_program *p, struct rut_script_prog *prog,
		       const struct rut_script_attach *a)
{
	char name[256];

	snprintf(name, sizeof(name), "%s%s", a->kind == RUT_PROBE_ITER ? "bpf_iter_" : "",
		 a->event);
	prog->btf_id = rut_kernel_function(p, name);
	return prog->btf_id ? 0 : missing(p, prog, a);
}

static int settle_one(struct rut_script_program *p, struct rut_script_prog *prog,
		      struct rut_script_attach *a, struct rut_err *err)
{
	switch (a->kind) {
	case RUT_PROBE_TRACEPOINT:
		return settle_tracepoint(p, prog, a);
	case RUT_PROBE_UPROBE:
	case RUT_PROBE_URETPROBE:
		return settle_function(p, prog, a, err);
	case RUT_PROBE_FENTRY:
	case RUT_PROBE_FEXIT:
	case RUT_PROBE_ITER:
		return settle_type(p, prog, a);
	default:
		return 0;
	}
}

static int settle_prog(struct rut_script_program *p, struct rut_script_prog *prog,
		       struct rut_err *err)
{
	size_t kept = 0;

	if (prog->nattach && prog->attach[0].kind == RUT_PROBE_USDT) {
		int rc = settle_sites(p, prog, err);

		return rc == -ENOENT && !err->code ? -EINVAL : rc;
	}
	for (size_t i = 0; i < prog->nattach; i++) {
		int rc = settle_one(p, prog, &prog->attach[i], err);

		if (rc == -ENOENT && !err->code && prog->attach[i].one_of)
			continue;
		if (rc)
			return err->code ? rc : -EINVAL;
		prog->attach[kept++] = prog->attach[i];
	}
	prog->nattach = kept;
	return 0;
}

/* Facts that are of programs which are left out alone do not matter. */
static void drop_facts(struct rut_script_program *p, const struct rut_script_attach *gone)
{
	for (size_t i = 0; i < p->nfacts; i++) {
		struct rut_script_fact *f = &p->facts[i];

		if (f->kind == RUT_FACT_TRACEPOINT && !strcmp(f->group, gone->group) &&
		    !strcmp(f->of, gone->event))
			*f = (struct rut_script_fact){.kind = RUT_FACT_CPUS,
						      .value = rut_program_ncpus()};
	}
}

int rut_portable_settle(struct rut_script_program *p, struct rut_err *err)
{
	size_t attached = 0;
	int rc = 0;

	for (size_t i = 0; i < p->nprogs && !rc; i++) {
		const struct rut_script_attach first =
			p->progs[i].nattach ? p->progs[i].attach[0] : (struct rut_script_attach){0};

		rc = settle_prog(p, &p->progs[i], err);
		if (!rc && first.name && !p->progs[i].nattach && first.kind == RUT_PROBE_TRACEPOINT)
			drop_facts(p, &first);
	}
	if (!rc)
		rc = rut_fact_relocate(p);
	/* Programs without a probe are loaded all the same: they keep their numbers. */
	for (size_t i = 0; i < p->nprogs && !rc; i++)
		attached += p->progs[i].nattach;
	if (!rc && !attached)
		rc = rut_err_set(err, ENOENT, "no probe of the script '%s' exists here",
				 p->src.name);
	return rc;
}
