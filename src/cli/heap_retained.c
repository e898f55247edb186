/* SPDX-License-Identifier: MIT */
#include "cli/heap_retained.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/abi.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "cli/cmd.h"
#include "cli/ruby_live.h"
#include "cli/ruby_opts.h"
#include "cli/wake.h"
#include "output/jsonl.h"
#include "output/screen.h"
#include "output/table.h"
#include "ruby/heap.h"
#include "ruby/heap_graph.h"
#include "ruby/retained.h"
#include "ruby/tracer.h"

#define MS UINT64_C(1000000)

/* Give up a process that has written nothing for this long: its threads do not return to Ruby. */
static const uint64_t silent_ns = 60000 * MS;

/* One process. */
struct process {
	const struct rut_heap_retained *h;
	pid_t pid;
	struct rut_heap_graph g;
	struct rut_retained r;
	struct rut_holder *holders; /* owned */
	struct rut_holder_group *groups;
	struct rut_graph_what *rows; /* owned; of groups */
	size_t count;
	struct rut_graph_ref refs[RUT_GRAPH_REFS_MAX];
	size_t ref_count;
	bool unnamed; /* it did not answer when asked for the names of references */
};

static void process_free(struct process *p)
{
	rut_retained_fini(&p->r);
	rut_graph_fini(&p->g);
	free(p->holders);
	free(p->groups);
	free(p->rows);
	free(p);
}

/* ---- reading ---- */

static int poll_tracer(const struct process *p, struct rut_err *err)
{
	int n = rut_tracer_poll(p->h->tracer, 3, err);

	rut_cli_wake_drain();
	if (rut_cli_wake_stopped())
		return -EINTR;
	return n < 0 ? n : 0;
}

static int read_graph(struct process *p, struct rut_err *err)
{
	uint64_t since = rut_now_ns();
	size_t seen = 0;
	int rc = rut_tracer_graph_ask(p->h->tracer, p->pid);

	if (rc)
		return rut_err_set(err, ESRCH, "process %d has ended", p->pid);
	while (!(rc = rut_tracer_graph_take(p->h->tracer, p->pid, &p->g, err))) {
		if (p->g.ref_count != seen) {
			seen = p->g.ref_count;
			since = rut_now_ns();
		}
		if (rut_now_ns() - since > silent_ns)
			return rut_err_set(err, ETIME,
					   "no answer: no thread of process %d came back to Ruby",
					   p->pid);
		rc = poll_tracer(p, err);
		if (rc)
			return rc;
	}
	return rc < 0 ? rc : 0;
}

/* By what each holder refers to those behind it, where it refers to them itself. */
static int read_names(struct process *p, struct rut_err *err)
{
	uint64_t begin = rut_now_ns();
	int rc;

	for (size_t i = 0; i < p->count && p->ref_count < RUT_GRAPH_REFS_MAX; i++) {
		const struct rut_holder *h = &p->holders[i], *up;

		if (h->parent == RUT_GRAPH_NONE)
			continue;
		up = &p->holders[h->parent];
		if (up->chain == 1 && rut_graph_refers(&p->g, up->object, h->object))
			p->refs[p->ref_count++] = (struct rut_graph_ref){
				.holder = rut_graph_address(&p->g, up->object),
				.object = rut_graph_address(&p->g, h->object),
			};
	}
	if (!p->ref_count)
		return 0;
	rc = rut_tracer_graph_ask_names(p->h->tracer, p->pid, p->refs, p->ref_count);
	while (!rc && rut_now_ns() - begin < silent_ns) {
		rc = poll_tracer(p, err);
		if (!rc)
			rc = rut_tracer_graph_names(p->h->tracer, p->pid, p->refs, p->ref_count);
	}
	p->unnamed = rc != 1;
	return rc == -EINTR ? rc : 0;
}

static const char *name_of(const struct process *p, const struct rut_holder *h)
{
	uint64_t object = rut_graph_address(&p->g, h->object), holder;

	if (h->parent == RUT_GRAPH_NONE)
		return NULL;
	holder = rut_graph_address(&p->g, p->holders[h->parent].object);
	for (size_t i = 0; i < p->ref_count; i++)
		if (p->refs[i].holder == holder && p->refs[i].object == object)
			return p->refs[i].name;
	return NULL;
}

/* ---- what an object is ---- */

static struct rut_graph_what row_of(const struct process *p, uint32_t number)
{
	struct rut_graph_what row;

	rut_tracer_graph_row(p->h->tracer, p->pid, number, &row);
	if (!row.class_name)
		row.class_name = "?";
	return row;
}

/* What Ruby keeps for itself, by its number in imemo.h. */
static const char *internal_name(uint8_t kind)
{
	static const char *const names[] = {
		[0] = "(variables of a block)",
		[1] = "(class reference)",
		[4] = "(memo)",
		[6] = "(method)",
		[7] = "(code)",
		[8] = "(buffer)",
		[9] = "(syntax tree)",
		[10] = "(parser)",
		[11] = "(call)",
		[12] = "(call cache)",
		[13] = "(constant cache)",
	};
	uint8_t i = kind & (uint8_t)~RUT_GRAPH_IMEMO;

	if (!(kind & RUT_GRAPH_IMEMO) || i >= sizeof(names) / sizeof(*names))
		return NULL;
	return names[i];
}

/* The class's own name of a class, else NULL. */
static const char *own_name(const struct process *p, uint32_t object)
{
	uint32_t label = rut_graph_label(&p->g, object);

	return label ? row_of(p, (label & ~RUT_GRAPH_SINGLETON) - 1).class_name : NULL;
}

/* Who holds what nothing in the list holds. */
static const char *root_name(const struct process *p, uint32_t object)
{
	static const char *const names[][2] = {
		{"machine_context", "stack"},  {"global_tbl", "global variable"}, {"vm", "Ruby"},
		{"global_symbols", "symbols"}, {"end_proc", "at_exit"},
	};
	uint32_t kind = rut_graph_root_kind(&p->g, object);
	const char *text;

	if (kind == RUT_GRAPH_NONE)
		return "several";
	text = rut_tracer_graph_text(p->h->tracer, p->pid, kind);
	for (size_t i = 0; text && i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(text, names[i][0]) == 0)
			return names[i][1];
	return text ? text : "Ruby";
}

static const char *kind_of_class(const struct process *p, uint32_t object)
{
	if (rut_graph_label(&p->g, object) & RUT_GRAPH_SINGLETON)
		return "singleton class of";
	return strcmp(row_of(p, p->g.rows[object]).class_name, "Module") == 0 ? "module" : "class";
}

static const char *class_of(const struct process *p, uint32_t object)
{
	const char *name = internal_name(p->g.kinds[object]);

	return name ? name : row_of(p, p->g.rows[object]).class_name;
}

static void describe(const struct process *p, const struct rut_holder *h, struct rut_buf *out)
{
	struct rut_graph_what row = row_of(p, p->g.rows[h->object]);
	const char *name = name_of(p, h), *own = own_name(p, h->object);

	rut_buf_clear(out);
	for (uint32_t i = 0; i < h->depth; i++)
		rut_buf_puts(out, "  ");
	if (own) /* its constant has the same name */
		rut_buf_printf(out, "%s %s", kind_of_class(p, h->object), own);
	else if (name)
		rut_buf_printf(out, "%s: %s", name, class_of(p, h->object));
	else
		rut_buf_puts(out, class_of(p, h->object));
	if (h->chain > 1)
		rut_buf_printf(out, " (%" PRIu32 " in a chain)", h->chain);
	if (row.path)
		rut_buf_printf(out, ", %s:%" PRIu32, row.path, row.line);
	if (h->parent == RUT_GRAPH_NONE)
		rut_buf_printf(out, "  <- %s", root_name(p, h->object));
	rut_buf_putc(out, '\0');
}

/* ---- output ---- */

static void add_share(struct rut_table *table, uint64_t bytes, uint64_t total)
{
	rut_table_addf(table, "%.1f", total ? 100.0 * (double)bytes / (double)total : 0.0);
}

static void print_holders(const struct process *p, struct rut_buf *out)
{
	static const struct rut_table_column columns[] = {
		{"RETAINED"},
		{"%"},
		{"OBJECTS"},
		{"BYTES"},
		{"OBJECT", .min_width = 20, .grow = true, .left = true},
	};
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	struct rut_table table;

	rut_table_init(&table, columns, sizeof(columns) / sizeof(*columns));
	for (size_t i = 0; i < p->count; i++) {
		const struct rut_holder *h = &p->holders[i];

		describe(p, h, &text);
		rut_table_addf(&table, "%" PRIu64, h->bytes);
		add_share(&table, h->bytes, p->r.total_bytes);
		rut_table_addf(&table, "%" PRIu64, h->objects);
		rut_table_addf(&table, "%" PRIu64, p->g.bytes[h->object]);
		rut_table_add(&table, text.failed ? "" : text.data);
	}
	rut_table_render(&table, out, rut_screen_width(p->h->fd));
	rut_table_fini(&table);
}

static void json_holders(const struct process *p, struct rut_buf *out)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct rut_holder *h = &p->holders[i];
		struct rut_graph_what row = row_of(p, p->g.rows[h->object]);
		char address[24];

		snprintf(address, sizeof(address), "0x%" PRIx64,
			 rut_graph_address(&p->g, h->object));
		rut_jsonl_begin(out);
		rut_jsonl_u64(out, "pid", (uint64_t)p->pid);
		rut_jsonl_u64(out, "number", i);
		if (h->parent == RUT_GRAPH_NONE)
			rut_jsonl_str(out, "root", root_name(p, h->object));
		else
			rut_jsonl_u64(out, "holder", h->parent);
		rut_jsonl_str(out, "name", name_of(p, h));
		rut_jsonl_str(out, "class", class_of(p, h->object));
		rut_jsonl_str(out, "class_name", own_name(p, h->object));
		rut_jsonl_bool(out, "singleton",
			       rut_graph_label(&p->g, h->object) & RUT_GRAPH_SINGLETON);
		rut_jsonl_str(out, "address", address);
		rut_jsonl_u64(out, "retained", h->bytes);
		rut_jsonl_u64(out, "retained_objects", h->objects);
		rut_jsonl_u64(out, "bytes", p->g.bytes[h->object]);
		rut_jsonl_u64(out, "chain", h->chain);
		rut_jsonl_str(out, "file", row.path);
		rut_jsonl_u64(out, "line", row.line);
		rut_jsonl_end(out);
	}
}

static void print_groups(const struct process *p, struct rut_buf *out)
{
	static const struct rut_table_column columns[] = {
		{"RETAINED"}, {"%"},
		{"OBJECTS"},  {"COUNT"},
		{"BYTES"},    {"FILENAME", .min_width = 8, .grow = true, .keep_right = true},
		{"LINE"},     {"OBJECT", .min_width = 8, .grow = true, .keep_right = true},
	};
	bool lines = p->h->by == RUT_HEAP_BY_LINE;
	struct rut_table_column used[8];
	struct rut_table table;
	size_t n = 0;

	for (size_t i = 0; i < 8; i++)
		if (lines || (i != 5 && i != 6))
			used[n++] = columns[i];
	rut_table_init(&table, used, n);
	for (size_t i = 0; i < p->count; i++) {
		const struct rut_holder_group *g = &p->groups[i];
		const struct rut_graph_what *row = &p->rows[g->group];

		rut_table_addf(&table, "%" PRIu64, g->bytes);
		add_share(&table, g->bytes, p->r.total_bytes);
		rut_table_addf(&table, "%" PRIu64, g->objects);
		rut_table_addf(&table, "%" PRIu64, g->count);
		rut_table_addf(&table, "%" PRIu64, g->own);
		if (lines) {
			rut_table_add(&table, row->path ? row->path : "-");
			if (row->line)
				rut_table_addf(&table, "%" PRIu32, row->line);
			else
				rut_table_add(&table, "-");
		}
		rut_table_add(&table, row->class_name);
	}
	rut_table_render(&table, out, rut_screen_width(p->h->fd));
	rut_table_fini(&table);
}

static void json_groups(const struct process *p, struct rut_buf *out)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct rut_holder_group *g = &p->groups[i];
		const struct rut_graph_what *row = &p->rows[g->group];

		rut_jsonl_begin(out);
		rut_jsonl_u64(out, "pid", (uint64_t)p->pid);
		rut_jsonl_str(out, "class", row->class_name);
		if (p->h->by == RUT_HEAP_BY_LINE) {
			rut_jsonl_str(out, "file", row->path);
			rut_jsonl_u64(out, "line", row->line);
		}
		rut_jsonl_u64(out, "retained", g->bytes);
		rut_jsonl_u64(out, "retained_objects", g->objects);
		rut_jsonl_u64(out, "count", g->count);
		rut_jsonl_u64(out, "bytes", g->own);
		rut_jsonl_end(out);
	}
}

static void print_heading(const struct process *p, bool first, bool alone, struct rut_buf *out)
{
	rut_buf_printf(out, "%sheap", first ? "" : "\n");
	if (!alone)
		rut_buf_printf(out, " of process %d", p->pid);
	rut_buf_printf(out, ": %" PRIu32 " objects, %" PRIu64 " bytes", p->r.d.count,
		       p->r.total_bytes);
	if (p->r.others)
		rut_buf_printf(out, "; not held: %" PRIu64 " objects, %" PRIu64 " bytes",
			       p->r.others, p->r.other_bytes);
	rut_buf_putc(out, '\n');
}

/* ---- one process ---- */

/* Rows of one class are one group; or each row is. */
static int find_groups(struct process *p)
{
	uint32_t count = (uint32_t)rut_tracer_graph_rows(p->h->tracer, p->pid), n = 0;
	uint32_t *groups = calloc(count + 1ul, sizeof(*groups));
	struct rut_map names = {0}; /* texts are interned: by their addresses */
	int rc = 0;

	p->rows = calloc(count + 1ul, sizeof(*p->rows));
	if (!groups || !p->rows)
		rc = -ENOMEM;
	for (uint32_t i = 0; i < count && !rc; i++) {
		struct rut_graph_what row = row_of(p, i);
		uint64_t key = (uint64_t)(uintptr_t)row.class_name;
		uintptr_t known =
			p->h->by == RUT_HEAP_BY_CLASS ? (uintptr_t)rut_map_get(&names, key) : 0;

		if (!known) {
			p->rows[n] = row;
			known = ++n;
			if (p->h->by == RUT_HEAP_BY_CLASS)
				rc = rut_map_put(&names, key, (void *)known);
		}
		groups[i] = (uint32_t)known - 1;
	}
	/* What the process says is not trusted. */
	for (size_t i = 0; i < p->g.count; i++)
		if (p->g.rows[i] >= count)
			p->g.rows[i] = count;
	groups[count] = n;
	p->rows[n] = (struct rut_graph_what){.class_name = "?"};
	if (!rc)
		rc = rut_retained_groups(&p->r, &p->g, groups, n + 1, p->h->limit, &p->groups,
					 &p->count);
	rut_map_fini(&names);
	free(groups);
	return rc;
}

static int analyse(struct process *p, struct rut_err *err)
{
	int rc = read_graph(p, err);

	if (rc)
		return rc;
	rc = rut_retained_init(&p->r, &p->g);
	if (!rc)
		rc = p->h->by == RUT_HEAP_BY_OBJECT
			     ? rut_retained_holders(&p->r, &p->g, p->h->limit, &p->holders,
						    &p->count)
			     : find_groups(p);
	if (rc)
		return rut_err_set(err, ENOMEM, "out of memory: %zu objects, %zu references",
				   p->g.count, p->g.ref_count);
	return p->holders ? read_names(p, err) : 0;
}

static int show(const struct process *p, bool first, bool alone, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	unsigned flags = rut_tracer_graph_flags(p->h->tracer, p->pid);
	int rc;

	if (p->h->json) {
		(p->holders ? json_holders : json_groups)(p, &out);
	} else {
		print_heading(p, first, alone, &out);
		(p->holders ? print_holders : print_groups)(p, &out);
	}
	rc = rut_cli_write_all(p->h->fd, &out);
	if (rc < 0)
		return rut_err_errno(err, -rc, "cannot write");
	if (flags & RUT_RUBY_GRAPH_LOST)
		rut_cli_notice(p->h->cmd,
			       "an object of process %d has more references than fit into the "
			       "ring: some were left out",
			       p->pid);
	if (p->unnamed)
		rut_cli_notice(p->h->cmd,
			       "process %d did not name the constants and variables that hold "
			       "objects: it ended, or no thread of it came back to Ruby",
			       p->pid);
	if (p->h->lines && flags & RUT_RUBY_HEAP_NO_ORIGINS)
		rut_cli_notice(p->h->cmd,
			       "the heap was compacted: lines are known of objects made since");
	if (p->h->lines && flags & RUT_RUBY_HEAP_ORIGINS_LOST)
		rut_cli_notice(p->h->cmd,
			       "the heap is too large to note where each object is made: some "
			       "have no line");
	return 0;
}

static pid_t *list_processes(const struct rut_tracer *t, size_t *ret_count)
{
	pid_t *pids;
	size_t n = 0;

	while (rut_tracer_graph_process(t, n))
		n++;
	pids = calloc(n + 1, sizeof(*pids));
	for (size_t i = 0; pids && i < n; i++)
		pids[i] = rut_tracer_graph_process(t, i);
	*ret_count = n;
	return pids;
}

int rut_cli_heap_retained(const struct rut_heap_retained *h, struct rut_err *err)
{
	size_t count, shown = 0;
	bool written = true;
	pid_t *pids = list_processes(h->tracer, &count);
	int rc = pids ? 0 : rut_err_set(err, ENOMEM, "out of memory");

	if (pids && !count)
		rc = rut_err_set(err, ESRCH, "the process has ended");
	for (size_t i = 0; i < count && rc != -EINTR && written; i++) {
		struct process *p = calloc(1, sizeof(*p));

		if (!p) {
			rc = rut_err_set(err, ENOMEM, "out of memory");
			break;
		}
		p->h = h;
		p->pid = pids[i];
		rc = analyse(p, err);
		if (!rc) {
			rc = show(p, !shown, count == 1, err);
			written = !rc;
		}
		shown += !rc;
		if (rc && rc != -EINTR && written && (shown || i + 1 < count))
			rut_cli_notice(h->cmd, "process %d is left out: %s", pids[i], err->msg);
		process_free(p);
	}
	free(pids);
	return shown && rc != -EINTR && written ? 0 : rc;
}
