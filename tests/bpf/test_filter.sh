#!/bin/bash
# SPDX-License-Identifier: MIT
# --filter: what the kernel lets pass, against what the program is known to do.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

trap '"$RUTILE" destroy w$$ 2>/dev/null; "$RUTILE" destroy x$$ 2>/dev/null; rm -rf "$t_root"' EXIT

# known: 50 pread64 of 0, 100 ... 4900 bytes; 3 opens of one file; 7 getpgid that fail, 5 that do not
program() {
  need_bpf
  : >a-known-file
  cat >work.py <<'END'
import os
fd = os.open("a-known-file", 0)
os.open("a-known-file", os.O_RDWR); os.open("a-known-file", os.O_WRONLY)
for i in range(50): os.pread(fd, i * 100, 1 << 40)
for i in range(7):
    try: os.getpgid(2**30)
    except OSError: pass
for i in range(5): os.getpgid(0)
END
}

# passes EVENTS FILTER: the number of records
passes() {
  rm -rf t
  # shellcheck disable=SC2086 # the rest is words
  "$RUTILE" record -o t -e "$1" --filter "$2" $3 -- /usr/bin/python3 work.py 2>/dev/null
  babeltrace2 t | grep -vc statedump || true
}

expect() {
  n=$(passes "$2" "$3" "${4:-}")
  [ "$n" = "$1" ] || { echo "'$3' lets $n pass, not $1" >&2; exit 1; }
}

test_numbers() {
  program
  expect 24 syscall_entry_pread64 '$evt.count > 2500'
  expect 25 syscall_entry_pread64 '$evt.count >= 2500'
  expect 1 syscall_entry_pread64 '$evt.count == 2500'
  expect 49 syscall_entry_pread64 '$evt.count != 2500 && $evt.pos == 1099511627776'
  expect 0 syscall_entry_pread64 '$evt.pos == 1099511627777'
  expect 12 syscall_entry_pread64 '($evt.count < 500 || ($evt.count > 1000 && $evt.count <= 1700)) && $evt.pos > 999999'
  expect 23 syscall_entry_pread64 '($evt.count & 4) == 4 && $evt.fd * 2 + 1 > $evt.fd && !($evt.count > 4500) && $evt.pos > 999999'
}

test_signs() {
  program
  expect 7 syscall_exit_getpgid '$evt.ret < 0'
  expect 7 syscall_exit_getpgid '$evt.ret == -3'
  expect 5 syscall_exit_getpgid '$evt.ret > 0'
  expect 7 syscall_entry_getpgid '$evt.pid == 1073741824'
}

test_texts() {
  program
  expect 3 syscall_entry_openat '$evt.filename == "a-known-file"'
  expect 3 syscall_entry_openat '$evt.filename =* "a-known-*"'
  expect 0 syscall_entry_openat '$evt.filename == "a-known-fil"'
  expect 0 syscall_entry_openat '$evt.filename == "a-known-file2"'
  expect 1 syscall_entry_openat '$evt.filename == "a-known-file" && ($evt.flags & 3) == 2'
  expect 1 sched_process_exec '$evt.filename =* "/usr/bin/python*"'
}

# Classes of events are distinguished by name, contexts by value.
test_classes() {
  program
  expect 12 'syscall:getpgid,syscall:pread64' '$evt.$name == "syscall_entry_getpgid"'
  expect 12 'syscall:getpgid,syscall:pread64' '$evt.$name == "syscall_exit_getpgid" && $evt.procname == "python3"' '--context procname,tid'
  expect 0 'syscall:getpgid' '$evt.procname == "ruby"' '--context pid,procname'
  expect 37 'syscall:getpgid,syscall_entry_pread64' '$evt.$name == "syscall_exit_getpgid" || $evt.count >= 2500'
}

test_refused() {
  program
  try() {
    ! "$RUTILE" record -o t -e syscall,sched --filter "$1" --duration 0.1 2>err || return 1
    [ ! -e t ] && [ "$(wc -l <err)" = 1 ] && grep -q -- "$2" err || { cat err; return 1; }
  }
  try '$evt.nothing == 1' "no selected event has a field 'nothing'"
  try '$evt.filename =~ "x"' 'regular expressions are not possible'
  try '$evt.filename =* "*x"' 'one .*. at the end'
  try '$evt.newname == "x"' 'only the first text'
  try '$evt.count == 1.5' 'whole numbers'
  try '$evt.fd ==' 'column'
  try '$evt.fd / 2 == 1' 'arithmetic'
}

# A session and a profile with a filter.
test_session() {
  program
  S=w$$
  "$RUTILE" start $S --flight -p $$ -e 'syscall:getpgid' --filter '$evt.ret == -3 || $evt.pid == 1073741824'
  python3 work.py
  "$RUTILE" save $S >profile
  "$RUTILE" snapshot $S -o snap
  "$RUTILE" destroy $S
  readers snap >/dev/null
  [ "$(grep -c 'getpgid' bt2.out)" = 14 ]
  grep -qx 'filter = $evt.ret == -3 || $evt.pid == 1073741824' profile
}

# Probes and tracepoints by their format: the same program, against its source.
test_probes() {
  need_bpf
  echo '#include <sys/sdt.h>' | cc -E - >/dev/null 2>&1 || t_skip "no sys/sdt.h (systemtap-sdt-dev)"
  cat >prog.c <<'END'
#include <sys/sdt.h>
#include <string.h>
__attribute__((noinline)) long work(long a, const char *s, int c)
{
	DTRACE_PROBE3(demo, step, a, s, c);
	return a * 2 + c;
}
/* Written to: only what is in memory can be read. */
static char text[2][16];
int main(int argc, char **argv)
{
	strcpy(text[0], "some"), strcpy(text[1], "every fifth");
	for (int i = 0; i < 1000; i++)
		work(i, text[!(i % 5)], -i);
	return 0;
}
END
  cc -O1 -o prog prog.c
  count() {
    rm -rf t
    "$RUTILE" record -o t -e "$1" --filter "$2" $3 -- ./prog 2>/dev/null
    n=$(babeltrace2 t | grep -vc 'statedump\|rutile_stack' || true)
    [ "$n" = "$4" ] || { echo "$1 '$2' lets $n pass, not $4" >&2; exit 1; }
  }
  U="usdt:$PWD/prog:demo:step(a,s:str,c)"
  count "$U" '$evt.a >= 990' '' 10
  count "$U" '$evt.c < -900' '' 99
  count "$U" '$evt.s == "every fifth" && $evt.a < 100' '' 20
  count "$U" '$evt.s =* "ev*"' '' 200
  count "uprobe:$PWD/prog:work(a,s:str)" '$evt.a == 77' '' 1
  count "uretprobe:$PWD/prog:work" '$evt.ret > 500' '' 499
  # a * 2 - a = a; the name of the class, contexts
  count "$U,uretprobe:$PWD/prog:work" '$evt.$name == "demo:step" && $evt.procname == "prog"' '--context procname' 1000
  # One event's field; others have none of that name.
  count "$U,syscall" '$evt.c == -3' '' 1
  rm -rf t
  "$RUTILE" record -o t -e 'syscalls:sys_enter_openat,task:task_rename' \
    --filter '$evt.newcomm == "known-name" || $evt.flags == 524288' -- sh -c 'cp /bin/dash known-name; ./known-name -c :'
  babeltrace2 t | grep -v statedump >out
  [ "$(grep -c 'task_rename:.*newcomm = "known-name"' out)" = 1 ]
  [ "$(grep -c 'task_rename:' out)" = 1 ]
  if grep sys_enter_openat out | grep -v 'flags = 524288'; then return 1; fi
  [ "$(grep -c sys_enter_openat out)" -ge 2 ]
  if "$RUTILE" record -o u -e "$U" --filter '$evt.nothing == 1' --duration 0.1 2>err; then return 1; fi
  grep -q "no selected event has a field 'nothing'" err
}

# What is added is filtered like the rest, what was there stays so.
test_add() {
  program
  S=x$$
  "$RUTILE" start $S --flight -p $$ -e 'syscall:getpgid,syscall_entry_pwrite64,syscall_entry_dup3' \
    --filter '$evt.ret == -3 || $evt.count >= 2500 || $evt.oldfd == 12345 || $evt.pos == 7'
  python3 work.py
  "$RUTILE" add $S -e 'syscall_entry_pread64,sched_switch'
  python3 work.py
  "$RUTILE" remove $S -e 'syscall:getpgid'
  "$RUTILE" add $S -e syscalls:sys_enter_dup3
  python3 -c 'import os
os.dup2(2, 77, inheritable=False)
try: os.dup2(12345, 77, inheritable=False)
except OSError: pass'
  python3 work.py
  "$RUTILE" stop $S
  "$RUTILE" start $S
  python3 work.py
  "$RUTILE" snapshot $S -o snap
  "$RUTILE" destroy $S
  readers snap >/dev/null
  sed "s/.*vm \([a-z_0-9]*\):.*/\1/" bt2.out | sort | uniq -c
  [ "$(grep -c 'syscall_exit_getpgid' bt2.out)" = 14 ]
  if grep 'syscall_exit_getpgid' bt2.out | grep -v 'ret = -3'; then return 1; fi
  [ "$(grep -c 'syscall_entry_pread64' bt2.out)" = 75 ]
  [ "$(grep -c 'sys_enter_dup3:' bt2.out)" = 1 ]
  if grep sched_switch: bt2.out; then return 1; fi
  # A filter that cannot be compiled for what is added refuses it; the session continues.
  "$RUTILE" start $S --flight -e 'syscall:getpgid' --filter '$evt.oldname == "x" || $evt.ret == -3'  2>err && return 1
  "$RUTILE" start $S --flight -e 'syscall:getpgid' --filter '$evt.newname == "x" || $evt.ret == -3'  2>err && return 1
  "$RUTILE" start $S --flight -e 'syscall:getpgid,syscall:rename' --filter '$evt.oldname == "x" || $evt.ret == -3'
  if "$RUTILE" add $S -e 'usdt:/nowhere:a:b' 2>err; then return 1; fi
  python3 work.py
  "$RUTILE" status $S | grep -q 'state *records, 2 programs'
  "$RUTILE" destroy $S
}

t_case "numbers, arithmetic, and, or, not" test_numbers
t_case "signs" test_signs
t_case "texts and prefixes" test_texts
t_case "names of events, contexts" test_classes
t_case "what cannot be compiled is refused with the reason" test_refused
t_case "sessions and profiles" test_session
t_case "probes, functions, tracepoints by their format" test_probes
t_case "events that are added to a session with a filter" test_add
t_done
