/* SPDX-License-Identifier: MIT */
/*
 * Lists probes: a table of kinds, each with what lists its probes. A pattern is that of a probe
 * ("tracepoint:sched:*"), one without a kind is compared with whole names, and "struct NAME" shows
 * a type of the kernel. Several are separated by commas.
 */
#include "script/list.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "script/btf.h"
#include "script/check.h"
#include "script/config.h"
#include "script/probes.h"
#include "script/tracefs.h"

struct listing {
	struct rut_script_program *p;
	struct rut_buf *out;
	const struct rut_script_list_opts *opts;
	const char *kind;  /* of the table */
	const char *whole; /* a pattern of whole names; NULL: there is none */
	const char *rest;  /* what stands behind the kind */
	bool exact;	   /* the kind was named, not matched */
	struct rut_err *err;
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

/* Adds the name; false: it is not wanted. */
static bool put_name(struct listing *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool put_name(struct listing *l, const char *fmt, ...)
{
	char name[700];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	if (l->whole && fnmatch(l->whole, name, 0))
		return false;
	rut_buf_printf(l->out, "%s\n", name);
	return true;
}

static int put_tracepoint(const char *group, const char *event, void *arg)
{
	struct listing *l = arg;

	if (put_name(l, "tracepoint:%s:%s", group, event) && l->opts->args)
		put_args(l, rut_tracepoint_args(l->p, group, event, NULL), true);
	return 0;
}

static int list_tracepoints(struct listing *l)
{
	const char *event = strchr(l->rest, ':');
	char group[128];

	snprintf(group, sizeof(group), "%.*s", event ? (int)(event - l->rest) : 127, l->rest);
	rut_tracepoint_match(group, event ? event + 1 : "*", put_tracepoint, l);
	return 0;
}

static int put_raw(const char *group, const char *event, void *arg)
{
	struct listing *l = arg;
	const struct rut_type *args;

	if (!strcmp(group, "syscalls"))
		return 0;
	args = rut_kernel_rawtp_args(l->p, event);
	if (args && put_name(l, "rawtracepoint:%s", event) && l->opts->args)
		put_args(l, args, false);
	return 0;
}

static int list_raw(struct listing *l)
{
	const char *event = strchr(l->rest, ':');

	rut_tracepoint_match("*", event ? event + 1 : l->rest, put_raw, l);
	return 0;
}

static int list_perf(struct listing *l)
{
	_cleanup_buf_ struct rut_buf all = RUT_BUF_INIT;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(l->rest, ":"), l->rest);
	rut_probe_list_perf(l->kind, name, &all);
	for (char *line = all.data, *end; line && *line; line = end) {
		end = strchrnul(line, '\n');
		if (*end)
			*end++ = 0;
		put_name(l, "%s", line);
	}
	return 0;
}

static int list_timers(struct listing *l)
{
	static const char *const units[] = {"hz", "us", "ms", "s"};
	char unit[16];

	/* "ms:100", "ms", "*" and "100ms" */
	snprintf(unit, sizeof(unit), "%.*s", (int)strcspn(l->rest, ":"), l->rest);
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (!fnmatch(unit + strspn(unit, "0123456789"), units[i], 0) || !unit[0])
			put_name(l, "%s:%s:", l->kind, units[i]);
	return 0;
}

static int put_function(const char *name, uint32_t id, void *arg)
{
	struct listing *l = arg;
	bool is_fentry = l->kind[0] == 'f', is_return = strchr(l->kind, 'x') != NULL;

	/* BTF names whatever is called once for each file that has it. */
	if (!put_name(l, is_fentry ? "%s:vmlinux:%s" : "%s:%s", l->kind, name) || !l->opts->args)
		return 0;
	put_args(l, rut_kernel_function_args(l->p, id), false);
	if (is_return && rut_kernel_function_result(l->p, id)) {
		_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

		rut_buf_printf(l->out, "    %s retval\n",
			       rut_type_text(rut_kernel_function_result(l->p, id), &text));
	}
	return 0;
}

static int list_functions(struct listing *l)
{
	const char *module = strchr(l->rest, ':');

	if (!rut_kernel_type(l->p, "struct task_struct"))
		return l->exact ? rut_err_set(l->err, ENOTSUP,
					      "the kernel has no BTF, which names its functions")
				: 0;
	return rut_kernel_functions(l->p, module ? module + 1 : l->rest, put_function, l);
}

static int put_iterator(const char *name, uint32_t id, void *arg)
{
	struct listing *l = arg;
	char type[160];

	name += strlen("bpf_iter_");
	snprintf(type, sizeof(type), "struct bpf_iter__%s", name);
	if (rut_kernel_type(l->p, type))
		put_name(l, "iter:%s", name);
	return 0;
}

static int list_iterators(struct listing *l)
{
	char pattern[160];

	snprintf(pattern, sizeof(pattern), "bpf_iter_%s", l->rest);
	return rut_kernel_functions(l->p, pattern, put_iterator, l);
}

/* Functions and static tracepoints of files: what the compiler resolves the name to. */
static int list_user(struct listing *l)
{
	struct rut_probe_spec spec = {0};
	struct rut_probe_ctx *ctxs = NULL;
	const char *shown = "";
	char text[700];
	size_t n = 0;
	int rc;

	/* Without a file, or a process, there is no end of them. */
	if (!l->exact && !strchr(l->rest, ':') && !l->opts->pid)
		return 0;
	snprintf(text, sizeof(text), "%s:%s", l->kind,
		 !strcmp(l->rest, "*") && l->opts->pid ? "*:*" : l->rest);
	spec.text = text;
	rut_source_init(&l->p->src, "-l", text, strlen(text));
	spec.span.len = (uint32_t)strlen(text);
	rc = rut_probe_resolve(l->p, &spec, true, &ctxs, &n);
	if (rc && l->exact)
		rc = rut_err_set(l->err, EINVAL, "%s", l->p->src.messages.data);
	rut_source_fini(&l->p->src);
	for (size_t i = 0; i < n && (!rc || !l->exact); i++)
		for (size_t k = 0; k < ctxs[i].nattach; k++) {
			if (strcmp(ctxs[i].attach[k].name, shown) != 0)
				put_name(l, "%s", ctxs[i].attach[k].name);
			shown = ctxs[i].attach[k].name;
		}
	return l->exact ? rc : 0;
}

static const struct kind {
	const char *name, *other;
	int (*list)(struct listing *l);
} kinds[] = {
	{"tracepoint", "t", list_tracepoints}, {"rawtracepoint", "rt", list_raw},
	{"software", "s", list_perf},	       {"hardware", "h", list_perf},
	{"interval", "i", list_timers},	       {"profile", "p", list_timers},
	{"iter", "it", list_iterators},	       {"kprobe", "k", list_functions},
	{"kretprobe", "kr", list_functions},   {"fentry", "f", list_functions},
	{"fexit", "fr", list_functions},       {"uprobe", "u", list_user},
	{"uretprobe", "ur", list_user},	       {"usdt", "U", list_user},
};

enum { NKINDS = sizeof(kinds) / sizeof(*kinds) };

/* The kernel was built without these, so that none of them can be attached. */
static bool is_missing(const struct kind *k)
{
	return k->list == list_functions && k->name[0] == 'k' && !rut_probe_has_kprobes();
}

/* begin, end, self, bench, test, watchpoint: nothing of the machine, but known. */
static bool is_plain(const char *kind)
{
	static const char *const plain[] = {"begin", "BEGIN", "end",  "END",	    "self",
					    "bench", "test",  "ruby", "watchpoint", "w"};

	for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
		if (!strcmp(plain[i], kind))
			return true;
	return false;
}

static int list_one(struct listing *l, const char *pattern)
{
	const char *colon = strchr(pattern, ':');
	bool found = false;
	char name[64];
	int rc = 0;

	snprintf(name, sizeof(name), "%.*s", colon ? (int)(colon - pattern) : 63, pattern);
	l->whole = NULL;
	if (!colon && strpbrk(pattern, "*?[") && strcmp(pattern, "*") != 0)
		l->whole = pattern;
	for (size_t i = 0; i < NKINDS && !rc; i++) {
		l->exact = !strcmp(name, kinds[i].name) || !strcmp(name, kinds[i].other);
		if (!l->exact && !l->whole && fnmatch(name, kinds[i].name, 0))
			continue;
		found = true;
		if (is_missing(&kinds[i])) {
			if (l->exact)
				return rut_err_set(l->err, ENOTSUP,
						   "cannot list %s: this kernel was built without "
						   "what it needs (CONFIG_KPROBE_EVENTS)",
						   kinds[i].name);
			continue;
		}
		l->kind = kinds[i].name;
		l->rest = l->whole || !colon || !colon[1] ? "*" : colon + 1;
		rc = kinds[i].list(l);
	}
	if (found || is_plain(name))
		return rc;
	return rut_err_set(l->err, ENOENT, "there is no kind of probe '%s'", name);
}

/* "struct task_struct": its fields, as C has them. */
static int list_type(struct listing *l, const char *pattern)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	const struct rut_type *t = rut_kernel_type(l->p, pattern);

	if (!t)
		return rut_err_set(l->err, ENOENT, "the kernel has no '%s'", pattern);
	rut_buf_printf(l->out, "vmlinux: %s", pattern);
	if (!l->opts->args) {
		rut_buf_putc(l->out, '\n');
		return 0;
	}
	rut_buf_puts(l->out, " {\n");
	rut_check_complete(l->p, t);
	for (uint32_t i = 0; i < t->nenumerators; i++)
		rut_buf_printf(l->out, "        %s = %lld,\n", t->enumerators[i].name,
			       (long long)t->enumerators[i].value);
	for (uint32_t i = 0; i < t->nfields; i++) {
		const struct rut_type_field *f = &t->fields[i];
		const struct rut_type *of = f->type;

		while (of->kind == RUT_T_ARRAY && of->elem)
			of = of->elem;
		rut_buf_printf(l->out, "        %s %s", rut_type_text(of, &text), f->name);
		for (of = f->type; of->kind == RUT_T_ARRAY && of->elem; of = of->elem)
			rut_buf_printf(l->out, "[%u]", of->count);
		rut_buf_puts(l->out, ";\n");
	}
	rut_buf_puts(l->out, "};\n\n");
	return 0;
}

static int list_pattern(struct listing *l, const char *pattern)
{
	if (!strncmp(pattern, "struct ", 7) || !strncmp(pattern, "union ", 6) ||
	    !strncmp(pattern, "enum ", 5))
		return list_type(l, pattern);
	return list_one(l, pattern);
}

/* The probes that a script names. */
static int list_script(struct listing *l)
{
	struct rut_script_program *p = l->p;
	_cleanup_free_ char *text = strdup(l->opts->text); /* imports append to it */
	struct rut_source src;
	int rc;

	if (!text)
		return rut_err_set(l->err, ENOMEM, "out of memory");
	rut_source_init(&src, l->opts->name, text, strlen(text));
	src.owner = &text;
	rc = rut_parse(&p->ast, &src, NULL, 0);
	if (rc)
		rc = rut_err_set(l->err, EINVAL, "%s",
				 src.messages.data ? src.messages.data : "out of memory");
	for (struct rut_probe *probe = p->ast.probes; probe && !rc; probe = probe->next)
		for (struct rut_probe_spec *s = probe->specs; s && !rc; s = s->next)
			rc = list_one(l, s->text);
	rut_source_fini(&src);
	return rc;
}

int rut_script_list(const struct rut_script_list_opts *opts, struct rut_buf *out,
		    struct rut_err *err)
{
	struct rut_script_program p = {.opts.pid = opts->pid};
	struct listing l = {.p = &p, .out = out, .opts = opts, .err = err};
	char *copy = strdup(opts->pattern ? opts->pattern : "*"), *rest = copy, *one;
	int rc = copy ? 0 : rut_err_set(err, ENOMEM, "out of memory");

	rut_config_init(&p.set, 0);
	rut_arena_init(&p.ast.arena, 256u << 20);
	if (!rc && opts->text) {
		rut_arena_fini(&p.ast.arena);
		rc = list_script(&l);
	}
	while (!rc && !opts->text && (one = strsep(&rest, ",")))
		rc = list_pattern(&l, one + strspn(one, " "));
	rut_btf_close(p.btf);
	rut_ast_fini(&p.ast);
	free(p.probes);
	free(copy);
	return rc;
}
