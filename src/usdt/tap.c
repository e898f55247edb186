/* SPDX-License-Identifier: MIT */
/*
 * Recording static tracepoints without the kernel.
 *
 * A process that uses librutile-usdt has a control page (ctl.h). A tap takes a seat there, which
 * gets it a ring, says on the page which tracepoints shall go into it, and moves finished packets
 * into a file. Each process gets a CTF trace of its own, DIR/ruby_static-PID, because its event
 * numbers are its slots.
 *
 * Processes are found by reading /proc. Those that are recorded already announce their children,
 * and the command that a recorder starts announces itself, on the recorder's socket: so nothing is
 * missed before the next search, nor of processes that live shorter than that.
 *
 * The metadata describes an event before a packet that may hold one is written. The same slot may
 * be used again by another tracepoint, and its number would then mean two things; so a tap
 * describes a slot once and leaves later users of it alone.
 */
#include "usdt/tap.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/proc.h"
#include "usdt/tap_process.h"

/* Looking through all processes of a machine costs something: not so often. */
enum { LOOK_MS = 200, LOOK_ALL_MS = 1000, BACKLOG = 4096 };

struct rut_usdt_taps {
	struct rut_usdt_recording rec;
	pid_t *pids; /* owned */
	size_t npids;
	struct rut_usdt_tap **taps; /* owned */
	size_t ntaps;
	int listen_fd; /* -1: no announcements */
	char *env;     /* owned */
	uint64_t looked_ms, searched_ms;
};

static uint64_t now_ms(void)
{
	return rut_ring_clock() / 1000000;
}

/* Takes over *remote. NULL: out of memory. */
static struct rut_usdt_tap *add_tap(struct rut_usdt_taps *t, struct rut_usdt_remote *remote)
{
	struct rut_usdt_tap *tap = rut_usdt_tap_new(remote), **more;

	more = realloc(t->taps, (t->ntaps + 1) * sizeof(*more));
	if (more)
		t->taps = more;
	if (tap && more) {
		t->taps[t->ntaps++] = tap;
		return tap;
	}
	if (tap)
		rut_usdt_tap_end(&t->rec, tap);
	else
		rut_usdt_remote_fini(remote);
	return NULL;
}

static struct rut_usdt_tap *find_tap(const struct rut_usdt_taps *t, pid_t pid)
{
	for (size_t i = 0; i < t->ntaps; i++)
		if (t->taps[i]->remote.pid == pid && !t->taps[i]->gone)
			return t->taps[i];
	return NULL;
}

/* Another program runs in the process if it has another page. */
static void find_page(struct rut_usdt_taps *t, pid_t pid)
{
	struct rut_usdt_tap *tap = find_tap(t, pid);
	struct rut_usdt_remote remote;

	if (rut_usdt_remote_open(&remote, pid, NULL))
		return;
	/* Right after a fork the child has the descriptors of its parent's page and ring. */
	if (remote.page->pid != rut_proc_own_pid(pid)) {
		rut_usdt_remote_fini(&remote);
		return;
	}
	if (tap && tap->remote.ino == remote.ino) {
		rut_usdt_remote_fini(&remote);
		return;
	}
	if (tap)
		tap->gone = true;
	add_tap(t, &remote);
}

/* One announcement: the peer, and the page and ring that came with the message. */
static void greet(struct rut_usdt_taps *t, int conn)
{
	struct rut_usdt_announcement what = {0};
	struct iovec iov = {.iov_base = &what, .iov_len = sizeof(what)};
	int fds[2] = {-1, -1};
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(fds))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control.bytes)};
	struct rut_usdt_remote remote;
	struct rut_usdt_tap *tap;
	struct ucred who = {0};
	socklen_t len = sizeof(who);

	if (recvmsg(conn, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof(what))
		return;
	if (msg.msg_controllen && control.head.cmsg_type == SCM_RIGHTS &&
	    control.head.cmsg_len == CMSG_LEN(sizeof(fds)))
		memcpy(fds, CMSG_DATA(&control.head), sizeof(fds));
	if (fds[0] >= 0 && what.magic == RUT_USDT_CTL_MAGIC && what.token == t->rec.token &&
	    what.seat < RUT_USDT_SEATS && !getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &who, &len) &&
	    who.pid > 0 && !rut_usdt_remote_map(&remote, who.pid, fds[0], NULL)) {
		tap = find_tap(t, who.pid);
		if (tap && tap->remote.ino == remote.ino && tap->ring.ctl) {
			rut_usdt_remote_fini(&remote); /* found by the search already */
		} else {
			if (tap)
				tap->gone = true;
			tap = add_tap(t, &remote);
			if (tap && !rut_usdt_tap_announced(tap, what.seat, fds[1]))
				t->rec.processes++;
		}
	}
	for (unsigned i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void accept_all(struct rut_usdt_taps *t)
{
	for (int i = 0; i < BACKLOG && t->listen_fd >= 0; i++) {
		_cleanup_close_ int conn = accept4(t->listen_fd, NULL, NULL, SOCK_CLOEXEC);

		if (conn < 0)
			return;
		greet(t, conn);
	}
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
			find_page(t, pid);
	}
	if (d)
		closedir(d);
}

static bool is_disk_error(int rc)
{
	return rc == -ENOSPC || rc == -EDQUOT || rc == -EIO || rc == -EROFS;
}

/* Processes that exited, and tracepoints that are new in the others. */
static int follow(struct rut_usdt_taps *t, struct rut_err *err)
{
	int first = 0;

	for (size_t i = 0; i < t->ntaps; i++) {
		struct rut_usdt_tap *tap = t->taps[i];
		int rc;

		if (tap->gone || rut_usdt_tap_is_over(&t->rec, tap)) {
			tap->gone = true;
			t->taps[i--] = t->taps[--t->ntaps];
			rut_usdt_tap_end(&t->rec, tap);
			continue;
		}
		rc = rut_usdt_tap_describe(&t->rec, tap);
		if (is_disk_error(rc))
			first = first ? first : rc;
		else if (rc && rc != -EAGAIN)
			rut_debug("process %d: no ring: %s", tap->remote.pid, strerror(-rc));
	}
	return first ? rut_err_errno(err, -first, "cannot write to '%s'", t->rec.dir) : 0;
}

static int look(struct rut_usdt_taps *t, struct rut_err *err)
{
	if (t->npids || !t->searched_ms || now_ms() - t->searched_ms >= LOOK_ALL_MS) {
		t->searched_ms = now_ms();
		find_processes(t);
	}
	return follow(t, err);
}

/* The patterns as a seat holds them; longer lists stay with this process, which searches. */
static void join_globs(struct rut_usdt_recording *rec)
{
	size_t at = 0;

	for (size_t i = 0; i < rec->nglobs; i++) {
		size_t len = strlen(rec->globs[i]);

		if (at + len + 2 > sizeof(rec->joined) || strchr(rec->globs[i], '\n')) {
			rec->joined[0] = 0;
			return;
		}
		if (i)
			rec->joined[at++] = '\n';
		memcpy(rec->joined + at, rec->globs[i], len + 1);
		at += len;
	}
}

/* The socket for announcements; without it processes are found by searching. */
static void listen_on(struct rut_usdt_taps *t)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	uint64_t secret = 0;
	int fd, n;

	if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
		return;
	snprintf(t->rec.notify, sizeof(t->rec.notify), "rutile-usdt-%016" PRIx64, secret);
	snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "%s", t->rec.notify);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	n = (int)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(t->rec.notify));
	if (fd < 0 || bind(fd, (void *)&at, (socklen_t)n) || listen(fd, BACKLOG)) {
		if (fd >= 0)
			close(fd);
		t->rec.notify[0] = 0;
		return;
	}
	t->listen_fd = fd;
	if (t->rec.joined[0] &&
	    asprintf(&t->env, "%" PRIx64 ":%s:%s", t->rec.token, t->rec.notify, t->rec.joined) < 0)
		t->env = NULL;
}

int rut_usdt_taps_new(struct rut_usdt_taps **ret, const char *const *globs, size_t nglobs,
		      struct rut_err *err)
{
	struct rut_usdt_taps *t = calloc(1, sizeof(*t));

	if (!t)
		return rut_err_set(err, ENOMEM, "out of memory");
	*t = (struct rut_usdt_taps){.rec = {.globs = globs, .nglobs = nglobs}, .listen_fd = -1};
	if (getrandom(&t->rec.token, sizeof(t->rec.token), 0) < 0 || !t->rec.token)
		t->rec.token = rut_ring_clock() | 1;
	join_globs(&t->rec);
	listen_on(t);
	*ret = t;
	return 0;
}

const char *rut_usdt_taps_env(const struct rut_usdt_taps *t)
{
	return t->env;
}

int rut_usdt_taps_add_pid(struct rut_usdt_taps *t, pid_t pid, struct rut_err *err)
{
	pid_t *more = realloc(t->pids, (t->npids + 1) * sizeof(*more));

	if (!more)
		return rut_err_set(err, ENOMEM, "out of memory");
	t->pids = more;
	t->pids[t->npids++] = pid;
	return 0;
}

int rut_usdt_taps_open(struct rut_usdt_taps *t, const char *dir, struct rut_err *err)
{
	char *copy = strdup(dir);

	if (!copy)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < t->ntaps; i++) {
		rut_usdt_tap_drain(&t->rec, t->taps[i]);
		rut_usdt_tap_close_files(t->taps[i]);
	}
	free(t->rec.dir);
	t->rec.dir = copy;
	t->looked_ms = now_ms();
	return look(t, err);
}

int64_t rut_usdt_taps_step(struct rut_usdt_taps *t, struct rut_err *err)
{
	int64_t packets = 0, n;
	int rc;

	accept_all(t);
	if (now_ms() - t->looked_ms >= LOOK_MS) {
		t->looked_ms = now_ms();
		rc = look(t, err);
		for (size_t i = 0; i < t->ntaps && !rc; i++)
			if (t->taps[i]->ring.ctl)
				rut_ring_flush(&t->taps[i]->ring);
	} else {
		rc = follow(t, err);
	}
	if (rc)
		return rc;
	for (size_t i = 0; i < t->ntaps; i++) {
		n = rut_usdt_tap_drain(&t->rec, t->taps[i]);
		if (n < 0)
			return rut_err_errno(err, (int)-n, "cannot write to '%s'", t->rec.dir);
		packets += n;
	}
	return packets;
}

void rut_usdt_taps_end(struct rut_usdt_taps *t, size_t *ret_processes, uint64_t *ret_lost,
		       uint64_t *ret_bytes, uint64_t *ret_packets)
{
	accept_all(t);
	for (size_t i = 0; i < t->ntaps; i++)
		rut_usdt_tap_end(&t->rec, t->taps[i]);
	t->ntaps = 0;
	*ret_processes = t->rec.processes;
	*ret_lost = t->rec.lost;
	*ret_bytes = t->rec.bytes;
	*ret_packets = t->rec.packets;
}

void rut_usdt_taps_free(struct rut_usdt_taps *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->ntaps; i++)
		rut_usdt_tap_end(&t->rec, t->taps[i]);
	if (t->listen_fd >= 0)
		close(t->listen_fd);
	free(t->taps);
	free(t->pids);
	free(t->env);
	free(t->rec.dir);
	free(t);
}
