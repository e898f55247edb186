/* SPDX-License-Identifier: MIT */
#include "script/portable.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/hash.h"
#include "ebpf/asm.h"
#include "rut_config.h"
#include "script/check.h"
#include "script/fact.h"
#include "script/format.h"
#include "script/portable_insns.h"
#include "script/portable_type.h"
#include "script/script.h"

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#else
#define MACHINE EM_AARCH64
#endif

static const char magic[8] = {'\x7f', 'R', 'B', 'C', '\r', '\n', '\x1a', '\n'};

struct header {
	char magic[8];
	uint32_t format, machine;
	char version[32];
	uint64_t digest, bytes;
};

enum { FORMAT = 3, INSNS_MAX = 1 << 20, BYTES_MAX = 1 << 26 };

/* What is read or written, and the types so far. */
struct coder {
	struct rut_codec c;
	struct rut_portable_types types;
	struct rut_script_program *p;
};

/*
 * An owned array of `n` elements. Reading makes it, zeroed; writing leaves it as it is. Returns how
 * many there are to code.
 */
static size_t code_array(struct coder *x, void *array, size_t *n, size_t elem, size_t least)
{
	void **at = array;

	rut_codec_count(&x->c, n, least);
	if (x->c.writing)
		return *n;
	*at = calloc(*n + 1, elem);
	if (!*at) {
		x->c.failed = true;
		*n = 0;
	}
	return *n;
}

static void code_span(struct coder *x, struct rut_span *s)
{
	rut_codec_u32(&x->c, &s->pos);
	rut_codec_u32(&x->c, &s->len);
	/* It is text that is shown. */
	if (s->pos > x->p->src.whole)
		x->c.failed = true;
}

static void must(struct coder *x, bool condition)
{
	x->c.failed |= !condition;
}

/* ---- The parts ---- */

/* The lines that messages may cite; all others are blank, and every position is what it was. */
static char *cited_text(const struct rut_script_program *p)
{
	size_t len = p->src.whole;
	char *out = malloc(len + 1);
	_cleanup_free_ bool *cited = calloc(1, len + 1);

	if (!out || !cited) {
		free(out);
		return NULL;
	}
	for (size_t i = 0; i < p->nprogs; i++) {
		cited[p->progs[i].span.pos] = true;
		for (size_t k = 0; k < p->progs[i].ninsns; k++)
			if (p->progs[i].places[k] <= len)
				cited[p->progs[i].places[k]] = true;
	}
	for (size_t i = 0; i < p->nsites; i++)
		cited[p->sites[i].span.pos] = true;
	for (size_t i = 0; i < p->nfacts; i++)
		cited[p->facts[i].span.pos] = true;
	for (size_t i = 0; i < p->nactions; i++)
		cited[p->actions[i].pos] = true;
	for (size_t line = 0, end; line < len; line = end + 1) {
		bool any = false;

		for (end = line; end < len && p->src.text[end] != '\n'; end++)
			any |= cited[end];
		for (size_t i = line; i < end; i++)
			out[i] = any ? p->src.text[i] : ' ';
		if (end < len)
			out[end] = '\n';
	}
	out[len] = '\0';
	return out;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void code_source(struct coder *x)
{
	struct rut_script_program *p = x->p;
	const char *name = x->c.writing ? base_name(p->src.name) : NULL, *text = NULL;
	_cleanup_free_ char *cited = x->c.writing ? cited_text(p) : NULL;
	size_t nparts = p->src.nparts;

	must(x, !x->c.writing || cited);
	text = cited;
	rut_codec_text(&x->c, &name);
	rut_codec_text(&x->c, &text);
	rut_codec_count(&x->c, &nparts, 8);
	if (!x->c.writing) {
		must(x, name && text && nparts <= sizeof(p->src.parts) / sizeof(*p->src.parts));
		p->text = strdup(text ? text : "");
		must(x, p->text);
		rut_source_init(&p->src, name ? name : "", p->text ? p->text : "",
				p->text ? strlen(p->text) : 0);
		p->src.nparts = x->c.failed ? 0 : (unsigned)nparts;
	}
	for (unsigned i = 0; i < p->src.nparts; i++) {
		rut_codec_u32(&x->c, &p->src.parts[i].begin);
		rut_codec_text(&x->c, &p->src.parts[i].name);
		must(x, p->src.parts[i].name && p->src.parts[i].begin <= p->src.whole);
	}
	if (x->c.failed && !x->c.writing)
		p->src.nparts = 0;
}

static void code_settings(struct coder *x)
{
	struct rut_script_program *p = x->p;
	struct rut_script_settings *s = &p->set;

	rut_codec_u32(&x->c, &s->max_strlen);
	rut_codec_u32(&x->c, &s->max_map_keys);
	rut_codec_u32(&x->c, &s->max_cat_bytes);
	rut_codec_u32(&x->c, &s->print_maps_on_exit);
	rut_codec_u32(&x->c, &s->stack_mode);
	rut_codec_u32(&x->c, &s->cpp_demangle);
	rut_codec_u32(&x->c, &s->license);
	rut_codec_u32(&x->c, &s->missing_probes);
	rut_codec_text(&x->c, &s->trailer);
	rut_codec_u32(&x->c, &p->opts.compat);
	rut_codec_bool(&x->c, &p->opts.session);
	rut_codec_u32(&x->c, &p->record_max);
	rut_codec_u32(&x->c, &p->scratch_bytes);
	rut_codec_u32(&x->c, &p->zeros_bytes);
	rut_codec_bool(&x->c, &p->needs_stacks);
	rut_codec_bool(&x->c, &p->freezes);
	must(x, p->record_max < BYTES_MAX && p->scratch_bytes < BYTES_MAX &&
			p->zeros_bytes < BYTES_MAX && s->max_strlen < BYTES_MAX);
}

static void code_tables(struct coder *x)
{
	size_t n = code_array(x, &x->p->tables, &x->p->tables_bytes, 1, 1);

	if (n)
		rut_codec_bytes(&x->c, x->p->tables, n);
}

static void code_texts(struct coder *x, const char ***list, size_t *count)
{
	size_t n = code_array(x, list, count, sizeof(**list), 4);

	for (size_t i = 0; i < n; i++) {
		rut_codec_text(&x->c, &(*list)[i]);
		must(x, (*list)[i]);
	}
}

static void code_map(struct coder *x, struct rut_script_map *m)
{
	rut_codec_text(&x->c, &m->name);
	rut_portable_type(&x->c, &x->types, &m->key);
	rut_portable_type(&x->c, &x->types, &m->value);
	rut_codec_bool(&x->c, &m->per_cpu);
	rut_codec_bool(&x->c, &m->is_lru);
	rut_codec_bool(&x->c, &m->is_array);
	rut_codec_u32(&x->c, &m->uses);
	rut_codec_u32(&x->c, &m->set_at);
	rut_codec_u32(&x->c, &m->max_entries);
	rut_codec_u32(&x->c, &m->key_bytes);
	rut_codec_u32(&x->c, &m->value_bytes);
	rut_codec_u32(&x->c, &m->line);
	rut_codec_u32(&x->c, &m->column);
	if (x->c.writing)
		return;
	m->fd = -1;
	must(x, m->name && m->name[0] == '@');
	must(x, m->value_bytes < BYTES_MAX && m->key_bytes < BYTES_MAX && m->value_bytes >= 8);
	must(x, !m->key || (m->key->size <= m->key_bytes && !rut_type_is_agg(m->key)));
	must(x, !m->value || m->value->size <= m->value_bytes);
	must(x, m->per_cpu == (m->value && rut_type_is_agg(m->value)));
	must(x, !m->set_at || m->set_at <= m->value_bytes - 8);
}

static void code_maps(struct coder *x)
{
	size_t n = code_array(x, &x->p->maps, &x->p->nmaps, sizeof(*x->p->maps), 32);

	for (size_t i = 0; i < n; i++)
		code_map(x, &x->p->maps[i]);
}

static void code_sites(struct coder *x)
{
	size_t n = code_array(x, &x->p->sites, &x->p->nsites, sizeof(*x->p->sites), 12);

	for (size_t i = 0; i < n; i++) {
		uint32_t kind = x->p->sites[i].kind;

		rut_codec_index(&x->c, &kind, RUT_SITE_DELETE + 1);
		x->p->sites[i].kind = (enum rut_site_kind)kind;
		code_span(x, &x->p->sites[i].span);
	}
}

/* ---- Actions ---- */

/*
 * A type of the action's own, with room for `n` keys behind the fields: the file may refer to the
 * same type elsewhere, where there are fewer or none. NULL: out of memory.
 */
static struct rut_type *own_type(struct coder *x, const struct rut_type *args, size_t n)
{
	struct rut_type *own = rut_arena_alloc(x->c.arena, sizeof(*own));
	struct rut_type_field *fields =
		rut_arena_alloc(x->c.arena, (n + args->nfields) * sizeof(*fields));

	if (!own || !fields)
		return NULL;
	if (args->nfields)
		memcpy(fields, args->fields, args->nfields * sizeof(*fields));
	*own = *args;
	own->fields = fields;
	return own;
}

/* The keys of p99(@x[key]) are behind the fields that are shown. */
static void code_quantiles(struct coder *x, struct rut_script_action *a)
{
	struct rut_script_quantile *list = (struct rut_script_quantile *)(uintptr_t)a->quantiles;
	const struct rut_type *args = a->args;
	size_t n = a->nquantiles;

	rut_codec_count(&x->c, &n, 16);
	if (!x->c.writing && n) {
		args = args && !x->c.failed ? own_type(x, args, n) : NULL;
		list = rut_arena_alloc(x->c.arena, n * sizeof(*list));
		must(x, list && args);
		if (x->c.failed)
			return;
		a->args = args;
		a->quantiles = list;
		a->nquantiles = (uint32_t)n;
	}
	for (size_t i = 0; i < n && !x->c.failed; i++) {
		struct rut_type_field *key = &args->fields[args->nfields + i];
		const struct rut_script_map *m;

		rut_codec_index(&x->c, &list[i].field, args->nfields);
		rut_codec_index(&x->c, &list[i].map, x->p->nmaps);
		rut_codec_u32(&x->c, &list[i].permille);
		rut_codec_u32(&x->c, &key->offset);
		m = &x->p->maps[list[i].map];
		must(x, !x->c.failed && m->value &&
				(m->value->kind == RUT_T_HIST || m->value->kind == RUT_T_LHIST) &&
				key->offset <= args->size &&
				m->key_bytes <= args->size - key->offset &&
				args->fields[list[i].field].type->kind == RUT_T_INT &&
				args->fields[list[i].field].type->size == 8);
	}
}

/* What the output relies on, by kind. */
static bool is_sane_action(const struct rut_script_program *p, const struct rut_script_action *a)
{
	const struct rut_type *args = a->args,
			      *first = args && args->nfields ? args->fields[0].type : NULL;
	const struct rut_script_map *m = a->map >= 0 ? &p->maps[a->map] : NULL;

	switch (a->kind) {
	case RUT_ACTION_PRINTF:
	case RUT_ACTION_ERRORF:
	case RUT_ACTION_WARNF:
	case RUT_ACTION_CAT:
	case RUT_ACTION_SYSTEM:
	case RUT_ACTION_RECORD:
		return a->parsed;
	case RUT_ACTION_PRINT_MAP:
	case RUT_ACTION_CLEAR:
	case RUT_ACTION_ZERO:
		return m && m->value;
	case RUT_ACTION_PRINT_KEY:
		return m && m->value && m->key && m->per_cpu && args && args->size >= m->key_bytes;
	case RUT_ACTION_PRINT_VALUE:
		return args && args->nfields;
	case RUT_ACTION_TIME:
		return a->format;
	/* Of scripts that run beside a session. */
	case RUT_ACTION_SNAPSHOT:
	case RUT_ACTION_STOP:
		return false;
	case RUT_ACTION_EXIT:
		return args && args->size >= 8;
	case RUT_ACTION_JOIN:
		return first && first->kind == RUT_T_ARRAY && first->elem->kind == RUT_T_STRING;
	default:
		return true;
	}
}

static void read_action(struct coder *x, struct rut_script_action *a, bool is_parsed)
{
	must(x, !a->args || a->args->kind == RUT_T_TUPLE);
	must(x, a->map >= -1 && (a->map < 0 || (size_t)a->map < x->p->nmaps));
	must(x,
	     a->order >= 0 && a->order <= RUT_SCRIPT_PRINT_KEY_DOWN && a->pos <= x->p->src.whole);
	if (x->c.failed)
		return;
	if (is_parsed)
		must(x, a->format && !rut_script_format_parse(&a->parsed, a->format, a->args, NULL,
							      NULL));
	must(x, is_sane_action(x->p, a));
}

static void code_action(struct coder *x, struct rut_script_action *a)
{
	uint32_t kind = a->kind, map = (uint32_t)a->map, order = (uint32_t)a->order;
	bool is_parsed = a->parsed != NULL;

	rut_codec_index(&x->c, &kind, RUT_ACTION_JOIN + 1);
	rut_codec_text(&x->c, &a->format);
	rut_portable_type(&x->c, &x->types, &a->args);
	rut_codec_bool(&x->c, &is_parsed);
	rut_codec_u32(&x->c, &map);
	rut_codec_i64(&x->c, &a->top);
	rut_codec_i64(&x->c, &a->div);
	rut_codec_text(&x->c, &a->source);
	rut_codec_u32(&x->c, &a->line);
	rut_codec_u32(&x->c, &a->column);
	rut_codec_u32(&x->c, &a->end_column);
	rut_codec_text(&x->c, &a->expanded);
	rut_codec_u32(&x->c, &a->pos);
	rut_codec_u32(&x->c, &order);
	a->kind = (enum rut_script_action_kind)kind;
	a->map = (int)map;
	a->order = (int)order;
	if (!x->c.writing)
		read_action(x, a, is_parsed);
	code_quantiles(x, a);
}

static void code_actions(struct coder *x)
{
	size_t n = code_array(x, &x->p->actions, &x->p->nactions, sizeof(*x->p->actions), 40);

	for (size_t i = 0; i < n && !x->c.failed; i++)
		code_action(x, &x->p->actions[i]);
}

/* ---- Programs ---- */

/* What the kernel is to find there. */
static bool has_names(const struct rut_script_attach *a)
{
	switch (a->kind) {
	case RUT_PROBE_TRACEPOINT:
		return a->group && a->event;
	case RUT_PROBE_RAWTRACEPOINT:
	case RUT_PROBE_KPROBE:
	case RUT_PROBE_KRETPROBE:
	case RUT_PROBE_FENTRY:
	case RUT_PROBE_FEXIT:
	case RUT_PROBE_ITER:
	case RUT_PROBE_BENCH:
	case RUT_PROBE_TEST:
		return a->event;
	case RUT_PROBE_UPROBE:
	case RUT_PROBE_URETPROBE:
		return a->path && a->symbol;
	case RUT_PROBE_USDT:
		return a->path && a->symbol && a->group && a->event;
	case RUT_PROBE_INTERVAL:
		return a->period_ns;
	default:
		return a->kind < RUT_PROBE_RUBY;
	}
}

/* Does the program have the type that the compiler gives those of its probes? */
static bool has_type_of_probes(const struct rut_script_prog *prog)
{
	for (size_t i = 0; i < prog->nattach; i++) {
		enum rut_probe_kind kind = prog->attach[i].kind;
		uint32_t expected = kind == RUT_PROBE_FENTRY  ? BPF_TRACE_FENTRY
				    : kind == RUT_PROBE_FEXIT ? BPF_TRACE_FEXIT
				    : kind == RUT_PROBE_ITER  ? BPF_TRACE_ITER
							      : 0;

		if (prog->type != rut_probe_prog_type(kind) || prog->expected != expected)
			return false;
		/* Sites are found again for the first one, and take the places of all. */
		if ((kind == RUT_PROBE_USDT) != (prog->attach[0].kind == RUT_PROBE_USDT))
			return false;
	}
	return prog->nattach != 0;
}

static void code_attach(struct coder *x, struct rut_script_attach *a)
{
	uint32_t kind = a->kind;

	rut_codec_u32(&x->c, &kind);
	rut_codec_text(&x->c, &a->name);
	rut_codec_u64(&x->c, &a->period_ns);
	rut_codec_u64(&x->c, &a->frequency);
	rut_codec_u32(&x->c, &a->config);
	rut_codec_u64(&x->c, &a->count);
	rut_codec_text(&x->c, &a->group);
	rut_codec_text(&x->c, &a->event);
	rut_codec_text(&x->c, &a->path);
	rut_codec_u64(&x->c, &a->offset);
	rut_codec_u64(&x->c, &a->address);
	rut_codec_u64(&x->c, &a->semaphore);
	rut_codec_text(&x->c, &a->symbol);
	rut_codec_u64(&x->c, &a->plus);
	rut_codec_bool(&x->c, &a->one_of);
	a->kind = (enum rut_probe_kind)kind;
	must(x, a->name && has_names(a));
	/* The kernel adds to its word: static tracepoints have theirs from the binary. */
	must(x, x->c.writing || !a->semaphore || a->kind == RUT_PROBE_USDT);
}

static void code_attaches(struct coder *x, struct rut_script_prog *prog)
{
	rut_codec_count(&x->c, &prog->nattach, 64);
	if (!x->c.writing) {
		prog->attach =
			rut_arena_alloc(x->c.arena, (prog->nattach + 1) * sizeof(*prog->attach));
		must(x, prog->attach);
	}
	for (size_t i = 0; i < prog->nattach && !x->c.failed; i++)
		code_attach(x, &prog->attach[i]);
}

static void code_words(struct coder *x, uint32_t **words, size_t n)
{
	if (!x->c.writing) {
		*words = calloc(n + 1, sizeof(**words));
		must(x, *words && n <= (size_t)(x->c.end - x->c.at) / sizeof(**words));
	}
	if (!x->c.failed)
		rut_codec_bytes(&x->c, *words, n * sizeof(**words));
}

static void code_refs(struct coder *x, struct rut_script_prog *prog)
{
	size_t n = code_array(x, &prog->map_refs, &prog->nmap_refs, sizeof(*prog->map_refs), 8);

	for (size_t i = 0; i < n; i++) {
		struct rut_asm_ref *r = &prog->map_refs[i];

		rut_codec_index(&x->c, &r->insn, prog->ninsns);
		rut_codec_index(&x->c, &r->target, RUT_MAP_USER + x->p->nmaps);
	}
	n = code_array(x, &prog->relos, &prog->nrelos, sizeof(*prog->relos), 8);
	for (size_t i = 0; i < n; i++) {
		rut_codec_index(&x->c, &prog->relos[i].insn, prog->ninsns);
		rut_codec_index(&x->c, &prog->relos[i].fact, x->p->nfacts);
	}
}

static void code_prog(struct coder *x, struct rut_script_prog *prog)
{
	size_t n = code_array(x, &prog->insns, &prog->ninsns, sizeof(*prog->insns),
			      sizeof(*prog->insns));
	uint32_t functions = prog->nfunctions;

	if (!x->c.writing)
		prog->fd = -1;
	must(x, n && n < INSNS_MAX);
	if (x->c.failed)
		return;
	rut_codec_bytes(&x->c, prog->insns, n * sizeof(*prog->insns));
	code_words(x, &prog->places, n);
	for (size_t i = 0; i < n && !x->c.failed; i++)
		must(x, x->c.writing || prog->places[i] <= x->p->src.whole);
	rut_codec_index(&x->c, &functions, n + 1);
	code_words(x, &prog->functions, functions);
	prog->nfunctions = x->c.failed ? 0 : functions;
	for (uint32_t i = 0; i < prog->nfunctions; i++)
		must(x, prog->functions[i] < n);
	code_refs(x, prog);
	must(x, x->c.writing || x->c.failed || rut_portable_insns_are_sane(prog));
	rut_codec_u32(&x->c, &prog->type);
	rut_codec_u32(&x->c, &prog->expected);
	code_span(x, &prog->span);
	code_attaches(x, prog);
	must(x, x->c.writing || x->c.failed || has_type_of_probes(prog));
}

static void code_progs(struct coder *x)
{
	size_t n = code_array(x, &x->p->progs, &x->p->nprogs, sizeof(*x->p->progs), 64);

	/* Those that are not reached have no descriptor either. */
	for (size_t i = 0; i < n && !x->c.writing; i++)
		x->p->progs[i].fd = -1;
	for (size_t i = 0; i < n && !x->c.failed; i++)
		code_prog(x, &x->p->progs[i]);
}

static void code_facts(struct coder *x)
{
	size_t n = code_array(x, &x->p->facts, &x->p->nfacts, sizeof(*x->p->facts), 40);

	for (size_t i = 0; i < n; i++) {
		struct rut_script_fact *f = &x->p->facts[i];
		uint32_t kind = f->kind;

		rut_codec_index(&x->c, &kind, RUT_FACT_KINDS);
		f->kind = (enum rut_fact_kind)kind;
		rut_codec_text(&x->c, &f->group);
		rut_codec_text(&x->c, &f->of);
		rut_codec_text(&x->c, &f->name);
		rut_codec_i64(&x->c, &f->value);
		rut_codec_u32(&x->c, &f->size);
		rut_codec_u32(&x->c, &f->bits);
		rut_codec_u32(&x->c, &f->shift);
		code_span(x, &f->span);
		must(x, f->kind == RUT_FACT_CPUS || f->kind == RUT_FACT_ENUM || f->of);
		must(x, f->kind == RUT_FACT_CPUS || f->kind == RUT_FACT_SIZE || f->name);
		must(x, f->kind != RUT_FACT_TRACEPOINT || f->group);
	}
}

static void code_program(struct coder *x)
{
	code_source(x);
	code_settings(x);
	code_texts(x, &x->p->strings, &x->p->nstrings);
	code_texts(x, &x->p->probes, &x->p->nprobes);
	code_tables(x);
	code_maps(x);
	code_sites(x);
	code_actions(x);
	code_facts(x);
	code_progs(x);
}

/* ---- The file ---- */

bool rut_portable_is(const char *data, size_t len)
{
	return len >= 4 && !memcmp(data, magic, 4);
}

static int write_program(struct rut_buf *out, struct rut_script_program *p)
{
	struct coder x = {.c = {.writing = true}, .p = p};
	uint64_t bytes;

	code_program(&x);
	bytes = x.c.out.len;
	rut_buf_add(out, &bytes, sizeof(bytes));
	rut_buf_add(out, x.c.out.data, x.c.out.len);
	x.c.failed |= x.c.out.failed;
	rut_buf_fini(&x.c.out);
	rut_portable_types_fini(&x.types);
	return x.c.failed || out->failed ? -ENOMEM : 0;
}

int rut_portable_write(struct rut_buf *out,
		       struct rut_script_program *const programs[RUT_PORTABLE_USES])
{
	struct header h = {.format = FORMAT, .machine = MACHINE, .version = RUT_VERSION};
	_cleanup_buf_ struct rut_buf body = RUT_BUF_INIT;
	int rc = 0;

	memcpy(h.magic, magic, sizeof(magic));
	for (int i = 0; i < RUT_PORTABLE_USES && !rc; i++) {
		uint64_t none = 0;

		if (programs[i])
			rc = write_program(&body, programs[i]);
		else
			rut_buf_add(&body, &none, sizeof(none));
	}
	if (rc || body.failed)
		return -ENOMEM;
	h.bytes = body.len;
	h.digest = rut_hash_bytes(body.data, body.len);
	rut_buf_add(out, &h, sizeof(h));
	rut_buf_add(out, body.data, body.len);
	return out->failed ? -ENOMEM : 0;
}

int rut_portable_decode(struct rut_script_program **ret, const char *name, const void *data,
			size_t len)
{
	struct rut_script_program *p = calloc(1, sizeof(*p));
	struct coder x = {.c = {.at = data, .end = (const uint8_t *)data + len}, .p = p};

	if (!p)
		return -ENOMEM;
	rut_arena_init(&p->ast.arena, 256u << 20);
	for (int i = 0; i < RUT_MAP_USER; i++)
		p->fds[i] = -1;
	p->opts.name = name;
	x.c.arena = &p->ast.arena;
	code_program(&x);
	rut_portable_types_fini(&x.types);
	if (x.c.failed || x.c.at != x.c.end) {
		rut_script_free(p);
		return -EBADMSG;
	}
	*ret = p;
	return 0;
}

static int damaged(const char *name, struct rut_err *err)
{
	return rut_err_set(err, EBADMSG,
			   "the compiled script '%s' is damaged or not whole: copy it again", name);
}

static int check_header(const struct header *h, const char *name, const char *data, size_t len,
			struct rut_err *err)
{
	if (len < sizeof(*h) || memcmp(h->magic, magic, sizeof(magic)) != 0)
		return damaged(name, err);
	if (h->format != FORMAT || strncmp(h->version, RUT_VERSION, sizeof(h->version)) != 0)
		return rut_err_set(err, EPROTO,
				   "the script '%s' was compiled by rutile %.31s, this is %s: "
				   "compile it again",
				   name, h->version[sizeof(h->version) - 1] ? "?" : h->version,
				   RUT_VERSION);
	if (h->machine != MACHINE)
		return rut_err_set(err, EPROTO,
				   "the script '%s' was compiled for another kind of processor",
				   name);
	if (h->bytes != len - sizeof(*h) ||
	    h->digest != rut_hash_bytes(data + sizeof(*h), h->bytes))
		return damaged(name, err);
	return 0;
}

/* Who runs the file permits that, not who has made it. */
static int permit(struct rut_script_program *p, enum rut_portable_use use, bool unsafe,
		  struct rut_err *err)
{
	p->opts.unsafe = unsafe;
	if (unsafe || !rut_portable_is_unsafe(p))
		return 0;
	return rut_err_set(err, EPERM,
			   "the compiled script '%s' runs commands, or acts on other processes or "
			   "the kernel: %s",
			   p->opts.name,
			   use == RUT_PORTABLE_RUN ? "it needs --unsafe"
						   : "it does not run in sessions");
}

int rut_portable_read(struct rut_script_program **ret, const char *name, const char *data,
		      size_t len, enum rut_portable_use use, bool unsafe, struct rut_err *err)
{
	struct header h = {0};
	const char *at = data + sizeof(h), *end = data + len;
	uint64_t bytes = 0;
	int rc;

	memcpy(&h, data, len < sizeof(h) ? len : sizeof(h));
	rc = check_header(&h, name, data, len, err);
	for (int i = 0; i <= (int)use && !rc; i++) {
		at += i ? bytes : 0;
		if ((size_t)(end - at) < sizeof(bytes))
			return damaged(name, err);
		memcpy(&bytes, at, sizeof(bytes));
		at += sizeof(bytes);
		if ((size_t)(end - at) < bytes)
			return damaged(name, err);
	}
	if (rc)
		return rc;
	if (!bytes)
		return rut_err_set(err, ENOENT,
				   use == RUT_PORTABLE_RUN
					   ? "the compiled script '%s' runs in sessions only: "
					     "rutile start NAME --script FILE"
					   : "the compiled script '%s' does not run in sessions",
				   name);
	rc = rut_portable_decode(ret, name, at, bytes);
	if (rc)
		return rc == -ENOMEM ? rut_err_set(err, ENOMEM, "out of memory")
				     : damaged(name, err);
	rc = permit(*ret, use, unsafe, err);
	if (rc) {
		rut_script_free(*ret);
		*ret = NULL;
	}
	return rc;
}
