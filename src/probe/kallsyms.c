/* SPDX-License-Identifier: MIT */
#include "probe/kallsyms.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

struct symbol {
	uint64_t address;
	uint32_t name;	/* offset in the names */
	uint32_t order; /* in the file: of symbols at one address the last one counts */
};

struct rut_kallsyms {
	struct symbol *list; /* owned; by address */
	size_t count;
	struct rut_buf names;
};

void rut_kallsyms_free(struct rut_kallsyms *k)
{
	if (!k)
		return;
	free(k->list);
	rut_buf_fini(&k->names);
	free(k);
}

RUT_DEFINE_CLEANUP(struct rut_kallsyms *, rut_kallsyms_free);

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static int add(struct rut_kallsyms *k, uint64_t address, const char *name, size_t len)
{
	if (k->count % 4096 == 0) {
		void *more = reallocarray(k->list, k->count + 4096, sizeof(*k->list));

		if (!more)
			return -ENOMEM;
		k->list = more;
	}
	k->list[k->count] = (struct symbol){address, (uint32_t)k->names.len, (uint32_t)k->count};
	k->count++;
	rut_buf_add(&k->names, name, len);
	rut_buf_putc(&k->names, '\0');
	return k->names.failed ? -ENOMEM : 0;
}

int rut_kallsyms_open(struct rut_kallsyms **ret, bool data)
{
	_cleanup_(rut_kallsyms_freep)
	struct rut_kallsyms *k = calloc(1, sizeof(*k));
	_cleanup_file_ FILE *f = fopen("/proc/kallsyms", "re");
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	if (!k || !f)
		return k ? -errno : -ENOMEM;
	/* "ffffffff81000000 T _text\t[module]" */
	while (getline(&line, &room, f) > 0) {
		char *rest;
		uint64_t address = strtoull(line, &rest, 16);

		if (!address || rest[0] != ' ' || !rest[1] || rest[2] != ' ' ||
		    (!data && !strchr("tTwW", rest[1])))
			continue;
		rest += 3;
		if (add(k, address, rest, strcspn(rest, "\t\n")))
			return -ENOMEM;
	}
	if (k->count)
		qsort(k->list, k->count, sizeof(*k->list), by_address);
	*ret = RUT_TAKE(k);
	return 0;
}

const char *rut_kallsyms_find(const struct rut_kallsyms *k, uint64_t address,
			      uint64_t *ret_distance)
{
	size_t low = 0, high = k->count;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (k->list[mid].address <= address)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return NULL;
	*ret_distance = address - k->list[low - 1].address;
	return k->names.data + k->list[low - 1].name;
}

uint64_t rut_kallsyms_address(const struct rut_kallsyms *k, const char *name)
{
	for (size_t i = 0; i < k->count; i++)
		if (!strcmp(k->names.data + k->list[i].name, name))
			return k->list[i].address;
	return 0;
}
