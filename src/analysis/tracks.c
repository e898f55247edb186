/* SPDX-License-Identifier: MIT */
#include "analysis/tracks.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	bool rate, level, duration, time;
	const char *rate_name, *level_name;
} kinds[RUT_TRACK_KINDS] = {
	[RUT_TRACK_CPU] = {"CPU", .level = true, .time = true, .level_name = "CPUs used"},
	[RUT_TRACK_SYSCALL] = {"system call", .rate = true, .duration = true, .time = true},
	[RUT_TRACK_CALLS] = {"system calls", .rate = true},
	[RUT_TRACK_ERRORS] = {"errors", .rate = true},
	[RUT_TRACK_SCHED] = {"run queue", .duration = true, .time = true},
	[RUT_TRACK_DISK] = {"disk", .rate = true, .duration = true, .time = true},
	[RUT_TRACK_IRQ] = {"interrupt", .rate = true, .duration = true, .time = true},
	[RUT_TRACK_SOFTIRQ] = {"softirq", .rate = true, .duration = true, .time = true},
	[RUT_TRACK_READ] = {"read", .level = true, .level_name = "bytes/s"},
	[RUT_TRACK_WRITTEN] = {"written", .level = true, .level_name = "bytes/s"},
	[RUT_TRACK_PAGES] = {"pages allocated", .rate = true},
	[RUT_TRACK_SWITCHES] = {"context switches", .rate = true},
};

bool rut_an_track_has(enum rut_track_kind kind, enum rut_measure m)
{
	return m == RUT_MEASURE_RATE	? kinds[kind].rate
	       : m == RUT_MEASURE_LEVEL ? kinds[kind].level
					: kinds[kind].duration;
}

bool rut_an_track_is_time(enum rut_track_kind kind)
{
	return kinds[kind].time;
}

const char *rut_an_track_kind_name(enum rut_track_kind kind)
{
	return kinds[kind].name;
}

const char *rut_an_measure_name(enum rut_track_kind kind, enum rut_measure m)
{
	return m == RUT_MEASURE_RATE	? "per second"
	       : m == RUT_MEASURE_LEVEL ? kinds[kind].level_name
					: "duration (us)";
}

/* ---- Samples ---- */

/* Interned strings are numbered, from 1, so that a kind and two names are one key. */
static uint64_t number_of(struct rut_tracks *t, const char *name)
{
	uint64_t key = (uintptr_t)name;
	void *number;

	if (!name)
		return 0;
	number = rut_map_get(&t->names, key);
	if (!number) {
		number = (void *)(uintptr_t)++t->n_names;
		if (rut_map_put(&t->names, key, number) < 0)
			t->failed = true;
	}
	return (uintptr_t)number & 0x1fffffff;
}

static char *copy(struct rut_tracks *t, const char *s)
{
	char *c = s ? strdup(s) : NULL;

	t->failed = t->failed || (s && !c);
	return c;
}

static struct rut_track *get(struct rut_tracks *t, enum rut_track_kind kind, const char *who,
			     const char *what)
{
	static const char others[] = "(others)";
	uint64_t key = (uint64_t)kind << 58 | number_of(t, who) << 29 | number_of(t, what);
	struct rut_track *track = rut_ordered_get(&t->list, key);

	if (track)
		return track;
	if (t->list.n >= RUT_TRACKS_MAX && who != others)
		return get(t, kind, others, NULL);
	track = rut_an_ordered_add(&t->list, key, sizeof(*track));
	if (!track) {
		t->failed = true;
		return NULL;
	}
	track->kind = kind;
	track->who = copy(t, who);
	track->what = copy(t, what);
	track->bins.begin_ns = t->begin_ns;
	return track;
}

/* Most samples are of a few tracks: these are found without looking for names. */
static struct rut_track *find(struct rut_tracks *t, enum rut_track_kind kind, const char *who,
			      const char *what)
{
	uint64_t hash = ((uintptr_t)who * 31 + (uintptr_t)what + kind) * 0x9e3779b97f4a7c15ull;
	struct rut_track_recent *r = &t->recent[hash >> 32 & (RUT_TRACKS_RECENT - 1)];

	if (r->track && r->who == who && r->what == what && r->kind == kind)
		return r->track;
	*r = (struct rut_track_recent){who, what, get(t, kind, who, what), kind};
	return r->track;
}

static void add(struct rut_tracks *t, enum rut_track_kind kind, const char *who, const char *what,
		int64_t ts_ns, int64_t value)
{
	struct rut_track *track = find(t, kind, who, what);

	if (track && rut_an_bins_add(&track->bins, ts_ns, value, kinds[kind].duration) < 0)
		t->failed = true;
}

static void add_span(struct rut_tracks *t, const char *who, const struct rut_sample *x)
{
	struct rut_track *track = find(t, RUT_TRACK_CPU, who, NULL);

	if (track && rut_an_bins_add_span(&track->bins, x->begin_ns, x->end_ns) < 0)
		t->failed = true;
}

static void add_io(struct rut_tracks *t, const char *who, const struct rut_sample *x)
{
	const struct rut_io_rq *rq = ((const struct rut_hook_io *)x->hook)->rq;
	bool moves = rq->op == RUT_IO_READ || rq->op == RUT_IO_WRITE || rq->op == RUT_IO_READ_WRITE;

	if (!moves || !rq->has_size || rq->error)
		return;
	if (rq->op != RUT_IO_WRITE)
		add(t, RUT_TRACK_READ, who, NULL, x->end_ns, rq->size);
	if (rq->op != RUT_IO_READ)
		add(t, RUT_TRACK_WRITTEN, who, NULL, x->end_ns, rq->size);
}

/* The process that a thread belongs to, by name. NULL: idle or unknown. */
static const char *name_of(struct rut_state *st, const struct rut_sample *x, bool by_cgroup)
{
	struct rut_thread *t = x->thread && x->thread->tid ? x->thread : NULL;

	if (!t)
		return NULL;
	if (by_cgroup)
		return t->cgroup ? t->cgroup : st->unknown;
	return rut_an_state_leader(st, t)->comm;
}

void rut_an_tracks_sample(struct rut_tracks *t, struct rut_state *st, const struct rut_sample *x,
			  bool by_cgroup)
{
	const char *who = name_of(st, x, by_cgroup);
	int64_t duration = x->end_ns - x->begin_ns;

	switch (x->kind) {
	case RUT_SAMPLE_CPU:
		if (who)
			add_span(t, who, x);
		break;
	case RUT_SAMPLE_SWITCH:
		add(t, RUT_TRACK_SWITCHES, NULL, NULL, x->end_ns, 1);
		break;
	case RUT_SAMPLE_SCHED:
		add(t, RUT_TRACK_SCHED, who, NULL, x->end_ns, duration);
		break;
	case RUT_SAMPLE_SYSCALL:
		add(t, RUT_TRACK_SYSCALL, who, x->what, x->end_ns, duration);
		add(t, RUT_TRACK_CALLS, who, NULL, x->end_ns, 1);
		if (x->error)
			add(t, RUT_TRACK_ERRORS, who, x->what, x->end_ns, 1);
		break;
	case RUT_SAMPLE_IO:
		add_io(t, who, x);
		break;
	case RUT_SAMPLE_DISK:
		add(t, RUT_TRACK_DISK, x->what,
		    rut_an_block_op_name(((const struct rut_hook_block *)x->hook)->rq->op),
		    x->end_ns, duration);
		break;
	case RUT_SAMPLE_IRQ:
		add(t, RUT_TRACK_IRQ, x->what, NULL, x->end_ns, duration);
		break;
	case RUT_SAMPLE_SOFTIRQ:
		add(t, RUT_TRACK_SOFTIRQ, x->what, NULL, x->end_ns, duration);
		break;
	case RUT_SAMPLE_PAGE:
		add(t, RUT_TRACK_PAGES, who, NULL, x->end_ns, 1);
		break;
	}
}

void rut_an_tracks_fini(struct rut_tracks *t)
{
	for (size_t i = 0; i < t->list.n; i++) {
		struct rut_track *track = t->list.items[i];

		rut_an_bins_fini(&track->bins);
		free(track->who);
		free(track->what);
	}
	rut_an_ordered_fini(&t->list);
	rut_map_fini(&t->names);
}

/* ---- Values ---- */

unsigned int rut_an_tracks_shift(const struct rut_tracks *t, size_t parts)
{
	uint64_t span = (uint64_t)t->end_ns - (uint64_t)t->begin_ns;
	unsigned int shift = RUT_BINS_NARROWEST;

	while (span >> shift >= 2 * parts || span >> shift >= RUT_BINS)
		shift++;
	return shift;
}

size_t rut_an_tracks_parts(const struct rut_tracks *t, unsigned int shift)
{
	uint64_t n = ((uint64_t)t->end_ns - (uint64_t)t->begin_ns) >> shift;

	return n < RUT_BINS ? n : RUT_BINS;
}

size_t rut_an_track_values(const struct rut_tracks *t, struct rut_track *track, enum rut_measure m,
			   unsigned int shift, double *ret, size_t *ret_at)
{
	double seconds = (double)(1ull << shift) / 1e9;
	size_t n = rut_an_tracks_parts(t, shift), found = 0;

	rut_an_bins_widen(&track->bins, shift);
	for (size_t i = 0; i < n; i++) {
		struct rut_bin none = {0}, *b = i < track->bins.n ? &track->bins.bins[i] : &none;

		if (m == RUT_MEASURE_DURATION && !b->n)
			continue;
		if (ret_at)
			ret_at[found] = i;
		ret[found++] = m == RUT_MEASURE_DURATION      ? b->logs / (double)b->n
			       : m == RUT_MEASURE_RATE	      ? (double)b->n / seconds
			       : track->kind == RUT_TRACK_CPU ? b->sum / 1e9 / seconds
							      : b->sum / seconds;
	}
	return found;
}
