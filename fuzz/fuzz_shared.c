/* SPDX-License-Identifier: MIT */
/*
 * Memory shared with a process that may write anything into it: the agent's table and ring as the
 * tracer reads them, and the control page of static tracepoints. The input is a list of changes
 * (offset 16 bits, length 8 bits, bytes), applied between rounds of the readers.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/event.h"
#include "ring/ring.h"
#include "ruby/drain.h"
#include "ruby/events.h"
#include "ruby/table.h"
#include "ruby/tracee.h"
#include "usdt/remote.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAGE = 4096, RING_BYTES = 3 * PAGE, TABLE_BYTES = 4 * PAGE };

static unsigned char *ring, *table;
static int ring_fd;
static struct rut_usdt_ctl *page;
static size_t sum;

static void on_event(const struct rut_ruby_event *ev, void *arg)
{
	(void)arg;
	sum += ev->class_name ? strlen(ev->class_name) : 1;
	sum += ev->path ? strlen(ev->path) : 0;
	sum += ev->args ? strlen(ev->args) : 0;
	for (size_t i = 0; i < ev->caller_count; i++)
		sum += ev->callers[i].method_name ? strlen(ev->callers[i].method_name) : 0;
}

static void set_up(void)
{
	ring_fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (ring_fd < 0 || ftruncate(ring_fd, RING_BYTES) < 0)
		abort();
	ring = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, 0);
	table = aligned_alloc(PAGE, TABLE_BYTES);
	page = aligned_alloc(PAGE, (sizeof(*page) + PAGE - 1) / PAGE * PAGE);
	if (ring == MAP_FAILED || !table || !page)
		abort();
}

static void fill(void)
{
	struct rut_ring_ctl *c = (void *)ring;
	struct rut_agent_table *t = (void *)table;

	memset(ring, 0, RING_BYTES);
	memset(table, 0, TABLE_BYTES);
	memset(page, 0, sizeof(*page));
	*c = (struct rut_ring_ctl){.magic = RUT_RING_MAGIC,
				   .version = RUT_RING_VERSION,
				   .subbuf_shift = 12,
				   .subbuf_count = 2,
				   .stream_id = RUT_EVENT_STREAM,
				   .pos = PAGE + 88 + 24,
				   .commit = {PAGE, 88 + 24}};
	for (uint64_t i = 0; i < 2; i++) {
		struct rut_packet *p = (void *)(ring + PAGE + i * PAGE);
		struct rut_event_common *e = (void *)(p + 1);

		*p = (struct rut_packet){.magic = RUT_CTF_PACKET_MAGIC,
					 .content_size = (88 + 24) * 8,
					 .packet_size = PAGE * 8,
					 .packet_seq_num = i};
		e->header = RUT_RECORD_HEADER(RUT_EVENT_ID_CALL, 5);
	}
	*t = (struct rut_agent_table){.magic = RUT_TABLE_MAGIC,
				      .abi = RUT_AGENT_ABI,
				      .size_bytes = TABLE_BYTES,
				      .row_count = 2,
				      .row_cap = 100,
				      .rows_off = PAGE,
				      .strs_off = 3 * PAGE};
	for (int i = 0; i < 2; i++)
		((struct rut_agent_row *)(table + PAGE))[i] =
			(struct rut_agent_row){.calls = 3,
					       .class_name = 8,
					       .method = 8,
					       .path = 8,
					       .flags = RUT_ROW_NAMED};
	memcpy(table + 3 * PAGE + 8, "\3\0\0\0App", 8);
	page->magic = RUT_USDT_CTL_MAGIC;
	page->slot_bytes = sizeof(struct rut_usdt_slot);
	page->n_slots = 2;
	page->slots[0].state = page->slots[1].state = RUT_USDT_SLOT_USED;
}

/* Applies one change; returns the bytes of the input that it took. */
static size_t change(const uint8_t *data, size_t size)
{
	size_t at = (size_t)data[0] | (size_t)data[1] << 8, len = data[2] % 64 + 1;
	unsigned char *to;
	size_t room;

	len = len < size - 3 ? len : size - 3;
	switch (data[2] >> 6) {
	case 0:
		to = ring;
		room = RING_BYTES;
		break;
	case 1:
		to = table;
		room = TABLE_BYTES;
		break;
	case 2:
		to = ring + PAGE + (at >> 12 & 1) * PAGE; /* a packet's beginning */
		at %= 256;
		room = PAGE;
		break;
	default:
		to = (unsigned char *)page;
		room = PAGE + 2 * sizeof(struct rut_usdt_slot);
		at = at < 0x8000 ? at : PAGE + at % (2 * sizeof(struct rut_usdt_slot));
		break;
	}
	memcpy(to + at % (room - 64), data + 3, len);
	return 3 + len;
}

static void read_page(void)
{
	struct rut_usdt_remote r = {.pid = 0, .page = page};
	struct rut_usdt_info *list;
	size_t n;

	if (rut_usdt_remote_list(&r, &list, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		sum += strlen(list[i].name) + strlen(list[i].provider);
		for (unsigned k = 0; k < list[i].n_types; k++)
			sum += strlen(rut_usdt_type_name(list[i].types[k]));
		rut_usdt_remote_ask(&r, &list[i], true);
	}
	free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rut_tracee p = {.ctl_fd = -1, .pidfd = -1, .table_bytes = TABLE_BYTES};
	struct rut_tracee *tracees[1] = {&p};
	struct rut_tracer t = {.tracees = tracees, .count = 1, .on_event = on_event};
	const struct rut_ruby_row *rows;
	size_t n;

	if (!ring)
		set_up();
	fill();
	p.table = (void *)table;
	/* Some changes come before the ring is opened, the others while it is read. */
	if (size > 8 && data[0] & 1) {
		size_t taken = change(data + 1, size - 1) + 1;

		data += taken;
		size -= taken;
	}
	if (rut_events_open_at(&p, ring_fd, 0, RING_BYTES, NULL) < 0)
		return 0;
	for (;;) {
		rut_events_round(&t, NULL);
		rut_events_busy(&t);
		if (!rut_tracer_rows(&t, &rows, &n, NULL))
			for (size_t i = 0; i < n; i++)
				sum += rows[i].path ? strlen(rows[i].path) : 0;
		rut_tracer_reset(&t);
		read_page();
		if (size < 4)
			break;
		n = change(data, size);
		data += n;
		size -= n;
	}
	rut_events_close(&p);
	free(p.names);
	free(p.base);
	free(t.rows);
	rut_strtab_fini(&t.strings);
	return 0;
}
