/* SPDX-License-Identifier: MIT */
/*
 * Stacks are stored once each, in a map; records hold their numbers. At the end of a trace, when it
 * is known which exist, they are written as events. Kernel functions get their names here, because
 * the running kernel is the one that knows them; user addresses are left to the reader.
 */
#include <bpf/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "session/events.h"
#include "session/statedump.h"

#define DEPTH_MAX    127
#define KERNEL_BEGIN 0xffff000000000000ull

struct symbol {
	uint64_t address;
	char *name; /* owned */
};

struct symbols {
	struct symbol *list; /* owned; by address */
	size_t count;
};

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct symbol *)a)->address, y = ((const struct symbol *)b)->address;

	return x < y ? -1 : x > y;
}

static void symbols_fini(struct symbols *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->list[i].name);
	free(s->list);
}

static void symbols_read(struct symbols *s)
{
	_cleanup_file_ FILE *f = fopen("/proc/kallsyms", "re");
	char line[512], type, name[256];
	unsigned long long address;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx %c %255s", &address, &type, name) != 3 || !address ||
		    !strchr("tTwW", type))
			continue;
		if (s->count % 4096 == 0) {
			void *more = reallocarray(s->list, s->count + 4096, sizeof(*s->list));

			if (!more)
				break;
			s->list = more;
		}
		s->list[s->count].address = address;
		s->list[s->count].name = strdup(name);
		if (!s->list[s->count].name)
			break;
		s->count++;
	}
	if (s->count)
		qsort(s->list, s->count, sizeof(*s->list), by_address);
}

static const char *symbols_find(const struct symbols *s, uint64_t address)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (s->list[mid].address <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? s->list[low - 1].name : NULL;
}

static void write_stack(struct rut_statedump *s, struct symbols *syms, uint32_t id,
			const uint64_t *addresses)
{
	struct rut_ev_SD_STACK rec = {.id = (int32_t)id};
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	while (rec.addresses_length < DEPTH_MAX && addresses[rec.addresses_length])
		rec.addresses_length++;
	rut_buf_add(&b, &rec, sizeof(rec));
	rut_buf_add(&b, addresses, rec.addresses_length * sizeof(*addresses));
	for (size_t i = 0; i < rec.addresses_length && addresses[i] >= KERNEL_BEGIN; i++) {
		const char *name;

		if (!syms->count)
			symbols_read(syms);
		name = symbols_find(syms, addresses[i]);
		rut_buf_printf(&b, "%s%s", i ? ";" : "", name ? name : "?");
	}
	rut_buf_putc(&b, '\0');
	if (!b.failed)
		rut_statedump_emit(s, RUT_EV_SD_STACK, b.data, b.len);
}

void rut_statedump_stacks(struct rut_statedump *s, int stacks_fd)
{
	struct symbols syms = {0};
	uint64_t addresses[DEPTH_MAX];
	uint32_t key, next, *at = NULL;

	while (!bpf_map_get_next_key(stacks_fd, at, &next)) {
		memset(addresses, 0, sizeof(addresses));
		if (!bpf_map_lookup_elem(stacks_fd, &next, addresses))
			write_stack(s, &syms, next, addresses);
		key = next;
		at = &key;
	}
	symbols_fini(&syms);
}
