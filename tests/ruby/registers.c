/* SPDX-License-Identifier: MIT */
/*
 * Fills every register with known values, spins, and looks whether they are still there: general
 * and vector registers, mask registers, flags, MXCSR, the x87 control word and the red zone.
 * registers SECONDS prints "ready", a line for each register that was lost, and at the end the
 * number of rounds.
 */
#include <cpuid.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_OF_SPIN 20000

struct state {
	uint64_t gpr[14]; /* all but rsp and rbx, which points here */
	uint64_t flags;
	uint32_t mxcsr, fcw;
	uint64_t red_zone[16];
	uint64_t masks[8];
	uint8_t vec[32][64] __attribute__((aligned(64)));
	uint64_t spin;
};

static struct state in, out;
static int kind; /* 0: sse, 1: avx, 2: avx512 */

#define GPRS(op)                                                                                   \
	op(0, "rax") op(1, "rcx") op(2, "rdx") op(3, "rsi") op(4, "rdi") op(5, "rbp") op(6, "r8")  \
		op(7, "r9") op(8, "r10") op(9, "r11") op(10, "r12") op(11, "r13") op(12, "r14")    \
			op(13, "r15")
#define V16(op)                                                                                    \
	op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11) op(12) op(13)    \
		op(14) op(15)
#define V32(op)                                                                                    \
	V16(op)                                                                                    \
	op(16) op(17) op(18) op(19) op(20) op(21) op(22) op(23) op(24) op(25) op(26) op(27) op(28) \
		op(29) op(30) op(31)
#define S(x)	      #x
#define LOAD_Z(n)     "vmovdqu64 " S(n) "*64(%0), %%zmm" S(n) "\n"
#define STORE_Z(n)    "vmovdqu64 %%zmm" S(n) ", " S(n) "*64(%0)\n"
#define LOAD_Y(n)     "vmovdqu " S(n) "*64(%0), %%ymm" S(n) "\n"
#define STORE_Y(n)    "vmovdqu %%ymm" S(n) ", " S(n) "*64(%0)\n"
#define LOAD_X(n)     "movdqu " S(n) "*64(%0), %%xmm" S(n) "\n"
#define STORE_X(n)    "movdqu %%xmm" S(n) ", " S(n) "*64(%0)\n"
#define K8(op)	      op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7)
#define LOAD_K(n)     "kmovq " S(n) "*8(%0), %%k" S(n) "\n"
#define STORE_K(n)    "kmovq %%k" S(n) ", " S(n) "*8(%0)\n"
#define LOAD_G(n, r)  "movq " S(n) "*8(%%rbx), %%" r "\n"
#define STORE_G(n, r) "movq %%" r ", " S(n) "*8(%%rbx)\n"

/* A function of assembly only: between load and store no compiler touches a register. */
void registers_spin(const struct state *from, struct state *to);
__asm__(".text\n"
	".globl registers_spin\n"
	"registers_spin:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n	push %r14\n	"
	"push %r15\n"
	"	pushfq\n"
	"	push %rsi\n"
	"	mov %rdi, %rbx\n"
	"	lea registers_red(%rip), %rsi\n"
	/* red zone */
	"	lea -128(%rsp), %rdi\n"
	"	mov $16, %ecx\n"
	"	cld\n"
	"	rep movsq\n"
	"	mov 0*8(%rbx), %rax\n	mov 1*8(%rbx), %rcx\n	mov 2*8(%rbx), %rdx\n"
	"	mov 3*8(%rbx), %rsi\n	mov 4*8(%rbx), %rdi\n	mov 5*8(%rbx), %rbp\n"
	"	mov 6*8(%rbx), %r8\n	mov 7*8(%rbx), %r9\n	mov 8*8(%rbx), %r10\n"
	"	mov 9*8(%rbx), %r11\n	mov 10*8(%rbx), %r12\n	mov 11*8(%rbx), %r13\n"
	"	mov 12*8(%rbx), %r14\n	mov 13*8(%rbx), %r15\n"
	"	std\n"
	"	stc\n"
	"1:	decq registers_count(%rip)\n" /* does not touch the carry */
	"	jnz 1b\n"
	"	mov (%rsp), %rbx\n"
	"	mov %rax, 0*8(%rbx)\n	mov %rcx, 1*8(%rbx)\n	mov %rdx, 2*8(%rbx)\n"
	"	mov %rsi, 3*8(%rbx)\n	mov %rdi, 4*8(%rbx)\n	mov %rbp, 5*8(%rbx)\n"
	"	mov %r8, 6*8(%rbx)\n	mov %r9, 7*8(%rbx)\n	mov %r10, 8*8(%rbx)\n"
	"	mov %r11, 9*8(%rbx)\n	mov %r12, 10*8(%rbx)\n	mov %r13, 11*8(%rbx)\n"
	"	mov %r14, 12*8(%rbx)\n	mov %r15, 13*8(%rbx)\n"
	/* red zone, before anything is pushed over it */
	"	lea registers_red_out(%rip), %rdi\n"
	"	lea -128(%rsp), %rsi\n"
	"	mov $16, %ecx\n"
	"	lahf\n"
	"	setc %al\n"
	"	mov %al, registers_carry(%rip)\n"
	"	cld\n"
	"	rep movsq\n"
	"	pop %rsi\n"
	"	popfq\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	"
	"pop %rbx\n"
	"	ret\n");

uint64_t registers_red[16], registers_red_out[16], registers_count;
uint8_t registers_carry;

static void vectors_load(void)
{
	if (kind == 2)
		__asm__ volatile(V32(LOAD_Z)::"r"(in.vec));
	else if (kind == 1)
		__asm__ volatile(V16(LOAD_Y)::"r"(in.vec));
	else
		__asm__ volatile(V16(LOAD_X)::"r"(in.vec));
	if (kind == 2)
		__asm__ volatile(K8(LOAD_K)::"r"(in.masks));
	__asm__ volatile("ldmxcsr %0; fldcw %1" ::"m"(in.mxcsr), "m"(in.fcw));
}

static void vectors_store(void)
{
	if (kind == 2)
		__asm__ volatile(V32(STORE_Z)::"r"(out.vec) : "memory");
	else if (kind == 1)
		__asm__ volatile(V16(STORE_Y)::"r"(out.vec) : "memory");
	else
		__asm__ volatile(V16(STORE_X)::"r"(out.vec) : "memory");
	if (kind == 2)
		__asm__ volatile(K8(STORE_K)::"r"(out.masks) : "memory");
	__asm__ volatile("stmxcsr %0; fnstcw %1" : "=m"(out.mxcsr), "=m"(out.fcw));
}

static void fill(void)
{
	uint8_t *p = (uint8_t *)&in;

	for (size_t i = 0; i < sizeof(in); i++)
		p[i] = (uint8_t)(i * 131 + i / 251 + 7);
	in.mxcsr = 0x7f80; /* round to zero: not what a new thread has */
	in.fcw = 0x0c7f;
	for (int i = 0; i < 16; i++)
		registers_red[i] = in.red_zone[i];
}

static int check(void)
{
	int bad = 0;
	size_t bytes = kind == 2 ? 64 : kind == 1 ? 32 : 16;

	for (int i = 0; i < 14; i++)
		if (in.gpr[i] != out.gpr[i])
			bad += printf("general register %d lost\n", i);
	for (int i = 0; i < (kind == 2 ? 32 : 16); i++)
		if (memcmp(in.vec[i], out.vec[i], bytes) != 0)
			bad += printf("vector register %d lost\n", i);
	for (int i = 0; kind == 2 && i < 8; i++)
		if (in.masks[i] != out.masks[i])
			bad += printf("mask register %d lost\n", i);
	if (memcmp(registers_red, registers_red_out, sizeof(registers_red)) != 0)
		bad += printf("red zone lost\n");
	if (!registers_carry)
		bad += printf("flags lost\n");
	if ((in.mxcsr & ~0x3fu) != (out.mxcsr & ~0x3fu) || (in.fcw & 0xffff) != (out.fcw & 0xffff))
		bad += printf("control word lost\n");
	return bad;
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	unsigned long rounds = 0;
	uint32_t mxcsr = 0x1f80;
	uint16_t fcw = 0x37f;

	kind = __builtin_cpu_supports("avx512bw") ? 2 : __builtin_cpu_supports("avx") ? 1 : 0;
	fill();
	printf("ready %d\n", kind);
	fflush(stdout);
	while (rounds % 64 || (time(NULL) < end && access("enough", F_OK))) {
		int bad;

		registers_count = ROUNDS_OF_SPIN;
		vectors_load();
		registers_spin(&in, &out);
		vectors_store();
		__asm__ volatile("ldmxcsr %0; fldcw %1" ::"m"(mxcsr), "m"(fcw));
		bad = check();
		if (bad) {
			fflush(stdout);
			return 1;
		}
		rounds++;
	}
	printf("rounds %lu\n", rounds);
	return 0;
}
