/* SPDX-License-Identifier: MIT */
#include "script/rows.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/hash.h"
#include "script/hist.h"
#include "script/program.h"
#include "script/value.h"

static size_t words_of(const struct rut_type *t)
{
	switch (t->kind) {
	case RUT_T_COUNT:
	case RUT_T_SUM:
		return 1;
	case RUT_T_MIN:
	case RUT_T_MAX:
	case RUT_T_AVG:
	case RUT_T_STATS:
		return 2;
	case RUT_T_HIST:
		return rut_script_hist_words(t->bits);
	case RUT_T_LHIST:
		return rut_script_lhist_words(t);
	case RUT_T_TSERIES:
		return (size_t)t->count * RUT_SCRIPT_TSERIES_WORDS;
	default:
		return 0;
	}
}

size_t rut_script_merged_bytes(const struct rut_type *t)
{
	size_t words = words_of(t);

	return words ? words * sizeof(uint64_t) : t->size;
}

static bool less(const struct rut_type *t, uint64_t a, uint64_t b)
{
	return t->is_signed ? (int64_t)a < (int64_t)b : a < b;
}

/* Values and marks that there is one. */
static void merge_extreme(const struct rut_type *t, uint64_t *into, const uint64_t *from)
{
	bool max = t->kind == RUT_T_MAX || t->agg == RUT_T_MAX;

	if (!from[1])
		return;
	if (!into[1] || (max ? less(t, into[0], from[0]) : less(t, from[0], into[0])))
		into[0] = from[0];
	into[1] = 1;
}

/* An interval of one CPU into that of all. */
static void merge_interval(const struct rut_type *t, uint64_t *into, const uint64_t *from)
{
	if (!from[0] || !from[2] || from[0] < into[0])
		return;
	if (from[0] > into[0]) {
		memcpy(into, from, RUT_SCRIPT_TSERIES_WORDS * sizeof(*into));
		return;
	}
	switch (t->agg) {
	case RUT_T_MIN:
	case RUT_T_MAX:
		merge_extreme(t, into + 1, from + 1);
		break;
	case RUT_T_SUM:
	case RUT_T_AVG:
		into[1] += from[1];
		break;
	default: /* the last one */
		if (from[3] >= into[3])
			into[1] = from[1];
	}
	into[2] += from[2];
	if (from[3] > into[3])
		into[3] = from[3];
}

static void merge_one(const struct rut_type *t, uint64_t *into, const uint64_t *from)
{
	size_t words = words_of(t);

	switch (t->kind) {
	case RUT_T_MIN:
	case RUT_T_MAX:
		merge_extreme(t, into, from);
		break;
	case RUT_T_TSERIES:
		for (size_t i = 0; i < words; i += RUT_SCRIPT_TSERIES_WORDS)
			merge_interval(t, into + i, from + i);
		break;
	default:
		for (size_t i = 0; i < words; i++)
			into[i] += from[i];
	}
}

/* Plain values of a map that the script declared as one of each CPU: the sum of all. */
static void merge_number(const struct rut_type *t, void *into, const void *from)
{
	uint64_t sum =
		(uint64_t)rut_script_value_int(t, into) + (uint64_t)rut_script_value_int(t, from);

	memcpy(into, &sum, t->size);
}

void rut_script_merge(const struct rut_type *t, void *into, const void *percpu, size_t ncpus,
		      size_t stride)
{
	for (size_t cpu = 0; cpu < ncpus; cpu++) {
		const char *from = (const char *)percpu + cpu * stride;

		if (words_of(t))
			merge_one(t, into, (const void *)from);
		else if (ncpus > 1 && t->kind == RUT_T_INT && t->size <= sizeof(uint64_t))
			merge_number(t, into, from);
		else if (cpu == 0)
			memcpy(into, from, t->size);
	}
}

void rut_script_rows_init(struct rut_script_rows *r, const struct rut_script_map *m)
{
	*r = (struct rut_script_rows){
		.key_bytes = m->key ? m->key->size : 0,
		.value_bytes = rut_script_merged_bytes(m->value),
	};
	/* Values are read as words. */
	r->stride = ((r->key_bytes + 7) & ~(size_t)7) + ((r->value_bytes + 7) & ~(size_t)7);
}

void rut_script_rows_fini(struct rut_script_rows *r)
{
	rut_buf_fini(&r->bytes);
	free(r->rows);
	r->rows = NULL;
	r->count = 0;
}

int rut_script_rows_add(struct rut_script_rows *r, const struct rut_script_map *m, const void *key,
			const void *values, size_t ncpus, size_t stride)
{
	char *at;

	if (rut_buf_reserve(&r->bytes, r->stride))
		return -ENOMEM;
	at = r->bytes.data + r->bytes.len;
	memset(at, 0, r->stride);
	if (r->key_bytes)
		memcpy(at, key, r->key_bytes);
	rut_script_merge(m->value, at + ((r->key_bytes + 7) & ~(size_t)7), values, ncpus, stride);
	r->bytes.len += r->stride;
	r->count++;
	return 0;
}

static int64_t sum_words(const uint64_t *words, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += words[i];
	return (int64_t)sum;
}

bool rut_script_value_number(const struct rut_type *t, const void *value, int64_t *ret)
{
	const uint64_t *words = value;

	switch (t->kind) {
	case RUT_T_INT:
	case RUT_T_BOOL:
	case RUT_T_ENUM:
	case RUT_T_POINTER:
		*ret = rut_script_value_int(t, value);
		return true;
	case RUT_T_DURATION:
	case RUT_T_COUNT:
	case RUT_T_SUM:
	case RUT_T_MIN:
	case RUT_T_MAX:
		*ret = (int64_t)words[0];
		return true;
	case RUT_T_AVG:
	case RUT_T_STATS:
		*ret = rut_script_average(t, words);
		return true;
	case RUT_T_HIST:
	case RUT_T_LHIST:
		*ret = sum_words(words, words_of(t));
		return true;
	default:
		return false;
	}
}

static int compare_numbers(bool is_signed, int64_t a, int64_t b)
{
	if (is_signed)
		return (a > b) - (a < b);
	return ((uint64_t)a > (uint64_t)b) - ((uint64_t)a < (uint64_t)b);
}

/* What is no number comes last. */
static int compare_reals(const struct rut_type *t, const void *a, const void *b)
{
	double x = rut_script_value_real(t, a), y = rut_script_value_real(t, b);

	if (isnan(x) || isnan(y))
		return !!isnan(x) - !!isnan(y);
	return (x > y) - (x < y);
}

int rut_script_key_compare(const struct rut_type *t, const void *a, const void *b)
{
	const char *x = a, *y = b;
	int d = 0;

	switch (t->kind) {
	case RUT_T_INT:
	case RUT_T_BOOL:
	case RUT_T_ENUM:
	case RUT_T_POINTER:
		return compare_numbers(t->is_signed, rut_script_value_int(t, a),
				       rut_script_value_int(t, b));
	case RUT_T_FLOAT:
		d = compare_reals(t, a, b);
		return d ? d : memcmp(a, b, t->size);
	case RUT_T_STRING:
		return strncmp(x, y, t->size);
	case RUT_T_TUPLE:
	case RUT_T_RECORD:
	case RUT_T_STRUCT:
		for (uint32_t i = 0; i < t->nfields && !d; i++)
			d = rut_script_key_compare(t->fields[i].type, x + t->fields[i].offset,
						   y + t->fields[i].offset);
		return d;
	case RUT_T_ARRAY:
		for (uint32_t i = 0; i < t->count && !d; i++)
			d = rut_script_key_compare(t->elem, x + (size_t)i * t->elem->size,
						   y + (size_t)i * t->elem->size);
		return d;
	default:
		return memcmp(a, b, t->size);
	}
}

struct sorting {
	const struct rut_script_map *map;
	enum rut_script_order order;
	bool descending;
};

static int compare_rows(const void *a, const void *b, void *arg)
{
	const struct rut_script_row *x = a, *y = b;
	const struct sorting *s = arg;
	const struct rut_type *t = s->map->value;
	int64_t m, n;
	int d = 0;

	if (s->order == RUT_SCRIPT_BY_VALUE && rut_script_value_number(t, x->value, &m) &&
	    rut_script_value_number(t, y->value, &n))
		d = compare_numbers(t->is_signed || t->kind == RUT_T_DURATION, m, n);
	if (s->order == RUT_SCRIPT_BY_VALUE && t->kind == RUT_T_FLOAT)
		d = compare_reals(t, x->value, y->value);
	if (!d && s->map->key)
		d = rut_script_key_compare(s->map->key, x->key, y->key);
	return s->descending ? -d : d;
}

int rut_script_rows_sort(struct rut_script_rows *r, const struct rut_script_map *m,
			 enum rut_script_order order, bool descending)
{
	struct sorting s = {m, order, descending};
	struct rut_script_row *rows;

	if (!r->count)
		return 0;
	rows = reallocarray(r->rows, r->count, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	r->rows = rows;
	for (size_t i = 0; i < r->count; i++) {
		const uint8_t *at = (const uint8_t *)r->bytes.data + i * r->stride;

		rows[i] = (struct rut_script_row){r->key_bytes ? at : NULL,
						  at + ((r->key_bytes + 7) & ~(size_t)7)};
	}
	qsort_r(rows, r->count, sizeof(*rows), compare_rows, &s);
	return 0;
}

/* The keys of a map that is being written: each once, whatever is removed meanwhile. */
static int read_keys(const struct rut_script_map *m, size_t key_bytes, struct rut_strtab *keys)
{
	_cleanup_free_ char *key = calloc(2, key_bytes);
	char *next;
	bool first = true;
	size_t most = m->max_entries ? (size_t)m->max_entries * 2 : SIZE_MAX;

	if (!key)
		return -ENOMEM;
	next = key + key_bytes;
	for (size_t i = 0; i < most; i++) {
		if (bpf_map_get_next_key(m->fd, first ? NULL : key, next))
			return errno == ENOENT ? 0 : -errno;
		first = false;
		if (rut_strtab_intern(keys, next, key_bytes) < 0)
			return -ENOMEM;
		memcpy(key, next, key_bytes);
	}
	return 0;
}

/* Bytes of the map's own keys and of what one lookup fills. */
struct shape {
	size_t key_bytes, stride, ncpus, value_bytes;
};

static struct shape shape_of(const struct rut_script_map *m)
{
	struct shape s = {.ncpus = m->per_cpu ? (size_t)libbpf_num_possible_cpus() : 1};

	s.key_bytes = m->key_bytes ? m->key_bytes : m->key ? m->key->size : sizeof(uint32_t);
	s.stride = m->value_bytes ? m->value_bytes : rut_script_merged_bytes(m->value);
	if (m->per_cpu)
		s.stride = (s.stride + 7) & ~(size_t)7;
	s.value_bytes = s.stride * s.ncpus;
	return s;
}

int rut_script_rows_read(struct rut_script_rows *r, const struct rut_script_map *m,
			 struct rut_err *err)
{
	_cleanup_(rut_strtab_fini)
	struct rut_strtab keys = {0};
	struct shape s = shape_of(m);
	_cleanup_free_ void *value = calloc(1, s.value_bytes);
	int rc;

	rut_script_rows_init(r, m);
	if (!value)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = read_keys(m, s.key_bytes, &keys);
	for (size_t i = 0; i < keys.count && !rc; i++)
		/* One that was removed since is no error. */
		if (!bpf_map_lookup_elem(m->fd, keys.strs[i].data, value))
			rc = rut_script_rows_add(r, m, keys.strs[i].data, value, s.ncpus, s.stride);
	if (!rc)
		rc = rut_script_rows_sort(r, m, RUT_SCRIPT_BY_VALUE, false);
	if (rc) {
		rut_script_rows_fini(r);
		return rut_err_errno(err, -rc, "cannot read the map '%s'", m->name);
	}
	return 0;
}

static bool is_set(const struct rut_script_map *m, const struct shape *s, const char *values)
{
	for (size_t i = 0; i < s->ncpus; i++) {
		uint64_t word;

		memcpy(&word, values + i * s->stride + m->set_at, sizeof(word));
		if (word)
			return true;
	}
	return false;
}

bool rut_script_map_is_set(const struct rut_script_map *m)
{
	struct shape s = shape_of(m);
	_cleanup_free_ char *values = m->set_at ? calloc(1, s.value_bytes) : NULL;
	uint32_t key = 0;

	if (!values || bpf_map_lookup_elem(m->fd, &key, values))
		return true;
	return is_set(m, &s, values);
}

static int write_zeros(const struct rut_script_map *m, bool keep_set)
{
	_cleanup_(rut_strtab_fini)
	struct rut_strtab keys = {0};
	struct shape s = shape_of(m);
	_cleanup_free_ char *zero = calloc(1, s.value_bytes);
	uint64_t one = 1;
	int rc = zero ? read_keys(m, s.key_bytes, &keys) : -ENOMEM;

	if (!rc && keep_set && m->set_at && rut_script_map_is_set(m))
		memcpy(zero + m->set_at, &one, sizeof(one));
	for (size_t i = 0; i < keys.count && !rc; i++)
		if (bpf_map_update_elem(m->fd, keys.strs[i].data, zero, BPF_EXIST) &&
		    errno != ENOENT)
			rc = -errno;
	return rc;
}

int rut_script_map_zero(const struct rut_script_map *m)
{
	return write_zeros(m, true);
}

int rut_script_map_clear(const struct rut_script_map *m)
{
	_cleanup_(rut_strtab_fini)
	struct rut_strtab keys = {0};
	struct shape s = shape_of(m);
	int rc;

	if (m->is_array)
		return write_zeros(m, false);
	rc = read_keys(m, s.key_bytes, &keys);
	for (size_t i = 0; i < keys.count && !rc; i++)
		if (bpf_map_delete_elem(m->fd, keys.strs[i].data) && errno != ENOENT)
			rc = -errno;
	return rc;
}
