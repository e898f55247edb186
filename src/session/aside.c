/* SPDX-License-Identifier: MIT */
#include "session/aside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ring/read.h"
#include "session/statedump.h"

#define SHIFT 18
#define COUNT 4

static _Thread_local uint64_t fixed_time;

static uint64_t fixed_clock(void)
{
	return fixed_time;
}

struct drain {
	const struct rut_aside *aside;
	struct rut_ring *ring;
	uint64_t pos;
	int rc;
};

static void drain(void *arg)
{
	struct drain *d = arg;
	const unsigned char *packet;

	while (!d->rc && (packet = rut_ring_next(d->ring, &d->pos))) {
		d->rc = d->aside->write(packet, rut_ring_packet_records(d->ring, d->pos),
					d->aside->arg);
		d->pos += d->ring->subbuf_size;
		rut_ring_release(d->ring, d->pos);
	}
}

int rut_aside_write(const struct rut_aside *aside, void (*fn)(struct rut_statedump *s, void *arg),
		    void *arg)
{
	_cleanup_free_ void *data = calloc(COUNT, 1 << SHIFT);
	_cleanup_free_ struct rut_ring_ctl *ctl = NULL;
	struct rut_ring ring;
	struct drain d = {.aside = aside, .ring = &ring};
	struct rut_statedump s = {
		.ring = &ring,
		.clock = fixed_clock,
		.contexts = aside->contexts,
		.make_room = drain,
		.arg = &d,
	};

	if (!data || posix_memalign((void **)&ctl, 64, sizeof(*ctl)))
		return -ENOMEM;
	memset(ctl, 0, sizeof(*ctl));
	memcpy(ctl->uuid, aside->uuid, sizeof(ctl->uuid));
	/* A stream instance that no CPU has. */
	ctl->pid = aside->ncpus;
	rut_ring_init(&ring, ctl, data, RUT_RING_DISCARD, SHIFT, COUNT);
	fixed_time = aside->at_ns;
	fn(&s, arg);
	rut_ring_flush(&ring);
	drain(&d);
	return d.rc;
}
