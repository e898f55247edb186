/* SPDX-License-Identifier: MIT */
#include "base/signals.h"

static sigset_t mask, ignored;
static bool noted;

void rut_signals_note(void)
{
	sigprocmask(SIG_SETMASK, NULL, &mask);
	sigemptyset(&ignored);
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction sa;

		if (!sigaction(sig, NULL, &sa) && sa.sa_handler == SIG_IGN)
			sigaddset(&ignored, sig);
	}
	signal(SIGCHLD, SIG_DFL);
	signal(SIGXFSZ, SIG_IGN);
	noted = true;
}

const sigset_t *rut_signals_mask(void)
{
	return &mask;
}

bool rut_signals_ignored(int sig)
{
	return noted && sigismember(&ignored, sig) == 1;
}

void rut_signals_defaults(sigset_t *ret)
{
	sigemptyset(ret);
	for (int sig = 1; noted && sig < NSIG; sig++) {
		struct sigaction sa;

		if (!sigaction(sig, NULL, &sa) && sa.sa_handler == SIG_IGN &&
		    sigismember(&ignored, sig) != 1)
			sigaddset(ret, sig);
	}
}

void rut_signals_inherit(void)
{
	if (!noted)
		return;
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction sa = {.sa_handler =
					       sigismember(&ignored, sig) == 1 ? SIG_IGN : SIG_DFL};

		/* SIGKILL, SIGSTOP and those of libc cannot be set. */
		sigaction(sig, &sa, NULL);
	}
	sigprocmask(SIG_SETMASK, &mask, NULL);
}

void rut_signals_catch(int sig, void (*handler)(int sig), int flags)
{
	struct sigaction sa = {.sa_handler = handler, .sa_flags = flags};

	if (sig != SIGHUP || !rut_signals_ignored(SIGHUP))
		sigaction(sig, &sa, NULL);
}
