/* SPDX-License-Identifier: GPL-2.0 */
/* Interrupts, software interrupts, timers, frequency. */
#ifndef RUT_BPF_EV_IRQ_BPF_H
#define RUT_BPF_EV_IRQ_BPF_H

#include "bpf/record.bpf.h"

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry, int irq, struct irqaction *action)
{
	struct rut_name name;

	if (!rut_allowed())
		return 0;
	name_from_pointer(&name, action->name);
	RUT_BEGIN_TAIL(IRQ_ENTRY, name.len, RUT_NAME_MAX);
	PUT(IRQ_ENTRY, irq, irq);
	rut_store_name(p + sizeof(struct rut_ev_IRQ_ENTRY), &name);
	RUT_END();
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_handler_exit, int irq, struct irqaction *action, int ret)
{
	if (!rut_allowed())
		return 0;
	RUT_BEGIN(IRQ_EXIT);
	PUT(IRQ_EXIT, irq, irq);
	PUT(IRQ_EXIT, ret, ret);
	RUT_END();
}

#define SOFTIRQ(tp, sym)                                                                           \
	SEC("tp_btf/" #tp)                                                                         \
	int BPF_PROG(tp, unsigned int vec)                                                         \
	{                                                                                          \
		if (!rut_allowed())                                                                \
			return 0;                                                                  \
		RUT_BEGIN(sym);                                                                    \
		PUT(sym, vec, vec);                                                                \
		RUT_END();                                                                         \
	}

SOFTIRQ(softirq_raise, SOFTIRQ_RAISE)
SOFTIRQ(softirq_entry, SOFTIRQ_ENTRY)
SOFTIRQ(softirq_exit, SOFTIRQ_EXIT)

SEC("tp_btf/hrtimer_setup")
int BPF_PROG(hrtimer_setup, struct hrtimer *timer, int clockid, unsigned int mode)
{
	if (!rut_allowed())
		return 0;
	RUT_BEGIN(HRTIMER_INIT);
	PUT(HRTIMER_INIT, hrtimer, (__u64)timer);
	PUT(HRTIMER_INIT, clockid, clockid);
	PUT(HRTIMER_INIT, mode, mode);
	RUT_END();
}

SEC("tp_btf/hrtimer_start")
int BPF_PROG(hrtimer_start, struct hrtimer *timer, unsigned int mode)
{
	if (!rut_allowed())
		return 0;
	RUT_BEGIN(HRTIMER_START);
	PUT(HRTIMER_START, hrtimer, (__u64)timer);
	PUT(HRTIMER_START, function, (__u64)timer->function);
	PUT(HRTIMER_START, expires, timer->node.expires);
	PUT(HRTIMER_START, softexpires, timer->_softexpires);
	PUT(HRTIMER_START, mode, mode);
	RUT_END();
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(hrtimer_expire_entry, struct hrtimer *timer, __s64 *now)
{
	__s64 time = 0;

	if (!rut_allowed())
		return 0;
	/* A pointer to a plain number has no BTF type to load through. */
	rut_read_kernel(&time, sizeof(time), now, true);
	RUT_BEGIN(HRTIMER_EXPIRE);
	PUT(HRTIMER_EXPIRE, hrtimer, (__u64)timer);
	PUT(HRTIMER_EXPIRE, now, time);
	PUT(HRTIMER_EXPIRE, function, (__u64)timer->function);
	RUT_END();
}

#define HRTIMER(tp, sym)                                                                           \
	SEC("tp_btf/" #tp)                                                                         \
	int BPF_PROG(tp, struct hrtimer *timer)                                                    \
	{                                                                                          \
		if (!rut_allowed())                                                                \
			return 0;                                                                  \
		RUT_BEGIN(sym);                                                                    \
		PUT(sym, hrtimer, (__u64)timer);                                                   \
		RUT_END();                                                                         \
	}

HRTIMER(hrtimer_cancel, HRTIMER_CANCEL)
HRTIMER(hrtimer_expire_exit, HRTIMER_EXPIRED)

SEC("tp_btf/cpu_frequency")
int BPF_PROG(cpu_frequency, unsigned int state, unsigned int cpu)
{
	RUT_BEGIN(CPU_FREQUENCY);
	PUT(CPU_FREQUENCY, state, state);
	PUT(CPU_FREQUENCY, cpu_id, cpu);
	RUT_END();
}

#endif
