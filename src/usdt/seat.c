/* SPDX-License-Identifier: MIT */
/*
 * Seats: which tools record this process, and how they learn of it and of its children.
 *
 * A tool finds processes by reading /proc, a few times a second. What a process does before that,
 * or all that a short-lived one does, would be lost. So where it can, the process comes to the
 * tool: it makes the ring by itself and sends it to the tool's socket. The ring outlives the
 * process there.
 *
 * Nothing here waits. A tool that does not listen is not there; one that does not accept in time
 * finds the process by reading /proc.
 */
#include "usdt/seat.h"

#ifdef __linux__
#include <errno.h>
#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ring/read.h"
#include "usdt/provider.h"

/* Of this process; a tool may write anything into the page. */
static struct {
	uint64_t token; /* of the tool that the ring was made for */
	uint32_t beat;
	uint64_t beat_ns; /* when it changed */
} seats[RUT_USDT_SEATS];

void rut_usdt_seats_init(struct rut_usdt_ctl *page)
{
	for (unsigned i = 0; i < RUT_USDT_SEATS; i++)
		page->seats[i].fd = RUT_USDT_NO_RING;
}

static void take_bits(struct rut_usdt_ctl *page, uint32_t bits)
{
	uint32_t n = __atomic_load_n(&page->n_slots, __ATOMIC_RELAXED);

	for (uint32_t i = 0; i < n && i < RUT_USDT_CTL_SLOTS; i++)
		__atomic_fetch_and(&page->slots[i].ring, ~bits, __ATOMIC_RELEASE);
}

static void end_seat(struct rut_usdt_ctl *page, unsigned i)
{
	rut_usdt_rings_drop(1u << i);
	take_bits(page, 1u << i);
	seats[i].token = 0;
	__atomic_store_n(&page->seats[i].made_for, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&page->seats[i].fd, RUT_USDT_NO_RING, __ATOMIC_RELEASE);
}

static int begin_seat(struct rut_usdt_ctl *page, unsigned i, uint64_t token)
{
	int fd = rut_usdt_ring_make(i);

	seats[i].token = token;
	seats[i].beat = page->seats[i].beat;
	seats[i].beat_ns = rut_ring_clock();
	__atomic_store_n(&page->seats[i].fd, fd, __ATOMIC_RELEASE);
	__atomic_store_n(&page->seats[i].made_for, token, __ATOMIC_RELEASE);
	return fd;
}

void rut_usdt_seats_serve(struct rut_usdt_ctl *page)
{
	for (unsigned i = 0; i < RUT_USDT_SEATS; i++) {
		struct rut_usdt_seat *seat = &page->seats[i];
		uint64_t token = __atomic_load_n(&seat->token, __ATOMIC_ACQUIRE);

		if (!__atomic_load_n(&seat->want, __ATOMIC_ACQUIRE))
			token = 0;
		if (seats[i].token && seats[i].token != token)
			end_seat(page, i);
		if (token && seats[i].token != token)
			begin_seat(page, i, token);
	}
}

bool rut_usdt_seats_end_leases(struct rut_usdt_ctl *page)
{
	uint64_t now = rut_ring_clock();
	bool any = false;

	for (unsigned i = 0; i < RUT_USDT_SEATS; i++) {
		struct rut_usdt_seat *seat = &page->seats[i];
		uint32_t beat = __atomic_load_n(&seat->beat, __ATOMIC_ACQUIRE);

		if (!seats[i].token)
			continue;
		if (beat != seats[i].beat) {
			seats[i].beat = beat;
			seats[i].beat_ns = now;
		}
		if (now - seats[i].beat_ns < RUT_USDT_RING_LEASE_S * 1000000000ull)
			continue;
		__atomic_store_n(&seat->want, 0, __ATOMIC_RELEASE);
		end_seat(page, i);
		__atomic_store_n(&seat->token, 0, __ATOMIC_RELEASE);
		any = true;
	}
	return any;
}

static bool matches(const char *globs, const char *provider, const char *name)
{
	char full[2 * RUTILE_USDT_NAME_MAX + 2], glob[RUT_USDT_GLOBS_MAX + 1];

	snprintf(full, sizeof(full), "%s:%s", provider, name);
	while (*globs) {
		size_t len = strcspn(globs, "\n");

		memcpy(glob, globs, len);
		glob[len] = 0;
		if (!fnmatch(glob, strchr(glob, ':') ? full : provider, 0))
			return true;
		globs += len + (globs[len] == '\n');
	}
	return false;
}

uint32_t rut_usdt_seats_match(const struct rut_usdt_ctl *page, const char *provider,
			      const char *name)
{
	uint32_t mask = rut_usdt_ring_mask(), bits = 0;

	for (unsigned i = 0; i < RUT_USDT_SEATS; i++) {
		char globs[RUT_USDT_GLOBS_MAX + 1];

		if (!(mask >> i & 1))
			continue;
		memcpy(globs, page->seats[i].globs, sizeof(globs));
		globs[sizeof(globs) - 1] = 0;
		if (matches(globs, provider, name))
			bits |= 1u << i;
	}
	return bits;
}

/* Sends page and ring to the tool. Returns 0 or -errno; -ECONNREFUSED: it is not there. */
static int announce(const struct rut_usdt_ctl *page, unsigned i, int page_fd, int ring_fd)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct rut_usdt_announcement what = {
		.magic = RUT_USDT_CTL_MAGIC, .token = seats[i].token, .seat = i};
	struct iovec iov = {.iov_base = &what, .iov_len = sizeof(what)};
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fds[2] = {page_fd, ring_fd};
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(fds))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control.bytes)};
	size_t len = strnlen(page->seats[i].notify, RUT_USDT_NOTIFY_MAX);

	if (fd < 0)
		return -errno;
	memcpy(to.sun_path + 1, page->seats[i].notify, len);
	if (connect(fd, (void *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)))
		return -errno;
	control.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
					.cmsg_type = SCM_RIGHTS,
					.cmsg_len = CMSG_LEN(sizeof(fds))};
	memcpy(CMSG_DATA(&control.head), fds, sizeof(fds));
	return sendmsg(fd, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Makes the ring of a seat for a tool that does not know this process yet. */
static void open_seat(struct rut_usdt_ctl *page, unsigned i, int fd)
{
	struct rut_usdt_seat *seat = &page->seats[i];
	int ring = begin_seat(page, i, seat->token);

	if (ring >= 0 && announce(page, i, fd, ring) != -ECONNREFUSED)
		return;
	end_seat(page, i);
	seat->want = 0;
	seat->token = 0;
}

void rut_usdt_seats_from_env(struct rut_usdt_ctl *page, int fd)
{
	const char *text = secure_getenv(RUT_USDT_RECORD_ENV), *socket, *globs;
	struct rut_usdt_seat *seat = &page->seats[0];

	socket = text ? strchr(text, ':') : NULL;
	globs = socket ? strchr(socket + 1, ':') : NULL;
	if (!globs || (size_t)(globs - socket) > sizeof(seat->notify) ||
	    strlen(globs + 1) >= sizeof(seat->globs))
		return;
	memcpy(seat->notify, socket + 1, (size_t)(globs - socket) - 1);
	memcpy(seat->globs, globs + 1, strlen(globs + 1) + 1);
	seat->token = strtoull(text, NULL, 16);
	seat->want = 1;
	if (seat->token)
		open_seat(page, 0, fd);
}

void rut_usdt_seats_child(struct rut_usdt_ctl *page, int fd, uint32_t recorded)
{
	for (unsigned i = 0; i < RUT_USDT_SEATS; i++) {
		struct rut_usdt_seat *seat = &page->seats[i];
		bool known = seats[i].token && seats[i].token == seat->token;

		seats[i].token = 0;
		seat->made_for = 0;
		seat->fd = RUT_USDT_NO_RING;
		seat->notify[RUT_USDT_NOTIFY_MAX] = 0;
		if (fd >= 0 && known && recorded >> i & 1 && seat->want && seat->notify[0]) {
			open_seat(page, i, fd);
			continue;
		}
		seat->want = 0;
		seat->token = 0;
		take_bits(page, 1u << i);
	}
}

#endif
