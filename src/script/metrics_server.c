/* SPDX-License-Identifier: MIT */
/*
 * One client at a time, a second for each as a whole: what scrapes metrics asks every few seconds,
 * and nothing here may hold the script up. Reads of maps need no lock: they are the kernel's.
 */
#include "script/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "script/program.h"
#include "script/symbolize.h"
#include "script/value.h"

#define CLIENT_MS   1000
#define FILE_MS	    1000
#define REQUEST_MAX 8192

struct rut_script_metrics {
	struct rut_script_style style;
	struct rut_script_names names;
	struct rut_script_symbols *symbols; /* owned: of the thread, which has its own */
	const struct rut_script_map *maps;  /* borrowed */
	size_t nmaps;
	int (*text)(void *arg, struct rut_buf *out); /* instead of maps; NULL: none */
	void *arg;
	char *path; /* owned; NULL: a socket */
	int listen_fd, stop_fd;
	unsigned port;
	bool running;
	pthread_t thread;
};

static int get_text(struct rut_script_metrics *m, struct rut_buf *out)
{
	return m->text ? m->text(m->arg, out)
		       : rut_script_metrics_text(&m->style, m->maps, m->nmaps, out);
}

static int write_file(struct rut_script_metrics *m)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	_cleanup_free_ char *temporary = NULL;
	FILE *f;
	bool ok;
	int fd;

	if (get_text(m, &text) || asprintf(&temporary, "%s.%d", m->path, getpid()) < 0)
		return -ENOMEM;
	/* One that a process of the same PID left. Links are not followed: this may run as root. */
	unlink(temporary);
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	f = fdopen(fd, "w");
	if (!f) {
		close(fd);
		unlink(temporary);
		return -ENOMEM;
	}
	ok = fwrite(text.data, 1, text.len, f) == text.len;
	if (fclose(f) || !ok || rename(temporary, m->path)) {
		int rc = -errno;

		unlink(temporary);
		return rc ? rc : -EIO;
	}
	return 0;
}

struct client {
	int fd, stop_fd;
	int64_t deadline; /* in ms of the monotonic clock */
};

static int64_t now_ms(void)
{
	return (int64_t)rut_now_ms();
}

/* False: the client's time is over, or the script ends. */
static bool wait_client(const struct client *c, short events)
{
	struct pollfd fds[2] = {{.fd = c->stop_fd, .events = POLLIN},
				{.fd = c->fd, .events = events}};
	int n;

	do {
		int64_t left = c->deadline - now_ms();

		if (left <= 0)
			return false;
		n = poll(fds, 2, (int)left);
	} while (n < 0 && errno == EINTR);
	return n > 0 && !fds[0].revents;
}

/* Reads the request up to its empty line; what it asks for makes no difference but its path. */
static bool read_request(const struct client *c, char *text, size_t room)
{
	size_t len = 0;

	while (len < room - 1) {
		ssize_t n = wait_client(c, POLLIN) ? recv(c->fd, text + len, room - 1 - len, 0) : 0;

		if (n < 0 && errno == EAGAIN)
			continue;
		if (n <= 0)
			return false;
		len += (size_t)n;
		text[len] = '\0';
		if (strstr(text, "\r\n\r\n") || strstr(text, "\n\n"))
			return true;
	}
	return false;
}

static void send_all(const struct client *c, const char *data, size_t len)
{
	while (len) {
		ssize_t n = wait_client(c, POLLOUT) ? send(c->fd, data, len, MSG_NOSIGNAL) : 0;

		if (n < 0 && errno == EAGAIN)
			continue;
		if (n <= 0)
			return;
		data += n;
		len -= (size_t)n;
	}
}

static void serve(struct rut_script_metrics *m, int fd)
{
	const struct client c = {fd, m->stop_fd, now_ms() + CLIENT_MS};
	_cleanup_buf_ struct rut_buf head = RUT_BUF_INIT, body = RUT_BUF_INIT;
	char request[REQUEST_MAX];
	bool is_head;

	if (!read_request(&c, request, sizeof(request)))
		return;
	is_head = !strncmp(request, "HEAD ", 5);
	if (!is_head && strncmp(request, "GET ", 4) != 0) {
		rut_buf_puts(&head, "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\n"
				    "Content-Length: 0\r\nConnection: close\r\n\r\n");
	} else if (strncmp(strchr(request, ' ') + 1, "/metrics", 8) != 0 &&
		   strncmp(strchr(request, ' ') + 1, "/ ", 2) != 0) {
		rut_buf_puts(&head, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n"
				    "Connection: close\r\n\r\n");
	} else {
		get_text(m, &body);
		rut_buf_printf(&head,
			       "HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; "
			       "version=1.0.0; charset=utf-8\r\nContent-Length: %zu\r\n"
			       "Connection: close\r\n\r\n",
			       body.len);
	}
	send_all(&c, head.data, head.len);
	if (!is_head && body.data)
		send_all(&c, body.data, body.len);
}

static void *run(void *arg)
{
	struct rut_script_metrics *m = arg;
	struct pollfd fds[2] = {{.fd = m->stop_fd, .events = POLLIN},
				{.fd = m->listen_fd, .events = POLLIN}};

	for (;;) {
		int n = poll(fds, 2, m->path ? FILE_MS : -1);

		if (n < 0 && errno != EINTR)
			return NULL;
		if (n > 0 && fds[0].revents)
			return NULL;
		if (m->path) {
			write_file(m);
		} else if (n > 0 && fds[1].revents) {
			int fd = accept4(m->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

			if (fd >= 0) {
				serve(m, fd);
				close(fd);
			}
		}
	}
}

/* "9100", "0.0.0.0:9100", "[::1]:9100": host and port, of which the host may be missing. */
static bool split_address(char *where, const char **host, const char **port)
{
	char *colon = strrchr(where, ':');

	*host = "127.0.0.1";
	*port = where;
	if (colon) {
		*colon = '\0';
		*port = colon + 1;
		*host = where;
		if (where[0] == '[' && colon > where && colon[-1] == ']') {
			colon[-1] = '\0';
			*host = where + 1;
		}
	}
	return **port && strspn(*port, "0123456789") == strlen(*port) && **host;
}

static int listen_at(struct rut_script_metrics *m, const char *where, struct rut_err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST},
			*found = NULL;
	_cleanup_free_ char *copy = strdup(where);
	struct sockaddr_storage bound;
	socklen_t len = sizeof(bound);
	const char *host, *port;
	char name[16];
	int on = 1, rc = 0;

	if (!copy)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (!split_address(copy, &host, &port) || strtoul(port, NULL, 10) > 65535 ||
	    getaddrinfo(host, port, &hints, &found))
		return rut_err_set(err, EINVAL,
				   "invalid address '%s'; give PORT, ADDRESS:PORT or the path of "
				   "a file",
				   where);
	m->listen_fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (m->listen_fd < 0 ||
	    setsockopt(m->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(m->listen_fd, found->ai_addr, found->ai_addrlen) || listen(m->listen_fd, 8) ||
	    getsockname(m->listen_fd, (struct sockaddr *)&bound, &len))
		rc = rut_err_errno(err, errno, "cannot serve metrics at '%s'", where);
	freeaddrinfo(found);
	if (!rc && !getnameinfo((struct sockaddr *)&bound, len, NULL, 0, name, sizeof(name),
				NI_NUMERICSERV))
		m->port = (unsigned)strtoul(name, NULL, 10);
	return rc;
}

static int open_target(struct rut_script_metrics *m, const char *where, struct rut_err *err)
{
	int rc;

	/* A path has a '/', so that "9100" is a port and "./9100" a file. */
	if (!strchr(where, '/') && (strchr(where, ':') || strspn(where, "0123456789")))
		return listen_at(m, where, err);
	m->path = strdup(where);
	rc = m->path ? write_file(m) : -ENOMEM;
	return rc ? rut_err_errno(err, -rc, "cannot write '%s'", where) : 0;
}

/* Takes over `m`, whose contents are set. */
static int start(struct rut_script_metrics **ret, struct rut_script_metrics *m, const char *where,
		 struct rut_err *err)
{
	int rc;

	m->listen_fd = -1;
	m->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (m->stop_fd < 0 || rut_script_symbols_new(&m->symbols)) {
		rc = rut_err_set(err, ENOMEM, "out of memory");
	} else {
		rut_script_symbols_fill(m->symbols, &m->names);
		m->style.names = &m->names;
		rc = open_target(m, where, err);
	}
	if (!rc) {
		rc = pthread_create(&m->thread, NULL, run, m);
		m->running = !rc;
		if (rc)
			rc = rut_err_errno(err, rc, "cannot start a thread");
	}
	if (rc) {
		rut_script_metrics_stop(m);
		return rc;
	}
	*ret = m;
	return 0;
}

int rut_script_metrics_start(struct rut_script_metrics **ret, const char *where,
			     const struct rut_script_style *style,
			     const struct rut_script_map *maps, size_t nmaps, struct rut_err *err)
{
	struct rut_script_metrics *m = calloc(1, sizeof(*m));

	if (!m)
		return rut_err_set(err, ENOMEM, "out of memory");
	m->style = *style;
	m->maps = maps;
	m->nmaps = nmaps;
	if (style->names)
		m->names = *style->names;
	return start(ret, m, where, err);
}

int rut_script_metrics_start_text(struct rut_script_metrics **ret, const char *where,
				  int (*fn)(void *arg, struct rut_buf *out), void *arg,
				  struct rut_err *err)
{
	struct rut_script_metrics *m = calloc(1, sizeof(*m));

	if (!m)
		return rut_err_set(err, ENOMEM, "out of memory");
	m->text = fn;
	m->arg = arg;
	return start(ret, m, where, err);
}

void rut_script_metrics_stop(struct rut_script_metrics *m)
{
	if (!m)
		return;
	if (m->running) {
		eventfd_write(m->stop_fd, 1);
		pthread_join(m->thread, NULL);
		if (m->path)
			write_file(m);
	}
	if (m->listen_fd >= 0)
		close(m->listen_fd);
	if (m->stop_fd >= 0)
		close(m->stop_fd);
	rut_script_symbols_free(m->symbols);
	free(m->path);
	free(m);
}

unsigned rut_script_metrics_port(const struct rut_script_metrics *m)
{
	return m->port;
}
