/* SPDX-License-Identifier: MIT */
#include "stream/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "stream/proto.h"
#include "stream/tls.h"

#define SCHEME "relay://"
#define SECURE "relays://"
#define CHUNK  65536

/* Reads ":PORT" at *p, if it is there. */
static bool get_port(const char **p, uint16_t *port)
{
	unsigned long v;
	char *end;

	if (**p != ':')
		return true;
	if ((*p)[1] < '0' || (*p)[1] > '9')
		return false;
	v = strtoul(*p + 1, &end, 10);
	*p = end;
	*port = (uint16_t)v;
	return v > 0 && v < 65536;
}

/* Reads HOST or [HOST]. Returns what follows it, or NULL. */
static const char *get_host(const char *p, char *ret, size_t size)
{
	const bool bracket = *p == '[';
	const char *host = bracket ? p + 1 : p;
	size_t len = strcspn(host, bracket ? "]" : ":/");

	p = host + len;
	if (!len || len >= size || (bracket && *p != ']'))
		return NULL;
	memcpy(ret, host, len);
	ret[len] = '\0';
	return p + bracket;
}

int rut_url_parse(const char *text, struct rut_url *ret, struct rut_err *err)
{
	const bool tls = !strncmp(text, SECURE, strlen(SECURE));
	const char *p;

	if (rut_nats_url_is(text)) {
		int rc = rut_nats_url_parse(text, &ret->nats_url, err);

		*ret = (struct rut_url){.nats = true, .nats_url = ret->nats_url};
		if (!rc && !ret->nats_url.stream[0])
			rc = rut_err_set(err, EINVAL, "the stream is missing in '%s': /STREAM",
					 text);
		return rc;
	}
	*ret = (struct rut_url){.port = RUT_RELAY_PORT_CTL, .tls = tls};
	if (!tls && strncmp(text, SCHEME, strlen(SCHEME)) != 0)
		return rut_err_set(err, EINVAL,
				   "invalid collector '%s': " SCHEME "HOST[:PORT], " SECURE
				   "HOST[:PORT] or nats://HOST[:PORT]/STREAM",
				   text);
	p = get_host(text + strlen(tls ? SECURE : SCHEME), ret->host, sizeof(ret->host));
	if (!p)
		return rut_err_set(err, EINVAL, "invalid host in '%s'", text);
	if (!get_port(&p, &ret->port))
		return rut_err_set(err, EINVAL, "invalid port in '%s'", text);
	ret->data_port = (uint16_t)(ret->port + 1);
	if (!get_port(&p, &ret->data_port) || (*p && *p != '/') || !ret->data_port)
		return rut_err_set(err, EINVAL, "invalid port in '%s'", text);
	p += *p == '/';
	if (strlen(p) >= sizeof(ret->session) || strchr(p, '/') || *p == '.')
		return rut_err_set(err, EINVAL, "invalid session name in '%s'", text);
	strcpy(ret->session, p);
	return 0;
}

bool rut_live_url_is(const char *text)
{
	return !strncmp(text, SCHEME, strlen(SCHEME)) || !strncmp(text, SECURE, strlen(SECURE));
}

int rut_live_url_parse(const char *text, struct rut_live_url *ret, struct rut_err *err)
{
	const bool tls = !strncmp(text, SECURE, strlen(SECURE));
	const char *p, *slash;

	*ret = (struct rut_live_url){.port = RUT_RELAY_PORT_LIVE, .tls = tls};
	if (!rut_live_url_is(text))
		return rut_err_set(err, EINVAL,
				   "invalid address '%s': " SCHEME "HOST[:PORT]/[MACHINE/]SESSION",
				   text);
	p = get_host(text + strlen(tls ? SECURE : SCHEME), ret->host, sizeof(ret->host));
	if (!p)
		return rut_err_set(err, EINVAL, "invalid host in '%s'", text);
	if (!get_port(&p, &ret->port) || (*p && *p != '/'))
		return rut_err_set(err, EINVAL, "invalid port in '%s'", text);
	p += *p == '/';
	slash = strchr(p, '/');
	if (slash) {
		if ((size_t)(slash - p) >= sizeof(ret->origin) || slash == p)
			return rut_err_set(err, EINVAL, "invalid machine in '%s'", text);
		memcpy(ret->origin, p, (size_t)(slash - p));
		p = slash + 1;
	}
	if (strlen(p) >= sizeof(ret->session) || strchr(p, '/'))
		return rut_err_set(err, EINVAL, "invalid session name in '%s'", text);
	strcpy(ret->session, p);
	return 0;
}

static void set_options(int fd, int timeout_ms)
{
	const struct timeval t = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
	const int on = 1;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* Returns a connected socket or -errno. */
static int connect_one(const struct addrinfo *ai, int timeout_ms)
{
	_cleanup_close_ int fd =
		socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, ai->ai_protocol);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof(int);
	int error = 0, n;

	if (fd < 0)
		return -errno;
	if (connect(fd, ai->ai_addr, ai->ai_addrlen) < 0 && errno != EINPROGRESS)
		return -errno;
	do
		n = poll(&p, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n ? -errno : -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error)
		return error ? -error : -errno;
	if (fcntl(fd, F_SETFL, 0) < 0)
		return -errno;
	set_options(fd, timeout_ms);
	return RUT_TAKE_FD(fd);
}

int rut_conn_connect(struct rut_conn *l, const char *host, uint16_t port, int timeout_ms,
		     struct rut_err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
	int rc = -EHOSTUNREACH, gai;
	char service[8];

	*l = (struct rut_conn){.fd = -1};
	snprintf(service, sizeof(service), "%u", port);
	gai = getaddrinfo(host, service, &hints, &all);
	if (gai)
		return rut_err_set(err, EHOSTUNREACH, "cannot find the host '%s': %s", host,
				   gai_strerror(gai));
	for (const struct addrinfo *ai = all; ai && l->fd < 0; ai = ai->ai_next) {
		rc = connect_one(ai, timeout_ms);
		if (rc >= 0)
			l->fd = rc;
	}
	freeaddrinfo(all);
	return l->fd < 0 ? rut_err_errno(err, -rc, "cannot connect to '%s' port %u", host, port)
			 : 0;
}

/* What a call that did not succeed means: timeouts of the socket are EAGAIN. */
static int failure(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK ? -ETIMEDOUT : -errno;
}

/* A socket that has timed out is not ready, for TLS. */
static int tls_failure(ssize_t n)
{
	return n == -EAGAIN ? -ETIMEDOUT : n ? (int)n : -ECONNRESET;
}

int rut_conn_secure(struct rut_conn *l, struct rut_tls_conf *conf, const char *host,
		    struct rut_err *err)
{
	bool write;
	int rc;

	l->tls = rut_tls_new(conf, l->fd, host);
	if (!l->tls)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = rut_tls_handshake(l->tls, &write, err);
	return rc == -EAGAIN ? rut_err_set(err, ETIMEDOUT, "'%s' does not answer with TLS", host)
			     : rc;
}

static int send_flags(struct rut_conn *l, const void *data, size_t len, int flags)
{
	const char *p = data;

	while (len) {
		ssize_t n = l->tls ? rut_tls_write(l->tls, p, len) : send(l->fd, p, len, flags);

		if (l->tls && n <= 0)
			return tls_failure(n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failure();
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int rut_conn_send(struct rut_conn *l, const void *data, size_t len)
{
	return send_flags(l, data, len, MSG_NOSIGNAL);
}

int rut_conn_send_part(struct rut_conn *l, const void *data, size_t len)
{
	return send_flags(l, data, len, MSG_NOSIGNAL | MSG_MORE);
}

/* Encrypting needs the bytes here. */
static int send_copy(struct rut_conn *l, int fd, off_t at, size_t len)
{
	char buf[CHUNK];

	while (len) {
		ssize_t n = pread(fd, buf, len < sizeof(buf) ? len : sizeof(buf), at);
		int rc;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		rc = rut_conn_send(l, buf, (size_t)n);
		if (rc)
			return rc;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int rut_conn_send_file(struct rut_conn *l, int fd, off_t at, size_t len)
{
	if (l->tls)
		return send_copy(l, fd, at, len);
	while (len) {
		ssize_t n = sendfile(l->fd, fd, &at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? failure() : -EIO; /* the file ends early */
		len -= (size_t)n;
	}
	return 0;
}

int rut_conn_recv(struct rut_conn *l, void *data, size_t len)
{
	char *p = data;

	while (len) {
		ssize_t n = l->tls ? rut_tls_read(l->tls, p, len) : recv(l->fd, p, len, 0);

		if (l->tls && n <= 0)
			return tls_failure(n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? failure() : -ECONNRESET;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

void rut_conn_abort(const struct rut_conn *l)
{
	if (l->fd >= 0)
		shutdown(l->fd, SHUT_RDWR);
}

void rut_conn_close(struct rut_conn *l)
{
	rut_tls_free(l->tls);
	l->tls = NULL;
	rut_closep(&l->fd);
	l->fd = -1;
}
