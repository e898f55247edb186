/* SPDX-License-Identifier: MIT */
#include "script/list.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "script/btf.h"
#include "script/check.h"
#include "script/config.h"
#include "script/probes.h"

struct listing {
	struct rut_script_program *p;
	struct rut_buf *out;
	bool args;
	const char *kind;
};

static void put_args(struct listing *l, const struct rut_type *args, bool in_record)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	for (uint32_t i = 0; args && i < args->nfields; i++) {
		const struct rut_type_field *f = &args->fields[i];

		/* Every record begins with the same. */
		if (in_record && !strncmp(f->name, "common_", 7))
			continue;
		rut_buf_printf(l->out, "    %s %s\n", rut_type_text(f->type, &text), f->name);
	}
}

static int put_tracepoint(const char *group, const char *event, void *arg)
{
	struct listing *l = arg;

	rut_buf_printf(l->out, "tracepoint:%s:%s\n", group, event);
	if (l->args)
		put_args(l, rut_tracepoint_args(l->p, group, event, NULL), true);
	return 0;
}

static int put_raw(const char *group, const char *event, void *arg)
{
	struct listing *l = arg;
	const struct rut_type *args;

	if (!strcmp(group, "syscalls"))
		return 0;
	args = rut_kernel_rawtp_args(l->p, event);
	if (!args)
		return 0;
	rut_buf_printf(l->out, "rawtracepoint:%s\n", event);
	if (l->args)
		put_args(l, args, false);
	return 0;
}

/* Functions and static tracepoints of a file: what the compiler resolves the name to. */
static int put_resolved(struct listing *l, const char *pattern, struct rut_err *err)
{
	struct rut_probe_spec spec = {.text = pattern};
	struct rut_probe_ctx *ctxs = NULL;
	size_t n = 0;
	int rc;

	rut_source_init(&l->p->src, "-l", pattern, strlen(pattern));
	spec.span.len = (uint32_t)strlen(pattern);
	rc = rut_probe_resolve(l->p, &spec, true, &ctxs, &n);
	if (rc)
		rc = rut_err_set(err, EINVAL, "%s", l->p->src.messages.data);
	rut_source_fini(&l->p->src);
	for (size_t i = 0; i < n && !rc; i++)
		for (size_t k = 0; k < ctxs[i].nattach; k++)
			if (!k || strcmp(ctxs[i].attach[k].name, ctxs[i].attach[k - 1].name) != 0)
				rut_buf_printf(l->out, "%s\n", ctxs[i].attach[k].name);
	return rc;
}

static int list_kind(struct listing *l, const char *pattern, struct rut_err *err)
{
	char kind[64];
	const char *rest = strchr(pattern, ':'), *event;
	int found = 0;

	snprintf(kind, sizeof(kind), "%.*s", rest ? (int)(rest - pattern) : 63, pattern);
	rest = rest ? rest + 1 : "*";
	event = strchr(rest, ':');
	if (!fnmatch(kind, "tracepoint", 0) || !strcmp(kind, "t")) {
		char group[128];

		snprintf(group, sizeof(group), "%.*s", event ? (int)(event - rest) : 127, rest);
		rut_tracepoint_match(group, event ? event + 1 : "*", put_tracepoint, l);
		found = 1;
	}
	if (!fnmatch(kind, "rawtracepoint", 0) || !strcmp(kind, "rt")) {
		rut_tracepoint_match("*", event ? event + 1 : rest, put_raw, l);
		found = 1;
	}
	found |= rut_probe_list_perf(kind, rest, l->out);
	if (!strcmp(kind, "uprobe") || !strcmp(kind, "u") || !strcmp(kind, "usdt") ||
	    !strcmp(kind, "U") || !strcmp(kind, "uretprobe") || !strcmp(kind, "ur"))
		return put_resolved(l, pattern, err);
	return found ? 0 : rut_err_set(err, ENOENT, "there is no kind of probe '%s'", kind);
}

int rut_script_list(const char *pattern, bool args, struct rut_buf *out, struct rut_err *err)
{
	struct rut_script_program p = {0};
	struct listing l = {.p = &p, .out = out, .args = args};
	int rc;

	rut_config_init(&p.set, 0);
	rut_arena_init(&p.ast.arena, 256u << 20);
	rc = list_kind(&l, pattern ? pattern : "*", err);
	rut_btf_close(p.btf);
	rut_arena_fini(&p.ast.arena);
	return rc;
}
