/* SPDX-License-Identifier: MIT */
/*
 * A Ruby tracer: the agents of one or more process trees, seen as one.
 *
 * The tracer puts the agent into every target (rut_inject), instructs it what to count or to write,
 * and reads the shared tables and rings. Counting costs the reader nothing until it looks: rows are
 * read from shared memory, the targets are not involved. One thread per tracer; the targets' helper
 * threads notice when the tracer dies and take their hooks away.
 */
#ifndef RUT_RUBY_TRACER_H
#define RUT_RUBY_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rut_buf;
struct rut_err;
struct rut_tracer;

enum rut_ruby_mode {
	RUT_RUBY_CALLS,		/* calls per method */
	RUT_RUBY_TIME,		/* calls and time per method */
	RUT_RUBY_OBJECTS_TOTAL, /* allocations per class */
	RUT_RUBY_OBJECTS,	/* allocations per line and class */
	RUT_RUBY_ARRAYS,	/* the same, arrays and hashes only */
	RUT_RUBY_STRINGS,	/* the same, strings only */
	RUT_RUBY_TRACE,		/* one event per call, return, exception */
	RUT_RUBY_RECORD,	/* events of `kinds`, into a trace: see record.h */
	RUT_RUBY_RAISES,	/* exceptions per line and class */
	RUT_RUBY_HEAP,		/* objects that live, when asked: see heap.h */
	RUT_RUBY_SCRIPT,	/* probes of a script */
};

/*
 * A probe of RUT_RUBY_SCRIPT; its number is its index. Strings are borrowed until
 * rut_tracer_new() returns.
 */
struct rut_ruby_probe {
	char event;		   /* RUT_HIT_* of agent/abi.h */
	const char *pattern;	   /* "Class#name", "Class.name", "name", globs; "" */
	const char *const *wishes; /* the kind (RUT_HIT_*), then the name */
	size_t nwishes;		   /* at most RUT_HIT_TEXTS */
	/* With ring_bytes: hits become events, as long as there is room in the ring. */
	bool deferred;
	/* Deferred, and its threads and times are used: only in processes of these namespaces,
	 * where they are ours. Inodes; time_ns 0: the kernel has none; pid_ns 0: in any. */
	uint64_t pid_ns, time_ns;
};

/*
 * A process is about to run with its hooks: the place of probe i is at `sites` + i *
 * RUT_HIT_SITE_BYTES of its memory. -errno, with *err: it is not traced.
 */
typedef int (*rut_ruby_sites_fn)(void *arg, pid_t pid, uint64_t sites, struct rut_err *err);

/* What of the application is instrumented. Strings are borrowed until rut_tracer_new() returns. */
struct rut_ruby_filter {
	const char *const *app_paths; /* globs of the application; NULL: all paths */
	const char *const
		*not_paths; /* globs left out of app_paths (gems below the root); may be NULL */
	/* app_paths are a guess from outside: each process is asked what its application is. */
	bool ask;
	const char *const *paths;   /* --path, each may begin with '!'; may be NULL */
	const char *const *classes; /* --class, likewise */
	const char *const *methods; /* --method: "Class#name", "Class.name", globs, likewise */
	bool c_calls;		    /* also methods written in C, by the line that calls them */
	bool try_newer;		    /* also processes with an unreleased Ruby */
};

struct rut_tracer_config {
	enum rut_ruby_mode mode;
	struct rut_ruby_filter filter;
	/* RUT_RUBY_TRACE only: */
	bool returns; /* events for returns too (needed for durations) */
	bool args; /* the values of arguments, formatted in the target without running Ruby code */
	bool by_caller;	  /* of RUT_RUBY_CALLS: by the line that calls */
	bool percentiles; /* of RUT_RUBY_TIME: rows have buckets */
	bool values;	  /* what is returned, with `returns` */
	bool backtraces;  /* callers of calls and exceptions, by Ruby's own stack */
	bool exceptions;  /* events for exceptions */
	bool names;	  /* rows, for rut_tracer_names(), also of methods that are not called */
	bool stacks;	  /* none of that: what every thread does at attach */
	/* > 0: only calls slower than that, with their callers; of RUT_RUBY_RECORD, too */
	uint64_t slow_ns;
	const char *inside;  /* only below this method; NULL: everywhere */
	uint64_t ring_bytes; /* per process; 0: the default, of RUT_RUBY_SCRIPT none */
	/* RUT_RUBY_HEAP only: */
	bool origins; /* note where objects are made from now on */
	bool full_gc; /* a full collection before each look */
	bool graph;   /* looks also report references: see heap_graph.h */
	/* RUT_RUBY_RECORD only: */
	uint32_t kinds;	    /* bits of enum rut_agent_kind (agent/abi.h) */
	const char *sample; /* RUT_KIND_ALLOC_SAMPLE: "1000" objects or "64k" bytes; borrowed */
	bool overwrite;	    /* a flight recorder: the rings keep the newest */
	bool grows;	    /* the metadata is only continued (record_grow.h) */
	bool counts;	    /* packets say how many events they have (ring/append.h) */
	bool sql_values;    /* of requests: SQL as it is, not masked */
	const char *layers; /* of requests: rut_layers_encode(); borrowed until rut_tracer_new() */
	size_t layers_len;
	/* RUT_RUBY_SCRIPT only: */
	const struct rut_ruby_probe *probes; /* borrowed until rut_tracer_new() */
	size_t nprobes;
	uint64_t session_id; /* which is in each hit */
	rut_ruby_sites_fn on_sites;
	void *on_sites_arg;
	/* Methods that threads are followed in: "Class#name" or "Class.name"; at most 63, by
	   number; NULL: none of that number. Borrowed until rut_tracer_new(). */
	const char *const *within;
	size_t nwithin;
	int within_fd; /* the map of that (base/within.h); borrowed; 0: there is none */
};

int rut_tracer_new(struct rut_tracer **ret, const struct rut_tracer_config *config,
		   struct rut_err *err);

/* Takes every hook away, waits for that at most a second, and leaves the targets as they were. */
void rut_tracer_free(struct rut_tracer *t);

/*
 * Attaches to a process; with `tree` also to its Ruby descendants, now and as they come. Returns 0
 * or -errno with the reason (not Ruby, exited, stopped, no permission ...); the target is then
 * untouched.
 */
int rut_tracer_attach(struct rut_tracer *t, pid_t pid, bool tree, struct rut_err *err);

/* Is it attached to this process? */
bool rut_tracer_has(const struct rut_tracer *t, pid_t pid);

/*
 * Is everything that was attached to counted by now? In a very large application hooks are set for
 * a while yet after rut_tracer_attach() returns; what has one counts already.
 */
bool rut_tracer_settled(const struct rut_tracer *t);

/* A process that is not settled yet; 0: all are. */
pid_t rut_tracer_unsettled(const struct rut_tracer *t);

/*
 * Starts a command with the agent preloaded, instrumented before its first line runs. Returns its
 * PID or -errno. The caller waits for it.
 */
pid_t rut_tracer_spawn(struct rut_tracer *t, char *const argv[], struct rut_err *err);

/*
 * The same for a caller that forks the command itself: prepare, then fork; in the child
 * command_env(), with the PID of the tracing process, before execve(); in the parent
 * command_started() with the child's PID. A Ruby of the command waits in its start until
 * rut_tracer_poll() has adopted it. One command a process. Return 0 or -errno.
 */
int rut_tracer_command_prepare(struct rut_tracer *t, struct rut_err *err);
int rut_tracer_command_env(const struct rut_tracer *t, pid_t tracer);
/* The same as text: "NAME=VALUE", each with its NUL. */
int rut_tracer_command_vars(const struct rut_tracer *t, pid_t tracer, struct rut_buf *out);
void rut_tracer_command_started(struct rut_tracer *t, pid_t pid);

/*
 * Why no process of the command could be traced so far, written to `ret`; NULL: one could, or no
 * command was started.
 */
const char *rut_tracer_untraced(const struct rut_tracer *t, char *ret, size_t cap);

/*
 * The command that an earlier tracer of this process has started, and what it starts, is traced by
 * this one from now on.
 */
void rut_tracer_take_command(struct rut_tracer *t);

/*
 * Follows forks and exits, reads the rings, and sleeps until something happened or the time is
 * over. Returns the number of processes that are still traced, or -errno.
 */
int rut_tracer_poll(struct rut_tracer *t, int timeout_ms, struct rut_err *err);

/* Only reads the rings. Returns 0 or -errno. */
int rut_tracer_take(struct rut_tracer *t, struct rut_err *err);

/*
 * rut_tracer_poll() also returns, early, while `fd` is readable (the keyboard, the pipe of a signal
 * handler); it does not read from it. An interrupting signal (EINTR) ends the sleep as well. -1: no
 * descriptor. Borrowed.
 */
void rut_tracer_watch(struct rut_tracer *t, int fd);

/* How long calls took: see rut_bucket() of agent/abi.h. */
struct rut_ruby_buckets {
	double tick_ns; /* nanoseconds of a tick */
	uint64_t calls[200];
};

/* One line of a table; what a mode does not have is 0 or NULL. Strings live as long as the tracer.
 */
struct rut_ruby_row {
	pid_t pid;
	const char *path; /* source file; for a C method the caller's; may be NULL */
	uint32_t line;
	const char *class_name;	 /* "Foo::Bar", "#<Class:0x000...>" */
	const char *method_name; /* NULL in allocation modes */
	bool singleton;		 /* Foo.bar rather than Foo#bar */
	uint64_t calls;		 /* calls begun */
	uint64_t total_ns, self_ns, max_ns;
	uint64_t running;      /* of RUT_RUBY_TIME: calls not in `calls` that ran at attach */
	uint64_t count, bytes; /* allocations; `count` of RUT_RUBY_RAISES: exceptions */
	const struct rut_ruby_buckets *buckets; /* with `percentiles`; valid like the rows */
	const char *message; /* of RUT_RUBY_RAISES: the last one's; may be NULL */
};

/*
 * All counters as they stand, cumulative since attach or the last reset, processes that have ended
 * included. The rows belong to the tracer and are valid until its next call. Rows of several
 * processes are not merged.
 */
int rut_tracer_rows(struct rut_tracer *t, const struct rut_ruby_row **ret_rows, size_t *ret_count,
		    struct rut_err *err);

/*
 * Every method that the tracer knows by name, called or not, and also those that the filter of
 * classes and methods leaves out, as far as they were seen. The row has names, path, line and
 * calls.
 */
void rut_tracer_names(struct rut_tracer *t, void (*fn)(const struct rut_ruby_row *row, void *arg),
		      void *arg);

/*
 * What the processes say is the root of their application, and how they know: "/srv/shop
 * (Rails.root)"; NULL while nothing is known. Lives until the next call.
 */
const char *rut_tracer_root(const struct rut_tracer *t);

/*
 * Ractors other than the main one, of which the hooks of this tracer do not see all: calls of C
 * methods and allocations, since Ruby 4.0 any calls. Until 3.2 allocations are not counted any more
 * once one begins: it would crash.
 */
enum rut_ruby_ractors {
	RUT_RUBY_RACTORS_NONE,
	RUT_RUBY_RACTORS_UNSEEN,
	RUT_RUBY_RACTORS_ENDED_IT,
};

enum rut_ruby_ractors rut_tracer_ractors(const struct rut_tracer *t);

/*
 * Has a process more methods (classes and lines) than its table has room for? What came last is
 * counted together then, in rows of the path "(other)".
 */
bool rut_tracer_rows_folded(const struct rut_tracer *t);

/* Resets all counters, in every process. */
void rut_tracer_reset(struct rut_tracer *t);

enum rut_ruby_event_type {
	RUT_RUBY_EVENT_CALL,
	RUT_RUBY_EVENT_RETURN,
	RUT_RUBY_EVENT_RAISE,
	RUT_RUBY_EVENT_SLOW,  /* a call that took longer than slow_ns, at its end; or, with
				 `stacks`, a thread (method_name) and its frames (callers) */
	RUT_RUBY_EVENT_HIT,   /* of a deferred probe of a script; PIDs as the process has them */
	RUT_RUBY_EVENT_LOST,  /* `lost` events of this process did not fit */
	RUT_RUBY_EVENT_START, /* a process is now traced */
	RUT_RUBY_EVENT_EXIT,  /* a process ended, or took the agent with it (exec) */
};

struct rut_ruby_event {
	enum rut_ruby_event_type type;
	pid_t pid, tid;
	uint64_t time_ns;		      /* CLOCK_MONOTONIC */
	uint64_t duration_ns;		      /* RETURN (0: the call was not seen) and SLOW */
	uint32_t depth;			      /* of the call in its fiber, of those seen */
	uint32_t fiber;			      /* small number, per process */
	const char *class_name, *method_name; /* RAISE: the exception's class; method may be NULL */
	bool singleton, is_c;
	const char *path; /* RAISE: where raised */
	uint32_t line;
	uint32_t probe;	   /* HIT: its number */
	const char *texts; /* HIT: text_bytes, in the order of its wishes; with their NUL, unless
			      they are numbers of 8 bytes */
	size_t text_bytes;
	const char *value; /* RETURN: what is returned, or NULL */
	const char *args;  /* "a=1, b=\"x\"", or NULL */
	uint64_t lost;
	/* SLOW, and with `backtraces`: innermost first; names, path and line only */
	const struct rut_ruby_event *callers;
	size_t caller_count;
};

/*
 * In order of time. Called from rut_tracer_poll(), on the caller's thread. The event and its
 * strings are valid during the call only.
 */
typedef void (*rut_ruby_event_fn)(const struct rut_ruby_event *ev, void *arg);

void rut_tracer_on_event(struct rut_tracer *t, rut_ruby_event_fn fn, void *arg);

/*
 * RUT_RUBY_SCRIPT, whose events come by process, not in order of time: no event of a process that
 * the tracer had will come that is older than this. CLOCK_MONOTONIC.
 */
uint64_t rut_tracer_complete_ns(const struct rut_tracer *t);

#endif
