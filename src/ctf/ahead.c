/* SPDX-License-Identifier: MIT */
#include "ctf/ahead.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ctf/meta.h"
#include "ctf/program.h"
#include "ctf/reader_priv.h"

/* Batches large enough that handing them over costs nothing, few enough to stay in the cache. */
enum { BATCHES = 16, RECORDS = 512, MESSAGES = 64, WORDS = 4 * RECORDS };

enum { FAR = 4 }; /* so many events before it is used a record is fetched */

struct record {
	struct rut_ctf_event ev; /* first; ev.seg points into the batch's words */
	const uint8_t *body;	 /* where its fields begin */
	const uint64_t *regs;	 /* into the batch's words */
	uint32_t regs_first, n_regs;
};

/* A loss or an error that comes before the event number `at` of its batch. */
struct message {
	size_t at;
	bool is_loss;
	struct rut_ctf_loss loss;
	char *text; /* owned; of an error */
};

struct batch {
	struct record *records;		/* owned, RECORDS of them */
	struct rut_ctf_packet *packets; /* owned, RECORDS of them: those of the records */
	uint64_t *words;		/* owned: segments and registers of the records */
	size_t n, n_packets, n_words, n_messages;
	struct message messages[MESSAGES];
	struct rut_ctf_counts counts; /* when the batch was full */
	int64_t last_ns;
	bool at_mark, at_end; /* why it is not full */
};

/* What of a cursor an event of a class needs. */
struct shape {
	uint32_t n_segs, regs_first, n_regs;
};

/* The copy of a stream's packet in the current batch. */
struct copied {
	const uint8_t *data; /* NULL: none */
	const struct rut_ctf_packet *packet;
};

struct rut_ahead {
	struct rut_ctf_reader *reader; /* borrowed */
	struct shape *shapes;	       /* owned; by index of the class */
	size_t n_words;		       /* of each batch */
	struct batch batches[BATCHES];
	pthread_t thread;
	struct rut_ctf_reader_opts caller; /* its callbacks are called */

	/* The thread's: */
	struct copied *copied; /* owned; by index of the stream */
	struct batch *filling;

	/* The caller's: */
	struct batch *reading; /* NULL: none yet */
	size_t next, next_message;
	uint64_t *regs; /* owned */
	struct rut_ctf_counts counts;
	int64_t last_ns;

	/* Shared, with the lock held: */
	pthread_mutex_t lock;
	pthread_cond_t filled_more, taken_more;
	uint64_t filled, taken; /* batches since the begin */
	int64_t mark_ns;
	bool starved, stuffed; /* the caller waits, the thread waits */
	_Atomic bool stop;
};

/* ---- Shapes ---- */

static void need_reg(struct shape *s, int32_t reg)
{
	uint32_t r = (uint32_t)reg, end = s->regs_first + s->n_regs;

	if (reg < 0)
		return;
	if (!s->n_regs) {
		s->regs_first = r;
		end = r;
	}
	end = r + 1 > end ? r + 1 : end;
	s->regs_first = r < s->regs_first ? r : s->regs_first;
	s->n_regs = end - s->regs_first;
}

/* Whether packets and headers keep values to which any event may refer. */
static bool is_referred(const struct rut_ctf_stream_class *sc)
{
	const struct rut_ctf_type *header = sc->trace->packet_header;

	return (header && header->saves) || (sc->packet_context && sc->packet_context->saves) ||
	       rut_meta_stream_class(sc)->header_referred;
}

static void find_shape(const struct rut_ctf_event_class *cls, uint32_t n_regs, struct shape *ret)
{
	const struct rut_ctf_program *prog = cls->program;

	*ret = (struct shape){.n_segs = prog->n_segs};
	for (const struct rut_ctf_step *s = prog->steps; s->op != RUT_CTF_OP_END; s++) {
		if (s->op == RUT_CTF_OP_SAVE)
			need_reg(ret, s->type->reg);
		else if (s->op == RUT_CTF_OP_SEQUENCE)
			need_reg(ret, s->type->len_reg);
		else if (s->op == RUT_CTF_OP_ANY)
			ret->n_regs = UINT32_MAX;
		if (ret->n_regs == UINT32_MAX)
			break;
	}
	if (ret->n_regs == UINT32_MAX || is_referred(cls->stream_class)) {
		ret->regs_first = 0;
		ret->n_regs = n_regs;
	}
}

static int find_shapes(struct rut_ahead *a)
{
	const struct rut_ctf_set *set = a->reader->set;
	size_t most = 0, max_regs = 0;

	a->shapes = calloc(set->n_classes + 1, sizeof(*a->shapes));
	if (!a->shapes)
		return -ENOMEM;
	for (size_t i = 0; i < set->n_traces; i++)
		if (set->traces[i]->n_regs > max_regs)
			max_regs = set->traces[i]->n_regs;
	for (size_t i = 0; i < set->n_classes; i++) {
		const struct rut_ctf_event_class *cls = set->classes[i];
		const struct rut_meta *m = set->traces[cls->stream_class->trace->index];
		struct shape *s = &a->shapes[i];

		find_shape(cls, m->n_regs, s);
		if ((size_t)s->n_segs + s->n_regs > most)
			most = (size_t)s->n_segs + s->n_regs;
	}
	a->n_words = WORDS + most;
	a->regs = calloc(max_regs + 1, sizeof(*a->regs));
	return a->regs ? 0 : -ENOMEM;
}

/* ---- The thread ---- */

static struct batch *batch_of(struct rut_ahead *a, uint64_t number)
{
	return &a->batches[number % BATCHES];
}

/* Gives the batch to the caller. With the lock held. */
static void publish(struct rut_ahead *a, bool at_mark, bool at_end)
{
	struct batch *b = a->filling;

	b->counts = a->reader->counts;
	b->last_ns = rut_reader_last_ns(a->reader);
	b->at_mark = at_mark;
	b->at_end = at_end;
	a->filled++;
	if (a->starved && (at_mark || at_end || a->filled - a->taken >= BATCHES / 2))
		pthread_cond_signal(&a->filled_more);
}

/* Hands the batch over, and waits for an empty one. Returns false when the reader has ended. */
static bool hand_over(struct rut_ahead *a, bool at_mark)
{
	struct batch *b;

	pthread_mutex_lock(&a->lock);
	publish(a, at_mark, false);
	/* At a mark the caller may want other events from here on. */
	while (!a->stop && a->filled - a->taken >= (at_mark ? 1 : BATCHES)) {
		a->stuffed = true;
		pthread_cond_wait(&a->taken_more, &a->lock);
	}
	a->stuffed = false;
	if (at_mark)
		rut_reader_set_mark(a->reader, a->mark_ns);
	pthread_mutex_unlock(&a->lock);
	if (a->stop)
		return false;
	a->filling = b = batch_of(a, a->filled);
	b->n = b->n_packets = b->n_words = b->n_messages = 0;
	memset(a->copied, 0, a->reader->set->n_streams * sizeof(*a->copied));
	return true;
}

static void add_message(struct rut_ahead *a, struct message m)
{
	struct batch *b = a->filling;

	if (b->n_messages == MESSAGES) {
		if (!hand_over(a, false)) {
			free(m.text); /* the reader has ended */
			return;
		}
		b = a->filling;
	}
	m.at = b->n;
	b->messages[b->n_messages++] = m;
}

static void take_loss(const struct rut_ctf_loss *loss, void *arg)
{
	add_message(arg, (struct message){.is_loss = true, .loss = *loss});
}

static void take_error(const char *msg, void *arg)
{
	add_message(arg, (struct message){.text = strdup(msg)});
}

static const struct rut_ctf_packet *copy_packet(struct rut_ahead *a, const struct rut_cursor *c)
{
	struct copied *k = &a->copied[c->s->pub.index];
	struct batch *b = a->filling;

	if (k->data == c->ev.data)
		return k->packet;
	b->packets[b->n_packets] = c->info.pub;
	*k = (struct copied){c->ev.data, &b->packets[b->n_packets++]};
	return k->packet;
}

static void add_event(struct rut_ahead *a, const struct rut_cursor *c, const struct shape *s)
{
	struct batch *b = a->filling;
	struct record *r = &b->records[b->n++];
	uint64_t *words = b->words + b->n_words;

	r->ev = c->ev;
	r->ev.packet = copy_packet(a, c);
	r->ev.seg = words;
	r->ev.regs = a->regs;
	for (uint32_t i = 0; i < s->n_segs; i++)
		words[i] = c->seg[i];
	r->body = c->ev.data + ((s->n_segs ? words[0] : c->ev.header_pos) >> 3);
	r->regs = words + s->n_segs;
	r->regs_first = s->regs_first;
	r->n_regs = s->n_regs;
	if (s->n_regs)
		memcpy(words + s->n_segs, c->regs + s->regs_first, s->n_regs * sizeof(*words));
	b->n_words += s->n_segs + s->n_regs;
}

static void *read_on(void *arg)
{
	struct rut_ahead *a = arg;
	const struct rut_cursor *c;

	while (!atomic_load_explicit(&a->stop, memory_order_relaxed) &&
	       (c = rut_reader_step(a->reader))) {
		bool at_mark = c->ev.ts_ns >= a->reader->mark_ns;

		/* There is always room for one more. */
		add_event(a, c, &a->shapes[c->ev.cls->index]);
		if ((at_mark || a->filling->n == RECORDS || a->filling->n_words >= WORDS) &&
		    !hand_over(a, at_mark))
			return NULL;
	}
	pthread_mutex_lock(&a->lock);
	publish(a, false, true);
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

/* ---- The caller ---- */

static void tell(struct rut_ahead *a, struct message *m)
{
	const struct rut_ctf_reader_opts *o = &a->caller;
	char text[600];

	if (m->is_loss && o->on_loss) {
		o->on_loss(&m->loss, o->arg);
	} else if (m->is_loss) {
		rut_ctf_loss_text(&m->loss, text, sizeof(text));
		rut_warn("%s", text);
	} else if (o->on_error) {
		o->on_error(m->text ? m->text : "out of memory", o->arg);
	} else {
		rut_warn("%s", m->text ? m->text : "out of memory");
	}
	free(m->text);
	m->text = NULL;
}

/* Reports what precedes the next event: losses and errors. */
static void tell_up_to(struct rut_ahead *a, struct batch *b)
{
	while (a->next_message < b->n_messages && b->messages[a->next_message].at <= a->next)
		tell(a, &b->messages[a->next_message++]);
}

/* Gives the batch back and waits for the next one. */
static struct batch *next_batch(struct rut_ahead *a)
{
	pthread_mutex_lock(&a->lock);
	if (a->reading) {
		a->taken++;
		if (a->stuffed && (a->reading->at_mark || a->filled - a->taken <= BATCHES / 2))
			pthread_cond_signal(&a->taken_more);
	}
	while (a->filled == a->taken) {
		a->starved = true;
		pthread_cond_wait(&a->filled_more, &a->lock);
	}
	a->starved = false;
	a->reading = batch_of(a, a->taken);
	pthread_mutex_unlock(&a->lock);
	a->next = a->next_message = 0;
	a->counts = a->reading->counts;
	a->last_ns = a->reading->last_ns;
	return a->reading;
}

const struct rut_ctf_event *rut_ahead_next(struct rut_ahead *a)
{
	struct batch *b = a->reading;
	const struct record *r;

	while (__builtin_expect(!b || a->next >= b->n || b->n_messages, 0)) {
		if (b) {
			tell_up_to(a, b);
			if (a->next < b->n)
				break;
			if (b->at_end)
				return NULL;
		}
		b = next_batch(a);
	}
	r = &b->records[a->next++];
	/* The thread has read it: it is in another CPU's cache. */
	if (a->next + FAR <= b->n)
		__builtin_prefetch(r[FAR].body);
	if (r->n_regs)
		memcpy(a->regs + r->regs_first, r->regs, r->n_regs * sizeof(*r->regs));
	return &r->ev;
}

void rut_ahead_mark(struct rut_ahead *a, int64_t ts_ns)
{
	pthread_mutex_lock(&a->lock);
	a->mark_ns = ts_ns;
	pthread_mutex_unlock(&a->lock);
}

void rut_ahead_counts(const struct rut_ahead *a, struct rut_ctf_counts *ret)
{
	*ret = a->counts;
}

int64_t rut_ahead_last_ns(const struct rut_ahead *a)
{
	return a->last_ns;
}

/* ---- Life ---- */

static void fini_batch(struct batch *b)
{
	free(b->records);
	free(b->packets);
	free(b->words);
	for (size_t i = 0; i < b->n_messages; i++)
		free(b->messages[i].text);
}

static int init_batch(struct batch *b, size_t n_words)
{
	b->records = malloc(RECORDS * sizeof(*b->records));
	b->packets = malloc(RECORDS * sizeof(*b->packets));
	b->words = malloc(n_words * sizeof(*b->words));
	return b->records && b->packets && b->words ? 0 : -ENOMEM;
}

static void release(struct rut_ahead *a)
{
	for (int i = 0; i < BATCHES; i++)
		fini_batch(&a->batches[i]);
	pthread_mutex_destroy(&a->lock);
	pthread_cond_destroy(&a->filled_more);
	pthread_cond_destroy(&a->taken_more);
	free(a->shapes);
	free(a->copied);
	free(a->regs);
	free(a);
}

/* The caller's threads take signals, except those that an instruction raises. */
static int start_thread(struct rut_ahead *a)
{
	static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
	sigset_t all, before;
	int r;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		sigdelset(&all, own[i]);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	r = pthread_create(&a->thread, NULL, read_on, a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!r)
		pthread_setname_np(a->thread, "read-ahead");
	return -r;
}

int rut_ahead_new(struct rut_ahead **ret, struct rut_ctf_reader *r)
{
	struct rut_ahead *a = calloc(1, sizeof(*a));
	int rc;

	if (!a)
		return -ENOMEM;
	a->reader = r;
	a->caller = r->opts;
	a->mark_ns = r->mark_ns;
	a->last_ns = INT64_MIN;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->filled_more, NULL);
	pthread_cond_init(&a->taken_more, NULL);
	rc = find_shapes(a);
	a->copied = calloc(r->set->n_streams + 1, sizeof(*a->copied));
	if (!a->copied)
		rc = -ENOMEM;
	for (int i = 0; i < BATCHES && !rc; i++)
		rc = init_batch(&a->batches[i], a->n_words);
	a->filling = &a->batches[0];
	r->opts.on_loss = take_loss;
	r->opts.on_error = take_error;
	r->opts.arg = a;
	if (!rc)
		rc = start_thread(a);
	if (rc < 0) {
		r->opts = a->caller;
		release(a);
		return rc;
	}
	*ret = a;
	return 0;
}

void rut_ahead_free(struct rut_ahead *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_cond_signal(&a->taken_more);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	a->reader->opts = a->caller;
	release(a);
}
