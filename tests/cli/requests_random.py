#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints a random trace for tests/mktrace: threads on CPUs, system calls, interrupts, Ruby events, in any
order that a recorder that loses events could leave.

    requests_random.py SEED
"""

import random
import sys

random.seed(int(sys.argv[1]))
TIDS = [11, 12, 13]
CALLS = [("read", "fd=3"), ("futex", "uaddr=1 op=0 utime=%d"), ("clock_nanosleep", "clockid=1"),
         ("wait4", "upid=1"), ("openat", "filename=/x flags=0"), ("fsync", "fd=4"), ("getpid", "")]

print("env vpid=10")
for number, name in enumerate(("one", "two")):
    print(f"100 7 ruby:method id={number} line=1 singleton=0 native=0 class=A method={name} path=/a.rb")

now = 1000
on = {0: 0, 1: 0}
stacks = {tid: [] for tid in TIDS}
last = None


def switch(cpu, to):
    print(f"{now} {cpu} sched_switch prev_comm=a prev_tid={on[cpu]} prev_prio=20 "
          f"prev_state={random.choice((0, 1, 1, 2, 4, 256))} next_comm=b next_tid={to} next_prio=20")
    on[cpu] = to


def ruby(tid):
    global last
    fiber = tid * 10 + random.choice((0, 0, 0, 1))
    if last != (tid, fiber):
        print(f"{now} 7 ruby:switch tid={tid} fiber={fiber}")
        last = (tid, fiber)
    what = random.randrange(10)
    stack = stacks[tid]
    if what < 3 and len(stack) < 4:
        stack.append(random.randrange(2))
        print(f"{now} 7 ruby:call method={stack[-1]}")
    elif what < 6 and stack:
        print(f"{now} 7 ruby:return method={stack.pop()}")
    elif what == 6:
        print(f"{now} 7 ruby:gc_{random.choice(('enter', 'exit'))} a=1")
    elif what == 7:
        print(f"{now} 7 ruby:gvl_{random.choice(('wait', 'have', 'release'))} tid={tid}")


for _ in range(2000):
    now += random.choice((0, 1, 5, 100, 3000))
    cpu = random.randrange(2)
    what = random.randrange(12)
    if what < 3:
        free = [t for t in TIDS + [99, 0] if t not in on.values() or t == 0 or random.random() < 0.02]
        switch(cpu, random.choice(free))
    elif what < 4:
        print(f"{now} {cpu} sched_waking comm=a tid={random.choice(TIDS)} prio=20 target_cpu=0")
    elif what < 6:
        name, fields = random.choice(CALLS)
        print(f"{now} {cpu} syscall_entry_{name} {fields % random.randrange(2) if '%' in fields else fields}")
    elif what < 7:
        name, _fields = random.choice(CALLS)
        print(f"{now} {cpu} syscall_exit_{name} ret={random.choice((0, 1, -11))}")
    elif what < 8:
        print(f"{now} {cpu} irq_handler_entry irq=4 name=eth0")
    elif what < 9:
        print(f"{now} {cpu} irq_handler_exit irq=4 ret=1")
    elif what < 10:
        print(f"{now} {cpu} irq_softirq_{random.choice(('raise', 'entry', 'exit'))} vec={random.randrange(3)}")
    else:
        ruby(random.choice(TIDS))
print(f"{now + 10} 0 last a=1")
