#!/bin/sh
# SPDX-License-Identifier: MIT
# --filter: what the kernel lets pass, against what the program is known to do.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

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
  babeltrace2 t | grep -vc lttng_statedump || true
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

# Classes of events are told apart by name, contexts by value.
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
  "$RUTILE" start $S --flight -e 'syscall:getpgid' --filter '$evt.ret == -3 || $evt.pid == 1073741824'
  python3 work.py
  "$RUTILE" save $S >profile
  if "$RUTILE" add $S -e sched 2>err; then return 1; fi
  "$RUTILE" snapshot $S -o snap
  "$RUTILE" destroy $S
  readers snap >/dev/null
  [ "$(grep -c 'getpgid' bt2.out)" = 14 ]
  grep -qx 'filter = $evt.ret == -3 || $evt.pid == 1073741824' profile
}

t_case "numbers, arithmetic, and, or, not" test_numbers
t_case "signs" test_signs
t_case "texts and prefixes" test_texts
t_case "names of events, contexts" test_classes
t_case "what cannot be compiled is refused with the reason" test_refused
t_case "sessions and profiles" test_session
t_done
