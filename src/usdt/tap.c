/* SPDX-License-Identifier: MIT */
/*
 * Recording static tracepoints without the kernel.
 *
 * A process that uses librutile-usdt has a control page (ctl.h). A tap asks it for a ring, says on
 * the page which tracepoints shall go into it, and moves finished packets into a file. Each process
 * gets a CTF trace of its own, DIR/ruby_static-PID, for its event numbers are its slots.
 *
 * The metadata describes an event before a packet can hold one: it is written before the wish is,
 * and only ever grows. The same slot may be used again by another tracepoint, whose number would
 * then mean two things; so a tap describes a slot once and leaves later users of it alone.
 *
 * Nothing read from another process is believed: rings are opened by rut_ring_open_ctl(), packets
 * are copied with the ring's own size.
 */
#include "usdt/tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"
#include "ring/read.h"
#include "usdt/metadata.h"
#include "usdt/remote.h"

/* Looking through all processes of a machine costs something: not so often. */
enum { LOOK_MS = 200, LOOK_ALL_MS = 1000, ANSWER_MS = 1000, PAGE_MS = 1 };

struct tap {
	struct rut_usdt_remote remote;
	struct rut_ring ring; /* ctl NULL: not there yet */
	size_t map_bytes;
	int dir_fd, stream_fd;			/* -1: not open */
	uint64_t pos, end;			/* in the ring, in the file */
	uint32_t described[RUT_USDT_CTL_SLOTS]; /* serial of the probe; 0: none */
	uint8_t uuid[16];
	bool gone;
};

struct rut_usdt_taps {
	const char *const *globs; /* borrowed */
	size_t nglobs;
	const pid_t *pids; /* borrowed */
	size_t npids;
	char *dir;		 /* owned; NULL: not open */
	struct tap **taps;	 /* owned */
	size_t ntaps, processes; /* those now, those ever */
	uint64_t looked_ms, searched_ms, lost, bytes, packets;
};

static uint64_t now_ms(void)
{
	return rut_ring_clock() / 1000000;
}

static bool wanted(const struct rut_usdt_taps *t, const struct rut_usdt_info *p)
{
	char full[2 * RUTILE_USDT_NAME_MAX + 2];

	snprintf(full, sizeof(full), "%s:%s", p->provider, p->name);
	for (size_t i = 0; i < t->nglobs; i++)
		if (!fnmatch(t->globs[i], full, 0) ||
		    (!strchr(t->globs[i], ':') && !fnmatch(t->globs[i], p->provider, 0)))
			return true;
	return false;
}

static int append_metadata(const struct tap *tap, const struct rut_buf *b)
{
	_cleanup_close_ int fd =
		openat(tap->dir_fd, "metadata",
		       O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);

	if (b->failed)
		return -ENOMEM;
	return fd < 0 ? -errno : rut_file_write(fd, b->data, b->len);
}

static void ask(const struct tap *tap)
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

/* Maps the ring when the process has made it. -EAGAIN: not yet. */
static int map_ring(struct tap *tap)
{
	int32_t number = __atomic_load_n(&tap->remote.page->ring_fd, __ATOMIC_ACQUIRE);
	_cleanup_close_ int fd = -1;
	struct stat st;
	char path[64];
	void *map;
	int rc;

	if (number < 0)
		return number == -1 ? -EAGAIN : number;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", tap->remote.pid, number);
	/* Which file that is says the other process: it must be what it should be before it is
	 * opened for writing. */
	if (!is_ring_file(path))
		return -EPROTO;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_size <= RUT_RING_CTL_SIZE || !rut_usdt_is_sealed(fd))
		return -EPROTO;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	rc = rut_ring_open_ctl(&tap->ring, map, (unsigned char *)map + RUT_RING_CTL_SIZE,
			       (uint64_t)st.st_size - RUT_RING_CTL_SIZE, NULL);
	if (rc) {
		munmap(map, (size_t)st.st_size);
		return rc;
	}
	tap->map_bytes = (size_t)st.st_size;
	memcpy(tap->ring.ctl->uuid, tap->uuid, sizeof(tap->uuid));
	tap->pos = __atomic_load_n(&tap->ring.ctl->consumed, __ATOMIC_RELAXED);
	return 0;
}

static int get_ring(struct tap *tap)
{
	const struct timespec pause = {.tv_nsec = PAGE_MS * 1000000};
	int rc = -EAGAIN;

	__atomic_store_n(&tap->remote.page->ring_want, 1, __ATOMIC_RELEASE);
	ask(tap);
	for (int i = 0; i < ANSWER_MS / PAGE_MS && rc == -EAGAIN; i++) {
		rc = map_ring(tap);
		if (rc == -EAGAIN)
			nanosleep(&pause, NULL);
	}
	return rc;
}

/*
 * Makes DIR/ruby_static-PID with the metadata's head; a name that exists (an earlier process of
 * that PID, or what somebody has put there) is left alone.
 */
static int open_folder(struct rut_usdt_taps *t, struct tap *tap)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char path[PATH_MAX];
	int rc = -1;

	for (int i = 0; i < 1000 && rc < 0; i++) {
		if (i)
			snprintf(path, sizeof(path), "%s/ruby_static-%d-%d", t->dir,
				 tap->remote.pid, i);
		else
			snprintf(path, sizeof(path), "%s/ruby_static-%d", t->dir, tap->remote.pid);
		rc = mkdir(path, 0777);
		if (rc < 0 && errno != EEXIST)
			return -errno;
	}
	tap->dir_fd = open(path, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (rc < 0 || tap->dir_fd < 0)
		return rc < 0 ? -EEXIST : -errno;
	tap->stream_fd = openat(tap->dir_fd, "stream",
				O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (tap->stream_fd < 0)
		return -errno;
	tap->end = 0;
	memset(tap->described, 0, sizeof(tap->described));
	rut_usdt_metadata_head(&b, tap->uuid, tap->remote.pid, rut_clock_offset_ns());
	return append_metadata(tap, &b);
}

/* Describes and asks for the tracepoints that are wanted and were not seen yet. */
static int add_events(struct rut_usdt_taps *t, struct tap *tap)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	_cleanup_free_ struct rut_usdt_info *list = NULL;
	size_t n;
	bool news = false;
	int rc = rut_usdt_remote_list(&tap->remote, &list, &n);

	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		struct rut_usdt_info *p = &list[i];

		if (!p->serial || tap->described[p->slot] || !wanted(t, p) ||
		    !rut_usdt_metadata_knows(p))
			p->slot = RUT_USDT_CTL_SLOTS; /* not this time */
		else
			rut_usdt_metadata_event(&b, p);
	}
	if (!b.len)
		return 0;
	rc = tap->dir_fd < 0 ? open_folder(t, tap) : 0;
	if (!rc && !tap->ring.ctl) {
		rc = get_ring(tap);
		t->processes += !rc;
	}
	if (!rc)
		rc = append_metadata(tap, &b);
	for (size_t i = 0; i < n && !rc; i++) {
		if (list[i].slot == RUT_USDT_CTL_SLOTS)
			continue;
		tap->described[list[i].slot] = list[i].serial;
		__atomic_store_n(&tap->remote.page->slots[list[i].slot].ring, 1, __ATOMIC_RELEASE);
		news = true;
	}
	if (news)
		ask(tap);
	return rc;
}

static int write_packet(struct rut_usdt_taps *t, struct tap *tap, const unsigned char *packet)
{
	size_t done = 0;

	while (done < tap->ring.subbuf_size) {
		ssize_t n = pwrite(tap->stream_fd, packet + done, tap->ring.subbuf_size - done,
				   (off_t)(tap->end + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int rc = -errno;

			/* Never half a packet. */
			return ftruncate(tap->stream_fd, (off_t)tap->end) ? -errno : rc;
		}
		done += (size_t)n;
	}
	tap->end += tap->ring.subbuf_size;
	t->bytes += tap->ring.subbuf_size;
	t->packets++;
	return 0;
}

static int64_t drain(struct rut_usdt_taps *t, struct tap *tap)
{
	const unsigned char *packet;
	int64_t n = 0;

	if (!tap->ring.ctl)
		return 0;
	__atomic_fetch_add(&tap->remote.page->ring_beat, 1, __ATOMIC_RELEASE);
	/* No more than it can hold: what it says of its positions may be untrue. */
	while (n < tap->ring.count && (packet = rut_ring_next(&tap->ring, &tap->pos))) {
		int rc = write_packet(t, tap, packet);

		if (rc)
			return rc;
		tap->pos += tap->ring.subbuf_size;
		rut_ring_release(&tap->ring, tap->pos);
		n++;
	}
	return n;
}

static void close_files(struct tap *tap)
{
	if (tap->stream_fd >= 0)
		close(tap->stream_fd);
	if (tap->dir_fd >= 0)
		close(tap->dir_fd);
	tap->stream_fd = tap->dir_fd = -1;
}

/* Says goodbye to a process, takes what is left in its ring, and forgets it. */
static void tap_free(struct rut_usdt_taps *t, struct tap *tap)
{
	if (tap->ring.ctl) {
		if (!tap->gone) {
			for (unsigned i = 0; i < RUT_USDT_CTL_SLOTS; i++)
				if (tap->described[i])
					tap->remote.page->slots[i].ring = 0;
			__atomic_store_n(&tap->remote.page->ring_want, 0, __ATOMIC_RELEASE);
			ask(tap);
			/* Its ring_fd is -1 when nobody writes any more. */
			for (int i = 0; i < 200; i++) {
				const struct timespec pause = {.tv_nsec = PAGE_MS * 1000000};

				if (__atomic_load_n(&tap->remote.page->ring_fd, __ATOMIC_ACQUIRE) <
				    0)
					break;
				nanosleep(&pause, NULL);
			}
		}
		rut_ring_flush(&tap->ring);
		drain(t, tap);
		t->lost += __atomic_load_n(&tap->ring.ctl->lost, __ATOMIC_RELAXED);
		munmap(tap->ring.ctl, tap->map_bytes);
	}
	close_files(tap);
	rut_usdt_remote_fini(&tap->remote);
	free(tap);
}

static bool has_tap(const struct rut_usdt_taps *t, pid_t pid)
{
	for (size_t i = 0; i < t->ntaps; i++)
		if (t->taps[i]->remote.pid == pid)
			return true;
	return false;
}

static void add_tap(struct rut_usdt_taps *t, pid_t pid)
{
	struct rut_usdt_remote remote;
	struct tap *tap, **more;

	if (has_tap(t, pid) || rut_usdt_remote_open(&remote, pid, NULL))
		return;
	tap = calloc(1, sizeof(*tap));
	more = realloc(t->taps, (t->ntaps + 1) * sizeof(*more));
	if (more)
		t->taps = more;
	if (!tap || !more) {
		free(tap);
		rut_usdt_remote_fini(&remote);
		return;
	}
	tap->remote = remote;
	tap->dir_fd = tap->stream_fd = -1;
	if (getrandom(tap->uuid, sizeof(tap->uuid), 0) < 0)
		memcpy(tap->uuid, &pid, sizeof(pid));
	t->taps[t->ntaps++] = tap;
}

static bool is_meant(const struct rut_usdt_taps *t, pid_t pid)
{
	if (!t->npids)
		return pid != getpid();
	for (; pid > 1; pid = rut_proc_parent(pid))
		for (size_t i = 0; i < t->npids; i++)
			if (t->pids[i] == pid)
				return true;
	return false;
}

static void find_processes(struct rut_usdt_taps *t)
{
	DIR *d = opendir("/proc");
	struct dirent *e;

	while (d && (e = readdir(d))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid > 0 && is_meant(t, pid))
			add_tap(t, pid);
	}
	if (d)
		closedir(d);
}

/* New processes, new tracepoints, and processes that ended. */
static int look(struct rut_usdt_taps *t, struct rut_err *err)
{
	int first = 0;

	if (t->npids || !t->searched_ms || now_ms() - t->searched_ms >= LOOK_ALL_MS) {
		t->searched_ms = now_ms();
		find_processes(t);
	}
	for (size_t i = 0; i < t->ntaps; i++) {
		struct tap *tap = t->taps[i];
		char path[32];
		int rc;

		snprintf(path, sizeof(path), "/proc/%d/stat", tap->remote.pid);
		tap->gone = access(path, F_OK) != 0;
		if (tap->gone) {
			tap_free(t, tap);
			t->taps[i--] = t->taps[--t->ntaps];
			continue;
		}
		rc = add_events(t, tap);
		if (rc == -ENOSPC || rc == -EDQUOT || rc == -EIO || rc == -EROFS)
			first = first ? first : rc;
		else if (rc)
			rut_debug("process %d: no ring: %s", tap->remote.pid, strerror(-rc));
	}
	return first ? rut_err_errno(err, -first, "cannot write to '%s'", t->dir) : 0;
}

int rut_usdt_taps_new(struct rut_usdt_taps **ret, const char *const *globs, size_t nglobs,
		      const pid_t *pids, size_t npids, struct rut_err *err)
{
	struct rut_usdt_taps *t = calloc(1, sizeof(*t));

	if (!t)
		return rut_err_set(err, ENOMEM, "out of memory");
	*t = (struct rut_usdt_taps){.globs = globs, .nglobs = nglobs, .pids = pids, .npids = npids};
	*ret = t;
	return 0;
}

int rut_usdt_taps_open(struct rut_usdt_taps *t, const char *dir, struct rut_err *err)
{
	char *copy = strdup(dir);

	if (!copy)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < t->ntaps; i++) {
		drain(t, t->taps[i]);
		close_files(t->taps[i]);
		memset(t->taps[i]->described, 0, sizeof(t->taps[i]->described));
	}
	free(t->dir);
	t->dir = copy;
	t->looked_ms = now_ms();
	return look(t, err);
}

int64_t rut_usdt_taps_step(struct rut_usdt_taps *t, struct rut_err *err)
{
	int64_t packets = 0, n;
	int rc;

	if (now_ms() - t->looked_ms >= LOOK_MS) {
		t->looked_ms = now_ms();
		rc = look(t, err);
		if (rc)
			return rc;
		for (size_t i = 0; i < t->ntaps; i++)
			if (t->taps[i]->ring.ctl)
				rut_ring_flush(&t->taps[i]->ring);
	}
	for (size_t i = 0; i < t->ntaps; i++) {
		n = drain(t, t->taps[i]);
		if (n < 0)
			return rut_err_errno(err, (int)-n, "cannot write to '%s'", t->dir);
		packets += n;
	}
	return packets;
}

void rut_usdt_taps_end(struct rut_usdt_taps *t, size_t *ret_processes, uint64_t *ret_lost,
		       uint64_t *ret_bytes, uint64_t *ret_packets)
{
	for (size_t i = 0; i < t->ntaps; i++)
		tap_free(t, t->taps[i]);
	t->ntaps = 0;
	*ret_processes = t->processes;
	*ret_lost = t->lost;
	*ret_bytes = t->bytes;
	*ret_packets = t->packets;
}

void rut_usdt_taps_free(struct rut_usdt_taps *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->ntaps; i++)
		tap_free(t, t->taps[i]);
	free(t->taps);
	free(t->dir);
	free(t);
}
