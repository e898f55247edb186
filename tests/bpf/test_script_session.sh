#!/bin/bash
# SPDX-License-Identifier: MIT
# Scripts in sessions: with no process, in the session's process, and what is left of them.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

need_bpf

S=ts$$
trap 'destroy_all; rm -rf "$t_root"' EXIT

# The counting script of these tests.
counting() {
  echo >the-file
  cat >count.bt <<END
begin { printf("begins n=%d\n", 1); }
tracepoint:syscalls:sys_enter_openat /comm == "counted" && str(args.filename) == "$T/the-file"/ {
  @opens[comm] = count();
  @number++;
  printf("open pid=%d file=%s\n", pid, str(args.filename));
}
END
}

# script_events DIR: those of the script, without their times.
script_events() {
  babeltrace2 --no-delta "$1/script" | sed -n 's/^\[[^]]*\] script:\([^:]*\): { [^}]* }, { \(.*\) }$/\1 \2/p'
}

a_flight_recorder_runs_a_script_without_a_process() {
  counting
  THE_ONE=${S}f "$RUTILE" start ${S}f --flight --script count.bt
  if grep -slz "^THE_ONE=${S}f" /proc/[0-9]*/environ; then return 1; fi
  opens 7
  "$RUTILE" show ${S}f >shown
  grep -qx '@opens\[counted\]: 7' shown
  grep -qx '@number: 7' shown
  [ "$(head -n 1 shown)" = 'begins n=1' ]
  [ "$(grep -c "^open pid=[0-9]* file=$T/the-file$" shown)" = 7 ]
  # To look changes nothing.
  "$RUTILE" show ${S}f | diff shown -
  "$RUTILE" show -f json ${S}f | python3 -c '
import json, sys
lines = [json.loads(l) for l in sys.stdin]
assert {"type": "map", "data": {"@opens": {"counted": 7}}} in lines, lines'
  "$RUTILE" status ${S}f >status
  grep -q "^script       $T/count.bt, 8 events printed$" status
  "$RUTILE" save ${S}f >profile
  grep -qx "script = $T/count.bt" profile
  "$RUTILE" snapshot ${S}f -o snap
  script_events snap >events
  sed -n 's/^begins n=1$/begins n = 1/p; s/^open pid=\(.*\) file=\(.*\)$/open pid = \1, file = "\2"/p' shown >expected
  printf '%s\n' '@number value = 7' '@opens key = "counted", value = 7' >>expected
  diff expected events
  readers snap >/dev/null
  "$RUTILE" destroy ${S}f
  [ ! -e /sys/fs/bpf/rutile/${S}f ]
}

a_stopped_session_counts_nothing_and_goes_on_later() {
  counting
  "$RUTILE" start ${S}s --flight --script count.bt
  opens 3
  "$RUTILE" stop ${S}s
  [ -z "$(find /sys/fs/bpf/rutile/${S}s -name 'link_*')" ]
  opens 5
  "$RUTILE" show ${S}s | grep -qx '@number: 3'
  "$RUTILE" start ${S}s
  opens 2
  "$RUTILE" show ${S}s | grep -qx '@number: 5'
  "$RUTILE" destroy ${S}s
}

# A new directory ends the one before it: no file stays open, and nothing is printed twice.
attach_closes_a_directory_that_vanished() {
  counting
  "$RUTILE" start ${S}v --flight -e syscall:openat --script count.bt
  "$RUTILE" attach ${S}v -o trace 2>said & local attach=$! had i
  t_wait grep -q "following '${S}v' into 'trace'" said
  opens 3
  files() { find "/proc/$attach/fd" -type l | wc -l; }
  had=$(files)
  for i in 1 2 3; do
    mv trace gone$i
    t_wait test -e trace/script/metadata
    opens 2
  done
  [ "$(files)" -le "$had" ]
  kill -INT "$attach"
  wait "$attach"
  script_events trace | grep '^open ' >events
  [ "$(wc -l <events)" = 2 ]
  "$RUTILE" destroy ${S}v
}

# What it has printed before, prints meanwhile, and counts: as `show` prints it afterwards.
attach_has_what_the_script_prints() {
  counting
  "$RUTILE" start ${S}t --flight -e syscall:openat --script count.bt
  opens 3
  "$RUTILE" attach ${S}t -o trace 2>said & local attach=$!
  t_wait grep -q "following '${S}t' into 'trace'" said
  opens 4
  kill -INT "$attach"
  wait "$attach"
  "$RUTILE" show ${S}t >shown
  [ "$(grep -c '^open pid=' shown)" = 7 ]
  script_events trace >events
  sed -n 's/^begins n=1$/begins n = 1/p; s/^open pid=\(.*\) file=\(.*\)$/open pid = \1, file = "\2"/p' shown >expected
  printf '%s\n' '@number value = 7' '@opens key = "counted", value = 7' >>expected
  diff expected events
  [ "$(babeltrace2 trace | grep -c "syscall_entry_openat.*filename = \"$T/the-file\"")" = 7 ]
  # The session goes on.
  opens 1
  "$RUTILE" show ${S}t | grep -qx '@number: 8'
  "$RUTILE" destroy ${S}t
}

# Killed at one of its last system calls, of which each pins a program, or behind all of them.
a_killed_start_records_nothing() {
  command -v strace >/dev/null || t_skip "no strace"
  counting
  "$RUTILE" start ${S}k --flight -e syscall:openat,syscall:getpgid --script count.bt
  opens 3
  "$RUTILE" stop ${S}k
  strace -f -o calls -e trace=bpf "$RUTILE" start ${S}k
  local all n states=0 times=0
  all=$(grep -c ' bpf(' calls)
  "$RUTILE" stop ${S}k
  for n in 40 15 8 5 3 2 1 0; do
    [ "$n" -lt "$all" ] || continue
    # This start may have a few calls less than the one that was counted: it is not killed then.
    if strace -f -o calls -e trace=bpf -e inject=bpf:signal=SIGKILL:when=$((all - n)) "$RUTILE" start ${S}k; then
      [ "$(grep -c ' bpf(' calls)" -lt $((all - n)) ]
      "$RUTILE" stop ${S}k
      continue
    fi
    "$RUTILE" status ${S}k >status
    if grep -q '^state .*its start was killed: start it again' status; then states=$((states + 1)); fi
    opens 5
    if [ "$n" = 5 ]; then
      "$RUTILE" stop ${S}k
      "$RUTILE" status ${S}k | grep -q '^state *stopped'
    fi
    "$RUTILE" start ${S}k
    "$RUTILE" status ${S}k | grep -q '^state *records'
    opens 2
    "$RUTILE" stop ${S}k
    [ -z "$(find /sys/fs/bpf/rutile/${S}k -name 'link_*')" ]
    times=$((times + 1))
  done
  echo "$all calls, $times times, $states half"
  [ "$states" -gt 2 ]
  "$RUTILE" show ${S}k | grep -qx "@number: $((3 + 2 * times))"
  "$RUTILE" snapshot ${S}k -o snap
  [ "$(babeltrace2 snap | grep -c "syscall_entry_openat.*filename = \"$T/the-file\"")" = $((3 + 2 * times)) ]
  "$RUTILE" destroy ${S}k
}

# More than the journal holds: what is kept is the newest, in order.
# With many probes the kernel detaches them when `stop` has returned. Those of before must count nothing, also not
# beside those that the session gets when it goes on.
many_probes_stop_at_once() {
  counting
  for name in mkdirat symlinkat linkat renameat mknodat fchmodat fchownat truncate getxattr setxattr quotactl; do
    echo "tracepoint:syscalls:sys_enter_$name { @others = count(); }"
  done >>count.bt
  "$RUTILE" start ${S}m --flight --script count.bt
  opens 3
  "$RUTILE" stop ${S}m
  [ -z "$(find /sys/fs/bpf/rutile/${S}m -name 'link_*')" ]
  opens 5
  "$RUTILE" show ${S}m | grep -qx '@number: 3'
  "$RUTILE" start ${S}m
  opens 2
  "$RUTILE" show ${S}m | grep -qx '@number: 5'
  "$RUTILE" status ${S}m >status
  if grep -q 'ended by exit' status; then cat status; return 1; fi
  "$RUTILE" destroy ${S}m
  [ ! -e /sys/fs/bpf/rutile/${S}m ]
}

# A link of the script that cannot be pinned: the session does not run without it.
a_resume_that_fails_stops_the_session() {
  counting
  for name in mkdirat symlinkat linkat renameat; do
    echo "tracepoint:syscalls:sys_enter_$name { @others = count(); }"
  done >>count.bt
  "$RUTILE" start ${S}q --flight -e syscall:getpgid --script count.bt
  opens 3
  link=$(find /sys/fs/bpf/rutile/${S}q -name 'link_script:*' | sort | tail -n 1)
  "$RUTILE" stop ${S}q
  mkdir "$link"
  not "$RUTILE" start ${S}q 2>err
  grep -q 'cannot pin' err || { cat err; return 1; }
  "$RUTILE" status ${S}q | grep -q '^state *stopped'
  rmdir "$link"
  [ -z "$(find /sys/fs/bpf/rutile/${S}q -name 'link_*')" ]
  opens 5
  "$RUTILE" start ${S}q
  opens 2
  "$RUTILE" show ${S}q | grep -qx '@number: 5'
  "$RUTILE" destroy ${S}q
}

the_journal_keeps_the_latest() {
  cat >many.bt <<END
tracepoint:syscalls:sys_enter_getpgid /comm == "asks-$$"/ { @n++; printf("call n=%d\n", args.pid); }
END
  "$RUTILE" start ${S}j --flight --script many.bt
  python3 - <<END
import os
open("/proc/self/comm", "w").write("asks-$$")
for i in range(1, 100001):
    try: os.getpgid(2**22 + i)
    except OSError: pass
END
  "$RUTILE" show ${S}j >shown
  grep -qx '@n: 100000' shown
  sed -n 's/^call n=//p' shown >numbers
  python3 - <<'END'
numbers = [int(l) - 2**22 for l in open("numbers")]
assert numbers[-1] == 100000, numbers[-1]
assert numbers == list(range(numbers[0], 100001)), "not in an unbroken row"
assert len(numbers) >= 10000, len(numbers)
END
  "$RUTILE" destroy ${S}j
}

a_session_that_writes_has_the_script_in_its_trace() {
  counting
  cat >>count.bt <<'END'
interval:ms:20 { @ticks++; printf("tick n=%d\n", @ticks); }
end { printf("ends n=%d\n", 2); }
END
  "$RUTILE" start ${S}w -o trace --script count.bt
  opens 4
  ticked() {
    [ "$("$RUTILE" show ${S}w | sed -n 's/^@ticks: //p')" -ge 3 ]
  }
  t_wait ticked
  "$RUTILE" destroy ${S}w
  script_events trace >events
  [ "$(grep -c "^open pid = [0-9]*, file = \"$T/the-file\"" events)" = 4 ]
  grep -q '^tick n = 3$' events
  grep -q '^ends n = 2$' events
  grep -qx '@number value = 4' events
  readers trace >/dev/null
}

each_directory_has_its_part() {
  counting
  "$RUTILE" start ${S}r -o 'trace-%s' --keep 2 --script count.bt 2>err || { cat err; return 1; }
  opens 2
  "$RUTILE" rotate ${S}r
  opens 3
  "$RUTILE" destroy ${S}r
  set -- trace-*
  [ $# = 2 ]
  [ "$(script_events "$1" | grep -c '^open')" = 2 ]
  [ "$(script_events "$2" | grep -c '^open')" = 3 ]
  # Maps go on.
  script_events "$2" | grep -qx '@number value = 5'
}

# consumer NAME: the process of that session.
consumer() {
  "$RUTILE" status "$1" | sed -n 's/^process *\([0-9]*\).*/\1/p'
}

# The script has written nothing before its directory is gone: what it wants to write then goes nowhere.
a_directory_that_vanishes_does_not_end_the_session() {
  counting
  sed -i '/printf/d' count.bt
  "$RUTILE" start ${S}v -o out --script count.bt
  pid=$(consumer ${S}v)
  opens 2
  mv out gone
  rm -rf gone
  wait_for out/script/metadata
  opens 3
  [ "$(consumer ${S}v)" = "$pid" ]
  "$RUTILE" destroy ${S}v
  [ "$(script_events out | grep number)" = '@number value = 5' ]
}

a_stopped_session_runs_no_intervals() {
  echo 'interval:ms:10 { @ticks++; }' >ticks.bt
  "$RUTILE" start ${S}i -o out --script ticks.bt
  ticks() {
    "$RUTILE" show ${S}i | sed -n 's/^@ticks: //p'
  }
  more() {
    [ "$(ticks)" -gt "$before" ]
  }
  # The session's process sees after a moment that it was stopped.
  still() {
    before=$(ticks)
    sleep 0.5
    [ "$(ticks)" = "$before" ]
  }
  before=2
  t_wait more
  "$RUTILE" stop ${S}i
  t_wait still
  "$RUTILE" start ${S}i
  t_wait more
  "$RUTILE" destroy ${S}i
}

# asks N: so many records of the script in many.bt.
asks() {
  python3 - "$1" <<END
import os, sys
open("/proc/self/comm", "w").write("asks-$$")
for i in range(int(sys.argv[1])):
    os.getpgid(0)
END
}

# discarded DIR: what the packets of its script's streams say.
discarded() {
  cat "$1"/script/script_* | python3 -c '
import struct, sys
data, at, lost = sys.stdin.buffer.read(), 0, 0
while at < len(data):
    size, _, one = struct.unpack_from("<QQQ", data, at + 56)
    at, lost = at + size // 8, lost + one
print(lost)'
}

# A process that is stopped until the journal wraps.
each_directory_counts_what_was_lost_in_it() {
  cat >many.bt <<END
tracepoint:syscalls:sys_enter_getpgid /comm == "asks-$$"/ { @n++; printf("call n=%d\n", args.pid); }
END
  "$RUTILE" start ${S}l -o 'out-%s' --keep 3 --script many.bt
  pid=$(consumer ${S}l)
  kill -STOP "$pid"
  t_wait t_is "$pid" T
  asks 100000
  kill -CONT "$pid"
  for n in 2 3; do
    "$RUTILE" rotate ${S}l
    asks "$n"
  done
  "$RUTILE" destroy ${S}l
  set -- out-*
  [ $# = 3 ]
  [ $(($(discarded "$1") + $(script_events "$1" | grep -c '^call'))) = 100000 ]
  [ "$(discarded "$1")" -gt 0 ]
  [ "$(discarded "$2") $(discarded "$3")" = '0 0' ]
  [ "$(script_events "$2" | grep -c '^call') $(script_events "$3" | grep -c '^call')" = '2 3' ]
}

a_script_that_cannot_be_opened_costs_no_events() {
  counting
  "$RUTILE" start ${S}o --flight -e syscall:getpgid --script count.bt
  asks 1
  rm /sys/fs/bpf/rutile/${S}o/script_map0
  "$RUTILE" snapshot ${S}o -o snap 2>err
  grep -q 'the maps of the session are not those of its script.*: the trace is without its output' err
  babeltrace2 snap >events
  grep -q syscall_entry_getpgid events
  [ ! -e snap/script ]
  "$RUTILE" stop ${S}o
  not "$RUTILE" start ${S}o 2>err
  grep -q 'the maps of the session are not those of its script' err
  "$RUTILE" status ${S}o | grep -q '^state        stopped'
  "$RUTILE" destroy ${S}o
}

# No such rate can be had: that is known when the probe is attached, after the script's trace was made.
a_start_that_fails_leaves_no_directory() {
  echo 'profile:hz:2000000000 { @x = count(); }' >bad.bt
  not "$RUTILE" start ${S}z -o out --script bad.bt 2>err
  grep -q 'cannot open profile:hz:2000000000: Invalid argument' err || { cat err; return 1; }
  [ ! -e out ]
}

what_needs_a_process_is_refused_in_a_flight_recorder() {
  refused() {
    printf '%s\n' "$1" >bad.bt
    not "$RUTILE" start ${S}x --flight --script bad.bt 2>err
    grep -qF -- "$2" err || { cat err; return 1; }
    [ ! -e /sys/fs/bpf/rutile/${S}x ]
  }
  refused 'interval:s:1 { @ = count(); }' 'bad.bt:1:1: error: this probe runs in a process, and a flight recorder has none'
  refused 'profile:hz:1 { @x = 1; clear(@x); }' 'bad.bt:1:24: error: clear() is done by a process'
  refused 'profile:hz:1 { time(); }' 'time() is done by a process'
  refused 'profile:hz:1 { system("id"); }' 'needs --unsafe'
  refused 'profile:hz:1 { print(nothing); }' "'nothing' is not known"
  refused 'profile:hz:1 { print(nothing); }' 'cannot run in a session'
  not "$RUTILE" start ${S}x --flight --script ./missing.bt 2>err
  grep -q "cannot open './missing.bt': No such file or directory" err
  not "$RUTILE" start ${S}x --script bad.bt 2>err
  grep -q -- '--script needs --flight or --output' err
  not "$RUTILE" show ${S}x 2>err
  grep -q "there is no session '${S}x'" err
  "$RUTILE" start ${S}y --flight -e syscall:getpid
  not "$RUTILE" show ${S}y 2>err
  grep -q 'the session has no script' err
  "$RUTILE" destroy ${S}y
}

a_killed_session_leaves_nothing() {
  counting
  "$RUTILE" start ${S}k -o trace --script count.bt
  pid=$(consumer ${S}k)
  kill -KILL "$pid"
  t_wait t_gone "$pid"
  "$RUTILE" list 2>err
  grep -q "removed the leftovers of '${S}k'" err
  [ ! -e /sys/fs/bpf/rutile/${S}k ]
}

a_script_acts_on_the_session_beside_it() {
  "$RUTILE" start ${S}c -p $$ --flight --buffer 1M -e syscall:getppid
  python3 -c 'import os; os.getppid()'
  "$RUTILE" run -q --session ${S}c -e '
    begin { @n = 0; }
    interval:ms:10 { @n++; if (@n == 2) { snapshot("slow"); } if (@n == 4) { stop(); exit(); } }' >text 2>err
  set -- slow-*
  [ $# = 1 ]
  babeltrace2 "$1" | grep -q syscall_entry_getppid
  "$RUTILE" status ${S}c | grep -q '^state        stopped'
  "$RUTILE" destroy ${S}c
  not "$RUTILE" run --session ${S}c -e 'begin { stop(); }' 2>err
  grep -q "there is no session '${S}c'" err
  not "$RUTILE" run -e 'begin { snapshot("x"); }' 2>err
  grep -q "stdin:1:9: error: snapshot() acts on a session: run the script beside it, with 'rutile run --session NAME'" err
}

record_writes_into_the_session() {
  echo "tracepoint:syscalls:sys_enter_getpgid /comm == \"asks-$$\"/ { record(\"asked\", args.pid); }" >record.bt
  "$RUTILE" start ${S}e --flight --script record.bt
  python3 -c "
import os
open('/proc/self/comm', 'w').write('asks-$$')
os.getpgid(0)"
  "$RUTILE" snapshot ${S}e -o snap
  [ "$(script_events snap)" = 'asked pid = 0' ]
  "$RUTILE" destroy ${S}e
}

the_service_starts_scripts() {
  mkdir none scripts
  counting
  mv count.bt scripts/${S}b.bt
  cp scripts/${S}b.bt scripts/${S}a.bt
  # Both: a flight recorder whose snapshot is written at its end.
  printf '# where it goes\noptions = --flight -o %s\n' "'$T/at the end'" >scripts/${S}b.conf
  "$RUTILE" service check --dir none --scripts scripts >check
  [ "$(grep -c ok check)" = 2 ]
  "$RUTILE" service start --dir none --scripts scripts
  "$RUTILE" service start --dir none --scripts scripts
  opens 2
  "$RUTILE" show ${S}a | grep -qx '@number: 2'
  "$RUTILE" service restart --dir none --scripts scripts ${S}a
  opens 1
  "$RUTILE" show ${S}a | grep -qx '@number: 1'
  "$RUTILE" show ${S}b | grep -qx '@number: 3'
  "$RUTILE" service status --dir none --scripts scripts >status
  [ "$(grep -c records status)" = 2 ]
  "$RUTILE" service stop --dir none --scripts scripts
  script_events 'at the end' | grep -qx '@number value = 3'
  rc=0
  "$RUTILE" service status --dir none --scripts scripts ${S}a || rc=$?
  [ "$rc" = 3 ]
  echo 'flight = yes' >scripts/${S}b.conf
  not "$RUTILE" service start --dir none --scripts scripts ${S}b 2>err
  grep -q "${S}b.conf, line 1: unknown option 'flight': options" err
}

# All events of all CPUs before the call that freezes, and none behind it: the program counts them.
a_script_freezes_a_flight_recorder() {
  cat >freeze.c <<'END'
#define _GNU_SOURCE
#include <sched.h>
#include <unistd.h>

static void calls(void)
{
	for (int i = 0; i < 500; i++)
		getsid(0);
}

static void everywhere(void)
{
	cpu_set_t set;

	for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (!sched_setaffinity(0, sizeof(set), &set))
			calls();
	}
}

int main(void)
{
	everywhere();
	getpgid(0);
	everywhere();
	return 0;
}
END
  cc -o freezes freeze.c
  printf '%s\n' 'tracepoint:syscalls:sys_enter_getpgid /comm == "freezes"/ { printf("at pid=%d\n", pid); stop(); }' >freeze.bt
  "$RUTILE" start "$S-f" --flight -e syscall_entry_getsid --context procname --filter 'procname == "freezes"' --script freeze.bt
  ./freezes & program=$!
  wait $program
  "$RUTILE" status "$S-f" | grep -q '^state *frozen by its script'
  "$RUTILE" show "$S-f" | grep -qx "at pid=$program"
  "$RUTILE" snapshot "$S-f" -o frozen >/dev/null
  babeltrace2 frozen >text 2>messages
  grep -c syscall_entry_getsid text >count || true
  [ "$(cat count)" -eq $((500 * $(nproc))) ]
  not grep -q 'discarded' messages
  # It goes on when it is started again.
  "$RUTILE" stop "$S-f"
  "$RUTILE" start "$S-f"
  not grep -q frozen <("$RUTILE" status "$S-f")
  "$RUTILE" destroy "$S-f"
  echo 'begin { snapshot("x"); }' >snap.bt
  not "$RUTILE" start "$S-g" --flight --script snap.bt 2>err
  grep -q 'snapshot() needs a process' err
}

# What is imported, and functions of the language itself, are compiled once when `show` and `snapshot` find the script.
a_script_with_the_text_of_others_is_found_again() {
  printf 'struct pair { int a; int b; };\nmacro twice(x) { x * 2 }\nbegin { @imported++; }\n' >more.bt
  printf '%s\n' 'import "more.bt"; begin { printf("n=%d %d %d\n", twice(3), sizeof(struct pair), is_err(0)); }' >main.bt
  "$RUTILE" start ${S}i --flight --script main.bt
  "$RUTILE" show ${S}i >shown
  grep -qx 'n=6 8 0' shown
  grep -qx '@imported: 1' shown
  "$RUTILE" destroy ${S}i
}

t_case "a script with the text of others is found again" a_script_with_the_text_of_others_is_found_again
t_case "a script freezes a flight recorder at once" a_script_freezes_a_flight_recorder
t_case "a flight recorder runs a script without a process" a_flight_recorder_runs_a_script_without_a_process
t_case "a stopped session counts nothing and can be resumed" a_stopped_session_counts_nothing_and_goes_on_later
t_case "a session with many probes counts nothing from its stop on, and each event once when it goes on" many_probes_stop_at_once
t_case "a resume that fails leaves the session stopped" a_resume_that_fails_stops_the_session
t_case "attach has what the script prints and counts" attach_has_what_the_script_prints
t_case "attach closes what it has of a directory that vanished" attach_closes_a_directory_that_vanished
t_case "a start that is killed while it resumes a session records nothing, and can be repeated" a_killed_start_records_nothing
t_case "the journal keeps the latest" the_journal_keeps_the_latest
t_case "a session that writes has the script in its trace" a_session_that_writes_has_the_script_in_its_trace
t_case "each directory has its part" each_directory_has_its_part
t_case "a directory that vanishes does not end the session" a_directory_that_vanishes_does_not_end_the_session
t_case "a stopped session runs no intervals" a_stopped_session_runs_no_intervals
t_case "each directory counts what was lost in it" each_directory_counts_what_was_lost_in_it
t_case "a script that cannot be opened costs no events" a_script_that_cannot_be_opened_costs_no_events
t_case "a start that fails leaves no directory" a_start_that_fails_leaves_no_directory
t_case "what needs a process is refused in a flight recorder" what_needs_a_process_is_refused_in_a_flight_recorder
t_case "a script acts on the session beside it" a_script_acts_on_the_session_beside_it
t_case "record() writes into the session" record_writes_into_the_session
t_case "the service starts scripts" the_service_starts_scripts
t_case "a killed session leaves nothing" a_killed_session_leaves_nothing
# ---- Probes of Ruby ----

# rubies CALLS CHILDREN: starts the program; its processes are in "rubies".
rubies() {
  # By a name that no other run of these tests has.
  cp "$SRC/tests/bpf/ruby_session.rb" "./${S}prog.rb"
  ruby "./${S}prog.rb" "$T" "$1" "$2" & echo $! >>parents
  t_wait has_children "$!" "$2"
  echo $! >>rubies
  pgrep -P $! >>rubies || :
}
has_children() {
  [ "$(pgrep -cP "$1")" = "$2" ]
}
all_have_agents() {
  while read -r p; do grep -q rutile-table "/proc/$p/maps" || return 1; done <rubies
}
all_have_counted() {
  while read -r p; do [ -e "counts.$p" ] || return 1; done <rubies
}
none_has_a_table() {
  while read -r p; do if grep -q rutile-table "/proc/$p/maps"; then return 1; fi; done <rubies
}
end_rubies() {
  : >stop
  while read -r p; do wait "$p"; done <parents
}

# What TracePoint counted, as the map @calls is printed; and the sum.
counted() {
  while read -r p; do echo "@calls[$p]: $(cat "counts.$p")"; done <rubies | sort
}

ruby_script() {
  cat >ruby.bt <<'END'
ruby:Order#total { @calls[pid] = count(); @kinds[args.kind] = count(); }
ruby:Order#total:return { @returns = count(); }
tracepoint:syscalls:sys_enter_openat /rmethod && str(args.filename) == "/dev/null"/ { @opens[rmethod] = count(); }
END
}

# shows FILE: the map of the calls is as TracePoint counted them.
shows() {
  "$RUTILE" show "$1" >shown
  grep '^@calls' shown | sort | diff <(counted) - &&
    [ "$(sed -n 's/^@returns: //p' shown)" = "$(cat counts.* | awk '{ n += $1 } END { print n }')" ]
}

ruby_in_a_flight_recorder() {
  ruby_script
  rubies 1000 2
  "$RUTILE" start ${S}rb --flight --script ruby.bt --script-target "$(cat parents)" --script-target ${S}prog.rb
  # A worker that starts later is found by its name.
  rubies 500 0
  t_wait all_have_agents
  "$RUTILE" save ${S}rb >profile
  grep -qx "script-target = ${S}prog.rb" profile
  "$RUTILE" status ${S}rb | grep -q "keeps the script's probes"
  sleep 0.3
  : >go
  t_wait all_have_counted
  t_wait shows ${S}rb
  grep -qx '@opens\[Order#closes\]: 12' shown || { cat shown; return 1; }
  "$RUTILE" snapshot ${S}rb -o snap
  babeltrace2 snap/script >events
  while read -r p; do
    grep -q "script:@calls: .* key = $p, value = $(cat "counts.$p") }" events
  done <rubies
  grep -q 'script:@opens: .* key = "Order#closes", value = 12 }' events
  "$RUTILE" stop ${S}rb
  t_wait none_has_a_table
  "$RUTILE" start ${S}rb
  t_wait all_have_agents
  "$RUTILE" destroy ${S}rb
  t_wait none_has_a_table
  end_rubies
}
t_case "a flight recorder counts calls of Ruby methods as TracePoint does, also of a worker that starts later" ruby_in_a_flight_recorder

ruby_in_a_recording() {
  ruby_script
  rubies 300 1
  "$RUTILE" start ${S}rr -o trace --script ruby.bt --script-target ${S}prog.rb
  t_wait all_have_agents
  sleep 0.3
  : >go
  t_wait all_have_counted
  t_wait shows ${S}rr
  "$RUTILE" save ${S}rr >profile
  "$RUTILE" destroy ${S}rr
  babeltrace2 trace/script >events
  while read -r p; do
    grep -q "script:@calls: .* key = $p, value = $(cat "counts.$p") }" events
  done <rubies
  # From what was saved it begins again.
  "$RUTILE" start ${S}r2 --profile profile -o again
  t_wait all_have_agents
  "$RUTILE" destroy ${S}r2
  end_rubies
}
t_case "a session that writes has probes of Ruby" ruby_in_a_recording

# The program notes when it calls. What an interval probe sees is what was called up to then; the median of many, as a
# call may come between the two, and a run may be late.
an_interval_sees_the_hits_before_it() {
  cat >order.rb <<'END'
class Order
  def total = 1
end
times = []
order = Order.new
sleep 0.02 until File.exist?("go")
until File.exist?("stop")
  times << Process.clock_gettime(Process::CLOCK_BOOTTIME, :nanosecond)
  order.total
  sleep 0.001
end
File.write("times", times.join("\n"))
END
  cat >seen.bt <<'EOF'
ruby:Order#total { @n = count(); }
interval:ms:70 { printf("seen %lld %lld\n", nsecs, @n); }
EOF
  ruby order.rb & local pid=$!
  echo $pid >rubies
  "$RUTILE" start ${S}ri -o trace --script seen.bt --script-target $pid
  t_wait all_have_agents
  : >go
  sleep 3
  "$RUTILE" show ${S}ri >shown
  : >stop
  wait $pid
  "$RUTILE" destroy ${S}ri
  # How many calls the probe missed, at each interval since the first call.
  ruby -e 'times = File.readlines("times").map(&:to_i)
    puts File.read("shown").scan(/^seen (\d+) (\d+)$/).map { |at, n| [times.count { |t| t < at.to_i }, n.to_i] }
             .filter_map { |calls, n| calls - n if calls > 0 }' | sort -n >missed
  [ "$(wc -l <missed)" -ge 10 ] || { head -5 shown times; false; }
  median=$(sed -n "$(($(wc -l <missed) / 2))p" missed)
  echo "missed: $median of some 70"
  [ "$median" -le 2 ]
}
t_case "an interval probe of a session sees the hits before it" an_interval_sees_the_hits_before_it

ruby_in_the_service() {
  mkdir none scripts
  ruby_script
  mv ruby.bt scripts/${S}sv.bt
  printf 'options = --flight --script-target %sprog.rb -o %s\n' "$S" "'$T/at the end'" >scripts/${S}sv.conf
  rubies 300 1
  "$RUTILE" service check --dir none --scripts scripts | grep -qx "${S}sv *ok"
  "$RUTILE" service start --dir none --scripts scripts
  t_wait all_have_agents
  sleep 0.3
  : >go
  t_wait all_have_counted
  t_wait shows ${S}sv
  "$RUTILE" service status --dir none --scripts scripts | grep -qx "${S}sv *records"
  # Without its process it has no probes of Ruby.
  kill -9 "$("$RUTILE" status ${S}sv | sed -n 's/^process *\([0-9]*\),.*/\1/p')"
  t_wait none_has_a_table
  rc=0
  "$RUTILE" service status --dir none --scripts scripts >status || rc=$?
  [ "$rc" = 3 ]
  grep -qx "${S}sv *its process has exited" status
  "$RUTILE" service restart --dir none --scripts scripts ${S}sv
  t_wait all_have_agents
  "$RUTILE" service status --dir none --scripts scripts | grep -qx "${S}sv *records"
  "$RUTILE" service stop --dir none --scripts scripts
  t_wait none_has_a_table
  end_rubies
}
t_case "the service starts scripts with probes of Ruby, and says when their process has ended" ruby_in_the_service

killed_holder() {
  ruby_script
  rubies 100 1
  "$RUTILE" start ${S}rk --flight --script ruby.bt --script-target ${S}prog.rb
  t_wait all_have_agents
  kill -9 "$("$RUTILE" status ${S}rk | sed -n 's/^process *\([0-9]*\),.*/\1/p')"
  t_wait none_has_a_table
  : >go
  t_wait all_have_counted
  end_rubies
  "$RUTILE" destroy ${S}rk
}
t_case "when the process of a session is killed, its Ruby processes go on without hooks" killed_holder

# One process is stopped when the session finds it: that is said once, and it is found again when it goes on.
stopped_ruby() {
  ruby_script
  mkdir logs
  rubies 1000 0
  rubies 700 0
  stopped=$(tail -n 1 rubies)
  kill -STOP "$stopped"
  t_wait t_is "$stopped" T
  RUTILE_LOG_DIR=$T/logs "$RUTILE" start ${S}st -o trace -e syscall:getpgid --context procname --script ruby.bt \
    --script-target ${S}prog.rb 2>said
  asks 20000
  sleep 2.5
  if grep -q rutile-table "/proc/$stopped/maps"; then return 1; fi
  cat said logs/* >all
  [ "$(grep -c "process $stopped is stopped" all)" = 1 ] || { cat all; return 1; }
  kill -CONT "$stopped"
  t_wait all_have_agents
  sleep 0.3
  : >go
  t_wait all_have_counted
  t_wait shows ${S}st
  "$RUTILE" destroy ${S}st
  [ "$(babeltrace2 trace 2>lost | grep -c "syscall_entry_getpgid.*\"asks-$$\"")" = 20000 ]
  not grep -q discarded lost
  end_rubies
}
t_case "a stopped Ruby process is tried again, and said once" stopped_ruby

# A process that holds Ruby's lock in a function of C is tried for 3 s each time. Meanwhile the session reads its buffers, which have room for
# a second, and hits of another process count.
held_ruby() {
  ruby -e 'require "fiddle"' 2>/dev/null || t_skip "no fiddle in this Ruby"
  ruby_script
  mkdir logs
  rubies 1000 0
  RUTILE_LOG_DIR=$T/logs "$RUTILE" start ${S}hr -o trace --buffer 512K -e syscall:getpgid --procname "asks-$$" --context procname --script ruby.bt \
    --script-target ${S}prog.rb --script-target ${S}held.rb 2>said
  t_wait all_have_agents
  cp "$SRC/tests/bpf/held.rb" "./${S}held.rb"
  : >held.go
  ruby "./${S}held.rb" held.go >held & held=$!
  trap 'kill -KILL "$held" 2>/dev/null' EXIT
  t_wait grep -qx held held
  python3 -c '
import os, sys, time
open("/proc/self/comm", "w").write(sys.argv[1])
for i in range(80):
    for i in range(1000):
        os.getpgid(0)
    time.sleep(0.1)' "asks-$$" & local asks=$!
  : >go
  t_wait all_have_counted
  t_wait shows ${S}hr
  wait "$asks"
  cat said logs/* >all
  grep -q "cannot attach the script's Ruby probes to process $held yet: no thread of process $held came to a place where it is safe" all
  "$RUTILE" destroy ${S}hr
  kill -KILL "$held"
  wait "$held" || :
  trap - EXIT
  [ "$(babeltrace2 trace 2>lost | grep -c "syscall_entry_getpgid.*\"asks-$$\"")" = 80000 ]
  not grep -q discarded lost
  end_rubies
}
t_case "a Ruby process that does not answer keeps no event from being read" held_ruby

# All of its processes are stopped when the session goes on: they have their probes when they go on, too.
stopped_at_resume() {
  ruby_script
  rubies 1000 0
  "$RUTILE" start ${S}sr --flight --script ruby.bt --script-target ${S}prog.rb
  t_wait all_have_agents
  "$RUTILE" stop ${S}sr
  t_wait none_has_a_table
  kill -STOP "$(cat rubies)"
  t_wait t_is "$(cat rubies)" T
  "$RUTILE" start ${S}sr
  sleep 1.5
  kill -CONT "$(cat rubies)"
  t_wait all_have_agents
  sleep 0.3
  : >go
  t_wait all_have_counted
  t_wait shows ${S}sr
  "$RUTILE" destroy ${S}sr
  end_rubies
}
t_case "a Ruby process that is stopped when its session is resumed has the probes later" stopped_at_resume

# again PID: starts the program with a PID that another one had.
again() {
  echo $(($1 - 1)) >/proc/sys/kernel/ns_last_pid
  ruby "./${S}prog.rb" "$T" 10 0 & second=$!
  [ "$second" = "$1" ] && return
  kill "$second"
  wait "$second" || :
  return 1
}

a_pid_is_one_process() {
  ruby_script
  cp "$SRC/tests/bpf/ruby_session.rb" "./${S}prog.rb"
  ruby "./${S}prog.rb" "$T" 10 0 & first=$!
  t_wait has_children "$first" 0
  rubies 20 0
  "$RUTILE" start ${S}pi --flight --script ruby.bt --script-target "$first" --script-target "$(cat rubies)"
  t_wait all_have_agents
  grep -q rutile-table "/proc/$first/maps"
  kill "$first"
  wait "$first" || :
  t_wait again "$first"
  sleep 3.5
  [ "$(tr '\0' ' ' <"/proc/$first/cmdline")" = "ruby ./${S}prog.rb $T 10 0 " ]
  not grep -q rutile "/proc/$first/maps"
  : >go
  t_wait test -e "counts.$first"
  t_wait test -e "counts.$(cat rubies)"
  rm "counts.$first"
  t_wait shows ${S}pi
  "$RUTILE" destroy ${S}pi
  : >stop
  wait "$second"
  end_rubies
}
t_case "a PID is the process that has it when the session is started" a_pid_is_one_process

ruby_mistakes() {
  ruby_script
  if "$RUTILE" start ${S}rm --flight --script ruby.bt 2>err; then return 1; fi
  grep -q 'ruby.bt:1:1: error: which processes? name them with --script-target TARGET' err
  echo 'tracepoint:syscalls:sys_enter_openat { @ = count(); }' >none.bt
  if "$RUTILE" start ${S}rm --flight --script none.bt --script-target puma 2>err; then return 1; fi
  grep -q 'has no probes of Ruby: --script-target is for these' err
}
t_case "probes of Ruby in a session need processes" ruby_mistakes

t_done
