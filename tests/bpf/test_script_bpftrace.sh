#!/bin/bash
# SPDX-License-Identifier: MIT
# What scripts of bpftrace rely on, beside the cases whose output is recorded.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

need_bpf

# The same program under its other name.
as_bpftrace() {
  ln -sf "$RUTILE" bpftrace
  ./bpftrace "$@"
}

# exit() ends the script behind the last object: all threads of a process of our own are there.
iterators_go_to_their_end() {
  cat >threads.c <<'END'
#include <pthread.h>
#include <unistd.h>
static void *wait_here(void *p) { pause(); return p; }
int main(void)
{
	pthread_t t;
	for (int i = 0; i < 50; i++)
		pthread_create(&t, 0, wait_here, 0);
	pause();
}
END
  cc threads.c -o "th$$" -lpthread
  "./th$$" & p=$!
  t_wait test -d /proc/$p/task
  until [ "$(ls /proc/$p/task | wc -l)" = 51 ]; do sleep 0.05; done
  "$RUTILE" run -q -e 'iter:task /ctx.task.tgid == $1/ { printf("thread %d\n", ctx.task.pid); exit(); }' $p >out
  maps=$(grep -vc vsyscall /proc/$p/maps)
  "$RUTILE" run -q -e 'iter:task_vma { if (ctx.task.pid == $1) { @n++; } printf("vma %d\n", ctx.task.pid); exit(); }' $p >vmas 2>err
  ls /proc/$p/task | sort >want
  kill $p
  sed -n 's/^thread //p' out | sort | diff want -
  # Thousands of records at once, and none is lost.
  not grep 'lost' err
  [ "$(grep -c "^vma $p\$" vmas)" = "$maps" ]
  grep -qx "@n: $maps" vmas
}

debugf_writes_the_kernels_trace() {
  local t=/sys/kernel/tracing
  [ -r $t/trace ] || t_skip "no tracefs at $t"
  "$RUTILE" run -q -e 'begin { debugf("rut%d is %s, %x or %p; 100%%", $1, str($2), 255, 4096); }' $$ "some text" 2>err && return 1
  grep -q 'debugf() takes at most 3 values' err
  "$RUTILE" run -q -e 'begin { debugf("rut%d is %s and %x; 100%%", $1, str($2), (uint64)-1); exit(); }' $$ "some text"
  grep -q "rut$$ is some text and ffffffffffffffff; 100%" $t/trace
  # What the kernel's helper would refuse unseen is refused here; what it takes is in the trace.
  for format in %f '%#x' %.3d %5-d %sx é '\001'; do
    not "$RUTILE" run -q -e "begin { debugf(\"$format\", 1); }" 2>err
    grep -q 'debugf() has %d' err || { echo "$format"; cat err; return 1; }
  done
  "$RUTILE" run -q -e 'begin { debugf("wide %-6d|%06x|%+lld", $1, 255, 7); exit(); }' $$
  grep -qE "wide $$ *\|0000ff\|\+7" $t/trace
}

# A pointer that is declared points where its first value does.
declared_pointers() {
  cat >pointed.c <<'END'
struct pair { int a; struct { int b[2]; } in[2]; };
__attribute__((noinline)) void take(struct pair *p) { __asm__ volatile("" :: "r"(p) : "memory"); }
int main(void)
{
	struct pair p = {5, {{{6, 7}}, {{8, 9}}}};
	take(&p);
}
END
  cc -g -O1 pointed.c -o pointed
  "$RUTILE" run -q -c ./pointed -e 'struct in { int b[2]; } struct pair { int a; struct in in[2]; }
    uprobe:./pointed:take { let $p : struct pair *; let $in : struct in[2]; let $t : struct task_struct *;
      $p = (struct pair *)arg0; $in = $p.in; $t = curtask; printf("%d %d %d %d\n", $p.a, $in[0].b[1], $in[1].b[0], $t.tgid == pid); }' >out 2>err
  cat out err
  grep -qx '5 7 8 1' out
  [ ! -s err ]
}

# Where no function is: files that are not ELF, with --unsafe alone; and never behind a function's end.
places_in_files() {
  printf '#!/bin/sh\n' >text
  not "$RUTILE" run -e 'uprobe:./text:0x4 { exit(); }' 2>err
  grep -q 'is not a 64-bit ELF file' err
  timeout 20 "$RUTILE" run -q --unsafe -e 'uprobe:./text:0x4 { @ = count(); } interval:ms:1 { exit(); }'
  not "$RUTILE" run -e 'uprobe:/bin/bash:echo_builtin+1000000 { exit(); }' 2>err
  size=$(nm -DS /bin/bash | sed -n 's/^[0-9a-f]* \([0-9a-f]*\) T echo_builtin$/\1/p')
  grep -q "'echo_builtin' has only $((16#$size)) bytes" err
}

# Numbers with decimals: of structures, through pointers, and of static tracepoints where they are in memory; beside what the
# program itself prints, and what C makes integers of them.
decimals() {
  [ "$(uname -m)" = x86_64 ] || t_skip "the notes of this test are of x86-64"
  cat >decimals.c <<'END'
#include <stdio.h>
struct inner { float f; int i; };
struct all { double d; float f; float two[2]; struct inner in; };
static const double values[] = {0, -0.0, 0.5, -0.5, 0.999999, 1, -1, 1.75, -1.75, 123456789.9, -123456789.9, 4503599627370497.0,
  9007199254740993.0, 1e18, -1e18, 9.2e18, -9.2e18, 1e-300, 5e-324, 3.14159265358979};
__attribute__((noinline)) void take(struct all *a, double *p) { __asm__ volatile("" :: "r"(a), "r"(p) : "memory"); }
int main(void)
{
	for (int i = 0; i < (int)(sizeof(values) / sizeof(*values)); i++) {
		volatile double d = values[i];
		volatile float f = (float)values[i];
		struct all a = {d, f, {i + 0.25f, -i}, {i * 1.5f, i}};

		take(&a, (double *)&d);
		__asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n"
		                 "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b, 0, 0\n.asciz \"rut\"\n.asciz \"dec\"\n"
		                 ".ascii \"8f@%0 4f@%1 -4@%2 8f@%%xmm0\"\n.byte 0\n994: .balign 4\n.popsection\n"
		                 :: "m"(d), "m"(f), "r"(i));
		printf("%d %.17g %.9g %lld %lld %g %g\n", i, d, f, (long long)d, (long long)f, i + 0.25, i * 1.5);
	}
}
END
  cc -O1 decimals.c -o decimals
  ./decimals >want
  "$RUTILE" run -q -c ./decimals -e 'struct inner { float f; int i; } struct all { double d; float f; float two[2]; struct inner in; }
    uprobe:./decimals:take { $a = (struct all *)arg0; $d = *(double *)arg1;
      printf("a %d %.17g %.9g %lld %lld %g %g\n", $a.in.i, $d, $a.f, (int64)$a.d, (int64)$a.f, $a.two[0], $a.in.f); @k[$a.d] = $a.f; }
    usdt:./decimals:rut:dec { printf("b %d %.17g %.9g %lld %lld\n", arg2, arg0, arg1, (int64)arg0, (int64)arg1); @s[arg2] = sum((int64)arg1); }' >out 2>err
  cat err
  sed -n 's/^a //p' out | diff want -
  sed -n 's/^b //p' out >got
  cut -d' ' -f1-5 want | diff - got
  # As keys and values, by their order.
  sed -n 's/^@k\[\(.*\)\]: .*/\1/p' out >keys
  [ "$(wc -l <keys)" = "$(wc -l <want)" ]
  sed -n 's/^@k\[.*\]: //p' out | grep -vx -e '-\?0' >kept
  sort -g kept | diff kept -
  grep -qx '@k\[3.14159265358979\]: 3.1415927' out
  grep -qx '@s\[9\]: 123456792' out
  "$RUTILE" run -q -f json -c ./decimals -e 'usdt:./decimals:rut:dec /arg2 == 2/ { print((arg0, arg2)); }' | grep -qF '[0.5,2]'
  # What cannot be had is said.
  not "$RUTILE" run -e 'usdt:./decimals:rut:dec { print(arg3); }' 2>err
  grep -q '^stdin:1:.*: error: arg3 is a number with decimals in a register (%xmm), which the kernel does not show to programs' err
  not "$RUTILE" run -e 'usdt:./decimals:rut:dec { printf("%d", arg0); }' 2>err
  grep -q "'%d' does not take a number with decimals: %f, %e or %g does" err
  not "$RUTILE" run -e 'usdt:./decimals:rut:dec /arg0 > 1/ { exit(); }' 2>err
  grep -q "double and int64 cannot be compared" err
}

# Files by a pattern that the command of -c will have, and names of static tracepoints with quotes.
patterns_and_quotes() {
  cat >quoted.c <<'END'
#define PROBE(name) __asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n" \
  "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b, 0, 0\n.asciz \"rut\"\n.asciz " name "\n.asciz \"\"\n994: .balign 4\n.popsection\n")
__attribute__((noinline)) void step(void) { PROBE("\"plain\""); PROBE("\"\\\"in quotes\\\"\""); }
int main(void)
{
	for (int i = 0; i < 7; i++)
		step();
}
END
  cc -O1 quoted.c -o quoted
  "$RUTILE" run -q -c ./quoted -e 'uprobe:./quo*:step { @u = count(); } usdt:./quo*::plain { @p = count(); }
    usdt:./quoted:rut:"\"in quotes\"" { @q = count(); }' >out 2>err
  cat out err
  for m in u p q; do grep -qx "@$m: 7" out; done
}

what_is_never_reached_is_said() {
  "$RUTILE" run -q -e 'begin { @a = 1; exit(); @b = 2; }' >out 2>err
  grep -q '^stdin:1:.*: warning: this is never reached: the statement before leaves' err
  grep -qx '@a: 1' out
  # Once for all programs of a probe, and not where something is reached.
  "$RUTILE" run -q -e 'tracepoint:syscalls:sys_enter_sync* { @[probe] = args.__syscall_nr; return; @b = 2; } interval:ms:1 { exit(); }' >out 2>err
  [ "$(grep -c 'never reached' err)" = 1 ]
  "$RUTILE" run -q -e 'begin { if (pid == 1) { exit(); } @a = 1; while (1) { break; } exit(); }' >out 2>err
  [ ! -s err ]
  grep -qx '@a: 1' out
}

# An error in a macro is shown where the macro is called, too: when it is compiled, and of errorf() when it runs.
errors_in_macros() {
  printf 'macro inner(x) { x + "text" }\nmacro outer(y) { inner(y) + 1 }\nbegin { print(outer(5)); }\n' >macros.bt
  not "$RUTILE" run macros.bt 2>out
  cat out
  grep -v '^[ ^]*^$' out | sed -n 's/^\(macros.bt:[0-9]*:[0-9]*: [a-z]*\): .*/\1/p' >got
  printf 'macros.bt:%s\n' '1:18: error' '2:18: note' '3:15: note' | diff - got
  grep -q '^macros.bt:2:18: note: expanded from$' out
  printf 'macro bad() { errorf("Something bad: %%d", 5); }\n\nbegin { bad(); exit(); }\n' >bad.bt
  for f in bad.bt d/bad.rbc; do
    mkdir -p d
    cp bad.bt d
    "$RUTILE" service compile --scripts d >/dev/null
    "$RUTILE" run -q ./$f 2>out
    cat out
    grep -q 'bad.bt:1:15-45: ERROR: Something bad: 5$' out
    grep -q 'bad.bt:3:9-14: ERROR: expanded from$' out
    [ "$(sed -n 3p out)" = 'begin { bad(); exit(); }' ]
  done
  sed 's/errorf/warnf/' bad.bt >odd.bt
  "$RUTILE" run -q odd.bt 2>out
  cat out
  grep -q 'odd.bt:1:15-44: WARNING: Something bad: 5$' out
  grep -q 'odd.bt:3:9-14: WARNING: expanded from$' out
}

# What -c has started ends with bpftrace, and goes on otherwise.
the_command_of_c() {
  local p
  local until_sleep='tracepoint:syscalls:sys_enter_clock_nanosleep /comm == "sleep" && pid == cpid/ { exit(); }'
  printf '#!/bin/sh\necho $$ >pid\nexec sleep 60\n' >command.sh
  chmod +x command.sh
  for name in rutile bpftrace; do
    rm -f pid
    # The script ends when the command has written its number.
    if [ $name = rutile ]; then
      "$RUTILE" run -q -e "$until_sleep" -c ./command.sh
    else
      as_bpftrace -q -e "$until_sleep" -c ./command.sh
    fi
    p=$(cat pid)
    if [ $name = rutile ]; then
      kill "$p"
    else
      t_wait not kill -0 "$p" 2>/dev/null
    fi
  done
}

# The words of bpftrace, under its name.
its_messages() {
  said() {
    local words=$1
    shift
    not as_bpftrace "$@" >out 2>&1
    grep -qF -- "$words" out || { cat out; return 1; }
  }
  said 'ERROR: call to has_key() expects a map with explicit keys' -e 'begin { @g = 2; if (has_key(@g, 2)) { exit(); } }'
  said 'ERROR: Probe has no valid attach points.' -e 'rawtracepoint:nonsense { exit(); }'
  said 'ERROR: program command line option --aa invalid integer (value: False)' -e 'begin { print(getopt("aa", 10)); }' -- --aa=False
  said 'ERROR: Could not resolve address: /bin/bash:0xa' -e 'uprobe:/bin/bash:10 { exit(); }'
  said "Offset outside the function bounds ('echo_builtin' size is" -e 'uprobe:/bin/bash:echo_builtin+1000000 { exit(); }'
  said 'stdlib/base.bt:6:5-37: ERROR: assert failed: one is not two' -e 'begin { assert(1 == 2, "one is not two"); }'
  as_bpftrace -q -e 'macro title() { "a constant %d\n" } begin { printf(title(), 5); exit(); }' | grep -qx 'a constant 5'
}

t_case "iterators go to their end" iterators_go_to_their_end
t_case "debugf() writes into the kernel's trace" debugf_writes_the_kernels_trace
t_case "pointers that are declared" declared_pointers
t_case "places in files without functions, and behind functions" places_in_files
t_case "numbers with decimals" decimals
t_case "files by a pattern, and quotes in names" patterns_and_quotes
t_case "what is never reached is said" what_is_never_reached_is_said
t_case "errors in macros" errors_in_macros
t_case "what -c has started" the_command_of_c
t_case "messages under the name bpftrace" its_messages
t_done
