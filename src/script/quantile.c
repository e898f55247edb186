/* SPDX-License-Identifier: MIT */
#include "script/quantile.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "script/hist.h"
#include "script/rows.h"

struct walk {
	uint64_t rank, below, total;
	int64_t result;
};

static void add(void *arg, int64_t low, int64_t high, bool above, uint64_t count)
{
	struct walk *w = arg;

	w->total += count;
}

static void find(void *arg, int64_t low, int64_t high, bool above, uint64_t count)
{
	struct walk *w = arg;
	uint64_t within;

	if (w->below >= w->rank || !count)
		return;
	w->below += count;
	if (w->below < w->rank)
		return;
	/* What has no end is known by the end that it has. */
	if (above || low == INT64_MIN) {
		w->result = above ? low : high;
		return;
	}
	within = w->rank - (w->below - count);
	w->result = low + (int64_t)((unsigned __int128)(uint64_t)(high - low) * within / count);
}

int64_t rut_script_quantile(const struct rut_type *t, const uint64_t *words, uint32_t permille)
{
	struct walk w = {0};

	rut_script_hist_each(t, words, add, &w);
	w.rank = (uint64_t)(((unsigned __int128)w.total * permille + 999) / 1000);
	if (!w.rank)
		w.rank = w.total != 0;
	rut_script_hist_each(t, words, find, &w);
	return w.result;
}

/* The element of all CPUs, merged. */
static int64_t read_one(const struct rut_script_map *m, const void *key, uint32_t permille)
{
	size_t stride = (m->value_bytes + 7) & ~7u, ncpus = (size_t)libbpf_num_possible_cpus();
	_cleanup_free_ void *values = calloc(ncpus, stride);
	_cleanup_free_ uint64_t *merged = calloc(1, rut_script_merged_bytes(m->value));

	if (!values || !merged || bpf_map_lookup_elem(m->fd, key, values))
		return 0;
	rut_script_merge(m->value, merged, values, ncpus, stride);
	return rut_script_quantile(m->value, merged, permille);
}

const struct rut_script_event *rut_script_quantiles_fill(const struct rut_script_action *a,
							 const struct rut_script_map *maps,
							 const struct rut_script_event *e,
							 size_t size, struct rut_buf *buf)
{
	const struct rut_type_field *keys = a->args ? a->args->fields + a->args->nfields : NULL;
	uint8_t *data;

	if (!a->nquantiles)
		return e;
	buf->len = 0;
	rut_buf_add(buf, e, size);
	if (!buf->data || buf->len != size)
		return NULL;
	data = (uint8_t *)buf->data + sizeof(*e);
	for (uint32_t i = 0; i < a->nquantiles && size >= sizeof(*e) + a->args->size; i++) {
		const struct rut_script_quantile *q = &a->quantiles[i];
		int64_t v = read_one(&maps[q->map], data + keys[i].offset, q->permille);

		memcpy(data + a->args->fields[q->field].offset, &v, sizeof(v));
	}
	return (const void *)buf->data;
}
