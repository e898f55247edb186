/* SPDX-License-Identifier: MIT */
#include "gvl.h"

#include "rb.h"
#include "table.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
	void (*fn)(void *);
	void *arg;
	uint32_t wanted; /* number of runs asked for */
	uint32_t done;	 /* futex: the last run that is over */
	uint32_t running;
	unsigned handle; /* of Ruby >= 3.3 */
	bool registered;
	uint32_t lock; /* this thread is about to call Ruby; or Ruby ends */
	bool ended;
} job;

static void job_run(void *arg)
{
	uint32_t wanted = __atomic_load_n(&job.wanted, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&job.done, __ATOMIC_ACQUIRE) == wanted)
		return;
	/* The job may check interrupts itself, and come here again. */
	if (__atomic_exchange_n(&job.running, 1, __ATOMIC_ACQ_REL))
		return;
	job.fn(job.arg);
	__atomic_store_n(&job.running, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&job.done, wanted, __ATOMIC_RELEASE);
	syscall(SYS_futex, &job.done, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void job_register(void)
{
	if (rb.rb_postponed_job_trigger) {
		if (!job.registered) {
			job.handle = rb.rb_postponed_job_preregister(0, job_run, NULL);
			job.registered = true;
		}
		rb.rb_postponed_job_trigger(job.handle);
	} else {
		rb.rb_postponed_job_register_one(0, job_run, NULL);
	}
}

static void on_signal(int sig)
{
	int saved = errno;

	if (!job.ended)
		job_register();
	errno = saved;
}

/*
 * When a process exits, Ruby frees what extensions have, after the last of its code has run and
 * before it takes itself apart. From then on there is no VM to register a job with.
 */
static void on_end(void *arg)
{
	rut_lock(&job.lock);
	job.ended = true;
	rut_unlock(&job.lock);
}

void rut_agent_gvl_watch_end(void)
{
	static VALUE object; /* hidden */

	if (object || !rb.rb_data_object_wrap)
		return;
	rut_keep(&object, rb.rb_data_object_wrap(0, &job, NULL, on_end));
}

/* Calls Ruby, unless it has ended. */
static void unless_ended(void (*fn)(void))
{
	rut_lock(&job.lock);
	if (!job.ended)
		fn();
	rut_unlock(&job.lock);
}

static int sleep_until_done(uint32_t wanted, long timeout_us)
{
	struct timespec ts = {.tv_sec = timeout_us / 1000000,
			      .tv_nsec = timeout_us % 1000000 * 1000};
	uint32_t done = __atomic_load_n(&job.done, __ATOMIC_ACQUIRE);

	if (done != wanted)
		syscall(SYS_futex, &job.done, FUTEX_WAIT_PRIVATE, done, &ts, NULL, 0);
	return __atomic_load_n(&job.done, __ATOMIC_ACQUIRE) == wanted;
}

/*
 * Marks the main thread. The handler of SIGVTALRM is Ruby's and does nothing; ours takes its place
 * for the moment of this call, and does nothing else when it comes too late.
 */
static void mark_main_thread(void)
{
	struct sigaction ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, old, now;
	struct timespec ts = {.tv_nsec = 200000};

	if (sigaction(SIGVTALRM, NULL, &old) < 0 || old.sa_handler == SIG_DFL)
		return;
	sigemptyset(&ours.sa_mask);
	if (sigaction(SIGVTALRM, &ours, &old) < 0)
		return;
	syscall(SYS_tgkill, getpid(), getpid(), SIGVTALRM);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	/* Not when another one was set meanwhile. */
	if (sigaction(SIGVTALRM, NULL, &now) == 0 && now.sa_handler == on_signal)
		sigaction(SIGVTALRM, &old, NULL);
}

/*
 * Has Ruby wake its main thread: as if a signal had come for which there is no trap. The handler
 * is the one that Ruby set for the signals that it raises as exceptions; a program may have set
 * some of them to be ignored or replaced them, hence the vote.
 */
static void wake_main_thread(void)
{
	static const int sigs[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGQUIT};
	sighandler_t fn[7] = {0};
	int best = -1, best_votes = 1;
	struct sigaction vtalrm;

	for (int i = 0; i < 7; i++) {
		struct sigaction sa;

		if (sigaction(sigs[i], NULL, &sa) == 0 && sa.sa_handler != SIG_DFL &&
		    sa.sa_handler != SIG_IGN)
			fn[i] = sa.sa_handler;
	}
	for (int i = 0; i < 7; i++) {
		int votes = 0;

		for (int j = 0; fn[i] && j < 7; j++)
			votes += fn[j] == fn[i];
		if (votes > best_votes) {
			best = i;
			best_votes = votes;
		}
	}
	if (best >= 0)
		fn[best](SIGURG);
	/* Its handler does nothing; without one, when Ruby is still starting, it would kill. */
	else if (sigaction(SIGVTALRM, NULL, &vtalrm) == 0 && vtalrm.sa_handler != SIG_DFL)
		syscall(SYS_tgkill, getpid(), getpid(), SIGVTALRM);
}

int rut_agent_gvl_run(void (*fn)(void *), void *arg, int timeout_ms)
{
	uint32_t wanted = job.wanted + 1;
	long waited_us = 0, pause_us = 1000;

	job.fn = fn;
	job.arg = arg;
	__atomic_store_n(&job.wanted, wanted, __ATOMIC_RELEASE);
	for (int round = 0; waited_us < timeout_ms * 1000l; round++) {
		if (!rb.abi->jobs_on_ruby_threads)
			unless_ended(job_register);
		if (sleep_until_done(wanted, round ? pause_us : 1500))
			return 0;
		if (!rb.wakes_disturb) {
			unless_ended(mark_main_thread);
			if (sleep_until_done(wanted, 1000))
				return 0;
			unless_ended(wake_main_thread);
		}
		if (sleep_until_done(wanted, pause_us))
			return 0;
		waited_us += 2 * pause_us + 1200;
		if (pause_us < 100000)
			pause_us *= 2;
	}
	return -ETIMEDOUT;
}

void rut_agent_gvl_serve(void)
{
	job_run(NULL);
}

void rut_agent_gvl_forked(void)
{
	job.done = job.wanted;
	job.running = job.lock = 0;
}
