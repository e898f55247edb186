/* SPDX-License-Identifier: MIT */
/*
 * The control page of a process that uses librutile-usdt: how it looks to the outside.
 *
 * One sealed memfd a process, named RUT_USDT_CTL_NAME and found by that name in /proc/PID/fd. It
 * holds a header of one page and a table of slots, one a probe. The process fills the slots; a tool
 * writes only `want` and `request`. Both sides treat what the other wrote as untrusted: the process
 * knows its probes by slot number and reads nothing else back, the tool copies what it shows.
 *
 * To switch probes a tool stores into `want` of their slots, adds 1 to `request` and wakes it as a
 * futex; each time a wish was carried out the process sets `want` to 0, adds 1 to `done` and wakes
 * that.
 *
 * To get events without the kernel a tool sets `ring_want`, waits until `ring_fd` is not negative,
 * maps that memfd (a ring of src/ring, control page first), gives it a UUID, sets `ring` of slots,
 * and adds 1 to `request`. A record is the header word with the slot's number as id, the thread as
 * 32 bits, then the arguments: integers and floats by their size, strings with their NUL. The ring
 * goes when `ring_want` is 0 again, or when `ring_beat` stands still: the tool died. In a core of
 * the process ring and slots are enough for a trace (recover.c): so the ring notes its clocks, and
 * a slot whose events may be in it is not given to another probe while there are others.
 */
#ifndef RUT_USDT_CTL_H
#define RUT_USDT_CTL_H

#include <stdint.h>

#include "rutile/usdt.h"

#define RUT_USDT_CTL_NAME  "rutile-usdt-ctl"
#define RUT_USDT_RING_NAME "rutile-usdt-ring"
#define RUT_USDT_CTL_MAGIC 0x3154445355545552ull /* "RUTUSDT1" */

enum { RUT_USDT_CTL_SLOTS = 4096, RUT_USDT_CTL_HEADER_BYTES = 4096 };

/* Of the ring: 64 KiB each, 4 MiB in all. */
enum { RUT_USDT_RING_SHIFT = 16, RUT_USDT_RING_SUBBUFS = 64, RUT_USDT_RING_LEASE_S = 10 };
/* Beside it, for who finds it in a core: `_user` of its control page. */
#define RUT_USDT_RING_MAGIC 0x474e495254445355ull /* "USDTRING" */

struct rut_usdt_ring_user {
	uint64_t magic;
	uint64_t mono_ns, real_ns; /* CLOCK_MONOTONIC and CLOCK_REALTIME when it was made */
};

/* Longer strings are cut in the ring. */
enum { RUT_USDT_RING_STR_MAX = 1023 };

enum { RUT_USDT_SLOT_FREE = 0, RUT_USDT_SLOT_USED = 1 };
enum { RUT_USDT_WANT_NOTHING = 0, RUT_USDT_WANT_ON = 1, RUT_USDT_WANT_OFF = 2 };
enum { RUT_USDT_SLOT_ON = 1, RUT_USDT_SLOT_DEFERRED = 2, RUT_USDT_SLOT_LOADED = 4 };

struct rut_usdt_slot {
	uint32_t state; /* stored last, with release */
	uint32_t flags;
	uint32_t want;
	uint32_t n_types;
	uint8_t types[RUTILE_USDT_MAX_ARGS]; /* enum rutile_usdt_type */
	uint32_t serial;		     /* differs for each probe that ever used the slot */
	uint64_t gate;			     /* address in the process; 0: not loaded */
	int32_t fd;			     /* of the object that has it; -1: none */
	uint32_t ring;			     /* the tool wants its events in the ring */
	uint64_t counts[RUTILE_USDT_COUNTS];
	char provider[RUTILE_USDT_NAME_MAX + 1];
	char name[RUTILE_USDT_NAME_MAX + 1];
};
_Static_assert(sizeof(struct rut_usdt_slot) == 48 + 8 * RUTILE_USDT_COUNTS + 256, "no padding");

struct rut_usdt_ctl {
	uint64_t magic;
	uint32_t slot_bytes;
	uint32_t n_slots; /* slots from here on were never used */
	int32_t pid;
	uint32_t request; /* futex; the tool adds 1 */
	uint32_t done;	  /* futex; the process adds 1 */
	/* The second path: a ring that the process makes for one tool at a time. */
	uint32_t ring_want; /* of the tool: it shall be there */
	uint32_t ring_beat; /* of the tool: changes at least every RUT_USDT_RING_LEASE_S seconds */
	int32_t ring_fd;    /* of the process: its memfd; < 0: none, -errno if making it failed */
	uint8_t reserved[RUT_USDT_CTL_HEADER_BYTES - 44];
	struct rut_usdt_slot slots[RUT_USDT_CTL_SLOTS];
};

#endif
