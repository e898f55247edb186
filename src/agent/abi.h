/* SPDX-License-Identifier: MIT */
/*
 * What the agent (in the Ruby process) and the tracer (in rutile) share: the control page, the
 * tables, and the rules of their use.
 *
 * The control page is a memfd named RUT_AGENT_MEMFD in the target. A tracer opens it through
 * /proc/PID/fd, so the kernel checks the permission. It then takes a lock (F_OFD_SETLK) on byte i
 * of the memfd: the lock makes slot i its own, and its disappearance shows the agent that the
 * tracer died. The tracer writes the configuration, sets the state to RUT_SLOT_START, increments
 * `wake` and wakes the futex. The agent answers in `state` and increments `reply`.
 *
 * A session's tables are in another memfd; its descriptor number in the target is in the slot,
 * and the tracer has such a lock on its byte 0, too. It has slots for the process and for all
 * that it forks, and they fork: a child takes a free slot and continues there, so that what it
 * counts is known however short it lives. Only the tracer gives a place back, when the process has
 * ended. The rings of trace mode are laid out likewise. Rows are only ever appended, never moved;
 * strings are appended and never changed. A row is readable when its index is below row_count.
 * Counters are written by the target at any time with plain stores of eight aligned bytes.
 *
 * Everything here has fixed widths and offsets: a resident agent may be older than the tracer. A
 * change of layout is a new RUT_AGENT_ABI, and with it another name of the memfd: then the agent of
 * the other version is as if it were not there, and ours is loaded beside it.
 */
#ifndef RUT_AGENT_ABI_H
#define RUT_AGENT_ABI_H

#include <stdint.h>

#define RUT_AGENT_ABI	      7
#define RUT_AGENT_MAGIC	      0x54545552u      /* "RUTT" */
#define RUT_AGENT_MEMFD	      "rutile-agent-7" /* the number is the ABI's */
#define RUT_AGENT_TABLE_MEMFD "rutile-table"
#define RUT_AGENT_RING_MEMFD  "rutile-ring"
#define RUT_AGENT_SLOTS	      8
#define RUT_AGENT_CONFIG      32768

enum rut_slot_state {
	RUT_SLOT_FREE,
	RUT_SLOT_START,	 /* the tracer wants this configuration to run */
	RUT_SLOT_ACTIVE, /* hooks are set: what runs from now on is counted */
	RUT_SLOT_FAILED, /* `message` says why; the tracer sets STOP */
	RUT_SLOT_STOP,	 /* the tracer wants the hooks away; the agent answers with FREE */
	RUT_SLOT_ASKED,	 /* answer to START with RUT_AGENT_ASK: `facts` of the table are there;
			    the tracer completes the filter and sets START without that flag */
};

/* The same values as enum rut_ruby_mode in tracer.h. */
enum rut_agent_mode {
	RUT_AGENT_CALLS,
	RUT_AGENT_TIME,
	RUT_AGENT_OBJECTS_TOTAL,
	RUT_AGENT_OBJECTS,
	RUT_AGENT_ARRAYS,
	RUT_AGENT_STRINGS,
	RUT_AGENT_TRACE,
	RUT_AGENT_RECORD,
	RUT_AGENT_RAISES,
	RUT_AGENT_HEAP,	  /* objects that live, when the tracer asks (look_wanted) */
	RUT_AGENT_SCRIPT, /* probes of a script (RUT_FILTER_PROBE): see hit.h */
};

#define RUT_AGENT_C_CALLS    1u
#define RUT_AGENT_RETURNS    2u
#define RUT_AGENT_ARGS	     4u
#define RUT_AGENT_EXCEPTIONS 8u
#define RUT_AGENT_STACKS     16u   /* what every thread does now, once; nothing is hooked */
#define RUT_AGENT_VALUES     128u  /* RETURNS with the values that are returned */
#define RUT_AGENT_BACKTRACES 256u  /* before each call and exception where it comes from */
#define RUT_AGENT_BUCKETS    512u  /* time mode: how long calls took, see rut_bucket() */
#define RUT_AGENT_BY_CALLER  1024u /* calls mode: a row for each line that calls */
#define RUT_AGENT_NAMES	     64u   /* rows also for methods that are not called */
#define RUT_AGENT_ASK	     32u   /* first say what the application is (struct rut_agent_facts) */
#define RUT_AGENT_SQL_VALUES 2048u /* of requests: SQL as it is */
#define RUT_AGENT_ORIGINS    4096u /* of the heap: remember where objects are made */
#define RUT_AGENT_FULL_GC    8192u /* of the heap: a full collection before each look */
#define RUT_AGENT_TSC	     0x4000u /* the tracer sees that the kernel trusts the counter */
#define RUT_AGENT_OVERWRITE  0x8000u /* the ring keeps the newest; it is not drained */

/* Of RUT_AGENT_RECORD: which events. */
enum rut_agent_kind {
	RUT_KIND_CALL,
	RUT_KIND_RETURN,
	RUT_KIND_C_CALL,
	RUT_KIND_C_RETURN,
	RUT_KIND_RAISE,
	RUT_KIND_RESCUE,
	RUT_KIND_ALLOC,
	RUT_KIND_GC,
	RUT_KIND_THREAD,
	RUT_KIND_GVL,
	RUT_KIND_REQUEST,
	RUT_KIND_LINE,
	RUT_KIND_ALLOC_SAMPLE, /* RUT_FILTER_SAMPLE says how often */
	RUT_KINDS,
};

/* Above the kinds. Of the heap: each look also writes who refers to whom. */
#define RUT_AGENT_GRAPH 0x80000000u

#define RUT_AGENT_KIND(kind)   (0x10000u << (kind))
#define RUT_AGENT_KINDS(kinds) ((kinds) << 16) /* of bits of the numbers above */

/*
 * The filter, in `config`: a sequence of (kind byte, string, NUL), ended by a NUL kind.
 */
#define RUT_FILTER_OWN	  'O' /* path glob of the application, NOT or no NOT */
#define RUT_FILTER_APP	  'A' /* path glob of the application; none: every path */
#define RUT_FILTER_NOT	  'N' /* path glob left out of it */
#define RUT_FILTER_PATH	  'P' /* may begin with '!'; likewise the following */
#define RUT_FILTER_CLASS  'C'
#define RUT_FILTER_METHOD 'M'
#define RUT_FILTER_INSIDE 'I' /* only below this method */
#define RUT_FILTER_SAMPLE 'S' /* one sample for so many objects ("1000") or bytes ("64k") */
#define RUT_FILTER_WATCH  'W' /* entry points and layers (watch.h); its parts end with: */

#define RUT_FILTER_PROBE 'B' /* probe of a script: its event (RUT_HIT_*), then its method */

/*
 * A method that in() of a script names: RUT_WITHIN_FIRST and its number, then "Class#name" or
 * "Class.name".
 */
#define RUT_FILTER_WITHIN 'T'
#define RUT_WITHIN_FIRST  '!'

/* Behind a probe, each after RUT_WATCH_US: the texts that it wishes, a kind and a name. */
#define RUT_HIT_CALL   'c'
#define RUT_HIT_RETURN 'r'
/* Of methods written in C: every call of such a method is hooked (RUT_AGENT_C_CALLS). */
#define RUT_HIT_C_CALL	 'k'
#define RUT_HIT_C_RETURN 'K'

/* Events that are no method's; the pattern is a class, or nothing. */
#define RUT_HIT_RAISE	      'x'
#define RUT_HIT_ALLOC	      'o'
#define RUT_HIT_GC_START      'g'
#define RUT_HIT_GC_END	      'G'
#define RUT_HIT_GC_ENTER      'p' /* the program stops for a part of the collection */
#define RUT_HIT_GC_EXIT	      'P'
#define RUT_HIT_GVL_WAIT      'w'
#define RUT_HIT_GVL_HAVE      'h'
#define RUT_HIT_GVL_RELEASE   'l'
#define RUT_HIT_REQUEST_BEGIN 'b'
#define RUT_HIT_REQUEST_END   'e'
#define RUT_HIT_SPAN_BEGIN    's'
#define RUT_HIT_SPAN_END      'S'
#define RUT_HIT_REQUEST_NAME  'q' /* the fiber's request has this name now, or has ended */

#define RUT_HIT_ARG	   'a' /* argument of that name (RUT_OP_LOCAL) */
#define RUT_HIT_POSITION   'n' /* argument of that number, from 1 (RUT_OP_POSITION) */
#define RUT_HIT_METHOD	   'm'
#define RUT_HIT_CLASS	   'c'
#define RUT_HIT_PATH	   'p'
#define RUT_HIT_SELF_CLASS 's'
#define RUT_HIT_VALUE	   'v' /* what is returned */
#define RUT_HIT_COMM	   't' /* the name of the thread, RUT_HIT_COMM_BYTES */

/* Facts of the other events: capital letters. Numbers are eight bytes in the place of the text. */
#define RUT_HIT_CALLER	    'A'
#define RUT_HIT_BYTES	    'B' /* number */
#define RUT_HIT_COUNT	    'C' /* number */
#define RUT_HIT_DETAIL	    'D'
#define RUT_HIT_ERROR	    'E'
#define RUT_HIT_REASON	    'G'
#define RUT_HIT_ID	    'I' /* number */
#define RUT_HIT_KIND	    'K'
#define RUT_HIT_LIVE	    'L' /* number */
#define RUT_HIT_MESSAGE	    'M'
#define RUT_HIT_NAME	    'N'
#define RUT_HIT_MAJOR	    'O'
#define RUT_HIT_ROUTE	    'R'
#define RUT_HIT_STATUS	    'S' /* number */
#define RUT_HIT_TRACEPARENT 'T'
#define RUT_HIT_URL	    'U'
#define RUT_HIT_VERB	    'V'
#define RUT_HIT_THREAD	    'W' /* number */
#define RUT_HIT_REQUEST_ID  'X'
#define RUT_HIT_NUMBERS	    "BCILSW"

/*
 * A wish that is no text: hits go into the ring. Behind it "PID/TIME", the inodes of the namespaces
 * of PIDs and of time that a process must be in (TIME 0: there are none), if its numbers and times
 * are used.
 */
#define RUT_HIT_DEFER '>'

#define RUT_HIT_PROBES	   64 /* of a session */
#define RUT_HIT_TEXTS	   16 /* of a probe */
#define RUT_HIT_TEXT_BYTES 256
#define RUT_HIT_SITE_BYTES 2
#define RUT_HIT_COMM_BYTES 16

#define RUT_WATCH_US '\x1f'
#define RUT_WATCH_RS '\x1e'

struct rut_agent_slot {
	uint32_t state; /* enum rut_slot_state; atomic */
	uint32_t mode;
	uint32_t flags;
	int32_t tracer_pid; /* of the tracer's own PID namespace; for people only */
	uint64_t slow_ns;   /* trace and record mode: only calls slower than that; 0: all */
	uint64_t ring_bytes;
	int32_t table_fd, ring_fd; /* in the target; -1: none */
	uint64_t table_ino, ring_ino;
	uint64_t session_id; /* chosen by the tracer: finds its session again in a forked child */
	uint32_t orphan;     /* 1: inherited by fork, until the tracer has its lock here too */
	uint32_t mapped;     /* the tracer has the tables: a program that waits for it may go on */
	uint32_t member, ring_member; /* which places in the files are this process's */
	char message[128];
	char config[RUT_AGENT_CONFIG];
};

struct rut_agent_ctl {
	uint32_t magic, abi;
	uint32_t size_bytes; /* of this struct as the agent knows it */
	int32_t pid;	     /* as the target sees itself */
	uint32_t wake;	     /* futex; the tracer increments */
	uint32_t reply;	     /* futex; the agent increments */
	char ruby_version[16];
	uint64_t failed;  /* errno: the agent has no thread and does nothing; 0: it has */
	uint64_t waiting; /* session without which the program does not start (preload) */
	uint64_t sites;	  /* address of the places of probes, RUT_HIT_SITE_BYTES each (hit.h) */
	struct rut_agent_slot slots[RUT_AGENT_SLOTS];
};

#define RUT_FAMILY_MAGIC   0x4d465452u
#define RUT_FAMILY_BYTES   16384
#define RUT_FAMILY_MEMBERS 2000

enum rut_member_state {
	RUT_MEMBER_FREE,
	RUT_MEMBER_TAKEN, /* the child copies what it needs */
	RUT_MEMBER_READY, /* counts */
};

struct rut_agent_member {
	uint32_t state; /* enum rut_member_state; atomic */
	int32_t pid;	/* as it sees itself */
};

/* The first pages of the file of tables. Member 0 is the process that the tracer attached to. */
struct rut_agent_family {
	uint32_t magic, abi;
	uint32_t members;     /* places in the file */
	uint32_t births;      /* atomic; where to look for a free one next */
	uint64_t table_bytes; /* member i's table: at RUT_FAMILY_BYTES + i * table_bytes */
	uint64_t ring_bytes;  /* its ring: at i * ring_bytes of the rings' file; 0: not there */
	struct rut_agent_member member[RUT_FAMILY_MEMBERS];
};
_Static_assert(sizeof(struct rut_agent_family) <= RUT_FAMILY_BYTES, "whole pages");

#define RUT_TABLE_MAGIC 0x4c425452u

/*
 * Time mode: where the agent has its shadow stacks (agent/stack.h), in its own memory, and how they
 * are laid out: lists of stacks, each with an array of the calls that run. Addresses and offsets in
 * bytes.
 */
struct rut_agent_stacks {
	uint64_t session; /* stacks of this session have this; 0: there are none */
	uint64_t buckets; /* the first stack of each list */
	uint64_t rows;	  /* the table's */
	uint32_t bucket_count;
	uint16_t stack_bytes, stack_session, stack_next, stack_out, stack_count, stack_frames;
	uint16_t frame_bytes, frame_variant, frame_begin, frame_inner, frame_outermost;
	uint16_t variant_row;
	uint32_t pad;
};

/*
 * Heap mode with RUT_AGENT_GRAPH: a look also writes the references between objects, as words, into
 * a ring in the table: word i is at off + (i % words) * 8. It waits while the ring is full. The low
 * three bits of a word are its kind (RUT_GRAPH_*); objects are at multiples of eight.
 *
 * When the look is complete and all of it was taken, the tracer may ask for the names of
 * references: it writes struct rut_agent_ref into the ring, in the order of holders, and then
 * their count, and a new number into names_wanted.
 */
struct rut_agent_graph {
	uint64_t off, words; /* a power of two; 0: this agent has no ring */
	uint64_t head;	     /* atomic; words written so far */
	uint64_t tail;	     /* atomic; words that the tracer has taken */
	uint32_t flags;	     /* RUT_GRAPH_LOST */
	uint32_t names_wanted, names_done;
	uint32_t refs;
};

#define RUT_GRAPH_WORDS (1u << 19) /* 4 MiB */
#define RUT_GRAPH_TO	0u	   /* what the object before refers to */
#define RUT_GRAPH_OBJECT                                                                           \
	1u /* address; row and label << 32; bytes and imemo << 56; then references */
#define RUT_GRAPH_ROOT	2u /* address; its kind, a string of the table */
#define RUT_GRAPH_RESET 3u /* all before is void: objects have moved */
#define RUT_GRAPH_KIND	7u

#define RUT_GRAPH_LOST                                                                             \
	1u /* references of one object that did not fit into the ring were left out */

/* The label of a class is the row of its own name, plus 1, or of what it is the singleton class of.
 */
#define RUT_GRAPH_SINGLETON 0x80000000u
/* Above the bytes: an internal object, and its kind. */
#define RUT_GRAPH_BYTES_BITS 56
#define RUT_GRAPH_IMEMO	     0x80u

#define RUT_GRAPH_REFS 1024u

/* By what does `holder` refer to `object`? */
struct rut_agent_ref {
	uint64_t holder, object;
	uint64_t name; /* the answer: a string of the table; 0: not an instance variable or constant
			*/
};

/* What the process knows about its application: offsets of strings, 0 for what it does not know. */
struct rut_agent_facts {
	uint32_t main; /* real path of the program's main script */
	uint32_t
		program; /* the script's name as it was given, while Ruby has not compiled it yet */
	uint32_t rails;	 /* Rails.root */
	uint32_t bundler; /* Bundler's root, or the Gemfile of BUNDLE_GEMFILE */
};

struct rut_agent_table {
	uint32_t magic, abi;
	uint64_t size_bytes;
	uint32_t row_count; /* atomic; grows only */
	uint32_t row_cap;
	uint64_t rows_off, strs_off, strs_cap;
	uint64_t strs_len; /* atomic; grows only */
	/* Times in rows are ticks: nanoseconds = ticks * (mono - mono0) / (tick - tick0). */
	uint64_t tick0, mono0_ns;
	uint32_t ticks_are_tsc; /* 0: ticks are nanoseconds */
	uint32_t reset_epoch;	/* the tracer increments: maxima are reset */
	uint64_t rows_lost;	/* the table was full: how often RUT_OTHER was given instead */
	uint32_t scans;		/* looks through the heap that are complete */
	uint32_t instrumented;	/* methods with a hook */
	uint64_t real0_ns;	/* CLOCK_REALTIME at mono0_ns; 0: an older agent */
	uint64_t ractors;	/* RUT_RACTORS_*: there are others than the main one */
	/* RUT_KIND_ALLOC_SAMPLE: all that was allocated, and what of Ruby's own was beside it. */
	uint64_t allocs, alloc_bytes;
	union {
		struct rut_agent_stacks stacks;
		struct rut_agent_graph graph; /* heap mode */
	};
	struct rut_agent_facts facts; /* of RUT_AGENT_ASK */
	uint64_t extra_off; /* row i has `extra_bytes` more, at extra_off + i * extra_bytes */
	uint64_t extra_bytes;
	/*
	 * Heap mode: the number of the look that the tracer wants, and of the last one that is
	 * complete. Between that and the next request the rows do not change, except `born`.
	 */
	uint32_t look_wanted, look_done;
	uint64_t look_gcs;   /* collections so far, at the end of that look */
	uint32_t look_flags; /* RUT_LOOK_* */
	/* Script mode: the number of the socket, in the target and plus one, by which the tracer
	 * sends its map of threads (within.h); 0: none is wanted. */
	uint32_t socket_fd;
	uint64_t allocs_internal; /* method entries, code, hidden objects: not in `allocs` */
	uint64_t socket_ino;	  /* by which it is known to be that socket */
};

/* Of the rows for what has none of its own: path and method, or class where there are no methods.
 */
#define RUT_OTHER "(other)"

/* Of the row for garbage collection in time mode; its `count` are the collections. */
#define RUT_GC_ROW "(garbage collection)"

#define RUT_RACTORS_UNSEEN   1u /* hooks did not see all that they do */
#define RUT_RACTORS_ENDED_IT 3u /* nothing is counted since the first one began */

struct rut_agent_row {
	uint64_t calls;
	uint64_t total, self, max; /* ticks */
	uint64_t count, bytes;	   /* `count` in time mode: calls that were running at attach */
	uint32_t path, class_name, method; /* offsets of strings; 0: none */
	uint32_t line;
	uint32_t flags; /* RUT_ROW_* */
	uint32_t epoch; /* of max */
	uint64_t pad;
};

#define RUT_ROW_SINGLETON 1u
#define RUT_ROW_C	  2u
#define RUT_ROW_NAMED	  4u /* names are there; atomic: set after them */
#define RUT_ROW_EXCLUDED  8u /* the filter leaves it out: not to be shown */

/*
 * What a row has beside it with RUT_AGENT_BUCKETS: how many calls took about so many ticks. Four
 * buckets each time that a duration doubles, so the ends of one are at most a quarter apart. Bucket
 * i holds what is at least rut_bucket_ticks(i) and less than that of i + 1.
 */
#define RUT_BUCKETS 200u

struct rut_agent_buckets {
	uint32_t calls[RUT_BUCKETS];
};

static inline unsigned rut_bucket(uint64_t ticks)
{
	unsigned log, i;

	if (ticks < 4)
		return (unsigned)ticks;
	log = 63 - (unsigned)__builtin_clzll(ticks);
	i = (log - 1) * 4 + (unsigned)(ticks >> (log - 2) & 3);
	return i < RUT_BUCKETS ? i : RUT_BUCKETS - 1;
}

static inline uint64_t rut_bucket_ticks(unsigned i)
{
	return i < 4 ? i : (uint64_t)(4 + i % 4) << (i / 4 - 1);
}

/* What a row of mode RAISES has beside it: the message of the last exception. */
struct rut_agent_message {
	uint32_t sequence; /* atomic; odd while it is written */
	uint32_t len;
	char text[312];
};
_Static_assert(sizeof(struct rut_agent_message) == 320, "message");

#define RUT_LOOK_ORIGINS_LOST 1u /* some objects were made where there was no room to note it */
#define RUT_LOOK_NO_ORIGINS   2u /* a compaction or a second ractor: what was noted is void */
#define RUT_LOOK_RACTORS      4u /* nothing was counted: other ractors run, and change the heap */
#define RUT_LOOK_NO_GRAPH     8u /* this Ruby does not say what its roots are */

#define RUT_HEAP_AGES 8u

/*
 * What a row of mode HEAP has beside it; `count` and `bytes` of the row are the live objects. Ages
 * are known of objects that were made while the session ran: collections begun since.
 */
struct rut_agent_heap {
	uint64_t old, old_bytes; /* survived a collection since; of others: promoted by Ruby */
	uint64_t born;		 /* made since the session began */
	uint64_t generations;	 /* bit i: some have age i; the last bit: 63 or more */
	uint32_t oldest;	 /* the highest age */
	uint32_t pad;
	uint32_t ages[RUT_HEAP_AGES]; /* 0, 1, 2 to 3, 4 to 7 ..., 64 and more */
};
_Static_assert(sizeof(struct rut_agent_heap) == 72, "heap");

_Static_assert(sizeof(struct rut_agent_row) == 80, "row");
_Static_assert(sizeof(struct rut_agent_buckets) == 800, "ten times a row");
_Static_assert(sizeof(struct rut_agent_table) == 256, "table");

/* A string of the table: its length, its bytes, a NUL; the next one begins at a multiple of 4. */
struct rut_agent_str {
	uint32_t len;
	char data[];
};

#endif
