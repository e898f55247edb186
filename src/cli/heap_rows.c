/* SPDX-License-Identifier: MIT */
#include "cli/heap_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "output/jsonl.h"
#include "output/table.h"

static bool has_process(const struct rut_heap_look *look, pid_t pid)
{
	for (size_t i = 0; i < look->count; i++)
		if (look->rows[i].pid == pid)
			return true;
	return false;
}

static struct rut_heap_entry *entry_of(struct rut_heap_table *t, struct rut_buf *key,
				       const struct rut_ruby_heap_row *r)
{
	int64_t id;

	rut_buf_clear(key);
	rut_buf_puts(key, r->class_name ? r->class_name : "");
	rut_buf_putc(key, '\0');
	if (t->by_line) {
		rut_buf_add(key, &r->line, sizeof(r->line));
		rut_buf_puts(key, r->path ? r->path : "");
	}
	id = key->failed ? -ENOMEM : rut_strtab_intern(&t->keys, key->data, key->len);
	if (id < 0)
		return NULL;
	if ((size_t)id >= t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 256;
		struct rut_heap_entry *more = reallocarray(t->entries, cap, sizeof(*more));

		if (!more)
			return NULL;
		memset(more + t->cap, 0, (cap - t->cap) * sizeof(*more));
		t->entries = more;
		t->cap = cap;
	}
	if ((size_t)id == t->count) {
		t->entries[t->count++].r = (struct rut_ruby_heap_row){
			.path = t->by_line ? r->path : NULL,
			.line = t->by_line ? r->line : 0,
			.class_name = r->class_name,
		};
	}
	return &t->entries[id];
}

static void add_sums(struct rut_heap_sums *to, const struct rut_ruby_heap_row *r)
{
	to->count += r->count;
	to->bytes += r->bytes;
	to->old += r->old;
	to->old_bytes += r->old_bytes;
}

static void add_ages(struct rut_ruby_heap_row *to, const struct rut_ruby_heap_row *r)
{
	to->born += r->born;
	to->generations |= r->generations;
	if (r->oldest > to->oldest)
		to->oldest = r->oldest;
	for (size_t i = 0; i < RUT_RUBY_HEAP_AGES; i++)
		to->ages[i] += r->ages[i];
}

/* The rows of `look`; with `other`, of processes that have rows there. */
static int add_look(struct rut_heap_table *t, const struct rut_heap_look *look,
		    const struct rut_heap_look *other, bool now)
{
	_cleanup_buf_ struct rut_buf key = RUT_BUF_INIT;
	bool counts = false;
	pid_t pid = 0;

	for (size_t i = 0; i < look->count; i++) {
		const struct rut_ruby_heap_row *r = &look->rows[i];
		struct rut_heap_entry *e;

		/* The rows of a process stand together. */
		if (r->pid != pid) {
			pid = r->pid;
			counts = !other || has_process(other, pid);
			t->processes += now && counts;
			t->left_out += !counts;
		}
		if (!counts)
			continue;
		e = entry_of(t, &key, r);
		if (!e)
			return -ENOMEM;
		add_sums(now ? &e->now : &e->before, r);
		add_sums(now ? &t->now : &t->before, r);
		if (now)
			add_ages(&e->r, r);
	}
	return 0;
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return (a < b) - (a > b);
}

/* The greater growth first. */
static int compare_growth(uint64_t now_a, uint64_t before_a, uint64_t now_b, uint64_t before_b)
{
	int64_t a = (int64_t)(now_a - before_a), b = (int64_t)(now_b - before_b);

	return (a < b) - (a > b);
}

static int compare(const void *x, const void *y, void *table)
{
	const struct rut_heap_entry *a = x, *b = y;
	const struct rut_heap_table *t = table;
	int r = 0;

	switch (t->sort) {
	case RUT_HEAP_SORT_GROWTH:
		r = t->differs ? compare_growth(a->now.old_bytes, a->before.old_bytes,
						b->now.old_bytes, b->before.old_bytes)
			       : 0;
		if (!r && t->differs)
			r = compare_growth(a->now.bytes, a->before.bytes, b->now.bytes,
					   b->before.bytes);
		break;
	case RUT_HEAP_SORT_COUNT:
		r = compare_u64(a->now.count, b->now.count);
		break;
	case RUT_HEAP_SORT_OLD:
		r = compare_u64(a->now.old, b->now.old);
		break;
	case RUT_HEAP_SORT_GENERATIONS:
		r = compare_u64((uint64_t)__builtin_popcountll(a->r.generations),
				(uint64_t)__builtin_popcountll(b->r.generations));
		break;
	default:
		break;
	}
	if (!r)
		r = compare_u64(a->now.bytes, b->now.bytes);
	if (!r)
		r = strcmp(a->r.class_name ? a->r.class_name : "",
			   b->r.class_name ? b->r.class_name : "");
	if (!r)
		r = strcmp(a->r.path ? a->r.path : "", b->r.path ? b->r.path : "");
	return r ? r : (a->r.line > b->r.line) - (a->r.line < b->r.line);
}

int rut_cli_heap_table_build(struct rut_heap_table *t, const struct rut_heap_look *before,
			     const struct rut_heap_look *now)
{
	int rc = 0;

	t->differs = before;
	if (before)
		rc = add_look(t, before, now, false);
	if (!rc)
		rc = add_look(t, now, before, true);
	if (!rc && t->count)
		qsort_r(t->entries, t->count, sizeof(*t->entries), compare, t);
	return rc;
}

void rut_cli_heap_table_fini(struct rut_heap_table *t)
{
	rut_strtab_fini(&t->keys);
	free(t->entries);
	*t = (struct rut_heap_table){0};
}

static const char *const sorts[] = {
	[RUT_HEAP_SORT_GROWTH] = "growth",    [RUT_HEAP_SORT_BYTES] = "bytes",
	[RUT_HEAP_SORT_COUNT] = "count",      [RUT_HEAP_SORT_OLD] = "old",
	[RUT_HEAP_SORT_GENERATIONS] = "gens",
};

int rut_cli_heap_sort_find(const char *name)
{
	for (size_t i = 0; i < sizeof(sorts) / sizeof(*sorts); i++)
		if (strcmp(sorts[i], name) == 0)
			return (int)i;
	return -1;
}

/* It has nothing to show: nothing lives, or nothing has changed. */
static bool is_empty(const struct rut_heap_table *t, const struct rut_heap_entry *e)
{
	if (t->differs)
		return e->now.count == e->before.count && e->now.bytes == e->before.bytes;
	return !e->now.count;
}

static void add_row(struct rut_table *out, const struct rut_heap_table *t,
		    const struct rut_heap_entry *e)
{
	if (t->by_line) {
		rut_table_add(out, e->r.path ? e->r.path : "-");
		if (e->r.line)
			rut_table_addf(out, "%" PRIu32, e->r.line);
		else
			rut_table_add(out, "-");
	}
	rut_table_add(out, e->r.class_name ? e->r.class_name : "");
	if (t->differs) {
		rut_table_addf(out, "%+" PRId64, (int64_t)(e->now.count - e->before.count));
		rut_table_addf(out, "%+" PRId64, (int64_t)(e->now.bytes - e->before.bytes));
	}
	rut_table_addf(out, "%" PRIu64, e->now.count);
	rut_table_addf(out, "%" PRIu64, e->now.bytes);
	rut_table_addf(out, "%" PRIu64, e->now.old);
	if (!t->by_line)
		return;
	rut_table_addf(out, "%d", __builtin_popcountll(e->r.generations));
	if (e->r.generations)
		rut_table_addf(out, "%" PRIu32, e->r.oldest);
	else
		rut_table_add(out, "-");
}

void rut_cli_heap_table_print(const struct rut_heap_table *t, struct rut_buf *out, size_t width,
			      size_t limit)
{
	static const struct rut_table_column lines[] = {
		{"FILENAME", .min_width = 8, .grow = true, .keep_right = true},
		{"LINE"},
	};
	static const struct rut_table_column object = {"OBJECT", .min_width = 8, .grow = true,
						       .keep_right = true};
	static const struct rut_table_column growth[] = {{"+COUNT"}, {"+BYTES"}};
	static const struct rut_table_column sums[] = {{"COUNT"}, {"BYTES"}, {"OLD"}};
	static const struct rut_table_column ages[] = {{"GENS"}, {"OLDEST"}};
	struct rut_table_column columns[10];
	struct rut_table table;
	size_t n = 0, shown = 0;

	for (size_t i = 0; t->by_line && i < 2; i++)
		columns[n++] = lines[i];
	columns[n++] = object;
	for (size_t i = 0; t->differs && i < 2; i++)
		columns[n++] = growth[i];
	for (size_t i = 0; i < 3; i++)
		columns[n++] = sums[i];
	for (size_t i = 0; t->by_line && i < 2; i++)
		columns[n++] = ages[i];
	rut_table_init(&table, columns, n);
	for (size_t i = 0; i < t->count && (!limit || shown < limit); i++)
		if (!is_empty(t, &t->entries[i])) {
			add_row(&table, t, &t->entries[i]);
			shown++;
		}
	rut_table_render(&table, out, width);
	rut_table_fini(&table);
}

static void json_growth(struct rut_buf *out, const char *key, uint64_t now, uint64_t before)
{
	rut_jsonl_i64(out, key, (int64_t)(now - before));
}

void rut_cli_heap_table_json(const struct rut_heap_table *t, struct rut_buf *out, size_t limit,
			     uint64_t look)
{
	size_t shown = 0;

	for (size_t i = 0; i < t->count && (!limit || shown < limit); i++) {
		const struct rut_heap_entry *e = &t->entries[i];

		if (is_empty(t, e))
			continue;
		shown++;
		rut_jsonl_begin(out);
		rut_jsonl_u64(out, "look", look);
		if (t->by_line) {
			rut_jsonl_str(out, "file", e->r.path);
			rut_jsonl_u64(out, "line", e->r.line);
		}
		rut_jsonl_str(out, "class", e->r.class_name);
		rut_jsonl_u64(out, "count", e->now.count);
		rut_jsonl_u64(out, "bytes", e->now.bytes);
		rut_jsonl_u64(out, "old", e->now.old);
		rut_jsonl_u64(out, "old_bytes", e->now.old_bytes);
		if (t->differs) {
			json_growth(out, "grew_count", e->now.count, e->before.count);
			json_growth(out, "grew_bytes", e->now.bytes, e->before.bytes);
			json_growth(out, "grew_old", e->now.old, e->before.old);
			json_growth(out, "grew_old_bytes", e->now.old_bytes, e->before.old_bytes);
		}
		if (t->by_line) {
			rut_jsonl_u64(out, "born", e->r.born);
			rut_jsonl_u64(out, "generations",
				      (uint64_t)__builtin_popcountll(e->r.generations));
			rut_jsonl_u64(out, "oldest", e->r.oldest);
		}
		rut_jsonl_end(out);
	}
}
