/* SPDX-License-Identifier: MIT */
#include "analysis/history.h"

#include <stdlib.h>
#include <string.h>

#define LOG_MAX (1u << 18)

struct rut_history *rut_an_history_new(void)
{
	struct rut_history *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->slices = calloc(RUT_HISTORY_SLICES, sizeof(*h->slices));
	h->disk = calloc(RUT_HISTORY_DISK, sizeof(*h->disk));
	if (h->slices && h->disk)
		return h;
	rut_an_history_free(h);
	return NULL;
}

void rut_an_history_free(struct rut_history *h)
{
	if (!h)
		return;
	free(h->slices);
	free(h->disk);
	free(h);
}

void rut_an_history_slice(struct rut_history *h, const struct rut_slice *s)
{
	h->slices[h->n_slices++ % RUT_HISTORY_SLICES] = *s;
}

void rut_an_history_disk(struct rut_history *h, const struct rut_hook_block *b)
{
	h->disk[h->n_disk++ % RUT_HISTORY_DISK] = (struct rut_disk_use){
		.begin_ns = b->rq->begin_ns,
		.end_ns = b->rq->end_ns,
		.tid = b->rq->owner_tid,
		.disk = b->disk->name,
		.bytes = rut_block_moves_data(b->rq->op) ? (int64_t)(b->rq->nr_sector * 512) : 0,
		.write = b->rq->op == RUT_BLOCK_WRITE,
	};
}

void rut_an_history_stop(struct rut_history *h, int64_t ts_ns, int64_t tid, int64_t by)
{
	h->stops[h->n_stops++ % RUT_HISTORY_STOPS] = (struct rut_stop){ts_ns, tid, by};
}

const struct rut_slice *rut_an_history_at(const struct rut_history *h, uint64_t i)
{
	if (i >= h->n_slices || i >= RUT_HISTORY_SLICES)
		return NULL;
	return &h->slices[(h->n_slices - 1 - i) % RUT_HISTORY_SLICES];
}

const struct rut_disk_use *rut_an_history_disk_at(const struct rut_history *h, uint64_t i)
{
	if (i >= h->n_disk || i >= RUT_HISTORY_DISK)
		return NULL;
	return &h->disk[(h->n_disk - 1 - i) % RUT_HISTORY_DISK];
}

int64_t rut_an_history_stopped_by(const struct rut_history *h, int64_t tid, int64_t pid,
				  int64_t begin_ns, int64_t end_ns)
{
	for (uint64_t i = 0; i < h->n_stops && i < RUT_HISTORY_STOPS; i++) {
		const struct rut_stop *s = &h->stops[(h->n_stops - 1 - i) % RUT_HISTORY_STOPS];

		if ((s->tid == tid || s->tid == pid) && s->ts_ns >= begin_ns && s->ts_ns <= end_ns)
			return s->by;
	}
	return 0;
}

void rut_an_history_resend(struct rut_history *h, const struct rut_resend *r)
{
	h->resends[h->n_resends++ % RUT_HISTORY_RESENDS] = *r;
}

uint64_t rut_an_history_resends(const struct rut_history *h, const char *peer, int64_t begin_ns,
				int64_t end_ns)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < h->n_resends && i < RUT_HISTORY_RESENDS; i++) {
		const struct rut_resend *r =
			&h->resends[(h->n_resends - 1 - i) % RUT_HISTORY_RESENDS];

		if (r->ts_ns < begin_ns)
			break;
		n += r->ts_ns <= end_ns && (!strcmp(r->from, peer) || !strcmp(r->to, peer));
	}
	return n;
}

void rut_an_log_free(struct rut_log *l)
{
	if (!l)
		return;
	free(l->entries);
	rut_strtab_fini(&l->texts);
	free(l);
}

void rut_an_log_add(struct rut_log *l, const struct rut_log_entry *e)
{
	size_t cap;
	void *to;

	if (l->n == l->cap) {
		cap = l->cap ? l->cap * 2 : 256;
		to = cap > LOG_MAX ? NULL : realloc(l->entries, cap * sizeof(*l->entries));
		if (!to) {
			l->lost++;
			return;
		}
		l->entries = to;
		l->cap = cap;
	}
	l->entries[l->n++] = *e;
}
