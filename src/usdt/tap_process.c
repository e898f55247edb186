/* SPDX-License-Identifier: MIT */
/*
 * Recording the static tracepoints of one process: see the essay in tap.c.
 *
 * Nothing read from another process is believed: rings are opened by rut_ring_open_ctl(), packets
 * are copied with the ring's own size.
 */
#include "usdt/tap_process.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "usdt/metadata.h"

enum { ANSWER_MS = 20, GOODBYE_MS = 200, PAGE_MS = 1 };

struct rut_usdt_tap *rut_usdt_tap_new(struct rut_usdt_remote *remote)
{
	struct rut_usdt_tap *tap = calloc(1, sizeof(*tap));

	if (tap)
		tap->described = calloc(RUT_USDT_CTL_SLOTS, sizeof(*tap->described));
	if (!tap || !tap->described) {
		free(tap);
		return NULL;
	}
	tap->remote = *remote;
	tap->dir_fd = tap->stream_fd = -1;
	tap->seat = RUT_USDT_SEATS;
	tap->fresh = true;
	return tap;
}

static void pause_ms(unsigned ms)
{
	const struct timespec time = {.tv_nsec = ms * 1000000};

	nanosleep(&time, NULL);
}

static bool wanted(const struct rut_usdt_recording *rec, const struct rut_usdt_info *p)
{
	char full[2 * RUTILE_USDT_NAME_MAX + 2];

	snprintf(full, sizeof(full), "%s:%s", p->provider, p->name);
	for (size_t i = 0; i < rec->nglobs; i++)
		if (!fnmatch(rec->globs[i], full, 0) ||
		    (!strchr(rec->globs[i], ':') && !fnmatch(rec->globs[i], p->provider, 0)))
			return true;
	return false;
}

static int append_metadata(const struct rut_usdt_tap *tap, const struct rut_buf *b)
{
	_cleanup_close_ int fd =
		openat(tap->dir_fd, "metadata",
		       O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);

	if (b->failed)
		return -ENOMEM;
	return fd < 0 ? -errno : rut_file_write(fd, b->data, b->len);
}

static void ask(const struct rut_usdt_tap *tap)
{
	struct rut_usdt_ctl *page = tap->remote.page;

	__atomic_fetch_add(&page->request, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &page->request, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool is_ring_file(const char *path)
{
	static const char want[] = "/memfd:" RUT_USDT_RING_NAME;
	char link[80];
	ssize_t n = readlink(path, link, sizeof(link) - 1);

	return n >= (ssize_t)sizeof(want) - 1 && !memcmp(link, want, sizeof(want) - 1);
}

static int map_ring_of(struct rut_usdt_tap *tap, int fd)
{
	struct stat st;
	void *map;
	int rc;

	if (fstat(fd, &st) || st.st_size <= RUT_RING_CTL_SIZE || !rut_usdt_is_sealed(fd))
		return -EPROTO;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	rc = rut_ring_open_ctl(&tap->ring, map, (unsigned char *)map + RUT_RING_CTL_SIZE,
			       (uint64_t)st.st_size - RUT_RING_CTL_SIZE, NULL);
	if (rc) {
		munmap(map, (size_t)st.st_size);
		tap->ring.ctl = NULL;
		return rc;
	}
	tap->map_bytes = (size_t)st.st_size;
	tap->pos = __atomic_load_n(&tap->ring.ctl->consumed, __ATOMIC_RELAXED);
	return 0;
}

/* Maps the ring of our seat when the process has made it. -EAGAIN: not yet. */
static int map_ring(const struct rut_usdt_recording *rec, struct rut_usdt_tap *tap)
{
	const struct rut_usdt_seat *seat = &tap->remote.page->seats[tap->seat];
	_cleanup_close_ int fd = -1;
	char path[64];
	int32_t number;

	if (__atomic_load_n(&seat->made_for, __ATOMIC_ACQUIRE) != rec->token)
		return -EAGAIN;
	number = __atomic_load_n(&seat->fd, __ATOMIC_ACQUIRE);
	if (number < 0)
		return number == RUT_USDT_NO_RING ? -EAGAIN : number;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", tap->remote.pid, number);
	/* The other process says which file that is: it must be what it should be before it is
	 * opened for writing. */
	if (!is_ring_file(path))
		return -EPROTO;
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : map_ring_of(tap, fd);
}

/* Takes a free seat, or finds the one that the process took for us. */
static int take_seat(const struct rut_usdt_recording *rec, struct rut_usdt_tap *tap)
{
	struct rut_usdt_ctl *page = tap->remote.page;
	struct rut_usdt_seat *seat;
	unsigned i = 0;

	while (i < RUT_USDT_SEATS &&
	       __atomic_load_n(&page->seats[i].token, __ATOMIC_ACQUIRE) != rec->token)
		i++;
	tap->seat = i;
	for (i = 0; i < RUT_USDT_SEATS && tap->seat == RUT_USDT_SEATS; i++) {
		uint64_t none = 0;

		if (__atomic_compare_exchange_n(&page->seats[i].token, &none, rec->token, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			tap->seat = i;
	}
	if (tap->seat == RUT_USDT_SEATS)
		return -EBUSY;
	seat = &page->seats[tap->seat];
	memcpy(seat->globs, rec->joined, sizeof(seat->globs));
	memcpy(seat->notify, rec->joined[0] ? rec->notify : "",
	       rec->joined[0] ? sizeof(rec->notify) : 1);
	__atomic_store_n(&seat->want, 1, __ATOMIC_RELEASE);
	ask(tap);
	return 0;
}

static void leave_seat(const struct rut_usdt_recording *rec, struct rut_usdt_tap *tap)
{
	struct rut_usdt_seat *seat = &tap->remote.page->seats[tap->seat];
	uint64_t token = rec->token;

	if (tap->seat == RUT_USDT_SEATS || __atomic_load_n(&seat->token, __ATOMIC_ACQUIRE) != token)
		return;
	__atomic_store_n(&seat->want, 0, __ATOMIC_RELEASE);
	ask(tap);
	/* When the ring is no longer ours, no thread writes into it. */
	for (unsigned i = 0; i < GOODBYE_MS / PAGE_MS; i++) {
		if (__atomic_load_n(&seat->made_for, __ATOMIC_ACQUIRE) != token)
			break;
		pause_ms(PAGE_MS);
	}
	__atomic_compare_exchange_n(&seat->token, &token, 0, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_RELAXED);
	tap->seat = RUT_USDT_SEATS;
}

/* A seat and its ring. -EAGAIN: the process has not answered yet; try again. */
static int get_ring(struct rut_usdt_recording *rec, struct rut_usdt_tap *tap)
{
	int rc = tap->seat == RUT_USDT_SEATS ? take_seat(rec, tap) : 0;

	if (rc)
		return rc;
	rc = map_ring(rec, tap);
	for (unsigned i = 0; i < ANSWER_MS / PAGE_MS && rc == -EAGAIN; i++) {
		pause_ms(PAGE_MS);
		rc = map_ring(rec, tap);
	}
	if (!rc)
		rec->processes++;
	else if (rc != -EAGAIN)
		leave_seat(rec, tap);
	return rc;
}

int rut_usdt_tap_announced(struct rut_usdt_tap *tap, unsigned seat, int fd)
{
	tap->seat = seat;
	return map_ring_of(tap, fd);
}

/*
 * Makes DIR/ruby_static-PID with the metadata's head; a name that exists (an earlier process of
 * that PID, or another user's file) is left alone.
 */
static int open_dir(struct rut_usdt_recording *rec, struct rut_usdt_tap *tap)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char path[PATH_MAX], name[32];
	int rc;

	if (!rec->dir)
		return -ENOENT;
	snprintf(name, sizeof(name), "ruby_static-%d", tap->remote.pid);
	rc = rut_file_new_dir(path, sizeof(path), rec->dir, name);
	if (rc < 0)
		return rc;
	tap->dir_fd = open(path, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (tap->dir_fd < 0)
		return -errno;
	tap->stream_fd = openat(tap->dir_fd, "stream",
				O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (tap->stream_fd < 0)
		return -errno;
	tap->end = 0;
	rut_usdt_metadata_head(&b, tap->ring.ctl->uuid, tap->remote.pid, rut_clock_offset_ns());
	return append_metadata(tap, &b);
}

/* Also of a probe that was freed meanwhile, if the process put its events into our ring. */
static bool has_events(const struct rut_usdt_tap *tap, const struct rut_usdt_slot *slot)
{
	uint32_t ring = __atomic_load_n(&slot->ring, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == RUT_USDT_SLOT_USED ||
	       (tap->seat < RUT_USDT_SEATS && ring >> tap->seat & 1);
}

/* The probes to describe now; their bits in `ring` are set after their description is written. */
static size_t find_new(const struct rut_usdt_recording *rec, const struct rut_usdt_tap *tap,
		       struct rut_buf *metadata, struct rut_buf *slots)
{
	struct rut_usdt_ctl *page = tap->remote.page;
	uint32_t n = __atomic_load_n(&page->n_slots, __ATOMIC_ACQUIRE);
	size_t found = 0;

	for (unsigned i = 0; i < n && i < RUT_USDT_CTL_SLOTS; i++) {
		struct rut_usdt_info p;

		if (tap->described[i] || !has_events(tap, &page->slots[i]))
			continue;
		rut_usdt_info_of(page, i, &p);
		if (!p.serial || !wanted(rec, &p) || !rut_usdt_metadata_knows(&p))
			continue;
		rut_usdt_metadata_event(metadata, &p);
		rut_buf_add(slots, &(uint32_t[]){i, p.serial}, 2 * sizeof(uint32_t));
		found++;
	}
	return found;
}

static void tell_refused(struct rut_usdt_tap *tap)
{
	if (!tap->refused)
		rut_warn("process %d is not recorded: %d recorders have it already",
			 tap->remote.pid, RUT_USDT_SEATS);
	tap->refused = true;
}

int rut_usdt_tap_describe(struct rut_usdt_recording *rec, struct rut_usdt_tap *tap)
{
	_cleanup_buf_ struct rut_buf metadata = RUT_BUF_INIT, slots = RUT_BUF_INIT;
	struct rut_usdt_ctl *page = tap->remote.page;
	uint32_t news = __atomic_load_n(&page->news, __ATOMIC_ACQUIRE), one[2];
	size_t n;
	int rc = 0;

	if (!tap->fresh && news == tap->news)
		return 0;
	n = find_new(rec, tap, &metadata, &slots);
	if (metadata.failed || slots.failed)
		return -ENOMEM;
	if (n && !tap->ring.ctl)
		rc = get_ring(rec, tap);
	if (rc == -EBUSY)
		tell_refused(tap);
	if (!rc && n && tap->dir_fd < 0)
		rc = open_dir(rec, tap);
	if (!rc && n)
		rc = append_metadata(tap, &metadata);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		memcpy(one, slots.data + i * sizeof(one), sizeof(one));
		tap->described[one[0]] = one[1];
		__atomic_fetch_or(&page->slots[one[0]].ring, 1u << tap->seat, __ATOMIC_RELEASE);
	}
	if (n)
		ask(tap);
	tap->news = news;
	tap->fresh = false;
	return 0;
}

/* A packet ends where its content does; the ring's sub-buffers are larger. */
static int write_packet(struct rut_usdt_recording *rec, struct rut_usdt_tap *tap,
			const unsigned char *packet)
{
	struct rut_packet head;
	struct iovec iov[2] = {{.iov_base = &head, .iov_len = sizeof(head)}};
	uint64_t bytes;
	ssize_t n;

	memcpy(&head, packet, sizeof(head));
	bytes = (head.content_size / 8 + 7) / 8 * 8;
	if (bytes < sizeof(head) || bytes > tap->ring.subbuf_size)
		return 0; /* damaged by its own process */
	head.packet_size = bytes * 8;
	iov[1] = (struct iovec){(void *)(uintptr_t)(packet + sizeof(head)), bytes - sizeof(head)};
	do
		n = pwritev(tap->stream_fd, iov, 2, (off_t)tap->end);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)bytes) {
		int rc = n < 0 ? -errno : -ENOSPC;

		/* Never half a packet. */
		return ftruncate(tap->stream_fd, (off_t)tap->end) ? -errno : rc;
	}
	tap->end += bytes;
	rec->bytes += bytes;
	rec->packets++;
	return 0;
}

int64_t rut_usdt_tap_drain(struct rut_usdt_recording *rec, struct rut_usdt_tap *tap)
{
	const unsigned char *packet;
	int64_t n = 0;
	int rc = 0;

	if (!tap->ring.ctl)
		return 0;
	if (tap->seat < RUT_USDT_SEATS)
		__atomic_fetch_add(&tap->remote.page->seats[tap->seat].beat, 1, __ATOMIC_RELEASE);
	/* No more than it can hold: what it says of its positions may be untrue. */
	while (n < tap->ring.count && (packet = rut_ring_next(&tap->ring, &tap->pos))) {
		/* The process may have added a probe that has events in this packet. */
		rc = rut_usdt_tap_describe(rec, tap);
		if (!rc && tap->stream_fd >= 0)
			rc = write_packet(rec, tap, packet);
		if (rc)
			return rc;
		tap->pos += tap->ring.subbuf_size;
		rut_ring_release(&tap->ring, tap->pos);
		n++;
	}
	return n;
}

bool rut_usdt_tap_is_over(const struct rut_usdt_recording *rec, const struct rut_usdt_tap *tap)
{
	const struct rut_usdt_seat *seats = tap->remote.page->seats;
	char path[32];

	if (tap->ring.ctl && tap->seat < RUT_USDT_SEATS &&
	    __atomic_load_n(&seats[tap->seat].token, __ATOMIC_ACQUIRE) != rec->token)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/stat", tap->remote.pid);
	return access(path, F_OK) != 0;
}

void rut_usdt_tap_close_files(struct rut_usdt_tap *tap)
{
	if (tap->stream_fd >= 0)
		close(tap->stream_fd);
	if (tap->dir_fd >= 0)
		close(tap->dir_fd);
	tap->stream_fd = tap->dir_fd = -1;
	memset(tap->described, 0, RUT_USDT_CTL_SLOTS * sizeof(*tap->described));
	tap->fresh = true;
}

void rut_usdt_tap_end(struct rut_usdt_recording *rec, struct rut_usdt_tap *tap)
{
	if (!tap->gone)
		leave_seat(rec, tap);
	if (tap->ring.ctl) {
		rut_ring_flush(&tap->ring);
		if (rut_usdt_tap_drain(rec, tap) < 0)
			rut_debug("process %d: its last packets are lost", tap->remote.pid);
		rec->lost += __atomic_load_n(&tap->ring.ctl->lost, __ATOMIC_RELAXED);
		munmap(tap->ring.ctl, tap->map_bytes);
	}
	rut_usdt_tap_close_files(tap);
	rut_usdt_remote_fini(&tap->remote);
	free(tap->described);
	free(tap);
}
