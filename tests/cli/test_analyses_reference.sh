#!/bin/bash
# SPDX-License-Identifier: MIT
# Traces made by hand, with known answers: where what we print is not what lttng-analyses prints (docs/analyses.md).
. "$SRC/tests/tap.sh"
. "$SRC/tests/made.sh"

# A thread of which a wakeup was seen first, and then a migration, which has its name.
a_migration_names_its_thread() {
  { echo "100 0 sched_wakeup comm=late tid=20 prio=20 target_cpu=1"
    echo "200 0 sched_migrate_task comm=late tid=20 prio=20 orig_cpu=0 dest_cpu=1"
    echo "$SWITCH"
    SW 9_000 0 10 1 0; } | mk
  run cputop --mi | json '
r = {x[0]["tid"]: (x[0]["name"], x[1]["value"]) for x in rows("per-process")}
assert r[20] == ("late", 1), r'
}

# A thread has one name in every report: the last one, whether an exec, prctl() or another process gave it.
# 20 is a thread of the process 10, and forks 30, which executes and then calls itself otherwise.
names_are_the_last_everywhere() {
  S=sched_switch
  {
    echo "100 0 lttng_statedump_process_state tid=10 vtid=10 pid=10 vpid=10 ppid=1 vppid=1 name=main type=0 mode=5 submode=0 status=5"
    echo "110 0 lttng_statedump_process_state tid=20 vtid=20 pid=10 vpid=10 ppid=1 vppid=1 name=pool type=0 mode=5 submode=0 status=5"
    echo "120 0 lttng_statedump_file_descriptor pid=10 fd=4 filename=/a flags=0"
    work 1000 swapper/0 0 main 10
    work 2000 main 10 pool 20
    echo "2900 0 sched_process_fork parent_comm=pool parent_tid=20 parent_pid=10 child_comm=pool child_tid=30 child_pid=30"
    work 3000 pool 20 pool 30
    echo "3900 0 sched_process_exec filename=/opt/a-name-longer-than-15 tid=30 old_tid=30"
    work 4000 a-name-longer-t 30 main 10
    work 5000 main 10 a-name-longer-t 30
    # It has renamed itself while it ran; the main thread was renamed while it slept.
    work 6000 chosen 30 renamed 10
    echo "7000 0 $S prev_comm=renamed prev_tid=10 prev_prio=20 prev_state=1 next_comm=swapper/0 next_tid=0 next_prio=20"
  } | mk
  for verb in cputop memtop syscallstats iousagetop schedtop fdtop futexstats offcpu nettop; do
    run $verb --mi | json '
want = {10: "renamed", 20: "pool", 30: "chosen"}
seen = set()
for t in results:
    for c in (c for r in t["data"] for c in r if isinstance(c, dict) and c.get("class") == "process"):
        number = c.get("tid", c.get("pid"))
        if number:
            seen.add(number)
            assert c.get("name") == want[number], (sys.argv[1], c)
least = {"fdtop": {10, 30}, "nettop": set()}.get(sys.argv[1], {10, 20, 30})
assert seen >= least, (sys.argv[1], seen)' $verb
  done
  # The texts have no second name, either.
  for verb in cputop memtop syscallstats iousagetop; do
    run $verb >out
    not grep -Eq 'main|longer' out
  done
}

work() { # TIME PREV TID NEXT TID
  echo "$(($1 - 50)) 0 sched_wakeup comm=$4 tid=$5 prio=20 target_cpu=0"
  echo "$1 0 sched_switch prev_comm=$2 prev_tid=$3 prev_prio=20 prev_state=1 next_comm=$4 next_tid=$5 next_prio=20"
  echo "$(($1 + 100)) 0 syscall_entry_read fd=4 count=10"
  echo "$(($1 + 200)) 0 syscall_exit_read ret=10"
  echo "$(($1 + 300)) 0 kmem_mm_page_alloc page=1 order=0"
  echo "$(($1 + 400)) 0 kmem_mm_page_free page=1 order=0"
  echo "$(($1 + 500)) 0 syscall_entry_futex uaddr=4096 op=0 val=1 utime=0 uaddr2=0 val3=0"
  echo "$(($1 + 600)) 0 syscall_exit_futex ret=0"
}

# Of the leader's process another thread executes: it goes on under the leader's TID, on its CPU.
an_exec_of_a_thread_takes_the_tid() {
  {
    SW 1_000 0 0 0 10
    SW 2_000 0 10 64 20
    echo "5_000 0 sched_process_exec filename=/bin/new tid=10 old_tid=20"
    echo "9_000 0 sched_switch prev_comm=new prev_tid=10 prev_prio=20 prev_state=1 next_comm=swapper/0 next_tid=0 next_prio=20"
    echo "11_000 0 tick n=1"
  } | mk
  run cputop --mi | json '
r = {x[0]["tid"]: (x[0]["name"], round(x[3]["value"], 9)) for x in rows("per-process")}
assert r[10] == ("new", 0.5) and r[20] == ("t20", 0.3), r
assert round(rows("per-cpu")[0][1]["value"], 9) == 0.8, rows("per-cpu")'
}

# Known from a statedump, a wakeup or a migration before the row is made: no change of it need follow.
priorities_known_before_are_listed() {
  { echo "50 0 lttng_statedump_process_state tid=30 pid=30 name=dumped prio=10"
    echo "100 0 sched_wakeup comm=moved tid=20 prio=25 target_cpu=1"
    echo "200 0 sched_migrate_task comm=moved tid=20 prio=25 orig_cpu=0 dest_cpu=1"
    echo "500 1 sched_switch prev_comm=dumped prev_tid=30 prev_prio=10 prev_state=1 next_comm=swapper/1 next_tid=0 next_prio=20"
    echo "$SWITCH"
    echo "2_000 0 sched_migrate_task comm=new tid=40 prio=19 orig_cpu=0 dest_cpu=1"
    SW 9_000 0 10 1 0; } | mk
  run cputop --mi | json '
r = {x[0]["tid"]: x[2]["value"] for x in rows("per-process")}
assert r == {10: "[20]", 20: "[25]", 30: "[10]", 40: "[19]", 0: "[]"}, r'
}

# An interrupt that began in the interval before.
interrupts_of_intervals_have_their_name() {
  mk <<TRACE
$SWITCH
1_000_001_000 0 irq_handler_entry irq=4 name=x
1_000_002_000 0 irq_handler_exit irq=4 ret=1
1_900_000_000 0 irq_handler_entry irq=4 name=x
2_000_001_000 1 tick n=1
2_000_002_000 0 irq_handler_exit irq=4 ret=1
2_500_000_000 0 irq_handler_entry irq=4 name=x
2_600_000_000 0 irq_handler_exit irq=4 ret=1
4_000_000_000 0 tick n=1
TRACE
  for verb in irqstats irqlog; do
    run $verb -r 1s >out
    cat out
    not grep unknown out
  done
  run irqstats -r 1s | grep -Eq '^4: +<x> +2 '
}

the_tree_of_periods_is_printed_once() {
  mk <<'TRACE'
1_000 0 go v=1
9_000 0 stop v=1
TRACE
  set --
  for name in a 'b(a)' 'c(a)' 'd(b)' 'e'; do
    set -- "$@" --period "$name : \$evt.\$name == \"go\" : \$evt.\$name == \"stop\""
  done
  run periodstats "$@" | sed -n '/^Period tree/,/^$/p' >out
  printf '%s\n' 'Period tree:' a '|-- b' '    |-- d' '|-- c' e '' | diff - out
}

IO="$SWITCH
1_000 1 sched_switch prev_comm=swapper/1 prev_tid=0 prev_prio=20 prev_state=0 next_comm=other next_tid=11 next_prio=20
3_000 0 syscall_entry_read fd=5 count=10
4_000 0 syscall_exit_read ret=10
10_000 0 syscall_entry_read fd=5 count=10
25_000 0 syscall_exit_read ret=10
3_000 1 syscall_entry_write fd=5 count=20
8_000 1 syscall_exit_write ret=20
41_000 1 syscall_entry_write fd=5 count=20
41_400 1 syscall_exit_write ret=20"

# One scale for all: from 0.4 us to 15 us in two parts.
distributions_of_io_are_uniform() {
  echo "$IO" | mk
  run iolatencyfreq --freq-uniform --freq-resolution 2 --mi | json '
got = {t["class"]["title"].split()[-1].strip("[]"): [[c["value"] for c in r] for r in t["data"]] for t in results}
assert got["read"] == [[400, 7700, 1], [7700, 15000, 1]] and got["write"] == [[400, 7700, 2], [7700, 15000, 0]], got'
}

io_of_one_cpu() {
  echo "$IO" | mk
  for cpu in 0 1; do
    run iolatencystats --cpu $cpu --mi 2>err | json '
r = {x[0]["value"].lower(): x[1]["value"] for t in results for x in t["data"]}
want = {"0": (2, 0), "1": (0, 2)}[sys.argv[1]]
assert (r["read"], r["write"]) == want, r' $cpu
    run iousagetop --cpu $cpu --mi 2>>err | json '
got = [sum(r[1]["value"] for r in rows("Per-process top I/O operations [%s]" % w)) for w in ("read", "written")]
assert got == {"0": [20, 0], "1": [0, 40]}[sys.argv[1]], got' $cpu
    [ ! -s err ]
  done
}

# The files of one stream, of which each begins when the one before is full: they are no streams that do not overlap.
files_of_a_stream_are_one_stream() {
  for i in 0 1 2; do
    { echo instances; SW ${i}1_000 0 0 0 10; SW ${i}5_000 0 10 1 0; } | mk part$i
  done
  mkdir trace
  cp part0/metadata trace
  for i in 0 1 2; do cp part$i/channel_0 trace/channel_0_$i; done
  "$RUTILE" cputop --skip-validation --gmt --mi trace | json '
r = {x[0]["tid"]: x[3]["value"] for x in rows("per-process")}
assert abs(r[10] - 12 / 24) < 1e-9, r'
  # Without the number of the stream in each packet they are several streams, as in the reference.
  rm -r trace part?
  for i in 0 1; do { SW ${i}1_000 0 0 0 10; SW ${i}5_000 0 10 1 0; } | mk part$i; done
  mkdir trace
  cp part0/metadata trace
  for i in 0 1; do cp part$i/channel_0 trace/channel_0_$i; done
  rc=0
  "$RUTILE" cputop trace 2>err || rc=$?
  [ "$rc" = 1 ]
  grep -q 'Use --no-intersection' err
}

# No flags in its statedump, and no PIDs in its forks.
traces_of_lttng_2_1() {
  mk <<'TRACE'
env tracer_major=2 tracer_minor=1 tracer_patchlevel=0
100 0 lttng_statedump_process_state tid=10 vtid=10 pid=10 vpid=10 ppid=1 vppid=1 name=app type=0 mode=5 submode=0 status=5
200 0 lttng_statedump_file_descriptor pid=10 fd=4 filename=/var/log/a
1_000 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=app next_tid=10 next_prio=20
3_500 0 sched_process_fork parent_comm=app parent_tid=10 child_comm=app child_tid=11
3_600 0 sched_switch prev_comm=app prev_tid=10 prev_prio=20 prev_state=1 next_comm=app next_tid=11 next_prio=20
4_000 0 sys_read fd=4 count=10
6_000 0 exit_syscall ret=10
TRACE
  run iousagetop --mi | json '
r = [(x[0]["path"], x[1]["value"]) for x in rows("Per-file top I/O operations [read]")]
assert r == [("/var/log/a", 10)], r
p = [(x[0]["tid"], x[0].get("pid"), x[1]["value"]) for x in rows("Per-process top I/O operations [read]") if x[1]["value"]]
assert p == [(11, None, 10)], p'
  run fdtop --mi | json '
r = {x[0].get("pid") or x[0]["tid"]: [c["value"] for c in x[1:]] for x in rows("per-process")}
assert 0 not in r and r[10][:2] == [1, 1] and r[11][-1] == 0, r'
}

# Numbers that a float does not hold, of a clock that is no one of nanoseconds.
clocks_of_any_frequency() {
  { echo "3 0 tick n=1"; echo "9_007_199_254_740_993 0 tick n=2"; } | mk
  sed -i 's/freq = 1000000000/freq = 1000000/; s/offset = 0/offset_s = 5; offset = 250000/' trace/metadata
  run cputop 2>/dev/null >out
  cat out
  grep -qF '[1970-01-01 00:00:05.250003000, 2255-06-05 23:47:39.990993000]' out
}

calls_that_only_we_count() {
  mk <<TRACE
$SWITCH
2_000 0 syscall_entry_creat filename=/a mode=0
2_100 0 syscall_exit_creat ret=3
2_200 0 syscall_entry_openat2 dfd=0 filename=/b how=0 usize=24
2_300 0 syscall_exit_openat2 ret=4
2_400 0 syscall_entry_pwritev2 fd=3 vlen=1
2_500 0 syscall_exit_pwritev2 ret=70
2_600 0 syscall_entry_preadv2 fd=4 vlen=1
2_700 0 syscall_exit_preadv2 ret=80
2_800 0 compat_syscall_entry_read fd=4 count=100
2_900 0 compat_syscall_exit_read ret=9
3_000 0 syscall_entry_io_uring_enter fd=9 to_submit=1 min_complete=1 flags=1
3_100 0 syscall_exit_io_uring_enter ret=1
3_200 0 syscall_entry_sendfile64 in_fd=4 out_fd=3 count=1000
3_300 0 syscall_exit_sendfile64 ret=1000
TRACE
  # io_uring_enter() may do both.
  run iolatencystats --mi | json '
r = {x[0]["value"].lower(): x[1]["value"] for t in results for x in t["data"]}
assert (r["open"], r["read"], r["write"]) == (2, 3, 2), r'
  run iousagetop --mi | json '
r = {x[0]["path"]: x[1]["value"] for w in ("read", "written") for x in rows("Per-file top I/O operations [%s]" % w)}
assert r == {"/a": 70, "/b": 89}, r'
  run iousagetop --splice --mi | json '
r = {x[0]["path"]: x[1]["value"] for w in ("read", "written") for x in rows("Per-file top I/O operations [%s]" % w)}
assert r == {"/a": 1070, "/b": 1089}, r'
}

# Only reads and writes move data. Bits as LTTng records them: a flush that belongs to a write, a discard with SYNC,
# one that erases, zeroes (no bit).
discards_are_no_reads() {
  {
    echo "env tracer_name=lttng-modules"
    echo "$SWITCH"
    echo "1_500 0 lttng_statedump_block_device dev=8 diskname=sda"
    t=2000 s=0
    for rq in '4 8 10' '36 16 10' '1 32 10' '289 64 10' '2 1024 10' '34 512 11' '130 2048 10' '0 4096 10' '2 1024 11'; do
      # shellcheck disable=SC2086
      set -- $rq
      s=$((s + 10000)) t=$((t + 1000))
      echo "$t 0 block_rq_issue dev=8 sector=$s nr_sector=$2 tid=$3 rwbs=$1"
      echo "$((t + $1 + 100)) 0 block_rq_complete dev=8 sector=$s nr_sector=$2"
    done
    echo "20_000 0 tick n=1"
  } | mk
  run iousagetop --mi | json '
by = {w: [(r[0]["tid"], r[1]["value"]) for r in rows("Per-process top block I/O operations [%s]" % w)] for w in ("read", "written")}
assert by == {"read": [(10, 24 * 512)], "written": [(10, 96 * 512)]}, by
assert rows("per-disk-top-sector")[0][1]["value"] == 120
assert rows("per-disk-top-request")[0][1]["value"] == 4
got = {(r[1]["value"], r[2]["tid"]): (r[0]["name"], r[3]["value"], r[4]["value"], r[5]["value"], r[6]["value"])
       for r in rows("per-disk-no-data")}
want = {("discard", 10): ("sda", 1, 1024 * 512, 102, 102), ("discard", 11): ("sda", 2, 1536 * 512, 118, 134),
        ("secure erase", 10): ("sda", 1, 2048 * 512, 230, 230), ("other", 10): ("sda", 1, 4096 * 512, 100, 100)}
assert got == want, got'
  run iousagetop >out
  grep -q '^Disk requests that move no data' out
  grep -Eq '^sda +discard +\(11\) +2 +768.00 KiB +0.118 +0.134$' out
  run iolatencystats --mi | json '
r = rows("disk-latency-stats")[0]
assert r[0]["name"] == "sda" and r[1]["value"] == 4 and r[4]["value"] == 389, r'
  run series --by disk -r 1h >out
  grep -q ',read_bytes_per_s,' out
  python3 - <<'END'
import csv
rows = {r["metric"]: float(r["value"]) for r in csv.DictReader(open("out"))}
span = 18.5e-6
for metric, sectors in ("read_bytes_per_s", 24), ("written_bytes_per_s", 96), ("discarded_bytes_per_s", 1024 + 512 + 2048 + 1024):
    assert abs(rows[metric] * span / 512 / sectors - 1) < 0.1, (metric, rows)
END
  # Traces without such requests have no such table.
  { echo "$SWITCH"; echo "2_000 0 block_rq_issue dev=8 sector=1 nr_sector=8 tid=10 rwbs=4"
    echo "3_000 0 block_rq_complete dev=8 sector=1 nr_sector=8"; } | mk plain
  "$RUTILE" iousagetop --skip-validation --no-intersection plain >out
  grep -q '8 sectors' out
  not grep -q 'move no data' out
  # 0 is a read where no tracer has recorded the trace (as in the tests of lttng-analyses).
  sed -i 's/tracer_name/other_name/' trace/metadata
  run iousagetop --mi | json '
assert rows("Per-process top block I/O operations [read]")[0][1]["value"] == (24 + 4096) * 512'
}

t_case "discards and zeroes are neither reads nor writes" discards_are_no_reads
t_case "names from migrations" a_migration_names_its_thread
t_case "one name in every report, the last" names_are_the_last_everywhere
t_case "a thread that executes takes the TID of its process" an_exec_of_a_thread_takes_the_tid
t_case "priorities that were known before" priorities_known_before_are_listed
t_case "names of interrupts with --refresh" interrupts_of_intervals_have_their_name
t_case "the tree of periods is printed once" the_tree_of_periods_is_printed_once
t_case "--freq-uniform on I/O" distributions_of_io_are_uniform
t_case "--cpu on I/O" io_of_one_cpu
t_case "rotated files are one stream" files_of_a_stream_are_one_stream
t_case "traces of LTTng 2.1" traces_of_lttng_2_1
t_case "clocks of any frequency" clocks_of_any_frequency
t_case "calls that only we count" calls_that_only_we_count
t_done
