/* SPDX-License-Identifier: MIT */
/*
 * A session's table: rows and strings in memory that the tracer reads (abi.h).
 *
 * Adding takes a spin lock, because ractors and native threads run side by side; what is there is
 * read and counted without one.
 */
#ifndef RUT_AGENT_TABLE_H
#define RUT_AGENT_TABLE_H

#include "abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rut_agent_rows {
	struct rut_agent_table *hdr; /* the shared mapping; owned */
	struct rut_agent_row *rows;
	char *strs;
	char *extra;			 /* of the first row */
	char *more;			 /* what is at the end of the table */
	struct rut_agent_family *family; /* the file's first pages, shared; owned */
	size_t bytes;			 /* of the mapping */
	uint32_t member;		 /* our place in the file */
	int fd;
	uint64_t ino;
	uint32_t *hash; /* owned; offsets of strings, open addressing */
	uint32_t hash_mask, hash_count;
	uint32_t *index; /* owned; numbers of rows + 1, open addressing */
	uint32_t index_mask;
	uint32_t lock;
	struct rut_agent_row *other[2]; /* for methods without a row: of Ruby, of C */
	uint32_t other_str;
	bool strs_full;
	size_t rows_dumped, strs_dumped; /* core dumps get the table up to here */
};

/*
 * `extra_bytes`: that much is kept beside each row, zero at first; `more_bytes`, whole pages: at
 * the end of the table (t->more).
 */
int rut_agent_table_init(struct rut_agent_rows *t, size_t extra_bytes, size_t more_bytes);
void rut_agent_table_fini(struct rut_agent_rows *t);

/*
 * In the child of a fork: the same addresses, a memory of its own, counters at zero. It is a place
 * in the parent's file when one is free, else a file of its own.
 */
int rut_agent_table_fork(struct rut_agent_rows *t);
/* When that failed: private memory at the same addresses, without rows or strings. */
void rut_agent_table_separate(struct rut_agent_rows *t);
/* The tracer may read it from now on. */
void rut_agent_table_ready(struct rut_agent_rows *t);

/* The offset of these bytes, interned; 0 when the table is full. */
uint32_t rut_agent_table_str(struct rut_agent_rows *t, const char *data, size_t len);
const char *rut_agent_table_get(const struct rut_agent_rows *t, uint32_t str);

/*
 * The row of these names, a new one at first sight. When the table is full that is the row
 * "(other)", counted in rows_lost: then totals are still right. NULL: memory is short. `flags`:
 * RUT_ROW_SINGLETON, RUT_ROW_C.
 */
struct rut_agent_row *rut_agent_table_row(struct rut_agent_rows *t, uint32_t path, uint32_t line,
					  uint32_t class_name, uint32_t method, uint32_t flags);

/* What is kept beside a row of this table, which has something there. */
static inline void *rut_table_extra(const struct rut_agent_rows *t, const struct rut_agent_row *row)
{
	return t->extra + (size_t)(row - t->rows) * t->hdr->extra_bytes;
}

/* Memory that is not malloc's: hooks may run anywhere. */
void *rut_agent_map(size_t bytes);
void rut_agent_unmap(void *p, size_t bytes);

/* True when the descriptor is still the file that we opened. */
bool rut_agent_fd_is(int fd, uint64_t ino);
/* -EFBIG: the process may not have files of that size. */
int rut_agent_memfd(const char *name, size_t bytes, uint64_t *ret_ino);
/* How many places of that size a file may have here, after `first` bytes; at most all of them. */
uint32_t rut_agent_family_places(size_t first, size_t place_bytes);

static inline void rut_lock(uint32_t *lock)
{
	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		__builtin_ia32_pause();
}

static inline bool rut_trylock(uint32_t *lock)
{
	return !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE);
}

static inline void rut_unlock(uint32_t *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif
