/* SPDX-License-Identifier: MIT */
/*
 * What a map of a script holds, read once: keys and values, those of per-CPU maps merged. Rows are
 * what output, metrics and screens show.
 */
#ifndef RUT_SCRIPT_ROWS_H
#define RUT_SCRIPT_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct rut_err;
struct rut_script_map;
struct rut_type;

struct rut_script_row {
	const uint8_t *key;   /* borrowed from the rows; NULL: the map has no key */
	const uint8_t *value; /* borrowed; aggregations: uint64_t words, merged */
};

struct rut_script_rows {
	struct rut_buf bytes; /* keys and values */
	size_t key_bytes, value_bytes, stride;
	size_t count;
	struct rut_script_row *rows; /* owned; set by rut_script_rows_sort() */
};

enum rut_script_order {
	RUT_SCRIPT_BY_VALUE, /* then by key; of values that are no numbers by key */
	RUT_SCRIPT_BY_KEY,
};

/* Bytes of a merged value. */
size_t rut_script_merged_bytes(const struct rut_type *t);

/*
 * Adds what `ncpus` CPUs have, each `stride` bytes behind the one before it, to the merged value
 * `into`, which was zero before the first call for it.
 */
void rut_script_merge(const struct rut_type *t, void *into, const void *percpu, size_t ncpus,
		      size_t stride);

void rut_script_rows_init(struct rut_script_rows *r, const struct rut_script_map *m);
void rut_script_rows_fini(struct rut_script_rows *r);

/* Adds a row: `ncpus` values, `stride` bytes apart. 0 or -ENOMEM. */
int rut_script_rows_add(struct rut_script_rows *r, const struct rut_script_map *m, const void *key,
			const void *values, size_t ncpus, size_t stride);

/* Reads the loaded map m->fd and sorts by value. 0 or -errno. */
int rut_script_rows_read(struct rut_script_rows *r, const struct rut_script_map *m,
			 struct rut_err *err);

/* Sorts; call it after the last row was added. 0 or -ENOMEM. */
int rut_script_rows_sort(struct rut_script_rows *r, const struct rut_script_map *m,
			 enum rut_script_order order, bool descending);

/* The number that a value is sorted by; false: it has none. Histograms: how many values. */
bool rut_script_value_number(const struct rut_type *t, const void *value, int64_t *ret);

/* <0, 0, >0: keys by what they are, number, text or field by field. */
int rut_script_key_compare(const struct rut_type *t, const void *a, const void *b);

/* Was anything assigned to a map without key? Others: true. */
bool rut_script_map_is_set(const struct rut_script_map *m);

/* Removes every key of the map, or (of a map without) sets it to 0. */
int rut_script_map_clear(const struct rut_script_map *m);
/* Sets every value to 0 and keeps the keys. */
int rut_script_map_zero(const struct rut_script_map *m);

#endif
