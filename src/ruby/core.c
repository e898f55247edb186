/* SPDX-License-Identifier: MIT */
#include "ruby/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/event.h"
#include "base/cleanup.h"
#include "ring/ring.h"
#include "ruby/events.h"
#include "ruby/rows.h"
#include "ruby/table.h"

#define PAGE 4096

#define TABLE_MAX (64u << 20)

/* A copy of a table: of its memory only what was used is in the core. */
static struct rut_agent_table *read_table(const struct rut_core *core, uint64_t address,
					  size_t *ret_bytes)
{
	const unsigned char *at = rut_core_at(core, address, sizeof(struct rut_agent_table));
	struct rut_agent_table head, *table;

	if (!at)
		return NULL;
	memcpy(&head, at, sizeof(head));
	if (head.magic != RUT_TABLE_MAGIC || head.size_bytes < PAGE || head.size_bytes > TABLE_MAX)
		return NULL;
	table = calloc(1, head.size_bytes);
	if (table)
		rut_core_copy(core, address, table, head.size_bytes);
	*ret_bytes = head.size_bytes;
	return table;
}

/* The ring's session says where its table is; an older agent's is the only one, or it is not known.
 */
static uint64_t find_table(const struct rut_core *core, const struct rut_ring_ctl *ctl)
{
	uint64_t address, found = 0;
	uint32_t magic;

	memcpy(&address, ctl->_user, sizeof(address));
	if (address)
		return address;
	for (size_t i = 0; i < core->count; i++) {
		if (core->segments[i].bytes < sizeof(struct rut_agent_table))
			continue;
		memcpy(&magic, core->segments[i].data, sizeof(magic));
		if (magic == RUT_TABLE_MAGIC && found)
			return 0;
		if (magic == RUT_TABLE_MAGIC)
			found = core->segments[i].address;
	}
	return found;
}

/* Returns 1, 0 (it is nothing that can be read), or -errno. */
static int read_ring(const struct rut_core *core, uint64_t address, struct rut_tracer *t,
		     int (*begin)(const struct rut_ruby_core *, void *, struct rut_err *),
		     void *arg, struct rut_err *err)
{
	_cleanup_free_ struct rut_ring_ctl *ctl = NULL;
	_cleanup_free_ unsigned char *data = NULL;
	struct rut_ruby_core ring = {0};
	struct rut_tracee p = {0};
	const unsigned char *at = rut_core_at(core, address, sizeof(*ctl));
	size_t bytes;
	int rc;

	if (!at)
		return 0;
	if (posix_memalign((void **)&ctl, 64, sizeof(*ctl)))
		return rut_err_set(err, ENOMEM, "out of memory");
	memcpy(ctl, at, sizeof(*ctl));
	if (ctl->version != RUT_RING_VERSION || ctl->stream_id != RUT_EVENT_STREAM ||
	    ctl->subbuf_shift > 26 || ctl->subbuf_count > RUT_RING_MAX_SUBBUFS)
		return 0;
	bytes = (size_t)ctl->subbuf_count << ctl->subbuf_shift;
	if (!rut_core_at(core, address + RUT_RING_CTL_SIZE, bytes))
		return 0;
	p.table = read_table(core, find_table(core, ctl), &p.table_bytes);
	data = malloc(bytes);
	if (!data || !p.table) {
		free(p.table);
		return 0;
	}
	rut_core_copy(core, address + RUT_RING_CTL_SIZE, data, bytes);
	p.pid = ring.pid = (pid_t)ctl->pid;
	if (p.table->real0_ns)
		ring.clock_offset_ns = (int64_t)(p.table->real0_ns - p.table->mono0_ns);
	rc = begin(&ring, arg, err);
	if (!rc)
		rc = rut_events_tell_memory(t, &p, ctl, data, bytes, err);
	free(p.table);
	free(p.names);
	return rc < 0 ? rc : 1;
}

int rut_ruby_core_read(const struct rut_core *core,
		       int (*begin)(const struct rut_ruby_core *ring, void *arg,
				    struct rut_err *err),
		       rut_ruby_event_fn fn, void *arg, struct rut_err *err)
{
	int found = 0, rc = 0;

	for (size_t i = 0; i < core->count && rc >= 0; i++) {
		const struct rut_core_segment *s = &core->segments[i];

		/* The kernel may have put neighbours into one segment. */
		for (size_t off = 0; off + RUT_RING_CTL_SIZE <= s->bytes && rc >= 0; off += PAGE) {
			struct rut_tracer t = {.on_event = fn, .on_event_arg = arg};
			uint64_t magic;

			memcpy(&magic, s->data + off, sizeof(magic));
			if (magic != RUT_RING_MAGIC)
				continue;
			rc = read_ring(core, s->address + off, &t, begin, arg, err);
			rut_strtab_fini(&t.strings);
			found += rc > 0;
		}
	}
	return rc < 0 ? rc : found;
}
