/* SPDX-License-Identifier: MIT */
/*
 * The second path of an event: into a ring in memory that a tool drains, without the kernel.
 *
 * The process makes the ring, because it is the one that would suffer from a bad one, and with all
 * its memory, so that no event faults on a page that cannot be allocated. There is one for each
 * tool that records (a seat of the control page); what goes in is a CTF record (ctl.h says how).
 * The high half of a probe's gate has a bit for each ring that wants it, so that firing still asks
 * one question for all paths.
 *
 * Threads that write are counted by the probe (begun, ended), like those at a site; so a ring can
 * be unmapped after the gates were closed and the probes are idle.
 */
#include "usdt/provider.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/random.h>

#include "base/clock.h"
#include "base/hash.h"
#include "ring/read.h"

enum { HEAD_BYTES = sizeof(uint64_t) + sizeof(uint32_t) + sizeof(uint16_t) };

/* One a seat. Read without the lock by threads that found the seat's bit in a gate. */
static struct {
	struct rut_ring ring; /* ctl NULL: none */
	int fd;
	uint64_t dev, ino; /* of fd */
} rings[RUT_USDT_SEATS];

static uint32_t made; /* atomic; bit N: rings[N] is there */
static const size_t data_bytes = (size_t)RUT_USDT_RING_SUBBUFS << RUT_USDT_RING_SHIFT;

uint32_t rut_usdt_ring_mask(void)
{
	return __atomic_load_n(&made, __ATOMIC_ACQUIRE);
}

static uint32_t thread_id(void)
{
	static __thread uint32_t tid, of_generation;

	if (!tid || of_generation != rut_usdt_generation()) {
		tid = (uint32_t)syscall(SYS_gettid);
		of_generation = rut_usdt_generation();
	}
	return tid;
}

static uint32_t type_bytes(enum rutile_usdt_type type)
{
	switch (type) {
	case RUTILE_USDT_U8:
	case RUTILE_USDT_S8:
	case RUTILE_USDT_BOOL:
		return 1;
	case RUTILE_USDT_U16:
	case RUTILE_USDT_S16:
		return 2;
	case RUTILE_USDT_U32:
	case RUTILE_USDT_S32:
		return 4;
	default:
		return 8;
	}
}

static const char *string_of(uint64_t word)
{
	return word ? (const char *)(uintptr_t)word : "";
}

struct record {
	uint32_t size, tid, lens[RUTILE_USDT_MAX_ARGS];
	uint16_t cpu;
};

/* Measures the arguments. Returns whether a string does not fit. */
static bool measure(const struct rut_usdt_probe *probe, const uint64_t *args, struct record *ret)
{
	bool cut = false;

	ret->size = HEAD_BYTES;
	for (unsigned i = 0; i < probe->n_types; i++) {
		bool text = probe->types[i] == RUTILE_USDT_STR;
		size_t len = text ? strnlen(string_of(args[i]), RUT_USDT_RING_STR_MAX + 1)
				  : type_bytes(probe->types[i]);

		if (text && len > RUT_USDT_RING_STR_MAX) {
			len = RUT_USDT_RING_STR_MAX;
			cut = true;
		}
		ret->lens[i] = (uint32_t)len;
		ret->size += ret->lens[i] + text;
	}
	return cut;
}

static void write_one(const struct rut_ring *ring, const struct rut_usdt_probe *probe,
		      const uint64_t *args, const struct record *rec,
		      struct rut_usdt_timing *timing)
{
	uint64_t ns, pos, head;
	unsigned char *at = rut_ring_reserve(ring, rec->size, rut_ring_clock, &ns, &pos);

	if (!at)
		return; /* counted in the ring: every reader reports it */
	if (timing) {
		timing->ns = ns;
		if (timing->duration)
			*timing->duration = ns - timing->start_ns;
	}
	head = RUT_RECORD_HEADER((uint16_t)probe->slot_index, ns);
	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), &rec->tid, sizeof(rec->tid));
	memcpy(at + sizeof(head) + sizeof(rec->tid), &rec->cpu, sizeof(rec->cpu));
	at += HEAD_BYTES;
	for (unsigned i = 0; i < probe->n_types; i++) {
		/* NOLINTBEGIN(clang-analyzer-core.CallAndMessage): the same types as in measure()
		 */
		if (probe->types[i] == RUTILE_USDT_STR) {
			memcpy(at, string_of(args[i]), rec->lens[i]);
			at[rec->lens[i]] = 0;
			at += rec->lens[i] + 1;
		} else { /* little-endian: the low bytes come first */
			memcpy(at, &args[i], rec->lens[i]);
			at += rec->lens[i];
		}
		/* NOLINTEND(clang-analyzer-core.CallAndMessage) */
	}
	rut_ring_commit(ring, pos, rec->size);
}

void rut_usdt_ring_write(struct rut_usdt_probe *probe, const uint64_t *args, uint32_t seats,
			 struct rut_usdt_timing *timing)
{
	struct record rec;
	int cpu = sched_getcpu();

	rec.tid = thread_id();
	rec.cpu = (uint16_t)(cpu < 0 ? 0 : cpu);
	if (measure(probe, args, &rec))
		rut_usdt_probe_note(probe, RUTILE_USDT_TRUNCATED);
	/* A thread that sees the bit also sees what was written into `rings` before. */
	for (seats &= rut_usdt_ring_mask(); seats; seats &= seats - 1)
		write_one(&rings[__builtin_ctz(seats)].ring, probe, args, &rec, timing);
}

static void note_clocks(struct rut_ring_ctl *ctl)
{
	struct rut_usdt_ring_user user = {.magic = RUT_USDT_RING_MAGIC,
					  .mono_ns = rut_ring_clock()};

	user.real_ns = rut_clock_ns(CLOCK_REALTIME);
	memcpy(ctl->_user, &user, sizeof(user));
}

/* Each ring is a trace of its own. Without random numbers: not the same as another's of now. */
static void make_uuid(struct rut_ring_ctl *ctl, unsigned seat)
{
	uint64_t words[2];

	if (getrandom(words, sizeof(words), GRND_NONBLOCK) != sizeof(words)) {
		words[0] = rut_hash_u64(rut_ring_clock() ^ (uint64_t)getpid() << 40 ^ seat);
		words[1] = rut_hash_u64(words[0]);
	}
	memcpy(ctl->uuid, words, sizeof(ctl->uuid));
}

static int map_ring(int fd, unsigned seat)
{
	struct rut_ring_ctl *ctl;
	struct rut_ring ring;
	struct stat st;
	void *map;

	if (fchmod(fd, 0600) || fallocate(fd, 0, 0, (off_t)(RUT_RING_CTL_SIZE + data_bytes)) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) || fstat(fd, &st))
		return -errno;
	map = mmap(NULL, RUT_RING_CTL_SIZE + data_bytes, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_POPULATE, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	ctl = map;
	rut_ring_init(&ring, ctl, (unsigned char *)map + RUT_RING_CTL_SIZE, RUT_RING_DISCARD,
		      RUT_USDT_RING_SHIFT, RUT_USDT_RING_SUBBUFS);
	ctl->pid = (uint32_t)getpid();
	make_uuid(ctl, seat);
	note_clocks(ctl);
	rings[seat].ring = ring;
	rings[seat].fd = fd;
	rings[seat].dev = st.st_dev;
	rings[seat].ino = st.st_ino;
	__atomic_fetch_or(&made, 1u << seat, __ATOMIC_RELEASE);
	return 0;
}

int rut_usdt_ring_make(unsigned seat)
{
	int fd, rc;

	if (made >> seat & 1)
		return rings[seat].fd;
	fd = rut_usdt_memfd(RUT_USDT_RING_NAME, false, RUT_RING_CTL_SIZE + data_bytes);
	if (fd < 0)
		return fd;
	rc = map_ring(fd, seat);
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

void rut_usdt_ring_gate(struct rut_usdt_probe *probe)
{
	uint32_t seats = probe->slot ? __atomic_load_n(&probe->slot->ring, __ATOMIC_ACQUIRE) : 0;

	if (probe->gate)
		__atomic_store_n((volatile uint16_t *)(volatile void *)probe->gate + 1,
				 (uint16_t)(seats & made), __ATOMIC_SEQ_CST);
}

static void unmap_ring(unsigned seat)
{
	struct stat st;

	if (!fstat(rings[seat].fd, &st) && st.st_dev == rings[seat].dev &&
	    st.st_ino == rings[seat].ino)
		close(rings[seat].fd);
	munmap(rings[seat].ring.ctl, RUT_RING_CTL_SIZE + data_bytes);
	memset(&rings[seat].ring, 0, sizeof(rings[seat].ring));
}

/* Closes the gates of rings that are no longer in `made`. */
static void close_gates(bool wait)
{
	for (struct rutile_usdt_provider *p = rut_usdt_providers(); p; p = p->next)
		for (size_t i = 0; i < p->n_probes; i++)
			rut_usdt_ring_gate(p->probes[i]);
	for (struct rutile_usdt_provider *p = rut_usdt_providers(); p && wait; p = p->next)
		for (size_t i = 0; i < p->n_probes; i++)
			rut_usdt_wait_until_idle(p->probes[i]);
}

void rut_usdt_rings_drop(uint32_t seats)
{
	seats &= made;
	if (!seats)
		return;
	__atomic_fetch_and(&made, ~seats, __ATOMIC_RELEASE);
	close_gates(true);
	for (unsigned i = 0; i < RUT_USDT_SEATS; i++)
		if (seats >> i & 1)
			unmap_ring(i);
}

void rut_usdt_rings_child(void)
{
	uint32_t seats = made;

	made = 0;
	if (seats)
		close_gates(false);
	for (unsigned i = 0; i < RUT_USDT_SEATS; i++)
		if (seats >> i & 1)
			unmap_ring(i);
}

#else /* no memfd */

void rut_usdt_ring_write(struct rut_usdt_probe *probe, const uint64_t *args, uint32_t seats,
			 struct rut_usdt_timing *timing)
{
	(void)probe, (void)args, (void)seats, (void)timing;
}

#endif
