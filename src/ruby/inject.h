/* SPDX-License-Identifier: MIT */
/* Putting the agent into a running process: see the essay in inject.c. */
#ifndef RUT_RUBY_INJECT_H
#define RUT_RUBY_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rut_err;

/* How an injection went: for tests, benchmarks and `--verbose`. */
struct rut_inject_report {
	pid_t tid;	    /* the thread that loaded the object */
	unsigned int stops; /* how often a thread was stopped for inspection */
	uint64_t pause_ns;  /* how long that thread was kept from its own work */
	uint64_t total_ns;  /* the whole call */
	const char *place;  /* where the thread was: "system call", "code" */
};

/*
 * Loads a shared object into a process as dlopen() would, from `image` (the bytes of the ELF file).
 * The constructor of the object has run when this returns 0, on one of the target's own threads
 * with all signals blocked. On an error the target is unchanged; the message says why:
 * gone, not permitted (and what permits it), stopped, zombie, musl, 32 bits, no dlopen, no thread
 * in a safe place within the time limit. May be called from any thread; other threads must not
 * wait for children of others meanwhile (waitpid(-1)). Takes about a millisecond, at most some
 * seconds. `ret_report` may be NULL. For the tests: rut_inject() is what tracers use.
 */
int rut_inject_reported(pid_t pid, const void *image, size_t image_bytes,
			struct rut_inject_report *ret_report, struct rut_err *err);

/*
 * The same, unless it is there by then: `is_loaded` is asked at a moment when no other tracer, of
 * whatever container, can inject. Returns 0 in both cases.
 */
int rut_inject(pid_t pid, const void *image, size_t image_bytes, bool (*is_loaded)(pid_t pid),
	       struct rut_err *err);

#endif
