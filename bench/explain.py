# SPDX-License-Identifier: MIT
"""`rutile requests` on made traces: events a second, and memory that does not grow with the trace."""

import pathlib
import subprocess
import sys

SQL = "SELECT * FROM items WHERE order_id = ?"


def lines(requests):
    """A server of four threads, each request with ten queries of a peer that computes; 123 events each."""
    yield "env vpid=10"
    for number, name in enumerate(("handle_request", "log")):
        yield f"1 7 ruby:method id={number} line=3 singleton=0 native=0 class=Shop method={name} path=/srv/shop.rb"
    for number, name in ((2, "http"), (3, "sql")):
        yield f'1 7 ruby:method id={number} line=0 singleton=0 native=0 class={name} method="" path=""'
    now = 1000
    for n in range(requests):
        tid, who = 11 + n % 4, f"next_comm=puma next_tid={11 + n % 4} next_prio=20"
        idle = "prev_comm=swapper prev_tid=0 prev_prio=20 prev_state=0"
        out = f"prev_comm=puma prev_tid={tid} prev_prio=20 prev_state=1 next_comm=swapper next_tid=0 next_prio=20"
        yield f"{now} 0 sched_switch {idle} {who}"
        yield f"{now + 10} 7 ruby:switch tid={tid} fiber={tid}"
        yield (f"{now + 10} 7 ruby:request_begin id={n} kind=2 method=0 verb=GET path=/items/{n} "
               'traceparent="" x_request_id=""')
        for k in range(10):
            at = now + 100 + k * 1000
            yield f'{at} 7 ruby:span_begin layer=3 method=1 caller=0 depth=0 detail="{SQL}"'
            yield f"{at + 10} 0 syscall_entry_sendto fd=5"
            yield f"{at + 20} 0 syscall_exit_sendto ret=20"
            yield f"{at + 30} 0 syscall_entry_recvfrom fd=5"
            yield f"{at + 40} 0 sched_switch {out}"
            yield (f"{at + 50} 1 sched_switch {idle} next_comm=postgres next_tid={50 + n % 4} next_prio=20")
            yield f"{at + 700} 1 syscall_entry_sendto fd=7"
            yield f"{at + 710} 1 sched_waking comm=puma tid={tid} prio=20 target_cpu=0"
            yield f"{at + 720} 1 syscall_exit_sendto ret=20"
            yield (f"{at + 730} 1 sched_switch prev_comm=postgres prev_tid={50 + n % 4} prev_prio=20 prev_state=1 "
                   "next_comm=swapper next_tid=0 next_prio=20")
            yield f"{at + 750} 0 sched_switch {idle} {who}"
            yield f"{at + 800} 7 ruby:span_end layer=3 method=1 depth=0 detail=\"\" error=\"\""
        now += 11000 + n * 7919 % 1000
        yield (f"{now - 100} 7 ruby:request_end id={n} kind=2 method=0 status=200 bytes=3 verb=GET path=/items/{n} "
               'route="items#show" traceparent="" x_request_id="" error=""')
        yield f"{now - 50} 0 sched_switch {out}"


def make(directory, requests):
    """A trace of so many requests. Returns how many events it has."""
    text = list(lines(requests))
    if not (directory / "metadata").exists():
        mktrace = pathlib.Path(__file__).resolve().parent.parent / "tests" / "mktrace"
        subprocess.run([sys.executable, mktrace, directory], input="\n".join(text), text=True, check=True)
    return len(text) - 1


def run(b):
    count = 1000 if b.quick else 8000
    small, large = b.build / f"requests-{count}", b.build / f"requests-{count * 4}"
    few, many = make(small, count), make(large, count * 4)
    verbs = {"cputop": ["cputop"], "requests": ["requests"], "requests --slowest 5": ["requests", "--slowest", "5"],
             "requests --explain": ["requests", "--explain"]}
    command = {name: [b.rutile, v[0], "--skip-validation", "--no-intersection", *v[1:]] for name, v in verbs.items()}
    big = b.compare({name: ([*c, large], {0}) for name, c in command.items()})
    little = b.compare({name: ([*c, small], {0}) for name, c in command.items()})
    rows = []
    for name in verbs:
        if name in big and name in little:
            # The files are mapped: what all have in common is not the analysis.
            rows.append([name, f"{big[name][0]:.3f}", f"{many / big[name][0] / 1e6:.1f}",
                         f"{little[name][1] - little['cputop'][1]:.1f}", f"{big[name][1] - big['cputop'][1]:.1f}"])
    b.table(f"Requests: {many:,} events of {count * 4:,} requests, one core",
            ["", "seconds", "million events/s", f"MiB more than cputop, {few:,} events", f"{many:,} events"], rows)
