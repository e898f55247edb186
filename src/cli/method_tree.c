/* SPDX-License-Identifier: MIT */
#include "cli/method_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "output/table.h"
#include "output/text.h"

/* The open calls of one fiber, outermost first. */
struct open_calls {
	uint32_t count;
	struct {
		uint32_t node, depth;
	} calls[RUT_METHOD_TREE_DEPTH];
};

int rut_cli_method_tree_init(struct rut_method_tree *t)
{
	*t = (struct rut_method_tree){.count = 1};
	t->nodes = calloc(RUT_METHOD_TREE_NODES, sizeof(*t->nodes));
	return t->nodes ? 0 : -ENOMEM;
}

void rut_cli_method_tree_fini(struct rut_method_tree *t)
{
	rut_map_each(&t->fibers, f)
		free(f->value);
	rut_map_fini(&t->fibers);
	rut_strtab_fini(&t->names);
	free(t->nodes);
}

static struct open_calls *fiber_of(struct rut_method_tree *t, const struct rut_ruby_event *ev)
{
	uint64_t key = ((uint64_t)(uint32_t)ev->pid << 32 | ev->fiber) + 1;
	struct open_calls *f = rut_map_get(&t->fibers, key);

	if (f)
		return f;
	f = calloc(1, sizeof(*f));
	if (f && rut_map_put(&t->fibers, key, f)) {
		free(f);
		return NULL;
	}
	return f;
}

static int name_of(struct rut_method_tree *t, const struct rut_ruby_event *ev)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	if (ev->class_name)
		rut_buf_printf(&b, "%s%c", ev->class_name, ev->singleton ? '.' : '#');
	rut_buf_puts(&b, ev->method_name ? ev->method_name : "?");
	return b.failed ? -1 : rut_strtab_intern(&t->names, b.data, b.len);
}

/* Its node below `parent`, made when it is the first. 0: no room. */
static uint32_t node_below(struct rut_method_tree *t, uint32_t parent,
			   const struct rut_ruby_event *ev)
{
	int name = name_of(t, ev);
	uint32_t at = t->nodes[parent].first_child;

	while (at && (t->nodes[at].name != name || t->nodes[at].line != ev->line))
		at = t->nodes[at].next;
	if (at || name < 0)
		return at;
	if (t->count == RUT_METHOD_TREE_NODES)
		return 0;
	at = t->count++;
	t->nodes[at].name = name;
	t->nodes[at].line = ev->line;
	t->nodes[at].next = t->nodes[parent].first_child;
	t->nodes[parent].first_child = at;
	return at;
}

static void begin_call(struct rut_method_tree *t, const struct rut_ruby_event *ev)
{
	struct open_calls *f = fiber_of(t, ev);
	uint32_t parent, node = 0;

	if (!f)
		return;
	/* The returns of what is deeper were lost. */
	while (f->count && f->calls[f->count - 1].depth >= ev->depth)
		f->count--;
	parent = f->count ? f->calls[f->count - 1].node : 0;
	if (f->count < RUT_METHOD_TREE_DEPTH)
		node = node_below(t, parent, ev);
	if (!node) {
		t->left_out++;
		return;
	}
	f->calls[f->count].node = node;
	f->calls[f->count++].depth = ev->depth;
}

static void end_call(struct rut_method_tree *t, const struct rut_ruby_event *ev)
{
	struct open_calls *f = fiber_of(t, ev);
	struct rut_method_node *n;

	if (!f)
		return;
	while (f->count && f->calls[f->count - 1].depth > ev->depth)
		f->count--;
	if (!f->count || f->calls[f->count - 1].depth != ev->depth)
		return;
	n = &t->nodes[f->calls[--f->count].node];
	n->calls++;
	n->total_ns += ev->duration_ns;
	if (ev->duration_ns > n->max_ns)
		n->max_ns = ev->duration_ns;
	if (f->count)
		t->nodes[f->calls[f->count - 1].node].children_ns += ev->duration_ns;
}

void rut_cli_method_tree_event(const struct rut_ruby_event *ev, void *arg)
{
	struct rut_method_tree *t = arg;

	if (ev->type == RUT_RUBY_EVENT_CALL)
		begin_call(t, ev);
	else if (ev->type == RUT_RUBY_EVENT_RETURN)
		end_call(t, ev);
	else if (ev->type == RUT_RUBY_EVENT_LOST)
		t->lost += ev->lost;
}

/* ---- Output ---- */

static uint32_t *children_by_time(const struct rut_method_tree *t, uint32_t parent, size_t *ret_n)
{
	uint32_t *list = calloc(t->count + 1, sizeof(*list));
	size_t n = 0;

	for (uint32_t c = t->nodes[parent].first_child; list && c; c = t->nodes[c].next) {
		size_t at = n++;

		while (at && t->nodes[list[at - 1]].total_ns < t->nodes[c].total_ns) {
			list[at] = list[at - 1];
			at--;
		}
		list[at] = c;
	}
	*ret_n = n;
	return list;
}

static void add_duration(struct rut_table *table, uint64_t ns)
{
	char text[RUT_TEXT_DURATION_SIZE];

	rut_table_add(table, rut_text_duration(text, ns));
}

static void add_below(const struct rut_method_tree *t, uint32_t parent, int depth,
		      struct rut_table *table)
{
	size_t n;
	_cleanup_free_ uint32_t *list = children_by_time(t, parent, &n);

	for (size_t i = 0; list && i < n; i++) {
		const struct rut_method_node *c = &t->nodes[list[i]];

		if (!c->calls)
			continue;
		rut_table_addf(table, "%" PRIu64, c->calls);
		add_duration(table, c->total_ns);
		add_duration(table,
			     c->total_ns > c->children_ns ? c->total_ns - c->children_ns : 0);
		add_duration(table, c->total_ns / c->calls);
		add_duration(table, c->max_ns);
		rut_table_addf(table, "%*s%s", 2 * depth, "", t->names.strs[c->name].data);
		add_below(t, list[i], depth + 1, table);
	}
}

void rut_cli_method_tree_print(const struct rut_method_tree *t, size_t width, struct rut_buf *out)
{
	static const struct rut_table_column columns[] = {
		{"CALLS"}, {"TIME"}, {"SELF"},
		{"MEAN"},  {"MAX"},  {"METHOD", .min_width = 16, .grow = true, .left = true}};
	struct rut_table table;

	rut_table_init(&table, columns, sizeof(columns) / sizeof(*columns));
	add_below(t, 0, 0, &table);
	rut_table_render(&table, out, width);
	rut_table_fini(&table);
	if (t->left_out)
		rut_buf_printf(out, "(%" PRIu64 " calls are not in this tree: it has %d nodes)\n",
			       t->left_out, RUT_METHOD_TREE_NODES);
	if (t->lost)
		rut_buf_printf(out, "(%" PRIu64 " events were lost)\n", t->lost);
}
