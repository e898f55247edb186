#!/bin/bash
# SPDX-License-Identifier: MIT
# USDT probes and functions, against programs written for it: every form of argument, one process of
# several, a process in a mount namespace of its own, semaphores, places.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

trap '"$RUTILE" destroy u$$ 2>/dev/null; "$RUTILE" destroy v$$ 2>/dev/null; "$RUTILE" destroy w$$ 2>/dev/null; rm -rf "$t_root"' EXIT

need_compiler() {
  need_bpf
  echo '#include <sys/sdt.h>' | cc -E - >/dev/null 2>&1 || t_skip "no sys/sdt.h (systemtap-sdt-dev)"
}

# fields NAME: the payload of the last event of that name.
fields() {
  sed -n "s/.* $1: .*}, { \(.*\) }\$/\1/p" bt2.out | tail -n 1
}

# Notes are written by hand, so that every form is there whatever the compiler prefers.
test_forms() {
  need_compiler
  [ "$(uname -m)" = x86_64 ] || t_skip "x86-64 only"
  cat >forms.S <<'END'
	.macro probe name:req, args:req
990:	nop
	.pushsection .note.stapsdt, "", "note"
	.balign 4
	.4byte 992f-991f, 994f-993f, 3
991:	.asciz "stapsdt"
992:	.balign 4
993:	.8byte 990b, _.stapsdt.base, 0
	.asciz "forms"
	.asciz "\name"
	.asciz "\args"
994:	.balign 4
	.popsection
	.endm
	.pushsection .stapsdt.base, "aG", "progbits", .stapsdt.base, comdat
	.weak _.stapsdt.base
	.hidden _.stapsdt.base
_.stapsdt.base: .space 1
	.size _.stapsdt.base, 1
	.popsection
	.section .note.GNU-stack, "", @progbits
	.data
	.type table, @object
table:	.quad 0x1111111122222222, 0x3333333344444444, 0x5555555566666666, -2
	.type counter, @object
counter: .long -123456, 77
	.text
	.globl main
	.type main, @function
main:	push %rbp
	mov %rsp, %rbp
	push %rbx
	push %r12
	push %r13
	push %r14
	push %r15
	sub $40, %rsp
	/* Written to, or it might not be in memory. */
	lea table(%rip), %rbx
	addq $0, (%rbx)
	movl $-5, -56(%rbp)
	movq $600, (%rsp)
	mov $0x8877665544332211, %rax
	mov $0xfffffffffffffff0, %rcx
	mov $2, %r12
	mov $0x80, %r13
	mov $0x1234, %r14
	mov $3, %r15
	probe registers "8@%rax 4@%eax 2@%ax 1@%al 1@%ah -8@%rcx -4@%ecx -2@%cx -1@%cl -1@%r13b 2@%r14w 4@%r12d"
	probe constants "4@$5 -4@$-7 1@$255 8@$0x7fffffffffff -8@$-9223372036854775808 2@$0x10"
	probe memory "-4@-56(%rbp) 8@(%rsp) 8@(%rbx) 8@8(%rbx) 4@(%rbx,%r12,8) -8@8(%rbx,%r12,8) 8@(%rbx,%r12,4) 2@-8(%rbx,%r12,8) -8@0x18(%rbx) 1@(%rbx,%r15)"
	probe symbols "-4@counter(%rip) 4@counter+4(%rip) 8@4+table+4(%rip) -8@table+24(%rip) 8@%rdi"
	xor %eax, %eax
	add $40, %rsp
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbx
	pop %rbp
	ret
END
  cc -o forms forms.S
  P=$PWD/forms
  "$RUTILE" record -o t -e "usdt:$P:forms:registers,usdt:$P:forms:constants,usdt:$P:forms:memory,usdt:$P:forms:symbols" -- ./forms
  readers t >/dev/null
  same() { [ "$(fields "forms:$1")" = "$2" ] || { echo "$1: $(fields "forms:$1")" >&2; exit 1; }; }
  same registers 'arg0 = 9833440827789222417, arg1 = 1144201745, arg2 = 8721, arg3 = 17, arg4 = 34, arg5 = -16, arg6 = -16, arg7 = -16, arg8 = -16, arg9 = -128, arg10 = 4660, arg11 = 2'
  same constants 'arg0 = 5, arg1 = -7, arg2 = 255, arg3 = 140737488355327, arg4 = -9223372036854775808, arg5 = 16'
  same memory 'arg0 = -5, arg1 = 600, arg2 = 1229782938533634594, arg3 = 3689348815028241476, arg4 = 1717986918, arg5 = -2, arg6 = 3689348815028241476, arg7 = 17476, arg8 = -2, arg9 = 34'
  same symbols "arg0 = -123456, arg1 = 77, arg2 = 3689348815028241476, arg3 = -2, arg4 = 1"
}

# A pattern is as many events as there are probes, each with its own name, arguments and sites.
test_glob() {
  need_compiler
  cat >many.c <<'END'
#include <sys/sdt.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
	/* Written to: a page that nobody has touched cannot be read by a probe. */
	char word[3][8];
	int n = atoi(argv[1]);

	strcpy(word[0], "zero"), strcpy(word[1], "one"), strcpy(word[2], "two");
	for (int i = 0; i < n; i++)
		DTRACE_PROBE2(pp, alpha, i, 100L + i);
	for (int i = 0; i < 2 * n; i++)
		DTRACE_PROBE1(pp, beta, 1000 + i);
	for (int i = 0; i < 3 * n; i++) {
		DTRACE_PROBE2(pp, gamma, word[i % 3], (short)-i);
		DTRACE_PROBE(pp, delta);
		if (i & 1)
			DTRACE_PROBE1(pp, beta, -i);
	}
	DTRACE_PROBE1(other, alpha, n);
	return 0;
}
END
  cc -O2 -o many many.c
  P=$PWD/many
  "$RUTILE" record -o t -e "usdt:$P:pp:gamma(text:str,n),usdt:$P:pp:*,usdt:$P:*:alpha" -- ./many 7
  readers t >/dev/null
  sed -n 's/.* \([a-z]*:[a-z]*\): .*}, { \(.*\)}$/\1 \2/p' bt2.out | grep -v lttng_ >got
  {
    for i in $(seq 0 6); do echo "pp:alpha arg0 = $i, arg1 = $((100 + i)) "; done
    for i in $(seq 0 13); do echo "pp:beta arg0 = $((1000 + i)) "; done
  } >want
  for i in $(seq 0 20); do
    word=$(echo zero one two | cut -d' ' -f$((i % 3 + 1)))
    echo "pp:gamma n = -$i, text = \"$word\" " | sed 's/-0/0/'
    echo "pp:delta "
    [ $((i & 1)) = 0 ] || echo "pp:beta arg0 = -$i "
  done >>want
  echo "other:alpha arg0 = 7 " >>want
  diff -u want got
  # They are removed by the same words, and added again.
  "$RUTILE" start u$$ --flight -e "usdt:$P:pp:*"
  "$RUTILE" remove u$$ -e "usdt:$P:pp:[ab]*"
  ./many 5
  "$RUTILE" stop u$$
  "$RUTILE" start u$$
  ./many 2
  "$RUTILE" add u$$ -e "usdt:$P:pp:*"
  ./many 1
  "$RUTILE" snapshot u$$ -o s
  "$RUTILE" destroy u$$
  readers s >/dev/null
  for c in gamma:24 delta:24 alpha:1 beta:3; do
    [ "$(grep -c " pp:${c%:*}: " bt2.out)" = "${c#*:}" ] || { echo "not $c" >&2; exit 1; }
  done
}

# Debian's Python: eight probes with arguments of their own.
test_python() {
  need_compiler
  readelf -n /usr/bin/python3 | grep -q stapsdt || t_skip "Python without static probes"
  cat >app.py <<'END'
import gc, sys
def step(n): pass
gc.disable()
for i in range(37): gc.collect(1)
for i in range(11): sys.audit("rutile.test", i)
for i in range(23): step(i)
END
  P=usdt:/usr/bin/python3:python
  "$RUTILE" record -o t -e "$P:function__*(file:str,name:str,line),$P:audit(event:str),$P:*" -- /usr/bin/python3 app.py
  readers t >/dev/null
  same() { [ "$(grep -c "$2" bt2.out)" = "$1" ] || { grep -c "$2" bt2.out; echo "not $1 of $2"; exit 1; } >&2; }
  same 37 ' python:gc__start: .*{ arg0 = 1 }'
  same 11 ' python:audit: .*event = "rutile.test" }'
  same 23 ' python:function__entry: .*{ line = 2, file = ".*/app.py", name = "step" }'
  same 23 ' python:function__return: .*{ line = 2, file = ".*/app.py", name = "step" }'
  [ "$(grep -c ' python:gc__start:' bt2.out)" = "$(grep -c ' python:gc__done:' bt2.out)" ]
  [ "$(grep -c ' python:import__find__load__start:' bt2.out)" -ge 5 ]
  # The loops ran these lines.
  grep -q ' python:line: .*arg2 = 6 }' bt2.out
}

# What the compiler makes of one probe that is inlined at three places.
test_sites() {
  need_compiler
  cat >sites.c <<'END'
#include <sys/sdt.h>
static inline __attribute__((always_inline)) void hit(long a, short b)
{
	DTRACE_PROBE2(demo, hit, a, b);
}
int global = 40;
int main(int argc, char **argv)
{
	volatile long in_memory = 300;
	hit(1000, -1); /* constants */
	for (int i = 0; i < 3; i++)
		hit(2000 + i * argc, (short)(-2 - i)); /* registers */
	hit(in_memory, (short)global); /* memory */
	return 0;
}
END
  cc -O2 -o sites sites.c
  [ "$(readelf -n sites | grep -c 'Name: hit')" = 3 ]
  "$RUTILE" record -o t -e "usdt:$PWD/sites:demo:hit(a,b)" -- ./sites
  readers t >/dev/null
  sed -n 's/.* demo:hit: .*}, { \(.*\) }$/\1/p' bt2.out >got
  cat >want <<'END'
a = 1000, b = -1
a = 2000, b = -2
a = 2001, b = -3
a = 2002, b = -4
a = 300, b = 40
END
  diff want got
}

loop_program() {
  cat >loop.c <<'END'
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
unsigned short demo_tick_semaphore __attribute__((section(".probes")));
__attribute__((noinline)) long triple(long a) { __asm__ volatile("" : "+r"(a)); return a * 3; }
/*
 * Does ARGV[2] rounds each time the file ARGV[1].N appears; says what the semaphore was. Before each
 * turn it sleeps at least once.
 */
int main(int argc, char **argv)
{
	long n = 0;
	alarm(500);
	for (int turn = 0;; turn++) {
		char name[256];
		FILE *f;
		snprintf(name, sizeof(name), "%s.%d", argv[1], turn);
		do
			usleep(10000);
		while (access(name, F_OK));
		snprintf(name, sizeof(name), "%s.%d.done.new", argv[1], turn);
		f = fopen(name, "w");
		fprintf(f, "%u\n", *(volatile unsigned short *)&demo_tick_semaphore);
		fclose(f);
		for (int i = 0; i < atoi(argv[2]); i++, n++) {
			DTRACE_PROBE1(demo, tick, n);
			triple(n);
		}
		name[snprintf(name, sizeof(name), "%s.%d.done", argv[1], turn)] = 0;
		char from[264];
		snprintf(from, sizeof(from), "%s.new", name);
		rename(from, name);
	}
}
END
  cc -O1 -o loop loop.c
}

# turn WHO N: lets it do its rounds, prints the semaphore.
turn() {
  : >"$1.$2"
  wait_for "$1.$2.done"
  cat "$1.$2.done"
}

test_one_process() {
  need_compiler
  loop_program
  ./loop a 100 &
  a=$!
  ./loop b 1000 &
  b=$!
  t_wait t_runs $a loop
  t_wait t_runs $b loop
  "$RUTILE" start u$$ --flight -e "usdt:$a:demo:tick(n),uretprobe:$a:triple" --context pid
  turn a 0 >/dev/null
  turn b 0 >/dev/null
  "$RUTILE" snapshot u$$ -o t
  "$RUTILE" destroy u$$
  kill $a $b
  readers t >/dev/null
  [ "$(grep -c ' demo:tick:' bt2.out)" = 100 ]
  [ "$(grep -c ' uretprobe:triple:' bt2.out)" = 100 ]
  if grep 'demo:tick:\|uretprobe:' bt2.out | grep -v "pid = $a }"; then return 1; fi
  # What went in comes out three times as large.
  sed -n 's/.* demo:tick: .* n = \([0-9]*\) }/\1/p' bt2.out | awk '{print $1 * 3}' >want
  sed -n 's/.* uretprobe:triple: .* ret = \([0-9]*\) }/\1/p' bt2.out | diff want -
}

# is WANT WHO N
is() {
  got=$(turn "$2" "$3")
  [ "$got" = "$1" ] || { echo "the semaphore of $2 is $got in turn $3, not $1" >&2; exit 1; }
}

# falls WHO N: it becomes 0, a moment after the last session is gone; turns from N on.
falls() {
  for n in $(seq "$2" $(($2 + 300))); do
    [ "$(turn "$1" "$n")" != 0 ] || return 0
    sleep 0.05
  done
  echo "the semaphore of $1 stays raised" >&2
  exit 1
}

# 0 without tracers, not 0 with one (the kernel counts sites, not sessions), 0 again;
# also when a recorder is killed.
test_semaphore() {
  need_compiler
  loop_program
  ./loop s 10 &
  p=$!
  t_wait t_runs $p loop
  is 0 s 0
  "$RUTILE" start u$$ --flight -e "usdt:$PWD/loop:demo:tick"
  is 1 s 1
  "$RUTILE" start v$$ --flight -e "usdt:$p:demo:tick"
  is 1 s 2
  "$RUTILE" destroy u$$
  is 1 s 3
  # A program that comes later finds it raised as well.
  "$RUTILE" start u$$ --flight -e "usdt:$PWD/loop:demo:tick"
  ./loop later 10 &
  q=$!
  is 1 later 0
  "$RUTILE" snapshot v$$ -o t
  "$RUTILE" destroy u$$ v$$
  falls s 4
  falls later 1
  "$RUTILE" record -o r -e "usdt:$PWD/loop:demo:tick" --duration 600 2>/dev/null &
  rec=$!
  recording r
  s=$(ls s.*.done | wc -l)
  is 1 s "$s"
  kill -9 $rec
  wait $rec || true
  falls s $((s + 1))
  kill $p $q
  readers t >/dev/null
  [ "$(grep -c ' demo:tick:' bt2.out)" = 20 ]
}

# A program and its library that only the processes of a mount namespace can see.
test_container() {
  need_compiler
  loop_program
  mkdir inside out
  unshare -m true 2>/dev/null || t_skip "no mount namespaces"
  cat >enter.sh <<'END'
mount -t tmpfs none inside
cp loop inside/only-here
rm loop
echo $$ >pid
exec ./inside/only-here "$PWD/out/c" 50
END
  unshare -m sh -e enter.sh &
  wait_for pid
  entered() { t_runs "$(cat pid)" only-here; }
  t_wait entered
  p=$(cat pid)
  [ ! -e inside/only-here ]
  "$RUTILE" start w$$ --flight -e "usdt:$p:demo:tick(n),uprobe:$p:triple(a),uprobe:$p:usleep(us)"
  # Before the second turn it has slept once more, whatever it did when the session began.
  [ "$(turn out/c 0)" = 1 ]
  [ "$(turn out/c 1)" = 1 ]
  "$RUTILE" snapshot w$$ -o t
  "$RUTILE" destroy w$$
  falls out/c 2
  kill "$p"
  readers t >/dev/null
  [ "$(grep -c ' demo:tick:' bt2.out)" = 100 ]
  [ "$(grep -c ' uprobe:triple:' bt2.out)" = 100 ]
  # A function of a library, as that process has mapped it.
  grep -q ' uprobe:usleep: .*{ us = 10000 }' bt2.out
}

# An instruction inside a function: its registers are those of that moment.
test_offset() {
  need_compiler
  [ "$(uname -m)" = x86_64 ] || t_skip "x86-64 only"
  cat >off.S <<'END'
	.globl step
	.type step, @function
step:	mov $42, %edi
	lea 1(%rdi), %esi
	ret
	.size step, .-step
	.globl main
	.type main, @function
main:	mov $30, %ebx
1:	mov %ebx, %edi
	xor %esi, %esi
	call step
	dec %ebx
	jnz 1b
	mov $60, %eax
	xor %edi, %edi
	syscall
	.section .note.GNU-stack, "", @progbits
END
  cc -o off off.S
  "$RUTILE" record -o t -e "uprobe:$PWD/off:step(a,b),uprobe:$PWD/off:step+5(a,b),uprobe:$PWD/off:step+0x8(a,b)" -- ./off
  readers t >/dev/null
  [ "$(grep -c ' uprobe:step: ' bt2.out)" = 30 ]
  [ "$(grep -c ' uprobe:step+5: .*{ a = 42, b = 0 }' bt2.out)" = 30 ]
  [ "$(grep -c ' uprobe:step+0x8: .*{ a = 42, b = 43 }' bt2.out)" = 30 ]
  grep -q ' uprobe:step: .*{ a = 30, b = 0 }' bt2.out
  grep -q ' uprobe:step: .*{ a = 1, b = 0 }' bt2.out
}

# Arguments of functions by type and place: signs and sizes, on the stack, in memory up to its last byte,
# floats, results that are strings; functions by pattern.
test_types() {
  need_compiler
  [ "$(uname -m)" = x86_64 ] || t_skip "x86-64 only"
  cat >types.c <<'END'
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
struct point { double x; float y; unsigned short tag; signed char sign; };
__attribute__((noinline)) int fn_many(int a, unsigned b, short c, unsigned char d, long e, long f, int g, long h)
{
	__asm__ volatile("" ::: "memory");
	return a + (int)b + c + d + (int)(e + f) + g + (int)h;
}
__attribute__((noinline)) const char *fn_name(const struct point *p) { __asm__ volatile("" ::: "memory"); return p->tag ? "tagged" : "plain"; }
__attribute__((noinline)) signed char fn_edge(const void *end) { __asm__ volatile("" :: "r"(end) : "memory"); return -3; }
int main(void)
{
	char tagged[8], *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile struct point p = {2.5, -0.75f, 60000, -1};
	munmap(page + 4096, 4096);
	memset(page, 0x7f, 4096);
	page[4095] = -2;
	snprintf(tagged, sizeof(tagged), "%s", fn_name((const struct point *)&p));
	fn_edge(page + 4095);
	return fn_many(-1, 4000000000u, -300, 200, -5000000000, 6, -7, 8) == 12345;
}
END
  cc -O1 -fno-pie -no-pie -o types types.c
  P=uprobe:$PWD/types
  "$RUTILE" record -o t -e "$P:fn_many(a:s32,b:u32,c:s16,d:u8,e:s64,f,g:s32,h)" \
    -e "$P:fn_name(p:x64,x=@(%rdi):f64,y=4f@8(%rdi),tag=@12(%rdi):u16,hex=@12(%rdi):x16,sign=-1@14(%rdi))" \
    -e "$P:fn_edge(last=@(%rdi):s8,sum=-2@-1(%rdi))" -e "uretprobe:$PWD/types:fn_name(s:str)" \
    -e "uretprobe:$PWD/types:fn_*(r:s8)" -- ./types
  readers t >/dev/null
  same() { [ "$(fields "$1")" = "$2" ] || { echo "$1: $(fields "$1")" >&2; exit 1; }; }
  same uprobe:fn_many 'a = -1, b = 4000000000, c = -300, d = 200, e = -5000000000, f = 6, g = -7, h = 8'
  fields uprobe:fn_name | grep -q '^p = 0x7F[0-9A-F]*, x = 2.5, y = -0.75, tag = 60000, hex = 0xEA60, sign = -1$'
  same uprobe:fn_edge 'last = -2, sum = -385'
  same uretprobe:fn_name 's = "tagged"'
  same uretprobe:fn_edge 'r = -3'
  grep -q 'uretprobe:fn_many: .*{ r = ' bt2.out
  "$RUTILE" view --json --event uprobe:fn_name t | grep -q '"x":2.5'
  # Sizes in the record are those of the types.
  sed -n '/name = "uprobe:fn_many"/,/};/p' t/kernel/metadata | grep -o '[a-z0-9]*_t _[a-h];' | tr '\n' ' ' >got
  printf '%s ' 'int32_t _a;' 'uint32_t _b;' 'int16_t _c;' 'uint8_t _d;' 'int64_t _e;' 'uint64_t _f;' 'int32_t _g;' 'uint64_t _h;' | diff - got
  # What cannot be is said.
  while read -r want args; do
    if "$RUTILE" record --strict -o no -e "$P:fn_many($args)" --duration 0.1 2>err; then return 1; fi
    grep -q "$want" err || { cat err; return 1; }
  done <<'END'
invalid.type a:s24
registers.of.floats a:f64
invalid.location a=%nothing
cannot.be.seen a=8f@%xmm0
invalid.name a-b
END
}

# A process with tracepoints recorded without the kernel crashes, and its recorder is killed: the
# core of the process has the ring, with all that was not overwritten.
test_core() {
  need_bpf
  grep -q '^core' /proc/sys/kernel/core_pattern || t_skip "cores do not go to a file here"
  lib=$(dirname "$RUTILE")/src/usdt
  if nm -D "$RUTILE" | grep -q __asan; then t_skip "the sanitizer catches crashes itself"; fi
  cat >shop.c <<'END'
#include <rutile/usdt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
int main(void)
{
	const enum rutile_usdt_type paid_types[] = {RUTILE_USDT_S64, RUTILE_USDT_STR, RUTILE_USDT_U8};
	const enum rutile_usdt_type left_types[] = {RUTILE_USDT_STR};
	struct rutile_usdt_provider *shop, *other;
	struct rutile_usdt_probe *paid, *left;
	char text[64];
	int tracer = 0;
	FILE *f;

	setrlimit(RLIMIT_CORE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
	if (rutile_usdt_provider_new("shop", &shop) || rutile_usdt_provider_new("other", &other) ||
	    rutile_usdt_probe_add(shop, "paid", paid_types, 3, &paid) ||
	    rutile_usdt_probe_add(other, "left", left_types, 1, &left) ||
	    rutile_usdt_provider_load(shop) || rutile_usdt_provider_load(other) ||
	    rutile_usdt_control_start(NULL, NULL))
		return 1;
	fclose(fopen("ready", "w"));
	/* The limit is for what never comes. */
	for (int i = 0; i < 20000 && !(tracer && rutile_usdt_enabled(paid) && rutile_usdt_enabled(left)); i++) {
		usleep(10000);
		f = tracer ? NULL : fopen("tracer", "r");
		if (f && fscanf(f, "%d", &tracer) != 1)
			return 2;
		if (f)
			fclose(f);
	}
	for (int i = 0; i < 5000; i++) {
		snprintf(text, sizeof(text), "order %d", i);
		rutile_usdt_fire(paid, (const uint64_t[]){-i, (uintptr_t)text, i & 255});
		/* What is gone at the end was recorded, and its number is not another's. */
		if (i == 100) {
			rutile_usdt_fire(left, (const uint64_t[]){(uintptr_t)"goes"});
			rutile_usdt_provider_free(other);
			if (rutile_usdt_provider_new("third", &other) ||
			    rutile_usdt_probe_add(other, "late", paid_types, 2, &left) ||
			    rutile_usdt_provider_load(other))
				return 3;
		}
	}
	kill(tracer, SIGKILL);
	abort();
}
END
  cc -o shop shop.c -I"$SRC/include" -L"$lib" -lrutile-usdt -Wl,-rpath,"$lib"
  before=$(date +%s)
  ./shop &
  shop=$!
  wait_for ready
  "$RUTILE" record -o t -p $shop -e 'ruby_static:shop' -e 'ruby_static:other' 2>err &
  echo $! >tracer.new
  mv tracer.new tracer
  rc=0
  wait $shop || rc=$?
  [ $rc = 134 ]
  after=$(date +%s)
  "$RUTILE" recover core* -o out >found
  cat found
  # 5,000 are less than a megabyte of the ring's four: nothing is overwritten, whatever was written.
  grep -q "^out/ruby_static-$shop: 5001 events in [0-9]* packets\$" found
  [ "$(readers "out/ruby_static-$shop")" = 5001 ]
  [ "$(grep -c 'ruby_static:other:left: .*{ arg0 = "goes" }' bt2.out)" = 1 ]
  sed -n 's/.*ruby_static:shop:paid: .*{ arg0 = -*\([0-9]*\), arg1 = "order \([0-9]*\)", arg2 = \([0-9]*\) }/\1 \2 \3/p' bt2.out |
    awk '{if ($1 != NR - 1 || $2 != NR - 1 || $3 != (NR - 1) % 256) {print "at " NR ": " $0; exit 1}} END {if (NR != 5000) exit 1}'
  # By the clock of the time of day.
  babeltrace2 --clock-seconds "out/ruby_static-$shop" | sed 's/^.\([0-9]*\).*/\1/' |
    awk -v from="$before" -v to="$after" '$1 < from || $1 > to {print "at " $1; exit 1}'
  # Again beside it; and a core that is cut off gives what it has, or a reason, and no crash.
  "$RUTILE" recover core* -o out >found
  grep -q "^out/ruby_static-$shop-1: 5001 events" found
  size=$(stat -c %s core*)
  for n in 10 40 60 80 95; do
    head -c $((size * n / 100)) core* >part
    rc=0
    "$RUTILE" recover part -o cut >found 2>err || rc=$?
    [ $rc -le 1 ]
  done
}

# Linux 6.18 makes a call of a traced 5-byte nop, of a page that children do not get: they died. Each way
# to put a probe on one; the children are hit, and live.
test_nop5() {
  need_bpf
  [ "$(uname -m)" = x86_64 ] || t_skip "x86-64 only"
  cat >nop5.c <<'END'
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOP ".byte 0x0f, 0x1f, 0x44, 0, 0\n"
unsigned short semaphore __attribute__((section(".probes"))) = 0;
__attribute__((noinline, noclone)) void site(void)
{
	__asm__ volatile("990: " NOP
		".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n"
		".4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n"
		"993: .8byte 990b, _.stapsdt.base, semaphore\n.asciz \"five\"\n.asciz \"tick\"\n.asciz \"\"\n"
		"994: .balign 4\n.popsection\n"
		".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
		".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"
		".size _.stapsdt.base,1\n.popsection\n");
}
__asm__(".globl patchable\n.type patchable, @function\npatchable: " NOP " ret\n.size patchable, 6\n");
void patchable(void);
static int family(int depth)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		site();
		patchable();
		_exit(depth ? family(depth - 1) : 0);
	}
	return waitpid(pid, &status, 0) != pid || status != 0;
}
int main(void)
{
	int bad = 0;

	for (int i = 0; i < 10; i++) {
		site();
		patchable();
	}
	for (int i = 0; i < 20; i++)
		bad |= family(2);
	return bad;
}
END
  cc -O1 -o nop5 nop5.c
  for probe in usdt:$PWD/nop5:five:tick uprobe:$PWD/nop5:patchable uretprobe:$PWD/nop5:patchable; do
    rm -rf t
    "$RUTILE" record -o t -e "$probe" -- ./nop5
    readers t >/dev/null
    n=$(grep -c 'five:tick:\|uprobe:patchable:\|uretprobe:patchable:' bt2.out)
    [ "$n" = 70 ] || { echo "$probe: $n" >&2; exit 1; }
  done
  # Said beforehand; not where the kernel is right.
  "$RUTILE" doctor >doctor || :
  grep -q '^uprobes, fork  *\(ok\|limited\) ' doctor
}

# What examples/ and the man page show. It needs no eBPF.
test_example() {
  lib=$(dirname "$RUTILE")/src/usdt
  cc -Wall -Wextra -Werror -o checkout "$SRC/examples/usdt/checkout.c" -I"$SRC/include" -L"$lib" -lrutile-usdt -Wl,-rpath,"$lib"
  "$RUTILE" record -o t -e ruby_static:checkout -- ./checkout 50
  [ "$(readers t)" = 50 ]
  babeltrace2 t | sed 's/.*\({ order.*\)/\1/' >said
  awk 'BEGIN { for (i = 1; i <= 50; i++) printf "{ order = %d, currency = \"EUR\", total = %g }\n", i, i * 1.5 }' >should
  cmp said should
  # The program of the man page is complete.
  sed -n '/^```$/,/^```$/p' "$SRC/man/librutile-usdt.3.scd" | grep -v '^```$' >page.c
  cc -Wall -Wextra -Werror -c -o page.o page.c -I"$SRC/include"
}

t_case "every form of argument" test_forms
t_case "the example of librutile-usdt" test_example
t_case "children of a program that is traced at 5-byte nops" test_nop5
t_case "one probe at several places" test_sites
t_case "a pattern records each probe as itself" test_glob
t_case "the probes of Python" test_python
t_case "one process of two; results" test_one_process
t_case "semaphores are raised and lowered" test_semaphore
t_case "in a mount namespace, by process" test_container
t_case "instructions inside functions" test_offset
t_case "types and places of arguments" test_types
t_case "static tracepoints out of a core" test_core
t_done
