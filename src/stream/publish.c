/* SPDX-License-Identifier: MIT */
#include "stream/publish.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "stream/conn.h"
#include "stream/tls.h"

enum { TIMEOUT_MS = 5000, STATUS_BYTES = 12 };

struct http {
	bool tls;
	char host[256];
	uint16_t port;
	const char *path; /* borrowed; "": "/" */
};

/* "HOST[:PORT][/PATH]" or "[ADDRESS]..." */
static int parse_http(const char *url, struct http *ret, struct rut_err *err)
{
	const bool tls = !strncmp(url, "https://", 8), bracket = url[tls ? 8 : 7] == '[';
	const char *host = url + (tls ? 8 : 7) + bracket;
	size_t len = strcspn(host, bracket ? "]" : ":/?");
	const char *p = host + len + (bracket && host[len] == ']');
	char *end;

	*ret = (struct http){.tls = tls, .port = tls ? 443 : 80};
	for (const char *c = url; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			return rut_err_set(err, EINVAL, "invalid address '%s'", url);
	if (!len || len >= sizeof(ret->host))
		return rut_err_set(err, EINVAL, "invalid host in '%s'", url);
	snprintf(ret->host, sizeof(ret->host), "%.*s", (int)len, host);
	if (*p == ':') {
		unsigned long port = isdigit((unsigned char)p[1]) ? strtoul(p + 1, &end, 10) : 0;

		if (!port || port > 65535)
			return rut_err_set(err, EINVAL, "invalid port in '%s'", url);
		ret->port = (uint16_t)port;
		p = end;
	}
	if (*p && *p != '/')
		return rut_err_set(err, EINVAL, "invalid path in '%s'", url);
	ret->path = p;
	return 0;
}

/* Statuses after which the same request may succeed. */
static bool is_passing(const char *status)
{
	static const char *const statuses[] = {"408", "429", "500", "502", "503", "504"};

	for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++)
		if (!strncmp(status, statuses[i], 3))
			return true;
	return false;
}

static int exchange(struct rut_conn *l, const struct http *h, const char *type, const char *data,
		    size_t len, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	const bool bracket = strchr(h->host, ':') != NULL;
	char status[STATUS_BYTES + 1] = "";
	int rc;

	rut_buf_printf(&b,
		       "POST %s HTTP/1.1\r\nHost: %s%s%s:%u\r\nUser-Agent: rutile\r\n"
		       "Content-Type: %s\r\nContent-Length: %zu\r\n"
		       "Connection: close\r\n\r\n",
		       *h->path ? h->path : "/", bracket ? "[" : "", h->host, bracket ? "]" : "",
		       h->port, type, len);
	rut_buf_add(&b, data, len);
	rc = b.failed ? -ENOMEM : rut_conn_send(l, b.data, b.len);
	if (!rc)
		rc = rut_conn_recv(l, status, STATUS_BYTES);
	if (rc)
		return rut_err_errno(err, -rc, "no answer from '%s'", h->host);
	if (strncmp(status, "HTTP/1.", 7) != 0 || status[8] != ' ')
		return rut_err_set(err, EPROTO, "'%s' does not speak HTTP", h->host);
	if (status[9] != '2')
		return rut_err_set(err, is_passing(status + 9) ? EBUSY : EREMOTEIO,
				   "'%s' answers with status %.3s", h->host, status + 9);
	return 0;
}

static int publish_http(const char *url, const char *tls, const char *type, const char *data,
			size_t len, struct rut_err *err)
{
	struct rut_tls_conf *conf = NULL;
	struct rut_conn l = {.fd = -1};
	struct http h;
	int rc = parse_http(url, &h, err);

	if (!rc && h.tls)
		rc = rut_tls_conf_new(&conf, tls ? tls : RUT_TLS_DIR, false, err);
	if (!rc)
		rc = rut_conn_connect(&l, h.host, h.port, TIMEOUT_MS, err);
	if (!rc && h.tls)
		rc = rut_conn_secure(&l, conf, h.host, err);
	if (!rc)
		rc = exchange(&l, &h, type, data, len, err);
	rut_conn_close(&l);
	rut_tls_conf_free(conf);
	return rc;
}

int rut_publish(const char *url, const char *tls, const char *type, const char *data, size_t len,
		struct rut_err *err)
{
	if (!strncmp(url, "http://", 7) || !strncmp(url, "https://", 8))
		return publish_http(url, tls, type, data, len, err);
	return rut_nats_publish(url, tls, data, len, err);
}
