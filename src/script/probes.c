/* SPDX-License-Identifier: MIT */
/* What the name of a probe means: a table of kinds, each with what it makes of the rest. */
#include <errno.h>
#include <fnmatch.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/tracefs.h"
#include "script/check.h"
#include "script/lex.h"
#include "script/btf.h"
#include "script/probes.h"
#include "script/ruby_probe.h"
#include "script/tracefs.h"
#include "script/user.h"

static struct rut_node at_spec(const struct rut_probe_spec *spec)
{
	return (struct rut_node){.span = spec->span};
}

int rut_probe_error(struct rut_resolve *r, const char *fmt, ...)
{
	struct rut_node n = at_spec(r->spec);
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return rut_source_error(&r->prog->src, n.span, "%s", text);
}

int rut_probe_missing(struct rut_resolve *r, const char *fmt, ...)
{
	struct rut_source *src = &r->prog->src;
	const char *rest = strchr(r->spec->text, ':');
	bool warn = r->prog->set.missing_probes == 1;
	char text[600];
	va_list ap;

	if (r->prog->set.missing_probes == 2)
		return 0;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (src->as_bpftrace)
		snprintf(text, sizeof(text), "No matches for %s %s.%s", r->kind->name,
			 rest ? rest + 1 : "", warn ? " Skipping." : "");
	if (!warn)
		return rut_source_error(src, r->spec->span, "%s", text);
	rut_source_warn(src, r->spec->span, "%s", text);
	return 0;
}

static const char *keep(struct rut_resolve *r, const char *s)
{
	const char *copy = rut_arena_strndup(&r->prog->ast.arena, s, strlen(s));

	return copy ? copy : "";
}

uint32_t rut_probe_name(struct rut_script_program *p, const char *name)
{
	const char **names;

	for (size_t i = 0; i < p->nprobes; i++)
		if (!strcmp(p->probes[i], name))
			return (uint32_t)i;
	names = realloc(p->probes, (p->nprobes + 1) * sizeof(*names));
	if (!names)
		return 0;
	p->probes = names;
	names[p->nprobes] = name;
	return (uint32_t)p->nprobes++;
}

int rut_probe_add(struct rut_resolve *r, struct rut_script_attach attach,
		  const struct rut_type *args, bool in_ctx)
{
	struct rut_arena *a = &r->prog->ast.arena;
	struct rut_probe_ctx *ctx;

	attach.kind = r->kind->kind;
	if (!r->n || r->split) {
		r->ctxs = rut_arena_grow(a, r->ctxs, r->n, sizeof(*r->ctxs));
		if (!r->ctxs)
			return -ENOMEM;
		ctx = &r->ctxs[r->n++];
		*ctx = (struct rut_probe_ctx){
			.kind = r->kind->kind,
			.prog_type = r->kind->prog_type,
			.args = args,
			.args_in_ctx = in_ctx,
			.spec = r->spec,
			.probe_index = rut_probe_name(r->prog, attach.name),
		};
	}
	ctx = &r->ctxs[r->n - 1];
	ctx->attach = rut_arena_grow(a, ctx->attach, ctx->nattach, sizeof(*ctx->attach));
	if (!ctx->attach)
		return -ENOMEM;
	ctx->attach[ctx->nattach++] = attach;
	return 0;
}

static int resolve_plain(struct rut_resolve *r)
{
	if (r->nparts > 1)
		return rut_probe_error(r, "'%s' takes nothing behind it", r->parts[0]);
	return rut_probe_add(r, (struct rut_script_attach){.name = r->spec->text}, NULL, false);
}

/* "1s", "s:1", "99" of "hz:99" */
static int parse_period(struct rut_resolve *r, struct rut_script_attach *a)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {{"ns", 1},		{"us", 1000},	       {"ms", 1000000},
		     {"s", 1000000000}, {"m", 60000000000ull}, {"h", 3600000000000ull},
		     {"hz", 0}};
	const bool parts = r->nparts == 2 || r->nparts == 3;
	const char *number = parts ? r->parts[r->nparts - 1] : "", *unit;
	char *end;
	uint64_t v;

	errno = 0;
	v = strtoull(number, &end, 10);
	if (end == number || errno || !v)
		return rut_probe_error(r, "a time is expected: %s:1s, %s:100ms, %s:hz:99",
				       r->parts[0], r->parts[0], r->parts[0]);
	unit = r->nparts == 3 ? r->parts[1] : end;
	if (r->nparts == 3 && *end)
		return rut_probe_error(r, "'%s' is not a number", number);
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strcmp(units[i].unit, unit) != 0)
			continue;
		if (!units[i].ns)
			a->frequency = v;
		else if (v > UINT64_MAX / units[i].ns)
			return rut_probe_error(r, "%s%s is too long", number,
					       r->nparts == 3 ? unit : "");
		else
			a->period_ns = v * units[i].ns;
		return 0;
	}
	return rut_probe_error(r, "'%s' is not a unit of time (us ms s m h hz)", unit);
}

static int resolve_timer(struct rut_resolve *r)
{
	struct rut_script_attach a = {.name = r->spec->text};
	int rc = parse_period(r, &a);

	if (!rc && r->kind->kind == RUT_PROBE_INTERVAL && a.frequency) {
		a.period_ns = 1000000000 / a.frequency;
		a.frequency = 0;
	}
	if (!rc && r->kind->kind == RUT_PROBE_INTERVAL && a.period_ns < 1000)
		rc = rut_probe_error(r, "an interval is at least 1 us");
	return rc ? rc : rut_probe_add(r, a, NULL, false);
}

struct tracepoint_walk {
	struct rut_resolve *r;
	struct rut_err err;
	const char *module; /* RAWTRACEPOINT: NULL: none is named */
	int found;
};

static int add_tracepoint(const char *group, const char *event, void *arg)
{
	struct tracepoint_walk *w = arg;
	struct rut_resolve *r = w->r;
	const struct rut_type *args = NULL;
	struct rut_script_attach a = {.group = keep(r, group), .event = keep(r, event)};
	char name[300];

	w->found++;
	a.one_of = strpbrk(r->spec->text, "*?[") != NULL;
	snprintf(name, sizeof(name), "tracepoint:%s:%s", group, event);
	a.name = keep(r, name);
	if (r->split) {
		args = rut_tracepoint_args(r->prog, group, event, &w->err);
		if (!args)
			return -EINVAL;
	}
	return rut_probe_add(r, a, args, true);
}

struct near_walk {
	struct rut_nearest near;
};

static int near_tracepoint(const char *group, const char *event, void *arg)
{
	struct near_walk *w = arg;

	rut_nearest_add(&w->near, event);
	return 0;
}

static int no_tracefs(struct rut_resolve *r)
{
	struct rut_err err = RUT_ERR_INIT;

	return rut_probe_error(
		r, "%s",
		rut_tracefs_need(&err) ? err.msg : "tracefs cannot be read: rights are missing");
}

static int resolve_tracepoint(struct rut_resolve *r)
{
	struct tracepoint_walk w = {.r = r};
	struct near_walk near = {0};
	int rc;

	if (r->nparts != 3)
		return rut_probe_error(r, "a tracepoint has a category and a name: "
					  "tracepoint:sched:sched_switch");
	rc = rut_tracepoint_match(r->parts[1], r->parts[2], add_tracepoint, &w);
	if (rc == -ENOENT)
		return no_tracefs(r);
	if (rc)
		return rut_probe_error(r, "%s", w.err.code ? w.err.msg : "out of memory");
	if (w.found)
		return 0;
	rc = rut_probe_missing(r, "no tracepoint matches '%s:%s'", r->parts[1], r->parts[2]);
	if (!rc)
		return 0;
	near.near.wanted = r->parts[2];
	near.near.wanted_len = strlen(r->parts[2]);
	rut_tracepoint_match(r->parts[1], "*", near_tracepoint, &near);
	if (near.near.name[0])
		rut_source_hint(&r->prog->src, "did you mean tracepoint:%s:%s?", r->parts[1],
				near.near.name);
	return -EINVAL;
}

/* rawtracepoint:NAME, rawtracepoint:MODULE:NAME */
static int add_raw(const char *group, const char *event, void *arg)
{
	struct tracepoint_walk *w = arg;
	struct rut_resolve *r = w->r;
	struct rut_script_attach a = {.event = keep(r, event)};
	const struct rut_type *args = rut_kernel_rawtp_args(r->prog, event);
	char name[200];

	/* Events of system calls are made of the two of raw_syscalls. */
	if (group && (!args || !strcmp(group, "syscalls")))
		return 0;
	w->found++;
	snprintf(name, sizeof(name), "rawtracepoint:%s", event);
	a.name = keep(r, name);
	return rut_probe_add(r, a, args, true);
}

static bool is_module(const char *name)
{
	char path[300];

	snprintf(path, sizeof(path), "/sys/module/%s", name);
	return !access(path, F_OK);
}

static bool has_btf(struct rut_script_program *p)
{
	return rut_kernel_type(p, "struct task_struct") != NULL;
}

static int resolve_raw(struct rut_resolve *r)
{
	struct tracepoint_walk w = {.r = r};
	const char *event = r->parts[r->nparts - 1];
	int rc;

	if (r->nparts != 2 && r->nparts != 3)
		return rut_probe_error(r,
				       "a raw tracepoint has a name: rawtracepoint:sched_switch");
	w.module = r->nparts == 3 && strcmp(r->parts[1], "vmlinux") != 0 ? r->parts[1] : NULL;
	if (w.module && !strpbrk(w.module, "*?[") && !is_module(w.module))
		return rut_probe_missing(r, "the kernel has no module '%s'", w.module);
	if (!strpbrk(event, "*?[") && (rut_kernel_rawtp_args(r->prog, event) || !has_btf(r->prog)))
		return add_raw(NULL, event, &w);
	rc = rut_tracepoint_match("*", event, add_raw, &w);
	if (rc == -ENOENT)
		return no_tracefs(r);
	/* Modules have their tracepoints' types elsewhere. */
	if (!rc && !w.found && w.module && !strpbrk(event, "*?["))
		return add_raw(NULL, event, &w);
	if (!rc && !w.found && r->prog->src.as_bpftrace && !r->prog->set.missing_probes)
		return rut_source_plain(&r->prog->src, "Probe has no valid attach points.");
	return rc || w.found ? rc : rut_probe_missing(r, "no raw tracepoint matches '%s'", event);
}

struct perf_name {
	const char *name, *other;
	uint32_t config;
	uint64_t count;
};

static const struct perf_name software[] = {
	{"alignment-faults", NULL, PERF_COUNT_SW_ALIGNMENT_FAULTS, 1},
	{"bpf-output", NULL, PERF_COUNT_SW_BPF_OUTPUT, 1},
	{"context-switches", "cs", PERF_COUNT_SW_CONTEXT_SWITCHES, 1000},
	{"cpu-clock", "cpu", PERF_COUNT_SW_CPU_CLOCK, 1000000},
	{"cpu-migrations", NULL, PERF_COUNT_SW_CPU_MIGRATIONS, 1},
	{"dummy", NULL, PERF_COUNT_SW_DUMMY, 1},
	{"emulation-faults", NULL, PERF_COUNT_SW_EMULATION_FAULTS, 1},
	{"major-faults", NULL, PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1},
	{"minor-faults", NULL, PERF_COUNT_SW_PAGE_FAULTS_MIN, 100},
	{"page-faults", "faults", PERF_COUNT_SW_PAGE_FAULTS, 100},
	{"task-clock", NULL, PERF_COUNT_SW_TASK_CLOCK, 1},
};

static const struct perf_name hardware[] = {
	{"backend-stalls", NULL, PERF_COUNT_HW_STALLED_CYCLES_BACKEND, 1000000},
	{"branch-instructions", "branches", PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 100000},
	{"branch-misses", NULL, PERF_COUNT_HW_BRANCH_MISSES, 100000},
	{"bus-cycles", NULL, PERF_COUNT_HW_BUS_CYCLES, 100000},
	{"cache-misses", NULL, PERF_COUNT_HW_CACHE_MISSES, 1000000},
	{"cache-references", NULL, PERF_COUNT_HW_CACHE_REFERENCES, 1000000},
	{"cpu-cycles", "cycles", PERF_COUNT_HW_CPU_CYCLES, 1000000},
	{"frontend-stalls", NULL, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, 1000000},
	{"instructions", NULL, PERF_COUNT_HW_INSTRUCTIONS, 1000000},
	{"ref-cycles", NULL, PERF_COUNT_HW_REF_CPU_CYCLES, 1000000},
};

static int resolve_perf(struct rut_resolve *r, const struct perf_name *names, size_t n)
{
	struct rut_script_attach a = {.name = r->spec->text};
	struct rut_nearest near = {"", 0, "", 0};

	if (r->nparts < 2 || r->nparts > 3)
		return rut_probe_error(r, "an event has a name and a count: %s:%s:%llu",
				       r->parts[0], names[0].name,
				       (unsigned long long)names[0].count);
	near.wanted = r->parts[1];
	near.wanted_len = strlen(r->parts[1]);
	for (size_t i = 0; i < n; i++) {
		rut_nearest_add(&near, names[i].name);
		if (strcmp(names[i].name, r->parts[1]) != 0 &&
		    (!names[i].other || strcmp(names[i].other, r->parts[1]) != 0))
			continue;
		a.config = names[i].config;
		a.count = names[i].count;
		if (r->nparts == 3) {
			if (*r->parts[2] && (!rut_lex_number(r->parts[2], &a.count) || !a.count))
				return rut_probe_error(r, "'%s' is not a count", r->parts[2]);
		}
		return rut_probe_add(r, a, NULL, false);
	}
	rut_probe_error(r, "there is no %s event '%s'", r->parts[0], r->parts[1]);
	if (near.name[0])
		rut_source_hint(&r->prog->src, "did you mean '%s'?", near.name);
	return -EINVAL;
}

static void put_perf_name(struct rut_buf *out, const char *kind, const struct perf_name *name,
			  const char *pattern)
{
	if (!fnmatch(pattern, name->name, 0))
		rut_buf_printf(out, "%s:%s:\n", kind, name->name);
	if (name->other && !fnmatch(pattern, name->other, 0))
		rut_buf_printf(out, "%s:%s:\n", kind, name->other);
}

int rut_probe_list_perf(const char *kind, const char *pattern, struct rut_buf *out)
{
	static const struct {
		const char *name;
		const struct perf_name *list;
		size_t n;
	} all[] = {{"software", software, sizeof(software) / sizeof(*software)},
		   {"hardware", hardware, sizeof(hardware) / sizeof(*hardware)}};
	int found = 0;

	for (size_t k = 0; k < 2; k++) {
		if (fnmatch(kind, all[k].name, 0))
			continue;
		found = 1;
		for (size_t i = 0; i < all[k].n; i++)
			put_perf_name(out, all[k].name, &all[k].list[i], pattern);
	}
	return found;
}

static int resolve_software(struct rut_resolve *r)
{
	return resolve_perf(r, software, sizeof(software) / sizeof(*software));
}

static int resolve_hardware(struct rut_resolve *r)
{
	return resolve_perf(r, hardware, sizeof(hardware) / sizeof(*hardware));
}

static const struct rut_probe_kind_desc kinds[] = {
	{"begin", "BEGIN", RUT_PROBE_BEGIN, BPF_PROG_TYPE_RAW_TRACEPOINT, resolve_plain},
	{"end", "END", RUT_PROBE_END, BPF_PROG_TYPE_RAW_TRACEPOINT, resolve_plain},
	{"interval", "i", RUT_PROBE_INTERVAL, BPF_PROG_TYPE_RAW_TRACEPOINT, resolve_timer},
	{"profile", "p", RUT_PROBE_PROFILE, BPF_PROG_TYPE_PERF_EVENT, resolve_timer},
	{"tracepoint", "t", RUT_PROBE_TRACEPOINT, BPF_PROG_TYPE_TRACEPOINT, resolve_tracepoint},
	{"rawtracepoint", "rt", RUT_PROBE_RAWTRACEPOINT, BPF_PROG_TYPE_RAW_TRACEPOINT, resolve_raw},
	{"software", "s", RUT_PROBE_SOFTWARE, BPF_PROG_TYPE_PERF_EVENT, resolve_software},
	{"hardware", "h", RUT_PROBE_HARDWARE, BPF_PROG_TYPE_PERF_EVENT, resolve_hardware},
	{"uprobe", "u", RUT_PROBE_UPROBE, BPF_PROG_TYPE_KPROBE, rut_resolve_uprobe},
	{"uretprobe", "ur", RUT_PROBE_URETPROBE, BPF_PROG_TYPE_KPROBE, rut_resolve_uprobe},
	{"usdt", "U", RUT_PROBE_USDT, BPF_PROG_TYPE_KPROBE, rut_resolve_usdt},
	{"kprobe", "k", RUT_PROBE_KPROBE, BPF_PROG_TYPE_KPROBE, rut_resolve_kprobe},
	{"kretprobe", "kr", RUT_PROBE_KRETPROBE, BPF_PROG_TYPE_KPROBE, rut_resolve_kprobe},
	{"fentry", "f", RUT_PROBE_FENTRY, BPF_PROG_TYPE_TRACING, rut_resolve_fentry},
	{"fexit", "fr", RUT_PROBE_FEXIT, BPF_PROG_TYPE_TRACING, rut_resolve_fentry},
	{"kfunc", "kfunc", RUT_PROBE_FENTRY, BPF_PROG_TYPE_TRACING, rut_resolve_fentry},
	{"kretfunc", "kretfunc", RUT_PROBE_FEXIT, BPF_PROG_TYPE_TRACING, rut_resolve_fentry},
	{"iter", "it", RUT_PROBE_ITER, BPF_PROG_TYPE_TRACING, rut_resolve_iter},
	{"watchpoint", "w", RUT_PROBE_WATCHPOINT, BPF_PROG_TYPE_PERF_EVENT, rut_resolve_watchpoint},
	{"self", "self", RUT_PROBE_SIGNAL, BPF_PROG_TYPE_RAW_TRACEPOINT, rut_resolve_self},
	{"bench", "bench", RUT_PROBE_BENCH, BPF_PROG_TYPE_RAW_TRACEPOINT, rut_resolve_named},
	{"test", "test", RUT_PROBE_TEST, BPF_PROG_TYPE_RAW_TRACEPOINT, rut_resolve_named},
	{"ruby", "ruby", RUT_PROBE_RUBY, BPF_PROG_TYPE_KPROBE, rut_resolve_ruby},
};

uint32_t rut_probe_prog_type(enum rut_probe_kind kind)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kinds[i].kind == kind)
			return kinds[i].prog_type;
	return BPF_PROG_TYPE_UNSPEC;
}

const char *rut_probe_kind_name(enum rut_probe_kind kind)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kinds[i].kind == kind)
			return kinds[i].name;
	return "";
}

static int unknown_kind(struct rut_resolve *r)
{
	struct rut_nearest near = {r->parts[0], strlen(r->parts[0]), "", 0};

	rut_probe_error(r, "there is no kind of probe '%s'", r->parts[0]);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		rut_nearest_add(&near, kinds[i].name);
	if (near.name[0])
		rut_source_hint(&r->prog->src, "did you mean '%s'?", near.name);
	else
		rut_source_hint(&r->prog->src,
				"kinds are begin, end, interval, profile, tracepoint, "
				"rawtracepoint, software, hardware, uprobe, "
				"uretprobe, usdt, kprobe, kretprobe, fentry, fexit, iter, "
				"watchpoint, self and ruby");
	return -EINVAL;
}

int rut_probe_resolve(struct rut_script_program *p, const struct rut_probe_spec *spec, bool split,
		      struct rut_probe_ctx **ret, size_t *ret_n)
{
	struct rut_resolve r = {.prog = p, .spec = spec, .split = split};
	char *copy = rut_arena_strndup(&p->ast.arena, spec->text, strlen(spec->text));
	int rc = -EINVAL;

	if (!copy)
		return -ENOMEM;
	for (char *s = copy; r.nparts < RUT_PROBE_PARTS;) {
		char *colon = strchr(s, ':');

		r.parts[r.nparts++] = s;
		if (!colon)
			break;
		if (r.nparts < RUT_PROBE_PARTS)
			*colon = 0;
		s = colon + 1;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && !r.kind; i++)
		if (!strcmp(kinds[i].name, r.parts[0]) || !strcmp(kinds[i].other, r.parts[0]))
			r.kind = &kinds[i];
	rc = r.kind ? r.kind->resolve(&r) : unknown_kind(&r);
	*ret = r.ctxs;
	*ret_n = r.n;
	return rc;
}

static bool mentions(const struct rut_node *n)
{
	for (; n; n = n->next) {
		if (n->kind == RUT_N_NAME &&
		    (!strcmp(n->text, "args") || !strcmp(n->text, "probe") ||
		     !strcmp(n->text, "func")))
			return true;
		if (n->kind == RUT_N_CALL && !strcmp(n->text, "uaddr"))
			return true;
		if ((n->a && mentions(n->a)) || (n->b && mentions(n->b)) ||
		    (n->c && mentions(n->c)) || (n->d && mentions(n->d)) ||
		    (n->list && mentions(n->list)))
			return true;
	}
	return false;
}

bool rut_probe_needs_event(const struct rut_probe *p)
{
	return mentions(p->predicate) || mentions(p->body);
}
