/* SPDX-License-Identifier: MIT */
#include "session/stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "ring/write.h"
#include "session/kernel_names.h"
#include "session/recorder.h"
#include "session/statedump.h"

#define KERNEL_BEGIN 0xffff000000000000ull

/* A copy of a place. */
struct stack {
	uint64_t id;
	uint32_t count;
	uint64_t address[RUT_STACK_DEPTH + 1];
};

/* Without `names`, which are used at `now`, kernel functions stay without names. */
static bool write_stack(struct rut_statedump *s, struct rut_kernel_names *names, uint64_t now,
			const struct stack *st)
{
	struct rut_ev_SD_STACK rec = {.id = st->id, .addresses_length = (uint8_t)st->count};
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	rut_buf_add(&b, &rec, sizeof(rec));
	rut_buf_add(&b, st->address, st->count * sizeof(*st->address));
	for (size_t i = 0; names && i < st->count && st->address[i] >= KERNEL_BEGIN; i++)
		rut_buf_printf(&b, "%s%s", i ? ";" : "",
			       rut_kernel_names_find(names, st->address[i], now));
	rut_buf_putc(&b, '\0');
	return !b.failed && rut_statedump_emit(s, RUT_EV_SD_STACK, b.data, b.len);
}

/* A place may change while it is read: what does not have its own hash is not a stack. */
static bool copy_stack(struct stack *to, const struct rut_stack_set *set, size_t way,
		       const uint8_t uuid[16])
{
	uint64_t hash;

	to->id = __atomic_load_n(&set->id[way], __ATOMIC_ACQUIRE);
	to->count = set->count[way];
	if (to->id < RUT_STACK_MIN || !to->count || to->count > RUT_STACK_DEPTH)
		return false;
	memcpy(&hash, uuid, sizeof(hash));
	for (uint32_t i = 0; i < to->count; i++) {
		to->address[i] = set->address[way][i];
		hash = rut_stack_hash_step(hash, to->address[i]);
	}
	return rut_stack_hash_end(hash) == to->id;
}

static bool is_used(const struct rut_stack_set *set, size_t way, uint64_t since_ns)
{
	return set->id[way] >= RUT_STACK_MIN && set->used_ns[way] + RUT_STACK_TOUCH_NS >= since_ns;
}

/* Only the session's own process notes for the programs what may be evicted without loss. */
static bool is_owner(const struct rut_recorder *r)
{
	return r->conf.mode == RUT_RING_DISCARD;
}

/* A copy of the names, if they have their own hash. */
static bool copy_code(struct rut_code *to, const struct rut_code_set *set, size_t way,
		      const uint8_t uuid[16], uint64_t since_ns)
{
	uint64_t id = __atomic_load_n(&set->id[way], __ATOMIC_ACQUIRE), seed;

	if (id < RUT_STACK_MIN || set->used_ns[way] + RUT_CODE_TOUCH_NS < since_ns)
		return false;
	memcpy(to, &set->code[way], sizeof(*to));
	memcpy(&seed, uuid, sizeof(seed));
	seed = rut_code_hash(to, seed);
	to->path[sizeof(to->path) - 1] = '\0';
	to->label[sizeof(to->label) - 1] = '\0';
	to->class_name[sizeof(to->class_name) - 1] = '\0';
	return seed == id;
}

static bool write_code(struct rut_statedump *s, const struct rut_code *c, uint64_t id)
{
	struct rut_ev_SD_CODE rec = {
		.id = RUT_FRAME_ID(id),
		.line = c->line,
		.kind = c->kind,
		.singleton = c->singleton,
	};
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	rut_buf_add(&b, &rec, sizeof(rec));
	rut_buf_add(&b, c->path, strlen(c->path) + 1);
	rut_buf_add(&b, c->label, strlen(c->label) + 1);
	rut_buf_add(&b, c->class_name, strlen(c->class_name) + 1);
	return !b.failed && rut_statedump_emit(s, RUT_EV_SD_CODE, b.data, b.len);
}

/* `written` as that of rut_stacks_write(), behind its part for stacks. */
static void write_codes(struct rut_statedump *s, struct rut_recorder *r, uint64_t since_ns,
			uint64_t *written)
{
	struct rut_code code;

	for (size_t i = 0; i < r->ncodes * RUT_CODE_WAYS; i++) {
		struct rut_code_set *set = &r->codes[i / RUT_CODE_WAYS];
		size_t way = i % RUT_CODE_WAYS;
		uint64_t id = set->id[way];

		if (id < RUT_STACK_MIN || (written && written[i] == id) ||
		    !copy_code(&code, set, way, r->uuid, since_ns) || set->id[way] != id ||
		    !write_code(s, &code, id) || !written)
			continue;
		written[i] = id;
		if (is_owner(r))
			__atomic_store_n(&set->written[way], id, __ATOMIC_RELEASE);
	}
}

size_t rut_stacks_places(const struct rut_recorder *r)
{
	return r->nsets * RUT_STACK_WAYS + r->ncodes * RUT_CODE_WAYS;
}

void rut_stacks_write(struct rut_statedump *s, struct rut_recorder *r, uint64_t since_ns,
		      uint64_t *written)
{
	const uint64_t now = rut_ring_clock();
	struct stack copy;

	for (size_t i = 0; i < r->nsets * RUT_STACK_WAYS; i++) {
		struct rut_stack_set *set = &r->stacks[i / RUT_STACK_WAYS];
		size_t way = i % RUT_STACK_WAYS;

		if (!is_used(set, way, since_ns) || (written && written[i] == set->id[way]) ||
		    !copy_stack(&copy, set, way, r->uuid) ||
		    !write_stack(s, &r->kernel_names, now, &copy) || !written)
			continue;
		written[i] = copy.id;
		if (is_owner(r))
			__atomic_store_n(&set->written[way], copy.id, __ATOMIC_RELEASE);
	}
	rut_kernel_names_age(&r->kernel_names, now);
	/* After the stacks that refer to them. */
	if (r->ncodes > 1)
		write_codes(s, r, since_ns, written ? written + r->nsets * RUT_STACK_WAYS : NULL);
}

size_t rut_stacks_write_table(struct rut_statedump *s, const struct rut_stack_set *sets,
			      size_t nsets, const uint8_t uuid[16], uint64_t since_ns)
{
	struct stack copy;
	size_t n = 0;

	for (size_t i = 0; i < nsets * RUT_STACK_WAYS; i++) {
		const struct rut_stack_set *set = &sets[i / RUT_STACK_WAYS];
		size_t way = i % RUT_STACK_WAYS;

		if (is_used(set, way, since_ns) && copy_stack(&copy, set, way, uuid))
			n += write_stack(s, NULL, 0, &copy);
	}
	return n;
}

void rut_stacks_begin(struct rut_recorder *r, uint64_t since_ns, uint64_t *written)
{
	memset(written, 0, rut_stacks_places(r) * sizeof(*written));
	if (!is_owner(r))
		return;
	for (size_t i = 0; i < r->nsets; i++)
		memset(r->stacks[i].written, 0, sizeof(r->stacks[i].written));
	for (size_t i = 0; i < r->ncodes; i++)
		memset(r->codes[i].written, 0, sizeof(r->codes[i].written));
	for (int cpu = 0; cpu < r->ncpus; cpu++)
		__atomic_store_n(&RUT_CTL_USER(r->rings[cpu].ctl)->stacks_since, since_ns,
				 __ATOMIC_RELEASE);
}

uint64_t rut_stacks_new(const struct rut_recorder *r)
{
	uint64_t sum = 0;

	for (int cpu = 0; cpu < r->ncpus; cpu++)
		sum += __atomic_load_n(&RUT_CTL_USER(r->rings[cpu].ctl)->stacks_new,
				       __ATOMIC_RELAXED);
	return sum;
}
