/* SPDX-License-Identifier: MIT */
#include "session/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "session/consumer.h"
#include "session/daemon.h"
#include "session/mappings.h"
#include "session/processes.h"
#include "session/stacks.h"
#include "session/statedump.h"
#include "session/writer.h"
#include "stream/sender.h"

/* A packet is finished but for a producer that was interrupted: it comes back within microseconds.
 */
static int copy_packet(const struct rut_ring *ring, uint64_t pos, void *to)
{
	for (int tries = 0; tries < 1000; tries++) {
		int rc = rut_ring_copy(ring, pos, to);

		if (rc != -EAGAIN)
			return rc;
		nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
	}
	return -EAGAIN;
}

static int copy_ring(struct rut_writer *w, int cpu, uint64_t end, unsigned char *buf,
		     struct rut_snapshot *snap)
{
	const struct rut_ring *ring = &w->recorder->rings[cpu];
	uint64_t pos = rut_ring_oldest(ring);

	if (pos < RUT_CTL_USER(ring->ctl)->cleared)
		pos = RUT_CTL_USER(ring->ctl)->cleared;
	for (; pos < end; pos += ring->subbuf_size) {
		const struct rut_packet *p = (const void *)buf;
		uint64_t records = rut_ring_packet_records(ring, pos);
		int rc = copy_packet(ring, pos, buf);

		/* Readers see by the packets' numbers that it is missing; those behind it are
		 * there. */
		if (rc < 0) {
			snap->lapped++;
			continue;
		}
		if (!snap->begin_ns || p->timestamp_begin < snap->begin_ns)
			snap->begin_ns = p->timestamp_begin;
		if (p->timestamp_end > snap->end_ns)
			snap->end_ns = p->timestamp_end;
		rc = rut_writer_append(w, cpu, buf, NULL);
		if (rc < 0)
			return rc;
		w->records += records;
	}
	return 0;
}

struct state {
	struct rut_recorder *r;
	uint64_t begin_ns;
};

static void write_state(struct rut_statedump *s, void *arg)
{
	const struct state *st = arg;

	rut_statedump_write(s);
	if (rut_mappings_wanted(st->r))
		rut_mappings_dump(s, st->r);
	rut_stacks_write(s, st->r, st->begin_ns, NULL);
}

int rut_snapshot_write(struct rut_recorder *r, const char *dir, const struct rut_companion *beside,
		       struct rut_snapshot *ret, struct rut_err *err)
{
	_cleanup_free_ unsigned char *buf = malloc(r->rings[0].subbuf_size);
	_cleanup_free_ uint64_t *ends = calloc((size_t)r->ncpus, sizeof(*ends));
	struct rut_writer w;
	bool companion_failed = false;
	uint64_t end_ns;
	int rc;

	*ret = (struct rut_snapshot){0};
	if (!buf || !ends)
		/* cppcheck-suppress memleak ; they have cleanup attributes */
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = rut_writer_open_hidden(&w, r, dir, err);
	if (rc < 0)
		/* cppcheck-suppress memleak ; the same */
		return rc;
	rut_recorder_flush(r);
	end_ns = rut_ring_clock();
	/* Where nothing was overwritten yet it begins with the session. */
	w.begin_ns = (uint64_t)(r->meta->created_ns - r->meta->clock_offset_ns);
	for (int cpu = 0; cpu < r->ncpus; cpu++)
		ends[cpu] = r->rings[cpu].ctl->pos & ~(r->rings[cpu].subbuf_size - 1);
	for (int cpu = 0; cpu < r->ncpus && rc >= 0; cpu++)
		rc = copy_ring(&w, cpu, ends[cpu], buf, ret);
	if (rc >= 0)
		rc = rut_writer_aside(&w, ret->begin_ns, write_state,
				      &(struct state){r, ret->begin_ns});
	/* Those that started since the last one: a flight recorder has no process that sees it. */
	rut_processes_scan(r);
	if (rc >= 0)
		rut_writer_finish(&w, end_ns);
	if (rc >= 0)
		rc = rut_writer_describe_compat(&w, err);
	if (rc >= 0) {
		const struct rut_trace_clock clock = {
			ret->begin_ns && ret->begin_ns < w.begin_ns ? ret->begin_ns : w.begin_ns,
			r->meta->clock_offset_ns + r->clock_correction_ns};

		rc = rut_holder_copy(r->meta, dir, &clock, end_ns, err);
		if (!rc && beside)
			rc = beside->snapshot(beside->arg, dir, &clock, end_ns, err);
		companion_failed = rc < 0;
	}
	ret->bytes = w.bytes;
	ret->packets = w.packets;
	ret->records = w.records;
	if (rc < 0 && !companion_failed)
		rut_err_errno(err, -rc, "cannot write the snapshot to '%s'", dir);
	else if (rc >= 0)
		rc = rut_writer_publish(&w, err);
	/* Half of one is of no use, and on a full disk it is in the way. */
	if (rc < 0)
		rut_writer_discard(&w);
	else
		rut_writer_close(&w);
	return rc;
}

int rut_snapshot_send(struct rut_recorder *r, const char *to, const char *spool, const char *tls,
		      const struct rut_companion *beside, struct rut_snapshot *ret,
		      struct rut_err *err)
{
	const struct rut_sender_conf conf = {
		.to = to, .session = r->conf.name, .spool = spool, .tls = tls, .limit = UINT64_MAX};
	struct rut_output_conf where = {0};
	struct rut_sender *s = NULL;
	char path[RUT_PATH_MAX];
	int rc = rut_sender_new(&s, &conf, err);

	if (rc)
		return rc;
	snprintf(where.pattern, sizeof(where.pattern), "%s-%%Y%%m%%d-%%H%%M%%S",
		 rut_sender_pattern(s));
	rc = rut_output_path(&where, path, sizeof(path), err);
	if (!rc)
		rc = rut_snapshot_write(r, path, beside, ret, err);
	if (!rc)
		rc = rut_sender_step(s, path, ret->begin_ns, 0, err);
	if (!rc)
		rc = rut_sender_start(s, err);
	if (!rc)
		rc = rut_sender_finish(s, ret->end_ns, err);
	rut_sender_free(s);
	return rc;
}
