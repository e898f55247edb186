/* SPDX-License-Identifier: MIT */
/*
 * Rutile::Control: wishes from outside that need Ruby code, that is, wrapping a method.
 *
 * The control thread of the library knows nothing of Ruby. It registers a postponed job, which Ruby
 * runs on a thread of its own choice as soon as one checks for interrupts, and wakes the main
 * thread by the signal Ruby itself uses for that. Which thread gets the job is known only by
 * trying: the interrupt is flagged for the thread that ran last, which may sleep longer than the
 * main one. So this is repeated until the job ran.
 */
#include "rb_ext.h"

#include <ruby/debug.h>
#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

static VALUE control_module;
static uint32_t job_pending; /* atomic */
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
static rb_postponed_job_handle_t job_handle;
#endif

enum { WAKE_TRIES = 400, WAKE_PAUSE_MS = 5 };

static VALUE call_sync(VALUE arg)
{
	return rb_funcall(arg, rb_intern("sync"), 0);
}

/* An error here would surface in whatever the application is doing: it is not the application's. */
static VALUE sync_failed(VALUE arg, VALUE error)
{
	(void)arg;
	rb_funcall(control_module, rb_intern("report"), 1, error);
	return Qnil;
}

static void run_job(void *arg)
{
	(void)arg;
	__atomic_store_n(&job_pending, 0, __ATOMIC_RELEASE);
	rb_rescue2(call_sync, control_module, sync_failed, Qnil, rb_eStandardError, (VALUE)0);
}

static void post_job(void)
{
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
	rb_postponed_job_trigger(job_handle);
#else
	rb_postponed_job_register_one(0, run_job, NULL);
#endif
}

/* Ruby's handler of SIGVTALRM does nothing: the signal only ends a wait. Without it: no signal. */
static void wake_main_thread(void)
{
#ifdef __linux__
	struct sigaction sa;

	if (!sigaction(SIGVTALRM, NULL, &sa) && sa.sa_handler != SIG_DFL &&
	    sa.sa_handler != SIG_IGN)
		syscall(SYS_tgkill, getpid(), getpid(), SIGVTALRM);
#endif
}

/* On the control thread. */
static void on_wake(void *arg)
{
	const struct timespec pause = {.tv_nsec = WAKE_PAUSE_MS * 1000000};

	(void)arg;
	__atomic_store_n(&job_pending, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < WAKE_TRIES; i++) {
		post_job();
		wake_main_thread();
		nanosleep(&pause, NULL);
		if (!__atomic_load_n(&job_pending, __ATOMIC_ACQUIRE))
			return;
	}
}

/* Opens the process to `rutile tracepoints`. Returns 0 or an errno. */
static VALUE control_start(VALUE self)
{
	(void)self;
	return INT2FIX(-rutile_usdt_control_start(on_wake, NULL));
}

static VALUE control_stop(VALUE self)
{
	(void)self;
	rutile_usdt_control_stop();
	return Qnil;
}

/* Whether nobody else handles a signal: the number's disposition is the default or to ignore it. */
static VALUE control_signal_free(VALUE self, VALUE number)
{
	struct sigaction sa;

	(void)self;
	if (sigaction(NUM2INT(number), NULL, &sa))
		raise_errno(-errno, "sigaction");
	return sa.sa_handler == SIG_DFL || sa.sa_handler == SIG_IGN ? Qtrue : Qfalse;
}

void init_control(VALUE module)
{
	control_module = rb_define_module_under(module, "Control");
	rb_gc_register_mark_object(control_module);
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
	job_handle = rb_postponed_job_preregister(0, run_job, NULL);
#endif
	rb_define_private_method(rb_singleton_class(control_module), "native_start", control_start,
				 0);
	rb_define_private_method(rb_singleton_class(control_module), "native_stop", control_stop,
				 0);
	rb_define_private_method(rb_singleton_class(control_module), "signal_free?",
				 control_signal_free, 1);
}
