/* SPDX-License-Identifier: MIT */
/*
 * What all traced processes have counted together, those that have ended included; and its reset.
 */
#include "ruby/internal.h"
#include "ruby/tracer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ruby/births.h"
#include "ruby/gone.h"
#include "ruby/rows.h"
#include "ruby/table.h"

int rut_tracer_rows(struct rut_tracer *t, const struct rut_ruby_row **ret_rows, size_t *ret_count,
		    struct rut_err *err)
{
	size_t n = 0, need;

	if (t->forget_messages) {
		rut_strtab_fini(&t->messages);
		t->messages = (struct rut_strtab){0};
		t->forget_messages = false;
	}
	rut_births_look(t);
	need = t->gone.count;
	for (size_t i = 0; i < t->count; i++)
		need += rut_ruby_table_count(t->tracees[i]);
	if (need > t->rows_cap || !t->rows) {
		struct rut_ruby_row *to = realloc(t->rows, (need + 64) * 2 * sizeof(*to));

		if (!to)
			return rut_err_set(err, ENOMEM, "out of memory");
		t->rows = to;
		t->rows_cap = (need + 64) * 2;
	}
	for (size_t i = 0; i < t->count; i++) {
		size_t room = t->rows_cap - t->gone.count - n;
		uint32_t count = room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;

		if (!rut_tracee_rows_fill(t, t->tracees[i], &t->rows[n], &count))
			return rut_err_set(err, ENOMEM, "out of memory");
		n += count;
	}
	if (t->gone.count)
		memcpy(&t->rows[n], t->gone.rows, t->gone.count * sizeof(*t->rows));
	n += t->gone.count;
	*ret_rows = t->rows;
	*ret_count = n;
	return 0;
}

enum rut_ruby_ractors rut_tracer_ractors(const struct rut_tracer *t)
{
	uint32_t r = t->ractors;

	for (size_t i = 0; i < t->count; i++)
		if (t->tracees[i]->table)
			r |= (uint32_t)t->tracees[i]->table->ractors;
	return (r & RUT_RACTORS_ENDED_IT) == RUT_RACTORS_ENDED_IT ? RUT_RUBY_RACTORS_ENDED_IT
	       : r & RUT_RACTORS_UNSEEN				  ? RUT_RUBY_RACTORS_UNSEEN
								  : RUT_RUBY_RACTORS_NONE;
}

bool rut_tracer_rows_folded(const struct rut_tracer *t)
{
	bool folded = t->rows_folded;

	for (size_t i = 0; i < t->count && !folded; i++)
		folded = t->tracees[i]->table && t->tracees[i]->table->rows_lost;
	return folded;
}

void rut_tracer_reset(struct rut_tracer *t)
{
	rut_gone_forget(&t->gone);
	t->gone.count = 0;
	t->forget_messages = true; /* the caller still has rows with them */
	for (size_t i = 0; i < t->count; i++)
		rut_tracee_rows_reset(t, t->tracees[i]);
}

void rut_tracer_names(struct rut_tracer *t, void (*fn)(const struct rut_ruby_row *row, void *arg),
		      void *arg)
{
	for (size_t i = 0; i < t->gone.count; i++)
		fn(&t->gone.rows[i], arg);
	for (size_t i = 0; i < t->count; i++) {
		struct rut_tracee *p = t->tracees[i];

		for (uint32_t n = 0; p->table && n < rut_ruby_table_count(p); n++) {
			const struct rut_agent_row *row = rut_ruby_table_row(p, n);
			struct rut_ruby_row to = {
				.pid = p->pid,
				.path = rut_ruby_table_string(t, p, row->path),
				.line = row->line,
				.class_name = rut_ruby_table_string(t, p, row->class_name),
				.method_name = rut_ruby_table_string(t, p, row->method),
				.singleton = row->flags & RUT_ROW_SINGLETON,
				.calls = row->calls,
			};

			if (to.method_name && !(row->flags & RUT_ROW_C))
				fn(&to, arg);
		}
	}
}
