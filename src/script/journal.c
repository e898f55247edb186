/* SPDX-License-Identifier: MIT */
#include "script/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "ring/write.h"
#include "script/load.h"

enum { JOURNAL_BYTES = 4 << 20, SLOTS_MIN = 64, SLOTS_MAX = 65536 };

/* A number that was taken and never written, because its slot was not free. */
#define HOLE_NS 200000000ull

uint32_t rut_script_journal_slot_bytes(uint32_t record_bytes)
{
	uint32_t head = (uint32_t)offsetof(struct rut_script_slot, event);

	return (head + record_bytes + 7) & ~7u;
}

uint32_t rut_script_journal_slots(uint32_t record_bytes)
{
	uint32_t slots = SLOTS_MIN, bytes = rut_script_journal_slot_bytes(record_bytes);

	while (slots < SLOTS_MAX && (uint64_t)slots * 2 * bytes <= JOURNAL_BYTES)
		slots *= 2;
	return slots;
}

static size_t whole_pages(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

int rut_script_journal_open(struct rut_script_journal *j, const struct rut_script_program *p,
			    struct rut_err *err)
{
	void *map;

	*j = (struct rut_script_journal){0};
	j->counters_bytes = whole_pages(rut_script_counter_bytes(p));
	map = mmap(NULL, j->counters_bytes, PROT_READ, MAP_SHARED, p->fds[RUT_MAP_COUNTERS], 0);
	if (map == MAP_FAILED)
		return rut_err_errno(err, errno, "cannot map the script's counters");
	j->counters = map;
	if (!p->record_max)
		return 0;
	j->slot_bytes = rut_script_journal_slot_bytes(p->record_max);
	j->count = rut_script_journal_slots(p->record_max);
	j->slots_bytes = whole_pages(j->slot_bytes * j->count);
	map = mmap(NULL, j->slots_bytes, PROT_READ, MAP_SHARED, p->fds[RUT_MAP_JOURNAL], 0);
	j->copy = malloc(j->slot_bytes);
	if (map != MAP_FAILED)
		j->slots = map;
	if (!j->slots || !j->copy) {
		rut_script_journal_close(j);
		return rut_err_set(err, ENOMEM, "cannot map what the script prints");
	}
	return 0;
}

void rut_script_journal_close(struct rut_script_journal *j)
{
	if (j->slots)
		munmap((void *)(uintptr_t)j->slots, j->slots_bytes);
	if (j->counters)
		munmap((void *)(uintptr_t)j->counters, j->counters_bytes);
	free(j->copy);
	*j = (struct rut_script_journal){0};
}

uint64_t rut_script_journal_head(const struct rut_script_journal *j)
{
	return __atomic_load_n(&j->counters[RUT_COUNTER_RECORDS], __ATOMIC_ACQUIRE);
}

uint64_t rut_script_journal_oldest(const struct rut_script_journal *j)
{
	uint64_t head = rut_script_journal_head(j);

	return head > j->count ? head - j->count : 0;
}

/* MISSING: it was counted when it was lost, or its slot is not marked yet. */
enum state { WHOLE, MISSING, UNFINISHED, LAPPED };

static enum state copy_slot(struct rut_script_journal *j, uint64_t n)
{
	const struct rut_script_slot *s =
		(const void *)(j->slots + (n & (j->count - 1)) * j->slot_bytes);
	uint64_t number = __atomic_load_n(&s->number, __ATOMIC_ACQUIRE);

	if (number > n + 1)
		return LAPPED;
	if (number != n + 1 || __atomic_load_n(&s->taken, __ATOMIC_ACQUIRE)) {
		bool ours = __atomic_load_n(&s->taken, __ATOMIC_ACQUIRE) &&
			    __atomic_load_n(&s->next, __ATOMIC_RELAXED) == n + 1;

		if (rut_script_journal_oldest(j) > n)
			return LAPPED;
		return ours ? UNFINISHED : MISSING;
	}
	memcpy(j->copy, s, j->slot_bytes);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&s->number, __ATOMIC_RELAXED) == n + 1 &&
			       !__atomic_load_n(&s->taken, __ATOMIC_RELAXED)
		       ? WHOLE
		       : LAPPED;
}

/* May record `pos` be passed over? It has had time to be written. */
static bool is_hole(struct rut_script_journal *j)
{
	uint64_t now = rut_ring_clock();

	if (!j->hole_ns)
		j->hole_ns = now;
	return now - j->hole_ns >= HOLE_NS;
}

void rut_script_journal_read(struct rut_script_journal *j, bool wait,
			     void (*fn)(void *arg, const struct rut_script_event *e, size_t size),
			     void *arg)
{
	const struct rut_script_slot *s = (const void *)j->copy;
	uint64_t head, oldest;

	if (!j->slots)
		return;
	head = rut_script_journal_head(j);
	oldest = rut_script_journal_oldest(j);
	if (j->pos < oldest) {
		j->lapped += oldest - j->pos;
		j->pos = oldest;
	}
	for (; j->pos < head; j->pos++) {
		enum state state = copy_slot(j, j->pos);

		if ((state == MISSING || state == UNFINISHED) && wait && !is_hole(j))
			return;
		j->hole_ns = 0;
		if (state == WHOLE)
			fn(arg, &s->event, j->slot_bytes - offsetof(struct rut_script_slot, event));
		else
			j->lapped += state != MISSING;
	}
}
