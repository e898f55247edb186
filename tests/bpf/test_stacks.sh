#!/bin/bash
# SPDX-License-Identifier: MIT
# User stacks with names, against a program with known calls.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
trap '"$RUTILE" destroy f$$ 2>/dev/null; "$RUTILE" destroy s$$ 2>/dev/null; rm -rf "$t_root"' EXIT

build() {
  need_bpf
  cat >lib.c <<'END'
__attribute__((noinline)) long in_library(long (*f)(long), long a) { return f(a) + 1; }
END
  cat >prog.c <<'END'
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
long in_library(long (*f)(long), long a);
__attribute__((noinline)) long leaf(long a) { __asm__ volatile("" ::: "memory"); return a * 3; }
__attribute__((noinline)) static long middle(long a) { return leaf(a) + 2; }
__attribute__((noinline)) long outer(long a) { return in_library(middle, a) + 3; }
__attribute__((noinline)) long busy(long n)
{
	long s = 0;
	for (long i = 0; i < n; i++) { s += i; __asm__ volatile("" : "+r"(s)); }
	return s;
}
int main(int argc, char **argv)
{
	for (int i = 0; i < 100; i++)
		outer(i);
	/* A child that maps nothing itself. */
	if (argc > 1 && !fork()) {
		for (int i = 0; i < 50; i++)
			outer(i);
		_exit(0);
	}
	wait(NULL);
	busy(argc > 2 ? atol(argv[2]) : 0);
	/* Says that all is done, and stays. */
	if (argc > 3) {
		creat(argv[3], 0600);
		alarm(300);
		pause();
	}
	return 0;
}
END
  # With the address of its caller in every frame, as a stack is walked by the kernel.
  cc -O1 -g -fno-omit-frame-pointer -fno-optimize-sibling-calls -fPIC -shared -o libstack.so lib.c
  cc -O1 -g -fno-omit-frame-pointer -fno-optimize-sibling-calls -o prog prog.c -L. -lstack -Wl,-rpath,"$PWD"
}

# The frames of each event, joined: "leaf(prog);middle(prog)...".
folded() {
  "$RUTILE" view --stacks --event 'uprobe*' "$@" | awk '
    /^\[/ {if (line) print line; line = ""; next}
    {sub(/^\t/, ""); sub(/\+0x[0-9a-f]* /, ""); line = line ";" $0}
    END {if (line) print line}' | sed 's/^;//'
}

test_names() {
  build
  "$RUTILE" record -o t -e "uprobe:$PWD/prog:leaf" --context ustack -- ./prog child
  n=$(readers t)
  grep -q 'rutile_mapping:.*libstack.so' bt2.out
  folded t >got
  # The kernel may see the frame of the entry's instruction without its caller or with it.
  grep -c '^leaf(prog);.*in_library(libstack.so);outer(prog);main(prog)' got
  [ "$(grep -c '^leaf(prog);.*in_library(libstack.so);outer(prog);main(prog)' got)" = 150 ]
  # Offsets are those within the functions: the entry is 0, callers lie inside.
  "$RUTILE" view --stacks --event 'uprobe*' t >text
  [ "$(grep -c '^	leaf+0x0 (prog)' text)" = 150 ]
  size=$((0x$(nm -S prog | awk '$4 == "outer" {print $2}')))
  # shellcheck disable=SC2013 # words
  for o in $(sed -n 's/^	outer+\(0x[0-9a-f]*\) (prog)/\1/p' text | sort -u); do
    [ $((o)) -gt 0 ]
    [ $((o)) -le "$size" ]
  done
  "$RUTILE" view --stacks --json --event 'uprobe*' t | python3 -c "
import json, sys
n = 0
for line in sys.stdin:
    s = json.loads(line)['ustack']
    assert s[0] == 'leaf+0x0 (prog)' and any(f.startswith('main+') for f in s), s
    n += 1
assert n == 150, n"
  # In several threads the same.
  "$RUTILE" view --threads 3 --stacks t | cmp - text 2>/dev/null || [ "$("$RUTILE" view --threads 3 --stacks --event 'uprobe*' t | md5sum)" = "$(md5sum <text)" ]
}

# More children than the map of traced processes holds: all are recorded.
test_children() {
  build
  cat >children.c <<'END'
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) void leaf(void) { __asm__ volatile("" ::: "memory"); }
int main(void)
{
	for (int i = 0; i < 17000; i++) {
		if (!fork()) {
			leaf();
			_exit(0);
		}
		wait(NULL);
	}
	return 0;
}
END
  cc -O1 -static -fno-omit-frame-pointer -o children children.c
  "$RUTILE" record -o t -e "uprobe:$PWD/children:leaf" --context ustack -- ./children
  readers t >/dev/null
  n=$(grep -c ' uprobe:leaf:' bt2.out)
  echo "recorded: $n"
  [ "$n" = 17000 ]
}

# Elsewhere: the files are below another directory, or are not there, or are not those that ran.
test_elsewhere() {
  build
  "$RUTILE" record -o t -e "uprobe:$PWD/prog:leaf" --context ustack -- ./prog
  mkdir -p "root$PWD"
  mv prog libstack.so "root$PWD"
  folded t >got
  [ "$(grep -c 'outer\|in_library' got)" = 0 ]
  [ "$(grep -c '^0x[0-9a-f]* (prog+0x' got)" = 100 ]
  folded --root "/nowhere:$PWD/root" t >got
  [ "$(grep -c 'in_library(libstack.so);outer(prog);main(prog)' got)" = 100 ]
  # Another build of the program.
  sed -i 's/a \* 3/a * 4/' prog.c
  cc -O1 -fno-omit-frame-pointer -o prog prog.c "root$PWD/libstack.so"
  folded t >got
  [ "$(grep -c 'outer\|leaf' got)" = 0 ]
}

# split_debug FILE DEBUG: its symbols go into a file of their own, as packages of debug information have
# them.
split_debug() {
  objcopy --only-keep-debug "$1" "$2"
  strip --strip-unneeded "$1"
  objcopy --add-gnu-debuglink="$2" "$1"
}

# Without the frames that take the tables of the program, which are read when it has run for some milliseconds.
frames() {
  folded "$@" | tr ';' '\n' | sed 's/^0x[0-9a-f]*/0x/; s/+0x[0-9a-f]*/+/' | grep -v '^\(__libc_start_main\|_start\|middle\)(' | sort | uniq -c
}

# The debug file is found by build-id and by name, gives the names of static functions, and takes none
# of the others.
test_debug_files() {
  build
  id=$(readelf -n libstack.so | sed -n 's/.*Build ID: //p')
  sed -i 's/ long outer/ static long outer/' prog.c
  cc -O1 -g -fno-omit-frame-pointer -fno-optimize-sibling-calls -Wl,--build-id=none -o prog prog.c -L. -lstack -Wl,-rpath,"$PWD"
  cp prog whole
  split_debug prog prog.debug
  split_debug libstack.so libstack.debug
  "$RUTILE" record -o t -e "uprobe:$PWD/whole:leaf" --context ustack -- ./whole
  frames t | sed 's/(whole/(prog/' >want
  grep -q '100 outer(prog)' want
  mv whole gone
  "$RUTILE" record -o u -e "uprobe:$PWD/prog:leaf" --context ustack -- ./prog
  frames u >got
  diff -u want got
  # In .debug/, and in the store of a root.
  mkdir -p .debug "root/usr/lib/debug/.build-id/${id:0:2}" "root/usr/lib/debug$PWD" "root$PWD"
  mv prog.debug .debug
  frames u | diff -u want -
  cp prog libstack.so "root$PWD"
  mv .debug/prog.debug "root/usr/lib/debug$PWD"
  mv libstack.debug "root/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
  frames --root "$PWD/root" u | diff -u want -
  # Without debug files: fewer names.
  frames u >got
  grep -q 'in_library(libstack.so)' got
  not grep -q 'outer(prog)' got
  # Another file of that name, and what is no file, are not taken.
  cp "root/usr/lib/debug$PWD/prog.debug" .
  printf x >>prog.debug
  frames u | diff -u got -
  rm prog.debug
  mkfifo prog.debug
  frames u | diff -u got -
  # What is named by the debug file alone can be traced.
  rm prog.debug
  mv "root/usr/lib/debug$PWD/prog.debug" .
  "$RUTILE" record -o v -e "uprobe:$PWD/prog:middle(a)" -- ./prog
  readers v >/dev/null
  [ "$(grep -c ' uprobe:middle: .*{ a = [0-9]* }' bt2.out)" = 100 ]
}

# Debian's package for libc: the library's exported functions have their names as before.
test_debug_package() {
  build
  id=$(readelf -n /lib/x86_64-linux-gnu/libc.so.6 | sed -n 's/.*Build ID: //p')
  [ -e "/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug" ] || t_skip "no libc6-dbg"
  cat >sort.c <<'END'
#include <stdlib.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void)
{
	int list[] = {5, 3, 1, 4};
	qsort(list, 4, sizeof(*list), compare);
	return 0;
}
END
  cc -O1 -o sort sort.c
  L=/lib/x86_64-linux-gnu/libc.so.6
  "$RUTILE" record -o t -e "uprobe:$L:msort_with_tmp*,uprobe:$L:qsort" --context ustack -- ./sort
  "$RUTILE" view --stacks --event 'uprobe:*' t >text
  grep -q '^	msort_with_tmp[a-z0-9.]*+0x0 (libc.so.6)' text
  grep -q '^	\(__\)*qsort+0x0 (libc.so.6)' text
  not grep '^	0x.*libc' text
}

test_samples() {
  build
  "$RUTILE" record -o t --profile 997 -- ./prog x 400000000
  readers t >/dev/null
  "$RUTILE" view --stacks --event rutile_sample t >text
  samples=$(grep -c '^\[.*procname = "prog"' text)
  [ "$samples" -ge 20 ]
  # Nearly all time is spent there; the first frame is the place itself.
  [ "$(grep -c '^	busy+0x[0-9a-f]* (prog)' text)" -ge $((samples * 8 / 10)) ]
}

test_folded() {
  build
  "$RUTILE" record -o t -e "uprobe:$PWD/prog:leaf" --context ustack,procname -- ./prog child
  "$RUTILE" view --folded t >got
  # The loader's frames below main are those of the C library here.
  sed 's/^prog;.*main;outer;in_library\(;middle\)\{0,1\};leaf /main;outer;in_library;leaf /' got |
    awk '{n[$1] += $2} END {for (k in n) print k, n[k]}' >sums
  cat got
  [ "$(cat sums)" = "main;outer;in_library;leaf 150" ]
  "$RUTILE" record -o u --profile 997 -- ./prog x 400000000
  "$RUTILE" view --folded u >got
  head -n 1 got | grep -q '^prog;.*busy [0-9]*$'
  # As many as there are samples with a stack.
  [ "$(awk '{n += $NF} END {print n}' got)" -le "$("$RUTILE" view --event rutile_sample --count u)" ]
}

# A flight recorder: what lives at the snapshot has names.
test_flight() {
  build
  "$RUTILE" start s$$ --flight -e "uprobe:$PWD/prog:leaf" --context ustack
  ./prog x 0 waits &
  pid=$!
  ./prog
  wait_for waits
  "$RUTILE" snapshot s$$ -o t
  "$RUTILE" destroy s$$
  kill $pid
  readers t >/dev/null
  folded --filter "\$evt.pid == $pid" t >got
  [ "$(grep -c 'in_library(libstack.so);outer(prog);main(prog)' got)" = 100 ]
  # Gone: addresses.
  folded --filter "\$evt.pid != $pid" t >got
  [ "$(grep -c '^0x' got)" -ge 100 ]
}

# Every directory is complete by itself; samples can be added to a session that has room for stacks.
test_sessions() {
  build
  "$RUTILE" start f$$ -o "$T/f" -e "uprobe:$PWD/prog:leaf" --context ustack
  ./prog x 0 waits &
  pid=$!
  wait_for waits
  "$RUTILE" rotate f$$ >/dev/null
  ./prog
  "$RUTILE" rotate f$$ >/dev/null
  ./prog child
  "$RUTILE" add f$$ -e profile:500
  ./prog x 100000000
  "$RUTILE" destroy f$$
  kill $pid
  n=0
  for d in f f-1 f-2; do
    readers $d >/dev/null
    folded $d >got
    [ "$(grep -c 'in_library(libstack.so);outer(prog);main(prog)' got)" = "$(grep -c ' uprobe:leaf:' bt2.out)" ]
    n=$((n + $(wc -l <got)))
  done
  [ $n = 550 ]
  "$RUTILE" view --stacks --event rutile_sample f-2 | grep -q '^	busy+0x[0-9a-f]* (prog)'
  "$RUTILE" start f$$ --flight -e sched_switch
  if "$RUTILE" add f$$ -e profile:500 2>err; then return 1; fi
  "$RUTILE" destroy f$$
  grep -q 'without room for stacks' err
}

# A program that calls one function in as many ways as it is asked to, from a number on: each bit of
# the number is a call of `zero` or of `one`. Then it waits for a line.
ways() {
  cat >ways.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#define NOINLINE __attribute__((noinline))
NOINLINE void leaf(void) { __asm__ volatile("" ::: "memory"); }
void down(unsigned n, int bits);
NOINLINE void zero(unsigned n, int bits) { down(n, bits); __asm__ volatile("" ::: "memory"); }
NOINLINE void one(unsigned n, int bits) { down(n, bits); __asm__ volatile("# other" ::: "memory"); }
NOINLINE void down(unsigned n, int bits)
{
	if (!bits)
		leaf();
	else if (n >> (bits - 1) & 1)
		one(n, bits - 1);
	else
		zero(n, bits - 1);
	__asm__ volatile("" ::: "memory");
}
int main(void)
{
	unsigned from, count;
	while (scanf("%u %u", &from, &count) == 2) {
		for (unsigned i = from; i < from + count; i++)
			down(i, 17);
		puts("done");
		fflush(stdout);
	}
}
END
  cc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -fno-ipa-icf -o ways ways.c
  mkfifo to from
  ./ways <to >from &
  ways=$!
  exec 3>to 4<from
}
come_by() {
  echo "$1 $2" >&3
  read -r line <&4
  [ "$line" = "done" ]
}

# checked FROM DIR...: every event of these directories, one after the other, has the stack of its
# number, or none that is shown; how many have none.
checked() {
  python3 - "$@" <<'END'
import json, os, subprocess, sys
n, lost = int(sys.argv[1]), 0
for d in sys.argv[2:]:
    for line in subprocess.run([os.environ["RUTILE"], "view", "--stacks", "--json", "--event", "uprobe*", d],
                               check=True, capture_output=True, text=True).stdout.splitlines():
        stack = json.loads(line)["ustack"]
        if stack == ["(stack lost)"]:
            lost += 1
        else:
            names = [f.split("+")[0] for f in stack]
            bits = [x for x in names if x in ("zero", "one")]
            assert names[0] == "leaf" and len(bits) == 17, stack
            assert int("".join("01"[x == "one"] for x in reversed(bits)), 2) == n, (n, stack)
        n += 1
print(n - int(sys.argv[1]), lost)
END
}

# More stacks than the table holds: what is written in time is all there, directory by directory.
test_many() {
  need_bpf
  ways
  "$RUTILE" start s$$ -o "$T/t" -e "uprobe:$PWD/ways:leaf" --context ustack
  for i in $(seq 0 19); do
    come_by $((i * 2000)) 2000
    "$RUTILE" rotate s$$ >/dev/null
  done
  if "$RUTILE" status s$$ | grep 'stacks lost'; then return 1; fi
  "$RUTILE" destroy s$$
  # shellcheck disable=SC2046 # names of directories
  [ "$(checked 0 t $(seq -f 't-%.0f' 19))" = "40000 0" ]
  # Each directory has its own ones and no others.
  for d in t t-7 t-19; do
    [ "$(babeltrace2 $d | grep -c ' rutile_stack:')" = 2000 ]
    readers $d >/dev/null
  done
  kill $ways
}

# ... what is not is reported: in numbers and at each event.
test_too_many() {
  need_bpf
  ways
  "$RUTILE" start s$$ -o "$T/t" --buffer 32M -e "uprobe:$PWD/ways:leaf" --context ustack
  process=$("$RUTILE" status s$$ | sed -n 's/^process *\([0-9]*\).*/\1/p')
  kill -STOP "$process"
  t_wait t_is "$process" T
  come_by 0 40000
  lost=$("$RUTILE" status s$$ | sed -n 's/^stacks lost *//p')
  kill -CONT "$process"
  [ "$lost" -ge $((40000 - 16384)) ]
  "$RUTILE" destroy s$$
  [ "$(checked 0 t)" = "40000 $lost" ]
  grep -q "$lost stacks were lost" "$RUTILE_LOG_DIR/s$$.log"
  readers t >/dev/null
  "$RUTILE" view --folded t | grep -q "^ways;(stack lost) $lost$\|;(stack lost) $lost$\|^(stack lost) $lost$"
  kill $ways
}

# A flight recorder has no end: the newest are there, the old ones are not replaced by others.
test_flight_many() {
  need_bpf
  ways
  "$RUTILE" start s$$ --flight --buffer 32M -e "uprobe:$PWD/ways:leaf" --context ustack
  come_by 0 60000
  "$RUTILE" snapshot s$$ -o t
  come_by 60000 1000
  "$RUTILE" snapshot s$$ -o u
  readers t >/dev/null
  # shellcheck disable=SC2046 # two numbers
  set -- $(checked 0 t)
  [ "$1" = 60000 ]
  [ "$2" -ge $((60000 - 16384)) ]
  [ "$2" -lt 50000 ]
  # Of the newest none is lost.
  "$RUTILE" view --stacks --event 'uprobe*' u | awk '/^\[/ {n++} /stack lost/ && n > 60000 {exit 1}'
  "$RUTILE" clear s$$
  come_by 70000 2000
  "$RUTILE" snapshot s$$ -o v
  "$RUTILE" destroy s$$
  [ "$(checked 70000 v)" = "2000 0" ]
  # Those of what was cleared are not in it.
  [ "$(babeltrace2 v | grep -c ' rutile_stack:')" -lt 4000 ]
  kill $ways
}

# Two that follow one flight recorder do not take each other's stacks.
test_followers() {
  need_bpf
  ways
  "$RUTILE" start s$$ --flight --buffer 32M -e "uprobe:$PWD/ways:leaf" --context ustack
  for d in a b; do
    "$RUTILE" attach s$$ -o $d 2>$d.err &
    echo $! >$d.pid
    wait_for $d/kernel/metadata
  done
  come_by 0 2000
  "$RUTILE" stop s$$
  wait "$(cat a.pid)" "$(cat b.pid)"
  "$RUTILE" destroy s$$
  for d in a b; do
    [ "$(checked 0 $d)" = "2000 0" ]
    readers $d >/dev/null
  done
  kill $ways
}

# Contexts of all kinds at once, on all default events.
test_default_events() {
  need_bpf
  "$RUTILE" record -o t --context ustack,kstack,procname,tid,cgroup,cpu -- sh -c 'ls / >/dev/null'
  readers t >/dev/null
  "$RUTILE" view --stacks --json t | python3 -c "
import json, sys
user = kernel = 0
for line in sys.stdin:
    e = json.loads(line)
    user += len(e.get('ustack', [])) > 1
    kernel += len(e.get('kstack', [])) > 1
    assert e.get('ustack') != ['(stack lost)'] and e.get('kstack') != ['(stack lost)'], e
assert user > 20 and kernel > 20, (user, kernel)"
}

# Without stacks no mappings are recorded.
test_none() {
  build
  "$RUTILE" record -o t -e "uprobe:$PWD/prog:leaf" -- ./prog
  readers t >/dev/null
  if grep 'rutile_mapping:\|rutile_forked:' bt2.out; then return 1; fi
  "$RUTILE" view --stacks t >a
  "$RUTILE" view t | cmp - a
}

t_case "frames of program, library and forked child" test_names
t_case "more children than the map of traced processes holds" test_children
t_case "on another machine; files that are not those that ran" test_elsewhere
t_case "samples" test_samples
t_case "names from separate debug files" test_debug_files
t_case "names with a debug package of libc" test_debug_package
t_case "counted, for flame graphs" test_folded
t_case "snapshots" test_flight
t_case "sessions, directories, samples added later" test_sessions
t_case "more stacks than the table holds, written in time" test_many
t_case "... and not: none is taken for another, losses are reported" test_too_many
t_case "... and in a flight recorder" test_flight_many
t_case "... and of two that follow it" test_followers
t_case "stacks of all default events" test_default_events
t_case "without stacks no mappings are recorded" test_none
t_done
