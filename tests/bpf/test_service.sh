#!/bin/bash
# SPDX-License-Identifier: MIT
# Profiles and the service.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

S=v$$
trap '"$RUTILE" destroy ${S}a 2>/dev/null; "$RUTILE" destroy ${S}b 2>/dev/null; rm -rf "$t_root"' EXIT

profiles() {
  mkdir d
  printf '# a comment\nflight = yes\nevent = sched_switch, syscall:getpriority\ncontext = pid,procname\nbuffer=4M\n' \
    >d/${S}a.conf
  printf 'output = %s\nevent = sched_process_exec\nsize = 1M\nkeep = 2\n' "$PWD/out" >d/${S}b.conf
}

test_service() {
  need_bpf
  profiles
  "$RUTILE" service check --dir d >check
  [ "$(grep -c ok check)" = 2 ]
  if "$RUTILE" list | grep -q "^$S"; then return 1; fi
  "$RUTILE" service start --dir d
  "$RUTILE" service start --dir d
  [ "$("$RUTILE" list | grep -c "^$S.*records")" = 2 ]
  "$RUTILE" service status --dir d >status
  [ "$(grep -c records status)" = 2 ]
  "$RUTILE" service restart --dir d ${S}a
  python3 -c 'import os; os.getpriority(os.PRIO_PROCESS, 0)'
  "$RUTILE" snapshot ${S}a -o snap
  readers snap >/dev/null
  grep -q 'procname = "python3".*syscall_entry_getpriority\|syscall_entry_getpriority.*procname = "python3"' bt2.out
  "$RUTILE" service stop --dir d
  rc=0
  "$RUTILE" service status --dir d || rc=$?
  [ "$rc" = 3 ]
  readers out >/dev/null
}

# kernel_calls FILE: which of a run's system calls load programs, make events of perf, attach.
kernel_calls() {
  for what in BPF_PROG_LOAD perf_event_open 'BPF_LINK_CREATE\|BPF_RAW_TRACEPOINT_OPEN' BPF_OBJ_PIN; do
    grep -c "$what" "$1" || true
  done
}

# `check` loads what `start` loads, and attaches nothing: by the system calls of both.
test_check_only_loads() {
  need_bpf
  command -v strace >/dev/null || t_skip "no strace"
  echo '#include <sys/sdt.h>' | cc -E - >/dev/null 2>&1 || t_skip "no sys/sdt.h (systemtap-sdt-dev)"
  cat >prog.c <<'END'
#include <sys/sdt.h>
int main(void) { DTRACE_PROBE1(demo, step, 1); return 0; }
END
  cc -o prog prog.c
  mkdir d
  for flight in yes no; do
    {
      echo "flight = $flight"
      [ $flight = yes ] || echo "output = $PWD/out"
      echo "event = sched_switch,syscall:getpriority,irq_vectors:local_timer_entry,profile:97"
      echo "event = uprobe:$PWD/prog:main,uretprobe:$PWD/prog:main,usdt:$PWD/prog:demo:step"
      echo "strict = yes"
    } >d/${S}a.conf
    for action in check start; do
      ASAN_OPTIONS=detect_leaks=0 strace -o $action.calls -e trace=bpf,perf_event_open \
        "$RUTILE" service $action --dir d ${S}a >$action.out
    done
    "$RUTILE" destroy ${S}a
    grep -q ok check.out
    # shellcheck disable=SC2046 # numbers
    set -- $(kernel_calls check.calls) $(kernel_calls start.calls)
    echo "loads, perf events, links, pins of check: $1 $2 $3 $4, of start: $5 $6 $7 $8"
    [ "$2 $3 $4" = "0 0 0" ]
    [ "$1" -ge 7 ]
    [ "$6" -ge 4 ]
    [ "$7" -ge 7 ]
    [ "$8" -ge 7 ]
  done
}

# What the service and the sessions' processes did is in their logs, which keep their limits.
test_logs() {
  need_bpf
  profiles
  printf 'log-size = 1K\nlog-keep = 2\n' >>d/${S}b.conf
  export RUTILE_LOG_DIR=$PWD/log
  "$RUTILE" service start --dir d
  for i in $(seq 30); do "$RUTILE" rotate ${S}b; done >/dev/null
  "$RUTILE" service stop --dir d
  printf 'flight = yes\nevent = usdt:/nowhere:a:b\nstrict = yes\n' >d/${S}c.conf
  printf 'nonsense\n' >d/${S}d.conf
  if "$RUTILE" service start --dir d 2>err; then return 1; fi
  "$RUTILE" service stop --dir d
  cat log/service.log
  for what in "'${S}a' started" "'${S}b' started" "'${S}a' stopped" "'${S}c': .*nowhere" "'${S}d' has errors"; do
    grep -q "^20[0-9-]*T[0-9:]*[+-][0-9]* service\[[0-9]*\] [a-z]*: $what" log/service.log
  done
  grep -q "'${S}c': .*nowhere" err
  [ ! -e log/${S}a.log ]
  # The last directories' names and the end; not the first ones any more.
  grep -q "${S}b\[[0-9]*\] info: ends: [1-9][0-9]* events, .* 0 events lost" log/${S}b.log
  [ -e log/${S}b.log.2 ]
  [ ! -e log/${S}b.log.3 ]
  for f in log/"$S"b.log*; do [ "$(stat -c %s "$f")" -le 1024 ]; done
  [ "$(stat -c %a log/${S}b.log)" = 640 ]
}

# Each iteration of the process's loop switches directories (every = 1ns); a request to rotate in the same
# iteration switches again. Each directory is in the log, once as begun and once as ended.
test_log_of_dirs() {
  need_bpf
  export RUTILE_LOG_DIR=$PWD/log
  mkdir out
  "$RUTILE" start ${S}b -o "$PWD/out/t" --every 1ns -e sched_process_exec
  for i in $(seq 10); do "$RUTILE" rotate ${S}b; done >/dev/null
  "$RUTILE" destroy ${S}b
  find "$PWD/out" -mindepth 1 -maxdepth 1 | sort >made
  for what in "writes to" ended; do
    sed -n "s/.* info: $what '\(.*\)'\$/\1/p" log/${S}b.log | sort >logged
    diff made logged
  done
}

test_save() {
  need_bpf
  profiles
  "$RUTILE" start ${S}a --profile d/${S}a.conf
  "$RUTILE" save ${S}a -o saved
  if "$RUTILE" save ${S}a -o saved; then return 1; fi
  "$RUTILE" status ${S}a >one
  "$RUTILE" destroy ${S}a
  "$RUTILE" start ${S}a --profile saved
  "$RUTILE" save ${S}a >again
  "$RUTILE" destroy ${S}a
  diff saved again
  grep -q 'context = procname' again
}

test_bad_profile() {
  need_bpf
  printf 'flight = yes\nevnt = sched\n' >p
  if "$RUTILE" start ${S}a --profile p 2>err; then return 1; fi
  grep -q "p, line 2: unknown option 'evnt'" err
  printf 'flight = perhaps\n' >p
  if "$RUTILE" start ${S}a --profile p 2>err; then return 1; fi
  grep -q "line 1: yes or no" err
  printf '# a size\nflight = yes\nbuffer = much # of it\n' >p
  not "$RUTILE" start ${S}a --profile p 2>err
  grep -q "p, line 3: bad size 'much'" err
  printf 'flight = yes\nevent = no_such_event\n' >p
  not "$RUTILE" start ${S}a --profile p 2>err
  grep -q "p, line 2: no event is called 'no_such_event'" err
  printf 'flight = yes\0\n' >p
  not "$RUTILE" start ${S}a --profile p 2>err
  grep -q "p, line 1: .*not a text file" err
  if "$RUTILE" service start --dir /nowhere nothing 2>err; then return 1; fi
}

# A directory, an empty file and a file with an invalid name are named, and start nothing.
test_odd_profiles() {
  need_bpf
  long=$(printf '%064d' 0)
  mkdir -p d d/${S}a.conf
  printf '# nothing yet\n' >d/${S}b.conf
  printf 'flight = yes\nevent = sched_switch\n' | tee "d/a b.conf" >"d/$long.conf"
  for what in a b; do
    not "$RUTILE" start $S$what --flight --profile d/$S$what.conf 2>>err
  done
  for action in check start; do
    rc=0
    "$RUTILE" service $action --dir d 2>>err || rc=$?
    [ $rc = 2 ]
  done
  cat err
  [ "$(grep -c "cannot read 'd/${S}a.conf': Is a directory" err)" = 3 ]
  [ "$(grep -c "no options in the profile 'd/${S}b.conf'" err)" = 3 ]
  [ "$(grep -c "d/a b.conf: 'a b' cannot be a session's name" err)" = 2 ]
  [ "$(grep -c "d/$long.conf: '$long' cannot be a session's name" err)" = 2 ]
  not "$RUTILE" start $long --flight -e sched_switch 2>err
  grep -q "'$long' cannot be a session's name: .* at most 63" err
  not "$RUTILE" status ${long%0}
}

# Comments end lines; what is written by `save` is read as it was, a '#' in a value too.
test_comments() {
  need_bpf
  printf 'flight = yes # of course\nevent=sched_switch\t# and no more\nbuffer = 4M #\n' >p
  printf 'procname = a \\# b# "c"  # d\nprocname = "e # f\nfilter = prev_comm != "x # y" # z\n' >>p
  "$RUTILE" start ${S}a --profile p
  "$RUTILE" save ${S}a >saved
  "$RUTILE" destroy ${S}a
  cat saved
  grep -qx 'event = sched_switch' saved
  grep -qx 'procname = a \\# b# "c"' saved
  grep -qx 'procname = "e # f' saved
  grep -qx 'filter = prev_comm != "x # y"' saved
  "$RUTILE" start ${S}a --profile saved
  "$RUTILE" save ${S}a >again
  "$RUTILE" destroy ${S}a
  diff saved again
}

test_init_script() {
  need_bpf
  mkdir bin
  printf '#!/bin/sh\necho "$@"\n' >bin/rutile
  chmod +x bin/rutile
  [ "$(RUTILE=$PWD/bin/rutile "$SRC/packaging/rutile.init" start x)" = "service start x" ]
  rc=0
  RUTILE=$PWD/bin/rutile "$SRC/packaging/rutile.init" nonsense 2>/dev/null || rc=$?
  [ "$rc" = 2 ]
}

t_case "service: check, start, status, restart, stop" test_service
t_case "service check attaches nothing" test_check_only_loads
t_case "logs of the service and of sessions" test_logs
t_case "the log has every directory" test_log_of_dirs
t_case "a saved profile gives the same session" test_save
t_case "mistakes in a profile are named with their line" test_bad_profile
t_case "profiles that are no profiles, and names that are no names" test_odd_profiles
t_case "comments at the end of lines" test_comments
t_case "the LSB script" test_init_script
t_done
