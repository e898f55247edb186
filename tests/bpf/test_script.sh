#!/bin/bash
# SPDX-License-Identifier: MIT
# `rutile run`, against counts that are known.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

# started FILE: the script says that it is attached.
started() {
  t_wait grep -q '^Attached' "$1"
}

test_count() {
  need_bpf
  # 500 calls of one process by its own number, and those of no other.
  "$RUTILE" run -e 'tracepoint:syscalls:sys_enter_kill /args.sig == 0 && args.pid == $1/ { @[pid == $1] = count(); @n++; @s = sum(args.sig + 2); }' \
    $$ >out 2>err & script=$!
  started err
  bash -c 'for i in {1..500}; do kill -0 '$$'; done'
  kill -INT $script
  wait $script
  cat out err
  grep -qx '@\[false\]: 500' out
  grep -qx '@n: 500' out
  grep -qx '@s: 1000' out
}
t_case "counts are exact" test_count

test_two_cpus() {
  need_bpf
  "$RUTILE" run -e 'tracepoint:syscalls:sys_enter_kill /args.pid == $1/ { @n++; @c = count(); @k[0]++ }' \
    $$ >out 2>err & script=$!
  started err
  for i in 1 2 3 4; do bash -c 'for i in {1..3000}; do kill -0 '$$'; done' & jobs+=($!); done
  wait "${jobs[@]}"
  kill -INT $script
  wait $script
  cat out err
  grep -qx '@n: 12000' out
  grep -qx '@c: 12000' out
  grep -qx '@k\[0\]: 12000' out
}
t_case "no update is lost between CPUs" test_two_cpus

test_printf() {
  need_bpf
  "$RUTILE" run -e 'begin { $a = -7; printf("%d %s %x\n", $a / 2, "x", 255); if ($a < 0) { printf("less\n") } else { printf("more\n") } exit() } end { printf("end %d\n", 1 ? 2 : 3) }' >out 2>err
  cat out err
  printf -- '-3 x ff\nless\nend 2\n' >want
  grep -v '^$' out | diff want -
}
t_case "printf, if and end" test_printf

test_string() {
  need_bpf
  "$RUTILE" run -e 'tracepoint:syscalls:sys_enter_mkdir* { printf("%s\n", str(args.pathname)) }
    tracepoint:syscalls:sys_enter_rmdir /str(args.pathname) == str($1)/ { exit() }' "end-$$" >out 2>err & script=$!
  started err
  mkdir "one-$$" "two words-$$" "end-$$"
  rmdir "one-$$" "end-$$"
  wait $script
  printf '%s\n' "one-$$" "two words-$$" "end-$$" >want
  grep -e "-$$\$" out | diff want -
}
t_case "strings of the traced program" test_string

test_errors() {
  for want in 'did you mean .printf.' 'did you mean .filename.' 'no tracepoint matches' 'is not known' 'division by zero' 'does not fit' "';' is missing"; do
    case $want in
      *printf*) program='begin { pritnf("x") }' ;;
      *filename*) program='tracepoint:syscalls:sys_enter_openat { print(args.filenam) }' ;;
      *matches*) program='tracepoint:syscalls:sys_enter_nothing { @ = count() }' ;;
      *known*) program='begin { @ = nothing }' ;;
      *zero*) program='begin { @ = pid / 0 }' ;;
      *fit*) program='begin { @ = 99999999999999999999 }' ;;
      *) program='begin { @ = 1 @ = 2 }' ;;
    esac
    if timeout 10 "$RUTILE" run -e "$program" >out 2>err; then return 1; fi
    cat err
    grep -q "$want" err
    grep -q '^stdin:1:[0-9]*: error: ' err
    grep -q '^ *^' err
  done
}
t_case "errors have line, column and a suggestion" test_errors

test_killed() {
  need_bpf
  before=$(bpftool prog show | grep -c ' name script' || true)
  "$RUTILE" run -e 'tracepoint:sched:sched_switch { @ = count() } interval:s:1 { print(@) }' >out 2>err & script=$!
  started err
  kill -KILL $script
  wait $script || true
  gone() { [ "$(bpftool prog show | grep -c ' name script')" -le "$before" ]; }
  t_wait gone
}
t_case "a script that is killed leaves nothing" test_killed

t_done
