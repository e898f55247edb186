/* SPDX-License-Identifier: MIT */
/*
 * A sender's link to NATS JetStream: a packet is a message (nats_wire.h), or several when it is
 * larger than the server takes. Published without waiting; a batch is confirmed when the stream has
 * acknowledged each message, which means that it is stored, and replicated if it is to be.
 *
 * Nothing of a packet is changed but the count of lost events, where packets were dropped: a
 * receiver can put it where it is in our file, less what was dropped before it. After a break the
 * unconfirmed ones are sent again, and a receiver writes the same bytes to the same place.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "stream/nats_conn.h"
#include "stream/nats_wire.h"
#include "stream/sender_internal.h"

#define PENDING_MESSAGES 4096
#define CONNECT_MS	 2000
#define HEADERS		 2048 /* bytes that headers may need of a message */

struct rut_nats_sender {
	struct rut_nats_sender *next; /* of those that acknowledgements are for */
	const char *stream;	      /* its name */
	natsConnection *nc;	      /* NULL: not connected */
	jsCtx *js;
	size_t piece;	      /* bytes of content in a message */
	uint64_t created_s;   /* of the session */
	uint32_t chunk;	      /* number of the present one */
	uint32_t attempt;     /* connections that were tried */
	struct rut_buf buf;   /* a head and a piece */
	struct rut_buf where; /* a subject */
	struct rut_buf id;    /* of a message */
	/* Under `acks`, since libnats's threads write them. */
	pthread_cond_t wake;
	uintptr_t connection; /* number of the present one; 0: none */
	uint64_t published, acked;
	bool cancelled;
	struct rut_err failed; /* the first message that was refused */
};

/*
 * libnats may still call on_ack(), or be inside of it, when the connection and its context are
 * destroyed: it gets the number of a connection, and looks for the sender that has it.
 */
static pthread_mutex_t acks = PTHREAD_MUTEX_INITIALIZER;
static struct rut_nats_sender *senders;
static uintptr_t last_connection;

static void explain(struct rut_err *err, const char *stream, natsStatus st, const char *text)
{
	if (st == NATS_NO_RESPONDERS)
		rut_err_set(err, ENOENT,
			    "there is no stream '%s' for rutile.*: 'rutile collect' makes it",
			    stream);
	else if (st == NATS_TIMEOUT)
		rut_err_set(err, ETIMEDOUT,
			    "the stream '%s' does not acknowledge: is it there, and do we have the "
			    "right to publish?",
			    stream);
	else
		rut_err_set(err, EIO, "the stream '%s' refuses: %s", stream,
			    text && text[0] ? text : rut_nats.natsStatus_GetText(st));
}

static void on_ack(jsCtx *js, natsMsg *msg, jsPubAck *ack, jsPubAckErr *bad, void *closure)
{
	struct rut_nats_sender *n;

	(void)js;
	(void)ack;
	pthread_mutex_lock(&acks);
	for (n = senders; n && n->connection != (uintptr_t)closure;)
		n = n->next;
	if (n) {
		n->acked++;
		if (bad && !n->failed.code)
			explain(&n->failed, n->stream, bad->Err, bad->ErrText);
		/* The thread has no use for less than all of it. */
		if (n->acked >= n->published || n->failed.code)
			pthread_cond_signal(&n->wake);
	}
	pthread_mutex_unlock(&acks);
	rut_nats.natsMsg_Destroy(msg);
}

/* ---- messages ---- */

static void set_subject(const struct rut_sender *s, struct rut_buf *b, const char *part,
			const char *stream)
{
	rut_buf_clear(b);
	rut_buf_puts(b, RUT_NATS_PREFIX);
	rut_nats_token_put(b, s->host);
	rut_nats_token_put(b, s->session);
	rut_nats_token_put(b, part);
	if (stream)
		rut_nats_token_put(b, stream);
}

/*
 * No other message has it: it ends with the subject. In another connection it is another one: after
 * a change of leaders a cluster may take a message for a duplicate, and acknowledge it, whose first
 * copy it never stored (nats-server 2.9).
 */
static void set_id(const struct rut_nats_head *h, const struct rut_nats_sender *n,
		   struct rut_buf *ret)
{
	rut_buf_clear(ret);
	for (size_t i = 0; i < sizeof(h->uuid); i++)
		rut_buf_printf(ret, "%02x", h->uuid[i]);
	rut_buf_printf(ret, "-%u-%llu-%llu-%llu-%u-%s", h->chunk, (unsigned long long)h->seq,
		       (unsigned long long)h->offset, (unsigned long long)h->at, n->attempt,
		       n->where.data);
}

/* Publishes what is in n->buf, without waiting. */
static int publish_piece(struct rut_sender *s, const struct rut_nats_head *h)
{
	struct rut_nats_sender *n = s->nats;
	natsMsg *msg = NULL;
	jsPubOptions opts;
	natsStatus st;

	set_id(h, n, &n->id);
	if (n->id.failed)
		return -ENOMEM;
	rut_nats.jsPubOptions_Init(&opts);
	opts.MsgId = n->id.data;
	opts.ExpectStream = s->url.nats_url.stream;
	st = rut_nats.natsMsg_Create(&msg, n->where.data, NULL, n->buf.data, (int)n->buf.len);
	if (st != NATS_OK)
		return -ENOMEM;
	pthread_mutex_lock(&acks);
	n->published++;
	pthread_mutex_unlock(&acks);
	st = rut_nats.js_PublishMsgAsync(n->js, &msg, &opts);
	rut_nats.natsMsg_Destroy(msg);
	return st == NATS_OK ? 0 : -EIO;
}

/* The head of a message about the present chunk, as far as it is the same for all. */
static struct rut_nats_head new_head(const struct rut_sender *s, enum rut_nats_kind kind)
{
	const struct rut_nats_sender *n = s->nats;
	struct rut_nats_head h = {.kind = (uint8_t)kind,
				  .created_s = n->created_s,
				  .chunk = n->chunk,
				  .part = (uint32_t)n->piece};

	memcpy(h.uuid, s->uuid, sizeof(h.uuid));
	return h;
}

/*
 * Publishes content to the subject in n->where: what is at `data`, or, where that is NULL, in the
 * file at f->sent. A packet gets the header `p`.
 */
static int publish_from(struct rut_sender *s, struct rut_nats_head h, const void *data,
			const struct rut_stream_file *f, const struct rut_packet *p)
{
	struct rut_nats_sender *n = s->nats;
	int rc = 0;

	do {
		size_t len = h.content - h.at < n->piece ? h.content - h.at : n->piece;

		rut_buf_clear(&n->buf);
		rut_nats_head_put(&n->buf, &h);
		if (data && len)
			rut_buf_add(&n->buf, (const char *)data + h.at, len);
		else if (len && !rut_buf_reserve(&n->buf, len)) {
			if (pread(f->fd, n->buf.data + n->buf.len, len, f->sent + (off_t)h.at) !=
			    (ssize_t)len)
				return -EIO;
			n->buf.len += len;
		}
		if (n->buf.failed || n->where.failed)
			return -ENOMEM;
		if (p && !h.at)
			memcpy(n->buf.data + RUT_NATS_HEAD, p, sizeof(*p));
		rc = publish_piece(s, &h);
		h.at += n->piece;
	} while (!rc && h.at < h.content);
	return rc;
}

static int publish(struct rut_sender *s, struct rut_nats_head h, const void *data)
{
	return publish_from(s, h, data, NULL, NULL);
}

static int send_packet(struct rut_sender *s, struct rut_stream_file *f, struct rut_packet *p)
{
	const size_t content = p->content_size / 8, whole = p->packet_size / 8;
	struct rut_nats_head h = new_head(s, RUT_NATS_PACKET);
	const struct rut_stream_part *part = f->stream;
	const unsigned char *data = NULL;

	if (!part)
		return 1;
	if (content > RUT_NATS_CONTENT_MAX)
		return -EMSGSIZE;
	if (f->fd < 0) {
		data = rut_sender_held(s, f, content);
		if (!data)
			return -EIO;
	}
	h.seq = p->packet_seq_num;
	h.offset = (uint64_t)(f->sent - f->cut);
	h.whole = whole;
	h.content = content;
	set_subject(s, &s->nats->where, part->name, f->name);
	return publish_from(s, h, data, f, p);
}

/* A copy of the part's metadata, if it was not sent yet; NULL: it was, or no memory. */
static char *new_metadata(struct rut_sender *s, struct rut_stream_part *p, size_t *ret_len)
{
	char *text = NULL;

	pthread_mutex_lock(&s->lock);
	if (p->text && p->generation != p->sent_generation)
		text = malloc(p->text_len + 1);
	if (text) {
		memcpy(text, p->text, p->text_len);
		*ret_len = p->text_len;
		p->sent_generation = p->generation;
	}
	for (struct rut_stream_file *f = p->files; f; f = f->next)
		f->stream = p;
	pthread_mutex_unlock(&s->lock);
	return text;
}

static int send_failed(int rc, struct rut_err *err)
{
	return rut_err_errno(err, -rc, "cannot publish");
}

/* Changed metadata is sent before the packets that need it. */
static int update(struct rut_sender *s, struct rut_chunk *c, struct rut_err *err)
{
	struct rut_stream_part *p;

	pthread_mutex_lock(&s->lock);
	p = c->parts;
	pthread_mutex_unlock(&s->lock);
	while (p) {
		struct rut_nats_head h = new_head(s, RUT_NATS_METADATA);
		size_t len = 0;
		_cleanup_free_ char *text = new_metadata(s, p, &len);
		int rc = 0;

		h.seq = p->sent_generation;
		h.content = h.whole = len;
		set_subject(s, &s->nats->where, p->name, "metadata");
		if (text)
			rc = publish(s, h, text);
		if (rc)
			return send_failed(rc, err);
		pthread_mutex_lock(&s->lock);
		p = p->next;
		pthread_mutex_unlock(&s->lock);
	}
	return 0;
}

/* Until all that was published is acknowledged, or nothing is for a while. */
static int confirm(struct rut_sender *s, struct rut_err *err)
{
	struct rut_nats_sender *n = s->nats;
	int rc = 0;

	pthread_mutex_lock(&acks);
	while (n->acked < n->published && !n->cancelled && !n->failed.code && !rc) {
		const uint64_t before = n->acked;
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += RUT_SENDER_TIMEOUT_MS / 1000;
		rc = pthread_cond_timedwait(&n->wake, &acks, &until);
		if (n->acked != before)
			rc = 0;
	}
	if (n->failed.code)
		rc = rut_err_set(err, n->failed.code, "%s", n->failed.msg);
	else if (n->cancelled)
		rc = rut_err_set(err, ECANCELED, "interrupted");
	else if (rc)
		rc = rut_err_set(err, ETIMEDOUT, "the stream '%s' does not acknowledge",
				 s->url.nats_url.stream);
	pthread_mutex_unlock(&acks);
	return rc;
}

/* ---- the connection ---- */

static int connect_js(const struct rut_sender *s, natsConnection **nc, jsCtx **js, jsOptions *opts,
		      struct rut_err *err)
{
	const struct rut_nats_conn_conf conf = {
		.url = &s->url.nats_url, .dir = s->tls_dir, .timeout_ms = CONNECT_MS};
	natsStatus st;
	int rc = rut_nats_connect(nc, &conf, err);

	if (rc)
		return rc;
	st = rut_nats.natsConnection_JetStream(js, *nc, opts);
	return st == NATS_OK ? 0 : rut_nats_error(err, st, "cannot use JetStream");
}

/* A packet's pieces must be the same in each attempt, so a power of two. */
static size_t piece_size(size_t room)
{
	size_t n = RUT_NATS_PIECE;

	while (n > room)
		n /= 2;
	return n;
}

static struct rut_nats_sender *new_nats(struct rut_sender *s)
{
	struct rut_nats_sender *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	pthread_cond_init(&n->wake, NULL);
	n->created_s = (uint64_t)time(NULL);
	n->stream = s->url.nats_url.stream;
	pthread_mutex_lock(&acks);
	n->next = senders;
	senders = n;
	pthread_mutex_unlock(&acks);
	pthread_mutex_lock(&s->lock);
	n->cancelled = s->cancelled;
	s->nats = n;
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* Counts acknowledgements of a new connection; 0: of none. */
static uintptr_t count_acks(struct rut_nats_sender *n, bool connect)
{
	pthread_mutex_lock(&acks);
	n->connection = connect ? ++last_connection : 0;
	n->published = n->acked = 0;
	n->failed = (struct rut_err)RUT_ERR_INIT;
	pthread_mutex_unlock(&acks);
	return n->connection;
}

static int open_nats(struct rut_sender *s, struct rut_chunk *c, struct rut_err *err)
{
	struct rut_nats_sender *n = s->nats ? s->nats : new_nats(s);
	struct rut_nats_head h;
	jsOptions opts;
	int rc;

	if (!n)
		return rut_err_set(err, ENOMEM, "out of memory");
	n->attempt++;
	rc = rut_nats_load(err);
	if (rc)
		return rc;
	rut_nats.jsOptions_Init(&opts);
	opts.PublishAsync.MaxPending = PENDING_MESSAGES;
	opts.PublishAsync.AckHandler = on_ack;
	opts.PublishAsync.AckHandlerClosure = (void *)count_acks(n, true); /* NOLINT: a number */
	rc = connect_js(s, &n->nc, &n->js, &opts, err);
	if (rc)
		return rc;
	n->piece = (size_t)rut_nats.natsConnection_GetMaxPayload(n->nc);
	if (n->piece < RUT_NATS_PART_MIN + RUT_NATS_HEAD + HEADERS)
		return rut_err_set(err, EMSGSIZE,
				   "the server takes messages of %zu bytes only (max_payload)",
				   n->piece);
	n->piece = piece_size(n->piece - RUT_NATS_HEAD - HEADERS);
	h = new_head(s, RUT_NATS_BEGIN);
	set_subject(s, &n->where, "begin", NULL);
	rc = publish(s, h, NULL);
	if (rc)
		return send_failed(rc, err);
	return update(s, c, err);
}

static void close_nats(struct rut_sender *s)
{
	struct rut_nats_sender *n = s->nats;

	if (!n)
		return;
	count_acks(n, false);
	if (n->nc)
		rut_nats.natsConnection_Close(n->nc);
	if (n->js)
		rut_nats.jsCtx_Destroy(n->js);
	if (n->nc)
		rut_nats.natsConnection_Destroy(n->nc);
	n->js = NULL;
	n->nc = NULL;
	pthread_mutex_lock(&s->lock);
	for (struct rut_chunk *c = s->chunks; c; c = c->next)
		for (struct rut_stream_part *p = c->parts; p; p = p->next)
			p->sent_generation = 0;
	pthread_mutex_unlock(&s->lock);
}

/*
 * The recorder makes the last packet of a stream end with the trace, in the file, maybe after it
 * was sent. Its content may have been given back to the file system. In memory it stays as it is.
 */
static uint64_t end_of(const struct rut_stream_file *f)
{
	const off_t at = f->last + (off_t)offsetof(struct rut_packet, timestamp_end);
	uint64_t ns = 0;

	if (f->fd < 0)
		return f->end_ns;
	return pread(f->fd, &ns, sizeof(ns), at) == sizeof(ns) ? ns : 0;
}

static int send_end(struct rut_sender *s, const struct rut_stream_part *p,
		    const struct rut_stream_file *f)
{
	struct rut_nats_head h = new_head(s, RUT_NATS_END);
	uint64_t ns = f->bad || !f->confirmed ? 0 : end_of(f);

	if (ns <= f->last_ns)
		return 0;
	h.seq = ns;
	h.offset = (uint64_t)(f->last - f->cut);
	h.whole = (uint64_t)(f->confirmed - f->last);
	set_subject(s, &s->nats->where, p->name, f->name);
	return publish(s, h, NULL);
}

/* What the chunk consists of, so that a receiver knows when it has all of it. */
static int end_chunk(struct rut_sender *s, struct rut_chunk *c, const struct rut_chunk *next,
		     struct rut_err *err)
{
	struct rut_nats_head h = new_head(s, RUT_NATS_CHUNK);
	_cleanup_buf_ struct rut_buf list = RUT_BUF_INIT;
	int rc = 0;

	for (const struct rut_stream_part *p = c->parts; p && !rc; p = p->next)
		for (const struct rut_stream_file *f = p->files; f && !rc; f = f->next) {
			rc = send_end(s, p, f);
			rut_buf_printf(&list, "%s/%s %lld\n", p->name, f->name,
				       (long long)(f->confirmed - f->cut));
		}
	if (rc)
		return send_failed(rc, err);
	h.last = !next;
	h.content = h.whole = list.len;
	set_subject(s, &s->nats->where, "chunk", NULL);
	rc = list.failed ? -ENOMEM : publish(s, h, list.data);
	rc = rc ? send_failed(rc, err) : confirm(s, err);
	if (!rc)
		s->nats->chunk++;
	return rc;
}

static uint64_t queued(const struct rut_sender *s)
{
	(void)s;
	return 0; /* what is not acknowledged counts as waiting */
}

static void abort_nats(const struct rut_sender *s)
{
	struct rut_nats_sender *n = s->nats;

	if (!n)
		return;
	pthread_mutex_lock(&acks);
	n->cancelled = true;
	pthread_cond_signal(&n->wake);
	pthread_mutex_unlock(&acks);
}

static void free_nats(struct rut_sender *s)
{
	struct rut_nats_sender *n = s->nats, **p = &senders;

	if (!n)
		return;
	pthread_mutex_lock(&acks);
	while (*p != n)
		p = &(*p)->next;
	*p = n->next;
	pthread_mutex_unlock(&acks);
	rut_buf_fini(&n->buf);
	rut_buf_fini(&n->id);
	rut_buf_fini(&n->where);
	pthread_cond_destroy(&n->wake);
	free(n);
	s->nats = NULL;
}

/* ---- before there is a thread ---- */

/*
 * Publishes the session's first message, which says whether we may. It is kept until a receiver
 * takes it, and says nothing about a trace.
 */
static int try(const struct rut_sender *s, struct rut_err *err)
{
	struct rut_nats_head h = {.kind = RUT_NATS_BEGIN, .created_s = (uint64_t)time(NULL)};
	_cleanup_buf_ struct rut_buf subject = RUT_BUF_INIT, head = RUT_BUF_INIT;
	natsConnection *nc = NULL;
	natsMsg *msg = NULL;
	jsPubOptions opts;
	jsErrCode code = 0;
	jsCtx *js = NULL;
	natsStatus st;
	int rc = connect_js(s, &nc, &js, NULL, err);

	if (rc)
		return rc;
	memcpy(h.uuid, s->uuid, sizeof(h.uuid));
	set_subject(s, &subject, "begin", NULL);
	rut_nats_head_put(&head, &h);
	rut_nats.jsPubOptions_Init(&opts);
	opts.MaxWait = RUT_SENDER_PROBE_MS;
	opts.ExpectStream = s->url.nats_url.stream;
	st = rut_nats.natsMsg_Create(&msg, subject.data, NULL, head.data, (int)head.len);
	if (st == NATS_OK)
		st = rut_nats.js_PublishMsg(NULL, js, msg, &opts, &code);
	if (st == NATS_ERR && code == JSStreamNotMatchErr)
		return rut_err_set(err, ENOENT, "rutile.* belongs to another stream than '%s'",
				   s->url.nats_url.stream);
	if (st != NATS_OK)
		explain(err, s->url.nats_url.stream, st, NULL);
	return st == NATS_OK ? 0 : -err->code;
}

/* In a process of its own: libnats's threads would not survive the fork that is to come. */
static int probe(const struct rut_sender *s, struct rut_err *err)
{
	struct rut_err said = RUT_ERR_INIT;
	int fds[2], status = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return rut_err_errno(err, errno, "cannot make a pipe");
	pid = fork();
	if (!pid) {
		try(s, &said);
		n = write(fds[1], &said, sizeof(said));
		_exit(n != (ssize_t)sizeof(said));
	}
	close(fds[1]);
	n = pid < 0 ? -1 : read(fds[0], &said, sizeof(said));
	close(fds[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (n != (ssize_t)sizeof(said))
		return rut_err_set(err, EIO, "cannot try the connection");
	return said.code ? rut_err_set(err, said.code, "%s", said.msg) : 0;
}

const struct rut_sender_link rut_sender_nats = {
	.probe = probe,
	.open = open_nats,
	.update = update,
	.packet = send_packet,
	.confirm = confirm,
	.end = end_chunk,
	.close = close_nats,
	.queued = queued,
	.abort = abort_nats,
	.free = free_nats,
};
