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
enum { BATCHES = 16, RECORDS = 512, SOURCES = 128, MESSAGES = 64, WORDS = 4 * RECORDS };

/*
 * So many events before they are used the trace and the records are fetched from the other CPU,
 * which is looked after at least after each RUN events.
 */
enum { FAR = 16, FAR_RECORDS = 64, RUN = 8 };

/* A packet that records of a batch are in. */
struct source {
	struct rut_ctf_event ev; /* what its events have in common; the caller fills in the rest */
	struct rut_ctf_run run;	 /* likewise */
	struct rut_ctf_packet packet;
	/*
	 * Its records have words, which begin with the clock and where the record begins: these
	 * cannot be had from a struct rut_found.
	 */
	bool is_wide;
};

enum { WIDE_WORDS = 2 };

/* A loss or an error that comes before the event number `at` of its batch. */
struct message {
	size_t at;
	bool is_loss;
	struct rut_ctf_loss loss;
	char *text; /* owned; of an error */
};

struct batch {
	struct rut_found *records; /* owned, RECORDS of them */
	struct source *sources;	   /* owned, SOURCES of them */
	uint64_t *words;	   /* owned: segments and registers of the records */
	size_t n, n_sources, n_words, n_messages;
	struct message messages[MESSAGES];
	struct rut_ctf_counts counts; /* when the batch was full */
	int64_t last_ns;
	bool at_mark, at_end; /* why it is not full */
};

/* What of a cursor an event of a class needs. */
struct shape {
	uint32_t n_segs, regs_first, n_regs;
};

/* Where the current packet of a stream is among a batch's sources. */
struct place {
	uint64_t batch; /* its number + 1; 0: none yet */
	const uint8_t *data;
	uint16_t src;
};

struct rut_ahead {
	struct rut_ctf_reader *reader; /* borrowed */
	struct shape *shapes;	       /* owned; by index of the class */
	size_t n_words;		       /* of each batch */
	bool all_have_regs;	       /* also records of fixed size may need registers */
	struct batch batches[BATCHES];
	pthread_t thread;
	struct rut_ctf_reader_opts caller; /* its callbacks are called */

	/* The thread's: */
	RUT_OWN_LINES struct place *places; /* owned; by index of the stream */
	struct batch *filling;
	uint64_t number; /* of the batch + 1 */
	/* Any may set it, once. */
	_Atomic bool stop;

	/* The caller's: */
	RUT_OWN_LINES struct batch *reading; /* NULL: none yet */
	size_t next, next_message;
	size_t until;	/* up to here events come without messages between them */
	size_t fetched; /* of them */
	uint64_t *regs; /* owned */
	struct rut_ctf_counts counts;
	int64_t last_ns;

	/* Shared, with the lock held: */
	RUT_OWN_LINES pthread_mutex_t lock;
	pthread_cond_t filled_more, taken_more;
	uint64_t filled, taken; /* batches since the begin */
	int64_t mark_ns;
	bool starved, stuffed; /* the caller waits, the thread waits */
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
		a->all_have_regs |= is_referred(cls->stream_class);
		if ((size_t)s->n_segs + s->n_regs > most)
			most = (size_t)s->n_segs + s->n_regs;
	}
	a->n_words = WORDS + WIDE_WORDS + most;
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
	a->filling = b = batch_of(a, a->number++);
	b->n = b->n_sources = b->n_words = b->n_messages = 0;
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

static bool is_full(const struct batch *b)
{
	return b->n == RECORDS || b->n_words >= WORDS || b->n_sources == SOURCES;
}

/* The number of the cursor's packet among the sources of the batch. There is room for one more. */
static uint16_t source_of(struct rut_ahead *a, const struct rut_cursor *c)
{
	struct place *p = &a->places[c->s->pub.index];
	struct batch *b = a->filling;
	struct source *s;

	if (p->batch == a->number && p->data == c->ev.data)
		return p->src;
	*p = (struct place){a->number, c->ev.data, (uint16_t)b->n_sources};
	s = &b->sources[b->n_sources++];
	s->ev = c->ev;
	s->ev.packet = &s->packet;
	s->ev.regs = a->regs;
	s->packet = c->info.pub;
	s->is_wide = !c->quick;
	s->run = (struct rut_ctf_run){.ev = &s->ev,
				      .until_ns = INT64_MAX,
				      .base_ns = c->clock ? (uint64_t)c->clock->base_ns : 0,
				      .classes = a->reader->set->classes,
				      .seg = RUT_FOUND_BODY,
				      .src = p->src};
	return p->src;
}

/* A record whose segments or values are in the cursor, at `seg`. */
static void add_words(struct rut_ahead *a, const struct rut_cursor *c, struct rut_found *f,
		      const uint64_t *seg, bool is_wide)
{
	const struct shape *s = &a->shapes[f->index];
	struct batch *b = a->filling;
	uint64_t *words = b->words + b->n_words, *w = words;

	f->body = s->n_segs ? seg[0] : f->start;
	f->seg = RUT_FOUND_BODY;
	if (!is_wide && s->n_segs <= 1 && !s->n_regs)
		return;
	if (is_wide) {
		*w++ = c->ev.ts_clock;
		*w++ = c->ev.header_pos;
	}
	for (uint32_t i = 0; i < s->n_segs; i++)
		*w++ = seg[i];
	if (s->n_regs)
		memcpy(w, c->regs + s->regs_first, s->n_regs * sizeof(*w));
	f->seg = (uint16_t)b->n_words;
	b->n_words += (size_t)(w - words) + s->n_regs;
}

/* The event that the cursor shows. */
static void add_event(struct rut_ahead *a, const struct rut_cursor *c)
{
	const uint16_t src = source_of(a, c);
	struct batch *b = a->filling;
	struct rut_found *f = &b->records[b->n++];

	*f = (struct rut_found){.ts_ns = c->ev.ts_ns,
				.start = (uint32_t)c->ev.header_pos,
				.index = c->ev.index,
				.src = src};
	add_words(a, c, f, c->ev.seg, b->sources[src].is_wide);
}

/* What the root has found before the others' next event, as far as there is room. */
static void add_run(struct rut_ahead *a, struct rut_cursor *c)
{
	const struct rut_ctf_reader *r = a->reader;
	const uint16_t src = source_of(a, c);
	struct batch *b = a->filling;
	struct rut_found *f;

	while (rut_reader_has_run(r, c) && b->n < RECORDS && b->n_words < WORDS) {
		f = &b->records[b->n++];
		*f = *c->run.next++;
		f->src = src;
		if (f->seg != RUT_FOUND_BODY || a->all_have_regs)
			add_words(a, c, f, rut_cursor_segments(c, f), false);
	}
}

static void *read_on(void *arg)
{
	struct rut_ahead *a = arg;
	struct rut_cursor *c;

	while (!atomic_load_explicit(&a->stop, memory_order_relaxed) &&
	       (c = rut_reader_step(a->reader))) {
		bool at_mark = c->ev.ts_ns >= a->reader->mark_ns;

		/* There is always room for one more. */
		add_event(a, c);
		if (!at_mark && !is_full(a->filling) && rut_reader_has_run(a->reader, c))
			add_run(a, c);
		if ((at_mark || is_full(a->filling)) && !hand_over(a, at_mark))
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
	a->until = a->next_message < b->n_messages ? b->messages[a->next_message].at : b->n;
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
	a->next = a->next_message = a->until = a->fetched = 0;
	a->counts = a->reading->counts;
	a->last_ns = a->reading->last_ns;
	return a->reading;
}

/* Goes to the next event that there is. False: the end. */
static bool find_next(struct rut_ahead *a)
{
	struct batch *b = a->reading;

	while (!b || a->next >= a->until) {
		if (b) {
			tell_up_to(a, b);
			if (a->next < a->until)
				return true;
			if (b->at_end)
				return false;
		}
		b = next_batch(a);
	}
	return true;
}

static void show_words(struct rut_ahead *a, struct source *s, const struct rut_found *f)
{
	const struct shape *shape = &a->shapes[f->index];
	const uint64_t *w = a->reading->words + f->seg;

	if (s->is_wide) {
		s->ev.ts_clock = *w++;
		s->ev.header_pos = *w++;
	}
	s->ev.seg = w;
	if (shape->n_regs)
		memcpy(a->regs + shape->regs_first, w + shape->n_segs, shape->n_regs * sizeof(*w));
}

static void fetch(struct rut_ahead *a)
{
	const size_t end = a->next + FAR < a->until ? a->next + FAR : a->until;
	const struct rut_found *f = a->reading->records;

	__builtin_prefetch(f + a->next + FAR_RECORDS);
	__builtin_prefetch(f + a->next + FAR_RECORDS + RUN / 2);
	for (; a->fetched < end; a->fetched++)
		__builtin_prefetch(a->reading->sources[f[a->fetched].src].ev.data +
				   f[a->fetched].body / 8);
}

const struct rut_ctf_event *rut_ahead_next(struct rut_ahead *a, struct rut_ctf_run **run)
{
	const struct rut_found *f;
	struct source *s;

	if (a->reading)
		a->next = (size_t)((*run)->next - a->reading->records);
	if (a->next >= a->until && !find_next(a)) {
		(*run)->next = (*run)->end = a->reading->records + a->next;
		return NULL;
	}
	fetch(a);
	f = &a->reading->records[a->next++];
	s = &a->reading->sources[f->src];
	rut_ctf_run_show(&s->run, f, &f->body);
	if (f->seg != RUT_FOUND_BODY)
		show_words(a, s, f);
	s->run.next = f + 1;
	s->run.end = f + 1 + (a->until - a->next < RUN ? a->until - a->next : RUN);
	*run = &s->run;
	return &s->ev;
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
	free(b->sources);
	free(b->words);
	for (size_t i = 0; i < b->n_messages; i++)
		free(b->messages[i].text);
}

static int init_batch(struct batch *b, size_t n_words)
{
	b->records = malloc(RECORDS * sizeof(*b->records));
	b->sources = malloc(SOURCES * sizeof(*b->sources));
	b->words = malloc(n_words * sizeof(*b->words));
	return b->records && b->sources && b->words ? 0 : -ENOMEM;
}

static void release(struct rut_ahead *a)
{
	for (int i = 0; i < BATCHES; i++)
		fini_batch(&a->batches[i]);
	pthread_mutex_destroy(&a->lock);
	pthread_cond_destroy(&a->filled_more);
	pthread_cond_destroy(&a->taken_more);
	free(a->shapes);
	free(a->places);
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
	struct rut_ahead *a = aligned_alloc(_Alignof(struct rut_ahead), sizeof(*a));
	int rc;

	if (!a)
		return -ENOMEM;
	memset(a, 0, sizeof(*a));
	a->reader = r;
	a->caller = r->opts;
	a->mark_ns = r->mark_ns;
	a->last_ns = INT64_MIN;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->filled_more, NULL);
	pthread_cond_init(&a->taken_more, NULL);
	rc = find_shapes(a);
	a->places = calloc(r->set->n_streams + 1, sizeof(*a->places));
	if (!a->places)
		rc = -ENOMEM;
	for (int i = 0; i < BATCHES && !rc; i++)
		rc = init_batch(&a->batches[i], a->n_words);
	a->filling = &a->batches[0];
	a->number = 1;
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
