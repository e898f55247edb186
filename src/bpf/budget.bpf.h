/* SPDX-License-Identifier: GPL-2.0 */
/*
 * --max-overhead in the kernel, so that a flight recorder, which has no process, keeps to it too.
 * Without it conf.budget_ppm is 0, and the verifier removes this code from the programs.
 *
 * Per run: a cost is added to what this CPU has spent, and to what the class has. The clock is
 * looked at every 256 runs only. Producers that nest in each other may lose an addition: it is an
 * estimate.
 */
#ifndef RUT_BPF_BUDGET_BPF_H
#define RUT_BPF_BUDGET_BPF_H

#include "bpf/budget.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rut_budget);
} budget SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rut_spending);
} spending SEC(".maps");

/* The records rutile_shed and rutile_restored. */
static __noinline int rut_budget_tell(__u32 class, __u64 spent, __u64 elapsed, __u64 pause)
{
	const __u64 fixed = 8 + conf.context_size, max = fixed + sizeof(struct rut_ev_SHED);
	__u32 zero = 0, ctx = conf.context_size;
	struct rut_budget *g = bpf_map_lookup_elem(&budget, &zero);
	struct rut_budget_class *c;
	struct rut_slot slot;
	unsigned char *p;
	__u64 size;

	if (!g)
		return 0;
	c = &g->classes[class & (RUT_BUDGET_CLASSES - 1)];
	size = pause ? max : fixed + sizeof(struct rut_ev_RESTORED);
	p = rut_ring_reserve(&slot, pause ? RUT_EV_SHED : RUT_EV_RESTORED, size, max);
	if (!p)
		return 0;
	p += 8;
	for (__u32 i = 0; i < RUT_CTX_BYTES_MAX; i++) {
		if (i >= ctx)
			break;
		*(volatile unsigned char *)(p + i) = 0;
	}
	p += ctx;
	if (pause) {
		*(__u64 *)p = spent;
		*(__u64 *)(p + 8) = elapsed;
		*(__u64 *)(p + 16) = pause;
		p += 24;
	}
	/* Text of a fixed size, padded with zeros. */
	for (__u32 i = 0; i < RUT_BUDGET_NAME / 8; i++)
		((__u64 *)p)[i] = ((__u64 *)c->name)[i];
	rut_ring_commit(&slot, size);
	return 0;
}

static __noinline int rut_budget_check(struct rut_spending *s, __u32 class)
{
	__u64 now = bpf_ktime_get_ns(), elapsed, pause;
	__u32 zero = 0, worst;
	struct rut_budget *g = bpf_map_lookup_elem(&budget, &zero);
	struct rut_budget_class *c;

	if (!g || !s)
		return 0;
	c = &g->classes[class & (RUT_BUDGET_CLASSES - 1)];
	if (c->until_ns && now >= c->until_ns) {
		c->until_ns = 0;
		__sync_fetch_and_add(&g->changes, 1);
		rut_budget_tell(class, 0, 0, 0);
	}
	elapsed = now - s->start_ns;
	if (elapsed < RUT_BUDGET_WINDOW)
		return 0;
	worst = s->max_class & (RUT_BUDGET_CLASSES - 1);
	if (s->start_ns && s->live_ns + s->shed_ns > elapsed / 1000 * conf.budget_ppm / 1000) {
		c = &g->classes[worst];
		if (s->live_ns < s->shed_ns) {
			/* What is left to shed is not what costs. */
			__sync_fetch_and_add(&g->shed_limit, 1);
		} else if (s->max_ns && !c->until_ns) {
			pause = c->strikes;
			pause = RUT_BUDGET_PAUSE
				<< (pause < RUT_BUDGET_STRIKES ? pause : RUT_BUDGET_STRIKES);
			c->strikes++;
			c->until_ns = now + pause;
			__sync_fetch_and_add(&g->changes, 1);
			rut_budget_tell(worst, s->live_ns + s->shed_ns, elapsed, pause);
		}
	}
	s->start_ns = now;
	s->live_ns = 0;
	s->shed_ns = 0;
	s->max_ns = 0;
	s->window++;
	return 0;
}

/* Charges one run of the class; 0 when it is shed. */
static __noinline int rut_budget_spend(__u32 class)
{
	__u32 zero = 0, ns;
	struct rut_spending *s = bpf_map_lookup_elem(&spending, &zero);
	struct rut_budget *g = bpf_map_lookup_elem(&budget, &zero);
	struct rut_budget_class *c;
	bool live;

	if (!s || !g)
		return 1;
	class &= RUT_BUDGET_CLASSES - 1;
	c = &g->classes[class];
	live = !c->until_ns;
	if (live) {
		if (s->classes[class].window != s->window) {
			s->classes[class].window = s->window;
			s->classes[class].ns = 0;
		}
		ns = s->classes[class].ns += c->cost_ns;
		if (ns > s->max_ns) {
			s->max_ns = ns;
			s->max_class = class;
		}
		s->live_ns += c->cost_ns;
	} else {
		s->shed_ns += c->shed_ns;
		/* Its own turn at the clock, or it might never be restored. */
		if (!(++s->classes[class].ns & (RUT_BUDGET_EACH - 1)))
			rut_budget_check(s, class);
	}
	if (!(++s->runs & (RUT_BUDGET_EACH - 1)))
		rut_budget_check(s, class);
	return live;
}

static __always_inline bool rut_affordable(__u64 id)
{
	return !conf.budget_ppm || rut_budget_spend(rut_budget_class(id));
}

#endif
