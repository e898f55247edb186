/* SPDX-License-Identifier: MIT */
/* `--ruby TARGET[:EVENTS]` of record and start: Ruby events beside the kernel's. */
#ifndef RUT_CLI_RECORD_RUBY_H
#define RUT_CLI_RECORD_RUBY_H

#include <sys/types.h>

#include "base/clock.h"
#include "cli/ruby_opts.h"
#include "session/companion.h"

struct rut_err;
struct rut_tracer;

#define RUT_RECORD_RUBY_MAX 8

struct rut_record_ruby {
	struct rut_record_ruby_source {
		char *target; /* owned; "": the command that rutile starts */
		uint32_t kinds;
		struct rut_tracer *tracer; /* owned; NULL: not started */
		void *targets;		   /* owned; what the tracer's filter refers to */
	} sources[RUT_RECORD_RUBY_MAX];
	size_t count;
	struct rut_words paths, classes, methods; /* filters, for all of them; words owned */
	uint64_t slow_ns;			  /* only calls slower than that; 0: all */
	bool try_newer;				  /* processes with an unreleased Ruby, too */
	char **command;				  /* borrowed; NULL: none is started */
	bool wait;				  /* for targets that are not there yet */
	bool grows;  /* the metadata may only be continued, since a relay daemon gets it */
	bool counts; /* packets say how many events they have, for a sender that drops them */
	bool flight;
	uint64_t ring_bytes;
	uint64_t looked_ns; /* for new processes that the targets mean */
	char *dir;	    /* owned; the directory that is written to; NULL: none */
	struct rut_trace_clock clock;
	bool paused;
	bool folded;  /* it was said that a table of names is full */
	size_t alive; /* processes that are traced */
	int last_rc;  /* of writing: problems are said once */
};

/*
 * Takes the argument of --ruby. Without a target (":EVENTS", "--") it means the command that rutile
 * starts: see rut_cli_record_ruby_check(). Returns 0 or RUT_EXIT_USAGE after a message.
 */
int rut_cli_record_ruby_add(const struct rut_cmd *cmd, struct rut_record_ruby *r,
			    const char *value);

/* The same without a message: 0 or -errno with the reason. */
int rut_cli_record_ruby_parse(struct rut_record_ruby *r, const char *value, struct rut_err *err);

/*
 * Takes a filter: `kind` is "class", "method" or "path". Returns 0 or -ENOMEM. The value is copied.
 */
int rut_cli_record_ruby_filter(struct rut_record_ruby *r, const char *kind, const char *value);

/* The names of the events, for help and messages: "call, return, ...". */
const char *rut_cli_record_ruby_events(void);

/*
 * After the last option: is there a command for a --ruby without a target, and one such --ruby at
 * most? `command` is borrowed; NULL: none is started. Returns 0 or RUT_EXIT_USAGE after a message.
 */
int rut_cli_record_ruby_check(const struct rut_cmd *cmd, struct rut_record_ruby *r, char **command);

/*
 * The command is traced from its first method: prepare before fork(); in the child env(), with the
 * parent's PID, before execve(); in the parent started(). Nothing happens when no --ruby means the
 * command. Return 0 or -errno.
 */
int rut_cli_record_ruby_prepare(struct rut_record_ruby *r, struct rut_err *err);
int rut_cli_record_ruby_env(const struct rut_record_ruby *r, pid_t parent);
void rut_cli_record_ruby_started(struct rut_record_ruby *r, pid_t pid);

/* Attaches to every target. Returns 0 or -errno with the reason. */
int rut_cli_record_ruby_start(struct rut_record_ruby *r, struct rut_err *err);

/* Its events into the directories of the session. Borrows `r`. */
struct rut_companion rut_cli_record_ruby_companion(struct rut_record_ruby *r);

/*
 * Have all targets ended? Never while a name may still mean new processes (--wait), or when a
 * command is traced: that ends by itself.
 */
bool rut_cli_record_ruby_over(const struct rut_record_ruby *r);

/* Says what was recorded on standard error. */
void rut_cli_record_ruby_report(const struct rut_record_ruby *r);

/* Forgets the tracers without detaching them: a forked process continues with them. */
void rut_cli_record_ruby_leave(struct rut_record_ruby *r);

void rut_cli_record_ruby_fini(struct rut_record_ruby *r);

#endif
