/* SPDX-License-Identifier: MIT */
/*
 * A session: what one tracer wants of this process, the hooks set for it, and its table.
 *
 * Everything here happens with the GVL held unless said otherwise, except init and fini of memory,
 * which the helper thread does before the first and after the last hook.
 */
#ifndef RUT_AGENT_SESSION_H
#define RUT_AGENT_SESSION_H

#include "abi.h"
#include "filter.h"
#include "life.h"
#include "rb.h"
#include "scan.h"
#include "ring/write.h"
#include "site.h"
#include "table.h"
#include "variant.h"

struct rut_session;

#define RUT_FILE_METHODS 64

enum rut_rec_kind {
	RUT_REC_METHOD,
	RUT_REC_BLOCK, /* the block of a define_method, or perhaps one */
	RUT_REC_FILE,  /* methods of one file: their hook */
};

/* Code that is counted, or has a hook: then its data points here. Lives as long as the session. */
struct rut_rec {
	/*
	 * Of the call seen last; then `last` is right. A method: the class of its receiver. The
	 * block of a define_method, which can be that of several: the method entry.
	 */
	VALUE key;
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

struct rut_arena {
	struct rut_arena *next;
	size_t used;
};

/* Record mode: whose the records are, as the last SWITCH record says, and which packet has that. */
struct rut_record_whose {
	const void *ec; /* NULL: nobody's */
	const void *native;
	uint64_t packet;
};

/* Record mode: what was reserved. */
struct rut_record_at {
	uint64_t pos, bytes, records;
};

#define RUT_RAWS 3

struct rut_session {
	unsigned index;
	uint32_t mode, flags;
	bool used;   /* memory is there */
	bool hooked; /* hooks may be set */
	struct rut_codes codes;
	struct rut_recs recs;
	struct rut_rec *file_recs[RUT_FILE_METHODS + 1]; /* by how many methods they hook */
	struct rut_table table;
	uint64_t slow_ns;
	const char *refused; /* why nothing was hooked, or NULL */
	struct rut_agent_slot *slot;
	struct rut_filter filter;
	struct rut_arena *arena; /* owned */
	uint32_t arena_lock, codes_lock;
	struct rut_variants variants;
	VALUE tps[12]; /* global tracepoints; registered with the GC */
	int tp_count;
	rut_raw_fn raws[RUT_RAWS]; /* those of rut_session_raw() */
	unsigned raw_count;
	void *gvl_hook;		       /* record mode */
	struct rut_record_whose whose; /* record mode */
	struct rut_ring ring;	       /* trace mode; mapped over ring_bytes */
	int ring_fd;
	uint32_t ring_member; /* our place in its file */
	uint64_t ring_ino;
	size_t ring_bytes;
	bool tracks;	    /* trace mode: calls are followed to their ends */
	const char *inside; /* borrowed from the filter; NULL: everywhere */
	struct rut_sites sites;
	bool global;	      /* one hook for all methods (code.c) */
	bool by_file;	      /* methods of a file share hooks (files.c) */
	bool no_files;	      /* ... which did not work */
	uint64_t compiled_ns; /* spent on code that came, and the hooks set in that */
	uint64_t compiled_hooks;
	uint32_t busy;		/* hooks that Ruby may interrupt: they need the session */
	unsigned tried;		/* hooks of which the cost was measured */
	uint64_t hook_ns;	/* of one, at best */
	struct rut_slots slots; /* sizes of objects */
	/* The work that is left, see methods.c. */
	VALUE todo; /* Array of code, hidden; registered with the GC */
	long todo_next, todo_count;
	long todo_defined;	/* from here on, one by one: blocks that are methods ... */
	bool todo_blocks;	/* hooks on all blocks, too */
	struct rut_scan scan;	/* the look through the heap that fills it */
	VALUE fibers;		/* Array of those that it has found; registered with the GC */
	struct rut_walk unhook; /* finds tracepoints to disable */
	long unhook_pos;
	bool unhook_only_drops;
	bool unhook_found;		   /* all of them: from here on they are disabled */
	uint64_t drop_at_ns, drop_wait_ns; /* not before: it takes a look through the heap */
	bool todo_left;			   /* as of the last job */
	uint32_t drops;			   /* recs whose hook should go */
	uint64_t orphan_until_ns; /* in the child of a fork: wait for the tracer until then */
	/* Time mode: GCs so far have taken that long (rut_hot.gc_ns), and were so many. */
	uint64_t gc_ns_seen, gcs_seen;
	struct rut_agent_row *gc_row; /* theirs; NULL: none */
	char *buckets;		      /* of the first row; NULL: not asked for */
	/* Time mode (running.h): when the running calls were put on the stacks; 0: not yet. */
	uint64_t seeded;
	bool seed_own;	 /* each thread does it for itself */
	bool main_comes; /* the program's own code has not run yet (Ruby 2.6) */
	bool rescan;	 /* code came whose methods may be defined by now */
	uint64_t rescan_at_ns;
	unsigned rescan_round;
} __attribute__((aligned(64)));

int rut_session_init(struct rut_session *s, struct rut_agent_slot *slot);
/* Returns its memory. No hook may be left. Any thread. */
void rut_session_fini(struct rut_session *s);

void *rut_session_alloc(struct rut_session *s, size_t bytes);
/* Did rut_session_alloc() give this? */
bool rut_session_owns(const struct rut_session *s, const void *p);

/* Sets the hooks that this mode needs at once. Returns NULL or why not. */
const char *rut_session_hook(struct rut_session *s);

/* Does some of the remaining work; true while more is left. */
bool rut_session_work(struct rut_session *s, uint64_t deadline_ns);

/* Hooks of no use wait to be taken away, and it is time for that. */
bool rut_session_drops_due(const struct rut_session *s);

/* Takes hooks away; true while some are left. */
bool rut_session_unhook(struct rut_session *s, uint64_t deadline_ns);

/* A global tracepoint, enabled; remembered for unhook. */
void rut_session_tp(struct rut_session *s, uint32_t events, rut_tp_fn fn);

/*
 * The same without the TracePoint around it, for what fires most. The hook gets the session's
 * number as its data, a Fixnum, because Ruby marks it.
 */
void rut_session_raw(struct rut_session *s, uint32_t events, rut_raw_fn fn);

extern struct rut_session rut_sessions[RUT_AGENT_SLOTS] RUT_HIDDEN;

static inline struct rut_session *rut_session_of(VALUE index)
{
	return &rut_sessions[index >> 1];
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

bool rut_session_counts_calls(const struct rut_session *s);
/* Must hooks fire at returns, too? */
bool rut_session_wants_returns(const struct rut_session *s);

/*
 * Until 3.2 a ractor that begins while there is a hook on allocations, whoever's, crashes Ruby: it
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

/* Takes the hooks of rut_session_raw() away. */
void rut_session_raw_off(struct rut_session *s);

/* There are ractors: says so in the table when this session does not see all that they do. */
void rut_session_ractors(struct rut_session *s);

/* methods.c */
bool rut_methods_work(struct rut_session *s, uint64_t deadline_ns);
bool rut_methods_unhook(struct rut_session *s, bool only_drops, uint64_t deadline_ns);
/* Instead of a hook for each method. */
void rut_session_go_global(struct rut_session *s);
/* Does the filter want the file of this code? `ret_path`, if given: its path in the table. */
bool rut_methods_path_wanted(struct rut_session *s, VALUE iseq, uint32_t *ret_path);
void rut_watch_ractors(struct rut_session *s);
void rut_methods_on_compiled(VALUE tp, void *session);
/*
 * Ruby 2.6 does not tell of the program's own code; its first call of a C method does. Does that
 * run later, as far as this thread knows?
 */
bool rut_methods_main_comes(void);
void rut_methods_on_main(VALUE tp, void *session);

/* target.c */
/*
 * A hook on this code (its wrapper) and the methods in it, `methods` of them. Returns the
 * tracepoint, or 0.
 */
VALUE rut_target_hook(struct rut_session *s, VALUE wrapper, VALUE iseq, int kind, uint32_t methods);
void rut_target_unhook(struct rut_session *s, VALUE tp);
/* A tracepoint of any kind for one target; false: Ruby refused. */
bool rut_target_enable(VALUE tp, VALUE wrapper);
/* The record of a tracepoint of this session, or NULL. */
struct rut_rec *rut_target_rec(const struct rut_session *s, VALUE tp);
/* For what a tracepoint refers to: adds the code that it is enabled for to a rut_list. */
void rut_target_sets(VALUE obj, void *list);

/* files.c */
/* `by_name`: for methods that are chosen by name. */
bool rut_files_usable(bool by_name);
/*
 * One hook for these methods of one file, RUT_FILE_METHODS at most, in the order of their lines.
 * False: not on this Ruby, and none has it. The array is changed.
 */
bool rut_file_hook(struct rut_session *s, VALUE *iseqs, long count);
/* Can the hooks of some code be seen? If not, the next two must not be used. */
bool rut_hooks_listed(void);
/* How many hooks of this session count this code (`method`: a method, else a block). */
unsigned rut_file_hooks_on(const struct rut_session *s, VALUE iseq, bool method);
/* The record of the hook of this session that counts this code, or NULL. */
struct rut_rec *rut_file_rec_on(struct rut_session *s, VALUE iseq, bool bmethod);
/* Has Ruby call the function of this hook of the code at once, where that is possible. */
void rut_file_make_direct(const struct rut_session *s, VALUE iseq, VALUE tp, int kind);
/* The memory that Ruby does not free when this code goes. */
void rut_file_free_copy(VALUE iseq);

/* names.c: never runs Ruby code of the application. Writes the name, NUL-terminated. */
void rut_class_name(VALUE klass, char *buf, size_t size, bool *ret_singleton);

/* alloc.c, ccall.c */
void rut_on_newobj(VALUE index, struct rut_trace_arg *ta);
/* The site of an allocation, and the bytes of its slot; NULL: it is not wanted. */
const struct rut_site *rut_alloc_site(struct rut_session *s, const struct rut_trace_arg *ta,
				      uint64_t *ret_bytes);
void rut_on_c_call(VALUE index, struct rut_trace_arg *ta);
void rut_slots_scan(struct rut_slots *slots);

/* stacks.c */
void rut_stacks_write(struct rut_session *s);
/* `name` of `obj` by the method that Ruby itself defined, or nil. May raise. */
VALUE rut_ask(VALUE obj, const char *name);

/* raises.c */
void rut_raises_on_raise(VALUE tp, void *session);

/* This thread runs a job of the agent's: what it calls is not the application's. */
extern __thread bool rut_own_work __attribute__((tls_model("initial-exec"))) RUT_HIDDEN;

/* callers.c: counts a call of this method in the row of the line that calls it. */
void rut_caller_count(struct rut_session *s, const struct rut_variant *v);

/* facts.c: what the process knows about its application, into the table. */
void rut_facts_write(struct rut_session *s);

/* trace.c */
int rut_trace_init(struct rut_session *s, uint64_t ring_bytes);
void rut_trace_fini(struct rut_session *s);
int rut_trace_fork(struct rut_session *s);
void rut_trace_call(struct rut_session *s, VALUE tp, struct rut_trace_arg *ta, const void *cfp,
		    struct rut_variant *v);
void rut_trace_return(struct rut_session *s, struct rut_trace_arg *ta, bool is_c);
void rut_trace_on_raise(VALUE tp, void *session);
/* A thread (its row) and the rows of its frames, innermost first. */
void rut_trace_stack(struct rut_session *s, uint32_t thread, uint32_t tid, const uint32_t *rows,
		     uint32_t count);

/* args.c: "a=1, b=\"x\"" of the call that begins; the length. */
size_t rut_args_format(VALUE tp, struct rut_trace_arg *ta, char *buf, size_t size);
/* One value, likewise. */
size_t rut_value_format(VALUE value, char *buf, size_t size);

/* hooks.c */
rut_tp_fn rut_hook_for(const struct rut_session *s, int kind, uint32_t *ret_events);
bool rut_hook_is_ours(rut_tp_fn fn);
/* What Ruby may call in place of its tracepoint, for a hook of this kind; NULL: nothing. */
rut_raw_fn rut_hook_direct(const struct rut_session *s, int kind);
void rut_hook_call(VALUE tp, struct rut_rec *r, struct rut_trace_arg *ta);
void rut_hook_return(struct rut_session *s, struct rut_trace_arg *ta);
/* The row that this call of the record's code belongs to; NULL: none. */
struct rut_variant *rut_hook_variant(struct rut_rec *r, struct rut_trace_arg *ta);
/* The same for a call that is not like the last one; `key` as in the record. */
struct rut_variant *rut_rec_resolve(struct rut_rec *r, struct rut_trace_arg *ta, VALUE key);

/* code.c */
void rut_on_any_call(VALUE tp, void *session);
void rut_codes_init(struct rut_codes *codes);
void rut_codes_fini(struct rut_codes *codes);
void rut_recs_fini(struct rut_recs *recs);
/* From now on this is the record of its code, which has a hook of its own. */
void rut_code_adopt(struct rut_session *s, struct rut_rec *r);
/* The record of this code; NULL: the filter leaves it out. */
struct rut_rec *rut_code_rec(struct rut_session *s, VALUE iseq, bool bmethod);
/* The method that begins; NULL: it is not wanted. Its hook is that of a file. */
struct rut_variant *rut_code_variant(struct rut_session *s, struct rut_trace_arg *ta);

static inline struct rut_code *rut_code_slot(const struct rut_codes *codes, VALUE iseq)
{
	uint32_t hash = (uint32_t)(iseq * 0x9e3779b97f4a7c15ull >> 32);

	return &codes->slots[hash & codes->mask];
}

#endif
