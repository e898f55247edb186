# SPDX-License-Identifier: MIT
"""Compares the fields of events with the kernel's own records of the same tracepoints, which a trace has
beside them (-e tp:CATEGORY:NAME), and writes or checks docs/values.md.

    values.py compare TRACE                the values; prints how often each field was equal
    values.py doc METADATA LTTNG FILE [yes]  checks, or writes, docs/values.md
"""
import difflib
import re
import subprocess
import sys

# event: the kernel's tracepoint, and what its fields are called there where the names differ.
PRIO = {"prio": "prio - 100"}
WAKE = {"tid": "pid", **PRIO}
RENAMED = {
    "sched_switch": ("sched:sched_switch", {"prev_tid": "prev_pid", "next_tid": "next_pid", "prev_prio": "prev_prio - 100",
                                            "next_prio": "next_prio - 100"}),
    "sched_waking": ("sched:sched_waking", WAKE),
    "sched_wakeup": ("sched:sched_wakeup", WAKE),
    "sched_wakeup_new": ("sched:sched_wakeup_new", WAKE),
    "sched_migrate_task": ("sched:sched_migrate_task", WAKE),
    "sched_process_fork": ("sched:sched_process_fork", {"parent_tid": "parent_pid", "child_tid": "child_pid"}),
    "sched_process_exec": ("sched:sched_process_exec", {"tid": "pid", "old_tid": "old_pid"}),
    "sched_process_exit": ("sched:sched_process_exit", WAKE),
    "sched_process_free": ("sched:sched_process_free", WAKE),
    "irq_handler_entry": ("irq:irq_handler_entry", {}),
    "irq_handler_exit": ("irq:irq_handler_exit", {}),
    "irq_softirq_raise": ("irq:softirq_raise", {}),
    "irq_softirq_entry": ("irq:softirq_entry", {}),
    "irq_softirq_exit": ("irq:softirq_exit", {}),
    "block_rq_issue": ("block:block_rq_issue", {}),
    "block_rq_insert": ("block:block_rq_insert", {}),
    "block_rq_complete": ("block:block_rq_complete", {}),
    "block_bio_backmerge": ("block:block_bio_backmerge", {}),
    "net_dev_queue": ("net:net_dev_queue", {}),
    "net_dev_xmit": ("net:net_dev_xmit", {}),
    "net_if_receive_skb": ("net:netif_receive_skb", {}),
    "kmem_mm_page_alloc": ("kmem:mm_page_alloc", {}),
    "kmem_mm_page_free": ("kmem:mm_page_free", {}),
    "signal_generate": ("signal:signal_generate", {}),
    "signal_deliver": ("signal:signal_deliver", {}),
    "timer_hrtimer_init": ("timer:hrtimer_setup", {}),
    "timer_hrtimer_start": ("timer:hrtimer_start", {}),
    "timer_hrtimer_cancel": ("timer:hrtimer_cancel", {}),
    "timer_hrtimer_expire_entry": ("timer:hrtimer_expire_entry", {}),
    "timer_hrtimer_expire_exit": ("timer:hrtimer_expire_exit", {}),
}
# Fields that the kernel's record lacks, or has in another meaning.
NOT_THERE = {
    ("sched_process_fork", f) for f in ("parent_pid", "parent_ns_inum", "child_pid", "child_ns_inum", "vtids")
} | {("block_rq_issue", "tid"), ("block_rq_insert", "tid"), ("block_bio_backmerge", "tid"),
     *((event, field) for event in ("net_dev_queue", "net_if_receive_skb") for field in ("network_header", "network_header_type")),
     ("kmem_mm_page_alloc", "page"), ("kmem_mm_page_free", "page"),
     ("kmem_mm_page_alloc", "pfn"), ("kmem_mm_page_free", "pfn")}
ELSEWHERE = {
    "sched_process_fork": "numbers in /proc", "lttng_statedump_process_state": "/proc/PID/status, stat, ns",
    "lttng_statedump_network_interface": "SIOCGIFADDR", "lttng_statedump_cpu_topology": "/proc/cpuinfo",
    "rutile_statedump_cgroup": "/proc/PID/cgroup", "rutile_statedump_module": "/proc/modules",
    "rutile_block_dirtied": "what programs wrote",
    "inet_sock_set_state": "the sockets' own ports and addresses", "tcp_retransmit_skb": "TCP_INFO", "rutile_tcp_connect": "the calls of a program",
    **{(event, "network_header" + what): "a packet socket" for event in ("net_dev_queue", "net_if_receive_skb") for what in ("", "_type")},
    ("lttng_statedump_interrupt", "tid"): "/proc/PID/comm",
    ("lttng_statedump_file_descriptor", "fmode"): "what the kernel does with the file",
}
for ns in "cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts":
    ELSEWHERE[f"lttng_statedump_process_{ns}_ns"] = "/proc/PID/ns, status"
WHY = {
    "lttng_statedump_file_descriptor": "file_table_address is the process id",
    "lttng_statedump_process_state": "file_table_address is the process id; a task that never ran cannot be distinguished from one that waits",
    "sched_pi_setprio": "newprio is LTTng's, not the kernel's minimum",
    "block_bio_remap": "the kernel's record has no counterpart that can be paired",
}


def rwbs(text):
    """The kernel's letters as LTTng's bits."""
    bits, rest = 0, text
    if rest.startswith("F") and len(rest) > 1 and rest[1] in "WDERNFZ":
        bits |= 1 << 10
        rest = rest[1:]
    for op, value in (("DE", 1 << 1 | 1 << 7), ("W", 1), ("D", 1 << 1), ("F", 1 << 8), ("R", 1 << 2), ("N", 0)):
        if rest.startswith(op):
            bits |= value
            rest = rest[len(op):]
            break
    for letter, value in (("F", 1 << 9), ("A", 1 << 3), ("S", 1 << 5), ("M", 1 << 6)):
        if letter in rest:
            bits |= value
    return bits


def number(text):
    try:
        return int(text, 0)
    except ValueError:
        return text.strip('"')


LINE = re.compile(r"^\[(\d+\.\d+)\] \([^)]*\) \S+ ([\w:]+): \{ cpu_id = (\d+)[^}]*\}, \{ (.*) \}$")
FIELD = re.compile(r'(\w+) = ("(?:[^"\\]|\\.)*"|-?[0-9A-Fa-fx]+)(?:, |$)')


def events(directory):
    run = subprocess.run(["babeltrace2", "--clock-seconds", directory], stdout=subprocess.PIPE, check=True)
    for line in run.stdout.decode(errors="replace").splitlines():
        m = LINE.match(line)
        if m:
            fields = {}
            for name, value in FIELD.findall(m.group(4)):
                fields.setdefault(name, number(value)) # what is within another field comes behind
            yield float(m.group(1)), m.group(2), int(m.group(3)), fields


def kernel_field(event, field):
    """What the kernel calls it, as NAME or NAME - 100; None when its record has no such field."""
    if event not in RENAMED or (event, field) in NOT_THERE:
        return None
    return RENAMED[event][1].get(field, field)


def pairs(records):
    """The records of one tracepoint on one CPU are made one after the other, always in the same order; the
    gap within a pair is the shorter one. A record may lack its partner."""
    gaps = {True: [], False: []}
    for a, b in zip(records, records[1:]):
        if a[1] != b[1]:
            gaps[a[1]].append(b[0] - a[0])
    order = [(sorted(g)[len(g) // 2], first) for first, g in gaps.items() if g]
    if order:
        first = min(order)[1]
        for a, b in zip(records, records[1:]):
            if a[1] == first and b[1] != first:
                yield (a[2], b[2]) if first else (b[2], a[2])


def differences(event, mine, kernel, equal):
    for field, value in mine.items():
        base, _, minus = (kernel_field(event, field) or "").partition(" - ")
        if base not in kernel:
            continue
        want = kernel[base]
        if minus:
            want -= int(minus)
        if field == "rwbs":
            want = rwbs(want)
        if isinstance(want, int) and isinstance(value, int):
            want &= (1 << 64) - 1
            value &= (1 << 64) - 1
        if value != want:
            yield f"DIFFERENT {event}.{field}: {value}, the kernel's {base} {want}: {mine} {kernel}"
        else:
            equal[event, field] = equal.get((event, field), 0) + 1


def compare(directory):
    records, equal, bad = {}, {}, {}
    ours = {tp: event for event, (tp, _) in RENAMED.items()}
    for time, name, cpu, fields in events(directory):
        event = ours.get(name, name)
        if event in RENAMED:
            records.setdefault((event, cpu), []).append((time, name == event, fields))
    for (event, _), found in records.items():
        for mine, kernel in pairs(found):
            for text in differences(event, mine, kernel, equal):
                bad.setdefault(tuple(text.split(":")[0].split(" ")[1].split(".")), []).append(text)
    for (event, field), n in sorted(equal.items()):
        print(event, field, n)
    # Where both lack a partner two that do not belong together look like a pair.
    wrong = [texts for key, texts in bad.items() if len(texts) > 1 + equal.get(key, 0) // 50]
    for texts in wrong:
        print(len(texts), "times:", texts[0])
    return 1 if wrong else 0


def classes(path):
    text = open(path, errors="replace").read()
    for m in re.finditer(r'event \{\n\tname = "([^"]+)";\n.*?fields := struct \{\n(.*?)\t\};\n\};', text, re.S):
        # A field a line; what is within it is not a field of the event.
        names = [n[-1] for n in (re.findall(r"_(\w+)(?:\[[^\]]*\])?;", line) for line in m.group(2).splitlines()) if n]
        yield m.group(1), [n for n in names if not n.endswith("_length")]


def check(text, path, seen):
    """The rows of this kernel's events must be those of the file; a kernel may lack events."""
    want = [r for r in open(path).read().splitlines() if not r.startswith("| ") or r.split(" ")[1] in seen | {"Event"}]
    if text.splitlines() != want:
        sys.exit("\n".join(difflib.unified_diff(want, text.splitlines(), path, "now", lineterm="")))


def doc(metadata, lttng, path, update=""):
    theirs, seen = {}, set()
    for line in open(lttng):
        if not line.startswith("#"):
            name, _, fields = line.strip().partition(":")
            theirs[name] = fields.split()
    rows = []
    for name, fields in classes(metadata):
        if ":" in name or "syscall_" in name:
            continue
        seen.add(name)
        reference = theirs.get(name)
        for field in fields:
            there = "-" if reference is None else "yes" if field in reference else "only here"
            kernel = kernel_field(name, field)
            against = f"`{RENAMED[name][0]}` {kernel}" if kernel else ELSEWHERE.get((name, field)) or ELSEWHERE.get(name, "")
            rows.append(f"| {name} | {field} | {there} | {against} |")
        for field in reference or []:
            if field not in fields:
                rows.append(f"| {name} | {field} | only in LTTng | |")
        if name in WHY:
            rows.append(f"| {name} | | | {WHY[name]} |")
    head = """# Fields, LTTng's and the kernel's

Generated by `tests/bpf/test_values.sh` from the metadata of a trace, the fields of LTTng 2.13 (`tests/data/lttng-2.13.txt`) and the
comparisons that the test makes. The third column says whether LTTng's event has the field ("-": LTTng has no such event); the last, what the
test compares the values with: the kernel's own record of the same tracepoint, or what /proc and /sys say.

| Event | Field | LTTng 2.13 | Compared with |
|---|---|---|---|
"""
    text = head + "\n".join(rows) + "\n"
    if update:
        open(path, "w").write(text)
    else:
        check(text, path, seen)


if sys.argv[1] == "compare":
    sys.exit(compare(sys.argv[2]))
doc(*sys.argv[2:])
