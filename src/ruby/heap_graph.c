/* SPDX-License-Identifier: MIT */
#include "ruby/heap_graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ruby/graph.h"
#include "ruby/heap.h"
#include "ruby/internal.h"
#include "ruby/table.h"
#include "ruby/tracee.h"

_Static_assert(RUT_GRAPH_REFS_MAX == RUT_GRAPH_REFS, "the agent's");

static bool can_be_asked(const struct rut_tracee *p)
{
	return !p->exited && !p->unseen && p->table && p->ctl;
}

static struct rut_tracee *find(const struct rut_tracer *t, pid_t pid)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->tracees[i]->pid == pid && can_be_asked(t->tracees[i]))
			return t->tracees[i];
	return NULL;
}

pid_t rut_tracer_graph_process(const struct rut_tracer *t, size_t i)
{
	for (size_t k = 0; k < t->count; k++)
		if (can_be_asked(t->tracees[k]) && !i--)
			return t->tracees[k]->pid;
	return 0;
}

int rut_tracer_graph_ask(struct rut_tracer *t, pid_t pid)
{
	struct rut_tracee *p = find(t, pid);

	if (!p)
		return -ESRCH;
	if (++t->heap_looks == 0)
		t->heap_looks = 1;
	p->heap_asked = t->heap_looks;
	__atomic_store_n(&p->table->look_wanted, t->heap_looks, __ATOMIC_RELEASE);
	rut_tracee_wake(p);
	return 0;
}

/* The ring; NULL: there is none where the process says, or it is an older agent's. */
static const uint64_t *ring_of(const struct rut_tracee *p)
{
	const struct rut_agent_graph *g = &p->table->graph;
	/* The process may change it at any time: it is read once, then checked. */
	const uint64_t off = __atomic_load_n(&g->off, __ATOMIC_RELAXED);
	uint64_t bytes = RUT_GRAPH_WORDS * sizeof(uint64_t);

	if (g->words != RUT_GRAPH_WORDS || off % 8 || off > p->table_bytes ||
	    p->table_bytes - off < bytes)
		return NULL;
	return (const uint64_t *)((const char *)p->table + off);
}

static int take(struct rut_tracee *p, const uint64_t *ring, struct rut_heap_graph *g)
{
	uint64_t tail = __atomic_load_n(&p->table->graph.tail, __ATOMIC_RELAXED);
	uint64_t head = __atomic_load_n(&p->table->graph.head, __ATOMIC_ACQUIRE);
	int rc = 0;

	if (head - tail > RUT_GRAPH_WORDS)
		return -EBADMSG;
	while (tail != head && !rc) {
		uint64_t at = tail % RUT_GRAPH_WORDS, n = head - tail;

		if (n > RUT_GRAPH_WORDS - at)
			n = RUT_GRAPH_WORDS - at;
		rc = rut_graph_add(g, ring + at, n);
		tail += n;
		__atomic_store_n(&p->table->graph.tail, tail, __ATOMIC_RELEASE);
	}
	return rc;
}

static int fail(const struct rut_tracee *p, int rc, struct rut_err *err)
{
	if (rc == -ENOMEM)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (rc == -E2BIG)
		return rut_err_set(err, E2BIG,
				   "the heap of process %d is too large: more than 32 GiB", p->pid);
	return rut_err_set(err, EBADMSG, "what process %d reports about its heap is damaged",
			   p->pid);
}

int rut_tracer_graph_take(struct rut_tracer *t, pid_t pid, struct rut_heap_graph *g,
			  struct rut_err *err)
{
	struct rut_tracee *p = find(t, pid);
	const uint64_t *ring;
	bool done;
	int rc;

	if (!p)
		return rut_err_set(err, ESRCH, "process %d has ended", pid);
	ring = ring_of(p);
	if (!ring)
		return rut_err_set(err, EPROTO,
				   "process %d has the agent of an older rutile, which does not "
				   "report references: restart the process",
				   pid);
	done = __atomic_load_n(&p->table->look_done, __ATOMIC_ACQUIRE) == p->heap_asked;
	rc = take(p, ring, g);
	if (rc)
		return fail(p, rc, err);
	if (!done)
		return 0;
	if (p->table->look_flags & RUT_LOOK_RACTORS)
		return rut_err_set(
			err, ENOTSUP,
			"process %d runs several ractors, which change the heap while it "
			"is read",
			pid);
	if (p->table->look_flags & RUT_LOOK_NO_GRAPH)
		return rut_err_set(
			err, ENOTSUP,
			"the Ruby of process %d does not report references, or it has no "
			"memory left",
			pid);
	rc = rut_graph_resolve(g);
	return rc ? fail(p, rc, err) : 1;
}

unsigned rut_tracer_graph_flags(const struct rut_tracer *t, pid_t pid)
{
	const struct rut_tracee *p = find(t, pid);

	if (!p)
		return 0;
	return p->table->look_flags |
	       (p->table->graph.flags & RUT_GRAPH_LOST ? RUT_RUBY_GRAPH_LOST : 0);
}

static int compare_refs(const void *x, const void *y)
{
	const struct rut_graph_ref *a = x, *b = y;

	if (a->holder != b->holder)
		return a->holder < b->holder ? -1 : 1;
	return (a->object > b->object) - (a->object < b->object);
}

int rut_tracer_graph_ask_names(struct rut_tracer *t, pid_t pid, struct rut_graph_ref *refs,
			       size_t count)
{
	struct rut_tracee *p = find(t, pid);
	struct rut_agent_ref *to = p ? (struct rut_agent_ref *)ring_of(p) : NULL;

	if (!to)
		return -ESRCH;
	if (count > RUT_GRAPH_REFS)
		count = RUT_GRAPH_REFS;
	if (count)
		qsort(refs, count, sizeof(*refs), compare_refs);
	for (size_t i = 0; i < count; i++)
		to[i] = (struct rut_agent_ref){refs[i].holder, refs[i].object, 0};
	p->table->graph.refs = (uint32_t)count;
	__atomic_fetch_add(&p->table->graph.names_wanted, 1, __ATOMIC_RELEASE);
	rut_tracee_wake(p);
	return 0;
}

int rut_tracer_graph_names(struct rut_tracer *t, pid_t pid, struct rut_graph_ref *refs,
			   size_t count)
{
	struct rut_tracee *p = find(t, pid);
	const struct rut_agent_ref *from = p ? (const struct rut_agent_ref *)ring_of(p) : NULL;

	if (!from)
		return -ESRCH;
	if (__atomic_load_n(&p->table->graph.names_done, __ATOMIC_ACQUIRE) !=
	    p->table->graph.names_wanted)
		return 0;
	for (size_t i = 0; i < count && i < RUT_GRAPH_REFS; i++)
		refs[i].name = rut_ruby_table_string(t, p, (uint32_t)from[i].name);
	return 1;
}

size_t rut_tracer_graph_rows(const struct rut_tracer *t, pid_t pid)
{
	const struct rut_tracee *p = find(t, pid);

	return p ? rut_ruby_table_count(p) : 0;
}

bool rut_tracer_graph_row(struct rut_tracer *t, pid_t pid, uint32_t number,
			  struct rut_graph_what *ret)
{
	const struct rut_tracee *p = find(t, pid);
	const struct rut_agent_row *row;

	*ret = (struct rut_graph_what){0};
	if (!p || number >= rut_ruby_table_count(p))
		return false;
	row = rut_ruby_table_row(p, number);
	*ret = (struct rut_graph_what){
		.class_name = rut_ruby_table_string(t, p, row->class_name),
		.path = rut_ruby_table_string(t, p, row->path),
		.line = row->line,
	};
	return true;
}

const char *rut_tracer_graph_text(struct rut_tracer *t, pid_t pid, uint32_t offset)
{
	const struct rut_tracee *p = find(t, pid);

	return p ? rut_ruby_table_string(t, p, offset) : NULL;
}
