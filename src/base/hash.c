/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t rut_hash_bytes(const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t h = 0x9e3779b97f4a7c15ull ^ len;
	uint64_t word;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&word, p, 8);
		h = (h ^ word) * 0xff51afd7ed558ccdull;
		h ^= h >> 32;
	}
	if (len) {
		word = 0;
		memcpy(&word, p, len);
		h = (h ^ word) * 0xff51afd7ed558ccdull;
	}
	return rut_hash_u64(h);
}

void rut_map_fini(struct rut_map *m)
{
	free(m->slots);
	*m = (struct rut_map){0};
}

/* Where a key is looked for first: a multiplication is enough for numbers and pointers. */
static inline size_t home(const struct rut_map *m, uint64_t key)
{
	return key * 0x9e3779b97f4a7c15ull >> 32 & m->mask;
}

static inline struct rut_map_slot *map_slot(const struct rut_map *m, uint64_t key)
{
	size_t i = home(m, key);

	while (m->slots[i].value && m->slots[i].key != key)
		i = (i + 1) & m->mask;
	return &m->slots[i];
}

void *rut_map_get(const struct rut_map *m, uint64_t key)
{
	return m->slots ? map_slot(m, key)->value : NULL;
}

static int map_grow(struct rut_map *m)
{
	size_t n = m->slots ? (m->mask + 1) * 2 : 16;
	struct rut_map bigger = {.mask = n - 1, .count = m->count};

	bigger.slots = calloc(n, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	rut_map_each(m, slot)
		*map_slot(&bigger, slot->key) = *slot;
	free(m->slots);
	*m = bigger;
	return 0;
}

int rut_map_put(struct rut_map *m, uint64_t key, void *value)
{
	struct rut_map_slot *slot;

	if ((!m->slots || m->count >= (m->mask + 1) / 4 * 3) && map_grow(m))
		return -ENOMEM;
	slot = map_slot(m, key);
	m->count += !slot->value;
	*slot = (struct rut_map_slot){key, value};
	return 0;
}

void *rut_map_remove(struct rut_map *m, uint64_t key)
{
	struct rut_map_slot *slot;
	size_t hole, i;
	void *value;

	if (!m->slots)
		return NULL;
	slot = map_slot(m, key);
	value = slot->value;
	if (!value)
		return NULL;
	/* Move back what probed past the hole, so that no tombstones are needed. */
	hole = slot - m->slots;
	for (i = (hole + 1) & m->mask; m->slots[i].value; i = (i + 1) & m->mask) {
		size_t from = home(m, m->slots[i].key);

		if (((i - from) & m->mask) >= ((i - hole) & m->mask)) {
			m->slots[hole] = m->slots[i];
			hole = i;
		}
	}
	m->slots[hole].value = NULL;
	m->count--;
	return value;
}

void rut_index_fini(struct rut_index *x)
{
	for (size_t i = 0; x->pages && i < RUT_INDEX_KEYS / RUT_INDEX_PAGE; i++)
		free(x->pages[i]);
	free(x->pages);
	rut_map_fini(&x->others);
	*x = (struct rut_index){0};
}

int rut_index_put(struct rut_index *x, uint64_t key, void *value)
{
	void ***page;

	if (key >= RUT_INDEX_KEYS && value)
		return rut_map_put(&x->others, key, value);
	if (key >= RUT_INDEX_KEYS) {
		rut_map_remove(&x->others, key);
		return 0;
	}
	if (!x->pages)
		x->pages = calloc(RUT_INDEX_KEYS / RUT_INDEX_PAGE, sizeof(*x->pages));
	if (!x->pages)
		return -ENOMEM;
	page = &x->pages[key / RUT_INDEX_PAGE];
	if (!*page)
		*page = calloc(RUT_INDEX_PAGE, sizeof(**page));
	if (!*page)
		return -ENOMEM;
	(*page)[key % RUT_INDEX_PAGE] = value;
	return 0;
}

void rut_strtab_fini(struct rut_strtab *t)
{
	for (size_t i = 0; i < t->count; i++)
		free((char *)t->strs[i].data);
	free(t->strs);
	free(t->slots);
	*t = (struct rut_strtab){0};
}

static uint32_t *strtab_slot(const struct rut_strtab *t, const char *data, size_t len, uint32_t h)
{
	size_t i = h & t->mask;

	for (; t->slots[i]; i = (i + 1) & t->mask) {
		const struct rut_str *s = &t->strs[t->slots[i] - 1];

		if (s->hash == h && s->len == len && !memcmp(s->data, data, len))
			break;
	}
	return &t->slots[i];
}

static int strtab_grow(struct rut_strtab *t)
{
	size_t n = t->slots ? (t->mask + 1) * 2 : 64;
	uint32_t *slots = calloc(n, sizeof(*slots));
	struct rut_str *strs = realloc(t->strs, n / 4 * 3 * sizeof(*strs));

	if (strs)
		t->strs = strs;
	if (!slots || !strs) {
		free(slots);
		return -ENOMEM;
	}
	for (size_t id = 0; id < t->count; id++) {
		size_t i = t->strs[id].hash & (n - 1);

		while (slots[i])
			i = (i + 1) & (n - 1);
		slots[i] = id + 1;
	}
	free(t->slots);
	t->slots = slots;
	t->mask = n - 1;
	t->cap = n / 4 * 3;
	return 0;
}

int64_t rut_strtab_intern(struct rut_strtab *t, const char *data, size_t len)
{
	uint32_t h = (uint32_t)rut_hash_bytes(data, len);
	uint32_t *slot;
	char *copy;

	if (len > UINT32_MAX - 1)
		return -ENOMEM;
	if (t->count >= t->cap && strtab_grow(t))
		return -ENOMEM;
	slot = strtab_slot(t, data, len, h);
	if (*slot)
		return *slot - 1;
	copy = malloc(len + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, data, len);
	copy[len] = '\0';
	t->strs[t->count] = (struct rut_str){copy, (uint32_t)len, h};
	*slot = t->count + 1;
	/* cppcheck-suppress memleak ; strs owns the copy */
	return (int64_t)t->count++;
}

int64_t rut_strtab_find(const struct rut_strtab *t, const char *data, size_t len)
{
	if (!t->slots)
		return -1;
	return (int64_t)*strtab_slot(t, data, len, (uint32_t)rut_hash_bytes(data, len)) - 1;
}
