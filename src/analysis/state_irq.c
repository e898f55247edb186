/* SPDX-License-Identifier: MIT */
/* The state model: interrupts, softirqs, network devices. */
#include "analysis/state_priv.h"

#include <string.h>

enum { IRQ_NR, IRQ_NAME };

static void irq_entry(struct rut_state *st, const struct rut_ctf_event *ev,
		      const struct rut_state_class *c)
{
	struct rut_hook_irq h = {.cpu = st->cpu, .begin_ns = ev->ts_ns};
	struct rut_cpu *cpu = rut_an_state_get_cpu(st, h.cpu);

	h.nr = rut_ctf_i64(ev, &c->f[IRQ_NR]);
	cpu->in_irq = true;
	cpu->irq = h.nr;
	cpu->irq_begin_ns = ev->ts_ns;
	if (st->hooks[RUT_HOOK_IRQ_ENTRY].n || st->hooks[RUT_HOOK_WAKEUP].n)
		h.name = rut_an_state_str(st, ev, &c->f[IRQ_NAME]);
	rut_an_state_context_enter(cpu, RUT_CONTEXT_IRQ, h.nr, h.name);
	if (!st->hooks[RUT_HOOK_IRQ_ENTRY].n)
		return;
	rut_state_notify(st, RUT_HOOK_IRQ_ENTRY, &h);
}

static void irq_exit(struct rut_state *st, const struct rut_ctf_event *ev,
		     const struct rut_state_class *c)
{
	struct rut_hook_irq h = {.cpu = st->cpu, .raise_ns = RUT_NO_TIME};
	struct rut_cpu *cpu = rut_an_state_get_cpu(st, h.cpu);

	h.nr = rut_ctf_i64(ev, &c->f[IRQ_NR]);
	rut_an_state_context_leave(cpu, RUT_CONTEXT_IRQ);
	if (!cpu->in_irq || cpu->irq != h.nr) {
		cpu->in_irq = false;
		return;
	}
	cpu->in_irq = false;
	h.begin_ns = cpu->irq_begin_ns;
	h.end_ns = ev->ts_ns;
	rut_state_notify(st, RUT_HOOK_IRQ_EXIT, &h);
}

/*
 * Softirqs are level-triggered: raised again before they begin, they run once. Only a raise while
 * one runs counts for the next.
 */
static void softirq_raise(struct rut_state *st, const struct rut_ctf_event *ev,
			  const struct rut_state_class *c)
{
	struct rut_cpu *cpu = rut_an_state_get_cpu(st, st->cpu);
	uint64_t vec = rut_ctf_u64(ev, &c->f[0]);
	uint8_t *n;

	if (vec >= RUT_SOFTIRQS)
		return;
	n = &cpu->n_softirqs[vec];
	if (*n == 2 || (*n && cpu->softirqs[vec][0].begin_ns == RUT_NO_TIME))
		return;
	cpu->softirqs[vec][(*n)++] = (struct rut_softirq){ev->ts_ns, RUT_NO_TIME};
}

static void softirq_entry(struct rut_state *st, const struct rut_ctf_event *ev,
			  const struct rut_state_class *c)
{
	struct rut_cpu *cpu = rut_an_state_get_cpu(st, st->cpu);
	uint64_t vec = rut_ctf_u64(ev, &c->f[0]);

	if (vec >= RUT_SOFTIRQS)
		return;
	rut_an_state_context_enter(cpu, RUT_CONTEXT_SOFTIRQ, (int64_t)vec, NULL);
	if (cpu->n_softirqs[vec]) {
		cpu->softirqs[vec][0].begin_ns = ev->ts_ns;
		return;
	}
	cpu->softirqs[vec][0] = (struct rut_softirq){RUT_NO_TIME, ev->ts_ns};
	cpu->n_softirqs[vec] = 1;
}

static void softirq_exit(struct rut_state *st, const struct rut_ctf_event *ev,
			 const struct rut_state_class *c)
{
	struct rut_hook_irq h = {.cpu = st->cpu};
	struct rut_cpu *cpu = rut_an_state_get_cpu(st, h.cpu);
	uint64_t vec = rut_ctf_u64(ev, &c->f[0]);
	struct rut_softirq *s;

	rut_an_state_context_leave(cpu, RUT_CONTEXT_SOFTIRQ);
	if (vec >= RUT_SOFTIRQS || !cpu->n_softirqs[vec])
		return;
	s = cpu->softirqs[vec];
	h.nr = (int64_t)vec;
	h.raise_ns = s[0].raise_ns;
	h.begin_ns = s[0].begin_ns;
	h.end_ns = ev->ts_ns;
	s[0] = s[1];
	cpu->n_softirqs[vec]--;
	/* An exit without an entry: it was raised, and the trace lost its beginning. */
	if (h.begin_ns != RUT_NO_TIME)
		rut_state_notify(st, RUT_HOOK_SOFTIRQ_EXIT, &h);
}

static void net_receive(struct rut_state *st, const struct rut_ctf_event *ev,
			const struct rut_state_class *c)
{
	struct rut_hook_net h = {.received = true};
	struct rut_cpu *cpu = rut_an_state_get_cpu(st, st->cpu);

	if (!st->hooks[RUT_HOOK_NET].n && !st->hooks[RUT_HOOK_WAKEUP].n)
		return;
	h.iface = rut_an_state_str(st, ev, &c->f[0]);
	cpu->packet_in = true;
	cpu->packet_iface = h.iface;
	h.bytes = rut_ctf_i64(ev, &c->f[1]);
	rut_state_notify(st, RUT_HOOK_NET, &h);
}

/* An interrupt also shows that its CPU exists, for sums over CPUs. */
#define IRQS                                                                                       \
	(RUT_HOOK_BIT(RUT_HOOK_IRQ_ENTRY) | RUT_HOOK_BIT(RUT_HOOK_IRQ_EXIT) |                      \
	 RUT_HOOK_BIT(RUT_HOOK_SOFTIRQ_EXIT) | RUT_HOOK_BIT(RUT_HOOK_SWITCH) |                     \
	 RUT_HOOK_BIT(RUT_HOOK_WAKEUP))
#define NETS (RUT_HOOK_BIT(RUT_HOOK_NET) | RUT_HOOK_BIT(RUT_HOOK_WAKEUP))

/* Names changed with LTTng 2.7: the irq_ and net_if_ ones are newer. */
const struct rut_state_def rut_an_state_irq_defs[] = {
	{"irq_handler_entry", irq_entry, {"irq", "name"}, IRQS},
	{"irq_handler_exit", irq_exit, {"irq", "ret"}, IRQS},
	{"softirq_raise", softirq_raise, {"vec"}, IRQS},
	{"irq_softirq_raise", softirq_raise, {"vec"}, IRQS},
	{"softirq_entry", softirq_entry, {"vec"}, IRQS},
	{"irq_softirq_entry", softirq_entry, {"vec"}, IRQS},
	{"softirq_exit", softirq_exit, {"vec"}, IRQS},
	{"irq_softirq_exit", softirq_exit, {"vec"}, IRQS},
	{"netif_receive_skb", net_receive, {"name", "len"}, NETS},
	{"net_if_receive_skb", net_receive, {"name", "len"}, NETS},
	{"net_dev_xmit", rut_an_state_net_xmit, {"name", "len"}, RUT_STATE_SERVES_IO},
	{NULL, NULL, {NULL}, 0},
};

const char *rut_an_softirq_name(int64_t nr)
{
	static const char *const names[] = {
		"HI_SOFTIRQ",	   "TIMER_SOFTIRQ",	   "NET_TX_SOFTIRQ",  "NET_RX_SOFTIRQ",
		"BLOCK_SOFTIRQ",   "BLOCK_IOPOLL_SOFTIRQ", "TASKLET_SOFTIRQ", "SCHED_SOFTIRQ",
		"HRTIMER_SOFTIRQ", "RCU_SOFTIRQ",
	};

	return nr >= 0 && nr < (int64_t)(sizeof(names) / sizeof(*names)) ? names[nr] : NULL;
}
