/* SPDX-License-Identifier: MIT */
#include "analysis/where_tables.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/state.h"

bool rut_an_where_exists(const struct rut_where *w, size_t index)
{
	const struct rut_thread *t =
		index < w->n_threads && index < w->st->n_all ? w->st->all[index] : NULL;

	return t && w->threads[index] && w->threads[index]->serial == t->serial;
}

struct rut_where_thread *rut_an_where_thread(struct rut_where *w, struct rut_thread *thread)
{
	struct rut_where_thread *t;

	if (thread->index < w->n_threads && w->threads[thread->index] &&
	    w->threads[thread->index]->serial == thread->serial)
		return w->threads[thread->index];
	if (thread->index >= w->n_threads) {
		size_t n = w->n_threads ? w->n_threads * 2 : 256;
		void *to;

		while (n <= thread->index)
			n *= 2;
		to = realloc(w->threads, n * sizeof(*w->threads));
		if (!to) {
			w->failed = true;
			return NULL;
		}
		w->threads = to;
		memset(w->threads + w->n_threads, 0, (n - w->n_threads) * sizeof(*w->threads));
		w->n_threads = n;
	}
	t = calloc(1, sizeof(*t));
	if (!t) {
		w->failed = true;
		return NULL;
	}
	t->thread = thread;
	t->serial = thread->serial;
	t->since_ns = t->out_ns = t->queue_ns = RUT_NO_TIME;
	t->cpu = -1;
	if (w->threads[thread->index] && w->threads[thread->index]->user && w->forget)
		w->forget(w->arg, w->threads[thread->index]->user);
	free(w->threads[thread->index]);
	w->threads[thread->index] = t;
	return t;
}

struct rut_where_cpu *rut_an_where_cpu(struct rut_where *w, int cpu)
{
	static struct rut_where_cpu nowhere;
	size_t n;
	void *to;

	if (cpu < 0 || cpu > 65535)
		return &nowhere;
	if ((size_t)cpu < w->n_cpus)
		return &w->cpus[cpu];
	n = ((size_t)cpu + 16) & ~(size_t)15;
	to = realloc(w->cpus, n * sizeof(*w->cpus));
	if (!to) {
		w->failed = true;
		return &nowhere;
	}
	w->cpus = to;
	for (size_t i = w->n_cpus; i < n; i++)
		w->cpus[i] = (struct rut_where_cpu){.idle_ns = RUT_NO_TIME};
	w->n_cpus = n;
	return &w->cpus[cpu];
}

/* Removes what is keyed by processes that have ended. */
static void purge(struct rut_where *w, struct rut_map *m, int shift)
{
	uint64_t *keys = calloc(m->count + 1, sizeof(*keys));
	size_t n = 0;

	rut_map_each(m, s) {
		if (keys && rut_an_state_has_ended(w->st, (int64_t)((s->key - 1) >> shift)))
			keys[n++] = s->key;
	}
	while (n)
		free(rut_map_remove(m, keys[--n]));
	free(keys);
}

static void purge_when_large(struct rut_where *w)
{
	size_t n = w->fds.count + w->processes.count;

	if (n < w->purge_at)
		return;
	purge(w, &w->fds, 32);
	purge(w, &w->processes, 0);
	n = 2 * (w->fds.count + w->processes.count);
	w->purge_at = n > 8192 ? n : 8192;
}

struct rut_where_process *rut_an_where_process(struct rut_where *w, const struct rut_thread *t)
{
	static struct rut_where_process nobody;
	uint64_t key = (uint64_t)(t->pid >= 0 ? t->pid : t->tid) + 1;
	struct rut_where_process *p = rut_map_get(&w->processes, key);

	if (p)
		return p;
	purge_when_large(w);
	p = calloc(1, sizeof(*p));
	if (!p || rut_map_put(&w->processes, key, p)) {
		free(p);
		w->failed = true;
		nobody = (struct rut_where_process){0};
		return &nobody;
	}
	return p;
}

void rut_an_where_fini(struct rut_where *w)
{
	if (w->st)
		rut_an_state_unsubscribe(w->st, w);
	for (size_t i = 0; i < w->n_threads; i++)
		free(w->threads[i]);
	free(w->threads);
	free(w->cpus);
	rut_map_each(&w->processes, p)
		free(p->value);
	rut_map_fini(&w->processes);
	rut_map_each(&w->fds, f)
		free(f->value);
	rut_map_fini(&w->fds);
	rut_map_each(&w->decoders, d)
		free(d->value);
	rut_map_fini(&w->decoders);
	*w = (struct rut_where){0};
}
