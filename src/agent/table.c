/* SPDX-License-Identifier: MIT */
#include "table.h"

#include "clock.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROW_CAP	  262144u
#define STRS_CAP  (16u << 20)
#define ROWS_KEPT 2u /* the last ones, for what has none of its own */
#define HASH_MIN  4096u
#define PAGE	  ((size_t)4096)
#define DUMP_STEP ((size_t)64 << 10) /* divides the sizes of rows and strings */

void *rut_agent_map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void rut_agent_unmap(void *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}

/* The libc function has another name before glibc 2.33. */
static int file_stat(int fd, struct stat *st)
{
	return (int)syscall(SYS_fstat, fd, st);
}

bool rut_agent_fd_is(int fd, uint64_t ino)
{
	struct stat st;

	return fd >= 0 && file_stat(fd, &st) == 0 && st.st_ino == ino;
}

static uint64_t file_limit(void)
{
	struct rlimit rl = {.rlim_cur = RLIM_INFINITY};

	syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &rl);
	return rl.rlim_cur;
}

uint32_t rut_agent_family_places(size_t first, size_t place_bytes)
{
	uint64_t limit = file_limit();

	if (limit >= first + RUT_FAMILY_MEMBERS * place_bytes)
		return RUT_FAMILY_MEMBERS;
	return limit < first ? 0 : (uint32_t)((limit - first) / place_bytes);
}

int rut_agent_memfd(const char *name, size_t bytes, uint64_t *ret_ino)
{
	struct stat st;
	int fd;

	if (bytes > file_limit())
		return -EFBIG; /* trying would send SIGXFSZ */
	/* The tracer seals it against shrinking: else it would read beyond the end of the file. */
	fd = (int)syscall(SYS_memfd_create, name, 1 | 2 /* MFD_CLOEXEC | MFD_ALLOW_SEALING */);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes) < 0 || file_stat(fd, &st) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	*ret_ino = st.st_ino;
	return fd;
}

/*
 * Core dumps get what is used of the table: the kernel would write all 26 MB of it, as zeros, and
 * give memory to each page for that. Failing does no harm.
 */
static void begin_dump(struct rut_agent_rows *t, char *base, size_t bytes)
{
	madvise(base + PAGE, bytes - PAGE, MADV_DONTDUMP);
	t->rows_dumped = PAGE;
	t->strs_dumped = t->hdr->strs_off;
}

static void extend_dump(struct rut_agent_rows *t, size_t *dumped, size_t used)
{
	for (; *dumped < used; *dumped += DUMP_STEP)
		madvise((char *)t->hdr + *dumped, DUMP_STEP, MADV_DODUMP);
}

#define EXTRA_OFF (PAGE + ROW_CAP * sizeof(struct rut_agent_row) + STRS_CAP)

static size_t table_bytes(size_t extra_bytes)
{
	return EXTRA_OFF + ROW_CAP * extra_bytes;
}

static void *map_shared(void *at, size_t bytes, int fd, size_t off)
{
	void *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd,
		       (off_t)off);

	return p == MAP_FAILED ? NULL : p;
}

/*
 * A new file with member 0 in it. It is all hole: what no member uses takes no memory. Its first
 * pages are mapped at `at` when that is given. Sets fd, ino, family and member.
 */
static int make_family(struct rut_agent_rows *t, void *at)
{
	uint32_t members = rut_agent_family_places(RUT_FAMILY_BYTES, t->bytes);
	struct rut_agent_family *f;
	uint64_t ino = 0;
	int fd;

	if (!members)
		return -EFBIG;
	fd = rut_agent_memfd(RUT_AGENT_TABLE_MEMFD, RUT_FAMILY_BYTES + members * t->bytes, &ino);
	if (fd < 0)
		return fd;
	f = map_shared(at, RUT_FAMILY_BYTES, fd, 0);
	if (!f) {
		close(fd);
		return -ENOMEM;
	}
	f->abi = RUT_AGENT_ABI;
	f->members = members;
	f->table_bytes = t->bytes;
	f->member[0] = (struct rut_agent_member){RUT_MEMBER_TAKEN, getpid()};
	f->magic = RUT_FAMILY_MAGIC;
	t->family = f;
	t->member = 0;
	t->fd = fd;
	t->ino = ino;
	return 0;
}

static void *map_table(const struct rut_agent_rows *t)
{
	return map_shared(NULL, t->bytes, t->fd, RUT_FAMILY_BYTES + t->member * t->bytes);
}

int rut_agent_table_init(struct rut_agent_rows *t, size_t extra_bytes, size_t more_bytes)
{
	size_t bytes = table_bytes(extra_bytes) + more_bytes;
	struct rut_agent_table *hdr;
	int r;

	memset(t, 0, sizeof(*t));
	t->fd = -1;
	t->bytes = bytes;
	r = make_family(t, NULL);
	if (r < 0)
		return r;
	hdr = map_table(t);
	t->hash = rut_agent_map(HASH_MIN * sizeof(*t->hash));
	if (!hdr || !t->hash) {
		t->hdr = hdr;
		rut_agent_table_fini(t);
		return -ENOMEM;
	}
	t->hdr = hdr;
	t->hash_mask = HASH_MIN - 1;
	hdr->magic = RUT_TABLE_MAGIC;
	hdr->abi = RUT_AGENT_ABI;
	hdr->size_bytes = bytes;
	hdr->row_cap = ROW_CAP;
	hdr->rows_off = 4096;
	hdr->strs_off = 4096 + ROW_CAP * sizeof(struct rut_agent_row);
	hdr->strs_cap = STRS_CAP;
	hdr->strs_len = 8; /* offset 0 means none */
	rut_clock_pair(rut_agent_clock_is_tsc, &hdr->tick0, &hdr->mono0_ns);
	hdr->real0_ns = rut_real_ns();
	hdr->ticks_are_tsc = rut_agent_clock_is_tsc;
	t->rows = (struct rut_agent_row *)((char *)hdr + hdr->rows_off);
	t->strs = (char *)hdr + hdr->strs_off;
	hdr->extra_bytes = extra_bytes;
	hdr->extra_off = extra_bytes ? EXTRA_OFF : 0;
	t->extra = (char *)hdr + EXTRA_OFF;
	t->more = (char *)hdr + table_bytes(extra_bytes);
	begin_dump(t, (char *)hdr, bytes);
	t->other_str = rut_agent_table_str(t, RUT_OTHER, sizeof(RUT_OTHER) - 1);
	rut_agent_table_ready(t);
	return 0;
}

void rut_agent_table_ready(struct rut_agent_rows *t)
{
	__atomic_store_n(&t->family->member[t->member].state, RUT_MEMBER_READY, __ATOMIC_RELEASE);
}

/* Our place stays taken: only the tracer knows when it has read it. */
void rut_agent_table_fini(struct rut_agent_rows *t)
{
	if (t->hdr)
		munmap(t->hdr, t->bytes);
	if (t->family)
		munmap(t->family, RUT_FAMILY_BYTES);
	if (rut_agent_fd_is(t->fd, t->ino))
		close(t->fd);
	rut_agent_unmap(t->hash, (t->hash_mask + 1ul) * sizeof(*t->hash));
	rut_agent_unmap(t->index, (t->index_mask + 1ul) * sizeof(*t->index));
	memset(t, 0, sizeof(*t));
	t->fd = -1;
}

/* A free place in the parent's file, or 0. */
static uint32_t take_place(struct rut_agent_family *f)
{
	uint32_t at = __atomic_fetch_add(&f->births, 1, __ATOMIC_RELAXED);

	for (uint32_t i = 1; i < f->members; i++) {
		uint32_t n = 1 + (at + i) % (f->members - 1), expected = RUT_MEMBER_FREE;

		if (!__atomic_compare_exchange_n(&f->member[n].state, &expected, RUT_MEMBER_TAKEN,
						 false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&f->member[n].pid, getpid(), __ATOMIC_RELAXED);
		return n;
	}
	return 0;
}

static int find_place(struct rut_agent_rows *t)
{
	int old = rut_agent_fd_is(t->fd, t->ino) ? t->fd : -1, r;
	uint32_t n = old < 0 ? 0 : take_place(t->family);

	if (n) {
		t->member = n;
		return 0;
	}
	t->fd = -1;
	r = make_family(t, t->family);
	if (old >= 0)
		close(old);
	return r;
}

int rut_agent_table_fork(struct rut_agent_rows *t)
{
	size_t bytes = t->bytes;
	struct rut_agent_table *copy;
	int r = find_place(t);

	if (r < 0)
		return r;
	copy = map_table(t);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, t->hdr, sizeof(*copy));
	memcpy((char *)copy + copy->strs_off, t->strs, copy->strs_len);
	for (uint32_t i = 0; i < copy->row_count; i++) {
		struct rut_agent_row *to =
			(struct rut_agent_row *)((char *)copy + copy->rows_off) + i;

		*to = t->rows[i];
		to->calls = to->total = to->self = to->max = to->count = to->bytes = 0;
	}
	copy->rows_lost = 0;
	copy->allocs = copy->alloc_bytes = copy->allocs_internal = 0;
	rut_clock_pair(rut_agent_clock_is_tsc, &copy->tick0, &copy->mono0_ns);
	copy->real0_ns = rut_real_ns();
	/* The lock cannot be held: the thread that forked is the only one, and it is here. */
	t->lock = 0;
	if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, t->hdr) == MAP_FAILED)
		return -errno;
	begin_dump(t, (char *)t->hdr, bytes);
	extend_dump(t, &t->rows_dumped, PAGE + t->hdr->row_count * sizeof(struct rut_agent_row));
	extend_dump(t, &t->strs_dumped, t->hdr->strs_off + t->hdr->strs_len);
	return 0;
}

void rut_agent_table_separate(struct rut_agent_rows *t)
{
	struct rut_agent_table hdr = *t->hdr;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;

	t->lock = 0;
	if (mmap(t->hdr, t->bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED)
		*t->hdr = hdr;
}

static uint32_t hash_bytes(const char *data, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)data[i]) * 0x100000001b3ull;
	return (uint32_t)(h ^ h >> 32);
}

static void hash_grow(struct rut_agent_rows *t)
{
	uint32_t n = (t->hash_mask + 1) * 2, *to = rut_agent_map(n * sizeof(*to));

	if (!to)
		return; /* slower, not wrong, until it is full */
	for (uint32_t i = 0; i <= t->hash_mask; i++) {
		const struct rut_agent_str *s;
		uint32_t slot;

		if (!t->hash[i])
			continue;
		s = (const struct rut_agent_str *)(t->strs + t->hash[i]);
		for (slot = hash_bytes(s->data, s->len) & (n - 1); to[slot];)
			slot = (slot + 1) & (n - 1);
		to[slot] = t->hash[i];
	}
	rut_agent_unmap(t->hash, (t->hash_mask + 1ul) * sizeof(*to));
	t->hash = to;
	t->hash_mask = n - 1;
}

static uint32_t str_locked(struct rut_agent_rows *t, const char *data, size_t len)
{
	uint32_t slot = hash_bytes(data, len) & t->hash_mask;
	uint64_t off = t->hdr->strs_len, end = (off + sizeof(uint32_t) + len + 1 + 3) & ~3ull;
	struct rut_agent_str *s;

	for (; t->hash[slot]; slot = (slot + 1) & t->hash_mask) {
		s = (struct rut_agent_str *)(t->strs + t->hash[slot]);
		if (s->len == len && memcmp(s->data, data, len) == 0)
			return t->hash[slot];
	}
	if (end > t->hdr->strs_cap || t->hash_count >= t->hash_mask) {
		t->strs_full = true;
		return 0;
	}
	extend_dump(t, &t->strs_dumped, t->hdr->strs_off + end);
	s = (struct rut_agent_str *)(t->strs + off);
	s->len = (uint32_t)len;
	memcpy(s->data, data, len);
	s->data[len] = 0;
	__atomic_store_n(&t->hdr->strs_len, end, __ATOMIC_RELEASE);
	t->hash[slot] = (uint32_t)off;
	if (++t->hash_count > t->hash_mask / 4 * 3)
		hash_grow(t);
	return (uint32_t)off;
}

uint32_t rut_agent_table_str(struct rut_agent_rows *t, const char *data, size_t len)
{
	uint32_t r;

	if (len > 4096)
		len = 4096;
	rut_lock(&t->lock);
	r = str_locked(t, data, len);
	rut_unlock(&t->lock);
	return r;
}

const char *rut_agent_table_get(const struct rut_agent_rows *t, uint32_t str)
{
	return str ? t->strs + str + sizeof(uint32_t) : NULL;
}

static uint32_t row_hash(uint32_t path, uint32_t line, uint32_t class_name, uint32_t method)
{
	uint64_t h = ((uint64_t)path << 32 | line) * 0x9e3779b97f4a7c15ull;

	h ^= ((uint64_t)class_name << 32 | method) * 0xff51afd7ed558ccdull;
	return (uint32_t)(h ^ h >> 29);
}

/* The free slot, or the row's. */
static uint32_t *row_slot(struct rut_agent_rows *t, uint32_t *index, uint32_t mask,
			  const struct rut_agent_row *want)
{
	uint32_t i = row_hash(want->path, want->line, want->class_name, want->method) & mask;

	for (; index[i]; i = (i + 1) & mask) {
		const struct rut_agent_row *row = &t->rows[index[i] - 1];

		if (row->path == want->path && row->line == want->line &&
		    row->class_name == want->class_name && row->method == want->method &&
		    row->flags == want->flags)
			break;
	}
	return &index[i];
}

static void index_grow(struct rut_agent_rows *t)
{
	uint32_t mask = t->index ? t->index_mask * 2 + 1 : HASH_MIN - 1;
	uint32_t *to = rut_agent_map((mask + 1ul) * sizeof(*to));

	if (!to)
		return;
	for (uint32_t i = 0; i < t->hdr->row_count; i++)
		*row_slot(t, to, mask, &t->rows[i]) = i + 1;
	rut_agent_unmap(t->index, (t->index_mask + 1ul) * sizeof(*to));
	t->index = to;
	t->index_mask = mask;
}

static struct rut_agent_row *append_row(struct rut_agent_rows *t, const struct rut_agent_row *want)
{
	uint32_t n = t->hdr->row_count;
	struct rut_agent_row *row = &t->rows[n];

	extend_dump(t, &t->rows_dumped, PAGE + (n + 1) * sizeof(*row));
	*row = *want;
	__atomic_store_n(&t->hdr->row_count, n + 1, __ATOMIC_RELEASE);
	return row;
}

/* There is always room for these. */
static struct rut_agent_row *other_row(struct rut_agent_rows *t,
				       const struct rut_agent_row *for_this)
{
	struct rut_agent_row want = {.path = t->other_str,
				     .flags = (for_this->flags & RUT_ROW_C) | RUT_ROW_NAMED};
	struct rut_agent_row **row = &t->other[want.flags & RUT_ROW_C ? 1 : 0];

	if (for_this->method)
		want.method = t->other_str;
	else
		want.class_name = t->other_str;
	t->hdr->rows_lost++;
	if (!*row)
		*row = append_row(t, &want);
	return *row;
}

struct rut_agent_row *rut_agent_table_row(struct rut_agent_rows *t, uint32_t path, uint32_t line,
					  uint32_t class_name, uint32_t method, uint32_t flags)
{
	struct rut_agent_row want = {.path = path,
				     .line = line,
				     .class_name = class_name,
				     .method = method,
				     .flags = flags | RUT_ROW_NAMED};
	struct rut_agent_row *row = NULL;
	uint32_t *slot = NULL, n;

	rut_lock(&t->lock);
	n = t->hdr->row_count;
	if (!t->index || n >= t->index_mask / 4 * 3)
		index_grow(t);
	if (t->index && n < t->index_mask)
		slot = row_slot(t, t->index, t->index_mask, &want);
	if (slot && *slot) {
		row = &t->rows[*slot - 1];
	} else if (slot && n < t->hdr->row_cap - ROWS_KEPT && !t->strs_full) {
		row = append_row(t, &want);
		*slot = n + 1;
	} else {
		row = other_row(t, &want);
	}
	rut_unlock(&t->lock);
	return row;
}
