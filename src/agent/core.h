/* SPDX-License-Identifier: MIT */
/*
 * The state of a session: what one tracer wants of this process, the hooks set for it, and its
 * table. Here is what all modules of a session share; session.h begins and ends one.
 *
 * Everything here happens with the GVL held unless said otherwise, except init and fini of memory,
 * which the helper thread does before the first and after the last hook.
 */
#ifndef RUT_AGENT_CORE_H
#define RUT_AGENT_CORE_H

#include "abi.h"
#include "base/within.h"
#include "filter.h"
#include "heap.h"
#include "iseq.h"
#include "life.h"
#include "rb.h"
#include "ring/write.h"
#include "table.h"
#include "watch.h"

struct rut_session;
struct rut_task;
struct rut_request_frame;
struct rut_watch_code;

struct rut_variant {
	struct rut_agent_row *row;
	VALUE owner, mid; /* seen last; mid is a Symbol */
	/*
	 * Time mode (stack.c): calls under way; a stack that has some of them, and how many (0: no
	 * matter, when none are under way).
	 */
	void *stack;
	uint32_t active, depth;
	bool inside;		     /* the method that --inside names */
	struct rut_watch *watch;     /* of requests: what it is watched for; NULL: nothing */
	struct rut_watch_code *code; /* where its local variables are; NULL: not looked up yet */
} __attribute__((aligned(64)));

struct rut_owner {
	const struct rut_rec *rec;
	VALUE owner, mid;
	struct rut_life life;
	struct rut_variant *v; /* NULL: the filter leaves it out */
};

struct rut_variants {
	struct rut_variant *by_row; /* owned */
	struct rut_owner *owners;   /* owned; open addressing */
	uint32_t mask, count;
	uint32_t lock;
};

/* One line of the cache. */
struct rut_agent_site {
	VALUE klass;
	const void *place; /* of an instruction; or of a path's bytes, and the line */
	ID mid;		   /* 0: an allocation */
	uint32_t line;
	struct rut_life life;
	struct rut_agent_row *row; /* NULL: the filter leaves it out */
	struct rut_variant *v;
} __attribute__((aligned(64)));

struct rut_agent_sites {
	struct rut_agent_site *slots; /* owned */
	uint32_t mask, count;
};

/*
 * The same for code (code.c). The first words say what its last call was, and answer for the next
 * one when its method entry is the same (hot.h).
 */
struct rut_agent_code {
	VALUE iseq;
	VALUE ment;		   /* 0: not known, or the call is not wanted */
	struct rut_life call_life; /* as long as it holds, `v` and its row are right for `ment` */
	struct rut_variant *v;
	struct rut_agent_row *row;
	struct rut_life life; /* of `rec` */
	struct rut_rec *rec;  /* NULL: the filter leaves it out */
} __attribute__((aligned(64)));

struct rut_codes {
	struct rut_agent_code *slots; /* owned, unless mask is 0: then it is one that is free */
	uint32_t mask, count;
};

/* Records of code with shared hooks, one for each place in the program. */
struct rut_recs {
	struct rut_rec **slots; /* owned; the records are the session's */
	uint32_t mask, count;
};

/* Sizes of slots by page of the heap (Ruby >= 3.2: several sizes). */
struct rut_slots {
	uint64_t *pages; /* owned; page address | log-free size in the low 16 bits */
	uint32_t mask, count;
	bool stale; /* a page was not there: look again */
};

/* What was found: what it is good for, by what it is sorted, and where in the walk it is. */
struct rut_scan_key {
	VALUE kind, a, b;
	long pos;
};

struct rut_scan {
	enum {
		RUT_SCAN_OFF,
		RUT_SCAN_WALK, /* the heap */
		RUT_SCAN_KEYS, /* what is wanted of what was found, and its place */
		RUT_SCAN_SORT, /* by the helper thread: rut_agent_scan_sort() */
		RUT_SCAN_LIST, /* s->todo is filled */
	} phase;
	bool again; /* some of it may have its hook already */
	bool by_name;
	struct rut_walk walk;
	long pos;
	struct rut_scan_key *keys; /* owned */
	size_t count, cap, next;
	size_t codes;		 /* pieces of code among them */
	struct rut_list named;	 /* method entries, when they are chosen by name; sorted by code */
	struct rut_list done;	 /* code that has its hook; sorted */
	struct rut_list unknown; /* code of which its name does not say whether it is wanted */
	VALUE path;		 /* the last one asked for, and the answer */
	bool wanted;
};

#define RUT_FILE_METHODS 64

/* Code that is counted, or has a hook: then its data points here. Lives as long as the session. */
struct rut_rec {
	VALUE ment;		  /* the method entry of the call seen last: then `last` is right */
	struct rut_life life;	  /* ... as long as this holds */
	struct rut_variant *last; /* NULL: the filter leaves it out */
	struct rut_session *s;
	/*
	 * With a hook: alive and not moved while that is set, Ruby pins targets. Shared: that of
	 * the call seen last.
	 */
	VALUE iseq;
	uint32_t path, line;
	uint32_t methods; /* FILE: known to have this hook */
	uint8_t kind;
	bool seen;     /* it was called as a method */
	bool shared;   /* the hook is that of others, too */
	bool drop;     /* the hook is of no use: take it away */
	bool dropping; /* counted in s->drops */
};

#define RUT_ARENA (64u << 10)

struct rut_agent_arena {
	struct rut_agent_arena *next;
	size_t used;
};

/* Record mode: the fiber of the records, from the last SWITCH record, and the packet that has it.
 */
struct rut_record_whose {
	const void *ec; /* NULL: none */
	const void *native;
	uint64_t packet;
};

/* Record mode: what was reserved. */
struct rut_record_at {
	uint64_t pos, bytes, records;
};

#define RUT_RAWS 3

/* ---- parts of a session, each of one module ---- */

/* Code that needs hooks (methods.c), in the order of files. */
struct rut_todo {
	VALUE codes; /* Array, hidden; registered with the GC */
	long next, count;
	long defined; /* from here on, one by one: blocks that are methods ... */
	bool blocks;  /* hooks on all blocks, too */
	bool left;    /* as of the last job */
};

/* What setting hooks has cost so far (methods.c): when that is too much, one for all is set. */
struct rut_effort {
	unsigned tried;	      /* hooks of which the cost was measured */
	uint64_t hook_ns;     /* of one, at best */
	uint64_t compiled_ns; /* spent on code that came, and the hooks set in that */
	uint64_t compiled_hooks;
};

/* Inspecting the heap once more: code came that may be a method by now. */
struct rut_rescan {
	bool due;
	uint64_t at_ns;
	unsigned round;
};

/* Removes hooks: those of no use while the session runs, all of them at its end. */
struct rut_dropper {
	struct rut_walk walk; /* finds tracepoints to disable */
	long pos;
	bool only_drops;
	bool found;		 /* all of them: from here on they are disabled */
	uint64_t at_ns, wait_ns; /* not before: it needs a walk through the heap */
	uint32_t count;		 /* recs with a hook to remove */
};

/* The ring of trace and record mode. */
struct rut_agent_events {
	struct rut_ring ring; /* mapped over `bytes` */
	int fd;
	uint32_t member; /* our place in its file */
	uint64_t ino;
	size_t bytes;
};

struct rut_trace_mode {
	bool tracks;	    /* calls are followed to their ends */
	const char *inside; /* borrowed from the filter; NULL: everywhere */
	uint64_t slow_ns;
};

struct rut_time_mode {
	uint64_t gc_ns_seen,
		gcs_seen; /* GCs so far: their time (rut_agent_hot.gc_ns), their number */
	struct rut_agent_row *gc_row; /* theirs; NULL: none */
	char *buckets;		      /* of the first row; NULL: not asked for */
	uint64_t seeded; /* when the running calls were put on the stacks (running.h); 0: not yet */
	/* Each thread does it for itself, when this is set: as rut_agent_running_seed_own(). */
	void (*seed_own)(struct rut_session *s, void *ec, const void *seen);
};

struct rut_record_mode {
	void *gvl_hook;
	struct rut_record_whose whose;
};

/* Sampled allocations (sample.c), in record mode. */
struct rut_sample_mode {
	uint64_t every; /* objects or bytes for one sample, on average; 0: no samples */
	bool by_bytes;
	uint32_t lock;
	int64_t left; /* objects or bytes until the next one; changes as counters do */
	uint64_t random;
	struct rut_sample_room *room; /* owned */
};

#define RUT_TASK_BUCKETS 256

/* Requests and spans (request.c), in record mode. */
struct rut_request_mode {
	struct rut_watches watches;
	VALUE keys;  /* Array of Strings, the keys of hashes; registered with the GC */
	VALUE codes; /* Array of the code of watched methods that is known; the same */
	long code_count;
	uint32_t lock;
	struct rut_task *tasks[RUT_TASK_BUCKETS]; /* fibers with a call under way */
	struct rut_task *free;
	uint32_t task_count;
	uint64_t made;	       /* tasks so far */
	uint64_t freed_active; /* tasks freed in a request, of which the end has not been seen */
	uint32_t count;	       /* of requests so far */
	VALUE leave;	       /* the instruction that returns, once it was seen */
	struct rut_request_frame *frames; /* owned; of request_caller.c */
	struct rut_sql *sqls;		  /* owned: RUT_SQLS; of watch_read.c */
};

/* Where live objects were made (origin.c). */
struct rut_origins {
	struct rut_origin_page *pages; /* owned; open addressing */
	uint32_t mask, count;
	const struct rut_origin_page *last; /* used last; NULL: none */
	size_t gcs, compactions;	    /* as they were at the last note */
	uint32_t valid_from;		    /* notes of collections before that are void */
	uint32_t flags;			    /* RUT_LOOK_* */
	bool on;
};

/* Counts what lives (census.c). */
struct rut_census {
	struct rut_walk walk;
	bool running;
	bool walked;		    /* all of the heap was read */
	bool marking;		    /* a collection is marking: young objects may be garbage */
	uint32_t number;	    /* of this look */
	uint32_t cleared, to_clear; /* rows: set to zero for it, and those that there were */
	size_t gcs;
	struct rut_agent_row *internal[RUT_T_MASK + 1]; /* by type */
};

/* An object of which the references did not fit into the ring yet (graph.c). */
struct rut_graph_late {
	uint64_t head[3]; /* its record */
};

/* References between objects (graph.c). */
struct rut_graph_mode {
	VALUE objects; /* Array, hidden, of those below; registered with the GC; 0: no look */
	struct rut_graph_late *late; /* owned */
	uint32_t count, next;	     /* of these; those before `next` are written */
	uint64_t at;		     /* so many references of the next one are */
	bool reset;		     /* to be written first */
	bool rooted;		     /* the roots are written: it is complete */
	bool naming;
	struct rut_walk walk; /* of the holders of references to name */
};

struct rut_hit_probe;

/* Which probes, a bit each, a method or an allocation hits. */
struct rut_hit_row {
	uint64_t calls, returns; /* an allocation has its bits in `calls` */
	bool known;		 /* an allocation: these are found */
};

/* Probes of scripts (hit.c). */
struct rut_hit_mode {
	struct rut_hit_probe *probes[RUT_HIT_PROBES];
	unsigned count;
	uint64_t events;   /* which they have: a bit each */
	uint64_t deferred; /* whose hits are written into the ring: a bit each */
	bool methods;	   /* some of them are hit by methods */
	bool requests;	   /* ... by requests, which watched methods tell of (request.h) */
	uint64_t gc_start_ns, gc_enter_ns;
	struct rut_hit_row *rows;    /* owned; one for each row of the table */
	struct rut_hit_texts *texts; /* owned: RUT_HIT_POOL; hooks have little stack */
	/* Owned, one for each row: where the arguments are that a probe wants; NULL: it wants none.
	 */
	struct rut_watch_code **codes[RUT_HIT_PROBES];
};

struct rut_within_method;
struct rut_within_thread;
struct rut_within_known;

/* Which methods threads are in (within.c). */
struct rut_within_mode {
	bool on;      /* hooks keep the slots */
	bool refused; /* for good */
	unsigned count;
	struct rut_within_method *methods; /* owned */
	struct rut_within_thread *threads; /* owned; by slot */
	struct rut_within_known *cache;	   /* owned */
	struct rut_within_slot *slots;	   /* the tracer's map; NULL: not there (yet) */
	uint64_t found;			   /* which of the methods there are, a bit each */
	uint64_t met;			   /* ... of which hooks are seen to run */
	uint64_t known;			   /* ... that are followed: said to the kernel */
	uint32_t number;		   /* of this session, in this process */
	int sockets[2];			   /* ours, the tracer's; -1: none */
	uint64_t socket_inos[2];
};

struct rut_session {
	unsigned index;
	uint32_t mode, flags;
	bool used;   /* memory is there */
	bool hooked; /* hooks may be set */
	struct rut_codes codes;
	struct rut_time_mode time;
	struct rut_recs recs;
	struct rut_rec *file_recs[RUT_FILE_METHODS + 1]; /* by how many methods they hook */
	struct rut_agent_rows table;
	const char *refused; /* why nothing was hooked, or NULL */
	struct rut_agent_slot *slot;
	struct rut_agent_filter filter;
	struct rut_agent_arena *arena; /* owned */
	uint32_t arena_lock, codes_lock;
	struct rut_variants variants;
	VALUE tps[12]; /* global tracepoints; registered with the GC */
	int tp_count;
	rut_raw_fn raws[RUT_RAWS];     /* those of rut_agent_session_raw() */
	uint32_t raw_events[RUT_RAWS]; /* theirs */
	unsigned raw_count;
	struct rut_agent_sites sites;
	struct rut_slots slots; /* sizes of objects */
	struct rut_origins origins;
	struct rut_census census;
	struct rut_graph_mode graph;
	struct rut_agent_events events;
	struct rut_trace_mode trace;
	struct rut_record_mode record;
	struct rut_request_mode requests;
	struct rut_sample_mode sample;
	struct rut_hit_mode hits;
	struct rut_within_mode within;
	bool global;	 /* one hook for all methods (code.c) ... */
	VALUE global_tp; /* ... which is this one, of tps; 0: none */
	bool by_file;	 /* methods of a file share hooks (files.c) */
	bool no_files;	 /* ... which did not work */
	bool main_comes; /* the program's own code has not run yet (Ruby 2.6) */
	uint32_t busy;	 /* hooks that Ruby may interrupt: they need the session */
	struct rut_scan scan;
	struct rut_todo todo;
	VALUE fibers; /* Array of those that the scan has found; registered with the GC */
	struct rut_effort effort;
	struct rut_rescan rescan;
	struct rut_dropper dropper;
	uint64_t orphan_until_ns; /* in the child of a fork: wait for the tracer until then */
} __attribute__((aligned(64)));

void *rut_agent_session_alloc(struct rut_session *s, size_t bytes);
/* Did rut_agent_session_alloc() give this? */
bool rut_agent_session_owns(const struct rut_session *s, const void *p);

/* A global tracepoint, enabled; remembered for unhook. */
VALUE rut_agent_session_tp(struct rut_session *s, uint32_t events, rut_tp_fn fn);

/*
 * The same without the TracePoint around it, for what fires most. The hook gets the session's
 * number as its data, a Fixnum, because Ruby marks it.
 */
void rut_agent_session_raw(struct rut_session *s, uint32_t events, rut_raw_fn fn);

extern struct rut_session rut_agent_sessions[RUT_AGENT_SLOTS] RUT_HIDDEN;

/* Of this process, also in the child of a fork: getpid() is a system call. */
extern int rut_agent_pid RUT_HIDDEN;

static inline struct rut_session *rut_session_of(VALUE index)
{
	return &rut_agent_sessions[index >> 1];
}

/* A counter goes up: plainly while there is one ractor. */
static inline void rut_add_in(uint64_t *counter, uint64_t n, bool single)
{
	if (single)
		*counter += n;
	else
		__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static inline void rut_add(uint64_t *counter, uint64_t n)
{
	rut_add_in(counter, n, RUT_LIKELY(rut_single_ractor()));
}

/* Calls are followed by trace.c: events of a ring, or probes of scripts. */
static inline bool rut_session_traces(const struct rut_session *s)
{
	return s->mode == RUT_AGENT_TRACE || s->mode == RUT_AGENT_SCRIPT;
}

bool rut_agent_session_counts_calls(const struct rut_session *s);
/* ... allocations, beside calls or alone? */
bool rut_agent_session_sees_allocations(const struct rut_session *s);
/* Must hooks fire at returns, too? */
bool rut_agent_session_wants_returns(const struct rut_session *s);

/*
 * Until 3.2 a ractor that begins while any hook on allocations is set crashes Ruby: it
 * looks for the line of a thread that has no frame yet.
 */
static inline bool rut_ractors_crash(void)
{
	return rb.abi->ractors_crash;
}

#define RUT_REFUSED_RACTORS                                                                        \
	"it runs ractors, and this Ruby (until 3.2) crashes when one begins while allocations "    \
	"are "                                                                                     \
	"counted"

/* Takes the hooks of rut_agent_session_raw() away. */
void rut_agent_session_raw_off(struct rut_session *s);
/* Only that of allocations. */
void rut_agent_session_newobj_off(struct rut_session *s);

/* There are ractors: says so in the table when this session does not see all that they do. */
void rut_agent_session_ractors(struct rut_session *s);

/* Does the filter want the file of this code? `ret_path`, if given: its path in the table. */
bool rut_agent_session_wants_file(struct rut_session *s, VALUE iseq, uint32_t *ret_path);

/*
 * Could the filter want this code, of a rut_rec_kind, by its name? Only with watched methods does
 * the name alone say no.
 */
bool rut_agent_session_wants_name(const struct rut_session *s, VALUE iseq, int kind);

/* This thread runs a job of the agent's: what it calls is not the application's. */
extern __thread bool rut_agent_own_work __attribute__((tls_model("initial-exec"))) RUT_HIDDEN;

#endif
