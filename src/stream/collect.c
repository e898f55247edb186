/* SPDX-License-Identifier: MIT */
#include "stream/collect.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "stream/peer.h"
#include "stream/store_live.h"
#include "stream/tls.h"

#define MESSAGE_MS     30000
#define SLOWEST	       65536 /* bytes a second of a message that has begun */
#define STRANGER_NS    30000000000ull
#define READ_BYTES     (256u << 10)
#define OUT_MAX	       (1u << 20) /* replies that a peer does not take */
#define VIEWER_OUT_MAX (RUT_PEER_PACKET_MAX + OUT_MAX)
#define LISTENERS      16
#define CLIENT_MEMORY  (256u << 20)
#define LOOK_NS	       200000000ull
#define LINGER_NS      2000000000ull
#define SAY_NS	       1000000000ull
#define ACCEPT_MS      10
#define SLOWEST_TAKEN  16384 /* bytes a second of replies that do not fit the socket */
#define HELD_MAX       8192  /* finished files that are open for viewers */

struct conn {
	struct conn *prev, *next;
	int fd;
	enum rut_peer_kind kind;
	bool paused, writing;
	struct rut_tls *tls; /* owned; NULL: none */
	bool secured;	     /* the handshake is done, or there is none */
	char client[64];
	struct rut_peer *peer; /* owned */
	struct rut_buf out;
	size_t sent;			/* of `out` */
	uint64_t opened_ns, message_ns; /* message_ns: when the present message began; 0: none */
	uint64_t message_bytes;
	uint64_t writing_ns, taken; /* writing_ns: since when `taken` counts; 0: all is sent */
	uint64_t dropped_ns;	    /* since then nothing is taken any more; 0: it is served */
	/* The rate: what it may send now, and since when that grows. */
	double tokens;
	uint64_t tokens_ns;
};

struct rut_collect {
	struct rut_store *store;  /* owned */
	struct rut_tls_conf *tls; /* owned; NULL: none */
	struct rut_collect_conf conf;
	int epoll;
	struct {
		int fd;
		enum rut_peer_kind kind;
	} listeners[LISTENERS];
	size_t n_listeners, held_max;
	struct conn *conns;
	uint64_t looked_ns, said_ns;
	unsigned char buf[READ_BYTES];
};

/* ---- listening ---- */

static int listen_one(struct rut_collect *c, const struct addrinfo *ai, enum rut_peer_kind kind)
{
	_cleanup_close_ int fd =
		socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, ai->ai_protocol);
	struct epoll_event ev = {.events = EPOLLIN};
	const int on = 1;

	if (fd < 0 || c->n_listeners == LISTENERS)
		return fd < 0 ? -errno : -E2BIG;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* Each family has a socket of its own. */
	if (ai->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, 256) < 0)
		return -errno;
	ev.data.ptr = &c->listeners[c->n_listeners];
	if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	c->listeners[c->n_listeners].fd = RUT_TAKE_FD(fd);
	c->listeners[c->n_listeners++].kind = kind;
	return 0;
}

static int listen_on(struct rut_collect *c, const char *address, uint16_t port,
		     enum rut_peer_kind kind, struct rut_err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *all = NULL;
	int rc = -EADDRNOTAVAIL, gai, done = 0;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	gai = getaddrinfo(address, service, &hints, &all);
	if (gai)
		return rut_err_set(err, EADDRNOTAVAIL, "cannot listen on '%s': %s",
				   address ? address : "*", gai_strerror(gai));
	for (const struct addrinfo *ai = all; ai; ai = ai->ai_next) {
		int one = listen_one(c, ai, kind);

		/* A machine may have no IPv6. */
		done += !one;
		if (one && one != -EAFNOSUPPORT && one != -EADDRNOTAVAIL)
			rc = one;
	}
	freeaddrinfo(all);
	return done ? 0 : rut_err_errno(err, -rc, "cannot listen on port %u", port);
}

/* Half of the descriptors: each of the streams has two as well. */
static size_t held_max(void)
{
	struct rlimit l;

	return !getrlimit(RLIMIT_NOFILE, &l) && l.rlim_cur / 2 < HELD_MAX ? l.rlim_cur / 2
									  : HELD_MAX;
}

int rut_collect_new(struct rut_collect **ret, const struct rut_collect_conf *conf,
		    struct rut_err *err)
{
	struct rut_collect *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return rut_err_set(err, ENOMEM, "out of memory");
	c->conf = *conf;
	if (!c->conf.message_ms)
		c->conf.message_ms = MESSAGE_MS;
	c->held_max = held_max();
	c->epoll = epoll_create1(EPOLL_CLOEXEC);
	rc = c->epoll < 0 ? rut_err_errno(err, errno, "cannot serve connections")
			  : rut_store_new(&c->store, conf->dir, &conf->limits, err);
	if (!rc && conf->tls)
		rc = rut_tls_conf_new(&c->tls, conf->tls, true, err);
	if (!rc)
		rc = listen_on(c, conf->address, conf->port, RUT_PEER_CONTROL, err);
	if (!rc)
		rc = listen_on(c, conf->address, conf->data_port, RUT_PEER_DATA, err);
	if (!rc && conf->live) {
		rut_store_serve(c->store);
		rc = listen_on(c, conf->live_address, conf->live_port, RUT_PEER_VIEWER, err);
	}
	if (rc)
		rut_collect_free(c);
	else
		*ret = c;
	return rc;
}

/* ---- connections ---- */

static void conn_close(struct rut_collect *c, struct conn *k)
{
	if (k->prev)
		k->prev->next = k->next;
	else
		c->conns = k->next;
	if (k->next)
		k->next->prev = k->prev;
	rut_peer_free(k->peer);
	rut_tls_free(k->tls);
	rut_buf_fini(&k->out);
	close(k->fd);
	free(k);
}

static void watch(const struct rut_collect *c, struct conn *k, int op)
{
	struct epoll_event ev = {.data.ptr = k};

	if (!k->paused)
		ev.events |= EPOLLIN;
	if (k->writing)
		ev.events |= EPOLLOUT;
	epoll_ctl(c->epoll, op, k->fd, &ev);
}

/*
 * Ends a connection, and says why; of a flood only one a second is worth a line. What the peer
 * sends is read and discarded for a moment: a socket that is closed with bytes unread resets the
 * connection, and the peer never sees the last reply.
 */
static void drop(struct rut_collect *c, struct conn *k, const char *why)
{
	uint64_t now = rut_now_ns();

	if (now - c->said_ns >= SAY_NS)
		rut_warn("%s: %s: its connection is closed", k->client, why);
	c->said_ns = now;
	rut_peer_free(k->peer);
	k->peer = NULL;
	rut_buf_fini(&k->out);
	k->out = (struct rut_buf)RUT_BUF_INIT;
	k->sent = 0;
	k->dropped_ns = now;
	k->paused = k->writing = false;
	shutdown(k->fd, SHUT_WR);
	watch(c, k, EPOLL_CTL_MOD);
}

static uint32_t connections_of(const struct rut_collect *c, const char *client)
{
	uint32_t n = 0;

	for (const struct conn *k = c->conns; k; k = k->next)
		n += !strcmp(k->client, client);
	return n;
}

/* A dead peer counts towards the limits: it is found within a minute. */
static void set_options(int fd)
{
	const int on = 1, idle_s = 30, interval_s = 10, count = 3;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void accept_one(struct rut_collect *c, int listener, enum rut_peer_kind kind)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	_cleanup_close_ int fd =
		accept4(listener, (void *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct conn *k;

	if (fd < 0) {
		/* The connection stays in the queue and the listener ready: do not spin. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			poll(NULL, 0, ACCEPT_MS);
		return;
	}
	k = calloc(1, sizeof(*k));
	if (!k)
		return;
	if (getnameinfo((void *)&from, len, k->client, sizeof(k->client), NULL, 0, NI_NUMERICHOST))
		strcpy(k->client, "?");
	if (connections_of(c, k->client) >= c->conf.limits.connections) {
		free(k);
		return;
	}
	k->peer = rut_peer_new(c->store, k->client, kind);
	if (!k->peer) {
		free(k);
		return;
	}
	set_options(fd);
	if (c->tls) {
		k->tls = rut_tls_new(c->tls, fd, NULL);
		if (!k->tls) {
			rut_peer_free(k->peer);
			free(k);
			return;
		}
	}
	k->secured = !c->tls;
	k->fd = RUT_TAKE_FD(fd);
	k->kind = kind;
	k->opened_ns = k->tokens_ns = rut_now_ns();
	k->tokens = (double)c->conf.limits.rate;
	k->next = c->conns;
	if (c->conns)
		c->conns->prev = k;
	c->conns = k;
	watch(c, k, EPOLL_CTL_ADD);
}

static ssize_t conn_send(const struct conn *k, const void *data, size_t len)
{
	ssize_t n;

	if (k->tls)
		return rut_tls_write(k->tls, data, len);
	n = send(k->fd, data, len, MSG_NOSIGNAL);
	return n < 0 ? -errno : n;
}

static ssize_t conn_recv(const struct conn *k, void *data, size_t len)
{
	ssize_t n;

	if (k->tls)
		return rut_tls_read(k->tls, data, len);
	n = recv(k->fd, data, len, 0);
	return n < 0 ? -errno : n;
}

/* Sends what replies there are. Returns 0 or -errno. */
static int flush(const struct rut_collect *c, struct conn *k)
{
	bool writing;

	while (k->sent < k->out.len) {
		ssize_t n = conn_send(k, k->out.data + k->sent, k->out.len - k->sent);

		if (n == -EINTR)
			continue;
		if (n == -EAGAIN)
			break;
		if (n <= 0)
			return n ? (int)n : -ECONNRESET;
		k->sent += (size_t)n;
		k->taken += (size_t)n;
	}
	writing = k->sent < k->out.len;
	if (!writing) {
		rut_buf_clear(&k->out);
		k->sent = 0;
		k->writing_ns = 0;
	} else if (!k->writing_ns) {
		k->writing_ns = rut_now_ns();
		k->taken = 0;
	}
	if (writing != k->writing) {
		k->writing = writing;
		watch(c, k, EPOLL_CTL_MOD);
	}
	return k->out.len - k->sent > (k->kind == RUT_PEER_VIEWER ? VIEWER_OUT_MAX : OUT_MAX)
		       ? -EMSGSIZE
		       : 0;
}

/* Takes bytes from its allowance; without any left it is not read for a while. */
static void spend(const struct rut_collect *c, struct conn *k, size_t bytes)
{
	k->tokens -= (double)bytes;
	if (c->conf.limits.rate && k->tokens < 0 && !k->paused) {
		k->paused = true;
		watch(c, k, EPOLL_CTL_MOD);
	}
}

static void earn(const struct rut_collect *c, struct conn *k, uint64_t now)
{
	const double rate = (double)c->conf.limits.rate;

	k->tokens += rate * (double)(now - k->tokens_ns) / 1e9;
	k->tokens_ns = now;
	if (k->tokens > rate)
		k->tokens = rate;
	if (k->paused && k->tokens > 0) {
		k->paused = false;
		watch(c, k, EPOLL_CTL_MOD);
	}
}

/* Messages that have begun, of all connections of a client: large ones are counted only. */
static bool too_much_memory(const struct rut_collect *c, const struct conn *k)
{
	size_t sum = 0;

	if (rut_peer_buffered(k->peer) < (1u << 20))
		return false;
	for (const struct conn *other = c->conns; other; other = other->next)
		if (other->peer && !strcmp(other->client, k->client))
			sum += rut_peer_buffered(other->peer);
	return sum > CLIENT_MEMORY;
}

/* Notes when the message began that is not complete. */
static void time_message(struct conn *k, size_t bytes)
{
	k->message_bytes += bytes;
	if (!rut_peer_inside(k->peer)) {
		k->message_ns = 0;
	} else if (!k->message_ns || k->message_bytes >= (1u << 20)) {
		k->message_ns = rut_now_ns();
		k->message_bytes = 0;
	}
}

/* Returns false when the connection is closed. */
static bool serve_bytes(struct rut_collect *c, struct conn *k)
{
	struct rut_err err = RUT_ERR_INIT;
	ssize_t n = conn_recv(k, c->buf, sizeof(c->buf));
	int rc;

	if (n == -EAGAIN || n == -EINTR)
		return true;
	if (n <= 0) {
		conn_close(c, k);
		return false;
	}
	rc = rut_peer_feed(k->peer, c->buf, (size_t)n, &k->out, &err);
	time_message(k, (size_t)n);
	if (rc)
		flush(c, k);
	else if (too_much_memory(c, k))
		rut_err_set(&err, ENOMEM, "too many large packets at once");
	if (err.code) {
		drop(c, k, err.msg);
		return false;
	}
	spend(c, k, (size_t)n);
	return true;
}

static bool is_host(void *arg, const char *host)
{
	return rut_tls_is_host(arg, host);
}

/* Returns true when it is done. */
static bool secure(struct rut_collect *c, struct conn *k)
{
	struct rut_err err = RUT_ERR_INIT;
	bool write;
	int rc = rut_tls_handshake(k->tls, &write, &err);

	if (rc == -EAGAIN) {
		if (write != k->writing) {
			k->writing = write;
			watch(c, k, EPOLL_CTL_MOD);
		}
		return false;
	}
	if (rc) {
		drop(c, k, err.msg);
		return false;
	}
	k->secured = true;
	/* With a certificate a client may write for its own host only. */
	if (rut_tls_certified(k->tls))
		rut_peer_certify(k->peer, is_host, k->tls);
	return true;
}

static void serve(struct rut_collect *c, struct conn *k, uint32_t events)
{
	if (k->dropped_ns) {
		if (recv(k->fd, c->buf, sizeof(c->buf), 0) <= 0)
			conn_close(c, k);
		return;
	}
	if (!k->secured && !secure(c, k))
		return;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		do {
			if (!serve_bytes(c, k))
				return;
			/* What TLS has decrypted already makes no descriptor readable. */
		} while (k->tls && rut_tls_pending(k->tls));
	if (flush(c, k))
		drop(c, k, "it does not read its replies");
}

/* Has it taken less of its replies, for as long as a message may last, than the slowest one? */
static bool is_stuck(const struct rut_collect *c, struct conn *k, uint64_t now)
{
	const uint64_t ms = (uint64_t)c->conf.message_ms;

	if (!k->writing_ns || now - k->writing_ns <= ms * 1000000)
		return false;
	/* It may be the receiver that had no time: what the socket takes now counts as well. */
	if (flush(c, k))
		return true;
	if (k->writing_ns && k->taken < ms * SLOWEST_TAKEN / 1000)
		return true;
	if (k->writing_ns)
		k->writing_ns = now;
	k->taken = 0;
	return false;
}

/* Too many files are held for viewers: those that are furthest behind are closed. */
static void release_files(struct rut_collect *c)
{
	while (rut_store_held(c->store) > c->held_max || rut_store_must_release(c->store)) {
		struct conn *last = NULL;
		uint64_t oldest = UINT64_MAX;
		char why[160];

		for (struct conn *k = c->conns; k; k = k->next) {
			const uint64_t holds = k->peer ? rut_peer_oldest(k->peer) : 0;

			if (holds && holds < oldest) {
				oldest = holds;
				last = k;
			}
		}
		if (!last)
			return;
		snprintf(why, sizeof(why),
			 "the viewer that is furthest behind, with %zu finished files open for "
			 "viewers",
			 rut_store_held(c->store));
		drop(c, last, why);
	}
}

/* Connections that take too long, and those that may be read again. */
static void look(struct rut_collect *c)
{
	uint64_t now = rut_now_ns();

	if (now - c->looked_ns < LOOK_NS)
		return;
	c->looked_ns = now;
	for (struct conn *k = c->conns, *next; k; k = next) {
		const uint64_t limit = (uint64_t)c->conf.message_ms * 1000000ull;

		next = k->next;
		if (k->dropped_ns) {
			if (now - k->dropped_ns > LINGER_NS)
				conn_close(c, k);
			continue;
		}
		earn(c, k, now);
		/* From the last whole MiB on: a message that comes fast enough has its time. */
		if (k->message_ns && !k->paused &&
		    now - k->message_ns > limit + k->message_bytes * 1000000000ull / SLOWEST)
			drop(c, k, "a message does not end");
		else if (!k->secured && now - k->opened_ns > STRANGER_NS)
			drop(c, k, "the TLS handshake does not end");
		else if (is_stuck(c, k, now))
			drop(c, k, "it does not read its replies");
		else if (!rut_peer_known(k->peer) && now - k->opened_ns > STRANGER_NS &&
			 !rut_store_knows(c->store, k->client))
			drop(c, k, "it says nothing");
	}
}

static bool is_listener(const struct rut_collect *c, const void *p)
{
	return (const char *)p >= (const char *)c->listeners &&
	       (const char *)p < (const char *)(c->listeners + LISTENERS);
}

int rut_collect_step(struct rut_collect *c, int ms, struct rut_err *err)
{
	struct epoll_event ev;
	int n;

	look(c);
	/* One at a time: serving one connection may close another. */
	n = epoll_wait(c->epoll, &ev, 1, ms < 200 ? ms : 200);
	if (n < 0 && errno != EINTR)
		return rut_err_errno(err, errno, "cannot serve connections");
	if (n <= 0)
		return 0;
	if (is_listener(c, ev.data.ptr)) {
		size_t i = (size_t)((char *)ev.data.ptr - (char *)c->listeners) /
			   sizeof(c->listeners[0]);

		accept_one(c, c->listeners[i].fd, c->listeners[i].kind);
	} else {
		serve(c, ev.data.ptr, ev.events);
		release_files(c);
	}
	return 0;
}

void rut_collect_stats(const struct rut_collect *c, struct rut_store_stats *ret)
{
	rut_store_stats(c->store, ret);
}

void rut_collect_free(struct rut_collect *c)
{
	if (!c)
		return;
	while (c->conns)
		conn_close(c, c->conns);
	for (size_t i = 0; i < c->n_listeners; i++)
		close(c->listeners[i].fd);
	rut_store_free(c->store);
	rut_tls_conf_free(c->tls);
	rut_closep(&c->epoll);
	free(c);
}
