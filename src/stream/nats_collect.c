/* SPDX-License-Identifier: MIT */
#include "stream/nats_collect.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "stream/nats_conn.h"
#include "stream/nats_wire.h"

#define BATCH		64
#define CONNECT_MS	2000
#define DUPLICATES_NS	120000000000ll
#define PENDING		4096
#define LATER_MS	1000
#define ABSENT_TRIES	10 /* for the packet that a message is about */
#define SUBJECTS_DATA	RUT_NATS_PREFIX ".*.*.*.*"
#define SUBJECTS_EVENTS RUT_NATS_PREFIX ".*.*.*"

struct rut_nats_collect {
	struct rut_nats_store *store; /* owned */
	natsConnection *nc;
	jsCtx *js;
	natsSubscription *sub;
	int64_t absent_ms; /* between these tries: another receiver may have that packet */
	int said;	   /* errno of the last problem that was reported; 0: none since */
};

/* The stream is a buffer: what was collected leaves it, and a full one refuses what is new. */
static int make_stream(const struct rut_nats_collect *c, const struct rut_nats_collect_conf *conf,
		       struct rut_err *err)
{
	const char *subjects[] = {SUBJECTS_DATA, SUBJECTS_EVENTS};
	jsStreamInfo *info = NULL;
	jsStreamConfig cfg;
	jsErrCode code = 0;
	natsStatus st = rut_nats.js_GetStreamInfo(&info, c->js, conf->url.stream, NULL, &code);

	rut_nats.jsStreamInfo_Destroy(info);
	if (st == NATS_OK)
		return 0;
	if (st != NATS_NOT_FOUND)
		return rut_nats_error(err, st, "cannot ask for the stream (is JetStream on?)");
	rut_nats.jsStreamConfig_Init(&cfg);
	cfg.Name = conf->url.stream;
	cfg.Subjects = subjects;
	cfg.SubjectsLen = 2;
	cfg.Retention = js_WorkQueuePolicy;
	cfg.Discard = js_DiscardNew;
	cfg.Replicas = conf->replicas;
	cfg.Duplicates = DUPLICATES_NS;
	cfg.MaxBytes = conf->stream_bytes ? (int64_t)conf->stream_bytes : -1;
	info = NULL;
	st = rut_nats.js_AddStream(&info, c->js, &cfg, NULL, &code);
	rut_nats.jsStreamInfo_Destroy(info);
	/* Two receivers may make it at the same time. */
	if (st != NATS_OK && code != JSStreamNameExistErr)
		return rut_err_set(err, EIO, "cannot make the stream '%s': %s (%d)",
				   conf->url.stream, rut_nats.natsStatus_GetText(st), (int)code);
	return 0;
}

static int make_consumer(struct rut_nats_collect *c, const struct rut_nats_collect_conf *conf,
			 struct rut_err *err)
{
	const char *group = conf->group ? conf->group : "collect";
	jsConsumerInfo *info = NULL;
	jsConsumerConfig cfg;
	jsErrCode code = 0;
	jsSubOptions opts;
	natsStatus st;

	rut_nats.jsConsumerConfig_Init(&cfg);
	cfg.Durable = group;
	cfg.AckPolicy = js_AckExplicit;
	cfg.AckWait = (int64_t)conf->ack_wait_ns;
	cfg.MaxAckPending = PENDING;
	st = rut_nats.js_AddConsumer(&info, c->js, conf->url.stream, &cfg, NULL, &code);
	rut_nats.jsConsumerInfo_Destroy(info);
	/* Another one made it, maybe with another time. */
	if (st != NATS_OK && code != JSConsumerNameExistErr)
		return rut_err_set(err, EIO, "cannot make the consumer '%s' of '%s': %s (%d)",
				   group, conf->url.stream, rut_nats.natsStatus_GetText(st),
				   (int)code);
	rut_nats.jsSubOptions_Init(&opts);
	opts.Stream = conf->url.stream;
	opts.Consumer = group;
	opts.ManualAck = true;
	st = rut_nats.js_PullSubscribe(&c->sub, c->js, NULL, group, NULL, &opts, &code);
	return st == NATS_OK ? 0 : rut_nats_error(err, st, "cannot receive");
}

int rut_nats_collect_new(struct rut_nats_collect **ret, const struct rut_nats_collect_conf *conf,
			 struct rut_err *err)
{
	const struct rut_nats_conn_conf to = {
		.url = &conf->url, .dir = conf->tls, .timeout_ms = CONNECT_MS, .reconnect = true};
	struct rut_nats_collect *c = calloc(1, sizeof(*c));
	natsStatus st;
	int rc;

	if (!c)
		return rut_err_set(err, ENOMEM, "out of memory");
	c->absent_ms = (int64_t)(conf->ack_wait_ns / 4000000) + 1;
	rc = rut_nats_store_new(&c->store, conf->dir, &conf->limits, err);
	if (!rc)
		rc = rut_nats_connect(&c->nc, &to, err);
	if (!rc) {
		st = rut_nats.natsConnection_JetStream(&c->js, c->nc, NULL);
		rc = st == NATS_OK ? 0 : rut_nats_error(err, st, "cannot use JetStream");
	}
	if (!rc)
		rc = make_stream(c, conf, err);
	if (!rc)
		rc = make_consumer(c, conf, err);
	if (rc)
		rut_nats_collect_free(c);
	else
		*ret = c;
	return rc;
}

/* Reports a problem once, until something works again. */
static void say(struct rut_nats_collect *c, int code, const char *what)
{
	if (c->said != code)
		rut_warn("%s: %s; trying again", what, strerror(code));
	c->said = code;
}

/* Why it can never be stored; NULL: it may later. */
static const char *refusal(int rc)
{
	switch (rc) {
	case RUT_NATS_OVER_LIMIT:
		return "is over its host's limit (--max-bytes)";
	case -E2BIG:
		return "comes before too many packets that are missing";
	case -EBADMSG:
		return "is no part of a trace";
	default:
		return NULL;
	}
}

/* How often the message was delivered, this time included. */
static uint64_t deliveries(natsMsg *msg)
{
	jsMsgMetaData *about = NULL;
	uint64_t n = 0;

	if (rut_nats.natsMsg_GetMetaData(&about, msg) == NATS_OK)
		n = about->NumDelivered;
	rut_nats.jsMsgMetaData_Destroy(about);
	return n;
}

/*
 * The packet that the message is about is not there. A receiver that was killed may have had it,
 * and then it comes again; but a message that waits takes the slot of others.
 */
static void wait_for_packet(const struct rut_nats_collect *c, natsMsg *msg, const char *subject)
{
	const uint64_t tries = deliveries(msg);
	const int64_t ms = tries < 3 && c->absent_ms > LATER_MS ? LATER_MS : c->absent_ms;

	if (tries < ABSENT_TRIES) {
		rut_nats.natsMsg_NakWithDelay(msg, ms, NULL);
		return;
	}
	rut_warn("a message to '%.200s' is about a packet that does not come: it is discarded",
		 subject);
	rut_nats.natsMsg_Term(msg, NULL);
}

/* Stores a message. Returns true when it is to be acknowledged after a sync. */
static bool store(struct rut_nats_collect *c, natsMsg *msg)
{
	const char *subject = rut_nats.natsMsg_GetSubject(msg), *why;
	int rc = rut_nats_store_put(c->store, subject, rut_nats.natsMsg_GetData(msg),
				    (size_t)rut_nats.natsMsg_GetDataLength(msg));

	if (rc >= 0) {
		c->said = 0;
		return true;
	}
	why = refusal(rc);
	if (why) {
		rut_warn("a message to '%.200s' %s: it is discarded", subject, why);
		rut_nats.natsMsg_Term(msg, NULL);
	} else if (rc == -EAGAIN) {
		wait_for_packet(c, msg, subject);
	} else {
		say(c, -rc, "cannot store");
		rut_nats.natsMsg_NakWithDelay(msg, LATER_MS, NULL);
	}
	return false;
}

int rut_nats_collect_step(struct rut_nats_collect *c, int ms, struct rut_err *err)
{
	bool ready[BATCH] = {false};
	natsMsgList list = {0};
	jsErrCode code = 0;
	natsStatus st;
	int rc;

	(void)err;
	st = rut_nats.natsSubscription_Fetch(&list, c->sub, BATCH, ms, &code);
	if (st != NATS_OK && st != NATS_TIMEOUT) {
		if (c->said != EIO)
			rut_warn("cannot receive: %s; trying again",
				 rut_nats.natsStatus_GetText(st));
		c->said = EIO;
		poll(NULL, 0, ms);
	}
	for (int i = 0; i < list.Count && i < BATCH; i++)
		ready[i] = store(c, list.Msgs[i]);
	rc = list.Count ? rut_nats_store_sync(c->store) : 0;
	if (rc)
		say(c, -rc, "cannot write to the disk");
	for (int i = 0; i < list.Count && i < BATCH && !rc; i++)
		if (ready[i])
			rut_nats.natsMsg_Ack(list.Msgs[i], NULL);
	rut_nats.natsMsgList_Destroy(&list);
	return 0;
}

void rut_nats_collect_stats(const struct rut_nats_collect *c, struct rut_nats_store_stats *ret)
{
	rut_nats_store_stats(c->store, ret);
}

void rut_nats_collect_free(struct rut_nats_collect *c)
{
	if (!c)
		return;
	/* The acknowledgements leave with the buffer. */
	if (c->nc)
		rut_nats.natsConnection_FlushTimeout(c->nc, CONNECT_MS);
	if (c->sub)
		rut_nats.natsSubscription_Destroy(c->sub);
	if (c->js)
		rut_nats.jsCtx_Destroy(c->js);
	if (c->nc)
		rut_nats.natsConnection_Destroy(c->nc);
	rut_nats_store_free(c->store);
	free(c);
}
