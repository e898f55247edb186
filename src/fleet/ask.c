/* SPDX-License-Identifier: MIT */
#include "fleet/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "stream/nats_conn.h"
#include "stream/nats_wire.h"

#define CONNECT_MS 2000
#define JS_MS	   2000		/* for an answer of JetStream */
#define OUT_MAX	   (256u << 20) /* bytes of all hosts' output together */
#define HOSTS_MAX  100000

struct ask {
	const struct rut_fleet_ask_conf *conf;
	natsConnection *nc;
	natsSubscription *sub;
	char *inbox; /* owned by the library */
	struct rut_buf reply;
	struct rut_fleet_results *results;
	size_t n_results, bytes;
	size_t n_deaf; /* requests to one host that had no receiver */
	bool any_glob;
	bool failed; /* out of memory */
};

/* The result of a host, made at the first call. */
static struct rut_fleet_result *result_of(struct ask *a, const char *host)
{
	struct rut_fleet_result **at = &a->results->first, *r;

	while (*at && strcmp((*at)->host, host) < 0)
		at = &(*at)->next;
	if (*at && !strcmp((*at)->host, host))
		return *at;
	r = a->n_results < HOSTS_MAX ? calloc(1, sizeof(*r)) : NULL;
	if (!r) {
		a->failed = true;
		return NULL;
	}
	memcpy(r->host, host, strlen(host) + 1);
	r->next = *at;
	*at = r;
	a->n_results++;
	return r;
}

static void expect(void *arg, const char *host, bool glob)
{
	struct ask *a = arg;

	a->any_glob |= glob;
	if (!glob)
		result_of(a, host);
}

struct hosts {
	jsCtx *js;
	kvStore *bucket;
	kvKeysList keys;
};

/* The bucket of the hosts, and its entries. */
static natsStatus open_hosts(struct ask *a, struct hosts *h)
{
	natsStatus st;
	jsOptions js;

	rut_nats.jsOptions_Init(&js);
	js.Wait = JS_MS;
	st = rut_nats.natsConnection_JetStream(&h->js, a->nc, &js);
	if (st == NATS_OK)
		st = rut_nats.js_KeyValue(&h->bucket, h->js, RUT_FLEET_BUCKET);
	if (st == NATS_OK)
		st = rut_nats.kvStore_Keys(&h->keys, h->bucket, NULL);
	return st;
}

static void close_hosts(struct hosts *h)
{
	rut_nats.kvKeysList_Destroy(&h->keys);
	if (h->bucket)
		rut_nats.kvStore_Destroy(h->bucket);
	if (h->js)
		rut_nats.jsCtx_Destroy(h->js);
}

/* Those in the bucket of hosts that are asked. Names need no bucket. */
static void expect_present(struct ask *a)
{
	struct hosts hosts = {0};

	if (!a->any_glob)
		return;
	if (open_hosts(a, &hosts) != NATS_OK || !hosts.keys.Count)
		a->results->unknown = true;
	for (int i = 0; i < hosts.keys.Count; i++) {
		char host[RUT_FLEET_NAME];

		if (rut_fleet_key_get(hosts.keys.Keys[i], host, sizeof(host)) &&
		    rut_fleet_is_among(a->conf->hosts, host))
			result_of(a, host);
	}
	close_hosts(&hosts);
}

/* ---- the request ---- */

struct publish {
	struct ask *a;
	const struct rut_buf *request;
	natsStatus st;
};

/* A host that is named is asked by its own subject, for which alone one may have the right. */
static void publish_to_host(void *arg, const char *host, bool glob)
{
	_cleanup_buf_ struct rut_buf to = RUT_BUF_INIT;
	struct publish *p = arg;
	struct rut_fleet_result *r = glob || p->st != NATS_OK ? NULL : result_of(p->a, host);

	if (!r || r->asked)
		return;
	r->asked = true;
	rut_buf_puts(&to, RUT_FLEET_HOST);
	rut_nats_token_put(&to, host);
	p->st = rut_nats.natsConnection_PublishRequest(p->a->nc, to.data, p->a->reply.data,
						       p->request->data, (int)p->request->len);
}

static int publish(struct ask *a, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf request = RUT_BUF_INIT;
	struct publish p = {.a = a, .request = &request, .st = NATS_OK};
	int rc = rut_fleet_request_put(&request, a->conf->hosts, a->conf->words, a->conf->n_words);

	if (rc)
		return rut_err_set(err, -rc, "the request is too long");
	rut_fleet_each_host(a->conf->hosts, publish_to_host, &p);
	if (a->any_glob && p.st == NATS_OK)
		p.st = rut_nats.natsConnection_PublishRequest(a->nc, RUT_FLEET_ALL, a->reply.data,
							      request.data, (int)request.len);
	if (p.st == NATS_OK)
		p.st = rut_nats.natsConnection_FlushTimeout(a->nc, CONNECT_MS);
	return p.st == NATS_OK ? 0 : rut_nats_error(err, p.st, "cannot publish the request");
}

/* ---- answers ---- */

static void add_output(struct ask *a, struct rut_buf *b, uint32_t *number, bool *gap,
		       const struct rut_fleet_answer *got)
{
	*gap |= got->number != *number;
	*number = got->number + 1;
	a->bytes += got->len;
	if (a->bytes > OUT_MAX)
		*gap = true;
	else
		rut_buf_add(b, got->data, got->len);
}

/* Its subject has the name that the host has the right to answer by. */
static bool is_from(const struct ask *a, natsMsg *msg, const char *host)
{
	_cleanup_buf_ struct rut_buf subject = RUT_BUF_INIT;

	rut_fleet_subject_put(&subject, a->reply.data, host);
	return !subject.failed && !strcmp(subject.data, rut_nats.natsMsg_GetSubject(msg));
}

static void take(struct ask *a, natsMsg *msg)
{
	struct rut_fleet_answer got;
	struct rut_fleet_result *r;

	if (rut_fleet_answer_get(rut_nats.natsMsg_GetData(msg),
				 (size_t)rut_nats.natsMsg_GetDataLength(msg), &got) ||
	    !is_from(a, msg, got.host) || !rut_fleet_is_among(a->conf->hosts, got.host))
		return;
	r = result_of(a, got.host);
	if (!r || r->state >= RUT_FLEET_DENIED)
		return;
	r->state = RUT_FLEET_RUNNING;
	switch ((enum rut_fleet_answer_kind)got.kind) {
	case RUT_FLEET_ACCEPTED:
		break;
	case RUT_FLEET_REFUSED:
		rut_buf_add(&r->err, got.data, got.len);
		r->state = RUT_FLEET_DENIED;
		break;
	case RUT_FLEET_OUT:
		add_output(a, &r->out, &r->n_out, &r->gap, &got);
		break;
	case RUT_FLEET_ERR:
		add_output(a, &r->err, &r->n_err, &r->gap, &got);
		break;
	case RUT_FLEET_EXIT:
		r->gap |= r->n_out != got.n_out || r->n_err != got.n_err;
		r->code = got.number;
		r->state = RUT_FLEET_DONE;
		break;
	}
}

/* How long to go on waiting; 0: no longer. */
static uint64_t left_ns(const struct ask *a, uint64_t begin_ns)
{
	const uint64_t now = rut_now_ns() - begin_ns;
	const uint64_t first = now < a->conf->timeout_ns ? a->conf->timeout_ns - now : 0;
	const uint64_t last = now < a->conf->wait_ns ? a->conf->wait_ns - now : 0;
	size_t silent = 0;
	bool running = false;

	for (const struct rut_fleet_result *r = a->results->first; r; r = r->next) {
		silent += r->state == RUT_FLEET_SILENT;
		running |= r->state == RUT_FLEET_RUNNING;
	}
	if (running)
		return last;
	/* One of these may be the request to all, so this is for names alone. */
	if (!a->any_glob)
		return silent > a->n_deaf ? first : 0;
	return silent || a->results->unknown ? first : 0;
}

static void gather(struct ask *a)
{
	const uint64_t begin_ns = rut_now_ns();
	uint64_t left;

	while (!a->failed && (left = left_ns(a, begin_ns))) {
		natsMsg *msg = NULL;
		int64_t ms = (int64_t)(left / 1000000) + 1;
		natsStatus st = rut_nats.natsSubscription_NextMsg(&msg, a->sub, ms);

		if (st == NATS_OK)
			take(a, msg);
		else if (st == NATS_NO_RESPONDERS)
			a->n_deaf++;
		else if (st != NATS_TIMEOUT)
			a->results->broke = rut_nats.natsStatus_GetText(st);
		rut_nats.natsMsg_Destroy(msg);
		/* After a slow consumer's loss, which the numbers show, others still come. */
		if (st != NATS_OK && st != NATS_NO_RESPONDERS && st != NATS_TIMEOUT &&
		    st != NATS_SLOW_CONSUMER)
			break;
	}
}

static int connect_fleet(struct ask *a, struct rut_err *err)
{
	const struct rut_nats_conn_conf to = {
		.url = &a->conf->url, .dir = a->conf->tls, .timeout_ms = CONNECT_MS};
	_cleanup_buf_ struct rut_buf answers = RUT_BUF_INIT;
	natsStatus st;
	int rc = rut_nats_connect(&a->nc, &to, err);

	if (rc)
		return rc;
	st = rut_nats.natsInbox_Create(&a->inbox);
	if (st == NATS_OK) {
		rut_buf_printf(&a->reply, "%s" RUT_FLEET_REPLY, a->inbox);
		rut_buf_printf(&answers, "%s.>", a->inbox);
		st = a->reply.failed || answers.failed
			     ? NATS_NO_MEMORY
			     : rut_nats.natsConnection_SubscribeSync(&a->sub, a->nc, answers.data);
	}
	return st == NATS_OK ? 0 : rut_nats_error(err, st, "cannot subscribe to answers");
}

static void disconnect(struct ask *a)
{
	if (a->sub)
		rut_nats.natsSubscription_Destroy(a->sub);
	if (a->inbox)
		rut_nats.natsInbox_Destroy(a->inbox);
	if (a->nc) {
		rut_nats.natsConnection_Close(a->nc);
		rut_nats.natsConnection_Destroy(a->nc);
	}
	rut_buf_fini(&a->reply);
}

int rut_fleet_ask(const struct rut_fleet_ask_conf *conf, struct rut_fleet_results *ret,
		  struct rut_err *err)
{
	struct ask a = {.conf = conf, .results = ret};
	int rc;

	*ret = (struct rut_fleet_results){0};
	rc = connect_fleet(&a, err);
	if (!rc) {
		rut_fleet_each_host(conf->hosts, expect, &a);
		expect_present(&a);
		rc = publish(&a, err);
	}
	if (!rc)
		gather(&a);
	disconnect(&a);
	if (!rc && a.failed)
		rc = rut_err_set(err, ENOMEM, "out of memory");
	if (rc)
		rut_fleet_results_fini(ret);
	return rc;
}

void rut_fleet_results_fini(struct rut_fleet_results *r)
{
	for (struct rut_fleet_result *at = r->first, *next; at; at = next) {
		next = at->next;
		rut_buf_fini(&at->out);
		rut_buf_fini(&at->err);
		free(at);
	}
	r->first = NULL;
}

static bool has_key(const kvKeysList *keys, const char *key)
{
	for (int i = 0; i < keys->Count; i++)
		if (!strcmp(keys->Keys[i], key))
			return true;
	return false;
}

int rut_fleet_forget(const struct rut_fleet_ask_conf *conf, const char *host, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf key = RUT_BUF_INIT;
	struct ask a = {.conf = conf};
	struct hosts hosts = {0};
	int rc = connect_fleet(&a, err);

	if (!rc) {
		natsStatus st = open_hosts(&a, &hosts);

		rut_fleet_key_put(&key, host);
		if (st == NATS_OK && !key.failed && has_key(&hosts.keys, key.data))
			st = rut_nats.kvStore_Delete(hosts.bucket, key.data);
		else if (st == NATS_OK)
			rc = rut_err_set(err, ENOENT, "no host '%s' is known", host);
		if (st != NATS_OK)
			rc = rut_nats_error(err, st, "cannot remove the host");
		close_hosts(&hosts);
	}
	disconnect(&a);
	return rc;
}
