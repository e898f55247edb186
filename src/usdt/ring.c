/* SPDX-License-Identifier: MIT */
/*
 * The second path of an event: into a ring in memory that a tool drains, without the kernel.
 *
 * The process makes the ring, because it is the one that would suffer from a bad one, and with all
 * its memory, so that no event can meet a page that cannot be had. There is one for all probes;
 * what goes in is a CTF record (ctl.h says how). The high half of a probe's gate says that it is
 * wanted, so that firing still asks one question for both paths.
 *
 * Who writes is counted by the probe (begun, ended), like who is at a site; so the ring can be
 * unmapped after the gates were closed and the probes are idle.
 */
#include "usdt/provider.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__linux__)
#include "ring/read.h"

enum { HEAD_BYTES = sizeof(uint64_t) + sizeof(uint32_t) };

static struct rut_ring ring; /* ctl NULL: none */
static int ring_fd = -1;
static const size_t data_bytes = (size_t)RUT_USDT_RING_SUBBUFS << RUT_USDT_RING_SHIFT;

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

void rut_usdt_ring_write(const struct rut_usdt_probe *probe, const uint64_t *args)
{
	uint32_t size = HEAD_BYTES, lens[RUTILE_USDT_MAX_ARGS], tid = thread_id();
	uint64_t ns, pos, head;
	unsigned char *at;

	if (!ring.ctl || probe->slot_index < 0)
		return;
	for (unsigned i = 0; i < probe->n_types; i++) {
		bool text = probe->types[i] == RUTILE_USDT_STR;

		lens[i] = text ? (uint32_t)strnlen(string_of(args[i]), RUT_USDT_RING_STR_MAX)
			       : type_bytes(probe->types[i]);
		size += lens[i] + text;
	}
	at = rut_ring_reserve(&ring, size, rut_ring_clock, &ns, &pos);
	if (!at)
		return; /* counted in the ring: every reader reports it */
	head = RUT_RECORD_HEADER((uint16_t)probe->slot_index, ns);
	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), &tid, sizeof(tid));
	at += HEAD_BYTES;
	for (unsigned i = 0; i < probe->n_types; i++) {
		if (probe->types[i] == RUTILE_USDT_STR) {
			memcpy(at, string_of(args[i]), lens[i]);
			at[lens[i]] = 0;
			at += lens[i] + 1;
		} else { /* little-endian: the low bytes come first */
			memcpy(at, &args[i], lens[i]);
			at += lens[i];
		}
	}
	rut_ring_commit(&ring, pos, size);
}

static void note_clocks(struct rut_ring_ctl *ctl)
{
	struct rut_usdt_ring_user user = {.magic = RUT_USDT_RING_MAGIC,
					  .mono_ns = rut_ring_clock()};
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	user.real_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	memcpy(ctl->_user, &user, sizeof(user));
}

static int map_ring(int fd)
{
	struct rut_ring_ctl *ctl;
	struct rut_ring made;
	void *map;

	if (fchmod(fd, 0600) || ftruncate(fd, (off_t)(RUT_RING_CTL_SIZE + data_bytes)) ||
	    fallocate(fd, 0, 0, (off_t)(RUT_RING_CTL_SIZE + data_bytes)) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	map = mmap(NULL, RUT_RING_CTL_SIZE + data_bytes, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_POPULATE, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	ctl = map;
	rut_ring_init(&made, ctl, (unsigned char *)map + RUT_RING_CTL_SIZE, RUT_RING_DISCARD,
		      RUT_USDT_RING_SHIFT, RUT_USDT_RING_SUBBUFS);
	ctl->pid = (uint32_t)getpid();
	note_clocks(ctl);
	ring = made;
	return 0;
}

int rut_usdt_ring_make(void)
{
	int fd, rc;

	if (ring.ctl)
		return ring_fd;
	fd = rut_usdt_memfd(RUT_USDT_RING_NAME, false);
	if (fd < 0)
		return fd;
	rc = map_ring(fd);
	if (rc) {
		close(fd);
		return rc;
	}
	ring_fd = fd;
	return fd;
}

void rut_usdt_ring_gate(struct rut_usdt_probe *probe, bool open)
{
	if (probe->gate)
		__atomic_store_n((volatile uint16_t *)(volatile void *)probe->gate + 1,
				 open && ring.ctl, __ATOMIC_SEQ_CST);
}

static bool owns_ring_fd(void)
{
	struct stat st;
	char path[64], link[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", ring_fd);
	n = readlink(path, link, sizeof(link) - 1);
	link[n < 0 ? 0 : n] = 0;
	return !fstat(ring_fd, &st) &&
	       !strncmp(link, "/memfd:" RUT_USDT_RING_NAME, strlen("/memfd:" RUT_USDT_RING_NAME));
}

static void unmap_ring(void)
{
	if (ring_fd >= 0 && owns_ring_fd())
		close(ring_fd);
	ring_fd = -1;
	munmap(ring.ctl, RUT_RING_CTL_SIZE + data_bytes);
	memset(&ring, 0, sizeof(ring));
}

static void close_gates(void)
{
	for (struct rutile_usdt_provider *p = rut_usdt_providers(); p; p = p->next) {
		for (size_t i = 0; i < p->n_probes; i++) {
			rut_usdt_ring_gate(p->probes[i], false);
		}
	}
}

void rut_usdt_ring_drop(void)
{
	if (!ring.ctl)
		return;
	close_gates();
	for (struct rutile_usdt_provider *p = rut_usdt_providers(); p; p = p->next) {
		for (size_t i = 0; i < p->n_probes; i++) {
			p->probes[i]->slot->ring = 0;
			rut_usdt_wait_until_idle(p->probes[i]);
		}
	}
	unmap_ring();
}

void rut_usdt_ring_child(void)
{
	if (!ring.ctl)
		return;
	close_gates();
	unmap_ring();
}

#else /* no memfd */

void rut_usdt_ring_write(const struct rut_usdt_probe *probe, const uint64_t *args)
{
	(void)probe, (void)args;
}

int rut_usdt_ring_make(void)
{
	return -ENOTSUP;
}

void rut_usdt_ring_gate(struct rut_usdt_probe *probe, bool open)
{
	(void)probe, (void)open;
}

void rut_usdt_ring_drop(void)
{
}

void rut_usdt_ring_child(void)
{
}

#endif
