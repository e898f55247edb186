/* SPDX-License-Identifier: MIT */
/*
 * The signals that this program was started with, for the commands that it starts. An ignored
 * signal stays ignored across execve(), a caught one becomes default: a command under `nohup`
 * must not lose that because we caught the signal.
 */
#ifndef RUT_BASE_SIGNALS_H
#define RUT_BASE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/*
 * Notes the signal mask and which signals are ignored; call it first in main(). SIGCHLD becomes
 * default: where it is ignored, waitpid() never returns the status of a child. SIGXFSZ is ignored:
 * a file that gets larger than `ulimit -f` allows is an error to report, like a full disk.
 */
void rut_signals_note(void);

/* The signal mask that was noted. */
const sigset_t *rut_signals_mask(void);

/* Whether `sig` was ignored when the program started. */
bool rut_signals_ignored(int sig);

/* Those that are ignored now and were not then, for posix_spawnattr_setsigdefault(). */
void rut_signals_defaults(sigset_t *ret);

/* Gives the signals back as they were; in a child, between fork() and execve(). */
void rut_signals_inherit(void);

/* Catches a signal; but SIGHUP stays ignored where it was (nohup). `flags` are SA_*. */
void rut_signals_catch(int sig, void (*handler)(int sig), int flags);

#endif
