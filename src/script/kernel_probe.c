/* SPDX-License-Identifier: MIT */
/*
 * Probes of the kernel's functions and data: kprobe, fentry and their returns, iterators,
 * watchpoints. Functions are known by the kernel's BTF, which has the static ones, too.
 */
#include <bpf/btf.h>
#include <errno.h>
#include <fnmatch.h>
#include <linux/bpf.h>
#include <linux/hw_breakpoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "script/btf.h"
#include "script/probes.h"
#include "script/tracefs.h"

enum { FUNCTIONS_MAX = 4096 };

#define KPROBE_EVENTS  "/sys/bus/event_source/devices/kprobe/type"
#define USE_TRACEPOINT "use a tracepoint or rawtracepoint: rutile run -l 'tracepoint:*'"

static const char *keep(struct rut_resolve *r, const char *s)
{
	const char *copy = rut_arena_strndup(&r->prog->ast.arena, s, strlen(s));

	return copy ? copy : "";
}

static int refuse(struct rut_resolve *r, const char *without)
{
	rut_probe_error(r, "this kernel was built without what '%s' needs (%s)", r->kind->name,
			without);
	rut_source_hint(&r->prog->src, USE_TRACEPOINT);
	return -EINVAL;
}

/* "vfs_read", "vfs_read+12", "module:function": the function, and how far behind its begin. */
static int parse_function(struct rut_resolve *r, char *name, size_t size, uint64_t *ret_offset)
{
	char *plus, *end;

	*ret_offset = 0;
	if (r->nparts < 2 || r->nparts > 3)
		return rut_probe_error(r, "a function of the kernel is %s:FUNCTION", r->parts[0]);
	snprintf(name, size, "%s", r->parts[r->nparts - 1]);
	plus = strchr(name, '+');
	if (!plus)
		return 0;
	*plus = 0;
	*ret_offset = strtoull(plus + 1, &end, 0);
	if (*end || end == plus + 1)
		return rut_probe_error(r, "'%s' is not a number", plus + 1);
	if (r->kind->kind != RUT_PROBE_KPROBE)
		return rut_probe_error(r, "only kprobe takes an offset");
	return 0;
}

struct functions {
	struct rut_resolve *r;
	uint64_t offset;
	int (*add)(struct functions *f, const char *name, uint32_t btf_id);
	size_t found;
};

static int add_kprobe(struct functions *f, const char *name, uint32_t btf_id)
{
	struct rut_script_attach a = {.event = keep(f->r, name), .offset = f->offset};
	char text[300];
	int rc;

	if (f->offset)
		snprintf(text, sizeof(text), "%s:%s+%llu", f->r->kind->name, name,
			 (unsigned long long)f->offset);
	else
		snprintf(text, sizeof(text), "%s:%s", f->r->kind->name, name);
	a.name = keep(f->r, text);
	rc = rut_probe_add(f->r, a, NULL, false);
	if (!rc && !f->r->ctxs[f->r->n - 1].function)
		f->r->ctxs[f->r->n - 1].function = a.event;
	return rc;
}

/* Each function is a program of its own, since its arguments are. */
static int add_fentry(struct functions *f, const char *name, uint32_t btf_id)
{
	struct rut_script_attach a = {.event = keep(f->r, name)};
	struct rut_probe_ctx *ctx;
	const struct rut_type *args;
	char text[300];
	int rc;

	snprintf(text, sizeof(text), "%s:%s", f->r->kind->name, name);
	a.name = keep(f->r, text);
	args = rut_kernel_function_args(f->r->prog, btf_id);
	f->r->split = true;
	rc = rut_probe_add(f->r, a, args, true);
	if (rc)
		return rc;
	ctx = &f->r->ctxs[f->r->n - 1];
	ctx->function = a.event;
	ctx->btf_id = btf_id;
	ctx->retval = rut_kernel_function_result(f->r->prog, btf_id);
	ctx->expected = f->r->kind->kind == RUT_PROBE_FEXIT ? BPF_TRACE_FEXIT : BPF_TRACE_FENTRY;
	return 0;
}

static int each_function(const char *name, uint32_t id, void *arg)
{
	struct functions *f = arg;

	if (++f->found > FUNCTIONS_MAX)
		return rut_probe_error(f->r, "more than %d functions match '%s'", FUNCTIONS_MAX,
				       f->r->spec->text);
	return f->add(f, name, id);
}

struct near_walk {
	struct rut_nearest near;
};

static int near_function(const char *name, uint32_t id, void *arg)
{
	struct near_walk *w = arg;

	rut_nearest_add(&w->near, name);
	return 0;
}

static int no_function(struct rut_resolve *r, const char *name)
{
	struct near_walk w = {{name, strlen(name), "", 0}};

	if (!rut_probe_missing(r, "the kernel has no function '%s'", name))
		return 0;
	rut_kernel_functions(r->prog, "*", near_function, &w);
	if (w.near.name[0])
		rut_source_hint(&r->prog->src, "did you mean '%s'?", w.near.name);
	return -EINVAL;
}

bool rut_probe_has_kprobes(void)
{
	return !access(KPROBE_EVENTS, F_OK);
}

int rut_resolve_kprobe(struct rut_resolve *r)
{
	struct functions f = {.r = r, .add = add_kprobe};
	char name[256];
	int rc;

	if (!rut_probe_has_kprobes())
		return refuse(r, "CONFIG_KPROBE_EVENTS");
	rc = parse_function(r, name, sizeof(name), &f.offset);
	if (rc)
		return rc;
	/* The kernel knows more names than BTF has: it says itself what it does not know. */
	if (!strpbrk(name, "*?["))
		return add_kprobe(&f, name, 0);
	rc = rut_kernel_functions(r->prog, name, each_function, &f);
	return rc || f.found ? rc : no_function(r, name);
}

int rut_resolve_fentry(struct rut_resolve *r)
{
	struct functions f = {.r = r, .add = add_fentry};
	char name[256];
	int rc = parse_function(r, name, sizeof(name), &f.offset);

	if (rc)
		return rc;
	if (!rut_kernel_type(r->prog, "struct task_struct"))
		return refuse(r, "CONFIG_DEBUG_INFO_BTF");
	rc = rut_kernel_functions(r->prog, name, each_function, &f);
	return rc || f.found ? rc : no_function(r, name);
}

/* iter:task: the function bpf_iter_task() and its context, struct bpf_iter__task. */
int rut_resolve_iter(struct rut_resolve *r)
{
	struct rut_script_attach a = {.name = r->spec->text};
	struct functions f = {.r = r};
	const struct rut_type *context;
	char name[160];
	uint32_t id;
	int rc;

	if (r->nparts != 2)
		return rut_probe_error(r, r->nparts > 2 ? "iterators cannot be pinned: what they "
							  "print goes to rutile"
							: "an iterator has a name: iter:task");
	snprintf(name, sizeof(name), "struct bpf_iter__%s", r->parts[1]);
	context = rut_kernel_type(r->prog, name);
	snprintf(name, sizeof(name), "bpf_iter_%s", r->parts[1]);
	id = rut_kernel_function(r->prog, name);
	if (!context || !id) {
		rut_probe_error(r, "the kernel has no iterator '%s'", r->parts[1]);
		rut_source_hint(&r->prog->src,
				"iterators are task, task_file, task_vma and others: rutile run "
				"-l 'iter:*'");
		return -EINVAL;
	}
	a.event = keep(r, r->parts[1]);
	rc = rut_probe_add(r, a, NULL, false);
	if (rc)
		return rc;
	f.r->ctxs[0].btf_id = id;
	f.r->ctxs[0].expected = BPF_TRACE_ITER;
	f.r->ctxs[0].context = context;
	return 0;
}

/* watchpoint:ADDRESS:LENGTH:MODE */
int rut_resolve_watchpoint(struct rut_resolve *r)
{
	struct rut_script_attach a = {.name = r->spec->text};
	char *end;

	if (r->nparts != 4)
		return rut_probe_error(r, "a watchpoint is watchpoint:ADDRESS:LENGTH:MODE");
	a.offset = strtoull(r->parts[1], &end, 0);
	if (*end || end == r->parts[1])
		return rut_probe_error(r, "'%s' is not an address", r->parts[1]);
	a.count = strtoull(r->parts[2], &end, 10);
	if (*end || (a.count != 1 && a.count != 2 && a.count != 4 && a.count != 8))
		return rut_probe_error(r, "the length of a watchpoint is 1, 2, 4 or 8");
	for (const char *m = r->parts[3]; *m; m++) {
		uint32_t bit = *m == 'r'   ? HW_BREAKPOINT_R
			       : *m == 'w' ? HW_BREAKPOINT_W
			       : *m == 'x' ? HW_BREAKPOINT_X
					   : 0;

		if (!bit)
			return rut_probe_error(r, "the mode of a watchpoint is of r, w and x");
		a.config |= bit;
	}
	if (!a.config || ((a.config & HW_BREAKPOINT_X) && a.config != HW_BREAKPOINT_X))
		return rut_probe_error(r, "the mode of a watchpoint is r, w, rw or x");
	/* The CPU has no breakpoints of reads alone. */
	if (a.config == HW_BREAKPOINT_R)
		return rut_probe_error(r, "this CPU cannot watch reads alone: use rw");
	if (a.config == HW_BREAKPOINT_X)
		a.count = sizeof(long);
	return rut_probe_add(r, a, NULL, false);
}

/* bench:NAME, test:NAME; they are run in their mode, and are nothing in others. */
int rut_resolve_named(struct rut_resolve *r)
{
	static const enum rut_script_mode modes[] = {
		[RUT_PROBE_BENCH] = RUT_SCRIPT_BENCH,
		[RUT_PROBE_TEST] = RUT_SCRIPT_TEST,
	};
	struct rut_script_attach a = {.name = r->spec->text};

	if (r->nparts != 2 || !r->parts[1][0])
		return rut_probe_error(r, "it has a name: %s:NAME", r->parts[0]);
	a.event = keep(r, r->parts[1]);
	return r->prog->opts.mode == modes[r->kind->kind] ? rut_probe_add(r, a, NULL, false) : 0;
}

/* self:signal:SIGUSR1 */
int rut_resolve_self(struct rut_resolve *r)
{
	struct rut_script_attach a = {.name = r->spec->text};
	int number;

	if (r->nparts != 3 || strcmp(r->parts[1], "signal") != 0)
		return rut_probe_error(r, "a signal to rutile is self:signal:SIGUSR1");
	number = rut_script_signal_number(r->parts[2]);
	if (number < 0)
		return rut_probe_error(r, "there is no signal '%s'", r->parts[2]);
	a.config = (uint32_t)number;
	return rut_probe_add(r, a, NULL, false);
}
