#!/bin/bash
# SPDX-License-Identifier: MIT
# `rutile profile`, against programs that measure themselves.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
ruby=${RUTILE_RUBY:-ruby}

pid='' recorder=''

# What a case leaves when it fails: the programs would wait for ever.
clean_up() {
  [ -z "$recorder" ] || kill -INT "$recorder" 2>/dev/null || :
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || :
}

# launch WHAT: starts profile.rb, which waits for the file "go".
launch() {
  "$ruby" "$SRC/tests/bpf/profile.rb" "$1" "$PWD/go" "$PWD/truth" & pid=$!
  trap clean_up EXIT
  t_wait test -e truth.ready
}

# go: the program runs to its end, recorded into "trace".
go() {
  recording trace
  : >go
  wait "$pid"
  pid=''
  kill -INT "$recorder"
  wait "$recorder"
  recorder=''
}

# profiled WHAT [OPTION...]: the profile of profile.rb from its first to its last moment, in `out`.
profiled() {
  launch "$1"
  shift
  "$RUTILE" profile "$pid" -o trace --lines 1000 "$@" >out & recorder=$!
  go
  cat out
}

# near COLUMN: what the table says of each method is within 2 % (of all) of what the program measured.
near() {
  awk -v column="$1" 'NR == FNR { truth[$1] = $2; sum += $2; next }
    $5 in truth { seen++
      error = ($column - truth[$5]) / sum * 100
      printf "%s: %.3f, truth %.3f, %.2f %% off\n", $5, $column, truth[$5], error
      if (error > 2 || error < -2) bad = 1 }
    END { for (n in truth) want++; exit bad || seen != want }' truth out
}

test_cpu() {
  need_bpf
  profiled cpu --hz 997
  near 3
}
t_case "shares of CPU time" test_cpu

test_waits() {
  need_bpf
  profiled waits --off-cpu
  near 3
  grep -q 'sleep .* %' out
  "$RUTILE" view --folded --event sched_switch trace >folded
  grep -q ';Object#nap;' folded
}
t_case "times of waiting" test_waits

# The same waits from a trace of context switches with Ruby stacks, with their reasons.
test_rubyoffcpu() {
  need_bpf
  launch waits
  "$RUTILE" record -p "$pid" -e sched_switch:ruby-stack,sched_waking,syscall -o trace & recorder=$!
  go
  "$RUTILE" rubyoffcpu --limit 1000 trace | tee text
  "$RUTILE" rubyoffcpu --limit 1000 --mi trace >mi
  "$RUTILE" rubyoffcpu --mi --tid 1 trace >none
  python3 - mi truth none <<'PYTHON'
import json, sys
def tables(path):
    val = lambda c: c and c.get("value", c.get("path"))
    return {t["class"]: [[val(c) for c in r] for r in t["data"]] for t in json.load(open(path))["results"]}
mi = tables(sys.argv[1])
total = {r[0]: r[4] / 1e9 for r in mi["per-method"]}
# What the program measured has the wait in it, and what it had others wait for is in the wait. The
# slack is for the moments between.
SLACK = 0.02
for line in open(sys.argv[2]):
    method, seconds, least, waits = line.split()
    print(method, total[method], seconds, least)
    assert total[method] <= float(seconds) + SLACK * int(waits)
    assert total[method] >= float(least) - SLACK * int(waits)
# By reason, without the time in the run queue: no wait is shorter than the program made it.
reasons = {}
for line, method, reason, _, _, ns, *_ in mi["per-line"]:
    reasons[method, reason] = reasons.get((method, reason), 0) + ns / 1e9
print(reasons)
assert reasons["Kernel#sleep", "sleep"] >= 10 * (0.15 + 0.05 + 0.08 - 3 * SLACK)
assert reasons["Thread::Mutex#synchronize", "lock"] >= 10 * (0.08 - SLACK)
assert not tables(sys.argv[3])
PYTHON
  grep -q '^Kernel#sleep  *sleep .*profile.rb:[0-9]*$' text
  # Without Ruby stacks it says how to get them.
  "$RUTILE" record -o plain -e sched_switch -- true
  "$RUTILE" rubyoffcpu plain | grep -q 'sched_switch:ruby-stack'
}
t_case "rubyoffcpu: the times of waiting, by method and line, with their reasons" test_rubyoffcpu

test_gvl() {
  need_bpf
  profiled gvl --wall --folded
  # Two threads that compute take turns: while one runs the other one waits to be let in.
  awk '/Object#burn/ { line = $0; sub(/ [0-9]+$/, "", line); n = split(line, part, ";")
      if (part[n] == "(GVL)") gvl += $NF; else if (part[n] !~ /^\(/) cpu += $NF }
    END { print gvl, cpu; exit !(gvl > cpu * 0.8) }' out
}
t_case "waiting for the GVL" test_gvl

test_c() {
  need_bpf
  cat >prog.c <<'EOF'
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static volatile long sink;
__attribute__((noinline)) void work(double s) { double end = now() + s; while (now() < end) for (int i = 0; i < 20000; i++) sink += i; }
__attribute__((noinline)) void three(void) { work(0.03); __asm__ volatile(""); }
__attribute__((noinline)) void one(void) { work(0.01); __asm__ volatile(""); }
int main(void) { while (access("go", 0)) usleep(10000); for (int i = 0; i < 50; i++) { three(); one(); } return 0; }
EOF
  cc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -o prog prog.c
  ./prog & pid=$!
  trap clean_up EXIT
  "$RUTILE" profile "$pid" --hz 997 -o trace --lines 1000 >out & recorder=$!
  go
  printf 'three 1.5\none 0.5\n' >truth
  cat out
  near 3
}
t_case "a program without Ruby" test_c

test_lines() {
  need_bpf
  profiled cpu --by line
  line=$(grep -n 'x += 1 until' "$SRC/tests/bpf/profile.rb" | cut -d: -f1)
  awk -v want="profile.rb:$line" 'NR > 2 { top = $5; exit } END { print top; exit index(top, want) == 0 }' out
}
t_case "by line" test_lines
t_done
