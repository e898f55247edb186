#!/bin/bash
# SPDX-License-Identifier: MIT
# Stacks that are recognised as a whole, against programs that say themselves what called what: where only one frame in
# the middle differs, with everything below it at the same addresses, the stack is another one.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
trap 'rm -rf "$t_root"' EXIT

# The functions that differ have frames of one size, and %rbp is needed to find the callers of `varies`.
test_user() {
  need_bpf
  cat >middle.c <<'END'
#include <alloca.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#define KEEP __asm__ volatile("" ::: "memory")
__attribute__((noinline)) void leaf(void) { syscall(SYS_getppid); KEEP; }
__attribute__((noinline)) void inner(void) { leaf(); KEEP; }
__attribute__((noinline)) void varies(int n) { char *p = alloca(n); __asm__ volatile("" :: "r"(p) : "memory"); inner(); KEEP; }
#define MIDDLE(name) __attribute__((noinline)) void name(int n) { varies(n); KEEP; }
MIDDLE(first) MIDDLE(second) MIDDLE(third)
__attribute__((noinline)) void outer(void (*f)(int)) { f(64); KEEP; }
int main(void)
{
	static void (*const f[])(int) = {first, second, third};
	static const char *const names[] = {"first", "second", "third"};
	unsigned int x = 1;
	usleep(300000); /* until the tables are read */
	for (int i = 0; i < 3000; i++) {
		x = x * 1103515245 + 12345;
		puts(names[(x >> 16) % 3]);
		outer(f[(x >> 16) % 3]);
	}
	return 0;
}
END
  cc -O1 -fomit-frame-pointer -fno-optimize-sibling-calls -o middle middle.c
  "$RUTILE" record -o t -e syscall_entry_getppid --context ustack -- ./middle >truth
  "$RUTILE" view --stacks --json --event syscall_entry_getppid t | python3 -c "
import json, sys
got = []
for line in sys.stdin:
    names = [f.split('+')[0] for f in json.loads(line).get('ustack', [])]
    i = names.index('leaf')
    assert names[i:i + 3] == ['leaf', 'inner', 'varies'] and names[i + 4:i + 6] == ['outer', 'main'], names
    got.append(names[i + 3])
truth = open('truth').read().split()
assert len(truth) == 3000 and got == truth, (len(got), len(truth), [a == b for a, b in zip(got, truth)].count(False))
"
}
t_case "native stacks that differ in a frame in the middle" test_user

# One system call, one function of user space that makes it: in the kernel what reads differs. What called it says which.
test_kernel() {
  need_bpf
  cat >reads.c <<'END'
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>
#define KEEP __asm__ volatile("" ::: "memory")
static int pipes[2], event;
static volatile int want; /* 1: the pipe, 2: the event, 3: the end */
static void *feed(void *arg)
{
	uint64_t one = 1;
	while (want != 3) {
		int w = want;
		if (w) {
			usleep(500);
			want = 0;
			if (write(w == 1 ? pipes[1] : event, &one, 8) != 8)
				return NULL;
		}
		usleep(100);
	}
	return NULL;
}
__attribute__((noinline)) void get(int fd) { uint64_t n; if (read(fd, &n, 8) != 8) puts("?"); KEEP; }
__attribute__((noinline)) void waits_pipe(void) { want = 1; get(pipes[0]); KEEP; }
__attribute__((noinline)) void waits_event(void) { want = 2; get(event); KEEP; }
int main(void)
{
	pthread_t t;
	unsigned int x = 1;
	if (pipe(pipes) || (event = eventfd(0, 0)) < 0 || pthread_create(&t, NULL, feed, NULL))
		return 1;
	usleep(300000);
	for (int i = 0; i < 1500; i++) {
		x = x * 1103515245 + 12345;
		if (x >> 16 & 1)
			waits_pipe();
		else
			waits_event();
	}
	want = 3;
	pthread_join(t, NULL);
	return 0;
}
END
  cc -O1 -fomit-frame-pointer -fno-optimize-sibling-calls -o reads reads.c -lpthread
  "$RUTILE" record -o t -e sched_switch --context ustack,kstack,pid -- ./reads
  "$RUTILE" view --stacks --json --event sched_switch t | python3 -c "
import collections, json, sys
seen = collections.Counter()
for line in sys.stdin:
    e = json.loads(line)
    user = [f.split('+')[0] for f in e.get('ustack', [])]
    kernel = [f.split('+')[0] for f in e.get('kstack', [])]
    if 'get' in user and any('read' in f for f in kernel):
        seen['pipe' if 'waits_pipe' in user else 'event',
             'pipe' if any('pipe_read' in f for f in kernel) else 'event' if 'eventfd_read' in kernel else str(kernel)] += 1
        assert '__schedule' in kernel and ('do_syscall_64' in kernel or 'entry_SYSCALL' in kernel[-1]), kernel
print(seen)
assert set(seen) == {('pipe', 'pipe'), ('event', 'event')}, seen
assert min(seen.values()) > 500, seen
"
}
t_case "stacks of the kernel that differ in a frame in the middle" test_kernel
t_done
