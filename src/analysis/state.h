/* SPDX-License-Identifier: MIT */
/*
 * The state model: what the system looks like at every event of a kernel trace.
 *
 * Per CPU the current thread, interrupt and raised softirqs; per thread its name, priority, the
 * system call it is in and, for a thread group's leader, its file descriptors; per disk the
 * pending requests. All analyses share one model. They do not read events: they subscribe to
 * what the model makes of them (hooks), so that each format of each LTTng version is known here
 * and nowhere else.
 *
 * A thread that has ended is kept while some event may still name it (the latest RUT_STATE_DEAD of
 * them), then freed. Memory grows with what lives at one time and with the number of different
 * names, not with the length of the trace.
 */
#ifndef RUT_ANALYSIS_STATE_H
#define RUT_ANALYSIS_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "ctf/reader.h"

#define RUT_NO_TIME INT64_MIN

enum rut_fd_type {
	RUT_FD_UNKNOWN,
	RUT_FD_DISK,
	RUT_FD_NET,
	RUT_FD_MAYBE_NET,
	RUT_FD_PIPE,
	RUT_FD_EVENT, /* eventfd, epoll, timerfd and other objects without data of their own */
	RUT_FD_MEMORY,
};

struct rut_fd {
	int64_t fd;
	const char *filename; /* interned by the state */
	enum rut_fd_type type;
	bool cloexec;
	bool is_open; /* in a table: there is one of this number */
	uint64_t seq; /* descriptors of a process are listed in the order they came */
};

#define RUT_FD_LOW 64u /* numbers below it are most of those that are used */

/* The descriptors of a process. What one points to is valid until another one is added. */
struct rut_fd_table {
	struct rut_fd *low; /* owned; by number */
	uint32_t n_low, count;
	struct rut_map high; /* number + 1 -> struct rut_fd, owned */
};

/* What a request does. READ_WRITE (splice, sendfile) counts as both. */
enum rut_io_op {
	RUT_IO_NONE,
	RUT_IO_OPEN,
	RUT_IO_READ,
	RUT_IO_WRITE,
	RUT_IO_CLOSE,
	RUT_IO_SYNC,
	RUT_IO_READ_WRITE,
};

struct rut_io_rq {
	enum rut_io_op op;
	int64_t begin_ns, end_ns;
	bool has_fd, has_fds; /* fds: fd_in and fd_out */
	int64_t fd, fd_in, fd_out;
	bool has_size;
	int64_t size;	/* bytes moved */
	int64_t error;	/* errno, 0: none */
	bool of_socket; /* the call works on sockets only */
	bool is_dup;
	int64_t dup_fd;	  /* dup and its kind: what is copied */
	bool is_transfer; /* the return value is a count of bytes */
	/* What an open will make. */
	const char *filename;
	enum rut_fd_type fd_type;
	bool cloexec;
};

#define RUT_STATE_FD_FIELDS 3

/* What the current call does to descriptors, beside requests (state_fd.c). */
struct rut_fd_op {
	bool active;
	uint64_t v[RUT_STATE_FD_FIELDS]; /* its arguments */
};

/* System calls by name: how they do I/O. One for each name, owned by the state. */
struct rut_syscall_info {
	const char *name; /* interned */
	uint32_t id;	  /* from 0, in order of first sight */
	uint8_t io;	  /* enum in state_io.c; 0: none */
	uint8_t wait;	  /* enum rut_wait_kind */
	bool of_socket;	  /* it works on sockets only: recvfrom, sendmsg ... */
	uint8_t fd_call;  /* row of the table in state_fd.c + 1; 0: none */
	bool compat;	  /* of a 32-bit program */
};

/* What ended a sleep. */
enum rut_wake_kind {
	RUT_WAKE_UNKNOWN, /* the trace does not say */
	RUT_WAKE_THREAD,  /* another thread, in a context of its own */
	RUT_WAKE_TIMER,
	RUT_WAKE_DISK, /* a request has completed */
	RUT_WAKE_NET,  /* a packet has come; tid: its sender, when it is in the trace */
	RUT_WAKE_IRQ,  /* another interrupt */
	RUT_WAKE_IPI,  /* another CPU, of which nothing else is known */
	RUT_WAKE_USER, /* keyboard, mouse, terminal */
};

struct rut_wake {
	int64_t ns; /* RUT_NO_TIME: not woken since it last ran */
	enum rut_wake_kind kind;
	int64_t tid; /* THREAD, NET: the thread; DISK: the one with requests ahead; 0: not known */
	const char *what; /* disk, peer, interrupt or call; interned; NULL: unknown */
	uint32_t ahead;	  /* DISK: how many requests of others were pending before its own */
};

/* Does this call send something, so that the kernel wakes the receiver on its behalf? */
bool rut_an_state_sends(const char *call);

/* How a system call waits (state_wake.c). */
enum rut_wait_kind {
	RUT_WAIT_ANY,
	RUT_WAIT_TIME,	/* sleeps: only time or a signal ends it */
	RUT_WAIT_POLL,	/* for any of several descriptors */
	RUT_WAIT_FUTEX, /* for a lock */
	RUT_WAIT_CHILD,
	RUT_WAIT_SIGNALS, /* sends a signal: it may wake what sleeps for a time */
};

struct rut_thread {
	/* What most events of a thread touch, in two cache lines: */
	int64_t tid;
	int64_t pid;	  /* -1: unknown */
	const char *comm; /* interned */
	int32_t prio;
	int32_t running;	/* on how many CPUs: 0 or 1, unless events were lost */
	int64_t last_wakeup_ns; /* RUT_NO_TIME: none since it last ran */
	int64_t last_waker;	/* tid of what ran where it was woken; 0: unknown */
	uint32_t index;		/* unique among those that exist; used again */
	bool has_prio;
	bool calls_seen; /* a system call of it was seen: whether it is in one is known */
	bool exiting;
	bool dead;				/* it has ended, or its TID is another's */
	const struct rut_syscall_info *syscall; /* NULL: in none */
	int64_t syscall_begin_ns;
	struct rut_wake wake; /* what ended its last sleep */
	uint64_t futex;	      /* the address that it waits for; 0: none */
	/* And others: */
	struct rut_io_rq rq;
	struct rut_fd_op fd_op;
	struct rut_fd_table fds;
	const char *cgroup; /* its control group; interned; NULL: unknown */
	uint64_t serial;    /* order of creation */
	bool kept;	    /* a pointer to it is kept elsewhere: it is not freed */
	struct rut_thread *next_free;
};

#define RUT_SOFTIRQS 32

struct rut_softirq {
	int64_t raise_ns, begin_ns; /* RUT_NO_TIME: unknown */
};

/* An interrupt that a CPU is in, or its like. */
enum rut_context_kind {
	RUT_CONTEXT_IRQ,
	RUT_CONTEXT_SOFTIRQ,
	RUT_CONTEXT_TIMER,
	RUT_CONTEXT_IPI,
};

struct rut_context_level {
	uint8_t kind; /* enum rut_context_kind */
	int32_t nr;
	const char *name; /* interned; NULL: none */
};

#define RUT_CONTEXT_LEVELS 8

struct rut_cpu {
	/* What each switch touches. */
	struct rut_thread *current; /* NULL: idle or unknown */
	bool seen;
	bool switched; /* a switch was seen: current is known */
	bool in_irq;
	uint8_t n_levels;
	int64_t irq, irq_begin_ns;
	struct rut_context_level levels[RUT_CONTEXT_LEVELS]; /* the innermost is the last */
	/* What was seen since the outermost began: a request that completed, a packet. */
	bool disk_done, packet_in;
	int64_t done_dev;
	int64_t done_tid; /* the thread that made the request */
	uint32_t done_ahead;
	int64_t done_ahead_tid;
	/* What was said of the request that is issued next on this CPU. */
	int64_t dirtied_dev;
	uint64_t dirtied_sector, dirtied_bytes;
	const char *packet_iface;
	/* A softirq can be raised again while it runs: two of each at most. */
	uint8_t n_softirqs[RUT_SOFTIRQS];
	struct rut_softirq softirqs[RUT_SOFTIRQS][2];
};

struct rut_disk {
	int64_t dev;
	const char *name;	/* NULL: unknown */
	struct rut_map pending; /* sector + 1 -> struct rut_block_rq */
	/* Requests that wait for their turn, by their sector: one of those of equal index. */
	struct {
		uint64_t sector;
		int64_t tid;
	} inserted[256];
};

/* What a request does. Only reads and writes move data. */
enum rut_block_op {
	RUT_BLOCK_READ,
	RUT_BLOCK_WRITE,
	RUT_BLOCK_DISCARD,
	RUT_BLOCK_ERASE, /* securely */
	RUT_BLOCK_FLUSH,
	RUT_BLOCK_OTHER, /* the trace does not say which: zeroes, zones */
};

static inline bool rut_block_moves_data(enum rut_block_op op)
{
	return op == RUT_BLOCK_READ || op == RUT_BLOCK_WRITE;
}

const char *rut_an_block_op_name(enum rut_block_op op);

struct rut_block_rq {
	int64_t begin_ns, end_ns;
	uint64_t sector, nr_sector;
	int64_t tid, dev;  /* tid: issued it to the disk */
	int64_t owner_tid; /* put it into the queue; a thread of the kernel may issue it */
	enum rut_block_op op;
	uint64_t dirtied_bytes;	   /* of pages that others had changed: RUT_HOOK_BLOCK_DIRTIED */
	uint32_t ahead;		   /* requests of others that were pending when it was issued */
	int64_t ahead_tid;	   /* the thread with most of these; 0: none */
	struct rut_block_rq *next; /* free list */
};

/* ---- Hooks ---- */

enum rut_hook {
	RUT_HOOK_SWITCH,	/* struct rut_hook_switch */
	RUT_HOOK_MIGRATE,	/* struct rut_hook_thread */
	RUT_HOOK_PRIO,		/* struct rut_hook_thread: its priority changed */
	RUT_HOOK_NAME,		/* struct rut_hook_thread: its name (comm) changed */
	RUT_HOOK_IRQ_ENTRY,	/* struct rut_hook_irq */
	RUT_HOOK_IRQ_EXIT,	/* struct rut_hook_irq */
	RUT_HOOK_SOFTIRQ_EXIT,	/* struct rut_hook_irq */
	RUT_HOOK_SYSCALL_ENTRY, /* struct rut_hook_syscall, without duration and result */
	RUT_HOOK_POLL,		/* the same, of calls that wait for descriptors only */
	RUT_HOOK_SYSCALL_EXIT,	/* struct rut_hook_syscall */
	RUT_HOOK_IO_EXIT,	/* struct rut_hook_io */
	RUT_HOOK_FD_CREATE,	/* struct rut_hook_fd */
	RUT_HOOK_FD_CLOSE,
	RUT_HOOK_FD_UPDATE,
	RUT_HOOK_PARENT,	/* struct rut_hook_parent: a thread's leader became known */
	RUT_HOOK_BLOCK_DONE,	/* struct rut_hook_block */
	RUT_HOOK_BLOCK_DIRTIED, /* struct rut_hook_dirtied */
	RUT_HOOK_DISK,		/* struct rut_hook_disk: a disk's name became known */
	RUT_HOOK_NET,		/* struct rut_hook_net */
	RUT_HOOK_PAGE_ALLOC,	/* struct rut_hook_thread */
	RUT_HOOK_PAGE_FREE,
	RUT_HOOK_WAKEUP,       /* struct rut_hook_wakeup: a thread sleeps no longer */
	RUT_HOOK_RUBY_CALL,    /* struct rut_hook_ruby_call (ruby.h) */
	RUT_HOOK_RUBY_BEGIN,   /* struct rut_hook_ruby_begin */
	RUT_HOOK_RUBY_EVENT,   /* struct rut_hook_ruby_event */
	RUT_HOOK_RUBY_FIBER,   /* struct rut_hook_ruby_fiber: a thread switches to another fiber */
	RUT_HOOK_RUBY_REQUEST, /* struct rut_hook_ruby_request */
	RUT_HOOK_RUBY_SPAN,    /* struct rut_hook_ruby_span */
	RUT_HOOK_COUNT,
};

struct rut_hook_switch {
	int64_t ts_ns;
	int cpu;
	int64_t prev_tid, next_tid;
	int64_t gap_tid; /* the last to run according to the trace, when that is not prev; else -1
			  */
	int64_t prev_state;		   /* 0: it could have run on */
	const char *prev_comm, *next_comm; /* interned */
	struct rut_thread *prev, *next;
	struct rut_thread *waker; /* NULL: unknown */
	int64_t wakeup_ns;	  /* RUT_NO_TIME: unknown */
};

struct rut_hook_thread {
	int64_t ts_ns;
	int cpu;
	struct rut_thread *thread;
};

struct rut_hook_wakeup {
	int64_t ts_ns;
	int cpu;
	struct rut_thread *thread; /* its wake says why */
};

struct rut_hook_irq {
	int cpu;
	int64_t nr;
	const char *name; /* IRQ_ENTRY only; interned */
	int64_t raise_ns; /* RUT_NO_TIME: unknown */
	int64_t begin_ns, end_ns;
};

struct rut_hook_syscall {
	int64_t ts_ns;
	int cpu;
	struct rut_thread *thread;
	const struct rut_syscall_info *info;
	int64_t duration_ns;
	bool has_ret;
	int64_t ret;
	const struct rut_ctf_event *ev; /* borrowed: for the arguments */
};

struct rut_hook_io {
	int cpu;
	struct rut_thread *thread, *parent; /* parent: its descriptors are used */
	const struct rut_syscall_info *info;
	const struct rut_io_rq *rq;
};

enum rut_fd_origin {
	RUT_FD_OPENED,	  /* by a system call */
	RUT_FD_INHERITED, /* at a fork */
	RUT_FD_DUMPED,	  /* listed by a statedump */
	RUT_FD_FOUND,	  /* used, and how it came is not in the trace */
};

struct rut_hook_fd {
	int64_t ts_ns;
	int cpu;
	struct rut_thread *parent;
	int64_t fd;
	const struct rut_fd *info; /* NULL: the process does not have it */
	enum rut_fd_origin origin; /* FD_CREATE */
};

struct rut_hook_parent {
	struct rut_thread *thread, *parent;
};

struct rut_hook_block {
	int cpu;
	const struct rut_disk *disk;
	const struct rut_block_rq *rq;
	struct rut_thread *thread; /* NULL: unknown */
};

/* A request writes pages that a thread had changed earlier. Before the request is issued. */
struct rut_hook_dirtied {
	int cpu;
	struct rut_thread *thread; /* that changed them */
	uint64_t bytes, inode;
	const char *name; /* of the file, without its directory; interned */
};

struct rut_hook_disk {
	int64_t dev;
	const char *name;
};

struct rut_hook_net {
	const char *iface; /* interned */
	bool received;
	int64_t bytes;
};

/* `arg` is what was given with the subscription. */
typedef void (*rut_hook_fn)(void *arg, const void *data);

struct rut_hook_list {
	struct rut_hook_sub {
		rut_hook_fn fn;
		void *arg;
	} * subs; /* owned */
	size_t n, cap;
};

/* ---- The model ---- */

struct rut_ruby;
struct rut_state;
struct rut_state_class;

typedef void (*rut_state_fn)(struct rut_state *st, const struct rut_ctf_event *ev,
			     const struct rut_state_class *c);

#define RUT_STATE_NAMES	 256 /* a power of two */
#define RUT_STATE_FIELDS 8
#define RUT_STATE_DEAD	 4096

/* A set of hooks. */
#define RUT_HOOK_BIT(hook) (1u << (hook))
_Static_assert(RUT_HOOK_COUNT <= 32, "a set of hooks has 32 bits");

/* What is known of a class of events, resolved once. */
struct rut_state_class {
	void (*fn)(struct rut_state *st, const struct rut_ctf_event *ev,
		   const struct rut_state_class *c);
	const struct rut_syscall_info *syscall;
	uint32_t serves; /* the hooks that it can matter to */
	bool own_cpu;	 /* `cpu` is a field */
	/* Begins a call that makes a request, has descriptors, waits for some, or is for a lock. */
	bool special;
	bool compat_exit,
		native_exit; /* returns from calls of 32-bit programs only, or of others */
	bool fix_pid;	     /* the stream's context has a pid, which is the thread's leader */
	bool old_prio;	     /* wakeup priorities are 100 too high: LTTng before 2.7.1 */
	bool of_tracer;	     /* of a tracer, by name: its reads of disks have a bit that says so */
	struct rut_ctf_ref f[RUT_STATE_FIELDS];
	struct rut_ctf_ref cpu; /* none: the packet's */
	struct rut_ctf_ref ctx_tid, ctx_pid, ctx_procname;
	struct rut_ctf_ref fd_f[RUT_STATE_FD_FIELDS]; /* of a call that makes or ends descriptors */
};

struct rut_state {
	struct rut_cpu *cpus; /* owned, by number */
	size_t n_cpus, cpus_seen;
	struct rut_cpu nowhere;	 /* of events with an absurd CPU number */
	int cpu;		 /* of the current event */
	struct rut_map groups;	 /* name of a control group -> struct rut_thread, owned */
	struct rut_index tids;	 /* tid + 1 -> struct rut_thread, borrowed from all */
	struct rut_thread **all; /* owned, by index; NULL: the index is free */
	size_t n_all, cap_all;
	uint32_t *free_indexes; /* owned; as large as all */
	size_t n_free;
	uint64_t serials;
	struct rut_thread **dead; /* owned ring of RUT_STATE_DEAD, borrowed threads */
	size_t dead_at;
	bool keep_threads;	     /* pointers to all are kept elsewhere: none is freed */
	struct rut_map disks;	     /* dev + 1 -> struct rut_disk, owned */
	struct rut_disk **disk_list; /* borrowed, in order of first sight */
	size_t n_disks;
	struct rut_strtab strings;
	struct rut_strtab syscall_names;
	struct rut_syscall_info **syscalls; /* owned, by id */
	struct rut_state_class *classes;    /* owned, by index of the class */
	size_t n_classes;
	struct rut_hook_list hooks[RUT_HOOK_COUNT];
	bool use_context; /* the trace has no sched_switch: contexts name the current thread */
	bool has_calls;	  /* the trace has system calls */
	bool has_irqs;	  /* and interrupts */
	bool muted; /* a filter excludes this event: the model follows it, no analysis counts it */
	enum rut_fd_origin origin; /* of the descriptor that is being added */
	bool no_files;		   /* no analysis asks which descriptors are open */
	bool count_splice;	   /* splice and sendfile are requests too */
	uint64_t pages;
	uint64_t fd_seq;
	struct rut_remap *remaps; /* owned list: where a device mapper sent requests */
	struct rut_block_rq *free_rqs;
	struct rut_ruby *ruby; /* owned; state_ruby.c */
	struct rut_map tables; /* file table address -> struct rut_file_table, owned */
	const char *unknown, *empty, *socket; /* interned */
	bool failed;			      /* out of memory: results are not complete */
	uint32_t listens;		      /* all hooks that analyses may subscribe to */
	/* Names of records' fields of 16 bytes that were interned lately. */
	struct rut_state_name {
		uint64_t raw[2];
		const char *name; /* NULL: none */
	} names[RUT_STATE_NAMES];
	struct rut_thread *free_threads; /* owned list, by `next_free` */
};

int rut_an_state_init(struct rut_state *st);
void rut_an_state_fini(struct rut_state *st);

/* Chooses a handler for every class of the set. May be called again when classes were added. */
int rut_an_state_bind(struct rut_state *st, const struct rut_ctf_set *set);

/* Whether events of this class can matter to listeners of these hooks only. */
bool rut_an_state_needs(const struct rut_state *st, size_t cls, uint32_t hooks);

static inline void rut_state_set_cpu(struct rut_state *st, const struct rut_ctf_event *ev)
{
	const struct rut_state_class *c = &st->classes[ev->index];

	st->cpu = __builtin_expect(ev->cpu >= 0, 1) ? ev->cpu : (int)ev->stream->index;
	if (__builtin_expect(c->own_cpu, 0))
		st->cpu = (int)rut_ctf_i64(ev, &c->cpu);
}

static inline void rut_state_event(struct rut_state *st, const struct rut_ctf_event *ev)
{
	const struct rut_state_class *c = &st->classes[ev->index];

	rut_state_set_cpu(st, ev);
	if (c->fn)
		c->fn(st, ev, c);
}

int rut_an_state_subscribe(struct rut_state *st, enum rut_hook hook, rut_hook_fn fn, void *arg);
/* Ends every subscription with this argument. */
void rut_an_state_unsubscribe(struct rut_state *st, void *arg);

/* The name stays valid as long as the state. Never NULL. */
const char *rut_an_state_intern(struct rut_state *st, const char *s, size_t len);

/* NULL: unknown. */
static inline struct rut_thread *rut_an_state_thread(const struct rut_state *st, int64_t tid)
{
	return rut_index_get(&st->tids, (uint64_t)tid + 1);
}

/* A new one; never NULL. */
__attribute__((returns_nonnull)) struct rut_thread *rut_an_state_add_thread(struct rut_state *st,
									    int64_t tid);

static inline struct rut_thread *rut_an_state_thread_new(struct rut_state *st, int64_t tid)
{
	struct rut_thread *t = rut_an_state_thread(st, tid);

	if (!t)
		t = rut_an_state_add_thread(st, tid);
	return t;
}

/* The thread that an event happened in, from its context. */
struct rut_thread *rut_an_state_current_of(struct rut_state *st, const struct rut_ctf_event *ev,
					   const struct rut_state_class *c);
/* The same, from sched_switch where the trace has it. NULL: unknown. */
static inline struct rut_thread *rut_an_state_current(struct rut_state *st,
						      const struct rut_ctf_event *ev,
						      const struct rut_state_class *c)
{
	if (__builtin_expect(st->use_context, 0))
		return rut_an_state_current_of(st, ev, c);
	return (size_t)st->cpu < st->n_cpus ? st->cpus[st->cpu].current : NULL;
}

struct rut_thread *rut_an_state_find_leader(struct rut_state *st, struct rut_thread *t);
/* The one that holds the descriptors: the leader of the group. */
static inline struct rut_thread *rut_an_state_leader(struct rut_state *st, struct rut_thread *t)
{
	return t->pid < 0 || t->pid == t->tid ? t : rut_an_state_find_leader(st, t);
}
/*
 * What a table has a row for, when threads are put together: the leader of its process; with
 * by_cgroup a stand-in for its control group, with the path as `comm` and a `tid` below 0.
 * Never NULL.
 */
struct rut_thread *rut_an_state_group(struct rut_state *st, struct rut_thread *t, bool by_cgroup);
/* NULL: none of this number is known. */
static inline struct rut_fd *rut_an_state_fd(const struct rut_thread *t, int64_t fd)
{
	if (__builtin_expect((uint64_t)fd < t->fds.n_low, 1))
		return t->fds.low[fd].is_open ? &t->fds.low[fd] : NULL;
	return t->fds.high.count ? rut_map_get(&t->fds.high, (uint64_t)fd + 1) : NULL;
}
/* No event will be of this thread. */
bool rut_an_state_has_ended(const struct rut_state *st, int64_t tid);
/* The process of a thread of which `known` (-1: nothing) was known when it was first seen. */
int64_t rut_an_state_pid(struct rut_state *st, int64_t tid, int64_t known);
/* As Linux calls it; NULL: it has none of this number. */
const char *rut_an_softirq_name(int64_t nr);
/* The result says that the time was over: a timer woke it. */
bool rut_an_state_timed_out(const struct rut_syscall_info *info, int64_t ret);

#endif
