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
# Where functions of the kernel cannot be probed, the refusal says what the kernel lacks.
kinds_that_are_not_there_say_why() {
  local kind
  for kind in kprobe fentry; do
    if ! "$RUTILE" run -e "$kind:vfs_read { @ = count(); }" -c true >out 2>err; then
      cat err
      grep -Eq "stdin:1:1: error: this kernel (was built without what 'kprobe' needs \(CONFIG_KPROBE_EVENTS\)|permits no programs at its functions: )" err
      grep -q "^hint: use a tracepoint or rawtracepoint: rutile run -l 'tracepoint:\*'" err
    fi
  done
}

test_iterators() {
  need_bpf
  # A process that nothing else is called, with five descriptors of its own.
  cp "$(command -v sleep)" "rut$$"
  "./rut$$" 60 3</dev/null 4</dev/null 5</dev/null & sleeper=$!
  t_wait grep -q "rut$$" /proc/$sleeper/comm
  "$RUTILE" run -q -e 'iter:task { @task[ctx.task.comm] = count(); }' >out 2>err
  "$RUTILE" run -q -e 'iter:task_file /ctx.task.comm == str($1)/ { @file[ctx.fd] = count(); }' "rut$$" >>out 2>>err
  "$RUTILE" run -q -e 'iter:task_vma /ctx.task.comm == str($1)/ { @vma = count(); @text[ctx.vma.vm_start == $2] = count() }' "rut$$" \
    "0x$(sed -n '1s/-.*//p' /proc/$sleeper/maps)" >>out 2>>err
  maps=$(grep -vc vsyscall /proc/$sleeper/maps)
  kill $sleeper
  cat out err
  grep -qx "@task\[rut$$\]: 1" out
  for fd in 3 4 5; do grep -qx "@file\[$fd\]: 1" out; done
  grep -qx "@vma: $maps" out
  grep -qx '@text\[true\]: 1' out
}

test_paths_of_files() {
  local fd
  need_bpf
  mkdir "a long directory" && : >"a long directory/file"
  cp "$(command -v sleep)" "rutp$$"
  "./rutp$$" 60 3<"a long directory/file" 4</dev/null 5< <(sleep 60) & sleeper=$!
  t_wait grep -q "rutp$$" /proc/$sleeper/comm
  for fd in 3 4 5; do echo "@[$fd, $(readlink /proc/$sleeper/fd/$fd)]: 1"; done >expected
  echo "@end[3, y/file]: 1" >>expected
  "$RUTILE" run -q -e 'iter:task_file /ctx.task.comm == str($1) && ctx.fd >= 3 && ctx.fd <= 5/ { @[ctx.fd, path(ctx.file.f_path)] = count(); }' \
    "rutp$$" >out 2>err
  "$RUTILE" run -q -e 'iter:task_file /ctx.task.comm == str($1) && ctx.fd == 3/ { @end[ctx.fd, path(ctx.file.f_path, 7)] = count(); }' \
    "rutp$$" >>out 2>>err
  # Mappings of no file have an empty path.
  "$RUTILE" run -q -e 'iter:task_vma /ctx.task.comm == str($1)/ { @vma[path(ctx.vma.vm_file.f_path)] = count(); }' "rutp$$" >vmas 2>>err
  grep -c " $PWD/rutp$$\$" /proc/$sleeper/maps >mapped
  kill $sleeper
  cat out vmas err expected
  [ "$(grep . out | sort)" = "$(sort expected)" ]
  grep -qxF "@vma[$PWD/rutp$$]: $(cat mapped)" vmas
  grep -q '^@vma\[\]: ' vmas
}

# Of many, which the kernel detaches slowly, another process takes care, which holds nothing else:
# the pipe of the output ends, and in the end nothing is attached, also when rutile was killed.
unloaded() { # the programs in `ours`, by the identifiers of the kernel
  bpftool prog show | sed -n 's/^\([0-9]*\): .*/\1/p' | sort >after
  [ -z "$(comm -12 ours after)" ]
}
test_detaching_of_many() {
  local by events=""
  need_bpf
  for by in setns unshare acct swapon swapoff pivot_root; do
    events+="${events:+,}tracepoint:syscalls:sys_enter_$by,tracepoint:syscalls:sys_exit_$by"
  done
  for by in INT KILL; do
    : >err
    "$RUTILE" run -e "$events { @[probe] = count(); } end { printf(\"end\\n\"); }" > >(cat >out; echo ended >>out) 2>err & script=$!
    started err
    sed -n 's/^prog_id:\t*//p' /proc/$script/fdinfo/* | sort -u >ours
    [ "$(wc -l <ours)" -ge 12 ]
    not unloaded
    kill -$by $script
    wait $script || [ $by = KILL ]
    # The one that detaches may still be there, but not with the pipe.
    t_wait grep -qx ended out
    [ $by = KILL ] || grep -qx end out
    cat err
    t_wait unloaded
  done
}

test_own_signal() {
  need_bpf
  # The thread that writes the metrics is one that the signal could end.
  "$RUTILE" run --metrics metrics -e 'self:signal:SIGUSR1 { print("seen"); exit(7); }' >out 2>err & script=$!
  started err
  kill -USR1 $script
  code=0
  wait $script || code=$?
  cat out err
  [ $code = 7 ]
  grep -qx seen out
}

# Ten writes each by the first thread, by three that are there when it is attached, and by one that is not yet.
test_watchpoint() {
  need_bpf
  cat >writes.py <<'EOF'
import ctypes, os, threading, time
word = (ctypes.c_uint64 * 1)()
def wait():
    while not os.path.exists("go"): time.sleep(0.01)
def write():
    wait()
    for i in range(10): word[0] = i
threads = [threading.Thread(target=write) for _ in range(3)]
for t in threads: t.start()
print(hex(ctypes.addressof(word)), flush=True)
wait()
threads.append(threading.Thread(target=write))
threads[3].start()
for t in threads: t.join()
write()
EOF
  python3 writes.py >address & writer=$!
  t_wait grep -q x address
  "$RUTILE" run -p $writer -e "watchpoint:$(cat address):8:w { @[tid] = count(); @n = count(); }" >out 2>err & script=$!
  started err
  : >go
  wait $writer
  wait $script
  cat out err
  grep -qx '@n: 50' out
  [ "$(grep -c '^@\[[0-9]*\]: 10$' out)" = 5 ]
}

test_modes() {
  need_bpf
  "$RUTILE" run -q --mode bench -e 'bench:count { @ = count(); } test:other { return 1; }' >out
  cat out
  grep -Eq '^count +[0-9]+ +[0-9]+$' out
  not grep -q other out
  not "$RUTILE" run -q --test -e 'test:good { print(1); } test:bad { return 3; } bench:other { }' >out
  cat out
  grep -qx 'OK good' out
  grep -qx 'FAILED bad' out
}

test_options() {
  need_bpf
  "$RUTILE" run -q -e 'begin { print((getopt("n", 1), getopt("t", "x"), getopt("f"), $1, $2)); }' a -- --f --t=why 20 --n=-3 | grep -qx '(-3, why, true, a, 20)'
  not "$RUTILE" run -q -e 'begin { print(getopt("number", 1)); }' -- --nunber=2 2>err
  cat err
  grep -q "the script has no option '--nunber'" err
  grep -q "did you mean '--number'" err
  BPFTRACE_MAX_STRLEN=4 "$RUTILE" run -q -e 'config = { max_strlen = 8 } begin { print(str(curtask.mm.exe_file.f_path.dentry.d_name.name)); }' >out 2>&1
  cat out
  grep -qx "$(basename "$RUTILE" | cut -c-4)\.\." out
}

test_import() {
  need_bpf
  mkdir lib
  echo 'macro greet { print("hello"); } fn square($x) { return $x * $x } begin { print("lib"); }' >lib/a.bt
  printf 'struct foo { int a; int b; };\n#define NINE 9\n' >types.h
  printf 'import "types.h";\nimport "lib";\nimport "lib/a.bt";\nbegin { greet; print((square(5), sizeof(struct foo), NINE)); }\n' >main.bt
  "$RUTILE" run -q main.bt >out 2>&1
  cat out
  printf 'lib\nhello\n(25, 8, 9)\n' | diff - <(grep -v '^$' out)
  echo 'import "types.h"; tracepoint:sched:sched_switch { }' >listed.bt
  "$RUTILE" run -l listed.bt | grep -qx tracepoint:sched:sched_switch
  # A message names the file that it is about.
  printf '\nbegin { print($none); }\n' >lib/b.bt
  not "$RUTILE" run main.bt 2>err
  cat err
  grep -q '/lib/b.bt:2:15: error: the variable $none' err
  rm lib/b.bt
  chmod 777 lib
  not "$RUTILE" run main.bt 2>err
  grep -q "main.bt:2:8: error: 'lib/a.bt' is not imported: everybody may write\|main.bt:2:8: error: .* everybody may write" err
  chmod 755 lib
  echo 'int x;' >lib/c.bpf.c
  not "$RUTILE" run -e 'import "lib/c.bpf.c"; begin { }' 2>err
  grep -q "there is no compiler of C here" err
}

test_begin_is_first() {
  need_bpf
  # Probes are attached while begin runs, and do nothing before its end.
  "$RUTILE" run -e 'begin { for ($i : 0..200000) { @a = $i; } @n = 0; printf("begin %d\n", @n); } software:cpu-clock:100000 { @n++; } i:ms:200 { exit(); }' >out 2>&1
  cat out
  [ "$(sed -n 1p out)" = "Attached 3 probes" ]
  [ "$(sed -n 2p out)" = "begin 0" ]
  "$RUTILE" run -q -e 'begin { exit(); } begin { print("late"); } end { print("end"); }' >out
  [ "$(cat out)" = end ]
}

t_case "counts are exact" test_count
t_case "iterators see each thread, descriptor and mapping" test_iterators
t_case "many probes are detached by a process that holds nothing else" test_detaching_of_many
t_case "path() is what the links of /proc say" test_paths_of_files
t_case "a signal to rutile is a probe" test_own_signal
t_case "a watchpoint is in all threads" test_watchpoint
t_case "benchmarks and tests run in their modes alone" test_modes
t_case "options of scripts" test_options
t_case "files are imported, but none that others may write to" test_import
t_case "probes do nothing before begin has ended" test_begin_is_first


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

test_random() {
  need_bpf
  # The verifier takes them, and they print what the same statements give in Python.
  python3 "$SRC/tests/bpf/script_random.py" "$RUTILE" 14 60
}
t_case "random programs" test_random

test_loops() {
  need_bpf
  "$RUTILE" run -q -e 'begin { $s = 0; for ($i : 0..100000) { $s += $i } $n = 0; while ($n < 100000) { $n++; if ($n == 70000) { break } }
    for ($k : 0..50) { @m[$k] = $k * 2 } for ($kv : @m) { if ($kv.0 > 9) { continue } @sum += $kv.1 }
    printf("%ld %d %d %d\n", $s, $n, @sum, len(@m)); clear(@m); clear(@sum);
    while (1) { exit(7) } printf("never\n") } end { printf("end\n") }' >out 2>err || echo "code $?" >>out
  cat out err
  printf '4999950000 70000 90 50\nend\ncode 7\n' >want
  grep -v '^$' out | diff want -
}
t_case "loops" test_loops

test_types() {
  need_bpf
  # The kernel's own structures, against /proc.
  "$RUTILE" run -q -e 'tracepoint:syscalls:sys_enter_kill /args.pid == $1 && args.sig == 0/ {
    printf("%s %d %d %d\n", curtask->comm, curtask->tgid, ppid, curtask->real_parent->tgid); exit() }' $$ >out 2>err & script=$!
  bash -c 'echo $$ >child; t() { kill -0 $1; grep -q . out; }; until t '$$'; do sleep 0.01; done'
  wait $script
  cat out err
  read -r name tgid parent other <out
  [ "$name $tgid" = "bash $(cat child)" ]
  [ "$parent" = "$other" ]
}
t_case "structures of the kernel" test_types

test_uprobe() {
  need_bpf
  "$RUTILE" run -q -c 'bash -c "true; true"' -e "uprobe:/bin/bash:main { @main = count(); } uretprobe:/bin/bash:main { @end = count() }
    uprobe:libc:exit { @[comm] = count(); }" >out 2>err
  cat out err
  grep -qx '@main: 1' out
  grep -qx '@\[bash\]: 1' out
}
t_case "functions of a command" test_uprobe

# The symbols of C++ and of both manglings of Rust; c++filt knows the first.
test_written_names() {
  cat >names.c <<'EOF2'
#include <unistd.h>
__attribute__((noinline)) int a(int n) __asm__("_ZN4shop5Order5totalEi");
__attribute__((noinline)) int b(int n) __asm__("_ZN4shop5Order5totalEPKc");
__attribute__((noinline)) int c(int n) __asm__("_ZN4shop4find17h0123456789abcdefE");
__attribute__((noinline)) int d(int n) __asm__("_RNvC4shop4sell");
int a(int n) { __asm__ volatile("" ::: "memory"); return n + getppid(); }
int b(int n) { __asm__ volatile(""); return n + 2; }
int c(int n) { __asm__ volatile(""); return n + 3; }
int d(int n) { __asm__ volatile(""); return n + 4; }
int main(void)
{
	char byte;
	int sum = (int)read(0, &byte, 1);

	for (int i = 0; i < 30; i++)
		sum += a(i) + (i < 10 ? b(i) : 0) + (i < 5 ? c(i) + d(i) : 0);
	/* Names are looked up when they are printed. */
	return (int)read(0, &byte, 1) + (sum == 0);
}
EOF2
  cc -O1 -o names names.c
  mkfifo hold
  ./names <hold & local pid=$!
  exec 9>hold
  timeout -s INT 60 "$RUTILE" run -p "$pid" -e "uprobe:$PWD/names:cpp:\"shop::Order::total\" { @[func, usym(reg(\"ip\"))] = count(); @n++; }
    uprobe:$PWD/names:cpp:\"shop::Order::total(int)\" { @int = count(); } uprobe:$PWD/names:rust:\"shop::*\" { @rust[func, probe] = count(); @n++; }
    interval:ms:20 /@n == 50/ { exit(); }" >out 2>err & local script=$!
  t_wait grep -q '^Attached' err || { cat err; return 1; }
  echo >&9
  wait "$script"
  exec 9>&-
  wait "$pid"
  local int text
  int=$(c++filt _ZN4shop5Order5totalEi) text=$(c++filt _ZN4shop5Order5totalEPKc)
  grep -qxF "@[$int, $int]: 30" out
  grep -qxF "@[$text, $text]: 10" out
  grep -qx '@int: 30' out
  grep -qxF "@rust[shop::find, uprobe:$PWD/names:_ZN4shop4find17h0123456789abcdefE]: 5" out
  grep -qxF "@rust[shop::sell, uprobe:$PWD/names:_RNvC4shop4sell]: 5" out
}
t_case "functions of C++ and Rust have their written names" test_written_names

test_hist() {
  need_bpf
  "$RUTILE" run -q -e 'begin { for ($i : 0..1000) { @h = hist($i); @l = lhist($i, 0, 1000, 100); @a = avg($i); @s = stats($i);
    @mn = min($i + 3); @mx = max($i) } }' >out
  cat out
  grep -qx '\[512, 1K)  *488 |.*' out
  [ "$(grep -c ' 100 |' out)" = 10 ]
  grep -qx '@a: 499' out
  grep -qx '@mn: 3' out
  grep -qx '@mx: 999' out
  grep -q '^@s: .*1000.*499500' out
}
t_case "histograms and the like" test_hist

test_stack() {
  need_bpf
  "$RUTILE" run -q -c 'sleep 0.01' -e 'tracepoint:sched:sched_switch /comm == "sleep"/ { @[kstack(5)] = count(); @u[ustack(3)] = count() }' >out 2>err
  cat out err
  grep -q 'schedule' out
}
t_case "stacks have names" test_stack

test_list() {
  "$RUTILE" run -l 'tracepoint:sched:sched_sw*' | grep -qx tracepoint:sched:sched_switch
  "$RUTILE" run -l -v 'tracepoint:sched:sched_switch' | grep -qx '    string\[16\] prev_comm'
  "$RUTILE" run -l 'uprobe:/bin/bash:mai*' | grep -qx uprobe:/bin/bash:main
  "$RUTILE" run -d -e 'begin { @x = 1 }' | grep -q ': exit$'
}
t_case "probes are listed" test_list

test_full() {
  need_bpf
  "$RUTILE" run -q -e 'config = { max_map_keys = 10; print_maps_on_exit = 0 } begin { for ($i : 0..25) { @[$i]++ } printf("%d\n", len(@)) }' >out 2>err
  cat out err
  grep -qx 10 out
  grep -q 'stdin:1:.*warning: 15 updates were lost because the map was full: @\[$i\]' err
}
t_case "updates of a full map are counted" test_full

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

test_files_by_pattern() {
  need_bpf
  "$RUTILE" run -l 'uprobe:/bin/bas*:mai*' | grep -qx uprobe:/bin/bash:main
  cp "$(command -v bash)" ./shell-of-ours
  ./shell-of-ours -c 'while sleep 0.05; do :; done' & shell=$!
  "$RUTILE" run -p $shell -l 'uprobe:*:main' >out
  grep -q 'shell-of-ours:main$' out
  timeout 20 "$RUTILE" run -p $shell -q -e 'uprobe:*:execute_command { printf("hit %s\n", probe); exit(); }' >out
  kill $shell
  grep -q '^hit uprobe:.*/shell-of-ours:execute_command$' out
  # The name is as it was written.
  "$RUTILE" run -l 'uprobe:./shell-of-ours:main' | grep -qx 'uprobe:./shell-of-ours:main'
}
t_case "probes of all files that match, and of a process's files" test_files_by_pattern

test_lists() {
  "$RUTILE" run -l 'interval:*' | grep -qx interval:ms:
  "$RUTILE" run -l '*sched_switch' | grep -qx tracepoint:sched:sched_switch
  "$RUTILE" run -l 'tracepoint:sched:sched_switch,software:cpu' >out
  [ "$(wc -l <out)" -eq 2 ]
  "$RUTILE" run -l -e 'tracepoint:sched:sched_wakeup { } interval:s:1 { }' >out
  printf 'tracepoint:sched:sched_wakeup\ninterval:s:\n' | diff - out
  # The kernel's own types: what BTF says.
  "$RUTILE" run -lv 'struct path' >out
  grep -q '^vmlinux: struct path {' out
  grep -q 'struct dentry \* dentry;' out
  "$RUTILE" run -l iter:task | grep -qx iter:task
}
t_case "lists of timers, types, scripts and whole names" test_lists

test_missing_probes() {
  need_bpf
  script='tracepoint:no:such, tracepoint:syscalls:sys_enter_getppid { print("hit"); exit(); }'
  not "$RUTILE" run -e "$script" 2>err
  timeout 20 "$RUTILE" run -q -c 'bash -c "kill -0 $PPID; sleep 0.1"' \
    -e "config = { missing_probes = \"warn\" } begin { exit(); } tracepoint:no:such { }" 2>err
  grep -q "warning: no tracepoint matches 'no:such'" err
  timeout 20 "$RUTILE" run -q -e "config = { missing_probes = \"ignore\" } begin { exit(); } tracepoint:no:such { }" 2>err
  [ ! -s err ]
  not "$RUTILE" run -e 'config = { missing_probes = "ignore" } tracepoint:no:such { }' 2>err
  grep -q 'No probes to attach' err
  timeout 20 "$RUTILE" run -q --probe-filter ':200$' -e 'interval:ms:100 { print("bad"); } interval:ms:200 { print("good"); exit(); }' >out
  [ "$(tail -1 out)" != bad ]
  grep -qx good out
  not grep -qx bad out
}
t_case "probes that are missing or filtered" test_missing_probes

test_as_bpftrace() {
  need_bpf
  ln -sf "$RUTILE" bpftrace
  ./bpftrace --version | grep -q '^bpftrace v0\.'
  ./bpftrace --help | grep -qx 'USAGE:'
  ./bpftrace --info | grep -q 'btf: '
  not ./bpftrace -x 2>err
  grep -qx 'USAGE:' err
  not ./bpftrace -e 'begin { print(nothing) }' 2>err
  grep -qx "stdin:1:15-22: ERROR: 'nothing' is not known" err
  [ "$(./bpftrace -q -e 'begin { print(comm) }' | head -1)" = bpftrace ]
  code=0
  ./bpftrace -q -e 'begin { exit(3) }' >out || code=$?
  [ $code -eq 3 ]
  code=0
  ./bpftrace no-such-file.bt 2>err || code=$?
  [ $code -eq 1 ]
  grep -q "^ERROR: failed to open file 'no-such-file.bt': No such file or directory" err
}
t_case "under the name bpftrace its help, messages and exit codes" test_as_bpftrace

test_patterns() {
  need_bpf
  for seed in 1 2 3; do
    python3 "$SRC/tests/bpf/script_patterns.py" "$RUTILE" $seed 100
  done
}
t_case "patterns match as those of Python do" test_patterns

t_case "kinds that are not there say why" kinds_that_are_not_there_say_why
test_buffers_and_numbers_of_calls() {
  need_bpf
  "$RUTILE" run -q -e 'begin { $a = buf("hi", 2); $b = buf("bye", 3); $c = buf("hix", 2);
    print(($a == $a, $a == $b, $a == $c, $a == buf("hj", 2), $a != $b)); print((signal_name(0), signal_name(1024))); exit(); }' >out
  grep -qx '(true, false, true, false, true)' out
  grep -qx '(Unknown signal 0, N/A)' out
  number=$(printf '#include <asm/unistd.h>\n__NR_nanosleep __NR_newfstatat\n' | cc -E -P - | tail -n 1)
  [ "$("$RUTILE" run -q -e 'begin { printf("%d %d\n", __NR_nanosleep, __NR_newfstatat); exit(); }' | head -n 1)" = "$number" ]
  not "$RUTILE" run -q -e 'let @a = hash(3); begin { print(getopt("aa", 10, "how many")); exit(); }' -- --zzz 2>err
  grep -qx 'hint: its options are:' err
  grep -qx -- '--aa: how many' err
  grep -q '^stdin:1:5: warning: the map @a is not used$' err
}
t_case "buffers are compared, system calls have numbers, options are listed" test_buffers_and_numbers_of_calls

# /proc has the processes of the namespace, under their numbers in it.
test_stacks_in_a_namespace() {
  need_bpf
  cat >spin.c <<'END'
#include <unistd.h>
__attribute__((noinline)) void inner(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) void outer(void) { inner(); __asm__ volatile(""); }
int main(void)
{
	for (int i = 0; i < 20000; i++) {
		outer();
		usleep(1000);
	}
}
END
  cc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls spin.c -o spin
  unshare --fork --pid --mount-proc --kill-child sh -c "./spin & exec timeout 20 $RUTILE run -q -e 'uprobe:./spin:inner { @[ustack, usym(reg(\"ip\"))] = count(); exit(); }'" >out
  grep -q '^ *inner+0' out
  grep -q '^ *main+[0-9]' out
  grep -q 'inner\]: 1$' out
}
t_case "stacks of processes have names in a PID namespace" test_stacks_in_a_namespace
test_loops_that_are_never_reached() {
  need_bpf
  "$RUTILE" run -q -e 'begin { if (comm == "a text that no name is as long as") { for ($i : 0..3) { for ($j : 0..2) { @n++; } } }
    for ($i : 0..4) { @m++; if ("x" == "yyyy") { for ($k : 0..3) { @never++; } } } exit(); }' >out
  grep -qx '@m: 4' out
  not grep -q '@n' out
}
t_case "loops that are never reached are left out" test_loops_that_are_never_reached
test_without_tracefs() {
  need_bpf
  unshare -m true 2>/dev/null || t_skip "no mount namespaces"
  echo 'getppid for 1..1000;' >calls.pl
  unshare -m bash -eu -c '
    umount -l /sys/kernel/debug 2>/dev/null || :
    while umount -l /sys/kernel/tracing 2>/dev/null; do :; done
    [ ! -e /sys/kernel/tracing/events ]
    "$RUTILE" run -e "tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { @n += args.__syscall_nr > 0; }" \
      -c "perl calls.pl" >out 2>err
    [ "$(stat -f -c %T /sys/kernel/tracing)" = tracefs ]
    umount -l /sys/kernel/tracing
    mkdir btf; mount --bind /sys/kernel/btf btf; mount -t tmpfs none /sys/kernel; mkdir /sys/kernel/btf; mount --bind btf /sys/kernel/btf
    ! "$RUTILE" run -e "tracepoint:syscalls:sys_enter_getppid { }" >out2 2>err2'
  cat out err err2
  grep -qx '@n: 1000' out
  grep -q "1:1: error: tracefs is not mounted at '/sys/kernel/tracing', and cannot be" err2
}
t_case "tracefs is mounted where it is not, or is reported" test_without_tracefs
t_done
