/* SPDX-License-Identifier: MIT */
#include "stream/nats_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/glob.h"
#include "stream/nats_conn.h"
#include "stream/nats_store.h"
#include "stream/nats_wire.h"

#define CONNECT_MS  2000
#define REPLY_MS    10000
#define NAMES_MAX   65536 /* sessions */
#define SUBJECT_MAX 4096

/* "HOST.SESSION" as in subjects. */
struct names {
	char **list; /* owned, and each */
	size_t n;
};

struct reader {
	const struct rut_nats_read_conf *conf;
	struct rut_nats_read_stats *stats;
	struct rut_nats_store *store; /* owned */
	natsConnection *nc;	      /* owned */
	uint64_t first, last;	      /* messages of the stream at the begin */
	struct names sessions;
	unsigned char *bytes; /* of a message; owned */
	size_t cap;
};

/* ---- The server's replies ---- */

/* The text or number behind a key of a reply. Its only texts with quotes are its errors'. */
static const char *value_of(const char *json, const char *key)
{
	const char *p = strstr(json, key);

	return p ? p + strlen(key) : NULL;
}

static int ask(struct reader *r, const char *verb, const char *request, natsMsg **ret,
	       struct rut_err *err)
{
	char subject[128];
	natsStatus st;

	snprintf(subject, sizeof(subject), "$JS.API.STREAM.%s.%s", verb, r->conf->url.stream);
	st = rut_nats.natsConnection_Request(ret, r->nc, subject, request, (int)strlen(request),
					     REPLY_MS);
	return st == NATS_OK ? 0
			     : rut_nats_error(err, st,
					      "cannot read the stream (is JetStream on, and is "
					      "$JS.API.STREAM.> allowed?)");
}

/* 0; 404 when there is nothing; -EIO. */
static int refused(const struct reader *r, const char *json, struct rut_err *err)
{
	const char *error = value_of(json, "\"error\":{"), *code, *text;

	if (!error)
		return 0;
	code = value_of(error, "\"code\":");
	text = value_of(error, "\"description\":\"");
	if (code && atoi(code) == 404)
		return 404;
	return rut_err_set(err, EIO, "cannot read the stream '%s': %.*s", r->conf->url.stream,
			   text ? (int)strcspn(text, "\"") : 0, text ? text : "");
}

static int value(char c)
{
	return c >= 'A' && c <= 'Z'   ? c - 'A'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 26
	       : c >= '0' && c <= '9' ? c - '0' + 52
	       : c == '+'	      ? 62
	       : c == '/'	      ? 63
				      : -1;
}

/* Base64 up to the quotation mark. Returns the number of bytes, or -errno. */
static int64_t decode(struct reader *r, const char *text)
{
	const size_t len = strcspn(text, "\"");
	uint32_t bits = 0;
	int have = 0;
	size_t n = 0;

	if (len / 4 * 3 + 3 > r->cap) {
		unsigned char *more = realloc(r->bytes, len / 4 * 3 + 3);

		if (!more)
			return -ENOMEM;
		r->bytes = more;
		r->cap = len / 4 * 3 + 3;
	}
	for (size_t i = 0; i < len && text[i] != '='; i++) {
		const int v = value(text[i]);

		if (v < 0)
			return -EBADMSG;
		bits = bits << 6 | (uint32_t)v;
		have += 6;
		if (have >= 8) {
			have -= 8;
			r->bytes[n++] = (unsigned char)(bits >> have);
		}
	}
	return (int64_t)n;
}

/* ---- Hosts and sessions ---- */

static int add_name(struct names *names, const char *text, size_t len)
{
	char **more;

	for (size_t i = names->n; i-- > 0;)
		if (strlen(names->list[i]) == len && !memcmp(names->list[i], text, len))
			return 0;
	if (names->n == NAMES_MAX)
		return -E2BIG;
	more = reallocarray(names->list, names->n + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	names->list = more;
	more[names->n] = strndup(text, len);
	return more[names->n] ? (names->n++, 0) : -ENOMEM;
}

/* One subject of the server's list. */
static int take_subject(struct reader *r, const char *text, size_t len)
{
	const char *host = text + strlen(RUT_NATS_PREFIX) + 1, *session, *end;
	struct rut_nats_subject to;
	char subject[SUBJECT_MAX];

	if (len >= sizeof(subject))
		return 0;
	memcpy(subject, text, len);
	subject[len] = '\0';
	if (rut_nats_subject_get(subject, &to) || !rut_glob_string(r->conf->hosts, to.host) ||
	    !rut_glob_string(r->conf->sessions, to.session))
		return 0;
	len -= (size_t)(host - text);
	session = memchr(host, '.', len);
	end = session ? memchr(session + 1, '.', len - (size_t)(session + 1 - host)) : NULL;
	return end ? add_name(&r->sessions, host, (size_t)(end - host)) : 0;
}

/* Those of a reply, "SUBJECT":MESSAGES each. Returns how many, or -errno. */
static int64_t take_subjects(struct reader *r, const char *json)
{
	const char *p = value_of(json, "\"subjects\":{");
	int64_t n = 0;

	for (; p && *p == '"'; n++) {
		const char *end = p + 1;
		int rc;

		while (*end && *end != '"')
			end += *end == '\\' && end[1] ? 2 : 1;
		rc = take_subject(r, p + 1, (size_t)(end - p - 1));
		if (rc)
			return rc;
		p = end + strcspn(end, ",}");
		p += *p == ',';
	}
	return n;
}

static void put_token(struct rut_buf *b, const char *glob)
{
	if (strpbrk(glob, "*?[\\"))
		rut_buf_printf(b, ".*");
	else
		rut_nats_token_put(b, glob);
}

/* The server lists so many subjects at a time: those from `offset` on. Returns 0, or -errno. */
static int ask_subjects(struct reader *r, uint64_t offset, natsMsg **ret, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	rut_buf_printf(&b, "{\"offset\":%" PRIu64 ",\"subjects_filter\":\"" RUT_NATS_PREFIX,
		       offset);
	put_token(&b, r->conf->hosts);
	put_token(&b, r->conf->sessions);
	rut_buf_printf(&b, ".>\"}");
	return b.failed ? rut_err_set(err, ENOMEM, "out of memory")
			: ask(r, "INFO", b.data, ret, err);
}

/* The numbers of the first and last message. */
static int take_range(struct reader *r, const char *json, struct rut_err *err)
{
	const char *first = value_of(json, "\"first_seq\":"),
		   *last = value_of(json, "\"last_seq\":");

	if (!first || !last)
		return rut_err_set(err, EPROTO, "the server does not describe the stream");
	r->first = strtoull(first, NULL, 10);
	r->last = strtoull(last, NULL, 10);
	return 0;
}

/*
 * Takes one reply's subjects and counts them in *listed; *total: how many there are. One that is
 * gone meanwhile moves the others, so that some may be missed.
 */
static int look_on(struct reader *r, uint64_t *listed, uint64_t *total, struct rut_err *err)
{
	const uint64_t before = *total;
	natsMsg *msg = NULL;
	const char *json, *text;
	int64_t n = 0;
	int rc = ask_subjects(r, *listed, &msg, err);

	if (rc)
		return rc;
	json = rut_nats.natsMsg_GetData(msg);
	rc = refused(r, json, err);
	if (rc == 404)
		rc = rut_err_set(err, ENOENT, "there is no stream '%s'", r->conf->url.stream);
	if (!rc && !*listed)
		rc = take_range(r, json, err);
	if (!rc)
		n = take_subjects(r, json);
	if (n < 0)
		rc = rut_err_errno(err, (int)-n, "cannot list the hosts");
	text = value_of(json, "\"total\":");
	*listed += n > 0 ? (uint64_t)n : 0;
	*total = text ? strtoull(text, NULL, 10) : *listed;
	rut_nats.natsMsg_Destroy(msg);
	if (!rc && (*total < before || (!n && *listed < *total)))
		rc = rut_err_set(err, EAGAIN,
				 "the server lists %" PRIu64 " of %" PRIu64
				 " subjects of the stream '%s', which changes meanwhile: try again",
				 *listed, before > *total ? before : *total, r->conf->url.stream);
	return rc;
}

/* The numbers of the first and last message, and whose traces they are. */
static int look(struct reader *r, struct rut_err *err)
{
	uint64_t listed = 0, total = 0;
	int rc;

	do
		rc = look_on(r, &listed, &total, err);
	while (!rc && listed < total);
	return rc;
}

/* ---- Messages ---- */

/* Takes a message. *ret_next: where to go on; 0: it was the last one. */
static int take(struct reader *r, const char *json, uint64_t *ret_next, struct rut_err *err)
{
	const char *subject = value_of(json, "\"subject\":\""), *seq = value_of(json, "\"seq\":"),
		   *data = value_of(json, "\"data\":\"");
	char name[SUBJECT_MAX];
	int64_t len;
	int rc;

	*ret_next = 0;
	if (!subject || !seq || strcspn(subject, "\"") >= sizeof(name))
		return rut_err_set(err, EPROTO, "the server's message has no subject or number");
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(subject, "\""), subject);
	*ret_next = strtoull(seq, NULL, 10) + 1;
	if (*ret_next > r->last + 1) {
		*ret_next = 0;
		return 0;
	}
	len = data ? decode(r, data) : 0;
	if (len == -ENOMEM)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = len < 0 ? (int)len : rut_nats_store_put(r->store, name, r->bytes, (size_t)len);
	r->stats->messages++;
	r->stats->bytes += len > 0 ? (uint64_t)len : 0;
	if (rc == -EBADMSG || rc == -E2BIG || rc == -EAGAIN || rc == RUT_NATS_OVER_LIMIT) {
		r->stats->bad++;
		return 0;
	}
	return rc < 0 ? rut_err_errno(err, -rc, "cannot store a message in '%s'", r->conf->dir) : 0;
}

static int read_session(struct reader *r, const char *name, struct rut_err *err)
{
	int rc = 0;

	for (uint64_t seq = r->first; seq && seq <= r->last && !rc;) {
		char request[SUBJECT_MAX];
		natsMsg *msg = NULL;

		snprintf(request, sizeof(request),
			 "{\"seq\":%" PRIu64 ",\"next_by_subj\":\"" RUT_NATS_PREFIX ".%s.>\"}", seq,
			 name);
		rc = ask(r, "MSG.GET", request, &msg, err);
		if (rc)
			return rc;
		rc = refused(r, rut_nats.natsMsg_GetData(msg), err);
		seq = 0;
		if (!rc)
			rc = take(r, rut_nats.natsMsg_GetData(msg), &seq, err);
		rut_nats.natsMsg_Destroy(msg);
	}
	return rc == 404 ? 0 : rc;
}

static int read_all(struct reader *r, struct rut_err *err)
{
	int rc = look(r, err);

	if (!rc && !r->sessions.n)
		return rut_err_set(err, ENOENT, "the stream '%s' has nothing of a host '%s'%s%s%s",
				   r->conf->url.stream, r->conf->hosts,
				   strcmp(r->conf->sessions, "*") ? " and a session '" : "",
				   strcmp(r->conf->sessions, "*") ? r->conf->sessions : "",
				   strcmp(r->conf->sessions, "*") ? "'" : "");
	for (size_t i = 0; i < r->sessions.n && !rc; i++)
		rc = read_session(r, r->sessions.list[i], err);
	return rc;
}

int rut_nats_read(const struct rut_nats_read_conf *conf, struct rut_nats_read_stats *ret,
		  struct rut_err *err)
{
	const struct rut_nats_conn_conf to = {
		.url = &conf->url, .dir = conf->tls, .timeout_ms = CONNECT_MS};
	const struct rut_store_limits limits = {.free_bytes = conf->free_bytes};
	struct reader r = {.conf = conf, .stats = ret};
	int rc;

	*ret = (struct rut_nats_read_stats){0};
	rc = rut_nats_store_new(&r.store, conf->dir, &limits, err);
	if (!rc)
		rc = rut_nats_connect(&r.nc, &to, err);
	if (!rc)
		rc = read_all(&r, err);
	for (size_t i = 0; i < r.sessions.n; i++)
		free(r.sessions.list[i]);
	free(r.sessions.list);
	free(r.bytes);
	if (r.nc) {
		rut_nats.natsConnection_Close(r.nc);
		rut_nats.natsConnection_Destroy(r.nc);
	}
	rut_nats_store_free(r.store);
	return rc;
}
