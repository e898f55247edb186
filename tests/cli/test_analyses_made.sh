#!/bin/bash
# SPDX-License-Identifier: MIT
# Traces made by hand, with known answers: what lttng-analyses is wrong about, and what it lacks.
. "$SRC/tests/tap.sh"
. "$SRC/tests/cases.sh"
. "$SRC/tests/made.sh"

softirqs_have_two_names() {
  mk <<'TRACE'
1_000 0 irq_softirq_raise vec=1
2_000 0 irq_softirq_entry vec=1
5_000 0 irq_softirq_exit vec=1
6_000 0 softirq_raise vec=9
7_000 0 softirq_entry vec=9
8_000 0 softirq_exit vec=9
TRACE
  run irqstats --mi | json '
r = rows("soft-stats")
assert [x[0]["name"] for x in r] == ["TIMER_SOFTIRQ", "RCU_SOFTIRQ"], r
assert r[0][2]["value"] == 3000 and r[0][7]["value"] == 1000, r'
}

a_softirq_raised_thrice_while_it_runs_runs_once() {
  mk <<'TRACE'
1_000 0 irq_softirq_raise vec=1
2_000 0 irq_softirq_entry vec=1
2_100 0 irq_softirq_raise vec=1
2_200 0 irq_softirq_raise vec=1
3_000 0 irq_softirq_exit vec=1
3_100 0 irq_softirq_entry vec=1
3_300 0 irq_softirq_exit vec=1
9_000 0 irq_softirq_raise vec=1
9_500 0 irq_softirq_entry vec=1
9_600 0 irq_softirq_exit vec=1
TRACE
  run irqlog --mi | json '
r = rows("log")
assert [x[1]["value"] for x in r] == [1000, 2100, 9000], r'
}

received_packets_have_two_names() {
  mk <<'TRACE'
1_000 0 netif_receive_skb name=eth0 len=100
2_000 0 net_if_receive_skb name=eth0 len=50
3_000 0 net_dev_xmit name=eth0 len=7
TRACE
  run iousagetop --mi | json '
r = rows("per-netif-top")
assert [x[1]["value"] for x in r] == [150, 7], r'
}

statedumps_of_files_by_table() {
  mk <<TRACE
100 0 lttng_statedump_file_descriptor file_table_address=0xff01 fd=3 flags=0 fmode=0 filename=/var/log/a
200 0 lttng_statedump_process_state tid=10 pid=10 name=app file_table_address=0xff01
300 0 lttng_statedump_process_state tid=11 pid=10 name=app file_table_address=0xff01
400 0 lttng_statedump_file_descriptor file_table_address=0xff01 fd=4 flags=0 fmode=0 filename=/var/log/b
$SWITCH
2_000 0 syscall_entry_write fd=3 count=8
3_000 0 syscall_exit_write ret=8
4_000 0 syscall_entry_write fd=4 count=4
5_000 0 syscall_exit_write ret=4
TRACE
  run iousagetop --mi | json '
r = {x[0]["path"]: x[1]["value"] for x in rows("per-file-top")}
assert r == {"/var/log/a": 8, "/var/log/b": 4}, r'
}

# What was open before: a statedump tells what it is, or a call that is for sockets only.
descriptors_open_before_have_a_kind() {
  mk <<TRACE
$SWITCH
1_000 1 sched_switch prev_comm=swapper/1 prev_tid=0 prev_prio=20 prev_state=0 next_comm=worker next_tid=12 next_prio=20
1_100 1 syscall_entry_getpid
1_200 1 syscall_exit_getpid ret=12
100 0 lttng_statedump_file_descriptor pid=10 fd=3 flags=0 fmode=0 filename=socket:[77]
110 0 lttng_statedump_file_descriptor pid=10 fd=4 flags=0 fmode=0 filename=/var/log/a
120 0 lttng_statedump_file_descriptor pid=10 fd=5 flags=0 fmode=0 filename=pipe:[78]
2_000 0 syscall_entry_write fd=3 count=100
2_100 0 syscall_exit_write ret=100
2_200 0 syscall_entry_write fd=4 count=20
2_300 0 syscall_exit_write ret=20
2_400 0 syscall_entry_write fd=5 count=3
2_500 0 syscall_exit_write ret=3
2_600 0 syscall_entry_sendto fd=9 len=1000
2_700 0 syscall_exit_sendto ret=1000
2_800 0 syscall_entry_write fd=9 count=4000
2_900 0 syscall_exit_write ret=4000
3_000 0 lttng_statedump_process_state tid=12 pid=10 name=worker
TRACE
  run iousagetop --mi | json '
r = rows("Per-process top I/O operations [written]")[0]
assert [c["value"] for c in r[1:]] == [5123, 20, 5100, 3], r'
  # Its first call came before the statedump.
  run syscallstats >out
  grep '^worker (10, TID: 12)' out
}

return_values_are_counted_once() {
  mk <<TRACE
$SWITCH
2_000 0 syscall_entry_read fd=3
3_000 0 syscall_exit_read ret=8
4_000 0 syscall_entry_read fd=3
5_000 0 syscall_exit_read ret=-11
6_000 0 syscall_entry_read fd=3
7_000 0 syscall_exit_read ret=0
TRACE
  run syscallstats >out
  grep -q "{'success': 2, 'EAGAIN': 1}" out
}

# The kernel has 4,095 errors; what is below them is a value.
values_with_all_bits_are_no_errors() {
  { echo "$SWITCH"
    for i in 1 2 3; do echo "$((i * 2000)) 0 syscall_entry_ptrace request=1"; echo "$((i * 2000 + 500)) 0 syscall_exit_ptrace ret=-${i}000000"; done
    echo "9_000 0 syscall_entry_ptrace request=1"; echo "9_500 0 syscall_exit_ptrace ret=-4095"; } | mk
  run syscallstats >out
  cat out
  grep -q "{'success': 3, '-4095': 1}" out
}

# Whose descriptors are dumped is a process, whether its thread was known before or not.
a_process_with_descriptors_has_a_pid() {
  mk <<TRACE
100 0 sched_wakeup comm=app tid=10 prio=20 target_cpu=0
200 0 lttng_statedump_file_descriptor pid=10 fd=3 flags=0 fmode=0 filename=/f
$SWITCH
2_000 0 syscall_entry_read fd=3 count=8
3_000 0 syscall_exit_read ret=8
TRACE
  run syscallstats >out
  cat out
  grep '^app (10, TID: 10)' out
  run iousagetop --mi | json 'assert rows("Per-process top I/O operations [read]")[0][0]["pid"] == 10, results'
}

# What is found open was open from the begin: the picture is level, then steps up once.
descriptors_found_are_level() {
  { for fd in 3 4 5; do
      echo "${fd}00 0 lttng_statedump_file_descriptor pid=10 fd=$fd flags=0 fmode=0 filename=/f$fd"
    done
    echo "$SWITCH"
    echo "4_000_000_000 0 syscall_entry_openat filename=/g flags=0"
    echo "4_000_000_100 0 syscall_exit_openat ret=6"
    echo "8_000_000_000 0 tick n=1"; } | mk
  run fdtop >out
  cat out
  graph=$(sed -n 's/^app.*  \([^ ]*\)$/\1/p' out)
  [ "$(echo "$graph" | LC_ALL=C.UTF-8 sed 's/▆▆*/level /; s/██*/step/')" = "level step" ]
}

# Bytes are added up by file, however often and in whatever order it is opened under one number.
files_opened_again_are_one_file() {
  { echo "$SWITCH"; t=10000
    for i in 1 2 3 2 1 4 2; do
      printf '%d 0 syscall_entry_openat filename=/f%d flags=0\n%d 0 syscall_exit_openat ret=3\n' $t $i $((t + 1))
      printf '%d 0 syscall_entry_read fd=3 count=100\n%d 0 syscall_exit_read ret=%d\n' $((t + 2)) $((t + 3)) $((t / 10000))
      printf '%d 0 syscall_entry_close fd=3\n%d 0 syscall_exit_close ret=0\n' $((t + 4)) $((t + 5))
      t=$((t + 10000))
    done; } | mk
  run iousagetop --mi | json '
r = {x[0]["path"]: x[1]["value"] for x in rows("Per-file top I/O operations [read]")}
assert r == {"/f2": 2 + 4 + 7, "/f1": 1 + 5, "/f4": 6, "/f3": 3}, r'
}

a_limit_is_a_limit() {
  { echo "$SWITCH"; for i in 1 2 3 4 5; do
    echo "${i}0_000 0 syscall_entry_openat filename=f$i flags=0"
    echo "${i}0_${i}00 0 syscall_exit_openat ret=$i"
  done; } | mk
  [ "$(run iolatencytop --limit 2 | grep -c openat)" = 2 ]
}

a_directory_of_any_name_wakes_up() {
  { echo "env tracer_major=2 tracer_minor=6 tracer_patchlevel=0"; echo "$SWITCH"
    echo "2_000 0 sched_wakeup comm=b tid=20 prio=120 success=1 target_cpu=0"
    echo "5_000 0 sched_switch prev_comm=app prev_tid=10 prev_prio=20 prev_state=1 next_comm=b next_tid=20 next_prio=20"
  } | mk trace/not-called-that
  run schedlog --mi | json '
r = rows("log")
assert r[0][2]["value"] == 3000 and r[0][5]["tid"] == 20 and r[0][6]["tid"] == 10, r'
  # Before LTTng 2.7.1 wakeups gave priorities 100 too high: there is no change of priority here.
  run cputop | grep -q '\[20\]'
  ! run cputop | grep -q '120'
}

accept_opens_a_connection() {
  mk <<TRACE
$SWITCH
2_000 0 syscall_entry_accept4 fd=3 flags=0
3_000 0 syscall_exit_accept4 ret=7 family=2 sport=8080 v4addr=[10,0,0,1]
4_000 0 syscall_entry_read fd=7 count=100
5_000 0 syscall_exit_read ret=64
TRACE
  run iousagetop --mi | json '
r = rows("per-process-top")
assert r[0][3]["value"] == 64, r   # network
f = rows("per-file-top")
assert f[0][0]["path"] == "10.0.0.1:8080", f'
}

calls_of_32_bit_programs_count() {
  mk <<TRACE
$SWITCH
2_000 0 compat_syscall_entry_read fd=3 count=100
3_000 0 compat_syscall_exit_read ret=64
4_000 0 compat_sys_read fd=3 count=100
5_000 0 exit_syscall ret=6
TRACE
  run syscallstats | grep -q 'compat_read  *2 '
  run iolatencystats | grep -q '^Read  *2 '
}

io_uring_enter_takes_time() {
  mk <<TRACE
$SWITCH
2_000 0 syscall_entry_io_uring_enter fd=9 to_submit=1 min_complete=1 flags=1
9_000 0 syscall_exit_io_uring_enter ret=1
TRACE
  run iolog | grep -q 'io_uring_enter  *7.000'
}

names_of_lttng_2_1() {
  mk <<TRACE
$SWITCH
2_000 0 sys_open filename=/etc/hosts flags=0 mode=0
3_000 0 exit_syscall ret=4
4_000 0 sys_read fd=4 count=10
6_000 0 exit_syscall ret=10
7_000 0 kmem_mm_page_alloc page=1
TRACE
  run iousagetop --mi | json '
assert rows("per-file-top")[0][0]["path"] == "/etc/hosts", rows("per-file-top")
assert rows("per-process-top")[0][2]["value"] == 10'
  run memtop | grep -q '^- 1 pages allocated'
}

contexts_stand_in_for_sched_switch() {
  mk <<'TRACE'
context pid:int tid:int procname:str
1_000 0 syscall_entry_openat filename=/tmp/x flags=0 @pid=10 @tid=11 @procname=worker
2_000 0 syscall_exit_openat ret=5 @pid=10 @tid=11 @procname=worker
3_000 1 syscall_entry_read fd=5 count=1 @pid=10 @tid=12 @procname=worker
3_500 0 syscall_entry_getpid @pid=20 @tid=20 @procname=other
3_600 0 syscall_exit_getpid ret=20 @pid=20 @tid=20 @procname=other
4_000 1 syscall_exit_read ret=1 @pid=10 @tid=12 @procname=worker
TRACE
  run syscallstats --mi | json '
r = {(x[0]["name"], x[0]["tid"], x[0].get("pid")): x[1]["value"] for x in rows("total")}
assert r == {("worker", 11, 10): 1, ("worker", 12, 10): 1, ("other", 20, 20): 1}, r'
  # Both threads share the descriptors of their process.
  run iolog | grep -q 'read .*/tmp/x (fd=5)'
}

# How long a thread ran is unknown when its end on the CPU is not in the trace.
a_gap_between_switches_counts_for_nobody() {
  mk <<TRACE
10_000 0 sched_switch prev_comm=a prev_tid=10 prev_prio=20 prev_state=1 next_comm=b next_tid=20 next_prio=20
20_000 0 sched_switch prev_comm=a prev_tid=10 prev_prio=20 prev_state=1 next_comm=c next_tid=30 next_prio=20
25_000 0 sched_switch prev_comm=c prev_tid=30 prev_prio=20 prev_state=1 next_comm=d next_tid=40 next_prio=20
30_000 0 sched_switch prev_comm=c prev_tid=30 prev_prio=20 prev_state=1 next_comm=swapper/0 next_tid=0 next_prio=20
40_000 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=e next_tid=50 next_prio=20
50_000 0 sched_switch prev_comm=e prev_tid=50 prev_prio=20 prev_state=1 next_comm=swapper/0 next_tid=0 next_prio=20
TRACE
  # 40 us in all: c ran 5 of them, e 10, and 15 are unknown.
  run cputop --mi | json '
r = {x[0]["tid"]: round(x[-1]["value"], 3) for x in rows("per-process")}
assert r[30] == 0.125 and r[50] == 0.25 and not r.get(20) and not r.get(40), r
assert round(rows("per-cpu")[0][1]["value"], 3) == 0.375, rows("per-cpu")'
}

lost_events_are_told() {
  mk <<TRACE
$SWITCH
lost 0 17
TRACE
  run cputop 2>err >/dev/null
  grep -q 17 err
}

files_open_before_the_begin_count() {
  mk <<TRACE
$SWITCH
2_000 0 syscall_entry_openat filename=/tmp/x flags=0
3_000 0 syscall_exit_openat ret=5
4_000 0 syscall_entry_read fd=5 count=9
5_000 0 syscall_exit_read ret=9
TRACE
  run iousagetop --begin 3500 --mi | json '
assert rows("per-file-top")[0][0]["path"] == "/tmp/x"'
}

floats_do_not_lose_their_fraction() {
  mk <<'TRACE'
1_000 0 tick v=4
2_000 0 tick v=5
TRACE
  run periodlog --period 'p : $evt.v < 4.5 : $evt.v > 4.5' | grep -q 'p  *$'
}

a_parent_is_named_in_parentheses() {
  mk <<'TRACE'
1_000 0 outer v=1
2_000 0 inner v=1
3_000 0 inner_end v=1
4_000 0 inner v=1
5_000 0 outer_end v=1
6_000 0 inner v=1
7_000 0 inner_end v=1
TRACE
  run periodstats --period 'o : $evt.$name == "outer" : $evt.$name == "outer_end"' \
    --period 'i(o) : $evt.$name == "inner" : $evt.$name == "inner_end"' >out
  grep -q '^o  *1  *4.000' out
  grep -q '^o/i  *1  *1.000' out
}

an_exit_of_the_other_kind_ends_no_call() {
  mk <<TRACE
$SWITCH
2_000 0 compat_syscall_entry_read fd=3 count=100
3_000 0 syscall_exit_read ret=64
4_000 0 syscall_entry_write fd=3 count=100
5_000 0 compat_syscall_exit_write ret=64
6_000 0 syscall_entry_write fd=3 count=100
7_000 0 syscall_exit_write ret=64
TRACE
  run syscallstats --mi | json '
assert [x[1]["value"] for x in rows("total")] == [1], rows("total")'
}

files_open_before_an_interval_or_a_period_count() {
  mk <<TRACE
$SWITCH
2_000 0 syscall_entry_openat filename=/tmp/x flags=0
3_000 0 syscall_exit_openat ret=5
5_000 0 mark v=1
6_000 0 syscall_entry_read fd=5 count=9
7_000 0 syscall_exit_read ret=9
8_000 0 mark v=2
TRACE
  run iousagetop --refresh 4us | grep -q ' 9  *B /tmp/x$'
  run iousagetop --period ': $evt.v == 1 : $evt.v == 2' --mi | json '
assert [(x[0]["path"], x[1]["value"]) for x in rows("per-file-top")] == [("/tmp/x", 9)], results'
}

numbers_in_periods_are_whole() {
  mk <<'TRACE'
1_000 0 tick v=4
2_000 0 tick v=9007199254740992
3_000 0 tick v=9007199254740993
5_000 0 tock v=0
TRACE
  run periodlog --period 'p : $evt.v == 4.7 : $evt.$name == "tock"' >out
  [ "$(grep -c ' p  *$' out)" = 0 ]
  run periodlog --period 'p : $evt.v == 9007199254740993 : $evt.$name == "tock"' >out
  grep -q '000003000, .* 2.000 p  *$' out
}

a_slash_in_a_definition_cuts_nothing() {
  mk <<'TRACE'
1_000 0 open path=/a/b
2_000 0 open path=/a
4_000 0 done v=8
TRACE
  run periodstats --period 'up/x : $evt.path == "/a/b" : $evt.v / 2 == 4' >out
  grep -q '^x  *1  *3.000' out
}

distributions_with_a_least_value() {
  mk <<'TRACE'
1_000 0 irq_handler_entry irq=4 name=x
2_000 0 irq_handler_exit irq=4 ret=1
3_000 0 irq_handler_entry irq=4 name=x
7_000 0 irq_handler_exit irq=4 ret=1
8_000 0 irq_handler_entry irq=4 name=x
18_000 0 irq_handler_exit irq=4 ret=1
TRACE
  run irqfreq --freq-uniform --min 2 --freq-resolution 4 --mi | json '
r = [tuple(c["value"] for c in x) for x in rows("freq")]
assert r == [(2000, 4000, 0), (4000, 6000, 1), (6000, 8000, 0), (8000, 10000, 1)], r'
}

periods_without_a_name_keep_their_statistics() {
  mk <<'TRACE'
1_000 0 go v=1
2_000 0 both v=1
3_000 0 go v=1
7_000 0 both v=1
TRACE
  run periodstats --period ': $evt.$name == "go" : $evt.$name == "both"' --mi | json '
assert [[c["value"] for c in x[1:5]] for x in rows("per_period_stats")] == [[2, 1000, 2500, 4000]], results'
}

periods_of_one_event_come_in_order() {
  mk <<'TRACE'
1_000 0 go v=1
2_000 0 both v=1
TRACE
  set --
  for name in d a c 'b(a)' 'e(b)'; do
    set -- "$@" --period "$name : \$evt.\$name == \"go\" : \$evt.\$name == \"both\""
  done
  run periodlog "$@" --mi | json '
assert [x[3]["value"] for x in rows("log")] == ["d", "a", "c", "a/b", "a/b/e"], rows("log")'
  run periodlog "$@" --order-by hierarchy >out
  [ "$(awk '/^\[/ { print $4 }' out | xargs)" = "d a a/b a/b/e c" ]
}

a_parent_without_length_has_no_shares() {
  mk <<'TRACE'
1_000 0 go v=1
1_000 0 stop v=1
TRACE
  go='$evt.$name == "go"' stop='$evt.$name == "stop"'
  run periodstats --period "z : $go : $stop" --period "y(z) : $go : $stop" --mi | json '
r = rows("per_parent_percentage")
assert r and all(c["value"] == 0 for x in r for c in x[2:5]), r'
}

# ---- Periods in files ----

wordpress_requests_in_phases() {
  mk <<'TRACE'
context pid:int tid:int procname:str
1_000_000 0 syscall_exit_accept4 ret=12 @pid=7 @tid=7 @procname=apache2
1_000_500 1 syscall_exit_accept4 ret=13 @pid=8 @tid=8 @procname=apache2
1_001_000 1 syscall_exit_accept4 ret=12 @pid=9 @tid=9 @procname=sshd
2_000_000 0 syscall_entry_newstat filename=/var/www/index.php @pid=7 @tid=7 @procname=apache2
5_000_000 0 syscall_entry_connect fd=14 family=2 v4addr=[127,0,0,1] dport=3306 @pid=7 @tid=7 @procname=apache2
5_500_000 1 syscall_entry_connect fd=14 family=2 v4addr=[127,0,0,1] dport=11211 @pid=8 @tid=8 @procname=apache2
9_000_000 0 syscall_entry_access filename=/var/www/wp-content/content.php mode=4 @pid=7 @tid=7 @procname=apache2
9_500_000 0 syscall_entry_writev fd=3 vlen=1 @pid=7 @tid=7 @procname=apache2
15_000_000 0 syscall_entry_writev fd=12 vlen=3 @pid=7 @tid=7 @procname=apache2
15_500_000 0 syscall_entry_close fd=14 @pid=7 @tid=7 @procname=apache2
16_000_000 0 syscall_entry_close fd=12 @pid=7 @tid=7 @procname=apache2
TRACE
  run periodlog --mi --period-file "$SRC/examples/periods/wordpress.periods" | json '
r = {x[3]["value"]: (x[2]["value"], x[4]["value"], x[5]["value"]) for x in rows("log")}
assert r == {"request": (15000000, "{'"'worker_pid'"': 7}", "{}"),
             "request/url_rewrite": (1000000, "{}", "{}"),
             "request/before_db_connect": (3000000, "{}", "{}"),
             "request/db_queries": (4000000, "{}", "{}"),
             "request/rendering": (6000000, "{}", "{'"'fd'"': 12}")}, r'
  run periodlog --period-file "$SRC/examples/periods/wordpress.periods" --select db_queries \
    --aggregate-by request --group-by request.worker_pid >out
  grep -q 'Aggregation of (db_queries) by request, group: request.worker_pid = 7' out
  grep -q '15000.000 request  *| request/db_queries  *1 | *4000.000' out
}

# With a C library of 2.33 and later stat() is newfstatat.
wordpress_requests_with_newfstatat() {
  mk <<'TRACE'
context pid:int tid:int procname:str
1_000_000 0 syscall_exit_accept4 ret=12 @pid=7 @tid=7 @procname=apache2
1_500_000 0 syscall_entry_newfstatat dfd=-100 filename=/var/www/style.css flag=0 @pid=7 @tid=7 @procname=apache2
2_000_000 0 syscall_entry_newfstatat dfd=-100 filename=/var/www/index.php flag=0 @pid=7 @tid=7 @procname=apache2
5_000_000 0 syscall_entry_connect fd=14 family=2 v4addr=[127,0,0,1] dport=3306 @pid=7 @tid=7 @procname=apache2
9_000_000 0 syscall_entry_newfstatat dfd=-100 filename=/var/www/wp-includes/template-loader.php flag=0 @pid=7 @tid=7 @procname=apache2
15_000_000 0 syscall_entry_writev fd=12 vlen=3 @pid=7 @tid=7 @procname=apache2
16_000_000 0 syscall_entry_close fd=12 @pid=7 @tid=7 @procname=apache2
TRACE
  run periodlog --mi --period-file "$SRC/examples/periods/wordpress.periods" | json '
r = {x[3]["value"]: x[2]["value"] for x in rows("log")}
assert r == {"request": 15000000, "request/url_rewrite": 1000000, "request/before_db_connect": 3000000,
             "request/db_queries": 4000000, "request/rendering": 6000000}, r'
}

rack_requests_in_phases() {
  mk <<'TRACE'
context pid:int tid:int procname:str
1_000 0 syscall_exit_accept4 ret=9 @pid=5 @tid=6 @procname=puma
2_000 0 syscall_entry_recvfrom fd=9 size=16384 @pid=5 @tid=7 @procname="puma srv tp 001"
4_000 0 syscall_exit_recvfrom ret=180 @pid=5 @tid=7 @procname="puma srv tp 001"
14_000 0 syscall_entry_write fd=9 count=500 @pid=5 @tid=7 @procname="puma srv tp 001"
17_000 0 syscall_exit_write ret=500 @pid=5 @tid=7 @procname="puma srv tp 001"
20_000 0 syscall_entry_close fd=9 @pid=5 @tid=7 @procname="puma srv tp 001"
TRACE
  run periodlog --mi --period-file "$SRC/examples/periods/rack.periods" | json '
r = {x[3]["value"]: (x[2]["value"], x[5]["value"]) for x in rows("log")}
assert r == {"rack_request": (19000, "{'"'duration_us'"': 19}"),
             "rack_request/rack_read": (2000, "{'"'bytes'"': 180}"),
             "rack_request/rack_app": (10000, "{}"),
             "rack_request/rack_write": (3000, "{'"'bytes'"': 500}")}, r'
}

mysql_queries() {
  mk <<'TRACE'
context tid:int procname:str
1_000 0 syscall_exit_recvfrom ret=40 @tid=30 @procname=mysqld
2_000 1 syscall_exit_recvfrom ret=40 @tid=31 @procname=mysqld
3_000 0 syscall_entry_pread64 fd=5 count=16384 @tid=30 @procname=mysqld
7_000 0 syscall_exit_pread64 ret=16384 @tid=30 @procname=mysqld
9_000 0 syscall_entry_sendto fd=40 len=900 @tid=30 @procname=mysqld
12_000 1 syscall_entry_sendto fd=41 len=11 @tid=31 @procname=mysqld
TRACE
  run periodtop --mi --period-file "$SRC/examples/periods/mysql.periods" --select query | json '
r = [(x[2]["value"], x[4]["value"], x[5]["value"]) for x in rows("top")]
assert r == [(10000, "{'"'tid': 31, 'bytes'"': 40}", "{'"'fd': 41, 'duration_us'"': 10}"),
             (8000, "{'"'tid': 30, 'bytes'"': 40}", "{'"'fd': 40, 'duration_us'"': 8}")], r'
  run periodstats --period-file "$SRC/examples/periods/mysql.periods" | grep -q '^query/query_io  *1  *4.000'
}

fsyncs_and_the_disk() {
  mk <<'TRACE'
context tid:int
1_000 0 syscall_entry_fsync fd=5 @tid=30
2_000 0 block_rq_issue dev=8388608 sector=2048 nr_sector=16 rwbs=1 tid=30 @tid=30
2_500 1 block_rq_issue dev=8388608 sector=4096 nr_sector=8 rwbs=1 tid=99 @tid=99
6_000 1 block_rq_complete dev=8388608 sector=2048 nr_sector=16 @tid=0
8_000 0 syscall_exit_fsync ret=0 @tid=30
TRACE
  run periodlog --mi --period-file "$SRC/examples/periods/fsync.periods" | json '
r = {x[3]["value"]: (x[2]["value"], x[4]["value"]) for x in rows("log")}
assert r == {"sync": (7000, "{'"'fd': 5, 'tid'"': 30}"),
             "sync/sync_disk": (4000, "{'"'dev': 8388608, 'kib'"': 8}")}, r'
}

a_bad_file_is_told_with_its_line() {
  printf '# one\nok : $evt.a == 1\n\nbad : $evt.a == 1\n\t: $evt.b == )\n' >bad.periods
  "$RUTILE" periodlog --period-file bad.periods nothing 2>err && return 1
  grep -q 'bad.periods:5:14: expected a value' err
}

one_report_for_each_period() {
  { echo "$SWITCH"
    echo "2_000 0 mark v=1"; echo "3_000 0 syscall_entry_getpid"; echo "3_100 0 syscall_exit_getpid ret=1"
    echo "4_000 0 mark v=2"; echo "5_000 0 mark v=1"; echo "5_100 0 syscall_entry_getpid"
    echo "5_200 0 syscall_exit_getpid ret=1"; echo "5_300 0 syscall_entry_getpid"
    echo "5_400 0 syscall_exit_getpid ret=1"; echo "6_000 0 mark v=2"; } | mk
  run syscallstats --period ': $evt.$name == "mark" && $evt.v == 1 : $evt.$name == "mark" && $evt.v == 2' >out
  [ "$(grep '^Total:' out | awk '{ print $2 }' | xargs)" = "1 2" ]
  run syscallstats --period-begin mark --period-end mark --period-begin-key v --period-key-value 1 2>err >out2
  grep -q deprecated err
  grep -q '^Timerange' out2
}

# Another event of sched_switch's name, with the kernel's fields: nothing would be right. One with the
# same fields is the same event, enabled twice.
classes_of_one_name_are_refused() {
  { echo "$SWITCH"; echo "${SWITCH/1_000/2_000}"; } | mk
  again() { { echo 'event {'; sed -n '/name = "sched_switch"/,/^};/p' plain; } | sed 's/\tid = [0-9]*;/\tid = 77;/'; }
  cp trace/metadata plain
  again >>trace/metadata
  run cputop >/dev/null
  { cat plain; again | sed 's/_tid/_pid/g'; } >trace/metadata
  if run cputop >out 2>err; then return 1; fi
  grep -q "two events 'sched_switch' with different fields" err
}

t_case "softirqs of LTTng 2.7 and later" softirqs_have_two_names
t_case "a softirq raised again while it runs" a_softirq_raised_thrice_while_it_runs_runs_once
t_case "received packets of LTTng 2.7 and later" received_packets_have_two_names
t_case "statedumps of LTTng 2.12 name files" statedumps_of_files_by_table
t_case "return values are counted once" return_values_are_counted_once
t_case "return values that look like errors" values_with_all_bits_are_no_errors
t_case "fdtop of what was open before" descriptors_found_are_level
t_case "a process with descriptors" a_process_with_descriptors_has_a_pid
t_case "files that are opened again" files_opened_again_are_one_file
t_case "a limit is a limit" a_limit_is_a_limit
t_case "a trace in a directory of any name" a_directory_of_any_name_wakes_up
t_case "accept and accept4" accept_opens_a_connection
t_case "system calls of 32-bit programs" calls_of_32_bit_programs_count
t_case "exits of the other kind" an_exit_of_the_other_kind_ends_no_call
t_case "io_uring_enter" io_uring_enter_takes_time
t_case "the names of LTTng 2.1" names_of_lttng_2_1
t_case "contexts instead of sched_switch" contexts_stand_in_for_sched_switch
t_case "a gap between switches counts for no thread" a_gap_between_switches_counts_for_nobody
t_case "lost events are reported" lost_events_are_told
t_case "files that were open before --begin" files_open_before_the_begin_count
t_case "files that were open before an interval or a period" files_open_before_an_interval_or_a_period_count
t_case "--freq-uniform with --min" distributions_with_a_least_value
t_case "integers and floats compare by value" floats_do_not_lose_their_fraction
t_case "NAME(PARENT)" a_parent_is_named_in_parentheses
t_case "numbers in definitions keep every digit" numbers_in_periods_are_whole
t_case "slashes in definitions" a_slash_in_a_definition_cuts_nothing
t_case "periods without a name" periods_without_a_name_keep_their_statistics
t_case "periods that one event begins" periods_of_one_event_come_in_order
t_case "a parent without length" a_parent_without_length_has_no_shares
t_case "the talk's WordPress request in phases" wordpress_requests_in_phases
t_case "... where stat() is newfstatat" wordpress_requests_with_newfstatat
t_case "a Rack request in phases" rack_requests_in_phases
t_case "MySQL queries" mysql_queries
t_case "fsync and the disk" fsyncs_and_the_disk
t_case "errors in a file of periods" a_bad_file_is_told_with_its_line
t_case "a report for each period" one_report_for_each_period
t_case "descriptors that were open before have a kind" descriptors_open_before_have_a_kind
t_case "two classes of one name" classes_of_one_name_are_refused
t_done
