/* SPDX-License-Identifier: MIT */
/*
 * The tables by which the programs walk native stacks (bpf/unwind.h), as user space fills them.
 *
 * Several processes fill the tables of one session: the one that writes it, and commands that add
 * events or take a snapshot. So all that is known of the tables lies behind the rows, in the same
 * map: the files, with where their rows are, and which ranges belong to which address space. It is
 * changed under a lock that is taken from a process that died with it. Nothing that was begun
 * counts before its last word is written, so that a killed process leaves whole tables.
 *
 * Ranges are given in blocks. A block is free when no process has its address space any more, which
 * a sweep finds by the list of those that live, and one that waits for GRACE is still read by
 * nobody: a program may be in the middle of a walk, and a child that was forked during the sweep
 * is seen by the next. Rows are free when no range points to them, and are given up when room is
 * wanted, so that a file that is started again and again is read once.
 *
 * Files and processes can be anybody's. What one user other than root can take is a share.
 */
#ifndef RUT_SESSION_UNWIND_TABLE_H
#define RUT_SESSION_UNWIND_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "bpf/unwind.h"
#include "probe/unwind.h"

#define RUT_UNWIND_ROWS_BYTES  (RUT_UNWIND_PAGES * sizeof(struct rut_unwind_page))
#define RUT_UNWIND_RANGE_BYTES (RUT_UNWIND_RANGE_PAGES * sizeof(struct rut_unwind_ranges))

#define RUT_UNWIND_FILES    4096
#define RUT_UNWIND_BLOCK    8 /* ranges */
#define RUT_UNWIND_BLOCKS   (RUT_UNWIND_RANGE_PAGES * RUT_UNWIND_RANGES / RUT_UNWIND_BLOCK)
#define RUT_UNWIND_GRACE_NS 500000000ull

/* A file that was read. */
struct rut_unwind_file {
	/* Which one it is: nobody but root can make two files with the same of all of these. */
	uint64_t dev, ino, size, mtime_ns, ctime_ns;
	uint64_t used_ns;	       /* when it was asked for last */
	uint32_t uid;		       /* of its owner */
	uint32_t first, count;	       /* rows */
	uint32_t loop_start, loop_end; /* the function that runs Ruby's instructions; 0: unknown */
	uint32_t nsegments;
	struct rut_unwind_segment segments[8];
};

struct rut_unwind_shared;

struct rut_unwind_tables {
	struct rut_unwind_row *rows;	  /* borrowed: RUT_UNWIND_ROWS_BYTES */
	struct rut_unwind_range *ranges;  /* borrowed: RUT_UNWIND_RANGE_BYTES */
	struct rut_unwind_shared *shared; /* behind the rows */
	struct rut_map refused;		  /* files for which there was no room: this process's */
	bool stuck; /* the lock was not free for 2 s: the next calls do not wait for it */
};

/* Zeroed memory is a set of empty tables. */
void rut_unwind_tables_init(struct rut_unwind_tables *t, void *rows, void *ranges);
void rut_unwind_tables_fini(struct rut_unwind_tables *t);

/* Tries the lock again where it was stuck. Is it so still? */
bool rut_unwind_tables_stuck(struct rut_unwind_tables *t);

/* The rows that fit in. For the tests. */
size_t rut_unwind_tables_room(void);

/*
 * A file that was read before, or NULL. It stays for 10 s, and while ranges point to its rows. One
 * that was refused has a single row, row 0.
 */
struct rut_unwind_file *rut_unwind_tables_find(struct rut_unwind_tables *t, const struct stat *st,
					       uint64_t now_ns);

/*
 * Adds a file, without rows where `table` has none. 0 and *ret; -ENOSPC: there is no room, try
 * again after a sweep; -EDQUOT: its owner's files have their share; -EAGAIN: the tables are locked.
 */
int rut_unwind_tables_add(struct rut_unwind_tables *t, const struct stat *st,
			  const struct rut_unwind_table *table, uint64_t now_ns,
			  struct rut_unwind_file **ret);

/*
 * Remembers for 30 s that there was no room for this file, so that it is not read again for each
 * process that has mapped it. Returns what stands for it until then, or NULL.
 */
struct rut_unwind_file *rut_unwind_tables_refuse(struct rut_unwind_tables *t, const struct stat *st,
						 const struct rut_unwind_table *table,
						 uint64_t now_ns);

/*
 * Takes room for the ranges of a new address space of a user and writes them. 0, *ret_first and
 * *ret_space, a number that no other has had; -ENOSPC, -EDQUOT, -EAGAIN: as above.
 */
int rut_unwind_tables_take(struct rut_unwind_tables *t, uint32_t uid,
			   const struct rut_unwind_range *ranges, uint32_t count,
			   uint32_t *ret_first, uint64_t *ret_space);

/* Is it time for a sweep, because half of the ranges are taken? */
bool rut_unwind_tables_crowded(const struct rut_unwind_tables *t, uint64_t now_ns);

/* May files be swept, or was that done less than 200 ms ago? */
bool rut_unwind_tables_may_sweep(const struct rut_unwind_tables *t, uint64_t now_ns);

/*
 * Frees what belongs to none of these address spaces, which are sorted; with `files`, rows to which
 * no range points, too. *ret_waiting: how many blocks will be free at a later sweep. 0 or -EAGAIN.
 */
int rut_unwind_tables_sweep(struct rut_unwind_tables *t, const uint64_t *spaces, size_t n,
			    bool files, uint64_t now_ns, size_t *ret_waiting);

#endif
