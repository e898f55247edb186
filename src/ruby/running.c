/* SPDX-License-Identifier: MIT */
/*
 * Calls that are still running: a method that hangs must not look as if it took no time.
 *
 * The agent adds a call to its row when it ends. Until then it is on a shadow stack, in the memory
 * of the process, and says when it began. We read the stacks there, so that nothing in the process
 * has to happen for it: also when its one thread hangs in C code. The kernel permits that when it
 * permits attaching; where it does not, calls count when they end.
 *
 * What is read changes meanwhile. The counters are read first: a call that is on the stacks after
 * that is not in them. But one that ends in between may be in neither. So the stacks are read
 * before as well, and when a call of the last table has ended, all of it is done once more.
 * Nothing that is read is trusted.
 */
#include "ruby/running.h"
#include "ruby/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define BUCKETS_MAX 65536u
#define STEPS_MAX   256u       /* along a list of stacks: there are as many lists as buckets */
#define FRAMES_MAX  (1u << 18) /* of a process */
#define RECORD_MAX  256u       /* bytes of a stack or frame */
#define TRIES	    20
#define IOVS	    64

struct frame {
	uint64_t variant, begin, inner;
	uint64_t row; /* its address in the process */
	bool outermost;
};

struct stack {
	uint64_t addr, out, frames;
	uint32_t count, first; /* frames; the first one's number in the picture */
};

/* The stacks at one moment. */
struct picture {
	struct stack *stacks; /* owned */
	struct frame *frames; /* owned */
	uint32_t stack_count, frame_count;
	uint64_t now;
};

struct piece {
	void *to;
	uint64_t addr;
	size_t bytes;
	bool failed;
};

static void picture_fini(struct picture *p)
{
	free(p->stacks);
	free(p->frames);
	*p = (struct picture){0};
}

/* What cannot be read is marked. Returns 0, or -errno when the process is not readable at all. */
static int read_pieces(pid_t pid, struct piece *pieces, size_t count)
{
	struct iovec local[IOVS], remote[IOVS];

	for (size_t i = 0; i < count;) {
		size_t n = 0;
		ssize_t got;

		for (; n < IOVS && i + n < count; n++) {
			const struct piece *piece = &pieces[i + n];

			local[n] = (struct iovec){piece->to, piece->bytes};
			remote[n] = (struct iovec){(void *)(uintptr_t)piece->addr, piece->bytes};
		}
		got = process_vm_readv(pid, local, n, remote, n, 0);
		if (got < 0 && errno != EFAULT)
			return -errno;
		for (size_t end = i + n; i < end; i++) {
			if (got < (ssize_t)pieces[i].bytes) {
				pieces[i++].failed = true; /* on with the next one */
				break;
			}
			got -= (ssize_t)pieces[i].bytes;
		}
	}
	return 0;
}

static uint64_t word(const unsigned char *record, unsigned offset)
{
	uint64_t r;

	memcpy(&r, record + offset, sizeof(r));
	return r;
}

static bool fits(unsigned offset, unsigned bytes)
{
	return offset + sizeof(uint64_t) <= bytes;
}

/* The description is in memory that the process can write. */
static bool is_sound(const struct rut_agent_stacks *d)
{
	return d->session && d->buckets && d->bucket_count && d->bucket_count <= BUCKETS_MAX &&
	       d->stack_bytes <= RECORD_MAX && d->frame_bytes && d->frame_bytes <= RECORD_MAX &&
	       fits(d->stack_session, d->stack_bytes) && fits(d->stack_next, d->stack_bytes) &&
	       fits(d->stack_out, d->stack_bytes) && fits(d->stack_count, d->stack_bytes) &&
	       fits(d->stack_frames, d->stack_bytes) && fits(d->frame_variant, d->frame_bytes) &&
	       fits(d->frame_begin, d->frame_bytes) && fits(d->frame_inner, d->frame_bytes) &&
	       d->frame_outermost < d->frame_bytes;
}

/* One step along the lists of all buckets; the stacks of this session are kept. */
static int read_stacks(pid_t pid, const struct rut_agent_stacks *d, struct picture *p)
{
	struct piece *pieces = calloc(d->bucket_count, sizeof(*pieces));
	unsigned char *records = calloc(d->bucket_count, d->stack_bytes);
	uint64_t *next = calloc(d->bucket_count, sizeof(*next));
	struct piece heads = {next, d->buckets, d->bucket_count * sizeof(*next), false};
	int r = pieces && records && next ? read_pieces(pid, &heads, 1) : -ENOMEM;
	uint32_t n = d->bucket_count;

	if (r == 0 && heads.failed)
		r = -EFAULT;
	for (unsigned step = 0; r == 0 && step < STEPS_MAX; step++) {
		uint32_t count = 0;

		for (uint32_t i = 0; i < n; i++)
			if (next[i]) {
				pieces[count] = (struct piece){records + count * d->stack_bytes,
							       next[i], d->stack_bytes, false};
				count++;
			}
		if (!count)
			break;
		n = count;
		r = read_pieces(pid, pieces, n);
		for (uint32_t i = 0; r == 0 && i < n; i++) {
			const unsigned char *record = records + i * d->stack_bytes;
			struct stack *to;

			next[i] = pieces[i].failed ? 0 : word(record, d->stack_next);
			if (pieces[i].failed || word(record, d->stack_session) != d->session)
				continue;
			if (p->stack_count % 64 == 0) {
				to = realloc(p->stacks, (p->stack_count + 64) * sizeof(*to));
				if (!to) {
					r = -ENOMEM;
					break;
				}
				p->stacks = to;
			}
			p->stacks[p->stack_count++] = (struct stack){
				.addr = pieces[i].addr,
				.out = word(record, d->stack_out),
				.frames = word(record, d->stack_frames),
				.count = (uint32_t)word(record, d->stack_count),
			};
		}
	}
	free(pieces);
	free(records);
	free(next);
	return r;
}

static int read_frames(pid_t pid, const struct rut_agent_stacks *d, struct picture *p)
{
	struct piece *pieces;
	unsigned char *records;
	uint32_t n = 0;
	int r;

	for (uint32_t i = 0; i < p->stack_count; i++) {
		if (p->stacks[i].count > FRAMES_MAX - n)
			p->stacks[i].count = 0;
		p->stacks[i].first = n;
		n += p->stacks[i].count;
	}
	if (!n)
		return 0;
	p->frame_count = n;
	p->frames = calloc(n, sizeof(*p->frames));
	records = calloc(n, d->frame_bytes);
	pieces = calloc(n + p->stack_count, sizeof(*pieces));
	r = p->frames && records && pieces ? 0 : -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < p->stack_count; i++) {
		const struct stack *st = &p->stacks[i];

		pieces[i] = (struct piece){records + st->first * (size_t)d->frame_bytes, st->frames,
					   st->count * (size_t)d->frame_bytes, false};
	}
	if (r == 0)
		r = read_pieces(pid, pieces, p->stack_count);
	for (uint32_t i = 0; r == 0 && i < p->stack_count; i++)
		if (pieces[i].failed)
			p->stacks[i].count = 0;
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		const unsigned char *record = records + i * (size_t)d->frame_bytes;
		struct frame *f = &p->frames[i];

		f->variant = word(record, d->frame_variant);
		f->begin = word(record, d->frame_begin);
		f->inner = word(record, d->frame_inner);
		f->outermost = record[d->frame_outermost];
		pieces[i] =
			(struct piece){&f->row, f->variant + d->variant_row, sizeof(f->row), false};
	}
	if (r == 0)
		r = read_pieces(pid, pieces, n);
	free(pieces);
	free(records);
	return r;
}

static int take_picture(struct rut_tracee *t, struct picture *p)
{
	struct rut_agent_stacks d = t->table->stacks;
	int r;

	/* The process may change it at any time: what is checked is the copy. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	*p = (struct picture){.now = rut_ruby_table_ticks(t)};
	if (!is_sound(&d))
		return -EPROTO;
	r = read_stacks(t->pid, &d, p);
	return r < 0 ? r : read_frames(t->pid, &d, p);
}

/* The same call in another picture, or NULL. */
static const struct frame *find(const struct picture *p, uint64_t stack, uint32_t hint, uint32_t at,
				const struct frame *like)
{
	const struct frame *f;
	uint32_t i = hint;

	if (i >= p->stack_count || p->stacks[i].addr != stack)
		for (i = 0; i < p->stack_count && p->stacks[i].addr != stack;)
			i++;
	if (i == p->stack_count || at >= p->stacks[i].count)
		return NULL;
	f = &p->frames[p->stacks[i].first + at];
	return f->variant == like->variant && f->begin == like->begin ? f : NULL;
}

/* Whether a call of the previous table has ended. */
static bool has_lost(const struct picture *old, const struct picture *now, uint64_t before)
{
	for (uint32_t i = 0; i < old->stack_count; i++)
		for (uint32_t j = 0; j < old->stacks[i].count; j++) {
			const struct frame *f = &old->frames[old->stacks[i].first + j];

			if (f->begin < before && !find(now, old->stacks[i].addr, i, j, f))
				return true;
		}
	return false;
}

static uint64_t since(uint64_t now, uint64_t begin)
{
	return now > begin ? now - begin : 0;
}

static void add(const struct rut_tracee *t, const struct picture *now, struct rut_agent_row *rows,
		uint32_t count)
{
	uint64_t base = __atomic_load_n(&t->table->stacks.rows, __ATOMIC_RELAXED);

	for (uint32_t i = 0; i < now->stack_count; i++) {
		const struct stack *st = &now->stacks[i];
		/* Of a fiber that waits: as far as it came. */
		uint64_t end = st->out ? st->out : now->now, inside = 0;

		for (uint32_t j = st->count; j-- > 0;) {
			const struct frame *f = &now->frames[st->first + j];
			uint64_t ticks = since(end, f->begin), n = (f->row - base) / sizeof(*rows);
			uint64_t self = since(since(ticks, f->inner), inside);
			struct rut_agent_row *row;

			inside = ticks;
			if (f->row < base || (f->row - base) % sizeof(*rows) || n >= count)
				continue;
			row = &rows[n];
			row->total += f->outermost ? ticks : 0;
			row->self += self;
			if (row->epoch != t->table->reset_epoch)
				row->max = 0;
			row->epoch = t->table->reset_epoch;
			if (ticks > row->max)
				row->max = ticks;
		}
	}
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The reading with running calls in it, for when they cannot be read any more. */
static void keep(struct rut_tracee *t, const struct rut_agent_row *rows, uint32_t count)
{
	struct rut_agent_row *to = realloc(t->last, (count + 1) * sizeof(*to));

	if (!to)
		return;
	memcpy(to, rows, count * sizeof(*to));
	t->last = to;
	t->last_count = count;
}

/*
 * The process has ended, or executed another program: which of the calls that ran have returned
 * before that is not known. None of them takes less time than was read already.
 */
static void add_last(const struct rut_tracee *t, struct rut_agent_row *row,
		     const struct rut_agent_row *last)
{
	row->total = larger(row->total, last->total);
	row->self = larger(row->self, last->self);
	if (row->epoch == last->epoch) {
		row->max = larger(row->max, last->max);
	} else if (last->epoch == t->table->reset_epoch) {
		row->max = last->max;
		row->epoch = last->epoch;
	}
}

void rut_running_add(struct rut_tracee *t, struct rut_agent_row *rows, uint32_t count)
{
	struct picture old = {0}, now = {0};
	int r = -ESRCH;

	if (!t->exited && !t->unseen && t->table->stacks.session)
		r = take_picture(t, &now);
	for (int i = 0; i < TRIES; i++) {
		picture_fini(&old);
		old = now;
		now = (struct picture){0};
		memcpy(rows, rut_ruby_table_row(t, 0), count * sizeof(*rows));
		if (r == 0)
			r = take_picture(t, &now);
		if (r < 0 || !has_lost(&old, &now, t->pictured))
			break;
	}
	if (r == 0) {
		add(t, &now, rows, count);
		t->pictured = now.now;
		keep(t, rows, count);
	} else {
		for (uint32_t i = 0; i < count && i < t->last_count; i++)
			add_last(t, &rows[i], &t->last[i]);
	}
	picture_fini(&old);
	picture_fini(&now);
}
