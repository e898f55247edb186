/* SPDX-License-Identifier: MIT */
#include "analysis/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool counts(const struct rut_sampler *s, int cpu, const struct rut_thread *t)
{
	const struct rut_conf *c = s->base.run->conf;

	return rut_an_conf_cpu(c, cpu) && rut_an_conf_thread(c, t);
}

static inline void give(struct rut_sampler *s, const struct rut_sample *sample)
{
	if (counts(s, sample->cpu, sample->thread))
		s->fn(s, sample);
}

/* ---- CPUs ---- */

static void end_run(struct rut_sampler *s, int cpu, struct rut_thread *t, int64_t end_ns)
{
	int64_t since;

	if (cpu < 0 || (size_t)cpu >= s->n_cpus || s->since_ns[cpu] == RUT_NO_TIME)
		return;
	since = s->since_ns[cpu];
	s->since_ns[cpu] = RUT_NO_TIME;
	give(s, &(struct rut_sample){.kind = RUT_SAMPLE_CPU,
				     .cpu = cpu,
				     .thread = t,
				     .begin_ns = since,
				     .end_ns = end_ns});
}

static bool reserve_cpu(struct rut_sampler *s, int cpu)
{
	size_t n = ((size_t)cpu + 16) & ~(size_t)15;
	int64_t *to;

	if (cpu < 0 || cpu > 65535)
		return false;
	if ((size_t)cpu < s->n_cpus)
		return true;
	to = realloc(s->since_ns, n * sizeof(*to));
	if (!to) {
		s->base.run->engine->state.failed = true;
		return false;
	}
	s->since_ns = to;
	for (; s->n_cpus < n; s->n_cpus++)
		to[s->n_cpus] = RUT_NO_TIME;
	return true;
}

static void on_switch(void *arg, const void *data)
{
	const struct rut_hook_switch *h = data;
	struct rut_sampler *s = arg;
	struct rut_sample sample = {.kind = RUT_SAMPLE_SWITCH,
				    .cpu = h->cpu,
				    .thread = h->next,
				    .begin_ns = h->ts_ns,
				    .end_ns = h->ts_ns,
				    .hook = h};

	if (h->prev_tid && h->gap_tid < 0)
		end_run(s, h->cpu, h->prev, h->ts_ns);
	if (reserve_cpu(s, h->cpu))
		s->since_ns[h->cpu] = h->next_tid ? h->ts_ns : RUT_NO_TIME;
	give(s, &sample);
	if (h->wakeup_ns != RUT_NO_TIME && h->next_tid) {
		sample.kind = RUT_SAMPLE_SCHED;
		sample.begin_ns = h->wakeup_ns;
		give(s, &sample);
	}
}

/* ---- Calls and devices ---- */

static void on_syscall_exit(void *arg, const void *data)
{
	const struct rut_hook_syscall *h = data;

	give(arg, &(struct rut_sample){.kind = RUT_SAMPLE_SYSCALL,
				       .cpu = h->cpu,
				       .thread = h->thread,
				       .what = h->info->name,
				       .begin_ns = h->ts_ns - h->duration_ns,
				       .end_ns = h->ts_ns,
				       .error = h->has_ret && h->ret < 0 && h->ret >= -4095,
				       .hook = h});
}

static void on_io(void *arg, const void *data)
{
	const struct rut_hook_io *h = data;

	give(arg, &(struct rut_sample){.kind = RUT_SAMPLE_IO,
				       .cpu = h->cpu,
				       .thread = h->thread,
				       .begin_ns = h->rq->begin_ns,
				       .end_ns = h->rq->end_ns,
				       .hook = h});
}

static void on_block(void *arg, const void *data)
{
	const struct rut_hook_block *h = data;
	struct rut_sampler *s = arg;
	const char *name = h->disk->name;
	char number[32];

	if (!name) {
		snprintf(number, sizeof(number), "(%lld)", (long long)h->disk->dev);
		name = rut_an_state_intern(&s->base.run->engine->state, number, strlen(number));
	}
	give(s, &(struct rut_sample){.kind = RUT_SAMPLE_DISK,
				     .cpu = h->cpu,
				     .thread = h->thread,
				     .what = name,
				     .begin_ns = h->rq->begin_ns,
				     .end_ns = h->rq->end_ns,
				     .hook = h});
}

/* Only the begin of an interrupt says its name. */
static void on_irq_entry(void *arg, const void *data)
{
	const struct rut_hook_irq *h = data;
	struct rut_sampler *s = arg;

	if (h->name && rut_map_get(&s->irq_names, (uint64_t)h->nr + 1) != h->name &&
	    rut_map_put(&s->irq_names, (uint64_t)h->nr + 1, (void *)(uintptr_t)h->name) < 0)
		s->base.run->engine->state.failed = true;
}

static void give_irq(struct rut_sampler *s, const struct rut_hook_irq *h, enum rut_sample_kind kind,
		     const char *name)
{
	give(s, &(struct rut_sample){.kind = kind,
				     .cpu = h->cpu,
				     .what = name ? name : s->base.run->engine->state.unknown,
				     .begin_ns = h->begin_ns,
				     .end_ns = h->end_ns,
				     .hook = h});
}

static void on_irq(void *arg, const void *data)
{
	const struct rut_hook_irq *h = data;
	struct rut_sampler *s = arg;

	give_irq(s, h, RUT_SAMPLE_IRQ, rut_map_get(&s->irq_names, (uint64_t)h->nr + 1));
}

static void on_softirq(void *arg, const void *data)
{
	const struct rut_hook_irq *h = data;

	give_irq(arg, h, RUT_SAMPLE_SOFTIRQ, rut_an_softirq_name(h->nr));
}

static void on_page(void *arg, const void *data)
{
	const struct rut_hook_thread *h = data;

	give(arg, &(struct rut_sample){.kind = RUT_SAMPLE_PAGE,
				       .cpu = h->cpu,
				       .thread = h->thread,
				       .begin_ns = h->ts_ns,
				       .end_ns = h->ts_ns});
}

const struct rut_analysis_hook rut_an_sampler_hooks[] = {
	{RUT_HOOK_SWITCH, on_switch},
	{RUT_HOOK_SYSCALL_EXIT, on_syscall_exit},
	{RUT_HOOK_IO_EXIT, on_io},
	{RUT_HOOK_BLOCK_DONE, on_block},
	{RUT_HOOK_IRQ_ENTRY, on_irq_entry},
	{RUT_HOOK_IRQ_EXIT, on_irq},
	{RUT_HOOK_SOFTIRQ_EXIT, on_softirq},
	{RUT_HOOK_PAGE_ALLOC, on_page},
	{0, NULL},
};

const char *const rut_an_sampler_needs[] = {"sched_switch",
					    "sched_wak*",
					    "*syscall_entry_*",
					    "sys_*",
					    "block_rq_*",
					    "irq_handler_entry",
					    "*softirq_entry",
					    "*mm_page_alloc",
					    "net_dev_xmit",
					    "net*_receive_skb",
					    NULL};

/* ---- Life ---- */

int rut_an_sampler_init(struct rut_sampler *s)
{
	const struct rut_state *st = &s->base.run->engine->state;

	for (size_t i = 0; i < st->n_cpus; i++)
		if (st->cpus[i].current && st->cpus[i].switched && reserve_cpu(s, (int)i))
			s->since_ns[i] = s->base.begin_ns;
	return 0;
}

void rut_an_sampler_finish(struct rut_sampler *s, int64_t end_ns)
{
	const struct rut_state *st = &s->base.run->engine->state;

	for (size_t i = 0; i < st->n_cpus; i++)
		if (st->cpus[i].current)
			end_run(s, (int)i, st->cpus[i].current, end_ns);
}

void rut_an_sampler_fini(struct rut_sampler *s)
{
	rut_map_fini(&s->irq_names);
	free(s->since_ns);
}
