/* SPDX-License-Identifier: MIT */
/*
 * Sites, gates and the file that describes them: one memfd for all probes of the process.
 *
 * An arena is a sparse memfd with room for many sites, mapped privately: the sites executable, the
 * gates writable. Tracers find the mapping in /proc/PID/maps and the file in /proc/PID/fd; the
 * kernel puts breakpoints into, and counts tracers in, the private pages of one process, so a
 * forked child is a target of its own. The process that made an arena appends to it through a
 * third, shared mapping. A child does not inherit that mapping and cannot make one: it may run with
 * fewer rights than its parent, which executes this file. Its own probes go into an arena of its
 * own; those that it inherited stay where they are, and so do their tracers.
 *
 * What must stay true:
 * - A site never moves, and the memory of a gate always stays readable: a thread may have read
 *   the pointer before the probe was unloaded.
 * - A site that is given back is not used again soon, and never while a tracer is counted at it or
 *   a child may share it: a tracer that is attached there expects the old probe.
 * - No child executes a site that the kernel has patched for its parent. Since Linux 6.18 a traced
 *   5-byte nop becomes a call of a page that fork() does not copy; the child would die of SIGSEGV.
 *   So the child discards such pages before it runs anything else. The kernel then places its
 *   breakpoints anew and counts the tracers again, in the gates: these are discarded first.
 * - Descriptors: at most that of the arena in use and that of the last inherited one.
 */
#include "usdt/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "usdt/provider.h"

#if defined(__linux__) && defined(RUT_USDT_ARCH)

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

/* Sites that wait before they are used again. */
enum { RETIRED_MIN = 1024 };
enum { SHOWN = 1, MARKED = 2 };

struct rut_usdt_arena {
	int fd;		   /* -1: closed */
	uint64_t dev, ino; /* of fd, which the application may have closed behind our back */
	char *base;
	struct rut_usdt_layout at;
	struct rut_usdt_image image; /* mem NULL: another process's */
	uint32_t n_sites;	     /* handed out so far */
	uint32_t used;		     /* held by probes of this process */
	bool full, marked;
	uint8_t *states;		/* owned; one a site */
	uint32_t *retired;		/* owned; a queue of sites */
	uint32_t n_retired, retired_at; /* how many; index of the oldest */
	uint32_t generation;		/* of forks: children share the arena if there were any */
	struct rut_usdt_arena *next;	/* made later */
};

static struct rut_usdt_arena *arenas, *last;

struct rut_usdt_arena *rut_usdt_arena_next(const struct rut_usdt_arena *a)
{
	return a ? a->next : arenas;
}

void *rut_usdt_arena_site(const struct rut_usdt_arena *a, uint32_t site)
{
	return a->base + a->at.text + (size_t)site * RUT_USDT_SITE_BYTES;
}

volatile uint32_t *rut_usdt_arena_gate(const struct rut_usdt_arena *a, uint32_t site)
{
	return (volatile uint32_t *)(void *)(a->base + a->at.gates +
					     (size_t)site * RUT_USDT_GATE_BYTES);
}

static bool owns_fd(const struct rut_usdt_arena *a)
{
	struct stat st;

	return a->fd >= 0 && !fstat(a->fd, &st) && st.st_dev == a->dev && st.st_ino == a->ino;
}

int rut_usdt_arena_fd(const struct rut_usdt_arena *a)
{
	return a->fd;
}

int rut_usdt_arena_path(const struct rut_usdt_arena *a, char *buf, size_t len)
{
	unsigned long base = (unsigned long)a->base;
	int n;

	if (owns_fd(a))
		n = snprintf(buf, len, "/proc/%d/fd/%d", getpid(), a->fd);
	else /* a second way, for root */
		n = snprintf(buf, len, "/proc/%d/map_files/%lx-%lx", getpid(), base,
			     base + a->at.rx_len);
	return n < 0 || (size_t)n >= len ? -ENAMETOOLONG : 0;
}

static void close_fd(struct rut_usdt_arena *a)
{
	if (owns_fd(a))
		close(a->fd);
	a->fd = -1;
}

/* No process, not even this one, can open the file for writing from now on. */
static int seal(int *fd)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	char path[64];
	int again;

	if (!fcntl(*fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE))
		return 0;
	/* An older kernel: a descriptor for reading, and a mode that permits no more. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd);
	if (fcntl(*fd, F_ADD_SEALS, seals) || fchmod(*fd, 0555))
		return -errno;
	again = open(path, O_RDONLY | O_CLOEXEC);
	if (again < 0)
		return -errno;
	if (dup3(again, *fd, O_CLOEXEC) < 0) {
		close(again);
		return -errno;
	}
	close(again);
	return 0;
}

static uint64_t unique_number(const struct stat *st)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return rut_hash_u64((uint64_t)st->st_ino ^ (uint64_t)getpid() << 32 ^
			    (uint64_t)now.tv_sec * 1000000007u ^ (uint64_t)now.tv_nsec << 20);
}

/* The shared mapping through which this process alone writes. */
static int map_image(struct rut_usdt_arena *a, int *fd)
{
	struct stat st;
	void *mem;
	int rc;

	if (fstat(*fd, &st))
		return -errno;
	mem = mmap(NULL, a->at.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (mem == MAP_FAILED)
		return -errno;
	rc = madvise(mem, a->at.file_bytes, MADV_DONTFORK) ? -errno : 0;
	(void)madvise(mem, a->at.file_bytes, MADV_DONTDUMP);
	if (!rc)
		rc = rut_usdt_image_init(&a->image, RUT_USDT_ARCH, RUT_USDT_ARENA_SITES, mem,
					 unique_number(&st));
	if (!rc)
		rc = seal(fd);
	if (rc) {
		rut_usdt_image_fini(&a->image);
		munmap(mem, a->at.file_bytes);
		return rc;
	}
	a->dev = st.st_dev;
	a->ino = st.st_ino;
	return 0;
}

/* The sites and gates, at `where` (NULL: anywhere). */
static char *map_sites(const struct rut_usdt_layout *at, int fd)
{
	char *base = mmap(NULL, at->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (base == MAP_FAILED)
		return NULL;
	if (mmap(base, at->rx_len, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) !=
		    MAP_FAILED &&
	    mmap(base + at->gates, at->rw_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
		 (off_t)at->gates) != MAP_FAILED)
		return base;
	munmap(base, at->size);
	return NULL;
}

static void free_arena(struct rut_usdt_arena *a)
{
	rut_usdt_image_fini(&a->image);
	free(a->states);
	free(a->retired);
	free(a);
}

static int make(struct rut_usdt_arena **ret)
{
	_cleanup_close_ int fd = -1;
	struct rut_usdt_arena *a = calloc(1, sizeof(*a));
	int rc = -ENOMEM;

	if (!a)
		return -ENOMEM;
	rut_usdt_layout_of(RUT_USDT_ARCH, RUT_USDT_ARENA_SITES, &a->at);
	a->states = calloc(RUT_USDT_ARENA_SITES, sizeof(*a->states));
	a->retired = calloc(RUT_USDT_ARENA_SITES, sizeof(*a->retired));
	a->generation = rut_usdt_generation();
	if (a->states && a->retired)
		rc = fd = rut_usdt_memfd(RUT_USDT_OBJECT_NAME, true, a->at.file_bytes);
	if (fd >= 0)
		rc = map_image(a, &fd);
	if (!rc) {
		a->base = map_sites(&a->at, fd);
		if (!a->base) {
			rc = -errno;
			munmap(a->image.mem, a->at.file_bytes);
		}
	}
	if (rc) {
		free_arena(a);
		return rc == -ENOSYS ? -ENOTSUP : rc;
	}
	a->fd = RUT_TAKE_FD(fd);
	*ret = a;
	return 0;
}

/* Unmaps what no probe of this process uses; zeros stay where the gates were. */
static void drop(struct rut_usdt_arena *a)
{
	if (a->image.mem)
		munmap(a->image.mem, a->at.file_bytes);
	(void)mmap(a->base, a->at.size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	close_fd(a);
	free_arena(a);
}

/* Before another arena is added: forgets unused ones, and descriptors but the newest. */
static void tidy(void)
{
	struct rut_usdt_arena **at = &arenas, *a;

	last = NULL;
	while ((a = *at)) {
		if (!a->used) {
			*at = a->next;
			drop(a);
			continue;
		}
		if (a->next)
			close_fd(a);
		last = a;
		at = &a->next;
	}
}

int rut_usdt_arena_get(struct rut_usdt_arena **ret)
{
	struct rut_usdt_arena *a;
	int rc;

	if (last && last->image.mem && !last->full) {
		*ret = last;
		return 0;
	}
	rc = make(&a);
	if (rc)
		return rc;
	tidy();
	if (last)
		last->next = a;
	else
		arenas = a;
	last = a;
	*ret = a;
	return 0;
}

static bool is_shared(const struct rut_usdt_arena *a)
{
	return !a->image.mem || a->generation != rut_usdt_generation();
}

/* The site that was given back first, if no tracer still refers to the old probe; -1: none. */
static int64_t take_retired(struct rut_usdt_arena *a)
{
	uint32_t site;

	if (!a->n_retired || is_shared(a))
		return -1;
	site = a->retired[a->retired_at];
	a->retired_at = (a->retired_at + 1) % RUT_USDT_ARENA_SITES;
	a->n_retired--;
	if (!(*rut_usdt_arena_gate(a, site) & 0xffff))
		return site;
	/* Traced: move it to the end of the queue. */
	a->retired[(a->retired_at + a->n_retired++) % RUT_USDT_ARENA_SITES] = site;
	return -1;
}

int rut_usdt_arena_take(struct rut_usdt_arena **ret, uint32_t *ret_site)
{
	struct rut_usdt_arena *a;
	int64_t site = -1;
	int rc = rut_usdt_arena_get(&a);

	if (rc)
		return rc;
	if (a->n_retired > RETIRED_MIN)
		site = take_retired(a);
	if (site < 0 && a->n_sites < RUT_USDT_ARENA_SITES)
		site = a->n_sites++;
	for (uint32_t i = a->n_retired; i && site < 0; i--)
		site = take_retired(a);
	if (site < 0) {
		a->full = true;
		return rut_usdt_arena_take(ret, ret_site);
	}
	a->used++;
	*ret = a;
	*ret_site = (uint32_t)site;
	return 0;
}

void rut_usdt_arena_give(struct rut_usdt_arena *a, uint32_t site)
{
	a->used--;
	a->retired[(a->retired_at + a->n_retired++) % RUT_USDT_ARENA_SITES] = site;
}

int rut_usdt_arena_show(struct rut_usdt_arena *a, uint32_t site, const char *provider,
			const struct rut_usdt_desc *desc)
{
	int rc;

	if (!a->image.mem || a->states[site] & SHOWN) {
		a->states[site] &= (uint8_t)~MARKED;
		return 0;
	}
	rc = rut_usdt_image_add(&a->image, site, provider, desc);
	if (rc == -ENOSPC)
		a->full = true;
	if (!rc)
		a->states[site] |= SHOWN;
	return rc;
}

void rut_usdt_arena_hide(struct rut_usdt_arena *a, uint32_t site)
{
	if (!a->image.mem || !(a->states[site] & SHOWN))
		return;
	a->states[site] |= MARKED;
	a->marked = true;
}

static bool take_mark(uint32_t site, void *arg)
{
	struct rut_usdt_arena *a = arg;

	if (!(a->states[site] & MARKED))
		return false;
	a->states[site] = 0;
	return true;
}

void rut_usdt_arena_sweep(void)
{
	for (struct rut_usdt_arena *a = arenas; a; a = a->next) {
		if (!a->marked)
			continue;
		rut_usdt_image_remove(&a->image, take_mark, a);
		a->marked = false;
	}
}

/* Whether the kernel has turned a site of the parent into a call. */
static bool is_patched(const struct rut_usdt_arena *a)
{
	const uint8_t *code = rut_usdt_arena_site(a, 0);

	/* NOLINTNEXTLINE(misc-redundant-expression): it differs on other machines */
	if (RUT_USDT_ARCH != RUT_USDT_X86_64)
		return false;
	for (uint32_t i = 0; i < a->n_sites; i++)
		if (code[(size_t)i * RUT_USDT_SITE_BYTES] == 0xe8)
			return true;
	return false;
}

/*
 * Maps sites and gates again. The kernel looks for breakpoints when a mapping is made; without the
 * descriptor it does so when the discarded one is split, which changing one page's protection does.
 */
static bool renew(struct rut_usdt_arena *a)
{
	const struct rut_usdt_layout *at = &a->at;
	char *end = a->base + at->rx_len - rut_usdt_page_bytes(RUT_USDT_ARCH);
	size_t rest = rut_usdt_page_bytes(RUT_USDT_ARCH);

	if (owns_fd(a) &&
	    mmap(a->base + at->gates, at->rw_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
		 a->fd, (off_t)at->gates) != MAP_FAILED &&
	    mmap(a->base, at->rx_len, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, a->fd, 0) !=
		    MAP_FAILED)
		return true;
	if (madvise(a->base + at->gates, at->rw_len, MADV_DONTNEED) ||
	    madvise(a->base, at->rx_len, MADV_DONTNEED))
		return false;
	if (!mprotect(end, rest, PROT_READ))
		(void)mprotect(end, rest, PROT_READ | PROT_EXEC);
	return true;
}

bool rut_usdt_arena_child(void)
{
	bool safe = true;

	for (struct rut_usdt_arena *a = arenas; a; a = a->next) {
		a->image.mem = NULL; /* not copied by fork() */
		if (is_patched(a))
			safe &= renew(a);
	}
	return safe;
}

#endif
