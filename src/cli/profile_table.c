/* SPDX-License-Identifier: MIT */
#include "cli/profile_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "output/table.h"

struct line {
	const struct rut_profile_row *row;
	const char *name;
};

static int by_self(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->row->self_ns != y->row->self_ns)
		return x->row->self_ns > y->row->self_ns ? -1 : 1;
	if (x->row->total_ns != y->row->total_ns)
		return x->row->total_ns > y->row->total_ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Those that match, sorted; the caller frees them. */
static struct line *lines_of(const struct rut_profile *p, const char *filter, size_t *ret_count)
{
	struct line *lines = calloc(p->names.count + 1, sizeof(*lines));
	size_t n = 0;

	for (size_t i = 0; lines && i < p->names.count; i++)
		if (p->rows[i].total_ns &&
		    (!filter || !*filter || strstr(p->names.strs[i].data, filter)))
			lines[n++] = (struct line){&p->rows[i], p->names.strs[i].data};
	if (n)
		qsort(lines, n, sizeof(*lines), by_self);
	*ret_count = n;
	return lines;
}

const char **rut_cli_profile_names(const struct rut_profile *p, const char *filter,
				   size_t *ret_count)
{
	_cleanup_free_ struct line *lines = lines_of(p, filter, ret_count);
	const char **names = lines ? calloc(*ret_count + 1, sizeof(*names)) : NULL;

	for (size_t i = 0; names && i < *ret_count; i++)
		names[i] = lines[i].name;
	return names;
}

static void add_amount(struct rut_table *t, const struct rut_profile_show *show, uint64_t n,
		       uint64_t of)
{
	if (show->alloc)
		rut_table_addf(t, "%llu", (unsigned long long)n);
	else
		rut_table_addf(t, "%.3f", (double)n / 1e9);
	rut_table_addf(t, "%.1f", of ? 100 * (double)n / (double)of : 0);
}

void rut_cli_profile_summary(const struct rut_profile *p, const struct rut_profile_show *show,
			     struct rut_buf *out)
{
	if (show->alloc) {
		rut_buf_printf(out,
			       "%llu objects, %.1f MiB, and %llu internal objects of Ruby; %llu "
			       "samples\n",
			       (unsigned long long)p->objects, (double)p->object_bytes / 1048576,
			       (unsigned long long)p->internal, (unsigned long long)p->samples);
		return;
	}
	rut_buf_printf(out, "%.3f s", (double)p->total_ns / 1e9);
	for (size_t i = 0; i < RUT_OFFS; i++)
		if (p->wait_ns[i])
			rut_buf_printf(out, ", %s %.1f %%", rut_an_off_names[i],
				       100 * (double)p->wait_ns[i] / (double)p->total_ns);
	if (p->unordered)
		rut_buf_printf(out,
			       "; the order of native frames is unknown in %.1f %% of the stacks",
			       100 * (double)p->unordered / (double)p->stacks_read);
	rut_buf_puts(out, "\n");
}

static const char *unit_of(const struct rut_profile_show *show)
{
	return !show->alloc ? "Self (s)" : show->by_bytes ? "Bytes" : "Objects";
}

void rut_cli_profile_table(const struct rut_profile *p, const struct rut_profile_show *show,
			   size_t width, struct rut_buf *out)
{
	const struct rut_table_column columns[] = {{unit_of(show)},
						   {"%"},
						   {show->alloc ? "Total" : "Total (s)"},
						   {"%"},
						   {"Name", .min_width = 20, .left = true}};
	size_t n;
	_cleanup_free_ struct line *lines = lines_of(p, show->filter, &n);
	struct rut_table t;

	if (!lines) {
		out->failed = true;
		return;
	}
	rut_table_init(&t, columns, 5);
	for (size_t i = show->skip; i < n && i - show->skip < show->limit; i++) {
		add_amount(&t, show, lines[i].row->self_ns, p->total_ns);
		add_amount(&t, show, lines[i].row->total_ns, p->total_ns);
		rut_table_add(&t, lines[i].name);
	}
	rut_table_render(&t, out, width);
	rut_table_fini(&t);
}

/* ---- One row opened ---- */

#define NODES_MAX 20000
#define DEPTH_MAX 64

/* A call below the row, from all stacks with the same calls above it. */
struct node {
	const char *name; /* borrowed from a stack */
	size_t len;
	uint64_t total, self;
	uint32_t first_child, next; /* 0: none */
};

struct tree {
	struct node *nodes; /* owned; the first one is the row, the second one above all callers */
	uint32_t count, cap;
	bool failed;
};

static uint32_t child_of(struct tree *t, uint32_t parent, const char *name, size_t len)
{
	uint32_t i = t->nodes[parent].first_child;

	while (i && (t->nodes[i].len != len || memcmp(t->nodes[i].name, name, len) != 0))
		i = t->nodes[i].next;
	if (i || t->count == NODES_MAX)
		return i;
	if (t->count == t->cap) {
		struct node *more = realloc(t->nodes, 2 * t->cap * sizeof(*more));

		t->failed |= !more;
		if (!more)
			return 0;
		t->nodes = more;
		t->cap *= 2;
	}
	t->nodes[t->count] =
		(struct node){.name = name, .len = len, .next = t->nodes[parent].first_child};
	t->nodes[parent].first_child = t->count;
	return t->count++;
}

/* "process;outer;inner": what is above the first frame of this name, and all below it. */
static void add_stack(struct tree *t, const char *stack, const char *name, uint64_t n)
{
	const char *before = NULL, *at = stack;
	size_t len = strcspn(at, ";"), before_len = 0, wanted = strlen(name);
	uint32_t i = 0, depth = 0, caller;

	while (len != wanted || memcmp(at, name, len) != 0) {
		before = at;
		before_len = len;
		if (!at[len])
			return;
		at += len + 1;
		len = strcspn(at, ";");
	}
	t->nodes[0].total += n;
	caller = before ? child_of(t, 1, before, before_len) : 0;
	if (caller)
		t->nodes[caller].total += n;
	while (at[len] && depth++ < DEPTH_MAX) {
		uint32_t child;

		at += len + 1;
		len = strcspn(at, ";");
		child = child_of(t, i, at, len);
		if (!child)
			break;
		i = child;
		t->nodes[i].total += n;
	}
	t->nodes[i].self += n;
}

static int by_total(const void *a, const void *b, void *tree)
{
	const struct node *nodes = ((const struct tree *)tree)->nodes;
	const struct node *x = &nodes[*(const uint32_t *)a], *y = &nodes[*(const uint32_t *)b];

	return x->total != y->total ? (x->total > y->total ? -1 : 1) : 0;
}

static void add_node(struct rut_table *table, const struct rut_profile_show *show,
		     const struct tree *t, uint32_t i, unsigned depth)
{
	const struct node *n = &t->nodes[i];

	add_amount(table, show, n->total, t->nodes[0].total);
	if (show->alloc)
		rut_table_addf(table, "%llu", (unsigned long long)n->self);
	else
		rut_table_addf(table, "%.3f", (double)n->self / 1e9);
	rut_table_addf(table, "%*s%.*s", (int)(2 * (depth < 40 ? depth : 40)), "", (int)n->len,
		       n->name);
}

/* The children of a node, the largest first; the caller frees them. */
static uint32_t *children_of(struct tree *t, uint32_t parent, size_t *ret_count)
{
	uint32_t *order;
	size_t n = 0;

	for (uint32_t i = t->nodes[parent].first_child; i; i = t->nodes[i].next)
		n++;
	order = calloc(n + 1, sizeof(*order));
	t->failed |= !order;
	*ret_count = order ? n : 0;
	if (!order)
		return NULL;
	n = 0;
	for (uint32_t i = t->nodes[parent].first_child; i; i = t->nodes[i].next)
		order[n++] = i;
	if (n)
		qsort_r(order, n, sizeof(*order), by_total, t);
	return order;
}

static bool is_small(const struct tree *t, uint32_t i)
{
	return t->nodes[i].total * 100 < t->nodes[0].total;
}

static void add_children(struct rut_table *table, const struct rut_profile_show *show,
			 struct tree *t, uint32_t parent, unsigned depth)
{
	size_t n;
	_cleanup_free_ uint32_t *order = children_of(t, parent, &n);

	for (size_t k = 0; k < n && !is_small(t, order[k]); k++) {
		add_node(table, show, t, order[k], depth);
		add_children(table, show, t, order[k], depth + 1);
	}
}

static void print_tree(const struct rut_profile_show *show, struct tree *t, size_t width,
		       struct rut_buf *out)
{
	const struct rut_table_column columns[] = {{show->alloc ? "Total" : "Total (s)"},
						   {"%"},
						   {unit_of(show)},
						   {"Name", .min_width = 20, .left = true}};
	struct rut_table table;

	rut_table_init(&table, columns, 4);
	add_node(&table, show, t, 0, 0);
	add_children(&table, show, t, 0, 1);
	rut_table_render(&table, out, width);
	rut_table_fini(&table);
}

static void print_callers(const struct rut_profile_show *show, struct tree *t, size_t width,
			  struct rut_buf *out)
{
	const struct rut_table_column columns[] = {{show->alloc ? "Total" : "Total (s)"},
						   {"%"},
						   {"Called from", .min_width = 20, .left = true}};
	size_t n;
	_cleanup_free_ uint32_t *order = children_of(t, 1, &n);
	struct rut_table table;

	rut_table_init(&table, columns, 3);
	for (size_t k = 0; k < n && !is_small(t, order[k]); k++) {
		const struct node *caller = &t->nodes[order[k]];

		add_amount(&table, show, caller->total, t->nodes[0].total);
		rut_table_addf(&table, "%.*s", (int)caller->len, caller->name);
	}
	rut_table_render(&table, out, width);
	rut_table_fini(&table);
}

void rut_cli_profile_tree(const struct rut_profile *p, const struct rut_profile_show *show,
			  const char *name, size_t width, struct rut_buf *out)
{
	struct tree t = {.nodes = calloc(64, sizeof(*t.nodes)), .count = 2, .cap = 64};

	if (!t.nodes) {
		out->failed = true;
		return;
	}
	t.nodes[0].name = name;
	t.nodes[0].len = strlen(name);
	for (size_t i = 0; i < p->stacks.count && i < p->n_stacks; i++)
		if (p->stack_ns[i])
			add_stack(&t, p->stacks.strs[i].data, name, p->stack_ns[i]);
	print_callers(show, &t, width, out);
	rut_buf_putc(out, '\n');
	print_tree(show, &t, width, out);
	out->failed |= t.failed;
	free(t.nodes);
}
