/* SPDX-License-Identifier: MIT */
/*
 * The stub: the few hundred bytes of machine code that rut_inject() puts into the target.
 *
 * It is copied, together with its parameters, into a function of the target's libc that nothing
 * ever calls; one change of the registers of one thread starts it. From then on it depends on
 * none: it saves every register, does its work, restores every register and returns by itself,
 * whether the tracer lives or not. See stub.c and the essay in inject.c.
 */
#ifndef RUT_RUBY_STUB_H
#define RUT_RUBY_STUB_H

#include <stdint.h>

#define RUT_STUB_MAGIC 0x6275747365747572ull

/* What must happen to the system call that the thread was blocked in. */
enum rut_stub_restart {
	RUT_STUB_NO_CALL,	 /* there was none: go on where it was */
	RUT_STUB_RESTART_ALWAYS, /* ERESTARTNOINTR */
	RUT_STUB_RESTART_SYS,	 /* ERESTARTSYS: EINTR after a handler without SA_RESTART */
	RUT_STUB_RESTART_NOHAND, /* restarted unless a handler is due: EINTR then */
};

/* In the target's text beside the code: read-only for the stub. */
struct rut_stub_params {
	uint64_t magic;
	uint64_t resume_pc;  /* continues here, with the old registers */
	uint64_t restart_pc; /* or here, to do the system call again */
	uint64_t restart_nr; /* number of that system call */
	uint64_t restart;    /* enum rut_stub_restart */
	uint64_t sigmask;    /* of the thread, restored at the end */
	uint64_t cookie;     /* random: identifies this run's words in memory */
	uint64_t dlopen_fn;
	uint64_t dlerror_fn; /* 0: none */
	uint64_t errno_fn;   /* __errno_location */
	uint64_t dlopen_mode;
	uint64_t xsave_mask;	/* 0: the processor knows fxsave only */
	uint64_t xsave_bytes;	/* size of the vector state, whole pages */
	uint64_t region_offset; /* in the memfd: after the image */
	uint64_t region_bytes;	/* status page, vector state, stack */
	uint64_t wait_rounds;	/* how often it looks whether the image is there */
	uint64_t linger_rounds; /* how long an error stays readable */
	char name[16];		/* of the memfd */
};

/* Below the red zone of the interrupted thread: the first word to the tracer. */
struct rut_stub_slot {
	uint64_t cookie; /* written last */
	int64_t fd;	 /* of the memfd, or -errno */
	int64_t error;	 /* -errno of what failed later */
	uint64_t parked; /* the cookie: waits to be given back its registers */
	uint64_t unused[4];
};

/* At region_offset in the memfd: shared by stub and tracer. */
struct rut_stub_status {
	uint64_t ready;	 /* the cookie, written by the tracer when the image is complete */
	uint64_t done;	 /* the cookie, written by the stub when dlopen has returned */
	uint64_t handle; /* what it returned */
	char error[400]; /* of dlerror */
};

#define RUT_STUB_STATUS_BYTES 4096
#define RUT_STUB_STACK_BYTES  (256 * 1024)

/* Distance from the interrupted stack pointer down to the slot. */
#define RUT_STUB_SLOT_BELOW_SP 192
/* The most that the stub uses of the interrupted thread's own stack, red zone included. */
#define RUT_STUB_STACK_NEEDED 1536

_Static_assert(sizeof(struct rut_stub_slot) == 64, "the entry code reserves 64 bytes");
_Static_assert(sizeof(struct rut_stub_status) <= RUT_STUB_STATUS_BYTES, "one page");

/* The code as it is linked into this program: copied, never run here. */
extern const char __start_rut_stub[], __stop_rut_stub[];
extern const char rut_stub_entry[], rut_stub_params_at[];

/* Of a place in the code, from its beginning. */
static inline uint64_t rut_stub_offset(const char *place)
{
	return (uint64_t)(uintptr_t)place - (uint64_t)(uintptr_t)__start_rut_stub;
}

#endif
