/* SPDX-License-Identifier: MIT */
#include "cli/view_print.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/periods.h"
#include "base/cleanup.h"
#include "base/glob.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/proc.h"
#include "cli/trace_open.h"
#include "cli/view_folded.h"
#include "output/jsonl.h"
#include "output/text.h"

enum {
	WRITE_BYTES = 1 << 20,
	SLICE_BYTES = 2 << 20, /* of trace; its text is about five times as long */
	MAX_THREADS = 8,
};

/* ---- What is wanted ---- */

/* By class index, shared by all threads. */
struct choice {
	uint8_t *wanted;
	struct rut_expr_prog **progs; /* NULL: without a condition */
	size_t n;
	bool all, none;
};

static void choice_fini(struct choice *c)
{
	for (size_t i = 0; c->progs && i < c->n; i++)
		rut_expr_prog_free(c->progs[i]);
	free(c->progs);
	free(c->wanted);
}

static bool name_wanted(const struct rut_view *v, const char *name)
{
	for (size_t i = 0; i < v->n_events; i++)
		if (rut_glob_string(v->events[i], name))
			return true;
	return !v->n_events;
}

/* Prepares the classes that it has not seen yet. */
static int choose(const struct rut_view *v, struct choice *c, struct rut_err *err)
{
	size_t n = rut_ctf_set_n_classes(v->set);
	void *wanted = realloc(c->wanted, n + 1), *progs;

	c->wanted = wanted ? wanted : c->wanted;
	progs = realloc(c->progs, (n + 1) * sizeof(struct rut_expr_prog *));
	c->progs = progs ? progs : c->progs;
	if (!wanted || !progs)
		return rut_err_set(err, ENOMEM, "out of memory");
	c->none = c->none || !c->n;
	c->all = !v->n_events && !v->filter;
	while (c->n < n) {
		size_t i = c->n++;
		const struct rut_ctf_event_class *cls = rut_ctf_set_class(v->set, i);
		int rc, always;

		c->wanted[i] = 0;
		c->progs[i] = NULL;
		if (!name_wanted(v, cls->name))
			continue;
		if (v->filter) {
			rc = rut_expr_bind(v->filter, &rut_an_periods_expr_ops, cls, &c->progs[i]);
			if (rc < 0)
				return rut_err_errno(err, -rc, "cannot compile the filter");
			always = rut_expr_prog_constant(c->progs[i]);
			if (!always)
				continue;
			if (always > 0) {
				rut_expr_prog_free(c->progs[i]);
				c->progs[i] = NULL;
			}
		}
		c->wanted[i] = 1;
		c->none = false;
	}
	return 0;
}

static void want(const struct rut_view *v, const struct choice *c, struct rut_ctf_reader *r,
		 size_t from)
{
	for (size_t i = from; i < c->n && !c->all; i++)
		if (c->wanted[i])
			rut_ctf_reader_want(r, rut_ctf_set_class(v->set, i));
}

static inline const struct rut_ctf_event *next(struct rut_ctf_reader *r, const struct choice *c)
{
	const struct rut_ctf_event *ev;

	while ((ev = rut_ctf_reader_next(r))) {
		const struct rut_expr_prog *p = c->progs[ev->cls->index];

		if (!p || rut_expr_match(p, ev, NULL))
			break;
	}
	return ev;
}

/* ---- Stacks ---- */

struct frames {
	struct rut_buf *out;
	bool json;
	size_t n;
};

static void print_frame(const char *frame, uint64_t address, void *arg)
{
	struct frames *f = arg;

	if (!f->json) {
		rut_buf_putc(f->out, '\t');
		rut_text_add(f->out, frame); /* names are those of symbols: untrusted bytes */
		rut_buf_putc(f->out, '\n');
		return;
	}
	rut_buf_puts(f->out, f->n++ ? "," : "");
	rut_jsonl_text(f->out, frame);
}

/* The stacks of the event just printed: below its line, or as members of its object. */
static void print_stacks(const struct rut_view *v, const struct rut_ctf_event *ev,
			 struct rut_buf *out)
{
	static const struct {
		enum rut_callstack_kind kind;
		const char *name;
	} kinds[] = {{RUT_CALLSTACK_KERNEL, "kstack"},
		     {RUT_CALLSTACK_USER, "ustack"},
		     {RUT_CALLSTACK_RUBY, "ruby_stack"}};
	struct frames f = {.out = out, .json = v->text.json};

	if (!v->stacks || out->failed)
		return;
	/* "}\n" comes again behind the stacks. */
	if (f.json)
		out->len -= 2;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		size_t before = out->len;

		f.n = 0;
		if (f.json)
			rut_buf_printf(out, ",\"%s\":[", kinds[i].name);
		if (!rut_an_callstacks_each(v->stacks, ev, kinds[i].kind, print_frame, &f))
			out->len = before;
		else if (f.json)
			rut_buf_putc(out, ']');
	}
	if (f.json)
		rut_buf_puts(out, "}\n");
}

/* ---- One thread ---- */

/*
 * Waits until a trace that is followed has grown. Returns 0 when there may be more, 1 at the end,
 * or -errno.
 */
static int wait_for_more(const struct rut_view *v, struct choice *c, struct rut_ctf_reader *r,
			 struct rut_ctf_text *text, struct rut_err *err)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	size_t had = c->n;
	int rc = 0, fed = 0;

	while (!*v->stop) {
		if (v->feed)
			fed = v->feed(v->feed_arg, err);
		if (fed < 0)
			return fed;
		rc = rut_ctf_reader_poll(r, err);
		if (rc || fed)
			break;
		if (!v->feed)
			nanosleep(&pause, NULL);
	}
	if (!rc) { /* stopped: nothing waits for others any more */
		rut_ctf_reader_drain(r);
		return 1;
	}
	if (rc > 0)
		rc = rut_ctf_text_grow(text, err);
	if (!rc)
		rc = choose(v, c, err);
	if (!rc)
		want(v, c, r, had);
	return rc;
}

static int print_simply(const struct rut_view *v, struct choice *c, bool *ret_bad,
			struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	const struct rut_ctf_event *ev;
	struct rut_ctf_reader *r;
	struct rut_ctf_counts counts;
	_cleanup_(rut_cli_folded_fini)
	struct rut_folded folded = {.stacks = v->stacks};
	struct rut_ctf_text *text;
	bool last = false, ended = false;
	uint64_t n = 0;
	int rc;

	if ((rc = rut_ctf_text_new(&text, v->set, &v->text, err)) < 0)
		return rc;
	if ((rc = rut_ctf_reader_new(&r, v->set, &v->reader, err)) < 0) {
		rut_ctf_text_free(text);
		return rc;
	}
	want(v, c, r, 0);
	while (!rc && !ended) {
		ev = c->none ? NULL : next(r, c);
		if (!ev && (!v->reader.follow || last)) {
			ended = true;
			continue;
		}
		if (!ev) {
			rc = rut_cli_write_out(&out);
			if (!rc)
				rc = wait_for_more(v, c, r, text, err);
			last = rc > 0;
			rc = last ? 0 : rc;
			continue;
		}
		n++;
		if (v->count_only)
			continue;
		if (v->folded) {
			rc = rut_cli_folded_add(&folded, ev);
			continue;
		}
		rut_ctf_text_event(text, ev, &out);
		print_stacks(v, ev, &out);
		if (out.len >= WRITE_BYTES || out.failed)
			rc = rut_cli_write_out(&out);
	}
	if (v->count_only)
		rut_buf_printf(&out, "%" PRIu64 "\n", n);
	if (v->folded)
		rut_cli_folded_print(&folded, &out);
	if (!rc)
		rc = rut_cli_write_out(&out);
	rut_ctf_reader_counts(r, &counts);
	*ret_bad |= counts.errors > 0;
	rut_cli_trace_warn_skipped(&counts);
	rut_ctf_reader_free(r);
	rut_ctf_text_free(text);
	return rc;
}

/* ---- Several threads ---- */

/* One slice, from its thread to the writer. */
struct slice {
	bool done;
	int rc;
	struct rut_buf first; /* the first line without its time */
	struct rut_buf text;  /* the other lines */
	struct rut_buf notes; /* NUL-terminated: what was bad or lost */
	uint64_t n;
	struct rut_ctf_counts counts;
	struct rut_ctf_text_time first_time, last_time;
};

struct pool {
	const struct rut_view *v;
	const struct choice *choice;
	int64_t *bounds;
	size_t n_slices;
	struct slice *ring; /* n_ring of them */
	size_t n_ring;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t next, written; /* slices */
	bool stop;
};

static void note_loss(const struct rut_ctf_loss *loss, void *arg)
{
	struct rut_buf *notes = arg;
	char text[600];

	rut_ctf_loss_text(loss, text, sizeof(text));
	rut_buf_add(notes, text, strlen(text) + 1);
}

static void note_error(const char *msg, void *arg)
{
	struct rut_buf *notes = arg;

	rut_buf_add(notes, msg, strlen(msg) + 1);
}

static struct rut_ctf_text_time time_of(const struct rut_ctf_event *ev)
{
	return (struct rut_ctf_text_time){ev->has_ts, ev->cpu, ev->ts_ns, ev->ts_clock};
}

static int print_slice(const struct pool *p, size_t i, struct rut_ctf_text *text, struct slice *s)
{
	struct rut_ctf_reader_opts opts = p->v->reader;
	const struct rut_ctf_event *ev;
	struct rut_ctf_reader *r;
	int rc;

	opts.has_begin = opts.has_end = true;
	opts.continues = i > 0;
	opts.begin_ns = p->bounds[i];
	opts.end_ns = p->bounds[i + 1] - 1;
	opts.on_loss = note_loss;
	opts.on_error = note_error;
	opts.arg = &s->notes;
	if ((rc = rut_ctf_reader_new(&r, p->v->set, &opts, NULL)) < 0)
		return rc;
	want(p->v, p->choice, r, 0);
	while ((ev = next(r, p->choice))) {
		if (!s->n++) {
			s->first_time = time_of(ev);
			rut_ctf_text_set_last(text, ev->ts_ns, ev->ts_clock);
			if (!p->v->count_only) {
				rut_ctf_text_rest(text, ev, &s->first);
				print_stacks(p->v, ev, &s->first);
			}
		} else if (!p->v->count_only) {
			rut_ctf_text_event(text, ev, &s->text);
			print_stacks(p->v, ev, &s->text);
		}
		s->last_time.ts_ns = ev->ts_ns;
		s->last_time.ts_clock = ev->ts_clock;
	}
	rut_ctf_reader_counts(r, &s->counts);
	rut_ctf_reader_free(r);
	return s->text.failed || s->first.failed ? -ENOMEM : 0;
}

static void *work(void *arg)
{
	struct pool *p = arg;
	struct rut_ctf_text *text = NULL;
	int rc = rut_ctf_text_new(&text, p->v->set, &p->v->text, NULL);

	pthread_mutex_lock(&p->lock);
	while (!p->stop && p->next < p->n_slices) {
		size_t i = p->next;
		struct slice *s = &p->ring[i % p->n_ring];

		if (i >= p->written + p->n_ring) { /* the writer is behind */
			pthread_cond_wait(&p->changed, &p->lock);
			continue;
		}
		p->next++;
		pthread_mutex_unlock(&p->lock);
		s->rc = rc < 0 ? rc : print_slice(p, i, text, s);
		pthread_mutex_lock(&p->lock);
		s->done = true;
		pthread_cond_broadcast(&p->changed);
	}
	pthread_mutex_unlock(&p->lock);
	rut_ctf_text_free(text);
	return NULL;
}

/* Neighbouring slices read the same packets: each note is printed once. */
static void say_notes(const struct slice *s, struct rut_strtab *said)
{
	for (size_t pos = 0; pos < s->notes.len; pos += strlen(s->notes.data + pos) + 1) {
		const char *note = s->notes.data + pos;
		size_t had = said->count;

		if (rut_strtab_intern(said, note, strlen(note)) >= 0 && said->count > had)
			rut_warn("%s", note);
	}
}

static int write_slice(struct slice *s, struct rut_ctf_text *text, struct rut_strtab *said,
		       bool count_only)
{
	_cleanup_buf_ struct rut_buf head = RUT_BUF_INIT;
	int rc = s->rc;

	say_notes(s, said);
	if (!rc && s->n && !count_only) {
		rut_ctf_text_time(text, &s->first_time, &head);
		rut_buf_add(&head, s->first.data, s->first.len);
		rc = rut_cli_write_out(&head);
		if (!rc)
			rc = rut_cli_write_out(&s->text);
		rut_ctf_text_set_last(text, s->last_time.ts_ns, s->last_time.ts_clock);
	}
	return rc;
}

static void clear_slice(struct slice *s)
{
	rut_buf_clear(&s->first);
	rut_buf_clear(&s->text);
	rut_buf_clear(&s->notes);
	s->done = false;
	s->n = 0;
}

static int write_slices(struct pool *p, struct rut_ctf_text *text, bool *ret_bad)
{
	struct rut_strtab said = {0};
	struct rut_ctf_counts sum = {0};
	uint64_t n = 0;
	int rc = 0;

	pthread_mutex_lock(&p->lock);
	while (p->written < p->n_slices && !rc) {
		struct slice *s = &p->ring[p->written % p->n_ring];

		if (!s->done) {
			pthread_cond_wait(&p->changed, &p->lock);
			continue;
		}
		pthread_mutex_unlock(&p->lock);
		n += s->n;
		*ret_bad |= s->counts.errors > 0;
		sum.events += s->counts.events;
		sum.bytes_done += s->counts.bytes_done;
		sum.skipped_bytes += s->counts.skipped_bytes;
		rc = write_slice(s, text, &said, p->v->count_only);
		clear_slice(s);
		pthread_mutex_lock(&p->lock);
		p->written++;
		pthread_cond_broadcast(&p->changed);
	}
	p->stop = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	rut_strtab_fini(&said);
	rut_cli_trace_warn_skipped(&sum);
	if (!rc && p->v->count_only) {
		_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;

		rut_buf_printf(&out, "%" PRIu64 "\n", n);
		rc = rut_cli_write_out(&out);
	}
	return rc;
}

static int print_in_threads(struct pool *p, unsigned int n, bool *ret_bad, struct rut_err *err)
{
	pthread_t threads[MAX_THREADS];
	struct rut_ctf_text *text;
	unsigned int started = 0;
	int rc;

	p->n_ring = n + 1;
	p->ring = calloc(p->n_ring, sizeof(*p->ring));
	if (!p->ring)
		return rut_err_set(err, ENOMEM, "out of memory");
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	rc = rut_ctf_text_new(&text, p->v->set, &p->v->text, err);
	while (!rc && started < n && !pthread_create(&threads[started], NULL, work, p))
		started++;
	if (!rc && !started)
		rc = -EAGAIN;
	if (!rc)
		rc = write_slices(p, text, ret_bad);
	for (unsigned int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < p->n_ring; i++) {
		rut_buf_fini(&p->ring[i].first);
		rut_buf_fini(&p->ring[i].text);
		rut_buf_fini(&p->ring[i].notes);
	}
	rut_ctf_text_free(text);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p->ring);
	return rc;
}

/* Whether every event has a time, later ones a later time: then slices of time hold all of them. */
static bool all_in_order(const struct rut_ctf_set *set)
{
	for (size_t i = 0; i < rut_ctf_set_n_streams(set); i++) {
		const struct rut_ctf_stream *s = rut_ctf_set_stream(set, i);

		if (!s->has_times || s->disordered)
			return false;
	}
	return true;
}

int rut_cli_view_print(const struct rut_view *v, bool *ret_bad, struct rut_err *err)
{
	unsigned int threads = v->threads ? v->threads : rut_proc_cpus();
	struct choice choice = {0};
	struct pool p = {.v = v, .choice = &choice, .n_slices = 1};
	int rc = choose(v, &choice, err);

	threads = threads > MAX_THREADS ? MAX_THREADS : threads;
	if (!rc && threads > 1 && !v->folded && !v->reader.follow &&
	    rut_ctf_set_bytes(v->set) > 8 * SLICE_BYTES && !choice.none &&
	    !rut_ctf_set_scan(v->set, NULL) && all_in_order(v->set))
		rc = rut_ctf_set_slices(v->set,
					v->reader.has_begin ? v->reader.begin_ns : INT64_MIN,
					v->reader.has_end ? v->reader.end_ns : INT64_MAX,
					SLICE_BYTES, &p.bounds, &p.n_slices);
	if (!rc && p.n_slices > 2)
		rc = print_in_threads(&p, threads, ret_bad, err);
	else if (!rc)
		rc = print_simply(v, &choice, ret_bad, err);
	free(p.bounds);
	choice_fini(&choice);
	if (rc == -EPIPE)
		return 0;
	return rc < 0 && !(err && err->code) ? rut_err_errno(err, -rc, "cannot write") : rc;
}
