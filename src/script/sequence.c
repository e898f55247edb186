/* SPDX-License-Identifier: MIT */
#include "script/sequence.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/err.h"
#include "script/program.h"
#include "script/ruby_attach.h"

/* A process that never ends what it writes has no more than this waiting for it. */
enum { WAITS = 50, KEPT_MAX = 64 << 20 };

void rut_script_sequence_fini(struct rut_script_sequence *o)
{
	rut_buf_fini(&o->kept);
}

/* Records are of 8 bytes and aligned, as in the ring. */
static size_t kept_bytes(size_t size)
{
	return (size + 7) & ~(size_t)7;
}

bool rut_script_sequence_keep(struct rut_script_sequence *o, const struct rut_script_event *e,
			      size_t size)
{
	const uint64_t word = size;

	/* All of it or nothing. */
	if (rut_buf_reserve(&o->kept, sizeof(word) + kept_bytes(size)))
		return false;
	rut_buf_add(&o->kept, &word, sizeof(word));
	rut_buf_add(&o->kept, e, size);
	rut_buf_fill(&o->kept, '\0', kept_bytes(size) - size);
	return true;
}

static const struct rut_script_event *kept_at(const struct rut_script_sequence *o, size_t at,
					      size_t *size)
{
	uint64_t word;

	memcpy(&word, o->kept.data + at, sizeof(word));
	*size = word;
	return (const void *)(o->kept.data + at + sizeof(word));
}

static int run_until(struct rut_script_sequence *o, uint64_t ns, struct rut_err *err)
{
	return rut_script_tracer_run_until(o->tracer, ns, o->room_bytes, o->read, o->arg, err);
}

/* The time of the last one before `end`; 0: there is none. */
static uint64_t last_ns(const struct rut_script_sequence *o, size_t end)
{
	uint64_t ret = 0;
	size_t size;

	for (size_t at = 0; at < end; at += sizeof(uint64_t) + kept_bytes(size)) {
		const struct rut_script_event *e = kept_at(o, at, &size);

		ret = e->time_ns > ret ? e->time_ns : ret;
	}
	return ret;
}

int rut_script_sequence_round(struct rut_script_sequence *o, bool all, struct rut_err *err)
{
	size_t end, at = 0;
	uint64_t until, last;
	int n, rc = 0;

	/* Before the hits are taken: what comes after that is later than they are. */
	o->read(o->arg);
	end = o->kept.len;
	last = all ? last_ns(o, end) : 0;
	n = rut_script_tracer_gather(o->tracer, &until, err);
	for (int i = 0; n >= 0 && i < WAITS && until < last; i++) {
		poll(NULL, 0, 1);
		n = rut_script_tracer_gather(o->tracer, &until, err);
	}
	while (n >= 0 && !rc && at < end) {
		size_t size;
		uint64_t ns = kept_at(o, at, &size)->time_ns;

		if (ns > until && !all && o->kept.len - at <= KEPT_MAX)
			break;
		rc = run_until(o, ns < until ? ns : until, err);
		/* That may have moved them: more are kept. */
		if (!rc)
			o->show(o->arg, kept_at(o, at, &size), size);
		at += sizeof(uint64_t) + kept_bytes(size);
	}
	if (n >= 0 && !rc)
		rc = run_until(o, until, err);
	if (at) {
		memmove(o->kept.data, o->kept.data + at, o->kept.len - at);
		o->kept.len -= at;
	}
	if (o->kept.failed) {
		o->kept.failed = false;
		rc = rc || n < 0 ? rc : rut_err_set(err, ENOMEM, "out of memory");
	}
	return rc ? rc : n;
}
