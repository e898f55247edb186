#!/bin/bash
# SPDX-License-Identifier: MIT
# Events added by name: static probes, functions, tracepoints, samples; counted against the program.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

trap '"$RUTILE" destroy p$$ 2>/dev/null; "$RUTILE" destroy q$$ 2>/dev/null; rm -rf "$t_root"' EXIT

build() {
  need_bpf
  echo '#include <sys/sdt.h>' | cc -E - >/dev/null 2>&1 || t_skip "no sys/sdt.h (systemtap-sdt-dev)"
  cat >prog.c <<'END'
#include <sys/sdt.h>
#include <string.h>
#include <unistd.h>
#include <stdlib.h>
static char text[2][16];

__attribute__((noinline)) long work(long a, const char *s, int c)
{
	DTRACE_PROBE3(demo, step, a, s, c);
	return a * 2 + c;
}
int main(int argc, char **argv)
{
	strcpy(text[0], "even"), strcpy(text[1], "odd");
	for (int i = 0; i < atoi(argv[1]); i++) {
		work(i * 1000, text[i & 1], -i);
		/* The same probe at two sites. */
		if (i & 1)
			DTRACE_PROBE2(demo, twice, i, (signed char)-i);
		else
			DTRACE_PROBE2(demo, twice, i, (signed char)-i);
	}
	return 0;
}
END
  cc -O2 -o prog prog.c
}

test_usdt() {
  build
  "$RUTILE" record -o t -e "usdt:$PWD/prog:demo:step(a,s:str,c),usdt:$PWD/prog:demo:twice" -- ./prog 1000
  readers t >/dev/null
  [ "$(grep -c 'demo:step:' bt2.out)" = 1000 ]
  [ "$(grep -c 'demo:twice:' bt2.out)" = 1000 ]
  grep -q 'demo:step:.*{ a = 999000, c = -999, s = "odd" }' bt2.out
  grep -q 'demo:step:.*{ a = 42000, c = -42, s = "even" }' bt2.out
  grep -q 'demo:twice:.*{ arg0 = 7, arg1 = -7 }' bt2.out
}

test_functions() {
  build
  "$RUTILE" record -o t -e "uprobe:$PWD/prog:work(a,s:str)" -e "uretprobe:$PWD/prog:work" -- ./prog 500
  readers t >/dev/null
  [ "$(grep -c 'vm uprobe:work:\|uprobe:work: ' bt2.out)" -ge 500 ]
  [ "$(grep -c ' uprobe:work:' bt2.out)" = 500 ]
  [ "$(grep -c ' uretprobe:work:' bt2.out)" = 500 ]
  grep -q ' uprobe:work:.*{ a = 7000, s = "odd" }' bt2.out
  grep -q ' uretprobe:work:.*{ ret = 13993 }' bt2.out
}

# Threads that take turns on one CPU, where the kernel may preempt one within the probe's program.
test_turns() {
  build
  cat >turns.c <<'END'
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/sdt.h>
static void *run(void *arg)
{
	/* Written to: a page that nobody has touched cannot be read by a probe. */
	static char text[4][8] = {"zero", "one", "two", "three"};
	long n = (long)arg;

	((volatile char *)text[n])[7] = 0;

	for (int i = 0; i < 20000; i++) {
		DTRACE_PROBE2(demo, turn, n, text[n]);
		if (i % 64 == 0)
			sched_yield();
	}
	return 0;
}
int main(void)
{
	cpu_set_t set;
	pthread_t t[4];

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	sched_setaffinity(0, sizeof(set), &set);
	for (long i = 0; i < 4; i++)
		pthread_create(&t[i], 0, run, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], 0);
	return 0;
}
END
  cc -O2 -pthread -o turns turns.c
  "$RUTILE" record -o t -e "usdt:$PWD/turns:demo:turn(n,s:str)" -- ./turns
  babeltrace2 t | sed -n 's|.*demo:turn: .*{ n = ||p' | sort | uniq -c | awk '{ print $1, $2, $5 }' >got
  printf '20000 %s\n' '0, "zero"' '1, "one"' '2, "two"' '3, "three"' >want
  diff -u want got
}

# One process of two that run the same program; the semaphore is incremented and decremented again.
test_pid_session() {
  build
  S=p$$
  "$RUTILE" start $S --flight -e "usdt:$PWD/prog:demo:step"
  ./prog 300
  "$RUTILE" remove $S -e "usdt:$PWD/prog:demo:step"
  ./prog 1000
  "$RUTILE" add $S -e "usdt:$PWD/prog:demo:twice,syscalls:sys_enter_getpgid"
  ./prog 40
  "$RUTILE" stop $S
  ./prog 1000
  "$RUTILE" start $S
  ./prog 2
  "$RUTILE" snapshot $S -o snap
  "$RUTILE" destroy $S
  readers snap >/dev/null
  [ "$(grep -c 'demo:step:' bt2.out)" = 300 ]
  [ "$(grep -c 'demo:twice:' bt2.out)" = 42 ]
}

# The kernel's own format against the event's: the same numbers by another way.
test_tracepoint() {
  need_bpf
  "$RUTILE" record -o t -e 'syscalls:sys_enter_getpgid,syscalls:sys_exit_getpgid,tp:sched:sched_process_exec' -- \
    python3 -c "
import os
for i in range(200): os.getpgid(0)"
  readers t >/dev/null
  [ "$(grep -c ' syscalls:sys_enter_getpgid:' bt2.out)" = 200 ]
  [ "$(grep -c ' syscalls:sys_exit_getpgid:' bt2.out)" = 200 ]
}

# Two events never have one name: LTTng's and the kernel's own, functions of the same name, an event that is
# removed and comes again.
test_names() {
  need_bpf
  "$RUTILE" record -o t -a -e 'sched:sched_switch,tp:sched:sched_switch,sched:sched_stat_*,raw_syscalls:sys_enter' \
    -e uprobe:/usr/bin/python3:Py_BytesMain -e 'uprobe:/usr/bin/python3:Py_BytesMain(argc)' -- /usr/bin/python3 -c 'import os; os.getpgid(77)'
  # Events of the whole machine that came while a program ran on their CPU are lost, which readers report.
  babeltrace2 t >bt2.out 2>bt2.err
  sed -n 's/^\tname = "\(.*\)";$/\1/p' t/kernel/metadata | sort >names
  [ -z "$(uniq -d names)" ]
  for name in sched_switch sched:sched_switch sched:sched_stat_runtime uprobe:Py_BytesMain uprobe:Py_BytesMain#2; do
    grep -qx "$name" names
  done
  [ "$(grep -c 'uprobe:Py_BytesMain' bt2.out)" = 2 ]
  grep -q 'raw_syscalls:sys_enter: .* id = 121, args = \[ \[0\] = 0x4D, \[1\].* \[5\] = 0x[0-9A-F]* \]' bt2.out
  S=n$$
  # Of rare events: the memory holds them until the snapshot, whatever else the machine does.
  "$RUTILE" start $S --flight -e sched_process_exec
  for _ in 1 2 3; do
    "$RUTILE" add $S -e syscalls:sys_enter_getpgid
    if "$RUTILE" add $S -e syscalls:sys_enter_getpgid 2>err; then return 1; fi
    grep -q 'is recorded already' err
    python3 -c "import os; os.getpgid($$)"
    "$RUTILE" remove $S -e 'syscalls:sys_enter_getpgid'
  done
  "$RUTILE" snapshot $S -o snap
  "$RUTILE" destroy $S
  readers snap >/dev/null
  [ "$(grep -c 'syscalls:sys_enter_getpgid' snap/kernel/metadata)" = 1 ]
  # Ours: others on the machine ask, too.
  [ "$(grep -c "syscalls:sys_enter_getpgid: .* pid = $$ " bt2.out)" = 3 ]
}

# A string and an array of the tracepoint's record, against the static event of the same moment.
test_tracepoint_strings() {
  need_bpf
  "$RUTILE" record -o t -e 'irq:irq_handler_entry,task:task_rename' -a -- \
    dd if=/dev/zero of=file bs=64k count=20 conv=fsync
  readers t >/dev/null
  grep -q 'task_rename:.*newcomm = "dd"' bt2.out
  name=$(sed -n 's/.* irq_handler_entry:.*name = "\(.*\)" }.*/\1/p' bt2.out | head -1)
  [ -z "$name" ] || grep -q "$name" /proc/interrupts
}

# Names, types and places of arguments by debug information, with and without optimization, and from a separate
# file; a program says what it calls with.
test_debug_information() {
  need_bpf
  cat >dwarf.c <<'END'
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
enum color { RED = -3, GREEN = 5 };
struct big { long a, b, c; };
struct small { int a; };
#define FAR __attribute__((noinline, noclone, used))
FAR int mixed(int count, const char *path, unsigned char small, bool yes, enum color color, double part, int64_t wide, void *place, unsigned short last)
{
	__asm__ volatile("" : : "r"(path), "r"(place), "x"(part));
	return count + small + yes + color + (int)wide + last;
}
FAR const char *named(char *text, struct big *b) { __asm__ volatile("" : : "r"(b)); return text + 1; }
FAR struct big large(int which) { __asm__ volatile(""); return (struct big){which, 2, 3}; }
FAR long after(struct big b, int then) { __asm__ volatile(""); return b.a + then; }
FAR long unknown(struct small s, int then) { __asm__ volatile(""); return s.a + then; }
FAR void nothing(void) { __asm__ volatile(""); }
FAR float real(float f) { __asm__ volatile(""); return f * 2; }
int main(void)
{
	static char text[16];
	struct big b = {7, 8, 9};
	strcpy(text, "text");
	mixed(-5, text, 200, true, RED, 1.5, -1234567890123, &b, 40000);
	named(text, &b);
	b = large(-77);
	after(b, -99);
	unknown((struct small){4}, 6);
	nothing();
	return real(1.5f) < 0;
}
END
  for how in -O0 -O2 '-O2 separate' '-O2 none'; do
    rm -rf prog prog.debug t
    cc ${how%% *} -g -o prog dwarf.c
    case $how in
      *separate) objcopy --only-keep-debug prog prog.debug; strip --strip-debug --remove-section=.note.gnu.build-id prog; objcopy --add-gnu-debuglink=prog.debug prog ;;
      *none) strip --strip-debug --remove-section=.note.gnu.build-id prog ;;
    esac
    "$RUTILE" record -o t -e "uprobe:$PWD/prog:mixed,uprobe:$PWD/prog:named,uprobe:$PWD/prog:la*,uprobe:$PWD/prog:after,uprobe:$PWD/prog:unknown" \
      -e "uprobe:$PWD/prog:real,uprobe:$PWD/prog:nothing,uretprobe:$PWD/prog:mixed,uretprobe:$PWD/prog:named,uretprobe:$PWD/prog:nothing" \
      -e "uretprobe:$PWD/prog:unknown()" -- ./prog
    readers t >/dev/null
    got() { sed -n "s/.* $1: { [^}]*}, { *\(.*\)}\$/\1/p" bt2.out; }
    if [ "$how" = '-O2 none' ]; then
      [ "$(got uprobe:mixed)" = '' ]
      got uretprobe:mixed | grep -q '^ret = [0-9]* $'
      continue
    fi
    address='place = 0x7F[0-9A-F]*'
    got uprobe:mixed | grep -q "^count = -5, small = 200, yes = 1, color = -3, wide = -1234567890123, $address, last = 40000, path = \"text\" $" || { got uprobe:mixed; return 1; }
    got uprobe:named | grep -q '^b = 0x7F[0-9A-F]*, text = "text" $'
    [ "$(got uprobe:large)" = 'which = -77 ' ]
    [ "$(got uprobe:after)" = 'then = -99 ' ]
    [ "$(got uprobe:nothing)$(got uprobe:real)$(got uretprobe:nothing)" = '' ]
    [ "$(got uretprobe:mixed)" = "ret = $((-5 + 200 + 1 - 3 - 1912276171 + 40000)) " ]
    [ "$(got uretprobe:named)" = 'ret = "ext" ' ]
    # What is said is what counts.
    got uretprobe:unknown | grep -q '^ret = 10 $'
    # Removed from a small structure on, unless the debug information says where it is.
    [ "$(got uprobe:unknown)" = '' ] || [ "$(got uprobe:unknown)" = 'then = 6 ' ]
  done
  # It is added again as what it was, whatever debug information there is then.
  cc -g -O2 -o prog dwarf.c
  "$RUTILE" start p$$ --flight -e "uprobe:$PWD/prog:mixed"
  "$RUTILE" stop p$$
  strip --strip-debug prog
  "$RUTILE" start p$$
  ./prog
  "$RUTILE" remove p$$ -e "uprobe:$PWD/prog:mixed"
  "$RUTILE" snapshot p$$ -o snap
  "$RUTILE" destroy p$$
  readers snap >/dev/null
  grep -q 'uprobe:mixed: .*{ count = -5, small = 200, ' bt2.out
}

# The limit of strings holds for probes and tracepoints, too; with a filter records take another way.
test_long_strings() {
  need_bpf
  cat >long.c <<'END'
#include <string.h>
#include <stdlib.h>
__attribute__((noinline)) void take(const char *a, const char *b) { __asm__ volatile("" : : "r"(a), "r"(b)); }
int main(void)
{
	static const int sizes[] = {638, 639, 640, 4094, 4095, 5000};
	for (int i = 0; i < 6; i++) {
		char *a = malloc(6000), *b = malloc(6000);
		memset(a, 'a', 6000), memset(b, 'b', 6000);
		a[sizes[i]] = b[sizes[i]] = 0;
		take(a, b);
	}
	return 0;
}
END
  cc -O1 -g0 -fno-inline -o long long.c
  dir=$PWD
  for _ in $(seq 12); do dir=$dir/$(printf 'd%.0s' $(seq 60)); done
  mkdir -p "$dir"
  cp /bin/true "$dir/it"
  lengths() { sed -n "s/.*uprobe:take: .*$1 = \"\([^\"]*\)\".*/\1/p" bt2.out | awk '{print length($0) (/\.$/ ? "." : "")}' | tr '\n' ' '; }
  for filter in '' '--filter=1 == 1' '--filter=$name == "uprobe:take" || $name == "sched:sched_process_exec"'; do
    rm -rf t u
    set -- -e "uprobe:$PWD/long:take(a:str,b:str)" -e sched:sched_process_exec
    [ -z "$filter" ] || set -- "$@" "$filter"
    "$RUTILE" record -o t "$@" -e tp:sched:sched_process_exec --string-limit 4K -- sh -c "./long; $dir/it"
    readers t >/dev/null
    [ "$(lengths a)" = "638 639 640 4094 4095 4095. " ]
    [ "$(lengths b)" = "638 639 640 4094 4095 4095. " ]
    grep -q "sched:sched_process_exec: .*filename = \"$dir/it\"" bt2.out
    "$RUTILE" record -o u "$@" -e tp:sched:sched_process_exec -- sh -c "./long; $dir/it"
    readers u >/dev/null
    [ "$(lengths a)" = "638 639 639. 639. 639. 639. " ]
    [ "$(lengths b)" = "638 639 639. 639. 639. 639. " ]
    grep -q "sched:sched_process_exec: .*filename = \"$PWD/[d/]*\.\.\.\"" bt2.out
  done
}

test_profile() {
  need_bpf
  "$RUTILE" record -o t --profile 200 -- sh -c 'i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done'
  readers t >/dev/null
  [ "$(grep -c 'rutile_sample:.*procname = "sh"' bt2.out)" -ge 10 ]
  # Every stack that a sample names is recorded, once.
  for id in $(sed -n 's/.*rutile_sample:.*ustack_id = \([0-9]*\),.*/\1/p' bt2.out | sort -u | head -20); do
    [ "$(grep -c "rutile_stack:.* id = $id," bt2.out)" = 1 ]
  done
  # Nothing but the samples was asked for.
  if grep -v 'rutile_\|statedump' bt2.out | head -5 | grep .; then return 1; fi
  for v in 0 10001 x ''; do
    if "$RUTILE" record -o v "--profile=$v" --duration 0.1 2>err; then return 1; fi
    grep -q 'samples a second' err
  done
  # The same option of start: a number there is no file.
  "$RUTILE" start q$$ --flight --profile 500
  sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'
  "$RUTILE" snapshot q$$ -o w
  "$RUTILE" save q$$ >profile
  "$RUTILE" destroy q$$
  readers w >/dev/null
  grep -q 'rutile_sample:.*procname = "sh"' bt2.out
  grep -qx 'event = profile:500' profile
  # Kernel functions have names: some sample was in a system call.
  "$RUTILE" record -o u -e profile:1000 -- dd if=/dev/zero of=/dev/null bs=1M count=2000 2>/dev/null
  readers u >/dev/null
  grep -q 'rutile_stack:.*symbols = ".*ksys_read;.*do_syscall_64' bt2.out
}

test_refusals() {
  build
  "$RUTILE" record -o t -e "usdt:$PWD/prog:demo:nothing,sched_switch" --duration 0.1 2>err
  grep -q "has no probe 'demo:nothing'" err
  if "$RUTILE" record -o u --strict -e "uprobe:$PWD/prog:nothing" --duration 0.1 2>err; then return 1; fi
  grep -q "has no function 'nothing'" err
  if "$RUTILE" record -o u --strict -e "nosuch:thing" --duration 0.1 2>err; then return 1; fi
  grep -q "no tracepoints 'nosuch:" err
  # The program that follows the command's children records nothing.
  for events in nosuch:thing "uprobe:$PWD/prog:nothing,nosuch:thing"; do
    rc=0
    "$RUTILE" record -o u -e "$events" -- touch ran 2>err || rc=$?
    cat err
    [ $rc = 1 ]
    grep -q "'nosuch:thing' is not recorded" err
    grep -q 'nothing is left to record' err
    [ ! -e ran ]
  done
  if "$RUTILE" record -o u --strict -e "usdt:/etc/passwd:a:b" --duration 0.1 2>err; then return 1; fi
  grep -q 'is not a 64-bit ELF file' err
  [ ! -e u ]
}

# The calls that the kernel makes for a probe are not the program's; by their own names they are there.
# The program makes them itself too, so that every kernel has some.
test_calls_of_probes() {
  need_bpf
  [ "$(uname -m)" = x86_64 ] || t_skip "x86-64 only"
  cat >called.c <<'END'
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
__attribute__((noinline)) int half(int n) { __asm__(""); return n / 2; }
int main(void)
{
  int n = 0;
  signal(SIGILL, _exit);
  for (int i = 0; i < 100; i++) n += half(i);
  syscall(SYS_getpgid, 0);
  syscall(336);
  syscall(335);
  return n < 0;
}
END
  cc -O1 -o called called.c
  for events in syscall 'syscall:*' all,!sched_switch; do
    rm -rf t
    "$RUTILE" record -o t -e "$events,uprobe:$PWD/called:half,uretprobe:$PWD/called:half" -- ./called || true
    readers t >/dev/null
    [ "$(grep -c 'uretprobe:half' bt2.out)" = 100 ]
    grep -q syscall_entry_getpgid bt2.out
    not grep -E 'syscall_(entry|exit)_(uprobe|uretprobe|unknown)' bt2.out
  done
  "$RUTILE" record -o u -e "syscall:uprobe,syscall_entry_uretprobe" -- ./called || true
  readers u >/dev/null
  grep -q syscall_entry_uprobe bt2.out
  grep -q syscall_entry_uretprobe bt2.out
  "$RUTILE" record -o v -e "syscall:uretprobe,uretprobe:$PWD/called:half" -- ./called || true
  readers v >/dev/null
  not grep syscall_exit_unknown bt2.out
}

# A probe at two places, of which the kernel takes one: it is refused, and neither records.
test_half_attached() {
  build
  command -v strace >/dev/null || t_skip "no strace"
  cat >places.c <<'END'
#include <sys/sdt.h>
int main(int argc, char **argv)
{
	for (int i = 0; i < 100; i++) {
		DTRACE_PROBE1(demo, pair, i);
		DTRACE_PROBE1(demo, pair, i + argc);
		DTRACE_PROBE1(demo, single, i);
	}
	return 0;
}
END
  cc -O2 -fno-unroll-loops -o places places.c
  # A sanitizer cannot look for leaks in what is traced.
  ASAN_OPTIONS=detect_leaks=0 strace -f -o /dev/null -e trace=perf_event_open -e inject=perf_event_open:error=ENOSPC:when=2 \
    "$RUTILE" record -o t -e "usdt:$PWD/places:demo:pair,usdt:$PWD/places:demo:single" -- ./places 2>err
  cat err
  grep -q "demo:pair' is not recorded: cannot attach to '$PWD/places' at 0x[0-9a-f]*: No space left" err
  readers t >/dev/null
  [ "$(grep -c 'demo:single:' bt2.out)" = 100 ]
  if grep 'demo:pair:' bt2.out; then return 1; fi
  # One line for one thing: the library's messages go to the log.
  [ "$(wc -l <err)" = 2 ]
}

t_case "USDT: every hit, arguments, strings, several sites" test_usdt
t_case "functions: entries and returns" test_functions
t_case "threads that share a CPU" test_turns
t_case "probes come and go in a session" test_pid_session
t_case "tracepoints by their tracefs format are exact" test_tracepoint
t_case "no two events have one name" test_names
t_case "strings of tracepoints" test_tracepoint_strings
t_case "arguments by debug information" test_debug_information
t_case "strings of up to 4 KiB" test_long_strings
t_case "samples" test_profile
t_case "the calls that the kernel makes for probes" test_calls_of_probes
t_case "what does not exist is named" test_refusals
t_case "a probe that can be attached to some of its places only" test_half_attached
t_done
