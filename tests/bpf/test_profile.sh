#!/bin/bash
# SPDX-License-Identifier: MIT
# `rutile profile`, against programs that measure themselves.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
ruby=${RUBY:-ruby}

pid='' recorder=''

# What a case leaves when it fails: the programs would never end.
clean_up() {
  # shellcheck disable=SC2086 # there may be several
  [ -z "$recorder" ] || kill -INT $recorder 2>/dev/null || :
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || :
  no_slow_disk
}

# launch WHAT: starts profile.rb, which waits for the file "go".
launch() {
  "$ruby" "$SRC/tests/bpf/profile.rb" "$1" "$PWD/go" "$PWD/truth" & pid=$!
  trap clean_up EXIT
  t_wait test -e truth.ready
}

# go: the program runs to its end, recorded into "trace": the recorder ends with it.
go() {
  recording trace
  : >go
  wait "$pid"
  pid=''
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

# A disk of which 40 pages a second can be read, which is the truth.
test_slow_disk() {
  need_bpf
  trap clean_up EXIT
  slow_disk 40
  export DISK=$disk READS=40
  launch disk
  echo "$pid" >"$slow_group/cgroup.procs"
  "$RUTILE" profile "$pid" --off-cpu --folded -o trace >out & recorder=$!
  go
  grep from_disk out
  # All of a read is waiting for the disk, but for the queue of the CPU behind it.
  awk 'NR == FNR { if ($1 == "Object#from_disk") { want = $2; least = $3 } next }
    /;Object#from_disk;.*;IO#pread;.*;io_schedule[^ ]*;\(disk\) / { disk += $NF / 1e6 }
    /;Object#from_disk;.*;\(run queue\) / { queue += $NF / 1e6 }
    /;Object#from_disk;/ { all += $NF / 1e6 }
    END { print "disk", disk, "queue", queue, "all", all, "truth", want, "at least", least
      exit !(all > want * 0.98 && all < want * 1.02 && disk + queue > all * 0.99 && disk > least && disk < want) }' truth out
}
t_case "a slow disk: the time that its reads took" test_slow_disk

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

# Before Ruby 3.2 Ruby reports no wait for its lock. What rubyoffcpu says of it is computed once more from plain events
# of the same trace, without stacks: threads that only compute wait for nothing else, so each futex() of one in
# which it sleeps is such a wait, from the switch away to the wake-up.
test_gvl_futex() {
  need_bpf
  cat >gvl.rb <<'RUBY'
File.write("truth.ready", "")
sleep 0.01 until File.exist?("go")
x = 3.times.map { |n| Thread.new { x = 0; 10_000_000.times { x += n }; x } }.sum(&:value)
RUBY
  "$ruby" --disable-gems gvl.rb & pid=$!
  trap clean_up EXIT
  t_wait test -e truth.ready
  "$RUTILE" record -p "$pid" -e sched_switch:ruby-stack,sched_waking,syscall:futex --context pid,tid -o trace & recorder=$!
  go
  "$RUTILE" rubyoffcpu --limit 100000 --mi trace >mi
  babeltrace2 trace >bt2.out
  python3 - mi bt2.out <<'PYTHON'
import json, re, sys
val = lambda c: c and c.get("value", c.get("path"))
tables = {t["class"]: [[val(c) for c in r] for r in t["data"]] for t in json.load(open(sys.argv[1]))["results"]}
said = [r for r in tables["per-line"] if r[0] == "gvl.rb:3" and r[2] == "GVL"]
num = lambda line, name: int(re.search(r"\b%s = (-?\w+)" % name, line)[1], 0)
inside, out, woken, waits, ns = set(), {}, {}, 0, 0
for line in open(sys.argv[2]):
    m = re.match(r"\[(\d+):(\d+):(\d+)\.(\d+)\].* (sched_switch|sched_waking|syscall_entry_futex|syscall_exit_futex): ", line)
    if not m:
        continue
    h, minute, s, fraction, name = m.groups()
    now = ((int(h) * 60 + int(minute)) * 60 + int(s)) * 10**9 + int(fraction)
    if name == "syscall_entry_futex":
        inside |= {num(line, "tid")} - {num(line, "pid")}
    elif name == "syscall_exit_futex":
        inside.discard(num(line, "tid"))
    elif name == "sched_switch":
        # It runs: it waited until it was woken, which may have been before it was off its CPU.
        tid = num(line, "next_tid")
        if tid in out:
            wait = max(0, woken.get(tid, now) - out.pop(tid))
            ns += wait
            waits += wait > 0
        woken.pop(tid, None)
        tid = num(line, "prev_tid")
        # A thread that begins waits for the lock before it has a frame.
        if tid in inside and num(line, "prev_state") and num(line, "ruby_stack_id"):
            out[tid] = now
    else:
        woken.setdefault(num(line.split("}, {")[-1], "tid"), now)
print(waits, ns, said)
assert waits > 5
# The slack: waits at the edges of the trace, of which a part is seen. Their number is not compared: a thread that is woken
# while it leaves its CPU has waited for a few microseconds, or not at all, as one takes it.
assert abs(sum(r[5] for r in said) - ns) <= ns / 100 + 2 * max(r[7] for r in said)
PYTHON
}
t_case "waits for the GVL are those of plain events" test_gvl_futex

# An allocation is sampled with its line, its class and all of its callers; the totals are exact.
test_alloc() {
  launch alloc
  "$RUTILE" profile --alloc "$pid" --every 20 --by line -o trace --lines 1000 >out & recorder=$!
  t_wait grep -qs ruby:alloc_sample "trace/ruby-$pid/metadata"
  : >go
  wait "$recorder"
  head -8 out
  recorder='' pid=''
  readers trace >/dev/null
  grep -q 'ruby:alloc_sample: .*class = ( "Array" .*"Object#one" .*"Object#allocate" ' bt2.out
  # Ruby counts its own objects, too. Before the count begins, and after it, the program does little.
  awk 'NR == FNR { truth[$2] = $3; next }
    FNR == 1 { got = $1 + $6; print got, truth["-"]; if (got < truth["-"] || got > truth["-"] + 5000) bad = 1 }
    FNR > 2 { n = split($5, part, ":"); if (part[n] in truth) {
      seen++; error = ($1 - truth[part[n]]) / truth["-"] * 100
      print $5, $1, truth[part[n]], error " %"; if (error > 2 || error < -2) bad = 1 } }
    END { exit bad || seen != 3 }' truth out
}
t_case "allocations: shares by line, and Ruby's own total" test_alloc

# By bytes, folded, over processes that come and go.
test_alloc_forks() {
  launch fork
  "$RUTILE" profile --alloc "$pid" --every 1k --folded -o trace >out & recorder=$!
  t_wait grep -qs ruby:alloc_sample "trace/ruby-$pid/metadata"
  : >go
  wait "$recorder"
  recorder='' pid=''
  [ "$(find trace -name 'ruby-*' | wc -l)" = 21 ]
  babeltrace2 trace | awk '/ruby:allocated/ { sub(/.*objects = /, ""); n += $1 } END { print n; exit n < 20 * 16000 || n > 20 * 17000 }'
  # Slots have 40 bytes at least.
  awk '/;Object#allocate;.*;Object#six;.*;Object [0-9]+$/ { n += $NF } END { print n; exit n < 20 * 6000 * 40 * 0.8 }' out
  for t_bad in '--every 0' '--every 1x' '--by class 1' '--alloc --all' '--alloc --wall 1' '--every 10 1'; do
    # shellcheck disable=SC2086 # words
    not "$RUTILE" profile $t_bad 2>err
    grep -qE 'invalid number|--alloc' err
  done
}
t_case "allocations of processes that are forked, by bytes" test_alloc_forks

# three_and_one TIMES: starts a C program that computes so often for 30 ms in three() and 10 ms in one(), once "go" is there.
three_and_one() {
  cat >prog.c <<'EOF'
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static volatile long sink;
__attribute__((noinline)) void work(double s) { double end = now() + s; while (now() < end) for (int i = 0; i < 20000; i++) sink += i; }
__attribute__((noinline)) void three(void) { work(0.03); __asm__ volatile(""); }
__attribute__((noinline)) void one(void) { work(0.01); __asm__ volatile(""); }
int main(int argc, char **argv)
{
	while (access("go", 0)) usleep(10000);
	for (int i = atoi(argv[argc - 1]); i; i--) { three(); one(); }
	return 0;
}
EOF
  cc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -o prog prog.c
  ./prog "$1" & pid=$!
  trap clean_up EXIT
}

test_c() {
  need_bpf
  three_and_one 50
  "$RUTILE" profile "$pid" --hz 997 -o trace --lines 1000 >out & recorder=$!
  go
  printf 'three 1.5\none 0.5\n' >truth
  cat out
  near 3
}
# The target ends before its child, which becomes a zombie: nobody waits for it, but it runs no more.
test_ends_with_the_last() {
  need_bpf
  cat >family.py <<'EOF'
import ctypes, os, time
def until(name):
    while not os.path.exists(name):
        time.sleep(0.01)
def work():
    begun = time.process_time()
    while time.process_time() - begun < 0.5: pass
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
target = os.fork()
if not target:
    until("go")
    if not os.fork():
        work()
        until("end")
        os._exit(0)
    os._exit(0)
open("target.new", "w").write(str(target))
os.rename("target.new", "target")
os.waitpid(target, 0)
open("gone", "w")
time.sleep(300)
EOF
  python3 family.py & pid=$!
  trap clean_up EXIT
  t_wait test -e target
  for verb in "profile --hz 997 $(cat target)" "record -e profile:997 -p $(cat target)"; do
    # shellcheck disable=SC2086 # they are words
    "$RUTILE" $verb -o "${verb%% *}" >"${verb%% *}.out" 2>"${verb%% *}.err" &
    recorder="$recorder $!"
  done
  t_wait test -e record/kernel/metadata
  t_wait test -e profile/kernel/metadata
  sleep 1
  : >go
  t_wait test -e gone
  sleep 2
  for r in $recorder; do kill -0 "$r"; done
  : >end
  for r in $recorder; do
    t_wait ended "$r"
    wait "$r"
  done
  recorder=''
  head profile.out record.err
  # Half a second on the CPU at 997 Hz.
  for t in profile record; do
    n=$("$RUTILE" view --count --event rutile_sample $t)
    echo "$t: $n samples"
    [ "$n" -gt 400 ]
  done
  grep -q CPU profile.out
  grep -q ' events lost' record.err
}
ended() { not kill -0 "$1" 2>/dev/null; }
t_case "profile and record end with the last process of their targets" test_ends_with_the_last

t_case "a program without Ruby" test_c

# On a terminal each interval is a trace of its own, of which only the stacks are read: the names of native frames
# and the shares are those of the whole, and nothing is left.
test_terminal() {
  need_bpf
  three_and_one 75
  find /tmp -maxdepth 1 -name 'rutile-profile-*' | sort >before
  python3 - "$RUTILE" "$pid" >shown <<'PYTHON'
import os, pty, signal, subprocess, sys, time
rutile, pid = sys.argv[1:]
ours, theirs = pty.openpty()
p = subprocess.Popen([rutile, "profile", pid, "--hz", "997", "--refresh", "400ms", "--lines", "100"],
                     stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=os.environ | {"TERM": "xterm"})
os.close(theirs)
os.set_blocking(ours, False)
text = b""
def read(seconds):
    global text
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            text += os.read(ours, 65536)
        except BlockingIOError:
            time.sleep(0.02)
        except OSError:
            return
read(1.5)
open("go", "w").close()
def runs():
    try:
        return " Z " not in open(f"/proc/{pid}/stat").read()
    except OSError:
        return False
while runs():
    read(0.1)
read(0.5)
p.send_signal(signal.SIGINT)
read(5)
p.wait()
# The table that is printed after the screen was left.
open("out", "w").write(text.decode().split("\x1b[?1049l")[-1].replace("\r", ""))
print(text.count(b"three"))
PYTHON
  wait "$pid"
  pid=''
  cat shown out
  [ "$(cat shown)" -ge 2 ]
  printf 'three 2.25\none 0.75\n' >truth
  near 3
  find /tmp -maxdepth 1 -name 'rutile-profile-*' | sort | cmp before -
}
t_case "a terminal: shares and names over several intervals" test_terminal

# Code without frame pointers, as a distribution builds it: through qsort() of libc, and out of a signal's handler.
test_no_frame_pointers() {
  need_bpf
  cat >prog.c <<'EOF'
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static volatile long sink;
__attribute__((noinline)) void work(void) { for (int i = 0; i < 200000; i++) sink += i; }
__attribute__((noinline)) void on_signal(int sig) { work(); sink++; }
__attribute__((noinline)) int compare(const void *a, const void *b) { raise(SIGUSR1); sink++; return *(int *)a - *(int *)b; }
__attribute__((noinline)) void sorts(int n) { int v[n]; for (int i = 0; i < n; i++) v[i] = n - i; qsort(v, n, sizeof(*v), compare); sink++; }
int main(void) { signal(SIGUSR1, on_signal); while (access("stop", 0)) { sorts(8); sink++; } return 0; }
EOF
  cc -O2 -fomit-frame-pointer -fno-optimize-sibling-calls -o prog prog.c
  ./prog & pid=$!
  trap clean_up EXIT
  "$RUTILE" profile "$pid" --hz 499 --folded --duration 2s >out
  : >stop
  cat out
  # Some samples are in the making of the signal.
  awk '{ all += $NF } /^prog;_start;(__)?libc_start[^;]*;.*;main;sorts;qsort[^;]*;.*;compare;.*;__restore_rt;on_signal;work[ ;]/ { good += $NF }
    END { print good, all; exit !(all > 0 && good > all * 0.7) }' out
}
t_case "a program without frame pointers" test_no_frame_pointers

# Ruby calls qsort() of libc, which calls Ruby, which calls qsort() again: Ruby, native and kernel frames as they were called.
order_program() {
  cat >order.rb <<'EOF'
require "fiddle"
VOID, SIZE = Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T
QSORT = Fiddle::Function.new(Fiddle.dlopen(nil)["qsort"], [VOID, SIZE, SIZE, VOID], Fiddle::TYPE_VOID)
class By < Fiddle::Closure
  def initialize(&compare)
    @compare = compare
    super(Fiddle::TYPE_INT, [VOID, VOID])
  end
  def call(a, b) = @compare.call
end
def innermost = ARGV[0] == "wait" ? (sleep 0.01; 0) : (x = 0; x += 1 while x < 20_000; 0)
INNER = By.new { innermost }
def inner_sort = QSORT.call(Fiddle::Pointer["bca\0"], 3, 1, INNER) || 0
OUTER = By.new { inner_sort }
def outer_sort = [1].each { QSORT.call(Fiddle::Pointer["ba\0"], 2, 1, OUTER) }
# In a fiber, whose stack is another one.
def in_fiber = Fiber.new { outer_sort }.resume
File.write("ready", "")
(outer_sort; in_fiber) until File.exist?("stop")
EOF
}

test_order() {
  need_bpf
  "$ruby" -e 'exit !(defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled?)' || t_skip "compiled code: the next case"
  order_program
  qsort='Fiddle::Function#call;[^#]*;ffi_call;[^#]*;qsort[^#]*;\\[libffi[^#]*;By#call'
  chain="Object#outer_sort;Array#each;block in Object#outer_sort;$qsort;block in <main>;Object#inner_sort;$qsort;block in <main>;Object#innermost"
  for t_how in cpu wait; do
    rm -f ready stop
    "$ruby" order.rb $t_how & pid=$!
    trap clean_up EXIT
    t_wait test -e ready
    case $t_how in
      cpu) set -- --on-cpu '( |;)' ;;
      wait) set -- --off-cpu ';Kernel#sleep;[^#]*;[a-z_]*schedule;.*\\((sleep|run queue)\\) ' ;;
    esac
    "$RUTILE" profile "$pid" "$1" --hz 499 --folded --duration 2s -o trace-$t_how >out
    : >stop
    wait "$pid"
    head -4 out
    awk -v chain="$chain$2" -v how=$t_how '{ all += $NF } /Object#innermost/ { inner += $NF } $0 ~ chain { good += $NF } /Object#in_fiber/ { fiber += $NF }
      END { print how, good, inner, all, fiber; exit !(inner > all * 0.5 && good > inner * 0.95) }' out
    # The same from the directory.
    case $t_how in cpu) event=rutile_sample ;; *) event=sched_switch ;; esac
    "$RUTILE" view --folded --event "$event" trace-$t_how >folded
    awk -v chain="$chain" '/Object#innermost/ { inner += $NF } $0 ~ chain { good += $NF } END { print good, inner; exit !(good && good >= inner * 0.9) }' folded
  done
}
t_case "native frames stand between the Ruby frames that called them" test_order

# Compiled code (YJIT) does not go through the interpreter's loop: where native frames belong may be unknown, which is
# said, but no frame stands in a wrong place: those of fiddle and qsort() are called by Fiddle::Function#call only.
test_order_compiled() {
  need_bpf
  "$ruby" --yjit -e 'exit RubyVM::YJIT.enabled?' || t_skip "no YJIT"
  order_program
  for t_how in cpu wait; do
    for threshold in 1 10; do
      rm -f ready stop
      "$ruby" --yjit --yjit-call-threshold=$threshold order.rb $t_how & pid=$!
      trap clean_up EXIT
      t_wait test -e ready
      case $t_how in cpu) set -- --on-cpu ;; wait) set -- --off-cpu ;; esac
      "$RUTILE" profile "$pid" "$1" --hz 997 --folded --duration 2s >out
      : >stop
      wait "$pid"
      python3 - $t_how $threshold <<'PYTHON'
import sys
good = bad = 0
chain = ["Object#outer_sort", "Array#each", "block in Object#outer_sort", "Fiddle::Function#call", "By#call", "block in <main>",
         "Object#inner_sort", "Fiddle::Function#call", "By#call", "block in <main>", "Object#innermost"]
is_ruby = lambda f: "#" in f or "<main>" in f or "::" in f or "Object" in f
for line in open("out"):
    stack, us = line.rsplit(" ", 1)
    frames = stack.split(";")[1:]
    ruby = [i for i, f in enumerate(frames) if is_ruby(f)]
    if not ruby:
        continue
    # Between Ruby frames only what the one before has called.
    wrong = [f for i, f in enumerate(frames[:ruby[-1]]) if ("fiddle" in f or "qsort" in f) and
             not frames[max(r for r in ruby if r < i)].startswith("Fiddle::")]
    names = [frames[i] for i in ruby]
    if "Object#innermost" in names:
        at = names.index("Object#outer_sort")
        if names[at:at + len(chain)] != chain:
            wrong.append("order of Ruby frames")
        good += int(us)
    if wrong:
        print(wrong, line)
        bad += int(us)
print(*sys.argv[1:], good, bad)
assert good > 30000 and not bad
PYTHON
    done
  done
}
t_case "compiled code: no native frame stands where it was not called" test_order_compiled

test_lines() {
  need_bpf
  profiled cpu --by line
  line=$(grep -n 'x += 1 until' "$SRC/tests/bpf/profile.rb" | cut -d: -f1)
  awk -v want="profile.rb:$line" 'NR > 2 { top = $5; exit } END { print top; exit index(top, want) == 0 }' out
}
t_case "by line" test_lines
t_done
