/* SPDX-License-Identifier: MIT */
#include "analysis/bins.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void rut_an_bins_fini(struct rut_bins *b)
{
	free(b->bins);
	b->bins = NULL;
	b->n = b->cap = 0;
}

static void halve(struct rut_bins *b)
{
	size_t n = (b->n + 1) / 2;

	for (size_t i = 0; i < n; i++) {
		struct rut_bin sum = b->bins[2 * i];

		if (2 * i + 1 < b->n) {
			sum.sum += b->bins[2 * i + 1].sum;
			sum.logs += b->bins[2 * i + 1].logs;
			sum.n += b->bins[2 * i + 1].n;
		}
		b->bins[i] = sum;
	}
	if (b->n > n)
		memset(b->bins + n, 0, (b->n - n) * sizeof(*b->bins));
	b->n = n;
	b->shift++;
}

void rut_an_bins_widen(struct rut_bins *b, unsigned int shift)
{
	if (!b->n)
		b->shift = shift;
	while (b->shift < shift)
		halve(b);
}

struct rut_bin *rut_an_bins_reserve(struct rut_bins *b, int64_t ts_ns)
{
	uint64_t since = ts_ns > b->begin_ns ? (uint64_t)ts_ns - (uint64_t)b->begin_ns : 0;
	size_t at;

	if (!b->shift)
		b->shift = RUT_BINS_NARROWEST;
	while (since >> b->shift >= RUT_BINS)
		halve(b);
	at = since >> b->shift;
	if (at >= b->cap) {
		size_t cap = b->cap ? b->cap : 8;
		struct rut_bin *grown;

		while (cap <= at)
			cap *= 2;
		grown = realloc(b->bins, cap * sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + b->cap, 0, (cap - b->cap) * sizeof(*grown));
		b->bins = grown;
		b->cap = cap;
	}
	if (at >= b->n)
		b->n = at + 1;
	return &b->bins[at];
}

int rut_an_bins_add(struct rut_bins *b, int64_t ts_ns, int64_t value, bool logs)
{
	struct rut_bin *bin = rut_bins_at(b, ts_ns);

	if (!bin)
		return -ENOMEM;
	bin->n++;
	bin->sum += (double)value;
	if (logs && value > 1)
		bin->logs += log2((double)value);
	return 0;
}

int rut_an_bins_add_span(struct rut_bins *b, int64_t from_ns, int64_t to_ns)
{
	uint64_t width;

	if (from_ns < b->begin_ns)
		from_ns = b->begin_ns;
	if (from_ns >= to_ns)
		return 0;
	if (!rut_bins_at(b, to_ns)) /* from here on the width stays */
		return -ENOMEM;
	width = (uint64_t)1 << b->shift;
	while (from_ns < to_ns) {
		uint64_t in_bin = ((uint64_t)from_ns - (uint64_t)b->begin_ns) & (width - 1);
		uint64_t part = (uint64_t)to_ns - (uint64_t)from_ns;
		struct rut_bin *bin = rut_bins_at(b, from_ns);

		if (!bin)
			return -ENOMEM;
		part = part < width - in_bin ? part : width - in_bin;
		bin->sum += (double)part;
		bin->n++;
		from_ns = (int64_t)((uint64_t)from_ns + part);
	}
	return 0;
}
