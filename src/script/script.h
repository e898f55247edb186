/* SPDX-License-Identifier: MIT */
/*
 * Compiles scripts of bpftrace's language to eBPF.
 *
 * Passes: lex.c and parse*.c make a tree; check*.c finds types, over all probes and repeatedly,
 * because a map has the type of its first assignment wherever that stands; gen*.c makes linear code
 * over virtual registers of each probe (ir.h), which allocate.c and emit.c turn into instructions.
 * load.c brings maps and programs into the kernel, attach.c attaches them, run.c serves what they
 * send. What cannot be had is refused by the checker, with line, column and reason.
 */
#ifndef RUT_SCRIPT_SCRIPT_H
#define RUT_SCRIPT_SCRIPT_H

#include <sys/types.h>

#include "bpf/script_ruby.h"
#include "script/ast.h"
#include "script/program.h"

struct rut_buf;
struct rut_err;
struct rut_ruby_probe_ctx;
struct rut_tracer;

enum { RUT_SCRIPT_RUBY_PROBES = 64 };

/* Appends "; names like ..." to the name of a Ruby method that is not there. */
typedef void rut_script_near_fn(struct rut_tracer *t, const char *pattern, struct rut_buf *out);

enum rut_script_mode {
	RUT_SCRIPT_TRACE,
	RUT_SCRIPT_BENCH, /* bench probes alone are run */
	RUT_SCRIPT_TEST,  /* test probes alone */
};

struct rut_script_opts {
	const char *name; /* of the file, for messages */
	const char *const *params;
	size_t nparams;
	const char *const *named; /* "NAME=VALUE", "NAME": of getopt() */
	size_t nnamed;
	enum rut_script_mode mode;
	int32_t pid;	      /* of -p; 0: all */
	const pid_t *targets; /* processes for Ruby probes, with what they start; borrowed */
	size_t ntargets;
	bool child;		  /* it is the process of -c */
	bool unsafe;		  /* system(), signal() are permitted */
	uint32_t compat;	  /* 0, 17, 23 */
	uint32_t max_strlen;	  /* 0: the default */
	bool session;		  /* records go into the journal (journal.h) instead of a ring */
	bool flight;		  /* ... and no process reads them while it runs */
	bool trace;		  /* what it prints becomes a trace: record() may be used */
	bool as_bpftrace;	  /* messages in bpftrace's form */
	const char *probe_filter; /* a regular expression: only probes that match; NULL: all */
	bool beside;		  /* it runs beside a session: snapshot(), stop() may be used */
	bool portable;		  /* it is loaded on other machines (portable.h) */
	bool verbose;		  /* the kernel's log of a program that it refuses is shown */
};

enum rut_probe_kind {
	RUT_PROBE_BEGIN,
	RUT_PROBE_END,
	RUT_PROBE_INTERVAL,
	RUT_PROBE_PROFILE,
	RUT_PROBE_TRACEPOINT,
	RUT_PROBE_RAWTRACEPOINT,
	RUT_PROBE_SOFTWARE,
	RUT_PROBE_HARDWARE,
	RUT_PROBE_UPROBE,
	RUT_PROBE_URETPROBE,
	RUT_PROBE_USDT,
	RUT_PROBE_SIGNAL, /* self */
	RUT_PROBE_KPROBE,
	RUT_PROBE_KRETPROBE,
	RUT_PROBE_FENTRY,
	RUT_PROBE_FEXIT,
	RUT_PROBE_ITER,
	RUT_PROBE_WATCHPOINT,
	RUT_PROBE_BENCH,
	RUT_PROBE_TEST,
	RUT_PROBE_RUBY,
};

/* One place to which a program is attached. */
struct rut_script_attach {
	enum rut_probe_kind kind;
	const char *name;   /* as `probe` gives it: "tracepoint:sched:sched_switch" */
	uint64_t period_ns; /* INTERVAL; PROFILE */
	uint64_t frequency; /* PROFILE: Hz, when period_ns is 0 */
	uint32_t config;    /* SOFTWARE, HARDWARE, WATCHPOINT: of perf_event_attr; SIGNAL, RUBY: its
			       number */
	uint64_t count;	    /* SOFTWARE, HARDWARE: events for each; WATCHPOINT: bytes */
	const char *group, *event; /* TRACEPOINT, RAWTRACEPOINT, USDT */
	const char *path;	   /* UPROBE, USDT: the file */
	uint64_t offset;	   /* in it; KPROBE: in the function `event`; WATCHPOINT: address */
	uint64_t address;	   /* UPROBE: as the file is linked */
	const char *symbol;	   /* UPROBE: the function; `plus` bytes behind its begin */
	uint64_t plus;
	bool one_of;	    /* of several that the name matches */
	uint64_t semaphore; /* in it; 0: none */
};

struct rut_script_prog {
	struct bpf_insn *insns; /* owned */
	uint32_t *places;	/* owned: position in the source, for each instruction */
	size_t ninsns;
	struct rut_asm_ref *map_refs; /* owned */
	size_t nmap_refs;
	struct rut_script_relo *relos; /* owned: numbers of facts; see rut_fact_relocate() */
	size_t nrelos;
	uint32_t *functions; /* owned: where those of loops begin */
	uint32_t nfunctions;
	uint32_t type;			  /* enum bpf_prog_type */
	uint32_t expected, btf_id;	  /* TRACING: enum bpf_attach_type, the function */
	struct rut_span span;		  /* of the probe's name */
	struct rut_script_attach *attach; /* in the arena */
	size_t nattach;
	uint32_t replays; /* number of the deferred probe of Ruby whose hits it takes, from 1; 0 */
	int fd;
};

/* Something that can fail while the script runs, and is then counted. */
enum rut_site_kind {
	RUT_SITE_LOST,	  /* no room in the ring */
	RUT_SITE_MAP,	  /* a map was full, or an update was refused */
	RUT_SITE_READ,	  /* memory could not be read */
	RUT_SITE_SCRATCH, /* programs nested too deeply */
	RUT_SITE_LOOP,	  /* a loop reached its bound */
	RUT_SITE_STACK,	  /* a stack could not be read or kept */
	RUT_SITE_DELETE,
};

struct rut_script_site {
	enum rut_site_kind kind;
	struct rut_span span;
};

/* Numbers of the maps that programs use beside those of the script. */
enum {
	RUT_MAP_RING,
	RUT_MAP_COUNTERS, /* an array of u64, below */
	RUT_MAP_SCRATCH,
	RUT_MAP_STACKS,
	RUT_MAP_ZEROS,	  /* one entry of zeros, for new values of other maps */
	RUT_MAP_JOURNAL,  /* of a script in a session, instead of the ring */
	RUT_MAP_TABLES,	  /* of matches() and glob() */
	RUT_MAP_RINGS,	  /* of the session that the script is in: struct rut_ring_ctl by CPU */
	RUT_MAP_USER = 8, /* + index into maps */
};

/* Words of the counters. */
enum {
	RUT_COUNTER_EXIT,    /* exit(code): code + 1 */
	RUT_COUNTER_BEGIN,   /* when the script began */
	RUT_COUNTER_RECORDS, /* records of the journal */
	RUT_COUNTER_MASK,    /* its slots - 1 */
	RUT_COUNTER_RETURN,  /* what a test probe returned */
	RUT_COUNTER_SITES,   /* one for each site */
};

/* In the word of exit(): begin has not ended. */
#define RUT_EXIT_HELD (1ull << 63)

enum { RUT_SCRATCH_NESTED = 4, RUT_STACK_WORDS = 127 };

/* What config = { ... } and the environment may set (config.c). */
struct rut_script_settings {
	uint32_t max_strlen, max_map_keys, max_cat_bytes, print_maps_on_exit;
	uint32_t stack_mode;	 /* enum rut_stack_mode */
	uint32_t cpp_demangle;	 /* names of C++ and Rust are shown as they are written */
	uint32_t license;	 /* names no license of ours: programs of the kernel are GPL */
	uint32_t missing_probes; /* 0: an error, 1: a warning, 2: nothing */
	const char *trailer;	 /* of texts that were cut */
};

/* A table of states: 256 bytes for each, of program.tables. */
struct rut_script_table {
	uint32_t offset, states;
};

/* An option that the script asks for with getopt(). */
struct rut_script_option {
	struct rut_script_option *next;
	const char *name, *about; /* about: NULL: nothing is said */
};

struct rut_script_program {
	struct rut_ast ast;
	struct rut_script_option *options; /* in the arena */
	struct rut_source src;
	char *text; /* owned */
	struct rut_script_opts opts;
	struct rut_script_map *maps;
	size_t nmaps;
	struct rut_script_action *actions;
	size_t nactions;
	struct rut_script_prog *progs;
	size_t nprogs;
	struct rut_script_site *sites;
	size_t nsites;
	const char **strings;
	size_t nstrings;
	const char **probes; /* names, for RUT_T_PROBE */
	size_t nprobes;
	struct rut_script_fact *facts; /* owned; of a script for other machines */
	size_t nfacts;
	struct rut_script_settings set;
	uint32_t record_max;	/* the largest record of the ring; 0: none */
	uint32_t scratch_bytes; /* of one program; 0: none */
	uint8_t *tables;	/* owned; tables_bytes of them */
	size_t tables_bytes;
	uint32_t zeros_bytes; /* 0: none */
	bool needs_stacks;
	bool freezes; /* stop() of the session that it is in */
	bool needs_ruby, needs_rstacks;
	const char *methods[RUT_SCRIPT_METHODS]; /* of in(); in the arena */
	uint32_t nmethods;
	bool reads_stacks; /* for in(), whatever the processes are: no agent follows them */
	struct rut_ruby_probe_ctx *ruby_probes[RUT_SCRIPT_RUBY_PROBES]; /* in the arena */
	uint32_t nruby_probes;
	bool needs_requests; /* rrequest is used, here: */
	struct rut_span requests_span;
	uint64_t ruby_session;	      /* which identifies their hits */
	struct rut_script_ruby *ruby; /* owned; NULL: not needed, or not loaded */
	int fds[RUT_MAP_USER];	      /* of RUT_MAP_RING and so on; -1 */
	struct rut_btf *btf;	      /* of the kernel; NULL: not needed yet */
};

/*
 * Compiles a script. *ret is set in any case but -ENOMEM: src.messages has the errors.
 * Returns 0, -EINVAL, or -errno with *err.
 */
int rut_script_compile(struct rut_script_program **ret, const char *text, size_t len,
		       const struct rut_script_opts *opts, struct rut_err *err);
void rut_script_free(struct rut_script_program *p);

#endif
