/* SPDX-License-Identifier: MIT */
#include "fleet/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "fleet/job.h"
#include "fleet/wire.h"
#include "stream/nats_conn.h"
#include "stream/nats_wire.h"

#define JOBS	   8		 /* at a time */
#define OUT_MAX	   (32ull << 20) /* bytes of a job's output; the rest is cut off */
#define QUEUE	   64		 /* requests that wait to be read */
#define CONNECT_MS 2000
#define JS_MS	   1000	  /* for an answer of JetStream */
#define PRESENT_MS 30000  /* how often a host says that it is there */
#define ABSENT_MS  960000 /* the longest time between attempts that fail */

struct rut_fleet_host {
	struct rut_fleet_host_conf conf;
	char name[RUT_FLEET_NAME];
	natsConnection *nc;
	jsCtx *js;
	kvStore *bucket; /* of the hosts; NULL: none yet */
	natsSubscription *all, *own;
	int queue[2];	     /* a pipe of natsMsg pointers */
	atomic_uint waiting; /* in it */
	pthread_t presence;
	bool has_presence;
	int stop;			 /* an eventfd: ends that thread */
	struct rut_fleet_job jobs[JOBS]; /* reply "": free */
};

/* In a thread of the library. */
static void on_request(natsConnection *nc, natsSubscription *sub, natsMsg *msg, void *arg)
{
	struct rut_fleet_host *h = arg;

	(void)nc;
	(void)sub;
	/* What is too long or too many is discarded, and its sender hears nothing. */
	if (rut_nats.natsMsg_GetDataLength(msg) <= RUT_FLEET_BYTES) {
		if (atomic_fetch_add(&h->waiting, 1) < QUEUE &&
		    write(h->queue[1], &msg, sizeof(msg)) == (ssize_t)sizeof(msg))
			return;
		atomic_fetch_sub(&h->waiting, 1);
	}
	rut_nats.natsMsg_Destroy(msg);
}

static natsMsg *next_request(struct rut_fleet_host *h)
{
	natsMsg *msg;

	if (read(h->queue[0], &msg, sizeof(msg)) != (ssize_t)sizeof(msg))
		return NULL;
	atomic_fetch_sub(&h->waiting, 1);
	return msg;
}

/* A message that cannot be sent is missing among those that the last one counts. */
static void answer(const struct rut_fleet_host *h, const char *reply, struct rut_fleet_answer *a)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT, to = RUT_BUF_INIT;
	natsStatus st = NATS_NO_MEMORY;

	memcpy(a->host, h->name, sizeof(a->host));
	rut_fleet_answer_put(&b, a);
	rut_fleet_subject_put(&to, reply, h->name);
	if (!b.failed && !to.failed)
		st = rut_nats.natsConnection_Publish(h->nc, to.data, b.data, (int)b.len);
	if (st != NATS_OK)
		rut_warn("an answer is lost: %s", rut_nats.natsStatus_GetText(st));
}

static void refuse(const struct rut_fleet_host *h, const char *reply, const char *why)
{
	answer(h, reply,
	       &(struct rut_fleet_answer){
		       .kind = RUT_FLEET_REFUSED, .data = why, .len = strlen(why)});
}

/* ---- requests ---- */

static struct rut_fleet_job *free_job(struct rut_fleet_host *h)
{
	for (size_t i = 0; i < JOBS; i++)
		if (!h->jobs[i].reply[0])
			return &h->jobs[i];
	return NULL;
}

static void log_request(const struct rut_fleet_request *r, const char *what)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	for (size_t i = 0; i < r->n_words; i++) {
		if (i)
			rut_buf_putc(&b, ' ');
		for (const char *p = r->words[i]; *p; p++)
			rut_buf_putc(&b, (unsigned char)*p < ' ' ? '?' : *p);
	}
	if (!b.failed)
		rut_info("%s: %.300s", what, b.data);
}

/* "clock NUMBER" -> "NUMBER NANOSECONDS" */
static void tell_time(const struct rut_fleet_host *h, const char *reply, const char *number)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%.20s %" PRIu64, number,
			 rut_clock_ns(CLOCK_REALTIME));

	answer(h, reply,
	       &(struct rut_fleet_answer){.kind = RUT_FLEET_OUT, .data = text, .len = (size_t)n});
}

static void serve_request(struct rut_fleet_host *h, natsMsg *msg)
{
	const char *reply = rut_nats.natsMsg_GetReply(msg);
	struct rut_err err = RUT_ERR_INIT;
	struct rut_fleet_request r = {.n_words = 0};
	struct rut_fleet_job *j;

	if (!reply || !rut_fleet_is_reply(reply) || strlen(reply) >= sizeof(j->reply) ||
	    rut_fleet_request_get(rut_nats.natsMsg_GetData(msg),
				  (size_t)rut_nats.natsMsg_GetDataLength(msg), &r) ||
	    !rut_fleet_is_among(r.hosts, h->name))
		return;
	if (r.n_words == 2 && !strcmp(r.words[0], RUT_FLEET_CLOCK)) {
		tell_time(h, reply, r.words[1]);
		return;
	}
	if (!rut_fleet_rules_allow(h->conf.rules, r.words, r.n_words)) {
		log_request(&r, "refused");
		refuse(h, reply, "not allowed by " RUT_FLEET_CONF);
		return;
	}
	j = free_job(h);
	if (!j) {
		refuse(h, reply, "too many requests at once");
		return;
	}
	*j = (struct rut_fleet_job){.pid_fd = -1, .out_fd = -1, .err_fd = -1};
	log_request(&r, "runs");
	if (rut_fleet_job_start(j, h->conf.program, r.words, h->conf.rules->timeout_ns, &err)) {
		refuse(h, reply, err.msg);
		return;
	}
	snprintf(j->reply, sizeof(j->reply), "%s", reply);
	answer(h, reply, &(struct rut_fleet_answer){.kind = RUT_FLEET_ACCEPTED});
}

/* ---- jobs ---- */

/* Bytes of output that fit into one message to that server. */
static size_t piece(const struct rut_fleet_host *h)
{
	const size_t head = rut_fleet_answer_head(h->name);
	const int64_t max = rut_nats.natsConnection_GetMaxPayload(h->nc);

	if (max <= 0 || (size_t)max >= head + RUT_FLEET_OUT_BYTES)
		return RUT_FLEET_OUT_BYTES;
	return (size_t)max > head ? (size_t)max - head : 1;
}

/* Sends what the job has written since. Returns whether there may be more. */
static bool send_output(const struct rut_fleet_host *h, struct rut_fleet_job *j, int *fd,
			enum rut_fleet_answer_kind kind, uint32_t *number)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	const size_t max = piece(h);
	bool open = rut_fleet_job_read(fd, &b, max);

	if (b.failed)
		++*number; /* counted, never sent */
	else if (b.len && j->bytes < OUT_MAX)
		answer(h, j->reply,
		       &(struct rut_fleet_answer){.kind = (uint8_t)kind,
						  .number = (*number)++,
						  .data = b.data,
						  .len = b.len});
	j->bytes += b.len;
	return open && b.len == max;
}

static void send_end(const struct rut_fleet_host *h, struct rut_fleet_job *j, int code)
{
	static const char cut[] = "\n(the rest is cut off)\n";

	if (j->bytes >= OUT_MAX)
		answer(h, j->reply,
		       &(struct rut_fleet_answer){.kind = RUT_FLEET_ERR,
						  .number = j->n_err++,
						  .data = cut,
						  .len = sizeof(cut) - 1});
	answer(h, j->reply,
	       &(struct rut_fleet_answer){.kind = RUT_FLEET_EXIT,
					  .number = (uint32_t)code,
					  .n_out = j->n_out,
					  .n_err = j->n_err});
}

static void serve_job(const struct rut_fleet_host *h, struct rut_fleet_job *j)
{
	int code = 0;
	bool ended;

	rut_fleet_job_check(j, rut_now_ns());
	/* It is asked first: what it wrote is in the pipes when it has ended. */
	ended = rut_fleet_job_ended(j, &code);
	while (send_output(h, j, &j->out_fd, RUT_FLEET_OUT, &j->n_out) && ended)
		;
	while (send_output(h, j, &j->err_fd, RUT_FLEET_ERR, &j->n_err) && ended)
		;
	if (!ended)
		return;
	send_end(h, j, code);
	rut_fleet_job_fini(j);
	j->reply[0] = '\0';
}

/* ---- presence ---- */

/* The asking side finds the hosts to expect here. Without JetStream no host is expected. */
static bool say_present(struct rut_fleet_host *h)
{
	_cleanup_buf_ struct rut_buf key = RUT_BUF_INIT;
	jsOptions js;
	kvConfig cfg;

	rut_nats.jsOptions_Init(&js);
	js.Wait = JS_MS;
	if (!h->js && rut_nats.natsConnection_JetStream(&h->js, h->nc, &js) != NATS_OK)
		return false;
	rut_nats.kvConfig_Init(&cfg);
	cfg.Bucket = RUT_FLEET_BUCKET;
	cfg.History = 1;
	if (!h->bucket && rut_nats.js_KeyValue(&h->bucket, h->js, RUT_FLEET_BUCKET) != NATS_OK &&
	    rut_nats.js_CreateKeyValue(&h->bucket, h->js, &cfg) != NATS_OK)
		return false;
	rut_fleet_key_put(&key, h->name);
	/* The key is all. It is put again and again in case it, or the bucket, was removed. */
	return !key.failed && rut_nats.kvStore_PutString(NULL, h->bucket, key.data, "") == NATS_OK;
}

/*
 * A thread: JetStream answers late or never to a host without the rights, and requests do not wait
 * for that.
 */
static void *keep_present(void *arg)
{
	struct rut_fleet_host *h = arg;
	struct pollfd stop = {.fd = h->stop, .events = POLLIN};
	int ms = PRESENT_MS;

	while (poll(&stop, 1, ms) <= 0) {
		if (say_present(h))
			ms = PRESENT_MS;
		else
			ms = ms < ABSENT_MS ? 2 * ms : ABSENT_MS;
	}
	return NULL;
}

static int begin_presence(struct rut_fleet_host *h, struct rut_err *err)
{
	int rc;

	h->stop = eventfd(0, EFD_CLOEXEC);
	if (h->stop < 0)
		return rut_err_errno(err, errno, "cannot make an eventfd");
	say_present(h);
	rc = pthread_create(&h->presence, NULL, keep_present, h);
	if (rc)
		return rut_err_errno(err, rc, "cannot start a thread");
	h->has_presence = true;
	return 0;
}

static void end_presence(struct rut_fleet_host *h)
{
	if (h->has_presence) {
		eventfd_write(h->stop, 1);
		pthread_join(h->presence, NULL);
	}
	rut_closep(&h->stop);
}

static int subscribe(struct rut_fleet_host *h, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf own = RUT_BUF_INIT;
	natsStatus st;

	rut_buf_puts(&own, RUT_FLEET_HOST);
	rut_nats_token_put(&own, h->name);
	if (own.failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	st = rut_nats.natsConnection_Subscribe(&h->all, h->nc, RUT_FLEET_ALL, on_request, h);
	if (st == NATS_OK)
		st = rut_nats.natsConnection_Subscribe(&h->own, h->nc, own.data, on_request, h);
	if (st == NATS_OK)
		st = rut_nats.natsConnection_FlushTimeout(h->nc, CONNECT_MS);
	return st == NATS_OK ? 0 : rut_nats_error(err, st, "cannot subscribe to requests");
}

int rut_fleet_host_new(struct rut_fleet_host **ret, const struct rut_fleet_host_conf *conf,
		       struct rut_err *err)
{
	const struct rut_nats_conn_conf to = {
		.url = &conf->url, .dir = conf->tls, .timeout_ms = CONNECT_MS, .reconnect = true};
	struct rut_fleet_host *h = calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return rut_err_set(err, ENOMEM, "out of memory");
	h->conf = *conf;
	h->queue[0] = h->queue[1] = h->stop = -1;
	if (conf->host)
		snprintf(h->name, sizeof(h->name), "%s", conf->host);
	else
		rut_nats_host(h->name, sizeof(h->name));
	rc = pipe2(h->queue, O_CLOEXEC | O_NONBLOCK) < 0
		     ? rut_err_errno(err, errno, "cannot make a pipe")
		     : rut_nats_connect(&h->nc, &to, err);
	if (!rc)
		rc = subscribe(h, err);
	if (!rc)
		rc = begin_presence(h, err);
	if (rc) {
		rut_fleet_host_free(h);
		return rc;
	}
	*ret = h;
	return 0;
}

void rut_fleet_host_step(struct rut_fleet_host *h, int ms)
{
	struct pollfd fds[1 + 3 * JOBS] = {{.fd = h->queue[0], .events = POLLIN}};
	size_t n = 1;
	natsMsg *msg;

	for (size_t i = 0; i < JOBS; i++)
		if (h->jobs[i].reply[0]) {
			fds[n++] = (struct pollfd){.fd = h->jobs[i].pid_fd, .events = POLLIN};
			fds[n++] = (struct pollfd){.fd = h->jobs[i].out_fd, .events = POLLIN};
			fds[n++] = (struct pollfd){.fd = h->jobs[i].err_fd, .events = POLLIN};
		}
	poll(fds, n, ms);
	while ((msg = next_request(h))) {
		serve_request(h, msg);
		rut_nats.natsMsg_Destroy(msg);
	}
	for (size_t i = 0; i < JOBS; i++)
		if (h->jobs[i].reply[0])
			serve_job(h, &h->jobs[i]);
}

const char *rut_fleet_host_name(const struct rut_fleet_host *h)
{
	return h->name;
}

void rut_fleet_host_free(struct rut_fleet_host *h)
{
	if (!h)
		return;
	end_presence(h);
	for (size_t i = 0; i < JOBS; i++)
		if (h->jobs[i].reply[0])
			rut_fleet_job_fini(&h->jobs[i]);
	if (h->all)
		rut_nats.natsSubscription_Destroy(h->all);
	if (h->own)
		rut_nats.natsSubscription_Destroy(h->own);
	if (h->bucket)
		rut_nats.kvStore_Destroy(h->bucket);
	if (h->js)
		rut_nats.jsCtx_Destroy(h->js);
	if (h->nc) {
		rut_nats.natsConnection_Close(h->nc);
		rut_nats.natsConnection_Destroy(h->nc);
	}
	rut_closep(&h->queue[0]);
	rut_closep(&h->queue[1]);
	free(h);
}
