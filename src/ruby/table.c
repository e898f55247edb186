/* SPDX-License-Identifier: MIT */
/*
 * A process's table as it stands: rows and strings in shared memory that the process writes, so
 * nothing in it is trusted.
 */
#include "ruby/table.h"

#include "agent/clock.h"

const struct rut_agent_row *rut_ruby_table_row(const struct rut_tracee *p, uint32_t i)
{
	return (const struct rut_agent_row *)((const char *)p->table + 4096) + i;
}

/*
 * The layout is the ABI's, not what the target's memory says. What the target may change meanwhile
 * is read once, by an atomic load, and then checked: the compiler may repeat others.
 */
uint32_t rut_ruby_table_count(const struct rut_tracee *p)
{
	uint32_t n = __atomic_load_n(&p->table->row_count, __ATOMIC_ACQUIRE);
	uint64_t room = __atomic_load_n(&p->table->strs_off, __ATOMIC_RELAXED);

	if (room > p->table_bytes)
		room = p->table_bytes;
	room = room > 4096 ? (room - 4096) / sizeof(struct rut_agent_row) : 0;
	return n > room ? (uint32_t)room : n;
}

const void *rut_ruby_table_beside(const struct rut_tracee *p, uint32_t i, size_t size)
{
	const uint64_t off = __atomic_load_n(&p->table->extra_off, __ATOMIC_RELAXED);
	uint64_t at = off + i * size;

	if (!off || at % 8 || at > p->table_bytes || p->table_bytes - at < size)
		return NULL;
	return (const char *)p->table + at;
}

const char *rut_ruby_table_string(struct rut_tracer *t, const struct rut_tracee *p, uint32_t off)
{
	uint64_t base = __atomic_load_n(&p->table->strs_off, __ATOMIC_RELAXED), at = base + off;
	const char *data;
	uint32_t len;
	int64_t id;

	if (!off || off % 4 || base % 4 || base > p->table_bytes ||
	    at + sizeof(len) > p->table_bytes)
		return NULL;
	data = (const char *)p->table + at;
	len = __atomic_load_n((const uint32_t *)data, __ATOMIC_RELAXED);
	if (len > 65536 || at + sizeof(len) + len > p->table_bytes)
		return NULL;
	id = rut_strtab_intern(&t->strings, data + sizeof(len), len);
	return id < 0 ? NULL : t->strings.strs[id].data;
}

uint64_t rut_ruby_table_ticks(const struct rut_tracee *p)
{
	return rut_ticks_of(p->table->ticks_are_tsc);
}

bool rut_ruby_table_is_c(const struct rut_tracee *p, uint32_t number)
{
	return number < rut_ruby_table_count(p) && rut_ruby_table_row(p, number)->flags & RUT_ROW_C;
}
