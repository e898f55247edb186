/* SPDX-License-Identifier: MIT */
/* Ruby processes as /proc shows them: finding and identifying them, without attaching.
 */
#ifndef RUT_RUBY_PROC_H
#define RUT_RUBY_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rut_err;

enum rut_ruby_role {
	RUT_ROLE_SCRIPT,
	RUT_ROLE_FOREMAN_RAILS,
	RUT_ROLE_FOREMAN_PROXY,
	RUT_ROLE_PUMA, /* single mode */
	RUT_ROLE_PUMA_MASTER,
	RUT_ROLE_PUMA_WORKER,
	RUT_ROLE_UNICORN_MASTER,
	RUT_ROLE_UNICORN_WORKER,
	RUT_ROLE_PASSENGER,
	RUT_ROLE_SIDEKIQ,
	RUT_ROLE_RAKE,
	RUT_ROLE_THIN,
	RUT_ROLE_RACKUP,
	RUT_ROLE_FALCON,
	RUT_ROLE_HANAMI,
	RUT_ROLE_RESQUE,
	RUT_ROLE_GOOD_JOB,
	RUT_ROLE_DELAYED_JOB,
	RUT_ROLE_IRB,
	RUT_ROLE_PRY,
	RUT_ROLE_RAILS_CONSOLE,
	RUT_ROLE_RAILS_RUNNER,
	/* Other implementations of Ruby, which cannot be traced. */
	RUT_ROLE_JRUBY,
	RUT_ROLE_MRUBY,
	RUT_ROLE_TRUFFLERUBY,
};

struct rut_ruby_proc {
	pid_t pid, ppid;
	uid_t uid;
	char user[33];
	char version[16]; /* "3.1.2"; empty when it is not known */
	enum rut_ruby_role role;
	char *name;	/* owned; what `ps` shows: process title or script */
	char *app_root; /* owned; directory of the application in the target's mount namespace; or
			 * NULL
			 */
	uint64_t uptime_s;
	bool in_container;     /* another mount or PID namespace than ours */
	const char *allocator; /* "jemalloc", "tcmalloc"; NULL: libc's, or linked statically */
	bool deleted;	       /* its binary or libruby was replaced on disk (upgrade) */
	char *why_not;	       /* owned; why it cannot be traced, or NULL */
	bool newer; /* `why_not` is only that its Ruby is unreleased: it may be traced nevertheless
		     */
};

void rut_ruby_proc_fini(struct rut_ruby_proc *p);

const char *rut_ruby_role_name(enum rut_ruby_role role);

/* Inspects one process. -ESRCH: it has exited; -ENOEXEC with the reason: not Ruby. */
int rut_ruby_proc_read(struct rut_ruby_proc *ret, pid_t pid, struct rut_err *err);

/* Returns -ENOTSUP with the reason when this version of Ruby is an unreleased one, or 0. */
int rut_ruby_proc_unreleased(pid_t pid, const char *version, struct rut_err *err);

/* The current directory of a process, in its own view; "/" when it is not known. */
void rut_ruby_proc_cwd(pid_t pid, char *ret, size_t cap);

/* Whole seconds since it began; 0: it has exited. */
uint64_t rut_ruby_uptime_s(pid_t pid);

struct rut_ruby_procs {
	struct rut_ruby_proc *procs; /* owned */
	size_t count;
};

/*
 * Every Ruby process that can be seen, by PID. When it is called again and again, a process that
 * was none of Ruby and executes the same file is inspected every 10 s only. For one thread.
 */
int rut_ruby_procs_list(struct rut_ruby_procs *ret, struct rut_err *err);
void rut_ruby_procs_fini(struct rut_ruby_procs *ps);

/*
 * The processes that a target on the command line names: a PID; "rails" or "proxy" (Foreman's); a
 * role as `rutile ps` shows it; or a name. Only the roots of process trees are returned: a worker
 * with its master in the list is followed through it. -ESRCH with the reason when nothing matches.
 */
int rut_ruby_procs_match(const struct rut_ruby_procs *ps, const char *target, pid_t **ret_pids,
			 size_t *ret_count, struct rut_err *err);

#endif
