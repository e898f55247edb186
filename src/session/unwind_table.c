/* SPDX-License-Identifier: MIT */
#include "session/unwind_table.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/proc.h"

#define SHARED_PAGES 48 /* of those of rows */
#define ROWS	     ((RUT_UNWIND_PAGES - SHARED_PAGES) * (size_t)RUT_UNWIND_PAGE)
#define LARGE	     100000 /* rows */
#define FILE_AGE_NS  10000000000ull
#define SWEEP_NS     200000000ull
#define REFUSED_NS   30000000000ull
#define REFUSED_MAX  4096
#define LOCK_MS	     2000 /* after which this gives up */
#define DEAD_MS	     100  /* after which it is asked whether the holder lives */

/* What one user who is not root can have. */
#define ROWS_SHARE   (ROWS / 4)
#define FILES_SHARE  (RUT_UNWIND_FILES / 4)
#define BLOCKS_SHARE (RUT_UNWIND_BLOCKS / 2)

struct rut_unwind_shared {
	uint64_t lock; /* the holder's PID and, below it, half of its start */
	uint64_t space, swept_ns, swept_files_ns;
	uint32_t nblocks, cursor;	 /* blocks taken; where the search for others begins */
	uint64_t hash[RUT_UNWIND_FILES]; /* of what a file is known by; 0: free. Written last */
	struct rut_unwind_file file[RUT_UNWIND_FILES];
	uint64_t owner[RUT_UNWIND_BLOCKS];   /* address space; 0: free */
	uint64_t free_ns[RUT_UNWIND_BLOCKS]; /* since when nobody has it; 0: somebody does */
	uint32_t uid[RUT_UNWIND_BLOCKS];
};

/* A file without room. */
struct refused {
	struct rut_unwind_file file;
	uint64_t until_ns;
};

_Static_assert(sizeof(struct rut_unwind_shared) <= SHARED_PAGES * sizeof(struct rut_unwind_page),
	       "too few pages");

void rut_unwind_tables_init(struct rut_unwind_tables *t, void *rows, void *ranges)
{
	t->rows = rows;
	t->ranges = ranges;
	t->shared = (struct rut_unwind_shared *)(t->rows + ROWS);
	t->refused = (struct rut_map){0};
	t->stuck = false;
}

void rut_unwind_tables_fini(struct rut_unwind_tables *t)
{
	rut_map_each(&t->refused, slot)
		free(slot->value);
	rut_map_fini(&t->refused);
}

size_t rut_unwind_tables_room(void)
{
	return ROWS;
}

/* --- lock ---------------------------------------------------------------------------------- */

/* A killed process that is not reaped yet still has its start time, but no second thread. */
static bool is_dead(uint64_t holder)
{
	pid_t pid = (pid_t)(holder >> 32);

	return (uint32_t)rut_proc_start(pid) != (uint32_t)holder || rut_proc_is_zombie(pid);
}

static bool try_lock(struct rut_unwind_shared *s, uint64_t *holder, uint64_t me)
{
	return __atomic_compare_exchange_n(&s->lock, holder, me, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/*
 * It is held for milliseconds at most, and without reading files. A stopped holder keeps it: after
 * one time-out this does not wait again until the lock was free once.
 */
static bool lock(struct rut_unwind_tables *t)
{
	static uint64_t me;
	struct rut_unwind_shared *s = t->shared;
	uint64_t seen = 0;

	if (me >> 32 != (uint64_t)getpid())
		me = (uint64_t)getpid() << 32 | (uint32_t)rut_proc_start(getpid());
	for (int ms = 0, since = 0; ms < LOCK_MS; ms++) {
		uint64_t holder = 0;
		bool taken = try_lock(s, &holder, me);

		if (holder != seen)
			since = ms;
		seen = holder;
		if (!taken && (t->stuck || ms - since >= DEAD_MS) && is_dead(holder))
			taken = try_lock(s, &holder, me);
		if (taken) {
			t->stuck = false;
			return true;
		}
		if (t->stuck)
			return false;
		poll(NULL, 0, 1);
	}
	t->stuck = true;
	return false;
}

static void unlock(struct rut_unwind_shared *s)
{
	__atomic_store_n(&s->lock, 0, __ATOMIC_RELEASE);
}

bool rut_unwind_tables_stuck(struct rut_unwind_tables *t)
{
	if (t->stuck && lock(t))
		unlock(t->shared);
	return t->stuck;
}

/* --- files --------------------------------------------------------------------------------- */

static uint64_t ns_of(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t identify(struct rut_unwind_file *f, const struct stat *st)
{
	uint64_t hash;

	*f = (struct rut_unwind_file){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_ns = ns_of(st->st_mtim),
		.ctime_ns = ns_of(st->st_ctim),
		.uid = st->st_uid,
	};
	hash = rut_hash_u64(f->ino ^ rut_hash_u64(f->dev ^ rut_hash_u64(f->ctime_ns)));
	return hash ? hash : 1;
}

static bool is_same(const struct rut_unwind_file *a, const struct rut_unwind_file *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

static struct rut_unwind_file *find(struct rut_unwind_shared *s, const struct rut_unwind_file *key,
				    uint64_t hash, uint64_t now_ns)
{
	for (size_t i = 0; i < RUT_UNWIND_FILES; i++) {
		if (__atomic_load_n(&s->hash[i], __ATOMIC_ACQUIRE) != hash ||
		    !is_same(&s->file[i], key))
			continue;
		s->file[i].used_ns = now_ns;
		return &s->file[i];
	}
	return NULL;
}

static struct rut_unwind_file *find_refused(struct rut_unwind_tables *t,
					    const struct rut_unwind_file *key, uint64_t hash,
					    uint64_t now_ns)
{
	struct refused *r = rut_map_get(&t->refused, hash);

	return r && is_same(&r->file, key) && now_ns < r->until_ns ? &r->file : NULL;
}

struct rut_unwind_file *rut_unwind_tables_find(struct rut_unwind_tables *t, const struct stat *st,
					       uint64_t now_ns)
{
	struct rut_unwind_file key, *f;
	uint64_t hash = identify(&key, st);

	/* A sweep can free one that it finds unused for 10 s, at this moment. */
	if (!lock(t))
		return NULL;
	f = find(t->shared, &key, hash, now_ns);
	unlock(t->shared);
	return f ? f : find_refused(t, &key, hash, now_ns);
}

struct rut_unwind_file *rut_unwind_tables_refuse(struct rut_unwind_tables *t, const struct stat *st,
						 const struct rut_unwind_table *table,
						 uint64_t now_ns)
{
	struct refused *r = calloc(1, sizeof(*r)), *old;
	uint64_t hash;

	if (!r)
		return NULL;
	if (t->refused.count >= REFUSED_MAX)
		rut_unwind_tables_fini(t);
	hash = identify(&r->file, st);
	r->until_ns = now_ns + REFUSED_NS;
	r->file.count = 1;
	r->file.nsegments = (uint32_t)table->nsegments;
	memcpy(r->file.segments, table->segments, sizeof(r->file.segments));
	old = rut_map_get(&t->refused, hash);
	if (rut_map_put(&t->refused, hash, r) < 0) {
		free(r);
		return NULL;
	}
	free(old);
	return &r->file;
}

struct rows {
	uint32_t first, end, file;
};

static int by_first(const void *a, const void *b)
{
	const struct rows *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

/* The rows of all files, by their numbers. */
static size_t list_rows(const struct rut_unwind_shared *s, struct rows *ret)
{
	size_t n = 0;

	for (uint32_t i = 0; i < RUT_UNWIND_FILES; i++)
		if (s->hash[i] && s->file[i].first)
			ret[n++] = (struct rows){s->file[i].first,
						 s->file[i].first + s->file[i].count, i};
	qsort(ret, n, sizeof(*ret), by_first);
	return n;
}

/*
 * Where there are so many free rows; 0: nowhere. Row 0 says that nothing is known. Compilers and
 * browsers have a million rows: a large file gets half of what is left at most, so that the
 * libraries that all programs have find room behind it.
 */
static uint32_t find_gap(const struct rows *list, size_t n, size_t count)
{
	size_t left = ROWS - 1;
	uint32_t at = 1;

	for (size_t i = 0; i < n; i++)
		left -= list[i].end - list[i].first;
	if (count > LARGE && count > left / 2)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (list[i].first - at >= count)
			return at;
		at = list[i].end;
	}
	return ROWS - at >= count ? at : 0;
}

/* Has this owner room left for so many rows of one more file? */
static bool has_share(const struct rut_unwind_shared *s, uint32_t uid, size_t count)
{
	size_t files = 1;

	if (!uid)
		return true;
	for (size_t i = 0; i < RUT_UNWIND_FILES; i++) {
		if (!s->hash[i] || s->file[i].uid != uid)
			continue;
		files++;
		count += s->file[i].count;
	}
	return files <= FILES_SHARE && count <= ROWS_SHARE;
}

static int add(struct rut_unwind_tables *t, const struct rut_unwind_file *key, uint64_t hash,
	       const struct rut_unwind_table *table, struct rut_unwind_file **ret)
{
	_cleanup_free_ struct rows *list = NULL;
	struct rut_unwind_shared *s = t->shared;
	struct rut_unwind_file *f;
	uint32_t first = 0;
	size_t i = 0;

	while (i < RUT_UNWIND_FILES && s->hash[i])
		i++;
	if (!has_share(s, key->uid, table->nrows))
		return -EDQUOT;
	list = i == RUT_UNWIND_FILES ? NULL : calloc(RUT_UNWIND_FILES, sizeof(*list));
	if (!list)
		return -ENOSPC;
	if (table->nrows) {
		first = find_gap(list, list_rows(s, list), table->nrows);
		if (!first)
			return -ENOSPC;
		memcpy(&t->rows[first], table->rows, table->nrows * sizeof(*table->rows));
	}
	f = &s->file[i];
	*f = *key;
	f->first = first;
	f->count = (uint32_t)table->nrows;
	f->nsegments = (uint32_t)table->nsegments;
	memcpy(f->segments, table->segments, sizeof(f->segments));
	__atomic_store_n(&s->hash[i], hash, __ATOMIC_RELEASE);
	*ret = f;
	return 0;
}

int rut_unwind_tables_add(struct rut_unwind_tables *t, const struct stat *st,
			  const struct rut_unwind_table *table, uint64_t now_ns,
			  struct rut_unwind_file **ret)
{
	struct rut_unwind_file key;
	uint64_t hash = identify(&key, st);
	int rc = 0;

	key.used_ns = now_ns;
	if (!lock(t))
		return -EAGAIN;
	/* Another process may have read it meanwhile. */
	*ret = find(t->shared, &key, hash, now_ns);
	if (!*ret)
		rc = add(t, &key, hash, table, ret);
	unlock(t->shared);
	return rc;
}

/* --- ranges -------------------------------------------------------------------------------- */

/* The first of so many free blocks side by side; -1: nowhere. */
static int64_t find_blocks(const struct rut_unwind_shared *s, uint32_t from, uint32_t n)
{
	uint32_t run = 0;

	for (uint32_t i = from; i < RUT_UNWIND_BLOCKS; i++) {
		run = s->owner[i] ? 0 : run + 1;
		if (run == n)
			return i + 1 - n;
	}
	return -1;
}

static bool has_blocks(const struct rut_unwind_shared *s, uint32_t uid, uint32_t n)
{
	if (!uid)
		return true;
	for (uint32_t i = 0; i < RUT_UNWIND_BLOCKS; i++)
		n += s->owner[i] && s->uid[i] == uid;
	return n <= BLOCKS_SHARE;
}

static int take(struct rut_unwind_tables *t, uint32_t uid, const struct rut_unwind_range *ranges,
		uint32_t count, uint32_t *ret_first, uint64_t *ret_space)
{
	struct rut_unwind_shared *s = t->shared;
	uint32_t n = (count + RUT_UNWIND_BLOCK - 1) / RUT_UNWIND_BLOCK;
	struct rut_unwind_range *to;
	int64_t first;

	if (!has_blocks(s, uid, n))
		return -EDQUOT;
	first = find_blocks(s, s->cursor % RUT_UNWIND_BLOCKS, n);
	if (first < 0)
		first = find_blocks(s, 0, n);
	if (first < 0)
		return -ENOSPC;
	to = &t->ranges[first * RUT_UNWIND_BLOCK];
	memcpy(to, ranges, count * sizeof(*ranges));
	/* What is behind them points to no rows. */
	memset(to + count, 0, ((size_t)n * RUT_UNWIND_BLOCK - count) * sizeof(*to));
	*ret_space = ++s->space;
	for (uint32_t i = (uint32_t)first; i < (uint32_t)first + n; i++) {
		s->uid[i] = uid;
		s->free_ns[i] = 0;
		s->owner[i] = *ret_space;
	}
	s->cursor = (uint32_t)first + n;
	s->nblocks += n;
	*ret_first = (uint32_t)first * RUT_UNWIND_BLOCK;
	return 0;
}

int rut_unwind_tables_take(struct rut_unwind_tables *t, uint32_t uid,
			   const struct rut_unwind_range *ranges, uint32_t count,
			   uint32_t *ret_first, uint64_t *ret_space)
{
	int rc;

	if (!lock(t))
		return -EAGAIN;
	rc = take(t, uid, ranges, count, ret_first, ret_space);
	unlock(t->shared);
	return rc;
}

bool rut_unwind_tables_crowded(const struct rut_unwind_tables *t, uint64_t now_ns)
{
	const struct rut_unwind_shared *s = t->shared;

	return s->nblocks > RUT_UNWIND_BLOCKS / 2 && now_ns - s->swept_ns > SWEEP_NS;
}

bool rut_unwind_tables_may_sweep(const struct rut_unwind_tables *t, uint64_t now_ns)
{
	return now_ns - t->shared->swept_files_ns > SWEEP_NS;
}

/* --- sweep --------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static size_t sweep_blocks(struct rut_unwind_shared *s, const uint64_t *spaces, size_t n,
			   uint64_t now_ns)
{
	size_t waiting = 0;
	uint32_t taken = 0;

	for (size_t i = 0; i < RUT_UNWIND_BLOCKS; i++) {
		uint64_t *owner = &s->owner[i];

		if (!*owner)
			continue;
		if (n && bsearch(owner, spaces, n, sizeof(*spaces), by_number))
			s->free_ns[i] = 0;
		else if (!s->free_ns[i])
			s->free_ns[i] = now_ns;
		else if (now_ns - s->free_ns[i] >= RUT_UNWIND_GRACE_NS)
			*owner = 0;
		taken += *owner != 0;
		waiting += *owner && s->free_ns[i];
	}
	s->nblocks = taken;
	return waiting;
}

/* Which files have rows that ranges point to. */
static void mark_files(const struct rut_unwind_tables *t, bool *ret_used)
{
	_cleanup_free_ struct rows *list = calloc(RUT_UNWIND_FILES, sizeof(*list));
	const struct rut_unwind_shared *s = t->shared;
	size_t n;

	if (!list) {
		memset(ret_used, true, RUT_UNWIND_FILES);
		return;
	}
	n = list_rows(s, list);
	for (size_t i = 0; n && i < RUT_UNWIND_BLOCKS * (size_t)RUT_UNWIND_BLOCK; i++) {
		const struct rut_unwind_range *r = &t->ranges[i];
		struct rows key = {.first = r->first};
		const struct rows *found;

		if (!s->owner[i / RUT_UNWIND_BLOCK] || !r->count)
			continue;
		found = bsearch(&key, list, n, sizeof(*list), by_first);
		if (found)
			ret_used[found->file] = true;
	}
}

static void sweep_files(struct rut_unwind_tables *t, uint64_t now_ns)
{
	bool used[RUT_UNWIND_FILES] = {false};
	struct rut_unwind_shared *s = t->shared;

	mark_files(t, used);
	for (size_t i = 0; i < RUT_UNWIND_FILES; i++)
		if (s->hash[i] && !used[i] && now_ns - s->file[i].used_ns > FILE_AGE_NS)
			s->hash[i] = 0;
}

int rut_unwind_tables_sweep(struct rut_unwind_tables *t, const uint64_t *spaces, size_t n,
			    bool files, uint64_t now_ns, size_t *ret_waiting)
{
	if (!lock(t))
		return -EAGAIN;
	*ret_waiting = sweep_blocks(t->shared, spaces, n, now_ns);
	if (files) {
		sweep_files(t, now_ns);
		t->shared->swept_files_ns = now_ns;
	}
	t->shared->swept_ns = now_ns;
	unlock(t->shared);
	return 0;
}
