#!/bin/bash
# SPDX-License-Identifier: MIT
# Traces made by hand, with known answers: the analyses and options that lttng-analyses does not have.
. "$SRC/tests/tap.sh"
. "$SRC/tests/cases.sh"
. "$SRC/tests/made.sh"

futex_waits() {
  mk <<TRACE
100 0 lttng_statedump_process_state tid=10 pid=10 name=app
150 0 lttng_statedump_process_state tid=11 pid=10 name=app
$SWITCH
1_000 1 sched_switch prev_comm=swapper/1 prev_tid=0 prev_prio=20 prev_state=0 next_comm=app next_tid=11 next_prio=20
2_000 0 syscall_entry_futex uaddr=0x7f00 op=128 val=2
3_000 1 syscall_entry_futex uaddr=0x7f00 op=129 val=1
3_100 1 syscall_exit_futex ret=1
7_000 0 syscall_exit_futex ret=0
8_000 1 syscall_entry_futex uaddr=0x7f00 op=128 val=2
8_010 1 syscall_exit_futex ret=-11
9_000 1 syscall_entry_futex uaddr=0x7f40 op=393 val=2
9_500 1 syscall_exit_futex ret=-110
TRACE
  run futexstats --mi | json '
r = {x[1]["value"]: [c["value"] for c in x[2:]] for x in rows("per-futex")}
assert r == {"0x7f00": [2, 1, 0, 5000, 5000.0, 5000, 1, 1],
             "0x7f40": [1, 1, 1, 500, 500.0, 500, 0, 0]}, r
t = {x[0]["tid"]: [x[1]["value"], x[2]["value"], x[3]["value"]] for x in rows("per-tid")}
assert t == {10: [1, 1, 5000], 11: [2, 1, 500]}, t'
}

# 10 asks 20, which asks the disk (nobody known wakes it), and waits.
the_critical_path_goes_through_who_woke() {
  mk <<'TRACE'
1_000 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=app next_tid=10 next_prio=20
2_000 0 sched_waking comm=db tid=20 prio=20 target_cpu=1
2_500 1 sched_switch prev_comm=swapper/1 prev_tid=0 prev_prio=20 prev_state=0 next_comm=db next_tid=20 next_prio=20
3_000 0 sched_switch prev_comm=app prev_tid=10 prev_prio=20 prev_state=1 next_comm=swapper/0 next_tid=0 next_prio=20
4_000 1 sched_switch prev_comm=db prev_tid=20 prev_prio=20 prev_state=2 next_comm=swapper/1 next_tid=0 next_prio=20
7_000 1 sched_waking comm=db tid=20 prio=20 target_cpu=1
7_200 1 sched_switch prev_comm=swapper/1 prev_tid=0 prev_prio=20 prev_state=0 next_comm=db next_tid=20 next_prio=20
8_000 1 sched_waking comm=app tid=10 prio=20 target_cpu=0
8_300 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=app next_tid=10 next_prio=20
9_000 0 sched_switch prev_comm=app prev_tid=10 prev_prio=20 prev_state=1 next_comm=swapper/0 next_tid=0 next_prio=20
TRACE
  run wakeupchain --mi 10 | json '
r = [(x[0]["begin"]["value"], x[0]["end"]["value"], x[2]["tid"], x[3]["value"]) for x in rows("path")]
assert r == [(1000, 3000, 10, "runs"), (3000, 4000, 20, "runs"), (4000, 7000, 20, "sleeps"),
             (7000, 7200, 20, "waits for a CPU"), (7200, 8000, 20, "runs"),
             (8000, 8300, 10, "waits for a CPU"), (8300, 9000, 10, "runs")], r'
  "$RUTILE" wakeupchain trace 2>err && return 1
  grep -q 'which thread' err
}

WAKE() { # TIME CPU TID
  echo "$1 $2 sched_waking comm=t$3 tid=$3 prio=20 target_cpu=0"
}
# path TID EXPECTED...: the segments of its critical path, "begin-end tid state cause call by"
path() {
  tid=$1
  shift
  run wakeupchain --mi "$tid" >mi
  json '
def text(c):
    return "-" if c is None else str(c.get("tid", c.get("value")))
got = [str(x[0]["begin"]["value"]) + "-" + str(x[0]["end"]["value"]) + " " + " ".join(text(c) for c in x[2:]) for x in rows("path")]
want = sys.argv[1:]
assert got == want, "\n".join(["got:"] + got + ["want:"] + want)
ends = [s.split()[0].split("-") for s in got]
assert all(a[1] == b[0] for a, b in zip(ends, ends[1:])), "gaps"' "$@" <mi
}

# Switches that the trace does not have: 10 -> 20 before 3 us, and 30 -> 10 before 9 us. When these happened nobody
# knows, and so it is said; the parts still cover all.
missing_switches_are_unknown_time() {
  { SW 1_000 0 0 0 10
    SW 3_000 0 20 1 30
    WAKE 4_000 0 10
    SW 5_000 0 30 0 10
    SW 6_000 0 10 1 30
    WAKE 7_000 0 10
    SW 9_000 0 10 1 30
    SW 10_000 0 30 1 0; } | mk
  path 10 '1000-4000 10 unknown hidden switch - -' '4000-5000 10 waits for a CPU - - 30' '5000-6000 10 runs - - -' \
    '6000-7000 30 unknown hidden switch - -' '7000-9000 10 unknown hidden switch - -' '9000-10000 10 sleeps - - -'
  path 20 '1000-3000 20 unknown hidden switch - -' '3000-10000 20 sleeps - - -'
  run wakeupchain 10 >out
  grep -q '^Of 6.000 us the state is unknown: switches of the thread are missing' out
  grep -q 'unknown (hidden switch)' out
  run wakeupchain --mi 10 | json '
assert rows("per-tid")[0][0]["tid"] == 10 and rows("per-tid")[0][-1]["value"] == 5000 and rows("per-tid")[1][-1]["value"] == 1000, rows("per-tid")
assert sum(c["value"] for r in rows("per-tid") for c in r[1:]) == 9000'
  # It comes to a CPU a second time, and has not left the first.
  { SW 1_000 0 0 0 10
    SW 2_000 1 0 0 20
    SW 3_000 1 20 1 10
    SW 4_000 1 10 1 0
    SW 5_000 0 30 1 0; } | mk twice
  mv trace once; mv twice trace
  path 10 '1000-3000 10 unknown hidden switch - -' '3000-4000 10 runs - - -' '4000-5000 10 sleeps - - -'
  # What was there before the trace is said, too.
  { SW 1_000 1 0 0 20; SW 2_000 0 0 0 10; SW 3_000 0 10 1 0; } | mk before
  rm -r trace; mv before trace
  path 10 '1000-2000 10 unknown before the trace - -' '2000-3000 10 runs - - -'
}

# Random threads on three CPUs. Of their switches some are left out, no two in a row on a CPU: nothing that is said of
# the path then, but that it is unknown, may be untrue, and the parts are as long as the whole.
what_is_said_beside_missing_switches_is_true() {
  cat >simulate.py <<'END'
import random, subprocess, json, os, shutil, sys
rutile, source = sys.argv[1:]
def switch(now, cpu, prev, state, to):
    return (f"{now} {cpu} sched_switch prev_comm=t{prev} prev_tid={prev} prev_prio=20 prev_state={state} "
            f"next_comm=t{to} next_tid={to} next_prio=20")
unknown = true = 0
for seed in range(40):
    r = random.Random(seed)
    tids, cpus = list(range(10, 18)), range(3)
    on, ready, asleep = {c: 0 for c in cpus}, tids[:4], tids[4:]
    lines, ran, skipped, now = [], {t: [] for t in tids}, {c: False for c in cpus}, 1000
    for step in range(150):
        now += r.randrange(50, 500)
        cpu = r.choice(cpus)
        if asleep and on[cpu] and r.random() < 0.5:
            t = asleep.pop(r.randrange(len(asleep)))
            ready.append(t)
            lines.append(f"{now} {cpu} sched_waking comm=t{t} tid={t} prio=20 target_cpu={cpu}")
            continue
        prev, to = on[cpu], ready.pop(r.randrange(len(ready))) if ready and r.random() < 0.8 else 0
        if prev == to:
            continue
        state = r.randrange(2)
        on[cpu] = to
        if prev:
            (asleep if state else ready).append(prev)
            ran[prev][-1][1] = now
        if to:
            ran[to].append([now, None])
        if step > 10 and not skipped[cpu] and r.random() < 0.2:
            skipped[cpu] = True
            continue
        skipped[cpu] = False
        lines.append(switch(now, cpu, prev, state, to))
    # The last one of each CPU shows what ran there.
    now += 1000
    for cpu, prev in on.items():
        lines.append(switch(now, cpu, prev, 1, 99))
        if prev:
            ran[prev][-1][1] = now
    shutil.rmtree("trace", ignore_errors=True)
    subprocess.run([sys.executable, source + "/tests/mktrace", "trace"], input="\n".join(lines), text=True, check=True)
    for tid in tids:
        out = subprocess.run([rutile, "wakeupchain", "--mi", "--skip-validation", "--no-intersection", str(tid), "trace"],
                             capture_output=True, check=True).stdout
        tables = {t["class"]: t for t in json.loads(out)["results"]}
        if "path" not in tables: # of this thread nothing is known
            continue
        path, whole = tables["path"]["data"], tables["path"]["time-range"]
        length = whole["end"]["value"] - whole["begin"]["value"]
        assert sum(x[1]["value"] for x in path) == length, (seed, tid)
        assert sum(c["value"] for x in tables["per-tid"]["data"] for c in x[1:]) == length, (seed, tid)
        for x in path:
            who, what = x[2]["tid"], x[3]["value"]
            begin, end = x[0]["begin"]["value"], x[0]["end"]["value"]
            inside = sum(max(0, min(b or now, end) - max(a, begin)) for a, b in ran[who])
            if what == "unknown":
                unknown += 1
            elif what == "runs":
                assert inside == end - begin, (seed, tid, x, ran[who])
                true += 1
            else:
                assert inside == 0, (seed, tid, x, ran[who])
                true += 1
print(true, "true,", unknown, "unknown")
assert true > 3000 and unknown > 300
END
  python3 simulate.py "$RUTILE" "$SRC"
}

# Whoever is interrupted has nothing to do with it: a thread in user code (20), a call (30) and an idle CPU.
an_interrupted_thread_wakes_nobody() {
  { SW 1_000 0 0 0 10
    SW 1_100 1 0 0 20
    echo "1_150 1 syscall_entry_getpid"; echo "1_160 1 syscall_exit_getpid ret=20"
    echo "2_000 0 syscall_entry_nanosleep"; SW 2_100 0 10 1 30
    WAKE 5_000 1 10
    SW 5_200 0 30 0 10
    echo "5_300 0 syscall_exit_nanosleep ret=0"
    echo "5_400 0 syscall_entry_nanosleep"; SW 5_500 0 10 1 30
    echo "5_600 0 syscall_entry_getpid"
    WAKE 7_000 0 10
    SW 7_100 0 30 256 10
    echo "7_200 0 syscall_exit_nanosleep ret=0"
    echo "7_300 0 syscall_entry_poll"; SW 7_500 0 10 1 0
    WAKE 8_000 0 10
    SW 8_100 0 0 0 10
    echo "8_200 0 syscall_exit_poll ret=0"
    echo "8_300 0 tick n=1"; } | mk
  path 10 '1000-2100 10 runs - - -' '2100-5000 10 timer nanosleep nanosleep -' '5000-5200 10 waits for a CPU - - 30' \
    '5200-5500 10 runs - - -' '5500-7000 10 timer nanosleep nanosleep -' '7000-7100 10 waits for a CPU - - 30' \
    '7100-7500 10 runs - - -' '7500-8000 10 timer poll poll -' '8000-8100 10 waits for a CPU - - -' '8100-8300 10 runs - - -'
  path 30 '1000-2100 30 unknown before the trace - -' '2100-5200 30 runs - - -' '5200-5500 30 preempted - - 10' '5500-7100 30 runs - - -' \
    '7100-8300 30 preempted - - 10'
}

# Disk, network and other interrupts by name; before the request of 10 there was one of 40.
interrupts_are_causes_by_name() {
  { echo "100 0 lttng_statedump_block_device dev=8 diskname=sda"
    SW 900 1 0 0 40
    SW 1_000 0 0 0 10
    echo "1_100 0 syscall_entry_openat filename=/data flags=0"; echo "1_200 0 syscall_exit_openat ret=3"
    echo "1_300 1 block_rq_issue dev=8 sector=500 nr_sector=8 tid=40 rwbs=4"
    echo "1_500 0 syscall_entry_read fd=3 count=8"
    echo "1_600 0 block_rq_issue dev=8 sector=100 nr_sector=8 tid=10 rwbs=4"
    SW 1_700 0 10 2 20
    echo "2_900 0 syscall_entry_getpid"
    echo "3_000 0 irq_handler_entry irq=30 name=ahci"
    echo "3_100 0 block_rq_complete dev=8 sector=100 nr_sector=8"
    WAKE 3_200 0 10
    echo "3_300 0 irq_handler_exit irq=30 ret=1"
    SW 3_400 0 20 0 10
    echo "3_500 0 syscall_exit_read ret=8"
    echo "3_600 0 syscall_entry_accept4 fd=9 flags=0"
    echo "3_700 0 syscall_exit_accept4 ret=4 family=2 sport=80 v4addr=[10,0,0,9]"
    echo "3_800 0 syscall_entry_recvfrom fd=4 size=8"
    SW 4_000 0 10 1 20
    echo "4_900 0 irq_softirq_entry vec=3"
    echo "5_000 0 net_if_receive_skb name=eth0 len=100"
    WAKE 5_100 0 10
    echo "5_200 0 irq_softirq_exit vec=3"
    SW 5_300 0 20 0 10
    echo "5_400 0 syscall_exit_recvfrom ret=8"
    echo "5_500 0 syscall_entry_ppoll"
    SW 6_000 0 10 1 20
    echo "6_900 0 irq_handler_entry irq=9 name=acpi"
    WAKE 7_000 0 10
    echo "7_100 0 irq_handler_exit irq=9 ret=1"
    SW 7_200 0 20 0 10
    echo "7_300 0 syscall_exit_ppoll ret=1"
    SW 8_000 0 10 1 20
    echo "8_100 0 irq_handler_entry irq=1 name=i8042"
    WAKE 8_200 0 10
    SW 8_300 0 20 0 10
    echo "9_000 0 tick n=1"; } | mk
  path 10 '100-1000 10 unknown before the trace - -' '1000-1700 10 runs - - -' '1700-3200 10 disk sda read 40' '3200-3400 10 waits for a CPU - - 20' \
    '3400-4000 10 runs - - -' '4000-5100 10 network 10.0.0.9:80 recvfrom -' '5100-5300 10 waits for a CPU - - 20' \
    '5300-6000 10 runs - - -' '6000-7000 10 interrupt acpi ppoll -' '7000-7200 10 waits for a CPU - - 20' \
    '7200-8000 10 runs - - -' '8000-8200 10 user i8042 - -' '8200-8300 10 waits for a CPU - - 20' '8300-9000 10 runs - - -'
}

# On the loopback device a packet comes in while its sender's call runs: the path goes on with the sender.
the_path_goes_through_loopback() {
  # sent CALL INTERFACE: 20 makes this call, and 10 receives what came in there meanwhile.
  sent() {
    rm -rf trace
    { SW 1_000 0 0 0 10
      SW 1_100 1 0 0 20
      echo "1_200 0 syscall_entry_recvfrom fd=4 size=8"
      SW 2_000 0 10 1 0
      echo "3_000 1 syscall_entry_$1 fd=5"
      echo "3_100 1 irq_softirq_entry vec=3"
      echo "3_200 1 net_if_receive_skb name=$2 len=8"
      WAKE 3_300 1 10
      echo "3_400 1 irq_softirq_exit vec=3"
      SW 3_500 0 0 0 10
      echo "4_000 0 syscall_exit_recvfrom ret=8"; } | mk
  }
  # The peer may be in a container of this machine; what it closes ends the wait as well.
  for call in "sendto lo" "sendto veth1a2b" "shutdown lo"; do
    sent $call
    path 10 '1000-2000 10 runs - - -' '2000-3300 20 runs - - -' '3300-3500 10 waits for a CPU - - -' '3500-4000 10 runs - - -'
  done
  # A packet from elsewhere that comes in while another one is sent, and a call that sends nothing.
  for call in "sendto eth0" "getdents64 lo"; do
    sent $call
    path 10 '1000-2000 10 runs - - -' "2000-3300 10 network ${call#* } recvfrom -" '3300-3500 10 waits for a CPU - - -' '3500-4000 10 runs - - -'
  done
}

# The shapes of Trace Compass's tests of its critical path: embedded, interleaved, nested, open at the end,
# woken by itself, new, and woken by what is not known.
critical_paths_of_trace_compass() {
  # embedded: 10 is woken by 20, which slept within that time and was woken by 30.
  { SW 1_000 0 0 0 10; SW 1_000 1 0 0 20; SW 1_000 2 0 0 30
    SW 2_000 0 10 1 0; SW 3_000 1 20 1 0; WAKE 4_000 2 20; SW 4_100 1 0 0 20
    WAKE 5_000 1 10; SW 5_100 0 0 0 10; echo "6_000 0 tick n=1"; } | mk
  path 10 '1000-2000 10 runs - - -' '2000-3000 20 runs - - -' '3000-4000 30 runs - - -' '4000-4100 20 waits for a CPU - - -' '4100-5000 20 runs - - -' \
    '5000-5100 10 waits for a CPU - - -' '5100-6000 10 runs - - -'
  # interleaved: 20 slept since before 10 did.
  { SW 1_000 0 0 0 10; SW 1_000 1 0 0 20; SW 1_000 2 0 0 30
    SW 2_000 1 20 1 0; SW 3_000 0 10 1 0; WAKE 4_000 2 20; SW 4_100 1 0 0 20
    WAKE 5_000 1 10; SW 5_100 0 0 0 10; echo "6_000 0 tick n=1"; } | mk trace2
  mv trace trace1; mv trace2 trace
  path 10 '1000-3000 10 runs - - -' '3000-4000 30 runs - - -' '4000-4100 20 waits for a CPU - - -' '4100-5000 20 runs - - -' \
    '5000-5100 10 waits for a CPU - - -' '5100-6000 10 runs - - -'
  # nested: sleeps one after another, each in another thread; open: asleep at the end.
  { SW 1_000 0 0 0 10; SW 1_000 1 0 0 20; SW 1_000 2 0 0 30
    SW 1_500 0 10 1 0; WAKE 2_000 1 10; SW 2_100 0 0 0 10
    SW 2_500 0 10 1 0; WAKE 3_000 2 10; SW 3_100 0 0 0 10
    SW 4_000 0 10 1 0; echo "6_000 0 tick n=1"; } | mk trace3
  rm -r trace; mv trace3 trace
  path 10 '1000-1500 10 runs - - -' '1500-2000 20 runs - - -' '2000-2100 10 waits for a CPU - - -' '2100-2500 10 runs - - -' \
    '2500-3000 30 runs - - -' '3000-3100 10 waits for a CPU - - -' '3100-4000 10 runs - - -' '4000-6000 10 sleeps - - -'
  # new: what it was before it began is what its parent did. Woken in an idle CPU: by no thread.
  { SW 1_000 0 0 0 10; echo "2_000 0 sched_process_fork child_tid=20 child_pid=20 child_comm=t20 parent_pid=10 parent_comm=t10"
    echo "2_100 0 sched_wakeup_new comm=t20 tid=20 prio=20 target_cpu=1"; SW 2_500 1 0 0 20; SW 3_000 1 20 1 0
    WAKE 4_000 1 20; SW 4_100 1 0 0 20; echo "5_000 0 tick n=1"; } | mk trace4
  rm -r trace; mv trace4 trace
  path 20 '1000-2100 10 runs - - -' '2100-2500 20 waits for a CPU - - -' '2500-3000 20 runs - - -' '3000-4000 20 sleeps - - -' \
    '4000-4100 20 waits for a CPU - - -' '4100-5000 20 runs - - -'
}

descriptors_over_time() {
  { echo "$SWITCH"
    echo "100 0 lttng_statedump_file_descriptor pid=10 fd=0 flags=0 fmode=0 filename=/dev/null"
    for i in 3 4 5 6; do
      echo "${i}_000 0 syscall_entry_openat filename=f$i flags=0"
      echo "${i}_100 0 syscall_exit_openat ret=$i"
    done
    echo "7_000 0 syscall_entry_close fd=4"; echo "7_100 0 syscall_exit_close ret=0"; } | mk
  run fdtop --mi | json '
assert [c["value"] for c in rows("per-process")[0][1:]] == [1, 4, 5, 4, 1, 3, 0], rows("per-process")'
  # Of two control groups; 30 is forked by 20, with its three descriptors.
  { for tid in 10 20 40; do
      echo "10 0 lttng_statedump_process_state tid=$tid pid=$tid name=p$tid"
      echo "20 0 rutile_statedump_cgroup tid=$tid cgroup_id=5 path=/$((tid / 40))"
      echo "30 0 lttng_statedump_file_descriptor pid=$tid fd=0 flags=0 fmode=0 filename=/dev/null"
    done
    SW 1_000 0 0 0 10; SW 1_000 1 0 0 20; SW 1_000 2 0 0 40
    for cpu in 0 1 1 2; do
      t=$((${t:-1000} + 1000))
      echo "$t $cpu syscall_entry_openat filename=f flags=0"; echo "$((t + 100)) $cpu syscall_exit_openat ret=$((t / 1000 + 3))"
    done
    echo "7_000 1 sched_process_fork parent_comm=p20 parent_tid=20 parent_pid=20 child_comm=p30 child_tid=30 child_pid=30"
    SW 8_000 1 20 1 30
    echo "8_500 1 syscall_entry_close fd=0"; echo "8_600 1 syscall_exit_close ret=0"
    echo "9_500 0 syscall_entry_close fd=0"; echo "9_600 0 syscall_exit_close ret=0"; } | mk groups
  rm -r trace; mv groups trace
  run fdtop --mi | json '
assert {r[0]["pid"]: [c["value"] for c in r[1:]] for r in rows("per-process")} == \
    {10: [1, 1, 2, 1, 1, 0, 0], 20: [1, 3, 3, 2, 0, 2, 0], 30: [3, 2, 3, 0, 1, -1, 0], 40: [1, 2, 2, 1, 0, 1, 0]}, results'
  # begin 1 + 1 + 3, and 8 at once: 2, 3 and 3.
  run fdtop --mi --by cgroup | json '
assert [(r[0]["name"], [c["value"] for c in r[1:]]) for r in rows("per-process")] == \
    [("/0", [5, 6, 8, 3, 2, 1, 0]), ("/1", [1, 2, 2, 1, 0, 1, 0])], results'
  run fdtop --by cgroup | grep -Eq '^/0 +5 +6 +8 +3 +2 +1 +0 '
}

# Made by calls that are not requests, ended by other means than close, and used before they are known.
descriptors_of_all_kinds() {
  { echo "$SWITCH"
    t=2000
    call() { # NAME RESULT ENTRY-FIELDS [EXIT-FIELDS]
      echo "$t 0 syscall_entry_$1 $3"; echo "$((t + 10)) 0 syscall_exit_$1 ret=$2 ${4-}"; t=$((t + 100))
    }
    call pipe2 0 flags=524288 'fildes=[3,4]'
    call socketpair 0 'family=1 type=1' 'usockvec=[5,6]'
    call eventfd2 7 flags=0
    call fcntl 8 'fd=7 cmd=1030 arg=0'
    call signalfd4 7 'ufd=7 flags=0'
    call dup2 -9 'oldfd=99 newfd=7'
    call dup2 5 'oldfd=6 newfd=5'
    call dup2 6 'oldfd=6 newfd=6'
    call timerfd_create -22 'clockid=1 flags=0'
    call bpf 0 cmd=2
    call bpf 9 cmd=0
    call recvmsg 1 'fd=5 flags=0' 'rights=[10,11]'
    call close -5 fd=11
    call close -9 fd=77
    call read 4 'fd=50 count=4'
    call close 0 fd=51
    call close_range 0 'fd=9 max_fd=40 flags=4'
    call close_range 0 'fd=6 max_fd=7 flags=0'
    echo "$t 0 sched_process_exec filename=/usr/bin/a-name-longer-than-15 tid=10 old_tid=10"
    echo "$((t + 1)) 0 tick n=1"; } | mk
  # Open: 5 50; ended by the exec: 3 4 8 9 10. 50 and 51 were there before.
  run fdtop --mi | json '
r = rows("per-process")[0]
assert r[0]["name"] == "a-name-longer-t", r
assert [c["value"] for c in r[1:]] == [2, 2, 11, 10, 10, 0, 2], r'
}

# Processes that begin and end: what is kept of them does not grow with their number.
memory_does_not_grow_with_forks() {
  mk one <<'TRACE'
1_000 0 sched_switch prev_comm=sh prev_tid=10 prev_prio=20 prev_state=0 next_comm=sh next_tid=11 next_prio=20
900 0 sched_process_fork child_tid=11 child_pid=11 child_comm=sh parent_pid=10 parent_comm=sh
TRACE
  cat >forks.py <<'END'
import shutil, struct
def forks(n):
    out = f"forks{n}"
    shutil.copytree("one", out)
    body, t = bytearray(), 1000
    def switch(t, prev, state, to, name):
        return struct.pack("<IQ", 0, t) + name[0] + struct.pack("<QQQ", prev, 20, state) + name[1] + struct.pack("<QQ", to, 20)
    for i in range(n):
        tid, name, t = 100 + i, b"x%d\0" % (i % 7), t + 1000
        body += struct.pack("<IQQQ", 1, t, tid, tid) + b"sh\0" + struct.pack("<Q", 10) + b"sh\0"
        body += switch(t + 100, 10, 1, tid, (b"sh\0", name)) + switch(t + 200 + i % 97, tid, 32, 10, (name, b"sh\0"))
    size = 52 + len(body)
    with open(out + "/channel_0", "wb") as f:
        f.write(struct.pack("<II", 0xC1FC1FC1, 0) + struct.pack("<QQQQQI", 900, t + 1000, size * 8, size * 8, 0, 0) + body)
forks(160000)
END
  python3 forks.py
  # A sanitizer's own memory is more than any limit.
  if not grep -q __asan_init "$RUTILE"; then ulimit -d $((28 * 1024)); fi
  for verb in cputop memtop schedstats fdtop; do
    "$RUTILE" $verb --skip-validation forks160000 >out
  done
}

# An empty report would look like an idle machine.
what_the_trace_lacks_is_said() {
  mk <<TRACE
$SWITCH
2_000 0 tick n=1
TRACE
  run memtop 2>&1 >out | grep -q 'none of the events that this analysis needs: .*mm_page_alloc'
  run irqstats 2>&1 >out | grep -q 'none of the events that this analysis needs: irq_handler_entry'
  run cputop 2>err >out
  [ ! -s err ]
  run cputop --filter '$evt.nothing == 3' 2>&1 >out | grep -q 'filter holds for no event of this trace'
  run cputop --period 'x : $evt.$name == "tock"' 2>&1 >out | grep -q 'no event of this trace begins a period'
  run cputop --period 'x : $evt.$name == "tick"' 2>err >out
  [ ! -s err ]
  # A period that could begin, but never does; one that does, of which a capture has no field.
  run periodlog --period 'x : $evt.$name == "tick" && $evt.n == 77' 2>&1 >out | grep -q 'no event of this trace begins a period'
  run periodlog --period 'x : $evt.$name == "tick" : $evt.$name == "sched_switch"' 2>err >out \
    --period-captures 'x : a = $evt.n, b = $evt.nothing : c = $evt.prev_tid, d = $evt.n'
  [ "$(wc -l <err)" = 2 ]
  grep -q "capture 'b' of period 'x' is always None" err
  grep -q "capture 'd' of period 'x' is always None" err
  # Of programs, without one event of the kernel.
  echo '1_000 0 app:begin id=1' | mk user
  mv trace kernel; mv user trace
  for verb in series changes; do
    run $verb 2>&1 >out | grep -q 'none of the events that this analysis needs: sched_switch, sched_wak'
  done
  "$RUTILE" diff --no-intersection trace trace 2>&1 >out | grep -q 'none of the events that this analysis needs'
  # Whose these are is not known, unless a context says it.
  calls='1_000 0 syscall_entry_futex uaddr=1 op=0
2_000 0 syscall_exit_futex ret=0
3_000 0 kmem_mm_page_alloc page=1 order=0
4_000 0 sched_wakeup comm=app tid=10 prio=20 target_cpu=0'
  echo "$calls" | mk
  for verb in syscallstats iolatencystats iousagetop memtop futexstats fdtop nettop; do
    run $verb 2>&1 >out | grep -q 'neither sched_switch nor the context tid' || { echo $verb; return 1; }
  done
  run schedtop 2>&1 >out | grep -q 'the trace has no sched_switch'
  { echo 'context tid:int'; while read -r call; do echo "$call @tid=10"; done <<<"$calls"; } | mk with
  rm -r trace; mv with trace
  for verb in syscallstats iousagetop memtop futexstats fdtop; do
    run $verb 2>err >out
    [ ! -s err ] || { echo $verb; cat err; return 1; }
  done
}

# Of every verb that 'rutile help' lists, and of report: each table is declared, each cell is what LAMI 1.0 has
# and of its column's class (tests/lami.py).
lami_is_as_its_specification_says() {
  c=$(cases)
  t=$c/ref/basic-kernel-analysis
  read='r : $evt.$name == "syscall_entry_read" : $evt.$name == "syscall_exit_read"'
  mkdir meta
  "$RUTILE" help | awk '/^Analyses of/ { on = 1; next } /^$/ { on = 0 } on { print $1 }' |
    grep -vx 'export\|serve-metrics\|report' >verbs
  [ "$(wc -l <verbs)" -ge 35 ]
  steps slow slow 7
  steps even none 5
  while read -r verb; do
    "$RUTILE" "$verb" --metadata >"meta/$verb"
    set -- "$t"
    case $verb in
      period*) set -- --period "$read" "$t" ;;
      *top) set -- --limit unlimited "$t" ;;
      requests) set -- --period "$read" --request r "$t" ;;
      wakeupchain) set -- 13671 "$t" ;;
      diff) set -- even slow ;;
    esac
    case $verb in diff | period* | requests | ruby* | gvl | series | changes | wakeupchain) ;; *) set -- --percentiles "$@" ;; esac
    "$RUTILE" "$verb" --mi --no-intersection "$@" >out 2>err
    python3 "$SRC/tests/lami.py" "meta/$verb" out >n || { echo "$verb"; return 1; }
    echo "$verb: $(cat n)"
    # Ruby's have no events here; tests/cli/test_ruby_analyses.sh checks theirs.
    case $verb in ruby* | gvl) ;; *) not grep -q ' 0$' n ;; esac
  done <verbs
  "$RUTILE" report --mi --no-intersection "$t" >out
  python3 "$SRC/tests/lami.py" meta out --report >n
  cat n
  [ "$(grep -vc ' 0$' n)" -gt 5 ]
}

# Each wait by its kind; what a thread ran and waited is the time from its first switch on.
waits_off_the_cpus() {
  { echo "100 0 lttng_statedump_block_device dev=8 diskname=sda"
    echo "110 0 lttng_statedump_file_descriptor pid=10 fd=3 flags=0 fmode=0 filename=/data"
    echo "120 0 lttng_statedump_file_descriptor pid=10 fd=4 flags=0 fmode=0 filename=socket:[7]"
    echo "130 0 lttng_statedump_file_descriptor pid=10 fd=5 flags=0 fmode=0 filename=pipe:[8]"
    SW 1_000 0 0 0 10; SW 1_000 1 0 0 20
    echo "1_100 1 syscall_entry_getpid"; echo "1_101 1 syscall_exit_getpid ret=20"
    echo "1_400 0 syscall_entry_read fd=3 count=8"; echo "1_500 0 block_rq_issue dev=8 sector=1 nr_sector=8 tid=10 rwbs=4"
    SW 2_000 0 10 2 0; echo "2_900 0 irq_handler_entry irq=5 name=ahci"
    echo "2_950 0 block_rq_complete dev=8 sector=1 nr_sector=8"; WAKE 3_000 0 10
    echo "3_050 0 irq_handler_exit irq=5 ret=1"; SW 3_100 0 0 0 10; echo "3_200 0 syscall_exit_read ret=8"
    echo "3_300 0 syscall_entry_read fd=4 count=8"; SW 3_400 0 10 1 0
    echo "4_000 0 irq_softirq_entry vec=3"; WAKE 4_100 0 10; echo "4_200 0 irq_softirq_exit vec=3"
    SW 4_400 0 0 0 10; echo "4_500 0 syscall_exit_read ret=8"
    echo "4_600 0 syscall_entry_futex uaddr=0x7f00 op=128 val=2"; SW 4_700 0 10 1 0
    echo "5_000 1 syscall_entry_futex uaddr=0x7f00 op=129 val=1"; WAKE 5_200 1 10; echo "5_300 1 syscall_exit_futex ret=1"
    SW 5_200 0 0 0 10; echo "5_400 0 syscall_exit_futex ret=0"
    echo "5_500 0 syscall_entry_read fd=5 count=8"; SW 5_600 0 10 1 0
    echo "6_000 1 syscall_entry_write fd=9 count=8"; WAKE 6_100 1 10; echo "6_200 1 syscall_exit_write ret=8"
    SW 6_100 0 0 0 10; echo "6_300 0 syscall_exit_read ret=8"
    SW 6_400 0 10 0 30; SW 6_900 0 30 32 10
    echo "7_000 0 syscall_entry_nanosleep"; SW 7_100 0 10 1 0
    echo "9_000 1 tick n=1"; } | mk
  run offcpu --mi --limit unlimited | json '
got = {}
for x in rows("per-tid"):
    if x[0]["tid"] == 10:
        got[x[1]["value"], x[2] and x[2]["value"]] = (x[4]["value"], x[5]["value"])
assert got == {("disk", "sda"): (1, 1000), ("network", "socket:[7]"): (1, 700), ("lock", "0x7f00"): (1, 500),
               ("pipe", "pipe:[8]"): (1, 500), ("timer", None): (1, 1900), ("run queue", None): (3, 100 + 300 + 500)}, got
ran = 1000 + 300 + 300 + 400 + 300 + 200
assert sum(v[1] for v in got.values()) + ran == 9000 - 1000, (got, ran)
# A thread that has ended waits for nothing.
assert not [x for x in rows("per-tid") if x[0]["tid"] == 30], rows("per-tid")
total = {x[0]["value"]: x[4]["value"] for x in rows("per-reason")}
assert total["disk"] == 1000 and total["run queue"] == 900, total'
  run offcpu | grep -q '^disk  *sda  *read  *1  *1.000'
}

# A period is a request of the thread in which it begins: the parts sum up to it, and the sentence names who was waited for.
requests_of_periods() {
  { SW 1_000 0 0 0 10; SW 1_000 1 0 0 20
    echo "1_100 0 syscall_entry_accept4 fd=3"; echo "1_200 0 syscall_exit_accept4 ret=4"
    echo "1_500 0 syscall_entry_read fd=9 count=8"; echo "1_600 0 block_rq_issue dev=8 sector=1 nr_sector=8 tid=10 rwbs=4"
    SW 2_000 0 10 2 30; WAKE 4_000 0 10; SW 4_500 0 30 0 10; echo "4_600 0 syscall_exit_read ret=8"
    SW 5_000 0 10 0 30; SW 9_000 0 30 1 10
    echo "9_500 0 syscall_entry_close fd=4"; echo "9_600 0 syscall_exit_close ret=0"
    # One that has not ended, and one that has, in another thread.
    echo "9_700 0 syscall_entry_accept4 fd=3"; echo "9_800 0 syscall_exit_accept4 ret=4"
    echo "2_000 1 syscall_entry_accept4 fd=3"; echo "2_100 1 syscall_exit_accept4 ret=5"
    echo "2_600 1 syscall_entry_close fd=5"; echo "2_700 1 syscall_exit_close ret=0"
    echo "11_000 1 tick n=1"; } | mk
  visit='visit : $evt.$name == "syscall_exit_accept4" : $evt.$name == "syscall_entry_close" && $evt.fd == $begin.$evt.ret'
  run requests --period "$visit" --request visit --slowest 3 --explain --json >out
  cat out
  python3 - <<'PY'
import json
lines = [json.loads(x) for x in open("out")]
route, = [x for x in lines if x["type"] == "route"]
assert (route["route"], route["count"], route["running"], route["max_ns"]) == ("visit", 2, 1, 8300), route
first = [x for x in lines if x["type"] == "request"][0]
assert first["duration_ns"] == 8300 and sum(first["parts"].values()) == 8300, first
assert first["parts"]["run-queue"] == 500 + 4000, first
assert "a CPU that" in first["explanation"], first
PY
  run requests --period "$visit" --request visit >text
  # Nothing says that what runs is Ruby.
  grep '^visit' text | grep -q 'running'
  not grep -q ruby text
  run requests --period 'x : $evt.$name == "nothing"' --request x 2>&1 | grep -q "No period 'x' begins in the trace"
  rm -r trace
  # A begin whose end was lost hides the period that begins next, not all later ones.
  { SW 1_000 0 0 0 10; echo "1_500 0 syscall_exit_accept4 ret=3"
    for i in 2 4 6; do echo "${i}_000 0 syscall_exit_accept4 ret=$i"; echo "${i}_900 0 syscall_entry_close fd=$i"; done
    echo "9_000 0 tick n=1"; } | mk
  run periodlog --period "$visit" --mi | python3 -c 'import json, sys; assert len(json.load(sys.stdin)["results"][0]["data"]) == 3'
  run requests --period "$visit" --request visit --json | grep '"count": *2, .*"running": *0,'
  # Periods that begin one within the other and end at one event are one request, the outer one.
  { SW 1_000 0 0 0 10; echo "1_500 0 syscall_exit_accept4 ret=3"; echo "2_000 0 syscall_exit_accept4 ret=3"
    echo "2_900 0 syscall_entry_close fd=3"; echo "4_000 0 syscall_exit_accept4 ret=3"; echo "4_100 0 syscall_entry_close fd=3"
    echo "9_000 0 tick n=1"; } | mk
  run requests --period "$visit" --request visit --json | grep '"count": *2, .*"max_ns": *1400,'
}

peers_on_the_network() {
  mk <<TRACE
$SWITCH
2_000 0 syscall_entry_socket family=2 type=1
2_100 0 syscall_exit_socket ret=4
3_000 0 syscall_entry_connect fd=4 family=2 v4addr=[10,0,0,7] dport=53
3_500 0 syscall_exit_connect ret=0
4_000 0 syscall_entry_sendto fd=4 len=30
4_100 0 syscall_exit_sendto ret=30
4_200 0 syscall_entry_sendto fd=4 len=10
4_300 0 syscall_exit_sendto ret=10
6_000 0 syscall_entry_recvfrom fd=4 size=100
7_000 0 syscall_exit_recvfrom ret=100
7_100 0 syscall_entry_recvfrom fd=4 size=100
7_200 0 syscall_exit_recvfrom ret=50
8_000 0 syscall_entry_accept4 fd=3 flags=0
9_000 0 syscall_exit_accept4 ret=7 family=2 sport=4000 v4addr=[10,0,0,1]
9_100 0 syscall_entry_read fd=7 count=100
9_200 0 syscall_exit_read ret=5
10_000 0 syscall_entry_socket family=2 type=2049
10_100 0 syscall_exit_socket ret=8
10_200 0 syscall_entry_connect fd=8 family=2 v4addr=[10,0,0,8] dport=80
10_300 0 syscall_exit_connect ret=-115
12_000 0 syscall_entry_write fd=8 count=6
12_200 0 syscall_exit_write ret=6
13_000 0 syscall_entry_socket family=2 type=1
13_100 0 syscall_exit_socket ret=9
13_200 0 syscall_entry_connect fd=9 family=2 v4addr=[10,0,0,9] dport=80
13_300 0 syscall_exit_connect ret=-111
14_000 0 net_if_receive_skb name=eth0 len=1500
14_100 0 net_dev_xmit name=eth0 len=60
TRACE
  run nettop --mi | json '
r = {x[0]["value"]: [c and c["value"] for c in x[1:]] for x in rows("per-peer")}
assert r["10.0.0.7:53"] == [150, 40, 0, 1, 0, 500, 500, 1, 3000, 3000], r
assert r["10.0.0.1:4000"] == [5, 0, 1, 0, 0, None, None, 0, None, None], r
assert r["10.0.0.8:80"] == [0, 6, 0, 1, 0, 2000, 2000, 0, None, None], r
assert r["10.0.0.9:80"] == [0, 0, 0, 0, 1, None, None, 0, None, None], r
assert [[c.get("value", c.get("name")) for c in x] for x in rows("per-iface")] == [["eth0", 1500, 1, 60, 1]], rows("per-iface")'
}

numbers_over_time() {
  { echo "100 0 lttng_statedump_block_device dev=8 diskname=sda"
    echo "200 0 rutile_statedump_cgroup tid=10 cgroup_id=5 path=/web"
    SW 1_000_000_000 0 0 0 10
    for i in 1 2 3 4; do
      echo "1_${i}00_000_000 0 syscall_entry_read fd=3 count=8"; echo "1_${i}00_010_000 0 syscall_exit_read ret=100"
    done
    echo "1_500_000_000 0 syscall_entry_read fd=3 count=8"; echo "1_500_010_000 0 syscall_exit_read ret=-11"
    echo "1_600_000_000 0 block_rq_issue dev=8 sector=1 nr_sector=8 tid=10 rwbs=4"
    echo "1_800_000_000 0 block_rq_complete dev=8 sector=1 nr_sector=8"
    SW 2_000_000_000 0 10 1 0
    SW 2_900_000_000 0 0 0 20
    SW 3_000_000_000 0 20 1 0; } | mk
  series() {
    run series "$@" >out.csv
    python3 - "$key" <<'END'
import csv, sys
rows = list(csv.DictReader(open("out.csv")))
for r in rows:
    if r["key"] == sys.argv[1]:
        print(r["begin"], r["metric"], float(r["value"]))
END
  }
  key=all series --begin 1000000000 >got
  grep -qx '1.000000000 cpus_used 1.0' got
  grep -qx '1.000000000 syscalls_per_s 5.0' got
  grep -qx '1.000000000 errors_per_s 1.0' got
  grep -qx '1.000000000 read_bytes_per_s 400.0' got
  grep -qx '1.000000000 queue_depth 0.2' got
  grep -qx '2.000000000 cpus_used 0.1' got
  # Histograms are at most 1.6 % off.
  python3 -c '
v = [float(l.split()[2]) for l in open("got") if " syscall_p50_us " in l]
assert len(v) == 1 and abs(v[0] - 10) < 0.16, v'
  key=/web series --by cgroup --begin 1000000000 >got
  grep -qx '1.000000000 cpus_used 1.0' got
  key="t10 (10)" series --by process --begin 1000000000 >got
  grep -qx '1.000000000 syscalls_per_s 5.0' got
  key=sda series --by disk --begin 1000000000 >got
  grep -qx '1.000000000 read_bytes_per_s 4096.0' got
  key=0 series --by cpu -r 500ms --begin 1000000000 >got
  grep -qx '1.000000000 syscalls_per_s 10.0' got || grep -qx '1.000000000 syscalls_per_s 8.0' got
  run series --mi --begin 1000000000 | json 'assert len(results) == 2 and results[0]["data"][0][2]["value"] == "cpus_used", results[0]'
  run series --by nothing 2>err && return 1
  grep -q nothing err
}

# Two CPUs, three threads of two processes in two control groups; on the second CPU the group runs at the same time.
threads_are_put_together() {
  { echo "10 0 lttng_statedump_process_state tid=10 pid=10 name=web"; echo "20 0 lttng_statedump_process_state tid=11 pid=10 name=pool"
    echo "30 0 lttng_statedump_process_state tid=20 pid=20 name=db"
    for tid in 10 11; do echo "40 0 rutile_statedump_cgroup tid=$tid cgroup_id=5 path=/web"; done
    echo "60 0 rutile_statedump_cgroup tid=20 cgroup_id=6 path=/db"
    SW 1_000 0 0 0 10; SW 1_000 1 0 0 11
    for cpu in 0 1; do
      echo "1_100 $cpu syscall_entry_getpid"; echo "1_200 $cpu syscall_exit_getpid ret=10"
      echo "1_300 $cpu kmem_mm_page_alloc page=1 order=0"
    done
    SW 4_000 0 10 1 20; SW 6_000 1 11 1 0; WAKE 7_000 0 11; SW 7_500 1 0 0 11
    echo "8_000 0 syscall_entry_getpid"; echo "8_300 0 syscall_exit_getpid ret=20"
    SW 9_000 0 20 1 0; SW 11_000 1 11 1 0; } >made.txt
  mk <made.txt
  set -- --begin 1000 --mi
  run cputop "$@" --by cgroup | json '
# 3000 + 5000 + 3500 ns of 10,000, and 5000.
assert {r[0]["name"]: r[3]["value"] for r in rows("per-process")} == {"/web": 1.15, "/db": 0.5}, results
assert all("tid" not in r[0] for r in rows("per-process")), results'
  run cputop "$@" --by process | json '
assert {(r[0]["name"], r[0]["tid"]): r[3]["value"] for r in rows("per-process")} == {("t10", 10): 1.15, ("t20", 20): 0.5} or \
    {r[0]["tid"]: r[3]["value"] for r in rows("per-process")} == {10: 1.15, 20: 0.5}, results'
  run syscallstats "$@" --by cgroup | json '
assert {r[0]["name"]: r[1]["value"] for r in rows("total")} == {"/web": 2, "/db": 1}, results'
  run memtop "$@" --by cgroup | json '
assert {r[0]["name"]: r[1]["value"] for r in rows("allocd")} == {"/web": 2}, results'
  run schedstats "$@" --by cgroup | json '
assert [(r[0]["name"], r[1]["value"]) for r in rows("per_tid_stats")] == [("/web", 1)], results'
  run schedlog "$@" --stats --by cgroup | json '
assert [r[0]["name"] for r in rows("per_tid_stats")] == ["/web"], results'
  # Each reads 10 and 20 bytes, waits for a lock once, and the database's reads are of a disk, too.
  { cat made.txt
    for line in '2_000 0 10' '2_000 1 20' '8_400 0 30'; do
      # shellcheck disable=SC2086
      set -- $line
      t=$(echo "$1" | tr -d _)
      echo "$t $2 syscall_entry_read fd=5 count=$3"; echo "$((t + 10)) $2 syscall_exit_read ret=$3"
      echo "$((t + 20)) $2 syscall_entry_futex uaddr=4096 op=0"; echo "$((t + 50)) $2 syscall_exit_futex ret=0"
    done
    echo "8_500 0 block_rq_issue dev=8 sector=1 nr_sector=8 tid=20 rwbs=4"
    echo "8_600 0 block_rq_complete dev=8 sector=1 nr_sector=8"
    echo "8_700 0 block_rq_issue dev=8 sector=1 nr_sector=16 tid=20 rwbs=2"
    echo "8_800 0 block_rq_complete dev=8 sector=1 nr_sector=16"; } | mk more
  mv trace few; mv more trace
  set -- --begin 1000 --mi
  run iousagetop "$@" --by cgroup | json '
got = {r[0]["name"]: r[1]["value"] for r in rows("Per-process top I/O operations [read]")}
assert got == {"/web": 30, "/db": 30}, got
assert [(r[0]["name"], r[1]["value"]) for r in rows("Per-process top block I/O operations [read]")] == [("/db", 4096)]
assert [(r[2]["name"], r[4]["value"]) for r in rows("per-disk-no-data")] == [("/db", 8192)]
assert all("tid" not in r[0] and "pid" not in r[0] for r in rows("Per-process top I/O operations [read]"))'
  run iousagetop "$@" --by process | json '
got = {r[0]["tid"]: r[1]["value"] for r in rows("Per-process top I/O operations [read]")}
assert got == {10: 30, 20: 30}, got'
  run iousagetop --begin 1000 --by cgroup >out
  for name in /web /db; do
    grep -Eq "^█+ 30 +B $name +0 +B +0 +B +30 +B\$" out
  done
  not grep -q 'tid=' out
  rc=0; run iolatencytop --begin 1000 --by cgroup >out 2>err || rc=$?
  [ $rc = 2 ] && grep -q 'only with --usage' err
  run futexstats "$@" --by cgroup | json '
assert {r[0]["name"]: r[1]["value"] for r in rows("per-tid")} == {"/web": 2, "/db": 1}, results'
  mv trace more; mv few trace
  for line in schedlog schedtop 'schedstats --total'; do
    # shellcheck disable=SC2086 # words
    rc=0; run $line --begin 1000 --by cgroup >out 2>err || rc=$?
    [ $rc = 2 ] && grep -q 'by cgroup puts rows of threads together: add --stats or --freq' err
  done
  run offcpu "$@" --by cgroup | json '
assert {r[0]["name"] for r in rows("per-tid")} == {"/web", "/db"}, results'
  run cputop --begin 1000 --by cgroup >out
  grep -q '/web  *0 ' out
  run cputop --begin 1000 --by disk 2>err && return 1
  grep -q 'process and cgroup' err
}

# steps NAME WHAT SEED: 12 s of a thread that reads at random times; from 7 s on WHAT (slow, rate, errors, none) is so.
steps() {
  python3 - "$2" "$3" <<'END' | mk "$1"
import random, sys
what, seed = sys.argv[1], int(sys.argv[2])
random.seed(seed)
t = 1_000_000_000
print(f"{t} 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=app next_tid=10 next_prio=20")
while t < 13_000_000_000:
    on = t >= 8_000_000_000
    t += int(random.expovariate(1 / (1e6 if what == "rate" and on else 4e6)))
    print(f"{t} 0 syscall_entry_read fd=3 count=100")
    t += int(random.lognormvariate(11, 0.7) * (3 if what == "slow" and on else 1))
    print(f"{t} 0 syscall_exit_read ret={-5 if what == 'errors' and on and random.random() < 0.5 else 100}")
END
}

changes_are_found() {
  steps trace slow 1
  run changes --mi | json '
got = rows("changes")
assert len(got) == 1, got
time, kind, who, what, measure, before, after, p = [c and c.get("value") for c in got[0]]
assert (kind, who, what, measure) == ("system call", "app", "read", "duration (us)"), got
assert abs(time - 8_000_000_000) < 200_000_000, time
assert 2.5 < after / before < 3.5 and p < 1e-6, got'
  run changes | grep -q '^  system call  *app  *read  *duration (us) .* x '
  steps trace rate 2
  run changes --mi | json '
got = {(c[1]["value"], c[4]["value"]): c for c in rows("changes")}
assert set(got) == {("system call", "per second"), ("system calls", "per second"), ("read", "bytes/s")}, got
assert all(3 < c[6]["value"] / c[5]["value"] < 5 and abs(c[0]["value"] - 8e9) < 2e8 for c in got.values()), got'
  steps trace errors 3
  run changes --mi --limit 1 | json '
got = rows("changes")
assert len(got) == 1 and got[0][1]["value"] == "errors" and got[0][5]["value"] == 0, got'
  steps trace none 4
  run changes | grep -qx 'No change of level.'
  run changes --by disk 2>err && return 1
  grep -q 'process and cgroup' err
}

compare() {
  "$RUTILE" diff --skip-validation --no-intersection --gmt "$@"
}

# calls_for US NAME: a call every 10 us.
calls_for() {
  for ((t = 1000000; t < 1000000 + $1; t += 10)); do
    echo "${t}_000 0 syscall_entry_read fd=3 count=100"; echo "${t}_500 0 syscall_exit_read ret=100"
  done | { SW 999_999_000 0 0 0 10; cat; } | mk "$2"
}

two_traces_are_compared() {
  steps a none 5
  steps b none 6
  steps slow slow 7
  steps rate rate 8
  compare --mi a b | json 'assert not results, results'
  compare --mi a slow | json '
assert [t["class"] for t in results] == ["times"], results
got = rows("times")
kind, who, what, mean_a, mean_b, typical, time_a, time_b, share, p = [c["value"] for c in got[0]]
assert len(got) == 1 and (kind, who, what) == ("system call", "app", "read"), got
assert 1.3 < typical < 2.1 and mean_b > mean_a and time_b > time_a and share == 1 and p < 0.01, got'
  compare --mi a rate | json '
got = {c[0]["value"]: c for c in rows("rates")}
assert set(got) == {"system call", "system calls", "read"} and not rows("times"), results
assert all(1.5 < c[4]["value"] / c[3]["value"] < 3 for c in got.values()), got'
  # Two intervals of one trace, and of two.
  half='[1970-01-01 00:00:01,1970-01-01 00:00:07]'
  other='[1970-01-01 00:00:08.5,1970-01-01 00:00:13]'
  compare --a "$half" --b "$other" slow >out
  grep -Eq '^system call  *app  *read .* x (2\.[5-9]|3(\.[0-4]|\b))' out
  compare --a "$half" --b "$half" a slow >out
  [ "$(grep -cx 'No significant difference.' out)" = 2 ]
  compare --a "$half" --b '[1970-01-01 00:00:08.5,1970-01-01 00:00:08.6]' slow >out
  grep -Eqx 'Too short to compare: [0-9]+ parts of A, [0-3] of B\.' out
  # Parts have 2^17 ns at least. With 4 on each side the least probability is 2 of 70, with 7 it is 2 of 3,432,
  # times the number of comparisons.
  calls_for 600 four
  compare four four >out
  grep -qx 'Too short to compare: 4 parts of A, 4 of B.' out
  grep -q 'No significant' out && return 1
  compare --mi four four | json '
assert [t["class"] for t in results] == ["too-short"] and [c["value"] for c in rows("too-short")[0]] == [4, 4], results'
  calls_for 1000 seven
  compare seven seven >out
  [ "$(grep -cx 'No significant difference.' out)" = 2 ]
  for line in 'a' 'a b slow' '-r 1s a b' '--by cpu a b'; do
    # shellcheck disable=SC2086 # words
    rc=0; compare $line 2>err || rc=$?
    [ $rc = 2 ] || { echo "$line: $rc"; return 1; }
  done
}

filters_work_on_every_analysis() {
  { echo "$SWITCH"
    echo "1_000 1 sched_switch prev_comm=swapper/1 prev_tid=0 prev_prio=20 prev_state=0 next_comm=other next_tid=20 next_prio=20"
    for c in 0 1; do
      echo "2_000 $c syscall_entry_openat filename=f flags=0"; echo "2_500 $c syscall_exit_openat ret=5"
      echo "3_000 $c irq_handler_entry irq=4 name=x"; echo "3_500 $c irq_handler_exit irq=4 ret=1"
    done; } | mk
  for opt in "--cpu 1" "--tid 20" "--pid 20" "--procname other"; do
    # shellcheck disable=SC2086 # two words
    [ "$(run iolog $opt | grep -c openat)" = 1 ]
    # shellcheck disable=SC2086
    [ "$(run syscallstats $opt | awk '/^Total syscalls/ { print $3 }')" = 1 ]
    # shellcheck disable=SC2086
    [ "$(run irqlog $opt | grep -c ' IRQ ')" = 1 ]
  done
}

# The bars give way to what stands beside them; where there is no terminal they are 80 wide.
graphs_are_as_wide_as_the_terminal() {
  command -v script >/dev/null || t_skip "script is not installed"
  { echo "$SWITCH"; echo "2_000 0 sched_switch prev_comm=app prev_tid=10 prev_prio=20 prev_state=0 next_comm=b next_tid=11 next_prio=20"
    echo "9_000 0 sched_switch prev_comm=b prev_tid=11 prev_prio=20 prev_state=0 next_comm=app next_tid=10 next_prio=20"; } | mk
  [ "$(run cputop | grep -c '^#\{80\}$')" = 2 ]
  for columns in 80 100 200; do
    script -qec "stty cols $columns; '$RUTILE' cputop --no-progress trace" out </dev/null >/dev/null
    python3 - "$columns" <<'PYTHON'
import sys
lines = [line.rstrip("\r\n") for line in open("out", encoding="utf-8")]
bars = [len(line) for line in lines if "█" in line]
assert bars and max(bars) == int(sys.argv[1]), (bars, lines)
PYTHON
  done
}

distributions_in_log_scale() {
  { echo "$SWITCH"
    for i in 1 10 100 1000; do
      echo "${i}000000 0 syscall_entry_openat filename=f flags=0"
      echo "$((i * 1000000 + i * 1000)) 0 syscall_exit_openat ret=5"
    done; } | mk
  run iolatencyfreq --freq-log --freq-resolution 3 --mi | json '
r = [x for x in rows("freq") if x]
assert [round(x[0]["value"]) for x in r] == [1000, 10000, 100000], r
assert [x[2]["value"] for x in r] == [1, 1, 2], r'
}

percentiles_are_close() {
  { echo "$SWITCH"
    i=1
    while [ $i -le 1000 ]; do
      echo "${i}000000 0 syscall_entry_openat filename=f flags=0"
      echo "$((i * 1000000 + i * 100)) 0 syscall_exit_openat ret=-2"
      i=$((i + 1))
    done; } | mk
  run iolatencystats --percentiles --mi | json '
r = [x for x in rows("percentiles") if x[0]["value"] == "open"][0]
for cell, want in zip(r[2:], (50000, 90000, 99000, 99900)):
    assert abs(cell["value"] - want) <= want * 0.016, (cell, want)'
}

# Intervals and periods begin in the middle of things: the running thread is known from before.
what_runs_when_a_stretch_begins_counts() {
  mk <<'TRACE'
1_000 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=app next_tid=10 next_prio=20
1_000 1 sched_switch prev_comm=db prev_tid=20 prev_prio=20 prev_state=1 next_comm=swapper/1 next_tid=0 next_prio=20
2_000 0 mark n=1
3_000 0 mark n=2
4_000 0 mark n=3
4_500 1 sched_switch prev_comm=swapper/1 prev_tid=0 prev_prio=20 prev_state=0 next_comm=db next_tid=20 next_prio=20
5_000 0 mark n=4
TRACE
  { run cputop --refresh 1us; run cputop --begin 2000 --end 4000; run cputop --timerange '[2000,3000]'
    run cputop --period 'p : $evt.$name == "mark" && $evt.n == 2 : $evt.$name == "mark" && $evt.n == 4'; } |
    grep -o 'app (10)\|db (20)\|[0-9.]* %.*CPU [01]\|Total.*\|[0-9.]* % *swapper' >out || true
  cat out
  # Half of what two CPUs can do, once three quarters.
  for want in "100.00 % CPU 0" "0.00 % CPU 1" "50.00 % CPU 1" "25.00 % CPU 1" "Total CPU Usage: 50.00%" \
    "Total CPU Usage: 75.00%" "Total CPU Usage: 62.50%"; do
    grep -qx "$want" out || { echo "missing: $want"; return 1; }
  done
  grep -v '^0.00' out >rest
  not grep swapper rest
  run cputop --refresh 1us --mi | json '
assert [round(r[1]["value"], 6) for r in rows("summary")] == [0.5, 0.5, 0.5, 0.75, 0], results'
}

cputop_shows_the_threads_asked_for() {
  mk <<'TRACE'
1_000 0 sched_switch prev_comm=db prev_tid=20 prev_prio=20 prev_state=1 next_comm=app next_tid=10 next_prio=20
2_000 0 sched_switch prev_comm=app prev_tid=10 prev_prio=20 prev_state=1 next_comm=db next_tid=20 next_prio=20
3_000 0 sched_switch prev_comm=db prev_tid=20 prev_prio=20 prev_state=1 next_comm=swapper/0 next_tid=0 next_prio=20
5_000 0 mark n=1
TRACE
  for o in '--tid 10' '--procname app'; do
    # shellcheck disable=SC2086 # an option and its value
    run cputop $o --mi | json '
assert [(x[0]["tid"], x[3]["value"]) for x in rows("per-process")] == [(10, 0.25)], rows("per-process")'
  done
}

json_of_intervals_has_all_tables() {
  { echo "$SWITCH"
    for i in 1 2 3; do
      echo "$((i * 1000000000)) 0 syscall_entry_read fd=3 count=10"; echo "$((i * 1000000000 + 10)) 0 syscall_exit_read ret=$i"
      echo "$((i * 1000000000 + 20)) 0 irq_handler_entry irq=7 name=eth"; echo "$((i * 1000000000 + 30)) 0 irq_handler_exit irq=7 ret=1"
    done; } | mk
  run iousagetop -r 1s --mi | json 'assert [r[1]["value"] for r in rows("Per-process top I/O operations [read]")] == [1, 2, 3], results'
  run iolog -r 1s --mi | json 'assert len(rows("log")) == 3, results'
  run irqlog -r 1s --mi | json 'assert len(rows("log")) == 3, results'
  run irqstats -r 1s --mi | json 'assert len(rows("summary")) == 3, results'
}

# A report that did not get out is a failure, and that nothing was there is said.
what_cannot_be_written_is_told() {
  echo "$SWITCH" | mk
  for verb in cputop 'cputop --mi' iolog report 'iolog --metadata'; do
    rc=0
    # shellcheck disable=SC2086 # a verb and its options
    "$RUTILE" $verb trace >/dev/full 2>err || rc=$?
    cat err
    [ "$rc" = 1 ]
    grep -q 'cannot write.*No space left' err
  done
  run cputop --begin 9000 2>err
  cat err
  grep -q 'no event in this time range' err
  rc=0
  run cputop --begin 9000 --end 8000 2>err || rc=$?
  cat err
  [ "$rc" = 1 ]
  grep -q 'end of the time range is before its beginning' err
}

# Names of processes and files come from others: control characters must not reach the terminal.
control_characters_reach_no_terminal() {
  esc=$(printf '\033')
  mk <<TRACE
1_000 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm="é${esc}[31m" next_tid=10 next_prio=20
2_000 0 syscall_entry_openat filename="/tmp/é$esc]0;x$(printf '\a')" flags=0
3_000 0 syscall_exit_openat ret=4
4_000 0 syscall_entry_read fd=4 count=10
5_000 0 syscall_exit_read ret=10
TRACE
  for verb in cputop iolog iousagetop syscallstats report; do
    LC_ALL=C "$RUTILE" $verb --no-intersection trace >out
    ! grep -a "$esc" out || { cat -v out; return 1; }
    grep -qF 'é\x1b[31m' out || { cat -v out; return 1; }
  done
  run iolog | grep -qF '/tmp/é\x1b]0;x\x07 (fd=4)'
  run iolog --mi | json "assert rows('log')[1][6]['path'] == '/tmp/é\x1b]0;x\x07', rows('log')"
}

# A bare time needs a date when the trace spans several days, which depends on the zone.
days_are_those_of_the_zone() {
  { echo "86399_000_000_000 0 tick n=1"; echo "86401_000_000_000 0 tick n=2"; } | mk # about midnight in UTC
  rc=0
  TZ=EST5 "$RUTILE" cputop --gmt --no-intersection --begin 00:00:00 trace 2>err || rc=$?
  cat err
  [ "$rc" = 1 ]
  grep -q "spans several days: '00:00:00' needs its date" err
  TZ=EST5 "$RUTILE" cputop --no-intersection --begin 19:00:00 trace | grep 'Timerange: .1970-01-01 19:00:01'
}

refresh_reports_each_interval() {
  { echo "$SWITCH"
    for i in 1 2 3 4 5; do
      echo "$((i * 1000000000)) 0 syscall_entry_getpid"; echo "$((i * 1000000000 + 10)) 0 syscall_exit_getpid ret=1"
    done; } | mk
  [ "$(run syscallstats -r 2s | grep -c ^Timerange)" = 3 ]
  run syscallstats -r 2s --mi | json 'assert len(rows("summary")) == 3, results'
}

# What no analysis asked for is passed over by the reader, but it has its place in time: the first
# and the last event, and those at which intervals change, are of kinds that cputop has no use for.
what_is_passed_over_still_has_a_time() {
  mk <<'TRACE'
1_000 0 kmem_mm_page_alloc page=1
2_000 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=app next_tid=10 next_prio=20
3_000 1 kmem_mm_page_alloc page=2
4_000 0 kmem_mm_page_alloc page=3
6_000 1 kmem_mm_page_free page=2
8_000 0 sched_switch prev_comm=app prev_tid=10 prev_prio=20 prev_state=0 next_comm=swapper/0 next_tid=0 next_prio=20
9_000 1 kmem_mm_page_alloc page=4
TRACE
  ranges() {
    run cputop "$@" | sed -n 's/^Timerange: .*0*\([0-9]\)000, .*0*\([0-9]\)000\]$/\1-\2/p'
  }
  { ranges; ranges --begin 2500 --end 7500; ranges --refresh 2us; } >out
  cat out
  printf '%s\n' 1-9 3-6 1-3 3-6 6-8 8-9 | cmp - out
  # Nothing of use at all.
  run cputop --end 1500 | grep -q '000001000, .*000001000\]'
  # The other half of the events is still readable.
  run memtop --mi | json 'assert rows("allocd")[0][1]["value"] == 1, results'
}

# reads PID: it has the trace open, so it knows the metadata.
reads() {
  grep -qs channel_0 "/proc/$1/maps" || readlink "/proc/$1"/fd/* 2>/dev/null | grep -q channel_0
}

a_growing_trace_is_followed() {
  { echo "$SWITCH"; echo "2_000 0 syscall_entry_getpid"; echo "3_000 0 syscall_exit_getpid ret=1"; } | mk
  { echo "$SWITCH"; echo "2_000 0 syscall_entry_getpid"; echo "3_000 0 syscall_exit_getpid ret=1"
    echo "4_000_000_000 0 syscall_entry_getpid"; echo "4_000_001_000 0 syscall_exit_getpid ret=1"; } | mk later
  "$RUTILE" syscallstats --skip-validation --gmt --follow --refresh 1s trace >out 2>err &
  pid=$!
  trap 'kill -KILL $pid 2>/dev/null || :' EXIT
  t_wait reads $pid
  cat later/channel_0 >>trace/channel_0
  t_wait test -s out || { cat err; return 1; }
  kill -TERM $pid 2>/dev/null || true
  wait $pid || true
  [ "$(grep -c ^Timerange out)" -ge 2 ]
}

# LTTng appends to the metadata what is enabled while a trace is followed.
metadata_that_grows_is_followed() {
  first="$SWITCH
2_000 0 syscall_entry_getpid
3_000 0 syscall_exit_getpid ret=1"
  later="4_000_000_000 0 syscall_entry_getpid
4_000_001_000 0 syscall_exit_getpid ret=1
4_000_002_000 0 syscall_entry_accept4 fd=3 flags=0
4_000_004_000 0 syscall_exit_accept4 ret=7 family=2 sport=8080 v4addr=[10,0,0,1]
4_000_005_000 0 syscall_entry_write fd=7 count=8
4_000_006_000 0 syscall_exit_write ret=8
9_000_000_000 0 syscall_entry_getpid
9_000_001_000 0 syscall_exit_getpid ret=1"
  echo "$first" | mk
  printf '%s\n%s\n' "$first" "$later" | mk later
  "$RUTILE" syscallstats --skip-validation --gmt --follow --refresh 1s trace >out 2>err &
  pid=$!
  trap 'kill -KILL $pid 2>/dev/null || :' EXIT
  t_wait reads $pid
  # A part of it, then the rest, then the data, as a tracer does.
  size=$(($(wc -c <trace/metadata) + 100))
  head -c "$size" later/metadata >trace/metadata
  sleep 0.4
  tail -c "+$((size + 1))" later/metadata >>trace/metadata
  cat later/channel_0 >>trace/channel_0 # the first events again: time runs backwards there
  t_wait grep -q accept4 out || { cat err; return 1; }
  kill -TERM $pid
  wait $pid || true
  grep -q ' - accept4  *1 ' out
  grep -q ' - write  *1 ' out
  not grep -q metadata err
}

absurd_values_hurt_nobody() {
  mk <"$SRC/tests/data/hostile-events.txt"
  for verb in report iolog iousagetop 'irqlog --tid 5' fdtop 'cputop -r 1ms --percentiles' schedlog changes 'diff trace' \
    'iolatencyfreq --freq-log' 'irqfreq --freq-uniform' 'wakeupchain 5'; do
    # shellcheck disable=SC2086 # a verb and its options
    "$RUTILE" $verb --skip-validation --no-intersection trace >out
  done
}

t_case "futexstats" futex_waits
t_case "memory does not grow with the number of forks" memory_does_not_grow_with_forks
t_case "what the trace lacks is reported" what_the_trace_lacks_is_said
t_case "LAMI is as its specification says" lami_is_as_its_specification_says
t_case "offcpu" waits_off_the_cpus
t_case "requests of periods" requests_of_periods
t_case "nettop" peers_on_the_network
t_case "series" numbers_over_time
t_case "--by puts threads together" threads_are_put_together
t_case "changes" changes_are_found
t_case "diff" two_traces_are_compared
t_case "wakeupchain" the_critical_path_goes_through_who_woke
t_case "wakeupchain says where switches are missing" missing_switches_are_unknown_time
t_case "wakeupchain says nothing untrue beside missing switches" what_is_said_beside_missing_switches_is_true
t_case "wakeupchain: an interrupted thread wakes no thread" an_interrupted_thread_wakes_nobody
t_case "wakeupchain: interrupts are causes, by name" interrupts_are_causes_by_name
t_case "wakeupchain continues through the loopback device" the_path_goes_through_loopback
t_case "wakeupchain on the shapes of Trace Compass's tests" critical_paths_of_trace_compass
t_case "fdtop" descriptors_over_time
t_case "fdtop knows what makes and ends descriptors" descriptors_of_all_kinds
t_case "graphs are as wide as the terminal" graphs_are_as_wide_as_the_terminal
t_case "--cpu --tid --pid --procname" filters_work_on_every_analysis
t_case "distributions in log scale" distributions_in_log_scale
t_case "percentiles" percentiles_are_close
t_case "--refresh" refresh_reports_each_interval
t_case "events that are passed over" what_is_passed_over_still_has_a_time
t_case "what runs when an interval begins" what_runs_when_a_stretch_begins_counts
t_case "cputop of some threads" cputop_shows_the_threads_asked_for
t_case "JSON of intervals" json_of_intervals_has_all_tables
t_case "a full disk, an empty range" what_cannot_be_written_is_told
t_case "control characters in names" control_characters_reach_no_terminal
t_case "days of the zone" days_are_those_of_the_zone
t_case "absurd values" absurd_values_hurt_nobody
t_case "--follow" a_growing_trace_is_followed
t_case "--follow, and metadata that grows" metadata_that_grows_is_followed
t_done
