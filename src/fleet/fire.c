/* SPDX-License-Identifier: MIT */
#include "fleet/fire.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "fleet/wire.h"
#include "stream/nats_conn.h"
#include "stream/nats_wire.h"

#define CONNECT_MS 2000
#define FIRST_MS   300		  /* for the first answers */
#define ASK_NS	   5000000000ull  /* how often the hosts are asked for the time */
#define GONE_NS	   30000000000ull /* silent for this time: considered absent */
#define ANSWER_NS  3000000000ull  /* for the first answer to a firing */
#define END_NS	   60000000000ull /* for the last one */
#define HOSTS_MAX  10000
#define LOOKS	   8 /* the best of so many measurements counts */

enum state { IDLE, ASKED, RUNNING, REFUSED, DONE };

struct host {
	char name[RUT_FLEET_NAME];
	int64_t offset_ns[LOOKS];
	uint64_t error_ns[LOOKS]; /* 0: not measured */
	unsigned next;
	uint64_t heard_ns; /* CLOCK_MONOTONIC; 0: never */
	bool named;	   /* asked for even when it was never heard of */
	enum state state;  /* of the last firing */
	uint32_t code;
	char why[120];
};

struct rut_fleet_fire {
	struct rut_fleet_fire_conf conf;
	char self[RUT_FLEET_NAME];
	natsConnection *nc;
	natsSubscription *times, *answers;
	char *times_inbox, *answers_inbox; /* owned by the library */
	uint64_t next_ns, asked_ns;	   /* CLOCK_MONOTONIC */
	bool firing;
	pthread_mutex_t lock; /* of what follows, which threads of the library change */
	uint32_t number;      /* of the last question for the time */
	int64_t sent_ns;      /* when it was sent, by the time of day */
	struct host *hosts;   /* owned */
	size_t n_hosts;
};

/* With the lock. NULL: too many, or out of memory. */
static struct host *host_of(struct rut_fleet_fire *f, const char *name)
{
	struct host *more;

	for (size_t i = 0; i < f->n_hosts; i++)
		if (!strcmp(f->hosts[i].name, name))
			return &f->hosts[i];
	more = f->n_hosts < HOSTS_MAX && strlen(name) < sizeof(more->name)
		       ? reallocarray(f->hosts, f->n_hosts + 1, sizeof(*more))
		       : NULL;
	if (!more)
		return NULL;
	f->hosts = more;
	more[f->n_hosts] = (struct host){.state = IDLE};
	snprintf(more[f->n_hosts].name, sizeof(more->name), "%s", name);
	return &more[f->n_hosts++];
}

/* ---- answers, in threads of the library ---- */

/* Its subject has the name that the host has the right to answer by. */
static bool take_answer(const struct rut_fleet_fire *f, const char *inbox, natsMsg *msg,
			struct rut_fleet_answer *ret)
{
	_cleanup_buf_ struct rut_buf reply = RUT_BUF_INIT, subject = RUT_BUF_INIT;

	if (rut_fleet_answer_get(rut_nats.natsMsg_GetData(msg),
				 (size_t)rut_nats.natsMsg_GetDataLength(msg), ret) ||
	    !rut_fleet_is_among(f->conf.hosts, ret->host))
		return false;
	rut_buf_printf(&reply, "%s" RUT_FLEET_REPLY, inbox);
	if (!reply.failed)
		rut_fleet_subject_put(&subject, reply.data, ret->host);
	return !reply.failed && !subject.failed &&
	       !strcmp(subject.data, rut_nats.natsMsg_GetSubject(msg));
}

/*
 * "NUMBER NANOSECONDS": its clock at a moment between our question and its answer. Half of the time
 * between is by how much the difference may be wrong.
 */
static void on_time(natsConnection *nc, natsSubscription *sub, natsMsg *msg, void *arg)
{
	const int64_t now_ns = (int64_t)rut_clock_ns(CLOCK_REALTIME);
	struct rut_fleet_fire *f = arg;
	struct rut_fleet_answer got;
	uint32_t number;
	int64_t there_ns;
	char text[64];
	struct host *h;

	(void)nc;
	(void)sub;
	if (take_answer(f, f->times_inbox, msg, &got) && got.kind == RUT_FLEET_OUT &&
	    got.len < sizeof(text)) {
		memcpy(text, got.data, got.len);
		text[got.len] = '\0';
		pthread_mutex_lock(&f->lock);
		if (sscanf(text, "%" SCNu32 " %" SCNd64, &number, &there_ns) == 2 &&
		    number == f->number && now_ns >= f->sent_ns && (h = host_of(f, got.host))) {
			const int64_t took_ns = now_ns - f->sent_ns;

			h->offset_ns[h->next] = there_ns - (f->sent_ns + took_ns / 2);
			h->error_ns[h->next] = (uint64_t)took_ns / 2 + 1;
			h->next = (h->next + 1) % LOOKS;
			h->heard_ns = rut_now_ns();
		}
		pthread_mutex_unlock(&f->lock);
	}
	rut_nats.natsMsg_Destroy(msg);
}

static void on_answer(natsConnection *nc, natsSubscription *sub, natsMsg *msg, void *arg)
{
	struct rut_fleet_fire *f = arg;
	struct rut_fleet_answer got;
	struct host *h;

	(void)nc;
	(void)sub;
	if (take_answer(f, f->answers_inbox, msg, &got)) {
		pthread_mutex_lock(&f->lock);
		h = host_of(f, got.host);
		if (h && (h->state == ASKED || h->state == RUNNING)) {
			h->state = got.kind == RUT_FLEET_REFUSED ? REFUSED
				   : got.kind == RUT_FLEET_EXIT	 ? DONE
								 : RUNNING;
			if (got.kind == RUT_FLEET_EXIT)
				h->code = got.number;
			if (got.kind == RUT_FLEET_REFUSED || got.kind == RUT_FLEET_ERR)
				snprintf(h->why, sizeof(h->why), "%.*s",
					 (int)strcspn(got.data, "\n") < (int)got.len
						 ? (int)strcspn(got.data, "\n")
						 : (int)got.len,
					 got.data);
		}
		pthread_mutex_unlock(&f->lock);
	}
	rut_nats.natsMsg_Destroy(msg);
}

/* ---- questions ---- */

struct send {
	struct rut_fleet_fire *f;
	const struct rut_buf *request;
	const char *reply;
	bool any_glob;
	natsStatus st;
};

static natsStatus send_to(const struct send *s, const char *host)
{
	_cleanup_buf_ struct rut_buf to = RUT_BUF_INIT;

	rut_buf_puts(&to, RUT_FLEET_HOST);
	rut_nats_token_put(&to, host);
	return to.failed ? NATS_NO_MEMORY
			 : rut_nats.natsConnection_PublishRequest(s->f->nc, to.data, s->reply,
								  s->request->data,
								  (int)s->request->len);
}

static void ask_host(void *arg, const char *host, bool glob)
{
	struct send *s = arg;

	s->any_glob |= glob;
	if (!glob)
		s->st = send_to(s, host);
}

static void ask_for_times(struct rut_fleet_fire *f)
{
	_cleanup_buf_ struct rut_buf request = RUT_BUF_INIT, reply = RUT_BUF_INIT;
	struct send s = {.f = f, .request = &request};
	char number[16], clock[] = RUT_FLEET_CLOCK;
	char *words[] = {clock, number};

	pthread_mutex_lock(&f->lock);
	snprintf(number, sizeof(number), "%" PRIu32, ++f->number);
	f->sent_ns = (int64_t)rut_clock_ns(CLOCK_REALTIME);
	pthread_mutex_unlock(&f->lock);
	rut_buf_printf(&reply, "%s" RUT_FLEET_REPLY, f->times_inbox);
	if (rut_fleet_request_put(&request, f->conf.hosts, words, 2) || reply.failed)
		return;
	s.reply = reply.data;
	rut_fleet_each_host(f->conf.hosts, ask_host, &s);
	if (s.any_glob)
		rut_nats.natsConnection_PublishRequest(f->nc, RUT_FLEET_ALL, reply.data,
						       request.data, (int)request.len);
	rut_nats.natsConnection_FlushTimeout(f->nc, FIRST_MS);
}

void rut_fleet_fire_step(struct rut_fleet_fire *f)
{
	/* What a snapshot costs the hosts would be in the times that they take to answer. */
	if (rut_now_ns() < f->next_ns || f->firing)
		return;
	f->next_ns = rut_now_ns() + ASK_NS;
	ask_for_times(f);
}

/* The measurement with the least error; false: none. */
static bool offset_of(const struct host *h, int64_t *ret_ns, uint64_t *ret_error_ns)
{
	*ret_ns = 0;
	*ret_error_ns = 0;
	for (unsigned i = 0; i < LOOKS; i++)
		if (h->error_ns[i] && (!*ret_error_ns || h->error_ns[i] < *ret_error_ns)) {
			*ret_ns = h->offset_ns[i];
			*ret_error_ns = h->error_ns[i];
		}
	return *ret_error_ns != 0;
}

static int fire_host(struct rut_fleet_fire *f, struct host *h, const char *reply,
		     char *const *words, size_t n, const char *about, int64_t fired_ns)
{
	_cleanup_buf_ struct rut_buf request = RUT_BUF_INIT;
	struct send s = {.f = f, .request = &request, .reply = reply};
	char trigger[512], option[] = "--trigger";
	char *all[RUT_FLEET_WORDS];
	int64_t offset_ns;
	uint64_t error_ns;

	if (n + 2 > RUT_FLEET_WORDS)
		return -E2BIG;
	/* An error of -1: the clocks have not been compared. */
	if (!offset_of(h, &offset_ns, &error_ns))
		error_ns = UINT64_MAX;
	snprintf(trigger, sizeof(trigger), "%s,%s,%" PRId64 ",%" PRId64 ",%" PRId64, about, f->self,
		 offset_ns, (int64_t)error_ns, fired_ns);
	memcpy(all, words, n * sizeof(*words));
	all[n] = option;
	all[n + 1] = trigger;
	h->state = ASKED;
	h->code = 0;
	h->why[0] = '\0';
	if (rut_fleet_request_put(&request, h->name, all, n + 2))
		return -E2BIG;
	return send_to(&s, h->name) == NATS_OK ? 0 : -EIO;
}

int rut_fleet_fire_send(struct rut_fleet_fire *f, char *const *words, size_t n, const char *about,
			int64_t fired_ns, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf reply = RUT_BUF_INIT;
	const uint64_t now_ns = rut_now_ns();
	int rc = 0, asked = 0;

	rut_buf_printf(&reply, "%s" RUT_FLEET_REPLY, f->answers_inbox);
	if (reply.failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->n_hosts && !rc; i++) {
		struct host *h = &f->hosts[i];

		h->state = IDLE;
		if (!h->named && now_ns - h->heard_ns > GONE_NS)
			continue;
		rc = fire_host(f, h, reply.data, words, n, about, fired_ns);
		asked += !rc;
	}
	pthread_mutex_unlock(&f->lock);
	/* Nobody waits for answers of none. */
	f->firing = !rc && asked;
	f->asked_ns = now_ns;
	/* The library's thread sends it at once; waiting for the server would be the caller's loss.
	 */
	if (rc == -E2BIG)
		return rut_err_set(err, E2BIG, "the request to the hosts is too long");
	return rc ? rut_err_set(err, EIO, "cannot ask the hosts: the connection is lost") : asked;
}

bool rut_fleet_fire_done(struct rut_fleet_fire *f, struct rut_buf *ret, bool *ret_failed)
{
	const uint64_t took_ns = rut_now_ns() - f->asked_ns;
	size_t silent = 0, running = 0, taken = 0;

	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->n_hosts; i++) {
		const struct host *h = &f->hosts[i];

		silent += h->state == ASKED;
		running += h->state == RUNNING;
		taken += h->state == DONE && !h->code;
	}
	if ((silent && took_ns < ANSWER_NS) || (running && took_ns < END_NS)) {
		pthread_mutex_unlock(&f->lock);
		return false;
	}
	rut_buf_printf(ret, "snapshots of %zu hosts", taken);
	*ret_failed = false;
	for (size_t i = 0; i < f->n_hosts; i++) {
		const struct host *h = &f->hosts[i];

		if (h->state == IDLE || (h->state == DONE && !h->code))
			continue;
		*ret_failed = true;
		rut_buf_printf(ret, "; %s %s%s", h->name,
			       h->state == ASKED     ? "does not answer"
			       : h->state == RUNNING ? "does not end"
			       : h->state == REFUSED ? "refuses: "
						     : "fails: ",
			       h->state >= REFUSED ? h->why : "");
	}
	pthread_mutex_unlock(&f->lock);
	*ret_failed |= !taken;
	f->firing = false;
	return true;
}

/* ---- begin and end ---- */

static void name_host(void *arg, const char *host, bool glob)
{
	struct host *h = glob ? NULL : host_of(arg, host);

	if (h)
		h->named = true;
}

static natsStatus listen(struct rut_fleet_fire *f, char **inbox, natsSubscription **sub,
			 natsMsgHandler fn)
{
	_cleanup_buf_ struct rut_buf subjects = RUT_BUF_INIT;
	natsStatus st = rut_nats.natsInbox_Create(inbox);

	if (st != NATS_OK)
		return st;
	rut_buf_printf(&subjects, "%s.>", *inbox);
	return subjects.failed
		       ? NATS_NO_MEMORY
		       : rut_nats.natsConnection_Subscribe(sub, f->nc, subjects.data, fn, f);
}

int rut_fleet_fire_new(struct rut_fleet_fire **ret, const struct rut_fleet_fire_conf *conf,
		       struct rut_err *err)
{
	const struct rut_nats_conn_conf to = {
		.url = &conf->url, .dir = conf->tls, .timeout_ms = CONNECT_MS, .reconnect = true};
	struct rut_fleet_fire *f = calloc(1, sizeof(*f));
	natsStatus st;
	int rc;

	if (!f)
		return rut_err_set(err, ENOMEM, "out of memory");
	f->conf = *conf;
	pthread_mutex_init(&f->lock, NULL);
	rut_nats_host(f->self, sizeof(f->self));
	rut_fleet_each_host(conf->hosts, name_host, f);
	rc = rut_nats_connect(&f->nc, &to, err);
	if (!rc) {
		st = listen(f, &f->times_inbox, &f->times, on_time);
		if (st == NATS_OK)
			st = listen(f, &f->answers_inbox, &f->answers, on_answer);
		if (st != NATS_OK)
			rc = rut_nats_error(err, st, "cannot subscribe to answers");
	}
	if (rc) {
		rut_fleet_fire_free(f);
		return rc;
	}
	for (int i = 0; i < 3; i++) {
		ask_for_times(f);
		nanosleep(&(struct timespec){.tv_nsec = FIRST_MS * 1000000l / 3}, NULL);
	}
	f->next_ns = rut_now_ns() + ASK_NS;
	*ret = f;
	return 0;
}

void rut_fleet_fire_free(struct rut_fleet_fire *f)
{
	if (!f)
		return;
	if (f->nc)
		rut_nats.natsConnection_Close(f->nc);
	if (f->times)
		rut_nats.natsSubscription_Destroy(f->times);
	if (f->answers)
		rut_nats.natsSubscription_Destroy(f->answers);
	if (f->times_inbox)
		rut_nats.natsInbox_Destroy(f->times_inbox);
	if (f->answers_inbox)
		rut_nats.natsInbox_Destroy(f->answers_inbox);
	if (f->nc)
		rut_nats.natsConnection_Destroy(f->nc);
	pthread_mutex_destroy(&f->lock);
	free(f->hosts);
	free(f);
}
