/* SPDX-License-Identifier: MIT */
/*
 * How long a thread has slept in its epoll_wait, read from outside.
 *
 * epoll_wait returns EINTR when a tracer stops the thread, and the kernel does not continue it: it
 * is called again with the rest of its time limit. A rest that is too short would end the wait
 * early, which a program may take for the whole time; one that is too long only makes it late. So
 * each figure here is a lower bound, and unknown (0) where there is a doubt.
 */
#ifndef RUT_RUBY_SLEEP_H
#define RUT_RUBY_SLEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* From /proc/PID/task/TID/sched. */
struct rut_sched {
	double exec_start_ms; /* when it was last seen at work, by the clock of its CPU's queue */
	uint64_t switches;    /* how often it went to sleep */
};

/*
 * Returns false when the text does not say. That includes a start of 0, which the kernel writes
 * when it moves a thread to another CPU: since Linux 6.12 a thread that sleeps may stay in a queue
 * for a while, and be moved with it.
 */
bool rut_sched_parse(const char *text, struct rut_sched *ret);

struct rut_sleep {
	uint64_t limit_ns; /* of the wait; 0: it has none, or is no epoll_wait */
	uint64_t slept_ns; /* 0: unknown */
	uint64_t at_ns;	   /* when that was so (CLOCK_MONOTONIC) */
	uint64_t switches;
};

/* Of a thread that is blocked; its time limit is `limit_ns`. */
void rut_sleep_read(pid_t pid, pid_t tid, uint64_t limit_ns, struct rut_sleep *ret);

/* Whether the wait is about to end by itself: worth waiting for, rather than to disturb it. */
bool rut_sleep_ends_soon(const struct rut_sleep *sleep);

/*
 * How long the wait that a stop has ended had lasted by `stop_ns`; 0: unknown. `switches`: of the
 * thread, now that it is stopped.
 */
uint64_t rut_sleep_until(const struct rut_sleep *sleep, uint64_t stop_ns, uint64_t switches);

/* Reads the file; false: it cannot be, or does not say. */
bool rut_sched_read(pid_t pid, pid_t tid, struct rut_sched *ret);

#endif
