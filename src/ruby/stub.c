/* SPDX-License-Identifier: MIT */
/*
 * What runs in the target: see stub.h.
 *
 * Everything here is in one section, is position independent, refers to nothing outside it, has no
 * constants in memory and uses general registers only; meson builds it with flags of its own. The
 * order of things is what keeps the target safe:
 *
 *  - All signals are blocked first, so that no handler of the application runs (or jumps out) while
 *    the loader is at work, and the thread's mask is put back last. A signal that came meanwhile is
 *    pending then and has the effect on the interrupted system call that it would have had.
 *  - The image comes through a memfd that the tracer fills. The stub waits for it a bounded time:
 *    without a tracer it closes the memfd and returns.
 *  - Vector registers are saved before the first call of other code: the kernel does not let a
 *    tracer write them everywhere.
 *  - dlopen runs on a stack of its own in the memfd: Ruby's fibers and threads of extensions have
 *    small ones.
 */
#include "ruby/stub.h"

#include <stddef.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#define WAIT_NS	     15000
#define SIG_SETMASK_ 2
#define SPIN_ROUNDS  800 /* of some 0.3 us */
#define PARK_SPINS   3000
#define SA_RESTART_  0x10000000ul
#define CLOCK_MONO   1
#define STUB	     __attribute__((section("rut_stub"), noinline, used))
#define STUB_INLINE  static inline __attribute__((always_inline))

struct ts {
	int64_t s, ns;
};

struct ksigaction {
	uint64_t handler, flags, restorer, mask;
};

#if defined(__x86_64__)
#define NR_WAIT SYS_ppoll

struct frame {
	uint64_t r15, r14, r13, r12, r11, r10, r9, r8, rbp, rdi, rsi, rdx, rcx, rbx, rax, flags;
};

/*
 * The way in and the two ways out. The red zone is stepped over; the way back jumps through a word
 * beside the code, so that no register, no flag and no word of the stack is needed for it.
 */
__asm__(".pushsection rut_stub,\"ax\",@progbits\n"
	".balign 16\n"
	".globl rut_stub_entry\n"
	".hidden rut_stub_entry\n"
	"rut_stub_entry:\n"
	"	lea -192(%rsp), %rsp\n" /* red zone and slot */
	"	pushfq\n"
	"	cld\n"
	"	push %rax\n	push %rbx\n	push %rcx\n	push %rdx\n"
	"	push %rsi\n	push %rdi\n	push %rbp\n	push %r8\n"
	"	push %r9\n	push %r10\n	push %r11\n	push %r12\n"
	"	push %r13\n	push %r14\n	push %r15\n"
	"	mov %rsp, %rdi\n"
	"	lea rut_stub_params_at(%rip), %rsi\n"
	"	lea 128(%rsp), %rdx\n"
	"	mov %rsp, %rbp\n"
	"	and $-16, %rsp\n"
	"	call rut_stub_main\n"
	"	mov %rbp, %rsp\n"
	"	test %eax, %eax\n"
	"	jnz 1f\n"
	".macro RUT_STUB_LEAVE to\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n"
	"	pop %r11\n	pop %r10\n	pop %r9\n	pop %r8\n"
	"	pop %rbp\n	pop %rdi\n	pop %rsi\n	pop %rdx\n"
	"	pop %rcx\n	pop %rbx\n	pop %rax\n"
	"	popfq\n"
	"	lea 192(%rsp), %rsp\n"
	"	jmp *rut_stub_params_at+\\to(%rip)\n"
	".endm\n"
	"	RUT_STUB_LEAVE 8\n"
	"1:	RUT_STUB_LEAVE 16\n"
	/* rut_stub_call(fn, arg, stack): fn(arg) on another stack */
	".balign 16\n"
	".hidden rut_stub_call\n"
	"rut_stub_call:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	mov %rdx, %rsp\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	call *%rax\n"
	"	leave\n"
	"	ret\n"
	".balign 16\n"
	".globl rut_stub_params_at\n"
	".hidden rut_stub_params_at\n"
	"rut_stub_params_at:\n"
	"	.fill 160, 1, 0\n"
	".popsection\n");
_Static_assert(sizeof(struct rut_stub_params) <= 160, "room for the parameters");
_Static_assert(offsetof(struct rut_stub_params, resume_pc) == 8, "used by the code above");
_Static_assert(offsetof(struct rut_stub_params, restart_pc) == 16, "used by the code above");
_Static_assert(sizeof(struct frame) == 128, "used by the code above");

STUB_INLINE long sys(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

STUB_INLINE void vector_save(void *area, uint64_t mask)
{
	uint32_t lo = (uint32_t)mask, hi = (uint32_t)(mask >> 32), mxcsr = 0x1f80;

	if (mask)
		__asm__ volatile("xsave64 (%0)" ::"r"(area), "a"(lo), "d"(hi) : "memory");
	else
		__asm__ volatile("fxsave64 (%0)" ::"r"(area) : "memory");
	/* The state that the ABI promises to a function. */
	__asm__ volatile("fninit; ldmxcsr %0" ::"m"(mxcsr));
}

STUB_INLINE void vector_restore(const void *area, uint64_t mask)
{
	uint32_t lo = (uint32_t)mask, hi = (uint32_t)(mask >> 32);

	if (mask)
		__asm__ volatile("xrstor64 (%0)" ::"r"(area), "a"(lo), "d"(hi) : "memory");
	else
		__asm__ volatile("fxrstor64 (%0)" ::"r"(area) : "memory");
}

STUB_INLINE void cpu_relax(void)
{
	__asm__ volatile("pause");
}

STUB_INLINE void frame_set_result(struct frame *f, uint64_t value)
{
	f->rax = value;
}
#endif

struct load {
	const struct rut_stub_params *params;
	struct rut_stub_status *status;
	void *vector;
	long fd;
};

/* Hidden: reached without a table of addresses. */
#pragma GCC visibility push(hidden)
int rut_stub_main(struct frame *f, const struct rut_stub_params *p,
		  volatile struct rut_stub_slot *slot);
void rut_stub_load(struct load *l);
void rut_stub_call(void (*fn)(struct load *), struct load *l, void *stack);
#pragma GCC visibility pop

/* A constant that the compiler cannot put into a table in memory, which is not copied. */
#define CODE_CONST(value)                                                                          \
	({                                                                                         \
		uint64_t _v = (value);                                                             \
		__asm__("" : "+r"(_v));                                                            \
		_v;                                                                                \
	})

/* ppoll, unlike nanosleep, leaves the thread's restart block alone: the interrupted call's. */
STUB_INLINE void nap(void)
{
	struct ts ts;

	ts.s = (int64_t)CODE_CONST(0);
	ts.ns = (int64_t)CODE_CONST(WAIT_NS);

	sys(NR_WAIT, 0, 0, (long)&ts, 0, 8, 0);
}

/*
 * Clears the name of the loaded object, the second word of struct link_map, which is what dlopen
 * returns. Debuggers, crash reporters and elfutils open what is named there, in themselves: there
 * /proc/self/fd/N is another file, perhaps a pipe on which they would block. All of them
 * pass over an empty name, because the main program has one. The loader itself compares names of
 * its own, which stay.
 */
STUB_INLINE void clear_name(void *handle, const volatile char *path)
{
	volatile char *name = ((char **)handle)[1];

	for (unsigned int n = 0; path[n]; n++)
		if (name[n] != path[n])
			return;
	name[0] = 0;
}

/* On the stub's own stack. */
STUB void rut_stub_load(struct load *l)
{
	const struct rut_stub_params *p = l->params;
	volatile char path[72];
	volatile int *err;
	unsigned int n, fd = (unsigned int)l->fd, div = 1000000000;
	uint64_t text;
	const char *msg;
	int saved;
	void *handle;

	vector_save(l->vector, p->xsave_mask);
	/*
	 * "/proc/self", twenty times "//" or "/.", "/fd/N": the loader takes an object for loaded
	 * already when the name is the same, and descriptors have few numbers.
	 */
	text = CODE_CONST(0x65732f636f72702full); /* "/proc/se" */
	for (n = 0; n < 8; n++)
		path[n] = (char)(text >> n * 8);
	path[n++] = 'l';
	path[n++] = 'f';
	for (unsigned int bit = 0; bit < 20; bit++) {
		path[n++] = '/';
		path[n++] = p->cookie >> bit & 1 ? '.' : '/';
	}
	text = CODE_CONST(0x2f64662f); /* "/fd/" */
	for (unsigned int i = 0; i < 4; i++)
		path[n++] = (char)(text >> i * 8);
	while (div > 1 && fd / div == 0)
		div /= 10;
	for (; div; div /= 10)
		path[n++] = (char)('0' + fd / div % 10);
	path[n] = 0;
	err = ((int *(*)(void))p->errno_fn)();
	saved = *err;
	handle = ((void *(*)(const char *, int))p->dlopen_fn)((const char *)path,
							      (int)p->dlopen_mode);
	if (handle)
		clear_name(handle, path);
	l->status->handle = (uint64_t)handle;
	if (!handle && p->dlerror_fn) {
		msg = ((const char *(*)(void))p->dlerror_fn)();
		for (n = 0; msg && msg[n] && n < sizeof(l->status->error) - 1; n++)
			((volatile char *)l->status->error)[n] = msg[n];
	}
	*err = saved;
	vector_restore(l->vector, p->xsave_mask);
}

/* Whether the tracer has filled the memfd: a word after the image says so. */
STUB_INLINE int wait_for_image(const struct rut_stub_params *p, long fd)
{
	uint64_t word;

	for (uint64_t i = 0; i < p->wait_rounds + SPIN_ROUNDS; i++) {
		word = 0;
		if (sys(SYS_pread64, fd, (long)&word, 8, (long)p->region_offset, 0, 0) == 8 &&
		    word == p->cookie)
			return 1;
		/* Busily at first: on a crowded processor sleep costs more than it asks for. */
		if (i >= SPIN_ROUNDS)
			nap();
	}
	return 0;
}

STUB_INLINE long load(const struct rut_stub_params *p, long fd)
{
	struct load l = {.params = p, .fd = fd};
	long at = sys(SYS_mmap, 0, (long)p->region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		      (long)p->region_offset);

	if (at < 0 && at > -4096)
		return at;
	l.status = (struct rut_stub_status *)at;
	l.vector = (void *)(at + RUT_STUB_STATUS_BYTES);
	/* A child that another thread forks now must not inherit it. */
	sys(SYS_madvise, at, (long)p->region_bytes, MADV_DONTFORK, 0, 0, 0);
	rut_stub_call(rut_stub_load, &l, (void *)(at + (long)p->region_bytes - 64));
	__atomic_store_n(&l.status->done, p->cookie, __ATOMIC_RELEASE);
	sys(SYS_munmap, at, (long)p->region_bytes, 0, 0, 0, 0);
	return 0;
}

/* Whether a pending signal has a handler that makes the interrupted call return EINTR. */
STUB_INLINE int must_return_eintr(const struct rut_stub_params *p)
{
	struct ksigaction sa;
	uint64_t pending = 0;

	sys(SYS_rt_sigpending, (long)&pending, 8, 0, 0, 0, 0);
	pending &= ~p->sigmask;
	for (int sig = 1; pending; sig++, pending >>= 1) {
		sa.handler = 0;
		sa.flags = 0;
		if (!(pending & 1) || sys(SYS_rt_sigaction, sig, 0, (long)&sa, 8, 0, 0) < 0)
			continue;
		if (sa.handler > 1)
			return p->restart == RUT_STUB_RESTART_NOHAND ||
			       (p->restart == RUT_STUB_RESTART_SYS && !(sa.flags & SA_RESTART_));
	}
	return 0;
}

/* Returns 1 when the system call is to be done again, 0 to go on behind it. */
STUB int rut_stub_main(struct frame *f, const struct rut_stub_params *p,
		       volatile struct rut_stub_slot *slot)
{
	uint64_t all = ~0ull, mask = p->sigmask;
	long fd, error = 0;
	int again = 0;

	sys(SYS_rt_sigprocmask, SIG_SETMASK_, (long)&all, 0, 8, 0, 0);
	fd = sys(SYS_memfd_create, (long)p->name, MFD_CLOEXEC | MFD_NOEXEC_SEAL, 0, 0, 0, 0);
	if (fd == -22) /* EINVAL: before Linux 6.3 */
		fd = sys(SYS_memfd_create, (long)p->name, MFD_CLOEXEC, 0, 0, 0, 0);
	slot->fd = fd;
	slot->error = 0;
	slot->parked = 0;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	slot->cookie = p->cookie;
	if (fd >= 0) {
		error = wait_for_image(p, fd) ? load(p, fd) : -110; /* ETIMEDOUT */
		sys(SYS_close, fd, 0, 0, 0, 0, 0);
	}
	if (fd < 0 || error < 0) {
		slot->error = error;
		for (uint64_t i = 0; i < p->linger_rounds; i++)
			nap();
	}
	/*
	 * The tracer, if it lives, takes the thread away from here: it can give the mask and the
	 * registers back at once, and no handler runs on top of the stub.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	slot->parked = p->cookie;
	for (uint64_t i = 0; i < PARK_SPINS; i++)
		cpu_relax();
	for (uint64_t i = 0; i < p->wait_rounds; i++)
		nap();
	/* From here on the registers of the interruption are out of date: a handler may run. */
	slot->parked = 0;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (p->restart != RUT_STUB_NO_CALL) {
		again = !must_return_eintr(p);
		frame_set_result(f, again ? p->restart_nr : (uint64_t)-4);
	}
	sys(SYS_rt_sigprocmask, SIG_SETMASK_, (long)&mask, 0, 8, 0, 0);
	return again;
}
