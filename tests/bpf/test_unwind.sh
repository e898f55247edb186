#!/bin/bash
# SPDX-License-Identifier: MIT
# The tables of native stacks while processes come, go and change, against programs of known calls.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
trap '"$RUTILE" destroy s$$ 2>/dev/null; rm -rf "$t_root"' EXIT

# A program without frame pointers whose work has a known stack; it says that it began, and works until "stop".
known() {
  cat >known.c <<'END'
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static volatile long sink;
__attribute__((noinline)) void work(void) { for (int i = 0; i < 200000; i++) sink += i; }
__attribute__((noinline)) int compare(const void *a, const void *b) { work(); sink++; return *(int *)a - *(int *)b; }
__attribute__((noinline)) void sorts(int n) { int v[n]; for (int i = 0; i < n; i++) v[i] = n - i; qsort(v, n, sizeof(*v), compare); sink++; }
int main(void) { creat("began", 0600); while (access("stop", 0)) { sorts(8); sink++; } return 0; }
END
  cc -O2 -fomit-frame-pointer -fno-optimize-sibling-calls -o known known.c
}

# Processes that live for a moment each, with many mappings of code, until COUNT have run.
storm() {
  cat >short.c <<'END'
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	for (int i = 0; i < atoi(argv[1]); i++)
		if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 4096) == MAP_FAILED)
			return 1;
	usleep(80000);
	return 0;
}
END
  cat >storm.c <<'END'
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
int main(int argc, char **argv)
{
	char n[16], *args[] = {"short", n, NULL}, *env[] = {NULL};
	int count = atoi(argv[1]), live = 0;
	for (int i = 0; i < count; i++) {
		pid_t pid;
		for (; live >= 120; live--)
			wait(NULL);
		snprintf(n, sizeof(n), "%d", 20 + i * 7 % 90);
		if (posix_spawn(&pid, "./short", NULL, NULL, args, env))
			return 1;
		live++;
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
END
  cc -O1 -static -Wl,-z,noseparate-code -o short short.c
  cc -O1 -o storm storm.c
}

# After thousands of processes a new one has its stack. RUTILE_STORM: how many.
test_storm() {
  need_bpf
  known
  storm
  "$RUTILE" start s$$ -o "$T/t" -e profile:99 --context ustack,procname
  time ./storm "${RUTILE_STORM:-3000}"
  ./known & known=$!
  t_wait test -e began
  sleep 1.5
  : >stop
  wait $known
  "$RUTILE" destroy s$$
  test -f "$RUTILE_LOG_DIR/s$$.log"
  not grep 'mapped more code\|than can be known' "$RUTILE_LOG_DIR/s$$.log"
  "$RUTILE" view --folded --event rutile_sample t >folded
  grep '^known' folded | sort -t' ' -k2n | tail -5
  awk '/^known;/ { all += $NF } /^known;_start;.*;main;sorts;qsort[^;]*;.*;compare;work / { good += $NF }
    END { print good, all; exit !(all > 20 && good > all * 0.8) }' folded
}
t_case "a new process has its stacks after thousands of others" test_storm

# While nothing reads the notices of mappings, more come than there is room for, and a process that is known loads a
# library. Every process is read again then.
test_lost() {
  need_bpf
  cat >library.c <<'END'
#include <stdlib.h>
static volatile long sink;
__attribute__((noinline)) static void work(void) { for (int i = 0; i < 200000; i++) sink += i; }
static int compare(const void *a, const void *b) { work(); sink++; return *(int *)a - *(int *)b; }
__attribute__((noinline)) void sorts(int n) { int v[n]; for (int i = 0; i < n; i++) v[i] = n - i; qsort(v, n, sizeof(*v), compare); sink++; }
END
  cat >loads.c <<'END'
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>
static volatile long sink;
int main(int argc, char **argv)
{
	creat("ready", 0600);
	while (access("go", 0))
		usleep(1000);
	void *library = dlopen(argv[1], RTLD_NOW);
	if (!library)
		return 1;
	void (*sorts)(int) = (void (*)(int))dlsym(library, "sorts");
	creat("loaded", 0600);
	while (access("stop", 0)) {
		sorts(8);
		sink++;
	}
	return 0;
}
END
  cat >maps.c <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
/* So many mappings of code on each CPU. */
int main(int argc, char **argv)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (sched_setaffinity(0, sizeof(set), &set))
			continue;
		for (int i = 0; i < atoi(argv[1]); i++)
			munmap(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0), 4096);
	}
	return 0;
}
END
  cc -O2 -fomit-frame-pointer -fno-optimize-sibling-calls -fPIC -shared -o library.so library.c
  cc -O2 -fomit-frame-pointer -o loads loads.c
  cc -O1 -o maps maps.c
  ./loads "$PWD/library.so" & loads=$!
  t_wait test -e ready
  "$RUTILE" start s$$ -o "$T/t" -e profile:99 --context ustack,procname
  process=$("$RUTILE" status s$$ | sed -n 's/^process *\([0-9]*\).*/\1/p')
  kill -STOP "$process"
  ./maps 20000
  : >go
  t_wait test -e loaded
  kill -CONT "$process"
  sleep 0.5
  # The kernel says how many it has lost before the next one.
  ./maps 2
  sleep 2.5
  : >stop
  wait $loads
  "$RUTILE" destroy s$$
  grep 'too many programs' "$RUTILE_LOG_DIR/s$$.log"
  "$RUTILE" view --folded --event rutile_sample t >folded
  grep '^loads' folded | sort -t' ' -k2n | tail -5
  # The library's names may be among what was lost; its callers and callees are found by its tables alone.
  awk '/^loads;/ { all += $NF } /^loads;_start;.*;main;.*qsort/ { good += $NF }
    END { print good, all; exit !(good > 20 && good > all * 0.3) }' folded
}
t_case "a library that is loaded while notices of mappings are lost" test_lost

# Code that a process wrote and made executable after it was read: it has frame pointers, and its callers are found.
test_mprotect() {
  need_bpf
  cat >made.c <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile long sink;
__attribute__((noinline)) long work(long n) { for (int i = 0; i < 200000; i++) sink += i; return n; }
__attribute__((noinline)) long made(long (*f)(long), long n) { return f(n) + 1; }
__attribute__((noinline)) long calls(long (*f)(long (*)(long), long)) { return f(work, 1) + 2; }
int main(void)
{
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(code, (void *)made, 128);
	creat("ready", 0600);
	while (access("go", 0))
		usleep(1000);
	mprotect(code, 4096, PROT_READ | PROT_EXEC);
	while (access("stop", 0))
		sink += calls((long (*)(long (*)(long), long))code);
	return 0;
}
END
  cc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -fcf-protection=none -o made made.c
  ./made & made=$!
  t_wait test -e ready
  # Nobody reads it again here.
  "$RUTILE" start s$$ --flight -e profile:99 --context ustack,procname
  : >go
  sleep 1.5
  "$RUTILE" snapshot s$$ -o t
  "$RUTILE" destroy s$$
  : >stop
  wait $made
  "$RUTILE" view --folded --event rutile_sample t >folded
  grep '^made' folded
  awk '/^made;/ { all += $NF } /^made;_start;.*;main;calls;[^;]*;work / { good += $NF }
    END { print good, all; exit !(all > 20 && good > all * 0.8) }' folded
}
t_case "code that becomes executable later" test_mprotect

# A stack that fits is whole, one that is a frame too deep says so.
test_depth() {
  need_bpf
  cat >deep.c <<'END'
#include <stdlib.h>
__attribute__((noinline)) void leaf(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) void down(int n) { if (n > 1) down(n - 1); else leaf(); __asm__ volatile("" ::: "memory"); }
#include <unistd.h>
int main(void) { usleep(300000); for (int n = 100; n <= 140; n++) down(n); return 0; }
END
  cc -O1 -fomit-frame-pointer -fno-optimize-sibling-calls -o deep deep.c
  "$RUTILE" record -o t -e "uprobe:$PWD/deep:leaf" --context ustack -- ./deep
  "$RUTILE" view --stacks --json t | python3 -c "
import json, sys
n, whole, outside = 100, 0, None
for line in sys.stdin:
    e = json.loads(line)
    if 'ustack' not in e or 'leaf' not in e['ustack'][0]:
        continue
    names = [f.split('+')[0] for f in e['ustack']]
    downs = names.count('down')
    if outside is None:
        outside = len(names) - downs   # leaf, main, and what is outside of it
    cut = 'callers not found' in names[-1]
    print(n, len(names), downs, cut)
    assert cut == (n + outside > 127), (n, outside)
    assert len(names) == min(n + outside, 127), (n, len(names))
    whole += not cut
    n += 1
assert n == 141 and 10 < whole < 40, (n, whole)"
}
t_case "stacks of as many frames as are kept, and of one more" test_depth

# Programs that are started while it is recorded have whole stacks: each lives until its own were seen. How soon its code is read
# is tested with rut_unwind_due_ns().
test_young() {
  need_bpf
  cat >young.c <<'END'
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static volatile long sink;
static int left = 1;
__attribute__((noinline)) void nap(void) { struct timespec t = {0, 500000}; nanosleep(&t, NULL); left = access("seen", 0); }
__attribute__((noinline)) int compare(const void *a, const void *b) { if (left) nap(); sink++; return *(int *)a - *(int *)b; }
__attribute__((noinline)) void sorts(int n) { int v[n]; for (int i = 0; i < n; i++) v[i] = n - i; qsort(v, n, sizeof(*v), compare); sink++; }
int main(void) { alarm(120); while (left) { sorts(8); sink++; } return 0; }
END
  cc -O2 -fomit-frame-pointer -fno-optimize-sibling-calls -o young young.c
  # shellcheck disable=SC2016 # the shell's own
  "$RUTILE" record -e sched_switch --context pid,ustack -o trace -- sh -c 'for i in $(seq 20); do ./young & sleep 0.02; done; wait' & local recorded=$!
  all_whole() {
    "$RUTILE" view --stacks --json trace 2>/dev/null | python3 -c '
import json, sys
whole = set()
for line in sys.stdin:
    e = json.loads(line)
    if e["name"] != "sched_switch" or e["fields"]["prev_comm"] != "young" or "ustack" not in e:
        continue
    if {"nap", "compare", "sorts", "main"} <= {f.split("+")[0] for f in e["ustack"]}:
        whole.add(e["fields"]["prev_tid"])
sys.exit(len(whole) != 20)'
  }
  t_wait all_whole
  touch seen
  wait $recorded
}
t_case "programs that have just been started have whole stacks" test_young

# What maps code all the time is not read all the time.
test_often() {
  need_bpf
  cat >often.c <<'END'
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	while (access("stop", 0)) {
		void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 4096);
		usleep(2000);
		munmap(p, 4096);
	}
	return 0;
}
END
  cc -O1 -o often often.c
  "$RUTILE" start s$$ -o "$T/t" -e profile:49 --context ustack
  process=$("$RUTILE" status s$$ | sed -n 's/^process *\([0-9]*\).*/\1/p')
  ./often & often=$!
  # It records no process of its own kind, so another tracer counts.
  timeout -s INT 7 strace -qq -e trace=openat -o opened -p "$process" || :
  : >stop
  wait $often
  "$RUTILE" destroy s$$
  n=$(grep -c "/proc/$often/maps" opened)
  echo "read $n times"
  # At last every 2 s; every 4 ms it would be 1,750 times.
  [ "$n" -ge 2 ]
  [ "$n" -le 40 ]
}
t_case "a process that maps code all the time is read a few times" test_often
t_done
