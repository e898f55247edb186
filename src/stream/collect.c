/* SPDX-License-Identifier: MIT */
#include "stream/collect.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "stream/peer.h"

#define MESSAGE_MS    30000
#define SLOWEST	      65536 /* bytes a second of a message that has begun */
#define STRANGER_NS   30000000000ull
#define READ_BYTES    (256u << 10)
#define OUT_MAX	      (1u << 20) /* replies that a peer does not take */
#define LISTENERS     16
#define CLIENT_MEMORY (256u << 20)
#define LOOK_NS	      200000000ull
#define SAY_NS	      1000000000ull

struct conn {
	struct conn *prev, *next;
	int fd;
	bool data, paused, writing;
	char client[64];
	struct rut_peer *peer; /* owned */
	struct rut_buf out;
	size_t sent;			/* of `out` */
	uint64_t opened_ns, message_ns; /* message_ns: when the present message began; 0: none */
	uint64_t message_bytes;
	/* The rate: what it may send now, and since when that grows. */
	double tokens;
	uint64_t tokens_ns;
};

struct rut_collect {
	struct rut_store *store; /* owned */
	struct rut_collect_conf conf;
	int epoll;
	struct {
		int fd;
		bool data;
	} listeners[LISTENERS];
	size_t n_listeners;
	struct conn *conns;
	uint64_t looked_ns, said_ns;
	unsigned char buf[READ_BYTES];
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* ---- listening ---- */

static int listen_one(struct rut_collect *c, const struct addrinfo *ai, bool data)
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
	c->listeners[c->n_listeners++].data = data;
	return 0;
}

static int listen_on(struct rut_collect *c, uint16_t port, bool data, struct rut_err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *all = NULL;
	int rc = -EADDRNOTAVAIL, gai, done = 0;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	gai = getaddrinfo(c->conf.address, service, &hints, &all);
	if (gai)
		return rut_err_set(err, EADDRNOTAVAIL, "cannot listen on '%s': %s",
				   c->conf.address ? c->conf.address : "*", gai_strerror(gai));
	for (const struct addrinfo *ai = all; ai; ai = ai->ai_next) {
		int one = listen_one(c, ai, data);

		/* A machine may have no IPv6. */
		done += !one;
		if (one && one != -EAFNOSUPPORT && one != -EADDRNOTAVAIL)
			rc = one;
	}
	freeaddrinfo(all);
	return done ? 0 : rut_err_errno(err, -rc, "cannot listen on port %u", port);
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
	c->epoll = epoll_create1(EPOLL_CLOEXEC);
	rc = c->epoll < 0 ? rut_err_errno(err, errno, "cannot serve connections")
			  : rut_store_new(&c->store, conf->dir, &conf->limits, err);
	if (!rc)
		rc = listen_on(c, conf->port, false, err);
	if (!rc)
		rc = listen_on(c, conf->data_port, true, err);
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
	rut_buf_fini(&k->out);
	close(k->fd);
	free(k);
}

/* Says why a connection ends; of a flood only one a second is worth a line. */
static void drop(struct rut_collect *c, struct conn *k, const char *why)
{
	uint64_t now = now_ns();

	if (now - c->said_ns >= SAY_NS)
		rut_warn("%s: %s: its connection is closed", k->client, why);
	c->said_ns = now;
	conn_close(c, k);
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

static uint32_t connections_of(const struct rut_collect *c, const char *client)
{
	uint32_t n = 0;

	for (const struct conn *k = c->conns; k; k = k->next)
		n += !strcmp(k->client, client);
	return n;
}

static void accept_one(struct rut_collect *c, int listener, bool data)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	_cleanup_close_ int fd =
		accept4(listener, (void *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	const int on = 1;
	struct conn *k;

	if (fd < 0)
		return;
	k = calloc(1, sizeof(*k));
	if (!k)
		return;
	if (getnameinfo((void *)&from, len, k->client, sizeof(k->client), NULL, 0, NI_NUMERICHOST))
		strcpy(k->client, "?");
	if (connections_of(c, k->client) >= c->conf.limits.connections) {
		free(k);
		return;
	}
	k->peer = rut_peer_new(c->store, k->client, data);
	if (!k->peer) {
		free(k);
		return;
	}
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	k->fd = RUT_TAKE_FD(fd);
	k->data = data;
	k->opened_ns = k->tokens_ns = now_ns();
	k->tokens = (double)c->conf.limits.rate;
	k->next = c->conns;
	if (c->conns)
		c->conns->prev = k;
	c->conns = k;
	watch(c, k, EPOLL_CTL_ADD);
}

/* Sends what replies there are. Returns 0 or -errno. */
static int flush(const struct rut_collect *c, struct conn *k)
{
	bool writing;

	while (k->sent < k->out.len) {
		ssize_t n = send(k->fd, k->out.data + k->sent, k->out.len - k->sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return -errno;
		k->sent += (size_t)n;
	}
	writing = k->sent < k->out.len;
	if (!writing) {
		rut_buf_clear(&k->out);
		k->sent = 0;
	}
	if (writing != k->writing) {
		k->writing = writing;
		watch(c, k, EPOLL_CTL_MOD);
	}
	return k->out.len - k->sent > OUT_MAX ? -EMSGSIZE : 0;
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
		if (!strcmp(other->client, k->client))
			sum += rut_peer_buffered(other->peer);
	return sum > CLIENT_MEMORY;
}

static void serve(struct rut_collect *c, struct conn *k, uint32_t events)
{
	struct rut_err err = RUT_ERR_INIT;
	ssize_t n = 0;
	int rc;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		n = recv(k->fd, c->buf, sizeof(c->buf), 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			conn_close(c, k);
			return;
		}
		rc = rut_peer_feed(k->peer, c->buf, (size_t)n, &k->out, &err);
		k->message_bytes += (uint64_t)n;
		if (!rut_peer_inside(k->peer))
			k->message_ns = 0;
		else if (!k->message_ns || k->message_bytes >= (1u << 20)) {
			k->message_ns = now_ns();
			k->message_bytes = 0;
		}
		if (rc) {
			flush(c, k);
			drop(c, k, err.msg);
			return;
		}
		if (too_much_memory(c, k)) {
			drop(c, k, "too many large packets at once");
			return;
		}
		spend(c, k, (size_t)n);
	}
	if (flush(c, k))
		drop(c, k, "it does not read its replies");
}

/* Connections that take too long, and those that may be read again. */
static void look(struct rut_collect *c)
{
	uint64_t now = now_ns();

	if (now - c->looked_ns < LOOK_NS)
		return;
	c->looked_ns = now;
	for (struct conn *k = c->conns, *next; k; k = next) {
		const uint64_t limit = (uint64_t)c->conf.message_ms * 1000000ull;

		next = k->next;
		earn(c, k, now);
		/* From the last whole MiB on: a message that comes fast enough has its time. */
		if (k->message_ns && !k->paused &&
		    now - k->message_ns > limit + k->message_bytes * 1000000000ull / SLOWEST)
			drop(c, k, "a message does not end");
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

		accept_one(c, c->listeners[i].fd, c->listeners[i].data);
	} else {
		serve(c, ev.data.ptr, ev.events);
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
	rut_closep(&c->epoll);
	free(c);
}
