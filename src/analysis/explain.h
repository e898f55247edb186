/* SPDX-License-Identifier: MIT */
/*
 * Why a request took as long as it did.
 *
 * When a request ends that is among the slowest so far, its log becomes a tree: calls and spans,
 * below them the system calls and waits. Equal children of one parent are one node, so 312 equal
 * queries are one line. Each wait is then laid over the history of the machine: which threads had
 * the CPU, which process used the disk, what the thread that ended the wait did meanwhile. The
 * sentence names the largest cause.
 */
#ifndef RUT_ANALYSIS_EXPLAIN_H
#define RUT_ANALYSIS_EXPLAIN_H

#include "analysis/requests.h"

#define RUT_CULPRITS 4
#define RUT_NO_NODE  UINT32_MAX

/* A thread or process that a wait was for. */
struct rut_culprit {
	int64_t tid;
	char name[64];		 /* "postgres (812)", "thread 14 of puma (800)" */
	char serves[96];	 /* what it does: a request, a method; "": not known */
	int64_t ns;		 /* of the wait it accounts for */
	int64_t bytes;		 /* disk: moved meanwhile */
	int64_t did[RUT_PLACES]; /* where it was meanwhile; the waits that were examined only */
	const char *did_call, *did_what; /* of its longest wait */
	int64_t longest_ns;
	int64_t did_by;	  /* the thread that ended that wait; 0: not known */
	char by_name[64]; /* of did_by */
};

enum rut_an_node_kind { RUT_NODE_CALL, RUT_NODE_SPAN, RUT_NODE_SYSCALL, RUT_NODE_PLACE };

struct rut_an_node {
	uint8_t kind;
	uint8_t place;	  /* where most of its own time was spent waiting; of PLACE: it */
	const char *name; /* method or system call */
	const char *what; /* layer, file or peer; NULL: none */
	const char *text; /* of a span: SQL, template ...; NULL: none */
	const struct rut_ruby_method *caller;
	uint64_t calls;
	int64_t total_ns;
	int64_t own[RUT_PLACES]; /* without children */
	int64_t longest_ns;	 /* of one call */
	uint64_t resends;	 /* segments of TCP that were sent again meanwhile */
	uint32_t first_child, next;
	uint32_t n_who;
	struct rut_culprit who[RUT_CULPRITS];
};

struct rut_explanation {
	char *sentence;		   /* owned */
	const char *cause;	   /* "network", "n+1" ...: one word for the sentence */
	struct rut_an_node *nodes; /* owned; the first is the request */
	uint32_t n, cap;
	uint64_t lost;	    /* entries of the log that did not fit: the tree lacks them */
	bool ruby;	    /* the trace has Ruby events: what runs is Ruby */
	bool short_history; /* the history does not reach back to its begin */
	struct rut_strtab texts;
};

/* Explains a request that has just ended, or still runs; uses up its log. NULL: no memory. */
struct rut_explanation *rut_an_explain(struct rut_requests *q, struct rut_request *r);
void rut_an_explanation_free(struct rut_explanation *x);

/* The largest cause: fills x->cause and x->sentence. */
void rut_an_explain_sentence(struct rut_explanation *x, const struct rut_request *r);

/* Prints the tree, for people. */
void rut_an_explain_print(const struct rut_explanation *x, struct rut_buf *out);
/* "waiting for a lock 93 %, running Ruby 5 %": what a culprit did; "" when nothing is known. */
void rut_an_culprit_text(const struct rut_culprit *c, char *out, size_t size);

#endif
