/* SPDX-License-Identifier: MIT */
/*
 * Rutile::Control: wishes from outside that need Ruby code, that is, wrapping a method.
 *
 * The library's control thread is not a Ruby thread. It registers a postponed job, which Ruby
 * runs on a thread of its own choice as soon as one checks for interrupts, and wakes the main
 * thread. Which thread gets the job is known only by trying: the interrupt is flagged for the
 * thread that ran last, which may sleep longer than the main one. So this is repeated until the job
 * ran.
 *
 * The signal Ruby itself uses for that ends a system call, and up to Ruby 3.2 a sleep. Since 3.3
 * a thread that sleeps waits for a condition, which signals do not end. But Ruby's handler of
 * signals wakes the main thread for what it has to do about one, so that is called, from here, for
 * a signal that without a handler: there is nothing to do.
 *
 * The thread must not ask for a job when there is no virtual machine any more: the process lives
 * on for a while after that, in the handlers that C libraries registered for its end.
 */
#include "rb_ext.h"

#include <ruby/debug.h>
#include <ruby/vm.h>
#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

static VALUE control_module;
static uint32_t job_pending; /* atomic */
static uint32_t vm_ends;     /* atomic */
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
	rb_rescue2(call_sync, control_module, sync_failed, Qnil, rb_eStandardError, rb_eScriptError,
		   (VALUE)0);
}

static void post_job(void)
{
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
	rb_postponed_job_trigger(job_handle);
#else
	rb_postponed_job_register_one(0, run_job, NULL);
#endif
}

#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
static const struct {
	int number;
	const char *name;
} idle_signals[] = {{SIGURG, "URG"}, {SIGWINCH, "WINCH"}, {SIGIO, "IO"}};
enum { N_IDLE_SIGNALS = sizeof(idle_signals) / sizeof(*idle_signals) };
static void (*ruby_handler)(int); /* NULL: not found */

static bool is_free(int number)
{
	struct sigaction sa;

	return !sigaction(number, NULL, &sa) &&
	       (sa.sa_handler == SIG_DFL || sa.sa_handler == SIG_IGN);
}

static VALUE do_nothing(RB_BLOCK_CALL_FUNC_ARGLIST(value, data))
{
	(void)value, (void)data, (void)argc, (void)argv, (void)blockarg;
	return Qnil;
}

/* What Ruby installs for a trap, which is the same for all of these signals. */
static void find_ruby_handler(void)
{
	VALUE signals = rb_const_get(rb_cObject, rb_intern("Signal"));

	for (unsigned i = 0; i < N_IDLE_SIGNALS && !ruby_handler; i++) {
		VALUE name = rb_str_new_cstr(idle_signals[i].name), old;
		struct sigaction sa;

		if (!is_free(idle_signals[i].number))
			continue;
		old = rb_funcall(signals, rb_intern("trap"), 2, name,
				 rb_proc_new(do_nothing, Qnil));
		/* A function of one argument, whatever the flags say. */
		if (!sigaction(idle_signals[i].number, NULL, &sa))
			ruby_handler = sa.sa_handler;
		rb_funcall(signals, rb_intern("trap"), 2, name, old);
	}
}

static void end_sleep(void)
{
	for (unsigned i = 0; i < N_IDLE_SIGNALS && ruby_handler; i++) {
		if (!is_free(idle_signals[i].number))
			continue;
		ruby_handler(idle_signals[i].number);
		return;
	}
}
#else
static void end_sleep(void)
{
}
#endif

/* Ruby's handler of SIGVTALRM does nothing: the signal only ends a wait. Without it: no signal. */
static void end_system_call(void)
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
	for (unsigned i = 0; i < WAKE_TRIES && !__atomic_load_n(&vm_ends, __ATOMIC_ACQUIRE); i++) {
		post_job();
		end_sleep();
		end_system_call();
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

/* After the last line of Ruby code. Waits for the control thread. */
static void on_vm_end(ruby_vm_t *vm)
{
	(void)vm;
	__atomic_store_n(&vm_ends, 1, __ATOMIC_RELEASE);
	rutile_usdt_control_stop();
}

/* Whether a signal is unused: the number's disposition is the default or to ignore it. */
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
	find_ruby_handler();
#endif
	ruby_vm_at_exit(on_vm_end);
	rb_define_private_method(rb_singleton_class(control_module), "native_start", control_start,
				 0);
	rb_define_private_method(rb_singleton_class(control_module), "native_stop", control_stop,
				 0);
	rb_define_private_method(rb_singleton_class(control_module), "signal_free?",
				 control_signal_free, 1);
}
