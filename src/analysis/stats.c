/* SPDX-License-Identifier: MIT */
#include "analysis/stats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"

/* ---- Percentiles ---- */

/* Below 32 every value has its bucket; above, each power of two is cut into 32. */
static size_t bucket_of(int64_t v)
{
	unsigned exponent;

	if (v < RUT_HIST_SUB)
		return v < 0 ? 0 : (size_t)v;
	exponent = 63u - (unsigned)__builtin_clzll((uint64_t)v);
	return (exponent - 4) * RUT_HIST_SUB + (((uint64_t)v >> (exponent - 5)) & 31);
}

static double bucket_middle(size_t b)
{
	size_t exponent = b / RUT_HIST_SUB + 4, sub = b % RUT_HIST_SUB;

	if (b < RUT_HIST_SUB)
		return (double)b;
	return ldexp((double)(RUT_HIST_SUB + sub) + 0.5, (int)exponent - 5) - 0.5;
}

void rut_an_hist_add(struct rut_hist *h, int64_t v)
{
	h->counts[bucket_of(v)]++;
	h->total++;
}

double rut_an_hist_quantile(const struct rut_hist *h, double q)
{
	uint64_t rank = (uint64_t)ceil(q * (double)h->total), seen = 0;

	if (!h->total)
		return 0;
	if (!rank)
		rank = 1;
	for (size_t b = 0; b < RUT_HIST_BUCKETS; b++) {
		seen += h->counts[b];
		if (seen >= rank)
			return bucket_middle(b);
	}
	return 0;
}

/* ---- Values and how often ---- */

void rut_an_values_fini(struct rut_values *v)
{
	free(v->slots);
	*v = (struct rut_values){0};
}

static struct rut_value_slot *find_slot(struct rut_value_slot *slots, size_t mask, int64_t value)
{
	size_t i = rut_hash_u64((uint64_t)value) & mask;

	while (slots[i].count && slots[i].value != value)
		i = (i + 1) & mask;
	return &slots[i];
}

static int grow(struct rut_values *v)
{
	size_t size = v->slots ? (v->mask + 1) * 2 : 64;
	struct rut_value_slot *slots = calloc(size, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	rut_values_each(v, s) * find_slot(slots, size - 1, s->value) = *s;
	free(v->slots);
	v->slots = slots;
	v->mask = size - 1;
	return 0;
}

int rut_an_values_add(struct rut_values *v, int64_t value)
{
	struct rut_value_slot *s;

	if ((!v->slots || v->used * 4 >= (v->mask + 1) * 3) && grow(v))
		return -ENOMEM;
	s = find_slot(v->slots, v->mask, value);
	if (!s->count) {
		s->value = value;
		v->used++;
	}
	s->count++;
	return 0;
}

/* ---- Sums ---- */

int rut_an_stat_init(struct rut_stat *s, unsigned keep)
{
	*s = (struct rut_stat){0};
	if (keep & RUT_STAT_HIST)
		s->hist = calloc(1, sizeof(*s->hist));
	if (keep & RUT_STAT_VALUES)
		s->values = calloc(1, sizeof(*s->values));
	return ((keep & RUT_STAT_HIST) && !s->hist) || ((keep & RUT_STAT_VALUES) && !s->values)
		       ? -ENOMEM
		       : 0;
}

void rut_an_stat_fini(struct rut_stat *s)
{
	free(s->hist);
	if (s->values)
		rut_an_values_fini(s->values);
	free(s->values);
	*s = (struct rut_stat){0};
}

#if __LDBL_MANT_DIG__ >= 113
typedef long double wide;
#else
typedef __float128 wide;
#endif

/* The square root of a wide number, correctly rounded to a double but for a vanishing few. */
static double sqrt_wide(wide x)
{
	wide r = (wide)sqrtl((long double)x);

	if (!(x > 0))
		return 0;
	r = (r + x / r) / 2;
	r = (r + x / r) / 2;
	return (double)r;
}

double rut_an_stat_stdev(const struct rut_stat *s)
{
	unsigned __int128 n_squares, square;
	uint64_t sum = s->sum < 0 ? 0 - (uint64_t)s->sum : (uint64_t)s->sum;
	wide variance, n = (wide)s->count;

	if (s->count < 2)
		return NAN;
	square = (unsigned __int128)sum * sum;
	if (__builtin_mul_overflow(s->sum_squares, (unsigned __int128)s->count, &n_squares))
		variance = ((wide)s->sum_squares - (wide)square / n) / (n - 1);
	else
		variance = (wide)(n_squares - square) / (n * (n - 1));
	return sqrt_wide(variance);
}

double rut_an_stdev_floats(const double *v, size_t n)
{
	wide sum = 0, squares = 0, mean;

	if (n < 2)
		return NAN;
	for (size_t i = 0; i < n; i++)
		sum += (wide)v[i];
	mean = sum / (wide)n;
	for (size_t i = 0; i < n; i++)
		squares += ((wide)v[i] - mean) * ((wide)v[i] - mean);
	return sqrt_wide(squares / (wide)(n - 1));
}
