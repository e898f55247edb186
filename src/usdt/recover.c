/* SPDX-License-Identifier: MIT */
#include "usdt/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "ring/read.h"
#include "usdt/metadata.h"
#include "usdt/remote.h"

#define PAGE	   4096
#define RING_BYTES ((size_t)RUT_USDT_RING_SUBBUFS << RUT_USDT_RING_SHIFT)
#define HEAD_BYTES 14 /* of a record: the header word, the thread and the CPU */

struct recovery {
	const struct rut_core *core;
	const char *dir;
	void (*fn)(const struct rut_usdt_recovered *found, void *arg);
	void *arg;
	struct rut_err *err;
	int rings;
	/* One ring at a time. */
	struct rut_ring_ctl *ctl;    /* owned; a copy, like the rest */
	unsigned char *data;	     /* owned */
	struct rut_usdt_info *slots; /* owned; a serial of 0: nothing that can be read */
	uint32_t nslots;
};

/* Calls fn for each page that begins with the magic number, until it returns something. */
static int each_page(struct recovery *r, uint64_t wanted,
		     int (*fn)(struct recovery *r, uint64_t address))
{
	for (size_t i = 0; i < r->core->count; i++) {
		const struct rut_core_segment *s = &r->core->segments[i];

		for (size_t off = -s->address % PAGE; off + PAGE <= s->bytes; off += PAGE) {
			uint64_t magic;
			int rc;

			memcpy(&magic, s->data + off, sizeof(magic));
			rc = magic == wanted ? fn(r, s->address + off) : 0;
			if (rc)
				return rc;
		}
	}
	return 0;
}

/* Takes the slots of a control page, if it is that of the ring's process: 1. */
static int take_slots(struct recovery *r, uint64_t address)
{
	_cleanup_free_ struct rut_usdt_ctl *page = calloc(1, sizeof(*page));

	if (!page)
		return rut_err_set(r->err, ENOMEM, "out of memory");
	/* Slots that were never used need not be in the core. */
	rut_core_copy(r->core, address, page, sizeof(*page));
	if (page->slot_bytes != sizeof(struct rut_usdt_slot) || page->pid != (int32_t)r->ctl->pid)
		return 0;
	r->nslots = page->n_slots < RUT_USDT_CTL_SLOTS ? page->n_slots : RUT_USDT_CTL_SLOTS;
	r->slots = calloc(r->nslots + 1, sizeof(*r->slots));
	if (!r->slots)
		return rut_err_set(r->err, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < r->nslots; i++) {
		/* Events of a slot's former probe may still be in the ring. */
		rut_usdt_info_of(page, i, &r->slots[i]);
		if (!rut_usdt_metadata_knows(&r->slots[i]))
			r->slots[i].serial = 0;
	}
	return 1;
}

/* Bytes of a record's arguments, of which `left` are there at most; -1: it is no record. */
static int64_t payload_bytes(const struct rut_usdt_info *p, const unsigned char *at, uint64_t left)
{
	static const uint8_t sizes[RUTILE_USDT_TYPES] = {
		[RUTILE_USDT_U8] = 1,  [RUTILE_USDT_S8] = 1,  [RUTILE_USDT_BOOL] = 1,
		[RUTILE_USDT_U16] = 2, [RUTILE_USDT_S16] = 2, [RUTILE_USDT_U32] = 4,
		[RUTILE_USDT_S32] = 4, [RUTILE_USDT_U64] = 8, [RUTILE_USDT_S64] = 8,
		[RUTILE_USDT_F64] = 8,
	};
	uint64_t used = 0;

	for (unsigned i = 0; i < p->n_types; i++) {
		const unsigned char *nul;

		if (p->types[i] != RUTILE_USDT_STR) {
			used += sizes[p->types[i]];
			if (used > left)
				return -1;
			continue;
		}
		nul = memchr(at + used, 0, left - used);
		if (!nul)
			return -1;
		used = (uint64_t)(nul - at) + 1;
	}
	return (int64_t)used;
}

/* Lets the packet end behind its last record that can be read; returns how many there are. */
static uint64_t trim(const struct recovery *r, struct rut_packet *p, bool *ret_cut)
{
	const unsigned char *data = (const unsigned char *)p;
	uint64_t off = sizeof(*p), end = p->content_size / 8, n = 0, last = p->timestamp_begin;

	while (off + HEAD_BYTES <= end) {
		const struct rut_usdt_info *slot;
		uint64_t head;
		int64_t more;

		memcpy(&head, data + off, sizeof(head));
		slot = (head & 0xffff) < r->nslots ? &r->slots[head & 0xffff] : NULL;
		if (!slot || !slot->serial)
			break;
		more = payload_bytes(slot, data + off + HEAD_BYTES, end - off - HEAD_BYTES);
		if (more < 0)
			break;
		/* The word has the low 48 bits of the time. */
		last += ((head >> 16) - last) & ((1ull << 48) - 1);
		off += HEAD_BYTES + (uint64_t)more;
		n++;
	}
	*ret_cut = off != end;
	if (*ret_cut || p->timestamp_end < last)
		p->timestamp_end = last;
	p->content_size = off * 8;
	return n;
}

static int write_metadata(const struct recovery *r, int fd)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	struct rut_usdt_ring_user user;

	memcpy(&user, r->ctl->_user, sizeof(user));
	rut_usdt_metadata_head(&b, r->ctl->uuid, (pid_t)r->ctl->pid,
			       (int64_t)(user.real_ns - user.mono_ns));
	for (uint32_t i = 0; i < r->nslots; i++)
		if (r->slots[i].serial)
			rut_usdt_metadata_event(&b, &r->slots[i]);
	return b.failed ? -ENOMEM : rut_file_write(fd, b.data, b.len);
}

static int write_packets(const struct recovery *r, int fd, struct rut_usdt_recovered *found)
{
	const uint32_t shift = RUT_USDT_RING_SHIFT, count = RUT_USDT_RING_SUBBUFS;
	uint64_t last = (r->ctl->pos + (1ull << shift) - 1) >> shift;

	for (uint64_t i = last > count ? last - count : 0; i < last; i++) {
		struct rut_packet *p = (void *)(r->data + ((i & (count - 1)) << shift));
		bool cut = false;
		int rc;

		if (!rut_ring_salvage(r->ctl, shift, count, r->ctl->uuid, i, p)) {
			found->damaged++;
			continue;
		}
		found->events += trim(r, p, &cut);
		found->damaged += cut;
		rc = rut_file_write(fd, p, 1ull << shift);
		if (rc < 0)
			return rc;
		found->packets++;
	}
	return 0;
}

static int create(int dir, const char *name)
{
	return openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
}

/* DIR/ruby_static-PID; a name that exists is left alone. */
static int write_trace(const struct recovery *r)
{
	_cleanup_close_ int dir = -1, metadata = -1, stream = -1;
	struct rut_usdt_recovered found = {0};
	char path[PATH_MAX], name[32];
	int rc;

	snprintf(name, sizeof(name), "ruby_static-%u", r->ctl->pid);
	rc = rut_file_new_dir(path, sizeof(path), r->dir, name);
	if (rc < 0)
		return rut_err_errno(r->err, -rc, "cannot make the directory '%s'", path);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	metadata = dir < 0 ? -1 : create(dir, "metadata");
	stream = metadata < 0 ? -1 : create(dir, "stream");
	rc = stream < 0 ? -errno : write_metadata(r, metadata);
	if (!rc)
		rc = write_packets(r, stream, &found);
	if (rc < 0)
		return rut_err_errno(r->err, -rc, "cannot write '%s'", path);
	found.path = path;
	if (r->fn)
		r->fn(&found, r->arg);
	return 0;
}

static bool is_ours(const struct rut_ring_ctl *ctl)
{
	uint64_t magic;

	memcpy(&magic, ctl->_user, sizeof(magic));
	return magic == RUT_USDT_RING_MAGIC && ctl->version == RUT_RING_VERSION && ctl->pid &&
	       ctl->pid <= INT_MAX && ctl->subbuf_shift == RUT_USDT_RING_SHIFT &&
	       ctl->subbuf_count == RUT_USDT_RING_SUBBUFS;
}

/* One that belongs to no control page of the core cannot be read: not even how long its records
 * are. */
static int on_ring(struct recovery *r, uint64_t address)
{
	int rc;

	rut_core_copy(r->core, address, r->ctl, sizeof(*r->ctl));
	if (!is_ours(r->ctl))
		return 0;
	memset(r->data, 0, RING_BYTES);
	rut_core_copy(r->core, address + RUT_RING_CTL_SIZE, r->data, RING_BYTES);
	rc = each_page(r, RUT_USDT_CTL_MAGIC, take_slots);
	if (rc > 0) {
		rc = write_trace(r);
		r->rings++;
	}
	free(r->slots);
	r->slots = NULL;
	r->nslots = 0;
	return rc;
}

int rut_usdt_recover(const struct rut_core *core, const char *dir,
		     void (*fn)(const struct rut_usdt_recovered *found, void *arg), void *arg,
		     struct rut_err *err)
{
	struct recovery r = {.core = core, .dir = dir, .fn = fn, .arg = arg, .err = err};
	int rc;

	r.data = malloc(RING_BYTES);
	r.ctl = aligned_alloc(64, sizeof(*r.ctl));
	if (r.data && r.ctl)
		rc = each_page(&r, RUT_RING_MAGIC, on_ring);
	else
		rc = rut_err_set(err, ENOMEM, "out of memory");
	free(r.data);
	free(r.ctl);
	return rc < 0 ? rc : r.rings;
}
