/* SPDX-License-Identifier: MIT */
#include "ruby/heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ruby/internal.h"
#include "ruby/table.h"
#include "ruby/tracee.h"

_Static_assert(RUT_RUBY_HEAP_AGES == RUT_HEAP_AGES, "the agent's");
_Static_assert(RUT_RUBY_HEAP_ORIGINS_LOST == RUT_LOOK_ORIGINS_LOST, "the agent's");
_Static_assert(RUT_RUBY_HEAP_NO_ORIGINS == RUT_LOOK_NO_ORIGINS, "the agent's");
_Static_assert(RUT_RUBY_HEAP_RACTORS == RUT_LOOK_RACTORS, "the agent's");

size_t rut_tracer_heap_ask(struct rut_tracer *t)
{
	size_t n = 0;

	if (++t->heap_looks == 0)
		t->heap_looks = 1;
	for (size_t i = 0; i < t->count; i++) {
		struct rut_tracee *p = t->tracees[i];

		if (p->exited || p->unseen || !p->table || !p->ctl)
			continue;
		p->heap_asked = t->heap_looks;
		__atomic_store_n(&p->table->look_wanted, t->heap_looks, __ATOMIC_RELEASE);
		rut_tracee_wake(p);
		n++;
	}
	return n;
}

static bool asked(const struct rut_tracer *t, const struct rut_tracee *p)
{
	return t->heap_looks && p->heap_asked == t->heap_looks && !p->exited && p->table;
}

static bool answered(const struct rut_tracee *p)
{
	return __atomic_load_n(&p->table->look_done, __ATOMIC_ACQUIRE) == p->heap_asked;
}

size_t rut_tracer_heap_missing(const struct rut_tracer *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->count; i++)
		n += asked(t, t->tracees[i]) && !answered(t->tracees[i]);
	return n;
}

static bool fill(struct rut_tracer *t, const struct rut_tracee *p, uint32_t i,
		 struct rut_ruby_heap_row *to)
{
	const struct rut_agent_row *row = rut_ruby_table_row(p, i);
	const struct rut_agent_heap *h = rut_ruby_table_beside(p, i, sizeof(*h));

	if (!(__atomic_load_n(&row->flags, __ATOMIC_ACQUIRE) & RUT_ROW_NAMED) || !h ||
	    (!row->count && !h->born))
		return false;
	*to = (struct rut_ruby_heap_row){
		.pid = p->pid,
		.path = rut_ruby_table_string(t, p, row->path),
		.class_name = rut_ruby_table_string(t, p, row->class_name),
		.line = row->line,
		.count = row->count,
		.bytes = row->bytes,
		.old = h->old,
		.old_bytes = h->old_bytes,
		.born = h->born,
		.generations = h->generations,
		.oldest = h->oldest,
	};
	memcpy(to->ages, h->ages, sizeof(to->ages));
	return true;
}

int rut_tracer_heap_rows(struct rut_tracer *t, struct rut_ruby_heap_row **ret_rows,
			 size_t *ret_count, unsigned *ret_flags, struct rut_err *err)
{
	struct rut_ruby_heap_row *rows;
	size_t room = 0, n = 0;
	unsigned flags = 0;

	for (size_t i = 0; i < t->count; i++)
		if (asked(t, t->tracees[i]) && answered(t->tracees[i]))
			room += rut_ruby_table_count(t->tracees[i]);
	rows = reallocarray(NULL, room + 1, sizeof(*rows));
	if (!rows)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < t->count; i++) {
		const struct rut_tracee *p = t->tracees[i];
		uint32_t count;

		if (!asked(t, p) || !answered(p))
			continue;
		flags |= p->table->look_flags;
		if (p->table->look_flags & RUT_LOOK_RACTORS)
			continue;
		t->rows_folded |= p->table->rows_lost > 0;
		count = rut_ruby_table_count(p);
		for (uint32_t k = 0; k < count && n < room; k++)
			n += fill(t, p, k, &rows[n]);
	}
	*ret_rows = rows;
	*ret_count = n;
	*ret_flags = flags;
	return 0;
}
